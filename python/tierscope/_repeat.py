"""Repetitions of a run: means, and how far they can be trusted."""

from __future__ import annotations

import html
import json
import math
import os
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tierscope import _check, _core, _system, _workload
from tierscope import format as fmt
from tierscope._files import check_directory, read_text, write_directory
from tierscope._region import Extent, Warming
from tierscope._result import (
    REPETITIONS_FILE,
    Result,
    is_kept_result,
    load,
    repetition_name,
)
from tierscope._run import Watcher, compare
from tierscope._shape import SystemResult
from tierscope._system import System
from tierscope._workload import Generated, MemoryTrace, Program, Recorded, Workload
from tierscope.errors import ArgumentError, RunError, TierscopeError

if TYPE_CHECKING:
    import altair as alt

SCHEMA = 1
CONFIDENCE = 0.95
_MOST = 10_000
_MOST_SEED = (1 << 64) - 1

_DeviceFigure = Literal["requests_per_s", "bytes_per_s", "peak_share", "under_way_mean"]
_DeviceLatency = Literal["read_latency_ns", "write_latency_ns"]

FIGURES: dict[str, Callable[[SystemResult], float | None]] = {
    "time_s": lambda s: s["time_s"],
    "ipc": lambda s: s["ipc"],
    "miss_rate": lambda s: s["miss_rate"],
    "latency_mean_ns": lambda s: s["latency_ns"]["mean"] if s["latency_ns"] else None,
    "latency_p50_ns": lambda s: s["latency_ns"]["p50"] if s["latency_ns"] else None,
    "latency_p99_ns": lambda s: s["latency_ns"]["p99"] if s["latency_ns"] else None,
    "latency_p999_ns": lambda s: s["latency_ns"]["p999"] if s["latency_ns"] else None,
}
"""The figures whose means are taken, units last."""

_ROWS: list[tuple[str, str, Callable[[float | None], str]]] = [
    ("Execution time", "time_s", fmt.seconds),
    ("Instructions per cycle", "ipc", fmt.plain),
    ("Misses", "miss_rate", fmt.percent),
    ("Access latency, mean", "latency_mean_ns", fmt.nanoseconds),
    ("  median", "latency_p50_ns", fmt.nanoseconds),
    ("  99th percentile", "latency_p99_ns", fmt.nanoseconds),
    ("  99.9th percentile", "latency_p999_ns", fmt.nanoseconds),
]


def _of_device(key: _DeviceFigure) -> Callable[[SystemResult], float | None]:
    """A figure of a device alone."""
    return lambda system: None if system["device"] is None else system["device"][key]


def _mean_of(key: _DeviceLatency) -> Callable[[SystemResult], float | None]:
    """The mean of one of the latencies of a device alone."""

    def mean(system: SystemResult) -> float | None:
        found = None if system["device"] is None else system["device"][key]
        return None if found is None else found["mean"]

    return mean


_LATENCIES = ("latency_mean_ns", "latency_p50_ns", "latency_p99_ns", "latency_p999_ns")
DEVICE_FIGURES: dict[str, Callable[[SystemResult], float | None]] = {
    "time_s": FIGURES["time_s"],
    "requests_per_s": _of_device("requests_per_s"),
    "bytes_per_s": _of_device("bytes_per_s"),
    "peak_share": _of_device("peak_share"),
    "under_way_mean": _of_device("under_way_mean"),
    "read_latency_mean_ns": _mean_of("read_latency_ns"),
    "write_latency_mean_ns": _mean_of("write_latency_ns"),
    **{key: FIGURES[key] for key in _LATENCIES},
}
"""The figures of devices alone whose means are taken."""

_DEVICE_ROWS: list[tuple[str, str, Callable[[float | None], str]]] = [
    ("Simulated time", "time_s", fmt.seconds),
    ("Requests", "requests_per_s", fmt.rate),
    ("Bandwidth", "bytes_per_s", fmt.bandwidth),
    ("  of its peak", "peak_share", fmt.percent),
    ("Requests under way, mean", "under_way_mean", fmt.plain),
    ("Request latency, mean", "latency_mean_ns", fmt.nanoseconds),
    ("  of reads", "read_latency_mean_ns", fmt.nanoseconds),
    ("  of writes", "write_latency_mean_ns", fmt.nanoseconds),
    ("  median", "latency_p50_ns", fmt.nanoseconds),
    ("  99th percentile", "latency_p99_ns", fmt.nanoseconds),
    ("  99.9th percentile", "latency_p999_ns", fmt.nanoseconds),
]


class Repetitions:
    """Several runs of one workload on the same systems.

    Attributes:
        results: the result of each run, in order.
        data: means and their confidence, as in ``repetitions.json``; its schema is in the
            reference.
    """

    def __init__(self, results: Sequence[Result], asked: int) -> None:
        self.results = list(results)
        self.data = _summary(self.results, asked)

    @property
    def complete(self) -> bool:
        """Whether every repetition that was asked for was simulated wholly."""
        return bool(self.data["completeness"] == "complete")

    def __getitem__(self, name: str) -> dict[str, Any]:
        """One system's figures: of each its mean, standard deviation and half-width.

        Raises:
            KeyError: where no system has that name.
        """
        figures: dict[str, Any] = self.data["systems"][name]
        return figures

    def figures(self) -> list[tuple[str, str, Callable[[float | None], str]]]:
        """The figures whose means are taken: title, key, and how a value is told."""
        told = {
            "latency_p50_ns": "Median latency",
            "latency_p99_ns": "99th percentile of latency",
            "latency_p999_ns": "99.9th percentile of latency",
            "peak_share": "Bandwidth, of its peak",
            "read_latency_mean_ns": "Read latency, mean",
            "write_latency_mean_ns": "Write latency, mean",
        }
        return [(told.get(key, label), key, shown) for label, key, shown in self._rows()]

    def _rows(self) -> Sequence[tuple[str, str, Callable[[float | None], str]]]:
        """Rows of the table: those of devices where all systems are devices alone."""
        systems: dict[str, Any] = self.data["systems"]
        alone = all("requests_per_s" in figures for figures in systems.values())
        return _DEVICE_ROWS if alone else _ROWS

    def cells(self) -> list[tuple[str, list[str]]]:
        """Mean ± half-width of each figure of each system, behind the figure's label."""
        systems: dict[str, Any] = self.data["systems"]
        return [
            (label, [_cell(figures[key], shown) for figures in systems.values()])
            for label, key, shown in self._rows()
        ]

    def table(self) -> str:
        """Mean ± half-width of each figure, a column a system."""
        systems: dict[str, Any] = self.data["systems"]
        rows = [("", list(systems)), *self.cells()]
        label_width = max(len(label) for label, _ in rows)
        widths = [max(len(row[i]) for _, row in rows) for i in range(len(systems))]
        return "\n".join(
            "  ".join([label.ljust(label_width), *map(str.rjust, cells, widths)]).rstrip()
            for label, cells in rows
        )

    def report(self) -> str:
        """The table with what it says, as the command line prints it."""
        return "\n".join([self.heading(), "", self.table(), "", *self.closing_lines()])

    def heading(self) -> str:
        """What ran, how often, with which seeds."""
        data = self.data
        runs = f"{data['counted']} runs"
        if data["seeds"] is not None:
            runs += f", seeds {data['seeds'][0]} to {data['seeds'][-1]}"
        return f"{data['workload']['name']}: {runs}"

    def closing_lines(self) -> list[str]:
        """What the figures are, and what is missing."""
        data = self.data
        if data["counted"] > 1:
            lines = [
                f"Means of {data['counted']} runs; ± is half of the 95 % confidence interval "
                "(Student t)."
            ]
        else:
            lines = ["Of one run nothing can be said of how far the figures vary."]
        return lines + ([f"Partial: {data['partial_reason']}."] if data["partial_reason"] else [])

    def charts(self) -> list[alt.TopLevelMixin]:
        """The figures of a page, for notebooks: Altair draws them. It needs that package.

        Raises:
            TierscopeError: where it is not installed.
        """
        from tierscope.pages import repetition_charts
        from tierscope.pages.chart import in_altair

        return in_altair(repetition_charts.all_of(self))

    def save_report(self, path: str | os.PathLike[str]) -> None:
        """Writes one HTML page, which needs no network.

        Raises:
            TierscopeError: where it cannot be written.
        """
        from tierscope.pages.report import write_report

        write_report(self, path)

    def to_json(self) -> str:
        """The summary as one JSON object."""
        return json.dumps(self.data, ensure_ascii=False, indent=2)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Writes the summary, and each result to ``repetition-N`` below it, all or nothing.

        Raises:
            TierscopeError: where the directory holds something else, or cannot be written.
        """
        mend = "name a directory for the repetitions"
        target = Path(_check.path(directory, "a directory", mend, ours=True)).absolute()
        check_repetitions_target(target)
        write_directory(target, self._write)

    def _write(self, directory: Path) -> None:
        text = self.to_json() + "\n"
        (directory / REPETITIONS_FILE).write_text(text, encoding="utf-8")
        for number, result in enumerate(self.results, 1):
            result.save(directory / repetition_name(number))

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.report())}</pre>"

    def __len__(self) -> int:
        return len(self.results)

    def __repr__(self) -> str:
        return f"<Repetitions of {self.data['workload']['name']}: {len(self)} runs>"


def repeat(
    machines: Iterable[System | str],
    work: Workload | str,
    repetitions: int,
    *,
    skip: Extent | None = None,
    limit: Extent | None = None,
    roi: bool = False,
    warming: Warming | None = None,
    time_limit_s: float | None = None,
    scale_to_footprint: float | None = None,
    watch: Watcher | None = None,
) -> Repetitions:
    """Runs a workload several times on the same machines, and says how far the figures vary.

    A built-in workload runs with its seed and those that follow; a program runs anew each time. An
    interrupt from the keyboard ends the repetitions: what there is then is returned.

    Args:
        machines: as of :func:`compare`.
        work: a built-in workload or a program.
        repetitions: how many runs, at least 2.
        skip: as of :func:`compare`, of each run; so are those that follow.
        limit: see there.
        roi: see there.
        warming: see there.
        time_limit_s: see there.
        scale_to_footprint: see there; the footprint is that of the first run.
        watch: see there.

    Raises:
        ArgumentError: where repeating has no effect, or an argument is of the wrong type.
        TierscopeError: as :func:`compare`, of the run that could not go on.
    """
    count = check_count(repetitions)
    works = works_of(_workload.of(work), count)
    loaded = _system.machines(machines)
    results: list[Result] = []
    for one in works:
        result = compare(
            loaded,
            one,
            skip=skip,
            limit=limit,
            roi=roi,
            warming=warming,
            time_limit_s=time_limit_s,
            scale_to_footprint=scale_to_footprint,
            watch=watch,
        )
        results.append(result)
        if scale_to_footprint is not None:
            loaded = [_system.from_toml(name, text) for name, text in result.descriptions.items()]
            scale_to_footprint = None
        if result.interrupted:
            break
    return Repetitions(results, count)


def check_count(repetitions: object) -> int:
    """Refuses what is no number of repetitions."""
    mend = f"write a whole number from 2 to {_MOST}"
    if not isinstance(repetitions, int) or isinstance(repetitions, bool):
        raise ArgumentError("wrong-type", f"the repetitions are {_check.shown(repetitions)}", mend)
    if not 2 <= repetitions <= _MOST:
        raise RunError("impossible-value", f"the repetitions are {repetitions}", mend)
    return repetitions


def works_of(work: Workload, count: int) -> list[Generated | Program]:
    """What runs, each time.

    Raises:
        ArgumentError: where each run would be the same.
        RunError: where the seeds go beyond what a seed can be.
    """
    if isinstance(work, (Recorded, MemoryTrace)):
        raise _workload.without_effect(
            "repeating",
            "a recording or trace of requests: a replay gives the same, to the last digit",
        )
    if isinstance(work, Program):
        return [work] * count
    if work.seed + count - 1 > _MOST_SEED:
        raise RunError(
            "impossible-value",
            f"{count} seeds from {work.seed} on go beyond the largest, {_MOST_SEED}",
            "begin with a smaller seed",
        )
    return [replace(work, seed=work.seed + number) for number in range(count)]


def load_repetitions(directory: str | os.PathLike[str]) -> Repetitions:
    """Reads repetitions that were kept by ``-o`` or :meth:`Repetitions.save`.

    Raises:
        TierscopeError: where there are none, or such that this version cannot read.
    """
    source = Path(
        _check.path(directory, "a directory", "name one that run --repeat -o wrote", ours=True)
    )
    path = source / REPETITIONS_FILE
    mend = "name a directory that `tierscope run --repeat -o` wrote"
    try:
        data = json.loads(read_text(path, "a summary", mend))
    except (ValueError, RecursionError) as error:
        raise TierscopeError("unreadable", f"{path} is no summary: {error}", mend) from None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise TierscopeError(
            "other-schema",
            f"{path} is not of schema {SCHEMA}, which this version reads",
            "read it with the version of tierscope that wrote it",
        )
    runs, asked = data.get("runs"), data.get("repetitions")
    if not isinstance(runs, int) or not isinstance(asked, int) or not 1 <= runs <= asked <= _MOST:
        raise TierscopeError("unreadable", f"{path} is damaged: runs {runs} of {asked}", mend)
    return Repetitions(
        [load(source / repetition_name(number + 1)) for number in range(runs)], asked
    )


def check_repetitions_target(target: Path) -> None:
    """Refuses a directory that repetitions must not replace, or could not be written to.

    Raises:
        TierscopeError: where it holds anything but earlier repetitions, or cannot be written.
    """
    if not target.exists():
        check_directory(target)
        return
    if target.is_dir():
        held = list(target.iterdir())
        ours = (target / REPETITIONS_FILE).is_file() and all(map(_is_ours, held))
        if not held or ours:
            check_directory(target)
            return
        what = "is not of repetitions"
    else:
        what = "is a file"
    raise TierscopeError(
        "foreign-directory",
        f"{target} {what} and is left alone",
        "name a new directory, or one with earlier repetitions to replace",
    )


def _is_ours(path: Path) -> bool:
    stem, _, number = path.name.partition("-")
    return path.name == REPETITIONS_FILE or (
        stem == "repetition" and number.isdigit() and is_kept_result(path)
    )


def _summary(results: Sequence[Result], asked: int) -> dict[str, Any]:
    """Means of the runs that are complete, or that ended where they were asked to."""
    counted = [result for result in results if not result.interrupted]
    used = counted or results
    first = results[0].data
    generated = first["workload"]["kind"] in ("generated", "requests")
    alone = all(system["device"] is not None for system in first["systems"].values())
    figures = DEVICE_FIGURES if alone else FIGURES
    reason = _partial_reason(results, asked)
    names = [name for name in used[0] if all(name in result.data["systems"] for result in used)]
    return {
        "version": _core.version(),
        "schema": SCHEMA,
        "workload": first["workload"],
        "repetitions": asked,
        "runs": len(results),
        "counted": len(used),
        "seeds": [result.data["workload"]["seed"] for result in used] if generated else None,
        "completeness": "complete" if reason is None else "partial",
        "partial_reason": reason,
        "confidence": CONFIDENCE,
        "systems": {
            name: {key: _figure([of(r[name]) for r in used]) for key, of in figures.items()}
            for name in names
        },
    }


def _partial_reason(results: Sequence[Result], asked: int) -> str | None:
    reasons = list(
        dict.fromkeys(r.data["partial_reason"] for r in results if r.data["partial_reason"])
    )
    counted = sum(not result.interrupted for result in results)
    if counted < asked:
        reasons.insert(0, f"{counted} of {asked} repetitions were run to their end")
    return "; ".join(reasons) or None


def _figure(values: list[float | None]) -> dict[str, Any]:
    """A figure's mean over the runs that have it: a run without accesses has no latency."""
    known = [value for value in values if value is not None]
    count = len(known)
    deviation = statistics.stdev(known) if count > 1 else None
    half = None if deviation is None else student_t(count - 1) * deviation / math.sqrt(count)
    return {
        "mean": statistics.fmean(known) if known else None,
        "standard_deviation": deviation,
        "half_width": half,
        "values": values,
    }


def _cell(figure: dict[str, Any], shown: Callable[[float | None], str]) -> str:
    if figure["half_width"] is None:
        return shown(figure["mean"])
    return f"{shown(figure['mean'])} ± {shown(figure['half_width'])}"


def student_t(degrees: int, confidence: float = CONFIDENCE) -> float:
    """The value that a Student t of so many degrees of freedom does not pass, either way.

    Found by bisection of the distribution, whose closed form for whole degrees of freedom is in
    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    low, high = 0.0, 1.0
    while _within(high, degrees) < confidence:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < confidence else (low, middle)
    return (low + high) / 2


def _within(t: float, degrees: int) -> float:
    """Probability that a Student t lies between -``t`` and ``t``."""
    angle = math.atan(t / math.sqrt(degrees))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = degrees % 2
    term, total = (cosine, cosine) if odd else (1.0, 1.0)
    if degrees == 1:
        total = 0.0
    for step in range(2 + odd, degrees - 1, 2):
        term *= cosine * cosine * (step - 1) / step
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
