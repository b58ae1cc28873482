//! Loads and stores of a workload of threads as requests: of recordings and generators.

use super::{Beside, RequestKind, RequestSource, Times, TraceRequest};
use crate::op::{Call, FLAG_NON_TEMPORAL, Op, OpKind, ThreadId};
use crate::order::Order;
use crate::stream::{FileInfo, Pull, Stream, StreamError};
use std::collections::HashMap;
use std::sync::Arc;

/// Operations pulled at once.
const AT_ONCE: usize = 1 << 14;
/// Operations of a thread's turn: as many as where footprints are counted.
const TURN: usize = 1 << 10;

/// Loads and stores at their virtual addresses, one after the other. They have no times. Threads take
/// turns of 1024 operations, or up to a read or write of a file, in the order that they wait for each
/// other. Calls, among them what they read from files and write to them, are no requests:
/// [`Accesses::step`] gives them too.
pub struct Accesses {
    stream: Box<dyn Stream>,
    order: Order,
    threads: HashMap<ThreadId, Pending>,
    /// Whose turn it is, and operations left of it.
    turn: Option<(ThreadId, usize)>,
    /// Whether the turn has brought the thread on.
    went_on: bool,
    given: u64,
    beside: Beside,
    /// Instructions since the last access of any thread …
    since: u64,
    /// … and those up to it.
    instructions: u64,
    /// How many there are in all, where that is known.
    count: Option<u64>,
}

/// What a thread does that is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It loads or stores.
    Access(TraceRequest),
    /// It calls the operating system.
    Call(Call),
}

/// Operations of a thread that were pulled, and how many of them were taken.
#[derive(Clone, Default)]
struct Pending {
    ops: Vec<Op>,
    taken: usize,
}

/// Whether a call moves data of a file.
pub(super) fn moves_data(call: &Call) -> bool {
    matches!(
        call,
        Call::Read { .. }
            | Call::Write { .. }
            | Call::ReadDirect { .. }
            | Call::WriteDirect { .. }
            | Call::CopyRange { .. }
            | Call::SpliceRead { .. }
            | Call::SpliceWrite { .. }
    )
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
            beside: Beside::default(),
            since: 0,
            instructions: 0,
            count,
        }
    }

    /// The next access or call, of whichever thread; `None` where all have ended.
    ///
    /// # Errors
    /// Where the workload cannot be read.
    pub fn step(&mut self) -> Result<Option<Step>, StreamError> {
        while let Some(thread) = self.thread() {
            let Some(op) = self.operation(thread)? else {
                self.turn = None;
                self.order.end(thread);
                continue;
            };
            if op.kind_code() == OpKind::Call as u8 {
                match self.call(thread, op) {
                    Some(call) => {
                        self.went_on = true;
                        self.count_instructions(op);
                        if let Some(call) = call {
                            return Ok(Some(Step::Call(call)));
                        }
                    }
                    None => self.end_turn(),
                }
                continue;
            }
            self.threads.entry(thread).or_default().taken += 1;
            self.went_on = true;
            if let Some((_, left)) = &mut self.turn {
                *left -= 1;
            }
            self.count_instructions(op);
            let kind = match op.kind() {
                Some(OpKind::Load) => RequestKind::Read,
                Some(OpKind::Store) => {
                    let past = op.flags() & FLAG_NON_TEMPORAL != 0;
                    self.beside.non_temporal_stores += u64::from(past);
                    RequestKind::Write
                }
                Some(OpKind::Flush) => {
                    self.beside.line_flushes += 1;
                    continue;
                }
                Some(OpKind::Fence) => {
                    self.beside.fences += 1;
                    continue;
                }
                _ => continue,
            };
            self.given += 1;
            self.instructions = std::mem::take(&mut self.since);
            let bytes = u32::from(op.size().max(1));
            let request = TraceRequest { address: op.word, bytes, kind, ticks: None };
            return Ok(Some(Step::Access(request)));
        }
        self.instructions = std::mem::take(&mut self.since);
        Ok(None)
    }

    /// The files of the workload so far, by number.
    pub fn files(&self) -> Arc<Vec<FileInfo>> {
        self.stream.files()
    }

    fn count_instructions(&mut self, op: Op) {
        let instructions = u64::from(op.instructions());
        self.since += instructions;
        self.beside.instructions += instructions;
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

    /// Does what a call means for who goes on; nothing where the thread may not pass it yet, else the call,
    /// if it is one that is known.
    fn call(&mut self, thread: ThreadId, header: Op) -> Option<Option<Call>> {
        let pending = self.threads.entry(thread).or_default();
        let first = pending.taken + 1;
        let end = (first + header.size() as usize).min(pending.ops.len());
        let call = Call::decode(header, &pending.ops[first..end]);
        match call {
            Some(Call::Spawn { thread: started }) => self.order.start(started),
            Some(Call::Signal { sequence }) => {
                self.order.signals.insert(thread, sequence);
            }
            Some(Call::Wait { thread: other, sequence })
                if !self.order.may_pass(other, sequence) =>
            {
                return None;
            }
            Some(call) if moves_data(&call) => {
                self.beside.file_calls += 1;
                // Others go on while it waits for data.
                if let Some((_, left)) = &mut self.turn {
                    *left = 0;
                }
            }
            _ => {}
        }
        pending.taken = end;
        Some(call)
    }
}

impl RequestSource for Accesses {
    fn next(&mut self) -> Result<Option<TraceRequest>, StreamError> {
        loop {
            match self.step()? {
                Some(Step::Access(request)) => return Ok(Some(request)),
                Some(Step::Call(_)) => {}
                None => return Ok(None),
            }
        }
    }

    fn times(&self) -> Times {
        Times::Absent
    }

    fn instructions(&self) -> Option<u64> {
        Some(self.instructions)
    }

    fn beside(&self) -> Beside {
        Beside { threads: self.order.started(), ..self.beside }
    }

    fn remarks(&self) -> Vec<String> {
        self.stream.ended_early().into_iter().collect()
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
