"""The command line: what it takes, and what it says of itself."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable

from cyclopts import App, CycloptsError, Parameter, UnknownOptionError

import tierscope
from tierscope._interrupts import received
from tierscope.cli import (
    FAILURE,
    advise,
    completions,
    crash,
    describe,
    doctor,
    init,
    interrupted_status,
    record,
    report,
    reproduce,
    results,
    run,
    sweep,
    trace,
)
from tierscope.errors import TierscopeError
from tierscope.format import visible

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

app = App(
    name="tierscope",
    help=_HELP,
    help_epilogue=_EXAMPLES,
    help_format="plaintext",
    version=tierscope.__version__,
    default_parameter=Parameter(negative=()),
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)


def _flowing(command: Callable[..., int]) -> Callable[..., int]:
    """The command with its docstring's lines joined: they are broken anew for the terminal."""
    prose, arguments, meanings = (command.__doc__ or "").partition("Args:")
    prose = re.sub(r"(?<=\S)\n *(?=\S)", " ", prose)
    meanings = re.sub(r"\n {12,}", " ", meanings)
    command.__doc__ = prose + arguments + meanings
    return command


app.command(_flowing(run.run), usage=run.USAGE, help_epilogue=run.EXAMPLES)
app.command(_flowing(record.record), usage=record.USAGE, help_epilogue=record.EXAMPLES)
app.command(
    _flowing(results.compare), usage=results.COMPARE_USAGE, help_epilogue=results.COMPARE_EXAMPLES
)
app.command(_flowing(report.report), usage=report.USAGE, help_epilogue=report.EXAMPLES)
app.command(_flowing(sweep.sweep), usage=sweep.USAGE, help_epilogue=sweep.EXAMPLES)
app.command(_flowing(advise.advise), usage=advise.USAGE, help_epilogue=advise.EXAMPLES)
app.command(_flowing(reproduce.reproduce), usage=reproduce.USAGE, help_epilogue=reproduce.EXAMPLES)
app.command(
    _flowing(describe.show), usage=describe.SHOW_USAGE, help_epilogue=describe.SHOW_EXAMPLES
)
app.command(
    _flowing(describe.check), usage=describe.CHECK_USAGE, help_epilogue=describe.CHECK_EXAMPLES
)
app.command(_flowing(crash.crash), usage=crash.USAGE, help_epilogue=crash.EXAMPLES)
app.command(_flowing(init.init), usage=init.USAGE, help_epilogue=init.EXAMPLES)
app.command(_flowing(doctor.doctor), usage=doctor.USAGE, help_epilogue=doctor.EXAMPLES)
app.command(
    _flowing(completions.completions), usage=completions.USAGE, help_epilogue=completions.EXAMPLES
)
app.command(
    _flowing(trace.convert), usage=trace.CONVERT_USAGE, help_epilogue=trace.CONVERT_EXAMPLES
)
_trace = App(
    name="trace", help="Looks at recordings and traces.", help_epilogue=trace.INFO_EXAMPLES
)
_trace.command(_flowing(trace.info), usage=trace.INFO_USAGE, help_epilogue=trace.INFO_EXAMPLES)
app.command(_trace)


def dispatch(arguments: list[str]) -> int:
    """Runs one command and gives its exit status; errors go to stderr, a line each."""
    _never_fail_to_encode()
    try:
        tokens = with_explicit_json(arguments)
        status = app(tokens, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        return _fail([f"error[usage]: {_in_one_line(error)}", f"  = {_hint(error)}"])
    except TierscopeError as error:
        return _status_of(error, _fail(error.lines()))
    return status if isinstance(status, int) else 0


def _status_of(error: TierscopeError, failure: int) -> int:
    """That of an interrupt, or of the signal that killed the program, if nothing ran for it."""
    if not isinstance(error, tierscope.NoResultError):
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


def _fail(lines: list[str]) -> int:
    for line in lines:
        print(visible(line), file=sys.stderr)
    return FAILURE


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
