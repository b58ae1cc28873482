//! `rodinia/kmeans`: points dealt to the nearest of a few centres, as Rodinia's OpenMP program does (Che and
//! others, IISWC 2009; \[HAMS21\] Table III).
//!
//! In an iteration each thread goes through its part of the points: for each, through all features of the
//! point and of every centre; it notes the nearest centre, and adds the features to that centre's next.
//! Then threads wait for each other. Points lie in a mapped file. Features are loaded by 16 bytes.

use super::indexed::{first_of, share_of};
use super::mix::Mix;
use super::prelude::{BASE_ADDRESS, Prelude};
use super::units::{Units, barrier, barrier_length, in_units};
use super::{
    Generator, Made, PAGE_BYTES, Parameter, ParameterError, data_set, find_value, flag, integer,
    share, threads_of, wrong,
};
use crate::op::{MAP_SHARED, MAP_WRITABLE, NO_FILE, Op, ThreadId};
use crate::stream::{FileInfo, Footprint};
use serde_json::Value;
use tierscope_kernel::Counter;

/// Registration.
pub const GENERATORS: &[Generator] = &[Generator {
    name: "rodinia/kmeans",
    summary: "points of a mapped file dealt to the nearest of a few centres",
    dependences: "",
    parameters: &[
        Parameter {
            name: "size",
            default: "\"quick\"",
            meaning: "of the points: quick is 64MiB, full the 5GiB of [HAMS21] Table III, or a size",
        },
        Parameter {
            name: "features",
            default: "34",
            meaning: "of a point, 4 B each; of kdd_cup, Rodinia's input",
        },
        Parameter { name: "centres", default: "5", meaning: "Rodinia's default" },
        Parameter {
            name: "iterations",
            default: "1",
            meaning: "over all points; the 38G instructions of [HAMS21] Table III are about one, by the \
                      program's own arithmetic",
        },
        Parameter {
            name: "threads",
            default: "4",
            meaning: "threads; [HAMS21] names none for Rodinia, its processor has four cores",
        },
        Parameter {
            name: "instructions",
            default: "963",
            meaning: "of a point: 38G ([HAMS21] Table III) over the points of 5GiB",
        },
        Parameter { name: "loads", default: "0.27", meaning: "share of them ([HAMS21] Table III)" },
        Parameter {
            name: "stores",
            default: "0.03",
            meaning: "share of them ([HAMS21] Table III)",
        },
        Parameter {
            name: "touched",
            default: "true",
            meaning: "whether the points' centres are noted before the region of interest, which then \
                      begins, as the program does",
        },
    ],
    build,
}];

const FILE_ADDRESS: u64 = 0x20_0000_0000;
const FEATURE_BYTES: u64 = 4;
/// Bytes of a load of features: a vector register.
const VECTOR_BYTES: u64 = 16;
const MEMBERSHIP_BYTES: u64 = 4;

fn build(parameters: &[(String, Value)], seed: u64) -> Made {
    let bytes = data_set(parameters, "size", 64 << 20, 5 << 30)?;
    let features = integer(parameters, "features", 1..=4096)?;
    let centres = integer(parameters, "centres", 1..=4096)?;
    let threads = threads_of(parameters)?;
    let points = bytes / (features * FEATURE_BYTES);
    if points < u64::from(threads) {
        let reason = "it has fewer points than there are threads";
        return Err(wrong("size", find_value(parameters, "size"), reason, "write 64MiB"));
    }
    Ok(in_units(Kmeans {
        points,
        features,
        centres,
        iterations: integer(parameters, "iterations", 0..=1_000_000)?,
        threads,
        mix: mix(parameters, features, centres)?,
        touched: flag(parameters, "touched")?,
        draws: Counter::stream(seed, "rodinia/kmeans"),
    }))
}

fn mix(parameters: &[(String, Value)], features: u64, centres: u64) -> Result<Mix, ParameterError> {
    let instructions = integer(parameters, "instructions", 1..=1_000_000_000)?;
    let mix = Mix::of(instructions, share(parameters, "loads")?, share(parameters, "stores")?);
    let vectors = (features * FEATURE_BYTES).div_ceil(VECTOR_BYTES);
    let (loads, stores) = (2 * vectors * (centres + 1) + 1, vectors + 1);
    if mix.loads < loads || mix.stores < stores || mix.accesses() > instructions {
        let reason = format!(
            "with these shares it has {} loads and {} stores, and a point takes {loads} and {stores}",
            mix.loads, mix.stores
        );
        let value = find_value(parameters, "instructions");
        return Err(wrong("instructions", value, &reason, "write more, or other shares"));
    }
    Ok(mix)
}

#[derive(Clone)]
struct Kmeans {
    points: u64,
    features: u64,
    centres: u64,
    iterations: u64,
    threads: u32,
    mix: Mix,
    touched: bool,
    draws: Counter,
}

impl Kmeans {
    fn point_bytes(&self) -> u64 {
        self.features * FEATURE_BYTES
    }

    fn file_bytes(&self) -> u64 {
        (self.points * self.point_bytes()).next_multiple_of(PAGE_BYTES)
    }

    fn membership_bytes(&self) -> u64 {
        (self.points * MEMBERSHIP_BYTES).next_multiple_of(PAGE_BYTES)
    }

    /// Bytes of all centres, in whole pages.
    fn centres_bytes(&self) -> u64 {
        (self.centres * self.point_bytes()).next_multiple_of(PAGE_BYTES)
    }

    /// Centres; behind them, of each thread, the sums of the next ones, and a page of its own.
    fn centres_address(&self) -> u64 {
        BASE_ADDRESS + self.membership_bytes()
    }

    fn sums_address(&self, thread: ThreadId) -> u64 {
        let own = u64::from(thread) * (self.centres_bytes() + PAGE_BYTES);
        self.centres_address() + self.centres_bytes() + own
    }

    fn memory_bytes(&self) -> u64 {
        self.sums_address(self.threads) - BASE_ADDRESS
    }

    fn point(&self, thread: ThreadId, point: u64, iteration: u64, out: &mut Vec<Op>) {
        let at = FILE_ADDRESS + point * self.point_bytes();
        let vectors = || (0..self.point_bytes()).step_by(VECTOR_BYTES as usize);
        let size = |offset: u64| VECTOR_BYTES.min(self.point_bytes() - offset) as u16;
        for centre in 0..self.centres {
            let centre = self.centres_address() + centre * self.point_bytes();
            for offset in vectors() {
                out.push(Op::load(at + offset, size(offset), 1));
                out.push(Op::load(centre + offset, size(offset), 1));
            }
        }
        let membership = BASE_ADDRESS + point * MEMBERSHIP_BYTES;
        out.push(Op::load(membership, MEMBERSHIP_BYTES as u16, 1));
        out.push(Op::store(membership, MEMBERSHIP_BYTES as u16, 1));
        let index = iteration.wrapping_mul(self.points).wrapping_add(point);
        let nearest = self.draws.below_at(index, self.centres);
        let sums = self.sums_address(thread) + nearest * self.point_bytes();
        for offset in vectors() {
            out.push(Op::load(at + offset, size(offset), 1));
            out.push(Op::load(sums + offset, size(offset), 1));
            out.push(Op::store(sums + offset, size(offset), 1));
        }
    }
}

impl Kmeans {
    /// Accesses to data of a thread's point, and where its own lines are; or a barrier, that is appended.
    fn data(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) -> Option<(Vec<Op>, u64)> {
        let own = share_of(self.points, self.threads, thread);
        let (iteration, place) = (unit / (own + 1), unit % (own + 1));
        if place == own {
            barrier(thread, self.threads, iteration + 1, out);
            return None;
        }
        let mut data = Vec::new();
        let point = first_of(self.points, self.threads, thread) + place;
        self.point(thread, point, iteration, &mut data);
        Some((data, self.sums_address(thread) + self.centres_bytes()))
    }
}

impl Units for Kmeans {
    fn threads(&self) -> u32 {
        self.threads
    }

    fn prelude(&self) -> Prelude {
        let opened = Prelude::default().open(0, self.file_bytes());
        let mapped = opened.map(FILE_ADDRESS, self.file_bytes(), MAP_SHARED, 0);
        mapped.map(BASE_ADDRESS, self.memory_bytes(), MAP_WRITABLE, NO_FILE).touch(
            BASE_ADDRESS,
            self.memory_bytes(),
            self.touched,
        )
    }

    fn units(&self, thread: ThreadId) -> u64 {
        self.iterations * (share_of(self.points, self.threads, thread) + 1)
    }

    fn unit(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        if let Some((data, own)) = self.data(thread, unit, out) {
            self.mix.spread(&data, own, out);
        }
    }

    fn condensed(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        if let Some((data, own)) = self.data(thread, unit, out) {
            self.mix.condense(&data, own, out);
        }
    }

    fn before(&self, thread: ThreadId, unit: u64) -> Option<u64> {
        let own = share_of(self.points, self.threads, thread);
        let barriers = unit / (own + 1);
        Some((unit - barriers) * self.mix.accesses() + barriers * barrier_length(self.threads))
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.file_bytes() + self.memory_bytes(), parameter: "size" }
    }

    fn accesses(&self) -> Option<u64> {
        self.iterations.checked_mul(self.points)?.checked_mul(self.mix.accesses())
    }

    fn files(&self) -> Vec<FileInfo> {
        vec![FileInfo { name: "kmeans.points".into(), size_bytes: self.file_bytes() }]
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

    fn sets(all: &[(&str, Value)]) -> Vec<(String, Value)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    #[test]
    fn the_streams_laws_hold() {
        for threads in [1, 3] {
            let sets = sets(&[
                ("size", "4KiB".into()),
                ("iterations", 2.into()),
                ("threads", threads.into()),
            ]);
            stream_laws(|| find("rodinia/kmeans").unwrap().make(&sets, 3).unwrap().0);
        }
    }

    #[test]
    fn each_point_is_read_for_each_centre_and_the_mix_is_that_of_table_iii() {
        let sets =
            sets(&[("size", "136KiB".into()), ("threads", 1.into()), ("touched", false.into())]);
        let (mut stream, _) = find("rodinia/kmeans").unwrap().make(&sets, 3).unwrap();
        let mut ops = Vec::new();
        while stream.pull(0, 1 << 16, &mut ops).unwrap() == Pull::More {}
        let counts = Counts::of(&ops);
        assert_eq!((counts.loads, counts.stores), (1024 * 260, 1024 * 29));
        let mut of: BTreeMap<u64, u64> = BTreeMap::new();
        let file = FILE_ADDRESS..FILE_ADDRESS + 1024 * 136;
        for op in ops.iter().filter(|op| op.kind_code() == 1 && file.contains(&op.word)) {
            *of.entry(op.word).or_default() += 1;
        }
        // Nine loads of up to 16 B a point, once for each of five centres, and once to be added.
        assert_eq!(of.len(), 1024 * 9);
        assert!(of.values().all(|count| *count == 6));
    }

    #[test]
    fn the_full_size_is_that_of_table_iii() {
        let sets = sets(&[("size", "full".into()), ("touched", false.into())]);
        let (stream, _) = find("rodinia/kmeans").unwrap().make(&sets, 0).unwrap();
        let instructions = stream.accesses().unwrap() as f64 / 0.30;
        assert!((instructions / 38e9 - 1.0).abs() < 0.01, "{instructions}");
        let told = find("rodinia/kmeans").unwrap().make(&[("centres".into(), 50.into())], 0);
        assert!(told.err().unwrap().to_string().contains("write more"));
    }

    /// Each centre is as often the nearest, in each iteration.
    #[test]
    fn centres_are_nearest_alike() {
        let sets = sets(&[
            ("size", "1MiB".into()),
            ("iterations", 2.into()),
            ("threads", 1.into()),
            ("touched", false.into()),
        ]);
        let (mut stream, _) = find("rodinia/kmeans").unwrap().make(&sets, 3).unwrap();
        let mut ops = Vec::new();
        while stream.pull(0, 1 << 16, &mut ops).unwrap() == Pull::More {}
        let points = (1u64 << 20) / 136;
        let sums = BASE_ADDRESS + (points * 4).next_multiple_of(PAGE_BYTES) + PAGE_BYTES;
        let own = |op: &&Op| (sums..sums + 5 * 136).contains(&op.word) && op.kind_code() == 2;
        let centres: Vec<u64> = ops.iter().filter(own).map(|op| (op.word - sums) / 136).collect();
        // Nine stores a point.
        assert_eq!(centres.len() as u64, 2 * points * 9);
        let (first, second) = centres.split_at(points as usize * 9);
        for iteration in [first, second] {
            let mut nearest = [0; 5];
            iteration.chunks(9).for_each(|point| nearest[point[0] as usize] += 1);
            goodness::are_alike(&nearest);
        }
        let moved = first.chunks(9).zip(second.chunks(9)).filter(|(one, other)| one != other);
        goodness::have_share(moved.count() as u64, points, 0.8);
    }
}
