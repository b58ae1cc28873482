//! What a miss goes through: a frame, the page from the store, the requests that wait, the fill; and
//! the way of a dirty victim to the store.

use super::action::{Action, Critical, Place, Purpose, Token};
use super::controller::{Controller, FILLING, Held, append_tail};
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

/// A page that somebody wants in DRAM, and the requests that wait for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Miss {
    pub(super) page: u64,
    pub(super) progress: Progress,
    /// First and last request that waits, or [`NONE`].
    pub(super) first: u32,
    pub(super) last: u32,
    /// One of those that wait writes.
    pub(super) written: bool,
    pub(super) prefetch: bool,
    /// The page that was in its frame before has not been read yet.
    frame_occupied: bool,
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
    begun_ps: u64,
}

/// Why a miss cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// No fill buffer or no place in the write-back buffer is free.
    NoRoom,
    /// Every way of the set is in use.
    Pinned,
}

/// The way for a missing page, and the dirty page that has to leave it.
pub(super) type Frame = (WayRef, Option<u64>);

impl Controller {
    /// A request has missed: it joins the miss of its page, or begins one.
    pub(super) fn miss(&mut self, now_ps: u64, page: u64, slot: u32, actions: &mut Vec<Action>) {
        if let Some(index) = self.missing.get(page) {
            return self.join(now_ps, index, slot, actions);
        }
        let index = self.new_miss(now_ps, page, Progress::Stalled, false);
        self.enqueue(index, slot);
        self.stall(index);
        self.prefetcher.missed(page);
        self.go_on(now_ps, actions);
    }

    pub(super) fn new_miss(
        &mut self,
        now_ps: u64,
        page: u64,
        progress: Progress,
        prefetch: bool,
    ) -> u32 {
        let index = self.misses.insert(Miss {
            page,
            progress,
            first: NONE,
            last: NONE,
            written: false,
            prefetch,
            frame_occupied: false,
            fill_issued: false,
            way: None,
            buffer: NONE,
            critical_line: None,
            stages: Timeline::new(),
            charged_ps: now_ps,
            begun_ps: now_ps,
        });
        self.missing.insert(page, index);
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
            self.tags.set_dirty(way);
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
            self.tags.set_dirty(way);
        }
    }

    /// Takes the first of the requests that wait for a miss; there is one.
    fn take_first(&mut self, index: u32) -> u32 {
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
        while let Some(&index) = self.stalled.front() {
            let Ok(frame) = self.frame_for(self.misses[index].page, false) else { break };
            self.stalled.pop();
            self.begin(now_ps, index, frame, actions);
        }
        if self.flush.is_some() {
            self.go_on_flushing(now_ps, actions);
        }
        while self.stalled.is_empty()
            && let Some(page) = self.prefetcher.next()
        {
            if self.prefetch(now_ps, page, actions) == Err(Obstacle::NoRoom) {
                break;
            }
            self.prefetcher.skip();
        }
    }

    /// Where `page` may go and what must leave for it.
    pub(super) fn frame_for(&self, page: u64, prefetch: bool) -> Result<Frame, Obstacle> {
        let kept = if prefetch { Self::fills_kept(self.fills as usize) } else { 0 };
        if self.buffers.len() <= kept {
            return Err(Obstacle::NoRoom);
        }
        match self.tags.place(page) {
            Way::Free(way) => Ok((way, None)),
            Way::Pinned => Err(Obstacle::Pinned),
            Way::Taken(way, victim) if !victim.dirty() => Ok((way, None)),
            Way::Taken(way, victim) => {
                if !self.write_backs.has_room(self.places_kept(prefetch)) {
                    return Err(Obstacle::NoRoom);
                }
                Ok((way, victim.line))
            }
        }
    }

    /// Places of the write-back buffer that background work leaves to demand.
    pub(super) fn places_kept(&self, background: bool) -> usize {
        usize::from(background && self.write_backs.capacity() > 1)
    }

    /// Begins to prefetch `page` unless it is present or in flight.
    fn prefetch(
        &mut self,
        now_ps: u64,
        page: u64,
        actions: &mut Vec<Action>,
    ) -> Result<(), Obstacle> {
        if self.missing.get(page).is_some() {
            return Ok(());
        }
        if self.tags_with_data {
            let kept = Self::fills_kept(self.fills as usize);
            if self.buffers.len() <= kept + self.probing_prefetches {
                return Err(Obstacle::NoRoom);
            }
            self.probing_prefetches += 1;
            let index = self.new_miss(now_ps, page, Progress::Probing, true);
            self.read_tag(index, 0, actions);
            return Ok(());
        }
        if self.tags.lookup(page).is_some() {
            return Ok(());
        }
        let frame = self.frame_for(page, true)?;
        let index = self.new_miss(now_ps, page, Progress::Stalled, true);
        self.begin(now_ps, index, frame, actions);
        Ok(())
    }

    /// Gives a miss its frame and sends for its page.
    pub(super) fn begin(
        &mut self,
        now_ps: u64,
        index: u32,
        (way, victim): Frame,
        actions: &mut Vec<Action>,
    ) {
        let released = self.released;
        self.charge(now_ps, index, &released);
        let Some(buffer) = self.buffers.pop() else {
            debug_assert!(false, "a frame is given only while a fill buffer is free");
            return;
        };
        let miss = &mut self.misses[index];
        miss.progress = Progress::Fetching;
        miss.begun_ps = now_ps;
        miss.way = Some(way);
        miss.buffer = buffer;
        miss.frame_occupied = victim.is_some();
        let Miss { page, written, prefetch, first, .. } = *miss;
        let mut flags = flag::PINNED | FILLING;
        flags |= if written { flag::DIRTY } else { 0 };
        if prefetch {
            flags |= flag::PREFETCHED;
            self.report.prefetched_pages += 1;
        } else {
            self.report.fetched_pages += 1;
        }
        self.tags.insert_at(way, page, flags);
        if let Some(victim) = victim {
            self.report.displaced_pages += u64::from(!prefetch);
            let waited = self.misses[index].stages;
            let evicting = self.evict(now_ps, victim, way, &waited, actions);
            self.write_backs[evicting].replaced_by = index;
        }
        if let Some(source) = self.write_back_of(page) {
            return self.fetch_from_write_back(now_ps, index, source, actions);
        }
        let reader = self.waiting(first).filter(|held| self.critical_line_first && !held.write);
        let critical = reader.map(|held| self.line_offset(held.address));
        self.misses[index].critical_line = critical;
        let token = Token::new(Purpose::Critical, index);
        actions.push(Action::ReadStore {
            token: Token::new(Purpose::Fetch, index),
            address: page << self.page_shift,
            bytes: self.page_bytes,
            into: Place::Fill { buffer, offset: 0 },
            critical: critical.map(|offset| Critical { token, offset }),
            background: prefetch,
        });
    }

    /// Begins to write a page back: it is read from DRAM first.
    pub(super) fn evict(
        &mut self,
        now_ps: u64,
        page: u64,
        way: WayRef,
        waited: &Timeline,
        actions: &mut Vec<Action>,
    ) -> u32 {
        self.report.write_backs += 1;
        let index = self.write_backs.insert(now_ps, page, way, waited);
        actions.push(Action::ReadDram {
            token: Token::new(Purpose::Evict, index),
            address: self.frame_address(way),
            bytes: self.page_bytes,
            into: Place::WriteBack(index),
            background: true,
        });
        index
    }

    /// The newest copy of a page in the write-back buffer.
    fn write_back_of(&self, page: u64) -> Option<u32> {
        #[cfg(test)]
        if self.forgetful {
            return None;
        }
        self.write_backs.newest(page)
    }

    fn fetch_from_write_back(
        &mut self,
        now_ps: u64,
        index: u32,
        source: u32,
        actions: &mut Vec<Action>,
    ) {
        if !self.write_backs[source].ready {
            self.write_backs[source].wanted_by = index;
            return;
        }
        let into = Place::Fill { buffer: self.misses[index].buffer, offset: 0 };
        let (from, bytes) = (Place::WriteBack(source), self.page_bytes);
        actions.push(Action::Copy { from, into, bytes });
        // Where it is not there yet, its way into the buffer is what the miss has waited for.
        let read = self.write_backs[source].stages;
        self.arrived(now_ps, index, &read, actions);
    }

    /// A page is in its fill buffer: those that wait are answered, then it goes to DRAM.
    pub(super) fn arrived(
        &mut self,
        now_ps: u64,
        index: u32,
        stages: &Timeline,
        actions: &mut Vec<Action>,
    ) {
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
    fn serve_from_fill(
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

    /// Writes a page from its fill buffer to its frame, which is free by now.
    fn fill(&mut self, index: u32, actions: &mut Vec<Action>) {
        let miss = &mut self.misses[index];
        let Some(way) = miss.way else {
            debug_assert!(false, "a page arrives only once it has a frame");
            return;
        };
        miss.fill_issued = true;
        let buffer = miss.buffer;
        actions.push(Action::WriteDram {
            token: Token::new(Purpose::Fill, index),
            address: self.frame_address(way),
            bytes: self.page_bytes,
            from: Place::Fill { buffer, offset: 0 },
            background: true,
        });
    }

    /// A page is in DRAM: the miss is over, and writes that came too late for the fill follow it.
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
        self.tags.clear_flags(way, flag::PINNED | FILLING);
        self.charge(now_ps, index, stages);
        let miss = self.misses.remove(index);
        self.warming.fills.took(now_ps - miss.begun_ps);
        self.released = miss.stages;
        self.missing.remove(miss.page);
        self.buffers.push(miss.buffer);
    }

    /// A page to be written back has been read from DRAM.
    pub(super) fn evicted(
        &mut self,
        now_ps: u64,
        index: u32,
        stages: &Timeline,
        actions: &mut Vec<Action>,
    ) {
        let item = &mut self.write_backs[index];
        item.ready = true;
        item.charge(now_ps, stages);
        let item = *item;
        if item.replaced_by == NONE {
            self.release_flushed(&item);
        } else {
            self.misses[item.replaced_by].frame_occupied = false;
            if self.misses[item.replaced_by].progress == Progress::Filling {
                self.fill(item.replaced_by, actions);
            }
        }
        if item.wanted_by != NONE {
            self.fetch_from_write_back(now_ps, item.wanted_by, index, actions);
        }
        if item.older == NONE {
            self.write_store(index, actions);
        }
    }

    fn write_store(&mut self, index: u32, actions: &mut Vec<Action>) {
        actions.push(Action::WriteStore {
            token: Token::new(Purpose::WriteBack, index),
            address: self.write_backs[index].page << self.page_shift,
            bytes: self.page_bytes,
            from: Place::WriteBack(index),
        });
    }

    /// The store has taken a page.
    pub(super) fn written_back(
        &mut self,
        now_ps: u64,
        index: u32,
        stages: &Timeline,
        actions: &mut Vec<Action>,
    ) {
        self.write_backs[index].charge(now_ps, stages);
        let (gone, newer) = self.write_backs.remove(index);
        self.warming.write_backs.took(gone.stages.total_ps());
        self.released = gone.stages;
        debug_assert!(gone.wanted_by == NONE || gone.ready);
        if let Some(newer) = newer
            && self.write_backs[newer].ready
        {
            self.write_store(newer, actions);
        }
        if let Some(flush) = self.flush.as_mut().filter(|_| gone.flush) {
            flush.written();
        }
    }

    /// Adds the stages of what a miss has waited for.
    pub(super) fn charge(&mut self, now_ps: u64, index: u32, stages: &Timeline) {
        let miss = &mut self.misses[index];
        append_tail(&mut miss.stages, stages, now_ps - miss.charged_ps);
        miss.charged_ps = now_ps;
    }
}
