//! Random workloads on randomly changed machines: the laws that hold whatever a machine is like.
//!
//! `TIERSCOPE_CASES=1000 cargo test -p tierscope-system --test validation variations` looks harder.

use super::sensitivity::{PRESETS, fitting};
use super::support::*;
use crate::common::random::{doing, script};
use proptest::prelude::*;
use tierscope_system::machine::{Machine, MachineError};
use tierscope_system::result::SystemResult;
use tierscope_system::run::RunOptions;
use tierscope_system::spec::{SystemSpec, load};
use tierscope_workload::Op;
use tierscope_workload::op::Call;

// ---- Machines ---------------------------------------------------------------------------------

/// So little memory that a few hundred pages make every organization evict and write back.
const TIGHT: Sets<'static> = &[
    ("processor.caches.L3.capacity", "320KiB"),
    ("hybrid.cache.capacity", "2MiB"),
    ("storage.dram_capacity", "4MiB"),
    ("store.capacity", "64MiB"),
];

/// File systems that commit often, with as little journal as there may be.
const EXT4: Sets<'static> = &[(
    "storage.file_system",
    r#"{ kind = "ext4", journal = "ordered", commit_interval = "100us", journal_capacity = "1MiB",
        barrier = "flush", timestamp_interval = "1us" }"#,
)];
const EXT3: Sets<'static> = &[(
    "storage.file_system",
    r#"{ kind = "ext3", journal = "ordered", commit_interval = "1ms", journal_capacity = "1MiB",
        barrier = "flush", timestamp_interval = "0s" }"#,
)];

/// Changes of a machine, each of which may be made or not.
const CHANGES: &[Sets<'static>] = &[
    &[("processor.threads_per_core", "2")],
    &[("processor.threads_per_core", "2"), ("processor.partitioned", "true")],
    &[("processor.threads_per_core", "3"), ("processor.cores", "1")],
    &[("processor.cores", "1")],
    &[("processor.cores", "2")],
    &[("processor.miss_registers", "1")],
    &[("processor.reorder_window", "1")],
    &[("processor.reorder_window", "100000"), ("processor.miss_registers", "300")],
    &[
        ("processor.tlb.entries", "1"),
        ("processor.tlb.ways", "1"),
        ("processor.tlb.second_level_entries", "0"),
    ],
    &[("processor.tlb.walk_cache_entries", "0")],
    &[("processor.tlb.levels", "1")],
    &[("processor.tlb.levels", "5")],
    &[
        ("processor.caches.L1D.capacity", "1KiB"),
        ("processor.caches.L2.capacity", "2KiB"),
        ("processor.caches.L3.capacity", "4KiB"),
    ],
    &[("processor.caches.L1D.ways", "1"), ("processor.caches.L2.ways", "1")],
    &[("processor.caches.L3.inclusive", "true"), ("processor.caches.L2.inclusive", "true")],
    &[("os.time_slice", "1us")],
    &[("os.time_slice", "30us")],
    &[("os.allocation", "fragmented")],
    &[("os.transparent_huge_pages", "always")],
    &[("os.transparent_huge_pages", "always"), ("storage.dram_capacity", "8MiB")],
    &[("os.page", "8KiB")],
    &[("os.page", "16KiB")],
    FREE_KERNEL,
    &[("hybrid.queue_depth", "1"), ("hybrid.fills", "1"), ("hybrid.write_back_buffer_pages", "1")],
    &[("hybrid.queue_depth", "3"), ("hybrid.fills", "2"), ("hybrid.write_back_buffer_pages", "2")],
    &[("hybrid.cache.ways", "1"), ("hybrid.cache.tags", "with-data")],
    &[
        ("hybrid.cache.tags", "dram"),
        ("hybrid.cache.tag_cache", "{ capacity = \"128B\", ways = 1 }"),
    ],
    &[
        ("hybrid.cache.ways", "1"),
        ("hybrid.cache.tags", "with-data"),
        ("hybrid.cache.miss_predictor", "global"),
    ],
    &[("hybrid.cache.sector", "64B"), ("hybrid.cache.fill", "reads")],
    &[("hybrid.cache.sector", "64B"), ("hybrid.cache.fill", "writes")],
    &[("hybrid.cache.sector", "64B"), ("hybrid.cache.fill", "victims")],
    &[
        ("hybrid.cache.sector", "64B"),
        ("hybrid.cache.fill", "victims"),
        ("processor.caches.L3.inclusive", "true"),
        ("processor.caches.L2.inclusive", "true"),
    ],
    &[("hybrid.cache.ways", "1")],
    &[("hybrid.cache.ways", "64")],
    &[("hybrid.cache.initial", "prefilled")],
    &[("hybrid.cache.page", "16KiB")],
    &[("hybrid.critical_line_first", "true")],
    &[("hybrid.prefetch_pages", "0")],
    &[("hybrid.controller_latency", "7ns")],
    &[("storage.initial", "prefilled")],
    &[("storage.readahead", "0B")],
    &[
        ("storage.readahead_release", "6.18"),
        ("storage.readahead", "4MiB"),
        ("storage.largest_folio", "2MiB"),
    ],
    &[
        ("storage.readahead_release", "6.18"),
        ("storage.largest_folio", "64KiB"),
        ("storage.fault_around", "4KiB"),
    ],
    &[("storage.largest_request", "4KiB"), ("storage.fault_around", "2MiB")],
    &[("storage.swap_cluster_pages", "1")],
    &[("storage.swap_cluster_pages", "32")],
    &[("storage.swap_readahead", "virtual-address")],
    &[("storage.swap_readahead", "fixed-cluster")],
    &[("storage.readahead_release", "2.6.32")],
    &[("storage.readahead_release", "6.18"), ("storage.readahead", "4MiB")],
    &[("storage.reclaim", "active-inactive")],
    &[("storage.reclaim", "active-inactive-2.6.32")],
    &[("storage.reclaim", "lru")],
    &[("storage.reclaim", "clock"), ("storage.watermark_scale", "0.05")],
    &[("storage.reclaim", "fifo")],
    &[("storage.swappiness", "0")],
    &[("storage.swappiness", "200"), ("storage.dirty_ratio", "1.0")],
    &[("storage.dirty_writeback", "50us"), ("storage.dirty_expire", "0s")],
    &[("storage.dirty_ratio", "0.0"), ("storage.dirty_background_ratio", "0.0")],
    &[("storage.host_queue_depth", "1")],
    &[("storage.driver.completion", "polling")],
    &[("storage.driver", "{ completion = \"polling\", lock = \"20us\" }")],
    &[("storage.driver.lock", "3us")],
    EXT4,
    EXT3,
    &[("storage.dram_capacity", "2MiB")],
    &[
        ("dram.read_queue_depth", "1"),
        ("dram.write_queue_depth", "1"),
        ("dram.write_high", "1"),
        ("dram.write_low", "0"),
    ],
    &[("dram.channels", "1"), ("dram.banks", "1")],
    &[("store.queue_depth", "1")],
    &[("store.units", "1")],
    &[("store.page", "2KiB")],
    &[("store.read_latency", "125ns"), ("store.write_latency", "1250ns")],
    &[
        ("store.read_latency", "0s"),
        ("store.write_latency", "0s"),
        ("store.controller_latency", "0s"),
        ("link.latency", "0s"),
    ],
];

/// Which on-chip caches a machine has.
#[derive(Clone, Copy, Debug)]
enum Levels {
    AsTheyAre,
    FirstOnly,
    NoneShared,
    OnePrivateOneShared,
    TwoShared,
}

fn levels() -> impl Strategy<Value = Levels> {
    use Levels::*;
    prop_oneof![
        3 => Just(AsTheyAre),
        1 => Just(FirstOnly),
        1 => Just(NoneShared),
        1 => Just(OnePrivateOneShared),
        1 => Just(TwoShared),
    ]
}

/// The preset with these changes, where they make sense together.
fn varied(name: &str, changes: &[usize], levels: Levels) -> Option<SystemSpec> {
    let chosen = changes.iter().map(|index| CHANGES[*index]);
    let sets: Vec<_> =
        std::iter::once(TIGHT).chain(chosen).flat_map(|sets| fitting(name, sets)).collect();
    let mut spec = load(name, &sets).ok()?.spec;
    let caches = &mut spec.processor.as_mut().unwrap().caches;
    match levels {
        Levels::AsTheyAre => {}
        Levels::FirstOnly => caches.truncate(1),
        Levels::NoneShared => caches.truncate(2),
        Levels::OnePrivateOneShared => _ = caches.remove(1),
        Levels::TwoShared => caches[1].shared = true,
    }
    spec.check().is_empty().then_some(spec)
}

/// Changes that leave the kernel 128 frames.
const TIGHTER: [Sets<'static>; 2] = [&[("os.page", "16KiB")], &[("storage.dram_capacity", "2MiB")]];

// ---- Laws -------------------------------------------------------------------------------------

/// A run that takes more looks at the machine than this never ends.
const MOST_LOOKS: u64 = 30_000;

/// The whole result of a run in batches of so many steps at most; forked on the way where asked.
/// `None` where the workload does not fit the machine.
fn result(
    spec: &SystemSpec,
    threads: &[Vec<Op>],
    batch_limit: u64,
    fork: bool,
) -> Result<Option<SystemResult>, MachineError> {
    result_within(u64::MAX, spec, threads, batch_limit, fork)
}

/// The same, but too long where it takes more than `most` looks.
fn result_within(
    most: u64,
    spec: &SystemSpec,
    threads: &[Vec<Op>],
    batch_limit: u64,
    fork: bool,
) -> Result<Option<SystemResult>, MachineError> {
    let mut looks = 0;
    let options = RunOptions { batch_limit, ..RunOptions::default() };
    let mut machine = match Machine::new(spec, Script::stream(threads), &options) {
        Err(MachineError::Os(_)) => return Ok(None),
        other => other?,
    };
    let mut pauses = 0;
    loop {
        let pause = |_: &Machine| {
            looks += 1;
            fork || looks > most
        };
        match machine.run(pause) {
            Ok(true) => break,
            Ok(false) if looks > most => return Err(MachineError::TooLong),
            Ok(false) => {
                machine.check_conservation().unwrap();
                pauses += 1;
                if pauses % 8 == 3 {
                    machine = machine.fork();
                }
            }
            Err(MachineError::Os(_)) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    machine.check_conservation().unwrap();
    Ok(Some(machine.result()))
}

fn cases() -> u32 {
    let given = std::env::var("TIERSCOPE_CASES").ok().and_then(|cases| cases.parse().ok());
    given.unwrap_or(40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..Default::default() })]

    #[test]
    fn batches_forks_and_data_are_exact_on_any_machine(
        threads in prop::collection::vec(prop::collection::vec(doing(), 1..120), 1..7),
        changes in prop::collection::vec(0..CHANGES.len(), 0..5),
        levels in levels(),
        preset in 0..PRESETS.len(),
    ) {
        if let Some(spec) = varied(PRESETS[preset], &changes, levels) {
            holds(&spec, &script(&threads, false))?;
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases().div_ceil(4), failure_persistence: None, ..Default::default() })]

    /// Of 128 frames that the kernel pages, its own data and what has to stay leave few.
    #[test]
    fn the_same_holds_where_pages_are_gone_before_they_are_used(
        threads in prop::collection::vec(prop::collection::vec(doing(), 1..120), 2..7),
        changes in prop::collection::vec(0..CHANGES.len(), 0..5),
        levels in levels(),
        processes in any::<bool>(),
    ) {
        let tight = CHANGES.iter().enumerate().filter(|(_, sets)| TIGHTER.contains(sets));
        let changes: Vec<usize> = changes.into_iter().chain(tight.map(|(index, _)| index)).collect();
        if let Some(spec) = varied("storage/quick", &changes, levels) {
            holds(&spec, &script(&threads, processes))?;
        }
    }
}

/// A machine ends, reads what was written, and gives the same result however it is run.
fn holds(plain: &SystemSpec, script: &[Vec<Op>]) -> Result<(), TestCaseError> {
    let spec = SystemSpec { check_data: true, ..plain.clone() };
    let whole = result_within(MOST_LOOKS, &spec, script, 0, false).unwrap();
    if let Some(whole) = &whole {
        prop_assert_eq!(whole.counters["stale_loads"], 0);
    }
    prop_assert_eq!(&result(&spec, script, 1, false).unwrap(), &whole, "batches of one");
    prop_assert_eq!(&result(&spec, script, 7, false).unwrap(), &whole, "batches of seven");
    prop_assert_eq!(&result(&spec, script, 0, true).unwrap(), &whole, "forked again and again");
    prop_assert_eq!(&result(plain, script, 0, false).unwrap(), &whole, "data unchecked");
    Ok(())
}

// ---- What such runs have found ----------------------------------------------------------------

#[test]
fn threads_get_on_however_short_their_slices_are() {
    let sets = [("processor.cores", "1"), ("os.time_slice", "1us")];
    let update = |i: u64| [Op::store(ANONYMOUS + i * PAGE, 8, 400), Op::compute(4000)];
    let threads: Vec<Vec<Op>> =
        (0..3).map(|thread| (0..20).flat_map(|i| update(20 * thread + i)).collect()).collect();
    let start: Vec<Op> = (1..3).flat_map(|thread| call(Call::Spawn { thread })).collect();
    let mut all = threads.clone();
    all[0] = [start, threads[0].clone()].concat();
    for preset in PRESETS {
        let sums = run(&system(preset, &[&sets]), &all);
        assert_eq!(sums.accesses, 60);
        assert!(sums.counter("context_switches") > 20, "{preset}");
    }
}

#[test]
fn a_page_that_was_cut_off_a_file_while_it_was_written_is_not_read_back() {
    let write = |page: u64| {
        call(Call::Write { file: 0, offset: page * PAGE, length: 100, address: ANONYMOUS })
    };
    let writes = |pages: std::ops::Range<u64>| pages.flat_map(write).collect::<Vec<Op>>();
    let ops = [
        vec![Op::store(ANONYMOUS, 8, 4)],
        call(Call::Open { file: 0, size: PAGE }),
        // From the second dirty page on, pages are written in the background.
        writes(5..9),
        call(Call::Truncate { file: 0, length: PAGE }),
        writes(5..9),
    ]
    .concat();
    let sets = [("storage.dirty_background_ratio", "0.0"), ("check_data", "true")];
    let sums = run(&system("storage/quick", &[&sets]), &[ops]);
    assert!(sums.counter("file_write_back_pages") > 0);
    assert_eq!(sums.counter("major_faults"), 0, "a hole is not read");
}

#[test]
fn the_kernels_data_are_in_nobodys_pages_however_frames_are_given_out() {
    let length = 100 * PAGE;
    let start = (1..4)
        .map(|thread| Call::Spawn { thread })
        .chain([0, 1, 2, 3, 4].map(|file| Call::Open { file, size: length * u64::from(file > 0) }));
    // Lines in caches that nobody wants any more lie in the frames that the next call reads into.
    let rewrite = |file: u32| {
        [
            Call::Write { file: 0, offset: 0, length, address: ANONYMOUS },
            Call::Truncate { file: 0, length: 0 },
            Call::Read { file, offset: 0, length, address: ANONYMOUS },
        ]
    };
    let first = start.chain((1..5).flat_map(rewrite)).flat_map(call).collect();
    // The kernel looks up its own meanwhile.
    let others = (1..4).map(|thread| {
        let address = ANONYMOUS + 1000 * thread * PAGE;
        let read = |page: u64| Call::Read { file: 1, offset: page % 9 * PAGE, length: 9, address };
        (0..300).map(read).flat_map(call).collect()
    });
    let threads: Vec<Vec<Op>> = std::iter::once(first).chain(others).collect();
    let sets = [
        ("os.allocation", "fragmented"),
        ("storage.dram_capacity", "4MiB"),
        ("check_data", "true"),
    ];
    let sums = run(&system("storage/quick", &[&sets]), &threads);
    assert!(sums.counter("major_faults") > 0);
    assert_eq!(sums.counter("stale_loads"), 0);
}
