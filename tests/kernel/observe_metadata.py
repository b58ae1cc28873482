#!/usr/bin/env python3
"""Watches which metadata of file systems this computer's kernel reads, and writes it as JSON.

`observe_metadata.py metadata.json` makes file systems on a loop device, files in them, mounts them
anew with nothing in memory, and runs the steps below. For each it writes how many requests read
metadata, with how many blocks. The tracepoint is `block:block_rq_issue`.
It needs root; what is missing is said.
"""

import argparse
import fcntl
import json
import os
import platform
import shutil
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from observe import skipped
from observe_journal import BLOCK, LINE, SECTORS, TRACING, run

INSTANCE = TRACING / "instances/tierscope-metadata"
# linux/fs.h.
FIBMAP = 1
KINDS = ("ext4", "ext3", "xfs")
# In the topmost directory, and in the other: so few that XFS has them in its inode.
FILES = 40
FEW_FILES = 12
BIG_BLOCKS = 16384


def missing() -> list[str]:
    """What this computer lacks for observing, in words; empty if nothing."""
    if os.geteuid() != 0:
        return ["root"]
    lacks = []
    if not (TRACING / "events/block/block_rq_issue").exists():
        lacks.append(f"tracefs at {TRACING} with block:block_rq_issue")
    tools = ("losetup", "mkfs.ext4", "mkfs.xfs", "mount")
    return lacks + [tool for tool in tools if not shutil.which(tool)]


class FileSystem:
    """A file system on a loop device with files that nothing in memory knows of."""

    def __init__(self, directory: Path, kind: str) -> None:
        image = directory / "image"
        with image.open("wb") as file:
            file.truncate(512 << 20)
        self.device = run("losetup", "--find", "--show", str(image)).strip()
        number = Path(self.device).stat().st_rdev
        self.numbers = (os.major(number), os.minor(number))
        if kind == "xfs":
            run("mkfs.xfs", "-q", "-f", "-b", f"size={BLOCK}", self.device)
        else:
            run("mkfs.ext4", "-q", "-t", kind, "-b", str(BLOCK), self.device)
        self.mount = directory / "mount"
        self.mount.mkdir()
        self.mount_command = ("mount", "-t", kind, "-o", "noatime", self.device, str(self.mount))
        run(*self.mount_command)
        self.fill()
        run("umount", str(self.mount))
        Path("/proc/sys/vm/drop_caches").write_text("3")
        run(*self.mount_command)
        # What mounting begins in the background.
        time.sleep(8)

    def fill(self) -> None:
        (self.mount / "a/b").mkdir(parents=True)
        names = [f"f{n}" for n in range(FILES)] + [f"a/g{n}" for n in range(FEW_FILES)]
        for name in [*names, "a/b/deep"]:
            (self.mount / name).write_bytes(os.urandom(BLOCK))
        (self.mount / "big").write_bytes(os.urandom(BIG_BLOCKS * BLOCK))

    def close(self) -> None:
        run("umount", str(self.mount))
        run("losetup", "--detach", self.device)

    def read(self, page: int) -> set[int]:
        """Reads a page of the big file alone, and says where it lies."""
        file = os.open(self.mount / "big", os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(file, BLOCK, page * BLOCK)
        (block,) = struct.unpack("i", fcntl.ioctl(file, FIBMAP, struct.pack("i", page)))
        os.close(file)
        return {block}

    def write(self, name: str) -> None:
        file = os.open(self.mount / name, os.O_WRONLY)
        os.write(file, os.urandom(BLOCK))
        os.fsync(file)
        os.close(file)

    def steps(self) -> list[tuple[str, Callable[[], object]]]:
        path = self.mount

        def unlink() -> None:
            (path / "f5").unlink()
            os.sync()

        reads = [(f"read big {n}", lambda n=n: self.read(n)) for n in (0, 100, 2000, 9000, 9001)]
        return [
            ("open f3", lambda: (path / "f3").open().close()),
            ("open f4", lambda: (path / "f4").open().close()),
            ("open a/g7", lambda: (path / "a/g7").open().close()),
            ("open a/g8", lambda: (path / "a/g8").open().close()),
            ("list a", lambda: list((path / "a").iterdir())),
            ("open a/b/deep", lambda: (path / "a/b/deep").open().close()),
            ("open big", lambda: (path / "big").open().close()),
            *reads,
            ("create n1", lambda: (path / "n1").touch()),
            ("write n1", lambda: self.write("n1")),
            ("unlink f5", unlink),
        ]

    def observe(self) -> list[dict[str, str | int]]:
        """What each step reads, but for data of files."""
        observed = []
        for name, step in self.steps():
            (INSTANCE / "trace").write_text("")
            data = step()
            time.sleep(0.05)
            lines = LINE.findall((INSTANCE / "trace").read_text())
            reads = [
                (int(sector) // SECTORS, int(sectors) // SECTORS or 1)
                for major, minor, flags, sector, sectors in lines
                if (int(major), int(minor)) == self.numbers and flags.startswith("R")
            ]
            data = data if isinstance(data, set) else set()
            metadata = [blocks for first, blocks in reads if first not in data]
            observed.append({"name": name, "requests": len(metadata), "blocks": sum(metadata)})
        return observed


def observe(kind: str) -> list[dict[str, str | int]]:
    with tempfile.TemporaryDirectory() as directory:
        system = FileSystem(Path(directory), kind)
        try:
            return system.observe()
        finally:
            system.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    output = parser.parse_args().output
    if lacks := missing():
        skipped(f"cannot observe metadata here: no {', no '.join(lacks)}")
    INSTANCE.mkdir(exist_ok=True)
    try:
        (INSTANCE / "events/block/block_rq_issue/enable").write_text("1")
        systems = [{"name": kind, "steps": observe(kind)} for kind in KINDS]
    finally:
        INSTANCE.rmdir()
    observed = {"kernel": platform.release(), "block_bytes": BLOCK, "systems": systems}
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(observed, indent=1) + "\n")


if __name__ == "__main__":
    main()
