"""Results: what a run gave, as tables, plots and files."""

from __future__ import annotations

import html
import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from rich.console import Console

from tierscope import _check, _core, causes, distributions, report, table
from tierscope._call import core_errors, parsed
from tierscope._files import check_directory, read_text, write_directory
from tierscope._shape import (
    DeviceResult,
    DriveResult,
    FaultResult,
    Latency,
    NvmResult,
    Queues,
    RecordedWindows,
    ResultData,
    SamplingResult,
    SystemResult,
)
from tierscope.causes import By
from tierscope.errors import RunError, TierscopeError

if TYPE_CHECKING:
    import altair as alt
    import polars as pl
    from matplotlib.figure import Figure

INTERRUPTED = "the run was interrupted"
"""Why a result is partial that an interrupt from the keyboard, or a signal, cut short."""
_SCHEMA = 1
_RESULT_FILE = "result.json"
_INTERVALS_FILE = "intervals.parquet"
REPETITIONS_FILE = "repetitions.json"
WHY_FILE = "why.json"
"""What says why the systems take as long as they do, where that was asked for."""
"""What repetitions keep beside the directory of each result."""

INTERVAL_COLUMNS = (
    "end_ps",
    "instructions",
    "accesses",
    "latency_ps",
    "misses",
    "store_read_bytes",
    "store_written_bytes",
)
"""Columns of :attr:`Result.intervals` behind ``system``: sums over an interval."""


Intervals = Mapping[str, Mapping[str, list[int]]]
"""Intervals of systems: columns by the system's name."""


class Table:
    """A result's table: text when printed, HTML in a notebook."""

    def __init__(self, data: ResultData) -> None:
        self._data = data

    def __str__(self) -> str:
        """The table as text, however wide."""
        page = report.Page.wide(self._data)
        return "\n".join(line.plain.rstrip() for line in report.table(self._data, page))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        names = list(self._data["systems"])
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join(
            f"<tr><th style='text-align:left'>{html.escape(label.strip())}</th>"
            + "".join(f"<td>{html.escape(cells[name])}</td>" for name in names)
            + "</tr>"
            for label, cells in table.rows(self._data)
        )
        return f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>"


class Result:
    """What a run gave.

    Attributes:
        data: the result object, as in ``result.json``; its schema is in the reference.
        descriptions: the resolved description of each system, TOML by the system's name.
    """

    def __init__(
        self,
        data: ResultData,
        descriptions: dict[str, str] | None = None,
        intervals: pl.DataFrame | Intervals | None = None,
    ) -> None:
        self.data = data
        self.descriptions = descriptions or {}
        self._intervals: pl.DataFrame | Intervals = {} if intervals is None else intervals

    @property
    def intervals(self) -> pl.DataFrame:
        """One row for each system and interval of simulated time; see :data:`INTERVAL_COLUMNS`."""
        # A table when it is first asked for: Polars takes long to load.
        if isinstance(self._intervals, Mapping):
            self._intervals = interval_table(self._intervals)
        return self._intervals

    def __getitem__(self, name: str) -> SystemResult:
        """One system's figures.

        Raises:
            KeyError: where no system has that name.
        """
        return self.data["systems"][name]

    def __iter__(self) -> Iterator[str]:
        """The systems' names, in the order in which they were given."""
        return iter(self.data["systems"])

    def __len__(self) -> int:
        return len(self.data["systems"])

    @property
    def complete(self) -> bool:
        """Whether the whole workload was simulated on every system."""
        return self.data["completeness"] == "complete"

    @property
    def sampled(self) -> bool:
        """Whether parts of the workload were passed over: in the run, or as it was recorded."""
        return self.data["completeness"] == "sampled" or any(
            system.get("sampling") is not None for system in self.data["systems"].values()
        )

    @property
    def simulated_anything(self) -> bool:
        """Whether any system got so far as to access memory, or to read or write a file."""
        calls = ("file_read_bytes", "file_written_bytes")
        return any(
            system["accesses"] or any(system["counters"].get(call) for call in calls)
            for system in self.data["systems"].values()
        )

    @property
    def interrupted(self) -> bool:
        """Whether an interrupt ended the run, not what it was asked for."""
        return INTERRUPTED in (self.data["partial_reason"] or "")

    def table(self) -> Table:
        """The figures of all systems side by side."""
        return Table(self.data)

    def report(self, width: int = 80, by: By | Sequence[By] = ()) -> str:
        """The report that the command line prints, without colour.

        Args:
            width: columns of a terminal.
            by: also tells what threads stood still for by these: ``area``, and ``function`` and
                ``address`` where the run was asked for them.

        Raises:
            ArgumentError: where it is none of these.
            RunError: where the result does not tell it.
        """
        told = causes.kinds(by)
        causes.check_told(self.data, told)
        console = Console(width=width, color_system=None, force_terminal=False)
        with console.capture() as capture:
            console.print(report.render(self.data, console, unicode=True, by=told))
        return capture.get()

    def plot_breakdown(self, by: Literal["group", "owner"] = "group") -> Figure:
        """Where the threads' time goes, stacked, a column a system.

        Args:
            by: ``group`` for about ten groups, ``owner`` for each stage by itself.
        """
        from tierscope import plots

        return plots.breakdown(self.data, by)

    def plot_latency(self) -> Figure:
        """Mean and percentiles of the latency of accesses."""
        from tierscope import plots

        return plots.latency(self.data)

    def plot_latency_distribution(self) -> Figure:
        """Which share of accesses takes how long, and as long or longer: the whole histogram.

        Raises:
            RunError: where the result has none.
        """
        from tierscope import distribution_plots

        return distribution_plots.latency_distribution(self.data)

    def plot_heat_map(self) -> Figure:
        """Where in its address space the program's accesses went over time, a panel a system.

        Raises:
            RunError: where the result has no such counts.
        """
        from tierscope import distribution_plots

        return distribution_plots.heat_map(self.data)

    def plot_queues(self) -> Figure:
        """How much each queue held over time, those that ever held something: mean and most.

        Raises:
            RunError: where the result does not tell it.
        """
        from tierscope import distribution_plots

        return distribution_plots.queues(self.data)

    def plot_wear(self) -> Figure:
        """How many blocks of flash were erased, or lines of memory written, how often.

        Raises:
            RunError: where nothing wears, or has worn.
        """
        from tierscope import distribution_plots

        return distribution_plots.wear(self.data)

    def charts(self) -> list[alt.TopLevelMixin]:
        """The figures of a page, for notebooks: Altair draws them. It needs that package.

        Raises:
            TierscopeError: where it is not installed.
        """
        from tierscope.pages import charts
        from tierscope.pages.chart import in_altair

        return in_altair(charts.all_of(self.data, self.intervals))

    def save_report(self, path: str | os.PathLike[str]) -> None:
        """Writes one HTML page, which needs no network.

        Raises:
            TierscopeError: where it cannot be written.
        """
        from tierscope.pages.report import write_report

        write_report(self, path)

    def to_polars(self) -> pl.DataFrame:
        """One row for each system, one column for each figure, units last in the names.

        Whatever reads Arrow takes it without a copy: ``pyarrow.table(result.to_polars())``.
        """
        import polars as pl

        rows = [flat(name, s) for name, s in self.data["systems"].items()]
        return pl.DataFrame(rows, infer_schema_length=None)

    def to_json(self) -> str:
        """The result object as JSON."""
        return _NUMBERS.sub(_in_a_line, json.dumps(self.data, ensure_ascii=False, indent=2))

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Writes result, resolved systems and intervals to ``directory``, all or nothing.

        A directory that holds an earlier result is replaced; any other that is not empty is left
        alone.

        Raises:
            TierscopeError: where the directory holds something else, or cannot be written.
        """
        mend = "name a directory for the result"
        target = Path(_check.path(directory, "a result's directory", mend, ours=True)).absolute()
        check_target(target)
        write_directory(target, self._write)

    def _write(self, directory: Path) -> None:
        (directory / _RESULT_FILE).write_text(self.to_json() + "\n", encoding="utf-8")
        for name, file in _description_files(list(self.descriptions)).items():
            (directory / file).write_text(self.descriptions[name], encoding="utf-8")
        # Through memory: what fails then is the disk, and says so as every other file does.
        packed = io.BytesIO()
        self.intervals.write_parquet(packed)
        (directory / _INTERVALS_FILE).write_bytes(packed.getbuffer())

    def __repr__(self) -> str:
        systems = ", ".join(self)
        return (
            f"<Result of {self.data['workload']['name']} on {systems}: {self.data['completeness']}>"
        )

    def _repr_html_(self) -> str:
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in report.closing_lines(self.data))
        title = html.escape(report.title(self.data))
        remarks = "".join(f"<p>{html.escape(remark)}</p>" for remark in self.data["remarks"])
        return f"<h4>{title}</h4>{remarks}{self.table()._repr_html_()}{lines}"


def load(directory: str | os.PathLike[str]) -> Result:
    """Reads a result that was kept by ``-o`` or :meth:`Result.save`.

    Raises:
        TierscopeError: where there is none, several, or one that this version cannot read.
    """
    import polars as pl

    mend = "name a directory that `tierscope run -o` wrote"
    source = Path(_check.path(directory, "a result's directory", mend, ours=True))
    _check_one(source)
    data = _read_result(source / _RESULT_FILE)
    descriptions = {}
    for name, file in _description_files(list(data["systems"])).items():
        if (source / file).is_file():
            descriptions[name] = read_text(source / file, "a description", mend)
    path = source / _INTERVALS_FILE
    try:
        intervals = pl.read_parquet(path, glob=False) if path.is_file() else None
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _no_intervals(path, " ".join(str(error).split())) from None
    if intervals is not None and intervals.schema != interval_table({}).schema:
        raise _no_intervals(path, f"its columns are {', '.join(intervals.columns)}")
    return Result(data, descriptions, intervals)


def _no_intervals(path: Path, why: str) -> TierscopeError:
    """The error for a file that holds no intervals."""
    mend = "run it again; without that file the rest of the result can be read"
    return TierscopeError("unreadable", f"{path} holds no intervals: {why}", mend)


def _check_one(source: Path) -> None:
    """Refuses a directory of repetitions: it holds a result in each directory below it."""
    if is_repetitions(source):
        raise TierscopeError(
            "several-results",
            f"{source} holds repetitions, not one result",
            f"name one of them, such as {source / repetition_name(1)}",
        )


def is_repetitions(source: Path) -> bool:
    """Whether a directory holds repetitions, and not a result of its own."""
    return (source / REPETITIONS_FILE).is_file() and not (source / _RESULT_FILE).exists()


def repetition_name(number: int) -> str:
    """The directory of a repetition's result below that of them all; the first is 1."""
    return f"repetition-{number}"


def interval_table(intervals: Intervals) -> pl.DataFrame:
    """The intervals of systems, given as columns by the system's name, as one table."""
    import polars as pl

    columns = dict.fromkeys(INTERVAL_COLUMNS, pl.UInt64)
    tables = [pl.DataFrame(schema={"system": pl.String, **columns})]
    for name, numbers in intervals.items():
        rows = pl.DataFrame({c: numbers.get(c, []) for c in INTERVAL_COLUMNS}, schema=columns)
        tables.append(rows.select(pl.lit(name).alias("system"), pl.all()))
    return pl.concat(tables)


def check_target(target: Path) -> None:
    """Refuses a directory that a result must not replace, or could not be written to.

    Raises:
        TierscopeError: where it holds anything but an earlier result, or cannot be written.
    """
    if target.exists() and not target.is_dir():
        raise TierscopeError(
            "not-a-directory", f"{target} is a file", "name a directory for the result"
        )
    held = [one.name for one in target.iterdir()] if target.exists() else []
    foreign = [name for name in held if not _is_ours(name)]
    if foreign or (held and not (target / _RESULT_FILE).is_file()):
        why = f"it holds {foreign[0]}" if foreign else f"it holds no {_RESULT_FILE}"
        raise TierscopeError(
            "foreign-directory",
            f"{target} is not a result of tierscope ({why}) and is left alone",
            "name a new directory, or an earlier result to replace",
        )
    check_directory(target)


def _is_ours(name: str) -> bool:
    return name in (_RESULT_FILE, _INTERVALS_FILE, WHY_FILE) or (
        name.startswith("system-") and name.endswith(".toml")
    )


def is_kept_result(directory: Path) -> bool:
    """Whether a directory holds a result that was kept, and nothing else."""
    if not (directory / _RESULT_FILE).is_file():
        return False
    return all(_is_ours(path.name) for path in directory.iterdir())


def _description_files(names: list[str]) -> dict[str, str]:
    """A file name for each system's description; equal names always give equal files."""
    files: dict[str, str] = {}
    for name in names:
        stem = "system-" + (re.sub(r"[^A-Za-z0-9._=-]+", "-", name).strip("-") or "unnamed")
        file, number = f"{stem}.toml", 2
        while file in files.values():
            file, number = f"{stem}-{number}.toml", number + 1
        files[name] = file
    return files


def _read_result(path: Path) -> ResultData:
    mend = "name a directory that `tierscope run -o` wrote"
    text = read_text(path, "a result", mend)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TierscopeError("unreadable", f"{path} is not a result: {error}", mend) from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != _SCHEMA:
        raise TierscopeError(
            "other-schema",
            f"{path} has schema {schema}, and this version reads schema {_SCHEMA}",
            "read it with the version of tierscope that wrote it",
        )
    try:
        with core_errors():
            whole = parsed(_core.read_result(text))
    except RunError as error:
        raise TierscopeError(
            "unreadable",
            f"{path} is damaged, or of another version: {error}",
            "run it again, or read it with the version of tierscope that wrote it",
        ) from None
    whole["systems"] = {name: whole["systems"][name] for name in data["systems"]}
    for name, system in whole["systems"].items():
        if (why := distributions.damage(system)) is not None:
            raise TierscopeError(
                "unreadable",
                f"{path} is damaged: systems.{name}.{why}",
                "run it again, or read it with the version of tierscope that wrote it",
            )
    return cast(ResultData, whole)


_NUMBERS = re.compile(r"\[\s+((?:-?[\d.][-+\d.e]*|null)(?:,\s+(?:-?[\d.][-+\d.e]*|null))*)\s+\]")
"""A list of numbers, as JSON with indents has it: a text has no line break there."""


def _in_a_line(numbers: re.Match[str]) -> str:
    return f"[{' '.join(numbers[1].split())}]"


_NO_FIGURES = ("areas", "code", "heat_map", "latency_distribution", "notes")
"""Keys of a system's result that have no columns: they have many numbers."""


def flat(name: str, system: SystemResult) -> dict[str, object]:
    """One row of a table: each figure of a system, units last in the names."""
    row: dict[str, object] = {"system": name}
    for key, value in system.items():
        if key == "latency_ns":
            found = system["latency_ns"]
            row |= {
                f"latency_{k}_ns": None if found is None else found.get(k)
                for k in Latency.__annotations__
            }
        elif key == "stages_ns":
            row |= {f"stage_{k}_ns": v for k, v in system["stages_ns"].items()}
        elif key == "time_breakdown_ns":
            row |= {f"time_{k}_ns": v for k, v in system["time_breakdown_ns"].items()}
        elif key == "store_bytes":
            row |= {f"store_{k}_bytes": v for k, v in system["store_bytes"].items()}
        elif key == "dram_bytes":
            row |= {f"dram_{k}_bytes": v for k, v in system["dram_bytes"].items()}
        elif key == "counters":
            row |= dict(system["counters"])
        elif key == "calls":
            row |= _flat_kinds("call", system.get("calls", {}))
        elif key == "faults":
            row |= _flat_kinds("fault", system.get("faults", {}))
        elif key == "skipped":
            row |= {f"skipped_{k}": v for k, v in (system["skipped"] or {}).items()}
        elif key == "energy":
            energy = system["energy"]
            row |= {"energy_j": energy["total_j"], "average_w": energy["average_w"]}
            row |= {f"energy_{k.replace('.', '_')}_j": v for k, v in energy["parts_j"].items()}
        elif key == "nvdimm":
            row |= {f"nvdimm_{k}": v for k, v in (system["nvdimm"] or {}).items()}
        elif key == "drive":
            row |= _flat_drive(system["drive"])
        elif key == "disk":
            row |= {f"disk_{k}": v for k, v in (system["disk"] or {}).items()}
        elif key == "nvm":
            row |= _flat_nvm(system["nvm"])
        elif key == "sampling":
            row |= _flat_sampling(system.get("sampling"))
        elif key == "recorded_windows":
            row |= _flat_windows(system.get("recorded_windows"))
        elif key == "device":
            row |= _flat_device(system["device"])
        elif key == "queues":
            row |= _flat_queues(system.get("queues"))
        elif key not in _NO_FIGURES:
            row[key] = value
    return row


def _flat_queues(told: Queues | None) -> dict[str, object]:
    """What each queue held over the time."""
    row: dict[str, object] = {}
    for queue, held in ({} if told is None else told["queues"]).items():
        column = f"queue_{queue.replace('.', '_')}"
        row |= {
            f"{column}_mean": held["mean"],
            f"{column}_p50": held["p50"],
            f"{column}_p99": held["p99"],
            f"{column}_max": held["max"],
        }
    return row


def _flat_kinds(name: str, kinds: Mapping[str, FaultResult]) -> dict[str, object]:
    """The figures of calls on files and memory, or of page faults, by kind."""
    row: dict[str, object] = {}
    for kind, one in kinds.items():
        apart = ("latency_ns", "stages_ns")
        row |= {f"{name}_{kind}_{k}": v for k, v in one.items() if k not in apart}
        row |= {f"{name}_{kind}_stage_{k}_ns": v for k, v in one["stages_ns"].items()}
        row |= {f"{name}_{kind}_latency_{k}_ns": v for k, v in one["latency_ns"].items()}
    return row


def _flat_drive(drive: DriveResult | None) -> dict[str, object]:
    """A drive's figures; of channels and dies the mean, the least and the most."""
    row: dict[str, object] = {}
    for key, value in (drive or {}).items():
        if key == "wear":
            continue
        if isinstance(value, list):
            mean = sum(value) / len(value) if value else None
            few, many = min(value, default=None), max(value, default=None)
            row |= {f"drive_{key}": mean, f"drive_{key}_min": few, f"drive_{key}_max": many}
        else:
            row[f"drive_{key}"] = value
    return row


def _flat_sampling(sampling: SamplingResult | None) -> dict[str, object]:
    if sampling is None:
        return {}
    row = {f"sampling_{k}": v for k, v in sampling.items() if k != "half_widths"}
    return row | {f"{k}_half_width": v for k, v in sampling["half_widths"].items()}


def _flat_windows(windows: RecordedWindows | None) -> dict[str, object]:
    """What the windows of a recording tell of all of its program."""
    if windows is None:
        return {}
    row = {f"windows_{k}": v for k, v in windows.items() if k != "half_widths"}
    return row | {f"windows_{k}_half_width": v for k, v in windows["half_widths"].items()}


def _flat_nvm(nvm: NvmResult | None) -> dict[str, object]:
    """A byte-addressable memory's figures, those of its buffer behind them."""
    parts = ("buffer", "wear")
    row: dict[str, object] = {f"nvm_{k}": v for k, v in (nvm or {}).items() if k not in parts}
    buffer = nvm["buffer"] if nvm else None
    return row | {f"nvm_buffer_{k}": v for k, v in (buffer or {}).items()}


def _flat_device(device: DeviceResult | None) -> dict[str, object]:
    row: dict[str, object] = {}
    for key, value in (device or {}).items():
        if key.endswith("_latency_ns"):
            kind = key.removesuffix("_latency_ns")
            found = value if isinstance(value, dict) else {}
            row |= {f"{kind}_latency_{k}_ns": found.get(k) for k in Latency.__annotations__}
        elif key == "settling":
            found = value if isinstance(value, dict) else {}
            row |= {f"settling_{k}": v for k, v in found.items()}
        else:
            row[f"device_{key}"] = value
    return row
