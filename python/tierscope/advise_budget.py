"""What a machine may cost, and how slow it may be: read from a file, and held to what is there."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tierscope import _check, _core
from tierscope._call import parsed
from tierscope._files import read_text, toml_mistake
from tierscope._system import System
from tierscope.errors import TierscopeError
from tierscope.sweeps.mistakes import Mistakes
from tierscope.sweeps.places import Places

KEYS = ("dram_limit", "slowdown", "usd_per_gb", "w_per_gb", "technologies", "made_of")
"""What a budget may say."""
FIGURES = ("usd_per_gb", "w_per_gb")
"""What it may say of a technology."""
DRAM = "dram"
"""The part that every machine may have; the others are stores, by their machines' names."""
_MEND = 'write dram_limit = "256MiB", slowdown = 2.0, [usd_per_gb] with dram = 3.0, hybrid = 0.1'
_MEND_TECHNOLOGY = 'write [technologies.NAME] with usd_per_gb = 3.0, and [made_of] dram = "NAME"'


@dataclass(frozen=True, slots=True)
class Budget:
    """What a machine may cost, and how slow it may be.

    Attributes:
        dram_limit_bytes: the most DRAM; none where any will do.
        slowdown: the most slowdown against the reference; none where any will do.
        usd_per_gb: price of a GB (10^9 bytes) of ``dram``, and of each system's store by its name.
        w_per_gb: power of a GB of the same, in watts; none where energy is that of the simulation.
        places: where a file says so, for messages.
    """

    dram_limit_bytes: int | None = None
    slowdown: float | None = None
    usd_per_gb: Mapping[str, float] | None = None
    w_per_gb: Mapping[str, float] | None = None
    places: Places = field(default_factory=lambda: Places("", ""), compare=False, repr=False)

    def check(self, candidates: Sequence[System], reference: System) -> None:
        """Refuses figures of what there is not, and the lack of what is needed.

        Args:
            candidates: the machines to choose from.
            reference: the machine that slowdowns are against.

        Raises:
            SpecError: with every mistake, before anything runs.
        """
        mistakes = Mistakes(self.places)
        known = {DRAM, *_presets(), *(one.name for one in (*candidates, reference))}
        known |= {name.removesuffix("/quick") for name in known}
        for key in FIGURES:
            figures: Mapping[str, float] | None = getattr(self, key)
            if figures is None:
                continue
            for name in figures:
                if name not in known:
                    mend = _check.meant(name, sorted(known), "write dram, or a system's name")
                    reason = "there is no such system"
                    mistakes.problem("unknown-key", [key, name], reason, mend, figures[name])
            if DRAM not in figures:
                reason = "the figure of DRAM is missing"
                mistakes.problem("missing", [key, DRAM], reason, f"write {DRAM} = 3.0 there")
            for one in candidates:
                if one.name == reference.name:
                    continue
                if one.organization != "oracle" and of_store(figures, one.name) is None:
                    reason = f"the figure of the store of {one.name} is missing"
                    mend = f'write it below [{key}]: "{one.name}" = 0.1'
                    mistakes.problem("missing", [key, one.name], reason, mend)
        mistakes.check()


def of_store(figures: Mapping[str, float], system: str) -> float | None:
    """The figure of a system's store, by its name with or without that of its size."""
    return figures.get(system, figures.get(system.removesuffix("/quick")))


def _presets() -> Iterable[str]:
    return (str(name) for name, _ in parsed(_core.list_systems()))


def read_budget(path: Path) -> Budget:
    """A budget that a TOML file says.

    Raises:
        SpecError: with every mistake of it.
        TierscopeError: where it cannot be read.
    """
    text = read_text(path, "a budget", _MEND)
    try:
        said = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        told = f"{path} is not TOML: {toml_mistake(error)}"
        raise TierscopeError("unreadable", told, _MEND) from None
    mistakes = Mistakes(Places(str(path), text))
    for key in said:
        if key not in KEYS:
            mend = _check.meant(key, KEYS, f"its keys are {', '.join(KEYS)}")
            mistakes.problem("unknown-key", [key], "a budget has no such key", mend)
    limit, slowdown = said.get("dram_limit"), said.get("slowdown")
    quantity = _core.quantity(limit) if isinstance(limit, str) else None
    if limit is not None and (quantity is None or quantity[0] != "size"):
        mistakes.problem("impossible-value", ["dram_limit"], "that is no size", _MEND, limit)
    if slowdown is not None and not _is_number(slowdown, 1.0):
        reason = "that is no number from 1 on"
        mistakes.problem("impossible-value", ["slowdown"], reason, _MEND, slowdown)
    figures = {key: _figures(said, key, mistakes) for key in FIGURES}
    if "technologies" in said or "made_of" in said:
        figures = _by_technology(said, figures, mistakes)
    mistakes.check()
    limit_bytes = None if quantity is None else int(quantity[1])
    return Budget(limit_bytes, slowdown, **figures, places=mistakes.places)


def _figures(said: Mapping[str, Any], key: str, mistakes: Mistakes) -> dict[str, float] | None:
    """A table of numbers by part; nothing where there is none."""
    given = said.get(key)
    if given is None:
        return None
    if not isinstance(given, dict):
        mistakes.problem("wrong-type", [key], "that is no table", f"write [{key}]", given)
        return None
    for name, value in given.items():
        if not _is_number(value, 0.0):
            reason = "that is no number from 0 on"
            mistakes.problem("impossible-value", [key, name], reason, _MEND, value)
    return given


def _by_technology(
    said: Mapping[str, Any], own: dict[str, dict[str, float] | None], mistakes: Mistakes
) -> dict[str, dict[str, float] | None]:
    """Figures of each part, by the technology that it is made of."""
    technologies, made_of = said.get("technologies"), said.get("made_of")
    for key, table in (("technologies", technologies), ("made_of", made_of)):
        if not isinstance(table, dict):
            reason = "that is no table" if key in said else "it is missing"
            mistakes.problem("missing", [key], reason, _MEND_TECHNOLOGY)
    mistakes.check()
    assert isinstance(technologies, dict)
    assert isinstance(made_of, dict)
    for name, table in technologies.items():
        at = ["technologies", name]
        if not isinstance(table, dict) or not table:
            mistakes.problem("wrong-type", at, "it says nothing", _MEND_TECHNOLOGY)
            continue
        for key, value in table.items():
            if key not in FIGURES:
                mend = _check.meant(key, FIGURES, f"its keys are {', '.join(FIGURES)}")
                reason = "a technology has no such key"
                mistakes.problem("unknown-key", [*at, key], reason, mend, value)
            elif not _is_number(value, 0.0):
                reason = "that is no number from 0 on"
                mistakes.problem("impossible-value", [*at, key], reason, _MEND_TECHNOLOGY, value)
    for part, name in made_of.items():
        if name not in technologies:
            mend = _check.meant(str(name), list(technologies), _MEND_TECHNOLOGY)
            reason = "there is no such technology"
            mistakes.problem("unknown-value", ["made_of", part], reason, mend, name)
    mistakes.check()
    found: dict[str, dict[str, float] | None] = {}
    for key in FIGURES:
        by_part = {
            part: technologies[name][key]
            for part, name in made_of.items()
            if key in technologies[name]
        }
        both = set(by_part) & set(own[key] or ())
        for part in sorted(both):
            reason = f"it is made of {made_of[part]}, which has a figure too"
            mistakes.problem("contradiction", [key, part], reason, "leave one of them out")
        found[key] = {**by_part, **(own[key] or {})} or None
    return found


def _is_number(value: object, least: float) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(float(str(value))) and float(str(value)) >= least
