//! Frames given out, and taken back when they get few: watermarks, the kernel's thread for it, and
//! whoever needs a frame. Which pages go is for [`crate::os::reclaim`] to say.

use super::*;
use crate::os::reclaim::{Evicted, Memory, Reclaimer, Walked};

/// Pages that whoever needs a frame reclaims at once (`SWAP_CLUSTER_MAX`, include/linux/swap.h).
pub(super) const RECLAIM_BATCH: u64 = 32;

/// How often it tries before it does without (`MAX_RECLAIM_RETRIES`, mm/page_alloc.c).
const MOST_TRIES: u32 = 16;

/// Free frames, in pages, at which reclaim begins and ends (mm/page_alloc.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watermarks {
    /// Whoever needs a frame has to reclaim.
    pub min: u64,
    /// The kernel's thread wakes up.
    pub low: u64,
    /// It sleeps again.
    pub high: u64,
}

impl Watermarks {
    /// Of so much memory that is given out (`calculate_min_free_kbytes`,
    /// `__setup_per_zone_wmarks`, mm/page_alloc.c); `scale` is the share between one watermark and
    /// the next, if that is more than a quarter of the lowest.
    /// With huge pages more is kept free.
    pub fn new(managed_pages: u64, page_bytes: u64, (scale, makes_huge): (f64, bool)) -> Self {
        let managed_kib = managed_pages * (page_bytes >> 10);
        let min_kib = (managed_kib * 16).isqrt().clamp(128, 1 << 18);
        // Linux runs in no memory so small that this counts.
        let min = ((min_kib << 10) / page_bytes).min(managed_pages / 8);
        let least = if makes_huge { huge::least_free_pages(managed_pages, page_bytes) } else { 0 };
        let min = min.max(least);
        let step = (min / 4).max((managed_pages as f64 * scale) as u64);
        Watermarks { min, low: min + step, high: min + 2 * step }
    }
}

/// What other threads of the kernel have to do now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wakes {
    /// Frames are few (`wakeup_kswapd`).
    pub reclaim: bool,
    /// Dirty pages are many, or in reclaim's way (`wb_start_background_writeback`,
    /// `wakeup_flusher_threads`).
    pub flush: bool,
    /// Dirty pages are to be looked at by their age then (`wb_wakeup_delayed`).
    pub flush_at_ps: Option<u64>,
    /// Swap slots have become free of which the device is to be told (`si->discard_work`).
    pub discard: bool,
    /// A transaction of the file system's journal is to be committed (`jbd2_log_start_commit`).
    pub commit: bool,
    /// The running transaction is to be looked at by its age then (`j_commit_timer`).
    pub commit_at_ps: Option<u64>,
    /// Entries are to be taken away then, to find hot pages (`numa_next_scan`).
    pub scan_at_ps: Option<u64>,
}

impl Wakes {
    /// Whether there is anything.
    #[inline]
    pub fn any(self) -> bool {
        let now = self.reclaim || self.flush || self.discard || self.commit;
        let later = [self.flush_at_ps, self.commit_at_ps, self.scan_at_ps];
        now || later.iter().any(Option::is_some)
    }
}

/// Carries out what reclaim decides.
struct Evictor<'a> {
    paging: &'a mut Paging,
    held: &'a dyn Fn(u64) -> bool,
    swapped: Vec<PageTransfer>,
    written: Vec<PageTransfer>,
    /// What pages that enter the extended buffer cache take.
    programs: Vec<Work>,
    /// Huge pages that are to leave, or were split for it: the first frame of each, and what of it goes to swap.
    huge: Vec<(u64, Vec<PageTransfer>)>,
    /// What is written for a control group stays in the swap cache until it is looked at again.
    by_group: bool,
    pages: u64,
    /// Pages that were to go, and dirty ones of files among them, which have to be written by others.
    tried: u64,
    dirty: u64,
    error: Option<OsError>,
}

/// What came of reclaim.
struct Came {
    /// Whether the kernel's thread has to go on.
    goes_on: bool,
    /// Pages that go, those that were to, and dirty ones of files among them, which others have to write.
    pages: u64,
    tried: u64,
    dirty: u64,
}

impl Memory for Evictor<'_> {
    fn take_references(&mut self, folio: u64) -> u64 {
        if !self.paging.frames.get(folio).young {
            return 0;
        }
        let info = self.paging.frames.get_mut(folio);
        info.young = false;
        let page = info.mapped_at;
        u64::from(self.paging.uses_count(page))
    }

    fn is_in_use(&self, folio: u64) -> bool {
        let info = self.paging.frames.get(folio);
        match info.owner {
            Owner::File(file, _) => info.slot != 0 || self.paging.space.maps(file),
            _ => true,
        }
    }

    fn is_dirty_file(&self, folio: u64) -> bool {
        let info = self.paging.frames.get(folio);
        info.dirty && matches!(info.owner, Owner::File(file, _) if !self.paging.is_in_swap(file))
    }

    fn held(&self, folio: u64) -> bool {
        let info = self.paging.frames.get(folio);
        match info.owner {
            Owner::Anonymous(_) => self.paging.mappers(folio).into_iter().any(self.held),
            _ => info.mapped_at != Frame::UNMAPPED && (self.held)(info.mapped_at),
        }
    }

    fn evict(&mut self, folio: u64, shadow: Shadow, writes: bool) -> Evicted {
        let info = self.paging.frames.get(folio);
        let is_busy = match info.huge {
            true => self.paging.is_huge_busy(folio),
            false => info.transfer != 0 || info.users > 0,
        };
        if is_busy || self.error.is_some() {
            let is_awaited = self.by_group && info.leaves && info.transfer != 0 && info.slot != 0;
            return if is_awaited { Evicted::Awaited } else { Evicted::Busy };
        }
        self.tried += 1;
        let evicted = match info.owner {
            Owner::Anonymous(first) if info.huge => self.evict_huge(folio, first),
            Owner::Anonymous(_) => self.evict_anonymous(folio, shadow),
            Owner::File(file, index) => self.evict_file(folio, (file, index), shadow, writes),
            Owner::Free | Owner::Kernel => Ok(Evicted::Busy),
        };
        let evicted = evicted.unwrap_or_else(|error| {
            self.error = Some(error);
            Evicted::Busy
        });
        if matches!(evicted, Evicted::Freed | Evicted::Writing) {
            let of_huge = || self.huge.last().map_or(0, |(_, written)| written.len() as u64);
            self.pages += if info.huge { of_huge() } else { 1 };
            self.paging.counters.readahead_wasted += u64::from(info.cached.ahead);
        }
        evicted
    }

    fn free_pages(&self) -> u64 {
        let of_huge: usize = self.huge.iter().map(|(_, pages)| pages.len()).sum();
        let leaving = (self.swapped.len() + self.written.len() + of_huge) as u64;
        self.paging.frames.free() + self.paging.leaving + leaving
    }

    fn walk(
        &mut self,
        tables: Option<&BTreeSet<u64>>,
        anonymous: bool,
        visit: &mut dyn FnMut(Walked),
    ) {
        self.paging.walk_tables(tables, anonymous, visit);
    }

    fn look_around(
        &mut self,
        folio: u64,
        entries: u64,
        listed: &dyn Fn(u64) -> bool,
    ) -> Option<Walked> {
        self.paging.look_around(folio, entries, listed)
    }

    fn waits_for_write(&mut self, folio: u64) -> bool {
        let is_dirty = self.is_dirty_file(folio);
        let info = self.paging.frames.get_mut(folio);
        let is_written = info.transfer != 0 && info.transfer != HELD && !info.reading;
        if is_dirty || is_written {
            info.leaves = true;
            self.tried += 1;
            self.dirty += u64::from(!is_written);
        }
        is_dirty || is_written
    }

    fn is_in_swap_cache(&self, folio: u64) -> bool {
        self.paging.frames.get(folio).slot != 0
    }
}

impl Evictor<'_> {
    fn evict_anonymous(&mut self, frame: u64, shadow: Shadow) -> Result<Evicted, OsError> {
        let paging = &mut *self.paging;
        let mappers = paging.mappers(frame);
        if paging.frames.get(frame).lazy {
            // Nothing of it is kept (`ttu_anon_folio` of what is not swap-backed, mm/rmap.c).
            for page in mappers {
                paging.space.take(page);
                paging.effects.push(Effect::Shootdown(page));
            }
            paging.forget_strays(frame);
            paging.frames.release(frame);
            return Ok(Evicted::Freed);
        }
        let Some(slot) = paging.slot_for(frame)? else { return Ok(Evicted::Busy) };
        for page in &mappers {
            paging.space.set(*page, Pte::Swapped(slot));
            paging.effects.push(Effect::Shootdown(*page));
        }
        paging.sharing.enter_slot(slot, mappers.len() as u64);
        paging.forget_strays(frame);
        let info = paging.frames.get_mut(frame);
        info.mapped_at = Frame::UNMAPPED;
        info.sharers = 0;
        if info.dirty {
            info.dirty = false;
            self.swapped.push(paging.enter_swap_cache(slot, frame));
            return Ok(Evicted::Writing);
        }
        paging.slot_frames.set(slot, 0);
        paging.slot_shadows.set(slot, shadow.0);
        paging.frames.release(frame);
        Ok(Evicted::Freed)
    }

    /// A huge page goes to swap, from where its pages come back one by one.
    fn evict_huge(&mut self, head: u64, first: u64) -> Result<Evicted, OsError> {
        let paging = &mut *self.paging;
        let slots = paging.slots_for_huge(head)?;
        if slots.is_empty() {
            return Ok(Evicted::Busy);
        }
        let young = paging.frames.get(head).young;
        paging.dissolve(first);
        let mut written = Vec::with_capacity(slots.len());
        paging.effects.push(Effect::Shootdown(first));
        for (page, slot) in (first..).zip(&slots) {
            let frame = head + page - first;
            paging.space.set(page, Pte::Swapped(*slot));
            paging.sharing.enter_slot(*slot, 1);
            let info = paging.frames.get_mut(frame);
            (info.mapped_at, info.dirty) = (Frame::UNMAPPED, false);
            info.leaves = self.by_group;
            written.push(paging.enter_swap_cache(*slot, frame));
        }
        self.huge.push((head, written));
        (head + slots.len() as u64..head + Frame::HUGE)
            .for_each(|frame| paging.frames.get_mut(frame).young = young);
        Ok(Evicted::Writing)
    }

    /// A page of a file of memory goes to swap (`shmem_writeout`, mm/shmem.c), or is dropped where swap has it as it is.
    fn evict_shmem(
        &mut self,
        frame: u64,
        file: InodeId,
        index: u64,
        shadow: Shadow,
    ) -> Result<Evicted, OsError> {
        let paging = &mut *self.paging;
        let Frame { slot, dirty, .. } = paging.frames.get(frame);
        let key = file_key(file, index);
        if !dirty {
            paging.unmap_everywhere(frame);
            paging.cache.remove(key);
            paging.shadows.set(key, shadow.0);
            paging.leave_swap_cache(slot);
            paging.frames.release(frame);
            return Ok(Evicted::Freed);
        }
        let Some(slot) = paging.slot_for(frame)? else { return Ok(Evicted::Busy) };
        paging.unmap_everywhere(frame);
        paging.extents.set(key, paging.slot_address(slot) | extent::HOLDS);
        paging.frames.get_mut(frame).dirty = false;
        self.swapped.push(paging.enter_swap_cache(slot, frame));
        Ok(Evicted::Writing)
    }

    fn evict_file(
        &mut self,
        frame: u64,
        (file, index): FilePage,
        shadow: Shadow,
        writes: bool,
    ) -> Result<Evicted, OsError> {
        if self.paging.is_in_swap(file) {
            return self.evict_shmem(frame, file, index, shadow);
        }
        let paging = &mut *self.paging;
        paging.unmap_everywhere(frame);
        if !paging.frames.get(frame).dirty {
            paging.cache.remove(file_key(file, index));
            paging.shadows.set(file_key(file, index), shadow.0);
            self.programs.extend(paging.enter_buffer_cache(file, index, Some(frame)));
            paging.frames.release(frame);
            return Ok(Evicted::Freed);
        }
        if writes && paging.uncommitted(file, index).is_none() {
            let page = paging.clean_file_page(frame, file, index)?;
            paging.hold(frame);
            self.written.push(page);
            return Ok(Evicted::Writing);
        }
        paging.frames.get_mut(frame).leaves = true;
        self.dirty += 1;
        Ok(Evicted::Dirty)
    }
}

impl Paging {
    /// Whether uses of a virtual page keep it in memory (`vma_has_recency`, include/linux/mm_inline.h).
    pub(super) fn uses_count(&self, page: u64) -> bool {
        self.space.find(page).is_none_or(|(_, mapping)| self.has_recency(&mapping))
    }

    /// Whether uses through a mapping count.
    pub(super) fn has_recency(&self, mapping: &Mapping) -> bool {
        let is_reused = |(file, _)| self.files.get(&file).is_none_or(|state| state.reused);
        self.policy.counts_uses(mapping.pattern) && mapping.file.is_none_or(is_reused)
    }

    /// A frame for a page, which has been evicted before if it left a shadow. `None` where all are in
    /// transfer.
    pub(super) fn allocate(
        &mut self,
        owner: Owner,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Option<u64>, OsError> {
        let Owner::File(file, index) = owner else {
            let frame = self.allocate_again(owner, Shadow::default(), work, held)?;
            if let Some(frame) = frame {
                self.reclaim.is_new(frame);
            }
            return Ok(frame);
        };
        let key = file_key(file, index);
        let shadow = Shadow(self.shadows.get(key));
        let frame = self.allocate_again(owner, shadow, work, held)?;
        if frame.is_some() && shadow != Shadow::default() {
            self.shadows.set(key, 0);
        }
        Ok(frame)
    }

    /// A frame for a page that comes back with the shadow of its last stay.
    pub(super) fn allocate_again(
        &mut self,
        owner: Owner,
        shadow: Shadow,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Option<u64>, OsError> {
        let Some(limits) = &self.limits else {
            let frame = if self.nodes > 1 {
                self.allocate_of_nodes(owner)
            } else {
                self.frames.allocate(owner)
            };
            return frame.map(Some).ok_or(self.out_of_memory());
        };
        let most = limits.memory;
        if owner != Owner::Kernel
            && self.charged_pages() >= most
            && !self.charge(most, work, held)?
        {
            return Ok(None);
        }
        if self.prefilled && self.frames.next_is_fresh() {
            // It still holds an unrelated clean page, dropped at the cost of its removal.
            work.push(Work::Path(Stage::PageCache, 1));
        }
        let Watermarks { min, low, high } = self.watermarks;
        self.wakes.reclaim |= self.frames.free() <= low;
        // What is on its way out is as good as free: else each page that is wanted while the store
        // writes would send off another batch, and in the end all of memory.
        let mut tries = 0;
        while self.frames.free() + self.leaving <= min && tries < MOST_TRIES {
            let reclaimed = self.counters.reclaimed_pages;
            self.reclaim(Reclaimer::Direct { high_pages: high }, work, held)?;
            // It tries again where all has been used of late.
            let progress = self.counters.reclaimed_pages > reclaimed || !self.transfers.is_empty();
            tries += if progress { MOST_TRIES } else { 1 };
        }
        if self.frames.free() <= min && self.leaving > 0 {
            return Ok(None);
        }
        let Some(frame) = self.frames.allocate(owner) else {
            return if self.transfers.is_empty() { Err(self.out_of_memory()) } else { Ok(None) };
        };
        let kind = match owner {
            Owner::File(file, _) if !self.is_in_swap(file) => Kind::File,
            Owner::Kernel => return Ok(Some(frame)),
            _ => Kind::Anonymous,
        };
        self.reclaim.add(frame, 0, kind, shadow, self.in_fault);
        Ok(Some(frame))
    }

    /// Has the program's memory control group give up pages until another may come (`try_charge_memcg`,
    /// mm/memcontrol.c); whether one may, or whoever needs it has to wait until what leaves is gone.
    fn charge(
        &mut self,
        most_pages: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<bool, OsError> {
        let mut tries = 0;
        while self.charged_pages() >= most_pages + self.leaving && tries < MOST_TRIES {
            let reclaimed = self.counters.reclaimed_pages;
            self.reclaim(Reclaimer::Group, work, held)?;
            let progress = self.counters.reclaimed_pages > reclaimed || !self.transfers.is_empty();
            tries += if progress { MOST_TRIES } else { 1 };
        }
        if self.charged_pages() < most_pages {
            return Ok(true);
        }
        if self.transfers.is_empty() {
            let capacity_bytes = most_pages * self.page_bytes;
            return Err(OsError::LimitReached {
                capacity_bytes,
                swap_bytes: self.full_swap_bytes(),
                locked_bytes: self.locked_bytes(),
            });
        }
        Ok(false)
    }

    /// A frame holds nothing any more.
    pub(super) fn release(&mut self, frame: u64) {
        self.forget_lock(frame);
        if self.ages_pages() {
            self.reclaim.remove(frame);
        }
        self.frames.release(frame);
    }

    /// The kernel's thread for reclaim goes on by a pass; whether another follows.
    pub fn balance(
        &mut self,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<bool, OsError> {
        let who = Reclaimer::Background { high_pages: self.watermarks.high };
        let before = self.counters.reclaimed_pages;
        let goes_on = self.reclaim(who, work, held)?;
        self.counters.background_reclaimed_pages += self.counters.reclaimed_pages - before;
        Ok(goes_on)
    }

    /// Reclaims: clean pages are free at once, dirty ones once they have been written. Whether the
    /// kernel's thread has to go on.
    pub(super) fn reclaim(
        &mut self,
        who: Reclaimer,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<bool, OsError> {
        self.reclaim_pages(who, RECLAIM_BATCH, work, held)
    }

    /// The same, of so many pages; the kernel's thread knows itself how many it wants.
    pub(super) fn reclaim_pages(
        &mut self,
        who: Reclaimer,
        wanted: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<bool, OsError> {
        let in_background = matches!(who, Reclaimer::Background { .. });
        let shrink = |lists: &mut Reclaim, evictor: &mut Evictor<'_>| match who {
            Reclaimer::Background { high_pages } => lists.balance(high_pages, evictor),
            _ => {
                lists.shrink(who, wanted, evictor);
                false
            }
        };
        let by_group = who == Reclaimer::Group;
        let Came { goes_on, pages, tried, dirty } = self.evicting(by_group, work, held, shrink)?;
        let wakes_flusher = !in_background || self.policy.thread_wakes_flusher();
        if wakes_flusher && dirty > 0 && (dirty == tried || pages == 0) {
            self.flush_all();
            if pages == 0 && !in_background {
                // Nothing else is left: it does not wait for the flusher to come.
                self.write_oldest(work)?;
            }
        }
        Ok(goes_on)
    }

    /// Folios are to go at once, as a program says (`reclaim_folio_list`, mm/vmscan.c).
    pub(super) fn page_out(
        &mut self,
        folios: &[u64],
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<(), OsError> {
        self.evicting(false, work, held, |lists, evictor| {
            folios.iter().for_each(|folio| lists.page_out(*folio, evictor));
            false
        })?;
        Ok(())
    }

    /// Evicts what `shrink` chooses, and begins to write what has to be written; what came of it.
    fn evicting(
        &mut self,
        by_group: bool,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
        shrink: impl FnOnce(&mut Reclaim, &mut Evictor<'_>) -> bool,
    ) -> Result<Came, OsError> {
        let mut lists = std::mem::replace(&mut self.reclaim, Reclaim::nothing());
        let mut evictor = Evictor {
            paging: self,
            held,
            swapped: Vec::new(),
            written: Vec::new(),
            programs: Vec::new(),
            huge: Vec::new(),
            by_group,
            pages: 0,
            tried: 0,
            dirty: 0,
            error: None,
        };
        let goes_on = shrink(&mut lists, &mut evictor);
        let Evictor { swapped, written, programs, huge, pages, tried, dirty, error, .. } = evictor;
        for (head, _) in &huge {
            lists.split(*head, &huge::others_of(*head));
        }
        self.reclaim = lists;
        if let Some(error) = error {
            return Err(error);
        }
        self.counters.reclaimed_pages += pages;
        if pages > 0 {
            work.push(Work::Path(Stage::PageCache, pages as u32));
        }
        let programs = self.owed.drain(..).chain(programs);
        for program in programs {
            work.extend([Work::Path(Stage::BufferCache, 1), program]);
        }
        let of_huge = huge.into_iter().map(|(_, pages)| (pages, true, !by_group));
        let all = [(swapped, true, true), (written, false, true)];
        for (pages, swap, leaves) in of_huge.chain(all) {
            if !pages.is_empty() {
                self.counters.swap_outs += if swap { pages.len() as u64 } else { 0 };
                let leaving = if leaves { pages.len() as u32 } else { 0 };
                let id = self.start_transfer(pages, true, swap, work);
                self.transfers[id].leaving = leaving;
                self.leaving += u64::from(leaving);
            }
        }
        Ok(Came { goes_on, pages, tried, dirty })
    }

    /// A page that reclaim had written leaves memory.
    pub(super) fn leave(&mut self, frame: u64) {
        let shadow = self.reclaim.leave(frame).0;
        let info = self.frames.get(frame);
        match (info.owner, info.slot.checked_sub(1)) {
            (Owner::File(file, index), _) => {
                self.cache.remove(file_key(file, index));
                self.shadows.set(file_key(file, index), shadow);
                self.leave_swap_cache(info.slot);
                let program = self.enter_buffer_cache(file, index, None);
                self.owed.extend(program);
            }
            (_, Some(slot)) => {
                self.slot_frames.set(slot, 0);
                self.slot_shadows.set(slot, shadow);
            }
            _ => {}
        }
        self.frames.release(frame);
    }

    /// What other threads of the kernel have to do now.
    #[inline]
    pub fn take_wakes(&mut self) -> Wakes {
        std::mem::take(&mut self.wakes)
    }
}

#[cfg(test)]
mod tests;
