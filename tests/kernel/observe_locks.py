#!/usr/bin/env python3
"""Watches which calls on one file the kernel lets go on side by side, as JSON.

`observe_locks.py locks.json` has four threads call on one file past the page cache, each four times
a page of its own: they read, write what the file has already, or write behind its end. The file is
on ext4, ext3 or XFS, on a loop device over the file of `slow_device.py`. It writes how many of the
device's requests were under way at the most (`/sys/block/*/inflight`): one where calls have the
file one after the other, and more where they go on side by side. It needs root; what is missing is
said.
"""

import mmap
import os
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import slow_device
from observe import PAGE, asked, missing, skipped, write
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
DEVICE_BYTES = 512 << 20


def call(fd: int, kind: str, thread: int) -> None:
    """What one thread does."""
    buffer = mmap.mmap(-1, PAGE)
    buffer[:] = bytes([thread + 1]) * PAGE
    for nth in range(CALLS):
        page = CALLS * thread + nth + (FILE_PAGES if kind == "grow" else 0)
        if kind == "read":
            os.preadv(fd, [buffer], page * PAGE)
        else:
            os.pwritev(fd, [buffer], page * PAGE)


def most_under_way(loop: Path, threads: list[threading.Thread]) -> int:
    """The most requests that the device had at once, until all threads have ended."""
    inflight = Path(f"/sys/block/{loop.name}/inflight")
    most = 0
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        most = max(most, sum(map(int, inflight.read_text().split())))
    return most


def observe(system: str, kind: str, loop: Path, root: Path, device: slow_device.Device) -> int:
    """Requests under way at the most, of calls of a kind."""
    done(*MAKE[system], loop)
    done("mount", loop, root)
    try:
        path = root / "file"
        path.write_bytes(b"\1" * FILE_PAGES * PAGE)
        fd = os.open(path, os.O_RDWR | os.O_DIRECT)
        try:
            os.sync()
            # The first write looks for what a write has to take away (`file_remove_privs`), alone.
            os.pwritev(fd, [mmap.mmap(-1, PAGE)], 0)
            device.set_pace(PAGE_US)
            threads = [
                threading.Thread(target=call, args=(fd, kind, thread)) for thread in range(THREADS)
            ]
            return most_under_way(loop, threads)
        finally:
            device.set_pace(0)
            os.close(fd)
    finally:
        done("umount", root)


def main() -> None:
    """The command."""
    arguments = asked(__doc__)
    if lacks := missing():
        skipped("observe_locks.py: this computer lacks " + ", ".join(lacks))
    seen = []
    with ExitStack() as stack:
        work = stack.enter_context(in_memory())
        file, device = stack.enter_context(slow(work, DEVICE_BYTES))
        loop = stack.enter_context(fresh_loop(file))
        root = work / "root"
        root.mkdir()
        for system in MAKE:
            for kind in KINDS:
                most = observe(system, kind, loop, root, device)
                seen.append({"system": system, "kind": kind, "most_under_way": most})
                print(system, kind, most, file=sys.stderr)
    write(arguments, {"threads": THREADS, "runs": seen})


if __name__ == "__main__":
    main()
