//! What a controller chooses from: the commands that its banks want next, the first on top.

use std::hint::select_unpredictable;

/// A key, the least first: the clock at which a command can start, since the epoch; then its order.
type Key = u64;

/// What follows the start in a key: the command's kind, whether it is background, its age since the
/// epoch, its bank. Of commands that can start together the least goes first.
pub type Order = u64;

/// No command: behind all others.
const NOTHING: Key = Key::MAX;

const BANK_BITS: u32 = 14;
const BANK: Order = (1 << BANK_BITS) - 1;
const SEQUENCE_BITS: u32 = 21;
/// Younger sequences are not told apart.
const YOUNGEST: u64 = (1 << SEQUENCE_BITS) - 1;
const BACKGROUND_SHIFT: u32 = BANK_BITS + SEQUENCE_BITS;
const KIND_SHIFT: u32 = BACKGROUND_SHIFT + 1;
const START_SHIFT: u32 = KIND_SHIFT + 3;
/// Starts so long after the epoch, or longer, are not told apart.
const FAR: u64 = (1 << (64 - START_SHIFT)) - 2;
/// An epoch lasts so long, where requests come.
pub const EPOCH_CLOCKS: u64 = FAR / 2;

/// Background behind demand.
pub const BACKGROUND: Order = 1 << BACKGROUND_SHIFT;

/// What kind of command it is, in the order in which they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A part of a refresh, before all.
    Refresh,
    /// Column commands, for the bus's sake.
    Column,
    /// Then activates, which are slow.
    Activate,
    /// Then precharges.
    Precharge,
    /// Then closing what nobody uses.
    Timeout,
}

impl Kind {
    /// The first order of this kind.
    #[inline]
    pub const fn order(self) -> Order {
        (self as u64) << KIND_SHIFT
    }
}

/// A winner tree of four branches over the banks of a channel, in which starts may be too early, never
/// too late.
///
/// A command that is given makes others wait, and never lets one start sooner. So what was known of
/// another bank bounds its start from below, and only a bank that comes on top needs to be looked at
/// again.
#[derive(Clone, Debug)]
pub struct Candidates {
    /// The least key of all.
    top: Key,
    /// Four keys side by side: banks, in quads from `first` on, or the least keys of quads 4n + 1 to
    /// 4n + 4 in quad n.
    quads: Vec<[Key; 4]>,
    first: usize,
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
        let (mut first, mut level) = (0, 1);
        while 4 * level < banks as usize {
            first += level;
            level *= 4;
        }
        let quads = vec![[NOTHING; 4]; first + level];
        Candidates { top: NOTHING, quads, first, epoch_clock: 0, epoch_sequence: 0 }
    }

    /// What is on top.
    #[inline]
    pub fn first(&self) -> First {
        let key = self.top;
        if key >> START_SHIFT < FAR {
            First::Bank((key & BANK) as usize, key)
        } else if key == NOTHING {
            First::Nothing
        } else {
            First::Far
        }
    }

    /// The order of a command that a bank wants, of this kind, or of this kind and background, for an
    /// entry of this place in order of arrival.
    #[inline]
    pub fn order(&self, kind: Order, sequence: u64, bank: usize) -> Order {
        let age = sequence.saturating_sub(self.epoch_sequence).min(YOUNGEST);
        kind | age << BANK_BITS | bank as Order
    }

    /// The key of a command of this order, which starts at `start`.
    #[inline]
    pub fn key(&self, start: u64, order: Order) -> Key {
        start.saturating_sub(self.epoch_clock).min(FAR) << START_SHIFT | order
    }

    /// A bank wants the command of this key, or one that starts later.
    #[inline]
    pub fn set(&mut self, bank: usize, key: Key) {
        let (mut quad, mut place) = (self.first + bank / 4, bank % 4);
        let mut least = key;
        loop {
            let keys = &mut self.quads[quad];
            keys[place] = least;
            // What does not depend on the level below comes apart: so each level adds one comparison.
            let others = lesser(keys[place ^ 1], lesser(keys[place ^ 2], keys[place ^ 3]));
            least = lesser(least, others);
            if quad == 0 {
                break;
            }
            (quad, place) = ((quad - 1) / 4, (quad - 1) % 4);
        }
        self.top = least;
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

    /// Begins a new epoch, after which all keys have to be set anew; so much younger is what it counts
    /// ages from.
    #[cold]
    pub fn renew(&mut self, now: u64, sequence: u64) -> u64 {
        self.epoch_clock = now;
        // Who has waited while so many others came is the oldest of all.
        let before = self.epoch_sequence;
        self.epoch_sequence = sequence.saturating_sub(YOUNGEST / 2).max(before);
        self.quads.fill([NOTHING; 4]);
        self.top = NOTHING;
        self.epoch_sequence - before
    }
}

/// The lesser of two keys: as good as random, so that no branch foresees it.
#[inline]
fn lesser(one: Key, other: Key) -> Key {
    select_unpredictable(other < one, other, one)
}

/// An order of the last epoch, as it is in one that counts ages from what is so much `younger`.
pub fn renewed(order: Order, younger: u64) -> Order {
    let age = order >> BANK_BITS & YOUNGEST;
    order - (age.min(younger) << BANK_BITS)
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
                let kind = (kind << KIND_SHIFT) | (u64::from(background) * BACKGROUND);
                let order = tree.order(kind, sequence, bank);
                plain[bank] = wants.then_some((epoch + start, kind, sequence));
                match plain[bank] {
                    Some((start, ..)) => tree.set(bank, tree.key(start, order)),
                    None => tree.clear(bank),
                }
                let best = plain.iter().zip(0..).filter_map(|(key, bank)| Some(((*key)?, bank)));
                let expected = best.min().map_or(First::Nothing, |((start, kind, sequence), bank)| {
                    First::Bank(bank, tree.key(start, tree.order(kind, sequence, bank)))
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
        let order = |bank: u64| Kind::Column.order() | (9 * bank) << BANK_BITS | bank;
        for start in [0, 1, EPOCH_CLOCKS, FAR - 1] {
            tree.set(0, tree.key(start + 1, order(0)));
            tree.set(1, tree.key(start, order(1)));
            assert!(matches!(tree.first(), First::Bank(1, _)), "{start}");
        }
        tree.set(1, tree.key(FAR, order(1)));
        assert_eq!(tree.first(), First::Far);
        assert!(!tree.is_old(EPOCH_CLOCKS, 0) && tree.is_old(EPOCH_CLOCKS + 1, 0));
        assert!(tree.is_old(0, YOUNGEST));
    }

    /// Ages keep their order in a new epoch, and are those that it would count.
    #[test]
    fn orders_are_renewed_as_if_they_were_made_anew() {
        let mut tree = Candidates::new(4);
        let sequences = [0, 5, YOUNGEST / 4, YOUNGEST / 2, YOUNGEST / 2 + 1];
        let of = |tree: &Candidates| {
            sequences.map(|sequence| tree.order(Kind::Activate.order() | BACKGROUND, sequence, 3))
        };
        let before = of(&tree);
        let younger = tree.renew(1 << 20, YOUNGEST - 8);
        assert!(younger > 0);
        assert_eq!(before.map(|order| renewed(order, younger)), of(&tree));
    }
}
