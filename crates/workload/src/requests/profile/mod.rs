//! What a trace asks for, in one pass: how much, in which sizes, how soon again, and what caches of
//! every size would miss of it.

mod associative;
mod curve;
mod files;
mod mapped;
mod stack;
mod touches;
mod working_set;

pub use associative::Associative;
pub use curve::{MissRatio, Reuse};
pub use files::{FileAccess, FileCalls, FileUse, Files};
pub use touches::Sample;
pub use working_set::Window;

use super::accesses::{Accesses, Step, moves_data};
use super::looks::Looks;
use super::{Beside, Passed, RequestKind, RequestSource, Times, TraceRequest};
use crate::stream::StreamError;
use associative::Sets;
use files::FilePass;
use serde::Serialize;
use std::collections::BTreeMap;
use touches::Touches;

/// Blocks that are followed one by one; of more, a sample of half, a quarter … of all.
pub const MOST_BLOCKS: usize = 1 << 20;

/// What a trace asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Profile {
    /// Whether the trace was read to its end.
    pub complete: bool,
    /// Whether it was not because somebody broke it off, and not for a limit.
    pub interrupted: bool,
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

/// Goes through a trace, up to `most` requests. `goes_on` is asked now and then, and ends it early.
///
/// # Errors
/// Where the trace is wrong.
pub fn profile(
    source: &mut dyn RequestSource,
    block_bytes: u64,
    most: Option<u64>,
    goes_on: impl FnMut(Passed) -> bool,
) -> Result<Profile, StreamError> {
    profile_of(source, block_bytes, MOST_BLOCKS, most, goes_on)
}

fn profile_of(
    source: &mut dyn RequestSource,
    block_bytes: u64,
    most_blocks: usize,
    most: Option<u64>,
    goes_on: impl FnMut(Passed) -> bool,
) -> Result<Profile, StreamError> {
    let mut pass = Pass::new(block_bytes, most_blocks);
    let mut looks = Looks::new(goes_on);
    let most = most.unwrap_or(u64::MAX);
    let mut count = 0u64;
    while count < most
        && let Some(request) = source.next()?
    {
        count += 1;
        let far = || Passed {
            requests: count,
            share: larger(source.share(), share_of_limit(count, most)),
        };
        pass.take(&request, &mut || looks.go_on(1, far));
        if looks.have_ended() {
            pass.break_off();
            break;
        }
    }
    // What is behind the limit may be wrong; that it is there is enough.
    if count == most && !looks.have_ended() && !matches!(source.next(), Ok(None)) {
        pass.profile.complete = false;
    }
    Ok(pass.finish(source.times()))
}

/// What a workload of threads asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct OfThreads {
    /// What its loads and stores ask of memory.
    pub profile: Profile,
    /// What its calls ask of files; nothing where it makes none.
    pub files: Option<Files>,
    /// What else it does.
    pub beside: Beside,
}

/// Goes through a workload of threads: its loads and stores, and its calls on files. It ends early where
/// `goes_on` says so, and behind `most` accesses and calls that move data.
///
/// # Errors
/// Where the workload cannot be read.
pub fn profile_threads(
    source: &mut Accesses,
    block_bytes: u64,
    most: Option<u64>,
    goes_on: impl FnMut(Passed) -> bool,
) -> Result<OfThreads, StreamError> {
    let mut pass = Pass::new(block_bytes, MOST_BLOCKS);
    let mut files = FilePass::new(MOST_BLOCKS);
    let mut looks = Looks::new(goes_on);
    let mut count = 0u64;
    let most = most.unwrap_or(u64::MAX);
    while count < most {
        let Some(step) = source.step()? else { break };
        let far = || Passed {
            requests: count,
            share: larger(source.share(), share_of_limit(count, most)),
        };
        let mut goes_on = || looks.go_on(1, far);
        let moved = match step {
            Step::Access(request) => {
                pass.take(&request, &mut goes_on);
                files.access(&request);
                true
            }
            Step::Call(call) => files.take(&call, &mut goes_on),
        };
        count += u64::from(moved);
        if looks.have_ended() {
            pass.break_off();
            break;
        }
    }
    let beside = source.beside();
    if count == most && !looks.have_ended() && is_more(source) {
        pass.profile.complete = false;
    }
    let files = files.finish(&source.files());
    Ok(OfThreads { profile: pass.finish(Times::Absent), files, beside })
}

/// How much of a limit has been taken, where there is one.
fn share_of_limit(count: u64, most: u64) -> Option<f64> {
    (most < u64::MAX).then(|| count as f64 / most as f64)
}

fn larger(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(f64::max)
}

/// Whether an access, or a call that moves data of a file, comes yet; what is behind a limit may be wrong.
fn is_more(source: &mut Accesses) -> bool {
    loop {
        match source.step() {
            Ok(None) => return false,
            Ok(Some(Step::Call(call))) if !moves_data(&call) => {}
            _ => return true,
        }
    }
}

/// One pass over a trace.
struct Pass {
    profile: Profile,
    sizes: BTreeMap<u64, u64>,
    ticks: Option<(u64, u64)>,
    /// Whether requests without a time came before any with one.
    begins_without_time: bool,
    touches: Touches,
    sets: Sets,
}

impl Pass {
    fn new(block_bytes: u64, most_blocks: usize) -> Self {
        Pass {
            profile: Profile { complete: true, block_bytes, ..Profile::default() },
            sizes: BTreeMap::new(),
            ticks: None,
            begins_without_time: false,
            touches: Touches::new(most_blocks),
            sets: Sets::new(most_blocks),
        }
    }

    fn break_off(&mut self) {
        (self.profile.complete, self.profile.interrupted) = (false, true);
    }

    /// Takes a request, up to where `goes_on`, which is asked for each of its blocks, says no.
    fn take(&mut self, request: &TraceRequest, goes_on: &mut impl FnMut() -> bool) {
        let block_bytes = self.profile.block_bytes;
        match request.ticks {
            Some(ticks) => {
                // What came before any time came at the trace's start.
                let start = if self.begins_without_time { 0 } else { ticks };
                let first = self.ticks.map_or(start, |(first, _)| first);
                self.ticks = Some((first, ticks));
            }
            None => self.begins_without_time |= self.ticks.is_none(),
        }
        let bytes = if request.bytes == 0 { block_bytes } else { request.bytes.into() };
        let profile = &mut self.profile;
        match request.kind {
            RequestKind::Read => {
                profile.reads += 1;
                profile.read_bytes += bytes;
            }
            RequestKind::Write | RequestKind::ForcedWrite => {
                profile.writes += 1;
                profile.written_bytes += bytes;
            }
            RequestKind::Flush => profile.flushes += 1,
            RequestKind::Trim => profile.trims += 1,
        }
        if !request.moves() {
            goes_on();
            return;
        }
        *self.sizes.entry(1 << bytes.ilog2()).or_default() += 1;
        // The last byte may be the largest number.
        let last_byte = request.end() - 1;
        profile.first_byte =
            Some(profile.first_byte.map_or(request.address, |first| first.min(request.address)));
        profile.last_byte = profile.last_byte.max(Some(last_byte));
        for block in request.address / block_bytes..=last_byte / block_bytes {
            self.sets.touch(block);
            self.touches.touch(block, request.is_write());
            if !goes_on() {
                return;
            }
        }
    }

    fn finish(self, times: Times) -> Profile {
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
        let found = self.touches.finish(profile.block_bytes);
        profile.touches = found.touches;
        profile.blocks = found.blocks;
        profile.written_blocks = found.written_blocks;
        profile.sample = found.sample;
        profile.reuse = found.reuse;
        profile.miss_ratio = found.miss_ratio;
        profile.working_set = found.working_set;
        profile.set_associative =
            self.sets.miss_ratios(profile.touches, profile.blocks, profile.block_bytes);
        profile
    }
}

#[cfg(test)]
mod tests;
