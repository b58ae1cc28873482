//! Passes over traces: converted, or looked into; started, watched, stopped and collected from Python.

use crate::assemble::{filtered, of_windows};
use crate::error::{run_error, spec_error};
use crate::job::{Source, Workload};
use crate::requests::{as_said, files, frequency, is_program, unknown_format, unopened};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tierscope_kernel::Clock;
use tierscope_system::result::WorkloadKind;
use tierscope_system::run::mark;
use tierscope_units::{Problem, Problems, reason};
use tierscope_workload::requests::profile::{Profile, profile, profile_threads};
use tierscope_workload::requests::{
    Accesses, Choices, ConvertError, Converted, First, Format, How, InstructionSource, Output,
    Packing, Passed, RequestSource, Times, convert, convert_instructions, find, is_open_already,
    is_under_way,
};
use tierscope_workload::trace::copy::{CopyError, CopyOptions, record_stream};
use tierscope_workload::trace::tst::{ADVICE_VERSION, FILES_VERSION, NAMES_VERSION};
use tierscope_workload::trace::{TstMetadata, partial_path};
use tierscope_workload::{Stream, StreamError};

/// Bytes of a memory's line, and of a store's page: what is counted in unless it is said.
const LINE_BYTES: u64 = 64;
const PAGE_BYTES: u64 = 4096;
/// The target that is no format of requests.
const RECORDING: &str = "trace";
/// The longest interval that may be said: that of patterns.
const MOST_INTERVAL_PS: u64 = 1_000_000_000_000;

/// What is to be read: of which workload, and how much of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct From {
    workload: Workload,
    /// Requests at most.
    limit: Option<u64>,
}

/// What is to be converted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConvertJob {
    from: From,
    /// The target's format and file.
    format: String,
    path: PathBuf,
    /// The clock that cycles are of, such as `1.2GHz`.
    clock: Option<String>,
    /// Time from one request to the next where the source has no times, such as `10ns`.
    interval: Option<String>,
    line_bytes: Option<u64>,
    /// How the target is written.
    #[serde(default)]
    parameters: Map<String, Value>,
    /// Whether a file that is there may be replaced.
    replace: bool,
}

/// What is to be looked into.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileJob {
    from: From,
    block_bytes: Option<u64>,
}

/// What is read, and what is known of it.
struct Opened {
    what: What,
    /// Requests at most.
    limit: Option<u64>,
    clock: Option<Clock>,
    remarks: Vec<String>,
    file: Option<PathBuf>,
    /// The same one instruction after the other, where it is to be converted so.
    instructions: Option<InstructionSource>,
    /// Whether a program was recorded, of whose flushes no addresses are known.
    recorded: bool,
    /// The version of recordings that tells as much of what becomes of files.
    tells_of_files: u32,
}

/// What is read.
enum What {
    /// What threads do.
    Threads(Box<Accesses>),
    /// Requests for a device.
    Requests(Box<dyn RequestSource>),
}

impl What {
    fn source(&mut self) -> &mut dyn RequestSource {
        match self {
            What::Threads(accesses) => &mut **accesses,
            What::Requests(source) => &mut **source,
        }
    }

    /// As requests, so many at most.
    fn into_source(self, limit: Option<u64>) -> Box<dyn RequestSource> {
        let source: Box<dyn RequestSource> = match self {
            What::Threads(accesses) => accesses,
            What::Requests(source) => source,
        };
        match limit {
            Some(limit) => Box::new(First::new(source, limit)),
            None => source,
        }
    }
}

/// What a pass came to, as JSON, or a code and a message.
type Ended = Result<Value, (&'static str, String)>;

/// A pass over a trace in a host thread of its own. Python polls it, so that it stays answerable to the
/// keyboard.
#[pyclass(frozen)]
pub struct Pass {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    passed: Passed,
    ended: Option<Ended>,
}

#[pymethods]
impl Pass {
    /// Starts to convert a trace to a file of another format.
    #[staticmethod]
    fn convert(py: Python<'_>, job: &str) -> PyResult<Pass> {
        let job: ConvertJob =
            serde_json::from_str(job).map_err(|error| run_error("bad-job", error))?;
        if job.format == RECORDING {
            return record(py, job);
        }
        let format = target_format(&job.format)?;
        let mut how = how(&job)?;
        how.choices = target_choices(format, &job)?;
        let instructions = py.detach(|| instructions_of(&job.from.workload, format))?;
        let mut opened = py.detach(|| open(job.from))?;
        opened.instructions = instructions;
        how.clock = how.clock.or(opened.clock);
        check_target(&job.path, opened.file.as_deref(), job.replace)?;
        Pass::spawn(move |shared| convert_to(opened, format, &how, &job.path, shared))
    }

    /// Starts to look into a trace.
    #[staticmethod]
    fn profile(py: Python<'_>, job: &str) -> PyResult<Pass> {
        let job: ProfileJob =
            serde_json::from_str(job).map_err(|error| run_error("bad-job", error))?;
        let said = job.block_bytes.map(|bytes| power_of_two("block", bytes)).transpose()?;
        let mut opened = py.detach(|| open(job.from))?;
        let block_bytes = said.unwrap_or(match opened.what.source().times() {
            Times::Ps(_) => PAGE_BYTES,
            Times::Cycles | Times::Absent => LINE_BYTES,
        });
        fit(&mut opened, block_bytes)?;
        Pass::spawn(move |shared| profiled(opened, block_bytes, shared))
    }

    /// Waits until the pass has ended, for so long at most; whether it has.
    fn wait(&self, py: Python<'_>, seconds: f64) -> bool {
        let limit = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        py.detach(|| {
            let unfinished = |state: &mut State| state.ended.is_none();
            let waited =
                self.shared.ended.wait_timeout_while(self.shared.lock(), limit, unfinished);
            waited.unwrap_or_else(PoisonError::into_inner).0.ended.is_some()
        })
    }

    /// Ends the pass early: nothing is written, and what was found is of a part.
    fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Requests read so far, and the share of the source that they are, about, or nothing.
    fn progress(&self) -> (u64, Option<f64>) {
        let Passed { requests, share } = self.shared.lock().passed;
        (requests, share)
    }

    /// What the pass came to, as JSON. Once it has ended.
    fn result(&self) -> PyResult<String> {
        match &self.shared.lock().ended {
            Some(Ok(found)) => Ok(found.to_string()),
            Some(Err((code, message))) => Err(run_error(code, message)),
            None => Err(run_error("still-running", "the pass has not ended yet")),
        }
    }
}

impl Pass {
    /// Runs `body` in a thread of its own. Whatever happens in it, the pass ends.
    fn spawn(body: impl FnOnce(&Shared) -> Ended + Send + 'static) -> PyResult<Pass> {
        let shared = Arc::new(Shared::default());
        let ours = shared.clone();
        std::thread::Builder::new()
            .name("tierscope-pass".into())
            .spawn(move || {
                let body = std::panic::AssertUnwindSafe(|| body(&ours));
                let broken = || "a broken invariant stopped the pass; please report it".to_owned();
                let ended =
                    std::panic::catch_unwind(body).unwrap_or_else(|_| Err(("internal", broken())));
                ours.lock().ended = Some(ended);
                ours.ended.notify_all();
            })
            .map_err(|error| run_error("no-thread", error))?;
        Ok(Pass { shared })
    }
}

/// One that nobody waits for any more, as where an interrupt came while it started, ends: what it has half written
/// goes. Where what it reads from or writes to does not answer, it is left to itself.
impl Drop for Pass {
    fn drop(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(5);
        self.stop();
        let unfinished = |state: &mut State| state.ended.is_none();
        drop(self.shared.ended.wait_timeout_while(self.shared.lock(), PATIENCE, unfinished));
    }
}

impl Shared {
    /// What is under the lock is replaced whole, so that a panic leaves it usable.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn goes_on(&self, passed: Passed) -> bool {
        self.lock().passed = passed;
        !self.stopped()
    }
}

/// Opens what is to be read.
fn open(from: From) -> PyResult<Opened> {
    let prepared = from.workload.prepare()?;
    let file = prepared.info.parameters.get("file").and_then(Value::as_str).map(PathBuf::from);
    let recorded = prepared.info.kind == WorkloadKind::Recorded;
    let (limit, tells_of_files) = (from.limit, prepared.tells_of_files);
    match prepared.source {
        Source::Stream(stream) => {
            let what = What::Threads(Box::new(Accesses::of(stream, None)));
            let mut remarks = prepared.filter.map(|it| filtered(it, &[])).unwrap_or_default();
            remarks.extend(prepared.windows.as_ref().map(|windows| {
                let what = of_windows(windows);
                format!("{what} What lies between windows is not among these requests.")
            }));
            remarks.extend(prepared.damage.into_iter().chain(prepared.cut));
            if !prepared.missing.is_empty() {
                remarks.push(format!("Missing: {}", prepared.missing.join("; ")));
            }
            Ok(Opened {
                what,
                limit,
                clock: None,
                remarks,
                file,
                instructions: None,
                recorded,
                tells_of_files,
            })
        }
        Source::Requests(arrivals) => {
            let (source, clock) = arrivals.into_source()?;
            let what = What::Requests(source);
            let remarks = Vec::new();
            Ok(Opened {
                what,
                limit,
                clock,
                remarks,
                file,
                instructions: None,
                recorded,
                tells_of_files,
            })
        }
    }
}

/// What is not in recordings before a version of what calls do to files: which calls, and in words.
const UNTOLD: [(u32, &[&str], &str); 3] = [
    (
        FILES_VERSION,
        &["deletes", "copies", "splices", "allocates", "holes"],
        "A recording before version 7 tells neither that files were deleted, nor that opening emptied one, nor what the \
         kernel copied between files (copy_file_range, sendfile); a file that has the number of a deleted one counts as \
         that, and a call with several buffers as several. Record it again.",
    ),
    (
        NAMES_VERSION,
        &["renames", "links", "directories", "lists"],
        "A recording before version 8 tells of no directories, and of files that are renamed only which are deleted by \
         it. Record it again.",
    ),
    (
        ADVICE_VERSION,
        &["advices"],
        "A recording before version 9 tells of no advice on files. Record it again.",
    ),
];

/// That a limit has cut a trace short.
fn limited(profile: &Profile, limit: Option<u64>) -> Option<String> {
    let limit = limit.filter(|_| !profile.complete && !profile.interrupted)?;
    Some(format!("Of the first {limit} alone, as the limit says."))
}

/// What a workload asks for.
fn profiled(opened: Opened, block_bytes: u64, shared: &Shared) -> Ended {
    let unreadable = |error: StreamError| ("unreadable-trace", error.to_string());
    let Opened { what, limit, mut remarks, recorded, tells_of_files, .. } = opened;
    let goes_on = |passed| shared.goes_on(passed);
    let mut accesses = match what {
        What::Threads(accesses) => accesses,
        What::Requests(_) => {
            let mut source = what.into_source(None);
            let found = profile(&mut *source, block_bytes, limit, goes_on).map_err(unreadable)?;
            remarks.extend(source.remarks());
            remarks.extend(limited(&found, limit));
            return Ok(json!({"profile": found, "remarks": remarks}));
        }
    };
    let found = profile_threads(&mut accesses, block_bytes, limit, goes_on).map_err(unreadable)?;
    remarks.extend(accesses.remarks());
    remarks.extend(limited(&found.profile, limit));
    let (mut beside, mut files) = (json!(found.beside), json!(found.files));
    if recorded && found.beside.line_flushes == 0 {
        beside["line_flushes"] = Value::Null;
    }
    for (version, untold, remark) in UNTOLD {
        if found.files.is_some() && tells_of_files < version {
            untold.iter().for_each(|call| files["calls"][*call] = Value::Null);
            remarks.push(remark.to_owned());
        }
    }
    let kept = found.files.as_ref().map(|files| &files.accesses);
    Ok(json!({
        "profile": found.profile,
        "files": files,
        "file_accesses": kept,
        "threads": beside,
        "remarks": remarks,
    }))
}

/// Tells a source what is moved as one.
fn fit(opened: &mut Opened, unit_bytes: u64) -> PyResult<()> {
    opened.what.source().fit(unit_bytes).map_err(|error| run_error("unreadable-trace", error))
}

/// The instructions of a trace, where both formats tell them one by one or by their count.
fn instructions_of(source: &Workload, target: &Format) -> PyResult<Option<InstructionSource>> {
    let Workload::Requests { format, path, .. } = source else { return Ok(None) };
    let Some(found) = find(format) else { return Ok(None) };
    InstructionSource::open(&files(path), found, target).map_err(unopened)
}

fn target_format(name: &str) -> PyResult<&'static Format> {
    let Some(format) = find(name) else {
        let path = "the target".into();
        return Err(problem(Problem { path, ..unknown_format(name) }));
    };
    if !format.is_written() {
        let error = ConvertError::OnlyRead(format.name);
        return Err(run_error("unknown-format", error));
    }
    Ok(format)
}

/// What was said of how the target is written; what its source is read by, where that is of the same format.
fn target_choices(format: &Format, job: &ConvertJob) -> PyResult<Choices> {
    let options = format.writer.map_or(&[][..], |writer| writer.options);
    let at = |name: &str| format!("target.{name}");
    let known = |name: &str| options.iter().any(|option| option.name == name);
    let mut choices = Choices::new();
    if let Workload::Requests { format: of_source, parameters, .. } = &job.from.workload
        && of_source == format.name
    {
        let same = parameters.iter().filter(|(name, _)| known(name));
        choices.extend(same.map(|(name, value)| (name.clone(), as_said(value))));
    }
    let mut problems = Problems::new();
    for (name, value) in &job.parameters {
        if known(name) {
            choices.insert(name.clone(), as_said(value));
            continue;
        }
        let names: Vec<&str> = options.iter().map(|option| option.name).collect();
        problems.push(Problem {
            code: "unknown-key",
            path: at(name),
            value: value.to_string(),
            reason: format!("how {} is written has no such parameter", format.name),
            mend: match &names[..] {
                [] => "leave it out".to_owned(),
                names => format!("its parameters are {}", names.join(", ")),
            },
            place: String::new(),
        });
    }
    if !problems.is_empty() {
        return Err(spec_error(&problems));
    }
    let wrong = format.writer.and_then(|writer| (writer.new)(&choices).err());
    match wrong {
        Some(error) => Err(impossible(&at(error.name), &error.value, error.reason, &error.mend)),
        None => Ok(choices),
    }
}

/// What was said of what the formats leave open.
fn how(job: &ConvertJob) -> PyResult<How> {
    let mut how = How::default();
    if let Some(clock) = &job.clock {
        let clock = frequency("clock", &Value::from(clock.as_str()))?;
        how.clock = Some(Clock::from_hertz(clock.hertz()));
    }
    if let Some(interval) = &job.interval {
        let parsed = interval.parse::<tierscope_units::Duration>();
        let known = parsed.as_ref().map(|time| time.picoseconds());
        match known {
            Ok(ps) if ps <= MOST_INTERVAL_PS => how.interval_ps = Some(ps),
            _ => {
                let reason = match parsed {
                    Err(error) => error.reason,
                    Ok(_) => "requests are 1s apart at most".into(),
                };
                return Err(impossible("interval", interval, reason, "write 10ns, or another"));
            }
        }
    }
    if let Some(bytes) = job.line_bytes {
        how.line_bytes = power_of_two("line", bytes)? as u32;
    }
    Ok(how)
}

fn power_of_two(what: &str, bytes: u64) -> PyResult<u64> {
    if bytes.is_power_of_two() && (8..=1 << 30).contains(&bytes) {
        return Ok(bytes);
    }
    let reason = format!("a {what} has a power of two of bytes, from 8B to 1GiB");
    Err(impossible(what, &format!("{bytes} bytes"), reason, "write 64B, or 4KiB"))
}

fn impossible(path: &str, value: &str, reason: String, mend: &str) -> PyErr {
    problem(Problem {
        code: "impossible-value",
        path: path.into(),
        value: value.into(),
        reason,
        mend: mend.into(),
        place: String::new(),
    })
}

fn problem(problem: Problem) -> PyErr {
    let mut problems = Problems::new();
    problems.push(problem);
    spec_error(&problems)
}

/// Starts to write a workload of threads as a recording.
fn record(py: Python<'_>, job: ConvertJob) -> PyResult<Pass> {
    let of_requests = [
        ("clock", job.clock.is_some()),
        ("interval", job.interval.is_some()),
        ("line", job.line_bytes.is_some()),
        ("target", !job.parameters.is_empty()),
    ];
    if let Some((name, _)) = of_requests.iter().find(|(_, said)| *said) {
        let why = format!("`{name}` is of requests, and a recording has what threads do");
        return Err(run_error("no-effect", why));
    }
    if Packing::of(&job.path) != Packing::Plain {
        let name = job.path.with_extension("");
        let why = format!("a recording is compressed by itself; name it {}", name.display());
        return Err(run_error("unwritable", why));
    }
    let From { workload, limit } = job.from;
    let for_device = |name: &str| {
        let why = format!(
            "{name} is requests for a device, and a recording has what threads do; traces of \
             programs can become one, such as lackey:FILE or champsim:FILE, and workloads of \
             threads, such as gups"
        );
        run_error("wrong-workload", why)
    };
    if let Workload::Requests { format, .. } = &workload
        && find(format).is_some()
        && !is_program(format)
    {
        return Err(for_device(format));
    }
    let prepared = py.detach(|| workload.prepare_for(&[]))?;
    let file = prepared.info.parameters.get("file").and_then(Value::as_str).map(PathBuf::from);
    check_target(&job.path, file.as_deref(), job.replace)?;
    let partial = partial_path(&job.path);
    if partial.exists() {
        return Err(run_error("unwritable", is_under_way(&partial)));
    }
    let info = &prepared.info;
    let stream = match prepared.source {
        Source::Stream(stream) => stream,
        Source::Requests(_) => return Err(for_device(&info.name)),
    };
    if prepared.filter.is_some() || prepared.windows.is_some() {
        let why = "a recording that lacks a part of its program (--filter-l1, --sample) is not \
                   written again; copy its file, or record the program again";
        return Err(run_error("wrong-workload", why));
    }
    let parameters = info.parameters.iter().map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("{name}={text}")
    });
    let command = match &info.command {
        Some(command) => command.clone(),
        None => std::iter::once(info.name.clone()).chain(parameters).collect(),
    };
    let options = CopyOptions {
        metadata: TstMetadata {
            command,
            tierscope_version: crate::VERSION.into(),
            recorder: format!("tierscope convert {}", crate::VERSION),
            ..TstMetadata::default()
        },
        most: limit,
        missing: prepared.missing,
        ended: prepared.damage.or(prepared.cut),
    };
    Pass::spawn(move |shared| record_to(stream, &job.path, &options, shared))
}

fn record_to(
    stream: Box<dyn Stream>,
    path: &Path,
    options: &CopyOptions,
    shared: &Shared,
) -> Ended {
    let done = record_stream(stream, path, options, |passed| shared.goes_on(passed));
    let totals = done.map_err(|error| match error {
        CopyError::Stream(error) => ("unreadable-trace", error.to_string()),
        CopyError::Tst(error) => ("unwritable", error.to_string()),
        CopyError::Stopped => ("interrupted", format!("{} was not written", path.display())),
    })?;
    let accesses = totals.accesses();
    if totals.operations == 0 {
        // What was to be read is empty, or nothing precedes its damage.
        let _ = std::fs::remove_file(path);
        let why = match totals.cut {
            true => format!("the source has no operation: {}", totals.ended),
            false => "the source has no operation".to_owned(),
        };
        return Err(("nothing-left", why));
    }
    let mut remarks = Vec::new();
    if totals.marks.as_ref().is_some_and(|marks| marks.contains(&mark::START)) {
        let what = "Its region of interest begins at a mark: tierscope run --roi runs that.";
        remarks.push(what.to_owned());
    }
    if totals.cut {
        remarks.push(format!("The recording is of a part: {}.", totals.ended));
    }
    if !totals.missing.is_empty() {
        remarks.push(format!("Missing: {}", totals.missing.join("; ")));
    }
    Ok(json!({
        "converted": Converted { read: accesses, written: accesses, ..Converted::default() },
        "file_bytes": std::fs::metadata(path).map(|found| found.len()).ok(),
        "packed": Value::Null,
        "remarks": remarks,
    }))
}

/// Refuses a target that is the source, or that is there already and may not be replaced.
fn check_target(path: &Path, source: Option<&Path>, replace: bool) -> PyResult<()> {
    let shown = path.display();
    let Ok(there) = std::fs::metadata(path) else { return Ok(()) };
    if there.is_dir() {
        return Err(run_error("unwritable", format!("{shown} is a directory; name a file in it")));
    }
    let same = source.and_then(|source| std::fs::metadata(source).ok());
    if same.is_some_and(|same| (same.dev(), same.ino()) == (there.dev(), there.ino())) {
        let why = format!("{shown} is the trace that is read; name another file");
        return Err(run_error("unwritable", why));
    }
    if there.is_file() && !replace && !is_open_already(path) {
        let why = format!(
            "{shown} is there already, and is left alone; name another file, or say \
                           that it may be replaced (--replace)"
        );
        return Err(run_error("exists", why));
    }
    Ok(())
}

fn convert_to(opened: Opened, format: &Format, how: &How, path: &Path, shared: &Shared) -> Ended {
    let unwritable = |error: &io::Error| {
        ("unwritable", format!("{} cannot be written: {}", path.display(), reason(error)))
    };
    let mut instructions = opened.instructions;
    let mut source = opened.what.into_source(opened.limit);
    source
        .fit(u64::from(how.line_bytes))
        .map_err(|error| ("unreadable-trace", error.to_string()))?;
    let mut to = Output::create(path).map_err(|error| unwritable(&error))?;
    let goes_on = |at| shared.goes_on(at);
    let done = match &mut instructions {
        Some(source) => convert_instructions(source, format, how, opened.limit, &mut to, goes_on),
        None => convert(&mut *source, format, how, &mut to, goes_on),
    };
    let converted = done.map_err(|error| match error {
        ConvertError::Stream(error) => ("unreadable-trace", error.to_string()),
        ConvertError::Unwritable(why) => {
            ("unwritable", format!("{} cannot be written: {why}", path.display()))
        }
        other => ("not-converted", other.to_string()),
    })?;
    if shared.stopped() {
        return Err(("interrupted", format!("{} was not written", path.display())));
    }
    if converted.written == 0 && converted.instructions == 0 {
        let name = format.name;
        return Err(("nothing-left", format!("nothing of the source has a place in {name}")));
    }
    to.flush().map_err(|error| unwritable(&error))?;
    let file_bytes = to.finish().map_err(|error| unwritable(&error))?;
    let mut remarks = opened.remarks;
    let loses = format.loses(&how.choices);
    if !loses.is_empty() {
        remarks.push(format!("In {}, {loses}.", format.name));
    }
    remarks.extend(instructions.map_or_else(|| source.remarks(), |source| source.remarks()));
    let packed = match Packing::of(path) {
        Packing::Plain => None,
        Packing::Gzip => Some("gzip"),
        Packing::Xz => Some("xz"),
        Packing::Zstd => Some("zstd"),
    };
    Ok(json!({
        "converted": converted,
        "file_bytes": file_bytes,
        "packed": packed,
        "remarks": remarks,
    }))
}
