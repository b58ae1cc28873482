//! `rodinia/nn`: the records of a file that are nearest to a place, as Rodinia's program finds them (Che
//! and others, IISWC 2009; \[HAMS21\] Table III).
//!
//! Each record of 49 bytes is read by words from a mapped file, its latitude and longitude are taken from
//! its text, and its distance is compared with those of the nearest so far; it takes the place of one of
//! them with the chance that a record in random order has. Each thread has a part of the records and
//! nearest of its own; the program's own parallel loop is over ten records at a time.

use super::indexed::{first_of, share_of};
use super::mix::Mix;
use super::prelude::{BASE_ADDRESS, Prelude};
use super::units::{Units, in_units};
use super::{
    Generator, Made, PAGE_BYTES, Parameter, ParameterError, data_set, find_value, integer, share,
    threads_of, wrong,
};
use crate::op::{MAP_SHARED, MAP_WRITABLE, NO_FILE, Op, ThreadId};
use crate::stream::{FileInfo, Footprint};
use serde_json::Value;
use tierscope_kernel::Counter;

/// Registration.
pub const GENERATORS: &[Generator] = &[Generator {
    name: "rodinia/nn",
    summary: "the records of a mapped file that are nearest to a place",
    dependences: "",
    parameters: &[
        Parameter {
            name: "size",
            default: "\"quick\"",
            meaning: "of the file: quick is 16MiB, full the 7GiB of [HAMS21] Table III, or a size",
        },
        Parameter {
            name: "neighbours",
            default: "5",
            meaning: "nearest records that are sought: of Rodinia's run script",
        },
        Parameter { name: "threads", default: "1", meaning: "threads. Our choice." },
        Parameter {
            name: "instructions",
            default: "945",
            meaning: "of a record: 145G ([HAMS21] Table III) over the records of 7GiB",
        },
        Parameter { name: "loads", default: "0.16", meaning: "share of them ([HAMS21] Table III)" },
        Parameter {
            name: "stores",
            default: "0.05",
            meaning: "share of them ([HAMS21] Table III)",
        },
    ],
    build,
}];

const FILE_ADDRESS: u64 = 0x20_0000_0000;
/// A record, where its latitude and longitude begin, and digits of each (nn_openmp.c).
const RECORD_BYTES: u64 = 49;
const POSITIONS: [u64; 2] = [27, 32];
const DIGITS: u64 = 5;
const WORD_BYTES: u64 = 8;
/// Bytes of one of the nearest: its record and its distance.
const NEIGHBOUR_BYTES: u64 = 64;

fn build(parameters: &[(String, Value)], seed: u64) -> Made {
    let bytes = data_set(parameters, "size", 16 << 20, 7 << 30)?;
    let neighbours = integer(parameters, "neighbours", 1..=1000)?;
    Ok(in_units(Nn {
        records: bytes / RECORD_BYTES,
        neighbours,
        threads: threads_of(parameters)?,
        mix: mix(parameters, neighbours)?,
        draws: Counter::stream(seed, "rodinia/nn"),
    }))
}

fn mix(parameters: &[(String, Value)], neighbours: u64) -> Result<Mix, ParameterError> {
    let instructions = integer(parameters, "instructions", 1..=1_000_000)?;
    let mix = Mix::of(instructions, share(parameters, "loads")?, share(parameters, "stores")?);
    let words = RECORD_BYTES.div_ceil(WORD_BYTES);
    let (loads, stores) = (words + 2 * DIGITS + neighbours, 2 * words + 2);
    if mix.loads < loads || mix.stores < stores || mix.accesses() > instructions {
        let reason = format!(
            "with these shares it has {} loads and {} stores, and a record takes up to {loads} and \
             {stores}",
            mix.loads, mix.stores
        );
        let value = find_value(parameters, "instructions");
        return Err(wrong("instructions", value, &reason, "write more, or other shares"));
    }
    Ok(mix)
}

#[derive(Clone)]
struct Nn {
    records: u64,
    neighbours: u64,
    threads: u32,
    mix: Mix,
    draws: Counter,
}

impl Nn {
    fn file_bytes(&self) -> u64 {
        (self.records * RECORD_BYTES).next_multiple_of(PAGE_BYTES)
    }

    /// Memory of a thread: a page of its own, with a record, and its nearest.
    fn own_bytes(&self) -> u64 {
        PAGE_BYTES + (self.neighbours * NEIGHBOUR_BYTES).next_multiple_of(PAGE_BYTES)
    }

    fn record(&self, record: u64, place: u64, own: u64, out: &mut Vec<Op>) {
        let at = FILE_ADDRESS + record * RECORD_BYTES;
        let copy = own + 1024;
        let words = || (0..RECORD_BYTES).step_by(WORD_BYTES as usize);
        let size = |offset: u64| WORD_BYTES.min(RECORD_BYTES - offset) as u16;
        for offset in words() {
            out.push(Op::load(at + offset, size(offset), 1));
            out.push(Op::store(copy + offset, size(offset), 1));
        }
        for position in POSITIONS {
            out.extend((0..DIGITS).map(|digit| Op::load(copy + position + digit, 1, 1)));
        }
        out.push(Op::store(copy + RECORD_BYTES.next_multiple_of(8), 8, 1));
        let nearest = own + PAGE_BYTES;
        let distance = |number: u64| nearest + number * NEIGHBOUR_BYTES + 56;
        out.extend((0..self.neighbours).map(|number| Op::load(distance(number), 8, 1)));
        // The record at place n of a random order is among the k nearest so far with chance k/n.
        if self.draws.below_at(2 * record, place + 1) < self.neighbours {
            let number = self.draws.below_at(2 * record + 1, self.neighbours);
            let to = nearest + number * NEIGHBOUR_BYTES;
            out.extend(words().map(|offset| Op::store(to + offset, size(offset), 1)));
            out.push(Op::store(distance(number), 8, 1));
        }
    }
}

impl Nn {
    /// Accesses to data of a thread's record, and where its own lines are.
    fn data(&self, thread: ThreadId, unit: u64) -> (Vec<Op>, u64) {
        let own = BASE_ADDRESS + self.own_bytes() * u64::from(thread);
        let record = first_of(self.records, self.threads, thread) + unit;
        let mut data = Vec::new();
        self.record(record, unit, own, &mut data);
        (data, own)
    }
}

impl Units for Nn {
    fn threads(&self) -> u32 {
        self.threads
    }

    fn prelude(&self) -> Prelude {
        let opened = Prelude::default().open(0, self.file_bytes());
        let mapped = opened.map(FILE_ADDRESS, self.file_bytes(), MAP_SHARED, 0);
        let bytes = self.own_bytes() * u64::from(self.threads);
        mapped.map(BASE_ADDRESS, bytes, MAP_WRITABLE, NO_FILE)
    }

    fn units(&self, thread: ThreadId) -> u64 {
        share_of(self.records, self.threads, thread)
    }

    fn unit(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        let (data, own) = self.data(thread, unit);
        self.mix.spread(&data, own, out);
    }

    fn condensed(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        let (data, own) = self.data(thread, unit);
        self.mix.condense(&data, own, out);
    }

    fn before(&self, _thread: ThreadId, unit: u64) -> Option<u64> {
        Some(unit * self.mix.accesses())
    }

    fn footprint(&self) -> Footprint {
        let own_bytes = self.own_bytes() * u64::from(self.threads);
        Footprint { bytes: self.file_bytes() + own_bytes, parameter: "size" }
    }

    fn accesses(&self) -> Option<u64> {
        Some(self.records * self.mix.accesses())
    }

    fn files(&self) -> Vec<FileInfo> {
        vec![FileInfo { name: "nn.records".into(), size_bytes: self.file_bytes() }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::stream_laws;
    use crate::counts::Counts;
    use crate::generator::find;
    use crate::goodness;
    use crate::stream::Pull;

    #[test]
    fn the_streams_laws_hold() {
        for threads in [1u32, 3] {
            let sets =
                [("size".to_owned(), Value::from("8KiB")), ("threads".to_owned(), threads.into())];
            stream_laws(|| find("rodinia/nn").unwrap().make(&sets, 3).unwrap().0);
        }
    }

    #[test]
    fn records_are_read_in_order_few_become_neighbours_and_the_mix_is_that_of_table_iii() {
        let sets = [("size".to_owned(), Value::from("1MiB"))];
        let (mut stream, _) = find("rodinia/nn").unwrap().make(&sets, 3).unwrap();
        let mut ops = Vec::new();
        while stream.pull(0, 1 << 16, &mut ops).unwrap() == Pull::More {}
        let records = (1 << 20) / RECORD_BYTES;
        let counts = Counts::of(&ops);
        assert_eq!((counts.loads, counts.stores), (records * 151, records * 47));
        let file = FILE_ADDRESS..FILE_ADDRESS + (1 << 20);
        let reads: Vec<u64> = ops
            .iter()
            .filter(|op| op.kind_code() == 1 && file.contains(&op.word))
            .map(|op| op.word)
            .collect();
        assert_eq!(reads.len() as u64, records * 7);
        assert!(reads.is_sorted());
        // k (1 + ln(n / k)) of n, about; six standard deviations.
        let stored = |op: &&Op| {
            op.kind_code() == 2
                && op.size() == 8
                && op.word >= BASE_ADDRESS + PAGE_BYTES
                && (op.word - BASE_ADDRESS - PAGE_BYTES) % NEIGHBOUR_BYTES == 56
                && op.word < FILE_ADDRESS
        };
        let replaced = ops.iter().filter(stored).count() as f64;
        let expected = 5.0 * (1.0 + (records as f64 / 5.0).ln());
        assert!((replaced - expected).abs() < 6.0 * expected.sqrt(), "{replaced} for {expected}");
    }

    #[test]
    fn the_full_size_is_that_of_table_iii() {
        let sets = [("size".to_owned(), Value::from("full"))];
        let (stream, _) = find("rodinia/nn").unwrap().make(&sets, 0).unwrap();
        let instructions = stream.accesses().unwrap() as f64 / (198.0 / 945.0);
        assert!((instructions / 145e9 - 1.0).abs() < 0.01, "{instructions}");
    }

    /// A record is among the nearest with the chance that a random order gives it, and takes the place of any
    /// of them.
    #[test]
    fn records_replace_neighbours_as_in_a_random_order() {
        let nn = Nn {
            records: 4000,
            neighbours: 5,
            threads: 1,
            mix: Mix::of(945, 0.16, 0.05),
            draws: Counter::stream(3, "test"),
        };
        let (mut replaced, mut places, mut expected) = ([0; 9], [0; 5], [0.0; 9]);
        for run in 0..500 {
            for place in 0..200 {
                let mut ops = Vec::new();
                nn.record(run * 200 + place, place, BASE_ADDRESS, &mut ops);
                let last = ops.pop().unwrap();
                let cell = place.checked_ilog2().map_or(0, |log| log as usize);
                expected[cell] += (5.0 / (place + 1) as f64).min(1.0);
                if last.kind_code() == 2 {
                    replaced[cell] += 1;
                    places[((last.word - BASE_ADDRESS - PAGE_BYTES) / NEIGHBOUR_BYTES) as usize] +=
                        1;
                }
            }
        }
        goodness::are_alike(&places);
        goodness::have_weights(&replaced, expected);
        assert_eq!(replaced[0], 1000, "the first of all are the nearest so far");
    }
}
