"""Running a study, and what came of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tierscope import _check
from tierscope import format as fmt
from tierscope._result import Result, interval_table
from tierscope._shape import of_windows
from tierscope.errors import ArgumentError, TierscopeError
from tierscope.sweeps import table as tables
from tierscope.sweeps.execute import THREADS, check_on, processors, run_all, shared
from tierscope.sweeps.points import Point, points
from tierscope.sweeps.recordings import at_hand, programs, recorded
from tierscope.sweeps.store import Store, lock
from tierscope.sweeps.study import Study, read

if TYPE_CHECKING:
    import altair as alt
    import polars as pl
    from matplotlib.figure import Figure

STATES = ("complete", "sampled", "partial", "failed", "missing")
"""What a point can be: simulated wholly, by samples, or in part; failed; not run yet."""


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """How far a sweep is.

    Attributes:
        done: runs that have ended, those of earlier times included.
        total: runs of the study; points that are equal in all that matters are one run.
        failed: runs that failed.
    """

    done: int
    total: int
    failed: int


SweepWatcher = Callable[[SweepProgress], None]
"""Called as each run ends, and once before the first."""


class Sweep:
    """What a sweep gave, or has given so far.

    Attributes:
        directory: where it is kept.
        data: name, design, parameters and points, as in ``sweep.json``.
        interrupted: whether an interrupt from the keyboard ended it.
    """

    def __init__(self, directory: Path, *, interrupted: bool = False) -> None:
        self.directory = directory
        self.interrupted = interrupted
        self._store = Store(directory)
        self.data: dict[str, Any] = self._store.read_plan()
        keys = dict.fromkeys(row["key"] for row in self.data["points"])
        # Without intervals, which only one point's result needs: there may be many points.
        self._records = {
            key: {**record, "intervals": None}
            for key in keys
            if (record := self._store.record(key)) is not None
        }
        self._frame: pl.DataFrame | None = None

    @property
    def name(self) -> str:
        """The study's name."""
        return str(self.data["name"])

    @property
    def parameters(self) -> list[str]:
        """Names of what was varied: columns of the table."""
        return [one["name"] for one in self.data["parameters"]]

    def counts(self) -> dict[str, int]:
        """How many points are in each of :data:`STATES`."""
        states = [self.state(index) for index in range(len(self))]
        return {state: states.count(state) for state in STATES}

    def state(self, index: int) -> str:
        """One of :data:`STATES`."""
        record = self._records.get(self.data["points"][index]["key"])
        return "missing" if record is None else str(record["status"])

    @property
    def complete(self) -> bool:
        """Whether every point was simulated wholly."""
        return self.counts()["complete"] == len(self)

    @property
    def completeness(self) -> str:
        """``complete``, ``sampled`` where some points are, or ``partial``.

        It is partial where points failed, are missing or ended early.
        """
        counts = self.counts()
        if counts["complete"] + counts["sampled"] < len(self):
            return "partial"
        return "sampled" if counts["sampled"] else "complete"

    @property
    def counts_only(self) -> bool:
        """Whether its points have counts alone, and no times."""
        return bool(self.data["region"].get("counts_only"))

    @property
    def of_windows(self) -> bool:
        """Whether some points are of recordings of windows, which are samples of their program."""
        workloads = (
            record["result"]["workload"]
            for record in self._records.values()
            if record["result"] is not None
        )
        return any(of_windows(workload) for workload in workloads)

    def failures(self) -> Iterator[tuple[str, str]]:
        """Each distinct run that failed: what it was, and why."""
        told = set()
        for index, row in enumerate(self.data["points"]):
            record = self._records.get(row["key"])
            if record is not None and record["status"] == "failed" and row["key"] not in told:
                told.add(row["key"])
                error = record["error"]
                yield self.label(index), f"{error['code']}: {error['message']}"

    def label(self, index: int) -> str:
        """A point in words, such as ``hybrid/quick, gups, hybrid.cache.ways = 4, seed 0``."""
        row = self.data["points"][index]
        parts = [row["system"], row["workload"]]
        parts += [f"{name} = {fmt.value(value)}" for name, value in row["choice"].items()]
        parts += [] if row["seed"] is None else [f"seed {row['seed']}"]
        return ", ".join(parts)

    def table(self) -> pl.DataFrame:
        """One row for each point: what was varied, the machine and what came out.

        Whatever reads Arrow takes it without a copy: ``pyarrow.table(sweep.table())``.
        """
        if self._frame is None:
            self._frame = tables.table(
                self.data["points"], self._records, self.parameters, self._store.machine_text
            )
        return self._frame

    def result(self, index: int) -> Result:
        """What one point gave, as :func:`run` would have given it.

        Raises:
            ArgumentError: where there is no such point.
            TierscopeError: where it has failed, or has not run.
        """
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(self):
            mend = f"write a number from 0 to {len(self) - 1}: the table's column `point`"
            raise ArgumentError("wrong-type", f"there is no point {_check.shown(index)}", mend)
        row = self.data["points"][index]
        record = self._store.record(row["key"])
        if record is None or record["result"] is None:
            hint: str | None = None
            if record is None:
                why = "has not run"
            elif record["error"] is not None:
                why = f"failed: {record['error']['message']}"
            else:
                why = "has counts alone, and no result: its study has counts_only"
                hint = "read its row in table(), or sweep without counts_only"
            raise TierscopeError("no-result", f"point {index} ({self.label(index)}) {why}", hint)
        text = self._store.machine_text(row["machine_digest"], row["system"])
        descriptions = {} if text is None else {row["system"]: text}
        columns = {k: v for k, v in record["intervals"].items() if k != "system"}
        return Result(
            _renamed(record["result"], row["system"]),
            descriptions,
            interval_table({row["system"]: columns}),
        )

    def plot_lines(self, over: str | None = None, figures: Sequence[str] | None = None) -> Figure:
        """Figures over one parameter: a line for each system, workload and value of the others.

        Args:
            over: the parameter; the first unless given.
            figures: columns of the table; execution time and misses unless given.

        Raises:
            ArgumentError: where there is no such parameter or figure, or nothing was varied.
        """
        from tierscope import sweep_plots

        return sweep_plots.lines(self, over, figures)

    def plot_heat_map(
        self, figure: str | None = None, across: str | None = None, down: str | None = None
    ) -> Figure:
        """One figure over two parameters, a map for each system and workload.

        Args:
            figure: a column of the table; the execution time unless given, of recordings of
                windows the thread time of the program.
            across: the parameter from left to right; the first unless given.
            down: the parameter from bottom to top; the second unless given.

        Raises:
            ArgumentError: where there is no such parameter or figure, or one alone was varied.
        """
        from tierscope import sweep_plots

        return sweep_plots.heat_map(self, figure, across, down)

    def charts(self) -> list[alt.TopLevelMixin]:
        """The figures of a page, for notebooks: Altair draws them. It needs that package.

        Raises:
            TierscopeError: where it is not installed.
        """
        from tierscope.pages import sweep_charts
        from tierscope.pages.chart import in_altair

        return in_altair(sweep_charts.all_of(self))

    def save_report(self, path: str | os.PathLike[str]) -> None:
        """Writes one HTML page, which needs no network.

        Raises:
            TierscopeError: where it cannot be written.
        """
        from tierscope.pages.report import write_report

        write_report(self, path)

    def write_table(self) -> None:
        """Writes ``sweep.parquet`` of the points that there are."""
        self._store.write_table(tables.packed(self.table()))

    def to_json(self) -> str:
        """The plan, how each point ended, and its figures, as one JSON object."""
        frame = self.table()
        rows = frame.drop("machine").to_dicts()
        said = {k: v for k, v in self.data.items() if k != "points"}
        whole = {
            **said,
            "completeness": self.completeness,
            "counts": self.counts(),
            "points": rows,
        }
        return json.dumps(whole, ensure_ascii=False, indent=2)

    def __len__(self) -> int:
        return len(self.data["points"])

    def __repr__(self) -> str:
        told = ", ".join(f"{n} {state}" for state, n in self.counts().items() if n)
        return f"<Sweep {self.name}: {len(self)} points, {told}>"

    def _repr_html_(self) -> str:
        from tierscope.sweeps.show import html_table

        return html_table(self)


def _renamed(result: Mapping[str, Any], name: str) -> Any:
    """A result whose one system is called as the point calls it."""
    (system,) = result["systems"].values()
    return {**result, "systems": {name: system}}


def sweep(
    what: Study | str | os.PathLike[str],
    directory: str | os.PathLike[str],
    *,
    on: str = THREADS,
    workers: int | None = None,
    retry_failed: bool = False,
    watch: SweepWatcher | None = None,
) -> Sweep:
    """Runs a study, or goes on with it: what has run already is not run again.

    An interrupt from the keyboard ends it; what there is then is kept and returned.

    Args:
        what: a study, or the file of one.
        directory: where it is kept; an earlier sweep there is gone on with.
        on: ``threads`` of this computer, or a Dask scheduler as ``dask://HOST:PORT``.
        workers: how many points run at a time; as many as there are processors unless given.
        retry_failed: whether points that failed run again.
        watch: hears of the progress.

    Raises:
        SpecError: with every mistake of the study, before anything runs.
        TierscopeError: where the directory holds something else or another sweep is under way in
            it, where there is no cluster, or where a program cannot be recorded.
    """
    study = what if isinstance(what, Study) else read(what)
    mend = "name a directory for the sweep"
    target = Path(_check.path(directory, "a sweep's directory", mend, ours=True)).absolute()
    where = check_on(on, workers)
    _check.flag(retry_failed, "running failed points again")
    _check.watcher(watch, "a SweepProgress")
    store = Store(target)
    store.check()
    # Every mistake is told before a program runs.
    found = points(study, at_hand=at_hand(study, target))
    with store.locked():
        if programs(study):
            found = points(study, recorded(study, target))
        store.plan(study, found)
        interrupted = _run(store, [(study, found)], where, workers, retry_failed, watch)
        done = Sweep(target, interrupted=interrupted)
        done.write_table()
    return done


def sweep_all(
    studies: Mapping[Path, Study],
    together: Path,
    *,
    on: str = THREADS,
    workers: int | None = None,
    retry_failed: bool = False,
    watch: SweepWatcher | None = None,
) -> dict[Path, Sweep]:
    """Runs studies as one, each with a directory of its own; they share what has been run.

    Args:
        studies: each study, by its directory.
        together: the directory that keeps the points of all.
        on: as of :func:`sweep`; so are those that follow.
        workers: see there.
        retry_failed: see there.
        watch: see there.

    Raises:
        SpecError: with every mistake of the first study that has one, before anything runs.
        TierscopeError: as :func:`sweep`.
    """
    where = check_on(on, workers)
    stores = {directory: Store(directory, together) for directory in studies}
    for store in stores.values():
        store.check()
    found = {directory: points(study) for directory, study in studies.items()}
    with ExitStack() as held:
        held.enter_context(lock(together))
        for directory, store in stores.items():
            held.enter_context(store.locked())
            store.plan(studies[directory], found[directory])
        asked = [(study, found[directory]) for directory, study in studies.items()]
        any_store = next(iter(stores.values()))
        interrupted = _run(any_store, asked, where, workers, retry_failed, watch)
        done = {one: Sweep(one, interrupted=interrupted) for one in studies}
        for one in done.values():
            one.write_table()
    return done


def to_run(store: Store, found: Sequence[Point], retry_failed: bool) -> list[Point]:
    """The points that have to run: each distinct one once, and none that has run."""
    rest = []
    for point in {point.key: point for point in reversed(found)}.values():
        record = store.record(point.key)
        if record is None or (retry_failed and record["status"] == "failed"):
            rest.append(point)
    rest.reverse()
    return rest


def _run(
    store: Store,
    studies: Sequence[tuple[Study, Sequence[Point]]],
    where: str,
    workers: int | None,
    retry_failed: bool,
    watch: SweepWatcher | None,
) -> bool:
    """Runs what studies with a common store lack; whether that was interrupted."""
    regions = {one.key: study.region for study, found in studies for one in found}
    rest = to_run(store, [one for _, found in studies for one in found], retry_failed)
    total = len(regions)
    done, failures = total - len(rest), 0

    def tell() -> None:
        if watch is not None:
            watch(SweepProgress(done, total, failures))

    tell()
    if not rest:
        return False
    asked = [(point, regions[point.key]) for point in rest]
    records = run_all(shared(asked, workers or processors()), where, workers)
    try:
        for record in records:
            store.keep(record)
            done += 1
            failures += record["status"] == "failed"
            tell()
    except KeyboardInterrupt:
        return True
    finally:
        records.close()
    return False


def load_sweep(directory: str | os.PathLike[str]) -> Sweep:
    """Reads a sweep, also one that is under way or was killed.

    Raises:
        TierscopeError: where there is none, or one that this version cannot read.
    """
    mend = "name a directory that `tierscope sweep` wrote"
    return Sweep(Path(_check.path(directory, "a sweep's directory", mend, ours=True)))
