//! Loop nests over grids of three axes: which arrays each point of a nest loads from and stores to, at which
//! distance. Threads have parts of the outermost loop, and wait for each other after each nest.

use super::indexed::{first_of, share_of};
use super::prelude::{BASE_ADDRESS, Prelude};
use super::units::{Units, barrier, barrier_length, in_units};
use super::{Made, PAGE_BYTES};
use crate::op::{Op, ThreadId};
use crate::stream::Footprint;
use std::sync::Arc;

/// Bytes of a number.
const NUMBER_BYTES: u64 = 8;

/// An array over a grid: points along each axis, the slowest first, and numbers of each point, which lie
/// side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Array {
    pub points: [u64; 3],
    pub numbers: u64,
}

/// How the grid of an access lies to that of its nest: it has as many points, twice as many, or half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grid {
    Same,
    Finer,
    Coarser,
}

/// Numbers that each point loads or stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub array: usize,
    pub grid: Grid,
    /// Distance from the point, in points of the array's grid; at the edges what is nearest.
    pub away: [i64; 3],
    /// So many of the array's numbers, from its first.
    pub numbers: u64,
    pub store: bool,
}

/// A loop nest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nest {
    /// Points along each axis.
    pub points: [u64; 3],
    /// Axes from the outermost loop to the innermost.
    pub order: [usize; 3],
    pub accesses: Vec<Access>,
    /// Of a point, beside those that load and store.
    pub instructions: u64,
    /// Whether it goes from the last point to the first.
    pub back: bool,
}

impl Nest {
    /// Loads and stores of a point.
    pub fn of_a_point(&self) -> u64 {
        self.accesses.iter().map(|access| access.numbers).sum()
    }

    fn of_a_line(&self) -> u64 {
        self.points[self.order[2]] * self.of_a_point()
    }
}

/// `numbers` of an array loaded at a distance.
pub(super) fn load(array: usize, away: [i64; 3], numbers: u64) -> Access {
    Access { array, grid: Grid::Same, away, numbers, store: false }
}

/// `numbers` of an array stored at the point.
pub(super) fn store(array: usize, numbers: u64) -> Access {
    Access { array, grid: Grid::Same, away: [0; 3], numbers, store: true }
}

/// All of what a program does in a step, which it repeats.
#[derive(Clone)]
pub(super) struct Program {
    pub arrays: Vec<Array>,
    pub nests: Vec<Nest>,
    pub steps: u64,
    pub threads: u32,
    pub touched: bool,
    /// The parameter from which the arrays' sizes follow.
    pub parameter: &'static str,
}

/// The stream of a program.
pub(super) fn nests(program: Program) -> Made {
    let mut at = BASE_ADDRESS;
    let mut bases = Vec::new();
    for array in &program.arrays {
        bases.push(at);
        let numbers = array.points.iter().product::<u64>() * array.numbers;
        at += (numbers * NUMBER_BYTES).next_multiple_of(PAGE_BYTES);
    }
    Ok(in_units(Nests { bases, bytes: at - BASE_ADDRESS, program: Arc::new(program) }))
}

#[derive(Clone)]
struct Nests {
    program: Arc<Program>,
    bases: Vec<u64>,
    bytes: u64,
}

impl Nests {
    /// Lines of a nest that a thread has: of its part of the outermost loop, each of the next one.
    fn lines(&self, nest: &Nest, thread: ThreadId) -> u64 {
        let outer = nest.points[nest.order[0]];
        share_of(outer, self.program.threads, thread) * nest.points[nest.order[1]]
    }

    /// Pieces of work and operations of a thread in the first `until` nests of a step.
    fn so_far(&self, thread: ThreadId, until: usize) -> (u64, u64) {
        self.program.nests[..until].iter().fold((0, 0), |(units, operations), nest| {
            let lines = self.lines(nest, thread);
            let own = lines * nest.of_a_line() + barrier_length(self.program.threads);
            (units + lines + 1, operations + own)
        })
    }

    /// Step, nest and line of a piece of work.
    fn find(&self, thread: ThreadId, unit: u64) -> (u64, usize, u64) {
        let (of_a_step, _) = self.so_far(thread, self.program.nests.len());
        let (step, mut rest) = (unit / of_a_step, unit % of_a_step);
        for (number, nest) in self.program.nests.iter().enumerate() {
            let units = self.lines(nest, thread) + 1;
            if rest < units {
                return (step, number, rest);
            }
            rest -= units;
        }
        unreachable!("a piece of work is of one of the nests")
    }

    fn address(&self, access: &Access, point: [u64; 3]) -> u64 {
        let array = self.program.arrays[access.array];
        let mut at = 0;
        for ((place, points), away) in point.into_iter().zip(array.points).zip(access.away) {
            let place = match access.grid {
                Grid::Same => place,
                Grid::Finer => 2 * place,
                Grid::Coarser => place / 2,
            };
            at = at * points + place.saturating_add_signed(away).min(points - 1);
        }
        self.bases[access.array] + at * array.numbers * NUMBER_BYTES
    }
}

impl Units for Nests {
    fn threads(&self) -> u32 {
        self.program.threads
    }

    fn prelude(&self) -> Prelude {
        Prelude::table(self.bytes).touch(BASE_ADDRESS, self.bytes, self.program.touched)
    }

    fn units(&self, thread: ThreadId) -> u64 {
        self.program.steps * self.so_far(thread, self.program.nests.len()).0
    }

    fn unit(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        let (step, number, line) = self.find(thread, unit);
        let nest = &self.program.nests[number];
        if line == self.lines(nest, thread) {
            let sequence = step * self.program.nests.len() as u64 + number as u64 + 1;
            return barrier(thread, self.program.threads, sequence, out);
        }
        let [outer, middle, inner] = nest.order;
        let mut point = [0; 3];
        let line = if nest.back { self.lines(nest, thread) - 1 - line } else { line };
        let first = first_of(nest.points[outer], self.program.threads, thread);
        point[outer] = first + line / nest.points[middle];
        point[middle] = line % nest.points[middle];
        let all = nest.of_a_point();
        for place in 0..nest.points[inner] {
            point[inner] = if nest.back { nest.points[inner] - 1 - place } else { place };
            let mut count = 0;
            for access in &nest.accesses {
                let at = self.address(access, point);
                for number in 0..access.numbers {
                    let extra = super::mix::part(nest.instructions, count, all);
                    count += 1;
                    let make = if access.store { Op::store } else { Op::load };
                    let address = at + number * NUMBER_BYTES;
                    out.push(make(address, NUMBER_BYTES as u16, 1 + extra as u32));
                }
            }
        }
    }

    fn before(&self, thread: ThreadId, unit: u64) -> Option<u64> {
        let (step, number, line) = self.find(thread, unit);
        let (_, of_a_step) = self.so_far(thread, self.program.nests.len());
        let (_, before) = self.so_far(thread, number);
        Some(step * of_a_step + before + line * self.program.nests[number].of_a_line())
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.bytes, parameter: self.program.parameter }
    }

    fn accesses(&self) -> Option<u64> {
        let of = |nest: &Nest| nest.points.iter().product::<u64>() * nest.of_a_point();
        self.program.steps.checked_mul(self.program.nests.iter().map(of).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::OpKind;
    use crate::stream::Pull;

    /// A program of three nests, against loops that are written out: a stencil along two axes with the slowest axis
    /// outermost; a sweep from the last point to the first with the axes in another order; and one onto a coarser grid,
    /// of half as many points.
    #[test]
    fn nests_are_the_loops_that_they_tell_of() {
        let (points, numbers) = ([4u64, 6, 8], [2u64, 1, 1]);
        let half = [2u64, 3, 4];
        let arrays = vec![
            Array { points, numbers: numbers[0] },
            Array { points, numbers: numbers[1] },
            Array { points: half, numbers: numbers[2] },
        ];
        let on =
            |points, order, accesses, back| Nest { points, order, accesses, instructions: 7, back };
        let finer = Access { grid: Grid::Finer, away: [1, 0, -1], ..load(1, [0; 3], 1) };
        let coarser = Access { grid: Grid::Coarser, ..load(2, [0; 3], 1) };
        let all = vec![
            on(points, [0, 1, 2], vec![load(1, [-1, 0, 2], 1), store(0, 2)], false),
            on(points, [1, 2, 0], vec![load(0, [0, 1, 0], 1), coarser, store(1, 1)], true),
            on(half, [0, 1, 2], vec![finer, store(2, 1)], false),
        ];
        let program = Program {
            arrays,
            nests: all,
            steps: 2,
            threads: 1,
            touched: false,
            parameter: "class",
        };
        let mut stream = nests(program).unwrap();
        let mut ops = Vec::new();
        while stream.pull(0, 1000, &mut ops).unwrap() == Pull::More {}

        let at = |array: usize, [z, y, x]: [u64; 3], number: u64| {
            let [_, rows, columns] = if array == 2 { half } else { points };
            let place = (z * rows + y) * columns + x;
            BASE_ADDRESS + 4096 * array as u64 + (place * numbers[array] + number) * 8
        };
        let mut expected = Vec::new();
        for _ in 0..2 {
            for z in 0..4u64 {
                for y in 0..6 {
                    for x in 0..8u64 {
                        expected.push((false, at(1, [z.saturating_sub(1), y, (x + 2).min(7)], 0)));
                        expected.extend([0, 1].map(|number| (true, at(0, [z, y, x], number))));
                    }
                }
            }
            for y in (0..6u64).rev() {
                for x in (0..8).rev() {
                    for z in (0..4).rev() {
                        expected.push((false, at(0, [z, (y + 1).min(5), x], 0)));
                        expected.push((false, at(2, [z / 2, y / 2, x / 2], 0)));
                        expected.push((true, at(1, [z, y, x], 0)));
                    }
                }
            }
            for z in 0..2u64 {
                for y in 0..3u64 {
                    for x in 0..4u64 {
                        let [z2, y2, x2] = [2 * z + 1, 2 * y, (2 * x).saturating_sub(1)];
                        expected.push((false, at(1, [z2, y2, x2], 0)));
                        expected.push((true, at(2, [z, y, x], 0)));
                    }
                }
            }
        }
        let accesses = ops.iter().filter(|op| op.size() == 8 && op.kind_code() <= 2);
        let found: Vec<_> =
            accesses.map(|op| (op.kind() == Some(OpKind::Store), op.word)).collect();
        assert_eq!(stream.accesses(), Some(expected.len() as u64));
        assert!(
            found == expected,
            "the first that differs: {:?}",
            found.iter().zip(&expected).position(|(one, other)| one != other)
        );
        let points: u64 = 2 * (2 * 4 * 6 * 8 + 2 * 3 * 4);
        let instructions: u64 = ops.iter().map(|op| u64::from(op.instructions())).sum();
        let own = expected.len() as u64 + 7 * points;
        assert!(
            (own..own + 200).contains(&instructions),
            "{instructions}, not {own} and a mapping"
        );
    }
}
