"""Running a workload on machines."""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierscope import (
    _check,
    _core,
    _files,
    _interrupts,
    _region,
    _sampling,
    _scale,
    _system,
    _workload,
    causes,
)
from tierscope._call import core_errors, parsed
from tierscope._region import Extent, Warming
from tierscope._result import INTERRUPTED, Result
from tierscope._system import System, with_names_told_apart
from tierscope._workload import Generated, MemoryTrace, Program, Workload
from tierscope.causes import By
from tierscope.errors import RunError

_POLL_S = 0.1
RECORDER = Path(__file__).parent / "_record" / "libtierscope_record.so"
"""The library that QEMU loads to observe a program."""
_MEMORY_BOUND_BYTES = 256 << 20
"""Operations of a program held in memory for machines that lag; what exceeds it goes to disk."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a machine stands.

    Attributes:
        accesses: accesses of the program simulated.
        instructions: instructions of the program simulated.
        time_ps: simulated time.
    """

    accesses: int
    instructions: int
    time_ps: int


@dataclass(frozen=True, slots=True)
class Growth:
    """How far a recording is.

    Attributes:
        accesses: loads and stores seen, those that are left out of the file included.
        file_bytes: size of the file so far.
        elapsed_s: wall-clock time since the recording began.
    """

    accesses: int
    file_bytes: int
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class Recording:
    """What a recording came to.

    Attributes:
        exit_status: the program's, 128+n for a signal; ``None`` where the recording was ended.
        totals: threads, operations, loads, stores, calls and instructions recorded, and
            ``left_out_loads`` and ``left_out_stores``, by name, and of a sample, in ``skipped``,
            ``windows`` and what lies between them; of a recording that could not be completed,
            threads and operations.
        file_bytes: size of the file.
        full: whether it ended because it had the largest size that it may have.
        partial: the file that is left of a recording that could not be completed, which can be
            replayed if that is allowed; ``None`` where it was completed, or nothing is left.
        reasons: why not all of the program is in it; empty if all is.
        notices: what is worth knowing about it.
    """

    exit_status: int | None
    totals: dict[str, Any]
    file_bytes: int
    full: bool
    partial: str | None
    reasons: list[str]
    notices: list[str]


Watcher = Callable[[Sequence[Progress]], None]
"""Called several times a second with each machine's progress, in the machines' order."""


GrowthWatcher = Callable[[Growth], None]
"""Called several times a second with how far a recording is, once it has begun."""


class NoResultError(RunError):
    """A run that simulated nothing, or too little of what is sampled for an estimate.

    Attributes:
        exit_status: the program's, 128+n for a signal; ``None`` where none ran.
    """

    def __init__(
        self,
        reason: str,
        exit_status: int | None,
        what: str = "nothing was simulated",
        hint: str | None = None,
    ) -> None:
        self.exit_status = exit_status
        super().__init__("no-result", f"{what}: {reason}", hint)


class RunFailedError(RunError):
    """A run in which a machine could not go on.

    Attributes:
        result: what there is, marked partial.
        failures: name of the machine, and reason, of each that failed.
    """

    def __init__(self, result: Result, failures: Sequence[tuple[str, str]]) -> None:
        self.result = result
        self.failures = list(failures)
        super().__init__("run-failed", "; ".join(f"{name}: {why}" for name, why in failures))

    def lines(self) -> list[str]:
        """The failures as the command line prints them, one string a line."""
        return [f"error[{self.code}]: {name}: {why}" for name, why in self.failures]


def compare(
    machines: Iterable[System | str],
    work: Workload | str,
    *,
    skip: Extent | None = None,
    limit: Extent | None = None,
    roi: bool = False,
    warming: Warming | None = None,
    time_limit_s: float | None = None,
    scale_to_footprint: float | None = None,
    by: By | Sequence[By] = (),
    watch: Watcher | None = None,
    latencies: str | os.PathLike[str] | None = None,
    timeline: str | os.PathLike[str] | None = None,
    sample: bool = False,
    precision: _sampling.Precision | None = None,
) -> Result:
    """Runs a workload on several machines and gives their results side by side.

    An interrupt from the keyboard ends the run; what there is then is returned, marked partial.

    Args:
        machines: systems, or names of presets and files. Machines of equal names are called by
            what sets them apart.
        work: what runs, or its name.
        skip: so much comes before the region of interest: it warms the machine, and is not
            counted. Accesses (``1000000`` or ``"1M"``), ``"2G instructions"``, or
            simulated time (``"5ms"``).
        limit: ends the run, marked partial, after so much of the region on a machine.
        roi: the region of interest is what the program marks as such.
        warming: of what comes before the region: ``functional``, at several times the speed, or,
            where a DRAM cache prefetches, too, ``untimed``, all of whose prefetches find room, or
            ``detailed``, as the region itself. Unless it is said it is functional, but where that
            cannot be: where a time is skipped, data are checked, or a DRAM cache prefetches. Of
            what is passed over with ``sample`` or ``precision``, too: a DRAM cache that prefetches
            asks for ``untimed`` there.
        time_limit_s: ends the run, marked partial, after so many seconds of wall-clock time.
        scale_to_footprint: sizes DRAM before a store to one part in so many of what the workload
            touches: of 2, half of it is in the store. Where DRAM shrinks, on-chip caches and the
            buffers of drives shrink in proportion, as far as they can work; where it grows,
            stores do.
        by: also tells misses and stalls by ``function`` or by ``address`` of the program's code:
            of a program, or of a recording that was made with it. By ``area`` of its memory they
            are told always.
        watch: hears of the progress.
        latencies: a file that gets a row for each request, with its latency and stages, as
            comma-separated values; of several systems, each has its name in the file's. Of a
            device alone these are all; of a machine the accesses that a core's own caches did not
            serve at once, and the pages that move between memory and store.
        timeline: a file that gets the first 100,000 of these requests through their stages, as
            Perfetto (https://ui.perfetto.dev) draws them; of several systems a file each.
        sample: simulates parts of the run in detail, and passes over the rest several times as
            fast: figures are estimates, with intervals. What is no longer than the first of these
            parts is complete.
        precision: samples, and again with more parts if need be, until half the interval of each
            machine's time is no wider than this: ``0.03`` or ``"3%"``. Not of programs, which
            would run twice.

    Raises:
        SpecError: with every mistake of a description or workload.
        ArgumentError: where an argument is of the wrong type.
        RunFailedError: where a machine could not go on; it holds what there is.
        NoResultError: where nothing was simulated.
        RunError: where the run could not start.
    """
    _check.time_limit(time_limit_s)
    _check.watcher(watch, "a list of Progress")
    loaded = with_names_told_apart(_system.machines(machines))
    what = _workload.on(_workload.of(work), loaded)
    sampled, wanted = _sampling.asked(sample, precision, what)
    passes_untimed = _sampling.passes_untimed(loaded, sampled)
    region = region_of(what, skip, limit, roi, warming, passes_untimed)
    sites = sites_of(what, by)
    notes = [[*changed_notes(one), *flash_notes(one)] for one in loaded]
    if scale_to_footprint is not None:
        scaled = _scale.to_footprint(loaded, what, scale_to_footprint)
        loaded = [one for one, _ in scaled]
        for own, (_, note) in zip(notes, scaled, strict=True):
            own += [] if note is None else [note]
    if warming in ("functional", "untimed"):
        check_functional(loaded, region)
    if latencies is not None and timeline is not None and Path(latencies) == Path(timeline):
        raise RunError(
            "not-written", f"latencies and timeline would both go to {latencies}", "name two files"
        )
    if sampled:
        for name, file in (("latencies", latencies), ("timeline", timeline)):
            if file is not None:
                raise _workload.without_effect(
                    f"a file of the {name}", "a sampled run, which passes most requests over"
                )
        _sampling.check_machines(loaded, warming)
    target: dict[str, Any] = {
        "systems": [one.to_dict() for one in loaded],
        "options": {
            **region,
            "sites": sites,
            "latencies": request_files("latencies", latencies, what, loaded),
            "timelines": request_files("timeline", timeline, what, loaded),
            **_sampling.options(sampled),
        },
    }
    watching = None if watch is None else functools.partial(_progress, watch)
    begun_s = time.monotonic()
    result = _run_once(what, target, time_limit_s, watching, loaded, notes)
    if wanted is None:
        if sampled:
            _sampling.tell_of_detail(result.data["systems"])
        return result
    every = _sampling.denser(result.data["systems"], wanted, _sampling.densest(loaded))
    left_s = None if time_limit_s is None else time_limit_s - (time.monotonic() - begun_s)
    if every is not None and not _ended_early(result) and (left_s is None or left_s > 0):
        target["options"] |= _sampling.options(True, every)
        denser = _run_once(what, target, left_s, watching, loaded, notes)
        if not _ended_early(denser):
            result = denser
        else:
            why = _sampling.CUT_BY_REQUEST if denser.interrupted else _sampling.CUT_BY_CLOCK
            for system in result.data["systems"].values():
                system["notes"].append(why)
    for system in result.data["systems"].values():
        note = None if _ended_early(result) else _sampling.too_wide(system, wanted)
        system["notes"] += [] if note is None else [note]
    _sampling.tell_of_detail(result.data["systems"])
    return result


def _run_once(
    what: Workload,
    target: dict[str, Any],
    time_limit_s: float | None,
    watching: Callable[[_core.Run], None] | None,
    machines: Sequence[System],
    notes: Sequence[Sequence[str]],
) -> Result:
    with core_errors():
        under_way = _start(what, target)
        _attend(under_way, time_limit_s, watching)
        ended = parsed(under_way.result())
    left = [list(_left_beside(target["options"], index)) for index in range(len(machines))]
    told = [[*own, *others] for own, others in zip(notes, left, strict=True)]
    return _result(ended, machines, told)


def each_alone(
    machines: Sequence[System],
    works: Sequence[Workload],
    *,
    skip: Extent | None = None,
    limit: Extent | None = None,
    roi: bool = False,
    warming: Warming | None = None,
    watch: Watcher | None = None,
) -> list[Result | RunError]:
    """Runs a workload on each machine, all of which one functional warm-up serves.

    The workloads are the same, or begin alike and have not gone on where the region begins.
    Each has what :func:`run` would give it, or the error that this would raise; they run one by
    one, and the machines' names need not differ.

    Raises:
        RunError: where none could start.
    """
    each = [_workload.on(work, machines) for work in works]
    what = each[0]
    told = [None if isinstance(one, Program) else one.to_dict() for one in each]
    texts = [json.dumps(one, sort_keys=True) for one in told]
    distinct = dict(zip(texts, told, strict=True))
    differ = len(distinct) > 1
    region = region_of(what, skip, limit, roi, warming)
    if warming in ("functional", "untimed"):
        check_functional(machines, region)
    options = {
        **region,
        "sites": None,
        "latencies": [],
        "timelines": [],
        "shares_warming": True,
        "works": [list(distinct).index(text) for text in texts] if differ else [],
    }
    target = {
        "systems": [one.to_dict() for one in machines],
        "works": list(distinct.values()) if differ else [],
        "options": options | _sampling.options(False),
        "apart": True,
    }
    with core_errors():
        under_way = _start(what, target)
        attend(under_way, watch)
        ended = parsed(under_way.result())
    found: list[Result | RunError] = []
    for machine, finished, intervals in zip(
        machines, ended["finished"], ended["intervals"], strict=True
    ):
        notes = [*changed_notes(machine), *flash_notes(machine)]
        try:
            own = {"finished": finished, "intervals": [intervals]}
            found.append(_result(own, [machine], [notes]))
        except RunError as error:
            found.append(error)
    return found


def warmed_alike(machines: Sequence[System]) -> list[list[int]]:
    """Which machines one functional warm-up serves: their places, group by group."""
    told = json.dumps([one.to_dict() for one in machines])
    with core_errors():
        groups: list[list[int]] = parsed(_core.warmed_alike(told))
    return groups


def _left_beside(options: Mapping[str, Any], system: int) -> Iterator[str]:
    """What is left of files of a system's requests that were not completed."""
    for what in ("latencies", "timelines"):
        for path in options[what][system : system + 1]:
            if Path(f"{path}.partial").exists():
                yield f"{path}.partial has its requests until then; {path} was not completed"


def _ended_early(result: Result) -> bool:
    """Whether an interrupt or the clock ended a run, which a second one is not to follow."""
    reason = result.data["partial_reason"] or ""
    return result.interrupted or "time limit" in reason


def changed_notes(machine: System) -> Iterator[str]:
    """What a result says of a machine that is not as its preset or file has it."""
    if machine.changes:
        told = ", ".join(f"{path} is {value}" for path, value in machine.changes.items())
        yield f"changed from its preset or file: {told}"


_FLASH_AT_START = {
    "erased": "erased",
    "written": "written once from its beginning to its end",
    "steady": "in the steady state of a full drive that is written at random",
}


def flash_notes(machine: System) -> Iterator[str]:
    """What a result says of the state that a drive begins in, which its writes depend on."""
    drive = machine.to_dict().get("ssd")
    if drive is not None:
        told = _FLASH_AT_START[drive["initial"]]
        yield f"the drive's flash is {told} when the run begins (ssd.initial)"


_EXAMPLES = {"latencies": "latencies.csv", "timeline": "timeline.json"}


def request_files(
    what: str,
    file: str | os.PathLike[str] | None,
    work: Workload,
    machines: Sequence[System],
) -> list[str]:
    """The files that tell of single requests, one a system; none where none is asked for.

    Args:
        what: ``latencies`` or ``timeline``.
        file: that of one system; of several, each has its name in it.
        work: what runs.
        machines: what it runs on.

    Raises:
        ArgumentError: where the path is none.
        RunError: where there is something else than a file, or no directory.
    """
    if file is None:
        return []
    mend = f'write a path, such as "{_EXAMPLES[what]}"'
    path = Path(_check.path(file, f"the file of the {what}", mend))
    if not path.name:
        raise RunError("not-written", f"{path} is no file's name", mend)
    named = [one.name.replace("/", "-") for one in machines]
    several = len(machines) > 1
    paths = [path.with_stem(f"{path.stem}-{name}") if several else path for name in named]
    if len(set(paths)) < len(paths):
        twice = next(one for one in paths if paths.count(one) > 1)
        hint = "give one of them another name"
        raise RunError("not-written", f"the {what} of two systems would go to {twice}", hint)
    traces = work.files if isinstance(work, MemoryTrace) else []
    for one in paths:
        partial = one.with_name(f"{one.name}.partial")
        for trace in traces:
            if any(at.exists() and trace.exists() and at.samefile(trace) for at in (one, partial)):
                raise RunError("not-written", f"{trace} is the trace, and is left alone")
        if one.is_symlink() or (one.exists() and not one.is_file()):
            raise RunError("not-written", f"{one} is no regular file, and is left alone")
        if not one.absolute().parent.is_dir():
            raise RunError("not-written", f"{one}: there is no directory {one.parent}")
    return [str(one) for one in paths]


def region_of(
    work: Workload,
    skip: Extent | None,
    limit: Extent | None,
    roi: bool,
    warming: Warming | None,
    passes_untimed: bool = False,
) -> dict[str, object]:
    """The simulator's options for the region of interest of a run.

    Raises:
        ArgumentError: where an extent is of the wrong type.
        RunError: where an extent says nothing, or contradicts the marks.
    """
    _check.flag(roi, "the region of interest by marks")
    named = (work.roi_start, work.roi_stop) if isinstance(work, Program) else (None, None)
    starts, stops = (roi or function is not None for function in named)
    return _region.options(skip, limit, starts, stops, warming, passes_untimed)


def check_program(program: Program) -> None:
    """Refuses a program that cannot run under the recorder, as a run would.

    Raises:
        RunError: where there is no such program, or no function that begins or ends its region.
    """
    with core_errors():
        _core.check_program(
            _program_job(program, {"kind": "machines", "systems": [], "options": {}})
        )


def check_functional(machines: Sequence[System], region: Mapping[str, object]) -> None:
    """Refuses machines that cannot be warmed functionally, where that is asked for by name.

    Raises:
        RunError: with the first of them, and why.
    """
    systems = json.dumps([one.to_dict() for one in machines])
    start, warming = json.dumps(region["start"]), json.dumps(region["warming"])
    try:
        with core_errors():
            _core.check_functional(systems, start, warming)
    except RunError as error:
        mend = "leave the warming out, which then is in detail there, or write detailed"
        raise RunError(error.code, str(error), mend) from None


def sites_of(work: Workload, by: By | Sequence[By]) -> str | None:
    """How finely the sites of the program's code have to be told.

    Raises:
        ArgumentError: where ``by`` is of the wrong type, or means nothing to the workload.
        RunError: where the workload has no code.
    """
    told = causes.kinds(by)
    sites = causes.grain(told)
    if told and sites is None and _workload.for_devices(work):
        raise _workload.without_effect(
            "telling whose misses they are", "requests for devices alone"
        )
    if sites is not None and isinstance(work, Generated | MemoryTrace):
        what = (
            f"the generated workload {work.name}"
            if isinstance(work, Generated)
            else f"the trace {os.fspath(work.path)}"
        )
        raise RunError(
            "no-code",
            f"{what} has no code whose {sites}s could be told",
            "run a program, or a recording that was made with it",
        )
    return sites


def record(
    command: Sequence[str],
    path: str | os.PathLike[str],
    *,
    output_to_stderr: bool = False,
    roi_start: str | None = None,
    roi_stop: str | None = None,
    by: By | Sequence[By] = (),
    max_size: int | str | None = None,
    filter_l1: int | str | None = None,
    sample: str | None = None,
    watch: GrowthWatcher | None = None,
) -> Recording:
    """Runs a program under the recorder and records it to a file, a ``.tst``.

    An interrupt from the keyboard ends the recording; what there is then can be replayed. All of
    the program is recorded; calls of ``roi_start`` and ``roi_stop`` are marked in it, for a replay
    with ``roi=True``. An earlier recording at ``path`` is replaced, any other file is left alone.
    With ``by`` the recording holds which ``function``, or instruction
    (``address``), of the program each access comes from, for replays that tell it.

    Args:
        command: the program and its arguments.
        path: the recording.
        output_to_stderr: whether the program's standard output goes to standard error.
        roi_start: a function whose calls begin the region of interest.
        roi_stop: a function whose calls end it.
        by: what is told of where in the program's code accesses come from.
        max_size: ends the recording, and the program, before the file is larger: bytes, or a text
            such as ``"2GiB"``. What is recorded until then is complete.
        filter_l1: leaves out the accesses that a first-level cache of this size serves, of 8 ways
            and lines of 64 bytes, one for each thread: bytes, or a text such as ``"32KiB"``.
        sample: records the program's first period whole, and behind it windows; passes over what
            lies between them, but for its calls: accesses of a window and of a period, such as
            ``"1M/100M"``. What the recording replays to is marked as sampled.
        watch: hears of the file's growth.

    Raises:
        ArgumentError: where an argument is of the wrong type.
        RunError: where a size is none, the program cannot run, or the recording cannot be written.
    """
    file = Path(_check.path(path, "a recording's file", 'write a path, such as "app.tst"'))
    _check.watcher(watch, "a Growth")
    what = Program(command, False, output_to_stderr, roi_start, roi_stop)
    _check_recording(file)
    told = causes.kinds(by)
    if "area" in told:
        raise _workload.without_effect("telling areas", "a recording: its replays always tell them")
    target = {
        "kind": "recording",
        "path": str(file),
        "sites": causes.grain(told),
        "max_bytes": _check.size(max_size, "the largest size", least="1MiB"),
        "filter_bytes": _check.size(filter_l1, "the filter's size"),
        "windows": None if sample is None else _region.windows(sample),
    }
    with core_errors():
        under_way = _launch(what, target)
        _attend(under_way, None, None if watch is None else functools.partial(_growth, watch))
        found = parsed(under_way.result())["finished"]
    kept = found["recording"] or {}
    return Recording(
        exit_status=found["exit_status"],
        totals=kept.get("totals", {}),
        file_bytes=kept.get("file_bytes", 0),
        full=found["full"],
        partial=kept.get("partial"),
        reasons=found["reasons"],
        notices=[*found["notices"], *_no_window(kept.get("totals", {}).get("skipped"))],
    )


def _no_window(skipped: dict[str, int] | None) -> list[str]:
    """A notice of a sample that has no window of its program."""
    if skipped is None or skipped["windows"]:
        return []
    accesses = skipped["loads"] + skipped["stores"]
    if not accesses:
        return ["the program ended within its first period, and is recorded whole: no sample"]
    made = f"behind its start the program made {accesses} accesses"
    return [f"{made}, and no window began: take a shorter period"]


def _check_recording(path: Path) -> None:
    """Refuses what a recording must not replace: all but an earlier recording and empty files."""
    if path.exists() and not path.is_file():
        raise RunError("not-recorded", f"{path} is no regular file, and is left alone")
    mend = "name a new file, or an earlier recording to replace"
    try:
        if path.exists() and path.stat().st_size and not _files.is_recording(path):
            raise RunError("not-recorded", f"{path} is no recording, and is left alone", mend)
    except OSError as error:
        why = f"{path} cannot be read, to see whether it is a recording: {error.strerror}"
        raise RunError("not-recorded", why, mend) from None
    if not path.absolute().parent.is_dir():
        raise RunError("not-recorded", f"{path}: there is no directory {path.parent}")
    partial = path.with_name(f"{path.name}.partial")
    if os.path.lexists(partial):
        raise RunError(
            "not-recorded",
            f"{partial} is there, of a recording that is under way or that was ended",
            "wait for it, or remove it; tierscope run -w trace:FILE --allow-truncated replays it",
        )


def _start(work: Workload, target: dict[str, Any]) -> _core.Run:
    if isinstance(work, Program):
        return _launch(work, {"kind": "machines", **target})
    job = {"workload": work.to_dict(), **target}
    return _core.Run.start(_check.written(job, "the workload"))


def _launch(program: Program, target: dict[str, Any]) -> _core.Run:
    return _core.Run.launch(_program_job(program, target))


def _program_job(program: Program, target: dict[str, Any]) -> str:
    job = {
        "command": list(program.command),
        "to": target,
        "library": str(RECORDER),
        "output_to_stderr": program.output_to_stderr,
        "native": program.native,
        "roi_start": program.roi_start,
        "roi_stop": program.roi_stop,
        "memory_bound_bytes": _MEMORY_BOUND_BYTES,
    }
    return _check.written(job, "the program")


def run(
    machine: System | str,
    work: Workload | str,
    *,
    skip: Extent | None = None,
    limit: Extent | None = None,
    roi: bool = False,
    warming: Warming | None = None,
    time_limit_s: float | None = None,
    scale_to_footprint: float | None = None,
    by: By | Sequence[By] = (),
    watch: Watcher | None = None,
    latencies: str | os.PathLike[str] | None = None,
    timeline: str | os.PathLike[str] | None = None,
    sample: bool = False,
    precision: _sampling.Precision | None = None,
) -> Result:
    """Runs a workload on one machine. As :func:`compare`."""
    return compare(
        [machine],
        work,
        skip=skip,
        limit=limit,
        roi=roi,
        warming=warming,
        time_limit_s=time_limit_s,
        scale_to_footprint=scale_to_footprint,
        by=by,
        watch=watch,
        latencies=latencies,
        timeline=timeline,
        sample=sample,
        precision=precision,
    )


def _progress(watch: Watcher, under_way: _core.Run) -> None:
    watch([Progress(**one) for one in parsed(under_way.progress())])


def _growth(watch: GrowthWatcher, under_way: _core.Run) -> None:
    found = parsed(under_way.recording())
    if found is not None:
        watch(Growth(**found))


def attend(under_way: _core.Run, watch: Watcher | None) -> None:
    """Waits until a run has ended, and tells a watcher of it meanwhile."""
    _attend(under_way, None, None if watch is None else functools.partial(_progress, watch))


def _attend(
    under_way: _core.Run,
    time_limit_s: float | None,
    watch: Callable[[_core.Run], None] | None,
) -> None:
    """Waits until a run has ended, answerable to the keyboard, and ends it if need be."""
    deadline = None if time_limit_s is None else time.monotonic() + time_limit_s
    while True:
        try:
            _interrupts.release()
            while not under_way.wait(_POLL_S):
                if watch is not None:
                    watch(under_way)
                if deadline is not None and time.monotonic() >= deadline:
                    under_way.stop(f"the time limit of {time_limit_s:g} s was reached")
            _interrupts.hold()
            return
        except KeyboardInterrupt:
            under_way.stop(INTERRUPTED)
        except BaseException:
            under_way.stop("the progress watcher failed")
            raise


def _result(
    ended: dict[str, Any], machines: Sequence[System], notes: Sequence[Sequence[str]]
) -> Result:
    finished = ended["finished"]
    data = finished["result"]
    # Those that were killed before they had reported anything are left out.
    found = data["systems"]
    data["systems"] = {one.name: found[one.name] for one in machines if one.name in found}
    for one, own in zip(machines, notes, strict=True):
        if one.name in found:
            found[one.name]["notes"][:0] = own
    intervals = {
        one.name: columns
        for one, columns in zip(machines, ended["intervals"], strict=True)
        if one.name in found
    }
    result = Result(data, {one.name: one.to_toml() for one in machines}, intervals)
    if finished["failures"]:
        raise RunFailedError(result, [(name, why) for name, why in finished["failures"]])
    if not result.simulated_anything:
        empty = any(system["skipped"] is not None for system in data["systems"].values())
        nothing = "the region of interest is empty" if empty else "the workload did nothing"
        reason = data["partial_reason"] or nothing
        program = data["program"]
        status = None if program is None else program["exit_status"]
        if any(system["sampling"] is not None for system in data["systems"].values()):
            waited = (
                "none of the program's instructions were simulated in detail, as its threads "
                "waited (for syncs that flush memory, say)"
            )
            raise NoResultError(
                data["partial_reason"] or waited,
                status,
                "there is no estimate",
                "run it without --sample or --precision",
            )
        zeros = [] if data["partial_reason"] else _said_to_be_zero(data["workload"])
        if zeros:
            reason = " and ".join(f"workload.{name} = 0" for name in zeros)
            raise NoResultError(f"{reason} leaves nothing to do", status, hint="write 1 or more")
        limited = "the limit of " in (data["partial_reason"] or "")
        mend = "raise the limit: not one access was done before it" if limited else None
        raise NoResultError(reason, status, hint=mend)
    return result


def _said_to_be_zero(workload: Mapping[str, Any]) -> list[str]:
    """Parameters of a generated workload that are 0, and would not be unless that was said."""
    listed = [one for one in parsed(_core.list_workloads()) if one["name"] == workload["name"]]
    defaults = {one["name"]: one["default"] for kind in listed for one in kind["parameters"]}
    is_zero = {name: str(value) == "0" for name, value in workload["parameters"].items()}
    return [name for name, zero in is_zero.items() if zero and defaults.get(name, "0") != "0"]
