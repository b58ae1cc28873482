//! Groups of pages on their way between memory and store.

use super::*;

impl Paging {
    pub(super) fn start_transfer(
        &mut self,
        pages: Vec<PageTransfer>,
        write: bool,
        swap: bool,
        work: &mut Vec<Work>,
    ) -> TransferId {
        // What allocating their places has asked for.
        self.read_wanted(work);
        let count = pages.len() as u32;
        let id = self.transfers.insert(Transfer {
            left: count,
            pages,
            write,
            submitted: false,
            swap,
            moves: Moves::Pages,
            leaving: 0,
            cut_files: Vec::new(),
        });
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
        self.request_paths(count, work);
        work.push(Work::Submit(id));
        id
    }

    /// So many pages are asked for: the block layer splits what is larger than the device takes.
    pub(super) fn request_paths(&self, pages: u32, work: &mut Vec<Work>) {
        let parts = self.dealt_parts(u64::from(pages));
        work.push(Work::Path(Stage::BlockLayer, parts));
        work.push(Work::Path(Stage::Driver, parts));
    }

    /// The requests that drives get of so many pages, each of those that the pages are one for each drive that has some of
    /// it.
    pub fn dealt_parts(&self, pages: u64) -> u32 {
        let Some(Limits { largest_request, dealt: Some((drives, stripe_pages)), .. }) = self.limits
        else {
            return self.parts(pages);
        };
        let of = |pages: u64| pages.div_ceil(stripe_pages).min(drives);
        (pages / largest_request * of(largest_request) + of(pages % largest_request)) as u32
    }

    /// The fewest requests that so many pages can be.
    fn parts(&self, pages: u64) -> u32 {
        let most = self.limits.as_ref().map_or(u64::MAX, |limits| limits.largest_request);
        pages.div_ceil(most) as u32
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
    pub fn finish_transfer(&mut self, id: TransferId) {
        let transfer = self.transfers.remove(id);
        if let Moves::Direct { file, first, .. } = transfer.moves {
            return self.finish_direct(&transfer, file, first);
        }
        if matches!(transfer.moves, Moves::Promotion | Moves::Demotion) {
            return self.finish_move(&transfer);
        }
        if matches!(transfer.moves, Moves::Discard { .. }) {
            self.finish_swap_discard(id);
            return self.finish_discard(id);
        }
        if transfer.moves != Moves::Pages {
            self.file_system.iter_mut().for_each(|system| system.ended(id));
            return;
        }
        let evicting = transfer.leaving > 0;
        self.leaving -= u64::from(transfer.leaving);
        if transfer.writes_files() && !evicting {
            self.written(transfer.pages.len() as u64);
        }
        if transfer.writes_files()
            && let Some(system) = &mut self.file_system
        {
            transfer.pages.iter().for_each(|page| system.end_data(page.store_address));
            system.ended(id);
        }
        if transfer.writes_files() {
            self.convert_written(&transfer.pages);
        }
        for page in &transfer.pages {
            let info = self.frames.get_mut(page.frame);
            info.transfer = 0;
            info.reading = false;
            let Frame { owner, dirty, leaves, users, .. } = *info;
            match owner {
                Owner::Free => self.release(page.frame),
                Owner::Kernel => {}
                _ if evicting
                    && !dirty
                    && users == 0
                    && !self.is_mapped(page.frame)
                    && self.reclaim.lets_go(page.frame) =>
                {
                    self.leave(page.frame);
                }
                _ if leaves && !dirty => {
                    self.frames.get_mut(page.frame).leaves = false;
                    self.reclaim.rotate(page.frame);
                }
                _ => {}
            }
        }
    }
}
