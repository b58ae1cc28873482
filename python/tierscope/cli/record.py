"""`tierscope record`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import tierscope
from tierscope import format as fmt
from tierscope.cli import interrupted_status
from tierscope.errors import TierscopeError

USAGE = "Usage: tierscope record -o FILE.tst -- PROGRAM [ARGS...]"
EXAMPLES = """\
Record once, replay on any machine:

  tierscope record -o app.tst -- ./my_program args
  tierscope run -s hybrid/quick,oracle/quick -w trace:app.tst
"""


def record(
    *program: str,
    output: Annotated[Path, Parameter(name=("--output", "-o"))],
) -> int:
    """Records the loads, stores and system calls of a program to a file.

    The program runs unmodified, and its exit status is the command's.

    Args:
        program: The program and its arguments, behind --.
        output: The recording, a .tst file.
    """
    if not program:
        raise TierscopeError("usage", "no program is given", "give -- PROGRAM ARGS")
    kept = tierscope.record(program, output)
    totals = kept.totals
    accesses = sum(int(totals.get(kind, 0)) for kind in ("loads", "stores"))
    came_to = f"{fmt.count(accesses)} accesses, {fmt.size(kept.file_bytes)}"
    print(f"tierscope: {output}: {came_to if kept.file_bytes else 'not written'}", file=sys.stderr)
    for line in [*kept.reasons, *kept.notices]:
        print(f"tierscope: {line}", file=sys.stderr)
    if kept.exit_status is None:
        return interrupted_status()
    return kept.exit_status
