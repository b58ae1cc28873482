//! `nas/is`: integers ranked by counting (Bailey and others, NAS-95-020, 1995, IS; loops of NPB 3.3's OpenMP
//! source, is.c, rank, without buckets).
//!
//! In an iteration each thread counts its part of the keys, each in a table of its own, adds the counts of
//! its part of the table over all threads, and sums them up; threads wait for each other in between. A key
//! is the mean of four numbers drawn with equal chance, as the benchmark's are.

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
    name: "nas/is",
    summary: "integers ranked by counting them",
    dependences: "a count waits for the key that it counts; what sums counts waits for nothing",
    parameters: &[
        CLASS,
        Parameter {
            name: "steps",
            default: "1",
            meaning: "iterations, or full, which is the benchmark's 10",
        },
        Parameter { name: "threads", default: "4", meaning: "threads; 16 in [NVM10] §IV-C" },
        TOUCHED,
    ],
    build,
}];

/// Powers of two: keys, and the largest key, of each class (NPB 3.3, is.c).
const KEYS: [u32; 6] = [16, 20, 23, 25, 27, 31];
const LARGEST: [u32; 6] = [11, 16, 19, 21, 23, 27];
/// Iterations of every class (NPB 3.3, is.c, `MAX_ITERATIONS`).
const ITERATIONS: u64 = 10;
/// Class D's integers have 8 bytes, others 4.
const WIDE: usize = 5;
/// Keys, or counts, of a piece of work.
const CHUNK: u64 = 256;
/// Counting, adding up the threads' tables, and summing.
const LOOPS: u64 = 3;

fn build(parameters: &[(String, Value)], seed: u64) -> Made {
    let class = class(parameters)?;
    Ok(in_units(Is {
        keys: 1 << KEYS[class],
        largest: 1 << LARGEST[class],
        bytes_of_one: if class == WIDE { 8 } else { 4 },
        steps: steps(parameters, ITERATIONS)?,
        threads: threads_of(parameters)?,
        touched: flag(parameters, "touched")?,
        draws: Counter::stream(seed, "nas/is"),
    }))
}

#[derive(Clone)]
struct Is {
    keys: u64,
    largest: u64,
    bytes_of_one: u64,
    steps: u64,
    threads: u32,
    touched: bool,
    draws: Counter,
}

impl Is {
    fn key(&self, number: u64) -> u64 {
        let bits = self.draws.at(number);
        let sum: u64 = (0..4).map(|part| bits >> (16 * part) & 0xffff).sum();
        // The mean of four numbers of [0, 1), by 16 bits each, times the largest key.
        ((u128::from(sum) * u128::from(self.largest)) >> 18) as u64
    }

    /// The `number`-th integer of the keys (0), of their copy (1), of the ranks (2), and of the threads'
    /// tables from 3 on.
    fn address(&self, array: u64, number: u64) -> u64 {
        let keys = (self.keys * self.bytes_of_one).next_multiple_of(PAGE_BYTES);
        let counts = (self.largest * self.bytes_of_one).next_multiple_of(PAGE_BYTES);
        let first = if array < 2 { array * keys } else { 2 * keys + (array - 2) * counts };
        BASE_ADDRESS + first + number * self.bytes_of_one
    }

    fn bytes(&self) -> u64 {
        self.address(3 + u64::from(self.threads), 0) - BASE_ADDRESS
    }

    fn count_of(&self, number: u64) -> u64 {
        if number == 0 { self.keys } else { self.largest }
    }

    fn chunks(&self, thread: ThreadId, number: u64) -> u64 {
        share_of(self.count_of(number), self.threads, thread).div_ceil(CHUNK)
    }

    /// Accesses of one key or count in a loop.
    fn accesses_of(&self, number: u64) -> u64 {
        [4, u64::from(self.threads) + 1, 2][number as usize]
    }

    /// Pieces of work and operations of a thread in the first loops of a step.
    fn so_far(&self, thread: ThreadId, until: u64) -> (u64, u64) {
        (0..until).fold((0, 0), |(units, operations), number| {
            let own = share_of(self.count_of(number), self.threads, thread);
            let accesses = own * self.accesses_of(number) + barrier_length(self.threads);
            (units + self.chunks(thread, number) + 1, operations + accesses)
        })
    }

    fn find(&self, thread: ThreadId, unit: u64) -> (u64, u64, u64) {
        let (of_a_step, _) = self.so_far(thread, LOOPS);
        let (step, mut rest) = (unit / of_a_step, unit % of_a_step);
        for number in 0..LOOPS {
            let units = self.chunks(thread, number) + 1;
            if rest < units {
                return (step, number, rest);
            }
            rest -= units;
        }
        unreachable!("a piece of work is of one of the loops")
    }

    fn one(&self, thread: ThreadId, number: u64, at: u64, out: &mut Vec<Op>) {
        let size = self.bytes_of_one as u16;
        match number {
            0 => {
                // The key, its copy, and its count.
                let count = self.address(3 + u64::from(thread), self.key(at));
                out.push(Op::load(self.address(0, at), size, 2));
                out.push(Op::store(self.address(1, at), size, 1));
                out.push(Op::load(count, size, 1).depending_on(1));
                out.push(Op::store(count, size, 2).depending_on(2));
            }
            1 => {
                let tables = 3..3 + u64::from(self.threads);
                out.extend(tables.map(|table| Op::load(self.address(table, at), size, 2)));
                out.push(Op::store(self.address(2, at), size, 2));
            }
            _ => {
                out.push(Op::load(self.address(2, at), size, 2));
                out.push(Op::store(self.address(2, at), size, 2));
            }
        }
    }
}

impl Units for Is {
    fn threads(&self) -> u32 {
        self.threads
    }

    fn prelude(&self) -> Prelude {
        Prelude::table(self.bytes()).touch(BASE_ADDRESS, self.bytes(), self.touched)
    }

    fn units(&self, thread: ThreadId) -> u64 {
        self.steps * self.so_far(thread, LOOPS).0
    }

    fn unit(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        let (step, number, chunk) = self.find(thread, unit);
        if chunk == self.chunks(thread, number) {
            return barrier(thread, self.threads, step * LOOPS + number + 1, out);
        }
        let own = share_of(self.count_of(number), self.threads, thread);
        let first = first_of(self.count_of(number), self.threads, thread);
        for at in first + chunk * CHUNK..first + own.min((chunk + 1) * CHUNK) {
            self.one(thread, number, at, out);
        }
    }

    fn before(&self, thread: ThreadId, unit: u64) -> Option<u64> {
        let (step, number, chunk) = self.find(thread, unit);
        let own = share_of(self.count_of(number), self.threads, thread).min(chunk * CHUNK);
        let (_, of_a_step) = self.so_far(thread, LOOPS);
        let (_, before) = self.so_far(thread, number);
        Some(step * of_a_step + before + own * self.accesses_of(number))
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.bytes(), parameter: "class" }
    }

    fn accesses(&self) -> Option<u64> {
        let of = |number| self.count_of(number) * self.accesses_of(number);
        self.steps.checked_mul((0..LOOPS).map(of).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::stream_laws;
    use crate::generator::find;
    use crate::goodness;

    fn small(threads: u32) -> Is {
        let draws = Counter::stream(1, "test");
        Is { keys: 700, largest: 64, bytes_of_one: 4, steps: 2, threads, touched: false, draws }
    }

    #[test]
    fn the_streams_laws_hold() {
        for threads in [1, 3] {
            stream_laws(|| in_units(small(threads)));
        }
    }

    /// The mean of four numbers of equal chance: its mean is a half, its variance 1/48.
    #[test]
    fn keys_are_means_of_four() {
        let is = Is { largest: 1 << 19, ..small(1) };
        let keys: Vec<f64> = (0..40_000).map(|i| is.key(i) as f64 / (1u64 << 19) as f64).collect();
        let mean = keys.iter().sum::<f64>() / 40_000.0;
        let variance = keys.iter().map(|key| (key - mean).powi(2)).sum::<f64>() / 40_000.0;
        // Six standard errors: of the mean 0.0043, of the variance about 0.0008.
        assert!((mean - 0.5).abs() < 0.0043, "{mean}");
        assert!((variance - 1.0 / 48.0).abs() < 0.0008, "{variance}");
    }

    #[test]
    fn all_steps_are_ten() {
        let count = |steps: Value| {
            let sets = [("class".to_owned(), "S".into()), ("steps".to_owned(), steps)];
            find("nas/is").unwrap().make(&sets, 0).unwrap().0.accesses().unwrap()
        };
        assert_eq!(count("full".into()), count(10.into()));
    }

    /// \[NVM10\] Table III: 35 GB of class D, by 16 threads with tables of their own 2 GB more each.
    #[test]
    fn memory_of_class_d_is_that_of_the_paper() {
        let sets = [("class".to_owned(), Value::from("D")), ("threads".to_owned(), 1.into())];
        let (stream, _) = find("nas/is").unwrap().make(&sets, 0).unwrap();
        let bytes = stream.footprint().unwrap().bytes as f64;
        assert!((bytes / 35e9 - 1.0).abs() < 0.06, "{bytes}");
    }

    /// The whole distribution of that mean: a sum of four (Irwin, Hall, Biometrika 19, 1927).
    #[test]
    fn keys_follow_the_law_of_irwin_and_hall() {
        let is = Is { largest: 1 << 30, ..small(1) };
        let keys = (0..40_000).map(|i| is.key(i) as f64 / (1u64 << 30) as f64).collect();
        goodness::follow(keys, |mean| {
            let x = 4.0 * mean;
            let of = |k: f64, chosen: f64| chosen * (x - k).max(0.0).powi(4);
            (of(0.0, 1.0) - of(1.0, 4.0) + of(2.0, 6.0) - of(3.0, 4.0)) / 24.0
        });
    }

    /// Each key is read, copied and counted once, in its thread's table; each count is read of every table, and
    /// summed once.
    #[test]
    fn an_iteration_counts_each_key_and_sums_each_count() {
        let is = Is { steps: 1, ..small(3) };
        let mut stream = in_units(is.clone());
        let (mut keys, mut counted, mut all) = (Vec::new(), 0, crate::Counts::default());
        for thread in 0..3 {
            let mut ops = Vec::new();
            while stream.pull(thread, 1000, &mut ops) == Ok(crate::stream::Pull::More) {}
            let of = |array: u64| is.address(array, 0)..is.address(array + 1, 0);
            let copies = ops.iter().filter(|op| op.kind_code() == 2 && of(1).contains(&op.word));
            keys.extend(copies.map(|op| (op.word - is.address(1, 0)) / 4));
            let own = of(3 + u64::from(thread));
            counted +=
                ops.iter().filter(|op| op.kind_code() == 2 && own.contains(&op.word)).count();
            all += crate::Counts::of(&ops);
        }
        assert_eq!(keys, (0..700).collect::<Vec<_>>());
        assert_eq!(counted, 700);
        // Two loads and two stores a key; of a count one load of each table and one of the sum, and two stores.
        assert_eq!((all.loads, all.stores), (2 * 700 + 64 * (3 + 1), 2 * 700 + 64 * 2));
    }
}
