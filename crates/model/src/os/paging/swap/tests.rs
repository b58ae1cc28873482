//! What is read from swap beside what is needed.

use super::*;
use crate::os::paging::small::{FRAMES, settle, small, touch};
use crate::os::release::Release;
use tierscope_workload::op::MAP_WRITABLE;

const PAGE: u64 = 4096;

#[test]
fn windows_grow_with_their_hits_and_shrink_by_half_at_most() {
    let window = |last, pages, hits| SwapWindow { last, pages, hits };
    for (before, at, pages) in [
        (SwapWindow::NEW, 100, 8),
        (window(100, 0, 0), 200, 1),
        (window(100, 0, 0), 101, 2),
        (window(100, 0, 0), 99, 2),
        (window(100, 0, 1), 500, 4),
        (window(100, 0, 2), 500, 4),
        (window(100, 0, 3), 500, 8),
        (window(100, 0, 7), 500, 8),
        (window(100, 8, 0), 500, 4),
    ] {
        assert_eq!(before.next_pages(at, 8), pages, "{before:?} at {at}");
    }
    assert_eq!(window(0, 0, 9).next_pages(1, 32), 16);
}

/// Anonymous memory of which all but some has left; the pages that one fault brings back.
fn comes_back(readahead: SwapReadahead, page: u64) -> Vec<u64> {
    let mut paging = small(|spec| {
        spec.swap_readahead = readahead;
        spec.swap_cluster_pages = 8;
    });
    paging.map(0, 4 * FRAMES * PAGE, MAP_WRITABLE, NO_FILE, 0);
    // Every second page first, so that neighbours in swap are none in memory.
    for first in [0, 1] {
        for page in (first..2 * FRAMES).step_by(2) {
            touch(&mut paging, page, true);
        }
    }
    settle(&mut paging);
    let there = |paging: &Paging, page: &u64| {
        let Pte::Swapped(slot) = paging.entry(*page) else { return false };
        paging.slot_frames.get(slot) != 0
    };
    assert!(!(0..64).any(|page| there(&paging, &page)), "they went first");
    touch(&mut paging, page, false);
    assert_eq!(paging.counters.swap_ins, 8);
    let found = (0..64).filter(|near| *near != page && there(&paging, near)).collect();
    if readahead == SwapReadahead::FixedCluster {
        return found;
    }
    // One of them is used, which widens the next window.
    let used: u64 = [page + 2, page + 1][usize::from(readahead == SwapReadahead::VirtualAddress)];
    touch(&mut paging, used, false);
    assert_eq!(paging.counters.readahead_hits, 1);
    assert_eq!(paging.swap_window(page).1.hits, 1);
    found
}

#[test]
fn the_slots_around_the_needed_one_are_read_or_the_pages_around_it() {
    let by_slot = comes_back(SwapReadahead::Cluster, 20);
    assert_eq!(by_slot, [16, 18, 22, 24, 26, 28, 30]);
    let by_address = comes_back(SwapReadahead::VirtualAddress, 20);
    assert_eq!(by_address, [17, 18, 19, 21, 22, 23, 24]);
    let fixed = comes_back(SwapReadahead::FixedCluster, 20);
    assert_eq!(fixed, [16, 18, 22, 24, 26, 28, 30]);
}

/// A sweep of memory that has left, in order or backwards, reads windows of full size, one beside the other: what was read
/// ahead and is used says where the reader is, too.
#[test]
fn a_sweep_reads_one_window_beside_the_other() {
    for readahead in [SwapReadahead::Cluster, SwapReadahead::VirtualAddress] {
        for backwards in [false, true] {
            let mut paging = small(|spec| {
                spec.swap_readahead = readahead;
                spec.swap_cluster_pages = 8;
            });
            paging.map(0, 4 * FRAMES * PAGE, MAP_WRITABLE, NO_FILE, 0);
            for page in 0..3 * FRAMES {
                touch(&mut paging, page, true);
            }
            settle(&mut paging);
            let before = paging.counters;
            let pages = FRAMES / 2;
            for page in 0..pages {
                let page = if backwards { pages - 1 - page } else { page };
                touch(&mut paging, page, false);
                settle(&mut paging);
            }
            let faults = paging.counters.major_faults - before.major_faults;
            let read = paging.counters.swap_ins - before.swap_ins;
            assert!(faults <= pages / 6, "{readahead:?}, backwards {backwards}: {faults}");
            assert!(read <= pages + pages / 8, "{readahead:?}, backwards {backwards}: {read}");
        }
    }
}

/// However many pages may be read at once (`SWAP_RA_ORDER_CEILING`).
#[test]
fn windows_by_address_have_32_pages_at_most() {
    let mut paging = small(|spec| {
        spec.swap_readahead = SwapReadahead::VirtualAddress;
        spec.swap_cluster_pages = 64;
    });
    paging.map(0, 4 * FRAMES * PAGE, MAP_WRITABLE, NO_FILE, 0);
    for page in 0..3 * FRAMES {
        touch(&mut paging, page, true);
    }
    settle(&mut paging);
    // What is in memory goes, so that there is room for larger windows.
    paging.unmap(2 * FRAMES * PAGE, FRAMES * PAGE);
    let mut largest = 0;
    for page in 0..512 {
        let before = paging.counters.swap_ins;
        touch(&mut paging, page, false);
        settle(&mut paging);
        largest = largest.max(paging.counters.swap_ins - before);
    }
    assert_eq!(largest, 32);
}

/// Of a range that is needed, what is in swap is read and faults no more of; what a private mapping has of a file is not,
/// nor anything with 2.6.32.
#[test]
fn what_is_needed_of_anonymous_memory_is_read_from_swap() {
    for release in [Release::V2_6_32, Release::V6_18] {
        let mut paging = small(|spec| spec.readahead_release = Some(release));
        let file = 3 * FRAMES;
        paging.open(1, 64 * PAGE).expect("the store has room");
        paging.map(0, 2 * FRAMES * PAGE, MAP_WRITABLE, NO_FILE, 0);
        paging.map(file * PAGE, 64 * PAGE, MAP_WRITABLE, 1, 0);
        (file..file + 8).for_each(|page| _ = touch(&mut paging, page, true));
        (0..2 * FRAMES).for_each(|page| _ = touch(&mut paging, page, true));
        settle(&mut paging);
        let in_swap = |paging: &Paging, page| matches!(paging.entry(page), Pte::Swapped(slot) if paging.slot_frames.get(slot) == 0);
        assert!(
            (0..20).chain(file..file + 8).all(|page| in_swap(&paging, page)),
            "they went first"
        );
        paging.unmap(2 * FRAMES * PAGE - 64 * PAGE, 64 * PAGE);
        let (advice, before) = (Advice::WillNeed as u64, paging.counters);
        for at in [4, file] {
            paging.advise(at * PAGE, 8 * PAGE, advice, &mut Vec::new(), &|_| false).unwrap();
        }
        settle(&mut paging);
        let there: Vec<u64> =
            (0..20).chain(file..file + 8).filter(|page| !in_swap(&paging, *page)).collect();
        let needed: Vec<u64> = if release == Release::V6_18 { (4..12).collect() } else { vec![] };
        assert_eq!(there, needed, "{release:?}");
        assert_eq!(paging.counters.swap_ins - before.swap_ins, needed.len() as u64);
        needed.iter().for_each(|page| _ = touch(&mut paging, *page, false));
        assert_eq!(paging.counters.major_faults, before.major_faults);
        assert_eq!(paging.counters.readahead_hits - before.readahead_hits, needed.len() as u64);
    }
}

/// Until 3.14 nobody asked whether what was read ahead is used, and a free slot ends a cluster.
#[test]
fn fixed_clusters_are_read_whatever_comes_of_them_up_to_a_free_slot() {
    let mut read = Vec::new();
    for readahead in [SwapReadahead::FixedCluster, SwapReadahead::Cluster] {
        let mut paging = small(|spec| {
            spec.swap_readahead = readahead;
            spec.swap_cluster_pages = 8;
        });
        paging.map(0, 4 * FRAMES * PAGE, MAP_WRITABLE, NO_FILE, 0);
        (0..2 * FRAMES).for_each(|page| {
            touch(&mut paging, page, true);
        });
        settle(&mut paging);
        // Far apart, so that nothing that is read ahead is used.
        for page in [0, 64, 128, 192] {
            touch(&mut paging, page, false);
        }
        let before = paging.counters.swap_ins;
        // The third and the sixth of a cluster are given up.
        for page in [258, 261] {
            paging.unmap(page * PAGE, PAGE);
        }
        touch(&mut paging, 259, false);
        read.push((before, paging.counters.swap_ins - before));
    }
    assert_eq!(read[0], (32, 2), "4 clusters of 8; 259 and 260");
    assert!(read[1].0 < 32, "the window shrinks: {read:?}");
}

#[test]
fn what_finds_swap_full_stays_in_memory() {
    let swap_pages = 40;
    let mut paging = small(|spec| spec.swap_capacity = Some(Size::from_bytes(swap_pages * PAGE)));
    paging.map(0, 2 * FRAMES * PAGE, MAP_WRITABLE, NO_FILE, 0);
    let mut page = 0;
    let error = loop {
        match paging.fault(page, true, 0, &mut Vec::new(), &|_| false) {
            Ok(Next::Ready(frame)) => {
                paging.let_go(frame);
                page += 1;
            }
            Ok(_) => settle(&mut paging),
            Err(error) => break error,
        }
    };
    assert_eq!(
        error.to_string(),
        "the workload needs more than the machine's main memory of 4MiB, and swap is full: storage.swap_capacity, 160KiB; \
         give the system more capacity or the workload a smaller footprint"
    );
    assert_eq!((paging.counters.swap_outs, paging.free_slots()), (swap_pages, 0));
    // All of memory holds something, but for the page table.
    assert!(page >= FRAMES + swap_pages - 16, "{page}");
    // Files have none of swap's part of the store.
    assert_eq!(paging.grow_store((1 << 30) / PAGE - swap_pages), Ok(0));
    let (capacity_bytes, left_bytes) = (1 << 30, (1 << 30) - swap_pages * PAGE);
    assert_eq!(paging.grow_store(1), Err(OsError::SwapReached { left_bytes, capacity_bytes }));
}

/// Anonymous memory twice as large as main memory, one page of which has come back from swap by a load; its slot.
fn one_is_back(change: impl FnOnce(&mut StorageSpec)) -> (Paging, u64) {
    let mut paging = small(|spec| {
        spec.swap_cluster_pages = 1;
        change(spec);
    });
    paging.map(0, 4 * FRAMES * PAGE, MAP_WRITABLE, NO_FILE, 0);
    (0..2 * FRAMES).for_each(|page| _ = touch(&mut paging, page, true));
    settle(&mut paging);
    let Pte::Swapped(slot) = paging.entry(20) else { panic!("it went first") };
    touch(&mut paging, 20, false);
    (paging, slot)
}

/// The slot of page 20, which is in memory.
fn slot_of_the_one(paging: &Paging) -> Option<u64> {
    let Pte::Present { frame, .. } = paging.entry(20) else { panic!("it is there") };
    paging.frames.get(frame).slot.checked_sub(1)
}

#[test]
fn a_store_to_what_a_load_brought_from_swap_is_no_fault_since_6_11_and_its_slot_stays() {
    for (policy, since) in [
        (ReclaimPolicy::ActiveInactive, true),
        (ReclaimPolicy::Generations, true),
        (ReclaimPolicy::ActiveInactive49, false),
        (ReclaimPolicy::ActiveInactive2632, false),
    ] {
        let (mut paging, slot) = one_is_back(|spec| spec.reclaim = policy);
        assert_eq!(slot_of_the_one(&paging), Some(slot), "{policy:?}");
        let faults = paging.counters.minor_faults;
        assert_eq!(paging.sets_dirty_bit(20), since, "{policy:?}");
        let frame = touch(&mut paging, 20, true);
        assert_eq!(paging.counters.minor_faults, faults, "its store is no fault that counts");
        assert_eq!(slot_of_the_one(&paging), Some(slot).filter(|_| since), "{policy:?}");
        assert!(paging.frames.get(frame).dirty, "what swap has is old");
        // It goes again, and is written: where it has its slot still, to that.
        let writes = paging.counters.swap_outs;
        for page in 0..2 * FRAMES {
            touch(&mut paging, 2 * FRAMES + page, true);
        }
        settle(&mut paging);
        let Pte::Swapped(again) = paging.entry(20) else { panic!("it went again") };
        assert!(!since || again == slot, "{policy:?}: {again} and {slot}");
        assert!(paging.counters.swap_outs > writes);
    }
}

#[test]
fn who_has_a_copy_in_memory_gives_its_slot_up_where_more_than_half_of_swap_is_in_use() {
    // What has left, and what fills swap to a half and no further.
    for (slots, gives) in [(8 * FRAMES, false), (3 * FRAMES / 2, true)] {
        let capacity = Some(Size::from_bytes(slots * PAGE));
        for policy in [ReclaimPolicy::ActiveInactive, ReclaimPolicy::ActiveInactive49] {
            let (mut paging, slot) = one_is_back(|spec| {
                (spec.swap_capacity, spec.reclaim) = (capacity, policy);
            });
            assert_eq!(slot_of_the_one(&paging), Some(slot).filter(|_| !gives), "{slots} slots");
            let Pte::Present { frame, writable } = paging.entry(20) else { panic!("it is there") };
            assert_eq!(paging.frames.get(frame).dirty, gives, "memory alone has it then");
            let is_new = policy == ReclaimPolicy::ActiveInactive;
            assert_eq!(writable, gives && is_new, "a store to it is a fault before 6.11");
            touch(&mut paging, 20, true);
            assert_eq!(slot_of_the_one(&paging).is_some(), !gives && is_new);
        }
    }
}
