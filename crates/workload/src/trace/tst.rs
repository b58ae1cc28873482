//! tierscope's own recording, `.tst`: compact, compressed, in checksummed blocks.
//!
//! `docs/formats/tst.md` specifies the format. A recording is written to a temporary name and
//! renamed when it is complete. Damage is an error that names the block; what precedes it can be
//! replayed on request.

use super::codec::{CodecError, Decoder, Encoder, MAX_BLOCK_BYTES, MAX_BLOCK_OPS};
use crate::counts::Counts;
use crate::feed::whole_operations;
use crate::filter::{Filter, FilterSpec};
use crate::op::{FileId, Op, ThreadId};
use crate::site::{Site, SiteGrain, SiteId, SiteTable};
use crate::stream::{FileInfo, Pull, Stream, StreamError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tierscope_units::reason;

/// The first bytes of every recording. The high bit and the line ends show whether a transfer
/// took it for text.
pub const MAGIC: [u8; 8] = *b"\x89TST\r\n\x1a\n";
/// The version of the format that is written, unless the recording tells its sites.
pub const VERSION: u32 = 1;
/// The version of a recording that tells its sites.
pub const SITES_VERSION: u32 = 2;
/// The version of a recording from which something was left out, and the newest that is read.
pub const FILTER_VERSION: u32 = 3;
/// What a command line calls the permission to replay what precedes the damage.
pub const ALLOW_TRUNCATED_FLAG: &str = "--allow-truncated";

const END_MAGIC: [u8; 8] = *b"TST-END\n";
const BLOCK_MAGIC: [u8; 4] = *b"TBLK";
const BLOCK_HEADER_BYTES: usize = 40;
const TRAILER_BYTES: usize = 32;
const INDEX_ENTRY_BYTES: usize = 16;
const INDEX_ENTRIES_IN_A_BLOCK: usize = 1 << 16;
/// Bytes of metadata at most, before compression.
const MAX_METADATA_BYTES: usize = 1 << 20;
/// Bytes of the table of files at most, before compression.
const MAX_FILE_TABLE_BYTES: usize = 64 << 20;
/// Sites that are written together.
const SITES_IN_A_BLOCK: usize = 4096;
/// Bytes of a block of sites at most, before compression.
const MAX_SITE_BLOCK_BYTES: usize = 64 << 20;
/// Bytes of the table of sites at most, before compression: what exceeds it is left out, and its
/// sites are without names.
const MAX_SITE_TABLE_BYTES: usize = 512 << 20;
/// Compression level of zstd: the fastest of the ordinary ones, whose ratio suffices.
const LEVEL: i32 = 1;

/// What a recording says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TstMetadata {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Version of tierscope that wrote it.
    pub tierscope_version: String,
    /// What observed the program, with its version.
    pub recorder: String,
    /// How finely it tells the sites of the program's code, if it does: version 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sites: Option<SiteGrain>,
    /// The cache whose hits were left out, if they were: version 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<FilterSpec>,
}

impl TstMetadata {
    fn format_version(&self) -> u32 {
        match (self.filter, self.sites) {
            (Some(_), _) => FILTER_VERSION,
            (None, Some(_)) => SITES_VERSION,
            (None, None) => VERSION,
        }
    }
}

/// What a complete recording holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TstTotals {
    /// Threads that have operations.
    pub threads: u64,
    /// Operations, arguments of calls included.
    pub operations: u64,
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Calls on the operating system and marks of synchronization.
    pub calls: u64,
    /// Instructions.
    pub instructions: u64,
    /// How the program ended, in words.
    pub ended: String,
    /// Whether threads may end before what others wait for: the program was recorded up to a
    /// moment in the middle of what it did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Loads that the filter's cache served, and that are in none of the above.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out_loads: u64,
    /// The same of stores.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out_stores: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl TstTotals {
    /// Loads and stores.
    pub fn accesses(&self) -> u64 {
        self.loads + self.stores
    }

    fn add(&mut self, counts: Counts) {
        self.loads += counts.loads;
        self.stores += counts.stores;
        self.calls += counts.calls;
        self.instructions += counts.instructions;
    }
}

/// Why a recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TstError {
    /// The operating system refused.
    #[error("{}: {}", path.display(), reason(source))]
    Io {
        /// The recording.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Not a recording of this format at all.
    #[error(
        "{}: not a .tst recording: it does not begin as one; \
         name another format as FORMAT:FILE", path.display()
    )]
    NotARecording {
        /// The file.
        path: PathBuf,
    },
    /// Of a version that this program does not read.
    #[error(
        "{}: a .tst recording of version {found}; this tierscope reads versions {VERSION} \
         to {FILTER_VERSION}: \
         record it again, or use the tierscope that wrote it", path.display()
    )]
    Version {
        /// The recording.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The header, which says what the recording is, is damaged: nothing can be replayed.
    #[error("{}: the header is damaged: {what}; nothing of it can be replayed", path.display())]
    Header {
        /// The recording.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Truncated or damaged from a block on.
    #[error("{}: {damage}; {ALLOW_TRUNCATED_FLAG} replays what precedes it", path.display())]
    Damaged {
        /// The recording.
        path: PathBuf,
        /// Where and what.
        damage: Damage,
    },
    /// What was to be written breaks the format's rules.
    #[error("{}: cannot record {what}", path.display())]
    Unfit {
        /// The recording.
        path: PathBuf,
        /// What it was.
        what: String,
    },
}

/// The first block of a recording that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Number of the block, from 0.
    pub block: u64,
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// What is wrong with it.
    pub what: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "block {} at byte {}: {}", self.block, self.offset, self.what)
    }
}

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockKind {
    /// Operations of one thread.
    Operations = 1,
    /// Further entries of the table of files.
    Files = 2,
    /// Where the blocks are.
    Index = 3,
    /// Totals.
    End = 4,
    /// Further entries of the table of sites.
    Sites = 5,
}

impl BlockKind {
    fn of(code: u8) -> Option<Self> {
        [Self::Operations, Self::Files, Self::Index, Self::End, Self::Sites]
            .into_iter()
            .find(|kind| *kind as u8 == code)
    }

    /// Bytes before compression at most.
    fn max_bytes(self) -> usize {
        match self {
            BlockKind::Operations => MAX_BLOCK_BYTES,
            BlockKind::Files => MAX_FILE_TABLE_BYTES,
            BlockKind::Index => INDEX_ENTRIES_IN_A_BLOCK * INDEX_ENTRY_BYTES,
            BlockKind::End => MAX_METADATA_BYTES,
            BlockKind::Sites => MAX_SITE_BLOCK_BYTES,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct BlockHeader {
    kind: BlockKind,
    number: u32,
    thread: ThreadId,
    /// Operations of the thread before this block.
    first_op: u64,
    ops: u32,
    raw_bytes: u32,
    stored_bytes: u32,
    checksum: u32,
}

impl BlockHeader {
    /// The header's bytes; the checksum covers those before it and the payload.
    fn pack(&self, payload: &[u8]) -> [u8; BLOCK_HEADER_BYTES] {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        bytes[..4].copy_from_slice(&BLOCK_MAGIC);
        bytes[4] = self.kind as u8;
        bytes[8..12].copy_from_slice(&self.number.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.thread.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_op.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.ops.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.raw_bytes.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.stored_bytes.to_le_bytes());
        let checksum = checksum(&bytes[..36], payload);
        bytes[36..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn unpack(bytes: &[u8; BLOCK_HEADER_BYTES]) -> Result<Self, &'static str> {
        if bytes[..4] != BLOCK_MAGIC {
            return Err("no block begins here");
        }
        let header = BlockHeader {
            kind: BlockKind::of(bytes[4]).ok_or("a block of an unknown kind")?,
            number: u32_at(bytes, 8),
            thread: u32_at(bytes, 12),
            first_op: u64_at(bytes, 16),
            ops: u32_at(bytes, 24),
            raw_bytes: u32_at(bytes, 28),
            stored_bytes: u32_at(bytes, 32),
            checksum: u32_at(bytes, 36),
        };
        let limit = header.kind.max_bytes();
        if header.raw_bytes as usize > limit || header.stored_bytes as usize > 2 * limit + 1024 {
            return Err("a block longer than its kind may be");
        }
        if header.ops as usize > MAX_BLOCK_OPS {
            return Err("a block with more operations than it may have");
        }
        Ok(header)
    }
}

fn checksum(header: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header);
    hasher.update(payload);
    hasher.finalize()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes(b.try_into().unwrap_or_default()))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().unwrap_or_default()))
}

/// Where a block of operations is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BlockPlace {
    /// Its number in the file: every block before the index is in the index, in order.
    number: u64,
    offset: u64,
    thread: ThreadId,
    ops: u32,
}

/// A site with its number, as a recording keeps it.
#[derive(Serialize, Deserialize)]
struct NumberedSite {
    number: SiteId,
    #[serde(flatten)]
    site: Site,
}

/// Bytes that a block takes at most, of so many before compression: the bound of Zstandard's own
/// documentation (`ZSTD_COMPRESSBOUND` in zstd.h), and the header.
fn most_block_bytes(raw: usize) -> u64 {
    (raw + raw / 256 + 64 + BLOCK_HEADER_BYTES) as u64
}

/// Bytes that a site takes at most: of a text each byte may become `\u0000`.
fn most_site_bytes(site: &Site) -> usize {
    6 * (site.file.len() + site.function.len()) + 160
}

/// Bytes of the totals at most, how the program ended included.
const MOST_TOTALS_BYTES: usize = 16 << 10;

/// In the index, the thread of a block of files or sites.
const FILES_THREAD: ThreadId = ThreadId::MAX;

/// Writes a recording, block by block.
///
/// Until [`TstWriter::finish`] the recording has the name of the file with `.partial` after it. A
/// writer that is dropped before removes it; one whose process is killed leaves it, and it can be
/// replayed as far as it goes.
pub struct TstWriter {
    path: PathBuf,
    partial: PathBuf,
    file: File,
    offset: u64,
    blocks: u32,
    index: Vec<BlockPlace>,
    threads: BTreeMap<ThreadId, ThreadWriter>,
    file_count: FileId,
    file_table_bytes: usize,
    sites: Vec<NumberedSite>,
    /// Bytes that the sites take at most that are not written yet.
    pending_site_bytes: usize,
    site_table_bytes: usize,
    filter: Option<Filter>,
    /// What the filter has kept.
    kept: Vec<Op>,
    compressor: zstd::bulk::Compressor<'static>,
    raw: Vec<u8>,
    finished: bool,
}

/// Where a recording that is to be at `path` is until it is complete.
pub fn partial_path(path: &Path) -> PathBuf {
    let mut partial = OsString::from(path);
    partial.push(".partial");
    PathBuf::from(partial)
}

/// A thread's block that is not full yet.
#[derive(Default)]
struct ThreadWriter {
    encoder: Encoder,
    written_ops: u64,
}

impl TstWriter {
    /// Begins a recording that is to be at `path`.
    pub fn create(path: &Path, metadata: &TstMetadata) -> Result<TstWriter, TstError> {
        let failed = |source| TstError::Io { path: path.to_owned(), source };
        let partial = partial_path(path);
        let file = File::create(&partial).map_err(failed)?;
        let mut writer = TstWriter {
            path: path.to_owned(),
            partial,
            file,
            offset: 0,
            blocks: 0,
            index: Vec::new(),
            threads: BTreeMap::new(),
            file_count: 0,
            file_table_bytes: 0,
            sites: Vec::new(),
            pending_site_bytes: 0,
            site_table_bytes: 0,
            filter: metadata.filter.map(Filter::new),
            kept: Vec::new(),
            compressor: zstd::bulk::Compressor::new(LEVEL).map_err(failed)?,
            raw: Vec::new(),
            finished: false,
        };
        writer.write_header(metadata)?;
        Ok(writer)
    }

    /// Appends operations of `thread`, whole calls only; what the metadata say is left out of them, is.
    pub fn append(&mut self, thread: ThreadId, ops: &[Op]) -> Result<(), TstError> {
        let Some(filter) = &mut self.filter else { return self.append_all(thread, ops) };
        let mut kept = std::mem::take(&mut self.kept);
        kept.clear();
        filter.apply(thread, ops, &mut kept);
        let appended = self.append_all(thread, &kept);
        self.kept = kept;
        appended
    }

    fn append_all(&mut self, thread: ThreadId, ops: &[Op]) -> Result<(), TstError> {
        if thread == FILES_THREAD {
            return Err(self.unfit(format!("thread number {thread}")));
        }
        let mut rest = ops;
        while !rest.is_empty() {
            let writer = self.threads.entry(thread).or_default();
            let was_empty = writer.encoder.ops() == 0;
            let taken = match writer.encoder.append(rest) {
                Ok(taken) => taken,
                Err(CodecError(what)) => {
                    return Err(self.unfit(format!("{what} (thread {thread})")));
                }
            };
            rest = &rest[taken..];
            if was_empty && taken == 0 {
                return Err(self.unfit("a call with more arguments than a block takes".into()));
            }
            if !rest.is_empty() || writer.encoder.ops() == MAX_BLOCK_OPS {
                self.write_thread(thread)?;
            }
        }
        Ok(())
    }

    /// Adds a file that the program uses. Files are numbered in the order of the calls.
    pub fn add_file(&mut self, file: &FileInfo) -> Result<FileId, TstError> {
        let text = serde_json::to_vec(&[file]).map_err(|e| self.unfit(e.to_string()))?;
        self.file_table_bytes += text.len();
        if self.file_table_bytes > MAX_FILE_TABLE_BYTES {
            return Err(self.unfit(format!("more than {MAX_FILE_TABLE_BYTES} bytes of file names")));
        }
        let place = self.next_place(FILES_THREAD, 0);
        self.write_block(BlockKind::Files, FILES_THREAD, 0, 0, &text)?;
        self.index.push(place);
        self.file_count += 1;
        Ok(self.file_count - 1)
    }

    /// Says what is at a site, before any operation names it.
    pub fn add_site(&mut self, number: SiteId, site: Site) -> Result<(), TstError> {
        self.pending_site_bytes += most_site_bytes(&site);
        self.sites.push(NumberedSite { number, site });
        if self.sites.len() == SITES_IN_A_BLOCK { self.write_sites() } else { Ok(()) }
    }

    /// Writes the sites that are pending.
    fn write_sites(&mut self) -> Result<(), TstError> {
        if self.sites.is_empty() {
            return Ok(());
        }
        let sites = std::mem::take(&mut self.sites);
        self.pending_site_bytes = 0;
        let text = serde_json::to_vec(&sites).map_err(|e| self.unfit(e.to_string()))?;
        self.site_table_bytes += text.len();
        if text.len() > MAX_SITE_BLOCK_BYTES || self.site_table_bytes > MAX_SITE_TABLE_BYTES {
            return Ok(());
        }
        let place = self.next_place(FILES_THREAD, 0);
        self.write_block(BlockKind::Sites, FILES_THREAD, 0, 0, &text)?;
        self.index.push(place);
        Ok(())
    }

    /// Bytes in the recording so far.
    pub fn written_bytes(&self) -> u64 {
        self.offset
    }

    /// Bytes that the recording has at most if it is finished now.
    pub fn most_bytes(&self) -> u64 {
        let mut blocks = self.index.len();
        let mut most = self.offset;
        let pending = self.threads.values().map(|thread| &thread.encoder);
        for encoder in pending.filter(|encoder| encoder.ops() > 0) {
            blocks += 1;
            most += most_block_bytes(encoder.bytes());
        }
        // Sites, and the instructions that the filter has kept back, may make further ones.
        blocks += 1 + self.filter.as_ref().map_or(0, Filter::threads);
        most += most_block_bytes(self.pending_site_bytes);
        most += self.filter.as_ref().map_or(0, Filter::threads) as u64 * most_block_bytes(64);
        most += most_block_bytes(blocks * INDEX_ENTRY_BYTES);
        most += (blocks / INDEX_ENTRIES_IN_A_BLOCK) as u64 * most_block_bytes(0);
        most + most_block_bytes(MOST_TOTALS_BYTES) + TRAILER_BYTES as u64
    }

    /// Writes what is pending, so that it outlives the process. Blocks are the shorter for it.
    pub fn flush(&mut self) -> Result<(), TstError> {
        self.write_sites()?;
        let threads: Vec<ThreadId> = self.threads.keys().copied().collect();
        threads.into_iter().try_for_each(|thread| self.write_thread(thread))
    }

    /// Completes the recording and gives it its name. `ended` says how the program ended.
    pub fn finish(self, ended: &str) -> Result<TstTotals, TstError> {
        self.complete(ended, false)
    }

    /// As [`TstWriter::finish`], for a program that ended, or went on, in the middle of what it
    /// did: threads may end before what others wait for.
    pub fn finish_cut(self, ended: &str) -> Result<TstTotals, TstError> {
        self.complete(ended, true)
    }

    fn complete(mut self, ended: &str, cut: bool) -> Result<TstTotals, TstError> {
        let rest = self.filter.as_mut().map(Filter::rest).unwrap_or_default();
        for (thread, op) in rest {
            self.append_all(thread, &[op])?;
        }
        self.flush()?;
        let left_out = self.filter.as_ref().map(Filter::left_out).unwrap_or_default();
        let mut totals = TstTotals {
            threads: self.threads.len() as u64,
            operations: self.threads.values().map(|thread| thread.written_ops).sum(),
            ended: ended.to_owned(),
            cut,
            left_out_loads: left_out.loads,
            left_out_stores: left_out.stores,
            ..TstTotals::default()
        };
        self.threads.values().for_each(|thread| totals.add(thread.encoder.counts()));
        self.write_end(&totals)?;
        let synced = self.file.sync_all();
        synced.and_then(|()| std::fs::rename(&self.partial, &self.path)).map_err(|e| self.io(e))?;
        self.finished = true;
        Ok(totals)
    }

    fn next_place(&self, thread: ThreadId, ops: u32) -> BlockPlace {
        BlockPlace { number: u64::from(self.blocks), offset: self.offset, thread, ops }
    }

    fn io(&self, source: io::Error) -> TstError {
        TstError::Io { path: self.path.clone(), source }
    }

    fn unfit(&self, what: String) -> TstError {
        TstError::Unfit { path: self.path.clone(), what }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), TstError> {
        self.file.write_all(bytes).map_err(|e| self.io(e))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn write_header(&mut self, metadata: &TstMetadata) -> Result<(), TstError> {
        let text = serde_json::to_vec(metadata).map_err(|e| self.unfit(e.to_string()))?;
        if text.len() > MAX_METADATA_BYTES {
            return Err(self.unfit("a command line of more than a MiB".into()));
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&metadata.format_version().to_le_bytes());
        bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&text);
        let checksum = checksum(&bytes, &[]);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        self.write(&bytes)
    }

    /// Writes what is pending of a thread as a block.
    fn write_thread(&mut self, thread: ThreadId) -> Result<(), TstError> {
        self.write_sites()?;
        let Some(writer) = self.threads.get_mut(&thread) else { return Ok(()) };
        let ops = writer.encoder.ops() as u32;
        if ops == 0 {
            return Ok(());
        }
        let first_op = writer.written_ops;
        writer.written_ops += u64::from(ops);
        let mut raw = std::mem::take(&mut self.raw);
        writer.encoder.finish_block(&mut raw);
        let place = self.next_place(thread, ops);
        self.write_block(BlockKind::Operations, thread, first_op, ops, &raw)?;
        self.index.push(place);
        self.raw = raw;
        Ok(())
    }

    fn write_block(
        &mut self,
        kind: BlockKind,
        thread: ThreadId,
        first_op: u64,
        ops: u32,
        raw: &[u8],
    ) -> Result<(), TstError> {
        let payload = self.compressor.compress(raw).map_err(|e| self.io(e))?;
        let header = BlockHeader {
            kind,
            number: self.blocks,
            thread,
            first_op,
            ops,
            raw_bytes: raw.len() as u32,
            stored_bytes: payload.len() as u32,
            checksum: 0,
        };
        self.blocks = self
            .blocks
            .checked_add(1)
            .ok_or_else(|| self.unfit("more than 4294967295 blocks".into()))?;
        // In one piece, so that what a killed process leaves is whole blocks.
        self.write(&[&header.pack(&payload)[..], &payload].concat())
    }

    /// The index, the totals and the trailer.
    fn write_end(&mut self, totals: &TstTotals) -> Result<(), TstError> {
        let index_offset = self.offset;
        let index_block = self.blocks;
        let index = std::mem::take(&mut self.index);
        for entries in index.chunks(INDEX_ENTRIES_IN_A_BLOCK) {
            let mut raw = Vec::with_capacity(entries.len() * INDEX_ENTRY_BYTES);
            for entry in entries {
                raw.extend_from_slice(&entry.offset.to_le_bytes());
                raw.extend_from_slice(&entry.thread.to_le_bytes());
                raw.extend_from_slice(&entry.ops.to_le_bytes());
            }
            self.write_block(BlockKind::Index, 0, 0, 0, &raw)?;
        }
        let text = serde_json::to_vec(totals).map_err(|e| self.unfit(e.to_string()))?;
        self.write_block(BlockKind::End, 0, 0, 0, &text)?;
        let mut trailer = Vec::with_capacity(TRAILER_BYTES);
        trailer.extend_from_slice(&index_offset.to_le_bytes());
        trailer.extend_from_slice(&u64::from(index_block).to_le_bytes());
        trailer.extend_from_slice(&[0; 4]);
        let checksum = checksum(&trailer, &[]);
        trailer.extend_from_slice(&checksum.to_le_bytes());
        trailer.extend_from_slice(&END_MAGIC);
        self.write(&trailer)
    }
}

impl Drop for TstWriter {
    fn drop(&mut self) {
        if !self.finished {
            // What is half written is not to be taken for a recording; that it cannot be removed
            // changes nothing about the failure that led here.
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}

/// A recording being replayed: a [`Stream`] of as many threads as it has.
///
/// Holds one decoded block for each thread, and where the blocks are.
pub struct TstReader {
    recording: Arc<Recording>,
    threads: BTreeMap<ThreadId, Replay>,
    decoder: Decoder,
    raw: Vec<u8>,
}

struct Recording {
    path: PathBuf,
    file: File,
    file_bytes: u64,
    first_block: u64,
    metadata: TstMetadata,
    totals: Option<TstTotals>,
    damage: Option<Damage>,
    blocks: BTreeMap<ThreadId, Vec<BlockPlace>>,
    files: Arc<Vec<FileInfo>>,
    sites: Arc<SiteTable>,
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
    /// `allow_truncated` all of it is checked here, and what precedes the first damage in the file
    /// is replayed; threads then end where that ends. See [`TstReader::damage`].
    pub fn open(path: &Path, allow_truncated: bool) -> Result<TstReader, TstError> {
        let recording = Recording::open(path, allow_truncated)?;
        Ok(TstReader {
            recording: Arc::new(recording),
            threads: BTreeMap::new(),
            decoder: Decoder::default(),
            raw: Vec::new(),
        })
    }

    /// What the recording says about itself.
    pub fn metadata(&self) -> &TstMetadata {
        &self.recording.metadata
    }

    /// What it holds; `None` where it is truncated.
    pub fn totals(&self) -> Option<&TstTotals> {
        self.recording.totals.as_ref()
    }

    /// What cuts the replay short, if anything does.
    pub fn damage(&self) -> Option<&Damage> {
        self.recording.damage.as_ref()
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
        let Some(place) = blocks.get(replay.next_block) else { return Ok(false) };
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
        replay.next_block += 1;
        replay.passed_ops += ops.len() as u64;
        replay.block = Arc::new(ops);
        replay.done = 0;
        Ok(true)
    }
}

impl Stream for TstReader {
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
            decoder: Decoder::default(),
            raw: Vec::new(),
        })
    }

    fn accesses(&self) -> Option<u64> {
        self.totals().map(TstTotals::accesses)
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

impl Recording {
    fn open(path: &Path, allow_truncated: bool) -> Result<Recording, TstError> {
        let failed = |source| TstError::Io { path: path.to_owned(), source };
        // Before it is opened: to open a pipe that nobody writes to never ends.
        let status = std::fs::metadata(path).map_err(failed)?;
        if !status.is_file() && !status.is_dir() {
            let reason = "no regular file: a recording is read here and there, which a pipe or a \
                          device does not allow; name the file that holds it";
            return Err(failed(io::Error::other(reason)));
        }
        let file = File::open(path).map_err(failed)?;
        let file_bytes = status.len();
        let mut recording = Recording {
            path: path.to_owned(),
            file,
            file_bytes,
            first_block: 0,
            metadata: TstMetadata::default(),
            totals: None,
            damage: None,
            blocks: BTreeMap::new(),
            files: Arc::default(),
            sites: Arc::default(),
        };
        recording.read_header()?;
        if allow_truncated {
            recording.damage = recording.scan();
        } else if let Err(damage) = recording.read_index() {
            let damage = recording.scan().unwrap_or(damage);
            return Err(TstError::Damaged { path: path.to_owned(), damage });
        }
        Ok(recording)
    }

    fn damaged(&self, block: u64, offset: u64, what: String) -> TstError {
        TstError::Damaged { path: self.path.clone(), damage: Damage { block, offset, what } }
    }

    fn read_header(&mut self) -> Result<(), TstError> {
        let header = |what: &str| TstError::Header { path: self.path.clone(), what: what.into() };
        let mut fixed = [0; 16];
        let length = self.file_bytes.min(16) as usize;
        self.file
            .read_exact_at(&mut fixed[..length], 0)
            .map_err(|source| TstError::Io { path: self.path.clone(), source })?;
        if fixed[..8] != MAGIC {
            return Err(TstError::NotARecording { path: self.path.clone() });
        }
        let version = u32_at(&fixed, 8);
        if length == 16 && !(VERSION..=FILTER_VERSION).contains(&version) {
            return Err(TstError::Version { path: self.path.clone(), found: version });
        }
        let text_bytes = u32_at(&fixed, 12) as usize;
        if length < 16 || text_bytes > MAX_METADATA_BYTES {
            return Err(header("it is cut short, or longer than it may be"));
        }
        let mut rest = vec![0; text_bytes + 4];
        self.file.read_exact_at(&mut rest, 16).map_err(|_| header("it is cut short"))?;
        if checksum(&fixed, &rest[..text_bytes]) != u32_at(&rest, text_bytes) {
            return Err(header("its checksum does not match"));
        }
        self.metadata = serde_json::from_slice(&rest[..text_bytes])
            .map_err(|error| header(&error.to_string()))?;
        self.first_block = 20 + text_bytes as u64;
        Ok(())
    }

    /// Reads, checks and decompresses the block at `offset` into `raw`. An error says what is wrong.
    fn read_block(&self, offset: u64, raw: &mut Vec<u8>) -> Result<BlockHeader, String> {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        self.file
            .read_exact_at(&mut bytes, offset)
            .map_err(|error| unreadable("its header", &error))?;
        let header = BlockHeader::unpack(&bytes)?;
        let payload_offset = offset + BLOCK_HEADER_BYTES as u64;
        if self.file_bytes.saturating_sub(payload_offset) < u64::from(header.stored_bytes) {
            return Err("it is cut short: the file ends within it".into());
        }
        let mut payload = vec![0; header.stored_bytes as usize];
        self.file
            .read_exact_at(&mut payload, payload_offset)
            .map_err(|error| unreadable("it", &error))?;
        if checksum(&bytes[..36], &payload) != header.checksum {
            return Err("its checksum does not match".into());
        }
        *raw = zstd::bulk::decompress(&payload, header.raw_bytes as usize)
            .map_err(|error| format!("it does not decompress: {error}"))?;
        if raw.len() != header.raw_bytes as usize {
            return Err("it decompresses to another length than it says".into());
        }
        Ok(header)
    }

    /// Reads trailer, index and totals of a complete recording.
    fn read_index(&mut self) -> Result<(), Damage> {
        let (mut offset, mut number) = self.read_trailer()?;
        let end = self.file_bytes - TRAILER_BYTES as u64;
        let mut raw = Vec::new();
        let mut places = Vec::new();
        loop {
            let damage = |what: String| Damage { block: number, offset, what };
            let header = self.read_block(offset, &mut raw).map_err(damage)?;
            let next = offset + (BLOCK_HEADER_BYTES as u64 + u64::from(header.stored_bytes));
            match header.kind {
                BlockKind::Index => {
                    let first = places.len() as u64;
                    let entries = (first..).zip(raw.chunks_exact(INDEX_ENTRY_BYTES));
                    places.extend(entries.map(|(number, entry)| BlockPlace {
                        number,
                        offset: u64_at(entry, 0),
                        thread: u32_at(entry, 8),
                        ops: u32_at(entry, 12),
                    }));
                }
                BlockKind::End if next == end => {
                    let totals = serde_json::from_slice(&raw);
                    self.totals = Some(totals.map_err(|error| damage(error.to_string()))?);
                    return self.take_index(&places);
                }
                _ => return Err(damage("it does not belong at the end of a recording".into())),
            }
            // Every block that the index names takes at least a header's bytes.
            if places.len() as u64 > self.file_bytes / BLOCK_HEADER_BYTES as u64 {
                return Err(damage("the index names more blocks than the file can hold".into()));
            }
            (offset, number) = (next, number + 1);
        }
    }

    /// Where the index begins: offset and block number.
    fn read_trailer(&self) -> Result<(u64, u64), Damage> {
        let truncated = || Damage {
            block: 0,
            offset: self.file_bytes,
            what: "the recording has no end: it is truncated, or was never completed".into(),
        };
        let at = self.file_bytes.checked_sub(TRAILER_BYTES as u64).ok_or_else(truncated)?;
        let mut trailer = [0; TRAILER_BYTES];
        self.file.read_exact_at(&mut trailer, at).map_err(|_| truncated())?;
        let intact = trailer[24..] == END_MAGIC
            && checksum(&trailer[..20], &[]) == u32_at(&trailer, 20)
            && (self.first_block..at).contains(&u64_at(&trailer, 0));
        if intact { Ok((u64_at(&trailer, 0), u64_at(&trailer, 8))) } else { Err(truncated()) }
    }

    fn take_tables(&mut self, tables: Tables) {
        self.files = Arc::new(tables.files);
        self.sites = Arc::new(tables.sites);
    }

    /// Sorts the index by thread and reads the tables of files and sites.
    fn take_index(&mut self, places: &[BlockPlace]) -> Result<(), Damage> {
        let mut tables = Tables::new(self.metadata.sites);
        let mut raw = Vec::new();
        for place in places {
            if place.thread != FILES_THREAD {
                self.blocks.entry(place.thread).or_default().push(*place);
                continue;
            }
            let damage = |what| Damage { block: place.number, offset: place.offset, what };
            let header = self.read_block(place.offset, &mut raw).map_err(damage)?;
            tables.take(&header, &raw).map_err(damage)?;
        }
        self.take_tables(tables);
        Ok(())
    }

    /// Goes through the file and keeps what precedes the first damage, which it returns.
    fn scan(&mut self) -> Option<Damage> {
        self.blocks.clear();
        self.totals = None;
        let mut tables = Tables::new(self.metadata.sites);
        let found = self.scan_blocks(&mut tables);
        self.take_tables(tables);
        found.err()
    }

    fn scan_blocks(&mut self, tables: &mut Tables) -> Result<(), Damage> {
        let mut scan = Scan { offset: self.first_block, ..Scan::default() };
        let mut decoder = Decoder::default();
        let mut raw = Vec::new();
        let mut ops = Vec::new();
        loop {
            let damage = |what: String| Damage { block: scan.number, offset: scan.offset, what };
            if scan.offset >= self.file_bytes {
                return Err(damage("the recording is truncated: it ends before this block".into()));
            }
            let header = self.read_block(scan.offset, &mut raw).map_err(damage)?;
            if u64::from(header.number) != scan.number {
                return Err(damage(format!("it says that it is block {}", header.number)));
            }
            match header.kind {
                BlockKind::Operations => {
                    let passed = scan.passed_ops.entry(header.thread).or_insert(0);
                    if header.first_op != *passed || header.thread == FILES_THREAD {
                        return Err(damage("operations before it are missing".into()));
                    }
                    ops.clear();
                    decoder
                        .decode(&raw, header.ops as usize, &mut ops)
                        .map_err(|CodecError(what)| damage(what.into()))?;
                    *passed += u64::from(header.ops);
                    self.blocks.entry(header.thread).or_default().push(BlockPlace {
                        number: scan.number,
                        offset: scan.offset,
                        thread: header.thread,
                        ops: header.ops,
                    });
                }
                BlockKind::Files | BlockKind::Sites => {
                    tables.take(&header, &raw).map_err(damage)?;
                }
                BlockKind::Index => {}
                BlockKind::End => {
                    let totals = serde_json::from_slice(&raw);
                    self.totals = Some(totals.map_err(|error| damage(error.to_string()))?);
                    let trailer = self.read_trailer();
                    return trailer.map(|_| ()).map_err(|_| {
                        damage("what follows it, the end of the recording, is damaged".into())
                    });
                }
            }
            scan.offset += BLOCK_HEADER_BYTES as u64 + u64::from(header.stored_bytes);
            scan.number += 1;
        }
    }
}

/// Where a scan stands.
#[derive(Default)]
struct Scan {
    offset: u64,
    number: u64,
    passed_ops: BTreeMap<ThreadId, u64>,
}

fn unreadable(what: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "it is cut short: the file ends within it".into(),
        _ => format!("{what} cannot be read: {error}"),
    }
}

/// The tables of a recording, as far as they have been read.
struct Tables {
    files: Vec<FileInfo>,
    file_bytes: usize,
    sites: SiteTable,
    site_bytes: usize,
}

impl Tables {
    fn new(grain: Option<SiteGrain>) -> Tables {
        let sites = grain.map_or_else(SiteTable::default, SiteTable::new);
        Tables { files: Vec::new(), file_bytes: 0, sites, site_bytes: 0 }
    }

    /// Takes the entries of a block.
    fn take(&mut self, header: &BlockHeader, raw: &[u8]) -> Result<(), String> {
        match header.kind {
            BlockKind::Files => self.take_files(raw),
            BlockKind::Sites => self.take_sites(raw),
            _ => Err("it is not the block that the index says".into()),
        }
    }

    fn take_files(&mut self, raw: &[u8]) -> Result<(), String> {
        self.file_bytes += raw.len();
        if self.file_bytes > MAX_FILE_TABLE_BYTES {
            return Err("the table of files is longer than it may be".into());
        }
        let files: Vec<FileInfo> =
            serde_json::from_slice(raw).map_err(|error| format!("the table of files: {error}"))?;
        self.files.extend(files);
        Ok(())
    }

    fn take_sites(&mut self, raw: &[u8]) -> Result<(), String> {
        self.site_bytes += raw.len();
        if self.sites.grain.is_none() {
            return Err("sites, and the header says that there are none".into());
        }
        if self.site_bytes > MAX_SITE_TABLE_BYTES {
            return Err("the table of sites is longer than it may be".into());
        }
        let sites: Vec<NumberedSite> =
            serde_json::from_slice(raw).map_err(|error| format!("the table of sites: {error}"))?;
        for NumberedSite { number, site } in sites {
            if !self.sites.set(number, site) {
                return Err(format!("the table of sites: no site has the number {number}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::stream_laws;
    use crate::op::{Call, OpKind};
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use tierscope_units::Size;

    /// A directory that is removed with its value.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Self {
            static COUNT: AtomicU64 = AtomicU64::new(0);
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("tierscope-tst-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }

        fn file(&self) -> PathBuf {
            self.0.join("recording.tst")
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn sequence(thread: ThreadId, count: u64) -> Vec<Op> {
        let mut ops = Vec::new();
        for index in 0..count {
            if index % 97 == 13 {
                Call::Read { file: 1, offset: index, length: 5, address: 1 << 40 }
                    .encode(9, &mut ops);
            } else {
                let random = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                ops.push(Op::load(u64::from(thread) << 32 | random, 8, (index % 5) as u32));
            }
        }
        ops
    }

    fn metadata() -> TstMetadata {
        TstMetadata {
            command: vec!["sqlite3".into(), "test.db".into()],
            tierscope_version: "0.1.0".into(),
            recorder: "test".into(),
            ..TstMetadata::default()
        }
    }

    /// Two threads in pieces, and two files.
    fn record(path: &Path, counts: [u64; 2], piece: usize) -> TstTotals {
        let mut writer = TstWriter::create(path, &metadata()).unwrap();
        let sequences = [sequence(0, counts[0]), sequence(1, counts[1])];
        let mut done = [0, 0];
        writer.add_file(&FileInfo { name: "test.db".into(), size_bytes: 4096 }).unwrap();
        while (0..2).any(|t| done[t] < sequences[t].len()) {
            for thread in 0..2 {
                let rest = &sequences[thread][done[thread]..];
                let taken = whole_operations(rest, piece);
                writer.append(thread as u32, &rest[..taken]).unwrap();
                done[thread] += taken;
            }
        }
        let second = FileInfo { name: "test.db-wal".into(), size_bytes: 0 };
        assert_eq!(writer.add_file(&second).unwrap(), 1);
        writer.finish("exit status 0").unwrap()
    }

    fn replay(reader: &mut dyn Stream, thread: ThreadId) -> Result<Vec<Op>, StreamError> {
        let mut out = Vec::new();
        while reader.pull(thread, 1000, &mut out)? == Pull::More {}
        Ok(out)
    }

    #[test]
    fn the_streams_laws_hold() {
        let scratch = Scratch::new();
        let mut writer = TstWriter::create(&scratch.file(), &metadata()).unwrap();
        for name in ["a", "b"] {
            writer.add_file(&FileInfo { name: name.into(), size_bytes: 4096 }).unwrap();
        }
        let mut first = Vec::new();
        Call::Spawn { thread: 1 }.encode(1, &mut first);
        first.extend(sequence(0, 3000));
        Call::Wait { thread: 1, sequence: 1 }.encode(1, &mut first);
        let mut second = sequence(1, 5000);
        Call::Signal { sequence: 1 }.encode(1, &mut second);
        for (thread, ops) in [(1, second), (0, first)] {
            let mut rest = &ops[..];
            while !rest.is_empty() {
                let (piece, left) = rest.split_at(whole_operations(rest, 700));
                writer.append(thread, piece).unwrap();
                rest = left;
            }
        }
        writer.finish("exit status 0").unwrap();
        stream_laws(|| Box::new(TstReader::open(&scratch.file(), false).unwrap()));
    }

    #[test]
    fn a_replay_gives_what_was_recorded() {
        let scratch = Scratch::new();
        let totals = record(&scratch.file(), [200_000, 70_000], 5000);
        let mut reader = TstReader::open(&scratch.file(), false).unwrap();
        assert_eq!(reader.metadata(), &metadata());
        assert_eq!(reader.totals(), Some(&totals));
        assert_eq!(reader.damage(), None);
        assert_eq!(reader.threads(), vec![0, 1]);
        assert_eq!(totals.threads, 2);
        let calls = |count: u64| (0..count).filter(|index| index % 97 == 13).count() as u64;
        assert_eq!(totals.calls, calls(200_000) + calls(70_000));
        assert_eq!(totals.loads + totals.calls, 270_000);
        assert_eq!(reader.operations(), totals.operations);
        assert_eq!(reader.files()[1].name, "test.db-wal");
        assert_eq!(replay(&mut reader, 1).unwrap(), sequence(1, 70_000));
        assert_eq!(replay(&mut reader, 0).unwrap(), sequence(0, 200_000));
        assert!(replay(&mut reader, 7).unwrap().is_empty());
        assert!(!scratch.file().with_extension("tst.partial").exists());
    }

    #[test]
    fn a_recording_with_sites_gives_them_back_and_one_without_has_version_1() {
        let scratch = Scratch::new();
        let site = |number: u64| Site {
            file: "/bin/app".into(),
            function: format!("f{}", number / 10).into(),
            start: 0x1000,
            address: 0x1000 + number,
        };
        let metadata = TstMetadata { sites: Some(SiteGrain::Address), ..metadata() };
        let mut writer = TstWriter::create(&scratch.file(), &metadata).unwrap();
        let mut ops = Vec::new();
        for number in 2..10_000u32 {
            writer.add_site(number, site(number.into())).unwrap();
            ops.extend([Op::site(number), Op::load(u64::from(number) << 12, 8, 3)]);
        }
        writer.append(0, &ops).unwrap();
        let totals = writer.finish("exit status 0").unwrap();
        assert_eq!((totals.loads, totals.operations), (9998, 2 * 9998));
        let version = |bytes: &[u8]| u32_at(bytes, 8);
        let whole = std::fs::read(scratch.file()).unwrap();
        assert_eq!(version(&whole), SITES_VERSION);
        let mut reader = TstReader::open(&scratch.file(), false).unwrap();
        assert_eq!(reader.sites().grain, Some(SiteGrain::Address));
        assert_eq!((reader.sites().len(), reader.sites().get(9999)), (9998, Some(&site(9999))));
        assert_eq!(replay(&mut reader, 0).unwrap(), ops);
        std::fs::write(scratch.file(), &whole[..whole.len() - 1]).unwrap();
        let truncated = TstReader::open(&scratch.file(), true).unwrap();
        assert_eq!(truncated.sites(), reader.sites());
        record(&scratch.file(), [10, 10], 5);
        assert_eq!(version(&std::fs::read(scratch.file()).unwrap()), VERSION);
        let without = TstReader::open(&scratch.file(), false).unwrap().sites();
        assert_eq!((without.grain, without.len()), (None, 0));
    }

    #[test]
    fn a_filtered_recording_says_so_and_keeps_instructions() {
        let scratch = Scratch::new();
        let filter = FilterSpec::new(Size::from_bytes(32 << 10)).unwrap();
        let metadata = TstMetadata { filter: Some(filter), ..metadata() };
        let mut writer = TstWriter::create(&scratch.file(), &metadata).unwrap();
        let ops: Vec<Op> = (0..100_000).map(|at| Op::load(at % 1000 * 8, 8, 3)).collect();
        ops.chunks(777).for_each(|piece| writer.append(0, piece).unwrap());
        let totals = writer.finish("exit status 0").unwrap();
        assert_eq!((totals.loads, totals.left_out_loads), (125, 100_000 - 125), "one a line");
        assert_eq!((totals.instructions, totals.left_out_stores), (300_000, 0));
        let whole = std::fs::read(scratch.file()).unwrap();
        assert_eq!(u32_at(&whole, 8), FILTER_VERSION);
        let mut reader = TstReader::open(&scratch.file(), false).unwrap();
        assert_eq!((reader.metadata(), reader.totals()), (&metadata, Some(&totals)));
        assert_eq!(Counts::of(&replay(&mut reader, 0).unwrap()).instructions, 300_000);
    }

    proptest! {
        #[test]
        fn a_recording_is_never_larger_than_was_foreseen(
            threads in 1u32..6, count in 1u64..3000, hostile in any::<bool>(), sites in 0u64..40,
            filtered in any::<bool>(),
        ) {
            let scratch = Scratch::new();
            let filter = filtered.then(|| FilterSpec::new(Size::from_bytes(512)).unwrap());
            let metadata = TstMetadata { filter, sites: Some(SiteGrain::Address), ..metadata() };
            let mut writer = TstWriter::create(&scratch.file(), &metadata).unwrap();
            for number in 0..sites {
                let name = if hostile { "\u{1}\u{2}" } else { "name" }.repeat(number as usize);
                let site = Site { file: name.as_str().into(), function: name.as_str().into(), start: u64::MAX, address: number };
                writer.add_site(2 + number as u32, site).unwrap();
            }
            for thread in 0..threads {
                let ops: Vec<Op> = if hostile {
                    // Nothing of it can be predicted or compressed.
                    (0..count)
                        .map(|at| (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ u64::from(thread)))
                        .map(|noise| Op::new(OpKind::Load, 0, noise as u16, (noise >> 20) as u32, noise))
                        .collect()
                } else {
                    sequence(thread, count)
                };
                writer.append(thread, &ops).unwrap();
            }
            let foreseen = writer.most_bytes();
            writer.finish("exit status 0").unwrap();
            let found = std::fs::metadata(scratch.file()).unwrap().len();
            prop_assert!(found <= foreseen, "{} bytes, and {} were foreseen", found, foreseen);
        }
    }

    #[test]
    fn a_fork_goes_on_where_its_reader_stood() {
        let scratch = Scratch::new();
        record(&scratch.file(), [100_000, 10], 5000);
        let mut reader = TstReader::open(&scratch.file(), false).unwrap();
        let mut before = Vec::new();
        while before.len() < 70_000 {
            reader.pull(0, 777, &mut before).unwrap();
        }
        let mut fork = reader.fork();
        let rest = replay(&mut reader, 0).unwrap();
        assert_eq!(replay(fork.as_mut(), 0).unwrap(), rest);
        before.extend(rest);
        assert_eq!(before, sequence(0, 100_000));
    }

    #[test]
    fn an_unfinished_recording_leaves_nothing_behind() {
        let scratch = Scratch::new();
        let mut writer = TstWriter::create(&scratch.file(), &metadata()).unwrap();
        writer.append(0, &sequence(0, 100)).unwrap();
        drop(writer);
        assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 0);
    }

    #[test]
    fn other_files_and_versions_are_refused_with_a_reason() {
        let scratch = Scratch::new();
        let message = |bytes: &[u8]| {
            std::fs::write(scratch.file(), bytes).unwrap();
            TstReader::open(&scratch.file(), true).err().unwrap().to_string()
        };
        assert!(message(b"").contains("not a .tst recording"));
        assert!(message(b"0x1234 R 17").contains("not a .tst recording"));
        let mut newer = MAGIC.to_vec();
        newer.extend_from_slice(&[9, 0, 0, 0, 0, 0, 0, 0]);
        assert!(message(&newer).contains("version 9; this tierscope reads versions 1 to 3"));
        newer[8] = 1;
        assert!(message(&newer).contains("nothing of it can be replayed"));
        let missing = TstReader::open(&scratch.0.join("none"), false).err().unwrap();
        assert!(missing.to_string().contains("no such file"), "{missing}");
    }

    /// Cut anywhere, a recording is an error that names the block, and its whole blocks replay.
    #[test]
    fn a_recording_cut_anywhere_names_the_block_and_replays_what_precedes_it() {
        let scratch = Scratch::new();
        record(&scratch.file(), [1200, 300], 100_000);
        let whole = std::fs::read(scratch.file()).unwrap();
        let complete = TstReader::open(&scratch.file(), false).unwrap();
        let blocks: Vec<BlockPlace> =
            complete.recording.blocks.values().flatten().copied().collect();
        let first_block = complete.recording.first_block as usize;
        for length in 0..whole.len() {
            std::fs::write(scratch.file(), &whole[..length]).unwrap();
            let strict = TstReader::open(&scratch.file(), false).err().unwrap();
            if length < first_block {
                assert!(TstReader::open(&scratch.file(), true).is_err());
                continue;
            }
            let message = strict.to_string();
            assert!(message.contains(": block ") && message.contains(" at byte "), "{message}");
            assert!(message.contains("--allow-truncated replays what precedes it"), "{message}");
            let mut partial = TstReader::open(&scratch.file(), true).unwrap();
            assert!(partial.damage().is_some());
            for block in &blocks {
                let end = whole[block.offset as usize..].len();
                let stored = u32_at(&whole, block.offset as usize + 32) as usize;
                let kept = length >= whole.len() - end + BLOCK_HEADER_BYTES + stored;
                let expected = if kept {
                    sequence(block.thread, [1200, 300][block.thread as usize])
                } else {
                    Vec::new()
                };
                assert_eq!(replay(&mut partial, block.thread).unwrap(), expected);
            }
        }
    }

    #[test]
    fn a_block_damaged_in_the_middle_is_named_when_it_is_reached() {
        let scratch = Scratch::new();
        record(&scratch.file(), [200_000, 10], 5000);
        let place = {
            let reader = TstReader::open(&scratch.file(), false).unwrap();
            reader.recording.blocks[&0][2]
        };
        let mut bytes = std::fs::read(scratch.file()).unwrap();
        bytes[place.offset as usize + 1000] ^= 0x10;
        std::fs::write(scratch.file(), &bytes).unwrap();
        let mut reader = TstReader::open(&scratch.file(), false).unwrap();
        let Err(StreamError::Damaged(message)) = replay(&mut reader, 0) else {
            panic!("damage must be found");
        };
        let expected = format!(
            "block {} at byte {}: its checksum does not match; --allow-truncated",
            place.number, place.offset
        );
        assert!(message.contains(&expected), "{message}");
        let mut reader = TstReader::open(&scratch.file(), true).unwrap();
        let replayed = replay(&mut reader, 0).unwrap();
        assert_eq!(reader.damage().unwrap().block, place.number);
        assert_eq!(replayed, sequence(0, 200_000)[..replayed.len()]);
        assert!(replayed.len() > 100_000);
    }

    fn read_all(path: &Path, allow_truncated: bool) {
        let Ok(mut reader) = TstReader::open(path, allow_truncated) else { return };
        for thread in reader.threads() {
            let _ = replay(&mut reader, thread);
        }
    }

    proptest! {
        #[test]
        fn random_bytes_after_a_right_beginning_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..300), magic in any::<bool>()
        ) {
            let scratch = Scratch::new();
            let mut content = if magic { MAGIC.to_vec() } else { Vec::new() };
            if magic {
                content.extend_from_slice(&VERSION.to_le_bytes());
            }
            content.extend_from_slice(&bytes);
            std::fs::write(scratch.file(), &content).unwrap();
            read_all(&scratch.file(), false);
            read_all(&scratch.file(), true);
        }

        /// Bits flipped, with checksums mended so that what is behind them is reached.
        #[test]
        fn flipped_bits_never_panic_even_behind_right_checksums(
            flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..4),
            mend in any::<bool>(),
        ) {
            let scratch = Scratch::new();
            record(&scratch.file(), [300, 50], 100);
            let mut bytes = std::fs::read(scratch.file()).unwrap();
            for (at, bit) in flips {
                let index = at.index(bytes.len());
                bytes[index] ^= 1 << bit;
            }
            if mend {
                mend_checksums(&mut bytes);
            }
            std::fs::write(scratch.file(), &bytes).unwrap();
            read_all(&scratch.file(), false);
            read_all(&scratch.file(), true);
        }
    }

    /// Makes the checksum of every block that can still be found right.
    fn mend_checksums(bytes: &mut [u8]) {
        let places: Vec<usize> = (0..bytes.len().saturating_sub(40))
            .filter(|at| bytes[*at..].starts_with(b"TBLK"))
            .collect();
        for at in places {
            let stored = u32_at(bytes, at + 32) as usize;
            let Some(payload) = bytes.get(at + 40..at.saturating_add(40 + stored)) else {
                continue;
            };
            let sum = checksum(&bytes[at..at + 36], payload);
            bytes[at + 36..at + 40].copy_from_slice(&sum.to_le_bytes());
        }
    }
}
