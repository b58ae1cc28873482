//! Running one workload on several machines, each in a host thread of its own and at its own pace.

use crate::alone::{Alone, AloneError, Requests};
use crate::machine::{Machine, MachineError};
use crate::request_log::RequestFiles;
use crate::result::{Interval, SystemResult};
use crate::spec::SystemSpec;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tierscope_workload::windows::WindowSpec;
use tierscope_workload::{SiteGrain, Stream, StreamError};

pub use crate::machine::{Bound, Warming, mark};

/// How often an observer hears of each machine, in wall-clock time.
const REPORT_EVERY: Duration = Duration::from_millis(200);
/// How often an observer hears of each machine's result so far.
const RESULT_EVERY: Duration = Duration::from_secs(1);

/// How a run is carried out. But for the region and how it is warmed, none of these changes a complete
/// run's figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunOptions {
    /// Operations that a thread may take in a batch at most; 0 for no limit of its own.
    pub batch_limit: u64,
    /// Where the region of interest begins: nothing before it is counted. None for the start of the
    /// run.
    pub start: Option<Bound>,
    /// How what comes before the region warms the machine.
    pub warming: Warming,
    /// Where the region of interest, and with it the run, ends on each machine: at the first of
    /// these. A result that ends at a count or a time is marked partial; one that ends at a mark is
    /// complete. None for the end of the workload.
    pub stops: Vec<Bound>,
    /// How to sample the region, where not all of it is to be simulated in detail.
    pub sampling: Option<Sampling>,
    /// How finely to tell which places of the program's code cause misses and stalls; None for not at
    /// all. The workload must tell its sites as finely: see [`check_sites`].
    pub sites: Option<SiteGrain>,
    /// Files that get a row for each request, one for each system; none where it is empty: of a device
    /// alone each, of a machine those that its private caches did not serve at once, and the pages that
    /// move between memory and store.
    pub latencies: Vec<PathBuf>,
    /// Files that get the first of these requests through their stages, in the Trace Event Format, one
    /// for each system; none where it is empty.
    pub timelines: Vec<PathBuf>,
    /// Whether machines that functional warming leaves alike ([`SystemSpec::warms_as`]) are warmed once, and go on
    /// from there one after the other. That changes no figure.
    pub shares_warming: bool,
    /// Each system's workload by a number, where they differ: those that differ are warmed once as far as they begin
    /// alike ([`Stream::prelude`]). Empty where all run the same.
    pub works: Vec<u32>,
    /// Whether the region, too, only warms the machine, so that it counts and takes no time: see
    /// [`crate::counts`].
    #[serde(skip)]
    pub counts_alone: bool,
    /// The windows, of a recording that has windows of its program: not asked for, but known of the
    /// recording.
    #[serde(skip)]
    pub windows: Option<WindowSpec>,
}

/// How a run is sampled: one unit in each period is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    /// Simulated time of a unit, in picoseconds; half as much again, at least, is simulated in detail
    /// before it. None for 100 times what a page from the store takes, the kernel's path included, and
    /// 1 ms at least.
    pub unit_ps: Option<u64>,
    /// One unit in so many is measured, 3 at least; None for 20.
    pub every: Option<u64>,
}

/// Checks that a workload tells its sites as finely as is asked for. An error says what it lacks, and
/// what to do, for people.
pub fn check_sites(stream: &dyn Stream, asked: Option<SiteGrain>) -> Result<(), String> {
    match (asked, stream.sites().grain) {
        (None, _) => Ok(()),
        (Some(_), None) => Err(
            "the workload does not say where in a program's code its accesses come from; run a \
             program, as -- PROGRAM ARGS, or a recording that was made with --by function"
                .into(),
        ),
        (Some(SiteGrain::Address), Some(SiteGrain::Function)) => Err(
            "the recording tells functions only, not addresses; record it again with --by address"
                .into(),
        ),
        (Some(_), Some(_)) => Ok(()),
    }
}

/// Lets the region of interest begin where a workload marks it, if it does so in any case, as those do
/// that write to their memory first; unless it is said where it begins.
pub fn begin_at_mark(stream: &dyn Stream, options: &mut RunOptions) {
    if options.start.is_none() && stream.gives_mark(mark::START) == Some(true) {
        options.start = Some(Bound::Mark(mark::START));
    }
}

/// Lets a region that begins at a mark end with the workload, where it is known beforehand that no mark ends it.
pub fn end_with_workload(stream: &dyn Stream, options: &mut RunOptions) {
    let begins_at_mark = options.start == Some(Bound::Mark(mark::START));
    if begins_at_mark && stream.gives_mark(mark::STOP) == Some(false) {
        options.stops.retain(|stop| *stop != Bound::Mark(mark::STOP));
    }
}

/// Checks that a workload comes to the region's beginning, and gives the marks that bound it, as far as
/// that is known before it runs. An error says what it lacks, and what to do, for people.
pub fn check_region(stream: &dyn Stream, options: &RunOptions) -> Result<(), String> {
    // An access across two lines is two on a machine.
    if let (Some(Bound::Accesses(skipped)), Some(accesses)) = (options.start, stream.accesses())
        && skipped / 2 >= accesses
    {
        return Err(format!(
            "the region of interest would begin after {skipped} accesses, and the workload has about \
             {accesses}; skip fewer"
        ));
    }
    let bounds = options.start.iter().chain(&options.stops);
    for bound in bounds {
        let Bound::Mark(number) = *bound else { continue };
        if stream.gives_mark(number) == Some(false) {
            let does = if number == mark::STOP { "ends" } else { "begins" };
            return Err(format!(
                "the workload has no mark that {does} a region of interest; say the region by --skip \
                 and --limit, or, of a program, mark it in its code, or name functions that begin and \
                 end it by --roi-start and --roi-stop, of tierscope record too"
            ));
        }
    }
    Ok(())
}

/// Checks that what comes before the region can warm each machine so, which is not in detail. An error says which it
/// cannot, all of them, and why, for people.
pub fn check_functional(
    systems: &[SystemSpec],
    start: Option<Bound>,
    warming: Warming,
) -> Result<(), String> {
    let untimed = warming == Warming::Untimed;
    let (warming, so) =
        if untimed { ("untimed", "without times") } else { ("functional", "functionally") };
    if let Some(Bound::TimePs(_)) = start {
        return Err(format!(
            "a time is skipped, and {warming} warming takes none; accesses and instructions can be skipped so"
        ));
    }
    let why = |system: &SystemSpec| {
        let cannot =
            system.build_organization().is_none_or(|organization| !organization.can_warm());
        Some(match (system.stands_alone(), system.check_data, cannot) {
            (true, _, _) => "is a device alone, which has no caches to warm",
            (_, true, _) => "checks data, which needs every request",
            (_, _, true) if system.prefetches() && untimed => return None,
            (_, _, true) if system.prefetches() => {
                "has a DRAM cache that prefetches, which depends on time (without times, as `untimed` \
                 has it, all its prefetches find room)"
            }
            (_, _, true) => "has two nodes of memory, between which pages move as time goes",
            _ => return None,
        })
    };
    refuse(systems, why, |names, each, why| format!("{names} cannot be warmed {so}: {each} {why}"))
}

/// Refuses machines for which there is a reason, all of them: those with the same one are named together. `say` makes
/// the sentence of their names, of the word by which they are meant again, and of the reason.
fn refuse<W: PartialEq>(
    systems: &[SystemSpec],
    why: impl Fn(&SystemSpec) -> Option<W>,
    say: impl Fn(&str, &str, &W) -> String,
) -> Result<(), String> {
    let mut reasons: Vec<(W, Vec<&str>)> = Vec::new();
    for system in systems {
        let Some(why) = why(system) else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(&system.name),
            None => reasons.push((why, vec![&system.name])),
        }
    }
    let said = reasons.iter().map(|(why, names)| match names.as_slice() {
        [all @ .., last] if !all.is_empty() => {
            say(&format!("{} and {last}", all.join(", ")), "each", why)
        }
        all => say(&all.concat(), "it", why),
    });
    let all = said.collect::<Vec<_>>().join("; ");
    if all.is_empty() { Ok(()) } else { Err(all) }
}

/// Checks that each machine can be sampled, where what comes before the region, and what is passed over, is to warm it
/// so. An error says which cannot, all of them, and why, for people.
pub fn check_sampling(systems: &[SystemSpec], warming: Warming) -> Result<(), String> {
    let why = |system: &SystemSpec| {
        let stores = system.stores();
        let in_detail = stores.iter().any(|(_, store)| store.is_warmed_in_detail());
        let not_reached = in_detail && !system.asks_store_throughout();
        let untimed = warming == Warming::Untimed && system.prefetches();
        Some(match (system.stands_alone(), system.check_data, not_reached) {
            (true, _, _) => ("is a device alone, and samples are of machines with a processor", ""),
            (_, true, _) => ("checks data, which needs every request", ""),
            (_, _, true) => (
                "has a store whose state changes with every request (a disk's heads and buffer, an \
                 adapter's cache), and what is passed over does not reach it",
                "",
            ),
            _ if system.tiered.as_ref().is_some_and(|tiered| tiered.long_reads.is_some()) => (
                "has a store that tells of long reads, at which cores run other threads, and what is passed \
                 over tells of none",
                "leave tiered.long_reads out, or ",
            ),
            _ if system.nodes().is_some() => (
                "has two nodes of memory, between which pages move as time goes, and what is passed over does \
                 not move them in time",
                "",
            ),
            _ if system.pages_huge_pages() => (
                "pages out huge pages (os.transparent_huge_pages), for which its kernel keeps more memory free and \
                 reclaims more in one go than a unit sees",
                "set os.transparent_huge_pages=never to have none, or ",
            ),
            _ if system.prefetches() && !untimed => (
                "has a DRAM cache that prefetches, which depends on time more closely than what is passed \
                 over keeps it",
                "set hybrid.prefetch_pages=0 to have none, say --warming untimed (or warming = \"untimed\") to pass \
                 over without times what it prefetches, or ",
            ),
            _ => return None,
        })
    };
    refuse(systems, why, |names, each, (why, without)| {
        let them = if each == "it" { each } else { "them" };
        format!("{names} cannot be sampled: {each} {why}; {without}run {them} without sampling")
    })
}

/// Where a machine's run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Accesses of the program simulated.
    pub accesses: u64,
    /// Instructions of the program simulated.
    pub instructions: u64,
    /// Simulated time.
    pub time_ps: u64,
}

/// Hears of a run while it goes on. Called from the machines' host threads.
pub trait Observer: Sync {
    /// Called a few times a second of wall-clock time for each machine.
    fn progress(&self, system: usize, progress: Progress);
    /// Called at the end of each interval of simulated time.
    fn interval(&self, system: usize, interval: &Interval);
    /// Called about once a second of wall-clock time for each machine with what the run would come
    /// to if it ended now, without the interval under way.
    fn outcome(&self, _system: usize, _outcome: &Outcome) {}
}

/// Nobody hears of it.
impl Observer for () {
    fn progress(&self, _: usize, _: Progress) {}
    fn interval(&self, _: usize, _: &Interval) {}
}

/// What became of one machine's run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The machine's result, as far as it came.
    pub result: SystemResult,
    /// Why the run ended before the workload did, if so.
    pub partial_reason: Option<String>,
    /// Whether `partial_reason` is an error of the workload or of the machine's description.
    pub failed: bool,
    /// Threads that ran.
    pub threads: u32,
    /// Whether the run ended where its region of interest does, and not with the workload.
    #[serde(default)]
    pub region_ended: bool,
}

/// Runs one stream on each machine. `stop` ends all runs early, marked partial.
///
/// Outcomes come in the order of `systems`; each depends on its system and stream alone.
pub fn run_machines(
    systems: &[SystemSpec],
    streams: Vec<Box<dyn Stream>>,
    options: &RunOptions,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Vec<Outcome> {
    let alike = alike(systems, options);
    if alike.len() == systems.len() {
        let run = |index, system: &SystemSpec, stream| {
            let make = || logged(Machine::new(system, stream, options)?, index, options);
            run_one(index, make, observer, stop)
        };
        return each(systems, streams, run);
    }
    let mut streams: Vec<_> = streams.into_iter().map(Some).collect();
    let mut own = |index: usize| Some((index, streams[index].take()?));
    let groups: Vec<Vec<_>> =
        alike.into_iter().map(|group| group.into_iter().filter_map(&mut own).collect()).collect();
    let together = &Together { systems, options, observer, stop };
    let mut outcomes: Vec<Option<Outcome>> = vec![None; systems.len()];
    std::thread::scope(|scope| {
        let runs: Vec<_> =
            groups.into_iter().map(|group| scope.spawn(move || together.run(group))).collect();
        for outcome in runs.into_iter().flat_map(|run| run.join().unwrap_or_default()) {
            outcomes[outcome.0] = Some(outcome.1);
        }
    });
    outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(broken_invariant)).collect()
}

/// Systems that may be warmed together, by their places; each is in one group.
pub fn alike(systems: &[SystemSpec], options: &RunOptions) -> Vec<Vec<usize>> {
    // Without a region nothing is shared, and they run one after the other.
    let at_a_time = matches!(options.start, Some(Bound::TimePs(_)));
    let shares = options.shares_warming
        && !at_a_time
        && options.warming != Warming::Detailed
        && options.sampling.is_none();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, system) in systems.iter().enumerate() {
        let same = |group: &&mut Vec<usize>| {
            shares && !system.check_data && system.warms_as(&systems[group[0]])
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

/// A machine that tells of its requests, where that is asked for.
fn logged(
    mut machine: Machine,
    index: usize,
    options: &RunOptions,
) -> Result<Machine, MachineError> {
    let files = RequestFiles::of(options, index);
    if !files.none() {
        machine.log_requests(&files)?;
    }
    Ok(machine)
}

/// Machines that are warmed together.
struct Together<'a> {
    systems: &'a [SystemSpec],
    options: &'a RunOptions,
    observer: &'a dyn Observer,
    stop: &'a AtomicBool,
}

impl Together<'_> {
    /// Warms the first, and runs all from there on, one after the other; one that cannot go on from there, from
    /// the start.
    fn run(&self, mut group: Vec<(usize, Box<dyn Stream>)>) -> Vec<(usize, Outcome)> {
        let begun = Instant::now();
        let (first, stream) = group.remove(0);
        let mut warm = Machine::new(&self.systems[first], stream, self.options);
        let mut forks: Vec<Option<Machine>> = group.iter().map(|_| None).collect();
        if let (Ok(machine), false) = (&mut warm, group.is_empty()) {
            let mut reporter = Reporter::new(first, self.observer);
            let warmed = machine.warm_up(|machine| {
                reporter.report_now_and_then(machine);
                self.stop.load(Ordering::Relaxed)
            });
            match warmed {
                Ok(true) => {
                    let fork = |(index, stream): &(usize, Box<dyn Stream>)| {
                        let mut fork = machine.fork_for(&self.systems[*index])?;
                        let works = &self.options.works;
                        if works.get(first) == works.get(*index) {
                            return Some(fork);
                        }
                        fork.go_over_to(stream.fork()).unwrap_or(false).then_some(fork)
                    };
                    forks = group.iter().map(fork).collect();
                }
                Ok(false) => {}
                Err(error) => warm = Err(error),
            }
        }
        let mut outcomes = vec![(first, self.go_on(first, begun, warm))];
        for ((index, stream), fork) in group.into_iter().zip(forks) {
            let anew = || Machine::new(&self.systems[index], stream, self.options);
            // The warm-up was the first one's.
            outcomes.push((index, self.go_on(index, Instant::now(), fork.map_or_else(anew, Ok))));
        }
        outcomes
    }

    fn go_on(
        &self,
        index: usize,
        begun: Instant,
        machine: Result<Machine, MachineError>,
    ) -> Outcome {
        let make = || logged(machine?, index, self.options);
        let run = || run_since(begun, index, make, self.observer, self.stop);
        // What breaks in one ends that one.
        let run = std::panic::AssertUnwindSafe(run);
        std::panic::catch_unwind(run).unwrap_or_else(|_| broken_invariant())
    }
}

/// Gives each device alone a memory trace. `stop` ends all runs early, marked partial.
///
/// Outcomes come in the order of `systems`; each depends on its system and requests alone.
pub fn run_alone(
    systems: &[SystemSpec],
    requests: Vec<Requests>,
    options: &RunOptions,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Vec<Outcome> {
    each(systems, requests, |index, system, requests| {
        let files = RequestFiles::of(options, index);
        let make = || {
            let mut alone = Alone::new(system, requests, options)?;
            if !files.none() {
                alone.log_requests(&files)?;
            }
            Ok(alone)
        };
        run_one(index, make, observer, stop)
    })
}

/// Runs each system with what is its own, in a host thread of its own.
fn each<T: Send>(
    systems: &[SystemSpec],
    works: Vec<T>,
    run: impl Fn(usize, &SystemSpec, T) -> Outcome + Sync,
) -> Vec<Outcome> {
    assert_eq!(systems.len(), works.len(), "one workload for each system");
    std::thread::scope(|scope| {
        let run = &run;
        let runs: Vec<_> = systems
            .iter()
            .zip(works)
            .enumerate()
            .map(|(index, (system, work))| scope.spawn(move || run(index, system, work)))
            .collect();
        runs.into_iter().map(|run| run.join().unwrap_or_else(|_| broken_invariant())).collect()
    })
}

fn broken_invariant() -> Outcome {
    Outcome {
        partial_reason: Some("a broken invariant stopped the simulation; please report it".into()),
        failed: true,
        ..Outcome::default()
    }
}

fn failed(error: &dyn std::error::Error) -> Outcome {
    Outcome { partial_reason: Some(error.to_string()), failed: true, ..Outcome::default() }
}

/// Runs what `make` makes to its end, and tells of it meanwhile.
fn run_one<R: Running>(
    index: usize,
    make: impl FnOnce() -> Result<R, R::Error>,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Outcome {
    run_since(Instant::now(), index, make, observer, stop)
}

/// The same, of what has taken time since `begun` already.
fn run_since<R: Running>(
    begun: Instant,
    index: usize,
    make: impl FnOnce() -> Result<R, R::Error>,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Outcome {
    let reporter = Reporter { begun, ..Reporter::new(index, observer) };
    match make() {
        Ok(mut running) => follow_with(reporter, &mut running, stop),
        Err(error) => failed(&error),
    }
}

/// Runs a machine that was made already to its end, and tells of it meanwhile.
pub(crate) fn follow(
    machine: &mut Machine,
    index: usize,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Outcome {
    follow_with(Reporter::new(index, observer), machine, stop)
}

fn follow_with<R: Running>(
    mut reporter: Reporter<'_>,
    running: &mut R,
    stop: &AtomicBool,
) -> Outcome {
    let ended = running.run(|running| {
        reporter.report_now_and_then(running);
        stop.load(Ordering::Relaxed)
    });
    let mut outcome = Outcome { threads: running.threads(), ..Outcome::default() };
    match ended {
        Ok(true) => {
            let (never, ended) = (running.region_never_began(), running.region_ended_by());
            outcome.region_ended = ended.is_some();
            tell_region(never, ended, running.progress(), &mut outcome);
            if running.region_stop_was_missed() {
                outcome.partial_reason = Some(NO_STOP.into());
            }
            let early = running.ended_early().filter(|_| !outcome.region_ended && !outcome.failed);
            outcome.partial_reason = early.or(outcome.partial_reason);
        }
        Ok(false) => outcome.partial_reason = Some("the run was interrupted".into()),
        Err(error) => {
            let cut = running.cut_by(&error);
            outcome.failed = cut.is_none();
            outcome.partial_reason = Some(cut.unwrap_or_else(|| error.to_string()));
        }
    }
    outcome.result = reporter.timed(running.result());
    reporter.report(running);
    outcome
}

/// Why a run ends whose time cannot be counted.
pub(crate) const TOO_LONG: &str = "simulated time has passed 6.6 days (2^59 ps), and cannot be counted much further; look for a \
     latency or a bandwidth that is out of proportion";

/// Why a run is partial whose threads wait for what was cut off.
const CUT: &str = "the workload was cut off before what its threads wait for";

/// Why a run is partial whose region ends with the workload, and was to end at a mark.
const NO_STOP: &str = "the mark that ends the region of interest did not come after its beginning: the region \
     ends with the workload";

/// What is run, and what an observer hears of meanwhile.
trait Running: Sized {
    /// Why it cannot go on.
    type Error: std::error::Error;

    /// Runs to the end (true), or until `pause` says so (false).
    fn run(&mut self, pause: impl FnMut(&Self) -> bool) -> Result<bool, Self::Error>;
    /// Why the run is only cut short by this error, if it is: nothing is wrong with what came before.
    fn cut_by(&self, error: &Self::Error) -> Option<String>;
    fn progress(&self) -> Progress;
    fn intervals(&self) -> &[Interval];
    fn result_so_far(&self) -> SystemResult;
    /// The result, with the interval under way.
    fn result(&mut self) -> SystemResult;
    fn region_never_began(&self) -> Option<Bound>;
    fn region_ended_by(&self) -> Option<Bound>;
    /// Whether the workload ended before a mark that was to end the region.
    fn region_stop_was_missed(&self) -> bool;
    /// Why the workload ended before it had done what was asked, where it has.
    fn ended_early(&self) -> Option<String>;
    /// Software threads that have started.
    fn threads(&self) -> u32;
}

impl Running for Machine {
    type Error = MachineError;

    fn run(&mut self, pause: impl FnMut(&Self) -> bool) -> Result<bool, MachineError> {
        self.run(pause)
    }

    fn cut_by(&self, error: &MachineError) -> Option<String> {
        match error {
            MachineError::Deadlock(_) if self.workload_is_cut() => Some(CUT.into()),
            MachineError::Stream(StreamError::Cut(_)) => Some(error.to_string()),
            _ => None,
        }
    }

    fn progress(&self) -> Progress {
        Progress {
            accesses: self.accesses(),
            instructions: self.instructions(),
            time_ps: self.now_ps(),
        }
    }

    fn intervals(&self) -> &[Interval] {
        self.intervals()
    }

    fn result_so_far(&self) -> SystemResult {
        self.result_so_far()
    }

    fn result(&mut self) -> SystemResult {
        self.result()
    }

    fn region_never_began(&self) -> Option<Bound> {
        self.region_never_began()
    }

    fn region_ended_by(&self) -> Option<Bound> {
        self.region_ended_by()
    }

    fn region_stop_was_missed(&self) -> bool {
        self.region_stop_was_missed()
    }

    fn ended_early(&self) -> Option<String> {
        self.workload_ended_early()
    }

    fn threads(&self) -> u32 {
        self.threads()
    }
}

impl Running for Alone {
    type Error = AloneError;

    fn run(&mut self, pause: impl FnMut(&Self) -> bool) -> Result<bool, AloneError> {
        self.run(pause)
    }

    fn cut_by(&self, error: &AloneError) -> Option<String> {
        matches!(error, AloneError::Stream(StreamError::Cut(_))).then(|| error.to_string())
    }

    fn progress(&self) -> Progress {
        Progress { accesses: self.taken(), instructions: 0, time_ps: self.now_ps() }
    }

    fn intervals(&self) -> &[Interval] {
        self.intervals()
    }

    fn result_so_far(&self) -> SystemResult {
        self.result_so_far()
    }

    fn result(&mut self) -> SystemResult {
        self.result()
    }

    fn region_never_began(&self) -> Option<Bound> {
        self.region_never_began()
    }

    fn region_ended_by(&self) -> Option<Bound> {
        self.region_ended_by()
    }

    /// A trace has no marks.
    fn region_stop_was_missed(&self) -> bool {
        false
    }

    fn ended_early(&self) -> Option<String> {
        None
    }

    fn threads(&self) -> u32 {
        0
    }
}

/// Reports a machine, or a device alone, to an observer while it runs.
struct Reporter<'a> {
    index: usize,
    observer: &'a dyn Observer,
    begun: Instant,
    reported: Instant,
    /// When the result so far was last given, if it was.
    result_given: Option<Instant>,
    /// Intervals given so far.
    intervals: usize,
}

impl<'a> Reporter<'a> {
    fn new(index: usize, observer: &'a dyn Observer) -> Self {
        let now = Instant::now();
        Reporter { index, observer, begun: now, reported: now, result_given: None, intervals: 0 }
    }

    fn report_now_and_then(&mut self, running: &impl Running) {
        if self.reported.elapsed() < REPORT_EVERY {
            return;
        }
        self.reported = Instant::now();
        self.report(running);
        if self.result_given.is_none_or(|given| given.elapsed() >= RESULT_EVERY) {
            self.result_given = Some(self.reported);
            let result = self.timed(running.result_so_far());
            let outcome = Outcome { result, threads: running.threads(), ..Outcome::default() };
            self.observer.outcome(self.index, &outcome);
        }
    }

    fn report(&mut self, running: &impl Running) {
        self.observer.progress(self.index, running.progress());
        for interval in &running.intervals()[self.intervals..] {
            self.observer.interval(self.index, interval);
        }
        self.intervals = running.intervals().len();
    }

    /// A result with the wall-clock time that it took.
    fn timed(&self, mut result: SystemResult) -> SystemResult {
        result.wall_s = self.begun.elapsed().as_secs_f64();
        let skipped = result.skipped.map_or(0, |skipped| skipped.accesses);
        result.accesses_per_wall_s = (result.accesses + skipped) as f64 / result.wall_s.max(1e-9);
        result
    }
}

/// Says what the region of interest made of the run.
fn tell_region(
    never_began: Option<Bound>,
    ended_by: Option<Bound>,
    came_to: Progress,
    outcome: &mut Outcome,
) {
    if let Some(bound) = never_began {
        let seconds = |time_ps: u64| time_ps as f64 / 1e12;
        let place = match bound {
            Bound::Accesses(count) => {
                format!("{count} accesses, with {}; skip fewer", came_to.accesses)
            }
            Bound::Instructions(count) => {
                format!("{count} instructions, with {}; skip fewer", came_to.instructions)
            }
            Bound::TimePs(time_ps) => format!(
                "{} s of simulated time, after {} s; skip less",
                seconds(time_ps),
                seconds(came_to.time_ps)
            ),
            Bound::Mark(_) => "the mark that begins it".to_owned(),
        };
        outcome.failed = true;
        outcome.partial_reason =
            Some(format!("the region of interest never began: the workload ended before {place}"));
        return;
    }
    outcome.partial_reason = match ended_by {
        Some(Bound::Accesses(count)) => Some(format!("the limit of {count} accesses was reached")),
        Some(Bound::Instructions(count)) => {
            Some(format!("the limit of {count} instructions was reached"))
        }
        Some(Bound::TimePs(time_ps)) => {
            let limit = tierscope_units::Duration::from_picoseconds(time_ps);
            Some(format!("the limit of {limit} of simulated time was reached"))
        }
        Some(Bound::Mark(_)) | None => None,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;
    use tierscope_kernel::MOST_TIME_PS;
    use tierscope_workload::generator;

    fn gups(updates: u64) -> Box<dyn Stream> {
        let parameters = [("updates".to_owned(), updates.into())];
        generator::find("gups").unwrap().make(&parameters, 1).unwrap().0
    }

    #[test]
    fn a_region_that_cannot_come_is_refused_before_the_run() {
        let options = |start, stops: &[Bound]| RunOptions {
            start: Some(start),
            stops: stops.to_vec(),
            ..RunOptions::default()
        };
        let stream = gups(1000);
        let accesses = stream.accesses().unwrap();
        let told = |options: &RunOptions| check_region(&*stream, options).err().unwrap_or_default();
        assert_eq!(told(&options(Bound::Accesses(accesses), &[Bound::Accesses(u64::MAX)])), "");
        assert_eq!(told(&options(Bound::TimePs(u64::MAX), &[])), "");
        let beyond = told(&options(Bound::Accesses(2 * accesses), &[]));
        assert!(
            beyond.contains("and the workload has about") && beyond.ends_with("skip fewer"),
            "{beyond}"
        );
        assert!(told(&options(Bound::Mark(mark::START), &[])).contains("no mark that begins"));
        let stop = options(Bound::Accesses(1), &[Bound::Mark(mark::STOP)]);
        assert!(told(&stop).contains("no mark that ends"), "{}", told(&stop));
        // One that marks its beginning alone has a region that ends with it.
        let sets = [("steps".to_owned(), 100.into())];
        let chase = tierscope_workload::generator::find("chase").unwrap().make(&sets, 0).unwrap().0;
        let mut roi = options(Bound::Mark(mark::START), &[Bound::Mark(mark::STOP)]);
        let before = roi.clone();
        end_with_workload(&*chase, &mut roi);
        assert_eq!((check_region(&*chase, &roi), roi.stops.len()), (Ok(()), 0));
        assert!(check_region(&*chase, &before).is_err());
        assert!(told(&roi).contains("no mark that begins"), "{}", told(&roi));
    }

    /// A machine that is warm goes over to another workload that begins alike, up to where that goes on by itself; and
    /// what it then tells is what one tells that has warmed by itself.
    #[test]
    fn a_warm_machine_goes_over_to_what_begins_alike_and_to_nothing_else() {
        let spec = spec::load("storage/quick", &[]).unwrap().spec;
        let work = |name: &str, sets: &[(&str, serde_json::Value)]| {
            let sets: Vec<_> = sets.iter().map(|(p, v)| (p.to_string(), v.clone())).collect();
            generator::find(name).unwrap().make(&sets, 1).unwrap().0
        };
        let gups = |table: &str, random: f64, threads: u32| {
            let walked = ("touched", true.into());
            let (table, random) = (("table", table.into()), ("random", random.into()));
            let some = [table, random, walked, ("threads", threads.into())];
            work("gups", &[&some[..], &[("updates", 3000.into())]].concat())
        };
        let zipf =
            |steps: u64| work("zipf", &[("table", "4MiB".into()), ("accesses", steps.into())]);
        let at = |start| RunOptions { start, shares_warming: true, ..RunOptions::default() };
        let goes = |one: &dyn Stream, other: &dyn Stream, start| {
            let mut warm = Machine::new(&spec, one.fork(), &at(start)).unwrap();
            assert!(warm.warm_up(|_| false).unwrap());
            let mut fork = warm.fork_for(&spec).unwrap();
            fork.go_over_to(other.fork()).unwrap()
        };
        let pages = |count| Some(Bound::Accesses(count));
        let one = gups("4MiB", 1.0, 3);
        for (other, start, expected) in [
            (gups("4MiB", 0.0, 3), pages(1), true),
            (gups("4MiB", 0.0, 3), pages(700), true),
            (gups("4MiB", 0.0, 3), pages(1024), true),
            (gups("4MiB", 0.0, 3), pages(1025), false),
            (gups("8MiB", 0.0, 3), pages(700), false),
            (gups("4MiB", 0.0, 2), pages(700), false),
            (zipf(100), pages(700), false),
        ] {
            assert_eq!(goes(&*one, &*other, start), expected, "{start:?}");
            let run = |shares_warming, works: &[u32]| {
                let options = RunOptions { shares_warming, works: works.to_vec(), ..at(start) };
                let streams = vec![one.fork(), other.fork()];
                let stop = AtomicBool::new(false);
                let ended =
                    run_machines(&[spec.clone(), spec.clone()], streams, &options, &(), &stop);
                ended.into_iter().map(|it| SystemResult {
                    wall_s: 0.0,
                    accesses_per_wall_s: 0.0,
                    ..it.result
                })
            };
            let (shared, apart) = (run(true, &[0, 1]), run(false, &[]));
            assert!(shared.eq(apart), "{start:?}");
        }
        let marked = Some(Bound::Mark(mark::START));
        assert!(goes(&*zipf(100), &*zipf(200), marked));
        assert!(!goes(&*zipf(100), &*one, marked));
    }

    #[test]
    fn machines_that_cannot_be_warmed_functionally_are_named_with_the_reason() {
        let machine = |name: &str, sets: &[(&str, &str)]| {
            let sets: Vec<_> = sets.iter().map(|(p, v)| (p.to_string(), v.to_string())).collect();
            spec::load(name, &sets).unwrap().spec
        };
        let told = |systems: &[SystemSpec], start| {
            check_functional(systems, start, Warming::Functional).err().unwrap_or_default()
        };
        let first = machine("oracle/quick", &[]);
        let after = Some(Bound::Accesses(10));
        assert_eq!(told(&[first.clone(), machine("storage/quick", &[])], after), "");
        assert!(
            told(std::slice::from_ref(&first), Some(Bound::TimePs(10)))
                .starts_with("a time is skipped")
        );
        let untimed = |name: &str| {
            check_functional(&[machine(name, &[])], after, Warming::Untimed)
                .err()
                .unwrap_or_default()
        };
        assert_eq!(untimed("hybrid/quick"), "");
        assert!(untimed("cxl-tiering/quick").contains("two nodes"));
        let checks = machine("oracle/quick", &[("check_data", "true")]);
        let prefetches = machine("hybrid/quick", &[]);
        let alone = machine("device/ddr4-2400", &[]);
        for (system, why) in [(checks, "checks data"), (prefetches, "prefetches"), (alone, "alone")]
        {
            let told = told(&[first.clone(), system.clone()], after);
            assert!(told.starts_with(&format!("{} cannot", system.name)), "{told}");
            assert!(told.contains(why), "{told}");
        }
    }

    /// What is said of a run of a preset with absurd values, which ends before time does.
    fn ends_too_long(system: &str, sets: &[(&str, &str)], threads: u32) {
        let sets: Vec<_> =
            sets.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let system = spec::load(system, &sets).unwrap().spec;
        let parameters = [("updates", 1_000_000), ("threads", threads)]
            .map(|(name, value)| (name.to_owned(), serde_json::Value::from(value)));
        let stream = generator::find("gups").unwrap().make(&parameters, 1).unwrap().0;
        let never = AtomicBool::new(false);
        let ended = run_machines(&[system], vec![stream], &RunOptions::default(), &(), &never);
        let reason = ended[0].partial_reason.clone().unwrap_or_default();
        assert!(
            ended[0].failed && reason.starts_with("simulated time has passed 6.6 d"),
            "{reason}"
        );
        let result = &ended[0].result;
        assert!(result.time_ps <= MOST_TIME_PS, "{}", result.time_ps);
        assert!(
            result.accesses > 0
                && result.latency_ns.as_ref().unwrap().max <= MOST_TIME_PS as f64 / 1e3
        );
    }

    #[test]
    fn a_run_whose_time_cannot_be_counted_ends_with_the_reason() {
        ends_too_long("hybrid/quick", &[("store.read_latency", "1000s")], 1);
    }

    #[test]
    fn many_threads_at_a_store_of_1000_s_pass_no_limit_of_a_sum_or_of_a_stage() {
        for system in ["hybrid/quick", "storage/quick"] {
            let slow = [("store.read_latency", "1000s"), ("store.units", "1")];
            ends_too_long(system, &slow, 512);
        }
    }

    #[test]
    fn a_link_with_the_worst_packets_and_pages_ends_the_run_and_no_number() {
        let slow = [
            ("link.packet_overhead", "4KiB"),
            ("link.payload", "1B"),
            ("link.bandwidth", "1MB/s"),
            ("link.latency", "1000s"),
            // Spares the test most of its work: refreshes of days.
            ("dram.t_refi", "1000s"),
        ];
        ends_too_long("hybrid/quick", &slow, 16);
        ends_too_long("storage/quick", &slow, 16);
    }
}
