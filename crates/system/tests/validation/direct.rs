//! Calls past the page cache: what they move, what they wait for, and what they leave in it.

use super::support::*;
use tierscope_system::machine::{Machine, MachineError};
use tierscope_system::run::RunOptions;
use tierscope_workload::Op;
use tierscope_workload::op::Call;

const CHECKED: Sets<'static> = &[("check_data", "true"), ("storage.readahead", "0B")];

fn read(page: u64, length: u64) -> Vec<Op> {
    let (offset, address) = (page * PAGE, ANONYMOUS);
    call(Call::ReadDirect { file: 0, offset, length, address })
}

fn write(page: u64, length: u64) -> Vec<Op> {
    let (offset, address) = (page * PAGE, ANONYMOUS);
    call(Call::WriteDirect { file: 0, offset, length, address })
}

fn read_buffered(page: u64) -> Vec<Op> {
    call(Call::Read { file: 0, offset: page * PAGE, length: PAGE, address: ANONYMOUS + 99 * PAGE })
}

fn write_buffered(page: u64) -> Vec<Op> {
    call(Call::Write { file: 0, offset: page * PAGE, length: PAGE, address: ANONYMOUS + PAGE })
}

/// A file of 64 pages, and these calls.
fn of(calls: &[Vec<Op>]) -> Vec<Op> {
    let open = call(Call::Open { file: 0, size: 64 * PAGE });
    let use_buffers = (0..2).map(|page| Op::store(ANONYMOUS + page * PAGE, 8, 4)).collect();
    let look = vec![Op::load(ANONYMOUS, 8, 4), Op::load(ANONYMOUS + 99 * PAGE, 8, 4)];
    [&[open, use_buffers], calls, &[look]].concat().concat()
}

fn run_on(sets: Sets<'_>, calls: &[Vec<Op>]) -> Sums {
    let sums = run(&system("storage/quick", &[CHECKED, sets]), &[of(calls)]);
    assert_eq!(sums.counter("stale_loads"), 0);
    sums
}

#[test]
fn each_direct_read_goes_to_the_device_and_leaves_nothing_in_the_page_cache() {
    let once = run_on(&[], &[read(3, PAGE)]);
    let twice = run_on(&[], &[read(3, PAGE), read(3, PAGE)]);
    assert_eq!(once.result.store_bytes.read, PAGE);
    assert_eq!(twice.result.store_bytes.read, 2 * PAGE);
    assert_eq!(twice.counter("page_cache_hits") + twice.counter("page_cache_misses"), 0);
    assert_eq!(twice.counter("file_read_bytes"), 2 * PAGE);
    assert_eq!(twice.counter("direct_read_bytes"), 2 * PAGE);
    let more = run_on(&[], &[read(3, PAGE), read(3, PAGE), read_buffered(3)]);
    assert_eq!(more.counter("page_cache_misses"), 1);
}

#[test]
fn a_direct_read_waits_for_the_device_link_and_dma_alone() {
    let free: Vec<Sets<'_>> = vec![FREE_KERNEL, WHOLE_NANOSECONDS, CHECKED];
    let spec = system("storage/quick", &free);
    let reads =
        |count: u64| run(&spec, &[of(&(0..count).map(|at| read(at, PAGE)).collect::<Vec<_>>())]);
    let (four, five) = (reads(4), reads(5));
    let took_ps = five.time_ps - four.time_ps;
    let faulted = run(&spec, &[of(&[])]).time_ps;
    // The same as of a page that a fault brings, which has to be mapped besides.
    let medium_ps = 25_000_000;
    assert!((medium_ps..2 * medium_ps).contains(&took_ps), "{took_ps} ps beside {faulted}");
    // Sixteen pages are read side by side.
    let many = run(&spec, &[of(&[read(0, 16 * PAGE)])]).time_ps - run(&spec, &[of(&[])]).time_ps;
    assert!(many < 8 * took_ps, "{many} ps of sixteen, {took_ps} of one");
}

#[test]
fn what_is_dirty_is_written_before_the_device_is_asked() {
    let sums = run_on(&[], &[write_buffered(5), read(5, PAGE)]);
    assert_eq!(sums.counter("file_write_back_pages"), 1);
    assert_eq!(sums.result.store_bytes.written, PAGE);
    assert_eq!(sums.result.store_bytes.read, PAGE);
    let apart = run_on(&[], &[write_buffered(6), read(5, PAGE)]);
    assert_eq!(apart.counter("file_write_back_pages"), 0, "another page may stay dirty");
}

#[test]
fn a_direct_write_takes_pages_from_the_page_cache_and_a_direct_read_does_not() {
    let written = run_on(&[], &[read_buffered(5), write(5, PAGE), read_buffered(5)]);
    assert_eq!(written.counter("page_cache_misses"), 2);
    assert_eq!(written.result.store_bytes.written, PAGE);
    let read_only = run_on(&[], &[read_buffered(5), read(5, PAGE), read_buffered(5)]);
    assert_eq!(read_only.counter("page_cache_misses"), 1);
}

#[test]
fn a_direct_write_makes_a_file_longer_and_holes_are_read_without_the_device() {
    let sums = run_on(&[], &[write(70, PAGE), read(70, PAGE), read(66, PAGE)]);
    assert_eq!(sums.result.store_bytes.written, PAGE);
    assert_eq!(sums.result.store_bytes.read, PAGE);
    let beyond = run_on(&[], &[read(71, PAGE)]);
    assert_eq!(beyond.result.store_bytes.read, 0, "behind its end");
}

#[test]
fn what_is_no_whole_page_goes_through_the_page_cache_and_to_the_store_at_once() {
    let sums = run_on(&[], &[write(5, 512), read_buffered(5)]);
    assert_eq!(sums.counter("file_write_back_pages"), 1);
    // Read to be changed, and read again once it has gone.
    assert_eq!(sums.counter("page_cache_misses"), 2);
}

#[test]
fn what_is_no_whole_sector_is_an_error_that_says_so() {
    for (offset, length, named) in [(100, PAGE, "its offset, 100,"), (0, 700, "its length, 700,")] {
        let ops = of(&[call(Call::WriteDirect { file: 0, offset, length, address: ANONYMOUS })]);
        let (spec, stream) = (system("storage/quick", &[]), Script::stream(&[ops]));
        let mut machine = Machine::new(&spec, stream, &RunOptions::default()).unwrap();
        let error = machine.run(|_| false).unwrap_err();
        assert!(matches!(error, MachineError::BadOperation { thread: 0, .. }));
        let text = error.to_string();
        assert!(text.contains(named) && text.contains("EINVAL"), "{text}");
    }
}

#[test]
fn a_buffer_may_lie_anywhere() {
    let address = ANONYMOUS + 8;
    let odd = call(Call::ReadDirect { file: 0, offset: 0, length: PAGE, address });
    let sums = run_on(&[], &[odd]);
    assert_eq!(sums.result.store_bytes.read, PAGE);
    assert!(!sums.result.counters.contains_key("direct_read_bytes"), "through the page cache");
}

#[test]
fn without_a_store_a_direct_call_is_as_any_other() {
    let spec = system("oracle/quick", &[&[("check_data", "true")]]);
    let direct = run(&spec, &[of(&[write(5, PAGE), read(5, PAGE)])]);
    assert_eq!(direct.counter("stale_loads"), 0);
    assert_eq!(direct.counter("page_cache_hits") + direct.counter("page_cache_misses"), 2);
    let told = |sums: &Sums| sums.result.notes.iter().any(|note| note.contains("O_DIRECT"));
    assert!(told(&direct), "{:?}", direct.result.notes);
    assert!(!told(&run(&spec, &[of(&[write_buffered(5)])])), "nobody asked for it");
    let calls = of(&[write(5, PAGE), read(5, PAGE)]);
    assert!(!told(&run(&system("storage/quick", &[]), &[calls])), "it has an effect there");
}
