//! What waits for the mechanism: runs of pages that follow each other, and which is next.

use std::collections::VecDeque;

/// Pages that follow each other and are read or written one after the other.
#[derive(Clone, Debug)]
pub struct Run {
    first: u64,
    /// Who waits for each page; nobody for what the buffer had taken.
    waiters: VecDeque<Option<u32>>,
    pub write: bool,
    /// When its first page came.
    since_ps: u64,
    /// Runs are numbered in the order of their coming.
    pub number: u64,
}

impl Run {
    /// Its first page that is left.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Behind its last page.
    fn end(&self) -> u64 {
        self.first + self.waiters.len() as u64
    }

    /// Who waits for its pages.
    pub fn waiting(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiters.iter().copied().flatten()
    }

    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Its next page, and who waits for it.
    pub fn take(&mut self) -> Option<(u64, Option<u32>)> {
        let waiter = self.waiters.pop_front()?;
        self.first += 1;
        Some((self.first - 1, waiter))
    }
}

/// What is written from the buffer, which nobody waits for by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Only where there is nothing to read.
    Idle,
    /// As what is read: room is wanted, or somebody waits for the platters.
    Press,
    /// So do those runs up to this number, and no others.
    Flush(u64),
}

/// All that waits: those of a kind by their age.
#[derive(Clone, Debug)]
pub struct Pending {
    reads: VecDeque<Run>,
    writes: VecDeque<Run>,
    window: usize,
    age_limit_ps: u64,
    next_number: u64,
    /// Runs of this number or a greater one may be added to.
    open_from: u64,
    /// Since when writes that the buffer has taken press, and none was taken from here.
    pressed_since_ps: Option<u64>,
}

impl Pending {
    /// Runs that wait.
    pub fn len(&self) -> usize {
        self.reads.len() + self.writes.len()
    }

    /// Nothing. Of `window` runs, one is chosen by its way; what is older than `age_limit_ps` goes first.
    pub fn new(window: u32, age_limit_ps: u64) -> Self {
        Pending {
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            window: window as usize,
            age_limit_ps,
            next_number: 0,
            open_from: 0,
            pressed_since_ps: None,
        }
    }

    /// The same with nothing in it.
    pub fn emptied(&self) -> Self {
        let (reads, writes) = (VecDeque::new(), VecDeque::new());
        Pending { reads, writes, pressed_since_ps: None, ..*self }
    }

    /// A page is to be read for somebody.
    pub fn add_read(&mut self, now_ps: u64, page: u64, waiter: u32) {
        let last = self.reads.back_mut().filter(|run| run.end() == page && run.since_ps == now_ps);
        match last {
            Some(run) => run.waiters.push_back(Some(waiter)),
            None => self.reads.push_back(Run {
                first: page,
                waiters: VecDeque::from([Some(waiter)]),
                write: false,
                since_ps: now_ps,
                number: 0,
            }),
        }
    }

    /// A page is to be written, for somebody or from the buffer.
    pub fn add_write(&mut self, now_ps: u64, page: u64, waiter: Option<u32>) {
        let open_from = self.open_from;
        let last = self.writes.back_mut();
        match last.filter(|run| run.end() == page && run.number >= open_from) {
            Some(run) => run.waiters.push_back(waiter),
            None => {
                let number = self.next_number;
                self.next_number += 1;
                self.writes.push_back(Run {
                    first: page,
                    waiters: VecDeque::from([waiter]),
                    write: true,
                    since_ps: now_ps,
                    number,
                });
            }
        }
    }

    /// What is written from now on belongs to other runs; the number of the last one until now.
    pub fn seal(&mut self) -> u64 {
        // So that there is a number before the first.
        self.next_number += 1;
        self.open_from = self.next_number;
        self.next_number - 1
    }

    /// Number of the oldest run that is to be written.
    pub fn oldest_write(&self) -> Option<u64> {
        self.writes.front().map(|run| run.number)
    }

    /// Takes the run that is next, and tells whether that is for its age: what has waited too long, or the
    /// one of shortest way, among reads, and among writes too where these press or there are no reads.
    pub fn choose(
        &mut self,
        now_ps: u64,
        writes: Writes,
        reach_ps: impl Fn(&Run) -> u64,
    ) -> Option<(Run, bool)> {
        if writes == Writes::Idle || self.writes.is_empty() {
            self.pressed_since_ps = None;
        } else {
            self.pressed_since_ps.get_or_insert(now_ps);
        }
        let read_ps = self.reads.front().map_or(0, |run| now_ps - run.since_ps);
        let write_ps = self.write_age_ps(now_ps);
        let aged = read_ps.max(write_ps) > self.age_limit_ps;
        let (takes_reads, takes_writes) = match aged {
            true => (read_ps >= write_ps, read_ps < write_ps),
            false => (true, writes != Writes::Idle || self.reads.is_empty()),
        };
        // Of what the buffer has taken, the one of shortest way is as good as the oldest.
        let in_turn = aged && (takes_reads || self.somebody_waits());
        let window = if in_turn { 1 } else { self.window };
        let reads = self.reads.iter().enumerate().take(if takes_reads { window } else { 0 });
        let reads = reads.map(|(at, run)| (reach_ps(run), false, at));
        let due = |run: &Run| match writes {
            Writes::Flush(number) => run.number <= number || run.waiters[0].is_some(),
            Writes::Idle | Writes::Press => true,
        };
        let written = self.writes.iter().enumerate().take_while(|(_, run)| due(run));
        let written = written.take(if takes_writes { window } else { 0 });
        let written = written.map(|(at, run)| (reach_ps(run), true, at));
        let (_, write, at) = reads.chain(written).min()?;
        if write {
            self.pressed_since_ps = Some(now_ps);
        }
        let queue = if write { &mut self.writes } else { &mut self.reads };
        Some((queue.remove(at)?, aged))
    }

    /// Whether somebody waits for the oldest write itself, and not for room.
    fn somebody_waits(&self) -> bool {
        self.writes.front().is_some_and(|run| run.waiters[0].is_some())
    }

    /// How long writes have waited: the oldest, or, of those that the buffer has taken, all of them.
    fn write_age_ps(&self, now_ps: u64) -> u64 {
        match self.writes.front() {
            Some(run) if run.waiters[0].is_some() => now_ps - run.since_ps,
            _ => self.pressed_since_ps.map_or(0, |since_ps| now_ps - since_ps),
        }
    }
}
