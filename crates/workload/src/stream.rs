//! Streams: where a machine gets the operations of each thread from.

pub use crate::generator::prelude::Prelude;
use crate::op::{Op, ThreadId};
use crate::site::SiteTable;
use std::sync::Arc;

/// Why a stream cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The recording is truncated, corrupted or of another version.
    #[error("{0}")]
    Damaged(String),
    /// The program that feeds the stream was killed or the feed was cut.
    #[error("{0}")]
    Cut(String),
}

/// What a pull gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pull {
    /// At least one operation was appended.
    More,
    /// The thread has ended: nothing was appended, and nothing ever will be.
    End,
}

/// A workload as one machine sees it: for each thread a sequence of operations, which it takes at
/// its own pace.
///
/// Thread 0 exists from the start. Every other thread starts when a `Call::Spawn` that names it is
/// consumed. The operations of a thread depend on nothing but the workload and its seed: neither
/// on the machine nor on the order or size of the pulls.
pub trait Stream: Send {
    /// Appends up to `limit` operations of `thread` to `out`, at least one unless it has ended.
    ///
    /// A live stream waits here, in the host, until the program has gone on. A call's header and
    /// its arguments are never separated: all are appended, beyond the limit if need be.
    fn pull(
        &mut self,
        thread: ThreadId,
        limit: usize,
        out: &mut Vec<Op>,
    ) -> Result<Pull, StreamError>;

    /// The same for a machine that is warmed functionally: accesses may be told together, as
    /// [`Run`](crate::runs::Run)s, in an order that differs within a piece of work.
    fn pull_condensed(
        &mut self,
        thread: ThreadId,
        limit: usize,
        out: &mut Vec<Op>,
    ) -> Result<Pull, StreamError> {
        self.pull(thread, limit, out)
    }

    /// Waits until a pull of `thread` would not wait, for a fraction of a second of wall-clock time
    /// at most; whether it would not. What is pulled does not depend on it.
    fn wait(&mut self, _thread: ThreadId) -> bool {
        true
    }

    /// Lets up to `count` operations of `thread` go by unseen; how many there were. A call counts
    /// as its header and arguments, and is never split: a skip that ends inside one goes on to its
    /// end. Generators jump; other streams pull and forget.
    fn skip(&mut self, thread: ThreadId, count: u64) -> Result<u64, StreamError> {
        const AT_ONCE: u64 = 4096;
        let mut skipped = 0;
        let mut forgotten = Vec::new();
        while skipped < count {
            forgotten.clear();
            let limit = (count - skipped).min(AT_ONCE) as usize;
            if self.pull(thread, limit, &mut forgotten)? == Pull::End {
                break;
            }
            skipped += forgotten.len() as u64;
        }
        Ok(skipped)
    }

    /// What its first thread does first, as far as it was pulled, as long as nothing beyond it was, of any thread.
    /// Workloads of which this [is the same](Prelude::is_as) begin alike.
    fn prelude(&self) -> Option<&Prelude> {
        None
    }

    /// A second stream that stands where this one stands, and goes on by itself.
    fn fork(&self) -> Box<dyn Stream>;

    /// Whether its calls tell of all memory that the program maps, so that what else it uses is its image and its
    /// stack: of recorded programs.
    fn tells_mappings(&self) -> bool {
        false
    }

    /// Memory that the workload maps and files that it has, where that is known before it runs: of generators.
    fn footprint(&self) -> Option<Footprint> {
        None
    }

    /// Loads and stores in all, where that is known before it runs.
    fn accesses(&self) -> Option<u64> {
        None
    }

    /// About how much it does, where that is known before it runs.
    fn about(&self) -> Option<About> {
        Some(About { accesses: self.accesses()?, instructions: None })
    }

    /// Loads and stores before the mark with which the region of interest begins, where there is one and that is known.
    fn accesses_before_region(&self) -> Option<u64> {
        None
    }

    /// Whether any thread gives a mark ([`crate::Call::Marker`]), where that is known before it runs.
    fn gives_mark(&self, _mark: u64) -> Option<bool> {
        None
    }

    /// Whether threads may end before what other threads wait for, because the program was cut off
    /// or its recording is. Threads that then wait for ever are at the workload's end.
    fn is_cut(&self) -> bool {
        false
    }

    /// Why the workload ended before it had done what was asked, and what mends it, where it has.
    fn ended_early(&self) -> Option<String> {
        None
    }

    /// What of it has had no effect up to now, for people.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// The files that the workload used so far, by number: name and size at first use.
    fn files(&self) -> Arc<Vec<FileInfo>> {
        Arc::new(Vec::new())
    }

    /// The sites that operations have named so far. Empty, and without a grain, where the workload
    /// knows of none.
    fn sites(&self) -> Arc<SiteTable> {
        Arc::default()
    }
}

/// Memory that a workload maps and files that it has in all, known before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes mapped without a file, and of files, at a time at most.
    pub bytes: u64,
    /// The generator's parameter that it follows from.
    pub parameter: &'static str,
}

/// About how much a workload does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Loads and stores.
    pub accesses: u64,
    /// Instructions of the program, where that is known.
    pub instructions: Option<u64>,
}

/// A file that a workload uses.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FileInfo {
    /// Path as the program gave it, or a generator's name for it.
    pub name: String,
    /// Size when it was first used, in bytes.
    pub size_bytes: u64,
}
