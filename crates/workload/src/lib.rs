//! Workloads: threads that compute, load, store, map and call on files.
//!
//! A workload is a [`Stream`]: generated (`generator`), replayed from a recording (`trace`) or fed
//! live by a program under the recorder (`feed`). What a device alone is given are memory traces
//! ([`requests`]).

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod counts;
pub mod feed;
pub mod filebench;
pub mod filter;
pub mod generator;
#[cfg(test)]
mod goodness;
pub mod hints;
pub mod op;
mod order;
mod recency;
pub mod requests;
pub mod runs;
pub mod site;
pub mod stream;
pub mod touched;
pub mod trace;
pub mod windows;

pub use counts::Counts;
pub use op::{Call, FileId, Op, OpKind, ThreadId};
pub use site::{Site, SiteGrain, SiteId, SiteTable};
pub use stream::{About, FileInfo, Footprint, Prelude, Pull, Stream, StreamError};
