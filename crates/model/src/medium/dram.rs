//! DRAM behind its controllers: channels, ranks, banks, rows left open, and refresh.
//!
//! This is the timing of a request, computed when it is booked; single commands on the command bus
//! are not modelled. What is, is said in `docs/models/dram.md`. The address mapping, the timing
//! table, and the controller of a channel each have their file below.

mod bank;
mod bus;
mod channel;
mod earliest;
mod mapping;
mod rank;
mod timing;

use super::DramSpec;
use crate::request::{Completion, Device, Full, Request};
use bank::RowState;
use channel::{Channel, Flight, Owner, Run};
use earliest::{Earliest, NEVER};
use mapping::Mapping;
use tierscope_kernel::{Clock, Slab, Stage, Timeline};
use timing::Timing;

/// What a DRAM has counted. A row state is counted for each run of lines in one row, in pieces of
/// at most 16 lines where nobody waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct DramCounts {
    /// Runs that found their row open.
    pub row_hits: u64,
    /// Runs that found no row open.
    pub row_closed: u64,
    /// Runs that found another row open.
    pub row_conflicts: u64,
    /// Refreshes of a rank, as far as requests have made them show.
    pub refreshes: u64,
    /// Lines read.
    pub read_lines: u64,
    /// Lines written.
    pub written_lines: u64,
}

impl DramCounts {
    #[inline]
    fn add(&mut self, state: RowState, run: &Run) {
        match state {
            RowState::Hit => self.row_hits += 1,
            RowState::Closed => self.row_closed += 1,
            RowState::Conflict => self.row_conflicts += 1,
        }
        let lines = u64::from(run.lines);
        *(if run.write { &mut self.written_lines } else { &mut self.read_lines }) += lines;
    }

    fn plus(self, other: DramCounts) -> Self {
        DramCounts {
            row_hits: self.row_hits + other.row_hits,
            row_closed: self.row_closed + other.row_closed,
            row_conflicts: self.row_conflicts + other.row_conflicts,
            refreshes: self.refreshes + other.refreshes,
            read_lines: self.read_lines + other.read_lines,
            written_lines: self.written_lines + other.written_lines,
        }
    }
}

/// A request of several runs: done with the last of them.
#[derive(Clone, Copy, Debug)]
struct Group {
    id: u32,
    runs_left: u32,
}

/// A DRAM of one or more channels.
///
/// A request that nobody waits for (`background`) may be passed by later demand, also by demand
/// for the same line: whoever cares about their order waits for the completion.
#[derive(Clone, Debug)]
pub struct Dram {
    timing: Timing,
    mapping: Mapping,
    capacity_bytes: u64,
    line_bytes: u64,
    channels: Vec<Channel>,
    earliest: Earliest,
    groups: Slab<Group>,
    in_flight: usize,
}

impl Dram {
    /// A DRAM of `capacity_bytes` that is asked for lines of `line_bytes`, all rows closed. The
    /// description has been checked ([`DramSpec::check`]).
    pub fn new(spec: &DramSpec, capacity_bytes: u64, line_bytes: u64) -> Self {
        Dram::with_timing(spec, Timing::new(spec, line_bytes), capacity_bytes, line_bytes)
    }

    /// The same by a clock whose period need not be whole picoseconds: DDR4-2400's is 833⅓ ps.
    pub fn with_clock(spec: &DramSpec, clock: Clock, capacity_bytes: u64, line_bytes: u64) -> Self {
        let timing = Timing::with_clock(spec, clock, line_bytes);
        Dram::with_timing(spec, timing, capacity_bytes, line_bytes)
    }

    fn with_timing(spec: &DramSpec, timing: Timing, capacity_bytes: u64, line_bytes: u64) -> Self {
        let channels = (0..spec.channels).map(|_| Channel::new(spec, &timing)).collect();
        Dram {
            mapping: Mapping::new(spec, line_bytes),
            capacity_bytes,
            line_bytes,
            channels,
            earliest: Earliest::new(spec.channels as usize),
            groups: Slab::new(),
            in_flight: 0,
            timing,
        }
    }

    /// Capacity in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// What has been counted since the start.
    pub fn counts(&self) -> DramCounts {
        let start = DramCounts::default();
        self.channels.iter().fold(start, |sum, channel| sum.plus(channel.counts()))
    }

    /// Bytes of lines read and written since the start.
    pub fn moved_bytes(&self) -> (u64, u64) {
        let counts = self.counts();
        (counts.read_lines * self.line_bytes, counts.written_lines * self.line_bytes)
    }

    #[inline]
    fn arrival(&self, now_ps: u64) -> u64 {
        self.timing.clock.ps_to_cycles_ceil(now_ps + self.timing.controller_ps)
    }

    fn submit_line(&mut self, now_ps: u64, request: Request, line: u64) -> Result<(), Full> {
        let (index, channel_line) = self.mapping.channel(line);
        if !self.channels[index].has_room(1) {
            return Err(Full);
        }
        let run = Run {
            place: self.mapping.place(channel_line),
            lines: 1,
            lines_before: 0,
            write: request.write,
            owner: Owner { id: request.id, shared: false, submitted_ps: now_ps },
            arrival: self.arrival(now_ps),
        };
        self.hand_over(now_ps, index, run, request.background);
        Ok(())
    }

    #[inline]
    fn hand_over(&mut self, now_ps: u64, index: usize, run: Run, background: bool) {
        let channel = &mut self.channels[index];
        channel.catch_up(&self.timing, now_ps);
        if background {
            channel.background(&self.timing, run);
        } else {
            channel.demand(&self.timing, run);
        }
        self.earliest.set(index, channel.next_event_ps());
    }

    /// Takes lines `first` to `last`, both included: in each channel they follow each other.
    fn submit_lines(
        &mut self,
        now_ps: u64,
        request: Request,
        first: u64,
        last: u64,
    ) -> Result<(), Full> {
        let channels = self.channels.len() as u64;
        let used = channels.min(last - first + 1);
        let lines_from = |start: u64| (last - start) / channels + 1;
        let room = (first..first + used)
            .all(|start| self.channels[self.mapping.channel(start).0].has_room(lines_from(start)));
        if !room {
            return Err(Full);
        }
        let group = self.groups.insert(Group { id: request.id, runs_left: 0 });
        let owner = Owner { id: group, shared: true, submitted_ps: now_ps };
        for start in first..first + used {
            self.submit_to_channel(now_ps, request, owner, start, lines_from(start));
        }
        Ok(())
    }

    /// Hands the `lines` of a request that one channel has to it, row by row.
    fn submit_to_channel(
        &mut self,
        now_ps: u64,
        request: Request,
        owner: Owner,
        start: u64,
        lines: u64,
    ) {
        let arrival = self.arrival(now_ps);
        let (index, channel_line) = self.mapping.channel(start);
        let mut done = 0;
        while done < lines {
            let place = self.mapping.place(channel_line + done);
            let run_lines = self.mapping.lines_left(place.column).min(lines - done);
            let pieces = if request.background {
                run_lines.div_ceil(channel::BACKGROUND_LINES) as u32
            } else {
                1
            };
            self.groups[owner.id].runs_left += pieces;
            let run = Run {
                place,
                lines: run_lines as u32,
                lines_before: done as u32,
                write: request.write,
                owner,
                arrival,
            };
            self.hand_over(now_ps, index, run, request.background);
            done += run_lines;
        }
    }

    /// Reports the request whose run has ended, if that was its last.
    #[inline]
    fn finish(&mut self, flight: &Flight, out: &mut Vec<Completion>) {
        let mut id = flight.id;
        if flight.shared {
            let group = &mut self.groups[flight.id];
            group.runs_left -= 1;
            if group.runs_left > 0 {
                return;
            }
            id = self.groups.remove(flight.id).id;
        }
        self.in_flight -= 1;
        // The stages are written where they stay: a completion is large.
        out.push(Completion { id, at_ps: flight.end_ps, stages: Timeline::new() });
        if let Some(completion) = out.last_mut() {
            self.write_stages(flight, &mut completion.stages);
        }
    }

    #[inline]
    fn write_stages(&self, flight: &Flight, stages: &mut Timeline) {
        let controller_ps = self.timing.controller_ps;
        let latency_ps = flight.end_ps - flight.submitted_ps - controller_ps;
        let own_ps = self.timing.clock.cycles_to_ps(u64::from(flight.own_clocks)).min(latency_ps);
        stages.push(Stage::Controller, controller_ps);
        stages.push(Stage::DramQueue, latency_ps - own_ps);
        stages.push(Stage::Dram, own_ps);
    }
}

impl Device for Dram {
    /// Takes a request for one or more bytes; every line that it touches is moved as a whole.
    ///
    /// # Panics
    /// If it reaches beyond the capacity: callers know what they own.
    #[inline]
    fn submit(&mut self, now_ps: u64, request: Request) -> Result<(), Full> {
        let last_byte = request.address + u64::from(request.bytes.max(1)) - 1;
        assert!(last_byte < self.capacity_bytes, "{request:?} is beyond {}", self.capacity_bytes);
        let (first, last) = (self.mapping.line(request.address), self.mapping.line(last_byte));
        if first == last {
            self.submit_line(now_ps, request, first)?;
        } else {
            self.submit_lines(now_ps, request, first, last)?;
        }
        self.in_flight += 1;
        Ok(())
    }

    #[inline]
    fn next_event_ps(&self) -> Option<u64> {
        Some(self.earliest.first().0).filter(|&at_ps| at_ps != NEVER)
    }

    #[inline]
    fn advance(&mut self, now_ps: u64, out: &mut Vec<Completion>) {
        loop {
            let (at_ps, index) = self.earliest.first();
            if at_ps > now_ps || at_ps == NEVER {
                return;
            }
            let flight = self.channels[index].step(&self.timing);
            self.earliest.set(index, self.channels[index].next_event_ps());
            if let Some(flight) = flight {
                self.finish(&flight, out);
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

#[cfg(test)]
mod protocol;
#[cfg(test)]
pub(crate) mod tests;
