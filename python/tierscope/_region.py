"""The region of interest: what of a run is measured."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Literal, get_args

from tierscope._check import shown
from tierscope.errors import ArgumentError, RunError

_MOST = (1 << 64) - 1
_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_TIMES_PS = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}
_COUNT = re.compile(r"(-?\d+(?:\.\d+)?)\s*([kMGT]?)\s*(accesses|instructions)?", re.ASCII)
_TIME = re.compile(r"(-?\d+(?:\.\d+)?)\s*(ps|ns|us|ms|s)", re.ASCII)
_CASES = str.maketrans("Kgtm", "kGTM")
_MEND = 'write accesses (1000000 or "1M"), "2G instructions", or simulated time, such as "5ms"'
START, STOP = 1, 2
"""The marks of a program that bound its region: ``mark`` of the crate ``tierscope-system``."""

Warming = Literal["functional", "detailed", "untimed"]
"""How what comes before the region, and what a sampled run passes over, warms the systems: caches,
tables and DRAM become as they would, at once and at several times the speed; or all is simulated as
in the region."""

Extent = int | str
"""So much of a run: accesses, as a number or a text such as "100M"; "2G instructions"; or a
simulated time, such as "5ms"."""


def bound(what: str, extent: object) -> dict[str, int]:
    """An extent as the simulator takes it.

    Raises:
        ArgumentError: where it is neither a whole number nor a text.
        RunError: where it says nothing, or less than one access, instruction or picosecond.
    """
    if isinstance(extent, int) and not isinstance(extent, bool):
        return {"accesses": _counted(what, Decimal(extent), extent)}
    if not isinstance(extent, str):
        raise ArgumentError("wrong-type", f"{what} is {shown(extent)}", _MEND)
    text = extent.strip()
    if found := _TIME.fullmatch(text):
        number, unit = found.groups()
        return {"time_ps": _counted(what, Decimal(number) * _TIMES_PS[unit], extent)}
    if found := _COUNT.fullmatch(text):
        number, factor, kind = found.groups()
        count = _counted(what, Decimal(number) * _FACTORS[factor], extent)
        return {kind or "accesses": count}
    meant = _meant(text)
    mend = f'write "{meant}", or simulated time, such as "5ms"'
    raise RunError(
        "impossible-value", f"{what} is `{extent}`", mend if _COUNT.fullmatch(meant) else _MEND
    )


def _meant(text: str) -> str:
    """With factors as they are written: small k, large M, G and T."""
    return re.sub(r"(\d\s*)([Kgtm])\b", lambda it: it[1] + it[2].translate(_CASES), text)


def _in_order(sample: str) -> str:
    """A window and its period, the longer of which is the period."""
    parts = sample.split("/")
    found = [_COUNT.fullmatch(part.strip()) for part in parts]
    counts = [Decimal(one[1]) * _FACTORS[one[2]] for one in found if one is not None]
    return "/".join(reversed(parts)) if counts == sorted(counts, reverse=True) else sample


def windows(sample: object) -> tuple[int, int]:
    """Accesses of a window that is recorded, and of the period that it is in.

    Raises:
        ArgumentError: where it is no text.
        RunError: where it does not say both, as numbers of accesses.
    """
    mend = 'write the accesses of a window and of a period, such as "1M/100M"'
    if not isinstance(sample, str):
        raise ArgumentError("wrong-type", f"the sample is {shown(sample)}", mend)
    told = sample.split("/")
    if len(told) != 2:
        why = f"the sample is `{sample}`, which is not a window and a period with a slash between"
        raise RunError("impossible-value", why, mend)
    counts = []
    for part in told:
        found = _COUNT.fullmatch(part.strip())
        if found is None:
            why = f"the sample is `{sample}`: `{part.strip()}` is no number of accesses"
            meant = _in_order(_meant(sample))
            mend = mend if meant == sample else f'factors are k, M, G and T: write "{meant}"'
            raise RunError("impossible-value", why, mend)
        if found[3] == "instructions":
            why = f"the sample is `{sample}`: windows and periods are counted in accesses"
            raise RunError("impossible-value", why, mend)
        count = Decimal(found[1]) * _FACTORS[found[2]]
        # How few are enough is known where windows are made.
        counts.append(_counted("the sample", count, sample) if count else 0)
    return counts[0], counts[1]


def _counted(what: str, count: Decimal, extent: object) -> int:
    if count > _MOST:
        mend = "write less than 2^64 accesses, instructions or picoseconds (213 days)"
        raise RunError("impossible-value", f"{what} is {extent}", mend)
    if count < 1:
        negative = ", which is negative" if count < 0 else ""
        mend = "write at least one access, instruction or picosecond, or leave it out"
        raise RunError("impossible-value", f"{what} is {extent}{negative}", mend)
    if count != int(count):
        raise RunError("impossible-value", f"{what} is {extent}", "write a whole number of them")
    return int(count)


def options(
    skip: Extent | None,
    limit: Extent | None,
    starts: bool,
    stops_at_mark: bool,
    warming: object | None,
    passes_untimed: bool = False,
) -> dict[str, object]:
    """The simulator's options for a region, which marks of the program may begin and end.

    Args:
        skip: what comes before it.
        limit: its length.
        starts: whether a mark begins it.
        stops_at_mark: whether one ends it.
        warming: of what comes before it, and of what a sampled run passes over.
        passes_untimed: whether a sampled run passes over what can only be warmed without times.

    Raises:
        ArgumentError: where an extent is of the wrong type, or the warming is none.
        RunError: where an extent says nothing, or nothing comes before the region.
    """
    if warming is not None and (not isinstance(warming, str) or warming not in get_args(Warming)):
        mend = 'write "functional", "detailed" or "untimed"'
        raise ArgumentError("wrong-type", f"the warming is {shown(warming)}", mend)
    of_nothing = not starts and skip is None and not (passes_untimed and warming == "untimed")
    if warming is not None and of_nothing:
        reason = f"nothing comes before the region whose warming could be {warming}"
        mend = "say where the region begins: what is skipped, or a mark of the program"
        if warming == "untimed":
            reason = (
                "untimed warming has nothing to warm: nothing comes before the region, and no "
                "system that is sampled has a DRAM cache that prefetches"
            )
            mend = f"leave the warming out, or {mend}"
        raise RunError("usage", reason, mend)
    if starts and skip is not None:
        raise RunError(
            "usage",
            "the program begins the region, and so does what is skipped",
            "leave one of them out",
        )
    start: dict[str, int] | None = {"mark": START} if starts else None
    if skip is not None:
        start = bound("what is skipped", skip)
    stops = [{"mark": STOP}] if stops_at_mark else []
    if limit is not None:
        stops.append(bound("the limit", limit))
    return {"start": start, "stops": stops, "warming": warming or "functional"}
