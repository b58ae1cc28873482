//! A run under way: started, watched, stopped and collected from Python.

use crate::assemble::{Known, assemble, filtered, in_windows};
use crate::error::run_error;
use crate::job::{Job, Prepared, Source, Workload};
use crate::live;
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tierscope_system::counts;
use tierscope_system::result::{Interval, WorkloadInfo, WorkloadKind};
use tierscope_system::run::{
    Observer, Outcome, Progress, RunOptions, begin_at_mark, check_region, check_sites,
    end_with_workload, run_alone, run_machines,
};
use tierscope_system::spec::SystemSpec;
use tierscope_workload::Stream;

/// A run in host threads of its own: of a generated or recorded workload, or of a program.
///
/// Python polls it, so that it stays answerable to the keyboard.
#[pyclass(frozen)]
pub struct Run {
    shared: Arc<Shared>,
}

/// What a run came to, as JSON, or a code and a message.
pub type Finished = Result<Value, (&'static str, String)>;

/// What a run's threads and Python share.
pub struct Shared {
    /// Whether the run is to end early.
    pub stop: AtomicBool,
    state: Mutex<State>,
    finished: Condvar,
}

#[derive(Default)]
struct State {
    progress: Vec<Progress>,
    /// How far a recording is.
    recording: Option<Value>,
    intervals: Vec<Vec<Interval>>,
    /// What each machine's run would come to if it had ended when it last said so.
    outcomes: Vec<Option<Outcome>>,
    /// Why the run was told to stop.
    stopped: Option<String>,
    finished: Option<Finished>,
}

#[pymethods]
impl Run {
    /// Starts a job: a generated or recorded workload on machines.
    #[staticmethod]
    fn start(py: Python<'_>, job: &str) -> PyResult<Run> {
        let Job { systems, workload, works, mut options, apart } = Job::read(job)?;
        let (streams, infos) = prepare_each(py, works, &systems, &options)?;
        let prepared = prepare(py, workload, &systems, &mut options)?;
        let Prepared { source, info, damage, cut, missing, filter, windows, .. } = prepared;
        let own = move |systems: &[SystemSpec]| filter.map(|filter| filtered(filter, systems));
        let is_sample = windows.is_some();
        options.windows = windows.as_ref().map(|windows| windows.spec);
        let of_all = windows.map(|windows| in_windows(&windows, options.start.is_some()));
        let count = systems.len();
        let source = match source {
            Source::Stream(_) if !streams.is_empty() => Ok(streams),
            Source::Stream(stream) => Ok(systems.iter().map(|_| stream.fork()).collect::<Vec<_>>()),
            Source::Requests(arrivals) => Err(py
                .detach(move || arrivals.for_each(count))
                .map_err(|error| run_error("unreadable-trace", error))?),
        };
        Run::spawn(systems.len(), move |shared| {
            let outcomes = match source {
                Ok(streams) => run_machines(&systems, streams, &options, shared, &shared.stop),
                Err(requests) => run_alone(&systems, requests, &options, shared, &shared.stop),
            };
            let at_the_end = outcomes.iter().any(|outcome| !outcome.region_ended);
            let cut = damage.or(cut.filter(|_| at_the_end));
            let ended: Vec<String> = cut.into_iter().chain(shared.stopped()).collect();
            let told = |systems: &[SystemSpec], info: &WorkloadInfo, outcomes| {
                let remarks = own(systems).into_iter().flatten().chain(of_all.clone()).collect();
                let known = Known {
                    workload: info.clone(),
                    program: None,
                    ended: Vec::clone(&ended),
                    missing: missing.clone(),
                    remarks,
                    is_sample,
                };
                assemble(known, systems, outcomes)
            };
            let mut outcomes = outcomes.into_iter().map(Some);
            if !apart {
                return Ok(told(&systems, &info, outcomes.collect()));
            }
            let mut infos = infos.iter();
            let alone = |one| {
                let info = infos.next().unwrap_or(&info);
                told(one, info, outcomes.by_ref().take(1).collect())
            };
            Ok(systems.chunks(1).map(alone).collect())
        })
    }

    /// Starts a job that counts alone, without times: machines that one pass serves
    /// ([`tierscope_system::counts::together`]).
    #[staticmethod]
    fn count(py: Python<'_>, job: &str) -> PyResult<Run> {
        let Job { systems, workload, mut options, .. } = Job::read(job)?;
        let prepared = prepare(py, workload, &systems, &mut options)?;
        let Prepared { source, damage, cut, missing, windows, .. } = prepared;
        let Source::Stream(stream) = source else {
            return Err(run_error("wrong-workload", "requests for a device alone are no accesses"));
        };
        options.windows = windows.map(|windows| windows.spec);
        counts::check(&systems, &options).map_err(|e| run_error("usage", e))?;
        Run::spawn(systems.len(), move |shared| {
            let counted = counts::count(&systems, stream, &options, shared, &shared.stop);
            let cut = damage.or(cut.filter(|_| !counted.region_ended));
            let own = counted.partial_reason.filter(|_| cut.is_none() || counted.failed);
            let reasons: Vec<String> =
                cut.into_iter().chain(shared.stopped()).chain(own).chain(missing).collect();
            Ok(json!({
                "counts": counted.counts,
                "partial_reason": (!reasons.is_empty()).then(|| reasons.join("; ")),
                "failed": counted.failed,
                "threads": counted.threads,
            }))
        })
    }

    /// Starts a program under the recorder: on machines, or to a recording.
    #[staticmethod]
    fn launch(job: &str) -> PyResult<Run> {
        let job = live::Job::read(job)?;
        Run::spawn(job.systems().len(), move |shared| live::follow(&job, shared))
    }

    /// Waits until the run has ended, for so long at most; whether it has.
    fn wait(&self, py: Python<'_>, seconds: f64) -> bool {
        let limit = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        py.detach(|| {
            let state = self.shared.lock();
            let unfinished = |state: &mut State| state.finished.is_none();
            let waited = self.shared.finished.wait_timeout_while(state, limit, unfinished);
            waited.unwrap_or_else(PoisonError::into_inner).0.finished.is_some()
        })
    }

    /// Ends the run early: its result is marked partial, for this reason.
    fn stop(&self, reason: String) {
        self.shared.lock().stopped.get_or_insert(reason);
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Where each machine stands, as a JSON list.
    fn progress(&self) -> String {
        json!(self.shared.lock().progress).to_string()
    }

    /// How far a recording is: accesses, bytes of the file, and seconds since it began, as JSON; `null`
    /// where that is not known yet.
    fn recording(&self) -> String {
        json!(self.shared.lock().recording).to_string()
    }

    /// What the run came to, and the intervals of each machine, as JSON. Once it has ended.
    fn result(&self) -> PyResult<String> {
        let state = self.shared.lock();
        let intervals: Vec<Value> = state.intervals.iter().map(|i| columns(i)).collect();
        match &state.finished {
            Some(Ok(finished)) => {
                Ok(json!({"finished": finished, "intervals": intervals}).to_string())
            }
            Some(Err((code, message))) => Err(run_error(code, message)),
            None => Err(run_error("still-running", "the run has not ended yet")),
        }
    }
}

/// Makes a workload ready for machines that it fits, and in which it comes to its region.
fn prepare(
    py: Python<'_>,
    workload: Workload,
    systems: &[SystemSpec],
    options: &mut RunOptions,
) -> PyResult<Prepared> {
    let prepared = py.detach(|| workload.prepare_for(systems))?;
    prepared.check_fit(systems)?;
    if let Source::Stream(stream) = &prepared.source {
        check_sites(&**stream, options.sites).map_err(|e| run_error("no-code", e))?;
        if prepared.info.kind == WorkloadKind::Generated {
            begin_at_mark(&**stream, options);
        }
        end_with_workload(&**stream, options);
        check_region(&**stream, options).map_err(|e| run_error("bad-region", e))?;
    }
    Ok(prepared)
}

/// Streams, a machine each, and what their results say of them.
type OfEach = (Vec<Box<dyn Stream>>, Vec<WorkloadInfo>);

/// The workloads that machines have of their own, ready for each, and what a result says of them; none where all have
/// the same.
fn prepare_each(
    py: Python<'_>,
    works: Vec<Workload>,
    systems: &[SystemSpec],
    options: &RunOptions,
) -> PyResult<OfEach> {
    let wrong = |why| run_error("bad-job", why);
    let mut distinct = Vec::new();
    for work in works {
        let prepared = prepare(py, work, systems, &mut options.clone())?;
        match prepared.source {
            Source::Stream(stream) if prepared.info.kind == WorkloadKind::Generated => {
                distinct.push((stream, prepared.info));
            }
            _ => return Err(wrong("only generated workloads begin alike")),
        }
    }
    let own = |work: &u32| {
        let (stream, info) = distinct.get(*work as usize)?;
        Some((stream.fork(), info.clone()))
    };
    let each: Option<OfEach> = options.works.iter().map(own).collect();
    each.filter(|(each, _)| each.is_empty() || each.len() == systems.len())
        .ok_or_else(|| wrong("options.works does not give each machine one of works"))
}

/// Raises what keeps a job from starting, as far as it shows before it runs.
#[pyfunction]
pub fn check_job(py: Python<'_>, job: &str) -> PyResult<()> {
    let Job { systems, workload, mut options, .. } = Job::read(job)?;
    prepare(py, workload, &systems, &mut options).map(drop)
}

impl Run {
    /// Runs `body` in a thread of its own. Whatever happens in it, the run ends.
    fn spawn(
        systems: usize,
        body: impl FnOnce(&Shared) -> Finished + Send + 'static,
    ) -> PyResult<Run> {
        let shared = Arc::new(Shared::new(systems));
        let ours = shared.clone();
        std::thread::Builder::new()
            .name("tierscope-run".into())
            .spawn(move || {
                let body = std::panic::AssertUnwindSafe(|| body(&ours));
                let broken = || "a broken invariant stopped the run; please report it".to_owned();
                let finished =
                    std::panic::catch_unwind(body).unwrap_or_else(|_| Err(("internal", broken())));
                ours.lock().finished = Some(finished);
                ours.finished.notify_all();
            })
            .map_err(|error| run_error("no-thread", error))?;
        Ok(Run { shared })
    }
}

impl Shared {
    fn new(systems: usize) -> Shared {
        let state = State {
            progress: vec![Progress::default(); systems],
            intervals: vec![Vec::new(); systems],
            outcomes: vec![None; systems],
            ..State::default()
        };
        Shared { stop: AtomicBool::new(false), state: Mutex::new(state), finished: Condvar::new() }
    }

    /// What is under the lock is replaced or appended whole, so that a panic leaves it usable.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A recording is so far.
    pub fn recording(&self, recording: Value) {
        self.lock().recording = Some(recording);
    }

    /// Why the run was told to stop, if it was.
    pub fn stopped(&self) -> Option<String> {
        self.lock().stopped.clone()
    }

    /// What a machine that ended without a word last said that its run came to, if it ever did.
    /// Intervals after that are forgotten.
    pub fn last_outcome(&self, system: usize) -> Option<Outcome> {
        let mut state = self.lock();
        let outcome = state.outcomes[system].take();
        let end_ps = outcome.as_ref().map_or(0, |outcome| outcome.result.time_ps);
        state.intervals[system].retain(|interval| interval.end_ps <= end_ps);
        outcome
    }
}

impl Observer for Shared {
    fn progress(&self, system: usize, progress: Progress) {
        self.lock().progress[system] = progress;
    }

    fn interval(&self, system: usize, interval: &Interval) {
        self.lock().intervals[system].push(interval.clone());
    }

    fn outcome(&self, system: usize, outcome: &Outcome) {
        self.lock().outcomes[system] = Some(outcome.clone());
    }
}

/// Intervals as columns, which a table is made of at once.
fn columns(intervals: &[Interval]) -> Value {
    let mut columns: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for interval in intervals {
        let Value::Object(fields) = json!(interval) else { continue };
        for (name, value) in fields {
            columns.entry(name).or_default().push(value);
        }
    }
    json!(columns)
}
