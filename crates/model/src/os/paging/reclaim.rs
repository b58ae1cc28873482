//! Dirty pages, and frames taken back from those who used them least.

use super::*;

impl Paging {
    pub(super) fn mark_dirty(&mut self, frame: u64, file: FileId, index: u64) {
        self.frames.get_mut(frame).dirty = true;
        if self.limits.is_some() && !processes::is_object(file) {
            self.dirty.insert((file, index));
        }
    }

    /// Too many dirty pages: starts writing some; past the hard limit the writer has to wait.
    pub(super) fn throttle(&mut self, work: &mut Vec<Work>) -> Result<Option<TransferId>, OsError> {
        let Some(limits) = &self.limits else { return Ok(None) };
        let (hard, soft) = (limits.dirty, limits.dirty_background);
        let dirty = self.dirty.len() as u64;
        if dirty <= soft {
            return Ok(None);
        }
        let batch: Vec<(FileId, u64)> =
            self.dirty.iter().take(RECLAIM_BATCH as usize).copied().collect();
        Ok(self.write_back(&batch, work)?.filter(|_| dirty > hard))
    }

    pub(super) fn write_back(
        &mut self,
        batch: &[(FileId, u64)],
        work: &mut Vec<Work>,
    ) -> Result<Option<TransferId>, OsError> {
        let mut pages = Vec::new();
        for (file, index) in batch {
            let Some(frame) = self.cache.get(file_key(*file, *index)).checked_sub(1) else {
                self.dirty.remove(&(*file, *index));
                continue;
            };
            if self.frames.get(frame).transfer != 0 {
                continue;
            }
            pages.push(self.clean_file_page(frame, *file, *index)?);
        }
        if pages.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.start_transfer(pages, true, false, work)))
    }

    /// A dirty file page is about to be written: stores to it fault again.
    pub(super) fn clean_file_page(
        &mut self,
        frame: u64,
        file: FileId,
        index: u64,
    ) -> Result<PageTransfer, OsError> {
        let store_address = self.place_for(file, index)?;
        self.dirty.remove(&(file, index));
        self.counters.file_write_backs += 1;
        let info = self.frames.get_mut(frame);
        info.dirty = false;
        let (mapped_at, twice) = (info.mapped_at, info.mapped_twice);
        if mapped_at != Frame::UNMAPPED {
            self.protect(mapped_at, frame);
        }
        if twice {
            self.other_mappings(frame, mapped_at).into_iter().for_each(|p| self.protect(p, frame));
        }
        Ok(PageTransfer { frame, store_address })
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
        let info = self.frames.get(frame);
        let mut pages = Vec::new();
        if info.mapped_at != Frame::UNMAPPED {
            pages.push(info.mapped_at);
        }
        if info.mapped_twice {
            pages.extend(self.other_mappings(frame, info.mapped_at));
        }
        for page in pages {
            self.space.set(page, Pte::None);
            self.effects.push(Effect::Shootdown(page));
        }
        let info = self.frames.get_mut(frame);
        info.mapped_at = Frame::UNMAPPED;
        info.mapped_twice = false;
    }

    pub(super) fn allocate(
        &mut self,
        owner: Owner,
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Option<u64>, OsError> {
        if let Some(limits) = &self.limits {
            if self.prefilled && self.frames.next_is_fresh() {
                // It still holds an unrelated clean page, dropped at the cost of its removal.
                work.push(Work::Path(Stage::PageCache, 1));
            }
            // What is on its way out is as good as free: else each page that is wanted while the
            // store writes would send off another batch, and in the end all of memory.
            if self.frames.free() + self.leaving <= limits.low_watermark {
                self.reclaim(RECLAIM_BATCH, now_ps, work, held)?;
            }
        }
        match self.frames.allocate(owner, now_ps) {
            Some(frame) => Ok(Some(frame)),
            None if self.limits.is_some() && !self.transfers.is_empty() => Ok(None),
            None => Err(self.out_of_memory()),
        }
    }

    /// Reclaims the least recently used pages: clean ones at once, dirty ones once written.
    pub(super) fn reclaim(
        &mut self,
        count: u64,
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<(), OsError> {
        if self.limits.is_none() {
            return Err(self.out_of_memory());
        }
        let (mut swapped, mut written) = (Vec::new(), Vec::new());
        let mut in_use = Vec::new();
        let mut taken = 0;
        while taken < count {
            let Some(frame) = self.frames.least_recent() else { break };
            let info = self.frames.get(frame);
            let used = match info.owner {
                Owner::Anonymous(_) => self.mappers(frame).into_iter().any(held),
                _ => info.mapped_at != Frame::UNMAPPED && held(info.mapped_at),
            };
            if used && in_use.len() < 64 {
                self.frames.touch(frame, now_ps);
                in_use.push(frame);
                continue;
            }
            taken += 1;
            self.counters.readahead_wasted += u64::from(info.cached.ahead);
            match info.owner {
                Owner::Anonymous(page) => self.evict_anonymous(frame, page, &mut swapped)?,
                Owner::File(file, index) => {
                    self.unmap_everywhere(frame);
                    if info.dirty {
                        written.push(self.clean_file_page(frame, file, index)?);
                        // It may be among the candidates twice.
                        self.hold(frame);
                    } else {
                        self.cache.set(file_key(file, index), 0);
                        self.frames.release(frame);
                    }
                }
                Owner::Free | Owner::Kernel => {}
            }
        }
        in_use.into_iter().for_each(|frame| self.frames.enter(frame));
        self.counters.reclaimed_pages += taken;
        if taken > 0 {
            work.push(Work::Path(Stage::PageCache, taken as u32));
        }
        self.counters.swap_outs += swapped.len() as u64;
        for (pages, swap) in [(swapped, true), (written, false)] {
            if !pages.is_empty() {
                let leaving = pages.len() as u32;
                let id = self.start_transfer(pages, true, swap, work);
                self.transfers[id].leaving = leaving;
                self.leaving += u64::from(leaving);
            }
        }
        Ok(())
    }

    pub(super) fn evict_anonymous(
        &mut self,
        frame: u64,
        page: u64,
        swapped: &mut Vec<PageTransfer>,
    ) -> Result<(), OsError> {
        let info = self.frames.get(frame);
        let mappers = self.mappers(frame);
        let slot = match info.slot.checked_sub(1) {
            Some(slot) => slot,
            None => self.take_slot(page)?,
        };
        for page in &mappers {
            self.space.set(*page, Pte::Swapped(slot));
            self.effects.push(Effect::Shootdown(*page));
        }
        self.sharing.enter_slot(slot, mappers.len() as u64);
        self.forget_strays(frame);
        let info = self.frames.get_mut(frame);
        info.mapped_at = Frame::UNMAPPED;
        info.sharers = 0;
        if info.dirty {
            info.dirty = false;
            swapped.push(self.enter_swap_cache(slot, frame));
        } else {
            self.slot_frames.set(slot, 0);
            self.frames.release(frame);
        }
        Ok(())
    }

    pub(super) fn take_slot(&mut self, page: u64) -> Result<u64, OsError> {
        let slot = match self.free_slots.pop() {
            Some(slot) => slot,
            None => {
                let store_bytes = self.limits.as_ref().map_or(0, |limits| limits.store_bytes);
                let next = self.swap_start.checked_sub(self.page_bytes);
                let Some(address) = next.filter(|address| *address >= self.store_end) else {
                    return Err(OsError::StoreFull { capacity_bytes: store_bytes });
                };
                self.swap_start = address;
                (store_bytes - address) / self.page_bytes - 1
            }
        };
        self.slot_pages.set(slot, page + 1);
        Ok(slot)
    }

    pub(super) fn free_slot(&mut self, slot: u64) {
        if self.sharing.leave_slot(slot) > 0 {
            return;
        }
        if let Some(frame) = self.slot_frames.get(slot).checked_sub(1) {
            let info = self.frames.get_mut(frame);
            if info.mapped_at != Frame::UNMAPPED {
                // Another process has the page again, and the slot its clean copy.
                return;
            }
            info.slot = 0;
            info.owner = Owner::Free;
            if info.transfer == 0 && info.mapped_at == Frame::UNMAPPED {
                self.frames.release(frame);
            }
        }
        self.forget_slot(slot);
    }

    /// Swap grows from the store's end downwards, so that neighbours in time are neighbours there.
    pub(super) fn slot_address(&self, slot: u64) -> u64 {
        let store_bytes = self.limits.as_ref().map_or(0, |limits| limits.store_bytes);
        store_bytes - (slot + 1) * self.page_bytes
    }

    pub(super) fn store_address(&self, file: FileId, index: u64) -> Option<u64> {
        let state = self.files.get(&file)?;
        if index < state.stored_pages {
            return Some(state.base_address + index * self.page_bytes);
        }
        let extent = self.extents.get(file_key(file, index));
        (extent & extent::HOLDS != 0).then_some(extent & !extent::FLAGS)
    }

    /// Where to write a page of a file: where it is, where it was before it was cut off, or in a
    /// new place.
    fn place_for(&mut self, file: FileId, index: u64) -> Result<u64, OsError> {
        if let Some(address) = self.store_address(file, index) {
            return Ok(address);
        }
        let key = file_key(file, index);
        let address = match self.extents.get(key) {
            0 => self.grow_store(1)?,
            extent => extent & !extent::FLAGS,
        };
        self.extents.set(key, address | extent::HOLDS);
        Ok(address)
    }

    /// A page of a file is cut off: its place in the store is free to be written again, but not
    /// while a write to it is under way, which a later one could pass.
    pub(super) fn cut_off(&mut self, file: FileId, index: u64, being_written: bool) {
        let key = file_key(file, index);
        let extent = self.extents.get(key);
        if extent != 0 {
            let kept = if being_written { 0 } else { extent & !extent::FLAGS | extent::FREE };
            self.extents.set(key, kept);
        }
    }
}

#[cfg(test)]
mod tests;
