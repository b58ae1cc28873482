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
    busy: Vec<u64>,
    gone: Vec<(u64, Shadow)>,
    free: u64,
}

impl Memory for Pages {
    fn take_references(&mut self, folio: u64) -> u64 {
        self.young.remove(&folio).unwrap_or(0)
    }

    fn held(&self, folio: u64) -> bool {
        self.held.contains(&folio)
    }

    fn evict(&mut self, folio: u64, shadow: Shadow) -> Evicted {
        if self.busy.contains(&folio) {
            return Evicted::Busy;
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
    ActiveInactive::new(swappiness, true, FRAMES, PAGE_BYTES)
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

#[test]
fn without_swap_anonymous_memory_stays() {
    let mut lists = ActiveInactive::new(200, false, FRAMES, PAGE_BYTES);
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
    for policy in [ReclaimPolicy::ActiveInactive, ReclaimPolicy::Generations, ReclaimPolicy::Clock]
    {
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
        steps in prop::collection::vec((0u8..7, 0u64..60, 0u8..4), 1..300)
    ) {
        let mut lists = linux(60);
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
