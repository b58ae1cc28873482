"""What a run would do, before it does it: the machines, and estimates of time and memory."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tierscope import _check, _core, _sampling, _scale, _trial
from tierscope import format as fmt
from tierscope._call import core_errors, parsed
from tierscope._region import Extent, Warming
from tierscope._run import check_functional, check_program, region_of
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
        about, unit = self.data["accesses_about"], _unit(self.work)
        if accesses is not None:
            known = [f"{fmt.count(accesses)} {unit}"]
        else:
            known = [] if about is None else [f"about {fmt.count(about)} {unit}"]
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
    foreseen: dict[str, Any] = dict.fromkeys(("accesses", "accesses_about", "mapped_bytes"))
    if isinstance(work, Program):
        check_program(work)
    else:
        foreseen = _foreseen(work)
    outlook = _trial.outlook(
        machines,
        work,
        _trial.Region(skip, limit, roi, warming, _sampling.EVERY if sampled else None),
        _trial.Known(
            foreseen["accesses_about"],
            foreseen.get("instructions_about"),
            foreseen.get("accesses_before_region"),
            foreseen["mapped_bytes"],
        ),
        time_limit_s=time_limit_s,
        runs=runs,
    )
    wall = outlook.wall_s
    if wall is not None and wanted is not None and not wall["measured"]:
        # A second run may have to measure more.
        wall["most"] *= 2
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
        "accesses_about": foreseen["accesses_about"],
        "mapped_bytes": foreseen["mapped_bytes"],
        "slowest_accesses_per_s": outlook.slowest_accesses_per_s,
        "wall_s": wall,
        "wall_before_region_s": outlook.before_s,
        "wall_unknown": outlook.unknown,
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
