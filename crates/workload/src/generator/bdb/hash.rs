//! A hash table of Berkeley DB, from formulas: buckets of linear hashing, each a page and as many further
//! ones as its pairs need (Litwin, VLDB 1980; Seltzer and Yigit, USENIX Winter 1991; layout:
//! `dbinc/db_page.h` of Berkeley DB 4.8; `hash.c`, `hash_page.c`).
//!
//! The table has as many buckets as pairs over the fill factor. Where that is no power of two, buckets that
//! were split have half the pairs of those that were not. Pairs of a bucket are as many as Poisson's law of
//! its mean draws.

use super::pages::{HEADER_BYTES, SLOT_BYTES, Visit};
use std::sync::Arc;
use tierscope_kernel::Counter;

/// Of an item, its type (`HKEYDATA`).
const ITEM_BYTES: u64 = 1;
/// The largest mean of a draw, and bits of the number of draws of a bucket.
const PART: f64 = 64.0;
const PART_BITS: u32 = 10;
/// Buckets for which it is kept how many further pages come before them.
const GROUP: u64 = 64;

/// The table. Page 0 of the file is what describes it; then come the buckets, and what they need beyond a
/// page.
#[derive(Clone, Debug)]
pub(super) struct Hash {
    /// Pairs that a page holds.
    capacity: u64,
    pair_bytes: u64,
    buckets: u64,
    /// Mean of the pairs of a bucket that was split.
    mean: f64,
    draws: Counter,
    /// Pages of each bucket, and further pages before each group.
    chains: Arc<Vec<u8>>,
    before: Arc<Vec<u64>>,
    further: u64,
}

impl Hash {
    /// Of so many pages in all, about, at least four.
    pub fn new(page_bytes: u64, key: u64, value: u64, pages: u64, seed: u64) -> Hash {
        let pair_bytes = 2 * ITEM_BYTES + key + value;
        let capacity = ((page_bytes - HEADER_BYTES) / (pair_bytes + 2 * SLOT_BYTES)).max(1);
        // Pairs of a bucket in the mean, as its manual has it (Programmer Reference, "Hash access method specific configuration").
        let fill = ((page_bytes - 32) / (key + value + 8)).max(1);
        let (mut low, mut high) = (1, pages);
        while low < high {
            let buckets = low + (high - low).div_ceil(2);
            if 1.0 + expected_pages(buckets, fill, capacity) <= pages as f64 {
                low = buckets;
            } else {
                high = buckets - 1;
            }
        }
        let mut table = Hash {
            capacity,
            pair_bytes,
            buckets: low,
            mean: mean_of(low, fill),
            draws: Counter::stream(seed, "bdb/pairs"),
            chains: Arc::default(),
            before: Arc::default(),
            further: 0,
        };
        let mut chains = Vec::with_capacity(low as usize);
        let mut before = Vec::new();
        for bucket in 0..low {
            if bucket.is_multiple_of(GROUP) {
                before.push(table.further);
            }
            let chain = table.pairs(bucket).div_ceil(capacity).clamp(1, 255);
            chains.push(chain as u8);
            table.further += chain - 1;
        }
        Hash { chains: Arc::new(chains), before: Arc::new(before), ..table }
    }

    /// Pages in all.
    pub fn pages(&self) -> u64 {
        1 + self.buckets + self.further
    }

    /// Pairs of a bucket.
    pub fn pairs(&self, bucket: u64) -> u64 {
        let split = bucket < self.buckets - whole(self.buckets) || bucket >= whole(self.buckets);
        let mean = if split { self.mean } else { 2.0 * self.mean };
        // A sum of numbers by Poisson's law is one of the sum of their means; small ones are drawn exactly.
        let parts = (mean / PART).ceil().max(1.0);
        let of = |part: u64| poisson(mean / parts, self.draws.unit_at(bucket << PART_BITS | part));
        (0..parts as u64).map(of).sum()
    }

    /// The bucket of a hashed key (`__ham_func4` and its masks).
    pub fn bucket(&self, hashed: u64) -> u64 {
        let whole = whole(self.buckets);
        let bucket = hashed % (2 * whole);
        if bucket < self.buckets { bucket } else { bucket - whole }
    }

    /// The `further`-th page of a bucket, from 0.
    pub fn page(&self, bucket: u64, further: u64) -> u64 {
        if further == 0 {
            return 1 + bucket;
        }
        let first = bucket / GROUP * GROUP;
        let within = first as usize..bucket as usize;
        let of_group: u64 = self.chains[within].iter().map(|chain| u64::from(*chain) - 1).sum();
        1 + self.buckets + self.before[(bucket / GROUP) as usize] + of_group + further - 1
    }

    /// Pages of the longest chain.
    pub fn longest(&self) -> u64 {
        self.chains.iter().copied().max().map_or(1, u64::from)
    }

    /// The pages that a search passes: what describes the table, whose count of pairs changes; then the
    /// bucket's, to the last, to which a pair is added, or to that of the pair that is deleted.
    pub fn search(&self, hashed: u64, insert: bool, draw: u64) -> Vec<Visit> {
        let bucket = self.bucket(hashed);
        let pairs = self.pairs(bucket).max(1);
        let chain = u64::from(self.chains[bucket as usize]);
        let goal = draw % pairs;
        let last = if insert { chain - 1 } else { (goal / self.capacity).min(chain - 1) };
        let of = |page, cell, cells, leaf, changed| Visit {
            page,
            cell,
            cells,
            cell_bytes: self.pair_bytes,
            slots: 2,
            leaf,
            changed,
        };
        let mut all = vec![of(0, 0, 0, false, true)];
        all.extend((0..=last).map(|number| {
            let left = pairs.saturating_sub(number * self.capacity);
            let cells = left.clamp(1, self.capacity);
            let cell = goal.saturating_sub(number * self.capacity).min(cells - 1);
            of(self.page(bucket, number), cell, cells, number == last, number == last)
        }));
        all
    }
}

/// The largest power of two up to that.
fn whole(buckets: u64) -> u64 {
    1 << buckets.ilog2()
}

/// Mean of the pairs of a bucket that was split.
fn mean_of(buckets: u64, fill: u64) -> f64 {
    (buckets * fill) as f64 / (2 * whole(buckets)) as f64
}

/// Pages of all buckets in the mean.
fn expected_pages(buckets: u64, fill: u64, capacity: u64) -> f64 {
    let chain = |mean: f64| {
        let (mut logarithm, mut sum) = (-mean, 0.0);
        let most = (4.0 * mean) as u64 + 40;
        for pairs in 0..most {
            sum += logarithm.exp() * pairs.div_ceil(capacity).max(1) as f64;
            logarithm += (mean / (pairs + 1) as f64).ln();
        }
        sum
    };
    let (mean, split) = (mean_of(buckets, fill), 2 * (buckets - whole(buckets)));
    split as f64 * chain(mean) + (buckets - split) as f64 * chain(2.0 * mean)
}

/// A number by Poisson's law, by inversion of a draw of [0, 1).
fn poisson(mean: f64, mut left: f64) -> u64 {
    let (mut chance, mut number) = ((-mean).exp(), 0);
    while left >= chance && number < 10_000 {
        left -= chance;
        number += 1;
        chance *= mean / number as f64;
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn pages_are_those_of_the_chains_without_a_gap() {
        for (page_bytes, wanted) in [(512, 4), (512, 100), (512, 900), (4096, 3000), (65_536, 500)]
        {
            let table = Hash::new(page_bytes, 16, 100, wanted, 1);
            let off = table.pages().abs_diff(wanted);
            assert!(off <= 2 + wanted / 20, "{} for {wanted}", table.pages());
            let mut pages = BTreeSet::from([0]);
            for bucket in 0..table.buckets {
                for further in 0..u64::from(table.chains[bucket as usize]) {
                    assert!(pages.insert(table.page(bucket, further)));
                }
                let room = u64::from(table.chains[bucket as usize]) * table.capacity;
                assert!(
                    table.pairs(bucket) <= room && room < table.pairs(bucket) + 2 * table.capacity
                );
            }
            assert_eq!(pages, (0..table.pages()).collect());
        }
    }

    /// Chi-square of the pairs of buckets against Poisson's law, of buckets that were split and of those
    /// that were not, whose mean is twice as large.
    #[test]
    fn buckets_have_pairs_by_the_law_of_poisson() {
        let table = Hash::new(4096, 16, 100, 8000, 5);
        let (split, whole) = (table.buckets - whole(table.buckets), whole(table.buckets));
        for (range, mean) in [(0..split, table.mean), (split..whole, 2.0 * table.mean)] {
            let all = range.clone().count() as f64;
            assert!(all > 1000.0, "{range:?}");
            let mut counts = [0.0; 200];
            range.for_each(|bucket| counts[table.pairs(bucket) as usize] += 1.0);
            let (mut chance, mut statistic, mut classes) = ((-mean).exp(), 0.0, 0.0);
            for (pairs, count) in counts.iter().enumerate() {
                if chance * all >= 8.0 {
                    statistic += (count - chance * all).powi(2) / (chance * all);
                    classes += 1.0;
                }
                chance *= mean / (pairs + 1) as f64;
            }
            // Mean and four standard deviations of chi-square.
            assert!(
                classes > 10.0 && statistic < classes + 4.0 * f64::sqrt(2.0 * classes),
                "{statistic} of {classes}"
            );
        }
    }

    /// A hashed key falls into buckets that were not split twice as often.
    #[test]
    fn keys_fall_into_buckets_as_pairs_do() {
        let table = Hash::new(512, 16, 100, 900, 1);
        let mut hits = vec![0u64; table.buckets as usize];
        let whole = whole(table.buckets);
        (0..2 * whole).for_each(|hashed| hits[table.bucket(hashed) as usize] += 1);
        let split = table.buckets - whole;
        for (bucket, hits) in (0..).zip(hits) {
            assert_eq!(hits, if bucket < split || bucket >= whole { 1 } else { 2 }, "{bucket}");
        }
    }

    /// Keys come to a bucket that was not split twice as often as to one that was, and what is deleted is any of a
    /// bucket's pairs.
    #[test]
    fn keys_come_to_buckets_by_their_part_of_all_hashes() {
        let table = Hash::new(4096, 16, 100, 900, 5);
        let keys = Counter::stream(9, "test");
        let mut met = vec![0; table.buckets as usize];
        (0..100_000).for_each(|key| met[table.bucket(keys.at(key) & 0xffff_ffff) as usize] += 1);
        let whole = 1 << table.buckets.ilog2();
        let split = |bucket: u64| bucket >= whole || bucket + whole < table.buckets;
        assert!((0..table.buckets).any(split) && !(0..table.buckets).all(split));
        let weight = |bucket| if split(bucket) { 1.0 } else { 2.0 };
        crate::goodness::have_weights(&met, (0..table.buckets).map(weight));
        let pairs = table.pairs(7);
        let mut deleted = vec![0; pairs as usize];
        for key in 0..20_000 {
            let visits = table.search(7, false, keys.at(key) >> 32);
            let last = visits[visits.len() - 1];
            let before = (visits.len() as u64 - 2) * table.capacity;
            deleted[(before + last.cell) as usize] += 1;
        }
        crate::goodness::are_alike(&deleted);
    }
}
