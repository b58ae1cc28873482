//! Pages of Berkeley DB in its page cache: which of them stay there, in which buffers, and what searching
//! and changing them takes.
//!
//! Keys come at random, so that of the leaves those that are in the cache are any of them. As many as fit
//! are fixed, by a random order, and stay; above them all levels, as many as fit. All others are read
//! where they are needed, into buffers that are taken one after the other and given back after a number of
//! transactions.

use crate::op::{MadeOf, Op};
use tierscope_kernel::Permutation;

/// Of a page: its header; a slot that says where an item begins (`dbinc/db_page.h`, `SIZEOF_PAGE`,
/// `db_indx_t`).
pub(super) const HEADER_BYTES: u64 = 26;
pub(super) const SLOT_BYTES: u64 = 2;
/// In the header: the number of items, and the log's place of the last change.
const ENTRIES_OFFSET: u64 = 20;
/// Bytes that one instruction moves.
const COPY_BYTES: u64 = 16;
const WORD_BYTES: u64 = 8;

/// A page that a transaction uses, and where on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Visit {
    pub page: u64,
    /// Where it goes on, or what it concerns, of so many.
    pub cell: u64,
    pub cells: u64,
    /// Bytes and slots of one.
    pub cell_bytes: u64,
    pub slots: u64,
    /// Whether the pair is there or comes there.
    pub leaf: bool,
    pub changed: bool,
}

impl Visit {
    fn slot(&self, cell: u64) -> u64 {
        HEADER_BYTES + cell * self.slots * SLOT_BYTES
    }

    fn item(&self, page_bytes: u64, cell: u64) -> u64 {
        page_bytes - (cell + 1) * self.cell_bytes
    }
}

/// Buffers for pages.
#[derive(Clone, Debug)]
pub(super) struct Buffers {
    pub page_bytes: u64,
    /// Address of the first.
    pub address: u64,
    pub count: u64,
    /// Pages of the database, those before the leaves, and how many stay, the latter first.
    pages: u64,
    upper: u64,
    stay: u64,
    order: Permutation,
    /// Pages that a transaction takes at most, and transactions after which a buffer is taken anew.
    pub depth: u64,
    pub window: u64,
}

impl Buffers {
    /// `count` buffers for a database of so many pages; `None` where they are too few.
    pub fn new(
        (page_bytes, address): (u64, u64),
        count: u64,
        (pages, upper): (u64, u64),
        (depth, window): (u64, u64),
        seed: u64,
    ) -> Option<Buffers> {
        let stay = count.checked_sub(depth * window)?.min(pages);
        let order = Permutation::new(seed, "bdb/cached", (pages - upper).max(1));
        Some(Buffers { page_bytes, address, count, pages, upper, stay, order, depth, window })
    }

    /// The buffer of a page that stays in the cache.
    pub fn fixed(&self, page: u64) -> Option<u64> {
        let rank = if page < self.upper {
            page
        } else if page < self.pages {
            self.upper + self.order.at(page - self.upper)
        } else {
            return None;
        };
        (rank < self.stay).then(|| self.address + rank * self.page_bytes)
    }

    /// The buffer of the `number`-th page of a transaction, if it does not stay.
    pub fn turn(&self, transaction: u64, number: u64) -> u64 {
        let turn = transaction % self.window * self.depth + number;
        self.address + (self.count - self.depth * self.window + turn) * self.page_bytes
    }
}

/// Appends a search of a page that lies at an address: the number of items, and for each probe of a binary
/// search the slot, and the key where it says (`__bam_search`, `__ham_getindex_sorted`).
pub(super) fn search(visit: Visit, at: u64, page_bytes: u64, out: &mut Vec<Op>) {
    // What lies on the page, by where that lies, which the load before it says.
    let mut on_page = MadeOf::LAST;
    out.push(on_page.next(Op::load(at + ENTRIES_OFFSET, 2, 2)));
    let (mut low, mut high) = (0, visit.cells);
    while low < high {
        let middle = low + (high - low) / 2;
        out.push(on_page.next(Op::load(at + visit.slot(middle), SLOT_BYTES as u16, 2)));
        let key = Op::load(at + visit.item(page_bytes, middle), WORD_BYTES as u16, 2);
        on_page.pass(key);
        out.push(key.depending_on(1));
        if middle == visit.cell {
            break;
        }
        if middle < visit.cell { low = middle + 1 } else { high = middle }
    }
}

/// Appends a move of bytes within a page.
fn shift(from: u64, until: u64, out: &mut Vec<Op>) {
    for at in (from..until).step_by(COPY_BYTES as usize) {
        let size = COPY_BYTES.min(until - at) as u16;
        out.push(Op::load(at, size, 1));
        out.push(Op::store(at, size, 1));
    }
}

/// Appends a pair added to a page or deleted from it: slots behind it move; of a deletion, what lies below
/// its items as well (`__db_pitem`, `__db_ditem`); header and log's place change.
pub(super) fn change(visit: Visit, at: u64, page_bytes: u64, insert: bool, out: &mut Vec<Op>) {
    if visit.leaf {
        shift(at + visit.slot(visit.cell), at + visit.slot(visit.cells), out);
        if insert {
            let item = at + visit.item(page_bytes, visit.cells - 1);
            for offset in (0..visit.cell_bytes).step_by(COPY_BYTES as usize) {
                let size = COPY_BYTES.min(visit.cell_bytes - offset) as u16;
                out.push(Op::store(item + offset, size, 1));
            }
        } else {
            let lowest = at + visit.item(page_bytes, visit.cells - 1);
            shift(lowest, at + visit.item(page_bytes, visit.cell), out);
        }
    }
    out.push(Op::store(at, WORD_BYTES as u16, 2));
    out.push(Op::store(at + ENTRIES_OFFSET, 4, 2));
}

/// Appends a page written whole, as a new one of a split is: half of it from another.
pub(super) fn fill(at: u64, page_bytes: u64, out: &mut Vec<Op>) {
    for offset in (0..page_bytes / 2).step_by(COPY_BYTES as usize) {
        out.push(Op::store(at + offset, COPY_BYTES as u16, 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn pages_that_stay_have_buffers_of_their_own_apart_from_those_taken_in_turn() {
        let buffers = Buffers::new((512, 1 << 20), 100, (1000, 10), (4, 8), 3).unwrap();
        let fixed: BTreeSet<u64> = (0..1000).filter_map(|page| buffers.fixed(page)).collect();
        assert_eq!(fixed.len(), 68);
        assert!((0..10).all(|page| buffers.fixed(page).is_some()));
        let mut turns: BTreeSet<u64> = BTreeSet::new();
        for transaction in 0..16 {
            turns.extend((0..4).map(|number| buffers.turn(transaction, number)));
        }
        assert_eq!(turns.len(), 32);
        assert!(fixed.is_disjoint(&turns));
        let all: BTreeSet<u64> = fixed.union(&turns).map(|at| (at - (1 << 20)) / 512).collect();
        assert_eq!(all, (0..100).collect());
        assert!(Buffers::new((512, 0), 31, (1000, 10), (4, 8), 3).is_none());
        assert_eq!(buffers.fixed(1000), None, "what splits add is read in turn");
    }

    #[test]
    fn a_search_ends_at_its_cell_and_stays_on_its_page() {
        for cell in [0, 5, 12] {
            let visit = Visit {
                page: 1,
                cell,
                cells: 13,
                cell_bytes: 30,
                slots: 2,
                leaf: true,
                changed: true,
            };
            let mut ops = Vec::new();
            search(visit, 1 << 20, 512, &mut ops);
            assert_eq!(ops[ops.len() - 1].word, (1 << 20) + 512 - (cell + 1) * 30);
            for insert in [true, false] {
                change(visit, 1 << 20, 512, insert, &mut ops);
            }
            let page = 1 << 20..(1 << 20) + 512;
            assert!(ops.iter().all(|op| page.contains(&op.word)
                && op.word + u64::from(op.size()) <= page.end));
        }
    }
}
