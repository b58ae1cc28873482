"""Plots of what a trace asks for, as matplotlib figures."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from tierscope import format as fmt
from tierscope import trace_report

_WAYS = {1: "#d7301f", 2: "#fc8d59", 4: "#74a9cf", 8: "#2b8cbe", 16: "#045a8d"}
_FULL = "#000000"


def of_trace(
    name: str,
    found: dict[str, Any] | None,
    files: dict[str, Any] | None,
    accesses: list[dict[str, Any]],
) -> Figure:
    """What a trace asks of memory and, below, of files; either may be absent."""
    parts = [part for part in (found, files) if part is not None]
    figure = Figure(figsize=(11, 7.5 * len(parts)), layout="constrained")
    figure.suptitle(
        f"What {name} asks for" if files is None else f"What {name} asks of memory and files"
    )
    rows = iter(figure.subplots(2 * len(parts), 2))
    if found is not None:
        (curve, reuse), (working, sizes) = next(rows), next(rows)
        _curve(curve, found, "Miss ratio by size of cache")
        draw_reuse(reuse, found)
        _working_set(working, found)
        _sizes(sizes, found)
    if files is not None:
        (way, reuse), (working, curve) = next(rows), next(rows)
        as_blocks = trace_report.pages(files)
        _way(way, accesses)
        draw_reuse(reuse, as_blocks)
        _working_set(working, as_blocks)
        _curve(curve, as_blocks, "Miss ratio of pages of files by size of page cache")
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    return figure


READ, WRITTEN = "#2b8cbe", "#d7301f"
"""Colours of what is read and written of files."""


def _places(accesses: list[dict[str, Any]]) -> tuple[dict[int, int], int]:
    """Where each file begins when files lie one behind the other, and where the last one ends.

    They come in the order of their numbers, each as long as it is seen to be.
    """
    ends: dict[int, int] = {}
    for one in accesses:
        end = one["offset"] + one["bytes"]
        ends[one["file"]] = max(ends.get(one["file"], 0), end)
    begins, total = {}, 0
    for file in sorted(ends):
        begins[file] = total
        total += -(-ends[file] // 4096) * 4096
    return begins, total


def _way(axes: Axes, accesses: list[dict[str, Any]]) -> None:
    draw_way(axes, accesses)
    axes.set_title("Bytes of files read (blue) and written (red)")
    axes.set_xlabel("reads and writes")
    files = len({one["file"] for one in accesses})
    axes.set_ylabel(
        "place in the file" if files == 1 else f"place in {files:,} files, one on the other"
    )


def draw_way(axes: Axes, accesses: list[dict[str, Any]]) -> None:
    """A line for what each read and write moves, at its number, from its first byte to its last."""
    begins, total = _places(accesses)
    numbers = [one["number"] for one in accesses]
    colours = [WRITTEN if one["write"] else READ for one in accesses]
    first = [begins[one["file"]] + one["offset"] for one in accesses]
    last = [at + one["bytes"] for at, one in zip(first, accesses, strict=True)]
    axes.vlines(numbers, first, last, colors=colours, linewidth=0.6, rasterized=True)
    # What moves little is seen as a point.
    middle = [(low + high) / 2 for low, high in zip(first, last, strict=True)]
    axes.scatter(numbers, middle, s=1.2, c=colours, linewidths=0, rasterized=True)
    _bytes_upwards(axes, total)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda count, _: fmt.count(count)))


def _bytes_upwards(axes: Axes, most: int) -> None:
    """Bytes from 0 to `most`, in steps of a power of two."""
    axes.set_ylim(0, 1.02 * max(most, 1))
    axes.set_yticks(range(0, most + 1, 1 << max(max(most, 1).bit_length() - 2, 0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda size, _: fmt.size(size)))


def _bytes_axis(axes: Axes, label: str) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: fmt.size(size)))
    axes.tick_params(axis="x", rotation=30)
    axes.set_xlabel(label)


def _curve(axes: Axes, found: dict[str, Any], title: str) -> None:
    for ways, colour in _WAYS.items() if found["set_associative"] else ():
        rows = [row for row in found["set_associative"] if row["ways"] == ways]
        sizes = [row["cache_bytes"] for row in rows]
        ratios = [100 * row["miss_ratio"] for row in rows]
        label = "direct-mapped" if ways == 1 else f"{ways} ways"
        axes.plot(sizes, ratios, color=colour, marker=".", linewidth=1, label=label)
    sizes = [found["block_bytes"], *(row["cache_bytes"] for row in found["miss_ratio"])]
    ratios = [100.0, *(100 * row["miss_ratio"] for row in found["miss_ratio"])]
    # As far as all of it fits, from where on nothing is missed but first touches.
    whole = found["blocks"] * found["block_bytes"]
    if whole > sizes[-1]:
        sizes, ratios = [*sizes, whole], [*ratios, ratios[-1]]
    axes.step(sizes, ratios, where="post", color=_FULL, linewidth=1.6, label="one set")
    _error(axes, found, sizes, ratios)
    axes.set_ylim(0, 102)
    axes.set_ylabel("touches that miss (%)")
    axes.set_title(title)
    if found["set_associative"]:
        axes.legend(frameon=False, fontsize=8)
    _bytes_axis(axes, f"cache, blocks of {fmt.size(found['block_bytes'])}")


def _error(axes: Axes, found: dict[str, Any], sizes: list[int], ratios: list[float]) -> None:
    """The band within which the ratios of a sample lie."""
    if found["sample"]:
        off = 100 * found["sample"]["error"]
        low, high = [one - off for one in ratios], [one + off for one in ratios]
        axes.fill_between(sizes, low, high, step="post", color=_FULL, alpha=0.12, linewidth=0)


def draw_reuse(axes: Axes, found: dict[str, Any]) -> None:
    """How many different bytes were touched between two touches of a block."""
    known = [row for row in found["reuse"] if row["distance_blocks"] is not None]
    bars: dict[int, float] = {}
    for row in known:
        # The power of two of blocks that a cache must have at least.
        least = 1 << (row["distance_blocks"] - 1).bit_length()
        bars[least] = bars.get(least, 0.0) + row["touches"]
    places = [size * found["block_bytes"] for size in bars]
    shares = [100 * touches / found["touches"] for touches in bars.values()]
    axes.bar(places, shares, width=[0.45 * place for place in places], color="#2b8cbe")
    if len(bars) < 2:
        block = found["block_bytes"]
        axes.set_xlim(block / 2, 2 * max([found["blocks"] * block, *places]))
    if not bars:
        axes.set_ylim(0, 1)
    first = sum(row["touches"] for row in found["reuse"] if row["distance_blocks"] is None)
    axes.set_title(f"Reuse distance ({fmt.percent(first / found['touches'])} are first touches)")
    axes.set_ylabel("touches (%)")
    _bytes_axis(axes, "different bytes touched since, up to")


def _working_set(axes: Axes, found: dict[str, Any]) -> None:
    ends = [0, *(window["end_touches"] for window in found["working_set"])]
    held = [window["blocks"] * found["block_bytes"] for window in found["working_set"]]
    axes.stairs(held, ends, fill=True, color="#74a9cf")
    _bytes_upwards(axes, round(max(held)))
    axes.set_xlim(0, ends[-1])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda count, _: fmt.count(count)))
    axes.set_xlabel("touches of blocks")
    axes.set_ylabel("different bytes")
    axes.set_title(f"Working set of windows of {fmt.count(ends[1])} touches")


def _sizes(axes: Axes, found: dict[str, Any]) -> None:
    total = sum(count for _, count in found["sizes"])
    bars = list(range(len(found["sizes"])))
    axes.bar(bars, [100 * count / total for _, count in found["sizes"]], color="#fc8d59")
    axes.set_xlim(-1, len(bars))
    axes.set_xticks(bars, [fmt.size(size) for size, _ in found["sizes"]], rotation=30)
    axes.set_xlabel("size from, to below twice that")
    axes.set_ylabel("requests (%)")
    moved = found["reads"] + found["writes"]
    axes.set_title(f"Sizes of requests ({fmt.percent(found['reads'] / moved)} read)")
