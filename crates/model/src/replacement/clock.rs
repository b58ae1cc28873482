//! CLOCK: second chance.

use super::{Policy, bits_for};

/// A hand goes round the ways of each set; a way that was used since the hand last passed is passed
/// once more, and its mark wiped (Corbató, "A paging experiment with the Multics system", 1968).
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    ways: u32,
}

impl Clock {
    fn all(&self) -> u64 {
        u64::MAX >> (u64::BITS - self.ways)
    }
}

/// The ways from `hand` on; the others come after them.
#[inline]
fn ahead(hand: u64) -> u64 {
    u64::MAX << hand
}

/// The first way of `some` from `hand` on, all round.
#[inline]
fn first_from(hand: u64, some: u64) -> Option<usize> {
    let next = if some & ahead(hand) != 0 { some & ahead(hand) } else { some };
    (next != 0).then_some(next.trailing_zeros() as usize)
}

impl Policy for Clock {
    fn new(ways: usize, _seed: u64) -> Self {
        Clock { ways: ways as u32 }
    }

    /// The marks, and the hand.
    #[inline]
    fn words(_ways: usize) -> usize {
        2
    }

    fn hardware_bits(ways: u32) -> u32 {
        ways + bits_for(ways)
    }

    #[inline]
    fn on_hit(&mut self, state: &mut [u64], _set: usize, way: usize) {
        state[0] |= 1 << way;
    }

    /// The hand has come to `way`. Where that was marked it has gone all round.
    #[inline]
    fn on_fill(&mut self, state: &mut [u64], _set: usize, way: usize) {
        let [marks, hand] = state else { return };
        let before_way = !ahead(way as u64);
        let passed = match (*marks >> way & 1 == 1, way as u64 >= *hand) {
            (true, _) => self.all(),
            (false, true) => ahead(*hand) & before_way,
            (false, false) => ahead(*hand) | before_way,
        };
        *marks = *marks & !passed | 1 << way;
        *hand = (way as u64 + 1) % u64::from(self.ways);
    }

    #[inline]
    fn victim(&self, state: &[u64], _set: usize, candidates: u64) -> usize {
        let (marks, hand) = (state[0], state[1]);
        let unmarked = first_from(hand, candidates & !marks);
        unmarked.or_else(|| first_from(hand, candidates)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Reference, policy_follows, policy_laws};

    /// A hand that moves step by step.
    #[derive(Clone)]
    struct Face {
        marks: Vec<bool>,
        hand: usize,
    }

    impl Face {
        fn step(&mut self) {
            self.marks[self.hand] = false;
            self.hand = (self.hand + 1) % self.marks.len();
        }
    }

    impl Reference for Face {
        fn on_hit(&mut self, way: usize) {
            self.marks[way] = true;
        }

        fn on_fill(&mut self, way: usize) {
            while self.hand != way || self.marks[way] {
                self.step();
            }
            self.marks[way] = true;
            self.hand = (way + 1) % self.marks.len();
        }

        fn victim(&self, candidates: u64) -> usize {
            let mut face = self.clone();
            while face.marks[face.hand] || candidates >> face.hand & 1 == 0 {
                face.step();
            }
            face.hand
        }
    }

    #[test]
    fn the_policys_laws_hold() {
        policy_laws::<Clock>();
    }

    #[test]
    fn clock_follows_a_hand() {
        policy_follows::<Clock, _>(|ways| Face { marks: vec![false; ways], hand: 0 });
    }
}
