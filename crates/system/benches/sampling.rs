//! Sampled runs against complete ones: what they are off by, whether their intervals hold it, and how
//! much quicker they are.
//!
//! `cargo bench -p tierscope-system --bench sampling [-- [smoke] [--seeds N] [--first-seed N] [--draws N] [--memory-mib N]
//! [--accesses N] [PART OF A NAME]]`; prints one JSON object a run, sampled with each of the seeds, which decide where units
//! lie. What intervals are made of was set by the seeds from 1 on, workloads of draws 1 and 16 MiB; runs with others judge it.

#[path = "../tests/laws/sampling/work.rs"]
mod work;

use std::sync::atomic::AtomicBool;
use tierscope_system::result::{DriveResult, SystemResult};
use tierscope_system::run::{Bound, RunOptions, Sampling, Warming, run_machines};
use tierscope_system::spec::{SystemSpec, load};

const MIB: u64 = 1 << 20;
/// `plain` is `hybrid` without prefetches, and `hams-le-large` has the pages of 128 KiB of its preset; names that end in
/// `ahead` have a prefetcher of lines at each core, into the shared cache, and those in `own` into the core's own.
const MACHINES: [&str; 19] = [
    "oracle",
    "hybrid",
    "plain",
    "storage",
    "hams-le",
    "hams-le-large",
    "mmap",
    "cxl-ssd",
    "flatflash-m",
    "disk",
    "disk-raid",
    "haste",
    "ddr-block",
    "oracle-ahead",
    "plain-ahead",
    "cxl-ssd-ahead",
    "oracle-own",
    "plain-own",
    "cxl-ssd-own",
];
/// As the streamer of the processors that the module of prefetchers names.
const AHEAD: &str =
    "{ kind = \"stream\", degree = 2, distance = 20, trackers = 32, outstanding = 16 }";
const OWN: &str = "{ kind = \"stream\", degree = 2, distance = 20, trackers = 32, outstanding = 16, \
                   into = \"private\" }";
/// Accesses after which a complete run ends, if it has not come to its simulated time.
const MOST_ACCESSES: u64 = 20_000_000;

/// Quick presets with so little DRAM that three quarters of the memory do not fit, and on-chip caches
/// in proportion.
fn machine(name: &str, seed: u64) -> SystemSpec {
    let l2 = ("processor.caches.1.capacity", "512KiB");
    let l3 = ("processor.caches.2.capacity", "512KiB");
    let (name, ahead) = match name.rsplit_once('-') {
        Some((name, "ahead")) => (name, Some(("processor.prefetch", AHEAD))),
        Some((name, "own")) => (name, Some(("processor.prefetch", OWN))),
        _ => (name, None),
    };
    let sets: &[(&str, &str)] = match name {
        "hybrid" => &[l3, ("hybrid.cache.capacity", "4MiB")],
        "plain" => &[l3, ("hybrid.cache.capacity", "4MiB"), ("hybrid.prefetch_pages", "0")],
        "storage" | "disk" | "disk-raid" | "haste" | "ddr-block" => {
            &[l3, ("storage.dram_capacity", "6MiB")]
        }
        "hams-le-large" => &[l2, ("hams.capacity", "10MiB"), ("dram.backup.module", "10MiB")],
        "hams-le" => &[
            l2,
            ("hams.page", "4KiB"),
            ("hams.capacity", "5MiB"),
            ("hams.pinned", "1MiB"),
            ("dram.backup.module", "5MiB"),
        ],
        "mmap" => &[l2, ("storage.dram_capacity", "6MiB")],
        "cxl-ssd" => &[
            ("processor.caches.1.capacity", "256KiB"),
            ("processor.caches.2.capacity", "480KiB"),
            ("ssd.buffer.capacity", "4MiB"),
            ("ssd.buffer.dirty", "512KiB"),
        ],
        "flatflash-m" => &[
            ("processor.caches.1.capacity", "256KiB"),
            ("tiered.promotion.capacity", "4MiB"),
            ("ssd.buffer.capacity", "4MiB"),
            ("ssd.buffer.dirty", "512KiB"),
        ],
        _ => &[l3],
    };
    let sets = sets.iter().chain(&ahead).map(|(key, value)| (key.to_string(), value.to_string()));
    let sets: Vec<_> = sets.chain([("seed".to_owned(), seed.to_string())]).collect();
    let preset = match name {
        "plain" => "hybrid/quick",
        "disk" => "storage/disk-7200",
        "disk-raid" | "haste" | "ddr-block" => name,
        "hams-le-large" => "hams-le/quick",
        _ => &format!("{name}/quick"),
    };
    load(preset, &sets).unwrap_or_else(|problems| panic!("{problems}")).spec
}

fn run(
    name: &str,
    (work_name, bytes, draws): (&str, u64, u64),
    seed: u64,
    options: &RunOptions,
) -> SystemResult {
    let stream = work::work(work_name, bytes, draws);
    let never = AtomicBool::new(false);
    let outcome =
        run_machines(&[machine(name, seed)], vec![stream], options, &(), &never).remove(0);
    assert!(!outcome.failed, "{:?}", outcome.partial_reason);
    outcome.result
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let smoke = arguments.iter().any(|one| one == "smoke");
    let number = |name: &str| {
        let at = arguments.iter().position(|one| one == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    let seeds = number("--seeds").unwrap_or(if smoke { 1 } else { 5 });
    let first_seed = number("--first-seed").unwrap_or(1);
    let (bytes, draws) =
        (number("--memory-mib").unwrap_or(16) * MIB, number("--draws").unwrap_or(1));
    let most_accesses = number("--accesses").unwrap_or(MOST_ACCESSES);
    let unit_ps = number("--unit-us").map(|us| us * 1_000_000);
    let only: Vec<_> =
        arguments.iter().filter(|one| *one != "smoke" && !one.starts_with("--")).collect();
    let wanted = |name: &str| {
        let parts = only.iter().filter(|part| part.parse::<u64>().is_err());
        parts.clone().count() == 0 || parts.clone().any(|part| name.contains(part.as_str()))
    };
    // Disks take as much longer for a page.
    let limit_ps = |name: &str| match (smoke, name.starts_with("disk")) {
        (true, _) => 10_000_000_000,
        (false, false) => 3_000_000_000_000,
        (false, true) => 600_000_000_000_000,
    };
    for (work_name, _) in work::WORKLOADS {
        for name in MACHINES {
            if !wanted(&format!("{name}: {work_name}")) {
                continue;
            }
            let stops = vec![Bound::TimePs(limit_ps(name)), Bound::Accesses(most_accesses)];
            let work = (work_name, bytes, draws);
            let whole = run(name, work, 1, &RunOptions { stops, ..RunOptions::default() });
            for seed in first_seed..first_seed + seeds {
                let every = number("--every").or(smoke.then_some(3));
                let sampling = Some(Sampling { unit_ps, every });
                let stops = vec![Bound::Accesses(whole.accesses)];
                // Where a DRAM cache prefetches, else as any.
                let warming = Warming::Untimed;
                let options = RunOptions { stops, sampling, warming, ..RunOptions::default() };
                let sampled = run(name, work, seed, &options);
                tell(name, work_name, seed, &whole, &sampled);
            }
        }
    }
}

fn tell(name: &str, work_name: &str, seed: u64, whole: &SystemResult, sampled: &SystemResult) {
    let Some(told) = &sampled.sampling else {
        return println!(
            "{{\"machine\": \"{name}\", \"workload\": \"{work_name}\", \"seed\": {seed}, \"units\": 0}}"
        );
    };
    let off = |of: fn(&SystemResult) -> f64| of(sampled) / of(whole) - 1.0;
    let of_latency = |one: &SystemResult| one.latency_ns.as_ref().map_or(0.0, |it| it.mean);
    let percent = |share: Option<f64>| {
        share.map_or("null".to_owned(), |share| format!("{:.3}", 100.0 * share))
    };
    let counted = |counter: &str| {
        let of = |one: &SystemResult| one.counters.get(counter).copied().unwrap_or(0) as f64;
        if of(whole) == 0.0 { None } else { Some(of(sampled) / of(whole) - 1.0) }
    };
    let of_drive = |of: fn(&DriveResult) -> u64| {
        let count = |one: &SystemResult| one.drive.as_ref().map_or(0.0, |drive| of(drive) as f64);
        percent((count(whole) > 0.0).then(|| count(sampled) / count(whole) - 1.0))
    };
    let half = told.half_widths;
    println!(
        "{{\"machine\": \"{name}\", \"workload\": \"{work_name}\", \"seed\": {seed}, \
         \"simulated_s\": {:.4}, \"accesses\": {}, \"units\": {}, \"detailed_percent\": {:.2}, \
         \"time_off_percent\": {}, \"time_half_percent\": {}, \"latency_off_percent\": {}, \
         \"latency_half_percent\": {}, \"energy_off_percent\": {}, \"energy_half_percent\": {}, \
         \"miss_rate\": {:.5}, \"miss_rate_off_percent\": {}, \"miss_rate_half_percent\": {}, \
         \"store_read_off_percent\": {}, \"memory_reads_off_percent\": {}, \
         \"prefetches_off_percent\": {}, \"faults_off_percent\": {}, \"programs_off_percent\": {}, \"erases_off_percent\": {}, \
         \"flash_reads_off_percent\": {}, \"moved_percent\": {}, \"moved_off_percent\": {}, \
         \"flushed_off_percent\": {}, \"host_writes_off_percent\": {}, \"complete_wall_s\": {:.2}, \"sampled_wall_s\": {:.2}}}",
        whole.time_s,
        whole.accesses,
        told.units,
        100.0 * told.detailed_share,
        percent(Some(off(|one| one.time_s))),
        percent(half.time),
        percent(Some(of_latency(sampled) / of_latency(whole) - 1.0)),
        percent(half.mean_latency),
        percent(Some(off(|one| one.energy.total_j.unwrap_or(0.0)))),
        percent(half.energy),
        whole.miss_rate,
        percent((whole.miss_rate > 0.0).then(|| off(|one| one.miss_rate))),
        percent(half.miss_rate),
        percent((whole.store_bytes.read > 0).then(|| off(|one| one.store_bytes.read as f64))),
        percent(counted("memory_reads")),
        percent(counted("line_prefetches")),
        percent(counted("faults")),
        of_drive(|drive| drive.flash_programs),
        of_drive(|drive| drive.flash_erases),
        of_drive(|drive| drive.flash_reads),
        percent(
            sampled
                .drive
                .as_ref()
                .filter(|drive| drive.flash_programs > 0)
                .map(|drive| { drive.moved_pages as f64 / drive.flash_programs as f64 })
        ),
        of_drive(|drive| drive.moved_pages),
        of_drive(|drive| drive.flushed_pages),
        of_drive(|drive| drive.host_written_pages),
        whole.wall_s,
        sampled.wall_s,
    );
}
