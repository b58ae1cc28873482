//! The block layer: pages that are asked for become requests of the device.
//!
//! Pages that lie side by side on the store go as one request, up to the largest that the device takes
//! (`max_sectors_kb`, which is the storage's `largest_request`, and its scatter-gather list), whether they were asked
//! for together (a plug, block/blk-core.c) or join what still waits (`blk_mq_sched_bio_merge`, `elv_merge`). What waits
//! is a scheduler's, one file each here: `fifo`, `deadline`, `cfq`. Nothing waits while the device takes more.
//!
//! It is a state machine without time of its own: it is given requests and the time, and asked what goes next.

mod cfq;
mod deadline;
mod fifo;
#[cfg(test)]
mod tests;

use cfq::Cfq;
pub use cfq::CfqSpec;
use deadline::Deadline;
pub use deadline::DeadlineSpec;
use fifo::Fifo;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use tierscope_kernel::slab::Slab;
use tierscope_units::{Duration, Problems};

/// The block layer of the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlockLayerSpec {
    /// In which order requests go that wait for the device.
    pub scheduler: SchedulerKind,
    /// Whether pages side by side become one request; where not, each goes by itself (`nomerges`).
    #[serde(default = "yes")]
    pub merges: bool,
    /// Most runs of adjacent frames in a request: entries of the device's scatter-gather list (`max_segments`). By
    /// default 127, that of Linux's NVMe driver (`NVME_MAX_SEGS`, drivers/nvme/host/pci.c, Linux 4.x to 6.x).
    #[serde(default = "segments")]
    pub segments: u32,
    /// Requests that may wait in each queue; a thread that asks for more waits for room (`nr_requests`). By default 128,
    /// `BLKDEV_MAX_RQ` (include/linux/blkdev.h).
    #[serde(default = "requests")]
    pub requests: u32,
    /// Queues of the device, each with a scheduler and `host_queue_depth` commands of its own; a core uses the one of
    /// its number.
    #[serde(default = "one")]
    pub hardware_queues: u32,
    /// How long the lock of a queue is held for each request that is handed over; 0 where nothing is serialized.
    #[serde(default)]
    pub lock: Duration,
    /// What the deadline scheduler is set to.
    #[serde(default)]
    pub deadline: DeadlineSpec,
    /// What CFQ is set to.
    #[serde(default)]
    pub cfq: CfqSpec,
}

/// In which order requests go that wait for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerKind {
    /// In order of arrival; of those that wait the last eight are looked at for merges (`none`, block/blk-mq-sched.c).
    None,
    /// In order of arrival; all that wait may be merged with (`noop` of the older kernels, block/noop-iosched.c).
    Noop,
    /// By address in one direction, in batches, none later than its deadline as long as the device keeps up; reads
    /// before writes (block/mq-deadline.c, and block/deadline-iosched.c before).
    MqDeadline,
    /// Each thread in turn has the device for a slice, by address; what is written in the background shares one
    /// (block/cfq-iosched.c, Linux 2.6.18 to 4.20).
    Cfq,
}

fn yes() -> bool {
    true
}

fn segments() -> u32 {
    127
}

fn requests() -> u32 {
    128
}

fn one() -> u32 {
    1
}

impl BlockLayerSpec {
    /// Collects every semantic mistake below `path`.
    pub fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "segments", self.segments, 1);
        problems.at_least(path, "requests", self.requests, 1);
        problems.at_least(path, "hardware_queues", self.hardware_queues, 1);
        problems.at_most(path, "hardware_queues", self.hardware_queues, MOST_QUEUES);
        // Longer, and simulated time would overflow before a workload of some size is done.
        problems.at_most(path, "lock", self.lock, Duration::from_picoseconds(1_000_000_000_000));
        self.deadline.check(&format!("{path}.deadline"), problems);
        self.cfq.check(&format!("{path}.cfq"), problems);
    }

    /// How long the lock of a queue is held for a request, in picoseconds; 0 where there is none.
    pub fn lock_ps(&self) -> u64 {
        self.lock.picoseconds()
    }
}

/// NVM Express has 65,535 queues at most.
const MOST_QUEUES: u32 = 65_535;

/// A page, or a command without pages, that is to go to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bio {
    /// Chosen by whoever asks.
    pub id: u32,
    /// First byte on the store.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// Where in memory it is: its first byte.
    pub memory_address: u64,
    /// Towards the store.
    pub write: bool,
    /// Somebody waits for it: a read, or a write that is not done in the background.
    pub sync: bool,
    /// Never part of a larger request: a flush, or a write with force unit access (`REQ_NOMERGE_FLAGS`,
    /// include/linux/blk_types.h).
    pub alone: bool,
    /// Goes before all that wait, past the scheduler (a flush, block/blk-flush.c).
    pub first: bool,
    /// What a write carries, where contents are followed: a request's pages carry this number and those behind it.
    pub content: u64,
    /// The thread whose it is.
    pub thread: u32,
}

/// What waits, or is at the device: pages side by side.
#[derive(Clone, Debug)]
pub struct IoRequest {
    /// Ids of its pages, in order of address.
    pub bios: VecDeque<u32>,
    /// First byte on the store.
    pub address: u64,
    /// The byte behind its last.
    pub end: u64,
    /// Towards the store.
    pub write: bool,
    /// Somebody waits for it.
    pub sync: bool,
    /// The thread whose it is; of writes in the background, nobody's.
    pub thread: u32,
    /// The queue that it is in.
    queue: usize,
    alone: bool,
    /// It has gone past the scheduler.
    past: bool,
    /// Runs of adjacent frames.
    segments: u32,
    /// First byte of its first frame, and the byte behind its last.
    frames: (u64, u64),
    /// What its first page carries.
    content: u64,
    /// Its place in order of arrival.
    sequence: u64,
    /// Pages not yet moved.
    left: u32,
    /// Somebody has been told of one of them.
    told: bool,
}

/// What goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// This request.
    Request(u32),
    /// Nothing before this time, though something waits: another is expected that lies nearer.
    Later(u64),
    /// Nothing waits.
    Nothing,
}

/// A scheduler: the order in which requests go. It is told of each that comes, changes, and leaves.
trait Scheduler {
    /// A request waits from now on.
    fn add(&mut self, now_ps: u64, id: u32, request: &IoRequest);
    /// A request that waits is no longer there: it has been merged into another.
    fn remove(&mut self, id: u32, request: &IoRequest);
    /// A request that waits begins earlier on the store.
    fn moved(&mut self, id: u32, was_address: u64, request: &IoRequest);
    /// Takes what goes next.
    fn next(&mut self, now_ps: u64, requests: &Slab<IoRequest>) -> Pick;
    /// A request that it gave is done.
    fn completed(&mut self, _now_ps: u64, _request: &IoRequest) {}
    /// Whether a page may join this request.
    fn merges_with(&self, _id: u32) -> bool {
        true
    }
    /// Whether it looks for requests that begin where a page ends.
    fn merges_in_front(&self) -> bool;
}

/// Each scheduler.
#[derive(Clone, Debug)]
enum AnyScheduler {
    Fifo(Fifo),
    Deadline(Deadline),
    Cfq(Box<Cfq>),
}

impl AnyScheduler {
    fn new(spec: &BlockLayerSpec, rotates: bool) -> Self {
        match spec.scheduler {
            SchedulerKind::None => AnyScheduler::Fifo(Fifo::of_software_queue()),
            SchedulerKind::Noop => AnyScheduler::Fifo(Fifo::noop()),
            SchedulerKind::MqDeadline => AnyScheduler::Deadline(Deadline::new(&spec.deadline)),
            SchedulerKind::Cfq => AnyScheduler::Cfq(Box::new(Cfq::new(&spec.cfq, rotates))),
        }
    }

    fn get(&mut self) -> &mut dyn Scheduler {
        match self {
            AnyScheduler::Fifo(it) => it,
            AnyScheduler::Deadline(it) => it,
            AnyScheduler::Cfq(it) => it.as_mut(),
        }
    }
}

/// One queue of the device, and what waits for it.
#[derive(Clone, Debug)]
struct Queue {
    scheduler: AnyScheduler,
    /// What goes before all others.
    first: VecDeque<u32>,
    /// Requests that wait, by direction and first byte, and by direction and the byte behind their last; of several
    /// the one that came last.
    by_address: BTreeMap<(bool, u64), u32>,
    by_end: BTreeMap<(bool, u64), u32>,
    waiting: u32,
    at_device: u32,
    /// Until then the scheduler waits for what may come; and the last such time, whether it has come or not.
    idle_until_ps: u64,
    idled_until_ps: u64,
}

counters! {
    /// What the block layer has counted.
    #[derive(serde::Serialize)]
    pub struct BlockLayerCounts {
        /// Requests that went to the device.
        pub requests,
        /// Pages, and commands without pages, that were asked for.
        pub pages,
        /// Of these, those that joined a request that waited already.
        pub merged_pages,
        /// Times that a scheduler let the device stand still for what might come.
        pub idled,
    }
}

/// Pages on their way to the device, as requests.
#[derive(Clone, Debug)]
pub struct BlockLayer {
    requests: Slab<IoRequest>,
    queues: Vec<Queue>,
    /// The queue that is asked first.
    turn: usize,
    merges: bool,
    largest_bytes: u64,
    segments: u32,
    most_waiting: u32,
    depth: u32,
    sequence: u64,
    /// Pages that wait.
    waiting_bios: u64,
    /// What has been counted.
    pub counts: BlockLayerCounts,
}

impl BlockLayer {
    /// Nothing waits. A request has `largest_bytes` at most, and a queue of the device, which `rotates` or does not,
    /// `depth` commands. The description has been checked.
    pub fn new(spec: &BlockLayerSpec, largest_bytes: u64, depth: u32, rotates: bool) -> Self {
        let queue = || Queue {
            scheduler: AnyScheduler::new(spec, rotates),
            first: VecDeque::new(),
            by_address: BTreeMap::new(),
            by_end: BTreeMap::new(),
            waiting: 0,
            at_device: 0,
            idle_until_ps: 0,
            idled_until_ps: 0,
        };
        BlockLayer {
            requests: Slab::new(),
            queues: (0..spec.hardware_queues).map(|_| queue()).collect(),
            turn: 0,
            merges: spec.merges,
            largest_bytes,
            segments: spec.segments,
            most_waiting: spec.requests,
            depth,
            sequence: 0,
            waiting_bios: 0,
            counts: BlockLayerCounts::default(),
        }
    }

    /// Which queue a core uses.
    pub fn queue_of(&self, core: usize) -> usize {
        core % self.queues.len()
    }

    /// Whether a thread on this core has to wait before it asks for more.
    pub fn is_full(&self, core: usize) -> bool {
        self.queues[self.queue_of(core)].waiting >= self.most_waiting
    }

    /// Pages, and commands without pages, that wait.
    pub fn waiting_bios(&self) -> u64 {
        self.waiting_bios
    }

    /// Requests that wait, and that are at the device.
    #[cfg(test)]
    fn depths(&self) -> (u64, u64) {
        let sum = |of: fn(&Queue) -> u32| self.queues.iter().map(|it| u64::from(of(it))).sum();
        (sum(|queue| queue.waiting), sum(|queue| queue.at_device))
    }

    /// Takes what a thread on a core asks for at once: what lies side by side becomes one request, and joins one that
    /// waits where it can. How many requests that made.
    pub fn submit(&mut self, now_ps: u64, core: usize, bios: &[Bio]) -> u32 {
        let queue = self.queue_of(core);
        self.counts.pages += bios.len() as u64;
        self.waiting_bios += bios.len() as u64;
        let mut made = 0;
        let mut plug: Vec<u32> = Vec::new();
        for bio in bios {
            let last = plug.last().copied().filter(|_| self.merges);
            if last.is_some_and(|id| self.join(id, bio)) || self.join_waiting(queue, bio) {
                continue;
            }
            let id = self.make(queue, bio);
            if bio.first {
                self.queues[queue].first.push_back(id);
                self.queues[queue].waiting += 1;
            } else {
                plug.push(id);
            }
            made += 1;
        }
        for id in plug {
            self.insert(now_ps, id);
        }
        made
    }

    fn make(&mut self, queue: usize, bio: &Bio) -> u32 {
        self.sequence += 1;
        self.requests.insert(IoRequest {
            bios: VecDeque::from([bio.id]),
            address: bio.address,
            end: bio.address + bio.bytes,
            write: bio.write,
            sync: bio.sync,
            thread: bio.thread,
            queue,
            alone: bio.alone || bio.first,
            past: bio.first,
            segments: 1,
            frames: (bio.memory_address, bio.memory_address + bio.bytes),
            content: bio.content,
            sequence: self.sequence,
            left: 1,
            told: false,
        })
    }

    /// Whether a page may be part of a request at all.
    fn fits(&self, request: &IoRequest, bio: &Bio) -> bool {
        request.write == bio.write
            && request.sync == bio.sync
            && !request.alone
            && !bio.alone
            && request.end - request.address + bio.bytes <= self.largest_bytes
    }

    /// A page becomes the last, or the first, of a request, if it lies beside it and fits.
    fn join(&mut self, id: u32, bio: &Bio) -> bool {
        self.join_back(id, bio) || self.join_front(id, bio)
    }

    fn join_back(&mut self, id: u32, bio: &Bio) -> bool {
        let request = &self.requests[id];
        let segments = request.segments + u32::from(request.frames.1 != bio.memory_address);
        if !self.fits(request, bio)
            || request.end != bio.address
            || segments > self.segments
            || bio.content != content_behind(request.content, request.bios.len())
        {
            return false;
        }
        let request = &mut self.requests[id];
        request.bios.push_back(bio.id);
        request.left += 1;
        request.end += bio.bytes;
        request.frames.1 = bio.memory_address + bio.bytes;
        request.segments = segments;
        true
    }

    fn join_front(&mut self, id: u32, bio: &Bio) -> bool {
        let request = &self.requests[id];
        let behind = bio.memory_address + bio.bytes;
        let segments = request.segments + u32::from(behind != request.frames.0);
        if !self.fits(request, bio)
            || bio.address + bio.bytes != request.address
            || segments > self.segments
            || request.content != content_behind(bio.content, 1)
        {
            return false;
        }
        let request = &mut self.requests[id];
        request.bios.push_front(bio.id);
        request.left += 1;
        request.address = bio.address;
        request.frames.0 = bio.memory_address;
        request.content = bio.content;
        request.segments = segments;
        true
    }

    /// A page joins a request that waits for the device.
    fn join_waiting(&mut self, queue: usize, bio: &Bio) -> bool {
        if !self.merges || bio.alone || bio.first {
            return false;
        }
        let end = bio.address + bio.bytes;
        let state = &mut self.queues[queue];
        let scheduler = state.scheduler.get();
        let candidate =
            |found: Option<&u32>| found.copied().filter(|id| scheduler.merges_with(*id));
        let behind = candidate(state.by_end.get(&(bio.write, bio.address)));
        let in_front = candidate(state.by_address.get(&(bio.write, end)));
        let in_front = in_front.filter(|_| scheduler.merges_in_front());
        if let Some(id) = behind
            && self.of_same(id, bio)
            && self.join_back(id, bio)
        {
            let queue = &mut self.queues[queue];
            forget(&mut queue.by_end, (bio.write, bio.address), id);
            queue.by_end.insert((bio.write, end), id);
            self.counts.merged_pages += 1;
            self.close_gap(id);
            return true;
        }
        if let Some(id) = in_front
            && self.of_same(id, bio)
            && self.join_front(id, bio)
        {
            let BlockLayer { queues, requests, .. } = self;
            let queue = &mut queues[queue];
            forget(&mut queue.by_address, (bio.write, end), id);
            queue.by_address.insert((bio.write, bio.address), id);
            queue.scheduler.get().moved(id, end, &requests[id]);
            self.counts.merged_pages += 1;
            return true;
        }
        false
    }

    /// Whether a request is of the thread of a page, where that matters: CFQ merges nothing of two
    /// (`cfq_allow_bio_merge`).
    fn of_same(&self, id: u32, bio: &Bio) -> bool {
        let request = &self.requests[id];
        !matches!(self.queues[request.queue].scheduler, AnyScheduler::Cfq(_))
            || !request.sync
            || request.thread == bio.thread
    }

    /// A request has grown up to where another begins that waits: they become one, if they fit
    /// (`elv_latter_request`, `attempt_merge`).
    fn close_gap(&mut self, id: u32) {
        let request = &self.requests[id];
        let (write, end, queue) = (request.write, request.end, request.queue);
        let Some(&other) = self.queues[queue].by_address.get(&(write, end)) else { return };
        let next = &self.requests[other];
        let apart = u32::from(request.frames.1 != next.frames.0);
        let segments = request.segments + next.segments - 1 + apart;
        let follows = next.content == content_behind(request.content, request.bios.len());
        let bytes = next.end - request.address;
        let same = next.sync == request.sync && next.thread == request.thread && !next.alone;
        if !same || !follows || bytes > self.largest_bytes || segments > self.segments {
            return;
        }
        let next = self.requests.remove(other);
        let state = &mut self.queues[queue];
        forget(&mut state.by_address, (write, next.address), other);
        forget(&mut state.by_end, (write, end), id);
        state.by_end.insert((write, next.end), id);
        state.scheduler.get().remove(other, &next);
        state.waiting -= 1;
        let request = &mut self.requests[id];
        request.end = next.end;
        request.left += next.left;
        request.frames.1 = next.frames.1;
        request.segments = segments;
        request.bios.extend(next.bios);
    }

    /// A request waits from now on.
    fn insert(&mut self, now_ps: u64, id: u32) {
        let request = &self.requests[id];
        let queue = &mut self.queues[request.queue];
        queue.waiting += 1;
        queue.idle_until_ps = 0;
        if !request.alone {
            queue.by_address.insert((request.write, request.address), id);
            queue.by_end.insert((request.write, request.end), id);
        }
        queue.scheduler.get().add(now_ps, id, request);
    }

    /// Takes a request that goes to the device, if one may. Where all that wait are held back, the time until when.
    pub fn next(&mut self, now_ps: u64) -> Pick {
        let mut later = Pick::Nothing;
        for at in 0..self.queues.len() {
            let index = (self.turn + at) % self.queues.len();
            let queue = &mut self.queues[index];
            if queue.waiting == 0 || queue.at_device >= self.depth {
                continue;
            }
            if let Some(id) = queue.first.pop_front() {
                return self.leaves(index, id);
            }
            if queue.idle_until_ps > now_ps {
                later = sooner(later, queue.idle_until_ps);
                continue;
            }
            match queue.scheduler.get().next(now_ps, &self.requests) {
                Pick::Request(id) => return self.leaves(index, id),
                Pick::Later(at_ps) => {
                    queue.idle_until_ps = at_ps;
                    let known_ps = std::mem::replace(&mut queue.idled_until_ps, at_ps);
                    self.counts.idled += u64::from(known_ps != at_ps);
                    later = sooner(later, at_ps);
                }
                Pick::Nothing => {}
            }
        }
        later
    }

    /// A request is no longer among those that wait.
    fn leaves(&mut self, index: usize, id: u32) -> Pick {
        let request = &self.requests[id];
        let queue = &mut self.queues[index];
        forget(&mut queue.by_address, (request.write, request.address), id);
        forget(&mut queue.by_end, (request.write, request.end), id);
        queue.waiting -= 1;
        queue.at_device += 1;
        self.waiting_bios -= request.bios.len() as u64;
        self.turn = (index + 1) % self.queues.len();
        self.counts.requests += 1;
        Pick::Request(id)
    }

    /// The device did not take a request that was to go to it: it is the first of all that go, next time.
    pub fn put_back(&mut self, id: u32) {
        let request = &self.requests[id];
        let queue = &mut self.queues[request.queue];
        queue.first.push_front(id);
        queue.waiting += 1;
        queue.at_device -= 1;
        self.waiting_bios += request.bios.len() as u64;
        self.counts.requests -= 1;
    }

    /// A request.
    pub fn request(&self, id: u32) -> &IoRequest {
        &self.requests[id]
    }

    /// A page of a request at the device has moved, of which somebody is `told` or not. With the last the request is
    /// done: then whether somebody has been told of any.
    pub fn moved(&mut self, now_ps: u64, id: u32, told: bool) -> Option<bool> {
        let request = &mut self.requests[id];
        request.left -= 1;
        request.told |= told;
        if request.left > 0 {
            return None;
        }
        let request = self.requests.remove(id);
        let queue = &mut self.queues[request.queue];
        queue.at_device -= 1;
        if !request.past {
            queue.scheduler.get().completed(now_ps, &request);
        }
        Some(request.told)
    }
}

/// What the page carries behind so many pages of which the first carries `content`, where contents are followed.
fn content_behind(content: u64, pages: usize) -> u64 {
    if content == 0 { 0 } else { content + pages as u64 }
}

/// The entry of this request, unless another has taken its place.
fn forget(map: &mut BTreeMap<(bool, u64), u32>, key: (bool, u64), id: u32) {
    if map.get(&key) == Some(&id) {
        map.remove(&key);
    }
}

/// What comes sooner: something held back until then, or what was known.
fn sooner(known: Pick, at_ps: u64) -> Pick {
    match known {
        Pick::Later(other_ps) => Pick::Later(other_ps.min(at_ps)),
        _ => Pick::Later(at_ps),
    }
}
