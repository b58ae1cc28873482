//! What files of memory do that others do not.

use super::*;
use crate::organization::StorageSpec;
use crate::os::paging::small::{FRAMES, done, fault, finish, settle, small, touch, write};
use crate::os::reclaim::active_inactive::ACTIVE_ANONYMOUS;
use tierscope_workload::op::{MAP_WRITABLE, fallocate};

const FILE: FileId = 1;
const PAGE: u64 = 4096;
const CAPACITY_PAGES: u64 = 2 * FRAMES;

/// A memory whose files are in a tmpfs of twice its size.
fn memory(change: impl FnOnce(&mut StorageSpec)) -> Paging {
    small(|spec| {
        spec.tmpfs = Some(TmpfsSpec { capacity: Size::from_bytes(CAPACITY_PAGES * PAGE) });
        change(spec);
    })
}

/// Writes pages until memory has no room for more, so that the first have gone to swap; how many.
fn fill(paging: &mut Paging) -> u64 {
    paging.open(FILE, 0).unwrap();
    let mut page = 0;
    while paging.counters.swap_outs < 64 {
        write_page(paging, page);
        page += 1;
    }
    settle(paging);
    page
}

fn write_page(paging: &mut Paging, page: u64) {
    while !matches!(write(paging, FILE, page, 0), Next::Ready(_)) {
        settle(paging);
    }
    paging.extend_file(FILE, (page + 1) * PAGE);
}

/// Reads a page by a call, the bytes behind it not asked for.
fn read_page(paging: &mut Paging, page: u64) {
    loop {
        let mut work = Vec::new();
        let next = paging.read_page(FILE, page, page, &mut work, &|_| false).unwrap();
        done(paging, &work);
        match next {
            Next::Ready(_) => return,
            Next::Arrives(id, _) | Next::Wait(id) => finish(paging, id),
            Next::Pause(_) => unreachable!("nobody here can pause"),
            Next::WaitForFrame => settle(paging),
        }
    }
}

#[test]
fn files_go_to_swap_under_pressure_and_give_up_their_slots_when_they_are_used() {
    let mut paging = memory(|_| {});
    let pages = fill(&mut paging);
    assert!(pages <= FRAMES, "memory held all before");
    let in_swap: Vec<u64> = (0..pages).filter(|it| paging.cached(FILE, *it).is_none()).collect();
    assert_eq!(in_swap.len() as u64, paging.counters.swap_outs);
    assert_eq!(paging.counters.file_write_backs, 0);
    let slots = paging.free_slots.len();
    read_page(&mut paging, in_swap[0]);
    assert_eq!((paging.counters.swap_ins, paging.counters.major_faults), (1, 1));
    assert_eq!(paging.slot_of(FILE, in_swap[0]), None);
    assert_eq!(paging.free_slots.len(), slots + 1, "memory has the only copy");
}

#[test]
fn what_is_there_from_the_start_is_in_swap_and_comes_by_clusters() {
    let mut paging = memory(|spec| spec.swap_cluster_pages = 8);
    paging.open(FILE, 64 * PAGE).unwrap();
    assert_eq!(paging.slots_handed_out(), 64);
    read_page(&mut paging, 3);
    // Slots are dealt out in order, so that eight pages in a row lie in a cluster.
    let there: Vec<u64> = (0..64).filter(|page| paging.cached(FILE, *page).is_some()).collect();
    assert_eq!(there, (0..8).collect::<Vec<_>>());
    assert_eq!((paging.counters.swap_ins, paging.counters.readahead_pages), (8, 7));
    // One that was read with others keeps its slot until it is used.
    assert!(paging.slot_of(FILE, 4).is_some());
    read_page(&mut paging, 4);
    assert_eq!((paging.slot_of(FILE, 4), paging.counters.swap_ins), (None, 8));
    assert_eq!(paging.counters.readahead_hits, 1);
}

#[test]
fn a_page_that_was_read_in_vain_goes_again_without_being_written() {
    let mut paging = memory(|spec| spec.swap_cluster_pages = 8);
    paging.open(FILE, 8 * PAGE).unwrap();
    read_page(&mut paging, 0);
    let unused = paging.cached(FILE, 5).unwrap();
    paging.map(0, 2 * FRAMES * PAGE, MAP_WRITABLE, NO_FILE, 0);
    let mut page = 0;
    while paging.cached(FILE, 5).is_some() {
        touch(&mut paging, page, true);
        page += 1;
    }
    assert_ne!(paging.frames.get(unused).owner, Owner::File(FILE, 5));
    assert!(paging.slot_of(FILE, 5).is_some());
    assert_eq!(paging.counters.readahead_wasted, 7);
    let anonymous = paging.counters.swap_outs - u64::from(paging.slot_of(FILE, 0).is_some());
    let gone = (0..page).filter(|it| matches!(paging.entry(*it), Pte::Swapped(_))).count() as u64;
    assert_eq!(anonymous, gone);
}

#[test]
fn a_sync_writes_nothing_and_a_direct_call_goes_through_memory() {
    let mut paging = memory(|_| {});
    paging.flush_device_at_syncs();
    paging.open(FILE, 0).unwrap();
    write_page(&mut paging, 0);
    let mut work = Vec::new();
    assert_eq!(paging.sync(FILE, Paging::ALL_PAGES, &mut work).unwrap(), None);
    assert_eq!(paging.sync_metadata(FILE, false, &mut work), None);
    assert!(work.is_empty() && paging.caches_direct_calls());
    let mut others = small(|_| {});
    others.flush_device_at_syncs();
    others.open(FILE, PAGE).unwrap();
    assert!(
        others.sync_metadata(FILE, false, &mut work).is_some() && !others.caches_direct_calls()
    );
}

#[test]
fn it_holds_its_capacity_and_not_a_page_more() {
    let mut paging = memory(|_| {});
    let held = CAPACITY_PAGES - 1;
    paging.open(FILE, held * PAGE).unwrap();
    write_page(&mut paging, held);
    let write =
        |paging: &mut Paging| paging.write_page(FILE, held + 1, true, &mut Vec::new(), &|_| false);
    let full = write(&mut paging).unwrap_err();
    assert_eq!(full, OsError::TmpfsFull { capacity_bytes: CAPACITY_PAGES * PAGE });
    assert_eq!(
        full.to_string(),
        "files need more than the tmpfs's 8MiB; give storage.tmpfs.capacity a larger value or the workload a \
         smaller footprint"
    );
    paging.truncate(FILE, (held - 1) * PAGE);
    assert!(write(&mut paging).is_ok());
    assert!(memory(|_| {}).open(FILE, (CAPACITY_PAGES + 1) * PAGE).is_err());
}

#[test]
fn what_is_mapped_around_a_fault_takes_stores_without_another() {
    let mut paging = memory(|spec| spec.fault_around = Size::from_bytes(16 * PAGE));
    paging.open(FILE, 0).unwrap();
    (0..16).for_each(|page| write_page(&mut paging, page));
    paging.map(0, 16 * PAGE, MAP_WRITABLE | MAP_SHARED, FILE, 0);
    paging.map(512 * PAGE, 16 * PAGE, MAP_WRITABLE, FILE, 0);
    touch(&mut paging, 3, false);
    let faults = paging.counters.minor_faults;
    for page in 0..16 {
        assert!(matches!(paging.entry(page), Pte::Present { writable: true, .. }), "page {page}");
        touch(&mut paging, page, true);
    }
    assert_eq!(paging.counters.minor_faults, faults);
    // A private mapping copies what it stores to.
    touch(&mut paging, 512 + 3, false);
    assert!(matches!(paging.entry(512 + 5), Pte::Present { writable: false, .. }));
    touch(&mut paging, 512 + 5, true);
    assert_eq!(paging.counters.fork_copies, 0);
    assert_ne!(paging.entry(512 + 5), paging.entry(5));
}

#[test]
fn a_hole_is_punched_and_other_changes_of_blocks_are_refused() {
    let mut paging = memory(|_| {});
    paging.open(FILE, 8 * PAGE).unwrap();
    let punch = fallocate::PUNCH_HOLE | fallocate::KEEP_SIZE;
    assert_eq!(paging.fallocate(FILE, punch, 2 * PAGE, 3 * PAGE).unwrap(), 2..5);
    assert_eq!(paging.free_slots.len(), 3);
    for mode in [fallocate::ZERO_RANGE, fallocate::COLLAPSE_RANGE, fallocate::INSERT_RANGE] {
        assert_eq!(paging.fallocate(FILE, mode, PAGE, PAGE).unwrap(), 0..0);
    }
    assert_eq!((paging.file_size(FILE), paging.free_slots.len()), (8 * PAGE, 3));
    assert_eq!(paging.fallocate(FILE, 0, 8 * PAGE, 4 * PAGE).unwrap(), 0..0);
    assert_eq!(paging.file_size(FILE), 12 * PAGE);
}

#[test]
fn advice_that_pages_are_needed_reads_what_is_in_swap() {
    let mut paging = memory(|_| {});
    paging.open(FILE, 8 * PAGE).unwrap();
    paging.map(0, 8 * PAGE, MAP_SHARED, FILE, 0);
    paging
        .advise(2 * PAGE, 3 * PAGE, Advice::WillNeed as u64, &mut Vec::new(), &|_| false)
        .unwrap();
    settle(&mut paging);
    let there: Vec<u64> = (0..8).filter(|page| paging.cached(FILE, *page).is_some()).collect();
    assert_eq!((there, paging.counters.swap_ins), (vec![2, 3, 4], 3));
}

#[test]
fn memory_that_processes_share_goes_to_swap_as_well() {
    let mut paging = small(|_| {});
    paging.map(0, 2 * FRAMES * PAGE, MAP_WRITABLE | MAP_SHARED, NO_FILE, 0);
    let mut page = 0;
    while paging.counters.swap_outs < 32 {
        touch(&mut paging, page, true);
        page += 1;
    }
    settle(&mut paging);
    assert_eq!((paging.counters.file_write_backs, paging.store_end), (0, 0));
    let gone = (0..page).find(|it| paging.entry(*it) == Pte::None).unwrap();
    assert!(matches!(fault(&mut paging, gone, false), Next::Arrives(..)));
    assert_eq!(paging.counters.swap_ins, 1);
}

/// A new page of a file of memory begins active in 2.6.32 (`add_to_page_cache_lru`), and inactive in 4.9 (`shmem_getpage_gfp`).
#[test]
fn new_pages_were_active() {
    let active = |reclaim| {
        let mut paging = memory(|spec| spec.reclaim = reclaim);
        paging.open(FILE, 0).unwrap();
        write_page(&mut paging, 0);
        match &paging.reclaim {
            Reclaim::ActiveInactive(lists) => lists.sizes()[ACTIVE_ANONYMOUS as usize],
            _ => panic!("there are others"),
        }
    };
    assert_eq!(active(ReclaimPolicy::ActiveInactive2632), 1);
    assert_eq!(active(ReclaimPolicy::ActiveInactive49), 0);
    assert_eq!(active(ReclaimPolicy::ActiveInactive), 0);
}
