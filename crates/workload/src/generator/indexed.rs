//! Workloads whose threads' operations each follow from their number alone: what comes before, and the
//! operation at a place. They can be forked and sought at no cost.

use crate::op::{Call, MAP_WRITABLE, NO_FILE, Op, OpKind, ThreadId};
use crate::stream::{FileInfo, Footprint, Pull, Stream, StreamError};
use std::sync::Arc;

/// Instructions of starting a thread: our assumption, as of `gups`.
const SPAWN_INSTRUCTIONS: u32 = 1000;

/// Where tables without a file are mapped.
pub(super) const BASE_ADDRESS: u64 = 0x10_0000_0000;

/// What such a workload does.
pub(super) trait Body: Clone + Send + 'static {
    /// Threads, at least one.
    fn threads(&self) -> u32;
    /// What thread 0 does first: calls that open and map.
    fn prelude(&self) -> Vec<Op>;
    /// Operations of a thread, all of them loads and stores.
    fn operations(&self, thread: ThreadId) -> u64;
    /// The operation of a thread at a place, from 0.
    fn operation(&self, thread: ThreadId, place: u64) -> Op;
    /// What it maps.
    fn footprint(&self) -> Footprint;
    /// The files that it uses.
    fn files(&self) -> Vec<FileInfo> {
        Vec::new()
    }
}

/// `total` divided over `threads`: what a thread has, the first ones one more where there is a rest.
pub(super) fn share_of(total: u64, threads: u32, thread: ThreadId) -> u64 {
    let threads = u64::from(threads);
    total / threads + u64::from(u64::from(thread) < total % threads)
}

/// The first of what [`share_of`] gives a thread.
pub(super) fn first_of(total: u64, threads: u32, thread: ThreadId) -> u64 {
    let (threads, thread) = (u64::from(threads), u64::from(thread));
    total / threads * thread + thread.min(total % threads)
}

/// The prelude of what maps a table of its own, without a file, at the address where tables are.
pub(super) fn table_of(bytes: u64) -> Vec<Op> {
    let mut ops = Vec::new();
    let (address, flags) = (BASE_ADDRESS, MAP_WRITABLE);
    Call::Map { address, length: bytes, flags, file: NO_FILE, offset: 0 }.encode(100, &mut ops);
    ops
}

/// The stream of a body.
#[derive(Clone)]
pub(super) struct Indexed<B> {
    body: B,
    /// What thread 0 does first, with the starts of all others.
    prelude: Arc<Vec<Op>>,
    /// How much of it was pulled.
    begun: usize,
    /// Operations of each thread so far, those of the prelude left out.
    positions: Vec<u64>,
    files: Arc<Vec<FileInfo>>,
}

impl<B: Body> Indexed<B> {
    /// The stream at its start.
    pub fn boxed(body: B) -> Box<dyn Stream> {
        let threads = body.threads();
        let mut prelude = body.prelude();
        for thread in 1..threads {
            Call::Spawn { thread }.encode(SPAWN_INSTRUCTIONS, &mut prelude);
        }
        Box::new(Indexed {
            prelude: Arc::new(prelude),
            begun: 0,
            positions: vec![0; threads as usize],
            files: Arc::new(body.files()),
            body,
        })
    }

    /// Takes whole operations of the prelude up to `count`, or up to the end of the one that goes beyond;
    /// how many.
    fn begin(&mut self, count: u64) -> u64 {
        let first = self.begun;
        while ((self.begun - first) as u64) < count {
            let Some(op) = self.prelude.get(self.begun) else { break };
            let is_call = op.kind_code() == OpKind::Call as u8;
            self.begun += 1 + if is_call { op.size() as usize } else { 0 };
        }
        (self.begun - first) as u64
    }
}

impl<B: Body> Stream for Indexed<B> {
    fn pull(
        &mut self,
        thread: ThreadId,
        limit: usize,
        out: &mut Vec<Op>,
    ) -> Result<Pull, StreamError> {
        if thread >= self.body.threads() {
            return Ok(Pull::End);
        }
        let limit = limit.max(1);
        let mut taken = 0;
        if thread == 0 {
            let first = self.begun;
            taken = self.begin(limit as u64) as usize;
            out.extend_from_slice(&self.prelude[first..self.begun]);
        }
        let position = self.positions[thread as usize];
        let left = self.body.operations(thread) - position;
        let count = left.min(limit.saturating_sub(taken) as u64);
        out.extend((position..position + count).map(|place| self.body.operation(thread, place)));
        self.positions[thread as usize] += count;
        Ok(if taken as u64 + count > 0 { Pull::More } else { Pull::End })
    }

    fn skip(&mut self, thread: ThreadId, count: u64) -> Result<u64, StreamError> {
        if thread >= self.body.threads() {
            return Ok(0);
        }
        let begun = if thread == 0 { self.begin(count) } else { 0 };
        let position = &mut self.positions[thread as usize];
        let jumped = (self.body.operations(thread) - *position).min(count.saturating_sub(begun));
        *position += jumped;
        Ok(begun + jumped)
    }

    fn fork(&self) -> Box<dyn Stream> {
        Box::new(self.clone())
    }

    fn gives_mark(&self, _mark: u64) -> Option<bool> {
        Some(false)
    }

    fn footprint(&self) -> Option<Footprint> {
        Some(self.body.footprint())
    }

    fn accesses(&self) -> Option<u64> {
        let mut all = (0..self.body.threads()).map(|thread| self.body.operations(thread));
        all.try_fold(0u64, u64::checked_add)
    }

    fn files(&self) -> Arc<Vec<FileInfo>> {
        self.files.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_a_whole() {
        for (total, threads) in [(10, 3), (3, 5), (0, 2), (64, 4)] {
            let mut next = 0;
            for thread in 0..threads {
                assert_eq!(first_of(total, threads, thread), next);
                next += share_of(total, threads, thread);
            }
            assert_eq!(next, total);
        }
    }
}
