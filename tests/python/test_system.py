"""Systems and workloads as Python objects."""

from __future__ import annotations

from pathlib import Path

import pytest
import tierscope as ts
from tierscope._system import with_names_told_apart


def test_a_part_says_only_what_differs() -> None:
    base = ts.system("hybrid/quick")
    wide = base.replace(cache=ts.DramCache(ways=64))
    expected = base.to_dict()
    expected["hybrid"]["cache"]["ways"] = 64
    assert wide.to_dict() == expected
    assert base.to_dict()["hybrid"]["cache"]["ways"] != 64, "the base is as it was"


def test_changes_add_up() -> None:
    base = ts.system("hybrid/quick")
    both = base.replace(cache=ts.DramCache(ways=8)).replace(cache=ts.DramCache(tag_latency="5ns"))
    assert both == base.replace(cache=ts.DramCache(ways=8, tag_latency="5ns"))
    assert both.replace(hybrid=ts.Hybrid(fills=4)).to_dict()["hybrid"]["cache"]["ways"] == 8


def test_a_key_that_is_not_there_is_named() -> None:
    with pytest.raises(ts.TierscopeError, match="no key `cash`"):
        ts.system("hybrid/quick").replace(cash=ts.DramCache())


def test_every_mistake_is_told_with_its_place_and_its_mend() -> None:
    with pytest.raises(ts.SpecError) as raised:
        ts.system("hybrid/quick").replace(
            cache=ts.DramCache(page="4kb"),
            processor=ts.Processor(cores="two"),  # type: ignore[arg-type]
        )
    problems = {problem.path: problem for problem in raised.value.problems}
    assert set(problems) == {"hybrid.cache.page", "processor.cores"}
    assert problems["hybrid.cache.page"].code == "bad-unit"
    assert all(problem.mend for problem in problems.values())
    assert str(raised.value).count("error[") == 2


def test_toml_loads_back_to_the_same_machine(tmp_path: Path) -> None:
    machine = ts.system("storage/quick").replace(name="mine")
    path = tmp_path / "any.toml"
    path.write_text(machine.to_toml(), encoding="utf-8")
    assert ts.system(path) == machine


def test_machines_of_equal_names_are_called_by_what_sets_them_apart() -> None:
    base = ts.system("hybrid/quick")
    machines = [base, base.replace(cache=ts.DramCache(ways=64)), base, base]
    told = with_names_told_apart(machines)
    assert [one.name for one in told] == [
        "hybrid/quick",
        "hybrid/quick+ways-64",
        "hybrid/quick@2",
        "hybrid/quick@3",
    ]
    assert told[1].to_dict() == {**machines[1].to_dict(), "name": "hybrid/quick+ways-64"}


def test_a_recording_takes_no_parameters() -> None:
    with pytest.raises(TypeError, match="no parameters"):
        ts.workload("trace:app.tst", random=0.5)


def test_a_wrong_parameter_is_named_with_those_there_are() -> None:
    with pytest.raises(ts.SpecError, match=r"workload\.rnd = 1.*it has table"):
        ts.run("oracle/quick", ts.workload("gups", rnd=1))


def test_an_unknown_workload_is_met_with_a_proposal() -> None:
    with pytest.raises(ts.SpecError, match="did you mean `gups`"):
        ts.run("oracle/quick", "gusp")
