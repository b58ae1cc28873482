#!/usr/bin/env python3
"""Watches how the kernel writes many files back, and how it holds writers back, as JSON.

`observe_writers.py writers.json` runs the patterns of `writers_patterns.py` on ext4 without a
journal on loop devices, as `observe_write_back.py` does: one over a file in memory, which is always
quicker than the program, and one over the file of `slow_device.py`, which cannot keep up with it.
It writes how many pages the device was asked to write until the pattern's end, and once all files
have been synced, and of its pages that were dirty or under way (`bdi` of debugfs) the mean of the
later half of the pattern's time, and the most. Dirty pages are counted together for all devices, so
that other programs that write disturb: of some runs those three are taken in which they made the
fewest pages dirty. It needs root; what is missing is said.
"""

import ctypes
import fcntl
import mmap
import os
import re
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import slow_device
from advice_patterns import halves
from observe import PAGE, asked, counted, libc, missing, skipped, write
from observe_write_back import TIMES, done, in_memory, set_thresholds, settings, told, written
from write_back_patterns import FILE_PAGES
from writers_patterns import KINDS, Writers

LOOP_CTL_ADD, LOOP_CTL_REMOVE = 0x4C80, 0x4C81
DEVICE_BYTES = 96 << 20
SAMPLE_S = 0.005
FEW_PAGES = 60
MOST_RUNS = 6


@contextmanager
def debugfs(work: Path) -> Iterator[Path]:
    """What the kernel tells of its devices."""
    root = work / "debug"
    root.mkdir()
    done("mount", "-t", "debugfs", "none", root)
    try:
        yield root
    finally:
        done("umount", root)


@contextmanager
def quick(work: Path) -> Iterator[Path]:
    """A file in memory."""
    image = work / "image"
    with image.open("wb") as file:
        file.truncate(DEVICE_BYTES)
    yield image


@contextmanager
def slow(work: Path, size_bytes: int = DEVICE_BYTES) -> Iterator[tuple[Path, slow_device.Device]]:
    """A file of the device that takes its time, and its pace."""
    root = work / "slow"
    root.mkdir()
    server, device = slow_device.mount(root, size_bytes)
    try:
        yield root / slow_device.NAME.decode(), device
    finally:
        device.set_pace(0)
        try:
            done("umount", root)
        except subprocess.CalledProcessError:
            done("umount", "--lazy", root)
        finally:
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)


@contextmanager
def fresh_loop(image: Path) -> Iterator[Path]:
    """A loop device that has not been there before, so that the kernel does not know its pace."""
    with Path("/dev/loop-control").open("rb", buffering=0) as control:
        number = fcntl.ioctl(control, LOOP_CTL_ADD, -1)
        try:
            loop = Path(f"/dev/loop{number}")
            done("losetup", "--direct-io=on", loop, image)
            try:
                yield loop
            finally:
                done("losetup", "--detach", loop)
        finally:
            for _ in range(100):
                try:
                    fcntl.ioctl(control, LOOP_CTL_REMOVE, number)
                    break
                except OSError:
                    time.sleep(0.02)


@contextmanager
def mounted(image: Path, root: Path) -> Iterator[Path]:
    """An ext4 that keeps time stamps in memory below `root`: its loop device.

    Of what may be dirty it has nearly all, whatever others write to theirs: as if it were the only
    device.
    """
    with fresh_loop(image) as loop:
        done("mount", "-o", "lazytime", loop, root)
        number = loop.stat().st_rdev
        share = Path(f"/sys/class/bdi/{os.major(number)}:{os.minor(number)}/min_ratio")
        try:
            share.write_text("99")
            yield loop
        finally:
            share.write_text("0")
            done("umount", root)


class Files:
    """Files of a pattern, one behind the other, in memory as pages in folios of their own."""

    def __init__(self, root: Path, pages: list[int], stores: bool) -> None:
        self.fds: list[int] = []
        self.places: list[tuple[int, int]] = []
        self.maps: list[tuple[int, int]] = []
        for number, count in enumerate(pages):
            fd = os.open(root / f"file {number}", os.O_RDWR)
            self.fds.append(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
            for page in range(count):
                os.pread(fd, PAGE, page * PAGE)
            address = 0
            if stores:
                access = mmap.PROT_READ | mmap.PROT_WRITE
                address = libc.mmap(None, count * PAGE, access, mmap.MAP_SHARED, fd, 0)
                self.maps.append((address, count * PAGE))
            for page in range(count):
                self.places.append((fd, page * PAGE) if not stores else (-1, address + page * PAGE))

    def sync(self) -> None:
        """Writes all of them."""
        for fd in self.fds:
            os.fsync(fd)

    def close(self) -> None:
        """Closes them."""
        for address, length in self.maps:
            libc.munmap(ctypes.c_void_p(address), length)
        for fd in self.fds:
            os.close(fd)


def watch(stats: Path, until: int) -> tuple[int, int]:
    """A process that samples dirty pages until a pipe has something; and what it will tell by."""
    reader, writer = os.pipe()
    child = os.fork()
    if child != 0:
        os.close(writer)
        return child, reader
    os.close(reader)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    samples = []
    names = re.compile(r"Bdi(?:Writeback|Reclaimable): +(\d+) kB")
    while not select.select([until], [], [], SAMPLE_S)[0]:
        kib = sum(int(number) for number in names.findall(stats.read_text()))
        samples.append(kib * 1024 // PAGE)
    later = samples[len(samples) // 2 :]
    os.write(writer, struct.pack("<QQ", sum(later) // max(1, len(later)), max(samples, default=0)))
    os._exit(0)


def others(stats: Path) -> int:
    """Pages that have become dirty on other devices."""
    own = re.search(r"BdiDirtied: +(\d+) kB", stats.read_text())
    return counted()["nr_dirtied"] - int(own[1]) * 1024 // PAGE if own else 0


def make(image: Path, root: Path, pages: list[int]) -> None:
    """A file system with a pattern's files."""
    done("mkfs.ext4", "-q", "-F", "-b", PAGE, "-O", "^has_journal", image)
    with mounted(image, root):
        for number, count in enumerate(pages):
            (root / f"file {number}").write_bytes(b"\1" * count * PAGE)


def quietest(
    pattern: Writers, image: Path, root: Path, debug: Path, set_pace: Callable[[int], None]
) -> list[list[int]]:
    """The runs of a pattern in which others have written least, each on a device of its own."""
    runs: list[tuple[int, list[int]]] = []
    for _ in range(MOST_RUNS if pattern.pause_ms < 50 else TIMES):
        with mounted(image, root) as device:
            files = Files(root, pattern.files, pattern.stores)
            try:
                # Files come to memory at once; what follows takes its time.
                set_pace(pattern.page_us)
                runs.append(run(pattern, files, device, debug))
            finally:
                set_pace(0)
                files.close()
        if sum(by_others <= FEW_PAGES for by_others, _ in runs) >= TIMES:
            break
    runs.sort()
    print("dirty by others:", [by_others for by_others, _ in runs], file=sys.stderr)
    return [seen for _, seen in runs[:TIMES]]


def run(pattern: Writers, files: Files, device: Path, debug: Path) -> tuple[int, list[int]]:
    """Runs a pattern: pages written until its end, and in all; dirty in the mean, and most.

    Before that, how many pages others have made dirty.
    """
    counts = Path(f"/sys/block/{device.name}/stat")
    number = device.stat().st_rdev
    stats = debug / f"bdi/{os.major(number)}:{os.minor(number)}/stats"
    page_bytes = bytes(PAGE)
    files.sync()
    before, by_others = written(counts), others(stats)
    until, end = os.pipe()
    watcher, seen = watch(stats, until)
    for batch in pattern.batches:
        for page in batch:
            fd, at = files.places[page]
            if pattern.stores:
                ctypes.c_ubyte.from_address(at).value = 1
            else:
                os.pwrite(fd, page_bytes, at)
        if pattern.pause_ms:
            time.sleep(pattern.pause_ms / 1000)
    at_end = written(counts)
    os.write(end, b"\1")
    mean, most = struct.unpack("<QQ", os.read(seen, 16))
    os.waitpid(watcher, 0)
    for fd in until, end, seen:
        os.close(fd)
    by_others = others(stats) - by_others
    files.sync()
    return by_others, [at_end - before, written(counts) - before, mean, most]


def observe(
    pattern: Writers, image: Path, root: Path, debug: Path, set_pace: Callable[[int], None]
) -> dict[str, object]:
    """Runs a pattern a few times; what was seen."""
    make(image, root, pattern.files)
    with settings():
        set_thresholds(pattern)
        seen = quietest(pattern, image, root, debug, set_pace)
    return told(pattern, seen)


def main() -> None:
    """The command."""
    arguments = asked(__doc__)
    if lacks := missing():
        skipped("observe_writers.py: this computer lacks " + ", ".join(lacks))
    found = []
    with ExitStack() as stack:
        work = stack.enter_context(in_memory())
        stack.enter_context(settings())
        debug = stack.enter_context(debugfs(work))
        image = stack.enter_context(quick(work))
        file, device = stack.enter_context(slow(work))
        root = work / "root"
        root.mkdir()
        for kind in KINDS:
            for rng, about in halves(arguments.seed, arguments.each, kind.__name__):
                pattern = kind(rng)
                on = file if pattern.page_us > 0 else image
                seen = observe(pattern, on, root, debug, device.set_pace)
                found.append({**about, **seen})
                print(about["name"], found[-1]["seen"], file=sys.stderr)
    write(
        arguments,
        {"processors": os.cpu_count(), "file_pages": FILE_PAGES, "runs": found},
    )


if __name__ == "__main__":
    main()
