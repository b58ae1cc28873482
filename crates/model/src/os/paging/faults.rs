//! What a page fault needs.

use super::*;

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
        if !self.make_tables(page, now_ps, work, held)? {
            return Ok(Next::WaitForFrame);
        }
        let mapping = self.space.find(page);
        match (self.space.get(page), mapping) {
            (Pte::Present { frame, writable }, _) if writable || !write => {
                self.frames.touch(frame, now_ps);
                Ok(Next::Ready(frame))
            }
            (Pte::Present { frame, .. }, _)
                if self.frames.get(frame).owner == Owner::Anonymous(page) =>
            {
                Ok(self.rewrite(page, frame))
            }
            (Pte::Present { frame, .. }, Some((at, m))) => match m.file {
                Some((file, first)) if m.shared => {
                    self.make_writable(page, frame, file, first + page - at, work)
                }
                _ => self.copy_on_write(page, frame, now_ps, work, held),
            },
            (Pte::Present { frame, .. }, None) => {
                self.space.set(page, Pte::Present { frame, writable: true });
                Ok(Next::Ready(frame))
            }
            (Pte::Swapped(slot), _) => self.swap_in((page, write), slot, now_ps, work, held),
            (Pte::None, Some((at, Mapping { file: Some((file, first)), shared, pattern, .. }))) => {
                let index = first + page - at;
                if index >= self.file_size(file).div_ceil(self.page_bytes) {
                    return self.first_touch(page, now_ps, work, held);
                }
                self.file_fault(page, (file, index), (write, shared, pattern), now_ps, work, held)
            }
            (Pte::None, _) => self.first_touch(page, now_ps, work, held),
        }
    }

    /// Anonymous memory, touched for the first time: a zeroed frame. It has no copy in the store.
    pub(super) fn first_touch(
        &mut self,
        page: u64,
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        let Some(frame) = self.allocate(Owner::Anonymous(page), now_ps, work, held)? else {
            return Ok(Next::WaitForFrame);
        };
        self.counters.minor_faults += 1;
        let info = self.frames.get_mut(frame);
        info.mapped_at = page;
        info.dirty = true;
        self.space.set(page, Pte::Present { frame, writable: true });
        work.push(Work::Clear(frame));
        Ok(Next::Ready(frame))
    }

    /// A store to a shared file page that was clean: the page becomes dirty.
    pub(super) fn make_writable(
        &mut self,
        page: u64,
        frame: u64,
        file: FileId,
        index: u64,
        work: &mut Vec<Work>,
    ) -> Result<Next, OsError> {
        self.counters.minor_faults += 1;
        self.space.set(page, Pte::Present { frame, writable: true });
        self.effects.push(Effect::Shootdown(page));
        work.push(Work::Path(Stage::PageCache, 1));
        self.mark_dirty(frame, file, index);
        Ok(self.throttle(work)?.map_or(Next::Ready(frame), Next::Wait))
    }

    pub(super) fn copy_on_write(
        &mut self,
        page: u64,
        from: u64,
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        let Some(frame) = self.allocate(Owner::Anonymous(page), now_ps, work, held)? else {
            return Ok(Next::WaitForFrame);
        };
        // Reclaim for the copy's frame may have taken the original.
        if (self.space.get(page) != Pte::Present { frame: from, writable: false }) {
            self.frames.get_mut(frame).owner = Owner::Free;
            self.frames.release(frame);
            return self.fault(page, true, now_ps, work, held);
        }
        self.counters.minor_faults += 1;
        let original = self.frames.get_mut(from);
        if original.mapped_at == page {
            original.mapped_at = Frame::UNMAPPED;
        }
        let info = self.frames.get_mut(frame);
        info.mapped_at = page;
        info.dirty = true;
        self.space.set(page, Pte::Present { frame, writable: true });
        self.effects.push(Effect::Shootdown(page));
        work.push(Work::CopyFrame(from, frame));
        Ok(Next::Ready(frame))
    }

    pub(super) fn file_fault(
        &mut self,
        page: u64,
        (file, index): (FileId, u64),
        (write, shared, pattern): (bool, bool, Pattern),
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        let Some(frame) = self.cache.get(file_key(file, index)).checked_sub(1) else {
            let window = self.fault_window(file, index, pattern);
            return match self.read_file(file, index, window, now_ps, work, held)? {
                Next::Ready(_) => {
                    let how = (write, shared, pattern);
                    self.file_fault(page, (file, index), how, now_ps, work, held)
                }
                wait => Ok(wait),
            };
        };
        let info = self.frames.get(frame);
        if info.reading {
            return Ok(Next::Wait(info.transfer - 1));
        }
        let state = self.file(file);
        state.fault_misses = state.fault_misses.saturating_sub(1);
        self.counters.minor_faults += 1;
        self.frames.touch(frame, now_ps);
        work.push(Work::Path(Stage::PageCache, 1));
        let info = self.frames.get_mut(frame);
        if info.mapped_at == Frame::UNMAPPED {
            info.mapped_at = page;
        } else if info.mapped_at != page {
            info.mapped_twice = true;
        }
        let writable = write && shared;
        self.space.set(page, Pte::Present { frame, writable });
        if !write {
            return Ok(Next::Ready(frame));
        }
        if shared {
            self.mark_dirty(frame, file, index);
            return Ok(self.throttle(work)?.map_or(Next::Ready(frame), Next::Wait));
        }
        self.copy_on_write(page, frame, now_ps, work, held)
    }

    /// Pages to read for a fault: around it, after it or it alone (Linux
    /// `do_sync_mmap_readahead`, mm/filemap.c).
    pub(super) fn fault_window(
        &mut self,
        file: FileId,
        index: u64,
        pattern: Pattern,
    ) -> (u64, u64) {
        let Some(limits) = &self.limits else { return (index, 1) };
        let window = limits.readahead;
        if window == 0 || pattern == Pattern::Random {
            return (index, 1);
        }
        if pattern == Pattern::Sequential {
            return (index, window);
        }
        let state = self.file(file);
        state.fault_misses = (state.fault_misses + 1).min(10 * LOTS_OF_MISSES);
        if state.fault_misses > LOTS_OF_MISSES {
            return (index, 1);
        }
        (index.saturating_sub(window / 2), window)
    }

    /// Brings a file page into the page cache, with the rest of its window where there is room.
    pub(super) fn read_file(
        &mut self,
        file: FileId,
        index: u64,
        (start, count): (u64, u64),
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        let Some(frame) = self.allocate(Owner::File(file, index), now_ps, work, held)? else {
            return Ok(Next::WaitForFrame);
        };
        self.cache.set(file_key(file, index), frame + 1);
        let address = self.store_address(file, index);
        let (Some(address), true) = (address, self.limits.is_some()) else {
            // In memory from the start, or a hole.
            if address.is_none() {
                work.push(Work::Clear(frame));
            }
            work.push(Work::Path(Stage::PageCache, 1));
            return Ok(Next::Ready(frame));
        };
        self.counters.major_faults += 1;
        self.hold(frame);
        let mut pages = vec![PageTransfer { frame, store_address: address }];
        let end = self.file_size(file).div_ceil(self.page_bytes).min(start + count);
        for near in start..end {
            if near == index || self.cache.get(file_key(file, near)) != 0 {
                continue;
            }
            let Some(store_address) = self.store_address(file, near) else { continue };
            let owner = Owner::File(file, near);
            let Some(frame) = self.allocate(owner, now_ps, work, held)? else { break };
            self.cache.set(file_key(file, near), frame + 1);
            self.hold(frame);
            self.counters.readahead_pages += 1;
            pages.push(PageTransfer { frame, store_address });
        }
        pages.sort_by_key(|page| page.store_address);
        Ok(Next::Wait(self.start_transfer(pages, false, false, work)))
    }

    pub(super) fn swap_in(
        &mut self,
        (page, write): (u64, bool),
        slot: u64,
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        if let Some(frame) = self.slot_frames.get(slot).checked_sub(1) {
            let info = self.frames.get(frame);
            if info.reading {
                return Ok(Next::Wait(info.transfer - 1));
            }
            self.counters.minor_faults += 1;
            work.push(Work::Path(Stage::PageCache, 1));
            self.frames.touch(frame, now_ps);
            let info = self.frames.get_mut(frame);
            info.mapped_at = page;
            // Read-only until stored to, so that a page that stays clean keeps its slot.
            if !write {
                self.space.set(page, Pte::Present { frame, writable: false });
                return Ok(Next::Ready(frame));
            }
            return Ok(self.rewrite(page, frame));
        }
        let Some(frame) = self.allocate(Owner::Anonymous(page), now_ps, work, held)? else {
            return Ok(Next::WaitForFrame);
        };
        self.counters.major_faults += 1;
        let mut pages = vec![self.enter_swap_cache(slot, frame)];
        let cluster = self.limits.as_ref().map_or(1, |limits| limits.swap_cluster);
        let first = slot / cluster * cluster;
        for near in first..first + cluster {
            let Some(owner) = self.slot_pages.get(near).checked_sub(1) else { continue };
            if near == slot || self.slot_frames.get(near) != 0 {
                continue;
            }
            let owner = Owner::Anonymous(owner);
            let Some(frame) = self.allocate(owner, now_ps, work, held)? else { break };
            self.counters.readahead_pages += 1;
            pages.push(self.enter_swap_cache(near, frame));
        }
        self.counters.swap_ins += pages.len() as u64;
        pages.sort_by_key(|page| page.store_address);
        Ok(Next::Wait(self.start_transfer(pages, false, true, work)))
    }

    /// A store to an anonymous page that is as its swap slot has it: the slot's copy gets old. The
    /// slot is kept only while a transfer still writes to it.
    pub(super) fn rewrite(&mut self, page: u64, frame: u64) -> Next {
        let info = self.frames.get_mut(frame);
        info.dirty = true;
        if info.transfer == 0
            && let Some(slot) = std::mem::take(&mut info.slot).checked_sub(1)
        {
            self.forget_slot(slot);
        }
        self.space.set(page, Pte::Present { frame, writable: true });
        self.effects.push(Effect::Shootdown(page));
        Next::Ready(frame)
    }

    pub(super) fn forget_slot(&mut self, slot: u64) {
        self.slot_frames.set(slot, 0);
        self.slot_pages.set(slot, 0);
        self.free_slots.push(slot);
    }

    /// The frame is about to enter a transfer: it may not be reclaimed meanwhile.
    pub(super) fn hold(&mut self, frame: u64) {
        self.frames.get_mut(frame).transfer = u32::MAX;
    }

    pub(super) fn enter_swap_cache(&mut self, slot: u64, frame: u64) -> PageTransfer {
        self.hold(frame);
        self.slot_frames.set(slot, frame + 1);
        self.frames.get_mut(frame).slot = slot + 1;
        PageTransfer { frame, store_address: self.slot_address(slot) }
    }
}
