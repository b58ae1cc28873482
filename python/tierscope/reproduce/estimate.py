"""How many runs items have, and how long they take, before they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierscope import _core
from tierscope.reproduce.catalog import FULL, QUICK, Item
from tierscope.reproduce.run import POINTS
from tierscope.sweeps.estimate import counted, left_out, span, trials, wall
from tierscope.sweeps.execute import THREADS, processors
from tierscope.sweeps.points import Point, points
from tierscope.sweeps.store import Store
from tierscope.sweeps.sweep import SweepWatcher, to_run

MEASURED, TRIED, NOTHING = "measured", "trials", "nothing"
"""What a time is known by: whole runs on two processors, short trials here, or not at all."""


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
            f"{one['item']}: {one['runs']} runs of {one['points']}, {_time(one)}"
            for one in data["items"]
        ]
        known = [one["wall_s"] for one in data["items"] if one["wall_s"] is not None]
        total = {end: sum(one[end] for one in known) for end in ("least", "likely", "most")}
        told = f"Wall time of all: {span(total) if known else 'not known beforehand'}"
        if known and any(one["unknown"] for one in data["items"]):
            told += ", and what is not known"
        where = f", in {data['workers']} threads" if data["workers"] else f", on {data['on']}"
        return [*lines, told + where]


def _time(one: dict[str, Any]) -> str:
    """How long an item takes, and what that is known by."""
    if not one["runs"]:
        return "nothing to run"
    if one["wall_s"] is None:
        why = f": {one['unknown']}" if one["unknown"] else ""
        return f"for a time that is not known beforehand{why}"
    by = {MEASURED: "by whole runs on two processors", TRIED: "by short trials"}[one["by"]]
    return f"{span(one['wall_s'])}, {by}{left_out(one['unknown'])}"


def estimate(
    items: Sequence[Item],
    directory: Path,
    *,
    quick: bool,
    on: str,
    workers: int | None,
    watch: SweepWatcher | None = None,
) -> Estimate:
    """What items would run, and how long: by measured times where there are, or by short trials.

    Args:
        items: the items.
        directory: where they are kept: what is there is not run again.
        quick: whether they run at the small scale.
        on: where they run.
        workers: how many run at a time; as many as there are processors unless given.
        watch: hears of the trials.

    Raises:
        SpecError: with every mistake of an experiment.
        KeyboardInterrupt: where a request to end came during a trial.
    """
    store = Store(directory, directory / POINTS)
    threads = (workers or processors()) if on == THREADS else None
    seen: set[str] = set()
    found = [_Left(item, store, quick, seen) for item in items]
    tried = sum(left.trials for left in found if threads is not None)
    tell = counted(watch, tried) if tried else None
    return Estimate(
        {
            "version": _core.version(),
            "scale": QUICK if quick else FULL,
            "directory": str(directory),
            "on": on,
            "workers": threads,
            "items": [left.told(threads, tell) for left in found],
        }
    )


class _Left:
    """What an item would run that has not run and that no other before it runs."""

    def __init__(self, item: Item, store: Store, quick: bool, seen: set[str]) -> None:
        found = [(panel.study, points(panel.study)) for panel in item.panels(quick)]
        self._item = item
        self._points = len({point.key for _, each in found for point in each})
        self._rest = [(study, _unseen(to_run(store, each, False), seen)) for study, each in found]
        self._runs = sum(len(each) for _, each in self._rest)
        self._measured = item.wall_s.get(QUICK if quick else FULL)

    @property
    def trials(self) -> int:
        """How many runs are tried."""
        known = self._measured is not None
        return 0 if known else sum(trials(each) for _, each in self._rest)

    def told(self, threads: int | None, tell: Callable[[], None] | None) -> dict[str, Any]:
        """Its runs and their time, for JSON."""
        bounds, unknown, by = self._wall(threads, tell)
        return {
            "item": self._item.full_name,
            "points": self._points,
            "runs": self._runs,
            "wall_s": bounds,
            "by": by,
            "unknown": unknown,
        }

    def _wall(
        self, threads: int | None, tell: Callable[[], None] | None
    ) -> tuple[dict[str, float] | None, str | None, str]:
        if threads is None:
            return None, "it is a cluster's", NOTHING
        if self._measured is not None:
            spent = self._measured * self._runs / max(1, self._points) * 2 / threads
            return dict.fromkeys(("least", "likely", "most"), spent), None, MEASURED
        found, unknown = wall(self._rest, threads, tell)
        return found, unknown, NOTHING if found is None else TRIED


def _unseen(found: Sequence[Point], seen: set[str]) -> list[Point]:
    fresh = [point for point in found if point.key not in seen]
    seen |= {point.key for point in fresh}
    return fresh
