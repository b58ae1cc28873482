"""The figures of repetitions: each run, and how sure their mean is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tierscope.pages.chart import (
    WIDTH,
    Spec,
    by_system,
    chart,
    labels_of_times,
    shapes,
    tooltip,
)

if TYPE_CHECKING:
    from tierscope._repeat import Repetitions


def state_of(kept: Repetitions) -> str:
    """How complete repetitions are, in short."""
    data = kept.data
    reason = f": {data['partial_reason']}" if data["partial_reason"] else ""
    return f"{data['completeness']}{reason}; {data['counted']} runs"


def rows(kept: Repetitions) -> list[dict[str, Any]]:
    """Each run's value of each figure, and each mean with its interval."""
    seeds = kept.data["seeds"]
    found: list[dict[str, Any]] = []
    for _, key, shown in kept.figures():
        for name, figures in kept.data["systems"].items():
            figure = figures[key]
            if figure["mean"] is None:
                continue
            of = {"figure": key, "system": name}
            for number, value in enumerate(figure["values"]):
                run = f"run {number + 1}" if seeds is None else f"seed {seeds[number]}"
                if value is not None:
                    found.append({**of, "run": run, "value": value, "told": shown(value)})
            half, told = figure["half_width"], shown(figure["mean"])
            mean: dict[str, Any] = {**of, "run": "mean", "mean": figure["mean"], "told": told}
            if half is not None:
                # No figure is below nothing, however wide its interval.
                mean["least"] = max(0.0, figure["mean"] - half)
                mean["most"] = figure["mean"] + half
                mean["told"] = f"{told} ± {shown(half)}"
            found.append(mean)
    return found


def means(kept: Repetitions) -> Spec | None:
    """Every figure of every system: its runs, their mean and the interval of the mean."""
    data = rows(kept)
    names = list(kept.data["systems"])
    known = {row["figure"] for row in data}
    views = [_view(key, label, names) for label, key, _ in kept.figures() if key in known]
    if not views:
        return None
    pairs = [{"hconcat": views[i : i + 2]} for i in range(0, len(views), 2)]
    told = "bars are 95 % confidence intervals of means (Student t), rings are runs"
    title = "Means, and how far the runs lie apart"
    return chart(title, f"{told}; {state_of(kept)}", data, {"vconcat": pairs, "spacing": 24})


def _view(key: str, title: str, names: list[str]) -> Spec:
    """One figure, a line a system."""
    colour: Spec = {
        "field": "system",
        "type": "nominal",
        "scale": by_system(names),
        "legend": None,
    }
    bound: Spec = {"field": "least", "type": "quantitative"}
    told = tooltip(("system", "system"), ("run", "of"), ("told", title))
    return {
        "width": WIDTH / 2 - 40,
        "height": {"step": 34},
        "transform": [{"filter": f"datum.figure == '{key}'"}],
        "encoding": {
            "y": {"field": "system", "type": "nominal", "sort": names, "title": None},
            "color": colour,
            "tooltip": told,
        },
        "layer": [
            {
                "transform": [{"filter": "isValid(datum.least)"}],
                "mark": {"type": "rule", "strokeWidth": 3},
                "encoding": {
                    "x": {**bound, "title": title, "axis": _axis(key), "scale": {"zero": False}},
                    "x2": {"field": "most"},
                },
            },
            {
                "transform": [{"filter": "isValid(datum.value)"}],
                "mark": {"type": "point", "size": 40, "strokeWidth": 1},
                "encoding": {"x": {"field": "value", "type": "quantitative", "title": title}},
            },
            {
                "transform": [{"filter": "isValid(datum.mean)"}],
                "mark": {"type": "point", "filled": True, "size": 110},
                "encoding": {
                    "x": {"field": "mean", "type": "quantitative", "title": title},
                    "shape": {
                        "field": "system",
                        "type": "nominal",
                        "scale": shapes(names),
                        "legend": None,
                    },
                },
            },
        ],
    }


def _axis(key: str) -> Spec:
    if key.endswith("_ns"):
        return {"labelExpr": labels_of_times(1e-9), "tickCount": 5}
    if key == "time_s":
        return {"labelExpr": labels_of_times(), "tickCount": 5}
    formats = {"miss_rate": "~%", "peak_share": "~%", "ipc": ".2~g", "under_way_mean": ".3~g"}
    return {"format": formats.get(key, "~s"), "tickCount": 5}


def all_of(kept: Repetitions) -> list[Spec]:
    """Every figure of repetitions."""
    found = means(kept)
    return [] if found is None else [found]
