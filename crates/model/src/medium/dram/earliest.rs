//! The earliest of a fixed number of times, kept current.

/// A time that never comes.
pub const NEVER: u64 = u64::MAX;

/// A winner tree: which of n times is the earliest, in O(log n) for each change. Of equal times
/// the one with the lower index wins.
#[derive(Clone, Debug)]
pub struct Earliest {
    /// Power of two, at least n: the leaves begin here. The root is node 1.
    leaves: usize,
    nodes: Vec<(u64, u32)>,
}

impl Earliest {
    /// `n` times, all of which never come.
    pub fn new(n: usize) -> Self {
        let leaves = n.next_power_of_two();
        let mut nodes = vec![(NEVER, 0); 2 * leaves];
        for (index, leaf) in nodes[leaves..].iter_mut().enumerate() {
            leaf.1 = index as u32;
        }
        Earliest { leaves, nodes }
    }

    /// The earliest time and its index.
    #[inline]
    pub fn first(&self) -> (u64, usize) {
        let (time, index) = self.nodes[1];
        (time, index as usize)
    }

    /// The time of `index` is not later than this.
    #[inline]
    pub fn lower(&mut self, index: usize, time: u64) {
        if time < self.nodes[self.leaves + index].0 {
            self.set(index, time);
        }
    }

    /// Changes the time of `index`.
    #[inline]
    pub fn set(&mut self, index: usize, time: u64) {
        let mut node = self.leaves + index;
        if self.nodes[node].0 == time {
            return;
        }
        self.nodes[node].0 = time;
        while node > 1 {
            node /= 2;
            let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
            self.nodes[node] = if right.0 < left.0 { right } else { left };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_that_of_a_plain_search(
            n in 1..40usize,
            changes in proptest::collection::vec((0..40usize, 0..6u64), 0..100),
        ) {
            let mut tree = Earliest::new(n);
            let mut plain = vec![NEVER; n];
            for (index, time) in changes {
                plain[index % n] = time;
                tree.set(index % n, time);
                let best = plain.iter().copied().zip(0..).min();
                prop_assert_eq!(Some(tree.first()), best);
            }
        }
    }
}
