//! Several equal drives side by side, over which data are dealt in stripes (RAID-0).
//!
//! The host deals them (software), or an adapter does, whose own link to the host all drives share
//! (hardware). Each drive has a link of its own. D. Patterson, G. Gibson, R. Katz, "A Case for Redundant
//! Arrays of Inexpensive Disks (RAID)", SIGMOD 1988; Linux `drivers/md/raid0.c`.

mod cache;

pub use cache::RaidCacheSpec;

use super::AnyDevice;
use crate::activity::Activity;
use crate::link::{Lane, check_bandwidth};
use crate::power::{Content, LOST, Outage, UnderWay, Weakness, Weaknesses};
use crate::request::{Completion, Control, Device, Full, Manner, Request, Tell};
use cache::Cache;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;
use tierscope_kernel::{CowMap, EventQueue, Slab, Stage, Timeline};
use tierscope_units::{Bandwidth, Duration, Problems, Size};

/// Several of the drive side by side: data are dealt to them in stripes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RaidSpec {
    /// Drives.
    pub drives: u32,
    /// What lies on one drive before the next one has its turn: a power of two.
    pub stripe: Size,
    /// Requests that are under way at most.
    pub queue_depth: u32,
    /// Time to divide a request: the host's, or that of an adapter.
    pub latency: Duration,
    /// Bandwidth of what an adapter has for the data of all drives; without it, there is no adapter, and the
    /// host divides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// The cache of an adapter; without it, all goes to the drives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<RaidCacheSpec>,
}

impl RaidSpec {
    /// Collects every semantic mistake below `path`, of drives of such pages and such a capacity.
    pub(super) fn check(&self, path: &str, page: Size, capacity: Size, problems: &mut Problems) {
        problems.at_least(path, "drives", self.drives, 1);
        problems.at_most(path, "drives", self.drives, 256);
        problems.at_least(path, "queue_depth", self.queue_depth, 1);
        if let Some(bandwidth) = self.bandwidth {
            check_bandwidth(&format!("{path}.bandwidth"), bandwidth, problems);
        }
        if let Some(cache) = &self.cache {
            cache.check(&format!("{path}.cache"), page, problems);
            if self.bandwidth.is_none() {
                problems.add(
                    "contradiction",
                    format!("{path}.cache"),
                    "a table".into(),
                    format!("there is no adapter that could have one (no {path}.bandwidth)"),
                    format!("leave it out, or give {path}.bandwidth"),
                );
            }
        }
        let stripe = self.stripe;
        if !stripe.bytes().is_power_of_two() || stripe < page || stripe > capacity {
            problems.add(
                "contradiction",
                format!("{path}.stripe"),
                stripe.to_string(),
                format!("it is a power of two from a page of {page} to a drive of {capacity}"),
                "write 64KiB".into(),
            );
        }
    }

    /// What they offer together: whole stripes of all drives.
    pub(super) fn capacity(&self, drive: Size) -> Size {
        let stripe = self.stripe.bytes().max(1);
        let each = drive.bytes() / stripe * stripe;
        Size::from_bytes(each.saturating_mul(u64::from(self.drives)))
    }
}

/// A request that is under way.
#[derive(Clone, Copy, Debug)]
struct Held {
    request: Request,
    control: Option<Control>,
    /// Force unit access.
    forced: bool,
    /// What a write carries.
    content: Content,
    /// Time up to which `stages` reaches.
    clock_ps: u64,
    stages: Timeline,
    pieces: u32,
}

impl Held {
    /// As if the cache asked: it writes, and nobody waits.
    fn of_cache(now_ps: u64) -> Self {
        Held {
            request: Request { id: 0, address: 0, bytes: 0, write: true, background: true },
            control: None,
            forced: false,
            content: 0,
            clock_ps: now_ps,
            stages: Timeline::new(),
            pieces: 1,
        }
    }
}

/// What of a request concerns a drive, or a run that the cache writes to it.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// The request; [`CACHE`] for the cache.
    held: u32,
    address: u64,
    bytes: u64,
    /// What it carries, as its drive is told.
    content: Content,
    submitted_ps: u64,
}

/// In the place of a request: the cache writes.
const CACHE: u32 = u32::MAX;
/// No time.
const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A request has been divided.
    Divided(u32),
    /// Its data have come to the adapter.
    Come(u32),
    /// It is done.
    Done(u32),
}

counters! {
    /// What the cache of an adapter did.
    pub struct AdapterCounts {
        /// Reads that were answered from it.
        pub read_hits,
        /// Reads that went to the drives.
        pub read_misses,
        /// Writes that were done once it had them.
        pub cached_writes,
        /// Of these, those that waited for room.
        pub waiting_writes,
        /// Writes that were done once the drives had them.
        pub passed_writes,
        /// Runs of pages that it wrote to a drive.
        pub write_backs,
        /// Pages of these.
        pub written_back_pages,
    }
}

/// What drives are told that they hold, where power may fail: pages that lie behind each other on a drive need not
/// do so in a request, so that each has a number of its own for that.
#[derive(Clone, Debug)]
struct Followed {
    /// By number: what the host calls it.
    contents: CowMap<Content>,
    last: Content,
    /// By page, of all drives: what waits in the adapter's cache to be written; 0 where nothing does.
    cached: CowMap<Content>,
    /// The battery of the cache is empty, though the adapter relies on it.
    no_battery: bool,
}

impl Followed {
    /// Numbers for what these pages hold, one after another: the first.
    fn number(&mut self, contents: impl Iterator<Item = Content>) -> Content {
        let given = self.last + 1;
        for content in contents {
            self.last += 1;
            self.contents.set(self.last, content);
        }
        given
    }
}

/// The state of several drives side by side.
#[derive(Clone, Debug)]
pub struct Raid {
    drives: Vec<AnyDevice>,
    /// When each does something next; [`NEVER`] if it has nothing to do.
    next_ps: Vec<u64>,
    /// What waits for room in each drive.
    waiting: Vec<VecDeque<u32>>,
    stripe: u64,
    queue_depth: usize,
    latency_ps: u64,
    lane: Option<Lane>,
    cache: Option<Cache>,
    write_back: bool,
    /// Runs that each drive writes for the cache, and how many at most.
    write_backs: Vec<u32>,
    most_write_backs: u32,
    counts: AdapterCounts,
    /// Writes that wait for room in the cache.
    crowded: VecDeque<u32>,
    held: Slab<Held>,
    pieces: Slab<Piece>,
    events: EventQueue<Event>,
    /// What each drive reads or writes as one.
    page_bytes: u64,
    followed: Option<Box<Followed>>,
    /// Room for what drives report, kept to spare the allocation.
    done: Vec<Completion>,
}

impl Raid {
    /// Drives of such pages with nothing to do, as many as `spec` says of those that `drive` builds. The
    /// description has been checked.
    pub fn new(spec: &RaidSpec, page: Size, drive: impl Fn() -> AnyDevice) -> Self {
        let pages = |cache: &RaidCacheSpec| cache.capacity.bytes() / page.bytes();
        let cache = spec.cache.as_ref();
        Raid {
            cache: cache.map(|it| Cache::new(pages(it), spec.drives as usize)),
            write_back: cache.is_some_and(|cache| cache.write_back),
            write_backs: vec![0; spec.drives as usize],
            most_write_backs: cache.map_or(0, |cache| cache.write_backs),
            counts: AdapterCounts::default(),
            crowded: VecDeque::new(),
            drives: (0..spec.drives).map(|_| drive()).collect(),
            next_ps: vec![NEVER; spec.drives as usize],
            waiting: vec![VecDeque::new(); spec.drives as usize],
            stripe: spec.stripe.bytes(),
            queue_depth: spec.queue_depth as usize,
            latency_ps: spec.latency.picoseconds(),
            lane: spec.bandwidth.map(|bandwidth| Lane::new(bandwidth.bytes_per_second())),
            held: Slab::new(),
            pieces: Slab::new(),
            events: EventQueue::new(),
            page_bytes: page.bytes(),
            followed: None,
            done: Vec::new(),
        }
    }

    /// Bytes of a drive that lie before an address of all.
    fn before(&self, drive: usize, address: u64) -> u64 {
        let row_bytes = self.stripe * self.drives.len() as u64;
        let (row, rest) = (address / row_bytes, address % row_bytes);
        let own = rest.saturating_sub(drive as u64 * self.stripe).min(self.stripe);
        row * self.stripe + own
    }

    /// The address, of all, of a byte of a drive.
    fn address(&self, drive: usize, byte: u64) -> u64 {
        let (row, rest) = (byte / self.stripe, byte % self.stripe);
        (row * self.drives.len() as u64 + drive as u64) * self.stripe + rest
    }

    /// The drive that has a byte.
    fn drive_of(&self, address: u64) -> usize {
        (address / self.stripe % self.drives.len() as u64) as usize
    }

    /// What the pages of a piece of a write carry, as its drive is told.
    fn content_of(&mut self, held: u32, drive: usize, address: u64, bytes: u64) -> Content {
        let Held { request, content, .. } = self.held[held];
        if content == 0 || self.followed.is_none() {
            return 0;
        }
        let (first, page) = (request.address / self.page_bytes, self.page_bytes);
        let pages = address / page..(address + bytes).div_ceil(page);
        let contents = pages.map(|at| content + self.address(drive, at * page) / page - first);
        let contents: Vec<Content> = contents.collect();
        self.followed.as_mut().map_or(0, |followed| followed.number(contents.into_iter()))
    }

    /// The number, of all drives, of a page of one.
    fn page_number(&self, (drive, page): (usize, u64)) -> u64 {
        self.address(drive, page * self.page_bytes) / self.page_bytes
    }

    /// What waits in the cache of these pages is followed no more.
    fn forget_cached(&mut self, pages: &[(usize, u64)]) {
        let Some(mut followed) = self.followed.take() else { return };
        for &page in pages {
            if !self.cache.as_ref().is_some_and(|cache| cache.waits(page)) {
                followed.cached.set(self.page_number(page), 0);
            }
        }
        self.followed = Some(followed);
    }

    fn hold(
        &mut self,
        now_ps: u64,
        request: Request,
        control: Option<Control>,
        (forced, content): (bool, Content),
    ) -> Result<(), Full> {
        if self.held.len() >= self.queue_depth {
            return Err(Full);
        }
        let mut stages = Timeline::new();
        let who = if self.lane.is_some() { Stage::Controller } else { Stage::BlockLayer };
        stages.push(who, self.latency_ps);
        let clock_ps = now_ps + self.latency_ps;
        let index = self.held.insert(Held {
            request,
            control,
            forced,
            content,
            clock_ps,
            stages,
            pieces: 0,
        });
        self.events.push(clock_ps, 0, Event::Divided(index));
        Ok(())
    }

    /// The data of a request cross the adapter's link, where there is one: when they have.
    fn cross(&mut self, now_ps: u64, index: u32) -> u64 {
        let held = &mut self.held[index];
        let bytes = u64::from(held.request.bytes);
        let Some(lane) = self.lane.as_mut().filter(|_| held.control.is_none()) else {
            return now_ps;
        };
        let (_, end_ps) = lane.transfer(now_ps, bytes);
        held.stages.push(Stage::Link, end_ps - held.clock_ps);
        held.clock_ps = end_ps;
        end_ps
    }

    fn happen(&mut self, now_ps: u64, event: Event, out: &mut Vec<Completion>) {
        match event {
            Event::Divided(index) if self.held[index].request.write => {
                let end_ps = self.cross(now_ps, index);
                self.events.push(end_ps, 0, Event::Come(index));
            }
            Event::Come(index) => self.take_write(now_ps, index),
            Event::Divided(index) => self.take_other(now_ps, index),
            Event::Done(index) => {
                let Held { request, stages, .. } = self.held.remove(index);
                out.push(Completion::new(request.id, now_ps, stages));
            }
        }
    }

    /// The drive of a page of all that begins at an address, and its number there.
    fn page_of(&self, address: u64) -> (usize, u64) {
        let drive = self.drive_of(address);
        (drive, self.before(drive, address) / self.page_bytes)
    }

    /// The pages of some bytes; those that lie within them alone, where `whole`.
    fn pages_of(&self, address: u64, bytes: u64, whole: bool) -> Vec<(usize, u64)> {
        let end = address.saturating_add(bytes);
        let (first, end) = if whole {
            (address.div_ceil(self.page_bytes), end / self.page_bytes)
        } else {
            (address / self.page_bytes, end.div_ceil(self.page_bytes))
        };
        (first..end).map(|page| self.page_of(page * self.page_bytes)).collect()
    }

    /// A read, or what moves no data, has come to the adapter.
    fn take_other(&mut self, now_ps: u64, index: u32) {
        let Held { request, control, .. } = self.held[index];
        let hit = match control {
            Some(Control::Flush) => self.write_back,
            Some(Control::Trim { address, bytes }) => {
                self.drop_pages(address, bytes);
                false
            }
            None if self.cache.is_some() => {
                let pages = self.pages_of(request.address, u64::from(request.bytes), false);
                let hit = self.cache.as_mut().is_some_and(|it| it.read(pages.iter().copied()));
                self.counts.read_hits += u64::from(hit);
                self.counts.read_misses += u64::from(!hit);
                hit
            }
            None => false,
        };
        if hit {
            let end_ps = if request.write { now_ps } else { self.cross(now_ps, index) };
            self.events.push(end_ps, 0, Event::Done(index));
        } else {
            self.divide(now_ps, index);
        }
    }

    /// Of each drive, the whole pages within some bytes.
    fn whole_pages(&self, address: u64, bytes: u64) -> Vec<(usize, Range<u64>)> {
        let first = address.next_multiple_of(self.page_bytes);
        let end = address.saturating_add(bytes) / self.page_bytes * self.page_bytes;
        let of = |drive, byte| self.before(drive, byte) / self.page_bytes;
        (0..self.drives.len()).map(|drive| (drive, of(drive, first)..of(drive, end))).collect()
    }

    /// What the cache has of the pages within some bytes holds nothing any more.
    fn drop_pages(&mut self, address: u64, bytes: u64) {
        for (drive, pages) in self.whole_pages(address, bytes) {
            let Some(cache) = &mut self.cache else { return };
            let dropped = cache.drop_range(drive, pages);
            self.forget_cached(&dropped);
        }
    }

    /// Whether the cache has none of the pages within some bytes that is not on its drive yet, so that a trim goes to
    /// the drives: if power fails before they have done it, what was there is there.
    fn admit_trim(&mut self, now_ps: u64, index: u32, (address, bytes): (u64, u64)) -> bool {
        let pages = self.whole_pages(address, bytes);
        let cache = self.cache.as_ref();
        if cache.is_some_and(|it| pages.into_iter().any(|(drive, pages)| it.waits_in(drive, pages)))
        {
            return false;
        }
        self.wait_for_room(now_ps, index);
        self.drop_pages(address, bytes);
        self.divide(now_ps, index);
        true
    }

    /// The data of a write, or what moves none, have come to the adapter.
    fn take_write(&mut self, now_ps: u64, index: u32) {
        let request = self.held[index].request;
        let control = self.held[index].control;
        let follows_writes = self.write_back && matches!(control, Some(Control::Trim { .. }));
        if control.is_some() && !follows_writes {
            return self.take_other(now_ps, index);
        }
        if self.cache.is_none() {
            return self.divide(now_ps, index);
        }
        if !self.write_back {
            let whole = self.pages_of(request.address, u64::from(request.bytes), true);
            self.cache.iter_mut().for_each(|cache| whole.iter().for_each(|page| cache.keep(*page)));
            self.counts.passed_writes += 1;
            return self.divide(now_ps, index);
        }
        self.crowded.push_back(index);
        self.admit(now_ps);
    }

    /// Writes that wait take what room the cache has, and what is dirty is written.
    fn admit(&mut self, now_ps: u64) {
        while let Some(&index) = self.crowded.front()
            && self.admit_one(now_ps, index)
        {
            self.crowded.pop_front();
        }
        (0..self.drives.len()).for_each(|drive| self.write_back_runs(now_ps, drive));
    }

    /// Whether the cache takes a write now, or gives it to the drives, or a trim.
    fn admit_one(&mut self, now_ps: u64, index: u32) -> bool {
        let Held { request, content, control, .. } = self.held[index];
        if let Some(Control::Trim { address, bytes }) = control {
            return self.admit_trim(now_ps, index, (address, bytes));
        }
        let pages = self.pages_of(request.address, u64::from(request.bytes), false);
        let whole = self.pages_of(request.address, u64::from(request.bytes), true);
        let Some(cache) = &mut self.cache else { return false };
        // Of a page that is written in part the cache has to have the rest.
        let known = whole.len() == pages.len() || cache.read(pages.iter().copied());
        if !known || !cache.fits(pages.len()) {
            // What is newer does not come to a drive before what is older, which nobody else has until it is there.
            let waits = pages.iter().any(|page| cache.waits(*page));
            if waits || cache.is_writing(pages.iter().copied()) {
                return false;
            }
            for &page in &whole {
                cache.drop_page(page);
                cache.keep(page);
            }
            self.forget_cached(&whole);
            self.counts.passed_writes += 1;
            self.wait_for_room(now_ps, index);
            self.divide(now_ps, index);
            return true;
        }
        if !cache.write(pages.iter().copied()) {
            return false;
        }
        if let Some(followed) = &mut self.followed {
            let first = request.address / self.page_bytes;
            for n in (0..pages.len() as u64).filter(|_| content != 0) {
                followed.cached.set(first + n, content + n);
            }
        }
        self.counts.cached_writes += 1;
        self.counts.waiting_writes += u64::from(now_ps > self.held[index].clock_ps);
        self.wait_for_room(now_ps, index);
        self.events.push(now_ps, 0, Event::Done(index));
        true
    }

    /// A write has waited until now.
    fn wait_for_room(&mut self, now_ps: u64, index: u32) {
        let held = &mut self.held[index];
        held.stages.push(Stage::StoreQueue, now_ps - held.clock_ps);
        held.clock_ps = now_ps;
    }

    /// A drive is given runs of dirty pages to write, where nothing else waits for it.
    fn write_back_runs(&mut self, now_ps: u64, drive: usize) {
        let most = self.stripe / self.page_bytes;
        while self.write_backs[drive] < self.most_write_backs && self.waiting[drive].is_empty() {
            let run = self.cache.as_mut().and_then(|cache| cache.take_run(drive, most));
            let Some((first, count)) = run else { return };
            self.write_backs[drive] += 1;
            self.counts.write_backs += 1;
            self.counts.written_back_pages += count;
            let (address, bytes) = (first * self.page_bytes, count * self.page_bytes);
            let pages = (first..first + count).map(|page| self.page_number((drive, page)));
            let pages: Vec<u64> = pages.filter(|_| self.followed.is_some()).collect();
            let content = self.followed.as_mut().map_or(0, |followed| {
                let held: Vec<_> = pages.iter().map(|page| followed.cached.get(*page)).collect();
                followed.number(held.into_iter())
            });
            let piece = Piece { held: CACHE, address, bytes, content, submitted_ps: now_ps };
            let piece = self.pieces.insert(piece);
            self.waiting[drive].push_back(piece);
            self.submit_waiting(now_ps, drive);
        }
    }

    /// Each drive is asked for what lies on it: it is one piece.
    fn divide(&mut self, now_ps: u64, index: u32) {
        let Held { request, control, .. } = self.held[index];
        let (first, end) = match control {
            None => (request.address, request.address + u64::from(request.bytes.max(1))),
            Some(Control::Trim { address, bytes }) => (address, address.saturating_add(bytes)),
            Some(Control::Flush) => (0, 0),
        };
        for drive in 0..self.drives.len() {
            let (address, end) = (self.before(drive, first), self.before(drive, end));
            let bytes = end - address;
            if bytes == 0 && control.is_none() {
                continue;
            }
            self.held[index].pieces += 1;
            let content = self.content_of(index, drive, address, bytes);
            let piece = Piece { held: index, address, bytes, content, submitted_ps: now_ps };
            let piece = self.pieces.insert(piece);
            self.waiting[drive].push_back(piece);
            self.submit_waiting(now_ps, drive);
        }
    }

    /// A drive takes what it has room for.
    fn submit_waiting(&mut self, now_ps: u64, drive: usize) {
        while let Some(&id) = self.waiting[drive].front() {
            let piece = self.pieces[id];
            let Held { request, control, forced, .. } = match self.held.get(piece.held) {
                Some(held) => *held,
                None => Held::of_cache(now_ps),
            };
            let device = &mut self.drives[drive];
            let taken = match control {
                None => {
                    let (address, bytes) = (piece.address, piece.bytes as u32);
                    let force_unit_access = forced || self.write_back && request.write;
                    let content = piece.content;
                    let manner = Manner { force_unit_access, content, ..Manner::default() };
                    device.submit_as(now_ps, Request { id, address, bytes, ..request }, manner)
                }
                Some(Control::Flush) => device.submit_control(now_ps, id, Control::Flush),
                Some(Control::Trim { .. }) => {
                    let Piece { address, bytes, .. } = piece;
                    device.submit_control(now_ps, id, Control::Trim { address, bytes })
                }
            };
            self.look_at(drive);
            if taken.is_err() {
                return;
            }
            self.pieces[id].submitted_ps = now_ps;
            self.waiting[drive].pop_front();
        }
    }

    /// A drive goes on.
    fn advance_drive(&mut self, now_ps: u64, drive: usize) {
        let mut done = std::mem::take(&mut self.done);
        let mut wrote = false;
        self.drives[drive].advance(now_ps, &mut done);
        self.look_at(drive);
        for Completion { id, at_ps, stages, .. } in done.drain(..) {
            let piece = self.pieces.remove(id);
            if piece.held == CACHE {
                self.write_backs[drive] -= 1;
                let (first, count) =
                    (piece.address / self.page_bytes, piece.bytes / self.page_bytes);
                if let Some(cache) = &mut self.cache {
                    cache.written(drive, first, count);
                }
                let pages: Vec<_> = (first..first + count).map(|page| (drive, page)).collect();
                self.forget_cached(&pages);
                wrote = true;
                continue;
            }
            let held = &mut self.held[piece.held];
            held.pieces -= 1;
            if held.pieces > 0 {
                continue;
            }
            // The time of a request is that of the piece which is done last.
            held.stages.push(Stage::StoreQueue, piece.submitted_ps - held.clock_ps);
            held.stages.append(&stages);
            held.clock_ps = at_ps;
            let Request { address, bytes, write, .. } = held.request;
            let end_ps = if write { at_ps } else { self.cross(at_ps, piece.held) };
            if !write && self.cache.is_some() {
                let pages = self.pages_of(address, u64::from(bytes), true);
                let cache = self.cache.as_mut();
                cache.into_iter().for_each(|it| pages.iter().for_each(|page| it.keep(*page)));
            }
            self.events.push(end_ps, 0, Event::Done(piece.held));
        }
        self.done = done;
        self.submit_waiting(now_ps, drive);
        if wrote {
            self.admit(now_ps);
        } else if self.cache.is_some() {
            self.write_back_runs(now_ps, drive);
        }
    }

    /// The adapter loses its power: a battery keeps what waits in its cache, which is written when power is there
    /// again.
    fn cut_cache(&mut self) -> Option<Outage> {
        let cache = self.cache.as_mut()?;
        let keeps = self.write_back && !self.followed.as_ref().is_some_and(|it| it.no_battery);
        let (waiting, page_bytes) = (cache.waiting(), self.page_bytes);
        cache.restart(keeps);
        let mut outage = Outage::untold("how long an adapter takes to start is not described");
        if keeps {
            outage.saved_pages = waiting;
        } else if let Some(followed) = &mut self.followed {
            let lost = std::mem::replace(&mut followed.cached, CowMap::new(0));
            outage.touched.extend(lost.iter().map(|(page, _)| page * page_bytes));
            outage.lost_pages = waiting;
        }
        Some(outage)
    }

    /// A drive may have something else to do next.
    #[inline]
    fn look_at(&mut self, drive: usize) {
        self.next_ps[drive] = self.drives[drive].next_event_ps().unwrap_or(NEVER);
    }

    /// When the next of all drives does something, and which.
    #[inline]
    fn next_drive(&self) -> Option<(u64, usize)> {
        let next = self.next_ps.iter().zip(0..).min();
        next.map(|(&at_ps, drive)| (at_ps, drive)).filter(|&(at_ps, _)| at_ps != NEVER)
    }
}

impl Device for Raid {
    fn submit(&mut self, now_ps: u64, request: Request) -> Result<(), Full> {
        self.hold(now_ps, request, None, (false, 0))
    }

    /// Drives force what is forced; pages come with the last.
    fn submit_as(&mut self, now_ps: u64, request: Request, manner: Manner) -> Result<(), Full> {
        self.hold(now_ps, request, None, (manner.force_unit_access, manner.content))
    }

    fn takes_control(&self) -> bool {
        self.drives.iter().all(AnyDevice::takes_control)
    }

    fn submit_control(&mut self, now_ps: u64, id: u32, control: Control) -> Result<(), Full> {
        let request = Request { id, address: 0, bytes: 0, write: true, background: false };
        self.hold(now_ps, request, Some(control), (false, 0))
    }

    fn next_event_ps(&self) -> Option<u64> {
        let own_ps = self.events.peek_ps();
        let drives_ps = self.next_drive().map(|(at_ps, _)| at_ps);
        own_ps.into_iter().chain(drives_ps).min()
    }

    /// Of what happens at the same time, drives come first, the one with the least number before others.
    fn advance(&mut self, now_ps: u64, out: &mut Vec<Completion>) {
        loop {
            let (own_ps, drive) = (self.events.peek_ps(), self.next_drive());
            match drive {
                Some((at_ps, drive)) if own_ps.is_none_or(|own_ps| at_ps <= own_ps) => {
                    if at_ps > now_ps {
                        return;
                    }
                    self.advance_drive(at_ps, drive);
                }
                _ => {
                    if own_ps.is_none_or(|own_ps| own_ps > now_ps) {
                        return;
                    }
                    if let Some((at_ps, event)) = self.events.pop() {
                        self.happen(at_ps, event, out);
                    }
                }
            }
        }
    }

    fn depths(&self, tell: &mut Tell<'_>) {
        tell("array.requests", self.held.len());
        if let Some(cache) = &self.cache {
            tell("adapter.dirty_pages", cache.waiting() as usize);
        }
        self.drives.iter().for_each(|drive| drive.depths(tell));
    }

    fn in_flight(&self) -> usize {
        self.held.len()
    }

    /// The drives are asked at once, past an adapter's cache.
    fn warm(&mut self, now_ps: u64, request: Request, manner: Manner) {
        let end = request.address + u64::from(request.bytes);
        let mut at = request.address;
        while at < end {
            let rest = (self.stripe - at % self.stripe).min(end - at);
            let drive = self.drive_of(at);
            let own = Request { address: self.before(drive, at), bytes: rest as u32, ..request };
            self.drives[drive].warm(now_ps, own, manner);
            self.look_at(drive);
            at += rest;
        }
    }

    /// As each drive is told of what it has of it.
    fn warm_control(&mut self, now_ps: u64, control: Control) {
        for drive in 0..self.drives.len() {
            let own = match control {
                Control::Flush => control,
                Control::Trim { address, bytes } => {
                    let first = self.before(drive, address);
                    Control::Trim {
                        address: first,
                        bytes: self.before(drive, address.saturating_add(bytes)) - first,
                    }
                }
            };
            self.drives[drive].warm_control(now_ps, own);
            self.look_at(drive);
        }
    }

    fn take_over_warmed(&mut self, warmed: &mut Self) {
        for (own, warmed) in self.drives.iter_mut().zip(&mut warmed.drives) {
            own.take_over_warmed(warmed);
        }
        (0..self.drives.len()).for_each(|drive| self.look_at(drive));
    }

    /// With a battery the adapter does, whatever the drives do.
    fn keeps_answered(&self) -> bool {
        self.write_back || self.drives.iter().all(AnyDevice::keeps_answered)
    }

    fn follow_contents(&mut self, weaknesses: Weaknesses) -> bool {
        self.followed = Some(Box::new(Followed {
            contents: CowMap::new(0),
            last: 0,
            cached: CowMap::new(0),
            no_battery: weaknesses.has(Weakness::NoBattery),
        }));
        let mut all = true;
        for drive in &mut self.drives {
            all &= drive.follow_contents(weaknesses);
        }
        all
    }

    /// What the drives could lack may mean nothing behind a battery, but for an answer before its time.
    fn can_lack(&self, weakness: Weakness) -> bool {
        match weakness {
            Weakness::NoBattery => self.write_back,
            _ => self.drives.iter().any(|drive| drive.can_lack(weakness)),
        }
    }

    /// All drives lose theirs at the same time.
    fn cut_power(&mut self, now_ps: u64) -> Outage {
        self.waiting.iter_mut().for_each(VecDeque::clear);
        self.crowded.clear();
        self.write_backs.fill(0);
        (self.held, self.pieces) = (Slab::new(), Slab::new());
        self.events = EventQueue::new();
        self.lane = self.lane.as_ref().map(Lane::emptied);
        let mut outages = Vec::new();
        for number in 0..self.drives.len() {
            let mut outage = self.drives[number].cut_power(now_ps);
            self.look_at(number);
            let of_all = |address: &mut u64| *address = self.address(number, *address);
            outage.touched.iter_mut().for_each(of_all);
            outages.push(outage);
        }
        outages.extend(self.cut_cache());
        let outage = outages.into_iter().reduce(Outage::with).unwrap_or_default();
        (0..self.drives.len()).for_each(|drive| self.write_back_runs(now_ps, drive));
        outage
    }

    fn fork(&mut self) -> Self {
        let drives = self.drives.iter_mut().map(AnyDevice::fork).collect();
        let followed = self.followed.as_mut().map(|it| {
            Box::new(Followed { contents: it.contents.fork(), cached: it.cached.fork(), ..**it })
        });
        Raid {
            drives,
            next_ps: self.next_ps.clone(),
            cache: self.cache.clone(),
            write_backs: self.write_backs.clone(),
            crowded: self.crowded.clone(),
            waiting: self.waiting.clone(),
            lane: self.lane.clone(),
            held: self.held.clone(),
            pieces: self.pieces.clone(),
            events: self.events.clone(),
            followed,
            done: Vec::new(),
            ..*self
        }
    }

    fn content(&self, address: u64) -> Content {
        let cached =
            self.followed.as_ref().map_or(0, |it| it.cached.get(address / self.page_bytes));
        if cached != 0 {
            return cached;
        }
        let drive = self.drive_of(address);
        match (self.drives[drive].content(self.before(drive, address)), &self.followed) {
            (content @ (0 | LOST), _) => content,
            (number, Some(followed)) => followed.contents.get(number),
            (content, None) => content,
        }
    }

    fn under_way(&self) -> UnderWay {
        let all = self.drives.iter().map(AnyDevice::under_way);
        let drives = all.reduce(|one, other| one.together(&other)).unwrap_or_default();
        let cached = self.cache.as_ref().map_or(0, Cache::waiting);
        UnderWay { buffered: drives.buffered + cached, ..drives }
    }

    /// Of all drives together.
    fn activity(&self, now_ps: u64) -> Activity {
        let all = self.drives.iter().map(|drive| drive.activity(now_ps));
        let drives = all.reduce(Activity::beside).unwrap_or_default();
        Activity { adapter: self.cache.as_ref().map(|_| self.counts), ..drives }
    }
}

#[cfg(test)]
mod tests;
