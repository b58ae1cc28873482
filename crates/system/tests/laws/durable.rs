//! Syncs of files that lie in main memory: what has returned is kept, and takes its time.

use crate::common::{ANONYMOUS, MAPPED, PAGE, Script, call};
use crate::crash::adversarial;
use crate::crash_files::stream;
use crate::thorough::of_many;
use std::sync::atomic::AtomicBool;
use tierscope_model::power::Weakness;
use tierscope_system::crash::{CrashError, CrashReport, Watch, crash};
use tierscope_system::result::SystemResult;
use tierscope_system::run::{Bound, RunOptions, Sampling, Warming, run_machines};
use tierscope_system::spec::{SystemSpec, load};
use tierscope_workload::op::{Call, MAP_SHARED, MAP_WRITABLE};
use tierscope_workload::{Op, Stream};

fn system(name: &str, sets: &[(&str, &str)]) -> SystemSpec {
    let sets: Vec<_> = sets.iter().map(|(key, to)| (key.to_string(), to.to_string())).collect();
    load(name, &sets).unwrap_or_else(|problems| panic!("{problems}")).spec
}

fn run(system: &SystemSpec, stream: Box<dyn Stream>, options: &RunOptions) -> SystemResult {
    let never = AtomicBool::new(false);
    let systems = std::slice::from_ref(system);
    let outcome = run_machines(systems, vec![stream], options, &(), &never).remove(0);
    assert!(!outcome.failed, "{:?}", outcome.partial_reason);
    outcome.result
}

const PAGES: u64 = 64;

/// A file that is written by calls, in parts of a page, and then forced by one, or not.
fn written(force: Option<Call>) -> Box<dyn Stream> {
    let mut ops = call(Call::Open { file: 1, size: 0 });
    for page in 0..PAGES {
        let (offset, length) = (page * PAGE, PAGE);
        ops.extend(call(Call::Write { file: 1, offset, length, address: ANONYMOUS }));
    }
    ops.extend(force.into_iter().flat_map(call));
    Script::stream(&[ops])
}

/// The same through a mapping.
fn mapped(force: Option<Call>) -> Box<dyn Stream> {
    let length = PAGES * PAGE;
    let flags = MAP_SHARED | MAP_WRITABLE;
    let map = Call::Map { address: MAPPED, length, flags, file: 1, offset: 0 };
    let mut ops = [call(Call::Open { file: 1, size: length }), call(map)].concat();
    ops.extend((0..PAGES).map(|page| Op::store(MAPPED + page * PAGE, 8, 10)));
    ops.extend(force.into_iter().flat_map(call));
    Script::stream(&[ops])
}

#[test]
fn what_forces_a_file_on_a_dram_cache_ends_when_the_store_has_every_dirty_page() {
    let hybrid = system("hybrid/quick", &[("hybrid.prefetch_pages", "0")]);
    let store = hybrid.store.as_ref().unwrap();
    let write_ps = store.write_latency.picoseconds();
    let units = u64::from(store.units);
    let range = Call::SyncRange { address: MAPPED, length: PAGES * PAGE };
    type Work = fn(Option<Call>) -> Box<dyn Stream>;
    for (work, force) in [
        (written as Work, Call::Sync { file: 1 }),
        (written, Call::SyncData { file: 1 }),
        (written, Call::SyncAll {}),
        (mapped, range),
    ] {
        let without = run(&hybrid, work(None), &RunOptions::default());
        let with = run(&hybrid, work(Some(force)), &RunOptions::default());
        assert_eq!(without.store_bytes.written, 0, "nothing is forced");
        assert!(with.store_bytes.written >= PAGES * PAGE, "{force:?}: {:?}", with.store_bytes);
        assert_eq!(count(&with, "dram_cache_flushes"), 1);
        let rounds = (with.store_bytes.written / PAGE).div_ceil(units);
        let took_ps = (with.time_s - without.time_s) * 1e12;
        assert!(took_ps > (rounds * write_ps) as f64, "{force:?}: {took_ps} ps");
        // Units are those of addresses: some have more of these pages than others.
        assert!(took_ps < (3 * rounds * write_ps) as f64, "{force:?}: {took_ps} ps");
        // The thread has waited for the store above all.
        let of_store = ["store_queue", "device", "medium", "link"];
        let waited_ns = of_store.map(|stage| spent(&with, stage) - spent(&without, stage));
        let waited_ps = waited_ns.iter().sum::<f64>() * 1e3;
        assert!(waited_ps > 0.8 * took_ps, "{force:?}: {waited_ps} of {took_ps} ps");
        assert!(with.notes.iter().all(|note| !note.contains("durab")), "{:?}", with.notes);
    }
}

#[test]
fn a_second_sync_of_what_is_clean_writes_nothing() {
    let hybrid = system("hybrid/quick", &[("hybrid.prefetch_pages", "0")]);
    let sync = || call(Call::Sync { file: 1 });
    let write = || {
        let (offset, length) = (0, PAGE);
        call(Call::Write { file: 1, offset, length, address: ANONYMOUS })
    };
    let of = |ops: Vec<Op>| run(&hybrid, Script::stream(&[ops]), &RunOptions::default());
    let once = of([call(Call::Open { file: 1, size: 0 }), write(), sync()].concat());
    let twice = of([call(Call::Open { file: 1, size: 0 }), write(), sync(), sync()].concat());
    let again =
        of([call(Call::Open { file: 1, size: 0 }), write(), sync(), write(), sync()].concat());
    // What the kernel has touched meanwhile is dirty as well: a few pages.
    let more = |other: &SystemResult| other.store_bytes.written - once.store_bytes.written;
    assert!(more(&again) > more(&twice), "{} {}", more(&again), more(&twice));
    assert!(more(&twice) <= 2 * PAGE, "{}", more(&twice));
}

#[test]
fn memory_that_keeps_what_it_has_is_sent_what_caches_have_of_the_file_and_nothing_else_is_awaited()
{
    for name in
        ["nvdimm/quick", "hams-le/quick", "hams-tp/quick", "optane-p/quick", "flatflash-p/quick"]
    {
        let system = system(name, &[]);
        let without = run(&system, written(None), &RunOptions::default());
        let with = run(&system, written(Some(Call::Sync { file: 1 })), &RunOptions::default());
        // Lines that the last writes have left in the caches; each of their pages is gone through.
        let lines = count(&with, "cache_flush_writes");
        assert!(lines > 0 && count(&without, "cache_flush_writes") == 0, "{name}: {lines}");
        assert!(count(&with, "cache_flushes") >= lines, "{name}");
        assert_eq!(count(&with, "context_switches"), count(&without, "context_switches"), "{name}");
        assert!(!with.counters.contains_key("dram_cache_flushes"), "{name}");
        assert!(with.notes.iter().all(|note| !note.contains("durab")), "{name}: {:?}", with.notes);
    }
}

#[test]
fn who_gives_no_durability_says_so_and_takes_the_kernels_path_only() {
    let volatile = [("ssd.buffer.capacitors", "false")];
    for (name, sets, flushes) in [
        ("oracle/quick", &[][..], false),
        ("optane-m/quick", &[], false),
        ("hybrid/quick", &[("hybrid.flush_at_sync", "false")], false),
        ("cxl-tiering/quick", &[], false),
        ("flatflash-p/quick", &volatile, true),
        ("hams-le/quick", &volatile, true),
    ] {
        let result =
            run(&system(name, sets), written(Some(Call::Sync { file: 1 })), &RunOptions::default());
        let said = result.notes.iter().any(|note| note.contains("give no durability"));
        assert!(said, "{name}: {:?}", result.notes);
        assert_eq!(count(&result, "cache_flushes") > 0, flushes, "{name}");
    }
}

fn fail(name: &str, weaken: &[Weakness]) -> Result<CrashReport, CrashError> {
    let sets: &[_] = match name {
        "hybrid/quick" => &[("hybrid.cache.capacity", "2MiB")],
        "hybrid/alloy/quick" => &[("hybrid.flush_at_sync", "true")],
        "flatflash-m/quick" => &[
            ("tiered.promotion.capacity", "1MiB"),
            ("tiered.promotion.most_threshold", "2"),
            ("tiered.promotion.counted_pages", "64"),
        ],
        _ => &[],
    };
    let system = system(name, sets);
    crash(
        &system,
        stream(of_many(12, 40), 1),
        &adversarial(of_many(40, 150), weaken),
        &Watch::default(),
    )
}

const KEEPING: [&str; 7] = [
    "hybrid/quick",
    "hybrid/alloy/quick",
    "nvdimm/quick",
    "hams-te/quick",
    "hams-lp/quick",
    "optane-p/quick",
    "flatflash-m/quick",
];

#[test]
fn what_was_synced_in_main_memory_is_there_after_any_failure_of_power() {
    for name in KEEPING {
        let report = fail(name, &[]).unwrap();
        assert!(report.holds(), "{name}: {:?}", report.failing);
        assert!(report.syncs.is_some_and(|syncs| syncs > 0), "{name}: {report:?}");
        assert!(report.promised_lines > 0, "{name}");
    }
}

#[test]
fn a_sync_that_leaves_lines_in_the_caches_or_does_not_wait_for_the_flush_is_found() {
    for name in KEEPING {
        let report = fail(name, &[Weakness::NoLineWriteBack]).unwrap();
        assert!(!report.holds(), "{name} loses nothing");
    }
    assert!(!fail("hybrid/quick", &[Weakness::EarlyCompletion]).unwrap().holds());
    for name in ["oracle/quick", "storage/ext4"] {
        let refused = fail(name, &[Weakness::NoLineWriteBack]);
        assert!(matches!(refused, Err(CrashError::MeansNothing(..))), "{name}: {refused:?}");
    }
}

/// Some rounds of writes and syncs, in one thread or in several that sync at once.
fn rounds(threads: u32, turns: u64) -> Box<dyn Stream> {
    let work = |thread: u32| {
        let mut ops: Vec<Op> = match thread {
            0 => (1..threads).flat_map(|thread| call(Call::Spawn { thread })).collect(),
            _ => Vec::new(),
        };
        let file = 1 + thread;
        ops.extend(call(Call::Open { file, size: 0 }));
        for turn in 0..turns {
            let (offset, length) = (turn % 40 * PAGE, PAGE);
            let address = ANONYMOUS + u64::from(thread) * (1 << 20);
            ops.extend((0..64).map(|line| Op::store(address + line * 64, 8, 20)));
            ops.extend(call(Call::Write { file, offset, length, address }));
            if turn % 5 == 4 {
                ops.extend(call(Call::SyncData { file }));
            }
        }
        ops
    };
    Script::stream(&(0..threads).map(work).collect::<Vec<_>>())
}

#[test]
fn threads_that_sync_at_once_share_a_flush() {
    let hybrid = system("hybrid/quick", &[("hybrid.prefetch_pages", "0")]);
    let of = |threads| run(&hybrid, rounds(threads, 40), &RunOptions::default());
    let (one, four) = (of(1), of(4));
    assert_eq!((count(&one, "dram_cache_flushes"), count(&four, "dram_cache_flushes")), (8, 32));
    assert!(four.time_ps < 3 * one.time_ps, "{} {}", one.time_ps, four.time_ps);
}

/// Warmed functionally, the same is counted as in detail where one thread writes and syncs.
#[test]
fn a_sync_warms_what_it_leaves_and_can_be_sampled() {
    for (name, sets) in [
        ("hybrid/quick", &[("hybrid.prefetch_pages", "0")][..]),
        ("flatflash-m/quick", &[("tiered.promotion.most_threshold", "1")]),
        ("nvdimm/quick", &[]),
        ("hams-te/quick", &[]),
    ] {
        let system = system(name, sets);
        let start = 1_500;
        let after = |warming| {
            let options = RunOptions {
                start: Some(Bound::Accesses(start)),
                warming,
                ..RunOptions::default()
            };
            run(&system, rounds(1, 60), &options)
        };
        let (functional, detailed) = (after(Warming::Functional), after(Warming::Detailed));
        assert_eq!(functional.skipped.as_ref().unwrap().accesses, start);
        for counter in ["cache_flushes", "cache_flush_writes", "dram_cache_flushes", "system_calls"]
        {
            assert_eq!(count(&functional, counter), count(&detailed, counter), "{name} {counter}");
        }
        let bytes = |result: &SystemResult| result.store_bytes.written;
        assert_eq!(bytes(&functional), bytes(&detailed), "{name}");
        if system.ssd.is_some() {
            continue; // What their drives do by themselves wants units of milliseconds.
        }
        let sampling = Some(Sampling { unit_ps: Some(20_000_000), every: Some(4) });
        let sampled =
            run(&system, rounds(1, 4000), &RunOptions { sampling, ..RunOptions::default() });
        let whole = run(&system, rounds(1, 4000), &RunOptions::default());
        for counter in ["dram_cache_flushes", "system_calls"] {
            assert_eq!(count(&sampled, counter), count(&whole, counter), "{name} {counter}");
        }
    }
}

/// Between units a flush takes as long as the store's units need for what is dirty, as in detail: so the time and what is
/// written come near those of the complete run.
#[test]
fn a_sampled_run_tells_what_syncs_take() {
    for (name, sets, turns, unit_ps) in [
        ("hybrid/quick", &[("hybrid.prefetch_pages", "0")][..], 6_000, 1_000_000_000),
        ("nvdimm/quick", &[], 20_000, 50_000_000),
    ] {
        let system = system(name, sets);
        let sampling = Some(Sampling { unit_ps: Some(unit_ps), every: Some(8) });
        let of = |options: &RunOptions| run(&system, rounds(1, turns), options);
        let whole = of(&RunOptions::default());
        let sampled = of(&RunOptions { sampling, ..RunOptions::default() });
        let told = sampled.sampling.clone().unwrap();
        let off = sampled.time_s / whole.time_s - 1.0;
        let half = told.half_widths.time.unwrap_or_else(|| panic!("{name}: {told:?}"));
        assert!(off.abs() < half + 0.05, "{name}: {off:+.3} of {half:.3}");
        let calls = |result: &SystemResult| count(result, "system_calls");
        assert_eq!(calls(&sampled), calls(&whole), "{name}");
        let written = |result: &SystemResult| result.store_bytes.written as f64;
        if written(&whole) > 0.0 {
            let off = written(&sampled) / written(&whole) - 1.0;
            assert!(off.abs() < 0.05, "{name}: written {off:+.3}");
        }
    }
}

fn count(result: &SystemResult, name: &str) -> u64 {
    result.counters.get(name).copied().unwrap_or(0)
}

fn spent(result: &SystemResult, owner: &str) -> f64 {
    result.time_breakdown_ns.get(owner).copied().unwrap_or(0.0)
}
