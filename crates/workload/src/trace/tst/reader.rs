//! Replaying a recording.

use super::block::BlockKind;
use super::recording::Recording;
use super::*;
use crate::counts::Counts;
use crate::feed::whole_operations;
use crate::op::Op;
use crate::site::SiteTable;
use crate::stream::{FileInfo, Pull, Stream, StreamError};
use crate::trace::codec::{CodecError, Decoder};
use crate::windows::skipped_in;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A recording being replayed: a [`Stream`] of as many threads as it has.
///
/// Holds one decoded block for each thread, and where the blocks are.
pub struct TstReader {
    pub(super) recording: Arc<Recording>,
    threads: BTreeMap<ThreadId, Replay>,
    /// What has been decoded.
    decoded_ops: u64,
    counts: Counts,
    skipped: Counts,
    decoder: Decoder,
    raw: Vec<u8>,
}

/// Where a reader stands in one thread.
#[derive(Clone, Default)]
struct Replay {
    next_block: usize,
    passed_ops: u64,
    block: Arc<Vec<Op>>,
    done: usize,
}

impl TstReader {
    /// Opens a recording.
    ///
    /// A truncated or damaged one is an error, here or when the damaged block is reached. With
    /// `allow_truncated` all of it is checked here, and what precedes the damage is replayed: of each
    /// thread that of its own where the index at the end is intact, else that in the file. Threads whose
    /// start is lost start where the first thread ends. See [`TstReader::damage`].
    pub fn open(path: &Path, allow_truncated: bool) -> Result<TstReader, TstError> {
        let recording = Recording::open(path, allow_truncated)?;
        Ok(TstReader {
            recording: Arc::new(recording),
            threads: BTreeMap::new(),
            decoded_ops: 0,
            counts: Counts::default(),
            skipped: Counts::default(),
            decoder: Decoder::default(),
            raw: Vec::new(),
        })
    }

    /// The version of the format that it has.
    pub fn version(&self) -> u32 {
        self.recording.version
    }

    /// What the recording says about itself.
    pub fn metadata(&self) -> &TstMetadata {
        &self.recording.metadata
    }

    /// What it holds; `None` where it is truncated.
    pub fn totals(&self) -> Option<&TstTotals> {
        self.recording.totals.as_ref()
    }

    /// How the program, or its recording, ended in the middle of what it did, if it did.
    pub fn cut(&self) -> Option<&str> {
        self.totals().filter(|totals| totals.cut).map(|totals| totals.ended.as_str())
    }

    /// What of the program is not in the recording, as far as its version tells.
    pub fn missing(&self) -> &[String] {
        self.totals().map_or(&[], |totals| &totals.missing)
    }

    /// Whether it would tell what of the program is missing: version 4 on, with its end.
    pub fn tells_missing(&self) -> bool {
        self.version() >= MISSING_VERSION && self.totals().is_some()
    }

    /// What cuts the replay short, if anything does.
    pub fn damage(&self) -> Option<&Damage> {
        self.recording.damage.as_ref()
    }

    /// Whether it tells what was used between its windows: version 6 on.
    pub fn tells_uses(&self) -> bool {
        self.version() >= USES_VERSION && self.metadata().windows.is_some()
    }

    /// Threads that have operations, in order.
    pub fn threads(&self) -> Vec<ThreadId> {
        self.recording.blocks.keys().copied().collect()
    }

    /// Operations that can be replayed, arguments of calls included.
    pub fn operations(&self) -> u64 {
        self.recording.blocks.values().flatten().map(|block| u64::from(block.ops)).sum()
    }

    /// Size of the file in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.recording.file_bytes
    }

    /// Decodes the next block of a thread; false at its end.
    fn next_block(&mut self, thread: ThreadId) -> Result<bool, TstError> {
        let recording = self.recording.clone();
        let blocks = recording.blocks.get(&thread).map_or(&[][..], Vec::as_slice);
        let replay = self.threads.entry(thread).or_default();
        let Some(place) = blocks.get(replay.next_block) else {
            // Whose start is lost starts where the first thread ends.
            let starts = thread == 0 && replay.next_block == blocks.len();
            if starts && !recording.starts.is_empty() {
                (replay.block, replay.done) = (recording.starts.clone(), 0);
                replay.next_block += 1;
                return Ok(true);
            }
            return Ok(false);
        };
        let damaged = |what: String| recording.damaged(place.number, place.offset, what);
        let header = recording.read_block(place.offset, &mut self.raw).map_err(damaged)?;
        let expected = (BlockKind::Operations, thread, place.ops, replay.passed_ops);
        if (header.kind, header.thread, header.ops, header.first_op) != expected {
            return Err(damaged("it is not the block that the index says".into()));
        }
        let mut ops = Vec::new();
        self.decoder
            .decode(&self.raw, header.ops as usize, &mut ops)
            .map_err(|CodecError(what)| damaged(what.into()))?;
        recording.check_seen(&self.decoder).map_err(|what| damaged(what.into()))?;
        self.decoded_ops += ops.len() as u64;
        self.counts += Counts::of(&ops);
        if recording.metadata.windows.is_some() {
            self.skipped += skipped_in(&ops);
        }
        if let Some(totals) = &recording.totals
            && self.decoded_ops == totals.operations
        {
            totals.check_counts(self.counts, self.skipped).map_err(damaged)?;
        }
        replay.next_block += 1;
        replay.passed_ops += ops.len() as u64;
        replay.block = Arc::new(ops);
        replay.done = 0;
        Ok(true)
    }
}

impl Stream for TstReader {
    fn tells_mappings(&self) -> bool {
        true
    }

    fn pull(
        &mut self,
        thread: ThreadId,
        limit: usize,
        out: &mut Vec<Op>,
    ) -> Result<Pull, StreamError> {
        loop {
            let replay = self.threads.entry(thread).or_default();
            let rest = &replay.block[replay.done..];
            if !rest.is_empty() {
                let taken = whole_operations(rest, limit);
                out.extend_from_slice(&rest[..taken]);
                replay.done += taken;
                return Ok(Pull::More);
            }
            match self.next_block(thread) {
                Ok(true) => {}
                Ok(false) => return Ok(Pull::End),
                Err(error) => return Err(StreamError::Damaged(error.to_string())),
            }
        }
    }

    fn fork(&self) -> Box<dyn Stream> {
        Box::new(TstReader {
            recording: self.recording.clone(),
            threads: self.threads.clone(),
            decoded_ops: self.decoded_ops,
            counts: self.counts,
            skipped: self.skipped,
            decoder: Decoder::default(),
            raw: Vec::new(),
        })
    }

    fn accesses(&self) -> Option<u64> {
        self.totals().map(TstTotals::accesses)
    }

    fn gives_mark(&self, mark: u64) -> Option<bool> {
        Some(self.totals()?.marks.as_ref()?.contains(&mark))
    }

    fn is_cut(&self) -> bool {
        let recording = &self.recording;
        recording.damage.is_some() || recording.totals.as_ref().is_some_and(|totals| totals.cut)
    }

    fn files(&self) -> Arc<Vec<FileInfo>> {
        self.recording.files.clone()
    }

    fn sites(&self) -> Arc<SiteTable> {
        self.recording.sites.clone()
    }
}
