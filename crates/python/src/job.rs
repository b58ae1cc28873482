//! What Python asks to be run, as JSON.

use crate::error::{run_error, spec_error};
use crate::filebench;
use crate::requests::{self, Arrivals};
use pyo3::PyErr;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tierscope_system::result::{WorkloadInfo, WorkloadKind};
use tierscope_system::run::RunOptions;
use tierscope_system::spec::{SystemSpec, check_fit};
use tierscope_units::{Problem, Problems, Size, nearest};
use tierscope_workload::Stream;
use tierscope_workload::filter::FilterSpec;
use tierscope_workload::generator::{GENERATORS, Generator, ParameterError, find};
use tierscope_workload::hints::{Hinted, Hints};
use tierscope_workload::requests::{PATTERNS, find_pattern};
use tierscope_workload::trace::tst::VERSION;
use tierscope_workload::trace::{TstReader, TstTotals};
use tierscope_workload::windows::WindowSpec;

/// A run: machines, and the workload that each of them gets.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The machines, resolved; their names differ.
    pub systems: Vec<SystemSpec>,
    /// What runs on them.
    pub workload: Workload,
    /// In place of it, where machines that have results of their own run what begins alike: each a generated one, of
    /// which the options say which is whose.
    #[serde(default)]
    pub works: Vec<Workload>,
    /// How.
    #[serde(default)]
    pub options: RunOptions,
    /// Whether each machine has a result of its own, as if it had run alone: their names need not differ.
    #[serde(default)]
    pub apart: bool,
}

/// What runs on the machines.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Workload {
    /// A built-in generator.
    Generated {
        /// Its name.
        name: String,
        /// What differs from the defaults.
        parameters: Map<String, Value>,
        /// Seed of its random choices.
        seed: u64,
        /// Whether it runs on devices alone, where workloads of both kinds have the name; unless told,
        /// that follows from the parameters.
        #[serde(default)]
        alone: Option<bool>,
        /// A file of hints that are replayed beside it.
        #[serde(default)]
        hints: Option<PathBuf>,
    },
    /// A recording.
    Recorded {
        /// Its file.
        path: PathBuf,
        /// Whether to replay what precedes the damage of a damaged one.
        allow_truncated: bool,
        /// A file of hints that are replayed beside it.
        #[serde(default)]
        hints: Option<PathBuf>,
    },
    /// A trace of requests, for devices alone.
    Requests {
        /// Its format.
        format: String,
        /// Its file.
        path: PathBuf,
        /// How its requests come.
        #[serde(default)]
        parameters: Map<String, Value>,
    },
}

/// What a workload is made of.
pub enum Source {
    /// Operations of threads.
    Stream(Box<dyn Stream>),
    /// Requests for a device alone.
    Requests(Arrivals),
}

/// A workload ready to run.
pub struct Prepared {
    /// What it is made of, at its start.
    pub source: Source,
    /// What the result says of it; threads are filled in later.
    pub info: WorkloadInfo,
    /// From where on it cannot be replayed.
    pub damage: Option<String>,
    /// Why it ends before its program did, for runs that come to its end.
    pub cut: Option<String>,
    /// What is not in it.
    pub missing: Vec<String>,
    /// The cache whose hits are not in it, of a recording that was made so.
    pub filter: Option<FilterSpec>,
    /// The windows that it has of its program, of a recording that lacks what lies between them.
    pub windows: Option<Windows>,
    /// The version of recordings that tells as much of what becomes of files.
    pub tells_of_files: u32,
}

/// What a recording has of its program.
pub struct Windows {
    /// Their size.
    pub spec: WindowSpec,
    /// What is there, and what is not; None where the recording is cut short.
    pub totals: Option<TstTotals>,
    /// Whether it tells what was used between them.
    pub warm: bool,
}

impl Job {
    /// Reads a job and checks what the machines have in common: their names differ.
    pub fn read(text: &str) -> Result<Job, PyErr> {
        let job: Job = serde_json::from_str(text).map_err(|e| run_error("bad-job", e))?;
        // Those that have results of their own are told apart by their places.
        let asked = if job.apart { &job.systems[..job.systems.len().min(1)] } else { &job.systems };
        check_names(asked)?;
        Ok(job)
    }
}

/// Results are told apart by the machines' names.
pub fn check_names(systems: &[SystemSpec]) -> Result<(), PyErr> {
    if systems.is_empty() {
        return Err(run_error("no-system", "there is no system to run on"));
    }
    let mut names = BTreeSet::new();
    match systems.iter().find(|system| !names.insert(system.name.as_str())) {
        Some(twice) => {
            Err(run_error("same-name", format!("two systems are called `{}`", twice.name)))
        }
        None => Ok(()),
    }
}

impl Prepared {
    /// All of something, to its end.
    pub fn whole(source: Source, info: WorkloadInfo) -> Prepared {
        Prepared {
            source,
            info,
            damage: None,
            cut: None,
            missing: Vec::new(),
            filter: None,
            windows: None,
            tells_of_files: VERSION,
        }
    }

    /// Refuses a workload that is known not to fit a machine, or is of another kind than it takes.
    pub fn check_fit(&self, systems: &[SystemSpec]) -> Result<(), PyErr> {
        let footprint = match &self.source {
            Source::Requests(arrivals) => {
                check_alone(systems, &self.info.name)?;
                arrivals.footprint()
            }
            Source::Stream(stream) => {
                check_not_alone(systems)?;
                stream.footprint()
            }
        };
        let Some(footprint) = footprint else { return Ok(()) };
        let value = self.info.parameters.get(footprint.parameter).map(Value::to_string);
        let problems = check_fit(systems, &footprint, &value.unwrap_or_default());
        if problems.is_empty() { Ok(()) } else { Err(spec_error(&problems)) }
    }
}

impl Workload {
    /// As [`Workload::prepare`], for these machines: where none is a device alone, a trace of a program is a
    /// workload of threads.
    pub fn prepare_for(self, systems: &[SystemSpec]) -> Result<Prepared, PyErr> {
        match self {
            Workload::Requests { format, path, parameters }
                if requests::is_program(&format)
                    && !systems.iter().any(SystemSpec::stands_alone) =>
            {
                requests::prepare_program(&format, &path, &parameters, systems)
            }
            other => other.prepare(),
        }
    }

    /// Opens or makes the stream.
    pub fn prepare(self) -> Result<Prepared, PyErr> {
        match self {
            Workload::Generated { name, parameters, seed, alone, hints } => {
                hinted(generated(name, parameters, seed, alone)?, hints)
            }
            Workload::Recorded { path, allow_truncated, hints } => {
                hinted(recorded(path, allow_truncated)?, hints)
            }
            Workload::Requests { format, path, parameters } => {
                // Several are threads, whatever they are for.
                if requests::is_program(&format) && requests::files(&path).len() > 1 {
                    return requests::prepare_program(&format, &path, &parameters, &[]);
                }
                requests::prepare(&format, &path, &parameters)
            }
        }
    }
}

/// A workload beside which the hints of a file are replayed, where there is one.
fn hinted(mut prepared: Prepared, path: Option<PathBuf>) -> Result<Prepared, PyErr> {
    let Some(path) = path else { return Ok(prepared) };
    let unreadable =
        |why: String| run_error("unreadable-file", format!("{}: {why}", path.display()));
    let file = File::open(&path).map_err(|error| unreadable(error.to_string()))?;
    let hints = Hints::read(BufReader::new(file)).map_err(|error| unreadable(error.to_string()))?;
    if hints.is_empty() {
        return Err(unreadable("it has no hints; write ACCESSES ADDRESS BYTES, one a line".into()));
    }
    prepared.source = match prepared.source {
        Source::Stream(stream) => Source::Stream(Box::new(Hinted::new(stream, Arc::new(hints)))),
        Source::Requests(_) => {
            let reason = format!(
                "{} is requests for a device alone, which take no hints",
                prepared.info.name
            );
            return Err(run_error("wrong-workload", reason));
        }
    };
    prepared.info.parameters.insert("hints".into(), path.display().to_string().into());
    Ok(prepared)
}

fn generated(
    name: String,
    parameters: Map<String, Value>,
    seed: u64,
    alone: Option<bool>,
) -> Result<Prepared, PyErr> {
    if let Some(path) = name.strip_prefix("filebench:") {
        return filebench::prepare(Path::new(path), parameters, seed);
    }
    let generator = match (find_pattern(&name), find(&name)) {
        (None, None) => return Err(one(unknown_workload(&name))),
        (None, Some(generator)) => generator,
        (Some(_), Some(generator)) if !alone.unwrap_or_else(|| fits(generator, &parameters)) => {
            generator
        }
        (Some(pattern), _) => return requests::pattern(pattern, parameters, seed),
    };
    let given: Vec<(String, Value)> = parameters.into_iter().collect();
    let (stream, used) = generator.make(&given, seed).map_err(|e| one(wrong_parameter(e)))?;
    let info = WorkloadInfo {
        name,
        kind: WorkloadKind::Generated,
        command: None,
        parameters: used.into_iter().collect(),
        seed,
        threads: 0,
    };
    Ok(Prepared::whole(Source::Stream(stream), info))
}

/// Whether parameters may be those of a pattern that has the name of a generator: where one of them is
/// the generator's alone, they are not.
fn fits(generator: &Generator, parameters: &Map<String, Value>) -> bool {
    let patterns = requests::patterns();
    let pattern = patterns.iter().find(|pattern| pattern["name"] == generator.name);
    let named = |list: &Value, name: &str| {
        list.as_array().is_some_and(|all| all.iter().any(|one| one["name"] == name))
    };
    parameters.keys().all(|name| {
        pattern.is_some_and(|pattern| named(&pattern["parameters"], name))
            || generator.parameters.iter().all(|one| one.name != name)
    })
}

fn recorded(path: PathBuf, allow_truncated: bool) -> Result<Prepared, PyErr> {
    let reader = TstReader::open(&path, allow_truncated)
        .map_err(|error| run_error("unreadable-recording", error))?;
    let command = reader.metadata().command.clone();
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let mut parameters = BTreeMap::from([("file".into(), path.display().to_string().into())]);
    if let Some(filter) = reader.metadata().filter {
        let size = Size::from_bytes(filter.capacity_bytes);
        parameters.insert("filter_l1".into(), size.to_string().into());
    }
    if let Some(windows) = reader.metadata().windows {
        let text = format!("{}/{}", windows.window_accesses, windows.period_accesses);
        parameters.insert("sample".into(), text.into());
    }
    let info = WorkloadInfo {
        name: stem.unwrap_or_else(|| path.display().to_string()),
        kind: WorkloadKind::Recorded,
        command: (!command.is_empty()).then_some(command),
        parameters,
        seed: 0,
        threads: 0,
    };
    let filter = reader.metadata().filter;
    let totals = reader.totals().cloned();
    let warm = reader.tells_uses();
    let all = |totals: &TstTotals| totals.skipped.is_some_and(|it| it.instructions == 0);
    // A program that ended within its start is recorded whole, and no sample.
    let windows = reader.metadata().windows.filter(|_| !totals.as_ref().is_some_and(all));
    let windows = windows.map(|spec| Windows { spec, totals, warm });
    let damage = reader.damage().map(|damage| format!("the recording is cut short: {damage}"));
    let cut = reader.cut().map(ended_early);
    let missing = reader.missing().to_vec();
    let tells_of_files = reader.version();
    let source = Source::Stream(Box::new(reader));
    Ok(Prepared { source, info, damage, cut, missing, filter, windows, tells_of_files })
}

/// What is said of a recording that ended in the middle of what its program did.
pub fn ended_early(how: &str) -> String {
    format!("the recording ends before its program came to an end of its own: {how}")
}

/// Refuses machines with a processor, which no requests of a trace or a pattern drive.
fn check_alone(systems: &[SystemSpec], name: &str) -> Result<(), PyErr> {
    match systems.iter().find(|system| !system.stands_alone()) {
        Some(system) => Err(run_error(
            "wrong-workload",
            format!(
                "{name} is requests for a device alone, and {} has a processor, which takes \
                 programs, recordings, traces of programs and workloads of threads, such as gups; \
                 give the requests to a device alone, such as device/ddr4-2400 or device/slc",
                system.name
            ),
        )),
        None => Ok(()),
    }
}

/// Refuses devices alone, which have no processor to run anything.
pub fn check_not_alone(systems: &[SystemSpec]) -> Result<(), PyErr> {
    match systems.iter().find(|system| system.stands_alone()) {
        Some(system) => Err(run_error(
            "wrong-workload",
            format!(
                "{} is a device alone, which has no processor to run this; give it random, \
                 sequential or zipf, or a trace in one file, such as dramsim3:FILE or msr:FILE, or name a \
                 machine",
                system.name
            ),
        )),
        None => Ok(()),
    }
}

pub(crate) fn one(problem: Problem) -> PyErr {
    let mut problems = Problems::new();
    problems.push(problem);
    spec_error(&problems)
}

fn unknown_workload(name: &str) -> Problem {
    let patterns = PATTERNS.iter().map(|pattern| pattern.name);
    let names = || GENERATORS.iter().map(|generator| generator.name).chain(patterns.clone());
    let near = nearest(name, names()).map(|near| format!("did you mean `{near}`?"));
    let all = || format!("the workloads are {}", names().collect::<Vec<_>>().join(", "));
    Problem {
        code: "unknown-value",
        path: "workload".into(),
        value: format!("\"{name}\""),
        reason: "there is no such workload".into(),
        mend: near.unwrap_or_else(all),
        place: String::new(),
    }
}

pub(crate) fn wrong_parameter(error: ParameterError) -> Problem {
    Problem {
        code: if error.unknown { "unknown-key" } else { "impossible-value" },
        path: format!("workload.{}", error.name),
        value: error.value,
        reason: error.reason,
        mend: error.mend,
        place: String::new(),
    }
}
