//! Laws that every stream must keep, as tests to call.
//!
//! An implementation calls [`stream_laws`] from its own tests, with a function that makes a fresh
//! stream of one and the same short workload. The laws are those of [`Stream`]: operations depend
//! neither on the size nor on the order of the pulls, equal streams give equal operations, a fork
//! goes on identically, calls are never separated from their arguments, limits are kept, a skip
//! ends where pulling would have, what is told together is the same, the end is final, and the
//! partial order of synchronization lets every thread end. Random orders of pulls are shrunk to the
//! shortest that breaks a law.
//!
//! Built for tests only: by this crate's own, or with the feature `conformance`.

use crate::counts::Counts;
use crate::op::{Call, Op, OpKind, ThreadId, operations};
use crate::runs::{self, RING_BYTES, RUN};
use crate::stream::{Pull, Stream};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use std::collections::{BTreeMap, BTreeSet};

/// Random scripts for each law.
const CASES: u32 = 48;
/// Steps of the longest script.
const LONGEST: usize = 120;
/// A workload under test has fewer operations.
const SHORT: usize = 1 << 20;

/// The calls among operations, in their order.
pub fn calls_of(ops: &[Op]) -> Vec<Call> {
    operations(ops).filter_map(|(_, call)| call).collect()
}

/// Every call of a thread, to its end.
///
/// # Panics
/// Where the stream fails.
pub fn calls_of_thread(stream: &mut dyn Stream, thread: ThreadId) -> Vec<Call> {
    calls_of(&ops_of_thread(stream, thread))
}

/// Every operation of a thread, to its end.
///
/// # Panics
/// Where the stream fails.
pub fn ops_of_thread(stream: &mut dyn Stream, thread: ThreadId) -> Vec<Op> {
    let mut ops = Vec::new();
    while stream.pull(thread, 1000, &mut ops).unwrap() == Pull::More {}
    ops
}

/// Checks every law of [`Stream`] on streams made by `make`, all of the same workload, which ends
/// after less than 2²⁰ operations.
///
/// # Panics
/// When a law is broken, with the shortest order of pulls that breaks it.
pub fn stream_laws(make: impl Fn() -> Box<dyn Stream>) {
    laws_of_cases(CASES, make);
}

/// The same with so many random orders of pulls of each law.
pub(crate) fn laws_of_cases(cases: u32, make: impl Fn() -> Box<dyn Stream>) {
    let check = |name: &str, scripts, law: &dyn Fn(&[Step])| check(cases, name, scripts, law);
    let workload = Workload::pull(make().as_mut());
    workload.is_well_formed();
    workload.has_the_accesses_that_it_says(make().accesses());
    workload.goes_to_its_end();
    workload.begins_as_its_prelude_says(make().as_mut());
    let longest = workload.threads.values().map(Vec::len).max().unwrap_or(0) as u64;
    let scripts = || proptest::collection::vec(steps(longest), 1..LONGEST);
    check("operations do not depend on the size or order of the pulls", scripts(), &|script| {
        let mut walk = Walk::new(&workload, make());
        walk.take_all(script.iter().filter(|step| !step.skips));
        walk.end();
    });
    check("a skip ends where pulling would have", scripts(), &|script| {
        let mut walk = Walk::new(&workload, make());
        walk.take_all(script);
        walk.end();
    });
    check("what is told together is the same workload", scripts(), &|script| {
        workload.is_told_together(make().as_mut(), script);
    });
    check("a fork goes on identically, and leaves its origin alone", scripts(), &|script| {
        let (head, tail) = script.split_at(script.len() / 2);
        let mut original = Walk::new(&workload, make());
        original.take_all(head);
        let mut fork = original.fork();
        let mut waiting = original.fork();
        drop(original.fork());
        fork.take_all(tail);
        fork.end();
        original.take_all(tail);
        original.end();
        waiting.end();
    });
}

/// What is done to a thread that has started and not ended.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// Chooses the thread.
    thread: usize,
    /// Operations at most to pull, or to skip.
    count: u64,
    skips: bool,
}

fn steps(longest: u64) -> impl Strategy<Value = Step> {
    let count = prop_oneof![Just(0), 1..5u64, 1..100u64, 1..=longest.max(1)];
    let skips = proptest::bool::weighted(0.3);
    (0..64usize, count, skips).prop_map(|(thread, count, skips)| Step { thread, count, skips })
}

/// Runs `law` on random scripts; the shortest that breaks it is told.
fn check<S: Strategy<Value = Vec<Step>>>(
    cases: u32,
    name: &str,
    scripts: S,
    law: impl Fn(&[Step]),
) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&scripts, |script| {
        law(&script);
        Ok::<(), TestCaseError>(())
    });
    if let Err(failure) = outcome {
        panic!("broken: {name}\n{failure}");
    }
}

/// All operations of a workload, by thread.
struct Workload {
    threads: BTreeMap<ThreadId, Vec<Op>>,
    files: usize,
}

impl Workload {
    /// As long as there is a prelude, it tells how many operations of the first thread were taken, and what those of
    /// another that is the same are.
    fn begins_as_its_prelude_says(&self, stream: &mut dyn Stream) {
        let Some(prelude) = stream.prelude().cloned() else { return };
        assert_eq!(prelude.taken(), 0, "nothing was taken");
        let (mut own, mut ops) = (prelude.clone(), Vec::new());
        own.go_on(u64::MAX, Some(&mut ops));
        assert_eq!(ops, self.threads[&0][..ops.len()]);
        let mut taken = Vec::new();
        while taken.len() < ops.len() {
            pull(stream, 0, 3, &mut taken);
            let prelude = stream.prelude().expect("nothing beyond it was pulled");
            assert_eq!(prelude.taken(), taken.len() as u64);
            assert!(prelude.is_as(&own) && prelude.hash() == own.hash());
        }
        if pull(stream, 0, 3, &mut taken) == Pull::More {
            assert!(stream.prelude().is_none(), "what follows it was pulled");
        }
    }

    /// Pulls one thread after the other, each once a call has started it.
    fn pull(stream: &mut dyn Stream) -> Self {
        let mut workload = Workload { threads: BTreeMap::new(), files: 0 };
        let mut started = BTreeSet::from([0]);
        while let Some(thread) = started.pop_first() {
            if workload.threads.contains_key(&thread) {
                continue;
            }
            let mut ops = Vec::new();
            while pull(stream, thread, 4096, &mut ops) == Pull::More {
                assert!(ops.len() < SHORT, "thread {thread} of a short workload does not end");
            }
            started.extend(calls(&ops).filter_map(|(_, call)| match call {
                Call::Spawn { thread } => Some(thread),
                _ => None,
            }));
            workload.threads.insert(thread, ops);
        }
        workload.files = stream.files().len();
        workload
    }

    /// Every operation is known, every call has its arguments, and every file is.
    fn is_well_formed(&self) {
        for (thread, ops) in &self.threads {
            let mut index = 0;
            while index < ops.len() {
                let op = ops[index];
                let known = op.kind().is_some_and(|kind| kind != OpKind::Argument);
                assert!(known, "operation {index} of thread {thread}: {op:?}");
                let length = length(op);
                assert!(index + length <= ops.len(), "thread {thread} ends within a call");
                if length > 1 || op.kind() == Some(OpKind::Call) {
                    let call = Call::decode(op, &ops[index + 1..index + length]);
                    let call = call.unwrap_or_else(|| panic!("{op:?} of thread {thread}"));
                    let file = call.file().map_or(0, |file| file as usize + 1);
                    assert!(file <= self.files, "{call:?}, and there are {} files", self.files);
                }
                index += length;
            }
        }
    }

    /// A stream that says how many loads and stores it has is right.
    fn has_the_accesses_that_it_says(&self, said: Option<u64>) {
        let access = |op: &&Op| matches!(op.kind(), Some(OpKind::Load | OpKind::Store));
        let mut accesses = 0;
        for ops in self.threads.values() {
            let mut rest = ops.as_slice();
            while let Some(op) = rest.first() {
                accesses += u64::from(access(&op));
                rest = &rest[length(*op)..];
            }
        }
        assert_eq!(said.unwrap_or(accesses), accesses, "loads and stores that the stream says");
    }

    /// Runs the threads as the partial order lets them: all must come to their ends.
    fn goes_to_its_end(&self) {
        let mut calls: BTreeMap<ThreadId, _> =
            self.threads.iter().map(|(&t, ops)| (t, calls(ops).peekable())).collect();
        let mut signals: BTreeMap<ThreadId, u64> = BTreeMap::new();
        let (mut running, mut ended) = (BTreeSet::from([0]), BTreeSet::new());
        loop {
            let mut moved = false;
            for thread in running.clone() {
                let Some(own) = calls.get_mut(&thread) else { continue };
                while let Some(&(_, call)) = own.peek() {
                    match call {
                        Call::Spawn { thread } => drop(running.insert(thread)),
                        Call::Signal { sequence } => {
                            let last = signals.insert(thread, sequence).unwrap_or(0);
                            assert!(sequence > last, "thread {thread}: {sequence} after {last}");
                        }
                        Call::Wait { thread, sequence }
                            if signals.get(&thread).is_none_or(|&given| given < sequence)
                                && !ended.contains(&thread) =>
                        {
                            break;
                        }
                        _ => {}
                    }
                    own.next();
                    moved = true;
                }
                if own.peek().is_none() && running.remove(&thread) {
                    ended.insert(thread);
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        assert!(running.is_empty(), "threads {running:?} wait for ever");
    }

    /// Where a pull or skip of `count` operations from `from` on ends: at the end of a call, or of
    /// the thread.
    fn stop(&self, thread: ThreadId, from: usize, count: usize) -> usize {
        let ops = &self.threads[&thread];
        let mut at = from;
        while at < ops.len() && at < from + count {
            at += length(ops[at]);
        }
        at
    }
}

/// Operations that `op` and its arguments are.
fn length(op: Op) -> usize {
    if op.kind_code() == OpKind::Call as u8 { 1 + op.size() as usize } else { 1 }
}

/// The calls among `ops`, each with the index of its header.
fn calls(ops: &[Op]) -> impl Iterator<Item = (usize, Call)> + '_ {
    let mut index = 0;
    std::iter::from_fn(move || {
        while index < ops.len() {
            let at = index;
            index += length(ops[at]);
            let arguments = ops.get(at + 1..index).unwrap_or(&[]);
            if let Some(call) = (ops[at].kind_code() == OpKind::Call as u8)
                .then(|| Call::decode(ops[at], arguments))
                .flatten()
            {
                return Some((at, call));
            }
        }
        None
    })
}

/// Pulls, and checks what concerns this pull alone.
fn pull(stream: &mut dyn Stream, thread: ThreadId, limit: usize, out: &mut Vec<Op>) -> Pull {
    let before = out.clone();
    let pulled = stream.pull(thread, limit, out);
    let pulled = pulled.unwrap_or_else(|error| panic!("thread {thread}: {error}"));
    assert_eq!(out.get(..before.len()), Some(&*before), "what was there before is changed");
    let fresh = &out[before.len()..];
    assert_eq!(pulled == Pull::More, !fresh.is_empty(), "{pulled:?} with {}", fresh.len());
    let mut index = 0;
    while index < fresh.len() {
        assert!(index < limit.max(1), "{} operations for a limit of {limit}", fresh.len());
        index += length(fresh[index]);
    }
    assert_eq!(index, fresh.len(), "a call is separated from its arguments");
    pulled
}

impl Workload {
    /// Pulled now and then with runs, each thread has as many accesses of each kind and size to each ring's bytes, the
    /// same instructions, and the same calls in their order.
    fn is_told_together(&self, stream: &mut dyn Stream, script: &[Step]) {
        for (&thread, expected) in &self.threads {
            let mut ops = Vec::new();
            let every = script.iter().map(|step| (step.skips, step.count as usize));
            for (condensed, limit) in every.chain(std::iter::repeat((true, 1000))) {
                let from = ops.len();
                let pulled = if condensed {
                    stream.pull_condensed(thread, limit, &mut ops)
                } else {
                    stream.pull(thread, limit, &mut ops)
                };
                if pulled == Ok(Pull::End) {
                    break;
                }
                assert!(ops.len() > from, "thread {thread}: nothing was pulled");
                let runs = operations(&ops[from..]).filter(|(op, _)| op.kind_code() == RUN);
                assert!(condensed || runs.count() == 0, "thread {thread}: runs in a plain pull");
            }
            runs::expand(&mut ops, 0);
            let accesses = |ops: &[Op]| {
                let singles = operations(ops).filter(|(_, call)| call.is_none());
                let mut all = BTreeMap::<_, u64>::new();
                for (op, _) in singles {
                    *all.entry((op.word / RING_BYTES, op.meta as u32)).or_default() += 1;
                }
                all
            };
            let (found, wanted) = (accesses(&ops), accesses(expected));
            let other = found.iter().chain(&wanted).find(|(at, count)| {
                found.get(at) != Some(*count) || wanted.get(at) != Some(*count)
            });
            assert_eq!(other, None, "thread {thread}: so often in one of them alone");
            assert!(calls_of(&ops) == calls_of(expected), "thread {thread}: its calls are others");
            let instructions = |ops| Counts::of(ops).instructions;
            assert_eq!(instructions(&ops), instructions(expected), "thread {thread}");
        }
    }
}

/// A stream, and where it stands in each thread of the workload. Every step is compared with it.
struct Walk<'a> {
    workload: &'a Workload,
    stream: Box<dyn Stream>,
    positions: BTreeMap<ThreadId, usize>,
}

impl<'a> Walk<'a> {
    fn new(workload: &'a Workload, stream: Box<dyn Stream>) -> Self {
        Walk { workload, stream, positions: BTreeMap::from([(0, 0)]) }
    }

    fn fork(&self) -> Self {
        let (workload, positions) = (self.workload, self.positions.clone());
        Walk { workload, stream: self.stream.fork(), positions }
    }

    fn take_all<'s>(&mut self, script: impl IntoIterator<Item = &'s Step>) {
        for step in script {
            let open: Vec<ThreadId> = self
                .positions
                .iter()
                .filter(|(thread, at)| **at < self.workload.threads[thread].len())
                .map(|(thread, _)| *thread)
                .collect();
            if open.is_empty() {
                return;
            }
            let thread = open[step.thread % open.len()];
            let from = self.positions[&thread];
            let until = if step.skips {
                self.skip(thread, step.count)
            } else {
                self.pull(thread, step.count as usize)
            };
            self.arrive(thread, from, until);
        }
    }

    fn pull(&mut self, thread: ThreadId, limit: usize) -> usize {
        let from = self.positions[&thread];
        let mut out = Vec::new();
        pull(self.stream.as_mut(), thread, limit, &mut out);
        let rest = &self.workload.threads[&thread][from..];
        assert_eq!(Some(&*out), rest.get(..out.len()), "thread {thread} from {from} on");
        assert!(!out.is_empty(), "thread {thread} ends at {from}, {} too early", rest.len());
        from + out.len()
    }

    fn skip(&mut self, thread: ThreadId, count: u64) -> usize {
        let from = self.positions[&thread];
        let skipped = self.stream.skip(thread, count);
        let skipped = skipped.unwrap_or_else(|error| panic!("thread {thread}: {error}"));
        let until = self.workload.stop(thread, from, count as usize);
        assert_eq!(skipped as usize, until - from, "thread {thread}: {count} from {from} on");
        until
    }

    /// Thread `thread` has gone from `from` to `until`, and has started others on its way.
    fn arrive(&mut self, thread: ThreadId, from: usize, until: usize) {
        self.positions.insert(thread, until);
        for (at, call) in calls(&self.workload.threads[&thread]) {
            if let Call::Spawn { thread } = call
                && (from..until).contains(&at)
            {
                self.positions.entry(thread).or_insert(0);
            }
        }
    }

    /// Pulls all that is left, and then again: the end is final.
    fn end(&mut self) {
        loop {
            let open = |walk: &Self| {
                let mut threads = walk.positions.iter();
                threads.find(|(t, at)| **at < walk.workload.threads[t].len()).map(|(t, _)| *t)
            };
            let Some(thread) = open(self) else { break };
            let from = self.positions[&thread];
            let until = self.pull(thread, 1000);
            self.arrive(thread, from, until);
        }
        for _ in 0..2 {
            for &thread in self.workload.threads.keys() {
                let pulled = pull(self.stream.as_mut(), thread, 10, &mut Vec::new());
                assert_eq!(pulled, Pull::End, "thread {thread} goes on after its end");
                assert_eq!(self.stream.skip(thread, 10), Ok(0), "thread {thread}");
            }
        }
        assert_eq!(self.stream.files().len(), self.workload.files, "files");
    }
}

#[cfg(test)]
mod tests {
    //! The suite finds what it is for: streams broken in one way each.

    use super::*;
    use crate::feed::whole_operations;
    use crate::stream::{FileInfo, StreamError};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Fault {
        /// None: two threads, files, signals.
        None,
        /// A limit may end a pull within a call.
        SplitsCalls,
        /// A limit of one gives two operations.
        ExceedsLimits,
        /// Addresses depend on the size of the pull.
        SeesLimits,
        /// Addresses depend on which thread was pulled before.
        SeesOrder,
        /// No two streams are equal.
        DrawsLots,
        /// A fork starts anew.
        ForksFromTheStart,
        /// A fork and its origin stand at one place.
        SharesPlaces,
        /// It goes on after its end.
        Resumes,
        /// It ends early if asked for much.
        EndsEarly,
        /// What was pulled before is lost.
        ClearsOut,
        /// A skip forgets one.
        SkipsLess,
        /// A thread waits for a signal that never comes.
        Deadlocks,
        /// A call names a file that nobody knows.
        NamesNoFile,
    }

    struct Broken {
        fault: Fault,
        threads: Arc<BTreeMap<ThreadId, Vec<Op>>>,
        at: Arc<[AtomicU64; 2]>,
        last: ThreadId,
        salt: u64,
    }

    fn script(fault: Fault) -> BTreeMap<ThreadId, Vec<Op>> {
        let mut all = BTreeMap::from([(0, Vec::new()), (1, Vec::new())]);
        for (thread, ops) in &mut all {
            if *thread == 0 {
                Call::Spawn { thread: 1 }.encode(1, ops);
            }
            for index in 0..40 {
                ops.push(Op::load(u64::from(*thread) << 32 | index << 6, 8, 1));
                if index % 10 == 5 {
                    let file = if fault == Fault::NamesNoFile { 1 } else { 0 };
                    Call::Read { file, offset: index, length: 9, address: 0 }.encode(1, ops);
                }
            }
            let sequence = if fault == Fault::Deadlocks { 2 } else { 1 };
            match thread {
                0 => Call::Wait { thread: 1, sequence }.encode(1, ops),
                _ => Call::Signal { sequence: 1 }.encode(1, ops),
            }
            if fault == Fault::Deadlocks && *thread == 1 {
                Call::Wait { thread: 0, sequence: 1 }.encode(1, ops);
            }
        }
        all
    }

    impl Broken {
        fn new(fault: Fault) -> Self {
            static MADE: AtomicU64 = AtomicU64::new(0);
            let made = MADE.fetch_add(1, Ordering::Relaxed);
            let salt = if fault == Fault::DrawsLots { made } else { 0 };
            let threads = Arc::new(script(fault));
            Broken { fault, threads, at: Arc::default(), last: 0, salt }
        }
    }

    impl Stream for Broken {
        fn pull(
            &mut self,
            thread: ThreadId,
            limit: usize,
            out: &mut Vec<Op>,
        ) -> Result<Pull, StreamError> {
            if self.fault == Fault::ClearsOut {
                out.clear();
            }
            let at = self.at[thread as usize].load(Ordering::Relaxed) as usize;
            let ops = &self.threads[&thread];
            if at == ops.len() || self.fault == Fault::EndsEarly && limit > 30 && at > 10 {
                if self.fault == Fault::Resumes {
                    self.at[thread as usize].store(at as u64 - 1, Ordering::Relaxed);
                }
                return Ok(Pull::End);
            }
            let rest = &ops[at..];
            let taken = match self.fault {
                Fault::SplitsCalls => limit.clamp(1, rest.len()),
                Fault::ExceedsLimits => whole_operations(rest, limit.max(2)),
                _ => whole_operations(rest, limit.max(1)),
            };
            let salt = match self.fault {
                Fault::SeesLimits => limit as u64 % 64,
                Fault::SeesOrder => u64::from(self.last),
                _ => self.salt,
            };
            out.extend(rest[..taken].iter().map(|op| match op.kind() {
                Some(OpKind::Load) => Op { word: op.word ^ salt, ..*op },
                _ => *op,
            }));
            self.at[thread as usize].store((at + taken) as u64, Ordering::Relaxed);
            self.last = thread;
            Ok(Pull::More)
        }

        fn skip(&mut self, thread: ThreadId, count: u64) -> Result<u64, StreamError> {
            let at = self.at[thread as usize].load(Ordering::Relaxed) as usize;
            let rest = &self.threads[&thread][at..];
            let count = if self.fault == Fault::SkipsLess { count / 2 } else { count };
            let taken = if count == 0 { 0 } else { whole_operations(rest, count as usize) };
            self.at[thread as usize].store((at + taken) as u64, Ordering::Relaxed);
            Ok(taken as u64)
        }

        fn fork(&self) -> Box<dyn Stream> {
            let place = |t: usize| AtomicU64::new(self.at[t].load(Ordering::Relaxed));
            let at = match self.fault {
                Fault::ForksFromTheStart => Arc::default(),
                Fault::SharesPlaces => self.at.clone(),
                _ => Arc::new([place(0), place(1)]),
            };
            Box::new(Broken { at, threads: self.threads.clone(), ..*self })
        }

        fn files(&self) -> Arc<Vec<FileInfo>> {
            Arc::new(vec![FileInfo { name: "a".into(), size_bytes: 100 }])
        }
    }

    fn is_found(fault: Fault) -> bool {
        let checked = || stream_laws(|| Box::new(Broken::new(fault)));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(checked)).is_err()
    }

    #[test]
    fn each_fault_is_found() {
        assert!(!is_found(Fault::None), "the suite refuses a good stream");
        for fault in [
            Fault::SplitsCalls,
            Fault::ExceedsLimits,
            Fault::SeesLimits,
            Fault::SeesOrder,
            Fault::DrawsLots,
            Fault::ForksFromTheStart,
            Fault::SharesPlaces,
            Fault::Resumes,
            Fault::EndsEarly,
            Fault::ClearsOut,
            Fault::SkipsLess,
            Fault::Deadlocks,
            Fault::NamesNoFile,
        ] {
            assert!(is_found(fault), "the suite passes a stream that {fault:?}");
        }
    }
}
