//! The driver of a store: who waits for an interrupt, who polls, and a lock that all share.

use super::sensitivity::together;
use super::support::*;
use tierscope_workload::Op;
use tierscope_workload::op::{Call, FLAG_DEPENDENT, MAP_SHARED};

/// Every fault waits for one page of a file, and nothing of the kernel touches a line.
const FAULTS: Sets<'static> = &[
    ("storage.readahead", "0B"),
    ("storage.fault_around", "4KiB"),
    ("storage.dirty_writeback", "0s"),
    ("store.units", "64"),
];
const PAGES: u64 = 40;
const POLLING: Sets<'static> = &[("storage.driver.completion", "polling")];
const HYBRID: Sets<'static> = &[("storage.driver.completion", "hybrid")];
/// So slow a store that service times of several faults are gathered, and then of others, within a run.
const SLOW: Sets<'static> = &[("store.read_latency", "10ms")];

/// Maps a file of its own and loads from each of its pages.
fn faults(thread: u32) -> Vec<Op> {
    let base = MAPPED + (u64::from(thread) << 30);
    let (file, length) = (thread, PAGES * PAGE);
    let mut ops = call(Call::Open { file, size: length });
    ops.extend(call(Call::Map { address: base, length, file, offset: 0, flags: MAP_SHARED }));
    let page = |index| Op::load(base + index * PAGE, 8, 1).with_flags(FLAG_DEPENDENT);
    ops.extend((0..PAGES).map(page));
    ops
}

/// So many threads that fault, each on a core of its own if there are as many.
fn run_threads(threads: u32, cores: &str, changes: &[Sets<'_>]) -> Sums {
    let one: Sets<'_> = &[("processor.cores", cores)];
    let all: Vec<Sets<'_>> = [FREE_KERNEL, WHOLE_NANOSECONDS, FAULTS, one]
        .into_iter()
        .chain(changes.iter().copied())
        .collect();
    run(&system("storage/quick", &all), &together((0..threads).map(faults).collect()))
}

#[test]
fn a_thread_that_polls_saves_interrupt_switch_and_wake_up() {
    // At 2 GHz and a cycle each, in half nanoseconds.
    let paths: Sets<'_> = &[
        ("os.paths.interrupt", "{ instructions = 2000, lines = 0 }"),
        ("os.paths.wake_up", "{ instructions = 4000, lines = 0 }"),
        ("os.paths.context_switch", "{ instructions = 8000, lines = 0 }"),
    ];
    let poll: Sets<'_> = &[("storage.driver.poll", "{ instructions = 600, lines = 0 }")];
    let waits = run_threads(1, "1", &[paths]);
    let polls = run_threads(1, "1", &[paths, POLLING, poll]);
    assert_eq!((waits.counter("interrupts"), polls.counter("interrupts")), (PAGES, 0));
    assert_eq!((waits.counter("context_switches"), polls.counter("context_switches")), (PAGES, 0));
    assert_eq!(polls.stage_ps("driver"), PAGES * 300_000);
    let saved_ps = PAGES * (1_000_000 + 2_000_000 + 4_000_000 - 300_000);
    assert_eq!(waits.time_ps - polls.time_ps, saved_ps);
}

#[test]
fn who_polls_keeps_its_core() {
    let alone = run_threads(1, "1", &[POLLING]).time_ps as f64;
    let both = run_threads(2, "1", &[POLLING]).time_ps as f64;
    let switched = run_threads(2, "1", &[]).time_ps as f64;
    let apart = run_threads(2, "2", &[POLLING]).time_ps as f64;
    assert!((both / alone - 2.0).abs() < 0.02, "{both} of two, {alone} of one");
    assert!((switched / alone - 1.0).abs() < 0.02, "{switched} of two, {alone} of one");
    assert!((apart / alone - 1.0).abs() < 0.02, "{apart} of two, {alone} of one");
}

#[test]
fn a_lock_bounds_the_rate_of_requests() {
    let lock: Sets<'_> = &[("storage.driver.lock", "100us")];
    for changes in [&[lock][..], &[lock, POLLING][..]] {
        let four = run_threads(4, "4", changes);
        let requests = 4 * PAGES;
        assert_eq!(four.counter("major_faults"), requests);
        // The last one is read when all have had the lock.
        let held_ps = requests * 100_000_000;
        let behind_ps = four.time_ps - held_ps;
        assert!((25_000_000..40_000_000).contains(&behind_ps), "{behind_ps} ps behind the last");
        // Three of four wait for those before them, once all have begun.
        let waits_ps = four.stage_ps("driver");
        assert!(waits_ps > 3 * held_ps && waits_ps < 4 * held_ps, "{waits_ps} of {held_ps}");
    }
}

/// Nanoseconds in which threads wait for nothing that the machine does.
fn blocked_ns(sums: &Sums) -> f64 {
    sums.result.time_breakdown_ns.get("blocked").copied().unwrap_or(0.0)
}

#[test]
fn a_thread_that_sleeps_before_it_polls_is_as_quick() {
    let polls = run_threads(1, "1", &[SLOW, POLLING]);
    let sleeps = run_threads(1, "1", &[SLOW, HYBRID]);
    // Ten faults pass before their mean is known.
    assert_eq!((polls.counter("interrupts"), sleeps.counter("interrupts")), (0, PAGES - 10));
    assert_eq!(sleeps.counter("context_switches"), PAGES - 10);
    // The kernel is free, and half of the mean is less than any of them: nothing is lost.
    assert_eq!(sleeps.time_ps, polls.time_ps);
    // But for the few cycles of being switched to again, which the wait hides, each stage is as long.
    assert_eq!(
        sleeps.stages_ps.keys().collect::<Vec<_>>(),
        polls.stages_ps.keys().collect::<Vec<_>>()
    );
    for (stage, ps) in &polls.stages_ps {
        let apart_ps = sleeps.stages_ps[stage].abs_diff(*ps);
        assert!(apart_ps <= (PAGES - 10) * 10_000, "{stage}: {apart_ps} ps");
    }
    assert_eq!(blocked_ns(&sleeps), 0.0);
}

#[test]
fn while_one_sleeps_another_runs() {
    let time_ms = |changes: &[Sets<'_>]| run_threads(2, "1", changes).time_ps as f64 * 1e-9;
    let polls = time_ms(&[SLOW, POLLING]);
    let switched = time_ms(&[SLOW]);
    let sleeps = time_ms(&[SLOW, HYBRID]);
    // One after the other, 800 ms; side by side, 400 ms. Where half is slept, ten faults teach how long that is, and
    // of the other 70 one thread polls while the other sleeps.
    assert!((polls - 800.0).abs() < 10.0 && (switched - 400.0).abs() < 10.0, "{polls}, {switched}");
    assert!((sleeps - 450.0).abs() < 10.0, "{sleeps}");
}

#[test]
fn who_slept_too_long_finds_its_request_when_it_wakes() {
    // Four at a store of one unit teach that a page takes four times what it takes alone.
    let one_unit: Sets<'_> = &[("store.units", "1")];
    let crowd = |threads: u32| {
        let mut all: Vec<Vec<Op>> = (0..threads).map(faults).collect();
        let more = all[0].len();
        all[0] = [faults(0), faults(9)].concat();
        assert!(all[0].len() > more);
        let changes: Vec<Sets<'_>> = [FREE_KERNEL, WHOLE_NANOSECONDS, FAULTS, SLOW, HYBRID]
            .into_iter()
            .chain([one_unit, &[("processor.cores", "4")][..]])
            .collect();
        run(&system("storage/quick", &changes), &together(all))
    };
    let sums = crowd(4);
    assert_eq!(sums.counter("major_faults"), 5 * PAGES);
    // Alone, each of the first sleeps for some 20 ms, and its page is there after 10.
    assert!(blocked_ns(&sums) > 2e7, "{} ns of sleep beyond its requests", blocked_ns(&sums));
}
