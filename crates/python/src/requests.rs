//! Memory traces on their way to devices alone.

use crate::error::run_error;
use crate::job::{Prepared, Source, one};
use pyo3::PyErr;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use tierscope_system::alone::{OUTSTANDING, Requests};
use tierscope_system::result::{WorkloadInfo, WorkloadKind};
use tierscope_units::{Frequency, Problem, nearest};
use tierscope_workload::StreamError;
use tierscope_workload::requests::{FORMATS, RequestSource, TraceReader, find};

/// What may be said of how requests come: the clock that their times are cycles of …
pub const CLOCK: &str = "clock";
/// … and how many are under way at most.
pub const OUTSTANDING_AT_MOST: &str = "outstanding";
const PARAMETERS: [&str; 2] = [CLOCK, OUTSTANDING_AT_MOST];
/// More requests under way than any queue holds.
const MOST_OUTSTANDING: u64 = 1 << 20;

/// Requests, and how they come.
pub struct Arrivals {
    source: Box<dyn RequestSource>,
    clock: Option<Frequency>,
    outstanding: Option<u32>,
}

impl Arrivals {
    /// The same requests for so many devices.
    pub fn for_each(self, devices: usize) -> Result<Vec<Requests>, StreamError> {
        let one = || {
            Ok(Requests {
                source: self.source.fork()?,
                clock: self.clock.map(|clock| tierscope_kernel::Clock::from_hertz(clock.hertz())),
                outstanding: self.outstanding,
            })
        };
        (0..devices).map(|_| one()).collect()
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
                "parameters": parameters(it.timed),
            })
        })
        .collect()
}

/// What may be said of how the requests of a format come, with default and meaning.
fn parameters(timed: bool) -> Value {
    let all = PARAMETERS.into_iter().filter(|name| timed || *name != CLOCK);
    all.map(|name| {
        let (default, meaning) = meaning(name);
        json!({"name": name, "default": default, "meaning": meaning})
    })
    .collect()
}

/// Default and meaning of one of the [`PARAMETERS`].
fn meaning(name: &str) -> (String, &'static str) {
    match name {
        CLOCK => {
            ("the device's own".into(), "The clock that the trace's cycles are of, such as 1.2GHz.")
        }
        _ => (
            format!("{OUTSTANDING} where requests have no times"),
            "How many requests are under way at most; times of the trace are left out.",
        ),
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
    for (name, value) in parameters {
        match name.as_str() {
            CLOCK if !found.timed => return Err(one(no_times(format, value))),
            CLOCK => clock = Some(frequency(value)?),
            OUTSTANDING_AT_MOST => outstanding = Some(count(value)?),
            _ => return Err(one(unknown_parameter(name, value))),
        }
    }
    let reader =
        TraceReader::open(path, found).map_err(|error| run_error("unreadable-trace", error))?;
    let mut said = BTreeMap::from([
        ("file".to_owned(), Value::from(path.display().to_string())),
        ("format".to_owned(), format.into()),
    ]);
    said.extend(parameters.iter().map(|(name, value)| (name.clone(), value.clone())));
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let info = WorkloadInfo {
        name,
        kind: WorkloadKind::Requests,
        command: None,
        parameters: said,
        seed: 0,
        threads: 0,
    };
    let arrivals = Arrivals { source: Box::new(reader), clock, outstanding };
    Ok(Prepared {
        source: Source::Requests(arrivals),
        info,
        damage: None,
        cut: None,
        missing: Vec::new(),
        filter: None,
    })
}

fn frequency(value: &Value) -> Result<Frequency, PyErr> {
    let wrong = |reason: String, mend: String| one(impossible(CLOCK, value, reason, mend));
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
    Problem {
        code: "impossible-value",
        path: format!("workload.{name}"),
        value: value.to_string(),
        reason,
        mend,
        place: String::new(),
    }
}

fn no_times(format: &str, value: &Value) -> Problem {
    let reason = format!("a trace of {format} has no times, which a clock could count");
    impossible(CLOCK, value, reason, "leave it out, or set workload.outstanding".into())
}

fn unknown_parameter(name: &str, value: &Value) -> Problem {
    let near = nearest(name, PARAMETERS);
    let all = || format!("its parameters are {}", PARAMETERS.join(", "));
    Problem {
        code: "unknown-key",
        path: format!("workload.{name}"),
        value: value.to_string(),
        reason: "a memory trace has no such parameter".into(),
        mend: near.map_or_else(all, |near| format!("did you mean `{near}`?")),
        place: String::new(),
    }
}

fn unknown_format(name: &str) -> Problem {
    let names = || FORMATS.iter().map(|format| format.name);
    let near = nearest(name, names()).map(|near| format!("did you mean `{near}`?"));
    let all = || format!("the formats are {}", names().collect::<Vec<_>>().join(", "));
    Problem {
        code: "unknown-value",
        path: "workload".into(),
        value: format!("\"{name}\""),
        reason: "there is no such format of memory traces".into(),
        mend: near.unwrap_or_else(all),
        place: String::new(),
    }
}
