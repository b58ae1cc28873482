//! What the kernel copies, allocates and frees for a program, and calls of several buffers.

use super::support::*;
use tierscope_system::machine::{Machine, MachineError};
use tierscope_system::run::RunOptions;
use tierscope_system::spec::SystemSpec;
use tierscope_workload::Op;
use tierscope_workload::op::{Buffer, Call, fallocate};

const PAGES: u64 = 64;

fn machine() -> SystemSpec {
    system("storage/quick", &[FREE_KERNEL, &[("storage.readahead", "0B"), ("check_data", "true")]])
}

/// A file of 64 pages, and these calls.
fn of(calls: &[Call]) -> Vec<Op> {
    let open = Call::Open { file: 0, size: PAGES * PAGE };
    [open].iter().chain(calls).flat_map(|it| call(*it)).collect()
}

fn run_of(calls: &[Call]) -> Sums {
    let sums = run(&machine(), &[of(calls)]);
    assert_eq!(sums.counter("stale_loads"), 0);
    sums
}

fn copy(length: u64) -> Call {
    Call::CopyRange { source: 0, source_offset: 0, file: 1, offset: 0, length }
}

fn read(pages: u64) -> Call {
    Call::Read { file: 0, offset: 0, length: pages * PAGE, address: ANONYMOUS }
}

fn range(mode: u64, first: u64, pages: u64) -> Call {
    Call::Allocate { file: 0, mode, offset: first * PAGE, length: pages * PAGE }
}

#[test]
fn a_copy_reads_its_source_and_makes_its_target_dirty() {
    let sums = run_of(&[copy(20 * PAGE), Call::Sync { file: 1 }]);
    assert_eq!(sums.result.store_bytes.read, 20 * PAGE);
    assert_eq!(sums.result.store_bytes.written, 20 * PAGE);
    assert_eq!(sums.counter("file_read_bytes"), 20 * PAGE);
    assert_eq!(sums.counter("file_written_bytes"), 20 * PAGE);
    let told = &sums.result.calls["copy_file_range"];
    assert_eq!((told.count, told.bytes), (1, 20 * PAGE));
    // What is in the page cache is not read again.
    assert_eq!(run_of(&[read(20), copy(20 * PAGE)]).result.store_bytes.read, 20 * PAGE);
}

#[test]
fn pages_for_a_pipe_are_read_and_not_copied() {
    let splice = |length| Call::SpliceRead { file: 0, offset: 0, length };
    let (spliced, copied) = (run_of(&[splice(16 * PAGE)]), run_of(&[read(16)]));
    assert_eq!(spliced.result.store_bytes.read, copied.result.store_bytes.read);
    let lines = 16 * PAGE / 64;
    let [few, many] = [&spliced, &copied].map(|it| it.result.kernel_instructions);
    assert!(many >= few + lines, "{few} {many}");
    let past_the_end = run_of(&[splice(1 << 40)]);
    assert_eq!(past_the_end.counter("file_read_bytes"), PAGES * PAGE);
    let received = run_of(&[
        Call::SpliceWrite { file: 1, offset: 100, length: 3 * PAGE },
        Call::Sync { file: 1 },
    ]);
    assert_eq!(received.result.store_bytes.written, 4 * PAGE);
    assert_eq!(received.result.calls["splice"].bytes, 3 * PAGE);
}

#[test]
fn a_deleted_file_is_not_written_back_and_its_pages_are_free() {
    let write = Call::Write { file: 1, offset: 0, length: 8 * PAGE, address: ANONYMOUS };
    let made = [Call::Open { file: 1, size: 0 }, write, Call::Close { file: 1 }];
    let kept = run_of(&[&made[..], &[Call::SyncAll {}]].concat());
    let deleted =
        run_of(&[&made[..], &[Call::Unlink { file: 1, size: 0 }, Call::SyncAll {}]].concat());
    assert_eq!(kept.result.store_bytes.written, 8 * PAGE);
    assert_eq!(deleted.result.store_bytes.written, 0);
}

#[test]
fn what_is_deleted_and_emptied_goes_to_the_journal() {
    let spec = system("storage/ext4", &[FREE_KERNEL]);
    let logged = |calls: &[Call]| {
        run(&spec, &[of(&[calls, &[Call::SyncAll {}]].concat())]).counter("journal_written_bytes")
    };
    let nothing = logged(&[]);
    for calls in [
        vec![Call::Unlink { file: 9, size: 5 * PAGE }],
        vec![Call::Close { file: 0 }, Call::Unlink { file: 0, size: 0 }],
        vec![Call::Truncate { file: 0, length: 0 }],
        vec![range(0, PAGES, 10)],
        vec![range(fallocate::PUNCH_HOLE | fallocate::KEEP_SIZE, 3, 10)],
        vec![range(fallocate::COLLAPSE_RANGE, 3, 10)],
    ] {
        let found = logged(&calls);
        assert!(found > nothing, "{calls:?}: {found} {nothing}");
    }
    assert_eq!(logged(&[Call::Unlink { file: 9, size: 0 }]), nothing, "there is no such file");
}

#[test]
fn a_file_that_a_thread_has_open_is_its_own_in_all_threads_when_it_is_deleted() {
    let write =
        |page| Call::Write { file: 1, offset: page * PAGE, length: PAGE, address: ANONYMOUS };
    let first = of(&[
        Call::Open { file: 1, size: 0 },
        write(0),
        Call::Unlink { file: 1, size: 0 },
        Call::Spawn { thread: 1 },
        Call::Wait { thread: 1, sequence: 1 },
        Call::Sync { file: 1 },
    ]);
    let second: Vec<Op> =
        [write(1), Call::Close { file: 1 }, Call::Signal { sequence: 1 }, Call::SyncAll {}]
            .iter()
            .flat_map(|it| call(*it))
            .collect();
    let sums = run(&machine(), &[first, second]);
    assert_eq!(sums.result.store_bytes.written, 0, "the other thread's close was the last");
}

#[test]
fn holes_and_what_is_only_allocated_are_read_without_the_store() {
    let hole = range(fallocate::PUNCH_HOLE | fallocate::KEEP_SIZE, 4, 8);
    assert_eq!(run_of(&[hole, read(16)]).result.store_bytes.read, 8 * PAGE);
    let more = Call::Read { file: 0, offset: PAGES * PAGE, length: 8 * PAGE, address: ANONYMOUS };
    let sums = run_of(&[range(0, PAGES, 8), more]);
    assert_eq!((sums.counter("file_read_bytes"), sums.result.store_bytes.read), (8 * PAGE, 0));
    assert_eq!(sums.result.calls["fallocate"].count, 1);
    // Of a page of which the hole has a part, that part is cleared, and the page written.
    let (offset, length) = (4 * PAGE + 100, 2 * PAGE);
    let mode = fallocate::PUNCH_HOLE | fallocate::KEEP_SIZE;
    let part = Call::Allocate { file: 0, mode, offset, length };
    let sums = run_of(&[part, Call::Sync { file: 0 }]);
    assert_eq!(
        (sums.result.store_bytes.read, sums.result.store_bytes.written),
        (2 * PAGE, 2 * PAGE)
    );
}

/// A read of pages to buffers of a page and of more, and one of the same to one buffer.
fn of_buffers(lengths: &[u64], direct: bool) -> Vec<Op> {
    let length = lengths.iter().sum();
    let mut next = ANONYMOUS + 1000 * PAGE;
    let mut buffers = lengths.iter().map(|length| {
        let buffer = Buffer { address: next, length: *length };
        next += 20 * PAGE;
        buffer
    });
    let address = buffers.next().unwrap().address;
    let further: Vec<Buffer> = buffers.collect();
    let call = match direct {
        true => Call::ReadDirect { file: 0, offset: 0, length, address },
        false => Call::Read { file: 0, offset: 0, length, address },
    };
    let mut ops = of(&[]);
    call.encode_with(&further, 1, &mut ops);
    ops
}

#[test]
fn a_call_of_several_buffers_is_one_that_fills_them_one_behind_the_other() {
    for direct in [false, true] {
        let one = run(&machine(), &[of_buffers(&[12 * PAGE], direct)]);
        let three = run(&machine(), &[of_buffers(&[PAGE, 8 * PAGE, 3 * PAGE], direct)]);
        for sums in [&one, &three] {
            let told = &sums.result.calls["read"];
            assert_eq!((told.count, told.bytes), (1, 12 * PAGE));
            assert_eq!(sums.result.store_bytes.read, 12 * PAGE);
        }
        assert_eq!(one.counter("minor_faults"), three.counter("minor_faults"), "pages of buffers");
    }
    let odd = run(&machine(), &[of_buffers(&[100, 5 * PAGE, 1, PAGE - 101], false)]);
    assert_eq!(odd.result.calls["read"].bytes, 6 * PAGE);
    assert_eq!(odd.counter("minor_faults"), 1 + 5 + 1 + 1);
    let direct = run(&machine(), &[of_buffers(&[512, 5 * PAGE, PAGE - 512], true)]);
    assert!(!direct.result.counters.contains_key("direct_read_bytes"), "no whole pages");
}

#[test]
fn ranges_that_no_file_can_have_are_refused_and_those_of_no_store_too() {
    for (call, told) in [
        (copy(u64::MAX), "beyond what a file can have"),
        (range(0, 1 << 51, 1), "beyond what a file can have"),
        (Call::SpliceWrite { file: 0, offset: u64::MAX, length: 1 }, "beyond what a file can have"),
        (range(0, 0, 1 << 40), "files and swap need more than the store"),
    ] {
        let stream = Script::stream(&[of(&[call])]);
        let mut machine = Machine::new(&machine(), stream, &RunOptions::default()).unwrap();
        let refused = machine.run(|_| false).unwrap_err().to_string();
        assert!(refused.contains(told), "{call:?}: {refused}");
    }
}

#[test]
fn buffers_that_are_more_than_the_call_moves_are_refused() {
    let mut ops = of(&[]);
    let further = [Buffer { address: 0, length: u64::MAX }, Buffer { address: 0, length: 9 }];
    read(1).encode_with(&further, 1, &mut ops);
    let stream = Script::stream(&[ops]);
    let mut machine = Machine::new(&machine(), stream, &RunOptions::default()).unwrap();
    let refused = machine.run(|_| false).map(drop);
    let Err(MachineError::BadOperation { reason, .. }) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("buffers of a call are more than the 4096 B"), "{reason}");
}
