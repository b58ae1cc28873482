"""Figures of items as matplotlib draws them, in the form of the paper's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import cast

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import BarContainer, Container, ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from tierscope.pages.chart import PALETTE, spread_by_ratio
from tierscope.pages.sweep_charts import Axis
from tierscope.reproduce import figures
from tierscope.reproduce.parts import AXES, parts_of
from tierscope.reproduce.run import Cell, Done

_MARKS = ("o", "s", "^", "D", "P", "v", ">")
_STROKES = ("-", "--", ":", "-.")
_HATCHES = ("", "//", "..", "xx")
_ACROSS = 3
"""Panels side by side."""


def draw(done: Done) -> Figure | None:
    """The figure of an item; nothing of what is a table."""
    forms = {"lines": _lines, "bars": _bars, **dict.fromkeys(AXES, _stacks)}
    form = forms.get(done.item.view)
    if form is None or not any(cell.rows for cell in done.cells):
        return None
    found = form(done)
    item = done.item
    scale = "quick" if done.quick else "full"
    found.suptitle(
        f"{item.full_name} ({item.where}): {item.shows}\n{scale}, {done.state}",
        fontsize=10,
        wrap=True,
    )
    return found


def _panels(done: Done) -> list[tuple[str, list[Cell]]]:
    groups: dict[str, list[Cell]] = {}
    for panel in done.panels:
        groups[panel.title] = [
            cell for cell in done.cells if (cell.panel, cell.scale) == (panel.label, panel.scale)
        ]
    return list(groups.items())


def _systems(done: Done) -> list[str]:
    return list(dict.fromkeys(cell.system for cell in done.cells))


def _grid(number: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    across = min(_ACROSS, number)
    down = math.ceil(number / across)
    figure = Figure(figsize=(width * across, height * down + 0.7), layout="constrained")
    axes = list(figure.subplots(down, across, squeeze=False).flat)
    for empty in axes[number:]:
        empty.set_axis_off()
    return figure, axes[:number]


def _lines(done: Done) -> Figure:
    """A panel a study and figure, a line a machine over what varies."""
    systems = _systems(done)
    names = (done.item.figure, *done.item.also)
    panels = [(title, cells, name) for name in names for title, cells in _panels(done)]
    figure, all_axes = _grid(len(panels), 3.9, 2.9)
    seen: dict[str, ErrorbarContainer] = {}
    for axes, (title, cells, name) in zip(all_axes, panels, strict=True):
        axis = Axis(done.item.over, [cell.over for cell in cells])
        order = list(dict.fromkeys(str(cell.over) for cell in cells))
        drawn: list[float] = []
        for number, system in enumerate(systems):
            own = [c for c in cells if c.system == system and c.mean(name) is not None]
            if not own:
                continue
            x = [
                float(str(axis.at(c.over))) if axis.numeric else float(order.index(str(c.over)))
                for c in own
            ]
            y = [c.mean(name) or 0.0 for c in own]
            drawn += y
            seen[system] = axes.errorbar(
                x,
                y,
                yerr=_errors(own, name),
                color=PALETTE[number % len(PALETTE)],
                marker=_MARKS[number % len(_MARKS)],
                linestyle=_STROKES[number % len(_STROKES)],
                markersize=4.5,
                capsize=3,
                label=system,
            )
        _place(axes, axis, order)
        _label(axes, name, drawn)
        axes.set_title(title, fontsize=9)
    _legend(figure, seen, 9)
    return figure


def _legend(figure: Figure, seen: Mapping[str, Artist | Container], size: int) -> None:
    """A legend below all panels, of as many columns as the figure has room for."""
    # A letter is about half as wide as it is high; beside it are the mark and the gaps, in points.
    entry = max(map(len, seen), default=1) * 0.55 * size + 4.5 * size
    room = int(figure.get_figwidth() * 72 / entry)
    figure.legend(
        cast("list[Artist]", list(seen.values())),
        list(seen),
        loc="outside lower center",
        ncols=max(1, min(5, room)),
        frameon=False,
        fontsize=size,
    )


def _errors(cells: Sequence[Cell], name: str) -> list[list[float]] | None:
    """How far bars go down and up from the means; nothing where there are no bounds."""
    bounds = [cell.bounds(name) for cell in cells]
    if not any(bounds):
        return None
    means = [cell.mean(name) or 0.0 for cell in cells]
    below = [m - b[0] if b else 0.0 for m, b in zip(means, bounds, strict=True)]
    above = [b[1] - m if b else 0.0 for m, b in zip(means, bounds, strict=True)]
    return [below, above]


def _place(axes: Axes, axis: Axis, order: Sequence[str]) -> None:
    if axis.log:
        axes.set_xscale("log", base=2 if axis.binary else 10)
    if axis.numeric:
        marks = {float(str(axis.at(_number(text)))): text for text in order}
        if len(marks) <= 10:
            axes.set_xticks(list(marks), list(marks.values()), rotation=45, fontsize=7)
            axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_xticks(range(len(order)), order, fontsize=7)
    axes.set_xlabel(axis.name, fontsize=8)


def _number(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text


def _label(axes: Axes, name: str, drawn: Sequence[float], title: str | None = None) -> None:
    """The axis upwards: by ratio where values differ much, from 0 elsewhere."""
    shown = figures.figure(name).shown
    if spread_by_ratio(drawn):
        axes.set_yscale("log")
    else:
        # Room above values that differ little: the axis alone leaves a share of their range.
        axes.set_ylim(0, max(axes.get_ylim()[1], 1.05 * max(drawn, default=0.0)))
    if title is None:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value)))
    axes.set_ylabel(figures.figure(name).title if title is None else title, fontsize=8)
    axes.tick_params(axis="y", labelsize=7)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _bars(done: Done) -> Figure:
    """A bar a machine, beside each other for each panel; figures beside each other, too."""
    names = (done.item.figure, *done.item.also)
    having = [
        [panel for panel in _panels(done) if any(cell.mean(name) is not None for cell in panel[1])]
        for name in names
    ]
    widths = [max(6.0, 1.3 * len(panels) + 2.0) / len(names) ** 0.5 for panels in having]
    figure = Figure(figsize=(sum(widths), 4.4), layout="constrained")
    all_axes = figure.subplots(1, len(names), squeeze=False, width_ratios=widths).flat
    for axes, name, panels in zip(all_axes, names, having, strict=True):
        _bars_of(axes, done, name, panels)
    handles, labels = next(iter(figure.axes)).get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8)
    return figure


def _bars_of(
    axes: Axes, done: Done, name: str, panels: Sequence[tuple[str, Sequence[Cell]]]
) -> None:
    """Bars of one figure; by ratio where a machine is 1."""
    systems = _systems(done)
    looks = bar_looks(systems)
    width = 0.82 / max(1, len(systems))
    drawn: list[float] = []
    base = done.item.relative_to
    for number, system in enumerate(systems):
        heights: list[float] = []
        places: list[float] = []
        errors: tuple[list[float], list[float]] = ([], [])
        for index, (_, cells) in enumerate(panels):
            own = next((c for c in cells if c.system == system), None)
            one = next((c for c in cells if c.system == base), None) if base else None
            value = own.mean(name) if own else None
            unit = one.mean(name) if one else None
            if value is None or own is None or (base and not unit):
                continue
            unit = unit or 1.0
            bounds = own.bounds(name) or (value, value)
            heights.append(value / unit)
            places.append(index + (number - (len(systems) - 1) / 2) * width)
            errors[0].append((value - bounds[0]) / unit)
            errors[1].append((bounds[1] - value) / unit)
        drawn += heights
        axes.bar(
            places,
            heights,
            width,
            label=system,
            color=looks[number][0],
            hatch=looks[number][1],
            edgecolor="white",
            linewidth=0.4,
            yerr=errors if any(errors[0]) or any(errors[1]) else None,
            capsize=2,
        )
    axes.set_xticks(
        range(len(panels)), [title for title, _ in panels], rotation=30, fontsize=8, ha="right"
    )
    title = f"{figures.figure(name).title}, {base} = 1" if base else None
    _label(axes, name, drawn, title)


def bar_looks(systems: Sequence[str]) -> list[tuple[str, str]]:
    """Colour and hatch of each machine's bars.

    Where there are more machines than colours, those that are called alike up to the slash, such
    as a device raw and under a file system, share one and differ in their hatches.
    """
    if len(systems) <= len(PALETTE):
        return [(colour, "") for colour in PALETTE[: len(systems)]]
    kinds: dict[str, list[str]] = {}
    for system in systems:
        kinds.setdefault(system.partition("/")[0], []).append(system)
    looks: dict[str, tuple[str, str]] = {}
    hatches = [cycle(_HATCHES) for _ in PALETTE]
    for number, members in enumerate(kinds.values()):
        colour = number % len(PALETTE)
        looks |= {system: (PALETTE[colour], next(hatches[colour])) for system in members}
    return [looks[system] for system in systems]


def _stacks(done: Done) -> Figure:
    """A stack a machine: parts of its own sum, or of another machine's. A panel a study."""
    panels = [(title, cells) for title, cells in _panels(done) if cells]
    widest = max(len(cells) for _, cells in panels)
    figure, all_axes = _grid(len(panels), max(3.0, 0.34 * widest + 1.6), 2.7)
    seen: dict[str, BarContainer] = {}
    base, title_y = done.item.relative_to, AXES[done.item.view]
    for axes, (title, cells) in zip(all_axes, panels, strict=True):
        for place, cell in enumerate(cells):
            total, bottom = _whole(done, cell), 0.0
            for label, colour, size in parts_of(cell, done.item.view):
                seen[label] = axes.bar(
                    place, size / total, 0.8, bottom, color=colour, edgecolor="white", linewidth=0.3
                )
                bottom += size / total
        names = [c.system if c.over is None else f"{c.system} {c.over}" for c in cells]
        axes.set_xticks(range(len(names)), names, rotation=60, fontsize=7, ha="right")
        axes.set_title(title, fontsize=9)
        axes.set_ylabel(f"{title_y}, {base} = 1" if base else f"share of {title_y}", fontsize=7)
        axes.tick_params(axis="y", labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
    _legend(figure, seen, 8)
    return figure


def _whole(done: Done, cell: Cell) -> float:
    """What a stack's parts are shares of: its own sum, or another machine's."""
    base = done.item.relative_to
    same = (cell.panel, cell.scale, cell.over)
    of = next(
        (c for c in done.cells if c.system == base and (c.panel, c.scale, c.over) == same), cell
    )
    return sum(size for _, _, size in parts_of(of, done.item.view)) or math.inf
