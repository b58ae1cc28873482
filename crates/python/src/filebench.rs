//! Workloads that a user's file in Filebench's language describes.

use crate::error::run_error;
use crate::job::{Prepared, Source, one, wrong_parameter};
use pyo3::PyErr;
use serde_json::{Map, Value};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use tierscope_system::result::{WorkloadInfo, WorkloadKind};
use tierscope_workload::filebench::{Options, language, stream};
use tierscope_workload::generator::ParameterError;

/// Files above are no descriptions.
const MOST_BYTES: u64 = 1 << 20;
/// What a run of such a file has besides the file's own settings, with the default.
const OPTIONS: [(&str, u64); 3] = [("loops", 20), ("instructions", 1000), ("touched", 1)];

/// Reads a description and makes its stream. `parameters` are options and the file's settings.
pub fn prepare(path: &Path, parameters: Map<String, Value>, seed: u64) -> Result<Prepared, PyErr> {
    let shown = path.display();
    let unreadable =
        |what: &dyn std::fmt::Display| run_error("unreadable-workload", format!("{shown}: {what}"));
    let kind = std::fs::metadata(path).map_err(|error| unreadable(&error))?;
    if !kind.is_file() {
        return Err(unreadable(&"it is no file; write filebench:FILE"));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| unreadable(&error))?;
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
        let what =
            "is no text in UTF-8; write filebench:FILE with a description in Filebench's language";
        run_error("bad-workload", format!("{shown}:{line}: byte {at} {what}"))
    })?;
    if text.len() as u64 > MOST_BYTES {
        return Err(unreadable(&"it is above 1 MiB; a description is a text of a few pages"));
    }
    let mut options = Options { seed, loops: 0, instructions: 0, touched: true };
    let mut used = Vec::new();
    for (name, default) in OPTIONS {
        let value = parameters.get(name);
        let number = match (name, value) {
            (_, None) => default,
            ("touched", Some(value)) => {
                u64::from(value.as_bool().ok_or_else(|| refused(name, value, "true or false"))?)
            }
            (_, Some(value)) => value
                .as_u64()
                .filter(|number| *number <= 1 << 30)
                .ok_or_else(|| refused(name, value, "a whole number, of 2^30 at most"))?,
        };
        let shown = if name == "touched" { Value::from(number == 1) } else { number.into() };
        used.push((name.to_owned(), shown));
        match name {
            "loops" => options.loops = number,
            "instructions" => options.instructions = number as u32,
            _ => options.touched = number == 1,
        }
    }
    let own = |name: &String| !OPTIONS.iter().any(|(option, _)| option == name);
    let settings: Vec<(String, Value)> =
        parameters.into_iter().filter(|(name, _)| own(name)).collect();
    let model = language::read(&text, &settings).map_err(|error| {
        run_error("bad-workload", format!("{shown}:{}: {}; {}", error.line, error.what, error.mend))
    })?;
    if let Some((name, _)) =
        OPTIONS.iter().find(|(option, _)| model.settings.iter().any(|(set, _)| set == option))
    {
        let what = format!(
            "{shown}: it sets ${name}, and {name} is an option of every such workload; give the setting another name"
        );
        return Err(run_error("bad-workload", what));
    }
    used.extend(model.settings.iter().cloned());
    let stream = stream(Arc::new(model), options, "file").map_err(|what| unreadable(&what))?;
    let info = WorkloadInfo {
        name: format!("filebench:{shown}"),
        kind: WorkloadKind::Generated,
        command: None,
        parameters: used.into_iter().collect(),
        seed,
        threads: 0,
    };
    Ok(Prepared::whole(Source::Stream(stream), info))
}

fn refused(name: &str, value: &Value, what: &str) -> PyErr {
    one(wrong_parameter(ParameterError {
        unknown: false,
        name: name.into(),
        value: value.to_string(),
        reason: format!("not {what}"),
        mend: format!("write {what}"),
    }))
}
