//! Marks that a recorded Python program gives about itself.

use pyo3::prelude::*;
use tierscope_record::marker;

/// Begins the region of interest where the calling program is recorded.
#[pyfunction]
pub fn roi_begin() {
    marker::begin_region();
}

/// Ends the region of interest.
#[pyfunction]
pub fn roi_end() {
    marker::end_region();
}
