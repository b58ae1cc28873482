//! Pages that the kernel clears while a machine is warmed functionally, before the region of interest.
//!
//! What a table costs that is touched before a region is lines that go through all caches and out again: each page's
//! are dirty, and push those of an earlier page out. Here a cleared page waits beside the caches. Behind so many others
//! that these could not hold its lines any more, it goes to memory at once; once no page is cleared for a while, and when the region
//! begins, those that still wait go through the caches, the oldest first, as they would have before.

use super::core::spend_kernel;
use super::thread::{Place, Step};
use super::{COPY_INSTRUCTIONS, Machine};
use std::collections::{HashSet, VecDeque};
use tierscope_kernel::Stage;

/// Caches that hold fewer pages take every page at once.
const LEAST_PAGES: u64 = 8;
/// So many times as many lines wait as caches have.
const TIMES: u64 = 2;
/// No page has been cleared for a while: so many accesses have gone beyond the first level since.
const QUIET: u64 = 512;

/// The pages that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Cleared {
    /// Core and first line of each, the oldest first.
    pages: VecDeque<(usize, u64)>,
    /// First lines of those that a device has not taken meanwhile.
    waiting: HashSet<u64>,
    /// Accesses beyond the first level since the last was cleared.
    since: u64,
}

impl Cleared {
    /// A device moves a page: caches would have given its lines up.
    #[inline]
    pub fn forget(&mut self, first_line: u64) {
        if !self.pages.is_empty() {
            self.waiting.remove(&first_line);
        }
    }
}

impl Machine {
    /// Whether a step clears a page that may wait: one of memory that is touched for the first time, no line of which
    /// any cache holds.
    pub(super) fn may_wait(&self, stage: Stage, from: Place, to: Place, bytes: u64) -> bool {
        let Place::Physical(address) = to else { return false };
        let page_bytes = 1 << self.fixed.page_shift;
        let whole = bytes == page_bytes && address.is_multiple_of(page_bytes);
        let clears = stage == Stage::Fault && from == Place::Nowhere && whole;
        let before = self.functional && !self.region.has_begun() && !self.fixed.check_data;
        let lines = self.lines_of(address >> self.fixed.line_shift);
        let holds_some = (lines.end - lines.start) * LEAST_PAGES <= self.fixed.on_chip_lines;
        if !clears || !before || !holds_some {
            return false;
        }
        (lines.start >> 6..lines.end.div_ceil(64)).all(|group| self.on_chip.get(group) == 0)
    }

    /// The kernel clears a page, which waits; that takes the instructions of any clearing. False if it is another
    /// hardware thread's turn: `step` is done again.
    pub(super) fn clear_later(&mut self, index: usize, step: Step) -> bool {
        let Step::Copy { stage, to, .. } = step else { return true };
        if self.first_running() != Some(index) {
            self.threads[self.contexts[index].thread].steps.push_front(step);
            return false;
        }
        let first = to.address() >> self.fixed.line_shift;
        let lines = self.lines_of(first);
        let in_page = lines.end - lines.start;
        let context = &mut self.contexts[index];
        let (core, now_ps) = (context.core, context.now_ps);
        self.account.kernel_instructions += in_page * COPY_INSTRUCTIONS;
        let thread = &mut self.threads[context.thread];
        spend_kernel(context, thread, stage, in_page * COPY_INSTRUCTIONS);
        self.cleared.pages.push_back((core, first));
        self.cleared.waiting.insert(first);
        self.cleared.since = 0;
        if self.cleared.pages.len() as u64 * in_page > TIMES * self.fixed.on_chip_lines
            && let Some((core, first)) = self.cleared.pages.pop_front()
            && self.cleared.waiting.remove(&first)
        {
            for line in self.lines_of(first) {
                self.warm_in_memory(core, line, true, now_ps);
            }
        }
        true
    }

    fn lines_of(&self, first: u64) -> std::ops::Range<u64> {
        first..first + (1 << (self.fixed.page_shift - self.fixed.line_shift))
    }

    /// An access has gone beyond the first level in functional warming.
    #[inline]
    pub(super) fn note_beyond(&mut self, now_ps: u64) {
        if self.cleared.pages.is_empty() {
            return;
        }
        self.cleared.since += 1;
        if self.cleared.since > QUIET {
            self.put_cleared(now_ps);
        }
    }

    /// All pages that wait go through the caches of the cores that have cleared them.
    pub(super) fn put_cleared(&mut self, now_ps: u64) {
        while let Some((core, first)) = self.cleared.pages.pop_front() {
            if !self.cleared.waiting.remove(&first) {
                continue;
            }
            for line in self.lines_of(first) {
                self.warm_line(core, (line, true, true), now_ps);
            }
        }
    }
}
