"""Failures of power, from the command line and from Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tierscope as ts
from tierscope._crash import CrashReport
from tierscope.cli import main

SMALL = {
    "hams.capacity": "4MiB",
    "hams.pinned": "1MiB",
    "hams.page": "16KiB",
    "hams.queue_entries": "64",
    "hams.wait_entries": "64",
    "dram.backup.module": "4MiB",
    "processor.caches.L2.capacity": "64KiB",
    "workload.table": "8MiB",
    "workload.updates": "500",
}


def crash(*options: str) -> int:
    sets = [word for path, value in SMALL.items() for word in ("--set", f"{path}={value}")]
    return main(["crash", "hams-le/quick", "-w", "gups", *sets, *options])


def test_a_machine_keeps_its_promises_and_the_table_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert crash("--points", "20", "--adversarial") == 0
    out = capsys.readouterr().out
    assert "20 of " in out
    assert "survives, in the NVDIMM" in out
    assert crash("--points", "20", "--adversarial", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["points"], report["failing_points"]) == (20, 0)


def test_a_broken_promise_is_the_exit_status_and_its_point_replays(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    weak = ("--weaken", "no-journal-tags")
    assert crash("--points", "40", "--adversarial", *weak, f"--json={tmp_path / 'a.json'}") == 1
    report = json.loads((tmp_path / "a.json").read_text())
    first = report["failing"][0]
    assert f"--weaken no-journal-tags --replay {first['point']}" in capsys.readouterr().out
    figure = tmp_path / "timeline.png"
    assert crash(*weak, "--replay", first["point"], "--figure", str(figure)) == 1
    told = capsys.readouterr().out
    assert "power fails" in told
    lines = told.splitlines()
    requests = lines[lines.index(next(line for line in lines if line.startswith("request"))) :]
    assert any(line.startswith("evict 0x") for line in requests)
    assert any("LOST, though promised" in line for line in requests)
    assert f"{first['faults'][0]['address']:#x} is lost" in told
    assert figure.stat().st_size > 0


def test_python_gives_the_same_report() -> None:
    machine = ts.system("nvdimm/quick").with_sets([("processor.caches.L2.capacity", "64KiB")])
    work = ts.workload("gups", table="4MiB", updates=200)
    report = ts.crash(machine, work, points=5, seed=3)
    assert report.holds
    assert report.data["points"] == 5
    again = ts.crash(machine, work, points=5, seed=3, window="0s..")
    assert again.data["events"] == report.data["events"]
    with pytest.raises(ts.ArgumentError):
        ts.crash(machine, work, weaken="no-luck")  # type: ignore[arg-type]


def words(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said, wherever its lines end."""
    return " ".join(capsys.readouterr().out.split())


def test_a_drive_alone_keeps_its_promises_and_loses_them_without_capacitors(
    capsys: pytest.CaptureFixture[str],
) -> None:
    drive = ["crash", "device/z-ssd/quick", "-w", "random", "--points", "40", "--adversarial"]
    for path, value in (("requests", "2000"), ("footprint", "2MiB"), ("reads", "0.2")):
        drive += ["--set", f"workload.{path}={value}"]
    drive += ["--set", "ssd.buffer.flush_above=256KiB"]
    assert main(drive) == 0
    assert "which capacitors keep" in words(capsys)
    assert main([*drive, "--weaken", "no-capacitors", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["faults"]["lost"] > 0
    assert main([*drive, "--set", "ssd.buffer.capacitors=false"]) == 0
    assert "the drive's buffer is lost" in words(capsys)


def test_files_hold_what_syncs_promised_and_without_barriers_they_do_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    machine = ["crash", "storage/ext4", "-w", "filebench/varmail", "--points", "10"]
    machine += ["--set", "storage.dram_capacity=64MiB", "--set", "workload.memory=1MiB"]
    for path, value in (("files", "20"), ("threads", "4"), ("loops", "2")):
        machine += ["--set", f"workload.{path}={value}"]
    assert main([*machine, "--adversarial"]) == 0
    told = words(capsys)
    assert "fsync" in told
    assert "transactions carried out again" in told
    unsafe = [*machine, "--set", "storage.file_system.barrier=none"]
    assert main([*unsafe, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["faults"]["lost"] > 0
    unsafe = [word for word in unsafe if word not in {"--points", "10"}]
    assert main([*unsafe, "--replay", report["failing"][0]["point"]]) == 1
    told = words(capsys)
    assert " of bigfileset/0000" in told
    assert " is lost: " in told


def test_what_nobody_has_described_is_a_dash_and_no_zero(
    capsys: pytest.CaptureFixture[str],
) -> None:
    small = ["--set", "workload.table=8MiB", "--set", "workload.updates=500", "--points", "3"]
    small += ["--set", "processor.caches.L2.capacity=64KiB"]
    assert main(["crash", "optane-p/quick", "-w", "gups", *small]) == 0
    told = words(capsys)
    assert "\u2013 (how long the store takes to start is not described)" in told


def report(**changes: object) -> CrashReport:
    """A report of two faults that are told, of a point that was replayed."""
    fault = {"address": 4096, "what": "page 1 of mail", "harm": "lost", "promised": 7, "found": 5}
    failing = {"point": "12+3", "time_ps": 1, "under_way": [], "lines": 1, "faults": [fault]}
    data: dict[str, object] = {
        "judged": "files", "weaken": [], "seed": 0, "timeline": ["cut"], "failing": [failing],
        "failing_points": 1, "promised_lines": 9, "syncs": 2,
    }  # fmt: skip
    return CrashReport({**data, **changes}, "tierscope crash M -w W")


def test_what_is_wrong_is_said_in_words() -> None:
    def said(**changes: object) -> str:
        one = report().data["failing"][0]
        fault = {**one["faults"][0], **changes}
        return list(report(failing=[{**one, "faults": [fault]}]).failing())[1].strip()

    assert said() == "page 1 of mail is lost: version 5 is there; version 7 was promised"
    assert said(found=0).endswith("nothing that was written to it is there; version 7 was promised")
    assert "its block holds what it did before it was written" in said(found=None)
    assert "a sync has promised a size that no change of the file has" in said(promised=None)
    stale = said(harm="stale", found=None, promised=0)
    assert "shows what its block held before it was the file's; nothing was promised" in stale
    assert "reading it fails" in said(harm="unreadable", found=None)
    assert "belongs to something else" in said(harm="invented", found=None)
    assert "which was never written to it" in said(harm="invented")
    assert said(what=None).startswith("0x1000 is lost")


def test_faults_and_points_that_are_not_told_are_counted() -> None:
    one = report().data["failing"][0]
    many = {**one, "lines": 70, "faults": one["faults"] * 64}
    told = list(report(failing=[many], failing_points=3).failing())
    assert told[0] == "point 12+3: 70 pages, files and blocks of metadata, with nothing under way"
    assert sum("is lost" in line for line in told) == 8
    assert told[9] == "  … and 62 more (--json tells up to 64)"
    assert told[-1] == "2 further points break a promise"
    lines = report(judged="lines", failing=[one])
    assert next(lines.failing()).startswith("point 12+3: 1 line, with")


def test_a_timeline_tells_how_a_line_is_harmed_and_not_that_all_were_promised() -> None:
    track = {
        "what": "write", "address": 4096, "of": "page 1 of mail", "version": 7, "issued_ps": 1,
        "acknowledged_ps": 2, "durable_ps": None,
    }  # fmt: skip
    cut = [{"what": "cut", "time_ps": 5, "under_way": {}}]

    def told(outcome: str) -> str:
        return report(timeline=cut, requests=[{**track, "outcome": outcome}]).timeline()

    assert "LOST, though promised" in told("lost")
    for harm in ("stale", "invented", "unreadable"):
        assert harm.upper() in told(harm)
        assert "promised" not in told(harm)
    assert "gone, not promised" in told("gone")


def test_a_disk_in_memory_breaks_promises_by_design_and_the_report_says_so() -> None:
    assert "by design" in report(in_memory=True).remark()
    assert "by design" not in report(in_memory=True, failing_points=0).remark()
    assert "by design" not in report().remark()


def test_where_nothing_was_promised_the_report_says_so() -> None:
    assert "no sync" in report(failing=[], failing_points=0, syncs=0).remark()
    alone = report(failing=[], failing_points=0, syncs=None, promised_lines=0, judged="pages")
    assert "nothing was promised of the pages" in alone.remark()
    assert not report(failing=[], failing_points=0).remark()
    assert not report(syncs=0).remark()
    cut = report(failing=[], failing_points=0, damage="block 9 at byte 45068")
    assert cut.remark() == "Partial: the recording is cut short: block 9 at byte 45068"


def test_a_workload_of_files_that_never_syncs_is_promised_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    machine = ["crash", "storage/ext4", "-w", "filebench/fileserver", "--points", "5"]
    machine += ["--set", "storage.dram_capacity=16MiB", "--set", "workload.memory=1MiB"]
    for path, value in (("files", "20"), ("threads", "2"), ("loops", "2")):
        machine += ["--set", f"workload.{path}={value}"]
    assert main(machine) == 0
    told = words(capsys)
    assert "syncs that had returned 0" in told
    assert "nothing was promised: no sync" in told
