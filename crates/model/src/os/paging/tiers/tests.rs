//! Laws of two nodes of memory, against what the kernel's words say.

use super::super::small::{self, Memory, touch};
use super::*;
use crate::os::Allocation;
use crate::os::tiering::tests::spec;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use tierscope_units::Size;

const MS: u64 = 1_000_000_000;
const NEAR_FRAMES: u64 = 64;
const FAR_FRAMES: u64 = 192;

/// Two nodes, whose pages move as `spec` says.
fn nodes(spec: Option<&BalancingSpec>) -> Paging {
    let mut paging = Paging::new(&small::os(), 1, (NEAR_FRAMES + FAR_FRAMES) * 4096, None, 1);
    paging.add_nodes(spec, NEAR_FRAMES * 4096, Allocation::Contiguous, 1);
    paging.reserve_for_kernel(1).unwrap();
    paging
}

fn memory(spec: &BalancingSpec) -> Memory {
    let paging = nodes(Some(spec));
    let free = paging.frames.free();
    Memory {
        paging,
        frames: HashMap::new(),
        store: HashMap::new(),
        flash: HashMap::new(),
        free_at_first: free,
    }
}

/// The kernel's thread goes on until it has pages to move, or gives up.
fn demote(memory: &mut Memory) -> Option<TransferId> {
    loop {
        let mut work = Vec::new();
        let Demoted { goes_on, transfer } = memory.paging.demote(&mut work, &|_| false, &|_| false);
        memory.work(work);
        if transfer.is_some() || !goes_on {
            return transfer;
        }
    }
}

/// The same, woken as often as it takes: at first all pages have been used.
fn demote_some(memory: &mut Memory) -> TransferId {
    (0..4).find_map(|_| demote(memory)).expect("DRAM is full")
}

/// Room is made until the kernel's thread is content, or finds nothing more.
fn demote_all(memory: &mut Memory) {
    while let Some(id) = (0..4).find_map(|_| demote(memory)) {
        memory.end_transfer(id);
    }
}

fn scan(memory: &mut Memory, now_ps: u64) -> Scanned {
    let mut work = Vec::new();
    let scanned = memory.paging.scan(now_ps, &mut work);
    memory.work(work);
    scanned
}

fn node_of_page(memory: &Memory, page: u64) -> Option<usize> {
    match memory.paging.entry(page) {
        Pte::Present { frame, .. } => Some(memory.paging.frames.node_of(frame)),
        _ => None,
    }
}

#[test]
fn memory_fills_dram_first_down_to_its_watermark_and_then_the_slower_memory() {
    let mut memory = memory(&spec());
    let pages = (NEAR_FRAMES + FAR_FRAMES) * 3 / 4;
    (0..pages).for_each(|page| {
        memory.access(page, true, 0);
    });
    let nodes: Vec<_> = (0..pages).filter_map(|page| node_of_page(&memory, page)).collect();
    assert!(nodes.is_sorted(), "none comes back to DRAM: {nodes:?}");
    let low = memory.paging.tiers.as_ref().unwrap().marks[NEAR].low;
    assert!(low > 0);
    assert_eq!(memory.paging.frames.free_on(NEAR), low);
    assert!(!memory.paging.take_wakes().reclaim, "there is room in the slower memory");
}

#[test]
fn without_balancing_pages_stay_where_they_came_first_and_all_frames_serve() {
    let mut paging = nodes(None);
    // One page of page tables serves 512 pages.
    for page in 0..NEAR_FRAMES + FAR_FRAMES - 2 {
        touch(&mut paging, page, true);
    }
    assert_eq!(paging.frames.free(), 0);
    assert!(!paging.moves_between_nodes());
    assert_eq!(paging.scan(0, &mut Vec::new()).next_ps, u64::MAX);
    let full = paging.fault(1000, true, 0, &mut Vec::new(), &|_| false);
    assert!(matches!(full, Err(OsError::OutOfMemory { .. })));
}

#[test]
fn a_scan_takes_entries_of_the_slower_memory_alone_and_all_have_their_turn() {
    let mut memory = memory(&BalancingSpec { free_enough: Size::from_bytes(0), ..spec() });
    (0..160).for_each(|page| {
        memory.access(page, true, 0);
    });
    let far = (0..160).filter(|page| node_of_page(&memory, *page) == Some(FAR)).count() as u64;
    // 16 pages at a time, of which those in DRAM come first: none of these is taken away.
    let first = scan(&mut memory, MS);
    assert!(first.shot_down, "it looks on where it finds none");
    // 161 frames with the kernel's and one of page tables, 16 at a time, in one millisecond; at 1 GB/s 65.5 us.
    let windows = (160u64 + 2).div_ceil(16);
    assert_eq!(first.next_ps - MS, MS / windows);
    for turn in 2..40 {
        scan(&mut memory, turn * MS);
    }
    assert_eq!(memory.paging.counters.protected_pages, far);
    let protected = |page: &u64| match memory.paging.entry(*page) {
        Pte::Present { frame, .. } => memory.paging.is_protected(frame),
        _ => false,
    };
    let taken: Vec<u64> = (0..160).filter(protected).collect();
    assert!(taken.iter().all(|page| node_of_page(&memory, *page) == Some(FAR)));
    assert_eq!(taken.len() as u64, far);
}

#[test]
fn a_page_that_is_accessed_soon_after_its_scan_moves_to_dram_once_there_is_room() {
    let mut memory = memory(&spec());
    (0..120).for_each(|page| {
        let frame = memory.access(page, true, 0);
        memory.frames.insert(frame, 1000 + page);
    });
    (1..20).for_each(|turn| {
        scan(&mut memory, turn * MS);
    });
    // Too late: it stays, and its entry is back.
    memory.access(119, false, 30 * MS);
    assert_eq!(node_of_page(&memory, 119), Some(FAR));
    (31..50).for_each(|turn| {
        scan(&mut memory, turn * MS);
    });
    let taken_ps =
        memory.paging.tiers.as_ref().unwrap().protected_ps.get(match memory.paging.entry(119) {
            Pte::Present { frame, .. } => frame,
            _ => panic!("it is there"),
        });
    // Soon, but there is no room: the kernel's thread is woken, and the page stays.
    memory.access(119, false, taken_ps + MS / 2);
    assert_eq!(node_of_page(&memory, 119), Some(FAR));
    assert!(memory.paging.take_wakes().reclaim);
    demote_all(&mut memory);
    let marks = memory.paging.tiers.as_ref().unwrap().marks[NEAR];
    assert!(memory.paging.frames.free_on(NEAR) > marks.promotion);
    (50..70).for_each(|turn| {
        scan(&mut memory, turn * MS);
    });
    let frame = match memory.paging.entry(119) {
        Pte::Present { frame, .. } => frame,
        _ => panic!("it is there"),
    };
    let taken_ps = memory.paging.tiers.as_ref().unwrap().protected_ps.get(frame);
    let frame = memory.access(119, false, taken_ps + MS / 2);
    assert_eq!(node_of_page(&memory, 119), Some(NEAR));
    assert_eq!(memory.frames[&frame], 1119, "with what it held");
    assert_eq!(memory.paging.counters.promoted_pages, 1);
}

#[test]
fn where_much_of_dram_is_free_a_page_moves_there_however_late_it_is_accessed() {
    for (free_enough, moves) in [(0, true), (1 << 30, false)] {
        let free_enough = Size::from_bytes(free_enough);
        let mut memory = memory(&BalancingSpec { free_enough, ..spec() });
        (0..120).for_each(|page| {
            memory.access(page, true, 0);
        });
        memory.paging.unmap(0, 40 * 4096);
        (1..20).for_each(|turn| {
            scan(&mut memory, turn * MS);
        });
        memory.access(119, false, 100 * MS);
        assert_eq!(node_of_page(&memory, 119) == Some(NEAR), moves, "{free_enough}");
    }
}

#[test]
fn what_has_been_used_of_late_stays_in_dram_and_the_rest_leaves_it() {
    let mut memory = memory(&spec());
    (0..100).for_each(|page| {
        memory.access(page, true, 0);
    });
    let near: Vec<u64> =
        (0..100).filter(|page| node_of_page(&memory, *page) == Some(NEAR)).collect();
    let used = &near[..8];
    // The first look takes all references; later ones find those of the pages that are used.
    for _ in 0..6 {
        for page in used {
            memory.access(*page, false, MS);
        }
        if let Some(id) = demote(&mut memory) {
            memory.end_transfer(id);
        }
    }
    assert!(memory.paging.counters.demoted_pages > 0);
    assert!(used.iter().all(|page| node_of_page(&memory, *page) == Some(NEAR)));
}

#[test]
fn whoever_wants_a_page_on_its_way_waits_until_it_has_come() {
    let mut memory = memory(&spec());
    (0..100).for_each(|page| {
        memory.access(page, true, 0);
    });
    let id = demote_some(&mut memory);
    let moved = memory.paging.transfer(id).pages.clone();
    let frame = memory.paging.far_frame(&moved[0]);
    let page = memory.paging.frames.get(frame).mapped_at;
    let next = memory.paging.fault(page, true, MS, &mut Vec::new(), &|_| false);
    assert_eq!(next, Ok(Next::Wait(id)));
    // What it leaves is given to nobody meanwhile.
    let free = memory.paging.frames.free_on(NEAR);
    memory.end_transfer(id);
    assert_eq!(memory.paging.frames.free_on(NEAR), free + moved.len() as u64);
    assert_eq!(memory.access(page, true, MS), frame);
}

#[test]
fn a_page_that_is_unmapped_on_its_way_leaves_both_frames_free() {
    let mut memory = memory(&spec());
    (0..100).for_each(|page| {
        memory.access(page, true, 0);
    });
    let id = demote_some(&mut memory);
    memory.paging.unmap(0, 100 * 4096);
    memory.end_transfer(id);
    // The kernel keeps its page of page tables.
    assert_eq!(memory.paging.frames.free(), memory.free_at_first - 1);
}

#[test]
fn pages_that_processes_share_and_those_of_files_stay() {
    let mut memory = memory(&BalancingSpec { free_enough: Size::from_bytes(0), ..spec() });
    (0..100).for_each(|page| {
        memory.access(page, true, 0);
    });
    memory.paging.fork_process(0, 1, &mut Vec::new(), &|_| false).unwrap();
    (1..20).for_each(|turn| {
        scan(&mut memory, turn * MS);
    });
    assert_eq!(memory.paging.counters.protected_pages, 0);
    demote_all(&mut memory);
    assert_eq!(memory.paging.counters.demoted_pages, 0);
}

/// A step of a script.
#[derive(Clone, Copy, Debug)]
enum Move {
    Access(u64, bool),
    Scan,
    Demote,
    EndTransfers,
    Unmap(u64),
    Fork,
    ExitChild,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        12 => (0..150u64, any::<bool>()).prop_map(|(page, write)| Move::Access(page, write)),
        3 => Just(Move::Scan),
        2 => Just(Move::Demote),
        1 => Just(Move::EndTransfers),
        1 => (0..150u64).prop_map(Move::Unmap),
        1 => Just(Move::Fork),
        1 => Just(Move::ExitChild),
    ];
    proptest::collection::vec(one, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// A plain map says what each page holds, however pages have moved.
    #[test]
    fn every_page_holds_what_was_written_last_wherever_it_is_and_no_frame_is_lost(
        script in moves(), room in any::<bool>(),
    ) {
        let free_enough = Size::from_bytes(if room { 0 } else { 1 << 30 });
        let mut memory = memory(&BalancingSpec { free_enough, ..spec() });
        let mut plain: BTreeMap<u64, u64> = BTreeMap::new();
        let (mut now_ps, mut content) = (0, 1);
        (0..100).for_each(|page| {
            let frame = memory.access(page, true, 0);
            memory.frames.insert(frame, 1_000_000 + page);
            plain.insert(page, 1_000_000 + page);
        });
        for step in script {
            now_ps += MS / 10;
            match step {
                Move::Access(page, write) => {
                    let frame = memory.access(page, write, now_ps);
                    if write {
                        content += 1;
                        memory.frames.insert(frame, content);
                        plain.insert(page, content);
                    }
                    let expected = plain.get(&page).copied().unwrap_or(0);
                    prop_assert_eq!(memory.frames.get(&frame).copied().unwrap_or(0), expected);
                }
                Move::Scan => {
                    scan(&mut memory, now_ps);
                }
                Move::Demote => {
                    demote(&mut memory);
                }
                Move::EndTransfers => memory.end_transfers(),
                Move::Unmap(page) => {
                    memory.paging.unmap(page * 4096, 4096);
                    plain.remove(&page);
                }
                Move::Fork => {
                    memory.paging.fork_process(0, 1, &mut Vec::new(), &|_| false).unwrap();
                }
                Move::ExitChild => memory.paging.end_process(1),
            }
        }
        memory.end_transfers();
        memory.paging.end_process(1);
        let kept = plain.len() as u64;
        memory.paging.unmap(0, 150 * 4096);
        // One page of page tables stays.
        prop_assert_eq!(memory.paging.frames.free(), memory.free_at_first - 1, "of {}", kept);
        prop_assert_eq!(memory.paging.tiers.as_ref().unwrap().leaving, 0);
        prop_assert_eq!(memory.paging.reclaim.pages(), 0);
    }
}
