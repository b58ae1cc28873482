//! A disk: platters, an arm, a buffer, and the choice of what is done next.
//!
//! [`Disk`] is the drive without its link, page by page; as [`DiskDevice`] it is behind a link and takes
//! requests of any size. What is modelled is said in `docs/models/disk.md`.

mod arm;
mod geometry;
mod pending;
mod power;
mod report;
mod segments;
mod spec;

pub use report::DiskCounts;
pub use spec::{ArmSpec, DiskBufferSpec, DiskPowerSpec, DiskSpec, PlattersSpec};

use super::linked::{DonePage, Linked, PageAccess, PageControl, Pages};
use crate::activity::{Activity, Energy};
use crate::device::arrivals::Arrivals;
use crate::link::LinkDescription;
use crate::power::{Content, Outage, UnderWay, Weakness, Weaknesses};
use crate::request::Tell;
use arm::{Heads, Instant, Mechanism, Way};
use pending::{Pending, Run, Writes};
use power::Contents;
use segments::Segments;
use std::collections::{BTreeSet, VecDeque};
use tierscope_kernel::{Slab, Stage, Timeline};

/// A disk behind its link.
pub type DiskDevice = Linked<Disk>;

impl DiskDevice {
    /// A disk with nothing to do, behind an empty link. The descriptions have been checked.
    pub fn new(spec: &DiskSpec, link: &dyn LinkDescription) -> Self {
        let disk = Disk::new(spec);
        Linked::behind(link, disk, spec.page.bytes(), u32::MAX).with_commands(spec.queue_depth)
    }
}

/// What the host asked for.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Page(PageAccess),
    Control { token: u32, control: PageControl },
}

/// What the disk holds for the host.
#[derive(Clone, Debug)]
struct Held {
    asked: Asked,
    /// Time up to which `stages` reaches.
    clock_ps: u64,
    stages: Timeline,
}

impl Held {
    fn pass(&mut self, stage: Stage, until_ps: u64) {
        self.stages.push(stage, until_ps - self.clock_ps);
        self.clock_ps = until_ps;
    }
}

/// What the mechanism does: one page, from positioning to its end.
#[derive(Clone, Debug)]
struct Work {
    page: u64,
    way: Way,
    started_ps: u64,
    kind: Kind,
    /// Those of the host who wait for it.
    waiters: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A page goes into this segment of the buffer: `wanted` by the host, or read ahead; `stale` where it
    /// was written meanwhile.
    Read { segment: usize, wanted: bool, stale: bool },
    /// A page is written, and brings this.
    Write { content: Content },
}

/// The state of a disk without its link. What it holds is bounded by whoever submits.
#[derive(Clone, Debug)]
pub struct Disk {
    pages: u64,
    page_sectors: u64,
    controller_ps: u64,
    read_ahead: u64,
    write_cache: bool,
    /// Pages that may wait to be written.
    most_dirty: usize,
    mechanism: Mechanism,
    heads: Heads,
    /// When the mechanism ended its last work.
    ended: Instant,
    work: Option<Work>,
    /// The run whose pages are under way, without the page of `work`.
    run: Option<Run>,
    /// The segment that the last read went to.
    reading: Option<usize>,
    pending: Pending,
    segments: Segments,
    /// Pages in the buffer that are not on the platters, but for the one on its way there.
    dirty: BTreeSet<u64>,
    /// Writes that wait for room in the buffer.
    waiting: VecDeque<u32>,
    /// Flushes, each with the number of the run up to which all has to be written.
    flushes: VecDeque<(u64, u32)>,
    /// Forced writes in the buffer: pages, each with who waits until the platters have it.
    forced: Vec<(u64, u32)>,
    held: Slab<Held>,
    arriving: Arrivals,
    counts: DiskCounts,
    /// What it takes, where that is known.
    power: Option<DiskPowerSpec>,
    /// Where power may fail.
    contents: Option<Box<Contents>>,
    /// Flushes and forced writes are answered from the buffer.
    early: bool,
}

impl Disk {
    /// A disk with nothing to do, its heads on the outermost cylinder. The description has been checked.
    pub fn new(spec: &DiskSpec) -> Self {
        let page_bytes = spec.page.bytes();
        let buffer = &spec.buffer;
        let segment_bytes = buffer.capacity.bytes() / u64::from(buffer.segments);
        Disk {
            pages: spec.capacity.bytes() / page_bytes,
            page_sectors: page_bytes / spec.platters.sector.bytes(),
            controller_ps: spec.controller_latency.picoseconds(),
            read_ahead: buffer.read_ahead.bytes() / page_bytes,
            write_cache: buffer.write_cache,
            most_dirty: (buffer.dirty.bytes() / page_bytes) as usize,
            mechanism: Mechanism::new(&spec.platters, &spec.arm),
            heads: Heads::default(),
            ended: Instant::default(),
            work: None,
            run: None,
            reading: None,
            pending: Pending::new(spec.window, spec.age_limit.picoseconds()),
            segments: Segments::new(buffer.segments, segment_bytes / page_bytes),
            dirty: BTreeSet::new(),
            waiting: VecDeque::new(),
            flushes: VecDeque::new(),
            forced: Vec::new(),
            held: Slab::new(),
            arriving: Arrivals::default(),
            counts: DiskCounts::default(),
            power: spec.power.clone(),
            contents: None,
            early: false,
        }
    }

    // ---- Host -----------------------------------------------------------------------------------

    fn hold(&mut self, now_ps: u64, asked: Asked) {
        let ready_ps = now_ps + self.controller_ps;
        let mut held = Held { asked, clock_ps: now_ps, stages: Timeline::new() };
        held.pass(Stage::Device, ready_ps);
        let index = self.held.insert(held);
        self.arriving.push(ready_ps, index);
    }

    /// The controller hands on what the host asked for.
    fn arrive(&mut self, now_ps: u64, index: u32, out: &mut Vec<DonePage>) {
        match self.held[index].asked {
            Asked::Page(PageAccess { page, write: false, .. }) => {
                self.read(now_ps, index, page, out);
            }
            Asked::Page(PageAccess { page, .. }) => self.write(now_ps, index, page, out),
            Asked::Control { control: PageControl::Flush, .. } => {
                self.counts.flushes += 1;
                if self.early {
                    return self.answer(now_ps, index, Stage::StoreQueue, out);
                }
                self.flushes.push_back((self.pending.seal(), index));
                self.end_flushes(now_ps, out);
            }
            // A disk has nothing to win by it.
            Asked::Control { control: PageControl::Trim { .. }, .. } => {
                self.answer(now_ps, index, Stage::StoreQueue, out);
            }
        }
    }

    fn read(&mut self, now_ps: u64, index: u32, page: u64, out: &mut Vec<DonePage>) {
        self.counts.read_pages += 1;
        let working = self.work.as_mut().filter(|work| work.page == page);
        let is_written =
            working.as_ref().is_some_and(|work| matches!(work.kind, Kind::Write { .. }));
        if self.dirty.contains(&page) || is_written || self.segments.read(page) {
            self.counts.buffer_hits += 1;
            return self.answer(now_ps, index, Stage::StoreQueue, out);
        }
        if let Some(Work { kind: Kind::Read { wanted, stale: false, .. }, waiters, .. }) = working {
            *wanted = true;
            waiters.push(index);
            return;
        }
        self.pending.add_read(now_ps, page, index);
    }

    fn write(&mut self, now_ps: u64, index: u32, page: u64, out: &mut Vec<DonePage>) {
        self.counts.written_pages += 1;
        self.segments.forget(page);
        if let Some(Work { page: under_way, kind: Kind::Read { stale, .. }, .. }) = &mut self.work
            && *under_way == page
        {
            *stale = true;
        }
        if !self.write_cache {
            self.pending.add_write(now_ps, page, Some(index));
        } else if !self.waiting.is_empty() || !self.take_room(now_ps, index, page, out) {
            self.waiting.push_back(index);
        }
    }

    /// Whether a write has its place in the buffer from now on.
    fn take_room(&mut self, now_ps: u64, index: u32, page: u64, out: &mut Vec<DonePage>) -> bool {
        if !self.dirty.contains(&page) {
            if self.dirty.len() + usize::from(self.is_writing()) >= self.most_dirty {
                return false;
            }
            self.dirty.insert(page);
            self.segments.forget(page);
            self.pending.add_write(now_ps, page, None);
        }
        self.note_buffered(index);
        match self.held[index].asked {
            Asked::Page(PageAccess { force_unit_access: true, .. }) if !self.early => {
                self.forced.push((page, index));
            }
            _ => self.answer(now_ps, index, Stage::StoreQueue, out),
        }
        true
    }

    /// What the host asked for is done; the time since it was last heard of is charged to `stage`.
    fn answer(&mut self, at_ps: u64, index: u32, stage: Stage, out: &mut Vec<DonePage>) {
        let mut held = self.held.remove(index);
        held.pass(stage, at_ps);
        let (Asked::Page(PageAccess { token, .. }) | Asked::Control { token, .. }) = held.asked;
        out.push(DonePage { token, at_ps, stages: held.stages });
    }

    /// Whether a page is on its way to the platters.
    fn is_writing(&self) -> bool {
        self.work.as_ref().is_some_and(|work| matches!(work.kind, Kind::Write { .. }))
    }

    /// Flushes end before which nothing is left to be written.
    fn end_flushes(&mut self, at_ps: u64, out: &mut Vec<DonePage>) {
        while let Some(&(number, index)) = self.flushes.front() {
            let oldest = self.run.as_ref().filter(|run| run.write).map(|run| run.number);
            let under_way = self.is_writing() || oldest.is_some_and(|oldest| oldest <= number);
            if under_way || self.pending.oldest_write().is_some_and(|oldest| oldest <= number) {
                return;
            }
            self.flushes.pop_front();
            self.answer(at_ps, index, Stage::StoreQueue, out);
        }
    }

    // ---- Mechanism ------------------------------------------------------------------------------

    /// From when on the mechanism would work: exactly from its last end, if that is now.
    fn from(&self, now_ps: u64) -> Instant {
        if self.ended.ps == now_ps { self.ended } else { self.mechanism.instant(now_ps) }
    }

    /// The mechanism has nothing to do: it goes on with its run, takes another, or reads ahead.
    fn start(&mut self, now_ps: u64, out: &mut Vec<DonePage>) {
        while self.work.is_none() {
            let run = match self.run.take() {
                Some(run) => Some(run),
                None => self.choose(now_ps).inspect(|run| {
                    let held = &mut self.held;
                    run.waiting().for_each(|index| held[index].pass(Stage::StoreQueue, now_ps));
                }),
            };
            let Some(mut run) = run else { return self.start_ahead(now_ps) };
            let Some((page, waiter)) = run.take() else { continue };
            if run.write {
                self.dirty.remove(&page);
                let content = self.brought(page, waiter);
                self.begin(now_ps, page, Kind::Write { content }, waiter);
            } else if self.segments.holds(page) || self.dirty.contains(&page) {
                // It was read for another, or written meanwhile.
                self.counts.buffer_hits += 1;
                self.answer_from_buffer(now_ps, waiter, out);
            } else {
                let segment = match self.reading {
                    Some(segment) if self.segments.next(segment).0 == page => segment,
                    _ => self.segments.begin(page),
                };
                self.reading = Some(segment);
                let kind = Kind::Read { segment, wanted: true, stale: false };
                self.begin(now_ps, page, kind, waiter);
            }
            self.run = Some(run).filter(|run| !run.is_empty());
        }
    }

    fn answer_from_buffer(&mut self, now_ps: u64, waiter: Option<u32>, out: &mut Vec<DonePage>) {
        if let Some(index) = waiter {
            self.answer(now_ps, index, Stage::StoreQueue, out);
        }
    }

    /// The run that is next.
    fn choose(&mut self, now_ps: u64) -> Option<Run> {
        let start = self.from(now_ps);
        let writes = match self.flushes.front() {
            _ if !self.write_cache || !self.waiting.is_empty() || !self.forced.is_empty() => {
                Writes::Press
            }
            Some(&(number, _)) => Writes::Flush(number),
            None => Writes::Idle,
        };
        let Disk { pending, mechanism, heads, page_sectors, counts, .. } = self;
        let reach_ps =
            |run: &Run| mechanism.reach_ps(start, *heads, run.first() * *page_sectors, run.write);
        let (run, aged) = pending.choose(now_ps, writes, reach_ps)?;
        counts.aged += u64::from(aged);
        Some(run)
    }

    /// Reads on behind what was read last, as far as the buffer is to be filled.
    fn start_ahead(&mut self, now_ps: u64) {
        let Some(segment) = self.reading else { return };
        let (page, ahead) = self.segments.next(segment);
        let is_known = self.segments.holds(page) || self.dirty.contains(&page);
        if ahead < self.read_ahead && page < self.pages && !is_known {
            let kind = Kind::Read { segment, wanted: false, stale: false };
            self.begin(now_ps, page, kind, None);
        }
    }

    fn begin(&mut self, now_ps: u64, page: u64, kind: Kind, waiter: Option<u32>) {
        let (start, sector) = (self.from(now_ps), page * self.page_sectors);
        let write = matches!(kind, Kind::Write { .. });
        let way = self.mechanism.way(start, self.heads, sector, self.page_sectors, write);
        // Since the mechanism turned to its run.
        if let Some(index) = waiter {
            self.held[index].pass(Stage::Medium, now_ps);
        }
        self.counts.seeks += u64::from(way.seeks);
        self.counts.positioning_ps += way.positioned_ps - now_ps;
        self.counts.rotation_ps += way.reached_ps - way.positioned_ps;
        self.counts.transfer_ps += way.end.ps - way.reached_ps;
        let mut waiters: Vec<u32> = waiter.into_iter().collect();
        if write {
            let mut passed = Vec::new();
            self.forced.retain(|&(forced, index)| {
                let goes = forced == page;
                passed.extend(goes.then_some(index));
                !goes
            });
            passed.iter().for_each(|index| self.held[*index].pass(Stage::StoreQueue, now_ps));
            waiters.extend(passed);
        }
        self.work = Some(Work { page, way, started_ps: now_ps, kind, waiters });
    }

    /// The mechanism has read or written its page.
    fn end(&mut self, out: &mut Vec<DonePage>) {
        let Some(work) = self.work.take() else { return };
        let at_ps = work.way.end.ps;
        debug_assert!(work.started_ps <= at_ps);
        (self.heads, self.ended) = (work.way.heads, work.way.end);
        match work.kind {
            Kind::Read { segment, wanted, stale } => {
                self.counts.platter_reads += 1;
                self.counts.read_ahead += u64::from(work.waiters.is_empty());
                if !stale {
                    self.segments.add(segment, work.page, wanted);
                }
            }
            Kind::Write { content } => {
                self.counts.platter_writes += 1;
                self.note_written(work.page, content);
                // What was read while it waited is old.
                self.segments.forget(work.page);
            }
        }
        for index in work.waiters {
            self.answer(at_ps, index, Stage::Medium, out);
        }
        if matches!(work.kind, Kind::Write { .. }) {
            self.end_flushes(at_ps, out);
            self.admit(at_ps, out);
        }
    }

    /// Picoseconds up to `now_ps` in which the mechanism was positioned, and in which sectors were waited for or passed: of
    /// what is under way, what has been done by then.
    fn worked_ps(&self, now_ps: u64) -> [u64; 2] {
        let DiskCounts { positioning_ps, rotation_ps, transfer_ps, .. } = self.counts;
        let left = self.work.as_ref().map_or([0; 2], |work| {
            let (positioned_ps, end_ps) = (work.way.positioned_ps, work.way.end.ps);
            let seek_ps = positioned_ps.saturating_sub(now_ps.max(work.started_ps));
            [seek_ps, end_ps.saturating_sub(now_ps.max(positioned_ps))]
        });
        [positioning_ps - left[0], rotation_ps + transfer_ps - left[1]]
    }

    /// Writes that wait take what room there is.
    fn admit(&mut self, now_ps: u64, out: &mut Vec<DonePage>) {
        while let Some(&index) = self.waiting.front() {
            let Asked::Page(PageAccess { page, .. }) = self.held[index].asked else { return };
            if !self.take_room(now_ps, index, page, out) {
                return;
            }
            self.waiting.pop_front();
        }
    }
}

impl Pages for Disk {
    type Done = DonePage;

    fn depths(&self, tell: &mut Tell<'_>) {
        tell("disk.runs", self.pending.len());
        tell("disk.dirty_pages", self.dirty.len());
    }

    fn keeps_answered(&self) -> bool {
        !self.write_cache
    }

    fn follow_contents(&mut self, weaknesses: Weaknesses) -> bool {
        self.follow(weaknesses);
        true
    }

    fn can_lack(&self, weakness: Weakness) -> bool {
        weakness == Weakness::EarlyCompletion && self.write_cache
    }

    fn cut_power(&mut self, _now_ps: u64) -> Outage {
        self.fail()
    }

    fn fork(&mut self) -> Self {
        self.fork_contents()
    }

    fn content(&self, page: u64) -> Content {
        self.kept_content(page)
    }

    fn under_way(&self) -> UnderWay {
        self.exposed()
    }

    #[inline]
    fn pages(&self) -> u64 {
        self.pages
    }

    fn submit(&mut self, now_ps: u64, access: PageAccess) {
        let (page, pages) = (access.page, self.pages);
        assert!(page < pages, "page {page} of a disk of {pages}");
        self.hold(now_ps, Asked::Page(access));
    }

    fn takes_control(&self) -> bool {
        true
    }

    fn submit_control(&mut self, now_ps: u64, token: u32, control: PageControl) {
        self.hold(now_ps, Asked::Control { token, control });
    }

    #[inline]
    fn next_event_ps(&self) -> Option<u64> {
        self.arriving.next_ps(self.work.as_ref().map(|work| work.way.end.ps))
    }

    /// What comes at the same time comes before the mechanism chooses.
    fn advance(&mut self, now_ps: u64, out: &mut Vec<DonePage>) {
        while let Some(at_ps) = self.next_event_ps()
            && at_ps <= now_ps
        {
            while let Some(index) = self.arriving.take(at_ps) {
                self.arrive(at_ps, index, out);
            }
            if self.work.as_ref().is_some_and(|work| work.way.end.ps == at_ps) {
                self.end(out);
            }
            self.start(at_ps, out);
        }
    }

    fn activity(&self, now_ps: u64) -> Activity {
        let energy = match &self.power {
            Some(power) => {
                Energy::of_parts("disk", &power.energies_j(self.worked_ps(now_ps), now_ps))
            }
            None => Energy::default().without("disk", "no source gives what its motors take"),
        };
        Activity { disk: Some(self.counts), energy, ..Activity::default() }
    }
}

#[cfg(test)]
pub(crate) mod tests;
