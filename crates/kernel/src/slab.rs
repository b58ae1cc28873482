//! Storage for requests in flight, which carry an index instead of a pointer.

use std::ops::{Index, IndexMut};

const NONE: u32 = u32::MAX;

/// Items under small numbers. The number that was freed last is given out first, so that equal
/// calls give equal numbers and memory that was just used is used again.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: u32,
    length: usize,
}

#[derive(Clone, Debug)]
enum Entry<T> {
    Taken(T),
    /// Free, with the entry that was freed before it, or [`NONE`].
    Free(u32),
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab::new()
    }
}

impl<T> Slab<T> {
    /// No items.
    pub const fn new() -> Self {
        Slab { entries: Vec::new(), free: NONE, length: 0 }
    }

    /// Stores `item`; its number until it is removed.
    ///
    /// # Panics
    /// If 2³² − 1 items are stored.
    #[inline]
    pub fn insert(&mut self, item: T) -> u32 {
        self.length += 1;
        let index = self.free;
        let Some(entry) = self.entries.get_mut(index as usize) else {
            return self.append(item);
        };
        let Entry::Free(next) = *entry else {
            unreachable!("the free list names free entries only");
        };
        *entry = Entry::Taken(item);
        self.free = next;
        index
    }

    #[cold]
    fn append(&mut self, item: T) -> u32 {
        let index = self.entries.len() as u32;
        assert!(index < NONE, "a slab holds fewer than 2^32 - 1 items");
        self.entries.push(Entry::Taken(item));
        index
    }

    /// Takes item `index` out.
    ///
    /// # Panics
    /// If there is no such item.
    #[inline]
    pub fn remove(&mut self, index: u32) -> T {
        if let Some(entry @ Entry::Taken(_)) = self.entries.get_mut(index as usize)
            && let Entry::Taken(item) = std::mem::replace(entry, Entry::Free(self.free))
        {
            self.free = index;
            self.length -= 1;
            return item;
        }
        missing(index)
    }

    /// Item `index`, if there is one.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        match self.entries.get(index as usize) {
            Some(Entry::Taken(item)) => Some(item),
            _ => None,
        }
    }

    /// Item `index`, if there is one, to be changed in place.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        match self.entries.get_mut(index as usize) {
            Some(Entry::Taken(item)) => Some(item),
            _ => None,
        }
    }

    /// Number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is no item.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Numbers and items, in order of the numbers.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, &T)> {
        self.entries.iter().enumerate().filter_map(|(index, entry)| match entry {
            Entry::Taken(item) => Some((index as u32, item)),
            Entry::Free(_) => None,
        })
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        self.get(index).unwrap_or_else(|| missing(index))
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        self.get_mut(index).unwrap_or_else(|| missing(index))
    }
}

#[cold]
#[inline(never)]
fn missing(index: u32) -> ! {
    panic!("the slab has no item {index}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_number_freed_last_is_given_out_first() {
        let mut slab = Slab::new();
        let numbers: Vec<u32> = (0..4).map(|item| slab.insert(item)).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        slab.remove(1);
        slab.remove(3);
        slab.remove(0);
        assert_eq!([slab.insert(9), slab.insert(9), slab.insert(9), slab.insert(9)], [0, 3, 1, 4]);
    }

    #[test]
    #[should_panic(expected = "no item 0")]
    fn an_item_is_removed_only_once() {
        let mut slab = Slab::new();
        let number = slab.insert(());
        slab.remove(number);
        slab.remove(number);
    }

    proptest! {
        #[test]
        fn the_slab_equals_a_map_and_a_stack(
            steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..200),
        ) {
            let mut slab = Slab::new();
            let mut map: BTreeMap<u32, usize> = BTreeMap::new();
            let mut free: Vec<u32> = Vec::new();
            for (step, (insert, choice)) in steps.into_iter().enumerate() {
                if insert || map.is_empty() {
                    let expected = free.pop().unwrap_or(map.len() as u32);
                    prop_assert_eq!(slab.insert(step), expected);
                    map.insert(expected, step);
                } else {
                    let number = *choice.get(&map.keys().copied().collect::<Vec<_>>());
                    slab[number] += 1;
                    prop_assert_eq!(Some(slab.remove(number)), map.remove(&number).map(|i| i + 1));
                    prop_assert_eq!(slab.get(number), None);
                    prop_assert_eq!(slab.get_mut(number), None);
                    free.push(number);
                }
                prop_assert!(slab.iter().eq(map.iter().map(|(&number, item)| (number, item))));
                prop_assert_eq!((slab.len(), slab.is_empty()), (map.len(), map.is_empty()));
                prop_assert!(map.iter().all(|(&number, &item)| slab[number] == item));
            }
        }
    }
}
