"""Workloads in Filebench's language: files run, and their settings are parameters."""

import json
from pathlib import Path

import pytest
import tierscope as ts
from tierscope.sweeps import points, study

ROOT = Path(__file__).parents[2]
MACHINES = ["hybrid/quick", "storage/quick"]
NOTES = f"filebench:{ROOT / 'examples/notes.f'}"
SMALL = {"loops": 2, "touched": False, "nnotes": 40}


def test_a_file_runs_on_every_kind_of_machine() -> None:
    result = ts.compare(MACHINES, ts.workload(NOTES, seed=3, **SMALL))
    asked = {name: result[name]["counters"] for name in MACHINES}
    for counters in asked.values():
        assert counters["system_calls"] > 150
    used = result.data["workload"]
    assert used["name"] == NOTES
    assert used["parameters"]["nnotes"] == "40"
    assert used["parameters"]["readers"] == "12"
    assert used["seed"] == 3


def test_what_is_set_changes_the_run() -> None:
    few, many = (
        ts.run("hybrid/quick", ts.workload(NOTES, **{**SMALL, "readers": readers}))
        for readers in (2, 8)
    )
    assert few.data["workload"]["threads"] == 7
    assert many.data["workload"]["threads"] == 13


def test_mistakes_name_their_line(tmp_path: Path) -> None:
    text = tmp_path / "wrong.f"
    text.write_text("set $n=1\ndefine fileset name=a,entries=$m\n")
    with pytest.raises(ts.RunError, match=r"wrong\.f:2: \$m is not set; .*"):
        ts.workload(f"filebench:{text}")
    with pytest.raises(ts.RunError, match="No such file"):
        ts.workload(f"filebench:{tmp_path / 'none.f'}")
    with pytest.raises(ts.RunError, match="it is no file"):
        ts.workload(f"filebench:{tmp_path}")
    with pytest.raises(ts.RunError, match=r"nothing sets \$nfiles; it sets "):
        ts.workload(NOTES, nfiles=3)
    with pytest.raises(ts.SpecError, match=r"workload\.loops"):
        ts.workload(NOTES, loops="many")


def test_a_study_knows_its_file(tmp_path: Path) -> None:
    text = tmp_path / "one.f"
    text.write_text((ROOT / "examples/notes.f").read_text())
    asked = tmp_path / "study.toml"
    asked.write_text(
        'systems = ["hybrid/quick"]\n'
        f'workloads = ["filebench:{text}"]\n'
        '[parameters]\n"workload.nnotes" = [20, 30]\n"workload.loops" = [1]\n'
        '"workload.touched" = [false]\n'
    )
    assert ts.sweep(asked, tmp_path / "out").table().height == 2
    before = {point.key for point in points.points(study.read(asked))}
    assert len(before) == 2
    text.write_text(text.read_text().replace("8k", "4k"))
    after = {point.key for point in points.points(study.read(asked))}
    assert before.isdisjoint(after), "another file, other points"


def test_a_run_that_stops_for_want_of_files_is_partial() -> None:
    def run(files: int) -> ts.Result:
        work = ts.workload(
            "filebench/fileserver", files=files, loops=6, touched=False, memory="1MiB", threads=16
        )
        return ts.run("storage/quick", work)

    few = run(16)
    reason = few.data["partial_reason"] or ""
    assert not few.complete
    assert "createfile of thread" in reason
    assert reason.endswith("; set more workload.files, or fewer workload.threads")
    assert run(160).complete


def test_a_failure_of_power_says_that_the_workload_stopped_early() -> None:
    def crash(files: int, seed: int = 0) -> ts.CrashReport:
        work = ts.workload(
            "filebench/fileserver", seed=seed, files=files, threads=8, touched=False, memory="1MiB"
        )
        return ts.crash("storage/ext4", work, points=5)

    report = crash(8)
    assert "Partial: the workload stopped early" in report.remark()
    assert json.loads(report.to_json())["ended_early"].endswith("fewer workload.threads")
    # The only file is there, and none can be created: nothing happens at all.
    with pytest.raises(ts.TierscopeError, match="stopped early") as told:
        crash(1, seed=1)
    assert told.value.hint == "set more workload.files, or fewer workload.threads"
