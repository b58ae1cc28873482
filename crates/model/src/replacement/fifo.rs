//! First in, first out.

use super::{Policy, recency};

/// First in, first out: the ways of each set in the order of their last fill, a byte each.
#[derive(Clone, Copy, Debug)]
pub struct Fifo {
    ways: u8,
}

impl Policy for Fifo {
    fn new(ways: usize, _seed: u64) -> Self {
        Fifo { ways: ways as u8 }
    }

    #[inline]
    fn words(ways: usize) -> usize {
        recency::words(ways)
    }

    fn hardware_bits(ways: u32) -> u32 {
        recency::hardware_bits(ways)
    }

    fn notes_uses() -> bool {
        false
    }

    #[inline]
    fn on_hit(&mut self, _state: &mut [u64], _set: usize, _way: usize) {}

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
        policy_laws::<Fifo>();
    }

    #[test]
    fn fifo_gives_the_candidate_filled_first() {
        policy_follows::<Fifo, _>(|ways| List::new(ways, false));
    }
}
