"""Why a run takes its time: effects are those of the changed machines, and bounds hold."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import tierscope as ts
from conftest import Runner
from tierscope._why import _raised, lines
from tierscope.breakdown import where

SMALL: dict[str, Any] = {"updates": 300, "table": "16MiB"}


def test_an_effect_is_what_a_run_of_the_changed_machine_gives() -> None:
    machine, work = ts.system("hybrid/quick"), ts.workload("gups", **SMALL)
    found = ts.why([machine], work, points=12)
    (reason,) = found.reasons
    base = ts.run(machine, work)["hybrid/quick"]
    assert found.result["hybrid/quick"]["time_s"] == base["time_s"]
    first = reason.effects[0]
    assert first.path == "store.read_latency", "most of the time is the medium's"
    changed = machine.with_sets([(first.path, first.tried)])
    time_s = ts.run(changed, work)["hybrid/quick"]["time_s"]
    assert first.time_change == pytest.approx(time_s / base["time_s"] - 1, rel=1e-9)
    assert first.elasticity == pytest.approx(first.time_change / first.change)
    assert first.change == pytest.approx(0.1)
    ranked = [abs(one.elasticity) for one in reason.effects]
    assert ranked == sorted(ranked, reverse=True)
    parts = where(base)
    total = sum(size for _, size in parts)
    assert dict(reason.groups) == pytest.approx({group.label: s / total for group, s in parts})
    assert reason.stage == "medium"
    assert reason.share == pytest.approx(base["time_breakdown_ns"]["medium"] / total)


def test_a_bound_leaves_out_what_weighs_least_and_says_so() -> None:
    work = ts.workload("gups", **SMALL)
    seen: list[ts.SweepProgress] = []
    (reason,) = ts.why(["hybrid/quick"], work, points=4, watch=seen.append).reasons
    tables = [one.path.partition(".")[0] for one in reason.effects]
    assert sorted(tables) == ["hybrid", "hybrid", "store", "store"], "they concern most of the time"
    assert (seen[-1].done, seen[-1].total) == (4, 4)
    left = {path: why for path, _, why in reason.left}
    assert "processor.cores" in left, "there are no 4.4 cores"
    known = {path for path, _ in left.items()} | set(reason.untried)
    assert not known & {one.path for one in reason.effects}
    assert "were not tried" in lines(reason)[-1]


def test_a_time_limit_ends_it_with_what_there_is() -> None:
    work = ts.workload("gups", updates=20_000, table="16MiB")
    begun_s = time.monotonic()
    ts.run("hybrid/quick", work)
    some_s = 6 * (time.monotonic() - begun_s)  # Of more than fifty runs.
    (reason,) = ts.why(["hybrid/quick"], work, points=1000, time_limit_s=some_s).reasons
    assert reason.untried
    assert reason.ended == "the time limit was reached"
    assert reason.groups


@pytest.mark.parametrize(
    ("value", "raised"),
    [
        ("25us", [("27.5us", 0.1)]),
        ("2GHz", [("2.2GHz", 0.1)]),
        (0.5, [("0.55", 0.1)]),
        (192, [("211", 211 / 192 - 1)]),
        (4, [None]),
        (True, []),
        ("open", []),
        ("6W", []),
        (0, []),
    ],
)
def test_numbers_are_raised_by_a_tenth_where_they_can_be(
    value: object, raised: list[tuple[str, float] | None]
) -> None:
    found = list(_raised(value))
    assert [None if one is None else one[0] for one in found] == [
        None if one is None else one[0] for one in raised
    ]
    for one, expected in zip(found, raised, strict=True):
        if one is not None and expected is not None:
            assert one[1] == pytest.approx(expected[1])


def test_the_command_line_prints_keeps_and_refuses(tierscope: Runner, tmp_path: Path) -> None:
    base = ["run", "-s", "hybrid/quick", "-w", "gups", "--set", "workload.updates=300"]
    base += ["--set", "workload.table=16MiB"]
    run = tierscope(*base, "--why", "--why-runs", "2", "-o", "out", "--json=all.json")
    assert run.returncode == 0, run.stderr
    assert "Why hybrid/quick: store" in run.stdout
    said = json.loads((tmp_path / "all.json").read_text())["why"]
    assert said == json.loads((tmp_path / "out/why.json").read_text())
    assert len(said[0]["effects"]) == 2
    assert tierscope("show", "out").returncode == 0
    again = tierscope(*base, "-o", "out")
    assert again.returncode == 0, "a result with why.json is an earlier result"
    assert not (tmp_path / "out/why.json").exists()
    for refused, told in (
        (("run", "-s", "hybrid/quick", "--why", "--", "true"), "tierscope record"),
        ((*base, "--why", "--repeat", "2"), "--why is for one whole run, without --repeat"),
        ((*base, "--why", "--limit", "5ms"), "whatever a machine is like"),
    ):
        found = tierscope(*refused)
        assert found.returncode == 125
        assert told in found.stderr
