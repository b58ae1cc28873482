//! One channel: its controller gives commands as the standard's rules allow, first ready, first
//! come, first served (FR-FCFS).
//!
//! Nothing ticks. The controller knows which command it will give next, and when; a request that
//! comes, a refresh that falls due, and the command itself change that. What it does depends on
//! simulated time only: [`Channel::run`] may be called at any time, and does the same.

use super::super::PagePolicy;
use super::DramCounts;
use super::bank::{Bank, CLOSED, ORDER_COLUMN, ORDER_TIMEOUT, Wish};
use super::earliest::NEVER;
use super::log::{Logged, WHOLE_RANK};
use super::queue::{Class, Entries, Entry, NONE};
use super::rank::Rank;
use super::rules::Rules;
use super::standard::{Command, Next};
use super::table::Earliest;
use std::collections::VecDeque;

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
    /// The clock that counts: its last.
    at: u64,
    /// Of commands that can start together the least goes first.
    order: u64,
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
    const NOTHING: Choice =
        Choice { start: NEVER, at: NEVER, order: u64::MAX, what: What::Bank(0) };

    #[inline]
    fn before(&self, other: &Choice) -> bool {
        (self.start, self.order) < (other.start, other.order)
    }
}

/// Bits of an order: three of the kind of command, the rest its age.
const ORDER_BITS: u32 = super::bank::AGE_BITS + 3;
/// So many clocks away is far: a million.
const FAR: u64 = (1 << (64 - ORDER_BITS)) - 1;

/// Column commands left are told apart up to here.
const LEFT: usize = 17;

/// The place of so many column commands left.
#[inline]
fn left(bursts: u32) -> usize {
    (bursts as usize).min(LEFT - 1)
}

/// Sets of banks, 64 to a word.
type Set = Vec<u64>;

/// The state of a channel.
#[derive(Clone, Debug)]
pub struct Channel {
    pub(super) banks: Vec<Bank>,
    /// What each bank wants in the present direction, if anything waits in it.
    wishes: Vec<Wish>,
    groups: Vec<Earliest>,
    pub(super) ranks: Vec<Rank>,
    entries: Entries,
    /// Submitted, and not yet seen by the controller.
    incoming: VecDeque<u32>,
    /// Seen, and kept until another that touches the same lines is done; of them, reads.
    kept: Vec<u32>,
    kept_reads: u32,
    /// Banks with something to read, and with something to write.
    work: [Set; 2],
    /// Of those of the present direction, banks that want a column command, an activate, a precharge.
    wanted: [Set; 3],
    /// Banks that a refresh keeps from others.
    blocked: Set,
    /// Banks with an open row.
    open: Set,
    /// Ranks that a refresh is under way for.
    refreshing: u32,
    next_due: u64,
    /// Writes are served, not reads.
    writing: bool,
    /// They go ahead of reads until few are left.
    draining: bool,
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
    /// A channel with nothing to do and all rows closed.
    pub fn new(rules: &Rules) -> Self {
        let d = &rules.description;
        let of_rank = d.banks_of_rank();
        let all = d.ranks * of_rank;
        let empty = || vec![0; all.div_ceil(64) as usize];
        let mut channel = Channel {
            banks: (0..all).map(|bank| Bank::new(bank / of_rank, bank / d.banks)).collect(),
            wishes: vec![Wish::NOTHING; all as usize],
            groups: vec![[0; Next::COUNT]; (d.ranks * d.groups) as usize],
            ranks: (0..d.ranks).map(|rank| Rank::new(d, rank)).collect(),
            entries: Entries::default(),
            incoming: VecDeque::new(),
            kept: Vec::new(),
            kept_reads: 0,
            work: [empty(), empty()],
            wanted: [empty(), empty(), empty()],
            blocked: empty(),
            open: empty(),
            refreshing: 0,
            next_due: 0,
            writing: false,
            draining: false,
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

    /// Whether some write has not got all its commands.
    #[inline]
    pub fn has_writes(&self) -> bool {
        self.unfinished[1] > 0
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
        let slot = self.entries.insert(entry);
        self.incoming.push_back(slot);
    }

    /// Answers a read of one line from a write that waits, if one does; `now_ps` is its submission,
    /// and the channel has run until then.
    #[inline]
    pub fn forward(&mut self, rules: &Rules, now_ps: u64, line: u64, bank: u32, id: u32) -> bool {
        if self.unfinished[1] == 0 || !self.writes_line(line, bank) {
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
        let waits = self.banks[bank as usize].lists[2..].iter().any(|list| {
            let mut slot = list.head;
            while slot != NONE && !holds(&self.entries[slot]) {
                slot = self.entries[slot].next;
            }
            slot != NONE
        });
        let comes = |slot: &u32| {
            let entry = &self.entries[*slot];
            entry.class.writes() && holds(entry)
        };
        waits || self.incoming.iter().any(comes) || self.kept.iter().any(comes)
    }

    /// The next request, or part of one, that is answered or done by `now_ps`.
    #[inline]
    pub fn land(&mut self, now_ps: u64) -> Option<Flight> {
        let flight = *self.flights.front().filter(|flight| flight.end_ps <= now_ps)?;
        self.flights.pop_front();
        self.held[usize::from(flight.write)] -= u64::from(flight.lines);
        Some(flight)
    }

    /// Does all that is due until clock `to`, while there are requests; `idle`: also without.
    #[inline]
    pub fn run(&mut self, rules: &Rules, to: u64, idle: bool) {
        while idle || self.is_busy() {
            let (at, step) = self.next_step();
            if at > to {
                return;
            }
            self.now = self.now.max(at);
            match step {
                Step::Arrival => self.admit(rules),
                Step::Due if idle && self.skip_refreshes(rules, to) => {}
                Step::Due => self.refreshes_fall_due(rules),
                Step::Command => self.act(rules, to),
            }
        }
    }

    /// The next thing that happens: at one clock, arrivals first, commands last.
    #[inline]
    fn next_step(&self) -> (u64, Step) {
        let arrival = self.incoming.front().map_or(NEVER, |&slot| self.entries[slot].arrival);
        let (mut at, mut step) = (self.best.start, Step::Command);
        if self.next_due <= at {
            (at, step) = (self.next_due, Step::Due);
        }
        if arrival <= at {
            (at, step) = (arrival, Step::Arrival);
        }
        (at, step)
    }

    // ---- Requests ------------------------------------------------------------------------------

    /// The controller sees the next request.
    fn admit(&mut self, rules: &Rules) {
        let Some(slot) = self.incoming.pop_front() else { return };
        self.entries[slot].sequence = self.sequence;
        self.sequence += 1;
        if !self.must_wait(slot, self.kept.len()) {
            self.enter(rules, slot);
            return;
        }
        self.kept.push(slot);
        if !self.entries[slot].class.writes() {
            self.kept_reads += 1;
            if self.turn(rules) {
                self.choose(rules);
            }
        }
    }

    /// Whether an entry has to wait for one that came before it: in its bank, or among the first
    /// `before` that are kept.
    #[inline]
    fn must_wait(&mut self, slot: u32, before: usize) -> bool {
        let entry = &self.entries[slot];
        let bank = &self.banks[entry.bank as usize];
        for list in &bank.lists[if entry.class.writes() { 0 } else { 2 }..] {
            let mut other = list.head;
            while other != NONE {
                if entry.conflicts(&self.entries[other]) {
                    self.entries[other].waited_for = true;
                    return true;
                }
                other = self.entries[other].next;
            }
        }
        let earlier = |other: &u32| {
            let other = &self.entries[*other];
            other.bank == entry.bank && entry.conflicts(other)
        };
        self.kept[..before].iter().any(earlier)
    }

    /// One that was waited for is done: those go on that wait for no other.
    #[cold]
    fn release(&mut self, rules: &Rules) {
        let mut index = 0;
        while index < self.kept.len() {
            let slot = self.kept[index];
            if self.must_wait(slot, index) {
                index += 1;
                continue;
            }
            self.kept.remove(index);
            self.kept_reads -= u32::from(!self.entries[slot].class.writes());
            self.enter(rules, slot);
        }
    }

    /// An entry joins those that wait for its bank.
    fn enter(&mut self, rules: &Rules, slot: u32) {
        let entry = &self.entries[slot];
        let (index, class, bursts) = (entry.bank as usize, entry.class, entry.bursts);
        let sequence = entry.sequence;
        let rank = self.banks[index].rank;
        let woke = self.ranks[rank as usize].waiting == 0 && self.wake(rules, rank, self.now);
        self.ranks[rank as usize].waiting += 1;
        let bank = &mut self.banks[index];
        bank.lists[class.index()].push(&mut self.entries, slot, bank.row);
        let direction = usize::from(class.writes());
        self.waiting[direction] += u64::from(bursts);
        self.work[direction][index / 64] |= 1 << (index % 64);
        if class.writes() {
            self.writes_by_age.push_back((slot, sequence));
            let aged_at = self.entries[slot].arrival + rules.age_cap + 1;
            self.writes_age_at = self.writes_age_at.min(aged_at);
        }
        let turned = self.turn(rules);
        let serves = class.writes() == self.writing;
        if serves && !turned {
            self.decide(rules, index);
        }
        // What was chosen stays, unless this concerns it or is better.
        if turned || woke || serves && self.best.what == What::Bank(index as u32) {
            self.choose(rules);
        } else if !serves {
            // It waits for its direction.
        } else if self.blocked[index / 64] >> (index % 64) & 1 == 0 {
            let choice = self.choice(rules, index, self.floors());
            if choice.before(&self.best) {
                self.best = choice;
            }
        }
    }

    /// Turns from reads to writes or back, where it is time. Returns whether it did.
    fn turn(&mut self, rules: &Rules) -> bool {
        let [reads, writes] = self.waiting;
        if writes == 0 && !self.writing {
            return false;
        }
        let aged = self.oldest_write_is_aged(rules) || self.kept_reads > 0 && writes > 0;
        let writing = if self.writing {
            self.draining |= writes >= rules.write_high || aged;
            self.draining &= writes > rules.write_low || aged;
            writes > 0 && (reads == 0 || self.draining)
        } else {
            self.draining = writes >= rules.write_high || aged;
            self.draining || reads == 0
        };
        self.draining &= writing;
        if writing == self.writing {
            return false;
        }
        self.writing = writing;
        for set in &mut self.wanted {
            set.fill(0);
        }
        for word in 0..self.blocked.len() {
            let mut set = self.work[usize::from(writing)][word];
            while set != 0 {
                self.decide(rules, word * 64 + set.trailing_zeros() as usize);
                set &= set - 1;
            }
        }
        true
    }

    #[inline]
    fn oldest_write_is_aged(&mut self, rules: &Rules) -> bool {
        self.now >= self.writes_age_at && self.look_for_aged_write(rules)
    }

    #[cold]
    fn look_for_aged_write(&mut self, rules: &Rules) -> bool {
        while let Some(&(slot, sequence)) = self.writes_by_age.front() {
            let entry = &self.entries[slot];
            if entry.sequence == sequence && entry.bursts_left > 0 {
                self.writes_age_at = entry.arrival + rules.age_cap + 1;
                return self.now >= self.writes_age_at;
            }
            self.writes_by_age.pop_front();
        }
        self.writes_age_at = NEVER;
        false
    }

    /// A bank finds out what it wants.
    #[inline]
    fn decide(&mut self, rules: &Rules, index: usize) {
        let aged = self.now.saturating_sub(rules.age_cap);
        let wish = self.banks[index].wish(&self.entries, self.writing, aged);
        self.wishes[index] = wish;
        self.forget(index);
        self.wanted[wish.kind()][index / 64] |= 1 << (index % 64);
    }

    /// A bank wants nothing in the present direction, or something else.
    #[inline]
    fn forget(&mut self, index: usize) {
        for set in &mut self.wanted {
            set[index / 64] &= !(1 << (index % 64));
        }
    }

    // ---- The choice ----------------------------------------------------------------------------

    /// The first clock on each command bus.
    #[inline]
    fn floors(&self) -> [u64; 2] {
        self.bus_free.map(|free| free.max(self.now))
    }

    /// When a bank can have the command that it wants: its start.
    #[inline]
    fn start(&self, rules: &Rules, wish: &Wish, floors: [u64; 2]) -> u64 {
        let next = wish.next as usize;
        let before = rules.before[next];
        let at = wish
            .ready
            .max(self.groups[wish.group as usize][next])
            .max(self.ranks[wish.rank as usize].earliest[next]);
        // Nothing is allowed so early that `before` does not fit: the floor is a start.
        at.saturating_sub(before).max(floors[rules.bus_of[next]])
    }

    #[inline]
    fn choice(&self, rules: &Rules, index: usize, floors: [u64; 2]) -> Choice {
        let wish = &self.wishes[index];
        let start = self.start(rules, wish, floors);
        let at = start + rules.before[wish.next as usize];
        Choice { start, at, order: wish.order, what: What::Bank(index as u32) }
    }

    /// No activate, or precharge, starts sooner.
    #[inline]
    fn first_start(&self, rules: &Rules, kind: usize, floor: u64) -> u64 {
        let next = if kind == 1 { Next::Activate } else { Next::Precharge } as usize;
        let ranks = self.ranks.iter().map(|rank| rank.earliest[next]);
        ranks.min().unwrap_or(0).saturating_sub(rules.before[next]).max(floor)
    }

    /// Finds what is done next.
    fn choose(&mut self, rules: &Rules) {
        let floors = self.floors();
        // The first start, of these the least order: compared as one number, in which a start far
        // away is as good as any other far away.
        let (mut best, mut key) = (u32::MAX, u64::MAX);
        let now = self.now;
        for (kind, wanted) in self.wanted.iter().enumerate() {
            // Of those that start together this kind comes behind those before it.
            if kind > 0 && self.first_start(rules, kind, floors[0]) - now >= key >> ORDER_BITS {
                continue;
            }
            for (word, (wanted, blocked)) in wanted.iter().zip(&self.blocked).enumerate() {
                let mut set = wanted & !blocked;
                while set != 0 {
                    let index = word * 64 + set.trailing_zeros() as usize;
                    set &= set - 1;
                    let wish = &self.wishes[index];
                    let away = (self.start(rules, wish, floors) - now).min(FAR);
                    let own = away << ORDER_BITS | wish.order;
                    best = if own < key { index as u32 } else { best };
                    key = own.min(key);
                }
            }
        }
        self.best = if best == u32::MAX {
            Choice::NOTHING
        } else {
            self.choice(rules, best as usize, floors)
        };
        if self.refreshing != 0 || rules.page_policy == PagePolicy::Timeout {
            self.choose_besides(rules, floors[0]);
        }
    }

    /// Chooses what no bank wants, if it comes first: a part of a refresh, or closing a row that
    /// nobody uses.
    #[cold]
    fn choose_besides(&mut self, rules: &Rules, floor: u64) {
        let mut best = self.best;
        if self.refreshing != 0 {
            self.choose_refresh(rules, floor, &mut best);
        }
        if rules.page_policy == PagePolicy::Timeout {
            self.choose_timeout(rules, floor, &mut best);
        }
        self.best = best;
    }

    #[cold]
    fn choose_refresh(&self, rules: &Rules, floor: u64, best: &mut Choice) {
        let mut set = self.refreshing;
        while set != 0 {
            let rank = set.trailing_zeros();
            let (_, _, at) = self.refresh_command(rules, rank, floor);
            let order = u64::from(rank);
            let choice = Choice { start: at, at, order, what: What::Refresh(rank) };
            if choice.before(best) {
                *best = choice;
            }
            set &= set - 1;
        }
    }

    fn choose_timeout(&self, rules: &Rules, floor: u64, best: &mut Choice) {
        let precharge = Next::Precharge as usize;
        for (word, (open, blocked)) in self.open.iter().zip(&self.blocked).enumerate() {
            let mut set = open & !blocked;
            while set != 0 {
                let index = word * 64 + set.trailing_zeros() as usize;
                set &= set - 1;
                let bank = &self.banks[index];
                if bank.has_hits() {
                    continue;
                }
                let at = (bank.used_at + rules.row_timeout)
                    .max(floor)
                    .max(bank.earliest[precharge])
                    .max(self.ranks[bank.rank as usize].earliest[precharge]);
                let order = ORDER_TIMEOUT | index as u64;
                let choice = Choice { start: at, at, order, what: What::Timeout(index as u32) };
                if choice.before(best) {
                    *best = choice;
                }
            }
        }
    }

    /// The command that a refresh of a rank needs next, its bank if it is for one, and when.
    pub(super) fn refresh_command(
        &self,
        rules: &Rules,
        rank: u32,
        floor: u64,
    ) -> (Command, Option<usize>, u64) {
        let state = &self.ranks[rank as usize];
        let of_rank = rules.description.banks_of_rank() as usize;
        let first = rank as usize * of_rank;
        let all = rules.description.refresh_units == 1;
        let precharge = Next::Precharge as usize;
        let open = (first..first + of_rank).filter(|&index| {
            self.banks[index].row != CLOSED && self.blocked[index / 64] >> (index % 64) & 1 != 0
        });
        let closable = |index: usize| self.banks[index].earliest[precharge];
        let floor_of = |next: Next| floor.max(state.earliest[next as usize]);
        if all {
            if let Some(last) = open.map(closable).max() {
                return (Command::PrechargeAll, None, floor_of(Next::Precharge).max(last));
            }
            return (Command::Refresh, None, floor_of(Next::Refresh));
        }
        if let Some(index) = open.min_by_key(|&index| (closable(index), index)) {
            let at = floor_of(Next::Precharge).max(closable(index));
            return (Command::Precharge, Some(index), at);
        }
        let refresh = Next::RefreshBank as usize;
        let ready = self.refresh_targets(rules, rank).map(|i| self.banks[i].earliest[refresh]);
        let at = floor_of(Next::RefreshBank).max(ready.max().unwrap_or(0));
        (Command::RefreshBank, self.refresh_targets(rules, rank).next(), at)
    }

    /// The banks that the next refresh of a rank is of.
    pub(super) fn refresh_targets(
        &self,
        rules: &Rules,
        rank: u32,
    ) -> impl Iterator<Item = usize> + use<> {
        let d = &rules.description;
        let of_rank = d.banks_of_rank();
        let unit = self.ranks[rank as usize].refresh.unit;
        let (first, step) = if d.refresh_units == 1 {
            (0, 1)
        } else if rules.same_bank_of_groups {
            (unit, d.banks)
        } else {
            (unit, of_rank)
        };
        let base = rank * of_rank;
        (base + first..base + of_rank).step_by(step as usize).map(|index| index as usize)
    }

    // ---- Commands ------------------------------------------------------------------------------

    /// Gives the command that was chosen.
    fn act(&mut self, rules: &Rules, to: u64) {
        let Choice { at, what, .. } = self.best;
        match what {
            What::Bank(index) => {
                if !self.stream(rules, index as usize, to) {
                    self.serve(rules, index as usize, at);
                }
            }
            What::Refresh(rank) => self.go_on_with_refresh(rules, rank, at),
            What::Timeout(index) => {
                let rank = self.banks[index as usize].rank;
                if !self.wake(rules, rank, at) {
                    self.close(rules, index as usize, at);
                }
            }
        }
        self.choose(rules);
    }

    /// A bank gets what it wants.
    fn serve(&mut self, rules: &Rules, index: usize, at: u64) {
        let wish = self.wishes[index];
        match wish.command {
            Command::Activate => {
                let entry = &mut self.entries[wish.slot];
                entry.activated = true;
                let row = entry.row;
                let bank = &mut self.banks[index];
                bank.open(&self.entries, row);
                bank.used_at = at;
                self.open[index / 64] |= 1 << (index % 64);
                let rank = &mut self.ranks[bank.rank as usize];
                rank.residency.open(at);
                rank.activate(at, rules.timings.faw);
                self.give(rules, Command::Activate, index, at, row);
                self.decide(rules, index);
            }
            Command::Precharge => {
                self.entries[wish.slot].precharged = true;
                self.close(rules, index, at);
            }
            _ => self.transfer(rules, index, at),
        }
    }

    /// Closes a row by a precharge.
    pub(super) fn close(&mut self, rules: &Rules, index: usize, at: u64) {
        self.give(rules, Command::Precharge, index, at, 0);
        self.row_is_closed(rules, index, at);
    }

    /// A bank has no open row from `at` on.
    pub(super) fn row_is_closed(&mut self, rules: &Rules, index: usize, at: u64) {
        let bank = &mut self.banks[index];
        bank.close();
        self.ranks[bank.rank as usize].residency.close(at);
        self.open[index / 64] &= !(1 << (index % 64));
        if self.banks[index].wants(self.writing) {
            self.decide(rules, index);
        }
    }

    /// Moves a burst of the entry at the head of a bank's hits.
    fn transfer(&mut self, rules: &Rules, index: usize, at: u64) {
        let slot = self.wishes[index].slot;
        let entry = &mut self.entries[slot];
        let (class, write) = (entry.class, entry.class.writes());
        if entry.bursts_left == entry.bursts {
            self.counts.add(entry);
        }
        self.left[left(entry.bursts_left)] -= 1;
        entry.bursts_left -= 1;
        self.left[left(entry.bursts_left)] += u32::from(entry.bursts_left > 0);
        self.waiting[usize::from(write)] -= 1;
        let bank = &mut self.banks[index];
        bank.used_at = at;
        let rank = &mut self.ranks[bank.rank as usize];
        *(if write { &mut rank.residency.writes } else { &mut rank.residency.reads }) += 1;
        if entry.bursts_left > 0 {
            let command = self.wishes[index].command;
            self.give(rules, command, index, at, 0);
            self.decide(rules, index);
            self.turn(rules);
            return;
        }
        bank.lists[class.index()].remove_hit(&mut self.entries);
        let closes = rules.page_policy == PagePolicy::Closed && !bank.has_hits();
        let command = match (write, closes) {
            (false, false) => Command::Read,
            (false, true) => Command::ReadPrecharge,
            (true, false) => Command::Write,
            (true, true) => Command::WritePrecharge,
        };
        self.give(rules, command, index, at, 0);
        let waited_for = self.entries[slot].waited_for;
        self.finish(rules, slot, at);
        if closes {
            let t = &rules.timings;
            let last = if write { t.cwl + t.burst + t.wr } else { t.rtp };
            self.row_is_closed(rules, index, at + last);
        }
        self.after_last_burst(rules, index, class.writes());
        if waited_for {
            self.release(rules);
        }
    }

    /// Gives the column commands of the entry that is chosen, as many at once as nothing can come
    /// between: up to clock `to`, to the next thing that is known to happen, and to where another
    /// bank could have a command. What it leaves is as if each had been given by itself. Returns
    /// whether it gave any.
    #[inline]
    fn stream(&mut self, rules: &Rules, index: usize, to: u64) -> bool {
        let wish = self.wishes[index];
        let many = wish.kind() == 0 && self.entries[wish.slot].bursts_left > 3;
        many && self.log.is_none() && self.give_many(rules, index, to)
    }

    fn give_many(&mut self, rules: &Rules, index: usize, to: u64) -> bool {
        let wish = self.wishes[index];
        let (bank, entry) = (&self.banks[index], &self.entries[wish.slot]);
        let write = entry.class.writes();
        // Who waits beside it in its bank may grow old meanwhile.
        let demand = Class::demand(write);
        let empty = bank.lists[demand].is_empty() || bank.lists[demand + 1].is_empty();
        let alone = empty && bank.lists[entry.class.index()].head == wish.slot;
        // The last is left: with it the entry ends.
        let mut count = u64::from(entry.bursts_left) - 1;
        if !alone {
            return false;
        }
        if write && self.draining {
            count = count.min(self.waiting[1].saturating_sub(rules.write_low + 1));
        }
        let Choice { start, at, .. } = self.best;
        let arrival = self.incoming.front().map_or(NEVER, |&slot| self.entries[slot].arrival);
        let end = to.saturating_add(1).min(arrival).min(self.next_due).min(self.writes_age_at);
        let end = end.min(self.others_start(rules, index, wish.order));
        let apart = rules.spacing(write);
        count = count.min(end.saturating_sub(start).div_ceil(apart));
        if count < 2 {
            return false;
        }
        if entry.bursts_left == entry.bursts {
            self.counts.add(entry);
        }
        let further = (count - 1) * apart;
        self.now = self.now.max(start + further);
        let bursts_left = &mut self.entries[wish.slot].bursts_left;
        self.left[left(*bursts_left)] -= 1;
        *bursts_left -= count as u32;
        self.left[left(*bursts_left)] += 1;
        let ends = *bursts_left == 1;
        self.waiting[usize::from(write)] -= count;
        let residency = &mut self.ranks[wish.rank as usize].residency;
        *(if write { &mut residency.writes } else { &mut residency.reads }) += count;
        self.banks[index].used_at = at + further;
        self.give(rules, wish.command, index, at + further, 0);
        self.decide(rules, index);
        let last = start + count * apart;
        if ends && last < end && !self.draining {
            self.now = self.now.max(last);
            self.transfer(rules, index, at + count * apart);
        }
        true
    }

    /// The first start of a command of another bank, or of a refresh: what would come between the
    /// column commands of one. Younger column commands do not, where those follow as closely as any.
    fn others_start(&self, rules: &Rules, index: usize, order: u64) -> u64 {
        let floors = self.floors();
        let close = rules.spacing(self.writing) == rules.timings.ccd_s.max(rules.timings.burst)
            && !rules.description.standard.rank_is_pseudo_channel;
        let younger = if close { order..ORDER_COLUMN << 1 } else { 0..0 };
        let mut first = NEVER;
        for (kind, wanted) in self.wanted.iter().enumerate() {
            if kind > 0 && self.first_start(rules, kind, floors[0]) >= first {
                continue;
            }
            for (word, (wanted, blocked)) in wanted.iter().zip(&self.blocked).enumerate() {
                let mut set = wanted & !blocked;
                while set != 0 {
                    let other = word * 64 + set.trailing_zeros() as usize;
                    set &= set - 1;
                    let wish = &self.wishes[other];
                    if other != index && !younger.contains(&wish.order) {
                        first = first.min(self.start(rules, wish, floors));
                    }
                }
            }
        }
        if self.refreshing == 0 && rules.page_policy != PagePolicy::Timeout {
            return first;
        }
        let mut best = Choice { start: first, ..Choice::NOTHING };
        self.choose_refresh(rules, floors[0], &mut best);
        if rules.page_policy == PagePolicy::Timeout {
            self.choose_timeout(rules, floors[0], &mut best);
        }
        best.start
    }

    fn after_last_burst(&mut self, rules: &Rules, index: usize, write: bool) {
        let bank = &self.banks[index];
        let rank = bank.rank;
        if bank.wants(write) {
            self.decide(rules, index);
        } else {
            self.work[usize::from(write)][index / 64] &= !(1 << (index % 64));
            self.forget(index);
        }
        self.turn(rules);
        if self.ranks[rank as usize].waiting == 0 {
            self.rank_has_no_requests(rules, rank);
        }
    }

    /// Tables, bus and log learn of a command to a bank.
    #[inline]
    pub(super) fn give(
        &mut self,
        rules: &Rules,
        command: Command,
        index: usize,
        at: u64,
        row: u64,
    ) {
        let bank = &mut self.banks[index];
        let (rank, group) = (bank.rank, bank.group);
        rules.table.raise_bank(&mut bank.earliest, command, at);
        if rules.grouped {
            rules.table.raise_group(&mut self.groups[group as usize], command, at);
        }
        if self.log.is_some() {
            let bank = index as u32 - rank * rules.description.banks_of_rank();
            self.write_log(Logged { clock: at, command, rank, bank, row });
        }
        self.give_rank(rules, command, rank, at);
    }

    /// Tables and bus learn of a command to a rank.
    #[inline]
    pub(super) fn give_rank(&mut self, rules: &Rules, command: Command, rank: u32, at: u64) {
        let state = &mut self.ranks[rank as usize];
        rules.table.raise_rank(&mut state.earliest, command, at);
        state.idle_since = at;
        if self.ranks.len() > 1 && command.is_column() {
            for (other, state) in self.ranks.iter_mut().enumerate() {
                if other != rank as usize {
                    rules.table.raise_other_rank(&mut state.earliest, command, at);
                }
            }
        }
        self.bus_free[rules.bus(command)] = at + 1;
        if !rules.description.standard.two_command_buses {
            self.bus_free[1] = at + 1;
        }
    }

    /// Logs a command to a rank.
    pub(super) fn log_rank(&mut self, command: Command, rank: u32, clock: u64) {
        self.write_log(Logged { clock, command, rank, bank: WHOLE_RANK, row: 0 });
    }

    #[inline]
    pub(super) fn write_log(&mut self, logged: Logged) {
        if let Some(log) = &mut self.log {
            log.push(logged);
        }
    }

    pub(super) fn has_log(&self) -> bool {
        self.log.is_some()
    }

    /// The data of an entry are booked: its last column command is given at `at`.
    #[inline]
    fn finish(&mut self, rules: &Rules, slot: u32, at: u64) {
        let entry = &self.entries[slot];
        let write = entry.class.writes();
        let t = &rules.timings;
        let rcd = if write { t.rcd_wr } else { t.rcd };
        let opening = match (entry.precharged, entry.activated) {
            (true, true) => t.rp + rcd,
            (false, true) => rules.more_clocks[0] + rcd,
            (_, false) => rules.more_clocks[1],
        };
        let data = u64::from(entry.bursts - 1) * rules.spacing(write) + t.burst;
        let flight = Flight {
            end_ps: rules.clock.cycles_to_ps(at + rules.to_data(write) + t.burst),
            submitted_ps: entry.submitted_ps,
            own_clocks: (opening + rules.to_data(write) + data) as u32,
            lines: entry.lines,
            owner: entry.owner,
            shared: entry.shared,
            write,
            silent: entry.posted,
        };
        let rank = self.banks[entry.bank as usize].rank;
        self.ranks[rank as usize].waiting -= 1;
        self.unfinished[usize::from(write)] -= 1;
        self.entries.remove(slot);
        self.fly(flight);
    }

    /// Keeps flights in order of their end: nearly always the new one is among the last.
    #[inline]
    fn fly(&mut self, flight: Flight) {
        self.flights.push_back(flight);
        let mut place = self.flights.len() - 1;
        while place > 0 && self.flights[place - 1].end_ps > flight.end_ps {
            self.flights[place] = self.flights[place - 1];
            place -= 1;
        }
        self.flights[place] = flight;
    }

    // ---- For refreshes -------------------------------------------------------------------------

    /// Keeps the banks of a rank's next refresh from others, or gives them back.
    pub(super) fn block(&mut self, rules: &Rules, rank: u32, blocked: bool) {
        for index in self.refresh_targets(rules, rank) {
            let bit = 1 << (index % 64);
            let word = &mut self.blocked[index / 64];
            *word = if blocked { *word | bit } else { *word & !bit };
            if !blocked && self.banks[index].wants(self.writing) {
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
