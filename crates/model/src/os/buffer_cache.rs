//! The extended buffer cache of \[EBC11\]: a second level of the page cache, in flash on the memory
//! bus, between the page cache and the store.
//!
//! Pages of files that reclaim evicts from the page cache enter it; a page that is not in the page
//! cache is looked for in it before it is read from the store. It holds clean pages only: what is
//! dirty goes to the store first, and what is written or cut off a file is invalid in it. The
//! operating system reaches it as memory: whoever evicts stands still while a page is programmed,
//! whoever misses while one is read, without block layer, driver and interrupt. What it may hold,
//! readahead reads from the store nevertheless, unless it is told to ask first.
//!
//! Here is which pages it holds; [`crate::os::paging`] has what that means for the page cache.

use crate::cache::{AnyTagStore, Place};
use crate::replacement::{MAX_WAYS, PolicyKind};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use tierscope_units::{Duration, Problems, Size};

/// A second level of the page cache, in flash on the memory bus (\[EBC11\]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BufferCacheSpec {
    /// What it holds; 0 for none, which is the unmodified kernel.
    pub capacity: Size,
    /// Pages of a set.
    pub ways: u32,
    /// Which page of a set goes when another comes.
    pub replacement: PolicyKind,
    /// Time to read a page, as a multiple of what the DRAM takes to move as much at its peak rate.
    pub read_slowdown: f64,
    /// Time to program a page, as a multiple of the same.
    pub program_slowdown: f64,
    /// Time to read a page, in place of what `read_slowdown` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_time: Option<Duration>,
    /// Time to program a page, in place of what `program_slowdown` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_time: Option<Duration>,
    /// What becomes of a page that is found.
    pub on_hit: OnHit,
    /// Who waits while a page is programmed.
    pub insertion: Insertion,
    /// Pages that may wait to be programmed, where nobody waits for them; others do not enter.
    pub queue_pages: u32,
    /// Whether readahead asks what is held.
    pub readahead: HeldPages,
}

/// What becomes of a page of the extended buffer cache that is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnHit {
    /// It leaves for the page cache.
    Move,
    /// It stays, too, as in the L2ARC of ZFS: if it is not written it need not be programmed again.
    Copy,
}

/// Who waits while a page of the extended buffer cache is programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Insertion {
    /// Whoever evicts it from the page cache.
    Synchronous,
    /// Nobody: pages are programmed one after the other, from a queue.
    Asynchronous,
}

/// What readahead does with pages that the extended buffer cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HeldPages {
    /// It reads them from the store, as it does not know.
    Ignore,
    /// It passes over them.
    Consult,
}

/// Slowdown factors beyond which lie slips of the pen.
const MOST_SLOWDOWN: f64 = 1e6;

impl BufferCacheSpec {
    /// Collects every semantic mistake below `path`.
    pub fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "ways", self.ways, 1);
        problems.at_most(path, "ways", self.ways, MAX_WAYS as u32);
        problems.at_least(path, "queue_pages", self.queue_pages, 1);
        for (name, slowdown) in
            [("read_slowdown", self.read_slowdown), ("program_slowdown", self.program_slowdown)]
        {
            if !(0.0..=MOST_SLOWDOWN).contains(&slowdown) {
                problems.add(
                    "impossible-value",
                    format!("{path}.{name}"),
                    slowdown.to_string(),
                    format!("a multiple of DRAM's time lies between 0 and {MOST_SLOWDOWN}"),
                    "write 400.0".into(),
                );
            }
        }
    }

    /// Collects every contradiction with pages of this size, below `path`.
    pub fn check_with(&self, path: &str, page: Size, problems: &mut Problems) {
        let set = Size::from_bytes(page.bytes().saturating_mul(u64::from(self.ways)));
        if set.bytes() > 0 && !self.capacity.bytes().is_multiple_of(set.bytes()) {
            problems.add(
                "contradiction",
                format!("{path}.capacity"),
                self.capacity.to_string(),
                format!(
                    "it is not a whole number of sets of {set} ({} pages of {page})",
                    self.ways
                ),
                format!("write a multiple of {set}"),
            );
        }
    }

    /// Times to read and to program a page, in picoseconds, beside a DRAM that moves so many bytes a
    /// second at its peak.
    pub fn times_ps(&self, page_bytes: u64, dram_bytes_per_s: f64) -> (u64, u64) {
        let dram_ps = page_bytes as f64 / dram_bytes_per_s * 1e12;
        let of = |time: Option<Duration>, slowdown: f64| {
            time.map_or((slowdown * dram_ps).round() as u64, |time| time.picoseconds())
        };
        (of(self.read_time, self.read_slowdown), of(self.program_time, self.program_slowdown))
    }
}

counters! {
    /// What an extended buffer cache has done, in pages.
    pub struct BufferCacheCounters {
        /// Pages of files that were not in the page cache and were looked for here.
        pub lookups,
        /// Of these, pages that were here.
        pub hits,
        /// Pages programmed, when the page cache evicted them.
        pub insertions,
        /// Pages that the page cache evicted and that were here still.
        pub kept,
        /// Pages that did not enter, because too many waited to be programmed.
        pub dropped,
        /// Pages that others displaced.
        pub evictions,
        /// Pages that were written or cut off, and so became invalid here.
        pub invalidations,
        /// Pages that were read from the store although they were here: by readahead, or because
        /// they came with another page that a call asked for.
        pub bypassed,
    }
}

/// What came of a page that was to enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// It is here already.
    Kept,
    /// It is programmed, for which whoever evicts it stands still so long.
    Programmed {
        /// Picoseconds.
        stall_ps: u64,
    },
    /// It is lost: too many wait.
    Dropped,
}

/// Pages that nobody waits for.
#[derive(Clone, Debug)]
struct Queue {
    most: usize,
    /// When each will have been programmed.
    ends_ps: VecDeque<u64>,
}

/// Which pages an extended buffer cache holds. A page is known by its place in the store, in pages.
#[derive(Clone, Debug)]
pub struct BufferCache {
    tags: AnyTagStore,
    read_ps: u64,
    program_ps: u64,
    moves: bool,
    readahead: HeldPages,
    queue: Option<Queue>,
    /// What it has done.
    pub counters: BufferCacheCounters,
}

impl BufferCache {
    /// An empty one, of a description that has been checked; `None` where it has no capacity.
    pub fn new(
        spec: &BufferCacheSpec,
        page_bytes: u64,
        dram_bytes_per_s: f64,
        seed: u64,
    ) -> Option<Self> {
        let sets = spec.capacity.bytes() / page_bytes / u64::from(spec.ways);
        let (read_ps, program_ps) = spec.times_ps(page_bytes, dram_bytes_per_s);
        let queue = Queue { most: spec.queue_pages as usize, ends_ps: VecDeque::new() };
        (sets > 0).then(|| BufferCache {
            tags: AnyTagStore::new(spec.replacement, sets, spec.ways as usize, false, seed),
            read_ps,
            program_ps,
            moves: spec.on_hit == OnHit::Move,
            readahead: spec.readahead,
            queue: (spec.insertion == Insertion::Asynchronous).then_some(queue),
            counters: BufferCacheCounters::default(),
        })
    }

    /// Time to read a page, in picoseconds.
    pub fn read_ps(&self) -> u64 {
        self.read_ps
    }

    /// Whether a page is here; asking has no effect.
    pub fn holds(&self, page: u64) -> bool {
        self.tags.lookup(page).is_some()
    }

    /// Whether readahead passes over a page.
    pub fn spares(&self, page: u64) -> bool {
        self.readahead == HeldPages::Consult && self.holds(page)
    }

    /// A page that is here is read, and goes where it is moved.
    pub fn take(&mut self, page: u64) {
        self.counters.lookups += 1;
        self.counters.hits += 1;
        if self.moves {
            self.tags.invalidate(page);
        } else {
            self.tags.access(page, false);
        }
    }

    /// A page is read from the store after it was not found here.
    pub fn miss(&mut self) {
        self.counters.lookups += 1;
    }

    /// A page is read from the store without having been looked for.
    pub fn bypass(&mut self, page: u64) {
        self.counters.bypassed += u64::from(self.holds(page));
    }

    /// A clean page comes from the page cache.
    pub fn enter(&mut self, page: u64, now_ps: u64) -> Entered {
        if self.tags.access(page, false).is_some() {
            self.counters.kept += 1;
            return Entered::Kept;
        }
        let mut stall_ps = self.program_ps;
        if let Some(queue) = &mut self.queue {
            while queue.ends_ps.front().is_some_and(|end_ps| *end_ps <= now_ps) {
                queue.ends_ps.pop_front();
            }
            if queue.ends_ps.len() >= queue.most {
                self.counters.dropped += 1;
                return Entered::Dropped;
            }
            let begin_ps = queue.ends_ps.back().map_or(now_ps, |last_ps| *last_ps);
            queue.ends_ps.push_back(begin_ps.saturating_add(self.program_ps));
            stall_ps = 0;
        }
        let at = match self.tags.place(page) {
            Place::Free(at) => at,
            Place::Taken(at, _) => {
                self.counters.evictions += 1;
                at
            }
            Place::Pinned => unreachable!("nothing here is pinned"),
        };
        self.tags.insert_at(at, page, 0);
        self.counters.insertions += 1;
        Entered::Programmed { stall_ps }
    }

    /// A page is not what it was: what is here of it is invalid.
    pub fn invalidate(&mut self, page: u64) {
        self.counters.invalidations += u64::from(self.tags.invalidate(page).is_some());
    }

    /// A second one; the tags are shared until written.
    pub fn fork(&mut self) -> Self {
        BufferCache { tags: self.tags.fork(), queue: self.queue.clone(), ..*self }
    }
}

#[cfg(test)]
pub(crate) mod tests;
