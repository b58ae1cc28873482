//! Remainders by a fixed divisor, by multiplication.

/// Computes `n % divisor` for `n` below 2^[`Modulo::BITS`]: by a mask where the divisor is a power
/// of two, else by multiplication with a rounded-up reciprocal (Granlund & Montgomery, PLDI 1994,
/// theorem 4.2: with l = ⌈log2 d⌉ and m = ⌈2^(56+l) / d⌉, ⌊n/d⌋ = ⌊n·m / 2^(56+l)⌋ for n < 2^56).
#[derive(Clone, Copy, Debug)]
pub struct Modulo {
    divisor: u64,
    /// `divisor − 1` for a power of two, else `u64::MAX`, which no divisor gives.
    mask: u64,
    reciprocal: u64,
    shift: u32,
}

impl Modulo {
    /// Numerators have at most this many bits.
    pub const BITS: u32 = 56;

    /// The largest divisor.
    pub const MOST: u64 = 1 << 32;

    /// Remainders by `divisor`, from 1 to [`Modulo::MOST`].
    pub fn new(divisor: u64) -> Self {
        assert!((1..=Self::MOST).contains(&divisor), "a divisor lies from 1 to 2^32: {divisor}");
        let mask = if divisor.is_power_of_two() { divisor - 1 } else { u64::MAX };
        let bits = u64::BITS - (divisor - 1).leading_zeros();
        let shift = Self::BITS + bits;
        let reciprocal = (1u128 << shift).div_ceil(u128::from(divisor)) as u64;
        Modulo { divisor, mask, reciprocal, shift }
    }

    /// The divisor.
    #[inline]
    pub fn divisor(&self) -> u64 {
        self.divisor
    }

    /// `n % divisor`.
    #[inline]
    pub fn of(&self, n: u64) -> u64 {
        debug_assert!(n >> Self::BITS == 0);
        if self.mask != u64::MAX {
            return n & self.mask;
        }
        let quotient = ((u128::from(n) * u128::from(self.reciprocal)) >> self.shift) as u64;
        n - quotient * self.divisor
    }
}

#[cfg(test)]
mod tests {
    use super::Modulo;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn the_remainder_is_that_of_division(divisor in 1u64..=1 << 32, n in 0u64..1 << 56) {
            prop_assert_eq!(Modulo::new(divisor).of(n), n % divisor);
        }

        #[test]
        fn the_remainder_is_right_beside_multiples(
            divisor in 1u64..=1 << 32, quotient in 0u64..1 << 56, offset in 0u64..3,
        ) {
            let multiple = quotient.min(((1 << 56) - 2) / divisor) * divisor;
            let n = (multiple + offset).saturating_sub(1).min((1 << 56) - 1);
            prop_assert_eq!(Modulo::new(divisor).of(n), n % divisor);
        }
    }

    #[test]
    fn small_divisors_are_right_at_the_end_of_the_range() {
        for divisor in 1..2000 {
            for n in (1 << 56) - 2000..1 << 56 {
                assert_eq!(Modulo::new(divisor).of(n), n % divisor, "{n} % {divisor}");
            }
        }
    }
}
