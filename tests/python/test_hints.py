"""Hints of what will be needed, replayed from a file beside a workload."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tierscope as ts
from conftest import Runner
from tierscope.errors import TierscopeError

SYSTEM = "hybrid/quick"
SETS = (
    *("--set", "hybrid.prefetch_pages=0"),
    *("--set", "hybrid.cache.capacity=2MiB"),
    *("--set", "workload.table=4MiB"),
    *("--set", "workload.touched=true"),
    *("--set", "workload.updates=4000"),
)
#: Where built-in workloads have their memory.
TABLE = 0x10_0000_0000


@pytest.fixture
def hints(tmp_path: Path) -> Path:
    """The table, a part of it each 500 accesses, from its first update on and before."""
    lines = ["# ACCESSES ADDRESS BYTES", ""]
    lines += [f"{500 * part} {TABLE + part % 16 * 0x40000:#x} 256KiB" for part in range(1, 300)]
    file = tmp_path / "gups.hints"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def test_what_is_hinted_at_is_fetched_ahead(tierscope: Runner, hints: Path) -> None:
    def run(*more: str) -> dict[str, float]:
        done = tierscope("run", "-s", SYSTEM, "-w", "gups", *SETS, "--json", *more)
        assert done.returncode == 0, done.stderr
        counters: dict[str, float] = json.loads(done.stdout)["systems"][SYSTEM]["counters"]
        return counters

    alone, hinted = run(), run("--hints", str(hints))
    assert alone["prefetched_pages"] == 0
    assert hinted["prefetched_pages"] > 100


def test_python_takes_hints_and_the_result_names_the_file(hints: Path) -> None:
    work = ts.with_hints(ts.workload("gups", updates=500, table="1MiB"), hints)
    result = ts.run(SYSTEM, work)
    assert result.data["workload"]["parameters"]["hints"] == str(hints)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1 2", "line 1: it has 2 words"),
        ("# none\n\n7 0x10 4KiB\n6 0x10 4KiB", "line 4: 6 accesses come after the 7"),
        ("0 0x10 4KiB", "line 1: it comes before the first access"),
        ("# nothing", "it has no hints"),
    ],
)
def test_a_wrong_file_is_told_with_its_line(
    tierscope: Runner, tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "wrong.hints"
    file.write_text(text, encoding="utf-8")
    done = tierscope("run", "-s", SYSTEM, "-w", "gups", "--hints", str(file))
    assert done.returncode == 125
    assert "error[unreadable-file]" in done.stderr
    assert told in " ".join(done.stderr.split())


def test_what_takes_no_hints_says_so(tierscope: Runner, hints: Path, tmp_path: Path) -> None:
    for arguments in (
        ("-s", SYSTEM, "--hints", str(hints), "--", "true"),
        ("-s", "device/slc", "-w", "random", "--hints", str(hints)),
        ("-s", SYSTEM, "-w", "gups", "--hints", str(tmp_path / "none")),
    ):
        done = tierscope("run", *arguments)
        assert done.returncode == 125, arguments
        assert done.stderr.startswith("error["), arguments
    with pytest.raises(TierscopeError):
        ts.with_hints(ts.workload("gups"), 5)  # type: ignore[arg-type]
