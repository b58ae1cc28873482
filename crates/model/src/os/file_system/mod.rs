//! File systems: what creating, writing, syncing and deleting files costs beside their data.
//!
//! Not their formats, but the I/O and the order that these cause. An operation dirties blocks of metadata
//! ([`layout`] says which), which join a transaction; [`journal`] says when a transaction is written to the
//! log, and in what order with data and with flushes of the drive. [`crate::os::paging`] carries it out.
//!
//! [`names`] knows of directories, and [`cold`] of what is still to be read. Metadata in memory stays there.

pub mod cold;
pub mod journal;
pub mod layout;
pub mod names;
pub mod xfs;

use crate::os::InodeId;
use crate::os::paging::{FilePage, OsError, TransferId};
use crate::os::release::Release;
use crate::power::{Note, Weakness, Weaknesses};
use cold::Cold;
use journal::{Journal, Request};
use layout::{Layout, Piece};
pub use names::Replaced;
use names::{Directories, NameId, TOP};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tierscope_units::{Duration, Problems, Size};
use tierscope_workload::op::FileId;

/// A file system with a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSystemSpec {
    /// Which it is.
    pub kind: FileSystemKind,
    /// What the journal orders.
    pub journal: JournalMode,
    /// How long a transaction takes up changes before it is committed; 0 for until it is asked for.
    pub commit_interval: Duration,
    /// Size of the journal, a ring.
    pub journal_capacity: Size,
    /// How a commit makes sure of its order in a drive that buffers writes.
    pub barrier: Barrier,
    /// Time between two changes of the kernel's time stamps: a file that is written again within it is
    /// not changed but for its data.
    pub timestamp_interval: Duration,
    /// Whether the drive is told what a commit has freed (mount option `discard`, TRIM).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub discard: bool,
}

/// File systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FileSystemKind {
    /// Blocks are allocated when they are written back, in extents.
    Ext4,
    /// Blocks are allocated when a call writes them, one by one; a commit writes the data of all files that
    /// it concerns.
    Ext3,
    /// Blocks are allocated when they are written back, in extents and ahead of the file's end, and are the
    /// file's once they are written; the log has changes of metadata, not blocks.
    Xfs,
}

/// What a journal orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JournalMode {
    /// New blocks of files are written before the transaction commits that has them in their files.
    Ordered,
    /// Data and metadata have no order.
    Writeback,
    /// Data go through the log as metadata do, and to their places when that has been committed.
    Data,
}

/// How a commit makes sure of its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Barrier {
    /// A flush, and a commit record with force unit access.
    ForceUnitAccess,
    /// A flush before and one behind the commit record: of drives without force unit access.
    Flush,
    /// Not at all.
    None,
}

/// Directory entries lie in blocks of 4 KiB at least, the smallest page; the journal has a superblock, a
/// descriptor, a block and a record at least.
const LEAST_BLOCKS: u64 = 64;

impl FileSystemSpec {
    /// Collects every semantic mistake below `path`.
    pub fn check(&self, path: &str, problems: &mut Problems) {
        if self.kind == FileSystemKind::Xfs && self.journal != JournalMode::Ordered {
            problems.add(
                "contradiction",
                format!("{path}.journal"),
                match self.journal {
                    JournalMode::Data => "\"data\"".into(),
                    _ => "\"writeback\"".into(),
                },
                "XFS logs metadata alone, and a file has no blocks before they are written".into(),
                "write \"ordered\", or choose another kind".into(),
            );
        }
        for (name, time) in [
            ("commit_interval", self.commit_interval),
            ("timestamp_interval", self.timestamp_interval),
        ] {
            if time != Duration::default() {
                problems.at_least(path, name, time, Duration::from_picoseconds(1_000_000));
            }
        }
    }

    /// Bytes of a store of this capacity that it has for itself: journal, bitmaps, inodes.
    pub fn reserved_bytes(&self, page: Size, store: Size) -> u64 {
        let journal_blocks = self.journal_capacity.bytes() / page.bytes();
        Layout::new(self.kind, page.bytes(), store.bytes(), journal_blocks).reserved_bytes()
    }

    /// Collects every contradiction with pages of this size and a store of this capacity, below `path`.
    pub fn check_with(&self, path: &str, page: Size, store: Option<Size>, problems: &mut Problems) {
        let least = Size::from_bytes(LEAST_BLOCKS.saturating_mul(page.bytes()));
        problems.at_least(path, "journal_capacity", self.journal_capacity, least);
        if !self.journal_capacity.bytes().is_multiple_of(page.bytes().max(1)) {
            problems.add(
                "contradiction",
                format!("{path}.journal_capacity"),
                self.journal_capacity.to_string(),
                format!("it is not a whole number of pages (os.page) of {page}"),
                format!("write a multiple of {page}"),
            );
        }
        let Some(store) = store else { return };
        let most = store.bytes() / 4;
        if self.journal_capacity.bytes() > most {
            problems.add(
                "contradiction",
                format!("{path}.journal_capacity"),
                self.journal_capacity.to_string(),
                format!("a journal takes at most a quarter of the store's {store}"),
                format!("write {} or less", Size::from_bytes(most)),
            );
        }
    }
}

counters! {
    /// What a file system has done.
    pub struct FileSystemCounters {
        /// Transactions committed.
        pub journal_commits,
        /// Bytes written to the journal: descriptors, metadata, records, its superblock.
        pub journal_written_bytes,
        /// Bytes of metadata written to their places.
        pub metadata_written_bytes,
        /// Bytes of metadata read, which the store has had from the start.
        pub metadata_read_bytes,
        /// Times that room in the journal had to be made by writing metadata to their places.
        pub journal_checkpoints,
        /// Flushes of the drive.
        pub store_flushes,
    }
}

/// What the file system knows of a file.
#[derive(Clone, Debug, Default)]
struct FileMetadata {
    /// The name that it has, or had.
    name: FileId,
    /// It has a name.
    exists: bool,
    /// Its names, each with its directory.
    names: Vec<(InodeId, NameId)>,
    /// The transactions that last changed it, and what its data need (`i_sync_tid`, `i_datasync_tid`,
    /// fs/ext4/ext4.h).
    changed_by: u64,
    data_changed_by: u64,
    /// The size that its inode gets with its next change.
    size_bytes: u64,
    /// The time stamp of its last write, in intervals, plus 1.
    stamp: u64,
    /// Runs of blocks in a row, and the block behind the last that was allocated: index and place.
    extents: u64,
    next: (u64, u64),
    /// Pages of the last run, of XFS.
    extent_pages: u64,
    /// Pages in a row that it has had from the start.
    held_pages: u64,
}

/// A block of metadata that the journal has, and its place not yet.
#[derive(Clone, Copy, Debug)]
struct DirtyBlock {
    /// Since when.
    since_ps: u64,
    /// The last transaction that has it.
    transaction: u64,
    /// The page of a file that it is, where it is data.
    page: Option<FilePage>,
}

/// A file system's own state.
#[derive(Clone, Debug)]
pub struct FileSystem {
    kind: FileSystemKind,
    mode: JournalMode,
    /// What a commit does; nothing where the drive keeps what it has answered.
    barrier: Barrier,
    /// What has become free is discarded.
    discards: bool,
    page_bytes: u64,
    stamp_ps: u64,
    layout: Layout,
    /// Transactions and the log.
    pub journal: Journal,
    files: BTreeMap<InodeId, FileMetadata>,
    directories: Directories,
    dirty: BTreeMap<u64, DirtyBlock>,
    /// Of XFS, by place: what of a block or of an inode has changed since it was written there.
    changed: BTreeMap<u64, u32>,
    /// Of XFS: metadata has gone to its places since the last checkpoint, so that the log may begin later.
    tail_moved: bool,
    /// By place: the last transaction that had the page which the page cache is writing there.
    data_under_way: BTreeMap<u64, u64>,
    /// Transfers of metadata to their places.
    under_way: BTreeSet<TransferId>,
    /// A frame of the kernel that all blocks of metadata come from, and go to.
    frame: u64,
    /// What is not in memory; nothing where all is.
    cold: Option<Cold>,
    /// A commit writes and awaits what is new of a file, and no more of it: since 5.3 (`jbd2_journal_inode_ranged_write`,
    /// fs/jbd2/transaction.c).
    orders_ranges: bool,
    /// Counters for the result.
    pub counters: FileSystemCounters,
    /// What has happened and has not been told, where power may fail, and what is left out on purpose.
    notes: Option<Vec<Note>>,
    weaknesses: Weaknesses,
}

impl FileSystem {
    /// An empty file system of a checked description on a store of `store_bytes`, with `frame` for its
    /// metadata. `buffers` says that the drive buffers writes, so that flushes matter, and knows trims.
    pub fn new(
        spec: &FileSystemSpec,
        page_bytes: u64,
        store_bytes: u64,
        buffers: bool,
        frame: u64,
    ) -> Self {
        let journal_blocks = spec.journal_capacity.bytes() / page_bytes;
        let mut system = FileSystem {
            kind: spec.kind,
            mode: spec.journal,
            barrier: if buffers { spec.barrier } else { Barrier::None },
            discards: spec.discard && buffers,
            page_bytes,
            stamp_ps: spec.timestamp_interval.picoseconds().max(1),
            layout: Layout::new(spec.kind, page_bytes, store_bytes, journal_blocks),
            journal: Journal::new(
                journal_blocks,
                spec.commit_interval.picoseconds(),
                (spec.kind == FileSystemKind::Xfs)
                    .then(|| xfs::most_bytes(spec.journal_capacity.bytes())),
            ),
            files: BTreeMap::new(),
            directories: Directories::default(),
            dirty: BTreeMap::new(),
            changed: BTreeMap::new(),
            tail_moved: false,
            data_under_way: BTreeMap::new(),
            under_way: BTreeSet::new(),
            orders_ranges: true,
            frame,
            cold: None,
            counters: FileSystemCounters::default(),
            notes: None,
            weaknesses: Weaknesses::default(),
        };
        system.add_directory(TOP, true);
        system
    }

    /// It is as a release of Linux has it, before anything is in it; else as that of today.
    pub fn of_release(&mut self, release: Release) {
        self.layout.of_release(release);
        self.orders_ranges = release >= Release::V6_18;
    }

    /// What happens is told from now on, with nothing in it yet.
    pub fn follow(&mut self, weaknesses: Weaknesses) {
        self.weaknesses = weaknesses;
        let superblock = self.layout.log(Journal::SUPERBLOCK);
        self.notes = Some(vec![Note::Begun { superblock, tail_in_records: self.is_xfs() }]);
    }

    /// What has happened since the last call.
    pub fn take_notes(&mut self) -> Vec<Note> {
        self.notes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn note(&mut self, note: impl FnOnce() -> Note) {
        if let Some(notes) = &mut self.notes {
            notes.push(note());
        }
    }

    /// Bytes at the start of the store that files do not get.
    pub fn reserved_bytes(&self) -> u64 {
        self.layout.reserved_bytes()
    }

    /// The kernel's frame that metadata comes from.
    pub fn frame(&self) -> u64 {
        self.frame
    }

    /// Whether blocks get their places only when they are written back.
    pub fn delays_allocation(&self) -> bool {
        self.kind != FileSystemKind::Ext3 && !self.journals_data()
    }

    /// Whether the data of a file that takes the name of another are written at once (mount option `auto_da_alloc`, which is
    /// ext4's default).
    pub fn writes_replacing(&self) -> bool {
        self.kind == FileSystemKind::Ext4 && self.delays_allocation()
    }

    /// Whether new data of a file that is cut off to so many bytes are written when it is closed: of ext4 with
    /// `auto_da_alloc`, which is its default, where nothing is left of it, of XFS whatever is left (`XFS_ITRUNCATED`).
    pub fn writes_cut_off(&self, left_bytes: u64) -> bool {
        self.kind == FileSystemKind::Xfs || self.writes_replacing() && left_bytes == 0
    }

    /// Whether data go through the log.
    pub fn journals_data(&self) -> bool {
        self.mode == JournalMode::Data
    }

    /// Whether the drive is told what has become free.
    pub fn discards(&self) -> bool {
        self.discards
    }

    /// The place of a page becomes free with the running transaction (`ext4_mb_free_metadata`, fs/ext4/mballoc.c;
    /// `xfs_extent_busy_insert`, fs/xfs/xfs_extent_busy.c).
    pub fn frees(&mut self, page: FilePage, place: u64) {
        self.journal.free(page, place);
    }

    /// What a file has freed is not told any more: its pages change their places.
    pub fn keeps_freed(&mut self, file: InodeId) {
        self.journal.keep_freed(file);
    }

    /// Whether flushes reach the drive.
    pub fn flushes(&self) -> bool {
        self.barrier != Barrier::None
    }

    /// What the running transaction gets is the file's; `data` says that its data cannot be found
    /// without it.
    fn change(&mut self, file: InodeId, pieces: &[Piece], data: bool, now_ps: u64) {
        let blocks: Vec<u64> = pieces.iter().map(|piece| self.block_of(piece)).collect();
        self.need_to_change(&blocks);
        let number = self.journal.join(&blocks, now_ps);
        if self.is_xfs() {
            self.log_changes(file, pieces);
        }
        let metadata = self.files.entry(file).or_default();
        metadata.changed_by = number;
        if data {
            metadata.data_changed_by = number;
        }
        let &mut FileMetadata { name, exists, size_bytes, .. } = metadata;
        let inode = self.inode_block(file);
        let transaction = number;
        self.note(|| Note::Changed { file, name, transaction, exists, size_bytes, data, inode });
    }

    /// The block of a file's inode.
    fn inode_block(&self, file: InodeId) -> u64 {
        self.block_of(&self.layout.inode(file, false))
    }

    /// The block of a piece of metadata.
    fn block_of(&self, piece: &Piece) -> u64 {
        piece.place() / self.page_bytes * self.page_bytes
    }

    /// The store has had a file from the start, with a name in a directory: its pages lie here, so many in a row.
    pub fn held(
        &mut self,
        name: FileId,
        (file, parent): (InodeId, InodeId),
        pages: (u64, u64),
        size_bytes: u64,
    ) {
        let (named, pieces) = self.add_name(parent);
        let (names, held_pages) = (vec![(parent, named)], pages.1);
        let metadata = FileMetadata {
            name,
            exists: true,
            names,
            size_bytes,
            held_pages,
            ..FileMetadata::default()
        };
        self.files.insert(file, metadata);
        self.hold(file, &pieces, pages);
        let inode = self.inode_block(file);
        self.note(|| Note::Held { file, name, pages, size_bytes, inode });
    }

    /// What a file has that was there without it gets its place.
    pub fn holds(&mut self, file: InodeId, pages: (u64, u64), size_bytes: u64) {
        let inode = self.inode_block(file);
        let metadata = self.files.entry(file).or_default();
        (metadata.held_pages, metadata.size_bytes) = (pages.1, size_bytes);
        let name = metadata.name;
        self.hold(file, &[], pages);
        self.note(|| Note::Held { file, name, pages, size_bytes, inode });
    }

    /// The same of a directory.
    pub fn held_directory(&mut self, name: FileId, (directory, parent): (InodeId, InodeId)) {
        self.add_directory(directory, !self.is_xfs());
        self.held(name, (directory, parent), (0, 0), 0);
    }

    /// A file's next change makes it as large as this at least.
    pub fn grew(&mut self, file: InodeId, size_bytes: u64) {
        let metadata = self.files.entry(file).or_default();
        metadata.size_bytes = size_bytes.max(metadata.size_bytes);
    }

    /// A file is created: an inode, and a name for it in a directory.
    pub fn create(&mut self, name: FileId, (file, parent): (InodeId, InodeId), now_ps: u64) {
        self.add_file(name, (file, parent), Vec::new(), now_ps);
    }

    fn add_file(
        &mut self,
        name: FileId,
        (file, parent): (InodeId, InodeId),
        mut pieces: Vec<Piece>,
        now_ps: u64,
    ) {
        let (named, more) = self.add_name(parent);
        pieces.extend(more);
        pieces.extend(self.layout.use_of(file));
        let names = vec![(parent, named)];
        self.files
            .insert(file, FileMetadata { name, exists: true, names, ..FileMetadata::default() });
        self.change(file, &pieces, true, now_ps);
        self.changes_directories(file, &[parent]);
    }

    /// A file loses its name, and has so many pages: its inode is one of the orphans, which recovery removes
    /// (`ext4_unlink`, fs/ext4/namei.c).
    pub fn unlink(&mut self, file: InodeId, pages: u64, now_ps: u64) {
        let (parent, name) = self.name(file);
        let pieces = self.remove_name(parent, name);
        self.lose_name(Replaced { file, pages, goes: true }, parent, pieces, now_ps);
        self.changes_directories(file, &[parent]);
    }

    /// An inode without a name, which has been cut off, is removed (`ext4_free_inode`, fs/ext4/ialloc.c).
    pub fn remove(&mut self, file: InodeId, now_ps: u64) {
        let mut pieces = self.free_directory(file);
        pieces.extend(self.layout.removed(file));
        self.change(file, &pieces, true, now_ps);
        self.files.remove(&file);
    }

    /// A write call has ended; `grown` says that the file has become larger within its last block.
    pub fn wrote(&mut self, file: InodeId, grown: bool, now_ps: u64) {
        let stamp = now_ps / self.stamp_ps + 1;
        let metadata = self.files.entry(file).or_default();
        let stamped = std::mem::replace(&mut metadata.stamp, stamp) != stamp;
        if stamped || grown {
            self.change(file, &[self.layout.inode(file, false)], grown, now_ps);
        }
    }

    /// A block of a file gets its place, to which it has been written, or will be.
    pub fn allocated(
        &mut self,
        file: InodeId,
        (index, place): (u64, u64),
        written: bool,
        now_ps: u64,
    ) {
        let metadata = self.files.entry(file).or_default();
        if metadata.next != (index, place) || metadata.extents == 0 {
            metadata.extents += 1;
        }
        metadata.next = (index + 1, place + self.page_bytes);
        let extents = metadata.extents;
        let pieces = [self.layout.space(place), self.layout.mapped(file, extents, index)].concat();
        self.change(file, &pieces, true, now_ps);
        self.mapped(file, (index, place), written);
    }

    /// A page's place counts from the last change of the file on.
    fn mapped(&mut self, file: InodeId, (index, place): (u64, u64), written: bool) {
        let transaction = self.files.get(&file).map_or(0, |metadata| metadata.changed_by);
        self.note(|| Note::Mapped { file, index, place, written, transaction });
        if self.mode == JournalMode::Ordered {
            let pages = if self.orders_ranges { index..index + 1 } else { 0..u64::MAX };
            self.journal.order(file, pages);
        }
    }

    /// A block that was allocated without being written is written, and its extent is no longer marked as unwritten
    /// (`ext4_convert_unwritten_extents`, fs/ext4/extents.c).
    pub fn converted(
        &mut self,
        file: InodeId,
        (index, place): (u64, u64),
        written: bool,
        now_ps: u64,
    ) {
        let extents = self.files.entry(file).or_default().extents;
        self.change(file, &self.layout.mapped(file, extents, index), true, now_ps);
        self.mapped(file, (index, place), written);
    }

    /// A file gets blocks that are not written, in so many further extents and within the groups of these places; its
    /// size is this now (`ext4_fallocate`, fs/ext4/extents.c).
    pub fn preallocated(
        &mut self,
        file: InodeId,
        size_bytes: u64,
        extents: u64,
        places: &BTreeSet<u64>,
        now_ps: u64,
    ) {
        let metadata = self.files.entry(file).or_default();
        metadata.size_bytes = size_bytes;
        metadata.extents += extents;
        let all = metadata.extents;
        let mut pieces = vec![self.layout.inode(file, true)];
        pieces.extend(self.layout.spaces(places));
        let runs = all - extents + 1..=all;
        pieces.extend(runs.filter_map(|nth| self.layout.map_block(file, nth, 0)));
        self.change(file, &pieces, true, now_ps);
    }

    /// A file is cut off at so many bytes: these of its pages go, and the blocks with these places are free.
    pub fn freed(
        &mut self,
        file: InodeId,
        size_bytes: u64,
        pages: Range<u64>,
        places: &BTreeSet<u64>,
        now_ps: u64,
    ) {
        self.files.entry(file).or_default().size_bytes = size_bytes;
        let mut pieces = vec![self.layout.inode(file, true)];
        // XFS logs what it means to free, and that it has, which leave nothing (`xfs_extent_free_create_intent`).
        if !places.is_empty() && !self.is_xfs() {
            pieces.push(self.layout.orphans(file));
        }
        pieces.extend(self.layout.spaces(places));
        self.change(file, &pieces, true, now_ps);
        let transaction = self.files.get(&file).map_or(0, |metadata| metadata.changed_by);
        self.note(|| Note::Cut { file, pages, transaction });
    }

    /// Data of a page with this place have changed, which go through the log: the running transaction takes them up, and
    /// a sync waits for it (`ext4_journalled_write_end`, fs/ext4/inode.c).
    pub fn changed_data(&mut self, page: FilePage, place: u64, now_ps: u64) {
        let number = self.journal.join_data(page, place, now_ps);
        let metadata = self.files.entry(page.0).or_default();
        (metadata.changed_by, metadata.data_changed_by) = (number, number);
    }

    /// The transaction that has data of this place and is not committed: until then they do not go there.
    pub fn uncommitted(&self, place: u64) -> Option<u64> {
        self.journal.with_data(place)
    }

    /// A page that goes through the log is cut off: the running transaction does without it
    /// (`jbd2_journal_invalidate_folio`, fs/jbd2/transaction.c).
    pub fn cut_off_data(&mut self, place: u64) {
        self.journal.leave_data(place);
    }

    /// The page cache begins to write committed data to their place.
    pub fn begin_data(&mut self, place: u64) {
        if let Some(dirty) = self.dirty.get(&place) {
            self.data_under_way.insert(place, dirty.transaction);
        }
    }

    /// They are there: the log needs them no more, unless they have been committed anew meanwhile.
    pub fn end_data(&mut self, place: u64) {
        let Some(transaction) = self.data_under_way.remove(&place) else { return };
        if self.dirty.get(&place).is_some_and(|dirty| dirty.transaction == transaction) {
            self.dirty.remove(&place);
        }
    }

    /// Writing data to their places has begun a transaction that need not take up anything (`ext4_do_writepages`,
    /// fs/ext4/inode.c; that it commits as a record alone was observed).
    pub fn begin_empty(&mut self, now_ps: u64) {
        self.journal.join(&[], now_ps);
    }

    /// Whether a transaction has so much that no more data join it: whoever wants to waits until it is committed
    /// (`add_transaction_credits`, fs/jbd2/transaction.c).
    pub fn is_full(&self) -> Option<u64> {
        self.journal.full().filter(|_| self.journals_data())
    }

    /// Bytes of the store that one bitmap, or one allocation group, tells of.
    pub fn group_bytes(&self) -> u64 {
        self.layout.group_bytes()
    }

    /// The transaction that a sync of the file has to wait for, where it is not committed.
    pub fn needs(&self, file: InodeId, data_only: bool) -> Option<u64> {
        let metadata = self.files.get(&file)?;
        let number = if data_only { metadata.data_changed_by } else { metadata.changed_by };
        self.journal.is_pending(number).then_some(number)
    }

    /// The next thing that the journal's thread does; nothing once it may sleep.
    pub fn next_request(&mut self, now_ps: u64) -> Result<Option<Request>, OsError> {
        if !self.journal.has_plan() && self.journal.begin_commit() {
            match self.kind {
                FileSystemKind::Xfs => self.plan_checkpoint(now_ps)?,
                _ => self.plan(now_ps)?,
            }
        }
        Ok(self.journal.next_request())
    }

    /// What the commit that has begun does, in order (`jbd2_journal_commit_transaction`, fs/jbd2/commit.c).
    fn plan(&mut self, now_ps: u64) -> Result<(), OsError> {
        let Some(transaction) = self.journal.committing() else { return Ok(()) };
        let (number, blocks) = (transaction.number, transaction.blocks.clone());
        let revoked = journal::revoke_blocks(self.page_bytes, transaction.revoked.len() as u64);
        let files: Vec<(InodeId, Range<u64>)> =
            transaction.files.iter().map(|(file, pages)| (*file, pages.clone())).collect();
        let mut requests = Vec::new();
        let waits = !self.weaknesses.has(Weakness::UnorderedData);
        if waits && !self.delays_allocation() {
            let written = files.iter().cloned();
            requests.extend(written.map(|(file, pages)| Request::WriteData(file, pages)));
        }
        // One that nothing has joined is a record alone.
        let before_record = match blocks.len() as u64 {
            0 => 0,
            count => revoked + journal::log_blocks(self.page_bytes, count) - 1,
        };
        let data = transaction.data.clone();
        let (all, free) = self.journal.room();
        if before_record >= all {
            return Err(OsError::JournalFull { capacity_bytes: (all + 1) * self.page_bytes });
        }
        // What ran while others were committed may have become larger than a quarter.
        let is_short = free <= before_record;
        if is_short {
            self.make_room(before_record + 1 + all / 4, &mut requests);
        }
        let log = self.journal.take_room(before_record);
        let record = self.journal.take_room(1);
        self.note_commit((number, &data), &blocks, &log, &record);
        if before_record > 0 {
            requests.push(Request::Log { blocks: log, forced: false });
        }
        let early = self.weaknesses.has(Weakness::EarlyCommit);
        requests.extend(early.then_some(Request::Finish));
        let awaited = files.into_iter().filter(|_| waits);
        requests.extend(awaited.map(|(file, pages)| Request::AwaitData(file, pages)));
        requests.push(Request::AwaitLog);
        self.log_safely(record, &mut requests);
        requests.extend((!early).then_some(Request::Finish));
        for block in blocks {
            let since_ps = self.dirty.get(&block).map_or(now_ps, |dirty| dirty.since_ps);
            let page = data.get(&block).copied();
            self.dirty.insert(block, DirtyBlock { since_ps, transaction: number, page });
        }
        if !is_short {
            self.make_room(all / 4, &mut requests);
        }
        self.journal.carry_out(requests);
        Ok(())
    }

    fn note_commit(
        &mut self,
        (transaction, data): (u64, &BTreeMap<u64, FilePage>),
        blocks: &BTreeSet<u64>,
        log: &[u64],
        record: &[u64],
    ) {
        let (layout, page_bytes) = (self.layout, self.page_bytes);
        self.note(|| {
            let blocks: Vec<u64> = blocks.iter().copied().collect();
            let parts = journal::log_parts(page_bytes, &blocks);
            let revoked = log.len().saturating_sub(parts.len());
            let parts = std::iter::repeat_n(None, revoked).chain(parts);
            let log = log.iter().map(|block| layout.log(*block)).zip(parts).collect();
            let data = data.iter().map(|(place, page)| (*place, *page)).collect();
            Note::Commit { transaction, log, data, record: layout.log(record[0]) }
        });
    }

    /// The transaction that was being committed is.
    pub fn finish(&mut self) -> Option<journal::Transaction> {
        let done = self.journal.finish()?;
        self.counters.journal_commits += 1;
        self.note(|| Note::Finished { transaction: done.number });
        Some(done)
    }

    /// Writes to the log what all before it has to precede, and it all that follows.
    fn log_safely(&self, blocks: Vec<u64>, requests: &mut Vec<Request>) {
        let forced = self.barrier == Barrier::ForceUnitAccess;
        if self.flushes() {
            requests.push(Request::Flush);
        }
        requests.extend([Request::Log { blocks, forced }, Request::AwaitLog]);
        if self.barrier == Barrier::Flush {
            requests.push(Request::Flush);
        }
    }

    /// Where the log is short of room, the metadata of its oldest transactions goes to its places, and the
    /// log's superblock tells that it begins later (`jbd2_log_do_checkpoint`, `jbd2_cleanup_journal_tail`,
    /// fs/jbd2/checkpoint.c): the kernel has whoever wants the room do so.
    fn make_room(&mut self, room: u64, requests: &mut Vec<Request>) {
        let Some(last) = self.journal.free_oldest(room) else { return };
        let old = self.dirty.iter().filter(|(_, dirty)| dirty.transaction <= last);
        let old: Vec<(u64, Option<FilePage>)> =
            old.map(|(place, dirty)| (*place, dirty.page)).collect();
        let is_old = |place: &u64| old.binary_search_by_key(place, |(old, _)| *old).is_ok();
        self.dirty.retain(|place, _| !is_old(place));
        self.counters.journal_checkpoints += 1;
        let metadata = old.iter().filter(|(_, page)| page.is_none());
        let mut places: Vec<u64> = metadata.map(|(place, _)| *place).collect();
        if self.is_xfs() {
            places = self.take_to_places(&places);
            self.tail_moved = true;
        }
        let data: Vec<_> =
            old.iter().filter_map(|(place, page)| Some((*place, (*page)?))).collect();
        if !data.is_empty() {
            requests.push(Request::Data(data));
        }
        // Those that the flusher writes have to be there, too.
        requests.extend([Request::Metadata(places), Request::AwaitMetadata]);
        self.note(|| Note::Tail { transaction: last + 1 });
        // Of XFS the next record says so (`h_tail_lsn`).
        if !self.is_xfs() {
            self.log_safely(vec![Journal::SUPERBLOCK], requests);
        }
    }

    /// Metadata that has been dirty since `due_ps` or longer, some of it, to be written to its places. Data the page
    /// cache writes.
    pub fn take_old(&mut self, due_ps: u64, most: usize) -> Vec<u64> {
        // XFS has a thread of its own for that.
        if self.is_xfs() {
            return Vec::new();
        }
        let is_due = |dirty: &DirtyBlock| {
            let is_metadata = dirty.page.is_none();
            is_metadata && dirty.since_ps <= due_ps && !self.journal.is_pending(dirty.transaction)
        };
        let old = self.dirty.iter().filter(|(_, dirty)| is_due(dirty));
        let places: Vec<u64> = old.map(|(place, _)| *place).take(most).collect();
        self.dirty.retain(|place, _| places.binary_search(place).is_err());
        places
    }

    /// Whether any metadata waits to be written to its place, and since when the oldest.
    pub fn dirty_since_ps(&self) -> Option<u64> {
        if self.is_xfs() {
            return None;
        }
        let metadata = self.dirty.values().filter(|dirty| dirty.page.is_none());
        metadata.map(|dirty| dirty.since_ps).min()
    }

    /// When the running transaction, or what is to go to its place, is to be looked at for its age, where nobody has
    /// ordered that yet.
    pub fn order_look(&mut self) -> Option<u64> {
        let has_metadata = self.is_xfs() && !self.dirty.is_empty();
        self.journal.order_look(has_metadata)
    }

    /// The time of such a look has come.
    pub fn look(&mut self, now_ps: u64) {
        self.journal.look(now_ps);
        if self.is_xfs() {
            self.push_metadata();
        }
    }

    /// The place of a block of the log.
    pub fn log_place(&self, block: u64) -> u64 {
        self.layout.log(block)
    }

    /// A transfer of metadata to its places begins.
    pub fn begin_metadata(&mut self, id: TransferId, blocks: u64) {
        self.under_way.insert(id);
        self.counters.metadata_written_bytes += blocks * self.page_bytes;
    }

    /// A transfer of data to their places has to have ended before the log may forget them.
    pub fn await_data(&mut self, id: TransferId) {
        self.under_way.insert(id);
    }

    /// One of them.
    pub fn metadata_under_way(&self) -> Option<TransferId> {
        self.under_way.first().copied()
    }

    /// A transfer to the log begins.
    pub fn begin_log(&mut self, id: TransferId, blocks: u64) {
        self.journal.log.insert(id);
        self.counters.journal_written_bytes += blocks * self.page_bytes;
    }

    /// A transfer of the file system's has ended.
    pub fn ended(&mut self, id: TransferId) {
        self.under_way.remove(&id);
        self.journal.log.remove(&id);
    }
}

#[cfg(test)]
mod tests;
