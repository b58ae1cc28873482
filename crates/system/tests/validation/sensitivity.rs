//! No dead options: every value of every preset, varied alone, changes a named output in a stated
//! direction, or stands among those that cannot, with the reason.
//!
//! A new value of the schema fails these tests until it has a line here.

use super::support::*;
use std::collections::{BTreeMap, BTreeSet};
use tierscope_system::spec::{Shape, SystemSpec, Table, list, load, load_text, shape};
use tierscope_units::Problems;
use tierscope_workload::Op;
use tierscope_workload::op::{Advice, Call, MAP_SHARED, MAP_WRITABLE};

// ---- Small machines ---------------------------------------------------------------------------

const ORACLE: &str = "oracle/quick";
const HYBRID: &str = "hybrid/quick";
const STORAGE: &str = "storage/quick";
const ALL: &[&str] = &[ORACLE, HYBRID, STORAGE];
const STORES: &[&str] = &[HYBRID, STORAGE];
pub const PRESETS: [&str; 3] = [ORACLE, HYBRID, STORAGE];
/// A machine whose own keys are varied, and not what it shares with the others: with so little NVDIMM that
/// a workload of milliseconds feels all of it.
const OWN: (&str, &str, &str) = (
    HAMS,
    "hams-le/quick",
    "[hams]\ncapacity = \"2MiB\"\npinned = \"512KiB\"\npage = \"16KiB\"\n\
     [dram.backup]\nmodule = \"1MiB\"\n[os]\npage = \"4KiB\"",
);
const HAMS: &str = "hams-le/small";

/// Machines with parts that no preset here has, other kinds of links and stores and a backup of DRAM:
/// name, base, and the tables.
const LINKED: [(&str, &str, &str); 19] = [
    (AHEAD, ORACLE, AHEAD_TABLES),
    (BUFFERED, STORAGE, BUFFERED_TABLE),
    (TAGGED, HYBRID, TAGGED_TABLES),
    (DDR, HYBRID, DDR_TABLE),
    (NVDIMM, ORACLE, BACKUP_TABLE),
    (NVME, STORAGE, PCIE_TABLE),
    (PCIE, HYBRID, PCIE_TABLE),
    (
        SATA,
        STORAGE,
        "[sata]\ngeneration = 3\nadapter_latency = \"1us\"\nhandshake = \"200ns\"\n\
         latency = \"50ns\"\n\
         energy = { per_bit = \"5pJ\", idle_power = \"320mW\" }",
    ),
    (
        CXL,
        HYBRID,
        "[cxl_mem]\ngeneration = 5\nlanes = 8\nlatency = \"20ns\"\n\
         energy = { per_bit = \"5pJ\", idle_power = \"320mW\" }",
    ),
    (SSD, STORAGE, SSD_TABLES),
    (NVM, HYBRID, NVM_TABLES),
    (DISK, STORAGE, DISK_TABLES),
    (HASTE, STORAGE, HASTE_TABLES),
    (RAMDISK, STORAGE, RAMDISK_TABLE),
    (TIERED, "hyb15-host", TIERED_TABLES),
    (NODES, "hyb15-host", NODES_TABLES),
    (LAYERED, STORAGE, "[storage.block_layer]\nscheduler = \"none\""),
    (SEVERAL, HYBRID, "[controllers]\ncount = 2\ninterleave = \"4KiB\""),
    (
        WINDOWS,
        HYBRID,
        "[refresh_window]\nchannel = 0\nchips = \"160ns\"\nbandwidth = \"2GB/s\"\n\
         latency = \"10ns\"\n[dram]\nt_rfc = \"1060ns\"",
    ),
];
/// Tags in DRAM, of which few are on chip.
const TAGGED: &str = "hybrid/tagged";
const TAGGED_TABLES: &str = "[hybrid.cache]\ntags = \"dram\"\n\
                             [hybrid.cache.tag_cache]\ncapacity = \"256B\"\nways = 1\n";
const WINDOWS: &str = "hybrid/windows";
/// Two controllers, each with DRAM and a store.
const SEVERAL: &str = "hybrid/several";
/// Pages go as requests, in order.
const LAYERED: &str = "storage/layered";
/// So little at the store at once that requests wait.
const WAITING: Sets<'static> = &[("storage.host_queue_depth", "1")];
/// One hardware thread takes all interrupts, and passes what they tell of on to who asked.
const PASSED_ON: Sets<'static> =
    &[("storage.driver.interrupts", "one"), ("storage.driver.rq_affinity", "core")];
/// A machine's DRAM and, behind a link, a store of lines with these times and units; and its other tables.
macro_rules! lines_behind_a_link {
    ($about:literal, $store:literal, $tables:literal) => {
        concat!(
            $about,
            r#"
[dram]
part = "ddr3-1333-2gb-x8"
channels = 4
ranks = 1
row = "1KiB"
mapping = "ro-ra-ba-bg-co-ch"
page_policy = "open"
refresh = "all-bank"
postponed_refreshes = 0
read_queue_depth = 512
write_queue_depth = 512
write_high = 54
write_low = 32
age_cap = "1us"
controller_latency = "10ns"
[store]
capacity = "64MiB"
page = "64B"
"#,
            $store,
            r#"controller_latency = "100ns"
queue_depth = 256
[link]
bandwidth = "4GB/s"
payload = "256B"
packet_overhead = "24B"
latency = "200ns"
"#,
            $tables
        )
    };
}
const TIERED: &str = "tiered";
/// Lines of a store behind a link, whose pages come to DRAM with their second access.
const TIERED_TABLES: &str = lines_behind_a_link!(
    "name = \"tiered\"\ndescription = \"a small memory behind a link\"",
    "read_latency = \"2us\"\nwrite_latency = \"5us\"\nunits = 16\nunit_bandwidth = \"400MB/s\"\n",
    r#"[tiered]
host_queue_depth = 32
read_latency = "100ns"
write_latency = "100ns"
[tiered.promotion]
capacity = "1MiB"
ways = 4
page = "4KiB"
most_threshold = 2
low_ratio = 0.1
high_ratio = 0.4
epoch = 1000
counted_pages = 4096
lookaside_entries = 8
mapping_latency = "1us"
"#
);
const NODES: &str = "tiering";
/// Two nodes of memory, of which the first is small, and scans that come round in a moment.
const NODES_TABLES: &str = lines_behind_a_link!(
    "name = \"tiering\"\ndescription = \"a small memory before a larger one behind a link\"",
    "read_latency = \"200ns\"\nwrite_latency = \"200ns\"\nunits = 64\nunit_bandwidth = \"4GB/s\"\n",
    r#"[tiering]
capacity = "2MiB"
host_queue_depth = 32
read_latency = "100ns"
write_latency = "100ns"
copy_lines = 8
[tiering.balancing]
scan_delay = "20us"
scan_period = "20us"
scan_size = "1MiB"
scan_limit = "1TB/s"
hot_threshold = "200us"
threshold_period = "100us"
promote_rate_limit = "64MB/s"
free_enough = "1GiB"
demotion = true
watermark_scale = 0.01
scan_entry = { instructions = 4, lines = 0 }
migrate = { instructions = 1000, lines = 2 }
shootdown = { instructions = 1000, lines = 2 }
shootdown_interrupt = { instructions = 500, lines = 1 }
"#
);
const BUFFERED: &str = "storage/buffered";
/// A second level of the page cache, as small as the first.
const BUFFERED_TABLE: &str = "[storage.buffer_cache]\ncapacity = \"1MiB\"\nways = 16\n\
    replacement = \"lru\"\nread_slowdown = 400.0\nprogram_slowdown = 1000.0\n\
    on_hit = \"move\"\ninsertion = \"synchronous\"\nqueue_pages = 32\nreadahead = \"ignore\"";
const AHEAD: &str = "oracle/ahead";
/// A prefetcher that is not far ahead.
const AHEAD_TABLES: &str = "[processor.prefetch]\nkind = \"stream\"\ndegree = 2\ndistance = 2\n\
    trackers = 2\noutstanding = 8";
const NVDIMM: &str = "oracle/nvdimm";
/// Modules of 64 MiB with energy for half a save.
const BACKUP_TABLE: &str = "[dram.backup]\nmodule = \"64MiB\"\nflash = \"256MiB\"\n\
    save_bandwidth = \"100MB/s\"\nrestore_bandwidth = \"100MB/s\"\nsave_power = \"6W\"\n\
    restore_power = \"6W\"\nenergy = \"2J\"\ncharge_power = \"5W\"\n\
    [dram.interface]\nread_power = \"4mW\"\nwrite_power = \"20mW\"\n\
    other_read_power = \"15mW\"\nother_write_power = \"15mW\"";
const DDR: &str = "hybrid/ddr";
const DDR_TABLE: &str = "[ddr_channel]\nchannel = 0\ndata_rate = \"1333MT/s\"\nbus_bits = 64\n\
    hand_over = \"3ns\"\nlock_latency = \"5ns\"\nenergy = { per_bit = \"5pJ\", idle_power = \"320mW\" }";
const NVME: &str = "storage/nvme";
const PCIE: &str = "hybrid/pcie";
const SATA: &str = "storage/sata";
const CXL: &str = "hybrid/cxl";
const SSD: &str = "storage/ssd";
/// A small drive that is full, so that what is written soon makes it collect.
const SSD_TABLES: &str = r#"
[link.energy]
per_bit = "5pJ"
idle_power = "320mW"
[ssd]
capacity = "32MiB"
page = "4KiB"
queue_depth = 256
split = 1
striping = "c-w-d-p"
initial = "steady"
controller_power = "2W"
[ssd.dram_power]
standby = "40mW"
read_per_bit = "5pJ"
write_per_bit = "4pJ"
[ssd.nand]
channels = 2
ways = 1
dies = 1
planes = 2
blocks = 600
pages = 4
page = "4KiB"
erase_latency = "1500us"
bus_rate = "400MT/s"
bus_bits = 8
command_cycle = "25ns"
multi_plane_reads = "none"
multi_plane_programs = true
cache_read = true
cache_program = true
suspends = 2
suspend_latency = "2us"
reads_ahead = 8
[ssd.nand.power]
voltage = "3.3V"
read_current = "25mA"
program_current = "25mA"
erase_current = "25mA"
transfer_current = "5mA"
standby_current = "10uA"
[ssd.nand.lower]
read_latency = "25us"
program_latency = "200us"
[ssd.nand.middle]
read_latency = "40us"
program_latency = "400us"
[ssd.nand.upper]
read_latency = "60us"
program_latency = "600us"
[ssd.buffer]
capacity = "1MiB"
dirty = "128KiB"
flush_above = "0B"
write_back = true
capacitors = false
read_cache = true
latency = "100ns"
bandwidth = "4GB/s"
[ssd.firmware]
cores = 2
page_time = "1us"
read_latency = "1us"
write_latency = "1us"
decode_latency = "1us"
[ssd.collection]
policy = "greedy"
window = 0
free_blocks = 3
copies = 4
[ssd.wear]
endurance = 100000
difference = 1000
factory_bad = 0.0
"#;
/// The same drive with its map in flash and collection in pauses, and one that was written, with a map of
/// blocks.
const SSD_MAPPED: &str = "storage/ssd-map";
const SSD_LOGGED: &str = "storage/ssd-log";
const SSD_MAPPED_TABLES: &str = "[ssd.collection.idle]\nafter = \"1s\"\nfree_blocks = 40\n\
    [ssd.map]\ncache = \"64KiB\"\nentry = \"4B\"\n";
const DISK: &str = "storage/disk";
/// A small disk with little buffer.
const DISK_TABLES: &str = r#"
[disk]
capacity = "64MiB"
page = "4KiB"
queue_depth = 32
controller_latency = "100us"
window = 32
age_limit = "500ms"
[disk.platters]
rpm = 7200
heads = 2
cylinders = 300
zones = 30
outer_sectors = 256
inner_sectors = 208
sector = "512B"
track_skew = "1500us"
cylinder_skew = "2ms"
[disk.arm]
single_seek = "1ms"
average_seek = "8500us"
full_seek = "14700us"
write_settle = "1ms"
head_switch = "1400us"
[disk.buffer]
capacity = "512KiB"
segments = 8
read_ahead = "64KiB"
write_cache = true
dirty = "256KiB"
[disk.power]
idle = "9W"
seek = "11W"
transfer = "10W"
"#;
const HASTE: &str = "storage/haste";
/// A small HASTE whose ring is slow enough to matter.
const HASTE_TABLES: &str = r#"
[haste]
capacity = "64MiB"
page = "4KiB"
queue_depth = 64
scheduler_latency = "37ns"
buffers = 4
nodes = 4
ring_bandwidth = "4.5GB/s"
ring_latency = "88ns"
controllers = 8
controller_bandwidth = "4GB/s"
read_latency = "67ns"
write_latency = "215ns"
"#;
const RAMDISK: &str = "storage/ramdisk";
const RAMDISK_TABLE: &str = "[ramdisk]\ncapacity = \"64MiB\"\npage = \"4KiB\"\nread_latency = \"125ns\"\n\
                             write_latency = \"125ns\"\ndram_latency = \"25ns\"\ndelays = \"memory\"\n\
                             lines = 384\n";
const NVM: &str = "hybrid/nvm";
/// A small memory of lines of 256 bytes behind a buffer that is asked for 64.
const NVM_TABLES: &str = r#"
[nvm]
capacity = "512MiB"
controller_latency = "10ns"
queue_depth = 512
[nvm.array]
line = "256B"
channels = 2
banks = 4
row = "1KiB"
row_buffers = 1
channel_interleave = "256B"
bank_interleave = "1KiB"
read_latency = "55ns"
column_latency = "12.5ns"
write_latency = "150ns"
preemption = "none"
bus_rate = "800MT/s"
bus_bits = 64
read_queue_depth = 32
write_queue_depth = 32
write_high = 24
write_low = 8
[nvm.buffer]
capacity = "8KiB"
access = "64B"
latency = "20ns"
[nvm.wear]
endurance = 100000000
gap_interval = 4
randomized = false
[nvm.energy]
array_read = "2pJ"
array_write = "17pJ"
buffer_read = "1pJ"
buffer_write = "1pJ"
standby = "100mW"
"#;
const PCIE_TABLE: &str = "[pcie]\ngeneration = 3\nlanes = 4\nmax_payload = \"256B\"\n\
    max_read_request = \"512B\"\nread_completion = \"256B\"\nprotocol = \"nvme\"\n\
    latency = \"115ns\"\nroot_complex_latency = \"300ns\"\n\
    energy = { per_bit = \"5pJ\", idle_power = \"320mW\" }";

/// Machines of [`SSD`] with more tables.
const DRIVES: [(&str, &str); 3] =
    [(SSD_MAPPED, SSD_MAPPED_TABLES), (SSD_LOGGED, "[ssd.log]\nblocks = 2\n"), (EXT4, EXT4_TABLE)];
const EXT4: &str = "storage/journal";
/// A file system with a small journal.
const EXT4_TABLE: &str = "[storage.file_system]\nkind = \"ext4\"\njournal = \"ordered\"\n\
    commit_interval = \"5s\"\njournal_capacity = \"4MiB\"\nbarrier = \"flush\"\n\
    timestamp_interval = \"4ms\"\n";

/// A preset, one of [`LINKED`] or of [`DRIVES`], with changes.
fn machine(name: &str, sets: Sets<'_>) -> SystemSpec {
    try_machine(name, sets).unwrap_or_else(|problems| panic!("{name}: {problems}"))
}

fn try_machine(name: &str, sets: Sets<'_>) -> Result<SystemSpec, Problems> {
    let sets: Vec<_> =
        sets.iter().map(|(path, value)| (path.to_string(), value.to_string())).collect();
    let of_drive = DRIVES.iter().find(|(other, _)| *other == name);
    let linked = if of_drive.is_some() { SSD } else { name };
    let Some((_, base, table)) = LINKED.iter().chain([&OWN]).find(|(other, ..)| *other == linked)
    else {
        return Ok(load(name, &sets)?.spec);
    };
    let mut text = format!("base = \"{base}\"\n{}", table.replace("nvme", protocol(name)));
    if name == SSD_LOGGED {
        text = text.replace("\"steady\"", "\"written\"");
    }
    text += of_drive.map_or("", |(_, tables)| tables);
    Ok(load_text(name, &text, &sets)?.spec)
}

/// What drives the device of a machine behind PCI Express.
fn protocol(name: &str) -> &str {
    if name == PCIE { "memory" } else { "nvme" }
}

/// The presets with so little memory that a workload of milliseconds feels all of it, and with
/// kernel paths that touch little, for speed.
pub const SMALL: Sets<'static> = &[
    ("processor.caches.L3.capacity", "320KiB"),
    ("oracle.capacity", "64MiB"),
    ("hybrid.cache.capacity", "1MiB"),
    ("storage.dram_capacity", "2MiB"),
    ("tiered.promotion.capacity", "1MiB"),
    ("store.capacity", "64MiB"),
    ("os.paths.fault.lines", "2"),
    ("os.paths.page_cache.lines", "2"),
    ("os.paths.file_system.lines", "2"),
    ("os.paths.block_layer.lines", "2"),
    ("os.paths.driver.lines", "2"),
    ("os.paths.interrupt.lines", "2"),
    ("os.paths.wake_up.lines", "2"),
    ("os.paths.context_switch.lines", "2"),
    ("os.paths.system_call.lines", "2"),
    ("os.paths.path_lookup.lines", "2"),
    ("os.paths.fork.lines", "2"),
];

/// The changes that a machine of this organization has a place for.
pub fn fitting(name: &str, sets: Sets<'_>) -> Vec<(String, String)> {
    let organization = name.split('/').next().unwrap_or_default();
    let fits = |path: &str| match path.split('.').next() {
        Some(part @ ("oracle" | "hybrid" | "storage" | "tiered" | "tiering")) => {
            part == organization
        }
        _ if path.starts_with("processor.caches.L3") => name != HAMS,
        Some("store") => {
            organization != "oracle"
                && ![SSD, NVM, DISK, HASTE, RAMDISK, HAMS].contains(&name)
                && DRIVES.iter().all(|(drive, _)| *drive != name)
        }
        Some("link") => organization != "oracle" && name != RAMDISK,
        _ => true,
    };
    let own = sets.iter().filter(|(path, _)| fits(path));
    own.map(|(path, value)| (path.to_string(), value.to_string())).collect()
}

// ---- Workloads --------------------------------------------------------------------------------

/// What feels a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feel {
    /// A pointer chase over so many KiB, in a scrambled order.
    Chase(u64),
    /// A pointer chase over every so-many-eth KiB, and how many of them.
    Steps(u64, u64),
    /// Loads that depend on nothing, of so many KiB, line after line.
    Stream(u64),
    /// The same of two times 512 KiB, by turns.
    ByTurns,
    /// Stores that depend on nothing, of random lines of 512 KiB.
    Stores,
    /// Updates of random lines of twice as much memory as DRAM has, each behind the one before.
    Updates,
    /// The same by four threads.
    Parallel,
    /// A file read, written, mapped and forced to the store.
    Files,
    /// A page of a file written over and over, each time with a sync.
    Synced,
    /// A file that is written, cut off and synced, over and over.
    Shrinking,
    /// More memory than DRAM has is written and unmapped, over and over.
    Unmapping,
    /// A file read again and again, and between reads updates of more memory than DRAM has.
    Crowded,
    /// Eight pages of a file in a row, at random places, so often that they come back.
    Again,
    /// Loads of every page of a mapped file, in a row.
    Mapped,
    /// Loads and stores of the same four lines by four threads.
    Contended,
    /// The same by three, while a fourth unmaps what it has written, over and over.
    Unmapped,
    /// Eight threads that compute and wake each other.
    Switches,
    /// A process that forks others, which read and write what it has; they take turns.
    Forks,
}

use Feel::*;

fn scrambled(kib: u64) -> Vec<u64> {
    let lines = kib * 1024 / LINE;
    // An odd step visits every one of a power of two; others lose a few.
    let near = (lines as f64 * 0.618) as u64 | 1;
    (0..lines).map(|i| ANONYMOUS + i * near % lines * LINE).collect()
}

fn updates(thread: u64, count: u64) -> Vec<Op> {
    let update = |i| {
        let address = ANONYMOUS + mixed(thread << 32 | i) % (8 << 20) / LINE * LINE;
        [Op::load(address, 8, 40), Op::store(address, 8, 40)].map(|op| op.depending_on(1))
    };
    (0..count).flat_map(update).collect()
}

fn contended() -> Vec<Op> {
    let access = |i: u64| {
        let address = ANONYMOUS + i / 2 % 4 * LINE;
        if i.is_multiple_of(2) { Op::load(address, 8, 400) } else { Op::store(address, 8, 400) }
    };
    (0..800).map(access).collect()
}

/// Threads beside the first, which starts them.
pub fn together(mut threads: Vec<Vec<Op>>) -> Vec<Vec<Op>> {
    let others = 1..threads.len() as u32;
    let start: Vec<Op> = others.flat_map(|thread| call(Call::Spawn { thread })).collect();
    threads[0] = [start, std::mem::take(&mut threads[0])].concat();
    threads
}

fn files() -> Vec<Op> {
    let (pages, flags) = (768, MAP_SHARED | MAP_WRITABLE);
    let length = pages * PAGE;
    let random = Advice::Random as u64;
    let mut ops = [
        call(Call::Open { file: 0, size: length }),
        call(Call::Open { file: 1, size: 0 }),
        call(Call::Map { address: MAPPED, length, flags, file: 0, offset: 0 }),
    ]
    .concat();
    let part = 4 * PAGE;
    for offset in (0..pages / 2 * PAGE).step_by(part as usize) {
        ops.extend(call(Call::Read { file: 0, offset, length: part, address: ANONYMOUS }));
    }
    for offset in (0..128 * PAGE).step_by(part as usize) {
        ops.extend(call(Call::Write { file: 1, offset, length: part, address: ANONYMOUS }));
    }
    ops.extend(call(Call::Advise { address: MAPPED, length, advice: random }));
    for i in 0..150 {
        let address = MAPPED + mixed(i) % pages * PAGE;
        ops.push(if i % 3 == 0 { Op::store(address, 8, 40) } else { Op::load(address, 8, 40) });
    }
    ops.extend(call(Call::Sync { file: 0 }));
    ops.extend(call(Call::Sync { file: 1 }));
    ops
}

fn shrinking() -> Vec<Op> {
    let turn = |n: u64| {
        let (file, size) = ((n % 4) as u32, 0);
        let write = Call::Write { file, offset: 0, length: 16 * PAGE, address: ANONYMOUS };
        let (cut, sync) = (Call::Truncate { file, length: 0 }, Call::Sync { file });
        [Call::Open { file, size }, write, sync, cut, sync].into_iter().flat_map(call)
    };
    (0..20).flat_map(turn).collect()
}

fn unmapping() -> Vec<Op> {
    let pages = 1200;
    let mut ops = Vec::new();
    for _ in 0..2 {
        ops.extend((0..pages).map(|page| Op::store(ANONYMOUS + page * PAGE, 8, 10)));
        ops.extend(call(Call::Unmap { address: ANONYMOUS, length: pages * PAGE }));
    }
    ops
}

fn synced() -> Vec<Op> {
    let write = Call::Write { file: 0, offset: 0, length: PAGE, address: ANONYMOUS };
    let open = call(Call::Open { file: 0, size: 16 * PAGE });
    [open, repeat(&[call(write), call(Call::Sync { file: 0 })].concat(), 40)].concat()
}

fn crowded() -> Vec<Op> {
    let (pages, updates) = (256, updates(1, 800));
    let mut ops = call(Call::Open { file: 0, size: pages * PAGE });
    for (number, some) in updates.chunks(2).enumerate() {
        let offset = number as u64 % (pages / 2) * PAGE;
        for offset in [offset, offset + pages / 2 * PAGE] {
            ops.extend(call(Call::Read {
                file: 0,
                offset,
                length: PAGE,
                address: ANONYMOUS + (16 << 20),
            }));
        }
        ops.extend_from_slice(some);
    }
    ops
}

fn again() -> Vec<Op> {
    let mut ops = call(Call::Open { file: 0, size: 512 * PAGE });
    for page in (0..300).flat_map(|run| (0..8).map(move |page| mixed(run) % 64 * 8 + page)) {
        let offset = page * PAGE;
        ops.extend(call(Call::Read { file: 0, offset, length: PAGE, address: ANONYMOUS }));
    }
    ops
}

fn mapped() -> Vec<Op> {
    let length = 128 * PAGE;
    let map = Call::Map { address: MAPPED, length, flags: MAP_SHARED, file: 0, offset: 0 };
    let load = |page| Op::load(MAPPED + page * PAGE, 8, 40);
    [call(Call::Open { file: 0, size: length }), call(map), (0..128).map(load).collect()].concat()
}

/// Threads 0 to 7: each computes, wakes the next, and waits for the one before.
fn switches() -> Vec<Vec<Op>> {
    let threads = 8u32;
    let mut all = vec![Vec::new(); threads as usize];
    for round in 1..=10u64 {
        for thread in 0..threads {
            let out = &mut all[thread as usize];
            if thread > 0 {
                out.extend(call(Call::Wait { thread: thread - 1, sequence: round }));
            }
            out.extend([Op::compute(40_000); 4]);
            out.push(Op::load(ANONYMOUS + u64::from(thread) * PAGE, 8, 4));
            out.extend(call(Call::Signal { sequence: round }));
        }
    }
    together(all)
}

/// Processes of one core's turns: each waits for the one before it, over and over.
fn forks() -> Vec<Vec<Op>> {
    let (processes, rounds, pages) = (9u64, 6u64, 48);
    let mut all: Vec<Vec<Op>> =
        vec![every(PAGE, pages).into_iter().map(|at| Op::store(at, 8, 8)).collect()];
    for process in 1..processes {
        let thread = process as u32;
        let fork = Call::Fork { parent: 0, process, thread };
        all[0].extend([fork, Call::Spawn { thread }].into_iter().flat_map(call));
        let mut ops = Vec::new();
        for round in 1..=rounds {
            let last = processes as u32 - 1;
            if process > 1 {
                ops.extend(call(Call::Wait { thread: thread - 1, sequence: round }));
            } else if round > 1 {
                ops.extend(call(Call::Wait { thread: last, sequence: round - 1 }));
            }
            for (number, at) in every(PAGE, pages).into_iter().enumerate() {
                let at = process << 48 | at;
                let writes = number % 4 == 0 && round == 1;
                ops.push(if writes { Op::store(at, 8, 40) } else { Op::load(at, 8, 40) });
            }
            ops.extend(call(Call::Signal { sequence: round }));
        }
        ops.extend(call(Call::Exit { process }));
        all.push(ops);
    }
    all
}

fn in_order(addresses: &[u64]) -> Vec<Op> {
    let last = addresses.iter().max().map_or(ANONYMOUS, |last| *last);
    chase(&every(PAGE, (last - ANONYMOUS) / PAGE + 1), 4)
}

fn passes(addresses: &[u64], ops: Vec<Op>) -> Vec<Vec<Op>> {
    vec![[in_order(addresses), repeat(&ops, 3)].concat()]
}

impl Feel {
    /// Its operations, by thread.
    pub fn threads(self) -> Vec<Vec<Op>> {
        match self {
            Chase(kib) => passes(&scrambled(kib), chase(&scrambled(kib), 8)),
            Steps(kib, count) => {
                let addresses = every(kib << 10, count);
                passes(&addresses, repeat(&chase(&addresses, 8), 40))
            }
            Stream(kib) => {
                let addresses = every(LINE, kib * 1024 / LINE);
                passes(&addresses, stream(&addresses, 2))
            }
            ByTurns => {
                let half = 512 << 10;
                let line = |i| ANONYMOUS + i % 2 * half + i / 2 * LINE;
                let addresses: Vec<u64> = (0..2 * half / LINE).map(line).collect();
                passes(&addresses, stream(&addresses, 2))
            }
            Stores => {
                let line = |i| ANONYMOUS + mixed(i) % (512 << 10) / LINE * LINE;
                let store = |i| Op::store(line(i), 8, 8);
                vec![
                    [in_order(&[ANONYMOUS + (512 << 10) - 1]), (0..12_000).map(store).collect()]
                        .concat(),
                ]
            }
            Updates => vec![updates(0, 700)],
            Parallel => together((0..4).map(|thread| updates(thread, 200)).collect()),
            Contended => together((0..4).map(|_| contended()).collect()),
            Unmapped => {
                let pages = 16;
                let at = ANONYMOUS + (1 << 20);
                let write = (0..pages).map(|page| Op::store(at + page * PAGE, 8, 10)).collect();
                let unmap = call(Call::Unmap { address: at, length: pages * PAGE });
                let round = [write, unmap].concat();
                let used = repeat(&contended(), 8);
                together(vec![repeat(&round, 8), used.clone(), used.clone(), used])
            }
            Files => vec![files()],
            Synced => vec![synced()],
            Shrinking => vec![shrinking()],
            Unmapping => vec![unmapping()],
            Crowded => vec![crowded()],
            Again => vec![again()],
            Mapped => vec![mapped()],
            Switches => switches(),
            Forks => forks(),
        }
    }
}

// ---- What is to change ------------------------------------------------------------------------

/// Which way an output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Up,
    Down,
    /// It changes, in whichever direction.
    Either,
}

use Turn::*;

/// A value that is varied.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// Its path; levels of on-chip caches by their names.
    leaf: &'static str,
    systems: &'static [&'static str],
    /// What it is changed to.
    to: &'static str,
    feel: Feel,
    /// What changes, as [`output`] knows it.
    output: &'static str,
    turn: Turn,
    /// Changes of the machine that is varied.
    with: Sets<'static>,
    /// What has to change together with the value, else the description contradicts itself.
    along: Sets<'static>,
}

const fn case(
    leaf: &'static str,
    systems: &'static [&'static str],
    to: &'static str,
    feel: Feel,
    output: &'static str,
    turn: Turn,
) -> Case {
    Case { leaf, systems, to, feel, output, turn, with: &[], along: &[] }
}

impl Case {
    const fn with(self, with: Sets<'static>) -> Case {
        Case { with, ..self }
    }

    const fn along(self, along: Sets<'static>) -> Case {
        Case { along, ..self }
    }
}

/// Caches and TLBs of a few entries, so that what is behind them is felt.
const NO_L1: Sets<'static> =
    &[("processor.caches.L1D.capacity", "64B"), ("processor.caches.L1D.ways", "1")];
const NO_L1_AND_L2: Sets<'static> = &[
    ("processor.caches.L1D.capacity", "64B"),
    ("processor.caches.L1D.ways", "1"),
    ("processor.caches.L2.capacity", "64B"),
    ("processor.caches.L2.ways", "1"),
];
const NO_FIRST_TLB: Sets<'static> = &[("processor.tlb.entries", "1"), ("processor.tlb.ways", "1")];
const NO_TLB: Sets<'static> = &[
    ("processor.tlb.entries", "1"),
    ("processor.tlb.ways", "1"),
    ("processor.tlb.second_level_entries", "0"),
];
/// Room for a MiB, page tables and what the kernel keeps free.
const MORE_DRAM: Sets<'static> = &[("storage.dram_capacity", "4MiB")];
const LINES_OF_128: Sets<'static> = &[
    ("processor.caches.L1D.line", "128B"),
    ("processor.caches.L2.line", "128B"),
    ("processor.caches.L3.line", "128B"),
];
const FRAGMENTED: Sets<'static> = &[("os.allocation", "fragmented")];
const ONE_BANK: Sets<'static> = &[("dram.channels", "1"), ("dram.banks", "1")];
const WRITE_AT_ONCE: Sets<'static> = &[("dram.write_high", "1"), ("dram.write_low", "0")];
/// One bank, and writes that go ahead of reads when four wait.
const ONE_BANK_WRITES_SOON: Sets<'static> = &[
    ("dram.channels", "1"),
    ("dram.banks", "1"),
    ("dram.write_high", "4"),
    ("dram.write_low", "3"),
];
const ASLEEP: Sets<'static> = &[("dram.power_down_after", "0s")];
const MISSES_WITH_TAGS_IN_DATA: Sets<'static> = &[
    ("hybrid.cache.ways", "1"),
    ("hybrid.cache.tags", "with-data"),
    ("hybrid.cache.capacity", "128KiB"),
    ("hybrid.prefetch_pages", "0"),
];
/// Lines, each with its tag, before a store of lines.
const LINES: Sets<'static> = &[
    ("store.page", "64B"),
    ("store.read_latency", "500ns"),
    ("hybrid.cache.ways", "1"),
    ("hybrid.cache.page", "64B"),
    ("hybrid.cache.tags", "with-data"),
    ("hybrid.prefetch_pages", "0"),
    ("dram.mapping", "ro-ra-ba-bg-ch-co"),
];
/// What comes at once is what the on-chip caches ask for.
const SECTORS_OF_A_LINE: Sets<'static> =
    &[("hybrid.cache.sector", "64B"), ("hybrid.prefetch_pages", "0")];
/// Of the eight lines of tags that there are.
const TAGS_IN_DRAM: Sets<'static> = &[
    ("hybrid.cache.tags", "dram"),
    ("hybrid.cache.tag_cache", "{ capacity = \"256B\", ways = 1 }"),
];
const RELEASE_6_18: Sets<'static> = &[("storage.readahead_release", "6.18")];
const DIRECT_MAPPED: Sets<'static> = &[("hybrid.cache.ways", "1")];

const CASES: &[Case] = &[
    case("seed", ALL, "2", Stream(512), "time", Either).with(FRAGMENTED),
    // The processor.
    case("processor.cores", ALL, "1", Contended, "time", Up),
    case("processor.threads_per_core", ALL, "2", Switches, "time", Either),
    case("processor.clock", ALL, "1GHz", Chase(64), "time", Up),
    case("processor.base_cpi", ALL, "1.0", Chase(64), "time", Up),
    case("processor.reorder_window", ALL, "8", Stream(512), "time", Up),
    case("processor.load_queue", ALL, "2", Stream(512), "time", Up),
    case("processor.store_queue", ALL, "1", Updates, "time", Up),
    case("processor.miss_registers", ALL, "2", Stream(512), "time", Up),
    case("processor.caches.L1D.capacity", ALL, "32KiB", Chase(64), "hits_l1d", Down),
    case("processor.caches.L1D.ways", ALL, "2", Steps(128, 8), "hits_l1d", Down),
    case("processor.caches.L1D.line", ALL, "128B", Stream(512), "memory_reads", Down)
        .along(LINES_OF_128),
    case("processor.caches.L1D.latency_cycles", ALL, "6", Chase(64), "latency", Up),
    case("processor.caches.L2.capacity", ALL, "128KiB", Chase(192), "hits_l2", Down),
    case("processor.caches.L2.ways", ALL, "2", Steps(128, 8), "hits_l2", Down).with(NO_L1),
    case("processor.caches.L2.line", ALL, "128B", Stream(512), "memory_reads", Down)
        .along(LINES_OF_128),
    case("processor.caches.L2.latency_cycles", ALL, "14", Chase(192), "time", Up),
    case("processor.caches.L2.shared", ALL, "true", Chase(192), "hits_l2", Down),
    case("processor.caches.L3.capacity", ALL, "1280KiB", Chase(512), "shared_cache_hits", Up),
    case("processor.caches.L3.ways", ALL, "2", Chase(512), "shared_cache_hits", Either)
        .with(NO_L1_AND_L2),
    case("processor.caches.L3.line", ALL, "128B", Stream(512), "memory_reads", Down)
        .along(LINES_OF_128),
    case("processor.caches.L3.latency_cycles", ALL, "60", Chase(288), "time", Up),
    case("processor.caches.L3.shared", ALL, "false", Chase(288), "hits_l3", Up),
    case("processor.caches.L3.inclusive", ALL, "true", Stores, "hits_l2", Down),
    case("processor.tlb.entries", ALL, "16", Steps(4, 64), "stage:tlb", Up),
    case("processor.tlb.ways", ALL, "1", Steps(256, 4), "stage:tlb", Up),
    case("processor.tlb.second_level_entries", ALL, "64", Steps(4, 256), "tlb_walks", Up)
        .with(MORE_DRAM),
    case("processor.tlb.second_level_ways", ALL, "1", Steps(2048, 4), "tlb_walks", Up)
        .with(NO_FIRST_TLB),
    case("processor.tlb.second_level_latency_cycles", ALL, "20", Steps(4, 256), "stage:tlb", Up)
        .with(MORE_DRAM),
    case("processor.tlb.walk_cache_entries", ALL, "1", Steps(2048, 4), "stage:tlb", Up)
        .with(NO_TLB),
    case("processor.tlb.levels", ALL, "5", Chase(64), "footprint_bytes", Up),
    case("processor.coherence.transfer_cycles", ALL, "400", Contended, "time", Up),
    case("processor.coherence.invalidation_cycles", ALL, "400", Contended, "time", Up),
    case("processor.tlb.address_spaces", ALL, "16", Forks, "tlb_walks", Down)
        .with(&[("processor.cores", "1"), ("processor.threads_per_core", "1")]),
    case("processor.energy.uncore_power", ALL, "40W", Stores, "energy", Up),
    case("processor.energy.running_power", ALL, "40W", Stores, "energy", Up),
    case("processor.energy.halted_power", ALL, "3.1W", Stores, "energy", Up),
    case("processor.energy.instruction_energy", ALL, "40nJ", Stores, "energy", Up),
    case("processor.energy.clock", ALL, "1GHz", Stores, "energy", Up),
    case("processor.energy.clock", &[HAMS], "1GHz", Stores, "energy", Up),
    case("processor.energy.voltage", ALL, "1.5", Stores, "energy", Up),
    case("processor.prefetch.kind", &[AHEAD], "next-line", Stream(512), "time", Either),
    case("processor.prefetch.degree", &[AHEAD], "1", Stream(512), "time", Either),
    case("processor.prefetch.distance", &[AHEAD], "16", Stream(512), "time", Either),
    case("processor.prefetch.trackers", &[AHEAD], "1", ByTurns, "line_prefetches", Either),
    case("processor.prefetch.outstanding", &[AHEAD], "1", Stream(512), "time", Either),
    case("processor.prefetch.into", &[AHEAD], "private", Stream(512), "time", Either),
    // The operating system.
    case("os.page", ALL, "16KiB", Chase(512), "faults", Down),
    case("os.allocation", ALL, "fragmented", Stream(512), "time", Either),
    case("os.transparent_huge_pages", ALL, "always", Chase(4096), "faults", Down)
        .with(&[("storage.dram_capacity", "32MiB")]),
    case("os.time_slice", ALL, "10us", Switches, "context_switches", Up),
    case("os.kernel_cpi", ALL, "2.0", Files, "time", Up),
    case("os.paths.fault.instructions", ALL, "9000", Updates, "owner:fault", Up),
    case("os.paths.fault.lines", ALL, "64", Updates, "memory_reads", Up),
    case("os.paths.page_cache.instructions", ALL, "9000", Files, "owner:page_cache", Up),
    case("os.paths.page_cache.lines", ALL, "64", Files, "memory_reads", Up),
    case("os.paths.file_system.instructions", ALL, "90000", Files, "owner:file_system", Up),
    case("os.paths.file_system.lines", ALL, "512", Files, "memory_reads", Up),
    case("os.paths.block_layer.instructions", &[STORAGE], "90000", Files, "owner:block_layer", Up),
    case("os.paths.block_layer.lines", &[STORAGE], "512", Files, "memory_reads", Up),
    case("os.paths.driver.instructions", &[STORAGE], "90000", Files, "owner:driver", Up),
    case("os.paths.driver.lines", &[STORAGE], "512", Files, "memory_reads", Up),
    case("os.paths.interrupt.instructions", &[STORAGE], "90000", Files, "owner:interrupt", Up),
    // One tells that memory has been flushed for a sync.
    case("os.paths.interrupt.instructions", &[HYBRID], "90000", Synced, "owner:interrupt", Up),
    case("os.paths.interrupt.lines", &[HYBRID], "512", Synced, "dram_cache_lookups", Up),
    case("os.paths.interrupt.lines", &[STORAGE], "512", Files, "memory_reads", Up),
    case(
        "os.paths.completion_interrupt.instructions",
        &[STORAGE],
        "90000",
        Parallel,
        "owner:interrupt",
        Up,
    )
    .with(PASSED_ON),
    case("os.paths.completion_interrupt.lines", &[STORAGE], "512", Parallel, "memory_reads", Up)
        .with(PASSED_ON),
    case("os.paths.wake_up.instructions", ALL, "90000", Switches, "owner:wake_up", Up),
    case("os.paths.wake_up.lines", ALL, "512", Switches, "memory_reads", Up),
    case(
        "os.paths.context_switch.instructions",
        ALL,
        "90000",
        Switches,
        "owner:context_switch",
        Up,
    ),
    case("os.paths.context_switch.lines", ALL, "512", Switches, "memory_reads", Up),
    case("os.paths.system_call.instructions", ALL, "9000", Files, "owner:system_call", Up),
    case("os.paths.system_call.lines", ALL, "64", Files, "memory_reads", Up),
    case("os.paths.path_lookup.instructions", ALL, "90000", Files, "owner:file_system", Up),
    case("os.paths.path_lookup.lines", ALL, "512", Files, "memory_reads", Up),
    case("os.paths.fork.instructions", ALL, "900000", Forks, "owner:system_call", Up),
    case("os.paths.fork.lines", ALL, "512", Forks, "memory_reads", Up),
    case("os.paths.fork_page.instructions", ALL, "9000", Forks, "owner:system_call", Up),
    case("os.paths.fork_page.lines", ALL, "64", Forks, "memory_reads", Up),
    case("os.paths.free_page.instructions", ALL, "9000", Unmapped, "owner:system_call", Up),
    case("os.paths.free_page.lines", ALL, "64", Unmapped, "memory_reads", Up),
    case("os.paths.shootdown.instructions", ALL, "90000", Unmapped, "owner:fault", Up),
    case("os.paths.shootdown.lines", ALL, "512", Unmapped, "memory_reads", Up),
    case(
        "os.paths.shootdown_interrupt.instructions",
        ALL,
        "90000",
        Unmapped,
        "owner:interrupt",
        Up,
    ),
    case("os.paths.shootdown_interrupt.lines", ALL, "512", Unmapped, "memory_reads", Up),
    // DRAM.
    case("dram.part", ALL, "ddr3-1600-4gb-x8", Chase(512), "time", Down),
    case("dram.channels", ALL, "1", Stream(512), "time", Up),
    case("dram.ranks", ALL, "2", Stores, "time", Down).with(ONE_BANK),
    case("dram.mapping", ALL, "ro-co-ra-ba-bg-ch", Stores, "time", Either),
    case("dram.page_policy", ALL, "closed", Chase(512), "time", Either),
    case("dram.page_policy", ALL, "adaptive", Chase(512), "time", Either),
    case("dram.row_timeout", ALL, "20ns", Chase(512), "time", Either)
        .along(&[("dram.page_policy", "timeout")]),
    case("dram.postponed_refreshes", ALL, "8", Stream(512), "time", Either).with(ONE_BANK),
    case("dram.read_queue_depth", ALL, "1", Stream(512), "time", Up).with(ONE_BANK),
    case("dram.write_queue_depth", ALL, "1", Stores, "time", Either)
        .with(ONE_BANK)
        .along(WRITE_AT_ONCE),
    case("dram.write_high", ALL, "1", Stores, "time", Either).with(ONE_BANK).along(WRITE_AT_ONCE),
    case("dram.write_low", ALL, "0", Stores, "time", Either).with(ONE_BANK_WRITES_SOON),
    case("dram.age_cap", ALL, "0s", Stores, "time", Either).with(ONE_BANK),
    case("dram.power_down_after", ALL, "0s", Chase(512), "time", Up),
    case("dram.shared_standby", ALL, "1.0", Stores, "energy", Either),
    case("dram.interface.read_power", &[NVDIMM], "40mW", Stores, "energy", Up),
    case("dram.interface.write_power", &[NVDIMM], "40mW", Stores, "energy", Up),
    case("dram.interface.other_read_power", &[NVDIMM], "40mW", Stores, "energy", Up)
        .with(&[("dram.ranks", "2")]),
    case("dram.interface.other_write_power", &[NVDIMM], "40mW", Stores, "energy", Up)
        .with(&[("dram.ranks", "2")]),
    case("dram.backup.module", &[NVDIMM], "32MiB", Stores, "nvdimm:save_s", Down),
    case("dram.backup.save_bandwidth", &[NVDIMM], "50MB/s", Stores, "nvdimm:save_s", Up),
    case("dram.backup.restore_bandwidth", &[NVDIMM], "50MB/s", Stores, "nvdimm:restore_s", Up),
    case("dram.backup.save_power", &[NVDIMM], "12W", Stores, "nvdimm:saved_bytes", Down),
    case("dram.backup.restore_power", &[NVDIMM], "12W", Stores, "nvdimm:restore_j", Up),
    case("dram.backup.energy", &[NVDIMM], "3J", Stores, "nvdimm:saved_bytes", Up),
    case("dram.backup.charge_power", &[NVDIMM], "10W", Stores, "nvdimm:charge_s", Down),
    case("dram.controller_latency", ALL, "50ns", Chase(512), "time", Up),
    case("dram.data_rate", ALL, "667MT/s", Chase(512), "time", Up),
    case("dram.bus_bits", ALL, "32", Chase(512), "time", Up),
    case("dram.bank_groups", ALL, "8", Stores, "time", Down).with(ONE_BANK),
    case("dram.banks", ALL, "1", Stores, "time", Up),
    case("dram.row", ALL, "4KiB", Stream(512), "time", Down).with(ONE_BANK),
    case("dram.t_cl", ALL, "20", Chase(512), "time", Up),
    case("dram.t_rcd", ALL, "20", Chase(512), "time", Up),
    case("dram.t_rp", ALL, "20", Chase(512), "time", Up),
    case("dram.t_ras", ALL, "80", Stores, "time", Up).with(ONE_BANK),
    case("dram.t_rc", ALL, "80", Stores, "time", Up).with(ONE_BANK),
    case("dram.t_cwl", ALL, "40", Stores, "time", Up).with(ONE_BANK),
    case("dram.t_wr", ALL, "80", Stores, "time", Up).with(ONE_BANK),
    case("dram.t_rtp", ALL, "80", Stores, "time", Up).with(ONE_BANK),
    case("dram.t_ccd_s", ALL, "20", Stream(512), "time", Up)
        .with(ONE_BANK)
        .along(&[("dram.t_ccd_l", "20")]),
    case("dram.t_rrd_s", ALL, "60", Stores, "time", Up),
    case("dram.t_faw", ALL, "240", Stores, "time", Up),
    case("dram.t_wtr_s", ALL, "80", Stores, "time", Up).with(ONE_BANK),
    case("dram.t_rtw", ALL, "80", Stores, "time", Up).with(ONE_BANK),
    case("dram.t_rtrs", ALL, "80", Stores, "time", Up).with(&[("dram.ranks", "2")]),
    case("dram.t_xp", ALL, "80", Chase(512), "time", Up).with(ASLEEP),
    case("dram.t_cke", ALL, "800", Chase(512), "time", Up).with(ASLEEP),
    case("dram.t_refi", ALL, "1us", Stream(512), "time", Up).with(ONE_BANK),
    case("dram.t_rfc", ALL, "2us", Chase(512), "time", Up),
    // The extended buffer cache.
    case("storage.buffer_cache.capacity", &[BUFFERED], "256KiB", Files, "store_read", Up),
    case("storage.buffer_cache.ways", &[BUFFERED], "1", Again, "buffer_cache_hits", Either),
    case("storage.buffer_cache.replacement", &[BUFFERED], "random", Files, "store_read", Either),
    case(
        "storage.buffer_cache.read_slowdown",
        &[BUFFERED],
        "4000.0",
        Files,
        "owner:buffer_cache",
        Up,
    ),
    case("storage.buffer_cache.program_slowdown", &[BUFFERED], "90000.0", Files, "time", Either),
    case("storage.buffer_cache.read_time", &[BUFFERED], "1ms", Files, "owner:buffer_cache", Up),
    case("storage.buffer_cache.program_time", &[BUFFERED], "9ms", Files, "time", Either),
    case("storage.buffer_cache.on_hit", &[BUFFERED], "copy", Again, "buffer_cache_kept", Up),
    case(
        "storage.buffer_cache.insertion",
        &[BUFFERED],
        "asynchronous",
        Files,
        "buffer_cache_dropped",
        Up,
    ),
    case("storage.buffer_cache.queue_pages", &[BUFFERED], "1", Files, "buffer_cache_dropped", Up)
        .with(&[("storage.buffer_cache.insertion", "asynchronous")]),
    case(
        "storage.buffer_cache.readahead",
        &[BUFFERED],
        "consult",
        Again,
        "buffer_cache_bypassed",
        Down,
    ),
    // The file system.
    case("storage.file_system.kind", &[EXT4], "ext3", Files, "journal_written_bytes", Either),
    case("storage.file_system.journal", &[EXT4], "writeback", Files, "time", Either).with(&[
        ("storage.file_system.kind", "ext3"),
        ("storage.file_system.commit_interval", "1ms"),
        // Pauses of writers would hide it.
        ("storage.dirty_ratio", "0.9"),
        ("storage.dirty_background_ratio", "0.8"),
    ]),
    case("storage.file_system.commit_interval", &[EXT4], "1ms", Files, "journal_commits", Up),
    case(
        "storage.file_system.journal_capacity",
        &[EXT4],
        "256KiB",
        Synced,
        "journal_checkpoints",
        Up,
    )
    .with(&[("storage.file_system.timestamp_interval", "1us")]),
    case("storage.file_system.barrier", &[EXT4], "none", Files, "store_flushes", Down),
    case("storage.file_system.barrier", &[EXT4], "force-unit-access", Files, "store_flushes", Down),
    case("storage.file_system.timestamp_interval", &[EXT4], "1us", Synced, "journal_commits", Up),
    case("storage.file_system.discard", &[EXT4], "true", Shrinking, "drive:trimmed_pages", Up),
    // The store.
    case("store.capacity", &[HYBRID], "128MiB", Updates, "tag_store_bytes", Up),
    case("store.capacity", &[STORAGE], "1MiB", Updates, "ends", Down),
    case("store.page", STORES, "1KiB", Updates, "time", Either),
    case("store.read_latency", STORES, "75us", Updates, "stage:medium", Up),
    case("store.write_latency", STORES, "2500us", Updates, "time", Up),
    case("store.units", STORES, "1", Updates, "time", Up),
    case("store.unit_bandwidth", STORES, "40MB/s", Updates, "time", Up),
    case("store.controller_latency", STORES, "50us", Updates, "time", Up),
    case("store.queue_depth", STORES, "1", Parallel, "time", Up),
    case("store.power.read", STORES, "5W", Updates, "energy", Up),
    case("store.power.write", STORES, "5W", Updates, "energy", Up),
    case("store.power.standby", STORES, "1W", Updates, "energy", Up),
    case("link.bandwidth", STORES, "100MB/s", Updates, "time", Up),
    case("link.payload", STORES, "64B", Updates, "time", Up),
    case("link.packet_overhead", STORES, "4KiB", Updates, "stage:link", Up),
    case("link.latency", STORES, "20us", Updates, "time", Up),
    case("pcie.generation", &[NVME, PCIE], "1", Updates, "stage:link", Up),
    case("pcie.lanes", &[NVME, PCIE], "1", Updates, "stage:link", Up),
    case("pcie.max_payload", &[NVME, PCIE], "128B", Updates, "stage:link", Up)
        .along(&[("pcie.read_completion", "128B")]),
    case("pcie.max_read_request", &[PCIE], "128B", Updates, "stage:link", Up),
    case("pcie.max_read_request", &[NVME], "128B", Updates, "time", Either),
    case("pcie.read_completion", &[PCIE], "64B", Updates, "stage:link", Up),
    case("pcie.read_completion", &[NVME], "64B", Updates, "time", Either),
    case("pcie.protocol", &[NVME], "memory", Updates, "stage:link", Down),
    case("pcie.protocol", &[PCIE], "nvme", Updates, "stage:link", Up),
    case("pcie.latency", &[NVME, PCIE], "20us", Updates, "stage:link", Up),
    case("pcie.root_complex_latency", &[NVME, PCIE], "20us", Updates, "stage:link", Up),
    case("sata.generation", &[SATA], "1", Updates, "stage:link", Up),
    case("sata.adapter_latency", &[SATA], "50us", Updates, "stage:link", Up),
    case("sata.handshake", &[SATA], "10us", Updates, "stage:link", Up),
    case("sata.latency", &[SATA], "20us", Updates, "stage:link", Up),
    case("ddr_channel.channel", &[DDR], "1", Updates, "time", Either),
    case("ddr_channel.data_rate", &[DDR], "100MT/s", Updates, "stage:link", Up),
    case("ddr_channel.bus_bits", &[DDR], "8", Updates, "stage:link", Up),
    case("ddr_channel.hand_over", &[DDR], "20us", Updates, "stage:link", Up),
    case("ddr_channel.lock_latency", &[DDR], "20us", Updates, "stage:link", Up),
    case("cxl_mem.generation", &[CXL], "3", Updates, "stage:link", Up),
    case("cxl_mem.lanes", &[CXL], "1", Updates, "stage:link", Up),
    case("cxl_mem.latency", &[CXL], "20us", Updates, "stage:link", Up),
    case("link.energy.per_bit", &[HYBRID, STORAGE], "50pJ", Updates, "energy", Up),
    case("link.energy.idle_power", &[HYBRID, STORAGE], "3W", Updates, "energy", Up),
    case("pcie.energy.per_bit", &[NVME, PCIE], "50pJ", Updates, "energy", Up),
    case("pcie.energy.idle_power", &[NVME, PCIE], "3W", Updates, "energy", Up),
    case("sata.energy.per_bit", &[SATA], "50pJ", Updates, "energy", Up),
    case("sata.energy.idle_power", &[SATA], "3W", Updates, "energy", Up),
    case("ddr_channel.energy.per_bit", &[DDR], "50pJ", Updates, "energy", Up),
    case("ddr_channel.energy.idle_power", &[DDR], "3W", Updates, "energy", Up),
    case("cxl_mem.energy.per_bit", &[CXL], "50pJ", Updates, "energy", Up),
    case("cxl_mem.energy.idle_power", &[CXL], "3W", Updates, "energy", Up),
    // A drive.
    case("ssd.capacity", &[SSD], "1MiB", Updates, "ends", Down),
    case("ssd.page", &[SSD], "2KiB", Updates, "time", Either),
    case("ssd.queue_depth", &[SSD], "1", Parallel, "time", Either),
    case("ssd.split", &[SSD], "2", Updates, "time", Either),
    case("ssd.striping", &[SSD], "p-c-w-d", Updates, "time", Either),
    case("ssd.initial", &[SSD], "erased", Updates, "time", Down),
    case("ssd.nand.channels", &[SSD], "1", Parallel, "time", Up)
        .with(&[("ssd.nand.bus_rate", "20MT/s")])
        .along(&[("ssd.nand.ways", "2")]),
    case("ssd.nand.ways", &[SSD], "2", Updates, "time", Down),
    case("ssd.nand.dies", &[SSD], "2", Updates, "time", Down),
    case("ssd.nand.planes", &[SSD], "4", Updates, "time", Down),
    case("ssd.nand.blocks", &[SSD], "1200", Updates, "time", Down),
    case("ssd.nand.pages", &[SSD], "8", Updates, "time", Down),
    case("ssd.nand.page", &[SSD], "8KiB", Updates, "time", Either),
    case("ssd.nand.erase_latency", &[SSD], "15ms", Updates, "time", Up),
    case("ssd.nand.bus_rate", &[SSD], "40MT/s", Updates, "stage:device", Up),
    case("ssd.nand.bus_bits", &[SSD], "16", Updates, "stage:device", Down),
    case("ssd.nand.command_cycle", &[SSD], "1us", Updates, "time", Up),
    case("ssd.nand.multi_plane_reads", &[SSD], "any-page", Parallel, "time", Either),
    case("ssd.nand.multi_plane_programs", &[SSD], "false", Updates, "time", Up),
    case("ssd.nand.cache_read", &[SSD], "false", Parallel, "time", Either),
    case("ssd.nand.cache_program", &[SSD], "false", Updates, "time", Either),
    case("ssd.nand.suspends", &[SSD], "0", Updates, "time", Up),
    case("ssd.nand.suspend_latency", &[SSD], "20us", Updates, "time", Up),
    case("ssd.nand.reads_ahead", &[SSD], "0", Updates, "time", Up)
        .along(&[("ssd.nand.suspends", "0")]),
    case("ssd.nand.lower.read_latency", &[SSD], "250us", Updates, "stage:medium", Up),
    case("ssd.nand.lower.program_latency", &[SSD], "2ms", Updates, "time", Up),
    case("ssd.nand.middle.read_latency", &[SSD], "250us", Updates, "stage:medium", Up),
    case("ssd.nand.middle.program_latency", &[SSD], "4ms", Updates, "time", Up),
    case("ssd.nand.upper.read_latency", &[SSD], "250us", Updates, "stage:medium", Up),
    case("ssd.nand.upper.program_latency", &[SSD], "6ms", Updates, "time", Up),
    case("ssd.nand.power.voltage", &[SSD], "1.8V", Updates, "energy", Down),
    case("ssd.nand.power.read_current", &[SSD], "50mA", Updates, "energy", Up),
    case("ssd.nand.power.program_current", &[SSD], "50mA", Updates, "energy", Up),
    case("ssd.nand.power.erase_current", &[SSD], "50mA", Updates, "energy", Up),
    case("ssd.nand.power.transfer_current", &[SSD], "50mA", Updates, "energy", Up),
    case("ssd.nand.power.standby_current", &[SSD], "50uA", Updates, "energy", Up),
    case("ssd.controller_power", &[SSD], "3W", Updates, "energy", Up),
    case("ssd.dram_power.standby", &[SSD], "1W", Updates, "energy", Up),
    case("ssd.dram_power.read_per_bit", &[SSD], "500pJ", Updates, "energy", Up),
    case("ssd.dram_power.write_per_bit", &[SSD], "500pJ", Updates, "energy", Up),
    case("ssd.buffer.capacity", &[SSD], "128KiB", Updates, "time", Up),
    case("ssd.buffer.dirty", &[SSD], "1MiB", Updates, "time", Either),
    case("ssd.buffer.flush_above", &[SSD], "64KiB", Updates, "time", Either),
    case("ssd.buffer.write_back", &[SSD], "false", Updates, "time", Up),
    case("ssd.buffer.read_cache", &[SSD], "false", Updates, "time", Up),
    case("ssd.buffer.replacement", &[SSD], "srrip", Again, "time", Either)
        .with(&[("storage.memory_limit", "512KiB")]),
    case("ssd.buffer.latency", &[SSD], "10us", Updates, "stage:device", Up),
    case("ssd.buffer.bandwidth", &[SSD], "100MB/s", Updates, "stage:device", Up),
    // With them a flush ends at once.
    case("ssd.buffer.capacitors", &[SSD], "true", Synced, "time", Down),
    case("ssd.firmware.cores", &[SSD], "1", Parallel, "time", Up)
        .with(&[("ssd.firmware.page_time", "300us")]),
    case("ssd.firmware.page_time", &[SSD], "10us", Updates, "stage:device", Up),
    case("ssd.firmware.read_latency", &[SSD], "20us", Updates, "stage:device", Up),
    case("ssd.firmware.write_latency", &[SSD], "200us", Updates, "time", Up),
    case("ssd.firmware.decode_latency", &[SSD], "20us", Updates, "time", Up),
    case("ssd.collection.policy", &[SSD], "cost-benefit", Updates, "time", Either),
    case("ssd.collection.window", &[SSD], "1", Updates, "time", Either),
    case("ssd.collection.free_blocks", &[SSD], "20", Updates, "time", Either),
    case("ssd.collection.copies", &[SSD], "1", Updates, "time", Either),
    case("ssd.collection.idle.after", &[SSD_MAPPED], "1us", Files, "time", Either),
    case("ssd.collection.idle.free_blocks", &[SSD_MAPPED], "40", Files, "time", Either).with(&[
        ("ssd.capacity", "16MiB"),
        ("ssd.collection.idle.after", "1us"),
        ("ssd.collection.idle.free_blocks", "4"),
    ]),
    case("ssd.wear.endurance", &[SSD], "1", Updates, "time", Either),
    case("ssd.wear.difference", &[SSD], "1", Updates, "time", Either)
        .with(&[("ssd.capacity", "8MiB"), ("ssd.nand.blocks", "136")]),
    case("ssd.wear.factory_bad", &[SSD], "0.1", Updates, "time", Either),
    case("ssd.map.cache", &[SSD_MAPPED], "4KiB", Updates, "time", Up),
    case("ssd.map.entry", &[SSD_MAPPED], "64B", Updates, "time", Up),
    case("ssd.log.blocks", &[SSD_LOGGED], "16", Updates, "time", Down),
    // HASTE.
    case("haste.capacity", &[HASTE], "1MiB", Updates, "ends", Down),
    case("haste.page", &[HASTE], "1KiB", Updates, "time", Either),
    case("haste.queue_depth", &[HASTE], "1", Parallel, "time", Up),
    case("haste.scheduler_latency", &[HASTE], "20us", Updates, "stage:device", Up),
    case("haste.buffers", &[HASTE], "1", Files, "time", Up),
    case("haste.nodes", &[HASTE], "7", Parallel, "time", Either),
    case("haste.ring_bandwidth", &[HASTE], "40MB/s", Updates, "stage:device", Up),
    case("haste.ring_latency", &[HASTE], "20us", Updates, "time", Up),
    case("haste.controllers", &[HASTE], "1", Parallel, "time", Up)
        .along(&[("haste.write_latency", "50us")]),
    case("haste.controller_bandwidth", &[HASTE], "40MB/s", Updates, "stage:device", Up),
    case("haste.read_latency", &[HASTE], "75us", Updates, "stage:medium", Up),
    case("haste.write_latency", &[HASTE], "500us", Parallel, "time", Up),
    // A disk.
    case("disk.capacity", &[DISK], "1MiB", Updates, "ends", Down),
    case("disk.page", &[DISK], "2KiB", Updates, "time", Either),
    case("disk.queue_depth", &[DISK], "1", Parallel, "time", Either),
    case("disk.controller_latency", &[DISK], "5ms", Updates, "stage:device", Up),
    case("disk.window", &[DISK], "1", Parallel, "time", Either),
    case("disk.age_limit", &[DISK], "1ms", Parallel, "time", Either),
    case("disk.platters.rpm", &[DISK], "3600", Updates, "time", Up),
    case("disk.platters.heads", &[DISK], "4", Updates, "time", Either),
    case("disk.platters.cylinders", &[DISK], "600", Updates, "time", Either),
    case("disk.platters.zones", &[DISK], "10", Updates, "time", Either),
    case("disk.platters.outer_sectors", &[DISK], "512", Updates, "time", Either),
    case("disk.platters.inner_sectors", &[DISK], "250", Updates, "time", Either),
    case("disk.platters.sector", &[DISK], "1KiB", Updates, "time", Either),
    case("disk.platters.track_skew", &[DISK], "3ms", Updates, "time", Either),
    case("disk.platters.cylinder_skew", &[DISK], "4ms", Updates, "time", Either),
    case("disk.arm.single_seek", &[DISK], "2ms", Updates, "time", Either),
    case("disk.arm.average_seek", &[DISK], "10ms", Updates, "time", Either),
    case("disk.arm.full_seek", &[DISK], "20ms", Updates, "time", Either),
    case("disk.arm.write_settle", &[DISK], "5ms", Updates, "time", Either),
    case("disk.arm.head_switch", &[DISK], "5ms", Updates, "time", Either),
    case("disk.buffer.capacity", &[DISK], "64KiB", Crowded, "time", Either)
        .along(&[("disk.buffer.read_ahead", "8KiB")]),
    case("disk.buffer.segments", &[DISK], "1", Crowded, "time", Either)
        .along(&[("disk.buffer.read_ahead", "8KiB")]),
    case("disk.buffer.read_ahead", &[DISK], "0B", Mapped, "time", Either),
    case("disk.buffer.write_cache", &[DISK], "false", Updates, "time", Either),
    case("disk.buffer.dirty", &[DISK], "4KiB", Updates, "time", Either),
    case("disk.power.idle", &[DISK], "5W", Updates, "energy", Down),
    case("disk.power.seek", &[DISK], "20W", Updates, "energy", Up),
    case("disk.power.transfer", &[DISK], "20W", Updates, "energy", Up),
    // A disk in DRAM.
    case("ramdisk.capacity", &[RAMDISK], "1MiB", Updates, "ends", Down),
    case("ramdisk.read_latency", &[RAMDISK], "10us", Updates, "stage:medium", Up),
    case("ramdisk.write_latency", &[RAMDISK], "10us", Updates, "time", Up)
        .with(&[("ramdisk.lines", "1")]),
    case("ramdisk.dram_latency", &[RAMDISK], "125ns", Updates, "stage:medium", Down),
    case("ramdisk.delays", &[RAMDISK], "driver", Updates, "time", Up),
    case("ramdisk.lines", &[RAMDISK], "1", Updates, "time", Up),
    case("nvm.capacity", &[NVM], "2MiB", Updates, "ends", Down),
    case("nvm.controller_latency", &[NVM], "1us", Updates, "time", Up),
    case("nvm.queue_depth", &[NVM], "1", Parallel, "time", Up),
    case("nvm.array.line", &[NVM], "512B", Updates, "time", Either)
        .along(&[("nvm.array.channel_interleave", "512B")]),
    case("nvm.array.channels", &[NVM], "1", Parallel, "time", Up),
    case("nvm.array.banks", &[NVM], "1", Parallel, "time", Up),
    case("nvm.array.row", &[NVM], "256B", Stream(512), "nvm:row_hits", Down),
    case("nvm.array.row_buffers", &[NVM], "8", Updates, "nvm:row_hits", Up)
        .with(&[("hybrid.cache.page", "64B"), ("hybrid.prefetch_pages", "0")]),
    case("nvm.array.channel_interleave", &[NVM], "4KiB", Updates, "time", Up),
    case("nvm.array.bank_interleave", &[NVM], "256B", Updates, "time", Either),
    case("nvm.array.read_latency", &[NVM], "550ns", Updates, "stage:medium", Up),
    case("nvm.array.column_latency", &[NVM], "125ns", Updates, "stage:medium", Up),
    case("nvm.array.write_latency", &[NVM], "15us", Updates, "time", Up),
    case("nvm.array.preemption", &[NVM], "pause", Updates, "time", Either)
        .with(&[("nvm.array.write_latency", "15us")])
        .along(&[("nvm.array.write_iterations", "4")]),
    case("nvm.array.write_iterations", &[NVM], "64", Updates, "time", Either).with(&[
        ("nvm.array.write_latency", "15us"),
        ("nvm.array.preemption", "pause"),
        ("nvm.array.write_iterations", "2"),
    ]),
    case("nvm.array.cancel_below", &[NVM], "1.0", Updates, "time", Either).with(&[
        ("nvm.array.write_latency", "15us"),
        ("nvm.array.preemption", "cancel"),
        ("nvm.array.cancel_below", "0.1"),
    ]),
    case("nvm.array.bus_rate", &[NVM], "80MT/s", Updates, "time", Up),
    case("nvm.array.bus_bits", &[NVM], "8", Updates, "time", Up),
    case("nvm.array.read_queue_depth", &[NVM], "1", Updates, "time", Up),
    case("nvm.array.write_queue_depth", &[NVM], "2", Updates, "time", Either)
        .with(&[("nvm.array.write_latency", "15us")])
        .along(&[("nvm.array.write_high", "2"), ("nvm.array.write_low", "1")]),
    case("nvm.array.write_high", &[NVM], "32", Updates, "time", Either)
        .with(&[("nvm.array.write_latency", "15us")]),
    case("nvm.array.write_low", &[NVM], "23", Updates, "time", Either)
        .with(&[("nvm.array.write_latency", "15us")]),
    case("nvm.buffer.capacity", &[NVM], "512B", Updates, "time", Up),
    case("nvm.buffer.access", &[NVM], "128B", Updates, "time", Either),
    case("nvm.buffer.latency", &[NVM], "1us", Updates, "time", Up),
    case("nvm.wear.endurance", &[NVM], "5", Updates, "nvm:levelled_years", Down),
    case("nvm.energy.array_read", &[NVM], "20pJ", Updates, "energy", Up),
    case("nvm.energy.array_write", &[NVM], "170pJ", Updates, "energy", Up),
    case("nvm.energy.buffer_read", &[NVM], "20pJ", Updates, "energy", Up),
    case("nvm.energy.buffer_write", &[NVM], "20pJ", Updates, "energy", Up),
    case("nvm.energy.standby", &[NVM], "1W", Updates, "energy", Up),
    case("nvm.wear.gap_interval", &[NVM], "1", Updates, "time", Up)
        .with(&[("nvm.array.write_latency", "15us")]),
    case("nvm.wear.randomized", &[NVM], "true", Updates, "time", Either),
    // Organizations.
    case("oracle.capacity", &[ORACLE], "2MiB", Updates, "ends", Down),
    case("hybrid.cache.capacity", &[HYBRID], "4MiB", Updates, "store_read", Down)
        .with(&[("hybrid.prefetch_pages", "0")]),
    case("hybrid.cache.ways", &[HYBRID], "1", Updates, "dram_cache_misses", Either),
    case("hybrid.cache.replacement", &[HYBRID], "random", Updates, "dram_cache_misses", Either),
    case("hybrid.cache.replacement", &[HYBRID], "srrip", Updates, "tag_store_bytes", Down),
    case("hybrid.cache.page", &[HYBRID], "8KiB", Updates, "store_read", Up),
    case("hybrid.cache.sector", &[HYBRID], "512B", Updates, "store_read", Down),
    case("hybrid.cache.sector", &[HYBRID], "512B", Updates, "tag_store_bytes", Up),
    case("hybrid.cache.tags", &[HYBRID], "with-data", Updates, "tag_store_bytes", Down)
        .with(DIRECT_MAPPED),
    case("hybrid.cache.tags", &[HYBRID], "with-data", Chase(512), "time", Down).with(DIRECT_MAPPED),
    case("hybrid.cache.tags", &[HYBRID], "dram", Chase(512), "time", Up).along(TAGS_IN_DRAM),
    case("hybrid.cache.tag_cache.capacity", &[TAGGED], "512B", Updates, "tag_cache_misses", Down),
    case("hybrid.cache.tag_cache.ways", &[TAGGED], "4", Updates, "tag_cache_misses", Either),
    case("hybrid.cache.miss_predictor", &[HYBRID], "region", Updates, "time", Either)
        .with(MISSES_WITH_TAGS_IN_DATA),
    case("hybrid.cache.tags", &[HYBRID], "tad", Updates, "dram_read", Up).with(LINES),
    case("hybrid.cache.tags", &[HYBRID], "tad", Chase(512), "time", Up).with(LINES),
    case("hybrid.cache.miss_predictor", &[HYBRID], "global", Updates, "wasted_store_reads", Up)
        .with(LINES),
    case("hybrid.cache.miss_predictor", &[HYBRID], "perfect", Updates, "time", Down).with(LINES),
    case("hybrid.cache.fill", &[HYBRID], "reads", Updates, "writes_around_cache", Up)
        .with(SECTORS_OF_A_LINE),
    case("hybrid.cache.fill", &[HYBRID], "writes", Updates, "reads_past_cache", Up)
        .with(SECTORS_OF_A_LINE),
    // Pages that the kernel clears are written line by line, and not read before.
    case("hybrid.cache.fill", &[HYBRID], "writes", Updates, "store_read", Down)
        .with(SECTORS_OF_A_LINE),
    case("hybrid.cache.fill", &[HYBRID], "victims", Updates, "clean_victims_kept", Up)
        .with(SECTORS_OF_A_LINE),
    case("hybrid.cache.tag_latency", &[HYBRID], "50ns", Chase(512), "time", Up),
    case("hybrid.controller_latency", &[HYBRID], "1us", Chase(512), "time", Up),
    case("hybrid.queue_depth", &[HYBRID], "1", Stream(512), "time", Up),
    case("hybrid.fills", &[HYBRID], "1", Parallel, "time", Up),
    case("hybrid.write_back_buffer_pages", &[HYBRID], "1", Updates, "time", Up),
    case("hybrid.prefetch_pages", &[HYBRID], "0", Updates, "prefetched_pages", Down),
    case("hybrid.prefetcher", &[HYBRID], "best-offset", Updates, "prefetched_pages", Down),
    case("hybrid.prefetcher", &[HYBRID], "stride", Stream(512), "prefetched_pages", Either),
    case("hybrid.prefetch_streams", &[HYBRID], "1", Updates, "prefetched_pages", Either)
        .with(&[("hybrid.prefetcher", "stride")]),
    case("hybrid.eager_write_back", &[HYBRID], "true", Updates, "write_back_pages", Up),
    case("hybrid.critical_line_first", &[HYBRID], "true", Updates, "time", Down),
    case("hybrid.flush_at_sync", &[HYBRID], "false", Files, "dram_cache_flushes", Down),
    case("hams.mode", &[HAMS], "persist", Parallel, "time", Up),
    case("hams.capacity", &[HAMS], "4MiB", Updates, "store_read", Down),
    case("hams.page", &[HAMS], "32KiB", Updates, "store_read", Up)
        .along(&[("hams.prp_slots", "7")]),
    case("hams.pinned", &[HAMS], "1MiB", Updates, "store_read", Up),
    case("hams.queue_entries", &[HAMS], "3", Parallel, "time", Up),
    case("hams.prp_slots", &[HAMS], "1", Parallel, "hams_pushed_back", Up),
    case("hams.wait_entries", &[HAMS], "1", Parallel, "time", Up),
    case("hams.controller_latency", &[HAMS], "1us", Updates, "time", Up),
    case("hams.queue_depth", &[HAMS], "1", Parallel, "time", Up),
    case("hams.tag_before_write", &[HAMS], "true", Stores, "hams_tag_bytes", Up)
        .with(&[("processor.caches.L2.capacity", "64KiB")]),
    // Where a page has just been written to the DRAM, its row is closed before the refresh that the next one waits for.
    case("refresh_window.channel", &[WINDOWS], "1", Stores, "time", Either)
        .with(&[("dram.mapping", "ro-ch-ra-ba-bg-co"), ("refresh_window.bandwidth", "8GB/s")]),
    case("refresh_window.chips", &[WINDOWS], "860ns", Updates, "time", Up),
    // The device moves what it moves while the module refreshes.
    case("dram.t_refi", &[WINDOWS], "20us", Updates, "time", Up),
    case("dram.t_rfc", &[WINDOWS], "3us", Updates, "time", Down),
    case("refresh_window.bandwidth", &[WINDOWS], "200MB/s", Updates, "time", Up),
    case("refresh_window.latency", &[WINDOWS], "10us", Updates, "time", Up),
    case("controllers.count", &[SEVERAL], "4", Parallel, "time", Either),
    case("controllers.interleave", &[SEVERAL], "64KiB", Parallel, "time", Either),
    case("tiered.host_queue_depth", &[TIERED], "1", Parallel, "time", Up),
    case("tiered.read_latency", &[TIERED], "5us", Updates, "time", Up),
    case("tiered.write_latency", &[TIERED], "50us", Parallel, "time", Up)
        .with(&[("tiered.host_queue_depth", "2")]),
    case("tiered.promotion.capacity", &[TIERED], "2MiB", Steps(4, 400), "dram_cache_misses", Down),
    case("tiered.promotion.ways", &[TIERED], "1", Parallel, "dram_cache_misses", Either),
    case("tiered.promotion.most_threshold", &[TIERED], "1", Updates, "store_read", Either),
    case("tiered.promotion.low_ratio", &[TIERED], "0.4", Steps(4, 400), "time", Either),
    case("tiered.promotion.high_ratio", &[TIERED], "1.0", Files, "time", Either),
    case("tiered.promotion.epoch", &[TIERED], "20", Files, "time", Either),
    case("tiered.promotion.counted_pages", &[TIERED], "1", Parallel, "store_read", Down),
    case("tiered.promotion.lookaside_entries", &[TIERED], "1", Parallel, "time", Either),
    case("tiered.promotion.mapping_latency", &[TIERED], "100us", Parallel, "time", Up),
    case("tiering.capacity", &[NODES], "6MiB", Updates, "dram_cache_misses", Down),
    case("tiering.host_queue_depth", &[NODES], "1", Parallel, "time", Up),
    case("tiering.read_latency", &[NODES], "5us", Updates, "time", Up),
    case("tiering.write_latency", &[NODES], "50us", Parallel, "time", Up)
        .with(&[("tiering.host_queue_depth", "2")]),
    case("tiering.copy_lines", &[NODES], "1", Updates, "time", Either),
    case("tiering.balancing.scan_delay", &[NODES], "2ms", Updates, "scanned_entries", Down),
    case("tiering.balancing.scan_period", &[NODES], "1ms", Updates, "scanned_entries", Down),
    case("tiering.balancing.scan_size", &[NODES], "64KiB", Updates, "scanned_entries", Either),
    case("tiering.balancing.scan_limit", &[NODES], "1GB/s", Updates, "scanned_entries", Down),
    case("tiering.balancing.hot_threshold", &[NODES], "2us", Updates, "promotion_candidates", Down),
    case(
        "tiering.balancing.threshold_period",
        &[NODES],
        "1s",
        Updates,
        "promotion_candidates",
        Either,
    ),
    case(
        "tiering.balancing.promote_rate_limit",
        &[NODES],
        "40960B/s",
        Updates,
        "promoted_pages",
        Down,
    ),
    case("tiering.balancing.demotion", &[NODES], "false", Updates, "demoted_pages", Down),
    case("tiering.balancing.watermark_scale", &[NODES], "0.05", Updates, "demoted_pages", Either),
    case(
        "tiering.balancing.scan_entry.instructions",
        &[NODES],
        "900",
        Updates,
        "owner:migration",
        Up,
    ),
    case("tiering.balancing.scan_entry.lines", &[NODES], "4", Updates, "owner:migration", Either),
    case(
        "tiering.balancing.migrate.instructions",
        &[NODES],
        "90000",
        Updates,
        "demoted_pages",
        Down,
    ),
    case("tiering.balancing.migrate.lines", &[NODES], "512", Updates, "memory_reads", Up),
    case(
        "tiering.balancing.shootdown.instructions",
        &[NODES],
        "90000",
        Updates,
        "owner:migration",
        Either,
    ),
    case("tiering.balancing.shootdown.lines", &[NODES], "512", Updates, "owner:migration", Up),
    case(
        "tiering.balancing.shootdown_interrupt.instructions",
        &[NODES],
        "90000",
        Parallel,
        "time",
        Up,
    ),
    case("tiering.balancing.shootdown_interrupt.lines", &[NODES], "512", Parallel, "time", Either),
    case("storage.dram_capacity", &[STORAGE], "4MiB", Updates, "major_faults", Down),
    case("storage.memory_limit", &[STORAGE], "512KiB", Crowded, "swap_out_pages", Up),
    case("storage.initial", &[STORAGE], "prefilled", Updates, "owner:page_cache", Up),
    case("storage.readahead", &[STORAGE], "0B", Files, "readahead_pages", Down),
    case("storage.readahead_release", &[STORAGE], "2.6.32", Mapped, "readahead_requests", Either),
    case("storage.largest_folio", &[STORAGE], "2MiB", Files, "time", Either).with(RELEASE_6_18),
    case("storage.largest_request", &[STORAGE], "4KiB", Files, "owner:block_layer", Up),
    case("storage.fault_around", &[STORAGE], "4KiB", Mapped, "minor_faults", Up),
    case("storage.swap_cluster_pages", &[STORAGE], "1", Updates, "readahead_pages", Down),
    case("storage.swap_readahead", &[STORAGE], "virtual-address", Updates, "major_faults", Either),
    case("storage.swap_readahead", &[STORAGE], "fixed-cluster", Updates, "readahead_pages", Up),
    case("storage.swap_discard", &[SSD], "true", Unmapping, "drive:trimmed_pages", Up),
    case("storage.reclaim", &[STORAGE], "lru", Crowded, "major_faults", Either),
    case("storage.reclaim", &[STORAGE], "active-inactive", Crowded, "deactivated_pages", Either),
    case(
        "storage.reclaim",
        &[STORAGE],
        "active-inactive-2.6.32",
        Crowded,
        "reclaim_scanned_pages",
        Either,
    ),
    case("storage.reclaim", &[STORAGE], "generations", Crowded, "activated_pages", Either),
    case("storage.swappiness", &[STORAGE], "200", Crowded, "swap_out_pages", Either),
    case("storage.watermark_scale", &[STORAGE], "0.1", Updates, "background_reclaimed_pages", Up),
    case("storage.dirty_writeback", &[STORAGE], "0s", Files, "file_write_back_pages", Either)
        .with(&[("storage.dirty_writeback", "100us"), ("storage.dirty_expire", "100us")]),
    case("storage.dirty_expire", &[STORAGE], "100us", Files, "file_write_back_pages", Either)
        .with(&[("storage.dirty_writeback", "100us")]),
    case("storage.dirty_ratio", &[STORAGE], "0.01", Files, "time", Up)
        .with(&[("storage.dirty_background_ratio", "0.01")]),
    case("storage.dirty_background_ratio", &[STORAGE], "0.01", Files, "time", Either),
    case("storage.host_queue_depth", &[STORAGE], "1", Parallel, "time", Up),
    case("storage.block_layer.scheduler", &[LAYERED], "mq-deadline", Parallel, "time", Either)
        .with(WAITING),
    case("storage.block_layer.merges", &[LAYERED], "false", Crowded, "block_requests", Up),
    case("storage.block_layer.segments", &[LAYERED], "1", Files, "block_requests", Up)
        .with(&[("os.allocation", "fragmented")]),
    case("storage.block_layer.requests", &[LAYERED], "1", Parallel, "context_switches", Up)
        .with(WAITING),
    case("storage.block_layer.hardware_queues", &[LAYERED], "4", Parallel, "time", Down)
        .with(WAITING),
    case("storage.block_layer.lock", &[LAYERED], "9us", Parallel, "owner:driver", Up),
    case("storage.driver.completion", &[STORAGE], "polling", Updates, "context_switches", Down),
    case("storage.driver.interrupts", &[STORAGE], "one", Parallel, "time", Either),
    case("storage.driver.interrupt_thread", &[STORAGE], "1", Parallel, "time", Either)
        .with(&[("storage.driver.interrupts", "one")]),
    case("storage.driver.rq_affinity", &[STORAGE], "core", Parallel, "completion_interrupts", Up)
        .with(&[("storage.driver.interrupts", "one")]),
    case("storage.driver.lock", &[STORAGE], "9us", Parallel, "owner:driver", Up),
    case("storage.driver.poll.instructions", &[STORAGE], "9000", Updates, "owner:driver", Up)
        .with(&[("storage.driver.completion", "polling")]),
    case("storage.driver.poll.lines", &[STORAGE], "512", Updates, "memory_reads", Up)
        .with(&[("storage.driver.completion", "polling")]),
];

/// Values that change no figure: what they are changed to, and why nothing follows.
const INERT: &[(&str, &[&str], &str, &str)] = &[
    ("name", ALL, "other", "it names the machine in results"),
    ("description", ALL, "other words", "it is for readers"),
    ("check_data", ALL, "true", "it looks for stale data, and finds none; figures stay"),
    ("processor.width", ALL, "8", "it bounds base_cpi from below, and base_cpi says the pace"),
    ("processor.caches.L1D.name", ALL, "D1", "it names the level in results"),
    ("processor.caches.L2.name", ALL, "D2", "it names the level in results"),
    ("processor.caches.L3.name", ALL, "D3", "it names the level in results"),
    ("os.paths.block_layer.instructions", &[ORACLE, HYBRID], "90000", NO_REQUESTS),
    ("os.paths.block_layer.lines", &[ORACLE, HYBRID], "512", NO_REQUESTS),
    ("os.paths.driver.instructions", &[ORACLE, HYBRID], "90000", NO_REQUESTS),
    ("os.paths.completion_interrupt.instructions", &[ORACLE, HYBRID], "90000", NO_REQUESTS),
    ("os.paths.completion_interrupt.lines", &[ORACLE, HYBRID], "512", NO_REQUESTS),
    ("os.paths.driver.lines", &[ORACLE, HYBRID], "512", NO_REQUESTS),
    ("os.paths.interrupt.instructions", &[ORACLE], "90000", NO_REQUESTS),
    ("os.paths.interrupt.lines", &[ORACLE], "512", NO_REQUESTS),
    ("dram.backup.flash", &[NVDIMM], "512MiB", "what it has beyond the module's DRAM is not used"),
    ("hams.initial", &[HAMS], "prefilled", UNRELATED),
    ("ramdisk.page", &[RAMDISK], "512B", "copies are of lines, in pages of the operating system"),
    ("dram.t_ccd_l", ALL, "8", NO_GROUPS),
    ("dram.t_rrd_l", ALL, "8", NO_GROUPS),
    ("dram.t_wtr_l", ALL, "8", NO_GROUPS),
    ("dram.t_rfc_bank", ALL, "200ns", "DDR3 refreshes all banks of a rank at once"),
    ("hybrid.cache.initial", &[HYBRID], "prefilled", UNRELATED),
    ("storage.block_layer.deadline.read_expire", &[LAYERED], "0s", OF_ANOTHER),
    ("storage.block_layer.deadline.write_expire", &[LAYERED], "0s", OF_ANOTHER),
    ("storage.block_layer.deadline.writes_starved", &[LAYERED], "5", OF_ANOTHER),
    ("storage.block_layer.deadline.fifo_batch", &[LAYERED], "1", OF_ANOTHER),
    ("storage.block_layer.deadline.front_merges", &[LAYERED], "false", OF_ANOTHER),
    ("storage.block_layer.cfq.slice_sync", &[LAYERED], "1ms", OF_ANOTHER),
    ("storage.block_layer.cfq.slice_async", &[LAYERED], "1ms", OF_ANOTHER),
    ("storage.block_layer.cfq.slice_idle", &[LAYERED], "0s", OF_ANOTHER),
    ("storage.block_layer.cfq.quantum", &[LAYERED], "1", OF_ANOTHER),
    ("storage.block_layer.cfq.fifo_expire_sync", &[LAYERED], "0s", OF_ANOTHER),
    ("storage.block_layer.cfq.fifo_expire_async", &[LAYERED], "0s", OF_ANOTHER),
    ("storage.block_layer.cfq.back_seek_max", &[LAYERED], "0B", OF_ANOTHER),
    ("storage.block_layer.cfq.back_seek_penalty", &[LAYERED], "1000", OF_ANOTHER),
    ("tiering.balancing.free_enough", &[NODES], "0B", NOTHING_GIVEN_BACK),
];
const NOTHING_GIVEN_BACK: &str = "no memory is given back, so that DRAM is full once the other is used; os/paging/tiers/tests.rs varies it";
const OF_ANOTHER: &str = "it is of another scheduler; os/block_layer/tests.rs varies it";
const UNRELATED: &str =
    "unrelated clean pages leave without a trace; they are as good as empty frames";
const NO_GROUPS: &str = "DDR3 has no bank groups";
const NO_REQUESTS: &str = "the operating system asks no device for anything on this machine";

/// Values that can have no other: changed, alone or with what has to go along, the description is
/// refused.
const REFUSED: &[(&str, &[&str], &str, &str)] = &[
    ("processor.caches.L1D.shared", ALL, "true", "the first level belongs to a core"),
    ("hams.coupling", &[HAMS], "tight", OTHER_LINK),
    ("tiered.promotion.page", &[TIERED], "8KiB", "a page has a bit for each of 64 lines"),
    ("dram.refresh", ALL, "per-bank", "DDR3 refreshes all banks of a rank at once"),
];
/// A change that contradicts what the machine is connected by.
const OTHER_LINK: &str = "the drive is behind a link of its own";
const ALL_SHARED: Sets<'static> = &[("processor.caches.L2.shared", "true")];

// ---- The tests --------------------------------------------------------------------------------

/// A run, or `None` where the machine cannot serve the workload.
type Outcome = Option<Sums>;

/// Runs by machine, workload and changes: the plain ones are used many times.
#[derive(Default)]
struct Runs(BTreeMap<(Feel, Vec<(String, String)>), Outcome>);

impl Runs {
    fn get(&mut self, name: &str, feel: Feel, changes: &[Sets<'_>]) -> Outcome {
        let sets: Vec<_> = changes.iter().flat_map(|sets| fitting(name, sets)).collect();
        let key = (feel, sets);
        if let Some(known) = self.0.get(&key) {
            return known.clone();
        }
        let sets: Vec<(&str, &str)> = key.1.iter().map(|(p, v)| (&**p, &**v)).collect();
        let spec = machine(name, &sets);
        let outcome = try_run(&spec, &feel.threads());
        self.0.insert(key, outcome.clone());
        outcome
    }
}

/// A figure of a run, by its name.
fn output(outcome: &Outcome, name: &str) -> u64 {
    let Some(sums) = outcome else { return 0 };
    match name.split_once(':') {
        Some(("stage", stage)) => sums.stage_ps(stage),
        Some(("nvdimm", field)) => {
            let found = serde_json::to_value(sums.result.nvdimm).unwrap();
            (found[field].as_f64().unwrap() * 1e6) as u64
        }
        Some(("drive", field)) => {
            let found = serde_json::to_value(&sums.result.drive).unwrap();
            found[field].as_u64().unwrap()
        }
        Some(("nvm", field)) => {
            let found = serde_json::to_value(&sums.result.nvm).unwrap();
            (found[field].as_f64().unwrap() * 1e6) as u64
        }
        Some((_, owner)) => {
            let owned_ns = sums.result.time_breakdown_ns.get(owner).copied().unwrap_or(0.0);
            (owned_ns * 1e3).round() as u64
        }
        None => match name {
            "ends" => 1,
            "time" => sums.time_ps,
            // In femtojoules.
            "energy" => (sums.result.energy.total_j.unwrap_or(0.0) * 1e15) as u64,
            "latency" => sums.latency_ps,
            "store_read" => sums.result.store_bytes.read,
            "dram_read" => sums.result.dram_bytes.read,
            // A level that is not private has no counter of its own.
            counter => sums.result.counters.get(counter).copied().unwrap_or(0),
        },
    }
}

fn feels_every_option(name: &'static str) {
    let mut runs = Runs::default();
    let mut dead = Vec::new();
    for case in CASES.iter().filter(|case| case.systems.contains(&name)) {
        let was = runs.get(name, case.feel, &[SMALL, case.with]);
        let change = [(case.leaf, case.to)];
        let is = runs.get(name, case.feel, &[SMALL, case.with, case.along, &change]);
        let (was, is) = (output(&was, case.output), output(&is, case.output));
        let moved = match case.turn {
            Up => is > was,
            Down => is < was,
            Either => is != was,
        };
        if !moved {
            let Case { leaf, to, feel, output, turn, .. } = case;
            dead.push(format!("{leaf} = {to}: {feel:?} {output} {turn:?}: {was} → {is}"));
        }
    }
    assert!(dead.is_empty(), "{name}:\n{}", dead.join("\n"));
}

/// Everything but names, the level's own counters, which bear its name, and which rows of DRAM places lie in.
fn figures(outcome: Outcome) -> BTreeSet<String> {
    let sums = outcome.expect("an inert value stops no run");
    let counters = sums.result.counters.iter().filter(|(name, _)| {
        !["hits_", "dram_row_", "dram_activates"].iter().any(|own| name.starts_with(own))
    });
    let counters = counters.map(|(name, count)| format!("{name} {count}"));
    let stages = sums.stages_ps.iter().map(|(name, time)| format!("stage {name} {time}"));
    let owners = sums.result.time_breakdown_ns.iter().map(|(name, time)| format!("{name} {time}"));
    let time = format!("time {} {:?}", sums.time_ps, sums.result.latency_ns);
    counters.chain(stages).chain(owners).chain([time]).collect()
}

fn ignores_what_is_inert(name: &'static str) {
    let mut runs = Runs::default();
    for (leaf, systems, to, reason) in INERT {
        if !systems.contains(&name) {
            continue;
        }
        for feel in [Parallel, Files, Switches] {
            let was = figures(runs.get(name, feel, &[SMALL]));
            let is = figures(runs.get(name, feel, &[SMALL, &[(leaf, to)]]));
            assert_eq!(is, was, "{name}: {leaf} = {to} under {feel:?}, though {reason}");
        }
    }
}

#[test]
fn every_option_of_oracle_is_felt() {
    feels_every_option(ORACLE);
    ignores_what_is_inert(ORACLE);
}

#[test]
fn every_option_of_hybrid_is_felt() {
    feels_every_option(HYBRID);
    ignores_what_is_inert(HYBRID);
}

#[test]
fn every_option_of_storage_is_felt() {
    feels_every_option(STORAGE);
    ignores_what_is_inert(STORAGE);
}

#[test]
fn every_option_of_hams_is_felt() {
    feels_every_option(HAMS);
    ignores_what_is_inert(HAMS);
}

#[test]
fn every_option_of_other_links_and_stores_is_felt() {
    for (name, ..) in
        LINKED.iter().filter(|(name, ..)| ![DISK, TIERED, NODES, WINDOWS].contains(name))
    {
        feels_every_option(name);
        ignores_what_is_inert(name);
    }
}

#[test]
fn every_option_of_memories_behind_links_and_of_their_windows_is_felt() {
    for name in [TIERED, WINDOWS] {
        feels_every_option(name);
        ignores_what_is_inert(name);
    }
}

#[test]
fn every_option_of_two_nodes_of_memory_is_felt() {
    feels_every_option(NODES);
    ignores_what_is_inert(NODES);
}

#[test]
fn every_option_of_maps_of_drives_and_of_their_pauses_is_felt() {
    for (name, _) in DRIVES {
        feels_every_option(name);
    }
}

#[test]
fn every_option_of_a_disk_is_felt() {
    feels_every_option(DISK);
}

#[test]
fn what_can_have_no_other_value_is_refused() {
    for (leaf, systems, to, reason) in REFUSED {
        for name in *systems {
            for along in [&[], ALL_SHARED] {
                let change = [(*leaf, *to)];
                let sets: Vec<_> = along.iter().chain(&change).copied().collect();
                let refused = try_machine(name, &sets).is_err();
                assert!(refused, "{name}: {leaf} = {to}: {reason}");
            }
        }
    }
}

/// Paths of all values of a description, levels of on-chip caches by their names.
fn leaves(table: &Table, json: &serde_json::Value, path: &str, out: &mut BTreeSet<String>) {
    for field in &table.fields {
        let value = &json[&field.name];
        let path =
            if path.is_empty() { field.name.clone() } else { format!("{path}.{}", field.name) };
        match &field.shape {
            _ if value.is_null() => {}
            Shape::Table(inner) => leaves(inner, value, &path, out),
            Shape::List(items) => {
                let Shape::Table(inner) = &**items else { panic!("{path} is a list of values") };
                for item in value.as_array().into_iter().flatten() {
                    let name =
                        item["name"].as_str().unwrap_or_else(|| panic!("{path} has no names"));
                    leaves(inner, item, &format!("{path}.{name}"), out);
                }
            }
            _ => {
                out.insert(path);
            }
        }
    }
}

/// Paths of all values that the schema knows.
fn schema_leaves(table: &Table, path: &str, out: &mut BTreeSet<String>) {
    for field in &table.fields {
        let path =
            if path.is_empty() { field.name.clone() } else { format!("{path}.{}", field.name) };
        match &field.shape {
            Shape::Table(inner) => schema_leaves(inner, &path, out),
            Shape::List(items) => {
                if let Shape::Table(inner) = &**items {
                    schema_leaves(inner, &path, out);
                }
            }
            _ => {
                out.insert(path);
            }
        }
    }
}

/// Paths of the values that a description may leave out.
fn optional_leaves(table: &Table, path: &str, out: &mut BTreeSet<String>) {
    for field in &table.fields {
        let path =
            if path.is_empty() { field.name.clone() } else { format!("{path}.{}", field.name) };
        match &field.shape {
            Shape::Table(inner) => optional_leaves(inner, &path, out),
            Shape::List(items) => {
                if let Shape::Table(inner) = &**items {
                    optional_leaves(inner, &path, out);
                }
            }
            _ if field.required => {}
            _ => {
                out.insert(path);
            }
        }
    }
}

#[test]
fn every_value_of_every_preset_has_a_line_here_and_every_line_has_a_value() {
    let listed = CASES.iter().map(|case| (case.leaf, case.systems));
    let inert = INERT.iter().chain(REFUSED).map(|(leaf, systems, ..)| (*leaf, *systems));
    let mut lines: BTreeSet<(&str, String)> = BTreeSet::new();
    for (leaf, systems) in listed.chain(inert) {
        lines.extend(systems.iter().map(|system| (*system, leaf.to_string())));
    }
    let (mut all, mut linked) = (BTreeSet::new(), BTreeSet::new());
    for name in PRESETS {
        let spec = serde_json::to_value(system(name, &[])).unwrap();
        let mut own = BTreeSet::new();
        leaves(shape(), &spec, "", &mut own);
        for leaf in &own {
            assert!(lines.remove(&(name, leaf.clone())), "{name}: {leaf} has no line here");
        }
        all.extend(own);
    }
    for (name, ..) in LINKED {
        let spec = serde_json::to_value(machine(name, &[])).unwrap();
        let mut own = BTreeSet::new();
        leaves(shape(), &spec, "", &mut own);
        for leaf in own.difference(&all) {
            assert!(lines.remove(&(name, leaf.clone())), "{name}: {leaf} has no line here");
        }
        linked.extend(own);
    }
    all.extend(linked);
    for name in DRIVES.map(|(name, _)| name).into_iter().chain([HAMS]) {
        let mut own = BTreeSet::new();
        leaves(shape(), &serde_json::to_value(machine(name, &[])).unwrap(), "", &mut own);
        for leaf in own.difference(&all.clone()) {
            assert!(lines.remove(&(name, leaf.clone())), "{name}: {leaf} has no line here");
            all.insert(leaf.clone());
        }
    }
    // A value that need not be said, and that no preset says, has a line of its own all the same.
    let mut known = BTreeSet::new();
    schema_leaves(shape(), "", &mut known);
    let mut optional = BTreeSet::new();
    optional_leaves(shape(), "", &mut optional);
    // A level's values are those of the list's item.
    let plain =
        |leaf: &String| ["L1D.", "L2.", "L3."].iter().fold(leaf.clone(), |l, n| l.replace(n, ""));
    for (_, leaf) in lines.extract_if(.., |(_, leaf)| optional.contains(&plain(leaf))) {
        all.insert(leaf);
    }
    assert!(lines.is_empty(), "no preset has {lines:?}");
    let covered: BTreeSet<String> = all.iter().map(plain).collect();
    let alone: BTreeSet<String> = ALONE.map(String::from).into();
    let missing: Vec<_> =
        known.difference(&covered).filter(|leaf| !alone.contains(*leaf)).collect();
    assert!(missing.is_empty(), "the schema knows {missing:?}, which no preset here has");
}

/// Values that devices alone have and machines have not: `tests/laws/alone.rs` and `tests/laws/alone_store.rs`
/// vary them.
const ALONE: [&str; 56] = [
    // Of files in memory and of swap, varied in `validation/shmem.rs`.
    "storage.swap_capacity",
    "storage.tmpfs.capacity",
    // Of reads that take long, varied in `validation/long_reads.rs`.
    "tiered.long_reads.above",
    "tiered.long_reads.latency",
    // Of failures of power, varied in `tests/laws/crash.rs`.
    "ssd.buffer.capacitor_energy",
    "ssd.buffer.hold_up_time",
    // Of queues of NVM Express, varied in `validation/nvme.rs`.
    "pcie.nvme.queues",
    "pcie.nvme.entries",
    "pcie.nvme.burst",
    "pcie.nvme.fetches",
    "pcie.nvme.memory_page",
    "pcie.nvme.vectors",
    "pcie.nvme.priorities.reads",
    "pcie.nvme.priorities.writes",
    "pcie.nvme.priorities.background",
    "pcie.nvme.priorities.high_weight",
    "pcie.nvme.priorities.medium_weight",
    "pcie.nvme.priorities.low_weight",
    "pcie.nvme.coalescing.threshold",
    "pcie.nvme.coalescing.time",
    // Of drives side by side, varied in `validation/raid.rs`.
    "disk.raid.drives",
    "disk.raid.stripe",
    "disk.raid.queue_depth",
    "disk.raid.latency",
    "disk.raid.bandwidth",
    "ssd.raid.drives",
    "ssd.raid.stripe",
    "ssd.raid.queue_depth",
    "ssd.raid.latency",
    "ssd.raid.bandwidth",
    "disk.raid.cache.capacity",
    "disk.raid.cache.write_back",
    "disk.raid.cache.write_backs",
    "ssd.raid.cache.capacity",
    "ssd.raid.cache.write_back",
    "ssd.raid.cache.write_backs",
    "nvm.raid.drives",
    "nvm.raid.stripe",
    "nvm.raid.queue_depth",
    "nvm.raid.latency",
    "nvm.raid.bandwidth",
    "nvm.raid.cache.capacity",
    "nvm.raid.cache.write_back",
    "nvm.raid.cache.write_backs",
    // Of hardware threads, varied in `tests/laws/hardware_threads.rs`.
    "processor.partitioned",
    // Of pages larger than the presets', varied in `formulas.rs`.
    "processor.tlb.large.page",
    "processor.tlb.large.entries",
    "processor.tlb.large.ways",
    "processor.tlb.large.second_level_entries",
    "processor.tlb.large.second_level_ways",
    "processor.tlb.large.shares_second_level",
    // Of machines, varied in `tests/laws/machine.rs`.
    "processor.caches.access_energy",
    "device.capacity",
    "device.line",
    "block_device.host_queue_depth",
    // A machine without DRAM has no store before which the presets here stand: `validation/nvm.rs`.
    "direct.host_queue_depth",
];

#[test]
fn the_presets_here_are_all_presets_but_for_their_capacities() {
    let quick = list().into_iter().filter(|(name, _)| {
        // Drives alone have no other parts than machines with drives, the four of HAMS are one with other
        // values and the link of another, and so is the oracle of NVDIMMs; `mmap` is `storage`
        // with other values, `buffer-cache` the one with a second page cache; `hybrid/alloy` is `hybrid` with
        // other values.
        let others = [
            "device/",
            "hybrid/alloy/",
            "hams-",
            "nvdimm",
            "flatflash-",
            "optane-",
            "ull",
            "cxl-",
            "mmap",
            "buffer-cache",
        ];
        name.ends_with("/quick") && !others.iter().any(|other| name.starts_with(other))
    });
    assert_eq!(quick.map(|(name, _)| name).collect::<BTreeSet<_>>(), PRESETS.into_iter().collect());
    for name in PRESETS {
        let full = name.trim_end_matches("/quick");
        let paths = |name| {
            let mut own = BTreeSet::new();
            leaves(shape(), &serde_json::to_value(system(name, &[])).unwrap(), "", &mut own);
            own
        };
        assert_eq!(paths(full), paths(name));
    }
}
