"""What the observer of write-back does to many files, and on a device that cannot keep up.

A pattern is one of `write_back_patterns.py` on all pages of some files, one file behind the other,
and says how long its device takes for a page: 0 where it is always quicker than the program.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from write_back_patterns import BATCH, FILE_PAGES, Pattern, batches, endless

SLOW_WRITES = 9600


@dataclass
class Writers(Pattern):
    """A pattern on several files, of so many pages each."""

    files: list[int] = field(default_factory=lambda: [FILE_PAGES])
    page_us: int = 0


def sizes(rng: random.Random, count: int) -> list[int]:
    """Files of very different sizes, of `FILE_PAGES` in all or a little less."""
    shares = [rng.random() ** 2 + 0.02 for _ in range(count)]
    return [max(4, int(share / sum(shares) * (FILE_PAGES - 4 * count))) for share in shares]


def starts(files: list[int]) -> list[int]:
    """The first page of each file, of all."""
    return [sum(files[:number]) for number in range(len(files))]


def among(rng: random.Random, files: list[int]) -> Iterator[int]:
    """Pages anywhere in files, some of which are written far more often than others."""
    weights = [rng.random() ** 3 + 0.01 for _ in files]
    first = starts(files)
    while True:
        (file,) = rng.choices(range(len(files)), weights)
        yield first[file] + rng.randrange(files[file])


def many(rng: random.Random, count: int) -> Writers:
    """Files that are written anywhere."""
    files = sizes(rng, count)
    background = rng.choice([512, 1024, 1500])
    return Writers(batches(among(rng, files)), background_pages=background, files=files)


def few_files(rng: random.Random) -> Writers:
    """Two to five of them."""
    return many(rng, rng.randrange(2, 6))


def many_files(rng: random.Random) -> Writers:
    """Six to forty."""
    return many(rng, rng.randrange(6, 41))


def files_stored(rng: random.Random) -> Writers:
    """Stores through mappings of some files."""
    pattern = many(rng, rng.randrange(2, 41))
    pattern.stores = True
    return pattern


def files_in_passes(rng: random.Random) -> Writers:
    """Each file is written from its start to its end over and over, some quicker than others."""
    files = sizes(rng, rng.randrange(2, 41))
    first, at = starts(files), [0] * len(files)
    weights = [rng.random() ** 2 + 0.05 for _ in files]

    def draw() -> int:
        (file,) = rng.choices(range(len(files)), weights)
        at[file] = (at[file] + 1) % files[file]
        return first[file] + at[file]

    return Writers(batches(endless(draw)), files=files, background_pages=rng.choice([512, 1024]))


def files_expiring(rng: random.Random) -> Writers:
    """Few pages of many files are dirty, which are written when they have been for too long."""
    files = sizes(rng, rng.randrange(4, 41))
    rounds = rng.choice([75, 150])
    return Writers(
        batches(among(rng, [max(4, pages // 20) for pages in files]), rounds * BATCH),
        pause_ms=15_000 // rounds,
        background_pages=3000,
        expire_ms=rng.choice([300, 600, 1000]),
        interval_ms=rng.choice([100, 200]),
        files=[max(4, pages // 20) for pages in files],
    )


def slow(rng: random.Random, pattern: Writers) -> Writers:
    """The same on a device that takes long for each page."""
    pattern.page_us = rng.choice([300, 400, 500])
    pattern.pause_ms = 0
    return pattern


def slow_scattered(rng: random.Random) -> Writers:
    """Writes anywhere in a file."""
    pages = rng.randrange(5000, FILE_PAGES)
    draw = endless(lambda: rng.randrange(pages))
    background = rng.choice([256, 384, 512])
    return slow(rng, Writers(batches(draw, SLOW_WRITES), background_pages=background))


def slow_passes(rng: random.Random) -> Writers:
    """A file is written from start to end, again and again."""
    pages, count = rng.randrange(4000, FILE_PAGES), iter(range(SLOW_WRITES))
    draw = endless(lambda: next(count) % pages)
    background = rng.choice([256, 384, 512])
    return slow(rng, Writers(batches(draw, SLOW_WRITES - BATCH), background_pages=background))


def slow_files(rng: random.Random) -> Writers:
    """Several files are written anywhere."""
    files = sizes(rng, rng.randrange(2, 41))
    written = batches(among(rng, files), SLOW_WRITES)
    return slow(rng, Writers(written, background_pages=rng.choice([256, 384, 512]), files=files))


def slow_stored(rng: random.Random) -> Writers:
    """Stores through a mapping, anywhere."""
    pattern = slow_scattered(rng)
    pattern.stores = True
    return pattern


KINDS = [
    few_files,
    many_files,
    files_stored,
    files_in_passes,
    files_expiring,
    slow_scattered,
    slow_passes,
    slow_files,
    slow_stored,
]
