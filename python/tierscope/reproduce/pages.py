"""An item as an HTML page: figure, numbers, what was published beside them, machines."""

from __future__ import annotations

import math
from typing import Any

from tierscope._shape import ResultData
from tierscope.pages import distribution_charts
from tierscope.pages.chart import Spec, by_system, chart, dashes, shapes, spread_by_ratio, tooltip
from tierscope.pages.charts import accesses, placed
from tierscope.pages.page import Page, Table
from tierscope.pages.sweep_charts import Axis, state_of
from tierscope.reproduce import figures
from tierscope.reproduce.parts import AXES, parts_of
from tierscope.reproduce.run import Done
from tierscope.reproduce.tables import grids
from tierscope.sweeps.sweep import Sweep


def page(done: Done) -> Page:
    """The page of an item."""
    item = done.item
    machines: dict[str, str] = {}
    for sweep in done.sweeps:
        for system, text in sweep.table().select("system", "machine").iter_rows():
            machines.setdefault(system, text or "")
    notes = [f"Our reading: {one}" for one in item.readings]
    notes += [f"Left out: {one}" for one in item.lacks]
    notes += [
        f"{one.claim.where}: {one.claim.says}: {one.claim.because}"
        for one in done.findings
        if one.claim.because
    ]
    notes += [f"Failed: {what}: {why}" for what, why in done.failed]
    return Page(
        title=f"{item.full_name}, {item.where}",
        state=done.state,
        remarks=[item.shows],
        tables=[Table(one.heading, one.rows, one.texts, one.title) for one in grids(done)],
        charts=[*_charts(done), *_distributions(done)],
        notes=notes,
        texts=[(f"System {name}", text) for name, text in machines.items()],
    )


def _charts(done: Done) -> list[Spec]:
    if not done.cells or done.item.view in ("table", "description"):
        return []
    state = f"{'quick' if done.quick else 'full'}, {done.state}"
    if done.item.view in AXES:
        return [_stacks(done, state)]
    form = _lines if done.item.view == "lines" else _bars
    names = (done.item.figure, *done.item.also)
    return [chart(done.item.shows, state, _rows(done, name), form(done, name)) for name in names]


_MOST_PANELS = 4
"""Panels whose runs' distributions are drawn: maps of many accesses make a page large."""


def _distributions(done: Done) -> list[Spec]:
    """Latencies, accesses, queues and wear of one run of each panel, its systems side by side."""
    found: list[Spec] = []
    runs = zip(done.panels, done.sweeps, strict=True)
    first = {panel.title: sweep for panel, sweep in reversed(list(runs))}
    for title in _titles(done)[:_MOST_PANELS]:
        sweep = first[title]
        told = _side_by_side(sweep)
        if told is None:
            continue
        data, said = told
        state = f"{title}: {said}; {'quick' if done.quick else 'full'}, {state_of(sweep)}"
        found += distribution_charts.all_of(data, state, accesses(data), placed(data))
    return found


def _side_by_side(sweep: Sweep) -> tuple[ResultData, str] | None:
    """The first run that most systems have, and what it is."""
    runs: dict[str, list[int]] = {}
    for index, row in enumerate(sweep.data["points"]):
        if sweep.state(index) in ("missing", "failed"):
            continue
        choice = [f"{name} {value}" for name, value in row["choice"].items()]
        seed = [] if row["seed"] is None else [f"seed {row['seed']}"]
        runs.setdefault(", ".join([row["workload"], *choice, *seed]), []).append(index)
    if not runs:
        return None
    said, indices = max(runs.items(), key=lambda run: len(run[1]))
    results = [sweep.result(index).data for index in indices]
    systems = {name: one for data in results for name, one in data["systems"].items()}
    return {**results[0], "systems": systems}, said


def _titles(done: Done) -> list[str]:
    """What stands above the panels; studies of the same label are one."""
    return list(dict.fromkeys(panel.title for panel in done.panels))


def _rows(done: Done, name: str) -> list[dict[str, Any]]:
    axis = Axis(done.item.over, [cell.over for cell in done.cells])
    titles = {(one.label, one.scale): one.title for one in done.panels}
    rows = []
    for cell in done.cells:
        value = cell.mean(name)
        if value is None:
            continue
        least, most = cell.bounds(name) or (value, value)
        rows.append(
            {
                "panel": titles[cell.panel, cell.scale],
                "system": cell.system,
                "over": axis.at(cell.over) if done.item.over else "",
                "said": str(cell.over),
                "value": value,
                "least": least,
                "most": most,
                "told": figures.figure(name).shown(value),
            }
        )
    return rows


def _upwards(done: Done, name: str) -> Spec:
    values = [v for cell in done.cells if (v := cell.mean(name)) is not None]
    scale = {"type": "log"} if spread_by_ratio(values) else {"zero": True}
    title = figures.figure(name).title
    return {
        "field": "value",
        "type": "quantitative",
        "title": title,
        "scale": scale,
        "axis": {"format": ".2~s"},
    }


_TOLD = (("panel", "panel"), ("system", "system"), ("said", "at"), ("told", "value"))


def _lines(done: Done, name: str) -> Spec:
    """A panel a study."""
    systems = list(dict.fromkeys(cell.system for cell in done.cells))
    axis = Axis(done.item.over, [cell.over for cell in done.cells])
    across = {"field": "over", **axis.encoding([cell.over for cell in done.cells])}
    drawn = {
        "x": across,
        "y": _upwards(done, name),
        "color": {"field": "system", "scale": by_system(systems), "title": None},
        "tooltip": tooltip(*_TOLD),
    }
    line = {
        "mark": {"type": "line"},
        "encoding": {
            **drawn,
            "strokeDash": {"field": "system", "scale": dashes(systems), "title": None},
        },
    }
    points = {
        "mark": {"type": "point", "filled": True, "size": 45},
        "encoding": {
            **drawn,
            "shape": {"field": "system", "scale": shapes(systems), "title": None},
        },
    }
    bars = {
        "mark": {"type": "rule"},
        "encoding": {
            "x": across,
            "y": {"field": "least", "type": "quantitative", "title": None},
            "y2": {"field": "most"},
            "color": drawn["color"],
        },
    }
    return {
        "facet": {"field": "panel", "title": None, "sort": _titles(done)},
        "columns": 2,
        "resolve": {"scale": {"y": "independent"}},
        "spec": {"width": 280, "height": 200, "layer": [line, points, bars]},
    }


def _bars(done: Done, name: str) -> Spec:
    systems = list(dict.fromkeys(cell.system for cell in done.cells))
    upwards = _upwards(done, name)
    foot: Spec = {}
    if upwards["scale"].get("type") == "log":
        # A bar has to begin somewhere: there is no zero.
        values = [v for cell in done.cells if (v := cell.mean(name)) is not None and v > 0]
        least = 10.0 ** (math.ceil(math.log10(min(values))) - 1)
        upwards["scale"] = {"type": "log", "domainMin": least}
        foot = {"y2": {"datum": least}}
    return {
        "width": {"step": 13},
        "height": 260,
        "mark": "bar",
        "encoding": {
            "x": {
                "field": "panel",
                "title": None,
                "sort": _titles(done),
                "axis": {"labelAngle": -30},
            },
            "xOffset": {"field": "system", "sort": systems},
            "y": upwards,
            **foot,
            "color": {"field": "system", "scale": by_system(systems), "title": None},
            "tooltip": tooltip(*_TOLD),
        },
    }


def _stacks(done: Done, state: str) -> Spec:
    rows = []
    titles = {(one.label, one.scale): one.title for one in done.panels}
    colours: dict[str, str] = {}
    for cell in done.cells:
        parts = parts_of(cell, done.item.view)
        total = sum(time for _, _, time in parts)
        for place, (label, colour, time) in enumerate(parts):
            colours[label] = colour
            over = "" if cell.over is None else f", {cell.over}"
            rows.append(
                {
                    "bar": f"{titles[cell.panel, cell.scale]}: {cell.system}{over}",
                    "owner": label,
                    "share": time / total,
                    "place": place,
                }
            )
    body: Spec = {
        "height": {"step": 17},
        "width": 480,
        "mark": "bar",
        "encoding": {
            "y": {"field": "bar", "title": None, "sort": None},
            "x": {
                "field": "share",
                "type": "quantitative",
                "title": f"share of {AXES[done.item.view]}",
                "axis": {"format": "~%"},
            },
            "order": {"field": "place"},
            "color": {
                "field": "owner",
                "title": None,
                "scale": {"domain": list(colours), "range": list(colours.values())},
            },
            "tooltip": tooltip(("bar", "bar"), ("owner", "owner"), ("share", "share")),
        },
    }
    return chart(done.item.shows, state, rows, body)
