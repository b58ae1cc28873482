//! Misses of caches of sets, for every number of sets and every associativity that are powers of two,
//! in one pass: for each number of sets the blocks of each set in the order of their last touches
//! (Hill and Smith, IEEE Trans. Computers 1989: all-associativity simulation).
//!
//! Sets of a larger cache divide those of a smaller one, so that a block that was the last one touched
//! in its set is so in all finer divisions too: there the search ends.

use serde::Serialize;

/// Sets at most, as a power of two.
const MOST_SETS_LOG: usize = 16;
/// Blocks of a set at most.
const MOST_WAYS: usize = 16;

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
#[derive(Clone, Debug)]
pub(super) struct Sets {
    /// By number of sets: 1, 2, 4 and so on.
    levels: Vec<Level>,
    /// Touches of the block touched last in its set, by the first level where it was.
    ended_at: [u64; MOST_SETS_LOG + 1],
}

/// All sets of caches that have so many.
#[derive(Clone, Debug)]
struct Level {
    /// Blocks, the last touched first, of one set after the other.
    blocks: Vec<[u64; MOST_WAYS]>,
    /// How many each set has.
    held: Vec<u8>,
    /// Hits by the place of the block in its set, from the second on.
    hits: [u64; MOST_WAYS],
}

impl Default for Sets {
    fn default() -> Self {
        let level = |log: usize| Level {
            blocks: vec![[0; MOST_WAYS]; 1 << log],
            held: vec![0; 1 << log],
            hits: [0; MOST_WAYS],
        };
        Sets { levels: (0..=MOST_SETS_LOG).map(level).collect(), ended_at: [0; MOST_SETS_LOG + 1] }
    }
}

impl Sets {
    /// A touch of a block.
    #[inline]
    pub fn touch(&mut self, block: u64) {
        for (log, level) in self.levels.iter_mut().enumerate() {
            let set = block as usize & ((1 << log) - 1);
            if level.touch(set, block) {
                self.ended_at[log] += 1;
                return;
            }
        }
    }

    /// Misses of all caches that have no more sets than there are blocks, of so many touches.
    pub fn miss_ratios(&self, touches: u64, blocks: u64, block_bytes: u64) -> Vec<Associative> {
        let mut found = Vec::new();
        let mut certain = 0;
        for (log, level) in self.levels.iter().enumerate() {
            certain += self.ended_at[log];
            let sets = 1u64 << log;
            if touches == 0 || sets > blocks.max(1) {
                break;
            }
            let mut ways = 1;
            while ways <= MOST_WAYS {
                let hits = certain + level.hits[..ways].iter().sum::<u64>();
                found.push(Associative {
                    sets,
                    ways: ways as u64,
                    cache_bytes: (sets * ways as u64).saturating_mul(block_bytes),
                    miss_ratio: (touches - hits) as f64 / touches as f64,
                });
                ways *= 2;
            }
        }
        found
    }
}

impl Level {
    /// A touch of a block of a set; whether it was the last one touched there.
    #[inline]
    fn touch(&mut self, set: usize, block: u64) -> bool {
        let blocks = &mut self.blocks[set];
        let held = usize::from(self.held[set]);
        match blocks[..held].iter().position(|known| *known == block) {
            Some(0) => return true,
            Some(place) => {
                self.hits[place] += 1;
                blocks[..=place].rotate_right(1);
            }
            None => {
                let last = held.min(MOST_WAYS - 1);
                blocks[..=last].rotate_right(1);
                blocks[0] = block;
                self.held[set] = (last + 1) as u8;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Hits of a cache, the plainest way.
    fn hits_of_lists(touches: &[u64], sets: u64, ways: usize) -> u64 {
        let mut lists = vec![Vec::new(); sets as usize];
        let mut hits = 0;
        for block in touches {
            let list: &mut Vec<u64> = &mut lists[(block % sets) as usize];
            if let Some(at) = list.iter().position(|held| held == block) {
                list.remove(at);
                hits += 1;
            }
            list.insert(0, *block);
            list.truncate(ways);
        }
        hits
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        #[test]
        fn caches_of_sets_are_lists(
            touches in proptest::collection::vec(prop_oneof![0u64..8, 0u64..300, any::<u64>()], 1..400),
        ) {
            let mut sets = Sets::default();
            touches.iter().for_each(|block| sets.touch(*block));
            let count = touches.len() as u64;
            let found = sets.miss_ratios(count, u64::MAX, 64);
            prop_assert_eq!(found.len(), (MOST_SETS_LOG + 1) * 5);
            for one in found.iter().filter(|one| one.sets <= 512) {
                let hits = hits_of_lists(&touches, one.sets, one.ways as usize);
                prop_assert_eq!(one.miss_ratio, (count - hits) as f64 / count as f64, "{:?}", one);
                prop_assert_eq!(one.cache_bytes, one.sets * one.ways * 64);
            }
        }
    }

    #[test]
    fn caches_of_more_sets_than_blocks_are_not_told() {
        let mut sets = Sets::default();
        (0..100u64).for_each(|block| sets.touch(block));
        let found = sets.miss_ratios(100, 100, 64);
        assert_eq!(found.last().map(|one| (one.sets, one.ways)), Some((64, 16)));
        assert!(Sets::default().miss_ratios(0, 0, 64).is_empty());
    }
}
