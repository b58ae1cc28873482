//! Dynamic re-reference interval prediction.

use super::{Policy, brrip, rereference};

/// DRRIP (Jaleel et al., ISCA 2010): SRRIP or BRRIP, whichever misses less in the sets that
/// always follow one of them. Of every 64 sets one follows each; a counter of ten bits says
/// which has missed less.
#[derive(Clone, Copy, Debug)]
pub struct Drrip {
    fills: u64,
    /// How much more those of SRRIP have missed; from the middle of its range on BRRIP wins.
    selector: u16,
}

/// Sets of which one always follows SRRIP and one BRRIP (32 sets each there, of a cache of 2 MiB with 16
/// ways and lines of 64 bytes, which has 2048).
const DUEL: usize = 64;
/// The greatest value of the selector: ten bits.
const MOST: u16 = (1 << 10) - 1;

/// Whom a set follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Srrip,
    Brrip,
    Winner,
}

#[inline]
fn side(set: usize) -> Side {
    match set % DUEL {
        0 => Side::Srrip,
        set if set == DUEL / 2 => Side::Brrip,
        _ => Side::Winner,
    }
}

impl Policy for Drrip {
    fn new(_ways: usize, _seed: u64) -> Self {
        Drrip { fills: 0, selector: MOST / 2 }
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
    fn on_fill(&mut self, state: &mut [u64], set: usize, way: usize) {
        let bimodal = match side(set) {
            Side::Srrip => {
                self.selector = MOST.min(self.selector + 1);
                false
            }
            Side::Brrip => {
                self.selector = self.selector.saturating_sub(1);
                true
            }
            Side::Winner => self.selector > MOST / 2,
        };
        let nearness = if bimodal { brrip::inserted(self.fills) } else { rereference::LONG };
        self.fills += u64::from(bimodal);
        rereference::fill(state, way, nearness);
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
    use crate::conformance::policy_laws;
    use crate::replacement::{Brrip, Srrip};

    #[test]
    fn the_policys_laws_hold() {
        policy_laws::<Drrip>();
    }

    const SETS: u64 = 64;

    /// Misses of `P` on rounds over `lines` lines of each set; with `again`, each line is used twice
    /// at once while a further one passes by.
    fn misses<P: Policy>(lines: u64, again: bool) -> u64 {
        let mut tags = TagStore::<P>::new(SETS, 4, false, 0);
        let mut misses = 0;
        let mut access = |line| {
            if tags.access(line, false).is_none() {
                tags.insert(line, 0);
                misses += 1;
            }
        };
        for step in 0..400 * lines * SETS {
            access(step % (lines * SETS));
            if again {
                access((1_000 + step) * SETS);
                access(step % (lines * SETS));
            }
        }
        misses
    }

    #[test]
    fn it_comes_near_the_better_of_both() {
        for (lines, again) in [(6, false), (3, false), (3, true)] {
            let of_each = [misses::<Srrip>(lines, again), misses::<Brrip>(lines, again)];
            let dynamic = misses::<Drrip>(lines, again);
            let (best, worst) = (of_each[0].min(of_each[1]), of_each[0].max(of_each[1]));
            assert!(
                10 * dynamic <= 11 * best && dynamic < worst.max(best + 1),
                "{dynamic} of {of_each:?}"
            );
        }
        assert!(misses::<Drrip>(6, false) < misses::<Srrip>(6, false));
    }

    #[test]
    fn the_selector_stays_in_its_range() {
        let mut policy = Drrip::new(4, 0);
        for (set, end) in [(0, MOST), (DUEL / 2, 0)] {
            for _ in 0..3_000 {
                policy.on_fill(&mut [0, 0], set, 1);
            }
            assert_eq!(policy.selector, end);
        }
    }
}
