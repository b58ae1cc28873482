//! DRAM before the far memory: which pages it holds, and those on their way.

use super::promotion::Promoter;
use crate::cache::{TagStore, WayRef};
use crate::organization::hybrid::append_tail;
use crate::organization::hybrid::page_map::PageMap;
use crate::organization::hybrid::port::Port;
use crate::organization::{PromotionReport, PromotionSpec};
use crate::replacement::Lru;
use crate::request::Device;
use tierscope_kernel::{Slab, Timeline};

/// No request.
pub(super) const NONE: u32 = u32::MAX;

/// How far a move has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The page that leaves is taken out of page table and TLBs.
    Unmapping,
    /// It is read from DRAM, as it was written there.
    Evicting,
    /// It is written to the far memory.
    WritingBack,
    /// The page that comes is read from the far memory, or waits for writes to it there.
    Fetching,
    /// It is written to DRAM.
    Filling,
    /// It is put into page table and TLBs.
    Mapping,
}

/// A page that comes to DRAM, and the one that leaves for it; or one that is written back and stays.
#[derive(Clone, Debug)]
pub(super) struct Move {
    /// The page that comes.
    pub(super) page: Option<u64>,
    /// The page that leaves, until it has left.
    pub(super) victim: Option<u64>,
    pub(super) victim_dirty: bool,
    pub(super) way: WayRef,
    pub(super) progress: Progress,
    /// Lines of the page that comes that were written to its frame ahead of it.
    pub(super) written: u64,
    /// A flush waits for the page that leaves.
    pub(super) flush: bool,
    /// Writes to the page in the far memory that must end before it is read.
    pub(super) blocked_by: u32,
    /// First and last of the requests that wait until it has gone on, or [`NONE`].
    pub(super) first: u32,
    pub(super) last: u32,
    /// Where its time went, up to `clock_ps`.
    pub(super) stages: Timeline,
    pub(super) clock_ps: u64,
    /// Where data are checked: versions of the page that leaves.
    pub(super) versions: Vec<u64>,
}

/// Where a line is to be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// In DRAM, in this frame.
    Near(WayRef),
    /// In the far memory.
    Far,
    /// Nowhere, until this move has gone on.
    Wait(u32),
}

/// DRAM, and the pages that it holds.
#[derive(Debug)]
pub(super) struct Near<D> {
    pub(super) dram: Port<D>,
    pub(super) tags: TagStore<Lru>,
    pub(super) promoter: Promoter,
    pub(super) moves: Slab<Move>,
    most_moves: usize,
    /// The move of each page that comes or leaves.
    pub(super) moving: PageMap,
    pub(super) page_bytes: u64,
    pub(super) mapping_ps: u64,
    /// Pages that were promoted, and those that left for them.
    pub(super) promotions: u64,
    pub(super) demotions: u64,
    pub(super) flush: Option<Flush>,
    /// Where the time of the flush went that is under way, or was done last.
    pub(super) flush_stages: Timeline,
}

/// A flush under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flush {
    /// The first frame that it has not looked at; `None` once it has seen all.
    pub(super) from: Option<u64>,
    /// Pages on their way to the far memory that it waits for.
    pub(super) outstanding: u32,
    /// When the last of them had come there, or it began.
    pub(super) since_ps: u64,
}

impl<D: Device> Near<D> {
    pub(super) fn new(spec: &PromotionSpec, dram: Port<D>) -> Self {
        let page_bytes = spec.page.bytes();
        let sets = spec.capacity.bytes() / (page_bytes * u64::from(spec.ways));
        let most_moves = spec.lookaside_entries as usize;
        Near {
            dram,
            tags: TagStore::new(sets, spec.ways as usize, false, 0),
            promoter: Promoter::new(spec),
            moves: Slab::new(),
            most_moves,
            moving: PageMap::with_capacity(2 * most_moves),
            page_bytes,
            mapping_ps: spec.mapping_latency.picoseconds(),
            promotions: 0,
            demotions: 0,
            flush: None,
            flush_stages: Timeline::new(),
        }
    }

    /// Whether another page may be on its way.
    pub(super) fn has_room(&self) -> bool {
        self.moves.len() < self.most_moves
    }

    #[inline]
    pub(super) fn page(&self, address: u64) -> u64 {
        address / self.page_bytes
    }

    /// Address of a frame in DRAM.
    pub(super) fn frame(&self, way: WayRef) -> u64 {
        self.tags.frame(way) * self.page_bytes
    }

    /// Where a line is to be read or written, which is `bit` of its page; the page is used. A write to a
    /// page that is being fetched goes ahead of it, to its frame.
    pub(super) fn route(&mut self, page: u64, bit: u64, write: bool) -> Route {
        let Some(index) = self.moving.get(page) else {
            return self.tags.access(page, write).map_or(Route::Far, |hit| Route::Near(hit.way));
        };
        let it = &mut self.moves[index];
        if it.page != Some(page) {
            return Route::Wait(index);
        }
        match it.progress {
            Progress::Unmapping | Progress::Evicting | Progress::WritingBack => Route::Far,
            Progress::Mapping => Route::Wait(index),
            Progress::Fetching if !write && it.written >> bit & 1 == 0 => Route::Far,
            Progress::Fetching | Progress::Filling => {
                let way = it.way;
                it.written |= u64::from(write) << bit;
                if write {
                    self.tags.set_dirty(way);
                }
                Route::Near(way)
            }
        }
    }

    /// What was promoted, and when pages are.
    pub(super) fn promoted(&self) -> PromotionReport {
        let (threshold, least_threshold) = self.promoter.thresholds();
        let Near { promotions, demotions, .. } = *self;
        PromotionReport { promotions, demotions, threshold, least_threshold }
    }

    /// A flush begins: it waits for what is on its way to the far memory already.
    pub(super) fn begin_flush(&mut self, now_ps: u64) {
        let leaving = self.moves.iter().filter(|(_, it)| it.victim_dirty && it.victim.is_some());
        let leaving: Vec<u32> = leaving.map(|(index, _)| index).collect();
        for index in &leaving {
            self.moves[*index].flush = true;
        }
        let outstanding = leaving.len() as u32;
        self.flush = Some(Flush { from: Some(0), outstanding, since_ps: now_ps });
        self.flush_stages = Timeline::new();
    }

    /// The next page that a flush has to write back, if there is room for it. It stands still at a page that is on its
    /// way to DRAM, and has been written to meanwhile.
    pub(super) fn next_to_flush(&mut self) -> Option<(WayRef, u64)> {
        let mut from = self.flush?.from?;
        let found = loop {
            let Some((way, page)) = self.tags.next_dirty(from) else { break None };
            let index = self.moving.get(page);
            if index.is_some_and(|index| self.moves[index].page == Some(page)) || !self.has_room() {
                break Some(None);
            }
            from = self.tags.frame(way) + 1;
            if index.is_none() {
                break Some(Some((way, page)));
            }
        };
        if let Some(flush) = &mut self.flush {
            flush.from = found.map(|_| from);
        }
        found.flatten()
    }

    /// Whether a page that begins to leave now is one that a flush waits for: until it has seen all frames, it may be
    /// one that it has not come to.
    pub(super) fn concerns_flush(&mut self) -> bool {
        let flush = self.flush.as_mut().filter(|flush| flush.from.is_some());
        flush.map(|flush| flush.outstanding += 1).is_some()
    }

    /// A page that a flush waits for has come to the far memory.
    pub(super) fn flush_goes_on(&mut self, now_ps: u64, stages: &Timeline) {
        if let Some(flush) = &mut self.flush {
            flush.outstanding -= 1;
            let wait_ps = now_ps - std::mem::replace(&mut flush.since_ps, now_ps);
            append_tail(&mut self.flush_stages, stages, wait_ps);
        }
    }

    /// Whether the flush under way is done, which ends it.
    pub(super) fn flush_is_done(&mut self) -> bool {
        let done = |flush: Flush| flush.from.is_none() && flush.outstanding == 0;
        let done = self.flush.is_none_or(done);
        if done {
            self.flush = None;
        }
        done
    }

    /// A second one that stands where this one stands.
    pub(super) fn fork(&mut self) -> Self
    where
        Port<D>: Clone,
    {
        Near {
            dram: self.dram.clone(),
            tags: self.tags.fork(),
            promoter: self.promoter.fork(),
            moves: self.moves.clone(),
            moving: self.moving.clone(),
            ..*self
        }
    }
}
