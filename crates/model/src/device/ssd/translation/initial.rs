//! What flash holds when a run starts, without a word of memory for each page.
//!
//! A drive that is full is a rule: which unit lies where follows from a formula, until it is written
//! anew. Only the number of valid units of each block is kept.

use super::{Geometry, Place, Stream, Stripe};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tierscope_kernel::{Counter, Permutation};

/// What flash holds when a run starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InitialFlash {
    /// Nothing: every block is erased.
    Erased,
    /// All of the capacity, written once from its beginning to its end.
    Written,
    /// All of the capacity, overwritten at random for so long that collection has come to its steady
    /// state: every block but the free ones has been written, and holds as many valid pages as
    /// greedy collection leaves; of each die two are being filled, one by the host and one by
    /// collection, and have come so far as chance has it.
    Steady,
}

/// Who fills the blocks that are being filled at the start, in the order of their numbers.
const FILLERS: [Stream; 2] = [Stream::Host, Stream::Moved];

/// Where what lies at the start.
#[derive(Clone, Debug)]
pub struct Initial {
    units: u64,
    page_units: u32,
    block_units: u32,
    blocks: u32,
    stripe: Stripe,
    order: Option<Permutation>,
    /// The block of each lane from which on, up to its free ones, blocks are being filled.
    fillings: Arc<[u32]>,
    /// Pages of the map, which are the units after those, and the block of each lane from which on they lie.
    map_units: u64,
    map_blocks: Arc<[u32]>,
    /// For each lane the valid units before each of its blocks, and of all: `blocks` + 1 numbers.
    before: Arc<[u32]>,
    /// For each lane, of every so many of its units the block: where the search for others begins.
    guesses: Arc<[u32]>,
    guess_bits: u32,
    lane_guesses: u32,
}

impl Initial {
    /// The first `units` hold something, and so do the pages of the map after them, on lanes that have so
    /// many usable blocks each, of which `free` are to be erased in the steady state.
    pub fn new(
        kind: InitialFlash,
        (units, map_units): (u64, u64),
        geometry: &Geometry,
        stripe: Stripe,
        usable: &[u32],
        free: u32,
    ) -> Self {
        let (units, map_units) =
            if kind == InitialFlash::Erased { (0, 0) } else { (units, map_units) };
        let of_map = map_units.div_ceil(u64::from(geometry.lanes));
        let of_map = of_map.div_ceil(u64::from(geometry.block_units())) as u32;
        let steady = kind == InitialFlash::Steady;
        let mut before = Vec::with_capacity((geometry.lanes * (geometry.blocks + 1)) as usize);
        let mut fillings = Vec::with_capacity(geometry.lanes as usize);
        for (lane, &usable) in (0..).zip(usable) {
            let share = lane_units(units, lane, geometry, &stripe);
            let valid = if steady {
                let written = usable - free - of_map;
                let filling = filling_units(lane, written, share, geometry);
                let filled = written - filling.len() as u32;
                fillings.push(filled);
                let share = share - filling.iter().map(|&units| u64::from(units)).sum::<u64>();
                let mut valid = steady_blocks(share, filled, geometry.block_units());
                valid.extend(filling);
                valid
            } else {
                fillings.push(geometry.blocks);
                full_blocks(share, geometry.block_units())
            };
            let mut sum = 0;
            for block in 0..=geometry.blocks as usize {
                before.push(sum);
                sum += valid.get(block).copied().unwrap_or(0);
            }
        }
        let guess_bits = geometry.block_units().ilog2().saturating_sub(1);
        let length = geometry.blocks as usize + 1;
        let most = before.chunks(length).map(|lane| lane[length - 1]).max().unwrap_or(0);
        let lane_guesses = (most >> guess_bits) + 1;
        let mut guesses = Vec::with_capacity(geometry.lanes as usize * lane_guesses as usize);
        for lane in before.chunks(length) {
            let mut block = 0;
            for guess in 0..lane_guesses {
                while block + 2 < length && lane[block + 1] <= guess << guess_bits {
                    block += 1;
                }
                guesses.push(block as u32);
            }
        }
        Initial {
            guesses: guesses.into(),
            guess_bits,
            lane_guesses,
            units,
            page_units: geometry.page_units,
            block_units: geometry.block_units(),
            blocks: geometry.blocks,
            stripe,
            fillings: fillings.into(),
            map_units,
            map_blocks: usable.iter().map(|usable| usable - of_map).collect(),
            order: steady.then(|| Permutation::new(0, "ssd.initial", units)),
            before: before.into(),
        }
    }

    /// How many units of a block are valid at the start.
    pub fn valid(&self, lane: u32, block: u32) -> u32 {
        if block >= self.map_blocks[lane as usize] {
            let lanes = self.map_blocks.len() as u64;
            let of_lane = (self.map_units + lanes - 1 - u64::from(lane)) / lanes;
            let before = block - self.map_blocks[lane as usize];
            let left = of_lane.saturating_sub(u64::from(before) * u64::from(self.block_units));
            return left.min(u64::from(self.block_units)) as u32;
        }
        let before = self.lane(lane);
        before[block as usize + 1] - before[block as usize]
    }

    /// Who is filling a block at the start, and how many pages of it have been programmed.
    pub fn filling(&self, lane: u32, block: u32) -> Option<(Stream, u32)> {
        let valid = self.valid(lane, block);
        let stream = if block >= self.map_blocks[lane as usize] {
            (valid > 0).then_some(Stream::Map)?
        } else {
            let nth = block.checked_sub(self.fillings[lane as usize])?;
            *FILLERS.get(nth as usize).filter(|_| valid > 0)?
        };
        let pages = valid.div_ceil(self.page_units);
        (pages * self.page_units < self.block_units).then_some((stream, pages))
    }

    /// Whether a block has been filled, though nothing of it need be valid any more.
    pub fn is_filled(&self, lane: u32, block: u32) -> bool {
        let steady = self.order.is_some() && block < self.fillings[lane as usize];
        steady || self.filling(lane, block).is_none() && self.valid(lane, block) > 0
    }

    #[inline]
    fn lane(&self, lane: u32) -> &[u32] {
        let length = self.blocks as usize + 1;
        &self.before[lane as usize * length..][..length]
    }

    /// Where a unit lies at the start, if it holds something.
    pub fn place(&self, unit: u64) -> Option<Place> {
        if unit >= self.units {
            return self.map_place(unit - self.units);
        }
        let rank = self.order.map_or(unit, |order| order.at(unit));
        let page_units = u64::from(self.page_units);
        let (lane, nth) = self.stripe.deal(rank / page_units);
        let in_lane = (nth * page_units + rank % page_units) as u32;
        let before = self.lane(lane);
        let guess = lane * self.lane_guesses + (in_lane >> self.guess_bits);
        let mut block = self.guesses[guess as usize];
        while before[block as usize + 1] <= in_lane {
            block += 1;
        }
        let valid = before[block as usize + 1] - before[block as usize];
        let unit = self.spread(in_lane - before[block as usize], self.dealt(lane, block, valid));
        Some((lane * self.blocks + block) * self.block_units + unit)
    }

    /// Where a page of the map lies at the start: dealt to all lanes in turn, into blocks of their own, the
    /// last ones.
    fn map_place(&self, number: u64) -> Option<Place> {
        if number >= self.map_units {
            return None;
        }
        let lanes = self.map_blocks.len() as u64;
        let (lane, nth) = ((number % lanes) as u32, (number / lanes) as u32);
        let block = self.map_blocks[lane as usize] + nth / self.block_units;
        Some((lane * self.blocks + block) * self.block_units + nth % self.block_units)
    }

    /// Whether a unit lies at a place at the start.
    #[inline]
    pub fn holds(&self, place: Place) -> bool {
        let (number, unit) = (place / self.block_units, place % self.block_units);
        let (lane, block) = (number / self.blocks, number % self.blocks);
        if block >= self.map_blocks[lane as usize] {
            return self.unit(place).is_some();
        }
        let before = &self.lane(lane)[block as usize..];
        let valid = before[1] - before[0];
        self.gather(unit, valid, self.dealt(lane, block, valid)).is_some()
    }

    /// Which unit lies at a place at the start, if one does.
    pub fn unit(&self, place: Place) -> Option<u64> {
        let (block, unit) = (place / self.block_units, place % self.block_units);
        let lane = block / self.blocks;
        if block % self.blocks >= self.map_blocks[lane as usize] {
            let first = lane * self.blocks + self.map_blocks[lane as usize];
            let nth = u64::from(place - first * self.block_units);
            let number = nth * self.map_blocks.len() as u64 + u64::from(lane);
            return (number < self.map_units).then_some(self.units + number);
        }
        let number = block % self.blocks;
        let block = number as usize;
        let before = self.lane(lane);
        let valid = before[block + 1] - before[block];
        let number = self.gather(unit, valid, self.dealt(lane, number, valid))?;
        let in_lane = u64::from(before[block] + number);
        let page_units = u64::from(self.page_units);
        let page = self.stripe.dealt(lane, in_lane / page_units);
        let rank = page * page_units + in_lane % page_units;
        (rank < self.units).then(|| self.order.map_or(rank, |order| order.inverse(rank)))
    }

    /// Of how many places, spread evenly over a block, its valid units are the first: of as many as there are
    /// of them, and of all in a block that is being filled.
    #[inline]
    fn dealt(&self, lane: u32, block: u32, valid: u32) -> u32 {
        if block < self.fillings[lane as usize] { valid } else { self.block_units }
    }

    /// In which unit of a block the n-th of so many places lies.
    #[inline]
    fn spread(&self, n: u32, of: u32) -> u32 {
        (u64::from(n) * u64::from(self.block_units) / u64::from(of)) as u32
    }

    /// Which of `valid`, the first of so many places, lies in this unit of a block, if one does.
    #[inline]
    fn gather(&self, unit: u32, valid: u32, of: u32) -> Option<u32> {
        let n = (u64::from(unit) * u64::from(of)).div_ceil(u64::from(self.block_units)) as u32;
        (n < valid && self.spread(n, of) == unit).then_some(n)
    }
}

/// Units of each of the last of so many `written` blocks of a lane, which are being filled with whole rows of its
/// `share`: none where a block has but one row, or there is hardly anything in them.
///
/// Where the host's block stands is any row. Collection goes on until as many blocks are free as before, so that
/// between two of its turns its own block holds more than it collects from one: else another would be free.
fn filling_units(lane: u32, written: u32, share: u64, geometry: &Geometry) -> Vec<u32> {
    let filled = written.saturating_sub(FILLERS.len() as u32);
    if geometry.rows < 2 || filled == 0 {
        return Vec::new();
    }
    let row_units = geometry.planes * geometry.page_units;
    let collected = Spread::of(share as f64 / f64::from(written), geometry.block_units()).least;
    let draws = Counter::stream(0, "ssd.filling");
    let rows = |nth: u64, from: u32, to: u32| {
        let number = u64::from(lane) * FILLERS.len() as u64 + nth;
        from + draws.below_at(number, u64::from(to - from) + 1) as u32
    };
    let host = rows(0, 1, geometry.rows - 1);
    let moved = rows(1, (collected / row_units + 1).min(geometry.rows), geometry.rows);
    let units = vec![host * row_units, moved * row_units];
    let left = share.checked_sub(units.iter().map(|&units| u64::from(units)).sum());
    let fit = |left: u64| left <= u64::from(filled) * u64::from(geometry.block_units());
    if left.is_some_and(fit) { units } else { Vec::new() }
}

/// Units of the first `units` that lie on a lane.
fn lane_units(units: u64, lane: u32, geometry: &Geometry, stripe: &Stripe) -> u64 {
    let page_units = u64::from(geometry.page_units);
    let (pages, rest) = (units / page_units, units % page_units);
    let last = if rest > 0 && stripe.deal(pages).0 == lane { rest } else { 0 };
    stripe.share(lane, pages) * page_units + last
}

/// Valid units of each block where `units` fill one after the other.
fn full_blocks(units: u64, block_units: u32) -> Vec<u32> {
    let full = (units / u64::from(block_units)) as usize;
    let mut valid = vec![block_units; full];
    let rest = (units % u64::from(block_units)) as u32;
    valid.extend((rest > 0).then_some(rest));
    valid
}

/// How many blocks have how many valid units in the steady state of greedy collection under random writes.
///
/// A block with i valid units loses the next one after a time in proportion to 1 / i, so that
/// between n, where it is written, and m, where it is collected, it is found with i in proportion to
/// 1 / i (Desnoyers, "Analytic modeling of SSD write performance", SYSTOR 2012, §4; Van Houdt, "A
/// mean field model for a class of garbage collection algorithms", SIGMETRICS 2013). m follows from
/// the mean.
#[derive(Clone, Copy, Debug)]
struct Spread {
    /// m.
    least: u32,
    /// The part of 1 / m with which m is found: the mean lies between those of two numbers.
    of_least: f64,
    /// The sum of all parts.
    weight: f64,
}

impl Spread {
    /// Of blocks of n units with so many valid ones in the mean.
    fn of(mean: f64, block_units: u32) -> Self {
        // From n downwards, until the mean of those between is that of the drive.
        let (mut weight, mut mass) = (0.0, 0.0);
        for least in (1..=block_units).rev() {
            let of_least = 1.0 / f64::from(least);
            if mass + 1.0 <= mean * (weight + of_least) {
                let needed = (mass - mean * weight) / (mean - f64::from(least));
                let needed =
                    if needed.is_finite() { needed.clamp(0.0, of_least) } else { of_least };
                return Spread { least, of_least: needed, weight: weight + needed };
            }
            weight += of_least;
            mass += 1.0;
        }
        Spread { least: 1, of_least: 1.0, weight }
    }

    /// The part of blocks that have this many or fewer, given that of those with fewer.
    fn reach(&self, reached: f64, valid: u32) -> f64 {
        let part = if valid == self.least { self.of_least } else { 1.0 / f64::from(valid) };
        reached + part / self.weight
    }
}

/// Valid units of each of `blocks` in the steady state of greedy collection under random writes of
/// `units` in all, the fewest first.
pub(super) fn steady_blocks(units: u64, blocks: u32, block_units: u32) -> Vec<u32> {
    let spread = Spread::of(units as f64 / f64::from(blocks), block_units);
    let mut valid = Vec::with_capacity(blocks as usize);
    let mut reached = 0.0;
    for i in spread.least..=block_units {
        reached = spread.reach(reached, i);
        let until = (f64::from(blocks) * reached + 0.5) as usize;
        valid.resize(until.min(blocks as usize).max(valid.len()), i);
    }
    valid.resize(blocks as usize, block_units);
    settle(&mut valid, units, block_units);
    valid
}

/// Adds or takes away one in each block, until the sum is `units`.
fn settle(valid: &mut [u32], units: u64, block_units: u32) {
    let mut sum: u64 = valid.iter().map(|&v| u64::from(v)).sum();
    while sum != units {
        let before = sum;
        for v in valid.iter_mut() {
            if sum < units && *v < block_units {
                (*v, sum) = (*v + 1, sum + 1);
            } else if sum > units && *v > 0 {
                (*v, sum) = (*v - 1, sum - 1);
            }
        }
        assert!(sum != before, "{units} units do not fit {} blocks", valid.len());
    }
}
