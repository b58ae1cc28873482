#!/usr/bin/env python3
"""Watches what the kernel of this computer reads ahead, and writes it down as JSON.

`observe.py readahead.json` runs the patterns of `patterns.py` on a FUSE file system, whose page
cache is of single pages, and on ext4 on a loop device, whose page cache is of folios of many sizes.
For each step it writes what was added to the page cache, and the windows: the tracepoints
`filemap:mm_filemap_add_to_page_cache` and `readahead:*`. Between steps all that is being read
arrives, so that nothing depends on time. It needs root; what is missing is said.
"""

import argparse
import ctypes
import json
import mmap
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import fuse_server
import patterns

PAGE = 4096
TRACING = Path("/sys/kernel/tracing")
INSTANCE = TRACING / "instances/tierscope-observe"
SYS_CACHESTAT = 451
HUGE = 2 << 20
FADVICE = {
    "normal": os.POSIX_FADV_NORMAL,
    "random": os.POSIX_FADV_RANDOM,
    "sequential": os.POSIX_FADV_SEQUENTIAL,
    "willneed": os.POSIX_FADV_WILLNEED,
}
MADVICE = {
    "normal": mmap.MADV_NORMAL,
    "random": mmap.MADV_RANDOM,
    "sequential": mmap.MADV_SEQUENTIAL,
    "willneed": mmap.MADV_WILLNEED,
}
LINE = re.compile(
    r"(?P<event>mm_filemap_add_to_page_cache|page_cache_\w+|tracing_mark_write): (?P<rest>.*)"
)

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]


def counted() -> dict[str, int]:
    """What the kernel has counted since this computer started (/proc/vmstat)."""
    words = (line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return {name: int(number) for name, number in words}


SKIPPED = 77
"""The exit status of an observer that this computer lacks something for, as automake has it."""


def skipped(why: str) -> NoReturn:
    """Ends an observer that this computer lacks something for; others go on (`make kernel`)."""
    print(why, file=sys.stderr)
    sys.exit(SKIPPED)


def missing() -> list[str]:
    """What this computer lacks for observing, in words; empty if nothing."""
    lacks = []
    if os.geteuid() != 0:
        return ["the rights of root"]
    if not (TRACING / "events").exists():
        subprocess.run(
            ["mount", "-t", "tracefs", "nodev", TRACING], check=False, capture_output=True
        )
    for event in ["readahead/page_cache_sync_ra", "filemap/mm_filemap_add_to_page_cache"]:
        if not (TRACING / "events" / event).exists():
            lacks.append(f"the tracepoint {event.replace('/', ':')} (Linux 6.18 has it)")
    if not Path("/dev/fuse").exists():
        lacks.append("/dev/fuse")
    if not Path("/dev/loop-control").exists():
        lacks.append("loop devices")
    lacks += [f"the program {name}" for name in ["mkfs.ext4", "losetup"] if not shutil.which(name)]
    return lacks


class Trace:
    """A tracing instance of our own, which sees one file system."""

    EVENTS = ("filemap/mm_filemap_add_to_page_cache", "readahead")
    DEVICE = "s_dev"

    def __enter__(self) -> "Trace":
        INSTANCE.mkdir(exist_ok=True)
        (INSTANCE / "buffer_size_kb").write_text("8192")
        return self

    def __exit__(self, *_: object) -> None:
        (INSTANCE / "tracing_on").write_text("0")
        (INSTANCE / "events/enable").write_text("0")
        INSTANCE.rmdir()

    def watch(self, device: int) -> None:
        """From now on, events of this device, or of files on it."""
        kernel_number = os.major(device) << 20 | os.minor(device)
        (INSTANCE / "tracing_on").write_text("1")
        for event in self.EVENTS:
            directory = INSTANCE / "events" / event
            (directory / "filter").write_text(f"{self.DEVICE} == {kernel_number}")
            (directory / "enable").write_text("1")

    def clear(self) -> None:
        """Forgets what was seen."""
        (INSTANCE / "trace").write_text("")

    def mark(self, step: int) -> None:
        """What follows belongs to a step."""
        (INSTANCE / "trace_marker").write_text(f"step {step}\n")

    def steps(self) -> dict[int, list[list[object]]]:
        """Events by step, each a list with its name first; steps without events are left out."""
        found: dict[int, list[list[object]]] = {}
        step = 0
        for line in (INSTANCE / "trace").read_text().splitlines():
            if "LOST" in line:
                raise SystemExit("observe.py: the trace lost events; make its buffer larger")
            match = LINE.search(line)
            if not match:
                continue
            if match["event"] == "tracing_mark_write":
                step = int(match["rest"].split()[1])
            elif event := readable(match["event"], match["rest"]):
                append(found.setdefault(step, []), event)
        return found


def append(events: list[list[object]], event: list[object]) -> None:
    """Appends an event; folios of one order in a row are one event."""
    if event[0] == "add":
        index, order = int(str(event[1])), event[2]
        event = [*event, 1]
        if events and events[-1][0] == "add" and events[-1][2] == order:
            last, count = int(str(events[-1][1])), int(str(events[-1][3]))
            if index == last + (count << int(str(order))):
                events[-1][3] = count + 1
                return
    events.append(event)


def readable(event: str, rest: str) -> list[object] | None:
    """An event as the reference has it; `None` for one that says nothing new."""
    values = dict(re.findall(r"(\w+)=([0-9a-fx-]+)", rest))
    number = {name: int(value) for name, value in values.items() if re.fullmatch(r"-?\d+", value)}
    if event == "mm_filemap_add_to_page_cache":
        return ["add", number["ofs"] // PAGE, number["order"]]
    if event in ("page_cache_sync_ra", "page_cache_async_ra"):
        name = event.removeprefix("page_cache_").removesuffix("_ra")
        return [name, number["index"], number["req_count"], number["mmap_miss"], number["prev_pos"]]
    if event == "page_cache_ra_order":
        return ["window", number["index"], number["size"], number["async_size"], number["order"]]
    return None


class Mapping:
    """Pages of a file in memory, privately or to be read alone, at an address of our choosing."""

    def __init__(
        self, fd: int, first: int, pages: int, shift: int, *, shared: bool = False
    ) -> None:
        length = pages * PAGE
        room = length + 2 * HUGE + shift * PAGE
        anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self.room, self.base = room, libc.mmap(None, room, 0, anonymous, -1, 0)
        self.address = -(-self.base // HUGE) * HUGE + shift * PAGE
        how = (mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE) | 0x10  # MAP_FIXED
        access = mmap.PROT_READ if shared else mmap.PROT_READ | mmap.PROT_WRITE
        at = libc.mmap(self.address, length, access, how, fd, first * PAGE)
        if at != self.address:
            raise OSError(ctypes.get_errno(), "mapping a file")
        self.pages = pages

    def load(self, page: int) -> None:
        """Reads a byte of a page."""
        ctypes.c_ubyte.from_address(self.address + page * PAGE).value  # noqa: B018

    def store(self, page: int) -> None:
        """Writes a byte of a page."""
        ctypes.c_ubyte.from_address(self.address + page * PAGE).value = 1

    def advise(self, advice: str, first: int, pages: int) -> None:
        """Gives advice on some pages."""
        libc.madvise(self.address + first * PAGE, pages * PAGE, MADVICE[advice])

    def present(self) -> list[int]:
        """Pages that have an entry in the page table."""
        with Path("/proc/self/pagemap").open("rb", buffering=0) as pagemap:
            pagemap.seek(self.address // PAGE * 8)
            words = memoryview(pagemap.read(self.pages * 8)).cast("Q")
        return [page for page, word in enumerate(words) if word >> 63]

    def close(self) -> None:
        """Unmaps all of it."""
        libc.munmap(self.base, self.room)


class File:
    """A file whose page cache is observed."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.watcher = os.open(path, os.O_RDONLY)
        os.posix_fadvise(self.watcher, 0, 0, os.POSIX_FADV_DONTNEED)
        self.pages = -(-size_bytes // PAGE)
        self.view = libc.mmap(
            None, self.pages * PAGE, mmap.PROT_READ, mmap.MAP_SHARED, self.watcher, 0
        )
        if self.cached() != 0:
            raise SystemExit(f"observe.py: the page cache keeps pages of {path}")

    def cached(self) -> int:
        """Pages in the page cache, read or being read (cachestat)."""
        span, answer = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
        if (
            libc.syscall(SYS_CACHESTAT, self.watcher, ctypes.byref(span), ctypes.byref(answer), 0)
            != 0
        ):
            raise OSError(ctypes.get_errno(), "cachestat")
        return answer[0]

    def settle(self) -> None:
        """Waits until all pages in the page cache have been read (mincore)."""
        vector = ctypes.create_string_buffer(self.pages)
        for _ in range(4000):
            libc.mincore(self.view, self.pages * PAGE, vector)
            if vector.raw.count(b"\1", 0, self.pages) >= self.cached():
                return
            time.sleep(0.0005)
        raise SystemExit("observe.py: pages that are being read do not arrive")

    def close(self) -> None:
        """Closes it."""
        libc.munmap(ctypes.c_void_p(self.view), self.pages * PAGE)
        os.close(self.watcher)


class Requests:
    """What a file system is asked to read, where it writes that down."""

    def __init__(self, log: Path | None) -> None:
        self.log = log.open() if log else None

    def new(self) -> list[tuple[int, int]]:
        """Requests since the last call: first page and pages."""
        return [(first, pages) for _, first, pages in self.new_of_files()]

    def new_of_files(self) -> list[tuple[int, int, int]]:
        """The same, behind the size of the file."""
        lines = [map(int, line.split()) for line in self.log] if self.log else []
        return [(node - 2, at // PAGE, -(-size // PAGE)) for node, at, size in lines]


def run(
    pattern: dict[str, object], path: Path, trace: Trace, requests: Requests
) -> dict[str, object]:
    """Runs a pattern on a file; what was seen."""
    file = File(path, int(str(pattern["file_bytes"])))
    openings = {0: os.open(path, os.O_RDONLY)}
    fd = openings[0]
    mapping: Mapping | None = None
    steps: list[list[object]] = pattern["steps"]  # type: ignore[assignment]
    asked: dict[int, list[tuple[int, int]]] = {}
    trace.clear()
    requests.new()
    for number, (what, *rest) in enumerate(steps):
        trace.mark(number)
        match what, rest:
            case "read", [int(at), int(size)]:
                os.pread(fd, size, at)
            case "use", [int(opening)]:
                fd = openings.setdefault(opening, -1)
                if fd < 0:
                    fd = openings[opening] = os.open(path, os.O_RDONLY)
            case "map", [int(first), int(pages), int(shift)]:
                mapping = Mapping(fd, first, pages, shift)
            case "fadvise", [str(advice), int(at), int(size)]:
                os.posix_fadvise(fd, at, size, FADVICE[advice])
            case "load", [int(page)] if mapping:
                mapping.load(page)
            case "store", [int(page)] if mapping:
                mapping.store(page)
            case "madvise", [str(advice), int(first), int(pages)] if mapping:
                mapping.advise(advice, first, pages)
            case _:
                raise ValueError(f"a step that is not known: {what} {rest}")
        file.settle()
        if new := requests.new():
            asked[number] = new
    seen: dict[str, object] = {**pattern, "seen": trace.steps()}
    if requests.log:
        seen["requests"] = asked
    if mapping:
        seen["mapped_at_the_end"] = runs(mapping.present())
        mapping.close()
    for fd in openings.values():
        os.close(fd)
    file.close()
    return seen


def run_until_sure(
    pattern: dict[str, object], path: Path, trace: Trace, requests: Requests
) -> dict[str, object]:
    """Runs a pattern until two runs in a row show the same: other programs may take memory."""
    last = run(pattern, path, trace, requests)
    for _ in range(5):
        again = run(pattern, path, trace, requests)
        if again == last:
            return again
        print(f"{pattern['name']}: two runs differ; once more", file=sys.stderr)
        last = again
    raise SystemExit(f"observe.py: no two runs of {pattern['name']} are the same")


def runs(pages: list[int]) -> list[list[int]]:
    """Ascending pages as runs: first page and count."""
    found: list[list[int]] = []
    for page in pages:
        if found and sum(found[-1]) == page:
            found[-1][1] += 1
        else:
            found.append([page, 1])
    return found


def backing(path: Path) -> Path:
    """The directory of /sys that has the readahead window of a file system."""
    device = path.stat().st_dev
    return Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}")


def observe_each(
    root: Path,
    trace: Trace,
    all_patterns: Iterable[dict[str, Any]],
    observe: Callable[[dict[str, Any]], dict[str, Any]],
) -> list[dict[str, Any]]:
    """Patterns on the file system below `root`, each with its window of readahead; what is seen."""
    found = []
    trace.watch(root.stat().st_dev)
    for pattern in all_patterns:
        (backing(root) / "read_ahead_kb").write_text(str(pattern["window_kib"]))
        found.append(observe(pattern))
        print(f"{root.name}: {pattern['name']}", file=sys.stderr)
    return found


def observe_all(
    root: Path, trace: Trace, io_pages: int, given: argparse.Namespace, log: Path | None = None
) -> list[dict[str, Any]]:
    """All patterns on the file system below `root`, which may write a log of its requests."""
    requests = Requests(log)

    def observe(pattern: dict[str, Any]) -> dict[str, Any]:
        path = root / str(pattern["file_bytes"])
        return {**run_until_sure(pattern, path, trace, requests), "io_pages": io_pages}

    return observe_each(root, trace, patterns.all_patterns(given.seed, given.each), observe)


@contextmanager
def looped(image: Path) -> Iterator[str]:
    """A loop device over a file, past the page cache; also gone if this ends while it is made."""
    find = ["losetup", "--find", "--show", "--direct-io=on", image]
    try:
        yield subprocess.run(find, check=True, capture_output=True, text=True).stdout.strip()
    finally:
        having = ["losetup", "--associated", image, "--noheadings", "--output", "NAME"]
        there = subprocess.run(having, check=True, capture_output=True, text=True).stdout.split()
        for loop in there:
            subprocess.run(["losetup", "--detach", loop], check=True)


@contextmanager
def mounted(root: Path, *what: str) -> Iterator[None]:
    """A file system, mounted as said; also gone if this ends while it is mounted."""
    try:
        subprocess.run(["mount", *what, root], check=True)
        yield
    finally:
        # A loop device goes when the last who has it open closes it, and its file with it.
        for _ in range(100):
            if not root.is_mount():
                break
            if subprocess.run(["umount", root], capture_output=True, check=False).returncode:
                time.sleep(0.05)
        if root.is_mount():
            # Ended early, this program still maps a file there.
            subprocess.run(["umount", "--lazy", root], check=True)


Observe = Callable[[Path, int, Path | None], list[dict[str, Any]]]
"""Takes a file system's root, its largest request in pages, and the log of its requests, if any."""


def with_fuse(work: Path, observe: Observe) -> list[dict[str, object]]:
    """Patterns on single pages."""
    root, log = work / "fuse", work / "requests.log"
    root.mkdir()
    log.touch()
    server = fuse_server.mount(root, log)
    try:
        # bdi_alloc (mm/backing-dev.c) gives io_pages of 128 KiB, and FUSE leaves it.
        return observe(root, 32, log)
    finally:
        subprocess.run(["umount", root], check=True)
        os.kill(server, signal.SIGTERM)
        os.waitpid(server, 0)


def with_ext4(
    work: Path, observe: Observe, sizes_bytes: Iterable[int] = patterns.SIZES_BYTES
) -> list[dict[str, object]]:
    """Patterns on large folios, in files of these sizes."""
    root, image = work / "ext4", work / "image"
    root.mkdir()
    with image.open("wb") as file:
        file.truncate((64 << 20) + 2 * sum(set(sizes_bytes)))
    subprocess.run(["mkfs.ext4", "-q", "-b", "4096", image], check=True)
    with looped(image) as loop, mounted(root, loop):
        for size in sorted(set(sizes_bytes)):
            with (root / str(size)).open("wb") as file:
                file.write(b"\1" * size)
                os.fsync(file.fileno())
        sectors_kib = int(Path(f"/sys/block/{Path(loop).name}/queue/max_sectors_kb").read_text())
        return observe(root, sectors_kib // 4, None)


def ended_early(*_: object) -> NoReturn:
    """What was mounted, attached and set is undone, as at the end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit("ended early")


def asking(about: str) -> argparse.ArgumentParser:
    """The command line of an observer, of which the first line says what it does."""
    signal.signal(signal.SIGTERM, ended_early)
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("output", type=Path, help="where to write what was seen")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--each", type=int, default=4, help="patterns of each kind")
    return parser


def asked(about: str) -> argparse.Namespace:
    """What the command line of an observer asks for."""
    return asking(about).parse_args()


def write(arguments: argparse.Namespace, seen: dict[str, object]) -> None:
    """Writes what was seen, and of which kernel and patterns."""
    observed = {
        "kernel": platform.release().split("-")[0],
        "machine": platform.machine(),
        "page_bytes": PAGE,
        "seed": arguments.seed,
        **seen,
    }
    arguments.output.write_text(json.dumps(observed, separators=(",", ":")) + "\n")


def main() -> None:
    """The command."""
    arguments = asked(__doc__)
    if lacks := missing():
        skipped("observe.py: this computer lacks " + ", ".join(lacks))
    around = Path("/sys/kernel/debug/fault_around_bytes")
    with tempfile.TemporaryDirectory(prefix="tierscope-observe-") as name, Trace() as trace:
        work = Path(name)

        def all_in(root: Path, io_pages: int, log: Path | None) -> list[dict[str, object]]:
            return observe_all(root, trace, io_pages, arguments, log)

        seen = {
            "fault_around_bytes": int(around.read_text()) if around.exists() else 65536,
            "single_pages": with_fuse(work, all_in),
            "large_folios": with_ext4(work, all_in),
        }
    write(arguments, seen)


if __name__ == "__main__":
    main()
