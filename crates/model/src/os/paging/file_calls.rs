//! What reading, writing and syncing a file need.

use super::*;

impl Paging {
    /// Decides what reading page `index` of a file needs; `last` is the last page of the call.
    pub fn read_page(
        &mut self,
        file: FileId,
        index: u64,
        last: u64,
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        if let Some(frame) = self.cache.get(file_key(file, index)).checked_sub(1) {
            let info = self.frames.get(frame);
            if info.reading {
                return Ok(Next::Wait(info.transfer - 1));
            }
            self.counters.page_cache_hits += 1;
            self.file(file).next_page = index + 1;
            self.frames.touch(frame, now_ps);
            return Ok(Next::Ready(frame));
        }
        self.counters.page_cache_misses += 1;
        let window = self.read_window(file, index, last + 1 - index);
        self.read_file(file, index, (index, window), now_ps, work, held)
    }

    /// Pages to read for a read call that missed: a window that grows while reads are sequential
    /// (Linux `ondemand_readahead`, `get_init_ra_size`, `get_next_ra_size`, mm/readahead.c).
    pub(super) fn read_window(&mut self, file: FileId, index: u64, wanted: u64) -> u64 {
        let Some(limits) = &self.limits else { return wanted };
        let most = limits.readahead;
        let state = self.files.entry(file).or_default();
        let sequential = index == 0 || index == state.next_page;
        state.window = if most == 0 || !sequential {
            0
        } else if state.window == 0 || index == 0 {
            let size = wanted.next_power_of_two();
            if size <= most / 32 {
                size * 4
            } else if size <= most / 4 {
                size * 2
            } else {
                most
            }
        } else if state.window < most / 16 {
            state.window * 4
        } else {
            (state.window * 2).min(most)
        };
        state.window.max(wanted.min(most.max(1)))
    }

    /// Decides what writing to page `index` of a file needs. `whole` says that all of the page is
    /// overwritten, so that its old content need not be read.
    #[allow(clippy::too_many_arguments)]
    pub fn write_page(
        &mut self,
        file: FileId,
        index: u64,
        whole: bool,
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        if let Some(frame) = self.cache.get(file_key(file, index)).checked_sub(1) {
            let info = self.frames.get(frame);
            if info.reading {
                return Ok(Next::Wait(info.transfer - 1));
            }
            self.counters.page_cache_hits += 1;
            self.frames.touch(frame, now_ps);
            self.mark_dirty(frame, file, index);
            return Ok(self.throttle(work)?.map_or(Next::Ready(frame), Next::Wait));
        }
        if !whole && self.store_address(file, index).is_some() {
            self.counters.page_cache_misses += 1;
            return self.read_file(file, index, (index, 1), now_ps, work, held);
        }
        let Some(frame) = self.allocate(Owner::File(file, index), now_ps, work, held)? else {
            return Ok(Next::WaitForFrame);
        };
        self.counters.page_cache_misses += 1;
        self.cache.set(file_key(file, index), frame + 1);
        work.push(Work::Path(Stage::PageCache, 1));
        if !whole {
            work.push(Work::Clear(frame));
        }
        self.mark_dirty(frame, file, index);
        Ok(self.throttle(work)?.map_or(Next::Ready(frame), Next::Wait))
    }

    /// A write call has ended at this byte.
    pub fn extend_file(&mut self, file: FileId, end_bytes: u64) {
        let state = self.file(file);
        state.size_bytes = state.size_bytes.max(end_bytes);
    }

    /// Writes a batch of a file's dirty pages; `None` once none is left.
    pub fn sync(
        &mut self,
        file: FileId,
        work: &mut Vec<Work>,
    ) -> Result<Option<TransferId>, OsError> {
        let range = (file, 0)..=(file, u64::MAX);
        let batch: Vec<(FileId, u64)> = self.dirty.range(range).take(256).copied().collect();
        if let Some(id) = self.write_back(&batch, work)? {
            return Ok(Some(id));
        }
        Ok(self.writing(file))
    }

    /// A transfer that still writes a page of the file.
    pub(super) fn writing(&self, file: FileId) -> Option<TransferId> {
        let of_file = |page: &PageTransfer| matches!(self.frames.get(page.frame).owner, Owner::File(f, _) if f == file);
        self.transfers
            .iter()
            .find(|(_, t)| t.write && t.pages.iter().any(of_file))
            .map(|(id, _)| id)
    }
}
