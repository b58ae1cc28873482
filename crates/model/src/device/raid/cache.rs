//! The cache of an adapter: what was read, and what was written and is not on the drives yet.
//!
//! It knows pages and no time. What is clean gives way, the least recently used first; what is dirty is written to
//! each drive in the order of places, from where the last run ended on, and around again.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tierscope_units::{Problems, Size};

/// The cache of an adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RaidCacheSpec {
    /// Bytes of it.
    pub capacity: Size,
    /// Whether a write is done once it is in the cache, which a battery keeps if power fails: flushes are done at
    /// once then, and what goes to the drives is forced past their buffers. Else it is done once the drives have it,
    /// and flushes go to them.
    pub write_back: bool,
    /// Runs of pages that each drive is given to write at once, at most.
    pub write_backs: u32,
}

impl RaidCacheSpec {
    /// Collects every semantic mistake below `path`, of drives of such pages.
    pub(super) fn check(&self, path: &str, page: Size, problems: &mut Problems) {
        problems.at_least(path, "capacity", self.capacity, page);
        if self.capacity > page && !self.capacity.bytes().is_multiple_of(page.bytes().max(1)) {
            problems.add(
                "contradiction",
                format!("{path}.capacity"),
                self.capacity.to_string(),
                format!("it is not a whole number of pages of {page}"),
                "write a multiple of the page".into(),
            );
        }
        problems.at_least(path, "write_backs", self.write_backs, 1);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The same as on its drive, used last at this turn.
    Clean(u64),
    /// It waits to be written.
    Dirty,
    /// It is being written.
    Writing,
    /// It is being written, and was written again meanwhile.
    Rewritten,
}

/// The state of the cache. Pages are known by drive and by their number there.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    capacity: usize,
    pages: BTreeMap<(usize, u64), State>,
    /// What is clean, by the turn of its last use.
    clean: BTreeMap<u64, (usize, u64)>,
    turn: u64,
    /// What waits to be written to each drive.
    dirty: Vec<BTreeSet<u64>>,
    /// Where the last run to each drive ended.
    at: Vec<u64>,
}

impl Cache {
    /// An empty cache of so many pages before so many drives.
    pub(super) fn new(capacity: u64, drives: usize) -> Self {
        Cache {
            capacity: capacity.max(1) as usize,
            pages: BTreeMap::new(),
            clean: BTreeMap::new(),
            turn: 0,
            dirty: vec![BTreeSet::new(); drives],
            at: vec![0; drives],
        }
    }

    /// Whether it has all of these, which are read.
    pub(super) fn read(&mut self, pages: impl Iterator<Item = (usize, u64)> + Clone) -> bool {
        let has = pages.clone().all(|page| self.pages.contains_key(&page));
        if has {
            pages.for_each(|page| self.touch(page));
        }
        has
    }

    /// A page that is clean has been used.
    fn touch(&mut self, page: (usize, u64)) {
        if let Some(State::Clean(turn)) = self.pages.get(&page) {
            self.clean.remove(turn);
            self.keep_clean(page);
        }
    }

    fn keep_clean(&mut self, page: (usize, u64)) {
        self.turn += 1;
        self.clean.insert(self.turn, page);
        self.pages.insert(page, State::Clean(self.turn));
    }

    /// Keeps a page that has been read, if there is room that nothing dirty has.
    pub(super) fn keep(&mut self, page: (usize, u64)) {
        if self.pages.contains_key(&page) {
            self.touch(page);
        } else if self.make_room() {
            self.keep_clean(page);
        }
    }

    /// Whether there is room for a page: there was, or the clean page used least recently gave way.
    fn make_room(&mut self) -> bool {
        if self.pages.len() < self.capacity {
            return true;
        }
        let oldest = self.clean.pop_first();
        oldest.is_some_and(|(_, page)| self.pages.remove(&page).is_some())
    }

    /// Pages that are not on their drives yet.
    pub(super) fn waiting(&self) -> u64 {
        (self.pages.len() - self.clean.len()) as u64
    }

    /// Whether a page is not on its drive yet.
    pub(super) fn waits(&self, page: (usize, u64)) -> bool {
        self.pages.get(&page).is_some_and(|state| !matches!(state, State::Clean(_)))
    }

    /// Whether any of some pages of a drive is not on it yet.
    pub(super) fn waits_in(&self, drive: usize, pages: Range<u64>) -> bool {
        let mut known = self.pages.range((drive, pages.start)..(drive, pages.end.max(pages.start)));
        known.any(|(_, state)| !matches!(state, State::Clean(_)))
    }

    /// Whether any of these is being written.
    pub(super) fn is_writing(&self, mut pages: impl Iterator<Item = (usize, u64)>) -> bool {
        let writing =
            |page| matches!(self.pages.get(&page), Some(State::Writing | State::Rewritten));
        pages.any(writing)
    }

    /// Power has failed: what is not on its drive waits to be written, if it is kept; nothing else is here.
    pub(super) fn restart(&mut self, keeps: bool) {
        let waiting = self.pages.iter().filter(|(_, state)| !matches!(state, State::Clean(_)));
        let waiting: Vec<_> = waiting.map(|(page, _)| *page).filter(|_| keeps).collect();
        *self = Cache::new(self.capacity as u64, self.dirty.len());
        for page in waiting {
            self.pages.insert(page, State::Dirty);
            self.dirty[page.0].insert(page.1);
        }
    }

    /// Whether so much may be written by one request at all.
    pub(super) fn fits(&self, pages: usize) -> bool {
        pages <= self.capacity
    }

    /// Takes what is written, if there is room for all of it.
    pub(super) fn write(&mut self, pages: impl Iterator<Item = (usize, u64)> + Clone) -> bool {
        let waits = self.pages.len() - self.clean.len();
        let is_new = |page: &(usize, u64)| {
            !matches!(self.pages.get(page), Some(State::Dirty | State::Writing | State::Rewritten))
        };
        if waits + pages.clone().filter(is_new).count() > self.capacity {
            return false;
        }
        // What is there already does not give way to the rest of its own request.
        for page in pages.clone() {
            self.begin_dirty(page);
        }
        for page in pages {
            if !self.pages.contains_key(&page) {
                self.make_room();
                self.pages.insert(page, State::Dirty);
                self.dirty[page.0].insert(page.1);
            }
        }
        debug_assert!(self.pages.len() <= self.capacity);
        true
    }

    /// A page that is there has been written.
    fn begin_dirty(&mut self, page: (usize, u64)) {
        match self.pages.get_mut(&page) {
            Some(state @ State::Clean(_)) => {
                if let State::Clean(turn) = *state {
                    self.clean.remove(&turn);
                }
                *state = State::Dirty;
                self.dirty[page.0].insert(page.1);
            }
            Some(state @ State::Writing) => *state = State::Rewritten,
            Some(State::Dirty | State::Rewritten) | None => {}
        }
    }

    /// Nobody wants some pages of a drive any more; what is being written is. Which of them were here.
    pub(super) fn drop_range(&mut self, drive: usize, pages: Range<u64>) -> Vec<(usize, u64)> {
        let known = self.pages.range((drive, pages.start)..(drive, pages.end.max(pages.start)));
        let known: Vec<_> = known.map(|(page, _)| *page).collect();
        known.iter().for_each(|page| self.drop_page(*page));
        known
    }

    /// Nobody wants a page any more, or it is written past the cache; what is being written is.
    pub(super) fn drop_page(&mut self, page: (usize, u64)) {
        match self.pages.get(&page) {
            Some(State::Clean(turn)) => {
                self.clean.remove(turn);
                self.pages.remove(&page);
            }
            Some(State::Dirty) => {
                self.dirty[page.0].remove(&page.1);
                self.pages.remove(&page);
            }
            Some(State::Rewritten) => {
                self.pages.insert(page, State::Writing);
            }
            Some(State::Writing) | None => {}
        }
    }

    /// The next run of a drive to be written, of at most so many pages that follow each other: the first, and how
    /// many.
    pub(super) fn take_run(&mut self, drive: usize, most: u64) -> Option<(u64, u64)> {
        let dirty = &mut self.dirty[drive];
        let first = dirty.range(self.at[drive]..).next().or_else(|| dirty.first()).copied()?;
        let mut count = 0;
        while count < most && dirty.remove(&(first + count)) {
            self.pages.insert((drive, first + count), State::Writing);
            count += 1;
        }
        self.at[drive] = first + count;
        Some((first, count))
    }

    /// A run has been written.
    pub(super) fn written(&mut self, drive: usize, first: u64, count: u64) {
        for page in first..first + count {
            if self.pages.get(&(drive, page)) == Some(&State::Rewritten) {
                self.pages.insert((drive, page), State::Dirty);
                self.dirty[drive].insert(page);
            } else {
                self.keep_clean((drive, page));
            }
        }
    }
}

#[cfg(test)]
mod tests;
