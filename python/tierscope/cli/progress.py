"""Progress on stderr: a display that redraws itself, or lines where a program writes there too."""

from __future__ import annotations

import shutil
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tierscope import format as fmt
from tierscope._run import Growth, Progress
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


class WithOutlook(_Nothing):
    """Another display, and a line where a run will take very long, even where nobody watches."""

    LOOK_S = 5.0
    """The rate is that of the first seconds."""
    SAMPLED_S = 15.0
    """Of a sampled run, whose first period is all in detail, that of as many behind so many."""
    LONG_S = 1800.0
    """A run that takes longer is told of."""

    def __init__(self, shown: Display, accesses: int | None, *, sampled: bool) -> None:
        """Over ``shown``; of a workload of so many accesses, where that is known."""
        self._shown = shown
        self._mends = "--limit or --time-limit ends it sooner"
        if not sampled:
            self._mends += ", --sample estimates it"
        self._accesses = accesses
        self._begun = time.monotonic()
        self._sampled = sampled
        self._since: tuple[float, int] | None = None if sampled else (0.0, 0)

    def __enter__(self) -> WithOutlook:
        self._shown.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._shown.__exit__(*exception)

    def __call__(self, progress: Sequence[Progress]) -> None:
        """Shows where the machines stand."""
        self._shown(progress)
        passed_s = time.monotonic() - self._begun
        if self._accesses is None:
            return
        least = min((one.accesses for one in progress), default=0)
        if self._since is None or least < self._since[1]:
            # A denser run begins anew.
            self._since = (passed_s, least) if passed_s >= self.SAMPLED_S else None
            return
        since_s, before = self._since
        if passed_s < since_s + (self.SAMPLED_S if self._sampled else self.LOOK_S):
            return
        accesses, self._accesses = self._accesses, None
        rest_s = (accesses - least) * (passed_s - since_s) / max(least - before, 1)
        if rest_s > self.LONG_S:
            of = "the latest" if self._sampled else "the first"
            print(
                f"tierscope: at the rate of {of} {passed_s - since_s:.0f} s this run of "
                f"{fmt.count(accesses)} accesses takes about {_minutes(rest_s)}; a smaller "
                f"workload, {self._mends}",
                file=sys.stderr,
            )


class GrowthLines:
    """Lines about a growing recording, ever more rarely; and one if its disk will soon be full."""

    WINDOW_S = 5.0
    """The rate is that of the latest seconds, and is told when there have been so many."""
    SOON_S = 600.0
    """A disk that is full before so long is told of."""

    def __init__(self, file: Path, *, quiet: bool, may_grow: bool) -> None:
        self._file = file
        self._quiet = quiet
        self._warned = not may_grow
        self._seen: deque[Growth] = deque()
        self._next_s = self.WINDOW_S

    def __call__(self, growth: Growth) -> None:
        """Shows how far the recording is, where it is time."""
        if self._seen and growth.elapsed_s == self._seen[-1].elapsed_s:
            return
        self._seen.append(growth)
        while len(self._seen) > 2 and growth.elapsed_s - self._seen[1].elapsed_s >= self.WINDOW_S:
            self._seen.popleft()
        first = self._seen[0]
        passed_s = growth.elapsed_s - first.elapsed_s
        if growth.elapsed_s < self.WINDOW_S or passed_s <= 0:
            return
        rate = (growth.file_bytes - first.file_bytes) / passed_s
        room_s = self._room_bytes() / rate if rate > 0 else None
        if not self._warned and room_s is not None and room_s < self.SOON_S:
            self._warned = True
            self._print(
                f"the disk of {self._file} is full in {_minutes(room_s)} at this rate; --max-size "
                "ends a recording in time, --filter-l1 32KiB makes it smaller"
            )
        if not self._quiet and growth.elapsed_s >= self._next_s:
            self._next_s = growth.elapsed_s + min(60.0, growth.elapsed_s / 2)
            self._print(growth_line(growth, rate, room_s))

    def _room_bytes(self) -> int:
        return shutil.disk_usage(self._file.absolute().parent).free

    def _print(self, line: str) -> None:
        print(f"tierscope: {fmt.visible(line)}", file=sys.stderr)


def growth_line(growth: Growth, rate: float, room_s: float | None) -> str:
    """How far a recording is, in words. ``rate`` is in bytes a second."""
    each = growth.file_bytes / max(growth.accesses, 1)
    line = (
        f"{growth.elapsed_s:.0f} s: {fmt.count(growth.accesses)} accesses, "
        f"{fmt.size(growth.file_bytes)}, {fmt.plain(each)} bytes an access"
    )
    if room_s is None:
        return f"{line}; it does not grow now"
    return f"{line}; {fmt.size(60 * rate)} a minute; the disk has room for {_minutes(room_s)}"


def _minutes(seconds: float) -> str:
    """A time as people plan by it."""
    for unit_s, unit in ((86400.0, "days"), (3600.0, "hours")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{seconds / 60:.0f} min" if seconds >= 60 else "less than a minute"
