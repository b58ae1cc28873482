//! Machines with changes, and exact sums of what a run gave.

pub use crate::common::{ANONYMOUS, MAPPED, PAGE, Script, call};

use std::collections::BTreeMap;
use tierscope_system::machine::{Machine, MachineError};
use tierscope_system::result::SystemResult;
use tierscope_system::run::RunOptions;
use tierscope_system::spec::{SystemSpec, load};
use tierscope_workload::op::FLAG_DEPENDENT;
use tierscope_workload::{Op, Stream};

/// Bytes of a line of the on-chip caches.
pub const LINE: u64 = 64;

/// Changes of a description: paths and values, as `--set` takes them.
pub type Sets<'a> = &'a [(&'a str, &'a str)];

/// A preset with changes.
pub fn system(name: &str, changes: &[Sets<'_>]) -> SystemSpec {
    let all = changes.iter().flat_map(|sets| sets.iter());
    let all: Vec<_> = all.map(|(path, value)| (path.to_string(), value.to_string())).collect();
    load(name, &all).unwrap_or_else(|problems| panic!("{name}: {problems}")).spec
}

/// What a run gave, its means turned back into exact sums.
#[derive(Clone, Debug)]
pub struct Sums {
    /// Simulated time.
    pub time_ps: u64,
    /// Accesses of the program.
    pub accesses: u64,
    /// Sum of their latencies.
    pub latency_ps: u64,
    /// The same by stage.
    pub stages_ps: BTreeMap<String, u64>,
    /// Everything, but for the wall clock.
    pub result: SystemResult,
}

impl Sums {
    /// What was counted under this name.
    pub fn counter(&self, name: &str) -> u64 {
        *self.result.counters.get(name).unwrap_or_else(|| panic!("no counter is called {name}"))
    }

    /// Time of all accesses in this stage.
    pub fn stage_ps(&self, name: &str) -> u64 {
        self.stages_ps.get(name).copied().unwrap_or(0)
    }

    /// What this run has above `before`.
    pub fn minus(&self, before: &Sums) -> More {
        let names = self.stages_ps.keys().chain(before.stages_ps.keys());
        let stages_ps = names
            .map(|name| (name.clone(), self.stage_ps(name) - before.stage_ps(name)))
            .filter(|(_, time_ps)| *time_ps > 0)
            .collect();
        More {
            time_ps: self.time_ps - before.time_ps,
            accesses: self.accesses - before.accesses,
            latency_ps: self.latency_ps - before.latency_ps,
            stages_ps,
        }
    }
}

/// What a run has above another one that is its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct More {
    pub time_ps: u64,
    pub accesses: u64,
    pub latency_ps: u64,
    pub stages_ps: BTreeMap<String, u64>,
}

/// Runs a workload to its end, and checks the laws that hold for every run.
pub fn run(spec: &SystemSpec, threads: &[Vec<Op>]) -> Sums {
    run_stream(spec, Script::stream(threads))
}

/// The same for any stream.
pub fn run_stream(spec: &SystemSpec, stream: Box<dyn Stream>) -> Sums {
    let name = &spec.name;
    try_run_stream(spec, stream).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The same, or `None` where the machine cannot serve the workload.
pub fn try_run(spec: &SystemSpec, threads: &[Vec<Op>]) -> Option<Sums> {
    try_run_stream(spec, Script::stream(threads)).ok()
}

fn try_run_stream(spec: &SystemSpec, stream: Box<dyn Stream>) -> Result<Sums, MachineError> {
    let mut machine = Machine::new(spec, stream, &RunOptions::default())?;
    assert!(machine.run(|_| false)?, "nothing paused it");
    machine.check_conservation().unwrap();
    Ok(sums(machine.result()))
}

fn sums(result: SystemResult) -> Sums {
    assert_eq!(result.counters["stale_loads"], 0);
    let count = result.accesses as f64;
    let exact = |mean_ns: f64| (mean_ns * 1e3 * count).round() as u64;
    let stages_ps: BTreeMap<String, u64> =
        result.stages_ns.iter().map(|(name, mean_ns)| (name.clone(), exact(*mean_ns))).collect();
    let latency_ps = stages_ps.values().sum();
    let mean_ps = latency_ps as f64 / count.max(1.0);
    let told_ps = result.latency_ns.as_ref().map_or(0.0, |latency| latency.mean * 1e3);
    assert!((mean_ps - told_ps).abs() <= 1e-6 * mean_ps);
    for (kind, calls) in &result.calls {
        let stages_ns: f64 = calls.stages_ns.values().sum();
        let mean_ns = calls.latency_ns.mean;
        assert!((stages_ns - mean_ns).abs() <= 1e-6 * mean_ns, "{kind}: {stages_ns} of {mean_ns}");
    }
    let (time_ps, accesses) = (result.time_ps, result.accesses);
    Sums { time_ps, accesses, latency_ps, stages_ps, result }
}

/// Loads of these addresses, each dependent on the one before, `instructions` apart.
pub fn chase(addresses: &[u64], instructions: u32) -> Vec<Op> {
    let load = |address: &u64| Op::load(*address, 8, instructions).with_flags(FLAG_DEPENDENT);
    addresses.iter().map(load).collect()
}

/// Loads of these addresses that depend on nothing.
pub fn stream(addresses: &[u64], instructions: u32) -> Vec<Op> {
    addresses.iter().map(|address| Op::load(*address, 8, instructions)).collect()
}

/// `count` addresses from the start of anonymous memory, `step` bytes apart.
pub fn every(step: u64, count: u64) -> Vec<u64> {
    (0..count).map(|i| ANONYMOUS + i * step).collect()
}

/// `times` copies of `ops`.
pub fn repeat(ops: &[Op], times: usize) -> Vec<Op> {
    ops.repeat(times)
}

/// Numbers that look random and are the same everywhere (splitmix64; Steele, Lea and Flood,
/// OOPSLA 2014).
pub fn mixed(index: u64) -> u64 {
    let mut z = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Reclaim of single pages of files under a limit, as it is compared with Linux 6.18.
pub const RECLAIM_ALONE: Sets<'static> = &[
    ("storage.dram_capacity", "256MiB"),
    ("storage.reclaim", "active-inactive"),
    ("storage.swappiness", "0"),
    ("storage.readahead", "0B"),
    ("storage.largest_folio", "4KiB"),
];

/// No software cost at all.
pub const FREE_KERNEL: Sets<'static> = &[
    ("os.paths.fault", "{ instructions = 0, lines = 0 }"),
    ("os.paths.page_cache", "{ instructions = 0, lines = 0 }"),
    ("os.paths.file_system", "{ instructions = 0, lines = 0 }"),
    ("os.paths.block_layer", "{ instructions = 0, lines = 0 }"),
    ("os.paths.driver", "{ instructions = 0, lines = 0 }"),
    ("os.paths.interrupt", "{ instructions = 0, lines = 0 }"),
    ("os.paths.completion_interrupt", "{ instructions = 0, lines = 0 }"),
    ("os.paths.wake_up", "{ instructions = 0, lines = 0 }"),
    ("os.paths.context_switch", "{ instructions = 0, lines = 0 }"),
    ("os.paths.system_call", "{ instructions = 0, lines = 0 }"),
    ("os.paths.path_lookup", "{ instructions = 0, lines = 0 }"),
    ("os.paths.fork", "{ instructions = 0, lines = 0 }"),
    ("os.paths.fork_page", "{ instructions = 0, lines = 0 }"),
    ("os.paths.free_page", "{ instructions = 0, lines = 0 }"),
    ("os.paths.shootdown", "{ instructions = 0, lines = 0 }"),
    ("os.paths.shootdown_interrupt", "{ instructions = 0, lines = 0 }"),
];

/// Times that are whole nanoseconds, and no refresh: two machines that do the same at different
/// times then do it in exactly the same time.
pub const WHOLE_NANOSECONDS: Sets<'static> =
    &[("dram.data_rate", "2000MT/s"), ("dram.t_refi", "1000s")];

/// A link whose transfers take whole nanoseconds: 62.5 ps a byte.
pub const WHOLE_LINK: Sets<'static> = &[
    ("link.bandwidth", "16GB/s"),
    ("link.payload", "4KiB"),
    ("link.packet_overhead", "16B"),
    ("link.latency", "10ns"),
];

/// A shared cache so small that a few megabytes are beyond it, and a TLB that holds all pages.
pub const SMALL_L3: Sets<'static> = &[("processor.caches.L3.capacity", "1280KiB")];
pub const LARGE_TLB: Sets<'static> = &[("processor.tlb.entries", "65536")];

/// What a kernel was observed to do: the files committed in `tests/kernel`, or that which the environment names, if it has
/// been observed (`make kernel` goes on without what this computer cannot show).
pub fn observations<T: serde::de::DeserializeOwned>(variable: &str, committed: &[&str]) -> Vec<T> {
    let here = |file: &&str| format!("{}/../../tests/kernel/{file}", env!("CARGO_MANIFEST_DIR"));
    let files = match std::env::var(variable) {
        Ok(file) if std::path::Path::new(&file).exists() => vec![file],
        named => {
            named.into_iter().for_each(|file| println!("{file} was not observed"));
            committed.iter().map(here).collect()
        }
    };
    let read = |file: &String| {
        let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
    };
    files.iter().map(read).collect()
}

/// The same of one file.
pub fn observation<T: serde::de::DeserializeOwned>(variable: &str, committed: &str) -> T {
    observations(variable, &[committed]).remove(0)
}

/// How far a number lies outside those of the kernel's runs, in parts of the nearest of them, or of so many.
pub fn apart(model: u64, kernel: &[u64], least_whole: u64) -> f64 {
    let (least, most) = (kernel.iter().min().unwrap_or(&0), kernel.iter().max().unwrap_or(&0));
    let nearest = model.clamp(*least, *most);
    (model as f64 - nearest as f64) / nearest.max(least_whole) as f64
}
