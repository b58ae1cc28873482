#!/usr/bin/env python3
"""Watches which calls on one file the kernel lets go on side by side, as JSON.

`observe_locks.py locks.json` has four threads call on one file past the page cache, each four times
a page of its own: they read, write what the file has already, or write behind its end. The file is
on ext4, ext3 or XFS, on a loop device over the file of `slow_device.py`. It writes how many of the
device's requests were under way at the most (`/sys/block/*/inflight`): one where calls have the
file one after the other, and more where they go on side by side. It needs root; what is missing is
said.

With `--drawn` two to four threads do what is drawn for each by the seed: they call as above, or
read what is not in memory through the page cache, or write a page there and have it written
(sync_file_range). It writes the mean of the requests under way, too.
"""

import ctypes
import mmap
import os
import random
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import slow_device
from observe import PAGE, asking, libc, missing, skipped, write
from observe_write_back import done, in_memory
from observe_writers import fresh_loop, slow

THREADS, CALLS = 4, 4
FILE_PAGES = 64
PAGE_US = 15_000
MAKE = {
    "ext4": ["mkfs.ext4", "-q", "-F", "-b", PAGE],
    "ext3": ["mkfs.ext3", "-q", "-F", "-b", PAGE],
    "xfs": ["mkfs.xfs", "-q", "-f"],
}
KINDS = ["read", "write", "grow"]
THROUGH_CACHE = ["cached read", "cached write"]
DRAWN = 20
DEVICE_BYTES = 512 << 20
SAMPLE_S = 0.001
# linux/fs.h: SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE and _WAIT_AFTER.
WRITE_AND_WAIT = 7
libc.sync_file_range.argtypes = [ctypes.c_int, *[ctypes.c_longlong] * 2, ctypes.c_uint]


def call(fd: int, cached_fd: int, kind: str, thread: int) -> None:
    """What one thread does."""
    buffer = mmap.mmap(-1, PAGE)
    buffer[:] = bytes([thread + 1]) * PAGE
    for nth in range(CALLS):
        page = CALLS * thread + nth + (FILE_PAGES if kind == "grow" else 0)
        if kind == "read":
            os.preadv(fd, [buffer], page * PAGE)
        elif kind == "cached read":
            os.pread(cached_fd, PAGE, page * PAGE)
        elif kind == "cached write":
            os.pwrite(cached_fd, buffer, page * PAGE)
            if libc.sync_file_range(cached_fd, page * PAGE, PAGE, WRITE_AND_WAIT) != 0:
                raise OSError(ctypes.get_errno(), "sync_file_range")
        else:
            os.pwritev(fd, [buffer], page * PAGE)


def drawn(seed: int, system: str) -> list[list[str]]:
    """What the threads of each pattern do."""
    rng = random.Random(f"{seed} {system} locks")
    # Where a file has no extents, the kernel fills holes through the page cache.
    kinds = [*(KINDS[:2] if system == "ext3" else KINDS), *THROUGH_CACHE]
    return [[rng.choice(kinds) for _ in range(rng.randint(2, THREADS))] for _ in range(DRAWN)]


def under_way(loop: Path, threads: list[threading.Thread]) -> tuple[int, float]:
    """The most requests that the device had at once until all threads have ended, and the mean."""
    inflight = Path(f"/sys/block/{loop.name}/inflight")
    seen = []
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        seen.append(sum(map(int, inflight.read_text().split())))
        time.sleep(SAMPLE_S)
    return max(seen), sum(seen) / len(seen)


def observe(
    system: str, kinds: list[str], loop: Path, root: Path, device: slow_device.Device
) -> tuple[int, float]:
    """Requests under way at the most and in the mean, of threads with a kind of calls each."""
    done(*MAKE[system], loop)
    done("mount", loop, root)
    try:
        path = root / "file"
        path.write_bytes(b"\1" * FILE_PAGES * PAGE)
        fd = os.open(path, os.O_RDWR | os.O_DIRECT)
        cached_fd = os.open(path, os.O_RDWR)
        try:
            os.sync()
            os.posix_fadvise(cached_fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.posix_fadvise(cached_fd, 0, 0, os.POSIX_FADV_RANDOM)
            # The first write looks for what a write has to take away (`file_remove_privs`), alone.
            os.pwritev(fd, [mmap.mmap(-1, PAGE)], 0)
            device.set_pace(PAGE_US)
            threads = [
                threading.Thread(target=call, args=(fd, cached_fd, kind, thread))
                for thread, kind in enumerate(kinds)
            ]
            return under_way(loop, threads)
        finally:
            device.set_pace(0)
            os.close(cached_fd)
            os.close(fd)
    finally:
        done("umount", root)


def main() -> None:
    """The command."""
    parser = asking(__doc__)
    parser.add_argument("--drawn", action="store_true", help="what is drawn by the seed instead")
    arguments = parser.parse_args()
    if lacks := missing():
        skipped("observe_locks.py: this computer lacks " + ", ".join(lacks))
    seen: list[dict[str, object]] = []
    with ExitStack() as stack:
        work = stack.enter_context(in_memory())
        file, device = stack.enter_context(slow(work, DEVICE_BYTES))
        loop = stack.enter_context(fresh_loop(file))
        # What is answered is there: syncs flush nothing, which the device would take its time for.
        Path(f"/sys/block/{loop.name}/queue/write_cache").write_text("write through")
        root = work / "root"
        root.mkdir()
        for system in MAKE:
            fixed = [[kind] * THREADS for kind in KINDS]
            for kinds in drawn(arguments.seed, system) if arguments.drawn else fixed:
                most, mean = observe(system, kinds, loop, root, device)
                print(system, kinds, most, mean, file=sys.stderr)
                told: dict[str, object] = {"most_under_way": most}
                if arguments.drawn:
                    told |= {"kinds": kinds, "mean_under_way": round(mean, 2)}
                else:
                    told |= {"kind": kinds[0]}
                seen.append({"system": system, **told})
    write(arguments, {"threads": THREADS, "runs": seen})


if __name__ == "__main__":
    main()
