//! Not the most recent.

use super::{Policy, bits_for, lot};

/// Any candidate with equal chance but the way that was used last, which goes only where there is no
/// other (So & Rechtschaffen, "Cache operations by MRU change", IEEE Transactions on Computers 37(6),
/// 1988).
#[derive(Clone, Copy, Debug)]
pub struct NotMostRecent {
    seed: u64,
    fills: u64,
}

impl Policy for NotMostRecent {
    fn new(_ways: usize, seed: u64) -> Self {
        NotMostRecent { seed, fills: 0 }
    }

    /// The way that was used last.
    #[inline]
    fn words(_ways: usize) -> usize {
        1
    }

    fn hardware_bits(ways: u32) -> u32 {
        bits_for(ways)
    }

    #[inline]
    fn on_hit(&mut self, state: &mut [u64], _set: usize, way: usize) {
        state[0] = way as u64;
    }

    #[inline]
    fn on_fill(&mut self, state: &mut [u64], _set: usize, way: usize) {
        state[0] = way as u64;
        self.fills += 1;
    }

    #[inline]
    fn victim(&self, state: &[u64], set: usize, candidates: u64) -> usize {
        let others = candidates & !(1 << state[0]);
        let among = if others == 0 { candidates } else { others };
        lot::draw(self.seed, set, self.fills, among)
    }

    #[inline]
    fn first_guess(state: &[u64]) -> Option<usize> {
        Some(state[0] as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::policy_laws;

    #[test]
    fn the_policys_laws_hold() {
        policy_laws::<NotMostRecent>();
    }

    #[test]
    fn every_way_but_the_last_used_is_taken_about_equally_often() {
        let mut policy = NotMostRecent::new(5, 3);
        let mut state = [0];
        let mut counts = [0u32; 5];
        for _ in 0..8_000 {
            let way = policy.victim(&state, 5, 0b1_1111);
            counts[way] += 1;
            policy.on_fill(&mut state, 5, way);
            policy.on_hit(&mut state, 5, 2);
        }
        assert_eq!(counts[2], 0);
        let others = [counts[0], counts[1], counts[3], counts[4]];
        assert!(others.iter().all(|count| (1_800..2_200).contains(count)), "{counts:?}");
        assert_eq!(policy.victim(&state, 5, 0b100), 2, "there is no other");
    }
}
