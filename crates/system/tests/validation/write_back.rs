//! Rung 6: write-back against the real kernel. `tests/kernel/observe_write_back.py` wrote pages of a file by patterns, with
//! thresholds and times of its own, and wrote how many pages the device was asked to write; here whole machines run the same
//! programs. The patterns are split by a seed: with one half the model was developed, by the other it is judged.
//!
//! `TIERSCOPE_OBSERVED_WRITE_BACK=FILE` compares with what was observed on this computer instead (`make kernel`).

use super::reclaim::{from_base64, word_of};
use super::support::{ANONYMOUS, MAPPED, apart, call, observation, run as system_run, system};
use serde::Deserialize;
use tierscope_workload::Op;
use tierscope_workload::op::{Call, MAP_SHARED, MAP_WRITABLE, NO_FILE};

pub const PAGE_BYTES: u64 = 4096;

/// What `observe_write_back.py` writes.
#[derive(Deserialize)]
struct Observed {
    kernel: String,
    file_pages: u64,
    runs: Vec<Run>,
}

/// A pattern, and what the kernel did.
#[derive(Deserialize)]
struct Run {
    #[serde(flatten)]
    pattern: Pattern,
    /// Of each of some runs, pages written until the pattern's end, and in all once the file was synced.
    seen: Vec<[u64; 2]>,
}

/// What a program writes, and the kernel's settings.
#[derive(Deserialize)]
pub struct Pattern {
    pub name: String,
    pub half: String,
    /// Pages in batches, each with a pause behind it; of several files one behind the other.
    pages: String,
    batch: usize,
    pub pause_ms: u64,
    pub background_pages: u64,
    expire_ms: u64,
    interval_ms: u64,
    /// Through mappings.
    pub stores: bool,
}

impl Pattern {
    /// Its pages, batch by batch.
    pub fn batches(&self) -> Vec<Vec<u64>> {
        let pages: Vec<u64> = from_base64(&self.pages).chunks(2).map(word_of).collect();
        pages.chunks(self.batch).map(<[u64]>::to_vec).collect()
    }

    /// Thresholds of so many pages: of what a machine has free or in files, about all of its DRAM.
    pub fn thresholds(&self) -> [(&'static str, String); 5] {
        const DIRTYABLE_PAGES: f64 = 129_600.0;
        let ratio = |pages: u64| (pages as f64 / DIRTYABLE_PAGES).to_string();
        let [background, most] = [self.background_pages, 4 * self.background_pages].map(ratio);
        let [expire, interval] = [self.expire_ms, self.interval_ms].map(|ms| format!("{ms}ms"));
        [
            ("storage.dram_capacity", "512MiB".to_owned()),
            ("storage.dirty_background_ratio", background),
            ("storage.dirty_ratio", most),
            ("storage.dirty_expire", expire),
            ("storage.dirty_writeback", interval),
        ]
    }
}

/// A pattern as a program's operations, on a file that is in memory.
fn program(observed: &Observed, run: &Run, syncs: bool) -> Vec<Op> {
    let size = observed.file_pages * PAGE_BYTES;
    let map =
        |address, length, flags, file| call(Call::Map { address, length, flags, file, offset: 0 });
    let mut ops = call(Call::Open { file: 0, size });
    ops.extend(map(ANONYMOUS, 1 << 20, MAP_WRITABLE, NO_FILE));
    ops.extend(map(MAPPED, size, MAP_WRITABLE | MAP_SHARED, 0));
    for offset in (0..size).step_by(1 << 20) {
        ops.extend(call(Call::Read { file: 0, offset, length: 1 << 20, address: ANONYMOUS }));
    }
    for batch in run.pattern.batches() {
        for page in batch {
            if run.pattern.stores {
                ops.push(Op::store(MAPPED + page * PAGE_BYTES, 1, 10));
            } else {
                let (offset, length) = (page * PAGE_BYTES, PAGE_BYTES);
                ops.extend(call(Call::Write { file: 0, offset, length, address: ANONYMOUS }));
            }
        }
        ops.extend(call(Call::Sleep { duration_ps: run.pattern.pause_ms * 1_000_000_000 }));
    }
    if syncs {
        ops.extend(call(Call::Sync { file: 0 }));
    }
    ops
}

/// Pages written by a machine with the pattern's thresholds.
fn written(observed: &Observed, run: &Run, syncs: bool) -> u64 {
    let sets = run.pattern.thresholds();
    let sets: Vec<_> = sets.iter().map(|(path, value)| (*path, value.as_str())).collect();
    let sums = system_run(&system("storage/970-pro", &[&sets]), &[program(observed, run, syncs)]);
    sums.counter("file_write_back_pages")
}

fn as_the_kernel(half: &str) {
    let observed: Observed = observation("TIERSCOPE_OBSERVED_WRITE_BACK", "write-back-6.18.json");
    let (mut compared, mut differ) = (0, Vec::new());
    for run in observed.runs.iter().filter(|run| run.pattern.half == half) {
        for (when, syncs) in [false, true].into_iter().enumerate() {
            let kernel: Vec<u64> = run.seen.iter().map(|seen| seen[when]).collect();
            let model = written(&observed, run, syncs);
            let found = apart(model, &kernel, 1);
            println!(
                "Linux {}, {half}, {}, {}: {model} pages ({:+.1} %), the kernel {kernel:?}",
                observed.kernel,
                run.pattern.name,
                ["until its end", "in all"][when],
                100.0 * found
            );
            if found.abs() > 0.1 {
                differ.push((&run.pattern.name, when, model, kernel));
            }
        }
        compared += 1;
    }
    assert!(compared >= 8 && differ.is_empty(), "{compared} compared: {differ:#?}");
}

#[test]
fn as_much_is_written_back_as_by_the_kernel_where_it_was_developed() {
    as_the_kernel("development");
}

#[test]
fn as_much_is_written_back_as_by_the_kernel_where_it_is_judged() {
    as_the_kernel("judgement");
}
