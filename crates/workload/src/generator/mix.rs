//! Instruction mixes: what of a piece of work reaches its data, and the rest, which goes to the program's
//! own few lines, so that shares of loads and stores are those that a source states.

use crate::op::Op;

/// Slots of 8 B of a thread's own few lines: of its stack.
const SLOTS: u64 = 32;

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
        let stores = data.iter().filter(|op| is_store(op)).count() as u64;
        let count = data.len() as u64;
        let own_loads = self.loads.saturating_sub(count - stores);
        let own_stores = self.stores.saturating_sub(stores);
        let all = count + own_loads + own_stores;
        let mut number = 0;
        let mut put = |op: Op, out: &mut Vec<Op>| {
            let instructions = part(self.instructions, number, all).max(1);
            number += 1;
            out.push(Op { meta: op.meta & 0xffff_ffff | instructions << 32, ..op });
        };
        let mut slot = 0;
        for (index, op) in (0..).zip(data) {
            put(*op, out);
            for (wanted, make) in
                [(own_loads, Op::load as fn(u64, u16, u32) -> Op), (own_stores, Op::store)]
            {
                for _ in 0..part(wanted, index, count) {
                    put(make(own + slot % SLOTS * 8, 8, 1), out);
                    slot += 1;
                }
            }
        }
    }
}

fn is_store(op: &Op) -> bool {
    op.kind_code() == crate::op::OpKind::Store as u8
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
        mix.spread(&data, 64, &mut ops);
        let counts = Counts::of(&ops);
        let expected = (mix.loads, mix.stores, 3001);
        assert_eq!((counts.loads, counts.stores, counts.instructions), expected);
        let own = |op: &&Op| (64..64 + 256).contains(&op.word);
        let kept: Vec<u64> = ops.iter().filter(|op| !own(op)).map(|op| op.word).collect();
        assert_eq!(kept, data.iter().map(|op| op.word).collect::<Vec<u64>>());
    }
}
