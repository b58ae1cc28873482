//! Calls that go past the page cache (`O_DIRECT`; `generic_file_direct_write`, mm/filemap.c; `__iomap_dio_rw`,
//! fs/iomap/direct-io.c).
//!
//! What the page cache has of the range and has not written is written first (`filemap_write_and_wait_range`), and for
//! a write it goes (`invalidate_inode_pages2_range`). The pages of the caller's buffer are held (`iov_iter_get_pages2`),
//! and the device moves to or from them. What would see the file while a direct write is under way, or change it under a
//! direct call, waits for that: the kernel's locks of an inode ([`crate::os::inode_locks`]) let more happen at once, in an order
//! that nobody knows.

use super::*;

/// A call past the page cache, of whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectCall {
    /// The file.
    pub inode: InodeId,
    /// First byte of the file.
    pub offset: u64,
    /// Bytes; of a read, up to the end of the file.
    pub bytes: u64,
    /// Where the caller has its buffer; of several the place among all.
    pub address: u64,
    /// To the file.
    pub write: bool,
}

/// What is to be done next for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectNext {
    /// As for a page; then ask again.
    Ask(Next),
    /// It is on its way by this transfer, unless there was nothing to be moved.
    Started(Option<TransferId>),
}

impl Paging {
    /// Decides what a direct call needs. `page_of` gives the virtual page of each page of its buffers, by its number, and
    /// `pinned` is what it holds of its buffer from one time to the next, empty at first; once it is started, it holds
    /// nothing by itself.
    pub fn direct(
        &mut self,
        call: &DirectCall,
        page_of: &dyn Fn(u64) -> u64,
        pinned: &mut Vec<u64>,
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<DirectNext, OsError> {
        let pages = self.pages_of_call(call);
        while (pinned.len() as u64) < pages.end - pages.start {
            let page = page_of(pinned.len() as u64);
            let frame = match self.entry(page) {
                Pte::Present { frame, writable } if writable || call.write => frame,
                _ => match self.fault(page, !call.write, now_ps, work, held)? {
                    Next::Ready(frame) => frame,
                    wait => return Ok(DirectNext::Ask(wait)),
                },
            };
            self.touch(frame);
            self.keep(frame);
            pinned.push(frame);
        }
        if let Some(id) = self.settle(call, work)? {
            return Ok(DirectNext::Ask(Next::Wait(id)));
        }
        let mut pages = pages;
        if let Some(id) = pages.find_map(|index| self.find_place(call.inode, index, work)) {
            return Ok(DirectNext::Ask(Next::Wait(id)));
        }
        self.start_direct(call, std::mem::take(pinned), work).map(DirectNext::Started)
    }

    /// What the page cache has of the range of a call is written, and for a write it goes; what has to be waited for
    /// before that is so.
    pub fn settle(
        &mut self,
        call: &DirectCall,
        work: &mut Vec<Work>,
    ) -> Result<Option<TransferId>, OsError> {
        let (file, pages) = (call.inode, self.pages_of_call(call));
        if let Some(id) = self.direct_within(file, &pages) {
            return Ok(Some(id));
        }
        if let Some(id) = self.write_range(file, pages.clone(), work)? {
            return Ok(Some(id));
        }
        let transfer = |index| {
            let frame = self.cache.frame(file_key(file, index))?;
            self.frames.get(frame).transfer.checked_sub(1)
        };
        if let Some(id) = pages.clone().find_map(transfer) {
            return Ok(Some(id));
        }
        if call.write {
            pages.for_each(|index| self.drop_cached(file, index));
        }
        Ok(None)
    }

    /// Whether a file has all that a direct call writes: it neither grows nor is given blocks (`ext4_overwrite_io`,
    /// fs/ext4/file.c).
    pub fn has_all(&self, call: &DirectCall) -> bool {
        let end = call.offset.saturating_add(call.bytes);
        end <= self.file_size(call.inode)
            && self.pages_of_call(call).all(|page| self.store_address(call.inode, page).is_some())
    }

    fn pages_of_call(&self, call: &DirectCall) -> Range<u64> {
        let end = call.offset.saturating_add(call.bytes).div_ceil(self.page_bytes);
        call.offset / self.page_bytes..end
    }

    /// A page of a file that nothing moves leaves the page cache, clean.
    fn drop_cached(&mut self, file: InodeId, index: u64) {
        let key = file_key(file, index);
        if self.shadows.get(key) != 0 {
            self.shadows.set(key, 0);
        }
        self.invalidate_buffered(file, index);
        if let Some(frame) = self.cache.frame(key) {
            self.unmap_everywhere(frame);
            self.cache.remove(key);
            self.frames.get_mut(frame).owner = Owner::Free;
            self.release(frame);
        }
    }

    fn start_direct(
        &mut self,
        call: &DirectCall,
        frames: Vec<u64>,
        work: &mut Vec<Work>,
    ) -> Result<Option<TransferId>, OsError> {
        let (file, range) = (call.inode, self.pages_of_call(call));
        let mut pages = Vec::new();
        for (index, frame) in range.clone().zip(frames) {
            let place = match call.write {
                true => Some(self.reserve_place(file, index)?),
                false => self.store_address(file, index),
            };
            if let Some(store_address) = place {
                pages.push(PageTransfer { frame, store_address });
            } else {
                // A hole: the kernel clears the buffer.
                self.clear(frame, work);
                self.let_go(frame);
            }
        }
        if pages.is_empty() {
            return Ok(None);
        }
        if self.file_system.is_some() {
            work.push(Work::Path(Stage::FileSystem, 1));
        }
        let count = pages.len() as u32;
        self.request_paths(count, work);
        let (first, past) = (range.start, range.end);
        let id = self.transfers.insert(Transfer {
            left: count,
            pages,
            write: call.write,
            submitted: false,
            swap: false,
            moves: Moves::Direct { file, first, past },
            leaving: 0,
            cut_files: Vec::new(),
        });
        self.direct_calls += 1;
        work.push(Work::Submit(id));
        Ok(Some(id))
    }

    /// A direct call has moved all its pages.
    pub(super) fn finish_direct(&mut self, transfer: &Transfer, file: InodeId, first: u64) {
        self.direct_calls -= 1;
        for (index, page) in (first..).zip(&transfer.pages) {
            if transfer.write {
                self.take_place(file, index, page.store_address, true);
            } else if let Owner::File(file, index) = self.frames.get(page.frame).owner {
                // The buffer is a mapped file, whose page may have been written back meanwhile.
                self.mark_dirty(page.frame, file, index, self.now_ps);
            }
            self.let_go(page.frame);
        }
    }

    /// Where a direct write puts a page. What had no place has none before the data are there (the extent is
    /// unwritten until `ext4_dio_write_end_io`).
    fn reserve_place(&mut self, file: InodeId, index: u64) -> Result<u64, OsError> {
        if let Some(address) = self.store_address(file, index) {
            return Ok(address);
        }
        let key = file_key(file, index);
        if self.extents.get(key) == 0 {
            let address = self.grow_store(1)?;
            self.extents.set(key, address | extent::FREE);
        }
        Ok(self.extents.get(key) & !extent::FLAGS)
    }

    /// A direct write under way on a file, for which whoever wants to see the file waits.
    pub(super) fn direct_write(&self, file: InodeId) -> Option<TransferId> {
        self.find_direct(|transfer, of, _| of == file && transfer.write)
    }

    /// A direct call under way on a file, for which whoever wants to change the file waits.
    pub(super) fn direct_call(&self, file: InodeId) -> Option<TransferId> {
        self.find_direct(|_, of, _| of == file)
    }

    fn direct_within(&self, file: InodeId, pages: &Range<u64>) -> Option<TransferId> {
        self.find_direct(|_, of, its| of == file && its.start < pages.end && pages.start < its.end)
    }

    fn find_direct(
        &self,
        wanted: impl Fn(&Transfer, InodeId, Range<u64>) -> bool,
    ) -> Option<TransferId> {
        if self.direct_calls == 0 {
            return None;
        }
        let is_wanted = |transfer: &Transfer| match transfer.moves {
            Moves::Direct { file, first, past } => wanted(transfer, file, first..past),
            _ => false,
        };
        self.transfers.iter().find(|(_, transfer)| is_wanted(transfer)).map(|(id, _)| id)
    }
}

#[cfg(test)]
mod tests;
