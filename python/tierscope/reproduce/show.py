"""What the command line prints: the list of items, and what an item gave."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tierscope import format as fmt
from tierscope._files import write_text, write_with
from tierscope.reproduce import pages
from tierscope.reproduce.catalog import FULL, QUICK, Item, Paper
from tierscope.reproduce.run import Done
from tierscope.reproduce.tables import Grid, compact, described, lines_of, to_csv

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_IN_ASCII = str.maketrans({"µ": "u", "±": "~", "×": "x", "–": "-"})


def _plain(text: str, console: Console, style: str = "") -> Text:
    unicode = console.encoding.startswith("utf")
    return Text(fmt.visible(text if unicode else text.translate(_IN_ASCII)), style=style)


def listing(papers: Sequence[Paper], console: Console) -> RenderableType:
    """Every table and figure, with what it shows, whether it can run, and how long it takes."""
    parts: list[RenderableType] = []
    for paper in papers:
        parts.append(_plain(f"{paper.name}  [{paper.key}] {paper.title}", console, "bold"))
        grid = Table(box=None, padding=(0, 2, 0, 2), show_header=True, pad_edge=False)
        grid.add_column(_plain("item", console))
        grid.add_column(_plain("shows", console), ratio=1)
        grid.add_column(_plain("quick", console), justify="right", no_wrap=True)
        grid.add_column(_plain("full", console), justify="right", no_wrap=True)
        for item in paper.items:
            told = f"{item.where}: {item.shows}"
            told += f" Cannot run: the models lack {'; '.join(item.missing)}." * (not item.runs)
            told += "".join(f" Left out: {one}." for one in item.lacks)
            row = [item.name, told, _time(item, QUICK), _time(item, FULL)]
            grid.add_row(*(_plain(cell, console) for cell in row))
        parts += [grid, Text()]
    parts.append(_plain("Times are on two processors; – is not measured.", console))
    return Group(*parts)


def _time(item: Item, scale: str) -> str:
    seconds = item.wall_s.get(scale)
    if not item.runs or seconds is None:
        return fmt.ABSENT
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def to_dict(papers: Sequence[Paper]) -> dict[str, Any]:
    """The list, for JSON."""
    return {
        "papers": [
            {
                "name": paper.name,
                "key": paper.key,
                "title": paper.title,
                "citation": paper.citation,
                "remarks": list(paper.remarks),
                "items": [
                    {
                        "name": item.full_name,
                        "where": item.where,
                        "shows": item.shows,
                        "can_run": item.runs,
                        "missing": list(item.missing),
                        "lacks": list(item.lacks),
                        "wall_s": dict(item.wall_s),
                    }
                    for item in paper.items
                ],
            }
            for paper in papers
        ]
    }


def render(done: Done, kept: Sequence[Path], console: Console) -> RenderableType:
    """What an item gave."""
    item = done.item
    parts: list[RenderableType] = [
        _plain(f"{item.full_name}, {item.where}: {item.shows}", console, "bold"),
        Text(),
    ]
    tables = [described(item)] if item.values else []
    for grid in [*tables, *(compact(done) if done.cells else [])]:
        parts += [_table(grid, console), Text()]
    if done.findings:
        told = [line for one in done.findings for line in lines_of(one)]
        parts += [
            _plain("What the paper says", console),
            *(_plain(t, console) for t in told),
            Text(),
        ]
    lines = [f"{done.state.capitalize()}, at {QUICK if done.quick else FULL} scale."]
    lines += [f"Our reading: {one}" for one in item.readings]
    lines += [f"Left out: {one}" for one in item.lacks]
    lines += [f"Failed: {what}: {why}" for what, why in done.failed]
    lines.append("Kept: " + ", ".join(map(str, kept)))
    return Group(*parts, *(_plain(line, console) for line in lines))


def _table(grid: Grid, console: Console) -> Table:
    found = Table(
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
        title=_plain(grid.title, console) if grid.title else None,
        title_justify="left",
    )
    for number, heading in enumerate(grid.heading):
        justify: Any = "left" if number < grid.texts else "right"
        found.add_column(_plain(heading, console), justify=justify)
    for row in grid.rows:
        found.add_row(*(_plain(cell, console) for cell in row))
    return found


def keep(done: Done, directory: Path) -> list[Path]:
    """Writes figure, page, numbers and all of it as JSON; the files that were written.

    Raises:
        TierscopeError: where one cannot be written.
    """
    from tierscope.reproduce import plots  # What draws takes long to load.

    directory.mkdir(parents=True, exist_ok=True)
    found = []
    if (figure := plots.draw(done)) is not None:
        for kind in ("png", "svg"):
            path = directory / f"figure.{kind}"
            write_with(path, partial(_save, figure, kind))
            found.append(path)
    texts = {
        "report.html": pages.page(done).html(),
        "item.json": json.dumps(done.to_dict(), ensure_ascii=False, indent=2) + "\n",
    }
    if done.cells:
        texts["numbers.csv"] = to_csv(done)
    for name, text in texts.items():
        write_text(directory / name, text)
        found.append(directory / name)
    return found


def _save(figure: Figure, kind: str, path: Path) -> None:
    figure.savefig(path, format=kind, dpi=150)
