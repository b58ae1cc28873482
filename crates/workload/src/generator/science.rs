//! `bionet`, `ptf`: queries of two scientific databases (\[NVM10\] §IV-B: BiologicalNetworks, of 35 GB, which is asked for
//! properties of genes and networks, and the Palomar Transient Factory, of 50 GB, with its six most time-critical
//! queries; both in PostgreSQL), as mixes of searches of B-trees, ranges of them, rows and scans of heaps.
//!
//! \[NVM10\] names neither tables nor queries. Those of `bionet` follow the schema that its makers describe (nodes,
//! edges between them, and any number of attributes of a node: Baitaluk and others, Nucleic Acids Research 34, 2006;
//! Kozhenkov and others, BMC Bioinformatics 11:610, 2010); those of `ptf` the steps of the pipeline that finds
//! transients within minutes (Law and others, PASP 121, 2009; Rusu, Nugent and Wu, DNIS 2014: candidates of an image
//! difference, pruning, their context). Sizes of tables, rows and queries are assumptions.
//!
//! A session is a thread. It takes its queries at random, by their weights, and each query what it asks for. Pages
//! go through shared buffers, where the upper levels of all indexes stay, as many as fit half of them; all others
//! are read from their file anew, as the many others between two uses would have it. Nothing is written.

mod tables;

use super::indexed::share_of;
use super::prelude::{BASE_ADDRESS, Prelude, TOUCHED};
use super::units::{Units, in_units};
use super::{
    Generator, Made, Parameter, data_set, find_value, flag, integer, size, text, threads_of, wrong,
};
use crate::op::{Call, FLAG_ATOMIC, MadeOf, Op, ThreadId};
use crate::stream::{FileInfo, Footprint};
use serde_json::Value;
use std::sync::Arc;
use tables::{Index, PAGE_BYTES, ROW_HEADER_BYTES, Table};
use tierscope_kernel::{Counter, Permutation};

const QUERIES: Parameter = Parameter {
    name: "queries",
    default: "2000",
    meaning: "in all, divided over the threads. Our choice",
};
const THREADS: Parameter = Parameter {
    name: "threads",
    default: "4",
    meaning: "sessions, each of which has one query under way. Our choice: [NVM10] does not say",
};
const BUFFERS: Parameter = Parameter {
    name: "buffers",
    default: "\"auto\"",
    meaning: "shared buffers: auto is 32MiB for the full size, 4MiB else (PostgreSQL 8.4: shared_buffers, 32 MB)",
};
const SCAN: Parameter = Parameter {
    name: "scan",
    default: "256",
    meaning: "pages of 8KiB that a scan reads; assumption",
};
const PLAN: Parameter = Parameter {
    name: "plan_instructions",
    default: "200000",
    meaning: "of a query before its first row: it is parsed and planned; assumption",
};
const ROW: Parameter = Parameter {
    name: "row_instructions",
    default: "1500",
    meaning: "of a row that is found and taken, a fifth of it where it is scanned; assumption",
};

/// Makes the parameters of a database: its size, and the weights of its queries.
macro_rules! parameters {
    ($size:literal; $( $name:literal, $weight:literal, $meaning:literal; )*) => {
        &[
            Parameter { name: "size", default: "\"quick\"", meaning: $size },
            QUERIES,
            $( Parameter { name: $name, default: $weight, meaning: $meaning }, )*
            THREADS, BUFFERS, SCAN, PLAN, ROW, TOUCHED,
        ]
    };
}

/// Which accesses wait for which.
const DEPENDENCES: &str = "a buffer's descriptor waits for the table that names it, each key of a search for its pointer, and a row for its pointer";

/// Registration.
pub const GENERATORS: &[Generator] = &[
    Generator {
        name: "bionet",
        summary: "queries for genes, their properties and networks (BiologicalNetworks, [NVM10])",
        dependences: DEPENDENCES,
        parameters: parameters!(
            "of the database: quick is 140MiB, full 35GiB ([NVM10] §IV-B: 35 GB), or a size";
            "properties", "50", "weight of queries for a node by its name, and its attributes; assumption";
            "neighbours", "35", "weight of queries for the edges of a node, and the nodes there; assumption";
            "module", "10", "weight of queries for the neighbours of neighbours of a node; assumption";
            "search", "5", "weight of queries that look through attributes without an index; assumption";
        ),
        build: |parameters, seed| build(parameters, seed, &BIONET, (140 << 20, 35 << 30)),
    },
    Generator {
        name: "ptf",
        summary: "six queries for transients among what a survey of the sky has found (Palomar Transient Factory, [NVM10])",
        dependences: DEPENDENCES,
        parameters: parameters!(
            "of the database: quick is 200MiB, full 50GiB ([NVM10] §IV-B: 50 GB), or a size";
            "newest", "1", "weight of queries for the candidates of the newest image difference; assumption, as of all";
            "position", "1", "weight of queries for what lies around a candidate in the sky, in four bands";
            "history", "1", "weight of queries for earlier detections at a candidate's place";
            "score", "1", "weight of queries that look through the last nights for what is no artefact";
            "matching", "1", "weight of queries that look up each candidate of an image among known objects";
            "counts", "1", "weight of queries that count the detections of a field by its index";
        ),
        build: |parameters, seed| build(parameters, seed, &PTF, (200 << 20, 50 << 30)),
    },
];

/// A database: tables, with bytes of a row, header included, and share of a hundred of the whole with the
/// index; and for each an index, whose order is that of its rows or is not.
struct Database {
    name: &'static str,
    tables: &'static [(&'static str, u64, u64, bool)],
    queries: &'static [(&'static str, &'static [Step])],
}

/// What a query does, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// In a table's index, so many places anywhere, each with so many entries one after the other, and their rows.
    Rows { table: usize, places: u64, entries: u64 },
    /// The same among the newest thousandth of the entries.
    Newest { table: usize, places: u64, entries: u64 },
    /// Entries alone.
    Entries { table: usize, entries: u64 },
    /// Pages of a heap one after the other, from anywhere or among the newest.
    Scan { table: usize, newest: bool },
}

/// Nodes lie in the order of their index, edges in that of the node that they come from; attributes came as sources were
/// read, and lie anywhere.
const NODES: usize = 0;
const EDGES: usize = 1;
const ATTRIBUTES: usize = 2;
const BIONET: Database = Database {
    name: "bionet",
    tables: &[("nodes", 256, 10, true), ("edges", 96, 40, true), ("attributes", 160, 50, false)],
    queries: &[
        (
            "properties",
            &[
                Step::Rows { table: NODES, places: 1, entries: 1 },
                Step::Rows { table: ATTRIBUTES, places: 1, entries: 12 },
            ],
        ),
        (
            "neighbours",
            &[
                Step::Rows { table: NODES, places: 1, entries: 1 },
                Step::Rows { table: EDGES, places: 1, entries: 16 },
                Step::Rows { table: NODES, places: 16, entries: 1 },
            ],
        ),
        (
            "module",
            &[
                Step::Rows { table: EDGES, places: 1, entries: 16 },
                Step::Rows { table: EDGES, places: 16, entries: 16 },
                Step::Rows { table: NODES, places: 64, entries: 1 },
            ],
        ),
        ("search", &[Step::Scan { table: ATTRIBUTES, newest: false }]),
    ],
};

/// Candidates lie in the order of time, and are asked for by it; the same rows by their place in the sky, which is
/// another index, come anywhere; known objects lie by place.
const CANDIDATES: usize = 0;
const PLACES: usize = 1;
const OBJECTS: usize = 2;
const PTF: Database = Database {
    name: "ptf",
    tables: &[
        ("candidates", 240, 35, true),
        ("detections", 160, 40, false),
        ("objects", 128, 25, true),
    ],
    queries: &[
        ("newest", &[Step::Newest { table: CANDIDATES, places: 1, entries: 200 }]),
        ("position", &[Step::Rows { table: PLACES, places: 4, entries: 8 }]),
        (
            "history",
            &[
                Step::Newest { table: CANDIDATES, places: 1, entries: 1 },
                Step::Rows { table: PLACES, places: 1, entries: 32 },
            ],
        ),
        ("score", &[Step::Scan { table: CANDIDATES, newest: true }]),
        (
            "matching",
            &[
                Step::Newest { table: CANDIDATES, places: 1, entries: 100 },
                Step::Rows { table: OBJECTS, places: 100, entries: 2 },
            ],
        ),
        ("counts", &[Step::Entries { table: PLACES, entries: 4096 }]),
    ],
};

/// A file of a relation has a gigabyte at most (`RELSEG_SIZE`).
const FILE_PAGES: u64 = (1 << 30) / PAGE_BYTES;
/// Of a shared buffer, what describes it; of the table that finds it, an entry. Memory of a session: rows that it
/// has taken.
const DESCRIPTOR_BYTES: u64 = 64;
const BUCKET_BYTES: u64 = 64;
const OWN_BYTES: u64 = 64 << 10;
/// Instructions of a call beside those of rows, and of a look at a page: our assumptions.
const CALL_INSTRUCTIONS: u32 = 200;
const PAGE_INSTRUCTIONS: u32 = 60;
/// No address of a buffer.
const NONE: u64 = 0;
/// The newest are one of so many.
const NEWEST: u64 = 1000;

fn build(
    parameters: &[(String, Value)],
    seed: u64,
    database: &'static Database,
    sizes: (u64, u64),
) -> Made {
    let bytes = data_set(parameters, "size", sizes.0, sizes.1)?;
    let all = bytes / PAGE_BYTES;
    if all < 512 {
        let (reason, mend) = ("fewer than 512 pages of 8KiB", "write 4MiB or more");
        return Err(wrong("size", find_value(parameters, "size"), reason, mend));
    }
    let threads = threads_of(parameters)?;
    let buffers_bytes = match text(parameters, "buffers") {
        Some("auto") if text(parameters, "size") == Some("full") => 32 << 20,
        Some("auto") => 4 << 20,
        _ => size(parameters, "buffers")?,
    };
    let buffers = buffers_bytes / PAGE_BYTES;
    if buffers < 16 + 16 * u64::from(threads) || buffers_bytes > 1 << 50 {
        let reason = "fewer than sixteen pages of 8KiB a thread, and sixteen";
        return Err(wrong(
            "buffers",
            find_value(parameters, "buffers"),
            reason,
            "write more, or auto",
        ));
    }
    let mut weights = Vec::new();
    for (name, _) in database.queries {
        weights.push(integer(parameters, name, 0..=1_000_000)?);
    }
    let (first, _) = database.queries[0];
    if weights.iter().sum::<u64>() == 0 {
        let reason = "all queries have a weight of 0";
        return Err(wrong(
            first,
            find_value(parameters, first),
            reason,
            "write 1 for one at least",
        ));
    }
    let (mut tables, mut next) = (Vec::new(), 0);
    for (_, row_bytes, share, _) in database.tables {
        let (table, index) = table_of(next, all * share / 100, *row_bytes);
        next = index.relation.first + index.relation.pages;
        tables.push((table, index));
    }
    let orders = tables.iter().zip(database.tables);
    let orders = orders.map(|((table, _), (name, ..))| Permutation::new(seed, name, table.rows));
    Ok(in_units(Science {
        orders: Arc::new(orders.collect()),
        kept: Arc::new(kept(&tables, buffers / 2)),
        tables: Arc::new(tables),
        database,
        pages: next,
        weights: Arc::new(weights),
        queries: integer(parameters, "queries", 0..=1 << 40)?,
        threads,
        buffers,
        scan: integer(parameters, "scan", 1..=1 << 30)?,
        plan: integer(parameters, "plan_instructions", 1..=1 << 30)? as u32,
        row: integer(parameters, "row_instructions", 20..=1 << 30)? as u32,
        touched: flag(parameters, "touched")?,
        draws: (0..threads)
            .map(|thread| Counter::stream(seed, &format!("{}/{thread}", database.name)))
            .collect(),
    }))
}

/// The largest table that has so many pages with its index, at least two rows' worth.
fn table_of(first: u64, pages: u64, row_bytes: u64) -> (Table, Index) {
    let of = |heap: u64| {
        let table = Table::new(first, heap, row_bytes);
        (table, Index::new(first + heap, table.rows))
    };
    let (mut low, mut high) = (1, pages.max(1));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if middle + of(middle).1.relation.pages <= pages { low = middle } else { high = middle - 1 }
    }
    of(low)
}

/// Of each index, the buffer from which on its upper levels stay, by level; none of those that do not.
fn kept(tables: &[(Table, Index)], most: u64) -> Vec<Vec<Option<u64>>> {
    let deepest = tables.iter().map(|(_, index)| index.levels.len()).max().unwrap_or(0);
    let mut all: Vec<Vec<Option<u64>>> =
        tables.iter().map(|(_, index)| vec![None; index.levels.len()]).collect();
    let mut taken = 0;
    // Roots first, of all indexes, as they are used most.
    for from_root in 0..deepest {
        for (kept, (_, index)) in all.iter_mut().zip(tables) {
            let Some(level) = index.levels.len().checked_sub(from_root + 1) else { continue };
            let (_, pages) = index.levels[level];
            if level > 0 && taken + pages <= most {
                kept[level] = Some(taken);
                taken += pages;
            }
        }
    }
    all
}

#[derive(Clone)]
struct Science {
    database: &'static Database,
    tables: Arc<Vec<(Table, Index)>>,
    /// Rows in the order of their index, where that is not that of the heap.
    orders: Arc<Vec<Permutation>>,
    kept: Arc<Vec<Vec<Option<u64>>>>,
    pages: u64,
    weights: Arc<Vec<u64>>,
    queries: u64,
    threads: u32,
    buffers: u64,
    scan: u64,
    plan: u32,
    row: u32,
    touched: bool,
    draws: Vec<Counter>,
}

/// A query under way: its thread and number, what it has drawn and read so far, and the page it looked at last
/// of those that do not stay, with its buffer; and the address of the leaf that it reads entries of, which stays until it
/// goes on to another (its buffer is pinned: `so->currPos.buf`, access/nbtree/nbtree.c).
struct Query<'a> {
    thread: ThreadId,
    number: u64,
    drawn: u64,
    read: u64,
    last: (u64, u64),
    pinned: u64,
    out: &'a mut Vec<Op>,
}

impl Science {
    /// The query that a thread's `number`-th is.
    fn kind(&self, thread: ThreadId, number: u64) -> usize {
        let all = self.weights.iter().sum();
        let mut left = self.draws[thread as usize].below_at(number << 20, all);
        let kind = self.weights.iter().position(|weight| {
            let found = left < *weight;
            left = left.saturating_sub(*weight);
            found
        });
        kind.unwrap_or(0)
    }

    fn draw(&self, query: &mut Query<'_>, below: u64) -> u64 {
        query.drawn += 1;
        let at = query.number << 20 | query.drawn;
        self.draws[query.thread as usize].below_at(at, below.max(1))
    }

    // ---- Memory: buffers, what describes them, the table that finds them, what sessions have -------

    fn descriptor(&self, buffer: u64) -> u64 {
        BASE_ADDRESS + self.buffers * PAGE_BYTES + buffer * DESCRIPTOR_BYTES
    }

    fn bucket(&self, page: u64) -> u64 {
        self.descriptor(self.buffers) + page % self.buffers * BUCKET_BYTES
    }

    fn own(&self, thread: ThreadId) -> u64 {
        let after = self.descriptor(self.buffers) + self.buffers * BUCKET_BYTES;
        after.next_multiple_of(super::PAGE_BYTES) + u64::from(thread) * OWN_BYTES
    }

    fn memory_bytes(&self) -> u64 {
        self.own(self.threads) - BASE_ADDRESS
    }

    /// Looks at a page: finds its buffer, counts it, and reads the page from its file if it is not there. Its
    /// address.
    fn page(&self, page: u64, stays: Option<u64>, query: &mut Query<'_>) -> u64 {
        if stays.is_none() && query.last.0 == page {
            return query.last.1;
        }
        let mut take = || {
            // Behind those that stay, each thread has its share, and takes them in turn.
            let first = self.buffers / 2;
            let of_a_thread = (self.buffers - first) / u64::from(self.threads);
            let turn = (query.number * 7 + query.read) % of_a_thread;
            query.read += 1;
            first + u64::from(query.thread) * of_a_thread + turn
        };
        let address_of = |buffer: u64| BASE_ADDRESS + buffer * PAGE_BYTES;
        let mut buffer = stays.unwrap_or_else(&mut take);
        if stays.is_none() && address_of(buffer) == query.pinned {
            buffer = take();
        }
        let address = address_of(buffer);
        query.out.push(Op::load(self.bucket(page), 8, PAGE_INSTRUCTIONS));
        let descriptor = Op::store(self.descriptor(buffer), 8, 4);
        query.out.push(descriptor.with_flags(FLAG_ATOMIC).depending_on(1));
        if stays.is_none() {
            let (file, number) = self.file(page);
            let (offset, length) = (number * PAGE_BYTES, PAGE_BYTES);
            Call::Read { file, offset, length, address }.encode(CALL_INSTRUCTIONS, query.out);
            query.last = (page, address);
        }
        query.out.push(Op::load(address, 8, 2));
        address
    }

    /// The relations with their names: a heap and an index of each table.
    fn relations(&self) -> impl Iterator<Item = (tables::Relation, String)> + '_ {
        self.tables.iter().zip(self.database.tables).flat_map(|((table, index), (name, ..))| {
            [(table.relation, (*name).to_owned()), (index.relation, format!("{name}_index"))]
        })
    }

    /// File of a page, and its number there.
    fn file(&self, page: u64) -> (u32, u64) {
        let mut files = 0;
        for (table, index) in self.tables.iter() {
            for relation in [table.relation, index.relation] {
                if page < relation.first + relation.pages {
                    let number = page - relation.first;
                    return (files + (number / FILE_PAGES) as u32, number % FILE_PAGES);
                }
                files += relation.pages.div_ceil(FILE_PAGES) as u32;
            }
        }
        unreachable!("a page is of a relation")
    }

    // ---- Steps --------------------------------------------------------------------------------

    /// Goes down an index to an entry; the leaf's address.
    fn descend(&self, table: usize, entry: u64, query: &mut Query<'_>) -> u64 {
        let mut address = 0;
        for (page, level, place, entries) in self.tables[table].1.search(entry) {
            address = self.page(page, self.kept[table][level], query);
            let (mut low, mut high) = (0, entries);
            while low < high {
                let middle = low + (high - low) / 2;
                query.out.push(Op::load(address + tables::pointer(middle), 4, 4));
                let key = Op::load(address + tables::entry(middle) + 8, 8, 20);
                query.out.push(key.depending_on(1));
                if middle == place {
                    break;
                }
                if middle < place { low = middle + 1 } else { high = middle }
            }
        }
        address
    }

    /// Entries from one on, up to the index's end; with their rows, if those are asked for.
    fn entries(&self, table: usize, first: u64, count: u64, rows: bool, query: &mut Query<'_>) {
        let (heap, index) = &self.tables[table];
        let mut leaf = self.descend(table, first, query);
        query.pinned = leaf;
        for entry in first..(first + count).min(index.rows) {
            let place = entry % tables::ENTRIES;
            if entry > first && place == 0 {
                leaf = self.page(index.relation.first + entry / tables::ENTRIES, None, query);
                query.pinned = leaf;
            }
            query.out.push(Op::load(leaf + tables::pointer(place), 4, 4));
            query.out.push(Op::load(leaf + tables::entry(place), 8, 10));
            if rows {
                let (.., in_order) = self.database.tables[table];
                let row = if in_order { entry } else { self.orders[table].at(entry) };
                self.take(heap, row, self.row, query);
            }
        }
        query.pinned = NONE;
    }

    /// Takes a row: its pointer, its header, and its contents, which are copied to what the session has.
    fn take(&self, heap: &Table, row: u64, instructions: u32, query: &mut Query<'_>) {
        let (page, number, at) = heap.find(row);
        let address = self.page(page, None, query);
        query.out.push(Op::load(address + tables::pointer(number), 4, 4));
        let mut in_row = MadeOf::LAST;
        query.out.push(in_row.next(Op::load(address + at, 8, 10)));
        query.out.push(in_row.next(Op::load(address + at + 16, 8, instructions)));
        let own = self.own(query.thread) + row % (OWN_BYTES / 512) * 512;
        for offset in (ROW_HEADER_BYTES..heap.row_bytes).step_by(32) {
            let bytes = 32.min(heap.row_bytes - offset) as u16;
            query.out.push(in_row.next(Op::load(address + at + offset, bytes, 2)));
            query.out.push(Op::store(own + offset, bytes, 2));
        }
    }

    fn scan(&self, table: usize, newest: bool, query: &mut Query<'_>) {
        let (heap, _) = &self.tables[table];
        let count = self.scan.min(heap.relation.pages);
        let last = heap.relation.pages - count;
        // Among the newest thousandth, and before it as far as a scan goes.
        let oldest = if newest { last - last.min(heap.relation.pages / NEWEST) } else { 0 };
        let first = oldest + self.draw(query, last - oldest + 1);
        for number in first..first + count {
            let address = self.page(heap.relation.first + number, None, query);
            for row in 0..heap.rows_of_a_page {
                let (_, place, at) = heap.find(number * heap.rows_of_a_page + row);
                query.out.push(Op::load(address + tables::pointer(place), 4, 4));
                query.out.push(Op::load(address + at, 8, 10).depending_on(1));
                let value = address + at + ROW_HEADER_BYTES + 8;
                query.out.push(Op::load(value, 8, self.row / 5).depending_on(2));
            }
        }
    }

    fn step(&self, step: Step, query: &mut Query<'_>) {
        let rows = |table: usize| self.tables[table].1.rows;
        match step {
            Step::Rows { table, places, entries } => {
                for _ in 0..places {
                    let first = self.draw(query, rows(table).saturating_sub(entries) + 1);
                    self.entries(table, first, entries, true, query);
                }
            }
            Step::Newest { table, places, entries } => {
                for _ in 0..places {
                    let newest = (rows(table) / NEWEST).max(entries).min(rows(table));
                    let first = rows(table) - newest;
                    let at = self.draw(query, newest.saturating_sub(entries) + 1);
                    self.entries(table, first + at, entries, true, query);
                }
            }
            Step::Entries { table, entries } => {
                let first = self.draw(query, rows(table).saturating_sub(entries) + 1);
                self.entries(table, first, entries, false, query);
            }
            Step::Scan { table, newest } => self.scan(table, newest, query),
        }
    }
}

impl Units for Science {
    fn threads(&self) -> u32 {
        self.threads
    }

    fn prelude(&self) -> Prelude {
        let mut opened = Prelude::table(self.memory_bytes());
        for (file, info) in (0..).zip(self.files()) {
            opened = opened.open(file, info.size_bytes);
        }
        opened.touch(BASE_ADDRESS, self.memory_bytes(), self.touched)
    }

    fn units(&self, thread: ThreadId) -> u64 {
        share_of(self.queries, self.threads, thread)
    }

    fn unit(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        let own = self.own(thread);
        out.push(Op::load(own, 8, self.plan / 2));
        out.push(Op::store(own, 8, self.plan - self.plan / 2));
        let (_, steps) = self.database.queries[self.kind(thread, unit)];
        let last = (u64::MAX, 0);
        let mut query = Query { thread, number: unit, drawn: 0, read: 0, last, pinned: NONE, out };
        steps.iter().for_each(|step| self.step(*step, &mut query));
    }

    fn longest(&self) -> u64 {
        // What a scan does of each page, and what is found by an index, which is less than a row of each.
        let of_pages = |(heap, _): &(Table, Index)| {
            self.scan.min(heap.relation.pages) * (3 * heap.rows_of_a_page + 16)
        };
        self.tables.iter().map(of_pages).max().unwrap_or(0)
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.pages * PAGE_BYTES + self.memory_bytes(), parameter: "size" }
    }

    fn files(&self) -> Vec<FileInfo> {
        let mut all = Vec::new();
        for (relation, name) in self.relations() {
            for number in 0..relation.pages.div_ceil(FILE_PAGES) {
                let pages = FILE_PAGES.min(relation.pages - number * FILE_PAGES);
                let name = format!("{}/{name}.{number}", self.database.name);
                all.push(FileInfo { name, size_bytes: pages * PAGE_BYTES });
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{calls_of, stream_laws};
    use crate::counts::Counts;
    use crate::generator::find;
    use crate::generator::prelude::length_of;
    use crate::goodness;
    use crate::op::OpKind;
    use crate::stream::Pull;

    fn sets(all: &[(&str, Value)]) -> Vec<(String, Value)> {
        let small = [
            ("size", Value::from("8MiB")),
            ("buffers", "640KiB".into()),
            ("queries", 12.into()),
            ("scan", 4.into()),
            ("touched", false.into()),
        ];
        small.iter().chain(all).map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    fn ops(name: &str, all: &[(&str, Value)], thread: ThreadId) -> Vec<Op> {
        let (mut stream, _) = find(name).unwrap().make(&sets(all), 3).unwrap();
        let mut ops = Vec::new();
        while stream.pull(thread, 10_000, &mut ops).unwrap() == Pull::More {}
        ops
    }

    /// Parameters in which one query alone has a weight.
    fn only<'a>(database: &Database, name: &'a str) -> Vec<(&'a str, Value)>
    where
        'static: 'a,
    {
        let others = database.queries.iter().map(|(other, _)| (*other, Value::from(0)));
        let others = others.filter(|(other, _)| *other != name);
        others.chain([(name, Value::from(1)), ("threads", 1.into())]).collect()
    }

    #[test]
    fn the_streams_laws_hold() {
        for name in ["bionet", "ptf"] {
            let given = sets(&[("threads", 2.into()), ("touched", true.into())]);
            stream_laws(|| find(name).unwrap().make(&given, 7).unwrap().0);
        }
    }

    /// \[NVM10\] §IV-B: 35 and 50 GB; quick is one of 256.
    #[test]
    fn databases_have_the_sizes_of_the_paper() {
        for (name, gigabytes) in [("bionet", 35u64), ("ptf", 50)] {
            for (size, part) in [("full", 1), ("quick", 256)] {
                let given = [("size".to_owned(), Value::from(size))];
                let (stream, _) = find(name).unwrap().make(&given, 0).unwrap();
                let bytes: u64 = stream.files().iter().map(|file| file.size_bytes).sum();
                let share = bytes as f64 / ((gigabytes << 30) / part) as f64;
                assert!((0.98..=1.0).contains(&share), "{name} {size}: {share}");
                assert!(stream.files().iter().all(|file| file.size_bytes <= 1 << 30));
            }
        }
    }

    /// Queries are drawn by their weights: chi-square at four standard deviations.
    #[test]
    fn queries_come_by_their_weights() {
        let weights = Arc::new(vec![50, 35, 10, 5, 0]);
        let (tables, pages) = (Arc::default(), 0);
        let draws = vec![Counter::stream(5, "test")];
        let (kept, orders) = (Arc::default(), Arc::default());
        let (plan, row, touched) = (1, 20, false);
        let science = Science {
            database: &BIONET,
            tables,
            orders,
            kept,
            pages,
            weights,
            queries: 0,
            threads: 1,
            buffers: 64,
            scan: 1,
            plan,
            row,
            touched,
            draws,
        };
        let mut counts = [0.0f64; 5];
        (0..20_000).for_each(|number| counts[science.kind(0, number)] += 1.0);
        let expected = [10_000.0, 7000.0, 2000.0, 1000.0];
        let off = counts.iter().zip(expected).map(|(count, all)| (count - all).powi(2) / all);
        let statistic: f64 = off.sum();
        assert!(statistic < 3.0 + 4.0 * 6f64.sqrt(), "{counts:?}");
        assert_eq!(counts[4], 0.0);
    }

    /// A query reads the pages that its steps need: of a search without index as many as it is told, of a row by its
    /// index the leaf and the row's page.
    #[test]
    fn queries_read_the_pages_of_their_steps() {
        let reads = |database: &Database, query: &str| {
            let given = only(database, query);
            let calls = calls_of(&ops(database.name, &given, 0));
            calls.iter().filter(|call| matches!(call, Call::Read { .. })).count() as u64
        };
        assert_eq!(reads(&BIONET, "search"), 12 * 4);
        assert_eq!(reads(&PTF, "score"), 12 * 4);
        // Node: leaf and row; attributes: a leaf or two, and twelve rows that lie anywhere.
        let properties = reads(&BIONET, "properties");
        assert!((12 * 14..=12 * 16).contains(&properties), "{properties}");
        // A hundred candidates side by side; a leaf and a page or two of each object.
        let matching = reads(&PTF, "matching");
        assert!((12 * 203..=12 * 330).contains(&matching), "{matching}");
        // 4096 entries: eleven leaves or twelve.
        let counts = reads(&PTF, "counts");
        assert!((12 * 12..=12 * 13).contains(&counts), "{counts}");
    }

    #[test]
    fn reads_are_within_their_files_and_accesses_within_memory() {
        for name in ["bionet", "ptf"] {
            let (stream, _) = find(name).unwrap().make(&sets(&[]), 3).unwrap();
            let (files, memory) = (stream.files(), stream.footprint().unwrap().bytes);
            let all = ops(name, &[("queries", 200.into())], 1);
            for call in calls_of(&all) {
                let Call::Read { file, offset, length, address } = call else { continue };
                assert!(offset + length <= files[file as usize].size_bytes);
                assert_eq!((length, address % PAGE_BYTES), (PAGE_BYTES, 0));
            }
            let bytes: u64 = files.iter().map(|file| file.size_bytes).sum();
            let of = BASE_ADDRESS..BASE_ADDRESS + memory - bytes;
            let (mut at, mut accesses) = (0, 0);
            while let Some(op) = all.get(at) {
                if matches!(op.kind(), Some(OpKind::Load | OpKind::Store)) {
                    assert!(
                        of.contains(&op.word) && of.contains(&(op.word + u64::from(op.size()) - 1))
                    );
                    accesses += 1;
                }
                at += length_of(*op);
            }
            assert!(accesses > 1000, "{accesses}");
        }
    }

    /// Entries are read from a buffer as long as their leaf is there.
    #[test]
    fn a_leaf_stays_while_rows_of_its_entries_are_taken() {
        // More rows, which lie anywhere, than there are buffers to take in turn.
        let mut given = only(&PTF, "history");
        given.push(("buffers", "256KiB".into()));
        let (stream, _) = find("ptf").unwrap().make(&sets(&given), 3).unwrap();
        let indexes: Vec<bool> =
            stream.files().iter().map(|file| file.name.contains("_index.")).collect();
        let all = ops("ptf", &given, 0);
        let (mut at, mut held, mut seen) = (0, std::collections::HashMap::new(), 0);
        while let Some(op) = all.get(at) {
            if let Some(Call::Read { file, address, .. }) = (op.kind() == Some(OpKind::Call))
                .then(|| Call::decode(*op, &all[at + 1..]))
                .flatten()
            {
                held.insert(address, indexes[file as usize]);
            }
            let is_entry = op.kind() == Some(OpKind::Load) && op.instructions() == 10;
            if is_entry && op.flags() == 0 && op.word < BASE_ADDRESS + (256 << 10) {
                let page = op.word - (op.word - BASE_ADDRESS) % PAGE_BYTES;
                assert_eq!(held.get(&page), Some(&true), "operation {at}");
                seen += 1;
            }
            at += length_of(*op);
        }
        assert!(seen >= 12 * 33, "{seen}");
    }

    #[test]
    fn planning_and_rows_have_the_instructions_that_they_are_given() {
        let of = |plan: u64, row: u64| {
            let mut given = only(&BIONET, "properties");
            given.extend([("plan_instructions", plan.into()), ("row_instructions", row.into())]);
            Counts::of(&ops("bionet", &given, 0)).instructions
        };
        let least = of(10, 100);
        assert_eq!(of(1010, 100) - least, 12 * 1000);
        assert_eq!(of(10, 300) - least, 12 * 13 * 200, "a node and twelve attributes");
    }

    #[test]
    fn wrong_parameters_are_refused() {
        let all = ["newest", "position", "history", "score", "matching", "counts"]
            .map(|name| (name, Value::from(0)));
        let told = find("ptf").unwrap().make(&sets(&all), 0).err().unwrap();
        assert!(told.to_string().contains("for one at least"), "{told}");
        for (name, value, mend) in [
            ("size", Value::from("1MiB"), "4MiB or more"),
            ("buffers", "64KiB".into(), "write more, or auto"),
            ("history", "-1".into(), "write a whole number"),
        ] {
            let told = find("ptf").unwrap().make(&sets(&[(name, value)]), 0).err().unwrap();
            assert!(told.to_string().contains(mend), "{told}");
        }
    }

    /// Scans begin anywhere, or at any of the newest pages; rows that are asked for by a place are any, and the newest
    /// lie in the last thousandth.
    #[test]
    fn places_are_drawn_alike_from_all_or_from_the_newest() {
        let pages = |database: &Database, query: &str, size: &str, of: &str, every: usize| {
            let mut given = only(database, query);
            given.extend([("queries", 6000.into()), ("size", size.into())]);
            let (stream, _) = find(database.name).unwrap().make(&sets(&given), 3).unwrap();
            let files = stream.files();
            let file = files.iter().position(|file| file.name.ends_with(of)).unwrap();
            let reads = calls_of(&ops(database.name, &given, 0)).into_iter().filter_map(|call| {
                let Call::Read { file: read, offset, .. } = call else { return None };
                (read as usize == file).then_some(offset / PAGE_BYTES)
            });
            (reads.step_by(every).collect::<Vec<u64>>(), files[file].size_bytes / PAGE_BYTES)
        };
        let met = |places: Vec<u64>, first: u64, count: u64| {
            let mut met = vec![0; count as usize];
            places.iter().for_each(|place| met[(place - first) as usize] += 1);
            met
        };
        let (starts, all) = pages(&BIONET, "search", "8MiB", "attributes.0", 4);
        assert_eq!(starts.len(), 6000);
        goodness::are_alike(&met(starts, 0, all - 3));
        let (starts, all) = pages(&PTF, "score", "200MiB", "candidates.0", 4);
        let newest = all / NEWEST;
        assert!(newest >= 8, "{all}");
        goodness::are_alike(&met(starts, all - 4 - newest, newest + 1));
        let (rows, all) = pages(&BIONET, "properties", "8MiB", "nodes.0", 1);
        assert_eq!(rows.len(), 6000);
        goodness::are_alike(&met(rows, 0, all));
        let (rows, all) = pages(&PTF, "history", "200MiB", "candidates.0", 1);
        assert_eq!(rows.len(), 6000);
        // Rows of a page, and of the newest thousandth, whose first page has what is left.
        let of_a_page = (PAGE_BYTES - 24) / (240 + 4);
        let left = all * of_a_page / NEWEST - newest * of_a_page;
        let weights = (0..=newest).map(|page| if page == 0 { left } else { of_a_page } as f64);
        goodness::have_weights(&met(rows, all - newest - 1, newest + 1), weights);
    }
}
