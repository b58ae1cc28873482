"""What papers say, beside what runs gave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tierscope.reproduce import figures
from tierscope.reproduce.catalog import Claim

if TYPE_CHECKING:
    from tierscope.reproduce.run import Cell

AGREES, PARTLY, DISAGREES, UNKNOWN = "agrees", "partly", "disagrees", "not known"


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim, beside what was found.

    Attributes:
        claim: what the paper says.
        values: each value that it is about, by where it was found.
    """

    claim: Claim
    values: tuple[tuple[str, float], ...]

    @property
    def holding(self) -> int:
        """How many values are as the paper says."""
        return sum(self._holds(value) for _, value in self.values)

    def _holds(self, value: float) -> bool:
        above, below = self.claim.above, self.claim.below
        return (above is None or value > above) and (below is None or value < below)

    @property
    def verdict(self) -> str:
        """Whether it holds everywhere, somewhere or nowhere; empty for a number alone."""
        if not self.values:
            return UNKNOWN
        if self.claim.above is None and self.claim.below is None:
            return ""
        if self.holding == len(self.values):
            return AGREES
        return PARTLY if self.holding else DISAGREES

    @property
    def mean(self) -> float | None:
        """The mean of all values; nothing where there is none."""
        return sum(v for _, v in self.values) / len(self.values) if self.values else None

    @property
    def ratio(self) -> float | None:
        """What was found, over what was published; nothing where no number was."""
        published, mean = self.claim.published, self.mean
        return None if mean is None or not published else mean / published

    def to_dict(self) -> dict[str, Any]:
        """It, for JSON."""
        claim = self.claim
        return {
            "says": claim.says,
            "where": claim.where,
            "kind": claim.kind,
            "figure": claim.figure,
            "published": claim.published,
            "above": claim.above,
            "below": claim.below,
            "found": [{"of": of, "value": value} for of, value in self.values],
            "found_mean": self.mean,
            "ratio": self.ratio,
            "holding": self.holding,
            "verdict": self.verdict or None,
            "because": claim.because or None,
        }


def judged(claim: Claim, cells: Sequence[Cell]) -> Finding:
    """A claim, beside what was found of it."""
    concerned = [
        cell
        for cell in cells
        if (not claim.panels or cell.panel in claim.panels)
        and (not claim.scales or cell.scale in claim.scales)
        and (not claim.over or cell.over in claim.over)
    ]
    if claim.ratio:
        return Finding(claim, tuple(_ratios(claim, concerned)))
    if claim.difference:
        return Finding(claim, tuple(_differences(claim, concerned)))
    own = [cell for cell in concerned if not claim.system or cell.system == claim.system]
    if claim.change:
        return Finding(claim, tuple(_changes(claim, own)))
    if claim.spread:
        return Finding(claim, tuple(_spreads(claim, own)))
    found = ((_place(cell), cell.mean(claim.figure)) for cell in own)
    return Finding(claim, tuple((place, value) for place, value in found if value is not None))


def _place(cell: Cell, *, over: bool = True, system: bool = True) -> str:
    parts = [cell.panel, cell.scale]
    parts += [cell.system] if system else []
    parts += [str(cell.over)] if over and cell.over is not None else []
    return ", ".join(parts)


def _ratios(claim: Claim, cells: Sequence[Cell]) -> Iterator[tuple[str, float]]:
    for place, value, other in _pairs(claim, claim.ratio, cells):
        if other:
            yield place, value / other


def _differences(claim: Claim, cells: Sequence[Cell]) -> Iterator[tuple[str, float]]:
    for place, value, other in _pairs(claim, claim.difference, cells):
        yield place, value - other


def _pairs(
    claim: Claim, systems: Sequence[str], cells: Sequence[Cell]
) -> Iterator[tuple[str, float, float]]:
    """The figures of two systems, where both have it, with where that was found."""
    upper, lower = systems
    below = {
        (cell.panel, cell.scale, cell.over): cell.mean(claim.figure)
        for cell in cells
        if cell.system == lower
    }
    for cell in cells:
        value = cell.mean(claim.figure) if cell.system == upper else None
        other = below.get((cell.panel, cell.scale, cell.over))
        if value is not None and other is not None:
            yield _place(cell, system=False), value, other


def _groups(cells: Sequence[Cell]) -> Iterator[list[Cell]]:
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.panel, cell.scale, cell.system), []).append(cell)
    yield from groups.values()


def _changes(claim: Claim, cells: Sequence[Cell]) -> Iterator[tuple[str, float]]:
    first, last = claim.change
    for group in _groups(cells):
        values = {cell.over: cell.mean(claim.figure) for cell in group}
        upper, lower = values.get(first), values.get(last)
        if upper is not None and lower:
            yield _place(group[0], over=False), upper / lower


def _spreads(claim: Claim, cells: Sequence[Cell]) -> Iterator[tuple[str, float]]:
    for group in _groups(cells):
        values = [v for cell in group if (v := cell.mean(claim.figure)) is not None]
        if len(values) > 1 and min(values) > 0:
            yield _place(group[0], over=False), max(values) / min(values)


def shown(claim: Claim, value: float | None) -> str:
    """A value of a claim as a reader sees it: a ratio, or the figure in its unit."""
    if claim.ratio or claim.change or claim.spread:
        from tierscope import format as fmt

        return fmt.factor(value)
    return figures.figure(claim.figure).shown(value)
