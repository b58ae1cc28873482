//! Rung 6: reclaim against the real kernel. `tests/kernel/observe_reclaim.py` ran patterns of accesses
//! to a file in a memory control group that is smaller than the file, and wrote at some times which
//! pages were in the page cache, and how many had been added until then; here the model, readahead
//! and reclaim together, gets the same accesses. The patterns are split by a seed: with one half the
//! model was developed, by the other it is judged.
//!
//! `TIERSCOPE_OBSERVED_RECLAIM=FILE` compares with what was observed on this computer instead
//! (`make kernel`).

use super::support::{
    ANONYMOUS, MAPPED, RECLAIM_ALONE, call, observation, run as system_run, system,
};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use tierscope_model::os::readahead::around::{self, PageTable};
use tierscope_model::os::readahead::{Filling, Folio, Limits, PageCache, Pattern, Readahead, Vma};
use tierscope_model::os::reclaim::active_inactive::ActiveInactive;
use tierscope_model::os::reclaim::{Evicted, Kind, Memory, Reclaimer, Shadow};
use tierscope_model::os::release::Release;
use tierscope_workload::Op;
use tierscope_workload::op::{Advice, Call, MAP_SHARED, MAP_WRITABLE, NO_FILE};

const PAGE_BYTES: u64 = 4096;
/// The largest folio of ext4 is one of 2 MiB (MAX_PAGECACHE_ORDER on x86-64).
const LARGEST_ORDER: u32 = 9;

/// What `observe_reclaim.py` writes.
#[derive(Deserialize)]
struct Observed {
    kernel: String,
    page_bytes: u64,
    fault_around_bytes: u64,
    file_pages: u64,
    runs: Vec<Run>,
}

/// A pattern, and what the kernel did.
#[derive(Deserialize)]
struct Run {
    name: String,
    half: String,
    window_kib: u64,
    io_pages: u64,
    random: bool,
    read_pages: u64,
    /// Words of 16 bits in base 64: the page, and in the highest bit, that it is a load.
    steps: String,
    /// The most pages of the file that were in memory at once: what the limit leaves for them.
    most_pages: u64,
    seen: Vec<Seen>,
}

/// What was seen after some of the steps.
#[derive(Deserialize)]
struct Seen {
    steps: usize,
    /// Pages added to the page cache until then.
    added: u64,
    workingset_refault_file: u64,
    /// A bit for each page of the file that is in the page cache, in base 64.
    bits: String,
}

pub fn from_base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |byte| DIGITS.iter().position(|digit| *digit == byte).expect("a digit") as u32;
    let mut bytes = Vec::new();
    for group in text.trim_end_matches('=').as_bytes().chunks(4) {
        let word = group.iter().fold(0, |word, byte| word << 6 | digit(*byte));
        let word = word << (6 * (4 - group.len()));
        bytes.extend_from_slice(&word.to_be_bytes()[1..group.len()]);
    }
    bytes
}

/// A step of a pattern: a page, and in the highest bit, whether it is a load.
pub fn word_of(bytes: &[u8]) -> u64 {
    u64::from(bytes[0]) | u64::from(bytes[1]) << 8
}

/// The page cache of a file in a memory of few pages, and a page table for all of the file.
struct Limited {
    file_pages: u64,
    most_pages: u64,
    folios: BTreeMap<u64, Folio>,
    there: BTreeSet<u64>,
    shadows: BTreeMap<u64, Shadow>,
    mapped: BTreeSet<u64>,
    young: BTreeSet<u64>,
    /// The program has given no advice on its mapping.
    uses_count: bool,
    lists: ActiveInactive,
    added: u64,
}

impl PageCache for Limited {
    fn file_pages(&self) -> u64 {
        self.file_pages
    }

    fn folio(&self, page: u64) -> Option<Folio> {
        let (_, folio) = self.folios.range(..=page).next_back()?;
        (page < folio.first + folio.pages()).then_some(*folio)
    }
}

impl Filling for Limited {
    fn add(&mut self, folio: Folio) -> bool {
        // The charge, of 32 pages at least (`try_charge_memcg`).
        if self.there.len() as u64 + folio.pages() > self.most_pages {
            self.reclaim(folio.pages());
        }
        let pages = folio.first..folio.first + folio.pages();
        let shadows = pages.clone().filter_map(|page| self.shadows.remove(&page));
        let last = shadows.fold(Shadow::default(), |_, shadow| shadow);
        self.lists.add(folio.first, folio.order as u8, Kind::File, last);
        self.added += folio.pages();
        self.there.extend(pages);
        self.folios.insert(folio.first, folio);
        true
    }

    fn submit(&mut self) {}

    fn unmark(&mut self, folio: Folio) {
        if let Some(folio) = self.folios.get_mut(&folio.first) {
            folio.marked = false;
        }
    }
}

impl Limited {
    fn reclaim(&mut self, pages: u64) {
        let spare = ActiveInactive::new(Release::V6_18, 0, false, 0, PAGE_BYTES);
        let mut lists = std::mem::replace(&mut self.lists, spare);
        lists.shrink(Reclaimer::Group, pages, self);
        self.lists = lists;
    }
}

impl Memory for Limited {
    fn take_references(&mut self, folio: u64) -> u64 {
        if !self.uses_count {
            return 0; // `vma_has_recency`.
        }
        let pages = self.folios[&folio].pages();
        (folio..folio + pages).filter(|page| self.young.remove(page)).count() as u64
    }

    fn held(&self, _: u64) -> bool {
        false
    }

    fn evict(&mut self, folio: u64, shadow: Shadow, _: bool) -> Evicted {
        let gone = self.folios.remove(&folio).expect("it is there");
        for page in folio..folio + gone.pages() {
            self.there.remove(&page);
            self.mapped.remove(&page);
            self.young.remove(&page);
            self.shadows.insert(page, shadow);
        }
        Evicted::Freed
    }

    fn free_pages(&self) -> u64 {
        self.most_pages - self.there.len() as u64
    }
}

/// The page table while a fault maps what lies around a page.
struct Table<'a> {
    mapped: &'a BTreeSet<u64>,
    new: Vec<u64>,
}

impl PageTable for Table<'_> {
    fn mapped(&self, page: u64) -> bool {
        self.mapped.contains(&page)
    }

    fn map(&mut self, page: u64) {
        self.new.push(page);
    }
}

/// The model with one open file, all of which is mapped.
struct Model {
    readahead: Readahead,
    cache: Limited,
    vma: Vma,
    around: u64,
    /// The page in which the last read ended.
    last_read: Option<u64>,
}

impl Model {
    fn new(run: &Run, observed: &Observed) -> Self {
        let limits = Limits {
            window: run.window_kib * 1024 / PAGE_BYTES,
            io: run.io_pages,
            largest_order: LARGEST_ORDER,
            chunk: (2 << 20) / PAGE_BYTES,
            release: Release::V6_18,
        };
        let mut readahead = Readahead::new(limits);
        let pattern = if run.random { Pattern::Random } else { Pattern::Normal };
        readahead.advise(pattern);
        let file_pages = observed.file_pages;
        Model {
            readahead,
            cache: Limited {
                file_pages,
                most_pages: run.most_pages,
                folios: BTreeMap::new(),
                there: BTreeSet::new(),
                shadows: BTreeMap::new(),
                mapped: BTreeSet::new(),
                young: BTreeSet::new(),
                uses_count: !run.random,
                lists: ActiveInactive::new(Release::V6_18, 60, false, file_pages, PAGE_BYTES),
                added: 0,
            },
            vma: Vma { first: 0, pages: file_pages, address: 0, pattern },
            around: observed.fault_around_bytes / PAGE_BYTES,
            last_read: None,
        }
    }

    fn read(&mut self, first: u64, pages: u64) {
        let end = (first + pages).min(self.cache.file_pages);
        for page in first..end {
            self.readahead.read(&mut self.cache, page, first + pages);
            let folio = self.cache.folio(page).expect("it was read");
            let last = self.last_read.replace(page);
            if last.is_none_or(|last| last >> folio.order != page >> folio.order) {
                self.cache.lists.mark_accessed(folio.first);
            }
        }
        self.readahead.end_of_read(end * PAGE_BYTES, PAGE_BYTES);
    }

    fn load(&mut self, page: u64) {
        if !self.cache.mapped.contains(&page) {
            self.fault(page);
        }
        self.cache.young.insert(page);
    }

    fn fault(&mut self, page: u64) {
        if self.map_around(page) {
            return;
        }
        self.readahead.look_up(&mut self.cache, page, self.vma.pattern, false);
        if !self.map_around(page) {
            let folio = self.cache.folio(page).expect("it was looked up");
            let mut table = Table { mapped: &self.cache.mapped, new: Vec::new() };
            around::map_folio(&self.cache, &mut table, &self.vma, page, folio);
            let new = table.new;
            self.map(&new);
        }
    }

    fn map_around(&mut self, page: u64) -> bool {
        let Model { readahead, cache, vma, around, .. } = self;
        let mut table = Table { mapped: &cache.mapped, new: Vec::new() };
        let done = readahead.map_around(&*cache, &mut table, vma, page, *around);
        let new = table.new;
        self.map(&new);
        done
    }

    /// New entries of the page table count as used (`set_pte_range`).
    fn map(&mut self, pages: &[u64]) {
        self.cache.mapped.extend(pages);
        self.cache.young.extend(pages);
    }
}

/// Agreement in one pattern.
#[derive(Debug)]
struct Agreement {
    name: String,
    /// Pages in memory on both sides, of those that the kernel had, in the mean over the times that
    /// were looked at; and how many are not.
    same_pages: f64,
    other_pages: f64,
    /// Refaults of the model, and of the kernel.
    refaults: [u64; 2],
    /// Pages added, likewise.
    added: [u64; 2],
}

/// Pages that reclaim takes at once (`SWAP_CLUSTER_MAX`): whether it has just done so depends on a single
/// page that the kernel keeps for itself.
const BATCH: f64 = 32.0;

/// Patterns that are further apart, and the share of pages that is the same in them. The kernel knows
/// how long a group's lists are only every two seconds, or when they have changed a lot
/// (`mem_cgroup_flush_stats_ratelimited`), and here they are about as long as each other, on which
/// depends whether active pages become inactive.
const APART: &[(&str, f64)] = &[("hot_and_scan 2", 0.92)];

/// How much more than the second the first is, in its parts.
fn more([model, kernel]: [u64; 2]) -> f64 {
    (model as f64 - kernel as f64) / (kernel as f64).max(1.0)
}

impl Agreement {
    fn is_near(&self) -> bool {
        let [model, kernel] = self.refaults.map(|refaults| refaults as f64);
        let apart = APART.iter().find(|(name, _)| *name == self.name);
        let pages = match apart {
            Some((_, least)) => self.same_pages >= *least,
            None => self.same_pages >= 0.99 || self.other_pages <= BATCH,
        };
        pages && (model - kernel).abs() <= (0.05 * kernel).max(BATCH)
    }
}

fn compare(observed: &Observed, run: &Run) -> Agreement {
    assert_eq!(observed.page_bytes, PAGE_BYTES);
    let mut model = Model::new(run, observed);
    let steps = from_base64(&run.steps);
    let mut steps = steps.chunks(2).map(word_of);
    let (mut shares, mut others, mut done) = (Vec::new(), Vec::new(), 0);
    for seen in &run.seen {
        for word in steps.by_ref().take(seen.steps - done) {
            if word >> 15 == 0 {
                model.read(word, run.read_pages);
            } else {
                model.load(word & 0x7fff);
            }
        }
        done = seen.steps;
        let bits = from_base64(&seen.bits);
        let there: BTreeSet<u64> = (0..observed.file_pages)
            .filter(|page| bits[*page as usize / 8] >> (page % 8) & 1 == 1)
            .collect();
        let same = there.intersection(&model.cache.there).count();
        shares.push(same as f64 / there.len() as f64);
        others.push((there.len() - same) as f64);
    }
    let last = run.seen.last().expect("it was looked at");
    Agreement {
        name: run.name.clone(),
        same_pages: mean(&shares),
        other_pages: mean(&others),
        refaults: [model.cache.lists.counters.refaults, last.workingset_refault_file],
        added: [model.cache.added, last.added],
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn observed() -> Observed {
    observation("TIERSCOPE_OBSERVED_RECLAIM", "reclaim-6.18.json")
}

/// In each pattern 99 of 100 pages in memory are the same, and as many refault, within 5 %, or all but
/// those of one batch.
fn nearly_the_same(half: &str) {
    let observed = observed();
    let runs: Vec<&Run> = observed.runs.iter().filter(|run| run.half == half).collect();
    assert!(runs.len() >= 7, "only {} patterns", runs.len());
    let mut differ = Vec::new();
    for run in runs {
        let found = compare(&observed, run);
        let Agreement { name, same_pages, refaults, added, .. } = &found;
        println!(
            "Linux {}, {half}, {name}: {:.2} % of the pages, {} refaults ({:+.2} %), {} pages added \
             ({:+.2} %)",
            observed.kernel,
            100.0 * same_pages,
            refaults[1],
            100.0 * more(*refaults),
            added[1],
            100.0 * more(*added)
        );
        if !found.is_near() {
            differ.push(found);
        }
    }
    assert!(differ.is_empty(), "{differ:#?}");
}

#[test]
fn reclaim_is_the_kernels_in_the_patterns_it_was_developed_with() {
    nearly_the_same("development");
}

#[test]
fn reclaim_is_the_kernels_in_the_patterns_that_judge_it() {
    nearly_the_same("judgement");
}

/// A pattern as a program's operations: reads of the file by calls into a buffer of its own, and loads from a mapping.
fn program(observed: &Observed, run: &Run) -> Vec<Op> {
    let length = observed.file_pages * PAGE_BYTES;
    let flags = MAP_WRITABLE | MAP_SHARED;
    let mut ops = call(Call::Open { file: 0, size: length });
    let buffer = run.read_pages * PAGE_BYTES;
    ops.extend(call(Call::Map {
        address: ANONYMOUS,
        length: buffer,
        flags: MAP_WRITABLE,
        file: NO_FILE,
        offset: 0,
    }));
    ops.extend(call(Call::Map { address: MAPPED, length, flags, file: 0, offset: 0 }));
    if run.random {
        let advice = Advice::Random as u64;
        ops.extend(call(Call::Advise { address: MAPPED, length, advice }));
    }
    for word in from_base64(&run.steps).chunks(2).map(word_of) {
        if word >> 15 == 0 {
            let (offset, end) = (word * PAGE_BYTES, (word + run.read_pages) * PAGE_BYTES);
            let length = end.min(length) - offset;
            ops.extend(call(Call::Read { file: 0, offset, length, address: ANONYMOUS }));
        } else {
            ops.push(Op::load(MAPPED + (word & 0x7fff) * PAGE_BYTES, 8, 10));
        }
    }
    ops
}

/// The same patterns on a whole machine, whose program has a limit that leaves as many pages for the file. That takes single
/// pages where the kernel takes folios, so that only patterns without readahead, in single pages, are compared.
#[test]
fn a_machine_with_a_limit_reads_again_what_the_kernel_does() {
    let observed = observed();
    let mut compared = 0;
    for run in observed.runs.iter().filter(|run| run.random) {
        let limit = format!("{}KiB", (run.most_pages + run.read_pages) * PAGE_BYTES / 1024);
        let own = [("storage.memory_limit", &*limit), ("storage.fault_around", "64KiB")];
        let sums = system_run(
            &system("storage/970-pro", &[RECLAIM_ALONE, &own]),
            &[program(&observed, run)],
        );
        let last = run.seen.last().expect("it was looked at");
        let [machine, kernel] = [sums.counter("refaults"), last.workingset_refault_file];
        println!("{}, {}: {machine} refaults, the kernel {kernel}", run.half, run.name);
        let apart = machine.abs_diff(kernel) as f64;
        assert!(apart <= (0.05 * kernel as f64).max(BATCH), "{}: {machine}, {kernel}", run.name);
        compared += 1;
    }
    assert!(compared >= 15);
}

/// Pages that are mapped and used in turn, more than translations are held of, while a file of several times the
/// memory is read once.
fn used_and_scanned(rounds: u64) -> Vec<Op> {
    const USED: u64 = 4096;
    const READ: u64 = 2048;
    let flags = MAP_WRITABLE;
    let file = rounds * READ * PAGE_BYTES;
    let mut ops = call(Call::Open { file: 0, size: file });
    let anonymous = |address, pages: u64| {
        call(Call::Map { address, length: pages * PAGE_BYTES, flags, file: NO_FILE, offset: 0 })
    };
    ops.extend(anonymous(ANONYMOUS, USED));
    ops.extend(anonymous(MAPPED, 16));
    for round in 0..rounds {
        for part in 0..4 {
            ops.extend((0..USED).map(|page| Op::store(ANONYMOUS + page * PAGE_BYTES, 8, 10)));
            for read in 0..READ / 64 {
                let offset = (round * READ + part * READ / 4 + read * 16) * PAGE_BYTES;
                ops.extend(call(Call::Read {
                    file: 0,
                    offset,
                    length: 16 * PAGE_BYTES,
                    address: MAPPED,
                }));
            }
        }
    }
    ops
}

/// Generations find by walks of page tables what is used, and keep it through a scan; a queue does not. No kernel with
/// generations is compared: that of the observations has none.
#[test]
fn generations_keep_what_is_used_through_a_scan_on_a_machine() {
    let swapped_in = |policy, limit: Option<&str>| {
        let mut sets = vec![("storage.dram_capacity", "32MiB"), ("storage.reclaim", policy)];
        sets.extend(limit.map(|limit| ("storage.memory_limit", limit)));
        let sums = system_run(&system("storage/970-pro", &[&sets]), &[used_and_scanned(4)]);
        assert!(sums.counter("reclaimed_pages") > 4096, "{policy}: nothing had to go");
        sums.counter("swap_in_pages")
    };
    for limit in [None, Some("24MiB")] {
        let [generations, fifo] = ["generations", "fifo"].map(|policy| swapped_in(policy, limit));
        println!("limit {limit:?}: {generations} pages from swap, {fifo} of a queue");
        assert!(generations <= 4096 / 50 && fifo > 4096, "{limit:?}: {generations}, {fifo}");
    }
}
