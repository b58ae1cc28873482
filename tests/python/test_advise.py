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
    Budget,
    Candidate,
    _crossovers,
    _placed,
    advise,
    read_budget,
    study_of,
)

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
    with pytest.raises(ts.TierscopeError, match="no price of the store of hybrid/quick"):
        advise(ts.load_sweep(tmp_path / "out"), "oracle/quick", Budget(usd_per_gb={"dram": 1.0}))
    with pytest.raises(ts.TierscopeError, match="gave no time"):
        advise(ts.load_sweep(tmp_path / "out"), "nvdimm/quick", Budget())


def test_a_budget_is_read(tmp_path: Path) -> None:
    path = tmp_path / "budget.toml"
    path.write_text('dram_limit = "1GiB"\nslowdown = 2\n[usd_per_gb]\ndram = 3.5\n')
    assert read_budget(path) == Budget(1 << 30, 2, {"dram": 3.5})
