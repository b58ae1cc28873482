"""What callers give, checked before anything is done with it."""

from __future__ import annotations

import json
import math
import os
import reprlib
from collections.abc import Iterable, Mapping, Sequence

from tierscope import _core
from tierscope.errors import ArgumentError, RunError

_MOST_SEED = (1 << 64) - 1


def shown(value: object) -> str:
    """A value and its type, in short and in one line, as messages show them."""
    return f"{' '.join(reprlib.repr(value).split())} ({type(value).__name__})"


def meant(word: str, names: Iterable[str], otherwise: str) -> str:
    """What to do about an unknown name: the one that was most likely meant, or ``otherwise``."""
    near = _core.nearest(word, list(names))
    return otherwise if near is None else f"did you mean `{near}`?"


def keys(what: str, given: Sequence[object], said: Mapping[str, object], known: list[str]) -> None:
    """Refuses values without a name, and names that ``what`` does not have."""
    if given:
        raise ArgumentError(
            "usage",
            f"{what} takes its values by name, and {shown(given[0])} has none",
            f"write {what}({known[0]}=...)",
        )
    for name in said:
        if name not in known:
            raise ArgumentError(
                "unknown-key",
                f"{what} has no key `{name}`",
                meant(name, known, f"its keys are {', '.join(known)}"),
            )


def text(value: object, what: str, mend: str) -> str:
    """A text that can be passed on: as UTF-8, and without a NUL."""
    if not isinstance(value, str):
        raise ArgumentError("wrong-type", f"{what} is {shown(value)}", mend)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ArgumentError("wrong-type", f"{what} is {value!a}, which is no UTF-8", mend) from None
    if "\0" in value:
        raise ArgumentError("wrong-type", f"{what} is {value!a}, which has a NUL in it", mend)
    return value


def flag(value: object, what: str) -> bool:
    """A truth value, and nothing that only counts as one."""
    if not isinstance(value, bool):
        mend = "write true or false (in Python, True or False)"
        raise ArgumentError("wrong-type", f"{what} is {shown(value)}", mend)
    return value


def mapping(value: object, what: str) -> Mapping[str, object]:
    """Values by name."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        mend = 'write a dictionary with names as keys, such as {"updates": 1000}'
        raise ArgumentError("wrong-type", f"{what} are {shown(value)}", mend)
    return value


def watcher(value: object, takes: str) -> None:
    """What hears of the progress: a function, or nothing."""
    if value is not None and not callable(value):
        mend = f"give a function that takes {takes}"
        raise ArgumentError("wrong-type", f"the watcher is {shown(value)}", mend)


def path(value: object, what: str, mend: str, *, ours: bool = False) -> str:
    """A text or a path, as a text: as UTF-8, unless it is ``ours``, which Python alone opens."""
    found = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(found, str):
        raise ArgumentError("wrong-type", f"{what} is a text or a path, not {shown(value)}", mend)
    if not ours:
        return text(found, what, mend)
    try:
        os.fsencode(found)
    except UnicodeEncodeError:
        raise ArgumentError(
            "wrong-type", f"{what} is {found!a}, which names no file", mend
        ) from None
    if "\0" in found:
        raise ArgumentError("wrong-type", f"{what} is {found!a}, which has a NUL in it", mend)
    return found


def seed(value: object) -> int:
    """A seed."""
    mend = "write a whole number from 0 to 18446744073709551615"
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentError("wrong-type", f"the seed is {shown(value)}", mend)
    if not 0 <= value <= _MOST_SEED:
        raise RunError("impossible-value", f"the seed is {value}", mend)
    return value


def size(value: object, what: str, least: str | None = None) -> int | None:
    """A size in bytes: a number of them, or a text with its unit; nothing stays nothing.

    ``least`` is what makes sense at least: that a number without its unit is too small is said too.
    """
    mend = 'write a number of bytes, or a text such as "2GiB"'
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value < 1 << 64:
            raise RunError("impossible-value", f"{what} is {value}", mend)
        return value
    value = text(value, what, mend)
    try:
        return _core.size_bytes(value)
    except _core.RunError as error:
        code, told = error.args
        reason, mend = json.loads(told)
        if least is not None and value.strip().isdigit():
            mend = f"write {least} or more, with the unit"
        raise RunError(code, f"{what} is `{value}`: {reason}", mend) from None


def time_limit(time_limit_s: object) -> None:
    """When a run ends at the latest, in wall-clock time."""
    if time_limit_s is None:
        return
    mend = "write a number of seconds above 0"
    if not isinstance(time_limit_s, (int, float)) or isinstance(time_limit_s, bool):
        raise ArgumentError("wrong-type", f"the time limit is {shown(time_limit_s)}", mend)
    if not time_limit_s > 0:
        raise RunError("impossible-value", f"the time limit is {time_limit_s:g} s", mend)


def command(given: object) -> tuple[str, ...]:
    """A program and its arguments."""
    mend = 'write each part by itself: ["ls", "-l"]'
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise ArgumentError("wrong-type", f"the command is {shown(given)}, not a list", mend)
    parts = tuple(path(part, "each part of a command", mend) for part in given)
    if not parts:
        raise RunError("no-program", "there is no program to run", "name one and its arguments")
    if not parts[0]:
        raise RunError(
            "no-program",
            "the program's name is empty",
            "give the path of a program, or a name in PATH",
        )
    return parts


def written(value: object, what: str) -> str:
    """A value as JSON, as the simulator takes it."""
    mend = "write texts, finite numbers, truth values, lists and parts such as DramCache(...)"
    try:
        found = json.dumps(value, allow_nan=False, ensure_ascii=False)
        found.encode()
        return found
    except UnicodeEncodeError:
        raise ArgumentError("wrong-type", f"{what} holds a text that is no UTF-8", mend) from None
    except TypeError as error:
        raise ArgumentError("wrong-type", f"{what}: {error}", mend) from None
    except ValueError as error:
        place = _not_finite(value) if "Out of range" in str(error) else None
        where = f": {place}" if place else ""
        raise ArgumentError(
            "wrong-type", f"{what} holds a number that is none{where}", mend
        ) from None


def _not_finite(value: object) -> str | None:
    """Where the first number lies that is none, by keys and places; None where there is none."""
    if isinstance(value, float):
        return None if math.isfinite(value) else ""
    parts: Iterable[tuple[object, object]] = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, (list, tuple)):
        parts = enumerate(value)
    for key, part in parts:
        if (inner := _not_finite(part)) is not None:
            return f"{key}.{inner}" if inner else str(key)
    return None
