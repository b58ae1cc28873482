"""What the observer of advice and of locked memory does to a file.

A pattern of advice is steps on a file whose last page is incomplete, which is advised to be read at
random, so that only what is asked for is read:

- `read FIRST PAGES`: page by page; `write FIRST PAGES` and `sync` likewise.
- `willneed OFFSET BYTES`, `dontneed OFFSET BYTES`: advice on the file, to its end where 0 bytes.
  What is needed has come when the next step begins.
- `load FIRST PAGES`, `store FIRST PAGES`: through a mapping that is shared with the file.
- `lock FIRST PAGES`, `unlock FIRST PAGES`: of the mapping.
- `unmap`: all of it, to be mapped again by the next step that needs it.
- `check`: how many pages are in the page cache.

A pattern of locked memory is a pattern of reclaim, of which pages are locked first.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from reclaim_patterns import LIMIT_PAGES, Pattern, mapped_skewed, moving, skewed_reads, uniform

PAGE = 4096
PAGES = 512
FILE_BYTES = PAGES * PAGE - 1000
Step = tuple[str | int, ...]


def some(rng: random.Random) -> tuple[int, int]:
    """Some pages in a row."""
    first = rng.randrange(PAGES)
    return first, min(rng.choice([1, 3, 16, 100, 300]), PAGES - first)


def bytes_of(rng: random.Random) -> tuple[int, int]:
    """A range of bytes, of whole pages or not, which may end where the file does, or behind it."""
    first, pages = some(rng)
    offset = first * PAGE + rng.choice([0, 0, 1, 2048, 4095])
    kind = rng.randrange(8)
    if kind == 0:
        return offset, 0
    if kind == 1:
        return offset, max(FILE_BYTES - offset, 1)
    if kind == 2:
        return offset, PAGES * PAGE + rng.choice([0, 10, PAGE]) - offset
    return offset, max(pages * PAGE - rng.choice([0, 0, 1, 3000]), 1)


def advised(rng: random.Random) -> Iterator[Step]:
    """Pages come by calls and by advice, and go by advice."""
    for _ in range(12):
        yield ("read", *some(rng)) if rng.random() < 0.5 else ("willneed", *bytes_of(rng))
        yield "dontneed", *bytes_of(rng)
        yield ("check",)


def mapped(rng: random.Random) -> Iterator[Step]:
    """Some are mapped, or have been, when they are to go."""
    for _ in range(12):
        yield ("read", *some(rng)) if rng.random() < 0.5 else ("willneed", *bytes_of(rng))
        for _ in range(rng.randrange(4)):
            yield "load", *some(rng)
        if rng.random() < 0.3:
            yield ("unmap",)
        yield "dontneed", *bytes_of(rng)
        yield ("check",)


def written(rng: random.Random) -> Iterator[Step]:
    """Some have been written, and are clean again."""
    for _ in range(12):
        yield ("write", *some(rng)) if rng.random() < 0.5 else ("store", *some(rng))
        if rng.random() < 0.5:
            yield ("unmap",)
        yield ("sync",)
        yield "dontneed", *bytes_of(rng)
        yield ("check",)


def dirty(rng: random.Random) -> Iterator[Step]:
    """Some are dirty when they are to go, and begin to be written."""
    for _ in range(12):
        yield "read", *some(rng)
        yield ("write", *some(rng)) if rng.random() < 0.5 else ("store", *some(rng))
        if rng.random() < 0.5:
            yield ("unmap",)
        yield "dontneed", *bytes_of(rng)
        yield ("check",)
        yield ("sync",)


def locked(rng: random.Random) -> Iterator[Step]:
    """Some are locked, which brings them, and keeps them."""
    for _ in range(12):
        yield rng.choice(["lock", "lock", "unlock"]), *some(rng)
        yield rng.choice(["read", "load"]), *some(rng)
        if rng.random() < 0.2:
            yield ("unmap",)
        yield "dontneed", *bytes_of(rng)
        yield ("check",)


ADVICE: list[Callable[[random.Random], Iterator[Step]]] = [advised, mapped, written, dirty, locked]


@dataclass
class Locked:
    """Accesses to a file larger than memory may be, of which some of either is locked first."""

    accesses: Pattern
    file: tuple[int, int]
    """Pages of the file that are locked in a mapping: the first, and how many."""
    anonymous_pages: int
    """Pages of anonymous memory that are locked."""
    until: int
    """Accesses before all is unlocked."""
    unneeded: int = 0
    """Accesses after each of which the whole file is not needed any more; never where 0."""


def beside_locked(rng: random.Random, accesses: Pattern) -> Locked:
    """Up to half of what memory may be is locked."""
    pages = rng.randrange(100, LIMIT_PAGES // 2)
    of_file = rng.choice([0, pages // 2, pages])
    first = rng.randrange(4000)
    steps = len(accesses.steps)
    until = steps if rng.random() < 0.5 else rng.randrange(steps // 3, steps)
    return Locked(accesses, (first, of_file), pages - of_file, until)


def given_up(rng: random.Random, accesses: Pattern) -> Locked:
    """Nothing is locked, and all is given up now and then, with what is known of it."""
    return Locked(accesses, (0, 0), 0, len(accesses.steps), rng.choice([700, 1500, 3000]))


LOCKED: list[Callable[[random.Random], Pattern]] = [skewed_reads, moving, uniform, mapped_skewed]


def halves(seed: int, each: int, name: str) -> Iterator[tuple[random.Random, dict[str, str]]]:
    """For so many patterns of a kind, what is drawn from, their names, and their halves."""
    for number in range(each):
        drawn = random.Random(f"{seed} half {name} {number}").random()
        half = "development" if number == 0 or drawn < 0.3 else "judgement"
        yield random.Random(f"{seed} {name} {number}"), {"name": f"{name} {number}", "half": half}
