//! Functional warming: what precedes the region of interest changes what caches, TLBs, tables and
//! memory hold as it would in detail, but at once: accesses and transfers take no time.

use super::core::{Flow, Source, fault, translate};
use super::thread::Place;
use super::{Event, Machine};
use tierscope_model::os::paging::{Transfer, TransferId};
use tierscope_model::processor::tlb::Translation;

impl Machine {
    /// Serves the thread's access at once, or finds that the kernel has to come first. What goes beyond
    /// the core's first level, which [`Machine::run_hits`] serves, goes in order of time over all
    /// hardware threads, so that it does not depend on how long their batches are.
    pub(super) fn warm(&mut self, index: usize) -> Flow {
        if self.first_running() != Some(index) {
            return Flow::Stop;
        }
        let context = &mut self.contexts[index];
        let thread = &mut self.threads[context.thread];
        let Some(access) = thread.access else { return Flow::Continue };
        let core = context.core;
        let physical = match access.place {
            Place::Physical(address) => address,
            Place::Nowhere => return Flow::Continue,
            Place::Virtual(address) => {
                let page = address >> self.fixed.page_shift;
                let tlb = &mut self.cores[core].tlb;
                let Some((found, source)) = translate(tlb, &self.paging, page, access.write) else {
                    return fault(context, thread, page, access, context.now_ps);
                };
                if source == Source::Walk {
                    self.warm_walk(core, page, found, self.contexts[index].now_ps);
                }
                let offset = address & ((1 << self.fixed.page_shift) - 1);
                found.frame << self.fixed.page_shift | offset
            }
        };
        self.warm_line(core, physical >> self.fixed.line_shift, access.write, access.whole_line);
        let thread = &mut self.threads[self.contexts[index].thread];
        if access.after_fault {
            thread.fault = None;
        }
        self.account.hit(access.measured, 0, false, thread.site);
        self.access_done(index);
        Flow::Continue
    }

    /// A walk reads the page table, and the TLB has the translation.
    fn warm_walk(&mut self, core: usize, page: u64, translation: Translation, now_ps: u64) {
        self.paging.touch(translation.frame, now_ps);
        let tlb = &mut self.cores[core].tlb;
        tlb.insert(page, translation);
        let levels = if tlb.upper_levels_cached(page) { 1 } else { self.fixed.walk_levels };
        let walk = self.paging.walk_addresses(page);
        for address in walk[..levels].iter().rev() {
            self.warm_line(core, address >> self.fixed.line_shift, false, false);
        }
    }

    /// A core uses a line, which comes from wherever it is.
    fn warm_line(&mut self, core: usize, line: u64, write: bool, whole_line: bool) {
        let caches = &mut self.cores[core].caches;
        if caches.hit_first(line, write) {
            return;
        }
        if caches.hit_beyond(line, write, &mut self.evicted).is_none() {
            if whole_line {
                caches.fill_absent(line, 0, &mut self.evicted);
            } else {
                if self.shared.access(line, &mut self.dropped).is_none() {
                    self.organization.warm(line << self.fixed.line_shift, false);
                    self.shared.fill(line, false, 0, &mut self.dropped);
                }
                self.warm_ahead(core, line);
                let caches = &mut self.cores[core].caches;
                caches.fill(line, write, 0, &mut self.evicted);
            }
            self.note_on_chip(line);
        }
        for dirty in self.evicted.drain(..) {
            self.shared.put_dirty(dirty, &mut self.dropped);
        }
        for dirty in self.dropped.drain(..) {
            self.organization.warm(dirty.line << self.fixed.line_shift, true);
        }
    }

    /// A transfer begins that takes no time: its end is an event, as that of any other.
    pub(super) fn begin_warm_transfer(&mut self, id: TransferId, transfer: &Transfer, now_ps: u64) {
        for page in &transfer.pages {
            self.snoop(page.frame, transfer.write, now_ps);
        }
        self.queue.push(now_ps, self.memory_source(), Event::Transferred(id));
    }

    pub(super) fn end_warm_transfer(&mut self, id: TransferId, now_ps: u64) {
        while !self.paging.page_moved(id) {}
        self.end_transfer(id, now_ps);
    }
}
