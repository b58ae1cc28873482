//! Two nodes of memory, between which the kernel moves pages: whole machines against what they have to be.

use super::support::*;
use tierscope_workload::Op;
use tierscope_workload::op::{Call, FLAG_DEPENDENT};

/// So little DRAM, and caches, that a workload of milliseconds feels all of it; the kernel looks all the time.
const SMALL: Sets<'static> = &[
    ("processor.caches.L2.capacity", "64KiB"),
    ("processor.caches.L3.capacity", "240KiB"),
    ("tiering.capacity", "6MiB"),
    ("dram.channels", "2"),
    ("store.capacity", "64MiB"),
    ("tiering.balancing.scan_delay", "50us"),
    ("tiering.balancing.scan_period", "200us"),
    ("tiering.balancing.scan_size", "1MiB"),
    ("tiering.balancing.scan_limit", "1TB/s"),
    ("tiering.balancing.hot_threshold", "200us"),
    ("tiering.balancing.scan_entry.instructions", "2"),
    ("check_data", "true"),
];
const STAYS: Sets<'static> = &[("tiering.balancing.scan_delay", "1000s")];

/// Memory is filled in order, so that its end is in the slower memory; then pages of the end are used again and
/// again.
fn hot_end(mib: u64, hot_pages: u64, rounds: u64) -> Vec<Op> {
    let pages = mib * 256;
    let store = |page: u64| Op::store(ANONYMOUS + page * PAGE, 8, 8);
    let mut ops: Vec<Op> = (0..pages).map(store).collect();
    let first = pages - hot_pages;
    let lines = PAGE / LINE;
    ops.extend((0..rounds * hot_pages * lines).map(|i| {
        let at = mixed(i) % (hot_pages * lines);
        Op::load(ANONYMOUS + first * PAGE + at * LINE, 8, 8).with_flags(FLAG_DEPENDENT)
    }));
    ops
}

#[test]
fn hot_pages_of_the_slower_memory_come_to_dram_and_the_program_gets_faster() {
    let ops = vec![hot_end(10, 256, 5)];
    let moves = run(&system("cxl-tiering/quick", &[SMALL]), &ops);
    let stays = run(&system("cxl-tiering/quick", &[SMALL, STAYS]), &ops);
    assert_eq!(stays.counter("promoted_pages"), 0);
    let promoted = moves.counter("promoted_pages");
    assert!(promoted > 220, "{promoted} of 256");
    assert!(moves.counter("demoted_pages") >= promoted / 2, "they make room");
    let hint_faults = moves.counter("hint_faults");
    assert!(hint_faults >= promoted && hint_faults <= moves.counter("protected_pages"));
    assert_eq!(moves.result.faults["hint"].count, hint_faults);
    // Beside what fills memory, and with the copies of the pages that come.
    let filled = run(&system("cxl-tiering/quick", &[SMALL, STAYS]), &[hot_end(10, 256, 0)]);
    let filled = filled.counter("dram_cache_misses");
    let far = |sums: &Sums| sums.counter("dram_cache_misses") - filled;
    assert!(far(&moves) * 2 < far(&stays), "{} of {}", far(&moves), far(&stays));
    assert!(moves.time_ps < stays.time_ps, "{} of {}", moves.time_ps, stays.time_ps);
}

#[test]
fn where_all_is_in_dram_it_is_an_oracle() {
    let dram: Sets<'_> = &[
        ("processor.caches.L2.capacity", "64KiB"),
        ("processor.caches.L3.capacity", "960KiB"),
        ("dram.channels", "2"),
    ];
    let nodes = system("cxl-tiering/quick", &[dram, STAYS, &[("tiering.capacity", "64MiB")]]);
    let mut oracle = nodes.clone();
    oracle.oracle =
        Some(tierscope_model::organization::OracleSpec { capacity: "64MiB".parse().unwrap() });
    (oracle.tiering, oracle.store, oracle.cxl_mem) = (None, None, None);
    assert!(oracle.check().is_empty(), "{}", oracle.check());
    let ops = vec![hot_end(4, 64, 2)];
    let [nodes, oracle] = [nodes, oracle].map(|spec| run(&spec, &ops));
    assert_eq!(nodes.counter("dram_cache_misses"), 0);
    assert_eq!(nodes.time_ps, oracle.time_ps);
    assert_eq!(nodes.stages_ps, oracle.stages_ps);
}

#[test]
fn a_line_of_the_slower_memory_takes_the_link_and_its_time_longer() {
    // All but the kernel's own frames are in the slower memory, or none.
    let chased = |capacity: &str| {
        let small: Sets<'_> = &[("tiering.capacity", capacity), ("processor.tlb.entries", "49152")];
        let spec = system("cxl-tiering/quick", &[SMALL, STAYS, FREE_KERNEL, small]);
        let walk: Vec<Op> = chase(&every(PAGE, 1024), 8);
        let steps = repeat(
            &chase(
                &(0..8192).map(|i| ANONYMOUS + mixed(i) % (1 << 16) * LINE).collect::<Vec<_>>(),
                8,
            ),
            1,
        );
        let before = run(&spec, std::slice::from_ref(&walk));
        let all = run(&spec, &[[walk, steps].concat()]);
        (all.minus(&before), all.result)
    };
    let (near, _) = chased("32MiB");
    let (far, _) = chased("2MiB");
    let each_ns = |more: &More| more.time_ps as f64 / 1e3 / more.accesses as f64;
    let difference = each_ns(&far) - each_ns(&near);
    // The preset is to be 50 to 100 ns slower than local memory, of what the caches do not serve (three of four).
    assert!((30.0..110.0).contains(&difference), "{difference} ns");
}

/// Threads that share what moves beneath them, with data checked.
#[test]
fn threads_read_what_they_wrote_while_pages_move_to_and_fro() {
    let thread = |number: u64| -> Vec<Op> {
        let step = |i: u64| {
            let draw = mixed(number << 32 | i);
            // A window of 1 MiB that wanders over 10, so that all is hot once.
            let window = i / 1500 % 10 * (1 << 20);
            let address = ANONYMOUS + window + draw % (1 << 20) / LINE * LINE;
            if draw >> 60 < 6 { Op::store(address, 8, 400) } else { Op::load(address, 8, 400) }
        };
        (0..30_000).map(step).collect()
    };
    let mut threads: Vec<Vec<Op>> = (0..4).map(thread).collect();
    let start: Vec<Op> = (1..4).flat_map(|thread| call(Call::Spawn { thread })).collect();
    let fill = (0..10 * 256).map(|page| Op::store(ANONYMOUS + page * PAGE, 8, 8));
    threads[0] = fill.chain(start).chain(std::mem::take(&mut threads[0])).collect();
    // Stale data end the run.
    let often: Sets<'_> =
        &[("tiering.balancing.scan_period", "100us"), ("tiering.balancing.hot_threshold", "1ms")];
    let sums = run(&system("cxl-tiering/quick", &[SMALL, often]), &threads);
    assert!(sums.counter("promoted_pages") > 20, "{}", sums.counter("promoted_pages"));
    assert!(sums.counter("demoted_pages") > 0, "{}", sums.counter("demoted_pages"));
    assert!(sums.result.time_breakdown_ns["migration"] > 0.0);
}
