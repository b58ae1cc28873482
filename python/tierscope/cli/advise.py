"""`tierscope advise`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tierscope import _files
from tierscope import format as fmt
from tierscope._interrupts import received
from tierscope._system import system as system_of
from tierscope.advise import advise as decide
from tierscope.advise import headings, lines, rows, study_of
from tierscope.advise_budget import Budget, read_budget
from tierscope.cli import FAILURE, interrupted_status, names
from tierscope.cli.options import assignments, check_json, whole, workload_value
from tierscope.cli.sweep import Display
from tierscope.sweeps.sweep import sweep

USAGE = "Usage: tierscope advise -s SYSTEM... -w WORKLOAD --dram SIZE,SIZE... [OPTIONS]"
EXAMPLES = """\
Which machine, with how much DRAM, for random updates of 512 MiB:

  tierscope advise -s hybrid/quick,storage/quick -w gups --dram 64MiB,128MiB,256MiB,512MiB

The same within a budget, with three seeds, so that it says how sure it is:

  tierscope advise -s hybrid/quick,storage/quick -w gups --dram 64MiB,256MiB \\
    --budget budget.toml --seeds 3 -o advice/
"""


def advise(
    *,
    system: Annotated[
        list[str],
        Parameter(name=("--system", "-s"), consume_multiple=False, completer=names.systems),
    ],
    workload: Annotated[str, Parameter(name=("--workload", "-w"), completer=names.workloads)],
    dram: str,
    reference: str = "oracle/quick",
    set_: Annotated[list[str] | None, Parameter(name="--set", consume_multiple=False)] = None,
    budget: Path | None = None,
    seeds: Annotated[int, Parameter(converter=whole)] = 1,
    allow_truncated: bool = False,
    skip: str | None = None,
    limit: str | None = None,
    output: Annotated[Path, Parameter(name=("--output", "-o"))] = Path("advice"),
    json_: Annotated[str | None, Parameter(name="--json")] = None,
    quiet: Annotated[bool, Parameter(name=("--quiet", "-q"))] = False,
) -> int:
    """Advises which machine, with how much DRAM: slowdown against cost, energy and lifetime.

    Each machine runs the workload with each size of DRAM, beside a reference. What is on the Pareto
    front, which machine overtakes another at which size, and what is within the budget is told with
    how sure it is. The runs are a sweep in a directory, and are not made twice.

    Args:
        system: Machines to choose from: names and files, repeated or separated by commas.
        workload: What runs, as of `tierscope run`; a program is recorded first.
        dram: Sizes of DRAM, separated by commas.
        reference: The machine that slowdowns are against.
        set_: Changes a value by its path in machines that have it; workload.NAME of the workload.
        budget: A TOML file: dram_limit, slowdown, and prices and powers of a GB, of DRAM and of
            each machine's store, or by technology.
        seeds: How many seeds each point of a built-in workload runs with.
        allow_truncated: Replays what precedes the damage of a damaged recording.
        skip: Leaves out the beginning, as of `tierscope run`.
        limit: Ends after so much, as of `tierscope run`.
        output: Directory that keeps the sweep, and front.png.
        json_: Prints one JSON object instead of the table; or writes it to a file: --json=FILE.
        quiet: Shows no progress.
    """
    check_json(json_)
    limits = Budget() if budget is None else read_budget(budget)
    chosen = [name for part in system for name in part.split(",") if name]
    against = system_of(reference)
    region = {key: value for key, value in (("skip", skip), ("limit", limit)) if value is not None}
    asked = study_of(
        chosen,
        reference,
        workload,
        [one for one in dram.split(",") if one],
        set={path: workload_value(value) for path, value in assignments(set_ or [])},
        repetitions=seeds,
        allow_truncated=allow_truncated,
        **region,
    )
    limits.check([system_of(name) for name in chosen], against)
    with Display("Advise", "runs", quiet=quiet or not sys.stderr.isatty()) as watch:
        done = sweep(asked, output, watch=watch)
    if received or done.interrupted:
        return interrupted_status()
    found = decide(done, against.name, limits)
    from tierscope.advise_plots import front

    figure = front(found)
    _files.write_with(
        output / "front.png", lambda fresh: figure.savefig(fresh, format="png", dpi=150)
    )
    text = json.dumps(found.to_dict(), ensure_ascii=False, indent=2)
    if json_ == "-":
        print(text)
    else:
        _print([headings(found), *rows(found)], lines(found))
        if json_ is not None:
            _files.write_text(Path(json_), text + "\n")
    failures = list(done.failures())
    for what, why in failures:
        print(fmt.visible(f"Failed: {what}: {why}"), file=sys.stderr)
    return FAILURE if failures else 0


def _print(table: list[list[str]], said: list[str]) -> None:
    console = Console(highlight=False)
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for number, heading in enumerate(table[0]):
        grid.add_column(Text(heading), justify="left" if number < 2 else "right")
    for row in table[1:]:
        grid.add_row(*map(Text, row))
    console.print(grid)
    console.print()
    for line in said:
        console.print(Text(line))
