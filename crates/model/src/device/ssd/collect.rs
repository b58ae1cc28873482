//! Collection: valid units of a block are read and programmed elsewhere, and the block is erased.

use super::translation::{Page, Place, Stream};
use super::{Job, Ssd};
use crate::medium::nand::Kind;
use std::collections::VecDeque;

/// The collection of a block that is under way.
#[derive(Clone, Debug, Default)]
pub struct Collection {
    block: u32,
    /// The next page to look at.
    page: u32,
    /// Pages that are being read.
    reads: u32,
    /// Pages that are being programmed.
    programs: u32,
    /// Units that have been read, and where they lay.
    gathered: VecDeque<(u64, Place)>,
    erasing: bool,
}

impl Collection {
    /// Of a block of which nothing has been looked at.
    pub(super) fn of(block: u32) -> Self {
        Collection { block, ..Collection::default() }
    }

    pub(super) fn block(&self) -> u32 {
        self.block
    }
}

impl Ssd {
    /// Begins to collect on a lane, if it has too few erased blocks and nothing is collected yet.
    pub(super) fn collect(&mut self, lane: u32) {
        let work = &mut self.work[lane as usize];
        if work.collection.is_some() || self.layer.free_blocks(lane) >= self.free_blocks {
            return;
        }
        if let Some(block) = self.layer.begin_collection(lane) {
            work.collection = Some(Collection::of(block));
            self.go_on_collecting(lane);
        }
    }

    /// Reads, programs and erases what can be.
    pub(super) fn go_on_collecting(&mut self, lane: u32) {
        let Some(mut collection) = self.work[lane as usize].collection.take() else { return };
        self.read_live(lane, &mut collection);
        self.move_gathered(lane, &mut collection);
        self.erase_empty(lane, &mut collection);
        self.work[lane as usize].collection = Some(collection);
    }

    fn read_live(&mut self, lane: u32, collection: &mut Collection) {
        let pages = self.layer.geometry().block_pages();
        while collection.page < pages && collection.reads + collection.programs < self.copies {
            let page = Page { lane, block: collection.block, page: collection.page };
            collection.page += 1;
            let live = self.layer.live(page);
            if live == 0 {
                continue;
            }
            collection.reads += 1;
            let job = self.jobs.insert(Job::Copy { page, live, left: self.split });
            self.operate(job, Kind::Read, page, live.count_ones(), false);
        }
    }

    /// Programs what has been gathered, page by page; the last page may not be full.
    fn move_gathered(&mut self, lane: u32, collection: &mut Collection) {
        let geometry = *self.layer.geometry();
        let ends = collection.page == geometry.block_pages() && collection.reads == 0;
        loop {
            let layer = &self.layer;
            collection.gathered.retain(|&(unit, place)| layer.place(unit) == Some(place));
            let units = (collection.gathered.len() as u32).min(geometry.page_units);
            if units == 0 || units < geometry.page_units && !ends {
                return;
            }
            // Collection begins with as much room as a block needs.
            let Some(page) = self.layer.allocate(lane, Stream::Moved) else { return };
            for (n, (unit, _)) in (0..).zip(collection.gathered.drain(..units as usize)) {
                self.layer.put(unit, geometry.place(page, n), Stream::Moved);
                self.note_move(unit, geometry.place(page, n));
            }
            self.layer.pad(geometry.page_units - units);
            collection.programs += 1;
            let job = self.jobs.insert(Job::Move { page, left: self.split });
            self.operate(job, Kind::Program, page, units, false);
        }
    }

    fn erase_empty(&mut self, lane: u32, collection: &mut Collection) {
        let Collection { block, page, reads, programs, .. } = *collection;
        let looked = page == self.layer.geometry().block_pages();
        let idle = reads == 0 && programs == 0 && collection.gathered.is_empty();
        if !looked || !idle || collection.erasing {
            return;
        }
        if !self.capacitors && self.holds_only_copy(lane, block) {
            if !self.erases.contains(&lane) {
                self.erases.push(lane);
            }
            return;
        }
        collection.erasing = true;
        self.note_erase(lane, block);
        let job = self.jobs.insert(Job::Erase { lane, block, left: self.split });
        let page = Page { lane, block, page: 0 };
        self.operate(job, Kind::Erase, page, 0, false);
    }

    /// Whether a block may hold the only copy in flash of something, as what is newer is being programmed:
    /// without capacitors, an erase would lose it if power failed.
    fn holds_only_copy(&self, lane: u32, block: u32) -> bool {
        let layer = &self.layer;
        let first = layer.geometry().place(Page { lane, block, page: 0 }, 0);
        let units = (first..first + layer.geometry().block_units())
            .filter_map(|place| layer.last_unit(place).and_then(|unit| layer.place(unit)));
        units.into_iter().any(|newest| !layer.is_programmed(newest))
    }

    /// Something has been programmed: erases that may have waited for it are tried again.
    pub(super) fn retry_erases(&mut self) {
        for lane in std::mem::take(&mut self.erases) {
            self.go_on_collecting(lane);
        }
    }

    /// Units of a page have been read: those that are valid still are to be programmed.
    pub(super) fn copied(&mut self, page: Page, live: u32) {
        let geometry = *self.layer.geometry();
        if let Some(collection) = &mut self.work[page.lane as usize].collection {
            collection.reads -= 1;
            for n in (0..geometry.page_units).filter(|n| live >> n & 1 == 1) {
                let place = geometry.place(page, n);
                let unit = self.layer.unit(place);
                collection.gathered.extend(unit.map(|unit| (unit, place)));
            }
        }
        self.go_on_collecting(page.lane);
    }

    /// A page has been programmed elsewhere.
    pub(super) fn moved(&mut self, page: Page) {
        self.layer.programmed(page);
        self.note_programmed(page);
        if let Some(collection) = &mut self.work[page.lane as usize].collection {
            collection.programs -= 1;
        }
        self.go_on_collecting(page.lane);
        self.retry_erases();
    }
}
