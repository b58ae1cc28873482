//! The journal of ext3 and ext4 (jbd2): transactions that take up changes of metadata, the log, and the
//! order of a commit.
//!
//! One transaction runs, and takes up changes; at most one is being committed. In the log a transaction is
//! descriptors, its blocks, and a record, which is written once all before it is there
//! (Documentation/filesystems/ext4/journal.rst; fs/jbd2/commit.c).

use crate::os::InodeId;
use crate::os::paging::{FilePage, TransferId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// Bytes of a descriptor's head and tail, and of a tag with checksums of version 3, the first of which has
/// the journal's identity, of 16 bytes (`journal_header_t`, `journal_block_tag3_t`, include/linux/jbd2.h).
const DESCRIPTOR_BYTES: u64 = 12 + 4 + 16;
const TAG_BYTES: u64 = 16;
/// Bytes of the head and tail of a block of revocations, and of one (`jbd2_journal_revoke_header_t`, of a file system with
/// 64-bit block numbers, as mke2fs makes them).
const REVOKE_HEAD_BYTES: u64 = 12 + 4 + 4;
const REVOKED_BYTES: u64 = 8;

/// Blocks of the log that a transaction of so many blocks takes: descriptors, blocks, and the record.
pub fn log_blocks(block_bytes: u64, blocks: u64) -> u64 {
    let tags = (block_bytes - DESCRIPTOR_BYTES) / TAG_BYTES;
    blocks + blocks.div_ceil(tags).max(1) + 1
}

/// Blocks of the log that say of so many blocks that they are not to be carried out again.
pub fn revoke_blocks(block_bytes: u64, blocks: u64) -> u64 {
    blocks.div_ceil((block_bytes - REVOKE_HEAD_BYTES) / REVOKED_BYTES)
}

/// What each block of the log is for a transaction of these blocks, its record left out: the place of the block that
/// it has, or none of a descriptor.
pub fn log_parts(block_bytes: u64, blocks: &[u64]) -> Vec<Option<u64>> {
    let tags = (block_bytes - DESCRIPTOR_BYTES) / TAG_BYTES;
    let mut parts = Vec::new();
    for chunk in blocks.chunks(tags as usize) {
        parts.push(None);
        parts.extend(chunk.iter().map(|place| Some(*place)));
    }
    parts
}

/// Changes of metadata, and of data that go through the log, that become durable together.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    /// Its number, from 1 on.
    pub number: u64,
    /// When it took up its first change.
    begun_ps: u64,
    /// Places of the blocks that it has.
    pub blocks: BTreeSet<u64>,
    /// Of these, data: the pages of files that they are.
    pub data: BTreeMap<u64, FilePage>,
    /// Of XFS: bytes of changes, by the place of the block or of the inode, and their sum.
    changes: BTreeMap<u64, u64>,
    pub(super) bytes: u64,
    /// Files whose data have to be written before it commits.
    pub files: BTreeMap<InodeId, Range<u64>>,
    /// Places that are free once it is committed, where these are told of: and whose they were.
    pub freed: BTreeMap<u64, FilePage>,
    /// Places of blocks of metadata that it has freed, and that the log is not to carry out again.
    pub revoked: BTreeSet<u64>,
    /// It is to be committed.
    wanted: bool,
    /// The drive has been told to write what it had buffered before the record.
    pub flushed: bool,
    /// What stands for its commit, where somebody waits for it.
    pub waited_for: Option<TransferId>,
}

/// What the journal's thread does, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Dirty pages of a file, of these, begin to be written.
    WriteData(InodeId, Range<u64>),
    /// Those of a file that are being written have been.
    AwaitData(InodeId, Range<u64>),
    /// These places get the data that the log has for them.
    Data(Vec<(u64, FilePage)>),
    /// These places get their metadata.
    Metadata(Vec<u64>),
    /// They have it.
    AwaitMetadata,
    /// Blocks of the log, by number, are written.
    Log {
        /// By number.
        blocks: Vec<u64>,
        /// With force unit access.
        forced: bool,
    },
    /// They have been.
    AwaitLog,
    /// The drive writes what it has buffered.
    Flush,
    /// The transaction is durable.
    Finish,
}

/// A transaction in the log.
#[derive(Clone, Copy, Debug)]
struct Logged {
    number: u64,
    blocks: u64,
}

/// Transactions and the log.
#[derive(Clone, Debug)]
pub struct Journal {
    /// Blocks of the log behind its superblock, the next to be written, and those in use.
    blocks: u64,
    head: u64,
    used: u64,
    interval_ps: u64,
    /// Of a log of changes: bytes of them at which it is written.
    most_bytes: Option<u64>,
    /// The time, as far as it has been told.
    now_ps: u64,
    numbers: u64,
    running: Option<Transaction>,
    committing: Option<Transaction>,
    plan: VecDeque<Request>,
    /// The oldest first.
    logged: VecDeque<Logged>,
    /// Transfers to the log that are under way.
    pub(super) log: BTreeSet<TransferId>,
    /// The next look at the running transaction's age has been ordered.
    timed: bool,
}

impl Journal {
    /// The number of the log's own block, before those of transactions.
    pub const SUPERBLOCK: u64 = 0;

    /// An empty one, with so many blocks; one of changes is written once there are `most_bytes` of them.
    pub(super) fn new(blocks: u64, interval_ps: u64, most_bytes: Option<u64>) -> Self {
        Journal {
            blocks: blocks - 1,
            head: 0,
            used: 0,
            interval_ps,
            most_bytes,
            now_ps: 0,
            numbers: 0,
            running: None,
            committing: None,
            plan: VecDeque::new(),
            logged: VecDeque::new(),
            log: BTreeSet::new(),
            timed: false,
        }
    }

    /// The running transaction takes up blocks; its number.
    pub(super) fn join(&mut self, blocks: &[u64], now_ps: u64) -> u64 {
        self.now_ps = now_ps;
        let numbers = &mut self.numbers;
        let running = self.running.get_or_insert_with(|| {
            *numbers += 1;
            Transaction { number: *numbers, begun_ps: now_ps, ..Transaction::default() }
        });
        running.blocks.extend(blocks);
        // One that fills a quarter of the log is committed (`j_max_transaction_buffers`).
        if self.most_bytes.is_none() {
            running.wanted |= running.blocks.len() as u64 >= self.blocks / 4;
        }
        running.number
    }

    /// The running transaction has so many bytes of changes of what lies here, or had more already.
    pub(super) fn log_change(&mut self, place: u64, bytes: u64) {
        if let (Some(running), Some(most)) = (&mut self.running, self.most_bytes) {
            let known = running.changes.entry(place).or_default();
            running.bytes += bytes.saturating_sub(*known);
            *known = bytes.max(*known);
            running.wanted |= running.bytes >= most;
        }
    }

    /// The running transaction takes up data of a page; its number.
    pub(super) fn join_data(&mut self, page: FilePage, place: u64, now_ps: u64) -> u64 {
        let number = self.join(&[place], now_ps);
        if let Some(running) = &mut self.running {
            running.data.insert(place, page);
        }
        number
    }

    /// The newest transaction that has data of this place and has yet to be committed.
    pub(super) fn with_data(&self, place: u64) -> Option<u64> {
        let both = [&self.running, &self.committing];
        both.into_iter().flatten().find(|it| it.data.contains_key(&place)).map(|it| it.number)
    }

    /// The running transaction does without data of this place.
    pub(super) fn leave_data(&mut self, place: u64) {
        if let Some(running) = &mut self.running
            && running.data.remove(&place).is_some()
        {
            running.blocks.remove(&place);
        }
    }

    /// The running transaction, where it fills a quarter of the log.
    pub(super) fn full(&self) -> Option<u64> {
        let running = self.running.as_ref()?;
        (running.blocks.len() as u64 >= self.blocks / 4).then_some(running.number)
    }

    /// Bytes of changes that the running transaction has.
    #[cfg(test)]
    pub(super) fn running_bytes(&self) -> u64 {
        self.running.as_ref().map_or(0, |running| running.bytes)
    }

    /// These pages of a file have to be written before the running transaction commits, and what lies between them and others
    /// of it (`jbd2_journal_file_inode`, fs/jbd2/transaction.c).
    pub(super) fn order(&mut self, file: InodeId, pages: Range<u64>) {
        if let Some(running) = &mut self.running {
            let all = running.files.entry(file).or_insert(pages.clone());
            *all = all.start.min(pages.start)..all.end.max(pages.end);
        }
    }

    /// A place is free once the running transaction is committed.
    pub(super) fn free(&mut self, page: FilePage, place: u64) {
        if let Some(running) = &mut self.running {
            running.freed.insert(place, page);
        }
    }

    /// The running transaction frees blocks of metadata (`jbd2_journal_revoke`).
    pub(super) fn revoke(&mut self, places: &[u64]) {
        if let Some(running) = &mut self.running {
            running.revoked.extend(places);
        }
    }

    /// What a file has freed is not told any more.
    pub(super) fn keep_freed(&mut self, file: InodeId) {
        let both = [&mut self.running, &mut self.committing];
        both.into_iter().flatten().for_each(|it| it.freed.retain(|_, page| page.0 != file));
    }

    /// Whether a transaction has yet to be committed.
    pub fn is_pending(&self, number: u64) -> bool {
        [&self.running, &self.committing]
            .iter()
            .any(|it| it.as_ref().is_some_and(|it| it.number == number))
    }

    /// The newest transaction that has yet to be committed (`jbd2_journal_start_commit`).
    pub fn newest(&self) -> Option<u64> {
        self.running.as_ref().or(self.committing.as_ref()).map(|it| it.number)
    }

    /// A transaction that has yet to be committed is asked for.
    pub fn ask_for(&mut self, number: u64) -> Option<&mut Transaction> {
        let both = [&mut self.running, &mut self.committing];
        let asked = both.into_iter().flatten().find(|it| it.number == number)?;
        asked.wanted = true;
        Some(asked)
    }

    /// The transaction that is being committed.
    pub fn committing(&self) -> Option<&Transaction> {
        self.committing.as_ref()
    }

    /// What stands for the commits of the transaction that is being committed, and of the running one.
    pub fn waited_for(&self) -> [Option<TransferId>; 2] {
        [&self.committing, &self.running].map(|it| it.as_ref().and_then(|it| it.waited_for))
    }

    /// The flush of the transaction that is being committed has begun: what is written from now on it does not
    /// concern (`T_COMMIT_JFLUSH`).
    pub fn begin_flush(&mut self) {
        self.committing.iter_mut().for_each(|it| it.flushed = true);
    }

    /// Whether its thread has something to do.
    pub fn is_wanted(&self) -> bool {
        self.has_plan() || self.running.as_ref().is_some_and(|it| it.wanted)
    }

    /// When the running transaction is to be looked at for its age, where it is not asked for and nobody has
    /// ordered that yet.
    ///
    /// A log of changes is looked at at times that do not depend on it, also for the metadata that it has yet.
    pub(super) fn order_look(&mut self, has_metadata: bool) -> Option<u64> {
        if self.timed || self.interval_ps == 0 {
            return None;
        }
        let running = self.running.as_ref().filter(|running| !running.wanted);
        let at_ps = match (self.most_bytes, running) {
            (None, running) => running?.begun_ps + self.interval_ps,
            (Some(_), None) if !has_metadata => return None,
            (Some(_), _) => (self.now_ps / self.interval_ps + 1) * self.interval_ps,
        };
        self.timed = true;
        Some(at_ps)
    }

    /// The time of such a look has come (`commit_timeout`): the running transaction is committed where it is
    /// old enough.
    pub fn look(&mut self, now_ps: u64) {
        self.timed = false;
        self.now_ps = now_ps;
        let interval_ps = if self.most_bytes.is_some() { 0 } else { self.interval_ps };
        if let Some(running) = &mut self.running {
            running.wanted |= now_ps >= running.begun_ps + interval_ps;
        }
    }

    /// The running transaction begins to be committed, where that is wanted and none is; whether it does.
    pub(super) fn begin_commit(&mut self) -> bool {
        let begins = self.committing.is_none() && self.running.as_ref().is_some_and(|it| it.wanted);
        if begins {
            self.committing = self.running.take();
        }
        begins
    }

    /// What is left to be done for the commit.
    pub(super) fn carry_out(&mut self, requests: Vec<Request>) {
        self.plan.extend(requests);
    }

    pub(super) fn has_plan(&self) -> bool {
        !self.plan.is_empty()
    }

    pub(super) fn next_request(&mut self) -> Option<Request> {
        self.plan.pop_front()
    }

    /// It has to be done again.
    pub fn again(&mut self, request: Request) {
        self.plan.push_front(request);
    }

    /// A transfer to the log, where one is under way.
    pub fn log_under_way(&self) -> Option<TransferId> {
        self.log.first().copied()
    }

    /// The commit is over.
    pub fn finish(&mut self) -> Option<Transaction> {
        self.committing.take()
    }

    /// Blocks of the log, its superblock left out, and those of them that are not in use.
    pub(super) fn room(&self) -> (u64, u64) {
        (self.blocks, self.blocks - self.used)
    }

    /// Frees the oldest transactions of the log as long as it has not this room; the last of them, where there
    /// are any (`jbd2_log_wait_for_space`).
    pub(super) fn free_oldest(&mut self, room: u64) -> Option<u64> {
        let mut last = None;
        while self.blocks - self.used < room
            && let Some(oldest) = self.logged.pop_front()
        {
            self.used -= oldest.blocks;
            last = Some(oldest.number);
        }
        last
    }

    /// Frees transactions of the log that are older than this; whether there were any.
    pub(super) fn free_before(&mut self, number: u64) -> bool {
        let before = self.used;
        while let Some(oldest) = self.logged.front().filter(|it| it.number < number) {
            self.used -= oldest.blocks;
            self.logged.pop_front();
        }
        self.used < before
    }

    /// The next blocks of the log.
    pub(super) fn take_room(&mut self, blocks: u64) -> Vec<u64> {
        let first = self.head;
        self.head = (first + blocks) % self.blocks;
        self.used += blocks;
        let number = self.committing.as_ref().map_or(0, |it| it.number);
        match self.logged.back_mut() {
            Some(last) if last.number == number => last.blocks += blocks,
            _ => self.logged.push_back(Logged { number, blocks }),
        }
        (first..first + blocks).map(|block| 1 + block % self.blocks).collect()
    }
}
