"""A sweep as a reader sees it: one row for each point, repetitions together."""

from __future__ import annotations

import html
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tierscope import format as fmt
from tierscope._repeat import student_t

if TYPE_CHECKING:
    from tierscope.sweeps.sweep import Sweep

_MOST_FAILURES = 20
"""Failures that are told one by one."""
_IN_ASCII = str.maketrans({"µ": "u", "±": "~", "×": "x", "–": "-"})

Cell = Callable[[float | None], str]
FIGURES: tuple[tuple[str, str, Cell], ...] = (
    ("time_s", "time", fmt.seconds),
    ("ipc", "IPC", fmt.plain),
    ("miss_rate", "misses", fmt.percent),
    ("latency_mean_ns", "latency", fmt.nanoseconds),
    ("latency_p99_ns", "99 %", fmt.nanoseconds),
)
"""Figures of machines: column of the table, heading, and how it is shown."""
DEVICE_FIGURES: tuple[tuple[str, str, Cell], ...] = (
    ("time_s", "time", fmt.seconds),
    ("device_bytes_per_s", "bandwidth", fmt.bandwidth),
    ("latency_mean_ns", "latency", fmt.nanoseconds),
    ("latency_p99_ns", "99 %", fmt.nanoseconds),
)
"""Figures of devices alone."""
WINDOW_FIGURES: tuple[tuple[str, str, Cell], ...] = (
    ("windows_thread_time_s", "thread time", fmt.seconds),
    ("windows_mean_latency_ns", "latency", fmt.nanoseconds),
    ("time_s", "time of\nwindows", fmt.seconds),
    ("ipc", "IPC of\nwindows", fmt.plain),
    ("miss_rate", "misses of\nwindows", fmt.percent),
    ("latency_p99_ns", "99 % of\nwindows", fmt.nanoseconds),
)
"""Figures of recordings of windows: estimates of the whole program, then what is of windows."""
COUNT_FIGURES: tuple[tuple[str, str, Cell], ...] = (
    ("miss_rate", "misses", fmt.percent),
    ("misses", "misses\n(number)", fmt.count),
    ("write_back_pages", "pages\nwritten", fmt.count),
    ("lookups", "look-ups", fmt.count),
    ("hits", "hits", fmt.count),
)
"""Figures of counts without times."""
_HALF_WIDTHS = {
    "time_s": "time_half_width",
    "ipc": "time_half_width",
    "miss_rate": "miss_rate_half_width",
    "latency_mean_ns": "mean_latency_half_width",
    "windows_thread_time_s": "windows_thread_time_half_width",
    "windows_mean_latency_ns": "windows_mean_latency_half_width",
}
"""Columns that say how sure an estimate is, as a share of it."""
_TIMES = ("time_s", "windows_thread_time_s")
"""Figures whose spread over seeds is told."""


def figures_of(frame: Any) -> tuple[tuple[str, str, Cell], ...]:
    """The figures that a sweep's table has something to say of."""
    if "pass" in frame.columns:
        return COUNT_FIGURES
    alone = (
        "device_bytes_per_s" in frame.columns and frame["device_bytes_per_s"].is_not_null().all()
    )
    if alone:
        return DEVICE_FIGURES
    if "windows_windows" not in frame.columns:
        return FIGURES
    ran = frame.filter(frame["time_s"].is_not_null())
    return WINDOW_FIGURES if ran["windows_windows"].is_not_null().all() else FIGURES


def varied(sweep: Sweep) -> list[str]:
    """The columns that tell points apart, apart from repetitions."""
    frame = sweep.table()
    several = [name for name in ("system", "workload") if frame[name].n_unique() > 1]
    return [*(several or ["system"]), *sweep.parameters]


def rows(sweep: Sweep) -> Iterator[tuple[list[str], list[str]]]:
    """For each point, repetitions together: what tells it apart, and its figures."""
    frame = sweep.table()
    heads, shown = varied(sweep), figures_of(frame)
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for index, row in enumerate(frame.drop("machine").iter_rows(named=True)):
        choice = sweep.data["points"][index]["choice"]
        said = tuple(fmt.value(choice.get(name, row.get(name))) for name in heads)
        groups.setdefault((*said, row["system"], row["workload"]), []).append(row)
    for said, members in groups.items():
        states = dict.fromkeys(one["status"] for one in members)
        cells = [
            _cell([one.get(key) for one in members], cell, spread=key in _TIMES)
            + _sure(members, key)
            for key, _, cell in shown
        ]
        worst = next((s for s in ("failed", "missing", "partial", "sampled") if s in states), "")
        yield list(said[: len(heads)]), [*cells, worst]


def _cell(values: Sequence[float | None], shown: Cell, *, spread: bool) -> str:
    """A mean, with half of its 95 % confidence interval where that is asked for and known."""
    known = [value for value in values if value is not None]
    if not known:
        return fmt.ABSENT
    mean = shown(statistics.fmean(known))
    if not spread or len(set(known)) < 2:
        return mean
    half = student_t(len(known) - 1) * statistics.stdev(known) / math.sqrt(len(known))
    return f"{mean} ± {shown(half)}"


def _sure(members: Sequence[Mapping[str, Any]], key: str) -> str:
    """How sure an estimate of one run is; of several, their spread says it."""
    half = members[0].get(_HALF_WIDTHS.get(key, "")) if len(members) == 1 else None
    return "" if half is None else f" ± {fmt.percent(half)}"


def headings(sweep: Sweep) -> list[str]:
    """What stands above the columns of :func:`rows`."""
    return [*varied(sweep), *(heading for _, heading, _ in figures_of(sweep.table())), ""]


def closing_lines(sweep: Sweep) -> list[str]:
    """What stands below the table: how complete the sweep is, what failed, what is meant."""
    counts = sweep.counts()
    lines = []
    if sweep.complete:
        every = f"all {len(sweep)} points were" if len(sweep) > 1 else "its one point was"
        lines.append(f"Complete: {every} simulated wholly.")
    else:
        told = ", ".join(f"{number} {state}" for state, number in counts.items() if number)
        lines.append(f"{sweep.completeness.capitalize()}: of {len(sweep)} points {told}.")
    distinct = len({row["key"] for row in sweep.data["points"]})
    if distinct < len(sweep):
        lines.append(
            f"{len(sweep) - distinct} of them are equal to another in all that matters, and were "
            "simulated with it."
        )
    if any(row["repetition"] > 1 for row in sweep.data["points"]):
        lines.append("Means over seeds; ± is half of the 95 % confidence interval (Student t).")
    lines += _pass_lines(sweep)
    lines += _estimate_lines(sweep)
    failures = list(sweep.failures())
    lines += [f"Failed: {what}: {why}" for what, why in failures[:_MOST_FAILURES]]
    if len(failures) > _MOST_FAILURES:
        lines.append(f"Failed: {len(failures) - _MOST_FAILURES} more; the table has all of them.")
    return [fmt.visible(line) for line in lines]


def _pass_lines(sweep: Sweep) -> Iterator[str]:
    """How counts without times were obtained."""
    if not sweep.counts_only:
        return
    number = len({row["pass"] for row in sweep.data["points"]})
    passes = "one functional pass" if number == 1 else f"{number} functional passes"
    yield (
        f"Counts without times, from {passes} (the table's column pass says which). A run in time "
        "counts as a miss, too, what finds its page on the way; and its threads may take turns "
        "otherwise."
    )


def _estimate_lines(sweep: Sweep) -> Iterator[str]:
    """How the figures of samples are to be read: of the run's own, and of recordings of windows."""
    frame = sweep.table()
    shown = {key for key, _, _ in figures_of(frame)}
    halves = {name for key, name in _HALF_WIDTHS.items() if key in shown} & set(frame.columns)
    if any(frame[name].is_not_null().any() for name in halves):
        yield "A ± in per cent is how sure an estimate is: 95 in 100 such intervals hold the truth."
    if "sampling_warming" in frame.columns and (frame["sampling_warming"] == "untimed").any():
        yield (
            "Between units, DRAM caches that prefetch were warmed without times: what that is off "
            "by is in no ±, and each result's notes say how much it was where it was measured."
        )
    if not sweep.of_windows:
        return
    if "windows_thread_time_s" in shown:
        yield (
            "Recordings of windows: thread time and latency are estimates of the whole program; "
            "all else is of the windows and of all calls."
        )
    else:
        yield (
            "Recordings of windows: their figures are of the windows and of all calls, not of the "
            "whole program; the table's columns windows_… are, where windows tell of it."
        )


def render(sweep: Sweep, console: Console) -> RenderableType:
    """The report that the command line prints."""
    unicode = console.encoding.startswith("utf")

    def plain(text: str) -> Text:
        lines = (text if unicode else text.translate(_IN_ASCII)).split("\n")
        return Text("\n".join(map(fmt.visible, lines)))

    heads = len(varied(sweep))
    lines = list(rows(sweep))
    columns = list(
        zip(
            [heading.replace(".", ".\n") for heading in headings(sweep)],
            *([*said, *cells] for said, cells in lines),
            strict=True,
        )
    )
    kept = _fitting(columns, heads, console.width)
    grid = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, pad_edge=False)
    for index in kept:
        justify: Any = "left" if index < heads else "right"
        grid.add_column(plain(columns[index][0]), justify=justify, no_wrap=True)
    for cells in zip(*(columns[index][1:] for index in kept), strict=True):
        grid.add_row(*map(plain, cells))
    parts: list[RenderableType] = [Text(sweep.name, style="bold")]
    if sweep.data["description"]:
        parts.append(plain(sweep.data["description"]))
    parts += [Text(), grid, Text()]
    return Group(*parts, *map(plain, closing_lines(sweep)))


def _fitting(columns: Sequence[Sequence[str]], heads: int, width: int) -> list[int]:
    """The columns that fit side by side: figures are left out from the right, never cut."""
    widths = [max(len(line) for cell in column for line in cell.split("\n")) for column in columns]
    last = len(columns) - 1
    kept = [index for index in range(len(columns)) if index != last or widths[last]]
    while sum(widths[index] + 2 for index in kept) > width:
        further = [index for index in kept if heads < index < last]
        if not further:
            break
        kept.remove(further[-1])
    return kept


def html_table(sweep: Sweep) -> str:
    """The same for a notebook."""
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings(sweep))
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in [*said, *cells]) + "</tr>"
        for said, cells in rows(sweep)
    )
    lines = "".join(f"<p>{html.escape(line)}</p>" for line in closing_lines(sweep))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<h4>{html.escape(sweep.name)}</h4>{table}{lines}"
