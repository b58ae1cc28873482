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
