//! The pages of a database that was filled in the order of its keys, from formulas: SQLite's file format
//! (sqlite.org/fileformat2.html, §1.6): a table's B-tree by row number, whose leaves hold the rows, and
//! an index's B-tree by key, which holds an entry on every level.

use crate::op::{MadeOf, Op};

/// Bytes of a page's header, of a leaf and above it (§1.6).
const LEAF_HEADER_BYTES: u64 = 8;
const INTERIOR_HEADER_BYTES: u64 = 12;
const POINTER_BYTES: u64 = 2;

/// A row: 16 bytes of key and 100 of value (leveldb's `db_bench_sqlite3.cc`). Size of the payload (1 B),
/// row number (4 B up to 2²⁸ rows), header of the record (4 B: its size, a type of 1 B, one of 2 B).
pub(super) const KEY_BYTES: u64 = 16;
pub(super) const VALUE_BYTES: u64 = 100;
pub(super) const ROW_BYTES: u64 = 1 + 4 + 4 + KEY_BYTES + VALUE_BYTES;
/// Where its key begins.
pub(super) const ROW_HEADER_BYTES: u64 = 9;
/// An entry of the index: size of the payload, header of the record (3 B), key, row number (4 B).
pub(super) const ENTRY_BYTES: u64 = 1 + 3 + KEY_BYTES + 4;
/// A child of the table's tree: page number and row number; of the index's, page number and an entry.
const CHILD_BYTES: u64 = 4;
const TABLE_CELL_BYTES: u64 = CHILD_BYTES + 4;
const INDEX_CELL_BYTES: u64 = CHILD_BYTES + ENTRY_BYTES;

/// Which of the two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    Table,
    Index,
}

pub(super) const TREES: [Tree; 2] = [Tree::Table, Tree::Index];

/// A page of a tree: its level, 0 for leaves, and its number on it, in the order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub tree: Tree,
    pub level: usize,
    pub number: u64,
}

/// Where a search goes on a page: to a cell, or beyond the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Visit {
    pub page: Page,
    pub cell: u64,
    /// Cells of the page.
    pub cells: u64,
    /// Whether the cell is what is searched for.
    pub found: bool,
}

/// Both trees.
#[derive(Clone, Debug)]
pub(super) struct Trees {
    pub page_bytes: u64,
    pub rows: u64,
    /// Rows below a page of each level of the table and of the index, those that part it from the next
    /// included; the last level is a root.
    spans: [Vec<u64>; 2],
}

impl Trees {
    /// Of so many rows, at least one, in pages of 512 B to 64 KiB; each `index_fill` entries of an index
    /// leaf, if that is less than its capacity.
    pub fn new(page_bytes: u64, rows: u64, index_fill: f64) -> Trees {
        let leaf = |bytes: u64| (page_bytes - LEAF_HEADER_BYTES) / (bytes + POINTER_BYTES);
        let above = |bytes: u64| (page_bytes - INTERIOR_HEADER_BYTES) / (bytes + POINTER_BYTES);
        let entries = ((leaf(ENTRY_BYTES) as f64 * index_fill) as u64).max(1);
        // The last leaf of the index has an entry at least: none parts it from a next one.
        let rows = rows - u64::from(rows > 1 && rows.is_multiple_of(entries + 1));
        // An entry of the index parts each page from the next, on a level above.
        let spans = [
            levels(leaf(ROW_BYTES), above(TABLE_CELL_BYTES) + 1, rows),
            levels(entries + 1, above(INDEX_CELL_BYTES) + 1, rows),
        ];
        Trees { page_bytes, rows, spans }
    }

    /// As many rows as fit so many bytes.
    pub fn rows_of(page_bytes: u64, bytes: u64) -> u64 {
        let pages = bytes / page_bytes;
        let (mut low, mut high) = (1, bytes / ROW_BYTES);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if Trees::new(page_bytes, middle, 1.0).pages() <= pages {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }

    fn spans(&self, tree: Tree) -> &[u64] {
        &self.spans[tree as usize]
    }

    /// Levels of a tree.
    pub fn levels(&self, tree: Tree) -> usize {
        self.spans(tree).len()
    }

    /// Pages of a level.
    pub fn pages_of(&self, tree: Tree, level: usize) -> u64 {
        self.rows.div_ceil(self.spans(tree)[level])
    }

    /// Rows below a leaf.
    pub fn leaf_rows(&self, tree: Tree) -> u64 {
        self.spans(tree)[0]
    }

    /// Pages in all, the first, which holds the schema, included.
    pub fn pages(&self) -> u64 {
        let of = |tree: Tree| (0..self.levels(tree)).map(move |level| self.pages_of(tree, level));
        1 + TREES.into_iter().flat_map(of).sum::<u64>()
    }

    /// Where a page lies in the file, from 0: pages come in the order of their first rows, as they were
    /// added while the database was filled; the first one is the schema's.
    pub fn place(&self, page: Page) -> u64 {
        let first_row = page.number * self.spans(page.tree)[page.level];
        let mut before = 1;
        let mut later = false;
        for tree in TREES {
            for (level, span) in self.spans(tree).iter().enumerate() {
                later |= tree == page.tree && level == page.level;
                // Of those that begin at the same row, tables' come first, and leaves.
                let as_well = u64::from(!later && first_row.is_multiple_of(*span));
                before += first_row.div_ceil(*span) + as_well;
            }
        }
        before
    }

    /// The pages that a search for a row passes, from the root on.
    pub fn search(&self, tree: Tree, row: u64) -> impl Iterator<Item = Visit> + '_ {
        let spans = self.spans(tree);
        let mut done = false;
        (0..spans.len()).rev().map_while(move |level| {
            if done {
                return None;
            }
            let span = spans[level];
            let (number, within) = (row / span, row % span);
            let rows = span.min((self.rows.max(row + 1)) - number * span);
            let page = Page { tree, level, number };
            if level == 0 {
                // The row that parts a leaf of the index from the next is not in it.
                let cells = rows.min(span - u64::from(tree == Tree::Index)).max(1);
                return Some(Visit { page, cell: within.min(cells - 1), cells, found: true });
            }
            let below = spans[level - 1];
            let (cell, cells) = (within / below, rows.div_ceil(below) - 1);
            let parts = tree == Tree::Index && within % below == below - 1;
            done = parts && cell < cells;
            Some(Visit { page, cell, cells, found: done })
        })
    }

    /// Where a cell's contents begin on a page: they fill it from its end.
    pub fn cell_offset(&self, page: Page, cell: u64) -> u64 {
        self.page_bytes - (cell + 1) * cell_bytes(page)
    }

    /// Where the pointer to a cell lies on a page.
    pub fn pointer_offset(page: Page, cell: u64) -> u64 {
        header_bytes(page) + cell * POINTER_BYTES
    }
}

fn header_bytes(page: Page) -> u64 {
    if page.level == 0 { LEAF_HEADER_BYTES } else { INTERIOR_HEADER_BYTES }
}

fn cell_bytes(page: Page) -> u64 {
    match (page.tree, page.level) {
        (Tree::Table, 0) => ROW_BYTES,
        (Tree::Table, _) => TABLE_CELL_BYTES,
        (Tree::Index, 0) => ENTRY_BYTES,
        (Tree::Index, _) => INDEX_CELL_BYTES,
    }
}

fn levels(leaf: u64, children: u64, rows: u64) -> Vec<u64> {
    let mut spans = vec![leaf];
    while spans[spans.len() - 1] < rows {
        spans.push(spans[spans.len() - 1] * children);
    }
    spans
}

/// Appends a binary search on a page that lies at `address`: the header, then for each probe the cell's
/// pointer, and its row number or key (`sqlite3BtreeTableMoveto`, `sqlite3BtreeIndexMoveto`); above the
/// leaves, the child's page number.
pub(super) fn search_page(visit: Visit, trees: &Trees, address: u64, out: &mut Vec<Op>) {
    let Visit { page, cell, cells, found } = visit;
    // What lies on the page, by where that lies, which the load before it says.
    let mut on_page = MadeOf::LAST;
    out.push(on_page.next(Op::load(address + 3, 2, 1)));
    let (mut low, mut high) = (0, cells as i64 - 1);
    let goal = cell as i64;
    while low <= high {
        let middle = (low + high) / 2;
        let at = address + trees.cell_offset(page, middle as u64);
        let pointer = Op::load(address + Trees::pointer_offset(page, middle as u64), 2, 1);
        out.push(on_page.next(pointer));
        let mut cell = MadeOf::LAST;
        let words = if page.tree == Tree::Index { 3 } else { 1 };
        for word in (0..words).map(|word| Op::load(at + 8 * word, 8, 1)) {
            on_page.pass(word);
            out.push(cell.next(word));
        }
        if middle == goal && found {
            break;
        }
        if middle < goal { low = middle + 1 } else { high = middle - 1 }
    }
    if page.level > 0 && !found {
        // The child behind the last cell is in the header.
        let child = if cell < cells { trees.cell_offset(page, cell) } else { 8 };
        out.push(on_page.next(Op::load(address + child, CHILD_BYTES as u16, 1)));
    }
}

/// Loads of a search for a row at most.
pub(super) fn most_loads(trees: &Trees, tree: Tree) -> u64 {
    let probes = u64::from((trees.page_bytes / 8).ilog2() + 1);
    trees.levels(tree) as u64 * (4 * probes + 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn pages_fill_the_file_without_a_gap() {
        for (page_bytes, rows, fill) in [(512, 5000, 1.0), (1024, 20_000, 0.69), (4096, 1, 1.0)] {
            let trees = Trees::new(page_bytes, rows, fill);
            let mut places = BTreeSet::from([0]);
            for tree in TREES {
                for level in 0..trees.levels(tree) {
                    for number in 0..trees.pages_of(tree, level) {
                        assert!(places.insert(trees.place(Page { tree, level, number })));
                    }
                }
            }
            assert_eq!(places.len() as u64, trees.pages());
            assert_eq!(places.last(), Some(&(trees.pages() - 1)), "{rows} rows");
        }
    }

    /// Each row is found: in a leaf of the table, and once in the index, where entries of all levels are
    /// as many as rows; and each page's cells lie between its pointers and its end.
    #[test]
    fn each_row_has_one_place_in_each_tree() {
        let trees = Trees::new(512, 3000, 1.0);
        for tree in TREES {
            let mut cells = BTreeSet::new();
            for row in 0..trees.rows {
                let path: Vec<Visit> = trees.search(tree, row).collect();
                let last = path[path.len() - 1];
                assert!(last.found && last.cell < last.cells, "{row}: {last:?}");
                assert!(path[..path.len() - 1].iter().all(|visit| !visit.found));
                assert!(cells.insert((last.page.level, last.page.number, last.cell)), "{row}");
                for visit in path {
                    let lowest = trees.cell_offset(visit.page, visit.cells.max(1) - 1);
                    assert!(lowest >= Trees::pointer_offset(visit.page, visit.cells));
                }
            }
            assert!(tree == Tree::Index || cells.iter().all(|(level, ..)| *level == 0));
        }
    }

    #[test]
    fn a_search_ends_at_its_cell() {
        let trees = Trees::new(1024, 100_000, 1.0);
        for row in [0, 1, 7, 8, 39, 40, 99_999] {
            for tree in TREES {
                for visit in trees.search(tree, row) {
                    let mut ops = Vec::new();
                    search_page(visit, &trees, 1 << 20, &mut ops);
                    assert!(ops.iter().all(|op| (1 << 20..(1 << 20) + 1024).contains(&op.word)));
                    let cell = (1 << 20) + trees.cell_offset(visit.page, visit.cell);
                    let reads = ops.iter().any(|op| op.word == cell);
                    assert!(reads || !visit.found, "{visit:?}");
                }
                let loads: usize = trees
                    .search(tree, row)
                    .map(|visit| {
                        let mut ops = Vec::new();
                        search_page(visit, &trees, 0, &mut ops);
                        ops.len()
                    })
                    .sum();
                assert!(loads as u64 <= most_loads(&trees, tree));
            }
        }
    }

    /// \[HAMS21\] Table III's 11 GB and the benchmark's rows: 154 bytes a row in both trees, about.
    #[test]
    fn rows_follow_from_the_size() {
        let rows = Trees::rows_of(1024, 11 << 30);
        let trees = Trees::new(1024, rows, 1.0);
        assert!(trees.pages() <= 11 << 20 && Trees::new(1024, rows + 41, 1.0).pages() > 11 << 20);
        let bytes = (11u64 << 30) as f64 / rows as f64;
        assert!((150.0..160.0).contains(&bytes), "{bytes}");
    }
}
