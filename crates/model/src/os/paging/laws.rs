//! Page cache, swap and reclaim together against plain lists: every page holds what was last written to
//! it, and no frame is lost, whoever reclaims, writes back and reads ahead.

use super::small::{FRAMES, Memory, small};
use super::*;
use crate::os::buffer_cache::{self, BufferCacheSpec, HeldPages, OnHit};
use crate::os::frames::Cached;
use proptest::prelude::*;
use std::collections::HashMap;
use tierscope_units::Size;
use tierscope_workload::op::MAP_WRITABLE;

const FILE: FileId = 1;
const PAGE: u64 = 4096;
/// Pages of anonymous memory, and those that the file has at first; its mapping begins at [`MAPPED`].
const ANONYMOUS: u64 = 96;
const FILE_PAGES: u64 = 64;
const MOST_FILE_PAGES: u64 = 96;
const MAPPED: u64 = 512;

#[derive(Clone, Debug)]
enum Step {
    Touch { page: u64, write: bool },
    Mapped { page: u64, write: bool },
    Read { page: u64, pages: u64 },
    Write { page: u64, pages: u64 },
    Truncate { pages: u64 },
    Sync,
    Balance,
    Flush { old: bool },
    EndTransfers,
    Lock { page: u64, pages: u64, lock: Lock },
    Unneeded { page: u64, pages: u64 },
    Going { page: u64, pages: u64, advice: Advice },
}

/// Pages of memory that are locked at once at most, of either kind: fewer than there are frames.
const MOST_LOCKED: u64 = 12;

fn step() -> impl Strategy<Value = Step> {
    let page = || 0..MOST_FILE_PAGES;
    prop_oneof![
        12 => (0..ANONYMOUS, any::<bool>()).prop_map(|(page, write)| Step::Touch { page, write }),
        6 => (page(), any::<bool>()).prop_map(|(page, write)| Step::Mapped { page, write }),
        6 => (page(), 1..8u64).prop_map(|(page, pages)| Step::Read { page, pages }),
        4 => (page(), 1..4u64).prop_map(|(page, pages)| Step::Write { page, pages }),
        1 => page().prop_map(|pages| Step::Truncate { pages }),
        1 => Just(Step::Sync),
        4 => Just(Step::Balance),
        2 => any::<bool>().prop_map(|old| Step::Flush { old }),
        3 => Just(Step::EndTransfers),
        1 => (0..MOST_LOCKED, 1..8u64, lock())
            .prop_map(|(page, pages, lock)| Step::Lock { page, pages, lock }),
        2 => (page(), 1..32u64).prop_map(|(page, pages)| Step::Unneeded { page, pages }),
        3 => (0..ANONYMOUS, 1..32u64, going())
            .prop_map(|(page, pages, advice)| Step::Going { page, pages, advice }),
    ]
}

fn going() -> impl Strategy<Value = Advice> {
    prop::sample::select(vec![Advice::Free, Advice::Free, Advice::Cold, Advice::PageOut])
}

fn lock() -> impl Strategy<Value = Lock> {
    prop::sample::select(vec![Lock::No, Lock::No, Lock::All, Lock::OnFault])
}

/// What pages hold, as a program knows it.
#[derive(Default)]
struct Known {
    anonymous: HashMap<u64, u64>,
    /// Pages that were given back and not written since: each holds what it did, or nothing.
    given_back: BTreeSet<u64>,
    file: Vec<u64>,
}

fn new_memory(
    policy: ReclaimPolicy,
    by_address: bool,
    buffers: Option<(OnHit, HeldPages)>,
    tmpfs: bool,
    swap_pages: Option<u64>,
    free: u64,
) -> (Memory, Known) {
    let mut paging = small(|spec| {
        spec.reclaim = policy;
        spec.readahead = Size::from_bytes(8 * PAGE);
        spec.fault_around = Size::from_bytes(4 * PAGE);
        spec.swap_cluster_pages = 4;
        if by_address {
            spec.swap_readahead = SwapReadahead::VirtualAddress;
        }
        (spec.dirty_ratio, spec.dirty_background_ratio) = (0.4, 0.1);
        let capacity = Size::from_bytes(MOST_FILE_PAGES * PAGE);
        spec.swap_capacity = swap_pages.map(|pages| Size::from_bytes(pages * PAGE));
        spec.tmpfs = tmpfs.then_some(TmpfsSpec { capacity });
    });
    if let Some((on_hit, readahead)) = buffers {
        // As much as memory has for files, more or less.
        let spec = BufferCacheSpec { on_hit, readahead, ..buffer_cache::tests::spec() };
        paging.add_buffer_cache(BufferCache::new(&spec, PAGE, 1e9, 1).unwrap());
    }
    paging.open(FILE, FILE_PAGES * PAGE).unwrap();
    paging.map(0, ANONYMOUS * PAGE, MAP_WRITABLE, NO_FILE, 0);
    let flags = MAP_WRITABLE | MAP_SHARED;
    paging.map(MAPPED * PAGE, MOST_FILE_PAGES * PAGE, flags, FILE, 0);
    let file: Vec<u64> = (0..FILE_PAGES).map(|page| 1 << 40 | page).collect();
    let place =
        |page: &u64| paging.place_in_store(FILE, *page).expect("it is there from the start");
    let store = (0..FILE_PAGES).map(|page| (place(&page), file[page as usize])).collect();
    (Memory::new(paging, free, store), Known { file, ..Known::default() })
}

/// A frame has an owner or is free, and is in a list where it may be reclaimed.
fn check(paging: &Paging) {
    let owners = (0..FRAMES).map(|frame| paging.frames.get(frame).owner);
    let (mut used, mut listed, mut locked) = (0, 0, 0);
    for (frame, owner) in owners.enumerate() {
        let info = paging.frames.get(frame as u64);
        used += u64::from(owner != Owner::Free || info.transfer != 0);
        listed += u64::from(owner != Owner::Kernel && (owner != Owner::Free || info.transfer != 0));
        locked += u64::from(info.locked);
    }
    assert_eq!(used + paging.frames.free(), FRAMES);
    assert_eq!(paging.reclaim.pages() + locked, listed);
    assert_eq!(paging.locked_bytes(), locked * PAGE);
    // Locked is what a locked mapping has an entry for, and nothing else but what is on its way and nobody's.
    for page in (0..ANONYMOUS).chain(MAPPED..MAPPED + MOST_FILE_PAGES) {
        let Pte::Present { frame, .. } = paging.entry(page) else { continue };
        assert_eq!(paging.frames.get(frame).locked, paging.is_locked(page), "page {page}");
    }
    let leaving = paging.transfers.iter().map(|(_, transfer)| u64::from(transfer.leaving));
    assert_eq!(paging.leaving, leaving.sum::<u64>());
    // What a file of memory has is in memory, in swap, or in both while it is in the swap cache.
    let of_file = |index| (paging.cached(FILE, index), paging.slot_of(FILE, index));
    for (frame, slot) in (0..MOST_FILE_PAGES).map(of_file).filter(|_| paging.tmpfs.is_some()) {
        let info = frame.map(|frame| paging.frames.get(frame));
        assert!(info.is_none_or(|info| info.slot.checked_sub(1) == slot));
        assert!(info.is_none_or(|info| info.dirty || slot.is_some()));
    }
    for (key, _) in paging.cache.words().iter() {
        let Some((frame, true)) = paging.cache.near(key).frame(key) else { continue };
        assert_eq!(paging.cache.frame(key), Some(frame));
        let Frame { owner, slot, reading, cached, .. } = paging.frames.get(frame);
        let (is_its, Cached { order, marked, .. }) =
            (matches!(owner, Owner::File(file, index) if file_key(file, index) == key), cached);
        assert!(is_its && slot == 0 && !reading && order == 0 && !marked, "frame {frame} is plain");
    }
}

fn replay(memory: &mut Memory, known: &mut Known, step: &Step, now_ps: u64) {
    let size = known.file.len() as u64;
    match *step {
        Step::Touch { page, write } => {
            let frame = memory.access(page, write, now_ps);
            let found = memory.frames[&frame];
            if found == 0 && known.given_back.contains(&page) {
                known.anonymous.remove(&page);
            }
            assert_eq!(found, known.anonymous.get(&page).copied().unwrap_or(0));
            if write {
                known.given_back.remove(&page);
                known.anonymous.insert(page, now_ps);
                memory.frames.insert(frame, now_ps);
            }
        }
        Step::Mapped { page, write } if page < size => {
            let frame = memory.access(MAPPED + page, write, now_ps);
            assert_eq!(memory.frames[&frame], known.file[page as usize], "page {page}");
            if write {
                known.file[page as usize] = now_ps;
                memory.frames.insert(frame, now_ps);
            }
        }
        Step::Read { page, pages } if page < size => {
            let end = (page + pages).min(size);
            for page in page..end {
                let frame = memory
                    .ask(|paging, work| paging.read_page(FILE, page, end - 1, work, &|_| false));
                assert_eq!(memory.frames[&frame], known.file[page as usize], "page {page}");
            }
            memory.paging.end_of_read(FILE, end * PAGE);
        }
        Step::Write { page, pages } => {
            let end = (page + pages).min(MOST_FILE_PAGES);
            for page in page..end {
                let frame = memory
                    .ask(|paging, work| paging.write_page(FILE, page, true, work, &|_| false));
                memory.frames.insert(frame, now_ps);
                memory.paging.copied_to(frame, now_ps).unwrap();
                memory.paging.extend_file(FILE, (page + 1) * PAGE);
                known.file.resize(known.file.len().max(page as usize + 1), 0);
                known.file[page as usize] = now_ps;
            }
        }
        Step::Truncate { pages } => {
            memory.paging.truncate(FILE, pages * PAGE);
            known.file.resize(pages as usize, 0);
        }
        Step::Sync => {
            while let Some(id) =
                memory.paging.sync(FILE, Paging::ALL_PAGES, &mut Vec::new()).unwrap()
            {
                memory.end_transfer(id);
            }
        }
        Step::Balance => {
            let mut work = Vec::new();
            memory.paging.balance(&mut work, &|_| false).unwrap();
            memory.work(work);
        }
        Step::Flush { old } => {
            if old {
                memory.paging.flush_old(now_ps + 40_000_000_000_000);
            }
            memory.paging.flush(&mut Vec::new()).unwrap();
        }
        Step::EndTransfers => memory.end_transfers(),
        Step::Lock { page, pages, lock } => {
            for first in [page, MAPPED + page] {
                memory.paging.lock(first * PAGE, pages * PAGE, lock);
                let mut rest = first..first + pages;
                while lock == Lock::All
                    && let Some((page, write)) =
                        memory.paging.next_to_populate(rest.clone(), Populate::AsMapped)
                {
                    memory.access(page, write, now_ps);
                    rest.start = page + 1;
                }
            }
        }
        Step::Unneeded { page, pages } => {
            let range = (page * PAGE + page % 3, pages * PAGE);
            let advice = Advice::DontNeed as u64;
            let mut work = Vec::new();
            let unneeded =
                memory.paging.advise_file(FILE, range, advice, &mut work, &|_| false).unwrap();
            memory.work(work);
            if let Some(Unneeded { written, dropped }) = unneeded {
                let pages = (FILE, written.start)..(FILE, written.end);
                memory.paging.write_dirty(pages, false, &mut Vec::new()).unwrap();
                memory.paging.drop_unneeded(FILE, dropped);
            }
        }
        Step::Going { page, pages, advice } => {
            let from = if advice == Advice::Free { page } else { page + page % 2 * MAPPED };
            let mut work = Vec::new();
            let (address, length) = (from * PAGE, pages * PAGE);
            let held = |_| false;
            memory.paging.advise(address, length, advice as u64, &mut work, &held).unwrap();
            memory.work(work);
            if advice == Advice::Free {
                known.given_back.extend(page..(page + pages).min(ANONYMOUS));
            }
        }
        Step::Mapped { .. } | Step::Read { .. } => {}
    }
}

proptest! {
    #[test]
    fn every_page_holds_what_was_written_last_and_no_frame_is_lost(
        policy in prop::sample::select(vec![
            ReclaimPolicy::ActiveInactive,
            ReclaimPolicy::ActiveInactive49,
            ReclaimPolicy::ActiveInactive2632,
            ReclaimPolicy::Generations,
            ReclaimPolicy::Generations,
            ReclaimPolicy::Lru,
            ReclaimPolicy::Clock,
            ReclaimPolicy::Fifo,
        ]),
        by_address in any::<bool>(),
        buffers in prop::sample::select(vec![
            None,
            Some((OnHit::Move, HeldPages::Ignore)),
            Some((OnHit::Copy, HeldPages::Ignore)),
            Some((OnHit::Copy, HeldPages::Consult)),
        ]),
        tmpfs in any::<bool>(),
        swap_pages in prop::option::of(ANONYMOUS + MOST_FILE_PAGES..600),
        free in 32u64..128,
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let (mut memory, mut known) = new_memory(policy, by_address, buffers, tmpfs, swap_pages, free);
        for (now, step) in steps.iter().enumerate() {
            replay(&mut memory, &mut known, step, now as u64 + 1);
            memory.paging.take_effects();
            check(&memory.paging);
        }
        // All is read back, and all frames but page tables' are free again in the end.
        for page in 0..ANONYMOUS {
            replay(&mut memory, &mut known, &Step::Touch { page, write: false }, 1000);
        }
        memory.end_transfers();
        memory.paging.truncate(FILE, 0);
        memory.paging.unmap(0, ANONYMOUS * PAGE);
        memory.paging.drop_process(0);
        prop_assert_eq!(memory.paging.frames.free(), memory.free_at_first);
        prop_assert_eq!(memory.paging.reclaim.pages(), 0);
        let slots = memory.paging.slots_handed_out();
        prop_assert_eq!(memory.paging.free_slots(), slots);
        prop_assert!(!tmpfs || memory.paging.counters.file_write_backs == 0);
    }
}
