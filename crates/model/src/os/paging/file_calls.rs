//! What reading, writing and syncing a file need.

use super::filling::Need;
use super::*;

impl Paging {
    /// Decides what reading page `index` of a file needs; `last` is the last page that the call asks
    /// for, which may lie beyond the file's end.
    pub fn read_page(
        &mut self,
        file: InodeId,
        index: u64,
        last: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        if self.limits.is_none() {
            return self.read_without_store(file, index, work, held);
        }
        if self.is_in_swap(file) {
            return self.read_shmem((file, index), work, held);
        }
        if let Some(id) = self.direct_write(file) {
            return Ok(Next::Wait(id));
        }
        if let Some(frame) = self.cached(file, index) {
            let Frame { reading, cached, .. } = self.frames.get(frame);
            if !reading && cached.order == 0 && !cached.marked {
                self.counters.page_cache_hits += 1;
                self.use_by_call(file, index, frame);
                return Ok(Next::Ready(frame));
            }
        }
        let folio = self.folio(file, index);
        if folio.is_none()
            && let Some(next) = self.fetch(file, index, work, held)?
        {
            self.counters.page_cache_misses += u64::from(matches!(next, Next::Arrives(..)));
            return Ok(next);
        }
        if folio.is_none_or(|folio| folio.marked) {
            let need = Need { file, wanted: index..last + 1, work, held };
            if !self.fill(need, |readahead, cache| readahead.read(cache, index, last + 1))? {
                return Ok(Next::WaitForFrame);
            }
            if folio.is_none() {
                self.counters.page_cache_misses += 1;
                self.count_read(file, index);
            }
        }
        let Some(frame) = self.cached(file, index) else { return Ok(Next::WaitForFrame) };
        let info = self.frames.get(frame);
        if info.reading {
            return Ok(Next::Arrives(info.transfer - 1, frame));
        }
        self.counters.page_cache_hits += 1;
        self.use_by_call(file, index, frame);
        Ok(Next::Ready(frame))
    }

    /// A read call uses a page, which counts once however many bytes of it are read in a row
    /// (`filemap_read`, mm/filemap.c).
    pub(super) fn use_by_call(&mut self, file: InodeId, index: u64, frame: u64) {
        self.note_use(frame);
        if self.opening_of(file).last_read.replace(index) != Some(index) {
            self.reclaim.mark_accessed(frame);
        }
    }

    /// A page was not there: if the store had it, that is a major fault, or as much as one.
    pub(super) fn count_read(&mut self, file: InodeId, index: u64) {
        if self.store_address(file, index).is_some() {
            self.counters.major_faults += 1;
            self.note_miss();
        }
    }

    /// Where nothing is paged, a page is there, or comes to be.
    fn read_without_store(
        &mut self,
        file: InodeId,
        index: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        if let Some(frame) = self.cached(file, index) {
            self.counters.page_cache_hits += 1;
            return Ok(Next::Ready(frame));
        }
        self.counters.page_cache_misses += 1;
        self.read_file(file, index, work, held)
    }

    /// A read call has ended in front of this byte.
    pub fn end_of_read(&mut self, file: InodeId, end_bytes: u64) {
        let page_bytes = self.page_bytes;
        self.readahead_of(file).end_of_read(end_bytes, page_bytes);
    }

    /// Decides what writing to page `index` of a file needs. `whole` says that all of the page is
    /// overwritten, so that its old content need not be read. Once it has been copied to,
    /// [`Paging::copied_to`] is told.
    pub fn write_page(
        &mut self,
        file: InodeId,
        index: u64,
        whole: bool,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        if self.is_in_swap(file) {
            return self.write_shmem((file, index), whole, work, held);
        }
        if let Some(id) = self.direct_call(file) {
            return Ok(Next::Wait(id));
        }
        if let Some(frame) = self.cache.frame(file_key(file, index)) {
            let info = self.frames.get(frame);
            if info.reading {
                return Ok(Next::Arrives(info.transfer - 1, frame));
            }
            if let Some(next) = self.throttle(file, index, work)? {
                return Ok(next);
            }
            self.counters.page_cache_hits += 1;
            self.note_use(frame);
            return Ok(Next::Ready(frame));
        }
        if !whole && self.store_address(file, index).is_some() {
            self.counters.page_cache_misses += 1;
            return self.read_file(file, index, work, held);
        }
        if let Some(next) = self.throttle(file, index, work)? {
            return Ok(next);
        }
        let Some(frame) = self.allocate(Owner::File(file, index), work, held)? else {
            return Ok(Next::WaitForFrame);
        };
        self.counters.page_cache_misses += 1;
        self.cache.set(file_key(file, index), frame);
        work.push(Work::Path(Stage::PageCache, 1));
        if !whole {
            self.clear(frame, work);
        }
        Ok(Next::Ready(frame))
    }

    /// A write call has copied to a page, which is dirty from now on (`generic_write_end`, fs/buffer.c),
    /// unless it was cut off meanwhile. That counts as a use where reclaim is old enough. Where the file system does
    /// not delay that, it has its place from now on, too: no transaction is committed between the two, as the call has
    /// a handle of it.
    pub fn copied_to(&mut self, frame: u64, now_ps: u64) -> Result<(), OsError> {
        if let Owner::File(file, index) = self.frames.get(frame).owner {
            if self.policy.counts_writes() {
                self.reclaim.mark_accessed(frame);
            }
            self.allocate_now(file, index)?;
            self.mark_dirty(frame, file, index, now_ps);
        }
        Ok(())
    }

    /// Writes a batch of a file's dirty pages; `None` once none is left. Data in the log are committed before.
    pub fn sync(
        &mut self,
        file: InodeId,
        pages: Range<u64>,
        work: &mut Vec<Work>,
    ) -> Result<Option<TransferId>, OsError> {
        if let Some(id) = self.commit_data((file, pages.start)..(file, pages.end), work) {
            return Ok(Some(id));
        }
        if pages == Self::ALL_PAGES
            && let Some(state) = self.files.get_mut(&file)
        {
            // All has been gone through: the flusher begins anew.
            state.written_up_to = 0;
        }
        if let Some(id) = self.write_range(file, pages.clone(), work)? {
            self.begin_empty(true);
            return Ok(Some(id));
        }
        Ok(self.writing(file, pages))
    }

    /// A transfer that still writes one of these pages of the file, or some that have been cut off.
    pub fn writing(&self, file: InodeId, pages: Range<u64>) -> Option<TransferId> {
        if self.is_in_swap(file) {
            return None;
        }
        let of_file = |page: &PageTransfer| match self.frames.get(page.frame).owner {
            Owner::File(of, index) => of == file && pages.contains(&index),
            _ => false,
        };
        self.transfers
            .iter()
            .find(|(_, t)| t.write && (t.cut_files.contains(&file) || t.pages.iter().any(of_file)))
            .map(|(id, _)| id)
    }

    /// What is under way from the page cache to files, whoever has begun it.
    pub fn writes_under_way(&self) -> Vec<TransferId> {
        let writes = |it: &Transfer| it.write && !it.swap && it.moves == Moves::Pages;
        self.transfers.iter().filter(|(_, it)| writes(it)).map(|(id, _)| id).collect()
    }
}
