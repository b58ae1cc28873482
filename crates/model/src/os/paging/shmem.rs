//! Files of memory (mm/shmem.c of Linux 6.18): those of tmpfs, and memory without a file that processes share.
//!
//! Their pages have no place of their own on the store. For reclaim they are as anonymous memory: they go to swap. A page
//! that comes back gives up its slot once it is used, as memory has the only copy from then on (`shmem_swapin_folio`);
//! one that was only read with others stays in the swap cache, and goes again without being written.

use super::*;
use serde::{Deserialize, Serialize};

/// A file system whose files are in memory and swap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TmpfsSpec {
    /// What its files may hold (mount option `size`).
    pub capacity: Size,
}

/// What the files of a tmpfs hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tmpfs {
    most_pages: u64,
    pages: u64,
}

impl Tmpfs {
    /// An empty one.
    pub fn of(spec: &TmpfsSpec, page_bytes: u64) -> Option<Tmpfs> {
        Some(Tmpfs { most_pages: spec.capacity.bytes() / page_bytes, pages: 0 })
    }
}

impl Paging {
    /// Whether a file has no place on the store but in swap.
    pub(super) fn is_in_swap(&self, file: InodeId) -> bool {
        self.tmpfs.is_some() || processes::is_object(file)
    }

    /// Whether all files are in memory and swap: a sync of one has nothing to do.
    pub fn keeps_files_in_memory(&self) -> bool {
        self.tmpfs.is_some()
    }

    /// The slot that has a page of such a file.
    pub(super) fn slot_of(&self, file: InodeId, index: u64) -> Option<u64> {
        let extent = self.extents.get(file_key(file, index));
        (extent & extent::HOLDS != 0).then(|| self.slot_at(extent & !extent::FLAGS))
    }

    /// A file gets a page more (`shmem_inode_acct_blocks`).
    fn charge_tmpfs(&mut self, file: InodeId) -> Result<(), OsError> {
        let Some(tmpfs) = self.tmpfs.as_mut().filter(|_| !processes::is_object(file)) else {
            return Ok(());
        };
        if tmpfs.pages >= tmpfs.most_pages {
            let capacity_bytes = tmpfs.most_pages * self.page_bytes;
            return Err(OsError::TmpfsFull { capacity_bytes });
        }
        tmpfs.pages += 1;
        Ok(())
    }

    /// What a file has from the start is in swap: memory is empty then, as the page cache of other file systems is.
    pub(super) fn fill_shmem(&mut self, file: InodeId, pages: u64) -> Result<(), OsError> {
        for index in 0..pages {
            self.charge_tmpfs(file)?;
            let slot = self.take_slot(Owner::File(file, index))?.ok_or(self.swap_full())?;
            self.extents.set(file_key(file, index), self.slot_address(slot) | extent::HOLDS);
        }
        Ok(())
    }

    /// A page that is about to be used: the one that is there, or that comes back from swap, or a new one, which is
    /// zeroed if it `clears` (`shmem_get_folio_gfp`).
    fn shmem_page(
        &mut self,
        (file, index): FilePage,
        clears: bool,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        let key = file_key(file, index);
        if let Some(frame) = self.cached(file, index) {
            let info = self.frames.get(frame);
            if info.reading {
                return Ok(Next::Arrives(info.transfer - 1, frame));
            }
            self.take_from_swap(key, frame);
            return Ok(Next::Ready(frame));
        }
        if let Some(slot) = self.slot_of(file, index) {
            let near = self.cluster_of(slot);
            return self.swap_in_shmem((file, index), slot, near, work, held);
        }
        let Some(frame) = self.allocate(Owner::File(file, index), work, held)? else {
            return Ok(Next::WaitForFrame);
        };
        self.charge_tmpfs(file)?;
        self.reclaim.is_new_of_memory(frame);
        self.cache.set(key, frame);
        self.frames.get_mut(frame).dirty = true;
        work.push(Work::Path(Stage::PageCache, 1));
        if clears {
            self.clear(frame, work);
        }
        Ok(Next::Ready(frame))
    }

    fn swap_in_shmem(
        &mut self,
        (file, index): FilePage,
        slot: u64,
        near: Vec<u64>,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        let Some(frame) = self.allocate(Owner::File(file, index), work, held)? else {
            return Ok(Next::WaitForFrame);
        };
        self.counters.major_faults += 1;
        let page = self.enter_swap_cache(slot, frame);
        Ok(Next::Arrives(self.read_swap(page, near, work, held)?, frame))
    }

    /// A page is used: memory has the only copy from now on. A slot that is being written stays the page's until then.
    fn take_from_swap(&mut self, key: u64, frame: u64) {
        let info = self.frames.get_mut(frame);
        info.dirty = true;
        if info.transfer != 0 {
            return;
        }
        let ahead = info.cached.ahead;
        if let Some(slot) = std::mem::take(&mut info.slot).checked_sub(1) {
            self.extents.set(key, 0);
            self.forget_slot(slot);
            if ahead {
                self.hit_of_slots();
            }
        }
    }

    /// A read call needs a page (`shmem_file_read_iter`).
    pub(super) fn read_shmem(
        &mut self,
        (file, index): FilePage,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        let next = self.call_shmem((file, index), true, work, held)?;
        if let Next::Ready(frame) = next {
            self.use_by_call(file, index, frame);
        }
        Ok(next)
    }

    /// A write call needs a page, all of which it overwrites if it is `whole` (`shmem_write_begin`).
    pub(super) fn write_shmem(
        &mut self,
        page: FilePage,
        whole: bool,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        let next = self.call_shmem(page, !whole, work, held)?;
        if let Next::Ready(frame) = next {
            self.note_use(frame);
        }
        Ok(next)
    }

    fn call_shmem(
        &mut self,
        (file, index): FilePage,
        clears: bool,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        let was_there = self.cached(file, index).is_some();
        let next = self.shmem_page((file, index), clears, work, held)?;
        match next {
            Next::Ready(_) if was_there => self.counters.page_cache_hits += 1,
            Next::Ready(_) | Next::Arrives(..) if !was_there => {
                self.counters.page_cache_misses += 1;
            }
            _ => {}
        }
        Ok(next)
    }

    /// A mapped page faults; what memory has around it is mapped, too (`shmem_fault`; `filemap_map_pages`, mm/filemap.c).
    pub(super) fn map_shmem(
        &mut self,
        (file, index): FilePage,
        vma: &readahead::Vma,
        write: bool,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        if !write && self.limits.is_some() {
            self.map_around(file, vma, index);
        }
        self.shmem_page((file, index), true, work, held)
    }

    /// Pages are wanted soon: what is in swap is read, page by page (`shmem_swapin_range`, mm/madvise.c).
    pub(super) fn need_shmem(
        &mut self,
        file: InodeId,
        pages: Range<u64>,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<(), OsError> {
        for index in pages.start..pages.end.min(self.file_pages(file)) {
            let Some(slot) = self.slot_of(file, index) else { continue };
            if self.cached(file, index).is_some() {
                continue;
            }
            let owner = Owner::File(file, index);
            let Some(page) = self.bring_ahead(slot, owner, work, held)? else { break };
            self.read_swap(page, Vec::new(), work, held)?;
        }
        Ok(())
    }

    /// A page is cut off: its frame and its slot are free.
    pub(super) fn cut_shmem(&mut self, file: InodeId, index: u64) {
        let key = file_key(file, index);
        let (slot, frame) = (self.slot_of(file, index), self.cached(file, index));
        if let Some(slot) = slot {
            self.extents.set(key, 0);
            self.forget_slot(slot);
        }
        if let Some(frame) = frame {
            self.unmap_everywhere(frame);
            self.cache.remove(key);
            let info = self.frames.get_mut(frame);
            (info.owner, info.slot) = (Owner::Free, 0);
            if info.transfer == 0 {
                self.release(frame);
            }
        }
        if (slot.is_some() || frame.is_some())
            && let Some(tmpfs) = self.tmpfs.as_mut().filter(|_| !processes::is_object(file))
        {
            tmpfs.pages -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
