//! Failures of power: a workload, a machine, and where power fails.

use crate::error::run_error;
use crate::job::{Source, Workload};
use pyo3::prelude::*;
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use tierscope_system::alone::Requests;
use tierscope_system::crash::{
    CrashError, CrashOptions, Watch, crash as crash_machine, crash_alone,
};
use tierscope_system::spec::SystemSpec;
use tierscope_workload::Stream;

/// How often the keyboard is looked at.
const POLL: Duration = Duration::from_millis(20);

/// What is asked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CrashJob {
    /// The machine, resolved.
    system: SystemSpec,
    /// What runs on it.
    workload: Workload,
    /// Where power fails.
    options: CrashOptions,
}

/// A workload that is about to run.
enum Given {
    Stream(Box<dyn Stream>),
    Requests(Box<[Requests; 2]>),
}

/// Why power does not fail in a recording of windows.
const NOT_OF_WINDOWS: &str = "the recording is of windows of its program, and lacks most of what would be \
                              judged; record the program whole (tierscope record without --sample)";

/// Runs a workload on a machine and lets power fail; the report, as JSON. `tell` is called with the events
/// that were looked at and the points that were judged, while it goes on.
#[pyfunction]
#[pyo3(signature = (job, tell=None))]
pub fn crash(py: Python<'_>, job: &str, tell: Option<Bound<'_, PyAny>>) -> PyResult<String> {
    let CrashJob { system, workload, options } =
        serde_json::from_str(job).map_err(|e| run_error("bad-job", e))?;
    let systems = [system];
    let prepared = py.detach(|| workload.prepare_for(&systems))?;
    prepared.check_fit(&systems)?;
    if prepared.windows.is_some() {
        return Err(run_error("usage", NOT_OF_WINDOWS));
    }
    let given = match prepared.source {
        Source::Stream(stream) => Given::Stream(stream),
        Source::Requests(arrivals) => {
            let twice =
                arrivals.for_each(2).map_err(|error| run_error("unreadable-trace", error))?;
            let twice =
                <[Requests; 2]>::try_from(twice).map_err(|_| run_error("internal", "two"))?;
            Given::Requests(Box::new(twice))
        }
    };
    let watch = Arc::new(Watch::default());
    let watched = Arc::clone(&watch);
    let under_way = thread::spawn(move || match given {
        Given::Stream(stream) => crash_machine(&systems[0], stream, &options, &watched),
        Given::Requests(twice) => crash_alone(&systems[0], *twice, &options, &watched),
    });
    let mut interrupt = Ok(());
    while !under_way.is_finished() {
        py.detach(|| thread::sleep(POLL));
        if interrupt.is_ok() {
            interrupt = py.check_signals();
            if let Some(tell) = tell.as_ref().filter(|_| interrupt.is_ok()) {
                let events = watch.events.load(Ordering::Relaxed);
                interrupt = tell.call1((events, watch.points.load(Ordering::Relaxed))).map(|_| ());
            }
            watch.stop.store(interrupt.is_err(), Ordering::Relaxed);
        }
    }
    let result =
        under_way.join().map_err(|_| run_error("internal", "a failure of power panicked"))?;
    interrupt?;
    let report = result.map_err(|error| run_error(code(&error), error))?;
    serde_json::to_string(&report).map_err(|error| run_error("internal", error))
}

fn code(error: &CrashError) -> &'static str {
    match error {
        CrashError::Machine(_) | CrashError::Alone(_) => "run-failed",
        CrashError::NotModelled(_) | CrashError::NothingPromised(..) => "not-modelled",
        CrashError::MeansNothing(..) => "no-effect",
        CrashError::NoPoint(..) | CrashError::NoSecond(..) => "no-point",
        CrashError::EmptyWindow(_) | CrashError::EndedEarly(_) => "empty-window",
        CrashError::Interrupted => "interrupted",
    }
}
