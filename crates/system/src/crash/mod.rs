//! Failures of power: a workload runs once, and at each chosen point a fork of what lies below the caches
//! loses its power, recovers, and is judged. `docs/models/power-failure.md` says what is modelled.

mod failures;
mod points;
mod report;
mod timeline;

pub use points::{Point, Points};
pub use report::{CrashReport, Failing, FaultyLine, Moment, Range};
pub use timeline::Track;

use crate::alone::{Alone, AloneError, Requests, with_barriers};
use crate::machine::{Machine, MachineError};
use crate::run::RunOptions;
use crate::spec::SystemSpec;
use failures::{Cut, Failures, Judged};
use points::Choice;
use serde::Deserialize;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;
use tierscope_model::organization::{Durable, Organization};
use tierscope_model::power::{Judge, PowerFailure, UnderWay, Weakness};
use tierscope_workload::Stream;
use timeline::Timeline;

/// Events of a point's timeline that come before it.
const BEFORE: usize = 24;

/// How power is to fail.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CrashOptions {
    /// At so many points; None for every event of the window.
    pub points: Option<u64>,
    /// Points where something is under way that could be harmed, each kind as often as others.
    pub adversarial: bool,
    /// From when until when, in picoseconds of simulated time; None for the whole run.
    pub window_ps: Option<(u64, u64)>,
    /// Of the choice of points.
    pub seed: u64,
    /// What is left out on purpose.
    pub weaken: Vec<Weakness>,
    /// This point alone, with its timeline.
    pub replay: Option<Point>,
}

/// Why there is nothing to report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CrashError {
    /// The machine cannot run the workload.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The device alone cannot go on.
    #[error(transparent)]
    Alone(#[from] AloneError),
    /// There is no model of what survives.
    #[error(
        "what survives a failure of power is not modelled for {0}: its store may lose what it has answered, and \
         does not tell what it holds. It is modelled for every organization before a store that keeps what it \
         has answered ([store], [nvm], [ssd] with capacitors or without write-back, [disk] without a write \
         cache), for storage also before [ramdisk] and any [ssd] or [disk], for HAMS before [ssd], and for [ssd] and [disk] \
         alone or side by side"
    )]
    NotModelled(String),
    /// Nothing is promised that could be broken.
    #[error(
        "{0} promises nothing that a failure of power could break: {1}, and nobody finds again what they held; try a \
         machine with files on a store, such as storage/ext4"
    )]
    NothingPromised(String, &'static str),
    /// A weakness that the machine cannot have.
    #[error("{0} has nothing that {1} could take away; leave it out")]
    MeansNothing(String, &'static str),
    /// No such point.
    #[error(
        "the run has no point {0}: it has {1} events; name a point that a run of the same machine, \
         workload and seed has told"
    )]
    NoPoint(Point, u64),
    /// The recovery is over before power is to fail again.
    #[error(
        "power cannot fail again at {0}: the recovery after its first event has {1} events; name a point \
         that a run of the same machine, workload and seed has told"
    )]
    NoSecond(Point, u64),
    /// The window holds nothing.
    #[error("nothing happens below the caches in the window; the run ends at {0} ps")]
    EmptyWindow(u64),
    /// The workload ended before anything happened.
    #[error("nothing happens below the caches: {0}")]
    EndedEarly(String),
    /// It was told to stop.
    #[error("interrupted")]
    Interrupted,
}

/// What another thread may see of a run, and say to it.
#[derive(Debug, Default)]
pub struct Watch {
    /// The run is to end.
    pub stop: AtomicBool,
    /// Events that were looked at to choose points, then points that were judged.
    pub events: AtomicU64,
    /// See above.
    pub points: AtomicU64,
}

/// What runs while power may fail.
trait Running: Sized {
    /// Goes on until something happens below: when; `None` at the end.
    fn go_on(&mut self) -> Result<Option<u64>, CrashError>;

    /// Why the workload ended before it had done what was asked, where it has.
    fn ended_early(&self) -> Option<String> {
        None
    }

    /// Of whose parts power fails.
    fn organization_mut(&mut self) -> &mut dyn Organization;

    /// Bytes of what is judged.
    fn unit_bytes(&mut self) -> u64;

    /// What that is.
    fn judged(&mut self) -> &'static str;

    /// Its memory is flushed, besides what it does by itself; whether that is done.
    fn flush(&mut self, now_ps: u64) -> bool;

    /// Syncs of files that have promised something, where there are any.
    fn syncs(&mut self) -> Option<u64> {
        None
    }
}

impl Running for Machine {
    fn go_on(&mut self) -> Result<Option<u64>, CrashError> {
        Ok(Machine::go_on(self)?)
    }

    fn ended_early(&self) -> Option<String> {
        self.workload_ended_early()
    }

    fn organization_mut(&mut self) -> &mut dyn Organization {
        Machine::organization_mut(self)
    }

    fn unit_bytes(&mut self) -> u64 {
        let own = Machine::organization_mut(self).power().and_then(|power| power.unit_bytes());
        own.unwrap_or(self.line_bytes())
    }

    fn judged(&mut self) -> &'static str {
        let has_files = |power: &mut dyn PowerFailure| power.files().is_some();
        match Machine::organization_mut(self).power_mut().is_some_and(has_files) {
            true => "files",
            false => "lines",
        }
    }

    fn flush(&mut self, now_ps: u64) -> bool {
        self.flush_besides(now_ps)
    }

    fn syncs(&mut self) -> Option<u64> {
        Machine::syncs(self)
    }
}

impl Running for Alone {
    fn go_on(&mut self) -> Result<Option<u64>, CrashError> {
        Ok(Alone::go_on(self)?)
    }

    fn organization_mut(&mut self) -> &mut dyn Organization {
        Alone::organization_mut(self)
    }

    fn unit_bytes(&mut self) -> u64 {
        Alone::unit_bytes(self)
    }

    fn judged(&mut self) -> &'static str {
        "pages"
    }

    fn flush(&mut self, now_ps: u64) -> bool {
        Alone::organization_mut(self).flush(now_ps)
    }
}

/// Runs a workload on a machine, and lets power fail as `options` say.
pub fn crash(
    spec: &SystemSpec,
    stream: Box<dyn Stream>,
    options: &CrashOptions,
    watch: &Watch,
) -> Result<CrashReport, CrashError> {
    let spec = SystemSpec { check_data: true, ..spec.clone() };
    let mut machine = Machine::new(&spec, stream, &RunOptions::default())?;
    prepare(&spec, machine.organization_mut(), &options.weaken)?;
    machine.follow_files(&options.weaken);
    let scout = machine.fork();
    let_power_fail(&spec.name, (machine, scout), options, watch)
}

/// Gives a drive alone requests, twice the same, with flushes and trims among them, and lets power fail as
/// `options` say.
pub fn crash_alone(
    spec: &SystemSpec,
    requests: [Requests; 2],
    options: &CrashOptions,
    watch: &Watch,
) -> Result<CrashReport, CrashError> {
    let spec = SystemSpec { check_data: false, ..spec.clone() };
    let made = |requests| -> Result<Alone, CrashError> {
        let mut alone = Alone::new(&spec, with_barriers(requests), &RunOptions::default())?;
        prepare(&spec, alone.organization_mut(), &options.weaken)?;
        Ok(alone)
    };
    let [one, other] = requests;
    let (alone, scout) = (made(one)?, made(other)?);
    let_power_fail(&spec.name, (alone, scout), options, watch)
}

/// Lets the power of `run` fail; `scout` is the same, to look ahead.
fn let_power_fail<R: Running>(
    name: &str,
    (mut machine, mut scout): (R, R),
    options: &CrashOptions,
    watch: &Watch,
) -> Result<CrashReport, CrashError> {
    let all = Instant::now();
    let line_bytes = machine.unit_bytes();
    let mut choice = choose(&mut scout, options, watch)?;
    let mut report = CrashReport::new(name, options);
    report.judged = machine.judged();
    if let Some(power) = machine.organization_mut().power() {
        report.guarantees = Some(power.guarantees());
    }
    thread::scope(|scope| {
        let mut failures = Failures::new(scope, Judge::new(line_bytes));
        let mut timeline = options.replay.map(|_| Timeline::new(line_bytes));
        let mut before: VecDeque<Moment> = VecDeque::new();
        let (mut event, began) = (0, Instant::now());
        let mut flushes = Flushes::of(machine.organization_mut());
        let mut add = |judged: &Judged| {
            report.add(judged, line_bytes);
            watch.points.fetch_add(1, Ordering::Relaxed);
        };
        while let Some(at_ps) = flushes.go_on(&mut machine)? {
            let under_way = match timeline.is_some() || choice.may_take(event, at_ps) {
                true => under_way(machine.organization_mut()),
                false => UnderWay::default(),
            };
            if let Some(timeline) = &mut timeline {
                before.truncate(BEFORE);
                before.push_front(Moment::event(at_ps, &under_way));
                if let Some(power) = machine.organization_mut().power_mut() {
                    let touched = failures.judge.follow(power);
                    timeline.look(at_ps, power, &touched);
                }
            }
            let taken = choice.may_take(event, at_ps);
            let taken = taken.then(|| choice.take(event, at_ps, &under_way)).flatten();
            if let Some(second) = taken {
                let cut = Cut { point: Point { event, second }, at_ps, under_way };
                failures.begin(machine.organization_mut(), cut);
                if options.replay.is_none()
                    && failures.are_enough()
                    && let Some(judged) = failures.next()
                {
                    add(&judged);
                    failures.forget(judged);
                }
            }
            event += 1;
            if choice.is_done(event, at_ps) {
                break;
            }
            if event % 256 == 0 && watch.stop.load(Ordering::Relaxed) {
                return Err(CrashError::Interrupted);
            }
        }
        let mut last = None;
        while let Some(judged) = failures.next() {
            add(&judged);
            last = Some(judged);
        }
        if let Some(point) = options.replay {
            let judged = last.as_mut().ok_or(CrashError::NoPoint(point, event))?;
            if judged.point().second != point.second {
                return Err(CrashError::NoSecond(point, judged.failure.events));
            }
            report.draw(before.drain(..).rev(), judged.cut.at_ps, &judged.failure);
            if let (Some(timeline), Some(power)) = (timeline, judged.fork.power()) {
                report.requests = timeline.end(power, &judged.failure.verdict.faults);
            }
        }
        report.events = choice.events().unwrap_or(event);
        report.syncs = machine.syncs();
        report.ended_early = machine.ended_early().or_else(|| scout.ended_early());
        report.end(began.elapsed(), all.elapsed());
        Ok(())
    })?;
    Ok(report)
}

/// Events between two flushes of an organization that promises nothing without.
const FLUSH_EVERY: u64 = 512;

/// Flushes that come by themselves, where only these make a promise.
#[derive(Clone, Copy, Debug)]
struct Flushes {
    wanted: bool,
    under_way: bool,
    events: u64,
}

impl Flushes {
    fn of(organization: &dyn Organization) -> Self {
        let wanted = organization.power().is_some_and(|power| power.promises_by_flush());
        Flushes { wanted, under_way: false, events: 0 }
    }

    /// The machine goes on to its next event, after which a flush may begin, or be done.
    fn go_on<R: Running>(&mut self, machine: &mut R) -> Result<Option<u64>, CrashError> {
        let at_ps = machine.go_on()?;
        self.events += 1;
        self.under_way |= self.wanted && self.events.is_multiple_of(FLUSH_EVERY);
        if let Some(at_ps) = at_ps.filter(|_| self.under_way) {
            self.under_way = !machine.flush(at_ps);
        }
        Ok(at_ps)
    }
}

fn under_way(organization: &dyn Organization) -> UnderWay {
    organization.power().map(|power| power.under_way()).unwrap_or_default()
}

/// Why there is no model of what survives.
fn not_modelled(spec: &SystemSpec) -> CrashError {
    match spec.tiering {
        Some(_) => CrashError::NothingPromised(
            spec.name.clone(),
            "both of its memories ([tiering]) are taken for volatile",
        ),
        None => CrashError::NotModelled(spec.name.clone()),
    }
}

fn prepare(
    spec: &SystemSpec,
    organization: &mut dyn Organization,
    weaken: &[Weakness],
) -> Result<(), CrashError> {
    let unknown = || not_modelled(spec);
    if spec.storage.as_ref().is_some_and(|storage| storage.tmpfs.is_some()) {
        let reason = "all files are in memory and swap ([storage.tmpfs])";
        return Err(CrashError::NothingPromised(spec.name.clone(), reason));
    }
    // What on-chip caches keep is the machine's.
    let (on_chip, below): (Vec<_>, Vec<_>) =
        weaken.iter().copied().partition(|one| *one == Weakness::NoLineWriteBack);
    let in_memory = spec.processor.is_some() && spec.paging().is_none();
    if let Some(one) = on_chip.first()
        && !(in_memory && organization.durable() != Durable::Never)
    {
        return Err(CrashError::MeansNothing(spec.name.clone(), one.name()));
    }
    match organization.power_mut().ok_or_else(unknown)?.prepare(&below) {
        Ok(()) => Ok(()),
        Err(None) => Err(unknown()),
        Err(Some(one)) => Err(CrashError::MeansNothing(spec.name.clone(), one.name())),
    }
}

/// Which points: where they have to be drawn, a scout runs ahead and looks what there is.
fn choose<R: Running>(
    scout: &mut R,
    options: &CrashOptions,
    watch: &Watch,
) -> Result<Choice, CrashError> {
    let points = match (options.replay, options.points) {
        (Some(point), _) => return Ok(Choice::one(point)),
        (None, None) => return Ok(Choice::every(options)),
        (None, Some(points)) => points,
    };
    let window = options.window_ps.unwrap_or((0, u64::MAX));
    let (mut kinds, mut first, mut end_ps) = (Vec::new(), 0, 0);
    let mut flushes = Flushes::of(scout.organization_mut());
    while let Some(at_ps) = flushes.go_on(scout)? {
        end_ps = at_ps;
        if at_ps >= window.1 {
            break;
        }
        if at_ps < window.0 {
            first += 1;
        } else {
            kinds.push(under_way(scout.organization_mut()).kinds());
        }
        watch.events.fetch_add(1, Ordering::Relaxed);
        if kinds.len() % 256 == 0 && watch.stop.load(Ordering::Relaxed) {
            return Err(CrashError::Interrupted);
        }
    }
    if kinds.is_empty() {
        let early = scout.ended_early().map(CrashError::EndedEarly);
        return Err(early.unwrap_or(CrashError::EmptyWindow(end_ps)));
    }
    if points >= kinds.len() as u64 {
        return Ok(Choice::every(options));
    }
    Ok(Choice::drawn(options, points, first, &kinds))
}
