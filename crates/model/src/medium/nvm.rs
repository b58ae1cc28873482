//! Byte-addressable non-volatile memory: phase-change memory, STT-MRAM, ReRAM, 3D XPoint.
//!
//! Channels of banks behind a controller with bounded queues. A read brings a row of its bank into a row
//! buffer, unless it is there, and moves a line over the bus; a write moves a line over the bus and holds
//! its bank for a pulse that is much longer, which reads may pause or cancel (Qureshi et al., "Improving
//! Read Performance of Phase Change Memories via Write Cancellation and Write Pausing", HPCA 2010).
//! Lines wear, and Start-Gap levels that. `docs/models/nvm.md` says what is modelled.

mod bank;
mod channel;
mod place;
mod report;
mod spec;
mod start_gap;
mod wear;

pub use bank::{CellCounts, Cells};
pub use report::{NvmCounts, NvmEnergy};
pub use spec::{NvmArraySpec, NvmEnergySpec, NvmWearSpec, Preemption};
pub use start_gap::{GapMove, StartGap};
pub use wear::{Wear, WearCounts};

use channel::{Channel, Rules};
use place::{Place, Places};
use std::collections::VecDeque;
use tierscope_kernel::{EventQueue, Slab};

/// An access to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineAccess {
    /// Chosen by the requester, returned when it is done.
    pub token: u32,
    /// Number of the line in the memory.
    pub line: u64,
    /// Whether it is written.
    pub write: bool,
    /// Whether nobody waits for it.
    pub background: bool,
}

/// What the memory says of an access, and when it did what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineDone {
    /// The access's.
    pub token: u32,
    /// When its last byte had crossed the bus to the controller; or, of a write, when the controller had
    /// taken it for good.
    pub at_ps: u64,
    /// When a bank began to read it. What came from a write that waited, and a write, has `at_ps` here
    /// and in what follows.
    pub started_ps: u64,
    /// When its data were ready for the bus.
    pub ready_ps: u64,
    /// When they got the bus.
    pub bus_ps: u64,
}

/// An access that the memory holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    access: LineAccess,
    place: Place,
    done: LineDone,
    /// Whether it has a place in the read queue.
    queued: bool,
}

/// Something that happens.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The access with this number is done.
    Done(u32),
    /// What a bank of a channel does ends.
    Bank(u16, u16),
}

/// What channels work with: the accesses that are held, and what will happen.
#[derive(Clone, Debug)]
struct Board {
    held: Slab<Held>,
    events: EventQueue<Event>,
}

impl Board {
    /// The access with number `index` is done at `at_ps`, which has not passed.
    fn done(&mut self, index: u32, at_ps: u64) {
        self.events.push(at_ps, 0, Event::Done(index));
    }

    /// As [`Board::done`], of what the controller answers by itself at `now_ps`.
    fn answered(&mut self, index: u32, now_ps: u64) {
        let done = &mut self.held[index].done;
        (done.at_ps, done.started_ps) = (now_ps, now_ps);
        (done.ready_ps, done.bus_ps) = (now_ps, now_ps);
        self.done(index, now_ps);
    }
}

/// A memory of one or more channels. Writes are done when they are in the write queue, which is taken to
/// be within what survives a power failure; reads get their data from there.
#[derive(Clone, Debug)]
pub struct NvmArray {
    rules: Rules,
    places: Places,
    lines: u64,
    channels: Vec<Channel>,
    board: Board,
    /// Each access is done as it comes; and those that have been, and have not been told.
    is_at_once: bool,
    done_at_once: VecDeque<LineDone>,
    energy: Option<NvmEnergySpec>,
    line_bits: u64,
    row_bits: u64,
}

impl NvmArray {
    /// The same, of which wear is shared until one of the two changes it.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        NvmArray {
            rules: self.rules.clone(),
            channels: self.channels.iter_mut().map(Channel::fork).collect(),
            board: self.board.clone(),
            done_at_once: VecDeque::new(),
            energy: self.energy.clone(),
            ..*self
        }
    }

    /// A memory of `capacity_bytes` with nothing to do and no row open. The descriptions have been
    /// checked.
    pub fn new(
        spec: &NvmArraySpec,
        wear: &NvmWearSpec,
        energy: Option<&NvmEnergySpec>,
        capacity_bytes: u64,
    ) -> Self {
        let lines = capacity_bytes / spec.line.bytes();
        let banks = u64::from(spec.channels) * u64::from(spec.banks);
        let channel = |number: u32| {
            let first = u64::from(number) * u64::from(spec.banks);
            Channel::new(spec, wear, lines / banks, first)
        };
        NvmArray {
            rules: Rules::new(spec),
            places: Places::new(spec),
            lines,
            channels: (0..spec.channels).map(channel).collect(),
            board: Board { held: Slab::new(), events: EventQueue::new() },
            is_at_once: false,
            done_at_once: VecDeque::new(),
            energy: energy.cloned(),
            line_bits: 8 * spec.line.bytes(),
            row_bits: 8 * spec.row.bytes(),
        }
    }

    /// Lines that it offers.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Bytes of one.
    pub fn line_bytes(&self) -> u64 {
        self.line_bits / 8
    }

    /// Takes an access at `now_ps`, which never goes back between calls. What is held is bounded by
    /// whoever submits; what queues have no room for waits before them.
    ///
    /// # Panics
    /// If there is no such line: callers know what they own.
    pub fn submit(&mut self, now_ps: u64, access: LineAccess) {
        let (line, lines) = (access.line, self.lines);
        assert!(line < lines, "line {line} of a memory of {lines}");
        let place = self.places.of(line);
        let done = LineDone {
            token: access.token,
            at_ps: now_ps,
            started_ps: now_ps,
            ready_ps: now_ps,
            bus_ps: now_ps,
        };
        let channel = &mut self.channels[place.channel];
        if self.is_at_once {
            channel.serve_at_once(place, access.write, &self.rules);
            return self.done_at_once.push_back(done);
        }
        let index = self.board.held.insert(Held { access, place, done, queued: false });
        channel.arrive(now_ps, index, &self.rules, &mut self.board);
    }

    /// From now on, or no longer, each access is done as it comes, without time: cells wear, rows are opened, and the
    /// levelling goes on.
    pub fn set_at_once(&mut self, at_once: bool) {
        self.is_at_once = at_once;
    }

    /// The next access that was done without time.
    pub fn take_done_at_once(&mut self) -> Option<LineDone> {
        self.done_at_once.pop_front()
    }

    /// When something happens next, if anything will.
    #[inline]
    pub fn next_event_ps(&self) -> Option<u64> {
        self.board.events.peek_ps()
    }

    /// Does all that is due until `now_ps` and appends what was done by then, in order of time.
    pub fn advance(&mut self, now_ps: u64, out: &mut Vec<LineDone>) {
        while let Some(at_ps) = self.board.events.peek_ps()
            && at_ps <= now_ps
        {
            match self.board.events.pop() {
                Some((at_ps, Event::Bank(channel, bank))) => {
                    let channel = &mut self.channels[usize::from(channel)];
                    channel.end_of(at_ps, usize::from(bank), &self.rules, &mut self.board);
                }
                Some((at_ps, Event::Done(index))) => {
                    let Held { place, done, queued, .. } = self.board.held.remove(index);
                    out.push(done);
                    if queued {
                        let channel = &mut self.channels[place.channel];
                        channel.left(at_ps, &self.rules, &mut self.board);
                    }
                }
                None => return,
            }
        }
    }

    /// Accesses taken and not yet done.
    pub fn in_flight(&self) -> usize {
        self.board.held.len()
    }

    /// Lines that wait to be written, or are.
    pub fn waiting_writes(&self) -> u64 {
        self.channels.iter().map(|channel| u64::from(channel.writes_held())).sum()
    }
}

#[cfg(test)]
pub(crate) mod tests;
