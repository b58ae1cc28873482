//! Workloads written down, and random ones.

pub mod random;

use std::sync::Arc;
use tierscope_workload::op::Call;
use tierscope_workload::{Op, OpKind, Pull, SiteTable, Stream, StreamError, ThreadId};

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Where the workloads here have their anonymous memory.
pub const ANONYMOUS: u64 = 1 << 40;
/// Where they map files.
pub const MAPPED: u64 = 1 << 41;

/// A workload written down: the operations of each thread.
#[derive(Clone, Debug)]
pub struct Script {
    threads: Arc<Vec<Vec<Op>>>,
    taken: Vec<usize>,
    sites: Arc<SiteTable>,
}

impl Script {
    /// Its stream, from the start.
    pub fn stream(threads: &[Vec<Op>]) -> Box<dyn Stream> {
        Script::sited(threads, Arc::default())
    }

    /// The same, of which is known where in a program's code it comes from.
    pub fn sited(threads: &[Vec<Op>], sites: Arc<SiteTable>) -> Box<dyn Stream> {
        let (threads, taken) = (Arc::new(threads.to_vec()), vec![0; threads.len()]);
        Box::new(Script { threads, taken, sites })
    }
}

impl Stream for Script {
    fn pull(
        &mut self,
        thread: ThreadId,
        limit: usize,
        out: &mut Vec<Op>,
    ) -> Result<Pull, StreamError> {
        let Some(ops) = self.threads.get(thread as usize) else { return Ok(Pull::End) };
        let start = self.taken[thread as usize];
        let mut end = start;
        while end < ops.len() && end - start < limit.max(1) {
            let call = ops[end].kind_code() == OpKind::Call as u8;
            end += 1 + if call { usize::from(ops[end].size()) } else { 0 };
        }
        self.taken[thread as usize] = end;
        out.extend_from_slice(&ops[start..end]);
        Ok(if end == start { Pull::End } else { Pull::More })
    }

    fn fork(&self) -> Box<dyn Stream> {
        Box::new(self.clone())
    }

    fn sites(&self) -> Arc<SiteTable> {
        self.sites.clone()
    }
}

/// The operations of a call.
pub fn call(call: Call) -> Vec<Op> {
    let mut ops = Vec::new();
    call.encode(4, &mut ops);
    ops
}
