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
use std::ops::Bound;
use tierscope_kernel::slab::Slab;
use tierscope_units::{Duration, Problems};

/// The block layer of the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlockLayerSpec {
    /// In which order requests go that wait for the device.
    pub scheduler: SchedulerKind,
    /// Whether what lies side by side becomes one request; where not, pages of several bios stay apart (`nomerges`).
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

/// From how many of a queue's requests on it is congested, and below how many no longer.
fn congestion_thresholds(requests: u32) -> (u32, u32) {
    let on = (requests - requests / 8 + 1).min(requests);
    let off = (requests - requests / 8).saturating_sub(requests / 16 + 1).max(1);
    (on, off)
}

/// Requests in a plug, and bytes of its first one, with which it goes to its queue (`BLK_MAX_REQUEST_COUNT` and
/// `BLK_PLUG_FLUSH_SIZE`, block/blk-mq.h).
const PLUG_REQUESTS: usize = 32;
const PLUG_BYTES: u64 = 128 << 10;

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
    /// It is of one bio with the page before it, beside which it lies: they stay together, up to the largest request.
    pub continues: bool,
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
    /// Runs of adjacent frames, those of each bio by itself.
    segments: u32,
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
    /// A request that waits is no longer there: it has become part of another, which takes its place in order of
    /// arrival if that is the earlier one (`dd_merged_requests`, `cfq_merged_requests`).
    fn absorbed(&mut self, by: u32, id: u32, request: &IoRequest);
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
    /// Whether what waits is known by where it ends, whenever it came; only without a scheduler it is not.
    fn is_elevator(&self) -> bool {
        true
    }
}

/// In order of arrival, with the time from which each goes before others.
type Arrivals = VecDeque<(u32, u64)>;

/// A request has become part of another: the one that is left has the place of the one that is due earlier.
fn take_place(arrivals: &mut Arrivals, by: u32, id: u32) {
    let at = |arrivals: &Arrivals, of| arrivals.iter().position(|(other, _)| *other == of);
    let (Some(old), Some(new)) = (at(arrivals, id), at(arrivals, by)) else { return };
    if arrivals[old].1 < arrivals[new].1 {
        arrivals.swap(old, new);
        let due_ps = arrivals[new].1;
        arrivals[old].1 = due_ps;
    }
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
    /// Requests that wait, by direction and first byte, and by the byte behind their last; of several the one that came
    /// last is the last.
    by_address: BTreeMap<(bool, u64), Vec<u32>>,
    by_end: BTreeMap<u64, Vec<u32>>,
    /// What has been merged last, or came when there was none (`last_merge`): it is looked at first.
    last_merge: Option<u32>,
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
    /// Requests that somebody waits for, at the device or not.
    awaited: u32,
    /// From so many on its one queue is congested, and below so many no longer; none where it has several, or no scheduler.
    congestion: Option<(u32, u32)>,
    congested: bool,
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
            last_merge: None,
            waiting: 0,
            at_device: 0,
            idle_until_ps: 0,
            idled_until_ps: 0,
        };
        let single = spec.hardware_queues == 1 && spec.scheduler != SchedulerKind::None;
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
            awaited: 0,
            congestion: single.then(|| congestion_thresholds(spec.requests)),
            congested: false,
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

    /// Whether so much is read that nothing should be read ahead of need: with 7/8 of the queue's requests, until 3/16 of
    /// them are free (`bdi_read_congested`; `blk_queue_congestion_threshold`, block/blk-core.c, Linux up to 4.20). Queues of
    /// the multi-queue block layer know no such thing.
    pub fn reads_are_congested(&self) -> bool {
        self.congested
    }

    /// So many requests that somebody waits for are more, or less, than before.
    fn count_awaited(&mut self) {
        let Some((on, off)) = self.congestion else { return };
        self.congested = match self.congested {
            true => self.awaited >= off,
            false => self.awaited >= on,
        };
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
        // What the thread has in its plug; and without a scheduler, what has left it for the device.
        let (mut plug, mut gone): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        let mut rest = bios;
        while !rest.is_empty() {
            let (count, split) = self.part(rest);
            let part;
            (part, rest) = rest.split_at(count);
            // The first part of what is split is part of nothing else (`bio_submit_split`).
            let merges = self.merges && !split && !part[0].alone && !part[0].first;
            let last = plug.last().copied().filter(|_| merges);
            if last.is_some_and(|id| self.join(id, part))
                || merges && self.join_waiting(queue, part)
            {
                continue;
            }
            let id = self.make(queue, part, split);
            made += 1;
            if part[0].first {
                self.queues[queue].first.push_back(id);
                self.queues[queue].waiting += 1;
                continue;
            }
            if self.is_plug_full(&plug) {
                match self.queues[queue].scheduler {
                    AnyScheduler::Fifo(_) => gone.append(&mut plug),
                    _ => plug.drain(..).for_each(|id| self.insert(now_ps, id)),
                }
            }
            plug.push(id);
        }
        for id in gone.into_iter().chain(plug) {
            self.insert(now_ps, id);
        }
        made
    }

    /// How many of these pages, the first of a bio, are one bio that the device takes, and whether there is more of it
    /// (`bio_split_to_limits`).
    fn part(&self, bios: &[Bio]) -> (usize, bool) {
        let first = &bios[0];
        let (mut bytes, mut segments) = (first.bytes, 1);
        for (at, pair) in bios.windows(2).enumerate() {
            let (last, bio) = (&pair[0], &pair[1]);
            let goes_on = bio.continues
                && (bio.write, bio.sync, bio.thread) == (first.write, first.sync, first.thread)
                && !(first.alone || first.first || bio.alone || bio.first)
                && last.address + last.bytes == bio.address
                && bio.content == content_behind(first.content, at + 1);
            if !goes_on {
                return (at + 1, false);
            }
            bytes += bio.bytes;
            segments += u32::from(last.memory_address + last.bytes != bio.memory_address);
            if bytes > self.largest_bytes || segments > self.segments {
                return (at + 1, true);
            }
        }
        (bios.len(), false)
    }

    /// Whether a plug goes to its queue before it takes more (`blk_add_rq_to_plug`).
    fn is_plug_full(&self, plug: &[u32]) -> bool {
        let large = |id: &u32| {
            let request = &self.requests[*id];
            self.merges && request.end - request.address >= PLUG_BYTES
        };
        plug.len() >= PLUG_REQUESTS || plug.first().is_some_and(large)
    }

    fn make(&mut self, queue: usize, part: &[Bio], split: bool) -> u32 {
        self.sequence += 1;
        let (bio, last) = (&part[0], &part[part.len() - 1]);
        self.awaited += u32::from(bio.sync);
        self.count_awaited();
        self.requests.insert(IoRequest {
            bios: part.iter().map(|bio| bio.id).collect(),
            address: bio.address,
            end: last.address + last.bytes,
            write: bio.write,
            sync: bio.sync,
            thread: bio.thread,
            queue,
            alone: bio.alone || bio.first || split,
            past: bio.first,
            segments: segments_of(part),
            content: bio.content,
            sequence: self.sequence,
            left: part.len() as u32,
            told: false,
        })
    }

    /// Whether a request has room for a bio, which brings the segments that it has by itself. One that has not takes no
    /// other either from then on (`req_set_nomerge`).
    fn has_room(&mut self, id: u32, part: &[Bio]) -> bool {
        let (first, last) = (&part[0], &part[part.len() - 1]);
        let (largest_bytes, most) = (self.largest_bytes, self.segments);
        let request = &mut self.requests[id];
        let bytes = request.end - request.address + last.address + last.bytes - first.address;
        if bytes <= largest_bytes && request.segments + segments_of(part) <= most {
            return true;
        }
        request.alone = true;
        let queue = &mut self.queues[request.queue];
        forget(&mut queue.by_end, request.end, id);
        queue.last_merge = queue.last_merge.filter(|last| *last != id);
        false
    }

    /// Whether a bio and a request are of a kind (`blk_rq_merge_ok`); CFQ merges nothing of two threads, nor what
    /// somebody waits for with what nobody does (`cfq_allow_bio_merge`).
    fn may_be_one(&self, request: &IoRequest, bio: &Bio) -> bool {
        request.write == bio.write
            && !request.alone
            && !bio.alone
            && self.may_share(request, bio.sync, bio.thread)
    }

    /// Whether what such a thread has asked for may be part of a request, for all that the scheduler minds.
    fn may_share(&self, request: &IoRequest, sync: bool, thread: u32) -> bool {
        let of_same = request.sync == sync && (!sync || request.thread == thread);
        of_same || !matches!(self.queues[request.queue].scheduler, AnyScheduler::Cfq(_))
    }

    /// A bio becomes the last, or the first, of a request, if it lies beside it and fits.
    fn join(&mut self, id: u32, part: &[Bio]) -> bool {
        self.join_back(id, part) || self.join_front(id, part)
    }

    fn join_back(&mut self, id: u32, part: &[Bio]) -> bool {
        let request = &self.requests[id];
        let (first, last) = (&part[0], &part[part.len() - 1]);
        if request.end != first.address
            || !self.may_be_one(request, first)
            || first.content != content_behind(request.content, request.bios.len())
            || !self.has_room(id, part)
        {
            return false;
        }
        let request = &mut self.requests[id];
        request.bios.extend(part.iter().map(|bio| bio.id));
        request.left += part.len() as u32;
        request.end = last.address + last.bytes;
        request.segments += segments_of(part);
        true
    }

    fn join_front(&mut self, id: u32, part: &[Bio]) -> bool {
        let request = &self.requests[id];
        let (first, last) = (&part[0], &part[part.len() - 1]);
        if last.address + last.bytes != request.address
            || !self.may_be_one(request, first)
            || request.content != content_behind(first.content, part.len())
            || !self.has_room(id, part)
        {
            return false;
        }
        let request = &mut self.requests[id];
        part.iter().rev().for_each(|bio| request.bios.push_front(bio.id));
        request.left += part.len() as u32;
        request.address = first.address;
        request.content = first.content;
        request.segments += segments_of(part);
        true
    }

    /// A bio joins a request that waits for the device. Which one, is decided by where it lies (`elv_merge`): whether
    /// it then fits is another matter.
    fn join_waiting(&mut self, queue: usize, part: &[Bio]) -> bool {
        let (first, last) = (&part[0], &part[part.len() - 1]);
        let end = last.address + last.bytes;
        let Some((id, behind)) = self.beside(queue, first, end) else { return false };
        if behind {
            if !self.join_back(id, part) {
                return false;
            }
            let queue = &mut self.queues[queue];
            forget(&mut queue.by_end, first.address, id);
            queue.by_end.entry(end).or_default().push(id);
        } else {
            if !self.join_front(id, part) {
                return false;
            }
            let BlockLayer { queues, requests, .. } = self;
            let queue = &mut queues[queue];
            forget(&mut queue.by_address, (first.write, end), id);
            queue.by_address.entry((first.write, first.address)).or_default().push(id);
            queue.scheduler.get().moved(id, end, &requests[id]);
        }
        self.queues[queue].last_merge = Some(id);
        self.counts.merged_pages += part.len() as u64;
        if self.queues[queue].scheduler.get().is_elevator() {
            if behind { self.close_gap_behind(id) } else { self.close_gap_in_front(id) }
        }
        true
    }

    /// A request that waits beside a bio, and whether the bio would be behind it.
    fn beside(&mut self, queue: usize, bio: &Bio, end: u64) -> Option<(u32, bool)> {
        let state = &mut self.queues[queue];
        if let Some(id) = state.last_merge.filter(|_| state.scheduler.get().is_elevator()) {
            let request = &self.requests[id];
            if self.may_be_one(request, bio)
                && (request.end == bio.address || request.address == end)
            {
                return Some((id, request.end == bio.address));
            }
        }
        let found = self.queues[queue].by_end.get(&bio.address).and_then(|ids| ids.last()).copied();
        let found = found.filter(|id| self.may_be_one(&self.requests[*id], bio));
        let state = &mut self.queues[queue];
        if let Some(id) = found.filter(|id| state.scheduler.get().merges_with(*id)) {
            return Some((id, true));
        }
        if !state.scheduler.get().merges_in_front() {
            return None;
        }
        let found = state.by_address.get(&(bio.write, end)).and_then(|ids| ids.last()).copied();
        let found = found.filter(|id| state.scheduler.get().merges_with(*id))?;
        self.may_be_one(&self.requests[found], bio).then_some((found, false))
    }

    /// A request has grown up to where the next begins that waits: they become one, if they fit
    /// (`elv_latter_request`, `attempt_back_merge`).
    fn close_gap_behind(&mut self, id: u32) {
        let request = &self.requests[id];
        let later = (Bound::Excluded((request.write, request.address)), Bound::Unbounded);
        let next = self.queues[request.queue].by_address.range(later).next();
        if let Some(other) = next.and_then(|(_, ids)| ids.first()).copied() {
            self.absorb(id, other);
        }
    }

    /// The same of one that has grown down to the end of the one before (`attempt_front_merge`).
    fn close_gap_in_front(&mut self, id: u32) {
        let request = &self.requests[id];
        let earlier = ..(request.write, request.address);
        let before = self.queues[request.queue].by_address.range(earlier).next_back();
        if let Some(other) = before.and_then(|(_, ids)| ids.last()).copied() {
            self.absorb(other, id);
        }
    }

    /// A request becomes part of the one that ends where it begins, if they are of a kind and fit (`attempt_merge`).
    fn absorb(&mut self, id: u32, other: u32) -> bool {
        let (request, next) = (&self.requests[id], &self.requests[other]);
        if request.end != next.address
            || request.write != next.write
            || request.alone
            || next.alone
            || !self.may_share(request, next.sync, next.thread)
            || next.content != content_behind(request.content, request.bios.len())
            || next.end - request.address > self.largest_bytes
            || request.segments + next.segments > self.segments
        {
            return false;
        }
        let (end, queue) = (request.end, request.queue);
        let next = self.requests.remove(other);
        self.awaited -= u32::from(next.sync);
        self.count_awaited();
        let state = &mut self.queues[queue];
        if forget(&mut state.by_address, (next.write, next.address), other) {
            forget(&mut state.by_end, next.end, other);
            state.scheduler.get().absorbed(id, other, &next);
            state.waiting -= 1;
        }
        forget(&mut state.by_end, end, id);
        state.by_end.entry(next.end).or_default().push(id);
        state.last_merge = Some(id);
        let request = &mut self.requests[id];
        request.end = next.end;
        request.left += next.left;
        request.segments += next.segments;
        request.bios.extend(next.bios);
        true
    }

    /// A request waits from now on, unless a scheduler finds one that ends where it begins
    /// (`elv_attempt_insert_merge`).
    fn insert(&mut self, now_ps: u64, id: u32) {
        let request = &self.requests[id];
        let (index, address, pages) = (request.queue, request.address, request.bios.len() as u64);
        let state = &mut self.queues[index];
        state.idle_until_ps = 0;
        if self.merges && state.scheduler.get().is_elevator() {
            let hinted = state.last_merge;
            let before = state.by_end.get(&address).and_then(|ids| ids.last()).copied();
            if hinted.is_some_and(|last| self.absorb(last, id)) {
                self.counts.merged_pages += pages;
                return;
            }
            if before.is_some_and(|before| self.absorb(before, id)) {
                self.counts.merged_pages += pages;
                before.into_iter().for_each(|before| self.close_gaps_before(before));
                return;
            }
        }
        let request = &self.requests[id];
        let queue = &mut self.queues[index];
        queue.waiting += 1;
        queue.by_address.entry((request.write, request.address)).or_default().push(id);
        if !request.alone {
            queue.by_end.entry(request.end).or_default().push(id);
            queue.last_merge = queue.last_merge.or(Some(id));
        }
        queue.scheduler.get().add(now_ps, id, request);
    }

    /// A request that has grown becomes part of the one that ends where it begins, and so on.
    fn close_gaps_before(&mut self, mut id: u32) {
        loop {
            let request = &self.requests[id];
            let ends = self.queues[request.queue].by_end.get(&request.address);
            match ends.and_then(|ids| ids.last()).copied() {
                Some(before) if self.absorb(before, id) => id = before,
                _ => return,
            }
        }
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
        forget(&mut queue.by_end, request.end, id);
        queue.last_merge = queue.last_merge.filter(|last| *last != id);
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
        self.awaited -= u32::from(request.sync);
        self.count_awaited();
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

/// Runs of adjacent frames of a bio.
fn segments_of(part: &[Bio]) -> u32 {
    let apart = |pair: &&[Bio]| pair[0].memory_address + pair[0].bytes != pair[1].memory_address;
    1 + part.windows(2).filter(apart).count() as u32
}

/// Takes a request out of a map. Whether it was there.
fn forget<K: Ord>(map: &mut BTreeMap<K, Vec<u32>>, key: K, id: u32) -> bool {
    let Some(ids) = map.get_mut(&key) else { return false };
    let known = ids.iter().position(|other| *other == id);
    known.map(|at| ids.remove(at));
    if ids.is_empty() {
        map.remove(&key);
    }
    known.is_some()
}

/// What comes sooner: something held back until then, or what was known.
fn sooner(known: Pick, at_ps: u64) -> Pick {
    match known {
        Pick::Later(other_ps) => Pick::Later(other_ps.min(at_ps)),
        _ => Pick::Later(at_ps),
    }
}
