#!/usr/bin/env python3
"""Watches what the kernel of this computer swaps of anonymous memory, and writes it down as JSON.

`observe_swap.py swap.json` runs the patterns of `swap_patterns.py`, with swap on a loop device that
says it is a disk, or that it is none: readahead goes by slots, or by virtual addresses.
`windows` are of memory that has all gone to swap, and comes back without anything having to go: the
swap slot of each page (/proc/self/pagemap), and the pages that each step reads (tracepoint
`block:block_bio_queue`). `limited` are of memory in a control group of 6 MiB, and `balanced` of
memory and a file in one, at some values of `swappiness`: what the kernel has counted, five times
over. It needs root, control groups of version 1, tracefs, and a computer that has no other swap in
use; what is missing is said.
"""

import itertools
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import observe
import swap_patterns
from observe import INSTANCE, PAGE, TRACING, asked, counted, missing, skipped, with_ext4, write
from observe_huge import MADV_DONTNEED, MADV_NOHUGEPAGE, Memory
from observe_reclaim import Cached, Group, Watch, empty, encoded, words
from observe_shmem import SWAP_BYTES, needs_swap, page_cluster, swap, tmpfs
from swap_patterns import LIMIT_PAGES, PAGES, WARM_PAGES, Limited, Windows

TIMES = 5
FILE_BYTES = 3000 * PAGE
BY_ADDRESS = Path("/sys/kernel/mm/swap/vma_ra_enabled")
BIO = re.compile(r"block_bio_queue: \S+ (\S+) (\d+) \+ (\d+) ")
SECTORS = PAGE // 512
MADV_DONTFORK, MADV_COLD, MADV_PAGEOUT = 10, 20, 21
SWAPPED = 1 << 62
COUNTED = [
    "pswpin",
    "pswpout",
    "swap_ra",
    "swap_ra_hit",
    "workingset_refault_anon",
    "workingset_activate_anon",
    "workingset_restore_anon",
]
OF_GROUP = ["pgfault", "pgmajfault", "workingset_refault_anon", "workingset_refault_file"]


ENDED: list[int] = []
"""Signals that ask for an early end: it comes between runs, when nothing is half attached."""


def may_end() -> None:
    """Ends here if that was asked for."""
    if ENDED:
        raise SystemExit("observe_swap.py: ended early")


class Swapped(Memory):
    """Memory of single pages, which may be in swap."""

    def __init__(self, pages: int) -> None:
        super().__init__(pages)
        self.advise(0, pages, MADV_NOHUGEPAGE)

    def load(self, page: int) -> None:
        """Reads a byte of a page."""
        self.whole[self.offset + page * PAGE]

    def step(self, stores: bool, page: int) -> None:
        """A load or a store."""
        if stores:
            self.store(page)
        else:
            self.load(page)

    def drain(self) -> None:
        """All that has come is on the lists of reclaim: this processor held some back."""
        self.advise(self.pages, 1, MADV_COLD)

    def slots(self) -> list[int | None]:
        """The swap slot of each page that has one."""
        with Path("/proc/self/pagemap").open("rb", buffering=0) as pagemap:
            pagemap.seek(self.address // PAGE * 8)
            entries = memoryview(pagemap.read(self.pages * 8)).cast("Q")
        return [(entry & (1 << 55) - 1) >> 5 if entry & SWAPPED else None for entry in entries]


class SwapReads(observe.Trace):
    """Sees what is read from a swap device."""

    EVENTS = ("block/block_bio_queue",)
    DEVICE = "dev"

    def pages(self) -> dict[int, list[int]]:
        """The swap slots that each step has read."""
        found: dict[int, list[int]] = {}
        step = -1
        for line in (INSTANCE / "trace").read_text().splitlines():
            if "LOST" in line:
                raise SystemExit("observe_swap.py: the trace lost events")
            if "tracing_mark_write: step" in line:
                step = int(line.split()[-1])
            elif (match := BIO.search(line)) and "R" in match[1]:
                first, count = int(match[2]) // SECTORS, int(match[3]) // SECTORS
                found.setdefault(step, []).extend(range(first, first + count))
        return found


@contextmanager
def grouped(pages: int) -> Iterator[Group]:
    """A group of its own, which this process may join."""
    group = Group(pages)
    try:
        yield group
    finally:
        group.close()


def send_away(memory: Swapped, order: list[int], group: Group) -> list[int]:
    """Pages leave for swap in this order; their slots, in the order of the memory."""
    group.join()
    for page in order:
        memory.store(page)
    for page in order:
        memory.advise(page, 1, MADV_PAGEOUT)
    group.leave()
    for _ in range(100):
        (group.path / "memory.force_empty").write_text("0")
        slots = memory.slots()
        about = (group.path / "memory.stat").read_text().split()
        if None not in slots and about[about.index("swapcached") + 1] == "0":
            return [slot for slot in slots if slot is not None]
        time.sleep(0.02)
    raise SystemExit("observe_swap.py: memory does not go to swap")


def windows(pattern: Windows, device: Path) -> dict[str, object]:
    """Runs a pattern on memory that is all in swap: its slots, and what each step reads."""
    may_end()
    order = [*pattern.order, *range(PAGES, PAGES + WARM_PAGES)]
    memory = Swapped(len(order))
    ends = [*pattern.parts[1:], len(order)]
    for number, (first, end) in enumerate(zip(pattern.parts, ends, strict=True)):
        if number % 2:
            memory.advise(first, end - first, MADV_DONTFORK)
    with grouped(2 * LIMIT_PAGES) as group:
        try:
            slots = send_away(memory, order, group)
            page_of = {slot: page for page, slot in enumerate(slots)}
            with SwapReads() as trace:
                trace.watch(device.stat().st_rdev)
                before = counted()
                for number, (stores, page) in enumerate(pattern.steps):
                    trace.mark(number)
                    memory.step(stores, page)
                after = counted()
                reads = trace.pages()
        finally:
            memory.advise(0, memory.pages, MADV_DONTNEED)
    read = {step: observe.runs(sorted(page_of[it] for it in of)) for step, of in reads.items()}
    return {
        "slots": observe.runs([slots[page] for page in order]),
        "read": [[step, *itertools.chain(*runs)] for step, runs in read.items()],
        **{name: after[name] - before[name] for name in ["pswpin", "swap_ra", "swap_ra_hit"]},
    }


def in_turn(pattern: Windows, work: Path, *, rotational: bool) -> dict[str, object]:
    """The same with slots one behind the other: others may have had some of the first cluster."""
    for _ in range(8):
        with swap(work, rotational=rotational) as device, page_cluster(pattern.power):
            seen = windows(pattern, device)
        if seen["slots"] == [[1, len(pattern.order) + WARM_PAGES]]:
            return seen
    raise SystemExit("observe_swap.py: swap slots are not given in turn")


def swappiness_of(group: Group, value: int) -> None:
    """How reclaim weighs memory against files in a group."""
    (group.path / "memory.swappiness").write_text(str(value))


def limited(pattern: Limited, swappiness: int, file: int, trace: Watch | None) -> dict[str, int]:
    """What is counted when memory is written and a pattern runs on it, in a group of its own."""
    may_end()
    memory = Swapped(pattern.pages)
    cached = Cached(os.fstat(file).st_ino)
    if trace:
        empty(file)
        trace.clear()
    with grouped(LIMIT_PAGES) as group:
        swappiness_of(group, swappiness)
        try:
            before, most = counted(), 0
            group.join()
            for page in range(pattern.pages):
                memory.store(page)
            for number, (stores, page) in enumerate(pattern.steps):
                if page < pattern.pages:
                    memory.step(stores, page)
                else:
                    os.pread(file, PAGE, (page - pattern.pages) * PAGE)
                if number % 128 == 127:
                    memory.drain()
                    now = group.counted()
                    most = max(most, sum(now[name] for name in now if "active" in name))
            group.leave()
            after = counted()
            lines = (group.path / "memory.stat").read_text().splitlines()
            of_group = {name: int(value) for name, value in map(str.split, lines)}
            if trace:
                cached.follow(trace)
        finally:
            memory.advise(0, memory.pages, MADV_DONTNEED)
    found = {name: after[name] - before[name] for name in COUNTED}
    found |= {name: of_group[name] for name in OF_GROUP}
    return found | {"most_pages": most, "file_added": cached.added, "file_left": cached.now}


def times(
    pattern: Limited, about: dict[str, Any], file: int, trace: Watch | None
) -> dict[str, object]:
    """A pattern some times over: what is being written when a page is wanted is never the same."""
    with page_cluster(about["power"]):
        seen = [
            [limited(pattern, swappiness, file, trace) for _ in range(TIMES)]
            for swappiness in about["swappiness"]
        ]
    print(about["name"], file=sys.stderr)
    return {
        **about,
        "pages": pattern.pages,
        "file_pages": pattern.file_pages,
        "steps": encoded(pattern.steps),
        "seen": seen,
    }


def all_windows(work: Path, seed: int, each: int) -> list[dict[str, object]]:
    """All patterns of memory that is in swap, with either readahead; swap is new for each."""
    found = []
    for about, pattern in swap_patterns.windows(seed, each):
        seen: dict[str, object] = {}
        for way, rotational in [("by_addresses", False), ("by_slots", True)]:
            seen[way] = in_turn(pattern, work, rotational=rotational)
        about_pattern = {
            "order": words(pattern.order),
            "parts": pattern.parts,
            "power": pattern.power,
            "steps": encoded(pattern.steps),
        }
        found.append(about | about_pattern | seen)
        print(about["name"], file=sys.stderr)
    return found


def all_limited(work: Path, seed: int, each: int) -> list[dict[str, object]]:
    """All patterns of memory under a limit."""
    found = []
    with (work / "none").open("w+b") as none:
        for about, pattern in swap_patterns.limited(seed, each):
            with swap(work, rotational=about["rotational"]):
                found.append(times(pattern, about, none.fileno(), None))
    return found


def all_balanced(work: Path, seed: int, each: int) -> list[dict[str, object]]:
    """All patterns of memory and a file."""

    def all_in(root: Path, *_: object) -> list[dict[str, object]]:
        file = os.open(root / str(FILE_BYTES), os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
        try:
            with Watch() as trace:
                trace.watch(root.stat().st_dev)
                return [
                    times(pattern, about, file, trace)
                    for about, pattern in swap_patterns.balanced(seed, each)
                ]
        finally:
            os.close(file)

    with swap(work):
        return with_ext4(work, all_in, [FILE_BYTES])


def main() -> None:
    """The command."""
    arguments = asked(__doc__)
    for number in [signal.SIGTERM, signal.SIGINT]:
        signal.signal(number, lambda which, _: ENDED.append(which))
    needs_swap("observe_swap.py")
    lacks = missing()
    if not (TRACING / "events/block/block_bio_queue").exists():
        lacks.append("the tracepoint block:block_bio_queue")
    if not BY_ADDRESS.exists() or BY_ADDRESS.read_text().strip() != "true":
        lacks.append("readahead from swap by virtual addresses")
    if lacks:
        skipped("observe_swap.py: this computer lacks " + ", ".join(lacks))
    # One processor, whose swap cluster all slots come from.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with (
        tempfile.TemporaryDirectory(prefix="tierscope-observe-", dir="/var/tmp") as name,
        tmpfs(Path(name) / "memory", 4 * SWAP_BYTES),
    ):
        # Devices that lie in memory answer at once, as drives do.
        work, seed, each = Path(name) / "memory", arguments.seed, arguments.each
        seen = {
            "limit_pages": LIMIT_PAGES,
            "warm_steps": swap_patterns.WARM_STEPS,
            "warm_pages": WARM_PAGES,
            "windows": all_windows(work, seed, each),
            "limited": all_limited(work, seed, each),
            "balanced": all_balanced(work, seed, max(1, each // 2)),
        }
    write(arguments, seen)


if __name__ == "__main__":
    main()
