//! Tags that lie with the data: a look-up is an access to DRAM (\[HYB15\] §2.2).

use super::action::{Action, Place, Purpose, Token};
use super::controller::{Controller, FILLING, Held};
use super::miss::{Miss, Progress};
use super::write_back::NONE;
use crate::cache::Hit;
use tierscope_kernel::Timeline;

impl Controller {
    /// Looks a tag up by an access to DRAM, unless the page is known to be in flight.
    pub(super) fn probe(&mut self, now_ps: u64, slot: u32, actions: &mut Vec<Action>) {
        let Held { address, write, .. } = self.held[slot];
        let page = address >> self.page_shift;
        if let Some(index) = self.missing.get(page) {
            let mut used = false;
            if self.misses[index].progress != Progress::Probing {
                self.report.lookups += 1;
                self.report.misses += 1;
                used = self.use_in_flight(page);
            }
            self.join(now_ps, index, slot, actions);
            if used && self.prefetcher.follows_uses() {
                self.go_on(now_ps, actions);
            }
            return;
        }
        if write {
            let index = self.new_miss(now_ps, page, Progress::Probing, false);
            self.enqueue(index, slot);
            return self.read_tag(index, self.line_offset(address), actions);
        }
        // What the read will find is settled now: DRAM keeps the order of what overlaps.
        let found = self.tags.access(page, false);
        if let Some(Hit { way, flags }) = found {
            self.mark_used(way, flags, page);
        }
        self.held[slot].found = found.is_some();
        if self.asks_store_at_once(now_ps, slot, found.is_some(), actions) {
            return;
        }
        actions.push(Action::ReadDram {
            token: Token::new(Purpose::Probe, slot),
            address: self.direct_mapped(page) + u64::from(self.line_offset(address)),
            bytes: self.line_bytes,
            into: Place::Request(slot),
            background: false,
        });
    }

    /// The line and tag of a read have come.
    pub(super) fn probed(
        &mut self,
        now_ps: u64,
        slot: u32,
        stages: &Timeline,
        actions: &mut Vec<Action>,
    ) {
        self.report.lookups += 1;
        let Held { address, found, .. } = self.held[slot];
        if found {
            return self.respond(now_ps, slot, stages, actions);
        }
        self.report.misses += 1;
        self.set_prefix(now_ps, slot, stages);
        let page = address >> self.page_shift;
        match self.tags.lookup(page) {
            // Another miss brought the page meanwhile.
            Some(way) if self.tags.flags(way) & FILLING == 0 => {
                self.access_dram(slot, way, actions);
            }
            Some(_) => {
                self.use_in_flight(page);
                self.miss(now_ps, page, slot, actions);
            }
            None => self.miss(now_ps, page, slot, actions),
        }
    }

    /// Reads the tag of a page that is to be written or prefetched.
    pub(super) fn read_tag(&mut self, index: u32, offset: u32, actions: &mut Vec<Action>) {
        let miss = &self.misses[index];
        actions.push(Action::ReadDram {
            token: Token::new(Purpose::Tag, index),
            address: self.direct_mapped(miss.sector) + u64::from(offset),
            bytes: self.line_bytes,
            into: Place::Nowhere,
            background: miss.prefetch,
        });
    }

    /// The tag of a write or a prefetch has come: all that wait for it go on.
    pub(super) fn tag_read(
        &mut self,
        now_ps: u64,
        index: u32,
        stages: &Timeline,
        actions: &mut Vec<Action>,
    ) {
        self.charge(now_ps, index, stages);
        let Miss { sector: page, first, prefetch, .. } = self.misses[index];
        self.probing_prefetches -= usize::from(prefetch);
        if self.tags.lookup(page).is_some() {
            self.disown(index);
            self.missing.remove(page);
            let mut miss = self.misses.remove(index);
            while miss.first != NONE {
                let slot = miss.first;
                let held = self.held[slot];
                miss.first = held.next;
                // A read that was probed before it joined has been counted.
                self.report.lookups += u64::from(!held.prefixed);
                self.set_prefix(now_ps, slot, &miss.stages);
                if let Some(Hit { way, flags }) = self.tags.access(page, held.write) {
                    self.mark_used(way, flags, page);
                    self.access_dram(slot, way, actions);
                }
            }
        } else if first != NONE {
            let waiting = self.count_waiting(first);
            self.report.lookups += waiting;
            self.report.misses += waiting;
            self.misses[index].prefetch = false;
            self.disown(index);
            self.stall(index);
            self.prefetcher.missed(page);
        } else if let Ok(frame) = self.frame_for(page, true) {
            self.begin(now_ps, index, frame, actions);
        } else {
            self.disown(index);
            self.missing.remove(page);
            self.misses.remove(index);
        }
    }

    /// Requests that wait for a tag and have not been counted.
    fn count_waiting(&self, mut slot: u32) -> u64 {
        let mut count = 0;
        while let Some(held) = self.waiting(slot) {
            count += u64::from(!held.prefixed);
            slot = held.next;
        }
        count
    }

    /// A demand request joins the miss of `page`: whether a prefetch that was not used yet has asked for it.
    fn use_in_flight(&mut self, page: u64) -> bool {
        let way = self.tags.lookup(page);
        way.is_some_and(|way| self.mark_used(way, self.tags.flags(way), page))
    }
}
