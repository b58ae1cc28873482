//! One channel: its controller, banks and data bus.
//!
//! A demand request is booked when it comes: its bank's commands follow those booked before it,
//! and it takes the first free interval of the bus that its bank can use. Background requests wait
//! aside and are booked piece by piece, each when the bus would else run dry, so that a demand
//! request waits for one piece at most. So that they are not starved, a piece goes ahead once a
//! queue's depth of demand has passed it.

use super::bank::{Bank, RowState};
use super::bus::{Bus, User};
use super::earliest::NEVER;
use super::mapping::Place;
use super::rank::Rank;
use super::timing::Timing;
use super::{DramCounts, DramSpec};
use std::collections::VecDeque;

/// Lines of a background request that are booked at once: what demand may have to wait for.
pub const BACKGROUND_LINES: u64 = 16;

/// Lines of one row of one request.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Where its first line lies.
    pub place: Place,
    /// Number of lines.
    pub lines: u32,
    /// Lines of the same request booked on this channel before them.
    pub lines_before: u32,
    /// Towards DRAM.
    pub write: bool,
    /// Whose it is.
    pub owner: Owner,
    /// The clock at which the controller looks at it first.
    pub arrival: u64,
}

/// The request that a run belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// The request's id, or its place among the requests of several runs.
    pub id: u32,
    /// Whether it has several runs.
    pub shared: bool,
    /// When it was submitted.
    pub submitted_ps: u64,
}

/// A run whose data are booked.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    /// When its last data have moved.
    pub end_ps: u64,
    /// When its request was submitted.
    pub submitted_ps: u64,
    /// Clocks of its own commands and data, without any wait.
    pub own_clocks: u32,
    /// Number of lines.
    pub lines: u32,
    /// As in [`Owner`].
    pub id: u32,
    /// As in [`Owner`].
    pub shared: bool,
}

/// The state of a channel.
#[derive(Clone, Debug)]
pub struct Channel {
    banks: Vec<Bank>,
    ranks: Vec<Rank>,
    banks_per_rank: usize,
    bus: Bus,
    /// Booked, in order of their end.
    flights: VecDeque<Flight>,
    background: VecDeque<Run>,
    /// Demand lines booked since the first of `background` came first.
    passed_lines: u64,
    held_lines: u64,
    queue_depth: u64,
    wake_ps: u64,
    counts: DramCounts,
    #[cfg(test)]
    log: Vec<super::protocol::Command>,
}

impl Channel {
    /// A channel with nothing to do and all rows closed.
    pub fn new(spec: &DramSpec, timing: &Timing) -> Self {
        let banks = spec.ranks as usize * spec.banks as usize;
        Channel {
            banks: vec![Bank::new(); banks],
            ranks: (0..spec.ranks).map(|index| Rank::new(timing, index, spec.ranks)).collect(),
            banks_per_rank: spec.banks as usize,
            bus: Bus::new(),
            flights: VecDeque::new(),
            background: VecDeque::new(),
            passed_lines: 0,
            held_lines: 0,
            queue_depth: u64::from(spec.queue_depth),
            wake_ps: NEVER,
            counts: DramCounts::default(),
            #[cfg(test)]
            log: Vec::new(),
        }
    }

    /// All commands that were booked, in the order of booking.
    #[cfg(test)]
    pub fn log(&self) -> &[super::protocol::Command] {
        &self.log
    }

    /// Whether `lines` more can be held. What is larger than the whole queue is taken when the
    /// channel is idle.
    #[inline]
    pub fn has_room(&self, lines: u64) -> bool {
        self.held_lines == 0 || self.held_lines + lines <= self.queue_depth
    }

    /// When something happens next: a run ends, or a background run is booked.
    #[inline]
    pub fn next_event_ps(&self) -> u64 {
        self.flights.front().map_or(NEVER, |flight| flight.end_ps).min(self.wake_ps)
    }

    /// What the channel has counted.
    pub fn counts(&self) -> DramCounts {
        let refreshes = self.ranks.iter().map(Rank::done).sum();
        DramCounts { refreshes, ..self.counts }
    }

    /// Takes a run that somebody waits for.
    #[inline]
    pub fn demand(&mut self, timing: &Timing, run: Run) {
        self.held_lines += u64::from(run.lines);
        if self.background.is_empty() {
            self.book(timing, run);
        } else {
            self.book_ahead_of_background(timing, run);
        }
    }

    fn book_ahead_of_background(&mut self, timing: &Timing, run: Run) {
        if self.passed_lines >= self.queue_depth {
            self.start_background(timing, run.arrival);
        }
        self.passed_lines += u64::from(run.lines);
        self.book(timing, run);
        self.set_wake(timing);
    }

    /// Takes a run that nobody waits for.
    pub fn background(&mut self, timing: &Timing, run: Run) {
        self.held_lines += u64::from(run.lines);
        let left = |done: u64| u64::from(run.lines) - done;
        for done in (0..u64::from(run.lines)).step_by(BACKGROUND_LINES as usize) {
            self.background.push_back(Run {
                lines: left(done).min(BACKGROUND_LINES) as u32,
                lines_before: run.lines_before + done as u32,
                place: Place { column: run.place.column + done, ..run.place },
                ..run
            });
        }
        self.set_wake(timing);
    }

    /// Books the background runs that were to be booked until `now_ps`. Without this, a demand
    /// request submitted before the channel was advanced could pass them.
    #[inline]
    pub fn catch_up(&mut self, timing: &Timing, now_ps: u64) {
        while self.wake_ps <= now_ps {
            self.wake(timing);
        }
    }

    /// Does what is due at [`Channel::next_event_ps`]; the run that ended then, if one did.
    #[inline]
    pub fn step(&mut self, timing: &Timing) -> Option<Flight> {
        let end_ps = self.flights.front().map_or(NEVER, |flight| flight.end_ps);
        if self.wake_ps < end_ps {
            self.wake(timing);
            return None;
        }
        let flight = self.flights.pop_front()?;
        self.held_lines -= u64::from(flight.lines);
        Some(flight)
    }

    fn wake(&mut self, timing: &Timing) {
        let clock = timing.clock.ps_to_cycles_ceil(self.wake_ps);
        self.start_background(timing, clock);
        self.set_wake(timing);
    }

    fn start_background(&mut self, timing: &Timing, clock: u64) {
        self.passed_lines = 0;
        if let Some(run) = self.background.pop_front() {
            self.book(timing, Run { arrival: run.arrival.max(clock), ..run });
        }
    }

    /// The next background run is booked when the bus has as much left to do as a first command
    /// takes to bring data, and not before the run has come.
    fn set_wake(&mut self, timing: &Timing) {
        self.wake_ps = self.background.front().map_or(NEVER, |run| {
            let clock = run.arrival.max(self.bus.free().saturating_sub(timing.lookahead));
            timing.clock.cycles_to_ps(clock)
        });
    }

    /// Books commands and data of a run.
    #[inline]
    fn book(&mut self, timing: &Timing, run: Run) {
        let Place { rank, bank: index, row, .. } = run.place;
        let first_bank = rank as usize * self.banks_per_rank;
        let banks = &mut self.banks[first_bank..first_bank + self.banks_per_rank];
        let index = index as usize;
        if banks[index].first_command(row, run.arrival) >= self.ranks[rank as usize].due() {
            let _start = self.ranks[rank as usize].refresh(timing, banks, run.arrival);
            #[cfg(test)]
            self.log.push(super::protocol::Command::Refresh { rank, at: _start });
        }
        let bank = &mut banks[index];
        let opening = match bank.state(row) {
            RowState::Hit => 0,
            RowState::Closed => timing.rcd,
            RowState::Conflict => timing.rp + timing.rcd,
        };
        self.counts.add(bank.state(row), &run);
        let first = bank.first_command(row, run.arrival);
        let to_data = timing.column_to_data(run.write);
        let data_ready = bank.open(timing, row, first) + to_data;
        let clocks = u64::from(run.lines) * timing.line_clocks;
        let user = User { rank, write: run.write };
        let end = self.bus.reserve(timing, data_ready, clocks, user) + clocks;
        bank.transfer(timing, run.write, end);
        #[cfg(test)]
        self.log.push(super::protocol::Command::Access {
            place: run.place,
            write: run.write,
            first,
            opening,
            data: end - clocks,
            end,
        });
        let before = u64::from(run.lines_before) * timing.line_clocks;
        self.fly(Flight {
            end_ps: timing.clock.cycles_to_ps(end),
            submitted_ps: run.owner.submitted_ps,
            own_clocks: (opening + to_data + clocks + before) as u32,
            lines: run.lines,
            id: run.owner.id,
            shared: run.owner.shared,
        });
    }

    /// Keeps flights in order of their end: nearly always the new one is among the last.
    #[inline]
    fn fly(&mut self, flight: Flight) {
        self.flights.push_back(flight);
        let mut place = self.flights.len() - 1;
        while place > 0 && self.flights[place - 1].end_ps > flight.end_ps {
            self.flights[place] = self.flights[place - 1];
            place -= 1;
        }
        self.flights[place] = flight;
    }
}
