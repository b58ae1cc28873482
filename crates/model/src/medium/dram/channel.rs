//! One channel: its controller gives commands as the standard's rules allow, first ready, first
//! come, first served (FR-FCFS).
//!
//! Nothing ticks. The controller knows which command it will give next, and when; a request that
//! comes, a refresh that falls due, and the command itself change that. What it does depends on
//! simulated time only: [`Channel::run`] may be called at any time, and does the same.

mod admission;
mod choice;
mod commands;
mod stream;

use super::DramCounts;
use super::bank::{Bank, CLOSED};
use super::candidates::{Candidates, Order, places_of_group};
use super::earliest::NEVER;
use super::log::Logged;
use super::queue::{Entries, Entry, NONE, Touched};
use super::rank::Rank;
use super::rules::Rules;
use super::standard::Command;
use super::table::{USUAL, UsualEarliest};
use std::collections::VecDeque;
use std::ops::Range;

/// A request, or a part of one, whose data are on their way.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    /// When its last data have moved.
    pub end_ps: u64,
    /// When its request was submitted.
    pub submitted_ps: u64,
    /// Clocks of its own commands and data, without any wait.
    pub own_clocks: u32,
    /// Number of lines.
    pub lines: u32,
    /// The request's id, or its place among the requests of several runs.
    pub owner: u32,
    /// Whether its request has several runs.
    pub shared: bool,
    /// Towards DRAM.
    pub write: bool,
    /// Its request was answered before: there is room again, and that is all.
    pub silent: bool,
}

/// What is done next, unless something comes between.
#[derive(Clone, Copy, Debug)]
struct Choice {
    /// The first clock of the command on its bus.
    start: u64,
    /// Of commands that can start together the least goes first.
    order: Order,
    what: What,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// A rank is refreshed, or a row closed for that.
    Refresh(u32),
    /// A bank gets the command that it wants.
    Bank(u32),
    /// A row is closed that nobody used for long.
    Timeout(u32),
}

impl Choice {
    const NOTHING: Choice = Choice { start: NEVER, order: Order::MAX, what: What::Bank(0) };

    #[inline]
    fn before(&self, other: &Choice) -> bool {
        (self.start, self.order) < (other.start, other.order)
    }
}

/// Column commands left are told apart up to here.
const LEFT: usize = 17;

/// The place of so many column commands left.
#[inline]
fn left(bursts: u32) -> usize {
    (bursts as usize).min(LEFT - 1)
}

/// Sets of banks, 64 to a word.
type Set = Vec<u64>;

/// A bank group.
#[derive(Clone, Debug)]
struct Group {
    /// Until when each command is refused by it.
    earliest: UsualEarliest,
    /// Places of its banks among the candidates.
    places: Range<usize>,
}

/// The state of a channel.
#[derive(Clone, Debug)]
pub struct Channel {
    pub(super) banks: Vec<Bank>,
    groups: Vec<Group>,
    pub(super) ranks: Vec<Rank>,
    entries: Entries,
    touched: Touched,
    /// Submitted, and not yet seen by the controller: the first, and the last of a chain.
    incoming: [u32; 2],
    /// When the controller sees the first of them.
    next_arrival: u64,
    /// Seen, and kept until another that touches the same lines is done; of them, reads.
    kept: Vec<u32>,
    kept_reads: u32,
    /// Banks with something to read, and with something to write.
    work: [Set; 2],
    /// What the banks want in the present direction.
    candidates: Candidates,
    /// Places of a rank among them.
    places_of_rank: usize,
    /// Banks that want a column command against the direction, and some that did.
    against: Vec<u32>,
    /// Banks that a refresh keeps from others.
    blocked: Set,
    /// Ranks that a refresh is under way for.
    refreshing: u32,
    next_due: u64,
    /// Writes are served, not reads.
    writing: bool,
    /// They go ahead of reads until few are left.
    draining: bool,
    /// Column commands that the drain may still give while reads wait: what waited when it began.
    drain_left: u64,
    /// Reads that go ahead of all writes, since a drain ended with many left: those that it passed.
    reads_owed: u64,
    /// Column commands that wait, to read and to write.
    waiting: [u64; 2],
    /// Writes in order of arrival; those that are done are dropped when they come first.
    writes_by_age: VecDeque<(u32, u64)>,
    /// No write that waits is aged before this clock.
    writes_age_at: u64,
    /// From when on each command bus is free.
    bus_free: [u64; 2],
    pub(super) now: u64,
    best: Choice,
    /// In order of their end.
    flights: VecDeque<Flight>,
    /// Lines of requests not yet done, to read and to write.
    held: [u64; 2],
    /// Entries not yet done with their column commands, to read and to write.
    unfinished: [u32; 2],
    /// How many of them have so many column commands left, the last place counting all above.
    left: [u32; LEFT],
    sequence: u64,
    counts: DramCounts,
    log: Option<Vec<Logged>>,
}

impl Channel {
    /// Lines that its controller holds, of writes that are answered, too.
    pub fn held(&self) -> usize {
        self.entries.len()
    }

    /// A channel with nothing to do and all rows closed.
    pub fn new(rules: &Rules) -> Self {
        let d = &rules.description;
        let of_rank = d.banks_of_rank();
        let all = d.ranks * of_rank;
        let empty = || vec![0; all.div_ceil(64) as usize];
        let of_group = places_of_group(d.banks);
        let place = |bank: u32| bank / d.banks * of_group + bank % d.banks;
        let bank = |bank| Bank::new(bank, bank / of_rank, bank / d.banks, place(bank));
        let group = |group: u32| {
            let places = (group * of_group) as usize..((group + 1) * of_group) as usize;
            Group { earliest: [0; USUAL], places }
        };
        let mut channel = Channel {
            banks: (0..all).map(bank).collect(),
            groups: (0..d.ranks * d.groups).map(group).collect(),
            ranks: (0..d.ranks).map(|rank| Rank::new(d, rank)).collect(),
            entries: Entries::default(),
            touched: Touched::default(),
            incoming: [NONE; 2],
            next_arrival: NEVER,
            kept: Vec::new(),
            kept_reads: 0,
            work: [empty(), empty()],
            candidates: Candidates::new(d.ranks * d.groups * of_group, all),
            places_of_rank: (d.groups * of_group) as usize,
            against: Vec::new(),
            blocked: empty(),
            refreshing: 0,
            next_due: 0,
            writing: false,
            draining: false,
            drain_left: 0,
            reads_owed: 0,
            waiting: [0; 2],
            writes_by_age: VecDeque::new(),
            writes_age_at: NEVER,
            bus_free: [0; 2],
            now: 0,
            best: Choice::NOTHING,
            flights: VecDeque::new(),
            held: [0; 2],
            unfinished: [0; 2],
            left: [0; LEFT],
            sequence: 0,
            counts: DramCounts::default(),
            log: None,
        };
        channel.find_next_due();
        channel
    }

    // ---- From outside --------------------------------------------------------------------------

    /// Begins a log of all commands.
    pub fn start_log(&mut self) {
        self.log.get_or_insert_default();
    }

    /// Takes what was logged, in order of time. Of what is taken nothing is as late as `before`:
    /// power-down is noticed only when it ends.
    pub fn take_log(&mut self, before: u64) -> Vec<Logged> {
        let Some(log) = &mut self.log else { return Vec::new() };
        log.sort_by_key(|logged| logged.clock);
        let rest = log.split_off(log.partition_point(|logged| logged.clock < before));
        std::mem::replace(log, rest)
    }

    /// Whether `lines` more can be held. What is larger than the whole queue is taken when the queue
    /// is empty.
    #[inline]
    pub fn has_room(&self, rules: &Rules, lines: u64, write: bool) -> bool {
        let held = self.held[usize::from(write)];
        held == 0 || held + lines <= rules.depth[usize::from(write)]
    }

    /// Whether a write of one line that waits may be of this line.
    #[inline]
    pub fn may_be_written(&self, line: u64) -> bool {
        self.touched.may_be_written(line)
    }

    /// Whether some request has not got all its commands.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.unfinished[0] + self.unfinished[1] > 0
    }

    /// Before when nothing that is held is done; exact, where its commands were given.
    #[inline]
    pub fn next_event_ps(&self, rules: &Rules) -> u64 {
        let given = self.flights.front().map_or(NEVER, |flight| flight.end_ps);
        if !self.is_busy() {
            return given;
        }
        // Whoever has the fewest column commands left needs so many more, each apart.
        let fewest = self.left.iter().position(|&entries| entries > 0).unwrap_or(1) as u64;
        let next = self.next_step().0 + fewest.saturating_sub(1) * rules.least_spacing;
        given.min(rules.clock.cycles_to_ps(next + rules.least_latency))
    }

    /// What the channel has counted.
    pub fn counts(&self) -> DramCounts {
        let refreshes = self.ranks.iter().map(|rank| rank.refresh.done).sum();
        let activates = self.ranks.iter().map(|rank| rank.residency.activates).sum();
        DramCounts { refreshes, activates, ..self.counts }
    }

    /// Takes a request, or a part of one; times of arrival never go back. A write of one line is
    /// answered at `answered_ps`.
    #[inline]
    pub fn submit(&mut self, entry: Entry, answered_ps: u64) {
        let write = usize::from(entry.class.writes());
        self.held[write] += u64::from(entry.lines);
        self.counts.take(&entry);
        self.unfinished[write] += 1;
        self.left[left(entry.bursts)] += 1;
        if entry.posted {
            self.answer(entry.submitted_ps, answered_ps, entry.owner, true);
        }
        self.touched.add(&entry);
        let arrival = entry.arrival;
        let slot = self.entries.insert(entry);
        let last = self.incoming[1];
        if last == NONE {
            (self.incoming[0], self.next_arrival) = (slot, arrival);
        } else {
            self.entries[last].next = slot;
        }
        self.incoming[1] = slot;
    }

    /// The next request that the controller sees, if one was submitted.
    #[inline]
    fn next_incoming(&mut self) -> Option<u32> {
        let slot = self.incoming[0];
        if slot == NONE {
            return None;
        }
        let next = std::mem::replace(&mut self.entries[slot].next, NONE);
        self.incoming[0] = next;
        if next == NONE {
            (self.incoming[1], self.next_arrival) = (NONE, NEVER);
        } else {
            self.next_arrival = self.entries[next].arrival;
        }
        Some(slot)
    }

    /// Answers a read of one line from a write that waits, if one does; `now_ps` is its submission,
    /// and the channel has run until then.
    #[inline]
    pub fn forward(&mut self, rules: &Rules, now_ps: u64, line: u64, bank: u32, id: u32) -> bool {
        if !self.writes_line(line, bank) {
            return false;
        }
        self.counts.read_lines += 1;
        self.counts.forwarded_lines += 1;
        self.answer(now_ps, now_ps + rules.controller_ps, id, false);
        true
    }

    /// Answers a request that needs no command, or not yet.
    #[inline]
    fn answer(&mut self, submitted_ps: u64, end_ps: u64, owner: u32, write: bool) {
        self.fly(Flight {
            end_ps,
            submitted_ps,
            own_clocks: 0,
            lines: 0,
            owner,
            shared: false,
            write,
            silent: false,
        });
    }

    fn writes_line(&self, line: u64, bank: u32) -> bool {
        let holds = |entry: &Entry| entry.bank == bank && entry.holds(line);
        let holds_one = |mut slot: u32| {
            while slot != NONE && !holds(&self.entries[slot]) {
                slot = self.entries[slot].next;
            }
            slot != NONE
        };
        self.banks[bank as usize].lists[2..].iter().any(|list| holds_one(list.head))
            || holds_one(self.incoming[0])
            || self.kept.iter().any(|slot| holds(&self.entries[*slot]))
    }

    /// The next request, or part of one, that is answered or done by `now_ps`.
    #[inline]
    pub fn land(&mut self, now_ps: u64) -> Option<Flight> {
        let flight = *self.flights.front().filter(|flight| flight.end_ps <= now_ps)?;
        self.flights.pop_front();
        self.held[usize::from(flight.write)] -= u64::from(flight.lines);
        Some(flight)
    }

    /// Does all that is due before clock `end`, while there are requests; `idle`: also without.
    #[inline]
    pub fn run(&mut self, rules: &Rules, end: u64, idle: bool) {
        while idle || self.is_busy() {
            let (at, step) = self.next_step();
            if at >= end {
                return;
            }
            self.now = self.now.max(at);
            match step {
                Step::Arrival => self.admit(rules),
                Step::Due if idle && self.skip_refreshes(rules, end) => {}
                Step::Due if idle && self.refresh_alone(rules, end) => {}
                Step::Due => self.refreshes_fall_due(rules),
                Step::Command => self.act(rules, end),
            }
        }
    }

    /// The next thing that happens: at one clock, arrivals first, commands last.
    #[inline]
    fn next_step(&self) -> (u64, Step) {
        let (mut at, mut step) = (self.best.start, Step::Command);
        if self.next_due <= at {
            (at, step) = (self.next_due, Step::Due);
        }
        if self.next_arrival <= at {
            (at, step) = (self.next_arrival, Step::Arrival);
        }
        (at, step)
    }

    // ---- For refreshes -------------------------------------------------------------------------

    /// Keeps the banks of a rank's next refresh from others, or gives them back.
    pub(super) fn block(&mut self, rules: &Rules, rank: u32, blocked: bool) {
        // None of its banks is among the candidates where nothing waits for them.
        let waits = self.ranks[rank as usize].waiting > 0;
        for index in self.refresh_targets(rules, rank) {
            let bit = 1 << (index % 64);
            let word = &mut self.blocked[index / 64];
            *word = if blocked { *word | bit } else { *word & !bit };
            let bank = &mut self.banks[index];
            bank.blocked = blocked;
            if !waits {
                continue;
            }
            if blocked {
                self.candidates.clear(bank.place as usize);
            } else if bank.wants(self.writing) {
                self.decide(rules, index);
            }
        }
        let bit = 1 << rank;
        self.refreshing = if blocked { self.refreshing | bit } else { self.refreshing & !bit };
    }

    /// Closes all rows of a rank.
    pub(super) fn close_all(&mut self, rules: &Rules, rank: u32, at: u64) {
        let of_rank = rules.description.banks_of_rank() as usize;
        self.give_rank(rules, Command::PrechargeAll, rank, at);
        self.log_rank(Command::PrechargeAll, rank, at);
        for index in rank as usize * of_rank..(rank as usize + 1) * of_rank {
            if self.banks[index].row != CLOSED {
                self.row_is_closed(rules, index, at);
            }
        }
    }

    /// When the next refresh of any rank falls due.
    pub(super) fn find_next_due(&mut self) {
        self.next_due = self.ranks.iter().map(|rank| rank.refresh.due).min().unwrap_or(NEVER);
    }

    /// When that is.
    pub(super) fn next_due(&self) -> u64 {
        self.next_due
    }

    /// Whether a refresh is under way.
    pub(super) fn is_refreshing(&self) -> bool {
        self.refreshing != 0
    }

    /// Chooses anew.
    pub(super) fn choose_again(&mut self, rules: &Rules) {
        self.choose(rules);
    }

    /// The clock at which rows of the rank can be closed for good and nothing is under way.
    pub(super) fn is_quiet(&self, rank: &Rank) -> bool {
        rank.residency.open_banks == 0 && rank.refresh.owed == 0 && !rank.refresh.under_way
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The controller sees a request.
    Arrival,
    /// A refresh falls due.
    Due,
    /// A command is given.
    Command,
}
