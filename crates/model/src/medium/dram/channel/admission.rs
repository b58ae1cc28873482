//! What comes: requests join those that wait for their bank, or are kept until another that touches
//! the same lines is done; reads and writes take turns.

use super::super::earliest::NEVER;
use super::super::queue::NONE;
use super::super::rules::Rules;
use super::{Channel, What};

impl Channel {
    /// The controller sees the next request.
    pub(super) fn admit(&mut self, rules: &Rules) {
        let Some(slot) = self.next_incoming() else { return };
        self.entries[slot].sequence = self.sequence;
        self.sequence += 1;
        if self.candidates.is_old(self.now, self.sequence) {
            self.begin_epoch(rules);
        }
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
    pub(super) fn must_wait(&mut self, slot: u32, before: usize) -> bool {
        let entry = &self.entries[slot];
        if !self.touched.may_conflict(entry) {
            return false;
        }
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
    pub(super) fn release(&mut self, rules: &Rules) {
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
    pub(super) fn enter(&mut self, rules: &Rules, slot: u32) {
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
        } else if !self.banks[index].blocked {
            let choice = self.choice(rules, index, self.floors());
            if choice.before(&self.best) {
                self.best = choice;
            }
        }
    }

    /// Whether reads are served, and nothing says that writes should be.
    #[inline]
    fn reads_go_on(&self, rules: &Rules) -> bool {
        let [reads, writes] = self.waiting;
        let few = reads > 0 && writes < rules.write_high;
        let early = self.kept_reads == 0 && self.now < self.writes_age_at;
        let owed = self.reads_owed > 0 && reads > 0;
        !self.writing && (writes == 0 || few && early || owed)
    }

    /// Turns from reads to writes or back, where it is time. Returns whether it did.
    #[inline]
    pub(super) fn turn(&mut self, rules: &Rules) -> bool {
        !self.reads_go_on(rules) && self.turn_if_due(rules)
    }

    fn turn_if_due(&mut self, rules: &Rules) -> bool {
        let [reads, writes] = self.waiting;
        let aged = self.oldest_write_is_aged(rules) || self.kept_reads > 0 && writes > 0;
        let drained = self.draining;
        let writing = if self.writing {
            self.draining |= writes >= rules.write_high || aged;
            self.draining &= writes > rules.write_low || aged;
            // A drain gives no more than waited when it began, or reads might wait for ever.
            if drained && self.draining && self.drain_left == 0 && reads > 0 {
                self.draining = false;
                self.reads_owed = reads;
            }
            writes > 0 && (reads == 0 || self.draining)
        } else {
            self.draining = writes >= rules.write_high || aged;
            self.draining || reads == 0
        };
        self.draining &= writing;
        if self.draining && !drained {
            self.drain_left = writes;
        }
        if writing == self.writing {
            return false;
        }
        self.writing = writing;
        self.decide_all(rules);
        true
    }

    /// Every bank in which anything waits finds out what it wants, now that the direction is another.
    fn decide_all(&mut self, rules: &Rules) {
        for word in 0..self.blocked.len() {
            let [reads, writes] = [self.work[0][word], self.work[1][word]];
            let (mut set, works) = (reads | writes, if self.writing { writes } else { reads });
            while set != 0 {
                let bank = set.trailing_zeros();
                set &= set - 1;
                let index = word * 64 + bank as usize;
                if works >> bank & 1 != 0 {
                    self.decide(rules, index);
                } else {
                    self.candidates.clear(self.banks[index].place as usize);
                }
            }
        }
    }

    #[inline]
    pub(super) fn oldest_write_is_aged(&mut self, rules: &Rules) -> bool {
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

    /// Begins a new epoch of the candidates: what banks want is the same, and all keys are made anew.
    #[cold]
    fn begin_epoch(&mut self, rules: &Rules) {
        self.candidates.renew(self.now, self.sequence);
        for index in 0..self.banks.len() {
            if self.banks[index].wants(self.writing) {
                let bank = &self.banks[index];
                let order = self.candidates.order_at(bank.place as usize);
                let group = &self.groups[bank.group as usize].earliest;
                bank.enlist(group, &mut self.candidates, order);
            }
        }
        self.choose(rules);
    }

    /// A bank, in which something waits, finds out what it wants.
    #[inline(always)]
    pub(super) fn decide(&mut self, rules: &Rules, index: usize) {
        let aged = self.now.saturating_sub(rules.age_cap);
        let bank = &mut self.banks[index];
        let group = &self.groups[bank.group as usize].earliest;
        bank.decide(&self.entries, group, &mut self.candidates, self.writing, aged);
        if bank.wish.against {
            self.go_against(index as u32);
        }
    }

    /// A bank wants a column command against the present direction.
    #[cold]
    fn go_against(&mut self, index: u32) {
        if !self.against.contains(&index) {
            self.against.push(index);
        }
    }
}
