//! From a description to a result: specification, validation, building, running.

pub mod result;
pub mod spec;
