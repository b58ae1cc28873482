//! The processor.

mod spec;

pub use spec::*;
