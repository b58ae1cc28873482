//! Leaving out of a recording what a first-level cache serves.
//!
//! Most accesses of most programs hit the nearest cache, and no machine whose first level is as large
//! sends them any further. Without them a recording is a fraction of its size, and what reaches main
//! memory and the store is nearly the same: `docs/formats/tst.md` says what is kept, and
//! `docs/explanation/recorder.md` how far that was measured.

use crate::counts::Counts;
use crate::op::{
    Advice, Call, FLAG_ATOMIC, FLAG_NON_TEMPORAL, MOST_DEPENDENCE, Op, OpKind, ThreadId,
};
use crate::site::SiteId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tierscope_units::Size;

/// Bytes of a line.
const LINE_BYTES: u64 = 64;
/// Lines in which one can be.
const WAYS: usize = 8;
/// The largest cache that is imitated: no first level is as large.
const MOST_BYTES: u64 = 1 << 20;

/// The cache whose hits are left out: 8 ways, lines of 64 bytes, least recently used, one for each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterSpec {
    /// Its size.
    pub capacity_bytes: u64,
    /// Lines in which one can be: 8.
    pub ways: u64,
    /// Bytes of a line: 64.
    pub line_bytes: u64,
}

impl FilterSpec {
    /// A cache of so many bytes. An error says why there is none, and what to write, for people.
    pub fn new(capacity: Size) -> Result<FilterSpec, (String, String)> {
        let bytes = capacity.bytes();
        let set_bytes = WAYS as u64 * LINE_BYTES;
        if !(set_bytes..=MOST_BYTES).contains(&bytes) || !bytes.is_multiple_of(set_bytes) {
            let reason = "the filter is a first-level cache of 8 ways of 64 B: a multiple of 512 B, at \
                          most 1 MiB";
            return Err((reason.into(), "write the size of the machine's, such as 32KiB".into()));
        }
        Ok(FilterSpec { capacity_bytes: bytes, ways: WAYS as u64, line_bytes: LINE_BYTES })
    }

    /// Whether there is such a cache: not of a damaged recording, perhaps.
    pub fn is_one(self) -> bool {
        FilterSpec::new(Size::from_bytes(self.capacity_bytes)) == Ok(self)
    }

    fn sets(self) -> usize {
        (self.capacity_bytes / (WAYS as u64 * LINE_BYTES)).max(1) as usize
    }
}

impl std::fmt::Display for FilterSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let (size, line) = (Size::from_bytes(self.capacity_bytes), self.line_bytes);
        write!(f, "{size}, {} ways, lines of {line} B", self.ways)
    }
}

/// Leaves out what a first-level cache serves.
///
/// Kept are accesses of which a line is not in the thread's cache, the first store to each line since it
/// came there, atomic accesses, calls, marks, and all instructions: those of what is left out count to
/// the next operation that is kept. A call that changes what memory holds, or whether a page is clean,
/// empties the caches of all threads.
///
/// What depended on a load that was left out had its value at once, and depends on nothing that is left; unless
/// that load had waited for the last one that is kept itself, for its address or for its line.
pub struct Filter {
    spec: FilterSpec,
    threads: BTreeMap<ThreadId, Thread>,
    /// How often all caches were emptied.
    emptied: u64,
    left_out: Counts,
}

impl Filter {
    /// A filter that has seen nothing.
    pub fn new(spec: FilterSpec) -> Filter {
        Filter { spec, threads: BTreeMap::new(), emptied: 0, left_out: Counts::default() }
    }

    /// Threads that it has seen.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Loads and stores that were left out so far.
    pub fn left_out(&self) -> Counts {
        self.left_out
    }

    /// Appends what is kept of the next operations of a thread, whole calls only, to `kept`.
    pub fn apply(&mut self, thread: ThreadId, ops: &[Op], kept: &mut Vec<Op>) {
        let (spec, emptied) = (self.spec, self.emptied);
        let thread = self.threads.entry(thread).or_insert_with(|| Thread::new(spec, emptied));
        let mut at = 0;
        while let Some(op) = ops.get(at) {
            thread.empty_if(self.emptied);
            let end = match op.kind() {
                Some(OpKind::Call) => (at + 1 + usize::from(op.size())).min(ops.len()),
                _ => at + 1,
            };
            match op.kind() {
                Some(OpKind::Load | OpKind::Store) => {
                    let (keeps, waits_for) = (thread.keeps(*op), thread.waits_for(*op));
                    if keeps {
                        let loads_back = waits_for.map_or(0, |number| thread.kept - number + 1);
                        thread.keep(op.depending_on(loads_back), kept);
                    } else {
                        thread.waiting += u64::from(op.instructions());
                        self.left_out.loads += u64::from(op.kind_code() == OpKind::Load as u8);
                        self.left_out.stores += u64::from(op.kind_code() == OpKind::Store as u8);
                    }
                    thread.note_load(*op, keeps, waits_for);
                }
                Some(OpKind::Site) => thread.site = op.word as SiteId,
                Some(OpKind::Call) => {
                    self.emptied += u64::from(changes_memory(&ops[at..end]));
                    thread.keep(*op, kept);
                    kept.extend_from_slice(&ops[at + 1..end]);
                }
                Some(OpKind::Used) => kept.push(*op),
                Some(OpKind::Compute) => thread.waiting += u64::from(op.instructions()),
                Some(OpKind::Flush) => {
                    self.emptied += 1;
                    thread.keep(*op, kept);
                }
                _ => thread.keep(*op, kept),
            }
            at = end;
        }
    }

    /// Instructions at the ends of threads that were not told of yet, as operations.
    pub fn rest(&mut self) -> Vec<(ThreadId, Op)> {
        let mut rest = Vec::new();
        for (number, thread) in &mut self.threads {
            while thread.waiting > 0 {
                let some = thread.waiting.min(u64::from(u32::MAX));
                thread.waiting -= some;
                rest.push((*number, Op::compute(some as u32)));
            }
        }
        rest
    }
}

/// Whether a call changes what memory holds, where it is, or whether a page counts as written.
fn changes_memory(ops: &[Op]) -> bool {
    let call = ops.split_first().and_then(|(header, arguments)| Call::decode(*header, arguments));
    match call {
        Some(
            Call::Map { .. }
            | Call::Unmap { .. }
            | Call::Remap { .. }
            | Call::Advise { .. }
            | Call::Read { .. }
            | Call::ReadDirect { .. }
            | Call::Sync { .. }
            | Call::SyncData { .. }
            | Call::SyncAll {}
            | Call::SyncRange { .. }
            | Call::SyncFileRange { .. }
            | Call::Truncate { .. }
            | Call::Allocate { .. }
            | Call::Lock { .. }
            | Call::LockAll { .. }
            | Call::Populate { .. }
            | Call::Skip { .. }
            | Call::Fork { .. }
            | Call::Exec { .. }
            | Call::Exit { .. },
        )
        | None => true,
        Some(Call::AdviseFile { advice, .. }) => advice == Advice::DontNeed as u64,
        // All named, so that a new call is looked at here. What a program writes from memory leaves it.
        Some(
            Call::Open { .. }
            | Call::Close { .. }
            | Call::Write { .. }
            | Call::WriteDirect { .. }
            | Call::CopyRange { .. }
            | Call::SpliceRead { .. }
            | Call::SpliceWrite { .. }
            | Call::Spawn { .. }
            | Call::Signal { .. }
            | Call::Wait { .. }
            | Call::Sleep { .. }
            | Call::Other { .. }
            | Call::Marker { .. }
            | Call::Unlink { .. }
            | Call::MakeDirectory { .. }
            | Call::RemoveDirectory { .. }
            | Call::ReadDirectory { .. }
            | Call::Rename { .. }
            | Call::Link { .. }
            | Call::Unname { .. }
            | Call::Unlock { .. }
            | Call::Protect { .. }
            | Call::Exists { .. }
            | Call::Stat { .. }
            | Call::Within { .. },
        ) => false,
    }
}

/// What is known of a thread.
struct Thread {
    cache: Cache,
    /// How often all caches had been emptied when this one was.
    emptied: u64,
    /// Instructions since the last operation that was kept.
    waiting: u64,
    /// The site at which it is, and the one that was told last; 0 where there is none.
    site: SiteId,
    told: SiteId,
    /// Loads that were kept, and the line of the last of them.
    kept: u64,
    kept_line: u64,
    /// All loads, and of each of the last which one of those kept, by its number, its value waits for.
    loads: usize,
    wait_for: [Option<u64>; MOST_DEPENDENCE as usize],
}

impl Thread {
    fn new(spec: FilterSpec, emptied: u64) -> Thread {
        Thread {
            cache: Cache::new(spec.sets()),
            emptied,
            waiting: 0,
            site: 0,
            told: 0,
            kept: 0,
            kept_line: u64::MAX,
            loads: 0,
            wait_for: [None; MOST_DEPENDENCE as usize],
        }
    }

    /// The load among those kept for which the address of an access waits, if it does for one.
    fn waits_for(&self, op: Op) -> Option<u64> {
        let loads_back = usize::from(op.dependence());
        let load = self.loads.checked_sub(loads_back).filter(|_| loads_back > 0)?;
        self.wait_for[load % self.wait_for.len()]
    }

    /// Notes a load, whose address waits for this one of those kept.
    fn note_load(&mut self, op: Op, keeps: bool, waits_for: Option<u64>) {
        if op.kind_code() != OpKind::Load as u8 {
            return;
        }
        let line = op.word / LINE_BYTES;
        if keeps {
            (self.kept, self.kept_line) = (self.kept + 1, line);
        }
        // What is in the line of the last one kept comes with it.
        let comes = line == self.kept_line;
        self.wait_for[self.loads % self.wait_for.len()] =
            if comes { Some(self.kept) } else { waits_for };
        self.loads += 1;
    }

    fn empty_if(&mut self, emptied: u64) {
        if self.emptied != emptied {
            self.emptied = emptied;
            self.cache.empty();
        }
    }

    /// Whether an access is kept. The cache takes all of its lines.
    fn keeps(&mut self, op: Op) -> bool {
        let write = op.kind_code() == OpKind::Store as u8;
        let first = op.word / LINE_BYTES;
        let last = op.word.saturating_add(u64::from(op.size().max(1)) - 1) / LINE_BYTES;
        let mut keeps = op.flags() & (FLAG_ATOMIC | FLAG_NON_TEMPORAL) != 0;
        for line in first..=last {
            keeps |= self.cache.use_line(line, write);
        }
        keeps
    }

    /// Keeps an operation, with the instructions that are waiting; those that do not fit go before it, and
    /// so does the site, where it is another than was told last.
    fn keep(&mut self, op: Op, kept: &mut Vec<Op>) {
        const MOST: u64 = u32::MAX as u64;
        if self.site != self.told {
            self.told = self.site;
            kept.push(Op::site(self.site));
        }
        let mut instructions = std::mem::take(&mut self.waiting) + u64::from(op.instructions());
        while instructions > MOST {
            kept.push(Op::compute(u32::MAX));
            instructions -= MOST;
        }
        kept.push(Op { word: op.word, meta: op.meta & MOST | instructions << 32 });
    }
}

/// Sets of lines, each in the order of their last use. A line is its number plus 1, twice, and one more
/// where it was written; what holds nothing is 0.
struct Cache {
    sets: Box<[[u64; WAYS]]>,
}

impl Cache {
    fn new(sets: usize) -> Cache {
        Cache { sets: vec![[0; WAYS]; sets].into() }
    }

    fn empty(&mut self) {
        self.sets.fill([0; WAYS]);
    }

    /// Uses a line. Whether it was not there, or is written for the first time since it came.
    #[inline]
    fn use_line(&mut self, line: u64, write: bool) -> bool {
        let sets = self.sets.len() as u64;
        let index = if sets.is_power_of_two() { line & (sets - 1) } else { line % sets };
        let set = &mut self.sets[index as usize];
        let (entry, write) = ((line + 1) << 1, u64::from(write));
        // Most are of the line that was used last.
        let way = if set[0] & !1 == entry {
            0
        } else {
            set.iter().position(|one| one & !1 == entry).unwrap_or(WAYS)
        };
        let before = set.get(way).copied().unwrap_or(0);
        set.copy_within(..way.min(WAYS - 1), 1);
        set[0] = entry | before & 1 | write;
        before == 0 || before & 1 < write
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::NO_FILE;
    use proptest::prelude::*;

    fn new(capacity_bytes: u64) -> Filter {
        Filter::new(FilterSpec::new(Size::from_bytes(capacity_bytes)).unwrap())
    }

    fn encoded(call: Call) -> Vec<Op> {
        let mut ops = Vec::new();
        call.encode(1, &mut ops);
        ops
    }

    fn applied(filter: &mut Filter, ops: &[Op]) -> Vec<Op> {
        let mut kept = Vec::new();
        filter.apply(0, ops, &mut kept);
        kept
    }

    #[test]
    fn what_depends_on_a_load_that_was_left_out_depends_on_what_that_waited_for() {
        let load = |line: u64| Op::load(line * LINE_BYTES, 8, 1);
        let dependent = |op: Op| op.depending_on(1);
        let mut filter = new(1 << 15);
        assert_eq!(applied(&mut filter, &[load(1), load(2)]), [load(1), load(2)]);
        // A hit had its value at once.
        let gather = [load(1), dependent(load(3)), load(1), dependent(load(4))];
        assert_eq!(
            applied(&mut filter, &gather),
            [load(3), load(4)].map(|op| Op { meta: op.meta + (1 << 32), ..op })
        );
        // One of the line of the last miss, and one that depends on that, had to wait.
        let chase = [load(5), load(5), dependent(load(6)), dependent(load(1)), dependent(load(7))];
        let waits = [load(5), dependent(load(6)), dependent(load(7))];
        let told = |ops: &[Op]| ops.iter().map(|op| (op.word, op.dependence())).collect::<Vec<_>>();
        let kept = applied(&mut filter, &chase);
        assert_eq!(told(&kept), told(&waits));
        // Two fields of a node, on lines of their own, with hits between, which may be left out or not.
        let fields = [
            load(8),
            load(1),
            load(9).depending_on(2),
            load(1),
            load(10).depending_on(4),
            load(11).depending_on(4),
        ];
        let waits =
            [load(8), load(9).depending_on(1), load(10).depending_on(2), load(11).depending_on(3)];
        let kept = applied(&mut filter, &fields);
        assert_eq!(told(&kept)[..3], told(&waits)[..3]);
        assert_eq!(told(&kept)[3], (11 * LINE_BYTES, 0), "that load had its value at once");
    }

    #[test]
    fn kept_are_misses_and_the_first_store_to_a_line_and_all_instructions() {
        let mut filter = new(512);
        let ops = [
            Op::load(0, 8, 3),
            Op::load(8, 8, 1),
            Op::store(16, 8, 1),
            Op::store(24, 8, 1),
            Op::compute(5),
            Op::load(60, 8, 2),
        ];
        let kept = applied(&mut filter, &ops);
        // The last crosses into a line that is not there.
        assert_eq!(kept, [Op::load(0, 8, 3), Op::store(16, 8, 2), Op::load(60, 8, 8)]);
        assert_eq!(filter.left_out(), Counts { loads: 1, stores: 1, ..Counts::default() });
        assert_eq!(applied(&mut filter, &[Op::load(0, 1, 7)]), []);
        assert_eq!(filter.rest(), [(0, Op::compute(7))]);
        assert_eq!(filter.rest(), []);
    }

    #[test]
    fn a_line_that_is_written_again_after_it_was_away_is_told_again() {
        let mut filter = new(512);
        let store = Op::store(0, 8, 1);
        assert_eq!(applied(&mut filter, &[store, store]), [store]);
        let others: Vec<Op> = (1..=8).map(|line| Op::load(64 * line, 8, 1)).collect();
        assert_eq!(applied(&mut filter, &others).len(), 8);
        assert_eq!(applied(&mut filter, &[store]), [store]);
    }

    #[test]
    fn calls_are_kept_and_those_that_change_memory_empty_every_threads_cache() {
        let load = Op::load(0, 8, 1);
        let map = Call::Map { address: 0, length: 4096, flags: 0, file: NO_FILE, offset: 0 };
        let read = Call::Read { file: 0, offset: 0, length: 4096, address: 0 };
        for (call, empties) in [
            (map, true),
            (read, true),
            (Call::Sync { file: 1 }, true),
            (Call::AdviseFile { file: 1, offset: 0, length: 0, advice: 4 }, true),
            (Call::AdviseFile { file: 1, offset: 0, length: 0, advice: 3 }, false),
            (Call::Lock { address: 0, length: 4096, flags: 0 }, true),
            (Call::Unlock { address: 0, length: 4096 }, false),
            (Call::Marker { mark: 1 }, false),
            (Call::Other { number: 39 }, false),
            (Call::Wait { thread: 1, sequence: 1 }, false),
        ] {
            let mut filter = new(32 << 10);
            for thread in [0, 1] {
                filter.apply(thread, &[load], &mut Vec::new());
            }
            let ops = encoded(call);
            assert_eq!(applied(&mut filter, &ops), ops, "{call:?}");
            let mut again = Vec::new();
            filter.apply(1, &[load], &mut again);
            assert_eq!(again.len(), usize::from(empties), "{call:?}");
        }
    }

    #[test]
    fn sites_are_told_of_what_is_kept_only() {
        let mut filter = new(512);
        let ops = [
            Op::site(2),
            Op::load(0, 8, 1),
            Op::site(3),
            Op::load(0, 8, 1),
            Op::site(4),
            Op::load(8, 8, 1),
            Op::site(2),
            Op::load(64, 8, 1),
            Op::site(3),
            Op::load(128, 8, 1),
        ];
        let expected =
            [Op::site(2), Op::load(0, 8, 1), Op::load(64, 8, 3), Op::site(3), Op::load(128, 8, 1)];
        assert_eq!(applied(&mut filter, &ops), expected);
    }

    #[test]
    fn atomic_accesses_are_kept() {
        let mut filter = new(512);
        let atomic = Op::load(0, 8, 1).with_flags(FLAG_ATOMIC);
        assert_eq!(applied(&mut filter, &[atomic, atomic]), [atomic, atomic]);
    }

    #[test]
    fn sizes_that_no_such_cache_has_are_refused() {
        for bytes in [0, 511, 513, 4 << 10 | 64, 2 << 20] {
            let (reason, mend) = FilterSpec::new(Size::from_bytes(bytes)).unwrap_err();
            assert!(reason.contains("multiple of 512 B") && mend.contains("32KiB"), "{bytes}");
        }
        // Sets need not be a power of two.
        assert_eq!(FilterSpec::new(Size::from_bytes(48 << 10)).unwrap().sets(), 96);
    }

    /// The plainest cache there is: for each set, lines in the order of their last use, and whether each
    /// was written.
    #[derive(Default)]
    struct Naive(BTreeMap<u64, Vec<(u64, bool)>>);

    impl Naive {
        fn use_line(&mut self, sets: u64, line: u64, write: bool) -> bool {
            let set = self.0.entry(line % sets).or_default();
            let found = set.iter().position(|(one, _)| *one == line);
            let (_, written) = found.map_or((line, false), |at| set.remove(at));
            set.insert(0, (line, written || write));
            set.truncate(WAYS);
            found.is_none() || write && !written
        }
    }

    proptest! {
        #[test]
        fn the_cache_is_least_recently_used(
            sets in 1usize..7, uses in prop::collection::vec((0u64..70, any::<bool>()), 1..500),
        ) {
            let (mut cache, mut naive) = (Cache::new(sets), Naive::default());
            for (line, write) in uses {
                let expected = naive.use_line(sets as u64, line, write);
                prop_assert_eq!(cache.use_line(line, write), expected);
            }
        }

        #[test]
        fn instructions_are_neither_lost_nor_made(
            accesses in prop::collection::vec((0u64..5000, any::<bool>(), 0u32..9), 1..400),
            most in prop::bool::ANY,
        ) {
            let mut filter = new(512);
            let ops: Vec<Op> = accesses
                .iter()
                .map(|(address, write, instructions)| {
                    let instructions = if most && *instructions > 6 { u32::MAX } else { *instructions };
                    let make = if *write { Op::store } else { Op::load };
                    make(*address, 8, instructions)
                })
                .collect();
            let all = Counts::of(&ops);
            let mut kept = applied(&mut filter, &ops);
            kept.extend(filter.rest().into_iter().map(|(_, op)| op));
            let (kept, left_out) = (Counts::of(&kept), filter.left_out());
            prop_assert_eq!(kept.instructions, all.instructions);
            prop_assert_eq!(kept.loads + left_out.loads, all.loads);
            prop_assert_eq!(kept.stores + left_out.stores, all.stores);
        }
    }
}
