//! Failures of power: what flash and buffer hold, page by page, and what a drive does when it starts again.
//!
//! Contents are followed by name ([`Content`]). What is programmed counts from the end of the program; before
//! that, what lay there before is read, as a torn page does not pass its error-correcting code. What is in
//! the buffer survives where capacitors keep it. Of several pages in flash that hold the same unit, a drive
//! takes the one that was written last, by the number that each carries in its spare bytes.

use super::translation::{Page, Place};
use super::{Buffer, Collection, DramTraffic, Job, Ssd, Turns};
use crate::medium::nand::NandCounts;
use crate::power::{Content, LOST, Outage, UnderWay, Weakness, Weaknesses};
use tierscope_kernel::{CowCell, CowMap, EventQueue, NumberMap, Slab};

/// A place that no unit has.
const NOWHERE: Place = Place::MAX;
/// Bytes of an entry of the table of pages: they name any page of a drive of 16 TiB.
const ENTRY_BYTES: u64 = 4;

/// What was written to a unit, and its number in the order of writing; 0 where nothing was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Written {
    order: u64,
    content: Content,
}

/// What flash holds of a unit, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    written: Written,
    /// [`NOWHERE`] where it lies where the map says, or is moved from.
    place: Place,
}

/// What is being programmed.
#[derive(Clone, Copy, Debug)]
struct Program {
    unit: u64,
    written: Written,
    /// Where the map had the unit before; [`NOWHERE`] where it had none.
    from: Place,
}

const NOTHING: Written = Written { order: 0, content: 0 };
const UNTOUCHED: Kept = Kept { written: NOTHING, place: NOWHERE };

/// What each unit holds: in flash, on its way there, and in the buffer.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    weaknesses: Weaknesses,
    orders: u64,
    /// Of units that were written. Of others, which are most of a full drive, the map of the drive tells enough:
    /// collection moves them all over it, and each would take a leaf.
    kept: CowMap<Kept>,
    /// What capacitors have brought to flash, where `kept` has nothing newer.
    drained: CowMap<Written>,
    /// What is being programmed, by its place.
    programs: NumberMap<Program>,
    /// What was written last to units of which flash does not hold that, and how many these are.
    buffered: CowMap<Written>,
    count: u64,
}

impl Contents {
    fn new(weaknesses: Weaknesses) -> Self {
        Contents {
            weaknesses,
            orders: 0,
            kept: CowMap::new(UNTOUCHED),
            drained: CowMap::new(NOTHING),
            programs: NumberMap::default(),
            buffered: CowMap::new(NOTHING),
            count: 0,
        }
    }

    /// The same, shared until one of the two changes it.
    pub(super) fn fork(&mut self) -> Self {
        Contents {
            kept: self.kept.fork(),
            drained: self.drained.fork(),
            programs: self.programs.clone(),
            buffered: self.buffered.fork(),
            ..*self
        }
    }

    /// A write is in the buffer.
    fn buffer(&mut self, unit: u64, content: Content) {
        self.orders += 1;
        let written = Written { order: self.orders, content };
        let before = std::mem::replace(self.buffered.get_mut(unit), written);
        self.count += u64::from(before == NOTHING);
    }

    /// What flash holds of a unit.
    fn kept(&self, unit: u64) -> Kept {
        let (kept, drained) = (self.kept.get(unit), self.drained.get(unit));
        if drained.order > kept.written.order { Kept { written: drained, ..kept } } else { kept }
    }

    /// A place has been programmed: what it holds is found from now on, unless something newer is there.
    fn program(&mut self, place: Place) {
        let Some(Program { unit, written, .. }) = self.programs.remove(&u64::from(place)) else {
            return;
        };
        let kept = self.kept(unit);
        if kept.written.order <= written.order && (written != NOTHING || kept != UNTOUCHED) {
            self.kept.set(unit, Kept { written, place });
        }
        if written != NOTHING && self.buffered.get(unit) == written {
            self.buffered.set(unit, NOTHING);
            self.count -= 1;
        }
    }

    /// A unit holds nothing from now on, as the map says, which is written with what follows it: neither what was on its
    /// way to flash comes back, nor what capacitors have brought there.
    fn trim(&mut self, unit: u64) {
        let buffered = std::mem::replace(self.buffered.get_mut(unit), NOTHING);
        self.count -= u64::from(buffered != NOTHING);
        if buffered != NOTHING || self.kept(unit) != UNTOUCHED {
            self.orders += 1;
            let written = Written { order: self.orders, content: NOTHING.content };
            self.kept.set(unit, Kept { written, place: NOWHERE - 1 });
        }
    }

    /// What flash held of a unit is erased; `trimmed` if the map has none for the unit: nothing looks for what was
    /// there, and it is read as what was never written. What capacitors have brought to flash since lies elsewhere.
    fn erase(&mut self, unit: u64, trimmed: bool) {
        let content = if trimmed { NOTHING.content } else { LOST };
        let written = Written { content, ..self.kept.get(unit).written };
        self.kept.set(unit, Kept { written, place: NOWHERE - 1 });
    }
}

impl Ssd {
    /// A write is in the buffer.
    #[inline]
    pub(super) fn note_buffered(&mut self, unit: u64, content: Content) {
        if let Some(contents) = &mut self.contents {
            contents.buffer(unit, content);
        }
    }

    /// A unit is given back: what flash and buffer have of it is not looked for any more.
    #[inline]
    pub(super) fn note_trim(&mut self, unit: u64) {
        if let Some(contents) = &mut self.contents {
            contents.trim(unit);
        }
    }

    /// Where the map has a unit, if what is held is followed.
    #[inline]
    pub(super) fn followed_place(&self, unit: u64) -> Place {
        let followed = self.contents.as_ref().and_then(|_| self.layer.place(unit));
        followed.unwrap_or(NOWHERE)
    }

    /// What the buffer has of a unit, which the map had at `from`, is being programmed.
    #[inline]
    pub(super) fn note_program(&mut self, unit: u64, from: Place, place: Place) {
        if let Some(contents) = &mut self.contents
            && let written = contents.buffered.get(unit)
            && written != NOTHING
        {
            contents.programs.insert(u64::from(place), Program { unit, written, from });
        }
    }

    /// What flash has of a unit is being programmed elsewhere.
    #[inline]
    pub(super) fn note_move(&mut self, unit: u64, from: Place, place: Place) {
        if let Some(contents) = &mut self.contents {
            let written = contents.kept(unit).written;
            contents.programs.insert(u64::from(place), Program { unit, written, from });
        }
    }

    /// A page has been programmed.
    #[inline]
    pub(super) fn note_programmed(&mut self, page: Page) {
        if let Some(contents) = &mut self.contents {
            let geometry = self.layer.geometry();
            (0..geometry.page_units).for_each(|n| contents.program(geometry.place(page, n)));
        }
    }

    /// A block is being erased. It should hold nothing that flash has nowhere else.
    pub(super) fn note_erase(&mut self, lane: u32, block: u32) {
        let Some(contents) = &mut self.contents else { return };
        let geometry = self.layer.geometry();
        let first = geometry.place(Page { lane, block, page: 0 }, 0);
        let places = first..first + geometry.block_units();
        // `kept` names no place that has not been programmed since the start.
        let is_empty = self.layer.valid(lane, block) == 0;
        let looked_at = match is_empty && self.layer.is_as_at_start(lane, block) {
            true => first..first,
            false => places.clone(),
        };
        for place in looked_at {
            let Some(unit) = self.layer.last_unit(place) else { continue };
            let lies = contents.kept(unit).place;
            if lies == place {
                contents.erase(unit, self.layer.place(unit).is_none());
            } else if lies == NOWHERE && self.layer.holds(place) {
                contents.erase(unit, false);
            }
        }
        let moved = contents.programs.values().filter(|program| places.contains(&program.from));
        let moved: Vec<u64> = moved.map(|program| program.unit).collect();
        for unit in moved {
            if contents.kept(unit).place == NOWHERE && self.layer.place(unit).is_some() {
                contents.erase(unit, false);
            }
        }
    }

    /// What is held is followed from now on.
    pub(super) fn follow(&mut self, weaknesses: Weaknesses) {
        self.early = weaknesses.has(Weakness::EarlyCompletion);
        self.contents = Some(Box::new(Contents::new(weaknesses)));
    }

    /// What a unit holds in flash.
    pub(super) fn kept_content(&self, unit: u64) -> Content {
        self.contents.as_ref().map_or(0, |contents| contents.kept(unit).written.content)
    }

    /// What could be harmed.
    pub(super) fn exposed(&self) -> UnderWay {
        UnderWay {
            barriers: self.flushes.len() as u64 + u64::from(self.forced),
            programs: u64::from(self.programming),
            collections: u64::from(self.collecting),
            buffered: self.contents.as_ref().map_or(0, |contents| contents.count),
            ..UnderWay::default()
        }
    }

    /// Power fails: capacitors drain the buffer, and the rest of what is under way is gone.
    pub(super) fn fail(&mut self, now_ps: u64) -> Outage {
        let mut outage = self.settle_contents();
        self.drop_work(now_ps);
        let (ready_ps, ready_j) = self.start_up();
        (outage.ready_ps, outage.ready_j) = (ready_ps, ready_j);
        outage
    }

    /// What each unit holds once capacitors have done what they can.
    fn settle_contents(&mut self) -> Outage {
        let Some(contents) = &self.contents else { return Outage::default() };
        let holds = self.capacitors && !contents.weaknesses.has(Weakness::NoCapacitors);
        let count = contents.count;
        let kept = if holds { self.units_drained(count) } else { 0 };
        let Some(contents) = &mut self.contents else { return Outage::default() };
        let programs = std::mem::take(&mut contents.programs);
        let buffered = std::mem::replace(&mut contents.buffered, CowMap::new(NOTHING));
        contents.count = 0;
        let mut touched = Vec::new();
        if kept < count {
            // What was written first is drained first.
            let mut all: Vec<(u64, Written)> = buffered.iter().collect();
            all.sort_unstable_by_key(|(_, written)| written.order);
            for (n, (unit, written)) in (0..).zip(all) {
                match n < kept {
                    true => contents.drained.set(unit, written),
                    false => touched.push(unit),
                }
            }
        } else if contents.drained.is_blank() {
            contents.drained = buffered;
        } else {
            buffered.iter().for_each(|(unit, written)| contents.drained.set(unit, written));
        }
        // What the map of the drive says from now on: a unit lies where it was being put.
        for unit in programs.values().map(|program| program.unit) {
            let kept = contents.kept(unit);
            if kept.place != NOWHERE
                && let Some(place) = self.layer.place(unit)
                && kept.written.content != LOST
            {
                contents.kept.set(unit, Kept { place, ..kept });
            }
        }
        let (hold_ps, hold_j) = if holds { self.drain(kept) } else { (0, Some(0.0)) };
        Outage {
            hold_ps,
            hold_j,
            saved_pages: kept,
            lost_pages: count - kept,
            torn_pages: if kept == count && holds { 0 } else { programs.len() as u64 },
            short: holds && kept < count,
            touched,
            ..Outage::default()
        }
    }

    /// Of so many units in the buffer, those that capacitors bring to flash before they are empty.
    fn units_drained(&self, count: u64) -> u64 {
        let lasts = |units: u64| {
            let (time_ps, joules) = self.drain(units);
            self.hold_up_ps.is_none_or(|most_ps| time_ps <= most_ps)
                && self.capacitor_j.is_none_or(|most_j| joules.is_none_or(|j| j <= most_j))
        };
        if lasts(count) {
            return count;
        }
        // The most that last: more units take no less.
        let (mut least, mut most) = (0, count);
        while most - least > 1 {
            let middle = least.midpoint(most);
            if lasts(middle) {
                least = middle;
            } else {
                most = middle;
            }
        }
        least
    }

    /// Picoseconds and joules to program so many units on all lanes, in commands of as many pages as one can
    /// have.
    fn drain(&self, units: u64) -> (u64, Option<f64>) {
        let geometry = self.layer.geometry();
        let pages = units.div_ceil(u64::from(geometry.page_units));
        let at_once = u64::from(geometry.lanes) * u64::from(self.command_pages);
        let (_, program_ps) = self.nand.slowest_ps();
        let page_ps = self.nand.data_ps(self.flash_page_bytes);
        let dies_of_channel = u64::from(self.channel_dies);
        let load_ps = page_ps * u64::from(self.command_pages) * dies_of_channel;
        let time_ps = pages.div_ceil(at_once) * (load_ps + program_ps);
        let counts = NandCounts {
            program_ps: pages * u64::from(self.split) * program_ps,
            bus_ps: pages * u64::from(self.split) * page_ps,
            ..NandCounts::default()
        };
        let read_bytes = units * u64::from(self.page_bytes);
        let traffic = DramTraffic { read_bytes, ..DramTraffic::default() };
        (time_ps, self.joules(&counts, &traffic, time_ps))
    }

    /// What flash and DRAM that did this and the controller take, where it is known of flash; of the others, what is known.
    fn joules(&self, counts: &NandCounts, traffic: &DramTraffic, time_ps: u64) -> Option<f64> {
        let sum_j = |parts: &[(&str, f64)]| parts.iter().map(|(_, joules)| joules).sum::<f64>();
        let dies = u64::from(self.layer.geometry().lanes) * u64::from(self.split);
        let flash_j = sum_j(&self.power.as_ref()?.energies_j(counts, dies, time_ps));
        let dram = self.dram_power.as_ref();
        let dram_j = dram.map_or(0.0, |power| sum_j(&power.energies_j(traffic, time_ps)));
        Some(flash_j + dram_j + self.controller_w.unwrap_or(0.0) * time_ps as f64 * 1e-12)
    }

    /// Picoseconds and joules from the return of power until the map is there: its last copy is read from
    /// flash, and of each lane the pages of the blocks that were being filled, whose spare bytes say what
    /// came after it.
    fn start_up(&self) -> (u64, Option<f64>) {
        let geometry = self.layer.geometry();
        let (read_ps, _) = self.nand.slowest_ps();
        let table_bytes = u128::from(self.pages * ENTRY_BYTES);
        let table_ps =
            (table_bytes * 1_000_000_000_000).div_ceil(u128::from(self.nand.bytes_per_second()));
        // A block of each stream on each lane; all lanes at the same time.
        let pages = 2 * u64::from(geometry.block_pages());
        let time_ps = table_ps as u64 + pages * read_ps;
        let lanes = u64::from(geometry.lanes) * u64::from(self.split);
        let counts = NandCounts {
            read_ps: pages * read_ps * lanes,
            bus_ps: table_ps as u64,
            ..NandCounts::default()
        };
        let traffic = DramTraffic { written_bytes: table_bytes as u64, ..DramTraffic::default() };
        (time_ps, self.joules(&counts, &traffic, time_ps))
    }

    /// Requests, operations and the buffer's memory are gone. What collection had begun begins anew.
    fn drop_work(&mut self, now_ps: u64) {
        self.nand.cut_power();
        let jobs = std::mem::replace(&mut self.jobs, Slab::new());
        (self.turns, self.programming) = (Turns::new(self.stripe.round()), 0);
        let geometry = *self.layer.geometry();
        for (lane, work) in (0..).zip(&mut self.work) {
            (work.programs, work.lacks_room) = (0, false);
            work.collection = work.collection.take().map(|was| {
                let block = was.block();
                let first = geometry.place(Page { lane, block, page: 0 }, 0);
                Collection::from(block, was.first_left(first, geometry.page_units))
            });
        }
        for (_, job) in jobs.iter() {
            match *job {
                Job::Flush { page, .. }
                | Job::Move { page }
                | Job::WriteMap { page }
                | Job::Merge { page } => {
                    self.layer.programmed(page);
                }
                Job::Erase { lane, block } => {
                    self.layer.erased(lane, block);
                    self.work[lane as usize].collection = None;
                    self.log_erased(lane);
                }
                Job::Copy { page, .. } => {
                    let collection = &mut self.work[page.lane as usize].collection;
                    collection.iter_mut().for_each(|it| it.go_back(page.page));
                }
                Job::Read { .. } | Job::Fill { .. } | Job::ReadMap { .. } | Job::Gather { .. } => {}
            }
        }
        let collecting = self.work.iter().filter(|work| work.collection.is_some());
        self.collecting = collecting.count() as u32;
        (self.accesses, self.commands) = (Slab::new(), Slab::new());
        self.waiting.clear();
        self.flushes.clear();
        self.shared.clear();
        self.erases.clear();
        if let Some(map) = &mut self.map {
            map.cut_power();
        }
        if let Some(log) = &mut self.log {
            log.cut_power();
        }
        self.forced = 0;
        self.forget_pause();
        self.events = EventQueue::new();
        self.buffer = CowCell::new(Buffer::like(&self.buffer));
        self.cores.fill(now_ps);
        for lane in 0..self.work.len() as u32 {
            self.go_on_collecting(lane);
            self.collect(lane);
            self.go_on_merging(lane);
        }
        self.nand.start_all(now_ps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_trimmed_is_neither_buffered_nor_found_again() {
        let mut contents = Contents::new(Weaknesses::default());
        let program = |contents: &mut Contents, place| {
            let written = contents.buffered.get(7);
            contents.programs.insert(place, Program { unit: 7, written, from: NOWHERE });
        };
        contents.buffer(7, 11);
        program(&mut contents, 3);
        contents.program(3);
        contents.buffer(7, 12);
        contents.drained = contents.buffered.fork();
        program(&mut contents, 4);
        contents.trim(7);
        assert_eq!((contents.count, contents.kept(7).written.content), (0, 0));
        contents.program(4);
        assert_eq!(contents.kept(7).written.content, 0, "it was on its way to flash");
        contents.buffer(7, 13);
        program(&mut contents, 5);
        contents.program(5);
        assert_eq!((contents.count, contents.kept(7).written.content), (0, 13));
    }

    #[test]
    fn what_capacitors_brought_to_flash_outlives_the_block_of_what_was_there_before() {
        for trimmed in [true, false] {
            let mut contents = Contents::new(Weaknesses::default());
            contents.buffer(7, 11);
            let written = contents.buffered.get(7);
            contents.programs.insert(3u64, Program { unit: 7, written, from: NOWHERE });
            contents.program(3);
            contents.buffer(7, 12);
            contents.drained = contents.buffered.fork();
            contents.erase(7, trimmed);
            assert_eq!(contents.kept(7).written.content, 12, "trimmed: {trimmed}");
        }
    }
}
