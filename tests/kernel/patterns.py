"""What the observer does to a file: patterns of accesses, each from a seed.

A step is a list, its name first:

- `read OFFSET BYTES`: pread;
- `load PAGE`, `store PAGE`: an access to the mapping (a store to a private one copies the page);
- `map FIRST PAGES SHIFT`: maps pages of the file, privately, at an address that is SHIFT pages
  beyond a boundary of 2 MiB;
- `madvise ADVICE FIRST PAGES`: of the mapping, by pages of it;
- `fadvise ADVICE OFFSET BYTES`: of the file.
- `use NUMBER`: what follows reads, advises and maps the file by this opening of it, as threads do
  that open a file each.
"""

import random
from collections.abc import Iterator

PAGE = 4096
Step = list[str | int]


def sequential(rng: random.Random, pages: int) -> Iterator[Step]:
    """Reads in a row, from the start or from somewhere, of one size."""
    size = rng.choice([1000, 4096, 5000, 8192, 16384, 20480, 65536, 131072, 200000])
    at = rng.choice([0, 0, rng.randrange(pages // 2) * PAGE, rng.randrange(pages // 2 * PAGE)])
    for _ in range(min(80, pages * PAGE // size)):
        yield ["read", at, size]
        at += size


def strided(rng: random.Random, pages: int) -> Iterator[Step]:
    """Reads of one size, with a hole of one size between them."""
    size = rng.choice([1, 1, 2, 4, 7, 16])
    stride = size + rng.choice([1, 2, 3, 8, 31, 100])
    first = rng.choice([0, rng.randrange(20)])
    for i in range(70):
        at = first + i * stride
        if at + size > pages:
            return
        yield ["read", at * PAGE, size * PAGE]


def scattered(rng: random.Random, pages: int) -> Iterator[Step]:
    """Reads anywhere, of several sizes, some of which continue the last."""
    at = 0
    for _ in range(80):
        if rng.random() < 0.6:
            at = rng.randrange(pages * PAGE)
        size = rng.choice([512, 4096, 4096, 12288, 32768, 100000, 300000])
        yield ["read", at, size]
        at += size


def backwards(rng: random.Random, pages: int) -> Iterator[Step]:
    """Reads in a row from the end to the start."""
    size = rng.choice([1, 1, 2, 4, 8, 33])
    at = rng.randrange(pages // 2, pages)
    for _ in range(min(70, at // size)):
        at -= size
        yield ["read", at * PAGE, size * PAGE]


def interleaved(rng: random.Random, pages: int) -> Iterator[Step]:
    """Two or three sequential streams on one open file."""
    streams = [rng.randrange(pages) * PAGE for _ in range(rng.choice([2, 2, 3]))]
    size = rng.choice([4096, 8192, 16384])
    for _ in range(90):
        which = rng.randrange(len(streams))
        yield ["read", streams[which], size]
        streams[which] = (streams[which] + size) % (pages * PAGE)


def mapped(rng: random.Random, pages: int, advice: str = "normal") -> tuple[list[Step], int]:
    """Maps all or a part of the file, and gives it advice; how many pages there are."""
    first, count = 0, pages
    if rng.random() < 0.3:
        first = rng.randrange(pages // 4)
        count = rng.randrange(pages // 4, pages - first)
    steps: list[Step] = [["map", first, count, rng.choice([0, 0, 0, 5, 300])]]
    if advice != "normal":
        steps.append(["madvise", advice, 0, count])
    return steps, count


def map_forwards(rng: random.Random, pages: int, advice: str = "normal") -> Iterator[Step]:
    """Accesses to a mapping in a row, or with a stride."""
    steps, count = mapped(rng, pages, advice)
    yield from steps
    at = rng.choice([0, 0, rng.randrange(count // 2)])
    stride = rng.choice([1, 1, 1, 2, 3, 7, 16, 40])
    for _ in range(400 if stride == 1 else 150):
        if at >= count:
            return
        yield ["load", at]
        at += stride


def map_backwards(rng: random.Random, pages: int) -> Iterator[Step]:
    """Accesses to a mapping from its end to its start."""
    steps, count = mapped(rng, pages)
    yield from steps
    at = count - 1
    stride = rng.choice([1, 1, 3, 20])
    for _ in range(200):
        if at < 0:
            return
        yield ["load", at]
        at -= stride


def map_scattered(rng: random.Random, pages: int, advice: str = "normal") -> Iterator[Step]:
    """Accesses to a mapping anywhere; many miss, so that reading around them stops."""
    steps, count = mapped(rng, pages, advice)
    yield from steps
    hot = [rng.randrange(count) for _ in range(20)]
    for _ in range(260):
        page = rng.choice(hot) if rng.random() < 0.15 else rng.randrange(count)
        yield ["load" if rng.random() < 0.9 else "store", page]
    for page in range(min(120, count)):
        yield ["load", page]


def map_mixed(rng: random.Random, pages: int) -> Iterator[Step]:
    """Accesses to a mapping and reads of the same file, by one open file."""
    steps, count = mapped(rng, pages)
    yield from steps
    at = 0
    for _ in range(120):
        kind = rng.random()
        if kind < 0.3:
            yield ["load", rng.randrange(count)]
        elif kind < 0.7:
            yield ["read", at, 8192]
            at += 8192
        else:
            start = rng.randrange(count)
            for page in range(start, min(start + 4, count)):
                yield ["load", page]


def advised(rng: random.Random, pages: int) -> Iterator[Step]:
    """Reads under advice on the file, which changes on the way."""
    at = 0
    for _ in range(6):
        advice = rng.choice(["random", "sequential", "normal", "willneed"])
        if advice == "willneed":
            yield ["fadvise", advice, rng.randrange(pages) * PAGE, rng.choice([4, 50, 700]) * PAGE]
        else:
            yield ["fadvise", advice, 0, 0]
        for _ in range(14):
            if rng.random() < 0.25:
                at = rng.randrange(pages) * PAGE
            size = rng.choice([4096, 16384, 50000])
            yield ["read", at, size]
            at += size


def map_needed(rng: random.Random, pages: int) -> Iterator[Step]:
    """Advice that pages of a mapping will be needed, then accesses to them."""
    steps, count = mapped(rng, pages)
    yield from steps
    for _ in range(8):
        first = rng.randrange(count)
        length = min(rng.choice([3, 40, 300]), count - first)
        yield ["madvise", "willneed", first, length]
        for _ in range(8):
            yield ["load", rng.randrange(first, first + length)]
        yield ["load", rng.randrange(count)]


def map_sequential(rng: random.Random, pages: int) -> Iterator[Step]:
    """Accesses in a row to a mapping with the advice `sequential`."""
    return map_forwards(rng, pages, "sequential")


def map_random(rng: random.Random, pages: int) -> Iterator[Step]:
    """Accesses anywhere to a mapping with the advice `random`."""
    return map_scattered(rng, pages, "random")


def by_several(rng: random.Random, pages: int) -> Iterator[Step]:
    """Several openings read the file in turns, each in a row, some elsewhere or as advised."""
    count = rng.choice([2, 3, 4])
    at = [rng.randrange(pages) * PAGE for _ in range(count)]
    sizes = [rng.choice([4096, 8192, 16384, 50000]) for _ in range(count)]
    if rng.random() < 0.5:
        yield ["use", 0]
        yield ["fadvise", rng.choice(["random", "sequential"]), 0, 0]
    mapped_by = rng.choice([0, 1, 9])
    if mapped_by < count:
        steps, mapped_pages = mapped(rng, pages)
        yield ["use", mapped_by]
        yield from steps
    for _ in range(110):
        who = rng.randrange(count)
        yield ["use", who]
        if mapped_by < count and rng.random() < 0.2:
            yield ["load", rng.randrange(mapped_pages)]
            continue
        if rng.random() < 0.1:
            at[who] = rng.randrange(pages) * PAGE
        yield ["read", at[who], sizes[who]]
        at[who] += sizes[who]


KINDS = [
    sequential,
    strided,
    scattered,
    backwards,
    interleaved,
    advised,
    map_forwards,
    map_backwards,
    map_scattered,
    map_mixed,
    map_needed,
    map_sequential,
    map_random,
    by_several,
]
WINDOWS_KIB = [128, 128, 128, 16, 64, 100, 512, 1024, 4096, 0]
SIZES_BYTES = [64 << 20, 64 << 20, 64 << 20, 3_000_000, 517 * PAGE, 20 * PAGE + 100]


def all_patterns(seed: int, each: int) -> Iterator[dict[str, object]]:
    """`each` patterns of each kind: their name, half, file size, window and steps.

    The model may be developed with those of the half `development`, and is judged by the others.
    """
    for number in range(each):
        for kind in KINDS:
            rng = random.Random(f"{seed} {kind.__name__} {number}")
            # The first of a kind is as a machine has it; the others vary window and size.
            window_kib = WINDOWS_KIB[0] if number == 0 else rng.choice(WINDOWS_KIB)
            size_bytes = SIZES_BYTES[0] if number == 0 else rng.choice(SIZES_BYTES)
            developing = (
                number == 0 or random.Random(f"{seed} half {kind.__name__} {number}").random() < 0.4
            )
            yield {
                "name": f"{kind.__name__} {number}",
                "half": "development" if developing else "judgement",
                "window_kib": window_kib,
                "file_bytes": size_bytes,
                "steps": list(kind(rng, -(-size_bytes // PAGE))),
            }
