"""Failures of power, from the command line and from Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tierscope as ts
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
