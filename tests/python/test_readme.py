"""README's commands and examples, run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import HAS_QEMU, WITHOUT_QEMU
from tierscope import table
from tierscope._shape import ResultData

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """What stands behind a prompt, but for the chores."""
    lines = [line for block in blocks("console") for line in block.splitlines()]
    shown = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [command for command in shown if not command.startswith("make")]


@pytest.mark.parametrize("command", commands())
def test_each_command_of_the_readme_runs(command: str, tmp_path: Path) -> None:
    if " -- " in command and not HAS_QEMU:
        pytest.skip(WITHOUT_QEMU)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONUTF8": "1",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", blocks("python"))
def test_each_python_example_of_the_readme_runs(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})


def test_the_table_of_the_readme_has_the_rows_that_the_report_has(sample: ResultData) -> None:
    shown = README.partition("## How to read the output")[2].split("```")[1].strip("\n")
    heading, *lines = shown.splitlines()
    assert heading.split() == list(sample["systems"])
    rows = table.rows(sample)
    assert [re.split(r" {3,}", line)[0] for line in lines] == [label for label, _ in rows]
    assert {len(line) for line in [heading, *lines]} == {len(heading)}, "cells stand below names"
