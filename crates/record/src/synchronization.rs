//! The partial order of a program's threads, as far as the kernel sees it.
//!
//! A thread that wakes others through a futex signals before the call runs; a thread whose wait
//! ended waits, on every machine, for the latest signal that can have ended it. A signal is always
//! noted, in real time, before the wait that names it; so the order has no cycle, and no machine
//! can come to a deadlock by it.

use std::collections::HashMap;
use tierscope_workload::ThreadId;

/// A mark that a thread has passed: the thread, and the number of its signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub thread: ThreadId,
    pub sequence: u64,
}

/// The futexes of a program, by address.
#[derive(Default)]
pub struct Order {
    /// Counts events: real time, as far as it matters here.
    now: u64,
    words: HashMap<u64, Word>,
}

#[derive(Default)]
struct Word {
    /// The latest signal, and the latest by another thread than that one.
    signals: [Option<Signal>; 2],
    /// Waiters were moved to another address, at a moment.
    moved: Option<(u64, u64)>,
}

#[derive(Clone, Copy)]
struct Signal {
    mark: Mark,
    begun: u64,
    /// When its call returned; it can end waits until then.
    completed: Option<u64>,
}

impl Order {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// A thread is about to wake waiters at `address`.
    pub fn begin_signal(&mut self, address: u64, mark: Mark) {
        let signal = Signal { mark, begun: self.tick(), completed: None };
        let word = self.words.entry(address).or_default();
        if word.signals[0].is_some_and(|latest| latest.mark.thread != mark.thread) {
            word.signals[1] = word.signals[0];
        }
        word.signals[0] = Some(signal);
    }

    /// The call that signalled at `address` has returned to `thread`.
    pub fn complete_signal(&mut self, address: u64, thread: ThreadId) {
        let now = self.tick();
        let Some(word) = self.words.get_mut(&address) else { return };
        for signal in word.signals.iter_mut().flatten() {
            if signal.mark.thread == thread && signal.completed.is_none() {
                signal.completed = Some(now);
            }
        }
    }

    /// Waiters at `from` may be moved to `to`, where a later signal ends their wait.
    pub fn move_waiters(&mut self, from: u64, to: u64) {
        let now = self.tick();
        self.words.entry(from).or_default().moved = Some((to, now));
    }

    /// A thread is about to wait. Returns the moment, for [`Order::end_wait`].
    pub fn begin_wait(&mut self) -> u64 {
        self.tick()
    }

    /// The wait of `waiter` at `address` that began at `begun` has ended: the latest signal that
    /// can have ended it, if one of the program's threads gave it.
    pub fn end_wait(&mut self, address: u64, begun: u64, waiter: ThreadId) -> Option<Mark> {
        self.tick();
        let word = self.words.get(&address)?;
        let here = word.ending(begun, waiter);
        let there = word
            .moved
            .filter(|(_, moment)| *moment > begun)
            .and_then(|(to, _)| self.words.get(&to)?.ending(begun, waiter));
        let latest = here.into_iter().chain(there).max_by_key(|signal| signal.begun)?;
        Some(latest.mark)
    }
}

impl Word {
    fn ending(&self, begun: u64, waiter: ThreadId) -> Option<Signal> {
        let could = |signal: &Signal| {
            signal.mark.thread != waiter && signal.completed.is_none_or(|moment| moment > begun)
        };
        self.signals.iter().flatten().copied().find(could)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u64 = 0x1000;
    const B: u64 = 0x2000;

    fn mark(thread: ThreadId, sequence: u64) -> Mark {
        Mark { thread, sequence }
    }

    #[test]
    fn a_wait_is_ended_by_a_signal_given_since_it_began() {
        let mut order = Order::default();
        let begun = order.begin_wait();
        order.begin_signal(A, mark(2, 7));
        assert_eq!(order.end_wait(A, begun, 1), Some(mark(2, 7)));
        assert_eq!(order.end_wait(B, begun, 1), None, "another address");
    }

    #[test]
    fn a_signal_completed_before_the_wait_began_ends_nothing() {
        let mut order = Order::default();
        order.begin_signal(A, mark(2, 7));
        order.complete_signal(A, 2);
        let begun = order.begin_wait();
        assert_eq!(order.end_wait(A, begun, 1), None);
    }

    #[test]
    fn a_signal_whose_call_is_under_way_when_the_wait_begins_can_end_it() {
        let mut order = Order::default();
        order.begin_signal(A, mark(2, 7));
        let begun = order.begin_wait();
        order.complete_signal(A, 2);
        assert_eq!(order.end_wait(A, begun, 1), Some(mark(2, 7)));
    }

    #[test]
    fn no_thread_waits_for_itself() {
        let mut order = Order::default();
        let begun = order.begin_wait();
        order.begin_signal(A, mark(3, 1));
        order.begin_signal(A, mark(1, 5));
        assert_eq!(order.end_wait(A, begun, 1), Some(mark(3, 1)));
        assert_eq!(order.end_wait(A, begun, 3), Some(mark(1, 5)));
    }

    #[test]
    fn a_waiter_that_was_moved_is_ended_at_the_other_address() {
        let mut order = Order::default();
        let begun = order.begin_wait();
        order.begin_signal(A, mark(2, 1));
        order.move_waiters(A, B);
        order.begin_signal(B, mark(3, 4));
        assert_eq!(order.end_wait(A, begun, 1), Some(mark(3, 4)));
        let later = order.begin_wait();
        order.complete_signal(B, 3);
        order.begin_signal(B, mark(3, 5));
        assert_eq!(order.end_wait(A, later, 1), Some(mark(2, 1)), "it was not moved");
    }
}
