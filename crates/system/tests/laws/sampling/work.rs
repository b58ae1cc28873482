//! Workloads on which sampled runs are compared with complete ones.

use tierscope_kernel::random::Counter;
use tierscope_workload::op::{Call, FLAG_DEPENDENT, MAP_WRITABLE, NO_FILE};
use tierscope_workload::{Op, Pull, Stream, StreamError, ThreadId, generator};

const BASE: u64 = 1 << 40;
const LINE_BYTES: u64 = 64;
const PAGE_BYTES: u64 = 4096;

/// The workloads' names, each with what it does.
pub const WORKLOADS: [(&str, &str); 12] = [
    ("uniform", "updates of elements drawn uniformly"),
    ("two threads", "the same, by two threads"),
    ("mixed", "updates, one in ten of which jumps, and the others go on in order"),
    ("strided", "updates a page apart"),
    ("small", "updates of an eighth of the memory, which fits into DRAM"),
    ("zipf", "loads of pages by Zipf's law, exponent 0.9, and a store for each ninth"),
    ("writes", "stores alone, by Zipf's law"),
    ("phases", "by turns of 400,000 accesses: uniform, in order, by Zipf's law, an eighth of it"),
    ("filter", "a scan in order with a store of one line in ten to a random place"),
    ("chase", "loads that depend on each other"),
    (
        "log",
        "updates drawn uniformly; behind each thousand, four pages appended to a file, which is synced",
    ),
    ("mail", "a mail server: files deleted, appended to, synced and read by 16 threads"),
];

/// One of [`WORKLOADS`] over so much memory, without an end that matters: a run is bounded by a limit.
pub fn work(name: &str, bytes: u64, seed: u64) -> Box<dyn Stream> {
    let generate = |name: &str, parameters: &[(String, serde_json::Value)]| {
        let generator = generator::find(name).expect("it is built in");
        generator.make(parameters, seed).expect("its parameters are right").0
    };
    let gups = |sets: &[(&str, serde_json::Value)]| {
        let table = ("table".to_owned(), format!("{bytes}B").into());
        let updates = ("updates".to_owned(), (1u64 << 40).into());
        let mut parameters = vec![table, updates];
        for (name, value) in sets {
            parameters.retain(|(known, _)| known != name);
            parameters.push(((*name).to_owned(), value.clone()));
        }
        generate("gups", &parameters)
    };
    match name {
        "uniform" => gups(&[]),
        "two threads" => gups(&[("threads", 2.into())]),
        "mixed" => gups(&[("random", 0.1.into())]),
        "strided" => gups(&[("random", 0.into()), ("step", "4KiB".into())]),
        "mail" => {
            let files = ("files".to_owned(), (bytes >> 16).into());
            generate("filebench/varmail", &[files, ("loops".to_owned(), 100_000.into())])
        }
        "small" => gups(&[("table", format!("{}B", bytes / 8).into())]),
        _ => Box::new(Walk::new(name, bytes, seed)),
    }
}

/// Accesses drawn by their number alone.
#[derive(Clone)]
struct Walk {
    kind: String,
    bytes: u64,
    draws: Counter,
    position: u64,
}

impl Walk {
    fn new(kind: &str, bytes: u64, seed: u64) -> Self {
        Walk { kind: kind.to_owned(), bytes, draws: Counter::stream(seed, kind), position: 0 }
    }

    fn uniform(&self, index: u64, bytes: u64) -> u64 {
        self.draws.below_at(2 * index, bytes / LINE_BYTES) * LINE_BYTES
    }

    fn in_order(&self, index: u64) -> u64 {
        index * 8 % self.bytes
    }

    /// The inverse of the continuous law; neighbours in rank lie far apart.
    fn zipf(&self, index: u64) -> u64 {
        let pages = self.bytes / PAGE_BYTES;
        let share = 1.0 - 0.9;
        let most = (pages as f64).powf(share);
        let rank =
            (self.draws.unit_at(2 * index) * (most - 1.0) + 1.0).powf(1.0 / share) as u64 - 1;
        let page = rank.min(pages - 1).wrapping_mul(0x9E37_79B1) % pages;
        page * PAGE_BYTES + self.draws.below_at(2 * index + 1, PAGE_BYTES / LINE_BYTES) * LINE_BYTES
    }

    fn op(&self, index: u64) -> Op {
        let at = |offset: u64| BASE + offset;
        match self.kind.as_str() {
            "zipf" if index % 9 == 8 => Op::store(at(self.zipf(index)), 8, 4),
            "zipf" => Op::load(at(self.zipf(index)), 8, 4),
            "writes" => Op::store(at(self.zipf(index)), 8, 6),
            "phases" => Op::load(
                at(match index / 400_000 % 4 {
                    0 => self.uniform(index, self.bytes),
                    1 => self.in_order(index),
                    2 => self.zipf(index),
                    _ => self.uniform(index, self.bytes / 8),
                }),
                8,
                4,
            ),
            "filter" if self.draws.at(2 * index + 1).is_multiple_of(80) => {
                Op::store(at(self.uniform(index, self.bytes / 2) + self.bytes / 2), 8, 6)
            }
            "filter" => Op::load(at(self.in_order(index) / 2), 8, 6),
            // Of each node of a list a value, and where the next lies.
            "nodes" => {
                let node = at(self.uniform(index / 2, self.bytes));
                let (place, loads_back) = if index.is_multiple_of(2) { (8, 1) } else { (0, 2) };
                Op::load(node + place, 8, 4).depending_on(loads_back)
            }
            "log" => Op::store(at(self.uniform(index, self.bytes)), 8, 6),
            _ => Op::load(at(self.uniform(index, self.bytes)), 8, 6).with_flags(FLAG_DEPENDENT),
        }
    }

    /// What comes before a part of the log's updates: those before them are appended, and synced.
    fn append(&self, turn: u64, out: &mut Vec<Op>) {
        let length = 4 * PAGE_BYTES;
        let offset = turn * length % (self.bytes / 4);
        match turn {
            0 => Call::Open { file: 1, size: self.bytes / 4 }.encode(1, out),
            _ => {
                Call::Write { file: 1, offset, length, address: BASE + offset }.encode(1, out);
                Call::SyncData { file: 1 }.encode(1, out);
            }
        }
    }
}

impl Stream for Walk {
    fn pull(&mut self, _: ThreadId, limit: usize, out: &mut Vec<Op>) -> Result<Pull, StreamError> {
        if self.position == 0 {
            let (address, length, flags) = (BASE, self.bytes, MAP_WRITABLE);
            Call::Map { address, length, flags, file: NO_FILE, offset: 0 }.encode(1, out);
        }
        for _ in 0..limit {
            if self.kind == "log" && self.position.is_multiple_of(1_000) {
                self.append(self.position / 1_000, out);
            }
            out.push(self.op(self.position));
            self.position += 1;
        }
        Ok(Pull::More)
    }

    fn fork(&self) -> Box<dyn Stream> {
        Box::new(self.clone())
    }
}
