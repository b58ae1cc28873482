"""Programs as workloads of sweeps: each is recorded once, and every point replays the recording."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tierscope import _core
from tierscope import format as fmt
from tierscope._call import core_errors
from tierscope._files import write_text
from tierscope._result import INTERRUPTED
from tierscope._run import record
from tierscope._workload import Program, Recorded
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
    functions that bound its region and the version of tierscope. Which files the program read, and
    did not write, stands beside it: see :func:`stale`.

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

    A recording that is damaged, or whose program has since other files to read, is made anew, and
    standard error tells why.

    Raises:
        TierscopeError: where a program cannot be recorded, fails, or is not recorded wholly.
    """
    found: dict[str, Path] = {}
    for program in programs(study):
        file = file_of(program, directory)
        if file.is_file() and (why := stale(file)) is not None:
            told = fmt.visible(f"{label(program)} is recorded again: {why}")
            print(told, file=sys.stderr)
            file.unlink()
        if not file.is_file():
            _record(program, file)
        found[label(program)] = file
    return found


def kept(study: Study, directory: Path) -> Mapping[str, Path]:
    """The recordings that are there already and would not be made anew, by their labels.

    Raises:
        TierscopeError: where there is no such program.
    """
    named = {label(one): file_of(one, directory) for one in programs(study)}
    return {name: file for name, file in named.items() if file.is_file() and stale(file) is None}


def at_hand(study: Study, directory: Path) -> frozenset[str]:
    """The labels of programs that need not be recorded: they may run where nothing records."""
    found = set()
    for one in programs(study):
        with contextlib.suppress(TierscopeError):
            file = file_of(one, directory)
            found |= {label(one)} if file.is_file() and stale(file) is None else set()
    return frozenset(found)


def _inputs(file: Path) -> Path:
    """What says which files the program of a recording read."""
    return file.with_suffix(".inputs.json")


def stale(file: Path) -> str | None:
    """Why a recording that is there cannot be replayed as it is; nothing where it can."""
    try:
        with core_errors():
            _core.check_workload(json.dumps(Recorded(file).to_dict()))
    except TierscopeError as error:
        return f"its recording of this sweep is damaged ({error})"
    try:
        said = json.loads(_inputs(file).read_text(encoding="utf-8"))
        known = {str(path): _Input(**one) for path, one in said["read"].items()}
        itself = _Input(**said["recording"])
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return "which files it read is not known any more"
    if not itself.is_still(file):
        return "its recording of this sweep is damaged (it is not what was recorded)"
    changed = sorted(path for path, was in known.items() if not was.is_still(Path(path)))
    if not changed:
        return None
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    what = "has changed" if Path(changed[0]).exists() else "is gone"
    return f"{changed[0]}{more}, which it read, {what}"


@dataclass(frozen=True, slots=True)
class _Input:
    """A file as a program read it, or the recording as it was made.

    Attributes:
        size_bytes: its size.
        modified_ns: when it was last written.
        sha256: a digest of its content.
    """

    size_bytes: int
    modified_ns: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> _Input:
        """A file as it is now."""
        now = path.stat()
        return cls(now.st_size, now.st_mtime_ns, _content(path))

    def is_still(self, path: Path) -> bool:
        """Whether the file has the same content."""
        try:
            now = path.stat()
            if (now.st_size, now.st_mtime_ns) == (self.size_bytes, self.modified_ns):
                return True
            return now.st_size == self.size_bytes and _content(path) == self.sha256
        except OSError:
            return False


def _content(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _files_read(recording: Path, begun_ns: int) -> dict[str, _Input]:
    """The regular files that a recorded program used, and did not write."""
    with core_errors():
        names = _core.recorded_files(str(recording))
    found: dict[str, _Input] = {}
    for name in sorted(set(names)):
        path = Path(name)
        with contextlib.suppress(OSError, ValueError):
            now = path.stat()
            of_system = path.is_absolute() and path.parts[1:2] in (("proc",), ("sys",), ("dev",))
            if path.is_file() and not of_system and now.st_mtime_ns < begun_ns:
                found[str(path.absolute())] = _Input.of(path)
    return found


def _record(program: Program, file: Path) -> None:
    for place, is_ours in ((file.parent, Path.is_dir), (file, Path.is_file)):
        if place.exists() and not is_ours(place):
            told_of = f"{place} stands where a recording is to be kept"
            raise TierscopeError("unwritable", told_of, "move it away, or name another directory")
    file.parent.mkdir(parents=True, exist_ok=True)
    # What a sweep that was killed has left: it has the directory for itself.
    _remove(file)
    told = label(program)
    begun_ns = time.time_ns()
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
    read = {path: asdict(one) for path, one in _files_read(beside, begun_ns).items()}
    said = {"recording": asdict(_Input.of(beside)), "read": read}
    write_text(_inputs(file), json.dumps(said, ensure_ascii=False, indent=1) + "\n")
    beside.replace(file)


def _remove(file: Path) -> None:
    """Removes what is left of a recording that was not completed, and what was beside it."""
    for left in (_inputs(file), *file.parent.glob(f"{file.name}.*")):
        left.unlink(missing_ok=True)
