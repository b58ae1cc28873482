//! Bimodal re-reference interval prediction.

use super::{Policy, rereference};

/// A line in so many is expected after long, the others in the distant future (Jaleel et al., ISCA
/// 2010); their chance of 1/32 is every 32nd line here.
pub(super) const SELDOM: u64 = 32;

/// BRRIP with two bits a way (Jaleel et al., ISCA 2010): lines that come are expected in the
/// distant future, but for one in 32, so that a part of a working set that is too large stays.
#[derive(Clone, Copy, Debug)]
pub struct Brrip {
    fills: u64,
}

/// The prediction of a line that comes after `fills` others.
#[inline]
pub(super) fn inserted(fills: u64) -> u64 {
    if fills % SELDOM == SELDOM - 1 { rereference::LONG } else { rereference::DISTANT }
}

impl Policy for Brrip {
    fn new(_ways: usize, _seed: u64) -> Self {
        Brrip { fills: 0 }
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
        rereference::fill(state, way, inserted(self.fills));
        self.fills += 1;
    }

    #[inline]
    fn victim(&self, state: &[u64], _set: usize, candidates: u64) -> usize {
        rereference::victim(state, candidates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::TagStore;
    use crate::conformance::{policy_follows_for, policy_laws};
    use crate::replacement::rereference::tests::Values;
    use crate::replacement::{Lru, Srrip};

    #[test]
    fn the_policys_laws_hold() {
        policy_laws::<Brrip>();
    }

    #[test]
    fn brrip_follows_the_papers_values() {
        for ways in [1, 3, 16, 64] {
            policy_follows_for::<Brrip, _>(ways, |ways| {
                Values::new(ways, |fills| if fills % 32 == 31 { 2 } else { 3 })
            });
        }
    }

    /// Lines of a loop over `lines` that are present, in percent, after some rounds.
    fn hits<P: Policy>(lines: u64) -> u64 {
        let mut tags = TagStore::<P>::new(1, 16, false, 0);
        let mut hits = 0;
        for step in 0..40 * lines {
            if tags.access(step % lines, false).is_some() {
                hits += u64::from(step >= 20 * lines);
            } else {
                tags.insert(step % lines, 0);
            }
        }
        100 * hits / (20 * lines)
    }

    #[test]
    fn it_keeps_a_part_of_a_loop_that_is_too_large_where_others_keep_none() {
        assert_eq!((hits::<Lru>(20), hits::<Srrip>(20)), (0, 0));
        assert!(hits::<Brrip>(20) > 50, "{}", hits::<Brrip>(20));
        assert_eq!(hits::<Brrip>(16), 100);
    }
}
