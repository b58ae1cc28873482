"""Who causes it: misses and stalls by what of the program's memory they concern."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath

from tierscope import format as fmt
from tierscope._shape import AreaResult, ResultData

Block = tuple[str, list[tuple[str, dict[str, str]]]]
"""A heading, and rows: a label and a cell for each system."""

_MOST = 12


def by_area(data: ResultData) -> Iterator[Block]:
    """Rows by area, the one for which threads stood still longest first.

    The time that threads stood still is given with its share of all threads' time.
    """
    systems = data["systems"]
    longest: dict[str, float] = {}
    for system in systems.values():
        for name, area in system["areas"].items():
            longest[name] = max(longest.get(name, 0.0), area["stall_ns"])
    names = sorted(longest, key=lambda name: (-longest[name], name))
    labels = _labels(names)
    totals = {name: sum(system["time_breakdown_ns"].values()) for name, system in systems.items()}

    def stall(area: AreaResult, system: str) -> str:
        percent = 100 * area["stall_ns"] / (totals[system] or 1)
        share = "<1%" if percent < 1 else f"{percent:.0f}%"
        return f"{fmt.nanoseconds(area['stall_ns'])} {share:>4}"

    def rows(cell: Callable[[AreaResult, str], str]) -> list[tuple[str, dict[str, str]]]:
        kept = [
            (
                labels[name],
                {
                    system: cell(result["areas"][name], system)
                    if name in result["areas"]
                    else fmt.ABSENT
                    for system, result in systems.items()
                },
            )
            for name in names[:_MOST]
        ]
        left_out = len(names) - _MOST
        return kept + ([(f"  and {left_out} more: --json", {})] if left_out > 0 else [])

    yield "Threads stood still for", rows(stall)
    yield (
        "Accesses and calls that waited for the store",
        rows(lambda a, _: fmt.count(a["store_accesses"] + a["call_waits"])),
    )
    yield "Lines read from main memory", rows(lambda a, _: fmt.count(a["memory_reads"]))


def _labels(names: list[str]) -> dict[str, str]:
    """Files by the last part of their path, unless two would then be called alike."""
    last = {name: PurePath(name).name or name for name in names}
    called = list(last.values())
    return {
        name: f"  {short if called.count(short) == 1 else name}" for name, short in last.items()
    }
