//! The buffer of a module whose array has larger lines than it is asked for (the XPBuffer of Intel's
//! Optane modules: 64 lines of 256 bytes; Yang et al., "An Empirical Guide to the Behavior and Use of
//! Scalable Persistent Memory", FAST 2020, §3.1 and §5.1).
//!
//! Reads and writes share it. A read brings its line from the array. A write needs no line: what is
//! written stands in the buffer until its place is wanted, and then goes to the array, after the rest of
//! the line has been read if not all of it was written. The line that was used last of all leaves first.

use super::NvmBufferSpec;
use crate::medium::nvm::{LineAccess, LineDone, NvmArray};
use std::collections::VecDeque;

counters! {
    /// What a buffer did since the start.
    pub struct BufferCounts {
        /// Reads whose data it had.
        pub read_hits,
        /// Reads that had to wait for the array.
        pub read_misses,
        /// Writes to a line that it had.
        pub write_hits,
        /// Writes to a line that it had not.
        pub write_misses,
        /// Lines that left it to be written, all of whose data it had.
        pub full_evictions,
        /// Lines of which it had to read the rest first.
        pub partial_evictions,
    }
}

/// What has answered an access.
#[derive(Clone, Copy, Debug)]
pub enum Outcome {
    /// The buffer by itself.
    Buffer,
    /// This line of the array.
    Line(LineDone),
}

/// An answer to the access with this number.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub index: u32,
    pub at_ps: u64,
    pub outcome: Outcome,
}

/// An access: its number, what it is for in units of accesses, and whether it writes.
type Access = (u32, u64, bool);

/// What a place of the buffer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It holds no line.
    Free,
    /// It holds a line.
    Held,
    /// What is missing of its line is being read; and whether it leaves then.
    Filling { leaves: bool },
    /// Its line is being handed to the array.
    Leaving,
}

/// A place of the buffer.
#[derive(Clone, Debug)]
struct Entry {
    state: State,
    line: u64,
    /// Parts of the line that it has, and that were written since it left the array.
    valid: u64,
    dirty: u64,
    /// Larger for what was used later.
    used: u64,
    /// Reads that wait for the line.
    waiting: Vec<u32>,
}

/// Set in the token of a line that is written.
const WRITE: u32 = 1 << 31;

/// A buffer of whole lines.
#[derive(Clone, Debug)]
pub struct Buffer {
    entries: Vec<Entry>,
    /// Parts of a line, each an access.
    parts: u64,
    uses: u64,
    /// Accesses that wait for a place, in the order of their coming.
    door: VecDeque<Access>,
    counts: BufferCounts,
}

impl Buffer {
    /// An empty buffer before an array of lines of `line_bytes`.
    pub fn new(spec: &NvmBufferSpec, line_bytes: u64) -> Self {
        let entry =
            Entry { state: State::Free, line: 0, valid: 0, dirty: 0, used: 0, waiting: Vec::new() };
        Buffer {
            entries: vec![entry; (spec.capacity.bytes() / line_bytes) as usize],
            parts: line_bytes / spec.access.bytes(),
            uses: 0,
            door: VecDeque::new(),
            counts: BufferCounts::default(),
        }
    }

    /// What it did.
    pub fn counts(&self) -> BufferCounts {
        self.counts
    }

    fn all_parts(&self) -> u64 {
        u64::MAX >> (u64::BITS as u64 - self.parts)
    }

    /// An access comes at `now_ps`. In the order of their coming, so that a read behind a write that
    /// waits does not pass it.
    pub fn access(
        &mut self,
        now_ps: u64,
        access: Access,
        array: &mut NvmArray,
        out: &mut Vec<Answer>,
    ) {
        self.door.push_back(access);
        self.reopen(now_ps, array, out);
    }

    /// Serves an access, or lets it wait for its line; whether it has a place.
    fn serve(
        &mut self,
        now_ps: u64,
        (index, unit, write): Access,
        array: &mut NvmArray,
        out: &mut Vec<Answer>,
    ) -> bool {
        let (line, part) = (unit / self.parts, 1 << (unit % self.parts));
        let held = |entry: &Entry| entry.state != State::Free && entry.line == line;
        let found = self.entries.iter().position(held);
        // What is being handed over can be read, and not be written.
        if write && found.is_some_and(|place| self.entries[place].state == State::Leaving) {
            return false;
        }
        let free = || self.entries.iter().position(|entry| entry.state == State::Free);
        let Some(place) = found.or_else(free) else { return false };
        self.count(found, part, write);
        self.uses += 1;
        let entry = &mut self.entries[place];
        entry.used = self.uses;
        if found.is_none() {
            (entry.state, entry.line, entry.valid, entry.dirty) = (State::Held, line, 0, 0);
        }
        if write {
            entry.valid |= part;
            entry.dirty |= part;
        }
        if entry.valid & part != 0 {
            out.push(Answer { index, at_ps: now_ps, outcome: Outcome::Buffer });
            return true;
        }
        entry.waiting.push(index);
        if entry.state == State::Held {
            self.fill(now_ps, place, false, array);
        }
        true
    }

    fn count(&mut self, found: Option<usize>, part: u64, write: bool) {
        let has = found.is_some_and(|place| self.entries[place].valid & part != 0);
        let counts = &mut self.counts;
        *match (write, has, found) {
            (false, true, _) => &mut counts.read_hits,
            (false, false, _) => &mut counts.read_misses,
            (true, _, Some(_)) => &mut counts.write_hits,
            (true, _, None) => &mut counts.write_misses,
        } += 1;
    }

    /// Reads what is missing of a line.
    fn fill(&mut self, now_ps: u64, place: usize, leaves: bool, array: &mut NvmArray) {
        let entry = &mut self.entries[place];
        entry.state = State::Filling { leaves };
        let (token, line) = (place as u32, entry.line);
        array.submit(now_ps, LineAccess { token, line, write: false, background: leaves });
    }

    /// Hands a line to the array.
    fn write(&mut self, now_ps: u64, place: usize, array: &mut NvmArray) {
        let entry = &mut self.entries[place];
        entry.state = State::Leaving;
        let (token, line) = (place as u32 | WRITE, entry.line);
        array.submit(now_ps, LineAccess { token, line, write: true, background: true });
    }

    /// As many lines leave, or are about to, as accesses wait for a place; whether one has left.
    fn make_room(&mut self, now_ps: u64, array: &mut NvmArray) -> bool {
        let leaves = |entry: &&Entry| {
            matches!(entry.state, State::Free | State::Leaving | State::Filling { leaves: true })
        };
        let leaving = self.entries.iter().filter(leaves).count();
        if leaving >= self.door.len() {
            return false;
        }
        let held = self.entries.iter().enumerate().filter(|(_, it)| it.state == State::Held);
        let Some((place, _)) = held.min_by_key(|(_, entry)| entry.used) else { return false };
        let Entry { valid, dirty, .. } = self.entries[place];
        if dirty == 0 {
            self.entries[place].state = State::Free;
        } else if valid == self.all_parts() {
            self.counts.full_evictions += 1;
            self.write(now_ps, place, array);
        } else {
            self.counts.partial_evictions += 1;
            self.fill(now_ps, place, true, array);
        }
        dirty == 0
    }

    /// The array has read a line, or taken one.
    pub fn line_done(&mut self, done: LineDone, array: &mut NvmArray, out: &mut Vec<Answer>) {
        let (place, at_ps) = ((done.token & !WRITE) as usize, done.at_ps);
        let all = self.all_parts();
        let entry = &mut self.entries[place];
        if done.token & WRITE != 0 {
            entry.state = State::Free;
        } else {
            let leaves = entry.state == State::Filling { leaves: true };
            (entry.state, entry.valid) = (State::Held, all);
            let outcome = Outcome::Line(done);
            out.extend(entry.waiting.drain(..).map(|index| Answer { index, at_ps, outcome }));
            if leaves {
                self.write(at_ps, place, array);
            }
        }
        self.reopen(at_ps, array, out);
    }

    /// Those that wait for a place are served while there are any.
    fn reopen(&mut self, now_ps: u64, array: &mut NvmArray, out: &mut Vec<Answer>) {
        while let Some(&access) = self.door.front() {
            if self.serve(now_ps, access, array, out) {
                self.door.pop_front();
            } else if !self.make_room(now_ps, array) {
                return;
            }
        }
    }
}
