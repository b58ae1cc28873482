//! The components of a machine.

pub mod activity;
#[macro_use]
mod counters;
pub mod cache;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod device;
pub mod link;
pub mod medium;
pub mod organization;
pub mod os;
pub mod parts;
pub mod power;
pub mod processor;
pub mod replacement;
pub mod request;
