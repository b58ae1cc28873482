"""Who causes misses and stalls: by memory, by function and by address of a program's code."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
import tierscope as ts
from conftest import Runner, needs_qemu
from rich.console import Console
from tierscope import causes, report
from tierscope._shape import CodeCost, Cost, ResultData
from tierscope.errors import ArgumentError, RunError

_TIGHT = [
    "-s",
    "hybrid/quick",
    "--set",
    "processor.caches.L3.capacity=320KiB",
    "--set",
    "hybrid.cache.capacity=2MiB",
]


def _row(file: str, function: str, address: int, stall_ns: float) -> CodeCost:
    cost: Cost = {
        "accesses": 10,
        "store_accesses": 2,
        "call_waits": 1,
        "memory_reads": 4,
        "latency_ns": 2 * stall_ns,
        "stall_ns": stall_ns,
    }
    return {"file": file, "function": function, "address": address, "hits": 90, "cost": cost}


@pytest.fixture
def told(sample: ResultData) -> ResultData:
    """A result of which one system tells its code."""
    for system in sample["systems"].values():
        system["code"] = None
    functions = [
        _row("/bin/app", "chase", 0x1100, 8e8),
        _row("/lib/libc.so.6", "copy", 0x500, 2e8),
        _row("/lib/libc.so.6", "copy", 0x900, 1e8),
        _row("/bin/app", "", 0x2200, 9e7),
        _row("[anonymous code]", "", 0x7F00_0000, 5e7),
        _row("", "[others]", 0, 6e8),
    ]
    addresses = [_row("/bin/app", "chase", 0x1100 + n, 1e6 * (20 - n)) for n in range(20)]
    sample["systems"]["hybrid/quick"]["code"] = {"functions": functions, "addresses": addresses}
    return sample


def _lines(data: ResultData, *by: causes.By, width: int = 100) -> list[str]:
    return report.render(data, Console(width=width), by=by).plain.splitlines()


def test_functions_are_told_with_their_file_and_their_sum(told: ResultData) -> None:
    lines = _lines(told, "function")
    start = next(i for i, line in enumerate(lines) if line.startswith("Threads stood still for"))
    rows = lines[start + 1 : start + 8]
    labels = [row[: row.index("  ", 2)].strip() for row in rows]
    assert labels == [
        "chase (app)",
        "copy at 0x500 (libc.so.6)",
        "copy at 0x900 (libc.so.6)",
        "app+0x2200",
        "[anonymous code] at 0x7f000000",
        "[others]",
        "all together",
    ]
    assert "800 ms" in rows[0]
    assert rows[0].split()[-1] == "–", "another system tells no code"
    assert "1.84 s" in rows[-1], "the sum of all rows"
    accesses = lines.index("Accesses")
    assert "100" in lines[accesses + 1].split()
    assert "600" in lines[accesses + 7].split()


def test_more_rows_than_are_shown_are_counted_and_in_the_sum(told: ResultData) -> None:
    blocks = dict(causes.blocks(told, "address"))
    rows = blocks["Accesses"]
    assert rows[0][0] == "  0x1100 chase (app)"
    assert rows[-2] == ("  and 8 more: --json", {})
    assert rows[-1][1]["hybrid/quick"] == "2.00 k"


def test_labels_are_given_the_room_that_there_is(told: ResultData) -> None:
    name = "a_function_with_a_rather_long_name_of_its_own"
    code = told["systems"]["hybrid/quick"]["code"]
    assert code is not None
    code["functions"][0]["function"] = name
    assert any(f"  {name} (app)" in line for line in _lines(told, "function", width=120))
    for width in (60, 80, 100):
        assert max(map(len, _lines(told, "area", "function", "address", width=width))) <= width


def test_what_a_result_does_not_tell_is_refused(told: ResultData) -> None:
    told["systems"]["hybrid/quick"]["code"] = {"functions": [], "addresses": None}
    result = ts.Result(told)
    assert "Threads stood still" in result.report(by="function")
    assert "Threads stood still" in result.report(by=["area", "function"])
    with pytest.raises(RunError, match="does not tell misses and stalls by address") as refused:
        result.report(by="address")
    assert refused.value.hint == "run it again with --by address"
    with pytest.raises(ArgumentError, match="`by` is 'line'"):
        result.report(by="line")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="`by` is 5"):
        result.report(by=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("by", ["function", "address"])
def test_a_generated_workload_has_no_code(tierscope: Runner, by: causes.By) -> None:
    with pytest.raises(RunError, match=f"gups has no code whose {by}"):
        ts.run("oracle/quick", "gups", by=by)
    shown = tierscope("run", "-s", "oracle/quick", "-w", "gups", "--by", by, "--dry-run")
    assert shown.returncode != 0
    assert shown.stderr.startswith("error[no-code]: the generated workload gups has no code")
    assert "Traceback" not in shown.stderr


def _chaser(tmp_path: Path) -> str:
    """A program one of whose functions misses, and the other does not."""
    source = Path(__file__).parents[1] / "guest" / "blame.c"
    program = str(tmp_path / "chaser")
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-o", program, source], check=True)
    return program


def _accesses(rows: Iterable[CodeCost]) -> int:
    return sum(row["hits"] + row["cost"]["accesses"] for row in rows)


@needs_qemu
def test_a_program_is_told_by_function_live_and_kept(tierscope: Runner, tmp_path: Path) -> None:
    program = _chaser(tmp_path)
    shown = tierscope("run", *_TIGHT, "--by", "function", "-o", "kept", "--", program)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Threads stood still for"))
    assert lines[start + 1].startswith("  chase_far (chaser)")
    system = ts.load(tmp_path / "kept")["hybrid/quick"]
    code = system["code"]
    assert code is not None
    assert code["addresses"] is None
    assert _accesses(code["functions"]) == system["accesses"]
    again = tierscope("show", "kept", "--by", "function", "--by", "area")
    assert "  chase_far (chaser)" in again.stdout
    refused = tierscope("show", "kept", "--by", "address")
    assert refused.stderr.startswith("error[no-code]: the result does not tell")


@needs_qemu
def test_a_recording_tells_what_it_was_made_to_tell(tierscope: Runner, tmp_path: Path) -> None:
    program = _chaser(tmp_path)
    for name, by in {"plain": (), "by-function": ("--by", "function")}.items():
        made = tierscope("record", "-q", "-o", f"{name}.tst", *by, "--", program)
        assert made.returncode == 0, made.stderr
    info = tierscope("trace", "info", "by-function.tst").stdout
    assert "told by function\n" in info
    replay = ("run", *_TIGHT, "--json", "-w")
    told = json.loads(tierscope(*replay, "trace:by-function.tst", "--by", "function").stdout)
    untold = json.loads(tierscope(*replay, "trace:by-function.tst").stdout)
    plain = json.loads(tierscope(*replay, "trace:plain.tst").stdout)
    systems = [run["systems"]["hybrid/quick"] for run in (told, untold, plain)]
    codes = [system.pop("code") for system in systems]
    assert codes[1:] == [None, None]
    assert codes[0]["functions"][0]["function"] == "chase_far"
    assert _accesses(codes[0]["functions"]) == systems[0]["accesses"]
    for system in systems:
        del system["wall_s"], system["accesses_per_wall_s"]
    assert systems[0] == systems[1], "to tell it changes no figure"
    assert systems[0]["instructions"] == systems[2]["instructions"]
    refused = tierscope(*replay, "trace:plain.tst", "--by", "function")
    assert refused.stderr.startswith("error[no-code]: the workload does not say where")
    refused = tierscope(*replay, "trace:by-function.tst", "--by", "address")
    assert "record it again with --by address" in refused.stderr


@needs_qemu
def test_python_tells_addresses_too(tmp_path: Path) -> None:
    result = ts.run("hybrid/quick", ts.program(_chaser(tmp_path)), by=["function", "address"])
    (system,) = (result[name] for name in result)
    code = system["code"]
    assert code is not None
    assert code["addresses"] is not None
    assert _accesses(code["addresses"]) == system["accesses"]
    worst = code["addresses"][0]
    (label,) = causes.code_labels(
        [(worst["file"], worst["function"], worst["address"])], "address"
    ).values()
    assert label in result.report(100, by="address")


def test_of_a_path_that_is_cut_the_end_stays(sample: ResultData) -> None:
    path = "  /srv/a/very/long/way/down/to/data/test.db"
    assert causes.shortened(path, 60, "area") == path
    assert causes.shortened(path, 18, "area") == "  …to/data/test.db"
    assert causes.shortened("  a_long_function (app)", 12, "function") == "  a_long_fu…"
    cost = sample["systems"]["hybrid/quick"]["areas"].pop("/srv/db/test.db")
    folders = [f"/srv/of/the/{day}/day/of/the/week" for day in ("first", "last")]
    areas = {f"{folder}/test.db": cost for folder in folders}
    sample["systems"]["hybrid/quick"]["areas"] |= areas
    labels = [line[:26].strip() for line in _lines(sample, "area", width=70)]
    assert "…day/of/the/week/test.db" in labels
