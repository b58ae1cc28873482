//! `mmap`: random reads of a mapped file (\[HYB15\] §3.2, MMAP).
//!
//! Each read is of an element of 8 B, drawn uniformly from the whole file. Reads are a total, divided over
//! the threads.

use super::indexed::{Body, Indexed, share_of};
use super::prelude::Prelude;
use super::{Generator, Made, Parameter, find_value, integer, size, wrong};
use crate::op::{MAP_SHARED, Op, ThreadId};
use crate::stream::{FileInfo, Footprint};
use serde_json::Value;
use tierscope_kernel::random::Counter;

/// Registration.
pub const GENERATORS: &[Generator] = &[Generator {
    name: "mmap",
    summary: "random reads of a mapped file",
    dependences: "",
    parameters: &[
        Parameter {
            name: "file",
            default: "\"2GiB\"",
            meaning: "size of the file; [HYB15] §3.2 takes 1/2 of the store (512GiB at full scale)",
        },
        Parameter {
            name: "reads",
            default: "10000",
            meaning: "reads in all, divided over the threads ([HYB15] §3.2)",
        },
        Parameter { name: "threads", default: "1", meaning: "threads, 1 to 16 in [HYB15] §4.1" },
        Parameter {
            name: "instructions",
            default: "8",
            meaning: "instructions of a read, its load included; assumption: index arithmetic and \
                      random step",
        },
    ],
    build,
}];

const BASE_ADDRESS: u64 = 0x20_0000_0000;
const ELEMENT_BYTES: u64 = 8;
const PAGE_BYTES: u64 = 4096;

fn build(parameters: &[(String, Value)], seed: u64) -> Made {
    let file_bytes = size(parameters, "file")?;
    if file_bytes == 0 || !file_bytes.is_multiple_of(PAGE_BYTES) {
        let value = find_value(parameters, "file");
        let reason = "not a whole number of pages of 4KiB";
        return Err(wrong("file", value, reason, "write a size such as 2GiB"));
    }
    let threads = integer(parameters, "threads", 1..=4096)? as u32;
    Ok(Indexed::boxed(Mmap {
        file_bytes,
        reads: integer(parameters, "reads", 0..=u64::MAX / 4)?,
        threads,
        instructions: integer(parameters, "instructions", 1..=1_000_000)? as u32,
        draws: (0..threads)
            .map(|thread| Counter::stream(seed, &format!("mmap/{thread}")))
            .collect(),
    }))
}

#[derive(Clone)]
struct Mmap {
    file_bytes: u64,
    reads: u64,
    threads: u32,
    instructions: u32,
    draws: Vec<Counter>,
}

impl Body for Mmap {
    fn threads(&self) -> u32 {
        self.threads
    }

    fn prelude(&self) -> Prelude {
        let opened = Prelude::default().open(0, self.file_bytes);
        opened.map(BASE_ADDRESS, self.file_bytes, MAP_SHARED, 0)
    }

    fn operations(&self, thread: ThreadId) -> u64 {
        share_of(self.reads, self.threads, thread)
    }

    fn operation(&self, thread: ThreadId, place: u64) -> Op {
        let element = self.draws[thread as usize].below_at(place, self.file_bytes / ELEMENT_BYTES);
        Op::load(BASE_ADDRESS + element * ELEMENT_BYTES, ELEMENT_BYTES as u16, self.instructions)
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.file_bytes, parameter: "file" }
    }

    fn files(&self) -> Vec<FileInfo> {
        vec![FileInfo { name: "mmap.data".into(), size_bytes: self.file_bytes }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{ops_of_thread, stream_laws};
    use crate::generator::find;
    use crate::goodness;

    #[test]
    fn the_streams_laws_hold_and_reads_lie_in_the_file() {
        for threads in [1u32, 3] {
            let sets = [
                ("file".to_string(), Value::from("1MiB")),
                ("reads".to_string(), 500.into()),
                ("threads".to_string(), threads.into()),
            ];
            let make = || find("mmap").unwrap().make(&sets, 3).unwrap().0;
            stream_laws(make);
            let mut stream = make();
            assert_eq!((stream.accesses(), stream.files().len()), (Some(500), 1));
            let ops = ops_of_thread(stream.as_mut(), 0);
            let reads: Vec<_> = ops.iter().filter(|op| op.instructions() == 8).collect();
            assert_eq!(reads.len() as u64, 500u64.div_ceil(threads.into()));
            for op in reads {
                assert!((BASE_ADDRESS..BASE_ADDRESS + (1 << 20)).contains(&op.word));
            }
        }
        let told = find("mmap").unwrap().make(&[("file".into(), "1000B".into())], 0).err().unwrap();
        assert!(told.to_string().contains("whole number of pages"), "{told}");
    }

    /// Reads meet all elements alike: in 64 parts of the file, and within a line, in each thread.
    #[test]
    fn reads_meet_all_elements_alike() {
        let sets = [("file", Value::from("1MiB")), ("reads", 60_000.into()), ("threads", 2.into())];
        let sets = sets.map(|(name, value)| (name.to_owned(), value));
        let (mut stream, _) = find("mmap").unwrap().make(&sets, 3).unwrap();
        for thread in [0, 1] {
            let (mut parts, mut words) = ([0; 64], [0; 8]);
            let ops = ops_of_thread(stream.as_mut(), thread);
            for op in ops.iter().filter(|op| op.instructions() == 8) {
                let element = (op.word - BASE_ADDRESS) / ELEMENT_BYTES;
                parts[(element / 2048) as usize] += 1;
                words[(element % 8) as usize] += 1;
            }
            assert_eq!(parts.iter().sum::<u64>(), 30_000);
            goodness::are_alike(&parts);
            goodness::are_alike(&words);
        }
    }
}
