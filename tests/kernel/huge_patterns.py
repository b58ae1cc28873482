"""What the observer of huge pages does to anonymous memory that is larger than may be in memory.

A step is a store to a page, a store to each page of a huge page one behind the other, or the advice
that pages may be dropped. Huge pages are wanted of all that is touched, but for ranges that refuse
them.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

HUGE_PAGES = 512
"""Pages of a huge page."""
LIMIT_PAGES = 8192
"""What the control group may use: 32 MiB, and so some huge pages."""
STORE, FILL, DROP = range(3)
Step = tuple[int, int, int]
"""What, and the first page, and how many pages."""


@dataclass
class Pattern:
    """Steps, and what they have in common."""

    steps: list[Step]
    refused: list[tuple[int, int]] = field(default_factory=list)
    """First page, and pages, that are to have no huge pages."""


def filled(huge: range) -> list[Step]:
    """Stores to all pages of some huge pages."""
    return [(FILL, number * HUGE_PAGES, HUGE_PAGES) for number in huge]


def once(rng: random.Random) -> Pattern:
    """All is written once, from the start to the end."""
    return Pattern(filled(range(rng.randrange(20, 60))))


def again_at_random(rng: random.Random) -> Pattern:
    """More than fits is written, and then pages of it anywhere."""
    huge = rng.randrange(18, 30)
    stores = [(STORE, rng.randrange(huge * HUGE_PAGES), 1) for _ in range(rng.randrange(300, 900))]
    return Pattern(filled(range(huge)) + stores)


def again_in_turn(rng: random.Random) -> Pattern:
    """More than fits is written, and some of it a second time in the same order."""
    huge, again = rng.randrange(18, 28), rng.randrange(2, 6)
    return Pattern(filled(range(huge)) + filled(range(again)))


def sparse(rng: random.Random) -> Pattern:
    """A page of each huge page."""
    order = list(range(rng.randrange(24, 60)))
    rng.shuffle(order)
    places = [number * HUGE_PAGES + rng.randrange(HUGE_PAGES) for number in order]
    return Pattern([(STORE, page, 1) for page in places])


def dropped(rng: random.Random) -> Pattern:
    """Parts of huge pages, and whole ones, are dropped and written again."""
    steps, written = [], rng.randrange(8, 14)
    steps += filled(range(written))
    for _ in range(rng.randrange(4, 12)):
        number = rng.randrange(written)
        first, pages = number * HUGE_PAGES, HUGE_PAGES
        if rng.random() < 0.6:
            first += rng.randrange(0, 400)
            pages = rng.randrange(1, 100)
        steps += [(DROP, first, pages), (STORE, first + rng.randrange(pages), 1)]
    return Pattern(steps + filled(range(written, written + rng.randrange(6, 14))))


def refused(rng: random.Random) -> Pattern:
    """Some ranges refuse huge pages, and end within some."""
    huge = rng.randrange(18, 30)
    ranges, at = [], 0
    while at < (huge - 4) * HUGE_PAGES:
        at += rng.randrange(100, 3000)
        pages = rng.randrange(100, 2000)
        ranges.append((at, pages))
        at += pages
    end = huge * HUGE_PAGES
    kept = [(first, min(pages, end - first)) for first, pages in ranges if first < end]
    return Pattern(filled(range(huge)), kept)


KINDS: list[Callable[[random.Random], Pattern]] = [
    once,
    again_at_random,
    again_in_turn,
    sparse,
    dropped,
    refused,
]


def all_patterns(seed: int, each: int) -> Iterator[tuple[dict[str, object], Pattern]]:
    """`each` patterns of each kind: name and half, and the steps."""
    for number in range(each):
        for kind in KINDS:
            rng = random.Random(f"{seed} {kind.__name__} {number}")
            developing = (
                number == 0 or random.Random(f"{seed} half {kind.__name__} {number}").random() < 0.3
            )
            half = "development" if developing else "judgement"
            yield {"name": f"{kind.__name__} {number}", "half": half}, kind(rng)
