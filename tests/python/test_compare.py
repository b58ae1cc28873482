"""Kept results: shown again, and side by side."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import tierscope as ts
from conftest import Runner
from rich.console import Console
from tierscope._compare import Comparison
from tierscope._shape import ResultData

SHORT = ("-w", "gups", "--set", "workload.updates=500")
Keeper = Callable[..., Path]


@pytest.fixture
def keep(tierscope: Runner, tmp_path: Path) -> Keeper:
    """Keeps the result of a short run."""

    def kept(name: str, systems: str, *more: str) -> Path:
        ended = tierscope("run", "-s", systems, *SHORT, *more, "-o", name)
        assert ended.returncode == 0, ended.stderr
        (tmp_path / f"{name}.txt").write_text(ended.stdout, encoding="utf-8")
        return tmp_path / name

    return kept


def text(results: dict[str, ts.Result], width: int = 100) -> str:
    console = Console(width=width, color_system=None, force_terminal=False)
    return Comparison(results).render(console, unicode=True).plain


def test_a_kept_result_is_shown_as_the_run_printed_it(
    tierscope: Runner, keep: Keeper, tmp_path: Path
) -> None:
    keep("kept", "hybrid/quick,oracle/quick")
    shown = tierscope("show", "kept")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == (tmp_path / "kept.txt").read_text(encoding="utf-8")
    in_json = tierscope("show", "kept/", "--json")
    assert json.loads(in_json.stdout) == ts.load(tmp_path / "kept").data
    tierscope("show", "kept", "--json=again.json")
    assert (tmp_path / "again.json").read_text(encoding="utf-8") == in_json.stdout


def test_a_system_is_shown_as_json_too(tierscope: Runner) -> None:
    shown = json.loads(tierscope("show", "hybrid", "--json", "--set", "seed=7").stdout)
    assert shown == {**ts.system("hybrid").to_dict(), "seed": 7}


def test_a_preset_comes_before_a_directory_of_its_name(tierscope: Runner, keep: Keeper) -> None:
    keep("hybrid", "oracle/quick")
    assert "[hybrid.cache]" in tierscope("show", "hybrid").stdout
    assert "Execution time" in tierscope("show", "./hybrid").stdout


def test_kept_results_stand_side_by_side(tierscope: Runner, keep: Keeper) -> None:
    keep("before", "hybrid/quick,oracle/quick")
    keep("after", "hybrid/quick", "--set", "hybrid.cache.ways=64")
    shown = tierscope("compare", "before", "after/", COLUMNS="100")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("gups: 1 thread, ")
    names = ["before:hybrid/quick", "oracle/quick", "after:hybrid/quick"]
    assert lines[2].split() == names
    slowdowns = next(line for line in lines if line.startswith("Slowdown")).split()[3:]
    assert len([one for one in slowdowns if one.endswith("×")]) == 3, "one oracle measures all"
    assert "hybrid/quick differs: hybrid.cache.ways is 16 in before, 64 in after." in lines
    assert lines[-1] == "Complete: the whole workload was simulated on every system."


def test_results_of_different_workloads_are_told_to_be_so(
    tierscope: Runner, keep: Keeper, tmp_path: Path
) -> None:
    first, second = keep("a", "oracle/quick"), keep("b", "hybrid/quick", "--seed", "3")
    shown = text({"a": ts.load(first), "b": ts.load(second)})
    assert shown.startswith("Different workloads (a: gups, b: gups)\n")
    assert (
        "The workloads differ, and the columns do not measure the same work: "
        "seed is 0 in a, 3 in b.\n"
    ) in shown
    assert shown.splitlines()[2].split() == ["oracle/quick", "hybrid/quick"]
    slowdowns = next(line for line in shown.splitlines() if line.startswith("Slowdown"))
    assert slowdowns.split()[3:] == ["1.00×", "–"], "another workload's oracle is no measure"
    in_json = json.loads(tierscope("compare", "a", "b", "--json").stdout)
    assert in_json["workload_differences"] == {"seed": {"a": 0, "b": 3}}
    assert in_json["results"] == {
        name: json.loads((tmp_path / name / "result.json").read_text(encoding="utf-8"))
        for name in ("a", "b")
    }


def test_a_result_that_is_not_complete_says_so_of_itself(sample: ResultData) -> None:
    part: ResultData = {**sample, "completeness": "partial", "partial_reason": "the lights went"}
    shown = text({"a": ts.Result(sample), "b": ts.Result(part)}, width=200)
    assert "b: Partial: the lights went." in shown
    assert "a: Complete: the whole workload was simulated on every system." in shown
    other: ResultData = {**sample, "version": "0.0.1"}
    shown = text({"a": ts.Result(sample), "b": ts.Result(other)}, width=200)
    assert f"The versions of tierscope differ: {sample['version']} in a, 0.0.1 in b." in shown


def test_names_are_not_cut_where_they_would_then_be_the_same(sample: ResultData) -> None:
    labels = ("results/of/the/first/day", "results/of/the/first/night")
    shown = text({label: ts.Result(sample) for label in labels}, width=400)
    for label in labels:
        assert f"{label}:hybrid/quick" in shown


def test_the_same_machine_in_both_is_told_to_be_the_same(keep: Keeper) -> None:
    first, second = keep("a", "oracle/quick"), keep("b", "oracle/quick", "--seed", "1")
    shown = text({"a": ts.load(first), "b": ts.load(second)})
    assert "oracle/quick is the same machine in a, b." in shown


def test_the_measure_of_a_slowdown_ended_at_the_same_place(sample: ResultData) -> None:
    def only(name: str, instructions: int) -> ts.Result:
        system = {**sample["systems"][name], "slowdown": None, "instructions": instructions}
        return ts.Result(cast(ResultData, {**sample, "systems": {name: system}}))

    oracle, other, _ = sorted(sample["systems"], key=lambda name: "oracle" not in name)
    for instructions, given in [(1_000_000, True), (1_005_000, True), (500_000, False)]:
        shown = text({"a": only(oracle, 1_000_000), "b": only(other, instructions)})
        row = next(line for line in shown.splitlines() if line.startswith("Slowdown"))
        assert row.endswith("×") == given, row


def of_a_program(sample: ResultData, **workload: object) -> ResultData:
    return cast(ResultData, {**sample, "workload": {**sample["workload"], **workload}})


def test_a_program_and_the_replay_of_its_recording_are_one_workload(sample: ResultData) -> None:
    command = ["sqlite3", "test.db"]
    live = of_a_program(sample, name="sqlite3", kind="live", command=command, parameters={})
    file = {"file": "kept/app.tst"}
    replay = of_a_program(sample, name="app", kind="recorded", command=command, parameters=file)
    both = {"a": ts.Result(live), "b": ts.Result(replay)}
    assert Comparison(both).differences == {}
    shown = text(both, width=200)
    assert not shown.startswith("Different workloads")
    assert "\nAll are of one command: it ran in a, b is a replay of kept/app.tst.\n" in shown
    assert "All are of one command" not in text({"a": ts.Result(live), "b": ts.Result(live)})


@pytest.mark.parametrize("command", [["sqlite3", "other.db"], None])
def test_another_command_is_another_workload(sample: ResultData, command: list[str] | None) -> None:
    live = of_a_program(sample, kind="live", command=["sqlite3", "test.db"], parameters={})
    other = of_a_program(sample, kind="recorded", command=command, parameters={"file": "a.tst"})
    both = {"a": ts.Result(live), "b": ts.Result(other)}
    assert "command" in Comparison(both).differences
    assert text(both).startswith("Different workloads")


def test_columns_of_different_parts_of_a_workload_are_told_to_be_so(keep: Keeper) -> None:
    whole = ts.load(keep("a", "oracle/quick"))
    region = ts.load(keep("b", "oracle/quick", "--skip", "200", "--limit", "400"))
    later = ts.load(keep("c", "oracle/quick", "--skip", "300", "--limit", "400"))
    shown = text({"a": whole, "b": region}, width=200)
    assert (
        "The columns are of different parts of the workload, and do not measure the same work: "
        "1.00 k accesses of a:oracle/quick; 400 accesses, after 200, of b:oracle/quick.\n"
    ) in shown
    assert "b: Partial: the limit of 400 accesses was reached.\n" in shown
    assert "b: Warmed functionally before the region of interest and not counted: oracle" in shown
    assert "different parts" in text({"b": region, "c": later}, width=200)
    assert "different parts" not in text({"a": whole, "b": whole}, width=200)


def threads_of(sample: ResultData, threads: int, reason: str | None = None) -> ts.Result:
    completeness = "complete" if reason is None else "partial"
    data = of_a_program(sample, threads=threads)
    return ts.Result(
        cast(ResultData, {**data, "completeness": completeness, "partial_reason": reason})
    )


def slowdown_is_told(shown: str) -> bool:
    row = next(line for line in shown.splitlines() if line.startswith("Slowdown"))
    return row.endswith("×")


def test_threads_of_a_run_that_ended_early_make_no_other_workload(sample: ResultData) -> None:
    early = threads_of(sample, 5, "the limit of 400 accesses was reached")
    both = {"a": threads_of(sample, 8), "b": early}
    assert Comparison(both).differences == {}
    shown = text(both, width=2000)
    assert not shown.startswith("Different workloads")
    assert "The columns are of different parts of the workload" in shown
    assert "accesses by 8 threads of a:oracle/quick; " in shown
    assert "accesses by 5 threads of b:hybrid/quick; " in shown
    assert "different parts" not in text({"a": early, "b": early}, width=2000)


def test_threads_of_a_region_make_no_other_workload(sample: ResultData) -> None:
    skipped = {"accesses": 200, "instructions": 900, "time_ps": 7, "warming": "functional"}
    systems = {name: {**one, "skipped": skipped} for name, one in sample["systems"].items()}
    region = of_a_program(cast(ResultData, {**sample, "systems": systems}), threads=5)
    assert region["completeness"] == "complete"
    both = {"a": threads_of(sample, 8), "b": ts.Result(region)}
    assert Comparison(both).differences == {}
    told = "accesses by 5 threads, after 200, of b:oracle/quick"
    assert told in text(both, width=2000)


def test_threads_of_whole_runs_are_compared_whatever_stands_beside(sample: ResultData) -> None:
    both = {"a": threads_of(sample, 8), "b": threads_of(sample, 4)}
    differences = {"threads": {"a": 8, "b": 4}}
    assert Comparison(both).differences == differences
    assert Comparison({**both, "c": threads_of(sample, 5, "it ended")}).differences == differences
    assert text(both).startswith("Different workloads")


def test_no_slowdown_is_against_an_oracle_of_another_number_of_threads(
    sample: ResultData,
) -> None:
    def only(name: str, threads: int) -> ts.Result:
        system = {**sample["systems"][name], "slowdown": None}
        one = cast(ResultData, {**sample, "systems": {name: system}})
        return threads_of(one, threads, "the limit was reached")

    for threads, told in [(5, True), (8, False)]:
        both = {"a": only("oracle/quick", 5), "b": only("hybrid/quick", threads)}
        assert slowdown_is_told(text(both)) == told
