//! From a description to a result: specification, validation, building, running.

pub mod alone;
pub mod counts;
pub mod crash;
mod disk;
mod distributions;
mod drive;
mod energy;
pub mod machine;
mod nvm;
mod request_log;
pub mod result;
pub mod run;
mod sampling;
pub mod spec;
