//! Least recently used, exactly, for any number of ways up to 64.
//!
//! \[HYB15\] §2.2 (hybrid), and the usual assumption for on-chip caches in the simulators that the
//! papers used.

use super::{Policy, recency};

/// Least recently used: the ways of each set in the order of their last use, a byte each.
#[derive(Clone, Copy, Debug)]
pub struct Lru {
    ways: u8,
}

impl Policy for Lru {
    fn new(ways: usize, _seed: u64) -> Self {
        Lru { ways: ways as u8 }
    }

    #[inline]
    fn words(ways: usize) -> usize {
        recency::words(ways)
    }

    fn hardware_bits(ways: u32) -> u32 {
        recency::hardware_bits(ways)
    }

    #[inline]
    fn on_hit(&mut self, state: &mut [u64], _set: usize, way: usize) {
        recency::move_to_front(state, way);
    }

    #[inline]
    fn on_fill(&mut self, state: &mut [u64], _set: usize, way: usize) {
        recency::move_to_front(state, way);
    }

    #[inline]
    fn victim(&self, state: &[u64], _set: usize, candidates: u64) -> usize {
        recency::last(state, usize::from(self.ways), candidates)
    }

    #[inline]
    fn first_guess(state: &[u64]) -> Option<usize> {
        Some(recency::front(state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{policy_follows, policy_laws};
    use crate::replacement::recency::tests::List;

    #[test]
    fn the_policys_laws_hold() {
        policy_laws::<Lru>();
    }

    #[test]
    fn lru_gives_the_least_recently_used_candidate() {
        policy_follows::<Lru, _>(|ways| List::new(ways, true));
    }
}
