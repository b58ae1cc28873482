"""Plots of sweeps for papers, as matplotlib figures: lines over a parameter, and heat maps."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, PercentFormatter

from tierscope import _check
from tierscope import format as fmt
from tierscope.errors import ArgumentError
from tierscope.pages.chart import PALETTE, spread_by_ratio
from tierscope.pages.sweep_charts import MAIN, Axis, figures_shown, means, state_of, title_of

if TYPE_CHECKING:
    from tierscope.sweeps.sweep import Sweep

_MARKS = ("o", "s", "^", "D", "P", "v", ">")
_STROKES = ("-", "--", ":", "-.")
_TIMES = ("time_s", "windows_thread_time_s")
"""Figures in seconds."""


def lines(sweep: Sweep, over: str | None = None, figures: Sequence[str] | None = None) -> Figure:
    """Figures over one parameter: a line for each system, workload and value of the others.

    Where there are several seeds, lines are of means, and bars go from the least to the most.

    Args:
        sweep: the sweep.
        over: the parameter; the first unless given.
        figures: columns of the table; execution time and misses unless given.

    Raises:
        ArgumentError: where there is no such parameter or figure, or nothing was varied.
    """
    over = _parameter(sweep, over)
    known = figures_shown(sweep)
    shown = [_figure(one, known) for one in (figures or _main(known))]
    points = means(sweep)
    axis = Axis(over, [point[over] for point in points])
    figure = Figure(figsize=(4.6 * len(shown), 3.8), layout="constrained")
    all_axes = figure.subplots(1, len(shown), squeeze=False)[0]
    for axes, key in zip(all_axes, shown, strict=True):
        _draw_lines(axes, key, axis, points, sweep)
    handles, labels = all_axes[0].get_legend_handles_labels()
    # Some 45 characters of a label stand in the width of a panel.
    columns = 2 if 2 * max(map(len, labels), default=0) <= 45 * len(shown) else 1
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9
    )
    figure.suptitle(f"{sweep.name} ({state_of(sweep)})", fontsize=11)
    return figure


def heat_map(
    sweep: Sweep, figure: str | None = None, across: str | None = None, down: str | None = None
) -> Figure:
    """One figure over two parameters, a map for each system and workload.

    Args:
        sweep: the sweep.
        figure: a column of the table; the execution time unless given, of recordings of windows
            the thread time of the program.
        across: the parameter from left to right; the first unless given.
        down: the parameter from bottom to top; the second unless given.

    Raises:
        ArgumentError: where there is no such parameter or figure, or less than two were varied.
    """
    across = _parameter(sweep, across)
    rest = [name for name in sweep.parameters if name != across]
    if not rest:
        mend = "vary another parameter, or plot lines over this one"
        raise ArgumentError("no-effect", "a heat map is over two parameters", mend)
    down = _parameter(sweep, rest[0] if down is None else down)
    known = figures_shown(sweep)
    key = _figure(_main(known)[0] if figure is None else figure, known)
    cells: dict[str, dict[tuple[str, str], list[float]]] = {}
    for point in means(sweep):
        if point[key] is not None:
            panel = f"{point['system']}, {point['workload']}"
            where = (str(point[across]), str(point[down]))
            cells.setdefault(panel, {}).setdefault(where, []).append(point[key])
    found = Figure(figsize=(5.0 * max(1, len(cells)), 4.0), layout="constrained")
    if cells:
        drawn = {
            panel: {at: statistics.fmean(seeds) for at, seeds in values.items()}
            for panel, values in cells.items()
        }
        norm = _norm([value for values in drawn.values() for value in values.values()])
        all_axes = found.subplots(1, len(cells), squeeze=False)[0]
        for axes, (panel, means_) in zip(all_axes, drawn.items(), strict=True):
            _draw_map(axes, panel, means_, key, norm)
            axes.set_xlabel(across)
            axes.set_ylabel(down)
    found.suptitle(f"{sweep.name}: {title_of(sweep, key)} ({state_of(sweep)})", fontsize=11)
    return found


def _main(known: Sequence[str]) -> list[str]:
    return [key for key in (*MAIN, "device_bytes_per_s") if key in known]


def _parameter(sweep: Sweep, name: str | None) -> str:
    if not sweep.parameters:
        mend = "sweep a study that varies one; sweep.table() has what there is"
        raise ArgumentError("no-effect", "nothing was varied in this sweep", mend)
    if name is None:
        return sweep.parameters[0]
    if name not in sweep.parameters:
        mend = _check.meant(str(name), sweep.parameters, f"write {' or '.join(sweep.parameters)}")
        raise ArgumentError("unknown-value", f"`{name}` was not varied", mend)
    return name


def _figure(name: str, known: Sequence[str]) -> str:
    if name not in known:
        mend = _check.meant(str(name), known, f"write one of {', '.join(known)}")
        raise ArgumentError("unknown-value", f"there is no figure `{name}`", mend)
    return name


def _draw_lines(
    axes: Axes, key: str, axis: Axis, points: Sequence[Mapping[str, Any]], sweep: Sweep
) -> None:
    """One panel: a figure over the parameter."""
    others = [name for name in (*sweep.parameters, "workload") if name != axis.name]
    varied = [name for name in others if len({str(point[name]) for point in points}) > 1]
    systems = list(dict.fromkeys(point["system"] for point in points))
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for point in points:
        label = (point["system"], *(f"{name} {point[name]}" for name in varied))
        groups.setdefault(label, []).append(point)
    order = list(dict.fromkeys(str(point[axis.name]) for point in points))
    drawn: list[float] = []
    for number, (label, members) in enumerate(groups.items()):
        known = [one for one in members if one[key] is not None]
        places = [axis.at(one[axis.name]) for one in known]
        x = [float(str(p)) if axis.numeric else float(order.index(str(p))) for p in places]
        y = [float(one[key]) for one in known]
        drawn += y
        below = [one[key] - one[f"{key}_least"] for one in known]
        above = [one[f"{key}_most"] - one[key] for one in known]
        system = systems.index(label[0])
        axes.errorbar(
            x,
            y,
            yerr=[below, above] if any(below) or any(above) else None,
            label=", ".join(label),
            color=PALETTE[system % len(PALETTE)],
            marker=_MARKS[system % len(_MARKS)],
            linestyle=_STROKES[number % len(_STROKES)],
            markersize=5,
            capsize=3,
        )
    _label(axes, key, axis, order, drawn)
    axes.set_ylabel(title_of(sweep, key))


def _label(axes: Axes, key: str, axis: Axis, order: Sequence[str], drawn: Sequence[float]) -> None:
    """Scales, ticks and titles of a panel."""
    if axis.log:
        axes.set_xscale("log", base=2 if axis.binary else 10)
    if axis.numeric:
        marks = {float(str(axis.at(_value(text)))): text for text in order}
        if len(marks) <= 10:
            axes.set_xticks(list(marks), list(marks.values()), rotation=45, fontsize=8)
            axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_xticks(range(len(order)), order)
    if spread_by_ratio(drawn):
        axes.set_yscale("log")
    if key == "miss_rate":
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    elif key in _TIMES:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: fmt.seconds(value)))
    elif key.endswith("_ns"):
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: fmt.nanoseconds(value)))
    axes.set_xlabel(axis.name)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _value(text: str) -> object:
    """A value as an axis takes it: a number where the text is one."""
    try:
        return float(text)
    except ValueError:
        return text


def _norm(values: Sequence[float]) -> Any:
    """The colours of all maps: by ratio where values differ much."""
    kind = LogNorm if spread_by_ratio(values) else Normalize
    return kind(min(values), max(values))


def _draw_map(
    axes: Axes, panel: str, cells: Mapping[tuple[str, str], float], key: str, norm: Any
) -> None:
    """One map, each cell with its number."""
    columns = list(dict.fromkeys(x for x, _ in cells))
    rows = list(dict.fromkeys(y for _, y in cells))
    grid = [[cells.get((x, y), float("nan")) for x in columns] for y in rows]
    axes.imshow(grid, cmap="cividis", origin="lower", aspect="auto", norm=norm)
    shown = fmt.seconds if key in _TIMES else fmt.percent if key == "miss_rate" else fmt.plain
    for (x, y), value in cells.items():
        light = float(norm(value)) > 0.55
        place = (columns.index(x), rows.index(y))
        colour = "black" if light else "white"
        axes.text(*place, shown(value), ha="center", va="center", color=colour, fontsize=8)
    axes.set_xticks(range(len(columns)), columns, rotation=45, fontsize=8)
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    axes.set_title(panel, fontsize=10)
