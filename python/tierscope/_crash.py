"""Failures of power: where they come, what recovery makes of them, and what was promised."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, get_args

from rich.table import Table

from tierscope import _check, _core, _crash_timeline, _system, _workload
from tierscope import format as fmt
from tierscope._call import core_errors, parsed
from tierscope._system import System
from tierscope._workload import Program, Recorded, Workload
from tierscope.errors import ArgumentError, RunError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Weakness = Literal[
    "no-journal-tags",
    "no-capacitors",
    "no-clones",
    "no-busy-bits",
    "early-completion",
    "no-backup",
    "early-commit",
    "unordered-data",
    "no-battery",
    "no-line-write-back",
]
"""What can be left out on purpose, so that the check has something to find."""

MOST_POINTS = 1_000_000
"""Points of a report: more take days."""

_JUDGED = {
    "lines": ("line", "lines"),
    "pages": ("page", "pages"),
    "files": ("page, file or block of metadata", "pages, files and blocks of metadata"),
}
"""What is compared, one and many."""

_SAVED = {
    "nvdimm": "lines found in saved NVDIMM",
    "commands_again": "lines of commands carried out again",
    "capacitor_pages": "pages kept by capacitors or a battery",
}


@dataclass(frozen=True, slots=True)
class CrashReport:
    """What came of failures of power.

    Attributes:
        data: the report as the simulator gives it: points, faults by kind, failing points, times in
            seconds, energy in joules; ``docs/models/power-failure.md`` tells of it.
        command: the command that replays, without its options.
    """

    data: dict[str, Any]
    command: str

    @property
    def holds(self) -> bool:
        """Whether every promise was kept at every point."""
        return bool(self.data["failing_points"] == 0)

    def to_json(self) -> str:
        """The report as a JSON object."""
        return json.dumps(self.data, ensure_ascii=False, indent=2)

    def table(self) -> Table:
        """What was tried, what was found, and what it took, for people."""
        data = self.data
        table = Table(box=None, show_header=False, title=f"Failures of power: {data['system']}")
        for label, value in self._rows(data):
            table.add_row(label, value)
        return table

    def _rows(self, data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        if data["weaken"]:
            yield "left out on purpose", ", ".join(data["weaken"])
        for what, promise in (data["guarantees"] or {}).items():
            yield f"promise of a {what}" if what != "fua" else "promise of FUA", promise
        yield "points", f"{data['points']} of {data['events']} events, {data['chosen']}"
        yield "of these failed again in recovery", str(data["second_cuts"])
        for kind, count in data["under_way"].items():
            if count:
                yield f"  with {kind} under way", str(count)
        if data["syncs"] is not None:
            yield "syncs that had returned", str(data["syncs"])
        judged = _JUDGED[data["judged"]][1]
        yield f"{judged} compared", f"{data['lines']}, {data['promised_lines']} of them promised"
        for harm, count in data["faults"].items():
            yield f"{'of them' if data['judged'] == 'files' else judged} {harm}", str(count)
        if data["stale_permitted"]:
            yield "pages stale, which is permitted", str(data["stale_permitted"])
        yield "points that break a promise", str(data["failing_points"])
        for by, label in _SAVED.items():
            yield label, str(data["saved"][by])
        yield "commands carried out again", str(data["reissued"])
        if data["replayed_transactions"]:
            yield "transactions carried out again", str(data["replayed_transactions"])
        yield "pages torn, lost from buffers", f"{data['torn_pages']}, {data['lost_pages']}"
        if data["short_points"]:
            yield "points at which capacitors were empty too soon", str(data["short_points"])
        for key, label, shown in (
            ("hold_s", "goes on without power", fmt.seconds),
            ("recovery_s", "recovery", fmt.seconds),
            ("reissue_s", "  of it, doing again", fmt.seconds),
            ("energy_j", "energy", fmt.joules),
        ):
            yield (
                label,
                _range(data[key], shown, data["untold"] or "a part does not tell its power"),
            )
        yield "points a second", fmt.plain(data["points_per_wall_s"])

    def remark(self) -> str:
        """What is to be known of a recording that is cut, and of promises where there were none.

        Metadata of a file system counts for none: it is as of the last commit, whoever asked.
        """
        cut = self.data.get("damage")
        told = [f"Partial: the recording is cut short: {cut}"] if cut else []
        early = self.data.get("ended_early")
        told += [f"Partial: {early}"] if early else []
        if self.data.get("in_memory") and self.data["failing_points"] and not self.data["weaken"]:
            told.append(
                "A sync of a disk in memory writes no lines of the on-chip caches back, as Linux's "
                "does not: what they still hold is lost, and promises are broken by design."
            )
        return "\n".join(filter(None, [*told, self._unpromised()]))

    def _unpromised(self) -> str:
        data = self.data
        if data["failing_points"]:
            return ""
        if data["syncs"] == 0:
            return (
                "nothing was promised: no sync (fsync, fdatasync, msync, sync) of a file had "
                "returned before these points, so that none could be broken; let the workload "
                "sync, or try later points (--window)"
            )
        if not data["promised_lines"]:
            judged = _JUDGED[data["judged"]][1]
            return (
                f"nothing was promised of the {judged} at these points, so that no promise could "
                "be broken; what is promised, and when, the rows above say"
            )
        return ""

    def failing(self, most_faults: int = 8) -> Iterator[str]:
        """The points that break a promise, a line each, with the command that replays each.

        Of a point that was replayed, what is wrong, too.

        Args:
            most_faults: so many of these are told one by one; the object has up to 64.
        """
        weaken = "".join(f" --weaken {one}" for one in self.data["weaken"])
        seed = f" --seed {self.data['seed']}" if self.data["seed"] else ""
        for one in self.data["failing"]:
            judged = _JUDGED[self.data["judged"]][one["lines"] != 1]
            under_way = ", ".join(one["under_way"]) or "nothing"
            yield f"point {one['point']}: {one['lines']} {judged}, with {under_way} under way"
            told = one["faults"][:most_faults] if self.data["timeline"] else []
            yield from (f"  {_fault(fault)}" for fault in told)
            if told and one["lines"] > len(told):
                yield f"  … and {one['lines'] - len(told)} more (--json tells up to 64)"
            yield f"  {self.command}{weaken}{seed} --replay {one['point']}"
        more = self.data["failing_points"] - len(self.data["failing"])
        if more > 0:
            yield f"{more} further points break a promise"

    def timeline(self) -> str:
        """Of a point that was replayed, its last requests, the failure and the recovery.

        A line a request: what it is, where, when it was issued, acknowledged and from when on it
        was promised to survive, each as time before the cut, and what recovery has left of it.
        Nothing where no point was replayed.
        """
        return _crash_timeline.text(self.data)

    def plot_timeline(self) -> Figure:
        """The timeline of a point that was replayed, a row a request, and what was under way.

        Raises:
            RunError: where no point was replayed.
        """
        if not self.data["timeline"]:
            raise RunError("no-timeline", "only a point that is replayed has one", "name a point")
        return _crash_timeline.figure(self.data)


def _fault(fault: Mapping[str, Any]) -> str:
    """What is wrong with a line, a page, a file or a block of metadata."""
    what = fault["what"] or f"{fault['address']:#x}"
    found, promised = fault["found"], fault["promised"]
    if promised is None:
        wanted = "a sync has promised a size that no change of the file has"
    else:
        wanted = f"version {promised} was promised" if promised else "nothing was promised of it"
    match fault["harm"], found:
        case "stale", _:
            is_there = "it shows what its block held before it was the file's"
        case "unreadable", _:
            is_there = "reading it fails"
        case "invented", None:
            is_there = "what is there belongs to something else"
        case "invented", _:
            is_there = f"version {found} is there, which was never written to it"
        case _, None:
            is_there = "its block holds what it did before it was written"
        case _, 0:
            is_there = "nothing that was written to it is there"
        case _:
            is_there = f"version {found} is there"
    return f"{what} is {fault['harm']}: {is_there}; {wanted}"


def _range(value: Mapping[str, float] | None, shown: Any, untold: str) -> str:
    if value is None:
        return f"\u2013 ({untold})"
    return f"{shown(value['mean'])} ({shown(value['least'])} to {shown(value['most'])})"


def crash(
    machine: System | str,
    work: Workload | str,
    *,
    points: int | None = None,
    window: str | None = None,
    seed: int = 0,
    adversarial: bool = False,
    weaken: Weakness | Sequence[Weakness] = (),
    replay: str | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> CrashReport:
    """Lets power fail at chosen points of a run, recovers, and compares every line.

    The workload runs once; at each point a copy of what lies below the caches loses its power, or
    of a drive alone, which is judged page by page, as are files of a machine with a file system.
    Every other point fails again in the middle of its recovery.

    Args:
        machine: a system, or the name of a preset or file: a machine, or a drive alone.
        work: what runs, or its name; not a program, which is recorded first. Of a drive alone a
            pattern or a trace of requests, with flushes, trims and forced writes added.
        points: so many, drawn by seed; ``None`` for every event of the window.
        window: from when until when, in simulated time: ``"2us..5us"``, ``"1ms.."``.
        seed: of the choice of points.
        adversarial: points lie where something is under way that could be harmed.
        weaken: safeguards that are left out.
        replay: one point, as a report names it, alone and with its timeline.
        watch: is called while it goes on, with the events that were looked at to choose points, and
            the points that were judged.

    Raises:
        SpecError: with every mistake of a description or workload.
        ArgumentError: where an argument is of the wrong type.
        RunError: where the machine has no model of failures of power, the run cannot be, or nothing
            was compared.
    """
    loaded = _system.machines([machine])
    what = _workload.on(_workload.of(work), loaded)
    if isinstance(what, Program):
        raise _workload.without_effect("a failure of power", "a program: record it, and replay it")
    _check_points(points)
    if replay is not None and (points is not None or window is not None or adversarial):
        raise ArgumentError(
            "both",
            "a point that is replayed is the only one",
            "leave points, window and adversarial points out; or replay",
        )
    weak = [weaken] if isinstance(weaken, str) else list(weaken)
    for one in weak:
        if one not in get_args(Weakness):
            known = ", ".join(get_args(Weakness))
            raise ArgumentError(
                "unknown-value", f"no safeguard is called {one!r}", f"write {known}"
            )
    options = {
        "points": points,
        "adversarial": _check.flag(adversarial, "adversarial points"),
        "window_ps": _window(window),
        "seed": _check.seed(seed),
        "weaken": weak,
        "replay": None if replay is None else _point(replay),
    }
    job = {"system": loaded[0].to_dict(), "workload": what.to_dict(), "options": options}
    with core_errors():
        data = parsed(_core.crash(_check.written(job, "the workload"), watch))
        data["damage"] = None
        data["in_memory"] = "ramdisk" in loaded[0].to_dict()
        if isinstance(what, Recorded) and what.allow_truncated:
            data["damage"] = parsed(_core.trace_info(os.fspath(what.path), True))["damage"]
    if not data["lines"] and data["ended_early"]:
        reason, _, mend = data["ended_early"].rpartition("; ")
        raise RunError("nothing-compared", f"nothing was compared: {reason}", mend)
    if not data["lines"] and "processor" not in loaded[0].to_dict():
        raise RunError(
            "nothing-compared",
            "nothing was compared: nothing had been written",
            "let the workload write (--set workload.reads=0.5), and more points lie behind",
        )
    if not data["lines"] and "storage" in loaded[0].to_dict():
        raise RunError(
            "nothing-compared",
            "nothing was compared: no page of a file had been written to the store",
            "of what has no file nothing is promised, and swap is worth nothing after a restart: "
            "let the workload write files and sync them, and more points lie behind",
        )
    if not data["lines"]:
        raise RunError(
            "nothing-compared",
            "nothing was compared: no line that was written had left the on-chip caches",
            "let the workload write more than they hold, or make them smaller (--set "
            "processor.caches.NAME.capacity=…)",
        )
    name = machine if isinstance(machine, str) else machine.name
    told = work if isinstance(work, str) else getattr(what, "name", "WORKLOAD")
    return CrashReport(data, f"tierscope crash {name} -w {told}")


def _check_points(points: object) -> None:
    """Refuses what is no number of points.

    Raises:
        ArgumentError: where it is none.
    """
    if points is None:
        return
    if isinstance(points, bool) or not isinstance(points, int):
        raise ArgumentError("wrong-type", f"points is {_check.shown(points)}", "write 1000")
    mend = f"write 1 to {MOST_POINTS}, or leave it out for every event of the window"
    if points < 1:
        raise ArgumentError("out-of-range", f"at {points} points nothing is tried", mend)
    if points > MOST_POINTS:
        reason = f"{points} points take days, at some hundred a second"
        raise ArgumentError("out-of-range", reason, mend)


def _point(text: object) -> str:
    if isinstance(text, str) and re.fullmatch(r"[0-9]{1,19}(\+[1-9][0-9]{0,18})?", text):
        return text
    raise ArgumentError(
        "bad-point", f"{_check.shown(text)} is no point", "write what a report names, as 1200+37"
    )


def _window(text: object) -> list[int] | None:
    """Two times, in picoseconds.

    Raises:
        ArgumentError: where it is no window.
    """
    if text is None:
        return None
    first, dots, last = text.partition("..") if isinstance(text, str) else ("", "", "")
    times = [_time_ps(one) for one in (first or "0s", last or "max")]
    if any(one is not None and one >= 2**63 for one in times):
        raise ArgumentError(
            "bad-window",
            f"{_check.shown(text)} is beyond simulated time",
            "write times of up to 9223372s, or leave the end out",
        )
    if dots and None not in times and times[0] < times[1]:  # type: ignore[operator]
        return [int(one) for one in times if one is not None]
    raise ArgumentError(
        "bad-window", f"{_check.shown(text)} is no window of time", 'write "2us..5us", or "1ms.."'
    )


_UNITS_PS = {"ps": 1, "ns": 10**3, "us": 10**6, "µs": 10**6, "ms": 10**9, "s": 10**12}


def _time_ps(text: str) -> int | None:
    if text == "max":
        return (1 << 63) - 1
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([num\u00b5p]?s)", text.strip())
    return None if found is None else int(Decimal(found[1]) * _UNITS_PS[found[2]])
