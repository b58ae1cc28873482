//! Laws of the count.

use super::*;
use crate::generator::find;
use crate::op::{MAP_SHARED, MAP_WRITABLE, NO_FILE};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::VecDeque;

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

#[test]
fn what_a_fork_shares_counts_once_until_it_is_written() {
    let (parent, child) = (100, 1 << 36 | 100);
    let before = |more: Vec<Step>| {
        let fork = Step::Call(Call::Fork { parent: 0, process: 1, thread: 1 });
        let mut steps = vec![map(200, 4, 3, 0, 0), Store(parent), Store(parent + 1), fork];
        steps.extend(more);
        pages_touched(&steps)
    };
    assert_eq!(before(vec![Load(child), Load(child + 1)]), (2, 0), "read: shared");
    assert_eq!(before(vec![Load(child), Store(child)]), (3, 0), "written: its own");
    assert_eq!(before(vec![Load(child + 2)]), (3, 0), "what the parent never had");
    assert_eq!(before(vec![Load(1 << 36 | 201)]), (2, 1), "a mapping of a file is inherited");
    let exec = Step::Call(Call::Exec { process: 1 });
    assert_eq!(
        before(vec![Store(child), exec, Load(child)]),
        (3, 0),
        "after exec, memory of its own"
    );
}

/// What calls and accesses touch, in pages: of memory, and of files.
fn pages_touched(steps: &[Step]) -> (u64, u64) {
    let mut count = Count::default();
    for step in steps {
        let mut ops = Vec::new();
        match *step {
            Step::Load(page) => ops.push(Op::load(page * PAGE_BYTES, 8, 1)),
            Step::Store(page) => ops.push(Op::store(page * PAGE_BYTES, 8, 1)),
            Step::Call(call) => call.encode(1, &mut ops),
        }
        assert_eq!(count.take(0, &ops, &mut Order::default()), ops.len());
    }
    let touched = count.touched();
    (touched.memory_bytes / PAGE_BYTES, touched.file_bytes / PAGE_BYTES)
}

#[derive(Debug)]
enum Step {
    Load(u64),
    Store(u64),
    Call(Call),
}

use Step::{Load, Store};

fn map(page: u64, pages: u64, file: u32, first: u64, flags: u64) -> Step {
    let (address, length) = (page * PAGE_BYTES, pages * PAGE_BYTES);
    Step::Call(Call::Map { address, length, flags, file, offset: first * PAGE_BYTES })
}

fn unmap(page: u64, pages: u64) -> Step {
    let (address, length) = (page * PAGE_BYTES, pages * PAGE_BYTES);
    Step::Call(Call::Unmap { address, length })
}

fn read(file: u32, page: u64, pages: u64, to: u64) -> Step {
    let (offset, length) = (page * PAGE_BYTES, pages * PAGE_BYTES);
    Step::Call(Call::Read { file, offset, length, address: to * PAGE_BYTES })
}

#[test]
fn a_page_of_a_file_counts_once_however_it_is_reached_and_however_often_it_is_mapped() {
    let again = [
        map(100, 4, 0, 0, MAP_SHARED),
        Load(100),
        Store(101),
        unmap(100, 4),
        map(200, 4, 0, 0, MAP_SHARED),
        Load(200),
        Load(201),
        map(300, 2, 0, 1, 0),
        Load(300),
        read(0, 0, 2, 400),
    ];
    // Pages 0 and 1 of the file; what the call read into is memory.
    assert_eq!(pages_touched(&again), (2, 2));
    let other = [map(0, 2, 0, 0, 0), Load(0), map(8, 2, 1, 0, 0), Load(8)];
    assert_eq!(pages_touched(&other), (0, 2), "pages of two files are two");
}

#[test]
fn a_store_to_a_private_mapping_makes_a_page_of_memory_beside_the_files() {
    assert_eq!(pages_touched(&[map(0, 4, 0, 7, 0), Load(1)]), (0, 1));
    assert_eq!(pages_touched(&[map(0, 4, 0, 7, 0), Load(1), Store(1), Store(1)]), (1, 1));
    assert_eq!(pages_touched(&[map(0, 4, 0, 7, MAP_SHARED), Load(1), Store(1)]), (0, 1));
}

#[test]
fn memory_that_is_given_back_does_not_count_with_what_takes_its_place() {
    let mut steps = Vec::new();
    for round in 0..5 {
        // At the same place, and at others.
        for page in [0, round * 1000] {
            steps.extend([
                map(page, 3, NO_FILE, 0, 0),
                Store(page),
                Store(page + 2),
                unmap(page, 3),
            ]);
        }
    }
    assert_eq!(pages_touched(&steps), (2, 0));
    let over = [Store(5), Store(6), map(5, 2, NO_FILE, 0, 0), Store(6)];
    assert_eq!(pages_touched(&over), (2, 0), "mapped over, they are new, and no more");
    let advice = Advice::DontNeed as u64;
    let given = Step::Call(Call::Advise { address: 0, length: 4 * PAGE_BYTES, advice });
    assert_eq!(pages_touched(&[Store(0), Store(1), given, Store(9), Load(10)]), (2, 0));
    assert_eq!(pages_touched(&[Store(0), unmap(0, 1), Load(0), Load(1)]), (2, 0));
}

#[test]
fn what_a_call_brings_to_memory_counts_and_what_is_only_locked_does_not() {
    let (address, length) = (10 * PAGE_BYTES, 20 * PAGE_BYTES);
    let mapped = |flags| map(10, 20, NO_FILE, 0, flags);
    let lock = |flags| Step::Call(Call::Lock { address, length, flags });
    let all = |flags| Step::Call(Call::LockAll { process: 0, flags });
    let populate = Step::Call(Call::Populate { address, length, how: 0 });
    let [_, future, on_fault] = LOCK_ALL;
    for (steps, pages) in [
        ([mapped(0), lock(0), Load(10)], 20),
        ([mapped(0), lock(LOCK_ON_FAULT), Load(10)], 1),
        ([mapped(0), populate, Load(10)], 20),
        ([mapped(MAP_POPULATE), Load(10), Load(11)], 20),
        ([mapped(MAP_LOCKED | MAP_NO_ACCESS), Load(10), Load(11)], 2),
        ([all(future), mapped(0), Load(10)], 20),
        ([all(future | on_fault), mapped(0), Load(10)], 1),
        ([all(future), all(0), mapped(0)], 0),
    ] {
        assert_eq!(pages_touched(&steps), (pages, 0), "{steps:?}");
    }
    let file = |flags| pages_touched(&[map(10, 20, 0, 0, flags), lock(0)]);
    assert_eq!(file(MAP_SHARED | MAP_WRITABLE), (0, 20));
    assert_eq!(file(0), (0, 20));
    assert_eq!(file(MAP_WRITABLE), (20, 20), "private pages that can be stored to are copied");
}

#[test]
fn what_is_moved_is_the_same_memory() {
    let remap = |from: u64, pages: u64, to: u64, more: u64| {
        let (old_address, new_address) = (from * PAGE_BYTES, to * PAGE_BYTES);
        let (old_length, new_length) = (pages * PAGE_BYTES, more * PAGE_BYTES);
        Step::Call(Call::Remap { old_address, old_length, new_address, new_length })
    };
    let moved = [Store(0), Store(1), remap(0, 2, 5000, 4), Load(5000), Store(5001), Store(5003)];
    assert_eq!(pages_touched(&moved), (3, 0));
    let shrunk = [Store(0), Store(1), remap(0, 2, 0, 1), Store(7), Load(0)];
    assert_eq!(pages_touched(&shrunk), (2, 0), "what is cut off is gone");
    let file = [map(0, 2, 0, 0, MAP_SHARED), Load(0), remap(0, 2, 50, 4), Load(50), Load(53)];
    assert_eq!(pages_touched(&file), (0, 2), "pages 0 and 3 of the file");
}

#[test]
fn ranges_that_cannot_be_do_no_harm() {
    let whole = |length| Call::Map { address: 4096, length, flags: 0, file: 3, offset: u64::MAX };
    let remap = Call::Remap {
        old_address: 0,
        old_length: u64::MAX,
        new_address: u64::MAX - 4096,
        new_length: u64::MAX,
    };
    let far = Op::store(u64::MAX, 8, 1);
    let mut count = Count::default();
    for call in
        [whole(u64::MAX), whole(0), remap, Call::Unmap { address: u64::MAX, length: u64::MAX }]
    {
        let mut ops = vec![far];
        call.encode(1, &mut ops);
        ops.push(Op::load(4096, 8, 1));
        count.take(0, &ops, &mut Order::default());
    }
    assert!(count.touched().bytes() < 1 << 20);
}

proptest! {
    /// Against a plain map of pages.
    #[test]
    fn random_mappings_count_as_a_plain_map_does(
        steps in prop::collection::vec((0u8..7, 0u64..40, 1u64..20, 0u32..3, 0u64..40), 1..80)
    ) {
        let mut plain = Plain::default();
        let mut all = Vec::new();
        for (kind, page, pages, file, other) in steps {
            let step = match kind {
                0 | 1 => Load(page),
                2 => Store(page),
                3 => map(page, pages, if file == 2 { NO_FILE } else { file }, other, other % 2),
                4 => unmap(page, pages),
                5 => read(file, other, pages, page),
                _ => {
                    let (old_address, new_address) = (page * PAGE_BYTES, (100 + other) * PAGE_BYTES);
                    let (old_length, new_length) = (pages * PAGE_BYTES, (1 + other) * PAGE_BYTES);
                    Step::Call(Call::Remap { old_address, old_length, new_address, new_length })
                }
            };
            plain.take(&step);
            all.push(step);
        }
        prop_assert_eq!(pages_touched(&all), (plain.most, plain.files.len() as u64));
    }
}

/// The count as it would be made with nothing but maps and sets of pages.
#[derive(Default)]
struct Plain {
    mapped: HashMap<u64, (u32, u64, bool)>,
    anonymous: std::collections::BTreeSet<u64>,
    files: std::collections::BTreeSet<(u32, u64)>,
    most: u64,
}

impl Plain {
    fn touch(&mut self, page: u64, write: bool) {
        let backing = self.mapped.get(&page).copied();
        self.files.extend(backing.map(|(file, at, _)| (file, at)));
        if backing.is_none_or(|(.., shared)| write && !shared) {
            self.anonymous.insert(page);
        }
        self.most = self.most.max(self.anonymous.len() as u64);
    }

    fn clear(&mut self, pages: std::ops::Range<u64>) {
        for page in pages {
            self.mapped.remove(&page);
            self.anonymous.remove(&page);
        }
    }

    fn take(&mut self, step: &Step) {
        let page_of = |address: u64| address / PAGE_BYTES;
        match *step {
            Load(page) => self.touch(page, false),
            Store(page) => self.touch(page, true),
            Step::Call(Call::Map { address, length, flags, file, offset }) => {
                let (start, count) = (page_of(address), page_of(length));
                self.clear(start..start + count);
                for at in (0..count).filter(|_| file != NO_FILE) {
                    let backing = (file, page_of(offset) + at, flags & MAP_SHARED != 0);
                    self.mapped.insert(start + at, backing);
                }
            }
            Step::Call(Call::Unmap { address, length }) => {
                self.clear(page_of(address)..page_of(address) + page_of(length));
            }
            Step::Call(Call::Read { file, offset, length, address }) => {
                for at in 0..page_of(length) {
                    self.touch(page_of(address) + at, true);
                    self.files.insert((file, page_of(offset) + at));
                }
            }
            Step::Call(Call::Remap { old_address, old_length, new_address, new_length }) => {
                let (old, new) = (page_of(old_address), page_of(new_address));
                let (had, has) = (page_of(old_length), page_of(new_length));
                let last = self.mapped.get(&(old + had - 1)).copied();
                let kept: Vec<_> = (0..had.min(has))
                    .map(|at| {
                        (
                            self.mapped.get(&(old + at)).copied(),
                            self.anonymous.contains(&(old + at)),
                        )
                    })
                    .collect();
                self.clear(old..old + had);
                self.clear(new..new + has);
                for (at, (backing, anonymous)) in (0..).zip(kept) {
                    self.mapped.extend(backing.map(|one| (new + at, one)));
                    self.anonymous.extend(anonymous.then_some(new + at));
                }
                for at in had..has {
                    let grown =
                        last.map(|(file, page, shared)| (file, page + 1 + at - had, shared));
                    self.mapped.extend(grown.map(|one| (new + at, one)));
                }
            }
            _ => {}
        }
    }
}
