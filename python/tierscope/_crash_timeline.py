"""The timeline of a failure of power: the requests before it, a row each, and what came after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tierscope import format as fmt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_AFTER = {
    "saved": "until all is saved that can be",
    "ready": "from the return of power until memory and store are ready",
    "scanned": "to read what survived",
    "recovered": "to do again what was interrupted",
}
_OUTCOMES = {
    "kept": "kept",
    "gone": "gone, not promised",
    "lost": "LOST, though promised",
    "unreadable": "UNREADABLE",
    "invented": "INVENTED",
    "stale": "STALE",
    "cut": "cut short",
    None: "had ended",
}
_HARMED = ("lost", "unreadable", "invented", "stale")
_WIDTH = 80
"""Columns of a timeline as text."""
_LEAST_LABEL = 16
_COLOURS = {"write": "C0", "evict": "C1", "fill": "C2", "clone": "C4", "flush": "C5", "trim": "C6"}
_UNITS_S = {"s": 1.0, "ms": 1e-3, "\u00b5s": 1e-6, "ns": 1e-9}


def text(data: Mapping[str, Any]) -> str:
    """Requests, the cut and the recovery, a line each; nothing where no point was replayed."""
    moments = data["timeline"]
    if not moments:
        return ""
    cut_ps = _cut_ps(moments)
    rows: list[tuple[str, ...]] = [
        ("request", "issued", "acknowledged", "durable", "after recovery")
    ]
    for track in data["requests"]:
        times = (track[key] for key in ("issued_ps", "acknowledged_ps", "durable_ps"))
        befores = (_before(at, cut_ps) for at in times)
        rows.append((_label(track), *befores, _OUTCOMES[track["outcome"]]))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    widths[0] = min(widths[0], max(_WIDTH - sum(widths[1:]) - 2 * 4, _LEAST_LABEL))
    lines = [
        "  ".join(
            [
                _cut_to(row[0], widths[0]).ljust(widths[0]),
                *map(str.rjust, row[1:4], widths[1:4]),
                row[4],
            ]
        )
        for row in rows
    ]
    under_way = _under_way(moments)
    lines.append(f"power fails, with {under_way or 'nothing'} under way")
    for before, moment in pairwise(moments):
        if moment["what"] in _AFTER and data["untold"] is None:
            took = fmt.seconds((moment["time_ps"] - before["time_ps"]) * 1e-12)
            lines.append(f"{took:>9}  {_AFTER[moment['what']]}")
    return "\n".join(lines)


def _cut_to(label: str, width: int) -> str:
    """A label without its middle, where it is longer than that."""
    if len(label) <= width:
        return label
    end = (width - 1) // 2
    return f"{label[: width - 1 - end]}\u2026{label[len(label) - end :]}"


def figure(data: Mapping[str, Any]) -> Figure:
    """A row a request, from its issue on, and below how much of each kind was under way."""
    from matplotlib.figure import Figure as NewFigure

    tracks, moments = data["requests"], data["timeline"]
    cut_ps = _cut_ps(moments)
    events = [moment for moment in moments if moment["what"] == "event"]
    kinds = [kind for kind in data["under_way"] if any(kind in m["under_way"] for m in events)]
    first_ps = min([*(t["issued_ps"] for t in tracks), *(m["time_ps"] for m in events)])
    scale_ps, unit = _scale(cut_ps - first_ps)
    rows, counts = max(len(tracks), 1), max(len(kinds), 1)
    drawn = NewFigure(figsize=(8.0, 1.6 + 0.24 * (rows + counts)), layout="constrained")
    above, below = drawn.subplots(2, 1, sharex=True, height_ratios=(rows, counts))

    def at(time_ps: float) -> float:
        return (time_ps - cut_ps) / scale_ps

    _draw_tracks(above, tracks, at, cut_ps)
    _draw_counts(below, events, kinds, at, cut_ps)
    for axes in (above, below):
        axes.axvline(0, color="black", linewidth=1.2)
        axes.grid(axis="x", alpha=0.3)
    # What recovery left stands behind the cut.
    span = -at(first_ps) or 1.0
    above.set_xlim(-1.03 * span, 0.45 * span)
    above.text(0, -0.9, " power fails", va="bottom", fontsize=8, fontweight="bold")
    below.set_xticks([tick for tick in below.get_xticks() if -1.03 * span <= tick <= 0])
    below.set_xlabel(f"{unit} from the failure of power")
    above.set_title(f"{data['system']}: the last requests before power fails", fontsize=10)
    return drawn


def _draw_tracks(axes: Axes, tracks: Sequence[Mapping[str, Any]], at: Any, cut_ps: int) -> None:
    for row, track in enumerate(tracks):
        end_ps = max(track["durable_ps"] or 0, track["acknowledged_ps"] or 0) or cut_ps
        colour = _COLOURS.get(track["what"], "C7")
        begin = at(track["issued_ps"])
        axes.barh(row, at(end_ps) - begin, left=begin, height=0.55, color=colour, alpha=0.6)
        axes.plot(begin, row, marker="|", color=colour, markersize=9)
        for key, marker, fill in (("acknowledged_ps", "D", "white"), ("durable_ps", "o", "black")):
            if track[key] is not None:
                where = at(track[key])
                axes.plot(
                    where, row, marker=marker, color="black", markerfacecolor=fill, markersize=4
                )
        harmed = track["outcome"] in _HARMED
        axes.annotate(
            _OUTCOMES[track["outcome"]], (0, row), (6, 0), textcoords="offset points", va="center",
            fontsize=7, color="C3" if harmed else "0.25", fontweight="bold" if harmed else "normal",
        )  # fmt: skip
    axes.set_yticks(range(len(tracks)), [_label(track) for track in tracks], fontsize=7)
    axes.set_ylim(len(tracks) - 0.3, -1.6)
    for marker, fill, label in (("D", "white", "acknowledged"), ("o", "black", "durable")):
        axes.plot(
            [], [], marker=marker, color="black", markerfacecolor=fill, linestyle="", markersize=4,
            label=label,
        )  # fmt: skip
    axes.legend(fontsize=7, loc="upper left", ncols=2, frameon=False)


def _draw_counts(
    axes: Axes, events: Sequence[Mapping[str, Any]], kinds: Sequence[str], at: Any, cut_ps: int
) -> None:
    ends_ps = [event["time_ps"] for event in events[1:]] + [cut_ps]
    for row, kind in enumerate(kinds):
        most = max(event["under_way"].get(kind, 0) for event in events)
        for event, end_ps in zip(events, ends_ps, strict=True):
            count = event["under_way"].get(kind, 0)
            begin = at(event["time_ps"])
            if count:
                axes.barh(
                    row, at(end_ps) - begin, left=begin, height=0.7, color="0.3",
                    alpha=0.15 + 0.6 * count / most, linewidth=0,
                )  # fmt: skip
        last = events[-1]["under_way"].get(kind, 0) if events else 0
        axes.annotate(
            f"{last} at the cut", (0, row), (6, 0), textcoords="offset points", va="center",
            fontsize=7, color="0.25",
        )  # fmt: skip
    axes.set_yticks(range(len(kinds)), [f"{kind}: under way" for kind in kinds], fontsize=7)
    axes.set_ylim(len(kinds) - 0.4, -0.6)


def _cut_ps(moments: Sequence[Mapping[str, Any]]) -> int:
    return next((int(m["time_ps"]) for m in moments if m["what"] == "cut"), 0)


def _label(track: Mapping[str, Any]) -> str:
    version = "" if track["version"] is None else f" v{track['version']}"
    return f"{track['what']} {track['of'] or hex(track['address'])}{version}"


def _before(time_ps: int | None, cut_ps: int) -> str:
    return "\u2013" if time_ps is None else f"-{fmt.seconds((cut_ps - time_ps) * 1e-12)}"


def _under_way(moments: Sequence[Mapping[str, Any]]) -> str:
    last: Iterator[Mapping[str, int]] = (
        m["under_way"] for m in reversed(moments) if m["what"] == "event"
    )
    return ", ".join(f"{count} {kind}" for kind, count in next(last, {}).items())


def _scale(span_ps: int) -> tuple[float, str]:
    """Picoseconds of a unit in which so many are a handy number, and its name."""
    handy = (unit for unit, seconds in _UNITS_S.items() if span_ps * 1e-12 >= seconds)
    unit = next(handy, "ns")
    return _UNITS_S[unit] * 1e12, unit
