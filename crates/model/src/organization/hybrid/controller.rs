//! The hybrid controller: a state machine without devices, clock or event queue.

use super::action::{Action, Place, Purpose, Token};
use super::fill::{FillPolicy, FillReport};
use super::flush::Flush;
use super::miss::Miss;
use super::miss_predictor::MissPredictor;
use super::page_map::PageMap;
use super::prefetch::Prefetcher;
use super::sector::Sectors;
use super::tag_cache::TagCache;
use super::warm::Warming;
use super::write_back::{NONE, WriteBackBuffer};
use crate::cache::{AnyTagStore, Hit, WayRef, flag};
use crate::organization::{HybridSpec, InitialContent, OrganizationReport, TagStore as TagPlace};
use crate::request::{Full, LineRequest, LineResponse, Tell, earlier};
use tierscope_kernel::{BoundedQueue, Slab, Stage, Timeline};

/// A page whose data are not in DRAM yet: a request for it finds a miss under way.
pub(super) const FILLING: u8 = flag::OWNER[0];
/// A page that is read from DRAM to be written back, and stays.
pub(super) const READING: u8 = flag::OWNER[1];

/// A request between submission and response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    id: u32,
    pub(super) core: u16,
    pub(super) write: bool,
    /// The stages up to `from_ps` stand in the controller's `prefixes`; else they are the
    /// controller's own time alone.
    pub(super) prefixed: bool,
    /// A probe on its way found the page.
    pub(super) found: bool,
    /// The request that waits behind this one for the same miss, or [`NONE`].
    pub(super) next: u32,
    pub(super) address: u64,
    submitted_ps: u64,
    /// Up to when its stages are known.
    from_ps: u64,
}

/// The memory controller of a hybrid (\[HYB15\] §2.2): DRAM as a cache of the store.
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
///   pages in flight go on meanwhile. What a miss waits for comes from devices, whatever requests
///   do, so that nothing waits in a cycle. It may end sooner: by a hit, behind which another page
///   is the victim, or by a flush that throws a page of the set away, or ends. The first of them
///   begins as soon as it can.
/// - A page that is in flight has one miss, which all requests to it join. They are answered when
///   the page has arrived, in order; then the page is written to DRAM, and until that is done
///   reads are served from the fill buffer.
/// - A page in the write-back buffer that is wanted again comes from there.
#[derive(Debug)]
pub struct Controller {
    pub(super) tags: AnyTagStore,
    pub(super) tags_with_data: bool,
    pub(super) line_bytes: u32,
    pub(super) page_bytes: u32,
    pub(super) page_shift: u32,
    /// Bits of an address within a sector: what comes at once. A page without sectors is one.
    pub(super) sector_shift: u32,
    /// Bits of a sector's number within its page.
    pub(super) sector_bits: u32,
    /// Where pages have several.
    pub(super) sectors: Option<Sectors>,
    latency_ps: u64,
    queue_depth: usize,
    pub(super) fill_policy: FillPolicy,
    pub(super) fill_report: FillReport,
    pub(super) critical_line_first: bool,
    pub(super) flush_at_sync: bool,
    pub(super) eager_write_back: bool,
    tag_store_bytes: u64,
    /// Where tags lie in DRAM.
    pub(super) tag_cache: Option<Box<TagCache>>,

    pub(super) held: Slab<Held>,
    /// Stages of requests that came to their last access to DRAM by another one.
    prefixes: Vec<Timeline>,
    /// Requests on the way through the controller, with the time when their tags are looked up.
    pipeline: BoundedQueue<(u64, u32)>,
    pub(super) misses: Slab<Miss>,
    /// The miss of each sector that has one.
    pub(super) missing: PageMap,
    /// Misses that cannot begin yet, oldest first.
    pub(super) stalled: BoundedQueue<u32>,
    /// From when on the first of them can, since a flush has gone on or ended.
    pub(super) unblocked_ps: Option<u64>,
    /// Fill buffers that are free.
    pub(super) buffers: Vec<u32>,
    pub(super) fills: u32,
    /// What the miss or write-back went through that gave up a buffer, a way or a place last: that
    /// is what a miss has waited for that was stalled until then.
    pub(super) released: Timeline,
    pub(super) write_backs: WriteBackBuffer,
    pub(super) prefetcher: Prefetcher,
    /// Where misses are guessed before tags that lie with the data have come.
    pub(super) miss_predictor: Option<MissPredictor>,
    /// Prefetches whose tag is being read from DRAM.
    pub(super) probing_prefetches: usize,
    pub(super) flush: Option<Flush>,
    /// Where the time of the flush went that is under way, or was done last.
    pub(super) flush_stages: Timeline,
    pub(super) warming: Warming,
    pub(super) report: OrganizationReport,
    /// Broken on purpose: see [`Controller::forget_write_backs`].
    #[cfg(test)]
    pub(super) forgetful: bool,
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
        let tags_with_data = cache.tags.come_with_data();
        assert!(!tags_with_data || ways == 1, "tags lie with the data only when direct-mapped");
        let tag_ps = if tags_with_data { 0 } else { cache.tag_latency.picoseconds() };
        let sector_shift = cache.sector().trailing_zeros();
        let sector_bits = page_bytes.trailing_zeros() - sector_shift;
        assert!(sector_bits == 0 || !tags_with_data, "tags with the data are of whole pages");
        let of_lines = cache.sector() == u64::from(line_bytes);
        assert!(of_lines || cache.fill == FillPolicy::Misses, "lines that fill are whole sectors");
        let depth = spec.queue_depth as usize;
        let fills = spec.fills as usize;
        Controller {
            tags: AnyTagStore::new(cache.replacement, sets, ways, prefilled, 0),
            tags_with_data,
            line_bytes,
            page_bytes: page_bytes as u32,
            page_shift: page_bytes.trailing_zeros(),
            sector_shift,
            sector_bits,
            sectors: (sector_bits > 0).then(|| Sectors::new(sets * ways as u64)),
            latency_ps: spec.controller_latency.picoseconds() + tag_ps,
            queue_depth: depth,
            fill_policy: cache.fill,
            fill_report: FillReport::default(),
            critical_line_first: spec.critical_line_first,
            flush_at_sync: spec.flush_at_sync,
            eager_write_back: spec.eager_write_back,
            tag_store_bytes: tag_store_bytes(spec, store_bytes),
            tag_cache: TagCache::new(spec, store_bytes, line_bytes).map(Box::new),
            held: Slab::new(),
            prefixes: vec![Timeline::new(); depth],
            pipeline: BoundedQueue::with_capacity(depth),
            misses: Slab::new(),
            missing: PageMap::with_capacity(depth + 2 * fills),
            stalled: BoundedQueue::with_capacity(depth),
            unblocked_ps: None,
            buffers: (0..spec.fills).rev().collect(),
            fills: spec.fills,
            released: Timeline::new(),
            write_backs: WriteBackBuffer::with_capacity(spec.write_back_buffer_pages as usize),
            prefetcher: Prefetcher::new(
                spec.prefetcher,
                u64::from(spec.prefetch_pages),
                spec.prefetch_streams as usize,
                store_bytes >> sector_shift,
                if Self::fills_kept(fills) < fills { fills } else { 0 },
            ),
            miss_predictor: MissPredictor::new(cache.miss_predictor, depth),
            probing_prefetches: 0,
            flush: None,
            flush_stages: Timeline::new(),
            warming: Warming::default(),
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
    pub(super) const fn fills_kept(fills: usize) -> usize {
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
            core: request.core,
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

    /// Whether a miss prefetches pages.
    pub fn prefetches(&self) -> bool {
        self.prefetcher.is_on()
    }

    /// Software will need these bytes: their pages are prefetched as those behind a miss are. False if
    /// so many are asked for already that these are forgotten.
    pub fn will_need(
        &mut self,
        now_ps: u64,
        address: u64,
        bytes: u64,
        actions: &mut Vec<Action>,
    ) -> bool {
        let first = address >> self.sector_shift;
        let end = address.saturating_add(bytes).div_ceil(self.sector_bytes());
        let kept = self.prefetcher.will_need(first, end.saturating_sub(first));
        self.go_on_prefetching(now_ps, actions);
        kept
    }

    /// When the controller wants to be advanced next, if it does not wait for completions only.
    #[inline]
    pub fn next_event_ps(&self) -> Option<u64> {
        earlier(self.pipeline.front().map(|(at_ps, _)| *at_ps), self.unblocked_ps)
    }

    /// Does what is due until `now_ps`, which never goes back between calls of any kind.
    #[inline]
    pub fn advance(&mut self, now_ps: u64, actions: &mut Vec<Action>) {
        while let Some(&(_, slot)) = self.pipeline.front().filter(|(at_ps, _)| *at_ps <= now_ps) {
            self.pipeline.pop();
            self.held[slot].from_ps = now_ps;
            if self.tags_with_data {
                self.probe(now_ps, slot, actions);
            } else if self.finds_tags(slot, actions) {
                self.look_up(now_ps, slot, actions);
            }
        }
        if self.unblocked_ps.is_some() {
            self.released = Timeline::new();
            self.go_on(now_ps, actions);
        }
    }

    /// An action is complete at `now_ps`. `stages` are those of the time since it was given out;
    /// should they not add up to it, the rest is charged to waiting in the controller.
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
            Purpose::Evict => self.evicted(now_ps, index, stages, actions),
            Purpose::WriteBack => self.written_back(now_ps, index, stages, actions),
            Purpose::TagRead => self.tags_read(now_ps, index, stages, actions),
            Purpose::TagWrite => self.tags_written(now_ps, index, actions),
            Purpose::Spare => return self.spare_ended(index),
        }
        self.go_on(now_ps, actions);
    }

    /// Numbers of tokens are below this.
    pub fn tokens(&self) -> usize {
        let requests = self.queue_depth;
        let misses = self.queue_depth + 2 * self.fills as usize;
        let write_backs = self.write_backs.capacity() << self.sector_bits;
        let highest = misses.max(requests).max(write_backs) as u32;
        Token::new(Purpose::Spare, highest).number() as usize + 1
    }

    /// Requests held, misses and write-backs under way.
    #[inline]
    pub fn in_flight(&self) -> usize {
        let spares = self.miss_predictor.as_ref().map_or(0, MissPredictor::spares);
        let tags = self.tag_cache.as_ref().map_or(0, |cache| cache.in_flight());
        self.held.len() + self.misses.len() + self.write_backs.len() + spares + tags
    }

    /// Tells how much its queues hold.
    pub fn depths(&self, tell: &mut Tell<'_>) {
        tell("controller.lines", self.held.len());
        tell("controller.fills", self.misses.len());
        tell("controller.write_backs", self.write_backs.len());
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Bytes that come at once: a sector, or a page without sectors.
    pub fn sector_bytes(&self) -> u64 {
        1 << self.sector_shift
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
        OrganizationReport {
            tag_store_bytes: self.tag_store_bytes,
            tag_cache: self.tag_cache.as_ref().map(|cache| cache.report),
            miss_predictor: self.miss_predictor.as_ref().map(|it| it.report),
            fill: (self.fill_policy != FillPolicy::Misses).then_some(self.fill_report),
            ..self.report.clone()
        }
    }

    /// A second controller that stands where this one stands.
    pub fn fork(&mut self) -> Self {
        Controller {
            tags: self.tags.fork(),
            sectors: self.sectors.as_mut().map(Sectors::fork),
            held: self.held.clone(),
            prefixes: self.prefixes.clone(),
            pipeline: self.pipeline.clone(),
            misses: self.misses.clone(),
            missing: self.missing.clone(),
            stalled: self.stalled.clone(),
            buffers: self.buffers.clone(),
            write_backs: self.write_backs.clone(),
            prefetcher: self.prefetcher.clone(),
            miss_predictor: self.miss_predictor.clone(),
            tag_cache: self.tag_cache.clone(),
            warming: self.warming.clone(),
            report: self.report.clone(),
            ..*self
        }
    }

    #[inline]
    pub(super) fn look_up(&mut self, now_ps: u64, slot: u32, actions: &mut Vec<Action>) {
        let Held { address, write, .. } = self.held[slot];
        let page = address >> self.page_shift;
        let sector = address >> self.sector_shift;
        self.report.lookups += 1;
        let found = self.tags.access(page, write && self.sectors.is_none());
        let mut used = false;
        if let Some(Hit { way, flags }) = found {
            used = self.mark_used(way, flags, sector);
            self.hit_changes_tags(page, write, flags);
            if self.is_there(way, flags, sector) {
                if write && self.sectors.is_some() {
                    self.set_dirty(way, sector);
                }
                self.access_dram(slot, way, actions);
                return self.looked_up(now_ps, used, actions);
            }
        }
        self.report.misses += 1;
        self.miss(now_ps, sector, slot, actions);
        self.looked_up(now_ps, used, actions);
    }

    /// A request has been looked up; whether it has used a prefetch. Which page goes next may be another since then,
    /// and one that is clean needs no place in the write-back buffer: a miss that has waited for one may begin. No
    /// write-back has ended for it, so that its wait is the controller's own.
    #[inline]
    fn looked_up(&mut self, now_ps: u64, used: bool, actions: &mut Vec<Action>) {
        let begins = self.first_can_begin();
        if begins {
            self.released = Timeline::new();
        }
        if begins || used && self.prefetcher.follows_uses() {
            self.go_on(now_ps, actions);
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

    /// Notes the stages of a request up to now: those it had, and the end of `stages`.
    pub(super) fn set_prefix(&mut self, now_ps: u64, slot: u32, stages: &Timeline) {
        let mut prefix = self.stages_of(slot);
        append_tail(&mut prefix, stages, now_ps - self.held[slot].from_ps);
        self.prefixes[slot as usize] = prefix;
        let held = &mut self.held[slot];
        held.prefixed = true;
        held.from_ps = now_ps;
    }

    /// Answers a request, which has waited at the end of `stages` since its own stages ended.
    #[inline]
    pub(super) fn respond(
        &mut self,
        now_ps: u64,
        slot: u32,
        stages: &Timeline,
        actions: &mut Vec<Action>,
    ) {
        let response = self.answer(now_ps, slot, stages);
        actions.push(Action::Respond { request: slot, response });
    }

    /// As [`Controller::complete`], of what is a request's line and nothing more: the place of the request
    /// and its answer, which is all that there is to do.
    #[inline]
    pub(super) fn complete_line(
        &mut self,
        now_ps: u64,
        token: Token,
        stages: &Timeline,
    ) -> Option<(u32, LineResponse)> {
        let (purpose, slot) = token.parts();
        (purpose == Purpose::Line).then(|| (slot, self.answer(now_ps, slot, stages)))
    }

    #[inline]
    fn answer(&mut self, now_ps: u64, slot: u32, stages: &Timeline) -> LineResponse {
        let mut all = self.stages_of(slot);
        let held = self.held.remove(slot);
        append_tail(&mut all, stages, now_ps - held.from_ps);
        debug_assert_eq!(all.total_ps(), now_ps - held.submitted_ps, "{all:?}");
        LineResponse { id: held.id, at_ps: now_ps, stages: all, version: 0 }
    }

    #[inline]
    pub(super) fn line_offset(&self, address: u64) -> u32 {
        address as u32 & (self.page_bytes - 1) & !(self.line_bytes - 1)
    }

    /// Where in DRAM the line at this address lies, if it does.
    pub(super) fn in_dram(&self, address: u64) -> Option<u64> {
        let way = self.tags.lookup(address >> self.page_shift)?;
        let there = self.is_there(way, self.tags.flags(way), address >> self.sector_shift);
        there.then(|| self.dram_line(way, address))
    }

    /// Pages on their way from the store or to it.
    pub(super) fn pages_under_way(&self) -> u64 {
        (self.misses.len() + self.write_backs.len()) as u64
    }

    #[inline]
    fn dram_line(&self, way: WayRef, address: u64) -> u64 {
        self.frame_address(way) + u64::from(self.line_offset(address))
    }

    /// First byte of a way's frame in DRAM. Frames of a way lie beside each other, set after set, so
    /// that neighbouring pages lie in different banks (HybridSim, `HybridSystem::ProcessTransaction`).
    pub(super) fn frame_address(&self, way: WayRef) -> u64 {
        (u64::from(way.way()) * self.tags.sets() + u64::from(way.set())) << self.page_shift
    }

    /// First byte of the only frame where a page can be in a direct-mapped cache.
    pub(super) fn direct_mapped(&self, page: u64) -> u64 {
        u64::from(self.tags.set_of(page)) << self.page_shift
    }
}

/// Adds the last `wait_ps` of `stages` to `into`; should they be shorter, the rest is waiting in
/// the controller.
#[inline]
pub(in crate::organization) fn append_tail(into: &mut Timeline, stages: &Timeline, wait_ps: u64) {
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

/// Size of a tag store in SRAM: entries × (b − c + a + s) bits (\[HYB15\] §2.3); of tags that lie in DRAM
/// the part that is kept on chip, and nothing of those that lie with the data.
fn tag_store_bytes(spec: &HybridSpec, store_bytes: u64) -> u64 {
    let cache = &spec.cache;
    match cache.tags {
        TagPlace::WithData | TagPlace::Tad => 0,
        TagPlace::Dram => cache.tag_cache.as_ref().map_or(0, |kept| kept.capacity.bytes()),
        TagPlace::Sram => {
            let set_bytes = u128::from(cache.page.bytes()) * u128::from(cache.ways.max(1));
            let sets = u128::from(cache.capacity.bytes()) / set_bytes;
            let bits = sets * u128::from(set_bits(spec, store_bytes));
            u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX)
        }
    }
}

/// Bits of a set's tags: of each page b − c + a + s, where b, c and a are the bits of the store's address
/// space, of the cache's and of its associativity, and s those of valid and dirty, of each sector; and the
/// replacement order, whatever the policy keeps of it. Where a size is no power of two, b counts the bits of
/// the greatest address and c those that every address has.
pub(super) fn set_bits(spec: &HybridSpec, store_bytes: u64) -> u64 {
    let cache = &spec.cache;
    let store_bits = u64::BITS - store_bytes.saturating_sub(1).leading_zeros();
    let cache_bits = cache.capacity.bytes().max(1).ilog2();
    let way_bits = u32::BITS - (cache.ways.max(1) - 1).leading_zeros();
    let sectors = (cache.page.bytes() / cache.sector()) as u32;
    let bits = (store_bits + way_bits).saturating_sub(cache_bits) + sectors + sectors;
    let order_bits = cache.replacement.hardware_bits(cache.ways.max(1));
    u64::from(bits) * u64::from(cache.ways.max(1)) + u64::from(order_bits)
}
