//! Commands are given: banks, tables, bus and log learn of them, and what they complete is booked.

use super::super::bank::Wish;
use super::super::candidates::Kind;
use super::super::log::{Logged, WHOLE_RANK};
use super::super::queue::NONE;
use super::super::rules::Rules;
use super::super::standard::{Command, Next};
use super::choice::column;
use super::{Channel, Choice, Flight, What, left};

impl Channel {
    /// Gives the command that was chosen.
    pub(super) fn act(&mut self, rules: &Rules, end: u64) {
        let Choice { start, what, .. } = self.best;
        match what {
            What::Bank(index) => self.serve(rules, index as usize, start, end),
            What::Refresh(rank) => self.go_on_with_refresh(rules, rank, start),
            What::Timeout(index) => self.close_unused(rules, index as usize, start),
        }
        self.choose(rules);
    }

    /// Closes a row that nobody has used for long, or wakes its rank for that.
    #[cold]
    fn close_unused(&mut self, rules: &Rules, index: usize, at: u64) {
        let rank = self.banks[index].rank;
        if !self.wake(rules, rank, at) {
            self.close(rules, index, at);
        }
    }

    /// A bank gets what it wants: its command starts at `start`.
    #[inline]
    fn serve(&mut self, rules: &Rules, index: usize, start: u64, end: u64) {
        let Wish { kind, slot, .. } = self.banks[index].wish;
        match kind {
            Kind::Activate => self.open(rules, index, slot, start + rules.more_clocks[0]),
            Kind::Precharge => {
                self.entries[slot].precharged = true;
                self.close(rules, index, start);
            }
            _ => {
                if !self.stream(rules, index, slot, end) {
                    self.transfer(rules, index, start + rules.more_clocks[1]);
                }
            }
        }
    }

    /// Opens the row of an entry.
    #[inline]
    fn open(&mut self, rules: &Rules, index: usize, slot: u32, at: u64) {
        let entry = &mut self.entries[slot];
        entry.activated = true;
        let row = entry.row;
        let bank = &mut self.banks[index];
        bank.open(&self.entries, slot);
        bank.used_at = at;
        let rank = &mut self.ranks[bank.rank as usize];
        rank.residency.open(at);
        rank.activate(at, rules.faw);
        self.give(rules, Command::Activate, index, at, row);
        self.decide(rules, index);
    }

    /// Closes a row by a precharge.
    #[inline]
    pub(in super::super) fn close(&mut self, rules: &Rules, index: usize, at: u64) {
        self.give(rules, Command::Precharge, index, at, 0);
        self.row_is_closed(rules, index, at);
    }

    /// A bank has no open row from `at` on.
    #[inline]
    pub(in super::super) fn row_is_closed(&mut self, rules: &Rules, index: usize, at: u64) {
        let bank = &mut self.banks[index];
        bank.close();
        self.ranks[bank.rank as usize].residency.close(at);
        if bank.wants(self.writing) {
            self.decide(rules, index);
        }
    }

    /// Moves a burst of the entry at the head of a bank's hits.
    pub(super) fn transfer(&mut self, rules: &Rules, index: usize, at: u64) {
        let slot = self.banks[index].wish.slot;
        let entry = &mut self.entries[slot];
        let (class, write) = (entry.class, entry.class.writes());
        if entry.bursts_left == entry.bursts {
            self.counts.add(entry);
            self.banks[index].begins(rules, entry.row);
        }
        self.left[left(entry.bursts_left)] -= 1;
        entry.bursts_left -= 1;
        let bursts_left = entry.bursts_left;
        self.left[left(bursts_left)] += u32::from(bursts_left > 0);
        self.is_served(write, 1);
        let bank = &mut self.banks[index];
        bank.used_at = at;
        bank.unused_by = NONE;
        let rank = &mut self.ranks[bank.rank as usize];
        *(if write { &mut rank.residency.writes } else { &mut rank.residency.reads }) += 1;
        if bursts_left > 0 {
            let command = if write { Command::Write } else { Command::Read };
            self.give(rules, command, index, at, 0);
            self.decide(rules, index);
            self.turn(rules);
            return;
        }
        bank.lists[class.index()].remove_hit(&mut self.entries);
        let closes = bank.leaves_closed(rules);
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

    /// So many column commands, which waited, are given.
    #[inline]
    pub(super) fn is_served(&mut self, write: bool, count: u64) {
        self.waiting[usize::from(write)] -= count;
        let promised = if write { &mut self.drain_left } else { &mut self.reads_owed };
        *promised = promised.saturating_sub(count);
    }

    pub(super) fn after_last_burst(&mut self, rules: &Rules, index: usize, write: bool) {
        let bank = &self.banks[index];
        let rank = bank.rank;
        if !bank.wants(write) {
            self.work[usize::from(write)][index / 64] &= !(1 << (index % 64));
        }
        if bank.wants(self.writing) {
            self.decide(rules, index);
        } else {
            self.candidates.clear(bank.place as usize);
        }
        self.turn(rules);
        if self.ranks[rank as usize].waiting == 0 {
            self.rank_has_no_requests(rules, rank);
        }
    }

    /// Tables, bus and log learn of a command to a bank.
    #[inline(always)]
    pub(in super::super) fn give(
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
        if rules.grouped && command != Command::Precharge {
            self.give_group(rules, command, group as usize, at);
        }
        if self.log.is_some() {
            let bank = index as u32 - rank * rules.description.banks_of_rank();
            self.write_log(Logged { clock: at, command, rank, bank, row });
        }
        self.give_rank(rules, command, rank, at);
    }

    /// A bank group learns of a command to one of its banks: an activate makes activates wait, and a
    /// column command column commands.
    #[inline(always)]
    fn give_group(&mut self, rules: &Rules, command: Command, group: usize, at: u64) {
        let group = &mut self.groups[group];
        rules.table.raise_group(&mut group.earliest, command, at);
        let places = group.places.clone();
        if command == Command::Activate {
            let earliest = group.earliest[Next::Activate as usize];
            self.candidates.raise_activates(places, earliest);
        } else {
            let earliest = group.earliest[column(self.writing) as usize];
            self.candidates.raise_columns(places, earliest);
        }
    }

    /// Tables and bus learn of a command to a rank.
    #[inline(always)]
    pub(in super::super) fn give_rank(
        &mut self,
        rules: &Rules,
        command: Command,
        rank: u32,
        at: u64,
    ) {
        let state = &mut self.ranks[rank as usize];
        state.give(&rules.table, command, at);
        state.idle_since = at;
        if self.ranks.len() > 1 && command.is_column() {
            for (other, state) in self.ranks.iter_mut().enumerate() {
                if other != rank as usize {
                    rules.table.raise_other_rank(&mut state.earliest, command, at);
                }
            }
        }
        let free = at + 1;
        if !rules.two_buses {
            self.bus_free = [free; 2];
        } else {
            self.bus_free[usize::from(command.is_column())] = free;
        }
    }

    /// Logs a command to a rank.
    pub(in super::super) fn log_rank(&mut self, command: Command, rank: u32, clock: u64) {
        self.write_log(Logged { clock, command, rank, bank: WHOLE_RANK, row: 0 });
    }

    #[inline]
    pub(in super::super) fn write_log(&mut self, logged: Logged) {
        if let Some(log) = &mut self.log {
            log.push(logged);
        }
    }

    pub(in super::super) fn has_log(&self) -> bool {
        self.log.is_some()
    }

    /// The data of an entry are booked: its last column command is given at `at`.
    #[inline]
    pub(super) fn finish(&mut self, rules: &Rules, slot: u32, at: u64) {
        let entry = &self.entries[slot];
        let write = entry.class.writes();
        let (activated, precharged) = (entry.activated, entry.precharged);
        let flight = Flight {
            end_ps: rules.clock.cycles_to_ps(at + rules.to_data(write) + rules.timings.burst),
            submitted_ps: entry.submitted_ps,
            own_clocks: rules.own_clocks(write, activated, precharged, entry.bursts) as u32,
            lines: entry.lines,
            owner: entry.owner,
            shared: entry.shared,
            write,
            silent: entry.posted,
        };
        let rank = self.banks[entry.bank as usize].rank;
        self.ranks[rank as usize].waiting -= 1;
        self.unfinished[usize::from(write)] -= 1;
        self.touched.remove(entry);
        self.entries.remove(slot);
        self.fly(flight);
    }

    /// Keeps flights in order of their end, of equal ones in order of submission: so the order does
    /// not depend on how far the channel had run. Nearly always the new one is among the last.
    #[inline]
    pub(super) fn fly(&mut self, flight: Flight) {
        let key = |flight: &Flight| (flight.end_ps, flight.submitted_ps);
        let is_last = self.flights.back().is_none_or(|last| key(last) <= key(&flight));
        self.flights.push_back(flight);
        if is_last {
            return;
        }
        let mut place = self.flights.len() - 1;
        while place > 0 && key(&self.flights[place - 1]) > key(&flight) {
            self.flights[place] = self.flights[place - 1];
            place -= 1;
        }
        self.flights[place] = flight;
    }
}
