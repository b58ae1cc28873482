//! Between the windows of a recording: what the program used there warms the machine functionally, as in
//! a sampled run ([`super::sample`]), and time goes on as the windows so far took it. Nothing of it is
//! counted: time, energy and traffic go on where they stood.

use super::account::Incidental;
use super::recorded_windows::live_ps;
use super::thread::{BUSY, IDLE, OWNERS, Thread};
use super::{Doing, Event, Machine, MachineError};
use tierscope_model::activity::Activity;
use tierscope_model::organization::OrganizationReport;
use tierscope_model::os::block_layer::BlockLayerCounts;
use tierscope_model::os::buffer_cache::BufferCacheCounters;
use tierscope_model::os::file_system::FileSystemCounters;
use tierscope_model::os::paging::OsCounters;
use tierscope_model::os::reclaim::ReclaimCounters;
use tierscope_model::processor::window::UNKNOWN;

/// Longest time that passes between two operations of a recording: 1,000 s.
const MOST_PASSED_PS: u64 = 1_000_000_000_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Windows, and calls between them.
    #[default]
    Detailed,
    /// No thread goes on until what is under way has ended.
    Settling,
    Warming,
}

/// Where a machine stands with respect to the windows of a recording.
#[derive(Clone, Debug, Default)]
pub(super) struct Between {
    /// Whether what lies between them warms the machine at once; else as what the kernel does, in detail.
    at_once: bool,
    phase: Phase,
    /// Threads that are between windows.
    threads: usize,
    settled_ps: u64,
    kept: Option<Box<Kept>>,
}

/// What was counted when warming began.
#[derive(Clone, Debug)]
struct Kept {
    at_ps: u64,
    /// Of each thread, and up to when.
    times: Vec<([u64; OWNERS], u64)>,
    running_ps: Vec<u64>,
    organization: OrganizationReport,
    activity: Activity,
    os: OsCounters,
    reclaim: ReclaimCounters,
    buffer_cache: BufferCacheCounters,
    file_system: FileSystemCounters,
    block_layer: BlockLayerCounts,
    counts: Incidental,
}

impl Between {
    pub fn new(at_once: bool) -> Between {
        Between { at_once, ..Between::default() }
    }

    /// Whether it is left at once, and all that is under way ends then.
    pub fn warms_at_once(&self) -> bool {
        self.at_once
    }

    pub fn settles(&self) -> bool {
        self.phase == Phase::Settling
    }

    pub fn is_warming(&self) -> bool {
        self.phase == Phase::Warming
    }
}

impl Machine {
    /// A thread comes to what is not recorded, so many instructions; for how long it stands still first,
    /// and then. It begins for all at a time until which any may have run ahead.
    pub(super) fn enter_between(&mut self, id: usize, instructions: u64, now_ps: u64) -> [u64; 2] {
        if !self.between.at_once || !self.region.has_begun() {
            return [0; 2];
        }
        if !std::mem::replace(&mut self.threads[id].between, true) {
            self.between.threads += 1;
        }
        let own_ps = self.fixed.pace.clone().advance(instructions.min(1 << 40));
        let by_windows_ps = self.windows.as_ref().and_then(|it| it.time_of(instructions));
        let passes_ps = by_windows_ps.unwrap_or(own_ps).min(MOST_PASSED_PS);
        let begins_ps = match self.between.phase {
            Phase::Detailed => self.schedule_between(now_ps),
            Phase::Settling | Phase::Warming => 0,
        };
        [begins_ps, passes_ps]
    }

    /// A thread comes to what is recorded, and stands still so long: once all have, the machine is as warm
    /// as it is to be.
    pub(super) fn leave_between(&mut self, id: usize, now_ps: u64) -> u64 {
        if !std::mem::take(&mut self.threads[id].between) {
            return 0;
        }
        self.between.threads -= 1;
        if self.between.threads > 0 { 0 } else { self.schedule_between(now_ps) }
    }

    /// Looks again what threads do when none has run further ahead; how long that is.
    fn schedule_between(&mut self, now_ps: u64) -> u64 {
        let duration_ps = self.fixed.lookahead_ps;
        self.queue.push(now_ps + duration_ps, self.fixed.interval_sources, Event::Between);
        duration_ps
    }

    /// The time has come to begin, or to end, what lies between windows.
    pub(super) fn change_between(&mut self, now_ps: u64) {
        match self.between.phase {
            Phase::Detailed if self.between.threads > 0 => {
                self.between.phase = Phase::Settling;
                self.between.settled_ps = now_ps;
                self.take_back();
            }
            Phase::Warming if self.between.threads == 0 => self.end_warming(now_ps),
            _ => {}
        }
    }

    /// Ends what lies between windows, if a thread is there, because the run has ended.
    pub(super) fn close_between(&mut self) {
        let reached_ps = self.threads.iter().map(|thread| thread.clock_ps).max();
        self.end_warming(reached_ps.unwrap_or_default());
    }

    /// Lets the next of what is under way end, or warms the machine once nothing is.
    pub(super) fn settle_between(&mut self) -> Result<(), MachineError> {
        let Some(at_ps) = self.next_until_quiet()? else {
            self.begin_warming();
            return Ok(());
        };
        self.between.settled_ps = at_ps;
        self.happen(at_ps)
    }

    /// When the next of what is under way ends, beside which nothing begins that nobody has asked for; `None` once all is
    /// quiet.
    pub(super) fn next_until_quiet(&mut self) -> Result<Option<u64>, MachineError> {
        self.send_all_buffers();
        let is_quiet = self.is_quiet();
        self.organization.hold_ahead(!is_quiet);
        match is_quiet {
            true => Ok(None),
            false => self.next_event_ps().map(Some).ok_or_else(|| self.deadlock()),
        }
    }

    /// Whether nothing is under way that a thread waits for, or that the organization works on.
    fn is_quiet(&self) -> bool {
        let outside = self.outgoing.len() + self.posted.len() + self.organization.in_flight();
        let entering = self.contexts.iter().any(|context| context.doing == Doing::Entering);
        let waited_for = entering || self.syncing.is_waited_for();
        outside + self.misses.len() + self.pages.len() == 0 && !waited_for
    }

    /// Hardware threads go on at this time, now that all is quiet, where they are not further.
    pub(super) fn resume_at(&mut self, at_ps: u64) {
        for context in &mut self.contexts {
            // The core's own caches have answered by then: their times were known in advance.
            context.window.retire(UNKNOWN - 1);
            if context.doing == Doing::Running && context.now_ps < at_ps {
                context.now_ps = at_ps;
                let thread = &mut self.threads[context.thread];
                thread.charge_until(thread.waits_on(), at_ps);
            }
        }
    }

    fn begin_warming(&mut self) {
        let at_ps = self.between.settled_ps;
        self.resume_at(at_ps);
        if self.between.threads == 0 {
            self.between.phase = Phase::Detailed;
            return;
        }
        self.charge_all(at_ps);
        let of = |thread: &Thread| (thread.times, thread.clock_ps);
        let kept = Kept {
            at_ps,
            times: self.threads.iter().map(of).collect(),
            running_ps: self.cores.iter().map(|core| core.occupancy.running_ps(at_ps)).collect(),
            organization: self.organization_report(),
            activity: self.organization.activity(at_ps).since(&self.region.activity),
            os: self.os_counters(),
            reclaim: self.reclaim_counters(),
            buffer_cache: self.buffer_cache_counters().unwrap_or_default(),
            file_system: self.file_system_counters().unwrap_or_default(),
            block_layer: self.block_layer_counts().unwrap_or_default(),
            counts: self.account.incidental(),
        };
        self.pause_windows();
        self.between.kept = Some(Box::new(kept));
        self.between.phase = Phase::Warming;
        self.functional = true;
    }

    /// Goes on in detail, where counts and times stood. Nothing that comes is charged for time before.
    fn end_warming(&mut self, at_ps: u64) {
        self.between.phase = Phase::Detailed;
        let Some(kept) = self.between.kept.take() else { return };
        let Kept {
            at_ps: began_ps,
            times,
            running_ps,
            organization,
            activity,
            os,
            reclaim,
            buffer_cache,
            file_system,
            block_layer,
            counts,
        } = *kept;
        let at_ps = at_ps.max(began_ps);
        self.functional = false;
        self.charge_all(at_ps);
        let start_ps = self.region.start_ps;
        for (index, thread) in self.threads.iter_mut().enumerate() {
            // Since it began, one that did so meanwhile waited to start.
            let mut idle = [0; OWNERS];
            idle[IDLE] = began_ps - start_ps;
            let (times, clock_ps) = times.get(index).copied().unwrap_or((idle, began_ps));
            thread.set_times(times);
            let (ahead_ps, before_ps) = (thread.clock_ps - at_ps, clock_ps - began_ps);
            thread.times[BUSY] += ahead_ps.saturating_sub(before_ps);
            // It was further ahead of the others, by less than an access takes to leave its core.
            let mut less_ps = before_ps.saturating_sub(ahead_ps);
            for time_ps in &mut thread.times {
                let part_ps = less_ps.min(*time_ps);
                (*time_ps, less_ps) = (*time_ps - part_ps, less_ps - part_ps);
            }
            // A call that ends the stretch takes its time from here on.
            thread.called_at_ps = thread.called_at_ps.map(|_| live_ps(thread));
        }
        for (core, running_ps) in self.cores.iter_mut().zip(running_ps) {
            core.occupancy.restart_with(at_ps, running_ps);
        }
        self.region.start_ps += at_ps - began_ps;
        self.region.organization = self.organization.report().since(&organization);
        self.region.activity = self.organization.activity(at_ps).since(&activity);
        self.region.os = self.paging.counters.since(&os);
        self.region.reclaim = self.paging.reclaim_counters().since(&reclaim);
        let now = self.paging.buffer_cache_counters().unwrap_or_default();
        self.region.buffer_cache = now.since(&buffer_cache);
        let now = self.paging.file_system_counters().unwrap_or_default();
        self.region.file_system = now.since(&file_system);
        let now = self.all_block_layer_counts().unwrap_or_default();
        self.region.block_layer = now.since(&block_layer);
        self.resume_windows();
        self.account.set_incidental(counts);
        self.schedule_bounds();
    }
}
