"""Options that several commands have."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tierscope.errors import TierscopeError

if TYPE_CHECKING:
    from cyclopts import Token

_MOST = (1 << 64) - 1
_BEFORE_ANOTHER = re.compile(r",(?=\s*[A-Za-z_][\w.\[\]-]*\s*=)")
"""The comma in a ``--set`` behind which another assignment begins."""


def whole(_type: object, tokens: Sequence[Token]) -> int:
    """A whole number, as all counts and seeds are: nothing is rounded.

    Raises:
        ValueError: where it is none, or one that the simulator's counters cannot hold.
    """
    text = tokens[0].value
    if text.isascii() and text.isdigit() and int(text) <= _MOST:
        return int(text)
    raise ValueError(f"it must be a whole number from 0 to {_MOST}, not {text}")


def workload_value(text: str) -> object:
    """A number or truth value as such, all else as a text: a number too that no counter holds."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) <= _MOST else text
    return value if isinstance(value, (bool, float, str)) else text


def assignments(given: Iterable[str]) -> list[tuple[str, str]]:
    """Path and value of each ``--set PATH=VALUE``."""
    found = []
    for text in given:
        path, equals, value = text.partition("=")
        mend = "write --set hybrid.cache.ways=64"
        if not path.strip():
            raise TierscopeError("usage", f"--set {text} names no value to change", mend)
        if not equals or not value.strip():
            raise TierscopeError(
                "usage", f"--set {text} gives no value", f"write --set {path.strip()}=VALUE"
            )
        several = _BEFORE_ANOTHER.split(text)
        if len(several) > 1 and value.lstrip()[0] not in "{[\"'":
            each = " ".join(f"--set {one.strip()}" for one in several)
            raise TierscopeError(
                "usage", f"--set {text} sets several values at once", f"give each its own: {each}"
            )
        found.append((path, value))
    return found


def divided(given: Iterable[str]) -> tuple[list[tuple[str, str]], dict[str, object]]:
    """What is set in systems, and what in the workload."""
    of_systems: list[tuple[str, str]] = []
    of_workload: dict[str, object] = {}
    for path, value in assignments(given):
        if path.startswith("workload."):
            of_workload[path.removeprefix("workload.")] = workload_value(value)
        else:
            of_systems.append((path, value))
    return of_systems, of_workload


def _begin(path: Path) -> bytes:
    """The first bytes of a regular file; none where they cannot be read: then writing says why."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(64)
    except OSError:
        return b""


def check_json(to: str | None) -> None:
    """Refuses ``--json=`` without a file, and in place of a file that is no JSON object."""
    if to == "":
        raise TierscopeError("usage", "--json= names no file", "write --json=FILE, or --json")
    if to is None or to == "-":
        return
    path = Path(to)
    if path.is_dir():
        raise TierscopeError("unwritable", f"{to} is a directory", "name a file in it")
    # A file is replaced by one that is written beside it; a device or a pipe is written to.
    written = path if path.exists() and not path.is_file() else path.resolve().parent
    if not os.access(written, os.W_OK):
        mend = "name a file in a directory that is there, and that you may write to"
        raise TierscopeError("unwritable", f"{to} cannot be written", mend)
    begin = _begin(path).lstrip()
    if begin and not begin.startswith(b"{"):
        mend = "name a new file, or an earlier JSON object to replace"
        raise TierscopeError("unwritable", f"{to} is no JSON object, and is left alone", mend)
