//! Functional warming: tags become as they would by requests, at once, and bytes are counted as they
//! would be.

use super::layout::COMPLETION_BYTES;
use super::manager::Manager;
use crate::cache::{Place, flag};
use crate::organization::PagesMoved;

/// What a miss moves between NVDIMM and drive, in functional warming.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    /// The page that comes.
    pub(super) read: u64,
    /// The page that goes, if it is dirty.
    pub(super) written: Option<u64>,
}

impl Exchange {
    /// How many.
    pub(super) fn moved(&self) -> PagesMoved {
        PagesMoved { read: 1, written: u64::from(self.written.is_some()) }
    }
}

impl Manager {
    /// An access in functional warming; what it moves if it misses.
    #[inline]
    pub(super) fn warm(&mut self, address: u64, write: bool) -> Option<Exchange> {
        debug_assert!(self.versions.is_none(), "warming moves no data");
        let page = address >> self.shape.page_shift;
        let line = u64::from(self.shape.line_bytes);
        self.lookups += 1;
        self.report.counts.hit_bytes += line;
        self.traffic.move_dram(line, write);
        let found = self.tags.access(page, write).is_some();
        if found {
            self.report.counts.hits += 1;
            if write && self.shape.tag_before_write {
                self.warm_tags(line, 0);
            }
            return None;
        }
        self.misses_counted += 1;
        self.report.counts.fills += 1;
        let (way, written) = match self.tags.place(page) {
            Place::Free(way) => (way, None),
            Place::Taken(way, victim) => (way, victim.line.filter(|_| victim.dirty())),
            // Detail had a miss under way here: it is counted there.
            Place::Pinned => return None,
        };
        self.tags.insert_at(way, page, if write { flag::DIRTY } else { 0 });
        self.warm_miss(written.is_some());
        Some(Exchange { read: page, written })
    }

    fn warm_tags(&mut self, read_bytes: u64, written_bytes: u64) {
        self.report.counts.tag_bytes += read_bytes + written_bytes;
        self.traffic.move_dram(read_bytes, false);
        self.traffic.move_dram(written_bytes, true);
    }

    /// The bytes of a miss: its tag, B set and cleared, the request in the wait queue, the clone, and a
    /// command or two.
    fn warm_miss(&mut self, dirty: bool) {
        let (line, page) = (u64::from(self.shape.line_bytes), self.layout.page_bytes);
        self.warm_tags(line, 2 * line);
        self.report.counts.waits += 1;
        self.report.counts.wait_bytes += 2 * line;
        self.traffic.move_dram(line, true);
        self.traffic.move_dram(line, false);
        self.warm_command(false);
        if dirty {
            self.report.counts.evictions += 1;
            self.report.counts.clones += 1;
            self.report.counts.clone_bytes += 2 * page;
            self.traffic.move_dram(page, false);
            self.traffic.move_dram(page, true);
            self.warm_command(true);
        }
    }

    fn warm_command(&mut self, write: bool) {
        let (line, page) = (u64::from(self.shape.line_bytes), self.layout.page_bytes);
        let tight = self.is_tight();
        let list = self.layout.list(0).filter(|_| !tight).map_or(0, |list| self.lines_bytes(list));
        let submission = self.lines_bytes(self.layout.submission(0));
        let completion = COMPLETION_BYTES.next_multiple_of(line);
        let fetched = if tight { 0 } else { submission + list };
        let interrupt = if tight { 0 } else { self.lines_bytes(self.layout.interrupt()) };
        let cleared = if self.is_persistent() { 0 } else { submission };
        let written = submission + list + completion + interrupt + cleared;
        let read = fetched + completion;
        self.report.counts.command_bytes += read + written;
        self.report.counts.journal_tags += u64::from(!self.is_persistent());
        self.report.counts.dma_bytes += page;
        self.traffic.move_dram(read, false);
        self.traffic.move_dram(written, true);
        self.traffic.move_dram(page, !write);
        self.traffic.move_store(page, write);
        if tight {
            let mapping = self.lines_bytes(self.layout.mapping(0));
            self.report.counts.mapping_bytes += mapping * (1 + u64::from(write));
            self.traffic.move_dram(mapping, false);
            self.traffic.move_dram(if write { mapping } else { 0 }, true);
        }
    }
}
