//! Where in an address space something happens, over time.

use std::ops::Range;

const ROWS: usize = 128;
const COLUMNS: usize = 128;
const PLACES: usize = 256;

/// Counts by address and time: at most 128 rows, each of an aligned power of two of bytes in which
/// something was counted, and at most 128 columns, each of a power of two of picoseconds. Rows are the
/// smallest that suffice for all addresses that were counted, and columns for all times, so that the order in
/// which they come changes nothing. Ranges in which nothing was counted have no row.
#[derive(Clone, Debug)]
pub struct HeatMap {
    row_shift: u32,
    column_shift: u32,
    /// The addresses of rows, in units of their size, in order.
    keys: Vec<u64>,
    /// By row and column, but for what is recent.
    counts: Vec<u64>,
    /// What was counted last, each at the place of its row.
    recent: Box<[Recent; PLACES]>,
}

/// A cell, and what it has been counted since it was last looked for.
#[derive(Clone, Copy, Debug)]
struct Recent {
    key: u64,
    column: u32,
    row: u32,
    count: u64,
}

impl Recent {
    /// No cell: no row has such a key.
    const NONE: Recent = Recent { key: u64::MAX, column: 0, row: 0, count: 0 };
}

impl HeatMap {
    /// Of nothing; rows are of `2^row_shift` bytes at least, and columns of `2^column_shift` ps.
    pub fn new(row_shift: u32, column_shift: u32) -> Self {
        assert!(row_shift > 0, "rows are of two bytes at least");
        let (keys, counts) = (Vec::new(), Vec::new());
        HeatMap { row_shift, column_shift, keys, counts, recent: Box::new([Recent::NONE; PLACES]) }
    }

    /// Counts one at an address and a time.
    #[inline]
    pub fn count(&mut self, address: u64, at_ps: u64) {
        let (key, column) = (address >> self.row_shift, at_ps >> self.column_shift);
        let recent = &mut self.recent[place_of(key)];
        if recent.key == key && u64::from(recent.column) == column {
            recent.count += 1;
        } else {
            self.count_anew(address, at_ps);
        }
    }

    /// Counts one in a cell that is not the last of its place: from now on it is.
    #[inline(never)]
    fn count_anew(&mut self, address: u64, at_ps: u64) {
        while at_ps >> self.column_shift >= COLUMNS as u64 {
            self.settle();
            self.join_columns();
        }
        let row = loop {
            let key = address >> self.row_shift;
            let found = self.keys.binary_search(&key);
            if let Ok(row) = found {
                break row;
            }
            self.settle();
            match found {
                Err(row) if self.keys.len() < ROWS => {
                    self.keys.insert(row, key);
                    let at = row * COLUMNS;
                    self.counts.splice(at..at, std::iter::repeat_n(0, COLUMNS));
                    break row;
                }
                _ => self.join_rows(),
            }
        };
        let (key, column) = (self.keys[row], (at_ps >> self.column_shift) as u32);
        let recent = Recent { key, column, row: row as u32, count: 1 };
        let before = std::mem::replace(&mut self.recent[place_of(key)], recent);
        self.add(before);
    }

    /// What was recent is counted by row and column.
    fn settle(&mut self) {
        for place in 0..PLACES {
            let before = std::mem::replace(&mut self.recent[place], Recent::NONE);
            self.add(before);
        }
    }

    #[inline]
    fn add(&mut self, before: Recent) {
        if before.count > 0 {
            self.counts[before.row as usize * COLUMNS + before.column as usize] += before.count;
        }
    }

    /// The same, with all that was recent counted by row and column.
    #[must_use]
    pub fn settled(&self) -> HeatMap {
        let mut map = self.clone();
        map.settle();
        map
    }

    fn join_columns(&mut self) {
        self.column_shift += 1;
        for row in self.counts.chunks_exact_mut(COLUMNS) {
            for column in 0..COLUMNS {
                let pair = 2 * column..(2 * column + 2).min(COLUMNS);
                row[column] = if pair.start < COLUMNS { row[pair].iter().sum() } else { 0 };
            }
        }
    }

    fn join_rows(&mut self) {
        self.row_shift += 1;
        let mut kept = 0;
        for row in 0..self.keys.len() {
            let key = self.keys[row] >> 1;
            let from = row * COLUMNS..(row + 1) * COLUMNS;
            if kept > 0 && self.keys[kept - 1] == key {
                let (before, own) = self.counts.split_at_mut(from.start);
                let into = &mut before[(kept - 1) * COLUMNS..kept * COLUMNS];
                into.iter_mut().zip(own).for_each(|(sum, count)| *sum += *count);
            } else {
                self.keys[kept] = key;
                self.counts.copy_within(from, kept * COLUMNS);
                kept += 1;
            }
        }
        self.keys.truncate(kept);
        self.counts.truncate(kept * COLUMNS);
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> u64 {
        1 << self.row_shift
    }

    /// Picoseconds of a column.
    pub fn column_ps(&self) -> u64 {
        1 << self.column_shift
    }

    /// The first byte of each row, and its counts by column, in the order of addresses: as many columns as there
    /// are until the last with a count. Only of a map that is [settled](HeatMap::settled).
    pub fn rows(&self) -> impl Iterator<Item = (u64, &[u64])> {
        assert!(self.recent.iter().all(|recent| recent.count == 0), "the map is not settled");
        let used = self.columns_used();
        let rows = self.counts.chunks_exact(COLUMNS).map(move |row| &row[used.clone()]);
        self.keys.iter().map(|key| key << self.row_shift).zip(rows)
    }

    fn columns_used(&self) -> Range<usize> {
        let last = |row: &[u64]| row.iter().rposition(|count| *count > 0).map_or(0, |at| at + 1);
        0..self.counts.chunks_exact(COLUMNS).map(last).max().unwrap_or(0)
    }

    /// All that was counted.
    pub fn total(&self) -> u64 {
        let recent = self.recent.iter().map(|recent| recent.count);
        self.counts.iter().copied().chain(recent).sum()
    }
}

/// Where the last cell of a row is kept (Knuth, "The Art of Computer Programming", vol. 3, section 6.4: multiplication by
/// the golden ratio).
#[inline]
fn place_of(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

const _: () = assert!(PLACES == 256);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn of(counted: &[(u64, u64)]) -> HeatMap {
        let mut map = HeatMap::new(6, 10);
        counted.iter().for_each(|&(address, at_ps)| map.count(address, at_ps));
        map
    }

    fn cells(map: &HeatMap) -> BTreeMap<(u64, u64), u64> {
        let map = &map.settled();
        let mut cells = BTreeMap::new();
        for (address, row) in map.rows() {
            for (column, count) in (0..).zip(row).filter(|(_, count)| **count > 0) {
                cells.insert((address / map.row_bytes(), column), *count);
            }
        }
        cells
    }

    fn shift_for(values: impl Fn(u32) -> usize, least: u32, most: usize) -> u32 {
        (least..64).find(|shift| values(*shift) <= most).unwrap()
    }

    proptest! {
        #[test]
        fn cells_are_the_smallest_that_suffice_and_count_all_in_any_order(
            counted in prop::collection::vec(
                ((0..48u32, any::<u64>()), (0..50u32, any::<u64>())), 1..400,
            ),
            dense in any::<bool>(),
        ) {
            let cut = |(bits, value): (u32, u64)| value & ((1 << bits) - 1);
            let mut counted: Vec<(u64, u64)> = counted
                .into_iter()
                .map(|(address, at_ps)| (cut(address) % if dense { 1 << 20 } else { u64::MAX }, cut(at_ps)))
                .collect();
            let map = of(&counted);
            let distinct = |shift: u32| {
                let mut keys: Vec<u64> = counted.iter().map(|it| it.0 >> shift).collect();
                keys.sort_unstable();
                keys.dedup();
                keys.len()
            };
            let last_ps = counted.iter().map(|it| it.1).max().unwrap();
            let row_shift = shift_for(distinct, 6, ROWS);
            let column_shift = shift_for(|shift| (last_ps >> shift) as usize + 1, 10, COLUMNS);
            prop_assert_eq!((map.row_bytes(), map.column_ps()), (1 << row_shift, 1 << column_shift));
            let mut expected = BTreeMap::new();
            for (address, at_ps) in &counted {
                *expected.entry((address >> row_shift, at_ps >> column_shift)).or_insert(0) += 1;
            }
            prop_assert_eq!(cells(&map), expected);
            prop_assert_eq!(map.total(), counted.len() as u64);
            prop_assert!(map.settled().rows().map(|row| row.0).is_sorted_by(|a, b| a < b));
            counted.reverse();
            prop_assert_eq!(cells(&of(&counted)), cells(&map));
        }
    }

    #[test]
    fn of_nothing_there_is_no_row() {
        let map = HeatMap::new(12, 10);
        assert_eq!((map.settled().rows().count(), map.total()), (0, 0));
    }

    #[test]
    fn addresses_at_both_ends_of_the_space_are_two_rows() {
        let map = of(&[(0, 0), (u64::MAX, u64::MAX)]);
        assert_eq!(map.settled().rows().map(|row| row.0).collect::<Vec<_>>(), [0, u64::MAX - 63]);
    }
}
