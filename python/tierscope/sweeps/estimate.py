"""What a sweep would run, and how long that would take, before it does."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierscope import _core
from tierscope import format as fmt
from tierscope._interrupts import received
from tierscope._plan import plan
from tierscope._workload import Generated
from tierscope.errors import TierscopeError
from tierscope.sweeps.execute import THREADS, processors, shared
from tierscope.sweeps.points import Point, points
from tierscope.sweeps.recordings import kept, label, programs
from tierscope.sweeps.store import Store
from tierscope.sweeps.study import Study, region_on
from tierscope.sweeps.sweep import SweepProgress, SweepWatcher, to_run

_MOST_SHOWN = 24
"""Points that are listed; of more, the first ones."""
APART = 2.5
"""Most runs as a whole are no more than so many times faster or slower than their trials."""
_POLL_S = 0.2
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
        by = "short trials of the first and last point of each system and workload"
        return f"{span(wall)}, by {by}{left_out(self.data['wall_unknown'])}"


def estimate(
    study: Study,
    directory: Path,
    on: str,
    workers: int | None,
    retry_failed: bool,
    watch: SweepWatcher | None = None,
) -> Estimate:
    """What a sweep would run. A point or two of each system and workload are tried.

    Raises:
        SpecError: as the sweep would.
        TierscopeError: where a program is not recorded yet.
    """
    recordings = kept(study, directory)
    for one in programs(study):
        if label(one) not in recordings:
            raise TierscopeError(
                "not-recorded",
                f"how long points of {label(one)} take is known once it is recorded",
                "sweep without --dry-run, which records it first; or record it yourself, and name "
                "trace:FILE as the workload",
            )
    found = points(study, recordings)
    rest = to_run(Store(directory), found, retry_failed)
    distinct = len({point.key for point in found})
    threads = workers or processors()
    wall_s: dict[str, float] | None = None
    unknown: str | None = "it is a cluster's"
    if on == THREADS:
        wall_s, unknown = wall([(study, rest)], threads, counted(watch, trials(rest)))
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


def counted(watch: SweepWatcher | None, total: int) -> Callable[[], None] | None:
    """What tells a watcher of each of so many trials that has ended."""
    if watch is None:
        return None
    ended = 0

    def tell() -> None:
        nonlocal ended
        ended += 1
        watch(SweepProgress(ended, total, 0))

    watch(SweepProgress(0, total, 0))
    return tell


def _told(point: Point) -> str:
    parts = [point.machine.name, point.label]
    parts += [f"{name} = {fmt.value(value)}" for name, value in point.choice.items()]
    parts += [f"seed {point.work.seed}"] if isinstance(point.work, Generated) else []
    return ", ".join(parts)


def span(wall: Mapping[str, float]) -> str:
    """A time with its bounds, in words."""
    least, likely, most = (fmt.wall(wall[end]) for end in ("least", "likely", "most"))
    return f"about {likely}" if least == most else f"about {likely} ({least} to {most})"


def left_out(unknown: str | None) -> str:
    """What the bounds of a time leave out, in words."""
    return "" if unknown is None else f"; without {unknown}"


def to_try(rest: Sequence[Point]) -> list[tuple[list[Point], list[Point]]]:
    """Points by system and workload, and of each the few that are tried."""
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in rest:
        groups.setdefault((point.machine.name, point.label), []).append(point)
    return [(own, own[:: max(1, len(own) - 1)][:_TRIALS]) for own in groups.values()]


def trials(rest: Sequence[Point]) -> int:
    """How many runs :func:`wall` tries."""
    return sum(len(tried) for _, tried in to_try(rest))


def wall(
    rest: Sequence[tuple[Study, Sequence[Point]]],
    workers: int,
    tell: Callable[[], None] | None = None,
) -> tuple[dict[str, float] | None, str | None]:
    """Bounds of the wall-clock time, by trials, and what they leave out; or why there are none.

    Args:
        rest: studies that run together, each with the points that have to run.
        workers: how many run at a time.
        tell: called after each trial.

    Raises:
        KeyboardInterrupt: where a request to end came during a trial.
    """
    asked = [(one, study.region) for study, found in rest for one in found]
    if passes := {one.counted_in for one, region in asked if region.get("counts_only")}:
        number = len(passes)
        told = "one functional pass" if number == 1 else f"{number} functional passes"
        return None, f"of {told}, which no trial foresees"
    spans: dict[str, tuple[float, float]] = {}
    missing, why = 0, None
    groups = [(study, *group) for study, found in rest for group in to_try(found)]
    asked_of = [(one, study) for study, _, tried in groups for one in tried]
    found_of = iter(_all_planned(asked_of, workers, tell))
    for _, members, tried in groups:
        plans = [next(found_of) for _ in tried]
        unknown = [each["wall_unknown"] for each in plans if each["wall_s"] is None]
        if unknown:
            missing += len(members)
            why = why or f"{members[0].label} on {members[0].machine.name}: {unknown[0]}"
            continue
        likely = statistics.fmean(each["wall_s"]["likely"] for each in plans)
        before = statistics.fmean(each["wall_before_region_s"] for each in plans)
        spans |= {one.key: (likely, before) for one in members}
    if missing and not spans:
        return None, why
    known = [(one, region) for one, region in asked if one.key in spans]
    tasks = [
        _together([spans[one["key"]] for one in task.get("together", [task])])
        for task in shared(known, workers)
    ]
    # However many there are, the longest of them is waited for.
    likely = max(sum(tasks) / workers, *tasks, 0.0)
    bounds = {"least": likely / APART, "likely": likely, "most": likely * APART}
    if not missing:
        return bounds, None
    return bounds, f"1 run, {why}" if missing == 1 else f"{missing} runs, such as {why}"


def _all_planned(
    points: Sequence[tuple[Point, Study]], workers: int, tell: Callable[[], None] | None
) -> list[dict[str, Any]]:
    """What each of them takes: as many are tried at a time as run at a time.

    Raises:
        KeyboardInterrupt: where a request to end came during a trial.
    """
    heard = len(received)
    pool = ThreadPoolExecutor(workers, thread_name_prefix="tierscope-trial")
    try:
        under_way = [pool.submit(_planned, *one) for one in points]
        left: set[Future[dict[str, Any]]] = set(under_way)
        while left:
            done, left = wait(left, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            if len(received) > heard:
                raise KeyboardInterrupt
            for one in done:
                one.result()
                if tell is not None:
                    tell()
        return [one.result() for one in under_way]
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _planned(one: Point, study: Study) -> dict[str, Any]:
    return plan([one.machine], one.work, **region_on(one.machine, study.region)).data


def _together(points: Sequence[tuple[float, float]]) -> float:
    """Seconds that points take together, of each all of it, and what comes before its region.

    One warm-up serves all of them.
    """
    warming = max(before for _, before in points)
    return warming + sum(span - before for span, before in points)
