//! Where a unit of the drive lies in flash: mapping by page, allocation, choice of victims, wear.
//!
//! No time passes here. Each step changes the state at once: whoever drives it decides when pages
//! are programmed and blocks erased, and tells it so (`super::Ssd`), or does all at once.

mod geometry;
mod initial;
mod stripe;
mod victims;

pub use geometry::{Geometry, Page, Place};
pub use initial::{Initial, InitialFlash};
pub use stripe::{Stripe, is_order};
pub use victims::VictimPolicy;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use tierscope_kernel::{CowCell, CowTable};
use victims::Victims;

/// Entries of a table that are copied together when a fork first changes one of them. Changes come from all over the
/// drive: small chunks are copied sooner, but there are more to fork.
const MAP_CHUNK: u64 = 256;
/// See above: words of 64 places.
const HELD_CHUNK: u64 = 128;
/// See above: blocks.
const BLOCK_CHUNK: u64 = 64;
/// In the map: nothing has been said of the unit since the start.
const UNTOUCHED: u32 = u32::MAX;
/// In the map: the unit was given back.
const TRIMMED: u32 = u32::MAX - 1;
/// The most places that numbers of 32 bits have.
pub const MOST_PLACES: u64 = (u32::MAX - 1) as u64;
/// Units that may be being programmed are told from others by as many bits.
const FILTER_BITS: usize = 1 << 15;
/// Erased blocks of a lane that only collection may take, so that it always ends.
pub const RESERVE: u32 = 1;

/// For whom a page is allocated: each fills blocks of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// What the host writes.
    Host,
    /// What collection moves.
    Moved,
    /// Pages of the map.
    Map,
    /// What is written in order, where the map is one of blocks.
    Sequential,
}

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// It is being filled, or its last pages are being programmed.
    Open,
    Filled,
    /// It is being collected.
    Victim,
    /// It is not used any more, or never was.
    Bad,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    valid: u32,
    erases: u32,
    state: State,
    /// Whether it holds what it held at the start.
    initial: bool,
}

/// A block that is being filled.
#[derive(Clone, Copy, Debug)]
struct Open {
    block: u32,
    /// The next page to be given out.
    next: u32,
    /// Pages that have been programmed.
    programmed: u32,
}

#[derive(Clone, Debug, Default)]
struct Lane {
    /// What each stream fills.
    open: [Option<Open>; 4],
    /// Blocks that are full, but whose last pages are not programmed yet.
    closing: Vec<Open>,
    /// A full block of which the collection that begins next knows nothing yet.
    unknown: Option<u32>,
    /// Erased blocks, those with the fewest erases first.
    free: CowCell<BinaryHeap<Reverse<(u32, u32)>>>,
    usable: u32,
    most_erases: u32,
    /// No block has had fewer, when last looked.
    least_erases: u32,
}

counters! {
    /// What a translation layer did.
    pub struct TranslationCounts {
        /// Units that the host wrote to flash.
        pub host_units,
        /// Units that collection moved.
        pub moved_units,
        /// Pages of the map that were written as they were changed.
        pub map_units,
        /// Units of pages that were programmed without content.
        pub padded_units,
        /// Units given back by the host.
        pub trimmed_units,
        /// Blocks collected.
        pub collections,
        /// Of these, those chosen for having been erased least.
        pub levelled,
        /// Blocks erased.
        pub erases,
        /// Blocks that are not used any more, for having been erased too often.
        pub worn_blocks,
        /// Blocks that should not be used any more, but are, as no others are left.
        pub overworn_blocks,
    }
}

/// How a translation layer behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// By what victims are chosen.
    pub victims: VictimPolicy,
    /// Among how many of the oldest; 0 for all.
    pub window: u32,
    /// Erases that a block stands.
    pub endurance: u32,
    /// By how many erases two blocks of a lane may differ before the one with fewer is collected,
    /// whatever it holds; 0 for no such levelling.
    pub wear_difference: u32,
    /// Blocks of a lane that stay in use whatever their wear.
    pub least_blocks: u32,
}

/// The state of a translation layer.
#[derive(Clone, Debug)]
pub struct Translation {
    geometry: Geometry,
    policy: Policy,
    initial: Initial,
    /// The place of each unit, where one was said since the start.
    map: CowTable<u32>,
    /// A bit a place, 64 in a word: whether it holds something valid; in blocks that hold what they held at the
    /// start, whether that has changed.
    held: CowTable<u64>,
    /// The unit of each place, in blocks that were erased since the start.
    units: CowTable<u32>,
    blocks: CowTable<Block>,
    lanes: Vec<Lane>,
    victims: Victims,
    counts: TranslationCounts,
}

impl Translation {
    /// A layer of so many units over lanes that have so many usable blocks each, with what `initial` says in them.
    pub fn new(
        units: u64,
        geometry: Geometry,
        policy: Policy,
        initial: Initial,
        usable: &[u32],
    ) -> Self {
        let blocks = geometry.lanes * geometry.blocks;
        let nothing = Block { valid: 0, erases: 0, state: State::Bad, initial: true };
        let mut layer = Translation {
            geometry,
            policy,
            initial,
            map: CowTable::in_chunks(units, UNTOUCHED, MAP_CHUNK),
            held: CowTable::in_chunks(geometry.units().div_ceil(64), 0, HELD_CHUNK),
            units: CowTable::in_chunks(geometry.units(), UNTOUCHED, MAP_CHUNK),
            blocks: CowTable::in_chunks(u64::from(blocks), nothing, BLOCK_CHUNK),
            lanes: vec![Lane::default(); geometry.lanes as usize],
            victims: Victims::new(
                policy.victims,
                policy.window,
                geometry.lanes,
                blocks,
                (geometry.block_units(), geometry.most_gaining()),
            ),
            counts: TranslationCounts::default(),
        };
        for (lane, &usable) in (0..).zip(usable) {
            layer.lanes[lane as usize].usable = usable;
            for block in 0..usable {
                layer.fill(lane, block);
            }
        }
        layer
    }

    /// A block as it is at the start.
    fn fill(&mut self, lane: u32, block: u32) {
        let valid = self.initial.valid(lane, block);
        let number = self.geometry.block_number(lane, block);
        let it = self.blocks.get_mut(u64::from(number));
        it.valid = valid;
        if let Some((stream, pages)) = self.initial.filling(lane, block) {
            it.state = State::Open;
            let open = Open { block, next: pages, programmed: pages };
            self.lanes[lane as usize].open[stream as usize] = Some(open);
        } else if self.initial.is_filled(lane, block) {
            it.state = State::Filled;
            self.victims.insert(lane, number, valid, 0);
        } else {
            it.state = State::Free;
            self.lanes[lane as usize].free.push(Reverse((0, block)));
        }
    }

    /// The same, of which what is large is shared until one of the two changes it.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        let fork_lane = |lane: &mut Lane| Lane {
            closing: lane.closing.clone(),
            free: lane.free.fork(),
            ..*lane
        };
        Translation {
            initial: self.initial.clone(),
            map: self.map.fork(),
            held: self.held.fork(),
            units: self.units.fork(),
            blocks: self.blocks.fork(),
            lanes: self.lanes.iter_mut().map(fork_lane).collect(),
            victims: self.victims.fork(),
            ..*self
        }
    }

    /// What it did.
    pub fn counts(&self) -> TranslationCounts {
        self.counts
    }

    /// Numbers of units, pages and blocks.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Where a unit lies, if it holds something.
    #[inline]
    pub fn place(&self, unit: u64) -> Option<Place> {
        match self.map.get(unit) {
            UNTOUCHED => self.initial.place(unit),
            TRIMMED => None,
            place => Some(place),
        }
    }

    /// The place of a unit will be looked up soon.
    #[inline]
    pub fn ask_for(&self, unit: u64) {
        std::hint::black_box(self.map.get(unit));
    }

    /// The unit that is valid at a place, if one is.
    pub fn unit(&self, place: Place) -> Option<u64> {
        let (block, _) = self.geometry.block_of(place);
        if self.blocks.get(u64::from(block)).initial
            && let Some(unit) = self.initial.unit(place)
        {
            return (!self.is_held(place)).then_some(unit);
        }
        if self.is_held(place) { self.last_unit_of(false, place) } else { None }
    }

    /// Valid units of a block.
    #[inline]
    pub fn valid(&self, lane: u32, block: u32) -> u32 {
        self.blocks.get(u64::from(self.geometry.block_number(lane, block))).valid
    }

    /// Whether a place holds something valid.
    #[inline]
    pub fn holds(&self, place: Place) -> bool {
        let (block, _) = self.geometry.block_of(place);
        let at_start = self.blocks.get(u64::from(block)).initial && self.initial.holds(place);
        at_start != self.is_held(place)
    }

    /// The unit that was put at a place last, valid still or not.
    pub fn last_unit(&self, place: Place) -> Option<u64> {
        let (block, _) = self.geometry.block_of(place);
        self.last_unit_of(self.blocks.get(u64::from(block)).initial, place)
    }

    /// The same, of a block that holds what it held at the start, or does not.
    #[inline]
    fn last_unit_of(&self, initial: bool, place: Place) -> Option<u64> {
        if initial && let Some(unit) = self.initial.unit(place) {
            return Some(unit);
        }
        let unit = self.units.get(u64::from(place));
        (unit != UNTOUCHED).then_some(u64::from(unit))
    }

    /// Where a unit lay at the start.
    pub fn first_place(&self, unit: u64) -> Option<Place> {
        self.initial.place(unit)
    }

    /// Whether what was put at a place has been programmed.
    #[inline]
    pub fn is_programmed(&self, place: Place) -> bool {
        self.is_page_programmed(self.geometry.page_of(place))
    }

    /// Whether a page has been, of those that something was put at.
    #[inline]
    pub fn is_page_programmed(&self, page: Page) -> bool {
        let number = self.geometry.block_number(page.lane, page.block);
        self.blocks.get(u64::from(number)).state != State::Open || self.is_behind(page)
    }

    /// The same of a block that is being filled, or was until now.
    fn is_behind(&self, page: Page) -> bool {
        let lane = &self.lanes[page.lane as usize];
        let mut all = lane.open.iter().flatten().chain(&lane.closing);
        all.find(|open| open.block == page.block).is_none_or(|open| page.page < open.programmed)
    }

    /// Erased blocks of a lane.
    #[inline]
    pub fn free_blocks(&self, lane: u32) -> u32 {
        self.lanes[lane as usize].free.len() as u32
    }

    /// Whether the lane has a page for a stream.
    #[inline]
    pub fn has_room(&self, lane: u32, stream: Stream) -> bool {
        let is_open = self.lanes[lane as usize].open[stream as usize].is_some();
        let free = self.free_blocks(lane);
        match stream {
            Stream::Host => is_open || free > RESERVE,
            Stream::Moved => is_open || free > 0,
            // Collection moves pages of the map into the same blocks: what they have left may be needed for it.
            Stream::Map => free > RESERVE,
            Stream::Sequential => is_open || free > 0,
        }
    }

    /// Gives out the next page of a stream on a lane, if there is room.
    pub fn allocate(&mut self, lane: u32, stream: Stream) -> Option<Page> {
        if !self.has_room(lane, stream) {
            return None;
        }
        self.allocate_to_move(lane, stream)
    }

    /// The same for what collection moves, which has all the room there is.
    pub fn allocate_to_move(&mut self, lane: u32, stream: Stream) -> Option<Page> {
        let pages = self.geometry.block_pages();
        let state = &mut self.lanes[lane as usize];
        let slot = &mut state.open[stream as usize];
        if slot.is_none() {
            let Reverse((_, block)) = state.free.pop()?;
            *slot = Some(Open { block, next: 0, programmed: 0 });
            let number = self.geometry.block_number(lane, block);
            let it = self.blocks.get_mut(u64::from(number));
            let held = it.initial && self.initial.valid(lane, block) > 0;
            (it.state, it.initial) = (State::Open, false);
            if held {
                let first = number * self.geometry.block_units();
                clear(&mut self.held, first..first + self.geometry.block_units());
            }
        }
        let open = slot.as_mut()?;
        let page = Page { lane, block: open.block, page: open.next };
        open.next += 1;
        if open.next == pages {
            state.closing.extend(slot.take());
        }
        Some(page)
    }

    /// Whether a stream has begun to fill a block of a lane.
    pub fn is_open(&self, lane: u32, stream: Stream) -> bool {
        self.lanes[lane as usize].open[stream as usize].is_some()
    }

    /// Whether a block holds what it held at the start, as far as that has not been written elsewhere since, and
    /// nothing else.
    pub fn is_as_at_start(&self, lane: u32, block: u32) -> bool {
        let number = self.geometry.block_number(lane, block);
        let initial = self.blocks.get(u64::from(number)).initial;
        initial && self.initial.filling(lane, block).is_none()
    }

    /// Whether a block is full.
    pub fn is_filled(&self, lane: u32, block: u32) -> bool {
        let number = self.geometry.block_number(lane, block);
        self.blocks.get(u64::from(number)).state == State::Filled
    }

    /// Ends what a stream fills before it is full: the block is to be erased.
    pub fn close(&mut self, lane: u32, stream: Stream) {
        if let Some(open) = self.lanes[lane as usize].open[stream as usize].take() {
            let number = self.geometry.block_number(lane, open.block);
            self.blocks.get_mut(u64::from(number)).state = State::Victim;
        }
    }

    /// A block that is full, and holds nothing, is to be erased.
    pub fn retire(&mut self, lane: u32, block: u32) {
        let number = self.geometry.block_number(lane, block);
        let it = self.blocks.get_mut(u64::from(number));
        debug_assert!(it.state == State::Filled, "{it:?} of {number} is given up");
        self.victims.remove(lane, number, it.valid);
        it.state = State::Victim;
        self.counts.collections += 1;
    }

    /// Puts `unit` at a place of a page that was given out, for `stream`; where it lay before is invalid
    /// now.
    pub fn put(&mut self, unit: u64, place: Place, stream: Stream) {
        self.forget(unit);
        self.settle(unit, place, stream);
    }

    /// Collection puts `unit`, which lies at `from`, at a place of a page that was given out.
    pub fn put_moved(&mut self, unit: u64, from: Place, place: Place) {
        debug_assert_eq!(self.place(unit), Some(from), "where unit {unit} lies");
        self.vacate(from);
        self.settle(unit, place, Stream::Moved);
    }

    /// `unit`, which lies nowhere, is put at a place.
    #[inline]
    fn settle(&mut self, unit: u64, place: Place, stream: Stream) {
        self.map.set(unit, place);
        *self.held.get_mut(u64::from(place / 64)) ^= 1 << (place % 64);
        self.units.set(u64::from(place), unit as u32);
        self.blocks.get_mut(u64::from(self.geometry.block_of(place).0)).valid += 1;
        match stream {
            Stream::Host | Stream::Sequential => self.counts.host_units += 1,
            Stream::Moved => self.counts.moved_units += 1,
            Stream::Map => self.counts.map_units += 1,
        }
    }

    /// So many units of a page stay without content.
    pub fn pad(&mut self, units: u32) {
        self.counts.padded_units += u64::from(units);
    }

    /// The host gives a unit back: it holds nothing from now on.
    pub fn trim(&mut self, unit: u64) {
        self.counts.trimmed_units += u64::from(self.release(unit));
    }

    /// A unit holds nothing from now on; whether it held something.
    pub fn release(&mut self, unit: u64) -> bool {
        let held = self.forget(unit);
        if held {
            self.map.set(unit, TRIMMED);
        }
        held
    }

    /// Makes invalid what a unit holds; whether it held something.
    fn forget(&mut self, unit: u64) -> bool {
        let place = self.place(unit);
        place.into_iter().for_each(|place| self.vacate(place));
        place.is_some()
    }

    /// What a place holds is invalid from now on.
    #[inline]
    fn vacate(&mut self, place: Place) {
        *self.held.get_mut(u64::from(place / 64)) ^= 1 << (place % 64);
        let (number, _) = self.geometry.block_of(place);
        let block = self.blocks.get_mut(u64::from(number));
        debug_assert!(block.valid > 0, "block {number} holds nothing, but something is at {place}");
        if block.state == State::Filled {
            self.victims.lose(number / self.geometry.blocks, number, block.valid);
        }
        block.valid -= 1;
    }

    /// The next page of its block, in the order in which they were given out, has been programmed.
    pub fn programmed(&mut self, page: Page) {
        self.end_program(page, false);
    }

    /// The same before its time: of a block that the page fills, the collection that begins next knows nothing yet.
    pub fn programmed_early(&mut self, page: Page) {
        self.end_program(page, true);
    }

    fn end_program(&mut self, page: Page, unknown: bool) {
        let pages = self.geometry.block_pages();
        let lane = &mut self.lanes[page.lane as usize];
        if let Some(open) = lane.open.iter_mut().flatten().find(|open| open.block == page.block) {
            open.programmed += 1;
            return;
        }
        let Some(at) = lane.closing.iter().position(|open| open.block == page.block) else {
            return;
        };
        lane.closing[at].programmed += 1;
        if lane.closing[at].programmed == pages {
            lane.closing.remove(at);
            if unknown {
                self.offer_early(page.lane);
                self.lanes[page.lane as usize].unknown = Some(page.block);
            } else {
                self.offer(page.lane, page.block);
            }
        }
    }

    /// Whatever was programmed before its time would be in flash by now; whether a block is there to be collected by that.
    pub fn offer_early(&mut self, lane: u32) -> bool {
        let unknown = self.lanes[lane as usize].unknown.take();
        unknown.into_iter().for_each(|block| self.offer(lane, block));
        unknown.is_some()
    }

    /// A block is full, and may be collected.
    fn offer(&mut self, lane: u32, block: u32) {
        let (number, written) = (self.geometry.block_number(lane, block), self.written());
        let block = self.blocks.get_mut(u64::from(number));
        block.state = State::Filled;
        self.victims.insert(lane, number, block.valid, written);
    }

    /// Units written so far.
    fn written(&self) -> u64 {
        self.counts.host_units + self.counts.moved_units + self.counts.map_units
    }

    /// Takes the next block of a lane to collect; none where that gains nothing, unless it levels wear.
    pub fn begin_collection(&mut self, lane: u32, levels: bool) -> Option<u32> {
        let chosen = self.choose_victim(lane, levels);
        let more = self.offer_early(lane);
        chosen.or_else(|| if more { self.choose_victim(lane, levels) } else { None })
    }

    fn choose_victim(&mut self, lane: u32, levels: bool) -> Option<u32> {
        let written = self.written();
        let levelled = if levels { self.least_worn(lane) } else { None };
        let blocks = &self.blocks;
        let number = levelled.or_else(|| {
            self.victims.choose(lane, written, |number| blocks.get(u64::from(number)).valid)
        })?;
        let block = self.blocks.get_mut(u64::from(number));
        self.victims.remove(lane, number, block.valid);
        block.state = State::Victim;
        self.counts.collections += 1;
        self.counts.levelled += u64::from(levelled.is_some());
        Some(number % self.geometry.blocks)
    }

    /// The filled block of a lane with the fewest erases, where they differ by too much.
    fn least_worn(&mut self, lane: u32) -> Option<u32> {
        let state = &mut self.lanes[lane as usize];
        let difference = self.policy.wear_difference;
        if difference == 0 || state.most_erases <= state.least_erases + difference {
            return None;
        }
        let first = self.geometry.block_number(lane, 0);
        let blocks = &self.blocks;
        let all =
            || (first..first + self.geometry.blocks).map(|one| (one, blocks.get(u64::from(one))));
        let in_use = all().filter(|(_, block)| block.state != State::Bad);
        let erases = in_use.map(|(_, block)| block.erases);
        state.least_erases = erases.min().unwrap_or(0);
        if state.most_erases <= state.least_erases + difference {
            return None;
        }
        let filled = all().filter(|(_, block)| block.state == State::Filled);
        let (number, block) = filled.min_by_key(|(_, block)| block.erases)?;
        (state.most_erases > block.erases + difference).then_some(number)
    }

    /// Valid units of a page, a bit each.
    pub fn live(&self, page: Page) -> u32 {
        let number = self.geometry.block_number(page.lane, page.block);
        let block = self.blocks.get(u64::from(number));
        if block.valid == 0 {
            return 0;
        }
        let first = self.geometry.place(page, 0);
        (0..self.geometry.page_units).fold(0, |bits, unit| {
            let at_start = block.initial && self.initial.holds(first + unit);
            bits | u32::from(at_start != self.is_held(first + unit)) << unit
        })
    }

    /// The bit of a place among those of what is held.
    #[inline]
    fn is_held(&self, place: Place) -> bool {
        self.held.get(u64::from(place / 64)) >> (place % 64) & 1 == 1
    }

    /// Places whose units are being programmed, or have been, but not those before them in their block.
    fn unprogrammed(&self) -> impl Iterator<Item = Place> {
        let open = (0..).zip(&self.lanes).flat_map(|(lane, state)| {
            let all = state.open.iter().flatten().chain(&state.closing);
            all.map(move |open| (lane, open))
        });
        open.flat_map(|(lane, open)| {
            let place = |page| self.geometry.place(Page { lane, block: open.block, page }, 0);
            place(open.programmed)..place(open.next)
        })
    }

    /// A unit of which a block has what may be the only copy in flash, as what is newer is being programmed.
    pub fn only_copy(&self, lane: u32, block: u32) -> Option<u64> {
        let number = self.geometry.block_number(lane, block);
        if self.blocks.get(u64::from(number)).initial {
            // Where a unit lay at the start is known by itself.
            let is_of_block = |unit: &u64| {
                self.first_place(*unit).is_some_and(|it| self.geometry.block_of(it).0 == number)
            };
            let mut units = self.unprogrammed().filter_map(|place| self.last_unit(place));
            let found = units.find(|unit| is_of_block(unit) && self.is_being_programmed(*unit));
            if found.is_some() || self.is_as_at_start(lane, block) {
                return found;
            }
        }
        // Look-ups of places are the slow part. Few units are being programmed: others need none.
        let mut bits = [0u64; FILTER_BITS / 64];
        let mut any = false;
        let hash =
            |unit: u64| unit.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - FILTER_BITS.ilog2());
        for unit in self.unprogrammed().filter_map(|place| self.last_unit(place)) {
            any = true;
            bits[hash(unit) as usize / 64] |= 1 << (hash(unit) % 64);
        }
        if !any {
            return None;
        }
        let first = u64::from(number * self.geometry.block_units());
        self.units
            .range(first..first + u64::from(self.geometry.block_units()))
            .map(u64::from)
            .filter(|&unit| bits[hash(unit) as usize / 64] >> (hash(unit) % 64) & 1 == 1)
            .find(|&unit| unit != u64::from(UNTOUCHED) && self.is_being_programmed(unit))
    }

    /// Whether what is newest of a unit is being programmed.
    pub fn is_being_programmed(&self, unit: u64) -> bool {
        self.place(unit).is_some_and(|newest| !self.is_programmed(newest))
    }

    /// A block that was being collected, and holds nothing any more, has been erased.
    pub fn erased(&mut self, lane: u32, block: u32) {
        let number = self.geometry.block_number(lane, block);
        let it = self.blocks.get_mut(u64::from(number));
        debug_assert!(it.valid == 0 && it.state == State::Victim, "{it:?} of {number} is erased");
        it.erases += 1;
        let state = &mut self.lanes[lane as usize];
        state.most_erases = state.most_erases.max(it.erases);
        self.counts.erases += 1;
        let worn = it.erases >= self.policy.endurance;
        let spare = state.usable > self.policy.least_blocks && !state.free.is_empty();
        if worn && spare {
            it.state = State::Bad;
            state.usable -= 1;
            self.counts.worn_blocks += 1;
            return;
        }
        self.counts.overworn_blocks += u64::from(it.erases == self.policy.endurance);
        it.state = State::Free;
        state.free.push(Reverse((it.erases, block)));
    }

    /// How often the blocks in use have been erased since the start: least, mean and most.
    pub fn wear(&self) -> (u32, f64, u32) {
        let in_use = || self.blocks.iter().filter(|block| block.state != State::Bad);
        let erases = || in_use().map(|block| block.erases);
        let sum: u64 = erases().map(u64::from).sum();
        let mean = sum as f64 / in_use().count().max(1) as f64;
        (erases().min().unwrap_or(0), mean, erases().max().unwrap_or(0))
    }

    /// Blocks in use by how often they have been erased since the start: at place `k` those that were erased `k`
    /// times more than the one that was erased least.
    pub fn blocks_by_erases(&self) -> Vec<u64> {
        let in_use = || self.blocks.iter().filter(|block| block.state != State::Bad);
        let Some(least) = in_use().map(|block| block.erases).min() else { return Vec::new() };
        let mut blocks = Vec::new();
        for block in in_use() {
            let place = (block.erases - least) as usize;
            if blocks.len() <= place {
                blocks.resize(place + 1, 0);
            }
            blocks[place] += 1;
        }
        blocks
    }

    /// Blocks in use.
    pub fn blocks_in_use(&self) -> u64 {
        self.blocks.iter().filter(|block| block.state != State::Bad).count() as u64
    }

    /// Valid units of each block that is full, for tests.
    #[cfg(test)]
    pub fn filled_units(&self) -> Vec<u32> {
        let filled = self.blocks.iter().filter(|block| block.state == State::Filled);
        filled.map(|block| block.valid).collect()
    }

    /// Every invariant that can be seen from outside, for tests: units and places agree, and blocks
    /// count what they hold.
    #[cfg(test)]
    pub fn check(&self, units: u64) {
        let mut valid = vec![0u32; self.blocks.len() as usize];
        for unit in 0..units {
            if let Some(place) = self.place(unit) {
                assert_eq!(self.unit(place), Some(unit), "what lies at {place}");
                valid[self.geometry.block_of(place).0 as usize] += 1;
            }
        }
        let counted: Vec<_> = self.blocks.iter().map(|block| block.valid).collect();
        assert_eq!(counted, valid);
        for place in 0..self.geometry.units() as u32 {
            let valid = self.last_unit(place).is_some_and(|unit| self.place(unit) == Some(place));
            assert_eq!(self.holds(place), valid, "whether {place} holds something");
        }
        for (number, block) in self.blocks.iter().enumerate() {
            let empty = matches!(block.state, State::Free | State::Bad);
            assert!(!empty || block.valid == 0, "block {number} is {block:?}");
        }
    }
}

/// Clears the bits of these places, word by word.
fn clear(held: &mut CowTable<u64>, places: Range<Place>) {
    for word in places.start / 64..places.end.div_ceil(64) {
        let below = |place: Place| match place.saturating_sub(64 * word) {
            bits @ 0..64 => (1 << bits) - 1,
            _ => u64::MAX,
        };
        *held.get_mut(u64::from(word)) &= !(below(places.end) & !below(places.start));
    }
}

#[cfg(test)]
mod tests;
