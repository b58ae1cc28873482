"""`tierscope doctor`: what this computer has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Runner
from tierscope import _computer


def need(found: dict[str, Any], name: str) -> dict[str, Any]:
    """The need of that name."""
    (one,) = [need for need in found["needs"] if need["name"] == name]
    return dict(one)


def test_where_all_is_there_the_status_is_0_and_the_recorder_was_tried(tierscope: Runner) -> None:
    shown = tierscope("doctor", "--json")
    found = json.loads(shown.stdout)
    assert (shown.returncode, found["ready"]) == (0, True), shown.stdout
    assert need(found, "Recorder")["found"].startswith("works: recorded ")
    assert need(found, "QEMU with plugins")["found"].startswith(("/", "."))
    for one in found["needs"]:
        assert all(one[key] for key in ("found", "needed_for", "without", "get")), one


def test_the_table_says_what_there_is_and_what_it_is_for(tierscope: Runner) -> None:
    shown = tierscope("doctor").stdout
    for name in ("QEMU with plugins", "Recorder", "Space in TMPDIR", "SQLite's command line"):
        assert f"ok  {name}" in shown
    assert "for running and recording programs" in shown
    assert shown.endswith("Programs can be run on machines here.\n")


def test_without_qemu_the_status_is_1_and_the_mend_is_told(
    tierscope: Runner, tmp_path: Path
) -> None:
    shown = tierscope("doctor", PATH=str(tmp_path), TIERSCOPE_QEMU="")
    assert shown.returncode == 1
    assert "MISSING  QEMU with plugins" in shown.stdout
    assert "qemu-x86_64 was not found in PATH" in " ".join(shown.stdout.split())
    assert "to get it: apt-get install qemu-user" in shown.stdout
    assert "less     SQLite's command line" in shown.stdout, "what is not essential is no failure"
    assert shown.stdout.endswith("Programs cannot be run on machines here yet.\n")


def test_a_scratch_directory_that_cannot_be_written_is_told(
    tierscope: Runner, tmp_path: Path
) -> None:
    shown = tierscope("doctor", "--json", TMPDIR=str(tmp_path / "nowhere"))
    found = json.loads(shown.stdout)
    assert (shown.returncode, found["ready"]) == (1, False)
    space = need(found, "Space in TMPDIR")
    assert not space["present"]
    assert "nowhere cannot be written to: No such file" in space["found"]


def test_a_recorder_that_is_not_there_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_computer, "RECORDER", tmp_path / "nothing.so")
    (recorder,) = [n for n in _computer.needs(columns=80, unicode=True) if n.name == "Recorder"]
    assert not recorder.present
    assert recorder.found == f"{tmp_path}/nothing.so is not there"


def test_a_recorder_that_does_not_work_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    qemu = tmp_path / "qemu-x86_64"
    qemu.write_text(
        "#!/bin/sh\ncase $1 in\n--version) echo qemu-x86_64 version 9.9.9;;\n-h) echo -plugin;;\n"
        "*) echo refused >&2; exit 1;;\nesac\n",
        encoding="utf-8",
    )
    qemu.chmod(0o755)
    monkeypatch.setenv("TIERSCOPE_QEMU", str(qemu))
    found = {n.name: n for n in _computer.needs(columns=80, unicode=True)}
    assert found["QEMU with plugins"].present
    assert not found["Recorder"].present
    assert found["Recorder"].found.startswith("recording `true` failed: ")


def test_a_narrow_terminal_is_no_failure(tierscope: Runner) -> None:
    shown = tierscope("doctor", COLUMNS="60", PYTHONUTF8="0", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert shown.returncode == 0, shown.stderr
    assert "60 columns, no Unicode" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 60


def test_json_goes_to_a_file_beside_the_table(tierscope: Runner, tmp_path: Path) -> None:
    shown = tierscope("doctor", "--json=found.json")
    assert "Recorder" in shown.stdout
    assert json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["ready"] is True
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]
