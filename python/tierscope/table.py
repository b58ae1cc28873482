"""The table of a result: its rows, and each system's cell in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from tierscope import format as fmt
from tierscope._shape import (
    DeviceResult,
    DiskResult,
    DriveResult,
    FaultResult,
    Latency,
    LatencyFigure,
    NvmResult,
    ResultData,
    SampledFigure,
    SystemResult,
)
from tierscope.breakdown import grouped

_IDLE_TO_TELL = 0.05
"""The share of the threads' time from which on the table says that they are idle: the columns are
of all of it, and have as much less room for what the program did."""

Row = tuple[str, dict[str, str]]
"""A row of the table: its label, and its cell for each system."""


def rows(data: ResultData) -> list[Row]:
    """Every row of the table that tells something of one system at least."""
    told = _device_rows(data) if devices_alone(data) else _machine_rows(data)
    return list(_without_empty(told))


def _without_empty(told: Sequence[Row]) -> Iterator[Row]:
    """Rows without those that are absent of every system, and have nothing below them."""
    below = False
    kept = []
    for label, cells in reversed(told):
        is_part = label.startswith("  ")
        if any(cell != fmt.ABSENT for cell in cells.values()) or (below and not is_part):
            kept.append((label, cells))
            below = is_part
        elif not is_part:
            below = False
    return reversed(kept)


def _machine_rows(data: ResultData) -> list[Row]:
    """Every row of a table of machines with a processor."""
    systems = data["systems"]

    def row(label: str, cell: Callable[[SystemResult], str]) -> Row:
        return label, {name: cell(system) for name, system in systems.items()}

    def miss_rate(kind: str) -> Callable[[SystemResult], str]:
        def cell(system: SystemResult) -> str:
            if system["miss_kind"] != kind:
                return fmt.ABSENT
            return fmt.percent(system["miss_rate"]) + _sure(system, "miss_rate")

        return cell

    kinds = dict.fromkeys(s["miss_kind"] for s in systems.values() if s["miss_kind"] != "none")
    slow = _slowdown_sure(systems)
    program = "program so far" if data["completeness"] == "partial" else "whole program"

    slowdown = [row("Slowdown against oracle", lambda s: fmt.factor(s["slowdown"]) + slow(s))]
    if all(system["slowdown"] is None for system in systems.values()):
        slowdown = []
    some_idle = any(_idle(system) >= _IDLE_TO_TELL for system in systems.values())
    idle = [row("Threads idle", lambda s: fmt.percent(_idle(s)))] if some_idle else []
    return [
        row("Execution time", lambda s: fmt.seconds(s["time_s"]) + _sure(s, "time")),
        row(f"Thread time of the {program}", _thread_time),
        row("Instructions per cycle", lambda s: fmt.plain(s["ipc"]) + _sure(s, "time")),
        *slowdown,
        *(row(f"Misses, {kind}", miss_rate(kind)) for kind in kinds),
        row("Access latency, mean", _mean_access),
        row("  median", _latency("p50")),
        row("  99th percentile", _latency("p99")),
        row("  99.9th percentile", _latency("p999")),
        row("  maximum", _latency("max")),
        row("Read from the store", lambda s: fmt.size(s["store_bytes"]["read"])),
        row("Written to the store", lambda s: fmt.size(s["store_bytes"]["written"])),
        *idle,
        *_tag_cache_rows(systems),
        *_prediction_rows(systems),
        *_fill_rows(systems),
        *_row_of(systems, "long_read_switches")(
            "Switches away from reads of flash", lambda c: fmt.count(c["long_read_switches"])
        ),
        *_line_prefetch_rows(systems),
        *_fault_rows(systems),
        *_call_rows(systems),
        *_direct_rows(systems),
        *_shootdown_rows(systems),
        *_journal_rows(systems),
        *_block_layer_rows(systems),
        *_huge_page_rows(systems),
        *_locked_rows(systems),
        *_throttled_rows(systems),
        *_file_lock_rows(systems),
        *_tiering_rows(systems),
        *_nvme_rows(systems),
        *_adapter_rows(systems),
        *_drive_rows(systems),
        *_nvm_rows(systems),
        *_disk_rows(systems),
        *energy_rows(data),
        row("Accesses simulated", lambda s: fmt.rate(s["accesses_per_wall_s"])),
    ]


def energy_rows(data: ResultData) -> list[Row]:
    """Energy, by component, and average power. What a system does not count is absent there."""
    systems = data["systems"]
    parts = {name: _by_component(one["energy"]["parts_j"]) for name, one in systems.items()}
    components = dict.fromkeys(component for sums in parts.values() for component in sums)

    def cells(value: Callable[[SystemResult], str]) -> dict[str, str]:
        known = {n: s["energy"]["total_j"] is not None for n, s in systems.items()}
        return {n: value(s) + (_sure(s, "energy") if known[n] else "") for n, s in systems.items()}

    def of(component: str, label: str) -> Row:
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


def _thread_time(system: SystemResult) -> str:
    """What the windows of a recording tell of all of its program; absent of other workloads."""
    windows = system.get("recorded_windows")
    if windows is None or windows["thread_time_s"] is None:
        return fmt.ABSENT
    return fmt.seconds(windows["thread_time_s"]) + _within(windows["half_widths"]["thread_time"])


def _mean_access(system: SystemResult) -> str:
    """The mean latency, of the whole program where windows tell it, and how sure it is."""
    windows = system.get("recorded_windows")
    if windows is None or windows["mean_latency_ns"] is None:
        return _latency("mean")(system) + _sure(system, "mean_latency")
    mean = fmt.nanoseconds(windows["mean_latency_ns"])
    return mean + _within(windows["half_widths"]["mean_latency"])


def _within(half: float | None) -> str:
    return " ±?" if half is None else f" ±{_half(half)}"


def _half(half: float) -> str:
    return f"{half:.1%}".replace("%", " %")


def _slowdown_sure(systems: Mapping[str, SystemResult]) -> Callable[[SystemResult], str]:
    """A cell with how sure a slowdown is: both times are, as if each were by itself."""
    oracles = [one for one in systems.values() if one["organization"] == "oracle"]

    def cell(system: SystemResult) -> str:
        windows = [one.get("recorded_windows") for one in (system, *oracles[:1])]
        if system["slowdown"] is not None and system not in oracles and all(windows):
            of = [one["half_widths"]["thread_time"] for one in windows if one]
            sure = [half for half in of if half is not None]
            return _within(math.hypot(*sure) if len(sure) == len(of) else None)
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


def devices_alone(data: ResultData) -> bool:
    """Whether all systems are devices alone, which were given requests."""
    systems = data["systems"].values()
    return bool(systems) and all(system["device"] is not None for system in systems)


def _device_rows(data: ResultData) -> list[Row]:
    """Every row of a table of devices alone."""
    systems = data["systems"]
    devices = {
        name: system["device"] for name, system in systems.items() if system["device"] is not None
    }

    def of(label: str, cell: Callable[[SystemResult], str]) -> Row:
        return label, {name: cell(system) for name, system in systems.items()}

    def row(label: str, cell: Callable[[DeviceResult], str]) -> Row:
        return label, {name: cell(device) for name, device in devices.items()}

    def is_memory(device: DeviceResult) -> bool:
        return device["peak_bytes_per_s"] is not None

    def opened(device: DeviceResult, kind: int) -> str:
        if not is_memory(device):
            return fmt.ABSENT
        kinds = (device["row_hits"], device["row_closed"], device["row_conflicts"])
        return _part(kinds[kind], sum(kinds))

    memories = [is_memory(device) for device in devices.values()]
    until = ", until taken" if all(memories) else ""
    forced = [
        row("  of them forced", lambda d: fmt.count(d["forced_writes"])),
        row("    latency, mean", lambda d: _mean(d["forced_write_latency_ns"])),
    ]
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
        *(forced if any(device.get("forced_writes") for device in devices.values()) else []),
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
        *_nvme_rows(systems),
        *_adapter_rows(systems),
        *_drive_rows(systems),
        *_nvm_rows(systems),
        *_disk_rows(systems),
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


def _tag_cache_rows(systems: Mapping[str, SystemResult]) -> list[Row]:
    """Rows of the caches of tags that lie in DRAM; none where there is none."""

    def share(counters: Mapping[str, int]) -> str:
        lookups = counters["tag_cache_lookups"]
        return _part(lookups - counters["tag_cache_misses"], lookups)

    row = _row_of(systems, "tag_cache_lookups")
    return [
        *row("Tags found on chip", share),
        *row("  lines of them read from DRAM", lambda c: fmt.count(c["tag_line_reads"])),
        *row("  written to it", lambda c: fmt.count(c["tag_line_writes"])),
    ]


def _prediction_rows(systems: Mapping[str, SystemResult]) -> list[Row]:
    """Rows of the predictors of misses of DRAM caches; none where there is none."""

    def right(counters: Mapping[str, int]) -> str:
        wrong = counters["predicted_misses_that_hit"] + counters["predicted_hits_that_missed"]
        return _part(counters["predicted_reads"] - wrong, counters["predicted_reads"])

    row = _row_of(systems, "predicted_reads")
    return [
        *row("Reads guessed right", right),
        *row("  hits taken for misses", lambda c: fmt.count(c["predicted_misses_that_hit"])),
        *row("  misses taken for hits", lambda c: fmt.count(c["predicted_hits_that_missed"])),
        *row("  reads of the store in vain", lambda c: fmt.count(c["wasted_store_reads"])),
    ]


def _fill_rows(systems: Mapping[str, SystemResult]) -> list[Row]:
    """Rows of DRAM caches that not every miss fills; none where there is none."""
    row = _row_of(systems, "reads_past_cache")
    return [
        *row("Reads past the DRAM cache", lambda c: fmt.count(c["reads_past_cache"])),
        *row("  lines written around it", lambda c: fmt.count(c["writes_around_cache"])),
        *row("  clean lines offered to it", lambda c: fmt.count(c["clean_victims"])),
        *row("  that it kept", lambda c: fmt.count(c["clean_victims_kept"])),
    ]


_CALLS = {"read": "Reads by calls", "write": "Writes by calls", "sync": "Syncs"}
"""Calls on files that have rows, and their names there."""

_FAULTS = {"major": "Faults that read a file", "swap": "Faults that read swap"}
"""Page faults that have rows, and their names there."""


def _longest_part(one: FaultResult) -> str:
    """The group of stages in which calls or faults spent most of their time, and its share."""
    group, time = max(grouped(one["stages_ns"]), key=lambda part: part[1])
    return f"{group.label}, {fmt.percent(time / one['latency_ns']['mean'])}"


def _rows_of_kinds(
    kinds: Mapping[str, str], of: Mapping[str, Mapping[str, FaultResult]]
) -> list[Row]:
    """Rows of how many there were of these kinds, and how long they took."""

    def row(label: str, kind: str, shown: Callable[[FaultResult], str]) -> Row:
        def cell(name: str) -> str:
            one = of[name].get(kind)
            return fmt.ABSENT if one is None else shown(one)

        return label, {name: cell(name) for name in of}

    rows: list[Row] = []
    for kind, label in kinds.items():
        if any(kind in one for one in of.values()):
            rows += [
                row(label, kind, lambda one: fmt.count(one["count"])),
                row("  mean", kind, lambda one: fmt.nanoseconds(one["latency_ns"]["mean"])),
                row("  most of it", kind, _longest_part),
                row(
                    "  99th percentile", kind, lambda one: fmt.nanoseconds(one["latency_ns"]["p99"])
                ),
            ]
    return rows


def _call_rows(systems: Mapping[str, SystemResult]) -> list[Row]:
    """Rows of calls on files and how long they took."""
    return _rows_of_kinds(_CALLS, {name: one.get("calls", {}) for name, one in systems.items()})


def _fault_rows(systems: Mapping[str, SystemResult]) -> list[Row]:
    """Rows of page faults that had to read, and how long they took."""
    return _rows_of_kinds(_FAULTS, {name: one.get("faults", {}) for name, one in systems.items()})


def _direct_rows(systems: Mapping[str, SystemResult]) -> list[Row]:
    """Rows of what calls moved past the page cache; none where none did."""

    def row(label: str, key: str, shown: Callable[[int, float], str]) -> Row:
        def cell(system: SystemResult) -> str:
            moved = system["counters"].get(key)
            return fmt.ABSENT if moved is None else shown(moved, system["time_s"])

        return label, {name: cell(system) for name, system in systems.items()}

    def rate(moved: int, time_s: float) -> str:
        return fmt.bandwidth(moved / time_s) if moved and time_s else fmt.ABSENT

    return [
        row("Read past the page cache", "direct_read_bytes", lambda moved, _: fmt.size(moved)),
        row("  a second", "direct_read_bytes", rate),
        row("Written past it", "direct_written_bytes", lambda moved, _: fmt.size(moved)),
        row("  a second", "direct_written_bytes", rate),
    ]


def _line_prefetch_rows(systems: Mapping[str, SystemResult]) -> list[Row]:
    """Rows of what prefetchers of cores asked memory for; none where none asked."""
    if not any(system["counters"].get("line_prefetches") for system in systems.values()):
        return []
    row = _row_of(systems, "line_prefetches")
    return [
        *row("Lines prefetched by cores", lambda c: fmt.count(c["line_prefetches"])),
        *row("  accesses came before they did", lambda c: fmt.count(c["line_prefetches_late"])),
        *row("Lines read on demand", lambda c: fmt.count(c["memory_reads"])),
    ]


def _shootdown_rows(systems: Mapping[str, SystemResult]) -> list[Row]:
    """Rows of what cores were told of unmapped memory; none where none was interrupted."""
    if not any(system["counters"].get("shootdown_interrupts") for system in systems.values()):
        return []
    row = _row_of(systems, "shootdown_interrupts")
    return [
        *row("Translations taken back", lambda c: fmt.count(c["tlb_shootdowns"])),
        *row("  cores interrupted for them", lambda c: fmt.count(c["shootdown_interrupts"])),
    ]


def _journal_rows(systems: Mapping[str, SystemResult]) -> list[Row]:
    """Rows of what file systems did beside data; none where none is described."""
    row = _row_of(systems, "journal_commits")
    return [
        *row("Commits of the journal", lambda c: fmt.count(c["journal_commits"])),
        *row("  written to it", lambda c: fmt.size(c["journal_written_bytes"])),
        *row("  metadata to its places", lambda c: fmt.size(c["metadata_written_bytes"])),
        *row("  metadata read", lambda c: fmt.size(c["metadata_read_bytes"])),
        *row("  times that room was made in it", lambda c: fmt.count(c["journal_checkpoints"])),
        *row("Flushes of the store", lambda c: fmt.count(c["store_flushes"])),
    ]


def _block_layer_rows(systems: Mapping[str, SystemResult]) -> list[Row]:
    """Rows of what the block layer made of pages; none where none is described."""
    row = _row_of(systems, "block_requests")
    return [
        *row("Requests of the block layer", lambda c: fmt.count(c["block_requests"])),
        *row("  pages of a request, mean", lambda c: _per(c["block_pages"], c["block_requests"])),
        *row("  pages that joined what waited", lambda c: fmt.count(c["block_merged_pages"])),
        *row("  times that the device was left idle", lambda c: fmt.count(c["block_idled"])),
    ]


def _huge_page_rows(systems: Mapping[str, SystemResult]) -> list[Row]:
    """Rows of huge pages; none where no machine makes any."""
    row = _row_of(systems, "huge_page_faults")
    return [
        *row("Faults that made a huge page", lambda c: fmt.count(c["huge_page_faults"])),
        *row("  that found no room for one", lambda c: fmt.count(c["huge_page_fallbacks"])),
        *row("  huge pages swapped out whole", lambda c: fmt.count(c["huge_page_swap_outs"])),
        *row("  huge pages split", lambda c: fmt.count(c["huge_page_splits"])),
    ]


def _locked_rows(systems: Mapping[str, SystemResult]) -> list[Row]:
    """A row of memory that programs have locked; none where none has."""
    row = _row_of(systems, "locked_pages")
    return [*row("Pages locked in memory", lambda c: fmt.count(c["locked_pages"]))]


def _file_lock_rows(systems: Mapping[str, SystemResult]) -> list[Row]:
    """A row of calls that had to wait for another on the same file; none where none had to."""
    row = _row_of(systems, "file_lock_waits")
    return [*row("Waits for a file's lock", lambda c: fmt.count(c["file_lock_waits"]))]


def _throttled_rows(systems: Mapping[str, SystemResult]) -> list[Row]:
    """A row of writers that had to wait; none where none had to."""
    if not any(system["counters"].get("throttled_writes") for system in systems.values()):
        return []
    row = _row_of(systems, "throttled_writes")
    return [*row("Waits of writers, too much dirty", lambda c: fmt.count(c["throttled_writes"]))]


def _tiering_rows(systems: Mapping[str, SystemResult]) -> list[Row]:
    """Rows of pages that moved between DRAM and the memory behind it; none where none can."""
    row = _row_of(systems, "promoted_pages")
    kernel = _row_of(systems, "protected_pages")
    threshold = _row_of(systems, "promotion_threshold")
    return [
        *row("Pages moved to DRAM", lambda c: fmt.count(c["promoted_pages"])),
        *row("  moved out of it", lambda c: fmt.count(c["demoted_pages"])),
        *threshold(
            "  accesses before a page moves, at the end",
            lambda c: fmt.count(c["promotion_threshold"]),
        ),
        *threshold("  the fewest", lambda c: fmt.count(c["promotion_threshold_least"])),
        *kernel("  entries taken away to find them", lambda c: fmt.count(c["protected_pages"])),
        *kernel("  faults of these", lambda c: fmt.count(c["hint_faults"])),
    ]


def _per(count: int, of: int) -> str:
    """How many to each; absent where there is none."""
    return fmt.plain(count / of) if of else fmt.ABSENT


def _nvme_rows(systems: Mapping[str, SystemResult]) -> list[Row]:
    """Rows of what NVM Express sent beside data; none where it drives no store."""
    row = _row_of(systems, "nvme_doorbells")
    return [
        *row("NVM Express doorbells", lambda c: fmt.count(c["nvme_doorbells"])),
        *row("  reads of submission queues", lambda c: fmt.count(c["nvme_command_fetches"])),
        *row("  reads of pages of lists", lambda c: fmt.count(c["nvme_list_fetches"])),
        *row("  interrupts", lambda c: fmt.count(c["nvme_interrupts"])),
        *row("  interrupts held back, sum", lambda c: fmt.seconds(c["nvme_held_back_ns"] * 1e-9)),
    ]


def _adapter_rows(systems: Mapping[str, SystemResult]) -> list[Row]:
    """Rows of what the cache of an adapter did; none where there is none."""
    row = _row_of(systems, "adapter_read_hits")
    return [
        *row("Reads from the adapter's cache", lambda c: fmt.count(c["adapter_read_hits"])),
        *row("  past it, from the drives", lambda c: fmt.count(c["adapter_read_misses"])),
        *row("Writes done in the adapter's cache", lambda c: fmt.count(c["adapter_cached_writes"])),
        *row("  that waited for room", lambda c: fmt.count(c["adapter_waiting_writes"])),
        *row("  past it, on the drives", lambda c: fmt.count(c["adapter_passed_writes"])),
        *row("Pages it wrote to the drives", lambda c: fmt.count(c["adapter_written_back_pages"])),
        *row("  in runs", lambda c: fmt.count(c["adapter_write_backs"])),
    ]


def _row_of(
    systems: Mapping[str, SystemResult], known_by: str
) -> Callable[[str, Callable[[Mapping[str, int]], str]], Iterator[Row]]:
    """Makes rows of counters of those systems that have the one named; none where no system has."""
    counters = {name: system["counters"] for name, system in systems.items()}
    known = {name for name, counted in counters.items() if known_by in counted}

    def row(label: str, cell: Callable[[Mapping[str, int]], str]) -> Iterator[Row]:
        if known:
            cells = {n: cell(c) if n in known else fmt.ABSENT for n, c in counters.items()}
            yield label, cells

    return row


def _drive_rows(systems: Mapping[str, SystemResult]) -> list[Row]:
    """Rows of what drives did; none where there is no drive."""

    def row(label: str, cell: Callable[[DriveResult], str]) -> Row:
        drives = {name: system.get("drive") for name, system in systems.items()}
        return label, {
            name: fmt.ABSENT if drive is None else cell(drive) for name, drive in drives.items()
        }

    drives = [drive for system in systems.values() if (drive := system.get("drive")) is not None]
    if not drives:
        return []
    trims = (
        [row("Pages that the host has trimmed", lambda d: fmt.count(d["trimmed_pages"]))]
        if any(drive["trimmed_pages"] for drive in drives)
        else []
    )
    first_block_years = [drive.get("first_block_lifetime_years") for drive in drives]
    first_block = (
        [
            row(
                "  until its first block is worn",
                lambda d: fmt.years(d.get("first_block_lifetime_years")),
            )
        ]
        if any(years is not None for years in first_block_years)
        else []
    )
    return [
        row("Reads from the drive's buffer", _buffer_share),
        row("Map entries from its memory", _map_share),
        row("Flash pages read", lambda d: fmt.count(d["flash_reads"])),
        row("  programmed", lambda d: fmt.count(d["flash_programs"])),
        row("  blocks erased", lambda d: fmt.count(d["flash_erases"])),
        *trims,
        row("Write amplification, of pages", lambda d: fmt.factor(d["write_amplification"])),
        row("  of bytes from the host", lambda d: fmt.factor(d.get("flash_bytes_per_host_byte"))),
        row("Flash dies busy", lambda d: _mean_share(d["dies_busy"])),
        row("  channels busy", lambda d: _mean_share(d["channels_busy"])),
        row("Flash lasts, at this rate", lambda d: fmt.years(d["lifetime_years"])),
        *first_block,
    ]


def _nvm_rows(systems: Mapping[str, SystemResult]) -> list[Row]:
    """Rows of what byte-addressable memories did; none where there is none."""

    def row(label: str, cell: Callable[[NvmResult], str]) -> Row:
        memories = {name: system.get("nvm") for name, system in systems.items()}
        return label, {
            name: fmt.ABSENT if nvm is None else cell(nvm) for name, nvm in memories.items()
        }

    memories = [nvm for system in systems.values() if (nvm := system.get("nvm")) is not None]
    if not memories:
        return []
    rows = [
        row("Reads of open rows", lambda m: _part(m["row_hits"], m["row_hits"] + m["row_reads"])),
        row("Lines written to cells", lambda m: fmt.count(m["line_writes"])),
        row("  of these, by wear levelling", lambda m: fmt.count(m["gap_moves"])),
        row("Write amplification of cells", lambda m: fmt.factor(m["write_amplification"])),
        row("Most writes of a line", lambda m: fmt.count(m["most_writes_of_a_line"])),
        row("Memory lasts, at this rate", lambda m: fmt.years(m["worst_line_years"])),
        row("  if all lines wore alike", lambda m: fmt.years(m["levelled_years"])),
    ]
    if any(memory["buffer"] for memory in memories):
        rows.insert(0, row("Reads from the memory's buffer", _nvm_buffer_share))
    return rows


def _disk_rows(systems: Mapping[str, SystemResult]) -> list[Row]:
    """Rows of what disks did; none where there is no disk."""

    def row(label: str, cell: Callable[[DiskResult], str]) -> Row:
        disks = {name: system.get("disk") for name, system in systems.items()}
        return label, {
            name: fmt.ABSENT if disk is None else cell(disk) for name, disk in disks.items()
        }

    if all(system.get("disk") is None for system in systems.values()):
        return []
    return [
        row(
            "Reads from the disk's buffer",
            lambda d: _part(d["buffer_hits"], d["host_read_pages"]),
        ),
        row("Pages read from platters", lambda d: fmt.count(d["platter_reads"])),
        row("  of these, ahead", lambda d: fmt.count(d["read_ahead"])),
        row("  written to them", lambda d: fmt.count(d["platter_writes"])),
        row("Disk positions its heads", lambda d: fmt.percent(d["positioning_share"])),
        row("  waits for sectors", lambda d: fmt.percent(d["rotation_share"])),
        row("  moves data", lambda d: fmt.percent(d["transfer_share"])),
    ]


def _part(part: float, whole: float) -> str:
    """A share of what there was; absent where there was nothing."""
    return "0 %" if whole and not part else fmt.share(part, whole)


def _nvm_buffer_share(nvm: NvmResult) -> str:
    buffer = nvm["buffer"]
    if buffer is None:
        return fmt.ABSENT
    return _part(buffer["read_hits"], buffer["read_hits"] + buffer["read_misses"])


def _buffer_share(drive: DriveResult) -> str:
    return _part(drive["buffer_hits"], drive["host_read_pages"])


def _map_share(drive: DriveResult) -> str:
    hits = drive.get("map_hits", 0)
    return _part(hits, hits + drive.get("map_misses", 0))


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
