//! `bdb/btree`, `bdb/hash`: transactions on a database in the manner of Berkeley DB, each of which inserts a
//! pair of key and value or deletes one (\[NVM10\] §IV-B: 16 GB as a B+tree and as a hash table, ACID).
//!
//! Threads insert and delete in turn, so that the database stays as large. A transaction finds its page through the
//! page cache of the database, whose pages are locked and counted, and reads what is not there from the file; changes
//! it; and appends to the log what it has changed, which it forces to the store (`DB_TXN_SYNC`) before it is over.
//! What leaves the cache is written then, if it was changed, and never before what the log says of it is forced
//! (`__memp_bhwrite`, mp/mp_bh.c of Berkeley DB 4.8). At a checkpoint all that was changed is written, and
//! forced (`txn_checkpoint`). The log's files have ten megabytes each.
//!
//! All of it follows from a transaction's number: keys are drawn, trees and tables are formulas, and of the
//! cache it is known which pages stay; others leave it after each sixteenth transaction. Transactions of several
//! threads are numbered in turn, and so come to the log.

mod btree;
mod hash;
mod pages;

use super::mix::part;
use super::prelude::{BASE_ADDRESS, Prelude, TOUCHED, length_of};
use super::units::{Units, in_units};
use super::{
    Generator, Made, PAGE_BYTES, Parameter, ParameterError, data_set, find_value, flag, integer,
    size, text, threads_of, wrong,
};
use crate::op::{Call, FLAG_ATOMIC, FileId, Op, OpKind, ThreadId};
use crate::stream::{FileInfo, Footprint};
use btree::BTree;
use hash::Hash;
use pages::{Buffers, Visit};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tierscope_kernel::Counter;

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "size",
        default: "\"quick\"",
        meaning: "of the database: quick is 64MiB, full 16GiB ([NVM10] §IV-B: 16 GB), or a size; pairs follow",
    },
    Parameter {
        name: "transactions",
        default: "20000",
        meaning: "in all, divided over the threads, in turn inserts and deletions. Our choice",
    },
    Parameter {
        name: "threads",
        default: "1",
        meaning: "threads, whose transactions come to the log in turn. Our choice: [NVM10] does not say",
    },
    Parameter {
        name: "page",
        default: "\"4KiB\"",
        meaning: "of the database, from 512B to 64KiB (Berkeley DB: a block of the file system)",
    },
    Parameter {
        name: "key",
        default: "16",
        meaning: "bytes of a key; assumption, as of the rows of sqlite",
    },
    Parameter {
        name: "value",
        default: "100",
        meaning: "bytes of a value; assumption, as of the rows of sqlite",
    },
    Parameter {
        name: "cache",
        default: "\"auto\"",
        meaning: "of the database's own, in pages: auto is 1/32 of the size, 1MiB at least; assumption: [NVM10] \
                  does not say",
    },
    Parameter {
        name: "checkpoint",
        default: "5000",
        meaning: "transactions from one checkpoint to the next. Our choice: [NVM10] does not say",
    },
    Parameter {
        name: "synchronous",
        default: "\"full\"",
        meaning: "what a commit does: full forces the log to the store (ACID, [NVM10] §IV-B), write hands it to the \
                  operating system (DB_TXN_WRITE_NOSYNC)",
    },
    Parameter {
        name: "direct",
        default: "false",
        meaning: "whether pages of the database go past the page cache of the operating system (DB_DIRECT_DB)",
    },
    Parameter {
        name: "instructions",
        default: "20000",
        meaning: "of a transaction beside its accesses; assumption: some 10 us of a processor of 2010",
    },
    TOUCHED,
];

/// Which accesses wait for which.
const DEPENDENCES: &str = "a page's header waits for the entry of the cache that names its buffer, the number of its items and its slots for that, and each key of a search for its slot";

/// Registration.
pub const GENERATORS: &[Generator] = &[
    Generator {
        name: "bdb/btree",
        summary: "pairs inserted into a B+tree and deleted by transactions, with log and checkpoints",
        dependences: DEPENDENCES,
        parameters: PARAMETERS,
        build: |parameters, seed| build(parameters, seed, true),
    },
    Generator {
        name: "bdb/hash",
        summary: "pairs inserted into a hash table and deleted by transactions, with log and checkpoints",
        dependences: DEPENDENCES,
        parameters: PARAMETERS,
        build: |parameters, seed| build(parameters, seed, false),
    },
];

const DATABASE: FileId = 0;
/// The first of the log's files, and what each has (Berkeley DB Reference, `DB_ENV->set_lg_max`: 10 MB).
const LOG: FileId = 1;
const LOG_FILE_BYTES: u64 = 10 << 20;
/// What the log collects before it is written (`DB_ENV->set_lg_bsize`: 32 KB); behind it comes what goes beyond.
const LOG_BUFFER_BYTES: u64 = 32 << 10;
/// Bytes of records beside keys, values and pages, by their fields in Berkeley DB 4.8 and a header of 12 each:
/// an item added or deleted (`__db_addrem`: two a pair), a pair of a hash table (`__ham_insdel`), a commit
/// (`__txn_regop`), a split (`__bam_split`), a checkpoint (`__txn_ckp`).
const ITEM_RECORD_BYTES: u64 = 67;
const PAIR_RECORD_BYTES: u64 = 60;
const COMMIT_RECORD_BYTES: u64 = 66;
const SPLIT_RECORD_BYTES: u64 = 100;
const CHECKPOINT_RECORD_BYTES: u64 = 56;
/// Of the cache: a buffer's header, and the entry of the table by which it is found; of the table of
/// locks: as many as Berkeley DB has by default, a line each.
const BUFFER_HEADER_BYTES: u64 = 64;
const ENTRY_BYTES: u64 = 16;
const LOCKS: u64 = 1024;
const LINE_BYTES: u64 = 64;
/// Instructions of a call beside those of the transaction: our assumption, as of other workloads.
const CALL_INSTRUCTIONS: u32 = 100;
/// Transactions after which what does not stay in the cache leaves it, all at a time: at least so many.
const WINDOW: u64 = 16;

fn build(parameters: &[(String, Value)], seed: u64, tree: bool) -> Made {
    let bytes = data_set(parameters, "size", 64 << 20, 16 << 30)?;
    let page_bytes = size(parameters, "page")?;
    let threads = threads_of(parameters)?;
    let direct = flag(parameters, "direct")?;
    let least = if direct { PAGE_BYTES } else { 512 };
    if !(least..=1 << 16).contains(&page_bytes) || !page_bytes.is_power_of_two() {
        let reason = if direct {
            "not a power of two from 4KiB to 64KiB, as direct calls need"
        } else {
            "not a power of two from 512B to 64KiB"
        };
        return Err(wrong("page", find_value(parameters, "page"), reason, "write 4KiB or 8KiB"));
    }
    let (key, value) =
        (integer(parameters, "key", 4..=1024)?, integer(parameters, "value", 1..=16_384)?);
    if 2 * (key + value + 16) > page_bytes - pages::HEADER_BYTES {
        let reason = "a page has not two pairs, and Berkeley DB puts what is larger elsewhere";
        let mend = "write fewer bytes, or a larger workload.page";
        return Err(wrong("value", find_value(parameters, "value"), reason, mend));
    }
    let all = bytes / page_bytes;
    if all < 64 {
        let (reason, mend) = ("fewer than 64 pages (workload.page)", "write more, such as 1MiB");
        return Err(wrong("size", find_value(parameters, "size"), reason, mend));
    }
    let transactions = integer(parameters, "transactions", 0..=1 << 30)?;
    let structure = if tree {
        Structure::Tree(BTree::new(page_bytes, key, value, all, seed))
    } else {
        Structure::Table(Hash::new(page_bytes, key, value, all, seed))
    };
    let synchronous = match text(parameters, "synchronous") {
        Some("full") => true,
        Some("write") => false,
        _ => {
            let value = find_value(parameters, "synchronous");
            return Err(wrong("synchronous", value, "no such setting", "write full or write"));
        }
    };
    Ok(in_units(Bdb {
        buffers: buffers(parameters, bytes, page_bytes, &structure, threads, seed)?,
        structure: Arc::new(structure),
        transactions,
        threads,
        pair_bytes: key + value,
        checkpoint: integer(parameters, "checkpoint", 1..=1 << 30)?,
        synchronous,
        log_file_bytes: LOG_FILE_BYTES,
        direct,
        instructions: integer(parameters, "instructions", 0..=10_000_000)?,
        touched: flag(parameters, "touched")?,
        keys: Counter::stream(seed, "bdb/keys"),
    }))
}

fn buffers(
    parameters: &[(String, Value)],
    bytes: u64,
    page_bytes: u64,
    structure: &Structure,
    threads: u32,
    seed: u64,
) -> Result<Buffers, ParameterError> {
    let window = WINDOW.max(2 * u64::from(threads));
    let cache_bytes = match text(parameters, "cache") {
        Some("auto") => {
            let under_way = structure.depth() * window * page_bytes;
            (bytes / 32).max(1 << 20).max(2 * under_way)
        }
        _ => size(parameters, "cache")?,
    };
    let count = cache_bytes / page_bytes;
    let turns = (structure.depth(), window);
    let pages = (structure.pages(), structure.upper());
    let found = Buffers::new((page_bytes, BASE_ADDRESS), count, pages, turns, seed);
    found.filter(|_| cache_bytes <= 1 << 50).ok_or_else(|| {
        let needed = tierscope_units::Size::from_bytes((turns.0 * window + 1) * page_bytes);
        let reason = "it does not hold the pages of the transactions that are under way";
        let mend = format!("write {needed} or more, or auto");
        wrong("cache", find_value(parameters, "cache"), reason, &mend)
    })
}

/// What the pages are of.
enum Structure {
    Tree(BTree),
    Table(Hash),
}

impl Structure {
    fn pages(&self) -> u64 {
        match self {
            Structure::Tree(tree) => tree.pages(),
            Structure::Table(table) => table.pages(),
        }
    }

    /// Pages that stay in the cache before others.
    fn upper(&self) -> u64 {
        match self {
            Structure::Tree(tree) => tree.upper(),
            Structure::Table(_) => 1,
        }
    }

    /// Pages that a transaction uses at most.
    fn depth(&self) -> u64 {
        match self {
            Structure::Tree(tree) => tree.levels() + 2,
            Structure::Table(table) => 1 + table.longest(),
        }
    }
}

#[derive(Clone)]
struct Bdb {
    structure: Arc<Structure>,
    buffers: Buffers,
    transactions: u64,
    threads: u32,
    pair_bytes: u64,
    checkpoint: u64,
    synchronous: bool,
    log_file_bytes: u64,
    direct: bool,
    instructions: u64,
    touched: bool,
    keys: Counter,
}

impl Bdb {
    /// Whether a transaction, by its number over all threads, inserts; else it deletes.
    fn inserts(&self, number: u64) -> bool {
        (number / u64::from(self.threads)).is_multiple_of(2)
    }

    /// Inserts before a transaction.
    fn inserted(&self, number: u64) -> u64 {
        let threads = u64::from(self.threads);
        let (round, place) = (number / threads, number % threads);
        round.div_ceil(2) * threads + if round.is_multiple_of(2) { place } else { 0 }
    }

    /// The `n`-th split, from 0, if the transaction makes one.
    fn split(&self, number: u64) -> Option<u64> {
        let Structure::Tree(tree) = &*self.structure else { return None };
        let inserted = self.inserted(number) + 1;
        let of = tree.inserts_of_a_split();
        (self.inserts(number) && tree.levels() > 1 && inserted.is_multiple_of(of))
            .then(|| inserted / of - 1)
    }

    /// Splits before a transaction.
    fn splits(&self, number: u64) -> u64 {
        match &*self.structure {
            Structure::Tree(tree) if tree.levels() > 1 => {
                self.inserted(number) / tree.inserts_of_a_split()
            }
            _ => 0,
        }
    }

    /// The pages that a transaction uses, in their order, each once.
    fn visits(&self, number: u64) -> Vec<Visit> {
        match &*self.structure {
            Structure::Tree(tree) => {
                let mut way = tree.search(self.keys.below_at(number, tree.rows()));
                if let Some(split) = self.split(number) {
                    let leaf = way.len() - 1;
                    way[leaf - 1].changed = true;
                    let other = |page| Visit { page, cell: 0, cells: 0, leaf: false, ..way[leaf] };
                    way.extend([other(0), other(tree.pages() + split)]);
                }
                way
            }
            Structure::Table(table) => {
                // Index and bits of a number are of one draw: the lower bits are the hash.
                let drawn = self.keys.at(number);
                table.search(drawn & 0xffff_ffff, self.inserts(number), drawn >> 32)
            }
        }
    }

    /// Where in the file a page begins.
    fn offset(&self, page: u64) -> u64 {
        let place = match &*self.structure {
            Structure::Tree(tree) => tree.place(page),
            Structure::Table(_) => page,
        };
        place * self.buffers.page_bytes
    }

    // ---- The cache ----------------------------------------------------------------------------

    /// The first transaction since the buffers for what does not stay were given back, as seen from one.
    fn since_room(&self, number: u64) -> u64 {
        number / self.buffers.window * self.buffers.window
    }

    /// Which transaction has brought a page that does not stay into the cache, and as which of its own, if it
    /// is there when another begins.
    fn brought(&self, page: u64, number: u64) -> Option<(u64, u64)> {
        let mut since = self.since_room(number)..number;
        since.find_map(|user| self.use_of(page, user).map(|at| (user, at)))
    }

    fn use_of(&self, page: u64, number: u64) -> Option<u64> {
        self.visits(number).iter().position(|visit| visit.page == page).map(|at| at as u64)
    }

    /// Whether one of the transactions changes a page.
    fn is_changed(&self, page: u64, mut transactions: std::ops::Range<u64>) -> bool {
        transactions.any(|number| {
            self.visits(number).iter().any(|visit| visit.page == page && visit.changed)
        })
    }

    /// Pages that a transaction has brought into the cache, with their buffers, if they do not stay.
    fn own(&self, number: u64) -> Vec<(u64, u64)> {
        let all = self.visits(number);
        let turns = all.iter().zip(0..).filter(|(visit, _)| {
            self.buffers.fixed(visit.page).is_none() && self.brought(visit.page, number).is_none()
        });
        turns.map(|(visit, at)| (visit.page, self.buffers.turn(number, at))).collect()
    }

    /// The first transaction since the last checkpoint, as seen from one.
    fn since_checkpoint(&self, number: u64) -> u64 {
        number / self.checkpoint * self.checkpoint
    }

    /// Makes room: buffers for what does not stay are given back, all at a time, and what was changed there
    /// since the last checkpoint is written.
    fn make_room(&self, number: u64, out: &mut Vec<Op>) {
        let mut changed_pages = Vec::new();
        if number.is_multiple_of(self.buffers.window) {
            for earlier in number.saturating_sub(self.buffers.window)..number {
                let changed = earlier.max(self.since_checkpoint(number))..number;
                for (page, buffer) in self.own(earlier) {
                    if self.is_changed(page, changed.clone()) {
                        changed_pages.push((page, buffer));
                    }
                }
            }
        }
        self.write_pages(changed_pages, self.logged(number), out);
    }

    /// Writes pages, once the log is forced up to a place: a commit has done so where it is synchronous.
    fn write_pages(
        &self,
        pages: impl IntoIterator<Item = (u64, u64)>,
        logged: u64,
        out: &mut Vec<Op>,
    ) {
        let mut pages = pages.into_iter().peekable();
        if pages.peek().is_some() && !self.synchronous {
            let file = LOG + ((logged - 1) / self.log_file_bytes) as FileId;
            Call::SyncData { file }.encode(CALL_INSTRUCTIONS, out);
        }
        for (page, buffer) in pages {
            self.write_page(page, buffer, out);
        }
    }

    fn write_page(&self, page: u64, address: u64, out: &mut Vec<Op>) {
        let (file, offset, length) = (DATABASE, self.offset(page), self.buffers.page_bytes);
        let call = if self.direct {
            Call::WriteDirect { file, offset, length, address }
        } else {
            Call::Write { file, offset, length, address }
        };
        call.encode(CALL_INSTRUCTIONS, out);
    }

    /// Finds the page, locks and counts it, and reads it if it is not there; its address.
    fn fetch(&self, number: u64, at: u64, page: u64, out: &mut Vec<Op>) -> u64 {
        let lock = self.locks_address() + page % LOCKS * LINE_BYTES;
        out.push(Op::load(lock, 8, 4));
        out.push(Op::store(lock, 8, 4).with_flags(FLAG_ATOMIC));
        let fixed = self.buffers.fixed(page);
        let brought = if fixed.is_none() { self.brought(page, number) } else { None };
        let buffer = fixed
            .or_else(|| brought.map(|(by, place)| self.buffers.turn(by, place)))
            .unwrap_or_else(|| self.buffers.turn(number, at));
        out.push(Op::load(self.entry(page), 8, 4));
        let header = self.header(buffer);
        out.push(Op::load(header, 8, 2).depending_on(1));
        out.push(Op::store(header + 8, 8, 2).with_flags(FLAG_ATOMIC).depending_on(2));
        let fresh = page >= self.structure.pages();
        if fixed.is_none() && brought.is_none() && !fresh {
            let (file, offset, length) = (DATABASE, self.offset(page), self.buffers.page_bytes);
            let call = if self.direct {
                Call::ReadDirect { file, offset, length, address: buffer }
            } else {
                Call::Read { file, offset, length, address: buffer }
            };
            call.encode(CALL_INSTRUCTIONS, out);
            out.push(Op::store(self.entry(page), 8, 4));
        }
        buffer
    }

    /// Writes all pages that were changed since the last checkpoint, in the order of the file, forces them, and says so
    /// in the log.
    fn write_all(&self, number: u64, out: &mut Vec<Op>) {
        let first = self.since_checkpoint(number);
        let mut changed = BTreeMap::new();
        for one in first..=number {
            for visit in self.visits(one).into_iter().filter(|visit| visit.changed) {
                let fixed = self.buffers.fixed(visit.page);
                changed.extend(fixed.map(|at| (self.offset(visit.page), (visit.page, at))));
            }
        }
        for one in self.since_room(number)..=number {
            for (page, buffer) in self.own(one) {
                if self.is_changed(page, one.max(first)..number + 1) {
                    changed.insert(self.offset(page), (page, buffer));
                }
            }
        }
        let at = self.logged(number + 1) - CHECKPOINT_RECORD_BYTES;
        self.write_pages(changed.into_values(), at, out);
        Call::SyncData { file: DATABASE }.encode(CALL_INSTRUCTIONS, out);
        self.append(at, CHECKPOINT_RECORD_BYTES, true, out);
    }

    // ---- The log ------------------------------------------------------------------------------

    /// Bytes of a transaction's records, those of splits left out.
    fn record_bytes(&self) -> u64 {
        let own = match &*self.structure {
            Structure::Tree(_) => 2 * ITEM_RECORD_BYTES,
            Structure::Table(_) => PAIR_RECORD_BYTES,
        };
        own + self.pair_bytes + COMMIT_RECORD_BYTES
    }

    fn split_bytes(&self) -> u64 {
        SPLIT_RECORD_BYTES + self.buffers.page_bytes
    }

    /// Bytes of the log before a transaction.
    fn logged(&self, number: u64) -> u64 {
        number * self.record_bytes()
            + self.splits(number) * self.split_bytes()
            + number / self.checkpoint * CHECKPOINT_RECORD_BYTES
    }

    fn log_files(&self) -> u64 {
        self.logged(self.transactions).div_ceil(self.log_file_bytes).max(1)
    }

    /// Puts a record into the log's buffer, and writes it to the log, and forces it if that is asked for. What goes
    /// beyond a file's end goes to the next.
    fn append(&self, at: u64, bytes: u64, force: bool, out: &mut Vec<Op>) {
        let buffer = self.log_address() + at % LOG_BUFFER_BYTES;
        for offset in (0..bytes).step_by(16) {
            out.push(Op::store(buffer + offset, 16.min(bytes - offset) as u16, 1));
        }
        let mut done = 0;
        while done < bytes {
            let (file, offset) =
                ((at + done) / self.log_file_bytes, (at + done) % self.log_file_bytes);
            let length = (bytes - done).min(self.log_file_bytes - offset);
            let file = LOG + file as FileId;
            if offset == 0 && file > LOG {
                Call::Open { file, size: 0 }.encode(CALL_INSTRUCTIONS, out);
            }
            Call::Write { file, offset, length, address: buffer + done }
                .encode(CALL_INSTRUCTIONS, out);
            if force {
                Call::SyncData { file }.encode(CALL_INSTRUCTIONS, out);
            }
            done += length;
        }
    }

    // ---- Memory: buffers, their headers, their table, locks, the log's buffer -----------------

    fn header(&self, buffer: u64) -> u64 {
        let number = (buffer - BASE_ADDRESS) / self.buffers.page_bytes;
        BASE_ADDRESS + self.buffers.count * self.buffers.page_bytes + number * BUFFER_HEADER_BYTES
    }

    fn entry(&self, page: u64) -> u64 {
        let table =
            BASE_ADDRESS + self.buffers.count * (self.buffers.page_bytes + BUFFER_HEADER_BYTES);
        table + page % self.buffers.count * ENTRY_BYTES
    }

    fn locks_address(&self) -> u64 {
        let bytes = self.buffers.page_bytes + BUFFER_HEADER_BYTES + ENTRY_BYTES;
        BASE_ADDRESS + (self.buffers.count * bytes).next_multiple_of(PAGE_BYTES)
    }

    fn log_address(&self) -> u64 {
        self.locks_address() + LOCKS * LINE_BYTES
    }

    fn memory_bytes(&self) -> u64 {
        // A record that begins at the buffer's end goes beyond it, by a page at most.
        let log = LOG_BUFFER_BYTES + self.record_bytes() + self.split_bytes();
        (self.log_address() + log - BASE_ADDRESS).next_multiple_of(PAGE_BYTES)
    }

    fn database_bytes(&self) -> u64 {
        (self.structure.pages() * self.buffers.page_bytes).next_multiple_of(PAGE_BYTES)
    }
}

/// Adds instructions to operations, evenly over all loads and stores.
fn spread(instructions: u64, ops: &mut [Op]) {
    let is_access = |op: &Op| matches!(op.kind(), Some(OpKind::Load | OpKind::Store));
    let mut places = Vec::new();
    let mut at = 0;
    while at < ops.len() {
        if is_access(&ops[at]) {
            places.push(at);
        }
        at += length_of(ops[at]);
    }
    let all = places.len() as u64;
    for (number, at) in (0..).zip(places) {
        ops[at].meta += part(instructions, number, all) << 32;
    }
}

impl Units for Bdb {
    fn threads(&self) -> u32 {
        self.threads
    }

    fn prelude(&self) -> Prelude {
        let bytes = self.memory_bytes();
        let opened = Prelude::table(bytes).open(DATABASE, self.database_bytes()).open(LOG, 0);
        opened.touch(BASE_ADDRESS, bytes, self.touched)
    }

    fn units(&self, thread: ThreadId) -> u64 {
        super::indexed::share_of(self.transactions, self.threads, thread)
    }

    fn unit(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        let number = unit * u64::from(self.threads) + u64::from(thread);
        let from = out.len();
        let (visits, page_bytes) = (self.visits(number), self.buffers.page_bytes);
        self.make_room(number, out);
        let mut addresses = Vec::new();
        for (visit, at) in visits.iter().zip(0..) {
            let address = self.fetch(number, at, visit.page, out);
            if visit.page >= self.structure.pages() {
                pages::fill(address, page_bytes, out);
            } else if visit.cells > 0 {
                pages::search(*visit, address, page_bytes, out);
            }
            addresses.push(address);
        }
        let insert = self.inserts(number);
        for (visit, address) in visits.iter().zip(&addresses).filter(|(visit, _)| visit.changed) {
            pages::change(*visit, *address, page_bytes, insert, out);
        }
        let at = self.logged(number);
        let split = if self.split(number).is_some() { self.split_bytes() } else { 0 };
        self.append(at, self.record_bytes() + split, self.synchronous, out);
        // Locks and counts are given back.
        for (visit, address) in visits.iter().zip(&addresses) {
            let lock = self.locks_address() + visit.page % LOCKS * LINE_BYTES;
            out.push(Op::store(self.header(*address) + 8, 8, 2).with_flags(FLAG_ATOMIC));
            out.push(Op::store(lock, 8, 2).with_flags(FLAG_ATOMIC));
        }
        spread(self.instructions, &mut out[from..]);
        if (number + 1).is_multiple_of(self.checkpoint) {
            self.write_all(number, out);
        }
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.database_bytes() + self.memory_bytes(), parameter: "size" }
    }

    fn files(&self) -> Vec<FileInfo> {
        let database = FileInfo { name: "bdb.db".into(), size_bytes: self.database_bytes() };
        let log = |number| FileInfo { name: format!("log.{number:010}"), size_bytes: 0 };
        [database].into_iter().chain((1..=self.log_files()).map(log)).collect()
    }
}

#[cfg(test)]
mod tests;
