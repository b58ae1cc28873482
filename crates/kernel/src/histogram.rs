//! Distributions of latencies.

const SUB_BITS: u32 = 9;
const SUB_BUCKETS: usize = 1 << SUB_BITS;
const EXACT_BELOW: u64 = 1 << (SUB_BITS + 1);
const LIMIT_PS: u64 = 1 << 56;
/// Buckets that are told as one: 2 to this.
const COARSE_BITS: u32 = SUB_BITS - 4;

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

    /// Standard deviation of all values in picoseconds, by those that stand for their buckets, each within 0.1 %; 0
    /// without values.
    pub fn stddev_ps(&self) -> f64 {
        let mean_ps = self.mean_ps();
        let squares: f64 =
            self.iter().map(|(ps, count)| count as f64 * (ps as f64 - mean_ps).powi(2)).sum();
        if self.min_ps() == self.max_ps { 0.0 } else { (squares / self.count as f64).sqrt() }
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
        if self.count == 0 {
            return 0;
        }
        let rank = self.rank_of(q);
        if rank == 1 {
            return self.min_ps;
        }
        if rank == self.count {
            return self.max_ps;
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

    /// Wider buckets that are not empty, from the least value to the greatest: the first and the last value of
    /// each, and its count. Each power of two from 512 ps on is cut into 16, and what lies below into parts of
    /// 32 ps, so that a bucket is at most a sixteenth of its values wide.
    pub fn coarse(&self) -> Vec<(u64, u64, u64)> {
        let mut coarse: Vec<(u64, u64, u64)> = Vec::new();
        for (place, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let group = (self.first + place) >> COARSE_BITS << COARSE_BITS;
            let from_ps = least_of(group);
            match coarse.last_mut() {
                Some(last) if last.0 == from_ps => last.2 += count,
                _ => coarse.push((from_ps, least_of(group + (1 << COARSE_BITS)) - 1, *count)),
            }
        }
        if let Some(last) = coarse.last_mut() {
            // Of what is beyond the limit, too.
            last.1 = last.1.max(self.max_ps);
        }
        coarse
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

/// The least of the values of a bucket, and how many there are.
fn range_of(bucket: usize) -> (u64, u64) {
    let shift = (bucket >> SUB_BITS).saturating_sub(1);
    let significant = (bucket - (shift << SUB_BITS)) as u64;
    (significant << shift, 1 << shift)
}

/// The least of the values of a bucket.
fn least_of(bucket: usize) -> u64 {
    range_of(bucket).0
}

/// The middle of the values of a bucket, rounded down.
fn middle_of(bucket: usize) -> u64 {
    let (least, width) = range_of(bucket);
    least + (width - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Values of every magnitude, with their numbers.
    fn values() -> impl Strategy<Value = Vec<(u64, u64)>> {
        let value = (0..57u32, any::<u64>()).prop_map(|(bits, value)| value & ((1 << bits) - 1));
        prop::collection::vec((value, 0..4u64), 0..200)
    }

    fn histogram_of(values: &[(u64, u64)]) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::new();
        for &(ps, n) in values {
            histogram.record_n(ps, n);
        }
        histogram
    }

    fn sorted(values: &[(u64, u64)]) -> Vec<u64> {
        let repeat = |&(ps, n): &(u64, u64)| std::iter::repeat_n(ps, n as usize);
        let mut sorted: Vec<u64> = values.iter().flat_map(repeat).collect();
        sorted.sort_unstable();
        sorted
    }

    proptest! {
        #[test]
        fn the_standard_deviation_is_that_of_the_values(values in values()) {
            let all = sorted(&values);
            let mean = all.iter().map(|ps| *ps as f64).sum::<f64>() / all.len().max(1) as f64;
            let squares: f64 = all.iter().map(|ps| (*ps as f64 - mean).powi(2)).sum();
            let exact = (squares / all.len().max(1) as f64).sqrt();
            let found = histogram_of(&values).stddev_ps();
            // Each value may be off by a thousandth.
            let off = all.last().copied().unwrap_or(0) as f64 / 1000.0;
            prop_assert!((found - exact).abs() <= off, "{found} for {exact}");
        }
    }

    fn is_within_a_thousandth(value_ps: u64, exact_ps: u64) -> bool {
        value_ps.abs_diff(exact_ps) * 1000 <= exact_ps
    }

    #[test]
    fn a_histogram_without_values_is_all_zero() {
        let empty = LatencyHistogram::default();
        assert_eq!((empty.count(), empty.sum_ps(), empty.mean_ps()), (0, 0, 0.0));
        assert_eq!((empty.min_ps(), empty.max_ps(), empty.quantile_ps(0.5)), (0, 0, 0));
        assert_eq!(empty.iter().next(), None);
    }

    #[test]
    fn buckets_are_adjacent_and_in_order() {
        for bits in 0..56 {
            for value in [1u64 << bits, (1 << bits) + 1, (2 << bits) - 2] {
                let step = bucket_of(value + 1) - bucket_of(value);
                assert!(step == 1 || step == 0 && value >= EXACT_BELOW, "{value}");
            }
            assert_eq!(bucket_of(2 << bits), bucket_of((2 << bits) - 1) + usize::from(bits < 55));
        }
    }

    #[test]
    fn values_beyond_the_limit_are_counted_in_the_last_bucket() {
        let mut histogram = LatencyHistogram::new();
        histogram.record(u64::MAX);
        histogram.record(LIMIT_PS - 1);
        assert_eq!(histogram.iter().map(|(_, count)| count).collect::<Vec<_>>(), [2]);
        assert_eq!((histogram.max_ps(), histogram.quantile_ps(1.0)), (u64::MAX, u64::MAX));
        assert_eq!(histogram.sum_ps(), u128::from(u64::MAX) + u128::from(LIMIT_PS - 1));
    }

    #[test]
    fn memory_is_bounded_and_grows_with_the_range_only() {
        let mut histogram = LatencyHistogram::new();
        (1 << 20..1 << 21).step_by(1000).for_each(|ps| histogram.record(ps));
        assert_eq!(histogram.counts.capacity(), SUB_BUCKETS);
        histogram.record(0);
        histogram.record(u64::MAX);
        assert_eq!(histogram.counts.len() * size_of::<u64>(), 192 << 10);
    }

    #[test]
    fn a_share_that_rounds_up_keeps_its_rank() {
        let values: Vec<(u64, u64)> = (1..=100).map(|ps| (ps, 1)).collect();
        let histogram = histogram_of(&values);
        for percent in 1..=100u64 {
            assert_eq!(histogram.quantile_ps(percent as f64 / 100.0), percent);
        }
        assert_eq!([-1.0, 0.0, f64::NAN].map(|q| histogram.quantile_ps(q)), [1; 3]);
        assert_eq!(histogram.quantile_ps(2.0), 100);
    }

    proptest! {
        #[test]
        fn quantiles_are_within_a_thousandth_of_the_sorted_list(
            values in values(), shares in prop::collection::vec(0.0..=1.0f64, 10),
        ) {
            let (histogram, sorted) = (histogram_of(&values), sorted(&values));
            prop_assume!(!sorted.is_empty());
            for q in shares {
                let shares = (1..=sorted.len()).map(|rank| rank as f64 / sorted.len() as f64);
                let exact_ps = sorted[shares.take_while(|&share| share < q).count()];
                let value_ps = histogram.quantile_ps(q);
                prop_assert!(is_within_a_thousandth(value_ps, exact_ps), "{value_ps} {exact_ps}");
            }
            prop_assert_eq!(histogram.quantile_ps(0.0), sorted[0]);
            prop_assert_eq!(histogram.quantile_ps(1.0), sorted[sorted.len() - 1]);
        }

        #[test]
        fn count_sum_and_extremes_are_exact(values in values()) {
            let (histogram, sorted) = (histogram_of(&values), sorted(&values));
            let sum_ps: u128 = sorted.iter().map(|&ps| u128::from(ps)).sum();
            prop_assert_eq!(histogram.count(), sorted.len() as u64);
            prop_assert_eq!(histogram.sum_ps(), sum_ps);
            prop_assert_eq!(histogram.min_ps(), sorted.first().copied().unwrap_or(0));
            prop_assert_eq!(histogram.max_ps(), sorted.last().copied().unwrap_or(0));
            let mean_ps = sum_ps as f64 / (sorted.len() as f64).max(1.0);
            prop_assert_eq!(histogram.mean_ps(), mean_ps);
        }

        #[test]
        fn buckets_account_for_every_value_in_order(values in values()) {
            let (histogram, sorted) = (histogram_of(&values), sorted(&values));
            let buckets: Vec<(u64, u64)> = histogram.iter().collect();
            prop_assert!(buckets.is_sorted_by(|a, b| a.0 < b.0));
            prop_assert!(buckets.iter().all(|bucket| bucket.1 > 0));
            let spread = buckets.iter().flat_map(|&(ps, n)| std::iter::repeat_n(ps, n as usize));
            prop_assert_eq!(spread.clone().count(), sorted.len());
            prop_assert!(spread.zip(sorted).all(|(ps, exact)| is_within_a_thousandth(ps, exact)));
        }

        #[test]
        fn coarse_buckets_hold_each_value_once_and_are_a_sixteenth_wide(values in values()) {
            let (histogram, sorted) = (histogram_of(&values), sorted(&values));
            let coarse = histogram.coarse();
            prop_assert!(coarse.is_sorted_by(|a, b| a.1 < b.0));
            for &(from_ps, to_ps, count) in &coarse {
                prop_assert!(to_ps - from_ps < (from_ps / 16).max(32), "{from_ps} {to_ps}");
                let held = sorted.iter().filter(|ps| (from_ps..=to_ps).contains(*ps)).count();
                prop_assert_eq!(held as u64, count);
            }
            prop_assert_eq!(coarse.iter().map(|it| it.2).sum::<u64>(), sorted.len() as u64);
        }

        #[test]
        fn merging_equals_recording_everything(a in values(), b in values()) {
            let mut merged = histogram_of(&a);
            merged.merge(&histogram_of(&b));
            prop_assert_eq!(merged, histogram_of(&[a, b].concat()));
        }

        #[test]
        fn quantiles_agree_with_hdrhistogram(values in values(), q in 0.0..=1.0f64) {
            let histogram = histogram_of(&values);
            prop_assume!(histogram.count() > 0);
            let mut reference =
                hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1 << 56, 3).unwrap();
            for &(ps, n) in &values {
                reference.record_n(ps, n).unwrap();
            }
            let (ours, theirs) = (histogram.quantile_ps(q), reference.value_at_quantile(q));
            // Each is within a thousandth of the same value.
            prop_assert!(ours.abs_diff(theirs) as f64 <= 0.0021 * theirs as f64, "{ours} {theirs}");
        }
    }
}
