"""Plots of results, as matplotlib figures. They need no display and no global state."""

from __future__ import annotations

from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tierscope import format as fmt
from tierscope._shape import ResultData
from tierscope.breakdown import GROUPS, Group, grouped

_HATCHES = ("", "//", "..", "xx", "\\\\\\\\", "++")
_Stack = list[tuple[str, str, str, float]]


def breakdown(data: ResultData, by: Literal["group", "owner"] = "group") -> Figure:
    """Where the threads' time goes: in seconds on the left, as shares on the right.

    Args:
        data: the result.
        by: ``group`` for about ten groups of owners, ``owner`` for each stage by itself.
    """
    names = list(data["systems"])
    stacks = {n: _stack(data["systems"][n]["time_breakdown_ns"], by) for n in names}
    figure = Figure(figsize=(5.5 + 1.1 * len(names), 4.6), layout="constrained")
    seconds_axes, shares_axes = figure.subplots(1, 2)
    _draw(seconds_axes, {n: [(*p[:3], p[3] * 1e-9) for p in s] for n, s in stacks.items()})
    seconds_axes.set_ylabel("thread time (s)")
    seconds_axes.set_title("threads × run time")
    shares = {
        n: [(*p[:3], p[3] / sum(q[3] for q in s) * 100) for p in s] for n, s in stacks.items()
    }
    _draw(shares_axes, shares)
    shares_axes.set_ylabel("share of thread time (%)")
    shares_axes.set_title("shares")
    for axes in (seconds_axes, shares_axes):
        _label_systems(axes, data, names)
    handles, labels = _legend(seconds_axes)
    figure.legend(handles[::-1], labels[::-1], loc="outside right center", frameon=False)
    figure.suptitle(f"Where the time goes: {data['workload']['name']}")
    return figure


def latency(data: ResultData) -> Figure:
    """Latency of memory accesses: mean and percentiles of each system, on a logarithmic axis."""
    marks = {"mean": "D", "p50": "o", "p99": "^", "p999": "s", "max": "x"}
    names = list(data["systems"])
    figure = Figure(figsize=(3.5 + 1.1 * len(names), 4.2), layout="constrained")
    axes = figure.subplots()
    for (key, mark), label in zip(
        marks.items(), ("mean", "median", "99 %", "99.9 %", "max"), strict=True
    ):
        values = [data["systems"][n]["latency_ns"][key] for n in names]  # type: ignore[literal-required]
        axes.plot(range(len(names)), values, mark, label=label, markersize=7)
    axes.set_yscale("log")
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_ylabel("access latency (ns)")
    axes.grid(axis="y", alpha=0.3)
    _label_systems(axes, data, names)
    figure.legend(loc="outside right center", frameon=False)
    figure.suptitle(f"Latency of accesses: {data['workload']['name']}")
    return figure


def _stack(times: dict[str, float], by: Literal["group", "owner"]) -> _Stack:
    """Label, colour, hatch and time of each part, bottom first."""
    parts: _Stack = []
    for group, time in grouped(times):
        if by == "group":
            parts.append((group.label, group.colour, "", time))
        else:
            parts += _owners(group, times)
    return parts


def _owners(group: Group, times: dict[str, float]) -> _Stack:
    """The owners of a group: the group's colour, each with its own hatch."""
    known = {owner for other in GROUPS for owner in other.owners}
    owners = group.owners or tuple(owner for owner in times if owner not in known)
    return [
        (owner.replace("_", " "), group.colour, _HATCHES[i % len(_HATCHES)], times[owner])
        for i, owner in enumerate(owners)
        if times.get(owner, 0) > 0
    ]


def _draw(axes: Axes, stacks: dict[str, _Stack]) -> None:
    for x, stack in enumerate(stacks.values()):
        bottom = 0.0
        for label, colour, hatch, value in stack:
            axes.bar(
                x,
                value,
                bottom=bottom,
                width=0.7,
                color=colour,
                hatch=hatch,
                edgecolor="white",
                linewidth=0.5,
                label=label,
            )
            bottom += value


def _label_systems(axes: Axes, data: ResultData, names: list[str]) -> None:
    times = [fmt.seconds(data["systems"][n]["time_s"]) for n in names]
    labels = [f"{name}\n{time}" for name, time in zip(names, times, strict=True)]
    axes.set_xticks(range(len(names)), labels, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _legend(axes: Axes) -> tuple[list[object], list[str]]:
    """One entry for each label, in the stack's order."""
    order = [group.label for group in GROUPS]
    order += [owner.replace("_", " ") for group in GROUPS for owner in group.owners]
    first = {}
    for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
        first.setdefault(label, handle)
    labels = sorted(first, key=lambda label: order.index(label) if label in order else len(order))
    return [first[label] for label in labels], labels
