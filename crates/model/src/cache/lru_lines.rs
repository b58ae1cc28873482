//! The lines of an on-chip cache, exactly least recently used.
//!
//! [`TagStore`](super::TagStore) keeps each line at its way, since a DRAM cache's data lie there,
//! takes any policy, and costs only what is touched. On-chip caches need none of that: they are
//! small, nobody asks for the way, and they are looked up several times for each miss. So here a
//! set's lines simply lie in the order of their last use, and that order is all there is.

use super::Modulo;

const VALID: u64 = 1;
const DIRTY: u64 = 2;
const FLAG_BITS: u32 = 2;

/// A line that had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Line number.
    pub line: u64,
    /// Whether it was written since it came.
    pub dirty: bool,
}

impl Gone {
    #[inline]
    fn of(entry: u64) -> Option<Gone> {
        (entry != 0).then_some(Gone { line: entry >> FLAG_BITS, dirty: entry & DIRTY != 0 })
    }
}

/// Sets of `ways` lines, each in the order of last use; places that hold nothing come last.
///
/// The number of sets need not be a power of two; lines go to sets by their remainder.
#[derive(Clone, Debug)]
pub struct LruLines {
    /// Set by set: line number and flags, or 0.
    entries: Box<[u64]>,
    sets: Modulo,
    ways: usize,
}

impl LruLines {
    /// An empty cache of `sets` (1 to 2³²) × `ways` (at least 1).
    pub fn new(sets: u64, ways: usize) -> Self {
        LruLines { entries: vec![0; sets as usize * ways].into(), sets: Modulo::new(sets), ways }
    }

    /// Uses `line`, which becomes dirty if `write`; whether it is there.
    #[inline]
    pub fn access(&mut self, line: u64, write: bool) -> bool {
        self.access_if(line, write, || true)
    }

    /// The same; but a line that is clean is there for a write only where it may become dirty.
    #[inline]
    pub fn access_if(&mut self, line: u64, write: bool, may: impl FnOnce() -> bool) -> bool {
        let key = key(line);
        let set = self.set(line);
        // Most hits are of the line that was used last.
        let found = if set[0] | DIRTY == key { Some(0) } else { find(set, key) };
        let Some(way) = found else { return false };
        let entry = set[way];
        if write && entry & DIRTY == 0 && !may() {
            return false;
        }
        if way > 0 {
            set.copy_within(..way, 1);
        }
        set[0] = entry | (DIRTY * u64::from(write));
        true
    }

    /// Whether `line` is there. No effect.
    #[inline]
    pub fn contains(&self, line: u64) -> bool {
        let first = self.sets.of(line) as usize * self.ways;
        find(&self.entries[first..first + self.ways], key(line)).is_some()
    }

    /// Whether `line` is there and dirty. No effect.
    pub fn is_dirty(&self, line: u64) -> bool {
        let first = self.sets.of(line) as usize * self.ways;
        let set = &self.entries[first..first + self.ways];
        find(set, key(line)).is_some_and(|way| set[way] & DIRTY != 0)
    }

    /// Makes `line` dirty, if it is there, which does not count as a use; whether it is.
    #[inline]
    pub fn set_dirty(&mut self, line: u64) -> bool {
        let set = self.set(line);
        let way = find(set, key(line));
        if let Some(way) = way {
            set[way] |= DIRTY;
        }
        way.is_some()
    }

    /// Makes `line` clean, if it is there, which does not count as a use; whether it was dirty.
    pub fn clean(&mut self, line: u64) -> Option<bool> {
        let set = self.set(line);
        let way = find(set, key(line))?;
        let dirty = set[way] & DIRTY != 0;
        set[way] &= !DIRTY;
        Some(dirty)
    }

    /// All lines, and whether each was written since it came.
    pub fn iter(&self) -> impl Iterator<Item = (u64, bool)> + '_ {
        let gone = self.entries.iter().filter_map(|entry| Gone::of(*entry));
        gone.map(|gone| (gone.line, gone.dirty))
    }

    /// Puts `line`, which is absent, in front; what had to go for it.
    #[inline]
    pub fn insert(&mut self, line: u64, dirty: bool) -> Option<Gone> {
        debug_assert!(!self.contains(line), "line {line} is present");
        let ways = self.ways;
        let set = self.set(line);
        let last = set[ways - 1];
        set.copy_within(..ways - 1, 1);
        set[0] = (line << FLAG_BITS) | VALID | (DIRTY * u64::from(dirty));
        Gone::of(last)
    }

    /// Removes `line`; whether it was dirty, if it was there.
    pub fn remove(&mut self, line: u64) -> Option<bool> {
        let ways = self.ways;
        let set = self.set(line);
        let way = find(set, key(line))?;
        let dirty = set[way] & DIRTY != 0;
        set.copy_within(way + 1.., way);
        set[ways - 1] = 0;
        Some(dirty)
    }

    #[inline]
    fn set(&mut self, line: u64) -> &mut [u64] {
        let first = self.sets.of(line) as usize * self.ways;
        &mut self.entries[first..first + self.ways]
    }
}

/// What the entry of `line` is, once it is made dirty.
#[inline]
fn key(line: u64) -> u64 {
    (line << FLAG_BITS) | VALID | DIRTY
}

/// The place of the line of `key`. Compares blocks of places without a branch, since which of them
/// it is cannot be predicted.
#[inline]
fn find(set: &[u64], key: u64) -> Option<usize> {
    const BLOCK: usize = 4;
    let (blocks, rest) = set.as_chunks::<BLOCK>();
    let mut mask = 0u64;
    for (index, block) in blocks.iter().enumerate() {
        let mut part = 0;
        for (place, entry) in block.iter().enumerate() {
            part |= u64::from(*entry | DIRTY == key) << place;
        }
        mask |= part << (index * BLOCK);
    }
    for (place, entry) in rest.iter().enumerate() {
        mask |= u64::from(*entry | DIRTY == key) << (blocks.len() * BLOCK + place);
    }
    (mask != 0).then_some(mask.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{TagStore, flag};
    use crate::replacement::Lru;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Use { line: u64, write: bool },
        SetDirty(u64),
        Clean(u64),
        Remove(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let line = 0u64..60;
        prop_oneof![
            8 => (line.clone(), any::<bool>()).prop_map(|(line, write)| Step::Use { line, write }),
            1 => line.clone().prop_map(Step::SetDirty),
            1 => line.clone().prop_map(Step::Clean),
            1 => line.prop_map(Step::Remove),
        ]
    }

    proptest! {
        #[test]
        fn it_holds_loses_and_dirties_what_the_tag_store_does(
            sets in 1u64..6, ways in 1usize..=24,
            steps in proptest::collection::vec(step(), 1..400),
        ) {
            let mut lines = LruLines::new(sets, ways);
            let mut tags: TagStore<Lru> = TagStore::new(sets, ways, false, 0);
            for step in steps {
                match step {
                    Step::Use { line, write } => {
                        let hit = tags.access(line, write).is_some();
                        prop_assert_eq!(lines.contains(line), hit);
                        prop_assert_eq!(lines.access(line, write), hit);
                        if !hit {
                            let flags = if write { flag::DIRTY } else { 0 };
                            let evicted = tags.insert(line, flags);
                            let expected = evicted.and_then(|evicted| {
                                Some(Gone { line: evicted.line?, dirty: evicted.dirty() })
                            });
                            prop_assert_eq!(lines.insert(line, write), expected);
                        }
                    }
                    Step::SetDirty(line) => {
                        let at = tags.lookup(line);
                        prop_assert_eq!(lines.set_dirty(line), at.is_some());
                        if let Some(at) = at {
                            tags.set_dirty(at);
                        }
                    }
                    Step::Clean(line) => {
                        let dirty = tags.invalidate(line).map(|flags| flags & flag::DIRTY != 0);
                        prop_assert_eq!(lines.clean(line), dirty);
                        // The tag store knows no cleaning: both lose it.
                        prop_assert_eq!(lines.remove(line), dirty.map(|_| false));
                    }
                    Step::Remove(line) => {
                        let expected = tags.invalidate(line).map(|flags| flags & flag::DIRTY != 0);
                        prop_assert_eq!(lines.remove(line), expected);
                    }
                }
            }
        }
    }

    #[test]
    fn a_copy_goes_its_own_way() {
        let mut lines = LruLines::new(3, 2);
        lines.insert(7, true);
        let mut copy = lines.clone();
        assert_eq!(copy.remove(7), Some(true));
        assert!(lines.contains(7) && !copy.contains(7));
    }
}
