//! How long calls on files take, from when they enter the kernel until they return.

use crate::result::{CallResult, LatencySummary};
use std::collections::BTreeMap;
use tierscope_kernel::LatencyHistogram;
use tierscope_workload::Call;

/// Kinds of calls that are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    Open,
    Read,
    Write,
    /// What makes data durable: fsync, fdatasync, msync, sync, syncfs.
    Sync,
    /// What only begins that, or waits for it.
    SyncFileRange,
    /// Copies from file to file (copy_file_range, sendfile).
    CopyRange,
    /// To and from pipes and sockets (sendfile, splice).
    Splice,
    /// fallocate.
    Allocate,
    /// rename.
    Name,
    /// getdents64.
    List,
    /// posix_fadvise, readahead.
    Advise,
}

impl CallKind {
    const ALL: [(CallKind, &str); 11] = [
        (CallKind::Open, "open"),
        (CallKind::Read, "read"),
        (CallKind::Write, "write"),
        (CallKind::Sync, "sync"),
        (CallKind::SyncFileRange, "sync_file_range"),
        (CallKind::CopyRange, "copy_file_range"),
        (CallKind::Splice, "splice"),
        (CallKind::Allocate, "fallocate"),
        (CallKind::Name, "rename"),
        (CallKind::List, "getdents"),
        (CallKind::Advise, "fadvise"),
    ];

    /// The kind of a call, if it is one on a file that may take long.
    pub fn of(call: &Call) -> Option<Self> {
        Some(match call {
            Call::Open { .. } => CallKind::Open,
            Call::Read { .. } | Call::ReadDirect { .. } => CallKind::Read,
            Call::Write { .. } | Call::WriteDirect { .. } => CallKind::Write,
            Call::Sync { .. }
            | Call::SyncData { .. }
            | Call::SyncRange { .. }
            | Call::SyncAll {} => CallKind::Sync,
            Call::SyncFileRange { .. } => CallKind::SyncFileRange,
            Call::CopyRange { .. } => CallKind::CopyRange,
            Call::SpliceRead { .. } | Call::SpliceWrite { .. } => CallKind::Splice,
            Call::Allocate { .. } => CallKind::Allocate,
            Call::Rename { .. } => CallKind::Name,
            Call::ReadDirectory { .. } => CallKind::List,
            Call::AdviseFile { .. } => CallKind::Advise,
            _ => return None,
        })
    }
}

/// A call that a thread is in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Called {
    pub kind: CallKind,
    pub since_ps: u64,
    /// Bytes that it reads or writes.
    pub bytes: u64,
}

/// Calls that have returned, by kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Returned([(LatencyHistogram, u64); CallKind::ALL.len()]);

impl Returned {
    /// One has.
    pub fn record(&mut self, called: Called, now_ps: u64) {
        let (latencies, bytes) = &mut self.0[called.kind as usize];
        latencies.record(now_ps - called.since_ps);
        *bytes += called.bytes;
    }

    /// Of each kind that there were any of.
    pub fn results(&self) -> BTreeMap<String, CallResult> {
        let named = CallKind::ALL.iter().zip(&self.0);
        let told = named.filter_map(|((_, name), (latencies, bytes))| {
            let result = CallResult {
                count: latencies.count(),
                bytes: *bytes,
                time_ns: latencies.sum_ps() as f64 / 1e3,
                latency_ns: LatencySummary::of(latencies)?,
            };
            Some((name.to_string(), result))
        });
        told.collect()
    }
}
