//! Which blocks a file has, as `fallocate` changes it (`ext4_fallocate`, fs/ext4/extents.c): blocks that are allocated
//! without being written, holes that are made, and ranges that are taken out of a file or put into it.
//!
//! What has not been written reads as zeros without the store; its extent is marked as unwritten until its block is.

use super::*;
use tierscope_workload::op::fallocate;

impl Paging {
    /// What is under way of a range of a file, for which whoever changes its blocks waits.
    pub fn busy_within(&self, file: InodeId, pages: Range<u64>) -> Option<TransferId> {
        self.direct_call(file).or_else(|| self.writing(file, pages.clone())).or_else(|| {
            let within = |page: &PageTransfer| match self.frames.get(page.frame).owner {
                Owner::File(of, index) => of == file && pages.contains(&index),
                _ => false,
            };
            let reads = |it: &Transfer| {
                !it.write && it.moves == Moves::Pages && it.pages.iter().any(within)
            };
            self.transfers.iter().find(|(_, it)| reads(it)).map(|(id, _)| id)
        })
    }

    /// The frame that has a page of a file, where nothing is being read into it.
    pub fn frame_of_page(&self, file: InodeId, index: u64) -> Option<u64> {
        self.cached(file, index).filter(|frame| !self.frames.get(*frame).reading)
    }

    /// Whether a page of a file is there, in the page cache or in the store.
    pub fn has_page(&self, file: InodeId, index: u64) -> bool {
        self.cached(file, index).is_some() || self.store_address(file, index).is_some()
    }

    /// Changes which blocks a file has within a range of bytes, as `fallocate` does in this mode; nothing of it is
    /// under way. The parts of pages at the ends of a range that is zeroed are whoever calls' to clear. The pages of
    /// the file that are gone.
    pub fn fallocate(
        &mut self,
        file: InodeId,
        mode: u64,
        offset: u64,
        length: u64,
    ) -> Result<Range<u64>, OsError> {
        if self.tmpfs.is_some() && mode & !(fallocate::KEEP_SIZE | fallocate::PUNCH_HOLE) != 0 {
            return Ok(0..0); // EOPNOTSUPP (`shmem_fallocate`, mm/shmem.c).
        }
        let end = offset.saturating_add(length);
        let whole = offset.div_ceil(self.page_bytes)..end / self.page_bytes;
        if mode & fallocate::COLLAPSE_RANGE != 0 {
            return self.collapse(file, whole);
        }
        if mode & fallocate::INSERT_RANGE != 0 {
            return self.insert(file, whole);
        }
        let size_bytes = self.file_size(file);
        let mut gone = 0..0;
        if mode & (fallocate::PUNCH_HOLE | fallocate::ZERO_RANGE) != 0 && !whole.is_empty() {
            gone = whole.start..whole.end.min(self.last_page(file)).max(whole.start);
            self.punch(file, gone.clone());
        }
        if mode & fallocate::PUNCH_HOLE != 0 {
            return Ok(gone);
        }
        let grown = if mode & fallocate::KEEP_SIZE == 0 { end.max(size_bytes) } else { size_bytes };
        self.preallocate(file, offset / self.page_bytes..end.div_ceil(self.page_bytes), grown)?;
        self.file(file).size_bytes = grown;
        Ok(gone)
    }

    /// The page behind the last that a file has, or that is allocated for it.
    fn last_page(&self, file: InodeId) -> u64 {
        let allocated = self.files.get(&file).map_or(0, |state| state.allocated_pages);
        self.file_pages(file).max(allocated)
    }

    /// Pages of a file go, and those behind them stay where they are.
    fn punch(&mut self, file: InodeId, pages: Range<u64>) {
        let size_bytes = self.file_size(file);
        self.free_places(file, size_bytes, pages.clone());
        self.discard_later(file, pages.clone());
        self.tell_places(file, pages.start);
        self.cut_pages(file, pages);
    }

    /// From a page on, what the store had from the start is told page by page.
    fn tell_places(&mut self, file: InodeId, first: u64) {
        let FileState { stored_pages, base_address, .. } = *self.file(file);
        for index in first..stored_pages {
            let address = base_address + index * self.page_bytes;
            self.extents.set(file_key(file, index), address | extent::HOLDS);
        }
        self.file(file).stored_pages = stored_pages.min(first);
    }

    /// Pages of a file without a place get one, in a row as far as can be; the file is so large then.
    fn preallocate(
        &mut self,
        file: InodeId,
        pages: Range<u64>,
        size_bytes: u64,
    ) -> Result<(), OsError> {
        // Of files in memory pages are taken when they are used.
        if self.limits.is_none() || self.tmpfs.is_some() || pages.is_empty() {
            return Ok(());
        }
        let store_bytes = self.limits.as_ref().map_or(0, |limits| limits.store_bytes);
        if pages.end - pages.start > store_bytes / self.page_bytes {
            return Err(self.store_full());
        }
        let group_bytes = self.file_system.as_ref().map_or(u64::MAX, FileSystem::group_bytes);
        let (mut groups, mut extents) = (BTreeSet::new(), 0);
        let mut next = u64::MAX;
        let mut index = pages.start.max(self.file(file).stored_pages);
        while index < pages.end {
            let extent = self.extents.get(file_key(file, index));
            if extent & (extent::HOLDS | extent::UNWRITTEN) != 0 {
                (index, next) = (index + 1, u64::MAX);
                continue;
            }
            // A run without places gets new ones at once.
            let is_new = |index: &u64| self.extents.get(file_key(file, *index)) == 0;
            let count = (index..pages.end).take_while(is_new).count() as u64;
            let address = match count {
                0 => extent & !extent::FLAGS,
                count => self.grow_store(count)?,
            };
            for nth in 0..count.max(1) {
                let place = address + nth * self.page_bytes;
                self.extents.set(file_key(file, index + nth), place | extent::UNWRITTEN);
                groups.insert(place / group_bytes * group_bytes);
            }
            extents += u64::from(address != next);
            index += count.max(1);
            next = address + count.max(1) * self.page_bytes;
        }
        let state = self.file(file);
        state.allocated_pages = state.allocated_pages.max(pages.end);
        // Whoever allocates keeps what is behind the end (`XFS_DIFLAG_PREALLOC`).
        state.ahead = 0..0;
        if extents > 0 || size_bytes != self.file_size(file) {
            self.change_metadata(|system, now_ps| {
                system.preallocated(file, size_bytes, extents, &groups, now_ps);
            });
        }
        Ok(())
    }

    /// Pages of a file are taken out of it, and what is behind them moves to their place.
    fn collapse(&mut self, file: InodeId, taken: Range<u64>) -> Result<Range<u64>, OsError> {
        let (last, count) = (self.last_page(file), taken.end.saturating_sub(taken.start));
        if count == 0 || taken.end > last {
            return Ok(0..0);
        }
        let words = self.take_words(file, taken.start, last);
        let size_bytes = self.file_size(file).saturating_sub(count * self.page_bytes);
        self.free_places(file, size_bytes, taken.start..last);
        self.move_words(file, taken.start, words.into_iter().skip(count as usize));
        self.resize(file, size_bytes, last - count);
        Ok(taken.start..last)
    }

    /// Pages are put into a file before what is there now, which moves behind them.
    fn insert(&mut self, file: InodeId, put: Range<u64>) -> Result<Range<u64>, OsError> {
        let (last, count) = (self.last_page(file), put.end.saturating_sub(put.start));
        if count == 0 || put.start >= last {
            return Ok(0..0);
        }
        let words = self.take_words(file, put.start, last);
        let size_bytes = self.file_size(file).saturating_add(count * self.page_bytes);
        self.free_places(file, size_bytes, put.start..last);
        self.move_words(file, put.end, words.into_iter());
        self.resize(file, size_bytes, last + count);
        Ok(put.start..last)
    }

    fn resize(&mut self, file: InodeId, size_bytes: u64, pages: u64) {
        let state = self.file(file);
        (state.size_bytes, state.allocated_pages) = (size_bytes, pages);
    }

    /// The words of a file's places from a page on; the pages leave the page cache, and have no places.
    fn take_words(&mut self, file: InodeId, first: u64, last: u64) -> Vec<u64> {
        self.file_system.iter_mut().for_each(|system| system.keeps_freed(file));
        self.tell_places(file, first);
        let words = (first..last).map(|index| self.extents.get(file_key(file, index))).collect();
        self.cut_pages(file, first..last);
        (first..last).for_each(|index| self.extents.set(file_key(file, index), 0));
        words
    }

    /// Pages of a file, from this one on, have the places that these words tell of.
    fn move_words(&mut self, file: InodeId, first: u64, words: impl Iterator<Item = u64>) {
        for (index, word) in (first..).zip(words) {
            self.extents.set(file_key(file, index), word);
            if word & extent::HOLDS != 0 {
                let place = word & !extent::FLAGS;
                self.change_metadata(|system, now_ps| {
                    system.converted(file, (index, place), true, now_ps);
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
