#!/usr/bin/env python3
"""Watches what the kernel of this computer does with huge pages, and writes it down as JSON.

`observe_huge.py huge.json` runs the patterns of `huge_patterns.py`, each on anonymous memory of its
own that has asked for huge pages (MADV_HUGEPAGE), in a memory control group of 32 MiB, with swap on
a loop device, five times over. It writes how many huge pages faults made and splits undid, and what
was swapped (/proc/vmstat), and how much of the memory was there as huge pages, as pages and in swap
at the end (/proc/self/smaps). It needs root, memory control groups of version 1, transparent huge
pages and a computer that has no other swap in use; what is missing is said.
"""

import ctypes
import mmap
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import huge_patterns
from huge_patterns import DROP, FILL, HUGE_PAGES, LIMIT_PAGES, Pattern
from observe import PAGE, asked, counted, libc, skipped, write
from observe_reclaim import Group
from observe_shmem import needs_swap, page_cluster, swap

TIMES = 5
HUGE = Path("/sys/kernel/mm/transparent_hugepage")
COUNTED = [
    "thp_fault_alloc",
    "thp_fault_fallback",
    "thp_split_page",
    "thp_split_pmd",
    "thp_swpout",
    "thp_swpout_fallback",
    "pswpin",
    "pswpout",
]
MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_DONTNEED = 14, 15, 4


@contextmanager
def nothing_collapses() -> Iterator[None]:
    """The kernel's thread that makes huge pages of pages sleeps."""
    sleep = HUGE / "khugepaged" / "scan_sleep_millisecs"
    before = sleep.read_text()
    sleep.write_text("3600000")
    try:
        yield
    finally:
        sleep.write_text(before)


def counts() -> dict[str, int]:
    """What the kernel has counted since this computer started."""
    found = counted()
    return {name: found[name] for name in COUNTED}


def there(address: int, pages: int) -> dict[str, int]:
    """What of some memory is there, in pages: all of it, huge pages alone, and in swap."""
    found, within = dict.fromkeys(["Rss", "AnonHugePages", "Swap"], 0), False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, _, rest = line.partition(":")
        if "-" in name and not name.startswith(("VmFlags", "Vm")):
            start, _, end = line.split()[0].partition("-")
            within = address <= int(start, 16) and int(end, 16) <= address + pages * PAGE
        elif within and name in found:
            found[name] += int(rest.split()[0]) * 1024 // PAGE
    return found


class Memory:
    """Anonymous memory that begins with a huge page."""

    def __init__(self, pages: int) -> None:
        self.whole = mmap.mmap(
            -1, (pages + HUGE_PAGES) * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        )
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.whole))
        huge = HUGE_PAGES * PAGE
        self.address = (base + huge - 1) // huge * huge
        self.offset = self.address - base
        self.pages = pages

    def advise(self, first: int, pages: int, advice: int) -> None:
        """Advises a range of pages."""
        start = ctypes.c_void_p(self.address + first * PAGE)
        if libc.madvise(start, ctypes.c_size_t(pages * PAGE), advice) != 0:
            raise OSError(ctypes.get_errno(), "madvise")

    def store(self, page: int) -> None:
        """Stores to a page what is not zero."""
        at = self.offset + page * PAGE
        self.whole[at : at + 8] = (page + 1).to_bytes(8, "little")


def run(pattern: Pattern, pages: int) -> dict[str, int]:
    """Runs a pattern in a group of its own: what the kernel counted, and what is there then."""
    memory = Memory(pages)
    memory.advise(0, pages, MADV_HUGEPAGE)
    for first, count in pattern.refused:
        memory.advise(first, count, MADV_NOHUGEPAGE)
    group = Group(LIMIT_PAGES)
    before = counts()
    try:
        group.join()
        for what, first, count in pattern.steps:
            if what == DROP:
                memory.advise(first, count, MADV_DONTNEED)
            elif what == FILL:
                for page in range(first, first + count):
                    memory.store(page)
            else:
                memory.store(first)
        after = counts()
        found = there(memory.address, pages)
    finally:
        group.leave()
        memory.advise(0, pages, MADV_DONTNEED)
        group.close()
    changed = {name: after[name] - before[name] for name in COUNTED}
    return changed | {
        "resident_pages": found["Rss"],
        "huge_pages": found["AnonHugePages"] // HUGE_PAGES,
        "swapped_pages": found["Swap"],
    }


def runs(pattern: Pattern) -> dict[str, object]:
    """Runs a pattern a few times: what is being written when a page is wanted is never the same."""
    pages = max(first + count for _, first, count in pattern.steps)
    pages = (pages + HUGE_PAGES - 1) // HUGE_PAGES * HUGE_PAGES
    return {
        "pages": pages,
        "refused": pattern.refused,
        "steps": [number for step in pattern.steps for number in step],
        "seen": [run(pattern, pages) for _ in range(TIMES)],
    }


def main() -> None:
    """The command."""
    arguments = asked(__doc__)
    needs_swap("observe_huge.py")
    if not (HUGE / "enabled").exists() or "[never]" in (HUGE / "enabled").read_text():
        skipped("observe_huge.py: this computer makes no transparent huge pages")
    found = []
    with (
        tempfile.TemporaryDirectory(prefix="tierscope-observe-", dir="/var/tmp") as name,
        nothing_collapses(),
        swap(Path(name)),
    ):
        for number, (about, pattern) in enumerate(
            huge_patterns.all_patterns(arguments.seed, arguments.each)
        ):
            # Each kind has patterns with readahead from swap and without.
            power = 3 if number // len(huge_patterns.KINDS) % 2 else 0
            with page_cluster(power):
                found.append(about | {"cluster_pages": 1 << power} | runs(pattern))
            print(about["name"], file=sys.stderr)
    write(arguments, {"runs": found})


if __name__ == "__main__":
    main()
