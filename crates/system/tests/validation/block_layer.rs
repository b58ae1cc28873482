//! The block layer: pages become requests, which wait in a scheduler's order.

use super::sensitivity::together;
use super::support::*;
use tierscope_workload::Op;
use tierscope_workload::op::{Call, FLAG_DEPENDENT, MAP_SHARED};

const NONE: Sets<'static> = &[("storage.block_layer", "{ scheduler = \"none\" }")];
const APART: Sets<'static> = &[("storage.block_layer", "{ scheduler = \"none\", merges = false }")];
const READAHEAD: Sets<'static> = &[
    ("storage.readahead", "128KiB"),
    ("storage.fault_around", "4KiB"),
    ("storage.dirty_writeback", "0s"),
    ("storage.largest_request", "512KiB"),
];
const PAGES: u64 = 512;

/// Reads a file of its own from its beginning to its end, in calls of so many pages.
fn reads(thread: u32, pages: u64) -> Vec<Op> {
    let (file, buffer) = (thread, MAPPED + (u64::from(thread) << 30));
    let mut ops = call(Call::Open { file, size: PAGES * PAGE });
    for first in (0..PAGES).step_by(pages as usize) {
        let (offset, length) = (first * PAGE, pages * PAGE);
        ops.extend(call(Call::Read { file, offset, length, address: buffer }));
    }
    ops
}

/// Maps a file of its own and loads from pages far apart.
fn faults(thread: u32, pages: u64) -> Vec<Op> {
    let base = MAPPED + (u64::from(thread) << 30);
    let (file, length) = (thread, 64 * pages * PAGE);
    let mut ops = call(Call::Open { file, size: length });
    ops.extend(call(Call::Map { address: base, length, file, offset: 0, flags: MAP_SHARED }));
    let page = |index| Op::load(base + index * 64 * PAGE, 8, 1).with_flags(FLAG_DEPENDENT);
    ops.extend((0..pages).map(page));
    ops
}

fn run_threads(threads: Vec<Vec<Op>>, changes: &[Sets<'_>]) -> Sums {
    let count = threads.len().to_string();
    let cores: Sets<'_> = &[("processor.cores", &count)];
    let all: Vec<Sets<'_>> = [FREE_KERNEL, WHOLE_NANOSECONDS, READAHEAD, cores]
        .into_iter()
        .chain(changes.iter().copied())
        .collect();
    run(&system("storage/quick", &all), &together(threads))
}

#[test]
fn a_window_of_readahead_is_one_request() {
    let one = run_threads(vec![reads(0, 8)], &[NONE]);
    assert_eq!(one.counter("block_pages"), PAGES);
    // Windows of 32 pages, and the first ones, which are smaller.
    let windows = one.counter("readahead_requests");
    assert_eq!(one.counter("block_requests"), windows);
    assert!((PAGES / 32..PAGES / 32 + 4).contains(&windows), "{windows}");
    // It is one bio, whose pages stay together where bios do not.
    let apart = run_threads(vec![reads(0, 8)], &[APART]);
    assert_eq!(apart.counter("block_requests"), windows);
}

#[test]
fn requests_are_no_larger_than_the_largest_and_have_no_more_segments_than_the_device_takes() {
    let large: Sets<'_> = &[("storage.readahead", "512KiB")];
    let eight: Sets<'_> = &[("storage.largest_request", "32KiB")];
    let of_eight = run_threads(vec![reads(0, 64)], &[large, NONE, eight]);
    assert_eq!(of_eight.counter("block_requests"), PAGES / 8);
    let four: Sets<'_> = &[
        ("storage.block_layer", "{ scheduler = \"none\", segments = 4 }"),
        ("os.allocation", "fragmented"),
    ];
    let scattered = run_threads(vec![reads(0, 64)], &[large, four]);
    let requests = scattered.counter("block_requests");
    // Frames lie at random: hardly any two are neighbours.
    assert!((PAGES * 9 / 40..=PAGES / 4 + 8).contains(&requests), "{requests}");
}

#[test]
fn single_pages_go_as_they_do_without_a_block_layer() {
    let none: Sets<'_> = &[("storage.readahead", "0B")];
    let plain = run_threads(vec![faults(0, 40)], &[none]);
    for scheduler in ["none", "noop", "mq-deadline", "cfq"] {
        let layer = format!("{{ scheduler = \"{scheduler}\" }}");
        let layer: Sets<'_> = &[("storage.block_layer", &layer)];
        let with = run_threads(vec![faults(0, 40)], &[none, layer]);
        assert_eq!(with.time_ps, plain.time_ps, "{scheduler}");
        assert_eq!(with.counter("interrupts"), plain.counter("interrupts"), "{scheduler}");
        assert_eq!(with.counter("block_requests"), 40, "{scheduler}");
    }
}

#[test]
fn a_lock_of_each_queue_bounds_its_rate() {
    let none: Sets<'_> = &[("storage.readahead", "0B"), ("store.units", "64")];
    let of = |queues: u32| {
        let layer =
            format!("{{ scheduler = \"none\", lock = \"100us\", hardware_queues = {queues} }}");
        let layer: Sets<'_> = &[("storage.block_layer", &layer)];
        run_threads((0..4).map(|thread| faults(thread, 40)).collect(), &[none, layer])
    };
    let (one, two, four) = (of(1), of(2), of(4));
    let held_ps = 160 * 100_000_000;
    for (queues, found) in [(1, &one), (2, &two)] {
        let behind_ps = found.time_ps - held_ps / queues;
        // The last of one queue may have come a lock later than that of the other.
        assert!((25_000_000..140_000_000).contains(&behind_ps), "{queues}: {behind_ps} ps");
    }
    // Nobody waits for another: each fault has its lock, and its page.
    let alone_ps = 40 * (100_000_000 + 25_000_000);
    assert!((alone_ps..alone_ps * 14 / 10).contains(&four.time_ps), "{}", four.time_ps);
}

#[test]
fn who_finds_the_queue_full_waits_for_room() {
    let slow: Sets<'_> =
        &[("storage.readahead", "0B"), ("store.units", "1"), ("storage.host_queue_depth", "1")];
    let threads = || (0..6).map(|thread| faults(thread, 20)).collect();
    let deepest = |requests: u32| {
        let layer = format!("{{ scheduler = \"none\", requests = {requests} }}");
        let layer: Sets<'_> = &[("storage.block_layer", &layer)];
        let found = run_threads(threads(), &[slow, layer]);
        assert_eq!(found.counter("block_requests"), 120);
        found.time_ps
    };
    // The store is the bottleneck: it has the same work, whoever waits where.
    let (two_ps, many_ps) = (deepest(2), deepest(128));
    assert!((two_ps as f64 / many_ps as f64 - 1.0).abs() < 0.02, "{two_ps} and {many_ps}");
}

#[test]
fn streams_on_a_disk_are_served_in_turn_and_faster_by_cfq_than_in_order() {
    let disk: Sets<'_> = &[("storage.host_queue_depth", "1"), ("storage.readahead", "0B")];
    let time_ps = |scheduler: &str| {
        let layer = format!("{{ scheduler = \"{scheduler}\" }}");
        let layer: Sets<'_> = &[("storage.block_layer", &layer)];
        let threads: Vec<_> = (0..4).map(|thread| reads(thread, 1)).collect();
        let count = threads.len().to_string();
        let all: Vec<Sets<'_>> =
            vec![FREE_KERNEL, READAHEAD, &[("storage.dram_capacity", "64MiB")], disk, layer];
        let cores: Sets<'_> = &[("processor.cores", &count)];
        let all: Vec<Sets<'_>> = all.into_iter().chain([cores]).collect();
        run(&system("storage/disk-7200", &all), &together(threads))
    };
    let (fifo, cfq) = (time_ps("noop"), time_ps("cfq"));
    assert!(cfq.counter("block_idled") > 0, "it waits for the stream whose slice it is");
    assert_eq!(fifo.counter("block_idled"), 0);
    let ratio = fifo.time_ps as f64 / cfq.time_ps as f64;
    assert!(ratio > 1.1, "{ratio}");
}
