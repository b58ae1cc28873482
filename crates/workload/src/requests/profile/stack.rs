//! Exact stack distances, in the logarithm of the number of blocks for each touch: a tree of sums over
//! the times of last touches (Bennett and Kruskal, IBM J. Res. Dev. 1975). Where blocks are too many,
//! those are followed whose hash lies below a bound, which is halved each time; distances and counts
//! are then those of the sample over its rate.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Times of last touches that the tree has room for at first.
const FIRST_SLOTS: usize = 1 << 12;

/// A block that is followed.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// Its place in the order of last touches.
    slot: u32,
    /// Number of the touch, of all.
    at: u64,
    touches: u64,
    written: bool,
}

/// A touch of a block that is followed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Touched {
    pub seen: Seen,
    /// Touches that it stands for.
    pub weight: f64,
}

/// Whether a block had been touched before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    First,
    /// It was, by the touch of this number; and so many different blocks since, itself included.
    Again {
        distance: u64,
        at: u64,
    },
}

/// Blocks in the order of their last touches.
pub(super) struct Stack {
    most_blocks: usize,
    blocks: HashMap<u64, Block, BuildHasherDefault<Mixer>>,
    /// Sums of the tree, from slot 1 on; a slot has 1 if it is the last touch of a block.
    sums: Vec<u32>,
    /// The slot of the next touch.
    next: usize,
    /// How often the sample was halved.
    halved: u32,
}

impl Stack {
    pub fn new(most_blocks: usize) -> Self {
        Stack {
            most_blocks,
            blocks: HashMap::default(),
            sums: vec![0; FIRST_SLOTS],
            next: 1,
            halved: 0,
        }
    }

    /// Touches a block; nothing where it is not followed.
    #[inline]
    pub fn touch(&mut self, block: u64, write: bool, at: u64) -> Option<Touched> {
        if self.halved > 0 && !self.follows(block) {
            return None;
        }
        if self.next == self.sums.len() {
            self.compact();
        }
        let slot = self.next as u32;
        self.next += 1;
        let before = self.blocks.get_mut(&block).map(|known| {
            let before = *known;
            let (touches, written) = (known.touches + 1, known.written || write);
            *known = Block { slot, at, touches, written };
            before
        });
        let seen = match before {
            Some(Block { slot, at, .. }) => {
                let later = self.blocks.len() as u64 - u64::from(self.sum(slot as usize));
                self.add(slot as usize, u32::MAX);
                Seen::Again { distance: ((later + 1) as f64 / self.rate()).round() as u64, at }
            }
            None => {
                self.blocks.insert(block, Block { slot, at, touches: 1, written: write });
                Seen::First
            }
        };
        self.add(slot as usize, 1);
        let weight = 1.0 / self.rate();
        while self.blocks.len() > self.most_blocks {
            self.halve();
        }
        Some(Touched { seen, weight })
    }

    /// Takes a block away; whether it was written, where it is followed.
    pub fn forget(&mut self, block: u64) -> Option<bool> {
        let known = self.blocks.remove(&block)?;
        self.add(known.slot as usize, u32::MAX);
        Some(known.written)
    }

    /// The blocks that are followed, in no order.
    pub fn blocks(&self) -> impl Iterator<Item = u64> {
        self.blocks.keys().copied()
    }

    /// Blocks that are followed.
    pub fn followed(&self) -> usize {
        self.blocks.len()
    }

    /// Those of them that were written.
    pub fn written(&self) -> usize {
        self.blocks.values().filter(|block| block.written).count()
    }

    /// Standard error of the number of touches that the sample stands for: each block is in it with the
    /// same chance, with all its touches (Horvitz and Thompson, J. Am. Stat. Assoc. 1952).
    pub fn standard_error(&self) -> f64 {
        let squares: f64 = self.blocks.values().map(|block| (block.touches as f64).powi(2)).sum();
        ((1.0 - self.rate()) * squares).sqrt() / self.rate()
    }

    /// Share of all blocks that is followed.
    #[inline]
    pub fn rate(&self) -> f64 {
        1.0 / (1u64 << self.halved) as f64
    }

    #[inline]
    fn follows(&self, block: u64) -> bool {
        // Other bits than those that the map takes.
        mixed(block ^ 0x5851_f42d_4c95_7f2d) >> (64 - self.halved) == 0
    }

    fn halve(&mut self) {
        self.halved += 1;
        let mut blocks = std::mem::take(&mut self.blocks);
        blocks.retain(|block, _| self.follows(*block));
        self.blocks = blocks;
        self.compact();
    }

    /// Numbers the slots of last touches anew, in their order, without gaps.
    fn compact(&mut self) {
        let mut order: Vec<&mut Block> = self.blocks.values_mut().collect();
        order.sort_unstable_by_key(|block| block.slot);
        let count = order.len();
        for (number, block) in (1u32..).zip(order) {
            block.slot = number;
        }
        self.next = count + 1;
        let room = (4 * count).max(FIRST_SLOTS);
        self.sums.clear();
        self.sums.resize(room, 0);
        // A tree of ones, each node the sum of as many as its lowest bit says.
        for slot in 1..room {
            let low = slot & slot.wrapping_neg();
            let first = slot - low;
            self.sums[slot] = (count.min(slot).saturating_sub(first)) as u32;
        }
    }

    /// Last touches up to a slot.
    #[inline]
    fn sum(&self, mut slot: usize) -> u32 {
        let mut sum = 0u32;
        while slot > 0 {
            sum = sum.wrapping_add(self.sums[slot]);
            slot &= slot - 1;
        }
        sum
    }

    /// Adds to a slot; one less is the largest number.
    #[inline]
    fn add(&mut self, mut slot: usize, value: u32) {
        while slot < self.sums.len() {
            self.sums[slot] = self.sums[slot].wrapping_add(value);
            slot += slot & slot.wrapping_neg();
        }
    }
}

/// The finalizer of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
#[inline]
pub(super) fn mixed(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Hashes numbers of blocks.
#[derive(Default)]
pub(super) struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = mixed(self.0 ^ u64::from(*byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.0 = mixed(value);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
