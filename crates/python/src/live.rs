//! A program under the recorder: started, followed, and made into a result.

use crate::assemble::{Known, assemble};
use crate::error::run_error;
use crate::run::{Finished, Shared};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tierscope_record::job::{MachinesJob, SinkJob};
use tierscope_record::launch::{
    Backend, LaunchError, LaunchJob, Launched, Output, QemuBackend, Report, check_under,
    launch_under,
};
use tierscope_record::signals;
use tierscope_record::sink::tst::{LEAST_MAX_BYTES, TstJob, reached};
use tierscope_record::symbols::Region;
use tierscope_system::result::{Interval, ProgramInfo, WorkloadInfo, WorkloadKind};
use tierscope_system::run::{Observer, Outcome, Progress, RunOptions};
use tierscope_system::spec::SystemSpec;
use tierscope_units::Size;
use tierscope_workload::SiteGrain;
use tierscope_workload::filter::FilterSpec;
use tierscope_workload::trace::{TstMetadata, TstReader, partial_path};
use tierscope_workload::windows::WindowSpec;

const POLL_EVERY: Duration = Duration::from_millis(50);
/// How long a program has to end by itself once it is asked to.
const GRACE: Duration = Duration::from_secs(5);
/// How long processes that have come to their end have until they are gone.
const SETTLE: Duration = Duration::from_secs(1);

/// A program to run, and what becomes of what it does.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The program and its arguments.
    command: Vec<String>,
    /// What becomes of what it does.
    to: Target,
    /// The recorder's library.
    library: PathBuf,
    /// Whether the program's standard output goes to standard error.
    output_to_stderr: bool,
    /// Whether the program runs alone before, to measure its time.
    native: bool,
    /// Operations held in memory for machines that lag, in bytes.
    memory_bound_bytes: u64,
    /// Where in its code the region of interest begins: a function's name, `[FILE:]NAME`.
    #[serde(default)]
    roi_start: Option<String>,
    /// Where it ends.
    #[serde(default)]
    roi_stop: Option<String>,
}

/// What becomes of what a program does.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
enum Target {
    /// It runs on machines.
    Machines { systems: Vec<SystemSpec>, options: RunOptions },
    /// It is recorded.
    Recording {
        path: PathBuf,
        /// How finely it tells the sites of the program's code, if it does.
        #[serde(default)]
        sites: Option<SiteGrain>,
        /// Bytes that it may have at most.
        #[serde(default)]
        max_bytes: Option<u64>,
        /// The size of the first-level cache whose hits are left out, in bytes.
        #[serde(default)]
        filter_bytes: Option<u64>,
        /// Accesses of a window that is recorded, and of the period that it is in.
        #[serde(default)]
        windows: Option<(u64, u64)>,
    },
}

impl Job {
    /// Reads a job.
    pub fn read(text: &str) -> Result<Job, PyErr> {
        let job: Job = serde_json::from_str(text).map_err(|e| run_error("bad-job", e))?;
        if job.command.is_empty() {
            return Err(run_error("no-program", "there is no program to run"));
        }
        if let Target::Machines { systems, .. } = &job.to {
            crate::job::check_names(systems)?;
            crate::job::check_not_alone(systems)?;
        }
        if let Target::Recording { max_bytes, .. } = &job.to {
            check_max_bytes(*max_bytes)?;
        }
        job.filter()?;
        job.windows()?;
        Ok(job)
    }

    /// The cache whose hits are left out of a recording, if they are.
    fn filter(&self) -> Result<Option<FilterSpec>, PyErr> {
        let Target::Recording { filter_bytes: Some(bytes), .. } = &self.to else { return Ok(None) };
        let size = Size::from_bytes(*bytes);
        let told = |(reason, mend): (String, String)| {
            run_error("impossible-value", format!("the filter's size is {size}: {reason}; {mend}"))
        };
        FilterSpec::new(size).map(Some).map_err(told)
    }

    /// The windows of the program that are recorded, where what lies between them is not.
    fn windows(&self) -> Result<Option<WindowSpec>, PyErr> {
        let Target::Recording { windows: Some((window, period)), .. } = &self.to else {
            return Ok(None);
        };
        let told = |(reason, mend): (String, String)| {
            run_error(
                "impossible-value",
                format!("windows of {window} of each {period} accesses: {reason}; {mend}"),
            )
        };
        WindowSpec::new(*window, *period).map(Some).map_err(told)
    }

    /// The machines, if any.
    pub fn systems(&self) -> &[SystemSpec] {
        match &self.to {
            Target::Machines { systems, .. } => systems,
            Target::Recording { .. } => &[],
        }
    }

    fn launch_job(&self, recorder: String) -> LaunchJob {
        let scratch_dir = std::env::temp_dir();
        let sink = match &self.to {
            Target::Machines { systems, options } => SinkJob::Machines(MachinesJob {
                systems: systems.clone(),
                options: options.clone(),
                memory_bound_bytes: self.memory_bound_bytes,
                spill_dir: scratch_dir.clone(),
            }),
            Target::Recording { path, sites, max_bytes, .. } => SinkJob::Tst(TstJob {
                path: path.clone(),
                metadata: TstMetadata {
                    command: self.command.clone(),
                    tierscope_version: crate::VERSION.into(),
                    recorder,
                    sites: *sites,
                    filter: self.filter().ok().flatten(),
                    windows: self.windows().ok().flatten(),
                },
                max_bytes: *max_bytes,
            }),
        };
        LaunchJob {
            program: OsString::from(&self.command[0]),
            arguments: self.command[1..].iter().map(OsString::from).collect(),
            sink,
            library: self.library.clone(),
            scratch_dir,
            output: if self.output_to_stderr { Output::StandardError } else { Output::Inherit },
            native: self.native,
            region: Region { start: self.roi_start.clone(), stop: self.roi_stop.clone() },
        }
    }
}

/// Refuses a program, given as a job, that cannot run under the recorder, as far as that shows before it
/// runs.
#[pyfunction]
pub fn check_program(py: Python<'_>, job: &str) -> PyResult<()> {
    let job: Job = serde_json::from_str(job).map_err(|e| run_error("bad-job", e))?;
    py.detach(|| {
        let backend = QemuBackend::find()?;
        check_under(&backend, &job.launch_job(backend.describe()))
    })
    .map_err(|error| {
        let (code, message) = refused(error);
        run_error(code, message)
    })
}

/// Refuses a size that holds no recording.
fn check_max_bytes(max_bytes: Option<u64>) -> Result<(), PyErr> {
    let least = Size::from_bytes(LEAST_MAX_BYTES);
    match max_bytes.map(Size::from_bytes) {
        Some(size) if size < least => Err(run_error(
            "impossible-value",
            format!(
                "the largest size is {size}, and a recording takes {least}; write {least} or more"
            ),
        )),
        _ => Ok(()),
    }
}

/// Runs the program to its end, or to the end that was asked for.
pub fn follow(job: &Job, shared: &Shared) -> Finished {
    let backend = QemuBackend::find().map_err(refused)?;
    let launched = launch_under(&backend, &job.launch_job(backend.describe())).map_err(refused)?;
    let (report, ended_by_us) = attend(launched, shared).map_err(refused)?;
    let exit_status = (!ended_by_us).then_some(report.exit_status);
    match &job.to {
        Target::Machines { systems, .. } => {
            Ok(on_machines(job, systems, shared, &report, exit_status))
        }
        Target::Recording { path, max_bytes, .. } => {
            recorded(path, *max_bytes, shared, &report, exit_status)
        }
    }
}

fn refused(error: LaunchError) -> (&'static str, String) {
    let code = match &error {
        LaunchError::QemuMissing => "no-qemu",
        LaunchError::NotQemu { .. }
        | LaunchError::QemuWithoutPlugins { .. }
        | LaunchError::QemuTooOld { .. } => "unfit-qemu",
        LaunchError::ProgramUnnamed | LaunchError::ProgramMissing { .. } => "no-program",
        LaunchError::ProgramUnfit { .. } => "unfit-program",
        LaunchError::NoPlace(_) => "bad-region",
        LaunchError::LibraryMissing { .. } => "no-recorder",
        LaunchError::Unfit { .. } => "bad-path",
        LaunchError::Io { .. } | LaunchError::NotStarted { .. } => "not-started",
    };
    (code, error.to_string())
}

/// Follows a program to its end. Also whether that end was ours: a program whose recording has
/// come to an early end is asked to end, with all its processes, and then made to.
fn attend(mut launched: Launched, shared: &Shared) -> Result<(Report, bool), LaunchError> {
    // Since when the recorder, and then the program, has been asked to end.
    let mut stopping: Option<Instant> = None;
    let mut early_end: Option<Instant> = None;
    let mut answered = false;
    while launched.wait_for(POLL_EVERY)?.is_none() {
        for record in launched.poll() {
            note(&record, shared);
            answered |= record["type"] == "ended";
            if record["type"] == "result" && record["ended"]["how"] == "stopped" {
                launched.signal_all(libc::SIGTERM)?;
                early_end = Some(Instant::now());
            }
        }
        if stopping.is_none() && shared.stop.load(Ordering::Relaxed) {
            stopping = Some(Instant::now());
            launched.stop()?;
        }
        if !answered && early_end.is_none() && stopping.is_some_and(|at| at.elapsed() > GRACE) {
            // It is stopped, or stuck: what it published remains.
            early_end = stopping;
        }
        if early_end.is_some_and(|since| since.elapsed() > GRACE) {
            launched.kill()?;
        }
    }
    launched.poll().iter().for_each(|record| note(record, shared));
    end_others(&mut launched, shared, early_end)?;
    Ok((launched.finish()?, early_end.is_some()))
}

/// Ends the processes that are left of a program whose first has ended: nobody follows them any more.
/// `asked` is when they were asked to, if they were.
fn end_others(
    launched: &mut Launched,
    shared: &Shared,
    asked: Option<Instant>,
) -> Result<(), LaunchError> {
    let wait = |launched: &mut Launched, until: Instant| loop {
        let left = launched.alive()?;
        let stopped = asked.is_none() && shared.stop.load(Ordering::Relaxed);
        if left == 0 || stopped || Instant::now() >= until {
            return Ok(left);
        }
        std::thread::sleep(POLL_EVERY);
    };
    if let Some(asked) = asked {
        wait(launched, asked + GRACE)?;
    } else if let left @ 1.. = wait(launched, Instant::now() + SETTLE)? {
        let (plural, were) = if left == 1 { ("", "was") } else { ("es", "were") };
        launched.add_notice(format!(
            "{left} other process{plural} of the program still ran when it was over, and {were} ended"
        ));
        launched.signal_all(libc::SIGTERM)?;
        wait(launched, Instant::now() + GRACE)?;
    }
    // What is left is killed as `launched` is finished.
    Ok(())
}

/// Takes what concerns a machine, or how far a recording is.
fn note(record: &Value, shared: &Shared) {
    if record["type"] == "progress" && record["sink"]["kind"] == "tst" {
        shared.recording(json!({
            "accesses": record["recorded"]["accesses"],
            "file_bytes": record["sink"]["written_bytes"],
            "elapsed_s": record["recorded_s"],
        }));
    }
    let Some(system) = record["system"].as_u64() else { return };
    let system = system as usize;
    if let Ok(progress) = serde_json::from_value::<Progress>(record["progress"].clone()) {
        shared.progress(system, progress);
    }
    if let Ok(interval) = serde_json::from_value::<Interval>(record["interval"].clone()) {
        shared.interval(system, &interval);
    }
    if let Ok(outcome) = serde_json::from_value::<Outcome>(record["outcome"].clone()) {
        shared.outcome(system, &outcome);
    }
}

fn recorded(
    path: &Path,
    max_bytes: Option<u64>,
    shared: &Shared,
    report: &Report,
    exit_status: Option<i32>,
) -> Finished {
    let sink = report.result.as_ref().map(|result| result["sink"].clone());
    let sink = sink.unwrap_or_else(|| what_is_left(path));
    if let Some(error) = sink["error"].as_str() {
        return Err(("not-recorded", format!("{}: {error}", path.display())));
    }
    let mut reasons = [why_ended(shared, report), missing(report)].concat();
    let full = max_bytes.filter(|_| sink["full"] == true);
    reasons.extend(full.map(reached));
    Ok(json!({
        "recording": sink,
        "full": full.is_some(),
        "reasons": reasons,
        "notices": report.notices,
        "exit_status": exit_status,
    }))
}

/// What a recording that was never completed can be replayed of. One that holds nothing is removed.
fn what_is_left(path: &Path) -> Value {
    let partial = partial_path(path);
    let Ok(reader) = TstReader::open(&partial, true) else { return Value::Null };
    if reader.operations() == 0 {
        // That it is still there would mislead, and no more.
        let _ = std::fs::remove_file(&partial);
        return Value::Null;
    }
    json!({
        "partial": partial.to_string_lossy(),
        "totals": {"operations": reader.operations(), "threads": reader.threads().len()},
        "file_bytes": reader.file_bytes(),
    })
}

fn on_machines(
    job: &Job,
    systems: &[SystemSpec],
    shared: &Shared,
    report: &Report,
    exit_status: Option<i32>,
) -> Value {
    let outcomes = report.result.as_ref().map(|result| result["sink"]["outcomes"].clone());
    let outcomes = outcomes.and_then(|found| serde_json::from_value::<Vec<Outcome>>(found).ok());
    let outcomes = outcomes.filter(|found| found.len() == systems.len());
    let (mut ended, missing) = (why_ended(shared, report), missing(report));
    if outcomes.is_none() && ended.is_empty() && missing.is_empty() {
        ended.push("the machines reported no result".into());
    }
    let outcomes = match outcomes {
        Some(outcomes) => outcomes.into_iter().map(Some).collect(),
        None => (0..systems.len()).map(|index| salvaged(shared, index)).collect(),
    };
    let workload = WorkloadInfo {
        name: program_name(&job.command[0]),
        kind: WorkloadKind::Live,
        command: Some(job.command.clone()),
        parameters: Default::default(),
        seed: 0,
        threads: 0,
    };
    let program = Some(program_info(report, exit_status));
    let known = Known { workload, program, ended, missing, remarks: Vec::new(), is_sample: false };
    assemble(known, systems, outcomes)
}

fn program_name(command: &str) -> String {
    let name = Path::new(command).file_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| command.to_owned())
}

/// The signal that killed the program, where the recorder heard of it.
fn killer(report: &Report) -> Option<i32> {
    let number = report.result.as_ref()?["ended"]["number"].as_i64()?;
    i32::try_from(number).ok()
}

fn killed(signal: i32) -> String {
    format!("{} killed the program", signals::describe(signal))
}

/// What is said where QEMU ends and the program has not.
fn emulator_ended(status: i32) -> String {
    match status {
        129.. => format!("{} ended QEMU, which ran the program", signals::describe(status - 128)),
        _ => format!("QEMU, which ran the program, ended by itself with status {status}"),
    }
}

/// What of the program was not seen.
fn missing(report: &Report) -> Vec<String> {
    report.errors.iter().chain(&report.unseen).cloned().collect()
}

/// Why the recording ended before the program did, or the program before its time.
fn why_ended(shared: &Shared, report: &Report) -> Vec<String> {
    let mut reasons: Vec<String> = shared.stopped().into_iter().collect();
    let ended = report.result.as_ref().map(|result| &result["ended"]);
    match ended.and_then(|ended| ended["how"].as_str()) {
        Some("exec") => {
            let other = ended.and_then(|ended| ended["program"].as_str()).unwrap_or("another");
            reasons.push(format!("the program ran {other} in its place"));
        }
        Some("signal") => reasons.extend(killer(report).map(killed)),
        Some("unsaid") => reasons.push(emulator_ended(report.exit_status)),
        None if report.exit_status > 128 => reasons.push(killed(report.exit_status - 128)),
        None => reasons.push("the recorder ended without a result".into()),
        _ => {}
    }
    reasons
}

/// What a machine that was killed last reported.
fn salvaged(shared: &Shared, system: usize) -> Option<Outcome> {
    let mut outcome = shared.last_outcome(system)?;
    outcome.result.notes.push(
        "the figures are those that the machine last reported, which it does once a second: it \
         was killed"
            .into(),
    );
    Some(outcome)
}

fn program_info(report: &Report, exit_status: Option<i32>) -> ProgramInfo {
    let last = report.result.as_ref().or(report.progress.as_ref());
    let last = last.cloned().unwrap_or_default();
    let accesses = last["recorded"]["accesses"].as_u64().unwrap_or(0);
    let recorded_s = last["recorded_s"].as_f64().unwrap_or(report.wall_s);
    ProgramInfo {
        exit_status,
        native_s: report.native_s,
        recorded_s: report.wall_s,
        slowdown_against_native: report.native_s.map(|native_s| report.wall_s / native_s),
        accesses,
        instructions: last["recorded"]["instructions"].as_u64().unwrap_or(0),
        delivered_accesses_per_s: accesses as f64 / recorded_s.max(1e-9),
        seen: seen(report),
    }
}

/// How much of the program was seen, in words.
fn seen(report: &Report) -> String {
    let how = report.result.as_ref().and_then(|result| result["ended"]["how"].as_str());
    let mut seen = match how {
        Some("exit") => "seen from its first instruction to its exit".to_owned(),
        Some("exec") => "seen until it ran another program in its place".into(),
        Some("signal") => "seen from its first instruction until a signal killed it".into(),
        Some("unsaid") => "seen from its first instruction until QEMU, which ran it, ended".into(),
        Some("broken") => "seen until the recorder failed".into(),
        Some(_) => "seen until the run was ended early".into(),
        None => "seen until it was killed".into(),
    };
    for notice in &report.notices {
        seen.push_str("; ");
        seen.push_str(notice);
    }
    seen
}
