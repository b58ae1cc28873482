//! Static re-reference interval prediction.

use super::{Policy, rereference};

/// SRRIP with two bits a way and hit priority (Jaleel et al., ISCA 2010): a line that comes is
/// expected to be used again after long, one that is used again soon; what is expected last goes.
#[derive(Clone, Copy, Debug)]
pub struct Srrip;

impl Policy for Srrip {
    fn new(_ways: usize, _seed: u64) -> Self {
        Srrip
    }

    #[inline]
    fn words(_ways: usize) -> usize {
        rereference::WORDS
    }

    fn hardware_bits(ways: u32) -> u32 {
        rereference::hardware_bits(ways)
    }

    #[inline]
    fn on_hit(&mut self, state: &mut [u64], _set: usize, way: usize) {
        rereference::set(state, way, rereference::IMMEDIATE);
    }

    #[inline]
    fn on_fill(&mut self, state: &mut [u64], _set: usize, way: usize) {
        rereference::fill(state, way, rereference::LONG);
    }

    #[inline]
    fn victim(&self, state: &[u64], _set: usize, candidates: u64) -> usize {
        rereference::victim(state, candidates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{policy_follows, policy_laws};
    use crate::replacement::rereference::tests::Values;

    #[test]
    fn the_policys_laws_hold() {
        policy_laws::<Srrip>();
    }

    #[test]
    fn srrip_follows_the_papers_values() {
        policy_follows::<Srrip, _>(|ways| Values::new(ways, |_| 2));
    }
}
