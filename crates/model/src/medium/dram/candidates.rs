//! What a controller chooses from: the commands that its banks want next.
//!
//! A search for the first of them looks at all banks without a branch, several at once. The processors
//! that this runs on compare two doubles at once, but not all of them two whole numbers of 64 bits; so
//! keys are made such that, taken for the bits of doubles, they are positive, finite and normal: those
//! are in the order of their bits (IEEE 754-2019, 5.10, totalOrder), and comparing is all that is done
//! with them.

use std::ops::Range;

/// A key, the least first: the clock at which a command can start, since the epoch; then its order. As
/// bits; and as the double that has them.
pub type Key = u64;

/// Keys of a few banks, side by side.
pub type Keys = [f64; LANES];

/// What follows the start in a key: the command's kind, whether it is background, its age since the
/// epoch, its bank. Of commands that can start together the least goes first.
pub type Order = u64;

/// No command: behind all others. The largest finite double.
const NOTHING: Key = 0x7fef_ffff_ffff_ffff;

const BANK_BITS: u32 = 14;
const BANK: Order = (1 << BANK_BITS) - 1;
const SEQUENCE_BITS: u32 = 21;
/// Younger sequences are not told apart.
const YOUNGEST: u64 = (1 << SEQUENCE_BITS) - 1;
const BACKGROUND_SHIFT: u32 = BANK_BITS + SEQUENCE_BITS;
const KIND_SHIFT: u32 = BACKGROUND_SHIFT + 1;
const START_SHIFT: u32 = KIND_SHIFT + 3;
const ORDER: Key = (1 << START_SHIFT) - 1;
/// Starts are counted from here, as keys below are no normal doubles.
const EPOCH: u64 = 1 << (52 - START_SHIFT);
/// Starts so long after the epoch, or longer, are not told apart.
const FAR: u64 = (NOTHING >> 52 << (52 - START_SHIFT)) - EPOCH;
/// An epoch lasts so long, where requests come.
pub const EPOCH_CLOCKS: u64 = FAR / 2;

/// Background behind demand.
pub const BACKGROUND: Order = 1 << BACKGROUND_SHIFT;

/// So many places lie side by side.
const LANES: usize = 4;

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

/// Before when no command of each kind starts, whatever its bank: as beginnings of keys.
#[derive(Clone, Copy, Debug)]
pub struct Floors {
    /// Column commands.
    pub column: Key,
    /// Activates.
    pub activate: Key,
    /// Precharges.
    pub precharge: Key,
}

/// What a few banks want.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Places {
    /// The keys of commands that start as soon as bank and group allow; [`NOTHING`] where a bank wants
    /// none, or must not have it.
    keys: Keys,
    /// The orders in them: of the last that the bank wanted.
    orders: [Order; LANES],
    /// All bits, where that is a column command.
    columns: [u64; LANES],
    /// All bits, where it is an activate.
    activates: [u64; LANES],
}

impl Places {
    const EMPTY: Places = Places {
        keys: Candidates::NOTHING,
        orders: [0; LANES],
        columns: [0; LANES],
        activates: [0; LANES],
    };

    /// Lowers keys to those of the places where these are less, each lane by itself.
    #[inline]
    fn lower(&self, floors: &Floors, keys: &mut Keys) {
        let column = floors.column ^ floors.precharge;
        let activate = floors.activate ^ floors.precharge;
        let least = std::array::from_fn(|lane| {
            let of_kind = self.columns[lane] & column ^ self.activates[lane] & activate;
            f64::from_bits(floors.precharge ^ of_kind | self.orders[lane])
        });
        *keys = lesser(greater(self.keys, least), *keys);
    }

    /// No command of the places whose bits are all set in `of` starts before the floor.
    #[inline]
    fn raise(&mut self, of: [u64; LANES], floor: Key) {
        let least =
            std::array::from_fn(|lane| f64::from_bits((floor | self.orders[lane]) & of[lane]));
        self.keys = greater(self.keys, least);
    }
}

/// What the banks of a channel want, each at a place of its own: those of a bank group side by side.
///
/// A command that is given makes others wait, for the most part by what they have in common: their
/// floors, which a search is told. What their group forbids is kept with them.
#[derive(Clone, Debug)]
pub struct Candidates {
    places: Vec<Places>,
    epoch_clock: u64,
    epoch_sequence: u64,
}

/// A command that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// This bank's, which starts then, in this order.
    Bank(u32, u64, Order),
    /// All starts are far away: keys do not tell them apart.
    Far,
    /// No bank wants anything.
    Nothing,
}

/// Places that a group of so many banks takes.
pub fn places_of_group(banks: u32) -> u32 {
    banks.next_multiple_of(LANES as u32)
}

impl Candidates {
    /// So many places in all, a multiple of those of a group, for `banks` banks, none of which wants
    /// anything.
    pub fn new(places: u32, banks: u32) -> Self {
        assert!(banks <= 1 << BANK_BITS, "{banks} banks of a channel, though that was checked");
        Candidates {
            places: vec![Places::EMPTY; places as usize / LANES],
            epoch_clock: 0,
            epoch_sequence: 0,
        }
    }

    /// The order of a command that a bank wants, of this kind, or of this kind and background, for an
    /// entry of this place in order of arrival.
    #[inline]
    pub fn order(&self, kind: Order, sequence: u64, bank: usize) -> Order {
        let age = sequence.saturating_sub(self.epoch_sequence).min(YOUNGEST);
        kind | age << BANK_BITS | bank as Order
    }

    /// The order of what a bank wanted last.
    #[inline]
    pub fn order_at(&self, place: usize) -> Order {
        self.places[place / LANES].orders[place % LANES]
    }

    /// The beginning of the key of a command that starts at `start`.
    #[inline]
    pub fn key(&self, start: u64) -> Key {
        (start.saturating_sub(self.epoch_clock).min(FAR) + EPOCH) << START_SHIFT
    }

    /// No key yet: what a search begins with.
    pub const NOTHING: Keys = [f64::from_bits(NOTHING); LANES];

    /// Looks for the first command of some places beside those of `keys`; what their banks have in
    /// common makes them wait until the floors.
    #[inline]
    pub fn search(&self, places: Range<usize>, floors: &Floors, keys: &mut Keys) {
        for places in &self.places[places.start / LANES..places.end / LANES] {
            places.lower(floors, keys);
        }
    }

    /// The same for all places.
    #[inline]
    pub fn search_all(&self, floors: &Floors) -> Keys {
        let mut keys = Self::NOTHING;
        for places in &self.places {
            places.lower(floors, &mut keys);
        }
        keys
    }

    /// What a search has found.
    #[inline]
    pub fn first(&self, [a, b, c, d]: Keys) -> First {
        let [ac, bd] = [if a < c { a } else { c }, if b < d { b } else { d }];
        let key = (if ac < bd { ac } else { bd }).to_bits();
        let since = (key >> START_SHIFT) - EPOCH;
        if since < FAR {
            First::Bank((key & BANK) as u32, self.epoch_clock + since, key & ORDER)
        } else if key == NOTHING {
            First::Nothing
        } else {
            First::Far
        }
    }

    /// The bank at a place wants the command of this kind and order, and could have it at `ready`.
    #[inline]
    pub fn set(&mut self, place: usize, ready: u64, kind: Kind, order: Order) {
        let key = self.key(ready) | order;
        self.write(place, key, kind, order);
    }

    /// The same, but it must not have it.
    #[inline]
    pub fn set_blocked(&mut self, place: usize, kind: Kind, order: Order) {
        self.write(place, NOTHING, kind, order);
    }

    #[inline]
    fn write(&mut self, place: usize, key: Key, kind: Kind, order: Order) {
        let places = &mut self.places[place / LANES];
        let lane = place % LANES;
        places.keys[lane] = f64::from_bits(key);
        places.orders[lane] = order;
        places.columns[lane] = all_bits(kind == Kind::Column);
        places.activates[lane] = all_bits(kind == Kind::Activate);
    }

    /// The bank at a place wants nothing, or must not have it.
    #[inline]
    pub fn clear(&mut self, place: usize) {
        self.places[place / LANES].keys[place % LANES] = f64::from_bits(NOTHING);
    }

    /// No column command of these places, those of a group, starts before `floor`.
    #[inline]
    pub fn raise_columns(&mut self, places: Range<usize>, floor: u64) {
        let floor = self.key(floor);
        for places in &mut self.places[places.start / LANES..places.end / LANES] {
            places.raise(places.columns, floor);
        }
    }

    /// No activate of these places, those of a group, starts before `floor`.
    #[inline]
    pub fn raise_activates(&mut self, places: Range<usize>, floor: u64) {
        let floor = self.key(floor);
        for places in &mut self.places[places.start / LANES..places.end / LANES] {
            places.raise(places.activates, floor);
        }
    }

    /// Whether keys made now would leave the range in which they are told apart: then there has to
    /// be a new epoch.
    #[inline]
    pub fn is_old(&self, now: u64, sequence: u64) -> bool {
        now - self.epoch_clock > EPOCH_CLOCKS
            || sequence - self.epoch_sequence > YOUNGEST - YOUNGEST / 4
    }

    /// Begins a new epoch, in which no bank wants anything yet. What each wanted last keeps its order,
    /// as it is in an epoch that counts ages from what is so much younger.
    #[cold]
    pub fn renew(&mut self, now: u64, sequence: u64) {
        self.epoch_clock = now;
        // Who has waited while so many others came is the oldest of all.
        let before = self.epoch_sequence;
        self.epoch_sequence = sequence.saturating_sub(YOUNGEST / 2).max(before);
        let younger = self.epoch_sequence - before;
        for places in &mut self.places {
            for order in &mut places.orders {
                let age = *order >> BANK_BITS & YOUNGEST;
                *order -= age.min(younger) << BANK_BITS;
            }
            places.keys = Self::NOTHING;
        }
    }
}

#[inline]
fn all_bits(all: bool) -> u64 {
    0u64.wrapping_sub(u64::from(all))
}

/// The lesser of two keys, lane by lane.
#[inline]
fn lesser(one: Keys, other: Keys) -> Keys {
    std::array::from_fn(|lane| if one[lane] < other[lane] { one[lane] } else { other[lane] })
}

/// The greater of two keys, one of which may be 0, lane by lane.
#[inline]
fn greater(one: Keys, other: Keys) -> Keys {
    std::array::from_fn(|lane| if one[lane] > other[lane] { one[lane] } else { other[lane] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is found is what a plain search finds, in whatever epoch, with whatever floors.
        #[test]
        fn the_first_is_that_of_a_plain_search(
            banks in 1..70u32,
            epoch in 0..1u64 << 40,
            floors in proptest::array::uniform3(0..8u64),
            raised in (0..70usize, 0..20usize, any::<bool>(), 0..8u64),
            changes in proptest::collection::vec(
                (0..70usize, any::<bool>(), 0..6u64, 0..3usize, any::<bool>(), 0..1000u64), 0..100),
        ) {
            let kinds = [Kind::Column, Kind::Activate, Kind::Precharge];
            let all = places_of_group(banks) as usize;
            let mut candidates = Candidates::new(all as u32, banks);
            candidates.renew(epoch, epoch >> 10);
            let mut plain = vec![None; all];
            for (bank, wants, start, kind, background, sequence) in changes {
                let bank = bank % banks as usize;
                let sequence = (epoch >> 10) + sequence;
                let order = kinds[kind].order() | (u64::from(background) * BACKGROUND);
                plain[bank] = wants.then_some((epoch + start, kind, order, sequence));
                let known = candidates.order(order, sequence, bank);
                if wants {
                    candidates.set(bank, epoch + start, kinds[kind], known);
                } else {
                    candidates.set_blocked(bank, kinds[kind], known);
                }
            }
            let (first, count, activates, least) = raised;
            let range = (first / LANES * LANES).min(all)..((first + count) / LANES * LANES).min(all);
            if activates {
                candidates.raise_activates(range.clone(), epoch + least);
            } else {
                candidates.raise_columns(range.clone(), epoch + least);
            }
            for (start, kind, ..) in plain[range].iter_mut().flatten() {
                if *kind == usize::from(activates) {
                    *start = (*start).max(epoch + least);
                }
            }
            let best = plain.iter().enumerate().filter_map(|(bank, wish)| {
                let (start, kind, order, sequence) = (*wish)?;
                Some((start.max(epoch + floors[kind]), order, sequence, bank))
            });
            let expected = best.min().map_or(First::Nothing, |(start, order, sequence, bank)| {
                First::Bank(bank as u32, start, candidates.order(order, sequence, bank))
            });
            let [column, activate, precharge] = floors.map(|floor| candidates.key(epoch + floor));
            let floors = Floors { column, activate, precharge };
            let mut keys = Candidates::NOTHING;
            candidates.search(0..all, &floors, &mut keys);
            prop_assert_eq!(candidates.first(keys), candidates.first(candidates.search_all(&floors)));
            prop_assert_eq!(candidates.first(keys), expected);
        }
    }

    fn found(candidates: &Candidates) -> First {
        let none = candidates.key(0);
        let floors = Floors { column: none, activate: none, precharge: none };
        candidates.first(candidates.search_all(&floors))
    }

    /// Two starts a clock apart are told apart until the epoch is old, and from where they are not
    /// the search says so.
    #[test]
    fn starts_are_told_apart_or_said_to_be_far() {
        let mut candidates = Candidates::new(4, 2);
        let order = |bank: u64| Kind::Column.order() | (9 * bank) << BANK_BITS | bank;
        for start in [0, 1, EPOCH_CLOCKS, FAR - 1] {
            candidates.set(0, start + 1, Kind::Column, order(0));
            candidates.set(1, start, Kind::Column, order(1));
            assert_eq!(found(&candidates), First::Bank(1, start, order(1)));
        }
        candidates.set(1, FAR, Kind::Column, order(1));
        assert_eq!(found(&candidates), First::Far);
        candidates.clear(0);
        candidates.set_blocked(1, Kind::Column, order(1));
        assert_eq!(found(&candidates), First::Nothing);
        assert!(!candidates.is_old(EPOCH_CLOCKS, 0) && candidates.is_old(EPOCH_CLOCKS + 1, 0));
        assert!(candidates.is_old(0, YOUNGEST));
    }

    /// Ages keep their order in a new epoch, and are those that it would count.
    #[test]
    fn orders_are_renewed_as_if_they_were_made_anew() {
        let sequences = [0, 5, YOUNGEST / 4, YOUNGEST / 2, YOUNGEST / 2 + 1];
        let mut candidates = Candidates::new(8, 8);
        let of = |candidates: &Candidates, place: usize| {
            candidates.order(Kind::Activate.order() | BACKGROUND, sequences[place], place)
        };
        let places = 0..sequences.len();
        for place in places.clone() {
            candidates.set(place, 0, Kind::Activate, of(&candidates, place));
        }
        candidates.renew(1 << 20, YOUNGEST - 8);
        assert!(candidates.epoch_sequence > 0);
        for place in places {
            assert_eq!(candidates.order_at(place), of(&candidates, place), "{place}");
        }
    }
}
