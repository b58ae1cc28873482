//! One unit of a store (a package, a die): its queues, its medium and its bus.
//!
//! An access takes two steps: a read the medium and then the bus, a write the bus and then the
//! medium. A page register lies between the two, so that the first step of one access overlaps the
//! second of the one before, in either direction; a change of direction waits until both are done.

use crate::link::Lane;
use std::collections::VecDeque;

/// What is the same for all units of a store.
#[derive(Clone, Debug)]
pub struct UnitTiming {
    /// Bytes that the bus moves for an access.
    pub page_bytes: u64,
    /// Bandwidth of the bus.
    pub bus_bytes_per_second: u64,
    /// Time of the medium for a read.
    pub read_ps: u64,
    /// Time of the medium for a write.
    pub write_ps: u64,
}

impl UnitTiming {
    /// Time of the idle bus for `bytes`, rounded up.
    pub fn bus_ps(&self, bytes: u64) -> u64 {
        Lane::new(self.bus_bytes_per_second).transfer(0, bytes).1
    }
}

/// When an access took its two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Whether the bus came first.
    pub write: bool,
    /// Start of the first step.
    pub first_ps: u64,
    /// End of the first step.
    pub first_end_ps: u64,
    /// Start of the second step.
    pub second_ps: u64,
}

/// An access in one of the two steps.
#[derive(Clone, Copy, Debug)]
struct Working {
    index: u32,
    turn: Turn,
    end_ps: u64,
}

/// The state of a unit.
#[derive(Clone, Debug)]
pub struct Unit {
    demand: VecDeque<(u32, bool)>,
    background: VecDeque<(u32, bool)>,
    bus: Lane,
    first: Option<Working>,
    second: Option<Working>,
}

impl Unit {
    /// A unit with nothing to do.
    pub fn new(bus_bytes_per_second: u64) -> Self {
        Unit {
            demand: VecDeque::new(),
            background: VecDeque::new(),
            bus: Lane::new(bus_bytes_per_second),
            first: None,
            second: None,
        }
    }

    /// Queues the access numbered `index`.
    #[inline]
    pub fn queue(&mut self, index: u32, write: bool, background: bool) {
        let queue = if background { &mut self.background } else { &mut self.demand };
        queue.push_back((index, write));
    }

    /// Ends the second step, if it ends at `now_ps`; the access that is done.
    #[inline]
    pub fn end_step(&mut self, now_ps: u64) -> Option<(u32, Turn)> {
        let done = self.second.take_if(|working| working.end_ps == now_ps)?;
        Some((done.index, done.turn))
    }

    /// The access in the second step.
    #[inline]
    pub fn second_step(&self) -> Option<(u32, Turn)> {
        self.second.map(|working| (working.index, working.turn))
    }

    /// Starts what can start at `now_ps`; the ends of the steps started.
    #[inline]
    pub fn start_steps(&mut self, now_ps: u64, timing: &UnitTiming) -> [Option<u64>; 2] {
        let second = self.start_second(now_ps, timing);
        let first = self.start_first(now_ps, timing);
        [second, first]
    }

    fn start_second(&mut self, now_ps: u64, timing: &UnitTiming) -> Option<u64> {
        if self.second.is_some() {
            return None;
        }
        let mut working = self.first.take_if(|working| working.end_ps <= now_ps)?;
        working.turn.second_ps = now_ps;
        working.end_ps = self.end_of(now_ps, timing, !working.turn.write, timing.write_ps);
        self.second = Some(working);
        Some(working.end_ps)
    }

    /// The next access is the oldest that somebody waits for, if there is one.
    fn start_first(&mut self, now_ps: u64, timing: &UnitTiming) -> Option<u64> {
        if self.first.is_some() {
            return None;
        }
        let queue = if self.demand.is_empty() { &mut self.background } else { &mut self.demand };
        let &(index, write) = queue.front()?;
        if self.second.is_some_and(|working| working.turn.write != write) {
            return None;
        }
        queue.pop_front();
        let end_ps = self.end_of(now_ps, timing, write, timing.read_ps);
        let turn = Turn { write, first_ps: now_ps, first_end_ps: end_ps, second_ps: end_ps };
        self.first = Some(Working { index, turn, end_ps });
        Some(end_ps)
    }

    /// The end of a step that starts at `now_ps`: on the bus, or in the medium.
    #[inline]
    fn end_of(&mut self, now_ps: u64, timing: &UnitTiming, on_bus: bool, medium_ps: u64) -> u64 {
        if on_bus { self.bus.transfer(now_ps, timing.page_bytes).1 } else { now_ps + medium_ps }
    }
}
