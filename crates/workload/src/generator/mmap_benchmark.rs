//! `mmap-benchmark`: whole pages of a mapped file copied to or from a buffer, in order or at random
//! (\[HAMS21\] Table III; exabytes18/mmap-benchmark, from which order and threads are).
//!
//! In order, one thread goes from the first page to the last. At random, all pages are put in a random
//! order and dealt out in chunks of 512 to four threads, here in turn, there from a queue. Both twice. A
//! page is copied by words of 8 B. Table III gives instructions and shares of loads and stores: what is
//! beyond the copy itself goes to a few lines of the thread's own.

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
use tierscope_kernel::Permutation;

const SIZE: Parameter = Parameter {
    name: "size",
    default: "\"quick\"",
    meaning: "of the file: quick is 32MiB, full the 16GiB of [HAMS21] Table III, or a size",
};
const PASSES: Parameter = Parameter {
    name: "passes",
    default: "2",
    meaning: "times that all pages are copied; the program's own",
};
const THREADS: Parameter =
    Parameter { name: "threads", default: "4", meaning: "threads ([HAMS21] Table III)" };

const IN_ORDER: &[Parameter] = &[
    SIZE,
    PASSES,
    Parameter {
        name: "instructions",
        default: "7987",
        meaning: "of a page: 67G ([HAMS21] Table III) over two passes of 16GiB",
    },
    Parameter { name: "loads", default: "0.28", meaning: "share of them ([HAMS21] Table III)" },
    Parameter { name: "stores", default: "0.43", meaning: "share of them ([HAMS21] Table III)" },
];
const AT_RANDOM: &[Parameter] = &[
    SIZE,
    PASSES,
    THREADS,
    Parameter {
        name: "instructions",
        default: "8225",
        meaning: "of a page: 69G ([HAMS21] Table III) over two passes of 16GiB",
    },
    Parameter { name: "loads", default: "0.27", meaning: "share of them ([HAMS21] Table III)" },
    Parameter { name: "stores", default: "0.37", meaning: "share of them ([HAMS21] Table III)" },
];

/// Registration.
pub const GENERATORS: &[Generator] = &[
    Generator {
        name: "mmap-benchmark/seq-read",
        summary: "pages of a mapped file copied out in order",
        dependences: "",
        parameters: IN_ORDER,
        build: |parameters, seed| build(parameters, seed, false, false),
    },
    Generator {
        name: "mmap-benchmark/rnd-read",
        summary: "pages of a mapped file copied out at random",
        dependences: "",
        parameters: AT_RANDOM,
        build: |parameters, seed| build(parameters, seed, true, false),
    },
    Generator {
        name: "mmap-benchmark/seq-write",
        summary: "pages of a mapped file copied over in order",
        dependences: "",
        parameters: IN_ORDER,
        build: |parameters, seed| build(parameters, seed, false, true),
    },
    Generator {
        name: "mmap-benchmark/rnd-write",
        summary: "pages of a mapped file copied over at random",
        dependences: "",
        parameters: AT_RANDOM,
        build: |parameters, seed| build(parameters, seed, true, true),
    },
];

const FILE_ADDRESS: u64 = 0x20_0000_0000;
const WORD_BYTES: u64 = 8;
const WORDS: u64 = PAGE_BYTES / WORD_BYTES;
/// Pages that a thread is dealt at a time.
const CHUNK_PAGES: u64 = 512;

fn build(parameters: &[(String, Value)], seed: u64, random: bool, writes: bool) -> Made {
    let file_bytes = data_set(parameters, "size", 32 << 20, 16 << 30)?;
    Ok(in_units(MmapBenchmark {
        file_bytes,
        passes: integer(parameters, "passes", 0..=1_000_000)?,
        threads: if random { threads_of(parameters)? } else { 1 },
        mix: mix(parameters)?,
        random,
        writes,
        seed,
    }))
}

/// The mix of a page's copy, which has at least the copy's own loads and stores.
fn mix(parameters: &[(String, Value)]) -> Result<Mix, ParameterError> {
    let instructions = integer(parameters, "instructions", 2 * WORDS..=1_000_000)?;
    let mix = Mix::of(instructions, share(parameters, "loads")?, share(parameters, "stores")?);
    for (name, count) in [("loads", mix.loads), ("stores", mix.stores)] {
        if count < WORDS {
            let reason =
                format!("{count} of {instructions} instructions do not copy {WORDS} words");
            let mend = "write a larger share, or more instructions";
            return Err(wrong(name, find_value(parameters, name), &reason, mend));
        }
    }
    if mix.accesses() > instructions {
        let reason = "loads and stores together are more than all instructions";
        return Err(wrong("stores", find_value(parameters, "stores"), reason, "write less"));
    }
    Ok(mix)
}

#[derive(Clone)]
struct MmapBenchmark {
    file_bytes: u64,
    passes: u64,
    threads: u32,
    mix: Mix,
    random: bool,
    writes: bool,
    seed: u64,
}

impl MmapBenchmark {
    fn pages(&self) -> u64 {
        self.file_bytes / PAGE_BYTES
    }

    /// A buffer of a page, and a page of the stack, of each thread.
    fn own_bytes(&self) -> u64 {
        2 * PAGE_BYTES * u64::from(self.threads)
    }

    /// Pages of a pass that a thread is dealt.
    fn own_pages(&self, thread: ThreadId) -> u64 {
        let (pages, threads) = (self.pages(), u64::from(self.threads));
        let chunks = pages.div_ceil(CHUNK_PAGES);
        let own = chunks / threads + u64::from(u64::from(thread) < chunks % threads);
        let has_last = (chunks - 1) % threads == u64::from(thread);
        own * CHUNK_PAGES - if has_last { chunks * CHUNK_PAGES - pages } else { 0 }
    }

    fn page(&self, thread: ThreadId, unit: u64) -> u64 {
        let own = self.own_pages(thread);
        let (pass, place) = (unit / own, unit % own);
        let chunk = place / CHUNK_PAGES * u64::from(self.threads) + u64::from(thread);
        let place = chunk * CHUNK_PAGES + place % CHUNK_PAGES;
        if !self.random {
            return place;
        }
        Permutation::new(self.seed, &format!("mmap-benchmark/{pass}"), self.pages()).at(place)
    }
}

impl MmapBenchmark {
    /// A page's copy, and where the thread's own lines are.
    fn copy(&self, thread: ThreadId, unit: u64) -> (Vec<Op>, u64) {
        let page = FILE_ADDRESS + self.page(thread, unit) * PAGE_BYTES;
        // A buffer of a page, and a page of the stack.
        let buffer = BASE_ADDRESS + 2 * PAGE_BYTES * u64::from(thread);
        let (from, to) = if self.writes { (buffer, page) } else { (page, buffer) };
        let word = |index: u64| {
            let offset = index * WORD_BYTES;
            [
                Op::load(from + offset, WORD_BYTES as u16, 1),
                Op::store(to + offset, WORD_BYTES as u16, 1),
            ]
        };
        ((0..WORDS).flat_map(word).collect(), buffer + PAGE_BYTES)
    }
}

impl Units for MmapBenchmark {
    fn threads(&self) -> u32 {
        self.threads
    }

    fn prelude(&self) -> Prelude {
        let opened = Prelude::default().open(0, self.file_bytes);
        let mapped = opened.map(FILE_ADDRESS, self.file_bytes, MAP_SHARED | MAP_WRITABLE, 0);
        mapped.map(BASE_ADDRESS, self.own_bytes(), MAP_WRITABLE, NO_FILE)
    }

    fn units(&self, thread: ThreadId) -> u64 {
        self.passes * self.own_pages(thread)
    }

    fn unit(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        let (copy, own) = self.copy(thread, unit);
        self.mix.spread(&copy, own, out);
    }

    fn condensed(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        let (copy, own) = self.copy(thread, unit);
        self.mix.condense(&copy, own, out);
    }

    fn before(&self, _thread: ThreadId, unit: u64) -> Option<u64> {
        Some(unit * self.mix.accesses())
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.file_bytes + self.own_bytes(), parameter: "size" }
    }

    fn accesses(&self) -> Option<u64> {
        Some(self.passes * self.pages() * self.mix.accesses())
    }

    fn files(&self) -> Vec<FileInfo> {
        vec![FileInfo { name: "mmap-benchmark.data".into(), size_bytes: self.file_bytes }]
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
    use std::collections::BTreeMap;

    fn sets(size: &str, more: &[(&str, Value)]) -> Vec<(String, Value)> {
        let size = [("size".to_owned(), Value::from(size))];
        let more = more.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        size.into_iter().chain(more).collect()
    }

    fn all(name: &str, sets: &[(String, Value)], threads: u32) -> Vec<Op> {
        let (mut stream, _) = find(name).unwrap().make(sets, 3).unwrap();
        let mut ops = Vec::new();
        for thread in 0..threads {
            while stream.pull(thread, 10_000, &mut ops).unwrap() == Pull::More {}
        }
        ops
    }

    #[test]
    fn the_streams_laws_hold() {
        let few = [("instructions", Value::from(1024)), ("loads", 0.5.into())];
        let few: Vec<_> = few.into_iter().chain([("stores", 0.5.into())]).collect();
        stream_laws(|| {
            find("mmap-benchmark/seq-read").unwrap().make(&sets("16KiB", &few), 0).unwrap().0
        });
        let threads: Vec<_> = few.into_iter().chain([("threads", 3.into())]).collect();
        let sets = sets("28KiB", &threads);
        stream_laws(|| find("mmap-benchmark/rnd-write").unwrap().make(&sets, 0).unwrap().0);
    }

    #[test]
    fn each_page_is_copied_once_a_pass_and_the_mix_is_that_of_table_iii() {
        for (name, threads, instructions, loads, stores) in [
            ("mmap-benchmark/seq-read", 1, 7987, 0.28, 0.43),
            ("mmap-benchmark/rnd-write", 4, 8225, 0.27, 0.37),
        ] {
            // 1100 pages: two chunks and a part.
            let sets = sets("4400KiB", &[("passes", 1.into())]);
            let ops = all(name, &sets, threads);
            let counts = Counts::of(&ops);
            assert_eq!(counts.loads, 1100 * (f64::from(instructions) * loads).round() as u64);
            assert_eq!(counts.stores, 1100 * (f64::from(instructions) * stores).round() as u64);
            let of_calls = counts.instructions - 1100 * instructions as u64;
            assert!(of_calls < 10_000, "{of_calls}");
            let mut words: BTreeMap<u64, u64> = BTreeMap::new();
            for op in
                ops.iter().filter(|op| (FILE_ADDRESS..FILE_ADDRESS + (1 << 32)).contains(&op.word))
            {
                let is_store = op.kind_code() == 2;
                if op.size() == 8 && op.kind_code() <= 2 {
                    assert_eq!(is_store, name.ends_with("write"));
                    *words.entry(op.word).or_default() += 1;
                }
            }
            assert_eq!(words.len(), 1100 * 512, "{name}");
            assert!(words.values().all(|count| *count == 1));
        }
    }

    #[test]
    fn the_instructions_of_the_full_size_are_those_of_table_iii() {
        for (instructions, total) in [(7987u64, 67e9), (8225, 69e9)] {
            let all = (instructions * 2 * (16 << 30) / PAGE_BYTES) as f64;
            assert!((all / total - 1.0).abs() < 1e-3, "{all}");
        }
    }

    #[test]
    fn wrong_parameters_are_refused() {
        for (name, value, mend) in [
            ("loads", Value::from(0.01), "larger share"),
            ("stores", 0.9.into(), "write less"),
            ("size", "5KiB".into(), "quick, full or a size"),
        ] {
            let given = [(name.to_owned(), value)];
            let told = find("mmap-benchmark/seq-read").unwrap().make(&given, 0).err().unwrap();
            assert!(told.to_string().contains(mend), "{told}");
        }
    }

    /// In order one page follows on the other. At random, which follows does not depend on the page, a second
    /// pass has another order, and the threads' chunks, in turn, are one order of all pages.
    #[test]
    fn pages_are_in_order_or_in_a_random_one() {
        let made = |random: bool, threads| MmapBenchmark {
            file_bytes: 8192 * PAGE_BYTES,
            passes: 2,
            threads,
            mix: Mix::of(8000, 0.28, 0.43),
            random,
            writes: false,
            seed: 3,
        };
        let in_order = made(false, 1);
        assert!((0..2 * 8192).all(|unit| in_order.page(0, unit) == unit % 8192));
        let (one, four) = (made(true, 1), made(true, 4));
        let pages: Vec<u64> = (0..2 * 8192).map(|unit| one.page(0, unit)).collect();
        let mut distances = [0; 64];
        for two in pages[..8192].windows(2) {
            distances[((two[1] + 8192 - two[0]) % 8192 / 128) as usize] += 1;
        }
        goodness::are_alike(&distances);
        let same = (0..8192).filter(|place| pages[*place] == pages[place + 8192]).count();
        // Two orders have one page in the same place, on average.
        assert!(same <= 10, "{same}");
        for place in 0..8192u64 {
            let (chunk, within) = (place / CHUNK_PAGES, place % CHUNK_PAGES);
            let unit = chunk / 4 * CHUNK_PAGES + within;
            assert_eq!(four.page((chunk % 4) as ThreadId, unit), pages[place as usize]);
        }
    }
}
