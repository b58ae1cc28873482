"""What the observer of swap does to anonymous memory, and to a file beside it.

A step is a page, and whether it is stored to. Two sets of patterns: `windows` of memory that is all
in swap, in the order in which it went there, of which each page that is touched comes back with
what readahead finds right, and `limited` of memory that is larger than may be in memory, some of
them beside a file that is read.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from advice_patterns import halves

PAGES = 1280
"""Of memory that is all in swap: more than two page-table pages have."""
WARM_STEPS = 8
APART = 128
WARM_PAGES = WARM_STEPS * APART
"""Behind it, touched first and far apart: readahead by slots goes by what all have read before."""
LIMIT_PAGES = 1536
"""What the control group may use: 6 MiB."""
STEPS = 4000
SWAPPINESS = [0, 10, 60, 100, 200]
Step = tuple[bool, int]
"""Whether it is a store, and the page."""


@dataclass
class Windows:
    """Memory that is all in swap."""

    steps: list[Step]
    order: list[int] = field(default_factory=list)
    """Its pages in the order in which they go to swap, before those behind them."""
    parts: list[int] = field(default_factory=list)
    """Where mappings begin."""
    power: int = 3
    """Pages read at once, as a power of two (`page-cluster`)."""


def forwards(rng: random.Random, most: int = PAGES) -> list[int]:
    """From some page on, some left out."""
    left_out = rng.choice([0.0, 0.0, 0.1, 0.4])
    return [page for page in range(rng.randrange(64), most) if rng.random() >= left_out]


def backwards(rng: random.Random, most: int = PAGES) -> list[int]:
    """The same from the end."""
    return forwards(rng, most)[::-1]


def strided(rng: random.Random, most: int = PAGES) -> list[int]:
    """Each so manieth page, in either direction."""
    return list(range(rng.randrange(8), most, rng.randrange(2, 21)))[:: rng.choice([1, 1, -1])]


def scattered(rng: random.Random, most: int = PAGES) -> list[int]:
    """Pages anywhere."""
    return rng.sample(range(most), rng.randrange(most // 4, most))


def two_streams(rng: random.Random, most: int = PAGES) -> list[int]:
    """Two ways in turn, each in its half."""
    half = most // 2
    ways = [rng.choice([forwards, backwards, strided])(rng, half) for _ in range(2)]
    ways[1] = [half + page for page in ways[1]]
    found, turn = [], 0
    while any(ways):
        way = ways[turn % 2] or ways[(turn + 1) % 2]
        count = rng.choice([1, 1, 2, 5])
        found += way[:count]
        del way[:count]
        turn += 1
    return found


def pieces(rng: random.Random, most: int = PAGES) -> list[int]:
    """Runs of pages, each somewhere else."""
    found: list[int] = []
    while len(found) < most // 2:
        first, count = rng.randrange(most), rng.randrange(1, 40)
        run = list(range(first, min(first + count, most)))
        found += run[:: rng.choice([1, 1, -1])]
    return found


def mixed(rng: random.Random, most: int = PAGES) -> list[int]:
    """A part of each, one behind the other."""
    found: list[int] = []
    for _ in range(6):
        way = rng.choice([forwards, backwards, strided, scattered, two_streams])(rng, most)
        first = rng.randrange(len(way))
        found += way[first : first + most // 4]
    return found


Ways = Callable[[random.Random], list[int]]
WAYS: list[Ways] = [forwards, backwards, strided, scattered, two_streams, pieces, mixed]


def stored(rng: random.Random, pages: list[int]) -> list[Step]:
    """Loads, stores, or both."""
    share = rng.choice([0.0, 0.0, 0.5, 1.0])
    return [(rng.random() < share, page) for page in pages]


def ordered(rng: random.Random, number: int) -> list[int]:
    """The order in which pages go to swap: that of the memory, or parts of it in another."""
    size = 1 if number == 0 else rng.choice([1, 1, 4, 16, 64])
    blocks = [list(range(first, first + size)) for first in range(0, PAGES, size)]
    if size > 1:
        rng.shuffle(blocks)
    elif number and rng.random() < 0.5:
        step = rng.choice([2, 3, 5, 9])
        return [page for first in range(step) for page in range(first, PAGES, step)]
    return [page for block in blocks for page in block]


def windows(seed: int, each: int) -> Iterator[tuple[dict[str, str], Windows]]:
    """`each` patterns of each way: name and half, and the steps."""
    warm = [(False, PAGES + page) for page in range(APART // 2, WARM_PAGES, APART)]
    for way in WAYS:
        for number, (rng, about) in enumerate(halves(seed, each, way.__name__)):
            order = ordered(rng, number)
            several = number > 0 and rng.random() < 0.5
            cuts = sorted(rng.sample(range(1, PAGES), 3)) if several else []
            power = 3 if number < 2 else rng.choice([1, 2, 3, 3, 4, 5, 6])
            steps = warm + stored(rng, way(rng))
            yield about, Windows(steps, order, [0, *cuts, PAGES], power)


@dataclass
class Limited:
    """Memory that is larger than may be in memory; a file that is read has the pages behind it."""

    pages: int
    steps: list[Step]
    file_pages: int = 0


def in_circles(rng: random.Random, pages: int) -> Iterator[int]:
    """From start to end, again and again."""
    del rng
    while True:
        yield from range(pages)


def back_and_forth(rng: random.Random, pages: int) -> Iterator[int]:
    """From end to start, and from start to end."""
    del rng
    while True:
        yield from reversed(range(pages))
        yield from range(pages)


def in_strides(rng: random.Random, pages: int) -> Iterator[int]:
    """Each so manieth page, again and again."""
    step = rng.randrange(2, 9)
    while True:
        for first in range(step):
            yield from range(first, pages, step)


def anywhere(rng: random.Random, pages: int) -> Iterator[int]:
    """Pages anywhere."""
    while True:
        yield rng.randrange(pages)


def skewed(rng: random.Random, pages: int) -> Iterator[int]:
    """Pages of which some are wanted far more than others."""
    scattered_pages = rng.sample(range(pages), pages)
    while True:
        yield scattered_pages[int(pages * rng.random() ** 3)]


def in_two(rng: random.Random, pages: int) -> Iterator[int]:
    """Two ways in turn, each in its half."""
    ways = [in_circles(rng, pages // 2), anywhere(rng, pages - pages // 2)]
    while True:
        yield next(ways[0])
        yield pages // 2 + next(ways[1])


def in_turn(rng: random.Random, pages: int) -> Iterator[int]:
    """Some of one way, and then of another."""
    ways = [in_circles, back_and_forth, anywhere, skewed]
    while True:
        way = rng.choice(ways)(rng, pages)
        for _ in range(rng.randrange(200, 1200)):
            yield next(way)


Endless = Callable[[random.Random, int], Iterator[int]]
ENDLESS: list[Endless] = [in_circles, back_and_forth, in_strides, anywhere, skewed, in_two, in_turn]


def limited(seed: int, each: int) -> Iterator[tuple[dict[str, Any], Limited]]:
    """`each` patterns of each way on anonymous memory alone."""
    for way in ENDLESS:
        for number, (rng, about) in enumerate(halves(seed, each, way.__name__)):
            pages = rng.randrange(1800, 4000)
            ways = way(rng, pages)
            # Of what went to swap first, so that readahead by slots forgets what others have read.
            warm = [(False, page) for page in range(16, 32 * WARM_STEPS, 32)]
            steps = warm + stored(rng, [next(ways) for _ in range(STEPS)])
            power = 0 if number == 2 else 3
            more = {"rotational": number % 2 == 1, "power": power, "swappiness": [60]}
            yield about | more, Limited(pages, steps)


def beside(
    rng: random.Random, memory: Iterator[int], file: Iterator[int], every: int
) -> Iterator[int]:
    """Of so many steps, one is of the file."""
    while True:
        yield next(file) if rng.randrange(every) == 0 else next(memory)


BALANCED: dict[str, tuple[Endless, Endless]] = {
    "memory_anywhere_file_anywhere": (anywhere, anywhere),
    "memory_skewed_file_once": (skewed, in_circles),
    "memory_in_circles_file_skewed": (in_circles, skewed),
    "memory_skewed_file_skewed": (skewed, skewed),
}


def balanced(seed: int, each: int) -> Iterator[tuple[dict[str, Any], Limited]]:
    """`each` patterns of memory and a file of each kind, at each swappiness.

    The memory alone fits: where `swappiness` is 0 it does not go to swap for a group.
    """
    for name, (of_memory, of_file) in BALANCED.items():
        for rng, about in halves(seed, each, name):
            pages, file_pages = rng.randrange(600, 1300), rng.randrange(900, 3000)
            every = rng.choice([2, 2, 3, 5])
            file = (pages + page for page in of_file(rng, file_pages))
            ways = beside(rng, of_memory(rng, pages), file, every)
            steps = stored(rng, [next(ways) for _ in range(STEPS)])
            steps = [(store and page < pages, page) for store, page in steps]
            more = {"rotational": False, "power": 3, "swappiness": SWAPPINESS}
            yield about | more, Limited(pages, steps, file_pages)
