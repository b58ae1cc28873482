"""What the observer of write-back does to a file that is in memory.

A pattern has so many dirty pages above which the kernel writes in the background, and for how long
pages may be dirty; its steps are batches of pages that are written, or stored to through a shared
mapping, each with a pause behind it.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

FILE_PAGES = 8192
BATCH = 64
WRITES = 12800
NEVER_MS = 600_000


@dataclass
class Pattern:
    """Batches of pages, and the kernel's settings."""

    batches: list[list[int]]
    pause_ms: int = 2
    background_pages: int = 1024
    expire_ms: int = NEVER_MS
    interval_ms: int = 500
    stores: bool = field(default=False)


def batches(pages: Iterator[int], count: int = WRITES) -> list[list[int]]:
    """So many pages, in batches."""
    return [[next(pages) for _ in range(BATCH)] for _ in range(count // BATCH)]


def endless(draw: Callable[[], int]) -> Iterator[int]:
    """What is drawn, again and again."""
    while True:
        yield draw()


def scattered(rng: random.Random) -> Pattern:
    """Writes anywhere in a part of the file that is larger than what may be dirty."""
    pages = rng.randrange(1800, FILE_PAGES)
    background = rng.choice([512, 1024, 1500])
    return Pattern(batches(endless(lambda: rng.randrange(pages))), background_pages=background)


def skewed(rng: random.Random) -> Pattern:
    """Some pages are written far more often than others."""
    pages, power = rng.randrange(4000, FILE_PAGES), rng.choice([2, 3])
    order = rng.sample(range(pages), pages)
    draw = endless(lambda: order[int(pages * rng.random() ** power)])
    return Pattern(batches(draw), background_pages=rng.choice([512, 1024]))


def passes(rng: random.Random) -> Pattern:
    """A part of the file is written from start to end, again and again."""
    pages = rng.randrange(1800, FILE_PAGES)
    count = iter(range(WRITES))
    return Pattern(batches(endless(lambda: next(count) % pages), WRITES - BATCH))


def moving(rng: random.Random) -> Pattern:
    """A set of pages that is written again and again, and then another one."""
    pages, sets = rng.randrange(300, 900), rng.choice([2, 4, 6])
    count = iter(range(WRITES))
    draw = endless(lambda: (next(count) * sets // WRITES * 1200) + rng.randrange(pages))
    return Pattern(batches(draw, WRITES - BATCH))


def stored(rng: random.Random) -> Pattern:
    """Stores through a mapping, anywhere in a part of the file."""
    pattern = scattered(rng)
    pattern.stores = True
    return pattern


def expiring(rng: random.Random) -> Pattern:
    """Few pages are dirty, which are written when they have been for too long, many times over."""
    pages = rng.randrange(100, 800)
    draw = endless(lambda: rng.randrange(pages))
    rounds = rng.choice([75, 150])
    return Pattern(
        batches(draw, rounds * BATCH),
        pause_ms=15_000 // rounds,
        background_pages=3000,
        expire_ms=rng.choice([300, 600, 1000]),
        interval_ms=rng.choice([100, 200]),
        stores=rng.random() < 0.3,
    )


KINDS: list[Callable[[random.Random], Pattern]] = [
    scattered,
    skewed,
    passes,
    moving,
    stored,
    expiring,
]
