//! Distributions of latencies.

const SUB_BITS: u32 = 9;
const SUB_BUCKETS: usize = 1 << SUB_BITS;
const EXACT_BELOW: u64 = 1 << (SUB_BITS + 1);
const LIMIT_PS: u64 = 1 << 56;

/// A histogram of latencies in picoseconds, with log-linear buckets: each power of two is cut into
/// 512. Below 1,024 ps values are exact; above, a bucket stands for its middle, which is less than
/// 0.1 % from each of its values. Count, sum, least and greatest value are always exact.
///
/// Values of 2⁵⁶ ps (20 hours) and more fall into the last bucket. Memory grows with the powers of
/// two between the least and the greatest value, to 192 KiB at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyHistogram {
    count: u64,
    sum_ps: u128,
    min_ps: u64,
    max_ps: u64,
    /// Index of the first bucket of `counts`: a multiple of [`SUB_BUCKETS`].
    first: usize,
    counts: Vec<u64>,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        LatencyHistogram::new()
    }
}

impl LatencyHistogram {
    /// No values.
    pub const fn new() -> Self {
        LatencyHistogram {
            count: 0,
            sum_ps: 0,
            min_ps: u64::MAX,
            max_ps: 0,
            first: 0,
            counts: Vec::new(),
        }
    }

    /// Adds the value `ps`.
    #[inline]
    pub fn record(&mut self, ps: u64) {
        self.record_n(ps, 1);
    }

    /// Adds the value `ps` `n` times.
    #[inline]
    pub fn record_n(&mut self, ps: u64, n: u64) {
        if n == 0 {
            return;
        }
        let bucket = bucket_of(ps);
        match self.counts.get_mut(bucket.wrapping_sub(self.first)) {
            Some(count) => *count += n,
            None => self.record_outside(bucket, n),
        }
        self.count += n;
        self.sum_ps += u128::from(ps) * u128::from(n);
        self.min_ps = self.min_ps.min(ps);
        self.max_ps = self.max_ps.max(ps);
    }

    #[cold]
    #[inline(never)]
    fn record_outside(&mut self, bucket: usize, n: u64) {
        self.cover(bucket, bucket + 1);
        self.counts[bucket - self.first] += n;
    }

    /// Makes room for the buckets from `start` to before `end`, in whole rows of sub-buckets.
    fn cover(&mut self, start: usize, end: usize) {
        let start = start / SUB_BUCKETS * SUB_BUCKETS;
        let end = end.next_multiple_of(SUB_BUCKETS);
        if self.counts.is_empty() {
            self.first = start;
        }
        if start < self.first {
            self.counts.splice(0..0, std::iter::repeat_n(0, self.first - start));
            self.first = start;
        }
        if end > self.first + self.counts.len() {
            let more = end - self.first - self.counts.len();
            self.counts.reserve_exact(more);
            self.counts.resize(end - self.first, 0);
        }
    }

    /// Number of values.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of all values in picoseconds, exact.
    #[inline]
    pub fn sum_ps(&self) -> u128 {
        self.sum_ps
    }

    /// Mean of all values in picoseconds; 0 without values.
    pub fn mean_ps(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ps as f64 / self.count as f64 }
    }

    /// The least value, exact; 0 without values.
    pub fn min_ps(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min_ps }
    }

    /// The greatest value, exact; 0 without values.
    pub fn max_ps(&self) -> u64 {
        self.max_ps
    }

    /// The least value to which at least the share `q` of all values is equal or below: the
    /// nearest rank, within 0.1 %. `q` below 0 or NaN counts as 0 (the least value), above 1 as 1
    /// (the greatest). 0 without values.
    pub fn quantile_ps(&self, q: f64) -> u64 {
        if q >= 1.0 || self.count == 0 {
            return self.max_ps;
        }
        let rank = self.rank_of(q);
        if rank == 1 {
            return self.min_ps;
        }
        let mut below = 0;
        for (value_ps, count) in self.iter() {
            below += count;
            if below >= rank {
                return value_ps;
            }
        }
        self.max_ps
    }

    /// The least rank from 1 to `count` whose share of the count is `q` or more. The product alone
    /// would be off by one where rounding lifts it above a whole number (0.07 × 100).
    fn rank_of(&self, q: f64) -> u64 {
        let count = self.count as f64;
        let rank = ((q * count).ceil() as u64).clamp(1, self.count);
        if rank > 1 && (rank - 1) as f64 / count >= q { rank - 1 } else { rank }
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.cover(other.first, other.first + other.counts.len());
        let places = &mut self.counts[other.first - self.first..];
        for (mine, theirs) in places.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum_ps += other.sum_ps;
        self.min_ps = self.min_ps.min(other.min_ps);
        self.max_ps = self.max_ps.max(other.max_ps);
    }

    /// The value in picoseconds that a bucket stands for, and its count, of each bucket that is
    /// not empty, from the least value to the greatest.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts.iter().enumerate().filter(|&(_, &count)| count > 0).map(|(place, &count)| {
            (middle_of(self.first + place).clamp(self.min_ps, self.max_ps), count)
        })
    }
}

/// The bucket of a value. With a shift that leaves ten significant bits, buckets of successive
/// powers of two are adjacent: the leading bit adds one row by itself.
#[inline]
fn bucket_of(ps: u64) -> usize {
    let ps = ps.min(LIMIT_PS - 1);
    let shift = u64::BITS - 1 - SUB_BITS - (ps | (EXACT_BELOW - 1)).leading_zeros();
    ((shift as usize) << SUB_BITS) + (ps >> shift) as usize
}

/// The middle of the values of a bucket, rounded down.
fn middle_of(bucket: usize) -> u64 {
    let shift = (bucket >> SUB_BITS).saturating_sub(1);
    let significant = (bucket - (shift << SUB_BITS)) as u64;
    let width = 1u64 << shift;
    significant * width + (width - 1) / 2
}
