//! Where a recorder's operations go: one file a sink.

pub mod discard;
pub mod machines;
pub mod tst;

use crate::capture::Ended;
use serde_json::Value;
use tierscope_workload::{FileInfo, Op, Site, SiteId, ThreadId};

pub use tierscope_workload::Counts;

/// Takes a program's operations.
///
/// Called from the program's threads, any number at once; each thread's operations come in program
/// order. A sink may make a thread wait, but never for another of the program's threads. After
/// [`Sink::finish`] or [`Sink::cut`] whatever still comes is dropped.
pub trait Sink: Send + Sync {
    /// Takes operations of `thread`, whole calls only.
    fn accept(&self, thread: ThreadId, ops: &[Op]);

    /// The same, where nobody else needs them.
    fn take(&self, thread: ThreadId, ops: Vec<Op>) {
        self.accept(thread, &ops);
    }

    /// Takes the next file; files come in the order of their numbers, each before the first
    /// operation that names it.
    fn add_file(&self, file: &FileInfo);

    /// What is at a site, before the first operation of this process that names it.
    fn add_site(&self, number: SiteId, site: &Site);

    /// `thread` has ended.
    fn end_thread(&self, thread: ThreadId);

    /// The program has ended: comes to its own end and returns its result, as JSON.
    fn finish(&self, ended: &Ended) -> Value;

    /// The recording cannot go on.
    fn cut(&self, reason: &str);

    /// Something of the program is not recorded, in words. A sink may keep it: who launched the program
    /// hears of it in any case.
    fn add_missing(&self, _what: &str) {}

    /// Comes to an early end: what was taken so far need not all be worked off.
    fn stop(&self);

    /// Whether it takes nothing any more, because it was stopped or has all that it wanted.
    fn is_done(&self) -> bool;

    /// Whether it counts operations and does nothing else with them. Then it may be given counts alone.
    fn counts_only(&self) -> bool {
        false
    }

    /// Takes the counts of operations, in the place of those.
    fn add_counts(&self, _counts: &Counts) {}

    /// The state of affairs, for the progress shown, as JSON.
    fn progress(&self) -> Value {
        Value::Null
    }
}
