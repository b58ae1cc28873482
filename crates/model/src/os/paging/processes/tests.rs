use super::super::small::{FRAMES, Memory, small};
use super::*;
use crate::os::reclaim::Reclaimer;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use tierscope_workload::op::MAP_WRITABLE;

const PAGE: u64 = 4096;
/// Pages of a process, by what it has there at first: memory, a file that stores do not reach, memory
/// that all see, and where memory is moved to.
const PAGES: u64 = 24;
const FILE_PAGES: Range<u64> = 8..12;
const OBJECT_PAGES: Range<u64> = 12..16;
const MOVED_FROM: u64 = 4;
const MOVED_TO: u64 = 20;
const MOVED: u64 = 2;

/// What a page of the file holds; other things hold smaller numbers.
fn of_file(place: u64) -> u64 {
    1 << 40 | place
}

/// Reclaims until everything has left memory that can.
fn evict_all(paging: &mut Paging) {
    let who = Reclaimer::Direct { high_pages: 0 };
    // The first time it finds that all has been used.
    for _ in 0..2 {
        paging.reclaim(who, &mut Vec::new(), &|_| false).unwrap();
    }
}

/// A process as a user sees it: what it reads at each page.
#[derive(Clone, Default)]
struct Process {
    values: HashMap<u64, u64>,
    of_file: BTreeSet<u64>,
    shared: Option<Rc<RefCell<HashMap<u64, u64>>>>,
}

impl Process {
    fn object(&self, page: u64) -> Option<&Rc<RefCell<HashMap<u64, u64>>>> {
        self.shared.as_ref().filter(|_| OBJECT_PAGES.contains(&page))
    }

    fn read(&self, page: u64) -> u64 {
        if let Some(object) = self.object(page) {
            return object.borrow().get(&page).copied().unwrap_or(0);
        }
        let untouched = self.of_file.contains(&page).then(|| of_file(page - FILE_PAGES.start));
        self.values.get(&page).copied().or(untouched).unwrap_or(0)
    }

    fn write(&mut self, page: u64, value: u64) {
        if let Some(object) = self.object(page) {
            object.borrow_mut().insert(page, value);
        } else {
            self.values.insert(page, value);
        }
    }

    fn forget(&mut self, pages: Range<u64>, unmap: bool) {
        self.values.retain(|page, _| !pages.contains(page));
        if unmap {
            self.of_file.retain(|page| !pages.contains(page));
        }
    }

    fn remap(&mut self) {
        let moved: Vec<Option<u64>> =
            (0..MOVED).map(|n| self.values.get(&(MOVED_FROM + n)).copied()).collect();
        self.forget(MOVED_FROM..MOVED_FROM + MOVED, true);
        self.forget(MOVED_TO..MOVED_TO + MOVED, true);
        for (n, value) in moved.into_iter().enumerate() {
            self.values.extend(value.map(|value| (MOVED_TO + n as u64, value)));
        }
    }
}

/// A process whose file's pages hold what [`of_file`] says.
fn memory(free: u64) -> Memory {
    let mut paging = small(|_| {});
    paging.open(1, 16 * PAGE).unwrap();
    let length = |pages: &Range<u64>| (pages.end - pages.start) * PAGE;
    paging.map(FILE_PAGES.start * PAGE, length(&FILE_PAGES), MAP_WRITABLE, 1, 0);
    let flags = MAP_WRITABLE | MAP_SHARED;
    paging.map(OBJECT_PAGES.start * PAGE, length(&OBJECT_PAGES), flags, NO_FILE, 0);
    Memory::new(paging, free, (0..16).map(|page| (page * PAGE, of_file(page))).collect())
}

impl Memory {
    /// Every frame is mapped as often as it is counted, and every slot named as often.
    fn check(&self) {
        let frames = (0..FRAMES).map(|frame| self.paging.frames.get(frame));
        let used = frames.filter(|info| info.owner != Owner::Free || info.transfer != 0).count();
        assert_eq!(used as u64 + self.paging.frames.free(), FRAMES);
        let (mut maps, mut slots) = (HashMap::new(), HashMap::new());
        for page in self.paging.space.touched(0, 1 << 52) {
            match self.paging.entry(page) {
                Pte::None => {}
                Pte::Present { frame, .. } => *maps.entry(frame).or_insert(0u64) += 1,
                Pte::Swapped(slot) => *slots.entry(slot).or_insert(0u64) += 1,
            }
        }
        for frame in 0..FRAMES {
            let info = self.paging.frames.get(frame);
            if let Owner::Anonymous(_) = info.owner {
                let counted =
                    u64::from(info.sharers) + u64::from(info.mapped_at != Frame::UNMAPPED);
                assert_eq!(counted, maps.get(&frame).copied().unwrap_or(0), "frame {frame}");
                assert_eq!(self.paging.mappers(frame).len() as u64, counted, "frame {frame}");
            }
        }
        for (slot, entries) in self.paging.sharing.slot_entries.iter() {
            assert_eq!(entries, slots.remove(&slot).unwrap_or(0), "slot {slot}");
        }
        assert!(slots.is_empty());
    }
}

#[derive(Clone, Debug)]
enum Step {
    Access { process: usize, page: u64, write: bool },
    Fork { process: usize },
    Exec { process: usize },
    Exit { process: usize },
    Drop { process: usize, page: u64, pages: u64, unmap: bool },
    Remap { process: usize },
    EndTransfers,
}

fn step() -> impl Strategy<Value = Step> {
    let process = || 0usize..8;
    prop_oneof![
        24 => (process(), 0..PAGES, any::<bool>())
            .prop_map(|(process, page, write)| Step::Access { process, page, write }),
        4 => process().prop_map(|process| Step::Fork { process }),
        1 => process().prop_map(|process| Step::Exec { process }),
        2 => process().prop_map(|process| Step::Exit { process }),
        2 => (process(), 0..12u64, 1..5u64, any::<bool>())
            .prop_map(|(process, page, pages, unmap)| Step::Drop { process, page, pages, unmap }),
        1 => process().prop_map(|process| Step::Remap { process }),
        3 => Just(Step::EndTransfers),
    ]
}

fn replay(steps: Vec<Step>, free: u64) {
    let mut memory = memory(free);
    let of_file = FILE_PAGES.collect();
    let first = Process { of_file, shared: Some(Rc::default()), ..Process::default() };
    let mut processes = BTreeMap::from([(0u64, first)]);
    let mut next = 1;
    for (now, step) in steps.into_iter().enumerate() {
        let now_ps = now as u64 + 1;
        let pick = |processes: &BTreeMap<u64, Process>, wanted: usize| {
            *processes.keys().nth(wanted % processes.len()).unwrap()
        };
        let at = |process: u64, page: u64| process << 36 | page;
        match step {
            Step::Access { process, page, write } => {
                let number = pick(&processes, process);
                let frame = memory.access(at(number, page), write, now_ps);
                let process = processes.get_mut(&number).unwrap();
                assert_eq!(memory.frames[&frame], process.read(page), "{number}: page {page}");
                if write {
                    process.write(page, now_ps);
                    memory.frames.insert(frame, now_ps);
                }
            }
            Step::Fork { process } if processes.len() < 8 => {
                let parent = pick(&processes, process);
                let mut work = Vec::new();
                let paging = &mut memory.paging;
                paging.fork_process(parent, next, &mut work, &|_| false).unwrap();
                memory.work(work);
                processes.insert(next, processes[&parent].clone());
                next += 1;
            }
            Step::Fork { .. } => {}
            Step::Exec { process } => {
                let number = pick(&processes, process);
                memory.paging.drop_process(number);
                processes.insert(number, Process::default());
            }
            Step::Exit { process } if processes.len() > 1 => {
                let number = pick(&processes, process);
                memory.paging.end_process(number);
                processes.remove(&number);
            }
            Step::Exit { .. } => {}
            Step::Drop { process, page, pages, unmap } => {
                let number = pick(&processes, process);
                // Memory that all see stays where one process drops it.
                let pages = pages.min(12 - page);
                let (address, length) = (at(number, page) * PAGE, pages * PAGE);
                if unmap {
                    memory.paging.unmap(address, length);
                } else {
                    let advice = Advice::DontNeed as u64;
                    let mut work = Vec::new();
                    let paging = &mut memory.paging;
                    paging.advise(address, length, advice, &mut work, &|_| false).unwrap();
                }
                processes.get_mut(&number).unwrap().forget(page..page + pages, unmap);
            }
            Step::Remap { process } => {
                let number = pick(&processes, process);
                let (from, to) = (at(number, MOVED_FROM) * PAGE, at(number, MOVED_TO) * PAGE);
                memory.paging.remap(from, MOVED * PAGE, to, MOVED * PAGE);
                processes.get_mut(&number).unwrap().remap();
            }
            Step::EndTransfers => memory.end_transfers(),
        }
        memory.paging.take_effects();
        memory.check();
    }
    for number in processes.into_keys() {
        memory.paging.end_process(number);
    }
    memory.end_transfers();
    memory.check();
    memory.paging.truncate(1, 0);
    assert_eq!(memory.paging.frames.free(), memory.free_at_first, "every frame is free again");
    assert_eq!(memory.paging.files.len(), 1, "memory that processes shared is gone");
}

proptest! {
    #[test]
    fn each_process_reads_what_it_wrote_and_all_frames_come_back(
        steps in proptest::collection::vec(step(), 1..300), free in 24u64..120
    ) {
        replay(steps, free);
    }
}

#[test]
fn a_fork_shares_until_either_writes_and_the_last_owner_copies_nothing() {
    let mut memory = memory(100);
    let child = 1u64 << 36;
    let first = memory.access(0, true, 1);
    memory.frames.insert(first, 5);
    let mut work = Vec::new();
    let copied = memory.paging.fork_process(0, 1, &mut work, &|_| false).unwrap();
    assert_eq!(
        (copied, work),
        (1, vec![]),
        "mappings without anonymous pages are filled by faults"
    );
    let flushed = memory.paging.take_effects();
    assert_eq!(flushed, [Effect::Flush(0..1 << 36)]);
    let used = memory.paging.frames.free();
    assert_eq!(memory.access(child, false, 3), first, "shared");
    assert_eq!(memory.paging.frames.free(), used, "no frame for a shared page");
    let own = memory.access(child, true, 4);
    assert_ne!(own, first);
    assert_eq!(memory.frames[&own], 5, "copied");
    assert_eq!(memory.paging.counters.fork_copies, 1);
    assert_eq!(memory.access(0, true, 5), first, "nobody else has it: nothing is copied");
    assert_eq!(memory.paging.counters.fork_copies, 1);
}

#[test]
fn a_shared_page_is_swapped_once_for_all_that_have_it() {
    let mut memory = memory(100);
    let first = memory.access(3, true, 1);
    memory.frames.insert(first, 7);
    for process in 1..4 {
        memory.paging.fork_process(0, process, &mut Vec::new(), &|_| false).unwrap();
    }
    assert_eq!(memory.paging.mappers(first).len(), 4);
    evict_all(&mut memory.paging);
    memory.end_transfers();
    assert_eq!(memory.paging.counters.swap_outs, 1);
    for process in 0..4u64 {
        assert!(matches!(memory.paging.entry(process << 36 | 3), Pte::Swapped(_)));
    }
    let back = memory.access(3, false, 4);
    for process in 1..4u64 {
        assert_eq!(memory.access(process << 36 | 3, false, 5), back, "read once");
    }
    assert_eq!(memory.frames[&back], 7);
    assert_eq!(memory.paging.counters.swap_ins, 1);
    memory.check();
}
