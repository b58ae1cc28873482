//! Locked memory: what reclaim leaves alone, who lets go of it, and what is brought to memory.

use super::super::small::{FRAMES, fault, os, settle, small, storage, touch};
use super::*;
use crate::os::TransparentHugePages;
use tierscope_units::Size;
use tierscope_workload::op::{MAP_POPULATE, POPULATE};

const PAGE: u64 = 4096;
const FILE: FileId = 1;
/// Where the file is mapped.
const MAPPED: u64 = 2048;
const CURRENT: u64 = LOCK_ALL[0];
const FUTURE: u64 = LOCK_ALL[1];
const ON_FAULT: u64 = LOCK_ALL[2];

/// Memory of which a program may have so many pages, with anonymous memory mapped at 0 and a file at [`MAPPED`].
fn limited(pages: u64) -> Paging {
    let mut paging = small(|spec| spec.memory_limit = Some(Size::from_bytes(pages * PAGE)));
    paging.map(0, 512 * PAGE, MAP_WRITABLE, NO_FILE, 0);
    paging.open(FILE, 256 * PAGE).expect("the store has room");
    paging.map(MAPPED * PAGE, 256 * PAGE, MAP_SHARED | MAP_WRITABLE, FILE, 0);
    paging
}

fn lock(paging: &mut Paging, pages: Range<u64>, lock: Lock) {
    paging.lock(pages.start * PAGE, (pages.end - pages.start) * PAGE, lock);
}

/// All that a call brings to memory comes; how many pages that was.
fn populate(paging: &mut Paging, pages: Range<u64>, how: Populate) -> u64 {
    let mut brought = 0;
    let mut from = pages.start;
    while let Some((page, write)) = paging.next_to_populate(from..pages.end, how) {
        touch(paging, page, write);
        (brought, from) = (brought + 1, page + 1);
    }
    brought
}

fn is_there(paging: &Paging, page: u64) -> bool {
    matches!(paging.entry(page), Pte::Present { .. })
}

fn there(paging: &Paging, pages: Range<u64>) -> usize {
    pages.filter(|page| is_there(paging, *page)).count()
}

#[test]
fn what_is_locked_stays_while_all_else_leaves() {
    for policy in [
        ReclaimPolicy::ActiveInactive,
        ReclaimPolicy::ActiveInactive49,
        ReclaimPolicy::ActiveInactive2632,
        ReclaimPolicy::Generations,
        ReclaimPolicy::Lru,
        ReclaimPolicy::Clock,
        ReclaimPolicy::Fifo,
    ] {
        let mut paging = small(|spec| {
            spec.memory_limit = Some(Size::from_bytes(128 * PAGE));
            spec.reclaim = policy;
        });
        paging.map(0, 512 * PAGE, MAP_WRITABLE, NO_FILE, 0);
        (0..100).for_each(|page| _ = touch(&mut paging, page, true));
        lock(&mut paging, 20..60, Lock::All);
        assert_eq!(paging.locked_bytes(), 40 * PAGE, "{policy:?}");
        (100..500).for_each(|page| _ = touch(&mut paging, page, true));
        settle(&mut paging);
        assert_eq!(there(&paging, 20..60), 40, "{policy:?}");
        assert!(there(&paging, 0..20) + there(&paging, 60..100) < 30, "{policy:?}");
        assert!(paging.charged_pages() <= 128, "they count as what the program has");
        lock(&mut paging, 20..60, Lock::No);
        assert_eq!((paging.locked_bytes(), paging.counters.locked_pages), (0, 40));
        (0..20).chain(60..500).for_each(|page| _ = touch(&mut paging, page, true));
        settle(&mut paging);
        assert!(there(&paging, 20..60) < 20, "{policy:?}: they leave like any");
    }
}

#[test]
fn a_lock_brings_all_and_one_on_fault_what_is_touched() {
    let mut paging = limited(400);
    lock(&mut paging, 0..50, Lock::All);
    assert_eq!(populate(&mut paging, 0..50, Populate::AsMapped), 50);
    assert_eq!(paging.counters.minor_faults, 50, "each as a fault would");
    lock(&mut paging, 100..150, Lock::OnFault);
    assert_eq!(populate(&mut paging, 100..150, Populate::AsMapped), 0);
    touch(&mut paging, 120, true);
    assert_eq!(paging.locked_bytes(), 51 * PAGE);
    // What has been there before counts at once.
    touch(&mut paging, 200, true);
    lock(&mut paging, 200..201, Lock::OnFault);
    assert_eq!(paging.locked_bytes(), 52 * PAGE);
    assert_eq!(paging.counters.locked_pages, 52);
    // Part of it is unlocked, unmapped, and mapped anew.
    lock(&mut paging, 10..20, Lock::No);
    assert_eq!(paging.locked_bytes(), 42 * PAGE);
    paging.unmap(0, 5 * PAGE);
    assert_eq!(paging.locked_bytes(), 37 * PAGE);
    paging.map(0, 30 * PAGE, MAP_WRITABLE, NO_FILE, 0);
    assert_eq!(paging.locked_bytes(), 22 * PAGE);
    touch(&mut paging, 0, true);
    assert_eq!(paging.locked_bytes(), 22 * PAGE, "another mapping is not locked");
}

#[test]
fn a_file_is_brought_as_far_as_it_goes_and_not_made_dirty() {
    let mut paging = limited(400);
    paging.open(2, 10 * PAGE - 100).expect("the store has room");
    let at = 4096;
    paging.map(at * PAGE, 64 * PAGE, MAP_SHARED | MAP_WRITABLE, 2, 3 * PAGE);
    lock(&mut paging, at..at + 64, Lock::All);
    assert_eq!(populate(&mut paging, at..at + 64, Populate::AsMapped), 7);
    assert_eq!(paging.counters.major_faults, 7);
    let all = at..at + 7;
    let writable = |paging: &Paging, pages: Range<u64>| {
        let entries = pages.map(|page| paging.entry(page));
        entries.filter(|entry| matches!(entry, Pte::Present { writable: true, .. })).count()
    };
    assert_eq!((there(&paging, all.clone()), writable(&paging, all.clone())), (7, 0));
    assert_eq!(populate(&mut paging, all.clone(), Populate::Write), 7);
    assert_eq!(writable(&paging, all), 7);
    // Of private memory of a file all is copied.
    paging.map(at * PAGE, 64 * PAGE, MAP_WRITABLE, 2, 0);
    lock(&mut paging, at..at + 64, Lock::All);
    assert_eq!(populate(&mut paging, at..at + 64, Populate::AsMapped), 10);
    assert_eq!((writable(&paging, at..at + 10), paging.locked_bytes()), (10, 10 * PAGE));
    // With 2.6.32 shared pages become dirty.
    paging.readahead.release = Release::V2_6_32;
    lock(&mut paging, MAPPED..MAPPED + 5, Lock::All);
    assert_eq!(populate(&mut paging, MAPPED..MAPPED + 5, Populate::AsMapped), 5);
    assert_eq!(writable(&paging, MAPPED..MAPPED + 5), 5);
    assert_eq!(POPULATE, [0, 1]);
}

#[test]
fn a_page_of_a_file_stays_as_long_as_anybody_has_it_locked() {
    let mut paging = limited(100);
    let other = 4096;
    paging.map(other * PAGE, 256 * PAGE, MAP_SHARED, FILE, 0);
    for first in [MAPPED, other] {
        lock(&mut paging, first..first + 10, Lock::All);
        populate(&mut paging, first..first + 10, Populate::AsMapped);
    }
    assert_eq!(paging.locked_bytes(), 10 * PAGE, "it is there once");
    lock(&mut paging, MAPPED..MAPPED + 10, Lock::No);
    assert_eq!(paging.locked_bytes(), 10 * PAGE);
    paging.unmap(other * PAGE, 4 * PAGE);
    assert_eq!(paging.locked_bytes(), 6 * PAGE);
    paging.truncate(FILE, 8 * PAGE);
    assert_eq!(paging.locked_bytes(), 4 * PAGE, "what is cut off is locked no longer");
    // Nor what a private mapping has copied, but its copy.
    paging.map(other * PAGE, 8 * PAGE, MAP_WRITABLE, FILE, 0);
    assert_eq!(paging.locked_bytes(), 0);
    lock(&mut paging, other..other + 8, Lock::OnFault);
    touch(&mut paging, other, false);
    let Pte::Present { frame: before, .. } = paging.entry(other) else { panic!() };
    touch(&mut paging, other, true);
    let Pte::Present { frame: copy, .. } = paging.entry(other) else { panic!() };
    assert_eq!(paging.locked_bytes(), PAGE);
    assert_eq!((paging.frames.get(before).locked, paging.frames.get(copy).locked), (false, true));
}

#[test]
fn all_of_a_process_is_locked_now_or_from_now_on_or_both() {
    let mut paging = limited(900);
    let stack = 1 << 30;
    touch(&mut paging, stack, true);
    touch(&mut paging, 7, true);
    // All there is: what no call has mapped as far as it was touched.
    let pages = paging.lock_all(0, CURRENT);
    assert_eq!(paging.locked_bytes(), 2 * PAGE);
    assert_eq!(populate(&mut paging, pages, Populate::AsMapped), 511 + 256);
    touch(&mut paging, stack + 1, true);
    assert_eq!(paging.locked_bytes(), (512 + 256 + 2) * PAGE);
    paging.map(8192 * PAGE, 4 * PAGE, MAP_WRITABLE, NO_FILE, 0);
    assert!(!paging.comes_at_once(8192 * PAGE));
    // What comes.
    assert_eq!(paging.lock_all(0, FUTURE), 0..0);
    paging.map(8192 * PAGE, 4 * PAGE, MAP_WRITABLE, NO_FILE, 0);
    assert!(paging.comes_at_once(8192 * PAGE));
    assert_eq!(populate(&mut paging, 8192..8196, Populate::AsMapped), 4);
    assert_eq!(paging.lock_all(0, FUTURE | ON_FAULT), 0..0);
    paging.map(8300 * PAGE, 4 * PAGE, MAP_WRITABLE | MAP_LOCKED, NO_FILE, 0);
    assert!(!paging.comes_at_once(8300 * PAGE));
    touch(&mut paging, 8300, true);
    assert_eq!(paging.locked_bytes(), (512 + 256 + 2 + 4 + 1) * PAGE);
    // None of it.
    assert_eq!(paging.lock_all(0, 0), 0..0);
    assert_eq!(paging.locked_bytes(), 0);
    paging.map(8192 * PAGE, 4 * PAGE, MAP_WRITABLE, NO_FILE, 0);
    touch(&mut paging, 8192, true);
    touch(&mut paging, stack + 2, true);
    assert_eq!(paging.locked_bytes(), 0);
    paging.map(8192 * PAGE, 4 * PAGE, MAP_WRITABLE | MAP_LOCKED | MAP_POPULATE, NO_FILE, 0);
    assert!(paging.comes_at_once(8192 * PAGE));
}

#[test]
fn memory_that_no_call_has_mapped_is_locked_where_it_is_named() {
    let mut paging = limited(400);
    let image = 1 << 20;
    lock(&mut paging, image + 3..image + 6, Lock::All);
    assert_eq!(populate(&mut paging, image..image + 100, Populate::AsMapped), 3);
    touch(&mut paging, image + 7, true);
    assert_eq!(paging.locked_bytes(), 3 * PAGE);
    lock(&mut paging, image + 4..image + 5, Lock::No);
    assert_eq!(paging.locked_bytes(), 2 * PAGE);
    // Something is mapped there, and no more.
    paging.map((image + 3) * PAGE, 3 * PAGE, MAP_WRITABLE, NO_FILE, 0);
    paging.unmap((image + 3) * PAGE, 3 * PAGE);
    touch(&mut paging, image + 3, true);
    assert_eq!(paging.locked_bytes(), 0);
}

#[test]
fn a_child_has_nothing_locked_and_what_it_shares_stays() {
    let mut paging = limited(400);
    lock(&mut paging, 0..10, Lock::All);
    populate(&mut paging, 0..10, Populate::AsMapped);
    paging.lock_all(0, CURRENT | FUTURE | ON_FAULT);
    paging.fork_process(0, 1, &mut Vec::new(), &|_| false).expect("there is room");
    assert_eq!(paging.locked_bytes(), 10 * PAGE);
    let child = 1 << 36;
    // The parent's copy is locked, and what the child has left is not.
    touch(&mut paging, 3, true);
    assert_eq!(paging.locked_bytes(), 10 * PAGE);
    touch(&mut paging, child + 4, true);
    touch(&mut paging, child + 20, true);
    assert_eq!(paging.locked_bytes(), 10 * PAGE);
    paging.end_process(0);
    assert_eq!(paging.locked_bytes(), 0);
    paging.map(0, 4 * PAGE, MAP_WRITABLE, NO_FILE, 0);
    assert!(!paging.comes_at_once(0), "the process that follows locks nothing");
    touch(&mut paging, 0, true);
    assert_eq!(paging.locked_bytes(), 0);
}

#[test]
fn a_moved_mapping_stays_locked_and_what_may_not_be_used_comes_when_it_may() {
    let mut paging = limited(400);
    lock(&mut paging, 0..10, Lock::All);
    populate(&mut paging, 0..10, Populate::AsMapped);
    paging.remap(0, 10 * PAGE, 8192 * PAGE, 20 * PAGE);
    assert_eq!(paging.locked_bytes(), 10 * PAGE);
    assert!(paging.comes_at_once(8192 * PAGE));
    assert_eq!(populate(&mut paging, 8192..8212, Populate::AsMapped), 10);
    // Locked, but not to be used yet: nothing comes, and as soon as it is, all.
    let flags = MAP_LOCKED | MAP_NO_ACCESS;
    paging.map(9000 * PAGE, 8 * PAGE, flags, NO_FILE, 0);
    assert_eq!(populate(&mut paging, 9000..9008, Populate::AsMapped), 0);
    let protect = |paging: &mut Paging, pages: Range<u64>, flags| -> Vec<u64> {
        let length = (pages.end - pages.start) * PAGE;
        paging.protect_mappings(pages.start * PAGE, length, flags).into_iter().flatten().collect()
    };
    assert!(protect(&mut paging, 9000..9008, 0).is_empty(), "where it can be stored to only");
    assert!(protect(&mut paging, 9000..9004, MAP_WRITABLE).into_iter().eq(9000..9004));
    assert_eq!(populate(&mut paging, 9000..9004, Populate::AsMapped), 4);
    assert!(protect(&mut paging, 9000..9004, MAP_WRITABLE).is_empty(), "it could before");
    assert!(protect(&mut paging, 0..4, MAP_NO_ACCESS).is_empty());
    paging.map(8990 * PAGE, 10 * PAGE, 0, NO_FILE, 0);
    let brought = protect(&mut paging, 8990..9008, MAP_WRITABLE);
    assert!(brought.into_iter().eq(9004..9008), "what is locked alone");
    paging.map(9100 * PAGE, PAGE, flags, NO_FILE, 0);
    paging.readahead.release = Release::V2_6_32;
    assert!(protect(&mut paging, 9100..9101, MAP_WRITABLE).is_empty(), "before 4.2");
    let (at, mapping) = paging.space.find(9007).expect("it is mapped");
    assert_eq!((at, mapping.pages), (9000, 8), "what is alike again is one mapping");
}

#[test]
fn what_is_moved_together_is_locked_as_its_begin_and_nothing_of_it_is_forgotten() {
    for (locked, first) in [(0..4, true), (4..8, false)] {
        let mut paging = limited(400);
        (0..8).for_each(|page| _ = touch(&mut paging, page, true));
        lock(&mut paging, locked, Lock::All);
        paging.remap(0, 8 * PAGE, 8192 * PAGE, 8 * PAGE);
        assert_eq!(paging.locked_bytes(), if first { 8 * PAGE } else { 0 });
        paging.unmap(8192 * PAGE, 8 * PAGE);
        assert_eq!(paging.locked_bytes(), 0);
    }
    // Nothing is mapped of no length, and nothing becomes of no length.
    let mut paging = limited(400);
    paging.map(100 * PAGE + 7, 0, MAP_WRITABLE | MAP_LOCKED, NO_FILE, 0);
    paging.remap(4096 * PAGE, 0, 4096 * PAGE, 0);
    lock(&mut paging, 0..200, Lock::OnFault);
    assert_eq!(paging.next_to_populate(90..110, Populate::Read), Some((90, false)));
    assert_eq!(populate(&mut paging, 4000..5000, Populate::AsMapped), 0);
}

#[test]
fn advice_to_drop_what_is_locked_is_refused() {
    let mut paging = limited(400);
    (0..20).for_each(|page| _ = touch(&mut paging, page, true));
    lock(&mut paging, 5..6, Lock::All);
    let advise = |paging: &mut Paging, pages: u64| {
        let advice = Advice::DontNeed as u64;
        paging.advise(0, pages * PAGE, advice, &mut Vec::new(), &|_| false).expect("there is room");
    };
    advise(&mut paging, 20);
    assert_eq!(there(&paging, 0..20), 20);
    advise(&mut paging, 5);
    assert_eq!(there(&paging, 0..20), 15);
}

#[test]
fn locked_memory_that_leaves_no_room_is_an_error_that_says_so() {
    let mut paging = limited(100);
    lock(&mut paging, 0..200, Lock::All);
    let mut work = Vec::new();
    let error = loop {
        let (page, write) = paging.next_to_populate(0..200, Populate::AsMapped).expect("no room");
        match paging.fault(page, write, 0, &mut work, &|_| false) {
            Ok(Next::Ready(frame)) => paging.let_go(frame),
            Ok(_) => settle(&mut paging),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("400KiB of its memory control group"), "{error}");
    assert!(error.contains(", 400KiB of it locked there (mlock);"), "{error}");
    assert_eq!(there(&paging, 0..200), 100);
}

#[test]
fn a_huge_page_is_locked_as_one_and_split_where_a_part_of_it_is_not() {
    const HUGE: u64 = Frame::HUGE;
    let mut spec = storage();
    spec.dram_capacity = Size::from_bytes(16 * HUGE * PAGE);
    let os = OsSpec { transparent_huge_pages: TransparentHugePages::Always, ..os() };
    let mut paging = Paging::new(&os, 2, 16 * HUGE * PAGE, Some((&spec, 1 << 30)), 1);
    paging.map(0, 4 * HUGE * PAGE, MAP_WRITABLE, NO_FILE, 0);
    lock(&mut paging, 0..2 * HUGE, Lock::All);
    assert_eq!(populate(&mut paging, 0..2 * HUGE, Populate::AsMapped), 2);
    assert_eq!((paging.locked_bytes(), paging.reclaim.pages()), (2 * HUGE * PAGE, 0));
    lock(&mut paging, 0..HUGE, Lock::No);
    assert_eq!((paging.locked_bytes(), paging.reclaim.pages()), (HUGE * PAGE, HUGE));
    assert_eq!(paging.counters.huge_page_splits, 0);
    lock(&mut paging, HUGE..HUGE + 100, Lock::No);
    assert_eq!((paging.locked_bytes(), paging.reclaim.pages()), ((HUGE - 100) * PAGE, HUGE + 100));
    assert_eq!(paging.counters.huge_page_splits, 1);
    paging.unmap(0, 4 * HUGE * PAGE);
    assert_eq!((paging.locked_bytes(), paging.reclaim.pages()), (0, 0));
}

#[test]
fn without_a_store_memory_is_brought_and_counted_alike() {
    let mut paging = Paging::new(&os(), 1, FRAMES * PAGE, None, 1);
    paging.map(0, 32 * PAGE, MAP_WRITABLE, NO_FILE, 0);
    lock(&mut paging, 0..16, Lock::All);
    assert_eq!(populate(&mut paging, 0..32, Populate::AsMapped), 32);
    assert_eq!(paging.locked_bytes(), 16 * PAGE);
    lock(&mut paging, 0..8, Lock::No);
    paging.unmap(12 * PAGE, PAGE);
    assert_eq!(paging.locked_bytes(), 7 * PAGE);
    assert!(matches!(fault(&mut paging, 12, true), Next::Ready(_)));
}

#[test]
fn a_range_meets_a_mapping_that_begins_before_it() {
    let mut paging = small(|_| {});
    paging.map(8 * PAGE, 16 * PAGE, MAP_WRITABLE, NO_FILE, 0);
    for (page, pages, meets) in
        [(0, 8, false), (0, 9, true), (8, 1, true), (12, 2, true), (23, 9, true), (24, 8, false)]
    {
        assert_eq!(paging.maps(page * PAGE, pages * PAGE), meets, "{pages} pages from {page} on");
    }
}
