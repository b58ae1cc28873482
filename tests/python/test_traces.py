"""Traces converted and looked into."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tierscope as ts
from conftest import Runner, wait_until
from tierscope._trace import Passed

TRACE = "".join(
    f"{number * 7919 % 4096 * 64:#x} {'WRITE' if number % 3 == 0 else 'READ'} {number * 10}\n"
    for number in range(3000)
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Three thousand requests for 256 KiB, a third of them writes."""
    file = tmp_path / "app.trc"
    file.write_text(TRACE, encoding="utf-8")
    return file


def test_a_trace_converted_there_and_back_is_the_same(trace: Path, tmp_path: Path) -> None:
    there = ts.convert(f"dramsim3:{trace}", f"hybridsim:{tmp_path / 'x.gz'}")
    assert (there.read, there.written, there.packed) == (3000, 3000, "gzip")
    assert (there.lost, there.notices) == ([], [])
    assert there.file_bytes == (tmp_path / "x.gz").stat().st_size
    text = gzip.decompress((tmp_path / "x.gz").read_bytes()).decode()
    assert text.splitlines()[1] == f"10 0 {7919 % 4096 * 64}"
    ts.convert(f"hybridsim:{tmp_path / 'x.gz'}", f"dramsim3:{tmp_path / 'back'}")
    assert (tmp_path / "back").read_text(encoding="utf-8") == TRACE


def test_what_is_lost_is_said(tierscope: Runner, tmp_path: Path) -> None:
    log = "fio version 3 iolog\n5 a write 64 100\n6 a sync 0 0\n7 a trim 0 4096\n9 a read 0 64"
    (tmp_path / "x.log").write_text(log, encoding="utf-8")
    shown = tierscope("convert", "fio:x.log", "ramulator:x.trc.xz")
    assert (shown.returncode, shown.stdout) == (0, "")
    first, *lost = shown.stderr.splitlines()
    assert first.startswith("tierscope: x.trc.xz: 3 requests, of 4 read, ")
    assert lost == [
        "tierscope: times were left out: ramulator has none",
        "tierscope: 1 flushes were left out: ramulator has none",
        "tierscope: 1 trims were left out: ramulator has none",
        "tierscope: 1 requests lost their sizes: those of ramulator are for whole lines",
        "tierscope: the last line of x.log has no end: if the trace was cut there, that line is "
        "not as it was",
    ]
    text = lzma.decompress((tmp_path / "x.trc.xz").read_bytes()).decode()
    assert text == "0x40 W\n0x80 W\n0x0 R\n"
    assert tierscope("convert", "fio:x.log", "ramulator:x.trc", "--quiet").stderr == ""


def test_what_threads_do_becomes_a_recording(tierscope: Runner, tmp_path: Path) -> None:
    sets = ["--set", "workload.updates=20000", "--set", "workload.threads=3"]
    done = tierscope("convert", "gups", "g.tst", *sets)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("tierscope: g.tst: 40.0 k accesses, ")
    recording = tmp_path / "g.tst"
    there = ts.trace_info(f"trace:{recording}").profile
    made = ts.trace_info(ts.workload("gups", updates=20000, threads=3)).profile
    assert there is not None
    assert made is not None
    assert (there["reads"], there["writes"]) == (20_000, 20_000)
    assert there["reuse"] == made["reuse"]
    assert tierscope("convert", "gups", "g.tst").stderr.startswith("error[exists]")
    part = tierscope("convert", "g.tst", "trace:part.tst", "--limit", "5000")
    assert "only its first 5000 accesses were asked for" in part.stderr
    # The region of interest is that of the workload itself.
    sets = ["--set", "workload.steps=2000", "--set", "workload.table=256KiB"]
    chased = tierscope("convert", "chase", "chase.tst", *sets)
    assert "tierscope run --roi runs that" in chased.stderr
    runs = [
        tierscope("run", "-q", "-s", "oracle/quick", "-w", *of, "--json")
        for of in (["chase", *sets], ["trace:chase.tst", "--roi"])
    ]
    itself, replayed = (json.loads(one.stdout) for one in runs)
    for result in (itself, replayed):
        assert result["completeness"] == "complete"
    itself, replayed = (one["systems"]["oracle/quick"] for one in (itself, replayed))
    for key in ("wall_s", "accesses_per_wall_s"):
        del itself[key], replayed[key]
    assert itself == replayed
    # A trace of a program, by its instructions.
    (tmp_path / "app.lackey").write_text(
        "I  400,4\n L 1000,8\nI  404,4\n S 2000,8\n", encoding="utf-8"
    )
    assert tierscope("convert", "lackey:app.lackey", "app.tst").returncode == 0
    info = json.loads(tierscope("trace", "info", "app.tst", "--json").stdout)
    assert info["recording"]["instructions"] == 2
    for source, target, said in [
        ("random", "r.tst", "error[wrong-workload]"),
        ("gups", "trace:r.tst.gz", "error[unwritable]"),
        ("g.tst", "g.tst", "error[unwritable]"),
    ]:
        refused = tierscope("convert", source, target)
        assert refused.stderr.startswith(said), refused.stderr
    assert tierscope("convert", "gups", "r.tst", "--interval", "5ns").stderr.startswith(
        "error[no-eff"
    )
    assert not (tmp_path / "r.tst").exists()


def test_what_the_standard_output_is_redirected_to_is_written_to(tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    with out.open("a", encoding="utf-8") as to:
        to.write("before\n")
        to.flush()
        for replace in ([], ["--replace"]):
            command = [
                sys.executable,
                "-m",
                "tierscope",
                "convert",
                "gups",
                "ramulator:/dev/stdout",
            ]
            subprocess.run([*command, "--limit", "2", "-q", *replace], stdout=to, check=True)
    lines = out.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "before"
    assert lines[1:3] == lines[3:]
    assert [line[-1] for line in lines[1:3]] == ["R", "W"]


def test_a_file_that_is_there_is_replaced_only_if_asked(trace: Path) -> None:
    target = trace.with_name("there.trc")
    target.write_text("mine", encoding="utf-8")
    with pytest.raises(ts.RunError, match="is there already") as refused:
        ts.convert(f"dramsim3:{trace}", f"ramulator:{target}")
    assert refused.value.code == "exists"
    assert target.read_text(encoding="utf-8") == "mine"
    ts.convert(f"dramsim3:{trace}", f"ramulator:{target}", replace=True)
    assert target.read_text(encoding="utf-8").startswith("0x0 W\n")


@pytest.mark.parametrize("replace", [False, True])
def test_what_has_the_name_of_a_half_written_file_is_left_alone(trace: Path, replace: bool) -> None:
    target = trace.with_name("new.trc")
    partial = trace.with_name("new.trc.partial")
    partial.write_text("mine", encoding="utf-8")
    with pytest.raises(ts.RunError, match=r"new\.trc\.partial is there") as refused:
        ts.convert(f"dramsim3:{trace}", f"ramulator:{target}", replace=replace)
    assert refused.value.code == "unwritable"
    assert partial.read_text(encoding="utf-8") == "mine"
    assert not target.exists()
    partial.unlink()
    ts.convert(f"dramsim3:{trace}", f"ramulator:{target}")
    assert not partial.exists()


def test_nothing_is_left_of_a_conversion_that_failed(trace: Path) -> None:
    trace.write_text(f"{TRACE}0x40 NOTHING 99999\n", encoding="utf-8")
    with pytest.raises(ts.RunError, match="line 3001"):
        ts.convert(f"dramsim3:{trace}", f"ramulator:{trace.with_name('new.trc')}")
    assert [path.name for path in trace.parent.iterdir()] == [trace.name]


def test_an_interrupted_conversion_writes_nothing(tmp_path: Path) -> None:
    def interrupt(_: Passed) -> None:
        raise KeyboardInterrupt

    work = ts.workload("zipf", requests=200_000_000)
    with pytest.raises(KeyboardInterrupt):
        ts.convert(work, f"ramulator:{tmp_path / 'x.trc'}", watch=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_look_tells_what_was_found() -> None:
    seen: list[Passed] = []

    def interrupt(passed: Passed) -> None:
        before = any(one.requests for one in seen)
        seen.append(passed)
        if passed.requests and not before:
            raise KeyboardInterrupt

    info = ts.trace_info(ts.workload("zipf", requests=200_000_000), watch=interrupt)
    assert info.profile is not None
    assert info.profile["interrupted"]
    assert not info.profile["complete"]
    assert 0 < info.profile["touches"] < 200_000_000
    assert seen[-1].share is not None
    assert 0 < seen[-1].share < 1
    assert "of a part of the trace" in " ".join(info.table().split())


def test_a_limit_takes_the_first_requests(trace: Path, tmp_path: Path) -> None:
    ts.convert(f"dramsim3:{trace}", f"dramsim3:{tmp_path / 'x'}", limit=7)
    assert (tmp_path / "x").read_text(encoding="utf-8") == "".join(TRACE.splitlines(True)[:7])
    info = ts.trace_info(f"dramsim3:{trace}", limit=7)
    assert info.remarks[-1] == "Of the first 7 alone, as the limit says."
    assert ts.trace_info(f"dramsim3:{trace}", limit=10**6).remarks == []
    assert info.profile is not None
    assert (info.profile["complete"], info.profile["touches"]) == (False, 7)


def test_patterns_and_workloads_of_threads_are_traces_too(tmp_path: Path) -> None:
    work = ts.workload("gups", updates=100, threads=2)
    done = ts.convert(work, f"lackey:{tmp_path / 'x.trc'}")
    assert done.written == 200
    assert [one.partition(" threads ")[0] for one in done.lost] == ["2"]
    lines = (tmp_path / "x.trc").read_text(encoding="utf-8").splitlines()
    accesses = [line for line in lines if not line.startswith("I")]
    assert [line[:2] for line in accesses[:4]] == [" L", " S", " L", " S"]
    pattern = ts.workload("sequential", requests=10, reads=1.0)
    ts.convert(pattern, f"ramulator:{tmp_path / 'y.trc'}", line="128B")
    text = (tmp_path / "y.trc").read_text(encoding="utf-8")
    assert text == "".join(f"{128 * number:#x} R\n" for number in range(10))


def test_a_trace_is_told_as_a_table_as_numbers_and_as_a_picture(
    tierscope: Runner, trace: Path
) -> None:
    shown = tierscope("trace", "info", "dramsim3:app.trc", "--json=x.json", "--plot", "x.svg")
    assert (shown.returncode, shown.stderr) == (0, "")
    for said in (
        "Requests:               3.00 k: 66.7 % reads, 33.3 % writes",
        "Duration:               30.0 k cycles",
        "Footprint:              188 KiB: 3.00 k blocks of 64 B, 33.3 % of them written",
    ):
        assert said in shown.stdout
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert ["256", "KiB", "100.0", "–", *["100.0"] * 4] in rows
    profile = json.loads((trace.parent / "x.json").read_text(encoding="utf-8"))["profile"]
    assert (profile["reads"], profile["writes"], profile["touches"]) == (2000, 1000, 3000)
    assert profile["reuse"] == [{"distance_blocks": None, "touches": 3000.0}]
    assert {row["miss_ratio"] for row in profile["set_associative"]} == {1.0}
    assert (trace.parent / "x.svg").read_text(encoding="utf-8").count("<svg") == 1
    again = tierscope("trace", "info", "dramsim3:app.trc", "--json")
    assert json.loads(again.stdout)["profile"] == profile


def test_caches_of_a_loop_hit_from_its_size_on(tmp_path: Path) -> None:
    loop = "".join(f"{64 * (number % 100):#x} R\n" for number in range(10_000))
    (tmp_path / "x.trc").write_text(loop, encoding="utf-8")
    info = ts.trace_info(f"ramulator:{tmp_path / 'x.trc'}")
    found = info.profile
    assert found is not None
    curve = {row["cache_bytes"]: row["miss_ratio"] for row in found["miss_ratio"]}
    # A hundred blocks come again at a distance of a hundred, in the range that ends at 112.
    assert curve[112 * 64] == pytest.approx(0.01)
    assert [ratio for size, ratio in curve.items() if size < 6400] == [1.0]
    sets = {(row["sets"], row["ways"]): row["miss_ratio"] for row in found["set_associative"]}
    # Of 64 sets, 36 have two blocks and 28 have one.
    assert sets[(64, 1)] == pytest.approx((72 * 100 + 28) / 10_000)
    assert sets[(64, 2)] == pytest.approx(0.01)
    assert info.plot().axes[0].get_title() == "Miss ratio by size of cache"


def test_a_terminal_that_has_no_bars_is_told_in_ascii(tierscope: Runner, trace: Path) -> None:
    assert trace.exists()
    shown = tierscope("trace", "info", "dramsim3:app.trc", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert shown.returncode == 0
    assert shown.stdout.isascii()
    assert "?" not in shown.stdout


def test_a_trace_of_a_program_runs_on_machines_with_a_processor(tmp_path: Path) -> None:
    lines = "".join(f"I  {4 * n:x},4\n L {64 * n:x},8\nI  0,2\n" for n in range(2000))
    (tmp_path / "x.lackey").write_text(f"==1== Lackey\n{lines}", encoding="utf-8")
    result = ts.compare(["oracle/quick", "hybrid/quick"], f"lackey:{tmp_path / 'x.lackey'}")
    for system in result.data["systems"].values():
        assert (system["accesses"], system["instructions"]) == (2000, 4000)
    assert result.data["workload"]["threads"] == 1
    alone = ts.run("device/ddr4-2400", f"lackey:{tmp_path / 'x.lackey'}")
    assert alone.data["systems"]["device/ddr4-2400"]["accesses"] == 2000


def test_threads_of_a_trace_run_side_by_side(tmp_path: Path) -> None:
    lines = [f"{n} {'RW'[n % 2]} {n * 7919 % 65536 * 64:x} 00 {n % 3}\n" for n in range(6000)]
    (tmp_path / "x.nv").write_text("".join(lines), encoding="utf-8")
    one = [line[: line.rindex(" ")] + " 0\n" for line in lines]
    (tmp_path / "one.nv").write_text("".join(one), encoding="utf-8")

    def ran(file: str, cores: int = 3) -> dict[str, Any]:
        machine = ts.system("oracle/quick").with_sets([("processor.cores", str(cores))])
        result = ts.run(machine, f"nvmain:{tmp_path / file}")
        system = result.data["systems"]["oracle/quick"]
        assert (system["accesses"], system["instructions"]) == (6000, 6000)
        return {"threads": result.data["workload"]["threads"], "time_s": system["time_s"]}

    together, alone = ran("x.nv"), ran("one.nv")
    assert (together["threads"], alone["threads"]) == (3, 1)
    assert together["time_s"] < 0.6 * alone["time_s"]
    with pytest.raises(ts.RunError, match=r"of thread 2, and 2 others .* the machine has 2; set"):
        ran("x.nv", cores=2)


def test_several_files_of_a_trace_are_its_threads(tmp_path: Path, tierscope: Runner) -> None:
    for name in ("a", "b"):
        lines = "".join(f"I  {4 * n:x},4\n L {64 * n:x},8\n" for n in range(2000))
        (tmp_path / f"{name}.lackey").write_text(lines, encoding="utf-8")
    both = f"lackey:{tmp_path / 'a.lackey'},{tmp_path / 'b.lackey'}"
    result = ts.run("oracle/quick", both)
    assert result.data["workload"]["name"] == "a.lackey,b.lackey"
    assert result.data["workload"]["threads"] == 2
    assert result.data["systems"]["oracle/quick"]["accesses"] == 4000
    # Each is a process: what they touch is not shared.
    profile = ts.trace_info(both).profile
    assert profile is not None
    assert profile["blocks"] == 4000
    for arguments, told in (
        (("oracle/quick", "--set", "processor.cores=1", "-w", both), "are 2 threads"),
        (("device/ddr4-2400", "-w", both), "is a device alone"),
        (("device/slc", "-w", "msr:x.csv,y.csv"), "x.csv cannot be read"),
        (("device/ddr4-2400", "-w", "ramulator:a.lackey,b.lackey"), "a.lackey, line 1"),
    ):
        refused = tierscope("run", "-s", *arguments)
        assert refused.returncode == 125
        assert told in refused.stderr
    # A file whose name has a comma is one.
    file = tmp_path / "a,b.lackey"
    file.write_bytes((tmp_path / "a.lackey").read_bytes())
    assert ts.run("oracle/quick", f"lackey:{file}").data["workload"]["threads"] == 1


def test_dependences_of_champsim_make_a_program_wait(tmp_path: Path) -> None:
    def time_s(source: int) -> float:
        """Of a chain of loads, or of loads that do not wait for each other."""
        record = bytes(10) + bytes([1, 0, source, 0, 0, 0]) + bytes(16)
        trace = b"".join(
            record + (0x1000_0000 + n * 7919 % 16384 * 64).to_bytes(8, "little") + bytes(24)
            for n in range(20_000)
        )
        path = tmp_path / f"{source}.champsimtrace.xz"
        path.write_bytes(lzma.compress(trace))
        return ts.run("oracle/quick", f"champsim:{path}").data["systems"]["oracle/quick"]["time_s"]

    chained, loose = time_s(1), time_s(2)
    assert chained > 1.5 * loose


def test_threads_that_become_one_and_instructions_that_are_lost_are_told(tmp_path: Path) -> None:
    work = ts.workload("gups", threads=3, table="1MiB", updates=300)
    info = ts.trace_info(work)
    assert info.threads is not None
    assert info.threads["threads"] >= 3
    lackey = f"lackey:{tmp_path / 'a'}"
    told = " ".join(ts.convert(work, lackey).lost)
    assert f"{info.threads['threads']} threads became one" in told
    ts.convert(lackey, f"champsim:{tmp_path / 'b'}")
    for name in ("lackey:a", "champsim:b"):
        kind, file = name.split(":")
        again = ts.run("oracle/quick", f"{kind}:{tmp_path / file}").data["systems"]["oracle/quick"]
        assert again["instructions"] == info.threads["instructions"]
    assert ts.convert(lackey, f"fio:{tmp_path / 'c'}", interval="1us").notices == []


def test_instructions_are_carried_over_with_their_addresses(tmp_path: Path) -> None:
    text = "I  00401000,3\n L 1ffe000010,8\nI  00401003,2\n M 1ffe000040,4\nI  00401005,5\n"
    (tmp_path / "a").write_text(text)
    done = ts.convert(f"lackey:{tmp_path / 'a'}", f"champsim:{tmp_path / 'b.xz'}")
    assert (done.read, done.written) == (3, 3)
    records = lzma.decompress((tmp_path / "b.xz").read_bytes())
    pointers = [int.from_bytes(records[at : at + 8], "little") for at in range(0, 192, 64)]
    assert pointers == [0x401000, 0x401003, 0x401005]
    back = ts.convert(f"champsim:{tmp_path / 'b.xz'}", f"drmemtrace:{tmp_path / 'c'}")
    assert back.lost == []
    last = ts.convert(f"drmemtrace:{tmp_path / 'c'}", f"lackey:{tmp_path / 'd'}")
    assert last.lost == []
    lines = (tmp_path / "d").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == [
        *("I  00401000", " L 1ffe000010", "I  00401003", " L 1ffe000040", " S 1ffe000040"),
        "I  00401005",
    ]
    counts = ts.convert(f"lackey:{tmp_path / 'a'}", f"ramulator-cpu:{tmp_path / 'e'}")
    assert any("addresses of 3 instructions were left out" in one for one in counts.lost)


def test_a_request_beyond_the_last_address_is_an_error_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.trc").write_text(" L 40,8\n L ffffffffffffffff,8\n")
    with pytest.raises(ts.RunError, match=r"line 2.*beyond the last address"):
        ts.trace_info(f"lackey:{tmp_path / 'a.trc'}")
    (tmp_path / "b.trc").write_text("0x40 R\n0xffffffffffffffff R\n")
    with pytest.raises(ts.RunError, match=r"line 2.*beyond the last address"):
        ts.convert(f"ramulator:{tmp_path / 'b.trc'}", f"lackey:{tmp_path / 'c.trc'}")
    assert not (tmp_path / "c.trc").exists()


def test_a_picture_has_a_place_of_its_own(tierscope: Runner, trace: Path, tmp_path: Path) -> None:
    one = tmp_path / "one.svg"
    for wrong, told in (
        (("--json=" + str(one), "--plot", str(one)), "both to write"),
        (("--plot", str(tmp_path / "none" / "x.svg")), "there is no directory"),
    ):
        refused = tierscope("trace", "info", f"dramsim3:{trace}", *wrong)
        assert refused.returncode == 125
        assert told in " ".join(refused.stderr.split())
        assert not refused.stdout
    assert not one.exists()


def test_a_pipe_that_nobody_reads_is_refused(trace: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ts.RunError, match="nobody reads this pipe"):
        ts.convert(f"dramsim3:{trace}", f"ramulator2:{tmp_path / 'pipe'}", replace=True)


def test_a_limit_is_told_as_for_a_run() -> None:
    chase = ts.workload("chase", touched=False)
    assert ts.trace_info(chase, limit="2k").to_dict()["profile"]["reads"] == 2000
    for wrong in ("5ms", "2G instructions", "some"):
        with pytest.raises(ts.RunError, match="the limit is"):
            ts.trace_info("chase", limit=wrong)


def test_files_that_calls_read_and_write_are_told_and_drawn(
    tierscope: Runner, tmp_path: Path
) -> None:
    sets = ("--set", "workload.transactions=200", "--set", "workload.touched=false")
    work = ("postmark", *sets)
    shown = tierscope("trace", "info", *work, "--plot", "x.svg")
    assert shown.returncode == 0, shown.stderr
    assert "which bytes" not in shown.stdout
    assert "Bytes of files read (blue) and written (red)" in text_of(tmp_path / "x.svg")
    found = json.loads(tierscope("trace", "info", *work, "--json").stdout)
    calls = found["files"]["calls"]
    assert calls["opens"] == calls["closes"] > 0
    assert calls["deletes"] == calls["truncates"] > 0, "all are deleted in the end"
    assert "file_accesses" not in found
    ran = ts.run("storage/quick", ts.workload("postmark", transactions=200, touched=False))
    system: dict[str, Any] = {**ran.data["systems"]["storage/quick"]}
    # As many bytes as a machine moves, and calls as it carries out.
    for ours in ("read_bytes", "written_bytes"):
        assert found["files"][ours] == system["counters"][f"file_{ours}"] > 0
    for kind, one in (("reads", "read"), ("writes", "write"), ("opens", "open")):
        assert calls[kind] == system["calls"][one]["count"]
    assert found["threads"]["instructions"] == system["instructions"]
    assert found["threads"]["file_calls"] == calls["reads"] + calls["writes"]


def text_of(svg: Path) -> str:
    """What a picture says: letters are shapes, and what they are is a remark."""
    return " ".join(re.findall(r"<!-- (.*?) -->", svg.read_text(encoding="utf-8")))


def test_what_threads_read_of_a_file_in_turn_comes_in_turn() -> None:
    info = ts.trace_info(
        ts.workload("xdd/sequential-read", size="16MiB", request="1MiB", requests=16, threads=4)
    )
    assert info.files is not None
    assert info.file_accesses is not None
    assert [one["offset"] >> 20 for one in info.file_accesses] == list(range(16))
    assert (info.files["sequential"], info.files["pages"]) == (15, 4096)
    assert info.files["reuse"] == [{"distance_blocks": None, "touches": 4096.0}]
    assert len(info.plot().axes) == 8, "of memory and files"
    limited = ts.trace_info(
        ts.workload("xdd/sequential-read", size="16MiB", request="1MiB", requests=16), limit=900
    )
    assert limited.files is not None
    assert limited.profile is not None
    accesses = limited.profile["reads"] + limited.profile["writes"]
    assert accesses + limited.files["calls"]["direct_reads"] == 900


def test_a_picture_of_memory_alone_is_as_before() -> None:
    info = ts.trace_info("chase", limit=3000)
    assert info.files is None
    assert "Calls on files" not in info.table()
    assert len(info.plot().axes) == 4


def test_stores_past_the_caches_are_told_and_lost_in_a_trace(tmp_path: Path) -> None:
    work = ts.workload("stream", array="64KiB", non_temporal=True, touched=False)
    info = ts.trace_info(work)
    assert info.threads is not None
    assert info.profile is not None
    past = info.threads["non_temporal_stores"]
    assert past == info.profile["writes"] > 0
    assert info.threads["line_flushes"] == 0
    assert f"Fences:{'':17}{info.threads['fences']}" in info.table()
    done = ts.convert(work, f"lackey:{tmp_path / 'x'}")
    assert f"{past:,} stores past the caches became plain ones: lackey does not tell them" in (
        done.lost
    )


@pytest.mark.parametrize("kind", ["drmemtrace", "lackey", "champsim", "ramulator-cpu"])
def test_a_workload_made_a_trace_of_a_program_keeps_its_instructions(
    kind: str, tmp_path: Path
) -> None:
    work = ts.workload("gups", table="64KiB", updates=2000)
    ts.convert(work, f"{kind}:{tmp_path / 'x.gz'}")
    expected = ts.run("oracle/quick", work).data["systems"]["oracle/quick"]
    found = ts.run("oracle/quick", f"{kind}:{tmp_path / 'x.gz'}").data["systems"]["oracle/quick"]
    assert found["accesses"] == expected["accesses"]
    behind = expected["instructions"] - found["instructions"]
    assert 0 <= behind <= (20 if kind == "ramulator-cpu" else 0)


def test_places_of_ramulator_are_written_by_the_levels_that_are_said(
    tierscope: Runner, trace: Path, tmp_path: Path
) -> None:
    levels = "levels=2:1:4:4:1024:128"
    vector = ("convert", f"dramsim3:{trace}", "ramulator2-vector:x")
    shown = tierscope(*vector, "--set", f"target.{levels}")
    assert shown.returncode == 0, shown.stderr
    back = ("ramulator2-vector:x", "dramsim3:back", "--interval", "10ns", "--clock", "1GHz")
    shown = tierscope("convert", *back, "--set", f"workload.{levels}")
    assert shown.returncode == 0, shown.stderr
    assert (tmp_path / "back").read_text(encoding="utf-8") == TRACE
    # Of the same format the levels of the source are those of the target.
    shown = tierscope(
        "convert", "ramulator2-vector:x", "ramulator2-vector:y", "--set", f"workload.{levels}"
    )
    assert shown.returncode == 0, shown.stderr
    assert (tmp_path / "y").read_bytes() == (tmp_path / "x").read_bytes()
    with pytest.raises(ts.ArgumentError, match="parameters of the target are a dict"):
        ts.convert("random", f"ramulator2-vector:{tmp_path / 'z'}", parameters=levels)  # type: ignore[arg-type]


def test_several_files_are_given_to_a_device_in_the_order_of_their_times(
    tierscope: Runner, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text(
        "1000,srv,0,Read,0,4096,0\n3000,srv,0,Write,4096,4096,0\n", encoding="utf-8"
    )
    (tmp_path / "b.csv").write_text("2000,srv,1,Read,8192,4096,0\n", encoding="utf-8")
    shown = tierscope("convert", "msr:b.csv,a.csv", "fio:x.log")
    assert shown.returncode == 0, shown.stderr
    moved = (tmp_path / "x.log").read_text(encoding="utf-8").splitlines()
    assert [line.split() for line in moved if " read " in line or " write " in line] == [
        ["0", "tierscope", "read", "0", "4096"],
        ["100", "tierscope", "read", "8192", "4096"],
        ["200", "tierscope", "write", "4096", "4096"],
    ]
    alone = ts.run("device/slc", f"msr:{tmp_path / 'a.csv'},{tmp_path / 'b.csv'}")
    assert alone.data["systems"]["device/slc"]["accesses"] == 3
    assert alone.data["workload"]["name"] == "a.csv,b.csv"


@pytest.mark.parametrize("what", ["empty.trc", "folder", "/dev/null", "missing.trc"])
def test_what_is_no_trace_is_refused_by_each_command(
    tierscope: Runner, tmp_path: Path, what: str
) -> None:
    (tmp_path / "empty.trc").touch()
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())
    for command in (
        ("convert", f"dramsim3:{what}", "ramulator:new.trc"),
        ("trace", "info", f"dramsim3:{what}", "--json=new.json"),
        ("run", "-s", "device/ddr4-2400", "-w", f"dramsim3:{what}", "-o", "new"),
        ("trace", "info", f"trace:{what}", "--brief"),
        ("run", "-s", "oracle/quick", "-w", f"trace:{what}", "-o", "new"),
    ):
        refused = tierscope(*command)
        assert (refused.returncode, refused.stdout) == (125, ""), command
        assert re.match(rf"error\[unreadable-(trace|recording)\]: {what}", refused.stderr), command
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".zst"])
def test_where_a_trace_cannot_be_written_nothing_is_left(
    tierscope: Runner, tmp_path: Path, ending: str
) -> None:
    (tmp_path / f"folder{ending}").mkdir()
    (tmp_path / f"full{ending}").symlink_to("/dev/full")
    before = sorted(tmp_path.iterdir())
    for target, why in (
        (f"folder{ending}", "is a directory"),
        (f"full{ending}", "no space left on device"),
        (f"missing/a.trc{ending}", "no such file or directory"),
    ):
        refused = tierscope("convert", "random", f"ramulator:{target}", "--limit", "200k")
        assert (refused.returncode, refused.stdout) == (125, "")
        assert refused.stderr.startswith(f"error[unwritable]: {target} ")
        assert why in refused.stderr
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_conversion_and_nothing_is_left(
    tmp_path: Path, number: signal.Signals
) -> None:
    endless = ("zipf", "--set", "workload.requests=1000000000")
    command = [sys.executable, "-m", "tierscope", "convert", *endless, "ramulator:a.trc.gz"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        wait_until(lambda: (tmp_path / "a.trc.gz.partial").exists())
        running.send_signal(number)
        output, errors = running.communicate(timeout=300)
    assert (running.returncode, output) == (128 + number, "")
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def test_parts_of_larger_requests_count_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "a.mqsim").write_text("0 0 0 200 1\n10 0 4096 1 0\n")
    done = ts.convert(f"mqsim:{tmp_path / 'a.mqsim'}", f"drmemtrace:{tmp_path / 'a'}")
    assert (done.read, done.written) == (2, 4)
    again = ts.trace_info(f"drmemtrace:{tmp_path / 'a'}").profile
    assert again is not None
    assert again["reads"] + again["writes"] == done.written


def test_threads_of_a_process_in_several_files_are_joined(tmp_path: Path) -> None:
    def written(name: str, thread: int, pieces: list[tuple[int, list[int]]]) -> str:
        records = [(25, 0, 3), (22, 0, thread), (24, 0, 7)]
        for time, places in pieces:
            records.append((28, 2, time))
            for place in places:
                records += [(10, 4, place), (0, 8, place << 12)]
        records += [(23, 0, thread), (26, 0, 0)]
        (tmp_path / name).write_bytes(b"".join(struct.pack("<HHQ", *one) for one in records))
        return str(tmp_path / name)

    one = written("one", 1, [(10, [0x100, 0x104]), (30, [0x108])])
    two = written("two", 2, [(10, [0x200]), (20, [0x204])])
    done = ts.convert(f"drmemtrace:{one},{two}", f"lackey:{tmp_path / 'both'}")
    lines = (tmp_path / "both").read_text().splitlines()
    places = [int(line[3:].split(",")[0], 16) for line in lines if line.startswith("I")]
    assert places == [0x100, 0x104, 0x200, 0x204, 0x108]
    assert (done.read, done.written) == (5, 5)
    assert "2 threads became one" in " ".join(done.lost)
