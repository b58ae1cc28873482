//! Functional warming of the hybrid: its tags become as they would by requests, at once. Fills and
//! write-backs take as long as they took in detail, so that prefetches find as much room as they would.

use super::controller::Controller;
use super::fill::FillPolicy;
use super::miss::Leaves;
use crate::cache::{Hit, WayRef, flag};
use crate::organization::PagesMoved;
use crate::request::Request;
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

    /// Takes the mean of what was seen in detail, if anything was since the last time, so many times as long.
    fn settle(&mut self, times: f64) {
        if let Some(mean_ps) = self.sum_ps.checked_div(self.count) {
            self.mean_ps = (mean_ps as f64 * times) as u64;
            (self.sum_ps, self.count) = (0, 0);
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

/// Pages that were prefetched, and that demand has fetched.
#[derive(Clone, Copy, Debug, Default)]
struct Fetched {
    ahead: u64,
    by_demand: u64,
}

/// How many times as long places are taken as in detail, so that as much is prefetched for each page that demand fetches
/// as there: nothing waits for a busy unit of the store here, and prefetches would find room more often.
#[derive(Clone, Debug)]
struct Stretch {
    times: f64,
    /// In all, when detail ended last, and of that without detail since then.
    before: Fetched,
    here: Fetched,
}

impl Default for Stretch {
    fn default() -> Self {
        Stretch { times: 1.0, before: Fetched::default(), here: Fetched::default() }
    }
}

impl Stretch {
    /// Fewer pages tell nothing.
    const ENOUGH: u64 = 50;
    /// The power of what it was off by that is made up for at once: units differ.
    const GAIN: f64 = 0.3;

    /// Detail has ended, with so much fetched in all.
    fn learn(&mut self, all: Fetched) {
        let here = std::mem::take(&mut self.here);
        let detail = Fetched {
            ahead: all.ahead - self.before.ahead - here.ahead,
            by_demand: all.by_demand - self.before.by_demand - here.by_demand,
        };
        self.before = all;
        let all = [here.ahead, here.by_demand, detail.ahead, detail.by_demand];
        if all.iter().all(|pages| *pages >= Self::ENOUGH) {
            let rate = |of: Fetched| of.ahead as f64 / of.by_demand as f64;
            let off = (rate(here) / rate(detail)).clamp(0.5, 2.0);
            self.times = (self.times * off.powf(Self::GAIN)).clamp(0.25, 4.0);
        }
    }
}

/// What warming knows of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Warming {
    pub(super) fills: Places,
    pub(super) write_backs: Places,
    stretch: Stretch,
    /// Up to when prefetches have gone on.
    at_ps: u64,
    /// What the store was asked for since it was last told.
    pub(super) asked: Vec<Request>,
}

impl Controller {
    /// A request in functional warming: tags become as they would by it, at once. Pages that moved for
    /// it; and all that moved go to `moved`, prefetches included.
    #[inline]
    pub(super) fn warm(
        &mut self,
        now_ps: u64,
        core: u16,
        (address, write): (u64, bool),
        moved: &mut PagesMoved,
    ) -> PagesMoved {
        let page = address >> self.page_shift;
        let sector = address >> self.sector_shift;
        self.report.lookups += 1;
        if self.prefetcher.is_on() {
            if self.warming.fills.count > 0 {
                let ahead = self.report.prefetched_pages;
                self.warming.stretch.learn(Fetched { ahead, by_demand: self.report.fetched_pages });
            }
            let times = self.warming.stretch.times;
            self.warming.fills.settle(times);
            self.warming.write_backs.settle(times);
            self.prefetch_until(now_ps, moved);
        }
        self.warm_tags(page, true);
        if let Some(Hit { way, flags }) = self.tags.access(page, write && self.sectors.is_none()) {
            self.hit_changes_tags(page, write, flags);
            if self.mark_used(way, flags, sector) && self.prefetcher.follows_uses() {
                self.prefetch_until(now_ps, moved);
            }
            if self.is_there(way, flags, sector) {
                if write && self.sectors.is_some() {
                    self.set_dirty(way, sector);
                }
                self.foresee(core, (address, write), true);
                return PagesMoved::default();
            }
        }
        self.foresee(core, (address, write), false);
        self.report.misses += 1;
        if self.fill_policy == FillPolicy::Reads && write {
            self.fill_report.writes_around_cache += 1;
            self.ask(sector, true);
            return PagesMoved { read: 0, written: 1 };
        }
        let fetches = !(write && self.fill_policy.by_whole_lines());
        self.report.fetched_pages += u64::from(fetches);
        self.warming.stretch.here.by_demand += u64::from(fetches);
        if fetches {
            self.ask(sector, false);
        }
        if !self.fill_policy.by_reads() && !write {
            self.fill_report.reads_past_cache += 1;
            return PagesMoved { read: 1, written: 0 };
        }
        let written = self.put(sector, write, false, moved);
        moved.read -= u64::from(!fetches);
        let evicts = written > 0;
        self.report.displaced_pages += u64::from(evicts);
        if self.prefetcher.is_on() {
            self.warming.fills.take(now_ps, self.fills as usize);
            if evicts {
                self.warming.write_backs.take(now_ps, self.write_backs.capacity());
            }
            self.prefetcher.missed(sector);
            self.prefetch_until(now_ps, moved);
        }
        PagesMoved { read: u64::from(fetches), written }
    }

    /// The last on-chip cache gives up a clean line in functional warming; whether it has come into DRAM. What goes for
    /// it goes to `moved`.
    pub(super) fn warm_clean(&mut self, address: u64, moved: &mut PagesMoved) -> bool {
        if self.fill_policy != FillPolicy::Victims {
            return false;
        }
        self.fill_report.clean_victims += 1;
        let sector = address >> self.sector_shift;
        if !self.has_tags(self.page_of(sector)) || self.is_known(sector) {
            return false;
        }
        self.fill_report.clean_victims_kept += 1;
        self.put(sector, false, false, moved);
        moved.read = 0;
        true
    }

    /// Every dirty page is written back at once, and stays, as by [`Controller::flush`]; how many sectors.
    pub(super) fn warm_flush(&mut self) -> u64 {
        let (mut from, mut written) = (0, 0);
        while let Some((way, page)) = self.tags.next_dirty(from) {
            from = self.tags.frame(way) + 1;
            self.report.write_backs += 1;
            self.note_change(page);
            written += self.write_back_at_once(way, page);
        }
        written
    }

    /// A sector comes, and a page may go for it; how many sectors of that were dirty.
    fn put(&mut self, sector: u64, write: bool, prefetch: bool, moved: &mut PagesMoved) -> u64 {
        let Some((way, leaves)) = self.way_for(sector) else { return 0 };
        let written = match leaves {
            Leaves::Dirty(page) => self.write_back_at_once(way, page),
            Leaves::Clean | Leaves::Nothing => 0,
        };
        let flags = if prefetch { flag::PREFETCHED } else { 0 };
        match leaves {
            Leaves::Nothing => self.tags.set_flags(way, flags),
            Leaves::Clean | Leaves::Dirty(_) => self.takes(way, self.page_of(sector), flags),
        }
        self.comes(way, sector, prefetch);
        self.note_change(self.page_of(sector));
        self.has_come(way, sector);
        if write {
            self.set_dirty(way, sector);
        }
        self.report.write_backs += u64::from(written > 0);
        moved.read += 1;
        moved.written += written;
        self.prefetcher.filled(sector, prefetch);
        if self.eager_write_back
            && let Some((way, page)) = self.next_to_go(sector)
        {
            moved.written += self.write_back_at_once(way, page);
            self.report.write_backs += 1;
        }
        written
    }

    /// A page is clean from now on; how many sectors were not, which the store is told of.
    fn write_back_at_once(&mut self, way: WayRef, page: u64) -> u64 {
        let dirty = self.take_dirty(way);
        let first = page << (self.page_shift - self.sector_shift);
        for sector in (0..64).filter(|sector| dirty >> sector & 1 == 1) {
            self.ask(first + sector, true);
        }
        u64::from(dirty.count_ones())
    }

    /// The store is asked for a sector.
    fn ask(&mut self, sector: u64, write: bool) {
        let (address, bytes) = (sector << self.sector_shift, self.sector_bytes() as u32);
        self.warming.asked.push(Request::of(address, bytes, write));
    }

    /// Prefetches begin as far as they find room, each when it does.
    fn prefetch_until(&mut self, now_ps: u64, moved: &mut PagesMoved) {
        while let Some(sector) = self.prefetcher.next() {
            self.warm_tags(self.page_of(sector), false);
            if !self.is_known(sector) && !self.warm_prefetch(now_ps, sector, moved) {
                return;
            }
            self.prefetcher.skip();
        }
        self.warming.at_ps = now_ps;
    }

    /// Prefetches a sector if there is room for it by `now_ps`, or no way that could be had: else it
    /// has to wait.
    fn warm_prefetch(&mut self, now_ps: u64, sector: u64, moved: &mut PagesMoved) -> bool {
        let Some((_, leaves)) = self.way_for(sector) else { return true };
        let dirty = matches!(leaves, Leaves::Dirty(_));
        let fills = self.fills as usize - Self::fills_kept(self.fills as usize);
        let places = self.write_backs.capacity() - self.places_kept(true);
        let Warming { fills: filling, write_backs, at_ps, .. } = &mut self.warming;
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
        self.warming.stretch.here.ahead += 1;
        self.ask(sector, false);
        self.put(sector, false, true, moved);
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
        places.settle(1.0);
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
