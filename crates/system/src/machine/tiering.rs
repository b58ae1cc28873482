//! Pages that the kernel moves between two nodes of memory: scans for hot ones, and those that leave DRAM. What
//! moves is [`tierscope_model::os::paging`]'s to say; whoever wants a page of the slower memory copies it himself.

use super::kernel::path_steps;
use super::memory::PageIo;
use super::thread::{Step, Thread};
use super::{Doing, Event, Machine};
use tierscope_kernel::Stage;
use tierscope_model::os::PathSpec;
use tierscope_model::os::paging::{Demoted, Moves, PageTransfer, TransferId, Work};

/// Threads do other work for so many times as long as a scan has taken, at least (`task_numa_work`).
const OTHER_WORK: u64 = 32;
/// A scan that finds its thread at the one before comes again so much later.
const STILL_BUSY_PS: u64 = 10_000_000;

impl Machine {
    /// The first scan is put among the events, where pages move.
    pub(super) fn schedule_scans(&mut self) {
        self.paging.schedule_scans();
        self.wake_daemons(0, 0);
    }

    pub(super) fn push_scan(&mut self, at_ps: u64) {
        self.scan_is_due = true;
        self.queue.push(at_ps, self.memory_source(), Event::Scan);
    }

    /// Entries are taken away by a thread that runs, each in its turn (`task_numa_work`): the work is done before it
    /// goes on.
    pub(super) fn scan_for_hot_pages(&mut self, now_ps: u64) {
        self.scan_is_due = false;
        let count = self.contexts.len();
        let first = self.scans as usize % count;
        let turns = (first..first + count).map(|index| index % count);
        let mut busy = turns.filter(|index| self.contexts[*index].doing != Doing::Idle);
        let chosen = busy.next();
        self.scans += 1;
        let is_of_move = |step: &Step| matches!(step, Step::Run { stage, .. } | Step::Touch { stage, .. } if *stage == Stage::Migration);
        if let Some(index) = chosen
            && self.threads[self.contexts[index].thread].steps.iter().any(is_of_move)
        {
            // It has yet to do the one before.
            return self.push_scan(now_ps + STILL_BUSY_PS);
        }
        let mut work = Vec::new();
        let scanned = self.paging.scan(now_ps, &mut work);
        self.apply_effects();
        let mut rest_ps = 0;
        if let Some(index) = chosen {
            let steps = self.work_steps(&work);
            for step in &steps {
                if let Step::Run { instructions, .. } = *step {
                    let path = PathSpec { instructions: instructions as u32, lines: 0 };
                    rest_ps += OTHER_WORK * self.kernel_path_ps(path);
                }
            }
            self.threads[self.contexts[index].thread].do_first(&steps);
            if scanned.shot_down {
                self.interrupt_others(index);
            }
        }
        self.push_scan(scanned.next_ps.max(now_ps.saturating_add(rest_ps)));
    }

    /// Cores that run threads are told to forget translations.
    fn interrupt_others(&mut self, index: usize) {
        let Some((_, path)) = self.paging.shootdown_paths() else { return };
        let core = self.contexts[index].core;
        for other in 0..self.contexts.len() {
            let context = &self.contexts[other];
            if context.core != core && context.doing == Doing::Running {
                let steps = path_steps(Stage::Migration, path, 1);
                self.threads[context.thread].do_first(&steps);
            }
        }
    }

    /// The kernel's thread makes room in DRAM by a pass; whether it goes on at once, and what it waits for.
    pub(super) fn demote_pages(
        &mut self,
        context: usize,
        work: &mut Vec<Work>,
    ) -> (bool, Option<TransferId>) {
        let shift = self.fixed.page_shift - self.fixed.line_shift;
        let coming: Vec<u64> = self.misses.iter().map(|(_, miss)| miss.line >> shift).collect();
        let cores = &self.cores;
        let held = |page| cores.iter().any(|core| core.tlb.holds(page));
        let in_use = |frame| coming.contains(&frame);
        let Demoted { goes_on, transfer } = self.paging.demote(work, &held, &in_use);
        if transfer.is_some() {
            self.interrupt_others(context);
        }
        (goes_on, transfer)
    }

    /// A page has been copied to the slower memory: what on-chip caches have of its frame there is of the page before.
    pub(super) fn arrives_on_far_node(&mut self, page: &PageIo, now_ps: u64) {
        if page.control.is_some() || self.paging.transfer(page.transfer).moves != Moves::Demotion {
            return;
        }
        let moved = PageTransfer { frame: page.frame, store_address: page.store_address };
        let frame = self.paging.far_frame(&moved);
        self.snoop(frame, false, now_ps);
        self.account.page_in(frame, page.store_address, &self.fixed);
    }

    /// Pages have left DRAM: those who want one of them go on, and so does the kernel's thread.
    pub(super) fn end_demotion(&mut self, id: TransferId, now_ps: u64) {
        let io = self.conclude_transfer(id, now_ps);
        let charge = |thread: &mut Thread| thread.charge_until(Stage::Migration as usize, now_ps);
        self.wake_waiters(&io.waiters, false, now_ps, now_ps, charge);
    }
}
