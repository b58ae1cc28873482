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

/// A read takes as long.
const READ_PS: std::ops::Range<u64> = 36_000_000..36_500_000;
/// Interrupts that take far longer than a read, 200 us, and nothing else that costs.
const LONG_INTERRUPTS: Sets<'static> =
    &[("os.paths.interrupt", "{ instructions = 400000, lines = 0 }")];
const INTERRUPT_PS: u64 = 200_000_000;
/// The last hardware thread takes all of them.
const ONE: Sets<'static> =
    &[("storage.driver.interrupts", "one"), ("storage.driver.interrupt_thread", "3")];
/// The faults of four threads.
const FOUR: u64 = 4 * PAGES;

#[test]
fn who_takes_all_interrupts_bounds_their_rate() {
    let each = run_threads(4, "4", &[LONG_INTERRUPTS]);
    let one = run_threads(4, "4", &[LONG_INTERRUPTS, ONE]);
    let off =
        run_threads(4, "4", &[LONG_INTERRUPTS, ONE, &[("storage.driver.rq_affinity", "off")]]);
    for sums in [&each, &one, &off] {
        assert_eq!((sums.counter("interrupts"), sums.counter("completion_interrupts")), (FOUR, 0));
    }
    // Side by side, each behind a read; or behind each other, but for the first's read.
    let reads_ps = each.time_ps - PAGES * INTERRUPT_PS;
    assert!(READ_PS.contains(&(reads_ps / PAGES)), "{reads_ps} ps of reads");
    let first_ps = one.time_ps - FOUR * INTERRUPT_PS;
    assert!(READ_PS.contains(&first_ps), "{first_ps} ps before the first");
    assert_eq!(one.time_ps, off.time_ps, "cores share a cache");
    // Those who wait for the others' are told so.
    assert!(one.stage_ps("interrupt") > 3 * FOUR * INTERRUPT_PS, "{}", one.stage_ps("interrupt"));
}

#[test]
fn a_queue_interrupts_the_first_of_its_cores() {
    let queues = |count: &'static str| {
        let layer: Sets<'_> = &[
            ("storage.block_layer.scheduler", "none"),
            ("storage.block_layer.hardware_queues", count),
            ("storage.driver.interrupts", "queue"),
        ];
        let sums = run_threads(4, "4", &[LONG_INTERRUPTS, layer]);
        assert_eq!(sums.counter("interrupts"), FOUR);
        sums.time_ps as f64 / (PAGES * INTERRUPT_PS) as f64
    };
    let (one, two, four) = (queues("1"), queues("2"), queues("4"));
    assert!((one - 4.0).abs() < 0.02 && (two - 2.0).abs() < 0.02, "{one}, {two}");
    assert!((four - 1.18).abs() < 0.02, "{four}");
}

#[test]
fn a_completion_is_passed_on_to_who_asked() {
    // 1 us for the device's interrupt, 100 us for the one between hardware threads and 200 us to wake a thread.
    let paths: Sets<'_> = &[
        ("os.paths.interrupt", "{ instructions = 2000, lines = 0 }"),
        ("os.paths.completion_interrupt", "{ instructions = 200000, lines = 0 }"),
        ("os.paths.wake_up", "{ instructions = 400000, lines = 0 }"),
    ];
    let apart: Sets<'_> = &[("processor.caches.L3.shared", "false")];
    let affinity = |kind: &'static str, more: &[Sets<'_>]| {
        let set: Sets<'_> = &[("storage.driver.rq_affinity", kind)];
        let sums = run_threads(3, "4", &[&[paths, ONE, set], more].concat());
        (sums.counter("completion_interrupts"), sums.time_ps)
    };
    let (wake_ps, passed_ps) = (200_000_000, 100_000_000);
    // Where they come, on a core without a thread, all are woken one after the other.
    for (kind, more) in [("off", &[apart][..]), ("group", &[])] {
        let (passed, time_ps) = affinity(kind, more);
        assert_eq!(passed, 0, "{kind}");
        assert!(time_ps > 3 * PAGES * wake_ps, "{kind}: {time_ps} ps");
    }
    // Passed on, each is woken on its own core.
    for (kind, more) in [("core", &[][..]), ("group", &[apart])] {
        let (passed, time_ps) = affinity(kind, more);
        assert_eq!(passed, 3 * PAGES, "{kind}");
        let each_ps = PAGES * (READ_PS.start + 1_000_000 + passed_ps + wake_ps);
        let beyond_ps = time_ps as f64 - each_ps as f64;
        assert!((0.0..0.03).contains(&(beyond_ps / each_ps as f64)), "{kind}: {beyond_ps} ps");
    }
}

#[test]
fn who_computes_where_interrupts_come_loses_their_time() {
    let time_ps = |taker: &'static str| {
        let one: Sets<'_> =
            &[("storage.driver.interrupts", "one"), ("storage.driver.interrupt_thread", taker)];
        let changes: Vec<Sets<'_>> = [FREE_KERNEL, WHOLE_NANOSECONDS, FAULTS, LONG_INTERRUPTS, one]
            .into_iter()
            .chain([&[("processor.cores", "4"), ("os.time_slice", "1s")][..]])
            .collect();
        // 100 ms of instructions on the second core, and faults on the first for 10 ms.
        let computes: Vec<Op> = (0..200_000).map(|_| Op::load(MAPPED - PAGE, 8, 1000)).collect();
        run(&system("storage/quick", &changes), &together(vec![faults(0), computes])).time_ps
    };
    let (first, second, third) = (time_ps("0"), time_ps("1"), time_ps("2"));
    assert_eq!(first, third);
    let lost_ps = second - first;
    assert!(lost_ps.abs_diff(PAGES * INTERRUPT_PS) < 10_000, "{lost_ps} ps");
}
