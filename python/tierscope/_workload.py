"""Workloads: what runs on the machines."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Generated:
    """A built-in generator. ``tierscope show workloads`` lists them.

    Attributes:
        name: the generator's name.
        parameters: what differs from its defaults.
        seed: seed of its random choices: equal seeds give equal operations.
    """

    name: str
    parameters: dict[str, Any] = field(default_factory=dict)
    seed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As the simulator takes it."""
        return {
            "kind": "generated",
            "name": self.name,
            "parameters": self.parameters,
            "seed": self.seed,
        }


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recording of a program.

    Attributes:
        path: the ``.tst`` file.
        allow_truncated: whether to replay what precedes the damage of a damaged one.
    """

    path: str | os.PathLike[str]
    allow_truncated: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As the simulator takes it."""
        return {
            "kind": "recorded",
            "path": os.fspath(self.path),
            "allow_truncated": self.allow_truncated,
        }


def workload(name: str, *, seed: int = 0, **parameters: object) -> Generated | Recorded:
    """A built-in workload, or a recording as ``trace:FILE``.

    Args:
        name: such as ``gups``, or ``trace:app.tst``.
        seed: seed of a generator's random choices.
        **parameters: what differs from a generator's defaults; ``tierscope show workloads`` lists
            names, defaults and meanings.
    """
    kind, _, rest = name.partition(":")
    if kind == "trace" and rest:
        if parameters:
            raise TypeError(f"a recording has no parameters, but {', '.join(parameters)} is given")
        return Recorded(rest)
    return Generated(name, dict(parameters), seed)
