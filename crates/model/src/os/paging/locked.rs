//! Memory that a program has locked (mlock): it is in none of the lists that reclaim takes from
//! (mm/mlock.c of Linux 6.18, whose unevictable list is here the pages in no list), and stays until nobody who maps it
//! has it locked any more. What is locked, or asked for, is brought to memory page by page (`populate_vma_page_range`,
//! mm/gup.c).

use super::*;
use crate::os::reclaim::{Kind, Shadow};
use crate::os::release::Release;
use tierscope_workload::op::LOCK_ALL;

/// What is locked.
#[derive(Clone, Debug, Default)]
pub(super) struct Locks {
    /// Pages that stay in memory.
    pages: u64,
    /// How each process locks what it maps from now on (`mm->def_flags`), if it does.
    of_new: BTreeMap<u64, Lock>,
    /// Processes that have all memory locked which no call has mapped: a program's image and its stack.
    all_unmapped: BTreeSet<u64>,
    /// What is locked of such memory by itself: ranges by their first page.
    unmapped: BTreeMap<u64, u64>,
}

impl Locks {
    fn has_unmapped(&self, process: u64, page: u64) -> bool {
        let mut until = self.unmapped.range(..=page);
        let by_itself = until.next_back().is_some_and(|(_, end)| page < *end);
        by_itself || self.all_unmapped.contains(&process)
    }

    fn set_unmapped(&mut self, pages: Range<u64>, is_locked: bool) {
        let touching = self.unmapped.range(..pages.end).rev();
        let touching: Vec<Range<u64>> = touching
            .map(|(start, end)| *start..*end)
            .take_while(|range| range.end > pages.start)
            .collect();
        for Range { start, end } in touching {
            self.unmapped.remove(&start);
            if start < pages.start {
                self.unmapped.insert(start, pages.start);
            }
            if end > pages.end {
                self.unmapped.insert(pages.end, end);
            }
        }
        if is_locked && !pages.is_empty() {
            self.unmapped.insert(pages.start, pages.end);
        }
    }
}

/// How pages are brought to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Populate {
    /// As their mappings let a program use them, but where these bring no page before it is touched.
    AsMapped,
    /// As loads would (`MADV_POPULATE_READ`).
    Read,
    /// As stores would (`MADV_POPULATE_WRITE`).
    Write,
}

impl Paging {
    /// Pages that count against what the program may have.
    pub(super) fn charged_pages(&self) -> u64 {
        self.reclaim.pages() + self.locks.as_ref().map_or(0, |locks| locks.pages)
    }

    /// What is locked in memory, in bytes.
    pub fn locked_bytes(&self) -> u64 {
        self.locks.as_ref().map_or(0, |locks| locks.pages * self.page_bytes)
    }

    /// How a new mapping is locked, which a call makes with these flags.
    pub(super) fn lock_of_new(&mut self, page: u64, flags: u64) -> Lock {
        let process = self.process_of(page);
        let of_process = self.locks.as_ref().and_then(|locks| locks.of_new.get(&process).copied());
        if flags & MAP_LOCKED == 0 {
            return of_process.unwrap_or(Lock::No);
        }
        self.locks.get_or_insert_default();
        // With either, it is brought to memory (`do_mmap`, mm/mmap.c), unless all is locked as it is touched.
        of_process.unwrap_or(Lock::All)
    }

    /// Whether the pages of the mapping at an address come to memory with it.
    pub fn comes_at_once(&self, address: u64) -> bool {
        let mapping = self.space.find(address / self.page_bytes);
        self.locks.is_some() && mapping.is_some_and(|(_, mapping)| mapping.lock == Lock::All)
    }

    /// Locks a range, or lets go of it; the whole pages that have some of it.
    pub fn lock(&mut self, address: u64, length: u64, lock: Lock) {
        let start = address / self.page_bytes;
        let end = address.saturating_add(length).div_ceil(self.page_bytes).max(start);
        if lock != Lock::No || self.locks.is_some() {
            self.lock_pages(start..end, lock);
        }
    }

    /// Locks all memory of a process, as these flags of [`LOCK_ALL`] say, or none without; the pages that are to be
    /// brought to memory now (`apply_mlockall_flags`).
    pub fn lock_all(&mut self, process: u64, flags: u64) -> Range<u64> {
        let [current, future, on_fault] = LOCK_ALL;
        let lock = if flags & on_fault == 0 { Lock::All } else { Lock::OnFault };
        let pages = self.pages_of_process(process);
        if flags == 0 && self.locks.is_none() {
            return 0..0;
        }
        let of_new = &mut self.locks.get_or_insert_default().of_new;
        of_new.remove(&process);
        if flags & future != 0 {
            of_new.insert(process, lock);
        }
        if flags & (current | future) == future {
            return 0..0;
        }
        self.forget_unmapped(process);
        if flags & current == 0 {
            self.lock_mappings(pages, Lock::No);
            return 0..0;
        }
        self.locks.get_or_insert_default().all_unmapped.insert(process);
        self.lock_mappings(pages.clone(), lock);
        pages
    }

    fn lock_pages(&mut self, pages: Range<u64>, lock: Lock) {
        let mapped: Vec<(u64, Mapping)> = self.mappings_within(pages.clone()).collect();
        let locks = self.locks.get_or_insert_default();
        locks.set_unmapped(pages.clone(), lock != Lock::No);
        mapped.iter().for_each(|(at, it)| locks.set_unmapped(*at..at + it.pages, false));
        self.lock_mappings(pages, lock);
    }

    fn lock_mappings(&mut self, pages: Range<u64>, lock: Lock) {
        let is_locked = lock != Lock::No;
        let count = pages.end - pages.start;
        self.advise_mappings(pages.start, count, |mapping| mapping.lock = lock);
        for page in self.space.touched(pages.start, count) {
            let Pte::Present { frame, .. } = self.space.get(page) else { continue };
            if is_locked {
                self.lock_frame(frame);
            } else {
                self.unlock_unneeded(frame);
            }
        }
    }

    /// A process has ended, or runs another program.
    pub(super) fn forget_locks(&mut self, process: u64) {
        self.locks.iter_mut().for_each(|locks| _ = locks.of_new.remove(&process));
        self.forget_unmapped(process);
    }

    fn forget_unmapped(&mut self, process: u64) {
        let pages = self.pages_of_process(process);
        if let Some(locks) = &mut self.locks {
            locks.all_unmapped.remove(&process);
            locks.set_unmapped(pages, false);
        }
    }

    /// A range is mapped, or no more: what was locked of it by itself is not.
    pub(super) fn forget_unmapped_in(&mut self, pages: Range<u64>) {
        self.locks.iter_mut().for_each(|locks| locks.set_unmapped(pages.clone(), false));
    }

    /// Says what a program may do with a range from now on; the parts of it whose pages are to be brought to memory: private
    /// memory that is locked, and can be stored to only now (`mprotect_fixup`, mm/mprotect.c, since 4.2).
    pub fn protect_mappings(&mut self, address: u64, length: u64, flags: u64) -> Vec<Range<u64>> {
        let rights = mappings::rights_of(flags);
        let start = address / self.page_bytes;
        let count = length.div_ceil(self.page_bytes);
        let pages = start..start.saturating_add(count);
        let brings = |(_, mapping): &(u64, Mapping)| {
            mapping.lock == Lock::All && !mapping.shared && mapping.rights < Rights::Write
        };
        let is_old = self.readahead.release == Release::V2_6_32;
        let parts = if self.locks.is_none() || rights != Rights::Write || is_old {
            Vec::new()
        } else {
            let parts = self.mappings_within(pages.clone()).filter(brings);
            parts.map(|(at, it)| at.max(pages.start)..(at + it.pages).min(pages.end)).collect()
        };
        self.advise_mappings(start, count, |mapping| mapping.rights = rights);
        parts
    }

    /// The mappings that have pages of a range, with their first pages.
    pub(super) fn mappings_within(
        &self,
        pages: Range<u64>,
    ) -> impl Iterator<Item = (u64, Mapping)> + '_ {
        let before = self.space.find(pages.start).filter(|(at, _)| *at < pages.start);
        before.into_iter().chain(self.space.mappings_in(pages))
    }

    /// Whether a page that is mapped at a virtual page has to stay.
    #[inline]
    pub(super) fn is_locked(&self, page: u64) -> bool {
        self.locks.as_ref().is_some_and(|locks| match self.space.find(page) {
            Some((_, mapping)) => mapping.lock != Lock::No,
            None => locks.has_unmapped(self.process_of(page), page),
        })
    }

    /// Whether any of a range is locked.
    pub(super) fn has_locked(&self, start: u64, pages: u64) -> bool {
        let mut within = self.mappings_within(start..start.saturating_add(pages));
        self.locks.is_some() && within.any(|(_, mapping)| mapping.lock != Lock::No)
    }

    /// What a frame holds stays in memory (`mlock_folio`).
    pub(super) fn lock_frame(&mut self, frame: u64) {
        let head = self.frames.get(frame).head(frame);
        let info = self.frames.get_mut(head);
        if std::mem::replace(&mut info.locked, true) {
            return;
        }
        info.leaves = false;
        let pages = if info.huge { Frame::HUGE } else { 1 };
        if let Some(locks) = &mut self.locks {
            locks.pages += pages;
        }
        self.counters.locked_pages += pages;
        if self.ages_pages() {
            self.reclaim.remove(head);
        }
    }

    /// A virtual page maps a frame from now on, whose lock is that of another place.
    pub(super) fn lock_as_mapped(&mut self, page: u64, frame: u64) {
        if self.is_locked(page) {
            self.lock_frame(frame);
        } else {
            self.unlock_unneeded(frame);
        }
    }

    /// Somebody who mapped a frame does so no more, or has it locked no more: if nobody has, it may leave like any
    /// (`__munlock_folio`).
    pub(super) fn unlock_unneeded(&mut self, frame: u64) {
        let head = self.frames.get(frame).head(frame);
        if self.locks.is_none() || !self.frames.get(head).locked {
            return;
        }
        if self.mapped_by(head).into_iter().any(|page| self.is_locked(page)) {
            return;
        }
        let Frame { owner, huge, .. } = self.frames.get(head);
        self.forget_lock(head);
        if self.limits.is_none() {
            return self.add_to_lists(head, owner);
        }
        let kind = match owner {
            Owner::File(file, _) if !self.is_in_swap(file) => Kind::File,
            Owner::Free | Owner::Kernel => return,
            _ => Kind::Anonymous,
        };
        let order = if huge { Frame::HUGE.trailing_zeros() as u8 } else { 0 };
        self.reclaim.add(head, order, kind, Shadow::default(), false);
    }

    /// A frame is nobody's any more, or nobody has it locked.
    pub(super) fn forget_lock(&mut self, frame: u64) {
        let info = self.frames.get_mut(frame);
        if !info.locked {
            return;
        }
        info.locked = false;
        let pages = if info.huge { Frame::HUGE } else { 1 };
        if let Some(locks) = &mut self.locks {
            locks.pages -= pages;
        }
    }

    /// Virtual pages that map a frame.
    fn mapped_by(&self, frame: u64) -> Vec<u64> {
        match self.frames.get(frame).owner {
            Owner::Anonymous(_) => self.mappers(frame),
            _ => self.file_mappers(frame),
        }
    }

    /// The next page of a range that has to be brought to memory, and whether as a store would. Memory that nothing maps is
    /// left out, but where it is locked by itself.
    pub fn next_to_populate(&self, pages: Range<u64>, how: Populate) -> Option<(u64, bool)> {
        let mut page = pages.start;
        while page < pages.end {
            let Some((at, mapping)) = self.space.find(page) else {
                let gap = self.space.gap(page);
                let within = page..gap.end.min(pages.end);
                if let Some(next) = self.next_unmapped(within.clone()) {
                    return Some((next, true));
                }
                page = within.end;
                continue;
            };
            let end = pages.end.min(at + mapping.pages);
            // Nothing is there behind the end of a file.
            let past = mapping.file.map_or(end, |(file, first)| {
                end.min((at + self.file_pages(file)).saturating_sub(first))
            });
            if let Some(write) = self.populates(&mapping, how) {
                let lacks = |page: &u64| match self.space.get(*page) {
                    Pte::Present { writable, .. } => write && !writable,
                    _ => true,
                };
                if let Some(next) = (page..past).find(lacks) {
                    return Some((next, write));
                }
            }
            page = end;
        }
        None
    }

    /// The next page of memory that no call has mapped, and that is locked by itself.
    fn next_unmapped(&self, pages: Range<u64>) -> Option<u64> {
        let unmapped = &self.locks.as_ref()?.unmapped;
        let before = unmapped.range(..pages.start).next_back();
        let ranges = before.into_iter().chain(unmapped.range(pages.clone()));
        let is_there = |page: &u64| matches!(self.space.get(*page), Pte::Present { .. });
        let mut all = ranges.flat_map(|(start, end)| pages.start.max(*start)..pages.end.min(*end));
        all.find(|page| !is_there(page))
    }

    /// Whether pages of a mapping are brought to memory, and whether as stores would. Since 2.6.38 what is shared is not made
    /// dirty (`populate_vma_page_range`).
    fn populates(&self, mapping: &Mapping, how: Populate) -> Option<bool> {
        let is_writable = mapping.rights == Rights::Write;
        let dirties_shared = self.readahead.release == Release::V2_6_32;
        match how {
            _ if mapping.rights == Rights::None => None,
            Populate::AsMapped if mapping.lock == Lock::OnFault => None,
            Populate::AsMapped => Some(is_writable && (!mapping.shared || dirties_shared)),
            Populate::Read => Some(false),
            Populate::Write => is_writable.then_some(true),
        }
    }
}

#[cfg(test)]
mod tests;
