"""The manual page, made of what `--help` shows: `python -m tierscope.cli.manual [FILE]`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from cyclopts import App

from tierscope.cli.app import of

_LEFT_OUT = ("--no-", "--empty-")


def page() -> str:
    """The page, as `man` reads it."""
    app = of()
    lines = [
        f'.TH TIERSCOPE 1 "" "tierscope {_first(app.version)}" "User Commands"',
        ".SH NAME",
        "tierscope \\- brings extended memory hierarchies into focus",
        ".SH SYNOPSIS",
        ".B tierscope",
        ".I COMMAND",
        "[\\fIOPTIONS\\fR]",
        ".SH DESCRIPTION",
        *_prose(_first(app.help)),
        ".SH COMMANDS",
    ]
    for name, command in _commands(app):
        lines += [f'.SS "{_plain(name)}"', *_of_command(command)]
    lines += [".SH EXAMPLES", *_verbatim(_first(app.help_epilogue))]
    return "\n".join(lines) + "\n"


def _commands(group: App, above: str = "") -> Iterator[tuple[str, App]]:
    """Each command with its name, those of groups with the group's before it."""
    for name in group:
        if name.startswith("-"):
            continue
        command = group[name]
        if command.default_command is None:
            yield from _commands(command, f"{above}{name} ")
        else:
            yield f"{above}{name}", command


def _of_command(command: App) -> Iterator[str]:
    usage = _first(command.usage).removeprefix("Usage: ")
    yield from (".nf", f".B {_plain(usage)}", ".fi", ".PP")
    meaning, _, _ = _first(command.help).partition("Args:")
    yield from _prose(meaning)
    for argument in command.assemble_argument_collection(parse_docstring=True):
        names = [name for name in argument.names if not name.startswith(_LEFT_OUT)]
        if not argument.show:
            continue
        flag = argument.hint is bool or not names[0].startswith("-")
        value = "" if flag else f" {names[0].lstrip('-').upper()}"
        shown = ", ".join(f"\\fB{_plain(name)}\\fR" for name in names)
        yield from (".TP", f"{shown}\\fI{_plain(value)}\\fR" if value else shown)
        yield from _prose(argument.parameter.help or "")
    epilogue = _first(command.help_epilogue)
    if epilogue:
        yield ".PP"
        yield from _verbatim(epilogue)


def _prose(text: str) -> Iterator[str]:
    """Paragraphs."""
    for index, paragraph in enumerate(text.strip().split("\n\n")):
        if index:
            yield ".PP"
        yield _plain(" ".join(paragraph.split()))


def _verbatim(text: str) -> Iterator[str]:
    """Lines as they stand."""
    yield ".nf"
    yield from (_plain(line) for line in text.rstrip().split("\n"))
    yield ".fi"


def _plain(text: str) -> str:
    """Text that `man` takes for nothing else."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    escaped = escaped.replace("…", "...")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _first(value: object) -> str:
    return value if isinstance(value, str) else ""


def main(arguments: list[str]) -> int:
    """Prints the page, or writes it to a file if it is another."""
    if not arguments:
        print(page(), end="")
        return 0
    file = Path(arguments[0])
    if not file.is_file() or file.read_text(encoding="utf-8") != page():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page(), encoding="utf-8")
        print(f"wrote {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
