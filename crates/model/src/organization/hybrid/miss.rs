//! What a miss goes through: a frame, the page from the store, the requests that wait, the fill; and
//! the way of a dirty victim to the store.

use super::action::{Action, Critical, Place, Purpose, Token};
use super::controller::{Controller, FILLING, Held, READING, append_tail};
use super::fill::Beginning;
use super::sector;
use super::write_back::NONE;
use crate::cache::{Place as Way, WayRef, flag};
use tierscope_kernel::Timeline;

/// How far a miss has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Its tag is being read from DRAM: it may still turn out a hit.
    Probing,
    /// Waits for a fill buffer, a place in the write-back buffer, or a way.
    Stalled,
    /// Its page is on the way to the controller.
    Fetching,
    /// Its page is in a fill buffer, on the way to DRAM.
    Filling,
}

/// A sector that somebody wants in DRAM, and the requests that wait for it. A page without sectors is
/// one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Miss {
    pub(super) sector: u64,
    pub(super) progress: Progress,
    /// First and last request that waits, or [`NONE`].
    pub(super) first: u32,
    pub(super) last: u32,
    /// One of those that wait writes.
    pub(super) written: bool,
    pub(super) prefetch: bool,
    /// What is read is for those that wait alone, and is not kept.
    pub(super) past: bool,
    /// Its data are in its fill buffer already: an on-chip cache has given them up.
    pub(super) own: bool,
    /// The page that was in its frame before has not been read yet.
    frame_occupied: bool,
    /// The miss that waits for the same page to leave the frame, or [`NONE`].
    next_in_frame: u32,
    /// The miss that waits for the same page to be in the write-back buffer, or [`NONE`].
    next_wanting: u32,
    /// The write of the page to DRAM is under way.
    fill_issued: bool,
    pub(super) way: Option<WayRef>,
    pub(super) buffer: u32,
    /// Offset of the line that comes ahead of the page.
    critical_line: Option<u32>,
    /// Stages since the miss began, up to `charged_ps`.
    pub(super) stages: Timeline,
    charged_ps: u64,
    /// When it took its fill buffer.
    pub(super) begun_ps: u64,
}

/// Why a miss cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// No fill buffer or no place in the write-back buffer is free.
    NoRoom,
    /// Every way of the set is in use.
    Pinned,
}

/// The way for a missing sector, and what has to leave it.
pub(super) type Frame = (WayRef, Leaves);

/// What leaves the way that a miss takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    /// Nothing: its page is there already, without this sector.
    Nothing,
    /// A page that may be forgotten, or none.
    Clean,
    /// A dirty page.
    Dirty(u64),
}

impl Controller {
    /// A request has missed: it joins the miss of its sector, or begins one.
    pub(super) fn miss(&mut self, now_ps: u64, sector: u64, slot: u32, actions: &mut Vec<Action>) {
        if let Some(index) = self.missing.get(sector) {
            return self.join(now_ps, index, slot, actions);
        }
        let index = self.new_miss(now_ps, sector, Progress::Stalled, false);
        self.enqueue(index, slot);
        self.stall(index);
        self.prefetcher.missed(sector);
        self.go_on(now_ps, actions);
    }

    pub(super) fn new_miss(
        &mut self,
        now_ps: u64,
        sector: u64,
        progress: Progress,
        prefetch: bool,
    ) -> u32 {
        let index = self.misses.insert(Miss {
            sector,
            progress,
            first: NONE,
            last: NONE,
            written: false,
            prefetch,
            past: false,
            own: false,
            frame_occupied: false,
            next_in_frame: NONE,
            next_wanting: NONE,
            fill_issued: false,
            way: None,
            buffer: NONE,
            critical_line: None,
            stages: Timeline::new(),
            charged_ps: now_ps,
            begun_ps: now_ps,
        });
        self.missing.insert(sector, index);
        index
    }

    pub(super) fn stall(&mut self, index: u32) {
        self.misses[index].progress = Progress::Stalled;
        let kept = self.stalled.push(index);
        debug_assert!(kept.is_ok(), "a stalled miss holds at least one request");
    }

    /// Adds a request to a miss under way.
    pub(super) fn join(&mut self, now_ps: u64, index: u32, slot: u32, actions: &mut Vec<Action>) {
        let miss = &self.misses[index];
        let Some(way) = miss.way.filter(|_| miss.progress == Progress::Filling) else {
            return self.enqueue(index, slot);
        };
        let fill_issued = miss.fill_issued;
        if !self.held[slot].write {
            return self.serve_from_fill(now_ps, index, slot, &Timeline::new(), actions);
        }
        if !fill_issued {
            self.set_dirty(way, self.misses[index].sector);
            return self.serve_from_fill(now_ps, index, slot, &Timeline::new(), actions);
        }
        // The fill may have taken the line already, and demand may pass it: the line goes to DRAM
        // behind it, and reads that come meanwhile find it in the buffer.
        self.copy_to_fill(index, slot, actions);
        self.enqueue(index, slot);
    }

    /// Puts a request behind those that wait for a miss.
    pub(super) fn enqueue(&mut self, index: u32, slot: u32) {
        let miss = &mut self.misses[index];
        miss.written |= self.held[slot].write;
        if miss.first == NONE {
            miss.first = slot;
        } else {
            self.held[miss.last].next = slot;
        }
        miss.last = slot;
        if let Some(way) = miss.way.filter(|_| miss.written) {
            self.set_dirty(way, self.misses[index].sector);
        }
    }

    /// Takes the first of the requests that wait for a miss; there is one.
    pub(super) fn take_first(&mut self, index: u32) -> u32 {
        let miss = &mut self.misses[index];
        let slot = miss.first;
        miss.first = self.held[slot].next;
        slot
    }

    pub(super) fn waiting(&self, slot: u32) -> Option<&Held> {
        if slot == NONE { None } else { self.held.get(slot) }
    }

    /// Begins what can begin: demand misses in order, then a flush, then prefetches.
    pub(super) fn go_on(&mut self, now_ps: u64, actions: &mut Vec<Action>) {
        self.unblocked_ps = None;
        self.begin_stalled(now_ps, actions);
        if self.flush.is_some() {
            self.go_on_flushing(now_ps, actions);
        }
        self.go_on_prefetching(now_ps, actions);
    }

    /// Begins prefetches, where no demand waits.
    pub(super) fn go_on_prefetching(&mut self, now_ps: u64, actions: &mut Vec<Action>) {
        while self.stalled.is_empty()
            && let Some(sector) = self.prefetcher.next()
        {
            if self.prefetch(now_ps, sector, actions) == Err(Obstacle::NoRoom) {
                break;
            }
            self.prefetcher.skip();
        }
    }

    /// Begins those misses that wait, in order, as far as there is room.
    fn begin_stalled(&mut self, now_ps: u64, actions: &mut Vec<Action>) {
        while let Some(&index) = self.stalled.front() {
            let Some(beginning) = self.beginning(index) else { break };
            self.stalled.pop();
            match beginning {
                Beginning::Fill(frame) => self.begin(now_ps, index, frame, actions),
                Beginning::Past => self.read_past(now_ps, index, actions),
                Beginning::Around => self.write_around(now_ps, index, actions),
            }
        }
    }

    /// Whether a miss waits though it, the first of those that do, could begin.
    pub(super) fn first_can_begin(&self) -> bool {
        self.stalled.front().is_some_and(|&index| self.beginning(index).is_some())
    }

    /// A flush has gone on, or is over: the first of the misses that wait may begin when the controller is advanced.
    pub(super) fn unblock(&mut self, now_ps: u64) {
        self.unblocked_ps = self.first_can_begin().then_some(now_ps);
    }

    /// Whether no miss waits for room that there is: so it is between any two calls.
    pub(super) fn waits_with_reason(&self) -> bool {
        self.unblocked_ps.is_some() || !self.first_can_begin()
    }

    /// Where `sector` may go and what must leave for it.
    pub(super) fn frame_for(&self, sector: u64, prefetch: bool) -> Result<Frame, Obstacle> {
        let kept = if prefetch { Self::fills_kept(self.fills as usize) } else { 0 };
        if self.buffers.len() <= kept {
            return Err(Obstacle::NoRoom);
        }
        let frame = self.way_for(sector).ok_or(Obstacle::Pinned)?;
        let kept = self.places_kept(prefetch);
        let dirty = matches!(frame.1, Leaves::Dirty(_));
        if dirty && !self.write_backs.has_room(kept) || !self.tags_can_change(self.page_of(sector))
        {
            return Err(Obstacle::NoRoom);
        }
        Ok(frame)
    }

    /// The way for `sector`, whatever room there is; none if all of its set are in use.
    pub(super) fn way_for(&self, sector: u64) -> Option<Frame> {
        let page = self.page_of(sector);
        if self.sectors.is_some()
            && let Some(way) = self.tags.lookup(page)
        {
            return Some((way, Leaves::Nothing));
        }
        match self.tags.place(page) {
            Way::Free(way) => Some((way, Leaves::Clean)),
            Way::Pinned => None,
            Way::Taken(way, victim) => {
                let dirty = victim.line.filter(|_| victim.dirty());
                Some((way, dirty.map_or(Leaves::Clean, Leaves::Dirty)))
            }
        }
    }

    /// Places of the write-back buffer that background work leaves to demand.
    pub(super) fn places_kept(&self, background: bool) -> usize {
        usize::from(background && self.write_backs.capacity() > 1)
    }

    /// Begins to prefetch `sector` unless it is present or in flight.
    fn prefetch(
        &mut self,
        now_ps: u64,
        sector: u64,
        actions: &mut Vec<Action>,
    ) -> Result<(), Obstacle> {
        if self.missing.get(sector).is_some() {
            return Ok(());
        }
        if self.tags_with_data {
            let kept = Self::fills_kept(self.fills as usize);
            if self.buffers.len() <= kept + self.probing_prefetches {
                return Err(Obstacle::NoRoom);
            }
            self.probing_prefetches += 1;
            let index = self.new_miss(now_ps, sector, Progress::Probing, true);
            self.read_tag(index, 0, actions);
            return Ok(());
        }
        if !self.prefetch_finds_tags(sector, actions) {
            return Err(Obstacle::NoRoom);
        }
        if self.is_known(sector) {
            return Ok(());
        }
        let frame = self.frame_for(sector, true)?;
        let index = self.new_miss(now_ps, sector, Progress::Stalled, true);
        self.begin(now_ps, index, frame, actions);
        Ok(())
    }

    /// Gives a miss its frame and sends for its sector.
    pub(super) fn begin(
        &mut self,
        now_ps: u64,
        index: u32,
        (way, leaves): Frame,
        actions: &mut Vec<Action>,
    ) {
        let released = self.released;
        self.charge(now_ps, index, &released);
        let brings_data = self.brings_data(index);
        let buffer = match self.misses[index].buffer {
            NONE => self.buffers.pop(),
            own => Some(own),
        };
        let Some(buffer) = buffer else {
            debug_assert!(false, "a frame is given only while a fill buffer is free");
            return;
        };
        let miss = &mut self.misses[index];
        miss.progress = Progress::Fetching;
        miss.begun_ps = now_ps;
        miss.way = Some(way);
        miss.buffer = buffer;
        miss.frame_occupied = matches!(leaves, Leaves::Dirty(_));
        let Miss { sector, written, prefetch, own, .. } = *miss;
        let page = self.page_of(sector);
        let mut flags = flag::PINNED | FILLING;
        if own {
            self.fill_report.clean_victims_kept += 1;
        } else if prefetch {
            flags |= flag::PREFETCHED;
            self.report.prefetched_pages += 1;
        } else {
            self.report.fetched_pages += u64::from(!brings_data);
        }
        match leaves {
            Leaves::Nothing => {
                self.tags.set_flags(way, flags);
                if let Some(leaving) = self.write_backs.leaving(way) {
                    self.follows_in_frame(index, leaving);
                }
            }
            Leaves::Clean => self.takes(way, page, flags),
            Leaves::Dirty(victim) => {
                let sectors = self.take_dirty(way);
                self.takes(way, page, flags);
                self.report.displaced_pages += u64::from(!prefetch);
                let waited = self.misses[index].stages;
                let leaving = self.evict(now_ps, (victim, sectors), way, &waited, actions);
                self.follows_in_frame(index, leaving);
            }
        }
        self.comes(way, sector, prefetch && !own);
        self.change_tags(page, actions);
        if written {
            self.set_dirty(way, sector);
        }
        if brings_data {
            return self.arrived(now_ps, index, &Timeline::new(), actions);
        }
        self.fetch(now_ps, index, actions);
    }

    /// Sends for the sector of a miss, to its fill buffer: to the write-back buffer, or to the store.
    pub(super) fn fetch(&mut self, now_ps: u64, index: u32, actions: &mut Vec<Action>) {
        let Miss { sector, buffer, prefetch, first, .. } = self.misses[index];
        if let Some(source) = self.write_back_of(sector) {
            return self.fetch_from_write_back(now_ps, index, source, actions);
        }
        let reader = self.waiting(first).filter(|held| self.critical_line_first && !held.write);
        let critical = reader.map(|held| self.line_offset(held.address));
        self.misses[index].critical_line = critical;
        let offset = self.sector_offset(sector);
        let token = Token::new(Purpose::Critical, index);
        actions.push(Action::ReadStore {
            token: Token::new(Purpose::Fetch, index),
            address: sector << self.sector_shift,
            bytes: 1 << self.sector_shift,
            into: Place::Fill { buffer, offset },
            critical: critical.map(|line| Critical { token, offset: line - offset }),
            background: prefetch,
        });
    }

    /// A page takes a way.
    pub(super) fn takes(&mut self, way: WayRef, page: u64, flags: u8) {
        self.tags.insert_at(way, page, flags);
        self.forget_sectors(way);
    }

    /// A miss has to wait until the page before has been read from its frame.
    fn follows_in_frame(&mut self, index: u32, leaving: u32) {
        let before = std::mem::replace(&mut self.write_backs[leaving].replaced_by, index);
        let miss = &mut self.misses[index];
        miss.frame_occupied = true;
        miss.next_in_frame = before;
    }

    /// Begins to write sectors of a page back: they are read from DRAM first.
    pub(super) fn evict(
        &mut self,
        now_ps: u64,
        page_and_sectors: (u64, u64),
        way: WayRef,
        waited: &Timeline,
        actions: &mut Vec<Action>,
    ) -> u32 {
        self.report.write_backs += 1;
        self.note_change(page_and_sectors.0);
        let index = self.write_backs.insert(now_ps, page_and_sectors, Some(way), waited);
        self.write_backs[index].flush = self.concerns_flush();
        let frame = self.frame_address(way);
        for (first, count) in sector::runs(page_and_sectors.1) {
            let offset = first << self.sector_shift;
            self.write_backs[index].outstanding += 1;
            actions.push(Action::ReadDram {
                token: Token::new(Purpose::Evict, index << self.sector_bits | first),
                address: frame + u64::from(offset),
                bytes: count << self.sector_shift,
                into: Place::WriteBack { buffer: index, offset },
                background: true,
            });
        }
        index
    }

    /// The newest copy of a sector in the write-back buffer.
    fn write_back_of(&self, sector: u64) -> Option<u32> {
        #[cfg(test)]
        if self.forgetful {
            return None;
        }
        self.write_backs.newest(self.page_of(sector), self.bit(sector))
    }

    fn fetch_from_write_back(
        &mut self,
        now_ps: u64,
        index: u32,
        source: u32,
        actions: &mut Vec<Action>,
    ) {
        if !self.write_backs[source].ready {
            let before = std::mem::replace(&mut self.write_backs[source].wanted_by, index);
            self.misses[index].next_wanting = before;
            return;
        }
        let Miss { buffer, sector, .. } = self.misses[index];
        let offset = self.sector_offset(sector);
        let into = Place::Fill { buffer, offset };
        let (from, bytes) = (Place::WriteBack { buffer: source, offset }, 1 << self.sector_shift);
        actions.push(Action::Copy { from, into, bytes });
        // Where it is not there yet, its way into the buffer is what the miss has waited for.
        let read = self.write_backs[source].stages;
        self.arrived(now_ps, index, &read, actions);
    }

    /// A sector is in its fill buffer: those that wait are answered, then it goes to DRAM.
    pub(super) fn arrived(
        &mut self,
        now_ps: u64,
        index: u32,
        stages: &Timeline,
        actions: &mut Vec<Action>,
    ) {
        if self.misses[index].past {
            return self.past_arrived(now_ps, index, stages, actions);
        }
        self.charge(now_ps, index, stages);
        self.misses[index].progress = Progress::Filling;
        let so_far = self.misses[index].stages;
        while self.misses[index].first != NONE {
            let slot = self.take_first(index);
            self.serve_from_fill(now_ps, index, slot, &so_far, actions);
        }
        if !self.misses[index].frame_occupied {
            self.fill(index, actions);
        }
    }

    /// The critical line has arrived ahead of its page: reads of it go on, up to the first write.
    pub(super) fn critical_arrived(
        &mut self,
        now_ps: u64,
        index: u32,
        stages: &Timeline,
        actions: &mut Vec<Action>,
    ) {
        debug_assert!(self.misses[index].progress == Progress::Fetching);
        let mut so_far = self.misses[index].stages;
        so_far.append(stages);
        let Some(line) = self.misses[index].critical_line else { return };
        while let Some(held) = self.waiting(self.misses[index].first)
            && !held.write
            && self.line_offset(held.address) == line
        {
            let slot = self.take_first(index);
            self.serve_from_fill(now_ps, index, slot, &so_far, actions);
        }
    }

    /// Answers a request from the fill buffer of a miss whose stages up to now are `stages`.
    pub(super) fn serve_from_fill(
        &mut self,
        now_ps: u64,
        index: u32,
        slot: u32,
        stages: &Timeline,
        actions: &mut Vec<Action>,
    ) {
        self.copy_to_fill(index, slot, actions);
        self.respond(now_ps, slot, stages, actions);
    }

    /// Moves a request's line: a write's into the fill buffer, a read's out of it.
    fn copy_to_fill(&mut self, index: u32, slot: u32, actions: &mut Vec<Action>) {
        let held = &self.held[slot];
        let offset = self.line_offset(held.address);
        let line = Place::Fill { buffer: self.misses[index].buffer, offset };
        let request = Place::Request(slot);
        let (from, into) = if held.write { (request, line) } else { (line, request) };
        actions.push(Action::Copy { from, into, bytes: self.line_bytes });
    }

    /// Writes a sector from its fill buffer to its frame, which is free by now.
    fn fill(&mut self, index: u32, actions: &mut Vec<Action>) {
        let miss = &mut self.misses[index];
        let Some(way) = miss.way else {
            debug_assert!(false, "a page arrives only once it has a frame");
            return;
        };
        miss.fill_issued = true;
        let Miss { buffer, sector, .. } = *miss;
        let offset = self.sector_offset(sector);
        actions.push(Action::WriteDram {
            token: Token::new(Purpose::Fill, index),
            address: self.frame_address(way) + u64::from(offset),
            bytes: 1 << self.sector_shift,
            from: Place::Fill { buffer, offset },
            background: true,
        });
    }

    /// A sector is in DRAM: the miss is over, and writes that came too late for the fill follow it.
    pub(super) fn filled(
        &mut self,
        now_ps: u64,
        index: u32,
        stages: &Timeline,
        actions: &mut Vec<Action>,
    ) {
        let Some(way) = self.misses[index].way else {
            debug_assert!(false, "a page is filled only into a frame");
            return;
        };
        while self.misses[index].first != NONE {
            let slot = self.take_first(index);
            self.set_prefix(now_ps, slot, stages);
            self.access_dram(slot, way, actions);
        }
        if self.has_come(way, self.misses[index].sector) {
            let reading = self.tags.flags(way) & READING != 0;
            self.tags.clear_flags(way, if reading { FILLING } else { flag::PINNED | FILLING });
        }
        self.charge(now_ps, index, stages);
        let miss = self.misses.remove(index);
        if !miss.own {
            self.prefetcher.filled(miss.sector, miss.prefetch);
        }
        self.warming.fills.took(now_ps - miss.begun_ps);
        self.released = miss.stages;
        self.missing.remove(miss.sector);
        self.buffers.push(miss.buffer);
        self.write_back_ahead(now_ps, miss.sector, actions);
    }

    /// What is to be written back has been read from DRAM, or a part of it.
    pub(super) fn evicted(
        &mut self,
        now_ps: u64,
        part: u32,
        stages: &Timeline,
        actions: &mut Vec<Action>,
    ) {
        let index = part >> self.sector_bits;
        let item = &mut self.write_backs[index];
        item.charge(now_ps, stages);
        item.outstanding -= 1;
        if item.outstanding > 0 {
            return;
        }
        item.ready = true;
        let item = *item;
        if item.replaced_by == NONE {
            self.release_flushed(&item);
        }
        let mut next = item.replaced_by;
        while next != NONE {
            let miss = &mut self.misses[next];
            miss.frame_occupied = false;
            let (filling, this) = (miss.progress == Progress::Filling, next);
            next = miss.next_in_frame;
            if filling {
                self.fill(this, actions);
            }
        }
        let mut next = item.wanted_by;
        while next != NONE {
            let this = next;
            next = self.misses[this].next_wanting;
            self.fetch_from_write_back(now_ps, this, index, actions);
        }
        if item.older == NONE {
            self.write_store(index, actions);
        }
    }

    pub(super) fn write_store(&mut self, index: u32, actions: &mut Vec<Action>) {
        let page = self.write_backs[index].page << self.page_shift;
        for (first, count) in sector::runs(self.write_backs[index].sectors) {
            let offset = first << self.sector_shift;
            self.write_backs[index].outstanding += 1;
            actions.push(Action::WriteStore {
                token: Token::new(Purpose::WriteBack, index << self.sector_bits | first),
                address: page + u64::from(offset),
                bytes: count << self.sector_shift,
                from: Place::WriteBack { buffer: index, offset },
            });
        }
    }

    /// The store has taken a page, or a part of it.
    pub(super) fn written_back(
        &mut self,
        now_ps: u64,
        part: u32,
        stages: &Timeline,
        actions: &mut Vec<Action>,
    ) {
        let index = part >> self.sector_bits;
        let item = &mut self.write_backs[index];
        item.charge(now_ps, stages);
        item.outstanding -= 1;
        if item.outstanding > 0 {
            return;
        }
        let (gone, newer) = self.write_backs.remove(index);
        self.warming.write_backs.took(gone.stages.total_ps());
        self.released = gone.stages;
        debug_assert!(gone.wanted_by == NONE || gone.ready);
        if let Some(newer) = newer
            && self.write_backs[newer].ready
        {
            self.write_store(newer, actions);
        }
        if gone.flush {
            self.flush_goes_on(now_ps, &gone.stages);
        }
    }

    /// Adds the stages of what a miss has waited for.
    pub(super) fn charge(&mut self, now_ps: u64, index: u32, stages: &Timeline) {
        let miss = &mut self.misses[index];
        append_tail(&mut miss.stages, stages, now_ps - miss.charged_ps);
        miss.charged_ps = now_ps;
    }
}
