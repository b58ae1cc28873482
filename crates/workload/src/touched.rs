//! What a workload touches: its footprint, counted by going through its operations once, on no
//! machine.

mod mappings;
mod pages;
#[cfg(test)]
mod tests;

use crate::op::{
    Advice, Call, FLAG_WRITTEN, LOCK_ALL, LOCK_ON_FAULT, MAP_LOCKED, MAP_NO_ACCESS, MAP_POPULATE,
    Op, OpKind, POPULATE, ThreadId,
};
use crate::order::Order;
use crate::stream::{Pull, Stream, StreamError};
use mappings::{Backing, Mappings};
use pages::{FilePages, Memory};
use std::collections::{HashMap, HashSet};

/// Unit in which a footprint is counted.
pub const PAGE_BYTES: u64 = 4096;

const AT_ONCE: usize = 1 << 16;
/// Operations of a thread's turn: few against what a process does.
const TURN: usize = 1 << 10;
/// Bytes that one call reads or writes at most (read(2), *Notes*).
const MOST_MOVED_BYTES: u64 = 0x7fff_f000;
/// Bytes that one call brings to memory at most: more than machines have.
const MOST_BROUGHT_BYTES: u64 = 1 << 38;

/// What was touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Different pages of memory that is no file's and that were loaded from or stored to, by calls
    /// too, in bytes: the most that there were at a time, where memory is given back.
    pub memory_bytes: u64,
    /// Different pages of files that were read or written by calls or through mappings, in bytes: all
    /// of the run. A page counts once, however it is reached, and however often it is mapped.
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
/// As in Linux, a page of a file is in memory once, for all mappings and calls; a store to a private
/// mapping makes a page of memory beside it (mmap(2), `MAP_PRIVATE`); memory that is unmapped, mapped
/// over, or given back (madvise(2), `MADV_DONTNEED`) is gone, so that it does not count with what takes
/// its place; and what is moved (mremap(2)) is the same memory. A mapping that the workload does not
/// tell of, such as of a program's own image, or from before a process was forked, counts as memory.
/// What is locked or asked for (mlock(2), `MAP_POPULATE`, `MADV_POPULATE_READ`) counts as touched, but not what
/// mlockall(2) finds mapped, nor what mprotect(2) or mremap(2) bring of it. Threads take turns, in the
/// order that they wait for each other: what runs at the same time on a machine does so here too, about. The count ends early where the workload says how much it maps and
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
        let whole = mapped_pages.is_some_and(|pages| count.memory.anonymous >= pages);
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

#[derive(Default)]
struct Count {
    mappings: Mappings,
    memory: Memory,
    files: FilePages,
    /// Who forked a process.
    parents: HashMap<u64, u64>,
    /// Processes that have what they map brought to memory at once.
    locking: HashSet<u64>,
    /// Of memory that is no file's, the most so far, in pages.
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
                Some(OpKind::Load) => self.access(op.word, u64::from(op.size()), false),
                Some(OpKind::Store) => self.access(op.word, u64::from(op.size()), true),
                Some(OpKind::Flush) => self.access(op.word, 1, false),
                Some(OpKind::Used) => self.access(op.word, 1, op.flags() & FLAG_WRITTEN != 0),
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

    /// The program, or a call, reads or writes memory.
    #[inline]
    fn access(&mut self, address: u64, bytes: u64, write: bool) {
        let first = address / PAGE_BYTES;
        let last = address.saturating_add(bytes.max(1) - 1) / PAGE_BYTES;
        if first == last && self.memory.was_last(first, write) {
            return;
        }
        for page in first..=last {
            if self.memory.is_new(page, write) {
                self.classify(page, write);
            }
        }
    }

    /// A page is read, or written, for the first time since it was mapped.
    fn classify(&mut self, page: u64, write: bool) {
        let backing = self.mappings.find(page);
        if let Some(Backing { file, page, .. }) = backing {
            self.files.add(file, page);
        }
        let own = match backing {
            Some(backing) => write && !backing.shared,
            None => write || !self.is_inherited(page),
        };
        if own {
            self.memory.make_anonymous(page);
            self.most_pages = self.most_pages.max(self.memory.anonymous);
        }
    }

    /// Whether a page is one that a process's parent had, and shares while nobody writes to it.
    fn is_inherited(&self, page: u64) -> bool {
        // More generations than programs have; a damaged recording may go in a circle.
        const MOST_GENERATIONS: usize = 64;
        let (process, place) = (page >> PROCESS_SHIFT, page & ((1 << PROCESS_SHIFT) - 1));
        let parents = std::iter::successors(Some(&process), |process| self.parents.get(process));
        let mut before = parents.skip(1).take(MOST_GENERATIONS);
        before.any(|parent| self.memory.is_anonymous(parent << PROCESS_SHIFT | place))
    }

    /// All that a process has mapped goes.
    fn drop_process(&mut self, process: u64) {
        let (start, end) = pages_of_process(process);
        self.memory.forget(start, end);
        self.mappings.unmap(start, end);
        self.parents.remove(&process);
        self.locking.remove(&process);
    }

    /// A range is brought to memory, as stores would or as it is mapped: then private pages that can be stored to are.
    fn bring(&mut self, address: u64, length: u64, by_stores: bool) {
        let (start, end) = pages_of(address, length.min(MOST_BROUGHT_BYTES));
        for page in start..end {
            let is_copied = |backing: Backing| backing.writable && !backing.shared;
            let write = by_stores || self.mappings.find(page).is_some_and(is_copied);
            if self.memory.is_new(page, write) {
                self.classify(page, write);
            }
        }
    }

    fn call(&mut self, call: Call) {
        match call {
            Call::Fork { parent, process, .. } if parent.max(process) >> 15 == 0 => {
                self.drop_process(process);
                self.parents.insert(process, parent);
                self.mappings.copy(pages_of_process(parent), pages_of_process(process).0);
            }
            Call::Exec { process } | Call::Exit { process } if process >> 15 == 0 => {
                self.drop_process(process);
            }
            Call::Read { file, offset, length, address }
            | Call::ReadDirect { file, offset, length, address } => {
                self.transfer(file, offset, length, address, true);
            }
            Call::Write { file, offset, length, address }
            | Call::WriteDirect { file, offset, length, address } => {
                self.transfer(file, offset, length, address, false);
            }
            Call::Map { address, length, flags, file, offset } => {
                let (start, end) = pages_of(address, length);
                self.memory.forget(start, end);
                self.mappings.map(start, end, flags, file, offset / PAGE_BYTES);
                let brings = flags & (MAP_LOCKED | MAP_POPULATE) != 0
                    || self.locking.contains(&(start >> PROCESS_SHIFT));
                if brings && flags & MAP_NO_ACCESS == 0 {
                    self.bring(address, length, false);
                }
            }
            Call::Lock { address, length, flags } if flags & LOCK_ON_FAULT == 0 => {
                self.bring(address, length, false);
            }
            Call::Populate { address, length, how } => {
                let [_, by_stores] = POPULATE;
                self.bring(address, length, how == by_stores);
            }
            Call::LockAll { process, flags } => {
                let [_, future, on_fault] = LOCK_ALL;
                if flags & (future | on_fault) == future {
                    self.locking.insert(process);
                } else {
                    self.locking.remove(&process);
                }
            }
            Call::Unmap { address, length } => {
                let (start, end) = pages_of(address, length);
                self.memory.forget(start, end);
                self.mappings.unmap(start, end);
            }
            Call::Remap { old_address, old_length, new_address, new_length } => {
                let (old, new) =
                    (pages_of(old_address, old_length), pages_of(new_address, new_length));
                self.memory.remap(old, new);
                self.mappings.remap(old, new);
            }
            Call::Advise { address, length, advice } if advice == Advice::DontNeed as u64 => {
                let (start, end) = pages_of(address, length);
                self.memory.forget(start, end);
            }
            _ => {}
        }
    }

    /// A call reads a file into memory, or writes memory to it.
    fn transfer(&mut self, file: u32, offset: u64, length: u64, address: u64, into_memory: bool) {
        let length = length.min(MOST_MOVED_BYTES);
        if length == 0 {
            return;
        }
        self.access(address, length, into_memory);
        let (start, end) = (offset / PAGE_BYTES, offset.saturating_add(length - 1) / PAGE_BYTES);
        (start..=end).for_each(|page| self.files.add(file, page));
    }

    fn touched(&self) -> Touched {
        Touched {
            memory_bytes: self.most_pages * PAGE_BYTES,
            file_bytes: self.files.count() * PAGE_BYTES,
        }
    }
}

/// Bits of a page's number below that of its process.
const PROCESS_SHIFT: u32 = 48 - PAGE_BYTES.trailing_zeros();

/// The pages of a process, the last one not included.
fn pages_of_process(process: u64) -> (u64, u64) {
    (process << PROCESS_SHIFT, (process + 1) << PROCESS_SHIFT)
}

/// The pages that a range covers, the last one not included.
fn pages_of(address: u64, length: u64) -> (u64, u64) {
    (address / PAGE_BYTES, address.saturating_add(length).div_ceil(PAGE_BYTES))
}
