//! `sqlite`: selects, inserts and updates of a database of keys and values (\[HAMS21\] Table III; rows,
//! pages and settings of leveldb's `db_bench_sqlite3.cc`).
//!
//! The database is mapped and was filled in the order of its keys. A select searches the index for a key
//! and the table for its row, in the mapped file (`pragma mmap_size`). A transaction that writes reads the
//! pages that it needs into SQLite's page cache, changes them there, and appends them to the write-ahead
//! log (`sqlite-wal`), by two calls of write each (`walWriteOneFrame`); once the log has 4096 pages, the
//! newest copy of each page goes from it to the database (`walCheckpoint`). Of the page cache, the upper
//! levels of the trees are always there, as many as fit half of it, and what is appended to; all other
//! pages are read anew. One thread.

mod tree;

use super::mix::Mix;
use super::prelude::{BASE_ADDRESS, Prelude};
use super::units::{Units, in_units};
use super::{
    Generator, Made, Parameter, ParameterError, data_set, find_value, integer, integer_or_auto,
    share, size, text, wrong,
};
use crate::op::{Call, FileId, MAP_SHARED, MAP_WRITABLE, NO_FILE, Op, ThreadId};
use crate::stream::{FileInfo, Footprint};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tierscope_kernel::Counter;
use tree::{
    ENTRY_BYTES, KEY_BYTES, Page, ROW_BYTES, ROW_HEADER_BYTES, TREES, Tree, Trees, VALUE_BYTES,
    Visit, most_loads, search_page,
};

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    SelectInOrder,
    SelectAtRandom,
    InsertInOrder,
    InsertAtRandom,
    Update,
}

const SIZE: Parameter = Parameter {
    name: "size",
    default: "\"quick\"",
    meaning: "of the database before the first transaction: quick is 64MiB, full the 11GiB of \
              [HAMS21] Table III, or a size; rows follow",
};
const PAGE: Parameter = Parameter {
    name: "page",
    default: "\"1KiB\"",
    meaning: "of the database, from 512B to 64KiB (db_bench_sqlite3.cc: 1024)",
};
const INSTRUCTIONS: Parameter = Parameter {
    name: "instructions",
    default: "2807",
    meaning: "of a transaction: 213G ([HAMS21] Table III, seqSel and rndSel) over each row once",
};
const LOADS: Parameter =
    Parameter { name: "loads", default: "0.26", meaning: "share of them ([HAMS21] Table III)" };
const STORES: Parameter =
    Parameter { name: "stores", default: "0.20", meaning: "share of them ([HAMS21] Table III)" };
const SYNCHRONOUS: Parameter = Parameter {
    name: "synchronous",
    default: "\"off\"",
    meaning: "what is forced to the store: off, nothing (db_bench_sqlite3.cc); normal, log and \
              database when the log is copied; full, the log at each transaction as well",
};

const fn transactions(meaning: &'static str) -> Parameter {
    Parameter { name: "transactions", default: "\"auto\"", meaning }
}

const SELECTS: &[Parameter] = &[
    SIZE,
    transactions("auto is 20000, of the full size one for each row"),
    PAGE,
    INSTRUCTIONS,
    LOADS,
    STORES,
];
const LOADS_OF_INSERTS: Parameter = Parameter { default: "0.25", ..LOADS };
const STORES_OF_INSERTS: Parameter = Parameter { default: "0.21", ..STORES };
const INSERTS: &[Parameter] = &[
    SIZE,
    transactions(
        "auto is 20000; of the full size 40G instructions ([HAMS21] Table III) in order, 44G at random",
    ),
    PAGE,
    INSTRUCTIONS,
    LOADS_OF_INSERTS,
    STORES_OF_INSERTS,
    SYNCHRONOUS,
];
const UPDATES: &[Parameter] = &[
    SIZE,
    transactions("auto is 20000; of the full size 244G instructions ([HAMS21] Table III)"),
    PAGE,
    INSTRUCTIONS,
    LOADS,
    STORES,
    SYNCHRONOUS,
];

/// Which accesses wait for which.
const DEPENDENCES: &str = "a page's header and pointers wait for what named the page, and each cell of a search for its pointer";

/// Registration.
pub const GENERATORS: &[Generator] = &[
    Generator {
        name: "sqlite/seq-select",
        summary: "rows of a mapped SQLite database read in the order of their keys",
        dependences: DEPENDENCES,
        parameters: SELECTS,
        build: |parameters, seed| build(parameters, seed, Kind::SelectInOrder),
    },
    Generator {
        name: "sqlite/rnd-select",
        summary: "rows of a mapped SQLite database read by random keys",
        dependences: DEPENDENCES,
        parameters: SELECTS,
        build: |parameters, seed| build(parameters, seed, Kind::SelectAtRandom),
    },
    Generator {
        name: "sqlite/seq-insert",
        summary: "rows appended to a SQLite database, through its write-ahead log",
        dependences: DEPENDENCES,
        parameters: INSERTS,
        build: |parameters, seed| build(parameters, seed, Kind::InsertInOrder),
    },
    Generator {
        name: "sqlite/rnd-insert",
        summary: "rows with random keys added to a SQLite database, through its write-ahead log",
        dependences: DEPENDENCES,
        parameters: INSERTS,
        build: |parameters, seed| build(parameters, seed, Kind::InsertAtRandom),
    },
    Generator {
        name: "sqlite/update",
        summary: "random rows of a SQLite database changed, through its write-ahead log",
        dependences: DEPENDENCES,
        parameters: UPDATES,
        build: |parameters, seed| build(parameters, seed, Kind::Update),
    },
];

const FILE_ADDRESS: u64 = 0x20_0000_0000;
const DATABASE: FileId = 0;
const LOG: FileId = 1;
/// Pages of the page cache, and of the log before it is copied (db_bench_sqlite3.cc).
const CACHE_PAGES: u64 = 4096;
const LOG_PAGES: u64 = 4096;
/// Of the log, its header and that of a page (sqlite.org/fileformat2.html, §4.1).
const LOG_HEADER_BYTES: u64 = 32;
const FRAME_HEADER_BYTES: u64 = 24;
/// Bytes that one instruction copies between pages.
const COPY_BYTES: u64 = 16;
/// Pages whose entries come at random are ln 2 full (Yao, "On random 2-3 trees", Acta Informatica 9,
/// 1978).
const FILL_AT_RANDOM: f64 = std::f64::consts::LN_2;
/// Instructions between two calls that write a page: our assumption.
const CALL_INSTRUCTIONS: u32 = 100;
const QUICK_TRANSACTIONS: u64 = 20_000;

fn build(parameters: &[(String, Value)], seed: u64, kind: Kind) -> Made {
    let bytes = data_set(parameters, "size", 64 << 20, 11 << 30)?;
    let page_bytes = size(parameters, "page")?;
    if !(512..=1 << 16).contains(&page_bytes) || !page_bytes.is_power_of_two() {
        let reason = "not a power of two from 512B to 64KiB";
        return Err(wrong("page", find_value(parameters, "page"), reason, "write 1KiB or 4KiB"));
    }
    let rows = Trees::rows_of(page_bytes, bytes.max(8 * page_bytes));
    let fill = if kind == Kind::InsertAtRandom { FILL_AT_RANDOM } else { 1.0 };
    let trees = Trees::new(page_bytes, rows, fill);
    let mix = mix(parameters, &trees)?;
    let auto = || {
        let full = match kind {
            Kind::SelectInOrder | Kind::SelectAtRandom => trees.rows,
            Kind::InsertInOrder => 40_000_000_000 / mix.instructions,
            Kind::InsertAtRandom => 44_000_000_000 / mix.instructions,
            Kind::Update => 244_000_000_000 / mix.instructions,
        };
        if text(parameters, "size") == Some("full") { full } else { QUICK_TRANSACTIONS }
    };
    let transactions = integer_or_auto(parameters, "transactions", 0..=1 << 40)?;
    let kept = TREES.map(|tree| kept_levels(&trees, tree));
    Ok(in_units(Sqlite {
        kind,
        transactions: transactions.unwrap_or_else(auto),
        trees: Arc::new(trees),
        mix,
        kept,
        synchronous: synchronous(parameters, kind)?,
        keys: Counter::stream(seed, "sqlite/keys"),
    }))
}

/// A transaction's mix, which has at least the loads of its searches.
fn mix(parameters: &[(String, Value)], trees: &Trees) -> Result<Mix, ParameterError> {
    let instructions = integer(parameters, "instructions", 1..=10_000_000)?;
    let mix = Mix::of(instructions, share(parameters, "loads")?, share(parameters, "stores")?);
    let least =
        most_loads(trees, Tree::Table) + most_loads(trees, Tree::Index) + ROW_BYTES.div_ceil(8);
    if mix.loads < least || mix.stores < VALUE_BYTES || mix.accesses() > instructions {
        let reason = format!(
            "with these shares it has {} loads and {} stores, and a transaction has up to {least} loads \
             and {VALUE_BYTES} stores",
            mix.loads, mix.stores
        );
        let value = find_value(parameters, "instructions");
        let mend = "write more instructions, such as 2807, or other shares";
        return Err(wrong("instructions", value, &reason, mend));
    }
    Ok(mix)
}

/// From which level on all pages of a tree stay in half of the page cache's half for it.
fn kept_levels(trees: &Trees, tree: Tree) -> usize {
    let mut pages = 0;
    (0..trees.levels(tree))
        .rev()
        .take_while(|level| {
            pages += trees.pages_of(tree, *level);
            pages <= CACHE_PAGES / 4
        })
        .last()
        .unwrap_or(trees.levels(tree))
}

/// What is forced to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Synchronous {
    Off,
    Normal,
    Full,
}

fn synchronous(parameters: &[(String, Value)], kind: Kind) -> Result<Synchronous, ParameterError> {
    match text(parameters, "synchronous") {
        _ if matches!(kind, Kind::SelectInOrder | Kind::SelectAtRandom) => Ok(Synchronous::Off),
        Some("off") => Ok(Synchronous::Off),
        Some("normal") => Ok(Synchronous::Normal),
        Some("full") => Ok(Synchronous::Full),
        _ => {
            let value = find_value(parameters, "synchronous");
            Err(wrong("synchronous", value, "no such setting", "write off, normal or full"))
        }
    }
}

#[derive(Clone)]
struct Sqlite {
    kind: Kind,
    transactions: u64,
    trees: Arc<Trees>,
    mix: Mix,
    /// Of table and index, the lowest level whose pages stay in the page cache.
    kept: [usize; 2],
    synchronous: Synchronous,
    keys: Counter,
}

impl Sqlite {
    fn writes(&self) -> bool {
        !matches!(self.kind, Kind::SelectInOrder | Kind::SelectAtRandom)
    }

    /// The row that a transaction concerns; of an insert, the one that is added.
    fn row(&self, unit: u64) -> u64 {
        match self.kind {
            Kind::SelectInOrder => unit % self.trees.rows,
            Kind::SelectAtRandom | Kind::Update => self.keys.below_at(unit, self.trees.rows),
            Kind::InsertInOrder | Kind::InsertAtRandom => self.trees.rows + unit,
        }
    }

    /// Where in the order of keys the key of a transaction belongs.
    fn rank(&self, unit: u64) -> u64 {
        match self.kind {
            Kind::InsertAtRandom => self.keys.below_at(unit, self.trees.rows),
            _ => self.row(unit),
        }
    }

    /// The leaf of a tree that a row is in.
    fn leaf(&self, tree: Tree, row: u64) -> Page {
        Page { tree, level: 0, number: row / self.trees.leaf_rows(tree) }
    }

    /// Pages that a transaction changes, in the order in which they go to the log.
    fn changed(&self, unit: u64) -> Vec<u64> {
        let trees = &self.trees;
        let above = |page: Page| {
            let level = 1.min(trees.levels(page.tree) - 1);
            let row = page.number * trees.leaf_rows(page.tree);
            let mut path = trees.search(page.tree, row);
            path.find(|visit| visit.page.level == level).map_or(page, |visit| visit.page)
        };
        let row = self.row(unit);
        let table = self.leaf(Tree::Table, row);
        if self.kind == Kind::Update {
            return vec![trees.place(table)];
        }
        let index = self.leaf(Tree::Index, self.rank(unit));
        let mut pages = vec![trees.place(table), trees.place(index)];
        if self.opens_leaf(Tree::Table, unit) {
            // The schema's page tells how many pages there are.
            pages.extend([trees.place(above(table)), 0]);
        }
        if self.opens_leaf(Tree::Index, unit) {
            pages.push(trees.place(above(index)));
            if self.kind == Kind::InsertAtRandom {
                // The page that takes half of the leaf comes behind all others.
                let last = self.leaf(Tree::Table, trees.rows + self.transactions);
                let split = unit / trees.leaf_rows(Tree::Index);
                pages.push(trees.place(last) + 2 + split);
            }
        }
        pages
    }

    /// Whether an insert needs a new leaf.
    fn opens_leaf(&self, tree: Tree, unit: u64) -> bool {
        let at = if self.kind == Kind::InsertAtRandom && tree == Tree::Index {
            unit + 1
        } else {
            self.row(unit)
        };
        at.is_multiple_of(self.trees.leaf_rows(tree))
    }

    /// Pages that went to the log before a transaction.
    fn frames(&self, unit: u64) -> u64 {
        if !self.writes() || self.kind == Kind::Update {
            return unit * u64::from(self.writes());
        }
        let rows = self.trees.rows;
        // Multiples of a leaf's rows from the first row added on.
        let opened = |first: u64, leaf: u64| (first + unit).div_ceil(leaf) - first.div_ceil(leaf);
        let table = opened(rows, self.trees.leaf_rows(Tree::Table));
        let leaf = self.trees.leaf_rows(Tree::Index);
        let index =
            if self.kind == Kind::InsertAtRandom { 2 * (unit / leaf) } else { opened(rows, leaf) };
        2 * unit + 2 * table + index
    }

    /// The first transaction since the log was copied last, as seen from one.
    fn first_since_copy(&self, unit: u64) -> u64 {
        let copies = self.frames(unit) / LOG_PAGES;
        let (mut low, mut high) = (0, unit);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.frames(middle) / LOG_PAGES >= copies { high = middle } else { low = middle + 1 }
        }
        low
    }

    fn frame_offset(&self, frame: u64) -> u64 {
        LOG_HEADER_BYTES + frame * (FRAME_HEADER_BYTES + self.trees.page_bytes)
    }

    // ---- Memory -------------------------------------------------------------------------------

    /// The thread's own lines, and behind them the page that copies of the log pass through.
    fn own(&self) -> u64 {
        BASE_ADDRESS + CACHE_PAGES * self.trees.page_bytes
    }

    /// The page cache, those lines and that page.
    fn own_bytes(&self) -> u64 {
        (CACHE_PAGES + 8) * self.trees.page_bytes
    }

    /// Where in the page cache a page is.
    fn slot(&self, page: Page, unit: u64) -> u64 {
        let half = CACHE_PAGES / 2;
        let slot = if page.level >= self.kept[page.tree as usize] {
            let above: u64 = (page.level + 1..self.trees.levels(page.tree))
                .map(|level| self.trees.pages_of(page.tree, level))
                .sum();
            (page.tree as u64 * half / 2) + (above + page.number) % (half / 2)
        } else {
            // Pages that do not stay take turns.
            half + (unit * 16 + page.tree as u64 * 8 + page.level as u64) % half
        };
        BASE_ADDRESS + slot * self.trees.page_bytes
    }

    fn mapped(&self, page: Page) -> u64 {
        FILE_ADDRESS + self.trees.place(page) * self.trees.page_bytes
    }

    /// The page in memory: of a transaction that writes, in the page cache, into which it is read if it
    /// does not stay there.
    fn fetch(&self, page: Page, unit: u64, out: &mut Vec<Op>) -> u64 {
        if !self.writes() {
            return self.mapped(page);
        }
        let slot = self.slot(page, unit);
        let stays = page.level >= self.kept[page.tree as usize] || self.is_appended_to(page);
        if !stays {
            let from = self.mapped(page);
            for offset in (0..self.trees.page_bytes).step_by(COPY_BYTES as usize) {
                out.push(Op::load(from + offset, COPY_BYTES as u16, 1));
                out.push(Op::store(slot + offset, COPY_BYTES as u16, 1));
            }
        }
        slot
    }

    /// Whether a page is at the end of its tree, and rows are added there.
    fn is_appended_to(&self, page: Page) -> bool {
        let appends = match page.tree {
            Tree::Table => matches!(self.kind, Kind::InsertInOrder | Kind::InsertAtRandom),
            Tree::Index => self.kind == Kind::InsertInOrder,
        };
        appends && page.number + 1 >= self.trees.pages_of(page.tree, page.level)
    }

    /// Searches a tree for a row; the page and cell where it ends, and where that page lies.
    fn search(&self, tree: Tree, row: u64, unit: u64, out: &mut Vec<Op>) -> (Visit, u64) {
        let mut last = None;
        for visit in self.trees.search(tree, row) {
            let address = self.fetch(visit.page, unit, out);
            search_page(visit, &self.trees, address, out);
            last = Some((visit, address));
        }
        last.expect("a tree has a root")
    }

    // ---- Transactions -------------------------------------------------------------------------

    /// What a transaction does to data, but for its commit.
    fn data(&self, unit: u64) -> Vec<Op> {
        let mut data = Vec::new();
        match self.kind {
            Kind::SelectInOrder | Kind::SelectAtRandom => self.select(unit, &mut data),
            Kind::InsertInOrder | Kind::InsertAtRandom => self.insert(unit, &mut data),
            Kind::Update => self.update(unit, &mut data),
        }
        data
    }

    fn select(&self, unit: u64, out: &mut Vec<Op>) {
        let row = self.row(unit);
        for tree in [Tree::Index, Tree::Table] {
            let at_start = row.is_multiple_of(self.trees.leaf_rows(tree)) || unit == 0;
            if self.kind == Kind::SelectInOrder && !at_start {
                self.step(tree, row, out);
            } else {
                self.search(tree, row, unit, out);
            }
        }
        let visit = self.trees.search(Tree::Table, row).last().expect("a tree has a root");
        let at = self.mapped(visit.page) + self.trees.cell_offset(visit.page, visit.cell);
        out.extend((0..ROW_BYTES.div_ceil(8)).map(|word| Op::load(at + word * 8, 8, 1)));
    }

    /// Goes to the next cell (`sqlite3BtreeNext`).
    fn step(&self, tree: Tree, row: u64, out: &mut Vec<Op>) {
        let visit = self.trees.search(tree, row).last().expect("a tree has a root");
        let address = self.mapped(visit.page);
        out.push(Op::load(address + Trees::pointer_offset(visit.page, visit.cell), 2, 1));
        out.push(Op::load(address + self.trees.cell_offset(visit.page, visit.cell), 8, 1));
    }

    fn update(&self, unit: u64, out: &mut Vec<Op>) {
        let row = self.row(unit);
        self.search(Tree::Index, row, unit, out);
        let (visit, address) = self.search(Tree::Table, row, unit, out);
        let at = address + self.trees.cell_offset(visit.page, visit.cell);
        let value = at + ROW_HEADER_BYTES + KEY_BYTES;
        out.extend((0..VALUE_BYTES.div_ceil(8)).map(|word| Op::store(value + word * 8, 8, 1)));
    }

    fn insert(&self, unit: u64, out: &mut Vec<Op>) {
        let row = self.row(unit);
        let (visit, address) = self.search(Tree::Index, self.rank(unit), unit, out);
        // Pointers behind the new one move.
        for cell in visit.cell..visit.cells {
            let pointer = address + Trees::pointer_offset(visit.page, cell);
            out.extend((cell % 4 == 0).then(|| Op::store(pointer, 8, 1)));
        }
        let entry = address + self.trees.cell_offset(visit.page, visit.cell);
        out.extend((0..ENTRY_BYTES / 8).map(|word| Op::store(entry + word * 8, 8, 1)));
        // The last leaf of the table is known: no search.
        let page = self.leaf(Tree::Table, row);
        let cell = row % self.trees.leaf_rows(Tree::Table);
        let address = self.slot(Page { number: page.number % 2, ..page }, 0);
        out.push(Op::store(address + Trees::pointer_offset(page, cell), 2, 1));
        let at = address + self.trees.cell_offset(page, cell);
        out.extend((0..ROW_BYTES.div_ceil(8)).map(|word| Op::store(at + word * 8, 8, 1)));
    }

    /// Appends the changed pages to the log.
    fn commit(&self, unit: u64, out: &mut Vec<Op>) {
        let before = self.frames(unit) - self.frames(self.first_since_copy(unit));
        for (frame, _) in (before..).zip(self.changed(unit)) {
            let (offset, address) = (self.frame_offset(frame), self.own());
            let header = Call::Write { file: LOG, offset, length: FRAME_HEADER_BYTES, address };
            header.encode(CALL_INSTRUCTIONS, out);
            let offset = offset + FRAME_HEADER_BYTES;
            let (length, address) = (self.trees.page_bytes, BASE_ADDRESS);
            Call::Write { file: LOG, offset, length, address }.encode(CALL_INSTRUCTIONS, out);
        }
        if self.synchronous == Synchronous::Full {
            Call::Sync { file: LOG }.encode(CALL_INSTRUCTIONS, out);
        }
        if self.frames(unit + 1) / LOG_PAGES > self.frames(unit) / LOG_PAGES {
            self.copy_log(unit, out);
        }
    }

    /// Copies the newest version of each page of the log to the database, in the order of the pages.
    fn copy_log(&self, unit: u64, out: &mut Vec<Op>) {
        let forces = self.synchronous != Synchronous::Off;
        if forces {
            Call::Sync { file: LOG }.encode(CALL_INSTRUCTIONS, out);
        }
        let first = self.first_since_copy(unit);
        let changed = (first..=unit).flat_map(|unit| self.changed(unit));
        let newest: BTreeMap<u64, u64> = changed.zip(0..).collect();
        let (length, address) = (self.trees.page_bytes, self.own() + self.trees.page_bytes);
        for (page, frame) in newest {
            let offset = self.frame_offset(frame) + FRAME_HEADER_BYTES;
            Call::Read { file: LOG, offset, length, address }.encode(CALL_INSTRUCTIONS, out);
            let offset = page * length;
            Call::Write { file: DATABASE, offset, length, address }.encode(CALL_INSTRUCTIONS, out);
        }
        if forces {
            Call::Sync { file: DATABASE }.encode(CALL_INSTRUCTIONS, out);
        }
    }

    fn database_bytes(&self) -> u64 {
        (self.trees.pages() * self.trees.page_bytes).next_multiple_of(super::PAGE_BYTES)
    }
}

impl Units for Sqlite {
    fn threads(&self) -> u32 {
        1
    }

    fn prelude(&self) -> Prelude {
        let opened = Prelude::default().open(DATABASE, self.database_bytes());
        let opened = if self.writes() { opened.open(LOG, 0) } else { opened };
        let mapped = opened.map(FILE_ADDRESS, self.database_bytes(), MAP_SHARED, DATABASE);
        mapped.map(BASE_ADDRESS, self.own_bytes(), MAP_WRITABLE, NO_FILE)
    }

    fn units(&self, _thread: ThreadId) -> u64 {
        self.transactions
    }

    fn unit(&self, _thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        self.mix.spread(&self.data(unit), self.own(), out);
        if self.writes() {
            self.commit(unit, out);
        }
    }

    fn condensed(&self, _thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        self.mix.condense(&self.data(unit), self.own(), out);
        if self.writes() {
            self.commit(unit, out);
        }
    }

    fn before(&self, _thread: ThreadId, unit: u64) -> Option<u64> {
        (!self.writes()).then(|| unit * self.mix.accesses())
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.database_bytes() + self.own_bytes(), parameter: "size" }
    }

    fn accesses(&self) -> Option<u64> {
        (!self.writes()).then(|| self.transactions * self.mix.accesses())
    }

    fn files(&self) -> Vec<FileInfo> {
        let database = FileInfo { name: "sqlite.db".into(), size_bytes: self.database_bytes() };
        let log = FileInfo { name: "sqlite.db-wal".into(), size_bytes: 0 };
        if self.writes() { vec![database, log] } else { vec![database] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{calls_of, stream_laws};
    use crate::counts::Counts;
    use crate::generator::find;
    use crate::goodness;
    use crate::stream::Pull;

    fn sets(all: &[(&str, Value)]) -> Vec<(String, Value)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    fn ops(name: &str, sets: &[(String, Value)]) -> Vec<Op> {
        let (mut stream, _) = find(name).unwrap().make(sets, 3).unwrap();
        let mut ops = Vec::new();
        while stream.pull(0, 10_000, &mut ops).unwrap() == Pull::More {}
        ops
    }

    #[test]
    fn the_streams_laws_hold() {
        for (name, synchronous) in [
            ("sqlite/seq-select", None),
            ("sqlite/rnd-select", None),
            ("sqlite/seq-insert", Some("full")),
            ("sqlite/rnd-insert", Some("off")),
            ("sqlite/update", Some("normal")),
        ] {
            let mut sets = sets(&[("size", "256KiB".into()), ("transactions", 8.into())]);
            sets.extend(synchronous.map(|value| ("synchronous".to_owned(), value.into())));
            stream_laws(|| find(name).unwrap().make(&sets, 3).unwrap().0);
        }
    }

    #[test]
    fn a_transaction_has_the_mix_of_table_iii() {
        for (name, loads, stores) in
            [("sqlite/seq-select", 730, 561), ("sqlite/rnd-select", 730, 561)]
        {
            let sets = sets(&[("size", "2MiB".into()), ("transactions", 500.into())]);
            let counts = Counts::of(&ops(name, &sets));
            assert_eq!((counts.loads, counts.stores), (500 * loads, 500 * stores), "{name}");
            assert!(counts.instructions - 500 * 2807 < 5000);
        }
        for (name, loads, stores) in [("sqlite/update", 730, 561), ("sqlite/rnd-insert", 702, 589)]
        {
            let sets = sets(&[("size", "64MiB".into()), ("transactions", 500.into())]);
            let counts = Counts::of(&ops(name, &sets));
            assert_eq!((counts.loads, counts.stores), (500 * loads, 500 * stores), "{name}");
        }
    }

    #[test]
    fn selects_in_order_read_each_page_of_rows_and_random_ones_all_over() {
        let size = ("size", Value::from("1MiB"));
        let trees = Trees::new(1024, Trees::rows_of(1024, 1 << 20), 1.0);
        let pages = |name: &str, transactions: u64| {
            let sets = sets(&[size.clone(), ("transactions", transactions.into())]);
            let all = ops(name, &sets);
            let of_file = all.iter().filter(|op| {
                op.kind_code() == 1 && (FILE_ADDRESS..FILE_ADDRESS + (1 << 20)).contains(&op.word)
            });
            of_file
                .map(|op| (op.word - FILE_ADDRESS) / 1024)
                .collect::<std::collections::BTreeSet<_>>()
        };
        // All pages but the schema's, once each row was read; those above leaves as well.
        assert_eq!(pages("sqlite/seq-select", trees.rows).len() as u64, trees.pages() - 1);
        assert!(pages("sqlite/rnd-select", trees.rows).len() as u64 > trees.pages() * 9 / 10);
        assert!(pages("sqlite/seq-select", 80).len() < 25);
    }

    /// What the log tells of a page is what is copied: each page once, its newest version, and the log
    /// begins anew. Offsets follow each other.
    #[test]
    fn the_log_is_appended_to_and_copied() {
        for name in ["sqlite/seq-insert", "sqlite/rnd-insert", "sqlite/update"] {
            let sets = sets(&[
                ("size", "1MiB".into()),
                ("transactions", 4500.into()),
                ("synchronous", "normal".into()),
            ]);
            let (mut next, mut copies, mut frames) = (LOG_HEADER_BYTES, 0, 0u64);
            let mut last_page = None;
            for call in calls_of(&ops(name, &sets)) {
                match call {
                    Call::Write { file: LOG, offset, length, .. } => {
                        if last_page.take().is_some() {
                            next = LOG_HEADER_BYTES;
                        }
                        assert_eq!(offset, next, "{name}");
                        next += length;
                        frames += u64::from(length == 1024);
                    }
                    Call::Read { file: LOG, offset, length: 1024, .. } => {
                        assert!(offset < next, "{name}");
                    }
                    Call::Write { file: DATABASE, offset, length: 1024, .. } => {
                        assert!(last_page.is_none_or(|last| last < offset), "{name}");
                        last_page = Some(offset);
                    }
                    Call::Sync { file: DATABASE } => copies += 1,
                    _ => {}
                }
            }
            assert_eq!(copies, frames / LOG_PAGES, "{name}: {frames} frames");
            assert!(copies > 0, "{name}");
        }
    }

    #[test]
    fn frames_are_as_many_as_changed_pages() {
        for kind in [Kind::InsertInOrder, Kind::InsertAtRandom, Kind::Update] {
            let trees = Trees::new(1024, 5003, 0.69);
            let sqlite = Sqlite {
                kind,
                transactions: 400,
                kept: TREES.map(|tree| kept_levels(&trees, tree)),
                trees: Arc::new(trees),
                mix: Mix::of(3000, 0.26, 0.2),
                synchronous: Synchronous::Off,
                keys: Counter::stream(1, "test"),
            };
            let mut frames = 0;
            for unit in 0..400 {
                assert_eq!(sqlite.frames(unit), frames, "{kind:?} {unit}");
                frames += sqlite.changed(unit).len() as u64;
            }
        }
    }

    #[test]
    fn the_full_size_is_that_of_table_iii() {
        let sets = sets(&[("size", "full".into())]);
        for (name, instructions) in [("sqlite/rnd-select", 213e9), ("sqlite/seq-select", 213e9)] {
            let (stream, _) = find(name).unwrap().make(&sets, 0).unwrap();
            let all = stream.accesses().unwrap() as f64 / 0.46;
            assert!((all / instructions - 1.0).abs() < 0.01, "{name}: {all}");
        }
    }

    #[test]
    fn wrong_parameters_are_refused() {
        for (name, value, mend) in [
            ("synchronous", Value::from("on"), "off, normal or full"),
            ("page", "1000B".into(), "1KiB or 4KiB"),
            ("instructions", 100.into(), "more instructions"),
            ("transactions", "all".into(), "or auto"),
        ] {
            let told = find("sqlite/update").unwrap().make(&sets(&[(name, value)]), 0);
            let told = told.err().unwrap().to_string();
            assert!(told.contains(mend), "{told}");
        }
    }

    fn of_kind(kind: Kind) -> Sqlite {
        let trees = Trees::new(1024, 5003, 0.69);
        Sqlite {
            kind,
            transactions: 20_000,
            kept: TREES.map(|tree| kept_levels(&trees, tree)),
            trees: Arc::new(trees),
            mix: Mix::of(3000, 0.26, 0.2),
            synchronous: Synchronous::Off,
            keys: Counter::stream(1, "test"),
        }
    }

    /// Rows that are selected or updated, and the places of keys that are inserted, are drawn alike; in order they
    /// are one after the other, and inserts add one row each.
    #[test]
    fn rows_are_in_order_or_drawn_alike() {
        let (all, rows) = (0..20_000, 5003);
        for kind in [Kind::SelectAtRandom, Kind::Update] {
            let (sqlite, mut met) = (of_kind(kind), vec![0; rows as usize]);
            all.clone().for_each(|unit| met[sqlite.row(unit) as usize] += 1);
            goodness::are_alike(&met);
        }
        let (sqlite, mut met) = (of_kind(Kind::InsertAtRandom), vec![0; rows as usize]);
        all.clone().for_each(|unit| met[sqlite.rank(unit) as usize] += 1);
        goodness::are_alike(&met);
        for kind in [Kind::InsertInOrder, Kind::InsertAtRandom] {
            let sqlite = of_kind(kind);
            assert!(all.clone().all(|unit| sqlite.row(unit) == rows + unit));
        }
        let (select, insert) = (of_kind(Kind::SelectInOrder), of_kind(Kind::InsertInOrder));
        assert!(all.clone().all(|unit| select.row(unit) == unit % rows));
        assert!(all.clone().all(|unit| insert.rank(unit) == insert.row(unit)));
    }

    /// A transaction of inserts in order has Table III's loads and stores of seqIns; what the log takes is in calls.
    #[test]
    fn inserts_in_order_have_the_mix_of_table_iii() {
        let given = sets(&[("size", "4MiB".into()), ("transactions", 500.into())]);
        let counts = Counts::of(&ops("sqlite/seq-insert", &given));
        let (mut stream, used) = find("sqlite/seq-insert").unwrap().make(&given, 3).unwrap();
        let of = |name: &str| used.iter().find(|(one, _)| one == name).unwrap().1.as_f64().unwrap();
        let part = |share: f64| 500 * (of("instructions") * share).round() as u64;
        assert_eq!((counts.loads, counts.stores), (part(of("loads")), part(of("stores"))));
        assert_eq!(
            stream.skip(0, u64::MAX).unwrap(),
            ops("sqlite/seq-insert", &given).len() as u64
        );
    }
}
