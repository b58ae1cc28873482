"""The values that the points of a study take: grids, lists, and random designs.

Random numbers come from Python's Mersenne Twister by :meth:`random.Random.random` alone, whose
sequence the language's reference promises for a seed: equal studies have equal points for ever.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from tierscope import _core

Kind = Literal["grid", "list", "random", "latin-hypercube"]
"""How values are combined."""
KINDS: tuple[str, ...] = get_args(Kind)
RANDOM_KINDS = ("random", "latin-hypercube")
Scale = Literal["linear", "log"]
"""How values are spread over a range."""
SCALES: tuple[str, ...] = get_args(Scale)
MOST_POINTS = 100_000
"""Points of a study; each is resolved and checked before the first runs."""

Value = bool | int | float | str
"""One value of a parameter, as a description has it."""


@dataclass(frozen=True, slots=True)
class Values:
    """Values that are listed.

    Attributes:
        values: each of them, as it was written.
    """

    values: tuple[Value, ...]

    def at(self, share: float) -> Value:
        """The value that lies so far in the list, from 0 to below 1."""
        return self.values[int(share * len(self.values))]


@dataclass(frozen=True, slots=True)
class Range:
    """Values from one bound to another.

    Attributes:
        low: the least value, in the kind's smallest unit.
        high: the greatest.
        kind: the kind of quantity, such as ``size``; ``whole`` or ``real`` for plain numbers.
        scale: how they are spread.
        steps: how many a grid or list takes, bounds included; none for random designs.
        multiple: values are multiples of it; none where any will do.
    """

    low: float
    high: float
    kind: str
    scale: Scale
    steps: int | None
    multiple: float | None

    @property
    def values(self) -> tuple[Value, ...]:
        """The values of a grid or list: steps of equal length, or of equal ratio."""
        steps = self.steps or 1
        shares = [0.0] if steps == 1 else [i / (steps - 1) for i in range(steps)]
        return tuple(dict.fromkeys(self.at(share) for share in shares))

    def at(self, share: float) -> Value:
        """The value that lies so far between the bounds, from 0 to 1."""
        if self.scale == "log":
            value = math.exp(
                math.log(self.low) + share * (math.log(self.high) - math.log(self.low))
            )
        else:
            value = self.low + share * (self.high - self.low)
        if self.multiple is not None:
            value = self._near(value, self.multiple)
        value = min(max(value, self.low), self.high)
        if self.kind == "real":
            return value
        whole = round(value)
        return whole if self.kind == "whole" else _core.print_quantity(self.kind, whole)

    def _near(self, value: float, step: float) -> float:
        """The multiple of a step that is nearest, of those within the bounds."""
        least, most = math.ceil(self.low / step), math.floor(self.high / step)
        return min(max(round(value / step), least), most) * step


@dataclass(frozen=True, slots=True)
class Parameter:
    """What varies from point to point.

    Attributes:
        name: its name in tables and figures: its path, unless the study names it.
        paths: what takes its value, as for ``--set``: each in the machines that have it.
        values: the values that it takes.
    """

    name: str
    paths: tuple[str, ...]
    values: Values | Range


Choice = Mapping[str, Value]
"""A value for each parameter, by its name."""


def count(kind: Kind, parameters: Sequence[Parameter], points: int | None) -> int:
    """How many combinations of values a design has, without making them."""
    if kind in RANDOM_KINDS:
        return points or 0
    lengths = [len(one.values.values) for one in parameters]
    return math.prod(lengths) if kind == "grid" else max(lengths, default=1)


def choices(
    kind: Kind, parameters: Sequence[Parameter], points: int | None, seed: int
) -> Iterator[Choice]:
    """Each combination of values, in the order of the table.

    Args:
        kind: ``grid`` takes all combinations, the last parameter's values changing first; ``list``
            the first values of all, then the second ones, and so on; ``random`` draws each value
            by itself; ``latin-hypercube`` divides each parameter into as many parts as there are
            points and draws one value of each part, in an order of its own (McKay, Beckman and
            Conover, Technometrics 21, 1979).
        parameters: what varies.
        points: how many combinations a random design has.
        seed: seed of a random design.
    """
    names = [one.name for one in parameters]
    if kind == "grid":
        for values in itertools.product(*(one.values.values for one in parameters)):
            yield dict(zip(names, values, strict=True))
        return
    if kind == "list":
        if not parameters:
            yield {}
            return
        for values in zip(*(one.values.values for one in parameters), strict=True):
            yield dict(zip(names, values, strict=True))
        return
    shares = _shares(kind, len(parameters), points or 0, random.Random(seed))
    for row in shares:
        yield {one.name: one.values.at(share) for one, share in zip(parameters, row, strict=True)}


def _shares(
    kind: Kind, dimensions: int, points: int, source: random.Random
) -> Iterator[tuple[float, ...]]:
    """Places in the unit cube, one a point."""
    if kind == "random":
        for _ in range(points):
            yield tuple(source.random() for _ in range(dimensions))
        return
    columns = []
    for _ in range(dimensions):
        order = _shuffled(points, source)
        columns.append([(part + source.random()) / points for part in order])
    yield from zip(*columns, strict=True) if columns else iter([()] * points)


def _shuffled(length: int, source: random.Random) -> list[int]:
    """The numbers below a length in random order (Fisher and Yates)."""
    order = list(range(length))
    for last in range(length - 1, 0, -1):
        other = int(source.random() * (last + 1))
        order[last], order[other] = order[other], order[last]
    return order
