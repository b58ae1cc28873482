//! `thrash`: random updates of an array larger than memory, by threads each in a region of its own, after
//! each page was touched once (\[NVM10\] §IV-C).

use super::indexed::{BASE_ADDRESS, Body, Indexed, share_of};
use super::prelude::Prelude;
use super::{
    Generator, Made, PAGE_BYTES, Parameter, data_set, find_value, flag, integer, threads_of, wrong,
};
use crate::op::{Op, ThreadId};
use crate::stream::Footprint;
use serde_json::Value;
use tierscope_kernel::Counter;

/// Registration.
pub const GENERATORS: &[Generator] = &[Generator {
    name: "thrash",
    summary: "random updates by threads, each in a region of its own of a large array",
    dependences: "",
    parameters: &[
        Parameter {
            name: "size",
            default: "\"quick\"",
            meaning: "of the array: quick is 64MiB, full 60GiB, or a size; [NVM10] §IV-C has 4 to 60 GB",
        },
        Parameter {
            name: "updates",
            default: "200000",
            meaning: "in all, divided over the threads. Our choice.",
        },
        Parameter { name: "threads", default: "16", meaning: "threads ([NVM10] §IV-C)" },
        Parameter {
            name: "instructions",
            default: "10",
            meaning: "of an update, its load and store included; assumption, as of gups",
        },
        Parameter {
            name: "touched",
            default: "true",
            meaning: "whether each page is written to once before the region of interest, which then \
                      begins ([NVM10] §IV-C)",
        },
    ],
    build,
}];

/// An integer of the array ([NVM10] §IV-C).
const ELEMENT_BYTES: u64 = 4;

fn build(parameters: &[(String, Value)], seed: u64) -> Made {
    let bytes = data_set(parameters, "size", 64 << 20, 60 << 30)?;
    let threads = threads_of(parameters)?;
    if bytes / PAGE_BYTES < u64::from(threads) {
        let reason = "it has fewer pages than there are threads";
        return Err(wrong("size", find_value(parameters, "size"), reason, "write 64MiB"));
    }
    Ok(Indexed::boxed(Thrash {
        bytes,
        updates: integer(parameters, "updates", 0..=1 << 50)?,
        threads,
        instructions: integer(parameters, "instructions", 2..=1_000_000)? as u32,
        touched: flag(parameters, "touched")?,
        draws: (0..threads)
            .map(|thread| Counter::stream(seed, &format!("thrash/{thread}")))
            .collect(),
    }))
}

#[derive(Clone)]
struct Thrash {
    bytes: u64,
    updates: u64,
    threads: u32,
    instructions: u32,
    touched: bool,
    draws: Vec<Counter>,
}

impl Body for Thrash {
    fn threads(&self) -> u32 {
        self.threads
    }

    fn prelude(&self) -> Prelude {
        Prelude::table(self.bytes).touch(BASE_ADDRESS, self.bytes, self.touched)
    }

    fn operations(&self, thread: ThreadId) -> u64 {
        2 * share_of(self.updates, self.threads, thread)
    }

    fn operation(&self, thread: ThreadId, place: u64) -> Op {
        let region_bytes = self.bytes / u64::from(self.threads) / PAGE_BYTES * PAGE_BYTES;
        let draws = &self.draws[thread as usize];
        let element = draws.below_at(place / 2, region_bytes / ELEMENT_BYTES);
        let address = BASE_ADDRESS + u64::from(thread) * region_bytes + element * ELEMENT_BYTES;
        if place.is_multiple_of(2) {
            Op::load(address, ELEMENT_BYTES as u16, self.instructions - 1)
        } else {
            Op::store(address, ELEMENT_BYTES as u16, 1)
        }
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.bytes, parameter: "size" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::stream_laws;
    use crate::generator::find;
    use crate::goodness;

    #[test]
    fn the_streams_laws_hold_and_threads_keep_to_their_regions() {
        let sets = [
            ("size".to_owned(), Value::from("128KiB")),
            ("updates".to_owned(), 600.into()),
            ("threads".to_owned(), 3.into()),
        ];
        stream_laws(|| find("thrash").unwrap().make(&sets, 3).unwrap().0);
        let (mut stream, _) = find("thrash").unwrap().make(&sets, 3).unwrap();
        for thread in [1u32, 2] {
            let mut ops = Vec::new();
            stream.pull(thread, 1000, &mut ops).unwrap();
            let region = BASE_ADDRESS + u64::from(thread) * 10 * 4096;
            assert_eq!(ops.len(), 400);
            assert!(ops.iter().all(|op| (region..region + 10 * 4096).contains(&op.word)));
            assert!(ops.chunks(2).all(|update| update[0].word == update[1].word));
        }
    }

    /// Updates meet all elements of a thread's region alike.
    #[test]
    fn updates_meet_all_elements_of_a_region_alike() {
        let sets =
            [("size", Value::from("2MiB")), ("updates", 60_000.into()), ("threads", 2.into())];
        let sets = sets.map(|(name, value)| (name.to_owned(), value));
        let (mut stream, _) = find("thrash").unwrap().make(&sets, 3).unwrap();
        let (mut ops, mut parts, mut words) = (Vec::new(), [0; 64], [0; 8]);
        stream.pull(1, 100_000, &mut ops).unwrap();
        assert_eq!(ops.len(), 60_000);
        for update in ops.chunks(2) {
            let element = (update[0].word - BASE_ADDRESS - (1 << 20)) / 8;
            parts[(element / 2048) as usize] += 1;
            words[(element % 8) as usize] += 1;
        }
        goodness::are_alike(&parts);
        goodness::are_alike(&words);
    }
}
