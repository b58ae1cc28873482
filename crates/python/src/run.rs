//! A run under way: started, watched, stopped and collected from Python.

use crate::error::run_error;
use crate::job::{Job, Prepared};
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tierscope_system::result::{
    Completeness, Interval, RunResult, SCHEMA, SystemResult, WorkloadInfo,
};
use tierscope_system::run::{Observer, Outcome, Progress, run_machines};
use tierscope_system::spec::SystemSpec;
use tierscope_workload::Stream;

/// A run of a generated or recorded workload, in host threads of its own.
///
/// Python polls it, so that it stays answerable to the keyboard.
#[pyclass(frozen)]
pub struct Run {
    shared: Arc<Shared>,
}

struct Shared {
    stop: AtomicBool,
    state: Mutex<State>,
    finished: Condvar,
}

#[derive(Default)]
struct State {
    progress: Vec<Progress>,
    intervals: Vec<Vec<Interval>>,
    /// Why the run was told to stop.
    stopped: Option<String>,
    result: Option<Finished>,
}

/// What a run left.
#[derive(Clone)]
struct Finished {
    result: RunResult,
    /// Errors, by the machine that they stopped.
    failures: Vec<(String, String)>,
}

#[pymethods]
impl Run {
    /// Starts a job, given as JSON.
    #[staticmethod]
    fn start(py: Python<'_>, job: &str) -> PyResult<Run> {
        let Job { systems, workload, options } = Job::read(job)?;
        let Prepared { stream, info, cut } = py.detach(|| workload.prepare())?;
        let shared = Arc::new(Shared::new(systems.len()));
        let ours = shared.clone();
        std::thread::Builder::new()
            .name("tierscope-run".into())
            .spawn(move || {
                let streams: Vec<Box<dyn Stream>> = systems.iter().map(|_| stream.fork()).collect();
                drop(stream);
                let outcomes = run_machines(&systems, streams, &options, &*ours, &ours.stop);
                let stopped = ours.lock().stopped.clone();
                ours.finish(assemble(info, [cut, stopped], &systems, outcomes));
            })
            .map_err(|error| run_error("no-thread", error))?;
        Ok(Run { shared })
    }

    /// Waits until the run has ended, for so long at most; whether it has.
    fn wait(&self, py: Python<'_>, seconds: f64) -> bool {
        let limit = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        py.detach(|| {
            let state = self.shared.lock();
            let waited = self
                .shared
                .finished
                .wait_timeout_while(state, limit, |state| state.result.is_none());
            waited.unwrap_or_else(PoisonError::into_inner).0.result.is_some()
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

    /// The result, the intervals of each machine, and what failed, as JSON. Once it has ended.
    fn result(&self) -> PyResult<String> {
        let state = self.shared.lock();
        let finished = state.result.as_ref();
        let finished =
            finished.ok_or_else(|| run_error("still-running", "the run has not ended yet"))?;
        Ok(json!({
            "result": finished.result,
            "intervals": state.intervals.iter().map(|i| columns(i)).collect::<Vec<_>>(),
            "failures": finished.failures,
        })
        .to_string())
    }
}

impl Shared {
    fn new(systems: usize) -> Shared {
        let state = State {
            progress: vec![Progress::default(); systems],
            intervals: vec![Vec::new(); systems],
            ..State::default()
        };
        Shared { stop: AtomicBool::new(false), state: Mutex::new(state), finished: Condvar::new() }
    }

    /// What is under the lock is replaced or appended whole, so that a panic leaves it usable.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, finished: Finished) {
        self.lock().result = Some(finished);
        self.finished.notify_all();
    }
}

impl Observer for Shared {
    fn progress(&self, system: usize, progress: Progress) {
        self.lock().progress[system] = progress;
    }

    fn interval(&self, system: usize, interval: &Interval) {
        self.lock().intervals[system].push(interval.clone());
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

/// One result of all outcomes. `known` are reasons why it is partial that hold for all machines.
fn assemble(
    workload: WorkloadInfo,
    known: [Option<String>; 2],
    systems: &[SystemSpec],
    outcomes: Vec<Outcome>,
) -> Finished {
    let threads = outcomes.iter().map(|outcome| outcome.threads).max().unwrap_or(0);
    let mut reasons: Vec<String> = known.into_iter().flatten().collect();
    let explained = !reasons.is_empty();
    let mut failures = Vec::new();
    let mut results = BTreeMap::new();
    for (system, outcome) in systems.iter().zip(outcomes) {
        match outcome.partial_reason {
            Some(reason) if outcome.failed => {
                failures.push((system.name.clone(), reason.clone()));
                reasons.push(format!("{}: {reason}", system.name));
            }
            Some(reason) if !explained && !reasons.contains(&reason) => reasons.push(reason),
            _ => {}
        }
        results.insert(system.name.clone(), outcome.result);
    }
    compare_with_oracle(systems, &mut results);
    let complete = reasons.is_empty();
    let result = RunResult {
        version: crate::VERSION.into(),
        schema: SCHEMA,
        workload: WorkloadInfo { threads, ..workload },
        completeness: if complete { Completeness::Complete } else { Completeness::Partial },
        partial_reason: (!complete).then(|| reasons.join("; ")),
        program: None,
        systems: results,
    };
    Finished { result, failures }
}

/// Fills in the slowdown against the machine named `oracle`, else the first that is one.
fn compare_with_oracle(systems: &[SystemSpec], results: &mut BTreeMap<String, SystemResult>) {
    let named = systems.iter().find(|system| system.name == "oracle");
    let oracle = named.or_else(|| systems.iter().find(|system| system.oracle.is_some()));
    let time_s = oracle.and_then(|oracle| results.get(&oracle.name)).map(|result| result.time_s);
    let Some(time_s) = time_s.filter(|time_s| *time_s > 0.0) else { return };
    for result in results.values_mut() {
        result.slowdown = Some(result.time_s / time_s);
    }
}
