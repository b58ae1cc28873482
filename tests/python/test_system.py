"""Systems and workloads as Python objects."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tierscope as ts
from tierscope import _workload
from tierscope._system import systems, with_names_told_apart

UNTYPED: Any = ts
"""The package, as those see it who do not check types."""
PLAIN = "write texts, finite numbers, truth values, lists and parts such as DramCache(...)"


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


def test_another_kind_of_link_is_given_as_the_guide_says() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "python.md").read_text(encoding="utf-8")
    (links,) = (block for block in guide.split("```python\n") if block.startswith("pcie = "))
    said: dict[str, Any] = {"ts": ts, "base": ts.system("hybrid/quick")}
    exec(compile(links.partition("```")[0], "python.md", "exec"), said)
    described = said["wider"].to_dict()
    assert "link" not in described, "another kind of link takes its place"
    assert (described["pcie"]["generation"], described["pcie"]["lanes"]) == (4, 8)


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


def test_a_wrong_parameter_is_told_at_once() -> None:
    with pytest.raises(ts.SpecError) as raised:
        ts.workload("gups", rnd=1)
    assert str(raised.value) == (
        "error[unknown-key]: workload.rnd = 1: the workload gups has no such parameter; "
        "did you mean `random`?"
    )
    with pytest.raises(ts.SpecError, match=r"workload\.random = 2: not a probability"):
        ts.workload("gups", random=2)


def test_numbers_are_set_as_people_shorten_them() -> None:
    def resolved(value: str) -> object:
        [machine] = systems(["storage/quick"], [("storage.dirty_ratio", value)])
        return machine.to_dict()["storage"]["dirty_ratio"]

    assert resolved("15%") == resolved("0.15") == 0.15
    work = ts.workload("gups", updates="1.5k", random="20%", table="1MiB")
    parameters = ts.run("oracle/quick", work).data["workload"]["parameters"]
    assert (parameters["updates"], parameters["random"]) == (1500, 0.2)
    assert parameters["table"] == "1MiB"


def test_an_unknown_workload_is_met_with_a_proposal() -> None:
    with pytest.raises(ts.SpecError, match="did you mean `gups`"):
        ts.workload("gusp")


@pytest.mark.parametrize(
    ("wrong", "message", "hint"),
    [
        (lambda: UNTYPED.DramCache(way=1), "DramCache has no key `way`", "did you mean `ways`?"),
        (
            lambda: UNTYPED.Oracle(frequency=1),
            "Oracle has no key `frequency`",
            "its keys are capacity",
        ),
        (
            lambda: UNTYPED.Oracle("4GiB"),
            "Oracle takes its values by name, and '4GiB' (str) has none",
            "write Oracle(capacity=...)",
        ),
        (
            lambda: UNTYPED.system("hybrid").replace(cahce=3),
            "system hybrid has no key `cahce`",
            "did you mean `cache`?",
        ),
        (
            lambda: UNTYPED.system("hybrid").replace(link=ts.Pcie(generation=4, lanes=4)),
            "`link` takes a part of type Link, not Pcie",
            "write pcie=ts.Pcie(...)",
        ),
        (
            lambda: UNTYPED.system("storage").replace(dram=ts.DramCache(ways=4)),
            "`dram` takes a part of type Dram, not DramCache",
            "write dram=ts.Dram(...)",
        ),
        (
            lambda: UNTYPED.system("hybrid").replace(cache=object),
            "the description: Object of type type is not JSON serializable",
            PLAIN,
        ),
        (
            lambda: UNTYPED.system(3),
            "a system's name is a text or a path, not 3 (int)",
            'write the name of a preset, such as "hybrid", or the path of a TOML file',
        ),
        (
            lambda: UNTYPED.run("oracle/quick", 3),
            "the workload is 3 (int)",
            'give a name such as "gups", or what workload() or program() gives',
        ),
        (
            lambda: UNTYPED.run("oracle/quick", Path("app.tst")),
            f"the workload is {Path('app.tst')!r} (PosixPath)",
            'a recording is "trace:app.tst"',
        ),
        (
            lambda: UNTYPED.run(3, "gups"),
            "a system's name is a text or a path, not 3 (int)",
            'write the name of a preset, such as "hybrid", or the path of a TOML file',
        ),
        (
            lambda: UNTYPED.compare("hybrid", "gups"),
            "the systems are 'hybrid' (str)",
            'give a list of systems and names, such as ["hybrid", "oracle"]',
        ),
        (
            lambda: UNTYPED.compare(3, "gups"),
            "the systems are 3 (int)",
            'give a list of systems and names, such as ["hybrid", "oracle"]',
        ),
        (
            lambda: UNTYPED.run("oracle/quick", "gups", limit=1.5),
            "the limit is 1.5 (float)",
            'write accesses (1000000 or "1M"), "2G instructions", or simulated time, such as "5ms"',
        ),
        (
            lambda: UNTYPED.run("oracle/quick", "gups", time_limit_s="1s"),
            "the time limit is '1s' (str)",
            "write a number of seconds above 0",
        ),
        (
            lambda: UNTYPED.run("oracle/quick", "gups", watch=3),
            "the watcher is 3 (int)",
            "give a function that takes a list of Progress",
        ),
        (
            lambda: UNTYPED.workload(3),
            "a workload's name is 3 (int)",
            'write a name such as "gups", or "trace:app.tst"',
        ),
        (
            lambda: UNTYPED.workload("gups", seed="3"),
            "the seed is '3' (str)",
            "write a whole number from 0 to 18446744073709551615",
        ),
        (
            lambda: UNTYPED.workload("gups", random=float("nan")),
            "the workload gups holds a number that is none: parameters.random",
            PLAIN,
        ),
        (
            lambda: UNTYPED.run("oracle/quick", ts.Generated("gups", {"random": float("nan")})),
            "the workload holds a number that is none: workload.parameters.random",
            PLAIN,
        ),
        (
            lambda: UNTYPED.workload("trace:app.tst", seed=3),
            "a seed means nothing to the recording app.tst: it is as it was recorded",
            "leave it out",
        ),
        (
            lambda: UNTYPED.record("ls -l", "app.tst"),
            "the command is 'ls -l' (str), not a list",
            'write each part by itself: ["ls", "-l"]',
        ),
        (
            lambda: UNTYPED.program("ls", 3),
            "each part of a command is a text or a path, not 3 (int)",
            'write each part by itself: ["ls", "-l"]',
        ),
        (
            lambda: UNTYPED.load(3),
            "a result's directory is a text or a path, not 3 (int)",
            "name a directory that `tierscope run -o` wrote",
        ),
    ],
)
def test_an_argument_of_another_kind_is_refused_in_these_words(
    wrong: Callable[[], object], message: str, hint: str
) -> None:
    with pytest.raises(ts.ArgumentError) as raised:
        wrong()
    assert isinstance(raised.value, TypeError), "as Python itself would have it"
    assert (str(raised.value), raised.value.hint) == (message, hint)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: ts.workload("gups", seed=-1), "the seed is -1"),
        (lambda: ts.Generated("gups", seed=-1), "the seed is -1"),
        (lambda: ts.workload("gups", seed=1 << 64), "the seed is 18446744073709551616"),
        (lambda: ts.program(), "there is no program to run"),
        (lambda: ts.program(""), "the program's name is empty"),
        (lambda: ts.workload("app.tst"), "app.tst is a file, not a workload's name"),
        (lambda: ts.run("oracle", "gups", limit=-1), "the limit is -1, which is negative"),
        (lambda: ts.run("oracle", "gups", time_limit_s=0), "the time limit is 0 s"),
    ],
)
def test_an_impossible_argument_is_refused_with_its_mend(
    wrong: Callable[[], object], message: str
) -> None:
    with pytest.raises(ts.RunError) as raised:
        wrong()
    assert str(raised.value) == message
    assert raised.value.hint


def test_what_is_no_workload_is_not_said_to_be_generated() -> None:
    with pytest.raises(ts.TierscopeError) as raised:
        _workload.named("app.tst.partial", {}, None, allow_truncated=True)
    assert "generated" not in str(raised.value)
    with pytest.raises(ts.ArgumentError, match="the generated workload gups"):
        _workload.named("gups", {}, None, allow_truncated=True)


def test_parts_can_be_copied_and_pickled() -> None:
    part = ts.DramCache(ways=4)
    assert copy.deepcopy(part) == part
    assert pickle.loads(pickle.dumps(part)) == part


def test_what_was_changed_of_a_preset_is_told(tmp_path: Path) -> None:
    (ways,) = systems(["hybrid/quick"], [("hybrid.cache.ways", "64")])
    assert ways.changes == {"hybrid.cache.ways": 64}
    assert ts.system("hybrid/quick").changes == {}
    small = ts.system("hybrid/quick").replace(cache=ts.DramCache(capacity="64MiB"), name="small")
    assert small.changes == {"hybrid.cache.capacity": "64MiB"}
    both = small.with_sets([("processor.caches.L1D.ways", "4")])
    assert both.changes == {"hybrid.cache.capacity": "64MiB", "processor.caches[0].ways": 4}
    file = tmp_path / "kept.toml"
    file.write_text(both.to_toml(), encoding="utf-8")
    assert ts.system(file).changes == both.changes, "a description that was kept says it still"
    file.write_text('base = "hybrid/quick"\n[hybrid.cache]\nways = 64\n', encoding="utf-8")
    assert ts.system(file).changes == {}, "the file is another machine, with another name"


def test_the_result_says_what_was_changed() -> None:
    work = ts.workload("gups", updates=100)
    (ways,) = systems(["hybrid/quick"], [("hybrid.cache.ways", "64")])
    result = ts.compare([ways, "oracle/quick"], work)
    assert result["oracle/quick"]["notes"] == []
    (note,) = result["hybrid/quick"]["notes"]
    assert note == "changed from its preset or file: hybrid.cache.ways is 64"
    assert f"hybrid/quick: {note}" in result.report(width=200)
