"""Whole distributions of a result, as figures show them: latencies, accesses, queues and wear."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tierscope._shape import (
    Distribution,
    HeatMap,
    Queue,
    ResultData,
    SystemResult,
    WearClass,
)

_MOST_PS = 1 << 63

BINS_OF_A_DECADE = 10
"""Bins of a histogram of latencies: so many for each power of ten."""


def damage(system: SystemResult) -> str | None:
    """What of a system's distributions cannot be: the field, and why; nothing where all can."""
    found = system.get("latency_distribution")
    if found is not None:
        lengths = {len(found["from_ps"]), len(found["to_ps"]), len(found["counts"])}
        if len(lengths) != 1 or not sum(found["counts"]):
            return "latency_distribution: its lists differ in length, or it counts nothing"
    heat = system.get("heat_map")
    if heat is not None:
        columns = {len(row) for row in heat["counts"]}
        if len(heat["addresses"]) != len(heat["counts"]) or len(columns) != 1 or 0 in columns:
            return "heat_map: its rows are not as many as its addresses, or not as long as others"
        if not (heat["row_bytes"] > 0 and 0 < heat["column_ps"] < _MOST_PS):
            return "heat_map: row_bytes or column_ps is out of range"
    queues = system.get("queues")
    if queues is not None:
        held = queues["queues"].values()
        if len({len(each) for one in held for each in (one["means"], one["most"])}) > 1:
            return "queues: means and most differ in length"
        if not 0 < queues["column_ps"] < _MOST_PS:
            return "queues: column_ps is out of range"
    return None


def latencies(data: ResultData) -> dict[str, Distribution]:
    """The systems' histograms of latencies, of those that have one."""
    return {
        name: found
        for name, system in data["systems"].items()
        if (found := system.get("latency_distribution")) is not None
    }


def at_least(found: Distribution) -> list[tuple[float, float]]:
    """For each latency from which on there are some, in nanoseconds: the share that take as long.

    The complementary distribution function; exact at the edges of buckets.
    """
    left = total = sum(found["counts"])
    points = []
    for from_ps, count in zip(found["from_ps"], found["counts"], strict=True):
        points.append((from_ps * 1e-3, left / total))
        left -= count
    points.append((found["to_ps"][-1] * 1e-3, found["counts"][-1] / total))
    return points


def bins(found: Distribution) -> list[tuple[float, float, float]]:
    """Bins of latencies, tenths of a decade: from and to in nanoseconds, and the share in it.

    A bucket counts where its middle lies.
    """
    total = sum(found["counts"])
    counted: dict[int, int] = {}
    buckets = zip(found["from_ps"], found["to_ps"], found["counts"], strict=True)
    for from_ps, to_ps, count in buckets:
        middle_ns = max((from_ps + to_ps) * 0.5e-3, 1e-3)
        place = math.floor(math.log10(middle_ns) * BINS_OF_A_DECADE)
        counted[place] = counted.get(place, 0) + count

    def edge(place: int) -> float:
        return float(10.0 ** (place / BINS_OF_A_DECADE))

    return [(edge(k), edge(k + 1), counted[k] / total) for k in sorted(counted)]


@dataclass(frozen=True, slots=True)
class Map:
    """Accesses by address and time, with at most so many rows and columns as were asked for.

    Attributes:
        row_bytes: bytes of a row.
        column_s: seconds of a column.
        addresses: the first byte of each row, in order.
        counts: by row and column.
    """

    row_bytes: int
    column_s: float
    addresses: list[int]
    counts: list[list[int]]

    @property
    def gaps(self) -> list[int]:
        """Rows before which addresses are left out in which nothing was counted."""
        pairs = enumerate(pairwise(self.addresses), 1)
        return [row for row, (one, next_) in pairs if next_ != one + self.row_bytes]


def heat_map(found: HeatMap, rows: int, columns: int) -> Map:
    """A map of no more rows and columns than these: rows, joined two by two, stay aligned."""
    shift, counts = 0, {a // found["row_bytes"]: row for a, row in _rows(found)}
    while len(counts) > rows:
        shift += 1
        joined: dict[int, list[int]] = {}
        for key, row in counts.items():
            other = joined.get(key // 2)
            joined[key // 2] = row if other is None else _sum(other, row)
        counts = joined
    longest = max(len(row) for row in counts.values())
    width = -(-longest // columns)
    counts = {
        key: [sum(row[at : at + width]) for at in range(0, len(row), width)]
        for key, row in counts.items()
    }
    row_bytes = found["row_bytes"] << shift
    keys = sorted(counts)
    return Map(
        row_bytes=row_bytes,
        column_s=found["column_ps"] * width * 1e-12,
        addresses=[key * row_bytes for key in keys],
        counts=[counts[key] for key in keys],
    )


def _rows(found: HeatMap) -> Iterator[tuple[int, list[int]]]:
    return zip(found["addresses"], found["counts"], strict=True)


def _sum(one: Sequence[int], other: Sequence[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]


def heat_maps(data: ResultData, rows: int, columns: int) -> dict[str, Map]:
    """The systems' maps, of those that have one."""
    return {
        name: heat_map(found, rows, columns)
        for name, system in data["systems"].items()
        if (found := system.get("heat_map")) is not None
    }


def queue_names(data: ResultData) -> list[str]:
    """Queues that ever held anything on any system, from the cores down."""
    seen = dict.fromkeys(
        name
        for system in data["systems"].values()
        for name, queue in _queues(system).items()
        if queue["max"] > 0
    )
    order = ("os", "core", "memory", "host", "controller", "dram", "store")

    def place(name: str) -> tuple[int, str]:
        part = name.partition(".")[0]
        return (order.index(part) if part in order else len(order), name)

    return sorted(seen, key=place)


def _queues(system: SystemResult) -> Mapping[str, Queue]:
    found = system.get("queues")
    return {} if found is None else found["queues"]


def queue_series(system: SystemResult, name: str) -> list[tuple[float, float, int]]:
    """What a queue held over time: the end of each column in seconds, its mean and its most."""
    found = system.get("queues")
    if found is None or name not in found["queues"]:
        return []
    queue, column_s = found["queues"][name], found["column_ps"] * 1e-12
    columns = enumerate(zip(queue["means"], queue["most"], strict=True), 1)
    return [
        (number * column_s, mean, most)
        for number, (mean, most) in columns
        if mean is not None and most is not None
    ]


@dataclass(frozen=True, slots=True)
class Wear:
    """How parts of a store that wears have worn.

    Attributes:
        what: what wears: ``blocks`` or ``lines``.
        by: what wears them: ``erases`` or ``writes``.
        classes: so many of them so often.
        endurance: how often each stands it.
    """

    what: str
    by: str
    classes: list[WearClass]
    endurance: int


def wear(system: SystemResult) -> Wear | None:
    """How the store of a system has worn; nothing where none has, or does."""
    drive, nvm = system.get("drive"), system.get("nvm")
    if drive is not None and drive["erases_max"] > 0 and drive.get("wear"):
        return Wear("blocks", "erases", drive["wear"], drive["endurance"])
    if nvm is not None and nvm.get("wear"):
        return Wear("lines", "writes", nvm["wear"], nvm["endurance"])
    return None


def wears(data: ResultData) -> dict[str, Wear]:
    """How the stores of systems have worn, of those that have."""
    found = {name: wear(system) for name, system in data["systems"].items()}
    return {name: one for name, one in found.items() if one is not None}


def address(value: int) -> str:
    """An address, as programmers write it."""
    return f"0x{value:x}"
