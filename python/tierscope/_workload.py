"""Workloads: what runs on the machines."""

from __future__ import annotations

import os
from collections.abc import Sequence
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


@dataclass(frozen=True, slots=True)
class Program:
    """A real program, which runs under the recorder while the machines run what it does.

    Attributes:
        command: the program, a path or a name to be looked up in ``PATH``, and its arguments.
        native: whether it runs alone before as well, to measure its time. It then runs twice, with
            all that it does; the first time without input, and its output goes nowhere.
        output_to_stderr: whether its standard output goes to standard error.
    """

    command: Sequence[str]
    native: bool = False
    output_to_stderr: bool = False


def program(*command: str, native: bool = False) -> Program:
    """A real program and its arguments, as a workload.

    Args:
        *command: the program, a path or a name to be looked up in ``PATH``, and its arguments.
        native: whether it runs alone before as well, to measure its time: it then runs twice.
    """
    return Program(command, native)


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
