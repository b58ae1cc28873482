//! Demand paging, page cache and swap: what the operating system decides on a fault or a file
//! call. It decides and keeps its tables; the machine carries out the transfers, charges the
//! paths and stops the threads.

use super::OsSpec;
use super::address_space::{AddressSpace, Mapping, Pattern, Pte};
use super::frames::{Frame, Frames, Owner};
use crate::organization::{InitialContent, StorageSpec};
use std::collections::{BTreeMap, BTreeSet};
use tierscope_kernel::cow::CowMap;
use tierscope_kernel::slab::Slab;
use tierscope_kernel::stage::Stage;
use tierscope_workload::op::{Advice, FileId, MAP_SHARED, NO_FILE};

/// Why the operating system cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OsError {
    /// Main memory is full, and nothing may be paged out.
    #[error(
        "the workload needs more than the machine's main memory of {capacity_bytes} bytes; give \
         the system more capacity or the workload a smaller footprint"
    )]
    OutOfMemory {
        /// Main memory.
        capacity_bytes: u64,
    },
    /// Files and swap have met.
    #[error(
        "files and swap need more than the store's {capacity_bytes} bytes; give store.capacity a \
         larger value or the workload a smaller footprint"
    )]
    StoreFull {
        /// The store.
        capacity_bytes: u64,
    },
}

/// A group of page transfers that one request makes; its threads wait for all of them.
pub type TransferId = u32;

/// One page of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageTransfer {
    /// Frame in main memory.
    pub frame: u64,
    /// Byte address in the store.
    pub store_address: u64,
}

/// A request to the store for one or several pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Its pages.
    pub pages: Vec<PageTransfer>,
    /// To the store.
    pub write: bool,
    /// Pages not yet moved.
    pub left: u32,
    /// Whether its paths through the kernel have been paid and it may go to the device.
    pub submitted: bool,
    /// It belongs to swap, not to a file: no file system in its path.
    pub swap: bool,
}

/// Kernel work that a decision costs, to be done by the thread in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A path through the kernel, `times` over.
    Path(Stage, u32),
    /// Zeroing a frame.
    Clear(u64),
    /// Copying one frame to another.
    CopyFrame(u64, u64),
    /// Handing a transfer to the device.
    Submit(TransferId),
}

/// What is to be done next for a fault or a file page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The page is there, in this frame: go on.
    Ready(u64),
    /// Wait for the transfer, then ask again.
    Wait(TransferId),
    /// All frames are in transfer: wait for any of them, then ask again.
    WaitForFrame,
}

/// What the hardware has to forget or to be told, as a consequence of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A translation is no longer valid.
    Shootdown(u64),
}

/// Counters for the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OsCounters {
    /// Faults served without the store.
    pub minor_faults: u64,
    /// Faults that read from the store.
    pub major_faults: u64,
    /// Pages read ahead of need.
    pub readahead_pages: u64,
    /// Pages that a file call found in the page cache.
    pub page_cache_hits: u64,
    /// Pages that a file call did not find there.
    pub page_cache_misses: u64,
    /// Pages reclaimed.
    pub reclaimed_pages: u64,
    /// Pages written to the store: swap.
    pub swap_outs: u64,
    /// Pages read from swap.
    pub swap_ins: u64,
    /// File pages written to the store.
    pub file_write_backs: u64,
}

/// Limits of paging, in pages.
#[derive(Clone, Debug)]
struct Limits {
    readahead: u64,
    swap_cluster: u64,
    dirty: u64,
    dirty_background: u64,
    low_watermark: u64,
    store_bytes: u64,
}

#[derive(Clone, Debug, Default)]
struct FileState {
    size_bytes: u64,
    /// Pages that the store had when the file was first seen.
    stored_pages: u64,
    base_address: u64,
    /// Where the last read call ended, and the window that it was given.
    next_page: u64,
    window: u64,
    /// The kernel's `mmap_miss`: how often readahead around a fault did not pay.
    fault_misses: u32,
}

/// Reads of at most this many faults in a row may miss before readahead around faults stops
/// (Linux `MMAP_LOTSAMISS`, mm/filemap.c).
const LOTS_OF_MISSES: u32 = 100;
/// Pages reclaimed at once (Linux `SWAP_CLUSTER_MAX`, mm/vmscan.c).
const RECLAIM_BATCH: u64 = 32;

/// The operating system's memory management.
#[derive(Clone, Debug)]
pub struct Paging {
    page_bytes: u64,
    levels: u32,
    space: AddressSpace,
    frames: Frames,
    /// Frame of each cached file page, plus 1, by [`file_key`].
    cache: CowMap<u64>,
    /// Store address of each file page beyond what the store had at first, plus 1.
    extents: CowMap<u64>,
    files: BTreeMap<FileId, FileState>,
    store_end: u64,
    swap_start: u64,
    free_slots: Vec<u64>,
    /// Virtual page of each swap slot, plus 1.
    slot_pages: CowMap<u64>,
    /// Frame that holds a slot's content, plus 1: the swap cache.
    slot_frames: CowMap<u64>,
    dirty: BTreeSet<(FileId, u64)>,
    limits: Option<Limits>,
    prefilled: bool,
    transfers: Slab<Transfer>,
    effects: Vec<Effect>,
    /// Counters for the result.
    pub counters: OsCounters,
}

fn file_key(file: FileId, index: u64) -> u64 {
    u64::from(file) << 36 | index
}

impl Paging {
    /// Memory management over `memory_bytes` of main memory. Without `storage` nothing is ever
    /// paged out, and files lie in memory.
    pub fn new(
        os: &OsSpec,
        levels: u32,
        memory_bytes: u64,
        storage: Option<(&StorageSpec, u64)>,
        seed: u64,
    ) -> Self {
        let page_bytes = os.page.bytes();
        let total = memory_bytes / page_bytes;
        let share = |ratio: f64| (total as f64 * ratio) as u64;
        let limits = storage.map(|(spec, store_bytes)| Limits {
            readahead: spec.readahead.bytes() / page_bytes,
            swap_cluster: u64::from(spec.swap_cluster_pages),
            dirty: share(spec.dirty_ratio).max(1),
            dirty_background: share(spec.dirty_background_ratio).max(1),
            low_watermark: (total / 256).clamp(1, 4 * RECLAIM_BATCH),
            store_bytes,
        });
        let allocation = os.allocation;
        Paging {
            page_bytes,
            levels,
            space: AddressSpace::default(),
            frames: Frames::new(total, allocation, seed),
            cache: CowMap::new(0),
            extents: CowMap::new(0),
            files: BTreeMap::new(),
            store_end: 0,
            swap_start: storage.map_or(0, |(_, store_bytes)| store_bytes),
            free_slots: Vec::new(),
            slot_pages: CowMap::new(0),
            slot_frames: CowMap::new(0),
            dirty: BTreeSet::new(),
            limits,
            prefilled: storage.is_some_and(|(s, _)| s.initial == InitialContent::Prefilled),
            transfers: Slab::new(),
            effects: Vec::new(),
            counters: OsCounters::default(),
        }
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Frames in use, in bytes.
    pub fn used_bytes(&self) -> u64 {
        (self.frames.total() - self.frames.free()) * self.page_bytes
    }

    /// The entry of a virtual page.
    #[inline]
    pub fn entry(&self, page: u64) -> Pte {
        self.space.get(page)
    }

    /// A translation was read by the hardware: its frame counts as used.
    #[inline]
    pub fn touch(&mut self, frame: u64, now_ps: u64) {
        if self.limits.is_some() {
            self.frames.touch(frame, now_ps);
        }
    }

    /// Takes what the hardware has to be told.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// A transfer under way.
    pub fn transfer(&self, id: TransferId) -> &Transfer {
        &self.transfers[id]
    }

    /// Whether a transfer is under way: ids are used again after its end.
    pub fn transfer_exists(&self, id: TransferId) -> bool {
        self.transfers.get(id).is_some()
    }

    /// Whether any transfer is under way.
    pub fn transfers_under_way(&self) -> bool {
        !self.transfers.is_empty()
    }

    /// The file that is mapped at an address, if one is.
    pub fn file_at(&self, address: u64) -> Option<FileId> {
        let (_, mapping) = self.space.find(address / self.page_bytes)?;
        mapping.file.map(|(file, _)| file)
    }

    /// Physical addresses of the entries that a walk for `page` reads, from the last level to the
    /// first; the page-table pages have to exist.
    pub fn walk_addresses(&self, page: u64) -> [u64; 5] {
        let mut addresses = [0; 5];
        for level in 0..self.levels {
            let frame = self.space.table_frame(level, page).unwrap_or(0);
            let index = page >> (9 * level) & 511;
            addresses[level as usize] = frame * self.page_bytes + index * 8;
        }
        addresses
    }

    /// Whether all page-table pages for `page` exist, so that it can be walked.
    pub fn tables_exist(&self, page: u64) -> bool {
        (0..self.levels).all(|level| self.space.table_frame(level, page).is_some())
    }

    fn make_tables(
        &mut self,
        page: u64,
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<bool, OsError> {
        for level in 0..self.levels {
            if self.space.table_frame(level, page).is_none() {
                let Some(frame) = self.allocate(Owner::Kernel, now_ps, work, held)? else {
                    return Ok(false);
                };
                self.space.set_table_frame(level, page, frame);
            }
        }
        Ok(true)
    }

    /// A frame for the kernel's own data, taken before anything runs.
    pub fn kernel_frame(&mut self) -> Result<u64, OsError> {
        self.frames.allocate(Owner::Kernel, 0).ok_or(self.out_of_memory())
    }

    fn out_of_memory(&self) -> OsError {
        OsError::OutOfMemory { capacity_bytes: self.frames.total() * self.page_bytes }
    }

    // ---- Files and mappings -------------------------------------------------------------------

    /// A file is first seen, with the size it has now.
    pub fn open(&mut self, file: FileId, size_bytes: u64) -> Result<(), OsError> {
        if self.files.contains_key(&file) {
            return Ok(());
        }
        let pages = size_bytes.div_ceil(self.page_bytes);
        let base_address = self.store_end;
        self.grow_store(pages)?;
        let state =
            FileState { size_bytes, stored_pages: pages, base_address, ..Default::default() };
        self.files.insert(file, state);
        Ok(())
    }

    fn grow_store(&mut self, pages: u64) -> Result<u64, OsError> {
        let address = self.store_end;
        if let Some(limits) = &self.limits {
            let end = address.saturating_add(pages.saturating_mul(self.page_bytes));
            if end > self.swap_start {
                return Err(OsError::StoreFull { capacity_bytes: limits.store_bytes });
            }
        }
        self.store_end = address.saturating_add(pages.saturating_mul(self.page_bytes));
        Ok(address)
    }

    fn file(&mut self, file: FileId) -> &mut FileState {
        self.files.entry(file).or_default()
    }

    /// Size of a file, in bytes.
    pub fn file_size(&self, file: FileId) -> u64 {
        self.files.get(&file).map_or(0, |state| state.size_bytes)
    }

    /// Maps a range. Lengths are rounded up to whole pages.
    pub fn map(&mut self, address: u64, length: u64, flags: u64, file: FileId, offset: u64) {
        let start = address / self.page_bytes;
        let pages = length.div_ceil(self.page_bytes);
        self.unmap(address, length);
        let file = (file != NO_FILE).then_some((file, offset / self.page_bytes));
        let shared = flags & MAP_SHARED != 0;
        self.space.map(start, Mapping { pages, file, shared, pattern: Pattern::Normal });
    }

    /// Unmaps a range and frees what only it used.
    pub fn unmap(&mut self, address: u64, length: u64) {
        let start = address / self.page_bytes;
        let pages = length.div_ceil(self.page_bytes);
        self.release_range(start, pages);
        self.space.unmap(start, pages);
    }

    fn release_range(&mut self, start: u64, pages: u64) {
        for page in self.space.touched(start, pages) {
            match self.space.take(page) {
                Pte::None => {}
                Pte::Swapped(slot) => self.free_slot(slot),
                Pte::Present { frame, .. } => {
                    self.effects.push(Effect::Shootdown(page));
                    self.unmap_frame(frame);
                }
            }
        }
    }

    fn unmap_frame(&mut self, frame: u64) {
        let info = self.frames.get_mut(frame);
        info.mapped_at = Frame::UNMAPPED;
        if let Owner::Anonymous(_) = info.owner {
            let slot = std::mem::take(&mut info.slot);
            info.owner = Owner::Free;
            if info.transfer == 0 {
                self.frames.release(frame);
            }
            if let Some(slot) = slot.checked_sub(1) {
                self.forget_slot(slot);
            }
        }
    }

    /// Moves or resizes a mapping; pages keep their content.
    pub fn remap(&mut self, old: u64, old_length: u64, new: u64, new_length: u64) {
        let page_bytes = self.page_bytes;
        let (from, to) = (old / page_bytes, new / page_bytes);
        let (old_pages, new_pages) =
            (old_length.div_ceil(page_bytes), new_length.div_ceil(page_bytes));
        let mapping = self.space.find(from).map(|(at, m)| {
            let file = m.file.map(|(file, first)| (file, first + from - at));
            Mapping { file, pages: new_pages, ..m }
        });
        if from != to {
            self.unmap(new, new_length);
        }
        let kept = old_pages.min(new_pages);
        let entries: Vec<Pte> = (0..kept).map(|i| self.space.take(from + i)).collect();
        self.unmap(old, old_length);
        let default =
            Mapping { pages: new_pages, file: None, shared: false, pattern: Pattern::Normal };
        self.space.map(to, mapping.unwrap_or(default));
        for (i, pte) in entries.into_iter().enumerate() {
            self.move_entry(from + i as u64, to + i as u64, pte);
        }
    }

    fn move_entry(&mut self, from: u64, to: u64, pte: Pte) {
        match pte {
            Pte::None => return,
            Pte::Swapped(slot) => self.slot_pages.set(slot, to + 1),
            Pte::Present { frame, .. } => {
                self.effects.push(Effect::Shootdown(from));
                let info = self.frames.get_mut(frame);
                if info.mapped_at == from {
                    info.mapped_at = to;
                }
                if info.owner == Owner::Anonymous(from) {
                    info.owner = Owner::Anonymous(to);
                    if let Some(slot) = info.slot.checked_sub(1) {
                        self.slot_pages.set(slot, to + 1);
                    }
                }
            }
        }
        self.space.set(to, pte);
    }

    /// Takes advice on a range.
    pub fn advise(&mut self, address: u64, length: u64, advice: u64) {
        let start = address / self.page_bytes;
        let pages = length.div_ceil(self.page_bytes);
        if advice == Advice::DontNeed as u64 {
            self.release_range(start, pages);
        } else if advice == Advice::Random as u64 {
            self.space.advise(start, pages, Pattern::Random);
        } else if advice == Advice::Sequential as u64 {
            self.space.advise(start, pages, Pattern::Sequential);
        } else if advice == Advice::Normal as u64 {
            self.space.advise(start, pages, Pattern::Normal);
        }
    }

    /// Sets a file's size; pages beyond it are dropped.
    pub fn truncate(&mut self, file: FileId, length: u64) {
        let pages = length.div_ceil(self.page_bytes);
        let old = self.file_size(file).div_ceil(self.page_bytes);
        for index in pages..old {
            let key = file_key(file, index);
            if let Some(frame) = self.cache.get(key).checked_sub(1) {
                self.unmap_everywhere(frame);
                self.dirty.remove(&(file, index));
                self.cache.set(key, 0);
                let info = self.frames.get_mut(frame);
                info.owner = Owner::Free;
                if info.transfer == 0 {
                    self.frames.release(frame);
                }
            }
        }
        let state = self.file(file);
        state.size_bytes = length;
        state.stored_pages = state.stored_pages.min(pages);
    }

    // ---- Faults -------------------------------------------------------------------------------

    /// Decides what a fault of the given virtual page needs. `held` says whether some TLB holds a
    /// page, so that it counts as in use.
    pub fn fault(
        &mut self,
        page: u64,
        write: bool,
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        if !self.make_tables(page, now_ps, work, held)? {
            return Ok(Next::WaitForFrame);
        }
        let mapping = self.space.find(page);
        match (self.space.get(page), mapping) {
            (Pte::Present { frame, writable }, _) if writable || !write => {
                self.frames.touch(frame, now_ps);
                Ok(Next::Ready(frame))
            }
            (Pte::Present { frame, .. }, _)
                if self.frames.get(frame).owner == Owner::Anonymous(page) =>
            {
                Ok(self.rewrite(page, frame))
            }
            (Pte::Present { frame, .. }, Some((at, m))) => match m.file {
                Some((file, first)) if m.shared => {
                    self.make_writable(page, frame, file, first + page - at, work)
                }
                _ => self.copy_on_write(page, frame, now_ps, work, held),
            },
            (Pte::Present { frame, .. }, None) => {
                self.space.set(page, Pte::Present { frame, writable: true });
                Ok(Next::Ready(frame))
            }
            (Pte::Swapped(slot), _) => self.swap_in((page, write), slot, now_ps, work, held),
            (Pte::None, Some((at, Mapping { file: Some((file, first)), shared, pattern, .. }))) => {
                let index = first + page - at;
                if index >= self.file_size(file).div_ceil(self.page_bytes) {
                    return self.first_touch(page, now_ps, work, held);
                }
                self.file_fault(page, (file, index), (write, shared, pattern), now_ps, work, held)
            }
            (Pte::None, _) => self.first_touch(page, now_ps, work, held),
        }
    }

    /// Anonymous memory, touched for the first time: a zeroed frame. It has no copy in the store.
    fn first_touch(
        &mut self,
        page: u64,
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        let Some(frame) = self.allocate(Owner::Anonymous(page), now_ps, work, held)? else {
            return Ok(Next::WaitForFrame);
        };
        self.counters.minor_faults += 1;
        let info = self.frames.get_mut(frame);
        info.mapped_at = page;
        info.dirty = true;
        self.space.set(page, Pte::Present { frame, writable: true });
        work.push(Work::Clear(frame));
        Ok(Next::Ready(frame))
    }

    /// A store to a shared file page that was clean: the page becomes dirty.
    fn make_writable(
        &mut self,
        page: u64,
        frame: u64,
        file: FileId,
        index: u64,
        work: &mut Vec<Work>,
    ) -> Result<Next, OsError> {
        self.counters.minor_faults += 1;
        self.space.set(page, Pte::Present { frame, writable: true });
        self.effects.push(Effect::Shootdown(page));
        work.push(Work::Path(Stage::PageCache, 1));
        self.mark_dirty(frame, file, index);
        Ok(self.throttle(work)?.map_or(Next::Ready(frame), Next::Wait))
    }

    fn copy_on_write(
        &mut self,
        page: u64,
        from: u64,
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        let Some(frame) = self.allocate(Owner::Anonymous(page), now_ps, work, held)? else {
            return Ok(Next::WaitForFrame);
        };
        // Reclaim for the copy's frame may have taken the original.
        if (self.space.get(page) != Pte::Present { frame: from, writable: false }) {
            self.frames.get_mut(frame).owner = Owner::Free;
            self.frames.release(frame);
            return self.fault(page, true, now_ps, work, held);
        }
        self.counters.minor_faults += 1;
        let original = self.frames.get_mut(from);
        if original.mapped_at == page {
            original.mapped_at = Frame::UNMAPPED;
        }
        let info = self.frames.get_mut(frame);
        info.mapped_at = page;
        info.dirty = true;
        self.space.set(page, Pte::Present { frame, writable: true });
        self.effects.push(Effect::Shootdown(page));
        work.push(Work::CopyFrame(from, frame));
        Ok(Next::Ready(frame))
    }

    fn file_fault(
        &mut self,
        page: u64,
        (file, index): (FileId, u64),
        (write, shared, pattern): (bool, bool, Pattern),
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        let Some(frame) = self.cache.get(file_key(file, index)).checked_sub(1) else {
            let window = self.fault_window(file, index, pattern);
            return match self.read_file(file, index, window, now_ps, work, held)? {
                Next::Ready(_) => {
                    let how = (write, shared, pattern);
                    self.file_fault(page, (file, index), how, now_ps, work, held)
                }
                wait => Ok(wait),
            };
        };
        let info = self.frames.get(frame);
        if info.reading {
            return Ok(Next::Wait(info.transfer - 1));
        }
        let state = self.file(file);
        state.fault_misses = state.fault_misses.saturating_sub(1);
        self.counters.minor_faults += 1;
        self.frames.touch(frame, now_ps);
        work.push(Work::Path(Stage::PageCache, 1));
        let info = self.frames.get_mut(frame);
        if info.mapped_at == Frame::UNMAPPED {
            info.mapped_at = page;
        } else if info.mapped_at != page {
            info.mapped_twice = true;
        }
        let writable = write && shared;
        self.space.set(page, Pte::Present { frame, writable });
        if !write {
            return Ok(Next::Ready(frame));
        }
        if shared {
            self.mark_dirty(frame, file, index);
            return Ok(self.throttle(work)?.map_or(Next::Ready(frame), Next::Wait));
        }
        self.copy_on_write(page, frame, now_ps, work, held)
    }

    /// Pages to read for a fault: around it, after it or it alone (Linux
    /// `do_sync_mmap_readahead`, mm/filemap.c).
    fn fault_window(&mut self, file: FileId, index: u64, pattern: Pattern) -> (u64, u64) {
        let Some(limits) = &self.limits else { return (index, 1) };
        let window = limits.readahead;
        if window == 0 || pattern == Pattern::Random {
            return (index, 1);
        }
        if pattern == Pattern::Sequential {
            return (index, window);
        }
        let state = self.file(file);
        state.fault_misses = (state.fault_misses + 1).min(10 * LOTS_OF_MISSES);
        if state.fault_misses > LOTS_OF_MISSES {
            return (index, 1);
        }
        (index.saturating_sub(window / 2), window)
    }

    /// Brings a file page into the page cache, with the rest of its window where there is room.
    fn read_file(
        &mut self,
        file: FileId,
        index: u64,
        (start, count): (u64, u64),
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Next, OsError> {
        let Some(frame) = self.allocate(Owner::File(file, index), now_ps, work, held)? else {
            return Ok(Next::WaitForFrame);
        };
        self.cache.set(file_key(file, index), frame + 1);
        let address = self.store_address(file, index);
        let (Some(address), true) = (address, self.limits.is_some()) else {
            // In memory from the start, or a hole.
            if address.is_none() {
                work.push(Work::Clear(frame));
            }
            work.push(Work::Path(Stage::PageCache, 1));
            return Ok(Next::Ready(frame));
        };
        self.counters.major_faults += 1;
        self.hold(frame);
        let mut pages = vec![PageTransfer { frame, store_address: address }];
        let end = self.file_size(file).div_ceil(self.page_bytes).min(start + count);
        for near in start..end {
            if near == index || self.cache.get(file_key(file, near)) != 0 {
                continue;
            }
            let Some(store_address) = self.store_address(file, near) else { continue };
            let owner = Owner::File(file, near);
            let Some(frame) = self.allocate(owner, now_ps, work, held)? else { break };
            self.cache.set(file_key(file, near), frame + 1);
            self.hold(frame);
            self.counters.readahead_pages += 1;
            pages.push(PageTransfer { frame, store_address });
        }
        pages.sort_by_key(|page| page.store_address);
        Ok(Next::Wait(self.start_transfer(pages, false, false, work)))
    }

    fn swap_in(
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
                return Ok(Next::Wait(info.transfer - 1));
            }
            self.counters.minor_faults += 1;
            work.push(Work::Path(Stage::PageCache, 1));
            self.frames.touch(frame, now_ps);
            let info = self.frames.get_mut(frame);
            info.mapped_at = page;
            // Read-only until stored to, so that a page that stays clean keeps its slot.
            if !write {
                self.space.set(page, Pte::Present { frame, writable: false });
                return Ok(Next::Ready(frame));
            }
            return Ok(self.rewrite(page, frame));
        }
        let Some(frame) = self.allocate(Owner::Anonymous(page), now_ps, work, held)? else {
            return Ok(Next::WaitForFrame);
        };
        self.counters.major_faults += 1;
        let mut pages = vec![self.enter_swap_cache(slot, frame)];
        let cluster = self.limits.as_ref().map_or(1, |limits| limits.swap_cluster);
        let first = slot / cluster * cluster;
        for near in first..first + cluster {
            let Some(owner) = self.slot_pages.get(near).checked_sub(1) else { continue };
            if near == slot || self.slot_frames.get(near) != 0 {
                continue;
            }
            let owner = Owner::Anonymous(owner);
            let Some(frame) = self.allocate(owner, now_ps, work, held)? else { break };
            self.counters.readahead_pages += 1;
            pages.push(self.enter_swap_cache(near, frame));
        }
        self.counters.swap_ins += pages.len() as u64;
        pages.sort_by_key(|page| page.store_address);
        Ok(Next::Wait(self.start_transfer(pages, false, true, work)))
    }

    /// A store to an anonymous page that is as its swap slot has it: the slot's copy gets old. The
    /// slot is kept only while a transfer still writes to it.
    fn rewrite(&mut self, page: u64, frame: u64) -> Next {
        let info = self.frames.get_mut(frame);
        info.dirty = true;
        if info.transfer == 0
            && let Some(slot) = std::mem::take(&mut info.slot).checked_sub(1)
        {
            self.forget_slot(slot);
        }
        self.space.set(page, Pte::Present { frame, writable: true });
        self.effects.push(Effect::Shootdown(page));
        Next::Ready(frame)
    }

    fn forget_slot(&mut self, slot: u64) {
        self.slot_frames.set(slot, 0);
        self.slot_pages.set(slot, 0);
        self.free_slots.push(slot);
    }

    /// The frame is about to enter a transfer: it may not be reclaimed meanwhile.
    fn hold(&mut self, frame: u64) {
        self.frames.get_mut(frame).transfer = u32::MAX;
    }

    fn enter_swap_cache(&mut self, slot: u64, frame: u64) -> PageTransfer {
        self.hold(frame);
        self.slot_frames.set(slot, frame + 1);
        self.frames.get_mut(frame).slot = slot + 1;
        PageTransfer { frame, store_address: self.slot_address(slot) }
    }

    // ---- File calls ---------------------------------------------------------------------------

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
    fn read_window(&mut self, file: FileId, index: u64, wanted: u64) -> u64 {
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
    fn writing(&self, file: FileId) -> Option<TransferId> {
        let of_file = |page: &PageTransfer| matches!(self.frames.get(page.frame).owner, Owner::File(f, _) if f == file);
        self.transfers
            .iter()
            .find(|(_, t)| t.write && t.pages.iter().any(of_file))
            .map(|(id, _)| id)
    }

    // ---- Dirty pages and reclaim --------------------------------------------------------------

    fn mark_dirty(&mut self, frame: u64, file: FileId, index: u64) {
        self.frames.get_mut(frame).dirty = true;
        if self.limits.is_some() {
            self.dirty.insert((file, index));
        }
    }

    /// Too many dirty pages: starts writing some; past the hard limit the writer has to wait.
    fn throttle(&mut self, work: &mut Vec<Work>) -> Result<Option<TransferId>, OsError> {
        let Some(limits) = &self.limits else { return Ok(None) };
        let (hard, soft) = (limits.dirty, limits.dirty_background);
        let dirty = self.dirty.len() as u64;
        if dirty <= soft {
            return Ok(None);
        }
        let batch: Vec<(FileId, u64)> =
            self.dirty.iter().take(RECLAIM_BATCH as usize).copied().collect();
        Ok(self.write_back(&batch, work)?.filter(|_| dirty > hard))
    }

    fn write_back(
        &mut self,
        batch: &[(FileId, u64)],
        work: &mut Vec<Work>,
    ) -> Result<Option<TransferId>, OsError> {
        let mut pages = Vec::new();
        for (file, index) in batch {
            let Some(frame) = self.cache.get(file_key(*file, *index)).checked_sub(1) else {
                self.dirty.remove(&(*file, *index));
                continue;
            };
            if self.frames.get(frame).transfer != 0 {
                continue;
            }
            pages.push(self.clean_file_page(frame, *file, *index)?);
        }
        if pages.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.start_transfer(pages, true, false, work)))
    }

    /// A dirty file page is about to be written: stores to it fault again.
    fn clean_file_page(
        &mut self,
        frame: u64,
        file: FileId,
        index: u64,
    ) -> Result<PageTransfer, OsError> {
        let store_address = match self.store_address(file, index) {
            Some(address) => address,
            None => {
                let address = self.grow_store(1)?;
                self.extents.set(file_key(file, index), address + 1);
                address
            }
        };
        self.dirty.remove(&(file, index));
        self.counters.file_write_backs += 1;
        let info = self.frames.get_mut(frame);
        info.dirty = false;
        let (mapped_at, twice) = (info.mapped_at, info.mapped_twice);
        if mapped_at != Frame::UNMAPPED {
            self.protect(mapped_at, frame);
        }
        if twice {
            self.other_mappings(frame, mapped_at).into_iter().for_each(|p| self.protect(p, frame));
        }
        Ok(PageTransfer { frame, store_address })
    }

    fn protect(&mut self, page: u64, frame: u64) {
        self.space.set(page, Pte::Present { frame, writable: false });
        self.effects.push(Effect::Shootdown(page));
    }

    /// Virtual pages beside `first` that map a file's frame. Rare: a search of the mappings.
    fn other_mappings(&self, frame: u64, first: u64) -> Vec<u64> {
        let Owner::File(file, index) = self.frames.get(frame).owner else { return Vec::new() };
        let candidates = self.space.pages_of(file, index);
        let maps = |page: &u64| {
            *page != first
                && matches!(self.space.get(*page), Pte::Present { frame: f, .. } if f == frame)
        };
        candidates.into_iter().filter(maps).collect()
    }

    fn unmap_everywhere(&mut self, frame: u64) {
        let info = self.frames.get(frame);
        let mut pages = Vec::new();
        if info.mapped_at != Frame::UNMAPPED {
            pages.push(info.mapped_at);
        }
        if info.mapped_twice {
            pages.extend(self.other_mappings(frame, info.mapped_at));
        }
        for page in pages {
            self.space.set(page, Pte::None);
            self.effects.push(Effect::Shootdown(page));
        }
        let info = self.frames.get_mut(frame);
        info.mapped_at = Frame::UNMAPPED;
        info.mapped_twice = false;
    }

    fn allocate(
        &mut self,
        owner: Owner,
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Option<u64>, OsError> {
        if let Some(limits) = &self.limits {
            if self.prefilled {
                // Every free frame still holds an unrelated clean page, dropped at the cost of
                // its removal.
                work.push(Work::Path(Stage::PageCache, 1));
            }
            if self.frames.free() <= limits.low_watermark {
                self.reclaim(RECLAIM_BATCH, now_ps, work, held)?;
            }
        }
        match self.frames.allocate(owner, now_ps) {
            Some(frame) => Ok(Some(frame)),
            None if self.limits.is_some() && !self.transfers.is_empty() => Ok(None),
            None => Err(self.out_of_memory()),
        }
    }

    /// Reclaims the least recently used pages: clean ones at once, dirty ones once written.
    fn reclaim(
        &mut self,
        count: u64,
        now_ps: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<(), OsError> {
        if self.limits.is_none() {
            return Err(self.out_of_memory());
        }
        let (mut swapped, mut written) = (Vec::new(), Vec::new());
        let mut in_use = Vec::new();
        let mut taken = 0;
        while taken < count {
            let Some(frame) = self.frames.least_recent() else { break };
            let info = self.frames.get(frame);
            let used = info.mapped_at != Frame::UNMAPPED && held(info.mapped_at);
            if used && in_use.len() < 64 {
                self.frames.touch(frame, now_ps);
                in_use.push(frame);
                continue;
            }
            taken += 1;
            match info.owner {
                Owner::Anonymous(page) => self.evict_anonymous(frame, page, &mut swapped)?,
                Owner::File(file, index) => {
                    self.unmap_everywhere(frame);
                    if info.dirty {
                        written.push(self.clean_file_page(frame, file, index)?);
                    } else {
                        self.cache.set(file_key(file, index), 0);
                        self.frames.release(frame);
                    }
                }
                Owner::Free | Owner::Kernel => {}
            }
        }
        in_use.into_iter().for_each(|frame| self.frames.enter(frame));
        self.counters.reclaimed_pages += taken;
        if taken > 0 {
            work.push(Work::Path(Stage::PageCache, taken as u32));
        }
        self.counters.swap_outs += swapped.len() as u64;
        for (pages, swap) in [(swapped, true), (written, false)] {
            if !pages.is_empty() {
                self.start_transfer(pages, true, swap, work);
            }
        }
        Ok(())
    }

    fn evict_anonymous(
        &mut self,
        frame: u64,
        page: u64,
        swapped: &mut Vec<PageTransfer>,
    ) -> Result<(), OsError> {
        let info = self.frames.get(frame);
        let mapped = info.mapped_at != Frame::UNMAPPED;
        let slot = match info.slot.checked_sub(1) {
            Some(slot) => slot,
            None => self.take_slot(page)?,
        };
        if mapped {
            self.space.set(page, Pte::Swapped(slot));
            self.effects.push(Effect::Shootdown(page));
        }
        let info = self.frames.get_mut(frame);
        info.mapped_at = Frame::UNMAPPED;
        if info.dirty {
            info.dirty = false;
            swapped.push(self.enter_swap_cache(slot, frame));
        } else {
            self.slot_frames.set(slot, 0);
            self.frames.release(frame);
        }
        Ok(())
    }

    fn take_slot(&mut self, page: u64) -> Result<u64, OsError> {
        let slot = match self.free_slots.pop() {
            Some(slot) => slot,
            None => {
                let store_bytes = self.limits.as_ref().map_or(0, |limits| limits.store_bytes);
                let next = self.swap_start.checked_sub(self.page_bytes);
                let Some(address) = next.filter(|address| *address >= self.store_end) else {
                    return Err(OsError::StoreFull { capacity_bytes: store_bytes });
                };
                self.swap_start = address;
                (store_bytes - address) / self.page_bytes - 1
            }
        };
        self.slot_pages.set(slot, page + 1);
        Ok(slot)
    }

    fn free_slot(&mut self, slot: u64) {
        if let Some(frame) = self.slot_frames.get(slot).checked_sub(1) {
            let info = self.frames.get_mut(frame);
            info.slot = 0;
            info.owner = Owner::Free;
            if info.transfer == 0 && info.mapped_at == Frame::UNMAPPED {
                self.frames.release(frame);
            }
        }
        self.forget_slot(slot);
    }

    /// Swap grows from the store's end downwards, so that neighbours in time are neighbours there.
    fn slot_address(&self, slot: u64) -> u64 {
        let store_bytes = self.limits.as_ref().map_or(0, |limits| limits.store_bytes);
        store_bytes - (slot + 1) * self.page_bytes
    }

    fn store_address(&self, file: FileId, index: u64) -> Option<u64> {
        let state = self.files.get(&file)?;
        if index < state.stored_pages {
            return Some(state.base_address + index * self.page_bytes);
        }
        self.extents.get(file_key(file, index)).checked_sub(1)
    }

    // ---- Transfers ----------------------------------------------------------------------------

    fn start_transfer(
        &mut self,
        pages: Vec<PageTransfer>,
        write: bool,
        swap: bool,
        work: &mut Vec<Work>,
    ) -> TransferId {
        let count = pages.len() as u32;
        let id =
            self.transfers.insert(Transfer { left: count, pages, write, submitted: false, swap });
        for i in 0..count as usize {
            let frame = self.transfers[id].pages[i].frame;
            let info = self.frames.get_mut(frame);
            info.transfer = id + 1;
            info.reading = !write;
        }
        if !write {
            work.push(Work::Path(Stage::PageCache, count));
        }
        if !swap {
            work.push(Work::Path(Stage::FileSystem, 1));
        }
        work.push(Work::Path(Stage::BlockLayer, 1));
        work.push(Work::Path(Stage::Driver, 1));
        work.push(Work::Submit(id));
        id
    }

    /// The thread has paid for the transfer: it may go to the device.
    pub fn submitted(&mut self, id: TransferId) {
        self.transfers[id].submitted = true;
    }

    /// One page of a transfer has moved; true when it was the last.
    pub fn page_moved(&mut self, id: TransferId) -> bool {
        let transfer = &mut self.transfers[id];
        transfer.left -= 1;
        transfer.left == 0
    }

    /// All pages have moved: they can be used, and those evicted are free.
    pub fn finish_transfer(&mut self, id: TransferId, now_ps: u64) {
        let transfer = self.transfers.remove(id);
        for page in &transfer.pages {
            let info = self.frames.get_mut(page.frame);
            info.transfer = 0;
            info.reading = false;
            let (owner, mapped_at, slot, dirty) =
                (info.owner, info.mapped_at, info.slot, info.dirty);
            match owner {
                Owner::Free => self.frames.release(page.frame),
                Owner::Kernel => {}
                Owner::Anonymous(_) if transfer.write && mapped_at == Frame::UNMAPPED && !dirty => {
                    if let Some(slot) = slot.checked_sub(1) {
                        self.slot_frames.set(slot, 0);
                    }
                    self.frames.release(page.frame);
                }
                Owner::Anonymous(_) | Owner::File(..) => {
                    if !transfer.write {
                        self.frames.touch(page.frame, now_ps);
                    }
                    self.frames.enter(page.frame);
                }
            }
        }
    }

    /// A second one; large tables are shared until written.
    pub fn fork(&mut self) -> Self {
        Paging {
            space: self.space.fork(),
            frames: self.frames.fork(),
            cache: self.cache.fork(),
            extents: self.extents.fork(),
            files: self.files.clone(),
            free_slots: self.free_slots.clone(),
            slot_pages: self.slot_pages.fork(),
            slot_frames: self.slot_frames.fork(),
            dirty: self.dirty.clone(),
            limits: self.limits.clone(),
            transfers: self.transfers.clone(),
            effects: self.effects.clone(),
            ..*self
        }
    }
}
