//! The policies alone, over memories of a few pages.

use super::active_inactive::{ACTIVE_ANONYMOUS, ACTIVE_FILE, INACTIVE_ANONYMOUS, INACTIVE_FILE};
use super::lists::ListId;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const FRAMES: u64 = 4096;
const PAGE_BYTES: u64 = 4096;

/// A memory from which all goes that reclaim wants, but what was noted as being under way.
#[derive(Default)]
struct Pages {
    young: BTreeMap<u64, u64>,
    held: Vec<u64>,
    in_use: Vec<u64>,
    busy: Vec<u64>,
    /// Dirty pages of files, those of them that reclaim has written, and all that were to be evicted.
    dirty: Vec<u64>,
    written: Vec<u64>,
    tried: Vec<u64>,
    gone: Vec<(u64, Shadow)>,
    free: u64,
}

impl Memory for Pages {
    fn take_references(&mut self, folio: u64) -> u64 {
        self.young.remove(&folio).unwrap_or(0)
    }

    fn is_in_use(&self, folio: u64) -> bool {
        self.in_use.contains(&folio)
    }

    fn is_dirty_file(&self, folio: u64) -> bool {
        self.dirty.contains(&folio)
    }

    fn held(&self, folio: u64) -> bool {
        self.held.contains(&folio)
    }

    fn evict(&mut self, folio: u64, shadow: Shadow, writes: bool) -> Evicted {
        if self.busy.contains(&folio) {
            return Evicted::Busy;
        }
        self.tried.push(folio);
        if self.dirty.contains(&folio) {
            if !writes {
                return Evicted::Dirty;
            }
            self.dirty.retain(|dirty| *dirty != folio);
            self.written.push(folio);
            self.free += 1;
            return Evicted::Writing;
        }
        self.gone.push((folio, shadow));
        self.free += 1;
        Evicted::Freed
    }

    fn free_pages(&self) -> u64 {
        self.free
    }
}

fn gone(memory: &Pages) -> Vec<u64> {
    memory.gone.iter().map(|(folio, _)| *folio).collect()
}

fn linux(swappiness: u64) -> ActiveInactive {
    ActiveInactive::new(Release::V6_18, swappiness, true, FRAMES, PAGE_BYTES)
}

fn in_list(lists: &ActiveInactive, list: ListId) -> Vec<u64> {
    lists.tail_first(list).collect()
}

fn add(lists: &mut ActiveInactive, kind: Kind, folios: std::ops::Range<u64>) {
    folios.for_each(|folio| lists.add(folio, 0, kind, Shadow::default()));
}

#[test]
fn what_is_read_twice_is_active_and_what_was_read_once_goes_first() {
    let mut lists = linux(60);
    add(&mut lists, Kind::File, 0..100);
    for _ in 0..2 {
        (0..10).for_each(|folio| lists.mark_accessed(folio));
    }
    assert_eq!(in_list(&lists, ACTIVE_FILE), (0..10).collect::<Vec<_>>());
    let mut memory = Pages::default();
    let reclaimed = lists.shrink(Reclaimer::Group, 32, &mut memory);
    assert!((32..64).contains(&reclaimed), "passes go on to their ends");
    assert_eq!(gone(&memory), (10..10 + reclaimed).collect::<Vec<_>>());
}

#[test]
fn a_mapped_page_gets_a_second_chance_and_is_active_once_it_has_used_it() {
    let mut lists = linux(60);
    add(&mut lists, Kind::File, 0..400);
    let mut memory = Pages { young: BTreeMap::from([(0, 1), (1, 1), (2, 2)]), ..Pages::default() };
    lists.shrink(Reclaimer::Group, 1, &mut memory);
    let inactive = in_list(&lists, INACTIVE_FILE);
    assert_eq!(inactive[inactive.len() - 2..], [0, 1]);
    assert_eq!(in_list(&lists, ACTIVE_FILE), [2], "two entries of the page table have used it");
    // Of the two, one is used again before its turn comes.
    memory.young.insert(1, 1);
    add(&mut lists, Kind::File, 400..800);
    while lists.lists_mut().list_of(0).is_some() {
        lists.shrink(Reclaimer::Group, 1, &mut memory);
    }
    lists.shrink(Reclaimer::Group, 1, &mut memory);
    assert!(!gone(&memory).contains(&1));
    assert!(in_list(&lists, ACTIVE_FILE).contains(&1));
}

/// A refault is activated as long as what was evicted since is no more than what is active.
#[test]
fn a_refault_is_activated_up_to_the_size_of_the_working_set() {
    for (others, active) in [(10, true), (11, false)] {
        let mut lists = linux(60);
        add(&mut lists, Kind::File, 0..200);
        for _ in 0..2 {
            (100..110).for_each(|folio| lists.mark_accessed(folio));
        }
        let mut memory = Pages::default();
        lists.shrink(Reclaimer::Group, 32, &mut memory);
        assert_eq!(lists.sizes()[ACTIVE_FILE as usize], 10);
        // The last of those that went is away for its own eviction, and for the others.
        let (_, shadow) = memory.gone[memory.gone.len() - others];
        lists.add(1000, 0, Kind::File, shadow);
        assert_eq!(lists.counters.refaults, 1);
        assert_eq!(lists.counters.refaults_activated, u64::from(active), "{others}");
    }
}

#[test]
fn swappiness_says_which_kind_goes() {
    let share = |swappiness| {
        let mut lists = linux(swappiness);
        add(&mut lists, Kind::Anonymous, 0..1000);
        add(&mut lists, Kind::File, 1000..2000);
        // Active pages of files are more than inactive ones, so that files are not plenty.
        for _ in 0..2 {
            (1000..1600).for_each(|folio| lists.mark_accessed(folio));
        }
        let mut memory = Pages::default();
        lists.shrink(Reclaimer::Group, 200, &mut memory);
        gone(&memory).iter().filter(|folio| **folio < 1000).count() as f64
            / memory.gone.len() as f64
    };
    assert_eq!(share(0), 0.0);
    let shares = [20, 60, 100, 200].map(share);
    assert!(shares.is_sorted(), "{shares:?}");
    assert_eq!(shares[3], 1.0);
}

fn of(release: Release) -> ActiveInactive {
    ActiveInactive::new(release, 60, true, FRAMES, PAGE_BYTES)
}

const RELEASES: [Release; 3] = [Release::V2_6_32, Release::V4_9, Release::V6_18];

/// mm/rmap.c of 2.6.32 (`page_add_new_anon_rmap`), mm/memory.c of 4.9 and 6.18 (`do_anonymous_page`, `do_swap_page`).
#[test]
fn new_anonymous_memory_was_active_and_so_was_what_came_from_swap() {
    let found = RELEASES.map(|release| {
        let mut lists = of(release);
        add(&mut lists, Kind::Anonymous, 0..2);
        lists.is_new(0);
        lists.comes_from_swap(1);
        in_list(&lists, ACTIVE_ANONYMOUS)
    });
    assert_eq!(found, [vec![0], vec![0, 1], vec![]]);
}

/// A page was away while 10 left: as many as there are active files, and as many as there are active
/// pages in all. It is one of them itself, but not with 4.9 (`workingset_eviction`).
#[test]
fn refaults_were_known_of_files_alone_and_before_of_none() {
    let activated = |release, kind, active_files: u64, others: u64| {
        let mut lists = of(release);
        add(&mut lists, kind, 0..300);
        add(&mut lists, Kind::File, 1000..1000 + active_files);
        for _ in 0..2 {
            (1000..1000 + active_files).for_each(|folio| lists.mark_accessed(folio));
        }
        let mut memory = Pages::default();
        while memory.gone.len() < others as usize {
            lists.shrink(Reclaimer::Group, 32, &mut memory);
        }
        let (_, shadow) = memory.gone[memory.gone.len() - others as usize];
        lists.add(5000 % FRAMES, 0, kind, shadow);
        assert_eq!(lists.counters.refaults, 1);
        lists.counters.refaults_activated == 1
    };
    for kind in [Kind::File, Kind::Anonymous] {
        let found = RELEASES.map(|release| activated(release, kind, 10, 10));
        assert_eq!(found, [false, kind == Kind::File, true], "{kind:?}");
    }
    let farthest = |release| (1..30).find(|away| !activated(release, Kind::File, 10, *away));
    assert_eq!(farthest(Release::V4_9), Some(12));
}

/// One use by a page table is enough in 2.6.32, of anonymous memory in 4.9, and of nothing in 6.18; one by a
/// call is as good as one of a page table in 2.6.32, where the page's file is mapped, and keeps a page of tmpfs
/// else, which is dirty.
#[test]
fn what_was_used_once_became_active() {
    let kept = |release, kind, called: bool, in_use: bool| {
        let mut lists = of(release);
        add(&mut lists, kind, 0..96);
        let mut memory = Pages::default();
        if called {
            lists.mark_accessed(0);
        } else {
            memory.young.insert(0, 1);
        }
        if in_use {
            memory.in_use.push(0);
        }
        lists.shrink(Reclaimer::Group, 1, &mut memory);
        let list = match kind {
            Kind::Anonymous => ACTIVE_ANONYMOUS,
            Kind::File => ACTIVE_FILE,
        };
        (in_list(&lists, list) == [0], gone(&memory).contains(&0))
    };
    let by = |kind, called, in_use| RELEASES.map(|release| kept(release, kind, called, in_use));
    let (active, stays, goes) = ((true, false), (false, false), (false, true));
    assert_eq!(by(Kind::File, false, true), [active, stays, stays]);
    assert_eq!(by(Kind::Anonymous, false, true), [active, active, stays]);
    assert_eq!(by(Kind::File, true, false), [goes, goes, goes]);
    assert_eq!(by(Kind::File, true, true), [active, goes, goes]);
    assert_eq!(by(Kind::Anonymous, true, false), [stays, goes, goes]);
}

/// A page of a file of memory begins where anonymous memory did, in 2.6.32 (`add_to_page_cache_lru`), but not in 4.9.
#[test]
fn new_pages_of_tmpfs_were_active() {
    let is_active = |release| {
        let mut lists = of(release);
        add(&mut lists, Kind::Anonymous, 0..1);
        lists.is_new_of_memory(0);
        in_list(&lists, ACTIVE_ANONYMOUS) == [0]
    };
    assert_eq!(RELEASES.map(is_active), [true, false, false]);
}

/// `folios` of files, all of them active.
fn activate(lists: &mut ActiveInactive, folios: std::ops::Range<u64>) {
    add(lists, Kind::File, folios.clone());
    for _ in 0..2 {
        folios.clone().for_each(|folio| lists.mark_accessed(folio));
    }
}

/// `shrink_list` of 2.6.32: where active pages are not more than inactive ones, inactive pages go in their turn, too.
#[test]
fn inactive_pages_went_in_the_turn_of_an_active_list() {
    let mut lists = ActiveInactive::new(Release::V2_6_32, 60, false, FRAMES, PAGE_BYTES);
    activate(&mut lists, 0..100);
    add(&mut lists, Kind::File, 100..233);
    let mut memory = Pages::default();
    // In the third pass from the end 64 inactive pages have been saved up, and 47 active ones.
    lists.shrink(Reclaimer::Background { high_pages: 60 }, 0, &mut memory);
    assert_eq!(gone(&memory), (100..196).collect::<Vec<_>>(), "two batches, and one between");
    assert_eq!(lists.counters.deactivations, 15, "there were too few inactive ones after that");
}

/// `shrink_inactive_list` of 2.6.32 takes whole batches: of 57 pages that are to be looked at 64.
#[test]
fn inactive_lists_were_looked_at_in_whole_batches() {
    let mut lists = of(Release::V2_6_32);
    add(&mut lists, Kind::File, 0..1000);
    let mut memory = Pages::default();
    lists.shrink(Reclaimer::Background { high_pages: 50 }, 0, &mut memory);
    assert_eq!(memory.gone.len(), 64);
}

/// `page_referenced` of 2.6.32 takes from a page that becomes inactive that a call has used it, where it is in use; what
/// is not is not asked, so that a dirty page stays for once.
#[test]
fn deactivation_forgot_what_a_call_had_used() {
    let reclaimed = |in_use: bool, dirty: bool| {
        let mut lists = of(Release::V2_6_32);
        activate(&mut lists, 0..64);
        (0..64).for_each(|folio| lists.mark_accessed(folio));
        let all = |wanted: bool| (0..64).filter(|_| wanted).collect();
        let mut memory = Pages { in_use: all(in_use), dirty: all(dirty), ..Pages::default() };
        let taken = lists.shrink(Reclaimer::Group, 1, &mut memory);
        assert_eq!(lists.counters.activations, 64, "none once more");
        lists.counters.scanned_pages - taken
    };
    assert_eq!(reclaimed(true, false), 0);
    assert_eq!(reclaimed(true, true), 0);
    assert_eq!(reclaimed(false, false), 0);
    assert!(reclaimed(false, true) > 0);
}

/// Where all of a batch is dirty and of files, the kernel's thread writes from the next on (`PGDAT_DIRTY`), until enough
/// is free: in 4.9, and there not what a call has used. Whoever needs a page himself writes none.
#[test]
fn the_kernels_thread_wrote_where_all_was_dirty() {
    let dirty = |release, who: fn(u64) -> Reclaimer| {
        let mut lists = of(release);
        add(&mut lists, Kind::File, 0..1000);
        lists.mark_accessed(5);
        let mut memory = Pages { dirty: (0..1000).collect(), ..Pages::default() };
        for high_pages in [40, 200] {
            lists.shrink(who(high_pages), 1, &mut memory);
        }
        memory
    };
    let memory = dirty(Release::V4_9, |high_pages| Reclaimer::Background { high_pages });
    let left: Vec<u64> =
        memory.tried.iter().copied().filter(|page| memory.dirty.contains(page)).collect();
    assert_eq!(left[..2], [0, 5], "the first batch, and what a call has used");
    assert_eq!(left.len(), 3, "and the first batch of the second time: {left:?}");
    assert!(memory.written.len() >= 200);
    let memory = dirty(Release::V4_9, |high_pages| Reclaimer::Direct { high_pages });
    assert!(memory.written.is_empty());
    let memory = dirty(Release::V6_18, |high_pages| Reclaimer::Background { high_pages });
    assert!(memory.written.is_empty());
}

/// `balance_pgdat`: a batch before each pass, and one after it (`shrink_lruvec`).
#[test]
fn the_kernels_thread_aged_anonymous_memory_before_each_pass() {
    let deactivated = |release| {
        let mut lists = of(release);
        add(&mut lists, Kind::Anonymous, 0..1000);
        for folio in 0..1000 {
            lists.lists_mut().remove(folio);
            lists.lists_mut().put(ACTIVE_ANONYMOUS, true, folio, 0, 0);
        }
        lists.balance(1, &mut Pages::default());
        lists.counters.deactivations
    };
    assert_eq!([Release::V2_6_32, Release::V4_9].map(deactivated), [64; 2]);
}

/// `get_scan_count` of 4.9: of a group whose lists are too small for the first pass a batch is looked at.
#[test]
fn small_groups_were_looked_at_at_once() {
    let taken = |who| {
        let mut lists = ActiveInactive::new(Release::V4_9, 60, false, FRAMES, PAGE_BYTES);
        add(&mut lists, Kind::File, 0..200);
        lists.shrink(who, 1, &mut Pages::default())
    };
    assert_eq!(taken(Reclaimer::Group), 32);
    assert_eq!(taken(Reclaimer::Direct { high_pages: 0 }), 43, "1, 3, 6, 11 and 22");
}

/// `rotate_reclaimable_page` passes over what is active, `lru_move_tail` of 6.18 does not.
#[test]
fn what_became_active_while_it_was_written_stayed() {
    let found = RELEASES.map(|release| {
        let mut lists = of(release);
        activate(&mut lists, 0..1);
        add(&mut lists, Kind::File, 1..3);
        let lets_go = lists.lets_go(0);
        [0, 2].into_iter().for_each(|folio| lists.rotate(folio));
        (lets_go, in_list(&lists, INACTIVE_FILE))
    });
    let old = (false, vec![2, 1]);
    assert_eq!(found, [old.clone(), old, (true, vec![2, 0, 1])]);
}

/// Of 2 inactive and 10 active pages of 64 MiB: in memory of 256 GiB, of which one in 50 is to be inactive, they are
/// enough; in a group, which counts its own, they are not (`calc_inactive_ratio` of 2.6.32).
#[test]
fn a_group_counted_its_own_pages_for_how_many_are_inactive() {
    let deactivations = |who| {
        let mut lists = ActiveInactive::new(Release::V2_6_32, 60, true, FRAMES, 1 << 26);
        add(&mut lists, Kind::Anonymous, 0..12);
        (0..10).for_each(|folio| lists.is_new(folio));
        lists.shrink(who, 1, &mut Pages::default());
        lists.counters.deactivations
    };
    assert_eq!(deactivations(Reclaimer::Direct { high_pages: 0 }), 0);
    assert!(deactivations(Reclaimer::Group) > 0);
}

/// Of what is dirty 2.6.32 keeps what was used, and writes the rest; 4.9 leaves it where it is, until the flusher
/// has been; 6.18 puts it out of the way.
#[test]
fn dirty_pages_of_files_were_no_business_of_others() {
    let found = RELEASES.map(|release| {
        let mut lists = of(release);
        add(&mut lists, Kind::File, 0..64);
        lists.mark_accessed(1);
        let mut memory = Pages { dirty: vec![0, 1], ..Pages::default() };
        lists.shrink(Reclaimer::Group, 1, &mut memory);
        let tried = memory.tried.iter().filter(|folio| **folio < 2).count();
        (tried, in_list(&lists, ACTIVE_FILE).len())
    });
    assert_eq!(found, [(1, 0), (2, 0), (2, 2)]);
}

/// Of two kinds of as many pages that which is used again gives less, until 5.7; 6.18 does not ask.
#[test]
fn what_was_used_again_was_spared() {
    let share = |release, used| {
        let mut lists = ActiveInactive::new(release, 100, true, FRAMES, PAGE_BYTES);
        add(&mut lists, Kind::Anonymous, 0..1000);
        add(&mut lists, Kind::File, 1000..2000);
        // Active pages of files are more than inactive ones, so that files are not plenty.
        for folio in (0..1000).filter(|folio| folio % 3 > 0) {
            lists.lists_mut().remove(folio);
            lists.lists_mut().put(ACTIVE_ANONYMOUS, true, folio, 0, 0);
            lists.lists_mut().remove(1000 + folio);
            lists.lists_mut().put(ACTIVE_FILE, true, 1000 + folio, 0, 0);
        }
        let mut memory = Pages::default();
        for _ in 0..20 {
            if used {
                memory.young.extend((0..1000).map(|folio| (folio, 1)));
            }
            lists.shrink(Reclaimer::Group, 32, &mut memory);
        }
        let of_anonymous = gone(&memory).iter().filter(|folio| **folio < 1000).count();
        of_anonymous as f64 / memory.gone.len() as f64
    };
    for release in [Release::V2_6_32, Release::V4_9] {
        let (idle, used) = (share(release, false), share(release, true));
        assert!(idle > 0.2 && used < idle / 2.0, "{release:?}: {idle} {used}");
    }
}

#[test]
fn without_swap_anonymous_memory_stays() {
    let mut lists = ActiveInactive::new(Release::V6_18, 200, false, FRAMES, PAGE_BYTES);
    add(&mut lists, Kind::Anonymous, 0..100);
    add(&mut lists, Kind::File, 100..120);
    let mut memory = Pages::default();
    assert_eq!(lists.shrink(Reclaimer::Group, 64, &mut memory), 20);
    assert!(gone(&memory).iter().all(|folio| *folio >= 100));
}

#[test]
fn the_kernels_thread_goes_on_until_enough_is_free() {
    let mut lists = linux(60);
    add(&mut lists, Kind::File, 0..1000);
    let mut memory = Pages { free: 5, ..Pages::default() };
    lists.shrink(Reclaimer::Background { high_pages: 70 }, 0, &mut memory);
    assert!((70..=140).contains(&memory.free), "{}", memory.free);
}

#[test]
fn what_is_busy_stays() {
    for policy in [
        ReclaimPolicy::ActiveInactive,
        ReclaimPolicy::ActiveInactive49,
        ReclaimPolicy::ActiveInactive2632,
        ReclaimPolicy::Generations,
        ReclaimPolicy::Clock,
    ] {
        let mut reclaim = Reclaim::new(policy, 60, FRAMES, PAGE_BYTES);
        (0..50).for_each(|folio| reclaim.add(folio, 0, Kind::File, Shadow::default(), false));
        let mut memory = Pages { busy: (0..50).collect(), ..Pages::default() };
        assert_eq!(reclaim.shrink(Reclaimer::Group, 10, &mut memory), 0);
        assert_eq!(reclaim.pages(), 50);
    }
}

/// What each policy would do, with a list in which all is searched.
fn expected(policy: ReclaimPolicy, order: &mut Vec<(u64, bool)>, held: &[u64]) -> Option<u64> {
    let mut spared = 0;
    loop {
        let (folio, used) = *order.first()?;
        order.remove(0);
        let spare = match policy {
            ReclaimPolicy::Lru => spared < 64 && held.contains(&folio),
            ReclaimPolicy::Clock => used,
            _ => false,
        };
        if !spare {
            return Some(folio);
        }
        spared += 1;
        order.push((folio, false));
    }
}

proptest! {
    #[test]
    fn one_list_reclaims_in_the_order_of_text_books(
        policy in prop::sample::select(
            vec![ReclaimPolicy::Lru, ReclaimPolicy::Clock, ReclaimPolicy::Fifo]),
        held in prop::collection::vec(0u64..40, 0..3),
        steps in prop::collection::vec((0u8..5, 0u64..40), 1..200),
    ) {
        let mut list = OneList::new(policy, FRAMES);
        let mut order: Vec<(u64, bool)> = Vec::new();
        let mut memory = Pages { held: held.clone(), ..Pages::default() };
        for (what, folio) in steps {
            let at = order.iter().position(|(other, _)| *other == folio);
            match (what, at) {
                (0 | 1, None) => {
                    list.add(folio, 0, Kind::File, Shadow::default());
                    order.push((folio, false));
                }
                (2, Some(at)) => {
                    list.mark_accessed(folio);
                    order[at].1 = true;
                    if policy == ReclaimPolicy::Lru {
                        let entry = order.remove(at);
                        order.push(entry);
                    }
                }
                (3, Some(at)) => {
                    list.remove(folio);
                    order.remove(at);
                }
                (4, _) if order.len() > held.len() => {
                    memory.gone.clear();
                    list.shrink(Reclaimer::Group, 1, &mut memory);
                    prop_assert_eq!(gone(&memory).first().copied(), expected(policy, &mut order, &held));
                }
                _ => {}
            }
            prop_assert_eq!(list.pages(), order.len() as u64);
        }
    }

    /// Folios of all sizes come, are used, are split, and go: each is in one list, and lists know
    /// their sizes.
    #[test]
    fn lists_know_what_is_in_them(
        release in prop::sample::select(RELEASES.to_vec()),
        steps in prop::collection::vec((0u8..7, 0u64..60, 0u8..4), 1..300)
    ) {
        let mut lists = of(release);
        let mut all: BTreeMap<u64, u8> = BTreeMap::new();
        let mut memory = Pages::default();
        for (what, number, order) in steps {
            let folio = number * 8;
            match (what, all.get(&folio).copied()) {
                // Frames of a split folio may be in use, though its first is not.
                (0 | 1, None) if all.range(folio..folio + (1 << order)).next().is_none() => {
                    let kind = if number % 3 == 0 { Kind::Anonymous } else { Kind::File };
                    lists.add(folio, order, kind, memory.gone.last().map_or(Shadow(0), |gone| gone.1));
                    all.insert(folio, order);
                    match order {
                        0 => lists.is_new(folio),
                        1 => lists.comes_from_swap(folio),
                        _ => {}
                    }
                }
                (2, _) => lists.mark_accessed(folio),
                (3, Some(_)) => {
                    lists.remove(folio);
                    all.remove(&folio);
                }
                (4, Some(order)) if order > 0 => {
                    let others: Vec<u64> = (folio + 1..folio + (1 << order)).collect();
                    lists.lists_mut().split(folio, &others);
                    all.insert(folio, 0);
                    all.extend(others.into_iter().map(|folio| (folio, 0)));
                }
                (5, _) => {
                    memory.young.insert(folio, 1);
                }
                (6, _) => {
                    let before = memory.gone.len();
                    lists.shrink(Reclaimer::Group, number, &mut memory);
                    for (folio, _) in &memory.gone[before..] {
                        prop_assert!(all.remove(folio).is_some(), "{} was not there", folio);
                    }
                }
                _ => {}
            }
            let mut found: Vec<u64> = Vec::new();
            for list in [INACTIVE_ANONYMOUS, ACTIVE_ANONYMOUS, INACTIVE_FILE, ACTIVE_FILE] {
                let folios = in_list(&lists, list);
                let pages: u64 = folios.iter().map(|folio| 1 << all[folio]).sum();
                prop_assert_eq!(lists.sizes()[list as usize], pages);
                found.extend(folios);
            }
            found.sort_unstable();
            prop_assert_eq!(found, all.keys().copied().collect::<Vec<_>>());
        }
    }
}
