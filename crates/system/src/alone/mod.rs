//! A device alone: an organization that is given the requests of a memory trace, one after the
//! other, by nobody but the trace.
//!
//! A request that has a time arrives then. One that finds the device's queue full waits at its door,
//! in order, and that wait is part of its latency: the stage [`Stage::HostQueue`]. Requests without
//! times, or of a closed loop, come as fast as others end: so many are under way at most.

mod account;
mod latencies;

use crate::machine::Bound;
use crate::result::{Interval, SystemResult};
use crate::run::{RunOptions, TOO_LONG};
use crate::spec::{SystemSpec, limits};
use account::Account;
use latencies::Latencies;
use std::path::Path;
use tierscope_kernel::{Clock, MOST_TIME_PS, Slab, Stage, StageTimes};
use tierscope_model::organization::Organization;
use tierscope_model::request::{LineRequest, LineResponse, Response};
use tierscope_units::Size;
use tierscope_workload::StreamError;
use tierscope_workload::requests::{MemoryRequest, RequestSource};

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
    #[error("{place}: its cycle lies beyond 6.6 days (2^59 ps); look at the trace's clock")]
    Late {
        /// Which request.
        place: String,
    },
    /// What is under way takes longer than time is counted.
    #[error("{TOO_LONG}")]
    TooLong,
    /// The description lacks its organization; a checked one does not.
    #[error("the system is no device that can be built alone; check its description")]
    Incomplete,
    /// The region of interest is said in what a trace does not have.
    #[error("a memory trace has no {0}; count its requests, or simulated time")]
    NoSuchBound(&'static str),
    /// Latencies cannot be written.
    #[error("{0}")]
    Latencies(String),
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    number: u64,
    request: MemoryRequest,
    arrival_ps: u64,
    submitted_ps: u64,
    /// Whether it belongs to the region of interest.
    counted: bool,
}

/// The request that comes next.
#[derive(Clone, Copy, Debug)]
struct Next {
    request: MemoryRequest,
    arrival_ps: u64,
}

/// A device alone, with the requests that it is given.
pub struct Alone {
    spec: SystemSpec,
    organization: Box<dyn Organization>,
    line_bytes: u64,
    source: Box<dyn RequestSource>,
    clock: Clock,
    outstanding: Option<usize>,
    start: Option<Bound>,
    stops: Vec<Bound>,
    now_ps: u64,
    next: Option<Next>,
    /// Whether no request is to come.
    ended: bool,
    /// What ended the region before the trace ended, if something did.
    ended_by: Option<Bound>,
    flights: Slab<Flight>,
    taken: u64,
    responses: Vec<Response>,
    account: Account,
    latencies: Option<Latencies>,
}

impl Alone {
    /// The device of a checked description, with requests about to come. `latencies` is a file that
    /// gets a row for each request.
    ///
    /// # Errors
    /// Where the description is of no device alone, the region of interest is said in something else
    /// than requests and time, or the file cannot be made.
    pub fn new(
        spec: &SystemSpec,
        requests: Requests,
        options: &RunOptions,
        latencies: Option<&Path>,
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
        let line_bytes = spec.line().ok_or(AloneError::Incomplete)?.bytes();
        let latencies = latencies.map(Latencies::create).transpose();
        Ok(Alone {
            organization,
            line_bytes,
            clock: requests.clock.unwrap_or_else(|| spec.dram_clock()),
            source: requests.source,
            outstanding: requests.outstanding.map(|most| most.max(1) as usize),
            start: options.start,
            stops: options.stops.clone(),
            now_ps: 0,
            next: None,
            ended: false,
            ended_by: None,
            flights: Slab::new(),
            taken: 0,
            responses: Vec::new(),
            account: Account::new(options.start.is_none()),
            latencies: latencies.map_err(AloneError::Latencies)?,
            spec: spec.clone(),
        })
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
        if let Some(latencies) = &mut self.latencies {
            latencies.finish().map_err(AloneError::Latencies)?;
        }
        Ok(true)
    }

    /// Gives the device a request, or lets it work; false once there is nothing left to do.
    fn turn(&mut self) -> Result<bool, AloneError> {
        if self.next.is_none() && !self.ended {
            self.fetch()?;
        }
        let Some(next) = self.next else { return self.work() };
        let at_ps = next.arrival_ps.max(self.now_ps);
        if self.passes_a_bound(at_ps)? {
            self.ended = true;
            self.next = None;
            return Ok(true);
        }
        self.advance(at_ps)?;
        if self.submit(&next, at_ps) {
            self.next = None;
        } else {
            let goes_on = self.work()?;
            assert!(goes_on, "a device that is full has nothing to do");
        }
        Ok(true)
    }

    /// Gets the next request; one without a time of its own comes when few enough are under way.
    fn fetch(&mut self) -> Result<(), AloneError> {
        let Some(request) = self.source.next()? else {
            self.ended = true;
            return Ok(());
        };
        self.check_place(&request)?;
        let most = match (self.outstanding, request.cycle) {
            (None, Some(_)) => usize::MAX,
            (None, None) => OUTSTANDING as usize,
            (Some(most), _) => most,
        };
        while self.organization.in_flight() >= most && self.work()? {}
        let arrival_ps = match request.cycle {
            Some(cycle) if most == usize::MAX => self.time_of(cycle)?,
            _ => self.now_ps,
        };
        self.next = Some(Next { request, arrival_ps });
        Ok(())
    }

    fn time_of(&self, cycle: u64) -> Result<u64, AloneError> {
        if cycle > self.clock.ps_to_cycles_ceil(MOST_TIME_PS) {
            return Err(AloneError::Late { place: self.source.place() });
        }
        Ok(self.clock.cycles_to_ps(cycle))
    }

    /// Refuses what the device has no place for.
    fn check_place(&self, request: &MemoryRequest) -> Result<(), AloneError> {
        // A memory is a whole number of lines.
        let memory_bytes = self.organization.memory_bytes();
        if request.address < memory_bytes {
            return Ok(());
        }
        let sizes = self.spec.dram_sizes();
        let key = sizes.map(|sizes| sizes.path).unwrap_or_default();
        Err(AloneError::Beyond {
            place: self.source.place(),
            capacity: Size::from_bytes(memory_bytes),
            system: self.spec.name.clone(),
            mend: match enough(request.address) {
                Some(least) => format!("give it {key} = \"{least}\" or more"),
                None => "no memory is as large".into(),
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

    /// Offers a request to the device; whether it takes it.
    fn submit(&mut self, next: &Next, now_ps: u64) -> bool {
        let Next { request, arrival_ps } = *next;
        let counted = self.account.begun();
        let flight =
            Flight { number: self.taken, request, arrival_ps, submitted_ps: now_ps, counted };
        let id = self.flights.insert(flight);
        let address = request.address & !(self.line_bytes - 1);
        let version = if request.write { self.taken + 1 } else { 0 };
        let line = LineRequest { id, address, write: request.write, version };
        if self.organization.submit(now_ps, line).is_err() {
            self.flights.remove(id);
            return false;
        }
        self.taken += 1;
        if counted {
            self.account.take(now_ps > arrival_ps);
        }
        true
    }

    /// Lets the device do what comes next; false if nothing does.
    fn work(&mut self) -> Result<bool, AloneError> {
        let Some(at_ps) = self.organization.next_event_ps() else { return Ok(false) };
        self.advance(at_ps)?;
        Ok(true)
    }

    /// Time goes on to `now_ps`: the device does all that is due until then.
    fn advance(&mut self, now_ps: u64) -> Result<(), AloneError> {
        if now_ps > MOST_TIME_PS {
            return Err(AloneError::TooLong);
        }
        self.now_ps = self.now_ps.max(now_ps);
        if self.organization.next_event_ps().is_none_or(|at_ps| at_ps > now_ps) {
            return Ok(());
        }
        let mut responses = std::mem::take(&mut self.responses);
        self.organization.advance(now_ps, &mut responses);
        for response in responses.drain(..) {
            if let Response::Line(line) = response {
                self.answered(line)?;
            }
        }
        self.responses = responses;
        Ok(())
    }

    /// A request has been answered: its stages, the wait at the door first, sum to its latency.
    fn answered(&mut self, line: LineResponse) -> Result<(), AloneError> {
        let flight = self.flights.remove(line.id);
        let latency_ps = line.at_ps - flight.arrival_ps;
        let mut stages = StageTimes::default();
        line.stages.add_to(&mut stages);
        stages[Stage::HostQueue as usize] += flight.submitted_ps - flight.arrival_ps;
        let sum_ps: u64 = stages.iter().sum();
        assert_eq!(sum_ps, latency_ps, "stages do not add up: {:?}", line.stages);
        if flight.counted {
            self.account.answer(&flight, line.at_ps, &stages);
            if let Some(latencies) = &mut self.latencies {
                latencies.write(&flight, latency_ps, &stages).map_err(AloneError::Latencies)?;
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
        self.account.result(&self.spec, &*self.organization, self.now_ps)
    }
}

/// A capacity that holds an address: the next power of two, where a description may have it.
fn enough(address: u64) -> Option<Size> {
    let bytes = address.checked_add(1)?.checked_next_power_of_two()?;
    Some(Size::from_bytes(bytes)).filter(|size| limits::allow(*size))
}
