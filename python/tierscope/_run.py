"""Running a workload on machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from tierscope import _core
from tierscope._call import core_errors, parsed
from tierscope.errors import RunError
from tierscope._result import INTERVAL_COLUMNS, Result
from tierscope._system import System, system, with_names_told_apart
from tierscope._workload import Generated, Recorded, workload

_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a machine stands.

    Attributes:
        accesses: accesses of the program simulated.
        instructions: instructions of the program simulated.
        time_ps: simulated time.
    """

    accesses: int
    instructions: int
    time_ps: int


Watcher = Callable[[Sequence[Progress]], None]
"""Called several times a second with each machine's progress, in the machines' order."""


class FailedRun(RunError):
    """A run in which a machine could not go on.

    Attributes:
        result: what there is, marked partial.
        failures: name of the machine, and reason, of each that failed.
    """

    def __init__(self, result: Result, failures: Sequence[tuple[str, str]]) -> None:
        self.result = result
        self.failures = list(failures)
        super().__init__("run-failed", "; ".join(f"{name}: {why}" for name, why in failures))

    def lines(self) -> list[str]:
        """The failures as the command line prints them, one string a line."""
        return [f"error[{self.code}]: {name}: {why}" for name, why in self.failures]


def compare(
    machines: Iterable[System | str],
    work: Generated | Recorded | str,
    *,
    access_limit: int = 0,
    watch: Watcher | None = None,
) -> Result:
    """Runs a workload on several machines and gives their results side by side.

    An interrupt from the keyboard ends the run; what there is then is returned, marked partial.

    Args:
        machines: systems, or names of presets and files. Machines of equal names are called by
            what sets them apart.
        work: what runs, or its name.
        access_limit: ends the run, marked partial, after so many accesses; 0 for no limit.
        watch: hears of the progress.

    Raises:
        SpecError: with every mistake of a description.
        FailedRun: where a machine could not go on; it holds what there is.
        RunError: where the run could not start.
    """
    loaded = [one if isinstance(one, System) else system(one) for one in machines]
    loaded = with_names_told_apart(loaded)
    job = {
        "systems": [one.to_dict() for one in loaded],
        "workload": (workload(work) if isinstance(work, str) else work).to_dict(),
        "options": {"access_limit": access_limit},
    }
    with core_errors():
        return _collect(_core.Run.start(json.dumps(job)), loaded, watch)


def run(
    machine: System | str,
    work: Generated | Recorded | str,
    *,
    access_limit: int = 0,
    watch: Watcher | None = None,
) -> Result:
    """Runs a workload on one machine. As :func:`compare`."""
    return compare([machine], work, access_limit=access_limit, watch=watch)


def _collect(under_way: _core.Run, machines: Sequence[System], watch: Watcher | None) -> Result:
    """Waits for a run, answerable to the keyboard, and makes its result."""
    while True:
        try:
            while not under_way.wait(_POLL_S):
                if watch is not None:
                    watch([Progress(**one) for one in parsed(under_way.progress())])
            break
        except KeyboardInterrupt:
            under_way.stop()
        except BaseException:
            under_way.stop()
            raise
    return _result(parsed(under_way.result()), machines)


def _result(finished: dict[str, Any], machines: Sequence[System]) -> Result:
    data = finished["result"]
    data["systems"] = {one.name: data["systems"][one.name] for one in machines}
    tables = [
        pl.DataFrame(columns).with_columns(pl.lit(one.name).alias("system"))
        for one, columns in zip(machines, finished["intervals"], strict=True)
        if columns
    ]
    types = INTERVAL_COLUMNS
    rows = pl.concat(tables) if tables else pl.DataFrame(schema=types)
    intervals = rows.select(pl.col(name).cast(kind) for name, kind in types.items())
    result = Result(data, {one.name: one.to_toml() for one in machines}, intervals)
    if finished["failures"]:
        raise FailedRun(result, [(name, why) for name, why in finished["failures"]])
    return result
