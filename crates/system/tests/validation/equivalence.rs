//! Machines that have to be the same, or nearly so, by what they are: at their limits the
//! organizations meet.

use super::support::*;
use proptest::prelude::*;
use tierscope_system::spec::SystemSpec;
use tierscope_workload::Op;
use tierscope_workload::generator;
use tierscope_workload::op::{Advice, Call, MAP_SHARED, MAP_WRITABLE};

/// A random line of a random page, `count` times over `pages` pages from `base`; half of them go to
/// an eighth of the pages.
fn random_lines(base: u64, pages: u64, count: u64, seed: u64) -> Vec<u64> {
    let line = |i: u64| {
        let draw = mixed(seed << 32 | i);
        let among = if draw & 1 == 0 { pages / 8 } else { pages };
        base + (draw >> 1) % among * PAGE + (draw >> 40) % (PAGE / LINE) * LINE
    };
    (0..count).map(line).collect()
}

// ---- `hybrid` and `storage` without software --------------------------------------------------

const PAGES_IN_DRAM: u64 = 4096;
const PAGES_IN_ALL: u64 = 4 * PAGES_IN_DRAM;

/// The same store behind the same link, the same DRAM, nothing read ahead, no software.
const ALIKE: Sets<'static> = &[("store.capacity", "256MiB"), ("dram.t_refi", "1000s")];
const FULLY_ASSOCIATIVE: Sets<'static> = &[
    ("hybrid.cache.capacity", "16MiB"),
    ("hybrid.cache.ways", "64"),
    ("hybrid.cache.tag_latency", "0s"),
    ("hybrid.prefetch_pages", "0"),
];
/// The kernel's own 256 pages, 35 pages of page tables, and the 194 pages that reclaim keeps free on
/// average (it goes on from 163 by 32 until 195 are free) come on top of the 4096.
const AS_MUCH_DRAM: Sets<'static> = &[
    ("storage.dram_capacity", "18324KiB"),
    ("storage.reclaim", "lru"),
    ("storage.readahead", "0B"),
    ("storage.swap_cluster_pages", "1"),
];

/// Both, after the same warm-up: what `ops` adds.
fn both_add(before: &[Op], ops: &[Vec<Op>]) -> [More; 2] {
    let alike = [ALIKE, WHOLE_LINK, FREE_KERNEL, SMALL_L3];
    let hybrid = system("hybrid/quick", &[&alike[..], &[FULLY_ASSOCIATIVE]].concat());
    let storage = system("storage/quick", &[&alike[..], &[AS_MUCH_DRAM]].concat());
    [hybrid, storage].map(|spec| after(&spec, before, ops))
}

/// What threads add that start once thread 0 has done `before`; it goes on with the first of them.
fn after(spec: &SystemSpec, before: &[Op], threads: &[Vec<Op>]) -> More {
    let start: Vec<Op> =
        (1..threads.len() as u32).flat_map(|thread| call(Call::Spawn { thread })).collect();
    let mut all = threads.to_vec();
    all[0] = [before, &start, &all[0]].concat();
    let mut idle = vec![Vec::new(); threads.len()];
    idle[0] = [before, &start].concat();
    run(spec, &all).minus(&run(spec, &idle))
}

fn off(a: u64, b: u64) -> f64 {
    b as f64 / a as f64 - 1.0
}

/// They take the same time within 2 %, by as many misses within 1.5 %: 0.2 to 0.9 % and −0.3 to
/// 0.2 % as measured here.
///
/// It is not 0. `storage` enters the kernel five times for a fault, writes the page to DRAM before
/// it goes on (the hybrid forwards the line first) and then reads the line from there: 0.5 % of a
/// miss at 25 us. Walks go to the DRAM cache on the hybrid, and may miss there. And the pages that
/// stay are not quite the same: the kernel sees a page used when its translation is fetched, the
/// hybrid when a line of it is; the kernel reclaims 32 pages at once over all of DRAM, the hybrid
/// one of 64 in a set.
fn assert_converge(before: &[Op], ops: &[Vec<Op>]) {
    let [hybrid, storage] = both_add(before, ops);
    let reads = |more: &More| more.stages_ps["medium"] / 25_000_000;
    let time = off(hybrid.time_ps, storage.time_ps);
    let misses = off(reads(&hybrid), reads(&storage));
    println!("storage beside hybrid: time {time:+.5}, misses {misses:+.5}");
    assert!(time.abs() < 0.02, "time {time:+.5}");
    assert!(misses.abs() < 0.015, "misses {misses:+.5}");
    assert!(reads(&hybrid) > hybrid.accesses / 4, "most of the work is misses");
}

/// Thread after thread a chase of its own.
fn chases(base: u64, threads: u64, count: u64) -> Vec<Vec<Op>> {
    let lines = |thread| random_lines(base, PAGES_IN_ALL, count, thread + 100);
    (0..threads).map(|thread| chase(&lines(thread), 40)).collect()
}

#[test]
fn without_software_storage_and_hybrid_converge_on_a_mapped_file() {
    let length = PAGES_IN_ALL * PAGE;
    let flags = MAP_SHARED | MAP_WRITABLE;
    let mut before = [
        call(Call::Open { file: 0, size: length }),
        call(Call::Map { address: MAPPED, length, flags, file: 0, offset: 0 }),
        call(Call::Advise { address: MAPPED, length, advice: Advice::Random as u64 }),
    ]
    .concat();
    before.extend(chase(&random_lines(MAPPED, PAGES_IN_ALL, 80_000, 1), 40));
    assert_converge(&before, &chases(MAPPED, 1, 20_000));
    assert_converge(&before, &chases(MAPPED, 4, 6_000));
}

#[test]
fn without_software_storage_and_hybrid_converge_on_anonymous_memory() {
    let mut before = chase(&every(PAGE, PAGES_IN_ALL), 40);
    before.extend(chase(&random_lines(ANONYMOUS, PAGES_IN_ALL, 80_000, 1), 40));
    assert_converge(&before, &chases(ANONYMOUS, 1, 20_000));
}

// ---- A hybrid as large as its store -----------------------------------------------------------

/// Pages of the workloads below: 4 MiB, beyond the on-chip caches.
const PAGES: u64 = 1024;

/// One thing that a thread may do in memory that was touched before.
fn touch(pages: u64) -> impl Strategy<Value = Op> {
    let lines = pages * (PAGE / LINE);
    (0..lines, any::<bool>(), any::<bool>(), 1u32..40).prop_map(|(line, write, dependent, work)| {
        let address = ANONYMOUS + line * LINE;
        // Four instructions take a nanosecond.
        let op =
            if write { Op::store(address, 8, 4 * work) } else { Op::load(address, 8, 4 * work) };
        op.with_flags(u8::from(dependent))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..Default::default() })]

    /// With no time for controller and tags, and each page in the frame of its own number, all that
    /// threads do in memory that has been read once takes exactly as long: to the picosecond, by
    /// stage.
    #[test]
    fn a_hybrid_as_large_as_its_store_equals_oracle_once_it_is_warm(
        threads in prop::collection::vec(prop::collection::vec(touch(PAGES), 1..600), 1..6),
    ) {
        let small = [("processor.caches.L3.capacity", "320KiB")];
        let capacity = [("oracle.capacity", "64MiB")];
        let oracle = system("oracle/quick", &[WHOLE_NANOSECONDS, &small, &capacity]);
        let whole = [
            ("store.capacity", "64MiB"),
            ("hybrid.cache.capacity", "64MiB"),
            ("hybrid.cache.ways", "1"),
            ("hybrid.cache.tag_latency", "0s"),
            ("hybrid.controller_latency", "0s"),
            ("hybrid.queue_depth", "4096"),
            ("hybrid.prefetch_pages", "0"),
        ];
        let hybrid = system("hybrid/quick", &[WHOLE_NANOSECONDS, &small, WHOLE_LINK, &whole]);
        // Kernel data, page tables and all lines are read twice: the second time from DRAM.
        let lines = chase(&every(LINE, PAGES * PAGE / LINE), 400);
        let before = repeat(&lines, 2);
        let [expected, found] = [oracle, hybrid].map(|spec| after(&spec, &before, &threads));
        prop_assert_eq!(found, expected);
    }
}

// ---- Associativity ----------------------------------------------------------------------------

#[test]
fn ways_beyond_the_pages_of_a_set_change_nothing() {
    // Half of the cache's pages are used, so half of any set's ways; touched in order, they lie in
    // DRAM in that order whatever the ways, and so find the same rows open.
    let alike = [
        ("hybrid.cache.capacity", "8MiB"),
        ("store.capacity", "64MiB"),
        ("hybrid.prefetch_pages", "0"),
    ];
    let order: Vec<u64> =
        (0..8 * 1024).map(|i| ANONYMOUS + i % 1024 * PAGE + i / 1024 * LINE).collect();
    let before = repeat(&chase(&order, 40), 2);
    let results = ["1", "2", "4", "8", "16", "32", "64"].map(|ways| {
        let sets = [&alike[..], &[("hybrid.cache.ways", ways)]];
        let all = [&[WHOLE_NANOSECONDS, WHOLE_LINK, FREE_KERNEL, SMALL_L3, LARGE_TLB], &sets[..]];
        let spec = system("hybrid/quick", &all.concat());
        let sums = run(&spec, std::slice::from_ref(&before));
        let counts = ["dram_cache_lookups", "dram_cache_misses", "write_back_pages"];
        (after(&spec, &before, &[chase(&order, 40)]), counts.map(|name| sums.counter(name)))
    });
    for (index, result) in results.iter().enumerate() {
        assert_eq!(result, &results[0], "{} ways", 1 << index);
    }
}

// ---- Storage that holds everything ------------------------------------------------------------

/// What a thread may do in anonymous memory.
#[derive(Clone, Debug)]
enum Do {
    Access(Op),
    Unmap(u64),
    DontNeed(u64),
    Move(u64),
    Sleep(u64),
}

fn doing() -> impl Strategy<Value = Do> {
    prop_oneof![
        40 => touch(PAGES).prop_map(Do::Access),
        1 => (0..PAGES).prop_map(Do::Unmap),
        1 => (0..PAGES).prop_map(Do::DontNeed),
        1 => (0..PAGES).prop_map(Do::Move),
        1 => (1u64..3_000_000).prop_map(Do::Sleep),
    ]
}

fn written_down(todo: &[Do]) -> Vec<Op> {
    let at = |page: u64| ANONYMOUS + page * PAGE;
    let length = 2 * PAGE;
    let ops = todo.iter().map(|what| match *what {
        Do::Access(op) => vec![op],
        Do::Unmap(page) => call(Call::Unmap { address: at(page), length }),
        Do::DontNeed(page) => {
            call(Call::Advise { address: at(page), length, advice: Advice::DontNeed as u64 })
        }
        Do::Move(page) => call(Call::Remap {
            old_address: at(page),
            old_length: length,
            new_address: at(page + 4096),
            new_length: length,
        }),
        Do::Sleep(duration_ps) => call(Call::Sleep { duration_ps }),
    });
    ops.flatten().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..Default::default() })]

    /// Whatever threads do in memory that fits in DRAM: the whole result is the same, every figure
    /// and counter.
    #[test]
    fn storage_that_holds_everything_equals_oracle(
        threads in prop::collection::vec(prop::collection::vec(doing(), 1..400), 1..7),
    ) {
        let threads: Vec<Vec<Op>> = threads.iter().map(|todo| written_down(todo)).collect();
        let mut all = threads.clone();
        let others = 1..threads.len() as u32;
        let start: Vec<Op> = others.flat_map(|thread| call(Call::Spawn { thread })).collect();
        all[0] = [start, threads[0].clone()].concat();
        let few_cores = [("processor.cores", "2"), ("os.time_slice", "20us")];
        let oracle = [("oracle.capacity", "256MiB")];
        let expected = run(&system("oracle/quick", &[&oracle, SMALL_L3, &few_cores]), &all).result;
        let found = run(&system("storage/quick", &[SMALL_L3, &few_cores]), &all).result;
        let (organization, miss_kind) = (expected.organization.clone(), expected.miss_kind.clone());
        // The store and its link do nothing, and take what they take at rest.
        let mut energy = found.energy.clone();
        energy.parts_j.retain(|part, _| expected.energy.parts_j.contains_key(part));
        let at_rest_j = (16.0 * 264e-6 + 1.664) * found.time_s;
        let sum_j = expected.energy.total_j.unwrap() + at_rest_j;
        prop_assert!((energy.total_j.unwrap() / sum_j - 1.0).abs() < 1e-9, "{:?}", found.energy);
        (energy.total_j, energy.average_w) = (expected.energy.total_j, expected.energy.average_w);
        let mut found =
            tierscope_system::result::SystemResult { organization, miss_kind, energy, ..found };
        // Of the store's queues, which the oracle has not, all are empty.
        if let (Some(found), Some(expected)) = (&mut found.queues, &expected.queues) {
            let known = |name: &str| expected.queues.contains_key(name);
            let others = found.queues.iter().filter(|(name, _)| !known(name));
            prop_assert!(others.clone().count() > 0 && others.clone().all(|(_, it)| it.max == 0));
            found.queues.retain(|name, _| known(name));
        }
        prop_assert_eq!(found, expected);
    }
}

/// Who waits for a place of a full controller, or for a buffer in it, waits for the store: that is what
/// all who hold one wait for.
#[test]
fn waiting_for_a_place_of_the_hybrid_controller_is_charged_to_what_holds_it() {
    for (places, fills, write_backs) in [("4", "64", "64"), ("64", "2", "64"), ("64", "8", "1")] {
        let tight = [
            ("hybrid.queue_depth", places),
            ("hybrid.fills", fills),
            ("hybrid.write_back_buffer_pages", write_backs),
            ("hybrid.prefetch_pages", "0"),
            ("hybrid.cache.capacity", "2MiB"),
            ("processor.caches.L3.capacity", "320KiB"),
        ];
        let parameters =
            [("updates", 2_000.into()), ("threads", 16.into()), ("table", "64MiB".into())]
                .map(|(name, value): (&str, serde_json::Value)| (name.to_owned(), value));
        let stream = generator::find("gups").unwrap().make(&parameters, 1).unwrap().0;
        let found = run_stream(&system("hybrid/quick", &[&tight]), stream);
        let queue = found.stage_ps("controller_queue") as f64 / found.latency_ps as f64;
        let store = ["link", "store_queue", "device", "medium"].map(|stage| found.stage_ps(stage));
        let store = store.iter().sum::<u64>() as f64 / found.latency_ps as f64;
        let name = format!("{places} places, {fills} fills, {write_backs} write-backs");
        assert!(queue < 0.01 && store > 0.2, "{name}: {queue} by itself, {store} for the store");
    }
}

#[test]
fn a_machine_that_keeps_nothing_says_that_syncs_give_no_durability() {
    let file = 1;
    let calls = [
        Call::Open { file, size: 1 << 16 },
        Call::Write { file, offset: 0, length: 8192, address: ANONYMOUS },
        Call::Sync { file },
        Call::Sync { file },
    ];
    let [with, without] = [&calls[..], &calls[..2]]
        .map(|calls| calls.iter().flat_map(|it| call(*it)).collect::<Vec<Op>>());
    let plain: &[(&str, &str)] = &[];
    for (name, sets, says) in [
        ("oracle/quick", plain, true),
        ("hybrid/quick", &[("hybrid.flush_at_sync", "false")], true),
        ("hybrid/quick", plain, false),
        ("storage/quick", plain, false),
    ] {
        let [with, without] = [&with, &without]
            .map(|ops| run(&system(name, &[sets]), std::slice::from_ref(ops)).result.notes);
        let told = |notes: &[String]| notes.iter().any(|note| note.contains("2 calls asked"));
        assert_eq!((told(&with), told(&without)), (says, false), "{name}: {with:?}");
    }
}
