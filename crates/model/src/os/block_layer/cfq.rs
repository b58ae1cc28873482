//! Completely fair queueing (block/cfq-iosched.c, Documentation/block/cfq-iosched.txt, Linux 2.6.18 to 4.20): what a
//! thread waits for is a queue of its own, what is written in the background is one for all, and each in turn has the
//! device for a slice of time, in which its requests go by address. On a disk the device is left idle for a while
//! when a queue has run empty in its slice, as the thread may soon ask for what lies beside.
//!
//! Left out: priorities and classes, groups, queues that are merged as their threads work side by side, and trees of
//! queues that seek.

use super::{Arrivals, IoRequest, Pick, Scheduler, take_place};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use tierscope_kernel::slab::Slab;
use tierscope_units::{Duration, Problems, Size};

/// What CFQ is set to (/sys/block/…/queue/iosched); by default as Linux.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CfqSpec {
    /// How long a thread has the device (`slice_sync`, 100 ms).
    pub slice_sync: Duration,
    /// How long writes in the background have it (`slice_async`, 40 ms).
    pub slice_async: Duration,
    /// How long a disk is left idle for the next request of a thread whose slice it is (`slice_idle`, 8 ms; 2 ms at most of
    /// one that seeks far); not for a device that does not rotate.
    pub slice_idle: Duration,
    /// Requests of a queue that the device has at most, while other queues wait (`quantum`, 8; 4 before 2.6.33).
    pub quantum: u32,
    /// After which time the oldest of a thread goes first in its slice (`fifo_expire_sync`, 125 ms).
    pub fifo_expire_sync: Duration,
    /// The same of writes in the background (`fifo_expire_async`, 250 ms).
    pub fifo_expire_async: Duration,
    /// How far back the head may go to the next request (`back_seek_max`, 16 MiB).
    pub back_seek_max: Size,
    /// A way back is so many times as long (`back_seek_penalty`, 2).
    pub back_seek_penalty: u32,
}

impl Default for CfqSpec {
    fn default() -> Self {
        let ms = |ms: u64| Duration::from_picoseconds(ms * 1_000_000_000);
        CfqSpec {
            slice_sync: ms(100),
            slice_async: ms(40),
            slice_idle: ms(8),
            quantum: 8,
            fifo_expire_sync: ms(125),
            fifo_expire_async: ms(250),
            back_seek_max: Size::from_bytes(16 << 20),
            back_seek_penalty: 2,
        }
    }
}

impl CfqSpec {
    pub(super) fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "quantum", self.quantum, 1);
        problems.at_least(path, "back_seek_penalty", self.back_seek_penalty, 1);
        let most = Duration::from_picoseconds(1_000_000_000_000_000);
        for (name, time) in [
            ("slice_sync", self.slice_sync),
            ("slice_async", self.slice_async),
            ("slice_idle", self.slice_idle),
            ("fifo_expire_sync", self.fifo_expire_sync),
            ("fifo_expire_async", self.fifo_expire_async),
        ] {
            problems.at_most(path, name, time, most);
        }
    }
}

/// Whose queue: a thread's, or that of what is written in the background.
type Owner = Option<u32>;

/// Writes in the background that go in a slice (`cfq_prio_to_maxrq` of the middle priority, with `slice_async_rq` 2).
const MOST_OF_ASYNC_SLICE: u32 = 16;

/// How long a thread takes from an answer to its next request (`cfq_update_io_thinktime`, `__cfq_update_io_thinktime`):
/// a mean in which each sample counts an eighth.
#[derive(Clone, Copy, Debug, Default)]
struct ThinkTime {
    samples: u64,
    total_ps: u128,
    answered_ps: u64,
}

impl ThinkTime {
    fn asks(&mut self, now_ps: u64, idle_ps: u64) {
        let elapsed_ps = now_ps.saturating_sub(self.answered_ps).min(2 * idle_ps);
        self.samples = (7 * self.samples + 256) / 8;
        self.total_ps = (7 * self.total_ps + 256 * u128::from(elapsed_ps)) / 8;
    }

    /// Whether it is known to be longer than the device is left idle.
    fn is_long(&self, idle_ps: u64) -> bool {
        self.samples > 80 && (self.total_ps + 128) / u128::from(self.samples) > u128::from(idle_ps)
    }
}

/// A device is left idle no longer than so for a thread that seeks (`CFQ_MIN_TT`): 2 ms.
const IDLE_OF_SEEKING_PS: u64 = 2_000_000_000;

/// How far a thread's requests lie from each other, in sectors (`cfq_update_io_seektime`, Linux 2.6.32): a mean as above.
#[derive(Clone, Copy, Debug, Default)]
struct Seeks {
    samples: u64,
    total: u64,
    mean: u64,
    /// Where the last request ended, if there was one.
    end: Option<u64>,
}

impl Seeks {
    fn comes(&mut self, request: &IoRequest) {
        const SECTOR_BYTES: u64 = 512;
        let from = self.end.unwrap_or(request.address);
        let [from, to] = [from, request.address].map(|address| address / SECTOR_BYTES);
        let most = if self.samples <= 60 { 2 << 20 } else { 2 << 16 };
        let distance = from.abs_diff(to).min(4 * self.mean + most);
        self.end = Some(request.end);
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * distance) / 8;
        self.mean = (self.total + self.samples / 2) / self.samples;
    }

    /// Whether they are known to be far (`CIC_SEEKY`).
    fn are_far(&self) -> bool {
        self.samples > 80 && self.mean > 8 << 10
    }
}

/// What one owner waits for.
#[derive(Clone, Debug, Default)]
struct OfOwner {
    /// By address; of equal ones by arrival.
    sorted: BTreeMap<(u64, u64), u32>,
    /// In order of arrival, with the time from which each goes first.
    fifo: Arrivals,
    at_device: u32,
    think: ThinkTime,
    seeks: Seeks,
}

/// Whose slice it is.
#[derive(Clone, Copy, Debug)]
struct Slice {
    owner: Owner,
    /// It begins with the first answer (`cfq_mark_cfqq_slice_new`).
    end_ps: Option<u64>,
    given: u32,
    /// Whether its oldest request has been looked at (`cfq_check_fifo`).
    looked: bool,
    /// Until when its owner is waited for, once it has run empty.
    idle_until_ps: Option<u64>,
}

/// The state of the scheduler.
#[derive(Clone, Debug)]
pub(super) struct Cfq {
    owners: BTreeMap<Owner, OfOwner>,
    /// Who has something that waits, in turn; not the one whose slice it is.
    turns: VecDeque<Owner>,
    slice: Option<Slice>,
    /// Where the last request that went began.
    position: u64,
    sync_at_device: u32,
    slice_ps: [u64; 2],
    expire_ps: [u64; 2],
    idle_ps: u64,
    quantum: u32,
    back_bytes: u64,
    back_penalty: u64,
}

fn owner_of(request: &IoRequest) -> Owner {
    request.sync.then_some(request.thread)
}

fn key(request: &IoRequest) -> (u64, u64) {
    (request.address, request.sequence)
}

impl Cfq {
    pub(super) fn new(spec: &CfqSpec, rotates: bool) -> Self {
        Cfq {
            owners: BTreeMap::new(),
            turns: VecDeque::new(),
            slice: None,
            position: 0,
            sync_at_device: 0,
            slice_ps: [spec.slice_async.picoseconds(), spec.slice_sync.picoseconds()],
            expire_ps: [spec.fifo_expire_async.picoseconds(), spec.fifo_expire_sync.picoseconds()],
            idle_ps: if rotates { spec.slice_idle.picoseconds() } else { 0 },
            quantum: spec.quantum,
            back_bytes: spec.back_seek_max.bytes(),
            back_penalty: u64::from(spec.back_seek_penalty),
        }
    }

    /// The slice ends: its owner takes the last turn, if it has something that waits.
    fn end_slice(&mut self) {
        let Some(slice) = self.slice.take() else { return };
        if self.waits(slice.owner) {
            self.turns.push_back(slice.owner);
        }
    }

    fn waits(&self, owner: Owner) -> bool {
        self.owners.get(&owner).is_some_and(|it| !it.sorted.is_empty())
    }

    /// Whose slice it is now, of somebody who has something that waits, or is waited for.
    fn current(&mut self, now_ps: u64) -> Option<Slice> {
        if let Some(slice) = self.slice {
            let over = slice.end_ps.is_some_and(|end_ps| now_ps >= end_ps)
                || slice.owner.is_none() && slice.given >= MOST_OF_ASYNC_SLICE;
            let goes_on = self.waits(slice.owner)
                || slice.idle_until_ps.is_some_and(|until_ps| now_ps < until_ps)
                || self.begins_to_idle(now_ps);
            if over && !self.turns.is_empty() || !goes_on {
                self.end_slice();
            }
        }
        if self.slice.is_none() {
            let owner = self.turns.pop_front()?;
            self.slice =
                Some(Slice { owner, end_ps: None, given: 0, looked: false, idle_until_ps: None });
        }
        self.slice
    }

    /// Whether the device is left idle for an owner who has run out of requests (`cfq_arm_slice_timer`): one that
    /// waits for none either, and is quick enough as a rule.
    fn begins_to_idle(&mut self, now_ps: u64) -> bool {
        let Some(slice) = &mut self.slice else { return false };
        let Some(of_owner) = self.owners.get(&slice.owner) else { return false };
        if slice.owner.is_none() || self.idle_ps == 0 || of_owner.think.is_long(self.idle_ps) {
            return false;
        }
        // While it has requests at the device it is waited for, and the time begins with the last answer.
        if of_owner.at_device > 0 {
            return true;
        }
        if slice.idle_until_ps.is_some() {
            return false;
        }
        let seeks = of_owner.seeks.are_far();
        let idle_ps = if seeks { self.idle_ps.min(IDLE_OF_SEEKING_PS) } else { self.idle_ps };
        let until_ps = of_owner.think.answered_ps.saturating_add(idle_ps);
        slice.idle_until_ps = Some(until_ps);
        now_ps < until_ps
    }

    /// The request of an owner that lies best (`cfq_choose_req`): the next ahead, or one not far behind that is nearer.
    fn nearest(&self, of_owner: &OfOwner) -> Option<u32> {
        let sorted = &of_owner.sorted;
        let ahead = sorted.range((self.position, 0)..).next();
        let behind = sorted.range(..(self.position, 0)).next_back();
        let back = behind.map(|(at, id)| (self.position - at.0, *id));
        let back = back.filter(|(bytes, _)| *bytes <= self.back_bytes);
        match (ahead, back) {
            (Some((at, id)), Some((bytes, other))) => {
                let forth = at.0 - self.position;
                Some(if forth <= bytes.saturating_mul(self.back_penalty) { *id } else { other })
            }
            (Some((_, id)), None) => Some(*id),
            (None, Some((_, other))) => Some(other),
            // The other way round the disk, from its beginning.
            (None, None) => sorted.values().next().copied(),
        }
    }

    fn forget(&mut self, request: &IoRequest, id: u32) {
        let owner = owner_of(request);
        let Some(of_owner) = self.owners.get_mut(&owner) else { return };
        of_owner.sorted.remove(&key(request));
        if let Some(at) = of_owner.fifo.iter().position(|(other, _)| *other == id) {
            of_owner.fifo.remove(at);
        }
        if of_owner.sorted.is_empty() {
            self.turns.retain(|other| *other != owner);
        }
    }
}

impl Scheduler for Cfq {
    fn add(&mut self, now_ps: u64, id: u32, request: &IoRequest) {
        let owner = owner_of(request);
        let of_owner = self.owners.entry(owner).or_default();
        if owner.is_some() {
            of_owner.think.asks(now_ps, self.idle_ps);
            of_owner.seeks.comes(request);
        }
        let waited = !of_owner.sorted.is_empty();
        of_owner.sorted.insert(key(request), id);
        let expire_ps = self.expire_ps[usize::from(request.sync)];
        of_owner.fifo.push_back((id, now_ps.saturating_add(expire_ps)));
        match &mut self.slice {
            Some(slice) if slice.owner == owner => slice.idle_until_ps = None,
            // What somebody waits for takes the slice from what is written in the background
            // (`cfq_should_preempt`).
            Some(slice) if slice.owner.is_none() => {
                self.end_slice();
                self.turns.retain(|other| *other != owner);
                self.turns.push_front(owner);
            }
            _ if !waited => self.turns.push_back(owner),
            _ => {}
        }
    }

    fn absorbed(&mut self, by: u32, id: u32, request: &IoRequest) {
        if let Some(of_owner) = self.owners.get_mut(&owner_of(request)) {
            take_place(&mut of_owner.fifo, by, id);
        }
        self.forget(request, id);
    }

    fn moved(&mut self, id: u32, was_address: u64, request: &IoRequest) {
        if let Some(of_owner) = self.owners.get_mut(&owner_of(request)) {
            of_owner.sorted.remove(&(was_address, request.sequence));
            of_owner.sorted.insert(key(request), id);
        }
    }

    fn next(&mut self, now_ps: u64, requests: &Slab<IoRequest>) -> Pick {
        let Some(slice) = self.current(now_ps) else { return Pick::Nothing };
        let Some(of_owner) = self.owners.get(&slice.owner) else { return Pick::Nothing };
        // What goes now has to wait for an answer first (`cfq_may_dispatch`): writes in the background for all that
        // somebody waits for, and an owner of many requests for some of its own, while others wait.
        let others = !self.turns.is_empty();
        if slice.owner.is_none() && self.sync_at_device > 0
            || others && of_owner.at_device >= self.quantum
        {
            return Pick::Nothing;
        }
        if of_owner.sorted.is_empty() {
            return match slice.idle_until_ps {
                Some(until_ps) if others => Pick::Later(until_ps),
                _ => Pick::Nothing,
            };
        }
        let late = of_owner.fifo.front().filter(|(_, due_ps)| !slice.looked && *due_ps <= now_ps);
        let id = match late.map(|(id, _)| *id).or_else(|| self.nearest(of_owner)) {
            Some(id) => id,
            None => return Pick::Nothing,
        };
        let request = &requests[id];
        self.forget(request, id);
        self.position = request.end;
        self.sync_at_device += u32::from(request.sync);
        if let Some(of_owner) = self.owners.get_mut(&slice.owner) {
            of_owner.at_device += 1;
        }
        if let Some(slice) = &mut self.slice {
            slice.given += 1;
            slice.looked = true;
        }
        Pick::Request(id)
    }

    fn completed(&mut self, now_ps: u64, request: &IoRequest) {
        let owner = owner_of(request);
        self.sync_at_device -= u32::from(request.sync);
        let Some(of_owner) = self.owners.get_mut(&owner) else { return };
        of_owner.at_device -= 1;
        of_owner.think.answered_ps = now_ps;
        if let Some(slice) = self.slice.as_mut().filter(|slice| slice.owner == owner) {
            let length_ps = self.slice_ps[usize::from(request.sync)];
            slice.end_ps = slice.end_ps.or(Some(now_ps.saturating_add(length_ps)));
        }
    }

    fn merges_in_front(&self) -> bool {
        true
    }
}
