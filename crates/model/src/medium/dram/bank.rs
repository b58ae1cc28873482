//! One bank: its open row, and when it may be given which command.

use super::timing::Timing;

/// No row is open.
const CLOSED: u64 = u64::MAX;

/// What a request found at its bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowState {
    /// Its row, open.
    Hit,
    /// No row.
    Closed,
    /// Another row.
    Conflict,
}

/// The state of a bank, in clocks. Commands are booked: each time lies after all that was booked.
#[derive(Clone, Copy, Debug)]
pub struct Bank {
    open_row: u64,
    /// Activate is allowed from here on, if no row is open.
    activate_at: u64,
    /// A column command is allowed from here on, if a row is open.
    column_at: u64,
    /// Precharge is allowed from here on, if a row is open.
    precharge_at: u64,
}

impl Bank {
    /// A bank without an open row.
    pub const fn new() -> Self {
        Bank { open_row: CLOSED, activate_at: 0, column_at: 0, precharge_at: 0 }
    }

    /// What a request for `row` finds.
    #[inline]
    pub fn state(&self, row: u64) -> RowState {
        if self.open_row == row {
            RowState::Hit
        } else if self.open_row == CLOSED {
            RowState::Closed
        } else {
            RowState::Conflict
        }
    }

    /// When the first command of a request for `row` that comes at `arrival` can be given.
    #[inline]
    pub fn first_command(&self, row: u64, arrival: u64) -> u64 {
        arrival.max(match self.state(row) {
            RowState::Hit => self.column_at,
            RowState::Closed => self.activate_at,
            RowState::Conflict => self.precharge_at,
        })
    }

    /// Opens `row` by commands from `first` on ([`Bank::first_command`]), and returns when a
    /// column command can be given.
    #[inline]
    pub fn open(&mut self, timing: &Timing, row: u64, first: u64) -> u64 {
        let activate = match self.state(row) {
            RowState::Hit => return first,
            RowState::Closed => first,
            RowState::Conflict => first + timing.rp,
        };
        self.open_row = row;
        self.precharge_at = activate + timing.ras;
        activate + timing.rcd
    }

    /// Books column commands whose data are on the bus until `end`.
    #[inline]
    pub fn transfer(&mut self, timing: &Timing, write: bool, end: u64) {
        let next_column = end - timing.column_to_data(write);
        let precharge = if write { end + timing.wr } else { next_column };
        self.column_at = next_column;
        self.precharge_at = self.precharge_at.max(precharge);
    }

    /// When the bank can have no open row at the earliest: precharged, if one is open.
    #[inline]
    pub fn idle_at(&self, timing: &Timing) -> u64 {
        if self.open_row == CLOSED { self.activate_at } else { self.precharge_at + timing.rp }
    }

    /// Closes the row; the next activate is allowed from `activate_at` on.
    #[inline]
    pub fn close(&mut self, activate_at: u64) {
        self.open_row = CLOSED;
        self.activate_at = activate_at;
    }
}
