//! Requests, and where a device alone gets them from.

use crate::stream::{Footprint, StreamError};
use serde::Serialize;

/// What a request asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestKind {
    /// To read.
    #[default]
    Read,
    /// To write.
    Write,
    /// To write, and to answer when what is written is kept for good (force unit access).
    ForcedWrite,
    /// That all that was written before is kept for good.
    Flush,
    /// That what is there may be forgotten.
    Trim,
}

impl RequestKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [RequestKind; 5] = [
        RequestKind::Read,
        RequestKind::Write,
        RequestKind::ForcedWrite,
        RequestKind::Flush,
        RequestKind::Trim,
    ];

    /// The kind of what either reads or writes.
    #[inline]
    pub fn of(write: bool) -> Self {
        if write { RequestKind::Write } else { RequestKind::Read }
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            RequestKind::Read => "read",
            RequestKind::Write => "write",
            RequestKind::ForcedWrite => "forced write",
            RequestKind::Flush => "flush",
            RequestKind::Trim => "trim",
        }
    }
}

/// A request to a device: a memory or a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceRequest {
    /// First byte.
    pub address: u64,
    /// Bytes from there on; 0 where the source does not say, and what the device moves as one (a line,
    /// a page) is meant that holds the first byte. A flush has none.
    pub bytes: u32,
    /// What is asked for.
    pub kind: RequestKind,
    /// When it arrives, in ticks of the source's times ([`Times`](super::Times)) from its start;
    /// `None` where it has no times, and requests come as fast as they are taken.
    pub ticks: Option<u64>,
}

impl TraceRequest {
    /// A request for the line at an address.
    #[inline]
    pub fn line(address: u64, write: bool, ticks: Option<u64>) -> Self {
        TraceRequest { address, bytes: 0, kind: RequestKind::of(write), ticks }
    }

    /// Whether it writes.
    #[inline]
    pub fn is_write(&self) -> bool {
        matches!(self.kind, RequestKind::Write | RequestKind::ForcedWrite)
    }

    /// Whether it moves data.
    #[inline]
    pub fn moves(&self) -> bool {
        self.kind == RequestKind::Read || self.is_write()
    }

    /// Whether its last byte has an address.
    #[inline]
    pub(super) fn is_within_addresses(&self) -> bool {
        self.address.checked_add(u64::from(self.bytes.saturating_sub(1))).is_some()
    }

    /// The byte behind its last where it says how many it has, else the one behind its first; at most
    /// the largest number.
    #[inline]
    pub fn end(&self) -> u64 {
        self.address.saturating_add(u64::from(self.bytes.max(1)))
    }
}

/// What the times of requests are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// There are none.
    Absent,
    /// Cycles of a clock that the source does not say.
    Cycles,
    /// So many picoseconds.
    Ps(u64),
}

/// What operations of threads were that are no requests, or that a request does not tell of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Beside {
    /// Threads that have begun.
    pub threads: u64,
    /// Instructions of all operations.
    pub instructions: u64,
    /// Stores past the caches.
    pub non_temporal_stores: u64,
    /// Flushes of lines of the caches.
    pub line_flushes: u64,
    /// Fences.
    pub fences: u64,
    /// Reads and writes of files by calls.
    pub file_calls: u64,
}

/// How far a pass over requests is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Passed {
    /// Requests read.
    pub requests: u64,
    /// The share of the source that they are, about, where that is known.
    pub share: Option<f64>,
}

/// Where a device alone gets its requests from, in the order in which they arrive.
pub trait RequestSource: Send {
    /// The next request; `None` at the end.
    ///
    /// # Errors
    /// Where it cannot be read, or makes no sense.
    fn next(&mut self) -> Result<Option<TraceRequest>, StreamError>;

    /// What the times of its requests are counted in.
    fn times(&self) -> Times;

    /// Tells what the device moves as one, in bytes, before the first request is asked for. Sources
    /// whose requests are as large as the device would have them need it.
    ///
    /// # Errors
    /// Where it contradicts what the source was told before.
    fn fit(&mut self, _unit_bytes: u64) -> Result<(), StreamError> {
        Ok(())
    }

    /// How many requests there are in all, where that is known before they are read.
    fn count(&self) -> Option<u64> {
        None
    }

    /// What its requests lie in, from byte 0 on, where that is known before they are read.
    fn footprint(&self) -> Option<Footprint> {
        None
    }

    /// The share of it that has been read, about, where that is known.
    fn share(&self) -> Option<f64> {
        None
    }

    /// Instructions up to the request that came last, itself included, from the one before on; behind the last,
    /// those that are left. Of sources that tell none, nothing.
    fn instructions(&self) -> Option<u64> {
        None
    }

    /// What else there has been so far, where the requests are of a program.
    fn beside(&self) -> Beside {
        Beside::default()
    }

    /// What is worth knowing of what has been read so far, a sentence each.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// What to say of the request that came last where it makes no sense to whoever takes it.
    fn place(&self) -> String;

    /// A second source at the same place, which goes on by itself.
    ///
    /// # Errors
    /// Where what it reads from is gone.
    fn fork(&self) -> Result<Box<dyn RequestSource>, StreamError>;
}
