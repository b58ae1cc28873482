//! `stream`: the four loops of STREAM over three arrays: `c = a`, `b = s c`, `c = a + b`, `a = b + s c`
//! (McCalpin, IEEE TCCA Newsletter, December 1995).
//!
//! Elements are of 8 B. Each thread has a part of the arrays of its own; threads do not wait for each
//! other between the loops, as they do there.

use super::indexed::{BASE_ADDRESS, Body, Indexed, first_of, share_of};
use super::prelude::{Prelude, TOUCHED};
use super::{Generator, Made, Parameter, find_value, flag, integer, size, wrong};
use crate::op::{Op, ThreadId};
use crate::stream::Footprint;
use serde_json::Value;

/// Registration.
pub const GENERATORS: &[Generator] = &[Generator {
    name: "stream",
    summary: "copy, scale, add and triad of three arrays, as STREAM does",
    dependences: "",
    parameters: &[
        Parameter {
            name: "array",
            default: "\"8MiB\"",
            meaning: "size of each array. Our choice.",
        },
        Parameter {
            name: "passes",
            default: "1",
            meaning: "times that the four loops run; STREAM runs them ten times",
        },
        Parameter { name: "threads", default: "1", meaning: "threads. Our choice." },
        Parameter {
            name: "overhead",
            default: "1",
            meaning: "instructions of an element beside its loads, stores and arithmetic; assumption: \
                      index and branch of a loop that is unrolled by two",
        },
        Parameter {
            name: "non_temporal",
            default: "false",
            meaning: "whether stores pass the caches by, as compilers have them for loops over arrays beyond the \
                      caches (streaming stores)",
        },
        TOUCHED,
    ],
    build,
}];

const ELEMENT_BYTES: u64 = 8;
const PAGE_BYTES: u64 = 4096;
const STORE: bool = true;
const LOAD: bool = false;
const A: u64 = 0;
const B: u64 = 1;
const C: u64 = 2;
/// Of each loop, its accesses (array, and whether it stores) and instructions of arithmetic.
const LOOPS: [(&[(u64, bool)], u32); 4] = [
    (&[(A, LOAD), (C, STORE)], 0),
    (&[(C, LOAD), (B, STORE)], 1),
    (&[(A, LOAD), (B, LOAD), (C, STORE)], 1),
    (&[(B, LOAD), (C, LOAD), (A, STORE)], 2),
];
/// Accesses of an element in all four.
const ACCESSES: u64 = 10;

fn build(parameters: &[(String, Value)], _seed: u64) -> Made {
    let array_bytes = size(parameters, "array")?;
    // Three arrays are mapped at once.
    if array_bytes == 0 || !array_bytes.is_multiple_of(PAGE_BYTES) || array_bytes > 1 << 60 {
        let value = find_value(parameters, "array");
        let reason = "not a whole number of pages of 4KiB, of 1EiB at most";
        return Err(wrong("array", value, reason, "write a size such as 8MiB"));
    }
    let most = u64::MAX / 4 / ACCESSES / (array_bytes / ELEMENT_BYTES);
    Ok(Indexed::boxed(Triad {
        array_bytes,
        passes: integer(parameters, "passes", 0..=most)?,
        threads: integer(parameters, "threads", 1..=4096)? as u32,
        touched: flag(parameters, "touched")?,
        overhead: integer(parameters, "overhead", 0..=1_000_000)? as u32,
        non_temporal: flag(parameters, "non_temporal")?,
    }))
}

#[derive(Clone)]
struct Triad {
    array_bytes: u64,
    passes: u64,
    threads: u32,
    touched: bool,
    overhead: u32,
    non_temporal: bool,
}

impl Triad {
    fn elements(&self) -> u64 {
        self.array_bytes / ELEMENT_BYTES
    }
}

impl Body for Triad {
    fn threads(&self) -> u32 {
        self.threads
    }

    fn prelude(&self) -> Prelude {
        Prelude::table(3 * self.array_bytes).touch(BASE_ADDRESS, 3 * self.array_bytes, self.touched)
    }

    fn operations(&self, thread: ThreadId) -> u64 {
        self.passes * ACCESSES * share_of(self.elements(), self.threads, thread)
    }

    fn operation(&self, thread: ThreadId, place: u64) -> Op {
        let own = share_of(self.elements(), self.threads, thread);
        let mut place = place % (ACCESSES * own);
        for (accesses, arithmetic) in LOOPS {
            let count = accesses.len() as u64;
            if place >= count * own {
                place -= count * own;
                continue;
            }
            let element = first_of(self.elements(), self.threads, thread) + place / count;
            let (array, store) = accesses[(place % count) as usize];
            let address = BASE_ADDRESS + array * self.array_bytes + element * ELEMENT_BYTES;
            let instructions = 1 + arithmetic + self.overhead;
            return if store && self.non_temporal {
                Op::non_temporal_store(address, ELEMENT_BYTES as u16, instructions)
            } else if store {
                Op::store(address, ELEMENT_BYTES as u16, instructions)
            } else {
                Op::load(address, ELEMENT_BYTES as u16, 1)
            };
        }
        unreachable!("a place lies in one of the loops")
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: 3 * self.array_bytes, parameter: "array" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{ops_of_thread, stream_laws};
    use crate::generator::find;
    use crate::stream::Pull;

    #[test]
    fn the_streams_laws_hold_and_the_loops_are_those_of_stream() {
        for threads in [1u32, 3] {
            let sets = [
                ("array".to_string(), Value::from("4KiB")),
                ("passes".to_string(), 2.into()),
                ("threads".to_string(), threads.into()),
            ];
            stream_laws(|| find("stream").unwrap().make(&sets, 0).unwrap().0);
        }
        let sets = [("array".to_string(), Value::from("4KiB"))];
        let (mut stream, _) = find("stream").unwrap().make(&sets, 0).unwrap();
        let ops = ops_of_thread(stream.as_mut(), 0);
        let all = &ops[ops.len() - 5120..];
        let at = |array: u64, element: u64| BASE_ADDRESS + array * 4096 + element * 8;
        assert_eq!(all[2..4], [Op::load(at(A, 1), 8, 1), Op::store(at(C, 1), 8, 2)]);
        let triad = &all[5120 - 3..];
        let expected =
            [Op::load(at(B, 511), 8, 1), Op::load(at(C, 511), 8, 1), Op::store(at(A, 511), 8, 4)];
        assert_eq!(triad, expected);
        let sets = [sets, [("non_temporal".to_string(), true.into())]].concat();
        let (mut stream, _) = find("stream").unwrap().make(&sets, 0).unwrap();
        let ops = ops_of_thread(stream.as_mut(), 0);
        assert_eq!(ops[ops.len() - 1], Op::non_temporal_store(at(A, 511), 8, 4));
        let told = find("stream").unwrap().make(&[("array".into(), "100B".into())], 0);
        assert!(told.err().unwrap().to_string().contains("whole number of pages"));
    }

    /// All operations of two threads, as STREAM's own loops have them.
    #[test]
    fn accesses_are_those_of_four_loops() {
        let sets = [
            ("array", Value::from("12KiB")),
            ("passes", 2.into()),
            ("threads", 2.into()),
            ("touched", false.into()),
        ];
        let sets = sets.map(|(name, value)| (name.to_owned(), value));
        let (mut stream, _) = find("stream").unwrap().make(&sets, 0).unwrap();
        for thread in 0..2u64 {
            let mut expected = Vec::new();
            let at = |array: &str, i: u64| {
                BASE_ADDRESS + 12_288 * "abc".find(array).unwrap() as u64 + 8 * i
            };
            for _ in 0..2 {
                for (loads, store) in [("a", "c"), ("c", "b"), ("ab", "c"), ("bc", "a")] {
                    for i in thread * 768..(thread + 1) * 768 {
                        let of = |one| (false, at(&loads[one..=one], i));
                        expected.extend((0..loads.len()).map(of));
                        expected.push((true, at(store, i)));
                    }
                }
            }
            let ops = ops_of_thread(stream.as_mut(), thread as ThreadId);
            let ops = &ops[ops.len() - expected.len()..];
            let found: Vec<_> = ops.iter().map(|op| (op.kind_code() == 2, op.word)).collect();
            assert!(found == expected, "thread {thread}");
            assert_eq!(stream.pull(thread as ThreadId, 1, &mut Vec::new()), Ok(Pull::End));
        }
    }
}
