"""Running items: their studies as sweeps that share what has been run, and what came of it."""

from __future__ import annotations

import json
import os
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierscope import _core
from tierscope.errors import TierscopeError
from tierscope.reproduce import figures
from tierscope.reproduce.catalog import FULL, QUICK, Item, Panel, chosen
from tierscope.reproduce.claims import Finding, judged
from tierscope.sweeps.execute import THREADS
from tierscope.sweeps.store import lock, was_locked
from tierscope.sweeps.sweep import Sweep, SweepWatcher, sweep_all

POINTS = "points"
"""The folder that keeps what has been run, for all items."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One machine at one value of what varies: what a mark of a figure stands for.

    Attributes:
        panel: label of the panel.
        scale: the scale that it ran at.
        system: the machine, by the name that the paper's readers know it by.
        over: the value of what varies; nothing where nothing does.
        rows: rows of the sweep's table, one a seed.
    """

    panel: str
    scale: str
    system: str
    over: Any
    rows: tuple[figures.Row, ...]

    def values(self, name: str) -> list[float]:
        """A figure of each seed that has one."""
        of = figures.figure(name).of
        return [value for row in self.rows if (value := of(row)) is not None]

    def mean(self, name: str) -> float | None:
        """A figure, the mean of all seeds."""
        values = self.values(name)
        return statistics.fmean(values) if values else None

    def bounds(self, name: str) -> tuple[float, float] | None:
        """The least and the most that a figure may be: of seeds, or of samples; or nothing."""
        values = self.values(name)
        half = max((figures.half_width(row, name) for row in self.rows), default=0.0)
        if not values or (len(set(values)) == 1 and not half):
            return None
        return min(values) * (1 - half), max(values) * (1 + half)


@dataclass(frozen=True, slots=True)
class Done:
    """What an item gave.

    Attributes:
        item: the item.
        panels: what was run.
        sweeps: what each panel gave.
        cells: every mark of its figure.
        findings: what the paper says, beside what was found.
        quick: whether it ran at the small scale.
    """

    item: Item
    panels: tuple[Panel, ...]
    sweeps: tuple[Sweep, ...]
    cells: tuple[Cell, ...]
    findings: tuple[Finding, ...]
    quick: bool

    @property
    def state(self) -> str:
        """How complete it is: ``complete``, ``sampled`` or ``partial``."""
        states = {one.completeness for one in self.sweeps}
        return next((s for s in ("partial", "sampled") if s in states), "complete")

    @property
    def interrupted(self) -> bool:
        """Whether an interrupt ended it."""
        return any(one.interrupted for one in self.sweeps)

    @property
    def begun(self) -> bool:
        """Whether any of its runs has ended, or it has none."""
        return not self.sweeps or any(len(one) > one.counts()["missing"] for one in self.sweeps)

    @property
    def failed(self) -> list[tuple[str, str]]:
        """What failed, and why."""
        return [failure for one in self.sweeps for failure in one.failures()]

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        item = self.item
        return {
            "item": item.full_name,
            "where": item.where,
            "shows": item.shows,
            "scale": QUICK if self.quick else FULL,
            "state": self.state,
            "version": _core.version(),
            "readings": list(item.readings),
            "lacks": list(item.lacks),
            "figure": item.figure,
            "numbers": [
                {
                    "panel": cell.panel,
                    "scale": cell.scale,
                    "system": cell.system,
                    "over": cell.over,
                    **{name: cell.mean(name) for name in item.columns},
                    "bounds": {
                        name: list(bounds)
                        for name in item.columns
                        if (bounds := cell.bounds(name)) is not None
                    },
                }
                for cell in self.cells
            ],
            "published": [one.to_dict() for one in self.findings],
            "failed": [{"what": what, "why": why} for what, why in self.failed],
        }


def reproduce(
    names: Sequence[str],
    directory: str | os.PathLike[str],
    *,
    quick: bool = False,
    experiments: Path | None = None,
    on: str = THREADS,
    workers: int | None = None,
    retry_failed: bool = False,
    watch: SweepWatcher | None = None,
) -> list[Done]:
    """Runs tables and figures of papers. What has run already is not run again.

    Args:
        names: ``PAPER/ITEM``, or ``PAPER`` for all of its items that can run.
        directory: where runs, figures and numbers are kept; it is gone on with.
        quick: whether small machines and data sets run, in minutes.
        experiments: a folder of further experiments, in place of the package's.
        on: as of :func:`tierscope.sweep`; so are those that follow.
        workers: see there.
        retry_failed: see there.
        watch: see there.

    Raises:
        SpecError: with every mistake of an experiment, before anything runs.
        TierscopeError: where there is no such item, the models lack what it needs, or the directory
            holds something else.
    """
    items = chosen(names, experiments)
    target = Path(directory).absolute()
    check_directory(target)
    panels = {item.full_name: item.panels(quick) for item in items}
    places = {
        (item.full_name, number): folder_of(target, item, number, panel)
        for item in items
        for number, panel in enumerate(panels[item.full_name])
    }
    asked = {place: panels[name][number].study for (name, number), place in places.items()}
    ran: dict[Path, Sweep] = {}
    if not asked:
        with lock(target / POINTS):
            pass  # Tables alone run nothing; the directory is known by its lock all the same.
    else:
        ran = sweep_all(
            asked,
            target / POINTS,
            on=on,
            workers=workers,
            retry_failed=retry_failed,
            watch=watch,
        )
    return [
        _done(
            item,
            panels[item.full_name],
            [ran[places[item.full_name, n]] for n in range(len(panels[item.full_name]))],
            quick,
        )
        for item in items
    ]


def check_directory(target: Path) -> None:
    """Refuses a directory that holds anything but what was reproduced before.

    Raises:
        TierscopeError: where it does.
    """
    if target.exists() and not target.is_dir():
        mend = "name a directory for what is reproduced"
        raise TierscopeError("not-a-directory", f"{target} is a file", mend)
    if not target.exists() or was_locked(target / POINTS):
        return
    held = sorted(path.name for path in target.iterdir() if path.name != POINTS)
    if held:
        raise TierscopeError(
            "foreign-directory",
            f"{target} is not of tierscope reproduce (it holds {held[0]}) and is left alone",
            "name a new directory, or an earlier one to go on with",
        )


def folder_of(target: Path, item: Item, number: int, panel: Panel) -> Path:
    """The directory of a panel's sweep."""
    plain = re.sub(r"[^a-z0-9]+", "-", f"{panel.label} {panel.scale}".lower()).strip("-")
    return target / item.paper / item.name / f"{number:02d}-{plain}"


def _done(item: Item, panels: Sequence[Panel], sweeps: Sequence[Sweep], quick: bool) -> Done:
    cells = [
        cell
        for panel, sweep in zip(panels, sweeps, strict=True)
        for cell in cells_of(item, panel, sweep)
        if not item.systems or cell.system in item.systems
    ]
    scales = {panel.scale for panel in panels}
    findings = tuple(
        judged(claim, cells)
        for claim in item.claims
        if not claim.scales or scales.intersection(claim.scales)
    )
    return Done(item, tuple(panels), tuple(sweeps), tuple(cells), findings, quick)


def cells_of(item: Item, panel: Panel, sweep: Sweep) -> list[Cell]:
    """The marks of a panel, seeds together, in the order of the study."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    overs: dict[tuple[str, str], Any] = {}
    rows = sweep.table().drop("machine").iter_rows(named=True)
    for said, row in zip(sweep.data["points"], rows, strict=True):
        over = said["choice"].get(item.over)
        key = (plain_name(said["system"]), json.dumps(over))
        overs[key] = over
        groups.setdefault(key, []).append(row)
    return [
        Cell(panel.label, panel.scale, key[0], overs[key], tuple(found))
        for key, found in groups.items()
    ]


def plain_name(system: str) -> str:
    """A machine's name without that of its size."""
    return system.removesuffix("/quick")
