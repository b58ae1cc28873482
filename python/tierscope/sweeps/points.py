"""From a study to its points: each a machine and a workload that were checked, with a key."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tierscope import _check, _core, _counts, _run, _sampling, _system, _workload
from tierscope._call import core_errors, parsed
from tierscope._system import System
from tierscope._workload import Generated, MemoryTrace, Program, Recorded
from tierscope.errors import Problem, RunError, SpecError, TierscopeError
from tierscope.sweeps import design
from tierscope.sweeps.design import Choice, Value
from tierscope.sweeps.mistakes import Mistakes
from tierscope.sweeps.study import Study, Work, tell_of_nothing, warms_between_alone

_STAND_IN = Generated("gups", {}, 0)
"""What stands for a program that is not recorded yet."""
_OF_WORKLOAD = "workload."
"""What paths of a workload's parameters begin with."""


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a study.

    Attributes:
        key: names what is run: equal keys give equal results, and are run once.
        choice: the values that vary, by the parameter's name.
        machine: the machine, resolved.
        work: what runs on it.
        label: the workload's name, in tables.
        repetition: which of the repetitions it is; the first is 1.
        counted_in: where counts alone are asked for, the number of the pass that gives it.
    """

    key: str
    choice: Choice
    machine: System
    work: Generated | Recorded | MemoryTrace
    label: str
    repetition: int
    counted_in: int | None = None

    def row(self) -> dict[str, Any]:
        """What a table says of it, apart from what came out."""
        return {
            "system": self.machine.name,
            "workload": self.label,
            "repetition": self.repetition,
            "seed": self.work.seed if isinstance(self.work, Generated) else None,
            "machine_digest": machine_digest(self.machine),
            "choice": dict(self.choice),
            **({} if self.counted_in is None else {"pass": self.counted_in}),
        }


@cache
def build() -> str:
    """A digest of the simulator, so that results of different builds are told apart."""
    file = _core.__file__
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]


def machine_digest(machine: System) -> str:
    """A digest of all that a machine does: of its description without name and description."""
    return _digest(_said(machine))


def _said(machine: System) -> dict[str, Any]:
    return {k: v for k, v in machine.to_dict().items() if k not in ("name", "description")}


def _that_matters(machine: System) -> dict[str, Any]:
    """What is said of a machine without what has no effect: those that differ in that run once."""
    said = _said(machine)
    storage = said.get("storage") or {}
    cache = storage.get("buffer_cache")
    if cache is not None and cache["capacity"] == "0B":
        said["storage"] = {k: v for k, v in storage.items() if k != "buffer_cache"}
    return said


def points(
    study: Study,
    recordings: Mapping[str, Path] | None = None,
    at_hand: Collection[str] = (),
) -> list[Point]:
    """Every point of a study, in the order of its table.

    Args:
        study: the study.
        recordings: those of its programs, by their labels. Points of a program without one cannot
            run: they only say what would be.
        at_hand: labels of programs that need not be recorded, and so need no recorder.

    Raises:
        SpecError: with every mistake, before anything runs.
    """
    mistakes = study.mistakes
    number = design.count(study.design.kind, study.parameters, study.design.points)
    number *= len(study.systems) * len(study.works) * study.repetitions
    if number > design.MOST_POINTS:
        reason = f"it has {number} points, and at most {design.MOST_POINTS} are taken"
        mistakes.problem("impossible-value", [], reason, "vary less, or take a random design")
        mistakes.check()
    expansion = _Expansion(study, mistakes, recordings or {}, at_hand)
    found = list(expansion.points())
    if found and warms_between_alone(study.region):
        machines = [point.machine for point in found]
        if not _sampling.passes_untimed(machines, sampled=True):
            tell_of_nothing(study.region, mistakes)
    mistakes.check()
    return in_passes(found) if study.region.get("counts_only") else found


MOST_IN_A_PASS = 64
"""Points that one pass counts at most: the tags of all are there at the same time."""


def passes(found: Sequence[Point]) -> list[list[int]]:
    """Which points one functional pass counts: their places, group by group.

    These have the same workload, and machines whose on-chip caches let the same through: they
    differ in what lies behind these.
    """
    alike: dict[str, list[int]] = {}
    for index, point in enumerate(found):
        alike.setdefault(json.dumps(point.work.to_dict(), sort_keys=True), []).append(index)
    own: list[list[int]] = []
    for some in alike.values():
        for group in _counts.groups([found[index].machine for index in some]):
            places = [some[index] for index in group]
            own += [
                places[at : at + MOST_IN_A_PASS] for at in range(0, len(places), MOST_IN_A_PASS)
            ]
    return sorted(own)


def in_passes(found: Sequence[Point]) -> list[Point]:
    """Points, each with the number of the pass that counts it; equal ones have the same."""
    distinct = list({point.key: point for point in reversed(found)}.values())[::-1]
    numbers = {
        distinct[index].key: number
        for number, group in enumerate(passes(distinct))
        for index in group
    }
    return [replace(point, counted_in=numbers[point.key]) for point in found]


def tell_of_parts(study: Study) -> None:
    """Adds what is wrong with systems and workloads by themselves, where the form is wrong."""
    expansion = _Expansion(study, study.mistakes)
    named = (path.partition(".") for path in study.sets)
    of_workload = {
        name: study.sets[f"{part}.{name}"] for part, _, name in named if f"{part}." == _OF_WORKLOAD
    }
    for index in range(len(study.works)):
        expansion.work(index, of_workload)


class _Expansion:
    """Resolves machines and workloads of a study, each distinct one once."""

    def __init__(
        self,
        study: Study,
        mistakes: Mistakes,
        recordings: Mapping[str, Path] | None = None,
        at_hand: Collection[str] = (),
    ) -> None:
        self._study = study
        self._at_hand = at_hand
        self._fits: dict[tuple[int, str, str], bool] = {}
        self._recordings = recordings or {}
        self._mistakes = mistakes
        self._systems = self._loaded()
        self._machines: dict[tuple[int, tuple[tuple[str, str], ...]], System | None] = {}
        self._taking: dict[str, list[bool]] = {}
        self._works: dict[tuple[int, str], Generated | Recorded | MemoryTrace | None] = {}
        self._content: dict[str, str] = {}

    def _loaded(self) -> list[tuple[str | System, System]]:
        """Each system that can be had, as it was given and as it is."""
        found: list[tuple[str | System, System]] = []
        for given in self._study.systems:
            try:
                one = given if isinstance(given, System) else _system.system(given)
            except SpecError as error:
                at = self._mistakes.places.of("systems", value=given)
                self._mistakes.add_all(error, at)
                continue
            if any(one.name == other.name for _, other in found):
                mend = "give it another `name` in its description, or leave it out"
                reason = f"two systems are called {one.name}"
                self._mistakes.problem("contradiction", ["systems"], reason, mend, one.name)
            found.append((given, one))
        return found

    def points(self) -> Iterator[Point]:
        """Every point that can be resolved; what cannot is told."""
        study = self._study
        self._check_paths()
        for choice in design.choices(
            study.design.kind, study.parameters, study.design.points, study.design.seed
        ):
            of_systems, of_workload = self._said(choice)
            for index in range(len(study.works)):
                work = self.work(index, of_workload)
                for number in range(len(self._systems)):
                    machine = self._machine(number, of_systems)
                    if machine is None or work is None:
                        continue
                    if not self._fit(machine, work, index):
                        continue
                    yield from self._repeated(choice, machine, work, index)

    def _said(self, choice: Choice) -> tuple[dict[str, Value], dict[str, Value]]:
        """What is set of machines and of workloads, by path."""
        said = dict(self._study.sets)
        for parameter in self._study.parameters:
            said |= dict.fromkeys(parameter.paths, choice[parameter.name])
        of_workload = {
            path.removeprefix(_OF_WORKLOAD): value
            for path, value in said.items()
            if path.startswith(_OF_WORKLOAD)
        }
        of_systems = {
            path: value for path, value in said.items() if not path.startswith(_OF_WORKLOAD)
        }
        return of_systems, of_workload

    def _check_paths(self) -> None:
        """Refuses paths of workloads that none of them has; those of machines are resolved."""
        known = {name for work in self._study.works for name in _parameters_of(work)}
        said = [(["set", path], path) for path in self._study.sets]
        said += [(["parameters", p.name], path) for p in self._study.parameters for path in p.paths]
        for where, path in said:
            name = path.removeprefix(_OF_WORKLOAD)
            if name != path and name not in known and None not in known:
                near = _core.nearest(name, sorted(str(one) for one in known))
                mend = f"their parameters are {', '.join(sorted(map(str, known)))}"
                mend = mend if near is None else f"did you mean `workload.{near}`?"
                reason = f"no workload of the study has a parameter `{name}`"
                self._mistakes.problem("unknown-key", where, reason, mend)

    def _machine(self, number: int, sets: Mapping[str, Value]) -> System | None:
        """The machine with what is set, or nothing where that is a mistake."""
        given, plain = self._systems[number]
        pairs = tuple(
            (path, written(value)) for path, value in sets.items() if self._applies(path, number)
        )
        key = (number, pairs)
        if key not in self._machines:
            machine = self._changed(given, plain, pairs)
            self._machines[key] = self._sampled(machine)
        return self._machines[key]

    def _sampled(self, machine: System | None) -> System | None:
        """The machine, or nothing where it cannot be sampled, counted or warmed as is asked."""
        counts = "counts_only" if self._study.region.get("counts_only") else None
        warming = self._study.region.get("warming")
        if machine is not None and warming in ("functional", "untimed"):
            try:
                _run.check_functional([machine], {"start": None, "warming": warming})
            except RunError as error:
                self._mistakes.problem(error.code, ["warming"], str(error), error.hint or "")
                return None
        asked = self._asked_sample() or counts
        if machine is None or asked is None:
            return machine
        try:
            if counts:
                _counts.check_machines([machine])
            else:
                _sampling.check_machines([machine], warming)
        except RunError as error:
            plain = "for a run with times, leave it out" if counts else "leave it out"
            mend = error.hint or plain
            self._mistakes.problem(error.code, [asked], str(error), mend)
            return None
        return machine

    def _asked_sample(self) -> str | None:
        """What of the study asks for samples, if it does."""
        return next((key for key in ("sample", "precision") if self._study.region.get(key)), None)

    def _applies(self, path: str, number: int) -> bool:
        """Whether a machine takes the change of a path: as ``--set`` decides it."""
        if path not in self._taking:
            machines = json.dumps([one.to_dict() for _, one in self._systems])
            lost = len(self._systems) < len(self._study.systems)
            self._taking[path] = _core.applies_to(machines, path, lost)
        return self._taking[path][number]

    def _changed(
        self, given: str | System, plain: System, pairs: tuple[tuple[str, str], ...]
    ) -> System | None:
        try:
            if isinstance(given, System):
                return given.with_sets(pairs) if pairs else given
            (machine,) = _system.systems([given], pairs)
        except SpecError as error:
            for problem in error.problems:
                self._tell(problem, plain)
            return None
        return machine

    def _tell(self, problem: Problem, machine: System) -> None:
        """Tells of a mistake of a machine where the study makes it."""
        places = self._mistakes.places
        said = problem.place.removeprefix("--set ").partition("=")[0]
        for parameter in self._study.parameters:
            if said in parameter.paths or problem.path in parameter.paths:
                value = _as_written(problem.value, parameter.values.values)
                at = places.of("parameters", parameter.name, value=value)
                return self._add(problem, at, machine)
        for path in self._study.sets:
            if path in (said, problem.path):
                return self._add(problem, places.of("set", path), machine)
        return self._add(problem, places.of("systems", value=machine.name), machine)

    def _add(self, problem: Problem, at: str, machine: System) -> None:
        reason = problem.reason
        if len(self._systems) > 1:
            # What a machine lacks none has: else it would have been left as it is.
            *first, last = (one.name for _, one in self._systems)
            names = f"{', '.join(first)} and {last}"
            lacks = reason.removeprefix("this machine has no ")
            none = f"none of {names} has {lacks}"
            reason = f"of {machine.name}: {reason}" if lacks == reason else none
        self._mistakes.add(
            Problem(problem.code, problem.path, problem.value, reason, problem.mend, at)
        )

    def work(
        self, index: int, sets: Mapping[str, Value]
    ) -> Generated | Recorded | MemoryTrace | None:
        """The workload with what is set, or nothing where that is a mistake."""
        given = self._study.works[index]
        has = _parameters_of(given)
        own = {name: value for name, value in sets.items() if name in has or None in has}
        key = (index, json.dumps(own, sort_keys=True))
        if key not in self._works:
            self._works[key] = self._named(given, own)
        return self._works[key]

    def _named(
        self, given: Work, sets: dict[str, Value]
    ) -> Generated | Recorded | MemoryTrace | None:
        study = self._study
        name, parameters = given if isinstance(given, tuple) else (_name_of(given), {})
        at = self._place(given)
        try:
            if isinstance(given, tuple):
                own = ":" not in name or name.startswith("filebench:")
                seed = study.seed if own else None
                truncated = study.allow_truncated and name.startswith("trace:")
                said = {**parameters, **sets}
                work = _workload.named(name, said, seed, allow_truncated=truncated)
            elif isinstance(given, Program):
                file = self._recordings.get(name)
                work = _STAND_IN if file is None else Recorded(file)
                if file is None and name not in self._at_hand:
                    _run.check_program(given)
            elif sets and not isinstance(given, Recorded):
                said = {**given.parameters, **sets}
                seed = given.seed if isinstance(given, Generated) else None
                work = _workload.named(name, said, seed, allow_truncated=False)
            else:
                work = given
            self._check_repetitions(given if isinstance(given, Program) else work, name)
            if self._asked_sample() is not None:
                _sampling.check_work(work)
            files = _files_of(work)
            if files:
                self._content[name] = " ".join(_file_digest(file) for file in files)
                with core_errors():
                    _core.check_workload(json.dumps(work.to_dict()))
        except SpecError as error:
            for problem in error.problems:
                places = [
                    self._mistakes.places.of("parameters", p.name)
                    for p in study.parameters
                    if problem.path in p.paths
                ]
                self._add_plain(problem, places[0] if places else at)
            return None
        except TierscopeError as error:
            reason = str(error)
            if study.text:
                # What the command line calls so is a key of a study's file.
                reason = reason.replace("--allow-truncated", "allow_truncated = true")
            mend = error.hint or ""
            if isinstance(given, Program) and reason.startswith(given.command[0]):
                # The place names the program, and so does what stands before its reason.
                mend = mend or "name a program that can be run, by its path or as in PATH"
                reason = reason.removeprefix(f"{given.command[0]}: ")
            self._mistakes.add(Problem(error.code, "workloads", name, reason, mend, at))
            return None
        return work

    def _place(self, given: Work) -> str:
        """Where the study names a workload."""
        if isinstance(given, Program):
            return self._mistakes.places.of("workloads", value=list(given.command))
        name = given[0] if isinstance(given, tuple) else _name_of(given)
        return self._mistakes.places.of("workloads", value=Path(name).name if ":" in name else name)

    def _fit(self, machine: System, work: Generated | Recorded | MemoryTrace, index: int) -> bool:
        """Whether the machine takes workloads of the kind; that it does not is told.

        Whether this one fits in its memory, and comes to its region, is told when it runs, of each
        point by itself.
        """
        key = (index, machine.name, json.dumps({**work.to_dict(), "seed": None}, sort_keys=True))
        if key not in self._fits:
            given = self._study.works[index]
            what = _workload.on(work, [machine])
            assert not isinstance(what, Program), "a recording stands for a program"
            job = {"workload": what.to_dict(), "systems": [machine.to_dict()]}
            self._fits[key] = True
            try:
                with core_errors():
                    _core.check_job(_check.written(job, "the workload"))
            except TierscopeError as error:
                if error.code == "wrong-workload":
                    name = given[0] if isinstance(given, tuple) else _name_of(given)
                    mend = "in a study, leave one of the two out, or make a study of each"
                    told = Problem(
                        error.code, "workloads", name, str(error), mend, self._place(given)
                    )
                    self._mistakes.add(told)
                    self._fits[key] = False
        return self._fits[key]

    def _add_plain(self, problem: Problem, at: str) -> None:
        self._mistakes.add(
            Problem(problem.code, problem.path, problem.value, problem.reason, problem.mend, at)
        )

    def _check_repetitions(self, work: object, name: str) -> None:
        if self._study.repetitions > 1 and not isinstance(work, Generated):
            raise RunError(
                "no-effect",
                f"{name} is replayed: repetitions of it give the same, to the last digit",
                "leave `repetitions` out, or take a generated workload",
            )

    def _repeated(
        self, choice: Choice, machine: System, work: Generated | Recorded | MemoryTrace, index: int
    ) -> Iterator[Point]:
        given = self._study.works[index]
        label = given[0] if isinstance(given, tuple) else _name_of(given)
        for number in range(self._study.repetitions):
            one = replace(work, seed=work.seed + number) if isinstance(work, Generated) else work
            key = self._key(machine, one, label)
            yield Point(key, choice, machine, one, label, number + 1)

    def _key(self, machine: System, work: Generated | Recorded | MemoryTrace, label: str) -> str:
        said = {k: v for k, v in work.to_dict().items() if k != "path"}
        has_no_file = isinstance(work, Generated) and work.file is None
        return _digest(
            {
                "machine": _digest(_that_matters(machine)),
                "work": said,
                "content": None if has_no_file else self._content[label],
                "region": self._study.region,
                "version": _core.version(),
                "build": build(),
            }
        )


def written(value: Value) -> str:
    """A value as ``--set`` takes it."""
    return value if isinstance(value, str) else json.dumps(value)


def _as_written(shown: str, values: tuple[Value, ...]) -> Value | None:
    """The value of a list that a message shows, with or without quotation marks."""
    plain = shown.strip('"')
    return next((value for value in values if written(value) == plain), None)


def _parameters_of(work: Work) -> set[str | None]:
    """The parameters that a workload has; nothing among them where that is not known yet."""
    name = work[0] if isinstance(work, tuple) else _name_of(work)
    kind, colon, _ = name.partition(":")
    if isinstance(work, Program) or (colon and kind == "trace"):
        return set()
    listed = _formats() if colon else _generators()
    return listed.get(kind, {None})


@cache
def _generators() -> dict[str, set[str | None]]:
    return _listed(_core.list_workloads())


@cache
def _formats() -> dict[str, set[str | None]]:
    return _listed(_core.list_formats())


def _listed(text: str) -> dict[str, set[str | None]]:
    listed: dict[str, set[str | None]] = {}
    for one in parsed(text):
        listed.setdefault(one["name"], set()).update(p["name"] for p in one["parameters"])
    return listed


def _name_of(work: Generated | Recorded | MemoryTrace | Program) -> str:
    if isinstance(work, Program):
        return shlex.join(work.command)
    if isinstance(work, Generated):
        return work.name
    kind = "trace" if isinstance(work, Recorded) else work.format
    return f"{kind}:{work.path}"


def _files_of(work: Generated | Recorded | MemoryTrace) -> list[Path]:
    """The files that a workload is read from."""
    if isinstance(work, Generated):
        return [] if work.file is None else [work.file]
    return work.files if isinstance(work, MemoryTrace) else [Path(work.path)]


def _file_digest(path: Path) -> str:
    """A digest of a file's content."""
    mend = "name a file that can be read"
    try:
        if path.exists() and not path.is_file():
            raise RunError("unreadable", f"{path} is no regular file", mend)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:32]
    except OSError as error:
        why = f"{path} cannot be read: {error.strerror}"
        raise RunError("unreadable", why, mend) from None


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
