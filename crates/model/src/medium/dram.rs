//! DRAM behind its controllers, command by command.
//!
//! A description names a part of a standard (`standard/`); [`DramSpec`] says what differs. Each
//! channel has a controller (`channel.rs`) that gives commands as the standard's rules allow.
//! `docs/models/dram.md` says what is modelled.

mod bank;
mod candidates;
mod channel;
pub mod checker;
pub mod description;
mod earliest;
mod energy;
mod interface;
pub mod log;
pub mod mapping;
mod queue;
mod rank;
mod refresh;
mod rows;
mod rules;
mod shared_bus;
pub mod standard;
mod table;

use super::DramSpec;
use crate::activity::Activity;
use crate::request::{Completion, Device, Full, Refreshes, Request, Tell};
use channel::{Channel, Flight};
use earliest::{Earliest, NEVER};
pub use energy::DramEnergy;
pub use interface::{InterfaceEnergy, InterfacePowers, InterfaceSpec};
use log::Logged;
use mapping::{Mapping, Place, Run};
use queue::{Class, Entry};
use rules::Rules;
use tierscope_kernel::{Slab, Stage, Timeline};

counters! {
    /// What a DRAM has counted. Lines count when they are taken; a row state counts for each run of lines
    /// of a request in one row, when its first column command is given.
    #[derive(serde::Serialize)]
    pub struct DramCounts {
        /// Runs that found their row open.
        pub row_hits,
        /// Runs that found no row open.
        pub row_closed,
        /// Runs that found another row open.
        pub row_conflicts,
        /// Activates.
        pub activates,
        /// Refreshes of a rank, or of a bank of it, as far as requests have made them show.
        pub refreshes,
        /// Lines to read that were taken.
        pub read_lines,
        /// Lines to write that were taken.
        pub written_lines,
        /// Of the lines read, those that came from writes that waited.
        pub forwarded_lines,
    }
}

impl DramCounts {
    /// An entry gets its first column command.
    #[inline]
    fn add(&mut self, entry: &Entry) {
        // Without a branch, as nobody knows what comes.
        let (conflict, opened) = (entry.precharged, entry.activated);
        self.row_conflicts += u64::from(conflict);
        self.row_closed += u64::from(!conflict & opened);
        self.row_hits += u64::from(!conflict & !opened);
    }

    /// An entry is taken.
    #[inline]
    fn take(&mut self, entry: &Entry) {
        let lines = u64::from(entry.lines);
        let write = entry.class.writes();
        *(if write { &mut self.written_lines } else { &mut self.read_lines }) += lines;
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
/// A write of one line is complete when it is taken for good, after the controller's latency: reads
/// get its data from then on, from the queue if need be. What touches a line that another request
/// in flight writes, or writes what another reads, follows it. A larger write is complete when its
/// last data have moved; what it writes is seen from then on for sure.
#[derive(Clone, Debug)]
pub struct Dram {
    rules: Rules,
    mapping: Mapping,
    capacity_bytes: u64,
    line_bytes: u64,
    channels: Vec<Channel>,
    earliest: Earliest,
    groups: Slab<Group>,
    in_flight: usize,
    /// Runs of the request that is being submitted: kept, so that nothing is allocated.
    runs: Vec<Run>,
    /// Lines of it in each channel.
    lines_of_channel: Vec<u64>,
}

impl Dram {
    /// A DRAM of `capacity_bytes` that is asked for lines of `line_bytes`, all rows closed. The
    /// description has been checked ([`DramSpec::check`]).
    pub fn new(spec: &DramSpec, capacity_bytes: u64, line_bytes: u64) -> Self {
        let rules = Rules::new(spec, line_bytes);
        Dram {
            mapping: Mapping::new(spec, &rules.description, line_bytes),
            capacity_bytes,
            line_bytes,
            channels: (0..spec.channels).map(|_| Channel::new(&rules)).collect(),
            earliest: Earliest::new(spec.channels as usize),
            groups: Slab::new(),
            in_flight: 0,
            runs: Vec::new(),
            lines_of_channel: vec![0; spec.channels as usize],
            rules,
        }
    }

    /// Capacity in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Part, organization and timings as resolved.
    pub fn description(&self) -> &description::Description {
        &self.rules.description
    }

    /// What has been counted since the start.
    pub fn counts(&self) -> DramCounts {
        let start = DramCounts::default();
        self.channels.iter().fold(start, |sum, channel| sum.together(&channel.counts()))
    }

    /// Bytes of lines to read and to write that were taken since the start.
    pub fn moved_bytes(&self) -> (u64, u64) {
        let counts = self.counts();
        (counts.read_lines * self.line_bytes, counts.written_lines * self.line_bytes)
    }

    /// What has been counted since the start, up to `now_ps`, which is not before the last call: what
    /// nobody has asked for since (refreshes) included; and the energy.
    pub fn counts_and_energy(&self, now_ps: u64) -> (DramCounts, DramEnergy) {
        let now = self.rules.clock.ps_to_cycles_ceil(now_ps.saturating_add(1)) - 1;
        let mut counts = DramCounts::default();
        let mut energy = DramEnergy::default();
        for mut channel in self.settled(now_ps) {
            counts = counts.together(&channel.counts());
            energy = energy.plus(&energy::of_channel(&self.rules, &mut channel, now));
        }
        (counts, energy)
    }

    /// What drivers and termination of the data buses took up to `now_ps`, as [`Dram::counts_and_energy`].
    pub fn interface_energy(&self, now_ps: u64) -> InterfaceEnergy {
        let d = self.description();
        self.settled(now_ps).fold(InterfaceEnergy::default(), |sum, channel| {
            sum.plus(&interface::of_channel(d, &channel.ranks))
        })
    }

    /// Begins a log of the commands of every channel.
    pub fn start_log(&mut self) {
        for channel in &mut self.channels {
            channel.start_log();
        }
    }

    /// Takes what was logged for a channel, in order of time. Of what lies within a few refresh
    /// intervals (one more than may be postponed) nothing is taken, unless this is the `end`: the
    /// beginning of a power-down is logged with its end.
    pub fn take_log(&mut self, channel: usize, end: bool) -> Vec<Logged> {
        let d = &self.rules.description;
        let intervals = 2 + u64::from(d.most_owed / d.refresh_units);
        let late = self.rules.clock.ps_to_cycles_ceil(intervals * self.rules.timings.refi_ps);
        let before = if end { u64::MAX } else { self.channels[channel].now.saturating_sub(late) };
        self.channels[channel].take_log(before)
    }

    /// The first clock at which a request that is submitted now is looked at.
    #[inline]
    fn arrival(&self, now_ps: u64) -> u64 {
        self.rules.clock.ps_to_cycles_ceil(now_ps + self.rules.controller_ps)
    }

    /// The clock before which all is settled at a time: those before it have begun, and no request
    /// that is submitted from now on is looked at sooner.
    #[inline]
    fn settled_clock(&self, now_ps: u64) -> u64 {
        let behind_ps = self.rules.controller_ps.min(1);
        self.rules.clock.ps_to_cycles_ceil(now_ps.saturating_add(behind_ps))
    }

    /// The channels as they are at `now_ps`, what nobody has asked for since included.
    fn settled(&self, now_ps: u64) -> impl Iterator<Item = Channel> {
        let end = self.settled_clock(now_ps);
        self.channels.iter().map(move |channel| {
            let mut channel = channel.clone();
            channel.run(&self.rules, end, true);
            channel
        })
    }

    /// A channel does what was due before a request comes: what nobody asked for, and what a read
    /// has to know of writes.
    #[inline]
    fn catch_up(&mut self, now_ps: u64, channel: usize) {
        let end = self.settled_clock(now_ps);
        self.channels[channel].run(&self.rules, end, true);
    }

    fn submit_line(&mut self, now_ps: u64, request: Request, line: u64) -> Result<(), Full> {
        let place = self.mapping.place(line);
        let index = place.channel;
        if !self.channels[index].has_room(&self.rules, 1, request.write) {
            return Err(Full);
        }
        if !self.channels[index].is_busy() {
            self.catch_up(now_ps, index);
        } else if !request.write & self.channels[index].may_be_written(line) {
            self.catch_up(now_ps, index);
            if self.channels[index].forward(&self.rules, now_ps, line, place.bank, request.id) {
                self.set_earliest(index);
                return Ok(());
            }
        }
        self.hand_over(now_ps, request, Run { place, lines: 1 }, (request.id, false), (line, 1));
        // What waits already is not done sooner for it.
        let latency_ps = if request.write { 0 } else { self.rules.least_latency_ps };
        self.earliest.lower(index, now_ps + self.rules.controller_ps + latency_ps);
        Ok(())
    }

    #[inline]
    fn hand_over(
        &mut self,
        now_ps: u64,
        request: Request,
        run: Run,
        owner: (u32, bool),
        lines: (u64, u32),
    ) {
        let Place { channel, bank, row } = run.place;
        let class = Class::new(request.write, request.background);
        let bursts = run.lines * self.rules.bursts_of_line;
        let arrival = self.arrival(now_ps);
        let entry = Entry::new(arrival, row, bank, class, run.lines, bursts, owner, now_ps, lines);
        self.channels[channel].submit(entry, now_ps + self.rules.controller_ps);
    }

    #[inline]
    fn set_earliest(&mut self, channel: usize) {
        let next_ps = self.channels[channel].next_event_ps(&self.rules);
        self.earliest.set(channel, next_ps);
    }

    /// Takes lines `first` to `last`, both included.
    fn submit_lines(
        &mut self,
        now_ps: u64,
        request: Request,
        first: u64,
        last: u64,
    ) -> Result<(), Full> {
        let mut runs = std::mem::take(&mut self.runs);
        self.mapping.runs(first, last, &mut runs);
        let room = self.has_room(&runs, request.write);
        if room {
            let owner = Group { id: request.id, runs_left: runs.len() as u32 };
            let owner = (self.groups.insert(owner), true);
            let lines = (first, (last - first + 1) as u32);
            for run in &runs {
                if !self.channels[run.place.channel].is_busy() {
                    self.catch_up(now_ps, run.place.channel);
                }
                self.hand_over(now_ps, request, *run, owner, lines);
            }
            for run in &runs {
                self.set_earliest(run.place.channel);
            }
        }
        self.runs = runs;
        if room { Ok(()) } else { Err(Full) }
    }

    /// Whether every channel has room for what it has of a request.
    fn has_room(&mut self, runs: &[Run], write: bool) -> bool {
        for run in runs {
            self.lines_of_channel[run.place.channel] += u64::from(run.lines);
        }
        let mut room = true;
        for run in runs {
            let lines = std::mem::take(&mut self.lines_of_channel[run.place.channel]);
            room &=
                lines == 0 || self.channels[run.place.channel].has_room(&self.rules, lines, write);
        }
        room
    }

    /// Reports the request whose run has ended, if that was its last.
    #[inline]
    fn finish(&mut self, flight: &Flight, out: &mut Vec<Completion>) {
        if flight.silent {
            return;
        }
        let mut id = flight.owner;
        if flight.shared {
            let group = &mut self.groups[flight.owner];
            group.runs_left -= 1;
            if group.runs_left > 0 {
                return;
            }
            id = self.groups.remove(flight.owner).id;
        }
        self.in_flight -= 1;
        out.push(Completion::new(id, flight.end_ps, self.stages(flight)));
    }

    #[inline]
    fn stages(&self, flight: &Flight) -> Timeline {
        let controller_ps = self.rules.controller_ps;
        let latency_ps = flight.end_ps - flight.submitted_ps - controller_ps;
        let own_ps = self.rules.clock.cycles_to_ps(u64::from(flight.own_clocks)).min(latency_ps);
        Timeline::of([
            (Stage::Controller, controller_ps),
            (Stage::DramQueue, latency_ps - own_ps),
            (Stage::Dram, own_ps),
        ])
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
            // Up to its own next event only: completions come in order over all channels.
            let flight = self.channels[index].land(at_ps);
            if flight.is_none() {
                let end = self.settled_clock(now_ps);
                self.channels[index].run(&self.rules, end, false);
            }
            self.set_earliest(index);
            if let Some(flight) = flight {
                self.finish(&flight, out);
            }
        }
    }

    fn depths(&self, tell: &mut Tell<'_>) {
        tell("dram.requests", self.in_flight);
        tell("dram.lines", self.channels.iter().map(Channel::held).sum());
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn bus_free_ps(&mut self, now_ps: u64, channel: usize) -> u64 {
        self.bursts_end_ps(now_ps, channel)
    }

    fn refreshes(&mut self, now_ps: u64, channel: usize) -> Refreshes {
        self.refreshes_by(now_ps, channel)
    }

    fn keep_off_bus(&mut self, now_ps: u64, until_ps: u64, channel: usize) {
        self.leave_bus(now_ps, until_ps, channel);
    }

    fn activity(&self, now_ps: u64) -> Activity {
        let (counts, energy) = self.counts_and_energy(now_ps);
        Activity::of_dram(counts, energy, self.interface_energy(now_ps))
    }
}

#[cfg(test)]
pub(crate) mod tests;
