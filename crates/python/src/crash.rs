//! Failures of power: a workload, a machine, and where power fails.

use crate::error::run_error;
use crate::job::{Prepared, Source, Workload, check_not_alone};
use pyo3::prelude::*;
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tierscope_system::crash::{CrashError, CrashOptions, crash as run};
use tierscope_system::spec::SystemSpec;

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

/// Runs a workload on a machine and lets power fail; the report, as JSON.
#[pyfunction]
pub fn crash(py: Python<'_>, job: &str) -> PyResult<String> {
    let CrashJob { system, workload, options } =
        serde_json::from_str(job).map_err(|e| run_error("bad-job", e))?;
    let systems = [system];
    check_not_alone(&systems)?;
    let prepared = py.detach(|| workload.prepare_for(&systems))?;
    prepared.check_fit(&systems)?;
    let Prepared { source: Source::Stream(stream), .. } = prepared else {
        return Err(run_error("wrong-workload", "requests for devices alone run on no machine"));
    };
    let stop = Arc::new(AtomicBool::new(false));
    let stops = Arc::clone(&stop);
    let under_way = thread::spawn(move || run(&systems[0], stream, &options, &stops));
    let mut interrupt = Ok(());
    while !under_way.is_finished() {
        py.detach(|| thread::sleep(POLL));
        if interrupt.is_ok() {
            interrupt = py.check_signals();
            stop.store(interrupt.is_err(), Ordering::Relaxed);
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
        CrashError::Machine(_) => "run-failed",
        CrashError::NotModelled(_) => "not-modelled",
        CrashError::MeansNothing(..) => "no-effect",
        CrashError::NoPoint(..) => "no-point",
        CrashError::EmptyWindow(_) => "empty-window",
        CrashError::Interrupted => "interrupted",
    }
}
