//! Instruction mixes: what of a piece of work reaches its data, and the rest, which goes to the program's
//! own few lines, so that shares of loads and stores are those that a source states.

use crate::op::{Op, OpKind};
use crate::runs::{self, Condenser, Run};

/// Slots of a thread's own few lines: of its stack.
const SLOTS: u64 = runs::RING_BYTES / WORD_BYTES;
const WORD_BYTES: u64 = 8;
/// Where they are told together, the own lines are gone through so often at once.
const ROUNDS: u64 = 2;

/// Loads, stores and instructions of a piece of work, all told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mix {
    pub loads: u64,
    pub stores: u64,
    pub instructions: u64,
}

impl Mix {
    /// Of so many instructions, those that shares say; at least `least_loads` and `least_stores`.
    pub fn of(instructions: u64, loads: f64, stores: f64) -> Mix {
        let part = |share: f64| (instructions as f64 * share).round() as u64;
        Mix { loads: part(loads), stores: part(stores), instructions }
    }

    /// Loads and stores.
    pub fn accesses(&self) -> u64 {
        self.loads + self.stores
    }

    /// Appends `data`, accesses in their order, with the rest of loads and stores evenly between them,
    /// which go to the lines at `own`, and with all instructions evenly over both. What is in excess of
    /// the mix is left out of neither; `data` should have no more loads and stores than it has.
    pub fn spread(&self, data: &[Op], own: u64, out: &mut Vec<Op>) {
        let mut parts = Parts::new(self, data);
        let mut slot = 0;
        for op in data {
            out.push(Op { meta: op.meta & 0xffff_ffff | parts.instructions(1) << 32, ..*op });
            let (loads, stores) = (parts.loads.next(), parts.stores.next());
            for number in 0..loads + stores {
                let make = if number < loads { Op::load } else { Op::store };
                let address = own + slot % SLOTS * WORD_BYTES;
                out.push(make(address, WORD_BYTES as u16, parts.instructions(1) as u32));
                slot += 1;
            }
        }
    }

    /// The same, with what lies in one line, or goes to the lines at `own`, told together.
    pub fn condense(&self, data: &[Op], own: u64, out: &mut Vec<Op>) {
        let mut parts = Parts::new(self, data);
        let mut condenser = Condenser::default();
        let (mut slot, mut pending) = (0, [0; 2]);
        for (index, op) in data.iter().enumerate() {
            condenser.add(*op, parts.instructions(1), out);
            pending[0] += parts.loads.next();
            pending[1] += parts.stores.next();
            if pending[0] + pending[1] < ROUNDS * SLOTS && index + 1 < data.len() {
                continue;
            }
            // What was added last is before them.
            condenser.finish(out);
            for (count, write) in std::mem::take(&mut pending).into_iter().zip([false, true]) {
                let mut left = count;
                while left > 0 {
                    let count = left.min(runs::MOST);
                    let instructions = parts.instructions(count);
                    let address = own + slot % SLOTS * WORD_BYTES;
                    let bytes = WORD_BYTES;
                    out.push(Run { address, bytes, count, write, ring: true, instructions }.op());
                    slot += count;
                    left -= count;
                }
            }
        }
    }
}

/// What is left of a mix for each of its accesses, in their order.
struct Parts {
    loads: Even,
    stores: Even,
    instructions: Even,
}

impl Parts {
    fn new(mix: &Mix, data: &[Op]) -> Self {
        let stores = data.iter().filter(|op| is_store(op)).count() as u64;
        let count = data.len() as u64;
        let own_loads = mix.loads.saturating_sub(count - stores);
        let own_stores = mix.stores.saturating_sub(stores);
        Parts {
            loads: Even::new(own_loads, count),
            stores: Even::new(own_stores, count),
            instructions: Even::new(mix.instructions, count + own_loads + own_stores),
        }
    }

    /// Those of the next `count` accesses, at least one each.
    fn instructions(&mut self, count: u64) -> u64 {
        (0..count).map(|_| self.instructions.next().max(1)).sum()
    }
}

/// A whole in so many parts that differ by one at most, in the order of [`part`].
struct Even {
    count: u64,
    /// Of each part; and what is left over, in shares of a part.
    each: u64,
    over: u64,
    carried: u64,
}

impl Even {
    fn new(whole: u64, count: u64) -> Self {
        let count = count.max(1);
        Even { count, each: whole / count, over: whole % count, carried: 0 }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.carried += self.over;
        let more = self.carried >= self.count;
        self.carried -= if more { self.count } else { 0 };
        self.each + u64::from(more)
    }
}

fn is_store(op: &Op) -> bool {
    op.kind_code() == OpKind::Store as u8
}

/// What the `index`-th of `count` gets of a whole.
pub(super) fn part(whole: u64, index: u64, count: u64) -> u64 {
    let until = |index: u64| (u128::from(whole) * u128::from(index) / u128::from(count)) as u64;
    until(index + 1) - until(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Counts;

    #[test]
    fn a_mix_has_the_loads_stores_and_instructions_that_it_says() {
        let data: Vec<Op> =
            (0..100).flat_map(|i| [Op::load(i << 12, 8, 1), Op::store(i << 13, 8, 1)]).collect();
        let mix = Mix::of(3001, 0.28, 0.43);
        let mut ops = Vec::new();
        mix.spread(&data, 256, &mut ops);
        let counts = Counts::of(&ops);
        let expected = (mix.loads, mix.stores, 3001);
        assert_eq!((counts.loads, counts.stores, counts.instructions), expected);
        let own = |op: &&Op| (256..256 + 256).contains(&op.word);
        let kept: Vec<u64> = ops.iter().filter(|op| !own(op)).map(|op| op.word).collect();
        assert_eq!(kept, data.iter().map(|op| op.word).collect::<Vec<u64>>());
    }

    #[test]
    fn parts_are_those_of_the_whole() {
        for (whole, count) in [(0, 3), (1, 3), (7, 3), (3001, 1292), (5, 1), (9, 9)] {
            let mut even = Even::new(whole, count);
            for index in 0..count {
                assert_eq!(even.next(), part(whole, index, count), "{index} of {whole}/{count}");
            }
        }
    }

    /// Told together, a piece of work has the same accesses to data, as many of each kind, and all its instructions.
    #[test]
    fn what_is_told_together_is_the_same() {
        let copy = (0..512u64).flat_map(|i| [Op::load(4096 + i * 8, 8, 1), Op::store(i * 8, 8, 1)]);
        let jumps = (0..90u64).map(|i| Op::load((i * i) << 7, 2, 1));
        let mixed = jumps.clone().chain((0..30).map(|i| Op::store((1 << 20) + i * 8, 8, 1)));
        for data in [copy.collect(), jumps.collect(), mixed.collect::<Vec<Op>>()] {
            let mix = Mix::of(8001, 0.28, 0.43);
            let (mut ops, mut condensed) = (Vec::new(), Vec::new());
            mix.spread(&data, 1 << 30, &mut ops);
            mix.condense(&data, 1 << 30, &mut condensed);
            assert!(condensed.len() < ops.len() / 7, "{} of {}", condensed.len(), ops.len());
            runs::expand(&mut condensed, 0);
            let (one, other) = (Counts::of(&condensed), Counts::of(&ops));
            let of = |counts: &Counts| (counts.loads, counts.stores, counts.instructions);
            assert_eq!(of(&one), of(&other));
            let sorted = |ops: &[Op]| {
                let of_data = ops.iter().filter(|op| op.word < 1 << 30);
                let mut all: Vec<_> = of_data.map(|op| (op.word, op.meta as u32)).collect();
                all.sort_unstable();
                all
            };
            assert!(sorted(&condensed) == sorted(&ops), "other accesses to data");
        }
    }
}
