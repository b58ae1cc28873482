//! `hybrid`: hardware manages DRAM as a cache of the store (\[HYB15\] §2.2).
//!
//! The [`Controller`] decides; [`Hybrid`] executes its actions on a DRAM and a store. What is
//! modelled, and how far it is checked, is said in `docs/models/hybrid.md`.

mod action;
mod controller;
mod fill;
mod flush;
mod miss;
mod miss_predictor;
pub(super) mod page_map;
pub(super) mod port;
mod power;
mod prefetch;
mod sector;
mod spec;
mod tad;
mod tag_cache;
mod versions;
mod warm;
mod with_data;
mod write_back;

#[cfg(test)]
pub(super) mod tests;

pub use action::{Action, Critical, Place, Token};
pub use controller::Controller;
pub(super) use controller::append_tail;
pub use fill::{FillPolicy, FillReport};
pub use miss_predictor::{MissPredictorKind, MissPredictorReport};
pub(super) use port::Port;
pub use prefetch::PrefetcherKind;
pub use spec::{DramCacheSpec, HybridSpec, TagCacheSpec, TagStore};
pub use tad::TadLayout;
pub use tag_cache::TagCacheReport;

use super::{Durable, Organization, OrganizationReport, PagesMoved, bus};
use crate::activity::Activity;
use crate::power::{PowerFailure, Saving, Weaknesses};
use crate::request::{
    Ahead, Completion, Device, Full, LineRequest, LineResponse, Manner, PageRequest, Request,
    Response, Tell, Tie, Traffic, earlier,
};
use power::Power;
use std::any::Any;
use tierscope_kernel::{Stage, Timeline};
use versions::Versions;

/// A hybrid of a DRAM and a store, driven by simulated time.
#[derive(Debug)]
pub struct Hybrid<D, S> {
    controller: Controller,
    dram: Port<D>,
    store: Port<S>,
    memory_bytes: u64,
    traffic: Traffic,
    /// Where tags lie in front of their lines.
    tads: Option<TadLayout>,
    /// What the store shares with the DRAM.
    tie: Option<Tie>,
    /// Where data are checked.
    versions: Option<Box<Versions>>,
    /// Whether DRAM saves itself when power fails.
    saving: Saving,
    /// Where a failure of power is to come.
    power: Option<Box<Power>>,
    actions: Vec<Action>,
    completions: Vec<Completion>,
}

impl<D: Device, S: Device> Hybrid<D, S> {
    /// A hybrid as `spec` says, on a `dram` of the cache's capacity, and of its tags where they lie
    /// there, and a `store` of `store_bytes`
    /// that includes its link. On-chip caches ask for lines of `line_bytes`. With `check_data`,
    /// the version of every line is carried and checked.
    pub fn new(
        spec: &HybridSpec,
        store_bytes: u64,
        line_bytes: u32,
        dram: D,
        store: S,
        check_data: bool,
    ) -> Self {
        let controller = Controller::new(spec, store_bytes, line_bytes);
        let tokens = controller.tokens();
        let versions = || Box::new(Versions::new(line_bytes, controller.page_bytes(), tokens));
        Hybrid {
            versions: check_data.then(versions),
            tie: store.tie(),
            dram: Port::new(dram, tokens, Stage::DramQueue),
            store: Port::new(store, tokens, Stage::StoreQueue),
            memory_bytes: store_bytes,
            tads: None,
            traffic: Traffic::default(),
            saving: Saving::default(),
            power: None,
            actions: Vec::new(),
            completions: Vec::new(),
            controller,
        }
    }

    /// The same, whose tags lie in front of their lines in DRAM, where they do.
    pub fn with_tads(mut self, tads: Option<TadLayout>) -> Self {
        self.tads = tads;
        self
    }

    /// The controller.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// The DRAM.
    pub fn dram(&self) -> &D {
        self.dram.device()
    }

    /// The store.
    pub fn store(&self) -> &S {
        self.store.device()
    }

    /// The store is asked, in functional warming, for what the controller would have asked it for.
    #[inline]
    fn warm_store(&mut self, now_ps: u64) {
        for request in self.controller.warming.asked.drain(..) {
            self.store.device_mut().warm(now_ps, request, Manner::default());
        }
    }

    /// As [`Organization::flush`], for the pages that hold `bytes` bytes from `address` on; with
    /// `invalidate` they leave DRAM, too, unless they are in use. To be repeated until it says
    /// true.
    pub fn flush_range(&mut self, now_ps: u64, address: u64, bytes: u64, invalidate: bool) -> bool {
        let done =
            self.controller.flush_range(now_ps, address, bytes, invalidate, &mut self.actions);
        self.execute(now_ps, &mut Vec::new());
        done
    }

    /// Does what happens at `now_ps`, the time of the next event.
    #[inline]
    fn step(&mut self, now_ps: u64, out: &mut Vec<Response>) {
        if self.dram.next_event_ps().is_some_and(|at_ps| at_ps <= now_ps) {
            self.dram.advance(now_ps, &mut self.completions);
            self.complete(now_ps, out);
            self.dram.retry(now_ps);
        }
        if self.store.next_event_ps().is_some_and(|at_ps| at_ps <= now_ps) {
            self.with_bus(now_ps, |store, completions| store.advance(now_ps, completions));
            self.complete(now_ps, out);
            self.with_bus(now_ps, |store, _| store.retry(now_ps));
        }
        if self.controller.next_event_ps().is_some_and(|at_ps| at_ps <= now_ps) {
            self.controller.advance(now_ps, &mut self.actions);
            self.execute(now_ps, out);
        }
    }

    /// Lets the store do something at `now_ps`, with the bus that it may share with the DRAM.
    #[inline]
    fn with_bus(&mut self, now_ps: u64, act: impl FnOnce(&mut Port<S>, &mut Vec<Completion>)) {
        let Hybrid { dram, store, tie, completions, .. } = self;
        bus::pass_to_store(now_ps, *tie, dram.device_mut(), store.device_mut());
        act(store, completions);
        bus::pass_to_dram(now_ps, *tie, dram.device_mut(), store.device_mut());
    }

    /// Tells the controller what completed, and does what it says.
    #[inline]
    fn complete(&mut self, now_ps: u64, out: &mut Vec<Response>) {
        let mut completions = std::mem::take(&mut self.completions);
        for done in &completions {
            debug_assert!(done.at_ps == now_ps, "{done:?} was not announced for {now_ps} ps");
            let token = Token::from_number(done.id);
            if let Some(versions) = &mut self.versions {
                versions.complete(token);
            }
            if let Some((slot, answer)) = self.controller.complete_line(now_ps, token, &done.stages)
            {
                self.respond(slot, &answer, out);
                continue;
            }
            self.controller.complete(now_ps, token, &done.stages, &mut self.actions);
            self.execute(now_ps, out);
        }
        completions.clear();
        self.completions = completions;
    }

    #[inline]
    fn execute(&mut self, now_ps: u64, out: &mut Vec<Response>) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in &actions {
            self.execute_one(now_ps, action, out);
        }
        actions.clear();
        self.actions = actions;
        debug_assert!(self.controller.waits_with_reason(), "a miss waits for room that there is");
    }

    #[inline]
    fn execute_one(&mut self, now_ps: u64, action: &Action, out: &mut Vec<Response>) {
        if let Some(versions) = &mut self.versions {
            versions.give_out(action);
        }
        match *action {
            Action::Respond { request, ref response } => self.respond(request, response, out),
            Action::Copy { .. } => {}
            Action::ReadDram { token, address, bytes, background, .. } => {
                let (address, bytes) = self.placed(address, bytes);
                self.traffic.dram_read_bytes += u64::from(bytes);
                self.dram.issue(now_ps, request(token, address, bytes, false, background), None);
            }
            Action::WriteDram { token, address, bytes, background, .. } => {
                let (address, bytes) = self.placed(address, bytes);
                self.traffic.dram_written_bytes += u64::from(bytes);
                self.dram.issue(now_ps, request(token, address, bytes, true, background), None);
            }
            Action::ReadStore { token, address, bytes, critical, background, .. } => {
                self.traffic.store_read_bytes += u64::from(bytes);
                let line_bytes = self.controller.line_bytes();
                let ahead = critical.map(|Critical { token, offset }| Ahead {
                    id: token.number(),
                    offset,
                    bytes: line_bytes,
                });
                let read = request(token, address, bytes, false, background);
                self.with_bus(now_ps, |store, _| store.issue(now_ps, read, ahead));
            }
            Action::WriteStore { token, address, bytes, .. } => {
                self.traffic.store_written_bytes += u64::from(bytes);
                let write = request(token, address, bytes, true, true);
                self.with_bus(now_ps, |store, _| store.issue(now_ps, write, None));
            }
        }
    }

    /// What DRAM is asked for to have so many bytes of the cache: first byte and bytes.
    #[inline]
    fn placed(&self, address: u64, bytes: u32) -> (u64, u32) {
        self.tads.map_or((address, bytes), |tads| tads.bursts(address))
    }

    #[inline]
    fn respond(&mut self, request: u32, response: &LineResponse, out: &mut Vec<Response>) {
        let version =
            self.versions.as_mut().map_or(0, |versions| versions.requests.answer(request));
        self.note_answered(request);
        out.push(Response::Line(LineResponse { version, ..*response }));
    }
}

#[inline]
fn request(token: Token, address: u64, bytes: u32, write: bool, background: bool) -> Request {
    Request { id: token.number(), address, bytes, write, background }
}

impl<D: Device + Send + 'static, S: Device + Send + 'static> Organization for Hybrid<D, S> {
    fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    #[inline]
    fn submit(&mut self, now_ps: u64, request: LineRequest) -> Result<(), Full> {
        debug_assert!(request.address < self.memory_bytes, "{request:?} lies beyond memory");
        let slot = self.controller.submit(now_ps, request)?;
        if let Some(versions) = &mut self.versions {
            versions.requests.submit(slot, &request);
        }
        Ok(())
    }

    /// Never takes one: the operating system moves no pages here.
    fn submit_page(&mut self, _now_ps: u64, _request: PageRequest) -> Result<(), Full> {
        Err(Full)
    }

    #[inline]
    fn next_event_ps(&self) -> Option<u64> {
        let devices_ps = earlier(self.dram.next_event_ps(), self.store.next_event_ps());
        earlier(self.controller.next_event_ps(), devices_ps)
    }

    fn advance(&mut self, now_ps: u64, out: &mut Vec<Response>) {
        while let Some(at_ps) = self.next_event_ps().filter(|at_ps| *at_ps <= now_ps) {
            self.step(at_ps, out);
        }
    }

    fn depths(&self, tell: &mut Tell<'_>) {
        self.controller.depths(tell);
        self.dram.device().depths(tell);
        self.store.device().depths(tell);
    }

    fn in_flight(&self) -> usize {
        self.controller.in_flight()
    }

    /// Which prefetches come in time, or are dropped, depends on when misses come.
    fn can_warm(&self) -> bool {
        !self.controller.prefetches()
    }

    fn takes_clean(&self) -> bool {
        self.controller.fill_policy == FillPolicy::Victims
    }

    fn put_clean(&mut self, now_ps: u64, address: u64, version: u64) {
        let place = self.controller.offer_clean(now_ps, address, &mut self.actions);
        if let (Some(place), Some(versions)) = (place, &mut self.versions) {
            versions.place(place, version);
        }
        self.execute(now_ps, &mut Vec::new());
    }

    fn warm_clean(&mut self, now_ps: u64, address: u64) {
        let mut moved = PagesMoved::default();
        let came = self.controller.warm_clean(address, &mut moved);
        self.warm_store(now_ps);
        let probes = self.takes_clean() && self.controller.tags_with_data;
        let sector = u64::from(self.placed(0, self.controller.sector_bytes() as u32).1);
        self.traffic.move_dram(u64::from(probes) * sector, false);
        self.traffic.move_dram(u64::from(came) * sector, true);
        self.traffic.move_store(moved.written * self.controller.sector_bytes(), true);
        self.traffic.move_dram(moved.written * sector, false);
    }

    #[inline]
    fn warm(&mut self, now_ps: u64, core: u16, address: u64, write: bool) -> PagesMoved {
        debug_assert!(self.versions.is_none(), "warming moves no data");
        let mut moved = PagesMoved::default();
        let tags_before = self.controller.tag_bytes_moved();
        let wasted_before = self.controller.wasted_bytes();
        let passed_before = self.controller.fill_report;
        let misses_before = self.controller.report.misses;
        let asked = self.controller.warm(now_ps, core, (address, write), &mut moved);
        self.warm_store(now_ps);
        // Each part of the cache takes as many bytes of DRAM as any other of its size.
        let in_dram = |bytes: u32| u64::from(self.placed(0, bytes).1);
        let (line, sector) =
            (in_dram(self.controller.line_bytes()), in_dram(self.controller.sector_bytes() as u32));
        let past = self.controller.fill_report.reads_past_cache - passed_before.reads_past_cache;
        let around =
            self.controller.fill_report.writes_around_cache - passed_before.writes_around_cache;
        let bytes = self.controller.sector_bytes();
        self.traffic.move_store(past * bytes, false);
        self.traffic.move_store(around * bytes, true);
        // Tags that come with the data are a read. A miss is answered with what is fetched, or merged with it.
        let with_data = self.controller.tags_with_data;
        if with_data {
            self.traffic.move_dram(line, false);
        }
        if self.controller.report.misses == misses_before && (write || !with_data) {
            self.traffic.move_dram(line, write);
        }
        self.traffic.move_store(self.controller.wasted_bytes() - wasted_before, false);
        let tags = self.controller.tag_bytes_moved();
        if tags != tags_before {
            self.traffic.move_dram(tags[0] - tags_before[0], false);
            self.traffic.move_dram(tags[1] - tags_before[1], true);
        }
        if moved != PagesMoved::default() {
            self.traffic.move_store(moved.read * bytes, false);
            self.traffic.move_dram(moved.read * sector, true);
            self.traffic.move_store(moved.written * bytes, true);
            self.traffic.move_dram(moved.written * sector, false);
        }
        asked
    }

    fn take_over_warmed(&mut self, warmed: &mut dyn Organization) -> bool {
        let warmed = warmed.as_warmed().and_then(|it| it.downcast_mut::<Self>());
        let Some(warmed) = warmed else { return false };
        self.controller = warmed.controller.fork();
        self.traffic = warmed.traffic;
        self.store.device_mut().take_over_warmed(warmed.store.device_mut());
        true
    }

    fn as_warmed(&mut self) -> Option<&mut dyn Any> {
        Some(self)
    }

    fn will_need(&mut self, now_ps: u64, address: u64, bytes: u64) -> bool {
        let kept = self.controller.will_need(now_ps, address, bytes, &mut self.actions);
        self.execute(now_ps, &mut Vec::new());
        kept
    }

    fn takes_hints(&self) -> bool {
        true
    }

    fn hold_ahead(&mut self, holds: bool) {
        self.controller.prefetcher.hold(holds);
    }

    fn flush(&mut self, now_ps: u64) -> bool {
        let done = self.controller.flush(now_ps, &mut self.actions);
        let told = self.note_flush(done);
        self.execute(now_ps, &mut Vec::new());
        told
    }

    fn flush_stages(&self) -> Timeline {
        self.controller.flush_stages()
    }

    fn flush_writes(&self) -> u64 {
        self.controller.flush_writes(self.store.device().units())
    }

    fn warm_flush(&mut self, now_ps: u64) -> PagesMoved {
        let tags_before = self.controller.tag_bytes_moved();
        let written = self.controller.warm_flush();
        self.warm_store(now_ps);
        let bytes = self.controller.sector_bytes();
        let in_dram = u64::from(self.placed(0, bytes as u32).1);
        self.traffic.move_store(written * bytes, true);
        self.traffic.move_dram(written * in_dram, false);
        let tags = self.controller.tag_bytes_moved();
        self.traffic.move_dram(tags[0] - tags_before[0], false);
        self.traffic.move_dram(tags[1] - tags_before[1], true);
        PagesMoved { read: 0, written }
    }

    /// A cache that saves itself needs no flush.
    fn durable(&self) -> Durable {
        match self.saving.holds(Weaknesses::default()) {
            true => Durable::Answered,
            false if self.controller.flush_at_sync => Durable::Flushed,
            false => Durable::Never,
        }
    }

    fn keeps(&self) -> bool {
        self.store.device().keeps_answered()
    }

    fn power(&self) -> Option<&dyn PowerFailure> {
        Some(self)
    }

    fn power_mut(&mut self) -> Option<&mut dyn PowerFailure> {
        Some(self)
    }

    fn report(&self) -> OrganizationReport {
        OrganizationReport {
            traffic: self.traffic,
            stale_reads: self.versions.as_ref().map_or(0, |versions| versions.requests.stale_reads),
            ..self.controller.report()
        }
    }

    fn activity(&self, now_ps: u64) -> Activity {
        self.dram().activity(now_ps).with_store(self.store().activity(now_ps))
    }

    fn fork(&mut self) -> Box<dyn Organization> {
        Box::new(Hybrid {
            controller: self.controller.fork(),
            dram: self.dram.fork(),
            store: self.store.fork(),
            versions: self.versions.as_mut().map(|versions| Box::new(versions.fork())),
            saving: self.saving.clone(),
            power: self.power.as_mut().map(|power| Box::new(power.fork())),
            actions: self.actions.clone(),
            completions: self.completions.clone(),
            ..*self
        })
    }
}
