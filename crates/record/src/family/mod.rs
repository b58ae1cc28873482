//! The processes of a program, and the host that has its machines.
//!
//! The host ([`crate::host`]) runs nothing of the program. Each process streams its operations to it
//! through memory that all share ([`channel`]): those that are forked inherit it, and a program that a
//! process runs in its place maps it anew. In the host a thread for each process reads them and gives
//! threads, files and addresses numbers that hold in the whole program ([`translate`]). See
//! docs/decisions/0004 and 0005.

pub mod channel;
mod child;
mod serve;
mod translate;

pub use child::{ChildSink, Replacing, in_child, prepare_fork, release_parent};
pub use serve::Family;

use channel::{Shared, state};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use tierscope_workload::ThreadId;

/// What all processes share; there from the beginning on.
static SHARED: OnceLock<&'static Shared> = OnceLock::new();

/// A process that was forked, as its parent knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forked {
    /// Its number in the run.
    pub process: u32,
    /// The parent's number for its first thread.
    pub thread: ThreadId,
}

/// From now on this process belongs to a program, or is the host of one. False where it does already.
pub fn join(shared: &'static Shared) -> bool {
    SHARED.set(shared).is_ok()
}

/// Processes so far, the first included.
pub fn processes() -> u32 {
    1 + SHARED.get().map_or(0, |shared| shared.processes.load(Ordering::Relaxed))
}

/// What counts the sites of the program's code, for all its processes.
pub fn site_counter() -> Option<&'static AtomicU32> {
    SHARED.get().map(|shared| &shared.sites)
}

/// Takes a channel for a process that the one of `parent` is about to fork, whose first thread that
/// one calls `thread`. None where there can be no more.
pub fn claim(parent: &ChildSink, thread: ThreadId) -> Option<usize> {
    let shared = SHARED.get()?;
    let index = shared.claim()?;
    let channel = &shared.channels[index];
    channel.parent.store(parent.process, Ordering::Relaxed);
    channel.parent_image.store(parent.image, Ordering::Relaxed);
    channel.thread.store(thread, Ordering::Relaxed);
    Some(index)
}

/// The fork for which a channel was claimed has failed.
pub fn disclaim(index: usize) {
    if let Some(shared) = SHARED.get() {
        shared.channels[index].state.store(state::FREE, Ordering::Release);
    }
}

/// The process for which a channel was claimed, and its first thread.
pub fn forked(index: usize) -> Option<Forked> {
    let channel = &SHARED.get()?.channels[index];
    Some(Forked {
        process: channel.process.load(Ordering::Relaxed),
        thread: channel.thread.load(Ordering::Relaxed),
    })
}

/// The signal that the first thread of a process gave as it ended.
pub fn last_signal(process: u32) -> Option<u64> {
    SHARED.get()?.last_signal(process)
}
