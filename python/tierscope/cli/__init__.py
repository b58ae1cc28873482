"""The command `tierscope`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

FAILURE = 125
"""Exit status of tierscope's own failures: programs rarely use it."""


class Terminated(KeyboardInterrupt):
    """The signal that asks to end; it is answered as an interrupt is."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and gives the exit status. Nothing escapes from here but exits."""
    try:
        signal.signal(signal.SIGTERM, _terminate)
        from tierscope.cli.app import dispatch

        return _flushed(dispatch(list(sys.argv[1:] if arguments is None else arguments)))
    except Terminated:
        return 128 + signal.SIGTERM
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        return _nobody_reads()
    except Exception as error:
        if "TIERSCOPE_TRACEBACK" in os.environ:
            raise
        kind = type(error).__name__
        print(f"error[internal]: {kind}: {error}; please report it", file=sys.stderr)
        print("  = TIERSCOPE_TRACEBACK=1 shows where it comes from", file=sys.stderr)
        return FAILURE


def _terminate(_signal: int, _frame: object) -> None:
    raise Terminated


def _flushed(status: int) -> int:
    """Finds out here, not at the interpreter's end, that nobody reads the output."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _nobody_reads()
    return status


def _nobody_reads() -> int:
    """As a program that was ended by SIGPIPE; the interpreter finds nothing left to flush."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE
