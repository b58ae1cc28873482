//! Dirty pages of files: how many there may be, who writes them and when, and where to.

use super::*;
use crate::os::release::Release;
use std::ops::Bound;

/// A page of a file, by its number.
pub type FilePage = (InodeId, u64);

/// Pages that the flusher has under way at once: a quarter of the least of a turn.
pub(super) const FLUSH_BATCH: usize = 256;

/// The least that the flusher writes of a file before it turns to another (`MIN_WRITEBACK_PAGES`, fs/fs-writeback.c).
const LEAST_TURN_BYTES: u64 = 4 << 20;
/// It writes an eighth of what may be dirty more (`DIRTY_SCOPE`), but no more than a drive that is not known yet writes in
/// half a second (`INIT_BW`, 100 MiB/s, mm/page-writeback.c).
const SCOPE: u64 = 8;
const HALF_A_SECOND_BYTES: u64 = 50 << 20;
/// How long it takes one file after the other before it looks again whether there is too much (`writeback_sb_inodes`).
const ROUND_PS: u64 = 100_000_000_000;
/// In 2.6.32 it looks after so many pages of however many files (`MAX_WRITEBACK_PAGES`).
const ROUND_PAGES_2_6_32: u64 = 1024;

/// Files in which the flusher looks for something to write before it sleeps.
const MOST_LOOKED_AT: usize = 64;

/// A file has its turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// The file, and since when it was dirty when its turn began.
    file: (u64, InodeId),
    /// Pages that are still to be written.
    left: u64,
    /// The page that it began with, and the next: behind the end it goes on from the start (`range_cyclic`).
    from: u64,
    next: u64,
    cycled: bool,
}

/// Dirty pages, and when they have to be written.
#[derive(Clone, Debug, Default)]
pub(super) struct Dirty {
    pages: BTreeSet<FilePage>,
    /// Since when each file has dirty pages, the oldest first (`dirtied_when`).
    files: BTreeSet<(u64, InodeId)>,
    /// Pages under way to the store.
    under_way: u64,
    /// Pages that reclaim wants written.
    asked: u64,
    /// The file whose turn it is, or was last, and the round that it is of.
    turn: Option<Turn>,
    round: Option<Round>,
    /// Files that have been dirty since then or longer are due.
    due_ps: Option<u64>,
    /// The next look at ages has been ordered.
    timed: bool,
}

/// Files have their turns, from the one that has been dirty for longest on.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// The last that has one, and until when turns begin.
    last: (u64, InodeId),
    until_ps: u64,
    /// Pages that are still to be written.
    left: u64,
}

impl Dirty {
    /// Whether a file has been dirty for too long.
    fn is_due(&self) -> bool {
        let oldest = self.files.first();
        oldest
            .is_some_and(|(dirtied_ps, _)| self.due_ps.is_some_and(|due_ps| *dirtied_ps <= due_ps))
    }

    pub fn due_ps(&self) -> Option<u64> {
        self.due_ps
    }

    pub fn has(&self, page: FilePage) -> bool {
        self.pages.contains(&page)
    }

    pub fn pages_of(&self, file: InodeId) -> impl Iterator<Item = FilePage> + '_ {
        self.pages_within(file, 0..u64::MAX)
    }

    pub fn within(&self, pages: Range<FilePage>) -> impl Iterator<Item = FilePage> + '_ {
        self.pages.range(pages).copied()
    }

    fn pages_within(
        &self,
        file: InodeId,
        pages: Range<u64>,
    ) -> impl Iterator<Item = FilePage> + '_ {
        self.pages.range((file, pages.start)..(file, pages.end)).copied()
    }
}

impl Paging {
    pub(super) fn mark_dirty(&mut self, frame: u64, file: InodeId, index: u64, now_ps: u64) {
        let info = self.frames.get_mut(frame);
        info.dirty = true;
        info.leaves = false;
        if self.limits.is_none() || self.is_in_swap(file) {
            return;
        }
        self.invalidate_buffered(file, index);
        self.journal_data(file, index);
        if !self.dirty.pages.insert((file, index)) {
            return;
        }
        if self.pauses {
            self.pace.dirtied(self.thread);
        }
        let state = self.file(file);
        if state.dirtied_ps.is_some() {
            return;
        }
        state.dirtied_ps = Some(now_ps);
        self.dirty.files.insert((now_ps, file));
        self.order_look(now_ps);
    }

    /// Ages of what is dirty are looked at after a while, if that has not been ordered yet.
    pub(super) fn order_look(&mut self, now_ps: u64) {
        let interval_ps = self.limits.as_ref().map_or(0, |limits| limits.dirty_writeback_ps);
        if !self.dirty.timed && interval_ps > 0 {
            self.dirty.timed = true;
            self.wakes.flush_at_ps = Some(now_ps + interval_ps);
        }
    }

    /// A page is dirty no more, or gone.
    pub(super) fn forget_dirty(&mut self, file: InodeId, index: u64) {
        if !self.dirty.pages.remove(&(file, index)) || self.dirty.pages_of(file).next().is_some() {
            return;
        }
        if let Some(dirtied_ps) = self.file(file).dirtied_ps.take() {
            self.dirty.files.remove(&(dirtied_ps, file));
        }
    }

    /// Dirty pages above which a writer waits, and above which they are written in the background: of
    /// what is free or holds files, once a page or none has come to these (`global_dirtyable_memory`, `domain_dirty_limits`,
    /// mm/page-writeback.c), for the control group too (`mdtc_calc_avail`).
    fn dirty_limits(&self, limits: &Limits, coming: u64) -> (u64, u64) {
        let free = self.frames.free().saturating_sub(coming);
        let files = self.reclaim.file_pages().unwrap_or(self.reclaim.pages()) + coming;
        let left = limits.memory.saturating_sub(self.charged_pages()).saturating_sub(coming);
        let dirtyable = free.saturating_sub(self.watermarks.high).min(left) + files;
        let share = |ratio: f64| ((dirtyable as f64 * ratio) as u64).max(1);
        let (hard, soft) = (share(limits.dirty_ratio), share(limits.dirty_background_ratio));
        // So that something is written before nothing may become dirty (`domain_dirty_limits`).
        let soft = if soft >= hard { hard / 2 } else { soft };
        // Writers are held back between the two already (`dirty_freerun_ceiling`).
        (u64::midpoint(hard, soft), soft)
    }

    /// A page is about to become dirty. With too many, the flusher wakes up, and whoever makes more has to
    /// wait (`balance_dirty_pages`, mm/page-writeback.c): here before the page is dirty, not behind it, so
    /// that of many who wait for few pages none makes his own dirty anew each time.
    pub(super) fn throttle(
        &mut self,
        file: InodeId,
        index: u64,
        work: &mut Vec<Work>,
    ) -> Result<Option<Next>, OsError> {
        if self.is_in_swap(file) {
            return Ok(None);
        }
        if self.holds_back
            && let Some(id) = self.wait_for_room_in_log(work)
        {
            return Ok(Some(Next::Wait(id)));
        }
        let Some(limits) = &self.limits else { return Ok(None) };
        let none = self.dirty.pages.is_empty() && self.dirty.under_way == 0;
        if none || self.dirty.pages.contains(&(file, index)) {
            return Ok(None);
        }
        let dirty = self.dirty.pages.len() as u64 + 1;
        let coming = u64::from(self.cached(file, index).is_none());
        let (hard, soft) = self.dirty_limits(limits, coming);
        self.wakes.flush |= dirty > soft;
        let all = dirty + self.dirty.under_way;
        if self.pauses && self.holds_back && self.readahead.release > Release::V2_6_32 {
            let at = Position { dirty: all, free_run: hard, most: 2 * hard - soft };
            let until_ps = self.pace.pause(self.thread, at, self.now_ps);
            self.counters.throttled_writes += u64::from(until_ps.is_some());
            return Ok(until_ps.map(Next::Pause));
        }
        if all <= hard || !self.holds_back {
            return Ok(None);
        }
        self.counters.throttled_writes += 1;
        if let Some((id, _)) = self.transfers.iter().find(|(_, transfer)| transfer.writes_files()) {
            return Ok(Some(Next::Wait(id)));
        }
        Ok(self.write_oldest(work)?.map(Next::Wait))
    }

    /// Decides something for an access that has faulted before, and whose page was gone again before it could be
    /// used: it is not held back by dirty pages any more. The kernel holds a writer back for one pause at a time
    /// and lets it go on then, so that many who share few pages get on (`balance_dirty_pages`,
    /// mm/page-writeback.c).
    pub fn not_held_back<T>(&mut self, decide: impl FnOnce(&mut Self) -> T) -> T {
        self.holds_back = false;
        let decided = decide(self);
        self.holds_back = true;
        decided
    }

    /// Reclaim finds dirty pages and nothing else: all are to be written
    /// (`wakeup_flusher_threads(WB_REASON_VMSCAN)`).
    pub(super) fn flush_all(&mut self) {
        self.dirty.asked = self.dirty.pages.len() as u64;
        self.wakes.flush |= self.dirty.asked > 0;
    }

    /// The time has come to look for files that have been dirty for long (`wb_check_old_data_flush`).
    pub fn flush_old(&mut self, now_ps: u64) {
        let Some(limits) = &self.limits else { return };
        self.dirty.due_ps = now_ps.checked_sub(limits.dirty_expire_ps);
        let since_ps = self.file_system.as_ref().and_then(FileSystem::dirty_since_ps);
        let metadata_is_due = since_ps.is_some_and(|since_ps| Some(since_ps) <= self.dirty.due_ps);
        self.wakes.flush |= self.dirty.is_due() || metadata_is_due;
        self.dirty.timed = false;
        if !self.dirty.files.is_empty() || since_ps.is_some() {
            self.order_look(now_ps);
        }
    }

    /// The flusher goes on: writes some of what is dirty too long or too much, and has to wait for the
    /// transfer. `None` once it may sleep.
    pub fn flush(&mut self, work: &mut Vec<Work>) -> Result<Option<TransferId>, OsError> {
        if self.limits.is_none() {
            return Ok(None);
        }
        // All that is dirty of a file may be on its way, or wait for a commit: then it is another's turn.
        for _ in 0..MOST_LOOKED_AT {
            if let Some(written) = self.go_on_with_turn(work)? {
                return Ok(Some(written));
            }
            if !self.begin_turn() && !self.begin_round() {
                break;
            }
        }
        self.dirty.asked = 0;
        Ok(self.write_old_metadata(FLUSH_BATCH, work))
    }

    /// Writes more of the file whose turn it is; `None` where its turn is over.
    fn go_on_with_turn(&mut self, work: &mut Vec<Work>) -> Result<Option<TransferId>, OsError> {
        while let Some(mut turn) = self.dirty.turn.filter(|turn| turn.left > 0) {
            let (_, file) = turn.file;
            let range = turn.next..if turn.cycled { turn.from } else { u64::MAX };
            let most = FLUSH_BATCH.min(usize::try_from(turn.left).unwrap_or(usize::MAX));
            let batch: Vec<FilePage> = self.dirty.pages_within(file, range).take(most).collect();
            match batch.last() {
                Some((_, last)) => {
                    turn.next = last + 1;
                    turn.left -= batch.len() as u64;
                    self.dirty.round.iter_mut().for_each(|it| it.left -= batch.len() as u64);
                }
                None if turn.cycled || turn.from == 0 => turn.left = 0,
                None => (turn.next, turn.cycled) = (0, true),
            }
            self.dirty.turn = Some(turn);
            if let Some(state) = self.files.get_mut(&file) {
                state.written_up_to = turn.next;
            }
            if let Some(written) = self.write_batch(batch, work)? {
                return Ok(Some(written));
            }
        }
        Ok(None)
    }

    /// Too much is dirty, or has been for too long: a round begins with the file that has been for longest; of those that have
    /// been for too long, unless there is too much of all. Whether one does.
    fn begin_round(&mut self) -> bool {
        let Some(limits) = &self.limits else { return false };
        let many = self.dirty.pages.len() as u64 > self.dirty_limits(limits, 0).1;
        let files = &self.dirty.files;
        let last = if many || self.dirty.asked > 0 {
            files.last()
        } else {
            let past = self.dirty.due_ps.map(|due_ps| (due_ps, InodeId::MAX));
            past.and_then(|past| files.range(..=past).next_back())
        };
        let (Some(first), Some(last)) = (files.first().copied(), last.copied()) else {
            return false;
        };
        let is_old = self.readahead.release == Release::V2_6_32;
        self.dirty.round = Some(Round {
            last,
            until_ps: self.now_ps.saturating_add(ROUND_PS),
            left: if is_old { ROUND_PAGES_2_6_32 } else { u64::MAX },
        });
        self.begin_turn_of(first);
        true
    }

    /// The next file of the round has its turn; whether there is one, and the round goes on.
    fn begin_turn(&mut self) -> bool {
        let (Some(turn), Some(round)) = (self.dirty.turn, self.dirty.round) else { return false };
        let behind = (Bound::Excluded(turn.file), Bound::Included(round.last));
        let may = round.left > 0 && self.now_ps < round.until_ps && turn.file < round.last;
        let next = if may { self.dirty.files.range(behind).next().copied() } else { None };
        match next {
            Some(file) => self.begin_turn_of(file),
            None => self.dirty.round = None,
        }
        next.is_some()
    }

    fn begin_turn_of(&mut self, file: (u64, InodeId)) {
        let Some(limits) = &self.limits else { return };
        let (hard, soft) = self.dirty_limits(limits, 0);
        let (thresh, least) = (2 * hard - soft, (LEAST_TURN_BYTES / self.page_bytes).max(1));
        let most = (HALF_A_SECOND_BYTES / self.page_bytes).min(thresh / SCOPE);
        let pages = (most + least) / least * least;
        let left = self.dirty.round.map_or(pages, |round| round.left.min(pages));
        let from = self.files.get(&file.1).map_or(0, |state| state.written_up_to);
        self.dirty.turn = Some(Turn { file, left, from, next: from, cycled: false });
    }

    /// Writes pages of the file that has been dirty for longest.
    pub(super) fn write_oldest(
        &mut self,
        work: &mut Vec<Work>,
    ) -> Result<Option<TransferId>, OsError> {
        let Some((_, file)) = self.dirty.files.first().copied() else { return Ok(None) };
        self.write_file(file, work)
    }

    /// Writes some of a file's dirty pages; `None` where there are none but those under way.
    pub(super) fn write_file(
        &mut self,
        file: InodeId,
        work: &mut Vec<Work>,
    ) -> Result<Option<TransferId>, OsError> {
        self.write_range(file, 0..u64::MAX, work)
    }

    /// Writes some of the dirty pages in a range of a file; `None` where there are none but those under way.
    pub(super) fn write_range(
        &mut self,
        file: InodeId,
        range: Range<u64>,
        work: &mut Vec<Work>,
    ) -> Result<Option<TransferId>, OsError> {
        let batch: Vec<FilePage> = self.dirty.pages_within(file, range).take(FLUSH_BATCH).collect();
        self.write_batch(batch, work)
    }

    /// Writes the next batch of dirty pages, file by file and page by page; those that are being written already
    /// are passed over. Also the page that comes behind them; `None` once there are no more. `commits` says that data in
    /// the log are committed first, of which others are passed over.
    pub fn write_dirty(
        &mut self,
        mut pages: Range<FilePage>,
        commits: bool,
        work: &mut Vec<Work>,
    ) -> Result<Option<(TransferId, FilePage)>, OsError> {
        if commits && let Some(id) = self.commit_data(pages.clone(), work) {
            return Ok(Some((id, pages.start)));
        }
        loop {
            let batch: Vec<FilePage> =
                self.dirty.pages.range(pages.clone()).take(FLUSH_BATCH).copied().collect();
            let Some(&(file, index)) = batch.last() else { return Ok(None) };
            pages.start = (file, index + 1);
            if let Some(id) = self.write_batch(batch, work)? {
                self.begin_empty(commits);
                return Ok(Some((id, pages.start)));
            }
        }
    }

    fn write_batch(
        &mut self,
        batch: Vec<FilePage>,
        work: &mut Vec<Work>,
    ) -> Result<Option<TransferId>, OsError> {
        let mut pages = Vec::new();
        for (file, index) in batch {
            let Some(frame) = self.cached(file, index) else {
                self.forget_dirty(file, index);
                continue;
            };
            if self.frames.get(frame).transfer != 0 {
                continue;
            }
            match self.uncommitted(file, index) {
                Some(number) => self.ask_to_commit(number),
                None => pages.push(self.clean_file_page(frame, file, index)?),
            }
        }
        if pages.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.start_write(pages, work)))
    }

    /// Pages of files, clean from now on, begin to be written.
    pub(super) fn start_write(
        &mut self,
        pages: Vec<PageTransfer>,
        work: &mut Vec<Work>,
    ) -> TransferId {
        self.dirty.asked = self.dirty.asked.saturating_sub(pages.len() as u64);
        self.pace.begin(self.dirty.under_way, self.now_ps);
        self.dirty.under_way += pages.len() as u64;
        self.start_transfer(pages, true, false, work)
    }

    /// Pages of files that are dirty, and those on their way to the store.
    pub fn dirty_pages(&self) -> (u64, u64) {
        (self.dirty.pages.len() as u64, self.dirty.under_way)
    }

    /// Pages of files have been written.
    pub(super) fn written(&mut self, pages: u64) {
        self.dirty.under_way -= pages;
        if self.pauses {
            self.pace.written(pages, self.now_ps);
        } else {
            self.pace.pass(self.now_ps);
        }
    }

    /// A dirty file page is about to be written: stores to it fault again.
    pub(super) fn clean_file_page(
        &mut self,
        frame: u64,
        file: InodeId,
        index: u64,
    ) -> Result<PageTransfer, OsError> {
        let store_address = match self.converts_written() {
            true => self.place_ahead(file, index)?,
            false => self.place_for(file, index)?,
        };
        self.file_system.iter_mut().for_each(|system| system.begin_data(store_address));
        self.counters.file_write_backs += 1;
        self.forget_dirty(file, index);
        self.frames.get_mut(frame).dirty = false;
        self.guard(frame);
        Ok(PageTransfer { frame, store_address })
    }

    /// Stores to a page of a file fault again.
    pub(super) fn guard(&mut self, frame: u64) {
        self.file_mappers(frame).into_iter().for_each(|page| self.protect(page, frame));
    }

    /// Virtual pages that map a frame of a file.
    pub(super) fn file_mappers(&self, frame: u64) -> Vec<u64> {
        let Frame { mapped_at, mapped_twice, .. } = self.frames.get(frame);
        let mut pages = Vec::new();
        pages.extend(Some(mapped_at).filter(|page| *page != Frame::UNMAPPED));
        if mapped_twice {
            pages.extend(self.other_mappings(frame, mapped_at));
        }
        pages
    }

    pub(super) fn protect(&mut self, page: u64, frame: u64) {
        self.space.set(page, Pte::Present { frame, writable: false });
        self.effects.push(Effect::Shootdown(page));
    }

    /// Virtual pages beside `first` that map a file's frame. Rare: a search of the mappings.
    pub(super) fn other_mappings(&self, frame: u64, first: u64) -> Vec<u64> {
        let Owner::File(file, index) = self.frames.get(frame).owner else { return Vec::new() };
        let candidates = self.space.pages_of(file, index);
        let maps = |page: &u64| {
            *page != first
                && matches!(self.space.get(*page), Pte::Present { frame: f, .. } if f == frame)
        };
        candidates.into_iter().filter(maps).collect()
    }

    pub(super) fn unmap_everywhere(&mut self, frame: u64) {
        for page in self.file_mappers(frame) {
            self.space.set(page, Pte::None);
            self.effects.push(Effect::Shootdown(page));
        }
        let info = self.frames.get_mut(frame);
        info.mapped_at = Frame::UNMAPPED;
        info.mapped_twice = false;
        self.unlock_unneeded(frame);
    }

    pub(super) fn store_address(&self, file: InodeId, index: u64) -> Option<u64> {
        let state = self.files.get(&file)?;
        if index < state.stored_pages {
            return Some(state.base_address + index * self.page_bytes);
        }
        let extent = self.extents.get(file_key(file, index));
        (extent & extent::HOLDS != 0).then_some(extent & !extent::FLAGS)
    }

    /// Where to write a page of a file: where it is, where it was before it was cut off, or in a
    /// new place.
    pub(super) fn place_for(&mut self, file: InodeId, index: u64) -> Result<u64, OsError> {
        if let Some(address) = self.store_address(file, index) {
            return Ok(address);
        }
        let key = file_key(file, index);
        let address = match self.extents.get(key) {
            0 => self.grow_store(1)?,
            extent => extent & !extent::FLAGS,
        };
        self.take_place(file, index, address, false);
        Ok(address)
    }

    /// A page of a file has this place from now on, if it had none; it has been written there, or will be.
    pub(super) fn take_place(&mut self, file: InodeId, index: u64, address: u64, written: bool) {
        if self.store_address(file, index).is_some() {
            return;
        }
        let key = file_key(file, index);
        let unwritten = self.extents.get(key) & extent::UNWRITTEN != 0;
        self.extents.set(key, address | extent::HOLDS);
        let size_bytes = self.file_size(file).min((index + 1) * self.page_bytes);
        self.change_metadata(|system, now_ps| {
            system.grew(file, size_bytes);
            if unwritten {
                system.converted(file, (index, address), written, now_ps);
            } else {
                system.allocated(file, (index, address), written, now_ps);
            }
        });
    }

    /// The place that is a page's, whether it has been written or is only allocated.
    pub(super) fn block_of(&self, file: InodeId, index: u64) -> Option<u64> {
        self.store_address(file, index).or_else(|| {
            let extent = self.extents.get(file_key(file, index));
            (extent & extent::UNWRITTEN != 0).then_some(extent & !extent::FLAGS)
        })
    }

    /// A page of a file is cut off: its place in the store is free to be written again, but not
    /// while a write to it is under way, which a later one could pass.
    pub(super) fn cut_off(&mut self, file: InodeId, index: u64, being_written: bool) {
        let key = file_key(file, index);
        let extent = self.extents.get(key);
        if let Some(place) = self.store_address(file, index) {
            self.file_system.iter_mut().for_each(|system| system.cut_off_data(place));
        }
        if extent != 0 {
            let kept = if being_written { 0 } else { extent & !extent::FLAGS | extent::FREE };
            self.extents.set(key, kept);
        }
    }
}

#[cfg(test)]
mod tests;
