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


def observe_filebench(program: str, directory: str) -> None:
    """Keeps which calls on files the rounds of `mail.f` came to, and the bytes that they moved."""
    text = (HERE / "mail.f").read_text(encoding="utf-8").replace("path=/tmp", f"path={directory}")
    model = Path(directory) / "mail.f"
    model.write_text(text, encoding="utf-8")
    log = Path(directory) / "filebench-calls"
    calls = "trace=open,openat,read,write,pread64,pwrite64,fsync,unlink,close"
    # Its processes share memory at addresses that must be the same in all.
    command = [
        "setarch",
        "-R",
        "strace",
        "-f",
        "-o",
        str(log),
        "-e",
        calls,
        program,
        "-f",
        str(model),
    ]
    subprocess.run(command, cwd=directory, stdout=subprocess.DEVNULL, check=True)
    # What is done to files of the set, by the thread that deletes: others make the set beforehand.
    deeds: list[tuple[str, str, int]] = []
    opened: dict[tuple[str, str], bool] = {}
    call = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+)")
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if not (found := call.match(line)):
            continue
        thread, name, given, gave = found[1], found[2], found[3], int(found[4])
        number = given.split(",")[0]
        if name in ("open", "openat"):
            opened[thread, str(gave)] = f"{directory}/mailset/" in given
            name = "create" if "O_CREAT" in given else "open"
            number = str(gave)
        if gave >= 0 and (name == "unlink" or opened.get((thread, number))):
            deeds.append((thread, name, gave))
    server = next(thread for thread, name, _ in deeds if name == "unlink")
    own = [(name, gave) for thread, name, gave in deeds if thread == server]
    kinds = {"pread64": "read", "pwrite64": "write"}
    own = [(kinds.get(name, name), gave) for name, gave in own]
    rounds = " ".join(name for name, _ in own).split("unlink ")
    shapes = collections.Counter("unlink " + one.strip() for one in rounds if one)
    result = {
        "calls": dict(sorted(collections.Counter(name for name, _ in own).items())),
        "read_bytes": sum(gave for name, gave in own if name == "read"),
        "written_bytes": sum(gave for name, gave in own if name == "write"),
        "written_each": sorted(gave for name, gave in own if name == "write"),
        "rounds": dict(shapes.most_common()),
    }
    text = json.dumps(result, indent=2) + "\n"
    (HERE / "filebench.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        if len(sys.argv) > 1:
            observe_filebench(str(Path(sys.argv[1]).resolve()), scratch)
        observe_fio(scratch)
        observe_postmark(scratch)
