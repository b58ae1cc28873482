#!/usr/bin/env python3
"""Watches how much the kernel of this computer writes back, and writes it down as JSON.

`observe_write_back.py write-back.json` runs the patterns of `write_back_patterns.py` on ext4
without a journal, on a loop device over a file in memory, with the kernel's thresholds and times of
dirty pages (/proc/sys/vm) set for each, and set back in the end. It writes how many pages the
device was asked to write until the pattern's end, and once the file has been synced, in each of
three runs. It needs root; what is missing is said.
"""

import ctypes
import mmap
import os
import struct
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from advice_patterns import halves
from observe import PAGE, asked, libc, missing, skipped, write
from write_back_patterns import FILE_PAGES, KINDS, Pattern

TIMES = 3
SETTINGS = Path("/proc/sys/vm")
NAMES = [
    "dirty_bytes",
    "dirty_ratio",
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirty_expire_centisecs",
    "dirty_writeback_centisecs",
]


@contextmanager
def settings() -> Iterator[None]:
    """What the kernel's settings were holds again in the end."""
    before = {name: (SETTINGS / name).read_text() for name in NAMES}
    try:
        yield
    finally:
        for name, value in before.items():
            # Of a ratio and its bytes one holds, and the other is 0.
            if value.strip() != "0" or name.endswith("centisecs"):
                (SETTINGS / name).write_text(value)


@contextmanager
def in_memory() -> Iterator[Path]:
    """A folder that lies in memory, for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="tierscope-observe-", dir="/dev/shm") as name:
        yield Path(name)


def done(*command: object) -> str:
    """Runs a command; what it says."""
    words = [str(word) for word in command]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def mounted(work: Path) -> Iterator[tuple[Path, Path]]:
    """An ext4 that keeps time stamps in memory: its root, and what its device has counted."""
    root, image = work / "root", work / "image"
    root.mkdir()
    with image.open("wb") as file:
        file.truncate(64 << 20)
    done("mkfs.ext4", "-q", "-b", PAGE, "-O", "^has_journal", image)
    loop = done("losetup", "--find", "--show", "--direct-io=on", image)
    try:
        done("mount", "-o", "lazytime", loop, root)
        try:
            yield root, Path(f"/sys/block/{Path(loop).name}/stat")
        finally:
            done("umount", root)
    finally:
        done("losetup", "--detach", loop)


def written(counts: Path) -> int:
    """Pages that a device was asked to write."""
    return int(counts.read_text().split()[6]) * 512 // PAGE


def run(pattern: Pattern, fd: int, address: int, counts: Path) -> list[int]:
    """Runs a pattern: pages written until its end, and in all."""
    page_bytes = bytes(PAGE)
    os.fsync(fd)
    before = written(counts)
    for batch in pattern.batches:
        for page in batch:
            if pattern.stores:
                ctypes.c_ubyte.from_address(address + page * PAGE).value = 1
            else:
                os.pwrite(fd, page_bytes, page * PAGE)
        time.sleep(pattern.pause_ms / 1000)
    at_end = written(counts)
    os.fsync(fd)
    return [at_end - before, written(counts) - before]


def set_thresholds(pattern: Pattern) -> None:
    """The kernel's thresholds and times become those of a pattern."""
    values = {
        "dirty_bytes": 4 * pattern.background_pages * PAGE,
        "dirty_background_bytes": pattern.background_pages * PAGE,
        "dirty_expire_centisecs": pattern.expire_ms // 10,
        "dirty_writeback_centisecs": pattern.interval_ms // 10,
    }
    for name, value in values.items():
        (SETTINGS / name).write_text(str(value))


def told(pattern: Pattern, seen: list[list[int]]) -> dict[str, object]:
    """A pattern, and what was seen of it, as they are written down."""
    pages = [page for batch in pattern.batches for page in batch]
    about = {name: value for name, value in vars(pattern).items() if name != "batches"}
    return {
        **about,
        "batch": len(pattern.batches[0]),
        "pages": b64encode(struct.pack(f"<{len(pages)}H", *pages)).decode(),
        "seen": seen,
    }


def observe(pattern: Pattern, fd: int, counts: Path) -> dict[str, object]:
    """Runs a pattern a few times; what was seen."""
    set_thresholds(pattern)
    access = mmap.PROT_READ | mmap.PROT_WRITE
    address = libc.mmap(None, FILE_PAGES * PAGE, access, mmap.MAP_SHARED, fd, 0)
    try:
        seen = [run(pattern, fd, address, counts) for _ in range(TIMES)]
    finally:
        libc.munmap(ctypes.c_void_p(address), FILE_PAGES * PAGE)
    return told(pattern, seen)


def main() -> None:
    """The command."""
    arguments = asked(__doc__)
    if lacks := missing():
        skipped("observe_write_back.py: this computer lacks " + ", ".join(lacks))
    found = []
    with (
        in_memory() as work,
        settings(),
        mounted(work) as (root, counts),
    ):
        fd = os.open(root / "file", os.O_RDWR | os.O_CREAT)
        # Page by page, so that they are in folios of their own.
        for page in range(FILE_PAGES):
            os.pwrite(fd, b"\1" * PAGE, page * PAGE)
        try:
            for kind in KINDS:
                for rng, about in halves(arguments.seed, arguments.each, kind.__name__):
                    found.append({**about, **observe(kind(rng), fd, counts)})
                    print(about["name"], found[-1]["seen"], file=sys.stderr)
        finally:
            os.close(fd)
    write(arguments, {"file_pages": FILE_PAGES, "runs": found})


if __name__ == "__main__":
    main()
