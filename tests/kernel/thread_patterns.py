"""What the observer of threads that run at the same time does to files.

A pattern has the steps of each thread, as those of `patterns.py`, and the file that it uses by an
opening of its own: all the same one, of which each uses a part that no window of another reaches,
or a file each. Mappings are shared with the file.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import patterns
from advice_patterns import halves
from patterns import PAGE, Step

FILE_BYTES = 64 << 20
MOST_THREADS = 4
PART_PAGES = FILE_BYTES // PAGE // MOST_THREADS
USED_PAGES = PART_PAGES // 2
AHEAD_PAGES = PART_PAGES // 8
"""In front of what is used of a part; behind it is as much as three of the largest windows."""
WINDOWS_KIB = [128, 128, 128, 16, 64, 100, 512, 1024]

Order = Callable[[random.Random, int], Iterator[Step]]
READS: list[Order] = [
    patterns.sequential,
    patterns.sequential,
    patterns.strided,
    patterns.scattered,
    patterns.backwards,
    patterns.interleaved,
    patterns.advised,
]
FAULTS: list[Order] = [
    patterns.map_forwards,
    patterns.map_forwards,
    patterns.map_backwards,
    patterns.map_scattered,
    patterns.map_mixed,
    patterns.map_needed,
    patterns.map_sequential,
    patterns.map_random,
]


def moved(steps: Iterator[Step], pages: int) -> list[Step]:
    """The same steps so many pages further on in the file; nothing is stored."""
    found: list[Step] = []
    for what, *rest in steps:
        match what, rest:
            case "read", [int(at), int(size)]:
                found.append([what, at + pages * PAGE, size])
            case "map", [int(first), *others]:
                found.append([what, first + pages, *others])
            case "fadvise", [str(advice), int(at), int(size)] if size > 0:
                # No further than the part is used.
                size = min(size, (USED_PAGES * PAGE) - at)
                found.append([what, advice, at + pages * PAGE, size])
            case "store", [int(page)]:
                found.append(["load", page])
            case _:
                found.append([what, *rest])
    return found


def drawn(rng: random.Random, kinds: list[Order], one_file: bool) -> dict[str, Any]:
    """Threads, each with orders of its own: one of faults, or one of reads and another one."""
    orders, threads = [], []
    count = rng.choice([2, 3, 4])
    for thread in range(count):
        own = [rng.choice(kinds)]
        own += [rng.choice(kinds)] * (own[0] in READS)
        first = AHEAD_PAGES + PART_PAGES * thread * one_file
        orders.append(", ".join(order.__name__ for order in own))
        threads.append([step for order in own for step in moved(order(rng, USED_PAGES), first)])
    files = [thread * (not one_file) for thread in range(count)]
    return {"orders": orders, "files": files, "threads": threads}


def one_file(rng: random.Random) -> dict[str, Any]:
    """Reads of parts of one file."""
    return drawn(rng, READS, one_file=True)


def file_each(rng: random.Random) -> dict[str, Any]:
    """Reads of a file each."""
    return drawn(rng, READS, one_file=False)


def mapped(rng: random.Random) -> dict[str, Any]:
    """Faults of mappings of parts of one file."""
    return drawn(rng, FAULTS, one_file=True)


def mapped_each(rng: random.Random) -> dict[str, Any]:
    """Faults of mappings of a file each."""
    return drawn(rng, FAULTS, one_file=False)


def of_all_sorts(rng: random.Random) -> dict[str, Any]:
    """Reads and faults of parts of one file."""
    return drawn(rng, READS + FAULTS, one_file=True)


KINDS = [one_file, file_each, mapped, mapped_each, of_all_sorts]


def all_patterns(seed: int, each: int) -> Iterator[dict[str, Any]]:
    """`each` patterns of each kind: their name, half, window, files and steps by thread."""
    for kind in KINDS:
        for rng, about in halves(seed, each, f"threads {kind.__name__}"):
            window_kib = WINDOWS_KIB[0] if about["name"].endswith(" 0") else rng.choice(WINDOWS_KIB)
            yield {**about, "window_kib": window_kib, **kind(rng)}
