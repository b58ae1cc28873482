//! Huge pages: when a fault makes one, when it is split, how it leaves, and that no page loses what it holds.

use super::super::small::{Memory, done, os, storage, touch};
use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use tierscope_units::Size;
use tierscope_workload::op::MAP_WRITABLE;

const PAGE: u64 = 4096;

/// So many frames, with huge pages; what is said of the store is changed.
fn memory(
    frames: u64,
    enabled: TransparentHugePages,
    change: impl FnOnce(&mut StorageSpec),
) -> Paging {
    let mut spec = storage();
    change(&mut spec);
    let os = OsSpec { transparent_huge_pages: enabled, ..os() };
    Paging::new(&os, 2, frames * PAGE, Some((&spec, 1 << 30)), 1)
}

fn always(frames: u64) -> Paging {
    memory(frames, TransparentHugePages::Always, |_| {})
}

fn map(paging: &mut Paging, pages: Range<u64>) {
    let bytes = (pages.end - pages.start) * PAGE;
    paging.map(pages.start * PAGE, bytes, MAP_WRITABLE, NO_FILE, 0);
}

fn advise(paging: &mut Paging, pages: Range<u64>, advice: Advice) {
    let bytes = (pages.end - pages.start) * PAGE;
    let (at, advice) = (pages.start * PAGE, advice as u64);
    paging.advise(at, bytes, advice, &mut Vec::new(), &|_| false).expect("there is room");
}

/// Faults that made huge pages, those that could not, splits, and those that swap took as a whole.
fn counts(paging: &Paging) -> [u64; 4] {
    let it = &paging.counters;
    [it.huge_page_faults, it.huge_page_fallbacks, it.huge_page_splits, it.huge_page_swap_outs]
}

fn is_huge(paging: &Paging, page: u64) -> bool {
    matches!(paging.entry(page), Pte::Present { frame, .. } if paging.is_huge(frame))
}

#[test]
fn all_pages_are_cleared_and_the_wanted_one_last() {
    for wanted in [0, 1, 7, 255, 256, 257, 500, 511] {
        let order: Vec<u64> = clearing_order(wanted).collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..PAGES).collect::<Vec<_>>());
        assert_eq!(order[511], wanted);
        assert!(order[510].abs_diff(wanted) == 1, "{wanted}: {:?}", &order[508..]);
    }
}

#[test]
fn the_first_touch_makes_a_huge_page_of_all_that_lies_around_it() {
    let mut paging = always(8 * PAGES);
    let mut work = Vec::new();
    let next = paging.fault(1000, true, 0, &mut work, &|_| false);
    let Ok(Next::Ready(frame)) = next else { panic!("{next:?}") };
    let cleared = work.iter().filter(|work| matches!(work, Work::Clear(_)));
    assert_eq!(cleared.count() as u64, PAGES);
    assert_eq!(work.last(), Some(&Work::Clear(frame)));
    done(&mut paging, &work);
    let head = frame - (1000 - PAGES);
    assert!(head.is_multiple_of(PAGES));
    for page in PAGES..2 * PAGES {
        let entry = Pte::Present { frame: head + page - PAGES, writable: true };
        assert_eq!(paging.entry(page), entry);
    }
    let (small, large) = (paging.walk_addresses(1000, false), paging.walk_addresses(1000, true));
    assert_eq!((small.1, large.1), (2, 1));
    assert_eq!(small.0[1], large.0[0], "the entry that was of a table is that of the page");
    assert_eq!((paging.entry(PAGES - 1), paging.entry(2 * PAGES)), (Pte::None, Pte::None));
    assert_eq!(counts(&paging), [1, 0, 0, 0]);
    assert_eq!((paging.counters.minor_faults, paging.reclaim.pages()), (1, PAGES));
    let (mut other, held) = (always(8 * PAGES), |_| false);
    other.huge = None;
    other.fault(1000, true, 0, &mut work, &held).expect("there is room");
    assert_eq!((counts(&other), other.reclaim.pages()), ([0; 4], 1), "without them it is a page");
}

#[test]
fn a_huge_page_needs_a_mapping_around_it_that_wants_it_and_no_table() {
    let mut paging = always(32 * PAGES);
    // Its ends are within huge pages, of which the mapping does not have all.
    map(&mut paging, PAGES / 2..2 * PAGES + 9);
    for (page, expected) in [(PAGES / 2, 0), (2 * PAGES, 0), (PAGES, 1)] {
        touch(&mut paging, page, true);
        assert_eq!(counts(&paging), [expected, 0, 0, 0], "page {page}");
    }
    map(&mut paging, 4 * PAGES..8 * PAGES);
    paging.map(3 * PAGES * PAGE, PAGES * PAGE / 2, MAP_WRITABLE | MAP_HEAP, NO_FILE, 0);
    map(&mut paging, 7 * PAGES / 2..4 * PAGES);
    touch(&mut paging, 3 * PAGES, true);
    assert_eq!(counts(&paging), [1, 0, 0, 0], "half of it is another's");
    advise(&mut paging, 4 * PAGES..5 * PAGES + 1, Advice::NoHuge);
    touch(&mut paging, 4 * PAGES, true);
    touch(&mut paging, 5 * PAGES + 9, true);
    assert_eq!(counts(&paging), [1, 0, 0, 0], "the advice has parted the mapping there");
    touch(&mut paging, 7 * PAGES, true);
    assert_eq!(counts(&paging), [2, 0, 0, 0]);
    advise(&mut paging, 4 * PAGES..8 * PAGES, Advice::Huge);
    touch(&mut paging, 5 * PAGES, true);
    assert_eq!(counts(&paging), [2, 0, 0, 0], "a page of it has an entry in a table");
    touch(&mut paging, 6 * PAGES, true);
    assert_eq!(counts(&paging), [3, 0, 0, 0]);
    paging.open(1, 4 * PAGES * PAGE).expect("the store has room");
    paging.map(16 * PAGES * PAGE, 2 * PAGES * PAGE, MAP_WRITABLE, 1, 0);
    touch(&mut paging, 16 * PAGES, true);
    assert_eq!(counts(&paging), [3, 0, 0, 0], "files have folios of their own");

    let mut paging = memory(32 * PAGES, TransparentHugePages::Madvise, |_| {});
    map(&mut paging, 0..4 * PAGES);
    touch(&mut paging, 0, true);
    advise(&mut paging, 0..4 * PAGES, Advice::Huge);
    touch(&mut paging, PAGES, true);
    touch(&mut paging, 9 * PAGES, true);
    assert_eq!(counts(&paging), [1, 0, 0, 0], "where nobody has asked for it there is none");
}

#[test]
fn where_no_frames_beside_each_other_are_free_pages_it_is() {
    let mut paging = always(4 * PAGES);
    let min = paging.watermarks.min;
    assert_eq!(
        min,
        4 * PAGES / 20,
        "a twentieth of memory, which is less than blocks of each zone"
    );
    for nth in 1..4 {
        touch(&mut paging, nth * PAGES, true);
    }
    assert_eq!(counts(&paging), [3, 0, 0, 0]);
    touch(&mut paging, 0, true);
    assert_eq!(counts(&paging), [3, 1, 0, 0], "too few are free");
    assert_eq!(least_free_pages(1 << 18, PAGE), 2 * 11 * PAGES, "45056 KiB of 1 GiB");
    assert_eq!(least_free_pages(6 << 20, PAGE), 3 * 11 * PAGES, "67584 KiB of 24 GiB");
    let mut fragmented = os();
    fragmented.transparent_huge_pages = TransparentHugePages::Always;
    fragmented.allocation = crate::os::Allocation::Fragmented;
    let mut paging = Paging::new(&fragmented, 2, 8 * PAGES * PAGE, Some((&storage(), 1 << 30)), 1);
    touch(&mut paging, 0, true);
    assert_eq!(counts(&paging), [0, 1, 0, 0], "no frames beside each other");
    let full = |spec: &mut StorageSpec| spec.initial = InitialContent::Prefilled;
    let mut paging = memory(8 * PAGES, TransparentHugePages::Always, full);
    touch(&mut paging, 0, true);
    assert_eq!(counts(&paging), [0, 1, 0, 0], "all hold unrelated pages");
}

#[test]
fn an_unmapped_part_splits_it_and_all_of_it_frees_its_frames_and_its_table() {
    let mut paging = always(8 * PAGES);
    map(&mut paging, 0..4 * PAGES);
    let free = paging.frames.free();
    touch(&mut paging, PAGES, true);
    let tables = 2;
    assert_eq!(paging.frames.free(), free - PAGES - tables);
    paging.take_effects();
    paging.unmap((PAGES + 7) * PAGE, PAGE);
    assert_eq!(counts(&paging), [1, 0, 1, 0]);
    assert!(!is_huge(&paging, PAGES) && paging.entry(PAGES + 8) != Pte::None);
    assert_eq!(paging.entry(PAGES + 7), Pte::None);
    assert_eq!(
        (paging.frames.free(), paging.reclaim.pages()),
        (free + 1 - PAGES - tables, PAGES - 1)
    );
    let told = paging.take_effects();
    assert!(told.contains(&Effect::Shootdown(PAGES)), "the translation of all of it is gone");
    advise(&mut paging, PAGES..2 * PAGES, Advice::DontNeed);
    assert_eq!(paging.frames.free(), free - tables + 1, "its table has gone with all of its pages");
    map(&mut paging, PAGES + 7..PAGES + 8);
    touch(&mut paging, PAGES, true);
    assert!(is_huge(&paging, PAGES), "what is mapped side by side is one");

    touch(&mut paging, 2 * PAGES, true);
    advise(&mut paging, 2 * PAGES..3 * PAGES, Advice::DontNeed);
    touch(&mut paging, 2 * PAGES + 3, true);
    assert!(is_huge(&paging, 2 * PAGES), "its table has gone with it");
    paging.unmap(0, 4 * PAGES * PAGE);
    assert_eq!((paging.frames.free(), paging.reclaim.pages()), (free - 1, 0));
    map(&mut paging, 0..4 * PAGES);
    touch(&mut paging, PAGES, true);
    assert!(is_huge(&paging, PAGES), "what was unmapped has no tables");
}

#[test]
fn before_6_14_a_table_stays_where_its_pages_have_been_dropped() {
    let mut paging = memory(8 * PAGES, TransparentHugePages::Always, |spec| {
        spec.reclaim = ReclaimPolicy::ActiveInactive49;
    });
    map(&mut paging, 0..4 * PAGES);
    for page in [PAGES, 2 * PAGES] {
        touch(&mut paging, page, true);
    }
    paging.unmap((PAGES + 7) * PAGE, PAGE);
    advise(&mut paging, PAGES..3 * PAGES, Advice::DontNeed);
    for page in [PAGES, 2 * PAGES] {
        touch(&mut paging, page, true);
    }
    assert!(!is_huge(&paging, PAGES) && is_huge(&paging, 2 * PAGES), "but for a huge page's own");
}

#[test]
fn a_fork_a_move_and_the_end_of_a_mapping_split_it() {
    let mut paging = always(16 * PAGES);
    map(&mut paging, 0..8 * PAGES);
    for nth in 0..4 {
        touch(&mut paging, nth * PAGES, true);
    }
    advise(&mut paging, PAGES..2 * PAGES + 5, Advice::Random);
    assert_eq!(counts(&paging), [4, 0, 1, 0]);
    assert!(is_huge(&paging, PAGES) && !is_huge(&paging, 2 * PAGES), "as the mapping ends in it");
    let (from, bytes) = (3 * PAGES * PAGE, PAGES * PAGE);
    let (moved, free) = (paging.entry(3 * PAGES + 1), paging.frames.free());
    paging.remap(from, bytes, 20 * PAGES * PAGE, bytes);
    assert_eq!((counts(&paging), paging.entry(20 * PAGES + 1)), ([4, 0, 1, 0], moved));
    assert!(is_huge(&paging, 20 * PAGES) && !is_huge(&paging, 3 * PAGES), "it moves as a whole");
    touch(&mut paging, 20 * PAGES + 1, true);
    assert_eq!((paging.entry(20 * PAGES + 1), paging.frames.free()), (moved, free));
    paging.remap(20 * PAGES * PAGE, bytes, 30 * PAGES * PAGE + PAGE, bytes);
    assert_eq!((counts(&paging), paging.entry(30 * PAGES + 2)), ([4, 0, 2, 0], moved));
    touch(&mut paging, 30 * PAGES + 2, true);
    assert_eq!(
        counts(&paging),
        [4, 0, 2, 0],
        "what has moved there without a table is no new page"
    );
    assert_eq!(paging.entry(30 * PAGES + 2), moved);
    paging.take_effects();
    paging.remap(0, 2 * bytes, 0, 3 * bytes);
    paging.remap(0, 3 * bytes, 0, 2 * bytes);
    assert!(is_huge(&paging, 0) && is_huge(&paging, PAGES), "what stays where it is stays huge");
    assert!((2 * PAGES..3 * PAGES).all(|page| paging.entry(page) == Pte::None));
    paging.fork_process(0, 1, &mut Vec::new(), &|_| false).expect("there is room");
    assert_eq!(counts(&paging), [4, 0, 4, 0]);
    assert!((0..8 * PAGES).all(|page| !is_huge(&paging, page)));
    assert_eq!(paging.entry(5), paging.entry((1 << 36) + 5), "both have the page");
}

/// Memory of a control group with room for three huge pages and a half, of which four have been touched in turn.
fn limited(change: impl FnOnce(&mut StorageSpec)) -> Paging {
    let mut paging = memory(32 * PAGES, TransparentHugePages::Always, |spec| {
        spec.memory_limit = Some(Size::from_bytes(7 * PAGES / 2 * PAGE));
        spec.swap_capacity = Some(Size::from_bytes(4 * PAGES * PAGE));
        spec.reclaim = ReclaimPolicy::Fifo;
        change(spec);
    });
    map(&mut paging, 0..16 * PAGES);
    advise(&mut paging, 0..16 * PAGES, Advice::Huge);
    for nth in 0..4 {
        touch(&mut paging, nth * PAGES, true);
    }
    paging
}

#[test]
fn it_leaves_as_a_whole_to_slots_beside_each_other_and_comes_back_page_by_page() {
    let mut paging = limited(|_| {});
    assert_eq!(counts(&paging), [4, 0, 0, 1], "the first has left for the fourth");
    assert_eq!(paging.counters.swap_outs, PAGES);
    let slot_of = |page| match paging.entry(page) {
        Pte::Swapped(slot) => paging.slot_address(slot),
        entry => panic!("{page}: {entry:?}"),
    };
    let first = slot_of(0);
    assert!((0..PAGES).all(|page| slot_of(page) == first + page * PAGE), "in the pages' order");
    touch(&mut paging, 7, false);
    assert_eq!((paging.counters.swap_ins, counts(&paging)), (1, [4, 0, 0, 1]));
    assert!(!is_huge(&paging, 7));
    assert!(matches!(paging.entry(8), Pte::Swapped(_)));
}

#[test]
fn swap_without_a_cluster_or_of_older_linux_gets_it_page_by_page() {
    let old = limited(|spec| spec.reclaim = ReclaimPolicy::ActiveInactive49);
    assert_eq!((counts(&old), old.counters.swap_outs), ([4, 0, 2, 0], 2 * PAGES));
    // Three clusters less a slot: the third is no whole one.
    let mut paging = limited(|spec| {
        spec.swap_capacity = Some(Size::from_bytes((3 * PAGES - 1) * PAGE));
    });
    touch(&mut paging, 4 * PAGES, true);
    assert_eq!(counts(&paging), [5, 0, 0, 2]);
    // What finds no slot stays as a page, so that there is no room for another huge one.
    touch(&mut paging, 5 * PAGES, true);
    assert_eq!(paging.counters.swap_outs, 3 * PAGES - 1);
    assert_eq!(counts(&paging)[2..], [1, 2]);
    let page_that_stayed = 3 * PAGES - 1;
    assert!(matches!(paging.entry(page_that_stayed), Pte::Present { .. }));
    assert!(!is_huge(&paging, page_that_stayed));
}

#[test]
fn swap_without_a_size_grows_by_a_cluster_unless_half_of_it_is_free() {
    let mut paging = limited(|spec| spec.swap_capacity = None);
    assert_eq!((counts(&paging), paging.slots_handed_out()), ([4, 0, 0, 1], PAGES));
    advise(&mut paging, 0..PAGES / 2, Advice::DontNeed);
    touch(&mut paging, 4 * PAGES, true);
    assert_eq!((counts(&paging), paging.slots_handed_out()), ([5, 0, 0, 2], 2 * PAGES));
    advise(&mut paging, 0..2 * PAGES, Advice::DontNeed);
    touch(&mut paging, 5 * PAGES, true);
    assert_eq!((counts(&paging)[2..].to_vec(), paging.slots_handed_out()), (vec![1, 2], 2 * PAGES));
    touch(&mut paging, 6 * PAGES, true);
    assert_eq!((counts(&paging)[2..].to_vec(), paging.slots_handed_out()), (vec![1, 3], 3 * PAGES));
}

#[test]
fn who_has_not_asked_takes_pages_where_the_group_is_full() {
    let mut paging = limited(|_| {});
    map(&mut paging, 20 * PAGES..24 * PAGES);
    touch(&mut paging, 20 * PAGES, true);
    let faults = counts(&paging)[0];
    touch(&mut paging, 21 * PAGES, true);
    assert_eq!((counts(&paging)[0], counts(&paging)[1]), (faults, 2));
}

#[test]
fn of_a_recorded_program_what_no_call_has_mapped_gets_none() {
    let mut paging = always(8 * PAGES);
    paging.all_is_mapped();
    map(&mut paging, 0..PAGES);
    touch(&mut paging, 2 * PAGES, true);
    assert_eq!(counts(&paging), [0; 4], "its image and its stack");
    touch(&mut paging, 0, true);
    assert_eq!(counts(&paging), [1, 0, 0, 0]);
}

#[test]
fn who_could_never_have_one_does_not_wait_for_it() {
    let mut paging = memory(32 * PAGES, TransparentHugePages::Always, |spec| {
        spec.memory_limit = Some(Size::from_bytes((PAGES - 1) * PAGE));
    });
    map(&mut paging, 0..4 * PAGES);
    advise(&mut paging, 0..4 * PAGES, Advice::Huge);
    for page in 0..2 * PAGES {
        touch(&mut paging, page, true);
    }
    assert_eq!(counts(&paging), [0, 2, 0, 0]);
}

#[test]
fn advice_that_changes_nothing_leaves_it_as_it_is() {
    let mut paging = always(8 * PAGES);
    map(&mut paging, 0..4 * PAGES);
    touch(&mut paging, PAGES, true);
    for advice in [Advice::WillNeed, Advice::Normal] {
        advise(&mut paging, PAGES + 3..PAGES + 9, advice);
    }
    assert!(is_huge(&paging, PAGES));
    advise(&mut paging, PAGES + 3..PAGES + 9, Advice::Sequential);
    assert!(!is_huge(&paging, PAGES));
}

#[test]
fn any_use_of_it_is_one_of_all_and_a_walk_finds_it_by_itself() {
    let mut paging = memory(8 * PAGES, TransparentHugePages::Always, |spec| {
        spec.reclaim = ReclaimPolicy::Generations;
    });
    let frame = touch(&mut paging, 3 * PAGES + 9, true);
    touch(&mut paging, 3, true);
    let walk = |paging: &mut Paging| {
        let (mut young, none) = (Vec::new(), BTreeSet::new());
        paging.walk_tables(Some(&none), true, &mut |walked| young.extend(walked.young));
        young
    };
    let other = touch(&mut paging, 3, false) - 3;
    assert_eq!(walk(&mut paging), [other, frame - 9], "their tables are none that it was told of");
    assert_eq!(walk(&mut paging), [0; 0]);
    paging.touch(other + 400);
    assert_eq!(walk(&mut paging), [other]);
    paging.touch(frame);
    assert_eq!(paging.look_around(frame - 9, 64, &|_| true), None, "it has no neighbours");
}

#[derive(Clone, Debug)]
enum Step {
    Touch { process: u64, page: u64, write: bool },
    Unmap { page: u64, pages: u64 },
    Drop { page: u64, pages: u64 },
    Advise { page: u64, pages: u64, advice: Advice },
    Move { page: u64, pages: u64, to: u64 },
    Fork,
    End,
    Balance,
    EndTransfers,
}

/// Pages that are used.
const USED: u64 = 6 * PAGES;

fn step() -> impl Strategy<Value = Step> {
    // Near the ends of huge pages as often as anywhere.
    let page = || {
        prop_oneof![0..USED, (0..USED / PAGES, 0..3u64).prop_map(|(nth, more)| nth * PAGES + more)]
    };
    let pages = || prop_oneof![1..3u64, 1..2 * PAGES, Just(PAGES)];
    let advice = prop::sample::select(vec![Advice::Huge, Advice::NoHuge, Advice::Random]);
    prop_oneof![
        40 => (0..2u64, page(), any::<bool>())
            .prop_map(|(process, page, write)| Step::Touch { process, page, write }),
        2 => (page(), pages()).prop_map(|(page, pages)| Step::Unmap { page, pages }),
        2 => (page(), pages()).prop_map(|(page, pages)| Step::Drop { page, pages }),
        2 => (page(), pages(), advice)
            .prop_map(|(page, pages, advice)| Step::Advise { page, pages, advice }),
        1 => (page(), pages(), page()).prop_map(|(page, pages, to)| Step::Move { page, pages, to }),
        1 => Just(Step::Fork),
        1 => Just(Step::End),
        4 => Just(Step::Balance),
        3 => Just(Step::EndTransfers),
    ]
}

const CHILD: u64 = 1 << 36;

/// The pages of huge pages hang together, and no frame is lost.
fn check(paging: &Paging) {
    let huge = paging.huge.as_ref().expect("it makes some");
    for first in &huge.all {
        let Pte::Present { frame: head, .. } = paging.entry(*first) else { panic!("{first}") };
        assert!(first.is_multiple_of(PAGES) && head.is_multiple_of(PAGES));
        for nth in 0..PAGES {
            let entry = Pte::Present { frame: head + nth, writable: true };
            assert_eq!(paging.entry(first + nth), entry);
            let info = paging.frames.get(head + nth);
            assert!(info.huge && info.mapped_at == first + nth && info.slot == 0);
        }
    }
    let (mut used, mut listed, mut of_huge) = (0, 0, 0);
    for frame in 0..paging.frames.total() {
        let info = paging.frames.get(frame);
        let is_used = info.owner != Owner::Free || info.transfer != 0;
        used += u64::from(is_used);
        listed += u64::from(is_used && info.owner != Owner::Kernel);
        of_huge += u64::from(info.huge);
    }
    assert_eq!(used + paging.frames.free(), paging.frames.total());
    assert_eq!((paging.reclaim.pages(), of_huge), (listed, huge.all.len() as u64 * PAGES));
}

proptest! {
    #[test]
    fn every_page_of_a_huge_page_keeps_what_was_written_last(
        policy in prop::sample::select(vec![
            ReclaimPolicy::ActiveInactive,
            ReclaimPolicy::ActiveInactive49,
            ReclaimPolicy::Generations,
            ReclaimPolicy::Lru,
            ReclaimPolicy::Clock,
            ReclaimPolicy::Fifo,
        ]),
        swap in any::<bool>(),
        limit in prop::option::of(2 * PAGES..4 * PAGES),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let paging = memory(6 * PAGES, TransparentHugePages::Always, |spec| {
            spec.reclaim = policy;
            spec.swap_cluster_pages = 8;
            spec.swap_readahead = SwapReadahead::VirtualAddress;
            spec.swap_capacity = swap.then_some(Size::from_bytes(40 * PAGES * PAGE));
            spec.memory_limit = limit.map(|pages| Size::from_bytes(pages * PAGE));
        });
        let mut memory = Memory::new(paging, 5 * PAGES, HashMap::new());
        let mut known: HashMap<u64, u64> = HashMap::new();
        map(&mut memory.paging, 0..2 * USED);
        for (now, step) in (1..).zip(&steps) {
            match *step {
                Step::Touch { process, page, write } => {
                    let page = page + process * CHILD;
                    let frame = memory.access(page, write, now);
                    let content = known.get(&page).copied().unwrap_or(0);
                    prop_assert_eq!(memory.frames[&frame], content, "page {}", page);
                    if write {
                        known.insert(page, now);
                        memory.frames.insert(frame, now);
                    }
                }
                Step::Unmap { page, pages } => {
                    memory.paging.unmap(page * PAGE, pages * PAGE);
                    known.retain(|at, _| !(page..page + pages).contains(at));
                    map(&mut memory.paging, page..page + pages);
                }
                Step::Drop { page, pages } => {
                    advise(&mut memory.paging, page..page + pages, Advice::DontNeed);
                    known.retain(|at, _| !(page..page + pages).contains(at));
                }
                Step::Advise { page, pages, advice } => {
                    advise(&mut memory.paging, page..page + pages, advice);
                }
                Step::Move { page, pages, to } => {
                    let to = USED + to;
                    let (from, pages) = (page * PAGE, pages.min(USED - page));
                    memory.paging.remap(from, pages * PAGE, to * PAGE, pages * PAGE);
                    for nth in 0..pages {
                        let content = known.remove(&(page + nth));
                        known.remove(&(to + nth));
                        content.map(|content| known.insert(to + nth, content));
                    }
                    map(&mut memory.paging, page..page + pages);
                }
                Step::Fork => {
                    let mut work = Vec::new();
                    memory.paging.fork_process(0, 1, &mut work, &|_| false).unwrap();
                    memory.work(work);
                    known.retain(|page, _| *page < CHILD);
                    let copies: Vec<_> = known.iter().map(|(page, it)| (page + CHILD, *it)).collect();
                    known.extend(copies);
                }
                Step::End => {
                    memory.paging.end_process(1);
                    known.retain(|page, _| *page < CHILD);
                }
                Step::Balance => {
                    let mut work = Vec::new();
                    memory.paging.balance(&mut work, &|_| false).unwrap();
                    memory.work(work);
                }
                Step::EndTransfers => memory.end_transfers(),
            }
            memory.paging.take_effects();
            check(&memory.paging);
        }
        let all: Vec<(u64, u64)> = known.iter().map(|(page, content)| (*page, *content)).collect();
        for (page, content) in all {
            let frame = memory.access(page, false, 1000);
            prop_assert_eq!(memory.frames[&frame], content, "page {}", page);
        }
        memory.end_transfers();
        [0, 1].into_iter().for_each(|process| memory.paging.end_process(process));
        prop_assert_eq!(memory.paging.frames.free(), memory.free_at_first);
        prop_assert_eq!(memory.paging.reclaim.pages(), 0);
        prop_assert_eq!(memory.paging.free_slots(), memory.paging.slots_handed_out());
    }
}
