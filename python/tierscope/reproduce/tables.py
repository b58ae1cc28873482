"""The tables of an item: its numbers, what was published beside them, what a description holds."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tierscope import format as fmt
from tierscope._system import system
from tierscope.breakdown import GROUPS
from tierscope.errors import TierscopeError
from tierscope.reproduce import figures
from tierscope.reproduce.catalog import Item
from tierscope.reproduce.claims import Finding, shown
from tierscope.reproduce.parts import parts_of
from tierscope.reproduce.run import Cell, Done

T = TypeVar("T")
_FEW = 24
"""Machines and panels of which each figure is told on a terminal; of more, the item's own."""
_SIDE_BY_SIDE = 5
"""Columns of a narrow table."""
PUBLISHED = "What the paper says"
"""Title of the table of claims."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table.

    Attributes:
        title: what it is.
        heading: what stands above its columns.
        rows: its cells.
        texts: how many columns from the left are texts.
    """

    title: str
    heading: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: int


def grids(done: Done) -> list[Grid]:
    """All tables of an item that has run."""
    found = []
    if done.item.values:
        found.append(described(done.item))
    if done.item.view == "owners":
        found.append(owners(done.cells))
    elif done.cells:
        found.append(numbers(done))
    if done.findings:
        found.append(published(done.findings))
    return found


def _heads(done: Done) -> list[str]:
    heads = ["", "scale", "system"]
    return [*heads, done.item.over] if done.item.over else heads


def numbers(done: Done) -> Grid:
    """The numbers of its figure: means of seeds, with bounds where there are any."""
    item = done.item
    titles = [figures.figure(name).title for name in item.columns]
    rows = []
    for cell in done.cells:
        said = [cell.panel, cell.scale, cell.system]
        said += [str(cell.over)] if item.over else []
        rows.append([*said, *(_told(cell, name) for name in item.columns)])
    return Grid("Numbers", [*_heads(done), *titles], rows, 4 if item.over else 3)


def compact(done: Done) -> list[Grid]:
    """The numbers of its figure for narrow terminals: a column a machine, a few side by side."""
    if done.item.view == "owners":
        return [owners(done.cells)]
    if not done.item.over and len(done.item.columns) > 1 and len(done.cells) <= _FEW:
        return [_by_figure(done, some) for some in _in_parts(done.cells)]
    systems = list(dict.fromkeys(cell.system for cell in done.cells))
    names = (done.item.figure, *(done.item.also if done.item.view == "bars" else ()))
    return [_by_system(done, name, some) for name in names for some in _in_parts(systems)]


def _in_parts(many: Sequence[T]) -> list[Sequence[T]]:
    return [many[at : at + _SIDE_BY_SIDE] for at in range(0, len(many), _SIDE_BY_SIDE)]


def _by_figure(done: Done, cells: Sequence[Cell]) -> Grid:
    """A row a figure, a column a machine of a panel."""
    names = done.item.columns
    rows = [[figures.figure(name).title, *(_told(cell, name) for cell in cells)] for name in names]
    return Grid("", ["", *(f"{cell.panel}: {cell.system}" for cell in cells)], rows, 1)


def _by_system(done: Done, name: str, systems: Sequence[str]) -> Grid:
    """A row a value of what varies, or a panel that has the figure; a column a machine."""
    item = done.item
    found = {(c.panel, c.scale, str(c.over), c.system): _told(c, name) for c in done.cells}
    rows: list[list[str]] = []
    for panel in {panel.title: panel for panel in done.panels}.values():
        own = [c for c in done.cells if (c.panel, c.scale) == (panel.label, panel.scale)]
        if item.also and all(cell.mean(name) is None for cell in own):
            continue
        overs = list(dict.fromkeys(str(c.over) for c in own))
        if item.over:
            rows.append([panel.title, *("" for _ in systems)])
        for over in overs:
            keys = [(panel.label, panel.scale, over, system) for system in systems]
            head = f"  {over}" if item.over else panel.title
            rows.append([head, *(found.get(key, fmt.ABSENT) for key in keys)])
    return Grid("", [figures.figure(name).title, *systems], rows, 1)


def _told(cell: Cell, name: str) -> str:
    told, bounds = figures.figure(name).shown(cell.mean(name)), cell.bounds(name)
    if bounds is None:
        return told
    least, most = map(figures.figure(name).shown, bounds)
    return f"{told} ({least} to {most})"


def published(findings: Sequence[Finding]) -> Grid:
    """What the paper says, beside what was found."""
    rows = []
    for one in findings:
        claim = one.claim
        said = fmt.ABSENT if claim.published is None else shown(claim, claim.published)
        ratio = fmt.ABSENT if one.ratio is None else fmt.factor(one.ratio)
        about = [claim.says, claim.where, claim.kind]
        rows.append([*about, said, found_of(one), ratio, verdict_of(one)])
    heading = ["the paper says", "where", "kind", "published", "here", "ratio", "verdict"]
    return Grid(PUBLISHED, heading, rows, 3)


def found_of(one: Finding) -> str:
    """What was found of a claim: one value, or from the least to the most."""
    values = [value for _, value in one.values]
    if not values:
        return fmt.ABSENT
    least, most = shown(one.claim, min(values)), shown(one.claim, max(values))
    return least if least == most else f"{least} to {most}"


def verdict_of(one: Finding) -> str:
    """Whether a claim holds, and of how many values; empty for a number alone."""
    several = f" ({one.holding} of {len(one.values)})" if len(one.values) > 1 else ""
    return one.verdict and one.verdict + several


def lines_of(one: Finding) -> list[str]:
    """A claim in words, for narrow terminals."""
    claim = one.claim
    told = [f"here {found_of(one)}"]
    if claim.published is not None:
        told.insert(0, f"published {shown(claim, claim.published)}")
    told += [] if one.ratio is None else [f"ratio {fmt.factor(one.ratio)}"]
    told += [verdict_of(one)] if one.verdict else []
    lines = [f"{claim.where} ({claim.kind}): {claim.says}", f"  {'; '.join(told)}"]
    return [*lines, f"  because {claim.because}"] if claim.because else lines


def described(item: Item) -> Grid:
    """What the paper gives and a description holds.

    Raises:
        TierscopeError: where a description has no such value.
    """
    machines: dict[str, dict[str, Any]] = {}
    rows = []
    for value in item.values:
        if value.system not in machines:
            machines[value.system] = system(value.system).to_dict()
        machine = machines[value.system]
        held = ", ".join(_value(machine, path.strip()) for path in value.path.split(","))
        rows.append([value.says, value.published, held, value.path, value.where])
    heading = ["what", "published", "here", "path", "where"]
    return Grid("Inputs", heading, rows, 5)


def _value(machine: dict[str, Any], path: str) -> str:
    at: Any = machine
    for part in path.split("."):
        try:
            at = at[int(part)] if isinstance(at, list) else at[part]
        except (KeyError, IndexError, ValueError, TypeError):
            raise TierscopeError(
                "unknown-key", f"{machine['name']} has no value `{path}`", "mend the experiment"
            ) from None
    return str(at)


def owners(cells: Sequence[Cell]) -> Grid:
    """Who did what: shares of the threads' time by group of owners, a column a machine."""
    columns = []
    for cell in cells:
        parts = parts_of(cell, "owners")
        total = sum(size for _, _, size in parts)
        columns.append({label: size / total for label, _, size in parts})
    labels = [group.label for group in GROUPS if any(group.label in one for one in columns)]
    rows = [[label, *(fmt.percent(one.get(label)) for one in columns)] for label in labels]
    heading = ["time of threads", *(f"{cell.panel}: {cell.system}" for cell in cells)]
    return Grid("Owners", heading, rows, 1)


def to_csv(done: Done) -> str:
    """The numbers as a table for other programs: plain numbers, units in the names."""
    into = io.StringIO()
    item = done.item
    writer = csv.writer(into, lineterminator="\n")
    bounds = [f"{name}_{end}" for name in item.columns for end in ("least", "most")]
    writer.writerow(["panel", "scale", "system", item.over or "over", *item.columns, *bounds])
    for cell in done.cells:
        row: list[object] = [cell.panel, cell.scale, cell.system, cell.over]
        row += [cell.mean(name) for name in item.columns]
        for name in item.columns:
            row += cell.bounds(name) or (None, None)
        writer.writerow(row)
    return into.getvalue()
