"""The figures of a sweep: over each parameter, and over two at once."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tierscope import _core
from tierscope import format as fmt
from tierscope._shape import Distribution
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
    labels_of_times,
    shapes,
    spread_by_ratio,
    tooltip,
)
from tierscope.sweeps.show import Cell, figures_of
from tierscope.sweeps.table import SUFFIXES

if TYPE_CHECKING:
    from tierscope.sweeps.sweep import Sweep

AXES = {
    "time_s": "execution time",
    "windows_thread_time_s": "thread time of the program",
    "windows_mean_latency_ns": "mean latency in the program",
    "ipc": "instructions per cycle",
    "miss_rate": "misses",
    "latency_mean_ns": "mean latency",
    "latency_p99_ns": "99th percentile of latency",
    "device_bytes_per_s": "bandwidth (B/s)",
    "lookups": "look-ups",
    "hits": "hits",
    "misses": "misses (number)",
    "write_back_pages": "pages written back",
}
"""Titles of axes, of figures that have a better one than their column."""
MAIN = ("windows_thread_time_s", "time_s", "miss_rate")
"""Figures that maps, and plots unless others are asked for, are of."""
_FORMATS: dict[str, Spec] = {
    "time_s": {"labelExpr": labels_of_times()},
    "windows_thread_time_s": {"labelExpr": labels_of_times()},
    "windows_mean_latency_ns": {"labelExpr": labels_of_times(1e-9)},
    "latency_mean_ns": {"labelExpr": labels_of_times(1e-9)},
    "latency_p99_ns": {"labelExpr": labels_of_times(1e-9)},
    "miss_rate": {"format": "~%"},
    "ipc": {"format": ".2~g"},
}
"""How figures are labelled that are no plain numbers."""
UNITS = {
    "bytes": ("B", 1.0),
    "ps": ("s", 1e-12),
    "hz": ("Hz", 1.0),
    "transfers_per_s": ("T/s", 1.0),
    "bytes_per_s": ("B/s", 1.0),
    "uv": ("V", 1e-6),
    "na": ("A", 1e-9),
    "fj": ("J", 1e-15),
    "nw": ("W", 1e-9),
}
"""Unit of an axis, and how many of it a number of the table's column is."""


def state_of(sweep: Sweep) -> str:
    """How complete a sweep is, in short."""
    counts = {state: number for state, number in sweep.counts().items() if number}
    if list(counts) == ["complete"]:
        without = ", counts without times" if sweep.counts_only else ""
        return f"complete: {len(sweep)} points{without}"
    told = ", ".join(f"{number} {state}" for state, number in counts.items())
    windows = "; recordings of windows" if sweep.of_windows else ""
    return f"{sweep.completeness}: of {len(sweep)} points {told}{windows}"


class Axis:
    """A parameter as an axis.

    Attributes:
        name: the parameter.
        title: its name with its unit.
        numeric: whether its values are numbers or quantities, which have distances.
        log: whether they are spread by ratio.
    """

    def __init__(self, name: str, values: Sequence[object]) -> None:
        self.name = name
        self.title = name
        self._scale = 1.0
        found = {_number(value) for value in values}
        self.numeric = None not in found and len(found) > 1
        kind = next(filter(None, map(_kind, values)), None)
        if kind is not None:
            unit, self._scale = UNITS[SUFFIXES[kind]]
            self.title = name if kind == "size" else f"{name} ({unit})"
        numbers = sorted(number for number in found if number is not None)
        self.log = self.numeric and numbers[0] > 0 and numbers[-1] / numbers[0] >= 16
        self.binary = kind == "size"

    def at(self, value: object) -> object:
        """Where a value lies: a number in the title's unit, or the value as it was written."""
        number = _number(value) if self.numeric else None
        return str(value) if number is None else number * self._scale

    def encoding(self, values: Sequence[object]) -> Spec:
        """How Vega-Lite draws it."""
        if not self.numeric:
            order = list(dict.fromkeys(str(value) for value in values))
            return {
                "type": "ordinal",
                "sort": order,
                "title": self.title,
                "axis": {"labelAngle": 0},
            }
        marks = sorted({float(str(self.at(value))) for value in values})
        axis: Spec = {"format": "~s"}
        if len(marks) <= 10:
            axis["values"] = marks
        if self.binary:
            axis["labelExpr"] = _BINARY
        scale: Spec = {"type": "log", "base": 2} if self.log else {"zero": False, "nice": False}
        return {"type": "quantitative", "title": self.title, "scale": scale, "axis": axis}


def _kind(value: object) -> str | None:
    """The kind of quantity that a value is, if it is one."""
    quantity = _core.quantity(value) if isinstance(value, str) else None
    return None if quantity is None else quantity[0]


def _number(value: object) -> float | None:
    """A value as a number, a quantity in its smallest unit; nothing where it is neither."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    quantity = _core.quantity(value) if isinstance(value, str) else None
    return None if quantity is None else float(quantity[1])


_BINARY = (
    "datum.value >= 1099511627776 ? format(datum.value / 1099511627776, '.4~') + ' TiB' : "
    "datum.value >= 1073741824 ? format(datum.value / 1073741824, '.4~') + ' GiB' : "
    "datum.value >= 1048576 ? format(datum.value / 1048576, '.4~') + ' MiB' : "
    "datum.value >= 1024 ? format(datum.value / 1024, '.4~') + ' KiB' : "
    "datum.value + ' B'"
)
"""Sizes are labelled in powers of 1024."""


def means(sweep: Sweep) -> list[dict[str, Any]]:
    """For each point, seeds together: values of parameters, and means of figures."""
    frame = sweep.table()
    figures = figures_of(frame)
    groups: dict[tuple[object, ...], list[Mapping[str, Any]]] = {}
    for index, row in enumerate(frame.drop("machine").iter_rows(named=True)):
        choice = sweep.data["points"][index]["choice"]
        key = (row["system"], row["workload"], *(choice[name] for name in sweep.parameters))
        groups.setdefault(key, []).append(row)
    found = []
    names = ("system", "workload", *sweep.parameters)
    for said, members in groups.items():
        one: dict[str, Any] = dict(zip(names, said, strict=True))
        for figure, _, shown in figures:
            one |= _mean(figure, [member.get(figure) for member in members], shown)
        found.append(one)
    return found


def _mean(key: str, values: Sequence[float | None], shown: Cell) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    if not known:
        return {key: None, f"{key}_told": fmt.ABSENT}
    mean = statistics.fmean(known)
    told = shown(mean)
    if len(known) > 1:
        told += f" ({shown(min(known))} to {shown(max(known))})"
    return {key: mean, f"{key}_least": min(known), f"{key}_most": max(known), f"{key}_told": told}


def figures_shown(sweep: Sweep) -> list[str]:
    """The figures that a sweep's charts and plots are of."""
    return [key for key, _, _ in figures_of(sweep.table())]


def title_of(sweep: Sweep, key: str) -> str:
    """What an axis of a figure is called; of recordings of windows, whether it is of them alone."""
    told = AXES.get(key, key)
    windows = "windows_thread_time_s" in figures_shown(sweep) and not key.startswith("windows_")
    return f"{told}, of windows" if windows else told


def lines(sweep: Sweep, name: str) -> Spec:
    """Every figure over one parameter: a line for each system, workload and other values."""
    points = means(sweep)
    axis = Axis(name, [point[name] for point in points])
    others = [other for other in (*sweep.parameters, "workload") if other != name]
    varied = [other for other in others if len({str(point[other]) for point in points}) > 1]
    rows = []
    for point in points:
        row = {k: v for k, v in point.items() if k not in sweep.parameters}
        row |= {"x": axis.at(point[name]), "value": str(point[name])}
        row["others"] = ", ".join(f"{other} {point[other]}" for other in varied) or "–"
        row["system"] = _panel(sweep, point)
        rows.append(row)
    names = list(dict.fromkeys(row["system"] for row in rows))
    figures = [key for key in figures_shown(sweep) if any(row[key] for row in rows)]
    views = [
        _line_view(
            key,
            title_of(sweep, key),
            axis,
            [point[name] for point in points],
            [row[key] for row in rows if row[key] is not None],
            names,
            several=bool(varied),
            first=not number,
        )
        for number, key in enumerate(figures)
    ]
    state = f"mean over seeds; {state_of(sweep)}" if _seeds(sweep) else state_of(sweep)
    pairs = [{"hconcat": views[i : i + 2]} for i in range(0, len(views), 2)]
    body: Spec = {"vconcat": pairs, "params": [], "spacing": 24}
    return chart(f"Over {name}", state, rows, body)


def _seeds(sweep: Sweep) -> bool:
    return any(row["repetition"] > 1 for row in sweep.data["points"])


def _line_view(
    key: str,
    title: str,
    axis: Axis,
    values: Sequence[object],
    known: Sequence[float],
    names: Sequence[str],
    *,
    several: bool,
    first: bool,
) -> Spec:
    """One figure over a parameter."""
    y: Spec = {"field": key, "type": "quantitative", "title": title}
    y["axis"] = _FORMATS.get(key, {"format": "~s"})
    if spread_by_ratio(known):
        y["scale"] = {"type": "log"}
    colour: Spec = {"field": "system", "type": "nominal", "scale": by_system(names), "title": None}
    encoding: Spec = {
        "x": {"field": "x", **axis.encoding(values)},
        "y": y,
        "color": colour,
        "strokeDash": {"field": "system", "type": "nominal", "scale": dashes(names), "title": None},
        "opacity": faint(),
        "tooltip": tooltip(
            ("system", "system"),
            ("value", axis.name),
            (f"{key}_told", title),
            *((("others", "with"),) if several else ()),
        ),
    }
    if several:
        encoding["detail"] = {"field": "others", "type": "nominal"}
    points: Spec = {
        "mark": {"type": "point", "filled": True, "size": 60},
        "encoding": {
            "shape": {"field": "system", "type": "nominal", "scale": shapes(names), "title": None}
        },
    }
    if first:
        points["params"] = [chosen("system")]
    return {
        "width": WIDTH / 2 - 40,
        "height": 210,
        "encoding": encoding,
        "layer": [{"mark": {"type": "line", "strokeWidth": 1.8}}, points],
    }


def heat_map(sweep: Sweep, across: str, down: str, figure: str) -> Spec:
    """One figure over two parameters, a map for each system and workload."""
    points = means(sweep)
    measured = title_of(sweep, figure)
    rows: list[dict[str, Any]] = []
    groups: dict[tuple[str, ...], list[float]] = {}
    for point in points:
        if point[figure] is not None:
            where = (_panel(sweep, point), str(point[across]), str(point[down]))
            groups.setdefault(where, []).append(point[figure])
    shown = next(cell for key, _, cell in figures_of(sweep.table()) if key == figure)
    for (panel, x, y), values in groups.items():
        mean = statistics.fmean(values)
        rows.append({"panel": panel, "x": x, "y": y, "mean": mean, "told": shown(mean)})
    scale = "log" if spread_by_ratio([row["mean"] for row in rows]) else "linear"
    _tell_light(rows, logarithmic=scale == "log")
    body: Spec = {
        "facet": {
            "field": "panel",
            "type": "nominal",
            "title": None,
            "header": {"labelFontSize": 12},
        },
        "columns": 2,
        "spec": {
            "width": WIDTH / 2 - 60,
            "height": {"step": 34},
            "encoding": {
                "x": _ordinal("x", across, rows),
                "y": {**_ordinal("y", down, rows), "sort": _ordinal("y", down, rows)["sort"][::-1]},
                "tooltip": tooltip(("panel", "of"), ("x", across), ("y", down), ("told", measured)),
            },
            "layer": [
                {
                    "mark": "rect",
                    "encoding": {
                        "color": {
                            "field": "mean",
                            "type": "quantitative",
                            "scale": {"scheme": "cividis", "type": scale},
                            "title": measured,
                            "legend": _FORMATS.get(figure, {"format": "~s"}),
                        }
                    },
                },
                {
                    "mark": {"type": "text", "fontSize": 11},
                    "encoding": {
                        "text": {"field": "told"},
                        "color": {
                            "condition": {"test": "datum.light", "value": "black"},
                            "value": "white",
                        },
                    },
                },
            ],
        },
    }
    title = f"{measured} over {across} and {down}"
    return chart(title[:1].upper() + title[1:], state_of(sweep), rows, body)


def _tell_light(rows: Sequence[dict[str, Any]], *, logarithmic: bool) -> None:
    """Says of each cell whether its colour is so light that a number on it is black."""
    values = [math.log(row["mean"]) if logarithmic else row["mean"] for row in rows]
    least, most = min(values, default=0.0), max(values, default=0.0)
    for row, value in zip(rows, values, strict=True):
        row["light"] = most > least and (value - least) / (most - least) > 0.55


def _panel(sweep: Sweep, point: Mapping[str, Any]) -> str:
    several = len({row["workload"] for row in sweep.data["points"]}) > 1
    return f"{point['system']}, {point['workload']}" if several else str(point["system"])


def _ordinal(field: str, title: str, rows: Rows) -> Spec:
    order = sorted({str(row[field]) for row in rows}, key=_place)
    return {
        "field": field,
        "type": "ordinal",
        "sort": order,
        "title": title,
        "axis": {"labelAngle": 0},
    }


def _place(text: str) -> tuple[float, str]:
    """Where a value stands in order: numbers and quantities by size, texts by themselves."""
    quantity = _core.quantity(text)
    if quantity is not None:
        return float(quantity[1]), text
    try:
        return float(text), text
    except ValueError:
        return float("inf"), text


_MOST_VALUES = 8
"""Values of a parameter whose distributions are drawn."""


def distributions(sweep: Sweep, name: str) -> list[Spec]:
    """How latencies are distributed over a parameter.

    A figure for each system and workload, all else the first.
    """
    rows = sweep.data["points"]
    found = []
    for system, workload in dict.fromkeys((row["system"], row["workload"]) for row in rows):
        own = [
            index
            for index, row in enumerate(rows)
            if (row["system"], row["workload"]) == (system, workload)
        ]
        first = rows[own[0]]
        others = {key: value for key, value in first["choice"].items() if key != name}
        alike = {
            str(rows[index]["choice"][name]): index
            for index in reversed(own)
            if rows[index]["repetition"] == first["repetition"]
            and all(rows[index]["choice"][key] == value for key, value in others.items())
        }
        known = {
            value: one
            for value in sorted(alike, key=_place)
            if (one := _distribution(sweep, alike[value])) is not None
        }
        if len(known) < 2:
            continue
        kept = _spread(list(known))
        with_ = ", ".join(f"{key} {value}" for key, value in others.items())
        said = [workload, *([with_] if with_ else [])]
        said += [] if first["seed"] is None else [f"seed {first['seed']}"]
        colours = {"scale": {"domain": kept, "range": _sequence(len(kept))}}
        spec = distribution_charts.latency_lines(
            {value: known[value] for value in kept},
            f"Distribution of latencies over {name}: {_panel(sweep, first)}",
            f"{', '.join(said)}; {state_of(sweep)}",
            colours,
            None,
            legend=name,
        )
        found.append(spec)
    return found


def _distribution(sweep: Sweep, index: int) -> Distribution | None:
    if sweep.counts_only or sweep.state(index) in ("missing", "failed"):
        return None
    (system,) = sweep.result(index).data["systems"].values()
    return system.get("latency_distribution")


def _spread(values: list[str]) -> list[str]:
    """At most so many values as are drawn, the first and the last among them."""
    if len(values) <= _MOST_VALUES:
        return values
    last = len(values) - 1
    return [values[round(k * last / (_MOST_VALUES - 1))] for k in range(_MOST_VALUES)]


def _sequence(number: int) -> list[str]:
    """Colours from dark to light that people tell apart however they see colours (cividis)."""
    known = ("#00224e", "#123570", "#3b496c", "#575d6d", "#7d7c78", "#a59c74", "#d2c060", "#e8d434")
    return [known[round(k * (len(known) - 1) / max(number - 1, 1))] for k in range(number)]


def all_of(sweep: Sweep) -> list[Spec]:
    """Every figure of a sweep: over each parameter that varies, and over the first two."""
    points = means(sweep)
    varied = [name for name in sweep.parameters if len({str(point[name]) for point in points}) > 1]
    keys = figures_shown(sweep)
    known = any(point.get(key) is not None for point in points for key in keys)
    if not known:
        return []
    found = [lines(sweep, name) for name in varied]
    if varied:
        found += distributions(sweep, varied[0])
    if len(varied) > 1:
        figures = [key for key in figures_shown(sweep) if key in MAIN]
        found += [
            heat_map(sweep, varied[0], varied[1], key)
            for key in figures
            if any(point[key] for point in points)
        ]
    return found
