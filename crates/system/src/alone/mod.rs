//! A device alone, a memory or a store: an organization that is given the requests of a trace or of a
//! pattern, one after the other, by nobody else.
//!
//! A memory is asked for the lines that a request touches, and a store for the request as it is; a
//! request of several lines is answered with the last of them. A flush is given to the device once all
//! writes before it are answered; where it knows none, the flush is answered then. A memory knows no flush,
//! and only drives know trims: they are left out elsewhere, and counted.
//!
//! A request that has a time arrives then. One that finds the device's queue full waits at its door,
//! in order, and that wait is part of its latency: the stage [`Stage::HostQueue`]. Requests without
//! times, or of a closed loop, come as others end: so many are under way, those at the door among them,
//! and each arrives when the one ends whose place it takes.

mod account;
mod latencies;
mod power;

use crate::machine::Bound;
use crate::request_log::RequestFiles;
use crate::result::{Interval, SystemResult};
use crate::run::{RunOptions, TOO_LONG};
use crate::spec::{SystemSpec, limits};
pub(crate) use power::with_barriers;

use account::Account;
use latencies::Latencies;
use std::collections::VecDeque;
use tierscope_kernel::stage::Timeline;
use tierscope_kernel::{Clock, MOST_TIME_PS, Slab, Stage, StageTimes};
use tierscope_model::organization::Organization;
use tierscope_model::request::{Control, LineRequest, PageRequest, Response};
use tierscope_units::Size;
use tierscope_workload::StreamError;
use tierscope_workload::requests::{RequestKind, RequestSource, Times, TraceRequest};

/// Requests without times that are under way at most, unless something else is asked for.
pub const OUTSTANDING: u32 = 64;

/// What devices alone are given.
pub struct Requests {
    /// The requests.
    pub source: Box<dyn RequestSource>,
    /// The clock that times are cycles of; the device's own where it is not said.
    pub clock: Option<Clock>,
    /// How many are under way at most, whatever their times; where it is not said, requests come at
    /// their times, and those that have none [`OUTSTANDING`] at a time.
    pub outstanding: Option<u32>,
}

/// Why a device alone cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AloneError {
    /// The trace is wrong, or cannot be read.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A request that the device has no place for.
    #[error("{place}: it lies beyond the {capacity} of {system}; {mend}")]
    Beyond {
        /// Which request.
        place: String,
        /// What the device has.
        capacity: Size,
        /// The device.
        system: String,
        /// What to do.
        mend: String,
    },
    /// A request whose time cannot be counted.
    #[error(
        "{place}: its {what} lies beyond 6.6 days (2^59 ps); look at {at}, or take what comes before \
         with --limit 500000s, or leave times out with --closed-loop 32"
    )]
    Late {
        /// Which request.
        place: String,
        /// What is too large.
        what: &'static str,
        /// What to look at.
        at: &'static str,
    },
    /// What is under way takes longer than time is counted.
    #[error("{TOO_LONG}")]
    TooLong,
    /// Times are cycles, and neither the device nor anybody else says of what.
    #[error(
        "the times of this trace are cycles, and {0} has no clock that they could be of; say the \
         trace's with --set workload.clock=1.2GHz or another, or leave the times out with \
         --closed-loop 32"
    )]
    NoClock(String),
    /// The description lacks its organization; a checked one does not.
    #[error("the system is no device that can be built alone; check its description")]
    Incomplete,
    /// The region of interest is said in what a trace does not have.
    #[error("what a device alone is given has no {0}; count its requests, or simulated time")]
    NoSuchBound(&'static str),
    /// Latencies cannot be written.
    #[error("{0}")]
    Latencies(String),
}

impl AloneError {
    /// Whether a request that comes is wrong, and those before it are as right as ever.
    fn is_of_trace(&self) -> bool {
        matches!(self, AloneError::Stream(_) | AloneError::Beyond { .. } | AloneError::Late { .. })
    }
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    number: u64,
    request: TraceRequest,
    /// Bytes that it asks for.
    bytes: u64,
    arrival_ps: u64,
    /// When the first of its parts was taken.
    taken_ps: u64,
    /// Parts that have not been answered; of a flush, writes that it waits for.
    left: u64,
    /// Whether it belongs to the region of interest.
    counted: bool,
    /// Whether the next request takes its place as it ends.
    in_loop: bool,
}

/// Where the time of a request went: it waited at the door, a flush for writes before it, and then what the
/// device says.
#[derive(Clone, Copy, Debug)]
struct Passed<'a> {
    host_queue_ps: u64,
    store_queue_ps: u64,
    device: &'a Timeline,
}

impl Passed<'_> {
    /// Each stage of it; one may come twice.
    #[inline]
    fn iter(&self) -> impl Iterator<Item = (Stage, u64)> + '_ {
        let waits =
            [(Stage::HostQueue, self.host_queue_ps), (Stage::StoreQueue, self.store_queue_ps)];
        waits.into_iter().chain(self.device.iter())
    }

    #[inline]
    fn sum_ps(&self) -> u64 {
        self.host_queue_ps + self.store_queue_ps + self.device.total_ps()
    }

    fn times(&self) -> StageTimes {
        let mut times = StageTimes::default();
        self.iter().for_each(|(stage, time_ps)| times[stage as usize] += time_ps);
        times
    }
}

/// What the device is asked for a request: a line of it, or all of it at once.
#[derive(Clone, Copy, Debug)]
struct Part {
    flight: u32,
    submitted_ps: u64,
}

/// The request that comes next.
#[derive(Clone, Copy, Debug)]
struct Next {
    request: TraceRequest,
    arrival_ps: u64,
    /// Whether it came as another ended.
    in_loop: bool,
    /// Its place among those under way once its first part was taken.
    flight: Option<u32>,
    /// First byte that the device has not been asked for.
    from: u64,
}

/// What a device takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    /// Lines: a memory.
    Lines,
    /// Any bytes: a store.
    Bytes,
}

/// What times are counted in.
#[derive(Clone, Copy, Debug)]
enum Ticks {
    /// Of a clock, up to so many.
    Cycles(Clock, u64),
    Ps(u64),
}

/// A device alone, with the requests that it is given.
pub struct Alone {
    spec: SystemSpec,
    organization: Box<dyn Organization>,
    takes: Takes,
    /// Bytes that it moves as one.
    unit_bytes: u64,
    source: Box<dyn RequestSource>,
    ticks: Ticks,
    outstanding: Option<usize>,
    /// When each place of a closed loop that is free was left, in order; all of them, before the first is taken.
    places: Option<VecDeque<u64>>,
    start: Option<Bound>,
    stops: Vec<Bound>,
    now_ps: u64,
    next: Option<Next>,
    /// Whether no request is to come.
    ended: bool,
    /// What is wrong with the request at which it has ended.
    failed: Option<AloneError>,
    /// What ended the region before the trace ended, if something did.
    ended_by: Option<Bound>,
    flights: Slab<Flight>,
    parts: Slab<Part>,
    /// Writes under way.
    writes: u64,
    /// Flushes that wait for writes, in their order.
    flushes: Vec<u32>,
    /// Flushes that the device has not taken yet.
    unsent: VecDeque<u32>,
    taken: u64,
    /// How much queues hold, as they are looked at.
    depths: Vec<(&'static str, u64)>,
    responses: Vec<Response>,
    account: Account,
    latencies: Option<Latencies>,
}

impl Alone {
    /// The device of a checked description, with requests about to come.
    ///
    /// # Errors
    /// Where the description is of no device alone, the region of interest is said in something else
    /// than requests and time, or times are cycles of a clock that nobody says.
    pub fn new(
        spec: &SystemSpec,
        requests: Requests,
        options: &RunOptions,
    ) -> Result<Self, AloneError> {
        for bound in options.start.iter().chain(&options.stops) {
            match bound {
                Bound::Instructions(_) => return Err(AloneError::NoSuchBound("instructions")),
                Bound::Mark(_) => return Err(AloneError::NoSuchBound("marks")),
                Bound::Accesses(_) | Bound::TimePs(_) => {}
            }
        }
        if !spec.stands_alone() {
            return Err(AloneError::Incomplete);
        }
        let organization = spec.build_organization().ok_or(AloneError::Incomplete)?;
        let unit_bytes = spec.unit_bytes().ok_or(AloneError::Incomplete)?;
        let Requests { mut source, clock, outstanding } = requests;
        source.fit(unit_bytes)?;
        let takes = if spec.line().is_some() { Takes::Lines } else { Takes::Bytes };
        Ok(Alone {
            ticks: ticks(spec, source.times(), clock, outstanding)?,
            organization,
            takes,
            unit_bytes,
            source,
            outstanding: outstanding.map(|most| most.max(1) as usize),
            places: None,
            start: options.start,
            stops: options.stops.clone(),
            now_ps: 0,
            next: None,
            ended: false,
            failed: None,
            ended_by: None,
            flights: Slab::new(),
            parts: Slab::new(),
            writes: 0,
            flushes: Vec::new(),
            unsent: VecDeque::new(),
            taken: 0,
            depths: Vec::new(),
            responses: Vec::new(),
            account: Account::new(options.start.is_none()),
            latencies: None,
            spec: spec.clone(),
        })
    }

    /// Tells of each request in these files.
    ///
    /// # Errors
    /// Where one cannot be made.
    pub(crate) fn log_requests(&mut self, files: &RequestFiles<'_>) -> Result<(), AloneError> {
        let log = Latencies::create(files, &self.spec.name, self.takes);
        self.latencies = Some(log.map_err(AloneError::Latencies)?);
        Ok(())
    }

    /// Runs until every request has been answered, or the region of interest has ended (true), or
    /// until `pause` says so after some work (false).
    ///
    /// # Errors
    /// Where a request is wrong, or latencies cannot be written.
    pub fn run(&mut self, mut pause: impl FnMut(&Alone) -> bool) -> Result<bool, AloneError> {
        const LOOK_EVERY: u32 = 1 << 10;
        let mut turns = 0u32;
        while self.turn()? {
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(LOOK_EVERY) && pause(self) {
                return Ok(false);
            }
        }
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if let Some(latencies) = &mut self.latencies {
            latencies.finish().map_err(AloneError::Latencies)?;
        }
        Ok(true)
    }

    /// Gives the device a request, or lets it work; false once there is nothing left to do.
    fn turn(&mut self) -> Result<bool, AloneError> {
        if self.next.is_none()
            && !self.ended
            && let Err(error) = self.fetch()
        {
            if !error.is_of_trace() {
                return Err(error);
            }
            // What is under way is answered, and counted, before that is told.
            (self.failed, self.ended) = (Some(error), true);
        }
        let Some(next) = self.next else {
            self.end_region();
            // What was fetched may have been left out.
            return Ok(self.work()? || !self.ended);
        };
        let at_ps = next.arrival_ps.max(self.now_ps);
        if self.passes_a_bound(at_ps)? {
            self.ended = true;
            self.next = None;
            return Ok(true);
        }
        self.advance(at_ps)?;
        match self.submit(next, at_ps)? {
            None => self.next = None,
            Some(rest) => {
                self.next = Some(rest);
                let goes_on = self.work()?;
                assert!(goes_on, "a device that is full has nothing to do");
            }
        }
        Ok(true)
    }

    /// With the last answer of a store the region ends, though the store may go on: it programs what
    /// its buffer has, and collects. A memory's writes are answered before DRAM has them.
    fn end_region(&mut self) {
        let answered = self.ended && self.flights.is_empty();
        if answered && self.takes == Takes::Bytes && !self.account.has_ended() {
            self.account.end(self.now_ps, &*self.organization);
        }
    }

    /// Gets the next request; one without a time of its own comes when few enough are under way.
    fn fetch(&mut self) -> Result<(), AloneError> {
        let Some(request) = self.source.next()? else {
            self.ended = true;
            return Ok(());
        };
        let known = match self.takes {
            Takes::Lines => request.moves(),
            Takes::Bytes => request.kind != RequestKind::Trim || self.organization.takes_control(),
        };
        if !known {
            self.account.leave_out(request.kind);
            return Ok(());
        }
        self.check_place(&request)?;
        let (arrival_ps, in_loop) = match (self.outstanding, request.ticks) {
            (None, Some(ticks)) => (self.time_of(ticks)?, false),
            (most, _) => (self.place(most.unwrap_or(OUTSTANDING as usize))?, true),
        };
        let from = request.address;
        self.next = Some(Next { request, arrival_ps, in_loop, flight: None, from });
        Ok(())
    }

    /// Takes a place of a closed loop of so many, waiting for one if need be: when it was left.
    fn place(&mut self, most: usize) -> Result<u64, AloneError> {
        let now_ps = self.now_ps;
        self.places.get_or_insert_with(|| std::iter::repeat_n(now_ps, most).collect());
        loop {
            if let Some(left_ps) = self.places.as_mut().and_then(VecDeque::pop_front) {
                return Ok(left_ps);
            }
            let goes_on = self.work()?;
            assert!(goes_on, "requests are under way, and the device has nothing to do");
        }
    }

    /// A request has ended that was in a closed loop: its place is free.
    fn leave(&mut self, flight: &Flight, at_ps: u64) {
        if let Some(places) = self.places.as_mut().filter(|_| flight.in_loop) {
            // Nearly always it is left last of all.
            let later = places.iter().rev().take_while(|left_ps| **left_ps > at_ps).count();
            places.insert(places.len() - later, at_ps);
        }
    }

    fn time_of(&self, ticks: u64) -> Result<u64, AloneError> {
        let (at_ps, what, at) = match self.ticks {
            Ticks::Cycles(clock, most) => {
                let counted = ticks <= most;
                (counted.then(|| clock.cycles_to_ps(ticks)), "cycle", "the trace's clock")
            }
            Ticks::Ps(unit_ps) => (ticks.checked_mul(unit_ps), "time", "the unit of its times"),
        };
        let late = || AloneError::Late { place: self.source.place(), what, at };
        at_ps.filter(|at_ps| *at_ps <= MOST_TIME_PS).ok_or_else(late)
    }

    /// Refuses what the device has no place for.
    fn check_place(&self, request: &TraceRequest) -> Result<(), AloneError> {
        // A device is a whole number of units.
        let capacity_bytes = self.organization.memory_bytes();
        if request.end() <= capacity_bytes {
            return Ok(());
        }
        let key = self.spec.room_key();
        Err(AloneError::Beyond {
            place: self.source.place(),
            capacity: Size::from_bytes(capacity_bytes),
            system: self.spec.name.clone(),
            mend: match enough(request.end() - 1) {
                Some(least) => format!("give it {key}.capacity = \"{least}\" or more"),
                None => "no device is as large".into(),
            },
        })
    }

    /// Whether the region of interest ends before a request that can come at `at_ps`. If it begins
    /// there, all that is counted begins anew.
    fn passes_a_bound(&mut self, at_ps: u64) -> Result<bool, AloneError> {
        if let Some(begin_ps) = self.begins_at(at_ps) {
            self.advance(begin_ps)?;
            self.account.begin(begin_ps, self.taken, &*self.organization);
        }
        if !self.account.begun() {
            return Ok(false);
        }
        let Some((bound, end_ps)) = self.ends_at(at_ps) else { return Ok(false) };
        self.advance(end_ps)?;
        self.ended_by = Some(bound);
        Ok(true)
    }

    /// When the region begins, if it does so by `at_ps`: a count is met as the next request comes, a
    /// time at that time, or as soon after it as the device is looked at.
    fn begins_at(&self, at_ps: u64) -> Option<u64> {
        match self.start {
            _ if self.account.begun() => None,
            Some(Bound::TimePs(time_ps)) => (time_ps <= at_ps).then(|| time_ps.max(self.now_ps)),
            Some(Bound::Accesses(count)) => (count <= self.taken).then_some(at_ps),
            _ => Some(at_ps),
        }
    }

    /// What ends the region first, and when, if something does by `at_ps`. A count is met with the
    /// request that was taken last.
    fn ends_at(&self, at_ps: u64) -> Option<(Bound, u64)> {
        let start_ps = self.account.start_ps();
        let reached = self.stops.iter().filter_map(|bound| {
            let end_ps = match *bound {
                Bound::Accesses(count) => (count <= self.account.taken()).then_some(self.now_ps),
                Bound::TimePs(time_ps) => Some(start_ps.saturating_add(time_ps)),
                Bound::Instructions(_) | Bound::Mark(_) => None,
            };
            end_ps.map(|end_ps| (*bound, end_ps.max(self.now_ps)))
        });
        reached.filter(|(_, end_ps)| *end_ps <= at_ps).min_by_key(|(_, end_ps)| *end_ps)
    }

    /// Offers a request to the device; what of it the device does not take yet.
    fn submit(&mut self, mut next: Next, now_ps: u64) -> Result<Option<Next>, AloneError> {
        if next.request.kind == RequestKind::Flush {
            self.take_flush(&next, now_ps)?;
            return Ok(None);
        }
        let bytes = match next.request.bytes {
            0 => self.unit_bytes,
            bytes => u64::from(bytes),
        };
        // One that says no size is for the unit that holds its address.
        let (start, end) = match next.request.bytes {
            0 => {
                let start = next.request.address & !(self.unit_bytes - 1);
                (start, start + self.unit_bytes)
            }
            _ => (next.request.address, next.request.end()),
        };
        next.from = next.from.max(start);
        while next.from < end {
            let until = match self.takes {
                Takes::Lines => (next.from & !(self.unit_bytes - 1)) + self.unit_bytes,
                Takes::Bytes => end,
            };
            let flight = *next.flight.get_or_insert_with(|| {
                self.flights.insert(Flight {
                    number: self.taken,
                    request: next.request,
                    bytes,
                    arrival_ps: next.arrival_ps,
                    taken_ps: now_ps,
                    left: 0,
                    counted: self.account.begun(),
                    in_loop: next.in_loop,
                })
            });
            let first = if next.request.bytes == 0 { start } else { next.from };
            if !self.submit_part(flight, first, until, now_ps) {
                if self.flights[flight].left == 0 && next.from == start.max(next.request.address) {
                    self.flights.remove(flight);
                    next.flight = None;
                }
                return Ok(Some(next));
            }
            next.from = until;
        }
        self.taken += 1;
        self.writes += u64::from(next.request.is_write());
        if self.account.begun() {
            self.account.take(now_ps > next.arrival_ps, self.flights.len() as u64);
        }
        Ok(None)
    }

    /// Asks the device for the bytes from `first` up to `end` of a request; whether it takes that.
    fn submit_part(&mut self, flight: u32, first: u64, end: u64, now_ps: u64) -> bool {
        let write = self.flights[flight].request.is_write();
        let id = self.parts.insert(Part { flight, submitted_ps: now_ps });
        let taken = match self.takes {
            Takes::Lines => {
                let address = first & !(self.unit_bytes - 1);
                let version = if write { self.taken + 1 } else { 0 };
                let line = LineRequest { id, core: 0, address, write, version };
                self.organization.submit(now_ps, line)
            }
            Takes::Bytes if self.flights[flight].request.kind == RequestKind::Trim => {
                let trim = Control::Trim { address: first, bytes: end - first };
                self.organization.submit_control(now_ps, id, trim)
            }
            Takes::Bytes => {
                let bytes = (end - first) as u32;
                let page = PageRequest {
                    id,
                    store_address: first,
                    memory_address: 0,
                    bytes,
                    write,
                    background: false,
                    force_unit_access: self.flights[flight].request.kind
                        == RequestKind::ForcedWrite,
                    content: 0,
                };
                self.organization.submit_page(now_ps, page)
            }
        };
        if taken.is_err() {
            self.parts.remove(id);
            return false;
        }
        self.flights[flight].left += 1;
        true
    }

    /// A flush goes to the device, or is answered, once all writes before it are.
    fn take_flush(&mut self, next: &Next, now_ps: u64) -> Result<(), AloneError> {
        let flight = Flight {
            number: self.taken,
            request: next.request,
            bytes: 0,
            arrival_ps: next.arrival_ps,
            taken_ps: now_ps,
            left: self.writes,
            counted: self.account.begun(),
            in_loop: next.in_loop,
        };
        self.taken += 1;
        if flight.counted {
            self.account.take(now_ps > next.arrival_ps, self.flights.len() as u64 + 1);
        }
        let sent = self.organization.takes_control();
        if flight.left == 0 && !sent {
            let host_queue_ps = now_ps - flight.arrival_ps;
            let device = &Timeline::new();
            let stages = Passed { host_queue_ps, store_queue_ps: 0, device };
            return self.ended(&flight, now_ps, &stages);
        }
        let waits = flight.left > 0;
        let id = self.flights.insert(flight);
        if waits {
            self.flushes.push(id);
        } else {
            self.unsent.push_back(id);
            self.send_flushes(now_ps);
        }
        Ok(())
    }

    /// Gives the device the flushes that it takes.
    fn send_flushes(&mut self, now_ps: u64) {
        while let Some(&flight) = self.unsent.front() {
            let id = self.parts.insert(Part { flight, submitted_ps: now_ps });
            if self.organization.submit_control(now_ps, id, Control::Flush).is_err() {
                self.parts.remove(id);
                return;
            }
            self.flights[flight].left = 1;
            self.unsent.pop_front();
        }
    }

    /// Lets the device do what comes next; false if nothing does.
    fn work(&mut self) -> Result<bool, AloneError> {
        let Some(at_ps) = self.organization.next_event_ps() else { return Ok(false) };
        self.advance(at_ps)?;
        Ok(true)
    }

    /// Time goes on to `now_ps`: the device does all that is due until then, and its queues are looked at.
    #[inline]
    fn advance(&mut self, now_ps: u64) -> Result<(), AloneError> {
        if now_ps > MOST_TIME_PS {
            return Err(AloneError::TooLong);
        }
        while let Some(due_ps) = self.account.sample_due(now_ps) {
            self.go_on_to(due_ps)?;
            // With the last answer the region may have ended.
            let mut depths = std::mem::take(&mut self.depths);
            depths.clear();
            depths.push(("host.requests", self.flights.len() as u64));
            self.organization.depths(&mut |name, depth| depths.push((name, depth as u64)));
            self.account.sample(&mut depths);
            self.depths = depths;
        }
        self.go_on_to(now_ps)
    }

    fn go_on_to(&mut self, now_ps: u64) -> Result<(), AloneError> {
        self.now_ps = self.now_ps.max(now_ps);
        if self.organization.next_event_ps().is_none_or(|at_ps| at_ps > now_ps) {
            return Ok(());
        }
        let mut responses = std::mem::take(&mut self.responses);
        self.organization.advance(now_ps, &mut responses);
        for response in &responses {
            match response {
                Response::Line(line) => self.answered(line.id, line.at_ps, &line.stages)?,
                Response::Page(page) => self.answered(page.id, page.at_ps, &page.stages)?,
            }
        }
        responses.clear();
        self.responses = responses;
        self.send_flushes(now_ps);
        Ok(())
    }

    /// A part of a request has been answered; with the last of them, the request is: where that part
    /// was, and what came before it at the door, is where the request was.
    fn answered(&mut self, id: u32, at_ps: u64, stages: &Timeline) -> Result<(), AloneError> {
        let Part { flight: id, submitted_ps } = self.parts.remove(id);
        self.flights[id].left -= 1;
        let under_offer = self.next.is_some_and(|next| next.flight == Some(id));
        if self.flights[id].left > 0 || under_offer {
            return Ok(());
        }
        let flight = self.flights.remove(id);
        let stages = if flight.request.kind == RequestKind::Flush {
            // It was taken, and waited for the writes before it.
            let host_queue_ps = flight.taken_ps - flight.arrival_ps;
            let store_queue_ps = submitted_ps - flight.taken_ps;
            Passed { host_queue_ps, store_queue_ps, device: stages }
        } else {
            let host_queue_ps = submitted_ps - flight.arrival_ps;
            Passed { host_queue_ps, store_queue_ps: 0, device: stages }
        };
        self.ended(&flight, at_ps, &stages)?;
        if flight.request.is_write() {
            self.writes -= 1;
            self.end_flushes(flight.number, at_ps)?;
        }
        Ok(())
    }

    /// A write has been answered: flushes that waited for nothing else are, too.
    fn end_flushes(&mut self, number: u64, at_ps: u64) -> Result<(), AloneError> {
        let mut flushes = std::mem::take(&mut self.flushes);
        let mut ended = Ok(());
        let sent = self.organization.takes_control();
        flushes.retain(|id| {
            let flush = &mut self.flights[*id];
            flush.left -= u64::from(flush.number > number);
            if flush.left > 0 || ended.is_err() {
                return true;
            }
            if sent {
                self.unsent.push_back(*id);
                return false;
            }
            let flush = self.flights.remove(*id);
            let host_queue_ps = flush.taken_ps - flush.arrival_ps;
            let store_queue_ps = at_ps - flush.taken_ps;
            let device = &Timeline::new();
            ended = self.ended(&flush, at_ps, &Passed { host_queue_ps, store_queue_ps, device });
            false
        });
        self.flushes = flushes;
        ended
    }

    /// A request has been answered: its stages, the wait at the door among them, sum to its latency.
    fn ended(
        &mut self,
        flight: &Flight,
        at_ps: u64,
        stages: &Passed<'_>,
    ) -> Result<(), AloneError> {
        self.leave(flight, at_ps);
        let latency_ps = at_ps - flight.arrival_ps;
        assert_eq!(stages.sum_ps(), latency_ps, "stages do not add up: {stages:?} of {flight:?}");
        if flight.counted {
            self.account.answer(flight, at_ps, stages);
            if let Some(latencies) = &mut self.latencies {
                let times = stages.times();
                latencies.write(flight, latency_ps, &times).map_err(AloneError::Latencies)?;
            }
        }
        Ok(())
    }

    /// What the region waits for in vain, if the trace ended before it began.
    pub fn region_never_began(&self) -> Option<Bound> {
        self.start.filter(|_| !self.account.begun())
    }

    /// What ended the region before the trace ended, if something did.
    pub fn region_ended_by(&self) -> Option<Bound> {
        self.ended_by
    }

    /// Requests that the device has taken so far, those before the region included.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Simulated time.
    pub fn now_ps(&self) -> u64 {
        self.now_ps
    }

    /// Intervals that have ended so far.
    pub fn intervals(&self) -> &[Interval] {
        self.account.intervals()
    }

    /// The result as far as the run has come, with the interval under way.
    pub fn result(&mut self) -> SystemResult {
        self.account.end_last_interval(self.now_ps);
        self.result_so_far()
    }

    /// The result as far as the run has come, without the interval under way: the run goes on as if it
    /// had not been asked.
    pub fn result_so_far(&self) -> SystemResult {
        let mut result = self.account.result(&self.spec, &*self.organization, self.now_ps);
        result.notes.extend(self.source.remarks());
        result
    }
}

/// What the times of requests are counted in, of a device that goes by them.
fn ticks(
    spec: &SystemSpec,
    times: Times,
    clock: Option<Clock>,
    outstanding: Option<u32>,
) -> Result<Ticks, AloneError> {
    match (times, clock.or_else(|| spec.dram_clock())) {
        (Times::Ps(unit_ps), _) => Ok(Ticks::Ps(unit_ps)),
        (_, Some(clock)) => Ok(Ticks::Cycles(clock, clock.ps_to_cycles_ceil(MOST_TIME_PS))),
        (Times::Cycles, None) if outstanding.is_none() => {
            Err(AloneError::NoClock(spec.name.clone()))
        }
        (_, None) => Ok(Ticks::Ps(1)),
    }
}

/// A capacity that holds an address: the next power of two, where a description may have it.
fn enough(address: u64) -> Option<Size> {
    let bytes = address.checked_add(1)?.checked_next_power_of_two()?;
    Some(Size::from_bytes(bytes)).filter(|size| limits::allow(*size))
}
