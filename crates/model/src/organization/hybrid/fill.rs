//! Which lines bring their sectors into DRAM, and what becomes of those that do not: reads past the cache, writes
//! around it, and lines that on-chip caches give up.

use super::action::{Action, Place};
use super::controller::{Controller, Held};
use super::miss::{Frame, Progress};
use super::write_back::NONE;
use serde::{Deserialize, Serialize};
use tierscope_kernel::Timeline;

/// Which requests bring what they miss into DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FillPolicy {
    /// All: reads, and writes, for which the rest of the sector is read (fetch on write: Jouppi, "Cache write
    /// policies and performance", ISCA 1993).
    Misses,
    /// Reads: a line that is written and missed goes to the store around the cache (write-around, there).
    Reads,
    /// Writes, which are the dirty lines that on-chip caches give up, without being read (write-validate, there);
    /// reads that miss go past the cache.
    Writes,
    /// All lines that the last on-chip cache gives up, clean ones too, and no others: the cache is a victim cache
    /// of that one (Jouppi, ISCA 1990; Hammarlund et al., IEEE Micro 2014, of such a cache in DRAM).
    Victims,
}

impl FillPolicy {
    /// As a description says it.
    pub(super) fn word(self) -> &'static str {
        match self {
            FillPolicy::Misses => "misses",
            FillPolicy::Reads => "reads",
            FillPolicy::Writes => "writes",
            FillPolicy::Victims => "victims",
        }
    }

    /// Whether a read that misses brings its sector.
    pub(super) fn by_reads(self) -> bool {
        matches!(self, FillPolicy::Misses | FillPolicy::Reads)
    }

    /// Whether what a write misses is a sector by itself, which need not be read.
    pub(super) fn by_whole_lines(self) -> bool {
        matches!(self, FillPolicy::Writes | FillPolicy::Victims)
    }
}

counters! {
    /// What a cache counted that not every miss fills.
    pub struct FillReport {
        /// Reads that missed and went past the cache.
        pub reads_past_cache,
        /// Lines that were written to the store around the cache.
        pub writes_around_cache,
        /// Clean lines that the last on-chip cache has given up.
        pub clean_victims,
        /// Of these, lines that came into the cache; the others were there, or on their way, or found no room.
        pub clean_victims_kept,
    }
}

/// How a miss begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// Its sector comes into this frame.
    Fill(Frame),
    /// Its sector is read, and not kept.
    Past,
    /// Its lines are written to the store.
    Around,
}

impl Controller {
    /// How a miss at the head of those that are stalled can begin, if it can now.
    pub(super) fn beginning(&self, index: u32) -> Option<Beginning> {
        let miss = &self.misses[index];
        let writes = self.waiting(miss.first).is_some_and(|held| held.write);
        if self.fill_policy == FillPolicy::Reads && writes {
            let page = self.page_of(miss.sector);
            let room = self.write_backs.has_room(0) || self.collecting(page).is_some();
            return room.then_some(Beginning::Around);
        }
        if !self.fill_policy.by_reads() && !miss.written {
            return (!self.buffers.is_empty()).then_some(Beginning::Past);
        }
        self.frame_for(miss.sector, false).ok().map(Beginning::Fill)
    }

    /// The write around the cache that still takes lines of `page`: one that waits for an earlier one of the page,
    /// so that neither order nor what is under way changes.
    fn collecting(&self, page: u64) -> Option<u32> {
        let index = self.write_backs.newest_of(page).filter(|_| self.flush.is_none())?;
        let item = &self.write_backs[index];
        (item.way.is_none() && item.older != NONE).then_some(index)
    }

    /// Reads the sector of a miss, whose requests are reads, for them alone.
    pub(super) fn read_past(&mut self, now_ps: u64, index: u32, actions: &mut Vec<Action>) {
        let released = self.released;
        self.charge(now_ps, index, &released);
        let Some(buffer) = self.buffers.pop() else {
            debug_assert!(false, "a read goes past the cache only while a fill buffer is free");
            return;
        };
        self.fill_report.reads_past_cache += 1;
        self.report.fetched_pages += 1;
        let miss = &mut self.misses[index];
        miss.progress = Progress::Fetching;
        miss.begun_ps = now_ps;
        miss.past = true;
        miss.buffer = buffer;
        self.fetch(now_ps, index, actions);
    }

    /// What was read past the cache has come: reads that wait for it are answered, up to the first write, with which
    /// the sector is missed anew.
    pub(super) fn past_arrived(
        &mut self,
        now_ps: u64,
        index: u32,
        stages: &Timeline,
        actions: &mut Vec<Action>,
    ) {
        self.charge(now_ps, index, stages);
        let so_far = self.misses[index].stages;
        while self.waiting(self.misses[index].first).is_some_and(|held| !held.write) {
            let slot = self.take_first(index);
            self.serve_from_fill(now_ps, index, slot, &so_far, actions);
        }
        self.released = so_far;
        let miss = &mut self.misses[index];
        miss.past = false;
        let (buffer, begun_ps) = (std::mem::replace(&mut miss.buffer, NONE), miss.begun_ps);
        self.buffers.push(buffer);
        self.warming.fills.took(now_ps - begun_ps);
        self.end_or_stall(index);
    }

    /// Writes the lines that a miss begins with to the store, by way of the write-back buffer: what goes there to one
    /// page goes together as long as an earlier write of the page is under way.
    pub(super) fn write_around(&mut self, now_ps: u64, index: u32, actions: &mut Vec<Action>) {
        let released = self.released;
        self.charge(now_ps, index, &released);
        let sector = self.misses[index].sector;
        let (page, bit) = (self.page_of(sector), self.bit(sector));
        let so_far = self.misses[index].stages;
        let (place, begins) = match self.collecting(page) {
            Some(place) => {
                self.write_backs[place].sectors |= bit;
                (place, false)
            }
            None => {
                let place = self.write_backs.insert(now_ps, (page, bit), None, &so_far);
                self.write_backs[place].ready = true;
                self.write_backs[place].flush = self.concerns_flush();
                (place, self.write_backs[place].older == NONE)
            }
        };
        let offset = self.sector_offset(sector);
        while self.waiting(self.misses[index].first).is_some_and(|held| held.write) {
            let slot = self.take_first(index);
            let (from, into) = (Place::Request(slot), Place::WriteBack { buffer: place, offset });
            actions.push(Action::Copy { from, into, bytes: self.line_bytes });
            self.fill_report.writes_around_cache += 1;
            self.respond(now_ps, slot, &so_far, actions);
        }
        if begins {
            self.write_store(place, actions);
        }
        self.end_or_stall(index);
    }

    /// A miss is over, unless requests wait for it: with these, and no others, it begins anew.
    fn end_or_stall(&mut self, index: u32) {
        let mut waiting = self.misses[index].first;
        let waits = waiting != NONE;
        let mut written = false;
        while let Some(held) = self.waiting(waiting) {
            written |= held.write;
            waiting = held.next;
        }
        self.misses[index].written = written;
        if waits {
            return self.stall(index);
        }
        let miss = self.misses.remove(index);
        self.missing.remove(miss.sector);
    }

    /// Whether the data of a miss that begins now come with its first request: the whole sector is written.
    pub(super) fn brings_data(&self, index: u32) -> bool {
        let miss = &self.misses[index];
        let writes = || self.waiting(miss.first).is_some_and(|held: &Held| held.write);
        miss.own || self.fill_policy.by_whole_lines() && writes()
    }

    /// The last on-chip cache has given up the clean line at this address: where its data are to be put before any
    /// action is carried out, if it comes into DRAM. It may not: nobody waits for it, and what it has is in
    /// the store.
    pub fn offer_clean(
        &mut self,
        now_ps: u64,
        address: u64,
        actions: &mut Vec<Action>,
    ) -> Option<Place> {
        if self.fill_policy != FillPolicy::Victims {
            return None;
        }
        self.fill_report.clean_victims += 1;
        let sector = address >> self.sector_shift;
        if self.missing.get(sector).is_some() {
            return None;
        }
        let offset = self.line_offset(address);
        if self.tags_with_data {
            let kept = Self::fills_kept(self.fills as usize);
            if self.buffers.len() <= kept {
                return None;
            }
            let buffer = self.buffers.pop()?;
            self.probing_prefetches += 1;
            let index = self.new_miss(now_ps, sector, Progress::Probing, true);
            (self.misses[index].own, self.misses[index].buffer) = (true, buffer);
            self.read_tag(index, offset, actions);
            return Some(Place::Fill { buffer, offset });
        }
        if !self.has_tags(self.page_of(sector)) || self.is_known(sector) {
            return None;
        }
        let frame = self.frame_for(sector, true).ok()?;
        let index = self.new_miss(now_ps, sector, Progress::Stalled, true);
        self.misses[index].own = true;
        self.begin(now_ps, index, frame, actions);
        Some(Place::Fill { buffer: self.misses[index].buffer, offset })
    }

    /// A line that on-chip caches gave up is of no use, or has become a demand miss: its buffer is free.
    pub(super) fn disown(&mut self, index: u32) {
        let miss = &mut self.misses[index];
        if std::mem::take(&mut miss.own) {
            self.buffers.push(std::mem::replace(&mut miss.buffer, NONE));
        }
    }
}
