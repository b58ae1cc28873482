//! What a workload touches: its footprint, counted by going through its operations once, on no
//! machine.

use crate::op::{Call, Op, OpKind, ThreadId};
use crate::stream::{Pull, Stream, StreamError};
use std::collections::{HashMap, HashSet, VecDeque};

/// Unit in which a footprint is counted.
pub const PAGE_BYTES: u64 = 4096;

const PAGES_IN_A_CHUNK: u64 = 4096;
const AT_ONCE: usize = 1 << 16;
/// Operations of a thread's turn: few against what a process does.
const TURN: usize = 1 << 10;
/// A range that is given back and is so long is all of a process's memory: it has ended, or runs
/// another program.
const A_PROCESS_BYTES: u64 = 1 << 47;

/// What was touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Different pages of memory that were loaded from or stored to, by calls too, in bytes: the most
    /// that there were at a time, where processes end and their memory goes.
    pub memory_bytes: u64,
    /// Different pages of files that were read or written by calls, in bytes. A page of a file that
    /// is both mapped and read by calls counts here and in memory.
    pub file_bytes: u64,
}

impl Touched {
    /// All of it.
    pub fn bytes(self) -> u64 {
        self.memory_bytes + self.file_bytes
    }
}

/// Goes through a workload and counts what it touches; `None` where `goes_on`, which is asked now
/// and then, said no.
///
/// Memory that is given back and taken anew counts once where its addresses are the same, and what
/// is moved to other addresses twice. That of a process goes as it ends, or runs another program.
/// Threads take turns, in the order that they wait for each other: what runs at the same time on a
/// machine does so here too, about. The count ends early where the workload says how much it maps and
/// all of that has been touched.
///
/// # Errors
/// The stream's.
pub fn touched(
    stream: &mut dyn Stream,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Option<Touched>, StreamError> {
    let mapped_pages = stream.footprint().map(|footprint| footprint.bytes / PAGE_BYTES);
    let mut count = Count::default();
    let mut order = Order::default();
    order.start(0);
    let mut threads: HashMap<ThreadId, Pending> = HashMap::new();
    while let Some(thread) = order.next() {
        let pending = threads.entry(thread).or_default();
        if pending.is_empty() {
            pending.ops.clear();
            pending.taken = 0;
            if stream.pull(thread, AT_ONCE, &mut pending.ops)? == Pull::End {
                threads.remove(&thread);
                order.end(thread);
                continue;
            }
        }
        let taken = count.take(thread, &pending.ops[pending.taken..], &mut order);
        pending.taken += taken;
        order.went_on(taken > 0);
        let whole = mapped_pages.is_some_and(|pages| count.memory.pages >= pages);
        if whole && stream.files().is_empty() {
            return Ok(Some(count.touched()));
        }
        if !goes_on() {
            return Ok(None);
        }
    }
    Ok(Some(count.touched()))
}

/// Operations of a thread that were pulled, and how many of them were taken.
#[derive(Default)]
struct Pending {
    ops: Vec<Op>,
    taken: usize,
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.taken == self.ops.len()
    }
}

/// Whose turn it is, and what threads have signalled to each other.
#[derive(Default)]
struct Order {
    turns: VecDeque<ThreadId>,
    started: HashSet<ThreadId>,
    ended: HashSet<ThreadId>,
    signals: HashMap<ThreadId, u64>,
    /// How many have had their turn since one went on.
    stuck: usize,
}

impl Order {
    fn start(&mut self, thread: ThreadId) {
        if self.started.insert(thread) {
            self.turns.push_back(thread);
        }
    }

    fn next(&mut self) -> Option<ThreadId> {
        self.turns.rotate_left(usize::from(!self.turns.is_empty()));
        self.turns.back().copied()
    }

    fn end(&mut self, thread: ThreadId) {
        self.turns.retain(|other| *other != thread);
        self.ended.insert(thread);
        self.stuck = 0;
    }

    fn went_on(&mut self, went_on: bool) {
        self.stuck = if went_on { 0 } else { self.stuck + 1 };
    }

    /// Whether the signal has been given that a thread waits for. Where all wait for ever, as they may
    /// in a recording that was cut off, they go on.
    fn may_pass(&self, thread: ThreadId, sequence: u64) -> bool {
        let given = self.signals.get(&thread).is_some_and(|given| *given >= sequence);
        given || self.ended.contains(&thread) || self.stuck >= self.turns.len()
    }
}

#[derive(Default)]
struct Count {
    memory: Pages,
    files: HashMap<u32, Pages>,
    /// Of memory, before processes ended.
    most_pages: u64,
}

impl Count {
    /// Takes what a thread does in its turn, or up to where it has to wait; how many operations that
    /// were.
    fn take(&mut self, thread: ThreadId, ops: &[Op], order: &mut Order) -> usize {
        let mut at = 0;
        while let Some(op) = ops.get(at).filter(|_| at < TURN) {
            at += 1;
            match op.kind() {
                Some(OpKind::Load | OpKind::Store) => {
                    self.memory.add(op.word, u64::from(op.size()));
                }
                Some(OpKind::Call) => {
                    let arguments = &ops[at..];
                    match Call::decode(*op, arguments) {
                        Some(Call::Spawn { thread }) => order.start(thread),
                        Some(Call::Signal { sequence }) => {
                            _ = order.signals.insert(thread, sequence)
                        }
                        Some(Call::Wait { thread, sequence })
                            if !order.may_pass(thread, sequence) =>
                        {
                            return at - 1;
                        }
                        Some(Call::Wait { .. }) => order.stuck = 0,
                        Some(call) => self.call(call),
                        None => {}
                    }
                    at += usize::from(op.size()).min(arguments.len());
                }
                _ => {}
            }
        }
        at
    }

    fn call(&mut self, call: Call) {
        if let Call::Read { file, offset, length, address }
        | Call::Write { file, offset, length, address } = call
            && length > 0
        {
            self.memory.add(address, length);
            self.files.entry(file).or_default().add(offset, length);
        }
        if let Call::Unmap { address, length } = call
            && length >= A_PROCESS_BYTES
        {
            self.most_pages = self.most_pages.max(self.memory.pages);
            self.memory.forget(address, length);
        }
    }

    fn touched(&self) -> Touched {
        let in_files: u64 = self.files.values().map(|pages| pages.pages).sum();
        let in_memory = self.most_pages.max(self.memory.pages);
        Touched { memory_bytes: in_memory * PAGE_BYTES, file_bytes: in_files * PAGE_BYTES }
    }
}

/// A set of pages, a bit each.
#[derive(Default)]
struct Pages {
    chunks: HashMap<u64, Box<[u64; (PAGES_IN_A_CHUNK / 64) as usize]>>,
    /// The page that was added last: most accesses are to the same.
    last: Option<u64>,
    pages: u64,
}

impl Pages {
    #[inline]
    fn add(&mut self, address: u64, bytes: u64) {
        let first = address / PAGE_BYTES;
        let last = address.saturating_add(bytes.max(1) - 1) / PAGE_BYTES;
        if first == last && self.last == Some(first) {
            return;
        }
        self.last = Some(last);
        (first..=last).for_each(|page| self.add_page(page));
    }

    /// Forgets the pages of a range whose bounds are those of chunks.
    fn forget(&mut self, address: u64, bytes: u64) {
        let chunk_of = |address: u64| address / (PAGES_IN_A_CHUNK * PAGE_BYTES);
        let range = chunk_of(address)..=chunk_of(address.saturating_add(bytes - 1));
        let mut forgotten = 0;
        self.chunks.retain(|chunk, bits| {
            let kept = !range.contains(chunk);
            if !kept {
                forgotten += bits.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
            }
            kept
        });
        self.pages -= forgotten;
        self.last = None;
    }

    fn add_page(&mut self, page: u64) {
        let chunk = self.chunks.entry(page / PAGES_IN_A_CHUNK);
        let bits = chunk.or_insert_with(|| Box::new([0; (PAGES_IN_A_CHUNK / 64) as usize]));
        let place = page % PAGES_IN_A_CHUNK;
        let (word, bit) = (&mut bits[(place / 64) as usize], 1 << (place % 64));
        if *word & bit == 0 {
            *word |= bit;
            self.pages += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::find;
    use crate::op::NO_FILE;
    use serde_json::Value;

    fn gups(sets: &[(&str, Value)]) -> Box<dyn Stream> {
        let sets: Vec<_> = sets.iter().map(|(n, v)| (n.to_string(), v.clone())).collect();
        find("gups").unwrap().make(&sets, 1).unwrap().0
    }

    fn bytes_of(stream: &mut dyn Stream) -> u64 {
        touched(stream, &mut || true).unwrap().unwrap().bytes()
    }

    #[test]
    fn every_page_counts_once_however_many_threads_touch_it() {
        for threads in [1, 3] {
            let sets = [
                ("table", "1MiB".into()),
                ("updates", 150_000.into()),
                ("random", 0.0.into()),
                ("threads", threads.into()),
            ];
            assert_eq!(bytes_of(&mut *gups(&sets)), 1 << 20);
        }
    }

    #[test]
    fn what_is_only_mapped_does_not_count() {
        let sets = [("table", "1GiB".into()), ("updates", 10.into()), ("random", 0.0.into())];
        assert_eq!(bytes_of(&mut *gups(&sets)), PAGE_BYTES);
    }

    #[test]
    fn a_workload_without_end_is_counted_once_all_that_it_maps_was_touched() {
        let sets = [("table", "1MiB".into()), ("updates", 1_000_000_000_000_u64.into())];
        assert_eq!(bytes_of(&mut *gups(&sets)), 1 << 20);
    }

    #[test]
    fn who_says_stop_gets_nothing() {
        let sets = [("updates", 1_000_000.into())];
        assert_eq!(touched(&mut *gups(&sets), &mut || false), Ok(None));
    }

    #[test]
    fn calls_count_pages_of_files_and_of_memory() {
        let mut ops = Vec::new();
        Call::Map { address: 0, length: 1 << 30, flags: 0, file: NO_FILE, offset: 0 }
            .encode(1, &mut ops);
        Call::Read { file: 0, offset: 100, length: 8192, address: 4000 }.encode(1, &mut ops);
        Call::Write { file: 1, offset: 0, length: 1, address: 4000 }.encode(1, &mut ops);
        Call::Read { file: 0, offset: 0, length: 0, address: 4000 }.encode(1, &mut ops);
        ops.push(Op::store(3 * PAGE_BYTES - 1, 2, 1));
        let mut count = Count::default();
        assert_eq!(count.take(0, &ops, &mut Order::default()), ops.len());
        // Memory: bytes 4000 to 12191 are on pages 0 to 2, and the store reaches page 3.
        assert_eq!(count.memory.pages, 4);
        assert_eq!(count.touched(), Touched { memory_bytes: 4 * 4096, file_bytes: 4 * 4096 });
    }

    /// Operations of threads, thread 0 first.
    #[derive(Clone)]
    struct Threads(Vec<VecDeque<Op>>);

    impl Stream for Threads {
        fn pull(
            &mut self,
            thread: ThreadId,
            limit: usize,
            out: &mut Vec<Op>,
        ) -> Result<Pull, StreamError> {
            let ops = &mut self.0[thread as usize];
            out.extend(ops.drain(..limit.min(ops.len())));
            Ok(if out.is_empty() { Pull::End } else { Pull::More })
        }

        fn fork(&self) -> Box<dyn Stream> {
            Box::new(self.clone())
        }
    }

    /// What a process with this number does: so many pages are touched, and then all goes.
    fn process(number: u64, pages: u64, before: &[Call], after: &[Call]) -> VecDeque<Op> {
        let start = number << 48;
        let mut ops = Vec::new();
        before.iter().for_each(|call| call.encode(1, &mut ops));
        ops.extend((0..pages).map(|page| Op::store(start + page * PAGE_BYTES, 8, 1)));
        after.iter().for_each(|call| call.encode(1, &mut ops));
        Call::Unmap { address: start, length: 1 << 47 }.encode(1, &mut ops);
        Call::Signal { sequence: LAST }.encode(1, &mut ops);
        ops.into()
    }

    /// The signal that a process gives as it ends.
    const LAST: u64 = 9;

    fn pages_of(threads: Vec<VecDeque<Op>>) -> u64 {
        bytes_of(&mut Threads(threads)) / PAGE_BYTES
    }

    #[test]
    fn processes_that_follow_each_other_count_as_the_largest_with_who_waits_for_them() {
        let starts = [1, 2].map(|thread| Call::Spawn { thread });
        let waits = [1, 2].map(|thread| Call::Wait { thread, sequence: LAST });
        let shell = process(0, 10, &[], &[starts[0], waits[0], starts[1], waits[1]]);
        let one_by_one = vec![shell, process(1, 3000, &[], &[]), process(2, 2000, &[], &[])];
        assert_eq!(pages_of(one_by_one), 3010);
    }

    #[test]
    fn processes_that_run_at_the_same_time_count_together() {
        let starts = [1, 2].map(|thread| Call::Spawn { thread });
        let waits = [1, 2].map(|thread| Call::Wait { thread, sequence: LAST });
        let shell = |calls: &[Call]| process(0, 10, &[], calls);
        let calls = [starts[0], starts[1], waits[0], waits[1]];
        // The first does not end before the second has come so far.
        let so_far = Call::Wait { thread: 2, sequence: 1 };
        let first = process(1, 300, &[], &[so_far]);
        let second = process(2, 200, &[], &[Call::Signal { sequence: 1 }]);
        assert_eq!(pages_of(vec![shell(&calls), first, second]), 510);
        // Without that they take turns.
        let [first, second] = [1, 2].map(|number| process(number, 20_000, &[], &[]));
        let together = pages_of(vec![shell(&calls), first, second]);
        assert!((38_000..=40_010).contains(&together), "{together}");
    }

    #[test]
    fn who_waits_for_ever_is_counted_to_the_end() {
        let wait = |thread| Call::Wait { thread, sequence: 1 };
        let first = process(0, 10, &[Call::Spawn { thread: 1 }, wait(1)], &[]);
        assert_eq!(pages_of(vec![first, process(1, 20, &[wait(0)], &[])]), 20);
    }
}
