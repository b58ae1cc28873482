//! What a controller chooses from: the commands that its banks want next, the first on top.

use super::bank::AGE_BITS;
use std::hint::select_unpredictable;

/// A key, the least first: the clock at which a command can start, since the epoch; its kind and
/// whether it is background; its age, since the epoch; its bank.
type Key = u64;

/// No command: behind all others.
const NOTHING: Key = Key::MAX;

const BANK_BITS: u32 = 14;
const SEQUENCE_BITS: u32 = 21;
/// Of an order, what is above the sequence.
const KIND_SHIFT: u32 = AGE_BITS - 1;
const KIND_BITS: u32 = 4;
const START_SHIFT: u32 = BANK_BITS + SEQUENCE_BITS + KIND_BITS;
/// Starts so long after the epoch, or longer, are not told apart.
const FAR: u64 = (1 << (64 - START_SHIFT)) - 2;
/// An epoch lasts so long, where requests come.
pub const EPOCH_CLOCKS: u64 = FAR / 2;
/// Younger sequences are not told apart.
const YOUNGEST: u64 = (1 << SEQUENCE_BITS) - 1;

/// A winner tree over the banks of a channel, in which starts may be too early, never too late.
///
/// A command that is given makes others wait, and never lets one start sooner. So what was known of
/// another bank bounds its start from below, and only a bank that comes on top needs to be looked at
/// again.
#[derive(Clone, Debug)]
pub struct Candidates {
    /// Power of two, at least the number of banks: the leaves begin here. The root is node 1.
    leaves: usize,
    /// Of nodes 2n and 2n + 1 the one with the least key wins, and is node n.
    nodes: Vec<Key>,
    epoch_clock: u64,
    epoch_sequence: u64,
}

/// What is on top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// This bank, which does not start before the rest of the key says.
    Bank(usize, Key),
    /// All starts are far away: keys do not tell them apart.
    Far,
    /// No bank wants anything.
    Nothing,
}

impl Candidates {
    /// `banks` banks that want nothing.
    pub fn new(banks: u32) -> Self {
        assert!(banks <= 1 << BANK_BITS, "{banks} banks of a channel, though that was checked");
        let leaves = (banks as usize).next_power_of_two();
        Candidates { leaves, nodes: vec![NOTHING; 2 * leaves], epoch_clock: 0, epoch_sequence: 0 }
    }

    /// What is on top.
    #[inline]
    pub fn first(&self) -> First {
        let key = self.nodes[1];
        if key >> START_SHIFT < FAR {
            First::Bank((key & ((1 << BANK_BITS) - 1)) as usize, key)
        } else if key == NOTHING {
            First::Nothing
        } else {
            First::Far
        }
    }

    /// The key of a bank that wants a command of this order, which starts at `start`.
    #[inline]
    pub fn key(&self, bank: usize, start: u64, order: u64) -> Key {
        let start = start.saturating_sub(self.epoch_clock).min(FAR);
        let sequence = (order & ((1 << KIND_SHIFT) - 1)).saturating_sub(self.epoch_sequence);
        start << START_SHIFT
            | order >> KIND_SHIFT << (BANK_BITS + SEQUENCE_BITS)
            | sequence.min(YOUNGEST) << BANK_BITS
            | bank as Key
    }

    /// A bank wants the command of this key, or one that starts later.
    #[inline]
    pub fn set(&mut self, bank: usize, key: Key) {
        let mut node = self.leaves + bank;
        let mut least = key;
        while node > 1 {
            self.nodes[node] = least;
            let other = self.nodes[node ^ 1];
            // As good as random: no branch foresees it.
            least = select_unpredictable(other < least, other, least);
            node /= 2;
        }
        self.nodes[1] = least;
    }

    /// A bank wants nothing, or must not have it.
    #[inline]
    pub fn clear(&mut self, bank: usize) {
        self.set(bank, NOTHING);
    }

    /// Whether keys made now would leave the range in which they are told apart: then there has to
    /// be a new epoch.
    #[inline]
    pub fn is_old(&self, now: u64, sequence: u64) -> bool {
        now - self.epoch_clock > EPOCH_CLOCKS
            || sequence - self.epoch_sequence > YOUNGEST - YOUNGEST / 4
    }

    /// Begins a new epoch: all keys have to be set anew.
    #[cold]
    pub fn renew(&mut self, now: u64, sequence: u64) {
        self.epoch_clock = now;
        // Who has waited while so many others came is the oldest of all.
        self.epoch_sequence = sequence.saturating_sub(YOUNGEST / 2).max(self.epoch_sequence);
        self.nodes.fill(NOTHING);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is on top is what a plain search finds, in whatever epoch.
        #[test]
        fn the_first_is_that_of_a_plain_search(
            banks in 1..70u32,
            epoch in 0..1u64 << 40,
            changes in proptest::collection::vec(
                (0..70usize, any::<bool>(), 0..6u64, 1..5u64, any::<bool>(), 0..1000u64), 0..100),
        ) {
            let mut tree = Candidates::new(banks);
            tree.renew(epoch, epoch >> 10);
            let mut plain = vec![None; banks as usize];
            for (bank, wants, start, kind, background, sequence) in changes {
                let bank = bank % banks as usize;
                let sequence = (epoch >> 10) + sequence;
                let order = kind << AGE_BITS | u64::from(background) << KIND_SHIFT | sequence;
                plain[bank] = wants.then_some((epoch + start, order));
                match plain[bank] {
                    Some((start, order)) => tree.set(bank, tree.key(bank, start, order)),
                    None => tree.clear(bank),
                }
                let best = plain.iter().zip(0..).filter_map(|(key, bank)| Some(((*key)?, bank)));
                let expected = best.min().map_or(First::Nothing, |((start, order), bank)| {
                    First::Bank(bank, tree.key(bank, start, order))
                });
                prop_assert_eq!(tree.first(), expected);
            }
        }
    }

    /// Two starts a clock apart are told apart until the epoch is old, and from where they are not
    /// the tree says so.
    #[test]
    fn starts_are_told_apart_or_said_to_be_far() {
        let mut tree = Candidates::new(2);
        let order = 1 << AGE_BITS;
        for start in [0, 1, EPOCH_CLOCKS, FAR - 1] {
            tree.set(0, tree.key(0, start + 1, order));
            tree.set(1, tree.key(1, start, order + 9));
            assert!(matches!(tree.first(), First::Bank(1, _)), "{start}");
        }
        tree.set(1, tree.key(1, FAR, order));
        assert_eq!(tree.first(), First::Far);
        assert!(!tree.is_old(EPOCH_CLOCKS, 0) && tree.is_old(EPOCH_CLOCKS + 1, 0));
        assert!(tree.is_old(0, YOUNGEST));
    }
}
