//! Stores past the caches (non-temporal), and flushes of lines from them.
//!
//! What a hardware thread stores past the caches is combined, line by line, in buffers, of which each takes one of
//! its miss registers, as line fill buffers do (Intel 64 and IA-32 Architectures Optimization Reference Manual, "write
//! combining"). A buffer goes to memory when its line is full, and before: at a fence, at a register that the thread
//! needs, at any other access of it to the line, and as it enters the kernel. Then all caches give up the line, and
//! memory takes it. Flushes take the same way, with what the caches have of the line, where it was written. Either is
//! done once main memory has taken the line, as a memory controller whose queues outlive a failure of power does
//! (asynchronous DRAM refresh); where nothing was written, once all caches have been asked.

use super::causes::Cause;
use super::coherence::Transit;
use super::core::Flow;
use super::memory::{Merged, Miss, Outgoing};
use super::thread::{Access, Begun, Way};
use super::{Event, Machine};
use tierscope_kernel::Stage;
use tierscope_model::processor::on_chip::DirtyLine;
use tierscope_model::processor::window::{Block, Gives, Holds, Outstanding, UNKNOWN};

impl Machine {
    /// Offers a store past the caches, or a flush, of a line to its core.
    #[inline(never)]
    pub(super) fn perform_past(
        &mut self,
        index: usize,
        access: Access,
        (line, address): (u64, u64),
        tlb_ps: u64,
    ) -> Flow {
        let parts = self.parts(address, access.bytes);
        let context = &mut self.contexts[index];
        let pending = context.pending.iter().find(|(pending, _)| *pending == line);
        if let Some((_, id)) = pending.copied() {
            let combines = access.way == Way::Past && self.misses[id].open.is_some();
            if !combines || context.window.len() >= 4096 {
                return self.wait_on(index, Block::On(id));
            }
            let thread = &mut self.threads[context.thread];
            let Begun { mut timeline, fault, .. } =
                thread.begin(access, context.now_ps, &mut self.account.ended);
            timeline.push(Stage::Tlb, tlb_ps);
            let since_ps = context.now_ps + tlb_ps;
            let miss = &mut self.misses[id];
            let address = access.place.address();
            let (site, write) = (thread.site, access.write);
            let merged = Merged { site, address, write, since_ps, timeline, fault };
            miss.merge(access, merged, &mut self.spare);
            miss.open = miss.open.map(|stored| stored | parts);
            self.note_past(index, id, false);
            self.send_if_full(index, id);
            self.access_done(index);
            return Flow::Continue;
        }
        match context.window.register_block() {
            Block::None => {}
            block => return self.wait_on(index, block),
        }
        let now_ps = context.now_ps;
        if access.way == Way::Past
            && let Some((true, version)) = self.cores[context.core].caches.give_up(line)
        {
            self.evicted.push(DirtyLine { line, version });
        }
        self.post_evicted(index, now_ps);
        let context = &mut self.contexts[index];
        let thread = &mut self.threads[context.thread];
        let area = context.area_of(&self.paging, &self.fixed, &access);
        let cause = Cause { area, site: thread.site };
        let begun = thread.begin(access, now_ps, &mut self.account.ended);
        let mut miss = Miss::new((index, context.thread), line, (access, cause), begun);
        miss.write = true;
        miss.timeline.push(Stage::Tlb, tlb_ps);
        miss.clock_ps = now_ps + tlb_ps;
        miss.open = Some(if access.way == Way::Past { parts } else { u64::MAX });
        self.account.beyond_first += 1;
        let id = self.misses.insert(miss);
        self.contexts[index].pending.push((line, id));
        self.note_past(index, id, true);
        if access.way.is_ordered() {
            self.contexts[index].window.fence(true);
        }
        self.send_if_full(index, id);
        self.access_done(index);
        Flow::Continue
    }

    /// The parts of its line, of which there are 64, that an access writes.
    fn parts(&self, address: u64, bytes: u16) -> u64 {
        let line_bytes = 1u64 << self.fixed.line_shift;
        let part = |byte: u64| byte * 64 / line_bytes;
        let first = address & (line_bytes - 1);
        let last = (first + u64::from(bytes.max(1)) - 1).min(line_bytes - 1);
        // Of lines of less than 64 bytes, a byte is several parts.
        let (first, past) = (part(first), part(last + 1).max(part(first) + 1));
        (u64::MAX >> (64 - (past - first))) << first
    }

    /// Enters an access that is done with its miss in the window.
    fn note_past(&mut self, index: usize, miss: u32, takes_register: bool) {
        let context = &mut self.contexts[index];
        let entry = Outstanding {
            instruction: self.threads[context.thread].position_instructions,
            done_ps: UNKNOWN,
            miss,
            after_ps: 0,
            holds: Holds::Nothing,
            takes_register,
        };
        context.window.push(entry, Gives::Nothing);
    }

    fn send_if_full(&mut self, index: usize, id: u32) {
        if self.misses[id].open == Some(u64::MAX) {
            self.send_buffer(index, id);
        }
    }

    /// A buffer of a hardware thread goes, if it is still there.
    #[inline]
    pub(super) fn send_buffer(&mut self, index: usize, id: u32) {
        if self.misses[id].open.is_some() {
            self.send_open_buffer(index, id);
        }
    }

    #[cold]
    fn send_open_buffer(&mut self, index: usize, id: u32) {
        let now_ps = self.contexts[index].now_ps;
        let miss = &mut self.misses[id];
        miss.open = None;
        let from_ps = now_ps.max(miss.clock_ps);
        miss.pass(Stage::Core, from_ps);
        miss.pass(Stage::Cache, from_ps + self.fixed.lookahead_ps);
        let at_ps = miss.clock_ps;
        self.queue.push(at_ps, index as u16, Event::Shared(id));
    }

    /// All buffers of a hardware thread go.
    pub(super) fn send_buffers(&mut self, index: usize) {
        for at in 0..self.contexts[index].pending.len() {
            let (_, id) = self.contexts[index].pending[at];
            self.send_buffer(index, id);
        }
    }

    /// All buffers go, as no thread goes on.
    pub(super) fn send_all_buffers(&mut self) {
        (0..self.contexts.len()).for_each(|index| self.send_buffers(index));
    }

    /// A line leaves all caches, or stays there, clean; what was written of it goes to memory.
    pub(super) fn leave_caches(&mut self, id: u32, now_ps: u64) {
        let Miss { context, wanted: line, way, .. } = self.misses[id];
        let core = self.contexts[context].core;
        let transit = Transit { line, miss: id, core, write: true, recalled: None };
        self.coherence.transit.push(transit);
        self.take_posted(line, now_ps);
        self.forget_prefetches(line, line, now_ps);
        let keeps = way.keeps();
        let (mut newest, others) = self.take_from_caches(core, line, keeps);
        if way == Way::Past {
            self.account.lines_past += 1;
            newest = Some(self.account.overwritten(line));
            self.follow_store(line);
        } else {
            self.account.flushes += 1;
            self.account.flushed_lines += u64::from(newest.is_some());
        }
        let least_ps = if others { self.coherence.invalidation_ps } else { 0 };
        let at_ps = now_ps + least_ps.max(self.directory_ps());
        let miss = &mut self.misses[id];
        miss.asked_ps = at_ps;
        if let Some(version) = newest {
            // What left the caches is on its way at once: it is nowhere else.
            miss.version = version;
            self.outgoing.push(Outgoing::Past(id));
            return self.pump(now_ps);
        }
        miss.pass(Stage::Cache, at_ps);
        self.queue.push(at_ps, self.memory_source(), Event::Passed(id));
    }

    /// The version of what a line was written to in any cache, and whether cores besides this one had it. It goes
    /// from all, or stays, clean.
    fn take_from_caches(&mut self, core: usize, line: u64, keeps: bool) -> (Option<u64>, bool) {
        let shared = if keeps { self.shared.clean(line) } else { self.shared.give_up(line) };
        let mut newest = shared.and_then(|(dirty, version)| dirty.then_some(version));
        let mut others = false;
        for (index, other) in self.cores.iter_mut().enumerate() {
            let caches = &mut other.caches;
            let had = if keeps { caches.clean(line) } else { caches.give_up(line) };
            let Some((dirty, version)) = had else { continue };
            others |= index != core;
            self.account.invalidations += u64::from(index != core && !keeps);
            if dirty {
                newest = Some(version);
            }
        }
        if let (true, Some(version), true) = (keeps, newest, shared.is_some()) {
            self.shared.set_version(line, version);
        }
        (newest, others)
    }

    /// Memory has taken what passed the caches by, or nothing had to go there.
    pub(super) fn passed(&mut self, id: u32, now_ps: u64) {
        let Miss { wanted: line, timeline, .. } = self.misses[id];
        self.finish_miss(id, now_ps);
        self.leave_transit(id, line, &timeline, now_ps);
    }

    /// The same in functional warming: at once where one core runs, and else as late as an access leaves its core.
    /// Whether the access is no further one to the line that its thread wrote past the caches last.
    pub(super) fn warm_past(&mut self, index: usize, line: u64, way: Way, now_ps: u64) -> bool {
        let context = &mut self.contexts[index];
        let keeps = way.keeps();
        if way == Way::Past {
            if context.past == line {
                return false;
            }
            context.past = line;
            self.account.lines_past += 1;
            let core = context.core;
            self.warm_in_memory(core, line, true, now_ps);
        } else {
            context.past = u64::MAX;
            self.account.flushes += 1;
        }
        if self.coherence.active_cores <= 1 {
            self.warm_leave(line, keeps, now_ps);
        } else {
            let at_ps = now_ps + self.fixed.lookahead_ps;
            self.queue.push(at_ps, self.memory_source(), Event::Leave(line, keeps));
        }
        true
    }

    /// A line leaves all caches in functional warming, or stays there, clean.
    pub(super) fn warm_leave(&mut self, line: u64, keeps: bool, now_ps: u64) {
        let (newest, _) = self.take_from_caches(0, line, keeps);
        if let Some(version) = newest {
            self.account.flushed_lines += 1;
            self.dropped.push(DirtyLine { line, version });
            self.send_dropped(now_ps);
        }
    }
}
