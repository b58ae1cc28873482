"""Which tables and figures belong to a result, a comparison, repetitions or a sweep."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tierscope import _check, report, table
from tierscope._compare import Comparison
from tierscope._files import write_text
from tierscope._repeat import Repetitions, load_repetitions
from tierscope._result import Result, is_repetitions, load
from tierscope._shape import ResultData
from tierscope.errors import ArgumentError, TierscopeError
from tierscope.pages import charts, repetition_charts, sweep_charts
from tierscope.pages.page import Page, Table
from tierscope.sweeps import show
from tierscope.sweeps.store import is_sweep
from tierscope.sweeps.sweep import Sweep, load_sweep


def of_result(result: Result) -> Page:
    """The page of one result."""
    return Page(
        title=report.title(result.data),
        state=result.data["completeness"],
        remarks=result.data["remarks"],
        tables=[_figures(result.data)],
        charts=charts.all_of(result.data, result.intervals),
        notes=report.closing_lines(result.data),
        texts=[(f"System {name}", text) for name, text in result.descriptions.items()],
    )


def of_results(results: Mapping[str, Result]) -> Page:
    """The page of several results side by side."""
    together = Comparison(results)
    data, intervals = together.together(), together.intervals()
    states = {result.data["completeness"] for result in results.values()}
    return Page(
        title=together.heading(),
        state=next(s for s in ("partial", "sampled", "complete") if s in states),
        remarks=[],
        tables=[_figures(data)],
        charts=charts.all_of(data, intervals),
        notes=list(together.closing_lines()),
        texts=[
            (f"System {name} in {label}", text)
            for label, result in results.items()
            for name, text in result.descriptions.items()
        ],
    )


def _figures(data: ResultData) -> Table:
    names = list(data["systems"])
    rows = [[label, *(cells[name] for name in names)] for label, cells in table.rows(data)]
    return Table(["", *names], rows)


def of_sweep(sweep: Sweep) -> Page:
    """The page of a sweep."""
    described = sweep.data["description"]
    machines = len({row["machine_digest"] for row in sweep.data["points"]})
    first: dict[str, str] = {}
    for point, system, text in sweep.table().select("point", "system", "machine").iter_rows():
        if text is not None and system not in first:
            first[system] = f"# Point {point}\n{text}"
    lines = [[*said, *cells] for said, cells in show.rows(sweep)]
    return Page(
        title=sweep.name,
        state=sweep.completeness,
        remarks=[described] if described else [],
        tables=[Table(show.headings(sweep), lines, texts=len(show.varied(sweep)))],
        charts=sweep_charts.all_of(sweep),
        notes=[
            *show.closing_lines(sweep),
            f"sweep.parquet has the {machines} machines of all points.",
        ],
        texts=[(f"System {name}", text) for name, text in first.items()],
    )


def of_repetitions(kept: Repetitions) -> Page:
    """The page of several runs of the same."""
    first = kept.results[0]
    return Page(
        title=kept.heading(),
        state=kept.data["completeness"],
        remarks=first.data["remarks"],
        tables=[
            Table(["", *kept.data["systems"]], [[label, *cells] for label, cells in kept.cells()])
        ],
        charts=repetition_charts.all_of(kept),
        notes=kept.closing_lines(),
        texts=[(f"System {name}", text) for name, text in first.descriptions.items()],
    )


def page_of(what: Result | Repetitions | Sweep | Sequence[str | os.PathLike[str]]) -> Page:
    """The page of a result, repetitions, a sweep, or of what directories hold.

    Raises:
        ArgumentError: where it is nothing of these.
        TierscopeError: where a directory holds none, or a sweep is to be compared.
    """
    if isinstance(what, Result):
        return of_result(what)
    if isinstance(what, Repetitions):
        return of_repetitions(what)
    if isinstance(what, Sweep):
        return of_sweep(what)
    mend = "give a result, repetitions, a sweep, or a list of directories that hold one"
    if isinstance(what, str | os.PathLike) or not isinstance(what, Sequence) or not what:
        raise ArgumentError("wrong-type", f"a report is of {_check.shown(what)}", mend)
    directories = [Path(_check.path(one, "a result's directory", mend, ours=True)) for one in what]
    sweeps = [one for one in directories if is_sweep(one)]
    if sweeps and len(directories) > 1:
        raise TierscopeError(
            "usage",
            f"{sweeps[0]} is a sweep, and is not compared with others",
            "name it alone, or make one study of what is to be compared",
        )
    if sweeps:
        return of_sweep(load_sweep(sweeps[0]))
    if len(directories) == 1 and is_repetitions(directories[0]):
        return of_repetitions(load_repetitions(directories[0]))
    if len(directories) == 1:
        return of_result(load(directories[0]))
    _check_twice(directories)
    return of_results({str(one): load(one) for one in directories})


def _check_twice(directories: Sequence[Path]) -> None:
    seen: set[Path] = set()
    for one in directories:
        if one.resolve() in seen:
            raise TierscopeError("usage", f"{one} is given twice", "name each result once")
        seen.add(one.resolve())


def write_report(
    what: Result | Repetitions | Sweep | Sequence[str | os.PathLike[str]],
    path: str | os.PathLike[str],
) -> None:
    """Writes one HTML page, which needs no network, of what is given or of what directories hold.

    Args:
        what: a result, repetitions, a sweep, or directories of one of them or of several results.
        path: the page; an earlier one is replaced.

    Raises:
        ArgumentError: where an argument is of the wrong type.
        TierscopeError: where a directory holds nothing to report, or the page cannot be written.
    """
    mend = 'write a path, such as "report.html"'
    target = Path(_check.path(path, "a page's file", mend, ours=True))
    check_target(target)
    write_text(target, page_of(what).html())


def check_target(path: Path) -> None:
    """Refuses a file that a page must not replace.

    Raises:
        TierscopeError: where there is something else than a page.
    """
    mend = "name a new file, or an earlier page to replace"
    if path.is_dir():
        raise TierscopeError("unwritable", f"{path} is a directory", "name a file in it")
    if not path.absolute().parent.is_dir():
        raise TierscopeError("unwritable", f"{path}: there is no directory {path.parent}")
    try:
        begin = path.read_bytes()[:15] if path.is_file() else b""
    except OSError as error:
        raise TierscopeError("unwritable", f"{path} cannot be read: {error.strerror}") from None
    if begin.strip() and not begin.startswith(b"<!DOCTYPE html>"):
        raise TierscopeError("unwritable", f"{path} is no page, and is left alone", mend)
