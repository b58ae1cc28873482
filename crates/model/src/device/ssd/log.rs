//! A map of blocks, and logs for what is written out of order.
//!
//! The drive knows of each logical block in which block of flash it lies, its pages in their order. What is
//! written goes to logs first: from the beginning of a logical block and in order to the sequential log block of
//! its die, all else to random log blocks, which take pages of any logical block. A sequential one that is full
//! takes the place of the block that it replaces (a switch merge); one that must give way before is filled up with
//! the pages that it lacks (a partial merge). When no random log block has room, of the oldest the logical blocks
//! that have pages in it are put together anew, each from wherever its pages lie (a full merge).
//!
//! Source: S.-W. Lee et al., "A log buffer-based flash translation layer using fully-associative sector
//! translation", ACM Transactions on Embedded Computing Systems 6(3), 2007 (FAST). Here each die has logs of its
//! own, and logical blocks are dealt to dies as pages are.

mod merge;

use super::translation::{InitialFlash, Page, Stream, Translation};
use super::{Job, LogSpec, Ssd};
use crate::medium::nand::Kind;
use merge::Merge;
use std::collections::VecDeque;
use tierscope_kernel::CowCell;

/// No block.
const NONE: u32 = u32::MAX;
/// Pages that wait to be programmed are looked through so far for one whose die is free.
const LOOK: usize = 64;

counters! {
    /// What merges of logs there were.
    pub struct LogCounts {
        /// Sequential log blocks that were full, and took the place of another.
        pub switch_merges,
        /// Those that were filled up before.
        pub partial_merges,
        /// Logical blocks that were put together anew.
        pub full_merges,
        /// Pages that the host wrote to sequential log blocks.
        pub sequential_pages,
    }
}

/// The sequential log block of a die.
#[derive(Clone, Copy, Debug)]
struct Sequential {
    logical: u32,
    block: u32,
    /// The page that is next.
    next: u32,
}

/// The map and the logs of a lane.
#[derive(Clone, Debug)]
struct LaneLog {
    /// The block of each logical block, or [`NONE`].
    blocks: Vec<u32>,
    sequential: Option<Sequential>,
    /// Random log blocks, the oldest first.
    random: VecDeque<u32>,
    merge: Option<Merge>,
}

/// The map of blocks, and the logs.
#[derive(Clone, Debug)]
pub(super) struct Log {
    /// Random log blocks of a lane.
    most: usize,
    lanes: Vec<CowCell<LaneLog>>,
    counts: LogCounts,
}

impl Log {
    /// Of a drive as it is at the start: erased, or written from beginning to end.
    pub(super) fn new(
        spec: &LogSpec,
        initial: InitialFlash,
        layer: &Translation,
        pages: u64,
    ) -> Self {
        let geometry = layer.geometry();
        let of_lane = pages.div_ceil(u64::from(geometry.lanes)) + u64::from(geometry.planes);
        let logical = of_lane.div_ceil(u64::from(geometry.block_pages())) as u32;
        let lane = |lane| {
            let lies =
                |block: &u32| initial == InitialFlash::Written && layer.is_filled(lane, *block);
            let block = |block: u32| Some(block).filter(lies).unwrap_or(NONE);
            let blocks = (0..logical).map(block).collect();
            let (sequential, random, merge) = (None, VecDeque::new(), None);
            CowCell::new(LaneLog { blocks, sequential, random, merge })
        };
        let lanes = (0..geometry.lanes).map(lane).collect();
        Log { most: spec.blocks as usize, lanes, counts: LogCounts::default() }
    }

    /// The same, of which each lane is shared until one of the two changes it.
    pub(super) fn fork(&mut self) -> Self {
        Log { lanes: self.lanes.iter_mut().map(CowCell::fork).collect(), ..*self }
    }

    /// Power fails: merges begin anew where they were.
    pub(super) fn cut_power(&mut self) {
        self.lanes.iter_mut().filter_map(|lane| lane.merge.as_mut()).for_each(Merge::cut_power);
    }
}

impl Ssd {
    /// What merges there were: none where the map is one of pages.
    pub(super) fn log_counts(&self) -> LogCounts {
        self.log.as_ref().map(|log| log.counts).unwrap_or_default()
    }

    /// The lane of a unit, its logical block there, and its page in that.
    fn logical(&self, unit: u64) -> (u32, u32, u32) {
        let (lane, nth) = self.stripe.deal(unit);
        let pages = u64::from(self.layer.geometry().block_pages());
        (lane, (nth / pages) as u32, (nth % pages) as u32)
    }

    /// Programs what waits longest of what has a free die; whether there was something.
    pub(super) fn flush_to_logs(&mut self) -> bool {
        let mut next = self.buffer.first_dirty();
        for _ in 0..LOOK {
            let Some(entry) = next else { return false };
            let unit = self.buffer.unit(entry);
            let (lane, logical, offset) = self.logical(unit);
            if self.work[lane as usize].programs < self.lane_programs
                && let Some(page) = self.log_page(lane, logical, offset)
            {
                self.buffer.take_dirty(entry);
                self.traffic.read_bytes += u64::from(self.page_bytes);
                let place = self.layer.geometry().place(page, 0);
                let from = self.followed_place(unit);
                self.layer.put(unit, place, Stream::Host);
                self.note_program(unit, from, place);
                self.begin_program(lane);
                self.programming += 1;
                let job = self.jobs.insert(Job::Flush { page, first: entry });
                self.operate(job, Kind::Program, page, 1, false);
                return true;
            }
            next = self.buffer.next_dirty(entry);
        }
        false
    }

    /// The page of a log for this page of a logical block; none while logs are merged, which begins where it is
    /// necessary.
    fn log_page(&mut self, lane: u32, logical: u32, offset: u32) -> Option<Page> {
        let pages = self.layer.geometry().block_pages();
        let log = self.log.as_mut()?;
        let of_lane = &mut log.lanes[lane as usize];
        if of_lane.merge.is_some() {
            return None;
        }
        let in_order = match &of_lane.sequential {
            Some(it) => it.logical == logical && it.next == offset,
            None => offset == 0,
        };
        if in_order {
            let page = self.layer.allocate_to_move(lane, Stream::Sequential)?;
            log.counts.sequential_pages += 1;
            let next = offset + 1;
            of_lane.sequential = Some(Sequential { logical, block: page.block, next });
            if next == pages {
                log.counts.switch_merges += 1;
                of_lane.merge = Some(Merge::of_sequential(logical, page.block, next));
            }
            return Some(page);
        }
        if let Some(it) = of_lane.sequential.filter(|_| offset == 0) {
            log.counts.partial_merges += 1;
            of_lane.merge = Some(Merge::of_sequential(it.logical, it.block, it.next));
            return self.log_page_after_merge(lane, logical, offset);
        }
        if self.layer.is_open(lane, Stream::Host) || of_lane.random.len() < log.most {
            let page = self.layer.allocate_to_move(lane, Stream::Host)?;
            if page.page == 0 {
                of_lane.random.push_back(page.block);
            }
            return Some(page);
        }
        self.merge_oldest_log(lane);
        self.log_page_after_merge(lane, logical, offset)
    }

    /// Begins the merge of a lane; the page of a log where that ends at once, as nothing is to be copied or erased.
    fn log_page_after_merge(&mut self, lane: u32, logical: u32, offset: u32) -> Option<Page> {
        self.go_on_merging(lane);
        let log = self.log.as_ref()?;
        let ended = log.lanes[lane as usize].merge.is_none();
        if ended { self.log_page(lane, logical, offset) } else { None }
    }

    /// Puts together anew what has pages in the oldest random log block.
    fn merge_oldest_log(&mut self, lane: u32) {
        let geometry = *self.layer.geometry();
        let Some(&block) =
            self.log.as_ref().and_then(|log| log.lanes[lane as usize].random.front())
        else {
            return;
        };
        let units = (0..geometry.block_pages())
            .filter_map(|page| self.layer.unit(geometry.place(Page { lane, block, page }, 0)));
        let mut left: Vec<u32> = units.map(|unit| self.logical(unit).1).collect();
        left.sort_unstable();
        left.dedup();
        if let Some(log) = &mut self.log {
            log.counts.full_merges += left.len() as u64;
            let of_lane = &mut log.lanes[lane as usize];
            of_lane.random.pop_front();
            of_lane.merge = Some(Merge::of_log(left, block));
        }
    }
}

#[cfg(test)]
mod tests;
