"""Systems: described machines."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args, get_type_hints

from tierscope import _check, _core, _spec
from tierscope._call import core_errors, parsed
from tierscope.errors import ArgumentError

_TOP = {field.name for field in dataclasses.fields(_spec.System)}
_OF_ORGANIZATION = {
    table: {field.name for field in dataclasses.fields(cls)}
    for table, cls in _spec.ORGANIZATIONS.items()
}


def _parts_of(table: type[_spec._Spec]) -> dict[str, type[_spec._Spec]]:
    """The keys of a table that take a part, with the class of each."""
    return {
        key: kind
        for key, hint in get_type_hints(table).items()
        for kind in get_args(hint)
        if isinstance(kind, type) and issubclass(kind, _spec._Spec)
    }


_TOP_PARTS = _parts_of(_spec.System)
_PARTS_OF_ORGANIZATION = {table: _parts_of(cls) for table, cls in _spec.ORGANIZATIONS.items()}


class System:
    """One described machine: processor, operating system, organization, devices and links.

    Made by :func:`system` from a preset or a file. It is checked whole as it is made, and never
    changes: :meth:`replace` gives another.
    """

    def __init__(self, base: str | None, over: Mapping[str, Any] | None = None) -> None:
        """Lays ``over`` over ``base``, a preset or a file, or takes ``over`` alone.

        Raises:
            SpecError: with every mistake of the description.
        """
        self._base = base
        self._over: dict[str, Any] = dict(over or {})
        with core_errors():
            found = parsed(_core.resolve(base, _check.written(self._over, "the description")))
        self._take(found)

    def _take(self, found: Mapping[str, Any]) -> None:
        self._spec: dict[str, Any] = found["spec"]
        self._toml: str = found["toml"]
        self._organization: str = found["organization"]
        whole = found["origin"] == ["Python"]
        names = {"name", "description"}
        self._changed = [] if whole else [one for one in found["changed"] if one not in names]

    @property
    def name(self) -> str:
        """Its name in results."""
        return str(self._spec["name"])

    @property
    def organization(self) -> str:
        """How DRAM, store and software are arranged, such as ``hybrid``."""
        return self._organization

    @property
    def changes(self) -> dict[str, object]:
        """What ``--set``, or Python, has changed of its preset or file: path and value of each."""
        values = dict(leaves("", self._spec))
        return {path: values.get(path) for path in self._changed}

    def replace(self, name: str | None = None, **changes: object) -> System:
        """The same machine with parts or values changed.

        Args:
            name: its name in results; none keeps it, and :func:`compare` tells equal names apart.
            **changes: keys of the description, or of its organization: on a hybrid system
                ``cache=DramCache(ways=64)`` means ``hybrid=Hybrid(cache=DramCache(ways=64))``.
                What a part does not say stays as it is.

        Raises:
            SpecError: with every mistake that the change makes.
            ArgumentError: where there is no such key, or it takes another part, or a value cannot
                be written.
        """
        over = dict(self._over) if name is None else {**self._over, "name": name}
        for key, value in changes.items():
            self._check_part(key, value)
            over = _merged(over, self._place(key, _plain(value)))
        return System(self._base, over)

    def _check_part(self, key: str, value: object) -> None:
        """Refuses a part where the key takes another, and says which key takes it."""
        table = self.organization.replace("-", "_")
        parts = _PARTS_OF_ORGANIZATION.get(table, {}) | _TOP_PARTS
        takes = parts.get(key)
        if takes is None or not isinstance(value, _spec._Spec) or isinstance(value, takes):
            return
        given = type(value).__name__
        own = [f"{other}=ts.{given}(...)" for other, kind in parts.items() if kind is type(value)]
        raise ArgumentError(
            "wrong-type",
            f"`{key}` takes a part of type {takes.__name__}, not {given}",
            f"write {' or '.join(own) or f'{key}=ts.{takes.__name__}(...)'}",
        )

    def _place(self, key: str, value: object) -> dict[str, Any]:
        if key in _TOP:
            return {key: value}
        table = self.organization.replace("-", "_")
        own = _OF_ORGANIZATION.get(table, set())
        if key in own:
            return {table: {key: value}}
        keys = sorted(_TOP | own)
        raise ArgumentError(
            "unknown-key",
            f"system {self.name} has no key `{key}`",
            _check.meant(key, keys, f"the keys are {', '.join(keys)}"),
        )

    def with_sets(self, sets: Iterable[tuple[str, str]]) -> System:
        """The same machine with values changed by path, as ``--set`` does it.

        Raises:
            SpecError: with every mistake that the changes make.
        """
        pairs = _pairs(sets)
        with core_errors():
            found = parsed(_core.resolve_text(self.name, self._toml, pairs))
        return _resolved(None, found["spec"], found)

    def _renamed(self, name: str) -> System:
        """The same machine under another name; its values keep their sources."""
        with core_errors():
            found = parsed(_core.resolve_text(self.name, self._toml, [("name", name)]))
        return _resolved(self._base, {**self._over, "name": name}, found)

    def to_dict(self) -> dict[str, Any]:
        """The resolved machine as dictionaries, lists, texts and numbers."""
        copy: dict[str, Any] = json.loads(json.dumps(self._spec))
        return copy

    def to_toml(self) -> str:
        """The resolved machine as TOML, each value with its source. It loads back to the same."""
        return self._toml

    def show(self) -> None:
        """Prints the resolved machine, each value with its source."""
        print(self._toml)

    def __eq__(self, other: object) -> bool:
        """Whether both are the same machine."""
        return isinstance(other, System) and self._spec == other._spec

    def __hash__(self) -> int:
        return hash(json.dumps(self._spec))

    def __repr__(self) -> str:
        return f"<System {self.name}: {self._spec['description']}>"


def system(reference: str | os.PathLike[str]) -> System:
    """A preset, such as ``hybrid``, or a machine described in a TOML file.

    Raises:
        SpecError: with every mistake of the description.
    """
    mend = 'write the name of a preset, such as "hybrid", or the path of a TOML file'
    return System(_check.path(reference, "a system's name", mend))


def machines(given: object) -> list[System]:
    """The systems that a caller lists, by name or made already."""
    mend = 'give a list of systems and names, such as ["hybrid", "oracle"]'
    if isinstance(given, (str, os.PathLike, System)) or not isinstance(given, Iterable):
        raise ArgumentError("wrong-type", f"the systems are {_check.shown(given)}", mend)
    return [one if isinstance(one, System) else system(one) for one in given]


def systems(references: Iterable[str], sets: Iterable[tuple[str, str]] = ()) -> list[System]:
    """Presets and files, with values changed by path in each machine that has the part.

    Raises:
        SpecError: with every mistake of every description, each told once.
    """
    mend = "write names of presets, or paths of TOML files"
    texts = [_check.text(one, "a system's name", mend) for one in references]
    with core_errors():
        found = parsed(_core.resolve_all(texts, _pairs(sets)))
    return [_resolved(None, one["spec"], one) for one in found]


def from_toml(name: str, text: str) -> System:
    """A machine described in a text, called ``name`` in messages.

    Raises:
        SpecError: with every mistake of the description.
    """
    with core_errors():
        found = parsed(_core.resolve_text(name, text))
    return _resolved(None, found["spec"], found)


def _pairs(sets: object) -> list[tuple[str, str]]:
    """Paths and values of changes, both texts."""
    mend = 'write a list of pairs, such as [("hybrid.cache.ways", "64")]'
    if isinstance(sets, (str, Mapping)) or not isinstance(sets, Iterable):
        raise ArgumentError("wrong-type", f"the changes are {_check.shown(sets)}", mend)
    pairs = []
    for pair in sets:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ArgumentError("wrong-type", f"a change is {_check.shown(pair)}", mend)
        path, value = (_check.text(part, "a path or value of a change", mend) for part in pair)
        pairs.append((path, value))
    return pairs


def _resolved(base: str | None, over: Mapping[str, Any], found: Mapping[str, Any]) -> System:
    one = System.__new__(System)
    one._base = base
    one._over = dict(over)
    one._take(found)
    return one


def with_names_told_apart(machines: Iterable[System]) -> list[System]:
    """The same machines; those whose names are taken are called by what sets them apart."""
    told: list[System] = []
    for machine in machines:
        taken = {other.name: other for other in told}
        if machine.name in taken:
            machine = machine._renamed(_other_name(machine, taken))
        told.append(machine)
    return told


_LONGEST_NAME = 48
"""Characters of a name that tells what sets a machine apart; what takes more is numbered."""


def _other_name(machine: System, taken: Mapping[str, System]) -> str:
    """Such as ``hybrid+ways-64`` where little sets it apart, else ``hybrid@2``."""
    first = taken[machine.name].to_dict()
    differences = dict(_differences("", first, machine.to_dict()))
    if 1 <= len(differences) <= 2:
        said = "".join(f"+{path}-{value}" for path, value in differences.items())
        name = machine.name + re.sub(r"[^A-Za-z0-9_./+@-]+", "-", said)
        if name not in taken and len(name) <= _LONGEST_NAME:
            return name
    number = 2
    while f"{machine.name}@{number}" in taken:
        number += 1
    return f"{machine.name}@{number}"


def _differences(path: str, one: object, other: object) -> Iterable[tuple[str, object]]:
    """Last step of the path, and value in ``other``, of each value that differs."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one | other:
            yield from _differences(str(key), one.get(key), other.get(key))
    elif (
        isinstance(one, list)
        and isinstance(other, list)
        and len(one) == len(other)
        and all(isinstance(item, dict) for item in (*one, *other))
    ):
        for own, others in zip(one, other, strict=True):
            yield from _differences(path, own, others)
    elif one != other:
        yield path, other


def leaves(path: str, value: object) -> Iterator[tuple[str, object]]:
    """Every value that is no table, with its path; lists count as one value, unless of tables."""
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for index, item in enumerate(value):
            yield from leaves(f"{path}[{index}]", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(f"{path}.{key}" if path else key, item)
    else:
        yield path, value


def _plain(value: object) -> object:
    if isinstance(value, _spec._Spec):
        return value.to_dict()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _merged(below: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Tables merge, all else is replaced."""
    merged = dict(below)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value) if both else value
    return merged
