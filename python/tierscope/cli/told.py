"""What goes to standard error."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable

from tierscope.cli import FAILURE
from tierscope.format import visible


def fail(lines: Iterable[str]) -> int:
    """Tells what went wrong, and gives the exit status of that."""
    for line in lines:
        print(folded(visible(line)), file=sys.stderr)
    return FAILURE


def folded(line: str) -> str:
    """A line of standard error, broken between words where a terminal is too narrow for it.

    In a file it stays one line, so that scripts find what they look for.
    """
    if not sys.stderr.isatty():
        return line
    indent = " " * (len(line) - len(line.lstrip())) + "    "
    return textwrap.fill(
        line,
        max(shutil.get_terminal_size().columns, 40),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
        drop_whitespace=True,
    )
