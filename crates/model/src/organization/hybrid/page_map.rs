//! A small map from pages to numbers, for what is in flight.

/// Open addressing with linear probing, at most half full; removal moves later entries back, so
/// that no tombstones gather. Never iterated: its inner order has no effect on anything.
#[derive(Clone, Debug)]
pub(in crate::organization) struct PageMap {
    entries: Vec<(u64, u32)>,
    shift: u32,
}

const FREE: u64 = u64::MAX;

impl PageMap {
    /// A map for up to `capacity` pages.
    pub(in crate::organization) fn with_capacity(capacity: usize) -> Self {
        let size = (2 * capacity.max(2)).next_power_of_two();
        PageMap { entries: vec![(FREE, 0); size], shift: u64::BITS - size.trailing_zeros() }
    }

    /// The number of `page`, if it is there.
    #[inline]
    pub(in crate::organization) fn get(&self, page: u64) -> Option<u32> {
        let mut place = self.home(page);
        loop {
            let (key, value) = self.entries[place];
            if key == page {
                return Some(value);
            }
            if key == FREE {
                return None;
            }
            place = self.after(place);
        }
    }

    /// Gives `page` a number, in place of the one that it may have.
    pub(in crate::organization) fn insert(&mut self, page: u64, value: u32) {
        debug_assert!(page != FREE);
        let mut place = self.home(page);
        while self.entries[place].0 != FREE && self.entries[place].0 != page {
            place = self.after(place);
        }
        self.entries[place] = (page, value);
    }

    /// Removes `page`, if it is there.
    pub(in crate::organization) fn remove(&mut self, page: u64) {
        let mut hole = self.home(page);
        while self.entries[hole].0 != page {
            if self.entries[hole].0 == FREE {
                return;
            }
            hole = self.after(hole);
        }
        let mut next = self.after(hole);
        while self.entries[next].0 != FREE {
            let home = self.home(self.entries[next].0);
            let mask = self.entries.len() - 1;
            // The entry may move back unless its home lies behind the hole.
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                self.entries[hole] = self.entries[next];
                hole = next;
            }
            next = self.after(next);
        }
        self.entries[hole] = (FREE, 0);
    }

    /// Fibonacci hashing: the high bits of a product with 2⁶⁴ / φ.
    #[inline]
    fn home(&self, page: u64) -> usize {
        (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    #[inline]
    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.entries.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_map_equals_an_ordered_map(
            steps in prop::collection::vec((0u64..40, any::<Option<u32>>()), 0..300),
        ) {
            let mut map = PageMap::with_capacity(16);
            let mut naive = BTreeMap::new();
            for (page, step) in steps {
                match step {
                    Some(value) if naive.len() < 16 || naive.contains_key(&page) => {
                        map.insert(page, value);
                        naive.insert(page, value);
                    }
                    _ => {
                        map.remove(page);
                        naive.remove(&page);
                    }
                }
                for page in 0..40 {
                    prop_assert_eq!(map.get(page), naive.get(&page).copied());
                }
            }
        }
    }
}
