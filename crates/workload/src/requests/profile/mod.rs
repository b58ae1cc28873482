//! What a trace asks for, in one pass: how much, in which sizes, how soon again, and what caches of
//! every size would miss of it.

mod associative;
mod curve;
mod stack;
mod working_set;

pub use associative::Associative;
pub use curve::{MissRatio, Reuse};
pub use working_set::Window;

use super::{Passed, RequestKind, RequestSource, Times, TraceRequest};
use crate::stream::StreamError;
use associative::Sets;
use curve::Histogram;
use serde::Serialize;
use stack::{Seen, Stack};
use std::collections::BTreeMap;
use working_set::WorkingSet;

/// Blocks that are followed one by one; of more, a sample of half, a quarter … of all.
pub const MOST_BLOCKS: usize = 1 << 20;
/// Requests between two looks at whether to go on.
const LOOK_EVERY: u64 = 1 << 14;

/// What a trace asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Profile {
    /// Whether the trace was read to its end.
    pub complete: bool,
    /// Requests to read.
    pub reads: u64,
    /// Requests to write.
    pub writes: u64,
    /// Requests to flush.
    pub flushes: u64,
    /// Requests to trim.
    pub trims: u64,
    /// Bytes that reads ask for; a request without a size asks for a block.
    pub read_bytes: u64,
    /// Bytes that writes bring.
    pub written_bytes: u64,
    /// Requests that move data by size: bytes, a power of two, that they have at least and less than
    /// twice of; and how many.
    pub sizes: Vec<(u64, u64)>,
    /// Lowest byte that is asked for; nothing where no data are moved.
    pub first_byte: Option<u64>,
    /// Highest byte that is asked for.
    pub last_byte: Option<u64>,
    /// From the first request to the last, in picoseconds; nothing where the trace has no times, or
    /// counts them in cycles.
    pub duration_ps: Option<u64>,
    /// From the first request to the last, in cycles, where it counts them so.
    pub duration_cycles: Option<u64>,
    /// Bytes of a block, in which everything that follows is counted.
    pub block_bytes: u64,
    /// Touches of blocks: a request touches each block of which it has a byte, once.
    pub touches: u64,
    /// Different blocks touched: an estimate where `sample` is there.
    pub blocks: u64,
    /// Different blocks that are written, the same way.
    pub written_blocks: u64,
    /// Blocks followed where there were too many to follow all.
    pub sample: Option<Sample>,
    /// Touches by how many different blocks were touched since the block's touch before, itself
    /// included (the stack distance).
    pub reuse: Vec<Reuse>,
    /// Share of touches that miss a cache of each size, which keeps the blocks touched last.
    pub miss_ratio: Vec<MissRatio>,
    /// The same of caches of sets, each of which keeps the blocks touched last of those that belong to
    /// it; of all touches, sampled or not.
    pub set_associative: Vec<Associative>,
    /// Different blocks touched in each of consecutive windows of the trace.
    pub working_set: Vec<Window>,
}

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

/// Goes through a trace. `goes_on` is asked now and then, and ends it early.
///
/// # Errors
/// Where the trace is wrong.
pub fn profile(
    source: &mut dyn RequestSource,
    block_bytes: u64,
    goes_on: impl FnMut(Passed) -> bool,
) -> Result<Profile, StreamError> {
    profile_of(source, block_bytes, MOST_BLOCKS, goes_on)
}

fn profile_of(
    source: &mut dyn RequestSource,
    block_bytes: u64,
    most_blocks: usize,
    mut goes_on: impl FnMut(Passed) -> bool,
) -> Result<Profile, StreamError> {
    let mut pass = Pass::new(block_bytes, most_blocks);
    let mut count = 0u64;
    while let Some(request) = source.next()? {
        pass.take(&request);
        count += 1;
        if count.is_multiple_of(LOOK_EVERY)
            && !goes_on(Passed { requests: count, share: source.share() })
        {
            pass.profile.complete = false;
            break;
        }
    }
    Ok(pass.finish(source.times()))
}

/// One pass over a trace.
struct Pass {
    profile: Profile,
    sizes: BTreeMap<u64, u64>,
    ticks: Option<(u64, u64)>,
    stack: Stack,
    sets: Sets,
    reuse: Histogram,
    working_set: WorkingSet,
}

impl Pass {
    fn new(block_bytes: u64, most_blocks: usize) -> Self {
        Pass {
            profile: Profile { complete: true, block_bytes, ..Profile::default() },
            sizes: BTreeMap::new(),
            ticks: None,
            stack: Stack::new(most_blocks),
            sets: Sets::new(most_blocks),
            reuse: Histogram::default(),
            working_set: WorkingSet::default(),
        }
    }

    fn take(&mut self, request: &TraceRequest) {
        let block_bytes = self.profile.block_bytes;
        if let Some(ticks) = request.ticks {
            let first = self.ticks.map_or(ticks, |(first, _)| first);
            self.ticks = Some((first, ticks));
        }
        let bytes = if request.bytes == 0 { block_bytes } else { request.bytes.into() };
        let profile = &mut self.profile;
        match request.kind {
            RequestKind::Read => {
                profile.reads += 1;
                profile.read_bytes += bytes;
            }
            RequestKind::Write => {
                profile.writes += 1;
                profile.written_bytes += bytes;
            }
            RequestKind::Flush => profile.flushes += 1,
            RequestKind::Trim => profile.trims += 1,
        }
        if !request.moves() {
            return;
        }
        *self.sizes.entry(1 << bytes.ilog2()).or_default() += 1;
        // The last byte may be the largest number.
        let last_byte = request.end() - 1;
        profile.first_byte =
            Some(profile.first_byte.map_or(request.address, |first| first.min(request.address)));
        profile.last_byte = profile.last_byte.max(Some(last_byte));
        for block in request.address / block_bytes..=last_byte / block_bytes {
            self.touch(block, request.is_write());
        }
    }

    #[inline]
    fn touch(&mut self, block: u64, write: bool) {
        let now = self.profile.touches;
        self.profile.touches += 1;
        self.sets.touch(block);
        let Some(touched) = self.stack.touch(block, write, now) else { return };
        match touched.seen {
            Seen::First => self.reuse.add_cold(touched.weight),
            Seen::Again { distance, .. } => self.reuse.add(distance, touched.weight),
        }
        let before = match touched.seen {
            Seen::First => None,
            Seen::Again { at, .. } => Some(at),
        };
        self.working_set.touch(now, before, touched.weight);
    }

    fn finish(mut self, times: Times) -> Profile {
        let mut profile = self.profile;
        profile.sizes = self.sizes.into_iter().collect();
        let span = self.ticks.map(|(first, last)| last - first);
        match times {
            Times::Ps(unit_ps) => {
                profile.duration_ps = span.and_then(|span| span.checked_mul(unit_ps));
            }
            Times::Cycles => profile.duration_cycles = span,
            Times::Absent => {}
        }
        let (followed, rate) = (self.stack.followed(), self.stack.rate());
        profile.blocks = (followed as f64 / rate).round() as u64;
        profile.written_blocks = (self.stack.written() as f64 / rate).round() as u64;
        if rate < 1.0 {
            let touches = profile.touches as f64;
            let adjusted = self.reuse.adjust(profile.touches) / touches;
            let of_touches = 2.0 * self.stack.standard_error() / touches;
            let of_blocks = 1.0 / (followed.max(1) as f64).sqrt();
            let error = of_blocks.max(of_touches).max(adjusted);
            profile.sample = Some(Sample { rate, blocks: followed as u64, error });
        }
        profile.reuse = self.reuse.rows();
        profile.miss_ratio = self.reuse.miss_ratios(profile.touches, profile.block_bytes);
        profile.set_associative =
            self.sets.miss_ratios(profile.touches, profile.blocks, profile.block_bytes);
        profile.working_set = self.working_set.windows(profile.touches);
        profile
    }
}

#[cfg(test)]
mod tests;
