//! A vector whose forks write a little, all over it, and are dropped.

use super::pieces::Pieces;
use std::ops::Range;
use std::sync::Arc;

/// What is written beside what is shared, at most: more is put where it belongs, in chunks of one's own.
const MOST: usize = 1 << 14;
/// As much is taken along by a fork; more is put where it belongs before.
const MOST_OF_FORK: usize = 1 << 11;
/// As an index: nothing is here.
const NOTHING: u64 = u64::MAX;
/// Neighbours lie beside each other, so many of them.
const NEIGHBOURS_BITS: u32 = 3;

/// A vector of fixed length over an implicit base value, like [`CowVec`](super::CowVec), of which a fork and its origin keep what they
/// write beside what they share, element by element, as long as that is little: no chunk is copied for it.
///
/// ```
/// use tierscope_kernel::CowTable;
/// let mut places = CowTable::in_chunks(1 << 30, 0u32, 1024);
/// *places.get_mut(1 << 29) = 7;
/// let mut fork = places.fork();
/// *fork.get_mut(1 << 28) = 8;
/// assert_eq!((places.get(1 << 28), fork.get(1 << 28), fork.get(1 << 29)), (0, 8, 7));
/// ```
#[derive(Clone, Debug)]
pub struct CowTable<T: Copy>(Held<T>);

#[derive(Clone, Debug)]
enum Held<T: Copy> {
    Owned(Pieces<T>),
    /// What is shared, no chunk of which is anybody's own, and what differs from that.
    Shared(Arc<Pieces<T>>, Changes<T>),
    /// Never seen from outside: the elements are being moved.
    Moving,
}

impl<T: Copy> CowTable<T> {
    /// A table of `len` elements, all `base`, in chunks of a power of two of elements, at least `chunk_len`: the fewer,
    /// the less is copied and taken at a write far from all others, and the more is kept of chunks.
    pub fn in_chunks(len: u64, base: T, chunk_len: u64) -> Self {
        CowTable(Held::Owned(Pieces::new(len, base, chunk_len)))
    }

    #[inline]
    fn pieces(&self) -> &Pieces<T> {
        match &self.0 {
            Held::Owned(all) => all,
            Held::Shared(all, _) => all,
            Held::Moving => unreachable!("nobody sees elements that are being moved"),
        }
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> u64 {
        self.pieces().len()
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Element `i`.
    ///
    /// # Panics
    /// If `i` is not below the length.
    #[inline]
    pub fn get(&self, i: u64) -> T {
        match &self.0 {
            Held::Owned(all) => all.get(i),
            Held::Shared(all, changes) => changes.get(i).unwrap_or_else(|| all.get(i)),
            Held::Moving => unreachable!("nobody sees elements that are being moved"),
        }
    }

    /// Element `i`, to be written.
    ///
    /// # Panics
    /// If `i` is not below the length.
    #[inline]
    pub fn get_mut(&mut self, i: u64) -> &mut T {
        if let Held::Shared(..) = self.0 {
            return self.get_mut_beside(i);
        }
        self.owned_mut(i)
    }

    /// An element of what nobody shares.
    #[inline]
    fn owned_mut(&mut self, i: u64) -> &mut T {
        match &mut self.0 {
            Held::Owned(all) => all.get_mut(i),
            _ => unreachable!("the table is owned"),
        }
    }

    /// Element `i`, to be written beside what is shared.
    #[inline(never)]
    fn get_mut_beside(&mut self, i: u64) -> &mut T {
        if matches!(&self.0, Held::Shared(_, changes) if changes.len >= MOST) {
            self.0 = Held::Owned(self.settle());
        }
        match &mut self.0 {
            Held::Owned(all) => all.get_mut(i),
            Held::Shared(all, changes) => changes.get_mut(i, || all.get(i)),
            Held::Moving => unreachable!("nobody sees elements that are being moved"),
        }
    }

    /// Element `i` becomes `value`. What it was is not looked at, as it is by [`CowTable::get_mut`].
    ///
    /// # Panics
    /// If `i` is not below the length.
    #[inline]
    pub fn set(&mut self, i: u64, value: T) {
        match &mut self.0 {
            Held::Shared(all, changes) if changes.len < MOST => {
                assert!(i < all.len(), "element {i} of {}", all.len());
                *changes.get_mut(i, || value) = value;
            }
            _ => *self.get_mut(i) = value,
        }
    }

    /// A second table with the same elements. Costs a copy of what has been written beside what is shared; where that
    /// is much, or where there has been no fork, a nanosecond for a few chunks, too, and a copy of each that it belongs
    /// to.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        if !matches!(&self.0, Held::Shared(_, changes) if changes.len <= MOST_OF_FORK) {
            let mut all = self.settle();
            all.tidy();
            all.share();
            self.0 = Held::Shared(Arc::new(all), Changes::new());
        }
        self.clone()
    }

    /// Elements of these numbers, in their order; a whole chunk takes one look-up.
    ///
    /// # Panics
    /// If one of them is not below the length.
    pub fn range(&self, range: Range<u64>) -> impl Iterator<Item = T> + '_ {
        let runs = self.pieces().runs(range);
        runs.flat_map(move |(first, run)| {
            (first..).zip(run).map(move |(i, &element)| match &self.0 {
                Held::Shared(_, changes) => changes.get(i).unwrap_or(element),
                _ => element,
            })
        })
    }

    /// All elements, from the first on.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        (0..self.len()).map(|i| self.get(i))
    }

    /// All elements, each where it belongs.
    #[cold]
    #[inline(never)]
    fn settle(&mut self) -> Pieces<T> {
        let (all, changes) = match std::mem::replace(&mut self.0, Held::Moving) {
            Held::Owned(all) => return all,
            Held::Shared(all, changes) => (all, changes),
            Held::Moving => unreachable!("nobody sees elements that are being moved"),
        };
        let mut all = Arc::try_unwrap(all).unwrap_or_else(|all| all.as_ref().clone());
        for (i, value) in changes.slots {
            if i != NOTHING {
                *all.get_mut(i) = value;
            }
        }
        all
    }
}

/// Elements by their index: a table with open addressing, at most half full.
#[derive(Clone, Debug)]
struct Changes<T> {
    slots: Vec<(u64, T)>,
    len: usize,
}

impl<T: Copy> Changes<T> {
    fn new() -> Self {
        Changes { slots: Vec::new(), len: 0 }
    }

    /// Where an element is, or would be; there is room for another.
    #[inline]
    fn slot(&self, i: u64) -> usize {
        let mask = self.slots.len() - 1;
        let neighbours = (i >> NEIGHBOURS_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let first = neighbours << NEIGHBOURS_BITS | i & ((1 << NEIGHBOURS_BITS) - 1);
        let mut at = first as usize & mask;
        while self.slots[at].0 != i && self.slots[at].0 != NOTHING {
            at = (at + 1) & mask;
        }
        at
    }

    #[inline]
    fn get(&self, i: u64) -> Option<T> {
        if self.len == 0 { None } else { self.find(i) }
    }

    #[inline(never)]
    fn find(&self, i: u64) -> Option<T> {
        let (found, value) = self.slots[self.slot(i)];
        (found == i).then_some(value)
    }

    /// Element `i`, which is `shared` where nothing else was written.
    #[inline]
    fn get_mut(&mut self, i: u64, shared: impl Fn() -> T) -> &mut T {
        if 2 * self.len >= self.slots.len() {
            self.grow(shared());
        }
        let at = self.slot(i);
        if self.slots[at].0 != i {
            self.slots[at] = (i, shared());
            self.len += 1;
        }
        &mut self.slots[at].1
    }

    /// Twice as many slots; `any` is a value that nobody sees.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, any: T) {
        let more = (2 * self.slots.len()).max(16);
        let before = std::mem::replace(&mut self.slots, vec![(NOTHING, any); more]);
        for (i, value) in before {
            if i != NOTHING {
                let at = self.slot(i);
                self.slots[at] = (i, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn forks_equal_plain_vectors_that_are_copied_however_much_they_write() {
        let len = 100_000;
        let mut draws = Random::stream(1, "table");
        let mut forks = vec![(CowTable::in_chunks(len, 7u32, 64), vec![7u32; len as usize])];
        for turn in 0..60 {
            let chosen = draws.below(forks.len() as u64) as usize;
            let (table, model) = &mut forks[chosen];
            // Little, and more than lies beside what is shared.
            let writes = if turn % 7 == 0 { 2 * MOST as u64 } else { draws.below(3000) };
            let near = draws.below(2) == 0;
            for n in 0..writes {
                let i = if near { (n + 5) % len } else { draws.below(len) };
                let value = draws.below(1 << 20) as u32;
                if draws.below(2) == 0 {
                    *table.get_mut(i) = value;
                } else {
                    table.set(i, value);
                }
                model[i as usize] = value;
            }
            if draws.below(2) == 0 {
                let fork = (table.fork(), model.clone());
                forks.push(fork);
            }
            if forks.len() > 5 {
                forks.swap_remove(draws.below(forks.len() as u64) as usize);
            }
            for (table, model) in &forks {
                assert!(table.iter().eq(model.iter().copied()), "turn {turn}");
                let (from, to) = (draws.below(len), draws.below(len));
                let part = model[from.min(to) as usize..from.max(to) as usize].iter().copied();
                assert!(table.range(from.min(to)..from.max(to)).eq(part), "turn {turn}");
            }
        }
    }

    #[test]
    fn what_a_fork_writes_copies_no_chunk_until_it_is_much() {
        let mut table = CowTable::in_chunks(1 << 20, 0u64, 1024);
        (0..1 << 20).step_by(512).for_each(|i| *table.get_mut(i) = i);
        let before = table.pieces().touched_bytes();
        let mut fork = table.fork();
        (0..MOST as u64).for_each(|i| *fork.get_mut(64 * i) = 1);
        assert!(std::ptr::eq(fork.pieces(), table.pieces()));
        *fork.get_mut(1) = 1;
        assert!(matches!(fork.0, Held::Owned(_)) && fork.pieces().owned() > 0);
        assert_eq!((fork.get(64), table.get(64), table.pieces().touched_bytes()), (1, 0, before));
    }

    #[test]
    #[should_panic(expected = "element 10 of 10")]
    fn an_element_past_the_end_is_refused() {
        let mut table = CowTable::in_chunks(10, 0u8, 4);
        let _fork = table.fork();
        *table.get_mut(10) = 1;
    }

    #[test]
    #[should_panic(expected = "element 10 of 10")]
    fn nor_is_one_set() {
        let mut table = CowTable::in_chunks(10, 0u8, 4);
        let _fork = table.fork();
        table.set(10, 1);
    }
}
