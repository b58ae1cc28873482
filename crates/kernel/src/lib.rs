//! Simulated time, events, queues, random streams, statistics and stages.
//!
//! Time is an integer of picoseconds everywhere (`_ps`). No devices, no I/O, no wall clock.

pub mod stage;
