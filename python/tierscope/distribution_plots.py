"""Plots of whole distributions, as matplotlib figures: latencies, accesses, queues and wear."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.artist import Artist
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

from tierscope import distributions
from tierscope import format as fmt
from tierscope._shape import ResultData
from tierscope.errors import RunError
from tierscope.pages.chart import PALETTE
from tierscope.plots import what_ran

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DASHES = ("-", "--", ":", "-.")
_TIME = EngFormatter("s")


def _lacking(what: str) -> RunError:
    return RunError(
        "not-told", f"the result does not tell {what}", "run it again with this version"
    )


def latency_distribution(data: ResultData) -> Figure:
    """Shares of accesses that take as long or longer, and shares by latency.

    Raises:
        RunError: where the result has no histogram.
    """
    found = distributions.latencies(data)
    if not found:
        raise _lacking("how latencies are distributed")
    figure = Figure(figsize=(6.4, 5.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    for number, (name, one) in enumerate(found.items()):
        colour = PALETTE[number % len(PALETTE)]
        dash = _DASHES[number % len(_DASHES)]
        points = distributions.at_least(one)
        xs, ys = [p[0] * 1e-9 for p in points], [p[1] for p in points]
        above.step(xs, ys, where="pre", color=colour, linestyle=dash, label=name)
        edges: list[float] = []
        shares: list[float] = []
        for from_ns, to_ns, share in distributions.bins(one):
            if edges and from_ns > edges[-1] * 1.001e9:
                shares.append(float("nan"))
                edges.append(from_ns * 1e-9)
            if not edges:
                edges.append(from_ns * 1e-9)
            shares.append(share)
            edges.append(to_ns * 1e-9)
        below.stairs(shares, edges, color=colour, linestyle=dash, baseline=None)
    for axes in (above, below):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))
    above.set_ylabel("share as long or longer")
    below.set_ylabel("share of a tenth\nof a decade")
    below.set_xlabel("latency")
    below.xaxis.set_major_formatter(_TIME)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    figure.suptitle(f"Distribution of latencies: {what_ran(data)}")
    return figure


def heat_map(data: ResultData) -> Figure:
    """Accesses over address and time, a panel a system; dashes mark addresses that are left out.

    Raises:
        RunError: where they were not counted.
    """
    maps = distributions.heat_maps(data, 128, 128)
    if not maps:
        raise _lacking("where accesses went")
    figure = Figure(figsize=(7.0, 0.8 + 2.4 * len(maps)), layout="constrained")
    panels = figure.subplots(len(maps), 1, squeeze=False)[:, 0]
    most = max(max(row) for one in maps.values() for row in one.counts)
    norm = LogNorm(1, max(most, 2))
    for axes, (name, one) in zip(panels, maps.items(), strict=True):
        columns = max(map(len, one.counts))
        cells = [[count or float("nan") for count in row] for row in one.counts]
        extent = (0.0, columns * one.column_s, 0.0, float(len(cells)))
        drawn = axes.imshow(
            cells,
            norm=norm,
            cmap="cividis_r",
            extent=extent,
            origin="lower",
            aspect="auto",
            interpolation="nearest",
        )
        for gap in one.gaps:
            axes.axhline(gap, color="#d55e00", linewidth=0.6, linestyle="--")
        addresses = one.addresses
        axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda at, _, of=addresses: _address(of, at)))
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.xaxis.set_major_formatter(_TIME)
        axes.set_ylabel(f"address,\n{fmt.size(one.row_bytes)} a row")
        axes.set_title(name, fontsize=9, loc="left")
    panels[-1].set_xlabel("simulated time")
    figure.colorbar(drawn, ax=list(panels), label="accesses")
    figure.suptitle(f"Accesses over address and time: {what_ran(data)}")
    return figure


def _address(addresses: list[int], at: float) -> str:
    row = round(at)
    return distributions.address(addresses[row]) if 0 <= row < len(addresses) else ""


def queues(data: ResultData) -> Figure:
    """How much each queue held over time: lines are means, and shades reach to the most.

    Raises:
        RunError: where the result does not tell it, or all were empty.
    """
    names = distributions.queue_names(data)
    if not names:
        raise _lacking("what queues held")
    figure = Figure(figsize=(7.0, 1.0 + 1.05 * len(names)), layout="constrained")
    panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    for axes, name in zip(panels, names, strict=True):
        top = 0.0
        for number, (system, one) in enumerate(data["systems"].items()):
            series = distributions.queue_series(one, name)
            if not series:
                continue
            colour, dash = PALETTE[number % len(PALETTE)], _DASHES[number % len(_DASHES)]
            xs, means = [it[0] for it in series], [it[1] for it in series]
            most = [it[2] for it in series]
            top = max(top, *most)
            first = axes is panels[0] or not _labelled(panels[0], system)
            axes.step(
                xs,
                means,
                where="pre",
                color=colour,
                linestyle=dash,
                linewidth=1.1,
                label=system if first else None,
            )
            axes.fill_between(xs, means, most, step="pre", color=colour, alpha=0.15, linewidth=0)
        axes.set_title(name.replace(".", ": ").replace("_", " "), fontsize=8, loc="left", pad=2)
        axes.set_ylim(0, 1.1 * top or 1)
        axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    panels[-1].set_xlabel("simulated time")
    panels[-1].xaxis.set_major_formatter(_TIME)
    handles: dict[str, Artist] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside right upper",
        frameon=False,
        fontsize=8,
    )
    figure.suptitle(f"What queues held: {what_ran(data)}\nlines: mean; shades: to the most")
    return figure


def _labelled(axes: Axes, label: str) -> bool:
    return label in axes.get_legend_handles_labels()[1]


def wear(data: ResultData) -> Figure:
    """How many blocks were erased, or lines written, how often, a panel a system.

    Raises:
        RunError: where nothing wears, or nothing has.
    """
    found = distributions.wears(data)
    if not found:
        raise RunError(
            "not-told",
            "nothing has worn on any of these systems",
            "plot the wear of a drive whose flash was erased, or of non-volatile memory",
        )
    figure = Figure(figsize=(6.4, 0.8 + 2.3 * len(found)), layout="constrained")
    panels = figure.subplots(len(found), 1, squeeze=False)[:, 0]
    for axes, (name, one) in zip(panels, found.items(), strict=True):
        lefts = [each["from"] for each in one.classes]
        widths = [each["to"] + 1 - each["from"] for each in one.classes]
        counts = [each["count"] for each in one.classes]
        axes.bar(lefts, counts, widths, align="edge", color="#0072b2", edgecolor="white")
        if one.what == "lines":
            axes.set_xscale("log", base=2)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        axes.set_xlabel(f"{one.by} of a {one.what.removesuffix('s')} (endurance {one.endurance:,})")
        axes.set_ylabel(one.what)
        axes.set_title(name, fontsize=9, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"Wear: {what_ran(data)}")
    return figure
