"""Where in a TOML file a value stands, for messages: Python's reader of TOML does not say."""

from __future__ import annotations

import json
import re

_PART = r"""(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=\s*")


class Places:
    """Line and column of each key of a TOML text.

    Args:
        name: the file's name, as messages show it; empty where there is none.
        text: the file's text.
    """

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._lines = text.splitlines()
        self._found: dict[tuple[str, ...], tuple[int, int]] = {}
        table: tuple[str, ...] = ()
        for number, line in enumerate(self._lines, 1):
            if header := _HEADER.match(line):
                table = _parts(header[2])
                self._found.setdefault(table, (number, header.start(2) + 1))
            elif key := _KEY.match(line):
                self._found.setdefault(table + _parts(key[1]), (number, key.end() + 1))

    def of(self, *path: str, value: object = None) -> str:
        """The place of a value such as ``study.toml:12:8``; of what is nearest above, if need be.

        Args:
            *path: the keys that lead to it.
            value: one value of a list that stands there.
        """
        whole = self._flat(path)
        for length in range(len(whole), 0, -1):
            if (at := self._found.get(whole[:length])) is not None:
                return self._told(self._of_value(at, value) if value is not None else at)
        return self._name

    def _flat(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """The path as it was written: a dotted key may be one quoted part or several."""
        if path in self._found:
            return path
        split = tuple(part for key in path for part in key.split("."))
        return split if split in self._found else path

    def _of_value(self, at: tuple[int, int], value: object) -> tuple[int, int]:
        """Where the value itself stands, from the beginning of its list on."""
        for number in range(at[0], min(at[0] + 64, len(self._lines) + 1)):
            begin = at[1] - 1 if number == at[0] else 0
            line = self._lines[number - 1]
            if number > at[0] and (_KEY.match(line) or _HEADER.match(line)):
                break
            column = line.find(_written(value), begin)
            if column >= 0:
                return number, column + 1
        return at

    def _told(self, at: tuple[int, int]) -> str:
        return f"{self._name}:{at[0]}:{at[1]}"


def _written(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, dotted))
