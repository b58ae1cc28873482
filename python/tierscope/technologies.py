"""Technologies of memory and storage, as data: what a cell takes, how fast and lasting it is.

Every figure has its source, and what has none is missing. The table is a file of the package,
``technologies.toml``; a file of the same form is laid over it.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from tierscope._check import meant, shown
from tierscope._files import read_text, toml_mistake
from tierscope.errors import TierscopeError

_MOST = 1e30
"""Far beyond any figure of a technology, and what a table has room for."""

FIGURES = {
    "cell_area_f2": "cell, F²",
    "read_ns": "read",
    "write_ns": "write",
    "erase_ns": "erase",
    "endurance": "endurance",
    "read_pj_per_bit": "read, pJ/bit",
    "write_pj_per_bit": "write, pJ/bit",
    "usd_per_gb": "USD/GB",
}
"""Names of figures, and what they are called in a table."""

FLAGS = {"byte_addressable": "byte-addressable", "non_volatile": "non-volatile"}
"""Names of what is so or not, and what they are called in a table."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number or a range, with where it comes from.

    Attributes:
        least: the number, or the lower end; ``None`` where only the upper end is known.
        most: the number, or the upper end; ``None`` where only the lower end is known.
        source: paper and table, data sheet, or file of a simulator.
    """

    least: float | None
    most: float | None
    source: str


@dataclass(frozen=True, slots=True)
class Flag:
    """What is so or not, with where that comes from."""

    value: bool
    source: str


@dataclass(frozen=True, slots=True)
class Technology:
    """A technology.

    Attributes:
        key: its name in files, lower case and hyphenated.
        name: as people call it.
        flags: what is so or not, by the names of ``FLAGS``.
        figures: by the names of ``FIGURES``; a figure without a source is not there.
    """

    key: str
    name: str
    flags: dict[str, Flag] = field(default_factory=dict)
    figures: dict[str, Figure] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """What JSON has of it."""
        flags = {key: {"is": flag.value, "source": flag.source} for key, flag in self.flags.items()}
        figures = {
            key: {"least": it.least, "most": it.most, "source": it.source}
            for key, it in self.figures.items()
        }
        return {"name": self.name, **flags, **figures}


@dataclass(frozen=True, slots=True)
class Technologies:
    """What is known of technologies.

    Attributes:
        by_key: each technology, by its key.
        sources: what the keys of sources stand for.
    """

    by_key: dict[str, Technology] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """What JSON has of it."""
        return {
            "sources": dict(self.sources),
            "technologies": {key: it.to_dict() for key, it in self.by_key.items()},
        }


def technologies(*files: str | Path) -> Technologies:
    """All technologies: those of the package, with those of files laid over them in turn.

    Raises:
        TierscopeError: for a file that cannot be read, or an entry that is not of the form.
    """
    packaged = resources.files("tierscope").joinpath("technologies.toml")
    all_ = _laid_over(Technologies(), packaged.read_text(encoding="utf-8"), "technologies.toml")
    for file in files:
        mend = "name a TOML file of technologies; docs/models/technologies.md shows one"
        text = read_text(Path(file), "a file of technologies", mend)
        all_ = _laid_over(all_, text, str(file))
    return all_


def _laid_over(base: Technologies, text: str, file: str) -> Technologies:
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise TierscopeError("unreadable", f"{file} is not TOML: {toml_mistake(error)}") from None
    found, sources = dict(base.by_key), dict(base.sources)
    for key, table in tables.items():
        if not isinstance(table, dict):
            raise _wrong(file, key, "a technology is a table", f"write [{key}] and its figures")
        if key != "sources":
            found[key] = _technology(key, table, found.get(key), file)
            continue
        for name, meaning in table.items():
            if not isinstance(meaning, str):
                raise _wrong(file, f"sources.{name}", "a source is a text", f'write {name} = "…"')
            sources[name] = meaning
    return Technologies(found, sources)


def _technology(
    key: str, table: dict[str, Any], before: Technology | None, file: str
) -> Technology:
    name = table.get("name", before.name if before else key)
    if not isinstance(name, str) or not name:
        raise _wrong(file, f"{key}.name", "a name is a text", 'write name = "…"')
    flags = dict(before.flags) if before else {}
    figures = dict(before.figures) if before else {}
    for entry, value in table.items():
        path = f"{key}.{entry}"
        if entry in FLAGS:
            flags[entry] = _flag(value, path, file)
        elif entry in FIGURES:
            figures[entry] = _figure(value, path, file)
        elif entry != "name":
            known = ["name", *FLAGS, *FIGURES]
            mend = meant(entry, known, f"write one of {', '.join(known)}")
            raise _wrong(file, path, "no technology has it", mend)
    return Technology(key, name, flags, figures)


def _source(value: object, path: str, file: str, form: str) -> str:
    if not isinstance(value, dict):
        raise _wrong(file, path, "it has no source", f"write {form}")
    source = value.get("source")
    if not isinstance(source, str) or not source.strip():
        raise _wrong(file, path, "it has no source", f"write {form}")
    return source


def _flag(value: Any, path: str, file: str) -> Flag:
    form = '{ is = true, source = "…" }'
    source = _source(value, path, file, form)
    if set(value) != {"is", "source"} or not isinstance(value["is"], bool):
        raise _wrong(file, path, "it is neither true nor false", f"write {form}")
    return Flag(value["is"], source)


def _figure(value: Any, path: str, file: str) -> Figure:
    form = '{ is = 55, source = "…" }, or least and most in place of is'
    source = _source(value, path, file, form)
    ends = {key: number for key, number in value.items() if key != "source"}
    if set(ends) not in ({"is"}, {"least"}, {"most"}, {"least", "most"}):
        raise _wrong(file, path, "it is neither a number nor a range", f"write {form}")
    for number in ends.values():
        real = isinstance(number, int | float) and not isinstance(number, bool)
        if not real or not 0 <= number <= _MOST:
            raise _wrong(
                file, path, f"{shown(number)} is no number from 0 to {_MOST:g}", f"write {form}"
            )
    least = ends.get("is", ends.get("least"))
    most = ends.get("is", ends.get("most"))
    if least is not None and most is not None and least > most:
        raise _wrong(file, path, f"{least} is more than {most}", "write the lower end as least")
    return Figure(_float(least), _float(most), source)


def _float(number: float | None) -> float | None:
    return None if number is None else float(number)


def _wrong(file: str, path: str, reason: str, mend: str) -> TierscopeError:
    return TierscopeError("unreadable", f"{file}: {path}: {reason}", mend)
