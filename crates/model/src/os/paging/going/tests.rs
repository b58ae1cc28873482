//! What goes of which a program says so: when, whereto, and what of it stays.

use super::super::small::{FRAMES, settle, small, touch};
use super::*;
use crate::os::reclaim::ReclaimPolicy;

const PAGE: u64 = 4096;
const FILE: FileId = 1;
/// Where the file is mapped, of so many pages.
const MAPPED: u64 = 16 * FRAMES;
const FILE_PAGES: u64 = 64;

/// Memory with anonymous pages at 0, the first of which are written, and a file.
fn memory(policy: ReclaimPolicy, written: u64) -> Paging {
    let mut paging = small(|spec| spec.reclaim = policy);
    paging.map(0, 4 * FRAMES * PAGE, MAP_WRITABLE, NO_FILE, 0);
    paging.open(FILE, FILE_PAGES * PAGE).expect("the store has room");
    paging.map(MAPPED * PAGE, FILE_PAGES * PAGE, MAP_SHARED | MAP_WRITABLE, FILE, 0);
    for page in 0..written {
        touch(&mut paging, page, true);
    }
    paging
}

fn advise(paging: &mut Paging, pages: Range<u64>, advice: Advice) {
    let (address, length) = (pages.start * PAGE, (pages.end - pages.start) * PAGE);
    let held = |_| false;
    paging.advise(address, length, advice as u64, &mut Vec::new(), &held).expect("there is room");
}

fn there(paging: &Paging, pages: Range<u64>) -> usize {
    pages.filter(|page| matches!(paging.entry(*page), Pte::Present { .. })).count()
}

#[test]
fn what_is_given_back_stays_until_memory_is_short_and_then_goes_without_a_write() {
    for policy in [ReclaimPolicy::ActiveInactive, ReclaimPolicy::Generations] {
        let mut paging = memory(policy, 256);
        advise(&mut paging, 0..256, Advice::Free);
        let before = paging.counters;
        for page in 0..64 {
            touch(&mut paging, page, false);
        }
        assert_eq!(paging.counters, before, "{policy:?}: reads find it as it was");
        for page in 256..FRAMES {
            touch(&mut paging, page, true);
        }
        // It goes before what was written later, and none of it to swap.
        for page in FRAMES..FRAMES + 64 {
            touch(&mut paging, page, true);
        }
        settle(&mut paging);
        assert!(there(&paging, 64..256) < 192 - 64, "{policy:?}");
        assert!((0..256).all(|page| !matches!(paging.entry(page), Pte::Swapped(_))), "{policy:?}");
        assert!(paging.counters.swap_outs < 16, "{policy:?}: {}", paging.counters.swap_outs);
        // What is gone is as new.
        let gone = (64..256).find(|page| paging.entry(*page) == Pte::None).expect("some has gone");
        let before = paging.counters;
        touch(&mut paging, gone, false);
        assert_eq!(paging.counters.minor_faults - before.minor_faults, 1);
        assert_eq!(paging.counters.major_faults, before.major_faults);
    }
}

#[test]
fn what_is_written_after_it_was_given_back_is_kept_and_no_fault_tells_so() {
    let mut paging = memory(ReclaimPolicy::ActiveInactive, 256);
    advise(&mut paging, 0..256, Advice::Free);
    let before = paging.counters;
    for page in 0..128 {
        assert!(paging.sets_dirty_bit(page), "the entry is clean");
        assert!(!paging.sets_dirty_bit(page), "it is dirty now");
    }
    assert_eq!(paging.counters, before);
    for page in 256..2 * FRAMES {
        touch(&mut paging, page, true);
    }
    settle(&mut paging);
    let swapped = |page: &u64| matches!(paging.entry(*page), Pte::Swapped(_));
    assert_eq!((0..128).filter(swapped).count() + there(&paging, 0..128), 128, "nothing is lost");
    assert!((0..128).filter(swapped).count() > 100);
    assert!((128..256).all(|page| paging.entry(page) == Pte::None));
}

#[test]
fn what_is_given_back_of_swap_or_of_two_processes_is_gone_or_stays() {
    let mut paging = memory(ReclaimPolicy::ActiveInactive, 2 * FRAMES);
    settle(&mut paging);
    let is_swapped = |page: &u64| matches!(paging.entry(*page), Pte::Swapped(_));
    let away: Vec<u64> = (0..2 * FRAMES).filter(is_swapped).collect();
    assert!(away.len() > 100);
    let free = paging.free_slots();
    advise(&mut paging, 0..2 * FRAMES, Advice::Free);
    assert!(away.iter().all(|page| paging.entry(*page) == Pte::None));
    assert!(paging.free_slots() >= free + away.len() as u64);
    // Of what a child has as well, nothing is given back.
    let mut paging = memory(ReclaimPolicy::ActiveInactive, 32);
    paging.fork_process(0, 1, &mut Vec::new(), &|_| false).unwrap();
    advise(&mut paging, 0..32, Advice::Free);
    assert!((0..32).all(|page| !paging.sets_dirty_bit(page)));
    // And what was given back before is shared as it is, and kept.
    let mut paging = memory(ReclaimPolicy::ActiveInactive, 32);
    advise(&mut paging, 0..32, Advice::Free);
    paging.fork_process(0, 1, &mut Vec::new(), &|_| false).unwrap();
    assert!((0..32).all(|page| !paging.sets_dirty_bit(page)));
    assert_eq!(there(&paging, 0..32), 32);
}

#[test]
fn what_is_to_go_at_once_goes_whether_it_was_used_or_not() {
    for policy in [ReclaimPolicy::ActiveInactive, ReclaimPolicy::Generations, ReclaimPolicy::Lru] {
        let mut paging = memory(policy, 256);
        for page in 0..FILE_PAGES {
            touch(&mut paging, MAPPED + page, false);
        }
        paging.lock(0, 16 * PAGE, Lock::All);
        advise(&mut paging, 16..128, Advice::PageOut);
        assert_eq!((there(&paging, 0..16), there(&paging, 16..128)), (16, 0), "{policy:?}");
        assert_eq!(there(&paging, 128..256), 128, "{policy:?}");
        assert_eq!(paging.counters.swap_outs, 112, "{policy:?}");
        // Clean pages of a file are dropped.
        advise(&mut paging, MAPPED..MAPPED + FILE_PAGES, Advice::PageOut);
        settle(&mut paging);
        assert_eq!(there(&paging, MAPPED..MAPPED + FILE_PAGES), 0, "{policy:?}");
        assert_eq!(paging.counters.swap_outs, 112, "{policy:?}");
        let faults = paging.counters.major_faults;
        for page in (16..128).chain(MAPPED..MAPPED + FILE_PAGES) {
            touch(&mut paging, page, false);
        }
        let pages = 112 + FILE_PAGES;
        assert_eq!(paging.counters.major_faults - faults, pages, "{policy:?}: one by one");
    }
}

#[test]
fn what_is_not_used_soon_goes_before_what_is() {
    let first_gone = |cold: bool| {
        let mut paging = memory(ReclaimPolicy::ActiveInactive, FRAMES - 64);
        for page in 256..FRAMES - 64 {
            touch(&mut paging, page, false);
        }
        // Used, and the latest: without advice it would be the last to go.
        if cold {
            advise(&mut paging, 512..FRAMES - 64, Advice::Cold);
        }
        for page in FRAMES..FRAMES + 384 {
            touch(&mut paging, page, true);
        }
        settle(&mut paging);
        (512..FRAMES - 64).filter(|page| matches!(paging.entry(*page), Pte::Swapped(_))).count()
    };
    assert!(first_gone(true) >= first_gone(false) + 32);
}

#[test]
fn releases_that_do_not_know_advice_do_nothing() {
    for (policy, knows) in [
        (ReclaimPolicy::ActiveInactive2632, [false, false]),
        (ReclaimPolicy::ActiveInactive49, [true, false]),
        (ReclaimPolicy::ActiveInactive, [true, true]),
    ] {
        let mut paging = memory(policy, 32);
        advise(&mut paging, 0..16, Advice::Free);
        advise(&mut paging, 16..32, Advice::PageOut);
        let found = [paging.sets_dirty_bit(0), there(&paging, 16..32) == 0];
        assert_eq!(found, knows, "{policy:?}");
        // Who is refused says that it does not need them, as allocators do.
        assert_eq!(there(&paging, 0..16), if knows[0] { 16 } else { 0 }, "{policy:?}");
    }
}
