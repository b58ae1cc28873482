"""What is told of single requests: a table with a row for each, and a timeline."""

import csv
import json
from pathlib import Path

import pytest
import tierscope as ts
from conftest import Runner

MACHINES = ("hybrid/quick", "storage/quick")
SMALL = ("--set", "workload.reads=2000")


def rows_of(file: Path) -> list[dict[str, str]]:
    """The rows of a table."""
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_each_machine_has_a_table_and_a_timeline(tierscope: Runner, tmp_path: Path) -> None:
    ran = tierscope(
        *("run", "-s", ",".join(MACHINES), "-w", "mmap", *SMALL, "--json"),
        *("--latencies", str(tmp_path / "rows.csv"), "--timeline", str(tmp_path / "line.json")),
    )
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)["systems"]
    for name in MACHINES:
        system, ended = result[name], name.replace("/", "-")
        rows = rows_of(tmp_path / f"rows-{ended}.csv")
        rows = [row for row in rows if not row["kind"].startswith("call_")]
        slowest = max(int(row["latency_ps"]) for row in rows if row["hardware_thread"])
        assert slowest / 1e3 == system["latency_ns"]["max"]
        trace = json.loads((tmp_path / f"line-{ended}.json").read_text(encoding="utf-8"))
        events = trace["traceEvents"]
        assert events[0]["args"] == {"name": name}
        tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
        assert "pages" in tracks
        requests = [event for event in events if event.get("args", {}).get("address")]
        assert len(requests) == min(len(rows), 100_000)
    pages = [row for row in rows if row["kind"] == "page_read"]
    assert pages
    assert all(row["hardware_thread"] == "" for row in pages)
    assert not list(tmp_path.glob("*.partial"))


def test_a_call_on_a_file_has_a_row_whose_stages_are_its_time(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    work = ts.workload("filebench/varmail", files=40, threads=2, loops=2)
    calls = ts.run("storage/quick", work, latencies=file)["storage/quick"]["calls"]
    rows = [row for row in rows_of(file) if row["kind"].startswith("call_")]
    for kind, told in calls.items():
        of_kind = [row for row in rows if row["kind"] == f"call_{kind}"]
        assert len(of_kind) == told["count"]
        assert sum(int(row["latency_ps"]) for row in of_kind) == pytest.approx(
            1e3 * told["time_ns"]
        )
        medium = sum(int(row["medium_ps"]) for row in of_kind) / 1e3
        assert medium == pytest.approx(told["count"] * told["stages_ns"].get("medium", 0.0))
    for row in rows:
        stages = {key: int(value) for key, value in row.items() if key.endswith("_ps")}
        latency = stages.pop("latency_ps")
        stages.pop("arrival_ps")
        assert sum(stages.values()) == latency
        assert row["hardware_thread"] != ""
        assert row["address"] == ""
    assert all(row["area"] for row in rows if row["kind"] == "call_read")


def test_a_timeline_holds_no_more_than_a_viewer_can(tmp_path: Path) -> None:
    file = tmp_path / "line.json"
    work = ts.workload("random", requests=100_500)
    ts.run("device/ddr4-2400", work, timeline=file)
    events = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    assert len({event["id"] for event in events if "id" in event}) == 100_000


def test_a_program_has_rows_too(tierscope: Runner, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    ran = tierscope("run", "-s", "storage/quick", "--latencies", str(file), "--", "true")
    assert ran.returncode == 0, ran.stderr
    areas = {row["area"] for row in rows_of(file)}
    assert "image, stack and kernel" in areas


def test_a_sampled_run_has_none(tmp_path: Path) -> None:
    work = ts.workload("gups", updates=1000)
    with pytest.raises(ts.TierscopeError, match="a sampled run, which passes most requests over"):
        ts.run("storage/quick", work, sample=True, timeline=tmp_path / "line.json")


def test_what_an_interrupted_run_leaves_of_its_files_is_told(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    work = ts.workload("gups", updates=1_000_000_000)
    result = ts.run("storage/quick", work, latencies=file, time_limit_s=1)
    told = f"{file}.partial has its requests until then; {file} was not completed"
    assert result["storage/quick"]["notes"] == [told]
    assert told in " ".join(result.report(width=1000).split())
    assert rows_of(tmp_path / "rows.csv.partial")
    assert not file.exists()
