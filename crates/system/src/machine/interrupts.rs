//! Interrupts: which hardware thread takes one, and where what it tells of is completed.
//!
//! A hardware thread handles one at a time; another that comes meanwhile waits (`irq_enter` to `irq_exit`, with the
//! softirq of the block layer behind it). Where the block layer passes a completion on (`rq_affinity`), waiters are woken
//! there, by an interrupt from one hardware thread to the other; none is sent as long as the other still handles what
//! was passed before (`blk_mq_complete_send_ipi`, block/blk-mq.c: one for a list that was empty).

use super::memory::{TransferIo, Woken};
use super::thread::Step;
use super::{Doing, Machine};
use crate::spec::SystemSpec;
use tierscope_kernel::Stage;
use tierscope_model::os::PathSpec;
use tierscope_model::os::driver::{InterruptSteering, RequestAffinity};
use tierscope_model::os::paging::{PageTransfer, TransferId};

/// Drives over which the host deals what is asked for: each has an interrupt of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dealt {
    drives: u64,
    stripe_bytes: u64,
}

impl Dealt {
    /// Of a machine whose host does so.
    pub fn of(spec: &SystemSpec) -> Option<Dealt> {
        let raid = spec.software_raid()?;
        Some(Dealt { drives: u64::from(raid.drives), stripe_bytes: raid.stripe.bytes() })
    }

    /// The drive that has a place of the store.
    pub fn drive_of(&self, store_address: u64) -> usize {
        (store_address / self.stripe_bytes % self.drives) as usize
    }

    /// How many of these pages each drive has; nothing where there are none, as of a flush.
    pub fn pages_of_drives(&self, pages: &[PageTransfer]) -> Vec<u32> {
        if pages.is_empty() {
            return Vec::new();
        }
        let mut counts = vec![0; self.drives as usize];
        pages.iter().for_each(|page| counts[self.drive_of(page.store_address)] += 1);
        counts
    }
}

/// The interrupt that a hardware thread has handled last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handler {
    /// Its number at the device; 0 where it told of one transfer.
    number: u32,
    context: usize,
    /// When it begins to wake threads.
    woken_from_ps: u64,
}

/// What a hardware thread does besides its software thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Interrupted {
    /// When it has handled all interrupts that have come.
    until_ps: u64,
    /// When it has completed all that was passed on to it.
    completing_until_ps: u64,
}

impl Machine {
    /// The hardware thread that the device interrupts, of a request that this one has handed over.
    fn interrupted_for(&self, submitter: usize) -> usize {
        let Some(driver) = &self.fixed.driver else { return submitter };
        match driver.interrupts {
            InterruptSteering::Submitter => submitter,
            InterruptSteering::One => driver.interrupt_thread.unwrap_or(0) as usize,
            InterruptSteering::Queue => {
                let core = self.contexts[submitter].core;
                let queue = self.block_layer.as_ref().map_or(0, |layer| layer.queue_of(core));
                queue * self.fixed.threads_per_core
            }
        }
    }

    /// The hardware thread that completes what has come to `interrupted` for `submitter`.
    fn completing(&self, interrupted: usize, submitter: usize) -> usize {
        let affinity =
            self.fixed.driver.as_ref().map_or_else(Default::default, |it| it.rq_affinity);
        let core = |context: usize| self.contexts[context].core;
        let shares = self.fixed.shares_cache || core(interrupted) == core(submitter);
        match affinity {
            RequestAffinity::Group if !shares => submitter,
            RequestAffinity::Core => submitter,
            RequestAffinity::Off | RequestAffinity::Group => interrupted,
        }
    }

    /// When a hardware thread has handled the interrupts that have come: it can take another, or run a software thread.
    pub(super) fn free_of_interrupts_ps(&self, context: usize, now_ps: u64) -> u64 {
        match self.nobody_waits() {
            true => now_ps,
            false => now_ps.max(self.contexts[context].interrupted.until_ps),
        }
    }

    /// The device tells that a transfer has ended, and those who waited for it become ready. Where the interrupt with
    /// this number, which is not 0, has told of another before, its handler goes on with this one.
    pub(super) fn end_by_interrupt(&mut self, io: &TransferIo, number: u32, now_ps: u64) {
        let paths = self.os.paths.clone();
        let handler = self.handler.filter(|handler| number != 0 && handler.number == number);
        let (context, path) = match handler {
            Some(it) => (it.context, PathSpec::NONE),
            None => (self.interrupted_for(io.context), paths.interrupt),
        };
        let from_ps = self.free_of_interrupts_ps(context, now_ps);
        let handled_ps = from_ps + self.kernel_path_ps(path);
        let told_ps = handler.map_or(handled_ps, |it| it.woken_from_ps.max(now_ps));
        self.handler = Some(Handler { number, context, woken_from_ps: told_ps });
        self.account.interrupts += u64::from(handler.is_none());
        self.account.kernel_instructions += u64::from(path.instructions);
        let handling = Step::Touch { stage: Stage::Interrupt, lines: path.lines };
        let to = self.completing(context, io.context);
        if to == context {
            let woken = self.complete(io, now_ps, handled_ps, told_ps);
            let touches = [handling, self.waking(&woken)];
            self.interrupt(context, (from_ps, woken.end_ps), &touches, woken.first);
            return;
        }
        self.interrupt(context, (from_ps, handled_ps), &[handling], None);
        let sends = self.contexts[to].interrupted.completing_until_ps <= handled_ps;
        let path = if sends { paths.completion_interrupt } else { PathSpec::NONE };
        self.account.completion_interrupts += u64::from(sends);
        self.account.kernel_instructions += u64::from(path.instructions);
        let from_ps = self.free_of_interrupts_ps(to, handled_ps);
        let passed_ps = from_ps + self.kernel_path_ps(path);
        let woken = self.complete(io, now_ps, passed_ps, passed_ps);
        let passing = Step::Touch { stage: Stage::Interrupt, lines: path.lines };
        self.interrupt(to, (from_ps, woken.end_ps), &[passing, self.waking(&woken)], woken.first);
        self.contexts[to].interrupted.completing_until_ps = woken.end_ps;
    }

    /// Those who waited for a transfer that has ended `now_ps` become ready one after the other from `from_ps` on; they
    /// have been told of it at `told_ps`.
    fn complete(&mut self, io: &TransferIo, now_ps: u64, from_ps: u64, told_ps: u64) -> Woken {
        let woken = self.wake_waiters(&io.waiters, true, now_ps, from_ps, |thread| {
            thread.charge_tail(&io.timeline, Stage::HostQueue, now_ps);
            thread.charge_until(Stage::Interrupt as usize, told_ps);
        });
        self.account.kernel_instructions +=
            u64::from(self.os.paths.wake_up.instructions) * u64::from(woken.count);
        woken
    }

    /// What waking these touches.
    fn waking(&self, woken: &Woken) -> Step {
        Step::Touch { stage: Stage::WakeUp, lines: self.os.paths.wake_up.lines * woken.count }
    }

    /// The device tells that a request has been done with which its transfer does not end; unless somebody polls for that,
    /// or sleeps before he does.
    pub(super) fn interrupt_in_between(&mut self, transfer: TransferId, now_ps: u64) {
        let io = self.transfers.get(&transfer);
        let (submitter, by) = io.map_or((0, None), |io| (io.context, io.submitter));
        let context = &self.contexts[submitter];
        let polls = context.doing == Doing::Polling && by == Some(context.thread);
        if polls || io.is_some_and(TransferIo::is_slept_for) {
            return;
        }
        let path = self.os.paths.interrupt;
        let context = self.interrupted_for(submitter);
        let from_ps = self.free_of_interrupts_ps(context, now_ps);
        self.account.interrupts += 1;
        self.account.kernel_instructions += u64::from(path.instructions);
        let touches = [Step::Touch { stage: Stage::Interrupt, lines: path.lines }];
        let until_ps = from_ps + self.kernel_path_ps(path);
        self.interrupt(context, (from_ps, until_ps), &touches, None);
    }

    /// The hardware thread that takes an interrupt loses the time from when it takes it until it has handled it, if it is
    /// running. What the kernel touches meanwhile, the thread that runs there touches next; where none does, the first that
    /// was woken, once it runs.
    pub(super) fn interrupt(
        &mut self,
        index: usize,
        (from_ps, until_ps): (u64, u64),
        touches: &[Step],
        woken: Option<usize>,
    ) {
        let context = &mut self.contexts[index];
        context.interrupted.until_ps = context.interrupted.until_ps.max(until_ps);
        let running = context.doing == Doing::Running;
        let toucher = if running { Some(context.thread) } else { woken };
        if let Some(thread) = toucher {
            let some = |step: &&Step| !matches!(step, Step::Touch { lines: 0, .. });
            let touches: Vec<Step> = touches.iter().filter(some).copied().collect();
            self.threads[thread].do_first(&touches);
        }
        if running {
            context.now_ps += until_ps - from_ps;
            let until_ps = context.now_ps;
            self.threads[context.thread].charge_until(Stage::Interrupt as usize, until_ps);
        }
    }
}
