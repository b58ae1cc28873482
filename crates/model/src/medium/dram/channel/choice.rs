//! Which command is given next, and when: first ready, first come.

use super::super::super::PagePolicy;
use super::super::bank::{CLOSED, Wish};
use super::super::candidates::{First, Kind};
use super::super::rules::Rules;
use super::super::standard::{Command, Next};
use super::{Channel, Choice, What};

impl Channel {
    /// The first clock on each command bus.
    #[inline]
    pub(super) fn floors(&self) -> [u64; 2] {
        self.bus_free.map(|free| free.max(self.now))
    }

    /// When a bank can have the command that it wants: its start.
    #[inline]
    pub(super) fn start(&self, rules: &Rules, wish: &Wish, floors: [u64; 2]) -> u64 {
        let next = wish.next as usize;
        wish.ready
            .max(self.groups[wish.group as usize][next])
            .max(self.ranks[wish.rank as usize].earliest[next])
            // There are two at most: so no bounds are checked.
            .max(floors[rules.bus_of[next] % 2])
    }

    #[inline]
    pub(super) fn choice(&self, rules: &Rules, index: usize, floors: [u64; 2]) -> Choice {
        self.choice_at(rules, index, self.start(rules, &self.wishes[index], floors))
    }

    #[inline]
    fn choice_at(&self, rules: &Rules, index: usize, start: u64) -> Choice {
        let wish = &self.wishes[index];
        let at = start + rules.before[wish.next as usize];
        Choice { start, at, order: wish.order, what: What::Bank(index as u32) }
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
    pub(super) fn choose(&mut self, rules: &Rules) {
        let floors = self.floors();
        self.best = Choice::NOTHING;
        loop {
            match self.candidates.first() {
                First::Bank(index, known) => {
                    let wish = &self.wishes[index];
                    let start = self.start(rules, wish, floors);
                    let key = self.candidates.key(start, wish.order);
                    if key == known {
                        self.best = self.choice_at(rules, index, start);
                        break;
                    }
                    self.candidates.set(index, key);
                }
                First::Far => {
                    self.choose_far(rules, floors);
                    break;
                }
                First::Nothing => break,
            }
        }
        if self.refreshing != 0 || rules.page_policy == PagePolicy::Timeout {
            self.choose_besides(rules, floors[0]);
        }
    }

    /// Chooses among commands none of which comes soon.
    #[cold]
    fn choose_far(&mut self, rules: &Rules, floors: [u64; 2]) {
        let work = &self.work[usize::from(self.writing)];
        for index in 0..self.banks.len() {
            if (work[index / 64] & !self.blocked[index / 64]) >> (index % 64) & 1 != 0 {
                let choice = self.choice(rules, index, floors);
                self.best = if choice.before(&self.best) { choice } else { self.best };
            }
        }
    }

    /// Chooses what no bank wants, if it comes first: a part of a refresh, or closing a row that
    /// nobody uses.
    #[cold]
    pub(super) fn choose_besides(&mut self, rules: &Rules, floor: u64) {
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
    pub(super) fn choose_refresh(&self, rules: &Rules, floor: u64, best: &mut Choice) {
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

    pub(super) fn choose_timeout(&self, rules: &Rules, floor: u64, best: &mut Choice) {
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
                let order = Kind::Timeout.order() | index as u64;
                let choice = Choice { start: at, at, order, what: What::Timeout(index as u32) };
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
