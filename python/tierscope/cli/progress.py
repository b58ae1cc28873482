"""Progress on stderr: a display that redraws itself, or lines where a program writes there too."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tierscope import format as fmt
from tierscope._run import Progress
from tierscope._workload import Program, Workload


class Display(Protocol):
    """Shows progress for as long as it is entered."""

    def __enter__(self) -> Display: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def __call__(self, progress: Sequence[Progress]) -> None:
        """Shows where the machines stand."""
        ...


def display(names: Sequence[str], work: Workload, *, quiet: bool) -> Display:
    """The display that suits the terminal.

    Nothing where nobody watches; whole lines where a program writes to the same terminal, since a
    display that redraws itself would tear its output.
    """
    if quiet or not sys.stderr.isatty():
        return _Nothing()
    return _Lines(names) if isinstance(work, Program) else _Table(names)


class _Nothing:
    """No display."""

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, progress: Sequence[Progress]) -> None:
        pass


class _Lines(_Nothing):
    """A line now and then, ever more rarely."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._begun = time.monotonic()
        self._next_s = 5.0

    def __call__(self, progress: Sequence[Progress]) -> None:
        passed_s = time.monotonic() - self._begun
        if passed_s < self._next_s:
            return
        self._next_s = passed_s + min(60.0, passed_s / 2)
        for name, one in zip(self._names, progress, strict=True):
            speed = fmt.rate(one.accesses / passed_s)
            print(
                f"tierscope: {passed_s:.0f} s: {name}: {fmt.count(one.accesses)} accesses "
                f"at {speed}, {fmt.seconds(one.time_ps * 1e-12)} simulated",
                file=sys.stderr,
            )


class _Table(_Nothing):
    """A table that redraws itself and goes away."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._begun = time.monotonic()
        self._live = Live(console=Console(stderr=True), transient=True, refresh_per_second=4)

    def __enter__(self) -> _Table:
        self._live.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()

    def __call__(self, progress: Sequence[Progress]) -> None:
        passed_s = time.monotonic() - self._begun
        table = Table(box=None, padding=(0, 2, 0, 0))
        for heading in (f"{passed_s:.0f} s", "accesses", "speed", "simulated"):
            table.add_column(heading, justify="right" if table.columns else "left")
        for name, one in zip(self._names, progress, strict=True):
            speed = fmt.rate(one.accesses / max(passed_s, 1e-9))
            simulated = fmt.seconds(one.time_ps * 1e-12)
            table.add_row(Text(name), fmt.count(one.accesses), speed, simulated)
        self._live.update(table)
