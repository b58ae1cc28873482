//! Random replacement.

use super::Policy;

/// Any candidate with equal chance. The lot is a hash of seed, set and number of fills so far, so
/// that it can be looked at before it is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Random {
    seed: u64,
    fills: u64,
}

/// The finalizer of splitmix64 (Steele, Lea & Flood, OOPSLA 2014): every bit of the input reaches
/// every bit of the output.
#[inline]
fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

impl Policy for Random {
    fn new(_ways: usize, seed: u64) -> Self {
        Random { seed, fills: 0 }
    }

    #[inline]
    fn words(_ways: usize) -> usize {
        0
    }

    #[inline]
    fn on_hit(&mut self, _state: &mut [u64], _set: usize, _way: usize) {}

    #[inline]
    fn on_fill(&mut self, _state: &mut [u64], _set: usize, _way: usize) {
        self.fills += 1;
    }

    #[inline]
    fn victim(&self, _state: &[u64], set: usize, mut candidates: u64) -> usize {
        let step = self.fills.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let lot = mix(mix(self.seed ^ set as u64).wrapping_add(step));
        let count = u64::from(candidates.count_ones());
        let nth = ((u128::from(lot) * u128::from(count)) >> 64) as u64;
        for _ in 0..nth {
            candidates &= candidates - 1;
        }
        candidates.trailing_zeros() as usize
    }

    #[inline]
    fn first_guess(_state: &[u64]) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::policy_laws;

    #[test]
    fn the_policys_laws_hold() {
        policy_laws::<Random>();
    }

    #[test]
    fn every_way_is_taken_about_equally_often() {
        let mut policy = Random::new(16, 3);
        let mut counts = [0u32; 16];
        for _ in 0..16_000 {
            let way = policy.victim(&[], 5, 0xffff);
            counts[way] += 1;
            policy.on_fill(&mut [], 5, way);
        }
        assert!(counts.iter().all(|&n| (800..1200).contains(&n)), "{counts:?}");
    }
}
