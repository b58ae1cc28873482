//! Whole machines under generated workloads: the laws that hold whatever they do.

use crate::common::random::{PRIVATE, doing, script};
use crate::common::{ANONYMOUS, MAPPED, PAGE, Script, call};
use crate::thorough::of_many;
use proptest::prelude::*;
use std::slice::from_ref;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use tierscope_model::device::RamdiskSpec;
use tierscope_model::device::ramdisk::DelayKind;
use tierscope_model::organization::TieringSpec;
use tierscope_model::os::PathSpec;
use tierscope_model::os::buffer_cache::{BufferCacheSpec, HeldPages, Insertion, OnHit};
use tierscope_model::os::reclaim::ReclaimPolicy;
use tierscope_model::os::tiering::BalancingSpec;
use tierscope_model::processor::{LinePrefetchSpec, PrefetchInto, PrefetchKind};
use tierscope_model::replacement::PolicyKind;
use tierscope_system::machine::Machine;
use tierscope_system::result::{Interval, SystemResult};
use tierscope_system::run::{Bound, Observer, Progress, RunOptions, Warming, mark, run_machines};
use tierscope_system::spec::{SystemSpec, load};
use tierscope_units::{Bandwidth, Duration, Size};
use tierscope_workload::op::{Call, FLAG_DEPENDENT, MAP_HEAP, MAP_SHARED, MAP_WRITABLE, NO_FILE};
use tierscope_workload::{Op, Stream, generator};

const ALL: [&str; 3] = ["oracle/quick", "hybrid/quick", "storage/quick"];
/// The same without what keeps a machine from warming functionally.
const WARMING: [(&str, &str); 4] = [TIGHT[0], TIGHT[1], TIGHT[2], ("hybrid.prefetch_pages", "0")];
/// So little memory that a few hundred pages make every organization evict and write back.
const TIGHT: [(&str, &str); 4] = [
    ("processor.caches.L3.capacity", "320KiB"),
    ("hybrid.cache.capacity", "2MiB"),
    ("storage.dram_capacity", "4MiB"),
    ("check_data", "true"),
];

fn system(name: &str, sets: &[(&str, &str)]) -> SystemSpec {
    let organization = name.split('/').next().unwrap();
    let sets: Vec<_> = sets
        .iter()
        .filter(|(path, _)| {
            let first = path.split('.').next().unwrap();
            !["oracle", "hybrid", "storage"].contains(&first) || first == organization
        })
        .map(|(path, value)| (path.to_string(), value.to_string()))
        .collect();
    load(name, &sets).unwrap_or_else(|problems| panic!("{problems}")).spec
}

fn run_with(spec: &SystemSpec, stream: Box<dyn Stream>, options: &RunOptions) -> SystemResult {
    let stop = AtomicBool::new(false);
    let mut outcomes = run_machines(from_ref(spec), vec![stream], options, &(), &stop);
    let outcome = outcomes.remove(0);
    assert_eq!(outcome.partial_reason, None);
    without_wall_clock(outcome.result)
}

fn run(spec: &SystemSpec, stream: Box<dyn Stream>) -> SystemResult {
    run_with(spec, stream, &RunOptions::default())
}

fn prefetch() -> impl Strategy<Value = Option<LinePrefetchSpec>> {
    let kinds = [PrefetchKind::NextLine, PrefetchKind::Stride, PrefetchKind::Stream];
    let into = [PrefetchInto::Shared, PrefetchInto::Private];
    let some = (0..kinds.len(), 1..5u32, 0..20u32, 1..5u32, 1..9u32, 0..into.len()).prop_map(
        move |(kind, degree, more, trackers, outstanding, place)| LinePrefetchSpec {
            kind: kinds[kind],
            degree,
            distance: degree + more,
            trackers,
            outstanding,
            into: into[place],
        },
    );
    proptest::option::of(some)
}

fn with_prefetch(mut spec: SystemSpec, prefetch: &Option<LinePrefetchSpec>) -> SystemSpec {
    spec.processor.as_mut().unwrap().prefetch.clone_from(prefetch);
    spec
}

/// What makes another machine of one.
type Change = fn(SystemSpec) -> SystemSpec;

/// With a second level of the page cache, as small as the first.
fn with_buffer_cache(mut spec: SystemSpec) -> SystemSpec {
    let buffer_cache = BufferCacheSpec {
        capacity: Size::from_bytes(512 << 10),
        ways: 16,
        replacement: PolicyKind::Lru,
        read_slowdown: 40.0,
        program_slowdown: 100.0,
        read_time: None,
        program_time: None,
        on_hit: OnHit::Copy,
        insertion: Insertion::Synchronous,
        queue_pages: 8,
        readahead: HeldPages::Ignore,
    };
    spec.storage.iter_mut().for_each(|it| it.buffer_cache = Some(buffer_cache.clone()));
    spec
}

/// With its store in its own DRAM, in little room for what is under way.
fn in_dram(mut spec: SystemSpec) -> SystemSpec {
    let capacity = spec.store.as_ref().unwrap().capacity;
    (spec.store, spec.link) = (None, None);
    let ns = |ns: u64| Duration::from_picoseconds(ns * 1000);
    spec.ramdisk = Some(RamdiskSpec {
        capacity,
        page: Size::from_bytes(4096),
        read_latency: ns(300),
        write_latency: ns(700),
        dram_latency: ns(25),
        delays: DelayKind::Memory,
        lines: 5,
    });
    assert!(spec.check().is_empty(), "{}", spec.check());
    spec
}

/// Of two nodes of memory, so little DRAM that pages move all the time.
fn of_nodes(mut spec: SystemSpec) -> SystemSpec {
    let us = |us: u64| Duration::from_picoseconds(us * 1_000_000);
    let path = |instructions| PathSpec { instructions, lines: 2 };
    let rate = Bandwidth::from_bytes_per_second(1 << 40);
    spec.storage = None;
    spec.store.iter_mut().for_each(|store| {
        (store.page, store.read_latency, store.write_latency) =
            (Size::from_bytes(64), us(1), us(2));
    });
    spec.tiering = Some(TieringSpec {
        capacity: Size::from_bytes(5 << 18),
        host_queue_depth: 16,
        read_latency: us(0),
        write_latency: us(0),
        copy_lines: 4,
        balancing: Some(BalancingSpec {
            scan_delay: us(5),
            scan_period: us(100),
            scan_size: Size::from_bytes(64 << 10),
            scan_limit: rate,
            hot_threshold: us(500),
            threshold_period: us(60),
            promote_rate_limit: rate,
            free_enough: Size::from_bytes(1 << 30),
            demotion: true,
            watermark_scale: 0.02,
            scan_entry: PathSpec { instructions: 20, lines: 0 },
            migrate: path(500),
            shootdown: path(500),
            shootdown_interrupt: path(200),
        }),
    });
    assert!(spec.check().is_empty(), "{}", spec.check());
    spec
}

/// A drive behind CXL.mem that keeps a few pages and tells of every read of flash, before half of the hardware threads.
fn that_tells(mut spec: SystemSpec) -> SystemSpec {
    let pages = |pages: u64| Size::from_bytes(pages * 4096);
    spec.ssd.iter_mut().for_each(|ssd| {
        (ssd.buffer.capacity, ssd.buffer.dirty) = (pages(24), pages(8));
        ssd.buffer.flush_above = pages(2);
    });
    let long_reads = spec.tiered.as_mut().and_then(|it| it.long_reads.as_mut()).unwrap();
    long_reads.above = Duration::from_picoseconds(0);
    spec.processor.iter_mut().for_each(|it| it.cores = 2);
    assert!(spec.check().is_empty(), "{}", spec.check());
    spec
}

fn without_wall_clock(mut result: SystemResult) -> SystemResult {
    (result.wall_s, result.accesses_per_wall_s) = (0.0, 0.0);
    result
}

fn batch_of(limit: u64) -> RunOptions {
    RunOptions { batch_limit: limit, ..RunOptions::default() }
}

/// Runs a machine to its end in pieces, forked in the middle of each; both have to end alike.
fn run_forked(spec: &SystemSpec, stream: Box<dyn Stream>) -> [SystemResult; 2] {
    let mut machine = Machine::new(spec, stream, &RunOptions::default()).unwrap();
    let mut steps = 0u32;
    let mut forked = None;
    loop {
        if machine.run(|_| true).unwrap() {
            break;
        }
        machine.check_conservation().unwrap();
        steps += 1;
        if steps == 8 {
            forked = Some(machine.fork());
        }
    }
    machine.check_conservation().unwrap();
    let whole = without_wall_clock(machine.result());
    let Some(mut forked) = forked else { return [whole.clone(), whole] };
    assert!(forked.run(|_| false).unwrap());
    [whole, without_wall_clock(forked.result())]
}

/// Batches, forks and data are exact on a machine under a workload, whose length of batches and whose check of data
/// change no figure.
fn are_exact(spec: &SystemSpec, script: &[Vec<Op>]) -> Result<(), TestCaseError> {
    let whole = run(spec, Script::stream(script));
    prop_assert_eq!(whole.counters["stale_loads"], 0);
    let one = run_with(spec, Script::stream(script), &batch_of(1));
    prop_assert_eq!(&one, &whole, "batches of one");
    let few = run_with(spec, Script::stream(script), &batch_of(7));
    prop_assert_eq!(&few, &whole, "batches of seven");
    let [ended, forked] = run_forked(spec, Script::stream(script));
    prop_assert_eq!(&ended, &whole, "in pieces");
    prop_assert_eq!(&forked, &whole, "forked");
    let unchecked = run(&SystemSpec { check_data: false, ..spec.clone() }, Script::stream(script));
    prop_assert_eq!(&unchecked, &whole, "unchecked");
    Ok(())
}

/// Of a kernel that maps what a load brings from swap for stores, too.
fn of_linux_6_18(mut spec: SystemSpec) -> SystemSpec {
    if let Some(storage) = &mut spec.storage {
        storage.reclaim = ReclaimPolicy::ActiveInactive;
    }
    spec
}

/// A test of each machine, the same workloads in each: they run side by side.
macro_rules! batches_forks_and_data_are_exact_under_any_workload {
    ($($test:ident: $name:literal, $changed:expr;)*) => {
        $(proptest! {
            #![proptest_config(ProptestConfig { cases: of_many(4, 60), ..ProptestConfig::default() })]

            #[test]
            fn $test(
                threads in proptest::collection::vec(proptest::collection::vec(doing(), 1..250), 1..7),
                prefetch in prefetch(),
                of_processes in any::<bool>(),
            ) {
                let changed: Change = $changed;
                let spec = changed(with_prefetch(system($name, &TIGHT), &prefetch));
                are_exact(&spec, &script(&threads, of_processes))?;
            }
        })*
    };
}

mod batches_forks_and_data_are_exact_under_any_workload {
    use super::*;

    batches_forks_and_data_are_exact_under_any_workload! {
        on_oracle: "oracle/quick", |spec| spec;
        on_hybrid: "hybrid/quick", |spec| spec;
        on_storage: "storage/quick", |spec| spec;
        on_storage_of_linux_6_18: "storage/quick", of_linux_6_18;
        with_a_buffer_cache: "storage/quick", with_buffer_cache;
        with_the_store_in_dram: "storage/quick", in_dram;
        of_two_nodes_of_memory: "storage/quick", of_nodes;
        that_tells_of_long_reads: "cxl-ssd/switching/quick", that_tells;
    }
}

fn region(start: Option<Bound>, stop: Option<Bound>) -> RunOptions {
    RunOptions { start, stops: stop.into_iter().collect(), ..RunOptions::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// What is skipped and what is counted are the whole, wherever the region begins, and its
    /// accounts of time are complete (which every run asserts).
    #[test]
    fn a_region_and_what_precedes_it_are_the_whole_run(
        threads in proptest::collection::vec(proptest::collection::vec(doing(), 1..150), 1..5),
        (thread, place) in (0usize..5, 0usize..300),
    ) {
        let script = with_start(script(&threads, false), thread, place);
        for name in ALL {
            let spec = system(name, &TIGHT);
            let whole = run(&spec, Script::stream(&script));
            let options = region(Some(Bound::Mark(mark::START)), None);
            let part = run_with(&spec, Script::stream(&script), &options);
            let skipped = part.skipped.unwrap();
            prop_assert_eq!(skipped.accesses + part.accesses, whole.accesses, "{}", name);
            prop_assert_eq!(skipped.instructions + part.instructions, whole.instructions);
            prop_assert_eq!(skipped.time_ps + part.time_ps, whole.time_ps);
            prop_assert!(part.store_bytes.read <= whole.store_bytes.read);
            prop_assert!(part.counters.iter().all(|(key, count)| *count <= whole.counters[key]));
            for limit in [1, 7] {
                let options = RunOptions { batch_limit: limit, ..options.clone() };
                let other = run_with(&spec, Script::stream(&script), &options);
                prop_assert_eq!(&other, &part, "{}: batches of {}", name, limit);
            }
        }
    }
}

/// The script with a mark that begins the region, at some place of one of its threads.
fn with_start(mut script: Vec<Vec<Op>>, thread: usize, place: usize) -> Vec<Vec<Op>> {
    let thread = thread % script.len();
    let ops = &mut script[thread];
    // Not within a call.
    let places: Vec<usize> = (0..ops.len()).filter(|at| is_start(ops, *at)).collect();
    let mut given = Vec::new();
    Call::Marker { mark: mark::START }.encode(1, &mut given);
    let at = places.get(place % places.len().max(1)).copied().unwrap_or(0);
    ops.splice(at..at, given);
    script
}

/// Whether an operation, and not an argument of a call, stands at `at`.
fn is_start(ops: &[Op], at: usize) -> bool {
    let mut next = 0;
    while next < at {
        let op = ops[next];
        next += 1 + if op.kind_code() == 3 { usize::from(op.size()) } else { 0 };
    }
    next == at
}

/// What of a machine may differ where it shares its warm-up: by organization, and of each some values.
const TAKEN: [(&str, [&str; 2]); 5] = [
    ("store.read_latency", ["1us", "70us"]),
    ("store.unit_bandwidth", ["100MB/s", "3GB/s"]),
    ("link.latency", ["50ns", "9us"]),
    ("dram.controller_latency", ["1ns", "40ns"]),
    ("dram.channels", ["1", "2"]),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    /// Machines that are warmed once and go on from there each by itself are those that were warmed by themselves.
    #[test]
    fn a_shared_warm_up_changes_no_figure(
        threads in proptest::collection::vec(proptest::collection::vec(doing(), 1..150), 1..5),
        (thread, place) in (0usize..5, 0usize..300),
        differ in proptest::collection::vec((0..TAKEN.len(), 0..2usize), 1..4),
    ) {
        let script = with_start(script(&threads, false), thread, place);
        let mut systems = Vec::new();
        for name in ALL {
            systems.push(system(name, &WARMING));
            for (which, value) in &differ {
                let (path, values) = TAKEN[*which];
                if name == "oracle/quick" && !path.starts_with("dram") {
                    continue;
                }
                let sets = [&WARMING[..], &[(path, values[*value])]].concat();
                let other = system(name, &sets);
                prop_assert!(other.warms_as(&systems[systems.len() - 1]), "{} of {}", path, name);
                systems.push(other);
            }
        }
        let at_mark = region(Some(Bound::Mark(mark::START)), None);
        let run = |shares_warming| {
            let options = RunOptions { shares_warming, ..at_mark.clone() };
            let streams = systems.iter().map(|_| Script::stream(&script)).collect();
            let stop = AtomicBool::new(false);
            let ended = run_machines(&systems, streams, &options, &(), &stop);
            let told = ended.into_iter().map(|it| (without_wall_clock(it.result), it.partial_reason));
            told.collect::<Vec<_>>()
        };
        let (shared, apart) = (run(true), run(false));
        for (index, (one, other)) in shared.iter().zip(&apart).enumerate() {
            prop_assert_eq!(one, other, "{}, machine {}", systems[index].name.clone(), index);
        }
    }
}

#[test]
fn what_warming_asks_for_keeps_machines_from_sharing_it() {
    let plain = system("hybrid/quick", &WARMING);
    for (path, value) in [
        ("hybrid.cache.capacity", "4MiB"),
        ("processor.caches.L3.capacity", "640KiB"),
        ("store.capacity", "32GiB"),
        ("seed", "7"),
        ("os.kernel_cpi", "2.0"),
    ] {
        let other = system("hybrid/quick", &[&WARMING[..], &[(path, value)]].concat());
        assert!(!other.warms_as(&plain) && !plain.warms_as(&other), "{path}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// In functional warming, too, nothing is lost, and batches do not matter.
    #[test]
    fn functional_warming_does_not_depend_on_batches(
        threads in proptest::collection::vec(proptest::collection::vec(doing(), 1..150), 1..5),
        (thread, place) in (0usize..5, 0usize..300),
        inclusive in any::<bool>(),
    ) {
        let script = with_start(script(&threads, false), thread, place);
        for name in ALL {
            let mut sets = WARMING.to_vec();
            if inclusive {
                sets.push(("processor.caches.L3.inclusive", "true"));
            }
            let spec = system(name, &sets);
            let whole = run(&spec, Script::stream(&script));
            let options = region(Some(Bound::Mark(mark::START)), None);
            let part = run_with(&spec, Script::stream(&script), &options);
            let skipped = part.skipped.unwrap();
            prop_assert_eq!(skipped.warming, Warming::Functional);
            prop_assert_eq!(skipped.accesses + part.accesses, whole.accesses, "{}", name);
            prop_assert_eq!(skipped.instructions + part.instructions, whole.instructions);
            for limit in [1, 7] {
                let options = RunOptions { batch_limit: limit, ..options.clone() };
                let other = run_with(&spec, Script::stream(&script), &options);
                prop_assert_eq!(&other, &part, "{}: batches of {}", name, limit);
            }
        }
    }
}

/// What a region finds where it begins is what it finds after a warming in detail, but for the order
/// in which misses under way at once are served.
#[test]
fn functional_warming_leaves_what_warming_in_detail_leaves() {
    // Three of four accesses are to a quarter of the pages: what is kept depends on the order of use.
    let address = |i: u64| {
        let random = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let pages = if i.is_multiple_of(4) { 2_000 } else { 500 };
        ANONYMOUS + random % pages * PAGE + random % 64 * 64
    };
    let access = |i| match i % 3 {
        0 => Op::store(address(i), 8, 5),
        _ => Op::load(address(i), 8, 5),
    };
    let ops: Vec<Op> = (0..60_000).map(access).collect();
    for (name, misses, kept) in [
        ("oracle/quick", "tlb_walks", "tlb_walks"),
        ("hybrid/quick", "dram_cache_misses", "write_back_pages"),
        ("storage/quick", "major_faults", "swap_out_pages"),
    ] {
        let spec = system(name, &WARMING);
        let [functional, detailed] = [Warming::Functional, Warming::Detailed].map(|warming| {
            let options = RunOptions { warming, ..region(Some(Bound::Accesses(40_000)), None) };
            run_with(&spec, Script::stream(from_ref(&ops)), &options)
        });
        assert_eq!(detailed.skipped.unwrap().warming, Warming::Detailed);
        for counter in [misses, kept] {
            let [counted, expected] =
                [&functional, &detailed].map(|result| result.counters[counter] as f64);
            assert!(expected > 100.0, "{name}: {counter}: {expected} say nothing");
            let off = (counted - expected).abs() / expected;
            assert!(off < 0.02, "{name}: {counter}: {counted} for {expected}");
        }
        let off = functional.time_ps as f64 / detailed.time_ps as f64 - 1.0;
        assert!(off.abs() < 0.02, "{name}: the region's time is off by {off}");
        let shorter = functional.skipped.unwrap().time_ps < detailed.skipped.unwrap().time_ps;
        assert!(shorter, "{name}: only instructions take time");
    }
}

/// Memory that is given back goes on lying in the caches, where the kernel clears it for whoever has it next.
#[test]
fn what_is_cleared_again_while_it_is_on_chip_is_there_once() {
    const KEPT: u64 = 900;
    let (address, length) = (ANONYMOUS, 40 * PAGE);
    let map = Call::Map { address, length, flags: MAP_WRITABLE, file: NO_FILE, offset: 0 };
    // Frames are taken again once there are none that nobody had before: most go to what stays.
    let (stays, flags) = (MAPPED, MAP_WRITABLE);
    let all = Call::Map { address: stays, length: KEPT * PAGE, flags, file: NO_FILE, offset: 0 };
    let mut ops = call(all);
    ops.extend((0..KEPT).map(|page| Op::store(stays + page * PAGE, 8, 5)));
    for turn in 0..30 {
        if turn > 0 {
            ops.extend(call(Call::Unmap { address, length }));
        }
        ops.extend(call(map));
        ops.extend((0..40).map(|page| Op::store(address + page * PAGE, 8, 5)));
    }
    // Every line of the last pages, which no cache but the last has all of.
    ops.extend((0..40 * 64).map(|line| Op::load(address + length - 64 - line * 64, 8, 5)));
    let spec = system("storage/quick", &WARMING);
    let run = |warming, batch_limit| {
        let start = region(Some(Bound::Accesses(KEPT + 30 * 40)), None);
        let options = RunOptions { warming, batch_limit, ..start };
        run_with(&spec, Script::stream(from_ref(&ops)), &options)
    };
    let (functional, detailed) = (run(Warming::Functional, 0), run(Warming::Detailed, 0));
    assert_eq!(functional, run(Warming::Functional, 1), "batches of one");
    let reads = |result: &SystemResult| result.counters["memory_reads"] as f64;
    let (found, expected) = (reads(&functional), reads(&detailed));
    assert!((found - expected).abs() < 40.0, "{found} for {expected}");
    assert!(expected < 1000.0, "most of it is on chip: {expected}");
}

#[test]
fn counts_and_times_bound_a_region_of_one_thread_to_the_operation() {
    let ops: Vec<Op> =
        (0..20_000u64).map(|i| Op::load(ANONYMOUS + i * 7919 % (8 << 20), 8, 5)).collect();
    for name in ALL {
        let spec = system(name, &TIGHT);
        let whole = run(&spec, Script::stream(from_ref(&ops)));
        let ended = |start, stop| {
            let stopped = AtomicBool::new(false);
            let streams = vec![Script::stream(from_ref(&ops))];
            let options = region(start, stop);
            run_machines(from_ref(&spec), streams, &options, &(), &stopped).remove(0)
        };
        let outcome = ended(Some(Bound::Accesses(5_000)), Some(Bound::Accesses(3_000)));
        let skipped = outcome.result.skipped.unwrap();
        // What is under way when the count is reached is counted when it is done.
        assert!((5_000..5_100).contains(&skipped.accesses), "{name}: {skipped:?}");
        assert!((3_000..3_100).contains(&outcome.result.accesses), "{name}");
        assert_eq!(
            outcome.partial_reason.as_deref(),
            Some("the limit of 3000 accesses was reached")
        );

        let outcome = ended(Some(Bound::Instructions(50_000)), Some(Bound::Instructions(20_000)));
        assert!((50_000..50_010).contains(&outcome.result.skipped.unwrap().instructions));
        assert!((20_000..20_010).contains(&outcome.result.instructions), "{name}");

        let half_ps = whole.time_ps / 2;
        let outcome = ended(Some(Bound::TimePs(half_ps)), None);
        let skipped_ps = outcome.result.skipped.unwrap().time_ps;
        assert_eq!(skipped_ps, half_ps);
        assert_eq!(outcome.result.skipped.unwrap().warming, Warming::Detailed);
        assert_eq!(skipped_ps + outcome.result.time_ps, whole.time_ps);

        let outcome = ended(None, Some(Bound::TimePs(half_ps)));
        // A path of the kernel is not cut in two, and what waits then has waited until then.
        let ended_ps = outcome.result.time_ps;
        assert!(
            (half_ps..half_ps + 10_000_000).contains(&ended_ps),
            "{name}: {ended_ps} of {half_ps}"
        );
        assert!(!outcome.failed);
    }
}

#[test]
fn a_region_that_ends_while_every_thread_waits_lasts_until_its_bound() {
    // Each touch is of a page of its own, which the store is slow to give; the bound comes in the middle of the third.
    let touches =
        |thread: u64| (0..8).map(move |i| Op::load(ANONYMOUS + ((2 * i + thread) << 16), 8, 5));
    let started = call(Call::Spawn { thread: 1 }).into_iter();
    let ops = [started.chain(touches(0)).collect(), touches(1).collect::<Vec<Op>>()];
    let spec = system("hybrid/quick", &[]);
    let whole = run(&spec, Script::stream(&ops));
    for part in [2, 3, 5, 7] {
        let bound_ps = whole.time_ps * part / 16;
        let stopped = AtomicBool::new(false);
        let options = region(None, Some(Bound::TimePs(bound_ps)));
        let streams = vec![Script::stream(&ops)];
        let outcome = run_machines(from_ref(&spec), streams, &options, &(), &stopped).remove(0);
        assert!(!outcome.failed);
        assert_eq!(outcome.result.time_ps, bound_ps);
        let charged_ns: f64 = outcome.result.time_breakdown_ns.values().sum();
        assert!(
            (charged_ns - 2.0 * bound_ps as f64 / 1e3).abs() < 1.0,
            "of {bound_ps}: {charged_ns}"
        );
    }
}

#[test]
fn a_warm_region_misses_less_than_a_cold_run() {
    let twice = (0..40_000u64).map(|i| Op::load(ANONYMOUS + i % 10_000 * 4096 % (1 << 20), 8, 5));
    let ops: Vec<Op> = twice.collect();
    let spec = system("hybrid/quick", &TIGHT);
    let cold = run(&spec, Script::stream(from_ref(&ops)));
    let warm = region(Some(Bound::Accesses(20_000)), None);
    let warm = run_with(&spec, Script::stream(&[ops]), &warm);
    assert!(cold.counters["dram_cache_misses"] > 0);
    assert_eq!(warm.counters["dram_cache_misses"], 0);
    assert_eq!(warm.store_bytes.read, 0);
}

#[test]
fn a_region_that_never_begins_is_an_error_that_says_so() {
    let stop = AtomicBool::new(false);
    let spec = system("oracle/quick", &[]);
    let streams = vec![Script::stream(&[vec![Op::load(ANONYMOUS, 8, 5)]])];
    let options = region(Some(Bound::Mark(mark::START)), None);
    let outcome = run_machines(from_ref(&spec), streams, &options, &(), &stop).remove(0);
    assert!(outcome.failed);
    assert_eq!(
        outcome.partial_reason.unwrap(),
        "the region of interest never began: the workload ended before the mark that begins it"
    );
}

#[test]
fn misses_and_stalls_are_told_by_what_they_concern() {
    let mut ops = Vec::new();
    Call::Open { file: 0, size: 64 * PAGE }.encode(1, &mut ops);
    let flags = MAP_SHARED | MAP_WRITABLE;
    let length = 64 * PAGE;
    Call::Map { address: MAPPED, length, flags, file: 0, offset: 0 }.encode(1, &mut ops);
    Call::Map { address: ANONYMOUS, length, flags: MAP_WRITABLE, file: NO_FILE, offset: 0 }
        .encode(1, &mut ops);
    let flags = MAP_WRITABLE | MAP_HEAP;
    Call::Map { address: PRIVATE, length, flags, file: NO_FILE, offset: 0 }.encode(1, &mut ops);
    let elsewhere = 1 << 43;
    // Each line once: 64 pages of the file, 32 of the heap, 16 anonymous, 8 of the rest.
    for (base, pages) in [(MAPPED, 64), (PRIVATE, 32), (ANONYMOUS, 16), (elsewhere, 8)] {
        let lines = 0..pages * PAGE / 64;
        ops.extend(lines.map(|line| Op::load(base + line * 64, 8, 2).with_flags(FLAG_DEPENDENT)));
    }
    let result = run(&system("storage/quick", &[]), Script::stream(&[ops]));
    let area = |name: &str| result.areas[name];
    assert_eq!(result.areas.len(), 4, "{:?}", result.areas);
    let lines_of_page = PAGE / 64;
    for (name, pages) in
        [("file 0", 64), ("heap", 32), ("anonymous memory", 16), ("image, stack and kernel", 8)]
    {
        let accesses = area(name).accesses;
        // Anonymous pages are cleared, and so in the caches; of them the first access faults.
        assert!((pages..=pages * lines_of_page).contains(&accesses), "{name}: {accesses}");
        assert!(area(name).stall_ns > 0.0, "{name}");
        // Entering the kernel stalls as well, and concerns no access of the program.
        let kernel = name == "image, stack and kernel";
        assert!(kernel || area(name).stall_ns <= area(name).latency_ns, "{name}");
    }
    assert!(area("file 0").store_accesses > 0);
    assert_eq!(area("heap").store_accesses, 0);
    assert!(area("file 0").stall_ns > 2.0 * area("heap").stall_ns, "the store's time");
    assert!(area("file 0").memory_reads > 63 * lines_of_page);
}

/// A chase through memory line by line: each load waits for the one before, and a prefetcher that runs
/// far enough ahead leaves of main memory's latency nothing but the shared cache's.
#[test]
fn a_prefetcher_ahead_of_a_stream_leaves_the_shared_caches_latency() {
    const LINES: u64 = 1 << 15;
    let chase = |step: u64| -> Vec<Op> {
        (0..LINES)
            .map(|line| Op::load(ANONYMOUS + line * step % LINES * 64, 8, 1))
            .map(|op| op.with_flags(FLAG_DEPENDENT))
            .collect()
    };
    let time = |kind: Option<PrefetchKind>, distance: u32, step: u64| {
        let spec = kind.map(|kind| LinePrefetchSpec {
            kind,
            degree: 4,
            distance,
            trackers: 16,
            outstanding: 32,
            into: PrefetchInto::Shared,
        });
        let sets = [("processor.caches.L3.capacity", "1MiB"), ("os.page", "64KiB")];
        let spec = with_prefetch(system("oracle/quick", &sets), &spec);
        // The first time pages are cleared; the second they are only read.
        let ops = [chase(step), chase(step)].concat();
        let warm = region(Some(Bound::Accesses(LINES)), None);
        run_with(&spec, Script::stream(&[ops]), &warm)
    };
    let plain = time(None, 0, 1);
    let stream = time(Some(PrefetchKind::Stream), 20, 1);
    // The shared cache answers in 20 ns; each page of 1024 lines begins with three that nobody foresaw.
    let ns_per_line = |result: &SystemResult| result.time_s * 1e9 / LINES as f64;
    assert!(ns_per_line(&plain) > 45.0, "{}", ns_per_line(&plain));
    assert!((20.0..22.0).contains(&ns_per_line(&stream)), "{}", ns_per_line(&stream));
    let asked = stream.counters["line_prefetches"] + stream.counters["memory_reads"];
    assert!((LINES..LINES + LINES / 50).contains(&asked), "no line is asked for twice: {asked}");
    assert!(stream.counters["memory_reads"] < LINES / 100);
    assert_eq!(plain.counters["line_prefetches"], 0);
    // One line ahead hides less, and what goes in strides is not for a prefetcher of next lines.
    let near = time(Some(PrefetchKind::NextLine), 4, 1);
    assert!(ns_per_line(&near) < ns_per_line(&plain));
    let (plain, stride) = (time(None, 0, 5), time(Some(PrefetchKind::Stride), 20, 5));
    assert!(ns_per_line(&stride) < 0.6 * ns_per_line(&plain), "{}", ns_per_line(&stride));
}

/// The same into a core's own caches, which leaves the second level's latency; with shared caches behind it, or none. It
/// sees what the first level lacks, so that it stays ahead of what it has brought itself.
#[test]
fn a_prefetcher_into_a_cores_own_caches_leaves_the_second_levels_latency() {
    const LINES: u64 = 1 << 15;
    let loads = |flags: u8| -> Vec<Op> {
        let lines = (0..2 * LINES).map(|line| ANONYMOUS + line % LINES * 64);
        lines.map(|address| Op::load(address, 8, 1).with_flags(flags)).collect()
    };
    let time = |flags: u8, outstanding: Option<u32>, shared: bool| {
        let spec = outstanding.map(|outstanding| LinePrefetchSpec {
            kind: PrefetchKind::Stream,
            degree: 4,
            distance: 20,
            trackers: 16,
            outstanding,
            into: PrefetchInto::Private,
        });
        let sets = [("processor.caches.L3.capacity", "1MiB"), ("os.page", "64KiB")];
        let mut spec = with_prefetch(system("oracle/quick", &sets), &spec);
        if !shared {
            spec.processor.as_mut().unwrap().caches.pop();
        }
        let warm = region(Some(Bound::Accesses(LINES)), None);
        run_with(&spec, Script::stream(&[loads(flags)]), &warm)
    };
    let ns_per_line = |result: &SystemResult| result.time_s * 1e9 / LINES as f64;
    for shared in [true, false] {
        let (plain, ahead) =
            (time(FLAG_DEPENDENT, None, shared), time(FLAG_DEPENDENT, Some(32), shared));
        assert!(ns_per_line(&plain) > 30.0, "{}", ns_per_line(&plain));
        // The second level answers in 6 ns.
        assert!((6.0..9.0).contains(&ns_per_line(&ahead)), "{}", ns_per_line(&ahead));
        let asked = ahead.counters["line_prefetches"] + ahead.counters["memory_reads"];
        assert!(
            (LINES..LINES + LINES / 50).contains(&asked),
            "no line is asked for twice: {asked}"
        );
        assert!(ahead.counters["memory_reads"] < LINES / 100);
        // One at a time leaves others to the loads.
        let one = time(FLAG_DEPENDENT, Some(1), shared);
        assert!(ns_per_line(&one) > 2.0 * ns_per_line(&ahead), "{}", ns_per_line(&one));
        assert!(one.counters["memory_reads"] > LINES / 4);
    }
    // Loads that wait for none are soon where the prefetcher is, and wait for what it waits for.
    let (plain, ahead) = (time(0, None, true), time(0, Some(32), true));
    assert!(ns_per_line(&ahead) < ns_per_line(&plain));
    assert!(ahead.counters["line_prefetches_late"] > LINES / 4);
}

/// A thread that waits for a line that its core has prefetched is switched away from, and comes back to another core.
#[test]
fn a_prefetched_line_comes_for_a_thread_that_has_gone_to_another_core() {
    let sets = [
        ("processor.cores", "2"),
        (
            "processor.prefetch",
            "{ kind = \"stream\", degree = 2, distance = 20, trackers = 32, outstanding = 16, \
             into = \"private\" }",
        ),
    ];
    let spec = system("cxl-ssd/switching/quick", &sets);
    let given = [("threads".to_string(), 3.into()), ("array".to_string(), "64MiB".into())];
    let (stream, _) = generator::find("stream").unwrap().make(&given, 1).unwrap();
    let limit = region(None, Some(Bound::Accesses(400_000)));
    let never = AtomicBool::new(false);
    let outcome = run_machines(&[spec], vec![stream], &limit, &(), &never).remove(0);
    assert!(!outcome.failed, "{:?}", outcome.partial_reason);
    let result = outcome.result;
    assert!(result.counters["long_read_switches"] > 100, "threads go away: {:?}", result.counters);
    assert!(result.counters["line_prefetches"] > 1_000);
}

/// One thread on four cores: on a hybrid it always has its core, and on a paging machine it leaves it
/// while the store works.
#[test]
fn the_processors_energy_follows_from_its_times_and_counts() {
    let mut ops = Vec::new();
    Call::Open { file: 0, size: 256 * PAGE }.encode(1, &mut ops);
    let flags = MAP_SHARED | MAP_WRITABLE;
    Call::Map { address: MAPPED, length: 256 * PAGE, flags, file: 0, offset: 0 }
        .encode(1, &mut ops);
    ops.extend((0..256).map(|page| Op::load(MAPPED + page * 97 % 256 * PAGE, 8, 900)));
    for name in ALL {
        let spec = system(
            name,
            &[
                ("processor.energy.uncore_power", "10W"),
                ("processor.energy.running_power", "4W"),
                ("processor.energy.halted_power", "1W"),
                ("processor.energy.instruction_energy", "2nJ"),
                ("processor.caches.L1D.access_energy", "3nJ"),
            ],
        );
        let result = run(&spec, Script::stream(&[ops.clone()]));
        let part = |part: &str| result.energy.parts_j[&format!("processor.{part}")];
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-9;
        assert!(near(part("uncore"), 10.0 * result.time_s), "{name}");
        let instructions = result.instructions + result.kernel_instructions;
        assert!(near(part("instructions"), 2e-9 * instructions as f64), "{name}");
        assert!(near(part("caches"), 3e-9 * result.accesses as f64), "{name}: L1D alone has one");
        let running_s = part("running_cores") / 4.0;
        assert!(near(running_s + part("halted_cores"), 4.0 * result.time_s), "{name}");
        let blocked = name.starts_with("storage");
        assert_eq!(near(running_s, result.time_s), !blocked, "{name}: {running_s}");
        if blocked {
            // A cold read of 25 us and more, of which the kernel's paths are the lesser part.
            assert!(running_s < 0.8 * result.time_s, "{running_s} of {}", result.time_s);
        }
        let sum: f64 = result.energy.parts_j.values().sum();
        assert!(near(result.energy.total_j.unwrap(), sum), "{name}");
        assert!(!result.energy.not_counted.contains_key("processor"), "{name}");
    }
}

#[test]
fn machines_run_at_the_same_time_give_what_each_gives_alone() {
    let ops: Vec<Op> =
        (0..20_000u64).map(|i| Op::store(ANONYMOUS + i * 7919 % (8 << 20), 8, 5)).collect();
    let specs: Vec<SystemSpec> = ALL.iter().map(|name| system(name, &TIGHT)).collect();
    let alone: Vec<SystemResult> =
        specs.iter().map(|spec| run(spec, Script::stream(from_ref(&ops)))).collect();
    let streams = specs.iter().map(|_| Script::stream(from_ref(&ops))).collect();
    let stop = AtomicBool::new(false);
    let together = run_machines(&specs, streams, &RunOptions::default(), &(), &stop);
    for (alone, together) in alone.into_iter().zip(together) {
        assert_eq!(alone, without_wall_clock(together.result));
    }
}

#[test]
fn every_organization_evicts_and_writes_back_in_these_tests() {
    let ops: Vec<Op> =
        (0..20_000u64).map(|i| Op::store(ANONYMOUS + i * 7919 % (8 << 20), 8, 5)).collect();
    let hybrid = run(&system("hybrid/quick", &TIGHT), Script::stream(from_ref(&ops)));
    assert!(hybrid.store_bytes.written > 1 << 20, "{:?}", hybrid.store_bytes);
    let storage = run(&system("storage/quick", &TIGHT), Script::stream(&[ops]));
    assert!(storage.counters["swap_out_pages"] > 1000, "{:?}", storage.counters);
    assert!(storage.counters["swap_in_pages"] > 1000, "{:?}", storage.counters);
}

#[test]
fn observers_hear_of_every_interval_once_and_the_sums_are_the_result() {
    struct Sum(Mutex<Vec<Interval>>);
    impl Observer for Sum {
        fn progress(&self, _: usize, _: Progress) {}
        fn interval(&self, _: usize, interval: &Interval) {
            self.0.lock().unwrap().push(interval.clone());
        }
    }
    let ops: Vec<Op> =
        (0..50_000u64).map(|i| Op::load(ANONYMOUS + i * 7919 % (8 << 20), 8, 5)).collect();
    let observer = Sum(Mutex::new(Vec::new()));
    let stop = AtomicBool::new(false);
    let spec = system("storage/quick", &TIGHT);
    let streams = vec![Script::stream(&[ops])];
    let result = run_machines(from_ref(&spec), streams, &RunOptions::default(), &observer, &stop)
        .remove(0)
        .result;
    let intervals = observer.0.into_inner().unwrap();
    assert!(intervals.len() > 3);
    assert!(intervals.windows(2).all(|pair| pair[0].end_ps < pair[1].end_ps));
    assert_eq!(intervals.iter().map(|i| i.accesses).sum::<u64>(), result.accesses);
    assert_eq!(intervals.iter().map(|i| i.instructions).sum::<u64>(), result.instructions);
    assert_eq!(intervals.last().unwrap().end_ps, result.time_ps);
}

#[test]
fn threads_that_wait_for_each_other_for_ever_are_an_error_that_says_so() {
    let mut ops = Vec::new();
    Call::Wait { thread: 1, sequence: 1 }.encode(1, &mut ops);
    let stop = AtomicBool::new(false);
    let spec = system("oracle/quick", &[]);
    let outcome = run_machines(
        from_ref(&spec),
        vec![Script::stream(&[ops])],
        &RunOptions::default(),
        &(),
        &stop,
    )
    .remove(0);
    assert!(outcome.failed);
    let reason = outcome.partial_reason.unwrap();
    assert_eq!(
        reason,
        "the workload waits for ever: thread 0 waits for signal 1 of thread 1, which has given 0"
    );
}

#[test]
fn a_damaged_stream_and_a_full_memory_are_errors_that_say_so() {
    let stop = AtomicBool::new(false);
    let outcome = |spec: &SystemSpec, ops| {
        let streams = vec![Script::stream(&[ops])];
        let specs = from_ref(spec);
        run_machines(specs, streams, &RunOptions::default(), &(), &stop).remove(0)
    };
    let bad = Op { word: 0, meta: 77 };
    let reason = outcome(&system("oracle/quick", &[]), vec![bad]).partial_reason.unwrap();
    assert_eq!(reason, "the workload's stream of thread 0 is damaged: an operation of kind 77");
    let small = system("oracle/quick", &[("oracle.capacity", "2MiB")]);
    let ops = (0..2000).map(|page| Op::store(ANONYMOUS + page * PAGE, 8, 1)).collect();
    let reason = outcome(&small, ops).partial_reason.unwrap();
    assert!(
        reason.starts_with("the workload needs more than the machine's main memory"),
        "{reason}"
    );
}

#[test]
fn every_preset_runs_a_workload_to_its_end() {
    let gups = tierscope_workload::generator::find("gups").unwrap();
    let sets = [("table", "2MiB".into()), ("updates", 500.into()), ("threads", 2.into())];
    let sets = sets.map(|(name, value): (&str, serde_json::Value)| (name.to_string(), value));
    let machines = tierscope_system::spec::list().into_iter();
    for (name, _) in machines.filter(|(name, _)| !name.starts_with("device/")) {
        let stream = gups.make(&sets, 1).unwrap().0;
        let spec = system(name, &[("check_data", "true")]);
        let mut machine = Machine::new(&spec, stream, &RunOptions::default()).unwrap();
        assert_eq!(machine.run(|_| false), Ok(true), "{name}");
        assert_eq!((machine.accesses(), machine.stale_loads()), (1000, 0), "{name}");
    }
}
