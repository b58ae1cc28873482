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

/// A random order of the numbers 0 to n − 1, in constant memory.
///
/// A Feistel network over the least power of two that holds n; what falls outside is encrypted
/// again until it falls inside (cycle walking: Black and Rogaway, "Ciphers with arbitrary finite
/// domains", CT-RSA 2002), fewer than two times on average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permutation {
    n: u64,
    low_bits: u32,
    low_mask: u64,
    high_mask: u64,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The order `name` of a run with `seed`, over 0 to `n` − 1.
    pub fn new(seed: u64, name: &str, n: u64) -> Self {
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        let low_bits = bits / 2;
        let counter = Counter::stream(seed, name);
        Permutation {
            n,
            low_bits,
            low_mask: (1 << low_bits) - 1,
            high_mask: (1 << (bits - low_bits)) - 1,
            keys: std::array::from_fn(|round| counter.at(round as u64)),
        }
    }

    /// How many numbers are permuted.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.n
    }

    /// The number at place `i`.
    ///
    /// # Panics
    /// If `i` is not below n.
    #[inline]
    pub fn at(&self, i: u64) -> u64 {
        assert!(i < self.n, "place {i} of a permutation of {}", self.n);
        self.walk(i, |halves| {
            for pair in self.keys.chunks_exact(2) {
                self.round(halves, pair[0], pair[1]);
            }
        })
    }

    /// The place of number `i`: `inverse(at(i))` is `i`.
    ///
    /// # Panics
    /// If `i` is not below n.
    #[inline]
    pub fn inverse(&self, i: u64) -> u64 {
        assert!(i < self.n, "number {i} of a permutation of {}", self.n);
        self.walk(i, |halves| {
            for pair in self.keys.rchunks_exact(2) {
                self.unround(halves, pair[0], pair[1]);
            }
        })
    }

    #[inline]
    fn walk(&self, i: u64, encrypt: impl Fn(&mut (u64, u64))) -> u64 {
        let mut halves = (i & self.low_mask, i >> self.low_bits);
        loop {
            encrypt(&mut halves);
            let number = halves.1 << self.low_bits | halves.0;
            if number < self.n {
                return number;
            }
        }
    }

    #[inline]
    fn round(&self, (low, high): &mut (u64, u64), first: u64, second: u64) {
        *high ^= scramble(*low, first) & self.high_mask;
        *low ^= scramble(*high, second) & self.low_mask;
    }

    #[inline]
    fn unround(&self, (low, high): &mut (u64, u64), first: u64, second: u64) {
        *low ^= scramble(*high, second) & self.low_mask;
        *high ^= scramble(*low, first) & self.high_mask;
    }
}

/// The function of a Feistel round: half a word (at most 32 bits), multiplied by an odd key-free
/// constant after the key is added, its well-mixed upper half returned.
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
