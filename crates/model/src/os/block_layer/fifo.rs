//! In order of arrival: no scheduler (`none`), and `noop` of the older kernels.

use super::{IoRequest, Pick, Scheduler};
use std::collections::VecDeque;
use tierscope_kernel::slab::Slab;

/// What waits, the oldest first.
#[derive(Clone, Debug)]
pub(super) struct Fifo {
    waiting: VecDeque<u32>,
    /// So many of the last are looked at for merges (`blk_bio_list_merge`, block/blk-merge.c: eight of the software
    /// queue).
    looked_at: usize,
    merges_in_front: bool,
}

impl Fifo {
    /// The software queue of a processor where there is no scheduler.
    pub(super) fn of_software_queue() -> Self {
        Fifo { waiting: VecDeque::new(), looked_at: 8, merges_in_front: true }
    }

    /// `noop`: pages join behind what waits (`elv_rqhash_find`), and never in front, as nothing is sorted.
    pub(super) fn noop() -> Self {
        Fifo { waiting: VecDeque::new(), looked_at: usize::MAX, merges_in_front: false }
    }
}

impl Scheduler for Fifo {
    fn add(&mut self, _now_ps: u64, id: u32, _request: &IoRequest) {
        self.waiting.push_back(id);
    }

    fn absorbed(&mut self, _by: u32, id: u32, _request: &IoRequest) {
        self.waiting.retain(|other| *other != id);
    }

    fn moved(&mut self, _id: u32, _was_address: u64, _request: &IoRequest) {}

    fn next(&mut self, _now_ps: u64, _requests: &Slab<IoRequest>) -> Pick {
        self.waiting.pop_front().map_or(Pick::Nothing, Pick::Request)
    }

    fn merges_with(&self, id: u32) -> bool {
        self.looked_at == usize::MAX
            || self.waiting.iter().rev().take(self.looked_at).any(|it| *it == id)
    }

    fn merges_in_front(&self) -> bool {
        self.merges_in_front
    }

    fn is_elevator(&self) -> bool {
        self.looked_at == usize::MAX
    }
}
