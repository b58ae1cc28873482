//! The queue pair and the slots for clones as they lie in the NVDIMM: what survives a failure of power.
//!
//! A command is known by its number since the start; its place in the ring is the remainder.

use std::collections::VecDeque;

/// What a submission entry asks the drive for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Its number since the queue pair was made.
    pub number: u64,
    /// Whether the drive is written.
    pub write: bool,
    /// The page, in pages of the cache.
    pub page: u64,
    /// Where the page lies in the NVDIMM: a frame of the cache, or the slot of a clone.
    pub memory_address: u64,
    /// The slot of the clone, for a write.
    pub slot: Option<u32>,
    /// The frame that is being filled, for a read.
    pub frame: Option<u32>,
    /// Whether it carries force unit access.
    pub force_unit_access: bool,
    /// The journal tag (\[HAMS21\] §V-C): set when the command is issued, cleared at its completion.
    pub journal: bool,
    /// Its completion has been consumed.
    pub consumed: bool,
}

/// A completion entry that has not been consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posted {
    /// The command's number.
    pub command: u64,
    /// Its own, since the queue pair was made.
    pub number: u64,
}

/// A submission queue, a completion queue, and the slots for clones.
#[derive(Clone, Debug)]
pub struct Queues {
    entries: u64,
    /// From the oldest command that is not consumed, or behind it, to the tail.
    submissions: VecDeque<Submission>,
    tail: u64,
    /// Entries promised to misses that have not written them yet.
    promised: u64,
    completions: VecDeque<Posted>,
    completion_tail: u64,
    free_slots: Vec<u32>,
}

impl Queues {
    pub(super) fn new(entries: u32, slots: u32) -> Self {
        Queues {
            entries: u64::from(entries),
            submissions: VecDeque::new(),
            tail: 0,
            promised: 0,
            completions: VecDeque::new(),
            completion_tail: 0,
            free_slots: (0..slots).rev().collect(),
        }
    }

    /// Whether so many commands and so many clones find room. One entry of a ring stays free.
    pub(super) fn has_room(&self, commands: u64, clones: usize) -> bool {
        let taken = self.submissions.len() as u64 + self.promised;
        taken + commands < self.entries && self.free_slots.len() >= clones
    }

    pub(super) fn promise(&mut self, commands: u64) {
        self.promised += commands;
    }

    pub(super) fn take_slot(&mut self) -> Option<u32> {
        self.free_slots.pop()
    }

    pub(super) fn free_slot(&mut self, slot: u32) {
        self.free_slots.push(slot);
    }

    /// Writes an entry that was promised; its number.
    pub(super) fn submit(&mut self, submission: Submission) -> u64 {
        debug_assert!(self.promised > 0, "an entry is promised before it is written");
        self.promised -= 1;
        let number = self.tail;
        self.submissions.push_back(Submission { number, ..submission });
        self.tail += 1;
        number
    }

    /// The drive posts a completion; its number.
    pub(super) fn post(&mut self, command: u64) -> u64 {
        let number = self.completion_tail;
        self.completions.push_back(Posted { command, number });
        self.completion_tail += 1;
        number
    }

    /// The completion of a command is consumed; its journal tag is cleared.
    pub(super) fn consume(&mut self, command: u64) {
        let first = self.tail - self.submissions.len() as u64;
        let entry = &mut self.submissions[(command - first) as usize];
        (entry.consumed, entry.journal) = (true, false);
        self.take(command);
        while self.submissions.front().is_some_and(|entry| entry.consumed) {
            self.submissions.pop_front();
        }
    }

    /// The completion of a command leaves its queue.
    pub(super) fn take(&mut self, command: u64) {
        self.completions.retain(|posted| posted.command != command);
    }

    /// A slot is taken that has a clone in it.
    pub(super) fn keep_slot(&mut self, slot: u32) {
        self.free_slots.retain(|free| *free != slot);
    }

    /// The entries between head and tail, the oldest first.
    pub fn submissions(&self) -> impl Iterator<Item = &Submission> {
        self.submissions.iter()
    }

    /// Completions that were posted and not consumed, the oldest first.
    pub fn completions(&self) -> impl Iterator<Item = &Posted> {
        self.completions.iter()
    }

    /// Tails of both queues, in entries since the queue pair was made.
    pub fn tails(&self) -> (u64, u64) {
        (self.tail, self.completion_tail)
    }

    /// Slots for clones that are free.
    pub fn free_slots(&self) -> usize {
        self.free_slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(page: u64) -> Submission {
        Submission {
            number: 0,
            write: false,
            page,
            memory_address: 0,
            slot: None,
            frame: Some(0),
            force_unit_access: false,
            journal: true,
            consumed: false,
        }
    }

    #[test]
    fn one_entry_of_the_ring_stays_free_and_promises_count() {
        let mut queues = Queues::new(4, 1);
        assert!(queues.has_room(3, 1) && !queues.has_room(4, 0) && !queues.has_room(1, 2));
        queues.promise(2);
        assert!(queues.has_room(1, 0) && !queues.has_room(2, 0));
        queues.submit(read(1));
        queues.submit(read(2));
        assert!(queues.has_room(1, 0) && !queues.has_room(2, 0));
    }

    #[test]
    fn completions_in_any_order_free_entries_in_that_of_the_ring() {
        let mut queues = Queues::new(4, 1);
        queues.promise(3);
        let numbers: Vec<_> = (0..3).map(|page| queues.submit(read(page))).collect();
        assert_eq!(numbers, [0, 1, 2]);
        queues.post(1);
        queues.consume(1);
        assert!(!queues.has_room(1, 0));
        let tagged: Vec<_> = queues.submissions().map(|entry| entry.journal).collect();
        assert_eq!(tagged, [true, false, true]);
        queues.post(0);
        assert_eq!(queues.completions().count(), 1);
        queues.consume(0);
        assert!(queues.has_room(2, 0) && !queues.has_room(3, 0));
        assert_eq!((queues.completions().count(), queues.tails()), (0, (3, 2)));
    }
}
