"""`tierscope init`: a description to start from."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from tierscope import _core, _files
from tierscope._call import core_errors
from tierscope.cli import names
from tierscope.cli.describe import show_systems
from tierscope.errors import TierscopeError

USAGE = "Usage: tierscope init [SYSTEM] [-o FILE.toml]"
EXAMPLES = """\
What can be begun from; a description to change; whether it is right:

  tierscope init
  tierscope init hybrid/quick -o my-machine.toml
  tierscope check my-machine.toml
"""


def init(
    system: Annotated[str | None, Parameter(completer=names.systems)] = None,
    /,
    *,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
) -> int:
    """Writes the description of a machine, to be changed: all of a preset, explained.

    Each value has its meaning above it and its source behind it. Unchanged, the description gives
    the preset's results.

    Args:
        system: Preset or TOML file to begin from; nothing for a list of presets.
        output: File to write, which must not be there yet; stdout unless given.
    """
    if system is None:
        if output is not None:
            raise TierscopeError("usage", "no system is given", f"name one: {USAGE}")
        _list()
        return 0
    text = _text(system, output)
    if output is None:
        _print_whole(text)
        return 0
    _refuse_to_replace(output)
    _files.write_text(output, text)
    print(f"{output}: written; tierscope check {shlex.quote(str(output))} checks what you change")
    return 0


def _print_whole(text: str) -> None:
    """Prints all of a text, or fails: unbuffered, Python loses what a file takes no more of."""
    sys.stdout.flush()
    rest = memoryview(text.encode())
    while rest:
        rest = rest[sys.stdout.buffer.write(rest) :]


def _list() -> None:
    console = Console(highlight=False)
    show_systems(console, "To begin from (init NAME)")
    console.print(Text("\ntierscope init NAME > my-machine.toml writes one, explained, to change."))


def _text(system: str, output: Path | None) -> str:
    with core_errors():
        described = _core.commented(system)
    file = shlex.quote(str(output)) if output is not None else "my-machine.toml"
    return (
        f"# A machine to start from: all of {system}, each value with its meaning above it and\n"
        "# its source behind it. Change what you like; the name is what results call it.\n"
        f"# tierscope check {file} finds every mistake; tierscope run -s {file} runs it.\n"
        f'# A file that says base = "{system}" may say only what differs.\n\n' + described
    )


def _refuse_to_replace(output: Path) -> None:
    """Nobody's changes are lost to a second `init`."""
    if output.exists() or output.is_symlink():
        raise TierscopeError(
            "exists",
            f"{output} is there already, and is left alone",
            "name another file, or remove it first",
        )
