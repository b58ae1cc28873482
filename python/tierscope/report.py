"""A result as a terminal shows it: table, stacked columns, and what else a reader must know.

Table, columns and legend share one grid: a system keeps its place from the top to the bottom.
"""

from __future__ import annotations

import math
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from tierscope import causes
from tierscope import format as fmt
from tierscope._shape import (
    DeviceResult,
    DiskResult,
    DriveResult,
    Latency,
    LatencyFigure,
    NvmResult,
    ProgramInfo,
    ResultData,
    SampledFigure,
    SystemResult,
)
from tierscope.breakdown import Group, apportion, where
from tierscope.causes import By

COMPLETE = "Complete: the whole workload was simulated on every system."
"""What stands below a result that is complete."""
COMPLETE_REGION = "Complete: the whole region of interest was simulated on every system."
"""The same where a part of the workload was not counted."""

_BAR_ROWS = 16
_IDLE_TO_TELL = 0.05
"""The share of the threads' time from which on the table says that they are idle: the columns are
of all of it, and have as much less room for what the program did."""
_NAME_WIDTH = range(8, 22)
_GAP = "  "
_IN_ASCII = str.maketrans({"µ": "u", "×": "x", "–": "-", "…": ".", "±": "~"})
_TICKS = {_BAR_ROWS: "100 %", _BAR_ROWS // 2: "50 %", 1: "0 %"}


def render(
    data: ResultData,
    console: Console,
    *,
    unicode: bool | None = None,
    heading: str | None = None,
    closing: Sequence[str] | None = None,
    by: Sequence[By] = (),
) -> Text:
    """The whole report, for ``console``'s width, and its character set unless that is given.

    Heading and closing lines are those of the result unless others are given. ``by`` adds what
    threads stood still for, by each of these.
    """
    if unicode is None:
        unicode = console.encoding.startswith("utf")
    lines = [Text(title(data) if heading is None else heading, style="bold"), Text()]
    if heading is None:
        for remark in data["remarks"]:
            lines += [*map(Text, _wrapped(remark, console.width)), Text()]
    for page in _pages(data, console.width, by):
        lines += [*table(data, page), Text()]
        lines += [*columns(data, page, unicode=unicode), Text()]
        for kind in by:
            lines += [*cause_lines(data, page, kind), Text()]
    for line in closing_lines(data) if closing is None else closing:
        lines += map(Text, _wrapped(line, console.width))
    report = Text("\n").join(lines)
    if not unicode:
        report.plain = report.plain.translate(_IN_ASCII)
    return report


def _wrapped(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, width, break_on_hyphens=False)


def rows(data: ResultData) -> list[tuple[str, dict[str, str]]]:
    """Every row of the table: its label, and its cell for each system."""
    systems = data["systems"]

    def row(label: str, cell: Callable[[SystemResult], str]) -> tuple[str, dict[str, str]]:
        return label, {name: cell(system) for name, system in systems.items()}

    def miss_rate(kind: str) -> Callable[[SystemResult], str]:
        def cell(system: SystemResult) -> str:
            if system["miss_kind"] != kind:
                return fmt.ABSENT
            return fmt.percent(system["miss_rate"]) + _sure(system, "miss_rate")

        return cell

    kinds = dict.fromkeys(s["miss_kind"] for s in systems.values() if s["miss_kind"] != "none")
    if _devices_alone(data):
        return _device_rows(data)
    slow, mean = _slowdown_sure(systems), _latency("mean")

    slowdown = [row("Slowdown against oracle", lambda s: fmt.factor(s["slowdown"]) + slow(s))]
    if all(system["slowdown"] is None for system in systems.values()):
        slowdown = []
    some_idle = any(_idle(system) >= _IDLE_TO_TELL for system in systems.values())
    idle = [row("Threads idle", lambda s: fmt.percent(_idle(s)))] if some_idle else []
    return [
        row("Execution time", lambda s: fmt.seconds(s["time_s"]) + _sure(s, "time")),
        row("Instructions per cycle", lambda s: fmt.plain(s["ipc"]) + _sure(s, "time")),
        *slowdown,
        *(row(f"Misses, {kind}", miss_rate(kind)) for kind in kinds),
        row("Access latency, mean", lambda s: mean(s) + _sure(s, "mean_latency")),
        row("  median", _latency("p50")),
        row("  99th percentile", _latency("p99")),
        row("  99.9th percentile", _latency("p999")),
        row("  maximum", _latency("max")),
        row("Read from the store", lambda s: fmt.size(s["store_bytes"]["read"])),
        row("Written to the store", lambda s: fmt.size(s["store_bytes"]["written"])),
        *idle,
        *_drive_rows(systems),
        *_nvm_rows(systems),
        *_disk_rows(systems),
        *energy_rows(data),
        row("Accesses simulated", lambda s: fmt.rate(s["accesses_per_wall_s"])),
    ]


def energy_rows(data: ResultData) -> list[tuple[str, dict[str, str]]]:
    """Energy, by component, and average power. What a system does not count is absent there."""
    systems = data["systems"]
    parts = {name: _by_component(one["energy"]["parts_j"]) for name, one in systems.items()}
    components = dict.fromkeys(component for sums in parts.values() for component in sums)

    def cells(value: Callable[[SystemResult], str]) -> dict[str, str]:
        known = {n: s["energy"]["total_j"] is not None for n, s in systems.items()}
        return {n: value(s) + (_sure(s, "energy") if known[n] else "") for n, s in systems.items()}

    def of(component: str, label: str) -> tuple[str, dict[str, str]]:
        words = component.replace("_", " ").replace("dram", "DRAM")
        what = words if component == "dram" else f"the {words}"
        return f"{label} of {what}", {
            name: fmt.joules(sums.get(component)) for name, sums in parts.items()
        }

    total = cells(lambda s: fmt.joules(s["energy"]["total_j"]))
    power = cells(lambda s: fmt.watts(s["energy"]["average_w"]))
    if len(components) == 1:
        label, _ = of(next(iter(components)), "Energy")
        return [(label, total), ("  average power", power)]
    parts_of_it = [of(component, " ") for component in components]
    return [("Energy", total), *parts_of_it, ("  average power", power)]


def _by_component(parts_j: Mapping[str, float]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for name, energy_j in parts_j.items():
        component = name.partition(".")[0]
        sums[component] = sums.get(component, 0.0) + energy_j
    return sums


def _sure(system: SystemResult, figure: SampledFigure) -> str:
    """How sure a figure is of a system that was sampled: nothing where it was counted."""
    sampling = system.get("sampling")
    if sampling is None:
        return ""
    half, time = sampling["half_widths"][figure], sampling["half_widths"]["time"]
    if half is None:
        return "" if figure == "miss_rate" and time is not None else " ±?"
    return f" ±{_half(half)}"


def _half(half: float) -> str:
    return f"{half:.1%}".replace("%", " %")


def _slowdown_sure(systems: Mapping[str, SystemResult]) -> Callable[[SystemResult], str]:
    """A cell with how sure a slowdown is: both times are, as if each were by itself."""
    oracles = [one for one in systems.values() if one["organization"] == "oracle"]

    def cell(system: SystemResult) -> str:
        own = [one for one in (system, *oracles[:1]) if one.get("sampling") is not None]
        if not own or system["slowdown"] is None or system in oracles:
            return ""
        halves = [one["sampling"]["half_widths"]["time"] for one in own if one["sampling"]]
        known = [half for half in halves if half is not None]
        return f" ±{_half(math.hypot(*known))}" if len(known) == len(own) else " ±?"

    return cell


def _idle(system: SystemResult) -> float:
    """Share of all threads' time in which they slept, had not started or had ended."""
    times = system["time_breakdown_ns"]
    return times.get("idle", 0.0) / (sum(times.values()) or 1.0)


def _devices_alone(data: ResultData) -> bool:
    """Whether all systems are devices alone, which were given requests."""
    systems = data["systems"].values()
    return bool(systems) and all(system["device"] is not None for system in systems)


def _device_rows(data: ResultData) -> list[tuple[str, dict[str, str]]]:
    """Every row of a table of devices alone."""
    systems = data["systems"]
    devices = {
        name: system["device"] for name, system in systems.items() if system["device"] is not None
    }

    def of(label: str, cell: Callable[[SystemResult], str]) -> tuple[str, dict[str, str]]:
        return label, {name: cell(system) for name, system in systems.items()}

    def row(label: str, cell: Callable[[DeviceResult], str]) -> tuple[str, dict[str, str]]:
        return label, {name: cell(device) for name, device in devices.items()}

    def is_memory(device: DeviceResult) -> bool:
        return device["peak_bytes_per_s"] is not None

    def opened(device: DeviceResult, kind: int) -> str:
        if not is_memory(device):
            return fmt.ABSENT
        kinds = (device["row_hits"], device["row_closed"], device["row_conflicts"])
        return fmt.share(kinds[kind], sum(kinds))

    memories = [is_memory(device) for device in devices.values()]
    until = ", until taken" if all(memories) else ""
    flushes = [
        row("Flushes", lambda d: fmt.count(d["flushes"])),
        row("  latency, mean", lambda d: _mean(d["flush_latency_ns"])),
    ]
    trims = [
        row("Trims", lambda d: fmt.count(d["trims"])),
        row("  latency, mean", lambda d: _mean(d["trim_latency_ns"])),
    ]
    of_memories = [
        row("Rows found open", lambda d: opened(d, 0)),
        row("  none open", lambda d: opened(d, 1)),
        row("  another open", lambda d: opened(d, 2)),
        row("Activates", lambda d: fmt.count(d["activates"] if is_memory(d) else None)),
        row("Refreshes", lambda d: fmt.count(d["refreshes"] if is_memory(d) else None)),
    ]
    of_stores = [
        of("Read from the store", lambda s: fmt.size(s["store_bytes"]["read"] or None)),
        of("Written to the store", lambda s: fmt.size(s["store_bytes"]["written"] or None)),
    ]
    settling = [
        row("Time until it rests, after that", _settling),
    ]
    if not any(_settling_s(device) for device in devices.values()):
        settling = []
    return [
        of("Simulated time", lambda s: fmt.seconds(s["time_s"])),
        row("Reads", lambda d: fmt.count(d["reads"])),
        row("Writes", lambda d: fmt.count(d["writes"])),
        *(flushes if any(device["flushes"] for device in devices.values()) else []),
        *(trims if any(device.get("trims") for device in devices.values()) else []),
        row("Requests", lambda d: fmt.rate(d["requests_per_s"])),
        row("Bandwidth", lambda d: fmt.bandwidth(d["bytes_per_s"])),
        *([row("  of its peak", _of_peak)] if any(memories) else []),
        row("Requests under way, mean", lambda d: fmt.plain(d["under_way_mean"])),
        row("  in the device, mean", lambda d: fmt.plain(d["in_flight_mean"])),
        row("  in the device, at most", lambda d: fmt.count(d["in_flight_max"])),
        of("Request latency, mean", _latency("mean")),
        row("  of reads", lambda d: _mean(d["read_latency_ns"])),
        row(f"  of writes{until}", lambda d: _mean(d["write_latency_ns"])),
        of("  median", _latency("p50")),
        of("  99th percentile", _latency("p99")),
        of("  99.9th percentile", _latency("p999")),
        of("  maximum", _latency("max")),
        *([] if all(memories) else of_stores),
        *_drive_rows(systems),
        *_nvm_rows(systems),
        *settling,
        *(of_memories if any(memories) else []),
        *energy_rows(data),
        of("Requests simulated", lambda s: fmt.rate(s["accesses_per_wall_s"])),
    ]


def _settling_s(device: DeviceResult) -> float | None:
    """How long a store went on working after its last answer; results of before do not tell it."""
    settling = device.get("settling")
    return None if settling is None else settling["time_s"]


def _settling(device: DeviceResult) -> str:
    return fmt.seconds(_settling_s(device))


def _drive_rows(systems: Mapping[str, SystemResult]) -> list[tuple[str, dict[str, str]]]:
    """Rows of what drives did; none where there is no drive."""

    def row(label: str, cell: Callable[[DriveResult], str]) -> tuple[str, dict[str, str]]:
        drives = {name: system.get("drive") for name, system in systems.items()}
        return label, {
            name: fmt.ABSENT if drive is None else cell(drive) for name, drive in drives.items()
        }

    if all(system.get("drive") is None for system in systems.values()):
        return []
    return [
        row("Reads from the drive's buffer", _buffer_share),
        row("Flash pages read", lambda d: fmt.count(d["flash_reads"])),
        row("  programmed", lambda d: fmt.count(d["flash_programs"])),
        row("  blocks erased", lambda d: fmt.count(d["flash_erases"])),
        row("Write amplification", lambda d: fmt.factor(d["write_amplification"])),
        row("Flash dies busy", lambda d: _mean_share(d["dies_busy"])),
        row("  channels busy", lambda d: _mean_share(d["channels_busy"])),
        row("Flash lasts, at this rate", lambda d: fmt.years(d["lifetime_years"])),
    ]


def _nvm_rows(systems: Mapping[str, SystemResult]) -> list[tuple[str, dict[str, str]]]:
    """Rows of what byte-addressable memories did; none where there is none."""

    def row(label: str, cell: Callable[[NvmResult], str]) -> tuple[str, dict[str, str]]:
        memories = {name: system.get("nvm") for name, system in systems.items()}
        return label, {
            name: fmt.ABSENT if nvm is None else cell(nvm) for name, nvm in memories.items()
        }

    memories = [nvm for system in systems.values() if (nvm := system.get("nvm")) is not None]
    if not memories:
        return []
    rows = [
        row(
            "Reads of open rows", lambda m: fmt.share(m["row_hits"], m["row_hits"] + m["row_reads"])
        ),
        row("Lines written to cells", lambda m: fmt.count(m["line_writes"])),
        row("  of these, by wear levelling", lambda m: fmt.count(m["gap_moves"])),
        row("Write amplification of cells", lambda m: fmt.factor(m["write_amplification"])),
        row("Most writes of a line", lambda m: fmt.count(m["most_writes_of_a_line"])),
        row("Memory lasts, at this rate", lambda m: fmt.years(m["worst_line_years"])),
        row("  if all lines wore alike", lambda m: fmt.years(m["levelled_years"])),
    ]
    if any(memory["buffer"] for memory in memories):
        rows.insert(0, row("Reads from its buffer", _nvm_buffer_share))
    return rows


def _disk_rows(systems: Mapping[str, SystemResult]) -> list[tuple[str, dict[str, str]]]:
    """Rows of what disks did; none where there is no disk."""

    def row(label: str, cell: Callable[[DiskResult], str]) -> tuple[str, dict[str, str]]:
        disks = {name: system.get("disk") for name, system in systems.items()}
        return label, {
            name: fmt.ABSENT if disk is None else cell(disk) for name, disk in disks.items()
        }

    if all(system.get("disk") is None for system in systems.values()):
        return []
    return [
        row(
            "Reads from the disk's buffer",
            lambda d: fmt.share(d["buffer_hits"], d["host_read_pages"]),
        ),
        row("Pages read from platters", lambda d: fmt.count(d["platter_reads"])),
        row("  of these, ahead", lambda d: fmt.count(d["read_ahead"])),
        row("  written to them", lambda d: fmt.count(d["platter_writes"])),
        row("Disk positions its heads", lambda d: fmt.percent(d["positioning_share"])),
        row("  waits for sectors", lambda d: fmt.percent(d["rotation_share"])),
        row("  moves data", lambda d: fmt.percent(d["transfer_share"])),
    ]


def _nvm_buffer_share(nvm: NvmResult) -> str:
    buffer = nvm["buffer"]
    if buffer is None:
        return fmt.ABSENT
    return fmt.share(buffer["read_hits"], buffer["read_hits"] + buffer["read_misses"])


def _buffer_share(drive: DriveResult) -> str:
    return fmt.share(drive["buffer_hits"], drive["host_read_pages"])


def _mean_share(shares: list[float]) -> str:
    return fmt.percent(sum(shares) / len(shares)) if shares else fmt.ABSENT


def _of_peak(device: DeviceResult) -> str:
    """What the data buses moved as a share of what they can at most, and how much that is."""
    if device["peak_bytes_per_s"] is None:
        return fmt.ABSENT
    return f"{fmt.percent(device['peak_share'])} of {fmt.bandwidth(device['peak_bytes_per_s'])}"


def _latency(kind: LatencyFigure) -> Callable[[SystemResult], str]:
    """A cell with a figure of the latencies; absent where there was no access."""

    def cell(system: SystemResult) -> str:
        found = system["latency_ns"]
        return fmt.nanoseconds(None if found is None else found[kind])

    return cell


def _mean(latency: Latency | None) -> str:
    """A mean latency; of a kind of request that did not come, none."""
    return fmt.nanoseconds(None if latency is None else latency["mean"])


@dataclass(frozen=True, slots=True)
class Page:
    """The systems that stand side by side, and the widths of label and columns."""

    names: Sequence[str]
    label_width: int
    column_width: int

    @classmethod
    def wide(cls, data: ResultData) -> Page:
        """All systems side by side, however wide."""
        return next(_pages(data, width=sys.maxsize))

    def line(self, label: str, cells: Sequence[Text | str]) -> Text:
        """One line of the grid, cells to the right of their columns."""
        line = Text(label.ljust(self.label_width))
        for cell in cells:
            text = Text(cell) if isinstance(cell, str) else cell.copy()
            text.truncate(self.column_width, overflow="ellipsis")
            line.append(_GAP)
            line.append(" " * (self.column_width - text.cell_len))
            line.append_text(text)
        return line


def _pages(data: ResultData, width: int, by: Sequence[By] = ()) -> Iterator[Page]:
    """As many systems at a time as fit ``width`` side by side; no figure is cut.

    Labels of what threads stood still for are given room where there is some left.
    """
    names = list(data["systems"])
    labels = [label for label, _ in rows(data)]
    for system in data["systems"].values():
        labels += [f"   {group.label}" for group, _ in where(system)]
    label_width = max(map(len, labels))
    longest = max(map(len, names), default=0)
    widest = _NAME_WIDTH.stop - 1
    if len({name[: widest - 1] for name in names if len(name) > widest}) < sum(
        len(name) > widest for name in names
    ):
        widest = longest  # Names are cut, unless they would then be the same.
    column_width = max(min(max(longest, _NAME_WIDTH.start), widest), _longest_cell(data, by))
    further = causes.labels_of(data, by)
    room = max(1, (width - label_width) // (column_width + len(_GAP)))
    for start in range(0, len(names), room):
        shown = names[start : start + room]
        left = width - len(shown) * (column_width + len(_GAP))
        wanted = max(map(len, further), default=0)
        yield Page(shown, max(label_width, min(wanted, left)), column_width)


def _longest_cell(data: ResultData, by: Sequence[By]) -> int:
    """Columns that the longest figure takes, of the table and of what threads stood still for."""
    told = [rows(data), *(block for kind in by for _, block in causes.blocks(data, kind))]
    cells = (cell for block in told for _, row in block for cell in row.values())
    return max((Text(cell).cell_len for cell in cells), default=0)


def table(data: ResultData, page: Page) -> Iterator[Text]:
    """The table's lines, headed by the systems' names."""
    heading = page.line("", page.names)
    heading.stylize("bold")
    yield heading
    for label, cells in rows(data):
        yield page.line(label, [cells[name] for name in page.names])


def cause_lines(data: ResultData, page: Page, kind: By) -> Iterator[Text]:
    """Misses and stalls by who causes them."""
    for heading, rows in causes.blocks(data, kind):
        yield Text(heading, style="bold")
        for label, cells in rows:
            short = causes.shortened(label, page.label_width, kind)
            yield page.line(short, [cells.get(name, "") for name in page.names])


def columns(data: ResultData, page: Page, *, unicode: bool) -> Iterator[Text]:
    """Where the threads' time goes: one stacked column a system, and the legend.

    Told apart by fill characters, so that it reads without colour too.
    """
    stacks = [where(data["systems"][name]) for name in page.names]
    levels = [_levels(stack) for stack in stacks]
    corner = "┤" if unicode else "+"
    edge = "│" if unicode else "|"
    whose = "requests" if _devices_alone(data) else "threads"
    yield Text(f"Where the {whose}' time goes", style="bold")
    for level in range(_BAR_ROWS, 0, -1):
        tick = _TICKS.get(level, "")
        axis = f"{tick} {corner if tick else edge}".rjust(page.label_width)
        bars = [_fill(column[level - 1], page.column_width, unicode=unicode) for column in levels]
        yield page.line(axis, bars)
    yield Text()
    present = {group for stack in stacks for group, _ in stack}
    for group in sorted(present, key=lambda group: -group.order):
        shares = [_share(stack, group) for stack in stacks]
        mark = _fill(group, 2, unicode=unicode)
        yield Text.assemble(mark, page.line(f"   {group.label}", shares)[2:])


def closing_lines(data: ResultData) -> list[str]:
    """What stands below table and columns: the program, how complete the result is, remarks."""
    lines = list(_program_lines(data["program"])) if data["program"] is not None else []
    sampled = any(system.get("sampling") is not None for system in data["systems"].values())
    if data["completeness"] == "complete":
        regions = any(system["skipped"] is not None for system in data["systems"].values())
        lines.append(COMPLETE_REGION if regions else COMPLETE)
    elif data["completeness"] == "partial":
        reason = data["partial_reason"] or "the reason is not known"
        lines.append(f"{data['completeness'].capitalize()}: {reason}.")
    elif not sampled:
        lines.append("Sampled: the workload is a recording of windows of its program.")
    lines += _sampled_lines(data) if sampled else []
    lines += _skipped_lines(data)
    lines += _left_out_lines(data)
    for name, system in data["systems"].items():
        lines += [f"{name}: {note}" for note in system["notes"]]
    return [fmt.visible(line) for line in lines]


def _sampled_lines(data: ResultData) -> Iterator[str]:
    """How a sampled result is to be read, and how much of it was measured."""
    parts = []
    for name, system in data["systems"].items():
        sampling = system.get("sampling")
        if sampling is None:
            parts.append(f"{name}: complete")
            continue
        units = f"{sampling['units']} units of {fmt.seconds(sampling['unit_ps'] / 1e12)}"
        parts.append(f"{name}: {units}, {fmt.percent(sampling['detailed_share'])} in detail")
    yield f"Sampled: {'; '.join(parts)}."
    yield (
        "Figures with ± are estimates: 95 in 100 of such intervals hold what the complete run "
        "gives, what sampling itself is off by left out. Percentiles, maximum and shares of the "
        "time are of the units alone; bytes moved are counted throughout."
    )


def _left_out_lines(data: ResultData) -> Iterator[str]:
    """What the energies do not hold: a total that lacks a part is no total of another's parts."""
    systems = data["systems"]
    if all(system["energy"]["total_j"] is None for system in systems.values()):
        return
    without: dict[str, list[str]] = {}
    for name, system in systems.items():
        for component in system["energy"]["not_counted"]:
            without.setdefault(component.replace("_", " "), []).append(name)
    told = [
        component if len(names) == len(systems) else f"{component} of {' and '.join(names)}"
        for component, names in without.items()
    ]
    if told:
        yield f"Not in the energy, for want of numbers: {', '.join(told)}."


def _skipped_lines(data: ResultData) -> Iterator[str]:
    """What came before the region of interest."""
    skipped = {name: system["skipped"] for name, system in data["systems"].items()}
    warm, simulated = [], []
    for name, part in skipped.items():
        if part is None:
            continue
        told = f"{name}: {fmt.count(part['accesses'])} accesses"
        if part["warming"] == "functional":
            warm.append(told)
        else:
            simulated.append(f"{told} in {fmt.seconds(part['time_ps'] / 1e12)}")
    for what, parts in (("Warmed functionally", warm), ("Simulated", simulated)):
        if parts:
            yield f"{what} before the region of interest and not counted: {'; '.join(parts)}."


def title(data: ResultData) -> str:
    """What ran, in a line."""
    workload = data["workload"]
    name, threads = fmt.visible(workload["name"]), workload["threads"]
    accesses = max((s["accesses"] for s in data["systems"].values()), default=0)
    if workload["kind"] == "requests":
        kind = workload["parameters"]["format"]
        suffix = "" if kind == "pattern" else f", {kind}"
        return f"{name}: {fmt.count(accesses)} requests{suffix}"
    plural = "" if threads == 1 else "s"
    return f"{name}: {threads} thread{plural}, {fmt.count(accesses)} accesses"


def _levels(stack: list[tuple[Group, float]]) -> list[Group | None]:
    """The group of each row, bottom first; a column without time stays empty."""
    if not stack:
        return [None] * _BAR_ROWS
    heights = apportion([time for _, time in stack], _BAR_ROWS)
    filled = zip(stack, heights, strict=True)
    return [group for (group, _), height in filled for _ in range(height)]


def _fill(group: Group | None, width: int, *, unicode: bool) -> Text:
    if group is None:
        return Text(" " * width)
    return Text((group.fill if unicode else group.ascii_fill) * width, style=group.style)


def _share(stack: list[tuple[Group, float]], group: Group) -> str:
    part = sum(time for other, time in stack if other == group)
    return fmt.share(part, sum(time for _, time in stack))


def _program_lines(program: ProgramInfo) -> Iterator[str]:
    accesses = f"{fmt.count(program['accesses'])} accesses"
    yield (
        f"Program: {program['seen']}; {accesses}, "
        f"{fmt.count(program['instructions'])} instructions."
    )
    speed = f"Recorded and simulated in {fmt.seconds(program['recorded_s'])}"
    if program["slowdown_against_native"] is not None:
        native = fmt.seconds(program["native_s"])
        speed += f", {fmt.factor(program['slowdown_against_native'])} its {native} alone"
    delivered = fmt.rate(program["delivered_accesses_per_s"], "accesses")
    yield f"{speed}; until its end it delivered {delivered}."
    if program["exit_status"] not in (0, None):
        yield f"The program's exit status was {program['exit_status']}."
