//! Simulated time, events, queues, random streams, statistics and stages.
//!
//! Time is an integer of picoseconds everywhere (`_ps`). No devices, no I/O, no wall clock. All
//! types are `Clone`, and equal calls give equal answers on every computer.

pub mod clock;
pub mod cow;
pub mod depths;
pub mod event;
pub mod heat_map;
pub mod histogram;
pub mod numbers;
pub mod queue;
pub mod random;
pub mod slab;
pub mod stage;

pub use clock::{Clock, Pace};
pub use cow::{CowCell, CowMap, CowTable, CowVec};
pub use depths::DepthSeries;
pub use event::EventQueue;
pub use heat_map::HeatMap;
pub use histogram::LatencyHistogram;
pub use numbers::NumberMap;
pub use queue::BoundedQueue;
pub use random::{Counter, Permutation, Random};
pub use slab::Slab;
pub use stage::{MOST_TIME_PS, Stage, StageTimes, Timeline};
