"""Sampling: long runs, most of which is passed over without detail and estimated from the rest."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tierscope import _core
from tierscope._call import core_errors
from tierscope._check import flag, shown
from tierscope._shape import SamplingResult, SystemResult
from tierscope._system import System
from tierscope._workload import Program, Recorded, Workload
from tierscope.errors import ArgumentError, RunError

EVERY = 20
"""One unit in so many is measured, unless a precision asks for more."""
_DENSEST = 3
_MARGIN = 1.2
"""A run for a precision measures so many times the units that it needs by the first run."""
_SHARE = re.compile(r"(?:±\s*)?(-?(?:\d+(?:\.\d{1,12})?|\.\d{1,12}))\s*(%?)", re.ASCII)
_MEND = 'write a share such as 0.03, or a text such as "3%"'

CUT_BY_CLOCK = "the time limit ended a denser run for the precision: this is the run before it"
CUT_BY_REQUEST = "an interrupt ended a denser run for the precision: this is the run before it"

Precision = float | str
"""Half the width that the interval of a time may have, as a share of it: 0.03 or ``"3%"``."""


def share(precision: object) -> float | None:
    """A precision as a share of one.

    Raises:
        ArgumentError: where it is neither a number nor a text.
        RunError: where it says nothing, or no share between 0 and 1.
    """
    if precision is None:
        return None
    if isinstance(precision, bool) or not isinstance(precision, int | float | str):
        raise ArgumentError("wrong-type", f"the precision is {shown(precision)}", _MEND)
    in_percent = False
    if isinstance(precision, str):
        found = _SHARE.fullmatch(precision.strip())
        if found is None:
            raise RunError("impossible-value", f"the precision is `{precision}`", _MEND)
        in_percent = found[2] == "%"
        value = float(found[1]) / (100 if in_percent else 1)
    else:
        value = float(precision)
    if math.isfinite(value) and 0 < value < 1:
        return value
    reason, mend = "must lie between 0 and 100 %", _MEND
    if 1 <= value < 100 and not in_percent:
        reason, mend = f"would be {100 * value:g} %", f"did you mean {value:g}%?"
    raise RunError("impossible-value", f"the precision is {precision}, which {reason}", mend)


def asked(sample: object, precision: object, work: Workload) -> tuple[bool, float | None]:
    """Whether a run is sampled, and how precise it has to be: a precision asks for sampling.

    Raises:
        ArgumentError: where one is of the wrong type.
        RunError: where the precision is none, or would run a program twice; where the workload is
            a sample.
    """
    sampled, wanted = flag(sample, "sampling"), share(precision)
    if wanted is not None and isinstance(work, Program):
        raise RunError(
            "usage",
            "a precision may take a second run, and a program would do twice what it does",
            "record it first, and give the recording; or sample it without a precision",
        )
    if sampled or wanted is not None:
        check_work(work)
    return sampled or wanted is not None, wanted


def check_work(work: Workload) -> None:
    """Refuses a workload that cannot be sampled.

    Raises:
        RunError: where it is a sample already, or cannot be read.
    """
    if not isinstance(work, Recorded):
        return
    with core_errors():
        is_sample = _core.is_sample(json.dumps(work.to_dict()))
    if is_sample:
        raise RunError(
            "usage",
            "the recording is a sample already, of windows of its program, and its replay "
            "estimates the rest",
            "leave the sampling of the run out",
        )


def check_machines(machines: Sequence[System], warming: object = "functional") -> None:
    """Refuses machines that cannot be sampled where they are warmed so.

    Raises:
        RunError: with the first of them, and why.
    """
    with core_errors():
        systems = json.dumps([one.to_dict() for one in machines])
        _core.check_sampling(systems, json.dumps(warming or "functional"))


def passes_untimed(machines: Sequence[System], sampled: object) -> bool:
    """Whether a run passes over what only warming without times can pass over.

    So it is where it is sampled and the DRAM cache of a machine prefetches: such a warming is of
    something, then, wherever the region begins.
    """
    hybrids = [one.to_dict().get("hybrid") or {} for one in machines]
    return bool(sampled) and any(one.get("prefetch_pages", 0) > 0 for one in hybrids)


def plans(machines: Sequence[System]) -> list[tuple[int, int, int] | None]:
    """Of each machine that can be sampled, a unit, what is in detail before it, and a period."""
    return _core.sampling_plans(json.dumps([one.to_dict() for one in machines]))


def densest(machines: Sequence[System]) -> int:
    """One unit in so many, with what is in detail before it, leaves something out on each."""
    rooms = [
        math.ceil(detail_ps / unit_ps) + 2
        for unit_ps, detail_ps, _ in filter(None, plans(machines))
    ]
    return max([_DENSEST, *rooms])


def denser(systems: Mapping[str, SystemResult], wanted: float, most: int = _DENSEST) -> int | None:
    """One unit in how many a second run measures, ``most`` at least; nothing if it need not."""
    told = [one for one in (system.get("sampling") for system in systems.values()) if one]
    least = EVERY
    for sampling in told:
        half = sampling["half_widths"]["time"]
        if half is None:
            least = most
        elif half > wanted:
            fits = (one for one in range(EVERY, most, -1) if _half(sampling, one) <= wanted)
            least = min(least, next(fits, most))
    return least if least < EVERY else None


def _half(sampling: SamplingResult, every: int) -> float:
    """Half the width of the time's interval with one unit in so many, by that with ``EVERY``.

    Sampling's error shrinks with the square root of the number of units, and what warming leaves
    out with what is passed over.
    """
    half, left_out = sampling["half_widths"]["time"] or 0.0, sampling["warming_error"]
    of_units = max(0.0, half**2 - left_out**2) * _MARGIN * every / EVERY
    detailed = sampling["detailed_share"]
    passed_over = max(0.0, 1.0 - detailed * EVERY / every) / max(1.0 - detailed, 1e-9)
    return math.hypot(math.sqrt(of_units), left_out * passed_over)


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def too_wide(system: SystemResult, wanted: float) -> str | None:
    """What is said of a system whose time is less precise than was asked for."""
    sampling = system.get("sampling")
    if sampling is None:
        return None
    half = sampling["half_widths"]["time"]
    if half is not None and half <= wanted:
        return None
    found = "has no interval" if half is None else f"is known within ±{_percent(half)}"
    if half is not None and sampling["warming_error"] >= wanted:
        return (
            f"the time {found}, and ±{_percent(wanted)} was asked for: what is passed over is "
            f"off by up to ±{_percent(sampling['warming_error'])} on such machines; "
            "run it without sampling"
        )
    return (
        f"the time {found}, and ±{_percent(wanted)} was asked for: this run has no more units "
        "than it measured; run it without sampling, or run more of the workload"
    )


def tell_of_detail(systems: Mapping[str, SystemResult]) -> None:
    """Notes of systems whose runs were to be sampled that they ended before that began."""
    for system in systems.values():
        if system.get("sampling") is None:
            system["notes"].append(
                "it ended before anything was passed over: all of it is in detail, and no estimate"
            )


def options(sampled: bool, every: int | None = None) -> dict[str, Any]:
    """The simulator's options for it."""
    return {"sampling": {"every": every} if sampled else None}
