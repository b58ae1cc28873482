"""`tierscope report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tierscope.errors import TierscopeError

USAGE = "Usage: tierscope report DIR... -o PAGE.html"
EXAMPLES = """\
One page of a result, of several side by side, of repetitions, and of a sweep:

  tierscope run -s hybrid,oracle -w gups -o results/
  tierscope report results/ -o report.html
  tierscope report before/ after/ -o comparison.html
  tierscope run -s hybrid,oracle -w gups --repeat 5 -o five/
  tierscope report five/ -o five.html
  tierscope report study/ -o study.html
"""


def report(
    *directories: Path,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
) -> int:
    """Writes one HTML page of a result, of several side by side, of repetitions, or of a sweep.

    The page needs no network: it holds all that it shows, and what draws it. Hovering tells values,
    a legend's entry leaves that alone in full colour, and series over time can be zoomed; printed,
    it is as legible.

    Args:
        directories: Directories that `tierscope run -o` or `tierscope sweep` wrote.
        output: The page; report.html unless given. An earlier page is replaced.
    """
    from tierscope.pages.report import write_report

    if not directories:
        mend = "name a directory that `tierscope run -o` or `tierscope sweep` wrote"
        raise TierscopeError("usage", "there is nothing to report", mend)
    target = output if output is not None else Path("report.html")
    write_report(list(directories), target)
    print(f"wrote {target}")
    return 0
