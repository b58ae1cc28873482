"""`tierscope sweep`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tierscope import _files
from tierscope._interrupts import received
from tierscope._workload import Program
from tierscope.cli import FAILURE, interrupted_status
from tierscope.cli.options import check_json, whole
from tierscope.sweeps import estimate
from tierscope.sweeps.execute import THREADS, check_on
from tierscope.sweeps.show import render
from tierscope.sweeps.store import Store
from tierscope.sweeps.study import read
from tierscope.sweeps.sweep import Sweep, SweepProgress
from tierscope.sweeps.sweep import sweep as run_sweep

USAGE = "Usage: tierscope sweep STUDY.toml [OPTIONS] [-- PROGRAM [ARGS]]"
EXAMPLES = """\
What would run, and how long; then the study, on all processors:

  tierscope sweep study.toml --dry-run
  tierscope sweep study.toml -o results/

A sweep that was ended or killed goes on where it was:

  tierscope sweep study.toml -o results/

Of a program, which is recorded once:

  tierscope sweep study.toml -o results/ -- ./app --size 10

On a Dask cluster, and what has come so far, from another terminal:

  tierscope sweep study.toml -o results/ --on dask://head-node:8786
  tierscope show results/
"""


def sweep(
    study: Path,
    /,
    *program: str,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    on: str = THREADS,
    workers: Annotated[int | None, Parameter(converter=whole)] = None,
    retry_failed: bool = False,
    dry_run: bool = False,
    json_: Annotated[str | None, Parameter(name="--json")] = None,
    quiet: Annotated[bool, Parameter(name=("--quiet", "-q"))] = False,
) -> int:
    """Runs a study: many points that differ in parameters, systems, workloads and seeds.

    Each point that has run is kept at once, and the table of all, sweep.parquet, is made of them:
    the same command goes on with a sweep that was ended or killed. Points that fail are told, and
    the exit status is 125 then.

    Args:
        study: A TOML file that says what is varied; docs/guide/sweeps.md tells how.
        program: A program and its arguments, behind --: a further workload. It is recorded once,
            and points replay the recording.
        output: Directory that keeps the sweep; named for the study's file unless given.
        on: Where points run: threads of this computer, or a Dask scheduler, dask://HOST:PORT.
        workers: Points that run at a time; as many as there are processors unless given.
        retry_failed: Runs points that failed before again.
        dry_run: Runs nothing but a short trial; lists the points, and says how long all take.
        json_: Prints one JSON object instead of the table; or writes it to a file: --json=FILE.
        quiet: Shows no progress.
    """
    check_json(json_)
    asked = read(study, [Program(program)] if program else [])
    check_on(on, workers)
    target = output if output is not None else Path(study.stem)
    Store(target).check()
    unseen = quiet or not sys.stderr.isatty()
    if dry_run:
        with Display("Estimate", "trials", quiet=unseen) as watch:
            found = estimate.estimate(asked, target, on, workers, retry_failed, watch)
        return _show_estimate(found, json_)
    with Display("Sweep", "points", quiet=unseen) as watch:
        done = run_sweep(
            asked, target, on=on, workers=workers, retry_failed=retry_failed, watch=watch
        )
    show_sweep(done, json_)
    if received or done.interrupted:
        return interrupted_status()
    return FAILURE if done.counts()["failed"] else 0


def show_sweep(kept: Sweep, json_: str | None) -> None:
    """Prints a sweep's table, or its JSON object where ``json_`` is ``-``."""
    if json_ == "-":
        print(kept.to_json())
        return
    console = Console(highlight=False)
    console.print(render(kept, console))
    if json_ is not None:
        _files.write_text(Path(json_), kept.to_json() + "\n")


def _show_estimate(found: estimate.Estimate, json_: str | None) -> int:
    text = json.dumps(found.data, ensure_ascii=False, indent=2)
    if json_ == "-":
        print(text)
        return 0
    print("\n".join(found.lines()))
    if json_ is not None:
        _files.write_text(Path(json_), text + "\n")
    return 0


class Display:
    """A bar on stderr for as long as it is entered; nothing where nobody watches.

    Args:
        what: what is under way.
        of: what is counted.
        quiet: whether nobody watches.
    """

    def __init__(self, what: str, of: str, *, quiet: bool) -> None:
        self._quiet = quiet
        self._what = what
        self._begun = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(of),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: Any = None

    def __enter__(self) -> Display:
        if not self._quiet:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._quiet:
            self._bar.stop()

    def __call__(self, progress: SweepProgress) -> None:
        """Shows how far it is."""
        if self._quiet:
            return
        if self._task is None:
            self._task = self._bar.add_task(self._what, total=progress.total)
        told = f"{self._what} ({progress.failed} failed)" if progress.failed else self._what
        self._bar.update(self._task, completed=progress.done, description=told)
