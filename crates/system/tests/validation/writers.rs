//! Rung 6: write-back of many files, and writers that a device cannot keep up with, against the real kernel.
//! `tests/kernel/observe_writers.py` wrote pages of some files by patterns on two devices, one quicker than the program and
//! one that takes a while for each page, and wrote how many pages the device was asked to write, and how many were dirty;
//! here whole machines run the same programs. The patterns are split by a seed: with one half the model was developed, by
//! the other it is judged.
//!
//! `TIERSCOPE_OBSERVED_WRITERS=FILE` compares with what was observed on this computer instead (`make kernel`).

use super::support::{ANONYMOUS, MAPPED, Script, apart, call, observation, system};
use super::write_back::{PAGE_BYTES, Pattern};
use serde::Deserialize;
use tierscope_system::machine::Machine;
use tierscope_system::run::{Bound, RunOptions};
use tierscope_workload::Op;
use tierscope_workload::op::{Call, MAP_SHARED, MAP_WRITABLE, NO_FILE};

/// What `observe_writers.py` writes.
#[derive(Deserialize)]
struct Observed {
    kernel: String,
    processors: u32,
    runs: Vec<Run>,
}

/// A pattern, and what the kernel did.
#[derive(Deserialize)]
struct Run {
    #[serde(flatten)]
    pattern: Pattern,
    /// Pages of each file.
    files: Vec<u64>,
    /// How long the device takes for a page, 0 where it is quicker than the program.
    page_us: u64,
    /// Of each of some runs, pages written until the pattern's end, and in all once the files were synced; pages dirty or on
    /// their way in the mean of the pattern's later half, and the most.
    seen: Vec<[u64; 4]>,
}

/// A pattern as a program's operations, on files that are in memory.
fn program(run: &Run, syncs: bool) -> Vec<Op> {
    let map =
        |address, length, flags, file| call(Call::Map { address, length, flags, file, offset: 0 });
    let mut ops = map(ANONYMOUS, 1 << 20, MAP_WRITABLE, NO_FILE);
    let (mut first, mut starts) = (0, Vec::new());
    for (file, pages) in (0u32..).zip(&run.files) {
        let size = pages * PAGE_BYTES;
        ops.extend(call(Call::Open { file, size }));
        if run.pattern.stores {
            ops.extend(map(MAPPED + first * PAGE_BYTES, size, MAP_WRITABLE | MAP_SHARED, file));
        }
        for offset in (0..size).step_by(1 << 20) {
            ops.extend(call(Call::Read { file, offset, length: 1 << 20, address: ANONYMOUS }));
        }
        starts.push(first);
        first += pages;
    }
    for batch in run.pattern.batches() {
        for page in batch {
            if run.pattern.stores {
                ops.push(Op::store(MAPPED + page * PAGE_BYTES, 1, 10));
            } else {
                let file = starts.partition_point(|start| *start <= page) - 1;
                let (offset, length) = ((page - starts[file]) * PAGE_BYTES, PAGE_BYTES);
                let file = file as u32;
                ops.extend(call(Call::Write { file, offset, length, address: ANONYMOUS }));
            }
        }
        if run.pattern.pause_ms > 0 {
            ops.extend(call(Call::Sleep { duration_ps: run.pattern.pause_ms * 1_000_000_000 }));
        }
    }
    if syncs {
        ops.extend((0..run.files.len() as u32).flat_map(|file| call(Call::Sync { file })));
    }
    ops
}

/// What a machine has done at the end: pages that it has written, pages dirty or on their way in the mean of the later half,
/// and the most.
fn on_a_machine(processors: u32, run: &Run, syncs: bool) -> (u64, u64, u64) {
    let (page, cores) = (format!("{}us", run.page_us), processors.to_string());
    let slow = [
        ("store.units", "1"),
        ("store.unit_bandwidth", "4GB/s"),
        ("store.read_latency", "1us"),
        ("store.write_latency", &*page),
        ("store.controller_latency", "0s"),
        ("storage.readahead_release", "6.18"),
    ];
    let sets = run.pattern.thresholds();
    let mut sets: Vec<_> = sets.iter().map(|(path, value)| (*path, value.as_str())).collect();
    sets.push(("processor.cores", &*cores));
    let spec = match run.page_us {
        0 => system("storage/970-pro", &[&sets]),
        _ => system("storage", &[&sets, &slow]),
    };
    let stream = Script::stream(&[program(run, syncs)]);
    let mut machine = Machine::new(&spec, stream, &RunOptions::default()).unwrap();
    let mut samples: Vec<(u64, u64)> = Vec::new();
    let ended = machine.run(|machine| {
        let (dirty, under_way) = machine.dirty_pages();
        if !samples.is_empty() || dirty > 0 {
            samples.push((machine.now_ps(), dirty + under_way));
        }
        false
    });
    assert!(ended.unwrap(), "nothing paused it");
    machine.check_conservation().unwrap();
    let (_, under_way) = machine.dirty_pages();
    let result = machine.result();
    let middle_ps = match (samples.first(), samples.last()) {
        (Some((first_ps, _)), Some((last_ps, _))) => u64::midpoint(*first_ps, *last_ps),
        _ => 0,
    };
    let later = samples.windows(2).filter(|pair| pair[0].0 >= middle_ps);
    let (mut sum, mut time_ps) = (0u128, 1u128);
    for pair in later {
        let passed_ps = u128::from(pair[1].0.saturating_sub(pair[0].0));
        (sum, time_ps) = (sum + passed_ps * u128::from(pair[0].1), time_ps + passed_ps);
    }
    let most = samples.iter().map(|(_, dirty)| *dirty).max().unwrap_or(0);
    let written = result.counters["file_write_back_pages"] - under_way;
    (written, (sum / time_ps) as u64, most)
}

/// How far a figure may be from the nearest of the kernel's runs. What a device has written that is quicker than the program
/// may be a run of the flusher more or less until the end, as that comes shortly before or behind it, where it comes because
/// much is dirty.
fn most_apart(run: &Run, what: usize, kernel: &[u64]) -> f64 {
    let background = run.pattern.background_pages;
    let is_much = run.seen.iter().all(|[.., most]| *most > background);
    match (run.page_us, what) {
        (0, 0) if is_much => {
            let nearest = kernel.iter().copied().min().unwrap_or(1);
            (background as f64 / nearest as f64).clamp(0.05, 0.2)
        }
        (0, 0 | 1) => 0.05,
        _ => 0.1,
    }
}

fn as_the_kernel(half: &str) {
    const NAMES: [&str; 4] = ["until its end", "in all", "dirty in the mean", "dirty at most"];
    let observed: Observed = observation("TIERSCOPE_OBSERVED_WRITERS", "writers-6.18.json");
    let (mut compared, mut differ) = (0, Vec::new());
    for run in observed.runs.iter().filter(|run| run.pattern.half == half) {
        let (at_end, mean, most) = on_a_machine(observed.processors, run, false);
        let (in_all, ..) = on_a_machine(observed.processors, run, true);
        let all = [at_end, in_all, mean, most];
        // What a program that is never held back has dirty is as its writes are.
        let counted = if run.page_us > 0 { 4 } else { 2 };
        for (what, model) in all.into_iter().enumerate().take(counted) {
            let kernel: Vec<u64> = run.seen.iter().map(|seen| seen[what]).collect();
            let found = apart(model, &kernel, 1);
            println!(
                "Linux {}, {half}, {}, {}: {model} pages ({:+.1} %), the kernel {kernel:?}",
                observed.kernel,
                run.pattern.name,
                NAMES[what],
                100.0 * found
            );
            if found.abs() > most_apart(run, what, &kernel) {
                differ.push((&run.pattern.name, NAMES[what], model, kernel));
            }
        }
        compared += 1;
    }
    assert!(compared >= 4 && differ.is_empty(), "{compared} compared: {differ:#?}");
}

/// Whatever may be dirty, as much as begins to be written included, and nothing: writers pause, and get on. The flusher does not
/// come by itself.
#[test]
fn writers_get_on_whatever_may_be_dirty() {
    let ratios = [("0.2", "0.2"), ("0.001", "0.001"), ("0.00001", "0.00001"), ("0", "0")];
    for (most, background) in ratios {
        let sets = [
            ("storage.dram_capacity", "16MiB"),
            ("storage.dirty_ratio", most),
            ("storage.dirty_background_ratio", background),
            ("storage.dirty_writeback", "0s"),
        ];
        let size = 2000 * PAGE_BYTES;
        let mut ops = call(Call::Open { file: 0, size });
        ops.extend(call(Call::Map {
            address: ANONYMOUS,
            length: 1 << 20,
            flags: MAP_WRITABLE,
            file: NO_FILE,
            offset: 0,
        }));
        for offset in (0..size).step_by(PAGE_BYTES as usize) {
            let length = PAGE_BYTES;
            ops.extend(call(Call::Write { file: 0, offset, length, address: ANONYMOUS }));
        }
        let stops = vec![Bound::TimePs(600 * 1_000_000_000_000)];
        let options = RunOptions { stops, ..RunOptions::default() };
        let spec = system("storage/970-pro", &[&sets]);
        let mut machine = Machine::new(&spec, Script::stream(&[ops]), &options).unwrap();
        assert!(machine.run(|_| false).unwrap());
        let result = machine.result();
        assert_eq!(result.counters["file_written_bytes"], size, "{most}: within ten minutes");
        assert!(result.counters["throttled_writes"] > 0, "{most}");
    }
}

#[test]
fn writers_of_many_files_and_slow_devices_are_as_the_kernels_where_it_was_developed() {
    as_the_kernel("development");
}

#[test]
fn writers_of_many_files_and_slow_devices_are_as_the_kernels_where_it_is_judged() {
    as_the_kernel("judgement");
}
