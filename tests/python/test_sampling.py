"""Sampled runs: what they say of themselves, and what is refused."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import tierscope as ts
from conftest import Runner
from tierscope import _run, _sampling, report, table
from tierscope._system import systems
from tierscope.errors import ArgumentError, RunError
from tierscope.pages.report import of_result

SMALL = {
    "hybrid.cache.capacity": "4MiB",
    "hybrid.prefetch_pages": "0",
    "processor.caches.2.capacity": "320KiB",
    "store.read_latency": "10us",
}


def hybrid() -> ts.System:
    return systems(["hybrid/quick"], list(SMALL.items()))[0]


def gups(updates: int) -> ts.Generated:
    work = ts.workload("gups", updates=updates, table="16MiB")
    assert isinstance(work, ts.Generated)
    return work


@pytest.fixture(scope="module")
def sampled() -> ts.Result:
    return ts.run(hybrid(), gups(60_000), sample=True)


def test_a_sampled_result_says_so_and_how_sure_each_estimate_is(sampled: ts.Result) -> None:
    assert (sampled.data["completeness"], sampled.complete, sampled.sampled) == (
        "sampled",
        False,
        True,
    )
    system = sampled["hybrid/quick"]
    told = system["sampling"]
    assert told is not None
    assert told["units"] >= 8
    assert 0.05 < told["detailed_share"] < 0.4
    halves = told["half_widths"]
    shares = [halves["time"], halves["mean_latency"], halves["miss_rate"], halves["energy"]]
    assert all(half is not None and 0 < half < 0.5 for half in shares), halves
    cells = {label.strip(): row["hybrid/quick"] for label, row in table.rows(sampled.data)}
    for label in (
        "Execution time",
        "Instructions per cycle",
        "Misses, DRAM cache",
        "Access latency, mean",
        "Energy",
        "average power",
    ):
        assert " ±" in cells[label], label
    assert "±" not in cells["Read from the store"]
    text = sampled.report(width=100)
    assert f"Sampled: hybrid/quick: {told['units']} units of" in text
    row = sampled.to_polars().to_dicts()[0]
    assert row["time_half_width"] == halves["time"]
    assert row["sampling_units"] == told["units"]


def test_how_precise_a_denser_run_is_is_foretold(
    sampled: ts.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--precision`` chooses by it how densely a second run samples."""
    told = sampled["hybrid/quick"]["sampling"]
    assert told is not None
    plain = _sampling.options
    for every in (8, 4):
        monkeypatch.setattr(_sampling, "options", lambda on, every=every: plain(on, every))
        denser = ts.run(hybrid(), gups(60_000), sample=True)["hybrid/quick"]["sampling"]
        assert denser is not None
        assert denser["units"] > 1.5 * told["units"]
        half, foretold = denser["half_widths"]["time"], _sampling._half(told, every)
        assert half is not None
        assert 0.6 < half / foretold < 1.3, (every, half, foretold)


def test_a_time_that_is_hardly_known_is_said_to_be(sampled: ts.Result) -> None:
    data = copy.deepcopy(sampled.data)
    told = data["systems"]["hybrid/quick"]["sampling"]
    assert told is not None
    assert "hardly known" not in " ".join(report.closing_lines(data))
    told["half_widths"]["time"] = 1.084
    assert "hardly known (±108% on hybrid/quick)" in " ".join(report.closing_lines(data))


def test_plots_show_the_intervals(sampled: ts.Result) -> None:
    from matplotlib.container import ErrorbarContainer

    for figure in (sampled.plot_breakdown(), sampled.plot_latency()):
        found = [c for c in figure.axes[0].containers if isinstance(c, ErrorbarContainer)]
        assert len(found) == 1


def test_a_run_within_its_first_period_is_the_complete_run() -> None:
    runs = [ts.run(hybrid(), gups(500), sample=sample) for sample in (False, True)]
    said = runs[1]["hybrid/quick"]["notes"].pop()
    assert said.startswith("it ended before anything was passed over")
    for one in runs:
        for name in ("wall_s", "accesses_per_wall_s"):
            del one["hybrid/quick"][name]  # type: ignore[misc]
    assert runs[0].data == runs[1].data
    assert runs[1].complete
    assert not runs[1].sampled


def test_too_few_units_give_no_interval() -> None:
    result = ts.run(hybrid(), gups(5_000), sample=True)
    told = result["hybrid/quick"]["sampling"]
    assert told is not None
    assert 0 < told["units"] < 8
    assert set(told["half_widths"].values()) == {None}
    assert "±?" in result.report()
    assert "an interval needs 8 units at least" in result.report(width=200)
    assert "95 in 100" not in result.report(width=200), "no figure has an interval"


def test_a_run_that_ends_before_its_first_unit_is_told_by_its_start() -> None:
    """Where the first unit lies is drawn: of runs of so many lengths one ends before it."""
    for updates in range(500, 4000, 100):
        result = ts.run(hybrid(), gups(updates), sample=True)
        told = result["hybrid/quick"]["sampling"]
        if told is not None and told["units"] == 0:
            break
    else:
        pytest.fail("each run met a unit")
    assert set(told["half_widths"].values()) == {None}
    assert told["measured_time_ps"] > 0.99 * told["period_ps"]
    said = result.report(width=200)
    assert "by the first" in said
    assert "no unit was measured beyond" in said
    assert "95 in 100" not in said
    whole = ts.run(hybrid(), gups(updates))["hybrid/quick"]
    system = result["hybrid/quick"]
    assert system["accesses"] == whole["accesses"]
    assert system["instructions"] == whole["instructions"]
    assert abs(system["time_s"] / whole["time_s"] - 1) < 0.1


def test_a_precision_takes_a_second_run_with_more_units(sampled: ts.Result) -> None:
    first = sampled["hybrid/quick"]["sampling"]
    assert first is not None
    assert first["half_widths"]["time"] is not None
    wanted = first["half_widths"]["time"] * 0.8
    result = ts.run(hybrid(), gups(60_000), precision=wanted)
    system = result["hybrid/quick"]
    second = system["sampling"]
    assert second is not None
    assert second["units"] > 1.5 * first["units"]
    half = second["half_widths"]["time"]
    missed = any("was asked for" in note for note in system["notes"])
    assert half is not None
    assert missed == (half > wanted)


def test_a_precision_that_cannot_be_had_is_said() -> None:
    result = ts.run(hybrid(), gups(20_000), precision="0.001%")
    assert any("was asked for" in note for note in result["hybrid/quick"]["notes"])
    told = result["hybrid/quick"]["sampling"]
    assert told is not None
    assert told["period_ps"] == 3 * told["unit_ps"]


def _interrupt(_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("left_s", "watching", "said"),
    [(1e-6, None, "the time limit ended"), (1000.0, _interrupt, "an interrupt ended")],
)
def test_a_first_run_is_kept_where_the_second_is_cut_short(
    monkeypatch: pytest.MonkeyPatch, left_s: float, watching: Any, said: str
) -> None:
    """That one is whole, and less precise: hours of it are not lost."""
    plain, runs = _run._run_once, 0

    def second_is_cut(what: Any, target: Any, first_s: Any, first: Any, *others: Any) -> ts.Result:
        nonlocal runs
        runs += 1
        given = (first_s, first) if runs == 1 else (left_s, watching)
        return plain(what, target, *given, *others)

    monkeypatch.setattr(_run, "_run_once", second_is_cut)
    result = ts.run(hybrid(), gups(600_000), precision="0.1%", time_limit_s=1000)
    assert runs == 2
    assert result.data["partial_reason"] is None
    told, notes = result["hybrid/quick"]["sampling"], result["hybrid/quick"]["notes"]
    assert told is not None
    assert told["period_ps"] == 20 * told["unit_ps"]
    assert any(f"{said} a denser run" in note for note in notes)
    assert any("was asked for" in note for note in notes)


def test_a_precision_takes_no_more_units_than_have_room() -> None:
    """What is in detail before a unit is as long as what the store has under way."""
    names = {"oracle/quick": 3, "storage/quick": 4, "hams-le/quick": 4, "hybrid/quick": 9}
    machines = systems(list(names))
    assert [_sampling.densest([one]) for one in machines] == list(names.values())
    assert _sampling.densest(machines) == 9
    small = [("storage.dram_capacity", "6MiB"), ("processor.caches.2.capacity", "320KiB")]
    pair = [systems(["storage/quick"], small)[0], machines[0]]
    result = ts.compare(pair, gups(20_000), precision="0.001%")
    assert result.data["completeness"] == "sampled"
    told = result["storage/quick"]["sampling"]
    assert told is not None
    assert told["period_ps"] == 4 * told["unit_ps"]
    assert any("was asked for" in note for note in result["storage/quick"]["notes"])


@pytest.mark.parametrize(
    "wrong", ["3", "x%", "%", "-3%", "0%", "100%", 0, 1, 3, float("nan"), -0.1]
)
def test_a_precision_that_says_nothing_is_refused(wrong: object) -> None:
    with pytest.raises(RunError, match="the precision is"):
        _sampling.share(wrong)


@pytest.mark.parametrize(
    ("wrong", "said", "mend"),
    [
        ("3", "would be 300 %", "did you mean 3%?"),
        (1, "would be 100 %", "did you mean 1%?"),
        ("2.5", "would be 250 %", "did you mean 2.5%?"),
        ("-3%", "must lie between 0 and 100 %", "write a share"),
        ("300%", "must lie between 0 and 100 %", "write a share"),
    ],
)
def test_a_precision_beyond_its_range_is_told_as_what_it_would_be(
    wrong: object, said: str, mend: str
) -> None:
    with pytest.raises(RunError, match=said) as caught:
        _sampling.share(wrong)
    assert str(caught.value.hint).startswith(mend)


@pytest.mark.parametrize("wrong", [True, [], b"3%"])
def test_a_precision_of_another_type_is_refused(wrong: object) -> None:
    with pytest.raises(ArgumentError, match="the precision is"):
        _sampling.share(wrong)


def test_a_precision_is_a_share() -> None:
    assert (_sampling.share("3%"), _sampling.share(" 2.5 % "), _sampling.share(0.03)) == (
        0.03,
        0.025,
        0.03,
    )
    assert _sampling.share("±3%") == _sampling.share("± 3 %") == 0.03


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("cxl-ssd/switching/quick", "has a store that tells of long reads"),
        ("cxl-tiering/quick", "has two nodes of memory"),
        ("device/ddr4-2400", "is a device alone"),
        ("hybrid/quick", "has a DRAM cache that prefetches"),
    ],
)
def test_machines_that_cannot_be_sampled_are_named(name: str, why: str) -> None:
    with pytest.raises(RunError, match=f"{name} cannot be sampled: it {why}"):
        _sampling.check_machines([ts.system(name)])


@pytest.fixture(scope="module")
def untimed() -> ts.Result:
    sets = {**SMALL, "hybrid.prefetch_pages": "4"}
    machines = [*systems(["hybrid/quick"], list(sets.items())), *systems(["oracle/quick"], [])]
    return ts.compare(machines, gups(40_000), sample=True, warming="untimed")


def test_a_cache_that_prefetches_is_sampled_where_it_is_passed_over_without_times(
    untimed: ts.Result,
) -> None:
    told = untimed["hybrid/quick"]["sampling"]
    assert told is not None
    assert told["warming"] == "untimed"
    assert told["units"] >= 8
    assert told["half_widths"]["time"] is not None
    said = "without times, and no interval holds what that is off by"
    assert any(said in note for note in untimed["hybrid/quick"]["notes"])
    assert said in untimed.report(width=300)
    assert said in of_result(untimed).html()
    assert untimed.to_polars()["sampling_warming"].to_list()[0] == "untimed"
    # The oracle has no cache, and is passed over as ever.
    assert not any("without times" in note for note in untimed["oracle/quick"]["notes"])


def test_a_precision_may_be_asked_for_without_times() -> None:
    machine = hybrid().replace(hybrid=ts.Hybrid(prefetch_pages=2))
    result = ts.run(machine, gups(20_000), precision="60%", warming="untimed")
    told = result["hybrid/quick"]["sampling"]
    assert told is not None
    assert told["warming"] == "untimed"


def test_what_is_skipped_and_what_is_passed_over_are_warmed_without_times(
    tierscope: Runner,
) -> None:
    sets = {**SMALL, "hybrid.prefetch_pages": "4", "workload.updates": "20000"}
    sampled = ["run", "-s", "hybrid/quick", "-w", "gups", "--sample", "--set=workload.table=16MiB"]
    sampled += [f"--set={path}={value}" for path, value in sets.items()]
    asked = [*sampled, "--warming", "untimed"]
    for skip in ([], ["--skip", "5k"]):
        done = tierscope(*asked, *skip, "--json")
        assert done.returncode == 0, done.stderr
        system = json.loads(done.stdout)["systems"]["hybrid/quick"]
        assert system["sampling"]["warming"] == "untimed"
        assert (system["skipped"] or {}).get("warming", "untimed") == "untimed"
    planned = tierscope(*asked, "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert "sampled, one unit in 20" in planned.stdout
    for more in ([], ["--warming", "detailed", "--skip", "5k"]):
        refused = tierscope(*sampled, *more)
        assert refused.returncode == 125
        assert "cannot be sampled: it has a DRAM cache that prefetches" in refused.stderr
        assert "say --warming untimed" in refused.stderr


def test_a_warming_without_times_of_nothing_is_refused_as_ever() -> None:
    for machine in ("storage/quick", "oracle/quick"):
        with pytest.raises(RunError, match="untimed warming has nothing to warm") as caught:
            ts.run(machine, gups(100), sample=True, warming="untimed")
        assert str(caught.value.hint).startswith("leave the warming out")
    with pytest.raises(RunError, match="untimed warming has nothing to warm"):
        ts.run("hybrid/quick", gups(100), warming="untimed")
    with pytest.raises(RunError, match="nothing comes before the region whose warming"):
        ts.run("hybrid/quick", gups(100), sample=True, warming="functional")


def test_a_program_is_not_run_twice() -> None:
    with pytest.raises(RunError, match="a program would do twice"):
        ts.run(hybrid(), ts.Program(["true"]), precision=0.03)
