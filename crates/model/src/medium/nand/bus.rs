//! A channel: one thing at a time, short commands and data alike.

use std::collections::VecDeque;

/// What wants the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The command of what stands in the array of this die.
    Command(u32),
    /// Command and data of what this die is to program.
    In(u32),
    /// The data of this operation.
    Out(u32),
}

/// The state of a channel. Reads that somebody waits for go first, but only so many pass what has
/// waited longer.
#[derive(Clone, Debug, Default)]
pub struct Bus {
    /// What waits, each with its number in the order of coming.
    reads: VecDeque<(u64, Turn)>,
    others: VecDeque<(u64, Turn)>,
    pushes: u64,
    passed: u32,
    /// When it has nothing more to do.
    pub free_ps: u64,
    /// Whether an event is to come at that time.
    pub announced: bool,
    /// Picoseconds in which it was taken.
    pub busy_ps: u64,
}

impl Bus {
    /// Lets `turn` wait.
    #[inline]
    pub fn push(&mut self, turn: Turn, is_read: bool) {
        self.pushes += 1;
        let queue = if is_read { &mut self.reads } else { &mut self.others };
        queue.push_back((self.pushes, turn));
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.others.is_empty()
    }

    /// Something goes that has not waited.
    #[inline]
    pub fn pass(&mut self, is_read: bool) {
        debug_assert!(self.is_empty());
        self.passed = if is_read { self.passed } else { 0 };
    }

    /// Takes what is next.
    #[inline]
    pub fn pop(&mut self, reads_ahead: u32) -> Option<Turn> {
        let passes = match (self.reads.front(), self.others.front()) {
            (Some((read, _)), Some((other, _))) => other < read,
            (None, _) => {
                self.passed = 0;
                return Some(self.others.pop_front()?.1);
            }
            (_, None) => false,
        };
        if passes && self.passed >= reads_ahead {
            self.passed = 0;
            return Some(self.others.pop_front()?.1);
        }
        self.passed += u32::from(passes);
        Some(self.reads.pop_front()?.1)
    }

    /// Takes the channel from `now_ps` on for `duration_ps`; the end.
    #[inline]
    pub fn take(&mut self, now_ps: u64, duration_ps: u64) -> u64 {
        debug_assert!(self.free_ps <= now_ps);
        self.free_ps = now_ps + duration_ps;
        self.busy_ps += duration_ps;
        self.free_ps
    }
}
