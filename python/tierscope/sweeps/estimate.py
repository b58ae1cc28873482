"""What a sweep would run, and how long that would take, before it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierscope import _core
from tierscope import format as fmt
from tierscope._plan import plan
from tierscope._workload import Generated
from tierscope.sweeps.execute import THREADS, processors
from tierscope.sweeps.points import Point, points
from tierscope.sweeps.store import Store
from tierscope.sweeps.study import Study
from tierscope.sweeps.sweep import to_run

_MOST_SHOWN = 24
"""Points that are listed; of more, the first ones."""
_TRIALS = 2
"""Points that are tried for each pair of a system and a workload: the first and the last."""


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
        shown = data["points"][:_MOST_SHOWN]
        lines = [f"{data['name']}: {fmt.count(len(data['points']))} points"]
        for point in shown:
            lines.append(f"  {point['point']:>4}  {point['told']}")
        if len(data["points"]) > len(shown):
            rest = len(data["points"]) - len(shown)
            lines.append(f"        and {rest} more; --json lists all of them")
        lines += [
            f"Would run: {data['runs']} of {data['distinct']} distinct points; "
            f"{data['kept']} are there already",
            f"  in {data['directory']}, {self._where()}",
            f"Wall time: {self._time()}",
        ]
        return lines

    def _where(self) -> str:
        if self.data["on"] != THREADS:
            return f"on the Dask scheduler {self.data['on'].removeprefix('dask://')}"
        plural = "" if self.data["workers"] == 1 else "s"
        return f"in {self.data['workers']} thread{plural}"

    def _time(self) -> str:
        wall = self.data["wall_s"]
        if not self.data["runs"]:
            return "none"
        if wall is None:
            return f"not known: {self.data['wall_unknown']}"
        least, most = fmt.seconds(wall["least"]), fmt.seconds(wall["most"])
        by = "short trials of the first and last point of each system and workload"
        spread = f"about {most}" if least == most else f"between {least} and {most}"
        return f"{spread}, by {by}"


def estimate(
    study: Study, directory: Path, on: str, workers: int | None, retry_failed: bool
) -> Estimate:
    """What a sweep would run. A point or two of each system and workload are tried.

    Raises:
        SpecError: as the sweep would.
    """
    found = points(study)
    rest = to_run(Store(directory), found, retry_failed)
    distinct = len({point.key for point in found})
    threads = workers or processors()
    wall_s, unknown = wall(rest, study, threads) if on == THREADS else (None, "it is a cluster's")
    return Estimate(
        {
            "version": _core.version(),
            "name": study.name,
            "directory": str(directory),
            "on": on,
            "workers": threads if on == THREADS else None,
            "points": [
                {"point": number, "key": one.key, "told": _told(one), **one.row()}
                for number, one in enumerate(found)
            ],
            "distinct": distinct,
            "kept": distinct - len(rest),
            "runs": len(rest),
            "wall_s": wall_s,
            "wall_unknown": unknown,
        }
    )


def _told(point: Point) -> str:
    parts = [point.machine.name, point.label]
    parts += [f"{name} = {value}" for name, value in point.choice.items()]
    parts += [f"seed {point.work.seed}"] if isinstance(point.work, Generated) else []
    return ", ".join(parts)


def wall(
    rest: Sequence[Point], study: Study, workers: int
) -> tuple[dict[str, float] | None, str | None]:
    """Bounds of the wall-clock time, by trials; or why there are none."""
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in rest:
        groups.setdefault((point.machine.name, point.label), []).append(point)
    least = most = 0.0
    for members in groups.values():
        tried = members[:: max(1, len(members) - 1)][:_TRIALS]
        walls = []
        for one in tried:
            found = plan([one.machine], one.work, **study.region).data
            if found["wall_s"] is None:
                return None, found["wall_unknown"]
            walls.append(found["wall_s"])
        least += min(wall["least"] for wall in walls) * len(members)
        most += max(wall["most"] for wall in walls) * len(members)
    longest = min(workers, max(1, len(rest)))
    return {"least": least / longest, "most": most / longest}, None
