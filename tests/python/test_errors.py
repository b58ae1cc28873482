"""What is wrong is told: in these words, with this status, and nothing is left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from conftest import HAS_QEMU, WITHOUT_QEMU
from tierscope import _core
from tierscope.cli import main

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "tests/data/wrong-commands.toml"
DESCRIPTIONS = ROOT / "tests/data/wrong-specs.toml"
CASES: list[dict[str, Any]] = tomllib.loads(TABLE.read_text())["case"]
BLESS = "TIERSCOPE_BLESS" in os.environ
TRUE = shutil.which("true") or "/usr/bin/true"
"""A program that does nothing, `{true}` in the table: where it lies differs between systems."""

ELSEWHERE = {
    "in-use": "test_sweep.py",
    "no-altair": "test_page.py",
    "no-dask": "test_sweep_cluster.py",
    "no-vega": "test_page.py",
    "no-scheduler": "test_sweep_cluster.py",
    "other-version": "test_sweep_cluster.py",
    "internal": "test_cli.py",
    "no-footprint": "test_scale.py",
    "unknown-footprint": "test_scale.py",
    "not-told": "test_distributions.py",
}
"""Codes that need more than a command: the tests that show them."""

IMPOSSIBLE = {
    "no-thread": "the system refuses a thread",
    "not-started": "the system refuses a process or a folder for it",
    "no-recorder": "the package has lost its recorder",
    "bad-path": "a folder for temporary files with a comma, which the emulator cannot be told",
    "still-running": "the package asks for what a run gives before it has ended",
}
"""Codes that no test makes come: why they are there."""


def lay_out(folder: Path, files: dict[str, str]) -> dict[str, bytes]:
    """Writes a case's files; what all files of the folder hold."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        raw = bytes.fromhex(text[4:]) if text.startswith("hex:") else text[4:].encode("latin-1")
        path.write_bytes(raw if text[:4] in {"hex:", "exe:"} else text.encode())
        path.chmod(0o755 if text.startswith("exe:") else 0o644)
    return contents(folder)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_wrong_command_is_told_in_these_words(
    case: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if case.get("needs") == "qemu" and not HAS_QEMU:
        pytest.skip(WITHOUT_QEMU)
    before = lay_out(tmp_path, case.get("files", {}))
    monkeypatch.chdir(tmp_path)
    environment = case.get("environment", {})
    if "PATH" in environment:
        monkeypatch.delenv("TIERSCOPE_QEMU", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value.replace("{here}", str(tmp_path)))
    status = main([argument.replace("{true}", TRUE) for argument in case["arguments"]])
    shown = capfd.readouterr()
    errors = shown.err.replace(f"{tmp_path}/", "").replace(str(tmp_path), ".")
    errors = errors.replace(TRUE, "{true}")
    if BLESS:
        bless(case["name"], status, errors)
    else:
        assert errors == case["errors"]
        assert status == case["status"]
        assert re.match(r"error\[[a-z-]+\]: ", errors)
    # Of a run that fails on its way, what came before is told.
    assert shown.out == "" or errors.startswith("error[run-failed]")
    assert status not in {0, None}
    assert contents(tmp_path) == before, "nothing is written, changed or left behind"


def test_every_code_is_in_a_table() -> None:
    told = set(re.findall(r"error\[([a-z-]+)\]", TABLE.read_text() + DESCRIPTIONS.read_text()))
    for code, file in ELSEWHERE.items():
        assert re.search(rf"\b{code}\b", (ROOT / "tests/python" / file).read_text()), code
    apart = set(ELSEWHERE) | set(IMPOSSIBLE)
    known = told | apart | {code for _, _, code in BETWEEN}
    assert sorted(codes() - known) == [], "codes that no case shows"
    assert sorted(apart - codes()) == [], "codes that nothing gives"
    assert sorted(apart & told) == [], "codes that a case does show"


def test_what_a_case_may_say_is_known() -> None:
    keys = {"name", "arguments", "files", "environment", "needs", "status", "errors"}
    assert {key for case in CASES for key in case} <= keys
    assert {case["needs"] for case in CASES if "needs" in case} == {"qemu"}
    names = [case["name"] for case in CASES]
    assert len(set(names)) == len(names)


def test_the_tables_are_of_all_that_can_be_wrong() -> None:
    """Descriptions, arguments, programs, and files of traces: a hundred at least."""
    descriptions = tomllib.loads(DESCRIPTIONS.read_text())["case"]
    assert len(descriptions) >= 100
    assert len(CASES) >= 100
    programs = [case for case in CASES if "--" in case["arguments"] or case.get("needs")]
    files = [
        case
        for case in CASES
        if any(re.match(r"(trace|[a-z0-9-]+):", one) for one in case["arguments"])
    ]
    assert min(len(programs), len(files)) >= 20


ORACLE = json.loads(_core.resolve("oracle/quick", "{}", []))["spec"]


def job(*systems: dict[str, Any]) -> str:
    """A run as the compiled part is asked for it."""
    gups = {"kind": "generated", "name": "gups", "parameters": {}, "seed": 1}
    return json.dumps({"systems": systems, "workload": gups})


BETWEEN: list[tuple[str, tuple[Any, ...], str]] = [
    ("schema", ("moon",), "no-schema"),
    ("resolve", (None, "{", []), "bad-json"),
    ("scale", ("{", 1), "bad-systems"),
    ("sizes", ("{",), "bad-systems"),
    ("applies_to", ("{", "os.page", False), "bad-systems"),
    ("check_workload", ("{",), "bad-workload"),
    ("print_quantity", ("moon", 1), "no-kind"),
    ("Run.start", ("{",), "bad-job"),
    ("Run.start", (job(),), "no-system"),
    ("Run.start", (job(ORACLE, ORACLE),), "same-name"),
]
"""What the package never asks of its compiled part, and what that says to whoever does."""


@pytest.mark.parametrize(("function", "arguments", "code"), BETWEEN)
def test_the_compiled_part_refuses_what_the_package_never_asks(
    function: str, arguments: tuple[Any, ...], code: str
) -> None:
    with pytest.raises(_core.RunError) as raised:
        attrgetter(function)(_core)(*arguments)
    assert raised.value.args[0] == code


def codes() -> set[str]:
    """Every code that the sources name."""
    raised = re.compile(r"\b(?:\w*Error|run_error|problem|fail)\(\s*\"([a-z]+(?:-[a-z]+)*)\",")
    launched = re.compile(r"LaunchError::[^\"]*=> \"([a-z-]+)\"")
    found: set[str] = set()
    for path in [*ROOT.glob("python/tierscope/**/*.py"), *ROOT.glob("crates/python/src/**/*.rs")]:
        text = path.read_text()
        found |= set(raised.findall(text)) | set(launched.findall(text))
    return found


def bless(name: str, status: int, errors: str) -> None:
    """Writes what is said into the table."""
    head, case, tail = TABLE.read_text().partition(f"name = {json.dumps(name)}\n")
    body, rest = tail.split("status = ", 1)
    _, _, rest = rest.partition('errors = """\n')
    _, _, rest = rest.partition('"""\n')
    text = errors.replace("\\", "\\\\")
    TABLE.write_text(f'{head}{case}{body}status = {status}\nerrors = """\n{text}"""\n{rest}')
