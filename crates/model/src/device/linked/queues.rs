//! Submission and completion queues of NVM Express: what waits where, which queue has its turn, and when
//! completions interrupt.

use super::port::What;
use crate::link::nvme::{NvmePriority, NvmeQueues};
use std::collections::VecDeque;
use tierscope_kernel::Slab;

/// A submission queue and its completion queue.
#[derive(Clone, Debug, Default)]
struct Queue {
    /// Commands that the device has been told of and has not fetched.
    waiting: VecDeque<u32>,
    /// Commands from when they are put in until the host knows that they are done.
    held: u32,
}

/// Queues that have their turns alike.
#[derive(Clone, Debug)]
struct Class {
    priority: NvmePriority,
    /// Commands in a round, and what is left of them.
    weight: u32,
    credit: u32,
    /// The queue that the host puts the next command in, and the one that is next to be looked at.
    deal: u32,
    turn: u32,
    /// Commands of its turn that are left.
    burst: u32,
    waiting: u32,
}

/// What has been completed and not told of, under one interrupt.
#[derive(Clone, Debug, Default)]
struct Vector {
    entries: Vec<u32>,
    /// Interrupts so far.
    round: u32,
}

/// The queues of a device.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    pub(super) flow: NvmeQueues,
    /// The first to be served first.
    classes: Vec<Class>,
    /// Those of the first class, then those of the second.
    queues: Vec<Queue>,
    vectors: Vec<Vector>,
    /// When each interrupt comes in any case, unless that round of its vector has ended.
    timers: VecDeque<(u64, u32, u32)>,
    /// Commands that are fetched together, and completions that are told of together.
    batches: Slab<Vec<u32>>,
    /// Commands that have been fetched, or are being, and have no completion entry.
    pub(super) working: usize,
    /// Batches that are being fetched.
    fetching: u32,
    /// What has been read of commands whose lists of pages are being fetched.
    pub(super) unlisted: Vec<(u32, What)>,
}

impl Queues {
    /// Queues with nothing in them.
    pub(super) fn new(flow: NvmeQueues) -> Self {
        let spec = &flow.spec;
        let weight = |class| spec.priorities.as_ref().map_or(u32::MAX, |it| it.weight(class));
        let class = |priority| {
            let weight = weight(priority);
            let (credit, burst) = (weight, spec.burst);
            Class { priority, weight, credit, deal: 0, turn: 0, burst, waiting: 0 }
        };
        let classes: Vec<_> = spec.classes().into_iter().map(class).collect();
        Queues {
            queues: vec![Queue::default(); classes.len() * spec.queues as usize],
            vectors: vec![Vector::default(); spec.vectors as usize],
            classes,
            timers: VecDeque::new(),
            batches: Slab::new(),
            working: 0,
            fetching: 0,
            unlisted: Vec::new(),
            flow,
        }
    }

    /// The same with nothing in them.
    pub(super) fn emptied(&self) -> Self {
        Queues::new(self.flow.clone())
    }

    /// The queue that the host puts a request in, if it has room.
    pub(super) fn submit(&mut self, write: bool, background: bool) -> Option<u32> {
        let spec = &self.flow.spec;
        let priority = spec.priorities.as_ref().map(|it| it.class(write, background));
        let class = self.classes.iter().position(|it| priority.is_none_or(|p| p == it.priority))?;
        let it = &mut self.classes[class];
        let number = class as u32 * spec.queues + it.deal;
        let queue = &mut self.queues[number as usize];
        if queue.held + 1 >= spec.entries {
            return None;
        }
        queue.held += 1;
        it.deal = (it.deal + 1) % spec.queues;
        Some(number)
    }

    /// The device knows of a command.
    pub(super) fn tell(&mut self, queue: u32, command: u32) {
        self.queues[queue as usize].waiting.push_back(command);
        self.classes[(queue / self.flow.spec.queues) as usize].waiting += 1;
    }

    /// The queue that has its turn, and how many commands may be fetched from it: of the urgent class before all
    /// others; else of the first class that has commands left in this round, or a new round begins.
    pub(super) fn turn(&mut self) -> Option<(u32, u32)> {
        if self.fetching >= self.flow.spec.fetches {
            return None;
        }
        let may = |it: &Class| it.waiting > 0 && it.credit > 0;
        let class = match self.classes.iter().position(may) {
            Some(class) => class,
            None => {
                self.classes.iter_mut().for_each(|it| it.credit = it.weight);
                self.classes.iter().position(may)?
            }
        };
        let (it, count) = (&self.classes[class], self.flow.spec.queues);
        let first = class as u32 * count;
        let after = (0..count).find(|n| {
            let queue = first + (it.turn + n) % count;
            !self.queues[queue as usize].waiting.is_empty()
        })?;
        // A queue that has nothing leaves its turn to the next.
        let burst = if after > 0 { self.flow.spec.burst } else { it.burst };
        Some((first + (it.turn + after) % count, it.credit.min(burst)))
    }

    /// The commands that wait in a queue, the next one first.
    pub(super) fn waiting(&self, queue: u32) -> impl Iterator<Item = &u32> {
        self.queues[queue as usize].waiting.iter()
    }

    /// The commands that are next in a queue are fetched together: their batch.
    pub(super) fn fetch(&mut self, queue: u32, count: u32) -> u32 {
        let (queues, burst) = (self.flow.spec.queues, self.flow.spec.burst);
        let class = &mut self.classes[(queue / queues) as usize];
        let of_class = queue % queues;
        let left = if class.turn == of_class { class.burst } else { burst } - count;
        (class.turn, class.burst) =
            if left > 0 { (of_class, left) } else { ((of_class + 1) % queues, burst) };
        class.waiting -= count;
        self.fetching += 1;
        if class.priority != NvmePriority::Urgent {
            class.credit -= count;
        }
        self.working += count as usize;
        let batch = self.queues[queue as usize].waiting.drain(..count as usize).collect();
        self.batches.insert(batch)
    }

    /// The list of pages of a command has been fetched: what has been read of it, in order.
    pub(super) fn read_by_now(&mut self, command: u32) -> Vec<What> {
        self.unlisted.extract_if(.., |(index, _)| *index == command).map(|(_, what)| what).collect()
    }

    /// A batch of commands has been fetched.
    pub(super) fn fetched(&mut self, batch: u32) -> Vec<u32> {
        self.fetching -= 1;
        self.batches.remove(batch)
    }

    /// The host has been told of a batch of completions.
    pub(super) fn told(&mut self, batch: u32) -> Vec<u32> {
        self.batches.remove(batch)
    }

    /// What belongs to a batch.
    pub(super) fn batch(&self, batch: u32) -> &[u32] {
        &self.batches[batch]
    }

    /// A command has its completion entry; the batch that is told of now, if one is.
    pub(super) fn complete(&mut self, now_ps: u64, queue: u32, command: u32) -> Option<u32> {
        self.working -= 1;
        let number = queue % self.vectors.len() as u32;
        let vector = &mut self.vectors[number as usize];
        vector.entries.push(command);
        let Some(it) = &self.flow.spec.coalescing else { return Some(self.raise(number)) };
        if vector.entries.len() >= it.threshold as usize {
            return Some(self.raise(number));
        }
        if vector.entries.len() == 1 {
            self.timers.push_back((now_ps + it.time.picoseconds(), number, vector.round));
        }
        None
    }

    /// A vector interrupts for all that has been completed under it.
    fn raise(&mut self, number: u32) -> u32 {
        let vector = &mut self.vectors[number as usize];
        vector.round = vector.round.wrapping_add(1);
        let entries = std::mem::take(&mut vector.entries);
        let ended = |&mut (_, number, round): &mut (u64, u32, u32)| {
            self.vectors[number as usize].round != round
        };
        while self.timers.pop_front_if(ended).is_some() {}
        self.batches.insert(entries)
    }

    /// When an interrupt comes that was held back for as long as may be.
    #[inline]
    pub(super) fn timer_ps(&self) -> Option<u64> {
        self.timers.front().map(|&(at_ps, ..)| at_ps)
    }

    /// It comes: what it tells of.
    pub(super) fn expire(&mut self) -> Option<u32> {
        let &(_, number, _) = self.timers.front()?;
        Some(self.raise(number))
    }

    /// The host knows that a command is done: its place is free.
    pub(super) fn leave(&mut self, queue: u32) {
        self.queues[queue as usize].held -= 1;
    }
}

#[cfg(test)]
mod tests;
