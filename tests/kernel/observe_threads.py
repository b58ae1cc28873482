#!/usr/bin/env python3
"""Watches what the kernel reads ahead of threads that run at the same time, as JSON.

`observe_threads.py threads.json` runs the patterns of `thread_patterns.py` on the file systems of
`observe.py`. Each thread is a process, so that the interpreter holds none of them up; all begin at
once, and nothing waits for what is being read but the accesses themselves. Of each thread it writes
what it added to the page cache, where marks were set, and what a FUSE file system was asked for,
and how often it was another thread's turn to add something. It needs root; what is missing is said.
"""

import argparse
import os
import re
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import thread_patterns
from observe import (
    FADVICE,
    INSTANCE,
    PAGE,
    File,
    Mapping,
    Requests,
    Trace,
    append,
    asked,
    missing,
    observe_each,
    skipped,
    with_ext4,
    with_fuse,
    write,
)

LINE = re.compile(
    r"-(?P<thread>\d+)\s.*: (?P<event>mm_filemap_add_to_page_cache|page_cache_ra_\w+): (?P<rest>.*)"
)
LIMIT_S = 60


def sizes() -> list[int]:
    """Of a file for each thread: names of files on FUSE are their sizes."""
    return [thread_patterns.FILE_BYTES + n * PAGE for n in range(thread_patterns.MOST_THREADS)]


def steps(path: Path, what: list[list[Any]], begins: int) -> None:
    """A thread's part, once all are there: the other end of the pipe has been closed."""
    fd = os.open(path, os.O_RDONLY)
    mapping: Mapping | None = None
    os.read(begins, 1)
    for name, *rest in what:
        match name, rest:
            case "read", [at, size]:
                os.pread(fd, size, at)
            case "map", [first, pages, shift]:
                mapping = Mapping(fd, first, pages, shift, shared=True)
            case "fadvise", [advice, at, size]:
                os.posix_fadvise(fd, at, size, FADVICE[advice])
            case "load", [page] if mapping:
                mapping.load(page)
            case "madvise", [advice, first, pages] if mapping:
                mapping.advise(advice, first, pages)
            case _:
                raise ValueError(f"a step that is not known: {name} {rest}")


def begin(path: Path, what: list[list[Any]], pipe: tuple[int, int]) -> int:
    """A process that waits until the other end of the pipe is closed, and then does its steps."""
    child = os.fork()
    if child == 0:
        try:
            os.close(pipe[1])
            steps(path, what, pipe[0])
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return child


def wait(children: list[int]) -> None:
    """Until all have ended, but not for ever."""
    until = time.monotonic() + LIMIT_S
    left = set(children)
    while left:
        for child in list(left):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                left.remove(child)
                if status != 0:
                    raise SystemExit("observe_threads.py: a thread has failed")
        if time.monotonic() > until:
            for child in left:
                os.kill(child, 9)
            raise SystemExit("observe_threads.py: threads do not end")
        time.sleep(0.001)


def by_thread(children: list[int]) -> tuple[list[list[list[Any]]], list[list[int]], int]:
    """Of each thread what it added and where marks are; and how often another one's turn came."""
    added: list[list[list[Any]]] = [[] for _ in children]
    marks: list[list[int]] = [[] for _ in children]
    # Where the window that is being added is to have its mark, if the page is not there already.
    mark = [-1 for _ in children]
    turns, last = 0, -1
    for line in (INSTANCE / "trace").read_text().splitlines():
        if "LOST" in line:
            raise SystemExit("observe_threads.py: the trace lost events; make its buffer larger")
        match = LINE.search(line)
        if not match or int(match["thread"]) not in children:
            continue
        who = children.index(int(match["thread"]))
        values = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)\b", match["rest"])}
        if match["event"] == "mm_filemap_add_to_page_cache":
            index, order = values["ofs"] // PAGE, values["order"]
            append(added[who], ["add", index, order])
            if index <= mark[who] < index + (1 << order):
                marks[who].append(mark[who])
            turns += who != last
            last = who
        else:
            # Of a function of readahead that adds pages, or hands on to one that does.
            size = values.get("size", values.get("nr_to_read", 0))
            ahead = values.get("async_size", values.get("lookahead_size", 0))
            mark[who] = values["index"] + size - ahead if ahead > 0 else -1
    return added, marks, turns


def run(
    pattern: dict[str, Any], root: Path, trace: Trace, requests: Requests
) -> tuple[dict[str, Any], int]:
    """Runs a pattern: what was seen, and how often another thread's turn came."""
    paths = [root / str(sizes()[file]) for file in pattern["files"]]
    files = [File(path, path.stat().st_size) for path in sorted(set(paths))]
    trace.clear()
    requests.new()
    pipe = os.pipe()
    each = zip(paths, pattern["threads"], strict=True)
    children = [begin(path, what, pipe) for path, what in each]
    os.close(pipe[0])
    os.close(pipe[1])
    wait(children)
    for file in files:
        file.settle()
    added, marks, turns = by_thread(children)
    seen: dict[str, Any] = {"added": added, "marks": marks}
    if requests.log:
        part = thread_patterns.PART_PAGES
        asked_for: list[list[list[int]]] = [[] for _ in children]
        for size, first, pages in requests.new_of_files():
            file = sizes().index(size)
            own = len(set(pattern["files"])) > 1
            asked_for[file if own else first // part].append([first, pages])
        seen["requests"] = asked_for
    for file in files:
        file.close()
    return seen, turns


def run_until_sure(
    pattern: dict[str, Any], root: Path, trace: Trace, requests: Requests
) -> dict[str, Any]:
    """Runs a pattern until two runs in a row show the same of each thread, whatever their turns."""
    last, _ = run(pattern, root, trace, requests)
    for differ in range(8):
        again, turns = run(pattern, root, trace, requests)
        if again == last:
            return {**pattern, **again, "turns": turns, "runs_that_differed": differ}
        for thread, order in enumerate(pattern["orders"]):
            if any(again[what][thread] != last[what][thread] for what in again):
                print(f"{pattern['name']}: two runs of {order} differ", file=sys.stderr)
        last = again
    raise SystemExit(f"observe_threads.py: no two runs of {pattern['name']} are the same")


def observe_all(
    root: Path, trace: Trace, io_pages: int, given: argparse.Namespace, log: Path | None = None
) -> list[dict[str, Any]]:
    """All patterns on the file system below `root`, which may write a log of its requests."""
    requests = Requests(log)

    def observe(pattern: dict[str, Any]) -> dict[str, Any]:
        return {**run_until_sure(pattern, root, trace, requests), "io_pages": io_pages}

    every = thread_patterns.all_patterns(given.seed, given.each)
    return observe_each(root, trace, every, observe)


def main() -> None:
    """The command."""
    arguments = asked(__doc__)
    if lacks := missing():
        skipped("observe_threads.py: this computer lacks " + ", ".join(lacks))
    around = Path("/sys/kernel/debug/fault_around_bytes")
    with tempfile.TemporaryDirectory(prefix="tierscope-observe-") as name, Trace() as trace:

        def all_in(root: Path, io_pages: int, log: Path | None) -> list[dict[str, Any]]:
            return observe_all(root, trace, io_pages, arguments, log)

        work = Path(name)
        seen = {
            "fault_around_bytes": int(around.read_text()) if around.exists() else 65536,
            "file_bytes": sizes(),
            "part_pages": thread_patterns.PART_PAGES,
            "single_pages": with_fuse(work, all_in),
            "large_folios": with_ext4(work, all_in, sizes()),
        }
    write(arguments, seen)


if __name__ == "__main__":
    main()
