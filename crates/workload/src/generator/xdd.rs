//! `xdd/…`: requests of one size to a large file, one after the other through it or anywhere, by threads that each have
//! one under way, past the page cache or through it (\[NVM10\] §IV-A: XDD, which names 4 MB in sequence and 4 KB at
//! random, 16 threads, and 55 GB in Table III).
//!
//! On a machine without a file system the file is the device itself: its pages lie there one after the other, and
//! metadata cost nothing.

use super::prelude::{BASE_ADDRESS, Prelude};
use super::units::{Units, in_units};
use super::{
    Generator, Made, PAGE_BYTES, Parameter, data_set, find_value, flag, integer, size, threads_of,
    wrong,
};
use crate::op::{Call, Op, ThreadId};
use crate::stream::{FileInfo, Footprint};
use serde_json::Value;
use tierscope_kernel::Counter;
use tierscope_units::Size;

const SIZE: Parameter = Parameter {
    name: "size",
    default: "\"quick\"",
    meaning: "of the file: quick is 256MiB, full 55GiB ([NVM10] Table III: 55 GB), or a size: a whole number of requests",
};
const THREADS: Parameter = Parameter {
    name: "threads",
    default: "16",
    meaning: "threads, each of which has one request under way ([NVM10] §IV-A; its test of latency has 1)",
};
const DIRECT: Parameter = Parameter {
    name: "direct",
    default: "true",
    meaning: "whether requests go past the page cache (O_DIRECT). Our reading of [NVM10] §IV-A where the device is raw",
};
const INSTRUCTIONS: Parameter = Parameter {
    name: "instructions",
    default: "200",
    meaning: "the program's own instructions between two requests; assumption: a loop that draws a place and counts",
};

const fn request(default: &'static str) -> Parameter {
    let meaning = "bytes of a request, a whole number of pages ([NVM10] §IV-A: 4 MB in sequence, 4 KB at random)";
    Parameter { name: "request", default, meaning }
}

const fn requests(default: &'static str) -> Parameter {
    let meaning = "in all, divided over the threads; in sequence they begin anew at the file's end. Our choice";
    Parameter { name: "requests", default, meaning }
}

const IN_SEQUENCE: &[Parameter] =
    &[SIZE, request("\"4MiB\""), requests("128"), THREADS, DIRECT, INSTRUCTIONS];
const AT_RANDOM: &[Parameter] =
    &[SIZE, request("\"4KiB\""), requests("20000"), THREADS, DIRECT, INSTRUCTIONS];

/// Makes of names the variants: whether in sequence, and how many of a hundred requests write.
macro_rules! variants {
    ($( $name:literal: $summary:literal, $parameters:expr, $random:literal, $writes:literal; )*) => {
        /// Registration.
        pub const GENERATORS: &[Generator] = &[ $( Generator {
            name: $name,
            summary: $summary,
            dependences: "",
            parameters: $parameters,
            build: |parameters, seed| build(parameters, seed, $random, $writes),
        } ),* ];
    };
}

variants! {
    "xdd/sequential-read": "a file read in sequence by threads, in large requests", IN_SEQUENCE, false, 0;
    "xdd/sequential-write": "a file written in sequence by threads, in large requests", IN_SEQUENCE, false, 100;
    "xdd/sequential-mixed": "a file read and written in sequence by threads, half each", IN_SEQUENCE, false, 50;
    "xdd/random-read": "pages of a file read at random by threads", AT_RANDOM, true, 0;
    "xdd/random-write": "pages of a file written at random by threads", AT_RANDOM, true, 100;
    "xdd/random-mixed": "pages of a file read and written at random by threads, half each", AT_RANDOM, true, 50;
}

fn build(parameters: &[(String, Value)], seed: u64, random: bool, writes: u64) -> Made {
    let file_bytes = data_set(parameters, "size", 256 << 20, 55 << 30)?;
    let request_bytes = size(parameters, "request")?;
    if !(PAGE_BYTES..=1 << 30).contains(&request_bytes) || !request_bytes.is_multiple_of(PAGE_BYTES)
    {
        let reason = "not a whole number of pages of 4KiB, of 1GiB at most";
        let given = find_value(parameters, "request");
        return Err(wrong("request", given, reason, "write 4KiB or 4MiB"));
    }
    if file_bytes == 0 || !file_bytes.is_multiple_of(request_bytes) {
        let request = Size::from_bytes(request_bytes);
        let whole = Size::from_bytes((file_bytes / request_bytes).max(1) * request_bytes);
        let reason = format!("not a whole number of requests of {request} (workload.request)");
        let mend = format!("write {whole}, or another workload.request");
        return Err(wrong("size", find_value(parameters, "size"), &reason, &mend));
    }
    Ok(in_units(Xdd {
        file_bytes,
        request_bytes,
        requests: integer(parameters, "requests", 1..=1 << 40)?,
        threads: threads_of(parameters)?,
        direct: flag(parameters, "direct")?,
        instructions: integer(parameters, "instructions", 8..=1_000_000)? as u32,
        random,
        writes,
        places: Counter::stream(seed, "xdd/places"),
        kinds: Counter::stream(seed, "xdd/kinds"),
    }))
}

#[derive(Clone)]
struct Xdd {
    file_bytes: u64,
    request_bytes: u64,
    requests: u64,
    threads: u32,
    direct: bool,
    instructions: u32,
    random: bool,
    writes: u64,
    places: Counter,
    kinds: Counter,
}

/// Operations of a request: a call, and a count that goes up.
const OPERATIONS: u64 = 5;

impl Xdd {
    fn all_memory_bytes(&self) -> u64 {
        self.memory_bytes() * u64::from(self.threads)
    }

    /// What a thread has: its buffer, and behind it its count.
    fn memory_bytes(&self) -> u64 {
        self.request_bytes + PAGE_BYTES
    }
}

impl Units for Xdd {
    fn threads(&self) -> u32 {
        self.threads
    }

    fn prelude(&self) -> Prelude {
        let bytes = self.all_memory_bytes();
        Prelude::table(bytes).open(0, self.file_bytes).touch(BASE_ADDRESS, bytes, true)
    }

    fn units(&self, thread: ThreadId) -> u64 {
        super::indexed::share_of(self.requests, self.threads, thread)
    }

    fn unit(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        let number = unit * u64::from(self.threads) + u64::from(thread);
        let places = self.file_bytes / self.request_bytes;
        let place =
            if self.random { self.places.below_at(number, places) } else { number % places };
        let (offset, length) = (place * self.request_bytes, self.request_bytes);
        let address = BASE_ADDRESS + u64::from(thread) * self.memory_bytes();
        let write = self.kinds.below_at(number, 100) < self.writes;
        let call = match (write, self.direct) {
            (false, false) => Call::Read { file: 0, offset, length, address },
            (true, false) => Call::Write { file: 0, offset, length, address },
            (false, true) => Call::ReadDirect { file: 0, offset, length, address },
            (true, true) => Call::WriteDirect { file: 0, offset, length, address },
        };
        let half = self.instructions / 2;
        call.encode(half, out);
        out.push(Op::load(address + length, 8, half - 1));
        out.push(Op::store(address + length, 8, self.instructions - 2 * half + 1));
    }

    fn before(&self, _thread: ThreadId, unit: u64) -> Option<u64> {
        Some(unit * OPERATIONS)
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.file_bytes + self.all_memory_bytes(), parameter: "size" }
    }

    fn accesses(&self) -> Option<u64> {
        Some(2 * self.requests)
    }

    fn files(&self) -> Vec<FileInfo> {
        vec![FileInfo { name: "xdd.data".into(), size_bytes: self.file_bytes }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{calls_of_thread, stream_laws};
    use crate::generator::find;
    use crate::goodness;

    /// Whether each request of a thread is direct and writes, and its offset.
    fn requests(name: &str, direct: bool, thread: ThreadId) -> Vec<(bool, bool, u64)> {
        let sets = [
            ("size".to_owned(), Value::from("1MiB")),
            ("request".to_owned(), "8KiB".into()),
            ("requests".to_owned(), 1000.into()),
            ("threads".to_owned(), 3.into()),
            ("direct".to_owned(), direct.into()),
        ];
        stream_laws(|| find(name).unwrap().make(&sets, 3).unwrap().0);
        let (mut stream, _) = find(name).unwrap().make(&sets, 3).unwrap();
        let told = |call: Call| match call {
            Call::Read { offset, length: 8192, .. } => Some((false, false, offset)),
            Call::Write { offset, length: 8192, .. } => Some((false, true, offset)),
            Call::ReadDirect { offset, length: 8192, .. } => Some((true, false, offset)),
            Call::WriteDirect { offset, length: 8192, .. } => Some((true, true, offset)),
            _ => None,
        };
        calls_of_thread(stream.as_mut(), thread).into_iter().filter_map(told).collect()
    }

    #[test]
    fn threads_take_turns_through_the_file_and_begin_anew_at_its_end() {
        let of_second = requests("xdd/sequential-read", true, 1);
        let places = (0..333).map(|unit| (true, false, (3 * unit + 1) % 128 * 8192));
        assert_eq!(of_second, places.collect::<Vec<_>>());
        let written = requests("xdd/sequential-write", false, 2);
        assert!(written.iter().all(|(direct, writes, _)| !direct && *writes));
    }

    #[test]
    fn a_size_that_is_no_whole_number_of_requests_is_told_one_that_is() {
        let mend = |size: &str, request: &str| {
            let sets = [("size".to_owned(), size.into()), ("request".to_owned(), request.into())];
            find("xdd/random-read").unwrap().make(&sets, 0).err().expect("it is refused").mend
        };
        assert_eq!(mend("256MiB", "12KiB"), "write 262140KiB, or another workload.request");
        assert_eq!(mend("6MiB", "4MiB"), "write 4MiB, or another workload.request");
        assert_eq!(mend("quick", "1GiB"), "write 1GiB, or another workload.request");
    }

    #[test]
    fn random_requests_are_anywhere_and_half_of_the_mixed_ones_write() {
        let mixed = requests("xdd/random-mixed", true, 0);
        let writes = mixed.iter().filter(|(_, writes, _)| *writes).count();
        // 334 throws of a coin: four standard deviations.
        assert!((130..=204).contains(&writes), "{writes}");
        let places: std::collections::BTreeSet<u64> = mixed.iter().map(|(_, _, at)| *at).collect();
        // Of 128 places 334 draws leave about nine out.
        assert!((100..=128).contains(&places.len()), "{}", places.len());
        assert!(places.iter().all(|at| at % 8192 == 0 && *at < 1 << 20));
    }

    #[test]
    fn random_places_are_alike_and_so_are_both_kinds_of_the_mixed() {
        for (name, random, mixed) in [
            ("xdd/random-read", true, false),
            ("xdd/random-write", true, false),
            ("xdd/random-mixed", true, true),
            ("xdd/sequential-mixed", false, true),
        ] {
            let sets = [
                ("size", Value::from("1MiB")),
                ("request", "16KiB".into()),
                ("requests", 12_000.into()),
                ("threads", 3.into()),
            ];
            let sets = sets.map(|(name, value)| (name.to_owned(), value));
            let (mut stream, _) = find(name).unwrap().make(&sets, 5).unwrap();
            let (mut places, mut writes, mut all) = ([0; 64], 0, 0);
            for thread in 0..3 {
                for call in calls_of_thread(stream.as_mut(), thread) {
                    let (Call::ReadDirect { offset, .. } | Call::WriteDirect { offset, .. }) = call
                    else {
                        continue;
                    };
                    places[(offset / 16_384) as usize] += 1;
                    writes += u64::from(matches!(call, Call::WriteDirect { .. }));
                    all += 1;
                }
            }
            assert_eq!(all, 12_000, "{name}");
            match random {
                true => goodness::are_alike(&places),
                false => assert!(places.iter().all(|met| met.abs_diff(12_000 / 64) <= 1)),
            }
            match mixed {
                true => goodness::have_share(writes, all, 0.5),
                false => assert_eq!(writes, if name.ends_with("write") { all } else { 0 }),
            }
        }
    }
}
