"""Requests to end that the command line gets, and when they break off what is under way.

While machines run, a request ends them, and there is a partial result. What follows, until the
result is printed and kept, is short, and a request that comes then waits for it: a run that took
hours is not lost to one that came too late. The second one breaks that off too.

Signals reach the main thread alone. Runs in other threads are ended by whoever started those, who
hears of a request that waits from ``received``.
"""

from __future__ import annotations

import threading
from types import FrameType

received: list[int] = []
"""Signals that asked to end, in the order in which they came."""

_held_from: int | None = None
"""How many there were when a run ended whose result is on its way; none while nothing is held."""


def answer(number: int, _frame: FrameType | None) -> None:
    """Answers a signal: by an interrupt, but for the first since the last run ended."""
    received.append(number)
    if _held_from is None or len(received) > _held_from + 1:
        raise KeyboardInterrupt


def hold() -> None:
    """A run has ended: the next request waits until its result is delivered."""
    global _held_from
    if _held_from is None:
        _held_from = len(received)


def release() -> None:
    """A run is under way: requests end it, and one that waited does. Not so in other threads.

    Raises:
        KeyboardInterrupt: where one waited.
    """
    global _held_from
    if threading.current_thread() is not threading.main_thread():
        return
    waited = _held_from is not None and len(received) > _held_from
    _held_from = None
    if waited:
        raise KeyboardInterrupt
