"""What a run would do, before it does it: the machines, and estimates of time and memory."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tierscope import _check, _core, _sampling, _scale
from tierscope import format as fmt
from tierscope._call import core_errors, parsed
from tierscope._interrupts import received
from tierscope._region import Extent, Warming, bound
from tierscope._result import Result
from tierscope._run import (
    NoResultError,
    Progress,
    check_functional,
    check_program,
    compare,
    region_of,
)
from tierscope._system import System, with_names_told_apart
from tierscope._workload import (
    Generated,
    MemoryTrace,
    Program,
    Recorded,
    Workload,
    for_devices,
    on,
)
from tierscope.errors import RunError

PROBE_S = 0.8
"""Wall-clock time for which each run is tried."""
_APART = 3.0
"""The speed of a run as a whole differs from that of its first moments by so much, either way."""
_WARMING = 8.0
"""Functional warming is so much quicker than simulation at most (docs/models/machine.md)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What would run.

    Attributes:
        machines: the machines, resolved.
        notes: what was done to each machine, or nothing.
        work: what would run on them.
        data: all of it as one JSON object.
    """

    machines: Sequence[System]
    notes: Sequence[str | None]
    work: Workload
    data: dict[str, Any]

    def lines(self) -> list[str]:
        """The estimates in words."""
        return [
            f"Would run: {self.data['what']}",
            f"  on {', '.join(one.name for one in self.machines)}"
            + (f", {self.data['runs']} times" if self.data["runs"] > 1 else ""),
            *(f"  {note}" for note in self.notes if note),
            *self._extent_lines(),
            f"Wall time: {self._time()}",
            f"Memory: {self._memory()}",
        ]

    def _extent_lines(self) -> list[str]:
        accesses, mapped = self.data["accesses"], self.data["mapped_bytes"]
        known = [] if accesses is None else [f"{fmt.count(accesses)} {_unit(self.work)}"]
        known += [] if mapped is None else [f"{fmt.size(mapped)} mapped"]
        for what in ("skip", "limit"):
            said = self.data[what]
            known += [] if said is None else [f"{what} {said}"]
        if self.data["sampled"]:
            wanted = self.data["precision"]
            twice = "" if wanted is None else f", and again with more if ±{wanted:.1%} takes it"
            known.append(f"sampled, one unit in {_sampling.EVERY}{twice}")
        return [f"  {', '.join(known)}"] if known else []

    def _time(self) -> str:
        wall, slowest = self.data["wall_s"], self.data["slowest_accesses_per_s"]
        speed = ""
        if slowest is not None:
            speed = f": a short trial ran at {fmt.rate(slowest, _unit(self.work))}"
            alone = for_devices(self.work)
            speed += "" if alone else ", and speed changes as caches fill"
        if wall is None:
            return f"not known: {self.data['wall_unknown']}{speed.replace(':', ';', 1)}"
        if wall["measured"]:
            return f"{fmt.seconds(wall['least'])}: the whole of it was run to see"
        return f"between {fmt.wall(wall['least'])} and {fmt.wall(wall['most'])}{speed}"

    def _memory(self) -> str:
        memory = self.data["memory"]
        if for_devices(self.work):
            return "tierscope's own: neither the trace nor what is in the memory is held"
        each = (
            f"{fmt.size(memory['bytes_per_gib_touched'])} for each GiB that the workload touches, "
            "all machines together; what is never touched takes nothing"
        )
        if memory["about_bytes"] is None:
            own = "; and the program's own" if isinstance(self.work, Program) else ""
            return f"about {each}{own}"
        return f"about {fmt.size(memory['about_bytes'])}, beside tierscope's own: about {each}"


def plan(
    systems: Sequence[System],
    work: Workload,
    *,
    skip: Extent | None = None,
    limit: Extent | None = None,
    roi: bool = False,
    warming: Warming | None = None,
    time_limit_s: float | None = None,
    scale_to_footprint: float | None = None,
    runs: int = 1,
    sample: bool = False,
    precision: _sampling.Precision | None = None,
) -> Plan:
    """What a run would do. A built-in workload or recording is tried for a fraction of a second.

    Raises:
        SpecError: as a run would.
        RunError: as a run would.
    """
    _check.time_limit(time_limit_s)
    machines = with_names_told_apart(systems)
    work = on(work, machines)
    sampled, wanted = _sampling.asked(sample, precision, work)
    passes_untimed = _sampling.passes_untimed(machines, sampled)
    options = region_of(work, skip, limit, roi, warming, passes_untimed)
    if warming in ("functional", "untimed"):
        check_functional(machines, options)
    if sampled:
        _sampling.check_machines(machines, warming)
    notes: list[str | None] = [None] * len(machines)
    if scale_to_footprint is not None:
        scaled = _scale.to_footprint(machines, work, scale_to_footprint)
        machines, notes = [one for one, _ in scaled], [note for _, note in scaled]
    foreseen: dict[str, Any] = {"accesses": None, "mapped_bytes": None}
    if isinstance(work, Program):
        check_program(work)
    else:
        foreseen = _foreseen(work)
    accesses = _accesses(foreseen["accesses"], skip, limit)
    # A trial is not sampled: it has nothing to warm but what comes before the region.
    before = None if options["start"] is None else warming
    region = {"skip": skip, "limit": limit, "roi": roi, "warming": before}
    extent = (accesses, foreseen["accesses"])
    wall, unknown, speed = _wall(machines, work, extent, time_limit_s, runs, region)
    if sampled and wall is not None and not wall["measured"]:
        # Units and what fills queues before them are as slow as all else; the rest is warming.
        wall["least"] = max(PROBE_S, wall["least"] / _WARMING)
        wall["most"] *= 1 if wanted is None else 2
    data = {
        "version": _core.version(),
        "what": _what(work),
        "runs": runs,
        "systems": {
            one.name: {"description": one.to_dict(), "note": note}
            for one, note in zip(machines, notes, strict=True)
        },
        "skip": None if skip is None else str(skip),
        "limit": None if limit is None else str(limit),
        "sampled": sampled,
        "precision": wanted,
        "accesses": foreseen["accesses"],
        "mapped_bytes": foreseen["mapped_bytes"],
        "slowest_accesses_per_s": speed,
        "wall_s": wall,
        "wall_unknown": unknown,
        "memory": _memory(machines, foreseen["mapped_bytes"]),
    }
    return Plan(machines, notes, work, data)


def accesses_of(work: Workload) -> int | None:
    """Accesses, or requests, of a workload, those that come before its region included.

    Raises:
        SpecError: where it is impossible.
        RunError: where it cannot be read.
    """
    known: int | None = None if isinstance(work, Program) else _foreseen(work)["accesses"]
    return known


def _foreseen(work: Generated | Recorded | MemoryTrace) -> dict[str, Any]:
    with core_errors():
        found: dict[str, Any] = parsed(
            _core.foreseen(_check.written(work.to_dict(), "the workload"))
        )
    return found


def _unit(work: Workload) -> str:
    return "requests" if for_devices(work) else "accesses"


def _what(work: Workload) -> str:
    if isinstance(work, Program):
        return f"the program {' '.join(work.command)}"
    said = work.to_dict()
    if said["kind"] == "requests":
        return f"the trace {said['path']}, {said['format']}"
    if said["kind"] == "recorded":
        return f"the recording {os.fspath(said['path'])}"
    return f"the workload {said['name']}, seed {said['seed']}"


def _accesses(known: int | None, skip: Extent | None, limit: Extent | None) -> int | None:
    """Accesses, or requests, that would be simulated, where that follows."""
    if limit is None:
        return known
    extents = [bound("the extent", extent) for extent in (skip, limit) if extent is not None]
    if any("accesses" not in extent for extent in extents):
        return None
    asked = sum(extent["accesses"] for extent in extents)
    return asked if known is None else min(known, asked)


def _wall(
    machines: Sequence[System],
    work: Workload,
    extent: tuple[int | None, int | None],
    time_limit_s: float | None,
    runs: int,
    region: dict[str, Any],
) -> tuple[dict[str, Any] | None, str | None, float | None]:
    """Wall-clock time as bounds; or why it is not known; and the slowest machine's speed.

    ``extent`` is the accesses that would be simulated, and all that the workload has.
    """
    accesses, in_all = extent
    if isinstance(work, Program):
        return None, "how long the program runs is not known before it has run", None
    foreign = for_devices(work)
    if accesses is None and time_limit_s is None and not foreign:
        return None, "how many accesses will be simulated is not known beforehand", None
    trial, tried = _tried(machines, work, **region)
    if tried is not None and "time limit" not in (tried.data["partial_reason"] or ""):
        spent_s = max(system["wall_s"] for system in tried.data["systems"].values())
        return _bounds(spent_s, spent_s, time_limit_s, runs, measured=runs == 1), None, None
    quicker = 1.0
    first = trial.speeds()
    if region["skip"] is not None or region["roi"]:
        # Only the region's own speed is a bound: functional warming is quicker.
        trial, tried = _tried(machines, work)
        quicker = 1.0 if region["warming"] == "detailed" else _WARMING
    speeds = trial.speeds()
    if tried is None:
        # What the workload itself does before its region took all of the trial.
        accesses = in_all
        if speeds is None or accesses is None:
            return None, "nothing was simulated in the time of the trial", None
    if accesses is None and time_limit_s is not None:
        return _bounds(PROBE_S, time_limit_s, time_limit_s, runs), None, None
    if accesses is None:
        slowest = None if speeds is None else speeds[0]
        return None, "the trial did not come to the end of the trace", slowest
    if speeds is None:
        return None, "too little was simulated in the time of the trial", None
    slowest, fastest = speeds
    # A trace may end before a limit is reached.
    least_s = PROBE_S if foreign else max(PROBE_S, accesses / fastest / _APART / quicker)
    likely_s = _likely(accesses, region["skip"], first or speeds, speeds)
    bounds = _bounds(least_s, accesses / slowest * _APART, time_limit_s, runs, likely_s=likely_s)
    return bounds, None, slowest


def _likely(
    accesses: int,
    skip: Extent | None,
    first: tuple[float, float],
    later: tuple[float, float],
) -> float:
    """Seconds that accesses take, those that are skipped at the speed that the first trial had.

    Where it is not known how many are skipped, all go at a speed between.
    """
    before, after = (math.sqrt(slowest * fastest) for slowest, fastest in (first, later))
    extent = {} if skip is None else bound("the extent", skip)
    if skip is not None and "accesses" not in extent:
        return accesses / math.sqrt(before * after)
    skipped = min(int(extent.get("accesses", 0)), accesses)
    return skipped / before + (accesses - skipped) / after


def _tried(
    machines: Sequence[System], work: Workload, **region: Any
) -> tuple[_Trial, Result | None]:
    """What a trial has seen and found; nothing found where nothing was simulated.

    Raises:
        KeyboardInterrupt: where a request to end came meanwhile: a trial's result is nobody's wish.
    """
    trial, heard = _Trial(), len(received)
    found: Result | None = None
    with contextlib.suppress(NoResultError):
        found = compare(machines, work, time_limit_s=PROBE_S, watch=trial, **region)
    if len(received) > heard or (found is not None and found.interrupted):
        raise KeyboardInterrupt
    return trial, found


class _Trial:
    """Watches a run that is tried, and gives the speeds that the slowest machine had."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._seen: list[tuple[float, list[int]]] = []

    def __call__(self, progress: Sequence[Progress]) -> None:
        accesses = [one.accesses for one in progress]
        if not self._seen or accesses != self._seen[-1][1]:
            self._seen.append((time.monotonic() - self._begun, accesses))

    def speeds(self) -> tuple[float, float] | None:
        """Accesses in a second, the least and the most of the whole trial and of its last part.

        They are those of the machine that goes slowest; nothing where one never went on.
        """
        moments = [(0.0, [0] * len(self._seen[0][1])), *self._seen] if self._seen else []
        found = []
        for early, late in ((0, -1), (len(moments) // 2, -1)):
            if len(moments) < 2 or moments[late][0] <= moments[early][0]:
                continue
            (begun_s, before), (ended_s, after) = moments[early], moments[late]
            gained = [b - a for a, b in zip(before, after, strict=True)]
            found.append(min(gained) / (ended_s - begun_s))
        return (min(found), max(found)) if found and min(found) > 0 else None


def _bounds(
    least_s: float,
    most_s: float,
    limit_s: float | None,
    runs: int,
    *,
    measured: bool = False,
    likely_s: float | None = None,
) -> dict[str, Any]:
    """Bounds of the time of all runs, and what is likely: between them unless it is given."""
    if limit_s is not None:
        least_s, most_s = min(least_s, limit_s), min(most_s, limit_s)
    middle_s = math.sqrt(least_s * most_s) if likely_s is None else likely_s
    return {
        "least": least_s * runs,
        "likely": min(max(middle_s, least_s), most_s) * runs,
        "most": most_s * runs,
        "measured": measured,
    }


def _memory(machines: Sequence[System], mapped_bytes: int | None) -> dict[str, Any]:
    """Bytes, roughly, all machines together, as far as it follows from what is mapped."""
    bounds = []
    for one in machines:
        found = parsed(_core.sizes(json.dumps(one.to_dict())))["memory"]
        if found is None:
            raise RunError("internal", f"{one.name} has no memory; please report it")
        bounds.append(found)
    per_million = sum(bound["bytes_per_million"] for bound in bounds)
    most = None
    if mapped_bytes is not None:
        most = sum(
            bound["bytes_per_million"] * min(mapped_bytes, bound["room_bytes"]) // 1_000_000
            for bound in bounds
        )
    return {"bytes_per_gib_touched": per_million * (1 << 30) // 1_000_000, "about_bytes": most}
