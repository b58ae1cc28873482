"""Studies: what a sweep varies, over which systems and workloads."""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from tierscope import _check, _core, _sampling
from tierscope._files import read_text, toml_mistake
from tierscope._region import Extent, Warming
from tierscope._system import System
from tierscope._workload import Generated, MemoryTrace, Program, Recorded
from tierscope.errors import Problem, SpecError, TierscopeError
from tierscope.sweeps.design import Kind, Parameter, Value
from tierscope.sweeps.mistakes import Mistakes
from tierscope.sweeps.parameters import read_design, read_parameters
from tierscope.sweeps.places import Places

KEYS = (
    "name",
    "description",
    "systems",
    "workloads",
    "repetitions",
    "seed",
    "skip",
    "limit",
    "roi",
    "warming",
    "sample",
    "precision",
    "allow_truncated",
    "time_limit_s",
    "counts_only",
    "set",
    "design",
    "parameters",
)
"""What a study may say."""
WORKLOAD_KEYS = ("name", "parameters")
_PROGRAM_KEYS = ("program", "roi_start", "roi_stop")
_MOST_REPETITIONS = 10_000
_MOST_SEED = (1 << 64) - 1

NamedWork = tuple[str, dict[str, Value]]
"""A workload by name, with its own parameters."""
Work = NamedWork | Generated | Recorded | MemoryTrace | Program


@dataclass(frozen=True, slots=True)
class Design:
    """How the values of parameters are combined.

    Attributes:
        kind: grid, list, random or latin-hypercube.
        points: combinations of a random design.
        seed: seed of a random design.
    """

    kind: Kind = "grid"
    points: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Study:
    """What a sweep runs; made by :func:`study` or :func:`read`.

    Attributes:
        name: its name, in titles.
        description: what it is for; may be empty.
        systems: presets, files or systems.
        works: what runs on each of them.
        repetitions: how many seeds each point of a generated workload runs with.
        seed: the first of them.
        region: ``skip``, ``limit``, ``roi``, ``warming``, ``sample``, ``precision`` and
            ``time_limit_s``, as of ``run``; ``counts_only`` where no times are asked for.
        sets: values that all points have, by path.
        design: how values are combined.
        parameters: what varies.
        mistakes: where its mistakes go.
        allow_truncated: whether of damaged recordings what precedes the damage is replayed.
        text: the file's text; empty where there was none.
    """

    name: str
    description: str
    systems: tuple[str | System, ...]
    works: tuple[Work, ...]
    repetitions: int
    seed: int
    region: dict[str, Any]
    sets: dict[str, Value]
    design: Design
    parameters: tuple[Parameter, ...]
    mistakes: Mistakes = field(compare=False, repr=False)
    allow_truncated: bool = False
    text: str = field(default="", compare=False, repr=False)


def study(
    systems: Sequence[System | str],
    workloads: Sequence[Generated | Recorded | MemoryTrace | Program | str],
    parameters: Mapping[str, object] | None = None,
    *,
    name: str = "sweep",
    description: str = "",
    design: str | Mapping[str, object] = "grid",
    set: Mapping[str, object] | None = None,  # noqa: A002 - as in a file
    repetitions: int = 1,
    seed: int = 0,
    skip: Extent | None = None,
    limit: Extent | None = None,
    roi: bool = False,
    warming: Warming | None = None,
    sample: bool = False,
    precision: _sampling.Precision | None = None,
    time_limit_s: float | None = None,
    counts_only: bool = False,
    allow_truncated: bool = False,
) -> Study:
    """What a sweep runs, as a file of a study says it.

    Args:
        systems: presets, TOML files, or systems made already.
        workloads: names, ``trace:FILE``, ``FORMAT:FILE``, or what :func:`workload` or
            :func:`program` gives. A program is recorded once, as the sweep begins.
        parameters: what varies, by path or by a name: a list of values, or a dictionary of
            ``values`` or of ``from`` and ``to`` (with ``steps``, ``scale``, ``multiple_of``), with
            ``paths`` where one name stands for several.
        name: its name, in titles.
        description: what it is for.
        design: ``grid``, ``list``, ``random`` or ``latin-hypercube``; the last two as a
            dictionary ``{"kind": "random", "points": 50, "seed": 1}``.
        set: values that all points have, by path.
        repetitions: how many seeds each point of a generated workload runs with.
        seed: the first of them.
        skip: as of :func:`compare`, of each point; so are those that follow.
        limit: see there.
        roi: see there.
        warming: see there.
        sample: see there.
        precision: see there.
        time_limit_s: see there.
        counts_only: asks for counts alone, of accesses, hits, misses and write-backs, and not for
            times: points that differ in their DRAM caches share one functional pass.
        allow_truncated: replays of a damaged recording, by name, what precedes the damage.

    Raises:
        ArgumentError: where an argument is of the wrong type.
        SpecError: with every mistake of the study.
    """
    said: dict[str, Any] = {
        "name": name,
        "description": description,
        "systems": systems,
        "workloads": workloads,
        "repetitions": repetitions,
        "seed": seed,
        "skip": skip,
        "limit": limit,
        "roi": roi,
        "warming": warming,
        "sample": sample or None,
        "precision": precision,
        "time_limit_s": time_limit_s,
        "counts_only": counts_only or None,
        "allow_truncated": allow_truncated or None,
        "set": dict(_check.mapping(set or {}, "what is set")),
        "design": {"kind": design} if isinstance(design, str) else design,
        "parameters": dict(_check.mapping(parameters or {}, "the parameters")),
    }
    given = {key: value for key, value in said.items() if value is not None}
    return made(given, Mistakes(Places("", "")), Path(), "sweep", "")


def read(path: str | os.PathLike[str], further: Sequence[Program] = ()) -> Study:
    """A study that a TOML file describes. Files that it names lie relative to its folder.

    Args:
        path: the file.
        further: programs that are workloads, too, behind those that it names, which then may be
            none.

    Raises:
        SpecError: with every mistake of its form.
        TierscopeError: where it cannot be read.
    """
    file = Path(
        _check.path(path, "a study's file", 'write a path, such as "study.toml"', ours=True)
    )
    mend = "name a TOML file that describes a study; docs/guide/sweeps.md shows one"
    text = read_text(file, "a study", mend)
    try:
        said = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpecError([_bad_syntax(file, toml_mistake(error))]) from None
    if further:
        named = said.get("workloads", [])
        said["workloads"] = [*named, *further] if isinstance(named, list) else named
    return made(said, Mistakes(Places(str(file), text)), file.parent, file.stem, text)


def _bad_syntax(file: Path, error: str) -> Problem:
    """The mistake of a text that is no TOML, with the place that the parser names."""
    reason, _, at = error.partition(" (at ")
    numbers = [word for word in at.replace(",", " ").replace(")", " ").split() if word.isdigit()]
    place = ":".join([str(file), *numbers])
    told = f"{reason[:1].lower()}{reason[1:]}"
    told += "" if numbers or not at else f" at the {at.removesuffix(')')}"
    return Problem("bad-syntax", "study", "", told, "write TOML: https://toml.io", place)


def made(said: Mapping[str, Any], mistakes: Mistakes, folder: Path, name: str, text: str) -> Study:
    """A study of what is said, once its form is right.

    Args:
        said: its keys, as a file has them.
        mistakes: where its mistakes go.
        folder: what files that it names lie relative to.
        name: its name, unless it says one.
        text: the file's text; empty where there is none.

    Raises:
        SpecError: with every mistake of its form.
    """
    for key in said:
        if key not in KEYS:
            mend = _check.meant(key, KEYS, f"the keys are {', '.join(KEYS)}")
            mistakes.problem("unknown-key", [key], f"a study has no key `{key}`", mend)
    found = Study(
        name=_text(said, "name", name, mistakes) or name,
        description=_text(said, "description", "", mistakes),
        systems=tuple(_systems(said.get("systems"), mistakes, folder)),
        works=tuple(_works(said.get("workloads"), mistakes, folder)),
        repetitions=_whole(said, "repetitions", 1, 1, _MOST_REPETITIONS, mistakes),
        seed=_whole(said, "seed", 0, 0, _MOST_SEED, mistakes),
        region=_region(said, mistakes),
        sets=_sets(said.get("set", {}), mistakes),
        design=Design(**read_design(said.get("design", {}), mistakes)),
        parameters=(),
        mistakes=mistakes,
        allow_truncated=_allowed(said, mistakes),
        text=text,
    )
    parameters = read_parameters(said.get("parameters", {}), found.design.kind, mistakes)
    for parameter in parameters:
        for path in set(parameter.paths) & set(found.sets):
            mend = "leave one of them out"
            reason = f"`{path}` is set for all points, and is varied by `{parameter.name}`"
            mistakes.problem("contradiction", ["set", path], reason, mend)
    _check_seeds(found, mistakes)
    if mistakes.found:
        from tierscope.sweeps.points import tell_of_parts

        tell_of_parts(found)
    mistakes.check()
    return replace(found, parameters=tuple(parameters))


def _check_seeds(found: Study, mistakes: Mistakes) -> None:
    """Refuses seeds of repetitions that go beyond what a seed can be."""
    if found.seed + found.repetitions - 1 > _MOST_SEED:
        reason = f"{found.repetitions} seeds from it on go beyond the largest, {_MOST_SEED}"
        mend = f"write {_MOST_SEED - found.repetitions + 1} or less"
        mistakes.problem("impossible-value", ["seed"], reason, mend, found.seed)


def _text(said: Mapping[str, Any], key: str, default: str, mistakes: Mistakes) -> str:
    value = said.get(key, default)
    if isinstance(value, str):
        return value
    mistakes.problem("wrong-type", [key], "that is no text", "write a text", value)
    return default


def _allowed(said: Mapping[str, Any], mistakes: Mistakes) -> bool:
    """Whether damaged recordings are replayed up to the damage; there has to be one by name."""
    value: object = said.get("allow_truncated", False)
    if not isinstance(value, bool):
        reason = "that is neither true nor false"
        mend = "write true or false, without quotes"
        mistakes.problem("wrong-type", ["allow_truncated"], reason, mend, value)
        return False
    works = said.get("workloads")
    named = [
        one["name"] if isinstance(one, Mapping) and "name" in one else one
        for one in (works if isinstance(works, list | tuple) else ())
    ]
    if value and not any(isinstance(name, str) and name.startswith("trace:") for name in named):
        reason = "no workload is a recording by its name"
        mistakes.problem("no-effect", ["allow_truncated"], reason, "leave it out")
    return value


def _whole(
    said: Mapping[str, Any], key: str, default: int, least: int, most: int, mistakes: Mistakes
) -> int:
    value = said.get(key, default)
    mend = f"write a whole number from {least} to {most}"
    if not isinstance(value, int) or isinstance(value, bool):
        mistakes.problem("wrong-type", [key], "that is no whole number", mend, value)
    elif not least <= value <= most:
        mistakes.problem("impossible-value", [key], "it is out of range", mend, value)
    else:
        return value
    return default


def _systems(given: object, mistakes: Mistakes, folder: Path) -> list[str | System]:
    mend = 'write systems = ["hybrid/quick", "storage/quick"], of presets and TOML files'
    if given is None:
        mistakes.problem("missing", ["systems"], "there is no system", mend)
        return []
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence) or not given:
        reason = "there is no system in it" if given == [] else "that is no list of systems"
        mistakes.problem("wrong-type", ["systems"], reason, mend, given)
        return []
    presets = {name for name, _ in _presets()}
    found: list[str | System] = []
    for index, one in enumerate(given):
        if isinstance(one, str):
            found.append(
                one if one in presets or not (folder / one).is_file() else str(folder / one)
            )
        elif isinstance(one, System):
            found.append(one)
        else:
            mistakes.problem("wrong-type", ["systems"], "that is no system", mend, one, index)
    return found


def _presets() -> list[tuple[str, str]]:
    from tierscope._call import parsed

    listed: list[tuple[str, str]] = parsed(_core.list_systems())
    return listed


def _works(given: object, mistakes: Mistakes, folder: Path) -> list[Work]:
    mend = 'write workloads = ["gups", "trace:app.tst"]; tierscope show workloads lists them'
    if given is None:
        mistakes.problem("missing", ["workloads"], "there is no workload", mend)
        return []
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence) or not given:
        reason = "there is no workload in it" if given == [] else "that is no list of workloads"
        mistakes.problem("wrong-type", ["workloads"], reason, mend, given)
        return []
    found: list[Work] = []
    for index, one in enumerate(given):
        if isinstance(one, Generated | Recorded | MemoryTrace | Program):
            found.append(one)
        elif isinstance(one, Mapping) and "program" in one:
            found += _program(one, mistakes, index)
        elif isinstance(one, str):
            found.append((_in_folder(one, folder), {}))
        elif isinstance(one, Mapping) and isinstance(one.get("name"), str):
            found.append(_named_work(one, mistakes, folder))
        else:
            reason = "that is no workload"
            mistakes.problem("wrong-type", ["workloads"], reason, mend, one, index)
    return found


def _program(given: Mapping[str, Any], mistakes: Mistakes, index: int) -> list[Work]:
    """A program that a table names, with its arguments; nothing where that is a mistake."""
    mend = 'write { program = ["./app", "--size", "10"] }, with roi_start and roi_stop if need be'
    for key in given:
        if key not in _PROGRAM_KEYS:
            meant = _check.meant(key, _PROGRAM_KEYS, f"its keys are {', '.join(_PROGRAM_KEYS)}")
            reason = f"a program of a study has no key `{key}`"
            mistakes.problem("unknown-key", ["workloads", key], reason, meant)
    command = given["program"]
    try:
        return [Program(command, roi_start=given.get("roi_start"), roi_stop=given.get("roi_stop"))]
    except TierscopeError as error:
        told = error.hint or mend
        mistakes.problem(error.code, ["workloads"], str(error), told, command, index)
        return []


def _named_work(given: Mapping[str, Any], mistakes: Mistakes, folder: Path) -> NamedWork:
    for key in given:
        if key not in WORKLOAD_KEYS:
            mend = _check.meant(key, WORKLOAD_KEYS, "its keys are name and parameters")
            reason = f"a workload of a study has no key `{key}`"
            mistakes.problem("unknown-key", ["workloads", key], reason, mend)
    parameters = given.get("parameters", {})
    if not isinstance(parameters, Mapping):
        mend = "write parameters = { updates = 1000 }"
        reason = "parameters are no table"
        mistakes.problem("wrong-type", ["workloads", "parameters"], reason, mend, parameters)
        parameters = {}
    return _in_folder(given["name"], folder), dict(parameters)


def _in_folder(name: str, folder: Path) -> str:
    """The name of a workload whose file, if it has one, lies in the study's folder."""
    kind, colon, file = name.partition(":")
    if colon and not Path(file).is_absolute() and (folder / file).is_file():
        return f"{kind}:{folder / file}"
    files = file.split(",")
    if len(files) > 1 and all((folder / one).is_file() for one in files):
        return f"{kind}:{','.join(str(folder / one) for one in files)}"
    return name


def _region(said: Mapping[str, Any], mistakes: Mistakes) -> dict[str, Any]:
    """What of each run is counted, checked as a run checks it."""
    from tierscope import _region as region

    keys = ("skip", "limit", "roi", "warming", "sample", "precision", "time_limit_s", "counts_only")
    found = {key: said[key] for key in keys if key in said}
    checks = {
        "skip": lambda value: region.bound("skip", value),
        "limit": lambda value: region.bound("limit", value),
        "roi": lambda value: _check.flag(value, "roi"),
        "sample": lambda value: _check.flag(value, "sample"),
        "precision": _sampling.share,
        "time_limit_s": _check.time_limit,
    }
    for key, check in checks.items():
        if key in found:
            try:
                check(found[key])
            except TierscopeError as error:
                mistakes.problem(error.code, [key], str(error), error.hint or "mend it", found[key])
    if found.get("warming") not in (None, *get_args(Warming)):
        mend = 'write "functional", "detailed" or "untimed"'
        mistakes.problem(
            "unknown-value", ["warming"], "there is no such warming", mend, found["warming"]
        )
    elif "warming" in found:
        _check_warming(found, mistakes)
    _check_counts(found, mistakes)
    return found


def _check_warming(found: Mapping[str, Any], mistakes: Mistakes) -> None:
    """Refuses a warming of nothing, and one without detail where a time is skipped."""
    from tierscope import _region as region

    if not found.get("skip") and not found.get("roi"):
        # Whether what is passed over needs it is known of the machines.
        if not warms_between_alone(found):
            tell_of_nothing(found, mistakes)
        return
    with contextlib.suppress(TierscopeError):
        if (
            found["warming"] != "detailed"
            and "skip" in found
            and "time_ps" in region.bound("skip", found["skip"])
        ):
            reason = "a time is skipped, and only warming in detail takes any"
            mend = 'skip accesses, such as "1M", or "2G instructions"; or write "detailed"'
            mistakes.problem("contradiction", ["warming"], reason, mend, found["warming"])


def warms_between_alone(region: Mapping[str, Any]) -> bool:
    """Whether nothing comes before the region, and what is passed over is warmed without times."""
    before = region.get("skip") or region.get("roi")
    sampled = region.get("sample") or region.get("precision")
    return region.get("warming") == "untimed" and bool(sampled) and not before


def region_on(machine: System, region: Mapping[str, Any]) -> dict[str, Any]:
    """What a machine's run is told of the region: no warming that is of other machines alone."""
    others = warms_between_alone(region) and not _sampling.passes_untimed([machine], sampled=True)
    return {key: value for key, value in region.items() if not (others and key == "warming")}


def tell_of_nothing(region: Mapping[str, Any], mistakes: Mistakes) -> None:
    """Adds that a warming is of nothing."""
    reason = "nothing comes before the region whose warming that could be"
    mend = "say what is skipped (skip), or where the program begins the region (roi)"
    mistakes.problem("contradiction", ["warming"], reason, mend, region["warming"])


def _check_counts(found: dict[str, Any], mistakes: Mistakes) -> None:
    """Refuses what has a meaning with times alone, where only counts are asked for."""
    from tierscope import _region as region

    asked = found.get("counts_only", False)
    if not isinstance(asked, bool):
        reason = "that is neither true nor false"
        mend = "write true or false, without quotes"
        mistakes.problem("wrong-type", ["counts_only"], reason, mend, asked)
    if asked is not True:
        found.pop("counts_only", None)
        return
    for key in ("warming", "sample", "precision", "time_limit_s"):
        if found.get(key):
            reason = "counts_only asks for no times: the whole run is one functional pass"
            mistakes.problem("contradiction", [key], reason, "leave one of them out", found[key])
    for key in ("skip", "limit"):
        with contextlib.suppress(TierscopeError):
            if key in found and "time_ps" in region.bound(key, found[key]):
                reason = "counts_only asks for no times, and this is one"
                mend = 'write accesses, such as "1M", or "2G instructions"'
                mistakes.problem("contradiction", [key], reason, mend, found[key])


def _sets(given: object, mistakes: Mistakes) -> dict[str, Value]:
    """Values of all points, by path, of tables within tables too."""
    mend = 'write a table: [set] and below it "workload.updates" = 20000'
    if not isinstance(given, Mapping):
        mistakes.problem("wrong-type", ["set"], "that is no table", mend, given)
        return {}
    found: dict[str, Value] = {}
    for path, value in _leaves("", given):
        if isinstance(value, bool | int | float | str):
            found[path] = value
        else:
            mistakes.problem("wrong-type", ["set", path], "that is no single value", mend, value)
    return found


def _leaves(above: str, table: Mapping[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in table.items():
        path = f"{above}.{key}" if above else key
        found += _leaves(path, value) if isinstance(value, Mapping) else [(path, value)]
    return found
