//! How long calls on files and on memory take, from when they enter the kernel until they return.

use super::thread::{OWNERS, owner_name};
use super::timed::Timed;
use crate::result::{CallResult, FaultResult};
use std::collections::BTreeMap;
use tierscope_workload::op::{MAP_LOCKED, MAP_POPULATE};
use tierscope_workload::{Call, FileId};

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
    /// ftruncate, truncate.
    Truncate,
    /// rename.
    Name,
    /// link.
    Link,
    /// unlink.
    Unlink,
    /// mkdir.
    MakeDirectory,
    /// rmdir.
    RemoveDirectory,
    /// getdents64.
    List,
    /// posix_fadvise, readahead.
    Advise,
    /// stat, access.
    Stat,
    /// mmap that brings its pages (MAP_POPULATE, MAP_LOCKED).
    Map,
    /// munmap, and brk where it takes some away.
    Unmap,
    /// mremap.
    Remap,
    /// mprotect, pkey_mprotect.
    Protect,
    /// madvise.
    AdviseMemory,
    /// mlock, mlock2, mlockall.
    Lock,
    /// munlock, munlockall.
    Unlock,
}

impl CallKind {
    const ALL: [(CallKind, &str); 24] = [
        (CallKind::Open, "open"),
        (CallKind::Read, "read"),
        (CallKind::Write, "write"),
        (CallKind::Sync, "sync"),
        (CallKind::SyncFileRange, "sync_file_range"),
        (CallKind::CopyRange, "copy_file_range"),
        (CallKind::Splice, "splice"),
        (CallKind::Allocate, "fallocate"),
        (CallKind::Truncate, "truncate"),
        (CallKind::Name, "rename"),
        (CallKind::Link, "link"),
        (CallKind::Unlink, "unlink"),
        (CallKind::MakeDirectory, "mkdir"),
        (CallKind::RemoveDirectory, "rmdir"),
        (CallKind::List, "getdents"),
        (CallKind::Advise, "fadvise"),
        (CallKind::Stat, "stat"),
        (CallKind::Map, "mmap"),
        (CallKind::Unmap, "munmap"),
        (CallKind::Remap, "mremap"),
        (CallKind::Protect, "mprotect"),
        (CallKind::AdviseMemory, "madvise"),
        (CallKind::Lock, "mlock"),
        (CallKind::Unlock, "munlock"),
    ];

    /// The kind of a call, if it is one on a file or on memory.
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
            Call::Truncate { .. } => CallKind::Truncate,
            Call::Rename { .. } => CallKind::Name,
            Call::Link { .. } => CallKind::Link,
            Call::Unlink { .. } | Call::Unname { .. } => CallKind::Unlink,
            Call::MakeDirectory { .. } => CallKind::MakeDirectory,
            Call::RemoveDirectory { .. } => CallKind::RemoveDirectory,
            Call::ReadDirectory { .. } => CallKind::List,
            Call::AdviseFile { .. } => CallKind::Advise,
            Call::Stat { .. } => CallKind::Stat,
            // Others take no time to speak of, and every program has them.
            Call::Map { flags, .. } if flags & (MAP_POPULATE | MAP_LOCKED) != 0 => CallKind::Map,
            Call::Unmap { .. } => CallKind::Unmap,
            Call::Remap { .. } => CallKind::Remap,
            Call::Protect { .. } => CallKind::Protect,
            Call::Advise { .. } | Call::Populate { .. } => CallKind::AdviseMemory,
            // As munlockall is told.
            Call::Unlock { .. } | Call::LockAll { flags: 0, .. } => CallKind::Unlock,
            Call::Lock { .. } | Call::LockAll { .. } => CallKind::Lock,
            _ => return None,
        })
    }
}

/// Names that a call looks up.
pub(super) fn paths_of(call: &Call) -> u32 {
    match call {
        Call::Open { .. } | Call::Stat { .. } => 1,
        Call::Unlink { .. } | Call::MakeDirectory { .. } | Call::RemoveDirectory { .. } => 1,
        Call::Unname { .. } => 1,
        Call::Rename { .. } | Call::Link { .. } => 2,
        _ => 0,
    }
}

/// Whether a call changes what names there are.
pub(super) fn changes_directory(call: &Call) -> bool {
    paths_of(call) > 0 && !matches!(call, Call::Open { .. } | Call::Stat { .. })
}

/// A call that a thread is in.
#[derive(Clone, Debug)]
pub(super) struct Called {
    kind: CallKind,
    /// The file that it names, if it names one.
    pub file: Option<FileId>,
    since_ps: u64,
    /// Bytes that it reads or writes.
    pub bytes: u64,
    /// The thread's time by owner when it began, modulo 2⁶⁴.
    times_before: Box<[u64; OWNERS]>,
}

impl Called {
    /// One that begins, of a thread with these times by owner.
    pub fn new(kind: CallKind, call: &Call, since_ps: u64, times: &[u64; OWNERS]) -> Called {
        Called { kind, file: call.file(), since_ps, bytes: 0, times_before: Box::new(*times) }
    }

    pub fn kind(&self) -> CallKind {
        self.kind
    }

    pub fn name(&self) -> &'static str {
        CallKind::ALL[self.kind as usize].1
    }

    /// What it has taken of a thread's time by owner, which is this now.
    pub fn took(&self, times: &[u64; OWNERS]) -> [u64; OWNERS] {
        std::array::from_fn(|owner| times[owner].wrapping_sub(self.times_before[owner]))
    }

    /// The thread's times were set to others: what the call has had of them stays.
    pub fn shift(&mut self, from: &[u64; OWNERS], to: &[u64; OWNERS]) {
        for (before, (from, to)) in self.times_before.iter_mut().zip(from.iter().zip(to)) {
            *before = before.wrapping_add(*to).wrapping_sub(*from);
        }
    }
}

/// Calls of a kind that have returned.
#[derive(Clone, Debug, Default)]
struct OfKind {
    timed: Timed<OWNERS>,
    bytes: u64,
}

/// Calls that have returned, by kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Returned([OfKind; CallKind::ALL.len()]);

impl Returned {
    /// One has, of a thread whose time by owner is this now.
    pub fn record(&mut self, called: &Called, now_ps: u64, times: &[u64; OWNERS]) {
        let took = called.took(times);
        debug_assert_eq!(
            took.iter().sum::<u64>(),
            now_ps - called.since_ps,
            "a call's stages are its time"
        );
        let of_kind = &mut self.0[called.kind as usize];
        of_kind.timed.record(&took);
        of_kind.bytes += called.bytes;
    }

    /// Of each kind that there were any of.
    pub fn results(&self) -> BTreeMap<String, CallResult> {
        let named = CallKind::ALL.iter().zip(&self.0);
        let told = named.filter_map(|((_, name), OfKind { timed, bytes })| {
            let FaultResult { count, time_ns, latency_ns, stages_ns } = timed.result(owner_name)?;
            let result = CallResult { count, bytes: *bytes, time_ns, latency_ns, stages_ns };
            Some((name.to_string(), result))
        });
        told.collect()
    }
}
