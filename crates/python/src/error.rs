//! Errors on their way to Python.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use serde_json::json;
use tierscope_units::Problems;

create_exception!(_core, SpecError, PyException, "Mistakes of descriptions: a JSON list.");
create_exception!(_core, RunError, PyException, "A code and a message.");

/// All mistakes as one exception, whose argument is a JSON list of objects.
pub fn spec_error(problems: &Problems) -> PyErr {
    let list: Vec<_> = problems
        .iter()
        .map(|p| {
            json!({
                "code": p.code, "path": p.path, "value": p.value,
                "reason": p.reason, "mend": p.mend, "place": p.place,
            })
        })
        .collect();
    SpecError::new_err(serde_json::Value::from(list).to_string())
}

/// An error with a code of its own.
pub fn run_error(code: &str, message: impl std::fmt::Display) -> PyErr {
    RunError::new_err((code.to_owned(), message.to_string()))
}
