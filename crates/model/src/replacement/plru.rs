//! Tree pseudo-LRU.

use super::Policy;

/// Pseudo-LRU by a binary tree over the ways: each node says which half was used longer ago, and a
/// use turns the nodes above its way to the other half (Al-Zoubi, Milenkovic & Milenkovic, ACMSE
/// 2004, "PLRUt"). Where the ways are no power of two, or some may not be taken, a half without
/// candidates is passed over.
#[derive(Clone, Copy, Debug)]
pub struct Plru {
    /// Leaves of the tree: the ways, up to the next power of two.
    leaves: u32,
}

impl Plru {
    /// Turns every node above `way` to the half where it is not. The node of the whole tree is bit 1,
    /// those below node n are 2n and 2n + 1; a bit that is set points to the upper half.
    #[inline]
    fn used(&self, state: &mut [u64], way: usize) {
        let mut node = self.leaves | way as u32;
        while node > 1 {
            let upper = node & 1 == 1;
            node /= 2;
            state[0] = state[0] & !(1 << node) | u64::from(!upper) << node;
        }
    }
}

impl Policy for Plru {
    fn new(ways: usize, _seed: u64) -> Self {
        Plru { leaves: ways.next_power_of_two() as u32 }
    }

    #[inline]
    fn words(_ways: usize) -> usize {
        1
    }

    fn hardware_bits(ways: u32) -> u32 {
        ways - 1
    }

    #[inline]
    fn on_hit(&mut self, state: &mut [u64], _set: usize, way: usize) {
        self.used(state, way);
    }

    #[inline]
    fn on_fill(&mut self, state: &mut [u64], _set: usize, way: usize) {
        self.used(state, way);
    }

    #[inline]
    fn victim(&self, state: &[u64], _set: usize, candidates: u64) -> usize {
        let (mut node, mut first, mut width) = (1, 0, self.leaves);
        while width > 1 {
            width /= 2;
            let half = u64::MAX >> (u64::BITS - width);
            let lower = candidates & half << first != 0;
            let upper = candidates & half << (first + width) != 0;
            let go_up = upper && (!lower || state[0] >> node & 1 == 1);
            node = 2 * node + u32::from(go_up);
            first += if go_up { width } else { 0 };
        }
        first as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Reference, policy_follows, policy_laws};

    /// A tree of nodes, each with the ways below it.
    enum Tree {
        Way(usize),
        Node { upper_next: bool, halves: [Box<Tree>; 2] },
    }

    impl Tree {
        fn new(first: usize, width: usize) -> Self {
            if width == 1 {
                return Tree::Way(first);
            }
            let half = |first| Box::new(Tree::new(first, width / 2));
            Tree::Node { upper_next: false, halves: [half(first), half(first + width / 2)] }
        }

        fn holds(&self, candidates: u64) -> bool {
            match self {
                Tree::Way(way) => candidates >> way & 1 == 1,
                Tree::Node { halves, .. } => halves.iter().any(|half| half.holds(candidates)),
            }
        }

        fn used(&mut self, way: usize) {
            let Tree::Node { upper_next, halves } = self else { return };
            let upper = halves[1].holds(1 << way);
            *upper_next = !upper;
            halves[usize::from(upper)].used(way);
        }

        fn next(&self, candidates: u64) -> usize {
            match self {
                Tree::Way(way) => *way,
                Tree::Node { upper_next, halves } => {
                    let wanted = &halves[usize::from(*upper_next)];
                    let other = &halves[usize::from(!*upper_next)];
                    if wanted.holds(candidates) { wanted } else { other }.next(candidates)
                }
            }
        }
    }

    impl Reference for Tree {
        fn on_hit(&mut self, way: usize) {
            self.used(way);
        }

        fn on_fill(&mut self, way: usize) {
            self.used(way);
        }

        fn victim(&self, candidates: u64) -> usize {
            self.next(candidates)
        }
    }

    #[test]
    fn the_policys_laws_hold() {
        policy_laws::<Plru>();
    }

    #[test]
    fn plru_follows_a_tree() {
        policy_follows::<Plru, _>(|ways| Tree::new(0, ways.next_power_of_two()));
    }

    #[test]
    fn with_two_ways_it_is_lru() {
        use crate::replacement::recency::tests::List;
        crate::conformance::policy_follows_for::<Plru, _>(2, |ways| {
            // The tree points to the lower half at the start: the upper way was used last.
            let mut list = List::new(ways, true);
            list.on_fill(1);
            list
        });
    }
}
