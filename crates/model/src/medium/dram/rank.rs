//! One rank's refreshes: when they fall due, and what they do to its banks.

use super::bank::Bank;
use super::timing::Timing;

/// The refreshes of a rank. Refresh k falls due at `first_ps` + k × tREFI; nothing accumulates
/// when one is late.
#[derive(Clone, Debug)]
pub struct Rank {
    first_ps: u64,
    done: u64,
    due: u64,
}

impl Rank {
    /// Rank `index` of `ranks`: their refreshes are spread evenly over tREFI.
    pub fn new(timing: &Timing, index: u32, ranks: u32) -> Self {
        let share = u128::from(timing.refi_ps) * u128::from(index + 1) / u128::from(ranks);
        let first_ps = share as u64;
        let mut rank = Rank { first_ps, done: 0, due: 0 };
        rank.set_done(timing, 0);
        rank
    }

    /// The clock at which the next refresh falls due.
    #[inline]
    pub fn due(&self) -> u64 {
        self.due
    }

    /// Refreshes so far.
    pub fn done(&self) -> u64 {
        self.done
    }

    fn set_done(&mut self, timing: &Timing, done: u64) {
        self.done = done;
        let due_ps = self.first_ps.saturating_add(done.saturating_mul(timing.refi_ps));
        self.due = timing.clock.ps_to_cycles_ceil(due_ps);
    }

    /// Refreshes, for a request that comes at clock `arrival`: all that fell due while the rank
    /// had nothing to do, then one more, which starts when every bank is idle and closes all rows.
    /// Returns the start of that one.
    #[cold]
    pub fn refresh(&mut self, timing: &Timing, banks: &mut [Bank], arrival: u64) -> u64 {
        let arrival_ps = timing.clock.cycles_to_ps(arrival);
        let passed = arrival_ps.saturating_sub(self.first_ps) / timing.refi_ps.max(1);
        if passed > self.done {
            self.set_done(timing, passed);
        }
        let idle = banks.iter().map(|bank| bank.idle_at(timing)).max().unwrap_or(0);
        let start = self.due.max(idle);
        banks.iter_mut().for_each(|bank| bank.close(start + timing.rfc));
        self.set_done(timing, self.done + 1);
        start
    }
}
