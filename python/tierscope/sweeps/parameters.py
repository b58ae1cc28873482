"""What of a study varies, as it is written, made values to take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tierscope import _check, _core
from tierscope._shape import SystemResult
from tierscope.sweeps.design import (
    KINDS,
    MOST_POINTS,
    RANDOM_KINDS,
    SCALES,
    Kind,
    Parameter,
    Range,
    Value,
    Values,
)
from tierscope.sweeps.mistakes import Mistakes

DESIGN_KEYS = ("kind", "points", "seed")
PARAMETER_KEYS = ("values", "from", "to", "steps", "scale", "multiple_of", "paths")
RESERVED = (
    "point",
    "system",
    "organization",
    "workload",
    "repetition",
    "seed",
    "status",
    "error",
    "version",
    "build",
    "machine",
    "machine_digest",
)
"""Columns of a sweep's table that are no parameters."""
_MOST = 1 << 64
"""Far beyond what any parameter counts."""

_MEND_VALUES = 'write a list of values, or a range: { from = "64MiB", to = "1GiB", steps = 5 }'


def read_design(given: object, mistakes: Mistakes) -> dict[str, Any]:
    """Kind, points and seed of a design."""
    if not isinstance(given, Mapping):
        mend = 'write [design] and below it kind = "grid"'
        mistakes.problem("wrong-type", ["design"], "that is no table", mend, given)
        return {}
    for key in given:
        if key not in DESIGN_KEYS:
            mend = _check.meant(key, DESIGN_KEYS, f"its keys are {', '.join(DESIGN_KEYS)}")
            mistakes.problem("unknown-key", ["design", key], f"a design has no key `{key}`", mend)
    kind = given.get("kind", "grid")
    if kind not in KINDS:
        mend = _check.meant(str(kind), KINDS, f"write one of {', '.join(KINDS)}")
        mistakes.problem("unknown-value", ["design", "kind"], "there is no such design", mend, kind)
        return {}
    found: dict[str, Any] = {"kind": kind, "seed": given.get("seed", 0)}
    _check_whole(found["seed"], ["design", "seed"], 0, (1 << 64) - 1, mistakes)
    if kind in RANDOM_KINDS:
        found["points"] = given.get("points")
        if found["points"] is None:
            reason = f"a {kind} design does not say how many points it has"
            mistakes.problem("missing", ["design", "points"], reason, "write points = 50")
        else:
            _check_whole(found["points"], ["design", "points"], 1, MOST_POINTS, mistakes)
    else:
        for key in {"points", "seed"} & set(given):
            mend = 'leave it out, or write kind = "random" or "latin-hypercube"'
            reason = f"a {kind} has no {key}: its values give all of it"
            mistakes.problem("no-effect", ["design", key], reason, mend)
    return found


def _check_whole(value: object, path: list[str], least: int, most: int, mistakes: Mistakes) -> None:
    mend = f"write a whole number from {least} to {most}"
    if not isinstance(value, int) or isinstance(value, bool):
        mistakes.problem("wrong-type", path, "that is no whole number", mend, value)
    elif not least <= value <= most:
        mistakes.problem("impossible-value", path, "it is out of range", mend, value)


def read_parameters(given: object, kind: Kind, mistakes: Mistakes) -> list[Parameter]:
    """Every parameter of a study. Tables within tables are paths with dots."""
    if not isinstance(given, Mapping):
        mend = 'write [parameters] and below it "hybrid.cache.ways" = [1, 4, 16]'
        mistakes.problem("wrong-type", ["parameters"], "that is no table", mend, given)
        return []
    found: list[Parameter] = []
    for name, said in _flat("", given):
        values = _values(name, said, kind, mistakes)
        paths = _paths(name, said, mistakes)
        if values is not None:
            found.append(Parameter(name, paths, values))
        if not name.isprintable():
            reason = "a name has no line breaks or other characters that are not printed"
            mend = "write it in one line; `paths` say what it sets"
            mistakes.problem("impossible-value", ["parameters", name], reason, mend)
        if name in RESERVED or name in SystemResult.__annotations__:
            reason = f"`{name}` is a column of the table already"
            mend = f'give it a name of its own: [parameters.other] with paths = ["{name}"]'
            mistakes.problem("contradiction", ["parameters", name], reason, mend)
    _check_twice(found, mistakes)
    if kind == "list":
        _check_lengths(found, mistakes)
    return found


def _flat(above: str, table: Mapping[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in table.items():
        path = f"{above}.{key}" if above else key
        if isinstance(value, Mapping) and value and not set(value) & set(PARAMETER_KEYS):
            found += _flat(path, value)
        else:
            found.append((path, value))
    return found


def _paths(name: str, said: object, mistakes: Mistakes) -> tuple[str, ...]:
    """What a parameter sets: its own name unless it says otherwise."""
    if not isinstance(said, Mapping) or "paths" not in said:
        return (name,)
    paths = said["paths"]
    good = isinstance(paths, Sequence) and not isinstance(paths, str) and len(paths) > 0
    if not good or not all(isinstance(path, str) for path in paths):
        mend = 'write paths = ["hybrid.cache.capacity", "storage.dram_capacity"]'
        where = ["parameters", name, "paths"]
        mistakes.problem("wrong-type", where, "that is no list of paths", mend, paths)
        return ()
    return tuple(paths)


def _values(name: str, said: object, kind: Kind, mistakes: Mistakes) -> Values | Range | None:
    where = ["parameters", name]
    if isinstance(said, Mapping):
        for key in said:
            if key not in PARAMETER_KEYS:
                mend = _check.meant(key, PARAMETER_KEYS, f"its keys: {', '.join(PARAMETER_KEYS)}")
                reason = f"a parameter has no key `{key}`"
                mistakes.problem("unknown-key", [*where, key], reason, mend)
        if "values" in said:
            for key in ("from", "to", "steps", "scale", "multiple_of"):
                if key in said:
                    reason = f"values are listed, and `{key}` is of a range"
                    mistakes.problem("contradiction", [*where, key], reason, "leave one out")
            return _listed([*where, "values"], said["values"], mistakes)
        return _range(where, said, kind, mistakes)
    return _listed(where, said, mistakes)


def _listed(where: list[str], given: object, mistakes: Mistakes) -> Values | None:
    if not isinstance(given, Sequence) or isinstance(given, str | bytes) or not given:
        reason = "there is no value in it" if given == [] else "that is no list of values"
        mistakes.problem("wrong-type", where, reason, _MEND_VALUES, given)
        return None
    found: list[Value] = []
    for index, value in enumerate(given):
        if not isinstance(value, bool | int | float | str) or value != value:
            reason = "that is no text, number or truth value"
            mistakes.problem("wrong-type", where, reason, _MEND_VALUES, value, index)
        elif any(value == other and type(value) is type(other) for other in found):
            reason = "that value is there twice"
            mistakes.problem("contradiction", where, reason, "write it once", value, index)
        else:
            found.append(value)
    return Values(tuple(found)) if found else None


def _range(
    where: list[str], said: Mapping[str, Any], kind: Kind, mistakes: Mistakes
) -> Range | None:
    """A range of plain numbers, or of quantities of one kind."""
    missing = [key for key in ("from", "to") if key not in said]
    for key in missing:
        reason = f"neither values nor `{key}` are said"
        mistakes.problem("missing", [*where, key], reason, _MEND_VALUES)
    scale = said.get("scale", "linear")
    if scale not in SCALES:
        mend = 'write "linear" or "log"'
        mistakes.problem("unknown-value", [*where, "scale"], "there is no such scale", mend, scale)
        return None
    bounds = {
        key: _number([*where, key], said[key], mistakes)
        for key in ("from", "to", "multiple_of")
        if key in said
    }
    if missing or None in bounds.values():
        return None
    kinds = {key: bound[0] for key, bound in bounds.items() if bound is not None}
    numbers = {key: bound[1] for key, bound in bounds.items() if bound is not None}
    merged = _common(kinds)
    if merged is None:
        names = {"whole": "whole number", "real": "number"}
        told = " and ".join(f"`{k}` is a {names.get(kind, kind)}" for k, kind in kinds.items())
        reason = f"{told}: they are not of one kind"
        mistakes.problem("wrong-type", where, reason, "write quantities of one kind")
        return None
    if not _bounds_fit(where, numbers, scale, mistakes):
        return None
    steps = _steps(where, said, kind, mistakes)
    found = Range(numbers["from"], numbers["to"], merged, scale, steps, numbers.get("multiple_of"))
    return found if steps is not None or kind in RANDOM_KINDS else None


def _common(kinds: Mapping[str, str]) -> str | None:
    """The kind that all have; whole numbers are real ones too."""
    distinct = set(kinds.values())
    if distinct <= {"whole", "real"}:
        return "real" if "real" in distinct else "whole"
    return distinct.pop() if len(distinct) == 1 else None


def _number(where: list[str], given: object, mistakes: Mistakes) -> tuple[str, float] | None:
    """Kind and value of a bound."""
    if isinstance(given, int) and not isinstance(given, bool) and abs(given) <= _MOST:
        return "whole", given
    if isinstance(given, float) and math.isfinite(given):
        return "real", given
    found = _core.quantity(given) if isinstance(given, str) else None
    if found is None:
        mend = 'write a number, or a quantity with its unit such as "64MiB" or "25us"'
        mistakes.problem("wrong-type", where, "that is no number", mend, given)
    return found


def _bounds_fit(
    where: list[str], numbers: Mapping[str, float], scale: str, mistakes: Mistakes
) -> bool:
    low, high = numbers["from"], numbers["to"]
    if low >= high:
        reason = "`from` is not below `to`"
        mistakes.problem("impossible-value", [*where, "from"], reason, "let the range be one")
        return False
    if scale == "log" and low <= 0:
        reason = "a logarithmic range begins above 0"
        mistakes.problem("impossible-value", [*where, "from"], reason, "write a number above 0")
        return False
    step = numbers.get("multiple_of")
    if step is not None and not _has_multiples(low, high, step):
        reason = "no multiple of it lies between `from` and `to`"
        mend = "write a smaller one, above 0"
        mistakes.problem("impossible-value", [*where, "multiple_of"], reason, mend)
        return False
    return True


def _has_multiples(low: float, high: float, step: float) -> bool:
    if step <= 0 or not math.isfinite(high / step) or not math.isfinite(low / step):
        return False
    return math.ceil(low / step) <= math.floor(high / step)


def _steps(where: list[str], said: Mapping[str, Any], kind: Kind, mistakes: Mistakes) -> int | None:
    steps = said.get("steps")
    place = [*where, "steps"]
    if kind in RANDOM_KINDS:
        if steps is not None:
            mend = "leave it out: `points` of the design says how many"
            mistakes.problem("no-effect", place, f"a {kind} design has no steps", mend)
        return None
    if steps is None:
        reason = f"a {kind} does not know how many values the range has"
        mistakes.problem("missing", place, reason, "write steps = 5")
        return None
    before = len(mistakes.found)
    _check_whole(steps, place, 2, MOST_POINTS, mistakes)
    return int(steps) if len(mistakes.found) == before else None


def _check_twice(parameters: Sequence[Parameter], mistakes: Mistakes) -> None:
    """Refuses a path that two parameters set."""
    owners: dict[str, str] = {}
    for one in parameters:
        for path in one.paths:
            if path in owners:
                reason = f"`{path}` is set by `{owners[path]}` and by `{one.name}`"
                where = ["parameters", one.name]
                mistakes.problem("contradiction", where, reason, "leave one of them out")
            owners[path] = one.name


def _check_lengths(parameters: Sequence[Parameter], mistakes: Mistakes) -> None:
    """Refuses lists that are not equally long."""
    lengths = {one.name: len(one.values.values) for one in parameters}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        reason = f"a list takes the values of all parameters side by side, and {told}"
        mend = 'write as many values for each, or kind = "grid" for all combinations'
        mistakes.problem("contradiction", ["parameters"], reason, mend)
