#!/usr/bin/env python3
"""Watches what the kernel of this computer swaps of files in a tmpfs, and writes it down as JSON.

`observe_shmem.py shmem.json` runs the patterns of `reclaim_patterns.py`, each on a file of a tmpfs
that has been written before, in a memory control group of 6 MiB, with swap on a loop device, five
times over. It writes how many pages were swapped in and out each time (/proc/vmstat), and how many
of the file's pages were in memory at once (cachestat). It needs root, memory control groups of
version 1, and a computer that has no other swap in use; what is missing is said.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import reclaim_patterns
from observe import PAGE, Mapping, asked, counted, looped, mounted, skipped, write
from observe_reclaim import GROUPS, Group, encoded, in_cache
from reclaim_patterns import LIMIT_PAGES, Pattern

SWAP_BYTES = 256 << 20
TIMES = 5
PAGE_CLUSTER = Path("/proc/sys/vm/page-cluster")


@contextmanager
def swap(work: Path, *, rotational: bool = False) -> Iterator[Path]:
    """Swap on a loop device, which reads from its file past the page cache; a disk, if told so."""
    image = work / "swap"
    with image.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, SWAP_BYTES)
    with looped(image) as loop:
        told = Path("/sys/block") / Path(loop).name / "queue/rotational"
        before = told.read_text()
        try:
            told.write_text(str(int(rotational)))
            subprocess.run(["mkswap", loop], check=True, stdout=subprocess.DEVNULL)
            subprocess.run(["swapon", loop], check=True)
            yield Path(loop)
        finally:
            if loop in Path("/proc/swaps").read_text().split():
                subprocess.run(["swapoff", loop], check=True)
            told.write_text(before)


@contextmanager
def tmpfs(root: Path, size_bytes: int = SWAP_BYTES) -> Iterator[None]:
    """A tmpfs of single pages."""
    root.mkdir()
    with mounted(root, "-t", "tmpfs", "-o", f"size={size_bytes},huge=never", "tmpfs"):
        yield


@contextmanager
def page_cluster(power: int) -> Iterator[None]:
    """So many pages, as a power of two, are read at once from swap."""
    before = PAGE_CLUSTER.read_text()
    PAGE_CLUSTER.write_text(str(power))
    try:
        yield
    finally:
        PAGE_CLUSTER.write_text(before)


def needs_swap(observer: str) -> None:
    """Ends an observer that cannot add swap, or tell what a control group swaps."""
    if os.geteuid() != 0:
        skipped(f"{observer}: only root can make control groups, mount and add swap")
    if not (GROUPS / "memory.stat").exists():
        skipped(f"{observer}: this computer lacks control groups of version 1")
    tools = ("losetup", "mkswap", "swapon", "swapoff", "mount", "umount")
    if lacks := [f"the program {tool}" for tool in tools if not shutil.which(tool)]:
        skipped(f"{observer}: this computer lacks " + ", ".join(lacks))
    if len(Path("/proc/swaps").read_text().splitlines()) > 1:
        skipped(f"{observer}: this computer has swap already; swapoff -a")


def swapped() -> tuple[int, int]:
    """Pages swapped in and out since this computer started."""
    counts = counted()
    return counts["pswpin"], counts["pswpout"]


def run(pattern: Pattern, pages: int, path: Path) -> tuple[int, dict[str, int]]:
    """Writes a file of so many pages, and runs a pattern on it, in a group of its own.

    The most of its pages that were in memory at once, as far as was looked, and what was swapped.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    before, most = swapped(), 0
    group = Group(LIMIT_PAGES)
    content = b"\1" * PAGE  # Zeros are not written to swap (`is_folio_zero_filled`, mm/page_io.c).
    try:
        group.join()
        for page in range(pages):
            os.pwrite(fd, content, page * PAGE)
        mapping = Mapping(fd, 0, pages, 0)
        for number, (load, page) in enumerate(pattern.steps, 1):
            if load:
                mapping.load(page)
            else:
                os.pread(fd, pattern.read_pages * PAGE, page * PAGE)
            if number % 128 == 0:
                group.counted()
                most = max(most, in_cache(fd))
        after = swapped()
        mapping.close()
    finally:
        os.close(fd)
        path.unlink()
        group.close()
    ins, outs = (now - then for now, then in zip(after, before, strict=True))
    return most, {"swap_in_pages": ins, "swap_out_pages": outs}


def runs(pattern: Pattern, path: Path) -> dict[str, object]:
    """Runs a pattern a few times: what is being written when a page is wanted is never the same."""
    pages = max(page for _, page in pattern.steps) + pattern.read_pages
    found = [run(pattern, pages, path) for _ in range(TIMES)]
    return {
        "read_pages": pattern.read_pages,
        "file_pages": pages,
        "most_pages": max(most for most, _ in found),
        "steps": encoded(pattern.steps),
        "seen": [seen for _, seen in found],
    }


def main() -> None:
    """The command."""
    arguments = asked(__doc__)
    needs_swap("observe_shmem.py")
    found = []
    with tempfile.TemporaryDirectory(prefix="tierscope-observe-", dir="/var/tmp") as name:
        work = Path(name)
        with swap(work), tmpfs(work / "tmpfs"):
            for number, (about, pattern) in enumerate(
                reclaim_patterns.all_patterns(arguments.seed, arguments.each)
            ):
                # Each kind has patterns with readahead from swap and without.
                power = 3 if number // len(reclaim_patterns.KINDS) % 2 else 0
                with page_cluster(power):
                    seen = runs(pattern, work / "tmpfs" / "file")
                about = {"name": about["name"], "half": about["half"], "cluster_pages": 1 << power}
                found.append(about | seen)
                print(about["name"], file=sys.stderr)
    write(arguments, {"runs": found})


if __name__ == "__main__":
    main()
