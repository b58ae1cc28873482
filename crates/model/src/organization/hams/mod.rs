//! `hams`: hardware joins an NVDIMM and a drive into one large persistent memory, without the operating
//! system (\[HAMS21\]).
//!
//! The [`Manager`] decides; [`Hams`] executes its actions on an NVDIMM and a drive. What is modelled, and
//! how far it is checked, is said in `docs/models/hams.md`.

mod action;
mod command;
mod counts;
mod layout;
mod manager;
mod miss;
mod power;
mod queues;
mod spec;
mod versions;
mod warm;

#[cfg(test)]
mod tests;

pub use action::Action;
pub use counts::{HamsCounts, HamsReport};
pub use manager::Manager;
pub use queues::{Posted, Queues, Submission};
pub use spec::{Coupling, HamsSpec, Mode};

use super::hybrid::Port;
use super::{Durable, Organization, OrganizationReport, PagesMoved, bus};
use crate::activity::Activity;
use crate::power::PowerFailure;
use crate::request::{
    Completion, Device, Full, LineRequest, LineResponse, Manner, PageRequest, Request, Response,
    Tell, Tie, earlier,
};
use layout::Layout;
use power::Nvdimm;
use std::collections::VecDeque;
use tierscope_kernel::Stage;

/// Set in the id of a page of a command that the drive reports by itself.
const PAGE: u32 = 1 << 31;
/// Set in the id of a fetch of a command, and of its list of pages.
const FETCH: u32 = 1 << 30;
const LIST: u32 = 1 << 29;

/// HAMS, driven by simulated time.
#[derive(Debug)]
pub struct Hams<D, S> {
    manager: Manager,
    memory: Port<D>,
    drive: S,
    /// Commands that wait for room in the drive.
    commands: VecDeque<Action>,
    memory_bytes: u64,
    /// What the drive shares with the NVDIMM.
    tie: Option<Tie>,
    /// What the NVDIMM does when power fails.
    nvdimm: Box<Nvdimm>,
    actions: Vec<Action>,
    completions: Vec<Completion>,
}

impl<D: Device, S: Device> Hams<D, S> {
    /// HAMS as `spec` says, on an NVDIMM `memory` of its capacity and a `drive` that includes its link.
    /// `sizes` are those of the drive, of its page, and of a line of the on-chip caches, in bytes. With
    /// `check_data`, the version of every line is carried and checked.
    pub fn new(
        spec: &HamsSpec,
        (drive_bytes, drive_page_bytes, line_bytes): (u64, u64, u64),
        memory: D,
        drive: S,
        check_data: bool,
    ) -> Self {
        let shape = spec.shape(line_bytes, drive_page_bytes);
        let layout = spec.layout(drive_bytes, drive_page_bytes);
        let mut manager = Manager::new(shape, layout, check_data);
        manager.fetching = drive.fetching();
        Hams {
            memory: Port::new(memory, manager.tokens(), Stage::DramQueue),
            tie: drive.tie(),
            drive,
            commands: VecDeque::new(),
            nvdimm: Box::default(),
            memory_bytes: drive_bytes,
            actions: Vec::new(),
            completions: Vec::new(),
            manager,
        }
    }

    /// The address manager.
    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    /// The NVDIMM.
    pub fn memory(&self) -> &D {
        self.memory.device()
    }

    /// The drive.
    pub fn drive(&self) -> &S {
        &self.drive
    }

    /// Does what happens at `now_ps`, the time of the next event.
    #[inline]
    fn step(&mut self, now_ps: u64, out: &mut Vec<Response>) {
        let due = |at_ps: Option<u64>| at_ps.is_some_and(|at_ps| at_ps <= now_ps);
        if due(self.memory.next_event_ps()) {
            let mut done = std::mem::take(&mut self.completions);
            self.memory.advance(now_ps, &mut done);
            for one in &done {
                self.manager.memory_done(now_ps, one.id, &one.stages, &mut self.actions);
                self.execute(now_ps, out);
            }
            done.clear();
            self.completions = done;
            self.memory.retry(now_ps);
        }
        if due(self.drive.next_event_ps()) {
            let mut done = std::mem::take(&mut self.completions);
            self.with_bus(now_ps, |drive| drive.advance(now_ps, &mut done));
            for one in &done {
                self.drive_done(now_ps, one);
                self.execute(now_ps, out);
            }
            done.clear();
            self.completions = done;
            self.give_commands(now_ps);
        }
        if due(self.manager.next_event_ps()) {
            self.manager.advance(now_ps, &mut self.actions);
            self.execute(now_ps, out);
        }
    }

    /// The drive is asked for a page in functional warming, as the manager's command would.
    fn warm_drive(&mut self, now_ps: u64, page: u64, write: bool) {
        let bytes = self.manager.layout.page_bytes;
        let force_unit_access = self.manager.is_persistent();
        let manner = Manner { force_unit_access, ..Manner::default() };
        self.drive.warm(now_ps, Request::of(page * bytes, bytes as u32, write), manner);
    }

    fn drive_done(&mut self, now_ps: u64, done: &Completion) {
        let Hams { manager, actions, .. } = self;
        if done.id & PAGE != 0 {
            let (command, part) = manager.page_of(done.id & !PAGE);
            return manager.page_came(command, part, actions);
        }
        let command = done.id & !(FETCH | LIST);
        if done.id & FETCH == 0 {
            return manager.command_done(now_ps, command, &done.stages, actions);
        }
        manager.drive_fetches(now_ps, command, done.id & LIST != 0, &done.stages, actions);
    }

    /// Lets the drive do something at `now_ps`, with the bus that it may share with the NVDIMM.
    #[inline]
    fn with_bus<T>(&mut self, now_ps: u64, act: impl FnOnce(&mut S) -> T) -> T {
        let Hams { memory, drive, tie, .. } = self;
        bus::pass_to_store(now_ps, *tie, memory.device_mut(), drive);
        let done = act(drive);
        bus::pass_to_dram(now_ps, *tie, memory.device_mut(), drive);
        done
    }

    /// Hands as many commands to the drive as it takes.
    fn give_commands(&mut self, now_ps: u64) {
        while let Some(&Action::Command { command, address, bytes, write, manner }) =
            self.commands.front()
        {
            let request = Request { id: command, address, bytes, write, background: write };
            let fetches = Some([command | FETCH, command | FETCH | LIST]);
            let manner = Manner { fetches, ..manner.with_mark(PAGE) };
            if self.with_bus(now_ps, |drive| drive.submit_as(now_ps, request, manner)).is_err() {
                return;
            }
            self.commands.pop_front();
            self.manager.command_taken(now_ps, command);
        }
    }

    #[inline]
    fn execute(&mut self, now_ps: u64, out: &mut Vec<Response>) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in &actions {
            match *action {
                Action::Memory { token: id, address, bytes, write, background } => {
                    let request = Request { id, address, bytes, write, background };
                    self.memory.issue(now_ps, request, None);
                }
                Action::Command { .. } => {
                    self.commands.push_back(*action);
                    self.give_commands(now_ps);
                }
                Action::Fetched { command, list } => {
                    let fetch = command | FETCH | if list { LIST } else { 0 };
                    self.with_bus(now_ps, |drive| drive.memory_read(now_ps, fetch));
                }
                Action::Respond { request, ref response } => {
                    let versions = self.manager.versions.as_mut();
                    let version = versions.map_or(0, |versions| versions.requests.answer(request));
                    out.push(Response::Line(LineResponse { version, ..*response }));
                }
            }
        }
        actions.clear();
        self.actions = actions;
    }
}

impl<D: Device + Send + 'static, S: Device + Send + 'static> Organization for Hams<D, S> {
    fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    #[inline]
    fn submit(&mut self, now_ps: u64, request: LineRequest) -> Result<(), Full> {
        debug_assert!(request.address < self.memory_bytes, "{request:?} lies beyond memory");
        self.manager.submit(now_ps, request)
    }

    /// Never takes one: the operating system moves no pages here.
    fn submit_page(&mut self, _now_ps: u64, _request: PageRequest) -> Result<(), Full> {
        Err(Full)
    }

    #[inline]
    fn next_event_ps(&self) -> Option<u64> {
        let devices_ps = earlier(self.memory.next_event_ps(), self.drive.next_event_ps());
        earlier(self.manager.next_event_ps(), devices_ps)
    }

    fn advance(&mut self, now_ps: u64, out: &mut Vec<Response>) {
        while let Some(at_ps) = self.next_event_ps().filter(|at_ps| *at_ps <= now_ps) {
            self.step(at_ps, out);
        }
    }

    fn depths(&self, tell: &mut Tell<'_>) {
        self.manager.depths(tell);
        self.memory.device().depths(tell);
        self.drive.depths(tell);
    }

    fn in_flight(&self) -> usize {
        self.manager.in_flight()
    }

    #[inline]
    fn warm(&mut self, now_ps: u64, _core: u16, address: u64, write: bool) -> PagesMoved {
        let Some(exchange) = self.manager.warm(address, write) else {
            return PagesMoved::default();
        };
        self.warm_drive(now_ps, exchange.read, false);
        if let Some(page) = exchange.written {
            self.warm_drive(now_ps, page, true);
        }
        exchange.moved()
    }

    fn flush(&mut self, now_ps: u64) -> bool {
        let done = self.manager.flush(now_ps, &mut self.actions);
        self.execute(now_ps, &mut Vec::new());
        done
    }

    fn durable(&self) -> Durable {
        if self.saves() { Durable::Answered } else { Durable::Never }
    }

    /// In persist mode every write to the drive is forced.
    fn keeps(&self) -> bool {
        self.manager.is_persistent() || self.drive.keeps_answered()
    }

    fn power(&self) -> Option<&dyn PowerFailure> {
        Some(self)
    }

    fn power_mut(&mut self) -> Option<&mut dyn PowerFailure> {
        Some(self)
    }

    fn report(&self) -> OrganizationReport {
        self.manager.report()
    }

    fn activity(&self, now_ps: u64) -> Activity {
        self.memory().activity(now_ps).with_store(self.drive.activity(now_ps))
    }

    fn fork(&mut self) -> Box<dyn Organization> {
        Box::new(Hams {
            manager: self.manager.fork(),
            memory: self.memory.fork(),
            drive: self.drive.fork(),
            commands: self.commands.clone(),
            nvdimm: self.nvdimm.clone(),
            actions: self.actions.clone(),
            completions: self.completions.clone(),
            ..*self
        })
    }
}
