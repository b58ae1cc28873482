//! Maps from numbers: of lines, pages, places.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Values by number. The order in which they come is the same on every computer, and means nothing.
pub type NumberMap<T> = HashMap<u64, T, BuildHasherDefault<NumberHasher>>;

/// Spreads numbers: Fibonacci hashing (Knuth, TAOCP vol. 3, 6.4).
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.0 ^ u64::from(*byte)));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        // The table takes its place from the low bits and a tag from the high ones.
        let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ spread >> 32;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that lie a power of two apart, as lines and pages do, must not share the low bits by which a table
    /// of 1024 places finds them, nor the high ones by which it tells them from each other.
    #[test]
    fn numbers_that_lie_a_power_of_two_apart_are_spread() {
        for shift in 0..30 {
            let hash = |n: u64| {
                let mut hasher = NumberHasher::default();
                hasher.write_u64(n << shift);
                hasher.finish()
            };
            let different = |bits: &dyn Fn(u64) -> u64| {
                (0..1024u64).map(|n| bits(hash(n))).collect::<std::collections::BTreeSet<_>>().len()
            };
            assert!(different(&|hash| hash & 1023) > 300, "{shift}");
            assert!(different(&|hash| hash >> 57) > 64, "{shift}");
        }
    }
}
