//! Syncs where files lie in main memory, which nobody pages. The kernel writes back, line by line, the pages of the file
//! that on-chip caches have dirty lines of (`arch_wb_cache_pmem`, arch/x86/lib/usercopy_64.c), and
//! waits until memory has answered all that was written to it before. Where that is not enough, as DRAM is a cache of
//! the store, it then has the whole of it flushed, by a register of the memory controller (\[HYB15\] §3.2), and sleeps
//! until that tells by an interrupt that the store has the last page. Several threads share a flush that begins after
//! all of them have come to it.

use super::kernel::path_steps;
use super::thread::{Action, State, Step};
use super::{Doing, Event, Machine, MachineError};
use std::collections::BTreeMap;
use std::ops::Range;
use tierscope_kernel::{Stage, Timeline};
use tierscope_model::organization::Durable;
use tierscope_model::os::InodeId;

/// Threads that wait for memory to have what it has taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Syncing {
    /// Those that wait for the next round.
    waiting: Vec<usize>,
    round: Option<Round>,
    /// Writes that memory has taken, and those of each of two kinds that it has not answered: before the round under
    /// way began to wait for answers, and since; which kind is which changes with each round.
    taken: u64,
    unanswered: [u64; 2],
    kind: usize,
    /// What a write that was answered last has passed.
    answered: Timeline,
    /// What syncs that ended, and those under way, take by themselves ([`Machine::sync_work`]).
    work: u64,
    /// Of flushes in detail, what they took by the store's own times, and how long it was, in picoseconds.
    flushed: u64,
    flushed_ps: u64,
    /// Somebody else has begun a flush that is under way.
    besides: bool,
    /// On-chip caches keep what a sync should write back: left out on purpose.
    pub forgets_lines: bool,
}

/// Threads for which memory is waited together.
#[derive(Clone, Debug)]
struct Round {
    waiters: Vec<usize>,
    awaits: Awaits,
    flush: Flush,
}

/// When a flush began, what it takes by the store's own times, and how long it would take as those before it did.
#[derive(Clone, Copy, Debug, Default)]
struct Flush {
    from_ps: u64,
    work: u64,
    expected_ps: u64,
}

impl Flush {
    /// What of it is not done yet, as far as is known.
    fn left(&self, now_ps: u64) -> u64 {
        let left_ps = (self.from_ps + self.expected_ps).saturating_sub(now_ps);
        let left = u128::from(self.work) * u128::from(left_ps);
        left.checked_div(self.expected_ps.into()).map_or(0, |left| left as u64)
    }
}

/// What a round waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaits {
    /// Memory has taken so many writes: all that were on their way to it.
    Room(u64),
    /// It has answered all that it had taken.
    Answers,
    /// Its flush is done.
    Flush,
    /// Its flush, which is passed over, would be done.
    Passed { until_ps: u64 },
}

impl Syncing {
    /// Which of two kinds a write is that memory takes next.
    #[inline]
    pub fn kind(&self) -> usize {
        self.kind
    }

    /// Memory has taken a write.
    #[inline]
    pub fn took(&mut self) {
        self.taken += 1;
        self.unanswered[self.kind] += 1;
    }

    /// Memory has answered a write of a kind, which has passed these stages.
    #[inline]
    pub fn answered(&mut self, kind: usize, stages: &Timeline) {
        self.unanswered[kind] -= 1;
        if self.round.is_some() {
            self.answered = *stages;
        }
    }

    /// Only what comes is counted.
    pub fn begin_counting(&mut self) {
        self.work = 0;
    }

    /// What syncs have taken by themselves up to a time: of one that is under way, the part of it that has passed.
    pub fn work(&self, now_ps: u64) -> u64 {
        let left = self.round.as_ref().map_or(0, |round| round.flush.left(now_ps));
        self.work.saturating_sub(left)
    }

    /// How long a flush takes, in picoseconds, as those in detail did; by the store's own times before there was one.
    pub fn flush_ps(&self, work: u64) -> u64 {
        let ps = u128::from(work) * u128::from(self.flushed_ps);
        ps.checked_div(self.flushed.into()).map_or(work.saturating_mul(1000), |ps| ps as u64)
    }

    /// Whether a thread waits.
    #[inline]
    pub fn is_waited_for(&self) -> bool {
        self.round.is_some()
    }
}

impl Machine {
    /// What a thread does to make what was stored to pages of a file outlive a failure of power, or to pages of any file
    /// where none is named; nothing where nothing can.
    pub(super) fn durable_steps(&self, file: Option<(InodeId, Range<u64>)>) -> Vec<Step> {
        if self.fixed.durable == Durable::Never {
            return Vec::new();
        }
        let line_bytes = 1u64 << self.fixed.line_shift;
        let lines = 1u64 << (self.fixed.page_shift - self.fixed.line_shift);
        let mut steps = Vec::new();
        if !self.syncing.forgets_lines {
            steps.extend(self.written_on_chip(file).into_iter().map(|frame| {
                let address = frame << self.fixed.page_shift;
                Step::WriteBack { stage: Stage::FileSystem, address, bytes: lines * line_bytes }
            }));
        }
        // A fence behind them.
        steps.push(Step::Run { stage: Stage::FileSystem, instructions: 1 });
        steps.push(Step::Act(Action::Durable));
        steps
    }

    /// Frames of pages of a file, or of any, of which a line is dirty in on-chip caches or on its way between them, in the
    /// order of the pages.
    fn written_on_chip(&self, file: Option<(InodeId, Range<u64>)>) -> Vec<u64> {
        let shift = self.fixed.page_shift - self.fixed.line_shift;
        let private = self.cores.iter().filter(|core| core.active).flat_map(|it| it.caches.lines());
        let dirty = private.chain(self.shared.lines()).filter(|(_, dirty)| *dirty);
        let lines = dirty.map(|(line, _)| line).chain(self.posted.iter().map(|(_, it)| it.line));
        let mut pages = BTreeMap::new();
        let mut last = None;
        for frame in lines.map(|line| line >> shift) {
            if last.replace(frame) == Some(frame) {
                continue;
            }
            let Some((inode, index)) = self.paging.page_in(frame) else { continue };
            let asked = file.as_ref().is_none_or(|(of, all)| *of == inode && all.contains(&index));
            if asked {
                pages.insert((inode, index), frame);
            }
        }
        pages.into_values().collect()
    }

    /// The thread of a hardware thread waits until memory keeps what it has taken.
    pub(super) fn await_durable(&mut self, index: usize, now_ps: u64) -> Result<(), MachineError> {
        let flushes = self.fixed.durable == Durable::Flushed;
        self.account.flushes_of_cache += u64::from(flushes);
        let thread = self.contexts[index].thread;
        if !flushes {
            let (work, duration_ps) = self.sync_work();
            self.syncing.work += work;
            if self.passes_over() {
                self.threads[thread].do_first(&[Step::StandStill { duration_ps }]);
                return Ok(());
            }
        }
        if self.functional && !self.passes_over() {
            if flushes {
                self.warm_flush(now_ps);
            }
            return Ok(());
        }
        let idle = self.outgoing.is_empty() && self.syncing.unanswered == [0; 2];
        if idle && !flushes {
            return Ok(());
        }
        self.syncing.waiting.push(thread);
        if flushes {
            self.leave(index, State::OnMemory);
            self.dispatch(index, now_ps);
        } else {
            // It stands still, as at a fence.
            self.threads[thread].state = State::OnMemory;
            self.contexts[index].doing = Doing::Polling;
        }
        self.go_on_syncing(now_ps);
        Ok(())
    }

    fn warm_flush(&mut self, now_ps: u64) {
        self.organization.warm_flush(now_ps);
        self.beside.iter_mut().for_each(|beside| beside.warm_flush(now_ps));
    }

    /// Memory has gone on: so may those who wait for it to keep what it has taken.
    pub(super) fn go_on_syncing(&mut self, now_ps: u64) {
        loop {
            let Some(round) = &mut self.syncing.round else {
                if self.syncing.waiting.is_empty() {
                    return;
                }
                let waiters = std::mem::take(&mut self.syncing.waiting);
                let on_their_way = self.outgoing.writes();
                let awaits = Awaits::Room(self.syncing.taken + on_their_way as u64);
                self.syncing.round = Some(Round { waiters, awaits, flush: Flush::default() });
                continue;
            };
            let before = 1 - self.syncing.kind;
            match round.awaits {
                Awaits::Room(taken) if self.syncing.taken < taken => return,
                Awaits::Room(_) => {
                    // No write of the other kind is left from the round before.
                    self.syncing.kind = before;
                    self.syncing.answered = Timeline::new();
                    round.awaits = Awaits::Answers;
                }
                Awaits::Answers if self.syncing.unanswered[before] > 0 => return,
                Awaits::Answers if self.fixed.durable != Durable::Flushed => {
                    self.end_standing(now_ps);
                }
                Awaits::Answers if self.syncing.besides => return,
                Awaits::Answers => {
                    for thread in round.waiters.clone() {
                        let answered = self.syncing.answered;
                        self.threads[thread].charge_sync(&answered, now_ps);
                    }
                    self.begin_flush(now_ps);
                }
                Awaits::Flush => {
                    if !self.organization.flush(now_ps) {
                        return;
                    }
                    self.syncing.flushed += round.flush.work;
                    self.syncing.flushed_ps += now_ps - round.flush.from_ps;
                    self.end_flush(self.organization.flush_stages(), now_ps);
                }
                Awaits::Passed { until_ps } if now_ps < until_ps => return,
                Awaits::Passed { until_ps } => {
                    let mut stages = Timeline::new();
                    stages.push(Stage::Medium, until_ps - round.flush.from_ps);
                    self.end_flush(stages, now_ps);
                }
            }
        }
    }

    /// The flush of a round begins: in detail with the next look at it, or all at once, where it is passed over.
    fn begin_flush(&mut self, now_ps: u64) {
        let (work, expected_ps) = self.sync_work();
        let awaits = if self.passes_over() {
            let until_ps = now_ps + expected_ps;
            self.warm_flush(now_ps);
            self.queue.push(until_ps, self.memory_source(), Event::Flushed);
            Awaits::Passed { until_ps }
        } else {
            Awaits::Flush
        };
        self.syncing.work += work;
        if let Some(round) = &mut self.syncing.round {
            round.awaits = awaits;
            round.flush = Flush { from_ps: now_ps, work, expected_ps };
        }
    }

    /// Memory has answered: hardware threads that stood still go on.
    fn end_standing(&mut self, now_ps: u64) {
        let Some(round) = self.syncing.round.take() else { return };
        for id in round.waiters {
            let stands = |at: &usize| {
                let context = &self.contexts[*at];
                context.doing == Doing::Polling && context.thread == id
            };
            let Some(index) = (0..self.contexts.len()).find(stands) else { continue };
            let thread = &mut self.threads[id];
            let waited_ps = now_ps - thread.clock_ps;
            self.account.causes.wait_in_call(thread.call_cause(), waited_ps, false);
            thread.charge_sync(&self.syncing.answered, now_ps);
            thread.state = State::Running(index);
            self.contexts[index].doing = Doing::Running;
            self.contexts[index].now_ps = now_ps;
        }
    }

    /// The store has all that was dirty in DRAM: an interrupt, and those who waited for it become ready.
    fn end_flush(&mut self, stages: Timeline, now_ps: u64) {
        let Some(round) = self.syncing.round.take() else { return };
        let paths = self.os.paths.clone();
        let context = round.waiters.first().map_or(0, |id| self.threads[*id].last_context);
        let from_ps = self.free_of_interrupts_ps(context, now_ps);
        let handled_ps = from_ps + self.kernel_path_ps(paths.interrupt);
        self.account.interrupts += 1;
        let woken = self.wake_waiters(&round.waiters, true, now_ps, handled_ps, |thread| {
            thread.charge_sync(&stages, now_ps);
            thread.charge_until(Stage::Interrupt as usize, handled_ps);
        });
        let mut touches = path_steps(Stage::Interrupt, paths.interrupt, 1);
        touches.extend(path_steps(Stage::WakeUp, paths.wake_up, woken.count));
        touches.retain(|step| matches!(step, Step::Touch { .. }));
        self.account.kernel_instructions += u64::from(paths.interrupt.instructions)
            + u64::from(paths.wake_up.instructions) * u64::from(woken.count);
        self.interrupt(context, (from_ps, woken.end_ps), &touches, woken.first);
    }

    /// Somebody else than its threads has its memory flushed, as [`Organization::flush`] does; not while these do.
    ///
    /// [`Organization::flush`]: tierscope_model::organization::Organization::flush
    pub fn flush_besides(&mut self, now_ps: u64) -> bool {
        let own = self.syncing.round.as_ref().is_some_and(|round| round.awaits == Awaits::Flush);
        if own && !self.syncing.besides {
            return false;
        }
        self.syncing.besides = !self.organization.flush(now_ps);
        let done = !self.syncing.besides;
        if done {
            self.go_on_syncing(now_ps);
        }
        done
    }
}
