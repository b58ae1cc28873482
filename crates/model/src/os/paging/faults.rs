//! What a page fault needs.

use super::filling::Need;
use super::*;
use crate::os::readahead::Vma;

impl Paging {
    /// Decides what a fault of the given virtual page needs. `held` says whether some TLB holds a
    /// page, so that it counts as in use.
    pub fn fault(
        &mut self,
        page: u64,
        write: bool,
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        self.in_fault = self.policy == ReclaimPolicy::Generations && self.uses_count(page);
        let next = self.handle(page, write, now_ps, work, held);
        self.in_fault = false;
        if let Ok(Next::Ready(frame)) = next {
            // Somebody else may have mapped what it has read.
            self.tried.remove(&self.thread);
            if self.is_locked(page) {
                self.lock_frame(frame);
            }
        }
        next
    }

    fn handle(
        &mut self,
        page: u64,
        write: bool,
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        let room = self.room_for_huge(page, work, held)?;
        if room == Room::Soon || !self.make_tables(page, work, held)? {
            return Ok(Next::WaitForFrame);
        }
        if room == Room::There
            && let Some(frame) = self.touch_huge(page, work)
        {
            return Ok(Next::Ready(frame));
        }
        if let Pte::Present { frame, .. } = self.space.get(page)
            && self.is_protected(frame)
            && let Some(id) = self.hint_fault(page, frame, now_ps, work)
        {
            return Ok(Next::Wait(id));
        }
        let mapping = self.space.find(page);
        match (self.space.get(page), mapping) {
            (Pte::Present { frame, writable }, _) if writable || !write => {
                self.touch(frame);
                Ok(Next::Ready(frame))
            }
            (Pte::Present { frame, .. }, _)
                if matches!(self.frames.get(frame).owner, Owner::Anonymous(_)) =>
            {
                if self.sets_dirty_bit(page) {
                    self.touch(frame);
                    return Ok(Next::Ready(frame));
                }
                self.write_anonymous(page, frame, now_ps, work, held)
            }
            (Pte::Present { frame, .. }, Some((at, m))) => match m.file {
                Some((file, first)) if m.shared => {
                    self.make_writable(page, frame, (file, first + page - at), now_ps, work)
                }
                _ => self.copy_on_write(page, frame, now_ps, work, held),
            },
            (Pte::Present { frame, .. }, None) => {
                self.space.set(page, Pte::Present { frame, writable: true });
                Ok(Next::Ready(frame))
            }
            (Pte::Swapped(slot), _) => self.swap_in((page, write), slot, now_ps, work, held),
            (
                Pte::None,
                Some((
                    at,
                    Mapping { file: Some((file, first)), shared, pattern, pages, opening, .. },
                )),
            ) => {
                self.reads_by(opening);
                let vma = Vma { first, pages, address: at, pattern };
                if first + page - at >= self.file_pages(file) {
                    return self.first_touch(page, work, held);
                }
                self.file_fault(page, (file, &vma), (write, shared), now_ps, work, held)
            }
            (Pte::None, _) => self.first_touch(page, work, held),
        }
    }

    /// Anonymous memory, touched for the first time: a zeroed frame. It has no copy in the store.
    pub(super) fn first_touch(
        &mut self,
        page: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        let Some(frame) = self.allocate(Owner::Anonymous(page), work, held)? else {
            return Ok(Next::WaitForFrame);
        };
        self.counters.minor_faults += 1;
        let info = self.frames.get_mut(frame);
        info.mapped_at = page;
        info.dirty = true;
        info.young = true;
        self.space.set(page, Pte::Present { frame, writable: true });
        self.clear(frame, work);
        Ok(Next::Ready(frame))
    }

    /// A store to a shared file page that was clean: the page becomes dirty.
    pub(super) fn make_writable(
        &mut self,
        page: u64,
        frame: u64,
        (file, index): (InodeId, u64),
        now_ps: u64,
        work: &mut Vec<Work>,
    ) -> Result<Next, OsError> {
        if let Some(id) = self.direct_call(file) {
            return Ok(Next::Wait(id));
        }
        if let Some(next) = self.throttle(file, index, work)? {
            return Ok(next);
        }
        self.counters.minor_faults += 1;
        self.space.set(page, Pte::Present { frame, writable: true });
        self.effects.push(Effect::Shootdown(page));
        work.push(Work::Path(Stage::PageCache, 1));
        self.mark_dirty(frame, file, index, now_ps);
        Ok(Next::Ready(frame))
    }

    /// A store to an anonymous page that may not be written: as its swap slot has it, or shared with
    /// other processes.
    pub(super) fn write_anonymous(
        &mut self,
        page: u64,
        frame: u64,
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        if self.is_exclusive(frame) {
            return Ok(self.rewrite(page, frame));
        }
        self.copy_on_write(page, frame, now_ps, work, held)
    }

    pub(super) fn copy_on_write(
        &mut self,
        page: u64,
        from: u64,
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        let Some(frame) = self.allocate(Owner::Anonymous(page), work, held)? else {
            return Ok(Next::WaitForFrame);
        };
        // Reclaim for the copy's frame may have taken the original.
        if (self.space.get(page) != Pte::Present { frame: from, writable: false }) {
            self.release(frame);
            return self.handle(page, true, now_ps, work, held);
        }
        self.counters.minor_faults += 1;
        let info = self.frames.get_mut(frame);
        info.mapped_at = page;
        info.dirty = true;
        info.young = true;
        self.space.set(page, Pte::Present { frame, writable: true });
        let original = self.frames.get_mut(from);
        if let Owner::Anonymous(_) = original.owner {
            self.counters.fork_copies += 1;
            self.remove_mapper(from, page);
        } else if original.mapped_at == page {
            original.mapped_at = Frame::UNMAPPED;
        }
        self.unlock_unneeded(from);
        self.effects.push(Effect::Shootdown(page));
        [from, frame].into_iter().for_each(|frame| self.keep(frame));
        work.push(Work::CopyFrame(from, frame));
        Ok(Next::Ready(frame))
    }

    /// A page of a file that has no entry in the page table (`do_read_fault`, `do_cow_fault`,
    /// `do_shared_fault`, mm/memory.c).
    fn file_fault(
        &mut self,
        page: u64,
        (file, vma): (InodeId, &Vma),
        (write, shared): (bool, bool),
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        let index = vma.first + page - vma.address;
        let changes = write && shared;
        if let Some(id) = if changes { self.direct_call(file) } else { self.direct_write(file) } {
            return Ok(Next::Wait(id));
        }
        let in_swap = self.is_in_swap(file);
        let mapped = if in_swap {
            self.map_shmem((file, index), vma, write, work, held)?
        } else if self.limits.is_none() {
            self.map_without_store((file, index), work, held)?
        } else {
            self.map_with_readahead((file, index), vma, write, work, held)?
        };
        let frame = match mapped {
            Next::Ready(frame) => frame,
            wait => return Ok(wait),
        };
        if write
            && shared
            && let Some(next) = self.throttle(file, index, work)?
        {
            return Ok(next);
        }
        self.counters.minor_faults += 1;
        self.use_frame(frame);
        work.push(Work::Path(Stage::PageCache, 1));
        self.map_file_frame(frame, page);
        // Whoever keeps no record of what is dirty lets stores through (`vma_wants_writenotify`, mm/mmap.c).
        let writable = shared && (write || in_swap);
        self.space.set(page, Pte::Present { frame, writable });
        if !write {
            return Ok(Next::Ready(frame));
        }
        if shared {
            self.mark_dirty(frame, file, index, now_ps);
            return Ok(Next::Ready(frame));
        }
        self.copy_on_write(page, frame, now_ps, work, held)
    }

    /// Where nothing is paged, a page of a file is there, or comes to be.
    fn map_without_store(
        &mut self,
        (file, index): (InodeId, u64),
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        match self.cached(file, index) {
            Some(frame) => Ok(Next::Ready(frame)),
            None => self.read_file(file, index, work, held),
        }
    }

    /// Finds a page of a file in the page cache, or reads it, with what readahead finds right; what
    /// lies around it is mapped. When it has read something, the fault begins again, and reads no
    /// more (`filemap_fault`).
    fn map_with_readahead(
        &mut self,
        (file, index): (InodeId, u64),
        vma: &Vma,
        write: bool,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        let around = !write && self.map_around(file, vma, index);
        let (thread, faulting) = (self.thread, (file, index));
        if !around && self.tried.get(&thread) != Some(&faulting) {
            let frame = self.cached(file, index);
            if frame.is_none()
                && let Some(next) = self.fetch(file, index, work, held)?
            {
                if let Next::Arrives(..) = next {
                    self.tried.insert(thread, faulting);
                }
                return Ok(next);
            }
            let arriving = frame.is_some_and(|frame| self.frames.get(frame).reading);
            let need = Need { file, wanted: index..index + 1, work, held };
            let pattern = vma.pattern;
            if !self.fill(need, |readahead, cache| {
                readahead.look_up(cache, index, pattern, arriving);
            })? {
                return Ok(Next::WaitForFrame);
            }
            if frame.is_none() {
                self.count_read(file, index);
            }
            self.tried.insert(thread, faulting);
        }
        let Some(frame) = self.cached(file, index) else {
            self.tried.remove(&thread);
            return Ok(Next::WaitForFrame);
        };
        let info = self.frames.get(frame);
        if info.reading {
            return Ok(Next::Arrives(info.transfer - 1, frame));
        }
        self.tried.remove(&thread);
        if !write && !around && !self.map_around(file, vma, index) {
            self.map_folio(file, vma, index);
        }
        Ok(Next::Ready(frame))
    }

    /// Brings one page of a file into the page cache.
    pub(super) fn read_file(
        &mut self,
        file: InodeId,
        index: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        if let Some(next) = self.fetch(file, index, work, held)? {
            return Ok(next);
        }
        let Some(frame) = self.allocate(Owner::File(file, index), work, held)? else {
            return Ok(Next::WaitForFrame);
        };
        self.cache.set(file_key(file, index), frame);
        let address = self.store_address(file, index);
        let (Some(store_address), true) = (address, self.limits.is_some()) else {
            // In memory from the start, or a hole.
            if address.is_none() {
                self.clear(frame, work);
            }
            work.push(Work::Path(Stage::PageCache, 1));
            return Ok(Next::Ready(frame));
        };
        self.count_read(file, index);
        self.hold(frame);
        let pages = vec![PageTransfer { frame, store_address }];
        Ok(Next::Arrives(self.start_transfer(pages, false, false, work), frame))
    }

    /// Somebody waits for what comes to a frame, or copies it: it stays until all have let go.
    pub fn keep(&mut self, frame: u64) {
        self.frames.keep(frame);
    }

    /// Whoever does the work clears a frame, and lets go of it.
    pub(super) fn clear(&mut self, frame: u64, work: &mut Vec<Work>) {
        self.keep(frame);
        work.push(Work::Clear(frame));
    }

    /// Somebody has what he wanted of a frame.
    pub fn let_go(&mut self, frame: u64) {
        self.frames.let_go(frame);
    }

    /// The frame is about to enter a transfer: it may not be reclaimed meanwhile.
    pub(super) fn hold(&mut self, frame: u64) {
        self.frames.get_mut(frame).transfer = HELD;
    }
}
