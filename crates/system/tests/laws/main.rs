//! Laws of whole machines and of devices alone, of failures of power and of sampled runs.
//!
//! One program for all of them: what they call is linked once, and no processor waits for the longest of a few tests.

mod alone;
mod alone_drive;
mod alone_store;
mod coherence;
#[path = "../common/mod.rs"]
mod common;
mod counts;
mod crash;
mod crash_files;
mod cut;
mod durable;
mod hardware_threads;
mod machine;
mod request_log;

mod sampling;
mod script;
mod sequences;
mod sites;
mod thorough;
mod warming;
