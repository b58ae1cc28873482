//! Rung 6: readahead against the real kernel. `tests/kernel/observe.py` ran patterns of accesses and
//! wrote what the kernel added to the page cache, step by step, and which pages were mapped at the
//! end; here the model gets the same steps. The patterns are split by a seed: with one half the model
//! was developed, by the other it is judged.
//!
//! `TIERSCOPE_OBSERVED=FILE` compares with what was observed on this computer instead
//! (`make kernel`).

use super::support::{ANONYMOUS, call, observation, run as system_run, system};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tierscope_model::os::readahead::{
    Filling, Folio, Limits, PageCache, Pattern, Readahead, Vma,
    around::{self, PageTable},
};
use tierscope_model::os::release::Release;
use tierscope_workload::Op;
use tierscope_workload::op::{Advice, Call, MAP_WRITABLE, NO_FILE};

pub const PAGE_BYTES: u64 = 4096;
/// The file system in user space takes requests of so many pages at most.
pub const FUSE_PAGES: u64 = 256;

/// What `observe.py` writes.
#[derive(Deserialize)]
struct Observed {
    kernel: String,
    page_bytes: u64,
    fault_around_bytes: u64,
    single_pages: Vec<Run>,
    large_folios: Vec<Run>,
}

/// A pattern, and what the kernel did.
#[derive(Deserialize)]
struct Run {
    name: String,
    half: String,
    window_kib: u64,
    file_bytes: u64,
    io_pages: u64,
    steps: Vec<Vec<Value>>,
    /// Events by step; steps without any are left out.
    seen: BTreeMap<usize, Vec<Vec<Value>>>,
    /// What the file system was asked to read by step, first page and pages, where it told.
    requests: Option<BTreeMap<usize, Vec<(u64, u64)>>>,
    #[serde(default)]
    mapped_at_the_end: Vec<(u64, u64)>,
}

/// Folios of one order in a row: first page, order, how many.
pub type Added = Vec<(u64, u32, u64)>;

/// Appends a run of folios; runs of one order in a row are one.
pub fn append(added: &mut Added, (first, order, count): (u64, u32, u64)) {
    match added.last_mut() {
        Some((last, same, so_many)) if *same == order && *last + (*so_many << order) == first => {
            *so_many += count;
        }
        _ => added.push((first, order, count)),
    }
}

/// A page cache and a page table without limits, to watch.
#[derive(Default)]
struct Watched {
    file_pages: u64,
    folios: BTreeMap<u64, Folio>,
    added: Added,
    request: Option<(u64, u64)>,
    requests: Vec<(u64, u64)>,
}

impl PageCache for Watched {
    fn file_pages(&self) -> u64 {
        self.file_pages
    }

    fn folio(&self, page: u64) -> Option<Folio> {
        let (_, folio) = self.folios.range(..=page).next_back()?;
        (page < folio.first + folio.pages()).then_some(*folio)
    }
}

impl Filling for Watched {
    fn add(&mut self, folio: Folio) -> bool {
        assert!(folio.first + folio.pages() <= self.file_pages, "beyond the file's end");
        assert_eq!(folio.first % folio.pages(), 0, "not aligned");
        let all = folio.first..folio.first + folio.pages();
        assert!(all.clone().all(|page| self.folio(page).is_none()), "there already");
        self.folios.insert(folio.first, folio);
        append(&mut self.added, (folio.first, folio.order, 1));
        match &mut self.request {
            Some((_, pages)) => *pages += folio.pages(),
            request => *request = Some((folio.first, folio.pages())),
        }
        true
    }

    fn submit(&mut self) {
        let Some((mut first, mut pages)) = self.request.take() else { return };
        while pages > 0 {
            let part = pages.min(FUSE_PAGES);
            self.requests.push((first, part));
            (first, pages) = (first + part, pages - part);
        }
    }

    fn unmark(&mut self, folio: Folio) {
        self.folios.get_mut(&folio.first).expect("it is there").marked = false;
    }
}

/// A page cache without what is still being read.
struct Arrived<'a> {
    cache: &'a Watched,
    late: &'a [(u64, u32, u64)],
}

impl PageCache for Arrived<'_> {
    fn file_pages(&self) -> u64 {
        self.cache.file_pages
    }

    fn folio(&self, page: u64) -> Option<Folio> {
        let late = |(first, order, count): &(u64, u32, u64)| {
            (*first..*first + (*count << *order)).contains(&page)
        };
        self.cache.folio(page).filter(|_| !self.late.iter().any(late))
    }
}

#[derive(Default)]
struct Table(BTreeSet<u64>);

impl PageTable for Table {
    fn mapped(&self, page: u64) -> bool {
        self.0.contains(&page)
    }

    fn map(&mut self, page: u64) {
        assert!(self.0.insert(page), "mapped already");
    }
}

/// The model with one file, which is open several times.
struct Model {
    limits: Limits,
    /// By opening.
    readaheads: BTreeMap<u64, Readahead>,
    /// The opening that is in use, and that by which the file is mapped.
    opening: u64,
    mapped_by: u64,
    cache: Watched,
    table: Table,
    vma: Vma,
    file_bytes: u64,
    around: u64,
}

pub fn pattern(word: &Value) -> Option<Pattern> {
    serde_json::from_value(word.clone()).ok()
}

impl Model {
    fn new(run: &Run, around: u64, largest_order: u32) -> Self {
        let limits = Limits {
            window: run.window_kib * 1024 / PAGE_BYTES,
            io: run.io_pages,
            largest_order,
            chunk: (2 << 20) / PAGE_BYTES,
            release: Release::V6_18,
        };
        let file_pages = run.file_bytes.div_ceil(PAGE_BYTES);
        Model {
            limits,
            readaheads: BTreeMap::new(),
            opening: 0,
            mapped_by: 0,
            cache: Watched { file_pages, ..Watched::default() },
            table: Table::default(),
            vma: Vma { first: 0, pages: 0, address: 0, pattern: Pattern::Normal },
            file_bytes: run.file_bytes,
            around,
        }
    }

    /// Readahead by an opening, and the page cache.
    fn by(&mut self, opening: u64) -> (&mut Readahead, &mut Watched) {
        let new = || Readahead::new(self.limits);
        (self.readaheads.entry(opening).or_insert_with(new), &mut self.cache)
    }

    /// Does a step; what it added to the page cache, and asked the file system for.
    fn step(&mut self, step: &[Value]) -> (Added, Vec<(u64, u64)>) {
        let number = |at: usize| step[at].as_u64().expect("a number");
        match step[0].as_str().expect("a name") {
            "read" => self.read(number(1), number(2)),
            "map" => {
                let (first, pages, address) = (number(1), number(2), number(3));
                self.vma = Vma { first, pages, address, pattern: Pattern::Normal };
                self.mapped_by = self.opening;
            }
            "use" => self.opening = number(1),
            "load" => self.access(number(1), false),
            "store" => self.access(number(1), true),
            "fadvise" => match pattern(&step[1]) {
                Some(pattern) => self.by(self.opening).0.advise(pattern),
                None => {
                    let (first, end) = (number(2) / PAGE_BYTES, number(2) + number(3));
                    let pages = end.div_ceil(PAGE_BYTES) - first;
                    let (readahead, cache) = self.by(self.opening);
                    readahead.need(cache, first, pages);
                }
            },
            "madvise" => match pattern(&step[1]) {
                Some(pattern) => self.vma.pattern = pattern,
                None => {
                    let first = self.vma.first + number(2);
                    let (readahead, cache) = self.by(self.mapped_by);
                    readahead.need(cache, first, number(3));
                }
            },
            other => panic!("a step that is not known: {other}"),
        }
        assert_eq!(self.cache.request, None, "added, never submitted");
        (std::mem::take(&mut self.cache.added), std::mem::take(&mut self.cache.requests))
    }

    fn read(&mut self, offset: u64, bytes: u64) {
        if offset >= self.file_bytes {
            return;
        }
        let end = (offset + bytes).div_ceil(PAGE_BYTES);
        let last = end.min(self.cache.file_pages);
        let end_bytes = (offset + bytes).min(self.file_bytes);
        let (readahead, cache) = self.by(self.opening);
        for page in offset / PAGE_BYTES..last {
            readahead.read(cache, page, end);
        }
        readahead.end_of_read(end_bytes, PAGE_BYTES);
    }

    fn access(&mut self, page: u64, store: bool) {
        let page = self.vma.first + page;
        if self.table.mapped(page) {
            return; // A store copies the page, which needs nothing of the file.
        }
        self.fault(page, store);
        if store {
            self.table.map(page);
        }
    }

    /// A fault. What is read for the page itself has arrived when the fault begins again; what a mark
    /// makes it read ahead has not.
    fn fault(&mut self, page: u64, store: bool) {
        self.by(self.mapped_by);
        let Model { readaheads, mapped_by, cache, table, vma, around, .. } = self;
        let readahead = readaheads.get_mut(mapped_by).expect("it has one");
        if !store && readahead.map_around(cache, table, vma, page, *around) {
            return;
        }
        let there = cache.folio(page).is_some();
        readahead.look_up(cache, page, vma.pattern, false);
        let late = if there { &cache.added[..] } else { &[] };
        let arrived = Arrived { cache, late };
        if !store && !readahead.map_around(&arrived, table, vma, page, *around) {
            let folio = arrived.folio(page).expect("it was looked up");
            around::map_folio(&arrived, table, vma, page, folio);
        }
    }

    /// Mapped pages as runs, counted from the mapping's start.
    fn mapped(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for page in self.table.0.iter().map(|page| page - self.vma.first) {
            match runs.last_mut() {
                Some((first, count)) if *first + *count == page => *count += 1,
                _ => runs.push((page, 1)),
            }
        }
        runs
    }
}

/// What the kernel added in a step.
pub fn seen(events: &[Vec<Value>]) -> Added {
    let adds = events.iter().filter(|event| event[0] == "add");
    let number = |event: &[Value], at: usize| event[at].as_u64().expect("a number");
    let mut added = Added::new();
    for event in adds {
        append(&mut added, (number(event, 1), number(event, 2) as u32, number(event, 3)));
    }
    added
}

/// Agreement with some runs.
#[derive(Debug, Default)]
struct Agreement {
    patterns: usize,
    same_patterns: usize,
    steps: usize,
    same_steps: usize,
    differences: Vec<String>,
}

fn compare(observed: &Observed, runs: &[Run], half: &str, largest_order: u32) -> Agreement {
    assert_eq!(observed.page_bytes, PAGE_BYTES);
    let around = observed.fault_around_bytes / PAGE_BYTES;
    let mut agreement = Agreement::default();
    for run in runs.iter().filter(|run| run.half == half) {
        let mut model = Model::new(run, around, largest_order);
        let mut differs = None;
        for (number, step) in run.steps.iter().enumerate() {
            let (added, requests) = model.step(step);
            let expected = run.seen.get(&number).map_or(Vec::new(), |events| seen(events));
            let asked = run.requests.as_ref();
            let asked = asked.map(|asked| asked.get(&number).cloned().unwrap_or_default());
            agreement.steps += 1;
            if added == expected && asked.as_ref().is_none_or(|asked| *asked == requests) {
                agreement.same_steps += 1;
            } else {
                differs.get_or_insert_with(|| {
                    format!(
                        "step {number} {step:?}: {added:?} by {requests:?}, the kernel \
                         {expected:?} by {asked:?}"
                    )
                });
            }
        }
        if model.mapped() != run.mapped_at_the_end {
            differs.get_or_insert_with(|| {
                format!("mapped {:?}, the kernel {:?}", model.mapped(), run.mapped_at_the_end)
            });
        }
        agreement.patterns += 1;
        match differs {
            None => agreement.same_patterns += 1,
            Some(how) => agreement.differences.push(format!("{}: {how}", run.name)),
        }
    }
    agreement
}

fn observed() -> Observed {
    observation("TIERSCOPE_OBSERVED", "readahead-6.18.json")
}

/// Every step of every pattern adds the same folios in the same order, and the same pages are mapped
/// at the end.
fn all_the_same(half: &str) {
    let observed = observed();
    // The largest folio of ext4 is one of 2 MiB (MAX_PAGECACHE_ORDER on x86-64).
    let mut differences = Vec::new();
    for (what, runs, order) in
        [("single pages", &observed.single_pages, 0), ("large folios", &observed.large_folios, 9)]
    {
        let found = compare(&observed, runs, half, order);
        assert!(found.patterns >= 10, "{what}: only {} patterns", found.patterns);
        let Agreement { patterns, same_patterns, steps, same_steps, .. } = found;
        println!(
            "Linux {}, {what}, {half}: {same_patterns} of {patterns} patterns and {same_steps} of \
             {steps} steps are the same",
            observed.kernel
        );
        differences.extend(found.differences);
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn readahead_is_the_kernels_in_the_patterns_it_was_developed_with() {
    all_the_same("development");
}

#[test]
fn readahead_is_the_kernels_in_the_patterns_that_judge_it() {
    all_the_same("judgement");
}

/// Pages read ahead where two threads read a part of a file each in a row, by openings of their own or by that of the first;
/// the second has advised, if so, that it reads at random.
fn read_ahead(each_opens: bool, advises: bool) -> u64 {
    const PART_PAGES: u64 = 512;
    let open = || call(Call::Open { file: 0, size: 2 * PART_PAGES * PAGE_BYTES });
    let length = 4 * PAGE_BYTES;
    let reads = |thread: u64| {
        let address = ANONYMOUS + (thread << 20);
        let pages = (thread * PART_PAGES..(thread + 1) * PART_PAGES).step_by(4);
        let read = move |page| Call::Read { file: 0, offset: page * PAGE_BYTES, length, address };
        pages.flat_map(move |page| call(read(page)))
    };
    let map = Call::Map {
        address: ANONYMOUS,
        length: 2 << 20,
        flags: MAP_WRITABLE,
        file: NO_FILE,
        offset: 0,
    };
    let mut first: Vec<Op> = [call(map), open(), call(Call::Spawn { thread: 1 })].concat();
    // Until the other has advised.
    first.extend(call(Call::Sleep { duration_ps: 1_000_000_000 }));
    first.extend(reads(0));
    let mut second = if each_opens { open() } else { Vec::new() };
    if advises {
        let advice = Advice::Random as u64;
        second.extend(call(Call::AdviseFile { file: 0, offset: 0, length: 0, advice }));
    }
    second.extend(reads(1));
    let sets = [("storage.readahead_release", "6.18"), ("storage.dram_capacity", "64MiB")];
    system_run(&system("storage/970-pro", &[&sets]), &[first, second]).counter("readahead_pages")
}

/// Advice on a file is for the opening that it is given by, which other threads share that have none of their own.
#[test]
fn threads_that_open_a_file_each_read_ahead_by_themselves() {
    let [plain, own, shared] =
        [read_ahead(true, false), read_ahead(true, true), read_ahead(false, true)];
    println!("{plain} pages read ahead without advice, {own} of own openings, {shared} of one");
    assert!((plain / 2 - 32..=plain / 2 + 32).contains(&own), "{plain} {own}");
    assert!(shared < 32 && plain > 900, "{plain} {shared}");
}
