"""The command line: what it takes, and what it says of itself."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from types import ModuleType

from cyclopts import App, CycloptsError, Parameter, UnknownOptionError

from tierscope import _core
from tierscope._interrupts import received
from tierscope.cli import interrupted_status
from tierscope.cli.told import fail
from tierscope.errors import TierscopeError

_COMMANDS = {
    "run": ("run", ""),
    "record": ("record", ""),
    "compare": ("results", "COMPARE_"),
    "report": ("report", ""),
    "sweep": ("sweep", ""),
    "advise": ("advise", ""),
    "reproduce": ("reproduce", ""),
    "show": ("describe", "SHOW_"),
    "check": ("describe", "CHECK_"),
    "crash": ("crash", ""),
    "init": ("init", ""),
    "doctor": ("doctor", ""),
    "completions": ("completions", ""),
    "convert": ("trace", "CONVERT_"),
    "trace info": ("trace", "INFO_"),
}
"""Each command: the module that has its function, usage and examples, and how the latter begin."""

_NEGATIVE = re.compile(r"-\.?[0-9]")
_LACKS_VALUE = re.compile(r"--[a-z][a-z-]*")

_HELP = """\
Brings extended memory hierarchies into focus: describe a machine once, run any program on it,
and see where the time and the data go.
"""

_EXAMPLES = """\
A real, unmodified program on three machines, side by side:

  tierscope run -s hybrid/quick,storage/quick,oracle/quick -- ./my_program args

A built-in workload, with one of its parameters set:

  tierscope run -s hybrid,storage -w gups --set workload.random=0.1

Record once, replay on any machine, keep the result:

  tierscope record -o app.tst -- ./my_program args
  tierscope run -s my-machine.toml -w trace:app.tst -o results/

A result that was kept, and several side by side:

  tierscope show results/
  tierscope compare results/ others/

What a trace asks for, and the same trace in another format:

  tierscope trace info dramsim3:app.trc
  tierscope convert dramsim3:app.trc ramulator:app.ramulator.gz

A study of many points, and what it gave:

  tierscope sweep study.toml -o study/
  tierscope show study/

Published tables and figures, run here, beside what was published:

  tierscope reproduce
  tierscope reproduce hybrid-against-ssd/fig7 --quick -o reproduced/

Either as one page for a browser, which needs no network:

  tierscope report results/ -o report.html

Presets and workloads; a description to start from, each number with its source:

  tierscope show
  tierscope init hybrid/quick > my-machine.toml
  tierscope check my-machine.toml

Power that fails while a workload runs, and what is there after recovery:

  tierscope crash hams-le/quick -w gups --points 1000 --adversarial

What this computer has, and what is missing for what:

  tierscope doctor

Exit status: the program's (128+n for a signal); 125 for a failure of
tierscope itself; 130 for an interrupt.
"""


def of(commands: Iterable[str] = _COMMANDS) -> App:
    """The command line with these commands: their modules are loaded, which takes long for all."""
    app = App(
        name="tierscope",
        help=_HELP,
        help_epilogue=_EXAMPLES,
        help_format="plaintext",
        version=_core.version(),
        default_parameter=Parameter(negative=()),
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    groups: dict[str, App] = {}
    for command in commands:
        place, prefix = _COMMANDS[command]
        module = _module(place)
        usage, examples = (getattr(module, prefix + name) for name in ("USAGE", "EXAMPLES"))
        group, _, name = command.rpartition(" ")
        above = app
        if group:
            help_ = "Looks at recordings and traces."
            above = groups.setdefault(group, App(name=group, help=help_, help_epilogue=examples))
        above.command(_flowing(getattr(module, name)), usage=usage, help_epilogue=examples)
    for one in groups.values():
        app.command(one)
    return app


def _flowing(command: Callable[..., int]) -> Callable[..., int]:
    """The command with its docstring's lines joined: they are broken anew for the terminal."""
    prose, arguments, meanings = (command.__doc__ or "").partition("Args:")
    prose = re.sub(r"(?<=\S)\n *(?=\S)", " ", prose)
    meanings = re.sub(r"\n {12,}", " ", meanings)
    command.__doc__ = prose + arguments + meanings
    return command


def _asked(arguments: list[str]) -> Iterable[str]:
    """The command that is asked for, or those of its group; all, where help or a mistake tells."""
    word = arguments[0] if arguments else ""
    return [name for name in _COMMANDS if word in (name, name.partition(" ")[0])] or _COMMANDS


def load(arguments: list[str]) -> None:
    """Loads what a command needs, so that signals may be answered otherwise once it runs."""
    for command in _asked(arguments):
        _module(_COMMANDS[command][0])


def _module(place: str) -> ModuleType:
    return import_module(f"tierscope.cli.{place}")


def dispatch(arguments: list[str]) -> int:
    """Runs one command and gives its exit status; errors go to stderr, a line each."""
    _never_fail_to_encode()
    try:
        tokens = with_negative_values(with_explicit_json(arguments))
        status = of(_asked(tokens))(tokens, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        return fail([f"error[usage]: {_in_one_line(error)}", f"  = {_hint(error)}"])
    except TierscopeError as error:
        return _status_of(error, fail(error.lines()))
    return status if isinstance(status, int) else 0


def _status_of(error: TierscopeError, failure: int) -> int:
    """That of an interrupt, or of the signal that killed the program, if nothing ran for it."""
    from tierscope._run import NoResultError

    if not isinstance(error, NoResultError):
        return failure
    if received:
        return interrupted_status()
    status = error.exit_status or 0
    return status if status > 128 else failure


def with_explicit_json(arguments: list[str]) -> list[str]:
    """A bare `--json` means stdout: `--json=-`. What follows `--` is the program's."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    head = ["--json=-" if token == "--json" else token for token in arguments[:end]]
    return head + arguments[end:]


def with_negative_values(arguments: list[str]) -> list[str]:
    """What begins with a minus and a digit is no option, but the value of the one before it.

    So `--limit -5ms` is `--limit=-5ms`, and whoever takes the value says what is wrong with it.
    """
    told: list[str] = []
    for number, token in enumerate(arguments):
        if token == "--":
            return told + arguments[number:]
        if _NEGATIVE.match(token) and told and _LACKS_VALUE.fullmatch(told[-1]):
            told[-1] += f"={token}"
        else:
            told.append(token)
    return told


def _in_one_line(error: CycloptsError) -> str:
    text = " ".join(str(error).split())
    # Three points end a list that is cut.
    text = text if text.endswith("...") else text.rstrip(".")
    return text[:1].lower() + text[1:]


def _hint(error: CycloptsError) -> str:
    command = " ".join(["tierscope", *(error.command_chain or ())])
    if isinstance(error, UnknownOptionError) and error.command_chain:
        return f"{command} --help lists the options; those of a program follow --"
    return f"{command} --help shows how"


def _never_fail_to_encode() -> None:
    """A terminal that lacks a character shows `?` in its place."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
