//! `zipf`: loads and stores of which few places get most, by Zipf's law (Zipf, "Human Behavior and the
//! Principle of Least Effort", 1949): the k-th most frequent has a chance proportional to k^−exponent.
//!
//! A place is chosen by its rank, and an element of 8 B within it with equal chance. Ranks lie scattered
//! over the table, in a random order, or one behind the other.

use super::indexed::{BASE_ADDRESS, Body, Indexed, share_of};
use super::prelude::Prelude;
use super::zipfian::{MOST_EXPONENT, Zipfian};
use super::{
    Generator, Made, PAGE_BYTES, Parameter, data_set, find_value, flag, integer, share, size,
    threads_of, wrong,
};
use crate::op::{Op, ThreadId};
use crate::stream::Footprint;
use serde_json::Value;
use std::sync::Arc;
use tierscope_kernel::{Counter, Permutation};

/// Registration.
pub const GENERATORS: &[Generator] = &[Generator {
    name: "zipf",
    summary: "loads and stores by Zipf's law in anonymous memory",
    dependences: "",
    parameters: &[
        Parameter {
            name: "table",
            default: "\"64MiB\"",
            meaning: "what they lie in: a whole number of pages. Our choice.",
        },
        Parameter { name: "accesses", default: "1000000", meaning: "in all. Our choice." },
        Parameter {
            name: "exponent",
            default: "0.99",
            meaning: "of Zipf's law, from 0, where all places are as likely, to 4; 0.99 is that of \
                      YCSB (Cooper and others, SoCC 2010, §4)",
        },
        Parameter {
            name: "place",
            default: "\"64B\"",
            meaning: "what has a rank: a line, or as much as a page. Our choice.",
        },
        Parameter {
            name: "scattered",
            default: "true",
            meaning: "whether ranks lie in a random order, or one behind the other",
        },
        Parameter { name: "writes", default: "0.3", meaning: "share that stores. Our choice." },
        Parameter { name: "threads", default: "1", meaning: "threads. Our choice." },
        Parameter {
            name: "instructions",
            default: "8",
            meaning: "instructions of an access, its load or store included; assumption: index \
                      arithmetic, as of mmap",
        },
        Parameter {
            name: "touched",
            default: "true",
            meaning: "whether each page is written to once before the region of interest, which then \
                      begins",
        },
    ],
    build,
}];

const ELEMENT_BYTES: u64 = 8;

fn build(parameters: &[(String, Value)], seed: u64) -> Made {
    let table_bytes = data_set(parameters, "table", 64 << 20, 1 << 36)?;
    let place_bytes = size(parameters, "place")?;
    if !(ELEMENT_BYTES..=PAGE_BYTES).contains(&place_bytes) || !place_bytes.is_power_of_two() {
        let reason = "not a power of two from 8B to 4KiB";
        return Err(wrong("place", find_value(parameters, "place"), reason, "write 64B or 4KiB"));
    }
    let places = table_bytes / place_bytes;
    let scattered = flag(parameters, "scattered")?;
    Ok(Indexed::boxed(Zipf {
        table_bytes,
        place_bytes,
        accesses: integer(parameters, "accesses", 0..=1 << 50)?,
        ranks: Zipfian::new(places, exponent(parameters)?),
        order: scattered.then(|| Arc::new(Permutation::new(seed, "zipf", places))),
        writes: share(parameters, "writes")?,
        threads: threads_of(parameters)?,
        instructions: integer(parameters, "instructions", 1..=1_000_000)? as u32,
        touched: flag(parameters, "touched")?,
        draws: Counter::stream(seed, "zipf/ranks"),
        others: Counter::stream(seed, "zipf/elements"),
    }))
}

/// An exponent of Zipf's law.
pub(super) fn exponent(parameters: &[(String, Value)]) -> Result<f64, super::ParameterError> {
    let value = find_value(parameters, "exponent");
    value.as_f64().filter(|exponent| (0.0..=MOST_EXPONENT).contains(exponent)).ok_or_else(|| {
        let reason = "not an exponent of Zipf's law that is taken";
        wrong("exponent", value, reason, "write a number from 0 to 4, such as 0.99")
    })
}

#[derive(Clone)]
struct Zipf {
    table_bytes: u64,
    place_bytes: u64,
    accesses: u64,
    ranks: Zipfian,
    /// Where each rank lies.
    order: Option<Arc<Permutation>>,
    writes: f64,
    threads: u32,
    instructions: u32,
    touched: bool,
    draws: Counter,
    others: Counter,
}

impl Body for Zipf {
    fn threads(&self) -> u32 {
        self.threads
    }

    fn prelude(&self) -> Prelude {
        Prelude::table(self.table_bytes).touch(BASE_ADDRESS, self.table_bytes, self.touched)
    }

    fn operations(&self, thread: ThreadId) -> u64 {
        share_of(self.accesses, self.threads, thread)
    }

    fn operation(&self, thread: ThreadId, place: u64) -> Op {
        let index = place * u64::from(self.threads) + u64::from(thread);
        let rank = self.ranks.at(&self.draws, index);
        let at = self.order.as_ref().map_or(rank, |order| order.at(rank));
        let element = self.others.below_at(2 * index, self.place_bytes / ELEMENT_BYTES);
        let address = BASE_ADDRESS + at * self.place_bytes + element * ELEMENT_BYTES;
        if self.others.unit_at(2 * index + 1) < self.writes {
            Op::store(address, ELEMENT_BYTES as u16, self.instructions)
        } else {
            Op::load(address, ELEMENT_BYTES as u16, self.instructions)
        }
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.table_bytes, parameter: "table" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{ops_of_thread, stream_laws};
    use crate::generator::find;
    use crate::goodness;
    use crate::op::OpKind;
    use std::collections::BTreeMap;

    fn sets(all: &[(&str, Value)]) -> Vec<(String, Value)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    #[test]
    fn the_streams_laws_hold() {
        for (threads, touched, scattered) in [(1, true, true), (3, false, false)] {
            let sets = sets(&[
                ("table", "64KiB".into()),
                ("accesses", 1000.into()),
                ("threads", threads.into()),
                ("touched", touched.into()),
                ("scattered", scattered.into()),
            ]);
            stream_laws(|| find("zipf").unwrap().make(&sets, 3).unwrap().0);
        }
    }

    #[test]
    fn few_places_get_most_and_stores_are_as_many_as_asked() {
        let sets = sets(&[
            ("table", "4MiB".into()),
            ("accesses", 40_000.into()),
            ("exponent", 1.0.into()),
            ("scattered", false.into()),
            ("touched", false.into()),
        ]);
        let (mut stream, _) = find("zipf").unwrap().make(&sets, 3).unwrap();
        let ops = ops_of_thread(stream.as_mut(), 0);
        let accesses = &ops[ops.len() - 40_000..];
        let mut of: BTreeMap<u64, u64> = BTreeMap::new();
        for op in accesses {
            *of.entry((op.word - BASE_ADDRESS) / 64).or_default() += 1;
        }
        let harmonic: f64 = (1..=65_536).map(|k| 1.0 / f64::from(k)).sum();
        for (rank, chance) in [(0, 1.0), (1, 0.5), (9, 0.1)] {
            let expected = 40_000.0 * chance / harmonic;
            assert!((of[&rank] as f64 - expected).abs() < 6.0 * expected.sqrt(), "rank {rank}");
        }
        let stores = accesses.iter().filter(|op| op.kind() == Some(OpKind::Store)).count() as f64;
        // Six standard deviations of 40,000 draws at 0.3.
        assert!((stores - 12_000.0).abs() < 550.0, "{stores}");
    }

    #[test]
    fn wrong_parameters_are_refused() {
        for (name, value, mend) in [
            ("exponent", Value::from(-1), "from 0 to 4"),
            ("place", "100B".into(), "64B or 4KiB"),
            ("table", "100B".into(), "such as 64MiB"),
            ("threads", 0.into(), "from 1 to 4096"),
        ] {
            let told = find("zipf").unwrap().make(&sets(&[(name, value)]), 0).err().unwrap();
            assert!(told.to_string().contains(mend), "{told}");
        }
    }

    /// Every place is met by its rank's weight, every element of one alike, and stores are as many as asked.
    #[test]
    fn places_are_met_by_their_ranks_and_elements_alike() {
        let given = sets(&[
            ("table", "4KiB".into()),
            ("accesses", 60_000.into()),
            ("exponent", 0.8.into()),
            ("writes", 0.2.into()),
            ("threads", 2.into()),
            ("touched", false.into()),
        ]);
        let (mut stream, _) = find("zipf").unwrap().make(&given, 3).unwrap();
        let order = Permutation::new(3, "zipf", 64);
        let (mut ranks, mut elements, mut stores, mut all) = ([0; 64], [0; 8], 0, 0);
        for thread in [0, 1] {
            let ops = ops_of_thread(stream.as_mut(), thread);
            for op in ops.iter().filter(|op| op.size() == 8 && op.instructions() == 8) {
                let at = op.word - BASE_ADDRESS;
                ranks[order.inverse(at / 64) as usize] += 1;
                elements[(at % 64 / 8) as usize] += 1;
                stores += u64::from(op.kind() == Some(OpKind::Store));
                all += 1;
            }
        }
        assert_eq!(all, 60_000);
        goodness::have_weights(&ranks, (1..=64).map(|rank| f64::from(rank).powf(-0.8)));
        goodness::are_alike(&elements);
        goodness::have_share(stores, all, 0.2);
    }
}
