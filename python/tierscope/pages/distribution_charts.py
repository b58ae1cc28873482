"""The figures of whole distributions: latencies, accesses over address and time, queues, wear."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tierscope import distributions
from tierscope import format as fmt
from tierscope._shape import Distribution, ResultData
from tierscope.pages.chart import (
    WIDTH,
    Spec,
    by_system,
    chart,
    chosen,
    dashes,
    faint,
    labels_of_times,
    tooltip,
)

_MOST_CELLS = 10_000
"""Cells of heat maps of a page, of all systems together."""
_LABELS = 8
"""Labels of an axis of addresses."""


def all_of(data: ResultData, state: str, of: str, placed: str) -> list[Spec]:
    """All of these that a result has something to say of.

    Args:
        data: the result.
        state: how complete it is, and whatever else a figure's second line says.
        of: the accesses whose latencies are distributed.
        placed: the accesses that maps of addresses count.
    """
    found = (
        latency_distribution(data, state, of),
        queues(data, state),
        heat_map(data, state, placed),
        wear(data, state),
    )
    return [one for one in found if one is not None]


def latency_distribution(data: ResultData, state: str, of: str) -> Spec | None:
    """Which share of accesses takes how long, and as long or longer; nothing without histograms."""
    found = distributions.latencies(data)
    if not found:
        return None
    return latency_lines(
        found,
        "Distribution of latencies",
        f"of {of}; {state}",
        {"scale": by_system(list(data["systems"]))},
        {"scale": dashes(list(data["systems"]))},
    )


def latency_lines(
    found: Mapping[str, Distribution],
    title: str,
    state: str,
    colour: Spec,
    stroke: Spec | None,
    legend: str | None = None,
) -> Spec:
    """A line for each histogram: shares that take as long or longer, and shares by latency."""
    rows: list[dict[str, Any]] = []
    for name, one in found.items():
        for latency_ns, share in distributions.at_least(one):
            rows.append(
                {
                    "k": "share",
                    "system": name,
                    "at": latency_ns,
                    "share": share,
                    "told": fmt.nanoseconds(latency_ns),
                    "percent": _share(share),
                }
            )
        for from_ns, to_ns, share in _closed(distributions.bins(one)):
            rows.append(
                {
                    "k": "part",
                    "system": name,
                    "at": from_ns,
                    "part": share or None,
                    "told": f"{fmt.nanoseconds(from_ns)} to {fmt.nanoseconds(to_ns)}",
                    "percent": _share(share),
                }
            )
    at = decades([row["at"] for row in rows])
    shares = decades([row.get("share") or row.get("part") or 1.0 for row in rows])
    views = [
        _latency_view("share", "share as long or longer", "step-before", at, shares, first=True),
        _latency_view("part", "share of a bin", "step-after", at, shares, first=False),
    ]
    for view in views:
        encoding = view["encoding"]
        encoding["color"] = {
            "field": "system",
            "type": "nominal",
            "sort": None,
            "title": legend,
            **colour,
        }
        if stroke is not None:
            encoding["strokeDash"] = {
                "field": "system",
                "type": "nominal",
                "title": legend,
                **stroke,
            }
    body: Spec = {"vconcat": views, "spacing": 10, "resolve": {"scale": {"x": "shared"}}}
    return chart(title, f"scroll to zoom, drag to move; {state}", rows, body)


def _closed(
    bins: Sequence[tuple[float, float, float]],
) -> list[tuple[float, float, float]]:
    """Bins with what lies between them, where there is nothing, so that a line breaks there."""
    found = []
    for number, (from_ns, to_ns, share) in enumerate(bins):
        found.append((from_ns, to_ns, share))
        following = bins[number + 1][0] if number + 1 < len(bins) else None
        if following is None or following > to_ns * 1.001:
            # The line goes to the end of the bin, and no further.
            found.append((to_ns * 0.9999, to_ns, share))
            found.append((to_ns, to_ns, 0.0))
    return found


def _share(share: float) -> str:
    return fmt.percent(share) if share >= 1e-4 else f"{share:.2e}"


def decades(values: Sequence[float]) -> list[float]:
    """The powers of ten that values above 0 lie between."""
    known = [value for value in values if value > 0] or [1.0]
    least, most = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
    return [10.0**power for power in range(least, most + 1)]


def _latency_view(
    field: str,
    title: str,
    interpolate: str,
    at: Sequence[float],
    shares: Sequence[float],
    *,
    first: bool,
) -> Spec:
    params: list[Spec] = [
        {
            "name": f"zoom_{field}",
            "select": {"type": "interval", "encodings": ["x"]},
            "bind": "scales",
        }
    ]
    if first:
        params.append(chosen("system"))
    x: Spec = {
        "field": "at",
        "type": "quantitative",
        "scale": {"type": "log", "nice": False},
        "title": None if first else "latency",
        "axis": {"labelExpr": labels_of_times(1e-9), "values": at}
        | {"labels": not first, "ticks": not first},
    }
    return {
        "width": WIDTH,
        "height": 190 if first else 150,
        "transform": [{"filter": f"datum.k === '{field}'"}],
        "params": params,
        "mark": {"type": "line", "interpolate": interpolate, "strokeWidth": 1.7, "clip": True},
        "encoding": {
            "x": x,
            "y": {
                "field": field,
                "type": "quantitative",
                "scale": {"type": "log"},
                "title": title,
                "axis": {"format": "~%", "values": shares},
            },
            "opacity": faint(),
            "tooltip": tooltip(("system", "of"), ("told", "latency"), ("percent", "share")),
        },
    }


def heat_map(data: ResultData, state: str, of: str) -> Spec | None:
    """Where accesses went over time, a map a system; nothing where that was not counted."""
    systems = sum(one.get("heat_map") is not None for one in data["systems"].values())
    if not systems:
        return None
    side = next((side for side in (64, 48) if systems * side * 64 <= _MOST_CELLS), 32)
    maps = distributions.heat_maps(data, side, 64)
    most = max(max(row) for one in maps.values() for row in one.counts)
    marks = [k * scale for scale in decades([1, most]) for k in (1, 2, 5) if k * scale <= most]
    rows: list[dict[str, Any]] = []
    views: list[Spec] = []
    for name, one in maps.items():
        for row, counts in enumerate(one.counts):
            for column, count in enumerate(counts):
                if count:
                    rows.append({"s": name, "r": row, "c": column, "n": count})
        views.append(_map_view(name, one, marks, last=len(views) == len(maps) - 1))
    title = "Accesses over address and time"
    body: Spec = {"vconcat": views, "spacing": 14}
    told = f"{of}; a line marks addresses that are left out, where there were none; {state}"
    return chart(title, told, rows, body)


def _map_view(name: str, one: distributions.Map, marks: Sequence[float], *, last: bool) -> Spec:
    addresses = [distributions.address(value) for value in one.addresses]
    step = max(1, -(-len(addresses) // _LABELS))
    columns = max(len(row) for row in one.counts)
    texts = json.dumps(addresses)
    size = fmt.size(one.row_bytes)
    position: Spec = {
        "x": {
            "field": "from",
            "type": "quantitative",
            "title": "simulated time" if last else None,
            "scale": {"domain": [0, columns * one.column_s], "nice": False},
            "axis": {"labelExpr": labels_of_times(), "grid": False, "tickCount": 6},
        },
        "x2": {"field": "to"},
        "y": {
            "field": "r",
            "type": "quantitative",
            "title": f"address, {size} a row",
            "scale": {"domain": [0, len(addresses)], "nice": False},
            "axis": {
                "values": list(range(0, len(addresses), step)),
                "labelExpr": f"{texts}[datum.value]",
                "grid": False,
            },
        },
        "y2": {"field": "above"},
    }
    cells: Spec = {
        "transform": [
            {"filter": f"datum.s === {json.dumps(name)}"},
            {"calculate": f"datum.c * {one.column_s!r}", "as": "from"},
            {"calculate": f"(datum.c + 1) * {one.column_s!r}", "as": "to"},
            {"calculate": "datum.r + 1", "as": "above"},
            {"calculate": f"{texts}[datum.r]", "as": "address"},
            {"calculate": "format(datum.from * 1e6, ',.4~r') + ' µs'", "as": "when"},
        ],
        "mark": {"type": "rect", "strokeWidth": 0},
        "encoding": {
            **position,
            "color": {
                "field": "n",
                "type": "quantitative",
                "scale": {"scheme": "cividis", "type": "log", "reverse": True},
                "title": "accesses",
                "legend": {"format": "~s", "values": marks},
            },
            "tooltip": tooltip(
                ("s", "system"), ("address", "from"), ("when", "since"), ("n", "accesses")
            ),
        },
    }
    gaps: Spec = {
        "data": {"values": [{"gap": row} for row in one.gaps]},
        "mark": {"type": "rule", "color": "#d55e00", "strokeWidth": 0.8, "strokeDash": [4, 3]},
        "encoding": {"y": {"field": "gap", "type": "quantitative"}},
    }
    return {
        "width": WIDTH - 60,
        "height": 190,
        "title": {"text": name, "fontSize": 12, "fontWeight": "normal"},
        "layer": [cells, gaps] if one.gaps else [cells],
    }


def shown(queue: str) -> str:
    """A queue's name, as readers see it."""
    return queue.replace(".", ": ").replace("_", " ")


def queues(data: ResultData, state: str) -> Spec | None:
    """How much each queue held over time; nothing where none held anything, or none was seen."""
    names = distributions.queue_names(data)
    systems = list(data["systems"])
    rows: list[dict[str, Any]] = []
    for name in names:
        for system, one in data["systems"].items():
            for end_s, mean, most in distributions.queue_series(one, name):
                rows.append(
                    {
                        "q": name,
                        "system": system,
                        "time_s": end_s,
                        "mean": mean,
                        "most": most,
                        "when": fmt.seconds(end_s),
                    }
                )
    if not rows:
        return None
    views = []
    for number, name in enumerate(names):
        last = number == len(names) - 1
        # Room above the highest point, which what lies beyond a panel is cut from.
        top = 1.1 * max(row["most"] for row in rows if row["q"] == name)
        held: Spec = {"scale": {"domain": [0, top or 1]}}
        params: list[Spec] = [
            {
                "name": f"queue{number}",
                "select": {"type": "interval", "encodings": ["x"]},
                "bind": "scales",
            }
        ]
        if not number:
            params.append(chosen("system", "queue_of"))
        shared: Spec = {
            "x": {
                "field": "time_s",
                "type": "quantitative",
                "title": "simulated time" if last else None,
                "axis": {"labelExpr": labels_of_times(), "labels": last, "ticks": last},
            },
            "color": {
                "field": "system",
                "type": "nominal",
                "scale": by_system(systems),
                "title": None,
            },
            "strokeDash": {
                "field": "system",
                "type": "nominal",
                "scale": dashes(systems),
                "title": None,
            },
        }
        tips = tooltip(("system", "system"), ("when", "until"), ("mean", "mean"), ("most", "most"))
        line: Spec = {
            "params": params,
            "mark": {"type": "line", "interpolate": "step-before", "strokeWidth": 1.5},
            "encoding": {
                "y": {"field": "mean", "type": "quantitative", "title": None}
                | held
                | {"axis": {"tickCount": 3, "format": "~s"}},
                "opacity": faint("queue_of"),
                "tooltip": tips,
            },
        }
        marks: Spec = {
            "mark": {"type": "point", "size": 6, "filled": True},
            "encoding": {
                "y": {"field": "most", "type": "quantitative"} | held,
                "opacity": {"condition": {"param": "queue_of", "value": 0.55}, "value": 0.05},
                "tooltip": tips,
            },
        }
        views.append(
            {
                "width": WIDTH,
                "height": 62,
                "title": {"text": shown(name), "fontSize": 12, "fontWeight": "normal"},
                "transform": [{"filter": f"datum.q === {json.dumps(name)}"}],
                "encoding": shared,
                "layer": [line, marks],
            }
        )
    body: Spec = {"vconcat": views, "spacing": 6, "resolve": {"scale": {"x": "shared"}}}
    told = f"lines: mean of samples, points: the most of any; scroll to zoom, drag to move; {state}"
    return chart("What queues held", told, rows, body)


def wear(data: ResultData, state: str) -> Spec | None:
    """How often blocks were erased, or lines written; nothing where nothing has worn."""
    found = distributions.wears(data)
    if not found:
        return None
    rows: list[dict[str, Any]] = []
    views = []
    for name, one in found.items():
        for each in one.classes:
            least, most = each["from"], each["to"]
            rows.append(
                {
                    "system": name,
                    "from": least,
                    "to": most + 1,
                    "count": each["count"],
                    "often": str(least) if least == most else f"{least} to {most}",
                }
            )
        several = one.what == "lines"
        x: Spec = {
            "field": "from",
            "type": "quantitative",
            "title": f"{one.by} of a {one.what.removesuffix('s')} (endurance {one.endurance:,})",
            "axis": {"format": "~s" if several else "d", "tickCount": 8, "grid": False},
            "scale": {"type": "log", "base": 2, "nice": False}
            if several
            else {"zero": False, "nice": False},
        }
        views.append(
            {
                "width": WIDTH,
                "height": 150,
                "title": {"text": name, "fontSize": 12, "fontWeight": "normal"},
                "transform": [{"filter": f"datum.system === {json.dumps(name)}"}],
                "mark": {"type": "rect", "color": "#0072b2", "stroke": "white", "strokeWidth": 0.5},
                "encoding": {
                    "x": x,
                    "x2": {"field": "to"},
                    "y": {
                        "field": "count",
                        "type": "quantitative",
                        "title": one.what,
                        "axis": {"format": "~s", "tickCount": 5},
                    },
                    "y2": {"datum": 0},
                    "tooltip": tooltip(
                        ("system", "system"), ("often", one.by), ("count", one.what)
                    ),
                },
            }
        )
    return chart("Wear", state, rows, {"vconcat": views, "spacing": 16})
