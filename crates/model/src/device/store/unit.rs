//! One unit of a store (a package, a die): its queues, its medium and its bus.
//!
//! An access takes two steps: a read the medium and then the bus, a write the bus and then the
//! medium. A page register lies between the two, so that the first step of one access overlaps the
//! second of the one before, in either direction; a change of direction waits until both are done.

use crate::link::Lane;
use crate::medium::{AnyMedium, Medium, Operation};
use std::collections::VecDeque;

/// An access that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Its number in the store.
    index: u32,
    /// Number of the page in the unit.
    page: u64,
    write: bool,
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
    page: u64,
    turn: Turn,
    end_ps: u64,
}

/// The state of a unit.
#[derive(Clone, Debug)]
pub struct Unit {
    medium: AnyMedium,
    demand: VecDeque<Waiting>,
    background: VecDeque<Waiting>,
    bus: Lane,
    first: Option<Working>,
    second: Option<Working>,
    /// For how long the medium has read, and for how long it has written, in picoseconds.
    medium_ps: [u64; 2],
}

impl Unit {
    /// A unit with nothing to do.
    pub fn new(medium: AnyMedium, bus_bytes_per_second: u64) -> Self {
        Unit {
            medium,
            demand: VecDeque::new(),
            background: VecDeque::new(),
            bus: Lane::new(bus_bytes_per_second),
            first: None,
            second: None,
            medium_ps: [0; 2],
        }
    }

    /// For how long the medium has read, and for how long it has written, what is under way included.
    pub fn medium_ps(&self) -> [u64; 2] {
        self.medium_ps
    }

    /// The medium begins at `now_ps`; when it ends.
    #[inline]
    fn start_medium(&mut self, now_ps: u64, operation: Operation, page: u64) -> u64 {
        let end_ps = self.medium.start(now_ps, operation, page);
        self.medium_ps[usize::from(operation == Operation::Write)] += end_ps - now_ps;
        end_ps
    }

    /// Queues the access numbered `index`, to the unit's page of this number.
    #[inline]
    pub fn queue(&mut self, index: u32, page: u64, write: bool, background: bool) {
        let queue = if background { &mut self.background } else { &mut self.demand };
        queue.push_back(Waiting { index, page, write });
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

    /// Time of the idle bus for `bytes`, rounded up.
    #[inline]
    pub fn bus_ps(&self, bytes: u64) -> u64 {
        self.bus.idle_ps(bytes)
    }

    /// Starts what can start at `now_ps`; the ends of the steps started.
    #[inline]
    pub fn start_steps(&mut self, now_ps: u64) -> [Option<u64>; 2] {
        let second = self.start_second(now_ps);
        let first = self.start_first(now_ps);
        [second, first]
    }

    fn start_second(&mut self, now_ps: u64) -> Option<u64> {
        if self.second.is_some() {
            return None;
        }
        let mut working = self.first.take_if(|working| working.end_ps <= now_ps)?;
        working.turn.second_ps = now_ps;
        working.end_ps = if working.turn.write {
            self.start_medium(now_ps, Operation::Write, working.page)
        } else {
            self.cross_bus(now_ps)
        };
        self.second = Some(working);
        Some(working.end_ps)
    }

    /// The next access is the oldest that somebody waits for, if there is one.
    fn start_first(&mut self, now_ps: u64) -> Option<u64> {
        if self.first.is_some() {
            return None;
        }
        let queue = if self.demand.is_empty() { &mut self.background } else { &mut self.demand };
        let &Waiting { index, page, write } = queue.front()?;
        if self.second.is_some_and(|working| working.turn.write != write) {
            return None;
        }
        queue.pop_front();
        let end_ps = if write {
            self.cross_bus(now_ps)
        } else {
            self.start_medium(now_ps, Operation::Read, page)
        };
        let turn = Turn { write, first_ps: now_ps, first_end_ps: end_ps, second_ps: end_ps };
        self.first = Some(Working { index, page, turn, end_ps });
        Some(end_ps)
    }

    /// When a page that starts at `now_ps` has crossed the bus.
    #[inline]
    fn cross_bus(&mut self, now_ps: u64) -> u64 {
        self.bus.transfer(now_ps, self.medium.page_bytes()).1
    }
}
