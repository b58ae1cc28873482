"""Errors that tierscope raises. Each has a code, so that scripts need not read prose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tierscope.format import visible

A = TypeVar("A")
B = TypeVar("B")


class TierscopeError(Exception):
    """Something that tierscope was asked for and cannot do.

    Attributes:
        code: short, stable, lower case, hyphenated.
        hint: what to do about it, or ``None``.
    """

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        """As another process has it: what it was made of is in what it says and holds."""
        return type(self).__new__, (type(self), *self.args), self.__dict__

    def lines(self) -> list[str]:
        """The error as the command line prints it, one string a line."""
        first = f"error[{self.code}]: {self}"
        return [first] if self.hint is None else [first, f"  = {self.hint}"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a description.

    Attributes:
        code: kind of mistake.
        path: which value, such as ``hybrid.cache.ways``; empty for the description as a whole.
        value: what stands there, as it was written; empty where nothing does.
        reason: what is wrong with it.
        mend: what to write instead.
        place: where it was written, such as ``my-machine.toml:12:8``; empty where not known.
    """

    code: str
    path: str
    value: str
    reason: str
    mend: str
    place: str = ""

    def lines(self) -> list[str]:
        """The mistake as the command line prints it, one string a line."""
        value = f" = {self.value}" if self.value else ""
        mend = f"; {self.mend}" if self.mend else ""
        line = f"error[{self.code}]: {visible(self.path)}{value}: {self.reason}{mend}"
        return [line, f"  --> {self.place}"] if self.place else [line]


class SpecError(TierscopeError):
    """A description with mistakes: all of them, each with its place and its mend."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("spec", "\n".join(line for p in problems for line in p.lines()))

    def lines(self) -> list[str]:
        """The mistakes as the command line prints them, one string a line."""
        return [line for problem in self.problems for line in problem.lines()]


def told_together(first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
    """What both make.

    Raises:
        SpecError: with the mistakes of both, where both are described wrongly.
    """
    try:
        made = first()
    except SpecError as error:
        problems = list(error.problems)
        try:
            second()
        except SpecError as other:
            problems += other.problems
        except TierscopeError as other:
            problems.append(Problem(other.code, "workload", "", str(other), other.hint or ""))
        raise SpecError(problems) from None
    return made, second()


class ArgumentError(TierscopeError, TypeError):
    """An argument that a function or class does not have, or that is of the wrong type.

    It is a ``TypeError`` too, as Python itself would have raised.
    """


class RunError(TierscopeError):
    """A run that could not start, or that ended without a result."""
