"""How many runs items have, and how long they take, before they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierscope import _core
from tierscope import format as fmt
from tierscope.reproduce.catalog import FULL, QUICK, Item
from tierscope.reproduce.run import POINTS
from tierscope.sweeps.estimate import wall
from tierscope.sweeps.execute import THREADS, processors
from tierscope.sweeps.points import Point, points
from tierscope.sweeps.store import Store
from tierscope.sweeps.sweep import to_run


@dataclass(frozen=True, slots=True)
class Estimate:
    """What would run.

    Attributes:
        data: all of it as one JSON object.
    """

    data: dict[str, Any]

    def lines(self) -> list[str]:
        """The same in words."""
        data = self.data
        lines = [
            f"{one['item']}: {one['runs']} runs of {one['points']}, {_time(one['wall_s'])}"
            for one in data["items"]
        ]
        known = [one["wall_s"] for one in data["items"] if one["wall_s"] is not None]
        least, most = sum(one["least"] for one in known), sum(one["most"] for one in known)
        total = f"Wall time of all: {_time({'least': least, 'most': most} if known else None)}"
        if len(known) < len(data["items"]):
            total += ", and of those that are not known"
        where = f", in {data['workers']} threads" if data["workers"] else f", on {data['on']}"
        return [*lines, total + where]


def _time(bounds: dict[str, float] | None) -> str:
    if bounds is None:
        return "for a time that is not known beforehand"
    least, most = fmt.seconds(bounds["least"]), fmt.seconds(bounds["most"])
    return f"about {most}" if least == most else f"{least} to {most}"


def estimate(
    items: Sequence[Item], directory: Path, *, quick: bool, on: str, workers: int | None
) -> Estimate:
    """What items would run, and how long: by measured times where there are, or by short trials.

    Raises:
        SpecError: with every mistake of an experiment.
    """
    store = Store(directory, directory / POINTS)
    threads = (workers or processors()) if on == THREADS else None
    seen: set[str] = set()
    told = [_of(item, store, quick, threads, seen) for item in items]
    return Estimate(
        {
            "version": _core.version(),
            "scale": QUICK if quick else FULL,
            "directory": str(directory),
            "on": on,
            "workers": threads,
            "items": told,
        }
    )


def _of(
    item: Item, store: Store, quick: bool, threads: int | None, seen: set[str]
) -> dict[str, Any]:
    """What one item would run that no other before it has."""
    found = [(panel.study, points(panel.study)) for panel in item.panels(quick)]
    own = {point.key for _, each in found for point in each}
    rest = [(study, _unseen(to_run(store, each, False), seen)) for study, each in found]
    runs = sum(len(each) for _, each in rest)
    measured = item.wall_s.get(QUICK if quick else FULL)
    bounds: dict[str, float] | None = None
    if threads is None:
        bounds = None
    elif measured is not None:
        spent = measured * runs / max(1, len(own)) * 2 / threads
        bounds = {"least": spent, "most": spent}
    else:
        tried = [wall(each, study, threads)[0] for study, each in rest if each]
        if None not in tried:
            bounds = {
                end: sum(one[end] for one in tried if one is not None) for end in ("least", "most")
            }
    return {"item": item.full_name, "points": len(own), "runs": runs, "wall_s": bounds}


def _unseen(found: Sequence[Point], seen: set[str]) -> list[Point]:
    fresh = [point for point in found if point.key not in seen]
    seen |= {point.key for point in fresh}
    return fresh
