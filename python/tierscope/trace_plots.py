"""Plots of what a trace asks for, as matplotlib figures."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from tierscope import format as fmt

_WAYS = {1: "#d7301f", 2: "#fc8d59", 4: "#74a9cf", 8: "#2b8cbe", 16: "#045a8d"}
_FULL = "#000000"


def profile(name: str, found: dict[str, Any]) -> Figure:
    """Miss ratios by size of cache, reuse distances, working sets and sizes of requests."""
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    ((curve, reuse), (working, sizes)) = figure.subplots(2, 2)
    _curve(curve, found)
    _reuse(reuse, found)
    _working_set(working, found)
    _sizes(sizes, found)
    for axes in (curve, reuse, working, sizes):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    figure.suptitle(f"What {name} asks for")
    return figure


def _bytes_axis(axes: Axes, label: str) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: fmt.size(size)))
    axes.tick_params(axis="x", rotation=30)
    axes.set_xlabel(label)


def _curve(axes: Axes, found: dict[str, Any]) -> None:
    for ways, colour in _WAYS.items():
        rows = [row for row in found["set_associative"] if row["ways"] == ways]
        sizes = [row["cache_bytes"] for row in rows]
        ratios = [100 * row["miss_ratio"] for row in rows]
        label = "direct-mapped" if ways == 1 else f"{ways} ways"
        axes.plot(sizes, ratios, color=colour, marker=".", linewidth=1, label=label)
    sizes = [found["block_bytes"], *(row["cache_bytes"] for row in found["miss_ratio"])]
    ratios = [100.0, *(100 * row["miss_ratio"] for row in found["miss_ratio"])]
    axes.step(sizes, ratios, where="post", color=_FULL, linewidth=1.6, label="one set")
    _error(axes, found, sizes, ratios)
    axes.set_ylim(0, 102)
    axes.set_ylabel("touches that miss (%)")
    axes.set_title("Miss ratio by size of cache")
    axes.legend(frameon=False, fontsize=8)
    _bytes_axis(axes, f"cache, blocks of {fmt.size(found['block_bytes'])}")


def _error(axes: Axes, found: dict[str, Any], sizes: list[int], ratios: list[float]) -> None:
    """The band within which the ratios of a sample lie."""
    if found["sample"]:
        off = 100 * found["sample"]["error"]
        low, high = [one - off for one in ratios], [one + off for one in ratios]
        axes.fill_between(sizes, low, high, step="post", color=_FULL, alpha=0.12, linewidth=0)


def _reuse(axes: Axes, found: dict[str, Any]) -> None:
    known = [row for row in found["reuse"] if row["distance_blocks"] is not None]
    bars: dict[int, float] = {}
    for row in known:
        # The power of two of blocks that a cache must have at least.
        least = 1 << (row["distance_blocks"] - 1).bit_length()
        bars[least] = bars.get(least, 0.0) + row["touches"]
    places = [size * found["block_bytes"] for size in bars]
    shares = [100 * touches / found["touches"] for touches in bars.values()]
    axes.bar(places, shares, width=[0.45 * place for place in places], color="#2b8cbe")
    first = sum(row["touches"] for row in found["reuse"] if row["distance_blocks"] is None)
    axes.set_title(f"Reuse distance ({fmt.percent(first / found['touches'])} are first touches)")
    axes.set_ylabel("touches (%)")
    _bytes_axis(axes, "different bytes touched since, up to")


def _working_set(axes: Axes, found: dict[str, Any]) -> None:
    ends = [0, *(window["end_touches"] for window in found["working_set"])]
    held = [window["blocks"] * found["block_bytes"] for window in found["working_set"]]
    axes.stairs(held, ends, fill=True, color="#74a9cf")
    axes.set_ylim(0)
    axes.set_xlim(0, ends[-1])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda size, _: fmt.size(size)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda count, _: fmt.count(count)))
    axes.set_xlabel("touches of blocks")
    axes.set_ylabel("different bytes")
    axes.set_title(f"Working set of windows of {fmt.count(ends[1])} touches")


def _sizes(axes: Axes, found: dict[str, Any]) -> None:
    total = sum(count for _, count in found["sizes"])
    places = list(range(len(found["sizes"])))
    axes.bar(places, [100 * count / total for _, count in found["sizes"]], color="#fc8d59")
    axes.set_xlim(-1, len(places))
    axes.set_xticks(places, [fmt.size(size) for size, _ in found["sizes"]], rotation=30)
    axes.set_xlabel("size from, to below twice that")
    axes.set_ylabel("requests (%)")
    moved = found["reads"] + found["writes"]
    axes.set_title(f"Sizes of requests ({fmt.percent(found['reads'] / moved)} read)")
