//! Reads of flash that a core does not wait for: it runs another thread (SkyByte, HPCA 2025).

use super::sensitivity::together;
use super::support::*;
use tierscope_workload::Op;
use tierscope_workload::op::FLAG_DEPENDENT;

/// Little is kept on chip, all that is read is checked, and one core runs all threads.
const ONE_CORE: Sets<'static> = &[
    ("processor.cores", "1"),
    ("processor.caches.L2.capacity", "64KiB"),
    ("processor.caches.L3.capacity", "960KiB"),
    ("check_data", "true"),
];
const PAGES: u64 = 1024;
const LOADS: u64 = 300;

/// Touches all pages of its own, and loads from so many random lines of them, each after the other.
fn random(thread: u32, loads: u64) -> Vec<Op> {
    let base = ANONYMOUS + (u64::from(thread) << 30);
    let touch = |page| Op::store(base + page * PAGE, 8, 40);
    let load = |i| {
        let address = base + mixed(u64::from(thread) << 32 | i) % (PAGES * PAGE) / LINE * LINE;
        Op::load(address, 8, 40).with_flags(FLAG_DEPENDENT)
    };
    (0..PAGES).map(touch).chain((0..loads).map(load)).collect()
}

/// What the loads of so many threads take beyond the touches, and how often a core was switched for one.
fn loads(preset: &str, threads: u32, changes: &[Sets<'_>]) -> (u64, u64) {
    let all: Vec<Sets<'_>> =
        [ONE_CORE, FREE_KERNEL].into_iter().chain(changes.iter().copied()).collect();
    let spec = system(preset, &all);
    let run = |loads| run(&spec, &together((0..threads).map(|it| random(it, loads)).collect()));
    let (before, after) = (run(0), run(LOADS));
    let switches = |sums: &Sums| match spec.tiered.as_ref().and_then(|it| it.long_reads.as_ref()) {
        Some(_) => sums.counter("long_read_switches"),
        None => 0,
    };
    assert!(switches(&after) <= after.counter("context_switches"));
    (after.time_ps - before.time_ps, switches(&after) - switches(&before))
}

const PLAIN: &str = "cxl-ssd/quick";
const SWITCHING: &str = "cxl-ssd/switching/quick";

#[test]
fn threads_share_a_core_that_does_not_wait_for_flash() {
    let (waits_ps, none) = loads(PLAIN, 4, &[]);
    let (switches_ps, switches) = loads(SWITCHING, 4, &[]);
    assert_eq!(none, 0);
    assert!(switches > 300, "{switches}");
    assert!(switches_ps < waits_ps * 4 / 5, "{switches_ps} of {waits_ps}");
}

#[test]
fn a_thread_by_itself_asks_until_its_line_is_there() {
    let (waits_ps, _) = loads(PLAIN, 1, &[]);
    let (switches_ps, switches) = loads(SWITCHING, 1, &[]);
    assert!(switches > 100, "{switches}");
    let ratio = switches_ps as f64 / waits_ps as f64;
    assert!((0.85..1.15).contains(&ratio), "{switches_ps} of {waits_ps}");
    // Who learns of it later asks less often.
    let (_, fewer) = loads(SWITCHING, 1, &[&[("tiered.long_reads.latency", "1us")]]);
    assert!(fewer < switches / 2, "{fewer} of {switches}");
}

#[test]
fn what_takes_no_longer_than_the_threshold_is_waited_for() {
    let never: Sets<'_> = &[("tiered.long_reads.above", "1s")];
    assert_eq!(loads(SWITCHING, 2, &[never]), loads(PLAIN, 2, &[]));
}
