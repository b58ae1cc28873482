//! Predictions of when a line is used again, two bits a way (RRIP).
//!
//! What is kept is nearness, 3 − RRPV of the paper: zero words are ways that are used in the distant
//! future. Word 0 has the low bit of each way, word 1 the high one.

/// The prediction of a line that is used in the distant future: it goes first.
pub(super) const DISTANT: u64 = 0;
/// That of a line that comes, as a rule.
pub(super) const LONG: u64 = 1;
/// That of a line that was used again.
pub(super) const IMMEDIATE: u64 = 3;

/// Words that the predictions of a set take.
pub(super) const WORDS: usize = 2;

/// Bits a way.
pub(super) const fn hardware_bits(ways: u32) -> u32 {
    2 * ways
}

/// Predicts `nearness` for `way`.
#[inline]
pub(super) fn set(state: &mut [u64], way: usize, nearness: u64) {
    for (bit, word) in state.iter_mut().enumerate().take(WORDS) {
        *word = *word & !(1 << way) | (nearness >> bit & 1) << way;
    }
}

/// A line comes into `way`: all ways have aged until this one was distant (Jaleel et al., ISCA 2010),
/// and its prediction becomes `nearness`.
#[inline]
pub(super) fn fill(state: &mut [u64], way: usize, nearness: u64) {
    let steps = (state[0] >> way & 1) + 2 * (state[1] >> way & 1);
    for _ in 0..steps {
        let (low, high) = (state[0], state[1]);
        (state[0], state[1]) = (high & !low, high & low);
    }
    set(state, way, nearness);
}

/// The first of the candidates that are used furthest in the future.
#[inline]
pub(super) fn victim(state: &[u64], candidates: u64) -> usize {
    let (low, high) = (state[0], state[1]);
    let in_order = [!high & !low, !high & low, high & !low, high & low];
    let some = in_order.into_iter().map(|ways| ways & candidates).find(|ways| *ways != 0);
    some.unwrap_or(candidates).trailing_zeros() as usize
}

#[cfg(test)]
pub(super) mod tests {
    /// RRPVs as the paper writes them, 0 to 3, and what those of new lines are.
    #[derive(Clone)]
    pub struct Values {
        values: Vec<u8>,
        /// What the next line gets, by the number of those that came.
        inserted: fn(u64) -> u8,
        fills: u64,
    }

    impl Values {
        pub fn new(ways: usize, inserted: fn(u64) -> u8) -> Self {
            Values { values: vec![3; ways], inserted, fills: 0 }
        }

        fn age(&mut self) {
            self.values.iter_mut().for_each(|value| *value = 3.min(*value + 1));
        }
    }

    impl crate::conformance::Reference for Values {
        fn on_hit(&mut self, way: usize) {
            self.values[way] = 0;
        }

        fn on_fill(&mut self, way: usize) {
            while self.values[way] < 3 {
                self.age();
            }
            self.values[way] = (self.inserted)(self.fills);
            self.fills += 1;
        }

        fn victim(&self, candidates: u64) -> usize {
            let mut aged = self.clone();
            loop {
                let is_candidate = |way: &usize| candidates >> way & 1 == 1;
                let mut ways = (0..aged.values.len()).filter(is_candidate);
                if let Some(way) = ways.find(|way| aged.values[*way] == 3) {
                    return way;
                }
                aged.age();
            }
        }
    }
}
