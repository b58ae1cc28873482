"""The figures of a result, or of several side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tierscope import format as fmt
from tierscope._shape import ResultData, SystemResult, of_windows
from tierscope.breakdown import where
from tierscope.pages import distribution_charts
from tierscope.pages.chart import (
    WIDTH,
    Rows,
    Spec,
    by_system,
    chart,
    chosen,
    dashes,
    faint,
    labels_of_energies,
    labels_of_times,
    shapes,
    tooltip,
)

if TYPE_CHECKING:
    import polars as pl

_LATENCIES = (
    ("p50", "median"),
    ("mean", "mean"),
    ("p99", "99 %"),
    ("p999", "99.9 %"),
    ("max", "max"),
)
_MOST_POINTS = 600
"""Intervals that are drawn of each system; of more, neighbours are added up."""
_MOST_FUNCTIONS = 15


def state_of(data: ResultData) -> str:
    """How complete a result is, in short."""
    told = str(data["completeness"])
    told += "" if data["partial_reason"] is None else f": {data['partial_reason']}"
    return f"{told}; of the recorded windows alone" if of_windows(data["workload"]) else told


def breakdown(data: ResultData) -> Spec:
    """Where the threads' time goes, or the requests' of devices alone."""
    rows, order = [], {}
    for name, system in data["systems"].items():
        parts = where(system)
        total = sum(time for _, time in parts) or 1.0
        for group, time in parts:
            order[group.label] = (group.order, group.colour)
            rows.append(
                {
                    "system": name,
                    "part": group.label,
                    "order": group.order,
                    "time_s": time * 1e-9,
                    "share": time / total,
                    "told": fmt.seconds(time * 1e-9),
                    "percent": fmt.percent(time / total),
                }
            )
    labels = sorted(order, key=lambda label: order[label][0])
    return chart(
        "Where the time goes",
        f"{_whose(data)}; {state_of(data)}",
        rows,
        _stacks(
            rows,
            "part",
            {"domain": labels, "range": [order[label][1] for label in labels]},
            (("time_s", _whose(data)), ("share", "share")),
        ),
    )


def _whose(data: ResultData) -> str:
    alone = all(system["device"] is not None for system in data["systems"].values())
    return "time of requests" if alone else "time of threads"


_AXES: dict[str, Spec] = {
    "time_s": {"labelExpr": labels_of_times()},
    "time_ns": {"labelExpr": labels_of_times(1e-9)},
    "energy_j": {"labelExpr": labels_of_energies()},
}
"""Axes of stacked bars, by field."""


def _stacks(rows: Rows, part: str, scale: Spec, values: Sequence[tuple[str, str]]) -> Spec:
    """Stacked bars, a row a system, of each value side by side."""
    systems = list(dict.fromkeys(row["system"] for row in rows))
    views = []
    for number, (field, title) in enumerate(values):
        share = field == "share"
        x: Spec = {
            "field": field,
            "type": "quantitative",
            "title": title,
            "axis": _AXES.get(field, {"format": "%"}),
        }
        if share:
            x["scale"] = {"domain": [0, 1]}
        y: Spec = {"field": "system", "type": "nominal", "sort": systems, "title": None}
        if number:
            y["axis"] = None
        view: Spec = {
            "width": WIDTH / len(values),
            "height": {"step": 38},
            "mark": {"type": "bar", "stroke": "white", "strokeWidth": 0.5},
            "encoding": {
                "x": x,
                "y": y,
                "color": {"field": part, "type": "nominal", "scale": scale, "title": None},
                "order": {"field": "order", "type": "quantitative"},
                "opacity": faint(),
                "tooltip": tooltip(
                    ("system", "system"), (part, "part"), ("told", "value"), ("percent", "share")
                ),
            },
        }
        if not number:
            view["params"] = [chosen(part)]
        views.append(view)
    return {"hconcat": views, "spacing": 24} if len(views) > 1 else views[0]


def stages(data: ResultData) -> Spec:
    """The mean latency of a request, by the stages that it passes."""
    rows = []
    for name, system in data["systems"].items():
        total = sum(system["stages_ns"].values()) or 1.0
        for number, (stage, time) in enumerate(system["stages_ns"].items()):
            if not time:
                continue
            rows.append(
                {
                    "system": name,
                    "part": stage.replace("_", " "),
                    "order": number,
                    "time_ns": time,
                    "told": fmt.nanoseconds(time),
                    "percent": fmt.percent(time / total),
                }
            )
    scale = {"scheme": "tableau20"}
    body = _stacks(rows, "part", scale, (("time_ns", "mean latency, by stage"),))
    return chart("What a request waits for", f"mean of all; {state_of(data)}", rows, body)


def latencies(data: ResultData) -> Spec:
    """Median, mean and percentiles of the latency."""
    names = list(data["systems"])
    rows = [
        {
            "system": name,
            "figure": label,
            "latency_ns": found[key],  # type: ignore[literal-required]
            "told": fmt.nanoseconds(found[key]),  # type: ignore[literal-required]
        }
        for name, system in data["systems"].items()
        if (found := system["latency_ns"]) is not None
        for key, label in _LATENCIES
    ]
    labels = [label for _, label in _LATENCIES]
    encoding: Spec = {
        "x": {
            "field": "figure",
            "type": "ordinal",
            "sort": labels,
            "title": None,
            "axis": {"labelAngle": 0},
        },
        "y": {
            "field": "latency_ns",
            "type": "quantitative",
            "scale": {"type": "log"},
            "title": "latency",
            "axis": {"labelExpr": labels_of_times(1e-9), "values": _decades(rows)},
        },
        "color": {"field": "system", "type": "nominal", "scale": by_system(names), "title": None},
        "shape": {"field": "system", "type": "nominal", "scale": shapes(names), "title": None},
        "xOffset": {"field": "system", "type": "nominal", "sort": names},
        "opacity": faint(),
        "tooltip": tooltip(("system", "system"), ("figure", "figure"), ("told", "latency")),
    }
    body: Spec = {
        "width": WIDTH,
        "height": 260,
        "params": [chosen("system")],
        "mark": {"type": "point", "filled": True, "size": 90},
        "encoding": encoding,
    }
    return chart("Latency", f"of {accesses(data)}; {state_of(data)}", rows, body)


def _decades(rows: Rows) -> list[float]:
    """The powers of ten that latencies lie between."""
    values = [row["latency_ns"] for row in rows if row["latency_ns"] > 0]
    if not values:
        return []
    least, most = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [10.0**power for power in range(least, most + 1)]


def accesses(data: ResultData) -> str:
    """Whose latencies are distributed."""
    alone = all(system["device"] is not None for system in data["systems"].values())
    return "all requests" if alone else "all loads and stores, on-chip hits included"


def placed(data: ResultData) -> str:
    """What maps of addresses count."""
    alone = all(system["device"] is not None for system in data["systems"].values())
    return "requests" if alone else "accesses that a core's own caches did not serve at once"


SERIES = (
    ("accesses_per_s", "accesses/s", "accesses"),
    ("latency_ns", "mean latency", "latency"),
    ("under_way", "accesses under way", "accesses under way"),
    ("miss_rate", "misses/access", "misses"),
    ("read_bytes_per_s", "store reads (B/s)", "store reads"),
    ("written_bytes_per_s", "store writes (B/s)", "store writes"),
)
"""What is drawn over time: field, axis and name."""


_SERIES_AXES: dict[str, Spec] = {"latency_ns": {"labelExpr": labels_of_times(1e-9)}}


def series_rows(intervals: pl.DataFrame) -> list[dict[str, Any]]:
    """Rates of each interval of simulated time.

    Requests under way are the sum of their latencies over the interval's length, by Little's law.
    """
    rows: list[dict[str, Any]] = []
    for name in dict.fromkeys(intervals["system"].to_list()):
        own = intervals.filter(intervals["system"] == name).drop("system").rows()
        begun_ps = 0
        for sums in _joined(own):
            end_ps, _, accesses, latency_ps, misses, read, written = sums
            length_s = (end_ps - begun_ps) * 1e-12
            begun_ps = end_ps
            if length_s <= 0:
                continue
            rows.append(
                {
                    "system": name,
                    "time_s": end_ps * 1e-12,
                    "accesses_per_s": accesses / length_s,
                    "latency_ns": latency_ps / accesses * 1e-3 if accesses else None,
                    "under_way": latency_ps * 1e-12 / length_s,
                    "miss_rate": misses / accesses if accesses else None,
                    "read_bytes_per_s": read / length_s,
                    "written_bytes_per_s": written / length_s,
                }
            )
    return rows


def _joined(rows: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    """At most so many intervals as are drawn: neighbours added up, the last one's end."""
    width = -(-len(rows) // _MOST_POINTS) or 1
    for start in range(0, len(rows), width):
        some = rows[start : start + width]
        sums = [sum(column) for column in zip(*some, strict=True)]
        yield (some[-1][0], *sums[1:])


def over_time(data: ResultData, intervals: pl.DataFrame) -> Spec | None:
    """Rates over simulated time; nothing where there are no intervals."""
    rows = series_rows(intervals)
    used = [one for one in SERIES if any(row[one[0]] for row in rows)]
    if not rows or not used:
        return None
    names = list(dict.fromkeys(row["system"] for row in rows))
    for row in rows:
        row["when"] = fmt.seconds(row["time_s"])
        for field, _, _ in used:
            told = fmt.nanoseconds if field == "latency_ns" else fmt.count
            row[f"{field}_told"] = told(row[field])
    views: list[Spec] = []
    for number, (field, axis, name) in enumerate(used):
        params: list[Spec] = [
            {
                "name": f"zoom{number}",
                "select": {"type": "interval", "encodings": ["x"]},
                "bind": "scales",
            }
        ]
        if not number:
            params.append(chosen("system"))
        last = number == len(used) - 1
        x: Spec = {
            "field": "time_s",
            "type": "quantitative",
            "title": "simulated time" if last else None,
        }
        x["axis"] = {"labelExpr": labels_of_times(), "labels": last, "ticks": last}
        views.append(
            {
                "width": WIDTH,
                "height": 100,
                "params": params,
                "mark": {"type": "line", "interpolate": "step-before", "strokeWidth": 1.5},
                "encoding": {
                    "x": x,
                    "y": {
                        "field": field,
                        "type": "quantitative",
                        "title": axis,
                        "axis": {"tickCount": 4, **_SERIES_AXES.get(field, {"format": "~s"})},
                    },
                    "color": {
                        "field": "system",
                        "type": "nominal",
                        "scale": by_system(names),
                        "title": None,
                    },
                    "strokeDash": {
                        "field": "system",
                        "type": "nominal",
                        "scale": dashes(names),
                        "title": None,
                    },
                    "opacity": faint(),
                    "tooltip": tooltip(
                        ("system", "system"), ("when", "until"), (f"{field}_told", name)
                    ),
                },
            }
        )
    state = f"scroll to zoom, drag to move; {state_of(data)}"
    body: Spec = {"vconcat": views, "spacing": 10, "resolve": {"scale": {"x": "shared"}}}
    return chart("Over simulated time", state, rows, body)


def energy(data: ResultData) -> Spec | None:
    """Where energy went; nothing where it is not known."""
    rows = []
    for name, system in data["systems"].items():
        total = system["energy"]["total_j"]
        if total is None:
            continue
        for number, (part, joules) in enumerate(system["energy"]["parts_j"].items()):
            if joules:
                rows.append(
                    {
                        "system": name,
                        "part": part.replace("dram.", "DRAM: ").replace("_", " "),
                        "order": number,
                        "energy_j": joules,
                        "told": fmt.joules(joules),
                        "percent": fmt.percent(joules / total if total else 0.0),
                    }
                )
    if not rows:
        return None
    missing = {k for s in data["systems"].values() for k in s["energy"]["not_counted"]}
    without = (
        f"; without {', '.join(sorted(m.replace('_', ' ') for m in missing))}" if missing else ""
    )
    body = _stacks(rows, "part", {"scheme": "tableau10"}, (("energy_j", "energy"),))
    return chart("Energy", f"{state_of(data)}{without}", rows, body)


def areas(data: ResultData) -> Spec | None:
    """For what memory the threads stood still; nothing where no area is known."""
    rows = _costs({name: system["areas"] for name, system in data["systems"].items()})
    return _stalls("For which memory threads stood still", data, rows) if rows else None


def functions(data: ResultData) -> Spec | None:
    """Functions of the program that cause most stalls; nothing where that was not asked for."""
    costs = {}
    for name, system in data["systems"].items():
        told = [] if system["code"] is None else system["code"]["functions"]
        costs[name] = {one["function"] or one["file"]: one["cost"] for one in told}
    rows = _costs(costs)
    heaviest: dict[str, float] = {}
    for row in rows:
        heaviest[row["part"]] = max(heaviest.get(row["part"], 0.0), row["stall_s"])
    kept = sorted(heaviest, key=lambda part: -heaviest[part])[:_MOST_FUNCTIONS]
    rows = [row for row in rows if row["part"] in kept]
    return _stalls("Which functions made threads stand still", data, rows) if rows else None


def _costs(costs: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "system": name,
            "part": fmt.visible(part),
            "stall_s": cost["stall_ns"] * 1e-9,
            "told": fmt.nanoseconds(cost["stall_ns"]),
            "store": fmt.count(cost["store_accesses"]),
        }
        for name, parts in costs.items()
        for part, cost in parts.items()
        if cost["stall_ns"] > 0
    ]


def _stalls(title: str, data: ResultData, rows: Rows) -> Spec:
    names = list(data["systems"])
    body: Spec = {
        "width": WIDTH,
        "height": {"step": 14},
        "params": [chosen("system")],
        "mark": {"type": "bar"},
        "encoding": {
            "y": {"field": "part", "type": "nominal", "sort": "-x", "title": None},
            "yOffset": {"field": "system", "type": "nominal", "sort": names},
            "x": {
                "field": "stall_s",
                "type": "quantitative",
                "title": "thread time",
                "axis": _AXES["time_s"],
            },
            "color": {
                "field": "system",
                "type": "nominal",
                "scale": by_system(names),
                "title": None,
            },
            "opacity": faint(),
            "tooltip": tooltip(
                ("system", "system"),
                ("part", "of"),
                ("told", "stood still"),
                ("store", "accesses to the store"),
            ),
        },
    }
    return chart(title, state_of(data), rows, body)


Kind = Literal["breakdown", "stages", "latency", "time", "energy", "areas", "functions"]
"""The figures of a result."""


def all_of(data: ResultData, intervals: pl.DataFrame) -> list[Spec]:
    """Every figure that a result has something to say of."""
    found: list[Spec | None] = [
        breakdown(data),
        latencies(data) if _any_latency(data["systems"].values()) else None,
        distribution_charts.latency_distribution(data, state_of(data), accesses(data)),
        stages(data),
        over_time(data, intervals),
        distribution_charts.queues(data, state_of(data)),
        distribution_charts.heat_map(data, state_of(data), placed(data)),
        distribution_charts.wear(data, state_of(data)),
        areas(data),
        functions(data),
        energy(data),
    ]
    return [one for one in found if one is not None]


def _any_latency(systems: Any) -> bool:
    return any(_has_latency(system) for system in systems)


def _has_latency(system: SystemResult) -> bool:
    return system["latency_ns"] is not None
