//! The extended buffer cache on whole machines: nothing without capacity, and all that the disk would
//! have given where it holds what memory does not.

use super::sensitivity::{Feel, SMALL, fitting};
use super::support::*;
use tierscope_system::spec::{SystemSpec, load_text};
use tierscope_workload::Op;
use tierscope_workload::op::Call;

/// `storage/quick` with little memory and a second level of the page cache.
fn buffered(changes: Sets<'_>) -> SystemSpec {
    const TABLE: &str = "base = \"storage/quick\"\n[storage.buffer_cache]\ncapacity = \"1MiB\"\n\
        ways = 64\nreplacement = \"lru\"\nread_slowdown = 400.0\nprogram_slowdown = 1000.0\n\
        on_hit = \"move\"\ninsertion = \"synchronous\"\nqueue_pages = 32\nreadahead = \"ignore\"";
    let mut sets = fitting("storage/quick", SMALL);
    sets.extend(changes.iter().map(|(path, value)| (path.to_string(), value.to_string())));
    load_text("buffered", TABLE, &sets).unwrap_or_else(|problems| panic!("{problems}")).spec
}

/// A file of so many pages, read page by page, over and over.
fn reads(pages: u64, times: usize) -> Vec<Vec<Op>> {
    let read = |page: u64| {
        call(Call::Read { file: 0, offset: page * PAGE, length: PAGE, address: ANONYMOUS })
    };
    let all: Vec<Op> = (0..pages).flat_map(|page| read(page * 97 % pages)).collect();
    let open = call(Call::Open { file: 0, size: pages * PAGE });
    vec![[open, repeat(&all, times)].concat()]
}

#[test]
fn without_capacity_it_is_the_unmodified_kernel() {
    let none = buffered(&[("storage.buffer_cache.capacity", "0B")]);
    let mut unmodified = none.clone();
    unmodified.storage.iter_mut().for_each(|storage| storage.buffer_cache = None);
    for feel in [Feel::Files, Feel::Crowded, Feel::Updates, Feel::Mapped] {
        let [with, without] = [&none, &unmodified].map(|spec| run(spec, &feel.threads()));
        assert_eq!(with.time_ps, without.time_ps, "{feel:?}");
        assert_eq!(with.stages_ps, without.stages_ps, "{feel:?}");
        assert_eq!(with.result.counters, without.result.counters, "{feel:?}");
        assert_eq!(with.result.time_breakdown_ns, without.result.time_breakdown_ns, "{feel:?}");
    }
}

#[test]
fn memory_and_flash_that_hold_the_files_read_them_from_the_store_once() {
    const FILE_PAGES: u64 = 600;
    let none = [("storage.readahead", "0B"), ("storage.buffer_cache.capacity", "0B")];
    let large = [("storage.readahead", "0B"), ("storage.buffer_cache.capacity", "4MiB")];
    let [none, large] = [none, large].map(|sets| run(&buffered(&sets), &reads(FILE_PAGES, 4)));
    assert_eq!(large.result.store_bytes.read, FILE_PAGES * PAGE);
    assert!(none.result.store_bytes.read > 2 * FILE_PAGES * PAGE, "else memory holds them alone");
    let looked = [large.counter("buffer_cache_lookups"), large.counter("buffer_cache_hits")];
    assert_eq!(looked[0] - looked[1], FILE_PAGES);
}

/// A flash of no time is a page cache of as much more memory, but for its paths through the kernel.
#[test]
fn flash_without_time_takes_its_paths_alone() {
    let free = [
        ("storage.readahead", "0B"),
        ("storage.buffer_cache.capacity", "4MiB"),
        ("storage.buffer_cache.read_time", "0s"),
        ("storage.buffer_cache.program_time", "0s"),
    ];
    let slow = [free[0], free[1], ("storage.buffer_cache.read_time", "50us"), free[3]];
    let [free, slow] = [free, slow].map(|sets| run(&buffered(&sets), &reads(600, 4)));
    let hits = free.counter("buffer_cache_hits");
    assert!(hits > 300 && hits == slow.counter("buffer_cache_hits"));
    let owned = |sums: &Sums| sums.result.time_breakdown_ns["buffer_cache"];
    let more_ns = owned(&slow) - owned(&free);
    let expected_ns = hits as f64 * 50_000.0;
    assert!((more_ns / expected_ns - 1.0).abs() < 0.01, "{more_ns} ns for {expected_ns}");
    let memory = run(
        &buffered(&[("storage.readahead", "0B"), ("storage.dram_capacity", "8MiB")]),
        &reads(600, 4),
    );
    assert_eq!(memory.result.store_bytes, free.result.store_bytes);
    assert!(free.time_ps > memory.time_ps);
}

#[test]
fn data_are_the_same_and_checking_them_changes_no_figure() {
    for changes in [
        &[("storage.buffer_cache.on_hit", "move")][..],
        &[("storage.buffer_cache.on_hit", "copy"), ("storage.buffer_cache.readahead", "consult")],
        &[("storage.buffer_cache.insertion", "asynchronous"), ("storage.reclaim", "lru")],
    ] {
        for feel in [Feel::Files, Feel::Crowded] {
            let unchecked = run(&buffered(changes), &feel.threads());
            let checked = [changes, &[("check_data", "true")]].concat();
            let checked = run(&buffered(&checked), &feel.threads());
            assert_eq!(checked.time_ps, unchecked.time_ps, "{feel:?}, {changes:?}");
            assert!(checked.counter("buffer_cache_insertions") > 0);
        }
    }
}
