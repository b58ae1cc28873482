//! What a check of failures of power needs of a machine: what happens below its caches, and, where it has a file
//! system, what its files hold and what its syncs promise.

use super::{Machine, MachineError};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use tierscope_model::organization::{Durable, Organization};
use tierscope_model::os::InodeId;
use tierscope_model::os::paging::{Moves, PageTransfer, Paging, Transfer, TransferId};
use tierscope_model::power::{Files, Weakness};

/// A page of a file, and the newest version of its lines.
type Versions = BTreeMap<(InodeId, u64), u64>;

/// What is followed of files.
#[derive(Clone, Debug, Default)]
pub(super) struct Followed {
    /// Frames that were stored to.
    changed: BTreeSet<u64>,
    /// What no sync has promised yet.
    unsynced: Versions,
    /// Syncs under way, by thread: what each keeps, in order.
    syncs: BTreeMap<usize, VecDeque<Sync>>,
    /// What direct writes under way bring.
    direct: BTreeMap<TransferId, Versions>,
}

/// What is followed where files lie in main memory, line by line.
#[derive(Clone, Debug, Default)]
pub(super) struct FollowedLines {
    /// Lines of pages of files that were stored to, and that no sync has promised as they are.
    changed: BTreeSet<u64>,
    /// Syncs under way, by thread: lines that each keeps, the page of a file that each is of, and its version.
    syncs: BTreeMap<usize, VecDeque<Lines>>,
    /// Syncs that have promised something.
    promising: u64,
}

/// Lines, the page that each is of, and its version.
type Lines = Vec<(u64, (InodeId, u64), u64)>;

/// What a sync has to keep.
#[derive(Clone, Debug)]
struct Sync {
    file: InodeId,
    /// The change of the file, and its size.
    change: u64,
    size_bytes: u64,
    pages: Versions,
}

impl Machine {
    /// Whatever lies below the caches.
    pub fn organization_mut(&mut self) -> &mut dyn Organization {
        self.organization.as_mut()
    }

    /// Bytes of a line of the on-chip caches.
    pub fn line_bytes(&self) -> u64 {
        1 << self.fixed.line_shift
    }

    /// Goes on until something happens to the organization: when; `None` once the workload has ended.
    pub fn go_on(&mut self) -> Result<Option<u64>, MachineError> {
        while !self.finished() {
            let (before_ps, at_ps) = (self.organization.next_event_ps(), self.next_event_ps());
            self.turn()?;
            if self.organization.next_event_ps() != before_ps {
                self.files();
                return Ok(at_ps);
            }
        }
        Ok(None)
    }

    /// Follows from now on what files hold, where the organization has asked for that.
    pub fn follow_files(&mut self, weaknesses: &[Weakness]) {
        if self.organization.power_mut().is_some_and(|power| power.files().is_some()) {
            self.paging.follow_file_system(weaknesses.iter().copied().collect());
            self.followed = Some(Box::default());
            let names = self.stream.files();
            self.files().into_iter().for_each(|files| files.call_them(Arc::clone(&names)));
        } else if self.fixed.durable != Durable::Never {
            self.followed_lines = Some(Box::default());
            self.syncing.forgets_lines = weaknesses.contains(&Weakness::NoLineWriteBack);
        }
    }

    /// Syncs that have promised something, where files are followed; of files in main memory where there were any.
    pub fn syncs(&mut self) -> Option<u64> {
        if let Some(lines) = &self.followed_lines {
            return Some(lines.promising).filter(|promising| *promising > 0);
        }
        Some(self.organization.power_mut()?.files()?.syncs())
    }

    /// Where files are followed, told of all that has happened to them.
    fn files(&mut self) -> Option<&mut Files> {
        self.followed.as_ref()?;
        let files = self.organization.power_mut()?.files()?;
        self.paging.take_notes().into_iter().for_each(|note| files.note(note));
        Some(files)
    }

    /// The program or the kernel stores to a line.
    #[inline]
    pub(super) fn follow_store(&mut self, line: u64) {
        let frame = line >> (self.fixed.page_shift - self.fixed.line_shift);
        // Lines of a store in memory are behind all frames.
        if let Some(followed) = &mut self.followed
            && frame < self.fixed.memory_bytes >> self.fixed.page_shift
        {
            followed.changed.insert(frame);
        }
        if let Some(followed) = &mut self.followed_lines
            && self.paging.page_in(frame).is_some()
        {
            followed.changed.insert(line);
        }
    }

    /// A thread begins a sync of pages of a file in main memory, or of all files.
    fn begin_sync_of_lines(&mut self, thread: usize, file: Option<(InodeId, Range<u64>)>) {
        let Some(followed) = &mut self.followed_lines else { return };
        let shift = self.fixed.page_shift - self.fixed.line_shift;
        let mut kept = Lines::new();
        for &line in &followed.changed {
            let Some((inode, index)) = self.paging.page_in(line >> shift) else { continue };
            let asked = file.as_ref().is_none_or(|(of, all)| *of == inode && all.contains(&index));
            if asked && !self.paging.is_nameless(inode) {
                kept.push((line, (inode, index), self.account.newest(line)));
            }
        }
        followed.syncs.entry(thread).or_default().push_back(kept);
    }

    /// What a thread's sync has kept of files in main memory is promised, as far as it is still theirs; `None` where it
    /// has kept no more.
    fn promise_lines(&mut self, thread: usize) -> Option<bool> {
        let followed = self.followed_lines.as_mut()?;
        let kept = followed.syncs.get_mut(&thread)?.pop_front()?;
        let shift = self.fixed.page_shift - self.fixed.line_shift;
        let power = self.organization.power_mut()?;
        let mut any = false;
        for (line, page, version) in kept {
            if self.account.newest(line) == version {
                followed.changed.remove(&line);
            }
            if self.paging.page_in(line >> shift) == Some(page) {
                power.promise(line, version);
                any = true;
            }
        }
        followed.promising += u64::from(any);
        Some(any)
    }

    /// The newest version of a page's lines.
    fn newest_of(&self, frame: u64) -> u64 {
        let shift = self.fixed.page_shift - self.fixed.line_shift;
        let lines = frame << shift..(frame + 1) << shift;
        lines.map(|line| self.account.newest(line)).max().unwrap_or(0)
    }

    /// What has been stored to frames is nothing that a sync has promised.
    fn collect_changed(&mut self) {
        let changed = self.followed.as_mut().map(|followed| std::mem::take(&mut followed.changed));
        for frame in changed.unwrap_or_default() {
            let (page, version) = (self.paging.page_in(frame), self.newest_of(frame));
            let Some(followed) = &mut self.followed else { return };
            match page {
                // Nothing is promised of what has no name.
                Some((inode, _)) if self.paging.is_nameless(inode) => {}
                Some(page) if self.paging.is_to_be_written(frame) => {
                    followed.unsynced.insert(page, version);
                }
                // A write that has not copied all yet, or a page that was cleared, and may be written to.
                Some(_) => drop(followed.changed.insert(frame)),
                None => {}
            }
        }
    }

    /// A thread is about to copy the pages of a transfer to a store in memory.
    pub(super) fn follow_copies(&mut self, id: TransferId) {
        let transfer = self.paging.transfer(id).clone();
        if self.followed.is_none() || !transfer.write {
            return;
        }
        for page in &transfer.pages {
            let content = self.content_of(id, &transfer, page);
            let version = self.account.next_version();
            if let Some(files) = self.files() {
                files.begin_copy(page.store_address, content, version);
            }
        }
    }

    /// What a page on its way to the store brings; 0 where nothing is followed.
    pub(super) fn content_of(
        &mut self,
        id: TransferId,
        transfer: &Transfer,
        page: &PageTransfer,
    ) -> u64 {
        if self.followed.is_none() || !transfer.write || transfer.control().is_some() {
            return 0;
        }
        self.collect_changed();
        if let Moves::Direct { file, first, .. } = transfer.moves {
            return self.content_of_direct((file, first), (id, transfer), page);
        }
        let (owner, version) = (self.paging.page_in(page.frame), self.newest_of(page.frame));
        let Some(files) = self.files() else { return 0 };
        match (transfer.moves, owner) {
            (Moves::Metadata { .. }, _) => match files.logged_page(page.store_address) {
                Some(logged) => self.content_of_logged(logged, page.store_address),
                None => files.write_block(page.store_address),
            },
            (Moves::Pages, Some((file, index))) if !transfer.swap => {
                files.write_page(file, index, version, page.store_address)
            }
            _ => files.write_other(page.store_address),
        }
    }

    /// What a block of the log gets that is data: its page as the page cache has it. Stores to it from the beginning of
    /// the commit on have faulted, and what they bring may be in it nevertheless.
    fn content_of_logged(&mut self, (file, index): (InodeId, u64), place: u64) -> u64 {
        let version = self.paging.frame_of(file, index).map_or(0, |frame| self.newest_of(frame));
        self.files().map_or(0, |files| files.write_logged(place, version))
    }

    /// What a page of a direct write brings: something newer than all before, whatever was in the buffer.
    fn content_of_direct(
        &mut self,
        (file, first): (InodeId, u64),
        (id, transfer): (TransferId, &Transfer),
        page: &PageTransfer,
    ) -> u64 {
        let at = transfer.pages.iter().position(|it| it.store_address == page.store_address);
        let index = first + at.unwrap_or(0) as u64;
        let version = self.account.next_version();
        if let Some(followed) = &mut self.followed {
            followed.direct.entry(id).or_default().insert((file, index), version);
        }
        self.files().map_or(0, |files| files.write_page(file, index, version, page.store_address))
    }

    /// A transfer has ended: of what a direct write brought, no sync has promised anything yet.
    pub(super) fn direct_ended(&mut self, id: TransferId) {
        let Some(followed) = &mut self.followed else { return };
        let brought = followed.direct.remove(&id).into_iter().flatten();
        let named = brought.filter(|((inode, _), _)| !self.paging.is_nameless(*inode));
        followed.unsynced.extend(named);
    }

    /// A thread begins a sync of pages of a file.
    pub(super) fn begin_sync(
        &mut self,
        thread: usize,
        file: InodeId,
        pages: Range<u64>,
        data_only: bool,
    ) {
        if self.followed.is_none() {
            return self.begin_sync_of_lines(thread, Some((file, pages)));
        }
        self.collect_changed();
        let end_bytes = pages.end.saturating_mul(1 << self.fixed.page_shift);
        let size_bytes = self.paging.file_size(file).min(end_bytes);
        let Some(change) = self.files().map(|files| files.change_to_keep(file, data_only)) else {
            return;
        };
        let Some(followed) = &mut self.followed else { return };
        // What a call that is under way has copied behind the end is not the file's yet.
        let end = size_bytes.div_ceil(1 << self.fixed.page_shift).max(pages.start);
        let pages = followed.unsynced.range((file, pages.start)..(file, end));
        let pages = pages.map(|(page, version)| (*page, *version)).collect();
        let kept = Sync { file, change, size_bytes, pages };
        followed.syncs.entry(thread).or_default().push_back(kept);
    }

    /// A thread begins a sync of all files.
    pub(super) fn begin_sync_of_all(&mut self, thread: usize) {
        self.begin_sync_of_lines(thread, None);
        if self.followed.is_some() {
            for file in self.paging.named() {
                self.begin_sync(thread, file, Paging::ALL_PAGES, false);
            }
        }
    }

    /// A thread's sync of a file has returned.
    pub(super) fn end_sync(&mut self, thread: usize, file: InodeId) {
        self.promise_lines(thread);
        let promised = self.promise(thread);
        self.count_sync(promised == Some(true));
        self.paging.let_go_of_inode(file);
    }

    /// A thread's sync of all files has returned.
    pub(super) fn end_sync_of_all(&mut self, thread: usize) {
        self.promise_lines(thread);
        let mut any = false;
        while let Some(promised) = self.promise(thread) {
            any |= promised;
        }
        self.count_sync(any);
    }

    fn count_sync(&mut self, has_promised: bool) {
        if let Some(files) = self.files().filter(|_| has_promised) {
            files.count_sync();
        }
    }

    /// Where files are followed, what a thread's sync has kept of the next file is promised, if there is still such
    /// a file; `None` where it has kept no more.
    fn promise(&mut self, thread: usize) -> Option<bool> {
        let followed = self.followed.as_mut()?;
        let kept = followed.syncs.get_mut(&thread)?.pop_front()?;
        let Sync { file, change, size_bytes, pages } = kept;
        followed.unsynced.retain(|page, version| pages.get(page).is_none_or(|it| it < version));
        let size_bytes = size_bytes.min(self.paging.file_size(file));
        let place = |(file, index)| self.paging.place_in_store(file, index);
        let placed = pages.into_iter().filter_map(|(page, version)| Some((place(page)?, version)));
        let placed: Vec<(u64, u64)> = placed.collect();
        let files = self.files()?;
        Some(files.promise(file, change, size_bytes, placed.into_iter()))
    }

    /// A file is cut off, or deleted: of what goes nothing is promised.
    pub(super) fn forget_unsynced(&mut self, file: InodeId, length: u64) {
        let first = length.div_ceil(1 << self.fixed.page_shift);
        self.forget_unsynced_pages(file, &(first..u64::MAX));
    }

    /// The same of pages in the middle of it.
    pub(super) fn forget_unsynced_pages(&mut self, file: InodeId, gone: &Range<u64>) {
        let Some(followed) = &mut self.followed else { return };
        let stays = |page: &(InodeId, u64), _: &mut u64| page.0 != file || !gone.contains(&page.1);
        followed.unsynced.retain(stays);
        followed.syncs.values_mut().flatten().for_each(|sync| sync.pages.retain(stays));
    }
}
