//! Blocks of files on XFS: they are allocated when data are written back, a run at once and ahead of the file's end,
//! and their extents are marked as unwritten until they have been written (fs/xfs/xfs_iomap.c, fs/xfs/xfs_aops.c).

use super::*;

/// Pages of one run at most, so that the search for its end is bounded.
const LONGEST_RUN: usize = 1 << 16;

impl Paging {
    /// Whether a block is a file's only once it has been written.
    pub(super) fn converts_written(&self) -> bool {
        self.file_system.as_ref().is_some_and(FileSystem::converts_written)
    }

    /// Whether a page's write tells the file system how large the file is: it is dirty.
    pub(super) fn is_sized_when_written(&self, file: InodeId, index: u64) -> bool {
        self.converts_written() && self.dirty.has((file, index))
    }

    /// Where a dirty page of a file is written to: where it is, or in a run of blocks for it and for the dirty pages
    /// behind it.
    pub(super) fn place_ahead(&mut self, file: InodeId, index: u64) -> Result<u64, OsError> {
        if let Some(place) = self.block_of(file, index) {
            return Ok(place);
        }
        let key = file_key(file, index);
        let extent = self.extents.get(key);
        if extent != 0 {
            // It was cut off, and has its block yet.
            let place = extent & !extent::FLAGS;
            self.extents.set(key, place | extent::UNWRITTEN);
            self.change_metadata(|system, now_ps| system.reserved(file, (index, place), 1, now_ps));
            return Ok(place);
        }
        let follows = |(nth, page): &(u64, FilePage)| {
            page.1 == index + nth && self.extents.get(file_key(file, page.1)) == 0
        };
        let dirty = self.dirty.within((file, index)..(file, u64::MAX)).take(LONGEST_RUN);
        let run = ((0..).zip(dirty).take_while(follows).count() as u64).max(1);
        let ahead = self.ahead_of(file, index, run);
        // Without room for more it has what it needs.
        let mut taken = (0, self.grow_store(run + ahead));
        for pages in [run, 1] {
            if taken.1.is_err() {
                taken = (pages, self.grow_store(pages));
            }
        }
        let place = taken.1?;
        let pages = if taken.0 > 0 { taken.0 } else { run + ahead };
        for nth in 0..pages {
            let unwritten = (place + nth * self.page_bytes) | extent::UNWRITTEN;
            self.extents.set(file_key(file, index + nth), unwritten);
        }
        let state = self.file(file);
        if pages > run {
            state.ahead = index + run..index + pages;
            state.allocated_pages = state.allocated_pages.max(index + pages);
        }
        self.change_metadata(|system, now_ps| system.reserved(file, (index, place), pages, now_ps));
        Ok(place)
    }

    /// Pages that are allocated behind a run at the end of a file that somebody has open.
    fn ahead_of(&self, file: InodeId, index: u64, run: u64) -> u64 {
        let is_open = self.files.get(&file).is_some_and(|state| state.users > 0);
        let (Some(system), true) = (&self.file_system, is_open) else { return 0 };
        let past = index + run;
        if past < self.file_pages(file) {
            return 0;
        }
        let free = self.swap_start.saturating_sub(self.store_end) / self.page_bytes;
        let ahead = system.pages_ahead(file, index, free.saturating_sub(run));
        // What the file has had there once it has yet.
        let is_new = |index: &u64| self.extents.get(file_key(file, *index)) == 0;
        (past..past + ahead).take_while(is_new).count() as u64
    }

    /// Nobody has a file open any more: what was allocated behind its end and not used is given back.
    pub(super) fn give_back_ahead(&mut self, file: InodeId) {
        let first = self.file_pages(file);
        let ahead = std::mem::take(&mut self.file(file).ahead);
        let group_bytes = self.file_system.as_ref().map_or(u64::MAX, FileSystem::group_bytes);
        let (mut pages, mut groups) = (0, BTreeSet::new());
        for index in ahead.start.max(first)..ahead.end {
            let key = file_key(file, index);
            let extent = self.extents.get(key);
            if extent & extent::UNWRITTEN == 0 {
                continue;
            }
            let place = extent & !extent::FLAGS;
            self.extents.set(key, place | extent::FREE);
            groups.insert(place / group_bytes * group_bytes);
            pages += 1;
        }
        if pages > 0 {
            self.change_metadata(|system, now_ps| system.given_back(file, pages, &groups, now_ps));
        }
    }

    /// Pages of files have been written: those without a block have theirs from now on, and the file system knows that the
    /// file is so large (`xfs_end_ioend`, fs/xfs/xfs_aops.c).
    pub(super) fn convert_written(&mut self, pages: &[PageTransfer]) {
        if !self.converts_written() {
            return;
        }
        for page in pages {
            let Owner::File(file, index) = self.frames.get(page.frame).owner else { continue };
            if processes::is_object(file) {
                continue;
            }
            let place = page.store_address;
            if self.extents.get(file_key(file, index)) == place | extent::UNWRITTEN {
                self.take_place(file, index, place, true);
            } else if self.store_address(file, index) == Some(place) {
                let size_bytes = self.file_size(file).min((index + 1) * self.page_bytes);
                self.change_metadata(|system, now_ps| system.sized(file, size_bytes, now_ps));
            }
        }
    }
}

#[cfg(test)]
mod tests;
