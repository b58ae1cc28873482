"""How long a run takes, by short trials of it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from tierscope import _core, _sampling
from tierscope._call import parsed
from tierscope._interrupts import received
from tierscope._region import Extent, Warming, bound
from tierscope._result import Result
from tierscope._run import NoResultError, Progress, compare
from tierscope._system import System
from tierscope._workload import Generated, Program, Workload, for_devices
from tierscope.errors import RunError

PROBE_S = 0.8
"""Wall-clock time for which each run is tried."""
_LONGER = (4, 16)
"""A trial in which too little was simulated is made once more, so many times as long; and again."""
_COMES_TO_S = 5.0
"""A trial comes to a region that begins so soon; others are tried without what comes before."""
_APART = 3.0
"""The speed of a run as a whole differs from that of its first moments by so much, either way."""
_WARMING = 8.0
"""Functional warming is so much quicker than simulation at most (docs/models/machine.md)."""
_EARLIER = 0.8
"""Detail is tried behind so much of what a trial has passed over."""
_COLD = 0.75
"""A share of pages used first from which on the start of a run tells of all of it."""
_LEAST_GIVEN = 0.02
"""Less of a processor than that is taken for a clock that does not go."""
_STANDS_S = 0.4
"""A machine that has not been seen to go on for so long has ended, where others go on."""
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
class Known:
    """What is known of a workload beforehand; nothing of what is not.

    Attributes:
        accesses: about how many it makes, or requests.
        instructions: about how many it executes.
        before: accesses before the mark with which it begins its region.
        mapped_bytes: memory that it maps, and files that it has.
    """

    accesses: int | None = None
    instructions: int | None = None
    before: int | None = None
    mapped_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known of the time of a run.

    Attributes:
        wall_s: bounds of its wall-clock time, what is likely, and whether it was measured. What was
            not measured is told as on processors of its own.
        before_s: how much of what is likely passes before the region.
        unknown: why nothing is known.
        slowest_accesses_per_s: the least speed of the slowest machine.
    """

    wall_s: dict[str, Any] | None
    before_s: float = 0.0
    unknown: str | None = None
    slowest_accesses_per_s: float | None = None


class _Given:
    """How much of a processor threads that simulate are given, where others work beside them.

    A trial is told by a clock on the wall. What else runs on the computer meanwhile makes it
    slower, by factors, and is no property of the run: hours are told as on processors of its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads = 0
        self._wanted_s = self._had_s = 0.0
        self._at = self._moment()

    @staticmethod
    def _moment() -> tuple[float, float]:
        return time.perf_counter(), time.process_time()

    def _go_on(self, more: int = 0) -> tuple[float, float]:
        """So much time threads could have had, and so much they had; so many more begin now."""
        with self._lock:
            (before_s, had_s), self._at = self._at, self._moment()
            if self._threads:
                # Its own threads beyond the processors are no other work.
                wants = min(self._threads, len(os.sched_getaffinity(0)))
                self._wanted_s += wants * (self._at[0] - before_s)
                self._had_s += self._at[1] - had_s
            self._threads += more
            return self._wanted_s, self._had_s

    @contextlib.contextmanager
    def simulating(self, trial: Trial, machines: int) -> Iterator[None]:
        """While so many machines are tried, of which the trial tells how many go on."""
        going = machines
        self._go_on(machines)

        def tell(now: int) -> None:
            nonlocal going
            going, more = now, now - going
            if more:
                self._go_on(more)

        trial.tell = tell
        try:
            yield
        finally:
            trial.tell = None
            self._go_on(-going)

    def since(self, begun: tuple[float, float] = (0.0, 0.0)) -> float:
        """The share of their time that threads had since then."""
        wanted_s, had_s = (now - then for now, then in zip(self._go_on(), begun, strict=True))
        return min(1.0, max(had_s / wanted_s, _LEAST_GIVEN)) if wanted_s > 0 else 1.0

    def moment(self) -> tuple[float, float]:
        """What :meth:`since` goes by."""
        return self._go_on()


_given = _Given()


def outlook(
    machines: Sequence[System],
    work: Workload,
    region: Region,
    known: Known,
    *,
    time_limit_s: float | None,
    runs: int,
) -> Outlook:
    """How long a run takes.

    Args:
        machines: what it runs on.
        work: the workload.
        region: what of it is measured.
        known: how much the workload does.
        time_limit_s: wall-clock time that it may take.
        runs: how many times it runs.

    Raises:
        KeyboardInterrupt: where a request to end came during a trial.
    """
    if isinstance(work, Program):
        return _unknown("how long the program runs is not known before it has run")
    ends = region.limit is not None or known.accesses is not None
    if not ends and time_limit_s is None and not for_devices(work):
        return _unknown("how many accesses will be simulated is not known beforehand")
    begun = _given.moment()
    trial, tried = _tried(machines, work, **region.tried())
    spent_s = _whole_s(tried)
    if spent_s is not None:
        return _whole(spent_s, begun, time_limit_s, runs)
    tries = _Tries(machines, work, region, known, begun)
    return tries.foreseen(trial, tried, time_limit_s, runs)


def _whole(
    spent_s: float, begun: tuple[float, float], time_limit_s: float | None, runs: int
) -> Outlook:
    """Of a run that was tried to its end: what it took, and of further ones as without others."""
    told_s = spent_s if runs == 1 else spent_s * _given.since(begun)
    return Outlook(_bounds((told_s,) * 3, time_limit_s, runs, measured=runs == 1))


def _whole_s(tried: Result | None) -> float | None:
    """Seconds that a run took which was tried to its end."""
    if tried is None or "time limit" in (tried.data["partial_reason"] or ""):
        return None
    return max(system["wall_s"] for system in tried.data["systems"].values())


def _unknown(why: str, slowest: float | None = None) -> Outlook:
    return Outlook(None, unknown=why, slowest_accesses_per_s=slowest)


class _Tries:
    """What trials of a run tell of its time, of which the first did not come to its end."""

    def __init__(
        self,
        machines: Sequence[System],
        work: Workload,
        region: Region,
        known: Known,
        begun: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        self._machines, self._work, self._region, self._known = machines, work, region, known
        # When trials began, as :data:`_given` has it.
        self._begun = begun
        # Accesses before a mark that the workload gives, where that begins the region.
        self._marked = known.before or 0 if region.skip is None else 0

    def foreseen(
        self, first: Trial, tried: Result | None, time_limit_s: float | None, runs: int
    ) -> Outlook:
        """By the speeds that a first trial saw, and further ones."""
        later = self._region.begins_later or self._marked > 0
        before_s = self._before_s(first) if later and tried is None else None
        if before_s is not None and before_s <= _COMES_TO_S:
            again = 1.5 * before_s + self._probe_s
            first, tried = self._try(self._work, probe_s=again, **self._region.tried())
        reached = tried is not None
        within = first.of_region()
        whole_s = _whole_s(tried)
        little = within is first or within.lasts_s < PROBE_S / 2
        if later and reached and little and whole_s is None:
            # Of the region too little was seen, or it cannot be told from what came before.
            again_s = within.before_s + 2 * self._probe_s
            trial, told = self._try(self._work, probe_s=again_s, **self._region.tried())
            if told is not None:
                first, tried, within = trial, told, trial.of_region()
                whole_s = _whole_s(tried)
        if whole_s is not None:
            return _whole(whole_s, self._begun, time_limit_s, runs)
        if later and not reached:
            within, tried = self._try(self._without_setup(), limit=self._region.limit)
            whole_s = _whole_s(tried)
        for longer in _LONGER:
            if whole_s is not None or within.pace() or within.pace("instructions"):
                break
            region = self._region.tried() if reached else {"limit": self._region.limit}
            work = self._work if reached else self._without_setup()
            within, tried = self._try(work, probe_s=longer * self._probe_s, **region)
            within, whole_s = within.of_region(), _whole_s(tried)
        pace = within.pace()
        slowest = None if pace is None else pace[0]
        if tried is None:
            return _unknown("nothing was simulated in the time of the trial")
        ends = self._ends()
        if not ends:
            if time_limit_s is not None:
                spans = (PROBE_S, math.sqrt(PROBE_S * time_limit_s), time_limit_s)
                return Outlook(_bounds(spans, time_limit_s, runs))
            return _unknown("the trial did not come to the end of the trace", slowest)
        before: Spans | None = (0.0, 0.0, 0.0)
        if later and reached:
            before = within.before_s / _APART, within.before_s, within.before_s * _APART
        elif later:
            before = self._before(first, within)
        if before is None:
            return _unknown(
                "how fast what is skipped passes was not seen in the time of the trial", slowest
            )
        rest = self._within(ends, within, tried, reached)
        if whole_s is not None and not reached:
            rest = whole_s, whole_s, whole_s
        if rest is None:
            return _unknown("too little was simulated in the time of the trial", slowest)
        given = _given.since(self._begun)
        slowest = None if slowest is None else slowest / given
        least_s, likely_s, most_s = (given * (a + b) for a, b in zip(before, rest, strict=True))
        # A trace may end before a limit is reached.
        least_s = PROBE_S if for_devices(self._work) else max(given * PROBE_S, least_s)
        found = _bounds((least_s, likely_s, most_s), time_limit_s, runs)
        before_s = given * before[1]
        return Outlook(found, min(before_s * runs, found["likely"]), None, slowest)

    def _try(
        self, work: Workload, *, probe_s: float | None = None, may_end: bool = False, **region: Any
    ) -> tuple[Trial, Result | None]:
        probe_s = probe_s or self._probe_s
        return _tried(self._machines, work, probe_s=probe_s, may_end=may_end, **region)

    @property
    def _probe_s(self) -> float:
        """Time on the wall for which a run is tried: longer where other work is beside it."""
        return PROBE_S / max(_given.since(self._begun), 1 / _LONGER[0])

    def _without_setup(self) -> Workload:
        """The workload without writing to what it has first, where it does that and need not."""
        work = self._work
        if not isinstance(work, Generated) or not _touches(work.name):
            return work
        return replace(work, parameters={**work.parameters, "touched": False})

    # ---- What comes before the region -----------------------------------------------------------

    def _passed(self) -> tuple[str, int] | None:
        """A measure, and how much of it comes before the region, where that is known."""
        if self._region.skip is None:
            return ("accesses", self._marked) if self._marked else None
        ((measure, amount),) = bound("what is skipped", self._region.skip).items()
        if measure == "accesses" and self._known.accesses is not None:
            amount = min(amount, self._known.accesses)
        return measure, amount

    def _before_s(self, trial: Trial) -> float | None:
        """What is likely to pass before the region, by a trial that was tried within it."""
        passed = self._passed()
        pace = None if passed is None else trial.pace(passed[0])
        return None if passed is None or pace is None else passed[1] / _likely(pace)

    def _before(self, first: Trial, within: Trial) -> Spans | None:
        """How long what comes before the region takes, at the speed of a trial of it.

        Nothing where none saw it.
        """
        passed = self._passed()
        if passed is None:
            return 0.0, 0.0, 0.0
        measure, amount = passed
        # Warming without times has only the region's own speed to go by.
        pace = first.pace(measure) or within.pace(measure)
        return None if pace is None else _spans(amount, pace)

    # ---- The region -----------------------------------------------------------------------------

    def _ends(self) -> list[tuple[str, int]]:
        """Measures, and how much of them the region has at most: it ends at the first of these."""
        limit = self._region.limit
        ends = [] if limit is None else list(bound("the limit", limit).items())
        passed = dict([self._passed() or ("accesses", 0)])
        if self._known.accesses is not None:
            own = max(0, self._known.accesses - passed.get("accesses", 0))
            if own > 0 or self._known.instructions is None:
                return [*ends, ("accesses", own)]
        if self._known.instructions is not None:
            # What makes calls alone, which touch memory in the kernel.
            own = max(0, self._known.instructions - passed.get("instructions", 0))
            ends.append(("instructions", own))
        return ends

    def _within(
        self, ends: list[tuple[str, int]], within: Trial, tried: Result, reached: bool
    ) -> Spans | None:
        """How long the region takes."""
        found = [
            (_spans(amount, pace), measure, amount)
            for measure, amount in ends
            if (pace := within.pace(measure)) is not None
        ]
        if not found:
            return None
        (least, likely, most), measure, amount = min(found, key=lambda one: one[0][1])
        if self._region.roi and not self._marked:
            # How much comes before the mark is not known.
            least /= 1.0 if self._region.warming == "detailed" else _WARMING
            likely = math.sqrt(least * most)
        elif self._region.every is not None:
            cold = self._cold(amount, tried) if measure == "accesses" else 1.0
            likely = self._sampled(measure, amount, likely, within, cold, reached)
            least, most = likely / _APART, likely * _APART
        return least, likely, most

    def _cold(self, accesses: float, tried: Result) -> float:
        """Pages used first in so many accesses, as a share of what a start foretells.

        There are no more than there are; those that DRAM does not hold come again. Where places
        are drawn, a share e^-x is never used, x being what the start foretells over all.
        """
        mapped = self._known.mapped_bytes
        shares = [1.0]
        systems = tried.data["systems"].values()
        for dram_bytes, one in zip(self._dram_bytes(), systems, strict=True):
            used = one["counters"].get("footprint_bytes", 0) / max(1, one["accesses"])
            if not mapped or not used:
                continue
            foretold = accesses * used / mapped
            held = 1.0 if dram_bytes is None else min(1.0, dram_bytes / mapped)
            shares.append(max(-math.expm1(-foretold) / foretold, 1.0 - held))
        return min(shares)

    def _sampled(
        self,
        measure: str,
        amount: float,
        complete_s: float,
        start: Trial,
        cold: float,
        reached: bool,
    ) -> float:
        """Seconds of a region that is sampled.

        Its first period is in detail, as its start was tried. What follows is tried from where
        a trial without times has come to, so that the set-up does not speak for all. Where most
        of the run goes on behind the first use of pages, which takes longer, that is told by a
        small data set, all of which has been used.

        Args:
            measure: what ends it.
            amount: how much of that it has.
            complete_s: seconds that all of it takes in detail, as its start went.
            start: a trial in detail from the region's beginning on.
            cold: pages used first, as a share of what the start foretells.
            reached: whether that came to the region behind what comes before it.
        """
        work = self._work if reached else self._without_setup()
        setup = self._marked if reached else 0
        own = None if self._known.accesses is None else self._known.accesses - self._marked
        # Of a workload of calls alone nothing is an access but what it has first.
        in_all = own + setup if own else None
        quick, at, at_s = self._pass_over(work, setup, start.before_s, in_all)
        small = _small(work) if cold < _COLD else None
        if small is not None:
            small_in_all = _known_of(small)["accesses_about"]
            warm_quick, warm_at, warm_at_s = self._pass_over(small, 0, 0.0, small_in_all)
            warm = self._detail(small, warm_at, warm_at_s)
            warm_s = self._cost(measure, amount, warm, warm, warm_quick)
            cold_s = self._cost(measure, amount, start, start, quick)
            if warm_s is not None and cold_s is not None:
                return warm_s + max(0.0, cold_s - warm_s) * cold
        detail = self._detail(work, at if isinstance(at, str) else max(setup, at), at_s)
        timed = detail if detail.pace(measure) and detail.pace("time_ps") else start
        found_s = self._cost(measure, amount, start, timed, quick)
        return complete_s if found_s is None else found_s

    def _warming(self) -> Warming:
        return "untimed" if self._region.warming == "untimed" else "functional"

    def _pass_over(
        self, work: Workload, setup: int, before_s: float, in_all: int | None
    ) -> tuple[Trial, int | str, float]:
        """A trial of what passes without times; and from where on detail is tried, and when."""
        begun, probe_s = time.monotonic(), before_s + self._probe_s
        passed, _ = self._try(
            work,
            probe_s=probe_s,
            may_end=True,
            skip=max(1, (in_all or _NEVER) - 1),
            warming=self._warming(),
        )
        spent_s = time.monotonic() - begun
        if in_all is not None and spent_s < probe_s:
            # It came to the end of the workload.
            passed.ended(in_all, spent_s)
        at: int | str = max(1, int(_EARLIER * passed.least("accesses")))
        if passed.pace() is None and passed.pace("instructions"):
            at = f"{int(_EARLIER * passed.least('instructions'))} instructions"
        return passed.behind(setup), at, _EARLIER * passed.elapsed_s

    def _detail(self, work: Workload, at: int | str, at_s: float) -> Trial:
        """A trial in detail behind so many accesses, or instructions, which take so long.

        Where they took longer than before, and too little was seen behind them, once more.
        """
        found = Trial()
        for longer in (1, *_LONGER):
            begun, probe_s = time.monotonic(), at_s + longer * self._probe_s
            trial, _ = self._try(
                work, probe_s=probe_s, may_end=True, skip=at, warming=self._warming()
            )
            found = trial.of_region()
            has_begun = found is not trial
            if (has_begun and found.lasts_s >= PROBE_S / 2) or time.monotonic() - begun < probe_s:
                break
        return found

    def _cost(
        self, measure: str, amount: float, start: Trial, detail: Trial, quick: Trial
    ) -> float | None:
        """Seconds of a sampled region, by its start, by detail further on, and by what passes."""
        speed, clock = detail.pace(measure), detail.pace("time_ps")
        first, began = start.pace(measure), start.pace("time_ps")
        plans = [plan for plan in _sampling.plans(self._machines) if plan is not None]
        over = None if speed is None else _passes(measure, _likely(speed), detail, quick)
        if not (speed and clock and over and first and began and plans):
            return None
        unit_ps, refill_ps, period_ps = max(plans, key=lambda plan: (plan[0] + plan[1]) / plan[2])
        of_start = min(amount, (period_ps - unit_ps) * _likely(first) / _likely(began))
        share = min(1.0, (unit_ps + refill_ps) / period_ps)
        rest = share / _likely(speed) + (1 - share) / max(over, _likely(speed))
        if of_start == amount and self._outgrows():
            # Calls fill DRAM first, and wait for the store later: time then goes on more quickly,
            # and whether the first period ends within the run is not known.
            return amount * math.sqrt(rest / _likely(first))
        return of_start / _likely(first) + (amount - of_start) * rest

    def _outgrows(self) -> bool:
        """Whether what is mapped does not fit into the DRAM of a machine."""
        mapped = self._known.mapped_bytes or 0
        return any(bytes_ is not None and mapped > bytes_ for bytes_ in self._dram_bytes())

    def _dram_bytes(self) -> list[int | None]:
        """Of each machine the DRAM before its store."""
        found = [parsed(_core.sizes(json.dumps(one.to_dict())))["dram"] for one in self._machines]
        return [None if dram is None else dram["bytes"] for dram in found]


def _passes(measure: str, speed: float, detail: Trial, quick: Trial) -> float | None:
    """How fast a measure passes without times, of which nothing is known but the speed in detail.

    As much of it goes with an access as in detail; with an instruction where calls do all.
    """
    for counted in ("accesses", "instructions"):
        passes, slowly = quick.pace(counted), detail.pace(counted)
        if passes and counted == measure:
            return _likely(passes)
        if passes and slowly:
            return _likely(passes) * speed / _likely(slowly)
    return None


def _known_of(work: Generated) -> dict[str, Any]:
    found: dict[str, Any] = parsed(_core.foreseen(json.dumps(work.to_dict())))
    return found


def _small(work: Workload) -> Generated | None:
    """The workload over a data set of the size that it has unless told otherwise, if it has one."""
    if not isinstance(work, Generated) or "size" not in work.parameters:
        return None
    parameters = {key: value for key, value in work.parameters.items() if key != "size"}
    return replace(work, parameters=parameters)


def _touches(name: str) -> bool:
    """Whether a generator writes to what it has first, unless it is told not to."""
    own = [one for one in parsed(_core.list_workloads()) if one["name"] == name]
    return any(each["name"] == "touched" for one in own for each in one["parameters"])


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
    ends = contextlib.suppress(RunError if may_end else NoResultError)
    with ends, _given.simulating(trial, len(machines)):
        found = compare(machines, work, time_limit_s=probe_s or PROBE_S, watch=trial, **region)
    if len(received) > heard or (found is not None and found.interrupted):
        raise KeyboardInterrupt
    return trial, found


class Trial:
    """Watches a run that is tried, and gives the speeds that the slowest machine had.

    Attributes:
        before_s: wall-clock time that passed before what is told of.
        tell: hears how many machines go on.
    """

    def __init__(self) -> None:
        self.before_s = 0.0
        self.tell: Callable[[int], None] | None = None
        # When each machine was last seen to go on.
        self._went: list[float] = []
        self._begun = time.monotonic()
        self._heard = len(received)
        self._seen: list[tuple[float, list[Progress]]] = []
        # What stood when what is told of began.
        self._base: list[Progress] | None = None

    def __call__(self, progress: Sequence[Progress]) -> None:
        if len(received) > self._heard:
            raise KeyboardInterrupt
        now, at_s = list(progress), time.monotonic() - self._begun
        before = self._seen[-1][1] if self._seen else []
        if len(before) != len(now):
            before, self._went = now, [at_s] * len(now)
        self._went = [
            went if one == then else at_s
            for one, then, went in zip(now, before, self._went, strict=True)
        ]
        if self.tell is not None:
            self.tell(sum(at_s - went < _STANDS_S for went in self._went) or 1)
        if not self._seen or now != before:
            self._seen.append((at_s, now))

    def ended(self, accesses: int, at_s: float) -> None:
        """The run came to the end of the workload, which no watcher hears of."""
        machines = len(self._seen[-1][1]) if self._seen else 1
        self._seen.append((at_s, [Progress(accesses, 0, 0)] * machines))

    def of_region(self) -> Trial:
        """The part in a region, with which counts began anew, but for the time."""
        number = len(self._seen) - 1
        for at, ((_, before), (_, now)) in reversed(list(enumerate(pairwise(self._seen), 1))):
            # Calls alone make no accesses.
            pairs = list(zip(before, now, strict=True))
            if any(b.accesses < a.accesses for a, b in pairs) or all(
                b.instructions < a.instructions for a, b in pairs
            ):
                number = at
                break
        else:
            return self
        before_s, last = self._seen[number - 1]
        return self._part(number, before_s, [Progress(0, 0, one.time_ps) for one in last])

    def behind(self, accesses: int) -> Trial:
        """The part behind so many accesses of each machine; all where there is no such part."""
        for number, (before_s, now) in enumerate(self._seen[:-1], 1):
            if all(one.accesses > accesses for one in now):
                return self._part(number, before_s, now) if accesses else self
        return self

    def _part(self, number: int, before_s: float, base: list[Progress]) -> Trial:
        part = Trial()
        part.before_s, part._base, part._seen = before_s, base, self._seen[number:]
        return part

    @property
    def elapsed_s(self) -> float:
        """Wall-clock time up to what was seen last."""
        return self._seen[-1][0] if self._seen else 0.0

    @property
    def lasts_s(self) -> float:
        """Wall-clock time of what is told of."""
        return self.elapsed_s - self.before_s

    def least(self, measure: str) -> int:
        """What the machine that came least far has come to."""
        return min(getattr(one, measure) for one in self._seen[-1][1]) if self._seen else 0

    def pace(self, measure: str = "accesses") -> Pace | None:
        """So much in a second, the least and the most of the whole trial and of its last part.

        They are those of the machine that goes slowest; nothing where one never went on.

        Args:
            measure: ``accesses``, ``instructions`` or ``time_ps``.
        """
        base = self._base or [Progress(0, 0, 0)] * (len(self._seen[0][1]) if self._seen else 0)
        seen = [(self.before_s, base), *self._seen] if self._seen else []
        moments = [(at_s, [getattr(one, measure) for one in each]) for at_s, each in seen]
        found = []
        for early, late in ((_first(moments), -1), (len(moments) // 2, -1)):
            if len(moments) < 2 or moments[late][0] <= moments[early][0]:
                continue
            (begun_s, before), (ended_s, after) = moments[early], moments[late]
            gained = [b - a for a, b in zip(before, after, strict=True)]
            found.append(min(gained) / (ended_s - begun_s))
        return (min(found), max(found)) if found and min(found) > 0 else None


def _first(moments: Sequence[tuple[float, list[int]]]) -> int:
    """From which moment on speeds are told: machines take time to be made, where much was seen."""
    enough = 4
    went = [at for at, (_, each) in enumerate(moments) if all(each)]
    return went[0] if len(went) >= enough else 0


def _bounds(
    spans: Spans, limit_s: float | None, runs: int, *, measured: bool = False
) -> dict[str, Any]:
    """Bounds of the time of all runs."""
    least, likely, most = (span if limit_s is None else min(span, limit_s) for span in spans)
    likely = max(least, likely)
    most = max(likely, most)
    return {
        "least": least * runs,
        "likely": likely * runs,
        "most": most * runs,
        "measured": measured,
    }
