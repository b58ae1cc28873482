//! Fuzzing of devices: descriptions that are drawn at random, under commands that are.
//!
//! A description is a preset of a device alone with values that are set as `--set` sets them: of a drive the whole
//! geometry, its map, buffer, collection and wear; of any device queues of NVM Express or stripes over several. In some of
//! them values are then replaced by what nobody writes. One that is refused has to say why; one that is taken is given
//! reads, writes, flushes, trims, forced accesses of any size anywhere, and failures of power. These laws are checked:
//!
//! - Nothing panics, and all comes to an end.
//! - What was taken is answered once, in order of time; stages sum to the latency; time does not go back, and nothing
//!   comes before it was announced.
//! - The same again is the same, however finely time is cut, and a fork goes on as the device does, whatever becomes of
//!   that.
//! - After a failure of power each page holds what was promised, or something newer, and nothing that was never written
//!   to it: against a plain list of what was written.
//! - Pages of flash are conserved: what the host wrote, what was moved and what was left empty is what was programmed.
//!
//! As a test each device gets some descriptions. `make fuzz` goes on for longer:
//!
//! | variable | what |
//! |---|---|
//! | `TIERSCOPE_FUZZ_SECONDS` | how long, in the place of a count of descriptions |
//! | `TIERSCOPE_FUZZ_SEED` | another seed than 1 |
//! | `TIERSCOPE_FUZZ_ONLY` | only devices whose names contain this: `device/z-ssd` |
//! | `TIERSCOPE_FUZZ_INPUT` | with that, this one description, to see a fault again |

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use tierscope_kernel::{Counter, MOST_TIME_PS};
use tierscope_model::device::{AnyDevice, DeviceDescription};
use tierscope_model::link::LinkDescription;
use tierscope_model::power::{Content, LOST};
use tierscope_model::request::{Ahead, Completion, Control, Device, Manner, Request};
use tierscope_system::spec::{self, SystemSpec};

/// Descriptions of each device as a test.
const INPUTS: u64 = 60;
/// One that takes longer, as tests are built, hangs.
const MOST_TIME: Duration = Duration::from_secs(60);
/// Steps of time that a script takes at most: some hundred times as many as any needs.
const MOST_STEPS: u64 = 4_000_000;
/// What is simulated holds so many bytes at most: the others are described, checked and no more.
const MOST_BYTES: u64 = 1 << 31;
/// Commands of a script at most.
const MOST_COMMANDS: u64 = 240;
/// Bytes of a command at most, and of a script.
const LARGEST: u64 = 96 << 10;
/// In the ids of what comes before its request.
const AHEAD: u32 = 1 << 31;
const PAGES: u32 = 1 << 30;

/// Devices alone: every kind of store, every link that one is behind.
const DEVICES: &[&str] = &[
    "device/z-ssd/quick",
    "device/970-pro/quick",
    "device/intel-535",
    "device/slc",
    "device/haste",
    "device/disk-7200",
    "device/disk-raid",
    "device/ssd-raid",
    "device/pcm",
    "device/optane-dimm",
];

/// Random numbers, one after the other.
struct Numbers(Counter, u64);

impl Numbers {
    fn new(seed: u64, name: &str) -> Self {
        Numbers(Counter::stream(seed, name), 0)
    }

    /// From the first to the last of these.
    fn from(&mut self, first: u64, last: u64) -> u64 {
        self.1 += 1;
        first + self.0.below_at(self.1, last - first + 1)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.from(1, count) == 1
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.from(0, all.len() as u64 - 1) as usize]
    }
}

/// Paths of values, and the values, as `--set` takes them.
type Sets = Vec<(String, String)>;

fn set(sets: &mut Sets, path: &str, value: impl ToString) {
    sets.push((path.to_owned(), value.to_string()));
}

/// Values for any device of a kind.
fn drawn(name: &str, n: &mut Numbers) -> Sets {
    let mut sets = Sets::new();
    set(&mut sets, "block_device.host_queue_depth", n.from(1, 64));
    let base = spec::load(name, &[]).expect("a preset").spec;
    if base.ssd.is_some() {
        draw_drive(&mut sets, n);
        draw_raid(&mut sets, "ssd", base.ssd.is_some_and(|it| it.raid.is_some()), n);
    } else if base.disk.is_some() {
        draw_disk(&mut sets, n);
        draw_raid(&mut sets, "disk", base.disk.is_some_and(|it| it.raid.is_some()), n);
    } else if base.nvm.is_some() {
        draw_module(&mut sets, base.nvm.is_some_and(|it| it.buffer.is_some()), n);
    } else if base.haste.is_some() {
        draw_haste(&mut sets, n);
    } else {
        let page = n.of(&[512, 4096, 8192]);
        set(&mut sets, "store.page", format!("{page}B"));
        set(&mut sets, "store.capacity", format!("{}B", page * n.from(1, 400)));
        set(&mut sets, "store.units", n.from(1, 5));
        set(&mut sets, "store.queue_depth", n.from(1, 40));
        set(&mut sets, "store.read_latency", format!("{}us", n.from(0, 30)));
        set(&mut sets, "store.write_latency", format!("{}us", n.from(0, 200)));
    }
    if base.pcie.is_some_and(|pcie| pcie.is_nvme()) && !n.one_in(3) {
        draw_queues(&mut sets, n);
    }
    sets
}

/// The whole geometry of a drive, and all that it does.
fn draw_drive(sets: &mut Sets, n: &mut Numbers) {
    let page = 512u64 << n.from(0, 5);
    let split = n.of(&[1, 1, 2, 3, 4]);
    let units = n.of(&[1, 1, 2, 4]);
    let flash_page = (page * units / split).next_power_of_two().max(512);
    let channels = split * n.from(1, 3);
    let (ways, dies, planes) = (n.from(1, 2), n.from(1, 2), n.of(&[1, 1, 2, 4]));
    let (blocks, pages) = (n.from(9, 40), n.from(1, 16));
    let flash = channels * ways * dies * planes * blocks * pages * flash_page;
    let capacity = flash * n.from(10, 85) / 100 / page * page;
    let us = |time: u64| format!("{time}us");
    for (path, value) in [
        ("page", format!("{page}B")),
        ("capacity", format!("{}B", capacity.max(page))),
        ("split", split.to_string()),
        ("queue_depth", n.from(1, 80).to_string()),
        ("striping", n.of(&["c-w-d-p", "p-d-w-c", "w-p-c-d", "d-c-p-w"]).to_owned()),
        ("nand.channels", channels.to_string()),
        ("nand.ways", ways.to_string()),
        ("nand.dies", dies.to_string()),
        ("nand.planes", planes.to_string()),
        ("nand.blocks", blocks.to_string()),
        ("nand.pages", pages.to_string()),
        ("nand.page", format!("{flash_page}B")),
        ("nand.lower.read_latency", us(n.from(0, 40))),
        ("nand.lower.program_latency", us(n.from(0, 300))),
        ("nand.erase_latency", us(n.from(0, 2000))),
        ("nand.bus_rate", n.of(&["20MT/s", "200MT/s", "1600MT/s"]).to_owned()),
        ("nand.bus_bits", n.of(&["8", "16"]).to_owned()),
        ("nand.multi_plane_reads", n.of(&["none", "same-page", "any-page"]).to_owned()),
        ("nand.multi_plane_programs", n.one_in(2).to_string()),
        ("nand.cache_read", n.one_in(2).to_string()),
        ("nand.cache_program", n.one_in(2).to_string()),
        ("nand.suspends", n.from(0, 3).to_string()),
        ("nand.suspend_latency", us(n.from(0, 20))),
        ("nand.reads_ahead", n.from(0, 6).to_string()),
        ("firmware.cores", n.from(1, 4).to_string()),
        ("firmware.page_time", us(n.from(0, 3))),
        ("firmware.read_latency", us(n.from(0, 5))),
        ("firmware.write_latency", us(n.from(0, 5))),
        ("firmware.decode_latency", us(n.from(0, 5))),
        ("collection.policy", n.of(&["greedy", "cost-benefit"]).to_owned()),
        ("collection.window", n.of(&[0, 0, 1, 3]).to_string()),
        ("collection.free_blocks", n.from(2, 4).to_string()),
        ("collection.copies", n.from(1, 20).to_string()),
        ("wear.endurance", n.of(&[1, 3, 20, 10_000]).to_string()),
        ("wear.difference", n.from(0, 4).to_string()),
        ("wear.factory_bad", n.of(&["0", "0.05", "0.3"]).to_owned()),
    ] {
        set(sets, &format!("ssd.{path}"), value);
    }
    let entries = n.from(1, 40);
    for (path, value) in [
        ("capacity", format!("{}B", page * entries)),
        ("dirty", format!("{}B", page * n.from(1, entries))),
        ("flush_above", format!("{}B", page * n.of(&[0, 0, entries / 2, entries]))),
        ("write_back", (!n.one_in(3)).to_string()),
        ("read_cache", n.one_in(2).to_string()),
        ("latency", us(n.from(0, 2))),
        ("bandwidth", n.of(&["100MB/s", "8GB/s"]).to_owned()),
    ] {
        set(sets, &format!("ssd.buffer.{path}"), value);
    }
    let capacitors = n.one_in(3);
    set(sets, "ssd.buffer.capacitors", capacitors);
    if capacitors && n.one_in(2) {
        set(sets, "ssd.buffer.hold_up_time", us(n.of(&[1, 300, 100_000])));
    }
    let kind = n.from(0, 3);
    let is_logged = kind == 0 && flash_page * split == page;
    set(
        sets,
        "ssd.initial",
        match (n.from(0, 2), is_logged) {
            (0, _) => "erased",
            (_, true) | (1, _) => "written",
            _ => "steady",
        },
    );
    if is_logged {
        set(sets, "ssd.log.blocks", n.from(1, 4));
        return;
    }
    if kind == 1 {
        set(sets, "ssd.map.entry", format!("{}B", (page >> n.from(0, 7)).max(4)));
        let least = flash_page.max(page);
        set(sets, "ssd.map.cache", format!("{}B", least + page * n.from(0, 8)));
    }
    if n.one_in(3) {
        set(sets, "ssd.collection.idle.after", us(n.from(0, 2000)));
        set(sets, "ssd.collection.idle.free_blocks", n.from(5, 12));
    }
}

fn draw_disk(sets: &mut Sets, n: &mut Numbers) {
    let sector = n.of(&[512, 4096]);
    let page = sector << n.from(0, 3);
    let (heads, cylinders) = (n.from(1, 4), n.from(3, 40));
    let inner = n.from(1, 30);
    let bytes = heads * cylinders * inner * sector;
    let segments = n.from(1, 4);
    let segment = page * n.from(1, 8);
    for (path, value) in [
        ("page", format!("{page}B")),
        ("capacity", format!("{}B", (bytes / page).max(1) * page)),
        ("queue_depth", n.from(1, 40).to_string()),
        ("controller_latency", format!("{}us", n.from(0, 300))),
        ("window", n.from(1, 40).to_string()),
        ("age_limit", format!("{}ms", n.from(0, 500))),
        ("platters.rpm", n.of(&[60, 7200, 1_000_000]).to_string()),
        ("platters.heads", heads.to_string()),
        ("platters.cylinders", cylinders.to_string()),
        ("platters.zones", n.from(1, 3).to_string()),
        ("platters.inner_sectors", inner.to_string()),
        ("platters.outer_sectors", (inner + n.from(0, 20)).to_string()),
        ("platters.sector", format!("{sector}B")),
        ("platters.track_skew", format!("{}us", n.from(0, 60))),
        ("platters.cylinder_skew", format!("{}us", n.from(0, 60))),
        ("buffer.segments", segments.to_string()),
        ("buffer.capacity", format!("{}B", segment * segments)),
        ("buffer.read_ahead", format!("{}B", segment * n.from(0, 1))),
        ("buffer.write_cache", n.one_in(2).to_string()),
        ("buffer.dirty", format!("{}B", page * n.from(1, 10))),
    ] {
        set(sets, &format!("disk.{path}"), value);
    }
}

fn draw_module(sets: &mut Sets, buffered: bool, n: &mut Numbers) {
    let line = if buffered { 256 << n.from(0, 2) } else { 64 << n.from(0, 2) };
    let (channels, banks, row) = (n.from(1, 3), n.from(1, 4), line << n.from(0, 3));
    let pulse = n.of(&["none", "pause", "cancel"]);
    let writes = n.from(1, 20);
    for (path, value) in [
        ("capacity", format!("{}B", channels * banks * row * n.from(1, 60))),
        ("queue_depth", n.from(1, 80).to_string()),
        ("array.line", format!("{line}B")),
        ("array.channels", channels.to_string()),
        ("array.banks", banks.to_string()),
        ("array.row", format!("{row}B")),
        ("array.row_buffers", n.from(1, 3).to_string()),
        ("array.channel_interleave", format!("{}B", line << n.from(0, 2))),
        ("array.bank_interleave", format!("{}B", line << n.from(0, 2))),
        ("array.read_latency", format!("{}ns", n.from(0, 300))),
        ("array.write_latency", format!("{}ns", n.from(0, 1000))),
        ("array.preemption", pulse.to_owned()),
        ("array.read_queue_depth", n.from(1, 20).to_string()),
        ("array.write_queue_depth", writes.to_string()),
        ("array.write_high", n.from(1, writes).to_string()),
        ("array.write_low", "0".into()),
        ("wear.gap_interval", n.of(&[0, 1, 3, 100]).to_string()),
        ("wear.randomized", n.one_in(2).to_string()),
    ] {
        set(sets, &format!("nvm.{path}"), value);
    }
    match pulse {
        "pause" => set(sets, "nvm.array.write_iterations", n.from(1, 8)),
        "cancel" => set(sets, "nvm.array.cancel_below", n.of(&["0", "0.5", "1"])),
        _ => {}
    }
    if buffered {
        set(sets, "nvm.buffer.access", format!("{}B", line >> n.from(1, 2)));
        set(sets, "nvm.buffer.capacity", format!("{}B", line * n.from(1, 12)));
    }
}

fn draw_haste(sets: &mut Sets, n: &mut Numbers) {
    let page = n.of(&[512, 1024, 4096]);
    for (path, value) in [
        ("page", format!("{page}B")),
        ("capacity", format!("{}B", page * n.from(1, 300))),
        ("queue_depth", n.from(1, 40).to_string()),
        ("buffers", n.from(1, 6).to_string()),
        ("nodes", n.from(1, 5).to_string()),
        ("controllers", n.from(1, 9).to_string()),
        ("ring_latency", format!("{}ns", n.from(0, 300))),
        ("scheduler_latency", format!("{}ns", n.from(0, 300))),
        ("read_latency", format!("{}ns", n.from(0, 300))),
        ("write_latency", format!("{}ns", n.from(0, 300))),
    ] {
        set(sets, &format!("haste.{path}"), value);
    }
}

/// Several of it side by side; of one whose preset has stripes, always.
fn draw_raid(sets: &mut Sets, table: &str, always: bool, n: &mut Numbers) {
    if !always && !n.one_in(5) {
        return;
    }
    let mut of = |path: &str, value: String| set(sets, &format!("{table}.raid.{path}"), value);
    of("drives", n.from(1, 4).to_string());
    of("stripe", format!("{}B", 1024 << n.from(0, 6)));
    of("queue_depth", n.from(1, 60).to_string());
    of("latency", format!("{}us", n.from(0, 5)));
    if n.one_in(2) {
        of("bandwidth", n.of(&["100MB/s", "4GB/s"]).to_owned());
        of("cache.capacity", format!("{}B", 32_768 * n.from(1, 6)));
        of("cache.write_back", n.one_in(2).to_string());
        of("cache.write_backs", n.from(1, 4).to_string());
    }
}

fn draw_queues(sets: &mut Sets, n: &mut Numbers) {
    for (path, value) in [
        ("queues", n.from(1, 3).to_string()),
        ("entries", n.from(2, 20).to_string()),
        ("burst", (1 << n.from(0, 6)).to_string()),
        ("fetches", n.from(1, 4).to_string()),
        ("memory_page", "4KiB".into()),
        ("vectors", n.from(1, 3).to_string()),
    ] {
        set(sets, &format!("pcie.nvme.{path}"), value);
    }
    if n.one_in(2) {
        for class in ["reads", "writes", "background"] {
            let priority = n.of(&["urgent", "high", "medium", "low"]);
            set(sets, &format!("pcie.nvme.priorities.{class}"), priority);
        }
        for weight in ["high_weight", "medium_weight", "low_weight"] {
            set(sets, &format!("pcie.nvme.priorities.{weight}"), n.from(1, 5));
        }
    }
    if n.one_in(2) {
        set(sets, "pcie.nvme.coalescing.threshold", n.from(2, 8));
        set(sets, "pcie.nvme.coalescing.time", format!("{}us", 100 * n.from(0, 3)));
    }
}

/// What nobody writes.
const WILD: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "7",
    "255",
    "4097",
    "65536",
    "1048577",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "-1",
    "0.5",
    "1e300",
    "nan",
    "true",
    "0B",
    "1B",
    "511B",
    "512B",
    "3000B",
    "4KiB",
    "1TiB",
    "16EiB",
    "0s",
    "1ps",
    "1ns",
    "1ms",
    "100s",
    "5000h",
    "1B/s",
    "1GB/s",
    "0MT/s",
    "1T/s",
    "x",
    "",
];

/// Paths of a description's values.
fn paths(value: &serde_json::Value, path: &str, all: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(table) => {
            for (key, value) in table {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                paths(value, &path, all);
            }
        }
        _ => all.push(path.to_owned()),
    }
}

/// A description with some values that nobody writes.
fn made_wild(name: &str, sets: &mut Sets, n: &mut Numbers) {
    let Ok(resolved) = spec::load(name, sets) else { return };
    let mut all = Vec::new();
    paths(&serde_json::to_value(&resolved.spec).unwrap(), "", &mut all);
    all.retain(|path| path.contains('.'));
    for _ in 0..n.from(1, 3) {
        let path = all[n.from(0, all.len() as u64 - 1) as usize].clone();
        set(sets, &path, n.of(WILD));
    }
}

/// The store and the link of a device alone.
fn parts(spec: &SystemSpec) -> (&dyn DeviceDescription, &dyn LinkDescription) {
    let (_, store) = spec.stores()[0];
    let (_, link) = spec.links()[0];
    (store, link)
}

/// A command, and the time before it.
#[derive(Clone, Copy, Debug)]
enum Command {
    Access { request: Request, manner: Manner, ahead: Option<Ahead> },
    Control(Control),
    Cut,
}

type Script = Vec<(u64, Command)>;

fn script(store: &dyn DeviceDescription, n: &mut Numbers) -> Script {
    let (capacity, page) = (store.capacity().bytes(), store.page().bytes());
    let (writes, cuts) = (n.from(0, 10), n.from(0, 2) == 0);
    // Few places are written again and again, many fill the device.
    let reach = n.of(&[capacity, capacity, capacity.div_ceil(8), 4 * page]).clamp(1, capacity);
    let pause = n.of(&[1, 1000, 1_000_000, 300_000_000]);
    let largest = n.of(&[page, 4 * page, LARGEST]).clamp(1, LARGEST);
    let (mut content, mut next) = (1, 0);
    let commands = n.from(1, MOST_COMMANDS);
    let mut script = Script::new();
    for id in 0..commands as u32 {
        let gap = if n.one_in(2) { 0 } else { n.from(0, pause) };
        let aligned = !n.one_in(4);
        let round = |at: u64| if aligned { at / page * page } else { at };
        let address = if n.one_in(3) { next } else { round(n.from(0, reach - 1)) };
        let address = if address < capacity { address } else { 0 };
        let bytes = if aligned && !n.one_in(3) { page } else { round(n.from(1, largest)).max(1) };
        let bytes = bytes.min(capacity - address);
        next = address + bytes;
        let command = match n.from(0, 24) {
            0 => Command::Control(Control::Flush),
            1 => Command::Control(Control::Trim { address, bytes: bytes * n.from(0, 4) }),
            2 if cuts => Command::Cut,
            _ => {
                let write = n.from(1, 10) <= writes;
                let background = n.one_in(5);
                let request = Request { id, address, bytes: bytes as u32, write, background };
                let force_unit_access = n.one_in(8);
                let pages = (n.one_in(4) && !write).then_some(PAGES | id << 12);
                let manner = Manner { force_unit_access, pages, content, ..Manner::default() };
                content += (address + bytes).div_ceil(page) - address / page;
                let offset = n.from(0, bytes - 1) as u32;
                let wanted = n.from(1, bytes - u64::from(offset)) as u32;
                let ahead = Ahead { id: id | AHEAD, offset, bytes: wanted };
                let whole = bytes <= page && address / page == (address + bytes - 1) / page;
                let ahead = (whole && !write && n.one_in(6)).then_some(ahead);
                Command::Access { request, manner, ahead }
            }
        };
        script.push((gap, command));
    }
    script
}

/// A write to a page, or a trim of it: what it holds then.
#[derive(Clone, Copy, Debug)]
struct Change {
    content: Content,
    begun: u64,
    /// In the order of what happened.
    answered: Option<u64>,
    /// It survives whatever happens to the power. That what is trimmed stays away nobody promises.
    kept: bool,
    trims: bool,
}

/// What was asked for and not answered.
#[derive(Clone, Debug)]
struct Open {
    at_ps: u64,
    /// Pages that it changes.
    pages: Vec<u64>,
    forced: bool,
    is_flush: bool,
    /// When it was asked for, in the order of what happened.
    number: u64,
    /// Pages that may come before it.
    early: u32,
    ahead: bool,
}

/// What a device did, and what it is to hold.
struct Run {
    device: AnyDevice,
    page_bytes: u64,
    now_ps: u64,
    last_ps: u64,
    steps: u64,
    /// What happened so far: asked, or answered.
    happened: u64,
    open: BTreeMap<u32, Open>,
    changes: BTreeMap<u64, Vec<Change>>,
    /// What was answered is safe at once.
    safe: bool,
    follows: bool,
    was_cut: bool,
    told: String,
}

impl Run {
    fn new(store: &dyn DeviceDescription, link: &dyn LinkDescription, follow: bool) -> Self {
        let mut device = store.build(link);
        let follows = follow && device.follow_contents([].into_iter().collect());
        let safe = device.keeps_answered() || !device.takes_control();
        Run {
            device,
            page_bytes: store.page().bytes(),
            now_ps: 0,
            last_ps: 0,
            steps: 0,
            happened: 0,
            open: BTreeMap::new(),
            changes: BTreeMap::new(),
            safe,
            follows,
            was_cut: false,
            told: String::new(),
        }
    }

    /// Goes on until `until_ps`; whether time is left in a run.
    fn advance(&mut self, until_ps: u64) -> bool {
        if until_ps > MOST_TIME_PS {
            return false;
        }
        self.steps += 1;
        assert!(self.steps < MOST_STEPS, "it does not come to an end");
        let (before_ps, announced_ps) = (self.now_ps, self.device.next_event_ps());
        self.now_ps = until_ps.max(before_ps);
        let mut out = Vec::new();
        self.device.advance(self.now_ps, &mut out);
        let announced = announced_ps.is_some_and(|at_ps| at_ps <= self.now_ps);
        assert!(out.is_empty() || announced, "{out:?} before the announced {announced_ps:?}");
        for done in out {
            assert!((before_ps..=self.now_ps).contains(&done.at_ps), "{done:?} at {before_ps}");
            self.answer(done);
        }
        let next_ps = self.device.next_event_ps();
        assert!(next_ps.is_none_or(|at_ps| at_ps > self.now_ps), "{next_ps:?} is left");
        assert_eq!(self.device.in_flight(), self.open.len(), "in flight");
        true
    }

    fn answer(&mut self, done: Completion) {
        let Completion { id, at_ps, stages, .. } = done;
        assert!(at_ps >= self.last_ps, "{done:?} comes after one of {} ps", self.last_ps);
        self.last_ps = at_ps;
        self.happened += 1;
        writeln!(self.told, "{id} {at_ps} {stages:?}").unwrap();
        let early = id & (AHEAD | PAGES);
        let whole = match early {
            AHEAD => id & !AHEAD,
            PAGES => (id & !PAGES) >> 12,
            _ => id,
        };
        let open = self.open.get_mut(&whole).unwrap_or_else(|| panic!("{done:?} was not open"));
        assert_eq!(stages.total_ps(), at_ps - open.at_ps, "stages of {done:?}");
        match early {
            0 => {}
            AHEAD => return assert!(std::mem::take(&mut open.ahead), "{done:?} comes twice"),
            _ => {
                assert!(open.early > 0, "{done:?} comes once too often");
                open.early -= 1;
                return;
            }
        }
        let open = self.open.remove(&whole).unwrap();
        for page in &open.pages {
            let all = self.changes.get_mut(page).unwrap();
            let change = all.iter_mut().find(|it| it.begun == open.number).unwrap();
            change.answered = Some(self.happened);
            change.kept |= !change.trims && (self.safe || open.forced);
        }
        if open.is_flush {
            let before =
                |it: &&mut Change| !it.trims && it.answered.is_some_and(|at| at < open.number);
            let all = self.changes.values_mut().flatten();
            all.filter(before).for_each(|change| change.kept = true);
        }
    }

    /// Asks for something, when there is room.
    fn ask(&mut self, id: u32, command: Command) -> bool {
        loop {
            let now_ps = self.now_ps;
            let taken = match command {
                Command::Access { request, ahead: Some(ahead), .. } => {
                    self.device.submit_ahead(now_ps, request, ahead)
                }
                Command::Access { request, manner, .. } => {
                    self.device.submit_as(now_ps, request, manner)
                }
                Command::Control(control) => self.device.submit_control(now_ps, id, control),
                Command::Cut => return self.cut(),
            };
            if taken.is_ok() {
                self.take(id, command);
                return true;
            }
            let next_ps = self.device.next_event_ps();
            let next_ps = next_ps.unwrap_or_else(|| panic!("{command:?} is refused for ever"));
            if !self.advance(next_ps) {
                return false;
            }
        }
    }

    fn take(&mut self, id: u32, command: Command) {
        self.happened += 1;
        let number = self.happened;
        let page_bytes = self.page_bytes;
        let mut open = Open {
            at_ps: self.now_ps,
            pages: Vec::new(),
            forced: false,
            is_flush: false,
            number,
            early: 0,
            ahead: false,
        };
        let (mut first, mut content) = (0, 0);
        match command {
            Command::Access { request, manner, ahead } => {
                first = request.address / page_bytes;
                let end = (request.address + u64::from(request.bytes)).div_ceil(page_bytes);
                let early = ahead.is_none() && manner.pages.is_some();
                open.early = if early { (end - first) as u32 } else { 0 };
                open.ahead = ahead.is_some();
                (open.forced, content) = (manner.force_unit_access, manner.content);
                if request.write {
                    open.pages = (first..end).collect();
                }
            }
            // Of what lies in part within, nothing is forgotten; what is, may come back.
            Command::Control(Control::Trim { address, bytes }) => {
                let end = (address + bytes) / page_bytes;
                open.pages = (address.div_ceil(page_bytes)..end).collect();
            }
            Command::Control(Control::Flush) => open.is_flush = true,
            Command::Cut => {}
        }
        let trims = matches!(command, Command::Control(_));
        for &page in &open.pages {
            let content = if trims { 0 } else { content + (page - first) };
            let change = Change { content, begun: number, answered: None, kept: false, trims };
            self.changes.entry(page).or_default().push(change);
        }
        self.open.insert(id, open);
        assert_eq!(self.device.in_flight(), self.open.len(), "in flight");
    }

    /// Power fails, and comes back.
    fn cut(&mut self) -> bool {
        if !self.follows {
            return true;
        }
        let outage = self.device.cut_power(self.now_ps);
        writeln!(self.told, "cut {} {outage:?}", self.now_ps).unwrap();
        (self.was_cut, self.last_ps) = (true, self.now_ps);
        // Who was writing, or in a page that was, may find it torn.
        self.open.clear();
        assert_eq!(self.device.in_flight(), 0, "after a failure of power");
        if !self.advance(self.now_ps.saturating_add(outage.ready_ps)) {
            return false;
        }
        for (page, changes) in &mut self.changes {
            let content = self.device.content(page * self.page_bytes);
            let newest = |it: &&Change| it.kept;
            let kept: Vec<Change> = changes.iter().filter(newest).copied().collect();
            // What was over before something that is kept had begun cannot come back.
            let gone = |begun: u64, answered: Option<u64>| {
                kept.iter().any(|it| answered.is_some_and(|at| at < it.begun) && it.begun > begun)
            };
            let mut may: BTreeSet<Content> = changes
                .iter()
                .filter(|it| !gone(it.begun, it.answered))
                .map(|it| it.content)
                .collect();
            if kept.is_empty() {
                may.insert(0);
            }
            let known =
                content == 0 || content == LOST || changes.iter().any(|it| it.content == content);
            assert!(known, "page {page} holds {content}, which was never written to it");
            let holds = may.contains(&content) || outage.short;
            assert!(holds, "page {page} holds {content}, after {changes:?}");
            let now = self.happened;
            let answered = Some(now);
            *changes = vec![Change { content, begun: now, answered, kept: true, trims: false }];
            writeln!(self.told, "{page} {content}").unwrap();
        }
        true
    }

    /// Goes on until nothing is left to do.
    fn drain(&mut self) -> bool {
        while let Some(next_ps) = self.device.next_event_ps() {
            if !self.advance(next_ps) {
                return false;
            }
        }
        assert!(self.open.is_empty(), "{:?} is never answered", self.open);
        true
    }

    /// What the drive counts agrees.
    fn check_counts(&mut self, spec: &SystemSpec, script: &Script) {
        let activity = self.device.activity(self.now_ps);
        writeln!(self.told, "{activity:?}").unwrap();
        let (Some(report), Some(ssd)) = (activity.drive.as_deref(), &spec.ssd) else { return };
        if self.was_cut {
            return;
        }
        let page_units = ssd.nand.page.bytes() * u64::from(ssd.split) / ssd.page.bytes();
        let it = report.translation;
        let units = it.host_units + it.moved_units + it.map_units + it.padded_units;
        assert_eq!(units % page_units, 0, "{it:?}");
        let programs = units / page_units * u64::from(ssd.split);
        assert_eq!(report.nand.programs, programs, "pages programmed, {it:?}");
        assert_eq!(report.nand.erases, it.erases * u64::from(ssd.split), "erases, {it:?}");
        if ssd.raid.is_some() {
            return;
        }
        let pages = |write: bool| -> u64 {
            let of = |(_, command): &(u64, Command)| match command {
                Command::Access { request, .. } if request.write == write => {
                    let end = request.address + u64::from(request.bytes);
                    end.div_ceil(self.page_bytes) - request.address / self.page_bytes
                }
                _ => 0,
            };
            script.iter().map(of).sum()
        };
        let host = (report.host.read_pages, report.host.written_pages);
        assert_eq!(host, (pages(false), pages(true)), "pages that the host moved");
        let most = pages(true);
        assert!(ssd.log.is_some() || it.host_units <= most, "{} of {most} written", it.host_units);
    }
}

/// Plays a script; what was told. `cuts` says at which step time is cut finely and a fork goes on alone.
fn play(spec: &SystemSpec, script: &Script, mut cuts: Option<Numbers>) -> String {
    let (store, link) = parts(spec);
    let follow = script.iter().any(|(_, command)| matches!(command, Command::Cut));
    let mut run = Run::new(store, link, follow);
    let takes = run.device.takes_control();
    let forks_at = cuts.as_mut().map(|n| n.from(0, script.len() as u64));
    for (number, &(gap_ps, command)) in (0..).zip(script) {
        if Some(u64::from(number)) == forks_at {
            let fork = run.device.fork();
            let mut other = std::mem::replace(&mut run.device, fork);
            spoil(&mut other, run.now_ps, store.capacity().bytes());
        }
        let until_ps = run.now_ps + gap_ps;
        while let Some(next_ps) = run.device.next_event_ps().filter(|at_ps| *at_ps <= until_ps) {
            let before_ps = next_ps.saturating_sub(1);
            if before_ps > run.now_ps && cuts.as_mut().is_some_and(|n| n.one_in(4)) {
                run.advance(before_ps);
            }
            if !run.advance(next_ps) {
                return run.told;
            }
        }
        if !run.advance(until_ps) {
            return run.told;
        }
        if matches!(command, Command::Control(_)) && !takes {
            continue;
        }
        if !run.ask(number, command) {
            return run.told;
        }
    }
    if run.drain() {
        run.check_counts(spec, script);
        if follow {
            run.cut();
        }
    }
    run.told
}

/// The other of two forks goes on, with writes of its own.
fn spoil(device: &mut AnyDevice, now_ps: u64, capacity: u64) {
    let mut at_ps = now_ps;
    for n in 0..20u32 {
        let address = u64::from(n) * 40_503 % capacity;
        let bytes = (capacity - address).min(512) as u32;
        let request = Request { id: u32::MAX - n, address, bytes, write: true, background: false };
        let _ = device.submit(at_ps, request);
        let Some(next_ps) = device.next_event_ps().filter(|at_ps| *at_ps <= MOST_TIME_PS) else {
            return;
        };
        at_ps = next_ps.max(at_ps);
        device.advance(at_ps, &mut Vec::new());
    }
}

/// What came of a description.
#[derive(PartialEq, Eq)]
enum Outcome {
    Refused,
    Checked,
    Played,
}

/// A drive offers half as much; whether that is anything.
fn halve_capacity(sets: &mut Sets) -> bool {
    let Some((_, value)) = sets.iter_mut().find(|(path, _)| path == "ssd.capacity") else {
        return false;
    };
    // Whole pages, whatever their size.
    let bytes = value.trim_end_matches('B').parse::<u64>().unwrap_or(0) / (32 << 10) * (16 << 10);
    *value = format!("{bytes}B");
    bytes > 0
}

/// Draws a description and a script, and plays it.
fn attempt(name: &str, seed: u64) -> Outcome {
    let mut n = Numbers::new(seed, name);
    let mut sets = drawn(name, &mut n);
    let wild = n.one_in(4);
    if wild {
        made_wild(name, &mut sets, &mut n);
    }
    let mut loaded = spec::load(name, &sets);
    // Often it is only that collection needs more room.
    for _ in 0..4 {
        if wild || loaded.is_ok() || !halve_capacity(&mut sets) {
            break;
        }
        loaded = spec::load(name, &sets);
    }
    let spec = match loaded {
        Ok(resolved) => resolved.spec,
        Err(problems) => {
            assert!(!problems.to_string().trim().is_empty(), "a refusal says nothing");
            return Outcome::Refused;
        }
    };
    let (store, _) = parts(&spec);
    let flash = spec.ssd.as_ref().map_or(0, |ssd| {
        let drives = ssd.raid.as_ref().map_or(1, |raid| u128::from(raid.drives));
        // Numbers of blocks take memory, whatever they hold.
        (ssd.nand.bytes() + u128::from(ssd.nand.blocks) * 65_536) * drives
    });
    if store.capacity().bytes() > MOST_BYTES || flash > u128::from(MOST_BYTES) {
        return Outcome::Checked;
    }
    let script = script(store, &mut n);
    let told = play(&spec, &script, None);
    let again = play(&spec, &script, Some(Numbers::new(seed, "cuts")));
    let differs = told.lines().zip(again.lines()).find(|(one, other)| one != other);
    assert!(told == again, "with time cut and a fork it goes on otherwise: {differs:?}");
    Outcome::Played
}

/// Why an attempt failed, if it did.
fn fault(name: &str, seed: u64) -> Result<Outcome, String> {
    let begun = Instant::now();
    let done = catch_unwind(AssertUnwindSafe(|| attempt(name, seed))).map_err(|why| {
        let text = why.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| why.downcast_ref::<&str>().copied()).unwrap_or("no word").to_owned()
    })?;
    match begun.elapsed() {
        taken if taken > MOST_TIME => Err(format!("it takes {} s", taken.as_secs())),
        _ => Ok(done),
    }
}

#[test]
fn devices_of_any_description_keep_their_laws_under_any_commands() {
    let said = |name: &str| std::env::var(name).ok().filter(|said| !said.is_empty());
    let number = |name: &str| said(name).map(|it| it.parse::<u64>().expect("it is a number"));
    let first = number("TIERSCOPE_FUZZ_SEED").unwrap_or(1);
    let only = said("TIERSCOPE_FUZZ_ONLY").unwrap_or_default();
    let devices: Vec<_> = DEVICES.iter().filter(|name| name.contains(&only)).collect();
    assert!(!devices.is_empty() || !only.starts_with("device"), "no device's name contains {only}");
    if let Some(seed) = number("TIERSCOPE_FUZZ_INPUT") {
        let name = devices[0];
        let sets = drawn(name, &mut Numbers::new(seed, name));
        let sets: Vec<_> =
            sets.iter().map(|(path, value)| format!("--set {path}={value}")).collect();
        println!("-s {name} {}", sets.join(" "));
        attempt(name, seed);
        return;
    }
    let share = number("TIERSCOPE_FUZZ_SECONDS")
        .map(|it| Duration::from_secs(it) / devices.len().max(1) as u32);
    let mut faults = Vec::new();
    for name in devices {
        let begun = Instant::now();
        let (mut count, mut played) = (0u64, 0u64);
        while share.map_or(count < INPUTS, |share| begun.elapsed() < share) {
            // Seeds of different runs do not overlap.
            let seed = first << 32 | count;
            count += 1;
            match fault(name, seed) {
                Ok(outcome) => played += u64::from(outcome == Outcome::Played),
                Err(why) => faults.push(format!(
                    "{name}, input {seed}: {why}\n    again: TIERSCOPE_FUZZ_ONLY={name} \
                     TIERSCOPE_FUZZ_INPUT={seed} cargo test -p tierscope-system --test fuzz -- --nocapture"
                )),
            }
            if faults.len() > 4 {
                break;
            }
        }
        println!("{name}: {count} descriptions, of which {played} were played");
        assert!(count < 20 || played > count / 8, "{name}: of {count} only {played} are right");
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
