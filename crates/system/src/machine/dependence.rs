//! Misses that wait for another of their thread, as their address is made of what that loads: they have their place in the
//! window and begin when it is finished.

use super::memory::Miss;
use super::prefetch::Ahead;
use super::thread::Access;
use super::{Event, Machine};
use tierscope_kernel::{Stage, Timeline};
use tierscope_model::processor::window::{Gives, LOADS};

/// What a miss waits for: another, how long after that its address is known, and what the TLB takes then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behind {
    pub of: u32,
    pub after_ps: u32,
    pub tlb_ps: u64,
}

impl Machine {
    /// Enters a miss in the window that begins when another of its thread is finished.
    pub(super) fn start_behind(&mut self, index: usize, (miss, gives): (Miss, Gives), of: u32) {
        let id = self.enter_miss(index, (miss, gives), false);
        self.misses[of].dependents.push(id);
    }

    /// The first of the misses that wait for each other, of which this is the last: the one that is under way.
    pub(super) fn first_of(&self, mut miss: u32) -> u32 {
        while let Some(Behind { of, .. }) = self.misses[miss].behind {
            miss = of;
        }
        miss
    }

    /// A miss that waited for another, which is finished, begins: it looks in its core's own caches, which may serve it, and
    /// goes to the shared ones.
    pub(super) fn begin_dependent(&mut self, id: u32, of: &Miss, now_ps: u64) {
        // A line that was prefetched is a core's; who waits for it is one of its threads.
        let by = if of.ahead == Ahead::No { of } else { &self.misses[id] };
        let (thread, context) = (by.thread, by.context);
        let away = self.threads[thread].away.as_mut().filter(|away| away.has(id));
        let index = match away {
            Some(away) => {
                away.window.begin(id);
                context
            }
            None => {
                let index = self.context_of(context, thread);
                self.contexts[index].window.begin(id);
                index
            }
        };
        self.account.beyond_first += 1;
        self.account.walks += u64::from(self.misses[id].walk_left > 0);
        let Machine { misses, cores, contexts, evicted, .. } = self;
        let miss = &mut misses[id];
        let Some(Behind { after_ps, tlb_ps, .. }) = miss.behind.take() else { return };
        miss.context = index;
        // It is told from when its address is known.
        miss.clock_ps = miss.clock_ps.max(now_ps + u64::from(after_ps));
        miss.start_ps = miss.clock_ps;
        miss.timeline = Timeline::new();
        miss.pass(Stage::Tlb, miss.clock_ps + tlb_ps);
        let is_served = miss.advance(&mut cores[contexts[index].core].caches, evicted);
        miss.is_served = is_served;
        let (at_ps, line, write) = (miss.clock_ps, miss.line, miss.write);
        self.put_evicted(now_ps);
        self.served_by_own(index, self.misses[id].level, (line, at_ps));
        if is_served && self.fixed.check_data {
            self.check(index, line, write);
        }
        let event = if is_served { Event::Finish(id) } else { Event::Shared(id) };
        self.queue.push(at_ps, index as u16, event);
    }

    /// Detail ends: what has not begun is taken back, for threads to do before all else as they go on. Chains that
    /// fill a window would take as many accesses to end as it holds.
    pub(super) fn take_back(&mut self) {
        let ahead: Vec<u32> =
            self.cores.iter().flat_map(|core| core.ahead.iter().map(|(_, id)| *id)).collect();
        for index in 0..self.contexts.len() {
            let context = &mut self.contexts[index];
            if context.trap.is_some() {
                // It waits for all of them before it enters the kernel.
                continue;
            }
            let again = &mut self.threads[context.thread].again;
            let mut loads = Vec::new();
            context.pending.retain(|(_, id)| {
                let miss = &mut self.misses[*id];
                miss.dependents.clear();
                let Some(Behind { of, .. }) = miss.behind else { return true };
                // What it waited for has ended, or is taken back, too.
                let back = loads.iter().rev().position(|load| *load == of);
                let back = back.map_or(0, |at| at + 1).min(LOADS) as u8;
                if miss.walk_left > 0 {
                    // It walks again.
                    self.cores[context.core].tlb.invalidate(miss.address >> self.fixed.page_shift);
                }
                let access = Access::program(miss.address, miss.began_as_store, back);
                again.push_back(Access { measured: miss.measured, ..access });
                again.extend(miss.joined().map(|(at, write)| Access::program(at, write, 0)));
                let first = (miss.address, miss.began_as_store);
                let all = std::iter::once(first).chain(miss.joined());
                loads.extend(all.filter(|(_, write)| !write).map(|_| *id));
                context.window.finish(*id, context.now_ps);
                self.misses.remove(*id);
                if ahead.contains(&of) {
                    self.misses[of].dependents.retain(|dependent| dependent != id);
                }
                false
            });
        }
    }
}
