//! Results that were kept, read again.

use crate::error::run_error;
use pyo3::prelude::*;
use serde_json::Deserializer;
use tierscope_system::result::RunResult;

/// Reads a result and gives it with every key of the layout. An error names the first value that
/// is missing or that cannot be, by its path.
#[pyfunction]
pub fn read_result(text: &str) -> PyResult<String> {
    let mut json = Deserializer::from_str(text);
    let read: Result<RunResult, _> = serde_path_to_error::deserialize(&mut json);
    let result = read.map_err(|error| {
        let (path, why) = (error.path().to_string(), error.inner());
        let place = if path == "." { String::new() } else { format!("`{path}`: ") };
        run_error("unreadable", format!("{place}{why}"))
    })?;
    json.end().map_err(|error| run_error("unreadable", error))?;
    serde_json::to_string(&result).map_err(|error| run_error("unreadable", error))
}
