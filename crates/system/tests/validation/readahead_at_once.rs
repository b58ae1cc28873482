//! Rung 6: readahead of threads that run at the same time against the real kernel. `tests/kernel/observe_threads.py` ran some
//! processes at once, each with an opening of its own, and wrote what the kernel added to the page cache for each; here a
//! machine of as many cores runs the same programs at once. The patterns are split by a seed: with one half the model was
//! developed, by the other it is judged.
//!
//! `TIERSCOPE_OBSERVED_THREADS=FILE` compares with what was observed on this computer instead (`make kernel`).

use super::readahead::{Added, FUSE_PAGES, PAGE_BYTES, append, pattern, seen};
use super::support::{ANONYMOUS, MAPPED, Script, call, observation, system};
use serde::Deserialize;
use serde_json::Value;
use tierscope_model::os::readahead::Folio;
use tierscope_system::machine::Machine;
use tierscope_system::run::RunOptions;
use tierscope_workload::Op;
use tierscope_workload::op::{Advice, Call, FLAG_DEPENDENT, MAP_SHARED, MAP_WRITABLE, NO_FILE};

/// Pages of 2 MiB, at a boundary of which mappings begin, or so many pages behind.
const HUGE_BYTES: u64 = 2 << 20;
/// Threads have their buffers, and their mappings, so far apart.
const APART_BYTES: u64 = 1 << 32;
const BUFFER_BYTES: u64 = 1 << 20;

/// What `observe_threads.py` writes.
#[derive(Deserialize)]
struct Observed {
    kernel: String,
    page_bytes: u64,
    fault_around_bytes: u64,
    /// Of the file of each thread, where it has one of its own.
    file_bytes: Vec<u64>,
    /// Pages of one file that are for a thread.
    part_pages: u64,
    single_pages: Vec<Run>,
    large_folios: Vec<Run>,
}

/// A pattern, and what the kernel did, by threads.
#[derive(Deserialize)]
struct Run {
    name: String,
    half: String,
    window_kib: u64,
    io_pages: u64,
    orders: Vec<String>,
    files: Vec<usize>,
    threads: Vec<Vec<Vec<Value>>>,
    /// Folios in the order in which they were added.
    added: Vec<Vec<Vec<Value>>>,
    /// Pages in whose folios a mark was set.
    marks: Vec<Vec<u64>>,
    /// What the file system was asked to read, where it told.
    requests: Option<Vec<Vec<(u64, u64)>>>,
    /// How often another thread came to add something.
    turns: u64,
}

/// What was added for a thread.
#[derive(Default)]
struct Seen {
    added: Added,
    marked: Vec<Folio>,
    requests: Vec<(u64, u64)>,
}

/// A thread's steps as a program's operations; its number among the others.
fn program(observed: &Observed, run: &Run, thread: usize) -> Vec<Op> {
    let file = run.files[thread] as u32;
    let (size, at) = (observed.file_bytes[file as usize], thread as u64 * APART_BYTES);
    let buffer = ANONYMOUS + at;
    let map = |address, length, flags, file, offset| {
        call(Call::Map { address, length, flags, file, offset })
    };
    let mut ops = map(buffer, BUFFER_BYTES, MAP_WRITABLE, NO_FILE, 0);
    ops.extend(call(Call::Open { file, size }));
    if thread == 0 {
        let others = 1..run.threads.len() as u32;
        ops.extend(others.flat_map(|thread| call(Call::Spawn { thread })));
    }
    let (mut mapping, mut maps) = (0, 0);
    for step in &run.threads[thread] {
        let number = |at: usize| step[at].as_u64().expect("a number");
        ops.extend(match step[0].as_str().expect("a name") {
            "read" => {
                let (offset, length) = (number(1), number(2));
                call(Call::Read { file, offset, length, address: buffer })
            }
            "map" => {
                let (first, pages, shift) = (number(1), number(2), number(3));
                mapping = MAPPED + at + maps * (APART_BYTES / 4) + shift * PAGE_BYTES;
                maps += 1;
                map(mapping, pages * PAGE_BYTES, MAP_SHARED, file, first * PAGE_BYTES)
            }
            "load" => {
                let address = mapping + number(1) * PAGE_BYTES;
                vec![Op::load(address, 1, 10).with_flags(FLAG_DEPENDENT)]
            }
            "fadvise" => {
                let (advice, offset, length) = (advice(&step[1]), number(2), number(3));
                call(Call::AdviseFile { file, offset, length, advice })
            }
            "madvise" => {
                let (address, length) = (mapping + number(2) * PAGE_BYTES, number(3) * PAGE_BYTES);
                call(Call::Advise { address, length, advice: advice(&step[1]) })
            }
            other => panic!("a step that is not known: {other}"),
        });
    }
    assert_eq!(MAPPED % HUGE_BYTES, 0);
    ops
}

fn advice(word: &Value) -> u64 {
    use tierscope_model::os::readahead::Pattern;
    let advice = match pattern(word) {
        Some(Pattern::Normal) => Advice::Normal,
        Some(Pattern::Random) => Advice::Random,
        Some(Pattern::Sequential) => Advice::Sequential,
        None => Advice::WillNeed,
    };
    advice as u64
}

/// Runs a pattern on a machine with a core for each thread; what was added for each.
fn on_a_machine(observed: &Observed, run: &Run, largest_folio: &str) -> Vec<Seen> {
    let kib = |bytes: u64| format!("{}KiB", bytes >> 10);
    let [window, around] = [kib(run.window_kib << 10), kib(observed.fault_around_bytes)];
    let (request, cores) = (kib(run.io_pages * PAGE_BYTES), run.threads.len().to_string());
    let sets = [
        ("storage.dram_capacity", "512MiB"),
        ("storage.readahead_release", "6.18"),
        ("storage.largest_folio", largest_folio),
        ("storage.readahead", &*window),
        ("storage.largest_request", &*request),
        ("storage.fault_around", &*around),
        ("processor.cores", &*cores),
    ];
    let programs: Vec<_> = (0..run.threads.len()).map(|n| program(observed, run, n)).collect();
    let (spec, options) = (system("storage/970-pro", &[&sets]), RunOptions::default());
    let mut machine = Machine::new(&spec, Script::stream(&programs), &options).unwrap();
    machine.watch_readahead();
    assert!(machine.run(|_| false).unwrap(), "nothing paused it");
    machine.check_conservation().unwrap();
    let mut found: Vec<Seen> = run.threads.iter().map(|_| Seen::default()).collect();
    let has_own = run.files.iter().any(|file| *file > 0);
    for (file, folios) in machine.readahead_seen() {
        let part = folios[0].first / observed.part_pages;
        let seen = &mut found[if has_own { file as usize } else { part as usize }];
        for folio in folios {
            append(&mut seen.added, (folio.first, folio.order, 1));
        }
        seen.marked.extend(folios.iter().filter(|folio| folio.marked));
        let (mut first, mut pages) = (folios[0].first, folios.iter().map(Folio::pages).sum());
        while pages > 0 {
            let some = FUSE_PAGES.min(pages);
            seen.requests.push((first, some));
            (first, pages) = (first + some, pages - some);
        }
    }
    found
}

/// How what was added for a thread differs from what the kernel added.
fn difference(run: &Run, thread: usize, model: &Seen) -> Option<String> {
    let kernel = seen(&run.added[thread]);
    if model.added != kernel {
        let same = model.added.iter().zip(&kernel).take_while(|(one, other)| one == other).count();
        let after =
            |added: &Added| format!("{:?}", added.iter().skip(same).take(3).collect::<Vec<_>>());
        return Some(format!(
            "after {same} runs of folios {}, the kernel {}",
            after(&model.added),
            after(&kernel)
        ));
    }
    if let Some(asked) = &run.requests
        && asked[thread] != model.requests
    {
        return Some(format!("asked for {:?}, the kernel {:?}", model.requests, asked[thread]));
    }
    let marks = &run.marks[thread];
    let in_it =
        |(folio, page): (&Folio, &u64)| (folio.first..folio.first + folio.pages()).contains(page);
    if model.marked.len() != marks.len() || !model.marked.iter().zip(marks).all(in_it) {
        return Some(format!("marked {:?}, the kernel {marks:?}", model.marked));
    }
    None
}

/// For every thread of every pattern the same folios are added in the same order, by the same requests, with the same marks.
fn all_the_same(half: &str) {
    let observed: Observed = observation("TIERSCOPE_OBSERVED_THREADS", "threads-6.18.json");
    assert_eq!(observed.page_bytes, PAGE_BYTES);
    let mut differences = Vec::new();
    for (what, runs, largest_folio) in [
        ("single pages", &observed.single_pages, "4KiB"),
        ("large folios", &observed.large_folios, "2MiB"),
    ] {
        let (mut patterns, mut threads, mut requests, mut turns, mut same) = (0, 0, 0, 0, 0);
        for run in runs.iter().filter(|run| run.half == half) {
            (patterns, turns) = (patterns + 1, turns + run.turns);
            for (thread, model) in on_a_machine(&observed, run, largest_folio).iter().enumerate() {
                (threads, requests) = (threads + 1, requests + model.requests.len());
                match difference(run, thread, model) {
                    None => same += 1,
                    Some(how) => differences.push(format!(
                        "{what}, {}, thread {thread}, {}: {how}",
                        run.name, run.orders[thread]
                    )),
                }
            }
        }
        println!(
            "Linux {}, {what}, {half}: {patterns} patterns, in which it was another thread's turn {turns} times; {same} of \
             {threads} threads are the same, in {requests} requests",
            observed.kernel
        );
        assert!(patterns >= 5 && turns > 100, "{what}: only {patterns} patterns, {turns} turns");
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn threads_at_once_are_read_ahead_of_as_by_the_kernel_where_it_was_developed() {
    all_the_same("development");
}

#[test]
fn threads_at_once_are_read_ahead_of_as_by_the_kernel_where_it_is_judged() {
    all_the_same("judgement");
}
