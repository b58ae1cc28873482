"""The directory of a sweep: its plan, a file for each point that has run, and the table.

``sweep.json`` is the plan, ``machines/DIGEST.toml`` are the machines, resolved,
``points/KEY.json`` is what each point gave, and ``sweep.parquet`` the table that is made of them.
Sweeps may keep their points together in another directory, which the plan names: what one has run
is there for all.
Each file comes to be whole, by renaming, so that a sweep can be killed at any time.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tierscope import _core
from tierscope._files import read_text, write_bytes, write_text
from tierscope.errors import TierscopeError
from tierscope.sweeps.execute import Record
from tierscope.sweeps.points import Point, build, machine_digest
from tierscope.sweeps.study import Study

SCHEMA = 1
PLAN = "sweep.json"
TABLE = "sweep.parquet"
STUDY = "study.toml"
_POINTS = "points"
_MACHINES = "machines"
_RECORDINGS = "recordings"
_LOCK = ".lock"
_HALF_WRITTEN = re.compile(r"\..+-[a-z0-9_]{8}")
"""Names of files that are not yet whole."""
_MEND = "name a directory that `tierscope sweep` wrote"


class Store:
    """A sweep's directory.

    Args:
        directory: the directory.
        points: the directory of its points, where that is another sweep's too; that of the plan
            unless given.
    """

    def __init__(self, directory: Path, points: Path | None = None) -> None:
        self.directory = directory
        self._points = directory / _POINTS if points is None else points

    def check(self) -> None:
        """Refuses a directory that holds anything but an earlier sweep.

        Raises:
            TierscopeError: where it does.
        """
        target = self.directory
        if target.exists() and not target.is_dir():
            mend = "name a directory for the sweep"
            raise TierscopeError("not-a-directory", f"{target} is a file", mend)
        if not target.exists() or (target / PLAN).is_file():
            return
        # One that was killed before its plan was whole has all that locks it, and then the rest.
        held = sorted(path.name for path in target.iterdir())
        more = {name for name in held if name in {STUDY, _RECORDINGS} or _half_written(name)}
        begun = {_LOCK, _POINTS, _MACHINES}
        if set(held) - begun - more or (more and not {_LOCK, _MACHINES} <= set(held)):
            raise TierscopeError(
                "foreign-directory",
                f"{target} is not a sweep of tierscope (it holds {held[0]}) and is left alone",
                "name a new directory, or an earlier sweep to go on with",
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Has the directory for this process alone; a process that is killed lets it go.

        Raises:
            TierscopeError: where another sweep has it, or it cannot be made.
        """
        with lock(self.directory, self._points, self.directory / _MACHINES):
            self._clear()
            yield

    def _clear(self) -> None:
        """Removes files that a killed sweep has left half written."""
        for folder in (self.directory, self._points, self.directory / _MACHINES):
            for path in folder.glob(".*"):
                if _HALF_WRITTEN.fullmatch(path.name) and path.is_file():
                    path.unlink(missing_ok=True)

    def plan(self, study: Study, points: Sequence[Point]) -> None:
        """Writes what will run, and the machines that it will run on."""
        for point in points:
            path = self._machine(machine_digest(point.machine), point.machine.name)
            if not path.is_file():
                write_text(path, point.machine.to_toml())
        if study.text:
            write_text(self.directory / STUDY, study.text)
        said = {
            "schema": SCHEMA,
            "version": _core.version(),
            "build": build(),
            "name": study.name,
            "description": study.description,
            "design": study.design.kind,
            "parameters": [
                {"name": one.name, "paths": list(one.paths)} for one in study.parameters
            ],
            "region": study.region,
            **self._where(),
            "points": [{"key": point.key, **point.row()} for point in points],
        }
        text = json.dumps(said, ensure_ascii=False, indent=1) + "\n"
        path = self.directory / PLAN
        if not path.is_file() or path.read_bytes() != text.encode():
            write_text(path, text)

    def _where(self) -> dict[str, str]:
        """Where its points are, for the plan, unless they are its own."""
        if self._points == self.directory / _POINTS:
            return {}
        return {"points_directory": os.path.relpath(self._points, self.directory)}

    def read_plan(self) -> dict[str, Any]:
        """What was to run. Its points are from then on where it says.

        Raises:
            TierscopeError: where there is no sweep, or one that this version cannot read.
        """
        path = self.directory / PLAN
        try:
            said = json.loads(read_text(path, "a sweep", _MEND))
        except (ValueError, RecursionError) as error:
            raise TierscopeError("unreadable", f"{path} is no sweep: {error}", _MEND) from None
        if not isinstance(said, dict) or said.get("schema") != SCHEMA:
            raise TierscopeError(
                "other-schema",
                f"{path} is not of schema {SCHEMA}, which this version reads",
                "read it with the version of tierscope that wrote it",
            )
        if not _is_plan(said):
            raise TierscopeError("unreadable", f"{path} is damaged", "run the sweep again")
        if (where := said.get("points_directory")) is not None:
            self._points = self.directory / where
        return said

    def machine_text(self, digest: str, name: str) -> str | None:
        """The description of a machine, or nothing where it was lost."""
        path = self._machine(digest, name)
        return read_text(path, "a description", _MEND) if path.is_file() else None

    def _machine(self, digest: str, name: str) -> Path:
        plain = "".join(c if c.isalnum() or c in "._-" else "-" for c in name)
        return self.directory / _MACHINES / f"{plain}-{digest}.toml"

    def keep(self, record: Record) -> None:
        """Keeps what a point gave."""
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"
        write_text(self._point(str(record["key"])), text)

    def record(self, key: str) -> Record | None:
        """What a point gave; nothing where it has not run, or its file was damaged."""
        path = self._point(key)
        with contextlib.suppress(ValueError, RecursionError, TierscopeError):
            if not path.is_file():
                return None
            found = json.loads(read_text(path, "a point", _MEND))
            if isinstance(found, dict) and found.get("key") == key and _is_record(found):
                return found
        return None

    def _point(self, key: str) -> Path:
        return self._points / f"{key}.json"

    def write_table(self, packed: bytes) -> None:
        """Writes the table."""
        write_bytes(self.directory / TABLE, packed)


def _half_written(name: str) -> bool:
    """Whether a file was to become one of a sweep's own."""
    ours = (f".{STUDY}-", f".{PLAN}-")
    return name.startswith(ours) and _HALF_WRITTEN.fullmatch(name) is not None


@contextmanager
def lock(directory: Path, *folders: Path) -> Iterator[None]:
    """Has a directory for this process alone, and makes it and folders of it.

    Raises:
        TierscopeError: where another sweep has it, or it cannot be made.
    """
    with _opened(directory, folders) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise TierscopeError(
                "in-use",
                f"another sweep is under way in {directory}",
                "wait for it, or name another directory",
            ) from None
        yield


def was_locked(directory: Path) -> bool:
    """Whether :func:`lock` has ever had a directory."""
    return (directory / _LOCK).is_file()


def _opened(directory: Path, folders: Sequence[Path]) -> IO[str]:
    try:
        for folder in (directory, *folders):
            folder.mkdir(parents=True, exist_ok=True)
        return (directory / _LOCK).open("w")
    except OSError as error:
        why = f"{directory} cannot be written: {error.strerror}"
        raise TierscopeError("unwritable", why) from None


def is_sweep(directory: str | os.PathLike[str]) -> bool:
    """Whether a directory is that of a sweep."""
    return (Path(directory) / PLAN).is_file()


def _is_plan(said: Mapping[str, Any]) -> bool:
    points = said.get("points")
    keys = {"key", "system", "workload", "repetition", "seed", "machine_digest", "choice"}
    return (
        isinstance(points, list)
        and all(isinstance(one, dict) and keys <= set(one) for one in points)
        and isinstance(said.get("parameters"), list)
        and all(isinstance(said.get(key), str) for key in ("name", "version", "build"))
        and isinstance(said.get("points_directory", ""), str)
    )


def _is_record(found: Mapping[str, Any]) -> bool:
    if found.get("schema") != SCHEMA:
        return False
    if found.get("status") == "failed":
        error = found.get("error")
        return isinstance(error, dict) and all(
            isinstance(error.get(key), str) for key in ("code", "message")
        )
    if found.get("status") not in ("complete", "sampled", "partial"):
        return False
    if "counts" in found:
        return _is_counts(found["counts"])
    if not isinstance(found.get("intervals"), dict) or found.get("error") is not None:
        return False
    try:
        read = json.loads(_core.read_result(json.dumps(found.get("result"))))
    except (_core.RunError, ValueError):
        return False
    return bool(read["systems"])


def _is_counts(found: object) -> bool:
    """Whether these are figures without times."""
    least = {"organization", "accesses", "lookups", "hits", "misses", "miss_rate"}
    return isinstance(found, dict) and least <= set(found)
