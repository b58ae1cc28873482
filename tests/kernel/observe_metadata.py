#!/usr/bin/env python3
"""Watches which metadata of file systems this computer's kernel reads, and writes it as JSON.

`observe_metadata.py metadata.json` makes file systems on a loop device, files in them, mounts them
anew with nothing in memory, and runs the steps below. For each it writes how many requests read
metadata, with how many blocks. The tracepoint is `block:block_rq_issue`.
It needs root; what is missing is said.

`--drawn SEED` draws directories, files and steps by a seed instead.
"""

import argparse
import fcntl
import json
import os
import platform
import random
import shutil
import struct
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
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

# Of what is drawn: file systems of a kind, steps on each, and names in the topmost directory and in
# others: in an inode of XFS, or in a block of any.
DRAWN_SYSTEMS = 5
DRAWN_STEPS = 16
TOP_NAMES = [40, 90]
NAMES = [3, 11, 40, 100]
DRAWN_BIG_BLOCKS = [200, 2000, 16384]

Step = tuple[str, Callable[[], object]]


def missing() -> list[str]:
    """What this computer lacks for observing, in words; empty if nothing."""
    if os.geteuid() != 0:
        return ["root"]
    lacks = []
    if not (TRACING / "events/block/block_rq_issue").exists():
        lacks.append(f"tracefs at {TRACING} with block:block_rq_issue")
    tools = ("losetup", "mkfs.ext4", "mkfs.xfs", "mount")
    return lacks + [tool for tool in tools if not shutil.which(tool)]


class FileSystem(ABC):
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

    @abstractmethod
    def fill(self) -> None:
        """Makes the files."""

    def close(self) -> None:
        run("umount", str(self.mount))
        run("losetup", "--detach", self.device)

    @abstractmethod
    def steps(self) -> list[Step]:
        """What is done, by name: each tells which blocks of data it has read, or nothing."""

    def read(self, name: str, page: int) -> set[int]:
        """Reads a page of a file alone, and says where it lies."""
        file = os.open(self.mount / name, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(file, BLOCK, page * BLOCK)
        (block,) = struct.unpack("i", fcntl.ioctl(file, FIBMAP, struct.pack("i", page)))
        os.close(file)
        return {block}

    def write(self, name: str) -> None:
        """Writes a page behind the end of a file, and syncs it."""
        file = os.open(self.mount / name, os.O_WRONLY | os.O_APPEND)
        os.write(file, os.urandom(BLOCK))
        os.fsync(file)
        os.close(file)

    def unlink(self, name: str) -> None:
        (self.mount / name).unlink()
        os.sync()

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


class FixedSystem(FileSystem):
    """One that always has the same files and steps."""

    def fill(self) -> None:
        (self.mount / "a/b").mkdir(parents=True)
        names = [f"f{n}" for n in range(FILES)] + [f"a/g{n}" for n in range(FEW_FILES)]
        for name in [*names, "a/b/deep"]:
            (self.mount / name).write_bytes(os.urandom(BLOCK))
        (self.mount / "big").write_bytes(os.urandom(BIG_BLOCKS * BLOCK))

    def steps(self) -> list[Step]:
        path = self.mount
        pages = (0, 100, 2000, 9000, 9001)
        reads = [(f"read big {n}", lambda n=n: self.read("big", n)) for n in pages]
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
            ("unlink f5", lambda: self.unlink("f5")),
        ]


class DrawnSystem(FileSystem):
    """One whose directories, files and steps are drawn. Names have 12 bytes."""

    def __init__(self, directory: Path, kind: str, rng: random.Random) -> None:
        self.rng = rng
        # By path, as it begins; the topmost is "".
        self.inodes: dict[str, int] = {}
        self.directories: list[str] = [""]
        for number in range(rng.randint(1, 3)):
            parent = rng.choice(self.directories)
            self.directories.append(self.within(parent, f"d{number:011}"))
        self.files: list[str] = []
        for parent in self.directories:
            count = rng.choice(NAMES if parent else TOP_NAMES)
            self.files += [self.within(parent, f"f{n:011}") for n in range(count)]
        self.big = self.within(rng.choice(self.directories), "big000000000")
        self.big_blocks = rng.choice(DRAWN_BIG_BLOCKS)
        # How many names a directory has, those of directories included.
        names = [*self.files, *self.directories[1:], self.big]
        self.names = dict(Counter(name.rpartition("/")[0] for name in names))
        super().__init__(directory, kind)

    @staticmethod
    def within(parent: str, name: str) -> str:
        return f"{parent}/{name}" if parent else name

    def fill(self) -> None:
        for name in self.directories[1:]:
            (self.mount / name).mkdir()
        for name in self.files:
            (self.mount / name).write_bytes(os.urandom(BLOCK))
        (self.mount / self.big).write_bytes(os.urandom(self.big_blocks * BLOCK))
        for name in [*self.directories, *self.files, self.big]:
            self.inodes[name] = (self.mount / name).stat().st_ino

    def steps(self) -> list[Step]:
        rng, there, new = self.rng, list(self.files), 0
        steps: list[Step] = []
        for _ in range(DRAWN_STEPS):
            kind = rng.choices(
                ["open", "stat", "list", "read", "create", "append", "unlink"],
                weights=[5, 2, 2, 4, 2, 2, 1],
            )[0]
            if kind == "list":
                name = rng.choice(self.directories)
            elif kind == "create":
                name, new = self.within(rng.choice(self.directories), f"n{new:011}"), new + 1
            elif kind == "read":
                page = rng.randrange(self.big_blocks)
                steps.append((f"read {page}", lambda page=page: self.read(self.big, page)))
                continue
            else:
                # As often in each directory, whatever it has.
                parent = rng.choice(self.directories)
                name = rng.choice([it for it in there if it.rpartition("/")[0] == parent])
            if kind == "unlink":
                there.remove(name)
            elif kind == "create":
                there.append(name)
            steps.append((f"{kind} {name}", lambda kind=kind, name=name: self.do(kind, name)))
        return steps

    def do(self, kind: str, name: str) -> None:
        path = self.mount / name
        if kind == "open":
            path.open().close()
        elif kind == "stat":
            path.stat()
        elif kind == "list":
            list(path.iterdir())
        elif kind == "create":
            path.touch()
        elif kind == "append":
            self.write(name)
        else:
            self.unlink(name)

    def told(self) -> dict[str, object]:
        """What was seen, and of which inodes, with how many names in each directory."""
        observed = self.observe()
        named = {str(step["name"]).partition(" ")[2] for step in observed}
        for name in named - set(self.inodes):
            if (self.mount / name).exists():
                self.inodes[name] = (self.mount / name).stat().st_ino
        named |= {*self.directories, self.big}
        return {
            "inodes": {name: inode for name, inode in self.inodes.items() if name in named},
            "names": self.names,
            "big": [self.big, self.big_blocks],
            "steps": observed,
        }


def observe(kind: str) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as directory:
        system = FixedSystem(Path(directory), kind)
        try:
            return {"name": kind, "steps": system.observe()}
        finally:
            system.close()


def observe_drawn(kind: str, seed: int, number: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as directory:
        rng = random.Random(f"{seed} {kind} {number} metadata")
        system = DrawnSystem(Path(directory), kind, rng)
        try:
            return {"name": kind, **system.told()}
        finally:
            system.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--drawn", metavar="SEED", type=int, help="what is drawn instead")
    arguments = parser.parse_args()
    output, seed = arguments.output, arguments.drawn
    if lacks := missing():
        skipped(f"cannot observe metadata here: no {', no '.join(lacks)}")
    INSTANCE.mkdir(exist_ok=True)
    try:
        (INSTANCE / "events/block/block_rq_issue/enable").write_text("1")
        if seed is None:
            systems = [observe(kind) for kind in KINDS]
        else:
            systems = [
                observe_drawn(kind, seed, number)
                for kind in KINDS
                for number in range(DRAWN_SYSTEMS)
            ]
    finally:
        INSTANCE.rmdir()
    observed = {"kernel": platform.release(), "block_bytes": BLOCK, "systems": systems}
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(observed, indent=1) + "\n")


if __name__ == "__main__":
    main()
