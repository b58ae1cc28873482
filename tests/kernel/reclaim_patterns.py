"""What the observer of reclaim does to a file that is larger than memory may be.

A step is an access to a page: a pread of as many pages as the pattern says from there on, or a load
from the mapping of the whole file.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

LIMIT_PAGES = 1536
"""What the control group may use: 6 MiB."""
FILE_PAGES = 16384
STEPS = 8000
Step = tuple[bool, int]
"""Whether it is a load, and the page."""


@dataclass
class Pattern:
    """Steps, and what they have in common."""

    steps: list[Step]
    read_pages: int = 1
    random: bool = True
    """The file is advised so, that only what is asked for is read."""


def skewed(rng: random.Random, pages: int) -> int:
    """A page, of which the first are wanted most."""
    return int(pages * rng.random() ** 3)


def beside_a_scan(rng: random.Random, hot: int, every: int, load: bool) -> Iterator[Step]:
    """Of so many accesses, one goes on in a file that is read once."""
    scan = hot + 512
    for i in range(STEPS):
        if i % (every + 1):
            yield load, rng.randrange(hot)
        else:
            yield False, scan
            scan = scan + 1 if scan + 1 < FILE_PAGES else hot + 512


def hot_and_scan(rng: random.Random) -> Pattern:
    """Pages that are wanted again and again, beside a file that is read once."""
    hot, every, advised = rng.randrange(300, 900), rng.choice([1, 2, 4]), rng.random() < 0.5
    return Pattern(list(beside_a_scan(rng, hot, every, load=False)), random=advised)


def skewed_reads(rng: random.Random) -> Pattern:
    """Reads of which some are wanted far more than others."""
    pages = rng.randrange(2000, 6000)
    scattered = rng.sample(range(pages), pages)
    return Pattern([(False, scattered[skewed(rng, pages)]) for _ in range(STEPS)])


def loops(rng: random.Random) -> Pattern:
    """A file read from start to end, again and again, that is a little too large."""
    size, advised = rng.choice([1, 4, 16]), rng.random() < 0.4
    pages = rng.randrange(1300, 2600) // size * size
    count = min(STEPS, 4 * pages // size)
    steps = [(False, i * size % pages) for i in range(count)]
    return Pattern(steps, read_pages=size, random=advised)


def moving(rng: random.Random) -> Pattern:
    """A set of pages that are wanted again and again, and then another one."""
    pages, sets = rng.randrange(550, 1350), rng.choice([2, 3, 4])
    firsts = [i * sets // STEPS * 1500 for i in range(STEPS)]
    return Pattern([(False, first + rng.randrange(pages)) for first in firsts])


def uniform(rng: random.Random) -> Pattern:
    """Reads anywhere in somewhat more than fits."""
    pages, size = rng.randrange(1700, 3400), rng.choice([1, 1, 2])
    return Pattern([(False, rng.randrange(pages)) for _ in range(STEPS)], read_pages=size)


def mapped_skewed(rng: random.Random) -> Pattern:
    """Loads from the mapping, of which some are wanted far more than others."""
    pages = rng.randrange(2000, 6000)
    scattered = rng.sample(range(pages), pages)
    return Pattern([(True, scattered[skewed(rng, pages)]) for _ in range(STEPS)])


def mapped_hot_and_scan(rng: random.Random) -> Pattern:
    """Pages of the mapping that are wanted again and again, beside a file that is read once."""
    hot, every = rng.randrange(300, 900), rng.choice([1, 2])
    return Pattern(list(beside_a_scan(rng, hot, every, load=True)), random=rng.random() < 0.5)


KINDS: list[Callable[[random.Random], Pattern]] = [
    hot_and_scan,
    skewed_reads,
    loops,
    moving,
    uniform,
    mapped_skewed,
    mapped_hot_and_scan,
]
WINDOWS_KIB = [128, 128, 64, 512]


def all_patterns(seed: int, each: int) -> Iterator[tuple[dict[str, object], Pattern]]:
    """`each` patterns of each kind: name, half and window, and the steps."""
    for number in range(each):
        for kind in KINDS:
            rng = random.Random(f"{seed} {kind.__name__} {number}")
            window_kib = WINDOWS_KIB[0] if number == 0 else rng.choice(WINDOWS_KIB)
            developing = (
                number == 0 or random.Random(f"{seed} half {kind.__name__} {number}").random() < 0.3
            )
            about: dict[str, object] = {
                "name": f"{kind.__name__} {number}",
                "half": "development" if developing else "judgement",
                "window_kib": window_kib,
            }
            yield about, kind(rng)
