//! Calls on files: how long they take, from when they enter the kernel until they return.

use super::support::*;
use tierscope_system::result::CallResult;
use tierscope_system::spec::SystemSpec;
use tierscope_workload::Op;
use tierscope_workload::op::Call;

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

#[test]
fn a_run_without_calls_on_files_tells_of_none() {
    let sums = run(&machine(), &[vec![Op::load(ANONYMOUS, 8, 1), Op::load(ANONYMOUS, 8, 1)]]);
    assert!(sums.result.calls.is_empty());
}

/// Two threads, each with a call on a file of 256 pages that is there already: the second while the first is in its.
fn at_once(spec: &SystemSpec, calls: [Call; 2]) -> Sums {
    let open = |file| call(Call::Open { file, size: 256 * PAGE });
    let start = [open(0), open(1), call(Call::Spawn { thread: 1 })].concat();
    let [first, second] = calls.map(call);
    let later = vec![Op::load(ANONYMOUS + 512 * PAGE, 8, 60_000)];
    run(spec, &[[start, first].concat(), [later, second].concat()])
}

fn blocked_ns(sums: &Sums) -> f64 {
    sums.result.time_breakdown_ns.get("blocked").copied().unwrap_or(0.0)
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
        assert_eq!(blocked_ns(&two_files), 0.0, "{}", spec.name);
        for second in [write(0), copy, cut] {
            let one_file = at_once(&spec, [write(0), second]);
            // The second sleeps until the first has written all.
            let first_ns = of(&two_files, "write").latency_ns.p50;
            let blocked_ns = blocked_ns(&one_file);
            assert!(blocked_ns > 0.5 * first_ns, "{}: {second:?}: {blocked_ns}", spec.name);
        }
        let with_a_reader = at_once(&spec, [write(0), read(0)]);
        assert_eq!(blocked_ns(&with_a_reader), 0.0, "{}", spec.name);
    }
    // A file that is the device itself has no such lock.
    let on_a_device = at_once(&system("storage/quick", &[]), [write(0), write(0)]);
    assert_eq!(blocked_ns(&on_a_device), 0.0);
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

#[test]
fn calls_past_the_page_cache_have_a_file_one_after_the_other_where_its_file_system_has_them_so() {
    const STORE: Sets = &[("store.units", "4"), ("storage.readahead", "0B")];
    let buffer = |page| ANONYMOUS + page * PAGE;
    let read = |page| Call::ReadDirect {
        file: 0,
        offset: page * PAGE,
        length: PAGE,
        address: buffer(page),
    };
    let write = |page| Call::WriteDirect {
        file: 0,
        offset: page * PAGE,
        length: PAGE,
        address: buffer(page),
    };
    let grow = |page| {
        let offset = (64 + page) * PAGE;
        Call::WriteDirect { file: 0, offset, length: PAGE, address: buffer(page) }
    };
    let spins = ("storage.driver", "{ completion = \"polling\" }");
    for (system_of, release, sets, expected) in [
        (Some("ext3"), "2.6.32", None, [false, true, true]),
        (Some("ext3"), "2.6.32", Some(spins), [true, true, true]),
        (Some("ext4"), "4.9", None, [false, true, true]),
        (Some("ext4"), "6.18", None, [false, false, true]),
        (Some("xfs"), "6.18", None, [false, false, false]),
        (None, "6.18", None, [false, false, false]),
    ] {
        let table = format!(
            "{{ kind = {system_of:?}, journal = \"ordered\", commit_interval = \"0s\", journal_capacity = \"16MiB\", \
             barrier = \"none\", timestamp_interval = \"1s\" }}",
            system_of = system_of.unwrap_or_default()
        );
        let mut all = vec![("storage.readahead_release", release), ("processor.cores", "4")];
        all.extend(system_of.map(|_| ("storage.file_system", table.as_str())));
        all.extend(sets);
        all.extend((release != "6.18").then_some(("storage.largest_folio", "4KiB")));
        let spec = system("storage", &[FREE_KERNEL, STORE, &all]);
        let times = [at_a_time(&spec, read), at_a_time(&spec, write), at_a_time(&spec, grow)];
        let name = format!("{system_of:?} of {release}, {sets:?}");
        assert_eq!(times.map(|time| time > 3.0), expected, "{name}: {times:?}");
        assert!(times.iter().all(|time| !(2.0..3.0).contains(time)), "{name}: {times:?}");
    }
}

#[test]
fn a_read_of_xfs_sees_a_write_as_a_whole_or_not_at_all() {
    const LENGTH: u64 = 256 * PAGE;
    let write = Call::Write { file: 0, offset: 0, length: LENGTH, address: ANONYMOUS };
    let read = Call::Read { file: 0, offset: 0, length: LENGTH, address: ANONYMOUS };
    let waits = |sets, calls| blocked_ns(&at_once(&system("storage/ext4", &[sets]), calls)) > 0.0;
    assert!(waits(&[XFS], [write, read]) && waits(&[XFS], [read, write]));
    assert!(!waits(&[XFS], [read, read]));
    assert!(!waits(&[], [write, read]) && waits(&[], [write, write]));
}
