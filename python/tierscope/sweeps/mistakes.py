"""Mistakes of a study, collected so that all are told at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tierscope.errors import Problem, SpecError
from tierscope.sweeps.places import Places

_MOST = 40
"""Mistakes that are told: a range of impossible values has one for each point."""


@dataclass(slots=True)
class Mistakes:
    """What is wrong with a study.

    Attributes:
        places: where things stand in its file.
        found: every mistake so far, each once.
    """

    places: Places
    found: list[Problem] = field(default_factory=list)

    def problem(
        self,
        code: str,
        path: Sequence[str],
        reason: str,
        mend: str,
        value: object = None,
        index: int | None = None,
    ) -> None:
        """Adds a mistake of the study.

        Args:
            code: kind of mistake.
            path: the keys that lead to it.
            reason: what is wrong.
            mend: what to write instead.
            value: what stands there, if it is one value.
            index: which of a list it is, from 0 on, where the keys lead to a list.
        """
        shown = "" if value is None else json.dumps(value, ensure_ascii=False, default=str)
        at = self.places.of(*path, value=value) if path else self.places.of()
        item = "" if index is None else f"[{index}]"
        self.add(Problem(code, ".".join(path) + item or "study", shown, reason, mend, at))

    def add(self, problem: Problem) -> None:
        """Adds a mistake that is not there yet; of an unknown key, one value says it all."""
        unknown = problem.code == "unknown-key"
        for other in self.found:
            same = (other.code, other.path) == (problem.code, problem.path)
            if other == problem or (unknown and same and other.reason == problem.reason):
                return
        self.found.append(problem)

    def add_all(self, error: SpecError, at: str) -> None:
        """Adds mistakes of a description or workload, which the study makes at a place."""
        for problem in error.problems:
            own = not problem.place or problem.place.startswith("--set ")
            self.add(replace(problem, place=at) if own else problem)

    def check(self) -> None:
        """Raises what was found.

        Raises:
            SpecError: with every mistake, if there is any.
        """
        if not self.found:
            return
        told = self.found[:_MOST]
        if len(self.found) > _MOST:
            rest = f"and {len(self.found) - _MOST} more mistakes of these kinds"
            told = [*told, Problem("more", "study", "", rest, "mend those above first")]
        raise SpecError(told)
