"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tierscope.errors import TierscopeError


def assignments(given: Iterable[str]) -> list[tuple[str, str]]:
    """Path and value of each ``--set PATH=VALUE``."""
    found = []
    for text in given:
        path, equals, value = text.partition("=")
        mend = "write --set hybrid.cache.ways=64"
        if not path.strip():
            raise TierscopeError("usage", f"--set {text} names no value to change", mend)
        if not equals or not value.strip():
            raise TierscopeError("usage", f"--set {text} gives no value", mend)
        found.append((path, value))
    return found


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
    begin = _begin(Path(to)).lstrip()
    if begin and not begin.startswith(b"{"):
        mend = "name a new file, or an earlier JSON object to replace"
        raise TierscopeError("unwritable", f"{to} is no JSON object, and is left alone", mend)
