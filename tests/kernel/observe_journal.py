#!/usr/bin/env python3
"""Watches what the journals of this computer's ext4 and XFS write, and writes it down as JSON.

`observe_journal.py journal.json` makes file systems on a loop device and runs the steps below,
each from a file system at rest, on nine file systems. For each it writes what the device was
asked for most often, in order, `data`, `journal` and `metadata` with their blocks, and `flush`,
and how often that was so. The tracepoint is `block:block_rq_issue`.
It needs root; what is missing is said.

`--drawn SEED` runs steps that are drawn by a seed instead: changes of files, and a sync behind
them.
"""

import argparse
import ctypes
import json
import mmap
import os
import platform
import random
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from observe import skipped

BLOCK = 4096
SECTORS = BLOCK // 512
TRACING = Path("/sys/kernel/tracing")
INSTANCE = TRACING / "instances/tierscope-journal"
LINE = re.compile(r"block_rq_issue: (\d+),(\d+) (\S+) \d+ \(.*?\) (\d+) \+ (\d+) ")
# linux/fs.h: SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE and _WAIT_AFTER.
WRITE_AND_WAIT = 7
# asm-generic/mman-common.h.
MS_ASYNC = 1
# linux/fcntl.h, linux/fs.h.
AT_FDCWD = -100
RENAME_EXCHANGE = 2
# File systems on which each step is observed.
TIMES = 9
# Longer than the kernel's timestamps take to change, at any HZ.
TICK_S = 0.02

# Between two looks of XFS at what has waited for long, in hundredths of a second: the most that
# it takes.
XFS_LOOKS = Path("/proc/sys/fs/xfs/xfssyncd_centisecs")
RARELY = "720000"

# Name, type, options of mount. XFS on a device with sectors of a block's size writes its log in
# whole blocks.
SYSTEMS = [
    ("ext4", "ext4", "data=ordered"),
    ("ext4 without barriers", "ext4", "data=ordered,nobarrier"),
    ("ext4 writeback", "ext4", "data=writeback"),
    ("ext4 journal", "ext4", "data=journal"),
    ("ext3", "ext3", "data=ordered"),
    ("ext3 journal", "ext3", "data=journal"),
    ("xfs", "xfs", ""),
]

TWO_FILES = [["append", 1], ["create", 1], ["append", 1]]
# Written one by one, as of a larger folio all dirty blocks are written where any are.
SMALL_FOLIOS = [["create", 1], *8 * [["append", 1]]]

# Name, and calls: what is done, and with how many blocks or files.
STEPS: list[tuple[str, list[list[str | int]]]] = [
    ("an appended block", [["append", 1], ["fsync"]]),
    ("an appended block, its data", [["append", 1], ["fdatasync"]]),
    ("64 appended blocks", [["append", 64], ["fsync"]]),
    ("an overwritten block", [["overwrite", 1], ["fsync"]]),
    ("an overwritten block, its data", [["overwrite", 1], ["fdatasync"]]),
    ("nothing", [["fsync"]]),
    ("a file", [["create", 1], ["fsync"]]),
    ("a file with a block", [["create", 1], ["append", 1], ["fsync"]]),
    ("64 files", [["create", 64], ["fsync"]]),
    ("a file cut off", [["truncate", 0], ["fsync"]]),
    ("two appends", [["append", 1], ["fsync"], ["append", 1], ["fsync"]]),
    ("a block of two files, the file system", [*TWO_FILES, ["syncfs"]]),
    ("a block of two files, everything", [*TWO_FILES, ["sync"]]),
    ("an overwritten block, the file system", [["overwrite", 1], ["syncfs"]]),
    ("nothing, the file system", [["syncfs"]]),
    ("nothing, everything", [["sync"]]),
    ("8 mapped blocks, 2 of them", [*SMALL_FOLIOS, ["fsync"], ["store", 8], ["msync", 2]]),
    ("8 mapped blocks, later", [["store", 8], ["msync later", 8]]),
    (
        "8 blocks, 2 of them written",
        [*SMALL_FOLIOS, ["fsync"], ["overwrite", 8], ["sync_file_range", 2]],
    ),
    ("8 new blocks, 2 of them written", [*SMALL_FOLIOS, ["sync_file_range", 2]]),
    # The last, as those behind it would get the inode that it frees.
    ("a file deleted", [["delete", 1], ["append", 1], ["fsync"]]),
]
# Of XFS, whose log is written in several buffers, and has data of others behind it.
MORE_STEPS: list[tuple[str, list[list[str | int]]]] = [
    (
        "an overwritten block behind another file's sync, the file system",
        [["overwrite", 1], ["create", 1], ["fsync"], ["syncfs"]],
    ),
    ("400 files", [["create", 400], ["fsync"]]),
]
# What becomes of names: each from directories "here" and "there" with a file "a" in each, and, in
# "here", a file "twice" with another name there.
WRITE = [["append", 1], ["fsync"]]
STEPS_OF_NAMES: list[tuple[str, list[list[str | int]]]] = [
    ("nothing but a block", WRITE),
    ("a directory", [["mkdir", "here/new"], *WRITE]),
    ("a file in a new directory", [["mkdir", "here/new"], ["make", "here/new/b"], *WRITE]),
    ("3 directories", [*[["mkdir", f"here/new{n}"] for n in range(3)], *WRITE]),
    ("a directory removed", [["rmdir", "here/empty"], *WRITE]),
    ("a file renamed", [["rename", "here/a", "here/b"], *WRITE]),
    ("a file renamed to another directory", [["rename", "here/a", "there/b"], *WRITE]),
    ("a file renamed over another", [["rename", "here/a", "here/twin"], *WRITE]),
    ("a file renamed over that of another directory", [["rename", "here/a", "there/a"], *WRITE]),
    ("a directory renamed", [["rename", "here/empty", "here/b"], *WRITE]),
    ("a directory renamed to another", [["rename", "here/empty", "there/b"], *WRITE]),
    ("a directory renamed over another", [["rename", "here/empty", "there/empty"], *WRITE]),
    ("two names exchanged", [["exchange", "here/a", "here/twin"], *WRITE]),
    ("another name", [["link", "here/a", "here/b"], *WRITE]),
    ("another name in another directory", [["link", "here/a", "there/b"], *WRITE]),
    ("one of two names taken away", [["unlink", "there/twice"], *WRITE]),
    ("a file renamed over one of two names", [["rename", "here/a", "there/twice"], *WRITE]),
    (
        "a file saved as editors do",
        [["make", "here/b"], *WRITE, ["rename", "here/b", "here/a"], ["fsync of", "here"]],
    ),
    ("400 files in a directory", [["make many", "here/f00000000", 400], *WRITE]),
]


# Steps that are drawn for each file system, and how many files and blocks a change is of.
DRAWN = 40
CHANGES: list[tuple[str, list[int]]] = [
    ("append", [1, 1, 2, 8, 32]),
    ("overwrite", [1, 4, 8]),
    ("create", [1, 1, 3]),
    ("truncate", [0, 0, 2]),
]


def drawn(seed: int, system: str) -> list[tuple[str, list[list[str | int]]]]:
    """Steps of one to four changes and a sync, one in three of two such rounds."""
    rng = random.Random(f"{seed} {system}")
    steps = []
    for number in range(DRAWN):
        calls: list[list[str | int]] = []
        for _ in range(rng.choice([1, 1, 2])):
            for _ in range(rng.randint(1, 4)):
                change, counts = rng.choices(CHANGES, weights=[4, 3, 2, 1])[0]
                calls.append([change, rng.choice(counts)])
            calls.append([rng.choices(["fsync", "fdatasync", "syncfs", "sync"], [4, 3, 1, 1])[0]])
        steps.append((f"drawn {number}", calls))
    return steps


def drawn_names(seed: int, system: str) -> list[tuple[str, list[list[str | int]]]]:
    """Steps of one to three changes of names, each of files and directories of its own."""
    rng = random.Random(f"{seed} {system} names")
    steps = []
    for number in range(DRAWN):
        files = ["here/a", "here/twin", "there/a"]
        directories = ["here/empty", "there/empty"]
        rng.shuffle(files)
        rng.shuffle(directories)
        calls: list[list[str | int]] = []
        for nth in range(rng.randint(1, 3)):
            new = f"{rng.choice(['here', 'there'])}/n{nth}"
            kind = rng.choice(["mkdir", "rmdir", "make", "rename", "over", "link", "move"])
            if kind in ("mkdir", "make"):
                calls.append([kind, new])
            elif kind == "rmdir" and directories:
                calls.append(["rmdir", directories.pop()])
            elif kind == "move" and directories:
                calls.append(["rename", directories.pop(), new])
            elif kind == "over" and len(files) > 1:
                calls.append(["rename", files.pop(), files.pop()])
            elif kind in ("rename", "link") and files:
                calls.append([kind, files.pop(), new])
            else:
                calls.append(["mkdir", new])
        steps.append((f"drawn {number}", [*calls, *WRITE]))
    return steps


def missing() -> list[str]:
    """What this computer lacks for observing, in words; empty if nothing."""
    if os.geteuid() != 0:
        return ["root"]
    lacks = []
    if not (TRACING / "events/block/block_rq_issue").exists():
        lacks.append(f"tracefs at {TRACING} with block:block_rq_issue")
    tools = ("losetup", "mkfs.ext4", "debugfs", "mkfs.xfs", "xfs_db", "mount")
    lacks += [tool for tool in tools if not shutil.which(tool)]
    return lacks


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def blocks_of(device: str, inode: str) -> set[int]:
    """Blocks of a file, as `debugfs` tells them."""
    told = run("debugfs", "-R", f"blocks {inode}", device)
    return {int(word) for word in told.split()}


def log_of_xfs(device: str) -> set[int]:
    """Blocks of the log of an XFS, as `xfs_db` tells them."""
    words = "logstart logblocks agblocks agblklog"
    told = run("xfs_db", "-r", "-c", "sb 0", "-c", f"p {words}", device)
    value = {name: int(number) for name, number in re.findall(r"(\w+) = (\d+)", told)}
    group, within = divmod(value["logstart"], 1 << value["agblklog"])
    first = group * value["agblocks"] + within
    return set(range(first, first + value["logblocks"]))


class FileSystem:
    """A file system on a loop device, mounted, with what it is asked to do."""

    def __init__(self, directory: Path, kind: str, options: str) -> None:
        self.directory = directory
        image = directory / "image"
        with image.open("wb") as file:
            file.truncate(512 << 20)
        sector = ("--sector-size", str(BLOCK)) if kind == "xfs" else ()
        self.device = run("losetup", *sector, "--find", "--show", str(image)).strip()
        number = Path(self.device).stat().st_rdev
        self.numbers = (os.major(number), os.minor(number))
        if kind == "xfs":
            run("mkfs.xfs", "-q", "-f", "-b", f"size={BLOCK}", self.device)
            self.journal = log_of_xfs(self.device)
            options = "noatime"
        else:
            lazy = ("-E", "lazy_itable_init=0")
            run("mkfs.ext4", "-q", "-t", kind, "-b", str(BLOCK), *lazy, self.device)
            self.journal = blocks_of(self.device, "<8>")
            options = f"noatime,commit=300,{options}"
        self.mount = directory / "mount"
        self.mount.mkdir()
        run("mount", "-t", kind, "-o", options, self.device, str(self.mount))
        self.made = 0
        # Files of a step on names that it makes, of a row of them the first, and their inodes.
        self.new: dict[str, int] = {}
        self.file = -1
        self.create(1)

    def close(self) -> None:
        os.close(self.file)
        run("umount", str(self.mount))
        run("losetup", "--detach", self.device)

    def create(self, count: int) -> None:
        for _ in range(count):
            if self.file >= 0:
                os.close(self.file)
            self.made += 1
            path = self.mount / f"file{self.made:08}"
            self.file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR)

    def do(self, call: str, *arguments: str | int) -> None:
        paths = [it for it in arguments if isinstance(it, str)]
        count = next((it for it in arguments if isinstance(it, int)), 0)
        if call == "create":
            self.create(count)
        elif paths:
            for number in range(max(count, 1)):
                named = [path.replace("0" * 8, f"{number:08}") for path in paths]
                self.do_to_names(call, *(self.mount / path for path in named))
        elif call == "append":
            os.pwrite(self.file, os.urandom(count * BLOCK), os.fstat(self.file).st_size)
        elif call == "overwrite":
            os.pwrite(self.file, os.urandom(count * BLOCK), 0)
        elif call == "truncate":
            os.ftruncate(self.file, count * BLOCK)
        elif call == "delete":
            (self.mount / "victim").unlink()
        elif call == "store":
            with mmap.mmap(self.file, os.fstat(self.file).st_size) as memory:
                memory[: count * BLOCK] = os.urandom(count * BLOCK)
        elif call == "msync":
            with mmap.mmap(self.file, os.fstat(self.file).st_size) as memory:
                memory.flush(0, count * BLOCK)
        elif call == "msync later":
            self.msync_later(count)
        elif call == "sync_file_range":
            self.call("sync_file_range", self.file, 0, count * BLOCK, WRITE_AND_WAIT)
        elif call == "sync":
            os.sync()
        elif call == "syncfs":
            self.call("syncfs", self.file)
        elif call == "fsync":
            os.fsync(self.file)
        elif call == "fdatasync":
            os.fdatasync(self.file)
        else:
            raise ValueError(call)

    def do_to_names(self, call: str, path: Path, other: Path | None = None) -> None:
        if call == "mkdir":
            path.mkdir()
        elif call == "rmdir":
            path.rmdir()
        elif call == "unlink":
            path.unlink()
        elif call in ("make", "make many"):
            os.close(self.file)
            self.file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR)
            self.new.setdefault(str(path.relative_to(self.mount)), os.fstat(self.file).st_ino)
        elif call == "fsync of":
            directory = os.open(path, os.O_RDONLY)
            os.fsync(directory)
            os.close(directory)
        elif call == "rename":
            path.rename(other)
        elif call == "link":
            other.hardlink_to(path)
        elif call == "exchange":
            library = ctypes.CDLL(None, use_errno=True)
            paths = (AT_FDCWD, os.fsencode(path), AT_FDCWD, os.fsencode(other))
            if library.renameat2(*paths, RENAME_EXCHANGE) != 0:
                raise OSError(ctypes.get_errno(), "renameat2")
        else:
            raise ValueError(call)

    def prepare_names(self) -> None:
        """The directories and files that steps of names find."""
        for name in ("here", "there"):
            shutil.rmtree(self.mount / name, ignore_errors=True)
        for name in ("here", "there"):
            (self.mount / name).mkdir()
            (self.mount / name / "empty").mkdir()
            (self.mount / name / "a").write_bytes(os.urandom(4 * BLOCK))
        (self.mount / "here/twin").write_bytes(os.urandom(4 * BLOCK))
        (self.mount / "here/twice").write_bytes(os.urandom(4 * BLOCK))
        (self.mount / "there/twice").hardlink_to(self.mount / "here/twice")

    def inodes(self, calls: list[list[str | int]]) -> dict[str, int]:
        """Numbers of the inodes of paths that calls name, their directories, and the open file."""
        paths = {Path(it) for _, *words in calls for it in words if isinstance(it, str)}
        paths |= {parent for path in paths for parent in path.parents if parent.name}
        there = [path for path in sorted(paths) if (self.mount / path).exists()]
        numbers = {str(path): (self.mount / path).stat().st_ino for path in there}
        return numbers | {"open": os.fstat(self.file).st_ino}

    def call(self, name: str, *arguments: int) -> None:
        """A function of the C library that Python has none for."""
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
        function.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
        function.argtypes = function.argtypes[: len(arguments)]
        if function(*arguments) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{name}: {os.strerror(number)}")

    def msync_later(self, count: int) -> None:
        """`msync` with `MS_ASYNC` of so many blocks of the file."""
        library = ctypes.CDLL(None, use_errno=True)
        with mmap.mmap(self.file, os.fstat(self.file).st_size) as memory:
            first = ctypes.c_char.from_buffer(memory)
            library.msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
            failed = library.msync(ctypes.addressof(first), count * BLOCK, MS_ASYNC) != 0
            del first
        if failed:
            raise OSError(ctypes.get_errno(), "msync")

    def rest(self, *, names: bool) -> None:
        """A file of some blocks is open, one to be deleted is there, and nothing is dirty."""
        self.create(1)
        if names:
            self.prepare_names()
        self.do("append", 8)
        victim = self.mount / "victim"
        if not victim.exists():
            victim.write_bytes(os.urandom(4 * BLOCK))
        os.sync()
        time.sleep(TICK_S)

    def classify(self, lines: list[str]) -> list[list[str | int]]:
        """What the device was asked for, like requests in a row taken together."""
        asked: list[list[str | int]] = []
        for line in lines:
            match = LINE.search(line)
            if not match or (int(match[1]), int(match[2])) != self.numbers:
                continue
            flags, sector, sectors = match[3], int(match[4]), int(match[5])
            if sectors == 0:
                asked.append(["flush", 1])
            elif "W" in flags:
                blocks = range(sector // SECTORS, -(-(sector + sectors) // SECTORS))
                logged = [block in self.journal for block in blocks]
                kind = "journal" if all(logged) else "metadata" if "M" in flags else "data"
                if asked and asked[-1][0] == kind:
                    asked[-1][1] += len(blocks)
                else:
                    asked.append([kind, len(blocks)])
        return asked


Steps = list[tuple[str, list[list[str | int]]]]


def steps_of(name: str, kind: str, *, names: bool, seed: int | None) -> Steps:
    """The steps that a file system is observed at."""
    if seed is not None:
        return drawn_names(seed, name) if names else drawn(seed, name)
    if names:
        return STEPS_OF_NAMES
    return [*STEPS, *(MORE_STEPS if kind == "xfs" else [])]


def observe_system(kind: str, options: str, steps: Steps, *, names: bool) -> list[dict]:
    directory = Path(tempfile.mkdtemp(prefix="tierscope-journal-"))
    try:
        system = FileSystem(directory, kind, options)
        try:
            told = [observe_step(system, *step, names=names) for step in [steps[0], *steps]]
            return told[1:]
        finally:
            system.close()
    finally:
        shutil.rmtree(directory)


def observe_often(kind: str, options: str, steps: Steps, *, names: bool) -> list[dict]:
    """What steps ask for most often: a commit may come before what it waits for, and after."""
    runs = [observe_system(kind, options, steps, names=names) for _ in range(TIMES)]
    told = []
    for seen in zip(*runs, strict=True):
        most = max(seen, key=seen.count)
        told.append({**most, "so_often": seen.count(most)})
    return told


def observe_step(
    system: FileSystem, name: str, calls: list[list[str | int]], *, names: bool
) -> dict:
    system.rest(names=names)
    inodes = system.inodes(calls)
    system.new.clear()
    (INSTANCE / "trace").write_text("")
    (INSTANCE / "tracing_on").write_text("1")
    for call in calls:
        system.do(*call)
    (INSTANCE / "tracing_on").write_text("0")
    lines = (INSTANCE / "trace").read_text().splitlines()
    told = {"name": name, "calls": calls, "asked": system.classify(lines)}
    if names:
        first = {path: inode for path, inode in system.new.items() if path in str(calls)}
        told["inodes"] = system.inodes(calls) | first | inodes
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--only", metavar="KIND", help="ext3, ext4 or xfs alone")
    parser.add_argument(
        "--names", action="store_true", help="what becomes of names and directories instead"
    )
    parser.add_argument("--drawn", metavar="SEED", type=int, help="steps that are drawn instead")
    arguments = parser.parse_args()
    output = arguments.output
    if lacks := missing():
        skipped(f"cannot observe the journal here: no {', no '.join(lacks)}")
    INSTANCE.mkdir(exist_ok=True)
    looks = XFS_LOOKS.read_text() if XFS_LOOKS.exists() else None
    try:
        if looks:
            XFS_LOOKS.write_text(RARELY)
        (INSTANCE / "events/block/block_rq_issue/enable").write_text("1")
        systems = [
            {
                "name": name,
                "options": options,
                "steps": observe_often(
                    kind,
                    options,
                    steps_of(name, kind, names=arguments.names, seed=arguments.drawn),
                    names=arguments.names,
                ),
            }
            for name, kind, options in SYSTEMS
            if arguments.only in (None, kind)
        ]
    finally:
        INSTANCE.rmdir()
        if looks:
            XFS_LOOKS.write_text(looks)
    observed = {
        "kernel": platform.release(),
        "block_bytes": BLOCK,
        "device": "loop, with a volatile write cache, without force unit access",
        "systems": systems,
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(observed, indent=1) + "\n")


if __name__ == "__main__":
    main()
