"""What the observer of the block layer asks a device for.

A pattern is steps of several threads, one after another. A step is a call that hands the block
layer some pieces of the device at once, each a `Piece`.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

DEVICE_PAGES = 16384
GATES = 129
"""Writes that keep the device busy: as many as a loop device takes, and one that waits for it."""
SMALLEST_PAGE = 2 * GATES + 2
"""The gates may lie before it."""
LAST_PAGE = 12288
"""And behind it."""
MOST_PAGES = 512
Piece = tuple[int, int, bool]
"""First page, pages, and whether it is written."""


@dataclass
class Step:
    """A call by a thread.

    `aio`: direct requests of one `io_submit`, from or to memory in one piece; `scattered`: from or
    to pages of memory that are not neighbours; `writeback`: dirty pages, written by
    `sync_file_range`, in order.
    """

    call: str
    pieces: list[Piece]
    thread: int = 0


@dataclass
class Pattern:
    """Steps, and what the device and its scheduler are set to."""

    steps: list[Step]
    scheduler: str = "none"
    largest_kib: int = 1280
    nomerges: bool = False
    gate_page: int = LAST_PAGE
    fifo_batch: int = 16
    writes_starved: int = 2
    front_merges: bool = True
    late: bool = False
    """Each request is late as soon as it has come."""


def somewhere(rng: random.Random, pages: int) -> int:
    return rng.randrange(SMALLEST_PAGE, LAST_PAGE - pages)


def large_direct(rng: random.Random) -> list[Step]:
    """Requests that are larger than the device takes."""
    steps = []
    for _ in range(rng.randrange(1, 4)):
        pages = rng.randrange(1, MOST_PAGES + 1)
        steps.append(Step("aio", [(somewhere(rng, pages), pages, rng.random() < 0.5)]))
    return steps


def scattered(rng: random.Random) -> list[Step]:
    """Large requests of pages that lie apart in memory, one behind another on the device."""
    pieces, page = [], somewhere(rng, 3 * MOST_PAGES)
    write = rng.random() < 0.5
    for _ in range(rng.randrange(1, 5)):
        pages = rng.randrange(1, 200)
        pieces.append((page, pages, write))
        page += pages
    return [Step("scattered", pieces)]


def adjacent_batch(rng: random.Random) -> list[Step]:
    """Neighbours, handed over together."""
    write, count = rng.random() < 0.5, rng.randrange(3, 40)
    page, pieces = somewhere(rng, 2000), []
    for _ in range(count):
        pages = rng.choice([1, 1, 1, 2, 4, 8, 16])
        pieces.append((page, pages, write))
        page += pages
    return [Step("aio", pieces)]


def many_small(rng: random.Random) -> list[Step]:
    """More neighbours of a page than a request has segments."""
    count, page = rng.randrange(129, 300), somewhere(rng, 400)
    write = rng.random() < 0.5
    return [Step("aio", [(page + i, 1, write) for i in range(count)])]


def reversed_batch(rng: random.Random) -> list[Step]:
    """Neighbours, the last first, handed over together."""
    steps = adjacent_batch(rng)
    steps[0].pieces.reverse()
    return steps


def gaps(rng: random.Random) -> list[Step]:
    """Neighbours with gaps, some of which come later."""
    write, page = rng.random() < 0.5, somewhere(rng, 400)
    pages = rng.sample(range(60), rng.randrange(20, 60))
    pages = sorted(pages[: len(pages) // 2]) + pages[len(pages) // 2 :]
    pieces = [(page + at, 1, write) for at in pages]
    cut = rng.randrange(1, len(pieces))
    return [Step("aio", pieces[:cut]), Step("aio", pieces[cut:])]


def writeback(rng: random.Random) -> list[Step]:
    """Dirty pages in runs with holes, written in order."""
    page, pieces = somewhere(rng, 1600), []
    for _ in range(rng.randrange(1, 12)):
        pages = rng.choice([1, 2, 3, 10, 40, 100])
        pieces.append((page, pages, True))
        page += pages + rng.randrange(1, 20)
    return [Step("writeback", pieces)]


def singles(rng: random.Random) -> list[Step]:
    """Small requests near one another, each a call of its own, by some threads."""
    page, steps = somewhere(rng, 400), []
    reads, threads = rng.choice([0, 0.5, 1]), rng.randrange(1, 4)
    near = rng.sample(range(80), rng.randrange(10, 50))
    for at in near:
        pages, write = rng.choice([1, 1, 2, 3]), rng.random() >= reads
        pieces = [(page + 3 * at + (3 - pages) * rng.randrange(2), pages, write)]
        steps.append(Step("aio", pieces, rng.randrange(threads)))
    return steps


def streams(rng: random.Random) -> list[Step]:
    """Some threads that each go on behind their last request."""
    threads = rng.randrange(2, 5)
    pages = [somewhere(rng, 600) for _ in range(threads)]
    if rng.random() < 0.5:
        pages = [pages[0] + 300 * thread for thread in range(threads)]
    if pages[-1] > LAST_PAGE - 600:
        pages = [page - pages[-1] + LAST_PAGE - 600 for page in pages]
    writes, steps = [rng.random() < 0.5 for _ in pages], []
    for _ in range(rng.randrange(15, 60)):
        thread, size = rng.randrange(threads), rng.choice([1, 2, 4, 8])
        steps.append(Step("aio", [(pages[thread], size, writes[thread])], thread))
        pages[thread] += size
    return steps


def mixed(rng: random.Random) -> list[Step]:
    """Batches of all kinds in one place, reads and writes, and what is written back beside it."""
    page, steps = somewhere(rng, 1200), []
    for _ in range(rng.randrange(3, 9)):
        pieces = []
        for _ in range(rng.randrange(1, 12)):
            pages = rng.choice([1, 1, 2, 4, 30])
            pieces.append((page + rng.randrange(300), pages, rng.random() < 0.5))
        steps.append(Step("aio", pieces, rng.randrange(2)))
    return steps


def beside_writeback(rng: random.Random) -> list[Step]:
    """Direct writes between pages that are written back."""
    page, steps = somewhere(rng, 1200), []
    width = rng.choice([1, 4, 10])
    runs = list(range(rng.randrange(4, 20)))
    rng.shuffle(runs)
    for run in runs:
        piece = (page + run * width, width, True)
        steps.append(Step("aio" if rng.random() < 0.5 else "writeback", [piece]))
    return steps


AT_ONCE: list[Callable[[random.Random], list[Step]]] = [
    large_direct,
    scattered,
    adjacent_batch,
    many_small,
    reversed_batch,
    gaps,
    writeback,
]
"""What shows without a scheduler, where nothing waits."""
WAITING = [*AT_ONCE, singles, streams, mixed, beside_writeback]


def all_patterns(seed: int, each: int) -> Iterator[tuple[dict[str, object], Pattern]]:
    """`each` patterns of each kind: name and half, and the pattern."""
    kinds = [("none", kind) for kind in AT_ONCE] + [("mq-deadline", kind) for kind in WAITING]
    for number in range(each):
        for scheduler, kind in kinds:
            name = f"{scheduler} {kind.__name__} {number}"
            rng = random.Random(f"{seed} {name}")
            pattern = Pattern(kind(rng), scheduler)
            if number:
                pattern.largest_kib = rng.choice([64, 128, 512, 1280])
                pattern.nomerges = rng.random() < 0.1
            if number and scheduler == "mq-deadline":
                pattern.gate_page = rng.choice([0, LAST_PAGE])
                pattern.fifo_batch = rng.choice([1, 2, 4, 16])
                pattern.writes_starved = rng.choice([1, 2, 5])
                pattern.front_merges = rng.random() < 0.8
                pattern.late = rng.random() < 0.2
            developing = number == 0 or random.Random(f"{seed} half {name}").random() < 0.3
            yield {"name": name, "half": "development" if developing else "judgement"}, pattern
