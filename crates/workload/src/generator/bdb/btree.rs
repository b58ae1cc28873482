//! A B+tree of Berkeley DB that was filled in a random order, from formulas: its pages by number, and
//! those that a search passes (layout: `dbinc/db_page.h` of Berkeley DB 4.8; search and split:
//! `bt_search.c`, `bt_split.c`).

use super::pages::{HEADER_BYTES, SLOT_BYTES, Visit};
use tierscope_kernel::Permutation;

/// Pages whose entries come at random are ln 2 full (Yao, "On random 2-3 trees", Acta Informatica 9,
/// 1978).
const FILL: f64 = std::f64::consts::LN_2;
/// Of an item on a leaf, its length and type (`BKEYDATA`); of one above, those, the child's page and a
/// count of records (`BINTERNAL`). Items begin at multiples of four bytes.
const ITEM_BYTES: u64 = 3;
const CHILD_BYTES: u64 = 12;
const ALIGNMENT: u64 = 4;

/// The tree. Page 0 of the file is what describes it; then come root, further levels, leaves, and
/// what splits add.
#[derive(Clone, Debug)]
pub(super) struct BTree {
    /// Pairs of key and value of a leaf, and children of a page above.
    pub leaf_rows: u64,
    pub children: u64,
    pair_bytes: u64,
    child_bytes: u64,
    /// Of each level, root first: the number of its first page, and its pages.
    levels: Vec<(u64, u64)>,
    /// Rows below a page of each level, root first.
    spans: Vec<u64>,
    /// Where in the file pages lie that were there at first.
    places: Permutation,
}

impl BTree {
    /// Of so many pages in all, at least four.
    pub fn new(page_bytes: u64, key: u64, value: u64, pages: u64, seed: u64) -> BTree {
        let item = |bytes: u64| (ITEM_BYTES + bytes).next_multiple_of(ALIGNMENT);
        let room = (page_bytes - HEADER_BYTES) as f64 * FILL;
        let pair_bytes = item(key) + item(value);
        let child_bytes = (CHILD_BYTES + key).next_multiple_of(ALIGNMENT);
        let leaf_rows = ((room / (pair_bytes + 2 * SLOT_BYTES) as f64) as u64).max(1);
        let children = ((room / (child_bytes + SLOT_BYTES) as f64) as u64).max(2);
        let (mut low, mut high) = (1, pages);
        while low < high {
            let leaves = low + (high - low).div_ceil(2);
            if levels_of(leaves, children).iter().sum::<u64>() < pages {
                low = leaves;
            } else {
                high = leaves - 1;
            }
        }
        let mut levels = Vec::new();
        let mut first = 1;
        for nodes in levels_of(low, children).into_iter().rev() {
            levels.push((first, nodes));
            first += nodes;
        }
        let spans = (0..levels.len() as u32).rev().map(|level| leaf_rows * children.pow(level));
        BTree {
            spans: spans.collect(),
            places: Permutation::new(seed, "bdb/places", first - 1),
            levels,
            leaf_rows,
            children,
            pair_bytes,
            child_bytes,
        }
    }

    pub fn levels(&self) -> u64 {
        self.levels.len() as u64
    }

    fn leaves(&self) -> (u64, u64) {
        self.levels[self.levels.len() - 1]
    }

    pub fn rows(&self) -> u64 {
        self.leaves().1 * self.leaf_rows
    }

    /// Pages at first, and those of them above the leaves.
    pub fn pages(&self) -> u64 {
        self.leaves().0 + self.leaves().1
    }

    pub fn upper(&self) -> u64 {
        self.leaves().0
    }

    /// Inserts of which one splits a leaf: while a tree grows, a leaf comes with each leaf's rows.
    pub fn inserts_of_a_split(&self) -> u64 {
        self.leaf_rows
    }

    /// Where in the file a page lies.
    pub fn place(&self, page: u64) -> u64 {
        if page == 0 || page >= self.pages() { page } else { 1 + self.places.at(page - 1) }
    }

    /// The leaf that a row is in.
    #[cfg(test)]
    pub fn leaf(&self, row: u64) -> u64 {
        self.leaves().0 + row / self.leaf_rows
    }

    /// The pages that a search for a row passes, root first.
    pub fn search(&self, row: u64) -> Vec<Visit> {
        let levels = self.levels.len();
        (0..levels)
            .map(|level| {
                let (first, _) = self.levels[level];
                let number = row / self.spans[level];
                if level + 1 == levels {
                    return Visit {
                        page: first + number,
                        cell: row % self.leaf_rows,
                        cells: self.leaf_rows,
                        cell_bytes: self.pair_bytes,
                        slots: 2,
                        leaf: true,
                        changed: true,
                    };
                }
                let below = row / self.spans[level + 1];
                Visit {
                    page: first + number,
                    cell: below - number * self.children,
                    cells: self.children.min(self.levels[level + 1].1 - number * self.children),
                    cell_bytes: self.child_bytes,
                    slots: 1,
                    leaf: false,
                    changed: false,
                }
            })
            .collect()
    }
}

/// Pages of each level, leaves first, up to a root.
fn levels_of(leaves: u64, children: u64) -> Vec<u64> {
    let mut all = vec![leaves];
    while all[all.len() - 1] > 1 {
        all.push(all[all.len() - 1].div_ceil(children));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn pages_fill_the_file_without_a_gap() {
        for pages in [4, 5, 40, 3000] {
            let tree = BTree::new(512, 16, 100, pages, 1);
            assert!((pages * 9 / 10..=pages).contains(&tree.pages()), "{pages}: {}", tree.pages());
            let places: BTreeSet<u64> = (0..tree.pages()).map(|page| tree.place(page)).collect();
            assert_eq!(places, (0..tree.pages()).collect());
        }
    }

    /// Each row is in a leaf of its own cell, below pages that each lead to the next, and all pages are
    /// passed by some row.
    #[test]
    fn each_row_has_one_place_and_a_way_there() {
        let tree = BTree::new(512, 16, 100, 300, 1);
        let (mut cells, mut passed) = (BTreeSet::new(), BTreeSet::from([0]));
        for row in 0..tree.rows() {
            let way = tree.search(row);
            assert_eq!(way.len() as u64, tree.levels());
            assert_eq!((way[0].page, way[way.len() - 1].page), (1, tree.leaf(row)));
            for visit in &way {
                assert!(visit.cell < visit.cells, "{row}: {visit:?}");
                let used = visit.cells * (visit.cell_bytes + visit.slots * SLOT_BYTES);
                assert!(HEADER_BYTES + used <= 512, "{visit:?}");
                passed.insert(visit.page);
            }
            let last = way[way.len() - 1];
            assert!(cells.insert((last.page, last.cell)));
        }
        assert_eq!(passed, (0..tree.pages()).collect());
    }
}
