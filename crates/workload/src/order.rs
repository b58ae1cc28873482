//! Whose turn it is of the threads whose operations are gone through.

use crate::op::ThreadId;
use std::collections::{HashMap, HashSet, VecDeque};

/// Whose turn it is, and what threads have signalled to each other.
#[derive(Clone, Default)]
pub(crate) struct Order {
    turns: VecDeque<ThreadId>,
    started: HashSet<ThreadId>,
    ended: HashSet<ThreadId>,
    pub(crate) signals: HashMap<ThreadId, u64>,
    /// How many have had their turn since one went on.
    pub(crate) stuck: usize,
}

impl Order {
    /// A thread begins: its turn comes before that of the one whose turn it is comes again.
    pub(crate) fn start(&mut self, thread: ThreadId) {
        if self.started.insert(thread) {
            self.turns.insert(self.turns.len().saturating_sub(1), thread);
        }
    }

    /// How many have begun.
    pub(crate) fn started(&self) -> u64 {
        self.started.len() as u64
    }

    pub(crate) fn next(&mut self) -> Option<ThreadId> {
        self.turns.rotate_left(usize::from(!self.turns.is_empty()));
        self.turns.back().copied()
    }

    pub(crate) fn end(&mut self, thread: ThreadId) {
        self.turns.retain(|other| *other != thread);
        self.ended.insert(thread);
        self.stuck = 0;
    }

    pub(crate) fn went_on(&mut self, went_on: bool) {
        self.stuck = if went_on { 0 } else { self.stuck + 1 };
    }

    /// Whether the signal has been given that a thread waits for. Where all wait for ever, as they may
    /// in a recording that was cut off, they go on.
    pub(crate) fn may_pass(&self, thread: ThreadId, sequence: u64) -> bool {
        let given = self.signals.get(&thread).is_some_and(|given| *given >= sequence);
        given || self.ended.contains(&thread) || self.stuck >= self.turns.len()
    }
}
