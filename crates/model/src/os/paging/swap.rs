//! Swap: its slots, and what is read from it, ahead of need as well.

use super::*;
use crate::os::reclaim::Shadow;
use crate::os::release::Release;
use serde::{Deserialize, Serialize};

/// What the kernel reads from swap beside the page that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SwapReadahead {
    /// All slots around its own, as many as `swap_cluster_pages` says, however few of them were used
    /// (`swapin_readahead`, mm/swap_state.c): Linux before 3.14.
    FixedCluster,
    /// The slots around its own, the more of them were used the more of them
    /// (`swap_cluster_readahead`, mm/swap_state.c): all of Linux from 3.14 to 4.13, and later Linux where a
    /// swap device is a disk.
    Cluster,
    /// The pages around it in its mapping (`swap_vma_readahead`).
    VirtualAddress,
}

/// The key of the one window where readahead is by slots.
const OF_SLOTS: u64 = u64::MAX;

/// Hits that a mapping counts at most (`SWAP_RA_HITS_MAX`, mm/swap_state.c, with pages of 4 KiB).
const MOST_HITS: u64 = 63;

/// Pages that are read at once at most around a page in its mapping (`SWAP_RA_ORDER_CEILING`, mm/swap_state.c).
const MOST_BY_ADDRESS: u64 = 32;

/// How readahead from swap has gone of late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SwapWindow {
    /// Slot or virtual page of the last read.
    last: u64,
    /// Pages of the last window.
    pages: u64,
    /// Pages read ahead that were used since.
    hits: u64,
}

impl SwapWindow {
    /// As `swapin_readahead_hits` and `GET_SWAP_RA_VAL` begin.
    const NEW: SwapWindow = SwapWindow { last: 0, pages: 0, hits: 4 };

    /// The slots to be read with one (`swap_cluster_readahead`).
    fn cluster(&mut self, slot: u64, most: u64) -> Vec<u64> {
        let pages = self.next_pages(slot, most);
        if std::mem::take(&mut self.hits) == 0 {
            self.last = slot;
        }
        self.pages = pages;
        let first = slot & !(pages - 1);
        (first..first + pages).collect()
    }

    /// A page is used that was in memory already, read ahead or not; at which virtual page, where readahead goes by these
    /// (`swap_update_readahead`, mm/swap_state.c).
    fn hit(&mut self, ahead: bool, at: Option<u64>) {
        let most = if at.is_some() { MOST_HITS } else { u64::MAX };
        self.hits = (self.hits + u64::from(ahead)).min(most);
        self.last = at.unwrap_or(self.last);
    }

    /// Pages of the next window (`__swapin_nr_pages`, mm/swap_state.c).
    fn next_pages(self, at: u64, most: u64) -> u64 {
        let near = at == self.last.wrapping_add(1) || at.wrapping_add(1) == self.last;
        let pages = match self.hits {
            0 if !near => 1,
            0 => 2,
            hits => (hits + 2).next_power_of_two().max(4),
        };
        pages.min(most).max(self.pages / 2)
    }
}

impl Paging {
    /// A page that is in a swap slot faults (`do_swap_page`, mm/memory.c).
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
                return Ok(Next::Arrives(info.transfer - 1, frame));
            }
            self.counters.minor_faults += 1;
            work.push(Work::Path(Stage::PageCache, 1));
            let (mapping, window) = self.swap_window(page);
            window.hit(info.cached.ahead, (!mapping.is_empty()).then_some(page));
            // Read-only until stored to, so that a page that stays clean keeps its slot; but see `sets_dirty_bit`.
            self.space.set(page, Pte::Present { frame, writable: false });
            self.sharing.leave_slot(slot);
            self.add_mapper(frame, page);
            self.use_frame(frame);
            self.reclaim.comes_from_swap(frame);
            if write {
                return self.write_anonymous(page, frame, now_ps, work, held);
            }
            let is_scarce = self.swap_area.as_ref().is_some_and(|area| area.is_half_full());
            if (is_scarce || self.is_locked(page)) && self.is_exclusive(frame) {
                self.give_up_slot(frame);
                if self.maps_swapped() && self.frames.get(frame).dirty {
                    self.own(frame, page);
                    self.space.set(page, Pte::Present { frame, writable: true });
                }
            }
            return Ok(Next::Ready(frame));
        }
        let shadow = Shadow(self.slot_shadows.get(slot));
        let Some(frame) = self.allocate_again(Owner::Anonymous(page), shadow, work, held)? else {
            return Ok(Next::WaitForFrame);
        };
        self.counters.major_faults += 1;
        let page_read = self.enter_swap_cache(slot, frame);
        let near = self.swap_ahead(page, slot);
        let id = self.read_swap(page_read, near, work, held)?;
        Ok(Next::Arrives(id, frame))
    }

    /// Reads a page from its slot, and with it those of slots that have one and are not read yet.
    pub(super) fn read_swap(
        &mut self,
        page: PageTransfer,
        near: Vec<u64>,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<TransferId, OsError> {
        let mut pages = vec![page];
        for slot in near {
            let Some(owner) = self.owner_of_slot(slot).filter(|_| self.is_away(slot)) else {
                continue;
            };
            let Some(page) = self.bring_ahead(slot, owner, work, held)? else { break };
            pages.push(page);
        }
        self.counters.swap_ins += pages.len() as u64;
        pages.sort_by_key(|page| page.store_address);
        Ok(self.start_transfer(pages, false, true, work))
    }

    /// Whether what a slot has is not in memory, nor on its way there.
    pub(super) fn is_away(&self, slot: u64) -> bool {
        self.slot_frames.get(slot) == 0
    }

    /// A frame for what a slot has, to be read ahead of need; `None` where there is no room.
    pub(super) fn bring_ahead(
        &mut self,
        slot: u64,
        owner: Owner,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Option<PageTransfer>, OsError> {
        let frame = match owner {
            Owner::File(..) => self.allocate(owner, work, held)?,
            _ => {
                let shadow = Shadow(self.slot_shadows.get(slot));
                self.allocate_again(owner, shadow, work, held)?
            }
        };
        let Some(frame) = frame else { return Ok(None) };
        self.counters.readahead_pages += 1;
        self.frames.get_mut(frame).cached.ahead = true;
        Ok(Some(self.enter_swap_cache(slot, frame)))
    }

    /// Pages of anonymous memory are wanted soon: what is in swap is read, page by page (`swapin_walk_pmd_entry`,
    /// mm/madvise.c, since 3.9).
    pub(super) fn need_swapped(
        &mut self,
        pages: Range<u64>,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<(), OsError> {
        for page in self.space.touched(pages.start, pages.end - pages.start) {
            let Pte::Swapped(slot) = self.space.get(page) else { continue };
            let is_of_file = self.space.find(page).is_some_and(|(_, it)| it.file.is_some());
            if is_of_file || !self.is_away(slot) {
                continue;
            }
            let owner = Owner::Anonymous(page);
            let Some(page) = self.bring_ahead(slot, owner, work, held)? else { break };
            self.read_swap(page, Vec::new(), work, held)?;
        }
        Ok(())
    }

    /// What a slot has a page of.
    fn owner_of_slot(&self, slot: u64) -> Option<Owner> {
        let of_file = self.slot_files.get(slot).checked_sub(1);
        of_file
            .map(|key| Owner::File((key >> 36) as InodeId, key & ((1 << 36) - 1)))
            .or_else(|| Some(Owner::Anonymous(self.slot_pages.get(slot).checked_sub(1)?)))
    }

    /// The window that a page's readahead goes by, and the pages of its mapping.
    fn swap_window(&mut self, page: u64) -> (Range<u64>, &mut SwapWindow) {
        let by_address = matches!(
            &self.limits,
            Some(limits) if limits.swap_readahead == SwapReadahead::VirtualAddress
        );
        let (key, pages) = if by_address {
            let found = self.space.find(page);
            let (at, pages) = found.map_or((page & !511, 512), |(at, m)| (at, m.pages));
            (at, at..at + pages)
        } else {
            (OF_SLOTS, 0..0)
        };
        (pages, self.swap_windows.entry(key).or_insert(SwapWindow::NEW))
    }

    /// Slots to be read with one that is needed.
    fn swap_ahead(&mut self, page: u64, slot: u64) -> Vec<u64> {
        let most = self.limits.as_ref().map_or(1, |limits| limits.swap_cluster);
        if most == 1 {
            return Vec::new();
        }
        if self.reads_fixed_clusters() {
            return self.fixed_cluster(slot, most);
        }
        let (mapping, window) = self.swap_window(page);
        if mapping.is_empty() {
            return window.cluster(slot, most);
        }
        let before = *window;
        let pages = before.next_pages(page, most.min(MOST_BY_ADDRESS));
        *window = SwapWindow { last: page, pages, hits: 0 };
        // Not beyond the mapping or the page-table page (`swap_vma_ra_win`).
        let first = if page == before.last + 1 {
            page
        } else if page + 1 == before.last {
            (page + 1).saturating_sub(pages)
        } else {
            page.saturating_sub((pages - 1) / 2)
        };
        let (table, end) = (page & !511, first + pages);
        let near = first.max(mapping.start).max(table)..end.min(mapping.end).min(table + 512);
        let slot_of = |page| match self.space.get(page) {
            Pte::Swapped(slot) => Some(slot),
            _ => None,
        };
        near.filter_map(slot_of).collect()
    }

    /// Slots to be read with one of a file of memory (`shmem_swapin_cluster`, mm/shmem.c).
    pub(super) fn cluster_of(&mut self, slot: u64) -> Vec<u64> {
        let most = self.limits.as_ref().map_or(1, |limits| limits.swap_cluster);
        match most {
            1 => Vec::new(),
            _ if self.reads_fixed_clusters() => self.fixed_cluster(slot, most),
            _ => self.window_of_slots().cluster(slot, most),
        }
    }

    fn reads_fixed_clusters(&self) -> bool {
        matches!(
            &self.limits,
            Some(limits) if limits.swap_readahead == SwapReadahead::FixedCluster
        )
    }

    /// The slots of the block of so many that a slot is in, up to the first on either side that has
    /// nothing (`valid_swaphandles`, mm/swapfile.c, until 3.4).
    fn fixed_cluster(&self, slot: u64, most: u64) -> Vec<u64> {
        let first = slot & !(most - 1);
        let is_taken = |near: &u64| self.owner_of_slot(*near).is_some();
        let above = (slot + 1..first + most).take_while(is_taken);
        (first..slot).rev().take_while(is_taken).chain(above).collect()
    }

    fn window_of_slots(&mut self) -> &mut SwapWindow {
        self.swap_windows.entry(OF_SLOTS).or_insert(SwapWindow::NEW)
    }

    /// What was read ahead of a file of memory is used.
    pub(super) fn hit_of_slots(&mut self) {
        self.window_of_slots().hits += 1;
    }

    /// The hardware finds the entry of a page without the dirty bit as it stores there, and sets it: what was given back is
    /// kept, and what swap has is newer in memory, and will be written to the same slot. Whether it was so; then the entry
    /// allows stores.
    pub fn sets_dirty_bit(&mut self, page: u64) -> bool {
        let Pte::Present { frame, writable: false } = self.space.get(page) else { return false };
        let Frame { lazy, slot, owner, .. } = self.frames.get(frame);
        let is_its_own = owner == Owner::Anonymous(page) && self.is_exclusive(frame);
        if lazy {
            self.keep_after_all(frame);
        } else if slot != 0 && is_its_own && self.maps_swapped() {
            let info = self.frames.get_mut(frame);
            (info.dirty, info.leaves) = (true, false);
        } else {
            return false;
        }
        self.space.set(page, Pte::Present { frame, writable: true });
        true
    }

    /// A load maps what has come from swap so that it can be stored to without a further fault (`do_swap_page`, mm/memory.c,
    /// since 6.11).
    fn maps_swapped(&self) -> bool {
        self.policy.release().is_none_or(|release| release >= Release::V6_18)
    }

    /// Memory is to have the only copy of an anonymous page (`folio_free_swap`, mm/swapfile.c): its slot is kept only while a
    /// transfer still writes to it.
    fn give_up_slot(&mut self, frame: u64) {
        let info = self.frames.get_mut(frame);
        if info.transfer == 0
            && let Some(slot) = std::mem::take(&mut info.slot).checked_sub(1)
        {
            info.dirty = true;
            self.forget_slot(slot);
        }
    }

    /// A store to an anonymous page that is as its swap slot has it: the slot's copy gets old.
    pub(super) fn rewrite(&mut self, page: u64, frame: u64) -> Next {
        self.give_up_slot(frame);
        let info = self.frames.get_mut(frame);
        info.dirty = true;
        info.leaves = false;
        self.own(frame, page);
        self.space.set(page, Pte::Present { frame, writable: true });
        self.effects.push(Effect::Shootdown(page));
        Next::Ready(frame)
    }

    /// The slot of what a frame holds, a new one where it has none; none where swap is full, so that it stays
    /// (`folio_alloc_swap`, mm/swapfile.c).
    pub(super) fn slot_for(&mut self, frame: u64) -> Result<Option<u64>, OsError> {
        let Frame { slot, owner, .. } = self.frames.get(frame);
        match slot.checked_sub(1) {
            Some(slot) => Ok(Some(slot)),
            None => self.take_slot(owner),
        }
    }

    /// A slot for what has none, which is then its owner's; none where swap has a size of its own, and is full.
    pub(super) fn take_slot(&mut self, owner: Owner) -> Result<Option<u64>, OsError> {
        let slot = loop {
            let free = match &mut self.swap_area {
                Some(area) => area.take(),
                None => self.free_slots.pop(),
            };
            let mut passed_by = |slot| {
                self.swap_area.is_none()
                    && self.swap_clusters.as_mut().is_some_and(|it| it.passes_by(slot))
            };
            match free {
                Some(slot) if passed_by(slot) => {}
                Some(slot) => break slot,
                None if self.swap_area.is_none() && self.grow_swap(1) => {
                    break self.slots_handed_out() - 1;
                }
                None => match self.swap_clusters.as_mut().and_then(|it| it.give_up()) {
                    Some((cluster, passed_by)) => self.give_free_cluster(cluster, passed_by),
                    None if self.swap_area.is_some() => return Ok(None),
                    None => return Err(self.store_full()),
                },
            }
        };
        if self.swap_area.is_none() {
            self.swap_clusters.iter_mut().for_each(|it| it.use_slot(slot));
        }
        match owner {
            Owner::File(file, index) => self.slot_files.set(slot, file_key(file, index) + 1),
            Owner::Anonymous(page) => self.slot_pages.set(slot, page + 1),
            Owner::Free | Owner::Kernel => {}
        }
        Ok(Some(slot))
    }

    /// Files have met swap.
    pub(super) fn store_full(&self) -> OsError {
        let capacity_bytes = self.limits.as_ref().map_or(0, |limits| limits.store_bytes);
        match self.swap_area {
            Some(_) => OsError::SwapReached { left_bytes: self.swap_start, capacity_bytes },
            None => OsError::StoreFull { capacity_bytes },
        }
    }

    /// Swap, where it has a size of its own and is full.
    pub(super) fn full_swap_bytes(&self) -> Option<u64> {
        let area = self.swap_area.as_ref().filter(|area| area.is_full())?;
        Some(area.slots() * self.page_bytes)
    }

    pub(super) fn swap_full(&self) -> OsError {
        OsError::SwapFull { capacity_bytes: self.slots_handed_out() * self.page_bytes }
    }

    /// Swap takes so many pages more of the store, where there are as many.
    pub(super) fn grow_swap(&mut self, pages: u64) -> bool {
        let next = self.swap_start.checked_sub(pages * self.page_bytes);
        let Some(address) = next.filter(|address| *address >= self.store_end) else { return false };
        self.swap_start = address;
        true
    }

    /// Slots that swap has, or has ever had where it has no size of its own.
    pub(super) fn slots_handed_out(&self) -> u64 {
        let store_bytes = self.limits.as_ref().map_or(0, |limits| limits.store_bytes);
        (store_bytes - self.swap_start) / self.page_bytes
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
                self.release(frame);
            }
        }
        self.forget_slot(slot);
    }

    pub(super) fn forget_slot(&mut self, slot: u64) {
        self.slot_frames.set(slot, 0);
        self.slot_pages.set(slot, 0);
        if self.slot_files.get(slot) != 0 {
            self.slot_files.set(slot, 0);
        }
        self.slot_shadows.set(slot, 0);
        if let Some(area) = &mut self.swap_area {
            match (area.give_back(slot), &mut self.swap_clusters) {
                (Some(cluster), Some(clusters)) => clusters.wait(cluster),
                (Some(cluster), None) => area.give_cluster(cluster),
                (None, _) => {}
            }
        } else {
            self.free_slots.push(slot);
            let handed_out = self.slots_handed_out();
            if let Some(clusters) = &mut self.swap_clusters {
                clusters.free_slot(slot, handed_out);
            }
        }
        self.wakes.discard |= self.swap_clusters.as_ref().is_some_and(|it| it.is_wanted());
    }

    pub(super) fn enter_swap_cache(&mut self, slot: u64, frame: u64) -> PageTransfer {
        self.hold(frame);
        self.slot_frames.set(slot, frame + 1);
        let info = self.frames.get_mut(frame);
        info.slot = slot + 1;
        if let Owner::File(file, index) = info.owner {
            self.cache.set(file_key(file, index), frame);
        }
        PageTransfer { frame, store_address: self.slot_address(slot) }
    }

    /// A frame holds no copy of a slot any more, where it held one.
    pub(super) fn leave_swap_cache(&mut self, slot_plus_1: u64) {
        if let Some(slot) = slot_plus_1.checked_sub(1) {
            self.slot_frames.set(slot, 0);
        }
    }

    /// The slot at an address.
    pub(super) fn slot_at(&self, address: u64) -> u64 {
        let store_bytes = self.limits.as_ref().map_or(0, |limits| limits.store_bytes);
        (store_bytes - address) / self.page_bytes - 1
    }

    /// Swap grows from the store's end downwards, so that neighbours in time are neighbours there.
    pub(super) fn slot_address(&self, slot: u64) -> u64 {
        let store_bytes = self.limits.as_ref().map_or(0, |limits| limits.store_bytes);
        store_bytes - (slot + 1) * self.page_bytes
    }
}

#[cfg(test)]
impl Paging {
    /// Slots that nobody has, of those that were ever had.
    pub(super) fn free_slots(&self) -> u64 {
        let mut area = self.swap_area.clone();
        let left = area.as_mut().map(|area| std::iter::from_fn(|| area.take()).count());
        left.unwrap_or(self.free_slots.len()) as u64
    }
}

#[cfg(test)]
mod tests;
