//! Turns of the stripe, of which those of busy lanes are passed over.

/// Turns of a round, each open or not.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    /// A bit a turn.
    words: Vec<u64>,
    round: u32,
    /// How many are open.
    open: u32,
}

impl Turns {
    /// A round of so many turns, all of which are open.
    pub(super) fn new(round: u32) -> Self {
        let mut turns = Turns { words: vec![0; round.div_ceil(64) as usize], round, open: 0 };
        turns.set(&(0..round).collect::<Vec<_>>(), true);
        turns
    }

    /// These turns, none of which has been, are open from now on, or are not.
    #[inline]
    pub(super) fn set(&mut self, turns: &[u32], open: bool) {
        for &turn in turns {
            debug_assert!(self.is_open(turn) != open);
            self.words[turn as usize / 64] ^= 1 << (turn % 64);
        }
        let count = turns.len() as u32;
        self.open = if open { self.open + count } else { self.open - count };
    }

    fn is_open(&self, turn: u32) -> bool {
        self.words[turn as usize / 64] >> (turn % 64) & 1 == 1
    }

    /// The first turn from `turn` on that is open, where the first of the next round follows the last, and how many
    /// are passed over; `None` where none is open.
    pub(super) fn next(&self, turn: u32) -> Option<(u32, u32)> {
        if self.open == 0 {
            return None;
        }
        let mut word = turn as usize / 64;
        let mut bits = self.words[word] & u64::MAX << (turn % 64);
        while bits == 0 {
            word = if word + 1 == self.words.len() { 0 } else { word + 1 };
            bits = self.words[word];
        }
        let found = word as u32 * 64 + bits.trailing_zeros();
        let passed = if found < turn { found + self.round - turn } else { found - turn };
        Some((found, passed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_next_open_turn_is_that_of_a_search_one_by_one(
            open in prop::collection::vec(any::<bool>(), 1..200),
            from in any::<prop::sample::Index>(),
        ) {
            let round = open.len() as u32;
            let mut turns = Turns::new(round);
            (0..).zip(&open).filter(|(_, open)| !**open).for_each(|(turn, _)| turns.set(&[turn], false));
            let from = from.index(open.len()) as u32;
            let passed = (0..round).find(|n| open[((from + n) % round) as usize]);
            prop_assert_eq!(turns.next(from), passed.map(|n| ((from + n) % round, n)));
        }
    }
}
