//! Column commands of one row, many at once where nothing can come between.

use super::super::super::PagePolicy;
use super::super::candidates::{Kind, Order};
use super::super::earliest::NEVER;
use super::super::queue::{Class, NONE};
use super::super::rules::Rules;
use super::super::standard::Command;
use super::{Channel, Choice, left};

impl Channel {
    /// Gives the column commands of the entry that is chosen, as many at once as nothing can come
    /// between: before clock `end`, to the next thing that is known to happen, and to where another
    /// bank could have a command. What it leaves is as if each had been given by itself. Returns
    /// whether it gave any.
    #[inline]
    pub(super) fn stream(&mut self, rules: &Rules, index: usize, slot: u32, end: u64) -> bool {
        let many = self.entries[slot].bursts_left > 3 && !self.banks[index].wish.against;
        many && self.log.is_none() && self.give_many(rules, index, end)
    }

    pub(super) fn give_many(&mut self, rules: &Rules, index: usize, end: u64) -> bool {
        let bank = &self.banks[index];
        let (wish, rank, place) = (bank.wish, bank.rank as usize, bank.place as usize);
        let entry = &self.entries[wish.slot];
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
            if self.waiting[0] > 0 {
                count = count.min(self.drain_left.saturating_sub(1));
            }
        } else if !write && self.reads_owed > 0 {
            count = count.min(self.reads_owed - 1);
        }
        let start = self.best.start;
        let at = start + rules.more_clocks[1];
        let end = end.min(self.next_arrival).min(self.next_due).min(self.writes_age_at);
        let end = end.min(self.others_start(rules, index, self.candidates.order_at(place)));
        let apart = rules.spacing(write);
        count = count.min(end.saturating_sub(start).div_ceil(apart));
        if count < 2 {
            return false;
        }
        if entry.bursts_left == entry.bursts {
            self.counts.add(entry);
            self.banks[index].begins(rules, entry.row);
        }
        let further = (count - 1) * apart;
        self.now = self.now.max(start + further);
        let bursts_left = &mut self.entries[wish.slot].bursts_left;
        self.left[left(*bursts_left)] -= 1;
        *bursts_left -= count as u32;
        self.left[left(*bursts_left)] += 1;
        let ends = *bursts_left == 1;
        self.is_served(write, count);
        let residency = &mut self.ranks[rank].residency;
        *(if write { &mut residency.writes } else { &mut residency.reads }) += count;
        self.banks[index].used_at = at + further;
        self.banks[index].unused_by = NONE;
        let command = if write { Command::Write } else { Command::Read };
        self.give(rules, command, index, at + further, 0);
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
    pub(super) fn others_start(&self, rules: &Rules, index: usize, order: Order) -> u64 {
        let floors = self.floors();
        let close = rules.spacing(self.writing) == rules.timings.ccd_s.max(rules.timings.burst)
            && !rules.description.standard.rank_is_pseudo_channel;
        let younger = if close { order..Kind::Activate.order() } else { 0..0 };
        let mut first = NEVER;
        let soonest = [Kind::Refresh, Kind::Column, Kind::Activate, Kind::Precharge]
            .map(|kind| self.first_start(kind, floors[0]));
        let work = &self.work[usize::from(self.writing)];
        for (word, (work, blocked)) in work.iter().zip(&self.blocked).enumerate() {
            let mut set = work & !blocked;
            while set != 0 {
                let other = word * 64 + set.trailing_zeros() as usize;
                set &= set - 1;
                let bank = &self.banks[other];
                if other != index
                    && !younger.contains(&self.candidates.order_at(bank.place as usize))
                    && soonest[bank.wish.kind as usize] < first
                {
                    first = first.min(self.start(rules, other, floors));
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
}
