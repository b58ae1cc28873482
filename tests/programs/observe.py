"""Observes PostMark, fio and Filebench, with which ours are compared; keeps what they did here.

usage: observe.py [FILEBENCH]

fio writes a log of its requests itself; calls of PostMark and Filebench are seen by strace. Debian
has all of these but Filebench, whose program (of filebench/filebench at 22620e6) is named.
"""

from __future__ import annotations

import collections
import itertools
import json
import lzma
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
REQUESTS, BLOCK_BYTES, FILE_BYTES = 4096, 4096, 16 << 20
FIO = {
    # Blocks drawn anew each time, in order, and drawn with seven reads of ten.
    "random": ["--rw=randread", "--norandommap=1"],
    "sequential": ["--rw=read"],
    "mixed": ["--rw=randrw", "--norandommap=1", "--rwmixread=70"],
}
FILES, TRANSACTIONS = 500, 2000


def observe_fio(directory: str) -> None:
    """Keeps a log of fio's own for each of its patterns."""
    common = ["--filename=file", "--ioengine=psync", f"--bs={BLOCK_BYTES}", f"--size={FILE_BYTES}"]
    common += [f"--number_ios={REQUESTS}", "--randseed=7", "--output=/dev/null"]
    for name, options in FIO.items():
        log = Path(directory) / f"{name}.log"
        command = ["fio", f"--name={name}", *common, *options, f"--write_iolog={log}"]
        subprocess.run(command, cwd=directory, check=True)
        (HERE / f"fio-{name}.log.xz").write_bytes(lzma.compress(log.read_bytes()))


def observe_postmark(directory: str) -> None:
    """Keeps how often PostMark did what, by which calls, and to how many bytes."""
    files = Path(directory) / "files"
    files.mkdir()
    told = f"set location {files}\nset number {FILES}\nset transactions {TRANSACTIONS}\nrun\nquit\n"
    log = Path(directory) / "calls"
    calls = "trace=openat,read,write,unlink"
    command = ["strace", "-o", str(log), "-e", calls, "postmark"]
    subprocess.run(command, input=told, text=True, stdout=subprocess.DEVNULL, check=True)
    deeds: list[tuple[str, list[int]]] = []
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if opened := re.match(rf'openat\(AT_FDCWD, "{files}/\d+", (\S+?)[,)]', line):
            kinds = {"O_TRUNC": "create", "O_APPEND": "append"}
            kind = next((kinds[flag] for flag in kinds if flag in opened[1]), "read")
            deeds.append((kind, []))
        elif moved := re.match(r"(?:read|write)\(3, .* = (\d+)$", line):
            if deeds:
                deeds[-1][1].append(int(moved[1]))
        elif line.startswith(f'unlink("{files}/'):
            deeds.append(("delete", []))
    found = {
        kind: {
            "count": sum(one == kind for one, _ in deeds),
            "calls": sum(len(moved) for one, moved in deeds if one == kind),
            "bytes": sum(sum(moved) for one, moved in deeds if one == kind),
        }
        for kind in ("create", "read", "append", "delete")
    }
    # Which pairs of deeds the transactions are, behind the files that are created first.
    kinds_only = [kind for kind, _ in deeds[FILES:]]
    pairs = collections.Counter(itertools.pairwise(kinds_only))
    result = {
        "files": FILES,
        "transactions": TRANSACTIONS,
        "deeds": found,
        "pairs": {" ".join(pair): count for pair, count in sorted(pairs.items())},
        "most_bytes_of_a_call": max(max(moved, default=0) for _, moved in deeds),
    }
    text = json.dumps(result, indent=2) + "\n"
    (HERE / "postmark.json").write_text(text, encoding="utf-8")


Deed = tuple[str, str, int, str]
"""Thread, call, what it gave, and the file."""


def calls_of_filebench(program: str, directory: str, model: str) -> list[Deed]:
    """What is done to files of the set by threads that delete some: others make the set."""
    text = (HERE / model).read_text(encoding="utf-8").replace("path=/tmp", f"path={directory}")
    own = Path(directory) / model
    own.write_text(text, encoding="utf-8")
    log = Path(directory) / "filebench-calls"
    calls = "trace=open,openat,read,write,pread64,pwrite64,fsync,unlink,close"
    # Its processes share memory at addresses that must be the same in all.
    command = ["setarch", "-R", "strace", "-f", "-o", str(log), "-e", calls]
    command += [program, "-f", str(own)]
    subprocess.run(command, cwd=directory, stdout=subprocess.DEVNULL, check=True)
    deeds: list[Deed] = []
    opened: dict[str, str] = {}
    begun: dict[str, str] = {}
    call = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+)")
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        # A call during which others come has two lines.
        thread = line.split(" ", 1)[0]
        if line.endswith("<unfinished ...>"):
            begun[thread] = line.removesuffix("<unfinished ...>").rstrip()
            continue
        if resumed := re.match(r"\d+ +<\.\.\. \w+ resumed>(.*)", line):
            line = begun.pop(thread) + resumed[1]
        if not (found := call.match(line)):
            continue
        name, given, gave = found[2], found[3], int(found[4])
        number = given.split(",")[0]
        if name in ("open", "openat"):
            path = given.split('"')[1]
            opened[str(gave)] = path if f"{directory}/mailset/" in path else ""
            name = "create" if "O_CREAT" in given else "open"
            number = str(gave)
        path = given.split('"')[1] if name == "unlink" else opened.get(number, "")
        if gave >= 0 and path:
            kinds = {"pread64": "read", "pwrite64": "write"}
            deeds.append((thread, kinds.get(name, name), gave, path))
    # The set is deleted in the end by a thread that made it.
    made = {thread for thread, name, *_ in deeds if name == "read"}
    return [deed for deed in deeds if deed[0] in made]


def rounds_of(deeds: list[Deed]) -> list[str]:
    """The calls of a thread's rounds, each of which begins by deleting a file."""
    text = " ".join(name for _, name, *_ in deeds).split("unlink")
    return [f"unlink {one.strip()}".strip() for one in text[1:]]


def observe_filebench(program: str, directory: str) -> None:
    """Keeps which calls on files the rounds of `mail.f` came to, and the bytes that they moved."""
    own = calls_of_filebench(program, directory, "mail.f")
    result = {
        "calls": dict(sorted(collections.Counter(name for _, name, *_ in own).items())),
        "read_bytes": sum(gave for _, name, gave, _ in own if name == "read"),
        "written_bytes": sum(gave for _, name, gave, _ in own if name == "write"),
        "written_each": sorted(gave for _, name, gave, _ in own if name == "write"),
        "rounds": dict(collections.Counter(rounds_of(own)).most_common()),
    }
    text = json.dumps(result, indent=2) + "\n"
    (HERE / "filebench.json").write_text(text, encoding="utf-8")


def observe_threads(program: str, directory: str) -> None:
    """Keeps what the threads of `mail-threads.f` did.

    That is rounds of each, how far one was ahead of another, how often each file was read, how
    often two had one open at once, and how much was moved.
    """
    own = calls_of_filebench(program, directory, "mail-threads.f")
    threads = sorted({thread for thread, *_ in own})
    rounds = {one: rounds_of([deed for deed in own if deed[0] == one]) for one in threads}
    whole = collections.Counter(one for of_thread in rounds.values() for one in of_thread[:-1])
    done: collections.Counter[str] = collections.Counter()
    ahead, held, shared = 0, collections.Counter[str](), 0
    for thread, name, _, path in own:
        if name == "unlink":
            done[thread] += 1
            ahead = max(ahead, max(done.values()) - min(done[one] for one in threads))
        elif name in ("open", "create"):
            shared += held[path] > 0
            held[path] += 1
        elif name == "close":
            held[path] -= 1
    read = collections.Counter(path for _, name, _, path in own if name == "read")
    result = {
        "calls": dict(sorted(collections.Counter(name for _, name, *_ in own).items())),
        "read_bytes": sum(gave for _, name, gave, _ in own if name == "read"),
        "written_bytes": sum(gave for _, name, gave, _ in own if name == "write"),
        "rounds": dict(whole.most_common()),
        "rounds_begun_by_thread": [len(rounds[one]) for one in threads],
        "rounds_ahead_at_most": ahead,
        "opened_while_open": shared,
        "reads_by_file": sorted(read.values()),
    }
    text = json.dumps(result, indent=1) + "\n"
    (HERE / "filebench-threads.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        if len(sys.argv) > 1:
            filebench = str(Path(sys.argv[1]).resolve())
            observe_filebench(filebench, scratch)
            shutil.rmtree(Path(scratch) / "mailset")
            observe_threads(filebench, scratch)
        observe_fio(scratch)
        observe_postmark(scratch)
