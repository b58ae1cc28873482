//! Swap of a size of its own: which slot a page gets (`cluster_alloc_swap_entry` and `alloc_swap_scan_list`,
//! mm/swapfile.c of Linux 6.18).
//!
//! Slots are given one behind the other within a cluster, then within the next that is free as a whole: those that
//! nobody has had yet in their order, then those that have become free, the first first. Where there is none, free slots
//! of clusters that have some are given. So pages that go together lie together, and are read together again.

use super::*;
use std::collections::VecDeque;
use tierscope_kernel::cow::CowVec;

/// Slots of a cluster: those of a huge page (`SWAPFILE_CLUSTER`, mm/swapfile.c, with `CONFIG_THP_SWAP`).
pub(super) const CLUSTER_SLOTS: u64 = 512;

/// Bits of a word of the map of slots.
const WORD: u64 = 64;

/// The slots of swap.
#[derive(Clone, Debug)]
pub(super) struct SwapArea {
    slots: u64,
    /// A bit for each slot, set where it is in use.
    map: CowVec<u64>,
    /// How many slots are in use of each cluster that has any.
    used: BTreeMap<u64, u64>,
    /// How many are of all.
    used_slots: u64,
    /// The cluster that slots come from, and the next slot to look at.
    next: Option<u64>,
    /// The first cluster that nobody has had yet.
    fresh: u64,
    /// Clusters that have become free.
    free: VecDeque<u64>,
    /// Clusters that were left or full, and have free slots.
    partly: BTreeSet<(u64, u64)>,
    /// The place of each of them there.
    ranks: BTreeMap<u64, u64>,
    rank: u64,
}

impl SwapArea {
    /// So many slots, all of which are free.
    pub fn new(slots: u64) -> Self {
        SwapArea {
            slots,
            map: CowVec::new(slots.div_ceil(WORD).max(1), 0),
            used: BTreeMap::new(),
            used_slots: 0,
            next: None,
            fresh: 0,
            free: VecDeque::new(),
            partly: BTreeSet::new(),
            ranks: BTreeMap::new(),
            rank: 0,
        }
    }

    /// The same again; the map is shared until it is written to.
    pub fn fork(&mut self) -> Self {
        SwapArea {
            map: self.map.fork(),
            used: self.used.clone(),
            free: self.free.clone(),
            partly: self.partly.clone(),
            ranks: self.ranks.clone(),
            ..*self
        }
    }

    /// How many slots there are.
    pub fn slots(&self) -> u64 {
        self.slots
    }

    /// Whether all slots are in use.
    pub fn is_full(&self) -> bool {
        self.used_slots == self.slots
    }

    /// Whether more than half of them are, so that what has a copy in memory is worth less than its slot (`vm_swap_full`,
    /// include/linux/swap.h).
    pub fn is_half_full(&self) -> bool {
        2 * (self.slots - self.used_slots) < self.slots
    }

    /// A free slot, which is in use from now on; none where all are.
    pub fn take(&mut self) -> Option<u64> {
        loop {
            let next = match self.next {
                Some(next) => next,
                None => self.next_cluster()? * CLUSTER_SLOTS,
            };
            let cluster = next / CLUSTER_SLOTS;
            if let Some(slot) = self.first_free(next) {
                *self.map.get_mut(slot / WORD) |= 1 << (slot % WORD);
                *self.used.entry(cluster).or_default() += 1;
                self.used_slots += 1;
                let is_last = (slot + 1).is_multiple_of(CLUSTER_SLOTS);
                self.next = (!is_last).then_some(slot + 1);
                if is_last {
                    self.leave(cluster);
                }
                return Some(slot);
            }
            self.next = None;
            self.leave(cluster);
        }
    }

    /// The slots of a cluster that is free as a whole, which are in use from now on, for a huge page: the first.
    pub fn take_cluster(&mut self) -> Option<u64> {
        let whole = self.slots / CLUSTER_SLOTS;
        let cluster = if self.fresh < whole {
            self.fresh += 1;
            self.fresh - 1
        } else {
            let place = self.free.iter().position(|cluster| *cluster < whole)?;
            self.free.remove(place)?
        };
        let slots = self.slots_of(cluster);
        slots.clone().step_by(WORD as usize).for_each(|it| *self.map.get_mut(it / WORD) = u64::MAX);
        self.used.insert(cluster, CLUSTER_SLOTS);
        self.used_slots += CLUSTER_SLOTS;
        Some(slots.start)
    }

    /// A slot is free again; its cluster, if that is free as a whole now, and not the one that slots come from:
    /// it is given to nobody before [`SwapArea::give_cluster`].
    pub fn give_back(&mut self, slot: u64) -> Option<u64> {
        *self.map.get_mut(slot / WORD) &= !(1 << (slot % WORD));
        let cluster = slot / CLUSTER_SLOTS;
        let used = self.used.get_mut(&cluster)?;
        *used -= 1;
        self.used_slots -= 1;
        let is_free = *used == 0;
        if is_free {
            self.used.remove(&cluster);
        }
        if self.next.is_some_and(|next| next / CLUSTER_SLOTS == cluster) {
            return None;
        }
        match self.ranks.get(&cluster) {
            Some(rank) if is_free => {
                self.partly.remove(&(*rank, cluster));
                self.ranks.remove(&cluster);
            }
            None if !is_free => self.add_partly(cluster),
            _ => {}
        }
        is_free.then_some(cluster)
    }

    /// A cluster that is free as a whole may be given again.
    pub fn give_cluster(&mut self, cluster: u64) {
        self.free.push_back(cluster);
    }

    fn add_partly(&mut self, cluster: u64) {
        self.partly.insert((self.rank, cluster));
        self.ranks.insert(cluster, self.rank);
        self.rank += 1;
    }

    fn slots_of(&self, cluster: u64) -> Range<u64> {
        cluster * CLUSTER_SLOTS..((cluster + 1) * CLUSTER_SLOTS).min(self.slots)
    }

    /// Slots come from another cluster from now on: the free ones of this are for when there is no free cluster.
    fn leave(&mut self, cluster: u64) {
        let slots = self.slots_of(cluster);
        match self.used.get(&cluster) {
            None => self.free.push_back(cluster),
            Some(used) if *used < slots.end - slots.start => self.add_partly(cluster),
            Some(_) => {}
        }
    }

    fn next_cluster(&mut self) -> Option<u64> {
        if self.fresh < self.slots.div_ceil(CLUSTER_SLOTS) {
            self.fresh += 1;
            return Some(self.fresh - 1);
        }
        self.free.pop_front().or_else(|| {
            let (_, cluster) = self.partly.pop_first()?;
            self.ranks.remove(&cluster);
            Some(cluster)
        })
    }

    /// The first free slot of a cluster from this slot on.
    fn first_free(&self, from: u64) -> Option<u64> {
        let end = self.slots_of(from / CLUSTER_SLOTS).end;
        let mut slot = from;
        while slot < end {
            let free = !self.map.get(slot / WORD) >> (slot % WORD);
            if free != 0 {
                return Some(slot + u64::from(free.trailing_zeros())).filter(|slot| *slot < end);
            }
            slot = (slot / WORD + 1) * WORD;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slots_go_on_behind_the_last_and_come_round() {
        let mut area = SwapArea::new(3 * CLUSTER_SLOTS);
        let first: Vec<u64> = (0..CLUSTER_SLOTS + 3).map(|_| area.take().unwrap()).collect();
        assert_eq!(first, (0..CLUSTER_SLOTS + 3).collect::<Vec<_>>());
        assert_eq!(area.give_back(5), None);
        assert_eq!(area.take(), Some(CLUSTER_SLOTS + 3), "not the one that was given up last");
        // The first cluster becomes free, and is given once the fresh ones are.
        let freed: Vec<_> =
            (0..CLUSTER_SLOTS).filter(|it| *it != 5).map(|it| area.give_back(it)).collect();
        assert_eq!(freed.iter().flatten().collect::<Vec<_>>(), [&0]);
        area.give_cluster(0);
        let rest: Vec<u64> = (0..2 * CLUSTER_SLOTS - 4).map(|_| area.take().unwrap()).collect();
        assert_eq!(rest.last(), Some(&(3 * CLUSTER_SLOTS - 1)));
        assert_eq!(area.take(), Some(0));
    }

    #[test]
    fn where_no_cluster_is_free_the_free_slots_of_others_are_given() {
        let mut area = SwapArea::new(2 * CLUSTER_SLOTS + 7);
        let all: Vec<u64> = std::iter::from_fn(|| area.take()).collect();
        assert_eq!(all.len() as u64, 2 * CLUSTER_SLOTS + 7);
        for slot in [600, 9, 8] {
            assert_eq!(area.give_back(slot), None);
        }
        // The cluster that had a free slot first comes first.
        let again: Vec<u64> = std::iter::from_fn(|| area.take()).collect();
        assert_eq!(again, [600, 8, 9]);
    }

    proptest! {
        /// None is had twice, none is lost, and it is full when all are used.
        #[test]
        fn each_slot_is_used_or_can_be_had(
            slots in 1..3000u64,
            steps in prop::collection::vec((any::<bool>(), 1..700usize, any::<u64>()), 1..40),
        ) {
            let mut area = SwapArea::new(slots);
            let mut used: BTreeSet<u64> = BTreeSet::new();
            for (takes, count, draw) in steps {
                for nth in 0..count as u64 {
                    prop_assert_eq!(area.is_half_full(), 2 * used.len() as u64 > slots);
                    if takes {
                        match area.take() {
                            Some(slot) => prop_assert!(slot < slots && used.insert(slot)),
                            None => prop_assert_eq!(used.len() as u64, slots),
                        }
                    } else if !used.is_empty() {
                        let from = draw.wrapping_mul(nth | 1) % slots;
                        let slot = used.range(from..).next().or(used.first()).copied().unwrap();
                        used.remove(&slot);
                        if let Some(cluster) = area.give_back(slot) {
                            let of = cluster * CLUSTER_SLOTS..(cluster + 1) * CLUSTER_SLOTS;
                            prop_assert_eq!(used.range(of).next(), None);
                            area.give_cluster(cluster);
                        }
                    }
                }
            }
            while area.take().is_some_and(|slot| used.insert(slot)) {}
            prop_assert_eq!(used.len() as u64, slots);
        }
    }
}
