//! `ycsb/a` to `ycsb/f`: the core workloads of the Yahoo! Cloud Serving Benchmark over a store of records in
//! memory (Cooper and others, "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010, §4, Table 2; defaults
//! of its `CoreWorkload`: ten fields of 100 bytes, all of which are read and one of which is updated).
//!
//! Records are found by a hash table of chains, or by a B+ tree of nodes of 256 bytes, whose nodes and
//! records lie in random order, as a heap has them after a random load. Both are implicit. A chain's
//! record comes behind as many others as a table with as many chains as records has: each further one with
//! the chance that Poisson's law of mean 1/2 gives. Keys are hashed numbers, so that those that are asked
//! for most lie anywhere. Of each piece of operations the share that inserts is exact.

use super::indexed::share_of;
use super::prelude::{BASE_ADDRESS, Prelude};
use super::units::{Units, in_units};
use super::zipf::exponent;
use super::zipfian::Zipfian;
use super::{
    Generator, Made, PAGE_BYTES, Parameter, ParameterError, data_set, find_value, flag, integer,
    text, threads_of, wrong,
};
use crate::op::{MadeOf, Op, ThreadId};
use crate::stream::Footprint;
use serde_json::Value;
use std::sync::Arc;
use tierscope_kernel::{Counter, Permutation};

const SIZE: Parameter = Parameter {
    name: "size",
    default: "\"quick\"",
    meaning: "of the records before the first operation: quick is 64MiB, full 20GiB, the data of a \
              server in SoCC 2010, §6.1, or a size",
};
const OPERATIONS: Parameter = Parameter {
    name: "operations",
    default: "100000",
    meaning: "in all, divided over the threads. Our choice.",
};
const THREADS: Parameter = Parameter { name: "threads", default: "4", meaning: "Our choice." };
const INDEX: Parameter = Parameter {
    name: "index",
    default: "\"hash\"",
    meaning: "by which records are found: hash or b-tree. Our choice.",
};
const TREE: Parameter = Parameter {
    default: "\"b-tree\"",
    meaning: "by which records are found: b-tree, which scans need",
    ..INDEX
};
const DISTRIBUTION: Parameter = Parameter {
    name: "distribution",
    default: "\"zipfian\"",
    meaning: "of what is asked for: zipfian, uniform or latest (SoCC 2010, §4.1, Table 2)",
};
const LATEST: Parameter = Parameter { default: "\"latest\"", ..DISTRIBUTION };
const EXPONENT: Parameter = Parameter {
    name: "exponent",
    default: "0.99",
    meaning: "of Zipf's law, of zipfian and latest: YCSB's constant",
};
const INSTRUCTIONS: Parameter = Parameter {
    name: "instructions",
    default: "300",
    meaning: "of an operation beside those of its accesses: taking the request, hashing its key; \
              assumption",
};
const TOUCHED: Parameter = Parameter {
    name: "touched",
    default: "true",
    meaning: "whether each page is written to once before the region of interest, which then begins: \
              YCSB loads its records first",
};
const POINT: &[Parameter] =
    &[SIZE, OPERATIONS, THREADS, INDEX, DISTRIBUTION, EXPONENT, INSTRUCTIONS, TOUCHED];
const POINT_LATEST: &[Parameter] =
    &[SIZE, OPERATIONS, THREADS, INDEX, LATEST, EXPONENT, INSTRUCTIONS, TOUCHED];
const SCAN: &[Parameter] = &[
    SIZE,
    OPERATIONS,
    THREADS,
    TREE,
    DISTRIBUTION,
    EXPONENT,
    Parameter {
        name: "scan",
        default: "100",
        meaning: "records of the longest scan; each length up to it is as likely (YCSB's workload e)",
    },
    INSTRUCTIONS,
    TOUCHED,
];

/// Of a hundred operations: reads, updates, inserts, scans, reads with an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shares {
    reads: u64,
    updates: u64,
    inserts: u64,
    scans: u64,
}

macro_rules! workload {
    ($name:literal, $summary:literal, $parameters:ident, $reads:literal, $updates:literal, $inserts:literal, $scans:literal) => {
        Generator {
            name: $name,
            summary: $summary,
            dependences: "a record's key waits for what leads to it: the bucket, the record before it in the chain, or the tree's node, whose keys wait for its parent; what is read or written of a record waits for what led to it",
            parameters: $parameters,
            build: |parameters, seed| {
                let (reads, updates, inserts, scans) = ($reads, $updates, $inserts, $scans);
                build(parameters, seed, Shares { reads, updates, inserts, scans })
            },
        }
    };
}

/// Registration.
pub const GENERATORS: &[Generator] = &[
    workload!("ycsb/a", "records in memory: half reads, half updates", POINT, 50, 50, 0, 0),
    workload!("ycsb/b", "records in memory: 95 % reads, 5 % updates", POINT, 95, 5, 0, 0),
    workload!("ycsb/c", "records in memory: reads alone", POINT, 100, 0, 0, 0),
    workload!(
        "ycsb/d",
        "records in memory: 95 % reads of the latest, 5 % inserts",
        POINT_LATEST,
        95,
        0,
        5,
        0
    ),
    workload!("ycsb/e", "records in memory: 95 % short scans, 5 % inserts", SCAN, 0, 0, 5, 95),
    workload!(
        "ycsb/f",
        "records in memory: half reads, half reads that an update follows",
        POINT,
        50,
        0,
        0,
        0
    ),
];

/// A record: ten fields of 100 B behind a header of 24 B: key, next of the chain, length.
const RECORD_BYTES: u64 = 1024;
const HEADER_BYTES: u64 = 24;
const FIELD_BYTES: u64 = 100;
const FIELDS: u64 = 10;
const COPY_BYTES: u64 = 16;
/// A node of the tree: 16 pointers, and 15 keys before them.
const NODE_BYTES: u64 = 256;
const CHILDREN: u64 = 16;
const WORD_BYTES: u64 = 8;
/// Operations of which the share of inserts is exact.
const PIECE: u64 = 100;
/// Memory of a thread: a record's copy.
const OWN_BYTES: u64 = PAGE_BYTES;

fn build(parameters: &[(String, Value)], seed: u64, shares: Shares) -> Made {
    let bytes = data_set(parameters, "size", 64 << 20, 20 << 30)?;
    let threads = threads_of(parameters)?;
    let operations = integer(parameters, "operations", 0..=1 << 40)?;
    let tree = tree(parameters, shares)?;
    let records = bytes / RECORD_BYTES;
    let inserts = |thread| inserts_before(shares, share_of(operations, threads, thread));
    let most = records + u64::from(threads) * inserts(0).max(1);
    let scan = if shares.scans > 0 { integer(parameters, "scan", 1..=1000)? } else { 0 };
    let (latest, exponent) = match text(parameters, "distribution") {
        Some("zipfian") => (false, exponent(parameters)?),
        Some("latest") => (true, exponent(parameters)?),
        Some("uniform") => (false, 0.0),
        _ => {
            let value = find_value(parameters, "distribution");
            let mend = "write zipfian, uniform or latest";
            return Err(wrong("distribution", value, "no distribution of YCSB", mend));
        }
    };
    Ok(in_units(Ycsb {
        shares,
        records,
        most,
        operations,
        threads,
        tree,
        levels: Arc::new(levels(most)),
        scan,
        latest,
        ranks: Zipfian::new(records, exponent),
        instructions: integer(parameters, "instructions", 1..=1_000_000)? as u32,
        touched: flag(parameters, "touched")?,
        places: Arc::new(Permutation::new(seed, "ycsb/places", most)),
        keys: Arc::new(Permutation::new(seed, "ycsb/keys", most)),
        draws: (0..threads)
            .map(|thread| Counter::stream(seed, &format!("ycsb/{thread}")))
            .collect(),
    }))
}

fn tree(parameters: &[(String, Value)], shares: Shares) -> Result<bool, ParameterError> {
    match text(parameters, "index") {
        Some("b-tree") => Ok(true),
        Some("hash") if shares.scans == 0 => Ok(false),
        Some("hash") => {
            let reason = "a hash table has no order to scan";
            Err(wrong("index", find_value(parameters, "index"), reason, "write b-tree"))
        }
        _ => {
            let mend = if shares.scans == 0 { "write hash or b-tree" } else { "write b-tree" };
            Err(wrong("index", find_value(parameters, "index"), "no such index", mend))
        }
    }
}

/// Inserts among a thread's first operations: at one place, drawn, of each piece that has one.
fn inserts_before(shares: Shares, operations: u64) -> u64 {
    operations.div_ceil(PIECE) * shares.inserts
}

/// Of a tree of so many records, each level's nodes before it, and its nodes; leaves come first.
fn levels(records: u64) -> Vec<(u64, u64)> {
    let (mut below, mut before, mut all) = (records, 0, Vec::new());
    while below > 1 || all.is_empty() {
        let nodes = below.div_ceil(CHILDREN);
        all.push((before, nodes));
        before += nodes;
        below = nodes;
    }
    all
}

#[derive(Clone)]
struct Ycsb {
    shares: Shares,
    records: u64,
    /// Records once all are inserted, at most.
    most: u64,
    operations: u64,
    threads: u32,
    tree: bool,
    /// Of the tree's levels, leaves first: nodes before them, and nodes.
    levels: Arc<Vec<(u64, u64)>>,
    scan: u64,
    latest: bool,
    ranks: Zipfian,
    instructions: u32,
    touched: bool,
    /// Where in memory a record lies, by its number; and where in the order of keys it does.
    places: Arc<Permutation>,
    keys: Arc<Permutation>,
    draws: Vec<Counter>,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Read,
    Update,
    Insert,
    Scan,
    ReadAndUpdate,
}

/// Draws that each operation takes at most, by what they are for.
const RANK: u64 = 1;
const FIELD: u64 = 2;
const CHAIN: u64 = 3;
const LENGTH: u64 = 4;
const ORDER: u64 = 5;

impl Ycsb {
    /// The draw of an operation for a purpose: purposes have indices far from each other, so that the
    /// attempts of one never meet another's.
    fn draw(purpose: u64, unit: u64) -> u64 {
        purpose << 52 | unit
    }

    /// What an operation does, and the inserts of its thread before it.
    fn kind(&self, thread: ThreadId, unit: u64) -> (Does, u64) {
        let draws = &self.draws[thread as usize];
        let (piece, place) = (unit / PIECE, unit % PIECE);
        // A piece's operations come in a random order, of which the first so many places insert.
        let order = Permutation::new(draws.at(Self::draw(ORDER, piece)), "ycsb/piece", PIECE);
        let of = |place: u64| order.at(place) < self.shares.inserts;
        let inserted = if self.shares.inserts == 0 {
            0
        } else {
            (0..place).filter(|place| of(*place)).count() as u64
        };
        let Shares { reads, updates, inserts, scans } = self.shares;
        let at = order.at(place);
        let does = match at {
            _ if at < inserts => Does::Insert,
            _ if at < inserts + reads => Does::Read,
            _ if at < inserts + reads + updates => Does::Update,
            _ if at < inserts + reads + updates + scans => Does::Scan,
            _ => Does::ReadAndUpdate,
        };
        (does, piece * inserts + inserted)
    }

    /// The record that is asked for, by its number, after so many inserts of each thread.
    fn asked(&self, thread: ThreadId, unit: u64, inserted: u64) -> u64 {
        let rank = self.ranks.at(&self.draws[thread as usize], Self::draw(RANK, unit));
        if self.latest {
            let latest = self.records + inserted * u64::from(self.threads) - 1;
            return latest - rank.min(latest);
        }
        rank
    }

    // ---- Memory -------------------------------------------------------------------------------

    fn record(&self, number: u64) -> u64 {
        BASE_ADDRESS + self.places.at(number) * RECORD_BYTES
    }

    fn index_address(&self) -> u64 {
        BASE_ADDRESS + (self.most * RECORD_BYTES).next_multiple_of(PAGE_BYTES)
    }

    fn index_bytes(&self) -> u64 {
        let bytes = if self.tree {
            self.levels.iter().map(|(_, nodes)| nodes * NODE_BYTES).sum()
        } else {
            self.most * WORD_BYTES
        };
        bytes.next_multiple_of(PAGE_BYTES)
    }

    fn own(&self, thread: ThreadId) -> u64 {
        self.index_address() + self.index_bytes() + u64::from(thread) * OWN_BYTES
    }

    fn memory_bytes(&self) -> u64 {
        self.own(self.threads) - BASE_ADDRESS
    }

    // ---- Operations ---------------------------------------------------------------------------

    /// Finds a record by its key; appends what that takes, the record's header included.
    fn find(&self, thread: ThreadId, unit: u64, number: u64, out: &mut Vec<Op>) {
        out.push(Op::load(self.own(thread), WORD_BYTES as u16, self.instructions));
        if self.tree {
            self.descend(self.keys.at(number), out);
        } else {
            let chain = self.index_address() + self.keys.at(number) * WORD_BYTES;
            out.push(Op::load(chain, WORD_BYTES as u16, 3));
            // Poisson's law of mean 1/2, by inversion: 0.607, 0.303, 0.076, ...
            let draws = &self.draws[thread as usize];
            let mut left = draws.unit_at(Self::draw(CHAIN, unit));
            let mut chance = 0.606_530_659_712_633_4;
            let mut others = 0;
            while left >= chance && others < 16 {
                left -= chance;
                others += 1;
                chance *= 0.5 / others as f64;
            }
            for other in 1..=others {
                let other = draws.below_at(Self::draw(CHAIN + 8 * other, unit), self.records);
                out.extend(Self::header(self.record(other)));
            }
        }
        out.extend(Self::header(self.record(number)));
    }

    /// The comparison with a record's key, and the pointer that leads there.
    fn header(at: u64) -> [Op; 2] {
        let mut record = MadeOf::LAST;
        [at, at + WORD_BYTES].map(|at| record.next(Op::load(at, WORD_BYTES as u16, 2)))
    }

    /// Goes down the tree to a place in the order of keys: in each node four of fifteen keys are compared,
    /// then a pointer is followed.
    fn descend(&self, place: u64, out: &mut Vec<Op>) {
        for (level, (before, nodes)) in self.levels.iter().copied().enumerate().rev() {
            let span = CHILDREN.pow(level as u32 + 1);
            let at = self.node(before, nodes, place / span);
            let child = place % span / (span / CHILDREN);
            let (mut low, mut high) = (0, CHILDREN - 1);
            // Where the root lies needs no load.
            let is_root = level + 1 == self.levels.len();
            let mut in_node = if is_root { MadeOf::NONE } else { MadeOf::LAST };
            while low < high {
                let middle = (low + high) / 2;
                let key = Op::load(at + middle * WORD_BYTES, WORD_BYTES as u16, 3);
                out.push(in_node.next(key));
                if child <= middle { high = middle } else { low = middle + 1 }
            }
            let pointer = at + (CHILDREN - 1 + child.min(CHILDREN - 1)) * WORD_BYTES;
            out.push(in_node.next(Op::load(pointer, 8, 2)));
        }
    }

    /// Where a node of a level lies: those of a level in random order.
    fn node(&self, before: u64, nodes: u64, number: u64) -> u64 {
        let scattered = Permutation::new(nodes, "ycsb/nodes", nodes).at(number.min(nodes - 1));
        self.index_address() + (before + scattered) * NODE_BYTES
    }

    /// Where a record lies was loaded before its key and its pointer.
    const FOUND: MadeOf = MadeOf::loads(3);

    /// Copies so many bytes of a record from a place on.
    fn copy(
        &self,
        thread: ThreadId,
        (number, mut found): (u64, MadeOf),
        from: u64,
        writes: bool,
        out: &mut Vec<Op>,
    ) {
        let bytes = if writes { FIELD_BYTES } else { FIELDS * FIELD_BYTES };
        let record = self.record(number) + HEADER_BYTES + from;
        let own = self.own(thread) + 64;
        for offset in (0..bytes).step_by(COPY_BYTES as usize) {
            let size = COPY_BYTES.min(bytes - offset) as u16;
            let own = |make: fn(u64, u16, u32) -> Op, count| make(own + offset, size, count);
            let mut of_record = |make: fn(u64, u16, u32) -> Op, count| {
                found.next(make(record + offset, size, count))
            };
            if writes {
                let load = own(Op::load, 1);
                out.extend([load, of_record(Op::store, 2)]);
                found.pass(load);
            } else {
                out.extend([of_record(Op::load, 1), own(Op::store, 2)]);
            }
        }
    }

    fn update(&self, thread: ThreadId, unit: u64, number: u64, out: &mut Vec<Op>) {
        let draws = &self.draws[thread as usize];
        let field = draws.below_at(Self::draw(FIELD, unit), FIELDS);
        self.copy(thread, (number, Self::FOUND), field * FIELD_BYTES, true, out);
    }

    fn insert(&self, thread: ThreadId, unit: u64, inserted: u64, out: &mut Vec<Op>) {
        let number = self.records + inserted * u64::from(self.threads) + u64::from(thread);
        self.find(thread, unit, number, out);
        for field in 0..FIELDS {
            // Where a new one lies needs no load.
            self.copy(thread, (number, MadeOf::NONE), field * FIELD_BYTES, true, out);
        }
        // Its key and its pointer; and the pointer to it.
        let at = self.record(number);
        out.extend([0, 8].map(|offset| Op::store(at + offset, WORD_BYTES as u16, 2)));
        let place = self.keys.at(number);
        let index = if self.tree {
            let (before, nodes) = self.levels[0];
            self.node(before, nodes, place / CHILDREN) + place % CHILDREN * WORD_BYTES
        } else {
            self.index_address() + place * WORD_BYTES
        };
        out.push(Op::store(index, WORD_BYTES as u16, 2));
    }

    fn scan(&self, thread: ThreadId, unit: u64, number: u64, out: &mut Vec<Op>) {
        let draws = &self.draws[thread as usize];
        let length = 1 + draws.below_at(Self::draw(LENGTH, unit), self.scan);
        self.find(thread, unit, number, out);
        let first = self.keys.at(number);
        let (before, nodes) = self.levels[0];
        for place in first..(first + length).min(self.most) {
            let leaf = self.node(before, nodes, place / CHILDREN);
            let pointer = leaf + (CHILDREN - 1 + place % CHILDREN) * WORD_BYTES;
            out.push(Op::load(pointer, WORD_BYTES as u16, 3));
            let number = self.keys.inverse(place);
            // Not all that will be inserted is there yet.
            if number < self.records {
                out.extend(Self::header(self.record(number)));
                self.copy(thread, (number, Self::FOUND), 0, false, out);
            }
        }
    }
}

impl Units for Ycsb {
    fn threads(&self) -> u32 {
        self.threads
    }

    fn prelude(&self) -> Prelude {
        let bytes = self.memory_bytes();
        Prelude::table(bytes).touch(BASE_ADDRESS, bytes, self.touched)
    }

    fn units(&self, thread: ThreadId) -> u64 {
        share_of(self.operations, self.threads, thread)
    }

    fn unit(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        let (does, inserted) = self.kind(thread, unit);
        if does == Does::Insert {
            return self.insert(thread, unit, inserted, out);
        }
        let number = self.asked(thread, unit, inserted);
        if does == Does::Scan {
            return self.scan(thread, unit, number, out);
        }
        self.find(thread, unit, number, out);
        if does != Does::Update {
            self.copy(thread, (number, Self::FOUND), 0, false, out);
        }
        if does != Does::Read {
            self.update(thread, unit, number, out);
        }
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.memory_bytes(), parameter: "size" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::stream_laws;
    use crate::generator::find;
    use crate::goodness;

    fn sets(all: &[(&str, Value)]) -> Vec<(String, Value)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    fn of(shares: Shares, tree: bool, latest: bool) -> Ycsb {
        let (records, most) = (10_000, 14_000);
        Ycsb {
            shares,
            records,
            most,
            operations: 20_000,
            threads: 1,
            tree,
            levels: Arc::new(levels(most)),
            scan: 100,
            latest,
            ranks: Zipfian::new(records, 0.99),
            instructions: 300,
            touched: false,
            places: Arc::new(Permutation::new(1, "places", most)),
            keys: Arc::new(Permutation::new(1, "keys", most)),
            draws: vec![Counter::stream(1, "test")],
        }
    }

    #[test]
    fn the_streams_laws_hold() {
        for (name, threads, index) in [
            ("ycsb/a", 1, "hash"),
            ("ycsb/d", 3, "b-tree"),
            ("ycsb/e", 2, "b-tree"),
            ("ycsb/f", 1, "b-tree"),
        ] {
            let mut sets = sets(&[
                ("size", "64KiB".into()),
                ("operations", 30.into()),
                ("threads", threads.into()),
                ("index", index.into()),
            ]);
            if name == "ycsb/e" {
                sets.push(("scan".to_owned(), 5.into()));
            }
            stream_laws(|| find(name).unwrap().make(&sets, 3).unwrap().0);
        }
    }

    /// Of 100 operations in turn, each kind has exactly its share, and inserts are numbered one by one.
    #[test]
    fn shares_are_those_of_the_workload() {
        let d = Shares { reads: 95, updates: 0, inserts: 5, scans: 0 };
        let f = Shares { reads: 50, updates: 0, inserts: 0, scans: 0 };
        for (shares, expected) in [(d, [1900, 0, 100, 0, 0]), (f, [1000, 0, 0, 0, 1000])] {
            let ycsb = of(shares, false, false);
            let mut found = [0u64; 5];
            let mut inserts = 0;
            for unit in 0..2000 {
                let (does, inserted) = ycsb.kind(0, unit);
                assert_eq!(inserted, inserts);
                inserts += u64::from(does == Does::Insert);
                found[does as usize] += 1;
            }
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_is_asked_for_follows_zipfs_law_from_the_first_or_from_the_latest() {
        let shares = Shares { reads: 95, updates: 0, inserts: 5, scans: 0 };
        let harmonic: f64 = (1..=10_000).map(|k| f64::from(k).powf(-0.99)).sum();
        let expected = 20_000.0 / harmonic;
        for latest in [false, true] {
            let ycsb = of(shares, false, latest);
            let asked = |unit: u64| {
                let (_, inserted) = ycsb.kind(0, unit);
                let number = ycsb.asked(0, unit, inserted);
                if latest { 10_000 + inserted - 1 - number } else { number }
            };
            let first = (0..20_000).filter(|unit| asked(*unit) == 0).count() as f64;
            assert!((first - expected).abs() < 6.0 * expected.sqrt(), "{first} for {expected}");
        }
    }

    /// Every chain that is followed ends at the record; a search in the tree ends in the leaf's pointer.
    #[test]
    fn a_record_is_found() {
        for tree in [false, true] {
            let ycsb = of(Shares { reads: 100, updates: 0, inserts: 0, scans: 0 }, tree, false);
            let mut others = 0;
            for unit in 0..2000 {
                let mut ops = Vec::new();
                ycsb.find(0, unit, unit % 10_000, &mut ops);
                assert_eq!(ops[ops.len() - 2].word, ycsb.record(unit % 10_000));
                others += (ops.len() - 4) / 2;
                let end = ycsb.index_address() + ycsb.index_bytes() + OWN_BYTES;
                assert!(ops.iter().all(|op| (BASE_ADDRESS..end).contains(&op.word)));
                // Four levels: 14,000 records, 16 to a node.
                assert!(!tree || ops.len() == 1 + 4 * 5 + 2, "{}", ops.len());
            }
            // Half a record in the way on average; six standard deviations of 2000 draws.
            assert!(tree || (others as f64 - 1000.0).abs() < 6.0 * 1000f64.sqrt(), "{others}");
        }
    }

    #[test]
    fn wrong_parameters_are_refused() {
        for (name, parameter, value, mend) in [
            ("ycsb/e", "index", "hash", "b-tree"),
            ("ycsb/a", "index", "list", "hash or b-tree"),
            ("ycsb/a", "distribution", "gauss", "zipfian, uniform or latest"),
        ] {
            let told = find(name).unwrap().make(&sets(&[(parameter, value.into())]), 0);
            let told = told.err().unwrap().to_string();
            assert!(told.contains(mend), "{told}");
        }
    }

    /// What each operation of a thread does, by the fields that it copies to and from records.
    fn operations(name: &str) -> Vec<(u64, u64)> {
        let given = sets(&[
            ("size", "10MiB".into()),
            ("operations", 2000.into()),
            ("threads", 1.into()),
            ("touched", false.into()),
            ("instructions", 777.into()),
        ]);
        let (mut stream, _) = find(name).unwrap().make(&given, 3).unwrap();
        let own = BASE_ADDRESS + stream.footprint().unwrap().bytes - OWN_BYTES;
        let mut ops = Vec::new();
        while stream.pull(0, 1 << 16, &mut ops).unwrap() == crate::stream::Pull::More {}
        let first = ops.iter().position(|op| op.instructions() == 777).unwrap();
        let all = ops[first..].chunk_by(|_, next| next.instructions() != 777);
        let stores = |of: &[Op], to_own: bool| {
            let to = |op: &&Op| op.kind_code() == 2 && (op.word >= own) == to_own;
            of.iter().filter(to).count() as u64
        };
        all.map(|of| (stores(of, true), stores(of, false))).collect()
    }

    /// SoCC 2010, Table 2: of a hundred operations in turn exactly so many of each kind, in each of the six. A record has
    /// ten fields, each copied by seven accesses of 16 B or less, or all ten by 63.
    #[test]
    fn each_workload_has_the_mix_of_its_table() {
        const READ: (u64, u64) = (63, 0);
        const UPDATE: (u64, u64) = (0, 7);
        const INSERT: (u64, u64) = (0, 73);
        const BOTH: (u64, u64) = (63, 7);
        for (name, expected) in [
            ("ycsb/a", [(READ, 50), (UPDATE, 50)]),
            ("ycsb/b", [(READ, 95), (UPDATE, 5)]),
            ("ycsb/c", [(READ, 100), (UPDATE, 0)]),
            ("ycsb/d", [(READ, 95), (INSERT, 5)]),
            ("ycsb/f", [(READ, 50), (BOTH, 50)]),
        ] {
            for piece in operations(name).chunks(100) {
                let of = |does| piece.iter().filter(|one| **one == does).count();
                assert_eq!(expected.map(|(does, _)| of(does)), expected.map(|(_, count)| count));
            }
        }
        let scans = operations("ycsb/e");
        assert_eq!(scans.len(), 2000);
        for piece in scans.chunks(100) {
            assert_eq!(piece.iter().filter(|one| **one == INSERT).count(), 5);
            let read = |one: &&(u64, u64)| one.0.is_multiple_of(63) && one.0 <= 6300 && one.1 == 0;
            assert_eq!(piece.iter().filter(read).count(), 95);
        }
    }

    /// Ranks by Zipf's law, counted from the first record or from the latest, or all alike; fields, lengths of scans
    /// and places in a piece alike; what is in the way in a chain by Poisson's law.
    #[test]
    fn what_is_drawn_follows_its_laws() {
        let d = Shares { reads: 95, updates: 0, inserts: 5, scans: 0 };
        for (latest, exponent) in [(false, 0.99), (true, 0.99), (false, 0.0)] {
            let ycsb = Ycsb { ranks: Zipfian::new(10_000, exponent), ..of(d, false, latest) };
            let mut ranks = vec![0; 10_000];
            for unit in 0..40_000 {
                let (_, inserted) = ycsb.kind(0, unit);
                let asked = ycsb.asked(0, unit, inserted);
                let rank = if latest { 10_000 + inserted - 1 - asked } else { asked };
                ranks[rank as usize] += 1;
            }
            goodness::have_weights(&ranks, (1..=10_000).map(|k| f64::from(k).powf(-exponent)));
        }
        let ycsb = of(d, false, false);
        let (mut fields, mut chains, mut places) = ([0; 10], [0; 5], [0; 100]);
        for unit in 0..20_000 {
            let mut ops = Vec::new();
            ycsb.update(0, unit, 7, &mut ops);
            fields[((ops[1].word - ycsb.record(7) - HEADER_BYTES) / FIELD_BYTES) as usize] += 1;
            ops.clear();
            ycsb.find(0, unit, 7, &mut ops);
            chains[((ops.len() - 4) / 2).min(4)] += 1;
            places[(unit % 100) as usize] += u64::from(ycsb.kind(0, unit).0 == Does::Insert);
        }
        goodness::are_alike(&fields);
        goodness::have_weights(&chains, [1.0, 0.5, 0.125, 0.5f64.powi(3) / 6.0, 0.002_887]);
        goodness::are_alike(&places);
        let ycsb = of(Shares { reads: 0, updates: 0, inserts: 5, scans: 95 }, true, false);
        let mut lengths = [0; 100];
        // A record with a hundred behind it in the order of keys.
        let number = (0..).find(|number| ycsb.keys.at(*number) == 5000).unwrap();
        for unit in 0..20_000 {
            let mut ops = Vec::new();
            ycsb.scan(0, unit, number, &mut ops);
            // Behind the search, each step loads a leaf's pointer.
            let steps = ops[23..].iter().filter(|op| op.instructions() == 3).count();
            lengths[steps - 1] += 1;
        }
        goodness::are_alike(&lengths);
    }
}
