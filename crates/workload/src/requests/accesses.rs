//! Loads and stores of a workload of threads as requests: of recordings and generators.

use super::{RequestKind, RequestSource, Times, TraceRequest};
use crate::op::{Call, Op, OpKind, ThreadId};
use crate::order::Order;
use crate::stream::{Pull, Stream, StreamError};
use std::collections::HashMap;

/// Operations pulled at once.
const AT_ONCE: usize = 1 << 14;
/// Operations of a thread's turn: as many as where footprints are counted.
const TURN: usize = 1 << 10;

/// Loads and stores at their virtual addresses, one after the other. They have no times. Threads take
/// turns of 1024 operations, in the order that they wait for each other; calls, among them what they
/// read from files and write to them, are left out.
pub struct Accesses {
    stream: Box<dyn Stream>,
    order: Order,
    threads: HashMap<ThreadId, Pending>,
    /// Whose turn it is, and operations left of it.
    turn: Option<(ThreadId, usize)>,
    /// Whether the turn has brought the thread on.
    went_on: bool,
    given: u64,
    /// Reads and writes of files by calls, which were passed over.
    file_calls: u64,
    /// How many there are in all, where that is known.
    count: Option<u64>,
}

/// Operations of a thread that were pulled, and how many of them were taken.
#[derive(Clone, Default)]
struct Pending {
    ops: Vec<Op>,
    taken: usize,
}

impl Accesses {
    /// Those of a workload; `count` is how many there are, where it is known.
    pub fn of(stream: Box<dyn Stream>, count: Option<u64>) -> Self {
        let mut order = Order::default();
        order.start(0);
        let count = count.or_else(|| stream.accesses());
        Accesses {
            stream,
            order,
            threads: HashMap::new(),
            turn: None,
            went_on: false,
            given: 0,
            file_calls: 0,
            count,
        }
    }

    /// The thread whose turn it is; `None` where all have ended.
    fn thread(&mut self) -> Option<ThreadId> {
        if let Some((thread, left)) = self.turn
            && left > 0
        {
            return Some(thread);
        }
        self.end_turn();
        let thread = self.order.next()?;
        self.turn = Some((thread, TURN));
        Some(thread)
    }

    fn end_turn(&mut self) {
        if self.turn.take().is_some() {
            self.order.went_on(self.went_on);
        }
        self.went_on = false;
    }

    /// The next operation of a thread with the arguments behind it; `None` where it has ended.
    fn operation(&mut self, thread: ThreadId) -> Result<Option<Op>, StreamError> {
        let pending = self.threads.entry(thread).or_default();
        if pending.taken == pending.ops.len() {
            pending.ops.clear();
            pending.taken = 0;
            if self.stream.pull(thread, AT_ONCE, &mut pending.ops)? == Pull::End {
                self.threads.remove(&thread);
                return Ok(None);
            }
        }
        Ok(Some(pending.ops[pending.taken]))
    }

    /// Does what a call means for who goes on; whether the thread may pass it.
    fn call(&mut self, thread: ThreadId, header: Op) -> bool {
        let pending = self.threads.entry(thread).or_default();
        let first = pending.taken + 1;
        let end = (first + header.size() as usize).min(pending.ops.len());
        match Call::decode(header, &pending.ops[first..end]) {
            Some(Call::Spawn { thread: started }) => self.order.start(started),
            Some(Call::Signal { sequence }) => {
                self.order.signals.insert(thread, sequence);
            }
            Some(Call::Wait { thread: other, sequence })
                if !self.order.may_pass(other, sequence) =>
            {
                return false;
            }
            Some(
                Call::Read { .. }
                | Call::Write { .. }
                | Call::ReadDirect { .. }
                | Call::WriteDirect { .. },
            ) => self.file_calls += 1,
            _ => {}
        }
        pending.taken = end;
        true
    }
}

impl RequestSource for Accesses {
    fn next(&mut self) -> Result<Option<TraceRequest>, StreamError> {
        while let Some(thread) = self.thread() {
            let Some(op) = self.operation(thread)? else {
                self.turn = None;
                self.order.end(thread);
                continue;
            };
            if op.kind_code() == OpKind::Call as u8 {
                if self.call(thread, op) {
                    self.went_on = true;
                } else {
                    self.end_turn();
                }
                continue;
            }
            self.threads.entry(thread).or_default().taken += 1;
            self.went_on = true;
            if let Some((_, left)) = &mut self.turn {
                *left -= 1;
            }
            let kind = match op.kind() {
                Some(OpKind::Load) => RequestKind::Read,
                Some(OpKind::Store) => RequestKind::Write,
                _ => continue,
            };
            self.given += 1;
            let bytes = u32::from(op.size().max(1));
            return Ok(Some(TraceRequest { address: op.word, bytes, kind, ticks: None }));
        }
        Ok(None)
    }

    fn times(&self) -> Times {
        Times::Absent
    }

    fn remarks(&self) -> Vec<String> {
        let calls = (self.file_calls > 0).then(|| {
            format!(
                "{} reads and writes of files by calls are no accesses of the program, and left out",
                self.file_calls
            )
        });
        calls.into_iter().chain(self.stream.ended_early()).collect()
    }

    fn count(&self) -> Option<u64> {
        self.count
    }

    fn share(&self) -> Option<f64> {
        self.count.map(|count| self.given as f64 / count.max(1) as f64)
    }

    fn place(&self) -> String {
        format!("access {}", self.given)
    }

    fn fork(&self) -> Result<Box<dyn RequestSource>, StreamError> {
        Ok(Box::new(Accesses {
            stream: self.stream.fork(),
            order: self.order.clone(),
            threads: self.threads.clone(),
            ..*self
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::find;

    fn gups(threads: u64) -> Accesses {
        let sets = [("updates".to_owned(), 5000.into()), ("threads".to_owned(), threads.into())];
        Accesses::of(find("gups").unwrap().make(&sets, 1).unwrap().0, None)
    }

    fn all(source: &mut dyn RequestSource) -> Vec<TraceRequest> {
        std::iter::from_fn(|| source.next().unwrap()).collect()
    }

    #[test]
    fn every_access_of_every_thread_comes_once() {
        for threads in [1, 3] {
            let requests = all(&mut gups(threads));
            assert_eq!(requests.len(), 10_000, "a load and a store an update");
            assert_eq!(gups(threads).count(), Some(10_000));
            assert_eq!(requests.iter().filter(|one| one.is_write()).count(), 5000);
            assert!(requests.iter().all(|one| one.bytes == 8 && one.ticks.is_none()));
        }
    }

    #[test]
    fn a_second_source_goes_on_where_the_first_one_stood() {
        let expected = all(&mut gups(3));
        let mut source = gups(3);
        for one in &expected[..4321] {
            assert_eq!(source.next().unwrap(), Some(*one));
        }
        let mut fork = source.fork().unwrap();
        assert_eq!(all(&mut source), &expected[4321..]);
        assert_eq!(all(&mut *fork), &expected[4321..]);
    }
}
