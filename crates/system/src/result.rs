//! What a run gave: one JSON object, whose schema is in `docs/reference/result.schema.json`.

use crate::machine::Warming;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tierscope_kernel::LatencyHistogram;

/// Version of the result's layout.
pub const SCHEMA: u32 = 1;

/// The result of a run of one workload on one or more systems.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// Version of tierscope.
    pub version: String,
    /// Version of this layout.
    pub schema: u32,
    /// What ran.
    pub workload: WorkloadInfo,
    /// Whether the whole workload was simulated.
    pub completeness: Completeness,
    /// Why the result is partial.
    pub partial_reason: Option<String>,
    /// What a reader must know before the figures: the report begins with it.
    pub remarks: Vec<String>,
    /// The program, where one was run.
    pub program: Option<ProgramInfo>,
    /// Results by the system's name, in the order given.
    pub systems: BTreeMap<String, SystemResult>,
}

/// What ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadInfo {
    /// Name, or the program's.
    pub name: String,
    /// Where its operations came from.
    pub kind: WorkloadKind,
    /// Program and arguments.
    pub command: Option<Vec<String>>,
    /// Parameters of a generator.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Seed of a generator.
    pub seed: u64,
    /// Threads that ran.
    pub threads: u32,
}

/// Where a workload's operations came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkloadKind {
    /// A built-in generator.
    Generated,
    /// A recording.
    Recorded,
    /// A memory trace of another simulator.
    Requests,
    /// A program that ran meanwhile.
    Live,
}

/// Whether the whole workload was simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Completeness {
    /// All of it.
    Complete,
    /// All of it, but only parts in detail: figures are estimates, see `sampling` of each system.
    Sampled,
    /// Up to a point: see `partial_reason`.
    Partial,
}

/// The program that was run, and what recording it cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramInfo {
    /// Exit status as a shell gives it: 128+n for a signal. Nothing while it runs.
    pub exit_status: Option<i32>,
    /// Wall-clock time of the program alone, where it was measured.
    pub native_s: Option<f64>,
    /// Wall-clock time under the recorder, the machines' simulation included.
    pub recorded_s: f64,
    /// `recorded_s` over `native_s`.
    pub slowdown_against_native: Option<f64>,
    /// Accesses recorded.
    pub accesses: u64,
    /// Instructions recorded.
    pub instructions: u64,
    /// Accesses recorded in a second of wall-clock time.
    pub delivered_accesses_per_s: f64,
    /// How much of the program was seen.
    pub seen: String,
}

/// What one system did with the workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SystemResult {
    /// The organization's name.
    pub organization: String,
    /// Simulated time, in seconds.
    pub time_s: f64,
    /// Simulated time, in picoseconds, exactly.
    pub time_ps: u64,
    /// What came before the region of interest, where one was asked for: all other figures are of
    /// the region alone.
    pub skipped: Option<Skipped>,
    /// Instructions of the program, kernel paths not included.
    pub instructions: u64,
    /// Instructions of kernel paths.
    pub kernel_instructions: u64,
    /// Instructions of the program, of all threads, per cycle of the run.
    pub ipc: f64,
    /// Time over that of the system named `oracle` or whose organization is `oracle`. Nothing where
    /// there is none, or where a run that ended early left the two at different places.
    pub slowdown: Option<f64>,
    /// Loads and stores of the program; one that crosses a line counts twice.
    pub accesses: u64,
    /// Share of misses. Hybrid: of the look-ups of the DRAM cache by demand. Storage: faults that
    /// read from the store, of these and of the lines read from main memory.
    pub miss_rate: f64,
    /// What `miss_rate` is a rate of.
    pub miss_kind: String,
    /// Latency of the program's accesses, in nanoseconds; null where there were none.
    pub latency_ns: Option<LatencySummary>,
    /// The whole histogram of these latencies: of a sampled run, of the accesses of its units.
    #[serde(default)]
    pub latency_distribution: Option<Distribution>,
    /// Mean nanoseconds that an access spent in each stage: they sum to the mean latency.
    pub stages_ns: BTreeMap<String, f64>,
    /// Nanoseconds of all software threads by owner: they sum to threads × run time.
    pub time_breakdown_ns: BTreeMap<String, f64>,
    /// Bytes from and to the store.
    pub store_bytes: Bytes,
    /// Bytes from and to DRAM.
    pub dram_bytes: Bytes,
    /// What accesses that the core's own caches could not serve at once have cost, by what they
    /// concern: a file's name, `heap`, `anonymous memory`, `image, stack and kernel`.
    pub areas: BTreeMap<String, Cost>,
    /// Where in its address space the program's accesses went over time: those that `areas` counts; of a device
    /// alone all requests but flushes, each at its first byte.
    #[serde(default)]
    pub heat_map: Option<HeatMapResult>,
    /// How much queues held over time. Nothing of sampled runs.
    #[serde(default)]
    pub queues: Option<QueuesResult>,
    /// What accesses have cost by where in the program's code they come from, where that was asked
    /// for.
    pub code: Option<CodeResult>,
    /// Counters of the components.
    pub counters: BTreeMap<String, u64>,
    /// Calls on files and on memory that returned in what is counted, by kind: `open`, `read`, `write`, `sync` (fsync, fdatasync,
    /// msync, sync, syncfs), `sync_file_range`, `copy_file_range` (sendfile from file to file, too), `splice` (sendfile
    /// otherwise), `fallocate`, `truncate`, `rename`, `link`, `unlink`, `mkdir`, `rmdir`, `getdents`, `fadvise` (readahead, too) and `stat`
    /// (access, too); `mmap` that brings its pages, `munmap` (brk, too), `mremap`, `mprotect`, `madvise`, `mlock` (mlock2, mlockall) and
    /// `munlock` (munlockall). Absent where there were none, of sampled runs, and of replays of windows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<String, CallResult>,
    /// How long page faults took, from the access that needed the page until it could go on, by what they needed: `major`
    /// (a page of a file from the store), `swap` (one from swap), `copy` (a copy), `huge` (a huge page), `hint` (one whose entry had been
    /// taken away, to find hot pages), `minor` (nothing of these). Absent as `calls` are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub faults: BTreeMap<String, FaultResult>,
    /// Where energy went.
    #[serde(default)]
    pub energy: EnergyResult,
    /// What saving the DRAM when power fails, and restoring it, would take. Nothing of DRAM that forgets.
    #[serde(default)]
    pub nvdimm: Option<NvdimmResult>,
    /// What a drive (`[ssd]`) did, as a machine's store or alone. Nothing where there is none.
    #[serde(default)]
    pub drive: Option<DriveResult>,
    /// What byte-addressable non-volatile memory (`[nvm]`) did, as memory, as a store or alone. Nothing
    /// where there is none.
    #[serde(default)]
    pub nvm: Option<NvmResult>,
    /// What a disk (`[disk]`) did, as a machine's store or alone. Nothing where there is none.
    #[serde(default)]
    pub disk: Option<DiskResult>,
    /// What a device alone did with its requests. Nothing of a machine with a processor.
    #[serde(default)]
    pub device: Option<DeviceResult>,
    /// How the run was sampled, and how sure its figures are. Nothing where all was in detail.
    #[serde(default)]
    pub sampling: Option<SamplingResult>,
    /// What a recording of windows tells of its whole program. Nothing of other workloads, and of runs
    /// that are sampled themselves or count a part.
    #[serde(default)]
    pub recorded_windows: Option<RecordedWindows>,
    /// Wall-clock time of this system's simulation.
    pub wall_s: f64,
    /// Accesses simulated in a second of wall-clock time, those before the region included.
    pub accesses_per_wall_s: f64,
    /// Remarks that a reader should know of.
    pub notes: Vec<String>,
}

/// Where energy went, in joules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnergyResult {
    /// Sum of all parts. Nothing where no component's energy is known.
    pub total_j: Option<f64>,
    /// The total over the simulated time, in watts.
    pub average_w: Option<f64>,
    /// Joules by component and part: `dram.activate`.
    pub parts_j: BTreeMap<String, f64>,
    /// Components that the total does not hold, each with the reason.
    pub not_counted: BTreeMap<String, String>,
}

/// What saving DRAM to the flash of its modules, and restoring it, takes. All modules work at the same
/// time; energies are of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NvdimmResult {
    /// Modules.
    pub modules: u64,
    /// DRAM of all modules.
    pub capacity_bytes: u64,
    /// Time of a save, in seconds.
    pub save_s: f64,
    /// Time of a restore, in seconds.
    pub restore_s: f64,
    /// Time to charge an empty energy source, in seconds: so long after power has returned at most, the
    /// memory is armed again.
    pub charge_s: f64,
    /// Energy of a save.
    pub save_j: f64,
    /// Energy of a restore.
    pub restore_j: f64,
    /// Energy of charged sources.
    pub energy_at_hand_j: f64,
    /// Whether that suffices for a save.
    pub suffices: bool,
    /// Bytes in flash when the save ends, or the energy does. Where it does not suffice, there is no
    /// image of them to restore.
    pub saved_bytes: u64,
}

/// What byte-addressable non-volatile memory did: its buffer, its queues and its cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NvmResult {
    /// Bytes that it is asked for at once.
    pub access_bytes: u64,
    /// Bytes of a line of its cells. All counts of lines are of these.
    pub line_bytes: u64,
    /// Accesses that wrote.
    pub host_writes: u64,
    /// What combines writes before the cells. Nothing where there is nothing.
    pub buffer: Option<NvmBufferResult>,
    /// Lines to read that came to the queues of the cells.
    pub read_lines: u64,
    /// Lines to write that came to them.
    pub written_lines: u64,
    /// Of the lines read, those that came from writes that waited.
    pub forwarded_lines: u64,
    /// Writes that took the place of one that waited for the same line.
    pub merged_lines: u64,
    /// Reads that found their row open.
    pub row_hits: u64,
    /// Rows that were read from the cells into a row buffer.
    pub row_reads: u64,
    /// Lines whose cells were written, by gap moves too.
    pub line_writes: u64,
    /// Times that a write pulse was stopped for reads, to go on later.
    pub paused_writes: u64,
    /// Write pulses that were given up for reads, to begin anew later.
    pub cancelled_writes: u64,
    /// Lines copied by wear levelling.
    pub gap_moves: u64,
    /// Bytes written to cells for each byte that was asked to be written. Nothing where none was.
    pub write_amplification: Option<f64>,
    /// Writes of the line that was written most, since it was new.
    pub most_writes_of_a_line: u64,
    /// Lines that were ever written.
    pub worn_lines: u64,
    /// Lines that were ever written by their writes since the memory was new: classes that are not empty, each of
    /// a power of two.
    #[serde(default)]
    pub wear: Vec<WearClass>,
    /// Writes that a cell stands.
    pub endurance: u64,
    /// How long that line would stand what it was given, in years of 365 days. Nothing where it was
    /// written fewer than 100 times, which is chance.
    pub worst_line_years: Option<f64>,
    /// How long the memory would stand what it was given if all lines wore alike, in years of 365 days.
    /// Nothing where nothing was written.
    pub levelled_years: Option<f64>,
}

/// What a disk did: its buffer, its arm and its platters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiskResult {
    /// Pages (`disk.page`) that the host read.
    pub host_read_pages: u64,
    /// Of these, those that the disk's buffer had.
    pub buffer_hits: u64,
    /// Pages that the host wrote.
    pub host_written_pages: u64,
    /// Flushes that the disk was asked for.
    pub flushes: u64,
    /// Pages read from the platters.
    pub platter_reads: u64,
    /// Of these, those that nobody had asked for yet.
    pub read_ahead: u64,
    /// Pages written to the platters.
    pub platter_writes: u64,
    /// Accesses before which the arm moved to another cylinder.
    pub seeks: u64,
    /// Accesses that were next for their age, and not for the way to them.
    pub aged: u64,
    /// Share of the time in which arm and heads were positioned.
    pub positioning_share: f64,
    /// Share of the time in which the first sector was waited for.
    pub rotation_share: f64,
    /// Share of the time in which sectors passed below the head.
    pub transfer_share: f64,
}

/// What a buffer before the cells of byte-addressable memory did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NvmBufferResult {
    /// Reads whose data it had.
    pub read_hits: u64,
    /// Reads that had to wait for the cells.
    pub read_misses: u64,
    /// Writes to a line that it had.
    pub write_hits: u64,
    /// Writes to a line that it had not.
    pub write_misses: u64,
    /// Lines that left it to be written, all of whose data it had.
    pub full_evictions: u64,
    /// Lines of which it had to read the rest first.
    pub partial_evictions: u64,
}

/// What a drive did: its buffer, its translation layer and its flash.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DriveResult {
    /// Bytes of a page: what the drive maps as one. All counts of pages are of these, but for those of
    /// flash.
    pub page_bytes: u64,
    /// Pages that the host read.
    pub host_read_pages: u64,
    /// Of these, those that the drive's buffer had.
    pub buffer_hits: u64,
    /// Pages that the host wrote.
    pub host_written_pages: u64,
    /// Flushes that the drive was asked for.
    pub flushes: u64,
    /// Pages that held something and were given back by trims.
    pub trimmed_pages: u64,
    /// Pages that left the buffer for flash: those written again before count once.
    pub flushed_pages: u64,
    /// Pages that collection moved.
    pub moved_pages: u64,
    /// Pages of the map programmed, where that lies in flash (`[ssd.map]`).
    #[serde(default)]
    pub map_writes: u64,
    /// Pages of it read from flash.
    #[serde(default)]
    pub map_reads: u64,
    /// Look-ups and changes of which the drive's memory had the page of the map.
    #[serde(default)]
    pub map_hits: u64,
    /// Those for which it was read, or was being read.
    #[serde(default)]
    pub map_misses: u64,
    /// Sequential log blocks that were full and took the place of another (`[ssd.log]`).
    #[serde(default)]
    pub switch_merges: u64,
    /// Those that were filled up with the pages that they lacked.
    #[serde(default)]
    pub partial_merges: u64,
    /// Logical blocks that were put together anew.
    #[serde(default)]
    pub full_merges: u64,
    /// Pages of flash programmed without content, in pages of the drive.
    pub padded_pages: u64,
    /// Pages programmed, moved, of the map and padding included, for each that left the buffer. Nothing where none
    /// did. What the buffer makes of the host's writes is not in it.
    pub write_amplification: Option<f64>,
    /// Bytes programmed, moved, of the map and padding included, for each byte that the host wrote: small writes to
    /// a page that leaves the buffer in between each program it anew, and several that meet in the
    /// buffer program it once. Nothing where the host wrote nothing; what is still in the buffer counts
    /// as written, and not as programmed.
    #[serde(default)]
    pub flash_bytes_per_host_byte: Option<f64>,
    /// Pages of flash read.
    pub flash_reads: u64,
    /// Pages of flash programmed.
    pub flash_programs: u64,
    /// Erases of a block of all planes of a die.
    pub flash_erases: u64,
    /// Times that reads suspended a program or an erase.
    pub suspends: u64,
    /// Blocks collected.
    pub collections: u64,
    /// Of these, those that were begun ahead of need, in a pause of the host (`[ssd.collection.idle]`).
    #[serde(default)]
    pub idle_collections: u64,
    /// Of the erases, those that were begun ahead of need.
    #[serde(default)]
    pub idle_erases: u64,
    /// Of the blocks collected, those chosen for having been erased least.
    pub levelled: u64,
    /// Erases of a block in use since the start of the run, the fewest.
    pub erases_min: u64,
    /// The same on average.
    pub erases_mean: f64,
    /// The same, the most.
    pub erases_max: u64,
    /// Blocks in use by their erases since the start of the run: classes that are not empty, at most 64 of equal
    /// width.
    #[serde(default)]
    pub wear: Vec<WearClass>,
    /// Erases that a block stands.
    pub endurance: u64,
    /// Blocks that were taken out of use for wear.
    pub worn_blocks: u64,
    /// Blocks in use that should not be any more, as no others are left.
    pub overworn_blocks: u64,
    /// Years that new flash would last at this rate of erases. Nothing where nothing was erased.
    pub lifetime_years: Option<f64>,
    /// The same until the first block has been erased so often, if blocks go on to differ as they do since the
    /// start. Nothing while they have been erased less than once in the mean.
    #[serde(default)]
    pub first_block_lifetime_years: Option<f64>,
    /// Share of the time in which each channel was taken.
    pub channels_busy: Vec<f64>,
    /// Share of the time in which the array of each die worked.
    pub dies_busy: Vec<f64>,
}

/// What a store alone went on doing after its last answer, unasked: no other figure holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SettlingResult {
    /// Simulated time until it came to rest, in seconds.
    pub time_s: f64,
    /// Pages of flash read meanwhile.
    pub flash_reads: u64,
    /// Pages of flash programmed meanwhile.
    pub flash_programs: u64,
    /// Erases meanwhile.
    pub flash_erases: u64,
    /// Energy of the store meanwhile, in joules, as far as it is known.
    pub energy_j: Option<f64>,
}

/// What a device alone, a memory or a store, did with its requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceResult {
    /// Requests to read that were answered.
    pub reads: u64,
    /// Requests to write that were answered.
    pub writes: u64,
    /// Of these, those that are forced: answered when what they write is kept for good (force unit access).
    #[serde(default)]
    pub forced_writes: u64,
    /// Requests to flush that were answered.
    #[serde(default)]
    pub flushes: u64,
    /// Requests to trim that were answered.
    #[serde(default)]
    pub trims: u64,
    /// Bytes that these requests asked for: what a store moved for them is in `store_bytes`, and a
    /// memory in `dram_bytes`.
    #[serde(default)]
    pub requested_bytes: Bytes,
    /// Requests that found the device's queue full, and waited at its door: the stage `host_queue`.
    pub waited_at_door: u64,
    /// Requests that were under way, on average over the simulated time: those at the door, too.
    #[serde(default)]
    pub under_way_mean: f64,
    /// Requests that the device had taken and not answered, on average over the simulated time.
    #[serde(default)]
    pub in_flight_mean: f64,
    /// Requests that the device had taken and not answered at most.
    #[serde(default)]
    pub in_flight_max: u64,
    /// Reads and writes over the simulated time, in requests a second.
    #[serde(default)]
    pub requests_per_s: f64,
    /// Bytes that requests asked for over the simulated time, in bytes a second.
    pub bytes_per_s: f64,
    /// What the data buses of a memory can move at most, in bytes a second. Nothing of a store.
    pub peak_bytes_per_s: Option<f64>,
    /// The share of that that they moved, in whole lines.
    pub peak_share: Option<f64>,
    /// Latency of reads, from arrival to the last data. Nothing where there were none.
    pub read_latency_ns: Option<LatencySummary>,
    /// Latency of writes: from arrival until a memory's controller has taken them, or a store's medium
    /// has them. Nothing where there were none.
    pub write_latency_ns: Option<LatencySummary>,
    /// Of these, latency of forced writes: until what they write is kept for good. Nothing where there were none.
    #[serde(default)]
    pub forced_write_latency_ns: Option<LatencySummary>,
    /// Latency of flushes, from arrival until all writes before are answered, and, of a drive, until all
    /// that it had answered is kept for good. Nothing where there were none.
    #[serde(default)]
    pub flush_latency_ns: Option<LatencySummary>,
    /// Latency of trims. Nothing where there were none.
    #[serde(default)]
    pub trim_latency_ns: Option<LatencySummary>,
    /// Requests that found their row open. This and what follows is of a memory; 0 of a store.
    pub row_hits: u64,
    /// Requests that found no row open.
    pub row_closed: u64,
    /// Requests that found another row open.
    pub row_conflicts: u64,
    /// Rows opened.
    pub activates: u64,
    /// Refreshes of a rank, or of a bank where each has its own.
    pub refreshes: u64,
    /// What a store went on doing after its last answer. Nothing of a memory, and where the run ended
    /// earlier.
    #[serde(default)]
    pub settling: Option<SettlingResult>,
}

/// What a machine simulated before the region of interest, and did not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Skipped {
    /// Accesses of the program.
    pub accesses: u64,
    /// Instructions of the program.
    pub instructions: u64,
    /// Simulated time, in picoseconds; in functional warming without that of accesses
    /// and transfers.
    pub time_ps: u64,
    /// How it warmed the machine.
    pub warming: Warming,
}

/// How a run was sampled.
///
/// Instructions, accesses, bytes, faults and look-ups are counted throughout. Times, energies, misses of
/// a DRAM cache and stages are estimates: what units took for each cause (an access beyond the first
/// cache, a read of main memory, a request to the store), times how many the run had. Percentiles are
/// those of the units.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SamplingResult {
    /// Units measured.
    pub units: u64,
    /// Simulated time of a unit, in picoseconds; the last may be shorter.
    pub unit_ps: u64,
    /// Simulated time in detail before each unit, at least, which is not measured, in picoseconds.
    pub refill_ps: u64,
    /// Simulated time in which one unit is measured, in picoseconds.
    pub period_ps: u64,
    /// Simulated time of all units; of what was in detail at the start, where there is none.
    pub measured_time_ps: u64,
    /// Instructions of the program in all units, or at the start.
    pub measured_instructions: u64,
    /// Accesses of the program in all units, or at the start.
    pub measured_accesses: u64,
    /// Share of the simulated time that was in detail, measured or not.
    pub detailed_share: f64,
    /// How what is passed over warms the machine.
    #[serde(default)]
    pub warming: Warming,
    /// Share of runs whose intervals hold what the whole run gives.
    pub confidence: f64,
    /// What functional warming leaves out of the time, as a share of it: as many of the runs that were compared with complete
    /// ones were off by less. Intervals have it beside sampling's error.
    #[serde(default)]
    pub warming_error: f64,
    /// Half widths of the confidence intervals, as shares of the figures.
    pub half_widths: HalfWidths,
}

/// Half widths of confidence intervals, as shares of the figures. Nothing where there is nothing to
/// tell: fewer than eight units, or a figure that is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HalfWidths {
    /// Of the time, and of instructions per cycle.
    pub time: Option<f64>,
    /// Of the mean latency.
    pub mean_latency: Option<f64>,
    /// Of the rate of misses, where it is not counted throughout.
    pub miss_rate: Option<f64>,
    /// Of the energy.
    pub energy: Option<f64>,
}

/// What a recording of windows tells of its whole program: what the start took, which is recorded whole, and
/// estimates of what the rest took for each instruction, and of the mean latency. Intervals have what warming leaves out between windows
/// beside sampling's error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedWindows {
    /// Whole windows that were simulated.
    pub windows: u64,
    /// Instructions of the program, those between windows included.
    pub program_instructions: u64,
    /// Of these, instructions of the start, which is recorded whole.
    pub start_instructions: u64,
    /// Time that the program's threads are at work or wait for the machine, all together, in seconds:
    /// that of the start, and what windows took for each instruction, times all other instructions. Nothing
    /// without a window.
    pub thread_time_s: Option<f64>,
    /// Mean latency of the program's accesses, in nanoseconds. Nothing without a window.
    pub mean_latency_ns: Option<f64>,
    /// Time for each instruction in the first halves of windows over that in the second ones: above 1 where
    /// windows begin colder than they should, or with queues still empty below it. Nothing without a
    /// window.
    pub first_halves: Option<f64>,
    /// Share of programs whose figures lie in the intervals.
    pub confidence: f64,
    /// Half widths of the confidence intervals.
    pub half_widths: WindowHalfWidths,
}

/// Half widths of confidence intervals, as shares of the figures. Nothing with fewer than eight windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WindowHalfWidths {
    /// Of the thread time.
    pub thread_time: Option<f64>,
    /// Of the mean latency.
    pub mean_latency: Option<f64>,
}

/// What accesses have cost by where in the program's code they come from.
///
/// Each table has the 1,000 rows for which threads stood still longest, the longest first, and one
/// for all others, `[others]`: the sums over a table are the system's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CodeResult {
    /// By function.
    pub functions: Vec<CodeCost>,
    /// By instruction, where that was asked for.
    pub addresses: Option<Vec<CodeCost>>,
}

/// What accesses from one place of the program's code have cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CodeCost {
    /// The file that the code is from, without symbolic links; `[anonymous code]` for what the
    /// program made itself. Empty for `[others]` and `[unknown]`.
    pub file: String,
    /// The function, as its language writes it; empty where the file does not tell.
    pub function: String,
    /// Where the function begins, or where the instruction is: as the file has it, or in the
    /// program's memory where it is in no file.
    pub address: u64,
    /// Accesses that the core's own caches served at once: with those of `cost` all of them.
    pub hits: u64,
    /// What the others have cost, and calls.
    pub cost: Cost,
}

/// What accesses have cost: those that the core's own caches could not serve at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Accesses of the program that missed the core's caches or its TLB, faulted, or had to wait
    /// before they could be issued.
    pub accesses: u64,
    /// Of these, those that waited for the store's medium.
    pub store_accesses: u64,
    /// Waits for the store in calls on the file (read, write, sync).
    pub call_waits: u64,
    /// Lines read from main memory for them, page-table entries included.
    pub memory_reads: u64,
    /// Sum of their latencies, in nanoseconds.
    pub latency_ns: f64,
    /// Time that threads stood still for it, in nanoseconds: faults, misses beyond the core, and
    /// waits in calls.
    pub stall_ns: f64,
}

/// Calls of a kind, each from when it enters the kernel until it returns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallResult {
    /// How many.
    pub count: u64,
    /// Bytes that they read or wrote of files.
    pub bytes: u64,
    /// Sum of their times, in nanoseconds.
    pub time_ns: f64,
    /// How long they took.
    pub latency_ns: LatencySummary,
    /// Mean time of one in each stage, in nanoseconds, and in the instructions of the kernel around them (busy) or asleep
    /// (blocked): they sum to the mean.
    pub stages_ns: BTreeMap<String, f64>,
}

/// Page faults of a kind, each from when the access that needs the page is first offered until it can go on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultResult {
    /// How many.
    pub count: u64,
    /// Sum of their times, in nanoseconds.
    pub time_ns: f64,
    /// How long they took.
    pub latency_ns: LatencySummary,
    /// Mean time of one in each stage, in nanoseconds; asleep before polling is `core`, as of accesses. They sum to the mean.
    pub stages_ns: BTreeMap<String, f64>,
}

/// A latency's distribution, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencySummary {
    /// Mean.
    pub mean: f64,
    /// Standard deviation, of all that there were.
    pub stddev: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
}

/// A whole histogram of latencies, without buckets that are empty. Each power of two of picoseconds is cut into
/// 16 buckets, and what lies below 512 ps into parts of 32 ps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// The least latency of each bucket, in picoseconds.
    pub from_ps: Vec<u64>,
    /// The greatest latency of each bucket, in picoseconds.
    pub to_ps: Vec<u64>,
    /// How many there were of each bucket.
    pub counts: Vec<u64>,
}

/// Accesses by address and simulated time since the region's beginning: at most 128 rows and 128 columns, as
/// small as these suffice for. What nothing was counted of has no row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeatMapResult {
    /// Bytes of a row, a power of two.
    pub row_bytes: u64,
    /// Simulated time of a column, in picoseconds, a power of two. A column counts what ended in it.
    pub column_ps: u64,
    /// The first byte of each row, in order: an address of the program, of its processes together, or of a
    /// device alone.
    pub addresses: Vec<u64>,
    /// How many there were, by row and column.
    pub counts: Vec<Vec<u64>>,
}

/// How much queues held over simulated time since the region's beginning, by samples in equal distances; these
/// double now and then, and each sample counts for the time since the one before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueuesResult {
    /// Samples taken.
    pub samples: u64,
    /// Simulated time of a column, in picoseconds, a power of two.
    pub column_ps: u64,
    /// What each queue held, by its name: the part, and what is counted of it.
    pub queues: BTreeMap<String, QueueResult>,
}

/// How much a queue held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueResult {
    /// Mean over the time, rounded to thousandths.
    pub mean: f64,
    /// Held in half of the time at most.
    pub p50: u64,
    /// Held in 99 % of the time at most.
    pub p99: u64,
    /// The most of any sample.
    pub max: u64,
    /// Mean of each column, rounded to thousandths; nothing of one without a sample.
    pub means: Vec<Option<f64>>,
    /// The most of any sample of each column; nothing of one without a sample.
    pub most: Vec<Option<u64>>,
}

/// Blocks or lines that were erased or written so often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WearClass {
    /// So often at least.
    pub from: u64,
    /// So often at most.
    pub to: u64,
    /// How many.
    pub count: u64,
}

/// Bytes moved each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bytes {
    /// Read.
    pub read: u64,
    /// Written.
    pub written: u64,
}

/// One interval of a system's run: sums since the interval before. In a sampled run, one unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// End of the interval, in simulated picoseconds.
    pub end_ps: u64,
    /// Instructions of the program.
    pub instructions: u64,
    /// Accesses of the program.
    pub accesses: u64,
    /// Sum of the latencies of accesses that ended in it, in picoseconds; 2^64 − 1 where it is more.
    pub latency_ps: u64,
    /// Misses of the kind that `miss_kind` names.
    pub misses: u64,
    /// Bytes from the store.
    pub store_read_bytes: u64,
    /// Bytes to the store.
    pub store_written_bytes: u64,
}

impl LatencySummary {
    /// Of a histogram; none where it holds nothing.
    pub(crate) fn of(histogram: &LatencyHistogram) -> Option<Self> {
        let ns = |ps: u64| ps as f64 / 1e3;
        (histogram.count() > 0).then(|| LatencySummary {
            mean: histogram.mean_ps() / 1e3,
            stddev: histogram.stddev_ps() / 1e3,
            p50: ns(histogram.quantile_ps(0.5)),
            p99: ns(histogram.quantile_ps(0.99)),
            p999: ns(histogram.quantile_ps(0.999)),
            max: ns(histogram.max_ps()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_nothing_there_is_no_latency() {
        let mut histogram = LatencyHistogram::default();
        assert_eq!(LatencySummary::of(&histogram), None);
        histogram.record_n(0, 1);
        let zero = LatencySummary::of(&histogram).unwrap();
        assert_eq!((zero.mean, zero.max), (0.0, 0.0), "which is not the same as zero");
        assert_eq!(zero.stddev, 0.0);
    }
}
