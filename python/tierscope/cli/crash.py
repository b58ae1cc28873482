"""`tierscope crash`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tierscope import _files
from tierscope._crash import MOST_POINTS, CrashReport, Weakness
from tierscope._crash import crash as crash_run
from tierscope._system import systems
from tierscope._workload import named
from tierscope.cli import names
from tierscope.cli.options import check_json, divided, whole
from tierscope.errors import ArgumentError, told_together

if TYPE_CHECKING:
    from cyclopts import Token

USAGE = "Usage: tierscope crash SYSTEM -w WORKLOAD [OPTIONS]"
EXAMPLES = """\
A thousand points where something could be harmed, and every event of a window:

  tierscope crash hams-le/quick -w gups --set workload.table=16MiB --set workload.updates=20000 \\
    --points 1000 --adversarial
  tierscope crash hams-tp/quick -w gups --window 900us..901us

A drive alone, without capacitors, with flushes, forced writes and trims among its requests:

  tierscope crash device/970-pro/quick -w random --set workload.reads=0.3 --points 1000

Files, of which a sync promises what is there, and a drive whose buffer nobody flushes:

  tierscope crash storage/ext4 -w filebench/varmail --set storage.dram_capacity=64MiB \\
    --set workload.files=50 --set workload.memory=1MiB --points 100 --adversarial
  tierscope crash storage/ext4 … --set storage.file_system.barrier=none --points 100

Whether the check can fail: without journal tags lines are lost, and a point is replayed:

  tierscope crash hams-le/quick -w gups --set workload.table=16MiB --set workload.updates=20000 \\
    --points 200 --adversarial --weaken no-journal-tags
  tierscope crash hams-le/quick -w gups … --weaken no-journal-tags --replay 1200+37
"""
BROKEN = 1
"""Exit status where a promise is broken."""


def _points(_type: object, tokens: Sequence[Token]) -> int:
    """A number of points, whose range is checked with all else.

    Raises:
        ValueError: where it is no whole number.
    """
    text = tokens[0].value
    if re.fullmatch(r"-?[0-9]{1,40}", text, re.ASCII):
        return int(text)
    raise ValueError(f"it must be a whole number from 1 to {MOST_POINTS}, not {text}")


def crash(
    system: Annotated[str, Parameter(name=("--system", "-s"), completer=names.systems)],
    *,
    workload: Annotated[str, Parameter(name=("--workload", "-w"), completer=names.workloads)],
    set_: Annotated[list[str] | None, Parameter(name="--set", consume_multiple=False)] = None,
    points: Annotated[int | None, Parameter(converter=_points)] = None,
    window: str | None = None,
    seed: Annotated[int, Parameter(converter=whole)] = 0,
    adversarial: bool = False,
    weaken: Annotated[list[Weakness] | None, Parameter(consume_multiple=False)] = None,
    replay: str | None = None,
    figure: Path | None = None,
    allow_truncated: bool = False,
    json_: Annotated[str | None, Parameter(name="--json")] = None,
) -> int:
    """Lets power fail while a workload runs, recovers, and compares every line with its promise.

    The workload runs once; at each point a copy of all that lies below the caches loses its power,
    saves what it can, recovers, and is compared. Half of the points fail again in the middle of
    recovery, where that is long enough. A drive alone gets flushes, forced writes and trims among
    its requests, and is judged page by page. Where there is a file system its journal is carried
    out again; files are judged page by page, and their metadata block by block. The exit status is
    1 where a promise is broken, and for such points, up to 20, the commands are printed that replay
    them.

    Args:
        system: Preset or TOML file: a machine, or a drive alone.
        workload: Built-in workload, or a recording as trace:FILE; of a drive alone, a pattern or
            a trace of requests.
        set_: PATH=VALUE sets one value, such as hams.page=64KiB or workload.updates=10000.
        points: Draws so many points by seed; every event of the window unless given.
        window: Simulated time in which points may lie, such as 2us..5us.
        seed: Seed of the points, and of a built-in workload's random choices.
        adversarial: Draws points where something is under way: a command, a clone, a fill, a
            program, a collection, a barrier, a commit, a checkpoint.
        weaken: Leaves out a safeguard, so that there is something to find; repeated for several.
        replay: Lets power fail at this point alone, and prints its timeline: the last requests, and
            what recovery has left of each.
        figure: Draws the timeline of the point that is replayed into this file.
        allow_truncated: Replays what precedes the damage of a damaged recording.
        json_: Prints one JSON object instead of the report; or writes it to a file: --json=FILE.
    """
    check_json(json_)
    if figure is not None:
        if replay is None:
            raise ArgumentError(
                "no-timeline", "only a point that is replayed has one", "name it: --replay POINT"
            )
        _check_figure(figure)
    of_system, of_workload = divided(set_ or [])
    recorded = workload.startswith("trace:")
    (machine,), work = told_together(
        lambda: systems([system], of_system),
        lambda: named(
            workload, of_workload, None if recorded else seed, allow_truncated=allow_truncated
        ),
    )
    with _Bar(points) as bar:
        report = crash_run(
            machine,
            work,
            points=points,
            window=window,
            seed=seed,
            adversarial=adversarial,
            weaken=weaken or [],
            replay=replay,
            watch=bar,
        )
    drawn = None if figure is None else report.plot_timeline()
    if json_ == "-":
        print(report.to_json())
    else:
        changes = "".join(f" --set {one}" for one in set_ or [])
        changes += " --allow-truncated" * allow_truncated
        _show(replace(report, command=f"tierscope crash {system} -w {workload}{changes}"))
    if json_ not in (None, "-"):
        _files.write_text(Path(str(json_)), report.to_json() + "\n")
    if figure is not None and drawn is not None:
        kind = figure.suffix[1:]
        _files.write_with(figure, lambda fresh: drawn.savefig(fresh, format=kind))
    return 0 if report.holds else BROKEN


def _check_figure(figure: Path) -> None:
    """Refuses what no figure can be written to, before anything runs."""
    mend = "name a file ending in .png, .svg or .pdf, in a directory that is there"
    if figure.suffix not in {".png", ".svg", ".pdf"}:
        raise ArgumentError("bad-figure", f"--figure {figure} says no format", mend)
    if figure.is_dir() or not figure.parent.is_dir():
        raise ArgumentError("bad-figure", f"--figure {figure} can be no file", mend)


class _Bar:
    """How far it is, on a terminal."""

    def __init__(self, points: int | None) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        console = Console(stderr=True)
        self._bar = Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        )
        self._task = self._bar.add_task("begins", total=points)

    def __enter__(self) -> _Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, events: int, points: int) -> None:
        """Shows the events that were looked at, then the points that were judged."""
        told = f"{points} points judged" if points else f"{events} events looked at"
        self._bar.update(self._task, completed=points, description=told)


def _show(report: CrashReport) -> None:
    """The table, the timeline of a point that was replayed, and how to replay those that fail."""
    Console(highlight=False).print(report.table())
    if report.data["timeline"]:
        print(f"\n{report.timeline()}")
    if remark := report.remark():
        print(remark)
    for line in report.failing():
        print(line)
