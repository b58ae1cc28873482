"""`tierscope show technologies`: figures of technologies, each with its source."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tierscope import _files
from tierscope import format as fmt
from tierscope.technologies import FIGURES, FLAGS, Figure, Technologies, technologies


def show_technologies(files: list[str], json_: str | None) -> None:
    """Prints the table with its sources, or one JSON object; or writes that to a file."""
    all_ = technologies(*files)
    text = json.dumps(all_.to_dict(), ensure_ascii=False, indent=2)
    if json_ == "-":
        print(text)
        return
    _print_table(all_)
    if json_ is not None:
        _files.write_text(Path(json_), text + "\n")


def _print_table(all_: Technologies) -> None:
    """A block a technology, a row a figure: value and source."""
    console = Console(highlight=False)
    table = Table(title="Technologies", title_justify="left", title_style="bold", box=None)
    table.show_header = False
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(style="dim")
    for number, it in enumerate(all_.by_key.values()):
        if number:
            table.add_row()
        table.add_row(Text(fmt.visible(it.name), style="bold"), Text(fmt.visible(it.key)))
        for key, meaning in FLAGS.items():
            if flag := it.flags.get(key):
                word = "yes" if flag.value else "no"
                table.add_row(f"  {meaning}", word, Text(fmt.visible(flag.source)))
        for key, meaning in FIGURES.items():
            if figure := it.figures.get(key):
                row = (Text(f"  {meaning}"), Text(_figure(key, figure)))
                table.add_row(*row, Text(fmt.visible(figure.source)))
    console.print(table)
    console.print()
    for key, meaning in all_.sources.items():
        console.print(Text(f"[{fmt.visible(key)}] {fmt.visible(meaning)}"), soft_wrap=True)


def _figure(key: str, figure: Figure) -> str:
    least, most = figure.least, figure.most
    if least is None or most is None:
        end = least if most is None else most
        return f"{'≥' if most is None else '≤'} {_number(key, end)}"
    if least == most:
        return _number(key, least)
    return f"{_number(key, least)} to {_number(key, most)}"


def _number(key: str, value: float | None) -> str:
    if value is None:
        return "–"
    if key.endswith("_ns"):
        return fmt.nanoseconds(value)
    if key == "endurance":
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:g}"
