//! From the buffer to flash.

use super::translation::{Page, Stream};
use super::{Job, NONE, Ssd, Work};
use crate::device::linked::DonePage;
use crate::medium::nand::{self, Kind};
use tierscope_kernel::{Counter, Stage};

/// How many units the latest commands in detail programmed, or could have where nobody pressed them, but for those that a
/// flush asked for. Where writes wait for room commands are not full, and perhaps not even their pages. What is programmed
/// together is read together later, and overwritten together, which decides what collection moves; and so does whether a
/// block is there to be collected when the next is begun, or its last pages are still on their way. Functional warming, where
/// nobody waits, does by them.
#[derive(Clone, Copy, Debug)]
pub(super) struct LateCommands {
    units: [u16; Self::KEPT],
    noted: usize,
    turns: usize,
    /// Lanes, which all do as much in a round of turns: one that did less than others, turn after turn, would have its
    /// blocks full later, and what lies in them overwritten more before it is moved.
    lanes: u32,
    /// So many that come next tell nothing: what waits has to come to be first.
    unsettled: u32,
    /// The latest commands that began a block, and with it a collection, and how many of them came while their lane
    /// programmed another.
    openings: u32,
    overlapping: u32,
    /// Which blocks that are filled without time are still on their way as the next is begun, by their number.
    draws: Counter,
    filled: u64,
}

impl LateCommands {
    const KEPT: usize = 128;
    /// So many that those before them soon count little: as a run begins all is otherwise.
    const OPENINGS: u32 = 128;
    /// Of each lane behind warming.
    const SETTLING: u32 = 8;

    /// None yet, of a drive with so many lanes.
    pub(super) fn new(lanes: u32) -> LateCommands {
        LateCommands {
            units: [0; Self::KEPT],
            noted: 0,
            turns: 0,
            lanes: lanes.max(1),
            unsettled: 0,
            openings: 0,
            overlapping: 0,
            draws: Counter::stream(0, "ssd.flush.overlapping"),
            filled: 0,
        }
    }

    /// Units of the command whose turn it is.
    #[inline]
    fn next(&self) -> Option<u32> {
        let known = self.noted.min(Self::KEPT);
        (known > 0).then(|| u32::from(self.units[self.turns / self.lanes as usize % known]))
    }

    #[inline]
    fn turn(&mut self) {
        self.turns += 1;
        self.unsettled = Self::SETTLING.saturating_mul(self.lanes);
    }

    /// A command began a block, and with it a collection.
    fn note_opening(&mut self, overlaps: bool) {
        if self.unsettled > 0 {
            return;
        }
        if self.openings == Self::OPENINGS {
            (self.openings, self.overlapping) = (self.openings / 2, self.overlapping / 2);
        }
        self.openings += 1;
        self.overlapping += u32::from(overlaps);
    }

    /// Whether the block that is filled would still be on its way as its lane begins the next. Drawn: lanes that fill their
    /// blocks in turn would otherwise have the same answer each time.
    fn next_overlaps(&mut self) -> bool {
        if self.overlapping == 0 {
            return false;
        }
        self.filled += 1;
        self.draws.below_at(self.filled, self.openings.into()) < self.overlapping.into()
    }

    /// A command takes the place of the oldest.
    #[inline]
    fn note(&mut self, units: u32) {
        match self.unsettled.checked_sub(1) {
            Some(left) => self.unsettled = left,
            None => {
                self.units[self.noted % Self::KEPT] = units.min(u16::MAX.into()) as u16;
                self.noted += 1;
            }
        }
    }
}

impl Ssd {
    /// Programs what is to leave the buffer, as long as there is a lane for it: what one command can
    /// program at a time.
    pub(super) fn flush(&mut self) {
        let page_units = self.layer.geometry().page_units;
        loop {
            // Whoever waits for flash or for room does not wait for pages to be full.
            let forces = !self.flushes.is_empty() || self.forced > 0;
            let presses = !self.write_back || forces || !self.waiting.is_empty();
            let by_late = self.is_warming && !forces;
            let late = if by_late { self.late_commands.next() } else { None };
            let command_units = page_units * self.command_pages;
            let most = late.unwrap_or(command_units);
            let full = if self.log.is_some() { 1 } else { most };
            let least = if presses { 1 } else { full.max(self.flush_above + 1) };
            if self.buffer.dirty() < least || self.map_is_behind() {
                return;
            }
            if self.log.is_some() {
                if !self.flush_to_logs() {
                    return;
                }
                continue;
            }
            let Some(first) = self.next_page() else { return };
            let overlaps = self.work[first.lane as usize].programs > 0;
            self.ask_for_places(most);
            let mut page = Some(first);
            let mut units = 0;
            while let Some(it) = page {
                units += self.program(it, page_units, most - units);
                let at_end = (it.page + 1).is_multiple_of(self.command_pages);
                page = match self.buffer.dirty() {
                    0 => None,
                    _ if at_end || units == most => None,
                    _ => self.layer.allocate(it.lane, Stream::Host),
                };
                if page.is_some() && self.stripe.lane(self.turn) == it.lane {
                    self.turn = (self.turn + 1) % self.stripe.round();
                }
            }
            match late {
                Some(_) => self.late_commands.turn(),
                None if self.is_warming || forces => {}
                // Of one that nobody presses the lane has perhaps no room for all.
                None => self.late_commands.note(if presses { units } else { command_units }),
            }
            let begun = self.collecting;
            self.collect(first.lane);
            if self.collecting > begun && first.page == 0 && !self.is_warming && !forces {
                self.late_commands.note_opening(overlaps);
            }
        }
    }

    /// Where the next units to be programmed lie is looked up for all of them: each lies far from the others in memory,
    /// which is asked for them at once so, and not one after the other.
    fn ask_for_places(&self, units: u32) {
        let next = |entry: &u32| self.buffer.next_dirty(*entry);
        let entries = std::iter::successors(self.buffer.first_dirty(), next);
        entries.take(units as usize).for_each(|entry| self.layer.ask_for(self.buffer.unit(entry)));
    }

    /// The next page of the stripe on a lane that has room and is not too busy.
    fn next_page(&mut self) -> Option<Page> {
        let round = self.stripe.round();
        let mut left = round;
        // As a rule most lanes are busy, or wait for an erase: their turns are passed over.
        while let Some((turn, passed)) = self.turns.next(self.turn).filter(|it| it.1 < left) {
            let lane = self.stripe.lane(turn);
            self.turn = if turn + 1 == round { 0 } else { turn + 1 };
            left -= passed + 1;
            if let Some(page) = self.layer.allocate(lane, Stream::Host) {
                return Some(page);
            }
            self.collect(lane);
            // Until it is erased what is being collected there is nothing to do.
            let collects = self.work[lane as usize].collection.is_some() && self.idle.is_none();
            self.change_lane(lane, |work| work.lacks_room = collects);
        }
        self.turn = (self.turn + left) % round;
        None
    }

    /// Whether the lane may have another page of the host.
    #[inline]
    fn is_open(&self, lane: u32) -> bool {
        let work = &self.work[lane as usize];
        work.programs + self.command_pages <= self.lane_programs && !work.lacks_room
    }

    /// Something changes by which a lane may have another page of the host, or may not.
    #[inline]
    fn change_lane(&mut self, lane: u32, change: impl FnOnce(&mut Work)) {
        let was_open = self.is_open(lane);
        change(&mut self.work[lane as usize]);
        let is_open = self.is_open(lane);
        if is_open != was_open {
            self.turns.set(self.stripe.turns(lane), is_open);
        }
    }

    /// The host has a page more under way on a lane.
    #[inline]
    pub(super) fn begin_program(&mut self, lane: u32) {
        self.change_lane(lane, |work| work.programs += 1);
    }

    #[inline]
    fn end_program(&mut self, lane: u32) {
        self.change_lane(lane, |work| work.programs -= 1);
    }

    /// A block of a lane has been erased.
    #[inline]
    pub(super) fn has_room(&mut self, lane: u32) {
        self.change_lane(lane, |work| work.lacks_room = false);
    }

    /// Programs a page with the oldest of what is dirty, with so many units at most; how many.
    fn program(&mut self, page: Page, page_units: u32, most: u32) -> u32 {
        let (mut first, mut last, mut count) = (NONE, NONE, 0);
        while count < page_units.min(most)
            && let Some(entry) = self.buffer.flush()
        {
            let place = self.layer.geometry().place(page, count);
            let unit = self.buffer.unit(entry);
            let from = self.followed_place(unit);
            self.layer.put(unit, place, Stream::Host);
            self.change_map(unit);
            self.note_program(unit, from, place);
            if last == NONE {
                first = entry;
            } else {
                self.buffer.chain(last, entry);
            }
            last = entry;
            count += 1;
        }
        self.traffic.read_bytes += u64::from(count) * u64::from(self.page_bytes);
        self.layer.pad(page_units - count);
        self.begin_program(page.lane);
        self.programming += 1;
        let job = self.jobs.insert(Job::Flush { page, first });
        self.operate(job, Kind::Program, page, page_units, false);
        count
    }

    /// What the buffer had, from this entry on, is in flash.
    pub(super) fn flushed(
        &mut self,
        done: &nand::Done,
        page: Page,
        first: u32,
        out: &mut Vec<DonePage>,
    ) {
        let fills = self.is_warming && self.layer.geometry().is_last(page);
        if fills && self.late_commands.next_overlaps() {
            self.layer.programmed_early(page);
        } else {
            self.layer.programmed(page);
        }
        self.note_programmed(page);
        self.end_program(page.lane);
        let mut entry = Some(first);
        while let Some(number) = entry {
            let (next, waiter) = self.buffer.flushed(number);
            self.answer_waiters(done, waiter.unwrap_or(NONE), out);
            entry = next;
        }
        self.go_on_merging(page.lane);
        self.retry_erases();
        self.end_flushes(done.at_ps, out);
        self.admit(done.at_ps, out);
    }

    /// Those who waited until what they wrote was in flash.
    fn answer_waiters(&mut self, done: &nand::Done, mut waiter: u32, out: &mut Vec<DonePage>) {
        while waiter != NONE {
            let access = &mut self.accesses[waiter];
            let next = access.next;
            self.forced -= u32::from(self.write_back);
            if access.access.write {
                access.pass(Stage::StoreQueue, done.command_ps);
                access.pass(Stage::Device, done.first_end_ps);
                access.pass(Stage::StoreQueue, done.second_ps);
                access.pass(Stage::Medium, done.at_ps);
                self.answer(done.at_ps, waiter, out);
            } else {
                // It may have come while the page was being programmed.
                access.pass(Stage::StoreQueue, done.at_ps);
                self.read_kept(done.at_ps, waiter, out);
            }
            waiter = next;
        }
    }
}

#[cfg(test)]
mod tests;
