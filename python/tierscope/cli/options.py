"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Iterable

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


def check_json(to: str | None) -> None:
    """Refuses ``--json=`` without a file."""
    if to == "":
        raise TierscopeError("usage", "--json= names no file", "write --json=FILE, or --json")
