"""The shape of a result, for type checkers. The schema is `tierscope._core.schema("result")`."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class WorkloadInfo(TypedDict):
    """What ran."""

    name: str
    kind: Literal["generated", "recorded", "requests", "live"]
    command: list[str] | None
    parameters: dict[str, Any]
    seed: int
    threads: int


class ProgramInfo(TypedDict):
    """What is known of a program that ran under the recorder. Times in seconds."""

    exit_status: int | None
    native_s: float | None
    recorded_s: float
    slowdown_against_native: float | None
    accesses: int
    instructions: int
    delivered_accesses_per_s: float
    seen: str


LatencyFigure = Literal["mean", "stddev", "p50", "p99", "p999", "max"]
"""A figure of a latency's distribution."""


class Latency(TypedDict):
    """Latency of the accesses to memory, in nanoseconds."""

    mean: float
    stddev: float
    p50: float
    p99: float
    p999: float
    max: float


class Distribution(TypedDict):
    """A whole histogram of latencies, in picoseconds."""

    from_ps: list[int]
    to_ps: list[int]
    counts: list[int]


class HeatMap(TypedDict):
    """Accesses by address and simulated time."""

    row_bytes: int
    column_ps: int
    addresses: list[int]
    counts: list[list[int]]


class Queue(TypedDict):
    """How much a queue held over simulated time."""

    mean: float
    p50: int
    p99: int
    max: int
    means: list[float | None]
    most: list[int | None]


class Queues(TypedDict):
    """How much queues held over simulated time, by name."""

    samples: int
    column_ps: int
    queues: dict[str, Queue]


WearClass = TypedDict("WearClass", {"from": int, "to": int, "count": int})
"""Blocks or lines that were erased or written so often."""


class ReadWritten(TypedDict):
    """Bytes in each direction."""

    read: int
    written: int


class Skipped(TypedDict):
    """What a machine simulated before the region of interest, and did not count."""

    accesses: int
    instructions: int
    time_ps: int
    warming: Literal["functional", "detailed", "untimed"]


class Cost(TypedDict):
    """What accesses have cost: those that the core's own caches could not serve at once."""

    accesses: int
    store_accesses: int
    call_waits: int
    memory_reads: int
    latency_ns: float
    stall_ns: float


class CodeCost(TypedDict):
    """What accesses from one place of the program's code have cost."""

    file: str
    function: str
    address: int
    hits: int
    cost: Cost


class CodeResult(TypedDict):
    """What accesses have cost by where in the program's code they come from."""

    functions: list[CodeCost]
    addresses: list[CodeCost] | None


class EnergyResult(TypedDict):
    """Where energy went, in joules by component and part, and what is not counted and why."""

    total_j: float | None
    average_w: float | None
    parts_j: dict[str, float]
    not_counted: dict[str, str]


class NvdimmResult(TypedDict):
    """What saving DRAM when power fails, and restoring it, would take."""

    modules: int
    capacity_bytes: int
    save_s: float
    restore_s: float
    charge_s: float
    save_j: float
    restore_j: float
    energy_at_hand_j: float
    suffices: bool
    saved_bytes: int


class DriveResult(TypedDict):
    """What a drive did: its buffer, its translation layer and its flash."""

    page_bytes: int
    host_read_pages: int
    buffer_hits: int
    host_written_pages: int
    flushes: int
    trimmed_pages: int
    flushed_pages: int
    moved_pages: int
    map_writes: int
    map_reads: int
    map_hits: int
    map_misses: int
    switch_merges: int
    partial_merges: int
    full_merges: int
    padded_pages: int
    write_amplification: float | None
    flash_bytes_per_host_byte: float | None
    flash_reads: int
    flash_programs: int
    flash_erases: int
    suspends: int
    collections: int
    idle_collections: int
    idle_erases: int
    levelled: int
    erases_min: int
    erases_mean: float
    erases_max: int
    wear: NotRequired[list[WearClass]]
    endurance: int
    worn_blocks: int
    overworn_blocks: int
    lifetime_years: float | None
    first_block_lifetime_years: float | None
    channels_busy: list[float]
    dies_busy: list[float]


class DiskResult(TypedDict):
    """What a disk did: its buffer, its arm and its platters."""

    host_read_pages: int
    buffer_hits: int
    host_written_pages: int
    flushes: int
    platter_reads: int
    read_ahead: int
    platter_writes: int
    seeks: int
    aged: int
    positioning_share: float
    rotation_share: float
    transfer_share: float


class NvmBufferResult(TypedDict):
    """What a buffer before the cells of byte-addressable memory did."""

    read_hits: int
    read_misses: int
    write_hits: int
    write_misses: int
    full_evictions: int
    partial_evictions: int


class NvmResult(TypedDict):
    """What byte-addressable non-volatile memory did: its buffer, its queues and its cells."""

    access_bytes: int
    line_bytes: int
    host_writes: int
    buffer: NvmBufferResult | None
    read_lines: int
    written_lines: int
    forwarded_lines: int
    merged_lines: int
    row_hits: int
    row_reads: int
    line_writes: int
    paused_writes: int
    cancelled_writes: int
    gap_moves: int
    write_amplification: float | None
    most_writes_of_a_line: int
    worn_lines: int
    wear: NotRequired[list[WearClass]]
    endurance: int
    worst_line_years: float | None
    levelled_years: float | None


class SettlingResult(TypedDict):
    """What a store alone went on doing after its last answer."""

    time_s: float
    flash_reads: int
    flash_programs: int
    flash_erases: int
    energy_j: float | None


class DeviceResult(TypedDict):
    """What a device alone, a memory or a store, did with its requests."""

    reads: int
    writes: int
    forced_writes: int
    flushes: int
    trims: int
    requested_bytes: ReadWritten
    waited_at_door: int
    under_way_mean: float
    in_flight_mean: float
    in_flight_max: int
    requests_per_s: float
    bytes_per_s: float
    peak_bytes_per_s: float | None
    peak_share: float | None
    read_latency_ns: Latency | None
    write_latency_ns: Latency | None
    forced_write_latency_ns: Latency | None
    flush_latency_ns: Latency | None
    trim_latency_ns: Latency | None
    row_hits: int
    row_closed: int
    row_conflicts: int
    activates: int
    refreshes: int
    settling: SettlingResult | None


class HalfWidths(TypedDict):
    """Half widths of confidence intervals, as shares of the figures; none where none is told."""

    time: float | None
    mean_latency: float | None
    miss_rate: float | None
    energy: float | None


SampledFigure = Literal["time", "mean_latency", "miss_rate", "energy"]
"""A figure that a sampled run tells an interval of."""


class SamplingResult(TypedDict):
    """How a run was sampled. Times in picoseconds."""

    units: int
    unit_ps: int
    refill_ps: int
    period_ps: int
    measured_time_ps: int
    measured_instructions: int
    measured_accesses: int
    detailed_share: float
    warming: Literal["functional", "detailed", "untimed"]
    confidence: float
    warming_error: float
    half_widths: HalfWidths


class WindowHalfWidths(TypedDict):
    """Half widths of confidence intervals, as shares of the figures."""

    thread_time: float | None
    mean_latency: float | None


class RecordedWindows(TypedDict):
    """What a recording of windows tells of its whole program."""

    windows: int
    program_instructions: int
    start_instructions: int
    thread_time_s: float | None
    mean_latency_ns: float | None
    first_halves: float | None
    confidence: float
    half_widths: WindowHalfWidths


class FaultResult(TypedDict):
    """Page faults of a kind, each from the access that needs the page until it can go on."""

    count: int
    time_ns: float
    latency_ns: Latency
    stages_ns: dict[str, float]


class CallResult(FaultResult):
    """Calls of a kind on files or memory, each from when it enters the kernel until it returns."""

    bytes: int


class SystemResult(TypedDict):
    """What one system did. Units are in the names; shares are of one."""

    organization: str
    time_s: float
    time_ps: int
    skipped: Skipped | None
    instructions: int
    kernel_instructions: int
    ipc: float
    slowdown: float | None
    accesses: int
    miss_rate: float
    miss_kind: str
    latency_ns: Latency | None
    latency_distribution: NotRequired[Distribution | None]
    stages_ns: dict[str, float]
    time_breakdown_ns: dict[str, float]
    store_bytes: ReadWritten
    dram_bytes: ReadWritten
    areas: dict[str, Cost]
    heat_map: NotRequired[HeatMap | None]
    queues: NotRequired[Queues | None]
    code: CodeResult | None
    counters: dict[str, int]
    calls: NotRequired[dict[str, CallResult]]
    faults: NotRequired[dict[str, FaultResult]]
    energy: EnergyResult
    nvdimm: NvdimmResult | None
    drive: DriveResult | None
    nvm: NvmResult | None
    disk: DiskResult | None
    device: DeviceResult | None
    sampling: SamplingResult | None
    recorded_windows: RecordedWindows | None
    wall_s: float
    accesses_per_wall_s: float
    notes: list[str]


class ResultData(TypedDict):
    """A whole result."""

    version: str
    schema: int
    workload: WorkloadInfo
    completeness: Literal["complete", "sampled", "partial"]
    partial_reason: str | None
    remarks: list[str]
    program: ProgramInfo | None
    systems: dict[str, SystemResult]


def of_windows(workload: WorkloadInfo) -> bool:
    """Whether a result's workload is a recording of windows of its program."""
    return workload["kind"] == "recorded" and "sample" in workload["parameters"]
