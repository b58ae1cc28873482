"""Why a run takes as long as it does: where most of the time goes, and which parameter weighs most.

Each number of a machine's description that can be is raised by a tenth, it alone, and the workload
runs again: what the time then changes by is measured, not guessed. Those of the parts that most of
the time goes to come first, so that what a bound cuts off weighs least.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tierscope import _check, _core, _system
from tierscope import format as fmt
from tierscope._region import Extent, Warming
from tierscope._result import Result
from tierscope._run import compare, region_of
from tierscope._shape import SystemResult, of_windows
from tierscope._system import System, with_names_told_apart
from tierscope._workload import Program, Workload, of, on
from tierscope.breakdown import groups_of, times_of, where
from tierscope.errors import RunError, SpecError
from tierscope.sweeps.execute import THREADS, processors, run_all, task
from tierscope.sweeps.points import Point
from tierscope.sweeps.sweep import SweepProgress, SweepWatcher

STEP = 0.1
"""What a parameter is raised by, as a share of it."""
_NEAR = 0.02
"""A raised whole number may differ from that by so much: of 10 it is 11, of 4 there is none."""
_FELT = 5e-5
"""Changes of the time that are told, as a share; smaller ones would be told as 0.00 %."""
POINTS = 40
"""Runs for each machine, unless it is said."""
_NO_TIME = ("voltage", "current", "energy", "power")
"""Kinds of quantities that no time depends on."""
_FIRST = {
    "processor": ("busy", "core and on-chip caches", "ready, no free core"),
    "os": ("operating system", "ready, no free core"),
    "storage": ("operating system",),
    "dram": ("DRAM", "controller"),
    "hybrid": ("controller", "DRAM", "store"),
    "hams": ("controller", "DRAM", "store"),
    "tiered": ("controller", "DRAM", "store"),
    "tiering": ("operating system", "controller", "DRAM", "store"),
    "direct": ("controller", "store"),
    "device": ("controller", "waiting at the door"),
    "block_device": ("block layer", "waiting at the door"),
    **dict.fromkeys(("link", "pcie", "sata", "cxl_mem"), ("links and DMA", "link")),
    **dict.fromkeys(("ddr_channel", "refresh_window"), ("links and DMA", "link")),
    **dict.fromkeys(("store", "ssd", "disk", "nvm"), ("store", "medium", "store's queue")),
}
"""Groups of owners of time that the parameters of a table may concern, by the table's name."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a parameter does.

    Attributes:
        path: the parameter, as ``--set`` takes it.
        value: what the machine has.
        tried: what it was raised to.
        change: by how much that is more, as a share: about 0.1.
        time_change: by how much the time changed, as a share.
    """

    path: str
    value: str
    tried: str
    change: float
    time_change: float

    @property
    def elasticity(self) -> float:
        """The change of the time over that of the parameter: 1 where both go alike."""
        return self.time_change / self.change


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one machine takes as long as it does.

    Attributes:
        system: the machine.
        groups: what its threads' time goes to, and its share, the most first.
        stage: the owner that has most of it, such as ``medium``.
        share: the share of that.
        effects: what each parameter does that was tried, the most first.
        left: parameters that a tenth more is impossible of: path, value and why.
        untried: parameters that a bound left out.
        failed: parameters whose run failed, and why.
        ended: what ended it before all were tried; none where nothing did.
        of_windows: whether the workload is a recording of windows: then all of this is of the
            windows and of all calls, not of the whole program.
    """

    system: str
    groups: tuple[tuple[str, float], ...]
    stage: str
    share: float
    effects: tuple[Effect, ...]
    left: tuple[tuple[str, str, str], ...]
    untried: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]
    ended: str | None
    of_windows: bool = False


@dataclass(frozen=True, slots=True)
class Why:
    """Why machines take as long as they do.

    Attributes:
        result: the run that is explained.
        reasons: one for each machine.
    """

    result: Result
    reasons: tuple[Reason, ...]

    def to_dict(self) -> list[dict[str, Any]]:
        """One object for each machine, for JSON."""
        return [
            {
                **{key: value for key, value in asdict(one).items() if key != "effects"},
                "effects": [{**asdict(e), "elasticity": e.elasticity} for e in one.effects],
            }
            for one in self.reasons
        ]

    def to_json(self) -> str:
        """The same as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)


def why(
    machines: Sequence[System | str],
    work: Workload | str,
    *,
    skip: Extent | None = None,
    limit: Extent | None = None,
    roi: bool = False,
    warming: Warming | None = None,
    points: int = POINTS,
    time_limit_s: float | None = None,
    workers: int | None = None,
    watch: SweepWatcher | None = None,
) -> Why:
    """Runs a workload, and again with each parameter of each machine raised by a tenth.

    An interrupt from the keyboard ends it; what there is then is returned.

    Args:
        machines: presets, files or systems.
        work: what runs; a program has to be recorded first.
        skip: as of :func:`compare`; so are those that follow.
        limit: see there; not in simulated time, which no parameter changes.
        roi: see there.
        warming: see there.
        points: how many parameters are tried of each machine, at most.
        time_limit_s: seconds for all, the run itself included.
        workers: how many run at a time; as many as there are processors unless given.
        watch: hears of the progress.

    Raises:
        SpecError: with every mistake of a description or workload.
        RunError: where the workload is a program, or what is asked for is impossible.
    """
    begun_s = time.monotonic()
    what = of(work)
    check(what, limit, points)
    loaded = with_names_told_apart(_system.machines(machines))
    how: dict[str, Any] = {"skip": skip, "limit": limit, "roi": roi, "warming": warming}
    result = compare(loaded, what, time_limit_s=time_limit_s, **how)
    left_s = None if time_limit_s is None else time_limit_s - (time.monotonic() - begun_s)
    return explain(result, loaded, what, how, points, left_s, workers, watch)


def check(work: Workload, limit: Extent | None, points: int) -> None:
    """Refuses what cannot be explained so, before anything runs.

    Raises:
        ArgumentError: where an argument is of the wrong type.
        RunError: where the workload is a program, or nothing could change.
    """
    if isinstance(work, Program):
        raise RunError(
            "usage",
            "why it takes its time is measured by running again, and a program would do all again",
            "record it first: tierscope record -o app.tst -- PROGRAM; then run -w trace:app.tst",
        )
    if limit is not None and "time_ps" in json.dumps(region_of(work, None, limit, False, None)):
        raise RunError(
            "usage",
            f"the run ends after {limit}, whatever a machine is like",
            "limit it by accesses or instructions",
        )
    if isinstance(points, bool) or not isinstance(points, int) or points < 1:
        mend = "write a whole number from 1 on"
        raise RunError("impossible-value", f"the points are {_check.shown(points)}", mend)


def explain(
    result: Result,
    machines: Sequence[System],
    work: Workload,
    how: dict[str, Any],
    points: int,
    left_s: float | None,
    workers: int | None,
    watch: SweepWatcher | None,
) -> Why:
    """Why the machines of a result take as long as they do; see :func:`why`."""
    named = with_names_told_apart(machines)
    machines = [one for one in named if one.name in result.data["systems"]]
    asked = [_Asked(one, result.data["systems"][one.name], points) for one in machines]
    total = sum(len(one.tried) for one in asked)
    region = {key: value for key, value in how.items() if value}
    until = None if left_s is None else time.monotonic() + left_s
    ended: str | None = None
    if result.interrupted or (until is not None and time.monotonic() >= until):
        ended = result.data["partial_reason"]
    done = failed = 0
    for number, one in enumerate(asked):
        if ended is not None:
            break
        now = time.monotonic()
        own = None if until is None else now + max(0.0, until - now) / (len(asked) - number)
        runs = one.run(on(work, machines), region, own, workers or processors())
        try:
            for is_failed in runs:
                done, failed = done + 1, failed + is_failed
                if watch is not None:
                    watch(SweepProgress(done, total, failed))
        except KeyboardInterrupt:
            ended = "it was interrupted"
        finally:
            runs.close()
    windows = of_windows(result.data["workload"])
    reasons = (replace(one.reason(ended), of_windows=windows) for one in asked)
    return Why(result, tuple(reasons))


class _Asked:
    """A machine, its changed copies, and what came of each."""

    def __init__(self, machine: System, found: SystemResult, points: int) -> None:
        self._found = found
        self._name = machine.name
        self._left: list[tuple[str, str, str]] = []
        self._effects: dict[str, Effect] = {}
        self._failed: dict[str, str] = {}
        able = list(self._changed(machine))
        heads = [path.partition(".")[0] for path, *_ in able]
        # Tables that concern the same group take turns.
        places = [(-self._weight(head), heads[:n].count(head), n) for n, head in enumerate(heads)]
        able = [able[n] for *_, n in sorted(places)]
        self.tried = able[:points]
        self._cut = [path for path, *_ in able[points:]]

    def _weight(self, table: str) -> float:
        """The time of the largest group that a table's parameters may concern."""
        labels = _FIRST.get(table, ())
        return max((s for group, s in where(self._found) if group.label in labels), default=0.0)

    def _changed(self, machine: System) -> Iterator[tuple[str, str, str, float, System]]:
        """Each parameter that a tenth more is possible of, with the machine that has it."""
        for path, value in _system.leaves("", machine.to_dict()):
            shown = value if isinstance(value, str) else json.dumps(value)
            raised = list(_raised(value))
            if raised == [None]:
                self._left.append((path, shown, "a whole number that a tenth more is none of"))
            why_not = ""
            for text, change in filter(None, raised):
                try:
                    yield path, shown, text, change, machine.with_sets([(path, text)])
                    break
                except SpecError as error:
                    why_not = error.problems[0].reason
            else:
                if why_not:
                    self._left.append((path, shown, why_not))

    def run(
        self, work: Any, region: dict[str, Any], until: float | None, workers: int
    ) -> Generator[bool]:
        """Runs the changed machines; gives for each whether it failed."""
        by_key = {path: (shown, text, change) for path, shown, text, change, _ in self.tried}
        tasks = [
            task(Point(path, {path: text}, machine, work, "", 1), region)
            for path, _, text, _, machine in self.tried
        ]
        records = run_all(tasks, THREADS, workers, until)
        try:
            for record in records:
                path = str(record["key"])
                is_failed = record["status"] == "failed"
                if is_failed:
                    self._failed[path] = record["error"]["message"]
                else:
                    (found,) = record["result"]["systems"].values()
                    change = _time_of(found) / _time_of(self._found) - 1
                    self._effects[path] = Effect(path, *by_key[path], change)
                yield is_failed
        finally:
            records.close()

    def reason(self, ended: str | None) -> Reason:
        """What came of it."""
        groups = sorted(where(self._found), key=lambda one: -one[1])
        total = sum(size for _, size in groups) or 1.0
        times = times_of(self._found)
        known = {owner for group in groups_of(self._found) for owner in group.owners}
        stage = max(sorted(set(times) & known), key=lambda one: times[one], default="")
        rest = [p for p, *_ in self.tried if p not in self._effects and p not in self._failed]
        if ended is None and rest:
            ended = "the time limit was reached"
        effects = sorted(self._effects.values(), key=lambda one: -abs(one.elasticity))
        return Reason(
            system=self._name,
            groups=tuple((group.label, size / total) for group, size in groups),
            stage=stage,
            share=times.get(stage, 0.0) / total,
            effects=tuple(effects),
            left=tuple(self._left),
            untried=(*rest, *self._cut),
            failed=tuple(self._failed.items()),
            ended=ended,
        )


def _time_of(system: SystemResult) -> float:
    """What is compared: the time of an access; of a device alone the mean latency of a request."""
    if system["device"] is not None and system["latency_ns"] is not None:
        return float(system["latency_ns"]["mean"])
    return float(system["time_s"]) / max(1, system["accesses"])


def _raised(value: object) -> Iterator[tuple[str, float] | None]:
    """A value a tenth larger, in forms that a machine may take, with by how much it is larger.

    Nothing where it is no number, or one that time does not depend on; ``None`` where it is a
    number of things that is too small for a tenth.
    """
    if isinstance(value, bool) or value == 0:
        return
    if isinstance(value, float):
        yield json.dumps(value * (1 + STEP)), STEP
    elif isinstance(value, int):
        more = round(value * (1 + STEP))
        yield (str(more), more / value - 1) if abs(more / value - 1 - STEP) <= _NEAR else None
    elif isinstance(value, str) and (quantity := _core.quantity(value)) is not None:
        kind, number = quantity
        if kind in _NO_TIME or not number:
            return
        # A size often has to be whole pages, or lines.
        for whole in (1 << 20, 1 << 12, 1 << 6, 1) if kind == "size" else (1,):
            more = round(number * (1 + STEP) / whole) * whole
            if abs(more / number - 1 - STEP) <= _NEAR:
                yield _core.print_quantity(kind, more), more / number - 1


def lines(reason: Reason, most: int = 10) -> list[str]:
    """The reasons of a machine, in words."""
    groups = ", ".join(f"{label} {fmt.percent(share)}" for label, share in reason.groups[:4])
    windows = ", of the recorded windows and calls alone" if reason.of_windows else ""
    told = [f"Why {reason.system}{windows}: {groups}."]
    if reason.stage:
        told[0] += f" The stage with the most: {reason.stage}, {fmt.percent(reason.share)}."
    felt = [one for one in reason.effects if abs(one.time_change) >= _FELT]
    found = felt[:most]
    width = max((len(f"{one.path} = {one.value}") for one in found), default=0)
    for one in found:
        named = f"{one.path} = {one.value}".ljust(width)
        told.append(
            f"  {named}  to {one.tried}: {100 * one.time_change:+.2f} % of the time, "
            f"elasticity {one.elasticity:+.3f}"
        )
    if any(abs(one.elasticity) > 1 for one in found):
        told.append(
            "  More than 1 is more than proportion: events have come in another order, which a "
            "longer run or another seed may not repeat."
        )
    if not found and reason.effects:
        told.append("  No parameter that was tried changes the time.")
    none, more = len(reason.effects) - len(felt), len(felt) - len(found)
    rest = [f"{more} change less"] if more else []
    rest += [f"{none} change nothing"] if none and found else []
    left = f"{len(reason.left)} cannot be a tenth larger (--json names them)"
    rest += [left] if reason.left else []
    rest += [f"{len(reason.failed)} failed"] if reason.failed else []
    if reason.untried:
        why_not = f": {reason.ended}" if reason.ended else ""
        rest.append(f"{len(reason.untried)} were not tried{why_not}")
    return [*told, f"  Of the others, {'; '.join(rest)}."] if rest else told
