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
        Candidates {
            leaves,
            nodes: vec![NOTHING; 2 * leaves],
            epoch_clock: 0,
            epoch_sequence: 0,
        }
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
        let nodes = &mut self.nodes[..2 * self.leaves];
        let mut node = self.leaves + bank;
        let mut least = key;
        nodes[node] = key;
        while node > 1 {
            let other = nodes[node ^ 1];
            // As good as random: no branch foresees it.
            least = select_unpredictable(other < least, other, least);
            node /= 2;
            nodes[node] = least;
        }
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
        now - self.epoch_clock > FAR / 2 || sequence - self.epoch_sequence > YOUNGEST - YOUNGEST / 4
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
