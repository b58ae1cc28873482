//! Active and inactive lists against a reference of plain queues, under random inputs.

mod naive;

use super::super::{Evicted, Reclaim};
use super::*;
use naive::Naive;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Folios begin where their number says, so that those that are split have room. Lists know a folio by its first page
/// alone: there may be larger ones, of which the first of the passes finds enough.
const MOST_PAGES: u64 = 64;
const NUMBERS: u64 = 400;
const FRAMES: u64 = NUMBERS * MOST_PAGES;

/// A memory of which all goes that reclaim wants, but what is noted otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
struct Store {
    /// Pages of each folio that is in memory.
    pages: BTreeMap<u64, u64>,
    /// How many page-table entries have used a folio.
    young: BTreeMap<u64, u64>,
    /// Mapped, or in swap.
    in_use: BTreeSet<u64>,
    anonymous: BTreeSet<u64>,
    /// Anonymous folios of which swap has a copy.
    swapped: BTreeSet<u64>,
    dirty: BTreeSet<u64>,
    /// Being read.
    busy: BTreeSet<u64>,
    /// Being written, to go then.
    writing: BTreeSet<u64>,
    /// Whoever reclaims waits for what is being written.
    waits: bool,
    /// What was to be evicted, and what came of it.
    tried: Vec<(u64, Shadow, bool, Evicted)>,
    gone: Vec<(u64, Shadow)>,
    free: u64,
}

impl Memory for Store {
    fn take_references(&mut self, folio: u64) -> u64 {
        self.young.remove(&folio).unwrap_or(0)
    }

    fn is_in_use(&self, folio: u64) -> bool {
        self.in_use.contains(&folio)
    }

    fn is_dirty_file(&self, folio: u64) -> bool {
        self.dirty.contains(&folio) && !self.anonymous.contains(&folio)
    }

    fn held(&self, _: u64) -> bool {
        false
    }

    fn evict(&mut self, folio: u64, shadow: Shadow, writes: bool) -> Evicted {
        let evicted = self.outcome(folio, writes);
        match evicted {
            Evicted::Freed => {
                self.free += self.pages[&folio];
                self.forget(folio);
                self.gone.push((folio, shadow));
            }
            Evicted::Writing => {
                self.free += self.pages[&folio];
                self.dirty.remove(&folio);
                self.swapped.insert(folio);
                self.writing.insert(folio);
            }
            _ => {}
        }
        self.tried.push((folio, shadow, writes, evicted));
        evicted
    }

    fn free_pages(&self) -> u64 {
        self.free
    }
}

impl Store {
    fn outcome(&self, folio: u64, writes: bool) -> Evicted {
        if self.writing.contains(&folio) && self.waits {
            Evicted::Awaited
        } else if self.writing.contains(&folio) || self.busy.contains(&folio) {
            Evicted::Busy
        } else if self.anonymous.contains(&folio) {
            let is_clean = self.swapped.contains(&folio) && !self.dirty.contains(&folio);
            if is_clean { Evicted::Freed } else { Evicted::Writing }
        } else if !self.dirty.contains(&folio) {
            Evicted::Freed
        } else if writes {
            Evicted::Writing
        } else {
            Evicted::Dirty
        }
    }

    fn forget(&mut self, folio: u64) {
        self.pages.remove(&folio);
        self.young.remove(&folio);
        for set in [&mut self.in_use, &mut self.anonymous, &mut self.swapped, &mut self.dirty] {
            set.remove(&folio);
        }
        self.busy.remove(&folio);
        self.writing.remove(&folio);
    }

    /// Folios whose first page is one of so many numbers, and of those that were split, the others.
    fn listed(&self, (first, numbers): (u64, u64)) -> Vec<u64> {
        let frames = first * MOST_PAGES..(first + numbers) * MOST_PAGES;
        self.pages.range(frames).map(|(folio, _)| *folio).collect()
    }
}

/// So many numbers from one on.
type Numbers = (u64, u64);

#[derive(Clone, Debug)]
enum Step {
    /// Folios come; what more is told of them.
    Come(Numbers, u8, Kind, u8),
    /// Of those that went last some are left out, and so many come back.
    Again(u64, u64, u8),
    Call(Numbers, u64),
    Touch(Numbers, u64),
    Use(Numbers),
    Dirty(Numbers),
    Busy(Numbers, bool),
    Remove(Numbers),
    MakeInactive(Numbers, Option<Kind>),
    Split(Numbers),
    PageOut(Numbers),
    Written,
    Fork,
    /// Of the group, or of whoever needs pages, with so many more than are free as the high watermark.
    Shrink(u64, Option<u64>),
    /// The kernel's thread, until it sleeps, or one pass.
    Background(u64, bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let numbers = |most: u64| (0..NUMBERS - most, 1..most);
    let order = prop_oneof![12 => Just(0u8), 4 => 1u8..4, 2 => Just(6u8), 2 => Just(12u8)];
    let kind = || prop::sample::select(vec![Kind::Anonymous, Kind::File]);
    let step = prop_oneof![
        8 => (numbers(150), order, kind(), 0u8..4).prop_map(|(at, order, kind, told)| Step::Come(at, order, kind, told)),
        4 => (0u64..60, 1u64..60, 0u8..4).prop_map(|(first, count, told)| Step::Again(first, count, told)),
        5 => (numbers(100), 1u64..4).prop_map(|(at, times)| Step::Call(at, times)),
        5 => (numbers(100), 1u64..4).prop_map(|(at, entries)| Step::Touch(at, entries)),
        1 => numbers(100).prop_map(Step::Use),
        2 => numbers(150).prop_map(Step::Dirty),
        1 => (numbers(30), any::<bool>()).prop_map(|(at, waits)| Step::Busy(at, waits)),
        1 => numbers(40).prop_map(Step::Remove),
        1 => (numbers(40), prop::option::of(kind())).prop_map(|(at, kind)| Step::MakeInactive(at, kind)),
        1 => numbers(10).prop_map(Step::Split),
        1 => numbers(20).prop_map(Step::PageOut),
        2 => Just(Step::Written),
        1 => Just(Step::Fork),
        6 => (1u64..100, prop::option::of(0u64..500)).prop_map(|(pages, more)| Step::Shrink(pages, more)),
        5 => (0u64..300, any::<bool>()).prop_map(|(more, sleeps)| Step::Background(more, sleeps)),
    ];
    prop::collection::vec(step, 1..50)
}

/// Both with what they work on.
struct Both {
    lists: Reclaim,
    store: Store,
    naive: Naive,
    naive_store: Store,
    /// Kinds and orders of the folios that went.
    was: BTreeMap<u64, (Kind, u64)>,
}

impl Both {
    fn new(release: Release, swappiness: u64, swap: bool, page_bytes: u64) -> Both {
        let lists = ActiveInactive::new(release, swappiness, swap, FRAMES, page_bytes);
        let store = Store { free: 200, ..Store::default() };
        Both {
            lists: Reclaim::ActiveInactive(Box::new(lists)),
            store: store.clone(),
            naive: Naive::new(release, swappiness, swap, FRAMES, page_bytes),
            naive_store: store,
            was: BTreeMap::new(),
        }
    }

    fn stores(&mut self, mut change: impl FnMut(&mut Store)) {
        change(&mut self.store);
        change(&mut self.naive_store);
    }

    fn come(&mut self, folio: u64, order: u8, kind: Kind, shadow: Shadow, told: u8) {
        let number = folio / MOST_PAGES;
        // Pages of a folio that was split may be there, though its first is not.
        let is_free = self.store.listed((number, 1)).is_empty();
        if !is_free {
            return;
        }
        self.lists.add(folio, order, kind, shadow, false);
        self.naive.add(folio, order, kind, shadow);
        self.stores(|store| {
            store.free = store.free.saturating_sub(1 << order);
            store.pages.insert(folio, 1 << order);
            if kind == Kind::Anonymous {
                store.anonymous.insert(folio);
                if told > 2 {
                    store.swapped.insert(folio);
                }
            }
        });
        match (kind, told) {
            (Kind::Anonymous, 0) => {
                self.lists.is_new(folio);
                self.naive.is_new(folio);
            }
            (Kind::Anonymous, 1) => {
                self.lists.is_new_of_memory(folio);
                self.naive.is_new_of_memory(folio);
            }
            (Kind::Anonymous, 2) => {
                self.lists.comes_from_swap(folio);
                self.naive.comes_from_swap(folio);
            }
            _ => {}
        }
    }

    fn step(&mut self, step: &Step) {
        let listed = |at| self.store.listed(at);
        match *step {
            Step::Come((first, numbers), order, kind, told) => {
                for number in first..first + numbers {
                    self.come(number * MOST_PAGES, order, kind, Shadow::default(), told);
                }
            }
            Step::Again(first, count, told) => {
                let gone = self.store.gone.iter().rev().skip(first as usize).take(count as usize);
                for (folio, shadow) in gone.copied().collect::<Vec<_>>() {
                    let (kind, pages) = self.was[&folio];
                    self.come(folio, pages.ilog2() as u8, kind, shadow, told);
                }
            }
            Step::Call(at, times) => {
                for folio in listed(at).into_iter().flat_map(|folio| vec![folio; times as usize]) {
                    self.lists.mark_accessed(folio);
                    self.naive.mark_accessed(folio);
                }
            }
            Step::Touch(at, entries) => {
                let listed = listed(at);
                self.stores(|store| {
                    store.young.extend(listed.iter().map(|folio| (*folio, entries)))
                });
            }
            Step::Use(at) => {
                let listed = listed(at);
                self.stores(|store| store.in_use.extend(&listed));
            }
            Step::Dirty(at) => {
                let listed = listed(at);
                self.stores(|store| store.dirty.extend(&listed));
            }
            Step::Busy(at, waits) => {
                let listed = listed(at);
                self.stores(|store| {
                    store.busy = listed.iter().copied().collect();
                    store.waits = waits;
                });
            }
            Step::Remove(at) => {
                for folio in listed(at) {
                    self.lists.remove(folio);
                    self.naive.remove(folio);
                    self.stores(|store| store.forget(folio));
                }
            }
            Step::MakeInactive(at, kind) => {
                for folio in listed(at) {
                    self.lists.make_inactive(folio, kind);
                    self.naive.make_inactive(folio, kind);
                    self.stores(|store| {
                        let _ = match kind {
                            Some(Kind::File) => store.anonymous.remove(&folio),
                            Some(Kind::Anonymous) => store.anonymous.insert(folio),
                            None => false,
                        };
                    });
                }
            }
            Step::Split(at) => listed(at).into_iter().for_each(|folio| self.split(folio)),
            Step::PageOut(at) => {
                let listed = listed(at);
                self.note_kinds();
                for folio in listed {
                    self.lists.page_out(folio, &mut self.store);
                    self.naive.page_out(folio, &mut self.naive_store);
                }
            }
            Step::Written => self.written(),
            Step::Fork => self.lists = self.lists.fork(),
            Step::Shrink(pages, more) => {
                let who = match more {
                    Some(more) => Reclaimer::Direct { high_pages: self.store.free + more },
                    None => Reclaimer::Group,
                };
                self.shrink(who, pages);
            }
            Step::Background(more, true) => {
                self.shrink(Reclaimer::Background { high_pages: self.store.free + more }, 0);
            }
            Step::Background(more, false) => {
                self.note_kinds();
                let high = self.store.free + more;
                let goes_on = self.lists.balance(high, &mut self.store);
                assert_eq!(goes_on, self.naive.balance(high, &mut self.naive_store));
            }
        }
    }

    /// Notes what folios are that may go.
    fn note_kinds(&mut self) {
        for (folio, pages) in &self.store.pages {
            let is_anonymous = self.store.anonymous.contains(folio);
            let kind = if is_anonymous { Kind::Anonymous } else { Kind::File };
            self.was.insert(*folio, (kind, *pages));
        }
    }

    fn shrink(&mut self, who: Reclaimer, pages: u64) {
        self.note_kinds();
        let found = self.lists.shrink(who, pages, &mut self.store);
        assert_eq!(found, self.naive.shrink(who, pages, &mut self.naive_store), "reclaimed");
    }

    fn split(&mut self, folio: u64) {
        let pages = self.store.pages[&folio];
        if pages > MOST_PAGES {
            return;
        }
        let others: Vec<u64> = (folio + 1..folio + pages).collect();
        self.lists.split(folio, &others);
        self.naive.split(folio);
        self.stores(|store| {
            store.pages.insert(folio, 1);
            store.pages.extend(others.iter().map(|other| (*other, 1)));
            let Store { in_use, anonymous, swapped, dirty, busy, writing, .. } = store;
            for set in [in_use, anonymous, swapped, dirty, busy, writing] {
                if set.contains(&folio) {
                    set.extend(&others);
                }
            }
        });
    }

    /// What was dirty is clean and the next to go, and what was to leave leaves, if it may.
    fn written(&mut self) {
        self.note_kinds();
        for folio in self.store.dirty.clone() {
            self.lists.rotate(folio);
            self.naive.rotate(folio);
        }
        let writing = self.store.writing.clone();
        self.stores(|store| {
            store.dirty.clear();
            store.writing.clear();
        });
        for folio in writing {
            let leaves = self.lists.lets_go(folio);
            assert_eq!(leaves, self.naive.lets_go(folio));
            if leaves {
                let shadow = self.lists.leave(folio);
                assert_eq!(shadow, self.naive.leave(folio));
                self.stores(|store| {
                    store.forget(folio);
                    store.gone.push((folio, shadow));
                });
            }
        }
    }

    fn check(&self) {
        assert_eq!(self.store.tried, self.naive_store.tried);
        assert!(self.store == self.naive_store, "memory is used in another way");
        let Reclaim::ActiveInactive(lists) = &self.lists else { unreachable!("it is made so") };
        for list in 0..4 {
            let of = |folio: u64| {
                let (pages, flags) = (lists.lists.pages_of(folio), lists.lists.flags(folio));
                (folio, pages, flags & REFERENCED != 0, flags & WORKINGSET != 0)
            };
            let found: Vec<_> = lists.tail_first(list).map(of).collect();
            assert_eq!(found, self.naive.list(kind_of(list), is_active(list)), "list {list}");
            let pages: u64 = found.iter().map(|(_, pages, ..)| pages).sum();
            assert_eq!(lists.sizes()[list as usize], pages);
        }
        assert_eq!(lists.counters, self.naive.counters);
        if lists.release == Release::V6_18 {
            assert_eq!(lists.cost, self.naive.cost);
        } else {
            assert_eq!(lists.recent.map(|recent| recent.scanned), self.naive.recent_scanned);
            assert_eq!(lists.recent.map(|recent| recent.rotated), self.naive.recent_rotated);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn lists_are_as_plain_queues_say(
        release in prop::sample::select(vec![Release::V2_6_32, Release::V4_9, Release::V6_18]),
        swappiness in prop::sample::select(vec![0, 60, 100, 200]),
        swap in prop::bool::weighted(0.9),
        // Pages per GiB: the more memory, the fewer of it are to be inactive.
        page_bytes in prop::sample::select(vec![1u64 << 12, 1 << 20, 1 << 24]),
        steps in steps(),
    ) {
        let mut both = Both::new(release, swappiness, swap, page_bytes);
        for step in &steps {
            both.step(step);
            both.check();
        }
    }
}
