"""`tierscope doctor`: what this computer has, and what is missing for what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

import tierscope
from tierscope import _files
from tierscope._computer import Need, needs
from tierscope.cli.options import check_json

USAGE = "Usage: tierscope doctor [--json[=FILE]]"
EXAMPLES = """\
What is missing, for a script:

  tierscope doctor --json | jq '.needs[] | select(.present | not)'
"""
LACKING = 1
"""Exit status where something essential is missing."""


def doctor(*, json_: Annotated[str | None, Parameter(name="--json")] = None) -> int:
    """Says what this computer has, what each is for, and how to get what is missing.

    Exit status 0 if all is there that running a program on machines needs, 1 otherwise.

    Args:
        json_: Prints one JSON object instead; or writes it to a file: --json=FILE.
    """
    check_json(json_)
    console = Console(highlight=False)
    found = needs(columns=console.width, unicode=console.encoding.startswith("utf"))
    ready = all(need.present for need in found if need.essential)
    whole = {
        "version": tierscope.__version__,
        "ready": ready,
        "needs": [need.to_dict() for need in found],
    }
    text = json.dumps(whole, ensure_ascii=False, indent=2)
    if json_ == "-":
        print(text)
    else:
        _show(console, found, ready)
    if json_ not in (None, "-"):
        _files.write_text(Path(str(json_)), text + "\n")
    return 0 if ready else LACKING


def _show(console: Console, found: list[Need], ready: bool) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for need in found:
        table.add_row(_mark(need), Text(need.name, style="bold"), Text(need.found))
        table.add_row("", "", Text(f"for {need.needed_for}", style="dim"))
    console.print(table)
    for need in found:
        if not need.present:
            console.print(Text(f"\n{need.name}", style="bold"))
            console.print(Text(f"  without: {need.without}"))
            console.print(Text(f"  to get it: {need.get}"))
    told = "can be run on machines here" if ready else "cannot be run on machines here yet"
    console.print(Text(f"\nPrograms {told}."))


def _mark(need: Need) -> Text:
    if need.present:
        return Text("ok", style="green")
    return Text("MISSING", style="bold red") if need.essential else Text("less", style="yellow")
