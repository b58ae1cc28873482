//! What is XFS's alone: a log of changes, and blocks that are allocated ahead.
//!
//! Changes of metadata are collected in memory, each piece once, and written together as a checkpoint (delayed
//! logging, Documentation/filesystems/xfs/xfs-delayed-logging-design.rst; fs/xfs/xfs_log_cil.c): not blocks, but what
//! of them has changed, in buffers of the log, which are written as they are full.

use super::layout::{PARTS, Piece, XFS_EXTENT_BYTES};
use super::*;

/// Bytes of a buffer of the log, and how many there are (`XLOG_BIG_RECORD_BSIZE`, `XLOG_MAX_ICLOGS`: the options
/// `logbsize` and `logbufs` as they are by default).
const BUFFER_BYTES: u64 = 32 << 10;
const BUFFERS: usize = 8;
/// Bytes of a record's head, of an operation's, of a transaction's, and of what describes an inode and a block
/// (`XLOG_HEADER_SIZE`, `xlog_op_header`, `xfs_trans_header`, `xfs_inode_log_format`, `xfs_buf_log_format` with a map
/// of one word), and of an inode's core (`xfs_log_dinode`).
const RECORD_BYTES: u64 = 512;
const OPERATION_BYTES: u64 = 12;
const TRANSACTION_BYTES: u64 = 16;
const INODE_FORMAT_BYTES: u64 = 56;
const BLOCK_FORMAT_BYTES: u64 = 24;
const CORE_BYTES: u64 = 176;
/// A checkpoint's start, its head, and its commit record (`xlog_cil_build_trans_hdr`, `xlog_cil_write_commit_record`).
const CHECKPOINT_BYTES: u64 = 3 * OPERATION_BYTES + TRANSACTION_BYTES;
/// Changes of so much are written though nobody asks, and of this share of the log (`XLOG_CIL_SPACE_LIMIT`).
const MOST_BYTES: u64 = 32 << 20;
const MOST_SHARE: u64 = 8;
/// Bytes of a file from which blocks are allocated behind its end, and so many at least (`XFS_WRITEIO_LOG_LARGE`: the
/// option `allocsize` as it is by default); pages of an extent at most (`XFS_MAX_BMBT_EXTLEN`).
const LEAST_AHEAD_BYTES: u64 = 64 << 10;
const LONGEST_EXTENT: u64 = (1 << 21) - 1;

/// Bytes of changes at which a checkpoint is written, of a log of so many.
pub(super) fn most_bytes(log_bytes: u64) -> u64 {
    (log_bytes / MOST_SHARE).min(MOST_BYTES)
}

/// Bytes in the log of a block of which these parts have changed (`xfs_buf_item_size`, fs/xfs/xfs_buf_item.c).
fn bytes_of_block(parts: u32, block_bytes: u64) -> u64 {
    let runs = u64::from((parts & !(parts << 1)).count_ones());
    let changed = u64::from(parts.count_ones()) * block_bytes / PARTS;
    OPERATION_BYTES + BLOCK_FORMAT_BYTES + runs * OPERATION_BYTES + changed
}

/// The same of an inode, with so many extents of its map, as far as it has them itself (`xfs_inode_item_size`, fs/xfs/xfs_inode_item.c).
fn bytes_of_inode(extents: Option<u64>) -> u64 {
    let core = 2 * OPERATION_BYTES + INODE_FORMAT_BYTES + CORE_BYTES;
    core + extents.map_or(0, |extents| OPERATION_BYTES + XFS_EXTENT_BYTES * extents.max(1))
}

/// Blocks of each of the log's buffers that a checkpoint with so many bytes of changes takes: the last is filled up to
/// a whole block (`xlog_calc_iclog_size`, of a device with sectors of a block's size).
pub fn buffers(block_bytes: u64, changed_bytes: u64) -> Vec<u64> {
    let buffer_bytes = BUFFER_BYTES.max(block_bytes);
    let room = buffer_bytes - RECORD_BYTES;
    let mut left = CHECKPOINT_BYTES + changed_bytes;
    let mut all = Vec::new();
    while left > 0 {
        let bytes = left.min(room);
        left -= bytes;
        all.push((RECORD_BYTES + bytes).div_ceil(block_bytes));
    }
    all
}

impl FileSystem {
    /// Whether it is.
    pub fn is_xfs(&self) -> bool {
        self.kind == FileSystemKind::Xfs
    }

    /// Whether a block is a file's only once it has been written: until then its extent is marked as unwritten
    /// (`xfs_bmapi_convert_one_delalloc`, `xfs_iomap_write_unwritten`).
    pub fn converts_written(&self) -> bool {
        self.is_xfs() && !self.weaknesses.has(Weakness::UnorderedData)
    }

    /// What the next checkpoint has of these pieces: all that has changed of each since it was written to its place,
    /// as the log item keeps it.
    pub(super) fn log_changes(&mut self, file: InodeId, pieces: &[Piece]) {
        let extents = self.files.get(&file).map_or(0, |metadata| metadata.extents);
        let extents = extents.min(self.layout.inline_extents());
        for piece in pieces {
            let (place, more) = match *piece {
                Piece::Block { place, parts } => (place, parts),
                Piece::Inode { place, map } => (place, u32::from(map)),
            };
            let changed = self.changed.entry(place).or_default();
            *changed |= more;
            let bytes = match piece {
                Piece::Block { .. } => bytes_of_block(*changed, self.page_bytes),
                Piece::Inode { .. } => bytes_of_inode((*changed != 0).then_some(extents)),
            };
            self.journal.log_change(place, bytes);
        }
    }

    /// Blocks with these places go to them: nothing of them has changed since.
    pub(super) fn forget_changed(&mut self, places: &[u64]) {
        for place in places {
            let range = *place..place + self.page_bytes;
            let within: Vec<u64> = self.changed.range(range).map(|(at, _)| *at).collect();
            for at in within {
                self.changed.remove(&at);
            }
        }
    }

    /// A file gets blocks in a row from a page and a place on, which are not written yet (`xfs_bmapi_write`,
    /// fs/xfs/libxfs/xfs_bmap.c).
    pub fn reserved(&mut self, file: InodeId, (index, place): (u64, u64), pages: u64, now_ps: u64) {
        let metadata = self.files.entry(file).or_default();
        if metadata.next != (index, place) || metadata.extents == 0 {
            metadata.extents += 1;
            metadata.extent_pages = 0;
        }
        metadata.extent_pages += pages;
        metadata.next = (index + pages, place + pages * self.page_bytes);
        let extents = metadata.extents;
        let last = place + (pages - 1) * self.page_bytes;
        let group_bytes = self.group_bytes();
        let groups: BTreeSet<u64> =
            (place / group_bytes..=last / group_bytes).map(|group| group * group_bytes).collect();
        let pieces = [self.layout.spaces(&groups), self.layout.mapped(file, extents, index)];
        self.change(file, &pieces.concat(), true, now_ps);
    }

    /// Blocks that were allocated behind the end of a file are given back (`xfs_free_eofblocks`,
    /// fs/xfs/xfs_bmap_util.c): these of its pages, within the groups of these places.
    pub fn given_back(&mut self, file: InodeId, pages: u64, places: &BTreeSet<u64>, now_ps: u64) {
        let metadata = self.files.entry(file).or_default();
        metadata.extent_pages = metadata.extent_pages.saturating_sub(pages);
        let mut pieces = self.layout.spaces(places);
        pieces.push(self.layout.inode(file, true));
        self.change(file, &pieces, false, now_ps);
    }

    /// Pages behind the end of a file that are allocated with those before them, from this page on
    /// (`xfs_iomap_prealloc_size`, fs/xfs/xfs_iomap.c): as many as twice the extent before, a power of two, where so
    /// many are free.
    pub fn pages_ahead(&self, file: InodeId, index: u64, free_pages: u64) -> u64 {
        let least = LEAST_AHEAD_BYTES.div_ceil(self.page_bytes);
        if index < least {
            return 0;
        }
        let metadata = self.files.get(&file);
        let before = metadata.filter(|it| it.next.0 == index).map_or(0, |it| it.extent_pages);
        let twice = if 2 * before > LONGEST_EXTENT { index } else { 2 * before };
        let mut pages = twice.checked_ilog2().map_or(0, |log| 1 << log).min(LONGEST_EXTENT);
        while pages >= free_pages.max(1) {
            pages >>= 4;
        }
        pages.max(least)
    }

    /// A page of a file has been written to the place that it had: the file's size is as large as this at least
    /// (`xfs_setfilesize`, fs/xfs/xfs_aops.c).
    pub fn sized(&mut self, file: InodeId, size_bytes: u64, now_ps: u64) {
        let metadata = self.files.entry(file).or_default();
        if metadata.exists && metadata.size_bytes < size_bytes {
            metadata.size_bytes = size_bytes;
            self.change(file, &[self.layout.inode(file, false)], true, now_ps);
        }
    }

    /// What the checkpoint that has begun does, in order (`xlog_cil_push_work`, fs/xfs/xfs_log_cil.c). Its first buffer
    /// is written behind a flush, so that metadata in its place is safe before the log's is overwritten, its last once all
    /// others are there and behind another, so that data and metadata are safe before what tells of them.
    pub(super) fn plan_checkpoint(&mut self, now_ps: u64) -> Result<(), OsError> {
        let Some(transaction) = self.journal.committing() else { return Ok(()) };
        let (number, blocks) = (transaction.number, transaction.blocks.clone());
        let sizes = buffers(self.page_bytes, transaction.bytes);
        self.move_tail(number);
        let total: u64 = sizes.iter().sum();
        let (all, free) = self.journal.room();
        if total >= all {
            return Err(OsError::JournalFull { capacity_bytes: (all + 1) * self.page_bytes });
        }
        let mut requests = Vec::new();
        let is_short = free <= total;
        if is_short {
            self.make_room(total + all / 4, &mut requests);
        }
        let mut log: Vec<Vec<u64>> = Vec::new();
        for blocks in sizes {
            log.push(self.journal.take_room(blocks));
        }
        self.note_checkpoint(number, &blocks, &log);
        let last = log.pop().unwrap_or_default();
        self.plan_buffers(log, &mut requests);
        let early = self.weaknesses.has(Weakness::EarlyCommit);
        requests.extend(early.then_some(Request::Finish));
        self.log_safely(last, &mut requests);
        requests.extend((!early).then_some(Request::Finish));
        for block in blocks {
            let since_ps = self.dirty.get(&block).map_or(now_ps, |dirty| dirty.since_ps);
            self.dirty.insert(block, DirtyBlock { since_ps, transaction: number, page: None });
        }
        if !is_short {
            self.make_room(all / 4, &mut requests);
        }
        self.journal.carry_out(requests);
        Ok(())
    }

    /// The log begins with the oldest checkpoint that has something which is not in its place yet, or else with this
    /// one (`xfs_ail_update_finish`, fs/xfs/xfs_trans_ail.c).
    fn move_tail(&mut self, next: u64) {
        if !self.under_way.is_empty() {
            return;
        }
        let transaction = self.dirty.values().map(|it| it.transaction).min().unwrap_or(next);
        if self.journal.free_before(transaction) {
            self.tail_moved = true;
            self.note(|| Note::Tail { transaction });
        }
    }

    /// All buffers of a checkpoint but its last, as many at once as there are. The first goes behind a flush, which
    /// others overtake, unless the log's tail has moved.
    fn plan_buffers(&mut self, log: Vec<Vec<u64>>, requests: &mut Vec<Request>) {
        let write = |blocks| Request::Log { blocks, forced: false };
        let moved = std::mem::take(&mut self.tail_moved);
        let mut log = log.into_iter();
        let Some(first) = log.next() else { return };
        let first = [self.flushes().then_some(Request::Flush), Some(write(first))];
        let mut first: Vec<Request> = first.into_iter().flatten().collect();
        if moved {
            requests.append(&mut first);
        }
        requests.extend(log.by_ref().take(BUFFERS - 1).map(write));
        requests.append(&mut first);
        requests.push(Request::AwaitLog);
        while let Some(next) = log.next() {
            requests.push(write(next));
            requests.extend(log.by_ref().take(BUFFERS - 1).map(write));
            requests.push(Request::AwaitLog);
        }
    }

    /// The whole checkpoint counts with its last block, which stands for its commit record.
    fn note_checkpoint(&mut self, transaction: u64, blocks: &BTreeSet<u64>, log: &[Vec<u64>]) {
        let layout = self.layout;
        self.note(|| {
            let mut all: Vec<u64> = log.iter().flatten().map(|block| layout.log(*block)).collect();
            let record = all.pop().unwrap_or_default();
            let others = all.into_iter().map(|place| (place, None));
            let held = blocks.iter().map(|place| (record, Some(*place)));
            let log = others.chain(held).collect();
            Note::Commit { transaction, log, data: Vec::new(), record }
        });
    }

    /// The log's own thread, every so often (`xfs_log_worker`, fs/xfs/xfs_log.c): the log is forced, and all metadata
    /// that it has goes to its place.
    pub(super) fn push_metadata(&mut self) {
        let places = self.take_all_metadata();
        if !places.is_empty() {
            self.journal.carry_out(vec![Request::Metadata(places)]);
        }
    }

    fn take_all_metadata(&mut self) -> Vec<u64> {
        let ready = self.dirty.iter().filter(|(_, it)| !self.journal.is_pending(it.transaction));
        let places: Vec<u64> = ready.map(|(place, _)| *place).collect();
        self.take_to_places(&places)
    }

    /// These blocks go to their places, each with what is written with it; which all are.
    pub(super) fn take_to_places(&mut self, places: &[u64]) -> Vec<u64> {
        let with: BTreeSet<u64> =
            places.iter().flat_map(|place| self.layout.written_with(*place)).collect();
        let journal = &self.journal;
        self.dirty.retain(|at, it| !with.contains(at) || journal.is_pending(it.transaction));
        let places: Vec<u64> = with.into_iter().collect();
        self.forget_changed(&places);
        places
    }
}

#[cfg(test)]
mod tests;
