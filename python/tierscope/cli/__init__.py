"""The command `tierscope`."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType

from tierscope import _interrupts

FAILURE = 125
"""Exit status of tierscope's own failures: programs rarely use it."""


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What a file at standard output says that takes no more; other files' errors have been told."""


def interrupted_status() -> int:
    """Exit status of what a signal that asks to end cut short: that of the first one."""
    return 128 + next(iter(_interrupts.received), signal.SIGINT)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and gives the exit status. Nothing escapes from here but exits."""
    try:
        _open_what_is_closed()
        _answer_signals(_leave)
        from tierscope.cli.app import dispatch, load

        given = list(sys.argv[1:] if arguments is None else arguments)
        load(given)
        _answer_signals(_interrupts.answer)
        return _flushed(dispatch(given))
    except KeyboardInterrupt:
        _discard_output()
        print("interrupted: nothing more is printed or kept", file=sys.stderr)
        return interrupted_status()
    except BrokenPipeError:
        return _nobody_reads()
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _FULL:
            return _cannot_be_written(error)
        if "TIERSCOPE_TRACEBACK" in os.environ:
            raise
        kind = type(error).__name__
        print(f"error[internal]: {kind}: {error}; please report it", file=sys.stderr)
        print("  = TIERSCOPE_TRACEBACK=1 shows where it comes from", file=sys.stderr)
        return FAILURE


def _open_what_is_closed() -> None:
    """Standard streams that the caller closed lead nowhere, so that no file takes their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            mode = "r" if number == 0 else "w"
            with contextlib.suppress(OSError):
                os.fstat(number)
                continue
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _answer_signals(answer: Callable[[int, FrameType | None], None]) -> None:
    """Answers requests to end; one that the caller ignores stays ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, answer)


def _leave(number: int, _frame: FrameType | None) -> None:
    """Ends at once: while modules load there is nothing to bring to an end."""
    os._exit(128 + number)


def _flushed(status: int) -> int:
    """Finds out here, not at the interpreter's end, that nobody reads the output."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _nobody_reads()
    return status


def _nobody_reads() -> int:
    """As a program that was ended by SIGPIPE."""
    _discard_output()
    return 128 + signal.SIGPIPE


def _cannot_be_written(error: OSError) -> int:
    _discard_output()
    print(
        f"error[unwritable]: standard output cannot be written: {error.strerror}", file=sys.stderr
    )
    return FAILURE


def _discard_output() -> None:
    """The interpreter finds nothing left to flush at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
