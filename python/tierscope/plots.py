"""Plots of results, as matplotlib figures. They need no display and no global state."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tierscope import format as fmt
from tierscope._shape import (
    Latency,
    LatencyFigure,
    ResultData,
    SampledFigure,
    SystemResult,
    of_windows,
)
from tierscope.breakdown import DEVICE_GROUPS, GROUPS, Group, groups_of, times_of, where

_HATCHES = ("", "//", "..", "xx", "\\\\\\\\", "++")
_LATENCIES: tuple[tuple[LatencyFigure, str, str], ...] = (
    ("mean", "mean", "D"),
    ("p50", "median", "o"),
    ("p99", "99 %", "^"),
    ("p999", "99.9 %", "s"),
    ("max", "max", "x"),
)
"""Figures of a latency: key, label and mark, from the left to the right."""
_APART = 0.16
"""Distance of two marks of a system, in distances of systems."""


def breakdown(data: ResultData, by: Literal["group", "owner"] = "group") -> Figure:
    """Where the threads' time goes, or the requests' of devices alone: seconds, and shares beside.

    Args:
        data: the result.
        by: ``group`` for about ten groups of owners, ``owner`` for each stage by itself.
    """
    names = list(data["systems"])
    stacks = {n: _stack(data["systems"][n], by) for n in names}
    alone = all(data["systems"][n]["device"] is not None for n in names)
    whose = "request time" if alone else "thread time"
    labels = {part.label for stack in stacks.values() for part in stack}
    height = max(4.6, 0.23 * len(labels))
    figure = Figure(figsize=(5.5 + 1.1 * len(names), height), layout="constrained")
    seconds_axes, shares_axes = figure.subplots(1, 2)
    for x, stack in enumerate(stacks.values()):
        total_ns = sum(part.time_ns for part in stack)
        _draw(seconds_axes, x, stack, 1e-9)
        _draw_half_width(seconds_axes, x, data["systems"][names[x]], total_ns * 1e-9)
        _draw(shares_axes, x, stack, 100 / total_ns if total_ns else 0.0)
    seconds_axes.set_ylabel(f"{whose} (s)")
    seconds_axes.set_title("of a request" if alone else "threads × run time")
    shares_axes.set_ylabel(f"share of {whose} (%)")
    shares_axes.set_title("shares")
    for axes in (seconds_axes, shares_axes):
        _label_systems(axes, data, names)
    _add_legend(figure, seconds_axes, DEVICE_GROUPS if alone else GROUPS)
    figure.suptitle(f"Where the time goes: {what_ran(data)}")
    return figure


def _latency(found: Latency | None, key: LatencyFigure) -> float:
    """A figure of a system's latencies; none is no number, which is not drawn."""
    return math.nan if found is None else found[key]


def latency(data: ResultData) -> Figure:
    """Latency of memory accesses: mean and percentiles of each system, on a logarithmic axis.

    Each has a place of its own beside the others, from the left to the right, so that none hides
    another where they are close.
    """
    names = list(data["systems"])
    figure = Figure(figsize=(3.5 + 1.3 * len(names), 4.2), layout="constrained")
    axes = figure.subplots()
    for index, (key, label, mark) in enumerate(_LATENCIES):
        beside = (index - (len(_LATENCIES) - 1) / 2) * _APART
        values = [_latency(data["systems"][n]["latency_ns"], key) for n in names]
        places = [place + beside for place in range(len(names))]
        axes.plot(places, values, mark, label=label, markersize=7)
        if key == "mean":
            halves = [_half_width(data["systems"][n], "mean_latency") for n in names]
            errors = [value * half for value, half in zip(values, halves, strict=True)]
            if any(errors):
                axes.errorbar(places, values, yerr=errors, fmt="none", ecolor="black", capsize=3)
    axes.set_yscale("log")
    axes.set_xlim(-0.5, len(names) - 0.5)
    for between in range(1, len(names)):
        axes.axvline(between - 0.5, color="0.9", linewidth=0.8, zorder=0)
    axes.set_ylabel("access latency (ns)")
    axes.grid(axis="y", alpha=0.3)
    _label_systems(axes, data, names)
    figure.legend(loc="outside right center", frameon=False)
    figure.suptitle(f"Latency of accesses: {what_ran(data)}")
    return figure


def what_ran(data: ResultData) -> str:
    """The workload, whether figures are of its windows alone, and whether they are not complete."""
    name = data["workload"]["name"]
    told = f"{name}, of its windows alone" if of_windows(data["workload"]) else name
    state = data["completeness"]
    return told if state == "complete" else f"{told} ({state})"


@dataclass(frozen=True, slots=True)
class _Part:
    """One part of a stack."""

    label: str
    colour: str
    hatch: str
    time_ns: float


def _stack(system: SystemResult, by: Literal["group", "owner"]) -> list[_Part]:
    """The parts of a stack, bottom first."""
    if by == "group":
        return [_Part(group.label, group.colour, "", time) for group, time in where(system)]
    return [part for group, _ in where(system) for part in _owners(group, system)]


def _owners(group: Group, system: SystemResult) -> list[_Part]:
    """The owners of a group: the group's colour, each with its own hatch."""
    times = times_of(system)
    known = {owner for other in groups_of(system) for owner in other.owners}
    owners = group.owners or tuple(owner for owner in times if owner not in known)
    return [
        _Part(_readable(owner), group.colour, _HATCHES[i % len(_HATCHES)], times[owner])
        for i, owner in enumerate(owners)
        if times.get(owner, 0) > 0
    ]


def _readable(owner: str) -> str:
    return owner.replace("_", " ")


def _draw(axes: Axes, x: int, stack: list[_Part], scale: float) -> None:
    bottom = 0.0
    for part in stack:
        axes.bar(
            x,
            part.time_ns * scale,
            bottom=bottom,
            width=0.7,
            color=part.colour,
            hatch=part.hatch,
            edgecolor="white",
            linewidth=0.5,
            label=part.label,
        )
        bottom += part.time_ns * scale


def _half_width(system: SystemResult, figure: SampledFigure) -> float:
    """Half the interval of a figure, as a share of it; 0 where none is told."""
    sampling = system.get("sampling")
    return 0.0 if sampling is None else sampling["half_widths"][figure] or 0.0


def _draw_half_width(axes: Axes, x: int, system: SystemResult, height: float) -> None:
    half = _half_width(system, "time")
    if half:
        axes.errorbar(x, height, yerr=height * half, fmt="none", ecolor="black", capsize=4)


def _label_systems(axes: Axes, data: ResultData, names: list[str]) -> None:
    times = [fmt.seconds(data["systems"][n]["time_s"]) for n in names]
    labels = [f"{name}\n{time}" for name, time in zip(names, times, strict=True)]
    axes.set_xticks(range(len(names)), labels, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _add_legend(figure: Figure, axes: Axes, groups: Iterable[Group]) -> None:
    """One entry for each label, from the top of the stack to its bottom."""
    order: list[str] = []
    for group in groups:
        order += [group.label, *map(_readable, group.owners)]
    first: dict[str, Artist] = {}
    for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
        first.setdefault(label, handle)
    labels = sorted(first, key=lambda label: order.index(label) if label in order else len(order))
    labels.reverse()
    handles = [first[label] for label in labels]
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8)
