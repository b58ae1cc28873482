"""How long a run takes, by short trials of it."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tierscope._interrupts import received
from tierscope._region import Extent, Warming, bound
from tierscope._result import Result
from tierscope._run import NoResultError, Progress, compare
from tierscope._system import System
from tierscope._workload import Program, Workload, for_devices
from tierscope.errors import RunError

PROBE_S = 0.8
"""Wall-clock time for which each run is tried."""
_LONGER = (4, 16)
"""A trial in which too little was simulated is made once more, so many times as long; and again."""
_APART = 3.0
"""The speed of a run as a whole differs from that of its first moments by so much, either way."""
_WARMING = 8.0
"""Functional warming is so much quicker than simulation at most (docs/models/machine.md)."""
_DETAILED_UNITS = 1.5
"""Units in detail for each that is measured: half of one comes before (docs/models/sampling.md)."""
_NEVER = 1 << 62
"""Accesses that no trial comes to."""

Pace = tuple[float, float]
"""So many accesses, instructions or picoseconds of simulated time in a second of wall-clock time:
the least and the most that were seen."""


Spans = tuple[float, float, float]
"""Seconds: the least, what is likely, and the most."""


@dataclass(frozen=True, slots=True)
class Region:
    """What of a run is measured, and how the rest is passed over.

    Attributes:
        skip: what comes before the region.
        limit: its length.
        roi: whether a mark begins it.
        warming: of what comes before it, and of what a sampled run passes over.
        every: one unit in so many is measured; nothing where all are.
    """

    skip: Extent | None
    limit: Extent | None
    roi: bool
    warming: Warming | None
    every: int | None

    @property
    def begins_later(self) -> bool:
        """Whether something comes before it."""
        return self.skip is not None or self.roi

    def tried(self) -> dict[str, Any]:
        """How a trial is run: it is not sampled, and warms what comes before the region alone."""
        before = self.warming if self.begins_later else None
        return {"skip": self.skip, "limit": self.limit, "roi": self.roi, "warming": before}


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known of the time of a run.

    Attributes:
        wall_s: bounds of its wall-clock time, what is likely, and whether it was measured.
        before_s: how much of what is likely passes before the region.
        unknown: why nothing is known.
        slowest_accesses_per_s: the least speed of the slowest machine.
    """

    wall_s: dict[str, Any] | None
    before_s: float = 0.0
    unknown: str | None = None
    slowest_accesses_per_s: float | None = None


def outlook(
    machines: Sequence[System],
    work: Workload,
    region: Region,
    in_all: int | None,
    *,
    time_limit_s: float | None,
    runs: int,
) -> Outlook:
    """How long a run takes.

    Args:
        machines: what it runs on.
        work: the workload.
        region: what of it is measured.
        in_all: about how many accesses, or requests, the workload has, where that is known.
        time_limit_s: wall-clock time that it may take.
        runs: how many times it runs.

    Raises:
        KeyboardInterrupt: where a request to end came during a trial.
    """
    if isinstance(work, Program):
        return _unknown("how long the program runs is not known before it has run")
    if in_all is None and region.limit is None and time_limit_s is None and not for_devices(work):
        return _unknown("how many accesses will be simulated is not known beforehand")
    trial, tried = _tried(machines, work, **region.tried())
    if tried is not None and "time limit" not in (tried.data["partial_reason"] or ""):
        spent_s = max(system["wall_s"] for system in tried.data["systems"].values())
        return Outlook(_bounds((spent_s,) * 3, time_limit_s, runs, measured=runs == 1))
    return _foreseen(machines, work, region, in_all, trial, tried, time_limit_s, runs)


def _unknown(why: str, slowest: float | None = None) -> Outlook:
    return Outlook(None, unknown=why, slowest_accesses_per_s=slowest)


def _foreseen(
    machines: Sequence[System],
    work: Workload,
    region: Region,
    in_all: int | None,
    first: Trial,
    tried: Result | None,
    time_limit_s: float | None,
    runs: int,
) -> Outlook:
    """By the speeds that a first trial saw, and further ones."""
    within = first
    if region.begins_later:
        within, tried = _tried(machines, work)
    pace = within.pace()
    for longer in _LONGER:
        # Where it is known how many accesses there are, those before a region tell enough.
        if pace is not None and (tried is not None or in_all is not None):
            break
        within, tried = _tried(machines, work, probe_s=longer * PROBE_S)
        within = within.of_region()
        pace = within.pace()
    slowest = None if pace is None else pace[0]
    limit = None if region.limit is None else bound("the limit", region.limit)
    if tried is None:
        # What the workload itself does before its region took all of the trial.
        limit = None
        if pace is None or in_all is None:
            return _unknown("nothing was simulated in the time of the trial")
    if in_all is None and limit is None:
        if time_limit_s is not None:
            spans = (PROBE_S, math.sqrt(PROBE_S * time_limit_s), time_limit_s)
            return Outlook(_bounds(spans, time_limit_s, runs))
        return _unknown("the trial did not come to the end of the trace", slowest)
    if pace is None:
        return _unknown("too little was simulated in the time of the trial")
    before = _before(region, first, within, in_all)
    if before is None:
        return _unknown(
            "how fast what is skipped passes was not seen in the time of the trial", slowest
        )
    if within.before_s:
        before = within.before_s / _APART, within.before_s, within.before_s * _APART
    rest = _within(machines, work, region, limit, in_all, within, first)
    if rest is None:
        return _unknown("too little was simulated in the time of the trial", slowest)
    least_s, likely_s, most_s = (a + b for a, b in zip(before, rest, strict=True))
    # A trace may end before a limit is reached.
    least_s = PROBE_S if for_devices(work) else max(PROBE_S, least_s)
    found = _bounds((least_s, likely_s, most_s), time_limit_s, runs)
    return Outlook(found, min(before[1] * runs, found["likely"]), None, slowest)


def _before(region: Region, first: Trial, within: Trial, in_all: int | None) -> Spans | None:
    """How long what is skipped takes, at the speed of a trial of it; nothing where it saw none."""
    if region.skip is None:
        return 0.0, 0.0, 0.0
    ((measure, amount),) = bound("what is skipped", region.skip).items()
    # Warming without times has only the region's own speed to go by.
    pace = first.pace(measure) or within.pace(measure)
    if pace is None:
        return None
    if measure == "accesses" and in_all is not None:
        amount = min(amount, in_all)
    return _spans(amount, pace)


def _within(
    machines: Sequence[System],
    work: Workload,
    region: Region,
    limit: dict[str, int] | None,
    in_all: int | None,
    within: Trial,
    first: Trial,
) -> Spans | None:
    """How long the region takes."""
    ends = [] if limit is None else list(limit.items())
    if in_all is not None:
        skipped = {} if region.skip is None else bound("what is skipped", region.skip)
        ends.append(("accesses", max(0, in_all - skipped.get("accesses", 0))))
    found = [
        _spans(amount, pace)
        for measure, amount in ends
        if (pace := within.pace(measure)) is not None
    ]
    if not found:
        return None
    least, likely, most = min(found, key=lambda spans: spans[1])
    share = 1.0
    if region.roi:
        # How much comes before the mark is not known.
        least /= 1.0 if region.warming == "detailed" else _WARMING
        likely = math.sqrt(least * most)
    elif region.every is not None:
        share = _share(machines, work, region, in_all, within, first)
    return least * share, likely * share, most * share


def _share(
    machines: Sequence[System],
    work: Workload,
    region: Region,
    in_all: int | None,
    within: Trial,
    first: Trial,
) -> float:
    """The part of its time in detail that a sampled run takes."""
    warming = "untimed" if region.warming == "untimed" else "functional"
    passed = first
    if region.skip is None or region.warming == "detailed":
        before = max(1, (in_all or _NEVER) - 1)
        passed, _ = _tried(machines, work, may_end=True, skip=before, warming=warming)
    detail, quick = within.pace(), passed.pace()
    if detail is None or quick is None:
        return 1.0
    detailed = _DETAILED_UNITS / (region.every or 1)
    return detailed + (1 - detailed) * min(1.0, _likely(detail) / _likely(quick))


def _spans(amount: float, pace: Pace) -> Spans:
    slowest, fastest = pace
    return amount / fastest / _APART, amount / _likely(pace), amount / slowest * _APART


def _likely(pace: Pace) -> float:
    return math.sqrt(pace[0] * pace[1])


def _tried(
    machines: Sequence[System],
    work: Workload,
    *,
    probe_s: float | None = None,
    may_end: bool = False,
    **region: Any,
) -> tuple[Trial, Result | None]:
    """What a trial has seen and found; nothing found where nothing was simulated.

    Args:
        machines: what is tried.
        work: the workload.
        probe_s: how long; less where it ends before.
        may_end: whether the workload may end before its region begins.
        region: as of :func:`compare`.

    Raises:
        KeyboardInterrupt: where a request to end came meanwhile: a trial's result is nobody's wish.
    """
    trial, heard = Trial(), len(received)
    found: Result | None = None
    with contextlib.suppress(RunError if may_end else NoResultError):
        found = compare(machines, work, time_limit_s=probe_s or PROBE_S, watch=trial, **region)
    if len(received) > heard or (found is not None and found.interrupted):
        raise KeyboardInterrupt
    return trial, found


class Trial:
    """Watches a run that is tried, and gives the speeds that the slowest machine had.

    Attributes:
        before_s: wall-clock time that passed before what is told of.
    """

    def __init__(self) -> None:
        self.before_s = 0.0
        self._begun = time.monotonic()
        self._seen: list[tuple[float, list[Progress]]] = []

    def __call__(self, progress: Sequence[Progress]) -> None:
        now = list(progress)
        if not self._seen or now != self._seen[-1][1]:
            self._seen.append((time.monotonic() - self._begun, now))

    def of_region(self) -> Trial:
        """The part in a region that the workload itself begins, with which counts began anew."""
        part, begun = Trial(), 0
        for number, ((_, before), (_, now)) in enumerate(pairwise(self._seen), 1):
            if any(b.accesses < a.accesses for a, b in zip(before, now, strict=True)):
                part.before_s, begun = self._seen[number][0], number
        part._seen = self._seen[begun:]
        return part

    def pace(self, measure: str = "accesses") -> Pace | None:
        """So much in a second, the least and the most of the whole trial and of its last part.

        They are those of the machine that goes slowest; nothing where one never went on.

        Args:
            measure: ``accesses``, ``instructions`` or ``time_ps``.
        """
        seen = [(at_s, [getattr(one, measure) for one in each]) for at_s, each in self._seen]
        moments = [(self.before_s, [0] * len(seen[0][1])), *seen] if seen else []
        found = []
        for early, late in ((0, -1), (len(moments) // 2, -1)):
            if len(moments) < 2 or moments[late][0] <= moments[early][0]:
                continue
            (begun_s, before), (ended_s, after) = moments[early], moments[late]
            gained = [b - a for a, b in zip(before, after, strict=True)]
            found.append(min(gained) / (ended_s - begun_s))
        return (min(found), max(found)) if found and min(found) > 0 else None


def _bounds(
    spans: Spans, limit_s: float | None, runs: int, *, measured: bool = False
) -> dict[str, Any]:
    """Bounds of the time of all runs."""
    least, likely, most = (span if limit_s is None else min(span, limit_s) for span in spans)
    return {
        "least": least * runs,
        "likely": min(max(likely, least), most) * runs,
        "most": most * runs,
        "measured": measured,
    }
