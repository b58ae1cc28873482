#!/usr/bin/env python3
"""Watches what the kernel of this computer makes of advice and of locks, and writes it as JSON.

`observe_advice.py advice.json` runs the patterns of `advice_patterns.py` on ext4 on a loop device.
Of patterns of advice on a file it writes how many pages of it are in the page cache at each check
(cachestat), the most of five times: what is being written stays, unless it has been written already
when the kernel looks at it. Patterns with locked memory run in a memory control group of 6 MiB; of
them it writes how many pages of the file came back after they had been reclaimed, and how many were
locked (/proc/vmstat). It needs root and memory control groups of version 1; what is missing is
said.
"""

import ctypes
import mmap
import os
import sys
import tempfile
import time
from pathlib import Path

import advice_patterns
import observe
from advice_patterns import FILE_BYTES, PAGES, Locked, Step
from observe import PAGE, backing, libc
from observe_reclaim import Cached, Group, Watch, empty, encoded, in_cache, needs_groups
from reclaim_patterns import FILE_PAGES, LIMIT_PAGES

TIMES = 5

libc.mlock.argtypes = libc.munlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def keep(locked: bool, address: int, pages: int) -> None:
    """Locks pages, or lets go of them."""
    call = libc.mlock if locked else libc.munlock
    if call(address, pages * PAGE) != 0:
        raise OSError(ctypes.get_errno(), "mlock or munlock")


class File:
    """A file of which some pages are in the page cache, and a mapping of it."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR)
        empty(self.fd)
        os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_RANDOM)
        self.mapped: int | None = None
        self.view = libc.mmap(None, PAGES * PAGE, mmap.PROT_READ, mmap.MAP_SHARED, self.fd, 0)

    def mapping(self) -> int:
        """Where it is mapped."""
        if self.mapped is None:
            access = mmap.PROT_READ | mmap.PROT_WRITE
            self.mapped = libc.mmap(None, PAGES * PAGE, access, mmap.MAP_SHARED, self.fd, 0)
            libc.madvise(self.mapped, PAGES * PAGE, mmap.MADV_RANDOM)
        return self.mapped

    def settle(self) -> None:
        """Waits until all pages in the page cache have been read (mincore)."""
        vector = ctypes.create_string_buffer(PAGES)
        for _ in range(4000):
            libc.mincore(self.view, PAGES * PAGE, vector)
            if vector.raw.count(b"\1", 0, PAGES) >= in_cache(self.fd):
                return
            time.sleep(0.0005)
        raise SystemExit("observe_advice.py: pages that are being read do not arrive")

    def unmap(self) -> None:
        """It is mapped no longer."""
        if self.mapped is not None:
            libc.munmap(self.mapped, PAGES * PAGE)
            self.mapped = None

    def step(self, step: Step) -> None:
        """Does a step, but a check."""
        match step:
            case "read", int(first), int(pages):
                for page in range(first, first + pages):
                    os.pread(self.fd, PAGE, page * PAGE)
            case "write", int(first), int(pages):
                for page in range(first, first + pages):
                    os.pwrite(self.fd, bytes(min(PAGE, FILE_BYTES - page * PAGE)), page * PAGE)
            case ("sync",):
                os.fsync(self.fd)
            case "willneed" | "dontneed" as advice, int(offset), int(length):
                number = {"willneed": os.POSIX_FADV_WILLNEED, "dontneed": os.POSIX_FADV_DONTNEED}
                os.posix_fadvise(self.fd, offset, length, number[advice])
                self.settle()
            case "load" | "store" as access, int(first), int(pages):
                for page in range(first, first + pages):
                    at = ctypes.c_ubyte.from_address(self.mapping() + page * PAGE)
                    if access == "load":
                        at.value  # noqa: B018
                    else:
                        at.value = 1
            case "lock" | "unlock" as change, int(first), int(pages):
                keep(change == "lock", self.mapping() + first * PAGE, pages)
            case ("unmap",):
                self.unmap()
            case _:
                raise ValueError(f"a step that is not known: {step}")

    def close(self) -> None:
        """Closes it."""
        self.unmap()
        libc.munmap(self.view, PAGES * PAGE)
        os.close(self.fd)


def advised(steps: list[Step], path: Path) -> list[int]:
    """Runs a pattern of advice: how many pages are in the page cache at each check."""
    file = File(path)
    seen = []
    for step in steps:
        if step == ("check",):
            seen.append(in_cache(file.fd))
        else:
            file.step(step)
    file.close()
    return seen


def locked_pages() -> int:
    """Pages that were locked since this computer started."""
    return observe.counted()["unevictable_pgs_mlocked"]


def locked(pattern: Locked, path: Path, trace: Watch) -> dict[str, object] | None:
    """Runs a pattern with locked memory in a group of its own; what was seen, if all was told."""
    fd = os.open(path, os.O_RDWR)
    empty(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    access, how = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    mapped = libc.mmap(None, FILE_PAGES * PAGE, access, mmap.MAP_SHARED, fd, 0)
    libc.madvise(mapped, FILE_PAGES * PAGE, mmap.MADV_RANDOM)
    length = max(pattern.anonymous_pages, 1) * PAGE
    anonymous = libc.mmap(None, length, access, how, -1, 0)
    first, pages = pattern.file
    cached = Cached(os.fstat(fd).st_ino)
    steps, read_pages = pattern.accesses.steps, pattern.accesses.read_pages
    trace.clear()
    group = Group(LIMIT_PAGES)
    before = locked_pages()
    both = [(mapped + first * PAGE, pages), (anonymous, pattern.anonymous_pages)]
    both = [(address, count) for address, count in both if count > 0]
    try:
        group.join()
        for address, count in both:
            keep(True, address, count)
        mlocked = locked_pages() - before
        for number, (load, page) in enumerate(steps):
            if number == pattern.until:
                for address, count in both:
                    keep(False, address, count)
            if load:
                ctypes.c_ubyte.from_address(mapped + page * PAGE).value  # noqa: B018
            else:
                os.pread(fd, read_pages * PAGE, page * PAGE)
            if pattern.unneeded and (number + 1) % pattern.unneeded == 0:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            if number % 128 == 0:
                group.counted()
                cached.follow(trace)
        group.leave()
        cached.follow(trace)
        found, there = group.counted(), in_cache(fd)
    finally:
        libc.munmap(anonymous, length)
        libc.munmap(mapped, FILE_PAGES * PAGE)
        group.close()
        os.close(fd)
    if there != cached.now:
        print(f"the trace tells of {cached.now} pages, not {there}; once more", file=sys.stderr)
        return None
    return {
        "read_pages": read_pages,
        "steps": encoded(pattern.accesses.steps),
        "file": pattern.file,
        "anonymous_pages": pattern.anonymous_pages,
        "until": pattern.until,
        "unneeded": pattern.unneeded,
        "most_pages": cached.most,
        "mlocked": mlocked,
        "workingset_refault_file": found["workingset_refault_file"],
    }


def main() -> None:
    """The command."""
    given = observe.asked(__doc__)
    needs_groups("observe_advice.py")

    def all_in(root: Path, io_pages: int, _log: Path | None) -> list[dict[str, object]]:
        (backing(root) / "read_ahead_kb").write_text("128")
        path, large = root / "advised", root / str(FILE_PAGES * PAGE)
        path.write_bytes(b"\1" * FILE_BYTES)
        found: list[dict[str, object]] = [{"io_pages": io_pages}]
        for kind in advice_patterns.ADVICE:
            for rng, about in advice_patterns.halves(given.seed, given.each, kind.__name__):
                steps = list(kind(rng))
                seen = zip(*(advised(steps, path) for _ in range(TIMES)), strict=True)
                found.append({**about, "steps": steps, "cached": [max(counts) for counts in seen]})
                print(about["name"], file=sys.stderr)
        trace.watch(root.stat().st_dev)
        for kind in advice_patterns.LOCKED:
            for rng, about in advice_patterns.halves(given.seed, given.each, kind.__name__):
                number = int(about["name"].split()[-1])
                of = advice_patterns.given_up if number % 4 == 2 else advice_patterns.beside_locked
                pattern = of(rng, kind(rng))
                told = next(filter(None, (locked(pattern, large, trace) for _ in range(8))), None)
                if told is None:
                    raise SystemExit(f"observe_advice.py: the trace never tells all of {about}")
                under_limit.append({**about, **told})
                print(about["name"], file=sys.stderr)
        return found

    under_limit: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="tierscope-observe-") as name, Watch() as trace:
        about, *advice = observe.with_ext4(Path(name), all_in)
    seen = {"file_bytes": FILE_BYTES, **about, "advice": advice, "locked": under_limit}
    observe.write(given, seen)


if __name__ == "__main__":
    main()
