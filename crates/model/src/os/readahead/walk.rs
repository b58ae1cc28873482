//! Walks over the page cache in search of a gap (`page_cache_next_miss`, `page_cache_prev_miss`,
//! mm/filemap.c).
//!
//! The kernel's page cache is a tree of nodes with 64 slots (lib/xarray.c). A folio of 2, 4 … 32 pages
//! takes as many slots; a walk that begins in its midst stands on the first of them, and from there
//! goes slot by slot while it counts pages from where it was told to begin (`xas_load`, `xas_next`,
//! `xas_prev`). So it sees, until it comes to the next node, pages that lie in front of those that
//! it counts, and finds a gap late by as many. Single pages are walked as they lie.

use super::PageCache;

/// Slots of a node.
const SLOTS: u64 = 64;
const SLOT_BITS: u32 = SLOTS.trailing_zeros();

/// A place in the tree: a slot of a node, and the page that it is taken for.
struct Cursor {
    page: u64,
    /// Two's logarithm of the pages of a slot: 0, or [`SLOT_BITS`] in a node of nodes.
    shift: u32,
    /// First page of the node.
    node: u64,
    slot: u64,
}

/// What is in a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    Nothing,
    Folio,
    Node,
}

impl Cursor {
    /// The slot of a page, or the first of its folio's; whether a folio is there (`xas_load`).
    fn load(cache: &impl PageCache, page: u64) -> (Cursor, bool) {
        let order = cache.folio(page).map_or(0, |folio| folio.order);
        let mut cursor = Cursor { page, shift: SLOT_BITS, node: 0, slot: 0 };
        cursor.node = page >> (2 * SLOT_BITS) << (2 * SLOT_BITS);
        cursor.slot = page >> SLOT_BITS & (SLOTS - 1);
        if order < SLOT_BITS && !cursor.descend(cache) {
            return (cursor, false);
        }
        cursor.slot =
            cursor.slot >> (order - cursor.shift.min(order)) << (order - cursor.shift.min(order));
        (cursor, cache.folio(page).is_some())
    }

    /// What the slot has.
    fn entry(&self, cache: &impl PageCache) -> Entry {
        let first = self.node + (self.slot << self.shift);
        if self.shift == 0 {
            return if cache.folio(first).is_some() { Entry::Folio } else { Entry::Nothing };
        }
        match cache.folio(first) {
            Some(folio) if folio.order >= SLOT_BITS => Entry::Folio,
            Some(_) => Entry::Node,
            None if (first..first + SLOTS).any(|page| cache.folio(page).is_some()) => Entry::Node,
            None => Entry::Nothing,
        }
    }

    /// Goes down where the slot has a node, to the slot of the page that is counted; false where it
    /// has nothing.
    fn descend(&mut self, cache: &impl PageCache) -> bool {
        if self.shift > 0 && self.entry(cache) == Entry::Node {
            self.node += self.slot << self.shift;
            self.shift = 0;
            self.slot = self.page & (SLOTS - 1);
        }
        self.entry(cache) == Entry::Folio
    }

    /// Where the counted page has its slot within a node of this sort.
    fn slot_of_page(&self) -> u64 {
        self.page >> self.shift & (SLOTS - 1)
    }

    /// Goes up to the node of nodes, to the slot of the node that is left.
    fn ascend(&mut self) {
        let above = self.node >> (2 * SLOT_BITS) << (2 * SLOT_BITS);
        self.slot = (self.node - above) >> SLOT_BITS;
        (self.node, self.shift) = (above, SLOT_BITS);
    }

    /// To the next page; whether a folio is there (`xas_next`).
    fn next(&mut self, cache: &impl PageCache) -> bool {
        self.page += 1;
        if self.shift == 0 || self.slot != self.slot_of_page() {
            self.slot += 1;
        }
        if self.slot == SLOTS && self.shift == 0 {
            self.ascend();
            self.slot += 1;
        }
        if self.slot == SLOTS {
            self.node += SLOTS << SLOT_BITS;
            self.slot = 0;
        }
        self.descend(cache)
    }

    /// To the page before; whether a folio is there (`xas_prev`).
    fn previous(&mut self, cache: &impl PageCache) -> bool {
        let Some(page) = self.page.checked_sub(1) else { return false };
        self.page = page;
        if (self.shift > 0 || self.slot == 0) && self.slot == self.slot_of_page() {
            return self.descend(cache);
        }
        if self.slot == 0 && self.shift == 0 {
            self.ascend();
        }
        if self.slot == 0 {
            let Some(node) = self.node.checked_sub(SLOTS << SLOT_BITS) else { return false };
            (self.node, self.slot) = (node, SLOTS);
        }
        self.slot -= 1;
        self.descend(cache)
    }
}

/// The first page from `first` on that is not there, or the page behind `most` that are.
pub(super) fn next_miss(cache: &impl PageCache, first: u64, most: u64) -> u64 {
    let (mut cursor, mut there) = Cursor::load(cache, first);
    for page in first..first + most {
        if !there {
            return page;
        }
        there = cursor.next(cache);
    }
    first + most
}

/// Pages in a row that are there in front of a page, and whether they begin with the file; where
/// `most` are there, one less.
pub(super) fn history(cache: &impl PageCache, page: u64, most: u64) -> (u64, bool) {
    let Some(last) = page.checked_sub(1) else { return (0, false) };
    let (mut cursor, mut there) = Cursor::load(cache, last);
    for count in 0..most {
        if count == page {
            return (count, true);
        }
        if !there {
            return (count, false);
        }
        there = cursor.previous(cache);
    }
    (most.saturating_sub(1), false)
}

#[cfg(test)]
mod tests {
    use super::super::tests::Plain;
    use super::super::{Filling, Folio};
    use super::*;
    use proptest::prelude::*;

    fn cached(runs: &[(u64, u32, u64)]) -> Plain {
        let mut cache = Plain::new(1 << 20);
        for (first, order, count) in runs {
            for n in 0..*count {
                cache.add(Folio { first: first + (n << order), order: *order, marked: false });
            }
            cache.submit();
        }
        cache
    }

    #[test]
    fn a_walk_from_the_midst_of_a_folio_finds_a_gap_late() {
        let cache = cached(&[(6432, 3, 1)]);
        assert_eq!(next_miss(&cache, 6432, 32), 6440);
        assert_eq!(next_miss(&cache, 6433, 32), 6441);
        assert_eq!(history(&cache, 6440, 32), (1, false), "from its last page it sees the first");
        assert_eq!(history(&cache, 6433, 32), (1, false));
    }

    #[test]
    fn a_walk_is_right_again_from_the_next_node_on() {
        let cache = cached(&[(128 + 48, 4, 2)]);
        assert_eq!(next_miss(&cache, 128 + 49, 64), 128 + 80);
    }

    #[test]
    fn folios_of_a_whole_node_and_more_are_walked() {
        let cache = cached(&[(512, 9, 1), (1024, 0, 7)]);
        assert_eq!(next_miss(&cache, 513, 1024), 1031);
        assert_eq!(next_miss(&cache, 900, 10), 910);
    }

    proptest! {
        #[test]
        fn walks_over_single_pages_are_as_a_plain_search(
            there in proptest::collection::btree_set(0u64..300, 0..290),
            page in 0u64..300,
            most in 1u64..200,
        ) {
            let mut cache = Plain::new(1 << 20);
            for first in &there {
                cache.add(Folio { first: *first, order: 0, marked: false });
                cache.submit();
            }
            let miss = (page..page + most).find(|p| !there.contains(p)).unwrap_or(page + most);
            prop_assert_eq!(next_miss(&cache, page, most), miss);
            let before = (0..page.min(most)).take_while(|n| there.contains(&(page - 1 - n)));
            let count = before.count() as u64;
            let from_start = page > 0 && count == page && count < most;
            let count = if count == most { most - 1 } else { count };
            prop_assert_eq!(history(&cache, page, most), (count, from_start));
        }
    }
}
