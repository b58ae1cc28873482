//! The order of a set's ways, one byte a way, packed into words.
//!
//! Byte 0 of word 0 is the way at the front. What is stored is the order XOR the identity, so that
//! words of zero stand for the ways in their natural order. Bytes beyond the last way keep their
//! own number, so that they match no way and never move.

const IDENTITY: u64 = 0x0706_0504_0302_0100;
const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = 0x8080_8080_8080_8080;

/// What word number `index` is XORed with: ways 8 × index and on, in their natural order.
#[inline]
const fn identity(index: usize) -> u64 {
    IDENTITY + ONES * (8 * index as u64)
}

/// Words that the order of `ways` ways takes.
#[inline]
pub(super) const fn words(ways: usize) -> usize {
    ways.div_ceil(8)
}

/// Each way's place in the order.
pub(super) const fn hardware_bits(ways: u32) -> u32 {
    ways * super::bits_for(ways)
}

/// The way at the front.
#[inline]
pub(super) fn front(state: &[u64]) -> usize {
    ((state[0] ^ identity(0)) & 0xff) as usize
}

/// Moves `way` to the front; those that were before it move back by one. Without a branch on
/// where it is, which cannot be predicted.
#[inline]
pub(super) fn move_to_front(state: &mut [u64], way: usize) {
    let mut incoming = way as u64;
    // All ones until the way is found, then zero.
    let mut searching = !0u64;
    for (index, word) in state.iter_mut().enumerate() {
        let order = *word ^ identity(index);
        // The lowest marked byte is the one that holds the way; marks above it may be false.
        let difference = order ^ (ONES * way as u64);
        let marks = difference.wrapping_sub(ONES) & !difference & TOPS;
        // Ones up to and with the lowest mark, which is the top bit of its byte; all ones if none.
        let moved = (marks ^ marks.wrapping_sub(1)) & searching;
        *word = ((order << 8 | incoming) & moved | order & !moved) ^ identity(index);
        searching &= (u64::from(marks == 0)).wrapping_neg();
        incoming = order >> 56;
    }
    debug_assert!(searching == 0, "way {way} is not in the set");
}

/// The candidate nearest to the back. `ways` is the number of ways; a set bit of `candidates` is a
/// candidate, and there is one.
#[inline]
pub(super) fn last(state: &[u64], ways: usize, candidates: u64) -> usize {
    debug_assert!(candidates != 0);
    for position in (0..ways).rev() {
        let index = position / 8;
        let way = (state[index] ^ identity(index)) >> (position % 8 * 8) & 0xff;
        if candidates >> way & 1 == 1 {
            return way as usize;
        }
    }
    debug_assert!(false, "no candidate among {ways} ways");
    candidates.trailing_zeros() as usize
}

#[cfg(test)]
pub(super) mod tests {
    use crate::conformance::Reference;

    /// The obvious implementation: ways in order, the next to go at the end.
    pub struct List {
        order: Vec<usize>,
        hits_count: bool,
    }

    impl List {
        /// Ways in their natural order. Hits move a way to the front if they count.
        pub fn new(ways: usize, hits_count: bool) -> Self {
            List { order: (0..ways).collect(), hits_count }
        }

        fn move_to_front(&mut self, way: usize) {
            self.order.retain(|&other| other != way);
            self.order.insert(0, way);
        }
    }

    impl Reference for List {
        fn on_hit(&mut self, way: usize) {
            if self.hits_count {
                self.move_to_front(way);
            }
        }

        fn on_fill(&mut self, way: usize) {
            self.move_to_front(way);
        }

        fn victim(&self, candidates: u64) -> usize {
            let last = self.order.iter().rev().find(|&&way| candidates >> way & 1 == 1);
            *last.expect("there is a candidate")
        }
    }
}
