"""What callers give, checked before anything is done with it."""

from __future__ import annotations

import json
import os
import reprlib
from collections.abc import Iterable, Mapping, Sequence

from tierscope import _core
from tierscope.errors import ArgumentError, RunError

_MOST_SEED = (1 << 64) - 1


def shown(value: object) -> str:
    """A value and its type, in short, as messages show them."""
    return f"{reprlib.repr(value)} ({type(value).__name__})"


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


def path(value: object, what: str, mend: str) -> str:
    """A text or a path, as a text."""
    if isinstance(value, (str, os.PathLike)):
        found = os.fspath(value)
        if isinstance(found, str):
            return found
    raise ArgumentError("wrong-type", f"{what} is a text or a path, not {shown(value)}", mend)


def seed(value: object) -> int:
    """A seed."""
    mend = "write a whole number from 0 to 18446744073709551615"
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentError("wrong-type", f"the seed is {shown(value)}", mend)
    if not 0 <= value <= _MOST_SEED:
        raise RunError("impossible-value", f"the seed is {value}", mend)
    return value


def size(value: object, what: str) -> int | None:
    """A size in bytes: a number of them, or a text with its unit; nothing stays nothing."""
    mend = 'write a number of bytes, or a text such as "2GiB"'
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value < 1 << 64:
            raise RunError("impossible-value", f"{what} is {value}", mend)
        return value
    if not isinstance(value, str):
        raise ArgumentError("wrong-type", f"{what} is {shown(value)}", mend)
    try:
        return _core.size_bytes(value)
    except _core.RunError as error:
        code, told = error.args
        reason, mend = json.loads(told)
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
        return json.dumps(value, allow_nan=False)
    except TypeError as error:
        raise ArgumentError("wrong-type", f"{what}: {error}", mend) from None
    except ValueError:
        raise ArgumentError("wrong-type", f"{what} holds a number that is none", mend) from None
