//! Rung 6: advice on files and locked memory against the real kernel. `tests/kernel/observe_advice.py` advised a file and
//! locked some of it by patterns, and wrote how many of its pages were in the page cache; and accessed a file in a memory
//! control group, of which some was locked, and wrote how many pages came back. Here whole machines run the same programs.
//! The patterns are split by a seed: with one half the model was developed, by the other it is judged.
//!
//! `TIERSCOPE_OBSERVED_ADVICE=FILE` compares with what was observed on this computer instead (`make kernel`).

use super::reclaim::{from_base64, word_of};
use super::support::{ANONYMOUS, MAPPED, Sums, call, observation, run as system_run, system};
use serde::Deserialize;
use serde_json::Value;
use tierscope_workload::Op;
use tierscope_workload::op::{
    Advice, Call, FileId, LOCK_ON_FAULT, MAP_LOCKED, MAP_POPULATE, MAP_SHARED, MAP_WRITABLE,
    NO_FILE, POPULATE,
};

const PAGE_BYTES: u64 = 4096;
const FILE: FileId = 0;
/// Where calls read to and write from.
const BUFFER: u64 = ANONYMOUS + (1 << 32);
/// Pages that the kernel reclaims at once.
const BATCH: f64 = 64.0;

/// What `observe_advice.py` writes.
#[derive(Deserialize)]
struct Observed {
    kernel: String,
    file_bytes: u64,
    /// The most that the device takes at once.
    io_pages: u64,
    advice: Vec<Advised>,
    locked: Vec<Locked>,
}

/// A pattern of advice: its steps, and pages of the file in the page cache at each check.
#[derive(Deserialize)]
struct Advised {
    name: String,
    half: String,
    steps: Vec<Vec<Value>>,
    cached: Vec<u64>,
}

/// A pattern of accesses to a file beside locked memory.
#[derive(Deserialize)]
struct Locked {
    name: String,
    half: String,
    read_pages: u64,
    steps: String,
    /// Locked pages of the file, from which on and how many.
    file: (u64, u64),
    /// Locked pages of anonymous memory.
    anonymous_pages: u64,
    /// Accesses before all is unlocked.
    until: usize,
    /// Accesses after each of which the file is not needed any more; never where 0.
    unneeded: usize,
    /// The most pages of the file in the page cache.
    most_pages: u64,
    /// Pages that were locked.
    mlocked: u64,
    workingset_refault_file: u64,
}

fn observed() -> Observed {
    observation("TIERSCOPE_OBSERVED_ADVICE", "advice-6.18.json")
}

fn map(address: u64, length: u64, flags: u64, file: FileId) -> Vec<Op> {
    call(Call::Map { address, length, flags, file, offset: 0 })
}

fn advise_file(offset: u64, length: u64, advice: Advice) -> Vec<Op> {
    call(Call::AdviseFile { file: FILE, offset, length, advice: advice as u64 })
}

/// The file, opened, advised so that only what is asked for is read.
fn opened(file_bytes: u64) -> Vec<Op> {
    let mut ops = call(Call::Open { file: FILE, size: file_bytes });
    ops.extend(map(BUFFER, 16 * PAGE_BYTES, MAP_WRITABLE, NO_FILE));
    ops.extend(advise_file(0, 0, Advice::Random));
    ops
}

fn mapped(file_bytes: u64) -> Vec<Op> {
    let length = file_bytes.next_multiple_of(PAGE_BYTES);
    let mut ops = map(MAPPED, length, MAP_SHARED | MAP_WRITABLE, FILE);
    ops.extend(call(Call::Advise { address: MAPPED, length, advice: Advice::Random as u64 }));
    ops
}

/// The steps of a pattern of advice as a program, up to a check, counted from 0.
fn advised(observed: &Observed, run: &Advised, check: usize) -> Vec<Op> {
    let mut ops = opened(observed.file_bytes);
    let (mut is_mapped, mut checks) = (false, 0);
    for step in &run.steps {
        let what = step[0].as_str().expect("a name");
        let number = |at: usize| step[at].as_u64().expect("a number");
        let pages = || number(1)..number(1) + number(2);
        let of_pages = |page: u64| (page * PAGE_BYTES, PAGE_BYTES);
        if ["load", "store", "lock", "unlock"].contains(&what) && !is_mapped {
            ops.extend(mapped(observed.file_bytes));
            is_mapped = true;
        }
        let range = || (MAPPED + number(1) * PAGE_BYTES, number(2) * PAGE_BYTES);
        match what {
            "check" if checks == check => break,
            "check" => checks += 1,
            "read" => ops.extend(pages().flat_map(|page| {
                let (offset, length) = of_pages(page);
                call(Call::Read { file: FILE, offset, length, address: BUFFER })
            })),
            "write" => ops.extend(pages().flat_map(|page| {
                let (offset, length) = of_pages(page);
                let length = length.min(observed.file_bytes - offset);
                call(Call::Write { file: FILE, offset, length, address: BUFFER })
            })),
            "sync" => ops.extend(call(Call::Sync { file: FILE })),
            "willneed" => {
                ops.extend(advise_file(number(1), number(2), Advice::WillNeed));
                // Until all has come.
                ops.extend(call(Call::Sleep { duration_ps: 100_000_000_000 }));
            }
            "dontneed" => ops.extend(advise_file(number(1), number(2), Advice::DontNeed)),
            "load" => ops.extend(pages().map(|page| Op::load(MAPPED + page * PAGE_BYTES, 1, 10))),
            "store" => ops.extend(pages().map(|page| Op::store(MAPPED + page * PAGE_BYTES, 1, 10))),
            "lock" => {
                let (address, length) = range();
                ops.extend(call(Call::Lock { address, length, flags: 0 }));
            }
            "unlock" => {
                let (address, length) = range();
                ops.extend(call(Call::Unlock { address, length }));
            }
            "unmap" => {
                let length = observed.file_bytes.next_multiple_of(PAGE_BYTES);
                ops.extend(call(Call::Unmap { address: MAPPED, length }));
                is_mapped = false;
            }
            other => panic!("a step that is not known: {other}"),
        }
    }
    ops
}

fn machine(observed: &Observed, limit: Option<&str>, program: &[Op]) -> Sums {
    let request = format!("{}KiB", observed.io_pages * PAGE_BYTES / 1024);
    let mut sets = vec![
        ("storage.largest_request", &*request),
        ("storage.dram_capacity", "32MiB"),
        ("storage.reclaim", "active-inactive"),
        ("storage.readahead_release", "6.18"),
        ("storage.swappiness", "0"),
        ("storage.largest_folio", "4KiB"),
        ("storage.fault_around", "64KiB"),
    ];
    sets.extend(limit.map(|limit| ("storage.memory_limit", limit)));
    system_run(&system("storage/970-pro", &[&sets]), &[program.to_vec()])
}

/// Pages of the file in the page cache once a program has run: those that calls then need not read.
fn pages_in_cache(observed: &Observed, program: &[Op]) -> u64 {
    let pages = observed.file_bytes.div_ceil(PAGE_BYTES);
    let all = (0..pages).flat_map(|page| {
        let (offset, length) = (page * PAGE_BYTES, PAGE_BYTES);
        call(Call::Read { file: FILE, offset, length, address: BUFFER })
    });
    let whole: Vec<Op> = program.iter().copied().chain(all).collect();
    let misses = |ops: &[Op]| machine(observed, None, ops).counter("page_cache_misses");
    pages + misses(program) - misses(&whole)
}

fn as_advised(half: &str) {
    let observed = observed();
    let (mut compared, mut differ) = (0, Vec::new());
    for run in observed.advice.iter().filter(|run| run.half == half) {
        for (check, kernel) in run.cached.iter().enumerate() {
            let found = pages_in_cache(&observed, &advised(&observed, run, check));
            if found != *kernel {
                differ.push((&run.name, check, found, *kernel));
            }
            compared += 1;
        }
    }
    println!("Linux {}, {half}: {compared} checks, of which differ {differ:?}", observed.kernel);
    assert!(compared >= 60 && differ.is_empty(), "{compared} compared: {differ:?}");
}

#[test]
fn advised_files_have_as_many_pages_in_memory_where_it_was_developed() {
    as_advised("development");
}

#[test]
fn advised_files_have_as_many_pages_in_memory_where_it_is_judged() {
    as_advised("judgement");
}

/// Accesses to a file beside memory that is locked for a while.
fn locked(run: &Locked) -> Vec<Op> {
    const FILE_PAGES: u64 = 16384;
    let length = FILE_PAGES * PAGE_BYTES;
    let mut ops = opened(length);
    ops.extend(mapped(length));
    let anonymous = run.anonymous_pages * PAGE_BYTES;
    ops.extend(map(ANONYMOUS, anonymous.max(PAGE_BYTES), MAP_WRITABLE, NO_FILE));
    let (first, pages) = run.file;
    let both = [(MAPPED + first * PAGE_BYTES, pages * PAGE_BYTES), (ANONYMOUS, anonymous)];
    let both = both.into_iter().filter(|(_, length)| *length > 0);
    for (address, length) in both.clone() {
        ops.extend(call(Call::Lock { address, length, flags: 0 }));
    }
    for (number, word) in from_base64(&run.steps).chunks(2).map(word_of).enumerate() {
        if number == run.until {
            for (address, length) in both.clone() {
                ops.extend(call(Call::Unlock { address, length }));
            }
        }
        if word >> 15 == 0 {
            let (offset, end) = (word * PAGE_BYTES, (word + run.read_pages) * PAGE_BYTES);
            let length = end.min(length) - offset;
            ops.extend(call(Call::Read { file: FILE, offset, length, address: BUFFER }));
        } else {
            ops.push(Op::load(MAPPED + (word & 0x7fff) * PAGE_BYTES, 8, 10));
        }
        if run.unneeded > 0 && (number + 1) % run.unneeded == 0 {
            ops.extend(advise_file(0, 0, Advice::DontNeed));
        }
    }
    ops
}

fn locked_pages(sums: &Sums) -> u64 {
    sums.result.counters.get("locked_pages").copied().unwrap_or(0)
}

/// As many pages come back as on the kernel, within 5 % or but for those of one batch, and as many were locked, but for
/// what other programs lock meanwhile.
fn as_locked(half: &str) {
    let observed = observed();
    let (mut compared, mut differ) = (0, Vec::new());
    for run in observed.locked.iter().filter(|run| run.half == half) {
        let room = run.most_pages + run.anonymous_pages + 2 * run.read_pages;
        let limit = format!("{}KiB", room * PAGE_BYTES / 1024);
        let sums = machine(&observed, Some(&limit), &locked(run));
        let [model, kernel] = [sums.counter("refaults"), run.workingset_refault_file];
        println!("Linux {}, {half}, {}: {model} refaults, {kernel}", observed.kernel, run.name);
        let refaults = model.abs_diff(kernel) as f64 <= (0.05 * kernel as f64).max(BATCH);
        let locked = run.mlocked.abs_diff(locked_pages(&sums));
        if !refaults || locked > 4 {
            differ.push((&run.name, model, kernel, locked_pages(&sums), run.mlocked));
        }
        compared += 1;
    }
    assert!(compared >= 6 && differ.is_empty(), "{compared} compared: {differ:?}");
}

#[test]
fn pages_come_back_beside_locked_memory_as_on_the_kernel_where_it_was_developed() {
    as_locked("development");
}

#[test]
fn pages_come_back_beside_locked_memory_as_on_the_kernel_where_it_is_judged() {
    as_locked("judgement");
}

/// Loads of so many pages of anonymous memory, which calls bring there first.
fn brought(pages: u64, calls: impl Fn(u64) -> Vec<Op>) -> Sums {
    let length = pages * PAGE_BYTES;
    let mut ops = map(ANONYMOUS, length, MAP_WRITABLE, NO_FILE);
    ops.extend(calls(length));
    ops.extend((0..pages).map(|page| Op::load(ANONYMOUS + page * PAGE_BYTES, 8, 10)));
    system_run(&system("storage/970-pro", &[]), &[ops])
}

/// What is brought to memory faults page by page within the call, as the kernel counts it, and no more afterwards; and a
/// page takes as long as with a fault of its own, but that no access is repeated.
#[test]
fn pages_that_a_call_brings_to_memory_are_as_many_faults() {
    const PAGES: u64 = 300;
    let [_, write] = POPULATE;
    let (address, touched) = (ANONYMOUS, brought(PAGES, |_| Vec::new()));
    let lock = |length, flags| call(Call::Lock { address, length, flags });
    let ways: [(&str, u64, Sums); 4] = [
        ("mlock", PAGES, brought(PAGES, |length| lock(length, 0))),
        ("mlock2", PAGES, brought(PAGES, |length| lock(length, LOCK_ON_FAULT))),
        ("mlockall", PAGES, { brought(PAGES, |_| call(Call::LockAll { process: 0, flags: 1 })) }),
        ("madvise", 0, {
            brought(PAGES, |length| call(Call::Populate { address, length, how: write }))
        }),
    ];
    for (name, locked, sums) in ways {
        for counter in ["faults", "minor_faults"] {
            assert_eq!(sums.counter(counter), touched.counter(counter), "{name}");
        }
        assert_eq!(locked_pages(&sums), locked, "{name}");
        let longer = sums.time_ps as f64 / touched.time_ps as f64;
        assert!((0.9..1.1).contains(&longer), "{name}: {longer} times as long");
        let waits = sums.stage_ps("fault") as f64 / touched.stage_ps("fault") as f64;
        let expected = if name == "mlock2" { 0.99..1.01 } else { 0.0..0.01 };
        assert!(expected.contains(&waits), "{name}: accesses wait {waits} times as long");
    }
    // With the flags of a mapping alike.
    for flags in [MAP_POPULATE, MAP_LOCKED] {
        let sums = brought(PAGES, |length| map(ANONYMOUS, length, MAP_WRITABLE | flags, NO_FILE));
        assert_eq!(sums.counter("faults"), touched.counter("faults"));
        assert_eq!(sums.stage_ps("fault"), 0);
    }
}

/// Advice that pages are needed no longer writes the dirty ones of the range, and with 2.6.32 those of all of the file;
/// in a file of memory, nothing.
#[test]
fn what_is_needed_no_longer_is_written_as_far_as_the_release_says() {
    let written = |release: &str, (offset, length), more: &[(&str, &str)]| {
        let mut ops = opened(64 * PAGE_BYTES);
        for page in 0..64 {
            let (offset, length) = (page * PAGE_BYTES, PAGE_BYTES);
            ops.extend(call(Call::Write { file: FILE, offset, length, address: BUFFER }));
        }
        ops.extend(advise_file(offset, length, Advice::DontNeed));
        let sets = [("storage.readahead_release", release)];
        system_run(&system("storage/970-pro", &[&sets, more]), &[ops])
            .counter("file_write_back_pages")
    };
    let range = (10 * PAGE_BYTES + 1, 5 * PAGE_BYTES);
    assert_eq!(written("6.18", range, &[]), 6, "with the pages of which it has some");
    assert_eq!(written("4.9", range, &[]), 6);
    assert_eq!(written("2.6.32", range, &[]), 64);
    assert_eq!(written("6.18", (60 * PAGE_BYTES, 0), &[]), 4);
    let tmpfs = [("storage.tmpfs", "{ capacity = \"1GiB\" }")];
    assert_eq!(written("6.18", range, &tmpfs), 0);
}
