//! Queues of NVM Express before a drive of the presets: every value of theirs, and what they win and cost.

use super::support::{self, MAPPED, PAGE, Sums, call};
use tierscope_kernel::Random;
use tierscope_model::device::DeviceDescription;
use tierscope_model::power::Weaknesses;
use tierscope_model::request::{Completion, Device, Request};
use tierscope_system::spec::load_text;
use tierscope_workload::Op;
use tierscope_workload::op::{Advice, Call, MAP_SHARED};

/// What was done of so many requests: their ids in the order of their ends, seconds in all, the mean latency
/// and for how long the drive held back interrupts in the mean, in microseconds.
struct Done {
    ids: Vec<u32>,
    time_s: f64,
    latency_us: f64,
    held_us: f64,
}

const QUEUES: &str = "queues = 2\nentries = 1024\nburst = 2\nfetches = 4\nmemory_page = \"4KiB\"\n\
    vectors = 3\n\
    priorities = { reads = \"high\", writes = \"medium\", background = \"low\", high_weight = 8, \
    medium_weight = 4, low_weight = 1 }\n\
    coalescing = { threshold = 4, time = \"100us\" }\n";

/// Requests to a written Z-SSD behind these queues, `depth` at a time: reads of 32 KiB, writes of 4 KiB and writes
/// that nobody waits for in turn, or only reads of 4 KiB.
fn run(queues: &str, sets: &[(&str, &str)], depth: usize, count: u32, mixed: bool) -> Done {
    let table = if queues.is_empty() { String::new() } else { format!("[pcie.nvme]\n{queues}") };
    let text = format!("base = \"device/z-ssd\"\nname = \"queues\"\n{table}");
    let all = [("ssd.initial", "written"), ("ssd.queue_depth", "16")];
    let all = all.iter().filter(|_| mixed).chain(sets);
    let sets: Vec<_> = all.map(|(path, value)| (path.to_string(), value.to_string())).collect();
    let spec = load_text("queues", &text, &sets).expect("the description is right").spec;
    let (ssd, link) = (spec.ssd.as_ref().expect("a drive"), spec.pcie.as_ref().expect("a link"));
    let (mut drive, places) = (ssd.build(link), ssd.capacity.bytes() >> 15);
    let mut draws = Random::stream(1, "queues");
    let (mut sent, mut now_ps, mut latency_ps) = (0, 0, 0);
    let (mut out, mut ids): (Vec<Completion>, Vec<u32>) = (Vec::new(), Vec::new());
    while ids.len() < count as usize {
        while sent < count && drive.in_flight() < depth {
            let (write, background) = (mixed && sent % 3 > 0, sent % 3 == 2);
            let bytes = if mixed && !write { 32 << 10 } else { 4096 };
            let address = draws.below(places) << 15;
            let request = Request { id: sent, address, bytes, write, background };
            if drive.submit(now_ps, request).is_err() {
                break;
            }
            sent += 1;
        }
        now_ps = drive.next_event_ps().expect("something is under way");
        drive.advance(now_ps, &mut out);
        for one in out.drain(..) {
            latency_ps += one.stages.total_ps();
            ids.push(one.id);
        }
    }
    let mean_us = |ps: u64| ps as f64 / f64::from(count) / 1e6;
    let held_ps = drive.activity(now_ps).nvme.expect("NVM Express drives it").held_back_ps;
    let (latency_us, held_us) = (mean_us(latency_ps), mean_us(held_ps));
    Done { ids, time_s: now_ps as f64 / 1e12, latency_us, held_us }
}

#[test]
fn every_value_of_queues_is_felt() {
    let figures = |sets: &[(&str, &str)]| {
        let sets: Vec<_> =
            sets.iter().map(|(key, value)| (format!("pcie.nvme.{key}"), *value)).collect();
        let sets: Vec<_> = sets.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        let done = run(QUEUES, &sets, 64, 600, true);
        (done.time_s.to_bits(), done.latency_us.to_bits(), done.ids)
    };
    let plain = figures(&[]);
    for (key, value) in [
        ("queues", "5"),
        ("entries", "3"),
        ("burst", "64"),
        ("fetches", "1"),
        ("memory_page", "64KiB"),
        ("vectors", "1"),
        ("priorities.reads", "urgent"),
        ("priorities.writes", "low"),
        ("priorities.background", "high"),
        ("priorities.high_weight", "1"),
        ("priorities.medium_weight", "1"),
        ("priorities.low_weight", "8"),
        ("coalescing.threshold", "16"),
        ("coalescing.time", "200us"),
    ] {
        assert!(figures(&[(key, value)]) != plain, "pcie.nvme.{key} = {value} changes nothing");
    }
}

#[test]
fn interrupts_held_back_cost_their_time_alone_and_little_where_many_are_under_way() {
    let held = "queues = 1\nentries = 1024\nburst = 1\nfetches = 64\nmemory_page = \"4KiB\"\n\
        vectors = 1\ncoalescing = { threshold = 8, time = \"100us\" }\n";
    let (plain, alone) = (run("", &[], 1, 400, false), run(held, &[], 1, 400, false));
    println!("alone: {:.2} and {:.2} us", plain.latency_us, alone.latency_us);
    assert!((alone.latency_us - plain.latency_us - 100.0).abs() < 0.5, "{}", alone.latency_us);
    assert!((alone.held_us - 100.0).abs() < 1e-6, "{}", alone.held_us);
    let (plain, many) = (run("", &[], 64, 20_000, false), run(held, &[], 64, 20_000, false));
    let (plain_s, many_s) = (20_000.0 / plain.time_s, 20_000.0 / many.time_s);
    println!("64 at a time: {plain_s:.0} and {many_s:.0}/s, waits {:.2} us", many.held_us);
    // Seven of eight wait for those that come behind them, 3.5 in the mean.
    let expected_us = 3.5 / many_s * 1e6;
    assert!((many.held_us / expected_us - 1.0).abs() < 0.1, "{expected_us}");
    assert!(many_s > 0.9 * plain_s, "{plain_s} and {many_s}");
}

#[test]
fn reads_that_are_urgent_pass_writes_that_wait() {
    let classes = |reads: &str| {
        let priorities = format!("priorities = {{ reads = \"{reads}\"");
        QUEUES.replace("priorities = { reads = \"high\"", &priorities)
    };
    let early = |reads: &str| {
        let done = run(&classes(reads), &[("ssd.queue_depth", "8")], 300, 300, true);
        done.ids[..60].iter().filter(|id| **id % 3 == 0).count()
    };
    let (urgent, low) = (early("urgent"), early("low"));
    println!("reads among the first 60: {urgent} urgent, {low} low");
    assert!(urgent > 50 && low < 20, "{urgent} and {low}");
}

#[test]
fn power_takes_what_waits_in_queues() {
    let text = format!("base = \"device/z-ssd\"\nname = \"queues\"\n[pcie.nvme]\n{QUEUES}");
    let sets = [("ssd.queue_depth".to_owned(), "2".to_owned())];
    let spec = load_text("queues", &text, &sets).expect("the description is right").spec;
    let (ssd, link) = (spec.ssd.as_ref().expect("a drive"), spec.pcie.as_ref().expect("a link"));
    let mut drive = ssd.build(link);
    assert!(drive.follow_contents(Weaknesses::default()));
    let read = |id: u32| Request {
        id,
        address: u64::from(id) << 12,
        bytes: 4096,
        write: false,
        background: false,
    };
    let mut out = Vec::new();
    (0..40).for_each(|id| drive.submit(0, read(id)).expect("room in a queue"));
    // Some are done and held back, some are in the drive, and most wait.
    drive.advance(80_000_000, &mut out);
    assert!(!out.is_empty() && drive.in_flight() > 20, "{} done", out.len());
    drive.cut_power(90_000_000);
    assert_eq!((drive.in_flight(), drive.next_event_ps()), (0, None));
    out.clear();
    (0..40).for_each(|id| drive.submit(100_000_000, read(id)).expect("the queues are empty"));
    drive.advance(u64::MAX >> 8, &mut out);
    assert_eq!((out.len(), drive.in_flight()), (40, 0));
}

/// Instructions of the handler of an interrupt.
const INTERRUPT: u64 = 3_000;

/// Four threads that each fault on 64 pages of a file, on four cores of a machine whose kernel pages to a Z-SSD
/// with this coalescing, if any.
fn machine(coalescing: &str) -> Sums {
    const FAULTS: u64 = 64;
    let queues = format!(
        "[pcie.nvme]\nqueues = 1\nentries = 1024\nburst = 1\nfetches = 64\nmemory_page = \"4KiB\"\n\
         vectors = 1\n{coalescing}"
    );
    let text = format!("base = \"storage/z-ssd\"\nname = \"queues\"\n{queues}");
    let path = format!("{{ instructions = {INTERRUPT}, lines = 8 }}");
    let sets = [
        ("storage.dram_capacity", "64MiB"),
        ("processor.cores", "4"),
        ("os.paths.interrupt", &*path),
    ];
    let sets = sets.map(|(path, value)| (path.to_owned(), value.to_owned()));
    let spec = load_text("queues", &text, &sets).expect("the description is right").spec;
    let length = 4 * FAULTS * PAGE;
    let map = [
        Call::Open { file: 0, size: length },
        Call::Map { address: MAPPED, length, flags: MAP_SHARED, file: 0, offset: 0 },
        Call::Advise { address: MAPPED, length, advice: Advice::Random as u64 },
    ];
    let spawn = (1..4).map(|thread| Call::Spawn { thread });
    let first: Vec<Op> = map.into_iter().chain(spawn).flat_map(call).collect();
    let faults = |thread: u64| {
        let pages = (0..FAULTS).map(move |page| MAPPED + (thread * FAULTS + page) * PAGE);
        pages.map(|address| Op::load(address, 8, 4)).collect::<Vec<_>>()
    };
    let threads = [[first, faults(0)].concat(), faults(1), faults(2), faults(3)];
    support::run(&spec, &threads)
}

#[test]
fn an_interrupt_of_several_completions_is_handled_once_and_held_back_by_the_drive() {
    let plain = machine("");
    let held = machine("coalescing = { threshold = 4, time = \"25.5ms\" }\n");
    assert_eq!(plain.counter("major_faults"), held.counter("major_faults"));
    let faults = plain.counter("major_faults");
    assert_eq!((plain.counter("interrupts"), plain.counter("nvme_interrupts")), (faults, faults));
    // The threads wait for each other: four faults end with one interrupt, the last ones when time is up.
    let interrupts = held.counter("interrupts");
    assert_eq!(held.counter("nvme_interrupts"), interrupts);
    assert!((faults / 4..faults / 4 + 4).contains(&interrupts), "{interrupts} for {faults} faults");
    assert_eq!(held.counter("nvme_doorbells"), faults + interrupts);
    let owned_ns = |sums: &Sums, owner: &str| sums.result.time_breakdown_ns[owner];
    let (before_ns, after_ns) = (owned_ns(&plain, "interrupt"), owned_ns(&held, "interrupt"));
    println!("interrupts: {faults} and {interrupts}, {before_ns:.0} and {after_ns:.0} ns");
    // What is held back is the drive's time.
    let more_ns = owned_ns(&held, "device") - owned_ns(&plain, "device");
    let held_ns = held.counter("nvme_held_back_ns") as f64;
    assert!(held_ns > 1e5 && (more_ns / held_ns - 1.0).abs() < 0.05, "{more_ns} of {held_ns} ns");
    assert!(after_ns <= before_ns, "{before_ns} and {after_ns} ns in handlers");
    let kernel = |sums: &Sums| sums.result.kernel_instructions;
    let saved = (faults - interrupts) * INTERRUPT;
    assert_eq!(kernel(&plain) - kernel(&held), saved, "all else is the same work");
}
