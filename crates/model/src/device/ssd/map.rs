//! The map of pages in flash, of which the drive's memory holds a part.
//!
//! A page of the map tells of as many pages of the drive as its entries, and lies in flash as data do, in
//! blocks of its own. Where each lies the memory always has. What the host wants to know, and what it or
//! collection changes, needs its page of the map in the memory: it is read from flash, and the one used
//! least recently gives way, after it has been programmed if it was changed.
//!
//! Source: A. Gupta, Y. Kim and B. Urgaonkar, "DFTL: a flash translation layer employing demand-based
//! selective caching of page-level address mappings", ASPLOS 2009; with whole pages of the map in memory
//! instead of single entries, as S. Jiang et al., "S-FTL: an efficient address translation for flash memory by
//! exploiting spatial locality", MSST 2011, has them.

mod cache;

use super::translation::{Page, Stream};
use super::{Job, MapSpec, Ssd};
use crate::device::linked::DonePage;
use crate::medium::nand::{self, Kind};
use cache::{Cache, State};
use std::collections::{BTreeMap, VecDeque};
use tierscope_kernel::Stage;

counters! {
    /// What a map did that lies in flash.
    pub struct MapCounts {
        /// Look-ups and changes of which the memory had the page of the map.
        pub hits,
        /// Those for which it is read, or was being read.
        pub misses,
        /// Pages of the map read from flash.
        pub reads,
        /// Pages of the map programmed because they were changed.
        pub writes,
    }
}

/// Why a page of the map is to come.
#[derive(Clone, Debug, Default)]
struct Want {
    /// Those that go on when it has come.
    accesses: Vec<u32>,
    /// It is changed then.
    changes: bool,
}

/// The part of the map in memory, and what is under way for the rest.
#[derive(Clone, Debug)]
pub(super) struct Map {
    /// The unit of the first page of the map.
    first: u64,
    /// Pages of the drive that a page of the map tells of.
    reach: u64,
    cache: Cache,
    /// Pages of the map that are to come.
    wants: BTreeMap<u32, Want>,
    /// Of these, those for which there is no room yet.
    queue: VecDeque<u32>,
    /// Pages that have room, and are being read.
    loading: usize,
    /// Pages that are being programmed.
    writing: usize,
    /// The lane that is next to have a page.
    turn: u32,
    counts: MapCounts,
}

impl Map {
    /// Of a drive of so many pages, with nothing of it in memory.
    pub(super) fn new(spec: &MapSpec, pages: u64, page_bytes: u64) -> Self {
        Map {
            first: pages,
            reach: page_bytes / spec.entry.bytes(),
            cache: Cache::new((spec.cache.bytes() / page_bytes).min(1 << 30) as usize),
            wants: BTreeMap::new(),
            queue: VecDeque::new(),
            loading: 0,
            writing: 0,
            turn: 0,
            counts: MapCounts::default(),
        }
    }

    /// Power fails: memory holds nothing.
    pub(super) fn cut_power(&mut self) {
        self.cache = Cache::new(self.cache.capacity());
        (self.wants, self.queue) = (BTreeMap::new(), VecDeque::new());
        (self.loading, self.writing) = (0, 0);
    }

    /// A page of the map is to come.
    fn want(&mut self, map: u32) -> &mut Want {
        let queue = &mut self.queue;
        self.wants.entry(map).or_insert_with(|| {
            queue.push_back(map);
            Want::default()
        })
    }

    /// Whether the entry of a unit may be looked at now; if not, `access` goes on when it may.
    fn look_up(&mut self, unit: u64, access: u32) -> bool {
        let map = (unit / self.reach) as u32;
        if let Some(slot) = self.cache.find(map) {
            self.counts.hits += 1;
            self.cache.touch(slot);
            return true;
        }
        self.counts.misses += 1;
        self.want(map).accesses.push(access);
        false
    }

    /// The entry of a unit changes, or will when its page of the map has come.
    fn change(&mut self, unit: u64) {
        let map = (unit / self.reach) as u32;
        if let Some(slot) = self.cache.find(map) {
            self.counts.hits += 1;
            self.cache.change(slot);
        } else {
            self.counts.misses += 1;
            self.want(map).changes = true;
        }
    }

    /// Whether so many pages of the map are to come that the host's writes wait.
    fn is_behind(&self) -> bool {
        self.wants.len() > self.cache.capacity()
    }
}

impl Ssd {
    /// What the map did: nothing where it does not lie in flash.
    pub(super) fn map_counts(&self) -> MapCounts {
        self.map.as_ref().map(|map| map.counts).unwrap_or_default()
    }

    /// Whether so many changes of the map are to be made that the host's writes wait.
    #[inline]
    pub(super) fn map_is_behind(&self) -> bool {
        self.map.as_ref().is_some_and(|map| map.is_behind())
    }

    /// Whether it is known where the page of an access lies; if not, the access goes on when it is.
    #[inline]
    pub(super) fn knows_place(&mut self, index: u32) -> bool {
        let Some(map) = &mut self.map else { return true };
        let access = &self.accesses[index];
        access.mapped || map.look_up(access.access.page, index)
    }

    /// A unit of the host lies elsewhere, or holds nothing, from now on.
    #[inline]
    pub(super) fn change_map(&mut self, unit: u64) {
        if let Some(map) = &mut self.map {
            map.change(unit);
        }
    }

    /// Pages of which the host wants nothing any more: what the map says of them changes. A page of the
    /// map that tells of nothing else holds nothing, and is read by none.
    pub(super) fn trim_map(&mut self, first: u64, count: u64) {
        let Some(map) = &mut self.map else { return };
        let (reach, pages) = (map.reach, self.pages);
        for number in first / reach..(first + count).div_ceil(reach) {
            let (begin, end) = (number * reach, ((number + 1) * reach).min(pages));
            let whole = first <= begin && end <= first + count;
            if whole && map.cache.find(number as u32).is_none() {
                self.layer.release(map.first + number);
            } else {
                map.change(begin);
            }
        }
    }

    /// Does what the map waits for, as far as it can be done.
    #[inline]
    pub(super) fn go_on_mapping(&mut self, now_ps: u64, out: &mut Vec<DonePage>) {
        while let Some(map) = self.next_load() {
            self.load(now_ps, map, out);
        }
    }

    /// The next page of the map to be read, for which there is room in memory.
    fn next_load(&mut self) -> Option<u32> {
        loop {
            let map = self.map.as_mut()?;
            let &wanted = map.queue.front()?;
            if map.cache.len() + map.loading < map.cache.capacity() {
                map.queue.pop_front();
                map.loading += 1;
                return Some(wanted);
            }
            if map.queue.len() <= map.writing {
                return None;
            }
            match map.cache.oldest()? {
                (slot, State::Clean) => map.cache.remove(slot),
                _ if self.write_map() => {}
                _ => return None,
            }
        }
    }

    fn load(&mut self, now_ps: u64, number: u32, out: &mut Vec<DonePage>) {
        let Some(map) = &mut self.map else { return };
        let place = self.layer.place(map.first + u64::from(number));
        match place.filter(|place| self.layer.is_programmed(*place)) {
            Some(place) => {
                map.counts.reads += 1;
                let awaited = map.wants.get(&number).is_some_and(|it| !it.accesses.is_empty());
                let job = self.jobs.insert(Job::ReadMap { map: number });
                let page = self.layer.geometry().page_of(place);
                self.operate(job, Kind::Read, page, 1, awaited);
            }
            // It holds nothing yet, or collection has it in memory.
            None => self.loaded(now_ps, number, None, out),
        }
    }

    /// A page of the map has come: those that wait for it go on.
    pub(super) fn loaded(
        &mut self,
        now_ps: u64,
        number: u32,
        done: Option<&nand::Done>,
        out: &mut Vec<DonePage>,
    ) {
        let Some(map) = &mut self.map else { return };
        let was_behind = map.is_behind();
        let want = map.wants.remove(&number).unwrap_or_default();
        map.loading -= 1;
        map.cache.insert(number, want.changes);
        for index in want.accesses {
            let it = &mut self.accesses[index];
            it.mapped = true;
            match done {
                Some(done) if it.clock_ps <= done.command_ps => it.pass_read(done),
                _ => it.pass(Stage::StoreQueue, now_ps),
            }
            if it.access.write {
                self.come(now_ps, index, out);
            } else {
                self.read(now_ps, index, out);
            }
        }
        if was_behind {
            self.admit(now_ps, out);
        }
    }

    /// Programs the pages of the map used least recently, as many as a page of flash holds and as were all
    /// changed; whether there was room for them in flash.
    fn write_map(&mut self) -> bool {
        let lanes = self.layer.geometry().lanes;
        let Some(page) = self.map_page(lanes) else {
            (0..lanes).for_each(|lane| self.collect(lane));
            return false;
        };
        let Some(map) = &mut self.map else { return false };
        let geometry = *self.layer.geometry();
        let mut units = 0;
        while units < geometry.page_units
            && let Some((slot, State::Changed)) = map.cache.oldest()
        {
            let unit = map.first + u64::from(map.cache.begin_write(slot));
            self.layer.put(unit, geometry.place(page, units), Stream::Map);
            units += 1;
        }
        map.writing += units as usize;
        map.counts.writes += u64::from(units);
        self.layer.pad(geometry.page_units - units);
        let job = self.jobs.insert(Job::WriteMap { page });
        self.operate(job, Kind::Program, page, units, false);
        self.collect(page.lane);
        true
    }

    /// A page of flash for the map, on the next lane that has one.
    fn map_page(&mut self, lanes: u32) -> Option<Page> {
        let map = self.map.as_mut()?;
        let layer = &mut self.layer;
        (0..lanes).find_map(|_| {
            let lane = map.turn;
            map.turn = (lane + 1) % lanes;
            layer.allocate(lane, Stream::Map)
        })
    }

    /// Pages of the map have been programmed.
    pub(super) fn map_written(&mut self, page: Page) {
        self.layer.programmed(page);
        let Some(map) = &mut self.map else { return };
        let geometry = *self.layer.geometry();
        for n in 0..geometry.page_units {
            let unit = self.layer.unit(geometry.place(page, n));
            // What was given back meanwhile is in the memory all the same.
            if let Some(slot) = unit.and_then(|unit| map.cache.find((unit - map.first) as u32)) {
                map.cache.end_write(slot);
                map.writing -= 1;
            }
        }
        self.retry_erases();
    }
}

#[cfg(test)]
mod tests;
