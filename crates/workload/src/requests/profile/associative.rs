//! Misses of caches of sets, for every number of sets and every associativity that are powers of two,
//! in one pass: for each number of sets the blocks of each set in the order of their last touches
//! (Hill and Smith, IEEE Trans. Computers 1989: all-associativity simulation).
//!
//! Sets of a larger cache divide those of a smaller one, so that a block that was the last one touched
//! in its set is so in all finer divisions too: there the search ends.
//!
//! A set of few blocks is a list, one of many a tree of sums over the times of last touches (Bennett and
//! Kruskal, IBM J. Res. Dev. 1975), so that a touch takes the logarithm of a set's blocks however they are
//! spread. As long as there are no more blocks than a bound, all are kept, and every associativity is
//! exact. From then on each set keeps as many as caches of the bound's size have in one: these, and all
//! smaller ones, are exact still, and larger ones are not told.

use super::stack::Mixer;
use serde::Serialize;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// Ways that are told at least, however few blocks there are.
const LEAST_WAYS: u64 = 16;
/// Blocks of a set that is a list, at most.
const MOST_LISTED: usize = 32;
/// Slots of a tree at least.
const LEAST_SLOTS: usize = 4 * MOST_LISTED;
/// No block.
const NONE: u32 = u32::MAX;

/// What a cache of sets misses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Associative {
    /// How many sets it has; block `n` belongs to set `n` modulo that.
    pub sets: u64,
    /// Blocks of a set.
    pub ways: u64,
    /// Its size.
    pub cache_bytes: u64,
    /// Share of touches that miss, first touches included.
    pub miss_ratio: f64,
}

/// The sets of all caches.
pub(super) struct Sets {
    /// Blocks of the largest cache that is told of any trace: a power of two.
    most_blocks: usize,
    /// By number of sets: 1, 2, 4 and so on.
    levels: Vec<Level>,
    /// Touches of the block touched last in its set, by the first level where it was.
    ended_at: Vec<u64>,
    /// Numbers of the blocks that are kept.
    numbers: HashMap<u64, u32, BuildHasherDefault<Mixer>>,
    kept: Vec<Kept>,
    /// Numbers that are free again.
    free: Vec<u32>,
    /// Whether there have been more blocks than the bound, so that sets keep some only.
    bounded: bool,
}

/// A block that is kept by a level at least.
#[derive(Clone, Copy)]
struct Kept {
    block: u64,
    levels: u8,
}

/// All sets of caches that have so many.
struct Level {
    sets: Vec<Option<Box<Set>>>,
    /// Blocks that a set keeps at most, once there are more than the bound.
    most_ways: usize,
    /// Places of the blocks in the trees of their sets, from 1 on.
    slots: Vec<u32>,
    /// Hits by the ways that they need, as a power of two, of blocks that were not the last touched.
    hits: [u64; 33],
}

/// Blocks of a set in the order of their last touches.
#[derive(Clone)]
enum Set {
    /// The last touched first.
    List(Vec<u32>),
    Tree(Tree),
}

/// A tree of sums over times of last touches.
#[derive(Clone)]
struct Tree {
    /// Sums, from slot 1 on; a slot has 1 where it is the last touch of a block.
    sums: Vec<u32>,
    /// The block of each slot.
    owners: Vec<u32>,
    /// The slot of the next touch.
    next: usize,
    /// No slot before this has a block.
    oldest: usize,
    blocks: usize,
}

/// Where a block was that is touched.
enum Was {
    Last,
    /// So many different blocks were touched since, itself included.
    Behind(usize),
    Absent,
}

impl Sets {
    /// Of caches of so many blocks, a power of two, for any trace, and of all for a trace of no more.
    pub fn new(most_blocks: usize) -> Self {
        let most_blocks = most_blocks.next_power_of_two();
        let level = |log: u32| Level {
            sets: vec![None; 1 << log],
            most_ways: most_blocks >> log,
            slots: Vec::new(),
            hits: [0; 33],
        };
        let levels: Vec<Level> = (0..=most_blocks.trailing_zeros()).map(level).collect();
        Sets {
            most_blocks,
            ended_at: vec![0; levels.len()],
            levels,
            numbers: HashMap::default(),
            kept: Vec::new(),
            free: Vec::new(),
            bounded: false,
        }
    }

    /// A touch of a block.
    #[inline]
    pub fn touch(&mut self, block: u64) {
        let number = self.number(block);
        for (log, level) in self.levels.iter_mut().enumerate() {
            let set = block as usize & ((1 << log) - 1);
            match level.touch(set, number) {
                Was::Last => {
                    self.ended_at[log] += 1;
                    return;
                }
                Was::Behind(ways) => {
                    level.hits[ways.next_power_of_two().trailing_zeros() as usize] += 1;
                }
                Was::Absent => {
                    self.kept[number as usize].levels += 1;
                    if self.bounded
                        && let Some(gone) = level.take_oldest(set)
                    {
                        release(gone, &mut self.kept, &mut self.numbers, &mut self.free);
                    }
                }
            }
        }
        if !self.bounded && self.numbers.len() > self.most_blocks {
            self.bound();
        }
    }

    #[inline]
    fn number(&mut self, block: u64) -> u32 {
        if let Some(number) = self.numbers.get(&block) {
            return *number;
        }
        let kept = Kept { block, levels: 0 };
        let number = match self.free.pop() {
            Some(number) => {
                self.kept[number as usize] = kept;
                number
            }
            None => {
                self.kept.push(kept);
                self.kept.len() as u32 - 1
            }
        };
        self.numbers.insert(block, number);
        number
    }

    /// From now on each set keeps what a cache of the bound's size has in it.
    fn bound(&mut self) {
        self.bounded = true;
        for level in &mut self.levels {
            for set in 0..level.sets.len() {
                while let Some(gone) = level.take_oldest(set) {
                    release(gone, &mut self.kept, &mut self.numbers, &mut self.free);
                }
            }
        }
    }

    /// Misses of all caches that have no more sets than there are blocks, of so many touches; of each number
    /// of sets, with up to [`LEAST_WAYS`] ways, and up to the first that would hold all blocks.
    pub fn miss_ratios(&self, touches: u64, blocks: u64, block_bytes: u64) -> Vec<Associative> {
        let mut found = Vec::new();
        let mut certain = 0;
        for (log, level) in self.levels.iter().enumerate() {
            certain += self.ended_at[log];
            let sets = 1u64 << log;
            if touches == 0 || sets > blocks.max(1) {
                break;
            }
            let enough = (blocks.max(1).div_ceil(sets)).next_power_of_two().max(LEAST_WAYS);
            let most = if self.bounded { enough.min(level.most_ways as u64) } else { enough };
            let mut hits = certain;
            for (ways_log, of_ways) in level.hits.iter().enumerate() {
                let ways = 1u64 << ways_log;
                if ways > most {
                    break;
                }
                hits += of_ways;
                found.push(Associative {
                    sets,
                    ways,
                    cache_bytes: sets.saturating_mul(ways).saturating_mul(block_bytes),
                    miss_ratio: (touches - hits) as f64 / touches as f64,
                });
            }
        }
        found
    }
}

/// A level keeps a block no more.
fn release(
    number: u32,
    kept: &mut [Kept],
    numbers: &mut HashMap<u64, u32, BuildHasherDefault<Mixer>>,
    free: &mut Vec<u32>,
) {
    let it = &mut kept[number as usize];
    it.levels -= 1;
    if it.levels == 0 {
        numbers.remove(&it.block);
        free.push(number);
    }
}

impl Level {
    /// A touch of a block of a set.
    #[inline]
    fn touch(&mut self, set: usize, block: u32) -> Was {
        let set = self.sets[set].get_or_insert_with(|| Box::new(Set::List(Vec::new())));
        let list = match &mut **set {
            Set::Tree(tree) => return tree.touch(block, &mut self.slots),
            Set::List(list) => list,
        };
        match list.iter().position(|known| *known == block) {
            Some(0) => Was::Last,
            Some(place) => {
                list[..=place].rotate_right(1);
                Was::Behind(place + 1)
            }
            None => {
                list.insert(0, block);
                if list.len() > MOST_LISTED {
                    **set = Set::Tree(Tree::of(list, &mut self.slots));
                }
                Was::Absent
            }
        }
    }

    /// Takes the block from a set whose last touch is longest ago, where it has more than it keeps.
    fn take_oldest(&mut self, set: usize) -> Option<u32> {
        match self.sets[set].as_deref_mut()? {
            Set::List(list) => (list.len() > self.most_ways).then(|| list.pop()).flatten(),
            Set::Tree(tree) => {
                (tree.blocks > self.most_ways).then(|| tree.take_oldest(&mut self.slots))
            }
        }
    }
}

impl Tree {
    /// Of a list, the last touched first.
    fn of(list: &[u32], slots: &mut Vec<u32>) -> Tree {
        let mut tree =
            Tree { sums: Vec::new(), owners: Vec::new(), next: 1, oldest: 1, blocks: list.len() };
        tree.rebuild(list.iter().rev().copied().collect(), slots);
        tree
    }

    /// Gives the blocks, the one touched longest ago first, the first slots, and room behind them.
    fn rebuild(&mut self, order: Vec<u32>, slots: &mut Vec<u32>) {
        let count = order.len();
        let room = (2 * count).max(LEAST_SLOTS);
        self.owners.clear();
        self.owners.push(NONE);
        for (slot, block) in (1..).zip(order) {
            if slots.len() <= block as usize {
                slots.resize(block as usize + 1, 0);
            }
            slots[block as usize] = slot;
            self.owners.push(block);
        }
        self.owners.resize(room + 1, NONE);
        let lowest = |slot: usize| slot & slot.wrapping_neg();
        let below = |slot: usize| slot.min(count);
        let sum = |slot: usize| below(slot) - below(slot - lowest(slot));
        self.sums = std::iter::once(0).chain((1..=room).map(|slot| sum(slot) as u32)).collect();
        (self.next, self.oldest) = (count + 1, 1);
    }

    #[inline]
    fn touch(&mut self, block: u32, slots: &mut Vec<u32>) -> Was {
        let slot = slots.get(block as usize).map_or(0, |slot| *slot as usize);
        if slot != 0 && slot + 1 == self.next {
            return Was::Last;
        }
        let was = if slot == 0 {
            self.blocks += 1;
            Was::Absent
        } else {
            let ways = self.blocks - self.sum(slot) + 1;
            self.add(slot, u32::MAX);
            self.owners[slot] = NONE;
            Was::Behind(ways)
        };
        if self.next == self.owners.len() {
            let order = self.owners.iter().copied().filter(|owner| *owner != NONE).collect();
            self.rebuild(order, slots);
        }
        if slots.len() <= block as usize {
            slots.resize(block as usize + 1, 0);
        }
        slots[block as usize] = self.next as u32;
        self.owners[self.next] = block;
        self.add(self.next, 1);
        self.next += 1;
        was
    }

    fn take_oldest(&mut self, slots: &mut [u32]) -> u32 {
        while self.owners[self.oldest] == NONE {
            self.oldest += 1;
        }
        let block = std::mem::replace(&mut self.owners[self.oldest], NONE);
        self.add(self.oldest, u32::MAX);
        slots[block as usize] = 0;
        self.blocks -= 1;
        block
    }

    /// Blocks of the slots up to this one.
    #[inline]
    fn sum(&self, mut slot: usize) -> usize {
        let mut sum = 0u32;
        while slot > 0 {
            sum = sum.wrapping_add(self.sums[slot]);
            slot &= slot - 1;
        }
        sum as usize
    }

    #[inline]
    fn add(&mut self, mut slot: usize, what: u32) {
        while let Some(sum) = self.sums.get_mut(slot) {
            *sum = sum.wrapping_add(what);
            slot += slot & slot.wrapping_neg();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Hits of a cache, the plainest way.
    fn hits_of_lists(touches: &[u64], sets: u64, ways: usize) -> u64 {
        let mut lists: HashMap<u64, Vec<u64>> = HashMap::new();
        let mut hits = 0;
        for block in touches {
            let list = lists.entry(block % sets).or_default();
            if let Some(at) = list.iter().position(|held| held == block) {
                list.remove(at);
                hits += 1;
            }
            list.insert(0, *block);
            list.truncate(ways);
        }
        hits
    }

    fn of(touches: &[u64], most_blocks: usize) -> Sets {
        let mut sets = Sets::new(most_blocks);
        touches.iter().for_each(|block| sets.touch(*block));
        sets
    }

    /// Blocks close by, spread over many sets, or all in one set of most caches.
    fn touches() -> impl Strategy<Value = Vec<u64>> {
        let block = prop_oneof![
            0u64..8,
            0u64..300,
            (0u64..200).prop_map(|number| number << 12),
            any::<u64>()
        ];
        proptest::collection::vec(block, 1..900)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        #[test]
        fn caches_of_sets_are_lists(touches in touches(), most_log in 0u32..11) {
            let sets = of(&touches, 1 << most_log);
            let count = touches.len() as u64;
            let different = touches.iter().collect::<std::collections::HashSet<_>>().len();
            prop_assert_eq!(sets.bounded, different > 1 << most_log);
            let found = sets.miss_ratios(count, different as u64, 64);
            for one in &found {
                let hits = hits_of_lists(&touches, one.sets, one.ways as usize);
                prop_assert_eq!(one.miss_ratio, (count - hits) as f64 / count as f64, "{:?}", one);
                prop_assert_eq!(one.cache_bytes, one.sets * one.ways * 64);
            }
            // All that are told of any trace, and of one of few blocks all up to its own size.
            let different = different as u64;
            let told = |sets: u64, ways: u64| {
                found.iter().any(|one| (one.sets, one.ways) == (sets, ways))
            };
            for (sets_log, ways_log) in (0..=most_log).flat_map(|it| (0..11).map(move |to| (it, to))) {
                let (sets, ways) = (1u64 << sets_log, 1u64 << ways_log);
                let fits = sets_log + ways_log <= most_log;
                let wanted = sets <= different
                    && (ways <= 16 || sets * ways < 2 * different)
                    && (fits || different <= 1 << most_log);
                if wanted {
                    prop_assert!(told(sets, ways), "{sets} sets of {ways}");
                }
            }
        }

        #[test]
        fn what_is_kept_is_bounded(touches in touches()) {
            let sets = of(&touches, 64);
            let held: usize = sets.levels.iter().flat_map(|level| &level.sets).flatten().map(|set| {
                match &**set {
                    Set::List(list) => list.len(),
                    Set::Tree(tree) => tree.blocks,
                }
            }).sum();
            prop_assert!(!sets.bounded || held <= 7 * 64);
            let levels: usize = sets.kept.iter().map(|it| usize::from(it.levels)).sum();
            prop_assert_eq!(levels, held);
            prop_assert_eq!(sets.kept.len() - sets.free.len(), sets.numbers.len());
        }
    }

    #[test]
    fn caches_of_more_sets_than_blocks_are_not_told() {
        let found = of(&(0..100).collect::<Vec<_>>(), 1 << 10).miss_ratios(100, 100, 64);
        assert_eq!(found.last().map(|one| (one.sets, one.ways)), Some((64, 16)));
        let one_set = found.iter().filter(|one| one.sets == 1).map(|one| one.ways).max();
        assert_eq!(one_set, Some(128));
        assert!(Sets::new(64).miss_ratios(0, 0, 64).is_empty());
    }
}
