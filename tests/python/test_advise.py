"""Advice: the front is Pareto's, crossovers lie where they are, and what is unsure is said so."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import tierscope as ts
from conftest import Runner
from hypothesis import given
from hypothesis import strategies as st
from tierscope.advise import (
    OBJECTIVES,
    Advice,
    Budget,
    Candidate,
    _crossovers,
    _placed,
    advise,
    lines,
    study_of,
)
from tierscope.advise_budget import read_budget

ARGUMENTS = (
    *("advise", "-s", "hybrid/quick,storage/quick", "-w", "gups"),
    *("--set", "workload.updates=2000", "--set", "workload.table=16MiB"),
    *("--set", "workload.touched=true", "--dram", "12MiB,32MiB", "-o", "advice"),
)


def candidate(slowdown: float, cost: float, energy_j: float, half: float | None) -> Candidate:
    return Candidate("a", "1MiB", 1 << 20, slowdown, half, cost, energy_j, None)


def measures(one: Candidate) -> tuple[float, float, float]:
    """What is weighed."""
    return one.slowdown, one.cost, one.energy_j or 0.0


numbers = st.integers(1, 4).map(float)
candidates = st.lists(st.builds(candidate, numbers, numbers, numbers, st.none()), max_size=8)


@given(candidates)
def test_the_front_is_that_of_a_search_of_all_pairs(found: list[Candidate]) -> None:
    weighed = OBJECTIVES[:3]
    for one in found:
        own = measures(one)
        worse = any(
            all(x <= y for x, y in zip(theirs, own, strict=True)) and theirs != own
            for other in found
            for theirs in [measures(other)]
        )
        assert _placed(one, found, weighed, Budget()).front == ("no" if worse else "yes")


def test_what_intervals_do_not_tell_apart_is_unsure() -> None:
    quick, slow = candidate(2.0, 1.0, 1.0, 0.5), candidate(2.4, 1.0, 1.0, 0.5)
    both = [quick, slow]
    assert [_placed(one, both, OBJECTIVES[:3], Budget()).front for one in both] == ["unsure"] * 2
    sharp = [replace(one, half_width=0.1) for one in both]
    placed = [_placed(one, sharp, OBJECTIVES[:3], Budget(slowdown=2.35)) for one in sharp]
    assert [(one.front, one.fits) for one in placed] == [("yes", "yes"), ("no", "unsure")]
    small = Budget(dram_limit_bytes=1 << 10)
    assert _placed(quick, both, OBJECTIVES[:3], small).fits == "no"


@pytest.mark.parametrize(("half", "sure"), [(None, False), (0.1, True), (0.6, False)])
def test_a_crossover_lies_between_the_sizes_where_the_order_turns(
    half: float | None, sure: bool
) -> None:
    times = {("a", 1): 2.0, ("a", 2): 2.0, ("a", 4): 2.0, ("b", 1): 4.0, ("b", 2): 3.0}
    times |= {("b", 4): 1.0}
    found = [
        Candidate(name, f"{size}MiB", size << 20, times[name, size], half, 1.0, None, None)
        for name, size in product("ab", (1, 2, 4))
    ]
    (crossover,) = _crossovers(found)
    assert (crossover.smaller, crossover.larger) == ("a", "b")
    assert (crossover.least, crossover.most, crossover.sure) == ("2MiB", "4MiB", sure)


def test_advice_says_what_the_runs_gave(tierscope: Runner, tmp_path: Path) -> None:
    prices = "slowdown = 1000\n[usd_per_gb]\ndram = 4\nhybrid = 0.5\nstorage = 0.25\n"
    (tmp_path / "budget.toml").write_text(prices)
    run = tierscope(*ARGUMENTS, "--budget", "budget.toml", "--seeds", "2", "--json=all.json")
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "advice/front.png").read_bytes().startswith(b"\x89PNG")
    said = json.loads((tmp_path / "all.json").read_text())
    assert said["weighed"] == ["slowdown", "cost", "energy_j"]
    assert len(said["candidates"]) == 4
    one = next(
        c for c in said["candidates"] if (c["system"], c["dram"]) == ("storage/quick", "12MiB")
    )
    work = [
        ts.workload("gups", seed=seed, updates=2000, table="16MiB", touched=True) for seed in (0, 1)
    ]
    machine = ts.system("storage/quick").with_sets([("storage.dram_capacity", "12MiB")])
    whole = ts.system("oracle/quick")
    ratios = []
    for each in work:
        found = ts.compare([machine, whole], each)
        ratios.append(found["storage/quick"]["time_s"] / found["oracle/quick"]["time_s"])
    assert one["slowdown"] == pytest.approx(sum(ratios) / 2)
    assert one["half_width"] == pytest.approx(12.706 * abs(ratios[0] - ratios[1]) / 2, rel=1e-3)
    touched = found["oracle/quick"]["counters"]["footprint_bytes"]
    assert one["cost"] == pytest.approx(((12 << 20) * 4 + touched * 0.25) / 1e9, rel=1e-3)
    best = said["best"]
    assert best["front"] != "no"
    assert best["fits"] == "yes"
    assert best["cost"] == min(
        c["cost"] for c in said["candidates"] if c["fits"] == "yes" and c["front"] != "no"
    )


def test_advice_without_prices_counts_dram(tmp_path: Path) -> None:
    sets = {"workload.updates": 300}
    asked = study_of(["hybrid/quick"], "oracle/quick", "gups", ["16MiB", "32MiB"], set=sets)
    found = advise(ts.sweep(asked, tmp_path / "out"), "oracle/quick", Budget())
    assert found.cost_unit == "GB of DRAM"
    assert [one.cost for one in found.candidates] == [(16 << 20) / 1e9, (32 << 20) / 1e9]
    assert all(one.half_width is None for one in found.candidates)
    lacking = Budget(usd_per_gb={"dram": 1.0})
    with pytest.raises(ts.SpecError, match="the figure of the store of hybrid/quick is missing"):
        lacking.check([ts.system("hybrid/quick")], ts.system("oracle/quick"))
    with pytest.raises(ts.TierscopeError, match="no figure of the store of hybrid/quick"):
        advise(ts.load_sweep(tmp_path / "out"), "oracle/quick", lacking)
    with pytest.raises(ts.TierscopeError, match="gave no time"):
        advise(ts.load_sweep(tmp_path / "out"), "nvdimm/quick", Budget())


def test_a_budget_is_read(tmp_path: Path) -> None:
    path = tmp_path / "budget.toml"
    path.write_text('dram_limit = "1GiB"\nslowdown = 2\n[usd_per_gb]\ndram = 3.5\n')
    assert read_budget(path) == Budget(1 << 30, 2, {"dram": 3.5})


def test_a_budget_by_technology_is_one_by_part(tmp_path: Path) -> None:
    path = tmp_path / "budget.toml"
    path.write_text(
        "[technologies]\nddr4 = { usd_per_gb = 3, w_per_gb = 0.4 }\n"
        "slc = { usd_per_gb = 0.5, w_per_gb = 0.01 }\n"
        '[made_of]\ndram = "ddr4"\nhybrid = "slc"\n[usd_per_gb]\nstorage = 0.25\n'
    )
    usd = {"dram": 3, "hybrid": 0.5, "storage": 0.25}
    found = read_budget(path)
    assert found == Budget(usd_per_gb=usd, w_per_gb={"dram": 0.4, "hybrid": 0.01})
    reference = ts.system("oracle/quick")
    with pytest.raises(ts.SpecError) as raised:
        found.check([ts.system("hybrid/quick"), ts.system("storage/quick")], reference)
    (problem,) = raised.value.problems
    assert problem.path == "w_per_gb.storage/quick", "only the power of one store is missing"
    found.check([ts.system("hybrid/quick")], reference)
    typed = Budget(usd_per_gb={"dram": 1.0, "hybird": 0.1})
    with pytest.raises(ts.SpecError, match="did you mean `hybrid`"):
        typed.check([reference], reference)


def test_nothing_runs_before_the_budget_is_right(tierscope: Runner, tmp_path: Path) -> None:
    (tmp_path / "budget.toml").write_text("[usd_per_gb]\ndram = 4\nhybrid = 0.5\n")
    run = tierscope(*ARGUMENTS, "--budget", "budget.toml")
    assert run.returncode == 125
    assert "the figure of the store of storage/quick is missing" in run.stderr
    assert "--> budget.toml:1:2" in run.stderr
    assert not (tmp_path / "advice").exists()


def test_energy_by_powers_is_power_times_time(tmp_path: Path) -> None:
    sets = {"workload.updates": 300}
    asked = study_of(["hybrid/quick"], "oracle/quick", "gups", ["16MiB"], set=sets)
    done = ts.sweep(asked, tmp_path / "out")
    powers = {"dram": 2.0, "hybrid": 0.5}
    found = advise(done, "oracle/quick", Budget(w_per_gb=powers))
    (one,) = found.candidates
    row = next(r for r in done.table().iter_rows(named=True) if r["system"] == "hybrid/quick")
    power_w = ((16 << 20) * 2.0 + row["footprint_bytes"] * 0.5) / 1e9
    assert one.energy_j == pytest.approx(power_w * row["time_s"])
    assert found.to_dict()["energy_by"] == "powers"
    simulated = advise(done, "oracle/quick", Budget())
    assert simulated.candidates[0].energy_j == pytest.approx(row["energy_j"])


def test_a_machine_without_a_store_has_the_memory_that_it_is_described_with(tmp_path: Path) -> None:
    sets = {"workload.updates": 300}
    systems = ["nvdimm/quick", "hybrid/quick"]
    asked = study_of(systems, "oracle/quick", "gups", ["16MiB"], set=sets)
    found = advise(ts.sweep(asked, tmp_path / "out"), "oracle/quick", Budget())
    whole = next(one for one in found.candidates if one.system == "nvdimm/quick")
    assert (whole.dram, whole.dram_bytes) == ("2.00 GiB", 2 << 30)
    assert whole.cost == (2 << 30) / 1e9


@pytest.mark.parametrize(("half", "apart"), [(None, 2.05), (0.1, 2.3)])
def test_what_the_runs_do_not_tell_apart_is_told(half: float | None, apart: float) -> None:
    def found(slowdown: float) -> Advice:
        both = [candidate(2.0, 1.0, 1.0, half), candidate(slowdown, 2.0, 1.0, half)]
        placed = [_placed(one, both, OBJECTIVES[:3], Budget()) for one in both]
        seeds = 1 if half is None else 3
        weighed = OBJECTIVES[:3]
        return Advice(tuple(placed), (), "oracle", weighed, "USD", seeds, "gups", "complete")

    near = found(2.02)
    assert [one.slowdown for one in near.like_the_best] == [2.02]
    assert any(
        line.startswith("By time it cannot be told from a with 1MiB") for line in lines(near)
    )
    assert not found(apart).like_the_best
    assert not any("cannot be told" in line for line in lines(found(apart)))
