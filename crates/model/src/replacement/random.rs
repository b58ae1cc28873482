//! Random replacement.

use super::{Policy, lot};

/// Any candidate with equal chance. The lot is a hash of seed, set and number of fills so far, so
/// that it can be looked at before it is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Random {
    seed: u64,
    fills: u64,
}

impl Policy for Random {
    fn new(_ways: usize, seed: u64) -> Self {
        Random { seed, fills: 0 }
    }

    #[inline]
    fn words(_ways: usize) -> usize {
        0
    }

    fn hardware_bits(_ways: u32) -> u32 {
        0
    }

    fn notes_uses() -> bool {
        false
    }

    #[inline]
    fn on_hit(&mut self, _state: &mut [u64], _set: usize, _way: usize) {}

    #[inline]
    fn on_fill(&mut self, _state: &mut [u64], _set: usize, _way: usize) {
        self.fills += 1;
    }

    #[inline]
    fn victim(&self, _state: &[u64], set: usize, candidates: u64) -> usize {
        lot::draw(self.seed, set, self.fills, candidates)
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
