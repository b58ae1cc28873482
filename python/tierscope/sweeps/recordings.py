"""Programs as workloads of sweeps: each is recorded once, and every point replays the recording."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from tierscope import _core
from tierscope._result import INTERRUPTED
from tierscope._run import record
from tierscope._workload import Program
from tierscope.errors import TierscopeError
from tierscope.sweeps.study import Study

FOLDER = "recordings"
"""Where a sweep's directory has them."""


def label(program: Program) -> str:
    """A program as tables name it: its command, as a shell takes it."""
    return shlex.join(program.command)


def programs(study: Study) -> list[Program]:
    """The programs of a study."""
    return [work for work in study.works if isinstance(work, Program)]


def file_of(program: Program, directory: Path) -> Path:
    """The recording of a program in a sweep's directory.

    It is named by a digest of the command, the program's file, the folder that it runs in, the
    functions
    that bound its region and the version of tierscope: not of what the program reads.

    Raises:
        TierscopeError: where there is no such program.
    """
    said = {
        "command": list(program.command),
        "file": _digest(program),
        "folder": str(Path.cwd()),
        "roi": [program.roi_start, program.roi_stop],
        "version": _core.version(),
    }
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
    return directory / FOLDER / f"{digest[:32]}.tst"


def _digest(program: Program) -> str:
    name = program.command[0]
    found = shutil.which(name)
    mend = "name a program that can be run, by its path or as in PATH"
    if found is None:
        raise TierscopeError("no-program", f"there is no program {name}", mend)
    try:
        with Path(found).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        why = f"{found} cannot be read: {error.strerror}"
        raise TierscopeError("no-program", why, mend) from None


def recorded(study: Study, directory: Path) -> dict[str, Path]:
    """The recordings of a study's programs, by their labels; what is not there yet is recorded.

    Raises:
        TierscopeError: where a program cannot be recorded, fails, or is not recorded wholly.
    """
    found: dict[str, Path] = {}
    for program in programs(study):
        file = file_of(program, directory)
        if not file.is_file():
            _record(program, file)
        found[label(program)] = file
    return found


def kept(study: Study, directory: Path) -> Mapping[str, Path]:
    """The recordings that are there already, by their labels."""
    named = {label(one): file_of(one, directory) for one in programs(study)}
    return {name: file for name, file in named.items() if file.is_file()}


def _record(program: Program, file: Path) -> None:
    for place, is_ours in ((file.parent, Path.is_dir), (file, Path.is_file)):
        if place.exists() and not is_ours(place):
            told_of = f"{place} stands where a recording is to be kept"
            raise TierscopeError("unwritable", told_of, "move it away, or name another directory")
    file.parent.mkdir(parents=True, exist_ok=True)
    # What a sweep that was killed has left: it has the directory for itself.
    _remove(file)
    told = label(program)
    beside = file.with_name(f"{file.name}.new")
    done = record(
        program.command,
        beside,
        output_to_stderr=True,
        roi_start=program.roi_start,
        roi_stop=program.roi_stop,
    )
    if INTERRUPTED in done.reasons:
        _remove(file)
        raise KeyboardInterrupt
    mend = "mend that, and sweep again; or record it yourself, and name trace:FILE as the workload"
    why = None
    if done.partial is not None or done.reasons:
        why = "; ".join(done.reasons) or "the recording could not be completed"
    elif done.exit_status is None:
        why = "the recording was ended"
    elif done.exit_status != 0:
        why = f"it ended with exit status {done.exit_status}"
    if why is not None:
        _remove(file)
        raise TierscopeError("not-recorded", f"{told} was not recorded wholly: {why}", mend)
    beside.replace(file)


def _remove(file: Path) -> None:
    """Removes what is left of a recording that was not completed."""
    for left in file.parent.glob(f"{file.name}.*"):
        left.unlink(missing_ok=True)
