"""`tierscope show` and `check`: what there is, and what it says."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tierscope import _core, _files
from tierscope._call import core_errors, parsed
from tierscope._repeat import load_repetitions
from tierscope._result import REPETITIONS_FILE, load
from tierscope._system import System, systems
from tierscope.causes import kinds
from tierscope.cli import names
from tierscope.cli.options import assignments, check_json
from tierscope.cli.repeat import show_repetitions
from tierscope.cli.results import ByOption, show_result
from tierscope.cli.sweep import show_sweep
from tierscope.cli.technologies import show_technologies
from tierscope.cli.told import fail
from tierscope.errors import SpecError, TierscopeError
from tierscope.sweeps.store import is_sweep
from tierscope.sweeps.sweep import load_sweep

SHOW_USAGE = (
    "Usage: tierscope show [systems | hosts | kernels | workloads | technologies | SYSTEM | HOST | "
    "KERNEL | DIR] [OPTIONS]"
)
SHOW_EXAMPLES = """\
Each number of a preset with its source:

  tierscope show hybrid

What a kernel does with pages and requests, as a base of machines:

  tierscope show linux-4.9

A result that was kept by run -o, as it was printed:

  tierscope show results/

Technologies of memory and storage, each figure with its source, with those of a file of one's own:

  tierscope show technologies --add mine.toml
"""
CHECK_EXAMPLES = """\
Change a preset, then find every mistake at once:

  tierscope init hybrid/quick > my-machine.toml
  tierscope check my-machine.toml
"""
CHECK_USAGE = "Usage: tierscope check FILE..."


def show(
    what: Annotated[str | None, Parameter(completer=names.systems)] = None,
    /,
    *,
    set_: Annotated[list[str] | None, Parameter(name="--set", consume_multiple=False)] = None,
    json_: Annotated[str | None, Parameter(name="--json")] = None,
    by: ByOption = None,
    add: Annotated[list[str] | None, Parameter(name="--add", consume_multiple=False)] = None,
) -> int:
    """Lists presets, their parts, workloads or technologies, or shows one of them or a result.

    Each number of a system, a host, a kernel and a technology has its source.

    Args:
        what: systems, hosts, kernels, workloads, technologies, the name of one of the first three
            or of a file, or a directory that `tierscope run -o` or `tierscope sweep` wrote; nothing
            for systems, hosts, kernels and workloads.
        set_: PATH=VALUE sets one value of the system shown.
        json_: Prints the system or the result as one JSON object; or writes it to a file:
            --json=FILE.
        by: Of a result: for what threads stood still, as for tierscope run; repeated for several.
        add: Of technologies: a TOML file laid over the table; repeated for several.
    """
    check_json(json_)
    if add and what != "technologies":
        raise TierscopeError("usage", "--add is for technologies", "show technologies --add FILE")
    if by and not _is_result(str(what)):
        raise TierscopeError("usage", "--by is for a result", "name a directory of one to show")
    if what == "technologies":
        if set_:
            raise TierscopeError(
                "usage", "--set changes a system", "lay figures over the table by --add FILE"
            )
        show_technologies(add or [], json_)
    elif what in (None, "systems", "hosts", "kernels", "workloads"):
        if set_ or json_:
            raise TierscopeError(
                "usage",
                f"{'--set' if set_ else '--json'} is for a system{'' if set_ else ' or a result'}",
                f"name the system{'' if set_ else ' or the result'} to show",
            )
        _show_lists(what)
    elif (part := _core.part_text(str(what))) is not None:
        if set_ or json_:
            raise TierscopeError(
                "usage",
                f"{'--set' if set_ else '--json'} is for a system, which {what} is a base of",
                f'write a file with base = ["SYSTEM", "{what}"], and show that',
            )
        print(part, end="")
    elif _is_result(str(what)):
        if set_:
            raise TierscopeError("usage", "--set changes a system, not a result", "leave it out")
        if is_sweep(str(what)):
            if by:
                mend = "leave it out; tierscope.load_sweep(DIR).result(POINT) has one point's"
                raise TierscopeError("usage", "--by is for one run, not for a sweep", mend)
            show_sweep(load_sweep(str(what)), json_)
        elif (Path(str(what)) / REPETITIONS_FILE).is_file():
            show_repetitions(load_repetitions(str(what)), json_)
        else:
            show_result(load(str(what)), json_, kinds(by))
    else:
        try:
            (one,) = systems([str(what)], assignments(set_ or []))
        except SpecError as error:
            _check_part(str(what), error)
            raise
        _show_system(one, json_)
    return 0


def _is_result(what: str) -> bool:
    """Whether a directory is meant: presets come first, whatever is there."""
    return what not in dict(parsed(_core.list_systems())) and Path(what).is_dir()


def _check_part(what: str, error: SpecError) -> None:
    """Refuses what is nearly the name of a host or a kernel, and no system's.

    Raises:
        TierscopeError: with that name.
    """
    parts = [
        name for listed in (_core.list_hosts, _core.list_kernels) for name, _ in parsed(listed())
    ]
    near = _core.nearest(what, parts)
    if near is not None and [problem.code for problem in error.problems] == ["unknown-system"]:
        raise TierscopeError(
            "unknown-system",
            f"there is no system, host or kernel {what}",
            f"did you mean {near}? tierscope show lists all",
        ) from error


def _show_lists(which: str | None) -> None:
    console = Console(highlight=False)
    if which in (None, "systems"):
        show_systems(console, "Systems (run -s NAME)")
    if which is None:
        console.print()
    for part, listed in (("host", _core.list_hosts), ("kernel", _core.list_kernels)):
        if which in (None, f"{part}s"):
            of_base = f'base = ["SYSTEM", "{part.upper()}"] in a description'
            table = _table(f"{part.capitalize()}s ({of_base})")
            for name, summary in parsed(listed()):
                table.add_row(Text(name, style="bold"), Text(summary))
            console.print(table)
        if which is None:
            console.print()
    if which in (None, "workloads"):
        _show_workloads(console)


def _show_system(one: System, json_: str | None) -> None:
    text = json.dumps(one.to_dict(), ensure_ascii=False, indent=2)
    if json_ == "-":
        print(text)
        return
    print(one.to_toml(), end="")
    if json_ is not None:
        _files.write_text(Path(json_), text + "\n")


def check(*files: str) -> int:
    """Finds every mistake of descriptions, each with its place and its mend.

    Args:
        files: TOML files of machines or of sweeps, or names of presets.
    """
    if not files:
        raise TierscopeError("usage", "no file is given", CHECK_USAGE)
    found = 0
    for file in files:
        try:
            print(f"{file}: no mistake{_checked(file)}")
        except TierscopeError as error:
            found += 1
            sys.stdout.flush()
            fail(error.lines())
    return 125 if found else 0


def _checked(file: str) -> str:
    """What is said of a machine or a sweep beside that there is no mistake in it.

    Raises:
        TierscopeError: where there is one.
    """
    if not _is_study(file):
        with core_errors():
            remarks = _core.check_file(file)
        return "".join(f"\n  {remark}" for remark in remarks)
    from tierscope.sweeps.points import points
    from tierscope.sweeps.study import read

    number = len(points(read(file)))
    return f"; a sweep of {number} point{'' if number == 1 else 's'}"


def _is_study(file: str) -> bool:
    """Whether a file is of a sweep: it says what runs where, which no machine does."""
    path = Path(file)
    try:
        # A pipe can be read once.
        said = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError, RecursionError):
        return False
    return "base" not in said and not {"systems", "workloads"}.isdisjoint(said)


def show_systems(console: Console, title: str) -> None:
    """Every preset, with a line each."""
    table = _table(title)
    for name, summary in parsed(_core.list_systems()):
        table.add_row(Text(name, style="bold"), Text(summary))
    console.print(table)


def _show_workloads(console: Console) -> None:
    table = _table("Workloads (run -w NAME --set workload.PARAMETER=VALUE)")
    for workload in parsed(_core.list_workloads()):
        waits = workload.get("dependences", "")
        told = f"{workload['summary']}; {waits}" if waits else workload["summary"]
        table.add_row(Text(workload["name"], style="bold"), Text(told))
        for parameter in workload["parameters"]:
            default = parameter["default"].strip('"')
            name = f"  {parameter['name']} = {default}"
            table.add_row(Text(name), Text(parameter["meaning"]))
    table.add_row(Text("trace:FILE.tst", style="bold"), Text("a recording of a program"))
    for trace in parsed(_core.list_formats()):
        table.add_row(Text(f"{trace['name']}:FILE", style="bold"), Text(trace["summary"]))
    for name, (meaning, formats) in _parameters_of_formats().items():
        of = "all" if formats is None else ", ".join(formats)
        table.add_row(Text(f"  {name}"), Text(f"Of traces ({of}): {meaning}"))
    table.add_row(Text("-- PROGRAM ARGS", style="bold"), Text("a program, run under the recorder"))
    console.print(table)


def _parameters_of_formats() -> dict[str, tuple[str, list[str] | None]]:
    """Name and default of each parameter of traces, its meaning, and the formats that have it."""
    listed = parsed(_core.list_formats())
    found: dict[str, tuple[str, list[str]]] = {}
    for trace in listed:
        for parameter in trace["parameters"]:
            name = f"{parameter['name']} = {parameter['default']}"
            found.setdefault(name, (parameter["meaning"], []))[1].append(trace["name"])
    return {
        name: (meaning, None if len(formats) == len(listed) else formats)
        for name, (meaning, formats) in found.items()
    }


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2))
    table.show_header = False
    table.add_column(no_wrap=True)
    table.add_column()
    return table
