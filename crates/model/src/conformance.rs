//! Laws that every part must keep, as tests to call.
//!
//! An implementation calls the suite of its kind from its own tests, with a function that makes a
//! fresh one: [`policy_laws`], [`medium_laws`], [`link_laws`], [`device_laws`] or
//! [`organization_laws`]. The laws of [`Device`] and [`Organization`] are: requests are conserved, answers come in order of their time, stages sum to the latency, equal calls give
//! equal answers however finely time is cut, queues are bounded and go on after pushing back, a
//! clone or fork goes on identically, and with data checked no read is stale. Random mixes of
//! requests are shrunk to the shortest that breaks a law.
//!
//! Built for tests only: by this crate's own, or with the feature `conformance`.

mod link;
mod medium;
mod policy;

pub use link::link_laws;
pub use medium::medium_laws;
pub use policy::{Reference, policy_follows, policy_follows_for, policy_laws};

use crate::organization::{Organization, OrganizationReport};
use crate::request::{
    Ahead, Completion, Device, Full, LineRequest, PageRequest, Request, Response,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use std::collections::HashMap;
use tierscope_kernel::stage::Timeline;

/// Bytes of a line in every script.
pub const LINE_BYTES: u64 = 64;
/// Bytes of a page in every script.
pub const PAGE_BYTES: u64 = 4096;
/// Devices and stores must be at least this large.
pub const SPACE_BYTES: u64 = 1 << 20;

/// Random scripts for each law.
const CASES: u32 = 48;
/// Requests of the longest script.
const LONGEST: usize = 160;
/// A part that takes more at one instant has no bound.
const UNBOUNDED: u32 = 1 << 17;

/// Checks every law of [`Device`] on devices made by `make`, each of at least [`SPACE_BYTES`].
///
/// # Panics
/// When a law is broken, with the shortest script of requests that breaks it.
pub fn device_laws<D: Device>(make: impl Fn() -> D) {
    let scripts = || proptest::collection::vec((gaps(), device_requests()), 1..LONGEST);
    laws(|| DeviceUnderTest(make()), scripts);
}

/// Checks every law of [`Organization`] that concerns lines on organizations made by `make`, which
/// is told whether they check data. They are the sharper a test the smaller their caches and queues
/// are.
///
/// # Panics
/// When a law is broken, with the shortest script of requests that breaks it.
pub fn organization_laws(make: impl Fn(bool) -> Box<dyn Organization>) {
    let memory_bytes = make(true).memory_bytes();
    assert!(memory_bytes >= PAGE_BYTES, "a memory of {memory_bytes} bytes holds no page");
    let scripts = || proptest::collection::vec((gaps(), line_requests(memory_bytes)), 1..LONGEST);
    laws(|| OrganizationUnderTest(make(true)), scripts);
    checking_changes_nothing(&make, scripts);
    check("a flush ends, and nothing is lost", scripts(), |script| {
        nothing_is_lost(OrganizationUnderTest(make(true)), script);
    });
}

/// Checks the laws of [`Organization`] on mixes of line and page requests, for organizations whose
/// memory the operating system pages. Stores must be of at least [`SPACE_BYTES`].
///
/// # Panics
/// When a law is broken, with the shortest script of requests that breaks it.
pub fn page_organization_laws(make: impl Fn(bool) -> Box<dyn Organization>) {
    let memory_bytes = make(true).memory_bytes();
    let ask = move || prop_oneof![3 => line_reads(memory_bytes), 1 => page_requests(memory_bytes)];
    let scripts = || proptest::collection::vec((gaps(), ask()), 1..LONGEST);
    laws(|| OrganizationUnderTest(make(true)), scripts);
    checking_changes_nothing(&make, scripts);
}

fn checking_changes_nothing<S: Strategy<Value = Vec<(u64, Ask)>>>(
    make: impl Fn(bool) -> Box<dyn Organization>,
    scripts: impl Fn() -> S,
) {
    check("checking data changes no answer", scripts(), |script| {
        let answers = |check_data| {
            let mut run = Run::new(OrganizationUnderTest(make(check_data)));
            run.checks_data = check_data;
            run.play(script);
            run.drain();
            run.answers.iter().map(|a| Answer { version: 0, ..*a }).collect::<Vec<_>>()
        };
        assert_eq!(answers(true), answers(false));
    });
}

/// Set in the id of a part of a read that is wanted ahead of the rest.
const AHEAD: u32 = 1 << 31;

/// Something to ask of a part; the harness chooses `id` and `version`.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Device(Request),
    /// A read whose last line is wanted first.
    LastLineFirst(Request),
    Line(LineRequest),
    Page(PageRequest),
}

/// What a part answered, whatever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    id: u32,
    at_ps: u64,
    stages: Timeline,
    version: u64,
}

/// A device or an organization, seen alike.
trait Part: Sized {
    /// Whether requests in flight are exactly those taken and not answered: an organization also
    /// counts its background work.
    const EXACT: bool;

    fn submit(&mut self, now_ps: u64, ask: Ask) -> Result<(), Full>;
    fn next_event_ps(&self) -> Option<u64>;
    fn advance(&mut self, now_ps: u64, out: &mut Vec<Answer>);
    fn in_flight(&self) -> usize;
    fn fork(&mut self) -> Self;
    fn report(&self) -> OrganizationReport;
}

struct DeviceUnderTest<D>(D);

impl<D: Device> Part for DeviceUnderTest<D> {
    const EXACT: bool = true;

    fn submit(&mut self, now_ps: u64, ask: Ask) -> Result<(), Full> {
        match ask {
            Ask::Device(request) => self.0.submit(now_ps, request),
            Ask::LastLineFirst(request) => {
                let bytes = LINE_BYTES as u32;
                let offset = request.bytes - bytes;
                let ahead = Ahead { id: request.id | AHEAD, offset, bytes };
                self.0.submit_ahead(now_ps, request, ahead)
            }
            other => panic!("a device was asked {other:?}"),
        }
    }

    fn next_event_ps(&self) -> Option<u64> {
        self.0.next_event_ps()
    }

    fn advance(&mut self, now_ps: u64, out: &mut Vec<Answer>) {
        let mut completions = Vec::new();
        self.0.advance(now_ps, &mut completions);
        out.extend(completions.into_iter().map(|Completion { id, at_ps, stages, .. }| Answer {
            id,
            at_ps,
            stages,
            version: 0,
        }));
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }

    fn fork(&mut self) -> Self {
        DeviceUnderTest(self.0.clone())
    }

    fn report(&self) -> OrganizationReport {
        OrganizationReport::default()
    }
}

struct OrganizationUnderTest(Box<dyn Organization>);

impl Part for OrganizationUnderTest {
    const EXACT: bool = false;

    fn submit(&mut self, now_ps: u64, ask: Ask) -> Result<(), Full> {
        match ask {
            Ask::Line(request) => self.0.submit(now_ps, request),
            Ask::Page(request) => self.0.submit_page(now_ps, request),
            other => panic!("an organization was asked {other:?}"),
        }
    }

    fn next_event_ps(&self) -> Option<u64> {
        self.0.next_event_ps()
    }

    fn advance(&mut self, now_ps: u64, out: &mut Vec<Answer>) {
        let mut responses = Vec::new();
        self.0.advance(now_ps, &mut responses);
        out.extend(responses.into_iter().map(|response| match response {
            Response::Line(r) => {
                Answer { id: r.id, at_ps: r.at_ps, stages: r.stages, version: r.version }
            }
            Response::Page(r) => Answer { id: r.id, at_ps: r.at_ps, stages: r.stages, version: 0 },
        }));
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }

    fn fork(&mut self) -> Self {
        OrganizationUnderTest(self.0.fork())
    }

    fn report(&self) -> OrganizationReport {
        self.0.report()
    }
}

/// What the harness knows of a request that was taken.
#[derive(Clone, Copy, Debug)]
struct Taken {
    at_ps: u64,
    /// The oldest version that a read may return.
    oldest: u64,
    line: Option<u64>,
    write: bool,
    answered: bool,
    /// The part that was wanted first has come.
    ahead: bool,
}

/// A part, the requests that it took, and what it answered. Every step is checked.
struct Run<P> {
    part: P,
    now_ps: u64,
    taken: Vec<Taken>,
    answers: Vec<Answer>,
    /// Answers for parts that were wanted first.
    aheads: usize,
    /// Versions written to each line, oldest first: the only use of a hash map, never iterated.
    written: HashMap<u64, Vec<u64>>,
    /// Whether reads are to return versions.
    checks_data: bool,
    /// A refused request is offered again before anything has happened.
    insists: bool,
    /// What the part had counted at the last step.
    report: OrganizationReport,
}

impl<P: Part> Run<P> {
    fn new(part: P) -> Self {
        Run {
            part,
            now_ps: 0,
            taken: Vec::new(),
            answers: Vec::new(),
            aheads: 0,
            written: HashMap::new(),
            checks_data: true,
            insists: false,
            report: OrganizationReport::default(),
        }
    }

    fn fork(&mut self) -> Self {
        Run {
            part: self.part.fork(),
            now_ps: self.now_ps,
            taken: self.taken.clone(),
            answers: self.answers.clone(),
            aheads: self.aheads,
            written: self.written.clone(),
            report: self.report.clone(),
            ..*self
        }
    }

    /// The request with the next free id and, for a write of a line, the next version.
    fn numbered(&self, ask: Ask) -> Ask {
        let id = self.taken.len() as u32;
        match ask {
            Ask::Device(request) => Ask::Device(Request { id, ..request }),
            Ask::LastLineFirst(request) => Ask::LastLineFirst(Request { id, ..request }),
            Ask::Page(request) => Ask::Page(PageRequest { id, ..request }),
            Ask::Line(request) => {
                let version = if request.write { u64::from(id) + 1 } else { 0 };
                Ask::Line(LineRequest { id, version, ..request })
            }
        }
    }

    /// Submits once, at the present time.
    fn submit(&mut self, ask: Ask) -> Result<(), Full> {
        let ask = self.numbered(ask);
        self.part.submit(self.now_ps, ask)?;
        let mut taken = Taken {
            at_ps: self.now_ps,
            oldest: 0,
            line: None,
            write: false,
            answered: false,
            ahead: false,
        };
        if let Ask::Line(request) = ask {
            let versions = self.written.entry(request.address / LINE_BYTES).or_default();
            if request.write {
                versions.push(request.version);
            }
            taken.oldest = versions.last().copied().unwrap_or(0);
            taken.line = Some(request.address / LINE_BYTES);
            taken.write = request.write;
        }
        self.taken.push(taken);
        self.check_conservation();
        Ok(())
    }

    /// Submits, and where the part is full offers the request again after each of its events.
    fn offer(&mut self, ask: Ask) {
        while self.submit(ask).is_err() {
            for _ in 0..if self.insists { 2 } else { 0 } {
                assert!(self.submit(ask).is_err(), "{ask:?} is refused, and then is not");
            }
            let Some(next_ps) = self.part.next_event_ps() else {
                panic!("{ask:?} is refused at {} ps and nothing will ever happen", self.now_ps);
            };
            self.advance(next_ps);
        }
    }

    /// Advances to `now_ps` in one step.
    fn advance(&mut self, now_ps: u64) {
        let before_ps = self.now_ps;
        self.now_ps = now_ps.max(before_ps);
        let mut fresh = Vec::new();
        let announced_ps = self.part.next_event_ps();
        self.part.advance(self.now_ps, &mut fresh);
        if announced_ps.is_none_or(|at_ps| at_ps > self.now_ps) {
            assert!(fresh.is_empty(), "{fresh:?} came before the announced {announced_ps:?} ps");
        }
        for answer in fresh {
            assert!(answer.at_ps <= self.now_ps, "{answer:?} lies behind {} ps", self.now_ps);
            assert!(answer.at_ps >= before_ps, "{answer:?} was due before {before_ps} ps");
            self.take_answer(answer);
        }
        if let Some(next_ps) = self.part.next_event_ps() {
            assert!(
                next_ps > self.now_ps,
                "an event at {next_ps} ps is left at {} ps",
                self.now_ps
            );
        }
        self.check_conservation();
    }

    fn take_answer(&mut self, answer: Answer) {
        let last_ps = self.answers.last().map_or(0, |last| last.at_ps);
        assert!(answer.at_ps >= last_ps, "{answer:?} comes after one of {last_ps} ps");
        let Some(taken) = self.taken.get_mut((answer.id & !AHEAD) as usize) else {
            panic!("{answer:?} answers no request");
        };
        assert!(!taken.answered, "{answer:?} comes twice, or its request came before");
        if answer.id & AHEAD != 0 {
            assert!(!taken.ahead, "{answer:?} comes twice");
            taken.ahead = true;
            self.aheads += 1;
        } else {
            taken.answered = true;
        }
        let taken = *taken;
        let latency_ps = answer.at_ps - taken.at_ps;
        assert_eq!(answer.stages.total_ps(), latency_ps, "stages of {answer:?}, {taken:?}");
        self.check_version(answer, taken);
        self.answers.push(answer);
    }

    fn check_version(&self, answer: Answer, taken: Taken) {
        let Some(line) = taken.line.filter(|_| self.checks_data && !taken.write) else { return };
        let versions = &self.written[&line];
        assert!(
            answer.version == 0 || versions.contains(&answer.version),
            "{answer:?} returns what was never written to line {line}"
        );
        assert!(answer.version >= taken.oldest, "{answer:?} is stale: {taken:?}");
    }

    fn check_conservation(&mut self) {
        let open = self.taken.len() - (self.answers.len() - self.aheads);
        let in_flight = self.part.in_flight();
        let kept = if P::EXACT { in_flight == open } else { in_flight >= open };
        assert!(kept, "{open} requests are open, {in_flight} said to be in flight");
        let report = self.part.report();
        check_report(&self.report, &report);
        self.report = report;
    }

    /// Goes on, event by event, until nothing is in flight.
    fn drain(&mut self) {
        while self.part.in_flight() > 0 {
            let Some(next_ps) = self.part.next_event_ps() else {
                panic!("{} in flight and nothing will ever happen", self.part.in_flight());
            };
            self.advance(next_ps);
        }
        let answered = self.answers.len() - self.aheads;
        assert_eq!(answered, self.taken.len(), "requests left without an answer");
        assert_eq!(self.report.stale_reads, 0, "the part itself reports stale reads");
    }

    fn play(&mut self, script: &[(u64, Ask)]) {
        for &(gap_ps, ask) in script {
            self.advance(self.now_ps + gap_ps);
            self.offer(ask);
        }
    }

    /// As [`Run::play`], stopping at every event on the way.
    fn play_in_small_steps(&mut self, script: &[(u64, Ask)]) {
        for &(gap_ps, ask) in script {
            let until_ps = self.now_ps + gap_ps;
            while let Some(next_ps) = self.part.next_event_ps().filter(|&t| t <= until_ps) {
                self.advance(next_ps);
                self.advance((next_ps + 1).min(until_ps));
            }
            self.advance(until_ps);
            self.offer(ask);
        }
    }
}

/// Counts never go back, and parts are no larger than what they are parts of.
fn check_report(before: &OrganizationReport, now: &OrganizationReport) {
    let counts = |report: &OrganizationReport| {
        let traffic = report.traffic;
        [
            report.lookups,
            report.misses,
            report.prefetched_pages,
            report.prefetch_hits,
            report.write_backs,
            report.stale_reads,
            traffic.store_read_bytes,
            traffic.store_written_bytes,
            traffic.dram_read_bytes,
            traffic.dram_written_bytes,
        ]
    };
    let forward = counts(before).iter().zip(counts(now)).all(|(before, now)| *before <= now);
    assert!(forward, "a count goes back: {before:?}, {now:?}");
    assert!(now.misses <= now.lookups, "more misses than look-ups: {now:?}");
    assert!(now.prefetch_hits <= now.prefetched_pages, "more hits than prefetches: {now:?}");
}

fn laws<P: Part, S: Strategy<Value = Vec<(u64, Ask)>>>(
    make: impl Fn() -> P,
    scripts: impl Fn() -> S,
) {
    check("conservation, order, stages and data", scripts(), |script| {
        let mut run = Run::new(make());
        run.play(script);
        run.drain();
    });
    check("equal calls give equal answers, however finely time is cut", scripts(), |script| {
        let mut coarse = Run::new(make());
        coarse.play(script);
        coarse.drain();
        let mut fine = Run::new(make());
        fine.play_in_small_steps(script);
        fine.drain();
        assert_eq!(coarse.answers, fine.answers);
        assert_eq!(coarse.report, fine.report);
    });
    check("a refusal changes nothing", scripts(), |script| {
        let mut patient = Run::new(make());
        patient.play(script);
        patient.drain();
        let mut insistent = Run { insists: true, ..Run::new(make()) };
        insistent.play(script);
        insistent.drain();
        assert_eq!(patient.answers, insistent.answers);
    });
    check("a fork in mid-flight goes on identically", scripts(), |script| {
        let (head, tail) = script.split_at(script.len() / 2);
        let mut original = Run::new(make());
        original.play(head);
        let mut fork = original.fork();
        fork.play(tail);
        fork.drain();
        let mut second = original.fork();
        original.play(tail);
        original.drain();
        assert_eq!(original.answers, fork.answers, "the fork");
        second.play(tail);
        second.drain();
        assert_eq!(original.answers, second.answers, "the fork that waited");
        assert_eq!(original.report, fork.report, "what the fork counts");
    });
    check("queues are bounded and go on after pushing back", scripts(), |script| {
        queues_are_bounded(make(), script);
    });
}

/// Offers the script's requests over and over at one instant until one is refused, then all of
/// the script again.
fn queues_are_bounded<P: Part>(part: P, script: &[(u64, Ask)]) {
    let mut run = Run::new(part);
    let mut asks = script.iter().map(|&(_, ask)| ask).cycle();
    while let Some(ask) = asks.next()
        && run.submit(ask).is_ok()
    {
        assert!(run.taken.len() < UNBOUNDED as usize, "nothing bounds what is taken at once");
    }
    run.play(script);
    run.drain();
}

/// Flushes after the script, and then reads back every line that was written.
fn nothing_is_lost(part: OrganizationUnderTest, script: &[(u64, Ask)]) {
    let mut run = Run::new(part);
    run.play(script);
    while !run.part.0.flush(run.now_ps) {
        let Some(next_ps) = run.part.next_event_ps() else {
            panic!("dirty pages are left and nothing will ever happen");
        };
        run.advance(next_ps);
    }
    run.drain();
    let mut written: Vec<u64> = Vec::new();
    for (_, ask) in script {
        if let Ask::Line(LineRequest { address, write: true, .. }) = *ask
            && !written.contains(&address)
        {
            written.push(address);
        }
    }
    for address in written {
        run.offer(Ask::Line(LineRequest { id: 0, core: 0, address, write: false, version: 0 }));
    }
    run.drain();
}

/// Runs `law` on random values; the shortest that breaks it is told.
fn check<S: Strategy>(name: &str, values: S, law: impl Fn(&S::Value)) {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&values, |value| {
        law(&value);
        Ok::<(), TestCaseError>(())
    });
    if let Err(failure) = outcome {
        panic!("broken: {name}\n{failure}");
    }
}

/// Times between requests: none, as short as a burst, as long as a DRAM access, as a store's.
fn gaps() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..5_000u64, 1..200_000u64, 1..60_000_000u64]
}

/// Lines, pages and larger, some of them on top of each other.
fn device_requests() -> impl Strategy<Value = Ask> {
    let size = prop_oneof![4 => Just(LINE_BYTES), 3 => Just(PAGE_BYTES), 1 => Just(4 * PAGE_BYTES)];
    let place = prop_oneof![0..8u64, 0..SPACE_BYTES / LINE_BYTES];
    (place, size, 0..5u32, any::<bool>()).prop_map(|(place, bytes, kind, background)| {
        let address = place * LINE_BYTES / bytes * bytes;
        let write = kind < 2;
        let request = Request { id: 0, address, bytes: bytes as u32, write, background };
        if kind == 2 { Ask::LastLineFirst(request) } else { Ask::Device(request) }
    })
}

/// Lines: of a few pages often, so that they meet, and of all memory.
fn line_requests(memory_bytes: u64) -> impl Strategy<Value = Ask> {
    let pages = memory_bytes / PAGE_BYTES;
    let page = prop_oneof![3 => 0..pages.min(4), 2 => 0..pages.min(64), 2 => 0..pages];
    let line = prop_oneof![0..2u64, 0..PAGE_BYTES / LINE_BYTES];
    (page, line, any::<bool>()).prop_map(|(page, line, write)| {
        let address = page * PAGE_BYTES + line * LINE_BYTES;
        Ask::Line(LineRequest { id: 0, core: 0, address, write, version: 0 })
    })
}

/// Reads of lines: where pages move under the operating system's orders, only it knows which
/// version a line must have.
fn line_reads(memory_bytes: u64) -> impl Strategy<Value = Ask> {
    line_requests(memory_bytes).prop_map(|ask| match ask {
        Ask::Line(request) => Ask::Line(LineRequest { write: false, ..request }),
        other => other,
    })
}

/// Moves of one or four pages.
fn page_requests(memory_bytes: u64) -> impl Strategy<Value = Ask> {
    let size = prop_oneof![2 => Just(PAGE_BYTES), 1 => Just(4 * PAGE_BYTES)];
    let store = 0..SPACE_BYTES;
    let memory = 0..memory_bytes.min(SPACE_BYTES);
    (store, memory, size, any::<bool>(), any::<bool>()).prop_map(
        move |(store, memory, bytes, write, background)| {
            let bytes = bytes.min(memory_bytes);
            Ask::Page(PageRequest {
                id: 0,
                store_address: store / bytes * bytes,
                memory_address: (memory / bytes * bytes).min(memory_bytes - bytes),
                bytes: bytes as u32,
                write,
                background,
                force_unit_access: false,
                content: 0,
            })
        },
    )
}

#[cfg(test)]
mod tests {
    //! The suite finds what it is for: devices broken in one way each.

    use super::*;
    use crate::medium::dram::{Dram, tests::spec};
    use crate::organization::{Oracle, OracleSpec, PagesMoved};

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Fault {
        /// The tenth completion never comes.
        Loses,
        /// The tenth completion comes twice.
        Repeats,
        /// Completions of one step come in reverse.
        Reverses,
        /// A picosecond belongs to no stage.
        DropsTime,
        /// A completion is held back until the next step.
        IsLate,
        /// Its clock is counted from the last step, not from the last event.
        DependsOnSteps,
        /// A clone forgets what it has in flight.
        ForgetsOnClone,
        /// Nothing is ever refused: it waits aside, out of sight.
        HasNoBound,
        /// Once full, always full.
        StaysFull,
        /// It takes a request as background after it has refused some.
        BearsAGrudge,
    }

    struct Broken {
        dram: Dram,
        fault: Fault,
        count: u32,
        last_ps: u64,
        aside: Vec<Request>,
        late: Vec<Completion>,
        full: bool,
        refusals: u32,
    }

    impl Broken {
        fn new(fault: Fault) -> Self {
            let dram = Dram::new(&spec(), SPACE_BYTES, LINE_BYTES);
            let (aside, late) = (Vec::new(), Vec::new());
            Broken { dram, fault, count: 0, last_ps: 0, aside, late, full: false, refusals: 0 }
        }

        fn spoil(&mut self, now_ps: u64, fresh: &mut Vec<Completion>) {
            self.count += fresh.len() as u32;
            let tenth = self.count >= 10 && self.count - (fresh.len() as u32) < 10;
            match self.fault {
                Fault::Loses if tenth => drop(fresh.pop()),
                Fault::Repeats if tenth => fresh.extend(fresh.last().copied()),
                Fault::Reverses => fresh.reverse(),
                Fault::IsLate => std::mem::swap(fresh, &mut self.late),
                Fault::DropsTime => fresh.iter_mut().for_each(|c| c.at_ps += 1),
                Fault::DependsOnSteps => fresh.iter_mut().for_each(|c| {
                    let step_ps = now_ps - self.last_ps;
                    c.stages = Timeline::new();
                    c.stages.push(tierscope_kernel::Stage::Core, step_ps);
                }),
                _ => (),
            }
        }
    }

    impl Clone for Broken {
        fn clone(&self) -> Self {
            let mut copy = Broken::new(self.fault);
            if self.fault != Fault::ForgetsOnClone {
                copy.dram = self.dram.clone();
            }
            Broken {
                count: self.count,
                last_ps: self.last_ps,
                aside: self.aside.clone(),
                late: self.late.clone(),
                full: self.full,
                refusals: self.refusals,
                ..copy
            }
        }
    }

    impl Device for Broken {
        fn submit(&mut self, now_ps: u64, request: Request) -> Result<(), Full> {
            if self.full && self.fault == Fault::StaysFull {
                return Err(Full);
            }
            let grudge = self.fault == Fault::BearsAGrudge && self.refusals % 4 == 3;
            let background = request.background != grudge;
            let outcome = self.dram.submit(now_ps, Request { background, ..request });
            self.full |= outcome.is_err();
            self.refusals += u32::from(outcome.is_err());
            if outcome.is_err() && self.fault == Fault::HasNoBound {
                self.aside.push(request);
                return Ok(());
            }
            outcome
        }

        fn next_event_ps(&self) -> Option<u64> {
            self.dram.next_event_ps()
        }

        fn advance(&mut self, now_ps: u64, out: &mut Vec<Completion>) {
            let mut fresh = Vec::new();
            self.dram.advance(now_ps, &mut fresh);
            self.spoil(now_ps, &mut fresh);
            out.append(&mut fresh);
            self.last_ps = now_ps;
            self.aside.retain(|&request| self.dram.submit(now_ps, request).is_err());
        }

        fn in_flight(&self) -> usize {
            self.dram.in_flight() + self.aside.len()
        }
    }

    fn is_found(fault: Fault) -> bool {
        let checked = || device_laws(|| Broken::new(fault));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(checked)).is_err()
    }

    #[test]
    fn each_fault_is_found() {
        for fault in [
            Fault::Loses,
            Fault::Repeats,
            Fault::Reverses,
            Fault::DropsTime,
            Fault::IsLate,
            Fault::DependsOnSteps,
            Fault::ForgetsOnClone,
            Fault::HasNoBound,
            Fault::StaysFull,
            Fault::BearsAGrudge,
        ] {
            assert!(is_found(fault), "the suite passes a device that {fault:?}");
        }
    }

    /// An organization that keeps the laws, but for one.
    struct Spoiled {
        inner: Box<dyn Organization>,
        fault: Spoil,
        checks: bool,
        steps: u64,
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Spoil {
        /// None.
        Nothing,
        /// Checking data takes time.
        SlowsDown,
        /// A count goes back.
        CountsBack,
        /// It finds more misses than it looks for.
        CountsMisses,
        /// Its fork counts from 0.
        ForksCounts,
        /// Reads return no versions.
        Forgets,
    }

    impl Organization for Spoiled {
        fn memory_bytes(&self) -> u64 {
            self.inner.memory_bytes()
        }

        fn submit(&mut self, now_ps: u64, request: LineRequest) -> Result<(), Full> {
            self.inner.submit(now_ps, request)
        }

        fn submit_page(&mut self, now_ps: u64, request: PageRequest) -> Result<(), Full> {
            self.inner.submit_page(now_ps, request)
        }

        fn next_event_ps(&self) -> Option<u64> {
            self.inner.next_event_ps()
        }

        fn advance(&mut self, now_ps: u64, out: &mut Vec<Response>) {
            let before = out.len();
            self.inner.advance(now_ps, out);
            self.steps += (out.len() - before) as u64;
            for response in &mut out[before..] {
                let Response::Line(line) = response else { continue };
                if self.fault == Spoil::Forgets {
                    line.version = 0;
                }
                if self.fault == Spoil::SlowsDown && self.checks {
                    let total_ps = line.stages.total_ps();
                    line.stages = Timeline::new();
                    line.stages.push(tierscope_kernel::Stage::Core, total_ps);
                }
            }
        }

        fn in_flight(&self) -> usize {
            self.inner.in_flight()
        }

        fn warm(&mut self, now_ps: u64, core: u16, address: u64, write: bool) -> PagesMoved {
            self.inner.warm(now_ps, core, address, write)
        }

        fn flush(&mut self, now_ps: u64) -> bool {
            self.inner.flush(now_ps)
        }

        fn report(&self) -> OrganizationReport {
            let mut report = self.inner.report();
            match self.fault {
                Spoil::CountsBack => report.lookups = 100 - self.steps.min(100),
                Spoil::CountsMisses => report.misses = self.steps,
                Spoil::ForksCounts => report.write_backs = self.steps,
                _ => {}
            }
            report
        }

        fn activity(&self, now_ps: u64) -> crate::activity::Activity {
            self.inner.activity(now_ps)
        }

        fn fork(&mut self) -> Box<dyn Organization> {
            let steps = if self.fault == Spoil::ForksCounts { 0 } else { self.steps };
            Box::new(Spoiled { inner: self.inner.fork(), steps, ..*self })
        }
    }

    #[test]
    fn each_fault_of_an_organization_is_found() {
        let is_found = |fault| {
            let checked = || {
                organization_laws(|checks| {
                    let spec = OracleSpec { capacity: tierscope_units::Size::from_bytes(1 << 20) };
                    let inner = Box::new(Oracle::new(&spec, &self::spec(), LINE_BYTES, checks));
                    Box::new(Spoiled { inner, fault, checks, steps: 0 })
                });
            };
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(checked)).is_err()
        };
        assert!(!is_found(Spoil::Nothing), "the suite refuses a good organization");
        for fault in [
            Spoil::SlowsDown,
            Spoil::CountsBack,
            Spoil::CountsMisses,
            Spoil::ForksCounts,
            Spoil::Forgets,
        ] {
            assert!(is_found(fault), "the suite passes an organization that {fault:?}");
        }
    }
}
