//! Runs: accesses of a kind in order, told at once.
//!
//! What a machine is warmed with functionally takes no time by itself, and most of it lies beside what was
//! just used. A stream that is asked for it ([`Stream::pull_condensed`](crate::Stream::pull_condensed)) says
//! such accesses together, in one operation, and a machine looks up each line once. No recording has runs,
//! and no pull gives any: [`expand`] makes of them the accesses that they stand for.

use crate::generator::prelude::length_of;
use crate::op::{Op, OpKind};

/// The code of a run's kind.
pub const RUN: u8 = 9;

/// They are stores, not loads.
const STORES: u8 = 1;
/// They begin anew at the start of their [`RING_BYTES`] when they have come to its end.
const RING: u8 = 2;

/// Bytes that accesses in a ring go round in, aligned to as many: a few lines of the thread's own stack.
pub const RING_BYTES: u64 = 256;

/// The largest access of a run, in bytes.
pub const LARGEST_BYTES: u64 = 16;

/// The most accesses of a run.
pub const MOST: u64 = 255;

/// Accesses of one kind and size, each right behind the one before. None crosses a line, as each is
/// aligned to its size, a power of two of [`LARGEST_BYTES`] at most, and no line is shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Of the first of them.
    pub address: u64,
    /// Of each.
    pub bytes: u64,
    /// How many, at least one and at most [`MOST`].
    pub count: u64,
    /// Stores, not loads.
    pub write: bool,
    /// They stay within [`RING_BYTES`].
    pub ring: bool,
    /// Of all of them, those between included.
    pub instructions: u64,
}

impl Run {
    /// Packs it: the size of each and their number where an access has its size.
    #[inline]
    pub fn op(self) -> Op {
        let flags = if self.write { STORES } else { 0 } | if self.ring { RING } else { 0 };
        let size = self.bytes | self.count << 8;
        let meta = u64::from(RUN) | u64::from(flags) << 8 | size << 16 | self.instructions << 32;
        Op { word: self.address, meta }
    }

    /// What an operation of kind [`RUN`] holds.
    #[inline]
    pub fn of(op: Op) -> Self {
        let size = u64::from(op.size());
        Run {
            address: op.word,
            bytes: size & 0xff,
            count: size >> 8,
            write: op.flags() & STORES != 0,
            ring: op.flags() & RING != 0,
            instructions: u64::from(op.instructions()),
        }
    }

    /// An access as a run of one, where it can be told so: one that waits for nothing, goes through the caches and
    /// is aligned to its size.
    fn of_one(op: Op, instructions: u64) -> Option<Self> {
        let (kind, bytes) = (op.kind_code(), u64::from(op.size()));
        let write = kind == OpKind::Store as u8;
        let is_access = write || kind == OpKind::Load as u8;
        let is_plain = op.flags() == 0 && bytes.is_power_of_two() && bytes <= LARGEST_BYTES;
        let fits = is_access && is_plain && op.word.is_multiple_of(bytes);
        let (address, count, ring) = (op.word, 1, false);
        fits.then_some(Run { address, bytes, count, write, ring, instructions })
    }

    /// Whether one access is right behind the last, in the same line.
    fn is_followed_by(&self, one: &Run) -> bool {
        let same = (self.write, self.bytes) == (one.write, one.bytes);
        let next = self.at(self.count) == one.address;
        same && next && !one.address.is_multiple_of(LINE_BYTES)
    }

    /// Packs it; alone, an access is itself.
    fn op_or_access(self) -> Op {
        if self.count > 1 {
            return self.op();
        }
        let make = if self.write { Op::store } else { Op::load };
        make(self.address, self.bytes as u16, self.instructions as u32)
    }

    /// Takes the first `count` of its accesses, not more than it has; their instructions.
    #[inline]
    pub fn take(&mut self, count: u64) -> u64 {
        // Whoever takes all takes all instructions.
        let instructions = self.instructions * count / self.count.max(1);
        self.instructions -= instructions;
        self.pass(count);
        instructions
    }

    /// Leaves out the first `count` of its accesses, not more than it has.
    #[inline]
    pub fn pass(&mut self, count: u64) {
        self.count -= count;
        self.address = self.at(count);
    }

    /// The address of one of its accesses.
    #[inline]
    fn at(&self, index: u64) -> u64 {
        let at = self.address + index * self.bytes;
        if !self.ring {
            return at;
        }
        let start = self.address & !(RING_BYTES - 1);
        start + (at - start) % RING_BYTES
    }

    /// How many of its accesses, from the first on, lie in the first one's line, of so many bytes, a power of two.
    #[inline]
    pub fn in_line(&self, line_bytes: u64) -> u64 {
        let line_bytes = if self.ring { line_bytes.min(RING_BYTES) } else { line_bytes };
        let left = line_bytes - (self.address & (line_bytes - 1));
        (left / self.bytes).clamp(1, self.count)
    }

    /// The accesses that it stands for.
    pub fn accesses(mut self) -> impl Iterator<Item = Op> {
        std::iter::from_fn(move || {
            let Run { address, bytes, write, .. } = self;
            if self.count == 0 {
                return None;
            }
            let make = if write { Op::store } else { Op::load };
            Some(make(address, bytes as u16, self.take(1) as u32))
        })
    }
}

/// Makes of all runs among these operations, whole calls, the accesses that they stand for; those before `from`
/// are left as they are.
pub fn expand(ops: &mut Vec<Op>, from: usize) {
    let rest = ops.split_off(from);
    let mut at = 0;
    while at < rest.len() {
        let op = rest[at];
        if op.kind_code() == RUN {
            ops.extend(Run::of(op).accesses());
            at += 1;
        } else {
            let end = rest.len().min(at + length_of(op));
            ops.extend_from_slice(&rest[at..end]);
            at = end;
        }
    }
}

/// Makes runs of accesses as they come, each of those that lie in one line of [`LINE_BYTES`].
#[derive(Debug, Default)]
pub(crate) struct Condenser {
    /// Of loads and of stores, in the order in which they began.
    open: [Option<Run>; 2],
}

/// A run goes no further than a line of so many bytes.
const LINE_BYTES: u64 = 64;

impl Condenser {
    /// Takes an access, which joins the run of its kind, or begins one; before that, operations which it does
    /// not fit are appended to `out`.
    pub fn add(&mut self, op: Op, instructions: u64, out: &mut Vec<Op>) {
        let Some(run) = Run::of_one(op, instructions) else {
            self.finish(out);
            out.push(Op { meta: op.meta & 0xffff_ffff | instructions << 32, ..op });
            return;
        };
        for open in self.open.iter_mut().flatten() {
            if open.is_followed_by(&run) {
                open.count += 1;
                open.instructions += instructions;
                return;
            }
        }
        let is_there = |open: &Option<Run>| open.is_some_and(|open| open.write == run.write);
        if self.open[1].is_some() || self.open.iter().any(is_there) {
            self.finish(out);
        }
        self.open[usize::from(self.open[0].is_some())] = Some(run);
    }

    /// Appends what is left.
    pub fn finish(&mut self, out: &mut Vec<Op>) {
        out.extend(self.open.iter_mut().filter_map(Option::take).map(Run::op_or_access));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(address: u64, bytes: u64, count: u64, ring: bool) -> Run {
        Run { address, bytes, count, write: false, ring, instructions: 7 * count + 3 }
    }

    fn words(ops: &[Op]) -> Vec<(u64, u8, u16)> {
        ops.iter().map(|op| (op.word, op.kind_code(), op.size())).collect()
    }

    fn instructions(ops: &[Op]) -> u64 {
        ops.iter().map(|op| u64::from(op.instructions())).sum()
    }

    #[test]
    fn a_run_stands_for_its_accesses_and_all_their_instructions() {
        let ops: Vec<Op> = run(0x1008, 8, 3, false).accesses().collect();
        assert_eq!(words(&ops), [(0x1008, 1, 8), (0x1010, 1, 8), (0x1018, 1, 8)]);
        assert_eq!(instructions(&ops), 24);
        let around: Vec<u64> = run(0x10f0, 8, 4, true).accesses().map(|op| op.word).collect();
        assert_eq!(around, [0x10f0, 0x10f8, 0x1000, 0x1008]);
    }

    #[test]
    fn a_line_has_so_many_of_them() {
        assert_eq!(run(0x1030, 8, 9, false).in_line(64), 2);
        assert_eq!(run(0x1030, 8, 1, false).in_line(64), 1);
        assert_eq!(run(0x1000, 8, 200, true).in_line(64), 8);
        // Of a line that is longer than a ring, as many as go to the ring's end.
        assert_eq!(run(0x10f0, 8, 200, true).in_line(512), 2);
    }

    proptest! {
        /// Whatever accesses come: what is made of them stands for the same, each kind in its order.
        #[test]
        fn what_is_condensed_expands_to_the_same(
            all in proptest::collection::vec(
                (0..40u64, 0..4u32, any::<bool>(), 0..3u8, 1..50u64, 1..300usize), 0..60),
        ) {
            let mut ops = Vec::new();
            for (place, size, write, kind, instructions, count) in all {
                let bytes = 1u64 << size;
                for index in 0..count as u64 {
                    let address = 0x1000 + place * bytes + index * bytes + u64::from(kind == 1);
                    let make = if write { Op::store } else { Op::load };
                    let op = make(address, bytes as u16, instructions as u32);
                    ops.push(if kind == 2 { op.with_flags(crate::op::FLAG_DEPENDENT) } else { op });
                }
            }
            let (mut condenser, mut condensed) = (Condenser::default(), Vec::new());
            for op in &ops {
                condenser.add(*op, u64::from(op.instructions()), &mut condensed);
            }
            condenser.finish(&mut condensed);
            prop_assert!(condensed.len() <= ops.len());
            prop_assert_eq!(instructions(&condensed), instructions(&ops));
            expand(&mut condensed, 0);
            prop_assert_eq!(instructions(&condensed), instructions(&ops));
            for kind in [OpKind::Load, OpKind::Store] {
                let of = |ops: &[Op]| {
                    let it = words(ops).into_iter().filter(|(_, code, _)| *code == kind as u8);
                    it.collect::<Vec<_>>()
                };
                prop_assert_eq!(of(&condensed), of(&ops));
            }
        }

        /// A run that is taken in parts is the same accesses and instructions.
        #[test]
        fn parts_of_a_run_are_the_whole(
            start in 0..32u64,
            count in 1..=MOST,
            parts in proptest::collection::vec(1..40u64, 1..20),
            ring in any::<bool>(),
        ) {
            let whole = Run::of(run(0x1000 + 8 * start, 8, count, ring).op());
            let (mut left, mut found, mut sum) = (whole, Vec::new(), 0);
            for part in parts.into_iter().chain([MOST]) {
                let part = part.min(left.count);
                let of_part = Run { count: part, ..left };
                found.extend(of_part.accesses().map(|op| op.word));
                sum += left.take(part);
            }
            prop_assert_eq!(found, whole.accesses().map(|op| op.word).collect::<Vec<_>>());
            prop_assert_eq!((sum, left.count), (whole.instructions, 0));
        }
    }
}
