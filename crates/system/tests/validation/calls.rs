//! Calls on files and on memory: how long they take, from when they enter the kernel until they return.

use super::support::*;
use tierscope_system::result::CallResult;
use tierscope_system::spec::SystemSpec;
use tierscope_workload::Op;
use tierscope_workload::op::{
    Advice, Call, MAP_POPULATE, MAP_SHARED, MAP_WRITABLE, NO_FILE, POPULATE, SYNC_FILE_RANGE,
};

const PAGES: u64 = 32;

fn machine() -> SystemSpec {
    system("storage/quick", &[FREE_KERNEL, &[("storage.readahead", "0B")]])
}

fn read(page: u64) -> Vec<Op> {
    call(Call::Read { file: 0, offset: page * PAGE, length: PAGE, address: ANONYMOUS })
}

fn of(sums: &Sums, kind: &str) -> CallResult {
    sums.result.calls.get(kind).cloned().unwrap_or_else(|| panic!("no {kind} has returned"))
}

/// Pages of a file are read, and then once more; written, and synced.
fn reads_and_writes() -> Vec<Op> {
    let mut ops = call(Call::Open { file: 0, size: 64 * PAGE });
    (0..2).for_each(|_| ops.extend((0..PAGES).flat_map(read)));
    let write = Call::Write { file: 0, offset: 0, length: 4 * PAGE, address: ANONYMOUS };
    ops.extend([call(write), call(Call::Sync { file: 0 })].concat());
    ops
}

#[test]
fn calls_take_all_of_the_time_of_a_thread_that_does_nothing_else() {
    let sums = run(&machine(), &[reads_and_writes()]);
    let counts = ["open", "read", "write", "sync"].map(|kind| of(&sums, kind).count);
    assert_eq!(counts, [1, 2 * PAGES, 1, 1]);
    assert_eq!([of(&sums, "read").bytes, of(&sums, "write").bytes], [2 * PAGES * PAGE, 4 * PAGE]);
    assert_eq!(sums.counter("file_read_bytes"), of(&sums, "read").bytes);
    assert!(!sums.result.calls.contains_key("sync_file_range"), "there was none");
    let calls_ns: f64 = sums.result.calls.values().map(|it| it.time_ns).sum();
    let all_ns = sums.time_ps as f64 / 1e3;
    assert!(calls_ns <= all_ns && calls_ns > 0.999 * all_ns, "{calls_ns} of {all_ns} ns");
}

#[test]
fn a_read_takes_the_store_once_and_memory_then() {
    let read = of(&run(&machine(), &[reads_and_writes()]), "read").latency_ns;
    // Half of them found their page.
    assert!(read.p99 > 20.0 * read.p50, "{read:?}");
    let once = of(
        &run(
            &machine(),
            &[[
                call(Call::Open { file: 0, size: 64 * PAGE }),
                (0..PAGES).flat_map(self::read).collect(),
            ]
            .concat()],
        ),
        "read",
    )
    .latency_ns;
    assert!(once.p50 > 20.0 * read.p50 && once.max < 1.2 * once.p50, "{once:?} {read:?}");
    let mean = (once.mean + read.p50) / 2.0;
    assert!((read.mean / mean - 1.0).abs() < 0.05, "{read:?} {mean}");
}

/// Instructions that a call takes behind some others, where to look a name up takes 1000, to pass the file system 50,000, and
/// nothing else in the kernel any.
fn instructions_of(before: &[Call], measured: Call) -> f64 {
    let changes: Sets<'_> = &[
        ("os.paths.path_lookup", "{ instructions = 1000, lines = 0 }"),
        ("os.paths.file_system", "{ instructions = 50000, lines = 0 }"),
    ];
    let spec = system("oracle/quick", &[FREE_KERNEL, changes]);
    let took_ps = |calls: &[Call]| {
        let ops = calls.iter().flat_map(|it| call(*it)).collect();
        run(&spec, &[ops]).time_ps
    };
    // At 2 GHz.
    (took_ps(&[before, &[measured]].concat()) - took_ps(before)) as f64 / 500.0
}

#[test]
fn calls_look_up_the_names_that_they_give_and_pass_the_file_system_where_they_change_them() {
    let (file, other, parent) = (0, 1, 2);
    let there = Call::Open { file, size: PAGE };
    let closed: &[Call] = &[there, Call::Close { file }];
    let made: &[Call] = &[Call::MakeDirectory { file: parent, parent: NO_FILE }];
    let rename = Call::Rename { file, parent: NO_FILE, replaced: NO_FILE, size: 0, names: 0 };
    for (before, measured, instructions) in [
        (&[][..], there, 1000.0),
        (closed, there, 1000.0),
        (&[], Call::Open { file: other, size: 0 }, 51000.0),
        (closed, Call::Stat { file }, 1000.0),
        (closed, Call::Stat { file: other }, 1000.0),
        (closed, rename, 52000.0),
        (closed, Call::Link { file, parent: NO_FILE }, 52000.0),
        (closed, Call::Unlink { file, size: PAGE }, 51000.0),
        (&[], made[0], 51000.0),
        (made, Call::RemoveDirectory { file: parent }, 51000.0),
        (closed, Call::Close { file }, 0.0),
    ] {
        let found = instructions_of(before, measured);
        // Entering the kernel takes as long as an access takes to leave the core.
        let more = found - instructions;
        assert!((0.0..100.0).contains(&more), "{measured:?}: {found} for {instructions}");
    }
}

#[test]
fn a_run_without_calls_on_files_tells_of_none() {
    let sums = run(&machine(), &[vec![Op::load(ANONYMOUS, 8, 1), Op::load(ANONYMOUS, 8, 1)]]);
    assert!(sums.result.calls.is_empty());
}

/// What is done to memory by calls alone: `PAGES` of a file are read by one that locks them, those of another by one that maps
/// them, as many of no file are made by advice, and all are given back.
fn calls_on_memory() -> Vec<Call> {
    let (length, file) = (PAGES * PAGE, 0);
    let map = |address, flags, file| Call::Map { address, length, flags, file, offset: 0 };
    let [_, write] = POPULATE;
    let dropped =
        Call::Advise { address: ANONYMOUS, length: PAGE, advice: Advice::DontNeed as u64 };
    let [old_address, new_address] = [ANONYMOUS, ANONYMOUS + 4 * length];
    vec![
        Call::Open { file, size: length },
        Call::Open { file: 1, size: length },
        // One that brings nothing is not told.
        map(MAPPED, MAP_SHARED, file),
        Call::Lock { address: MAPPED, length, flags: 0 },
        Call::Unlock { address: MAPPED, length },
        Call::LockAll { process: 0, flags: 1 },
        Call::LockAll { process: 0, flags: 0 },
        Call::Unmap { address: MAPPED, length },
        map(MAPPED + 4 * length, MAP_SHARED | MAP_POPULATE, 1),
        Call::Unmap { address: MAPPED + 4 * length, length },
        map(ANONYMOUS, MAP_WRITABLE, NO_FILE),
        Call::Populate { address: ANONYMOUS, length, how: write },
        dropped,
        Call::Protect { address: ANONYMOUS, length, flags: 0 },
        Call::Remap { old_address, old_length: length, new_address, new_length: length },
        Call::Unmap { address: new_address, length },
    ]
}

#[test]
fn calls_on_memory_take_the_reads_and_the_freeing_of_its_pages() {
    let frees = ("os.paths.free_page", "{ instructions = 1000, lines = 0 }");
    let spec = system("storage/quick", &[FREE_KERNEL, &[frees, ("storage.readahead", "0B")]]);
    let sums = run(&spec, &[calls_on_memory().into_iter().flat_map(call).collect()]);
    for (kind, count) in [
        ("mmap", 1),
        ("munmap", 3),
        ("mremap", 1),
        ("mprotect", 1),
        ("madvise", 2),
        ("mlock", 2),
        ("munlock", 2),
    ] {
        let told = of(&sums, kind);
        assert_eq!((told.count, told.bytes), (count, 0), "{kind}");
        let reads = told.stages_ns.contains_key("medium");
        assert_eq!(reads, ["mlock", "mmap"].contains(&kind), "{kind}: {:?}", told.stages_ns);
    }
    assert_eq!(sums.counter("file_read_bytes"), 0, "no call has read");
    // At 2 GHz: of the file's pages none is free, of the others one is so by advice, and the rest when they are unmapped.
    let freeing_ns = |kind| {
        let told = of(&sums, kind);
        told.stages_ns.get("system_call").copied().unwrap_or(0.0) * told.count as f64
    };
    // Entering the kernel takes as long as an access takes to leave the core, and a page table may go with its pages.
    let more_ns = freeing_ns("munmap") - 500.0 * (PAGES - 1) as f64;
    assert!((0.0..1000.0).contains(&more_ns), "{more_ns} ns besides");
    let more_ns = freeing_ns("madvise") - 500.0;
    assert!((0.0..400.0).contains(&more_ns), "{more_ns} ns besides");
    let calls_ns: f64 = sums.result.calls.values().map(|it| it.time_ns).sum();
    let all_ns = sums.time_ps as f64 / 1e3;
    assert!(calls_ns <= all_ns && calls_ns > 0.999 * all_ns, "{calls_ns} of {all_ns} ns");
}

/// Two threads, each with a call on a file of 256 pages that is there already: the second while the first is in its.
fn at_once(spec: &SystemSpec, calls: [Call; 2]) -> Sums {
    let open = |file| call(Call::Open { file, size: 256 * PAGE });
    let start = [open(0), open(1), call(Call::Spawn { thread: 1 })].concat();
    let [first, second] = calls.map(call);
    let later = vec![Op::load(ANONYMOUS + 512 * PAGE, 8, 60_000)];
    run(spec, &[[start, first].concat(), [later, second].concat()])
}

/// How long threads waited for the lock of a file; a wait is counted where there is one.
fn lock_ns(sums: &Sums) -> f64 {
    let waits = sums.result.counters.get("file_lock_waits").copied().unwrap_or(0);
    let waited_ns = sums.result.time_breakdown_ns.get("file_lock").copied().unwrap_or(0.0);
    assert_eq!(waits > 0, waited_ns > 0.0, "{waits} waits, {waited_ns} ns");
    waited_ns
}

#[test]
fn calls_that_write_a_file_in_memory_have_it_one_after_the_other() {
    const LENGTH: u64 = 256 * PAGE;
    let write = |file| Call::Write { file, offset: 0, length: LENGTH, address: ANONYMOUS };
    let read = |file| Call::Read { file, offset: 0, length: LENGTH, address: ANONYMOUS };
    let copy = Call::SpliceWrite { file: 0, offset: 0, length: LENGTH };
    let cut = Call::Truncate { file: 0, length: PAGE };
    let tmpfs = [("storage.tmpfs", "{ capacity = \"64MiB\" }")];
    let in_tmpfs = system("storage/quick", &[&tmpfs]);
    for spec in [system("hybrid/quick", &[]), system("oracle/quick", &[]), in_tmpfs] {
        let two_files = at_once(&spec, [write(0), write(1)]);
        assert_eq!(lock_ns(&two_files), 0.0, "{}", spec.name);
        // Also one that reads and writes the same file, a pipe at a time.
        let (length, offset) = (LENGTH / 2, LENGTH / 2);
        let within = Call::CopyRange { source: 0, source_offset: 0, file: 0, offset, length };
        for second in [write(0), copy, cut, within] {
            let one_file = at_once(&spec, [write(0), second]);
            // The second sleeps until the first has written all.
            let first_ns = of(&two_files, "write").latency_ns.p50;
            let lock_ns = lock_ns(&one_file);
            assert!(lock_ns > 0.5 * first_ns, "{}: {second:?}: {lock_ns}", spec.name);
        }
        let with_a_reader = at_once(&spec, [write(0), read(0)]);
        assert_eq!(lock_ns(&with_a_reader), 0.0, "{}", spec.name);
    }
    // A file that is the device itself has no such lock.
    let on_a_device = at_once(&system("storage/quick", &[]), [write(0), write(0)]);
    assert_eq!(lock_ns(&on_a_device), 0.0);
}

const XFS: (&str, &str) = ("storage.file_system.kind", "xfs");

/// How long calls of four threads on one file take together, in those of one: each has four of its own, of one page
/// each, side by side past the page cache, on a store that does four at a time.
fn at_a_time(spec: &SystemSpec, direct: impl Fn(u64) -> Call) -> f64 {
    let calls = |thread: u64| (0..4).flat_map(|nth| call(direct(4 * thread + nth))).collect();
    let start = |threads: u32| {
        let spawn = (1..threads).flat_map(|thread| call(Call::Spawn { thread }));
        [call(Call::Open { file: 0, size: 64 * PAGE }), spawn.collect()].concat()
    };
    let one = run(spec, &[[start(1), calls(0)].concat()]).time_ps;
    let threads: Vec<Vec<Op>> = (0..4).map(calls).collect();
    let first = [start(4), threads[0].clone()].concat();
    let four = run(spec, &[vec![first], threads[1..].to_vec()].concat()).time_ps;
    four as f64 / one as f64
}

/// Direct calls of a page that read, write what a file of 64 pages has, or make it grow.
fn calls_of(kind: &str) -> impl Fn(u64) -> Call {
    let (write, first) = (kind != "read", if kind == "grow" { 64 } else { 0 });
    move |page| {
        let (offset, address) = ((first + page) * PAGE, ANONYMOUS + page * PAGE);
        match write {
            true => Call::WriteDirect { file: 0, offset, length: PAGE, address },
            false => Call::ReadDirect { file: 0, offset, length: PAGE, address },
        }
    }
}

/// A store that does four pages at a time, with a file system of a release of Linux, and with changes.
fn with_file_system(kind: Option<&str>, release: &str, changes: Sets<'_>) -> SystemSpec {
    let table = format!(
        "{{ kind = {:?}, journal = \"ordered\", commit_interval = \"0s\", journal_capacity = \"16MiB\", \
         barrier = \"none\", timestamp_interval = \"1s\" }}",
        kind.unwrap_or_default()
    );
    let mut sets = vec![("storage.readahead_release", release), ("processor.cores", "4")];
    sets.extend([("store.units", "4"), ("storage.readahead", "0B")]);
    sets.extend(kind.map(|_| ("storage.file_system", table.as_str())));
    sets.extend((release != "6.18").then_some(("storage.largest_folio", "4KiB")));
    system("storage", &[FREE_KERNEL, &sets, changes])
}

#[test]
fn calls_past_the_page_cache_have_a_file_one_after_the_other_where_its_file_system_has_them_so() {
    let spins: Sets<'_> = &[("storage.driver", "{ completion = \"polling\" }")];
    for (kind, release, driver, expected) in [
        (Some("ext3"), "2.6.32", &[][..], [false, true, true]),
        (Some("ext3"), "2.6.32", spins, [true, true, true]),
        (Some("ext4"), "4.9", &[], [false, true, true]),
        (Some("ext4"), "6.18", &[], [false, false, true]),
        (Some("xfs"), "6.18", &[], [false, false, false]),
        (None, "6.18", &[], [false, false, false]),
    ] {
        let spec = with_file_system(kind, release, driver);
        let times = ["read", "write", "grow"].map(|kind| at_a_time(&spec, calls_of(kind)));
        let name = format!("{kind:?} of {release}, {driver:?}");
        assert_eq!(times.map(|time| time > 3.0), expected, "{name}: {times:?}");
        assert!(times.iter().all(|time| !(2.0..3.0).contains(time)), "{name}: {times:?}");
    }
}

/// While one thread writes a file of XFS through the page cache, three others come to read it: they wait, and then read
/// at the same time.
#[test]
fn those_who_share_a_file_have_it_together_after_one_who_had_it_alone() {
    const LENGTH: u64 = 256 * PAGE;
    let open = call(Call::Open { file: 0, size: LENGTH });
    let write = call(Call::Write { file: 0, offset: 0, length: LENGTH, address: ANONYMOUS });
    let later = vec![Op::load(ANONYMOUS + 512 * PAGE, 8, 60_000)];
    let read = |thread: u64| {
        let address = ANONYMOUS + (1024 + 512 * thread) * PAGE;
        [later.clone(), call(Call::Read { file: 0, offset: 0, length: LENGTH, address })].concat()
    };
    let cores = [XFS, ("processor.cores", "4")];
    let times = [1u32, 3].map(|readers| {
        let spawn = (1..=readers).flat_map(|thread| call(Call::Spawn { thread }));
        let first = [open.clone(), spawn.collect(), write.clone()].concat();
        let others = (1..=readers).map(|thread| read(thread.into()));
        let sums =
            run(&system("storage/ext4", &[&cores]), &[vec![first], others.collect()].concat());
        assert!(lock_ns(&sums) > 0.0);
        sums.time_ps as f64
    });
    let write_ns = of(&run(&system("storage/ext4", &[&cores]), &[[open, write].concat()]), "write");
    let read_ps = times[0] - write_ns.latency_ns.p50 * 1e3;
    assert!(times[1] < times[0] + 0.7 * read_ps, "{times:?}, a read {read_ps} ps");
}

/// What `observe_locks.py` writes.
#[derive(serde::Deserialize)]
struct Observed {
    kernel: String,
    runs: Vec<Run>,
}

/// Four threads that call on one file past the page cache, and how many of the device's requests were under way at once.
#[derive(serde::Deserialize)]
struct Run {
    system: String,
    kind: String,
    most_under_way: u64,
}

/// `TIERSCOPE_OBSERVED_LOCKS=FILE` compares with what was observed on this computer instead (`make kernel`).
#[test]
fn calls_past_the_page_cache_go_on_side_by_side_where_the_kernel_lets_them() {
    let observed: Observed = observation("TIERSCOPE_OBSERVED_LOCKS", "locks-6.18.json");
    let mut compared = 0;
    for Run { system, kind, most_under_way } in &observed.runs {
        if (system.as_str(), kind.as_str()) == ("ext3", "grow") {
            // Threads that grow a file leave holes, which the kernel writes through the page cache where a file has no
            // extents, and waits for without the lock.
            continue;
        }
        let calls = calls_of(kind);
        let together = at_a_time(&with_file_system(Some(system), "6.18", &[]), calls) < 2.0;
        println!("Linux {}, {system}, {kind}: {most_under_way} under way", observed.kernel);
        assert_eq!(together, *most_under_way > 1, "{system}, {kind}");
        compared += 1;
    }
    assert!(compared >= 6, "{compared}");
}

/// Linux 2.6.32 commits a file for one at a time, and nobody writes it meanwhile; it lets others read. Later ones have
/// commits, and writes, side by side with it.
#[test]
fn a_commit_of_2_6_32_has_its_file_to_itself() {
    let write = call(Call::Write { file: 0, offset: 0, length: PAGE, address: ANONYMOUS });
    let again = Call::Write { file: 0, offset: PAGE, length: PAGE, address: ANONYMOUS };
    let read = Call::Read { file: 0, offset: 0, length: PAGE, address: ANONYMOUS };
    for (release, mode) in
        [("2.6.32", "ordered"), ("4.9", "ordered"), ("2.6.32", "data"), ("4.9", "data")]
    {
        let mut spec = with_file_system(Some("ext3"), release, &[]);
        let storage = spec.storage.as_mut().expect("it has a store");
        let files = storage.file_system.as_mut().expect("it has a file system");
        files.journal = serde_json::from_value(mode.into()).expect("it is a mode");
        for second in [Call::Sync { file: 0 }, again, read] {
            let open = call(Call::Open { file: 0, size: 64 * PAGE });
            let spawn = call(Call::Spawn { thread: 1 });
            let first = [open, write.clone(), spawn, call(Call::Sync { file: 0 })].concat();
            let synced = run(&spec, std::slice::from_ref(&first));
            // Its data are written, and its commit is under way.
            let duration_ps = (of(&synced, "sync").latency_ns.p50 * 0.75e3) as u64;
            let during = [call(Call::Sleep { duration_ps }), call(second)].concat();
            let waited_ns = lock_ns(&run(&spec, &[first, during]));
            let expected = release == "2.6.32" && second != read;
            assert_eq!(waited_ns > 0.0, expected, "{release}, {mode}: {second:?}: {waited_ns} ns");
        }
    }
}

/// Blocks are freed behind a call that cuts the file off, both while a third writes it: what is cleared at the ends of
/// the range is known when it is their turn, and the file stays as short as it was made.
#[test]
fn what_is_cleared_at_the_ends_of_a_hole_is_decided_with_the_lock() {
    const LENGTH: u64 = 256 * PAGE;
    let open = call(Call::Open { file: 0, size: LENGTH });
    let spawn = [1u32, 2].into_iter().flat_map(|thread| call(Call::Spawn { thread }));
    let write = call(Call::Write { file: 0, offset: 0, length: LENGTH, address: ANONYMOUS });
    let wait = |thread| call(Call::Wait { thread, sequence: 1 });
    let read = call(Call::Read { file: 0, offset: 0, length: LENGTH, address: ANONYMOUS });
    let later = |ps, own| {
        let sleep = call(Call::Sleep { duration_ps: ps });
        [sleep, call(own), call(Call::Signal { sequence: 1 })].concat()
    };
    let cut = Call::Truncate { file: 0, length: 0 };
    let hole = Call::Allocate { file: 0, mode: 3, offset: 100, length: LENGTH - 200 };
    for preset in ["storage/ext4", "oracle/quick"] {
        let spec = system(preset, &[&[("processor.cores", "4")]]);
        let first = [open.clone(), spawn.clone().collect(), write.clone(), wait(1), wait(2)];
        let first = [first.concat(), read.clone()].concat();
        let sums = run(&spec, &[first, later(1_000_000, cut), later(2_000_000, hole)]);
        assert_eq!(sums.result.counters["file_lock_waits"], 2, "{preset}");
        assert_eq!(sums.counter("file_read_bytes"), 0, "{preset}");
    }
}

/// Blocks of a file are allocated and freed by one call at a time (`ext4_fallocate`): it waits for one that writes the
/// file, and gives the lock up when all of it is done, the parts of pages at its ends included.
#[test]
fn blocks_are_allocated_by_one_call_at_a_time() {
    const LENGTH: u64 = 256 * PAGE;
    let write = Call::Write { file: 0, offset: 0, length: LENGTH, address: ANONYMOUS };
    let holes = Call::Allocate { file: 0, mode: 3, offset: 100, length: LENGTH - 200 };
    // Of whole pages, nothing is cleared at the ends.
    let whole = Call::Allocate { file: 0, mode: 3, offset: PAGE, length: 16 * PAGE };
    let spec = system("storage/ext4", &[]);
    for (first, second) in [(write, holes), (write, whole), (holes, holes)] {
        let sums = at_once(&spec, [first, second]);
        assert!(first == holes || lock_ns(&sums) > 0.0, "{first:?}");
        let later = at_once(&spec, [second, write]);
        assert_eq!(later.counter("file_written_bytes"), LENGTH);
    }
}

#[test]
fn a_read_of_xfs_sees_a_write_as_a_whole_or_not_at_all() {
    const LENGTH: u64 = 256 * PAGE;
    let write = Call::Write { file: 0, offset: 0, length: LENGTH, address: ANONYMOUS };
    let read = Call::Read { file: 0, offset: 0, length: LENGTH, address: ANONYMOUS };
    let waits = |sets, calls| lock_ns(&at_once(&system("storage/ext4", &[sets]), calls)) > 0.0;
    assert!(waits(&[XFS], [write, read]) && waits(&[XFS], [read, write]));
    assert!(!waits(&[XFS], [read, read]));
    assert!(!waits(&[], [write, read]) && waits(&[], [write, write]));
    let spliced = Call::SpliceRead { file: 0, offset: 0, length: LENGTH };
    assert!(waits(&[XFS], [write, spliced]) && !waits(&[XFS], [read, spliced]));
    // Copies from one to the other and back wait for each other's parts, and end.
    let copy = |source, file| Call::CopyRange {
        source,
        source_offset: 0,
        file,
        offset: 0,
        length: LENGTH,
    };
    let back = at_once(&system("storage/ext4", &[&[XFS]]), [copy(0, 1), copy(1, 0)]);
    assert_eq!(back.counter("file_written_bytes"), 2 * LENGTH);
}

/// What `observe_locks.py --drawn` writes.
#[derive(serde::Deserialize)]
struct Drawn {
    kernel: String,
    runs: Vec<DrawnRun>,
}

/// Threads that call on one file, each in its way, and how many of the device's requests were under way at the most and in
/// the mean.
#[derive(serde::Deserialize)]
struct DrawnRun {
    system: String,
    kinds: Vec<String>,
    most_under_way: u64,
    mean_under_way: f64,
}

/// What a thread does in a drawn run: four calls on pages of its own, past the page cache or through it.
fn drawn_calls(kind: &str, thread: u64) -> Vec<Op> {
    let pages = (0..4).map(|nth| 4 * thread + nth);
    let of_page = |page: u64| {
        let (file, offset, length, address) = (0, page * PAGE, PAGE, ANONYMOUS + page * PAGE);
        match kind {
            "cached read" => call(Call::Read { file, offset, length, address }),
            "cached write" => {
                let write = Call::Write { file, offset, length, address };
                let flags = SYNC_FILE_RANGE.iter().sum();
                [call(write), call(Call::SyncFileRange { file, offset, length, flags })].concat()
            }
            kind => call(calls_of(kind)(page)),
        }
    };
    pages.flat_map(of_page).collect()
}

/// A device as slow as the observer's, which does one page at a time.
const ONE_SLOW_PAGE: Sets<'static> =
    &[("store.units", "1"), ("store.read_latency", "15ms"), ("store.write_latency", "15ms")];

/// The most and the mean of requests under way in a drawn run.
fn drawn_under_way(run: &DrawnRun) -> (u64, f64) {
    let spec = with_file_system(Some(&run.system), "6.18", ONE_SLOW_PAGE);
    // All metadata that calls need are in memory before: a file is made, and the last of this one's map is looked for.
    let (file, offset, length, address) = (0, 63 * PAGE, PAGE, ANONYMOUS);
    let before = [
        Call::Open { file: 1, size: 0 },
        Call::WriteDirect { file: 1, offset: 0, length, address },
        Call::Open { file, size: 64 * PAGE },
        Call::ReadDirect { file, offset, length, address },
        Call::WriteDirect { file, offset: 0, length, address },
    ];
    let before: Vec<Op> = before.into_iter().flat_map(call).collect();
    let threads = run.kinds.iter().zip(0..).map(|(kind, thread)| drawn_calls(kind, thread));
    let mut threads: Vec<Vec<Op>> = threads.collect();
    let spawn = (1..threads.len() as u32).flat_map(|thread| call(Call::Spawn { thread }));
    threads[0] = [before.clone(), spawn.collect(), threads[0].clone()].concat();
    let [alone, all] = [vec![before], threads].map(|threads| self::run(&spec, &threads));
    let pages = |sums: &Sums| {
        let queues = &sums.result.queues.as_ref().expect("it tells of queues").queues;
        (queues["host.pages"].max, queues["host.pages"].mean * sums.time_ps as f64)
    };
    let ((_, alone_ps), (most, all_ps)) = (pages(&alone), pages(&all));
    (most, (all_ps - alone_ps) / (all.time_ps - alone.time_ps) as f64)
}

/// Whether all that a drawn run does shares the file, and no call waits for another in the model alone: a read through the
/// page cache waits there for writes past it.
fn shares_the_file(run: &DrawnRun) -> bool {
    let has = |kind: &str| run.kinds.iter().any(|it| it == kind);
    !(has("grow") || has("cached write") || has("cached read") && has("write"))
}

/// Where all threads share the file, as many requests are under way as in the kernel, at the most and within 10 % in the
/// mean. In the others the most is the same in most runs. The mean is not: in the model reads through the page cache wait for
/// writes past it, so that fewer are under way; who waits for the file alone has it before those who come later, where in the
/// kernel one that shares may come before who waits (`rwsem_down_read_slowpath`, kernel/locking/rwsem.c); and a write of XFS that
/// begins behind the file's end has it alone for a moment (`xfs_file_write_checks`), so that in the model more are.
///
/// `TIERSCOPE_OBSERVED_DRAWN_LOCKS=FILE` compares with what was observed on this computer instead (`make kernel`).
#[test]
fn drawn_calls_that_judge_go_on_side_by_side_where_the_kernel_lets_them() {
    let observed: Drawn = observation("TIERSCOPE_OBSERVED_DRAWN_LOCKS", "locks-drawn-6.18.json");
    let (mut as_many, mut near, mut sharing, mut wrong) = (0, 0, 0, Vec::new());
    for run in &observed.runs {
        let (most, mean) = drawn_under_way(run);
        let apart = mean / run.mean_under_way - 1.0;
        let (same_most, same_mean) = (most == run.most_under_way, apart.abs() <= 0.1);
        as_many += usize::from(same_most);
        near += usize::from(same_mean);
        let told = format!(
            "Linux {}, {}, {:?}: {most} and {mean:.2} under way, of the kernel {} and {}",
            observed.kernel, run.system, run.kinds, run.most_under_way, run.mean_under_way
        );
        println!("{told}");
        let right = match shares_the_file(run) {
            true => same_most && same_mean,
            false => (-0.5..0.9).contains(&apart),
        };
        sharing += usize::from(shares_the_file(run));
        wrong.extend((!right).then_some(told));
    }
    let all = observed.runs.len();
    println!(
        "of {all} runs {sharing} share the file; {as_many} have as many under way, {near} in the mean"
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(sharing >= 10 && 100 * as_many >= 85 * all, "{sharing}, {as_many} of {all}");
}
