//! Which pages of memory are of files.

use crate::op::{FileId, MAP_SHARED, MAP_WRITABLE, NO_FILE};
use std::collections::BTreeMap;

/// What is behind a page of a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backing {
    /// The file.
    pub(super) file: FileId,
    /// Its page.
    pub(super) page: u64,
    /// Stores reach the file.
    pub(super) shared: bool,
    /// Stores are allowed.
    pub(super) writable: bool,
}

/// A range of pages of a file, by where it starts.
#[derive(Clone, Copy)]
struct Range {
    end: u64,
    first: Backing,
}

/// Mappings of files; all else is memory.
#[derive(Default)]
pub(super) struct Mappings(BTreeMap<u64, Range>);

impl Mappings {
    /// Maps a range of pages, in the place of what was there.
    pub(super) fn map(&mut self, start: u64, end: u64, flags: u64, file: FileId, page: u64) {
        self.unmap(start, end);
        if file != NO_FILE && start < end {
            let (shared, writable) = (flags & MAP_SHARED != 0, flags & MAP_WRITABLE != 0);
            let first = Backing { file, page, shared, writable };
            self.0.insert(start, Range { end, first });
        }
    }

    /// Removes what is mapped in a range of pages.
    pub(super) fn unmap(&mut self, start: u64, end: u64) {
        self.take(start, end);
    }

    /// Moves what is mapped in a range of pages, and makes it shorter or longer.
    pub(super) fn remap(&mut self, old: (u64, u64), new: (u64, u64)) {
        let taken = self.take(old.0, old.1);
        self.take(new.0, new.1);
        for (start, range) in taken {
            let to = new.0.saturating_add(start - old.0);
            // What grows goes on where the range ended.
            let end =
                if range.end == old.1 { new.1 } else { new.0.saturating_add(range.end - old.0) };
            let end = end.min(new.1);
            if to < end {
                self.0.insert(to, Range { end, ..range });
            }
        }
    }

    /// What is behind a page; `None` for memory.
    pub(super) fn find(&self, page: u64) -> Option<Backing> {
        let (start, range) = self.0.range(..=page).next_back()?;
        (page < range.end).then(|| advanced(range.first, page - start))
    }

    /// Maps what a range of pages has, at another place, too.
    pub(super) fn copy(&mut self, from: (u64, u64), to: u64) {
        let ranges: Vec<(u64, Range)> =
            self.0.range(from.0..from.1).map(|(at, range)| (*at, *range)).collect();
        for (at, range) in ranges {
            let moved = |page: u64| page - from.0 + to;
            self.0.insert(moved(at), Range { end: moved(range.end), ..range });
        }
    }

    /// Removes what is mapped in a range of pages, and gives it.
    fn take(&mut self, start: u64, end: u64) -> Vec<(u64, Range)> {
        if start >= end {
            return Vec::new();
        }
        let touching = self.0.range(..end).rev().take_while(|(_, range)| range.end > start);
        let touching: Vec<(u64, Range)> = touching.map(|(at, range)| (*at, *range)).collect();
        let mut taken = Vec::with_capacity(touching.len());
        for (at, range) in touching {
            self.0.remove(&at);
            if at < start {
                self.0.insert(at, Range { end: start, ..range });
            }
            if range.end > end {
                let first = advanced(range.first, end - at);
                self.0.insert(end, Range { first, ..range });
            }
            let from = at.max(start);
            taken.push((
                from,
                Range { end: range.end.min(end), first: advanced(range.first, from - at) },
            ));
        }
        taken
    }
}

fn advanced(backing: Backing, pages: u64) -> Backing {
    Backing { page: backing.page.saturating_add(pages), ..backing }
}
