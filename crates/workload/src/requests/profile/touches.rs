//! Touches of blocks: how soon each is touched again, and what a cache of every size misses.

use super::curve::{Histogram, MissRatio, Reuse};
use super::stack::{Seen, Stack};
use super::working_set::{Window, WorkingSet};
use serde::Serialize;

/// A sample of blocks, chosen by a hash of their number (SHARDS: Waldspurger, Park, Garthwaite and
/// Ahmad, FAST 2015).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Share of all blocks that was followed.
    pub rate: f64,
    /// How many that were.
    pub blocks: u64,
    /// By how much a miss ratio may be off, as a share of all touches: the largest of twice the standard
    /// error of a share in a sample of so many blocks, twice that of the touches which it stands for,
    /// and what these lacked of all touches.
    pub error: f64,
}

/// Touches of blocks so far.
pub(super) struct Touches {
    count: u64,
    stack: Stack,
    reuse: Histogram,
    working_set: WorkingSet,
    /// Blocks that are there no more, and those of them that were written, as many as they stand for.
    gone: f64,
    gone_written: f64,
    /// Blocks at a time, at most.
    most: f64,
}

/// What touches came to.
pub(super) struct Found {
    pub touches: u64,
    pub blocks: u64,
    pub most_blocks: u64,
    pub written_blocks: u64,
    pub sample: Option<Sample>,
    pub reuse: Vec<Reuse>,
    pub miss_ratio: Vec<MissRatio>,
    pub working_set: Vec<Window>,
}

impl Touches {
    /// Of so many blocks that are followed at most.
    pub fn new(most_blocks: usize) -> Self {
        Touches {
            count: 0,
            stack: Stack::new(most_blocks),
            reuse: Histogram::default(),
            working_set: WorkingSet::default(),
            gone: 0.0,
            gone_written: 0.0,
            most: 0.0,
        }
    }

    /// A touch of a block.
    #[inline]
    pub fn touch(&mut self, block: u64, write: bool) {
        let now = self.count;
        self.count += 1;
        let Some(touched) = self.stack.touch(block, write, now) else { return };
        let before = match touched.seen {
            Seen::First => {
                self.reuse.add_cold(touched.weight);
                self.most = self.most.max(self.stack.followed() as f64 / self.stack.rate());
                None
            }
            Seen::Again { distance, at } => {
                self.reuse.add(distance, touched.weight);
                Some(at)
            }
        };
        self.working_set.touch(now, before, touched.weight);
    }

    /// A block is there no more: no cache holds it, and another that gets its number is another one.
    pub fn forget(&mut self, block: u64) {
        if let Some(written) = self.stack.forget(block) {
            let stands_for = 1.0 / self.stack.rate();
            self.gone += stands_for;
            self.gone_written += if written { stands_for } else { 0.0 };
        }
    }

    /// Blocks that are followed now.
    pub fn followed(&self) -> impl Iterator<Item = u64> {
        self.stack.blocks()
    }

    /// How many these are.
    pub fn followed_count(&self) -> usize {
        self.stack.followed()
    }

    /// All of them, of blocks of so many bytes.
    pub fn finish(mut self, block_bytes: u64) -> Found {
        let (followed, rate) = (self.stack.followed(), self.stack.rate());
        let touches = self.count as f64;
        let sample = (rate < 1.0).then(|| {
            let adjusted = self.reuse.adjust(self.count) / touches;
            let of_touches = 2.0 * self.stack.standard_error() / touches;
            let of_blocks = 1.0 / (followed.max(1) as f64).sqrt();
            let error = of_blocks.max(of_touches).max(adjusted);
            Sample { rate, blocks: followed as u64, error }
        });
        Found {
            touches: self.count,
            blocks: (followed as f64 / rate + self.gone).round() as u64,
            most_blocks: self.most.round() as u64,
            written_blocks: (self.stack.written() as f64 / rate + self.gone_written).round() as u64,
            sample,
            reuse: self.reuse.rows(),
            miss_ratio: self.reuse.miss_ratios(self.count, block_bytes),
            working_set: self.working_set.windows(self.count),
        }
    }
}
