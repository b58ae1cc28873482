//! The operating system.

mod spec;

pub use spec::*;
