//! A backing store: parallel units of a medium behind a controller, and the link to it.
//!
//! [`Store`] is the device without its link, page by page; as [`StoreDevice`] it is behind a link and
//! takes requests of any size. What is modelled is said in `docs/models/store.md`.

mod spec;
mod unit;

pub use spec::{StorePowerSpec, StoreSpec};

use crate::activity::{Activity, Energy};
use crate::device::arrivals::Arrivals;
use crate::device::{Linked, PageAccess, PageDone, Pages};
use crate::link::LinkDescription;
use crate::medium::AnyMedium;
use crate::request::Tell;
use tierscope_kernel::{EventQueue, Slab, Stage, Timeline};
use unit::{Turn, Unit};

/// A store behind a link. A write is done when the medium has it; part of a page takes as long as the
/// page in the store.
pub type StoreDevice = Linked<Store>;

impl StoreDevice {
    /// A store with nothing to do, behind an empty link. The descriptions have been checked.
    pub fn new(spec: &StoreSpec, link: &dyn LinkDescription) -> Self {
        StoreDevice::with_medium(spec, &spec.medium(), link)
    }

    /// As [`StoreDevice::new`], with units of a copy of `medium` each, whatever the description
    /// says of its times.
    pub fn with_medium(spec: &StoreSpec, medium: &AnyMedium, link: &dyn LinkDescription) -> Self {
        let store = Store::new(spec, medium);
        Linked::behind(link, store, spec.page.bytes(), spec.queue_depth)
    }
}

/// A page that has been read into the controller, or written to the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorePageDone {
    /// The access's.
    pub token: u32,
    /// When it was done.
    pub at_ps: u64,
    /// Whether only the bytes wanted ahead have come so far: the page is reported again.
    pub ahead: bool,
    /// When the controller had passed it to its unit.
    queued_ps: u64,
    controller_ps: u64,
    turn: Turn,
}

impl PageDone for StorePageDone {
    #[inline]
    fn token(&self) -> u32 {
        self.token
    }

    #[inline]
    fn at_ps(&self) -> u64 {
        self.at_ps
    }

    #[inline]
    fn is_ahead(&self) -> bool {
        self.ahead
    }

    #[inline]
    fn write_stages(&self, stages: &mut Timeline) {
        let turn = &self.turn;
        let (first, second) = if turn.write {
            (Stage::Device, Stage::Medium)
        } else {
            (Stage::Medium, Stage::Device)
        };
        stages.push(Stage::Device, self.controller_ps);
        stages.push(Stage::StoreQueue, turn.first_ps - self.queued_ps);
        stages.push(first, turn.first_end_ps - turn.first_ps);
        stages.push(Stage::StoreQueue, turn.second_ps - turn.first_end_ps);
        stages.push(second, self.at_ps - turn.second_ps);
    }
}

/// An access that the store holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    access: PageAccess,
    unit: u32,
    queued_ps: u64,
}

/// A store without its link. Requests in it are bounded by whoever submits.
#[derive(Clone, Debug)]
pub struct Store {
    controller_ps: u64,
    pages: u64,
    /// What a unit takes, where that is known.
    power: Option<StorePowerSpec>,
    units: Vec<Unit>,
    held: Slab<Held>,
    /// On their way through the controller, which takes the same time for each.
    arriving: Arrivals,
    steps: EventQueue<Event>,
}

/// Something that happens in a unit.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The bytes wanted ahead, of the access with this number, have crossed the bus.
    Ahead(u32),
    /// A step of this unit ends.
    Step(u32),
}

impl Store {
    /// A store with nothing to do, whose units are each of a copy of `medium`. The description has
    /// been checked ([`check`](crate::device::DeviceDescription::check)).
    pub fn new(spec: &StoreSpec, medium: &AnyMedium) -> Self {
        let bus_bytes_per_second = spec.unit_bandwidth.bytes_per_second();
        let unit = || Unit::new(medium.clone(), bus_bytes_per_second);
        Store {
            controller_ps: spec.controller_latency.picoseconds(),
            pages: spec.pages(),
            power: spec.power.clone(),
            units: (0..spec.units).map(|_| unit()).collect(),
            held: Slab::new(),
            arriving: Arrivals::default(),
            steps: EventQueue::new(),
        }
    }

    /// Accesses taken and not yet done.
    pub fn in_flight(&self) -> usize {
        self.held.len()
    }

    fn arrive(&mut self, at_ps: u64, index: u32) {
        let Held { access, unit, .. } = self.held[index];
        let page = access.page / self.units.len() as u64;
        self.units[unit as usize].queue(index, page, access.write, access.background);
        self.start(at_ps, unit);
    }

    fn step(&mut self, out: &mut Vec<StorePageDone>) {
        match self.steps.pop() {
            Some((at_ps, Event::Step(unit))) => {
                if let Some((index, turn)) = self.units[unit as usize].end_step(at_ps) {
                    let held = self.held.remove(index);
                    out.push(self.done(&held, at_ps, turn, false));
                }
                self.start(at_ps, unit);
            }
            Some((at_ps, Event::Ahead(index))) => {
                let held = self.held[index];
                if let Some((_, turn)) = self.units[held.unit as usize].second_step() {
                    out.push(self.done(&held, at_ps, turn, true));
                }
            }
            None => (),
        }
    }

    #[inline]
    fn done(&self, held: &Held, at_ps: u64, turn: Turn, ahead: bool) -> StorePageDone {
        let Held { access: PageAccess { token, .. }, queued_ps, .. } = *held;
        StorePageDone { token, at_ps, ahead, queued_ps, controller_ps: self.controller_ps, turn }
    }

    /// Starts what the unit can start at `now_ps`.
    #[inline]
    fn start(&mut self, now_ps: u64, unit: u32) {
        let [second, first] = self.units[unit as usize].start_steps(now_ps);
        if let Some(end_ps) = second {
            self.announce_ahead(now_ps, unit, end_ps);
            self.steps.push(end_ps, 0, Event::Step(unit));
        }
        if let Some(end_ps) = first {
            self.steps.push(end_ps, 0, Event::Step(unit));
        }
    }

    /// A second step has started: if it is a read of which a part is wanted first, that part
    /// crosses the bus first.
    #[inline]
    fn announce_ahead(&mut self, now_ps: u64, unit: u32, end_ps: u64) {
        let Some((index, _)) = self.units[unit as usize].second_step() else { return };
        let PageAccess { ahead_bytes, write: false, .. } = self.held[index].access else { return };
        if ahead_bytes > 0 {
            let bus_ps = self.units[unit as usize].bus_ps(u64::from(ahead_bytes));
            self.steps.push((now_ps + bus_ps).min(end_ps), 0, Event::Ahead(index));
        }
    }
}

impl Pages for Store {
    type Done = StorePageDone;

    fn depths(&self, tell: &mut Tell<'_>) {
        tell("store.pages", self.held.len());
    }

    fn units(&self) -> u64 {
        self.units.len() as u64
    }

    /// A write is done when the medium has it.
    fn keeps_answered(&self) -> bool {
        true
    }

    #[inline]
    fn pages(&self) -> u64 {
        self.pages
    }

    #[inline]
    fn submit(&mut self, now_ps: u64, access: PageAccess) {
        let (page, pages) = (access.page, self.pages);
        assert!(page < pages, "page {page} of a store of {pages}");
        let queued_ps = now_ps + self.controller_ps;
        let unit = (access.page % self.units.len() as u64) as u32;
        let index = self.held.insert(Held { access, unit, queued_ps });
        self.arriving.push(queued_ps, index);
    }

    #[inline]
    fn next_event_ps(&self) -> Option<u64> {
        self.arriving.next_ps(self.steps.peek_ps())
    }

    fn activity(&self, now_ps: u64) -> Activity {
        let Some(power) = &self.power else {
            let energy = Energy::default().without("store", "no source gives what its units take");
            return Activity { energy, ..Activity::default() };
        };
        let worked_ps = self.units.iter().map(Unit::medium_ps);
        let worked_ps = worked_ps.fold([0; 2], |sum, of| [sum[0] + of[0], sum[1] + of[1]]);
        let parts = power.energies_j(worked_ps, self.units.len() as u64, now_ps);
        Activity { energy: Energy::of_parts("store", &parts), ..Activity::default() }
    }

    fn advance(&mut self, now_ps: u64, out: &mut Vec<StorePageDone>) {
        while let Some(at_ps) = self.next_event_ps()
            && at_ps <= now_ps
        {
            match self.arriving.take(at_ps) {
                Some(index) => self.arrive(at_ps, index),
                None => self.step(out),
            }
        }
    }
}

#[cfg(test)]
mod tests;
