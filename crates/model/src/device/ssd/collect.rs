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
    /// What of the block was valid when these were looked at last: while it is as much, all of them are.
    valid: u32,
    erasing: bool,
    /// A unit for which the erase waits: what is newest of it is not in flash yet.
    only_copy: Option<u64>,
}

impl Collection {
    /// Of a block of which nothing has been looked at.
    pub(super) fn of(block: u32) -> Self {
        Collection { block, ..Collection::default() }
    }

    /// The same of a block of which no page before these is valid any more.
    pub(super) fn from(block: u32, page: u32) -> Self {
        Collection { page, ..Collection::of(block) }
    }

    pub(super) fn block(&self) -> u32 {
        self.block
    }

    /// A page is to be looked at again.
    pub(super) fn go_back(&mut self, page: u32) {
        self.page = self.page.min(page);
    }

    /// The first page of what has been read and not put elsewhere, or the next one to look at; `first` is where the
    /// block begins. What lies before has been put elsewhere, or was not valid.
    pub(super) fn first_left(&self, first: Place, page_units: u32) -> u32 {
        let of = |place: &Place| (place - first) / page_units;
        let gathered = self.gathered.iter().map(|(_, place)| of(place));
        gathered.min().map_or(self.page, |page| page.min(self.page))
    }
}

impl Ssd {
    /// Begins to collect on a lane, if it has too few erased blocks and nothing is collected yet.
    pub(super) fn collect(&mut self, lane: u32) {
        let free = self.layer.free_blocks(lane);
        // Logs are merged instead.
        if free >= self.wanted_blocks() || self.log.is_some() {
            return;
        }
        // Wear is levelled as flash is needed: ahead of need only what wins a page is begun, so that it ends.
        let needs = free < self.free_blocks;
        if self.work[lane as usize].collection.is_some() {
            // One that was begun in a pause may have waited for the next.
            if self.idle.is_some() {
                self.go_on_collecting(lane);
            }
        } else if let Some(block) = self.layer.begin_collection(lane, needs && self.may_level(lane))
        {
            self.note_idle_work(lane, false);
            self.work[lane as usize].collection = Some(Collection::of(block));
            self.collecting += 1;
            self.go_on_collecting(lane);
        }
    }

    /// Whether wear may be levelled now. That wins no page, and changes the map: where that lies in flash, the
    /// host's writes go before it, lest it feed itself.
    fn may_level(&self, lane: u32) -> bool {
        let writes = self.work[lane as usize].programs > 0 || !self.waiting.is_empty();
        self.map.is_none() || writes && !self.map_is_behind()
    }

    /// Reads, programs and erases what can be.
    pub(super) fn go_on_collecting(&mut self, lane: u32) {
        let Some(mut collection) = self.work[lane as usize].collection.take() else { return };
        let goes_on = self.may_collect(lane);
        if goes_on {
            self.read_live(lane, &mut collection);
        }
        self.move_gathered(lane, &mut collection);
        if goes_on {
            self.erase_empty(lane, &mut collection);
        }
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
            let job = self.jobs.insert(Job::Copy { page, live });
            self.operate(job, Kind::Read, page, live.count_ones(), false);
        }
    }

    /// Programs what has been gathered, page by page; the last page may not be full.
    fn move_gathered(&mut self, lane: u32, collection: &mut Collection) {
        let pages = self.layer.geometry().block_pages();
        let ends = collection.page == pages && collection.reads == 0;
        let layer = &self.layer;
        if layer.valid(lane, collection.block) != collection.valid {
            collection.gathered.retain(|&(_, place)| layer.holds(place));
        }
        self.move_valid(lane, collection, ends);
        collection.valid = self.layer.valid(lane, collection.block);
    }

    /// The same of what is valid; where nothing more comes, the last page with what there is.
    fn move_valid(&mut self, lane: u32, collection: &mut Collection, ends: bool) {
        let geometry = *self.layer.geometry();
        loop {
            let units = (collection.gathered.len() as u32).min(geometry.page_units);
            if units == 0 || units < geometry.page_units && !ends {
                return;
            }
            // Collection begins with as much room as a block needs.
            // A block has pages of the map, or others.
            let of_map = collection.gathered.front().is_some_and(|(unit, _)| *unit >= self.pages);
            let stream = if of_map { Stream::Map } else { Stream::Moved };
            let Some(page) = self.layer.allocate_to_move(lane, stream) else { return };
            for (n, (unit, from)) in (0..).zip(collection.gathered.drain(..units as usize)) {
                self.layer.put_moved(unit, from, geometry.place(page, n));
                if !of_map {
                    self.change_map(unit);
                    self.note_move(unit, from, geometry.place(page, n));
                }
            }
            self.layer.pad(geometry.page_units - units);
            collection.programs += 1;
            self.programming += 1;
            let job = self.jobs.insert(Job::Move { page });
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
        // Without capacitors, an erase would lose the only copy of something if power failed.
        if !self.capacitors {
            let layer = &self.layer;
            let still = collection.only_copy.filter(|&unit| layer.is_being_programmed(unit));
            collection.only_copy = still.or_else(|| layer.only_copy(lane, block));
            if collection.only_copy.is_some() {
                if !self.erases.contains(&lane) {
                    self.erases.push(lane);
                }
                return;
            }
        }
        collection.erasing = true;
        self.note_idle_work(lane, true);
        self.note_erase(lane, block);
        let job = self.jobs.insert(Job::Erase { lane, block });
        let page = Page { lane, block, page: 0 };
        self.operate(job, Kind::Erase, page, 0, false);
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
