//! `strided`: accesses at a fixed distance from each other through anonymous memory, around and around.

use super::indexed::{BASE_ADDRESS, Body, Indexed, first_of, share_of};
use super::prelude::{Prelude, TOUCHED};
use super::{Generator, Made, Parameter, find_value, flag, integer, share, size, wrong};
use crate::op::{Op, ThreadId};
use crate::stream::Footprint;
use serde_json::Value;
use tierscope_kernel::random::Counter;

/// Registration.
pub const GENERATORS: &[Generator] = &[Generator {
    name: "strided",
    summary: "loads and stores at a fixed distance through anonymous memory",
    dependences: "",
    parameters: &[
        Parameter { name: "table", default: "\"64MiB\"", meaning: "what is walked. Our choice." },
        Parameter {
            name: "stride",
            default: "\"64B\"",
            meaning: "distance of an access from the one before: a line. Our choice.",
        },
        Parameter {
            name: "accesses",
            default: "100000",
            meaning: "loads and stores in all, divided over the threads, each of which walks a part \
                      of its own. Our choice.",
        },
        Parameter { name: "writes", default: "0.0", meaning: "share that stores. Our choice." },
        Parameter { name: "threads", default: "1", meaning: "threads. Our choice." },
        Parameter {
            name: "instructions",
            default: "3",
            meaning: "instructions of an access, its load or store included; assumption: index, \
                      comparison with the end",
        },
        TOUCHED,
    ],
    build,
}];

const ACCESS_BYTES: u64 = 8;

fn build(parameters: &[(String, Value)], seed: u64) -> Made {
    let (table_bytes, stride_bytes) = (size(parameters, "table")?, size(parameters, "stride")?);
    let threads = integer(parameters, "threads", 1..=4096)? as u32;
    if stride_bytes < ACCESS_BYTES {
        let value = find_value(parameters, "stride");
        return Err(wrong("stride", value, "less than an access of 8B", "write 64B or 4KiB"));
    }
    if table_bytes / stride_bytes < u64::from(threads) {
        let value = find_value(parameters, "table");
        let reason = "it has no place for an access of each thread";
        return Err(wrong("table", value, reason, "write a size such as 64MiB"));
    }
    Ok(Indexed::boxed(Strided {
        table_bytes,
        stride_bytes,
        accesses: integer(parameters, "accesses", 0..=u64::MAX / 4)?,
        writes: share(parameters, "writes")?,
        threads,
        touched: flag(parameters, "touched")?,
        instructions: integer(parameters, "instructions", 1..=1_000_000)? as u32,
        draws: (0..threads)
            .map(|thread| Counter::stream(seed, &format!("strided/{thread}")))
            .collect(),
    }))
}

#[derive(Clone)]
struct Strided {
    table_bytes: u64,
    stride_bytes: u64,
    accesses: u64,
    writes: f64,
    threads: u32,
    touched: bool,
    instructions: u32,
    draws: Vec<Counter>,
}

impl Body for Strided {
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
        let places = self.table_bytes / self.stride_bytes;
        let own = share_of(places, self.threads, thread);
        let number = first_of(places, self.threads, thread) + place % own;
        let address = BASE_ADDRESS + number * self.stride_bytes;
        if self.draws[thread as usize].unit_at(place) < self.writes {
            Op::store(address, ACCESS_BYTES as u16, self.instructions)
        } else {
            Op::load(address, ACCESS_BYTES as u16, self.instructions)
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

    #[test]
    fn the_streams_laws_hold_and_accesses_are_a_stride_apart() {
        let sets = |threads: u32| {
            [
                ("table".to_string(), Value::from("64KiB")),
                ("stride".to_string(), "4KiB".into()),
                ("accesses".to_string(), 2000.into()),
                ("writes".to_string(), 0.25.into()),
                ("threads".to_string(), threads.into()),
            ]
        };
        for threads in [1, 3] {
            stream_laws(|| find("strided").unwrap().make(&sets(threads), 3).unwrap().0);
        }
        let (mut stream, _) = find("strided").unwrap().make(&sets(1), 3).unwrap();
        let ops = ops_of_thread(stream.as_mut(), 0);
        let all = &ops[ops.len() - 2000..];
        for (place, op) in (0..).zip(all) {
            assert_eq!(op.word, BASE_ADDRESS + place % 16 * 4096);
        }
        let stores = all.iter().filter(|op| op.kind() == Some(OpKind::Store)).count();
        // 2000 draws at 0.25: six standard deviations are 116.
        assert!((384..=616).contains(&stores), "{stores}");
        let told = find("strided").unwrap().make(&[("table".into(), "32B".into())], 0);
        assert!(told.err().unwrap().to_string().contains("no place"));
    }

    #[test]
    fn stores_are_as_many_as_asked_wherever_they_fall() {
        let sets = [("accesses", Value::from(40_000)), ("writes", 0.25.into())];
        let sets = sets.map(|(name, value)| (name.to_owned(), value));
        let (mut stream, _) = find("strided").unwrap().make(&sets, 3).unwrap();
        let ops = ops_of_thread(stream.as_mut(), 0);
        let stores = ops[ops.len() - 40_000..].iter().map(|op| op.kind() == Some(OpKind::Store));
        let stores: Vec<bool> = stores.collect();
        goodness::have_share(stores.iter().filter(|store| **store).count() as u64, 40_000, 0.25);
        // Of pairs one behind the other, none is likelier than by chance.
        let mut pairs = [0; 4];
        stores.chunks(2).for_each(|two| pairs[2 * usize::from(two[0]) + usize::from(two[1])] += 1);
        goodness::have_weights(&pairs, [9.0, 3.0, 3.0, 1.0]);
    }
}
