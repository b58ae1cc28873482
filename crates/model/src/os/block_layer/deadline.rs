//! The deadline scheduler (block/mq-deadline.c, block/deadline-iosched.c; Documentation/block/deadline-iosched.rst):
//! requests go by address in batches, each direction has a list in order of arrival with deadlines, and writes wait
//! for reads, but not for ever.

use super::{Arrivals, IoRequest, Pick, Scheduler, take_place};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tierscope_kernel::slab::Slab;
use tierscope_units::{Duration, Problems};

/// What the deadline scheduler is set to (/sys/block/…/queue/iosched); by default as Linux.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DeadlineSpec {
    /// After which time a read goes before others (`read_expire`, 500 ms).
    pub read_expire: Duration,
    /// After which time a write does (`write_expire`, 5 s).
    pub write_expire: Duration,
    /// How often reads go before writes that wait (`writes_starved`, 2 batches).
    pub writes_starved: u32,
    /// Requests that go in one direction before deadlines are looked at again (`fifo_batch`, 16).
    pub fifo_batch: u32,
    /// Whether a page may join in front of a request (`front_merges`).
    pub front_merges: bool,
}

impl Default for DeadlineSpec {
    fn default() -> Self {
        let ms = |ms: u64| Duration::from_picoseconds(ms * 1_000_000_000);
        DeadlineSpec {
            read_expire: ms(500),
            write_expire: ms(5000),
            writes_starved: 2,
            fifo_batch: 16,
            front_merges: true,
        }
    }
}

impl DeadlineSpec {
    pub(super) fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "fifo_batch", self.fifo_batch, 1);
        let most = Duration::from_picoseconds(1_000_000_000_000_000);
        problems.at_most(path, "read_expire", self.read_expire, most);
        problems.at_most(path, "write_expire", self.write_expire, most);
    }
}

/// What waits in a direction.
#[derive(Clone, Debug, Default)]
struct Direction {
    /// In order of arrival, with the time from which each goes before others.
    fifo: Arrivals,
    /// By address; of equal ones by arrival.
    sorted: BTreeMap<(u64, u64), u32>,
    /// Where the last that went began, and at first 0: the next from there on is next in its batch (`latest_pos`).
    position: u64,
}

impl Direction {
    fn take(&mut self, key: (u64, u64), id: u32) {
        self.sorted.remove(&key);
        // Nearly always the first.
        if let Some(at) = self.fifo.iter().position(|(other, _)| *other == id) {
            self.fifo.remove(at);
        }
    }
}

/// The state of the scheduler.
#[derive(Clone, Debug)]
pub(super) struct Deadline {
    /// Reads, and writes.
    directions: [Direction; 2],
    /// The direction of the batch.
    writes: bool,
    /// How many of the batch have gone.
    batched: u32,
    /// How often reads went though writes waited.
    starved: u32,
    expire_ps: [u64; 2],
    writes_starved: u32,
    fifo_batch: u32,
    front_merges: bool,
}

fn key(request: &IoRequest) -> (u64, u64) {
    (request.address, request.sequence)
}

impl Deadline {
    pub(super) fn new(spec: &DeadlineSpec) -> Self {
        Deadline {
            directions: Default::default(),
            writes: false,
            batched: spec.fifo_batch,
            starved: 0,
            expire_ps: [spec.read_expire.picoseconds(), spec.write_expire.picoseconds()],
            writes_starved: spec.writes_starved,
            fifo_batch: spec.fifo_batch,
            front_merges: spec.front_merges,
        }
    }

    /// The next of a batch: the first that begins no earlier than the last that went (`deadline_from_pos`).
    fn latter(&self, writes: bool) -> Option<u32> {
        let direction = &self.directions[usize::from(writes)];
        direction.sorted.range((direction.position, 0)..).next().map(|(_, id)| *id)
    }

    /// The direction of a new batch (`__dd_dispatch_request`).
    fn choose_direction(&mut self) -> Option<bool> {
        let [reads, writes] = self.directions.each_ref().map(|it| !it.fifo.is_empty());
        if reads && !(writes && self.starved >= self.writes_starved) {
            self.starved += u32::from(writes);
            return Some(false);
        }
        self.starved = 0;
        writes.then_some(true)
    }
}

impl Scheduler for Deadline {
    fn add(&mut self, now_ps: u64, id: u32, request: &IoRequest) {
        let expire_ps = self.expire_ps[usize::from(request.write)];
        let direction = &mut self.directions[usize::from(request.write)];
        direction.fifo.push_back((id, now_ps.saturating_add(expire_ps)));
        direction.sorted.insert(key(request), id);
    }

    fn absorbed(&mut self, by: u32, id: u32, request: &IoRequest) {
        let direction = &mut self.directions[usize::from(request.write)];
        take_place(&mut direction.fifo, by, id);
        direction.take(key(request), id);
    }

    fn moved(&mut self, id: u32, was_address: u64, request: &IoRequest) {
        let sorted = &mut self.directions[usize::from(request.write)].sorted;
        sorted.remove(&(was_address, request.sequence));
        sorted.insert(key(request), id);
    }

    fn next(&mut self, now_ps: u64, requests: &Slab<IoRequest>) -> Pick {
        let going_on = if self.batched < self.fifo_batch { self.latter(self.writes) } else { None };
        let id = match going_on {
            Some(id) => id,
            None => {
                let Some(writes) = self.choose_direction() else { return Pick::Nothing };
                let late = self.directions[usize::from(writes)].fifo.front().copied();
                let late = late.filter(|(_, due_ps)| *due_ps <= now_ps).map(|(id, _)| id);
                self.writes = writes;
                self.batched = 0;
                // From the oldest, where it is late or nothing lies behind; else from where the direction was.
                let oldest = self.directions[usize::from(writes)].fifo.front().map(|(id, _)| *id);
                let Some(id) = late.or_else(|| self.latter(writes)).or(oldest) else {
                    return Pick::Nothing;
                };
                id
            }
        };
        let request = &requests[id];
        self.batched += 1;
        let direction = &mut self.directions[usize::from(request.write)];
        direction.position = request.address;
        direction.take(key(request), id);
        Pick::Request(id)
    }

    fn merges_in_front(&self) -> bool {
        self.front_merges
    }
}
