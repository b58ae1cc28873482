"""Traces: looked into, and converted to other formats."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tierscope import _check, _core, _region, _workload
from tierscope._call import core_errors, parsed
from tierscope._workload import Generated, MemoryTrace, Program, Recorded
from tierscope.errors import ArgumentError, RunError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_POLL_S = 0.1

Source = Generated | Recorded | MemoryTrace
"""What requests come from: a trace, a recording, or a built-in workload."""


@dataclass(frozen=True, slots=True)
class Passed:
    """How far a pass over a trace is.

    Attributes:
        requests: requests read.
        share: the share of the source that they are, about; ``None`` where that is not known.
    """

    requests: int
    share: float | None


PassWatcher = Callable[[Passed], None]
"""Called several times a second with how far a pass is."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """What a conversion came to.

    Attributes:
        read: requests read.
        written: requests written: more where larger ones were written as lines.
        file_bytes: size of the file; ``None`` where it is a device or a pipe.
        packed: what it is compressed by: ``gzip``, ``xz``, ``zstd`` or ``None``.
        lost: what the format had no place for, in words; empty if nothing was lost.
        notices: what is worth knowing of the source.
    """

    read: int
    written: int
    file_bytes: int | None
    packed: str | None
    lost: list[str]
    notices: list[str]


@dataclass(frozen=True)
class TraceInfo:
    """What a trace asks for.

    Attributes:
        name: the trace, as it was named.
        recording: of a recording, what it says of itself; else ``None``.
        profile: footprint, mix, sizes, reuse distances, miss ratios and working sets, as
            documented in docs/formats/trace-info.md; ``None`` where only the recording was asked.
        remarks: what is worth knowing of the trace.
        files: what calls of threads ask of files, as documented there; ``None`` where there are
            none.
        threads: instructions, stores past the caches, flushes of lines, fences and calls on files
            of threads; ``None`` of requests to a device. Flushes are ``None`` where nothing tells
            them.
        file_accesses: some reads and writes of files for pictures, of many each with the same
            chance: ``number``, ``file``, ``offset``, ``bytes`` and ``write``. They are not in the
            object that :meth:`to_dict` makes.
    """

    name: str
    recording: dict[str, Any] | None
    profile: dict[str, Any] | None
    remarks: list[str]
    files: dict[str, Any] | None = None
    threads: dict[str, Any] | None = None
    file_accesses: list[dict[str, Any]] | None = None

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "name": self.name,
            "recording": self.recording,
            "profile": self.profile,
            "files": self.files,
            "threads": self.threads,
            "remarks": self.remarks,
        }

    def to_json(self) -> str:
        """All of it, as one JSON object."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)

    def table(self) -> str:
        """All of it as ``tierscope trace info`` prints it."""
        from tierscope import trace_report

        return "\n".join(trace_report.lines(self))

    def plot(self) -> Figure:
        """Miss ratios by size of cache, reuse distances, working sets and sizes of requests.

        Of files that calls read and write, the same, and which bytes of which file they move.

        Raises:
            RunError: where the trace was not gone through, or moves no data.
        """
        from tierscope import trace_plots

        of_memory = self.profile is not None and self.profile["touches"] > 0
        of_files = self.files is not None and self.files["touches"] > 0
        if not (of_memory or of_files):
            raise RunError(
                "nothing-to-plot",
                f"of {self.name} no request is known that moves data",
                "name a trace that has some, and leave brief out",
            )
        return trace_plots.of_trace(
            self.name,
            self.profile if of_memory else None,
            self.files if of_files else None,
            self.file_accesses or [],
        )


def trace_info(
    source: Source | str,
    *,
    block: int | str | None = None,
    limit: int | str | None = None,
    brief: bool = False,
    watch: PassWatcher | None = None,
) -> TraceInfo:
    """Goes through a trace and says what it asks for.

    Reuse distances and miss ratios are exact for up to 2^20 different blocks; of more, a sample of
    blocks is followed, and the largest error is said. Caches of sets are exact always. An
    interrupt from the keyboard ends the pass; what was found then is returned, of a part.

    Args:
        source: ``FORMAT:FILE``, ``trace:FILE.tst``, the name of a built-in workload, or what
            :func:`workload` gives.
        block: the unit in which footprint, reuse and caches are counted, a power of two from 8 B:
            64 B unless given, and 4 KiB of traces of stores.
        limit: so many requests at most, the first ones, of threads accesses and reads and writes of
            files: a number, or a text such as "20k".
        brief: of a recording, only what it says of itself.
        watch: hears of the progress.

    Raises:
        SpecError: where a parameter is impossible.
        ArgumentError: where an argument is of the wrong type or has no effect.
        RunError: where the trace cannot be read.
    """
    work, name = _source(source)
    _check.flag(brief, "being brief")
    _check.watcher(watch, "a Passed")
    if brief and not isinstance(work, Recorded):
        raise _workload.without_effect("being brief", "what is no recording")
    recording = None
    if isinstance(work, Recorded):
        with core_errors():
            recording = parsed(_core.trace_info(os.fspath(work.path), work.allow_truncated))
    if brief:
        return TraceInfo(name, recording, None, [])
    job = {
        "from": {"workload": work.to_dict(), "limit": _limit(limit)},
        "block_bytes": _check.size(block, "the block"),
    }
    with core_errors():
        found = _attend(_core.Pass.profile(_check.written(job, f"the trace {name}")), watch)
    return TraceInfo(
        name,
        recording,
        found["profile"],
        found["remarks"],
        found.get("files"),
        found.get("threads"),
        found.get("file_accesses"),
    )


def convert(
    source: Source | str,
    target: str,
    *,
    clock: str | None = None,
    interval: str | None = None,
    line: int | str | None = None,
    limit: int | str | None = None,
    replace: bool = False,
    parameters: dict[str, Any] | None = None,
    watch: PassWatcher | None = None,
) -> Conversion:
    """Writes the requests of a trace in another format, or what threads do as a recording.

    The file appears whole or not at all. It is compressed as its name ends: ``.gz``, ``.xz`` or
    ``.zst``; a recording is by itself.

    Args:
        source: as for :func:`trace_info`.
        target: ``FORMAT:FILE``, or ``trace:FILE.tst`` for a recording of a workload of threads, of
            a trace of a program (``lackey``, ``champsim``, ``drmemtrace`` …) or of the beginning of
            another recording.
        clock: the clock that cycles are of, such as ``1.2GHz``, where one side has cycles and the
            other times.
        interval: time from one request to the next, such as ``10ns``, where only the target has
            times.
        line: bytes of a line, 64 unless given: what a request without a size moves, and what
            requests are divided into for a format whose requests have none.
        limit: so many requests at most, the first ones: a number, or a text such as "20k".
        replace: whether a file that is there is replaced.
        parameters: how the target is written, such as ``{"levels": "1:1:4:4:65536:128"}`` of
            ``ramulator2-vector``.
        watch: hears of the progress.

    Raises:
        SpecError: where a parameter is impossible.
        ArgumentError: where an argument is of the wrong type or has no effect.
        RunError: where the trace cannot be read, or the target cannot be written.
    """
    work, name = _source(source)
    _check.watcher(watch, "a Passed")
    kind, file = _target(target)
    job = {
        "from": {"workload": work.to_dict(), "limit": _limit(limit)},
        "format": kind,
        "path": file,
        "clock": _optional(clock, "the clock", 'write a frequency, such as "1.2GHz"'),
        "interval": _optional(interval, "the interval", 'write a time, such as "10ns"'),
        "line_bytes": _check.size(line, "the line"),
        "parameters": _parameters(parameters),
        "replace": _check.flag(replace, "replacing a file"),
    }
    with core_errors():
        found = _attend(_core.Pass.convert(_check.written(job, f"the trace {name}")), watch)
    return Conversion(
        read=found["converted"]["read"],
        written=found["converted"]["written"],
        file_bytes=found["file_bytes"],
        packed=found["packed"],
        lost=list(_lost(found["converted"], kind)),
        notices=found["remarks"],
    )


def source_of(
    name: str, parameters: dict[str, Any], seed: int | None, *, allow_truncated: bool
) -> Source:
    """The source of that name; a file that no format is named for is a recording."""
    formats = [one["name"] for one in parsed(_core.list_formats())]
    if name.partition(":")[0] not in ("trace", *formats):
        built_in = [one["name"] for one in parsed(_core.list_workloads())]
        if name.endswith(".tst") or (name not in built_in and os.path.lexists(name)):
            name = f"trace:{name}"
    return _workload.named(name, parameters, seed, allow_truncated=allow_truncated)


def _source(source: object) -> tuple[Source, str]:
    """A source, and its name."""
    if isinstance(source, str):
        source = source_of(source, {}, None, allow_truncated=False)
    if isinstance(source, Program):
        raise ArgumentError(
            "no-effect",
            "a program is no trace",
            "record it first: tierscope record -o app.tst -- PROGRAM",
        )
    work = _workload.told_apart(_workload.of(source))
    assert not isinstance(work, Program)
    if isinstance(work, Generated):
        return work, work.name
    return work, os.fspath(work.path)


def _target(target: object) -> tuple[str, str]:
    """Format and file of a target."""
    mend = 'write FORMAT:FILE, such as "dramsim3:app.trc.gz"'
    text = _check.text(target, "the target", mend)
    if ":" not in text and text.endswith(".tst"):
        return "trace", text
    kind, colon, file = text.partition(":")
    if not colon or not file or not kind:
        raise RunError("unknown-format", f"the target {text} names no format and file", mend)
    return kind, file


def _parameters(value: object) -> dict[str, Any]:
    """How the target is written."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise ArgumentError(
            "wrong-type",
            f"parameters of the target are a dict, not {type(value).__name__}",
            'write {"levels": "1:1:4:4:65536:128"}',
        )
    return value


def _optional(value: object, what: str, mend: str) -> str | None:
    return None if value is None else _check.text(value, what, mend)


def _limit(value: object) -> int | None:
    if value is None:
        return None
    found = _region.bound("the limit", value)
    if "accesses" not in found:
        mend = 'write a number of requests, such as 100000 or "20k"'
        raise RunError("impossible-value", f"the limit is `{value}`", mend)
    return found["accesses"]


def _attend(under_way: _core.Pass, watch: PassWatcher | None) -> dict[str, Any]:
    """Waits until a pass has ended, answerable to the keyboard, and gives what it came to."""
    interrupted = False
    while True:
        try:
            while not under_way.wait(_POLL_S):
                if watch is not None:
                    watch(Passed(*under_way.progress()))
            break
        except KeyboardInterrupt:
            under_way.stop()
            if interrupted:
                # What it reads from or writes to does not answer.
                raise
            interrupted = True
        except BaseException:
            under_way.stop()
            raise
    try:
        ended: dict[str, Any] = parsed(under_way.result())
        return ended
    except _core.RunError as error:
        if interrupted and error.args[0] == "interrupted":
            raise KeyboardInterrupt from None
        raise


_LOST = (
    ("times_left_out", "times were left out: {} has none"),
    ("flushes_left_out", "{:,} flushes were left out: {} has none"),
    ("trims_left_out", "{:,} trims were left out: {} has none"),
    ("forced_as_plain", "{:,} forced writes became plain ones: {} does not tell them"),
    ("writes_as_reads", "{:,} writes became reads: {} does not tell them"),
    ("nowhere", "{:,} requests for address 0 were left out: in {} it means none"),
    ("sizes_left_out", "{:,} requests lost their sizes: those of {} are for whole lines"),
    ("widened", "{:,} requests were made larger, to the whole sectors of {}"),
    ("times_cut", "{:,} times were cut to whole units of {}"),
    ("file_calls_left_out", "{:,} reads and writes of files by calls were left out: {} has none"),
    (
        "non_temporal_as_plain",
        "{:,} stores past the caches became plain ones: {} does not tell them",
    ),
    ("line_flushes_left_out", "{:,} flushes of lines of the caches were left out: {} has none"),
    ("fences_left_out", "{:,} fences were left out: {} has none"),
    ("threads_joined", "{:,} threads became one, whose turns come one after the other in {}"),
    (
        "instructions_nowhere",
        "{:,} instructions have no address of their own: in {} all are at one",
    ),
    ("places_left_out", "addresses of {:,} instructions were left out: {} counts them"),
    ("branches_left_out", "{:,} branches became other instructions: {} does not tell them"),
    ("registers_left_out", "registers of {:,} instructions were left out: {} has none"),
    ("instructions_left_out", "{:,} instructions behind the last access were left out by {}"),
    ("instructions_added", "{:,} instructions were added: in {} each access is one"),
)


def _lost(converted: dict[str, Any], kind: str) -> list[str]:
    """What was lost, a sentence each."""
    lost = []
    for key, text in _LOST:
        count = converted[key]
        if count:
            lost.append(text.format(kind) if count is True else text.format(count, kind))
    return lost
