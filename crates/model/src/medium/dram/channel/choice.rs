//! Which command is given next, and when: first ready, first come.

use super::super::super::PagePolicy;
use super::super::bank::CLOSED;
use super::super::candidates::{Candidates, First, Floors, Keys, Kind};
use super::super::rank::Rank;
use super::super::rules::Rules;
use super::super::standard::{Command, Next};
use super::super::table::USUAL;
use super::{Channel, Choice, What};

/// The column command of a direction.
#[inline]
pub(super) fn column(writing: bool) -> Next {
    if writing { Next::Write } else { Next::Read }
}

impl Channel {
    /// The first clock on each command bus.
    #[inline]
    pub(in super::super) fn floors(&self) -> [u64; 2] {
        self.bus_free.map(|free| free.max(self.now))
    }

    /// When a bank can have the command that it wants: its start.
    #[inline]
    pub(super) fn start(&self, rules: &Rules, index: usize, floors: [u64; 2]) -> u64 {
        let bank = &self.banks[index];
        let next = bank.wish.next as usize;
        bank.earliest[next]
            // Masked only so that no bounds are checked.
            .max(self.groups[bank.group as usize].earliest[next % USUAL])
            .max(self.ranks[bank.rank as usize].earliest[next % USUAL])
            .max(floors[rules.bus_of[next] % 2])
    }

    #[inline]
    pub(super) fn choice(&self, rules: &Rules, index: usize, floors: [u64; 2]) -> Choice {
        let bank = &self.banks[index];
        let order = self.candidates.order_at(bank.place as usize);
        let start = self.start(rules, index, floors);
        Choice { start, order, what: What::Bank(index as u32) }
    }

    /// No command of a kind starts sooner.
    #[inline]
    pub(super) fn first_start(&self, kind: Kind, floor: u64) -> u64 {
        let next = match kind {
            Kind::Activate => Next::Activate,
            Kind::Precharge => Next::Precharge,
            _ => return 0,
        } as usize;
        let ranks = self.ranks.iter().map(|rank| rank.earliest[next]);
        ranks.min().unwrap_or(0).max(floor)
    }

    /// Finds what is done next.
    #[inline]
    pub(super) fn choose(&mut self, rules: &Rules) {
        let floors = self.floors();
        let keys = match &self.ranks[..] {
            [rank] => self.candidates.search_all(&self.floors_of(rank, floors)),
            ranks => self.search(ranks, floors),
        };
        match self.candidates.first(keys) {
            First::Bank(index, start, order) => {
                self.best = Choice { start, order, what: What::Bank(index) };
            }
            First::Far => self.best = self.choose_far(rules, floors),
            First::Nothing => self.best = Choice::NOTHING,
        }
        let against = !self.against.is_empty() && self.against_start(floors) <= self.best.start;
        if self.refreshing != 0 || against || rules.page_policy == PagePolicy::Timeout {
            self.choose_besides(rules, floors);
        }
    }

    /// Looks for the first command of several ranks.
    fn search(&self, ranks: &[Rank], floors: [u64; 2]) -> Keys {
        let mut keys = Candidates::NOTHING;
        for (index, rank) in ranks.iter().enumerate().filter(|(_, rank)| rank.waiting > 0) {
            let first = index * self.places_of_rank;
            let floors = self.floors_of(rank, floors);
            self.candidates.search(first..first + self.places_of_rank, &floors, &mut keys);
        }
        keys
    }

    /// What makes commands of each kind wait: a rank and the buses.
    #[inline]
    fn floors_of(&self, rank: &Rank, [rows, columns]: [u64; 2]) -> Floors {
        let next = column(self.writing) as usize;
        let key = |next: usize, floor| self.candidates.key(rank.earliest[next % USUAL].max(floor));
        Floors {
            column: key(next, columns),
            activate: key(Next::Activate as usize, rows),
            precharge: key(Next::Precharge as usize, rows),
        }
    }

    /// Chooses among commands none of which comes soon.
    #[cold]
    fn choose_far(&self, rules: &Rules, floors: [u64; 2]) -> Choice {
        let work = &self.work[usize::from(self.writing)];
        let mut best = Choice::NOTHING;
        for (index, bank) in self.banks.iter().enumerate() {
            if work[index / 64] >> (index % 64) & 1 != 0 && !bank.blocked {
                let choice = self.choice(rules, index, floors);
                best = if choice.before(&best) { choice } else { best };
            }
        }
        best
    }

    /// Chooses what is not among the candidates, if it comes first: a column command against the
    /// direction, a part of a refresh, or closing a row that nobody uses.
    #[cold]
    pub(super) fn choose_besides(&mut self, rules: &Rules, floors: [u64; 2]) {
        let floor = floors[0];
        let mut best = self.best;
        self.choose_against(rules, floors, &mut best);
        if self.refreshing != 0 {
            self.choose_refresh(rules, floor, &mut best);
        }
        if rules.page_policy == PagePolicy::Timeout {
            self.choose_timeout(rules, floor, &mut best);
        }
        self.best = best;
    }

    /// No column command against the direction starts sooner.
    #[inline]
    fn against_start(&self, [_, columns]: [u64; 2]) -> u64 {
        let next = column(!self.writing) as usize % USUAL;
        let ranks = self.ranks.iter().map(|rank| rank.earliest[next]);
        ranks.min().unwrap_or(0).max(columns)
    }

    /// Chooses the first use of a row that was opened before the turn, and forgets who wants none.
    fn choose_against(&mut self, rules: &Rules, floors: [u64; 2], best: &mut Choice) {
        let mut place = 0;
        while place < self.against.len() {
            let index = self.against[place] as usize;
            let bank = &self.banks[index];
            let wish = bank.wish;
            let stands = wish.against && bank.wants(self.writing) && bank.unused_by == wish.slot;
            if !stands {
                self.against.swap_remove(place);
                continue;
            }
            if !bank.blocked {
                let choice = self.choice(rules, index, floors);
                *best = if choice.before(best) { choice } else { *best };
            }
            place += 1;
        }
    }

    #[cold]
    pub(super) fn choose_refresh(&self, rules: &Rules, floor: u64, best: &mut Choice) {
        let mut set = self.refreshing;
        while set != 0 {
            let rank = set.trailing_zeros();
            let (_, _, at) = self.refresh_command(rules, rank, floor);
            let order = u64::from(rank);
            let choice = Choice { start: at, order, what: What::Refresh(rank) };
            if choice.before(best) {
                *best = choice;
            }
            set &= set - 1;
        }
    }

    pub(super) fn choose_timeout(&self, rules: &Rules, floor: u64, best: &mut Choice) {
        let precharge = Next::Precharge as usize;
        for (index, bank) in self.banks.iter().enumerate() {
            if bank.row != CLOSED && !bank.blocked && !bank.has_hits() {
                let at = (bank.used_at + rules.row_timeout)
                    .max(floor)
                    .max(bank.earliest[precharge])
                    .max(self.ranks[bank.rank as usize].earliest[precharge]);
                let order = Kind::Timeout.order() | index as u64;
                let choice = Choice { start: at, order, what: What::Timeout(index as u32) };
                if choice.before(best) {
                    *best = choice;
                }
            }
        }
    }

    /// The command that a refresh of a rank needs next, its bank if it is for one, and when.
    pub(in super::super) fn refresh_command(
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
        let closable = |index: usize| self.banks[index].earliest[precharge];
        let floor_of = |next: Next| match state.earliest.get(next as usize) {
            Some(&earliest) => floor.max(earliest),
            None => floor.max(state.earliest_other(&rules.table, next)),
        };
        if state.residency.open_banks == 0 && all {
            return (Command::Refresh, None, floor_of(Next::Refresh));
        }
        let open = (first..first + of_rank).filter(|&bank| self.banks[bank].row != CLOSED);
        if all {
            let last = open.map(closable).max().unwrap_or(0);
            return (Command::PrechargeAll, None, floor_of(Next::Precharge).max(last));
        }
        let blocked = open.filter(|&index| self.banks[index].blocked);
        if let Some(index) = blocked.min_by_key(|&index| (closable(index), index)) {
            let at = floor_of(Next::Precharge).max(closable(index));
            return (Command::Precharge, Some(index), at);
        }
        let refresh = Next::RefreshBank as usize;
        let ready = self.refresh_targets(rules, rank).map(|i| self.banks[i].earliest[refresh]);
        let at = floor_of(Next::RefreshBank).max(ready.max().unwrap_or(0));
        (Command::RefreshBank, self.refresh_targets(rules, rank).next(), at)
    }

    /// The banks that the next refresh of a rank is of.
    pub(in super::super) fn refresh_targets(
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
}
