//! A small memory for tests.

use super::*;
use crate::os::{KernelPathsSpec, PathSpec};
use std::collections::HashMap;
use tierscope_units::{Duration, Size};

/// Frames of main memory.
pub const FRAMES: u64 = 1024;

/// A store without readahead behind [`FRAMES`] frames.
pub fn storage() -> StorageSpec {
    StorageSpec {
        dram_capacity: Size::from_bytes(FRAMES * 4096),
        memory_limit: None,
        initial: InitialContent::Empty,
        readahead: Size::from_bytes(0),
        readahead_release: None,
        largest_folio: Size::from_bytes(4096),
        largest_request: Size::from_bytes(1 << 17),
        fault_around: Size::from_bytes(4096),
        swap_cluster_pages: 1,
        swap_readahead: SwapReadahead::Cluster,
        swap_discard: false,
        swap_capacity: None,
        reclaim: ReclaimPolicy::ActiveInactive,
        swappiness: 60,
        watermark_scale: 0.0,
        dirty_ratio: 0.5,
        dirty_background_ratio: 0.0078125,
        dirty_writeback: Duration::from_picoseconds(5_000_000_000_000),
        dirty_expire: Duration::from_picoseconds(30_000_000_000_000),
        host_queue_depth: 32,
        buffer_cache: None,
        file_system: None,
        tmpfs: None,
        driver: None,
        block_layer: None,
    }
}

/// A kernel that costs nothing.
pub fn os() -> OsSpec {
    let path = PathSpec::NONE;
    OsSpec {
        page: Size::from_bytes(4096),
        transparent_huge_pages: crate::os::TransparentHugePages::Never,
        allocation: crate::os::Allocation::Contiguous,
        time_slice: Duration::from_picoseconds(1_000_000_000),
        kernel_cpi: 1.0,
        paths: KernelPathsSpec {
            fault: path,
            page_cache: path,
            file_system: path,
            block_layer: path,
            driver: path,
            interrupt: path,
            completion_interrupt: path,
            wake_up: path,
            context_switch: path,
            system_call: path,
            path_lookup: path,
            fork: path,
            fork_page: path,
            free_page: path,
            shootdown: path,
            shootdown_interrupt: path,
        },
    }
}

/// Paging of [`FRAMES`] frames, without readahead but for what is changed.
pub fn small(change: impl FnOnce(&mut StorageSpec)) -> Paging {
    let mut storage = storage();
    change(&mut storage);
    Paging::new(&os(), 1, FRAMES * 4096, Some((&storage, 1 << 30)), 1)
}

/// The transfers under way end.
pub fn settle(paging: &mut Paging) {
    let all: Vec<TransferId> = paging.transfers.iter().map(|(id, _)| id).collect();
    all.into_iter().for_each(|id| finish(paging, id));
}

/// A transfer is handed to the store and ends.
pub fn finish(paging: &mut Paging, id: TransferId) {
    paging.submitted(id);
    while !paging.page_moved(id) {}
    paging.finish_transfer(id);
}

/// A fault of a page; what it has to wait for is under way.
pub fn fault(paging: &mut Paging, page: u64, write: bool) -> Next {
    let mut work = Vec::new();
    let next = paging.fault(page, write, 0, &mut work, &|_| false).expect("there is room");
    done(paging, &work);
    next
}

/// What was to be cleared and copied has been.
pub fn done(paging: &mut Paging, work: &[Work]) {
    for item in work {
        match *item {
            Work::Clear(frame) => paging.let_go(frame),
            Work::CopyFrame(from, to) => [from, to].into_iter().for_each(|it| paging.let_go(it)),
            _ => {}
        }
    }
}

/// A page of a file is written; what it has to wait for is under way.
pub fn write(paging: &mut Paging, file: FileId, index: u64, now_ps: u64) -> Next {
    let next = paging.write_page(file, index, true, &mut Vec::new(), &|_| false);
    let next = next.expect("there is room");
    if let Next::Ready(frame) = next {
        paging.copied_to(frame, now_ps).unwrap();
    }
    next
}

/// Faults until the page is there.
pub fn touch(paging: &mut Paging, page: u64, write: bool) -> u64 {
    loop {
        match fault(paging, page, write) {
            Next::Ready(frame) => return frame,
            Next::Wait(id) | Next::Arrives(id, _) => finish(paging, id),
            Next::Pause(_) => unreachable!("nobody here can pause"),
            Next::WaitForFrame => settle(paging),
        }
    }
}

/// The memory management, with what frames and the store hold.
pub struct Memory {
    pub paging: Paging,
    pub frames: HashMap<u64, u64>,
    pub store: HashMap<u64, u64>,
    /// What the extended buffer cache was given, by place in the store.
    pub flash: HashMap<u64, u64>,
    pub free_at_first: u64,
}

impl Memory {
    /// With so many free frames, and a store that holds something at some addresses.
    pub fn new(mut paging: Paging, free: u64, store: HashMap<u64, u64>) -> Memory {
        let rest = paging.frames.free().saturating_sub(free);
        paging.reserve_for_kernel(rest).unwrap();
        let (frames, flash) = (HashMap::new(), HashMap::new());
        Memory { paging, frames, store, flash, free_at_first: free }
    }

    /// Kernel work is done.
    pub fn work(&mut self, work: Vec<Work>) {
        for item in work {
            match item {
                Work::Clear(frame) => {
                    self.frames.insert(frame, 0);
                    self.paging.let_go(frame);
                }
                Work::CopyFrame(from, to) => {
                    self.frames.insert(to, self.frames[&from]);
                    [from, to].into_iter().for_each(|frame| self.paging.let_go(frame));
                }
                Work::MovePage { transfer, from, to } => {
                    self.frames.insert(to, self.frames[&from]);
                    [from, to].into_iter().for_each(|frame| self.paging.let_go(frame));
                    finish(&mut self.paging, transfer);
                }
                Work::Path(..) | Work::Own(..) | Work::Submit(_) => {}
                Work::Program { frame, store_address, .. } => {
                    if let Some(frame) = frame {
                        self.flash.insert(store_address, self.frames[&frame]);
                    }
                }
                Work::Fetch { transfer, frame, .. } => {
                    let store_address = self.paging.transfer(transfer).pages[0].store_address;
                    self.frames.insert(frame, self.flash[&store_address]);
                    finish(&mut self.paging, transfer);
                }
            }
        }
    }

    /// A transfer ends, which moves what its pages hold then.
    pub fn end_transfer(&mut self, id: TransferId) {
        let Transfer { pages, write, moves, .. } = self.paging.transfer(id).clone();
        for page in pages {
            let PageTransfer { frame, store_address } = page;
            if moves == Moves::Demotion {
                self.frames.insert(self.paging.far_frame(&page), self.frames[&frame]);
            } else if write {
                // A page that a call is about to fill may hold anything.
                let content = self.frames.get(&frame).copied().unwrap_or(0);
                self.store.insert(store_address, content);
            } else {
                self.frames.insert(frame, self.store[&store_address]);
            }
        }
        finish(&mut self.paging, id);
        // What has left memory so enters the extended buffer cache as it is in the store now.
        for work in &self.paging.owed {
            if let Work::Program { frame: None, store_address, .. } = work {
                self.flash.insert(*store_address, self.store[store_address]);
            }
        }
    }

    /// All transfers end.
    pub fn end_transfers(&mut self) {
        let under_way: Vec<TransferId> = self.paging.transfers.iter().map(|(id, _)| id).collect();
        under_way.into_iter().for_each(|id| self.end_transfer(id));
    }

    /// Asks until a page is there; its frame.
    pub fn ask(
        &mut self,
        mut ask: impl FnMut(&mut Paging, &mut Vec<Work>) -> Result<Next, OsError>,
    ) -> u64 {
        loop {
            let mut work = Vec::new();
            let next = ask(&mut self.paging, &mut work).unwrap();
            self.work(work);
            match next {
                Next::Ready(frame) => return frame,
                Next::Wait(id) | Next::Arrives(id, _) if self.paging.transfer_exists(id) => {
                    self.end_transfer(id);
                }
                Next::Wait(_) | Next::Arrives(..) => {} // It was read at once.
                Next::Pause(_) => unreachable!("nobody here can pause"),
                Next::WaitForFrame => self.end_transfers(),
            }
        }
    }

    /// The frame of a page that is read or written.
    pub fn access(&mut self, page: u64, write: bool, now_ps: u64) -> u64 {
        loop {
            if let Pte::Present { frame, writable } = self.paging.entry(page)
                && (writable || !write)
                && self.paging.tables_exist(page)
                && !self.paging.is_protected(frame)
            {
                self.paging.touch(frame);
                return frame;
            }
            self.ask(|paging, work| paging.fault(page, write, now_ps, work, &|_| false));
        }
    }
}
