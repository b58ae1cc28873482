//! Reads that take long: main memory tells of a line that it has to fetch from flash, and the core takes an
//! exception and runs another thread meanwhile (SkyByte: H. Zhang et al., HPCA 2025, section III-A).
//!
//! The thread that is switched away from takes along what it has under way. What comes meanwhile is its own; a line
//! that takes long it asks for again when it goes on, and finds it in the memory of the device, or is told once more.

use super::memory::Miss;
use super::thread::{Away, State, Trap, Way};
use super::{Doing, Event, Machine};
use std::mem::take;
use tierscope_kernel::Stage;

impl Machine {
    /// Whether the core may do something else where a miss takes long: not in the kernel, and not for a walk, which
    /// no instruction waits for.
    pub(super) fn would_be_told(&self, id: u32) -> bool {
        if !self.fixed.tells {
            return false;
        }
        let miss = &self.misses[id];
        miss.measured && miss.walk_left == 0 && miss.way == Way::Caches
    }

    /// Main memory has told of reads that take long: those who can wait for each do so, others ask again.
    pub(super) fn long_reads(&mut self, now_ps: u64) {
        let mut told = Vec::new();
        self.organization.take_told(&mut told);
        for response in told {
            let (id, at_ps) = (response.id, response.at_ps);
            let line = self.misses[id].wanted;
            self.line_misses.remove(&line);
            let followers = take(&mut self.misses[id].followers);
            for miss in std::iter::once(id).chain(followers) {
                self.misses[miss].pass_as(&response.stages, Stage::ControllerQueue, at_ps);
                if !self.would_be_told(miss) {
                    self.queue.push(now_ps, self.memory_source(), Event::Memory(miss));
                    continue;
                }
                self.misses[miss].told = true;
                let stages = self.misses[miss].timeline;
                self.leave_transit(miss, line, &stages, now_ps);
                self.switch_away(miss, now_ps);
            }
        }
    }

    /// A hardware thread has come to wait for a miss: if that takes long, it soon does something else.
    #[inline]
    pub(super) fn mind_long_read(&mut self, index: usize, miss: u32) {
        if self.fixed.tells && self.misses[miss].told {
            let at_ps = self.contexts[index].now_ps + self.fixed.lookahead_ps;
            self.queue.push(at_ps, index as u16, Event::Long(miss));
        }
    }

    /// Whoever waits for a miss that takes long runs another thread, if one is ready.
    pub(super) fn switch_away(&mut self, id: u32, now_ps: u64) {
        let waits = |doing: Doing| doing == Doing::Stalled(id) && self.misses[id].told;
        let Some(index) = self.contexts.iter().position(|it| waits(it.doing)) else { return };
        let miss: Miss = self.misses[id].clone();
        self.end_stall(index, &miss, now_ps);
        self.send_buffers(index);
        self.account.long_reads += 1;
        let context = &mut self.contexts[index];
        let window = context.window.take();
        // A slice that is over is so no more.
        let trap = context.trap.take().filter(|trap| *trap != Trap::Slice);
        let pending = take(&mut context.pending);
        let id = context.thread;
        let thread = &mut self.threads[id];
        let (access, store_after) = (thread.access.take(), thread.store_after.take());
        let half = thread.half.take();
        let away = Away { window, pending, trap, access, store_after, half };
        thread.away = Some(Box::new(away));
        self.leave(index, State::Ready);
        self.ready.push_back(id);
        self.dispatch(index, now_ps);
        self.wake_daemons(index, now_ps);
    }

    /// A thread that was switched away from goes on with what it has under way, and asks again for what took long.
    pub(super) fn come_back(&mut self, index: usize) {
        let context = &mut self.contexts[index];
        let thread = &mut self.threads[context.thread];
        let Some(away) = thread.away.take() else { return };
        let Away { window, pending, trap, access, store_after, half } = *away;
        (context.window, context.pending, context.trap) = (window, pending, trap);
        (thread.access, thread.store_after, thread.half) = (access, store_after, half);
        let now_ps = context.now_ps;
        context.window.retire(now_ps);
        let at_ps = now_ps + self.fixed.lookahead_ps;
        for (_, id) in &self.contexts[index].pending {
            let miss = &mut self.misses[*id];
            if take(&mut miss.told) {
                miss.context = index;
                miss.pass(Stage::Ready, now_ps);
                miss.pass(Stage::Cache, at_ps);
                self.queue.push(at_ps, index as u16, Event::Shared(*id));
            }
        }
    }
}
