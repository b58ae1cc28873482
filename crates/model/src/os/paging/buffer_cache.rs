//! The extended buffer cache between page cache and store: when pages enter and leave it.

use super::*;
use crate::os::buffer_cache::{BufferCacheCounters, Entered};

impl Paging {
    /// Puts an extended buffer cache, which holds nothing yet, between page cache and store.
    pub fn add_buffer_cache(&mut self, cache: BufferCache) {
        self.buffer_cache = Some(cache);
    }

    /// What the extended buffer cache has done, where there is one.
    pub fn buffer_cache_counters(&self) -> Option<BufferCacheCounters> {
        self.buffer_cache.as_ref().map(|cache| cache.counters)
    }

    /// Tells the time, which never goes back, before anything is decided.
    #[inline]
    pub fn tell_time(&mut self, now_ps: u64) {
        self.now_ps = now_ps;
    }

    /// The place of a file's page as the extended buffer cache knows it, where there is one: what lies
    /// nowhere in the store is not looked for, as it need not be read.
    fn place_of(&self, file: InodeId, index: u64) -> Option<u64> {
        self.buffer_cache.as_ref().filter(|_| !self.is_in_swap(file))?;
        Some(self.store_address(file, index)? / self.page_bytes)
    }

    /// A page of a file that is not in the page cache: where the extended buffer cache has it, it is read from there. Where
    /// it has not, the file's map may have to be read first, and else there is nothing.
    pub(super) fn fetch(
        &mut self,
        file: InodeId,
        index: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Option<Next>, OsError> {
        if let Some(next) = self.fetch_buffered(file, index, work, held)? {
            return Ok(Some(next));
        }
        Ok(self.find_place(file, index, work).map(Next::Wait))
    }

    fn fetch_buffered(
        &mut self,
        file: InodeId,
        index: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Option<Next>, OsError> {
        let Some(place) = self.place_of(file, index) else { return Ok(None) };
        let holds =
            |paging: &Paging| paging.buffer_cache.as_ref().is_some_and(|cache| cache.holds(place));
        work.push(Work::Path(Stage::BufferCache, 1));
        if !holds(self) {
            return Ok(None);
        }
        let Some(frame) = self.allocate(Owner::File(file, index), work, held)? else {
            return Ok(Some(Next::WaitForFrame));
        };
        if !holds(self) {
            // What reclaim evicted for the frame has displaced it.
            self.release(frame);
            return Ok(None);
        }
        let Some(cache) = &mut self.buffer_cache else { return Ok(None) };
        cache.take(place);
        let stall_ps = cache.read_ps();
        self.cache.set(file_key(file, index), frame);
        let store_address = place * self.page_bytes;
        let transfer = self.transfers.insert(Transfer {
            left: 1,
            pages: vec![PageTransfer { frame, store_address }],
            write: false,
            submitted: true,
            swap: false,
            moves: Moves::Pages,
            leaving: 0,
            cut_files: Vec::new(),
        });
        let info = self.frames.get_mut(frame);
        info.transfer = transfer + 1;
        info.reading = true;
        self.effects.push(Effect::Given(store_address));
        work.extend([Work::Path(Stage::PageCache, 1), Work::Fetch { transfer, frame, stall_ps }]);
        Ok(Some(Next::Arrives(transfer, frame)))
    }

    /// A page that was looked for in the extended buffer cache is read from the store.
    pub(super) fn note_miss(&mut self) {
        if let Some(cache) = &mut self.buffer_cache {
            cache.miss();
        }
    }

    /// A page is read from the store beside one that was looked for.
    pub(super) fn note_bypass(&mut self, store_address: u64) {
        let place = store_address / self.page_bytes;
        if let Some(cache) = &mut self.buffer_cache {
            cache.bypass(place);
        }
    }

    /// Whether readahead passes over pages, because the extended buffer cache has all of them.
    pub(super) fn spares(&self, file: InodeId, mut pages: Range<u64>) -> bool {
        let Some(cache) = &self.buffer_cache else { return false };
        pages.all(|index| self.place_of(file, index).is_some_and(|place| cache.spares(place)))
    }

    /// A clean page leaves the page cache; the frame holds it still, if one is given.
    pub(super) fn enter_buffer_cache(
        &mut self,
        file: InodeId,
        index: u64,
        frame: Option<u64>,
    ) -> Option<Work> {
        let place = self.place_of(file, index)?;
        let entered = self.buffer_cache.as_mut()?.enter(place, self.now_ps);
        let Entered::Programmed { stall_ps } = entered else { return None };
        let store_address = place * self.page_bytes;
        self.effects.push(Effect::Kept(store_address));
        Some(Work::Program { frame, store_address, stall_ps })
    }

    /// A page of a file is no longer what the store has of it.
    #[inline]
    pub(super) fn invalidate_buffered(&mut self, file: InodeId, index: u64) {
        if let Some(place) = self.place_of(file, index)
            && let Some(cache) = &mut self.buffer_cache
        {
            cache.invalidate(place);
        }
    }
}

#[cfg(test)]
mod tests;
