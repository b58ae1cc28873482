//! Rung 6: files of memory against the real kernel. `tests/kernel/observe_shmem.py` wrote files of a tmpfs and
//! read them by patterns, in a memory control group that is smaller than the file, and wrote how many pages were
//! swapped in and out; here whole machines run the same programs. The patterns are split by a seed: with one half
//! the model was developed, by the other it is judged.
//!
//! `TIERSCOPE_OBSERVED_SHMEM=FILE` compares with what was observed on this computer instead (`make kernel`).

use super::reclaim::from_base64;
use super::support::{
    ANONYMOUS, MAPPED, Sums, apart, call, observation, run as system_run, system, try_run,
};
use serde::Deserialize;
use tierscope_workload::Op;
use tierscope_workload::op::{Call, MAP_WRITABLE, NO_FILE};

const PAGE_BYTES: u64 = 4096;

/// What `observe_shmem.py` writes.
#[derive(Deserialize)]
struct Observed {
    kernel: String,
    runs: Vec<Run>,
}

/// A pattern, and what the kernel did.
#[derive(Deserialize)]
struct Run {
    name: String,
    half: String,
    /// Pages read at once from swap.
    cluster_pages: u64,
    read_pages: u64,
    file_pages: u64,
    /// The most pages of the file that were in memory at once.
    most_pages: u64,
    /// Words of 16 bits in base 64: the page, and in the highest bit, that it is a load.
    steps: String,
    /// In each of some runs.
    seen: Vec<Seen>,
}

#[derive(Deserialize)]
struct Seen {
    swap_in_pages: u64,
    swap_out_pages: u64,
}

/// A pattern as a program's operations: the file is written from its start, and read by calls and loads.
fn program(run: &Run) -> Vec<Op> {
    let length = run.file_pages * PAGE_BYTES;
    let mut ops = call(Call::Open { file: 0, size: 0 });
    let buffer = run.read_pages * PAGE_BYTES;
    let mapping =
        |address, length, file| Call::Map { address, length, flags: MAP_WRITABLE, file, offset: 0 };
    ops.extend(call(mapping(ANONYMOUS, buffer, NO_FILE)));
    for page in 0..run.file_pages {
        let offset = page * PAGE_BYTES;
        ops.extend(call(Call::Write { file: 0, offset, length: PAGE_BYTES, address: ANONYMOUS }));
    }
    ops.extend(call(mapping(MAPPED, length, 0)));
    for word in from_base64(&run.steps).chunks(2) {
        let word = u64::from(word[0]) | u64::from(word[1]) << 8;
        let (offset, page) = (word * PAGE_BYTES, word & 0x7fff);
        if word >> 15 == 0 {
            ops.extend(call(Call::Read { file: 0, offset, length: buffer, address: ANONYMOUS }));
        } else {
            ops.push(Op::load(MAPPED + page * PAGE_BYTES, 8, 10));
        }
    }
    ops
}

fn machine(run: &Run) -> Sums {
    let limit = format!("{}KiB", (run.most_pages + run.read_pages) * PAGE_BYTES / 1024);
    let cluster = run.cluster_pages.to_string();
    let sets = [
        ("storage.dram_capacity", "256MiB"),
        ("storage.memory_limit", &*limit),
        ("storage.reclaim", "active-inactive"),
        ("storage.swap_cluster_pages", &cluster),
        ("storage.tmpfs", "{ capacity = \"128MiB\" }"),
        ("storage.swap_capacity", "128MiB"),
    ];
    system_run(&system("storage/970-pro", &[&sets]), &[program(run)])
}

/// How much more or less may be swapped than in that of the kernel's runs which is nearest: in, and out.
///
/// The kernel goes on to write pages while those that it has chosen are being written, the more the slower the store is: so
/// it writes more than it needs. What has been written stays in the swap cache until reclaim comes past it, and is not
/// read where it is wanted before that, as much of a file is that is little larger than memory.
fn near(run: &Run) -> [f64; 2] {
    let is_little_larger = run.file_pages * 10 < run.most_pages * 17;
    [if is_little_larger { 0.70 } else { 0.08 }, 0.15]
}

/// Pages that come back from swap and that go there are as many as in the kernel's runs of each pattern of a half.
fn nearly_the_same(half: &str) {
    let observed: Observed = observation("TIERSCOPE_OBSERVED_SHMEM", "shmem-6.18.json");
    let (mut compared, mut differ) = (0, Vec::new());
    for run in observed.runs.iter().filter(|run| run.half == half) {
        let sums = machine(run);
        let [ins, outs] = [sums.counter("swap_in_pages"), sums.counter("swap_out_pages")];
        let kernel_ins: Vec<u64> = run.seen.iter().map(|seen| seen.swap_in_pages).collect();
        let kernel_outs: Vec<u64> = run.seen.iter().map(|seen| seen.swap_out_pages).collect();
        let found = [apart(ins, &kernel_ins, 1), apart(outs, &kernel_outs, 1)];
        println!(
            "Linux {}, {half}, {}, {} at once: {ins} in ({:+.1} %), the kernel {kernel_ins:?}; {outs} out ({:+.1} %), the kernel {kernel_outs:?}",
            observed.kernel,
            run.name,
            run.cluster_pages,
            100.0 * found[0],
            100.0 * found[1],
        );
        if found.iter().zip(near(run)).any(|(found, near)| found.abs() > near) {
            differ.push((&run.name, found));
        }
        compared += 1;
    }
    assert!(compared >= 10 && differ.is_empty(), "{compared} compared: {differ:?}");
}

#[test]
fn files_of_memory_are_swapped_as_the_kernel_does_in_the_patterns_it_was_developed_with() {
    nearly_the_same("development");
}

#[test]
fn files_of_memory_are_swapped_as_the_kernel_does_in_the_patterns_that_judge_it() {
    nearly_the_same("judgement");
}

/// `storage.tmpfs.capacity` bounds what files may hold, and says so.
#[test]
fn files_beyond_the_capacity_end_the_run() {
    let observed: Observed = observation("TIERSCOPE_OBSERVED_SHMEM", "shmem-6.18.json");
    let run = &observed.runs[0];
    let with = |capacity: u64| {
        let tmpfs = format!("{{ capacity = \"{}KiB\" }}", capacity * PAGE_BYTES / 1024);
        let sets = [("storage.dram_capacity", "256MiB"), ("storage.tmpfs", &*tmpfs)];
        try_run(&system("storage/970-pro", &[&sets]), &[program(run)])
    };
    assert!(with(run.file_pages - 1).is_none());
    // Nor may what does not fit memory be more than swap.
    let swapping = |capacity: &str| {
        let sets = [
            ("storage.dram_capacity", "256MiB"),
            ("storage.memory_limit", "6MiB"),
            ("storage.tmpfs", "{ capacity = \"128MiB\" }"),
            ("storage.swap_capacity", capacity),
        ];
        try_run(&system("storage/970-pro", &[&sets]), &[program(run)])
    };
    assert!(swapping("8MiB").is_none() && swapping("16MiB").is_some());
    let all = with(run.file_pages).expect("there is room");
    // All is in memory: neither a sync nor a look at what is old writes anything.
    for counter in ["swap_out_pages", "file_write_back_pages", "major_faults", "throttled_writes"] {
        assert_eq!(all.counter(counter), 0, "{counter}");
    }
}
