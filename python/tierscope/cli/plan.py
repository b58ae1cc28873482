"""`tierscope run --dry-run`: what would run, and what it would cost."""

from __future__ import annotations

import json
from pathlib import Path

from tierscope import _files
from tierscope._plan import Plan

_RULE = "-" * 78
"""Sets off the estimates, the last lines on a terminal, from the descriptions before them."""


def show_plan(plan: Plan, json_: str | None) -> int:
    """Prints the machines, resolved, and the estimates; or one JSON object."""
    text = json.dumps(plan.data, ensure_ascii=False, indent=2)
    if json_ == "-":
        print(text)
        return 0
    print("# What this comes to stands at the end, behind the systems as they would run.\n")
    for one in plan.machines:
        print(f"# System {one.name}\n\n{one.to_toml()}")
    print(f"# {_RULE}\n" + "\n".join(f"# {line}" for line in plan.lines()))
    if json_ is not None:
        _files.write_text(Path(json_), text + "\n")
    return 0
