"""`tierscope record`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

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
    raise TierscopeError("no-recorder", "x")
