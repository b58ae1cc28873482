//! Workloads whose threads' operations each follow from their number alone: what comes before, and the
//! operation at a place. They can be forked and sought at no cost.

use super::prelude::{Prelude, REGION_BEGINS};
use crate::op::{Op, ThreadId};
use crate::stream::{FileInfo, Footprint, Pull, Stream, StreamError};
use std::sync::Arc;

pub(super) use super::prelude::BASE_ADDRESS;

/// What such a workload does.
pub(super) trait Body: Clone + Send + 'static {
    /// Threads, at least one.
    fn threads(&self) -> u32;
    /// What thread 0 does first.
    fn prelude(&self) -> Prelude;
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

/// The stream of a body.
#[derive(Clone)]
pub(super) struct Indexed<B> {
    body: B,
    prelude: Prelude,
    /// Operations of each thread so far, those of the prelude left out.
    positions: Vec<u64>,
    files: Arc<Vec<FileInfo>>,
}

impl<B: Body> Indexed<B> {
    /// The stream at its start.
    pub fn boxed(body: B) -> Box<dyn Stream> {
        let threads = body.threads();
        Box::new(Indexed {
            prelude: body.prelude().finish(threads),
            positions: vec![0; threads as usize],
            files: Arc::new(body.files()),
            body,
        })
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
        let limit = limit.max(1) as u64;
        if thread == 0 && self.prelude.go_on(limit, Some(out)) > 0 {
            return Ok(Pull::More);
        }
        let position = self.positions[thread as usize];
        let count = limit.min(self.body.operations(thread) - position);
        out.extend((position..position + count).map(|place| self.body.operation(thread, place)));
        self.positions[thread as usize] += count;
        Ok(if count > 0 { Pull::More } else { Pull::End })
    }

    fn skip(&mut self, thread: ThreadId, count: u64) -> Result<u64, StreamError> {
        if thread >= self.body.threads() {
            return Ok(0);
        }
        let begun = if thread == 0 { self.prelude.go_on(count, None) } else { 0 };
        let position = &mut self.positions[thread as usize];
        let jumped = (self.body.operations(thread) - *position).min(count.saturating_sub(begun));
        *position += jumped;
        Ok(begun + jumped)
    }

    fn prelude(&self) -> Option<&Prelude> {
        self.positions.iter().all(|position| *position == 0).then_some(&self.prelude)
    }

    fn fork(&self) -> Box<dyn Stream> {
        Box::new(self.clone())
    }

    fn gives_mark(&self, mark: u64) -> Option<bool> {
        Some(mark == REGION_BEGINS && self.prelude.marks())
    }

    fn footprint(&self) -> Option<Footprint> {
        Some(self.body.footprint())
    }

    fn accesses(&self) -> Option<u64> {
        let mut all = (0..self.body.threads()).map(|thread| self.body.operations(thread));
        all.try_fold(self.prelude.pages(), u64::checked_add)
    }

    fn accesses_before_region(&self) -> Option<u64> {
        self.prelude.before_region()
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
