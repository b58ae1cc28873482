#!/usr/bin/env python3
"""Watches which requests this computer's block layer makes, and writes it down as JSON.

`observe_block.py block.json` runs the patterns of `block_patterns.py` on a loop device, without a
scheduler and with mq-deadline, and writes which requests the device got, in order (tracepoint
`block:block_rq_issue`). With mq-deadline the device is busy until all has been handed over: writes
hold all that it takes, as the file system below it is frozen. Each pattern runs some times; what
was seen most often counts. It needs root; what is missing is said.
"""

import argparse
import concurrent.futures
import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import block_patterns
from block_patterns import DEVICE_PAGES, GATES, Pattern, Step
from observe import skipped

PAGE = 4096
SECTORS = PAGE // 512
TRACING = Path("/sys/kernel/tracing")
INSTANCE = TRACING / "instances/tierscope-block"
LINE = re.compile(r"block_rq_issue: (\d+),(\d+) (\S+) \d+ \(.*?\) (\d+) \+ (\d+) ")
# linux/fs.h.
FIFREEZE, FITHAW = 0xC0045877, 0xC0045878
BLKFLSBUF = 0x1261
SYNC_FILE_RANGE_WRITE = 2
# linux/aio_abi.h, and numbers of calls on x86-64.
IO_SETUP, IO_DESTROY, IO_GETEVENTS, IO_SUBMIT = 206, 207, 208, 209
PREADV, PWRITEV = 7, 8
IOCB = struct.Struct("<QIIHhIQqqQII")
MOST_EVENTS = 1024
TIMES = 5
LONGEST_S = 30
HUGE = 2 << 20

libc = ctypes.CDLL(None, use_errno=True)


def missing() -> list[str]:
    """What this computer lacks for observing, in words; empty if nothing."""
    lacks = []
    if os.geteuid() != 0:
        return ["the rights of root"]
    if platform.machine() != "x86_64":
        lacks.append("an x86-64 processor")
    if not (TRACING / "events/block/block_rq_issue").exists():
        lacks.append(f"tracefs at {TRACING} with block:block_rq_issue")
    if not Path("/dev/loop-control").exists():
        lacks.append("loop devices")
    if "[never]" in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text():
        lacks.append("transparent huge pages")
    tools = ("losetup", "mkfs.ext4", "mount", "umount")
    return lacks + [f"the program {tool}" for tool in tools if not shutil.which(tool)]


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def call(number: int, *arguments: object) -> int:
    """A system call."""
    done = libc.syscall(ctypes.c_long(number), *arguments)
    if done < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return done


class Memory:
    """Two huge pages, whose neighbours are neighbours in memory."""

    def __init__(self) -> None:
        self.map = mmap.mmap(-1, 3 * HUGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        first = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.address = (first + HUGE - 1) // HUGE * HUGE
        self.map.madvise(mmap.MADV_HUGEPAGE, self.address - first, 2 * HUGE)
        ctypes.memset(self.address, 1, 2 * HUGE)
        smaps = Path("/proc/self/smaps").read_text()
        total = sum(int(kib) for kib in re.findall(r"AnonHugePages: +(\d+) kB", smaps))
        if total < 2 * HUGE >> 10:
            raise SystemExit("observe_block.py: the kernel gave no huge pages")

    def vectors(self, pages: int, scattered: bool) -> ctypes.Array:
        """Where in memory so many pages are."""
        if scattered:
            places = [(self.address + 2 * i * PAGE, PAGE) for i in range(pages)]
        else:
            places = [(self.address, pages * PAGE)]
        flat = [number for place in places for number in place]
        return (ctypes.c_uint64 * len(flat))(*flat)


class Aio:
    """Asynchronous requests of one thread."""

    def __init__(self, fd: int, memory: Memory) -> None:
        self.fd, self.memory, self.under_way = fd, memory, 0
        self.context = ctypes.c_uint64(0)
        call(IO_SETUP, MOST_EVENTS, ctypes.byref(self.context))

    def submit(self, step: Step) -> None:
        """Hands over all of a step at once."""
        kept, blocks = [], []
        for page, pages, write in step.pieces:
            vectors = self.memory.vectors(pages, step.call == "scattered")
            opcode, count = PWRITEV if write else PREADV, len(vectors) // 2
            place = ctypes.addressof(vectors)
            fields = (0, 0, 0, opcode, 0, self.fd, place, count, page * PAGE, 0, 0, 0)
            block = ctypes.create_string_buffer(IOCB.pack(*fields), IOCB.size)
            kept.append(vectors)
            blocks.append(block)
        pointers = (ctypes.c_void_p * len(blocks))(*[ctypes.addressof(block) for block in blocks])
        handed = 0
        while handed < len(blocks):
            rest = ctypes.byref(pointers, handed * ctypes.sizeof(ctypes.c_void_p))
            handed += call(IO_SUBMIT, self.context, len(blocks) - handed, rest)
        self.under_way += len(blocks)

    def finish(self) -> None:
        """Waits for all."""
        events = (ctypes.c_int64 * (4 * MOST_EVENTS))()
        while self.under_way:
            done = call(IO_GETEVENTS, self.context, 1, MOST_EVENTS, events, None)
            for result in events[2 : 4 * done : 4]:
                if result < 0:
                    raise OSError(-result, os.strerror(-result))
            self.under_way -= done

    def close(self) -> None:
        call(IO_DESTROY, self.context)


class Device:
    """A loop device over a file of a file system that can be frozen."""

    def __init__(self, work: Path) -> None:
        image, self.mount = work / "image", work / "mount"
        with image.open("wb") as file:
            file.truncate(256 << 20)
        run("mkfs.ext4", "-q", str(image))
        self.mount.mkdir()
        run("mount", "-o", "loop", str(image), str(self.mount))
        file = self.mount / "file"
        file.write_bytes(bytes(DEVICE_PAGES * PAGE))
        self.device = run("losetup", "--find", "--show", str(file)).strip()
        number = Path(self.device).stat().st_rdev
        self.numbers = (os.major(number), os.minor(number))
        self.queue = Path("/sys/block") / Path(self.device).name / "queue"
        self.set("wbt_lat_usec", 0)
        self.set("read_ahead_kb", 0)
        self.direct = os.open(self.device, os.O_RDWR | os.O_DIRECT)
        self.buffered = os.open(self.device, os.O_RDWR)
        self.directory = os.open(self.mount, os.O_RDONLY)

    def set(self, name: str, value: object) -> None:
        (self.queue / name).write_text(str(value))

    def close(self) -> None:
        for fd in (self.direct, self.buffered, self.directory):
            os.close(fd)
        run("losetup", "--detach", self.device)
        # The device goes when the last who has it open closes it.
        for _ in range(100):
            done = subprocess.run(["umount", self.mount], capture_output=True, check=False)
            if done.returncode == 0:
                return
            time.sleep(0.05)
        run("umount", str(self.mount))

    def prepare(self, pattern: Pattern) -> None:
        """The scheduler is new, and knows of nothing before; nothing of the device is in memory.

        A large folio that was left there might be written back while a neighbour is asked for
        directly, which would wait for it.
        """
        os.fsync(self.buffered)
        fcntl.ioctl(self.buffered, BLKFLSBUF)
        self.set("scheduler", "none")
        self.set("max_sectors_kb", pattern.largest_kib)
        self.set("nomerges", 2 if pattern.nomerges else 0)
        if pattern.scheduler == "none":
            return
        self.set("scheduler", pattern.scheduler)
        self.set("nr_requests", MOST_EVENTS)
        expire_ms = 0 if pattern.late else 100_000
        for name, value in [
            ("read_expire", expire_ms),
            ("write_expire", expire_ms),
            ("fifo_batch", pattern.fifo_batch),
            ("writes_starved", pattern.writes_starved),
            ("front_merges", int(pattern.front_merges)),
        ]:
            self.set(f"iosched/{name}", value)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """What is written to the device does not end until this does."""
        fcntl.ioctl(self.directory, FIFREEZE, 0)
        try:
            yield
        finally:
            fcntl.ioctl(self.directory, FITHAW, 0)

    def write_back(self, step: Step) -> None:
        """Makes pages dirty and begins to write them, without waiting for the end."""
        for page, pages, _ in step.pieces:
            os.pwrite(self.buffered, bytes(pages * PAGE), page * PAGE)
        first, last = step.pieces[0], step.pieces[-1]
        length = (last[0] + last[1] - first[0]) * PAGE
        libc.sync_file_range.argtypes = [
            ctypes.c_int,
            ctypes.c_int64,
            ctypes.c_int64,
            ctypes.c_uint,
        ]
        start = first[0] * PAGE
        if libc.sync_file_range(self.buffered, start, length, SYNC_FILE_RANGE_WRITE) != 0:
            raise OSError(ctypes.get_errno(), "sync_file_range")

    def asked(self) -> list[list[int]]:
        """What the device got: first page, pages, and 1 for a write."""
        found = []
        for line in (INSTANCE / "trace").read_text().splitlines():
            if "LOST" in line:
                raise SystemExit("observe_block.py: the trace lost events")
            match = LINE.search(line)
            if match and (int(match[1]), int(match[2])) == self.numbers:
                sector, sectors = int(match[4]), int(match[5])
                if sectors:
                    found.append([sector // SECTORS, sectors // SECTORS, int("W" in match[3])])
        return found


def run_once(pattern: Pattern, device: Device, memory: Memory) -> list[list[int]]:
    """What the device gets for a pattern."""
    device.prepare(pattern)
    threads = 1 + max(step.thread for step in pattern.steps)
    aios = [Aio(device.direct, memory) for _ in range(threads)]
    pools = [concurrent.futures.ThreadPoolExecutor(1) for _ in range(threads)]
    for pool in pools:
        pool.submit(os.getpid).result()

    def steps() -> None:
        for step in pattern.steps:
            act = device.write_back if step.call == "writeback" else aios[step.thread].submit
            try:
                pools[step.thread].submit(act, step).result(LONGEST_S)
            except concurrent.futures.TimeoutError:
                raise SystemExit("observe_block.py: a call waits for the device") from None

    (INSTANCE / "trace").write_text("")
    (INSTANCE / "tracing_on").write_text("1")
    try:
        if pattern.scheduler == "none":
            steps()
        else:
            with device.frozen():
                for gate in range(GATES):
                    aios[0].submit(Step("aio", [(pattern.gate_page + 2 * gate, 1, True)]))
                steps()
        for aio in aios:
            aio.finish()
        os.fsync(device.buffered)
    finally:
        (INSTANCE / "tracing_on").write_text("0")
        for aio, pool in zip(aios, pools, strict=True):
            pool.shutdown()
            aio.close()
    found = device.asked()
    return found if pattern.scheduler == "none" else found[GATES:]


def observe(pattern: Pattern, device: Device, memory: Memory) -> dict[str, object]:
    """What is seen most often, and how often of how many times."""
    runs = [run_once(pattern, device, memory) for _ in range(TIMES)]
    most = max(runs, key=runs.count)
    return {"asked": most, "so_often": runs.count(most)}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="where to write what was seen")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--each", type=int, default=6, help="patterns of each kind")
    arguments = parser.parse_args()
    if lacks := missing():
        skipped("observe_block.py: this computer lacks " + ", ".join(lacks))
    # One processor, whose software queue all requests go through.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    memory, runs = Memory(), []
    INSTANCE.mkdir(exist_ok=True)
    try:
        (INSTANCE / "buffer_size_kb").write_text("4096")
        (INSTANCE / "events/block/block_rq_issue/enable").write_text("1")
        with tempfile.TemporaryDirectory(prefix="tierscope-block-") as name:
            device = Device(Path(name))
            try:
                about_device = {
                    what: int((device.queue / what).read_text())
                    for what in ("max_segments", "max_segment_size", "rotational")
                }
                for about, pattern in block_patterns.all_patterns(arguments.seed, arguments.each):
                    seen = observe(pattern, device, memory)
                    steps = [[step.call, step.thread, step.pieces] for step in pattern.steps]
                    runs.append({**about, **vars(pattern), "steps": steps, **seen})
                    print(about["name"], seen["so_often"], file=sys.stderr)
            finally:
                device.close()
    finally:
        (INSTANCE / "tracing_on").write_text("0")
        (INSTANCE / "events/enable").write_text("0")
        INSTANCE.rmdir()
    observed = {
        "kernel": platform.release().split("-")[0],
        "page_bytes": PAGE,
        "seed": arguments.seed,
        "times": TIMES,
        "gates": GATES,
        **about_device,
        "runs": runs,
    }
    arguments.output.write_text(json.dumps(observed, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
