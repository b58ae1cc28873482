//! `nas/cg`: the conjugate gradient method on a sparse matrix without pattern (Bailey and others, NAS-95-020,
//! 1995, CG; loops of NPB 3.3's OpenMP source, cg.f, conj_grad).
//!
//! In each of 25 steps of an iteration a thread multiplies its rows of the matrix by a vector, whose numbers
//! it picks by the columns that lie beside the matrix's numbers, and then runs through the four vectors.
//! Threads wait for each other after each loop. The matrix is implicit: each row has as many numbers as the
//! benchmark's have on average, (nonzer + 1)², in columns drawn with equal chance.

use super::indexed::{first_of, share_of};
use super::nas::{CLASS, TOUCHED, class, steps};
use super::prelude::{BASE_ADDRESS, Prelude};
use super::units::{Units, barrier, barrier_length, in_units};
use super::{Generator, Made, PAGE_BYTES, Parameter, flag, threads_of};
use crate::op::{Op, ThreadId};
use crate::stream::Footprint;
use serde_json::Value;
use tierscope_kernel::Counter;

/// Registration.
pub const GENERATORS: &[Generator] = &[Generator {
    name: "nas/cg",
    summary: "a sparse matrix without pattern times a vector, by conjugate gradients",
    dependences: "a number of the vector waits for the column that names it; numbers do not wait for each other",
    parameters: &[
        CLASS,
        Parameter {
            name: "steps",
            default: "2",
            meaning: "of conjugate gradients, 25 an iteration, of which class A has 15 and class D 100; or full, which is the class's",
        },
        Parameter { name: "threads", default: "4", meaning: "threads; 16 in [NVM10] §IV-C" },
        TOUCHED,
    ],
    build,
}];

/// Rows, and the root of the numbers of a row less one, of each class (NPB 3.3, setparams.c).
const ROWS: [u64; 6] = [1400, 7000, 14_000, 75_000, 150_000, 1_500_000];
const NONZER: [u64; 6] = [7, 8, 11, 13, 15, 21];
/// Iterations of each class (NPB 3.3, setparams.c), and steps of conjugate gradients in one (cg.f, conj_grad).
const ITERATIONS: [u64; 6] = [15, 15, 15, 75, 75, 100];
const STEPS_OF_ITERATION: u64 = 25;
const NUMBER_BYTES: u64 = 8;
const COLUMN_BYTES: u64 = 4;
const VECTORS: u64 = 5;
/// Vectors: the direction, its product, residual, solution.
const P: u64 = 0;
const Q: u64 = 1;
const R: u64 = 2;
const Z: u64 = 3;
/// Rows of a piece of work.
const CHUNK: u64 = 64;
/// Loads and stores of a row in each loop over vectors: p·q; z and r; r·r; p.
const VECTOR_LOOPS: [&[(u64, bool)]; 3] = [
    &[(P, false), (Q, false)],
    &[(P, false), (Z, false), (Z, true), (Q, false), (R, false), (R, true)],
    &[(R, false), (P, false), (P, true)],
];
const LOOPS: u64 = 1 + VECTOR_LOOPS.len() as u64;
/// Beside its accesses, of a number of the matrix and of a number of a vector: one that multiplies and adds,
/// and one of the loop: our assumption.
const INSTRUCTIONS: u32 = 2;

fn build(parameters: &[(String, Value)], seed: u64) -> Made {
    let class = class(parameters)?;
    Ok(in_units(Cg {
        rows: ROWS[class],
        of_a_row: (NONZER[class] + 1) * (NONZER[class] + 1),
        steps: steps(parameters, ITERATIONS[class] * STEPS_OF_ITERATION)?,
        threads: threads_of(parameters)?,
        touched: flag(parameters, "touched")?,
        draws: Counter::stream(seed, "nas/cg"),
    }))
}

#[derive(Clone)]
struct Cg {
    rows: u64,
    of_a_row: u64,
    steps: u64,
    threads: u32,
    touched: bool,
    draws: Counter,
}

impl Cg {
    fn numbers(&self) -> u64 {
        self.rows * self.of_a_row
    }

    fn columns_address(&self) -> u64 {
        BASE_ADDRESS + (self.numbers() * NUMBER_BYTES).next_multiple_of(PAGE_BYTES)
    }

    fn rows_address(&self) -> u64 {
        self.columns_address() + (self.numbers() * COLUMN_BYTES).next_multiple_of(PAGE_BYTES)
    }

    fn vector(&self, vector: u64, row: u64) -> u64 {
        let bytes = (self.rows * NUMBER_BYTES).next_multiple_of(PAGE_BYTES);
        let first = self.rows_address() + (self.rows * COLUMN_BYTES).next_multiple_of(PAGE_BYTES);
        first + vector * bytes + row * NUMBER_BYTES
    }

    fn bytes(&self) -> u64 {
        self.vector(VECTORS, 0) - BASE_ADDRESS
    }

    fn chunks(&self, thread: ThreadId) -> u64 {
        share_of(self.rows, self.threads, thread).div_ceil(CHUNK)
    }

    /// Accesses of a row in a loop.
    fn accesses_of(&self, number: u64) -> u64 {
        if number == 0 {
            3 * self.of_a_row + 2
        } else {
            VECTOR_LOOPS[number as usize - 1].len() as u64
        }
    }

    fn multiply(&self, row: u64, out: &mut Vec<Op>) {
        out.push(Op::load(self.rows_address() + row * COLUMN_BYTES, COLUMN_BYTES as u16, 3));
        for number in row * self.of_a_row..(row + 1) * self.of_a_row {
            let column = self.columns_address() + number * COLUMN_BYTES;
            out.push(Op::load(BASE_ADDRESS + number * NUMBER_BYTES, NUMBER_BYTES as u16, 1));
            out.push(Op::load(column, COLUMN_BYTES as u16, 1));
            let picked = self.vector(P, self.draws.below_at(number, self.rows));
            let picked = Op::load(picked, NUMBER_BYTES as u16, 1 + INSTRUCTIONS);
            out.push(picked.depending_on(1));
        }
        out.push(Op::store(self.vector(Q, row), NUMBER_BYTES as u16, 2));
    }
}

impl Units for Cg {
    fn threads(&self) -> u32 {
        self.threads
    }

    fn prelude(&self) -> Prelude {
        Prelude::table(self.bytes()).touch(BASE_ADDRESS, self.bytes(), self.touched)
    }

    fn units(&self, thread: ThreadId) -> u64 {
        self.steps * LOOPS * (self.chunks(thread) + 1)
    }

    fn unit(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        let of_a_loop = self.chunks(thread) + 1;
        let (number, chunk) = (unit / of_a_loop, unit % of_a_loop);
        if chunk + 1 == of_a_loop {
            return barrier(thread, self.threads, number + 1, out);
        }
        let own = share_of(self.rows, self.threads, thread);
        let first = first_of(self.rows, self.threads, thread);
        for row in first + chunk * CHUNK..first + own.min((chunk + 1) * CHUNK) {
            if number % LOOPS == 0 {
                self.multiply(row, out);
                continue;
            }
            for (vector, store) in VECTOR_LOOPS[(number % LOOPS) as usize - 1] {
                let make = if *store { Op::store } else { Op::load };
                let at = self.vector(*vector, row);
                out.push(make(at, NUMBER_BYTES as u16, 1 + INSTRUCTIONS / 2));
            }
        }
    }

    fn before(&self, thread: ThreadId, unit: u64) -> Option<u64> {
        let own = share_of(self.rows, self.threads, thread);
        let of_a_loop = self.chunks(thread) + 1;
        let (number, chunk) = (unit / of_a_loop, unit % of_a_loop);
        let so_far = |until: u64| {
            let of = |number| own * self.accesses_of(number) + barrier_length(self.threads);
            (0..until).map(of).sum::<u64>()
        };
        let rows = own.min(chunk * CHUNK);
        let within = so_far(number % LOOPS) + rows * self.accesses_of(number % LOOPS);
        Some(number / LOOPS * so_far(LOOPS) + within)
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.bytes(), parameter: "class" }
    }

    fn accesses(&self) -> Option<u64> {
        let of_a_step: u64 = (0..LOOPS).map(|number| self.rows * self.accesses_of(number)).sum();
        self.steps.checked_mul(of_a_step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::stream_laws;
    use crate::generator::find;
    use crate::goodness;
    use crate::op::FLAG_DEPENDENT;

    fn small(threads: u32) -> Cg {
        let draws = Counter::stream(1, "test");
        Cg { rows: 150, of_a_row: 4, steps: 2, threads, touched: true, draws }
    }

    #[test]
    fn the_streams_laws_hold() {
        for threads in [1, 3] {
            stream_laws(|| in_units(small(threads)));
        }
    }

    /// A row's columns are the same in each step, and all over the vector.
    #[test]
    fn the_matrix_is_one_and_has_no_pattern() {
        let cg = Cg { rows: 4096, of_a_row: 16, ..small(1) };
        let mut of_pages = [0u64; 8];
        for row in 0..4096 {
            let (mut once, mut again) = (Vec::new(), Vec::new());
            cg.multiply(row, &mut once);
            cg.multiply(row, &mut again);
            assert_eq!(once, again);
            for op in once.iter().filter(|op| op.flags() == FLAG_DEPENDENT) {
                of_pages[((op.word - cg.vector(P, 0)) / 4096) as usize] += 1;
            }
        }
        // 65,536 draws over 8 pages: six standard deviations of 8192 are 508.
        assert!(of_pages.iter().all(|count| count.abs_diff(8192) < 508), "{of_pages:?}");
    }

    #[test]
    fn all_steps_of_a_class_are_the_benchmarks() {
        let count = |class: &str, steps: Value| {
            let sets = [("class".to_owned(), class.into()), ("steps".to_owned(), steps)];
            find("nas/cg").unwrap().make(&sets, 0).unwrap().0.accesses().unwrap()
        };
        // What precedes the steps has accesses, too.
        let of_a_step = count("S", 2.into()) - count("S", 1.into());
        assert_eq!(count("S", "full".into()) - count("S", 0.into()), 15 * 25 * of_a_step);
        let wrong = [("steps".to_owned(), "many".into())];
        let Err(error) = find("nas/cg").unwrap().make(&wrong, 0) else { panic!("it is refused") };
        assert!(error.mend.contains("or full"), "{error:?}");
    }

    /// Numbers and columns of class D: 726 million of 12 bytes, of which \[NVM10\] Table III has 18 GB with
    /// what makes the matrix.
    #[test]
    fn class_d_has_the_numbers_of_the_benchmark() {
        let sets = [("class".to_owned(), Value::from("D"))];
        let (stream, _) = find("nas/cg").unwrap().make(&sets, 0).unwrap();
        let bytes = stream.footprint().unwrap().bytes as f64;
        assert!((bytes / (726e6 * 12.0) - 1.0).abs() < 0.01, "{bytes}");
    }

    /// Columns of all rows together are drawn alike, and so are those of one row after the other.
    #[test]
    fn columns_are_drawn_alike() {
        let cg = Cg { rows: 4096, of_a_row: 16, ..small(1) };
        let (mut columns, mut steps) = ([0; 64], [0; 64]);
        let mut last = 0;
        for row in 0..4096 {
            let mut ops = Vec::new();
            cg.multiply(row, &mut ops);
            for op in ops.iter().filter(|op| op.flags() == FLAG_DEPENDENT) {
                let column = (op.word - cg.vector(P, 0)) / 8;
                columns[(column / 64) as usize] += 1;
                steps[((column + 4096 - last) % 4096 / 64) as usize] += 1;
                last = column;
            }
        }
        goodness::are_alike(&columns);
        goodness::are_alike(&steps);
    }

    /// An iteration's loads and stores: of the product three for each number and two for each row, and eleven for
    /// each row in the loops over vectors (cg.f, conj_grad); each number and row once.
    #[test]
    fn a_step_has_the_accesses_of_its_loops() {
        let cg = Cg { touched: false, steps: 1, ..small(3) };
        let (mut loads, mut stores, mut numbers) = (0, 0, Vec::new());
        let mut stream = in_units(cg.clone());
        for thread in 0..3 {
            let mut ops = Vec::new();
            while stream.pull(thread, 1000, &mut ops) == Ok(crate::stream::Pull::More) {}
            let counts = crate::Counts::of(&ops);
            (loads, stores) = (loads + counts.loads, stores + counts.stores);
            let matrix = BASE_ADDRESS..BASE_ADDRESS + 150 * 4 * 8;
            let own = |op: &&Op| op.kind_code() == 1 && matrix.contains(&op.word);
            numbers.extend(ops.iter().filter(own).map(|op| op.word));
        }
        assert_eq!((loads, stores), (150 * (3 * 4 + 1) + 150 * 8, 150 + 150 * 3));
        let expected: Vec<u64> = (0..600).map(|number| BASE_ADDRESS + 8 * number).collect();
        assert_eq!(numbers, expected, "row by row, thread by thread");
    }
}
