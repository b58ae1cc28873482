#!/usr/bin/env python3
"""Watches how often threads under a limit of memory read pages again, and writes it down as JSON.

`observe_limited.py limited.json` runs two to four threads at the same time, each of which reads
pages of a file one by one, in a memory control group of 6 MiB, on ext4 on a loop device. What each
reads is drawn by a seed; after every 16 pages threads wait for each other. Of each of several runs
it writes how many pages were read that had been in memory before (`workingset_refault_file`), and
the most of the file that was in memory at once. It needs root and memory control groups of version
1; what is missing is said.
"""

import argparse
import os
import random
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import observe
from advice_patterns import halves
from observe import PAGE, backing
from observe_reclaim import Cached, Group, Watch, empty, needs_groups, words
from reclaim_patterns import FILE_PAGES, LIMIT_PAGES, skewed

TIMES = 5
STEPS = 3000
TOGETHER = 16
"""Pages that each thread reads between two times that all have come as far."""
Threads = list[list[int]]
"""The pages that each thread reads, in order."""


def parts(rng: random.Random, pages: int) -> list[list[int]]:
    """A part of the file for each thread, of so many pages together."""
    count = rng.randint(2, 4)
    firsts = [FILE_PAGES // 4 * nth for nth in range(count)]
    return [list(range(first, first + pages // count)) for first in firsts]


def skewed_parts(rng: random.Random) -> Threads:
    """Each reads pages of its own, of which some are wanted far more than others."""
    threads = parts(rng, rng.randrange(4000, 9000))
    for part in threads:
        rng.shuffle(part)
    return [[part[skewed(rng, len(part))] for _ in range(STEPS)] for part in threads]


def skewed_together(rng: random.Random) -> Threads:
    """All read the same pages, of which some are wanted far more than others."""
    pages = rng.randrange(2500, 6000)
    scattered = rng.sample(range(pages), pages)
    return [[scattered[skewed(rng, pages)] for _ in range(STEPS)] for _ in range(rng.randint(2, 4))]


def uniform_parts(rng: random.Random) -> Threads:
    """Each reads anywhere in pages of its own, somewhat more than fit."""
    threads = parts(rng, rng.randrange(1700, 3400))
    return [[rng.choice(part) for _ in range(STEPS)] for part in threads]


def anywhere_beside_a_loop(rng: random.Random) -> Threads:
    """One reads a part of the file from start to end, again and again, the others anywhere."""
    (first, *_), *hot = parts(rng, rng.randrange(900, 2000))
    scan = rng.randrange(500, 1500)
    return [
        [first + nth % scan for nth in range(STEPS)],
        *[[rng.choice(part) for _ in range(STEPS)] for part in hot],
    ]


KINDS: list[Callable[[random.Random], Threads]] = [
    skewed_parts,
    skewed_together,
    uniform_parts,
    anywhere_beside_a_loop,
]


def read(fd: int, pages: list[int], start: threading.Barrier, all_here: threading.Barrier) -> None:
    """What a thread does."""
    start.wait()
    for number, page in enumerate(pages):
        if number % TOGETHER == 0:
            all_here.wait()
        os.pread(fd, PAGE, page * PAGE)


def run(threads: Threads, path: Path, trace: Watch) -> tuple[int, int]:
    """Runs threads in a group of their own: pages read again, and the most that were there."""
    fds = [os.open(path, os.O_RDONLY) for _ in threads]
    for fd in fds:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    empty(fds[0])
    cached = Cached(os.fstat(fds[0]).st_ino)
    trace.clear()
    start, all_here = threading.Barrier(len(threads) + 1), threading.Barrier(len(threads))
    running = [
        threading.Thread(target=read, args=(fd, pages, start, all_here))
        for fd, pages in zip(fds, threads, strict=True)
    ]
    for thread in running:
        thread.start()
    group = Group(LIMIT_PAGES)
    try:
        group.join()
        start.wait()
        for thread in running:
            thread.join()
        group.leave()
        cached.follow(trace)
        return group.counted()["workingset_refault_file"], cached.most
    finally:
        group.close()
        for fd in fds:
            os.close(fd)


def observe_all(root: Path, trace: Watch, given: argparse.Namespace) -> list[dict[str, object]]:
    """All patterns on the file system below `root`."""
    found = []
    trace.watch(root.stat().st_dev)
    (backing(root) / "read_ahead_kb").write_text("0")
    for kind in KINDS:
        for rng, about in halves(given.seed, given.each, kind.__name__):
            threads = kind(rng)
            path = root / str(FILE_PAGES * PAGE)
            runs = [run(threads, path, trace) for _ in range(TIMES)]
            told = {
                "threads": [words(pages) for pages in threads],
                "refaults": [refaults for refaults, _ in runs],
                "most_pages": [most for _, most in runs],
            }
            found.append({**about, **told})
            print(about["name"], told["refaults"], told["most_pages"], file=sys.stderr)
    return found


def main() -> None:
    """The command."""
    arguments = observe.asked(__doc__)
    needs_groups("observe_limited.py")
    with tempfile.TemporaryDirectory(prefix="tierscope-observe-") as name, Watch() as trace:

        def all_in(root: Path, _: int, __: Path | None) -> list[dict[str, object]]:
            return observe_all(root, trace, arguments)

        runs = observe.with_ext4(Path(name), all_in)
    told = {"processors": os.cpu_count(), "file_pages": FILE_PAGES, "together": TOGETHER}
    seen = {**told, "runs": runs}
    observe.write(arguments, seen)


if __name__ == "__main__":
    main()
