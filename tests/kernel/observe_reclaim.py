#!/usr/bin/env python3
"""Watches which pages the kernel of this computer reclaims, and writes it down as JSON.

`observe_reclaim.py reclaim.json` runs the patterns of `reclaim_patterns.py` in a memory control
group of 6 MiB, on ext4 on a loop device. Some times in each pattern it writes which pages of the
file are in the page cache, and how many have been added and taken away until then (tracepoints
`filemap:mm_filemap_add_to_page_cache` and `filemap:mm_filemap_delete_from_page_cache`), and what
the group counts (`memory.stat`). It needs root and memory control groups of version 1; what is
missing is said.
"""

import argparse
import base64
import ctypes
import os
import re
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import observe
import reclaim_patterns
from observe import INSTANCE, PAGE, SYS_CACHESTAT, Mapping, backing, libc, skipped
from reclaim_patterns import FILE_PAGES, LIMIT_PAGES, Pattern

GROUPS = Path("/sys/fs/cgroup/memory")
CHECKS = 5
EVENT = re.compile(
    r"mm_filemap_(add_to|delete_from)_page_cache: .* ino (\w+) .* ofs=(\d+) order=(\d+)"
)
COUNTED = [
    "workingset_refault_file",
    "inactive_file",
    "active_file",
    "inactive_anon",
    "active_anon",
]


def needs_groups(observer: str) -> None:
    """Ends an observer that cannot trace, mount, or make control groups."""
    lacks = observe.missing()
    if not (GROUPS / "memory.stat").exists():
        lacks.append("memory control groups of version 1")
    if lacks:
        skipped(f"{observer}: this computer lacks " + ", ".join(lacks))


class Watch(observe.Trace):
    """Sees what comes into the page cache, and what leaves it."""

    EVENTS = ("filemap/mm_filemap_add_to_page_cache", "filemap/mm_filemap_delete_from_page_cache")

    def events(self, inode: int) -> Iterator[tuple[bool, int, int]]:
        """Of a file: whether a folio came, its first page, and its pages."""
        for line in (INSTANCE / "trace").read_text().splitlines():
            if "LOST" in line:
                raise SystemExit("observe_reclaim.py: the trace lost events")
            match = EVENT.search(line)
            if match and int(match[2], 16) == inode:
                yield match[1] == "add_to", int(match[3]) // PAGE, 1 << int(match[4])


class Group:
    """A control group; what a process uses outside of it is not its."""

    def __init__(self, limit_pages: int) -> None:
        self.path = GROUPS / f"tierscope-{os.getpid()}"
        self.path.mkdir()
        (self.path / "memory.limit_in_bytes").write_text(str(limit_pages * PAGE))
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        home = next(line.split(":", 2)[2] for line in lines if line.split(":")[1] == "memory")
        self.home = GROUPS / home.strip().lstrip("/")

    def close(self) -> None:
        """Ends it, with all that it has in memory."""
        self.leave()
        (self.path / "memory.force_empty").write_text("0")
        self.path.rmdir()

    def join(self) -> None:
        """This process is in the group from now on."""
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def leave(self) -> None:
        """This process is where it was before."""
        (self.home / "cgroup.procs").write_text(str(os.getpid()))

    def counted(self) -> dict[str, int]:
        """What the group has counted, in pages. Asking brings the counts up to date."""
        words = dict(line.split() for line in (self.path / "memory.stat").read_text().splitlines())
        number = {name: int(words[name]) for name in COUNTED}
        return {name: n if "refault" in name else n // PAGE for name, n in number.items()}


class Cached:
    """Pages of the file in the page cache, as the trace tells."""

    def __init__(self, inode: int) -> None:
        self.inode = inode
        self.pages = bytearray(FILE_PAGES)
        self.added = self.most = self.now = 0

    def follow(self, trace: Watch) -> None:
        """Takes in what the trace has seen since the last time."""
        for came, first, count in trace.events(self.inode):
            self.pages[first : first + count] = bytes([came]) * count
            self.added += count if came else 0
            self.now += count if came else -count
            self.most = max(self.most, self.now)
        trace.clear()

    def bits(self) -> str:
        """A bit for each page, the first page's first, in base 64."""
        number = sum(1 << page for page, there in enumerate(self.pages) if there)
        return base64.b64encode(number.to_bytes(len(self.pages) // 8, "little")).decode()


def in_cache(fd: int) -> int:
    """Pages of a file in the page cache (cachestat)."""
    span, answer = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
    if libc.syscall(SYS_CACHESTAT, fd, ctypes.byref(span), ctypes.byref(answer), 0) != 0:
        raise OSError(ctypes.get_errno(), "cachestat")
    return answer[0]


def empty(fd: int) -> None:
    """Takes all of a file out of the page cache."""
    for _ in range(100):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if in_cache(fd) == 0:
            return
        time.sleep(0.01)
    raise SystemExit("observe_reclaim.py: the page cache keeps pages of the file")


def words(numbers: list[int]) -> str:
    """Numbers as words of 16 bits in base 64."""
    return base64.b64encode(struct.pack(f"<{len(numbers)}H", *numbers)).decode()


def encoded(steps: list[tuple[bool, int]]) -> str:
    """Steps, each as a word: the page, and in the highest bit, the other thing that it says."""
    return words([other << 15 | page for other, page in steps])


def run(pattern: Pattern, path: Path, trace: Watch) -> dict[str, object] | None:
    """Runs a pattern on a file in a group of its own; what was seen, if the trace told all."""
    fd = os.open(path, os.O_RDONLY)
    empty(fd)
    mapping = Mapping(fd, 0, FILE_PAGES, 0)
    if pattern.random:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        mapping.advise("random", 0, FILE_PAGES)
    every = -(-len(pattern.steps) // CHECKS)
    cached, seen, there = Cached(os.fstat(fd).st_ino), [], 0
    trace.clear()
    group = Group(LIMIT_PAGES)
    try:
        group.join()
        for number, (load, page) in enumerate(pattern.steps, 1):
            if load:
                mapping.load(page)
            else:
                os.pread(fd, pattern.read_pages * PAGE, page * PAGE)
            if number % every == 0 or number == len(pattern.steps):
                group.leave()
                cached.follow(trace)
                about = {"steps": number, "added": cached.added, "bits": cached.bits()}
                seen.append(about | group.counted())
                there = in_cache(fd)
                group.join()
            elif number % 128 == 0:
                group.counted()
    finally:
        group.close()
        mapping.close()
        os.close(fd)
    if there != cached.now:
        print(f"the trace tells of {cached.now} pages, not {there}; once more", file=sys.stderr)
        return None
    return {
        "random": pattern.random,
        "read_pages": pattern.read_pages,
        "steps": encoded(pattern.steps),
        "most_pages": cached.most,
        "seen": seen,
    }


def observe_all(
    root: Path, trace: Watch, io_pages: int, given: argparse.Namespace
) -> list[dict[str, object]]:
    """All patterns on the file system below `root`."""
    found = []
    trace.watch(root.stat().st_dev)
    for about, pattern in reclaim_patterns.all_patterns(given.seed, given.each):
        (backing(root) / "read_ahead_kb").write_text(str(about["window_kib"]))
        path = root / str(FILE_PAGES * PAGE)
        runs = (run(pattern, path, trace) for _ in range(8))
        seen = next((seen for seen in runs if seen), None)
        if seen is None:
            raise SystemExit(f"observe_reclaim.py: the trace never tells all of {about['name']}")
        found.append({**about, "io_pages": io_pages, **seen})
        print(about["name"], file=sys.stderr)
    return found


def main() -> None:
    """The command."""
    arguments = observe.asked(__doc__)
    needs_groups("observe_reclaim.py")
    around = Path("/sys/kernel/debug/fault_around_bytes")
    with tempfile.TemporaryDirectory(prefix="tierscope-observe-") as name, Watch() as trace:
        work = Path(name)

        def all_in(root: Path, io_pages: int, _: Path | None) -> list[dict[str, object]]:
            return observe_all(root, trace, io_pages, arguments)

        seen = {
            "fault_around_bytes": int(around.read_text()) if around.exists() else 65536,
            "file_pages": FILE_PAGES,
            "runs": observe.with_ext4(work, all_in),
        }
    observe.write(arguments, seen)


if __name__ == "__main__":
    main()
