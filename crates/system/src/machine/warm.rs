//! Functional warming: what precedes the region of interest changes what caches, TLBs, tables and
//! memory hold as it would in detail, but at once: accesses and transfers take no time. In what a sampled run passes
//! over ([`super::sample`]) they take what they took in units.

use super::core::{Flow, Source, fault, kernel_access, translate};
use super::sample::Waits;
use super::thread::{Access, Place, Step, Way};
use super::transfer_times::Class;
use super::{Doing, Event, Machine};
use tierscope_kernel::Stage;
use tierscope_model::organization::PagesMoved;
use tierscope_model::os::paging::{Moves, Transfer, TransferId};
use tierscope_model::processor::tlb::Translation;
use tierscope_model::request::PageRequest;

impl Machine {
    /// Serves the thread's access at once, or finds that the kernel has to come first. What goes beyond
    /// the core's first level, which [`Machine::run_hits`] serves, goes in order of time over all
    /// hardware threads, so that it does not depend on how long their batches are.
    pub(super) fn warm(&mut self, index: usize) -> Flow {
        if self.first_running() != Some(index) {
            return Flow::Stop;
        }
        self.warm_access(index);
        Flow::Continue
    }

    /// Serves the thread's access, whose turn it is, or finds that the kernel has to come first.
    fn warm_access(&mut self, index: usize) {
        let context = &mut self.contexts[index];
        let thread = &mut self.threads[context.thread];
        let Some(access) = thread.access else { return };
        let (core, now_ps) = (context.core, context.now_ps);
        let reads = self.account.memory_reads;
        let mut walked = false;
        let physical = match access.place {
            Place::Physical(address) => address,
            Place::Nowhere => return,
            Place::Virtual(address) => {
                let page = address >> self.fixed.page_shift;
                let tlb = &mut self.cores[core].tlb;
                let Some((found, source)) = translate(tlb, &mut self.paging, page, access.write)
                else {
                    fault(context, thread, page, access, now_ps);
                    return;
                };
                if source == Source::Walk {
                    walked = true;
                    self.warm_walk(core, page, found, now_ps);
                }
                let offset = address & ((1 << self.fixed.page_shift) - 1);
                found.frame << self.fixed.page_shift | offset
            }
        };
        self.warm_reached(index, &access, physical, (walked, reads));
        self.access_done(index);
    }

    /// Serves an access whose address is known: after a walk, or not, before which so much had been read.
    #[inline]
    fn warm_reached(
        &mut self,
        index: usize,
        access: &Access,
        physical: u64,
        (walked, reads): (bool, u64),
    ) {
        let context = &mut self.contexts[index];
        let (core, now_ps) = (context.core, context.now_ps);
        let line = physical >> self.fixed.line_shift;
        let level = match access.way {
            Way::Caches => {
                if context.past == line {
                    context.past = u64::MAX;
                }
                let thread = &self.threads[context.thread];
                let write = access.write || thread.stores_next(access, self.fixed.line_shift);
                let level = self.warm_line(core, (line, write, access.whole_line), now_ps);
                if level > 0 && !access.whole_line {
                    self.warm_into_own(core, line, now_ps);
                }
                level
            }
            way if self.warm_past(index, line, way, now_ps) => self.cores[core].caches.depth(),
            _ => 0,
        };
        let thread = &mut self.threads[self.contexts[index].thread];
        if access.after_fault {
            thread.fault = None;
        }
        self.account.hit(access.measured, 0, false, thread.site);
        if level > 0 {
            self.account.served_beyond[level] += u64::from(access.measured);
        }
        if walked || level > 0 {
            self.account.beyond_first += 1;
            let Waits { beyond_ps, memory_ps, fetch_ps, write_back_ps } = self.waits;
            let reads = self.account.memory_reads - reads;
            // With what has been moved since the last that paid.
            let PagesMoved { read, written } = std::mem::take(&mut self.warm_moved);
            self.store_debt_ps += read * fetch_ps + written * write_back_ps;
            let store_ps = self.pay_store();
            self.stand_still(index, beyond_ps + reads * memory_ps + store_ps);
        }
    }

    /// An access of the kernel's, to memory that has its address, if it is the thread's turn; else it waits for that.
    #[inline]
    fn warm_in_turn(&mut self, index: usize, access: Access, turn: bool) {
        match access.place {
            Place::Physical(address) if turn => {
                let reads = self.account.memory_reads;
                self.warm_reached(index, &access, address, (false, reads));
            }
            _ => self.threads[self.contexts[index].thread].access = Some(access),
        }
    }

    /// A path of the kernel touches so many lines: as many as can be before anything else comes.
    pub(super) fn warm_touch(
        &mut self,
        index: usize,
        (stage, mut lines): (Stage, u32),
        horizon_ps: u64,
    ) -> Flow {
        let (first_until_ps, lone) = self.goes_first(index);
        let (mut turn, mut more) = (true, true);
        while lines > 0 && more && self.contexts[index].now_ps < horizon_ps {
            let context = &self.contexts[index];
            let by = (context.thread, &self.threads[context.thread]);
            let access = kernel_access(&self.fixed, by, stage, lines);
            lines -= 1;
            turn = context.now_ps < first_until_ps;
            self.warm_in_turn(index, access, turn);
            more = turn && lone;
        }
        self.go_on_with(index, (lines > 0).then_some(Step::Touch { stage, lines }), turn)
    }

    /// The kernel copies: as many lines as can be before anything else comes.
    pub(super) fn warm_copy(
        &mut self,
        index: usize,
        stage: Stage,
        (mut from, mut to): (Place, Place),
        mut bytes: u64,
        mut horizon_ps: u64,
    ) -> Flow {
        let (first_until_ps, _) = self.goes_first(index);
        while bytes > 0 && self.contexts[index].now_ps < horizon_ps {
            let part = self.copy_line(index, stage, (from, to), bytes);
            (from, to, bytes) = (from.after(part), to.after(part), bytes - part);
            while self.contexts[index].now_ps < first_until_ps.min(horizon_ps)
                && self.threads[self.contexts[index].thread].access.is_some()
            {
                self.warm_access(index);
                // What it has sent out may come back to it.
                horizon_ps = self.queue.peek_ps().map_or(horizon_ps, |at_ps| at_ps.min(horizon_ps));
            }
            let context = &self.contexts[index];
            if context.trap.is_some() || self.threads[context.thread].access.is_some() {
                break;
            }
        }
        if bytes > 0 {
            let rest = Step::Copy { stage, from, to, bytes };
            self.threads[self.contexts[index].thread].steps.push_front(rest);
        }
        Flow::Continue
    }

    /// Until when a hardware thread comes first of those that run, and whether nothing that its accesses send out can
    /// come back to it.
    fn goes_first(&self, index: usize) -> (u64, bool) {
        let others = self.contexts.iter().enumerate().filter(|(other, _)| *other != index);
        let running = others.filter(|(_, context)| context.doing == Doing::Running);
        let until_ps = running.map(|(other, context)| context.now_ps + u64::from(index < other));
        (until_ps.min().unwrap_or(u64::MAX), self.coherence.active_cores <= 1)
    }

    /// What is left of a step comes next, if it is the thread's turn.
    fn go_on_with(&mut self, index: usize, rest: Option<Step>, turn: bool) -> Flow {
        let thread = &mut self.threads[self.contexts[index].thread];
        if let Some(step) = rest {
            thread.steps.push_front(step);
        }
        if turn { Flow::Continue } else { Flow::Stop }
    }

    /// A walk reads the page table, and the TLB has the translation.
    fn warm_walk(&mut self, core: usize, page: u64, translation: Translation, now_ps: u64) {
        self.account.walks += 1;
        self.paging.touch(translation.frame);
        let is_huge = self.paging.is_huge(translation.frame);
        let tlb = &mut self.cores[core].tlb;
        tlb.insert_of(page, translation, is_huge);
        let (walk, levels) = self.paging.walk_addresses(page, is_huge);
        let levels = if tlb.upper_levels_cached(page, is_huge) { 1 } else { levels };
        for address in walk[..levels].iter().rev() {
            self.warm_line(core, (address >> self.fixed.line_shift, false, false), now_ps);
        }
    }

    /// The part of what the store takes for pages moved that an access waits for. Pages go to the store
    /// in bursts, and nobody waits for a burst at once.
    fn pay_store(&mut self) -> u64 {
        const SHARE: u64 = 16;
        let paid_ps = self.store_debt_ps.div_ceil(SHARE);
        self.store_debt_ps -= paid_ps;
        paid_ps
    }

    /// The thread goes on so much later: nothing unless the run is sampled.
    pub(super) fn stand_still(&mut self, index: usize, duration_ps: u64) {
        if duration_ps > 0 {
            let context = &mut self.contexts[index];
            context.now_ps += duration_ps;
            self.threads[context.thread].charge_until(Stage::Cache as usize, context.now_ps);
        }
    }

    /// A core uses a line, which comes from wherever it is: written, and wholly, or not. The private
    /// level that had it; as many as there are where none had, or not for itself.
    fn warm_line(
        &mut self,
        core: usize,
        (line, write, whole): (u64, bool, bool),
        now_ps: u64,
    ) -> usize {
        if self.cores[core].caches.hit_first(line, write) {
            return 0;
        }
        let absent = self.is_off_chip(line);
        let caches = &mut self.cores[core].caches;
        debug_assert!(!absent || !caches.contains(line) && !self.shared.contains(line));
        let takes = write && !absent && caches.is_shared(line);
        if takes {
            self.account.upgrades += 1;
            caches.set_shared(line, false);
            if caches.hit_first(line, write) {
                self.claim(core, line, (write, false), now_ps);
                return self.cores[core].caches.depth();
            }
        }
        let found = match absent {
            true => None,
            false => caches.hit_beyond(line, write, &mut self.evicted),
        };
        if found.is_none() {
            let (mut alone, mut from_shared) = (absent, false);
            if whole {
                caches.fill_absent(line, true, 0, &mut self.evicted);
                if self.shared.inclusive_level().is_some() {
                    self.shared.fill(line, false, 0, &mut self.dropped);
                }
            } else {
                let several = self.coherence.active_cores > 1;
                from_shared = several && !absent && self.shared.contains(line);
                // Counted there, or once it is known whether another core had written it.
                let is_shared =
                    from_shared || !several && !absent && self.warm_shared_hit(core, line, now_ps);
                if !is_shared && !absent && self.another_holds(core, line) {
                    self.account.cache_transfers += 1;
                } else if !is_shared {
                    alone = true;
                    self.account.memory_reads += 1;
                    self.warm_in_memory(core, line, false, now_ps);
                    self.shared.fill_absent(line, false, 0, &mut self.dropped);
                    self.warm_ahead(core, line, now_ps);
                }
                let caches = &mut self.cores[core].caches;
                caches.fill_absent(line, write, 0, &mut self.evicted);
            }
            self.cores[core].caches.set_shared(line, false);
            self.note_on_chip(line);
            if !alone || now_ps + self.fixed.lookahead_ps >= self.alone_until_ps {
                self.claim(core, line, (write, from_shared), now_ps);
            }
        } else if takes {
            self.claim(core, line, (write, false), now_ps);
        }
        self.warm_evicted(now_ps);
        found.filter(|_| !takes).unwrap_or(self.cores[core].caches.depth())
    }

    /// What a core's caches dropped is in the shared ones at once, and what those dropped is written.
    #[inline]
    pub(super) fn warm_evicted(&mut self, now_ps: u64) {
        for dirty in self.evicted.drain(..) {
            self.shared.put_dirty(dirty, &mut self.dropped);
        }
        self.warm_recall(now_ps);
        self.offer_clean(now_ps);
        self.warm_dropped(now_ps);
    }

    /// What the shared caches dropped is written at once: nobody waits for it, but all that comes behind.
    pub(super) fn warm_dropped(&mut self, now_ps: u64) {
        for index in 0..self.dropped.len() {
            self.warm_in_memory(0, self.dropped[index].line, true, now_ps);
        }
        self.dropped.clear();
    }

    pub(super) fn warm_in_memory(&mut self, core: usize, line: u64, write: bool, now_ps: u64) {
        let address = line << self.fixed.line_shift;
        let moved = self.organization.warm(now_ps, core as u16, address, write);
        for beside in &mut self.beside {
            beside.warm(now_ps, core as u16, address, write);
        }
        self.warm_moved.read += moved.read;
        self.warm_moved.written += moved.written;
        if self.fixed.in_dram.is_some() && address >= self.fixed.memory_bytes {
            // A line of a page that is copied.
            let page_ps = if write { self.waits.write_back_ps } else { self.waits.fetch_ps };
            self.store_debt_ps += page_ps >> (self.fixed.page_shift - self.fixed.line_shift);
        }
    }

    /// A transfer begins whose pages the organization moves at once: its end is an event, as that of any other, when it
    /// has taken its time.
    pub(super) fn begin_warm_transfer(
        &mut self,
        (id, class): (TransferId, Class),
        transfer: &Transfer,
        now_ps: u64,
    ) {
        if let Some(control) = transfer.control() {
            self.organization.warm_control(now_ps, control);
        }
        for page in &transfer.pages {
            self.snoop(page.frame, transfer.write, now_ps);
            self.snoop_place(page.store_address, now_ps);
            let request = PageRequest {
                id: 0,
                store_address: page.store_address,
                memory_address: page.frame << self.fixed.page_shift,
                bytes: 1 << self.fixed.page_shift,
                write: transfer.write,
                background: transfer.write,
                force_unit_access: transfer.moves == Moves::Metadata { forced: true },
                content: 0,
            };
            self.organization.warm_page(now_ps, request);
        }
        let end_ps = now_ps.saturating_add(self.warm_transfer_ps(class, transfer.write));
        self.queue.push(end_ps, self.memory_source(), Event::Transferred(id));
    }

    pub(super) fn end_warm_transfer(&mut self, id: TransferId, now_ps: u64) {
        let transfer = self.paging.transfer(id);
        if !transfer.write {
            // As of any other that ends.
            let frames: Vec<u64> = transfer.pages.iter().map(|page| page.frame).collect();
            frames.into_iter().for_each(|frame| self.snoop(frame, false, now_ps));
        }
        while !self.paging.page_moved(id) {}
        self.end_transfer(id, 0, now_ps);
    }

    /// A thread would have waited for a transfer, which has ended at once: it has polled, or been woken and switched to,
    /// and touches the lines that these paths touch.
    pub(super) fn warm_waited(&mut self, index: usize, id: TransferId) {
        let thread = self.contexts[index].thread;
        if self.threads[thread].carried.take() == Some(id) || self.fixed.in_dram.is_some() {
            return;
        }
        let paths = &self.os.paths;
        let ways = match self.fixed.driver.as_ref().filter(|driver| driver.polls()) {
            Some(driver) => vec![(Stage::Driver, driver.poll)],
            None => {
                vec![(Stage::WakeUp, paths.wake_up), (Stage::ContextSwitch, paths.context_switch)]
            }
        };
        let touched = ways.into_iter().filter(|(_, path)| path.lines > 0);
        let touches: Vec<Step> =
            touched.map(|(stage, path)| Step::Touch { stage, lines: path.lines }).collect();
        self.threads[thread].do_first(&touches);
    }

    /// As many cores are interrupted for what a thread, or one of the kernel's own, has unmapped as in detail before;
    /// whether any is. What they touch, the thread that tells them touches: others may be elsewhere in time. What it takes
    /// them is part of what the store takes.
    pub(super) fn warm_shootdown(&mut self, by: Option<usize>) -> bool {
        let seen = self.shootdowns[usize::from(by.is_some())];
        let Some(thread) = by.map(|by| &mut self.threads[by]) else {
            self.account.shootdown_interrupts += seen.next(&mut self.shootdowns_left);
            return false;
        };
        let told = seen.next(&mut thread.shootdowns_left);
        self.account.shootdown_interrupts += told;
        let lines = self.os.paths.shootdown_interrupt.lines.saturating_mul(told as u32);
        if lines > 0 {
            thread.do_first(&[Step::Touch { stage: Stage::Interrupt, lines }]);
        }
        told > 0
    }
}
