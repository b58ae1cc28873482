"""Workloads: what runs on the machines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tierscope import _check, _core
from tierscope._call import core_errors, parsed
from tierscope.errors import ArgumentError, RunError

if TYPE_CHECKING:
    from tierscope._system import System

_MOST_COUNT = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Generated:
    """A built-in generator. ``tierscope show workloads`` lists them.

    Attributes:
        name: the generator's name.
        parameters: what differs from its defaults.
        seed: seed of its random choices: equal seeds give equal operations.
        alone: of names that are both threads' and devices' alone, such as ``zipf``, which is meant;
            runs set it by their systems.
        hints: a file of hints that are replayed beside it; see ``with_hints``.
    """

    name: str
    parameters: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    alone: bool | None = None
    hints: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        """Refuses what is no name, no parameters or no seed.

        Raises:
            ArgumentError: where it is of the wrong type.
            RunError: where it is out of range.
        """
        _check.text(self.name, "a workload's name", 'write a name such as "gups"')
        _check.mapping(self.parameters, "a workload's parameters")
        _check.seed(self.seed)

    @property
    def file(self) -> Path | None:
        """The file that describes it, of a workload such as ``filebench:my.f``."""
        kind, colon, file = self.name.partition(":")
        return Path(file) if colon and kind == "filebench" else None

    def to_dict(self) -> dict[str, Any]:
        """As the simulator takes it."""
        return {
            "kind": "generated",
            "name": self.name,
            "parameters": _told(self.parameters),
            "seed": self.seed,
            **({} if self.alone is None else {"alone": self.alone}),
            **_hints(self.hints),
        }


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recording of a program.

    Attributes:
        path: the ``.tst`` file.
        allow_truncated: whether to replay what precedes the damage of a damaged one.
        hints: a file of hints that are replayed beside it; see ``with_hints``.
    """

    path: str | os.PathLike[str]
    allow_truncated: bool = False
    hints: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        """Refuses what is no path.

        Raises:
            ArgumentError: where it is of the wrong type.
        """
        _check.path(self.path, "a recording's file", 'write a path, such as "app.tst"')
        _check.flag(self.allow_truncated, "allowing truncation")

    def to_dict(self) -> dict[str, Any]:
        """As the simulator takes it."""
        return {
            "kind": "recorded",
            "path": os.fspath(self.path),
            "allow_truncated": self.allow_truncated,
            **_hints(self.hints),
        }


@dataclass(frozen=True, slots=True)
class MemoryTrace:
    """Requests for a memory or store, as a simulator or tracer wrote them: for devices alone.

    Those that tell what a program's threads do run on machines with a processor too.

    Attributes:
        format: such as ``dramsim3`` or ``msr``; ``tierscope show workloads`` lists them.
        path: the file, plain or compressed by gzip, xz or zstd; of formats whose traces have a file
            for each thread or core, several with commas between, for machines with a processor.
        parameters: ``clock`` is the clock that cycles are of, the device's own unless given;
            ``outstanding`` is how many requests are under way at most, whatever their times;
            ``volume`` is which volume to take of a trace that has several, ``volumes`` how several
            are laid one behind the other.
    """

    format: str
    path: str | os.PathLike[str]
    parameters: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuses what is no format, no path or no parameters.

        Raises:
            ArgumentError: where it is of the wrong type.
        """
        _check.text(self.format, "a trace's format", 'write a name such as "dramsim3"')
        _check.path(self.path, "a trace's file", 'write a path, such as "app.trc"')
        _check.mapping(self.parameters, "a trace's parameters")

    @property
    def files(self) -> list[Path]:
        """The files: one, unless commas name several."""
        return [Path(file) for file in _core.trace_files(os.fspath(self.path))]

    def to_dict(self) -> dict[str, Any]:
        """As the simulator takes it."""
        return {
            "kind": "requests",
            "format": self.format,
            "path": os.fspath(self.path),
            "parameters": _told(self.parameters),
        }


@dataclass(frozen=True, slots=True)
class Program:
    """A real program, which runs under the recorder while the machines run what it does.

    Attributes:
        command: the program, a path or a name to be looked up in ``PATH``, and its arguments.
        native: whether it runs alone before as well, to measure its time. It then runs twice, with
            all that it does; the first time without input, and its output goes nowhere.
        output_to_stderr: whether its standard output goes to standard error.
        roi_start: the function, of the program or of a library that it loads, whose first call
            begins the region of interest.
        roi_stop: the function whose first call after that ends it.
    """

    command: Sequence[str]
    native: bool = False
    output_to_stderr: bool = False
    roi_start: str | None = None
    roi_stop: str | None = None

    def __post_init__(self) -> None:
        """Refuses what is no command.

        Raises:
            ArgumentError: where it is of the wrong type.
            RunError: where it names no program, or where its region would be empty.
        """
        object.__setattr__(self, "command", _check.command(self.command))
        _check.flag(self.native, "running it alone first")
        _check.flag(self.output_to_stderr, "its output to standard error")
        for function, does in ((self.roi_start, "begins"), (self.roi_stop, "ends")):
            if function is not None:
                mend = 'write the name of a function, such as "main_loop"'
                _check.text(function, f"what {does} the region of interest", mend)
        if self.roi_start is not None and self.roi_start == self.roi_stop:
            raise RunError(
                "impossible-value",
                f"the region of interest begins and ends at the first call of `{self.roi_start}`",
                "name another function for one of them, or leave the end out",
            )


Workload = Generated | Recorded | MemoryTrace | Program
"""What a system runs."""


def _hints(file: str | os.PathLike[str] | None) -> dict[str, Any]:
    return {} if file is None else {"hints": os.fspath(file)}


def _told(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as the simulator takes them: a number that no counter holds as it was written."""
    return {
        name: str(value) if isinstance(value, int) and abs(value) > _MOST_COUNT else value
        for name, value in parameters.items()
    }


def for_devices(work: Workload) -> bool:
    """Whether a workload is requests for devices alone: a trace of them, or a pattern."""
    if isinstance(work, Generated):
        return True in _kinds(work.name) if work.alone is None else work.alone
    return isinstance(work, MemoryTrace)


def on(work: Workload, machines: Sequence[System]) -> Workload:
    """The workload that a name means on these systems, where workloads of both kinds have it."""
    if not isinstance(work, Generated) or len(_kinds(work.name)) < 2:
        return work
    return replace(work, alone=any("processor" not in one.to_dict() for one in machines))


def told_apart(work: Workload) -> Workload:
    """The workload that is meant where two have the name and no system says which.

    It is the one that has a parameter that is given and that the other lacks.

    Raises:
        RunError: where no parameter tells.
    """
    if not isinstance(work, Generated) or work.alone is not None or len(_kinds(work.name)) < 2:
        return work
    both = {
        one["alone"]: {kind["name"]: kind["default"] for kind in one["parameters"]}
        for one in parsed(_core.list_workloads())
        if one["name"] == work.name
    }
    own = {alone: [name for name in both[alone] if name not in both[not alone]] for alone in both}
    meant = [alone for alone, names in own.items() if set(names) & set(work.parameters)]
    if len(meant) == 1:
        return replace(work, alone=meant[0])
    threads, devices = (f"workload.{own[a][0]}={both[a][own[a][0]]}" for a in (False, True))
    raise RunError(
        "ambiguous",
        f"{work.name} is accesses of threads, and also a pattern of requests for devices alone",
        "give a parameter that only one of them has: {} for threads, {} for requests".format(
            threads.replace('"', ""), devices.replace('"', "")
        ),
    )


def _kinds(name: str) -> set[bool]:
    """Whether workloads of that name are for devices alone."""
    return {one["alone"] for one in parsed(_core.list_workloads()) if one["name"] == name}


def program(
    *command: str,
    native: bool = False,
    roi_start: str | None = None,
    roi_stop: str | None = None,
) -> Program:
    """A real program and its arguments, as a workload.

    Args:
        *command: the program, a path or a name to be looked up in ``PATH``, and its arguments.
        native: whether it runs alone before as well, to measure its time: it then runs twice.
        roi_start: the function, of the program or of a library that it loads, whose first call
            begins the region of interest.
        roi_stop: the function whose first call after that ends it.
    """
    return Program(command, native, roi_start=roi_start, roi_stop=roi_stop)


def workload(
    name: str, *, seed: int | None = None, **parameters: object
) -> Generated | Recorded | MemoryTrace:
    """A built-in workload, a recording as ``trace:FILE``, or requests as ``FORMAT:FILE``.

    ``filebench:FILE`` is a workload that a file in Filebench's language describes; its settings
    (``set $nfiles=…``) are parameters.

    Args:
        name: such as ``gups``, ``random``, ``trace:app.tst`` or ``dramsim3:app.trc``.
        seed: seed of a generator's random choices; 0 unless given.
        **parameters: what differs from a generator's defaults, and how the requests of a trace
            come; ``tierscope show workloads`` lists names, defaults and meanings.

    Raises:
        SpecError: where there is no such workload or parameter, or a value is impossible.
        ArgumentError: where an argument has no effect, or is of the wrong type.
    """
    return named(name, parameters, seed, allow_truncated=False)


def of(work: object) -> Workload:
    """The workload that a caller gives, by name or made already."""
    if isinstance(work, (Generated, Recorded, MemoryTrace, Program)):
        return work
    if isinstance(work, str):
        return workload(work)
    mend = 'give a name such as "gups", or what workload() or program() gives'
    if isinstance(work, os.PathLike):
        mend = f'a recording is "trace:{os.fspath(work)}"'
    raise ArgumentError("wrong-type", f"the workload is {_check.shown(work)}", mend)


def named(
    name: object, parameters: dict[str, Any], seed: int | None, *, allow_truncated: bool
) -> Generated | Recorded | MemoryTrace:
    """The workload of that name. What has no effect on it is refused."""
    name = _check.text(name, "a workload's name", 'write a name such as "gups", or "trace:app.tst"')
    kind, colon, rest = name.partition(":")
    if colon and kind == "trace" and rest:
        return _recorded(rest, parameters, seed, allow_truncated)
    formats = [one["name"] for one in parsed(_core.list_formats())]
    if colon and kind in formats and rest:
        return _memory_trace(kind, rest, parameters, seed, allow_truncated=allow_truncated)
    if name.endswith(".tst") or (not colon and Path(name).is_file()):
        raise RunError(
            "unknown-value", f"{name} is a file, not a workload's name", f"write trace:{name}"
        )
    generators = [one["name"] for one in parsed(_core.list_workloads())]
    if name not in generators and Path(f"{name}.tst").is_file():
        raise RunError(
            "unknown-value", f"there is no workload {name}", f"did you mean trace:{name}.tst?"
        )
    if colon and kind in generators and kind != "filebench":
        key, equals, value = rest.partition("=")
        example = f"{key}={value}" if key and equals and value else "NAME=VALUE"
        raise RunError(
            "unknown-value",
            f"{name} is no workload's name: parameters of {kind} are set beside it",
            f"write {kind}, and --set workload.{example}",
        )
    if colon and not (kind == "filebench" and rest):
        traces = ", ".join(f"{one}:FILE" for one in formats)
        raise RunError(
            "unknown-format",
            f"{name} names no recording or trace of requests",
            f"write trace:FILE for a .tst recording, filebench:FILE for a workload in Filebench's "
            f"language, or {traces} for a trace of requests",
        )
    if allow_truncated and (colon or name in generators):
        raise without_effect("allowing truncation", f"the generated workload {name}")
    work = Generated(name, dict(parameters), 0 if seed is None else seed)
    with core_errors():
        _core.check_workload(_check.written(work.to_dict(), f"the workload {name}"))
    return work


def in_closed_loop(work: Workload, outstanding: int) -> Workload:
    """Requests of which so many are under way, whatever their times.

    Raises:
        ArgumentError: where the workload is no requests for devices alone.
        RunError: where that was said already.
        SpecError: where so many cannot be under way.
    """
    if isinstance(work, (Program, Recorded)) or not for_devices(work):
        raise without_effect("a closed loop", "what is no requests for devices alone")
    if "outstanding" in work.parameters:
        raise RunError(
            "usage",
            "requests under way are said twice, by --closed-loop and by workload.outstanding",
            "leave one of them out",
        )
    closed = replace(work, parameters={**work.parameters, "outstanding": outstanding})
    with core_errors():
        _core.check_workload(_check.written(closed.to_dict(), "the workload"))
    return closed


def with_hints(work: Workload, file: str | os.PathLike[str]) -> Workload:
    """A workload beside which hints are replayed, as if its program asked for what it will need.

    Args:
        work: a built-in workload of threads, or a recording.
        file: one hint a line, ``ACCESSES ADDRESS BYTES [THREAD]``: after so many loads and stores
            of the thread (0 unless it is said; at least one), madvise(MADV_WILLNEED) of so many
            bytes (a number or a size) from that address of the program on; ``#`` begins a comment.

    Raises:
        ArgumentError: where the workload takes none, or the file is no path.
        RunError: where the file cannot be read, with the line.
    """
    _check.path(file, "a file of hints", 'write a path, such as "app.hints"')
    if isinstance(work, Program):
        mend = "record the program first (tierscope record), or let it call madvise itself"
        raise ArgumentError("no-effect", "hints mean nothing to a program that runs", mend)
    if isinstance(work, MemoryTrace):
        raise without_effect("a file of hints", "a trace of requests")
    hinted = replace(work, hints=file)
    with core_errors():
        _core.check_workload(_check.written(hinted.to_dict(), "the workload"))
    return hinted


def without_effect(what: str, on: str) -> ArgumentError:
    """The error for what a workload of another kind would take."""
    return ArgumentError("no-effect", f"{what} means nothing to {on}", "leave it out")


def _recorded(
    file: str, parameters: dict[str, Any], seed: int | None, allow_truncated: bool
) -> Recorded:
    if parameters:
        raise ArgumentError(
            "no-effect",
            f"a recording has no parameters, but {', '.join(parameters)} is given",
            "leave it out: what was recorded does not change",
        )
    if seed is not None:
        raise without_effect("a seed", f"the recording {file}: it is as it was recorded")
    return Recorded(file, allow_truncated)


def _memory_trace(
    kind: str,
    file: str,
    parameters: dict[str, Any],
    seed: int | None,
    *,
    allow_truncated: bool,
) -> MemoryTrace:
    if seed is not None:
        raise without_effect("a seed", f"the trace {file}: it is as it was written")
    if allow_truncated:
        raise without_effect("allowing truncation", f"the trace {file}")
    work = MemoryTrace(kind, file, dict(parameters))
    with core_errors():
        _core.check_workload(_check.written(work.to_dict(), f"the trace {file}"))
    return work
