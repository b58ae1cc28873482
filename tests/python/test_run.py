"""Runs: what a result must satisfy, whatever the workload."""

from __future__ import annotations

import _thread
import threading

import jsonschema
import pytest
import tierscope as ts
from tierscope import _call, _core
from tierscope._shape import SystemResult
from tierscope.report import closing_lines

SYSTEMS = ("hybrid/quick", "storage/quick", "oracle/quick")
LONG = ts.workload("gups", updates=10**12, table="512MiB")


@pytest.fixture(scope="module")
def result() -> ts.Result:
    """A short run of four threads on three machines."""
    return ts.compare(SYSTEMS, ts.workload("gups", updates=20_000, random=0.3, threads=4))


def without_wall_time(system: SystemResult) -> dict[str, object]:
    wall = ("wall_s", "accesses_per_wall_s")
    return {key: value for key, value in system.items() if key not in wall}


def test_a_result_follows_its_schema(result: ts.Result) -> None:
    jsonschema.validate(result.data, _call.parsed(_core.schema("result")))


def test_systems_keep_their_order(result: ts.Result) -> None:
    assert tuple(result) == SYSTEMS


@pytest.mark.parametrize("name", SYSTEMS)
def test_stages_sum_to_the_mean_latency(result: ts.Result, name: str) -> None:
    system = result[name]
    assert system["latency_ns"] is not None
    assert sum(system["stages_ns"].values()) == pytest.approx(system["latency_ns"]["mean"])


@pytest.mark.parametrize("name", SYSTEMS)
def test_owners_of_time_sum_to_threads_times_run_time(result: ts.Result, name: str) -> None:
    system = result[name]
    threads = result.data["workload"]["threads"]
    owned_ns = sum(system["time_breakdown_ns"].values())
    assert threads == 4
    assert owned_ns == pytest.approx(threads * system["time_s"] * 1e9)


@pytest.mark.parametrize("name", SYSTEMS)
def test_intervals_sum_to_the_whole(result: ts.Result, name: str) -> None:
    rows = result.intervals.filter(result.intervals["system"] == name)
    system = result[name]
    assert rows["accesses"].sum() == system["accesses"]
    assert rows["instructions"].sum() == system["instructions"]
    assert rows["store_read_bytes"].sum() <= system["store_bytes"]["read"]
    assert rows["end_ps"].is_sorted()


def test_the_oracle_is_the_measure_of_slowdown(result: ts.Result) -> None:
    oracle = result["oracle/quick"]
    for name in SYSTEMS:
        expected = result[name]["time_s"] / oracle["time_s"]
        assert result[name]["slowdown"] == pytest.approx(expected)


def test_without_an_oracle_there_is_no_slowdown() -> None:
    result = ts.run("hybrid/quick", ts.workload("gups", updates=100))
    assert result["hybrid/quick"]["slowdown"] is None


def test_equal_seeds_give_equal_results_and_other_seeds_others() -> None:
    def times(seed: int) -> list[dict[str, object]]:
        work = ts.workload("gups", seed=seed, updates=5000, threads=2, random=0.5)
        found = ts.compare(SYSTEMS[:2], work)
        return [without_wall_time(found[name]) for name in found]

    assert times(1) == times(1)
    assert times(1) != times(2)


def test_company_changes_nothing_of_a_machines_result(result: ts.Result) -> None:
    work = ts.workload("gups", updates=20_000, random=0.3, threads=4)
    alone = ts.run("hybrid/quick", work)["hybrid/quick"]
    in_company = result["hybrid/quick"]
    expected = without_wall_time(in_company) | {"slowdown": None}
    assert without_wall_time(alone) == expected


def test_a_limit_of_accesses_ends_the_run_marked_partial() -> None:
    result = ts.run("oracle/quick", LONG, limit=50_000)
    assert not result.complete
    assert "50000 accesses" in str(result.data["partial_reason"])
    assert 50_000 <= result["oracle/quick"]["accesses"] < 200_000


def test_a_limit_of_time_ends_the_run_marked_partial() -> None:
    result = ts.run("oracle/quick", LONG, time_limit_s=1.0)
    assert result.data["partial_reason"] == "the time limit of 1 s was reached"
    assert result["oracle/quick"]["accesses"] > 0


def test_an_interrupt_ends_the_run_with_what_there_is() -> None:
    threading.Timer(1.5, _thread.interrupt_main).start()
    result = ts.compare(SYSTEMS, LONG)
    assert result.data["partial_reason"] == "the run was interrupted"
    assert all(result[name]["accesses"] > 0 for name in SYSTEMS)


def test_progress_is_told_for_each_machine() -> None:
    seen: list[list[int]] = []
    ts.compare(
        SYSTEMS[1:],
        LONG,
        time_limit_s=1.5,
        watch=lambda progress: seen.append([one.accesses for one in progress]),
    )
    assert all(len(one) == 2 for one in seen)
    assert seen == sorted(seen)
    assert seen[-1][0] > 0


def test_a_watcher_that_fails_ends_the_run() -> None:
    def broken(_: object) -> None:
        raise RuntimeError("the watcher's own")

    with pytest.raises(RuntimeError, match="the watcher's own"):
        ts.run("oracle/quick", LONG, watch=broken)


def test_a_run_that_does_nothing_is_an_error() -> None:
    with pytest.raises(ts.RunError, match="nothing was simulated"):
        ts.run("oracle/quick", ts.workload("gups", updates=0))


def test_a_region_and_what_it_skips_are_the_whole_run() -> None:
    work = ts.workload("gups", updates=20_000, table="4MiB")
    whole = ts.run("hybrid/quick", work)["hybrid/quick"]
    part = ts.run("hybrid/quick", work, skip="10k", warming="detailed")["hybrid/quick"]
    skipped = part["skipped"]
    assert skipped is not None
    assert 10_000 <= skipped["accesses"] < 10_100
    assert skipped["accesses"] + part["accesses"] == whole["accesses"]
    assert skipped["time_ps"] + part["time_ps"] == whole["time_ps"]
    assert skipped["warming"] == "detailed"
    assert whole["skipped"] is None


def test_what_precedes_a_region_warms_functionally() -> None:
    work = ts.workload("gups", updates=60_000, table="64MiB")
    machine = ts.system("hybrid/quick").replace("machine", prefetch_pages=0)
    for extent in ("80k", "100k instructions"):
        result = ts.run(machine, work, skip=extent)
        skipped = result["machine"]["skipped"]
        assert skipped is not None
        assert skipped["warming"] == "functional"
        told = closing_lines(result.data)
        assert any(line.startswith("Warmed functionally before the region") for line in told)
        detailed = ts.run(machine, work, skip=extent, warming="detailed")["machine"]
        assert result["machine"]["miss_rate"] == pytest.approx(detailed["miss_rate"], rel=0.02)
    for other, extent in ((machine, "1ms"), (machine.replace(prefetch_pages=1), "1k")):
        skipped = ts.run(other, work, skip=extent)["machine"]["skipped"]
        assert skipped is not None
        assert skipped["warming"] == "detailed"


def test_a_cache_that_prefetches_can_be_warmed_without_times() -> None:
    work = ts.workload("gups", updates=5_000, table="64MiB", touched=True)
    both = ["hybrid/quick", "storage/quick"]
    result = ts.compare(both, work, skip=16_384, warming="untimed")
    found = {name: system["skipped"] for name, system in result.data["systems"].items()}
    assert {name: part and part["warming"] for name, part in found.items()} == {
        "hybrid/quick": "untimed",
        "storage/quick": "functional",
    }
    told = " ".join(closing_lines(result.data))
    assert "hybrid/quick: 16.4 k accesses, all prefetches finding room" in told
    detailed = ts.run("hybrid/quick", work, skip=16_384, warming="detailed")["hybrid/quick"]
    assert result["hybrid/quick"]["time_s"] == pytest.approx(detailed["time_s"], rel=0.1)
    with pytest.raises(ts.RunError, match="cannot be warmed without times: it has two nodes"):
        ts.run("cxl-tiering/quick", work, skip=16_384, warming="untimed")
    with pytest.raises(ts.RunError, match="a time is skipped, and untimed warming takes none"):
        ts.run("hybrid/quick", work, skip="1ms", warming="untimed")


def test_a_warming_is_of_something_and_one_of_three() -> None:
    with pytest.raises(
        ts.RunError, match="nothing comes before the region whose warming could be detailed"
    ):
        ts.run("hybrid/quick", "gups", warming="detailed")
    with pytest.raises(ts.ArgumentError, match="the warming is 'cold'") as raised:
        ts.run("hybrid/quick", "gups", skip=10, warming="cold")  # type: ignore[arg-type]
    assert raised.value.hint == 'write "functional", "detailed" or "untimed"'


def test_extents_are_accesses_instructions_or_simulated_time() -> None:
    work = ts.workload("gups", updates=20_000)
    counted = ts.run("oracle/quick", work, skip="2k instructions", limit="0.005M instructions")
    result = counted["oracle/quick"]
    assert 5_000 <= result["instructions"] < 5_100
    assert counted.data["partial_reason"] == "the limit of 5000 instructions was reached"
    timed = ts.run("oracle/quick", work, limit="50us")
    assert timed["oracle/quick"]["time_ps"] == pytest.approx(50e6, rel=0.1)


def test_a_region_that_never_begins_fails_with_the_reason() -> None:
    work = ts.workload("gups", updates=100)
    with pytest.raises(ts.RunError, match="would begin after 1000000 accesses"):
        ts.run("oracle/quick", work, skip="1M")
    with pytest.raises(ts.RunError, match="no mark that begins a region"):
        ts.run("oracle/quick", work, roi=True)
