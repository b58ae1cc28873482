//! Writing a recording.

use super::block::{BlockHeader, BlockKind, BlockPlace, FILES_THREAD, checksum};
use super::tables::NumberedSite;
use super::*;
use crate::filter::Filter;
use crate::op::{FileId, Op};
use crate::trace::codec::{CodecError, Encoder, MAX_BLOCK_OPS, MOST_MARKS};
use crate::windows::Windows;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;

/// Bytes of the totals at most: of a text each byte may become `\u0000`.
const MOST_TOTALS_BYTES: usize = (MOST_MISSING + 1) * 6 * (MOST_TEXT_BYTES + 8) + 4096;

/// A text that is no longer than one of the totals may be.
fn bounded(text: &str) -> String {
    if text.len() <= MOST_TEXT_BYTES {
        return text.to_owned();
    }
    const ELLIPSIS: &str = " …";
    let kept = text.floor_char_boundary(MOST_TEXT_BYTES - ELLIPSIS.len());
    format!("{}{ELLIPSIS}", &text[..kept])
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
    windows: Option<Windows>,
    /// What is in windows.
    inside: Vec<Op>,
    filter: Option<Filter>,
    /// What the filter has kept.
    kept: Vec<Op>,
    missing: Vec<String>,
    /// What is missing beyond that.
    more_missing: usize,
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
            windows: metadata.windows.map(Windows::new),
            inside: Vec::new(),
            filter: metadata.filter.map(Filter::new),
            kept: Vec::new(),
            missing: Vec::new(),
            more_missing: 0,
            compressor: zstd::bulk::Compressor::new(LEVEL).map_err(failed)?,
            raw: Vec::new(),
            finished: false,
        };
        writer.write_header(metadata)?;
        Ok(writer)
    }

    /// Appends operations of `thread`, whole calls only; what the metadata say is left out of them, is.
    pub fn append(&mut self, thread: ThreadId, ops: &[Op]) -> Result<(), TstError> {
        let Some(windows) = &mut self.windows else { return self.append_filtered(thread, ops) };
        let mut inside = std::mem::take(&mut self.inside);
        inside.clear();
        windows.apply(thread, ops, &mut inside);
        let appended = self.append_filtered(thread, &inside);
        self.inside = inside;
        appended
    }

    /// The recording is to have no more than so many bytes: what is told of uses between windows is little
    /// against it.
    pub fn bound(&mut self, most_bytes: u64) {
        if let Some(windows) = &mut self.windows {
            windows.bound(most_bytes);
        }
    }

    fn append_filtered(&mut self, thread: ThreadId, ops: &[Op]) -> Result<(), TstError> {
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

    /// Adds a file that the program uses. Files are numbered in the order of the calls; those beyond the largest table have
    /// no entry in it.
    pub fn add_file(&mut self, file: &FileInfo) -> Result<FileId, TstError> {
        let text = serde_json::to_vec(&[file]).map_err(|e| self.unfit(e.to_string()))?;
        self.file_table_bytes = self.file_table_bytes.saturating_add(text.len());
        if self.file_table_bytes > MAX_FILE_TABLE_BYTES {
            // No later one has, so that numbers are places.
            self.file_table_bytes = usize::MAX;
            self.file_count += 1;
            return Ok(self.file_count - 1);
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
        // Sites, and what the filter or the end of a window has kept back, may make further ones.
        let filtered = self.filter.as_ref().map_or(0, Filter::threads);
        let with_rest = filtered.max(self.windows.as_ref().map_or(0, Windows::threads));
        let used = self.windows.as_ref().map_or(0, Windows::most_used_bytes);
        blocks += 1 + with_rest + used as usize / MAX_BLOCK_OPS;
        most += most_block_bytes(used as usize) + used / 256;
        most += most_block_bytes(self.pending_site_bytes);
        most += with_rest as u64 * most_block_bytes(192);
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

    /// Says that something of the program is not in the recording. Replays are partial for it.
    pub fn add_missing(&mut self, what: &str) {
        let what = bounded(what);
        if self.missing.contains(&what) {
            return;
        }
        if self.missing.len() < MOST_MISSING - 1 {
            self.missing.push(what)
        } else {
            self.more_missing += 1
        }
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
        let rest = self.windows.as_mut().map(Windows::rest).unwrap_or_default();
        for (thread, ops) in rest {
            self.append_filtered(thread, &ops)?;
        }
        let rest = self.filter.as_mut().map(Filter::rest).unwrap_or_default();
        for (thread, op) in rest {
            self.append_all(thread, &[op])?;
        }
        self.flush()?;
        let mut missing = std::mem::take(&mut self.missing);
        if self.more_missing > 0 {
            missing.push(format!("{} further parts of the program", self.more_missing));
        }
        let left_out = self.filter.as_ref().map(Filter::left_out).unwrap_or_default();
        let mut totals = TstTotals {
            threads: self.threads.len() as u64,
            operations: self.threads.values().map(|thread| thread.written_ops).sum(),
            ended: bounded(ended),
            cut,
            left_out_loads: left_out.loads,
            left_out_stores: left_out.stores,
            missing,
            skipped: self.windows.as_ref().map(skipped),
            ..TstTotals::default()
        };
        self.threads.values().for_each(|thread| totals.add(thread.encoder.counts()));
        let marks = self.threads.values().flat_map(|thread| thread.encoder.marks());
        totals.marks =
            Some(marks.copied().collect()).filter(|marks: &BTreeSet<_>| marks.len() < MOST_MARKS);
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
        bytes.extend_from_slice(&VERSION.to_le_bytes());
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

fn skipped(windows: &Windows) -> SkippedTotals {
    let Counts { loads, stores, instructions, .. } = windows.skipped();
    SkippedTotals { windows: windows.begun(), loads, stores, instructions }
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
