//! One rank: what its banks share, its refreshes, its power-down, and how long it was in which state.

use super::description::Description;
use super::standard::{Command, Next};
use super::table::{Table, USUAL, UsualEarliest};

/// Activates that tFAW counts.
const WINDOW: usize = 4;

/// The state of a rank.
#[derive(Clone, Debug)]
pub struct Rank {
    /// Until when each command that requests need is refused by the rank.
    pub earliest: UsualEarliest,
    /// When it last got each command, and one more: 0 is never.
    last: [u64; Command::ALL.len()],
    /// The last activates, the oldest at `oldest`.
    activates: [u64; WINDOW],
    oldest: usize,
    /// Entries that wait for it.
    pub waiting: u32,
    /// When it last got a command, or lost its last entry.
    pub idle_since: u64,
    /// Its refreshes.
    pub refresh: Refreshes,
    /// How long it was in which state.
    pub residency: Residency,
}

/// Refreshes of a rank: which falls due next, how many are owed.
#[derive(Clone, Debug)]
pub struct Refreshes {
    /// How many fell due.
    pub fallen_due: u64,
    /// When the next falls due.
    pub due: u64,
    /// How many fell due and were not done.
    pub owed: u32,
    /// Banks are being closed for one.
    pub under_way: bool,
    /// Which part of the rank is next: 0 where all banks are refreshed at once.
    pub unit: u32,
    /// Done.
    pub done: u64,
}

/// Clocks that a rank spent in its states, for energy. The rest is precharge standby.
#[derive(Clone, Copy, Debug, Default)]
pub struct Residency {
    /// Banks with an open row.
    pub open_banks: u32,
    /// Some row is open since then.
    open_since: u64,
    /// Up to here the last open row is counted.
    closed_at: u64,
    /// Clocks with some row open, power-down included.
    pub active: u64,
    /// Clocks of banks with an open row, summed over banks, power-down included: ends less
    /// beginnings, wherever in time each is told.
    pub bank_clocks: u64,
    /// Clocks of power-down with some row open.
    pub active_down: u64,
    /// Of `bank_clocks`, those of power-down.
    pub bank_clocks_down: u64,
    /// Clocks of power-down with all rows closed.
    pub precharged_down: u64,
    /// Activates.
    pub activates: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

impl Rank {
    /// When it last got a command, if it ever did, in clocks.
    pub fn last_given(&self, command: Command) -> Option<u64> {
        self.last[command as usize].checked_sub(1)
    }

    /// Rank `index`, all rows closed.
    pub fn new(description: &Description, index: u32) -> Self {
        Rank {
            earliest: [0; USUAL],
            last: [0; Command::ALL.len()],
            activates: [0; WINDOW],
            oldest: 0,
            waiting: 0,
            idle_since: 0,
            refresh: Refreshes {
                fallen_due: 0,
                due: description.refresh_due(index, 0),
                owed: 0,
                under_way: false,
                unit: 0,
                done: 0,
            },
            residency: Residency::default(),
        }
    }

    /// It gets a command at `at`.
    #[inline(always)]
    pub fn give(&mut self, table: &Table, command: Command, at: u64) {
        table.raise_rank(&mut self.earliest, command, at);
        self.last[command as usize] = at + 1;
    }

    /// Until when a command that no request needs is refused: such come seldom, so that it is not kept.
    pub fn earliest_other(&self, table: &Table, next: Next) -> u64 {
        let mut earliest = 0;
        for &(command, clocks) in table.others_of_rank(next) {
            let last = self.last[command as usize];
            earliest = if last > 0 { (last - 1 + clocks).max(earliest) } else { earliest };
        }
        earliest
    }

    /// Counts an activate at `at` in tFAW's window: the next but four waits for it.
    #[inline]
    pub fn activate(&mut self, at: u64, faw: u64) {
        // Times are kept one ahead, so that 0 means never.
        self.activates[self.oldest] = at + 1;
        self.oldest = (self.oldest + 1) % WINDOW;
        let fourth = self.activates[self.oldest];
        if fourth > 0 {
            let allowed = &mut self.earliest[Next::Activate as usize];
            *allowed = (fourth - 1 + faw).max(*allowed);
        }
    }

    /// When power-down began, if it had by `at`: `after` clocks behind the last thing to do.
    #[inline]
    pub fn powered_down(&self, table: &Table, at: u64, after: u64) -> Option<u64> {
        if self.waiting > 0 {
            return None;
        }
        let begin = self.idle_since.saturating_add(after);
        let begin = begin.max(self.earliest_other(table, Next::PowerDown));
        (begin < at).then_some(begin)
    }
}

impl Residency {
    /// A row is opened at `at`.
    #[inline]
    pub fn open(&mut self, at: u64) {
        if self.open_banks == 0 {
            self.open_since = at.max(self.closed_at);
        }
        self.open_banks += 1;
        self.bank_clocks = self.bank_clocks.wrapping_sub(at);
        self.activates += 1;
    }

    /// A row is closed, from `at` on.
    #[inline]
    pub fn close(&mut self, at: u64) {
        self.open_banks -= 1;
        self.bank_clocks = self.bank_clocks.wrapping_add(at);
        if self.open_banks == 0 {
            let end = at.max(self.open_since);
            self.active += end - self.open_since;
            self.closed_at = end;
        }
    }

    /// Counts power-down.
    #[inline]
    pub fn power_down(&mut self, clocks: u64) {
        *(if self.open_banks > 0 { &mut self.active_down } else { &mut self.precharged_down }) +=
            clocks;
        self.bank_clocks_down += u64::from(self.open_banks) * clocks;
    }

    /// The same with what is still open counted up to `at`.
    pub fn until(mut self, at: u64) -> Self {
        if self.open_banks > 0 {
            self.active += at.saturating_sub(self.open_since);
        }
        let open = u64::from(self.open_banks).wrapping_mul(at);
        self.bank_clocks = self.bank_clocks.wrapping_add(open);
        self
    }
}
