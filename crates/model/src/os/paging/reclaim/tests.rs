//! Edges of reclaim: when it begins, which pages go, and what it must not forget.

use super::*;
use crate::os::paging::small::{FRAMES, fault, finish, settle, small, touch, write};
use crate::os::reclaim::active_inactive::ACTIVE_FILE;
use tierscope_units::Size;

const FILE: FileId = 1;
const PAGE: u64 = 4096;

fn paging() -> Paging {
    small(|_| {})
}

/// Touches page after page until so many frames are free; the next page.
fn fill(paging: &mut Paging, free: u64) -> u64 {
    let mut page = 0;
    while paging.frames.free() > free {
        assert!(matches!(fault(paging, page, true), Next::Ready(_)));
        page += 1;
    }
    page
}

/// The file's pages, read by calls one after the other.
fn read(paging: &mut Paging, pages: Range<u64>) {
    for page in pages {
        let mut work = Vec::new();
        while let Next::Arrives(id, _) =
            paging.read_page(FILE, page, page, &mut work, &|_| false).expect("there is room")
        {
            finish(paging, id);
        }
        settle(paging);
        paging.end_of_read(FILE, (page + 1) * PAGE);
    }
}

fn balance(paging: &mut Paging) {
    while paging.balance(&mut Vec::new(), &|_| false).expect("there is room") {}
    settle(paging);
}

#[test]
fn watermarks_are_those_of_the_kernel() {
    // What /proc/zoneinfo and min_free_kbytes say of memory that is all in one zone: 4 times the root
    // of its KiB, a quarter of that or a 1000th of memory to the next.
    let gib = |gib: u64| gib << 18;
    let old = Watermarks::new(gib(4), PAGE, (0.0, false));
    assert_eq!(old, Watermarks { min: 2048, low: 2560, high: 3072 });
    let new = Watermarks::new(gib(4), PAGE, (0.001, false));
    assert_eq!(new, Watermarks { min: 2048, low: 3096, high: 4144 });
    assert_eq!(Watermarks::new(gib(1 << 14), PAGE, (0.0, false)).min, 65536, "256 MiB at most");
    assert_eq!(Watermarks::new(gib(4), 4 * PAGE, (0.0, false)).min, 1024, "4 times as much memory");
}

#[test]
fn whoever_needs_a_frame_reclaims_at_the_lowest_watermark_and_not_a_page_before() {
    let mut paging = paging();
    let min = paging.watermarks.min;
    let page = fill(&mut paging, min);
    assert_eq!(paging.counters.reclaimed_pages, 0, "a page was left above it each time");
    fault(&mut paging, page, true);
    assert!((RECLAIM_BATCH..2 * RECLAIM_BATCH).contains(&paging.counters.reclaimed_pages));
}

#[test]
fn the_kernels_thread_wakes_at_the_low_watermark_and_sleeps_at_the_high_one() {
    let mut paging = paging();
    let Watermarks { low, high, .. } = paging.watermarks;
    let page = fill(&mut paging, low);
    assert!(!paging.take_wakes().reclaim);
    fault(&mut paging, page, true);
    assert!(paging.take_wakes().reclaim);
    // All has been used: it finds nothing, until it is woken again.
    balance(&mut paging);
    assert_eq!(paging.counters.reclaimed_pages, 0);
    balance(&mut paging);
    // It wants as many as are to be free (`kswapd_shrink_node`).
    let free = paging.frames.free();
    assert!((high..low + high + RECLAIM_BATCH).contains(&free), "{free}");
    let OsCounters { reclaimed_pages, background_reclaimed_pages, .. } = paging.counters;
    assert_eq!(reclaimed_pages, background_reclaimed_pages);
    assert!(!paging.balance(&mut Vec::new(), &|_| false).expect("there is room"));
    assert_eq!(paging.counters.reclaimed_pages, reclaimed_pages, "enough is free");
}

/// While the store writes what reclaim has chosen, pages that are wanted wait: they do not send off
/// all of memory.
#[test]
fn what_is_on_its_way_out_counts_as_free() {
    let mut paging = paging();
    let min = paging.watermarks.min;
    let first = fill(&mut paging, min);
    for page in first..first + 100 {
        assert_eq!(fault(&mut paging, page, true), Next::WaitForFrame);
    }
    let reclaimed = paging.counters.reclaimed_pages;
    assert!(reclaimed < 2 * RECLAIM_BATCH, "one batch, and no other behind it");
    settle(&mut paging);
    assert_eq!((paging.frames.free(), paging.leaving), (min + reclaimed, 0));
}

#[test]
fn a_page_that_only_memory_has_goes_to_swap_and_comes_back_from_there() {
    let mut paging = paging();
    let min = paging.watermarks.min;
    let page = fill(&mut paging, min);
    paging.take_effects();
    fault(&mut paging, page, true);
    let out = paging.counters.swap_outs;
    assert_eq!(out, paging.counters.reclaimed_pages);
    assert!(matches!(paging.entry(0), Pte::Swapped(_)), "the page that came first");
    assert!(paging.take_effects().contains(&Effect::Shootdown(0)));
    let id = paging.transfers.iter().map(|(id, _)| id).next().expect("they are on their way");
    let transfer = paging.transfer(id);
    assert_eq!((transfer.pages.len() as u64, transfer.write), (out, true));
    finish(&mut paging, id);
    let Next::Arrives(id, _) = fault(&mut paging, 0, false) else {
        panic!("it is in the store alone")
    };
    assert!(!paging.transfer(id).write);
    finish(&mut paging, id);
    assert!(matches!(fault(&mut paging, 0, false), Next::Ready(_)));
    assert_eq!(paging.counters.swap_ins, 1);
}

/// Pages of a file that are used again and again stay, while those of a long scan go.
#[test]
fn a_scan_does_not_displace_what_is_read_twice() {
    let hot = |policy| {
        let mut paging = small(|spec| spec.reclaim = policy);
        paging.open(FILE, 8 * FRAMES * PAGE).expect("the store has room");
        for _ in 0..2 {
            read(&mut paging, 0..100);
        }
        read(&mut paging, 100..4 * FRAMES);
        (0..100).filter(|page| paging.cached(FILE, *page).is_some()).count()
    };
    assert_eq!(hot(ReclaimPolicy::ActiveInactive), 100);
    assert_eq!(hot(ReclaimPolicy::ActiveInactive49), 100);
    assert_eq!(hot(ReclaimPolicy::ActiveInactive2632), 100);
    assert_eq!(hot(ReclaimPolicy::Lru), 0);
    assert_eq!(hot(ReclaimPolicy::Fifo), 0);
}

/// What is mapped and used again and again, anonymous memory and a file's pages, stays while a file is read
/// once by calls, as the kernel's documentation says of generations; and what is used once goes.
#[test]
fn a_scan_does_not_displace_what_is_mapped_and_used() {
    const USED: u64 = 200;
    const OTHER: FileId = 2;
    let read_again = |policy| {
        let mut paging = small(|spec| spec.reclaim = policy);
        paging.open(FILE, 8 * FRAMES * PAGE).expect("the store has room");
        paging.open(OTHER, USED * PAGE).expect("the store has room");
        paging.map(512 * PAGE, USED * PAGE, MAP_SHARED, OTHER, 0);
        for round in 0..100 {
            for page in (0..USED).chain(512..512 + USED) {
                let frame = touch(&mut paging, page, page < USED);
                paging.touch(frame);
            }
            read(&mut paging, 60 * round..60 * (round + 1));
            if paging.take_wakes().reclaim {
                balance(&mut paging);
            }
        }
        // Each page of the scanned file is read once.
        (paging.counters.major_faults - 60 * 100 - USED, paging.counters.swap_ins)
    };
    assert_eq!(read_again(ReclaimPolicy::Generations), (0, 0));
    let fifo = read_again(ReclaimPolicy::Fifo);
    assert!(fifo.0 > 1000 && fifo.1 > 1000, "{fifo:?}");
}

/// The pages that a fault brings are the second youngest, those that a file call brings the next to go; under
/// advice a fault counts for nothing (`lru_gen_in_fault`, `vma_has_recency`).
#[test]
fn generations_tell_faults_from_file_calls() {
    let sequence = |advice: Option<Advice>, by_fault| {
        let mut paging = small(|spec| spec.reclaim = ReclaimPolicy::Generations);
        paging.open(FILE, 64 * PAGE).expect("the store has room");
        paging.map(0, 64 * PAGE, MAP_SHARED, FILE, 0);
        if let Some(advice) = advice {
            let done = paging.advise(0, 64 * PAGE, advice as u64, &mut Vec::new(), &|_| false);
            done.expect("there is room");
        }
        if by_fault {
            touch(&mut paging, 0, false);
        } else {
            read(&mut paging, 0..1);
        }
        let frame = paging.cached(FILE, 0).expect("it was read");
        match &paging.reclaim {
            Reclaim::Generations(generations) => generations.sequence_of(frame),
            _ => None,
        }
    };
    assert_eq!(sequence(None, false), Some(0));
    assert_eq!(sequence(None, true), Some(2));
    assert_eq!(sequence(Some(Advice::Random), true), Some(0));
}

/// The shadow of an evicted page says that it was away for a short time: it is active at once.
#[test]
fn what_comes_back_soon_is_told_from_what_is_new() {
    let mut paging = paging();
    paging.open(FILE, 8 * FRAMES * PAGE).expect("the store has room");
    for _ in 0..2 {
        read(&mut paging, 0..FRAMES / 2);
    }
    read(&mut paging, FRAMES / 2..FRAMES + 50);
    assert_eq!(paging.reclaim_counters().refaults, 0);
    let gone = (FRAMES / 2..FRAMES).find(|page| paging.cached(FILE, *page).is_none());
    let gone = gone.expect("memory is smaller");
    read(&mut paging, gone..gone + 1);
    let ReclaimCounters { refaults, refaults_activated, .. } = paging.reclaim_counters();
    assert_eq!((refaults, refaults_activated), (1, 1));
    paging.truncate(FILE, 0);
    paging.extend_file(FILE, FRAMES * PAGE);
    assert!(matches!(write(&mut paging, FILE, gone + 1, 0), Next::Ready(_)));
    assert_eq!(paging.reclaim_counters().refaults, 1, "a page that was cut off has left nothing");
}

#[test]
fn swappiness_says_whether_anonymous_memory_goes_before_files() {
    let swapped = |swappiness| {
        let mut paging = small(|spec| spec.swappiness = swappiness);
        paging.open(FILE, 8 * FRAMES * PAGE).expect("the store has room");
        for page in 0..FRAMES / 2 {
            touch(&mut paging, page, true);
        }
        // Active pages of files are more than inactive ones, so that files are not plenty.
        for _ in 0..2 {
            read(&mut paging, 0..300);
        }
        read(&mut paging, 300..2 * FRAMES);
        paging.counters.swap_outs
    };
    let out = [1, 60, 200].map(swapped);
    assert!(out.is_sorted() && out[0] < out[2], "{out:?}");
}

/// What a mapping is advised to be read in order or at random does not stay because it was used
/// (`vma_has_recency`).
#[test]
fn uses_under_advice_keep_nothing() {
    let advised = |advice: Option<Advice>| {
        let mut paging = small(|spec| spec.fault_around = Size::from_bytes(PAGE));
        paging.open(FILE, 8 * FRAMES * PAGE).expect("the store has room");
        paging.map(0, 64 * PAGE, MAP_SHARED, FILE, 0);
        if let Some(advice) = advice {
            let done = paging.advise(0, 64 * PAGE, advice as u64, &mut Vec::new(), &|_| false);
            done.expect("there is room");
        }
        for pages in 0..40 {
            for page in 0..64 {
                let frame = touch(&mut paging, page, false);
                paging.touch(frame);
            }
            read(&mut paging, 64 + pages * 60..64 + (pages + 1) * 60);
        }
        paging.counters.major_faults
    };
    assert!(advised(None) < advised(Some(Advice::Random)));
}

/// Until 6.2 uses of a mapping at random did count (`page_referenced_one`, mm/rmap.c).
#[test]
fn uses_at_random_kept_pages_in_older_kernels() {
    let counts = |reclaim, advice: Advice| {
        let mut paging = small(|spec| spec.reclaim = reclaim);
        paging.open(FILE, 8 * PAGE).expect("the store has room");
        paging.map(0, 8 * PAGE, MAP_SHARED, FILE, 0);
        let done = paging.advise(0, 8 * PAGE, advice as u64, &mut Vec::new(), &|_| false);
        done.expect("there is room");
        paging.uses_count(0)
    };
    for reclaim in OLD {
        assert!(counts(reclaim, Advice::Random) && !counts(reclaim, Advice::Sequential));
    }
    assert!(!counts(ReclaimPolicy::ActiveInactive, Advice::Random));
}

const OLD: [ReclaimPolicy; 2] =
    [ReclaimPolicy::ActiveInactive2632, ReclaimPolicy::ActiveInactive49];

/// Pages of each list.
fn sizes(paging: &Paging) -> [u64; 4] {
    match &paging.reclaim {
        Reclaim::ActiveInactive(lists) => lists.sizes(),
        _ => panic!("there are others"),
    }
}

/// Until 4.6 a write call used its page as a read call does (`generic_perform_write`).
#[test]
fn what_was_written_twice_was_active() {
    let active = |reclaim| {
        let mut paging = small(|spec| spec.reclaim = reclaim);
        paging.open(FILE, 0).expect("the store has room");
        for index in [0, 1, 0] {
            assert!(matches!(write(&mut paging, FILE, index, 0), Next::Ready(_)));
        }
        sizes(&paging)[ACTIVE_FILE as usize]
    };
    assert_eq!(OLD.map(active), [1, 0]);
    assert_eq!(active(ReclaimPolicy::ActiveInactive), 0);
}

/// `page_mapping_inuse` of 2.6.32: a page of a file that anybody has mapped is in use, and one of a file of memory that
/// swap has.
#[test]
fn a_page_was_in_use_where_its_file_was_mapped() {
    let activations = |mapped: bool| {
        let mut paging = small(|spec| spec.reclaim = ReclaimPolicy::ActiveInactive2632);
        paging.open(FILE, 8 * FRAMES * PAGE).expect("the store has room");
        if mapped {
            paging.map(0, PAGE, MAP_SHARED, FILE, 5000);
        }
        read(&mut paging, 0..2 * FRAMES);
        paging.reclaim_counters().activations
    };
    assert_eq!(activations(false), 0);
    assert!(activations(true) > 0, "by one call each");
}

/// A page that reclaim of 2.6.32 has being written, and that calls use twice meanwhile, stays
/// (`rotate_reclaimable_page`).
#[test]
fn what_calls_use_while_it_is_written_stayed() {
    let mut paging = small(|spec| {
        spec.reclaim = ReclaimPolicy::ActiveInactive2632;
        spec.dirty_ratio = 3.0;
        spec.dirty_background_ratio = 2.0;
    });
    paging.open(FILE, 0).expect("the store is empty");
    let mut index = 0;
    while paging.leaving == 0 {
        write(&mut paging, FILE, index, 0);
        index += 1;
    }
    let id = paging.transfers.iter().map(|(id, _)| id).next().expect("they are on their way");
    let leaving: Vec<u64> = paging.transfer(id).pages.iter().map(|page| page.frame).collect();
    for _ in 0..2 {
        paging.reclaim.mark_accessed(leaving[0]);
    }
    settle(&mut paging);
    let is_there = |frame: u64| matches!(paging.frames.get(frame).owner, Owner::File(..));
    let stayed: Vec<u64> = leaving.iter().copied().filter(|frame| is_there(*frame)).collect();
    assert_eq!(stayed, leaving[..1]);
}

/// The kernel's thread of 4.9 writes dirty pages of files itself where it finds nothing else, and wakes no flusher; that
/// of 6.18 leaves them to the flusher.
#[test]
fn the_kernels_thread_wrote_dirty_pages_itself() {
    let done = |reclaim| {
        let mut paging = small(|spec| {
            spec.reclaim = reclaim;
            spec.dirty_ratio = 3.0;
            spec.dirty_background_ratio = 2.0;
        });
        paging.open(FILE, 0).expect("the store is empty");
        let mut index = 0;
        while !paging.take_wakes().reclaim {
            assert!(matches!(write(&mut paging, FILE, index, 0), Next::Ready(_)));
            index += 1;
        }
        balance(&mut paging);
        let enough = paging.frames.free() >= paging.watermarks.high;
        (enough, paging.counters.file_write_backs > 0, paging.take_wakes().flush)
    };
    assert_eq!(OLD.map(done), [(true, true, false); 2]);
    assert_eq!(done(ReclaimPolicy::ActiveInactive), (false, false, true));
}

/// Pages of files that are dirty are left to the flusher, and are the first to go once written.
#[test]
fn dirty_pages_of_files_are_written_by_others_and_go_then() {
    for policy in
        [ReclaimPolicy::ActiveInactive, ReclaimPolicy::ActiveInactive49, ReclaimPolicy::Generations]
    {
        dirty_pages_are_written_by_others(policy);
    }
}

fn dirty_pages_are_written_by_others(policy: ReclaimPolicy) {
    let mut paging = small(|spec| {
        spec.reclaim = policy;
        spec.dirty_ratio = 3.0;
        spec.dirty_background_ratio = 2.0;
    });
    paging.open(FILE, 0).expect("the store is empty");
    let min = paging.watermarks.min;
    let mut index = 0;
    while paging.frames.free() > min {
        assert!(matches!(write(&mut paging, FILE, index, 0), Next::Ready(_)));
        index += 1;
    }
    paging.take_wakes();
    // Nothing else is there: it writes some itself, and asks that the rest be written.
    assert!(matches!(write(&mut paging, FILE, index, 0), Next::Ready(_)), "a frame is left");
    assert!(paging.take_wakes().flush);
    assert_eq!(paging.counters.reclaimed_pages, 0);
    assert!(paging.counters.file_write_backs > 0);
    while paging.flush(&mut Vec::new()).expect("a place").is_some() {
        settle(&mut paging);
    }
    assert_eq!(paging.counters.file_write_backs, index + 1);
    balance(&mut paging);
    assert!(paging.frames.free() >= paging.watermarks.high);
}

#[test]
fn a_page_that_somebody_holds_on_to_stays() {
    let mut paging = small(|_| {});
    paging.open(FILE, 3 * FRAMES * PAGE).expect("the store is empty");
    paging.map(0, 3 * FRAMES * PAGE, 0, FILE, 0);
    let Next::Arrives(id, frame) = fault(&mut paging, 0, false) else { panic!("the store has it") };
    paging.keep(frame);
    finish(&mut paging, id);
    (1..2 * FRAMES).for_each(|page| assert_ne!(touch(&mut paging, page, false), frame));
    assert_eq!(paging.cached(FILE, 0), Some(frame));
    paging.let_go(frame);
    assert!((FRAMES..3 * FRAMES).any(|page| touch(&mut paging, page, false) == frame));
    assert_eq!(paging.cached(FILE, 0), None);
}

#[test]
fn what_does_not_fit_is_told_in_the_units_of_descriptions() {
    let capacity_bytes = 3 << 20;
    let memory = crate::os::paging::OsError::OutOfMemory {
        capacity_bytes,
        swap_bytes: None,
        locked_bytes: 0,
    }
    .to_string();
    assert!(memory.contains("main memory of 3MiB; give"), "{memory}");
    let store = crate::os::paging::OsError::StoreFull { capacity_bytes }.to_string();
    assert!(store.contains("the store's 3MiB; give"), "{store}");
    let journal = crate::os::paging::OsError::JournalFull { capacity_bytes }.to_string();
    assert!(journal.contains("the journal's 3MiB; give"), "{journal}");
}

fn limited(pages: u64) -> Paging {
    small(|spec| spec.memory_limit = Some(Size::from_bytes(pages * PAGE)))
}

#[test]
fn a_control_group_has_no_more_than_its_limit_while_frames_are_free() {
    const LIMIT: u64 = 200;
    let mut paging = limited(LIMIT);
    for page in 0..LIMIT {
        assert!(matches!(fault(&mut paging, page, true), Next::Ready(_)));
        assert_eq!(paging.counters.reclaimed_pages, 0, "page {page}");
    }
    for page in LIMIT..3 * LIMIT {
        touch(&mut paging, page, true);
        settle(&mut paging);
        assert!(paging.reclaim.pages() <= LIMIT);
        assert!(paging.frames.free() >= FRAMES / 2, "nobody else is short of memory");
    }
    // What comes back is charged as what is new.
    let swapped = paging.counters.swap_outs;
    assert!(swapped >= 2 * LIMIT, "{swapped}");
    touch(&mut paging, 0, false);
    settle(&mut paging);
    assert!(paging.reclaim.pages() <= LIMIT);
    assert_eq!(paging.counters.background_reclaimed_pages, 0);
}

#[test]
fn files_that_are_read_are_charged_to_the_control_group() {
    let mut paging = limited(150);
    paging.open(FILE, 600 * PAGE).unwrap();
    read(&mut paging, 0..600);
    assert!(paging.reclaim.pages() <= 150, "{}", paging.reclaim.pages());
    assert!(paging.counters.reclaimed_pages >= 450);
}

#[test]
fn writers_of_a_control_group_wait_by_what_it_may_have() {
    // Of 1024 frames half may be dirty, writers are held back from a quarter on; of 200 the same.
    let throttled = |limit: Option<u64>| {
        let mut paging = small(|spec| {
            spec.memory_limit = limit.map(|pages| Size::from_bytes(pages * PAGE));
        });
        paging.open(FILE, 0).unwrap();
        for page in 0..120 {
            write(&mut paging, FILE, page, 0);
        }
        paging.counters.throttled_writes
    };
    assert_eq!(throttled(None), 0);
    assert!(throttled(Some(200)) > 0);
}

#[test]
fn a_control_group_that_can_give_up_nothing_is_out_of_memory() {
    let mut paging = limited(130);
    for page in 0..130 {
        let Next::Ready(frame) = fault(&mut paging, page, true) else { panic!("memory is free") };
        // As pages are to which something is being moved.
        paging.hold(frame);
    }
    let told = paging.fault(130, true, 0, &mut Vec::new(), &|_| false);
    let capacity_bytes = 130 * PAGE;
    let expected = OsError::LimitReached { capacity_bytes, swap_bytes: None, locked_bytes: 0 };
    assert!(
        expected.to_string().contains("520KiB of its memory control group (storage.memory_limit)")
    );
    assert_eq!(told.err(), Some(expected));
}
