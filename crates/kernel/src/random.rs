//! Random streams with names.
//!
//! A stream is chosen by the run's seed and by a name, so that one part's draws never shift
//! another's. [`Random`] goes forward only; [`Counter`] and [`Permutation`] answer at any index,
//! for workloads that seek.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
const UNIT: f64 = 1.0 / (1u64 << 53) as f64;

/// A sequential stream: xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number
/// generators", ACM TOMS 47(4), 2021).
///
/// ```
/// use tierscope_kernel::Random;
/// let mut random = Random::stream(1, "placement");
/// let mut again = Random::stream(1, "placement");
/// assert_eq!(random.below(6), again.below(6));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    state: Xoshiro256PlusPlus,
}

impl Random {
    /// The stream `name` of a run with `seed`, from its beginning.
    pub fn stream(seed: u64, name: &str) -> Self {
        Random { state: Xoshiro256PlusPlus::seed_from_u64(stream_key(seed, name)) }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state.next_u64()
    }

    /// A number from 0 to `n` − 1, each exactly as likely (Lemire, "Fast random integer generation
    /// in an interval", ACM TOMACS 29(1), 2019).
    ///
    /// # Panics
    /// If `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        let first = self.next_u64();
        bounded(n, first, |_| self.next_u64())
    }

    /// True with probability `p`; never for 0 or less or NaN, always for 1 or more. Draws once,
    /// whatever `p` is.
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit_f64() < p
    }

    /// A number of [0, 1), a multiple of 2⁻⁵³.
    #[inline]
    pub fn unit_f64(&mut self) -> f64 {
        unit(self.next_u64())
    }
}

/// A stream without state: any index is answered at once, in any order.
///
/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014) gives its n-th number directly; here it is keyed before and after its mixing function
/// and mixed twice, so that streams are not shifted copies of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    inner_key: u64,
    outer_key: u64,
}

impl Counter {
    /// The stream `name` of a run with `seed`.
    pub fn stream(seed: u64, name: &str) -> Self {
        let inner_key = stream_key(seed, name);
        Counter { inner_key, outer_key: mix(inner_key ^ GOLDEN_RATIO) }
    }

    /// The 64 random bits of `index`.
    #[inline]
    pub fn at(&self, index: u64) -> u64 {
        let weyl = self.inner_key.wrapping_add(index.wrapping_mul(GOLDEN_RATIO));
        mix(mix(weyl) ^ self.outer_key)
    }

    /// The number of `index`, from 0 to `n` − 1, each exactly as likely.
    ///
    /// # Panics
    /// If `n` is 0.
    #[inline]
    pub fn below_at(&self, index: u64, n: u64) -> u64 {
        bounded(n, self.at(index), |refused| mix(refused.wrapping_add(self.outer_key)))
    }

    /// The number of `index` in [0, 1), a multiple of 2⁻⁵³.
    #[inline]
    pub fn unit_at(&self, index: u64) -> f64 {
        unit(self.at(index))
    }
}

const ROUNDS: usize = 6;

/// A smaller table than 8 × 8 would make some orders of a few numbers likelier than others.
const LEAST_BITS: u32 = 3;

/// A random order of the numbers 0 to n − 1, in constant memory.
///
/// A Feistel network over the least table of 2ᵏ columns, about as many as √n, that holds n: in
/// turn the row is shifted by a function of the column and the column changed by a function of the
/// row. What falls into the few places behind the n-th is sent through again until it falls
/// before it (cycle walking: Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA
/// 2002).
///
/// ```
/// use tierscope_kernel::Permutation;
/// let order = Permutation::new(1, "pages", 1 << 40);
/// assert_eq!(order.inverse(order.at(123_456_789)), 123_456_789);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permutation {
    n: u64,
    rows: u64,
    column_bits: u32,
    column_mask: u64,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The order `name` of a run with `seed`, over 0 to `n` − 1.
    pub fn new(seed: u64, name: &str, n: u64) -> Self {
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        let column_bits = (bits / 2).max(LEAST_BITS);
        let counter = Counter::stream(seed, name);
        Permutation {
            n,
            rows: n.div_ceil(1 << column_bits).max(1 << LEAST_BITS),
            column_bits,
            column_mask: (1 << column_bits) - 1,
            keys: std::array::from_fn(|round| counter.at(round as u64)),
        }
    }

    /// The number at place `i`.
    ///
    /// # Panics
    /// If `i` is not below n.
    #[inline]
    pub fn at(&self, i: u64) -> u64 {
        assert!(i < self.n, "place {i} of a permutation of {}", self.n);
        self.walk(i, |mut row, mut column| {
            for keys in self.keys.chunks_exact(2) {
                row += self.shift(column, keys[0]);
                row -= if row < self.rows { 0 } else { self.rows };
                column ^= scramble(row, keys[1]) & self.column_mask;
            }
            (row, column)
        })
    }

    /// The place of number `i`: `inverse(at(i))` is `i`.
    ///
    /// # Panics
    /// If `i` is not below n.
    #[inline]
    pub fn inverse(&self, i: u64) -> u64 {
        assert!(i < self.n, "number {i} of a permutation of {}", self.n);
        self.walk(i, |mut row, mut column| {
            for keys in self.keys.rchunks_exact(2) {
                column ^= scramble(row, keys[1]) & self.column_mask;
                let shift = self.shift(column, keys[0]);
                row += if row < shift { self.rows } else { 0 };
                row -= shift;
            }
            (row, column)
        })
    }

    #[inline]
    fn walk(&self, i: u64, step: impl Fn(u64, u64) -> (u64, u64)) -> u64 {
        let (mut row, mut column) = (i >> self.column_bits, i & self.column_mask);
        loop {
            (row, column) = step(row, column);
            let place = row << self.column_bits | column;
            if place < self.n {
                return place;
            }
        }
    }

    /// By how many rows a round shifts the places of `column`.
    #[inline]
    fn shift(&self, column: u64, key: u64) -> u64 {
        (scramble(column, key) * self.rows) >> 32
    }
}

/// The function of a Feistel round: 32 bits, each of which depends on all bits of row or column
/// (at most 32) and of the key.
#[inline]
fn scramble(half: u64, key: u64) -> u64 {
    let product = (half ^ key).wrapping_mul(GOLDEN_RATIO);
    (product ^ product >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
}

/// The key of a stream: FNV-1a (Fowler, Noll and Vo) of its name, mixed with the seed. Part of the
/// meaning of a seed: it never changes.
fn stream_key(seed: u64, name: &str) -> u64 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mix(mix(seed.wrapping_add(GOLDEN_RATIO)) ^ hash)
}

/// The mixing function of SplitMix64: a bijection in which each bit of the argument changes each
/// bit of the result with probability one half.
#[inline]
fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[inline]
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * UNIT
}

/// Lemire's method: the upper half of `bits` × n, unless the lower half is among the 2⁶⁴ mod n
/// least, which would be one too many for some numbers; then `again` makes new bits.
#[inline]
fn bounded(n: u64, bits: u64, again: impl FnMut(u64) -> u64) -> u64 {
    assert!(n > 0, "no number is below 0");
    let product = u128::from(bits) * u128::from(n);
    if (product as u64) < n {
        return bounded_checked(n, bits, again);
    }
    (product >> 64) as u64
}

#[cold]
fn bounded_checked(n: u64, mut bits: u64, mut again: impl FnMut(u64) -> u64) -> u64 {
    let surplus = n.wrapping_neg() % n;
    loop {
        let product = u128::from(bits) * u128::from(n);
        if product as u64 >= surplus {
            return (product >> 64) as u64;
        }
        bits = again(bits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, HashSet};

    #[test]
    fn the_mixing_function_is_that_of_splitmix64() {
        // The first two outputs of the authors' splitmix64.c for seed 0.
        assert_eq!(mix(GOLDEN_RATIO), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(GOLDEN_RATIO.wrapping_mul(2)), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn sequential_streams_never_change() {
        let mut random = Random::stream(42, "golden");
        assert_eq!(
            [(); 3].map(|()| random.next_u64()),
            [8_647_256_670_730_359_733, 16_361_335_671_045_406_352, 4_740_377_365_060_852_924]
        );
        assert_eq!([(); 6].map(|()| random.below(1000)), [250, 335, 481, 941, 295, 606]);
        assert_eq!(random.unit_f64(), 0.37546287573780945);
        assert_eq!(Random::stream(0, "").next_u64(), 12_528_691_612_956_660_509);
    }

    #[test]
    fn counter_streams_never_change() {
        let counter = Counter::stream(42, "golden");
        assert_eq!(
            [0, 1, u64::MAX].map(|index| counter.at(index)),
            [18_158_980_888_860_329_008, 7_564_013_979_899_690_709, 821_071_171_218_311_629]
        );
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|index| counter.below_at(index, 1000)),
            [984, 410, 578, 13, 941, 921]
        );
        assert_eq!(counter.unit_at(7), 0.05601737336520429);
        let half = (1 << 63) + 1;
        assert_eq!(
            [0, 1, 2, 3].map(|index| counter.below_at(index, half)),
            [
                9_079_490_444_430_164_504,
                3_782_006_989_949_845_354,
                302_915_666_372_047_520,
                128_947_678_537_448_645
            ]
        );
    }

    #[test]
    fn permutations_never_change() {
        let order = |n| Permutation::new(42, "golden", n);
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(|i| order(7).at(i)), [5, 2, 4, 0, 1, 6, 3]);
        assert_eq!([0, 1, 999_999].map(|i| order(1_000_000).at(i)), [717_778, 556_819, 324_015]);
        assert_eq!(
            [0, u64::MAX - 1].map(|i| order(u64::MAX).at(i)),
            [13_578_104_098_443_348_620, 13_037_990_932_937_474_469]
        );
    }

    #[test]
    fn seed_and_name_choose_the_stream() {
        let mut firsts = HashSet::new();
        for seed in 0..50 {
            for name in ["", "a", "b", "ab", "ba", "core-0", "core-1"] {
                assert!(firsts.insert(Random::stream(seed, name).next_u64()));
                assert!(firsts.insert(Counter::stream(seed, name).at(0)));
            }
        }
    }

    #[test]
    fn chance_draws_once_and_knows_its_limits() {
        let mut random = Random::stream(1, "chance");
        let mut twin = random.clone();
        for p in [0.0, -1.0, f64::NAN, 1.0, 2.0, 0.5] {
            let drawn = random.chance(p);
            assert_eq!(drawn, twin.unit_f64() < p);
            assert!(p == 0.5 || drawn == (p >= 1.0));
        }
        assert_eq!(random, twin);
    }

    /// Pearson's statistic over its degrees of freedom: near 1 for uniform counts.
    fn unevenness(counts: &[u64]) -> f64 {
        let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        let squares: f64 = counts.iter().map(|&c| (c as f64 - mean).powi(2) / mean).sum();
        squares / (counts.len() - 1) as f64
    }

    #[test]
    fn draws_below_n_are_uniform() {
        let mut random = Random::stream(3, "uniform");
        let counter = Counter::stream(3, "uniform");
        let (mut drawn, mut seeked) = (vec![0; 1000], vec![0; 1000]);
        for index in 0..500_000 {
            drawn[random.below(1000) as usize] += 1;
            seeked[counter.below_at(index, 1000) as usize] += 1;
        }
        // Five standard deviations of chi-square with 999 degrees of freedom.
        let bound = 1.0 + 5.0 * (2.0f64 / 999.0).sqrt();
        assert!(unevenness(&drawn) < bound && unevenness(&seeked) < bound);
    }

    #[test]
    fn draws_are_unbiased_where_n_does_not_divide_the_range() {
        // Without rejection, a third of the numbers below ¾ · 2⁶⁴ would come twice as often.
        let n = 3 << 62;
        let mut random = Random::stream(4, "thirds");
        let counter = Counter::stream(4, "thirds");
        let (mut drawn, mut seeked) = ([0; 3], [0; 3]);
        for index in 0..300_000 {
            drawn[(random.below(n) % 3) as usize] += 1;
            seeked[(counter.below_at(index, n) % 3) as usize] += 1;
        }
        assert!(unevenness(&drawn) < 8.0 && unevenness(&seeked) < 8.0);
    }

    #[test]
    fn neighbouring_indices_are_independent() {
        let counter = Counter::stream(5, "neighbours");
        let flips: u32 = (0..100_000u64)
            .map(|index| (counter.at(index) ^ counter.at(index + 1)).count_ones())
            .sum();
        let mean = f64::from(flips) / 100_000.0;
        assert!((mean - 32.0).abs() < 5.0 * 4.0 / 100_000f64.sqrt(), "{mean}");
    }

    #[test]
    fn all_orders_of_a_few_numbers_are_equally_likely() {
        let mut orders: BTreeMap<Vec<u64>, u64> = BTreeMap::new();
        for seed in 0..24_000 {
            let order = Permutation::new(seed, "orders", 5);
            *orders.entry((0..5).map(|i| order.at(i)).collect()).or_default() += 1;
        }
        let counts: Vec<u64> = orders.into_values().collect();
        assert_eq!(counts.len(), 120);
        assert!(unevenness(&counts) < 1.0 + 5.0 * (2.0f64 / 119.0).sqrt());
    }

    #[test]
    #[should_panic(expected = "place 3 of a permutation of 3")]
    fn places_beyond_a_permutation_are_refused() {
        Permutation::new(0, "small", 3).at(3);
    }

    proptest! {
        #[test]
        fn every_number_has_exactly_one_place(seed: u64, n in 1..3000u64) {
            let order = Permutation::new(seed, "bijection", n);
            let mut seen = vec![false; n as usize];
            for i in 0..n {
                let number = order.at(i);
                prop_assert!(!std::mem::replace(&mut seen[number as usize], true));
                prop_assert_eq!(order.inverse(number), i);
            }
        }

        #[test]
        fn the_inverse_undoes_a_permutation_of_any_size(seed: u64, n in 1..=u64::MAX, i: u64) {
            let order = Permutation::new(seed, "inverse", n);
            let i = i % n;
            prop_assert!(order.at(i) < n);
            prop_assert_eq!(order.inverse(order.at(i)), i);
            prop_assert_eq!(order.at(order.inverse(i)), i);
        }

        #[test]
        fn draws_stay_below_n(seed: u64, n in 1..=u64::MAX) {
            let mut random = Random::stream(seed, "below");
            let counter = Counter::stream(seed, "below");
            for index in 0..20 {
                prop_assert!(random.below(n) < n);
                prop_assert!(counter.below_at(index, n) < n);
                prop_assert!((0.0..1.0).contains(&random.unit_f64()));
                prop_assert!((0.0..1.0).contains(&counter.unit_at(index)));
            }
        }
    }
}
