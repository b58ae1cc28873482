//! The kernel's own threads: the one that reclaims in the background (`kswapd`, mm/vmscan.c), the one that
//! writes dirty pages of files (`wb_workfn`, fs/fs-writeback.c), that of the file system's journal
//! (`kjournald2`, fs/jbd2/journal.c), and the one that discards free swap (`swap_discard_work`, mm/swapfile.c).
//!
//! What they decide costs instructions and lines as anything of the kernel. They run where no thread of
//! the workload does; where all hardware threads are taken, on the one whose thread has woken them, which
//! they preempt: it is switched away from and back to, and is ready meanwhile.

use super::kernel::path_steps;
use super::thread::{Action, Step};
use super::{Doing, Event, Machine, MachineError};
use tierscope_kernel::{Stage, Timeline};
use tierscope_model::os::paging::TransferId;

/// A thread of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Daemon {
    Reclaimer,
    Flusher,
    Journal,
    Discarder,
}

/// What one of them does.
#[derive(Clone, Debug, Default)]
struct Doings {
    awake: bool,
    /// It has not run since it was woken.
    fresh: bool,
    /// It has more to do after its step.
    goes_on: bool,
    /// Hardware thread that has woken it.
    context: usize,
    /// What it hands to the device at the end of its step.
    submits: Vec<TransferId>,
    /// The transfer that it waits for then.
    waits: Option<TransferId>,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Daemons([Doings; 4]);

impl Machine {
    fn daemon(&mut self, which: Daemon) -> &mut Doings {
        &mut self.daemons.0[which as usize]
    }

    /// What the operating system has found to be done meanwhile is begun.
    #[inline]
    pub(super) fn wake_daemons(&mut self, context: usize, now_ps: u64) {
        let wakes = self.paging.take_wakes();
        if !wakes.any() {
            return;
        }
        for (which, wanted) in [
            (Daemon::Reclaimer, wakes.reclaim),
            (Daemon::Flusher, wakes.flush),
            (Daemon::Journal, wakes.commit),
            (Daemon::Discarder, wakes.discard),
        ] {
            let doings = self.daemon(which);
            if wanted && !doings.awake {
                *doings = Doings { awake: true, fresh: true, context, ..Doings::default() };
                self.continue_daemon(which, now_ps);
            }
        }
        if let Some(at_ps) = wakes.flush_at_ps {
            self.queue.push(at_ps.max(now_ps), self.memory_source(), Event::FlushOld);
        }
        if let Some(at_ps) = wakes.scan_at_ps {
            self.push_scan(at_ps.max(now_ps));
        }
        if let Some(at_ps) = wakes.commit_at_ps {
            self.queue.push(at_ps.max(now_ps), self.memory_source(), Event::CommitOld);
        }
    }

    /// It goes on, once it has been woken.
    fn continue_daemon(&mut self, which: Daemon, now_ps: u64) {
        self.daemon(which).goes_on = true;
        let at_ps = now_ps + self.kernel_path_ps(self.os.paths.wake_up);
        self.queue.push(at_ps, self.memory_source(), Event::Daemon(which));
    }

    /// The time has come to look for pages that have been dirty for long.
    pub(super) fn flush_old(&mut self, now_ps: u64) {
        self.paging.flush_old(now_ps);
        self.wake_daemons(self.daemons.0[Daemon::Flusher as usize].context, now_ps);
    }

    /// The time has come to look for a transaction that is old.
    pub(super) fn commit_old(&mut self, now_ps: u64) {
        self.paging.commit_old(now_ps);
        self.wake_daemons(self.daemons.0[Daemon::Journal as usize].context, now_ps);
    }

    /// A transfer has ended, for which one of them may have waited, in these stages.
    pub(super) fn wake_for_transfer(&mut self, id: TransferId, timeline: &Timeline, now_ps: u64) {
        for which in [Daemon::Reclaimer, Daemon::Flusher, Daemon::Journal, Daemon::Discarder] {
            let doings = self.daemon(which);
            if doings.waits != Some(id) {
                continue;
            }
            doings.waits = None;
            if which == Daemon::Journal {
                self.charge_commit(Some(timeline), now_ps);
            }
            self.continue_daemon(which, now_ps);
        }
    }

    /// A thread of the kernel has done a step, and does the next, if there is one.
    pub(super) fn step_daemon(&mut self, which: Daemon, now_ps: u64) -> Result<(), MachineError> {
        let doings = self.daemon(which);
        let (context, goes_on) = (doings.context, doings.goes_on);
        doings.goes_on = false;
        let submits = std::mem::take(&mut doings.submits);
        if which == Daemon::Journal {
            self.charge_commit(None, now_ps);
        }
        for id in submits {
            self.submit_transfer(context, None, id, now_ps);
        }
        if !goes_on {
            let doings = self.daemon(which);
            doings.awake = doings.waits.is_some();
            return Ok(());
        }
        self.paging.tell_time(now_ps);
        let (mut more, mut waits, mut wake_ups) = (false, None, 0);
        let mut work = Vec::new();
        match which {
            Daemon::Reclaimer if self.paging.moves_between_nodes() => {
                (more, waits) = self.demote_pages(context, &mut work);
            }
            Daemon::Reclaimer => {
                let cores = &self.cores;
                let held = |page| cores.iter().any(|core| core.tlb.holds(page));
                more = self.paging.balance(&mut work, &held)?;
            }
            Daemon::Flusher => waits = self.paging.flush(&mut work)?,
            Daemon::Discarder => waits = self.paging.discard_swap(&mut work),
            Daemon::Journal => {
                let done;
                (waits, done) = self.paging.commit(&mut work)?;
                if let Some(id) = done {
                    wake_ups = self.end_without_device(id, Stage::FileSystem, now_ps);
                    more = true;
                }
            }
        }
        self.apply_effects();
        let (mut submits, mut locked_ps) = (Vec::new(), 0);
        let mut steps = self.work_steps(&work);
        if self.interrupt_for_shootdown(context, None) {
            steps.extend(path_steps(Stage::Fault, self.os.paths.shootdown, 1));
        }
        steps.extend(path_steps(Stage::WakeUp, self.os.paths.wake_up, wake_ups));
        steps.retain(|step| match step {
            Step::Act(Action::Lock) => {
                locked_ps = self.take_locks(context, now_ps);
                false
            }
            Step::Act(Action::Submit(id)) => {
                submits.push(*id);
                false
            }
            _ => true,
        });
        if locked_ps > 0 {
            steps.push(Step::Stall { stage: Stage::Driver, duration_ps: locked_ps });
        }
        steps.extend(self.daemon_copies(&submits));
        let at_ps = now_ps + self.spend_daemon(which, &steps);
        let doings = self.daemon(which);
        (doings.goes_on, doings.submits, doings.waits) = (more, submits, waits);
        self.queue.push(at_ps, self.memory_source(), Event::Daemon(which));
        self.wake_daemons(context, now_ps);
        Ok(())
    }

    /// A step takes a hardware thread that is free, or is put before what the thread does that runs
    /// where it was woken; how long it takes.
    fn spend_daemon(&mut self, which: Daemon, steps: &[Step]) -> u64 {
        let mut path = tierscope_model::os::PathSpec { instructions: 0, lines: 0 };
        let mut stall_ps = 0;
        for step in steps {
            match *step {
                Step::Run { instructions, .. } => path.instructions += instructions as u32,
                Step::Touch { lines, .. } => path.lines += lines,
                Step::Stall { duration_ps, .. } if !self.nobody_waits() => stall_ps += duration_ps,
                _ => {}
            }
        }
        let duration_ps = self.kernel_path_ps(path) + stall_ps;
        let doings = self.daemon(which);
        let (context, fresh) = (doings.context, std::mem::take(&mut doings.fresh));
        if self.contexts.iter().any(|context| context.doing == Doing::Idle) {
            self.account.kernel_instructions += u64::from(path.instructions);
            return duration_ps;
        }
        let mut steps = path_steps(Stage::Ready, path, 1);
        if stall_ps > 0 {
            steps.push(Step::Stall { stage: Stage::Ready, duration_ps: stall_ps });
        }
        if fresh {
            self.account.context_switches += 2;
            steps.extend(path_steps(Stage::ContextSwitch, self.os.paths.context_switch, 2));
        }
        self.threads[self.contexts[context].thread].do_first(&steps);
        duration_ps
    }
}
