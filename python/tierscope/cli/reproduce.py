"""`tierscope reproduce`."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from tierscope import _files
from tierscope import format as fmt
from tierscope._interrupts import received
from tierscope.cli import FAILURE, interrupted_status
from tierscope.cli.options import check_json, whole
from tierscope.cli.sweep import Display
from tierscope.reproduce import show
from tierscope.reproduce.catalog import chosen, papers
from tierscope.reproduce.estimate import estimate
from tierscope.reproduce.run import Done, check_directory
from tierscope.reproduce.run import reproduce as run_items
from tierscope.sweeps.execute import THREADS, check_on
from tierscope.sweeps.sweep import SweepProgress

USAGE = "Usage: tierscope reproduce [PAPER | PAPER/ITEM]... [OPTIONS]"
EXAMPLES = """\
Every table and figure, whether it can run, and how long it takes:

  tierscope reproduce

One of them at a small scale, and at that of the paper, of which an estimate comes first:

  tierscope reproduce hybrid-against-ssd/fig4 --quick -o reproduced/
  tierscope reproduce hybrid-against-ssd/fig4 -o reproduced/

All of a paper that can run; killed at any time, the same command goes on where it was:

  tierscope reproduce hybrid-against-ssd --quick -o reproduced/
"""


def reproduce(
    *items: str,
    quick: bool = False,
    output: Annotated[Path, Parameter(name=("--output", "-o"))] = Path("reproduced"),
    dry_run: bool = False,
    on: str = THREADS,
    workers: Annotated[int | None, Parameter(converter=whole)] = None,
    retry_failed: bool = False,
    experiments: Path | None = None,
    json_: Annotated[str | None, Parameter(name="--json")] = None,
    quiet: Annotated[bool, Parameter(name=("--quiet", "-q"))] = False,
) -> int:
    """Runs published tables and figures, and shows what was published beside what came out.

    Without an item it lists all: what each shows, what the models lack where it cannot run, and how
    long it takes. Each run is kept at once and shared by all items in the directory, so that the
    same command goes on with what was ended or killed.

    Args:
        items: PAPER/ITEM, or PAPER for all of its items that can run.
        quick: Runs small machines and data sets, in minutes; the paper's own sizes otherwise.
        output: Directory that keeps runs, figures, pages and numbers.
        dry_run: Runs short trials at most; says how many runs there are, and how long they take.
        on: Where runs go: threads of this computer, or a Dask scheduler, dask://HOST:PORT.
        workers: Runs at a time; as many as there are processors unless given.
        retry_failed: Runs again what failed before.
        experiments: A folder of experiments in place of the package's own.
        json_: Prints one JSON object instead of tables; or writes it to a file: --json=FILE.
        quiet: Shows no progress.
    """
    check_json(json_)
    console = Console(highlight=False)
    if not items:
        known = papers(experiments)
        return _tell(
            json_, show.to_dict(known), lambda: console.print(show.listing(known, console))
        )
    asked = chosen(items, experiments)
    check_on(on, workers)
    check_directory(output)
    unseen = quiet or not sys.stderr.isatty()
    if dry_run or not (quick or quiet):
        with Display("Estimate", "trials", quiet=unseen) as watch:
            found = estimate(asked, output, quick=quick, on=on, workers=workers, watch=watch)
        if dry_run:
            return _tell(json_, found.data, lambda: print("\n".join(found.lines())))
        for line in found.lines():
            print(fmt.visible(line), file=sys.stderr)
    with Display("Reproduce", "runs", quiet=unseen) as watch:
        done = run_items(
            items,
            output,
            quick=quick,
            experiments=experiments,
            on=on,
            workers=workers,
            retry_failed=retry_failed,
            watch=watch,
        )
    none = [one.item.full_name for one in done if not one.begun]
    done = [one for one in done if one.begun]
    kept = _keep(done, output, workers=workers, quiet=unseen)

    def told() -> None:
        for one, paths in zip(done, kept, strict=True):
            console.print(show.render(one, paths, console))
            console.print()
        if none:
            console.print(f"Not begun: {', '.join(none)}")

    _tell(json_, {"items": [one.to_dict() for one in done]}, told)
    if received or none or any(one.interrupted for one in done):
        return interrupted_status()
    return FAILURE if any(one.failed for one in done) else 0


def _keep(
    done: Sequence[Done], output: Path, *, workers: int | None, quiet: bool
) -> list[list[Path]]:
    """Writes what came of each item, of several at once: their charts take seconds to be drawn."""
    folders = [output / one.item.full_name for one in done]
    at_once = min(len(done), workers or len(os.sched_getaffinity(0)))
    kept: list[list[Path]] = []
    if at_once > 1:
        with (
            Display("Figures and pages", "items", quiet=quiet) as watch,
            ProcessPoolExecutor(at_once, get_context("spawn")) as pool,
            # Where there is no room for as many, what is left is written below.
            suppress(BrokenProcessPool, OSError),
        ):
            with _without_interrupts():
                found = pool.map(show.keep, done, folders)
            for paths in found:
                kept.append(paths)
                watch(SweepProgress(done=len(kept), total=len(done), failed=0))
    left = zip(done[len(kept) :], folders[len(kept) :], strict=True)
    return kept + [show.keep(one, folder) for one, folder in left]


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes that are started meanwhile get none: a request to end is the command's."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _tell(json_: str | None, data: object, told: object) -> int:
    text = json.dumps(data, ensure_ascii=False, indent=2)
    if json_ == "-":
        print(text)
        return 0
    assert callable(told)
    told()
    if json_ is not None:
        _files.write_text(Path(json_), text + "\n")
    return 0
