//! Tables and indexes of a database in the manner of PostgreSQL, from formulas: heaps of rows one behind the other, and
//! B-trees of fixed-size keys that were built from them in order (PostgreSQL 8.4: `bufpage.h`, `itup.h`,
//! `nbtree.h`).

/// Of a page, its bytes, its header, and what a B-tree has at its end; of a row, its header and the pointer to
/// it; of an entry of an index, header, key of 8 B and pointer.
pub(super) const PAGE_BYTES: u64 = 8192;
const HEADER_BYTES: u64 = 24;
const SPECIAL_BYTES: u64 = 16;
pub(super) const POINTER_BYTES: u64 = 4;
pub(super) const ROW_HEADER_BYTES: u64 = 24;
pub(super) const ENTRY_BYTES: u64 = 16;
/// Of a B-tree's page, entries as it is built: 90 % of what fits (`BTREE_DEFAULT_FILLFACTOR`).
pub(super) const ENTRIES: u64 =
    (PAGE_BYTES - HEADER_BYTES - SPECIAL_BYTES) / (ENTRY_BYTES + POINTER_BYTES) * 9 / 10;

/// Pages of one kind, which are a file or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Relation {
    /// The number of its first page, over all relations.
    pub first: u64,
    pub pages: u64,
}

/// A heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub relation: Relation,
    pub rows: u64,
    pub row_bytes: u64,
    pub rows_of_a_page: u64,
}

/// A B-tree over a table's rows. Its pages lie leaves first, then level by level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    pub relation: Relation,
    pub rows: u64,
    /// Of each level, leaves first, the pages before it and its own.
    pub levels: Vec<(u64, u64)>,
}

/// Where on a page something lies.
pub(super) fn pointer(number: u64) -> u64 {
    HEADER_BYTES + number * POINTER_BYTES
}

/// Where an entry of an index lies on its page.
pub(super) fn entry(number: u64) -> u64 {
    PAGE_BYTES - SPECIAL_BYTES - (number + 1) * ENTRY_BYTES
}

impl Table {
    /// Of rows of so many bytes, their header included, in so many pages, at least one.
    pub fn new(first: u64, pages: u64, row_bytes: u64) -> Table {
        let rows_of_a_page = ((PAGE_BYTES - HEADER_BYTES) / (row_bytes + POINTER_BYTES)).max(1);
        let relation = Relation { first, pages };
        Table { relation, rows: pages * rows_of_a_page, row_bytes, rows_of_a_page }
    }

    /// Page of a row, over all relations, and where on it it lies.
    pub fn find(&self, row: u64) -> (u64, u64, u64) {
        let number = row % self.rows_of_a_page;
        let at = PAGE_BYTES - (number + 1) * self.row_bytes;
        (self.relation.first + row / self.rows_of_a_page, number, at)
    }
}

impl Index {
    /// Over so many rows, at least one.
    pub fn new(first: u64, rows: u64) -> Index {
        let mut levels = vec![(0, rows.div_ceil(ENTRIES))];
        while levels[levels.len() - 1].1 > 1 {
            let (before, pages) = levels[levels.len() - 1];
            levels.push((before + pages, pages.div_ceil(ENTRIES)));
        }
        let (before, pages) = levels[levels.len() - 1];
        Index { relation: Relation { first, pages: before + pages }, rows, levels }
    }

    /// The pages that a search for an entry passes, root first, each with its level, and the entry there of so
    /// many.
    pub fn search(&self, entry: u64) -> impl Iterator<Item = (u64, usize, u64, u64)> + '_ {
        (0..self.levels.len()).rev().map(move |level| {
            let below = ENTRIES.pow(level as u32);
            let all = self.rows.div_ceil(below);
            let number = entry / below;
            let (before, _) = self.levels[level];
            let page = self.relation.first + before + number / ENTRIES;
            let first = number / ENTRIES * ENTRIES;
            (page, level, number - first, ENTRIES.min(all - first))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_row_and_entry_has_one_place_and_all_pages_are_used() {
        let table = Table::new(10, 40, 200);
        let places: BTreeSet<(u64, u64)> =
            (0..table.rows).map(|row| (table.find(row).0, table.find(row).2)).collect();
        assert_eq!(places.len() as u64, table.rows);
        let (first, last) = (places.first().unwrap().0, places.last().unwrap().0);
        assert_eq!((first, last), (10, 49));
        let last_pointer = pointer(table.rows_of_a_page);
        assert!(places.iter().all(|(_, at)| *at >= last_pointer));

        let index = Index::new(100, 400_000);
        assert_eq!(index.levels.len(), 3);
        let (mut pages, mut leaves) = (BTreeSet::new(), BTreeSet::new());
        for one in 0..index.rows {
            for (page, level, place, entries) in index.search(one) {
                assert!(place < entries && entry(entries - 1) >= pointer(entries));
                pages.insert(page);
                assert!(level > 0 || leaves.insert((page, place)), "{one}");
            }
        }
        assert_eq!(pages, (100..100 + index.relation.pages).collect());
    }
}
