//! A merge, step by step: pages are read and programmed in their order, and blocks erased of which nothing is left.

use super::{LaneLog, NONE};
use crate::device::ssd::translation::{Page, Place, Stream};
use crate::device::ssd::{Job, Ssd};
use crate::medium::nand::Kind;
use std::collections::{BTreeSet, VecDeque};

/// A logical block that is put together.
#[derive(Clone, Debug)]
struct Copying {
    logical: u32,
    stream: Stream,
    /// The block that it is put into, once it has a page there.
    target: u32,
    /// The pages that are to be read next, and programmed next.
    next_read: u32,
    next_write: u32,
    reads: u32,
    programs: u32,
    /// Pages that have been read, and pages that hold nothing, which need not be.
    ready: BTreeSet<u32>,
}

impl Copying {
    fn new(logical: u32, stream: Stream, target: u32, next: u32) -> Self {
        let (next_read, next_write, ready) = (next, next, BTreeSet::new());
        Copying { logical, stream, target, next_read, next_write, reads: 0, programs: 0, ready }
    }
}

/// A merge of a lane, which takes no writes of the host meanwhile.
#[derive(Clone, Debug)]
pub(super) struct Merge {
    /// Logical blocks that are to be put together still.
    left: VecDeque<u32>,
    copying: Option<Copying>,
    /// Blocks that hold nothing any more; the first is being erased or not.
    erases: VecDeque<u32>,
    erasing: bool,
    /// The random log block that holds nothing in the end.
    log: Option<u32>,
}

impl Merge {
    /// Of a sequential log block, of which so many pages are written.
    pub(super) fn of_sequential(logical: u32, block: u32, next: u32) -> Self {
        let copying = Some(Copying::new(logical, Stream::Sequential, block, next));
        Merge { left: VecDeque::new(), copying, erases: VecDeque::new(), erasing: false, log: None }
    }

    /// Of a random log block that has pages of these logical blocks.
    pub(super) fn of_log(left: Vec<u32>, block: u32) -> Self {
        let (left, erases) = (left.into(), VecDeque::new());
        Merge { left, copying: None, erases, erasing: false, log: Some(block) }
    }

    /// What was under way is gone: what has no page in its target yet is read again.
    pub(super) fn cut_power(&mut self) {
        self.erasing = false;
        if let Some(it) = &mut self.copying {
            (it.reads, it.programs, it.next_read) = (0, 0, it.next_write);
            it.ready.clear();
        }
    }

    /// The first of the blocks has been erased.
    pub(super) fn erased(&mut self) {
        self.erases.pop_front();
        self.erasing = false;
    }
}

impl LaneLog {
    /// A logical block lies in this block from now on; those that hold nothing for it any more, of which the
    /// sequential log block is one where it was put together from that, too.
    fn adopt(&mut self, logical: u32, block: u32) -> (u32, Option<u32>) {
        let old = std::mem::replace(&mut self.blocks[logical as usize], block);
        let log = self.sequential.take_if(|it| it.logical == logical);
        (old, log.map(|it| it.block).filter(|log| *log != block))
    }
}

impl Ssd {
    /// Does what a merge of a lane can do now.
    pub(in crate::device::ssd) fn go_on_merging(&mut self, lane: u32) {
        // The host's programs of the lane end first.
        if self.work[lane as usize].programs > 0 {
            return;
        }
        let Some(mut merge) = self.take_merge(lane) else { return };
        loop {
            if let Some(copying) = &mut merge.copying {
                self.gather(lane, copying);
                self.put_together(lane, copying);
                let pages = self.layer.geometry().block_pages();
                if copying.next_write < pages || copying.programs > 0 {
                    break;
                }
                merge.erases.extend(self.end_copying(lane, copying));
                merge.copying = None;
            } else if let Some(&block) = merge.erases.front() {
                if !merge.erasing {
                    merge.erasing = true;
                    self.erase_merged(lane, block);
                }
                break;
            } else if let Some(logical) = merge.left.pop_front() {
                merge.copying = Some(Copying::new(logical, Stream::Moved, NONE, 0));
            } else if let Some(block) = merge.log.take() {
                self.layer.retire(lane, block);
                merge.erases.push_back(block);
            } else {
                return;
            }
        }
        if let Some(log) = &mut self.log {
            log.lanes[lane as usize].merge = Some(merge);
        }
    }

    fn take_merge(&mut self, lane: u32) -> Option<Merge> {
        self.log.as_mut()?.lanes[lane as usize].merge.take()
    }

    fn copying(&mut self, lane: u32) -> Option<&mut Copying> {
        self.log.as_mut()?.lanes[lane as usize].merge.as_mut()?.copying.as_mut()
    }

    /// Reads the pages of a logical block from wherever they are.
    fn gather(&mut self, lane: u32, copying: &mut Copying) {
        let pages = self.layer.geometry().block_pages();
        while copying.next_read < pages && copying.reads + copying.programs < self.copies {
            let offset = copying.next_read;
            copying.next_read += 1;
            match self.place_of(lane, copying.logical, offset) {
                Some((_, place)) => {
                    copying.reads += 1;
                    let job = self.jobs.insert(Job::Gather { lane, offset });
                    let page = self.layer.geometry().page_of(place);
                    self.operate(job, Kind::Read, page, 1, false);
                }
                None => drop(copying.ready.insert(offset)),
            }
        }
    }

    /// The unit of a page of a logical block and where it lies, if it holds something.
    fn place_of(&self, lane: u32, logical: u32, offset: u32) -> Option<(u64, Place)> {
        let pages = u64::from(self.layer.geometry().block_pages());
        let unit = self.stripe.dealt(lane, u64::from(logical) * pages + u64::from(offset));
        let place = if unit < self.pages { self.layer.place(unit) } else { None };
        place.map(|place| (unit, place))
    }

    /// Programs what has been read, in the order of pages; what holds nothing is left out.
    fn put_together(&mut self, lane: u32, copying: &mut Copying) {
        while copying.ready.contains(&copying.next_write) {
            let Some(page) = self.layer.allocate_to_move(lane, copying.stream) else { return };
            debug_assert_eq!(page.page, copying.next_write);
            copying.target = page.block;
            let offset = copying.next_write;
            copying.ready.remove(&offset);
            copying.next_write += 1;
            // What was read may have been given back since.
            let Some((unit, from)) = self.place_of(lane, copying.logical, offset) else {
                self.layer.programmed(page);
                continue;
            };
            let place = self.layer.geometry().place(page, 0);
            self.layer.put_moved(unit, from, place);
            self.note_move(unit, from, place);
            copying.programs += 1;
            let job = self.jobs.insert(Job::Merge { page });
            self.operate(job, Kind::Program, page, 1, false);
        }
    }

    /// A logical block is put together: blocks that hold nothing for it any more.
    fn end_copying(&mut self, lane: u32, copying: &Copying) -> Vec<u32> {
        let Some(log) = &mut self.log else { return Vec::new() };
        let (old, sequential) = log.lanes[lane as usize].adopt(copying.logical, copying.target);
        if sequential.is_some() {
            self.layer.close(lane, Stream::Sequential);
        }
        let old = (old != NONE).then_some(old);
        if let Some(old) = old {
            self.layer.retire(lane, old);
        }
        old.into_iter().chain(sequential).collect()
    }

    fn erase_merged(&mut self, lane: u32, block: u32) {
        self.note_erase(lane, block);
        let job = self.jobs.insert(Job::Erase { lane, block });
        self.operate(job, Kind::Erase, Page { lane, block, page: 0 }, 0, false);
    }

    /// A page of a merge has been read.
    pub(in crate::device::ssd) fn gathered(&mut self, lane: u32, offset: u32) {
        if let Some(copying) = self.copying(lane) {
            copying.reads -= 1;
            copying.ready.insert(offset);
        }
        self.go_on_merging(lane);
    }

    /// A page of a merge has been programmed.
    pub(in crate::device::ssd) fn merged(&mut self, page: Page) {
        self.layer.programmed(page);
        self.note_programmed(page);
        if let Some(copying) = self.copying(page.lane) {
            copying.programs -= 1;
        }
        self.go_on_merging(page.lane);
    }

    /// A block of a merge has been erased.
    pub(in crate::device::ssd) fn merge_erased(&mut self, lane: u32) {
        self.log_erased(lane);
        self.go_on_merging(lane);
    }

    /// The same, without a word of what comes next.
    pub(in crate::device::ssd) fn log_erased(&mut self, lane: u32) {
        let merge = self.log.as_mut().and_then(|log| log.lanes[lane as usize].merge.as_mut());
        if let Some(merge) = merge {
            merge.erased();
        }
    }
}
