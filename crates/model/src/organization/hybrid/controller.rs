//! The hybrid controller: a state machine without devices, clock or event queue.

use super::action::{Action, Critical, Place, Purpose, Token};
use super::flush::Flush;
use super::page_map::PageMap;
use super::prefetch::Prefetcher;
use super::write_back::{NONE, WriteBackBuffer};
use crate::cache::{Hit, Place as Way, TagStore, WayRef, flag};
use crate::organization::{HybridSpec, InitialContent, OrganizationReport, TagStore as TagPlace};
use crate::replacement::Lru;
use crate::request::{Full, LineRequest, LineResponse};
use tierscope_kernel::{BoundedQueue, Slab, Stage, Timeline};

/// A page whose data are not in DRAM yet: a request for it finds a miss under way.
pub(super) const FILLING: u8 = flag::OWNER[0];

/// A request between submission and response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    id: u32,
    pub(super) write: bool,
    /// The stages up to `from_ps` stand in the controller's `prefixes`; else they are the
    /// controller's own time alone.
    prefixed: bool,
    /// A probe on its way found the page.
    pub(super) found: bool,
    /// The request that waits behind this one for the same miss, or [`NONE`].
    next: u32,
    pub(super) address: u64,
    submitted_ps: u64,
    /// Up to when its stages are known.
    from_ps: u64,
}

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
    last: u32,
    /// One of those that wait writes.
    written: bool,
    pub(super) prefetch: bool,
    /// The page that was in its frame before has not been read yet.
    frame_occupied: bool,
    /// The write of the page to DRAM is under way.
    fill_issued: bool,
    way: Option<WayRef>,
    buffer: u32,
    /// Offset of the line that comes ahead of the page.
    critical_line: Option<u32>,
    /// Stages since the miss began, up to `charged_ps`.
    stages: Timeline,
    charged_ps: u64,
}

/// Why a miss cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    /// No fill buffer or no place in the write-back buffer is free.
    NoRoom,
    /// Every way of the set is in use.
    Pinned,
}

/// The way for a missing page, and the dirty page that has to leave it.
type Frame = (WayRef, Option<u64>);

/// The memory controller of a hybrid ([HYB15] §2.2): DRAM as a cache of the store.
///
/// It takes requests ([`Controller::submit`]), time ([`Controller::advance`]) and completions
/// ([`Controller::complete`]), and appends what is to be done ([`Action`]) to a list. The
/// simulator drives it with simulated time; any other driver can, with any clock that does not go
/// back.
///
/// - A request holds one of `queue_depth` places from submission to response. Tags are looked up
///   in order of submission, after the controller's and the tag store's latency.
/// - A miss waits, in order with other misses, for a fill buffer, for a way that is not in use,
///   and where the victim is dirty for a place in the write-back buffer. Hits and requests to
///   pages in flight go on meanwhile. What a miss waits for depends on devices only, never on a
///   request, so that nothing waits in a cycle.
/// - A page that is in flight has one miss, which all requests to it join. They are answered when
///   the page has arrived, in order; then the page is written to DRAM, and until that is done
///   reads are served from the fill buffer.
/// - A page in the write-back buffer that is wanted again comes from there.
#[derive(Debug)]
pub struct Controller {
    pub(super) tags: TagStore<Lru>,
    tags_with_data: bool,
    line_bytes: u32,
    page_bytes: u32,
    page_shift: u32,
    latency_ps: u64,
    queue_depth: usize,
    critical_line_first: bool,
    tag_store_bytes: u64,

    held: Slab<Held>,
    /// Stages of requests that came to their last access to DRAM by another one.
    prefixes: Vec<Timeline>,
    /// Requests on the way through the controller, with the time when their tags are looked up.
    pipeline: BoundedQueue<(u64, u32)>,
    pub(super) misses: Slab<Miss>,
    /// The miss of each page that has one.
    pub(super) missing: PageMap,
    /// Misses that cannot begin yet, oldest first.
    stalled: BoundedQueue<u32>,
    /// Fill buffers that are free.
    buffers: Vec<u32>,
    fills: u32,
    pub(super) write_backs: WriteBackBuffer,
    prefetcher: Prefetcher,
    /// Prefetches whose tag is being read from DRAM.
    probing_prefetches: usize,
    pub(super) flush: Option<Flush>,
    report: OrganizationReport,
    /// Broken on purpose: see [`Controller::forget_write_backs`].
    #[cfg(test)]
    forgetful: bool,
}

impl Controller {
    /// A controller as `spec` says, in front of a store of `store_bytes`, for lines of
    /// `line_bytes` (a power of two up to the page).
    ///
    /// # Panics
    /// If the specification's own check would have found a mistake.
    pub fn new(spec: &HybridSpec, store_bytes: u64, line_bytes: u32) -> Self {
        let cache = &spec.cache;
        let page_bytes = cache.page.bytes();
        let ways = cache.ways as usize;
        let sets = cache.capacity.bytes() / (page_bytes * ways as u64);
        assert!(page_bytes.is_power_of_two() && u64::from(line_bytes) <= page_bytes);
        let prefilled = cache.initial == InitialContent::Prefilled;
        let tags_with_data = cache.tags == TagPlace::WithData;
        assert!(!tags_with_data || ways == 1, "tags lie with the data only when direct-mapped");
        let tag_ps = if tags_with_data { 0 } else { cache.tag_latency.picoseconds() };
        let depth = spec.queue_depth as usize;
        let fills = spec.fills as usize;
        Controller {
            tags: TagStore::new(sets, ways, prefilled, 0),
            tags_with_data,
            line_bytes,
            page_bytes: page_bytes as u32,
            page_shift: page_bytes.trailing_zeros(),
            latency_ps: spec.controller_latency.picoseconds() + tag_ps,
            queue_depth: depth,
            critical_line_first: spec.critical_line_first,
            tag_store_bytes: if tags_with_data { 0 } else { tag_store_bytes(spec, store_bytes) },
            held: Slab::new(),
            prefixes: vec![Timeline::new(); depth],
            pipeline: BoundedQueue::with_capacity(depth),
            misses: Slab::new(),
            missing: PageMap::with_capacity(depth + 2 * fills),
            stalled: BoundedQueue::with_capacity(depth),
            buffers: (0..spec.fills).rev().collect(),
            fills: spec.fills,
            write_backs: WriteBackBuffer::with_capacity(spec.write_back_buffer_pages as usize),
            prefetcher: Prefetcher::new(
                u64::from(spec.prefetch_pages),
                store_bytes >> page_bytes.trailing_zeros(),
                if Self::fills_kept(fills) < fills { fills } else { 0 },
            ),
            probing_prefetches: 0,
            flush: None,
            report: OrganizationReport::default(),
            #[cfg(test)]
            forgetful: false,
        }
    }

    /// Breaks the controller: from now on it does not look into its write-back buffer. Data
    /// checking has to find that.
    #[cfg(test)]
    pub(super) fn forget_write_backs(&mut self) {
        self.forgetful = true;
    }

    /// Fill buffers that prefetches leave to demand: a quarter, at least one.
    const fn fills_kept(fills: usize) -> usize {
        fills.div_ceil(4)
    }

    /// Takes a request at `now_ps`; the number of its place until it is answered.
    ///
    /// # Errors
    /// [`Full`] while all places are taken.
    #[inline]
    pub fn submit(&mut self, now_ps: u64, request: LineRequest) -> Result<u32, Full> {
        if self.held.len() >= self.queue_depth {
            return Err(Full);
        }
        let slot = self.held.insert(Held {
            id: request.id,
            write: request.write,
            prefixed: false,
            found: false,
            next: NONE,
            address: request.address,
            submitted_ps: now_ps,
            from_ps: now_ps,
        });
        let entered = self.pipeline.push((now_ps + self.latency_ps, slot));
        debug_assert!(entered.is_ok(), "the pipeline has a place for each request held");
        Ok(slot)
    }

    /// When the controller wants to be advanced next, if it does not wait for completions only.
    #[inline]
    pub fn next_event_ps(&self) -> Option<u64> {
        self.pipeline.front().map(|(at_ps, _)| *at_ps)
    }

    /// Does what is due until `now_ps`, which never goes back between calls of any kind.
    #[inline]
    pub fn advance(&mut self, now_ps: u64, actions: &mut Vec<Action>) {
        while let Some(&(_, slot)) = self.pipeline.front().filter(|(at_ps, _)| *at_ps <= now_ps) {
            self.pipeline.pop();
            self.held[slot].from_ps = now_ps;
            if self.tags_with_data {
                self.probe(now_ps, slot, actions);
            } else {
                self.look_up(now_ps, slot, actions);
            }
        }
    }

    /// An action is complete at `now_ps`. `stages` add up to the time since it was given out.
    #[inline]
    pub fn complete(
        &mut self,
        now_ps: u64,
        token: Token,
        stages: &Timeline,
        actions: &mut Vec<Action>,
    ) {
        let (purpose, index) = token.parts();
        match purpose {
            Purpose::Line => return self.respond(now_ps, index, stages, actions),
            Purpose::Probe => self.probed(now_ps, index, stages, actions),
            Purpose::Tag => self.tag_read(now_ps, index, stages, actions),
            Purpose::Fetch => self.arrived(now_ps, index, stages, actions),
            Purpose::Critical => return self.critical_arrived(now_ps, index, stages, actions),
            Purpose::Fill => self.filled(now_ps, index, stages, actions),
            Purpose::Evict => self.evicted(now_ps, index, actions),
            Purpose::WriteBack => self.written_back(index, actions),
        }
        self.go_on(now_ps, actions);
    }

    /// Numbers of tokens are below this.
    pub fn tokens(&self) -> usize {
        let requests = self.queue_depth;
        let misses = self.queue_depth + 2 * self.fills as usize;
        let highest = misses.max(requests).max(self.write_backs.capacity()) as u32;
        Token::new(Purpose::WriteBack, highest).number() as usize + 1
    }

    /// Requests held, misses and write-backs under way.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.held.len() + self.misses.len() + self.write_backs.len()
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Bytes of a line.
    pub fn line_bytes(&self) -> u32 {
        self.line_bytes
    }

    /// Dirty pages in DRAM.
    pub fn dirty_pages(&self) -> u64 {
        self.tags.dirty_lines()
    }

    /// What was counted so far; bytes moved and stale reads are the driver's to add.
    pub fn report(&self) -> OrganizationReport {
        OrganizationReport { tag_store_bytes: self.tag_store_bytes, ..self.report.clone() }
    }

    /// A second controller that stands where this one stands.
    pub fn fork(&mut self) -> Self {
        Controller {
            tags: self.tags.fork(),
            held: self.held.clone(),
            prefixes: self.prefixes.clone(),
            pipeline: self.pipeline.clone(),
            misses: self.misses.clone(),
            missing: self.missing.clone(),
            stalled: self.stalled.clone(),
            buffers: self.buffers.clone(),
            write_backs: self.write_backs.clone(),
            prefetcher: self.prefetcher.clone(),
            report: self.report.clone(),
            ..*self
        }
    }

    // Tags in SRAM.

    #[inline]
    fn look_up(&mut self, now_ps: u64, slot: u32, actions: &mut Vec<Action>) {
        let Held { address, write, .. } = self.held[slot];
        let page = address >> self.page_shift;
        self.report.lookups += 1;
        match self.tags.access(page, write) {
            Some(hit) if hit.flags & FILLING == 0 => {
                self.mark_used(hit);
                self.access_dram(slot, hit.way, actions);
            }
            found => {
                self.report.misses += 1;
                if let Some(hit) = found {
                    self.mark_used(hit);
                }
                self.miss(now_ps, page, slot, actions);
            }
        }
    }

    /// A demand request has found its page, present or in flight: if a prefetch brought it, that
    /// was of use.
    #[inline]
    pub(super) fn mark_used(&mut self, hit: Hit) {
        if hit.flags & flag::PREFETCHED != 0 {
            self.tags.clear_flags(hit.way, flag::PREFETCHED);
            self.report.prefetch_hits += 1;
        }
    }

    /// Reads or writes a request's line in DRAM.
    #[inline]
    pub(super) fn access_dram(&mut self, slot: u32, way: WayRef, actions: &mut Vec<Action>) {
        let held = &self.held[slot];
        let token = Token::new(Purpose::Line, slot);
        let address = self.dram_line(way, held.address);
        let (bytes, background, place) = (self.line_bytes, false, Place::Request(slot));
        actions.push(if held.write {
            Action::WriteDram { token, address, bytes, from: place, background }
        } else {
            Action::ReadDram { token, address, bytes, into: place, background }
        });
    }

    // Tags with the data.

    /// Looks a tag up by an access to DRAM, unless the page is known to be in flight.
    fn probe(&mut self, now_ps: u64, slot: u32, actions: &mut Vec<Action>) {
        let Held { address, write, .. } = self.held[slot];
        let page = address >> self.page_shift;
        if let Some(index) = self.missing.get(page) {
            if self.misses[index].progress != Progress::Probing {
                self.report.lookups += 1;
                self.report.misses += 1;
                self.use_in_flight(page);
            }
            return self.join(now_ps, index, slot, actions);
        }
        if write {
            let index = self.new_miss(now_ps, page, Progress::Probing, false);
            self.enqueue(index, slot);
            return self.read_tag(index, self.line_offset(address), actions);
        }
        // What the read will find is settled now: DRAM keeps the order of what overlaps.
        let found = self.tags.access(page, false);
        if let Some(hit) = found {
            self.mark_used(hit);
        }
        self.held[slot].found = found.is_some();
        actions.push(Action::ReadDram {
            token: Token::new(Purpose::Probe, slot),
            address: self.direct_mapped(page) + u64::from(self.line_offset(address)),
            bytes: self.line_bytes,
            into: Place::Request(slot),
            background: false,
        });
    }

    /// The line and tag of a read have come.
    fn probed(&mut self, now_ps: u64, slot: u32, stages: &Timeline, actions: &mut Vec<Action>) {
        self.report.lookups += 1;
        let Held { address, found, .. } = self.held[slot];
        if found {
            return self.respond(now_ps, slot, stages, actions);
        }
        self.report.misses += 1;
        self.set_prefix(now_ps, slot, stages, stages.total_ps());
        let page = address >> self.page_shift;
        match self.tags.lookup(page) {
            // Another miss brought the page meanwhile.
            Some(way) if self.tags.flags(way) & FILLING == 0 => {
                self.access_dram(slot, way, actions);
            }
            Some(_) => {
                self.use_in_flight(page);
                self.miss(now_ps, page, slot, actions);
            }
            None => self.miss(now_ps, page, slot, actions),
        }
    }

    /// Reads the tag of a page that is to be written or prefetched.
    fn read_tag(&mut self, index: u32, offset: u32, actions: &mut Vec<Action>) {
        let miss = &self.misses[index];
        actions.push(Action::ReadDram {
            token: Token::new(Purpose::Tag, index),
            address: self.direct_mapped(miss.page) + u64::from(offset),
            bytes: self.line_bytes,
            into: Place::Nowhere,
            background: miss.prefetch,
        });
    }

    /// The tag of a write or a prefetch has come: all that wait for it go on.
    fn tag_read(&mut self, now_ps: u64, index: u32, stages: &Timeline, actions: &mut Vec<Action>) {
        self.charge(now_ps, index, stages);
        let Miss { page, first, prefetch, .. } = self.misses[index];
        self.probing_prefetches -= usize::from(prefetch);
        if self.tags.lookup(page).is_some() {
            self.missing.remove(page);
            let mut miss = self.misses.remove(index);
            while miss.first != NONE {
                let slot = miss.first;
                let held = self.held[slot];
                miss.first = held.next;
                // A read that was probed before it joined has been counted.
                self.report.lookups += u64::from(!held.prefixed);
                self.set_prefix(now_ps, slot, &miss.stages, now_ps - held.from_ps);
                if let Some(hit) = self.tags.access(page, held.write) {
                    self.mark_used(hit);
                    self.access_dram(slot, hit.way, actions);
                }
            }
        } else if first != NONE {
            let waiting = self.count_waiting(first);
            self.report.lookups += waiting;
            self.report.misses += waiting;
            self.misses[index].prefetch = false;
            self.stall(index);
            self.prefetcher.missed(page);
        } else if let Ok(frame) = self.frame_for(page, true) {
            self.begin(now_ps, index, frame, actions);
        } else {
            self.missing.remove(page);
            self.misses.remove(index);
        }
    }

    /// Requests that wait for a tag and have not been counted.
    fn count_waiting(&self, mut slot: u32) -> u64 {
        let mut count = 0;
        while let Some(held) = self.waiting(slot) {
            count += u64::from(!held.prefixed);
            slot = held.next;
        }
        count
    }

    /// A demand request has joined the miss of `page`.
    fn use_in_flight(&mut self, page: u64) {
        if let Some(way) = self.tags.lookup(page) {
            self.mark_used(Hit { way, flags: self.tags.flags(way) });
        }
    }

    /// The stages of a request, up to now: those it had, and the last `wait_ps` of `stages`.
    fn set_prefix(&mut self, now_ps: u64, slot: u32, stages: &Timeline, wait_ps: u64) {
        let mut prefix = self.stages_of(slot);
        append_tail(&mut prefix, stages, wait_ps);
        self.prefixes[slot as usize] = prefix;
        let held = &mut self.held[slot];
        held.prefixed = true;
        held.from_ps = now_ps;
    }

    // Misses.

    /// A request has missed: it joins the miss of its page, or begins one.
    fn miss(&mut self, now_ps: u64, page: u64, slot: u32, actions: &mut Vec<Action>) {
        if let Some(index) = self.missing.get(page) {
            return self.join(now_ps, index, slot, actions);
        }
        let index = self.new_miss(now_ps, page, Progress::Stalled, false);
        self.enqueue(index, slot);
        self.stall(index);
        self.prefetcher.missed(page);
        self.go_on(now_ps, actions);
    }

    fn new_miss(&mut self, now_ps: u64, page: u64, progress: Progress, prefetch: bool) -> u32 {
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
        });
        self.missing.insert(page, index);
        index
    }

    fn stall(&mut self, index: u32) {
        self.misses[index].progress = Progress::Stalled;
        let kept = self.stalled.push(index);
        debug_assert!(kept.is_ok(), "a stalled miss holds at least one request");
    }

    /// Adds a request to a miss under way.
    fn join(&mut self, now_ps: u64, index: u32, slot: u32, actions: &mut Vec<Action>) {
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
    fn enqueue(&mut self, index: u32, slot: u32) {
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

    fn waiting(&self, slot: u32) -> Option<&Held> {
        if slot == NONE { None } else { self.held.get(slot) }
    }

    /// Begins what can begin: demand misses in order, then a flush, then prefetches.
    fn go_on(&mut self, now_ps: u64, actions: &mut Vec<Action>) {
        while let Some(&index) = self.stalled.front() {
            let Ok(frame) = self.frame_for(self.misses[index].page, false) else { break };
            self.stalled.pop();
            self.begin(now_ps, index, frame, actions);
        }
        if self.flush.is_some() {
            self.go_on_flushing(actions);
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
    fn frame_for(&self, page: u64, prefetch: bool) -> Result<Frame, Obstacle> {
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
    fn begin(&mut self, now_ps: u64, index: u32, (way, victim): Frame, actions: &mut Vec<Action>) {
        self.charge_wait(now_ps, index);
        let Some(buffer) = self.buffers.pop() else {
            debug_assert!(false, "a frame is given only while a fill buffer is free");
            return;
        };
        let miss = &mut self.misses[index];
        miss.progress = Progress::Fetching;
        miss.way = Some(way);
        miss.buffer = buffer;
        miss.frame_occupied = victim.is_some();
        let Miss { page, written, prefetch, first, .. } = *miss;
        let mut flags = flag::PINNED | FILLING;
        flags |= if written { flag::DIRTY } else { 0 };
        if prefetch {
            flags |= flag::PREFETCHED;
            self.report.prefetched_pages += 1;
        }
        self.tags.insert_at(way, page, flags);
        if let Some(victim) = victim {
            let evicting = self.evict(victim, way, actions);
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
    pub(super) fn evict(&mut self, page: u64, way: WayRef, actions: &mut Vec<Action>) -> u32 {
        self.report.write_backs += 1;
        let index = self.write_backs.insert(page, way);
        actions.push(Action::ReadDram {
            token: Token::new(Purpose::Evict, index),
            address: self.tags.frame(way) << self.page_shift,
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
        self.charge_wait(now_ps, index);
        self.arrived(now_ps, index, &Timeline::new(), actions);
    }

    /// A page is in its fill buffer: those that wait are answered, then it goes to DRAM.
    fn arrived(&mut self, now_ps: u64, index: u32, stages: &Timeline, actions: &mut Vec<Action>) {
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
    fn critical_arrived(
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
        actions.push(Action::WriteDram {
            token: Token::new(Purpose::Fill, index),
            address: self.tags.frame(way) << self.page_shift,
            bytes: self.page_bytes,
            from: Place::Fill { buffer: miss.buffer, offset: 0 },
            background: true,
        });
    }

    /// A page is in DRAM: the miss is over, and writes that came too late for the fill follow it.
    fn filled(&mut self, now_ps: u64, index: u32, stages: &Timeline, actions: &mut Vec<Action>) {
        let Some(way) = self.misses[index].way else {
            debug_assert!(false, "a page is filled only into a frame");
            return;
        };
        while self.misses[index].first != NONE {
            let slot = self.take_first(index);
            self.set_prefix(now_ps, slot, stages, now_ps - self.held[slot].from_ps);
            self.access_dram(slot, way, actions);
        }
        self.tags.clear_flags(way, flag::PINNED | FILLING);
        let miss = self.misses.remove(index);
        self.missing.remove(miss.page);
        self.buffers.push(miss.buffer);
    }

    /// A page to be written back has been read from DRAM.
    fn evicted(&mut self, now_ps: u64, index: u32, actions: &mut Vec<Action>) {
        self.write_backs[index].ready = true;
        let item = self.write_backs[index];
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
    fn written_back(&mut self, index: u32, actions: &mut Vec<Action>) {
        let (gone, newer) = self.write_backs.remove(index);
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

    // Stages.

    /// Adds the stages of what a miss has waited for.
    fn charge(&mut self, now_ps: u64, index: u32, stages: &Timeline) {
        let miss = &mut self.misses[index];
        miss.stages.append(stages);
        miss.charged_ps += stages.total_ps();
        debug_assert!(miss.charged_ps == now_ps, "stages add up to the time they took");
    }

    /// Charges the time since the last stage of a miss to waiting in the controller.
    fn charge_wait(&mut self, now_ps: u64, index: u32) {
        let miss = &mut self.misses[index];
        miss.stages.push(Stage::ControllerQueue, now_ps - miss.charged_ps);
        miss.charged_ps = now_ps;
    }

    /// The stages of a request up to its `from_ps`.
    #[inline]
    fn stages_of(&self, slot: u32) -> Timeline {
        let held = &self.held[slot];
        if held.prefixed {
            return self.prefixes[slot as usize];
        }
        let mut stages = Timeline::new();
        stages.push(Stage::Controller, self.latency_ps);
        // Nothing, unless the driver came late.
        let late_ps = held.from_ps - held.submitted_ps - self.latency_ps;
        stages.push(Stage::ControllerQueue, late_ps);
        stages
    }

    /// Answers a request, which has waited at the end of `stages` since its own stages ended.
    #[inline]
    fn respond(&mut self, now_ps: u64, slot: u32, stages: &Timeline, actions: &mut Vec<Action>) {
        let mut all = self.stages_of(slot);
        let held = self.held.remove(slot);
        append_tail(&mut all, stages, now_ps - held.from_ps);
        debug_assert_eq!(all.total_ps(), now_ps - held.submitted_ps, "{all:?}");
        let response = LineResponse { id: held.id, at_ps: now_ps, stages: all, version: 0 };
        actions.push(Action::Respond { request: slot, response });
    }

    // Addresses.

    #[inline]
    fn line_offset(&self, address: u64) -> u32 {
        address as u32 & (self.page_bytes - 1) & !(self.line_bytes - 1)
    }

    #[inline]
    fn dram_line(&self, way: WayRef, address: u64) -> u64 {
        (self.tags.frame(way) << self.page_shift) + u64::from(self.line_offset(address))
    }

    /// First byte of the only frame where a page can be in a direct-mapped cache.
    fn direct_mapped(&self, page: u64) -> u64 {
        u64::from(self.tags.set_of(page)) << self.page_shift
    }
}

/// Adds the last `wait_ps` of `stages` to `into`; should they be shorter, the rest is waiting in
/// the controller.
#[inline]
fn append_tail(into: &mut Timeline, stages: &Timeline, wait_ps: u64) {
    let total_ps = stages.total_ps();
    if total_ps == wait_ps {
        return into.append(stages);
    }
    into.push(Stage::ControllerQueue, wait_ps.saturating_sub(total_ps));
    let mut skip_ps = total_ps.saturating_sub(wait_ps);
    for (stage, duration_ps) in stages.iter() {
        let skipped_ps = skip_ps.min(duration_ps);
        skip_ps -= skipped_ps;
        into.push(stage, duration_ps - skipped_ps);
    }
}

/// Size of a tag store in SRAM: entries × (b − c + a + s) bits ([HYB15] §2.3), where b, c and a are
/// the bits of the store's address space, of the cache's and of its associativity, and s those of
/// valid, dirty and the replacement order. Where a size is no power of two, b counts the bits of
/// the greatest address and c those that every address has.
fn tag_store_bytes(spec: &HybridSpec, store_bytes: u64) -> u64 {
    let cache = &spec.cache;
    let capacity_bytes = cache.capacity.bytes();
    let entries = u128::from(capacity_bytes / cache.page.bytes());
    let store_bits = u64::BITS - store_bytes.saturating_sub(1).leading_zeros();
    let cache_bits = capacity_bytes.max(1).ilog2();
    let way_bits = u32::BITS - (cache.ways.max(1) - 1).leading_zeros();
    let state_bits = 1 + 1 + way_bits;
    let bits = (store_bits + way_bits).saturating_sub(cache_bits) + state_bits;
    u64::try_from((entries * u128::from(bits)).div_ceil(8)).unwrap_or(u64::MAX)
}
