//! Transfers to and from a store that lies in DRAM: whoever hands one over copies its pages, line by line, through the
//! on-chip caches (`brd_submit_bio`, drivers/block/brd.c), and nothing interrupts.
//!
//! What a thread of the kernel copies is moved in DRAM, past the caches, and takes instructions alone.

use super::kernel::path_steps;
use super::memory::Woken;
use super::thread::{Action, Place, Step, Thread};
use super::{COPY_INSTRUCTIONS, Machine};
use tierscope_kernel::Stage;
use tierscope_model::device::InDram;
use tierscope_model::os::paging::{PageTransfer, TransferId};

impl Machine {
    /// Whether transfers are copied by those who hand them over.
    pub(super) fn copies(&self) -> bool {
        self.fixed.in_dram.is_some() && !self.nobody_waits()
    }

    /// What copies the pages of a transfer, and ends it; instructions are charged to a stage.
    pub(super) fn copy_steps(&mut self, id: TransferId, stage: Stage) -> Vec<Step> {
        self.paging.submitted(id);
        let bytes = 1u64 << self.fixed.page_shift;
        self.follow_copies(id);
        let transfer = self.paging.transfer(id);
        let driver_ps = |store: InDram| store.driver_ps(bytes, transfer.write);
        let duration_ps = self.fixed.in_dram.map_or(0, driver_ps);
        let mut steps = Vec::new();
        for PageTransfer { frame, store_address } in &transfer.pages {
            let memory = Place::Physical(frame << self.fixed.page_shift);
            let place = Place::Physical(self.fixed.memory_bytes + store_address);
            let (from, to) = if transfer.write { (memory, place) } else { (place, memory) };
            steps.push(Step::Copy { stage, from, to, bytes });
            if duration_ps > 0 {
                steps.push(Step::Stall { stage: Stage::Medium, duration_ps });
            }
        }
        steps.push(Step::Act(Action::Copied(id)));
        steps
    }

    /// A thread has copied all pages of a transfer, and wakes those who wait for it.
    pub(super) fn end_copies_of(&mut self, index: usize, id: TransferId, now_ps: u64) {
        while !self.paging.page_moved(id) {}
        let wake_ups = self.end_copies(id, now_ps).count;
        let steps = path_steps(Stage::WakeUp, self.os.paths.wake_up, wake_ups);
        self.threads[self.contexts[index].thread].do_first(&steps);
    }

    /// All pages have been copied: the threads that waited become ready.
    pub(super) fn end_copies(&mut self, id: TransferId, now_ps: u64) -> Woken {
        let io = self.conclude_transfer(id, now_ps);
        self.wake_waiters(&io.waiters, true, now_ps, now_ps, |thread: &mut Thread| {
            thread.charge_tail(&io.timeline, Stage::Driver, now_ps);
        })
    }

    /// What a thread of the kernel does to copy the pages of transfers that it hands over: the instructions. The pages
    /// are moved in DRAM, lest what it has to do wait for a thread that waits for it.
    pub(super) fn daemon_copies(&self, submits: &[TransferId]) -> Option<Step> {
        if !self.copies() {
            return None;
        }
        let lines = 1u64 << (self.fixed.page_shift - self.fixed.line_shift);
        let pages = submits.iter().map(|id| self.paging.transfer(*id).pages.len() as u64);
        let instructions = pages.sum::<u64>() * lines * COPY_INSTRUCTIONS;
        Some(Step::Run { stage: Stage::Driver, instructions })
    }

    /// Lines of a page's place in a store that lies in DRAM leave the on-chip caches before it is moved there.
    pub(super) fn snoop_place(&mut self, store_address: u64, now_ps: u64) {
        if self.fixed.in_dram.is_some() {
            let place = self.fixed.memory_bytes + store_address;
            self.snoop(place >> self.fixed.page_shift, true, now_ps);
        }
    }
}
