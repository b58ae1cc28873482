//! Failures of several points at a time: forks lose their power and recover in threads beside the run, and all are
//! judged in the order of the run.

use super::Point;
use std::collections::VecDeque;
use std::mem::take;
use std::num::NonZero;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle, available_parallelism};
use tierscope_model::organization::Organization;
use tierscope_model::power::{Failure, Judge, UnderWay, cut_and_recover};

/// Where power is to fail.
pub(super) struct Cut {
    pub(super) point: Point,
    pub(super) at_ps: u64,
    pub(super) under_way: UnderWay,
}

/// What came of it.
pub(super) struct Judged {
    pub(super) cut: Cut,
    pub(super) failure: Failure,
    /// What its faults concern, where their addresses do not say it.
    pub(super) names: Vec<Option<String>>,
    /// As it is after recovery.
    pub(super) fork: Box<dyn Organization>,
}

impl Judged {
    /// The point: one whose recovery ends before the second cut is as one without.
    pub(super) fn point(&self) -> Point {
        Point { second: self.cut.point.second.filter(|_| self.failure.cuts > 1), ..self.cut.point }
    }
}

type Recovered = Option<(Failure, Box<dyn Organization>)>;

/// What a thread is to do: a fork loses its power, and others are dropped.
struct Job {
    fork: Box<dyn Organization>,
    at_ps: u64,
    second: Option<u64>,
    spent: Vec<Box<dyn Organization>>,
}

/// A thread that does one job after another.
struct Worker<'scope> {
    jobs: Sender<Job>,
    recovered: Receiver<Recovered>,
    thread: ScopedJoinHandle<'scope, ()>,
}

impl<'scope> Worker<'scope> {
    fn new(scope: &'scope Scope<'scope, '_>) -> Self {
        let (jobs, to_do) = channel::<Job>();
        let (done, recovered) = channel();
        let thread = scope.spawn(move || {
            for Job { mut fork, at_ps, second, spent } in to_do {
                let failure = cut_and_recover(fork.as_mut(), at_ps, second);
                // Nobody listens where the run has ended with an error.
                let _ = done.send(failure.map(|failure| (failure, fork)));
                drop(spent);
            }
        });
        Worker { jobs, recovered, thread }
    }
}

/// A failure under way, and what the run had touched before it.
struct Pending {
    cut: Cut,
    since: Vec<Range<u64>>,
}

/// Forks that wait for a thread, or are in its hands: how long they take differs by far, and nobody is to wait for that.
const OF_A_THREAD: usize = 8;

/// Failures under way, each thread having its share of them by turns.
pub(super) struct Failures<'scope> {
    pub(super) judge: Judge,
    workers: VecDeque<Worker<'scope>>,
    pending: VecDeque<Pending>,
    /// Forks that have been judged, to be dropped: that takes as long as to make them.
    spent: Vec<Box<dyn Organization>>,
}

impl<'scope> Failures<'scope> {
    /// As many at a time as this computer has processors.
    pub(super) fn new(scope: &'scope Scope<'scope, '_>, judge: Judge) -> Self {
        let most = available_parallelism().map_or(1, NonZero::get);
        let workers = (0..most).map(|_| Worker::new(scope)).collect();
        Failures { judge, workers, pending: VecDeque::new(), spent: Vec::new() }
    }

    /// A fork loses its power, in the thread whose turn it is.
    pub(super) fn begin(&mut self, run: &mut dyn Organization, cut: Cut) {
        if let Some(power) = run.power_mut() {
            self.judge.follow(power);
        }
        let since = self.judge.since();
        let (at_ps, second) = (cut.at_ps, cut.point.second);
        let job = Job { fork: run.fork(), at_ps, second, spent: take(&mut self.spent) };
        let turn = self.pending.len() % self.workers.len();
        if self.workers[turn].jobs.send(job).is_err() {
            self.end_of(turn);
        }
        self.pending.push_back(Pending { cut, since });
    }

    /// Whether one is to be judged before the next begins.
    pub(super) fn are_enough(&self) -> bool {
        self.pending.len() >= OF_A_THREAD * self.workers.len()
    }

    /// Judges the oldest.
    pub(super) fn next(&mut self) -> Option<Judged> {
        let Pending { cut, since } = self.pending.pop_front()?;
        let Ok(recovered) = self.workers[0].recovered.recv() else { self.end_of(0) };
        self.workers.rotate_left(1);
        let (failure, mut fork) = recovered?;
        let power = fork.power_mut()?;
        let verdict = self.judge.judge(&since, power);
        let names = self.judge.names(&verdict, power);
        Some(Judged { cut, failure: Failure { verdict, ..failure }, names, fork })
    }

    /// One that has been judged is not looked at any more.
    pub(super) fn forget(&mut self, judged: Judged) {
        self.spent.push(judged.fork);
    }

    /// A thread has ended, which it does before its time only by a panic.
    fn end_of(&mut self, worker: usize) -> ! {
        let worker = self.workers.remove(worker).expect("the thread was given something to do");
        match worker.thread.join() {
            Err(panic) => resume_unwind(panic),
            Ok(()) => unreachable!("a thread ends when nobody has anything to do for it any more"),
        }
    }
}
