//! Traces and patterns of requests on their way to devices alone.

use crate::error::run_error;
use crate::job::{Prepared, Source, one, wrong_parameter};
use pyo3::{PyErr, Python};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tierscope_kernel::Clock;
use tierscope_system::alone::{OUTSTANDING, Requests};
use tierscope_system::result::{WorkloadInfo, WorkloadKind};
use tierscope_system::spec::SystemSpec;
use tierscope_units::{Frequency, Problem, nearest};
use tierscope_workload::requests::{
    ChoiceError, Choices, FORMATS, Format, MOST_THREADS, OpenError, PATTERNS, PatternSource,
    ProgramTrace, RequestSource, Times, find, open,
};
use tierscope_workload::{Footprint, StreamError};

/// What may be said of how requests come: the clock that their times are cycles of …
pub const CLOCK: &str = "clock";
/// … and how many are under way at most.
pub const OUTSTANDING_AT_MOST: &str = "outstanding";
/// The time between requests of a pattern.
const INTERVAL: &str = "interval";
/// More requests under way than any queue holds.
const MOST_OUTSTANDING: u64 = 1 << 20;

/// Requests, and how they come.
pub struct Arrivals {
    source: Box<dyn RequestSource>,
    clock: Option<Frequency>,
    outstanding: Option<u32>,
}

impl Arrivals {
    /// How many requests there are, where that is known.
    pub fn count(&self) -> Option<u64> {
        self.source.count()
    }

    /// What they lie in, where that is known.
    pub fn footprint(&self) -> Option<Footprint> {
        self.source.footprint()
    }

    /// The requests, and the clock that their times are cycles of, where that was said.
    pub fn into_source(self) -> Result<(Box<dyn RequestSource>, Option<Clock>), PyErr> {
        if let Some(count) = self.outstanding {
            let reason = "how many requests are under way means nothing where none runs".into();
            let value = Value::from(count);
            return Err(one(impossible(
                OUTSTANDING_AT_MOST,
                &value,
                reason,
                "leave it out".into(),
            )));
        }
        Ok((self.source, self.clock.map(|clock| Clock::from_hertz(clock.hertz()))))
    }

    /// The same requests for so many devices.
    pub fn for_each(self, devices: usize) -> Result<Vec<Requests>, StreamError> {
        let one = || {
            Ok(Requests {
                source: self.source.fork()?,
                clock: self.clock.map(|clock| Clock::from_hertz(clock.hertz())),
                outstanding: self.outstanding,
            })
        };
        (0..devices).map(|_| one()).collect()
    }
}

/// What may be said of a workload: name, default, and meaning.
struct Said {
    name: &'static str,
    default: String,
    meaning: &'static str,
}

impl Said {
    fn json(&self) -> Value {
        json!({"name": self.name, "default": self.default, "meaning": self.meaning})
    }
}

/// Name, summary, grammar, example and parameters of each format.
pub fn formats() -> Value {
    FORMATS
        .iter()
        .map(|it| {
            json!({
                "name": it.name,
                "summary": it.summary,
                "grammar": it.grammar,
                "example": it.example,
                "source": it.source,
                "written": it.is_written(),
                "program": it.program.is_some(),
                "parameters": parameters(it).iter().map(Said::json).collect::<Value>(),
            })
        })
        .collect()
}

/// Name, summary and parameters of each pattern, as generators are listed.
pub fn patterns() -> Vec<Value> {
    PATTERNS
        .iter()
        .map(|it| {
            let own = it.parameters().iter().map(|one| json!(one));
            let parameters: Value = own.chain([outstanding_said().json()]).collect();
            let (name, summary) = (it.name, it.summary);
            json!({"name": name, "summary": summary, "parameters": parameters, "alone": true})
        })
        .collect()
}

/// What may be said of how the requests of a format are read, and how they come.
fn parameters(format: &Format) -> Vec<Said> {
    let own = format.options.iter().map(|option| Said {
        name: option.name,
        default: option.default.to_owned(),
        meaning: option.meaning,
    });
    let clock = Said {
        name: CLOCK,
        default: "the device's own".into(),
        meaning: "The clock that the trace's cycles are of, such as 1.2GHz.",
    };
    let clock = (format.times == Times::Cycles).then_some(clock);
    own.chain(clock).chain([outstanding_said()]).collect()
}

fn outstanding_said() -> Said {
    Said {
        name: OUTSTANDING_AT_MOST,
        default: format!("{OUTSTANDING} where requests have no times"),
        meaning: "How many requests are under way at most; their times are left out. The option \
                  --closed-loop says the same.",
    }
}

/// The files that a path names: itself, or, where there is none of that name, those between commas.
pub fn files(path: &Path) -> Vec<PathBuf> {
    match path.to_str() {
        Some(text) if text.contains(',') && !path.exists() => {
            text.split(',').map(PathBuf::from).collect()
        }
        _ => vec![path.to_owned()],
    }
}

/// Opens a trace.
pub fn prepare(
    format: &str,
    path: &Path,
    parameters: &Map<String, Value>,
) -> Result<Prepared, PyErr> {
    let Some(found) = find(format) else { return Err(one(unknown_format(format))) };
    let mut clock = None;
    let mut outstanding = None;
    let mut choices = Choices::new();
    for (name, value) in parameters {
        match name.as_str() {
            CLOCK if found.times != Times::Cycles => return Err(one(no_clock(found, value))),
            CLOCK => clock = Some(frequency("workload.clock", value)?),
            OUTSTANDING_AT_MOST => outstanding = Some(count(value)?),
            _ if found.options.iter().any(|option| option.name == name) => {
                choices.insert(name.clone(), as_said(value));
            }
            _ => return Err(one(unknown_parameter(found, name, value))),
        }
    }
    let files = files(path);
    let mut interrupted = None;
    let mut goes_on = || {
        interrupted = Python::attach(|py| py.check_signals()).err();
        interrupted.is_none()
    };
    let opened = open(&files, found, &choices, &mut goes_on);
    if let Some(interrupted) = interrupted {
        return Err(interrupted);
    }
    let source = opened.map_err(unopened)?;
    let mut said = BTreeMap::from([
        ("file".to_owned(), Value::from(path.display().to_string())),
        ("format".to_owned(), format.into()),
    ]);
    said.extend(parameters.iter().map(|(name, value)| (name.clone(), value.clone())));
    let names: Vec<String> = files.iter().map(|file| name_of(file)).collect();
    let arrivals = Arrivals { source, clock, outstanding };
    Ok(prepared(names.join(","), said, 0, arrivals))
}

/// Whether traces of a format tell what a program's threads do.
pub fn is_program(format: &str) -> bool {
    find(format).is_some_and(|found| found.program.is_some())
}

/// Opens a trace of a program's instructions for machines with a processor.
pub fn prepare_program(
    format: &str,
    path: &Path,
    parameters: &Map<String, Value>,
    systems: &[SystemSpec],
) -> Result<Prepared, PyErr> {
    let Some(found) = find(format) else { return Err(one(unknown_format(format))) };
    if let Some((name, value)) = parameters.iter().next() {
        let reason = "it is of requests to a device alone, and a machine's processor waits for \
                      what it loads by itself";
        return Err(one(impossible(name, value, reason.into(), "leave it out".into())));
    }
    let files = files(path);
    let hardware_threads =
        |system: &SystemSpec| system.processor.as_ref().map(|it| it.cores * it.threads_per_core);
    let most = systems.iter().filter_map(hardware_threads).min();
    let most = most.map_or(MOST_THREADS, |most| most as usize);
    let trace = ProgramTrace::open(&files, found, &Choices::new(), most).map_err(unopened)?;
    let names = files.iter().map(|file| name_of(file));
    let info = WorkloadInfo {
        name: names.collect::<Vec<_>>().join(","),
        kind: WorkloadKind::Recorded,
        command: None,
        parameters: BTreeMap::from([
            ("file".to_owned(), Value::from(path.display().to_string())),
            ("format".to_owned(), format.into()),
        ]),
        seed: 0,
        threads: 0,
    };
    Ok(Prepared::whole(Source::Stream(Box::new(trace)), info))
}

/// Makes the requests of a pattern.
pub fn pattern(
    pattern: &PatternSource,
    mut parameters: Map<String, Value>,
    seed: u64,
) -> Result<Prepared, PyErr> {
    let outstanding = parameters.remove(OUTSTANDING_AT_MOST);
    if let Some(value) =
        parameters.get(INTERVAL).filter(|said| outstanding.is_some() && **said != "none")
    {
        let reason = "in a closed loop a request comes as another ends, whatever the time between";
        let mend = "leave it out, or the closed loop (--closed-loop, workload.outstanding)";
        return Err(one(impossible(INTERVAL, value, reason.into(), mend.into())));
    }
    let given: Vec<(String, Value)> = parameters.into_iter().collect();
    let (source, used) = pattern.make(&given, seed).map_err(|error| one(wrong_parameter(error)))?;
    let mut said: BTreeMap<String, Value> = used.into_iter().collect();
    let mut at_most = None;
    if let Some(value) = outstanding {
        at_most = Some(count(&value)?);
        said.insert(OUTSTANDING_AT_MOST.to_owned(), value);
    }
    said.insert("format".to_owned(), "pattern".into());
    let arrivals = Arrivals { source: Box::new(source), clock: None, outstanding: at_most };
    Ok(prepared(pattern.name.to_owned(), said, seed, arrivals))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn prepared(
    name: String,
    parameters: BTreeMap<String, Value>,
    seed: u64,
    arrivals: Arrivals,
) -> Prepared {
    let info = WorkloadInfo {
        name,
        kind: WorkloadKind::Requests,
        command: None,
        parameters,
        seed,
        threads: 0,
    };
    Prepared::whole(Source::Requests(arrivals), info)
}

/// What was said of an option, as text: a volume may look like a number.
pub fn as_said(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The error of a trace that cannot be opened.
pub fn unopened(error: OpenError) -> PyErr {
    match error {
        OpenError::Choice(ChoiceError { name, value, reason, mend }) => {
            one(impossible(name, &Value::from(value), reason, mend))
        }
        other => run_error("unreadable-trace", other),
    }
}

/// The clock that a value says, which stands at `path`.
pub fn frequency(path: &str, value: &Value) -> Result<Frequency, PyErr> {
    let wrong = |reason: String, mend: String| one(impossible_at(path, value, reason, mend));
    let Some(text) = value.as_str() else {
        return Err(wrong("a clock is a frequency with its unit".into(), "write 1.2GHz".into()));
    };
    let frequency: Frequency = text
        .parse()
        .map_err(|error: tierscope_units::UnitError| wrong(error.reason, error.mend))?;
    if !(1_000_000..=1_000_000_000_000).contains(&frequency.hertz()) {
        return Err(wrong("a clock lies between 1MHz and 1THz".into(), "write 1.2GHz".into()));
    }
    Ok(frequency)
}

fn count(value: &Value) -> Result<u32, PyErr> {
    match value.as_u64() {
        Some(count @ 1..=MOST_OUTSTANDING) => Ok(count as u32),
        _ => {
            let reason =
                format!("requests under way are a whole number from 1 to {MOST_OUTSTANDING}");
            Err(one(impossible(OUTSTANDING_AT_MOST, value, reason, "write 64".into())))
        }
    }
}

fn impossible(name: &str, value: &Value, reason: String, mend: String) -> Problem {
    impossible_at(&format!("workload.{name}"), value, reason, mend)
}

fn impossible_at(path: &str, value: &Value, reason: String, mend: String) -> Problem {
    Problem {
        code: "impossible-value",
        path: path.to_owned(),
        value: value.to_string(),
        reason,
        mend,
        place: String::new(),
    }
}

fn no_clock(format: &Format, value: &Value) -> Problem {
    let reason = match format.times {
        Times::Absent => {
            format!("a trace of {} has no times, which a clock could count", format.name)
        }
        _ => format!("a trace of {} says its times by itself, not in cycles", format.name),
    };
    impossible(CLOCK, value, reason, "leave it out, or set workload.outstanding".into())
}

fn unknown_parameter(format: &Format, name: &str, value: &Value) -> Problem {
    let names: Vec<&str> = parameters(format).iter().map(|said| said.name).collect();
    let near = nearest(name, names.iter().copied());
    let all = || format!("its parameters are {}", names.join(", "));
    Problem {
        code: "unknown-key",
        path: format!("workload.{name}"),
        value: value.to_string(),
        reason: format!("a trace of {} has no such parameter", format.name),
        mend: near.map_or_else(all, |near| format!("did you mean `{near}`?")),
        place: String::new(),
    }
}

/// The mistake of a format that there is not.
pub fn unknown_format(name: &str) -> Problem {
    let names = || FORMATS.iter().map(|format| format.name);
    let near = nearest(name, names()).map(|near| format!("did you mean `{near}`?"));
    let all = || format!("the formats are {}", names().collect::<Vec<_>>().join(", "));
    Problem {
        code: "unknown-value",
        path: "workload".into(),
        value: format!("\"{name}\""),
        reason: "there is no such format of traces".into(),
        mend: near.unwrap_or_else(all),
        place: String::new(),
    }
}
