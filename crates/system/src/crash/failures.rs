//! Failures of several points at a time: each fork loses its power and recovers in a thread of its own, and all are
//! judged in the order of the run.

use super::Point;
use std::collections::VecDeque;
use std::num::NonZero;
use std::ops::Range;
use std::panic::resume_unwind;
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

/// A failure under way, and what the run had touched before it.
struct Pending<'scope> {
    cut: Cut,
    since: Vec<Range<u64>>,
    recovery: ScopedJoinHandle<'scope, Recovered>,
}

/// Failures under way.
pub(super) struct Failures<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    pub(super) judge: Judge,
    pending: VecDeque<Pending<'scope>>,
    most: usize,
}

impl<'scope, 'env> Failures<'scope, 'env> {
    /// As many at a time as this computer has processors.
    pub(super) fn new(scope: &'scope Scope<'scope, 'env>, judge: Judge) -> Self {
        let most = available_parallelism().map_or(1, NonZero::get);
        Failures { scope, judge, pending: VecDeque::new(), most }
    }

    /// A fork loses its power.
    pub(super) fn begin(&mut self, run: &mut dyn Organization, cut: Cut) {
        if let Some(power) = run.power() {
            self.judge.follow(power);
        }
        let since = self.judge.since();
        let (at_ps, second) = (cut.at_ps, cut.point.second);
        let mut fork = run.fork();
        let recovery = self.scope.spawn(move || {
            let failure = cut_and_recover(fork.as_mut(), at_ps, second)?;
            Some((failure, fork))
        });
        self.pending.push_back(Pending { cut, since, recovery });
    }

    /// Whether one is to be judged before the next begins.
    pub(super) fn are_enough(&self) -> bool {
        self.pending.len() >= self.most
    }

    /// Judges the oldest.
    pub(super) fn next(&mut self) -> Option<Judged> {
        let Pending { cut, since, recovery } = self.pending.pop_front()?;
        let recovered = recovery.join().unwrap_or_else(|panic| resume_unwind(panic));
        let (failure, mut fork) = recovered?;
        let power = fork.power()?;
        let verdict = self.judge.judge(&since, power);
        let names = self.judge.names(&verdict, power);
        Some(Judged { cut, failure: Failure { verdict, ..failure }, names, fork })
    }
}
