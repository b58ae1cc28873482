//! `tiered`: main memory is the store behind its link, which the processor reads and writes line by line:
//! a byte-addressable drive (FlatFlash), or one behind CXL.mem. Pages that are accessed often may be
//! promoted to DRAM, and mapped there; DRAM is a tier of memory, not a cache of it.
//!
//! Where a read of the store takes long, whoever asked may be told so instead (`long_reads.rs`).
//!
//! [`Tiered`] carries lines to where their page is; what promotes pages is in `promotion.rs`, what moves
//! them in `moves.rs`. What is modelled, and how far it is checked, is said in `docs/models/tiered.md`.

mod data;
mod long_reads;
mod moves;
mod near;
mod power;
mod promotion;
mod spec;

#[cfg(test)]
pub(super) mod tests;

pub use spec::{LongReadsSpec, PromotionSpec, TieredSpec};

use super::hybrid::port::Port;
use super::{Durable, Organization, OrganizationReport, PagesMoved, bus};
use crate::activity::Activity;
use crate::organization::hybrid::append_tail;
use crate::power::PowerFailure;
use crate::request::{
    Completion, Device, Full, LineRequest, LineResponse, PageRequest, Request, Response, Tell, Tie,
    Traffic, earlier,
};
use data::Data;
use long_reads::LongReads;
use near::{NONE, Near, Route};
use power::Power;
use tierscope_kernel::{EventQueue, Slab, Stage, Timeline};

/// A line that the host has under way.
#[derive(Clone, Copy, Debug)]
struct Held {
    request: LineRequest,
    /// The oldest version that a read may return, and the one that it has found.
    oldest: u64,
    version: u64,
    /// Whether it goes to the far memory, and its place in the order there.
    far: bool,
    turn: u64,
    /// Whether the host has had its time for it.
    entered: bool,
    /// Whether who asked would be told that it takes long, and was: nobody waits for it any more.
    tells: bool,
    told: bool,
    /// Earlier accesses to its line in the far memory that must end first.
    blocked_by: u32,
    /// The next that waits for the same move.
    next: u32,
    stages: Timeline,
    /// Time up to which `stages` reaches.
    clock_ps: u64,
}

/// What an access of a device is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Line(u32),
    Move(u32),
}

impl Token {
    fn number(self) -> u32 {
        match self {
            Token::Line(slot) => slot << 1,
            Token::Move(index) => index << 1 | 1,
        }
    }

    fn from_number(number: u32) -> Self {
        if number & 1 == 0 { Token::Line(number >> 1) } else { Token::Move(number >> 1) }
    }
}

/// A time that has passed.
#[derive(Clone, Copy, Debug)]
enum Timer {
    /// The host has had its time for a line.
    Enter(u32),
    /// A page has been mapped, or unmapped.
    Mapped(u32),
    /// The host learns that a line, the one with this turn, takes long; whether the store was asked for it.
    Tell(u32, u64, bool),
}

/// A memory behind its link, with DRAM that its pages may be promoted to.
#[derive(Debug)]
pub struct Tiered<D, S> {
    store: Port<S>,
    store_bytes: u64,
    line_bytes: u32,
    read_ps: u64,
    write_ps: u64,
    most: usize,
    turn: u64,
    held: Slab<Held>,
    timers: EventQueue<Timer>,
    near: Option<Box<Near<D>>>,
    /// Where the store tells of reads that take long.
    long_reads: Option<LongReads>,
    /// What the store shares with the DRAM.
    tie: Option<Tie>,
    traffic: Traffic,
    report: OrganizationReport,
    /// Where data are checked.
    data: Option<Box<Data>>,
    /// Where a failure of power is to come, and there is DRAM.
    power: Option<Box<Power<D>>>,
    /// Numbers of accesses are below this.
    ids: usize,
    completions: Vec<Completion>,
}

impl<D: Device, S: Device> Tiered<D, S> {
    /// A memory as `spec` says, of a `store` of `store_bytes` that includes its link, and a `dram` if
    /// pages are promoted. On-chip caches ask for lines of `line_bytes`. With `check_data`, the version of
    /// every line is carried and checked.
    pub fn new(
        spec: &TieredSpec,
        store_bytes: u64,
        line_bytes: u32,
        dram: Option<D>,
        store: S,
        check_data: bool,
    ) -> Self {
        let most = spec.host_queue_depth;
        let moves = spec.promotion.as_ref().map_or(0, |it| it.lookaside_entries);
        let ids = 2 * most.max(moves) as usize + 2;
        let near = spec.promotion.as_ref().zip(dram).map(|(promotion, dram)| {
            Box::new(Near::new(promotion, Port::new(dram, ids, Stage::DramQueue)))
        });
        Tiered {
            tie: store.tie().filter(|_| near.is_some()),
            store: Port::new(store, ids, Stage::StoreQueue),
            store_bytes,
            line_bytes,
            read_ps: spec.read_latency.picoseconds(),
            write_ps: spec.write_latency.picoseconds(),
            most: most as usize,
            turn: 0,
            held: Slab::new(),
            timers: EventQueue::new(),
            near,
            long_reads: spec.long_reads.as_ref().map(LongReads::new),
            traffic: Traffic::default(),
            report: OrganizationReport::default(),
            data: check_data.then(|| Box::new(Data::new())),
            power: None,
            ids,
            completions: Vec::new(),
        }
    }

    /// What its store did and took.
    pub(super) fn store_activity(&self, now_ps: u64) -> Activity {
        self.store.device().activity(now_ps)
    }

    #[inline]
    fn line(&self, address: u64) -> u64 {
        address / u64::from(self.line_bytes)
    }

    /// Takes a line; whoever asks for it is told where that takes long, if so.
    fn take(&mut self, now_ps: u64, request: LineRequest, tells: bool) -> Result<(), Full> {
        debug_assert!(request.address < self.store_bytes, "{request:?} lies beyond memory");
        if self.held.len() >= self.most {
            return Err(Full);
        }
        let line = self.line(request.address);
        let written = request.write.then_some(request.version);
        let slot = self.held.insert(Held {
            request,
            oldest: self.data.as_mut().map_or(0, |data| data.submit(line, written)),
            version: 0,
            far: false,
            turn: 0,
            entered: false,
            tells,
            told: false,
            blocked_by: 0,
            next: NONE,
            stages: Timeline::new(),
            clock_ps: now_ps,
        });
        self.route(now_ps, slot);
        Ok(())
    }

    /// Sends a line to where its page is.
    fn route(&mut self, now_ps: u64, slot: u32) {
        let LineRequest { address, write, .. } = self.held[slot].request;
        let line = self.line(address);
        let Some(near) = &mut self.near else { return self.go_far(now_ps, slot) };
        let page = near.page(address);
        let bit = line % (near.page_bytes / u64::from(self.line_bytes));
        match near.route(page, bit, write) {
            Route::Near(way) => {
                let frame = near.frame(way);
                self.report.lookups += 1;
                self.go_near(now_ps, slot, frame + bit * u64::from(self.line_bytes));
            }
            Route::Far => {
                self.report.lookups += 1;
                self.report.misses += 1;
                self.go_far(now_ps, slot);
                self.count(now_ps, page);
            }
            Route::Wait(index) => {
                let it = &mut near.moves[index];
                if it.first == NONE {
                    it.first = slot;
                } else {
                    self.held[it.last].next = slot;
                }
                it.last = slot;
            }
        }
    }

    /// Reads or writes a line in DRAM, which keeps the order of what overlaps: what a read finds is
    /// settled now.
    fn go_near(&mut self, now_ps: u64, slot: u32, address: u64) {
        let place = self.line(address);
        let line = self.line(self.held[slot].request.address);
        let held = &mut self.held[slot];
        let LineRequest { write, version, .. } = held.request;
        if let Some(data) = &mut self.data {
            held.version = data.access_near(line, place, write.then_some(version));
        }
        self.traffic.move_dram(u64::from(self.line_bytes), write);
        let (id, bytes) = (Token::Line(slot).number(), self.line_bytes);
        self.issue_near(now_ps, Request { id, address, bytes, write, background: false });
    }

    /// A line goes to the far memory, behind those before it where one of the two is written.
    fn go_far(&mut self, now_ps: u64, slot: u32) {
        let LineRequest { address, write, .. } = self.held[slot].request;
        let line = self.line(address);
        let in_the_way = self.held.iter().filter(|(_, it)| {
            it.far && self.line(it.request.address) == line && (write || it.request.write)
        });
        let blocked_by = in_the_way.count() as u32;
        self.turn += 1;
        let latency_ps = if write { self.write_ps } else { self.read_ps };
        let held = &mut self.held[slot];
        (held.far, held.turn, held.blocked_by) = (true, self.turn, blocked_by);
        held.stages.push(Stage::Controller, latency_ps);
        held.clock_ps = now_ps + latency_ps;
        self.timers.push(held.clock_ps, 0, Timer::Enter(slot));
    }

    /// The host has had its time for a line.
    fn enter(&mut self, now_ps: u64, slot: u32) {
        self.held[slot].entered = true;
        self.issue_line(now_ps, slot);
    }

    /// Hands a line to the far memory, if nothing is in its way.
    fn issue_line(&mut self, now_ps: u64, slot: u32) {
        let held = &mut self.held[slot];
        if !held.entered || held.blocked_by > 0 {
            return;
        }
        held.stages.push(Stage::ControllerQueue, now_ps - held.clock_ps);
        held.clock_ps = now_ps;
        let LineRequest { address, write, .. } = held.request;
        let (id, bytes) = (Token::Line(slot).number(), self.line_bytes);
        let address = address / u64::from(bytes) * u64::from(bytes);
        if self.tells_only(now_ps, slot, address) {
            return;
        }
        self.traffic.move_store(u64::from(bytes), write);
        self.issue_far(now_ps, Request { id, address, bytes, write, background: false });
    }

    /// The far memory has read or written a line.
    fn line_done(&mut self, slot: u32, done: &Completion, out: &mut Vec<Response>) {
        let it = self.held[slot];
        let LineRequest { address, write, version, .. } = it.request;
        let line = self.line(address);
        if let Some(data) = &mut self.data {
            self.held[slot].version = data.access_far(line, write.then_some(version));
        }
        self.answer(slot, done, out);
        self.unblock(done.at_ps, &it);
        if write {
            self.write_ended(done.at_ps, address);
        }
    }

    /// A line has left the far memory: those behind it that it was in the way of go on.
    fn unblock(&mut self, now_ps: u64, it: &Held) {
        let LineRequest { address, write, .. } = it.request;
        let line = self.line(address);
        let mut free: Vec<(u64, u32)> = Vec::new();
        let behind = |other: &Held| {
            other.far
                && other.turn > it.turn
                && other.request.address / u64::from(self.line_bytes) == line
                && (write || other.request.write)
        };
        let later: Vec<u32> =
            self.held.iter().filter(|(_, other)| behind(other)).map(|(slot, _)| slot).collect();
        for slot in later {
            let other = &mut self.held[slot];
            other.blocked_by -= 1;
            if other.blocked_by == 0 {
                free.push((other.turn, slot));
            }
        }
        free.sort_unstable();
        free.into_iter().for_each(|(_, slot)| self.issue_line(now_ps, slot));
    }

    /// A line has been read or written where it is.
    fn answer(&mut self, slot: u32, done: &Completion, out: &mut Vec<Response>) {
        let Held { request, oldest, version, mut stages, told, .. } = self.held.remove(slot);
        if told {
            return;
        }
        stages.append(&done.stages);
        let version = if request.write { 0 } else { version };
        if let Some(data) = self.data.as_mut().filter(|_| !request.write) {
            data.returned(version, oldest);
        }
        let (id, at_ps) = (request.id, done.at_ps);
        out.push(Response::Line(LineResponse { id, at_ps, stages, version }));
    }

    /// Those that waited for a move go on: its stages are what they have waited for.
    fn release(&mut self, now_ps: u64, mut slot: u32, stages: &Timeline) {
        while slot != NONE {
            let held = &mut self.held[slot];
            let next = std::mem::replace(&mut held.next, NONE);
            append_tail(&mut held.stages, stages, now_ps - held.clock_ps);
            held.clock_ps = now_ps;
            self.route(now_ps, slot);
            slot = next;
        }
    }

    fn issue_near(&mut self, now_ps: u64, request: Request) {
        if let Some(near) = &mut self.near {
            near.dram.issue(now_ps, request, None);
        }
    }

    fn issue_far(&mut self, now_ps: u64, request: Request) {
        self.with_bus(now_ps, |store, _| store.issue(now_ps, request, None));
    }

    /// Lets the store do something at `now_ps`, with the bus that it may share with the DRAM.
    fn with_bus(&mut self, now_ps: u64, act: impl FnOnce(&mut Port<S>, &mut Vec<Completion>)) {
        let Tiered { near, store, tie, completions, .. } = self;
        if let Some(near) = near.as_mut().filter(|_| tie.is_some()) {
            let dram = near.dram.device_mut();
            bus::pass_to_store(now_ps, *tie, dram, store.device_mut());
            act(store, completions);
            bus::pass_to_dram(now_ps, *tie, dram, store.device_mut());
        } else {
            act(store, completions);
        }
    }

    /// Does what happens at `now_ps`, the time of the next event.
    fn step(&mut self, now_ps: u64, out: &mut Vec<Response>) {
        if let Some(near) = &mut self.near
            && near.dram.next_event_ps().is_some_and(|at_ps| at_ps <= now_ps)
        {
            near.dram.advance(now_ps, &mut self.completions);
            self.complete(true, out);
            if let Some(near) = &mut self.near {
                near.dram.retry(now_ps);
            }
        }
        if self.store.next_event_ps().is_some_and(|at_ps| at_ps <= now_ps) {
            self.with_bus(now_ps, |store, completions| store.advance(now_ps, completions));
            self.complete(false, out);
            self.with_bus(now_ps, |store, _| store.retry(now_ps));
        }
        while self.timers.peek_ps().is_some_and(|at_ps| at_ps <= now_ps) {
            match self.timers.pop() {
                Some((_, Timer::Enter(slot))) => self.enter(now_ps, slot),
                Some((_, Timer::Mapped(index))) => self.mapped(now_ps, index),
                Some((_, Timer::Tell(slot, turn, asked))) => self.tell(now_ps, (slot, turn), asked),
                None => {}
            }
        }
    }

    /// Goes on with what DRAM, or the far memory, has completed.
    fn complete(&mut self, near: bool, out: &mut Vec<Response>) {
        let mut completions = std::mem::take(&mut self.completions);
        for done in completions.drain(..) {
            match (Token::from_number(done.id), near) {
                (Token::Line(slot), true) => self.answer(slot, &done, out),
                (Token::Line(slot), false) => self.line_done(slot, &done, out),
                (Token::Move(index), true) => self.moved_near(index, &done),
                (Token::Move(index), false) => self.moved_far(index, &done),
            }
        }
        self.completions = completions;
    }
}

impl<D: Device + Send + 'static, S: Device + Send + 'static> Organization for Tiered<D, S> {
    /// All that the store has: DRAM holds pages of it.
    fn memory_bytes(&self) -> u64 {
        self.store_bytes
    }

    fn submit(&mut self, now_ps: u64, request: LineRequest) -> Result<(), Full> {
        self.take(now_ps, request, false)
    }

    fn tells_of_long_reads(&self) -> bool {
        self.long_reads.is_some()
    }

    fn submit_telling(&mut self, now_ps: u64, request: LineRequest) -> Result<(), Full> {
        self.take(now_ps, request, true)
    }

    fn take_told(&mut self, out: &mut Vec<LineResponse>) {
        if let Some(long_reads) = &mut self.long_reads {
            out.append(&mut long_reads.told);
        }
    }

    /// Never takes one: the operating system moves no pages here by itself.
    fn submit_page(&mut self, _now_ps: u64, _request: PageRequest) -> Result<(), Full> {
        Err(Full)
    }

    fn next_event_ps(&self) -> Option<u64> {
        let dram_ps = self.near.as_ref().and_then(|near| near.dram.next_event_ps());
        earlier(self.timers.peek_ps(), earlier(dram_ps, self.store.next_event_ps()))
    }

    fn advance(&mut self, now_ps: u64, out: &mut Vec<Response>) {
        while let Some(at_ps) = self.next_event_ps().filter(|at_ps| *at_ps <= now_ps) {
            self.step(at_ps, out);
        }
    }

    fn depths(&self, tell: &mut Tell<'_>) {
        tell("controller.lines", self.held.len());
        if let Some(near) = &self.near {
            tell("controller.moves", near.moves.len());
            near.dram.device().depths(tell);
        }
        self.store.device().depths(tell);
    }

    fn in_flight(&self) -> usize {
        self.held.len() + self.near.as_ref().map_or(0, |near| near.moves.len())
    }

    fn warm(&mut self, now_ps: u64, _core: u16, address: u64, write: bool) -> PagesMoved {
        self.warm_line(now_ps, address, write)
    }

    fn flush(&mut self, now_ps: u64) -> bool {
        self.write_back_all(now_ps)
    }

    fn flush_stages(&self) -> Timeline {
        self.near.as_ref().map_or_else(Timeline::new, |near| near.flush_stages)
    }

    fn flush_writes(&self) -> u64 {
        self.near.as_ref().map_or(0, |near| near.tags.dirty_lines())
    }

    fn warm_flush(&mut self, now_ps: u64) -> PagesMoved {
        self.warm_write_back_all(now_ps)
    }

    fn durable(&self) -> Durable {
        if self.near.is_some() { Durable::Flushed } else { Durable::Answered }
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
            promotion: self.near.as_ref().map(|near| near.promoted()),
            traffic: self.traffic,
            stale_reads: self.data.as_ref().map_or(0, |data| data.stale_reads),
            ..self.report.clone()
        }
    }

    fn activity(&self, now_ps: u64) -> Activity {
        let dram = self.near.as_ref().map(|near| near.dram.device().activity(now_ps));
        dram.unwrap_or_default().with_store(self.store.device().activity(now_ps))
    }

    fn fork(&mut self) -> Box<dyn Organization> {
        Box::new(self.fork_itself())
    }
}

impl<D: Device, S: Device> Tiered<D, S> {
    /// A second one that stands where this one stands.
    pub(super) fn fork_itself(&mut self) -> Self {
        Tiered {
            store: self.store.fork(),
            held: self.held.clone(),
            timers: self.timers.clone(),
            near: self.near.as_mut().map(|near| Box::new(near.fork())),
            long_reads: self.long_reads.clone(),
            report: self.report.clone(),
            data: self.data.as_mut().map(|data| Box::new(data.fork())),
            power: self.power.as_mut().map(|power| Box::new(power.fork())),
            completions: Vec::new(),
            ..*self
        }
    }
}
