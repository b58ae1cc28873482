//! What a file system has on its store, block by block and transaction by transaction, what recovery makes of it,
//! and what syncs have promised.
//!
//! The operating system tells what it does to files ([`Note`]) and what each block that goes to the store holds; the
//! organization tells which of these blocks the store holds after a failure of power. Blocks are named by the
//! number of the write that brought them ([`Content`]); the state of a page, of a file's inode, and of a block of
//! metadata by versions, of which a higher one is newer.

use super::{ALIEN, Content, LOST, STALE, Touched};
use crate::os::InodeId;
use std::ops::Range;
use std::sync::Arc;
use tierscope_kernel::CowMap;
use tierscope_workload::FileInfo;
use tierscope_workload::op::FileId;

/// What happens to files and to the journal, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The place of the journal's superblock, which says with which transaction the log begins.
    Begun {
        /// Its place.
        superblock: u64,
        /// Each record says it, too, as the superblock does only behind a recovery.
        tail_in_records: bool,
    },
    /// The store has had a file from the start.
    Held {
        /// The file.
        file: InodeId,
        /// Its name.
        name: FileId,
        /// Where its pages lie in a row, and how many.
        pages: (u64, u64),
        /// Its size.
        size_bytes: u64,
        /// The place of its inode.
        inode: u64,
    },
    /// A transaction takes up a change of a file.
    Changed {
        /// The file.
        file: InodeId,
        /// The name that it has, or had.
        name: FileId,
        /// The transaction.
        transaction: u64,
        /// Whether there is such a file behind it.
        exists: bool,
        /// Its size behind it.
        size_bytes: u64,
        /// Data cannot be found without it.
        data: bool,
        /// The place of its inode.
        inode: u64,
    },
    /// A page of a file gets a place in a transaction.
    Mapped {
        /// The file.
        file: InodeId,
        /// The page.
        index: u64,
        /// Its place.
        place: u64,
        /// It has been written there before, as what a direct call writes; else it may be written from now on.
        written: bool,
        /// The transaction.
        transaction: u64,
    },
    /// Pages of a file are cut off in a transaction.
    Cut {
        /// The file.
        file: InodeId,
        /// The pages.
        pages: Range<u64>,
        /// The transaction.
        transaction: u64,
    },
    /// The last changes of two files belong together: one has taken the name of the other.
    Renamed {
        /// Which has it.
        file: InodeId,
        /// Whose it was.
        replaced: InodeId,
    },
    /// A transaction begins to be committed.
    Commit {
        /// The transaction.
        transaction: u64,
        /// Places of blocks of the log, each with the place that its block belongs to, or a descriptor. The record may have
        /// blocks, too, any number of them.
        log: Vec<(u64, Option<u64>)>,
        /// Places of these that are data, each with its file and page.
        data: Vec<(u64, (InodeId, u64))>,
        /// The place of its record.
        record: u64,
    },
    /// It is committed.
    Finished {
        /// The transaction.
        transaction: u64,
    },
    /// The journal's superblock is about to say that the log begins with a transaction.
    Tail {
        /// The transaction.
        transaction: u64,
    },
}

/// What a write brings to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// Nothing that a file system knows.
    Nothing,
    /// A page of a file in this version.
    Data { page: u64, version: u64 },
    /// A block of the log: the part of a transaction with this number.
    Log(u64),
    /// The record of a transaction.
    Record(u64),
    /// The log begins with this transaction.
    Tail(u64),
    /// A block of metadata at its place, as the part with this number has it.
    Image(u64),
}

/// A change of a file, and the number of the one before it.
#[derive(Clone, Copy, Debug, Default)]
struct Change {
    file: InodeId,
    name: FileId,
    before: u64,
    transaction: u64,
    exists: bool,
    size_bytes: u64,
    data: bool,
    inode: u64,
}

/// A page's place, or none, and the number of the one before it.
#[derive(Clone, Copy, Debug, Default)]
struct Mapping {
    before: u64,
    transaction: u64,
    place: Option<u64>,
    /// The first write after it was given.
    since: Content,
}

/// A block of a transaction in the log, and the number of the last before it that has the same place.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    transaction: u64,
    address: u64,
    place: Option<u64>,
    before: u64,
    /// The page of a file that it is, plus 1, where it is data; and its version, once it is written.
    page: u64,
    version: u64,
}

/// A transaction in the log; the record of one that there is not lies nowhere.
#[derive(Clone, Copy, Debug, Default)]
struct Commit {
    first: u64,
    parts: u64,
    record: u64,
    /// Where the log begins, as the record says.
    tail: u64,
}

/// A line that a transaction concerns, and the number of the one before it.
#[derive(Clone, Copy, Debug, Default)]
struct Concerned {
    line: u64,
    before: u64,
}

/// Versions of inodes, and of blocks of metadata: numbers of changes and of parts.
const OF_INODE: u64 = 1 << 62;
const OF_METADATA: u64 = 1 << 61;
pub(super) const NUMBER: u64 = OF_METADATA - 1;
/// Bits of a page's number that tell its place in its file.
const INDEX_BITS: u32 = 36;

fn page_of(file: InodeId, index: u64) -> u64 {
    u64::from(file) << INDEX_BITS | index
}

/// What a recovery does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replay {
    /// Blocks that it reads, one behind the other.
    pub reads: Vec<u64>,
    /// Blocks that it writes to their places.
    pub writes: Vec<(u64, Content)>,
    /// What the log's superblock says then: where, and that all has its place.
    pub superblock: (u64, Content),
    /// Transactions that are carried out again.
    pub transactions: u64,
}

/// See the module.
///
/// Which lines a judge has to look at anew is told with respect to the outcome that a failure would have if all that
/// the store has answered were there, and metadata as of the last transaction that is committed.
#[derive(Debug)]
pub struct Files {
    page_bytes: u64,
    /// There is no file system: sizes and places of files are known whatever happens.
    raw: bool,
    /// The first of the lines of inodes.
    inodes: u64,
    ordered: bool,
    superblock: u64,
    tail_in_records: bool,
    /// The last transaction that has begun to be committed.
    begun: u64,
    writes: CowMap<Meaning>,
    next: Content,
    changes: CowMap<Change>,
    last_change: u64,
    change_of: CowMap<u64>,
    /// Of each file: by which change it took the name of another last, and that, and by which change the other lost it.
    renamed: CowMap<(u64, InodeId, u64)>,
    mappings: CowMap<Mapping>,
    last_mapping: u64,
    mapping_of: CowMap<u64>,
    /// Of each file, where pages lie that the store has had from the start, and how many.
    held: CowMap<(u64, u64)>,
    /// By place: the page that was mapped there last, plus 1.
    mapped: CowMap<u64>,
    /// By place: the number of the newest write of a page of a file.
    newest_write: CowMap<Content>,
    /// By place: the page that has been written there, plus 1.
    pages: CowMap<u64>,
    commits: CowMap<Commit>,
    parts: CowMap<Part>,
    last_part: u64,
    part_of: CowMap<u64>,
    /// By place: what a block of the log is to hold.
    log: CowMap<Meaning>,
    tail: u64,
    finished: u64,
    /// The last transaction that recovery has found; before that, the last one that is committed.
    last: u64,
    committing: bool,
    /// By transaction: the last line that it concerns, as a number of `concerned`.
    concern_of: CowMap<u64>,
    concerned: CowMap<Concerned>,
    last_concern: u64,
    /// The newest transaction that anything has been noted of.
    newest: u64,
    /// Places that the failure has left otherwise than the store had answered.
    looked_at: Vec<u64>,
    /// Syncs that have made a promise.
    syncs: u64,
    /// What the workload calls its files, by their numbers.
    names: Arc<Vec<FileInfo>>,
    promised: CowMap<u64>,
    written: CowMap<u64>,
    /// By version of a page: its line, plus 1.
    lines: CowMap<u64>,
    touched: Touched,
    /// By place: what a read finds.
    seen: CowMap<Content>,
    copies: Copies,
}

/// Blocks that a processor copies to a store in memory, line by line, through its caches.
#[derive(Debug)]
struct Copies {
    /// By write: the version before all that it has brought to its lines, and the write before it that was copied there.
    copied: CowMap<(u64, Content)>,
    /// By place: the newest of these.
    newest: CowMap<Content>,
    /// By line of the store: which of them has come to memory.
    lines: CowMap<Content>,
}

impl Copies {
    fn new() -> Self {
        Copies { copied: CowMap::new((0, 0)), newest: CowMap::new(0), lines: CowMap::new(0) }
    }

    fn fork(&mut self) -> Self {
        Copies { copied: self.copied.fork(), newest: self.newest.fork(), lines: self.lines.fork() }
    }
}

/// What a block counts as of whose parts some may be of one write, and some of another: the oldest of them, and lost
/// where one of them is.
pub(crate) fn oldest(mut parts: impl Iterator<Item = Content>) -> Content {
    let older = |one: Content, other: Content| {
        if one == LOST || other == LOST { LOST } else { one.min(other) }
    };
    let first = parts.next().unwrap_or(0);
    parts.fold(first, older)
}

impl Files {
    /// Of a file system with blocks of this size that nothing has happened to. `ordered` says that no file
    /// may show what its blocks held before they were its.
    pub(crate) fn new(page_bytes: u64, ordered: bool) -> Self {
        let mut files = Files {
            page_bytes,
            raw: false,
            inodes: 1 << (62 - page_bytes.ilog2()),
            ordered,
            superblock: 0,
            tail_in_records: false,
            begun: 0,
            writes: CowMap::new(Meaning::Nothing),
            next: 1,
            changes: CowMap::new(Change::default()),
            last_change: 0,
            change_of: CowMap::new(0),
            renamed: CowMap::new((0, 0, 0)),
            mappings: CowMap::new(Mapping::default()),
            last_mapping: 0,
            mapping_of: CowMap::new(0),
            mapped: CowMap::new(0),
            newest_write: CowMap::new(0),
            held: CowMap::new((0, 0)),
            pages: CowMap::new(0),
            commits: CowMap::new(Commit::default()),
            parts: CowMap::new(Part::default()),
            last_part: 0,
            part_of: CowMap::new(0),
            log: CowMap::new(Meaning::Nothing),
            tail: 1,
            finished: 0,
            last: 0,
            committing: false,
            concern_of: CowMap::new(0),
            concerned: CowMap::new(Concerned::default()),
            last_concern: 0,
            newest: 0,
            looked_at: Vec::new(),
            syncs: 0,
            names: Arc::default(),
            promised: CowMap::new(0),
            written: CowMap::new(0),
            lines: CowMap::new(0),
            touched: Touched::default(),
            seen: CowMap::new(0),
            copies: Copies::new(),
        };
        files.touched.begin();
        files
    }

    /// Of a store without a file system: whose a page is, is known whatever happens.
    pub(crate) fn raw(page_bytes: u64) -> Self {
        Files { raw: true, ..Files::new(page_bytes, false) }
    }

    /// Whether there is no file system.
    pub(crate) fn is_raw(&self) -> bool {
        self.raw
    }

    pub(crate) fn fork(&mut self) -> Self {
        Files {
            concern_of: self.concern_of.fork(),
            concerned: self.concerned.fork(),
            looked_at: self.looked_at.clone(),
            writes: self.writes.fork(),
            changes: self.changes.fork(),
            change_of: self.change_of.fork(),
            renamed: self.renamed.fork(),
            mappings: self.mappings.fork(),
            mapping_of: self.mapping_of.fork(),
            mapped: self.mapped.fork(),
            newest_write: self.newest_write.fork(),
            held: self.held.fork(),
            pages: self.pages.fork(),
            commits: self.commits.fork(),
            parts: self.parts.fork(),
            part_of: self.part_of.fork(),
            log: self.log.fork(),
            promised: self.promised.fork(),
            written: self.written.fork(),
            lines: self.lines.fork(),
            touched: self.touched.clone(),
            seen: self.seen.fork(),
            copies: self.copies.fork(),
            names: Arc::clone(&self.names),
            ..*self
        }
    }

    // ---- What happens -------------------------------------------------------------------------

    /// Something happens.
    pub fn note(&mut self, note: Note) {
        match note {
            Note::Begun { superblock, tail_in_records } => {
                (self.superblock, self.tail_in_records) = (superblock, tail_in_records);
            }
            Note::Held { file, name, pages, size_bytes, inode } => {
                self.held.set(file.into(), pages);
                let exists = true;
                self.change(Change { file, name, exists, size_bytes, inode, ..Change::default() });
            }
            Note::Changed { file, name, transaction, exists, size_bytes, data, inode } => {
                self.change(Change {
                    file,
                    name,
                    transaction,
                    exists,
                    size_bytes,
                    data,
                    inode,
                    before: 0,
                });
            }
            Note::Mapped { file, index, place, written, transaction } => {
                let newest = self.newest_write.get(place / self.page_bytes);
                let since = if written { newest } else { self.next };
                self.map(page_of(file, index), transaction, Some(place), since);
            }
            Note::Cut { file, pages, transaction } => self.cut_off(file, pages, transaction),
            Note::Renamed { file, replaced } => {
                let [took, lost] = [file, replaced].map(|file| self.change_of.get(file.into()));
                self.renamed.set(file.into(), (took, replaced, lost));
            }
            Note::Commit { transaction, log, data, record } => {
                self.commit(transaction, &log, &data, record);
            }
            Note::Finished { transaction } => {
                let before = std::mem::replace(&mut self.finished, transaction);
                (self.last, self.committing) = (transaction, false);
                self.expect_metadata(before, transaction);
                self.promise_logged(transaction);
            }
            Note::Tail { transaction } => self.tail = transaction,
        }
    }

    fn change(&mut self, change: Change) {
        self.last_change += 1;
        let before = self.change_of.get(change.file.into());
        self.changes.set(self.last_change, Change { before, ..change });
        self.change_of.set(change.file.into(), self.last_change);
        let line = self.inodes + u64::from(change.file);
        self.concern(change.transaction, line);
        self.concern_pages(&change, before);
        self.set_written(line, OF_INODE | self.last_change);
        if !change.exists {
            self.promised.set(line, 0);
        }
    }

    /// What is found of a line depends on whether recovery finds a transaction.
    fn concern(&mut self, transaction: u64, line: u64) {
        self.last_concern += 1;
        self.newest = self.newest.max(transaction);
        let before = std::mem::replace(self.concern_of.get_mut(transaction), self.last_concern);
        self.concerned.set(self.last_concern, Concerned { line, before });
    }

    /// The same of the pages that a file shows before a change and not behind it, or the other way round.
    fn concern_pages(&mut self, change: &Change, before: u64) {
        let Change { exists, size_bytes: had_bytes, .. } = self.changes.get(before);
        let (least, most) = (had_bytes.min(change.size_bytes), had_bytes.max(change.size_bytes));
        // What the store has had from the start is there whatever recovery finds.
        let most = if change.transaction == 0 { 0 } else { most };
        let least = if exists == change.exists { least } else { 0 };
        for index in least / self.page_bytes..most.div_ceil(self.page_bytes) {
            let mapping = self.mapping(page_of(change.file, index), u64::MAX);
            if let Some(place) = mapping.and_then(|mapping| mapping.place) {
                self.concern(change.transaction, place / self.page_bytes);
            }
        }
    }

    /// A page has a place, or none any more; what is written there from `since` on is the page's.
    fn map(&mut self, page: u64, transaction: u64, place: Option<u64>, since: Content) {
        self.last_mapping += 1;
        let before = self.mapping_of.get(page);
        let was = self.mapping(page, u64::MAX).and_then(|mapping| mapping.place);
        for place in was.into_iter().chain(place) {
            self.concern(transaction, place / self.page_bytes);
        }
        if let Some(place) = place {
            self.mapped.set(place / self.page_bytes, page + 1);
        }
        self.mappings.set(self.last_mapping, Mapping { before, transaction, place, since });
        self.mapping_of.set(page, self.last_mapping);
    }

    fn cut_off(&mut self, file: InodeId, pages: Range<u64>, transaction: u64) {
        for index in pages {
            let page = page_of(file, index);
            let Some(Mapping { place: Some(place), .. }) = self.mapping(page, u64::MAX) else {
                continue;
            };
            // It may be on its way there still.
            self.mapped.set(place / self.page_bytes, page + 1);
            self.map(page, transaction, None, self.next);
            self.promised.set(place / self.page_bytes, 0);
            self.touched.add(place / self.page_bytes, 1);
        }
    }

    fn commit(
        &mut self,
        transaction: u64,
        log: &[(u64, Option<u64>)],
        data: &[(u64, (InodeId, u64))],
        record: u64,
    ) {
        let first = self.last_part + 1;
        for &(address, place) in log {
            self.last_part += 1;
            let (mut before, mut page) = (0, 0);
            if let Some(place) = place {
                let line = place / self.page_bytes;
                before = std::mem::replace(self.part_of.get_mut(line), self.last_part);
                self.concern(transaction, line);
                match data.binary_search_by_key(&place, |(place, _)| *place) {
                    Ok(at) => page = page_of(data[at].1.0, data[at].1.1) + 1,
                    Err(_) => self.set_written(line, OF_METADATA | self.last_part),
                }
            }
            let part = Part { transaction, address, place, before, page, version: 0 };
            self.parts.set(self.last_part, part);
            self.log.set(address / self.page_bytes, Meaning::Log(self.last_part));
        }
        self.log.set(record / self.page_bytes, Meaning::Record(transaction));
        let (parts, tail) = (log.len() as u64, self.tail);
        self.commits.set(transaction, Commit { first, parts, record, tail });
        self.begun = transaction;
        self.committing = true;
    }

    fn set_written(&mut self, line: u64, version: u64) {
        let newest = self.written.get_mut(line);
        *newest = version.max(*newest);
        self.touched.add(line, 1);
    }

    /// Whether a transaction is between its first block and the end of its record.
    pub(crate) fn is_committing(&self) -> bool {
        self.committing
    }

    fn write(&mut self, meaning: Meaning) -> Content {
        self.writes.set(self.next, meaning);
        self.next += 1;
        self.next - 1
    }

    /// Something is about to be written to a place that no file has: a page that has been cut off meanwhile, of which
    /// nothing is promised, or what no file system knows.
    pub fn write_other(&mut self, place: u64) -> Content {
        if self.raw {
            self.promised.set(place / self.page_bytes, 0);
            self.touched.add(place / self.page_bytes, 1);
        }
        match self.mapped.get(place / self.page_bytes).checked_sub(1) {
            Some(page) => self.write(Meaning::Data { page, version: 0 }),
            None => self.write(Meaning::Nothing),
        }
    }

    /// A page of a file in this version is about to be written to its place; the number of its write.
    pub fn write_page(&mut self, file: InodeId, index: u64, version: u64, place: u64) -> Content {
        let (page, line) = (page_of(file, index), place / self.page_bytes);
        let was = std::mem::replace(self.pages.get_mut(line), page + 1);
        if self.raw && was != page + 1 {
            self.promised.set(line, 0);
        }
        self.lines.set(version, line + 1);
        self.newest_write.set(line, self.next);
        self.set_written(line, version);
        self.write(Meaning::Data { page, version })
    }

    /// The page of a file that a block of the log is about to get, where it gets data.
    pub fn logged_page(&self, place: u64) -> Option<(InodeId, u64)> {
        let Meaning::Log(number) = self.log.get(place / self.page_bytes) else { return None };
        let page = self.parts.get(number).page.checked_sub(1)?;
        Some(((page >> INDEX_BITS) as InodeId, page & ((1 << INDEX_BITS) - 1)))
    }

    /// A block of the log gets a page of a file in this version; 0 where it has been cut off meanwhile. The number of
    /// its write.
    pub fn write_logged(&mut self, place: u64, version: u64) -> Content {
        if let Meaning::Log(number) = self.log.get(place / self.page_bytes) {
            let Part { place, page, .. } = self.parts.get(number);
            self.parts.get_mut(number).version = version;
            if let Some(line) = place.map(|place| place / self.page_bytes).filter(|_| version > 0) {
                self.pages.set(line, page);
                self.lines.set(version, line + 1);
                self.set_written(line, version);
            }
        }
        self.write_block(place)
    }

    /// Data of a transaction that is committed are there, whoever has asked for it, where the file shows them as of it
    /// and has not been cut off since.
    fn promise_logged(&mut self, transaction: u64) {
        let Commit { first, parts, .. } = self.commits.get(transaction);
        for number in first..first + parts {
            let Part { place: Some(place), page, version, .. } = self.parts.get(number) else {
                continue;
            };
            let Some(page) = page.checked_sub(1) else { continue };
            let (file, index) = (page >> INDEX_BITS, page & ((1 << INDEX_BITS) - 1));
            let newest = self.mapping(page, u64::MAX);
            let is_its = newest.is_some_and(|mapping| {
                mapping.place == Some(place) && mapping.transaction <= transaction
            });
            let last = self.change_of.get(file);
            let mut change = last;
            while change > 0 && self.changes.get(change).transaction > transaction {
                change = self.changes.get(change).before;
            }
            let Change { size_bytes, .. } = self.changes.get(change);
            let shows = change > 0 && index * self.page_bytes < size_bytes;
            if version > 0 && is_its && shows && self.changes.get(last).exists {
                self.raise_promise(place / self.page_bytes, version);
            }
        }
    }

    /// What a block of metadata, or of data that went through the log, gets at its place.
    fn image_of(&self, number: u64) -> Meaning {
        let Part { page, version, .. } = self.parts.get(number);
        match page.checked_sub(1) {
            Some(page) => Meaning::Data { page, version },
            None => Meaning::Image(number),
        }
    }

    /// A block of the file system's own is about to be written to its place; the number of its write.
    pub fn write_block(&mut self, place: u64) -> Content {
        let line = place / self.page_bytes;
        let meaning = match self.log.get(line) {
            _ if place == self.superblock => Meaning::Tail(self.tail),
            Meaning::Nothing => self.image_of(self.part(line, self.finished)),
            of_log => of_log,
        };
        self.write(meaning)
    }

    /// Whether a write goes to a place of metadata, and neither to the log nor to a file.
    pub(crate) fn is_checkpoint(&self, content: Content) -> bool {
        matches!(self.writes.get(content), Meaning::Image(_))
    }

    // ---- What is promised ---------------------------------------------------------------------

    /// The change of a file that a sync which begins now has to keep.
    pub fn change_to_keep(&self, file: InodeId, data_only: bool) -> u64 {
        let mut number = self.change_of.get(file.into());
        while data_only && number > 0 && !self.changes.get(number).data {
            number = self.changes.get(number).before;
        }
        number
    }

    /// A sync is over: this change of the file is there, in one that gives it `size_bytes` at least, and pages
    /// are, each in this version at least at its place. Whether there is such a file: of one that has been deleted
    /// nothing is promised.
    pub fn promise(
        &mut self,
        file: InodeId,
        change: u64,
        size_bytes: u64,
        pages: impl Iterator<Item = (u64, u64)>,
    ) -> bool {
        if self.raw {
            let mut any = false;
            for (place, version) in pages {
                self.raise_promise(place / self.page_bytes, version);
                any = true;
            }
            return any;
        }
        let newest = self.change_of.get(file.into());
        if !self.changes.get(newest).exists {
            return false;
        }
        // One that never comes, where none says the size: the file is lost.
        let mut kept = NUMBER;
        let mut number = newest;
        while number > 0 && number >= change {
            let Change { size_bytes: has_bytes, before, .. } = self.changes.get(number);
            kept = if has_bytes >= size_bytes { number } else { kept };
            number = before;
        }
        self.raise_promise(self.inodes + u64::from(file), OF_INODE | kept);
        for (place, version) in pages {
            self.raise_promise(place / self.page_bytes, version);
        }
        true
    }

    /// A sync that has made a promise, of one file or of many, has returned.
    pub fn count_sync(&mut self) {
        self.syncs += 1;
    }

    fn raise_promise(&mut self, line: u64, version: u64) {
        let promised = self.promised.get_mut(line);
        *promised = version.max(*promised);
        self.set_written(line, 1);
    }

    // ---- What is there ------------------------------------------------------------------------

    /// The store has taken a write for good, or shows it at least.
    pub(crate) fn see(&mut self, place: u64, content: Content) {
        self.seen.set(place / self.page_bytes, content);
        self.touched.add(place / self.page_bytes, 1);
    }

    /// A processor is about to copy a write to its place, line by line; what it stores there has versions behind this
    /// one.
    pub fn begin_copy(&mut self, place: u64, content: Content, version: u64) {
        let before =
            std::mem::replace(self.copies.newest.get_mut(place / self.page_bytes), content);
        self.copies.copied.set(content, (version, before));
    }

    /// A line of so many bytes in this version has come to memory from the on-chip caches. Its block counts as the oldest
    /// that one of its lines is of.
    pub(crate) fn see_line(&mut self, address: u64, line_bytes: u64, version: u64) {
        let block = address / self.page_bytes;
        let mut content = self.copies.newest.get(block);
        while content > 0 && self.copies.copied.get(content).0 >= version {
            content = self.copies.copied.get(content).1;
        }
        self.copies.lines.set(address / line_bytes, content);
        let first = block * self.page_bytes / line_bytes;
        let lines = first..first + self.page_bytes / line_bytes;
        let held = oldest(lines.map(|line| self.copies.lines.get(line)));
        self.see(block * self.page_bytes, held);
    }

    /// A whole block has come to a store in memory past the on-chip caches.
    pub(crate) fn see_block(&mut self, place: u64, line_bytes: u64, content: Content) {
        let lines = place / line_bytes..(place + self.page_bytes) / line_bytes;
        lines.for_each(|line| self.copies.lines.set(line, content));
        self.see(place, content);
    }

    /// Power has failed: places, and what the store holds there, which may be something else than it had answered.
    pub(crate) fn look(&mut self, places: impl Iterator<Item = (u64, Content)>) {
        for (place, content) in places {
            let line = place / self.page_bytes;
            self.seen.set(line, content);
            self.touched.add(line, 1);
            self.looked_at.push(line);
        }
    }

    /// Every line that the transactions behind `after` concern, up to this one.
    fn concerns(&self, after: u64, transaction: u64) -> Vec<u64> {
        let mut lines = Vec::new();
        for number in after + 1..=transaction.min(self.newest) {
            let mut at = self.concern_of.get(number);
            while at > 0 {
                let Concerned { line, before } = self.concerned.get(at);
                lines.push(line);
                at = before;
            }
        }
        lines
    }

    /// What recovery finds otherwise than it is told by [`Files::take_touched`] by now is to be judged anew. A block of
    /// metadata that is lost concerns whatever it describes, and so does a committed transaction that is not found: then all is.
    fn touch_recovered(&mut self, replayed: &[(u64, Content)], forgets: bool) {
        replayed.iter().for_each(|(place, _)| self.touched.add(place / self.page_bytes, 1));
        let looked_at = std::mem::take(&mut self.looked_at);
        let is_lost = |line: &u64| {
            let part = self.part(*line, self.last);
            let place = line * self.page_bytes;
            self.has_metadata(*line)
                && replayed.iter().all(|(other, _)| *other != place)
                && self.image(place) != Some(self.parts.get(part).transaction)
        };
        if forgets || looked_at.iter().any(is_lost) {
            for (line, _) in self.written.iter() {
                self.touched.add(line, 1);
            }
        }
    }

    /// Whether a block of metadata has been in the log that has this line for its place.
    fn has_metadata(&self, line: u64) -> bool {
        let number = self.part_of.get(line);
        number > 0 && self.parts.get(number).page == 0
    }

    /// The last part for a place of a transaction up to this one.
    fn part(&self, line: u64, transaction: u64) -> u64 {
        let mut number = self.part_of.get(line);
        while number > 0 && self.parts.get(number).transaction > transaction {
            number = self.parts.get(number).before;
        }
        number
    }

    fn meaning_at(&self, place: u64) -> Meaning {
        self.writes.get(self.seen.get(place / self.page_bytes))
    }

    /// What recovery does with what the store holds (fs/jbd2/recovery.c): the log is looked through from where its
    /// superblock says, transaction by transaction, up to one whose first descriptor or record is not
    /// there; blocks are written to their places, the newest of each. A block that is not its
    /// transaction's does not pass its checksum, and nothing of that transaction or behind it is carried out.
    pub(crate) fn replay(&mut self) -> Replay {
        let mut tail = 1;
        if let Meaning::Tail(first) = self.meaning_at(self.superblock) {
            tail = first;
        }
        if self.tail_in_records {
            tail = tail.max(self.tail_of_newest());
        }
        let mut replay = Replay { reads: vec![self.superblock], ..Replay::default() };
        let mut images = std::collections::BTreeMap::new();
        let mut last = tail - 1;
        loop {
            let Commit { first, parts, record, .. } = self.commits.get(last + 1);
            if record == 0 {
                break;
            }
            let address = |number| self.parts.get(number).address;
            let in_record = |number: &u64| address(*number) == record;
            let holds = |number| {
                in_record(&number) || self.meaning_at(address(number)) == Meaning::Log(number)
            };
            // One that nothing has joined is a record alone.
            if parts > 0 && !in_record(&first) {
                replay.reads.push(address(first));
                if !holds(first) {
                    break;
                }
            }
            let numbers = first..first + parts;
            let others = numbers.clone().skip(1).filter(|number| !in_record(number));
            replay.reads.extend(others.map(address));
            replay.reads.push(record);
            if self.meaning_at(record) != Meaning::Record(last + 1) {
                break;
            }
            last += 1;
            if !numbers.clone().all(holds) {
                break;
            }
            replay.transactions += 1;
            for number in numbers {
                images.extend(self.parts.get(number).place.map(|place| (place, number)));
            }
        }
        for (place, number) in images {
            let content = self.write(self.image_of(number));
            replay.writes.push((place, content));
        }
        replay.superblock = (self.superblock, self.write(Meaning::Tail(last + 1)));
        // Metadata is as of this transaction, and nothing else.
        let known = std::mem::replace(&mut self.last, last);
        self.expect_metadata(known.min(last), known.max(last));
        self.touch_recovered(&replay.writes, last < known);
        replay
    }

    /// Where the newest record that is there says that the log begins (`xlog_find_tail`, fs/xfs/xfs_log_recover.c).
    fn tail_of_newest(&self) -> u64 {
        let is_there = |number: &u64| {
            let Commit { record, .. } = self.commits.get(*number);
            self.meaning_at(record) == Meaning::Record(*number)
        };
        let newest = (1..=self.begun).rev().find(is_there);
        newest.map_or(1, |number| self.commits.get(number).tail)
    }

    /// What the transactions behind `after` concern, up to this one, is to be judged anew; metadata among it is as of
    /// the last transaction that counts.
    fn expect_metadata(&mut self, after: u64, transaction: u64) {
        for line in self.concerns(after, transaction) {
            self.touched.add(line, 1);
            if self.has_metadata(line) {
                let part = self.part(line, self.last);
                let version = if part == 0 { 0 } else { OF_METADATA | part };
                self.promised.set(line, version);
            }
        }
    }

    /// The transaction of the image of metadata at a place; `None` where it cannot be read.
    fn image(&self, place: u64) -> Option<u64> {
        let content = self.seen.get(place / self.page_bytes);
        match self.writes.get(content) {
            _ if content == LOST => None,
            Meaning::Image(number) => Some(self.parts.get(number).transaction),
            _ => Some(0),
        }
    }

    /// The change of a file that its inode shows; 0 for none.
    fn shown(&self, file: InodeId) -> Option<u64> {
        let mut number = self.change_of.get(file.into());
        let transaction = self.image(self.changes.get(number).inode)?;
        while number > 0 && self.changes.get(number).transaction > transaction {
            number = self.changes.get(number).before;
        }
        Some(number)
    }

    /// Whether a file shows that it has the name of another and that has it, too, or neither has it (rename(2): "there will
    /// be no point at which another process attempting to access newpath will find it missing").
    fn has_half_a_name(&self, file: u64, change: u64) -> bool {
        let (took, replaced, lost) = self.renamed.get(file);
        let other = if took == 0 { None } else { self.shown(replaced) };
        other.is_some_and(|other| (change >= took) != (other >= lost))
    }

    /// Where a page lies, as of a transaction.
    fn mapping(&self, page: u64, transaction: u64) -> Option<Mapping> {
        let mut number = self.mapping_of.get(page);
        while number > 0 && self.mappings.get(number).transaction > transaction {
            number = self.mappings.get(number).before;
        }
        if number > 0 {
            return Some(self.mappings.get(number));
        }
        let (first, count) = self.held.get(page >> INDEX_BITS);
        let index = page & ((1 << INDEX_BITS) - 1);
        let place = (index < count).then(|| first + index * self.page_bytes);
        place.map(|place| Mapping { place: Some(place), ..Mapping::default() })
    }

    /// The version that is found; see [`PowerFailure::found`](super::PowerFailure::found).
    pub(crate) fn found(&self, line: u64) -> Option<u64> {
        if let Some(file) = line.checked_sub(self.inodes) {
            let change = self.shown(file as InodeId)?;
            if self.has_half_a_name(file, change) {
                return Some(ALIEN);
            }
            return Some(if change == 0 { 0 } else { OF_INODE | change });
        }
        let content = self.seen.get(line);
        match self.pages.get(line).checked_sub(1) {
            Some(page) => self.found_page(page, line, content),
            None if content == LOST => None,
            None => Some(match self.writes.get(content) {
                Meaning::Image(0) | Meaning::Nothing => 0,
                Meaning::Image(number) if self.parts.get(number).transaction <= self.last => {
                    OF_METADATA | number
                }
                _ => ALIEN,
            }),
        }
    }

    /// What a file shows of a page, of which this line has been a place.
    fn found_page(&self, page: u64, line: u64, content: Content) -> Option<u64> {
        if self.raw {
            return match self.writes.get(content) {
                _ if content == LOST => None,
                Meaning::Data { page: other, version } if other == page => Some(version),
                _ if content == 0 => Some(0),
                _ => Some(STALE),
            };
        }
        let (file, index) = ((page >> INDEX_BITS) as InodeId, page & ((1 << INDEX_BITS) - 1));
        let Change { exists, size_bytes, inode, .. } = self.changes.get(self.shown(file)?);
        let transaction = self.image(inode)?;
        let place = Some(line * self.page_bytes);
        let mapping = self.mapping(page, transaction).filter(|mapping| mapping.place == place);
        let Some(Mapping { since, .. }) = mapping else { return Some(0) };
        if !exists || index * self.page_bytes >= size_bytes {
            return Some(0);
        }
        match self.writes.get(content) {
            _ if content == LOST => None,
            Meaning::Data { page: other, version } if other == page && content >= since => {
                Some(version)
            }
            Meaning::Data { page: other, .. } if other != page => Some(ALIEN),
            _ if content == 0 && since == 0 => Some(0),
            _ => Some(STALE),
        }
    }

    /// Whether files may show what their blocks held before they were theirs.
    pub(crate) fn permits_stale(&self) -> bool {
        !self.ordered
    }

    pub(crate) fn promised(&self) -> &CowMap<u64> {
        &self.promised
    }

    pub(crate) fn written(&self) -> &CowMap<u64> {
        &self.written
    }

    pub(crate) fn take_touched(&mut self) -> Vec<Range<u64>> {
        self.touched.take()
    }

    pub(crate) fn line_of(&self, version: u64) -> Option<u64> {
        let number = version & NUMBER;
        if version & OF_INODE != 0 {
            return Some(self.inodes + u64::from(self.changes.get(number).file));
        }
        if version & OF_METADATA != 0 {
            return self.parts.get(number).place.map(|place| place / self.page_bytes);
        }
        self.lines.get(version).checked_sub(1)
    }

    /// Syncs that have returned, and have promised something.
    pub fn syncs(&self) -> u64 {
        self.syncs
    }

    /// What the workload calls its files, by their numbers.
    pub fn call_them(&mut self, names: Arc<Vec<FileInfo>>) {
        self.names = names;
    }

    /// What a line is, in words.
    pub(crate) fn name(&self, line: u64) -> String {
        if let Some(file) = line.checked_sub(self.inodes) {
            return format!("size and map of {}", self.name_of(file));
        }
        match self.pages.get(line).checked_sub(1) {
            Some(page) => {
                let index = page & ((1 << INDEX_BITS) - 1);
                format!("page {index} of {}", self.name_of(page >> INDEX_BITS))
            }
            None => format!("metadata at {:#x}", line * self.page_bytes),
        }
    }

    /// The name that an inode has, or had.
    fn name_of(&self, file: u64) -> String {
        let number = self.changes.get(self.change_of.get(file)).name;
        match self.names.get(number as usize) {
            Some(FileInfo { name, .. }) => name.clone(),
            None => format!("file {number}"),
        }
    }
}

#[cfg(test)]
mod tests;
