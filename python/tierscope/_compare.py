"""Kept results side by side."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from tierscope import _core, report
from tierscope import format as fmt
from tierscope._call import core_errors, parsed
from tierscope._result import Result
from tierscope._shape import ResultData, SystemResult, WorkloadInfo, of_windows
from tierscope._system import leaves
from tierscope.errors import SpecError

if TYPE_CHECKING:
    import polars as pl

_MANY = 6
"""Differences of two machines that are told; beyond them, only how many there are."""
_SAME_PART = 0.01
"""Share of its accesses and instructions by which runs of the same part may differ."""
_THREADS = "threads"


class Comparison:
    """Several results, each under the name by which it was given.

    Attributes:
        results: the results.
        differences: what the workloads differ in: each path, with the value in each result. Of one
            command, it is no difference that it ran in one and was replayed in another. How many
            threads ran is compared of whole runs only: one that ended early has not seen them all.
    """

    def __init__(self, results: Mapping[str, Result]) -> None:
        self.results = dict(results)
        self.differences = dict(self._workload_differences())

    def to_json(self) -> str:
        """The differences and the results as one JSON object."""
        whole = {
            "workload_differences": self.differences,
            "results": {label: result.data for label, result in self.results.items()},
        }
        return json.dumps(whole, ensure_ascii=False, indent=2)

    def render(self, console: Console, *, unicode: bool | None = None) -> Text:
        """The results as one report."""
        return report.render(
            self.together(),
            console,
            unicode=unicode,
            heading=self.heading(),
            closing=list(self.closing_lines()),
        )

    def together(self) -> ResultData:
        """One result that has the systems of all."""
        first = next(iter(self.results.values())).data
        systems = {
            self._name(label, name): result[name]
            for label, result in self.results.items()
            for name in result
        }
        return {**first, "systems": dict(self._with_slowdowns(systems))}

    def intervals(self) -> pl.DataFrame:
        """The intervals of all systems, each called as in :meth:`together`."""
        import polars as pl

        tables = [
            result.intervals.with_columns(
                pl.col("system").replace({name: self._name(label, name) for name in result})
            )
            for label, result in self._items()
        ]
        return pl.concat(tables)

    def _name(self, label: str, name: str) -> str:
        """The system's name, with its result's where it is not the only one so called."""
        taken = Counter(name for result in self.results.values() for name in result)
        return f"{label}:{name}" if taken[name] > 1 else name

    def _with_slowdowns(
        self, systems: Mapping[str, SystemResult]
    ) -> Iterator[tuple[str, SystemResult]]:
        """Of one workload, the only oracle is the measure of those without one that did as much."""
        oracles = [name for name, one in systems.items() if one["organization"] == "oracle"]
        measure = oracles[0] if len(oracles) == 1 and not self.differences else None
        oracle_s = None if measure is None else self._compared_s(systems[measure])
        parts = self._parts()
        for name, system in systems.items():
            comparable = measure is not None and parts[name].same(parts[measure])
            own_s = self._compared_s(system)
            if system["slowdown"] is None and comparable and oracle_s and own_s is not None:
                yield name, {**system, "slowdown": own_s / oracle_s}
            else:
                yield name, system

    def _compared_s(self, system: SystemResult) -> float | None:
        """What a slowdown is of: all threads of the program, where windows of it tell them."""
        windows = system.get("recorded_windows")
        if windows is not None:
            return windows["thread_time_s"]
        workload = next(iter(self.results.values())).data["workload"]
        return None if of_windows(workload) and system["skipped"] is not None else system["time_s"]

    def heading(self) -> str:
        """What ran, in a line."""
        if not self.differences:
            return report.title(self.together())
        of = (f"{label}: {result.data['workload']['name']}" for label, result in self._items())
        return f"Different workloads ({', '.join(of)})"

    def closing_lines(self) -> Iterator[str]:
        """What stands below the table: how complete the results are, and what sets them apart."""
        if self.differences:
            yield (
                "The workloads differ, and the columns do not measure the same work: "
                f"{'; '.join(_told(self.differences))}."
            )
        versions = {label: result.data["version"] for label, result in self._items()}
        if len(set(versions.values())) > 1:
            yield f"The versions of tierscope differ: {_each(versions)}."
        yield from self._origin_lines()
        yield from self._part_lines()
        yield from self._machine_lines()
        complete = all(result.complete for result in self.results.values())
        for label, result in self._items():
            yield from (f"{label}: {remark}" for remark in result.data["remarks"])
            for line in report.closing_lines(result.data):
                if not (complete and line == report.COMPLETE):
                    yield f"{label}: {line}"
        if complete:
            yield report.COMPLETE

    def _part_lines(self) -> Iterator[str]:
        """Where the columns are of different parts of a workload: limits, regions, early ends."""
        if self.differences:
            return
        parts = self._parts()
        first = next(iter(parts.values()))
        if all(one.same(first) for one in parts.values()):
            return
        with_threads = len({one.threads for one in parts.values()}) > 1
        told = (f"{one.told(with_threads)} of {name}" for name, one in parts.items())
        yield (
            "The columns are of different parts of the workload, and do not measure the same work: "
            f"{'; '.join(told)}."
        )

    def _parts(self) -> dict[str, _Part]:
        """What each column is of."""
        return {
            self._name(label, name): _Part.of(result, name)
            for label, result in self._items()
            for name in result
        }

    def _machine_lines(self) -> Iterator[str]:
        """What sets machines of equal names apart."""
        names = dict.fromkeys(name for result in self.results.values() for name in result)
        for name in names:
            machines = {
                label: machine
                for label, result in self._items()
                if (machine := _machine(result, name)) is not None
            }
            if len(machines) < 2:
                continue
            differences = dict(_differences(machines))
            if not differences:
                yield f"{name} is the same machine in {', '.join(machines)}."
            elif len(differences) > _MANY:
                yield f"{name} differs in {len(differences)} values, {', '.join(machines)}."
            else:
                yield f"{name} differs: {'; '.join(_told(differences))}."

    def _workload_differences(self) -> Iterator[tuple[str, dict[str, Any]]]:
        known = (
            ("command", _THREADS) if self._of_one_command() else tuple(WorkloadInfo.__annotations__)
        )
        workloads = {label: result.data["workload"] for label, result in self._items()}
        found = _differences(
            {
                label: _unpacked({key: one.get(key) for key in known})
                for label, one in workloads.items()
            }
        )
        for path, values in found:
            if path != _THREADS:
                yield path, values
                continue
            whole = {label: n for label, n in values.items() if _is_whole(self.results[label])}
            if len(set(whole.values())) > 1:
                yield path, whole

    def _of_one_command(self) -> bool:
        """Whether all are of one program, which ran, or whose recording was replayed."""
        workloads = [result.data["workload"] for result in self.results.values()]
        programs = all(one["kind"] in ("live", "recorded") for one in workloads)
        command = workloads[0]["command"]
        return programs and bool(command) and all(one["command"] == command for one in workloads)

    def _origin_lines(self) -> Iterator[str]:
        """Where one command is from, if it ran in one result and was replayed in another."""
        workloads = {label: result.data["workload"] for label, result in self._items()}
        files = {label: one["parameters"].get("file") for label, one in workloads.items()}
        if self._of_one_command() and len(set(files.values())) > 1:
            told = (
                f"it ran in {label}" if file is None else f"{label} is a replay of {file}"
                for label, file in files.items()
            )
            yield f"All are of one command: {', '.join(told)}."

    def _items(self) -> Iterator[tuple[str, Result]]:
        return iter(self.results.items())


_PACKED = (".gz", ".xz", ".zst")


def _unpacked(workload: dict[str, Any]) -> dict[str, Any]:
    """A workload without how its trace is compressed, which changes none of its requests."""
    if workload.get("kind") != "requests" or "file" not in workload["parameters"]:
        return workload
    file = _without_packing(workload["parameters"]["file"])
    name = _without_packing(workload["name"])
    return {**workload, "name": name, "parameters": {**workload["parameters"], "file": file}}


def _without_packing(name: str) -> str:
    for ending in _PACKED:
        name = name.removesuffix(ending)
    return name


def _is_whole(result: Result) -> bool:
    """Whether nothing of the workload is missing: no early end, and all of it is counted."""
    return result.data["completeness"] in ("complete", "sampled") and all(
        one["skipped"] is None for one in result.data["systems"].values()
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of a workload that a column is of.

    Attributes:
        before: accesses and instructions that precede what is counted.
        counted: those that are.
        threads: how many ran until the end.
    """

    before: tuple[int, int]
    counted: tuple[int, int]
    threads: int

    @classmethod
    def of(cls, result: Result, name: str) -> _Part:
        """What the system called ``name`` counted of a result's workload."""
        system = result[name]
        skipped = system["skipped"]
        before = (0, 0) if skipped is None else (skipped["accesses"], skipped["instructions"])
        counted = (system["accesses"], system["instructions"])
        return cls(before, counted, result.data["workload"]["threads"])

    def same(self, other: _Part) -> bool:
        """Whether both are of the same part, but for the length of a batch."""
        pairs = zip(self.before + self.counted, other.before + other.counted, strict=True)
        near = all(abs(own - others) <= _SAME_PART * others for own, others in pairs)
        return near and self.threads == other.threads

    def told(self, with_threads: bool) -> str:
        """Such as ``400 accesses by 5 threads, after 200,``."""
        by = f" by {self.threads} thread{'' if self.threads == 1 else 's'}" if with_threads else ""
        after = f", after {fmt.count(self.before[0])}," if any(self.before) else ""
        return f"{fmt.count(self.counted[0])} accesses{by}{after}"


def _machine(result: Result, name: str) -> dict[str, Any] | None:
    """A system's description, if the result has it and this version can read it."""
    text = result.descriptions.get(name)
    if text is None:
        return None
    try:
        with core_errors():
            spec: dict[str, Any] = parsed(_core.resolve_text(name, text))["spec"]
    except SpecError:
        return None
    return spec


def _differences(all_: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Path of each value that is not the same in all, with the value of each."""
    found = {label: dict(leaves("", one)) for label, one in all_.items()}
    for path in dict.fromkeys(path for values in found.values() for path in values):
        values = {label: one.get(path) for label, one in found.items()}
        if len({json.dumps(value) for value in values.values()}) > 1:
            yield path, values


def _told(differences: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    return (f"{path} is {_each(values)}" for path, values in differences.items())


def _each(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{_plain(value)} in {label}" for label, value in values.items())


def _plain(value: object) -> str:
    if value is None:
        return "not given"
    return " ".join(value) if isinstance(value, list) else str(value)
