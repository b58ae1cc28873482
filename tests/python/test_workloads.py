"""Built-in workloads on machines: each runs, and what fills memory first is not measured."""

import json

import pytest
import tierscope as ts
from tierscope import _core

MACHINE = "hybrid/quick"
SMALL: dict[str, dict[str, str | int]] = {
    "dd-read": {"file": "64KiB"},
    "dd-write": {"file": "64KiB"},
    "xdd/sequential-read": {"request": "256KiB"},
    "xdd/sequential-write": {"request": "256KiB"},
    "xdd/sequential-mixed": {"request": "256KiB"},
    "postmark/series": {"files": 100, "transactions": 100},
    "filebench/varmail": {"memory": "1MiB"},
    "filebench/webserver": {"memory": "1MiB"},
    "filebench/webproxy": {"memory": "1MiB", "files": 1000},
    "filebench/fileserver": {"memory": "1MiB", "files": 1000},
}
NAMES = [one["name"] for one in json.loads(_core.list_workloads()) if not one["alone"]]


@pytest.mark.parametrize("name", NAMES)
def test_each_workload_runs_as_it_is(name: str) -> None:
    result = ts.run(MACHINE, ts.Generated(name, dict(SMALL.get(name, {}))), limit=20_000)
    machine = result[MACHINE]
    assert machine["instructions"] > 0
    assert machine["time_ps"] > 0
    assert result.data["workload"]["name"] == name


def test_what_fills_memory_first_is_not_measured() -> None:
    work = ts.workload("chase", table="4MiB", steps=3000)
    machine = ts.run(MACHINE, work)[MACHINE]
    assert machine["skipped"] is not None
    assert machine["skipped"]["accesses"] == 1024, "a page each"
    assert machine["accesses"] == 3000
    assert machine["counters"]["minor_faults"] == 0
    untouched = ts.run(MACHINE, ts.workload("chase", table="4MiB", steps=3000, touched=False))
    assert untouched[MACHINE]["skipped"] is None
    assert untouched[MACHINE]["counters"]["minor_faults"] > 500


def test_what_is_skipped_may_be_said_all_the_same() -> None:
    work = ts.workload("chase", table="4MiB", steps=3000)
    machine = ts.run(MACHINE, work, skip=2024)[MACHINE]
    assert machine["skipped"] is not None
    assert machine["skipped"]["accesses"] == 2024
    assert machine["accesses"] == 2000


def test_zipf_is_threads_on_machines_and_requests_on_devices_alone() -> None:
    threads = ts.run(MACHINE, ts.workload("zipf", accesses=500, table="1MiB"))
    assert threads[MACHINE]["accesses"] == 500
    requests = ts.run("device/ddr4-2400", ts.workload("zipf", requests=500))
    assert requests["device/ddr4-2400"]["device"] is not None
    with pytest.raises(ts.SpecError, match="no such parameter"):
        ts.run("device/ddr4-2400", ts.workload("zipf", accesses=500))
    with pytest.raises(ts.SpecError, match="no such parameter"):
        ts.run(MACHINE, ts.workload("zipf", requests=500))
    assert ts.workload("zipf", exponent=1.5).to_dict()["parameters"] == {"exponent": 1.5}
    with pytest.raises(ts.SpecError, match="from 0 to 4"):
        ts.workload("zipf", exponent=5.0)
