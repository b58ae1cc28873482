//! Workloads whose threads each do one piece of work after another: a transaction, a row of a loop, a
//! page. What a piece does follows from its number alone, so that workloads can be forked and sought.

use super::prelude::{Prelude, REGION_BEGINS, length_of};
use crate::op::{Call, Op, OpKind, ThreadId, operations};
use crate::runs;
use crate::stream::{About, FileInfo, Footprint, Pull, Stream, StreamError};
use std::sync::Arc;

/// What such a workload does.
pub(super) trait Units: Clone + Send + 'static {
    /// Threads, at least one.
    fn threads(&self) -> u32;
    /// What thread 0 does first.
    fn prelude(&self) -> Prelude;
    /// Pieces of work of a thread.
    fn units(&self, thread: ThreadId) -> u64;
    /// Appends the operations of a piece of work, whole calls only.
    fn unit(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>);
    /// The same, where accesses that belong together may be told so ([`crate::runs`]).
    fn condensed(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        self.unit(thread, unit, out);
    }
    /// Operations of a thread before a piece of work, those of the prelude left out, up to all of
    /// them; `None` where that is not known without going through them. It never falls.
    fn before(&self, _thread: ThreadId, _unit: u64) -> Option<u64> {
        None
    }
    /// What it maps, or which files it uses, in all.
    fn footprint(&self) -> Footprint;
    /// Loads and stores, those of the prelude left out, where that is known.
    fn accesses(&self) -> Option<u64> {
        None
    }
    /// Operations of the longest piece of work, roughly, where parameters can make it as long as one likes: one that is
    /// too long is not made to be looked at.
    fn longest(&self) -> u64 {
        0
    }
    /// The files that it uses.
    fn files(&self) -> Vec<FileInfo> {
        Vec::new()
    }
}

/// A barrier: the thread says that it has come to its `sequence`-th, and waits for all others.
pub(super) fn barrier(thread: ThreadId, threads: u32, sequence: u64, out: &mut Vec<Op>) {
    const INSTRUCTIONS: u32 = 20;
    if threads > 1 {
        Call::Signal { sequence }.encode(INSTRUCTIONS, out);
        for other in (0..threads).filter(|other| *other != thread) {
            Call::Wait { thread: other, sequence }.encode(INSTRUCTIONS, out);
        }
    }
}

/// Operations of a [`barrier`].
pub(super) fn barrier_length(threads: u32) -> u64 {
    if threads > 1 { 2 * u64::from(threads) } else { 0 }
}

/// The stream of such a workload.
#[derive(Clone)]
struct InUnits<B> {
    body: B,
    prelude: Prelude,
    states: Vec<State>,
    files: Arc<Vec<FileInfo>>,
}

/// Where a thread stands.
#[derive(Clone, Default)]
struct State {
    /// The next piece of work to make operations of.
    next: u64,
    /// Operations of the last one that was made, and how many of them were taken.
    ops: Vec<Op>,
    taken: usize,
    /// Accesses among them may be told together.
    condensed: bool,
}

impl State {
    /// Takes up to `count` operations, or to the end of the call that goes beyond, of those that are
    /// made; how many those were.
    fn take(&mut self, count: u64) -> usize {
        let from = self.taken;
        while ((self.taken - from) as u64) < count && self.taken < self.ops.len() {
            self.taken += length_of(self.ops[self.taken]);
        }
        self.taken - from
    }

    /// Makes single accesses of those that were told together, of what is not taken.
    fn expand(&mut self) {
        if std::mem::take(&mut self.condensed) {
            runs::expand(&mut self.ops, self.taken);
        }
    }
}

/// The stream of a workload at its start.
pub(super) fn in_units<B: Units>(body: B) -> Box<dyn Stream> {
    let threads = body.threads();
    Box::new(InUnits {
        prelude: body.prelude().finish(threads),
        states: vec![State::default(); threads as usize],
        files: Arc::new(body.files()),
        body,
    })
}

/// About how many accesses, of which one that goes over into another line is two, and instructions a thread makes: as
/// pieces of work that lie apart do. They are looked at until there are so many operations; nothing where one piece may
/// have more.
fn about<B: Units>(body: &B, thread: ThreadId, enough: usize) -> Option<(f64, f64)> {
    const PIECES: u64 = 32;
    if body.longest() > enough as u64 {
        return None;
    }
    let units = body.units(thread);
    let pieces = PIECES.min(units);
    let (mut ops, mut looked_at, mut seen) = (Vec::new(), 0u64, 0usize);
    let (mut accesses, mut instructions) = (0, 0);
    while looked_at < pieces && seen < enough {
        // Early and late ones by turns.
        let place = if pieces == PIECES { looked_at * 19 % PIECES } else { looked_at };
        let number = u128::from(place) * u128::from(units) / u128::from(pieces);
        ops.clear();
        body.unit(thread, number as u64, &mut ops);
        for (op, _) in operations(&ops) {
            accesses += accesses_of(op);
            instructions += u64::from(op.instructions());
        }
        looked_at += 1;
        seen += ops.len();
    }
    let of_all = |found: u64| found as f64 / looked_at.max(1) as f64 * units as f64;
    Some((of_all(accesses), of_all(instructions)))
}

/// Accesses that an operation is, on lines of 64 bytes.
fn accesses_of(op: Op) -> u64 {
    let is_access = [OpKind::Load, OpKind::Store].map(|kind| kind as u8).contains(&op.kind_code());
    let last_byte = op.word.saturating_add(u64::from(op.size().max(1)) - 1);
    u64::from(is_access) * (1 + u64::from(op.word >> 6 != last_byte >> 6))
}

impl<B: Units> InUnits<B> {
    /// Makes the next piece of work of a thread whose last is taken, told together or not; whether there is one.
    fn make(&mut self, thread: ThreadId, condensed: bool) -> bool {
        let state = &mut self.states[thread as usize];
        while state.taken == state.ops.len() {
            if state.next == self.body.units(thread) {
                return false;
            }
            state.ops.clear();
            state.taken = 0;
            state.condensed = condensed;
            if condensed {
                self.body.condensed(thread, state.next, &mut state.ops);
            } else {
                self.body.unit(thread, state.next, &mut state.ops);
            }
            state.next += 1;
        }
        true
    }

    fn pull_some(
        &mut self,
        thread: ThreadId,
        limit: usize,
        condensed: bool,
        out: &mut Vec<Op>,
    ) -> Pull {
        if thread >= self.body.threads() {
            return Pull::End;
        }
        let limit = limit.max(1) as u64;
        if thread == 0 && self.prelude.go_on(limit, Some(out)) > 0 {
            return Pull::More;
        }
        let mut taken = 0;
        if !condensed {
            self.states[thread as usize].expand();
        }
        while taken < limit && self.make(thread, condensed) {
            let state = &mut self.states[thread as usize];
            let from = state.taken;
            taken += state.take(limit - taken) as u64;
            out.extend_from_slice(&state.ops[from..state.taken]);
        }
        if taken > 0 { Pull::More } else { Pull::End }
    }

    /// Goes on to the piece of work within which `count` operations from the next piece on end; how many
    /// operations were passed.
    fn jump(&mut self, thread: ThreadId, count: u64) -> u64 {
        let state = &mut self.states[thread as usize];
        let (mut low, mut high) = (state.next, self.body.units(thread));
        let Some(from) = self.body.before(thread, low) else { return 0 };
        let goal = from.saturating_add(count);
        // The last piece that begins at or before the goal.
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            match self.body.before(thread, middle) {
                Some(before) if before <= goal => low = middle,
                _ => high = middle - 1,
            }
        }
        state.next = low;
        self.body.before(thread, low).map_or(0, |before| before - from)
    }
}

impl<B: Units> Stream for InUnits<B> {
    fn pull(
        &mut self,
        thread: ThreadId,
        limit: usize,
        out: &mut Vec<Op>,
    ) -> Result<Pull, StreamError> {
        Ok(self.pull_some(thread, limit, false, out))
    }

    fn pull_condensed(
        &mut self,
        thread: ThreadId,
        limit: usize,
        out: &mut Vec<Op>,
    ) -> Result<Pull, StreamError> {
        Ok(self.pull_some(thread, limit, true, out))
    }

    fn skip(&mut self, thread: ThreadId, count: u64) -> Result<u64, StreamError> {
        if thread >= self.body.threads() {
            return Ok(0);
        }
        self.states[thread as usize].expand();
        let mut skipped = if thread == 0 { self.prelude.go_on(count, None) } else { 0 };
        if skipped < count {
            skipped += self.states[thread as usize].take(count - skipped) as u64;
        }
        if skipped < count {
            skipped += self.jump(thread, count - skipped);
        }
        while skipped < count && self.make(thread, false) {
            skipped += self.states[thread as usize].take(count - skipped) as u64;
        }
        Ok(skipped)
    }

    fn prelude(&self) -> Option<&Prelude> {
        let begun = |state: &State| state.next > 0 || !state.ops.is_empty();
        (!self.states.iter().any(begun)).then_some(&self.prelude)
    }

    fn fork(&self) -> Box<dyn Stream> {
        Box::new(self.clone())
    }

    fn gives_mark(&self, mark: u64) -> Option<bool> {
        Some(mark == REGION_BEGINS && self.prelude.marks())
    }

    fn footprint(&self) -> Option<Footprint> {
        Some(self.body.footprint())
    }

    fn accesses(&self) -> Option<u64> {
        self.body.accesses()?.checked_add(self.prelude.pages())
    }

    fn about(&self) -> Option<About> {
        /// Operations that are looked at, of all threads together.
        const ENOUGH: usize = 1 << 22;
        let threads = 0..self.body.threads();
        let each: Option<Vec<(f64, f64)>> = threads
            .clone()
            .map(|thread| about(&self.body, thread, ENOUGH / threads.len()))
            .collect();
        let told = each.map(|each| {
            let accesses: f64 = each.iter().map(|(accesses, _)| accesses).sum();
            let instructions: f64 = each.iter().map(|(_, instructions)| instructions).sum();
            (accesses as u64 + self.prelude.pages(), instructions as u64)
        });
        Some(About {
            accesses: self.accesses().or(told.map(|(accesses, _)| accesses))?,
            instructions: told.map(|(_, instructions)| instructions + self.prelude.instructions()),
        })
    }

    fn accesses_before_region(&self) -> Option<u64> {
        self.prelude.before_region()
    }

    fn files(&self) -> Arc<Vec<FileInfo>> {
        self.files.clone()
    }
}
