"""Patterns of ours against what real programs were seen to do (`tests/programs`)."""

from __future__ import annotations

import itertools
import json
import lzma
import math
import re
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tierscope as ts
from conftest import Runner

OBSERVED = Path(__file__).parents[1] / "programs"
REQUESTS, BLOCK, BLOCKS = 4096, 4096, 4096
SIGMAS = 4.5
"""Standard deviations that chance alone goes beyond once in 150,000 cases."""


def requests(log: str) -> list[tuple[str, int, int]]:
    """Kind, first byte and bytes of the requests of a log of fio's."""
    words = [line.split() for line in log.splitlines()[1:]]
    return [(kind, int(at), int(size)) for _, _, kind, at, size in (w for w in words if len(w) > 3)]


def observed(name: str) -> list[tuple[str, int, int]]:
    return requests(lzma.decompress((OBSERVED / f"fio-{name}.log.xz").read_bytes()).decode())


def made(tierscope: Runner, folder: Path, pattern: str, reads: float) -> list[tuple[str, int, int]]:
    settings = {"requests": REQUESTS, "size": "4KiB", "footprint": "16MiB", "reads": reads}
    options = [
        word for key, value in settings.items() for word in ("--set", f"workload.{key}={value}")
    ]
    done = tierscope("convert", pattern, "fio:made.log", *options, "--interval", "1us")
    assert done.returncode == 0, done.stderr
    return requests((folder / "made.log").read_text(encoding="utf-8"))


def test_a_sequential_pattern_is_what_fio_asks_for(tierscope: Runner, tmp_path: Path) -> None:
    assert made(tierscope, tmp_path, "sequential", 1) == observed("sequential")


def uniform(found: list[tuple[str, int, int]], reads: float) -> None:
    """Fails where blocks are not drawn independently and alike, with this share of reads."""
    assert len(found) == REQUESTS
    assert {size for _, _, size in found} == {BLOCK}
    assert all(at % BLOCK == 0 and at < BLOCKS * BLOCK for _, at, _ in found)
    places = [at // BLOCK for _, at, _ in found]
    # Different blocks of n draws among as many: mean n (1 - 1/e), variance n (1/e - 2/e^2).
    spread = math.sqrt(BLOCKS * (1 / math.e - 2 / math.e**2))
    assert abs(len(set(places)) - BLOCKS * (1 - 1 / math.e)) < SIGMAS * spread
    # Chi-square over ranges of the file, and over the distance from one request to the next.
    ranges = 64
    steps = [(after - before) % BLOCKS for before, after in itertools.pairwise(places)]
    for values in (places, steps):
        counts = Counter(value * ranges // BLOCKS for value in values)
        expected = len(values) / ranges
        chi = sum((counts[bin_] - expected) ** 2 / expected for bin_ in range(ranges))
        assert abs(chi - (ranges - 1)) < SIGMAS * math.sqrt(2 * (ranges - 1))
    share = sum(kind == "read" for kind, _, _ in found) / REQUESTS
    assert abs(share - reads) <= SIGMAS * math.sqrt(reads * (1 - reads) / REQUESTS)


@pytest.mark.parametrize(("name", "reads"), [("random", 1.0), ("mixed", 0.7)])
def test_a_random_pattern_has_the_law_of_fios(
    name: str, reads: float, tierscope: Runner, tmp_path: Path
) -> None:
    uniform(observed(name), reads)
    uniform(made(tierscope, tmp_path, "random", reads), reads)


def test_the_law_is_not_kept_by_just_any_requests() -> None:
    with pytest.raises(AssertionError):
        uniform(observed("sequential"), 1.0)


def test_logs_of_the_real_fio_are_read(tierscope: Runner) -> None:
    log = OBSERVED / "fio-mixed.log.xz"
    told = tierscope("trace", "info", f"fio:{log}", "--json")
    assert told.returncode == 0, told.stderr
    profile = json.loads(told.stdout)["profile"]
    kinds = Counter(kind for kind, _, _ in observed("mixed"))
    assert (profile["reads"], profile["writes"]) == (kinds["read"], kinds["write"])
    assert profile["blocks"] == len({at for _, at, _ in observed("mixed")})


def test_a_trace_of_the_real_lackey_has_the_counts_that_it_tells(tierscope: Runner) -> None:
    log = OBSERVED / "lackey.txt.xz"  # Of Valgrind 3.19, with --detailed-counts=yes.
    text = lzma.decompress(log.read_bytes()).decode()
    counted = re.search(r"guest instrs: +([\d,]+)", text)
    assert counted
    types = [line.split() for line in text.splitlines() if re.match(r"==\d+==    [IFVD]\d", line)]
    loads, stores = (sum(int(row[at].replace(",", "")) for row in types) for at in (2, 3))
    assert loads > 6000
    assert stores > 2000
    assert tierscope("convert", f"lackey:{log}", "lackey.tst").returncode == 0
    told = json.loads(tierscope("trace", "info", "lackey.tst", "--json", "--brief").stdout)
    recording = told["recording"]
    assert recording["instructions"] == int(counted[1].replace(",", ""))
    assert (recording["loads"], recording["stores"]) == (loads, stores)


def test_the_real_blkparse_reads_what_we_write_as_what_it_is(
    tierscope: Runner, tmp_path: Path
) -> None:
    """We made ``blktrace.bin`` of the log, and of that blkparse 1.3.0 ``blkparse.txt``."""
    for name in ("blktrace-source.log", "blktrace.bin", "blkparse.txt"):
        packed = (OBSERVED / f"{name}.xz").read_bytes()
        (tmp_path / name).write_bytes(lzma.decompress(packed))
    assert tierscope("convert", "fio:blktrace-source.log", "blktrace:now.bin").returncode == 0
    assert (tmp_path / "now.bin").read_bytes() == (tmp_path / "blktrace.bin").read_bytes()
    assert tierscope("convert", "blkparse:blkparse.txt", "fio:back.log").returncode == 0
    source, back = (
        (tmp_path / name).read_text(encoding="utf-8")
        for name in ("blktrace-source.log", "back.log")
    )
    assert len(requests(source)) == 200
    assert requests(back) == requests(source)
    begun, *_ = times = [int(line.split()[0]) for line in source.splitlines()[3:]]
    assert [int(line.split()[0]) for line in back.splitlines()[3:]] == [at - begun for at in times]


def test_postmark_does_what_the_real_one_was_seen_to_do(tierscope: Runner) -> None:
    seen = json.loads((OBSERVED / "postmark.json").read_text(encoding="utf-8"))
    deeds: dict[str, dict[str, int]] = seen["deeds"]
    files, transactions = seen["files"], seen["transactions"]
    options = ("--set", f"workload.files={files}", "--set", f"workload.transactions={transactions}")
    shown = tierscope("run", "-q", "-s", "storage/quick", "-w", "postmark", *options, "--json")
    assert shown.returncode == 0, shown.stderr
    calls: dict[str, Any] = json.loads(shown.stdout)["systems"]["storage/quick"]["calls"]

    # Each transaction reads or appends, and creates or deletes, with equal chances in both.
    half = SIGMAS * math.sqrt(transactions) / 2
    created = deeds["create"]["count"] - files
    assert abs(created - transactions / 2) < half
    assert abs(deeds["read"]["count"] - transactions / 2) < half
    assert deeds["create"]["count"] == deeds["delete"]["count"], "all are deleted in the end"
    # Of a transaction one is of the one kind and one of the other, in this order: pairs of the same
    # kind are those of files that had their full size, and of the deletions at the end.
    first, second = ("read", "append"), ("create", "delete")
    crossed = sum(seen["pairs"].get(f"{a} {b}", 0) for a in first for b in second)
    assert crossed == deeds["read"]["count"] + deeds["append"]["count"]
    assert seen["most_bytes_of_a_call"] == 4096, "the C library's buffer"

    # Ours opens a file for each deed but deletion. Numbers drawn differ: by the deviation of both.
    opened = sum(deeds[kind]["count"] for kind in ("create", "read", "append"))
    assert abs(calls["open"]["count"] - opened) < math.sqrt(2) * half
    # Sizes are alike from 500 to 10,000 bytes, with a deviation of 2742; those that are read are of
    # files that were appended to as well.
    for kind, of in (("read", ("read",)), ("write", ("create", "append"))):
        number = sum(deeds[one]["count"] for one in of)
        ours = calls["read"]["count"] if kind == "read" else calls["write"]["count"]
        theirs = sum(deeds[one]["calls"] for one in of)
        moved = sum(deeds[one]["bytes"] for one in of)
        # Of a deed the calls deviate by 2 at most, and the bytes by 3 kB.
        assert abs(ours - theirs) < SIGMAS * math.sqrt(2 * number) * 2
        assert abs(calls[kind]["bytes"] - moved) < SIGMAS * math.sqrt(2 * number) * 3000
        per_call = calls[kind]["bytes"] / ours
        assert per_call == pytest.approx(moved / theirs, rel=0.05)


def test_filebench_does_what_the_real_one_was_seen_to_do(tierscope: Runner) -> None:
    seen = json.loads((OBSERVED / "filebench.json").read_text(encoding="utf-8"))
    [(order, rounds)] = seen["rounds"].items()
    # The operations of mail.f, of which one reads a file whole, by a call more, that finds its end.
    assert order == (
        "unlink create write fsync close open read read write fsync close open read read close"
    )
    each = Counter(order.split())
    assert {name: count * rounds for name, count in each.items()} == seen["calls"]
    options = ("-w", f"filebench:{OBSERVED / 'mail.f'}", "--set", f"workload.loops={rounds}")
    shown = tierscope("run", "-q", "-s", "storage/quick", *options, "--json")
    assert shown.returncode == 0, shown.stderr
    result = json.loads(shown.stdout)
    assert result["completeness"] == "complete"
    calls: dict[str, Any] = result["systems"]["storage/quick"]["calls"]
    ours = {name: calls[name]["count"] for name in ("open", "read", "write", "sync")}
    assert ours == {
        "open": (each["open"] + each["create"]) * rounds,
        "read": each["read"] * rounds,
        "write": each["write"] * rounds,
        "sync": each["fsync"] * rounds,
    }
    # Appends are drawn alike below 16 KiB, in both.
    most, written = 16 << 10, seen["written_each"]
    assert max(written) < most
    spread = most / math.sqrt(12 * len(written))
    for total in (sum(written), calls["write"]["bytes"]):
        assert abs(total / len(written) - most / 2) < SIGMAS * spread
    # Files have 16 KiB by a gamma distribution of shape 1.5, and what was appended: the mean
    # deviates by as much as that of 186 files at least.
    deviation = (16 << 10) / math.sqrt(1.5 * rounds)
    apart = (calls["read"]["bytes"] - seen["read_bytes"]) / (2 * rounds)
    assert abs(apart) < SIGMAS * math.sqrt(2) * deviation


def test_threads_of_filebench_share_files_as_the_real_ones_were_seen_to() -> None:
    seen = json.loads((OBSERVED / "filebench-threads.json").read_text(encoding="utf-8"))
    one = json.loads((OBSERVED / "filebench.json").read_text(encoding="utf-8"))
    # Every whole round of every thread has the calls of a thread alone.
    assert seen["rounds"].keys() == one["rounds"].keys()
    begun: list[int] = seen["rounds_begun_by_thread"]
    threads, rounds = len(begun), sum(begun)
    assert sum(seen["rounds"].values()) == rounds - threads, "one a thread is cut short"

    work = ts.workload(f"filebench:{OBSERVED / 'mail-threads.f'}", loops=0)
    info = ts.trace_info(work)
    assert info.files is not None
    assert info.file_accesses is not None
    calls = info.files["calls"]
    # A count of all threads' operations ends both: within a round a thread.
    assert abs(calls["deletes"] - rounds) <= threads
    each = Counter(next(iter(seen["rounds"])).split())
    kinds = {"deletes": "unlink", "reads": "read", "writes": "write", "syncs": "fsync"}
    for ours, theirs in kinds.items():
        assert calls[ours] == each[theirs] * calls["deletes"]
        assert abs(calls[ours] - seen["calls"][theirs]) <= each[theirs] * threads
    # Appends are drawn alike below 16 KiB; a read has the file's 16 KiB by a gamma distribution,
    # and what was appended to it.
    most, writes = 16 << 10, seen["calls"]["write"]
    spread = most / math.sqrt(12 * writes)
    for total, count in (
        (seen["written_bytes"], writes),
        (info.files["written_bytes"], calls["writes"]),
    ):
        assert abs(total / count - most / 2) < SIGMAS * spread
    deviation = most / math.sqrt(1.5 * rounds)
    apart = info.files["read_bytes"] / calls["reads"] - seen["read_bytes"] / seen["calls"]["read"]
    assert abs(2 * apart) < SIGMAS * math.sqrt(2) * deviation

    # Which files threads take, all from one queue: how often each is read, and how unevenly.
    assert len(info.file_accesses) == calls["reads"] + calls["writes"], "all of them are kept"
    found = Counter(access["file"] for access in info.file_accesses if not access["write"])
    reads: list[list[int]] = [list(found.values()), seen["reads_by_file"]]
    files = len(reads[1])
    assert abs(len(reads[0]) - files) < 0.02 * files
    here, there = (statistics.stdev(one) for one in reads)
    assert abs(here - there) < SIGMAS * there / math.sqrt(files)
    # What is not alike: there threads are ahead of each other, and find a file open.
    assert seen["rounds_ahead_at_most"] > 1
    assert seen["opened_while_open"] > 0
