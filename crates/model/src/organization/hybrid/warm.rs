//! Functional warming of the hybrid: its tags become as they would by requests, at once. Fills and
//! write-backs take as long as they took in detail, so that prefetches find as much room as they would.

use super::controller::Controller;
use crate::cache::{Place as Way, flag};
use crate::organization::PagesMoved;
use std::collections::VecDeque;

/// Places that are taken for as long as they were in detail, on average.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// When each that is taken comes free, the soonest first.
    free_ps: VecDeque<u64>,
    mean_ps: u64,
    /// Of those in detail since the mean was last taken.
    sum_ps: u64,
    count: u64,
}

impl Places {
    /// In detail, one was taken for so long.
    pub(super) fn took(&mut self, duration_ps: u64) {
        self.sum_ps = self.sum_ps.saturating_add(duration_ps);
        self.count += 1;
    }

    /// Takes the mean of what was seen in detail, if anything was since the last time.
    fn settle(&mut self) {
        if let Some(mean_ps) = self.sum_ps.checked_div(self.count) {
            (self.mean_ps, self.sum_ps, self.count) = (mean_ps, 0, 0);
            self.free_ps.clear();
        }
    }

    /// One is taken from `now_ps` on, or from when one of the `most` comes free.
    fn take(&mut self, now_ps: u64, most: usize) {
        let begin_ps = if self.free_ps.len() < most {
            now_ps
        } else {
            self.free_ps.pop_front().map_or(now_ps, |free_ps| free_ps.max(now_ps))
        };
        let last_ps = self.free_ps.back().copied().unwrap_or(0);
        self.free_ps.push_back((begin_ps + self.mean_ps).max(last_ps));
    }

    /// When one of `most` is free at or after `now_ps`, if one is by `until_ps`.
    fn free_by(&mut self, now_ps: u64, until_ps: u64, most: usize) -> Option<u64> {
        self.free_ps.drain(..self.free_ps.partition_point(|free_ps| *free_ps <= now_ps));
        if self.free_ps.len() < most {
            return Some(now_ps);
        }
        let nth = self.free_ps.get(self.free_ps.len() - most.max(1)).copied();
        nth.filter(|free_ps| most > 0 && *free_ps <= until_ps)
    }
}

/// What warming knows of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Warming {
    pub(super) fills: Places,
    pub(super) write_backs: Places,
    /// Up to when prefetches have gone on.
    at_ps: u64,
}

impl Controller {
    /// A request in functional warming: tags become as they would by it, at once. Pages that moved for
    /// it; and all that moved go to `moved`, prefetches included.
    #[inline]
    pub(super) fn warm(
        &mut self,
        now_ps: u64,
        address: u64,
        write: bool,
        moved: &mut PagesMoved,
    ) -> PagesMoved {
        let page = address >> self.page_shift;
        self.report.lookups += 1;
        if self.prefetcher.is_on() {
            self.warming.fills.settle();
            self.warming.write_backs.settle();
            self.prefetch_until(now_ps, moved);
        }
        if let Some(hit) = self.tags.access(page, write) {
            self.mark_used(hit);
            return PagesMoved::default();
        }
        self.report.misses += 1;
        self.report.fetched_pages += 1;
        let flags = if write { flag::DIRTY } else { 0 };
        let evicts = self.put(page, flags, moved);
        self.report.displaced_pages += u64::from(evicts);
        if self.prefetcher.is_on() {
            self.warming.fills.take(now_ps, self.fills as usize);
            if evicts {
                self.warming.write_backs.take(now_ps, self.write_backs.capacity());
            }
            self.prefetcher.missed(page);
            self.prefetch_until(now_ps, moved);
        }
        PagesMoved { read: 1, written: u64::from(evicts) }
    }

    /// A page comes, and another may go; whether that one was dirty.
    fn put(&mut self, page: u64, flags: u8, moved: &mut PagesMoved) -> bool {
        let (way, dirty) = match self.tags.place(page) {
            Way::Free(way) => (way, false),
            Way::Taken(way, victim) => (way, victim.dirty()),
            Way::Pinned => return false,
        };
        self.tags.insert_at(way, page, flags);
        self.report.write_backs += u64::from(dirty);
        moved.read += 1;
        moved.written += u64::from(dirty);
        dirty
    }

    /// Prefetches begin as far as they find room, each when it does.
    fn prefetch_until(&mut self, now_ps: u64, moved: &mut PagesMoved) {
        while let Some(page) = self.prefetcher.next() {
            if self.tags.lookup(page).is_none() && !self.warm_prefetch(now_ps, page, moved) {
                return;
            }
            self.prefetcher.skip();
        }
        self.warming.at_ps = now_ps;
    }

    /// Prefetches a page if there is room for it by `now_ps`, or no way that could be had: else it
    /// has to wait.
    fn warm_prefetch(&mut self, now_ps: u64, page: u64, moved: &mut PagesMoved) -> bool {
        let dirty = match self.tags.place(page) {
            Way::Taken(_, victim) => victim.dirty(),
            Way::Free(_) => false,
            Way::Pinned => return true,
        };
        let fills = self.fills as usize - Self::fills_kept(self.fills as usize);
        let places = self.write_backs.capacity() - self.places_kept(true);
        let Warming { fills: filling, write_backs, at_ps } = &mut self.warming;
        let mut begin_ps = filling.free_by(*at_ps, now_ps, fills);
        if dirty {
            begin_ps = begin_ps.and_then(|ps| write_backs.free_by(ps, now_ps, places));
        }
        let Some(begin_ps) = begin_ps else { return false };
        *at_ps = begin_ps;
        filling.take(begin_ps, self.fills as usize);
        if dirty {
            write_backs.take(begin_ps, self.write_backs.capacity());
        }
        self.report.prefetched_pages += 1;
        self.put(page, flag::PREFETCHED, moved);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_free_after_the_mean_of_what_was_seen() {
        let mut places = Places::default();
        places.took(10);
        places.took(20);
        places.settle();
        places.take(100, 2);
        places.take(105, 2);
        assert_eq!(places.free_by(105, 114, 2), None);
        assert_eq!(places.free_by(105, 115, 2), Some(115));
        // The third waits for the first.
        places.take(106, 2);
        assert_eq!(places.free_ps, [120, 130]);
        assert_eq!(places.free_by(119, 119, 1), None);
        assert_eq!(places.free_by(119, 200, 1), Some(130));
        assert_eq!(places.free_by(125, 200, 2), Some(125));
        assert_eq!(places.free_by(125, 200, 0), None);
    }
}
