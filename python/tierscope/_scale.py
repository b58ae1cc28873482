"""Machines sized to what a workload touches."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from tierscope import _check, _core
from tierscope import format as fmt
from tierscope._call import core_errors, parsed
from tierscope._system import System
from tierscope._workload import Program, Workload
from tierscope.errors import ArgumentError, RunError

_MEND = "write a number above 0: 2 gives DRAM for half of the footprint"


def check_factor(factor: object) -> None:
    """Refuses what is no factor."""
    if isinstance(factor, bool) or not isinstance(factor, (int, float)):
        raise ArgumentError("wrong-type", f"the scale is {_check.shown(factor)}", _MEND)
    if not (math.isfinite(factor) and factor > 0):
        raise RunError("impossible-value", f"the scale is {factor:g}", _MEND)


def footprint_bytes(work: Workload) -> int:
    """What a workload touches, found by going through it once, on no machine.

    Raises:
        RunError: where that is not known before the workload has run, or it touches nothing.
    """
    if isinstance(work, Program):
        raise RunError(
            "unknown-footprint",
            "what a program touches is not known before it has run",
            "record it first (tierscope record -o app.tst -- PROGRAM), and run the recording",
        )
    with core_errors():
        found = _core.touched(_check.written(work.to_dict(), "the workload"))
    if not found:
        raise RunError("no-footprint", "the workload touches no memory", "name one that does")
    return found


def to_footprint(
    machines: Sequence[System],
    work: Workload,
    factor: float,
) -> list[tuple[System, str | None]]:
    """Each machine with DRAM for a ``factor``-th of what the workload touches, and what was done.

    Raises:
        RunError: where the footprint is not known.
        SpecError: where a machine cannot be so small.
    """
    check_factor(factor)
    footprint = footprint_bytes(work)
    with core_errors():
        systems = json.dumps([one.to_dict() for one in machines])
        dram_bytes = min(max(1, round(footprint / factor)), 1 << 56)
        sets = parsed(_core.scale(systems, dram_bytes))
        told = f"1/{factor:g} of the workload's footprint of {fmt.size(footprint)}"
        return [
            (one.with_sets([(path, value) for path, value in changes]), _note(changes, told))
            for one, changes in zip(machines, sets, strict=True)
        ]


def _note(changes: Sequence[tuple[str, str]], told: str) -> str | None:
    if not changes:
        return None
    values = ", ".join(f"{path} is {value}" for path, value in changes)
    return f"scaled to {told}: {values}"
