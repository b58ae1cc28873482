use super::around::{PageTable, Vma};
use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A page cache that can also lose pages, and that counts what it is asked to read.
pub(super) struct Plain {
    file_pages: u64,
    folios: BTreeMap<u64, Folio>,
    request: Vec<Folio>,
    requests: Vec<(u64, u64)>,
}

impl Plain {
    pub(super) fn new(file_pages: u64) -> Self {
        Plain { file_pages, folios: BTreeMap::new(), request: Vec::new(), requests: Vec::new() }
    }
}

impl PageCache for Plain {
    fn file_pages(&self) -> u64 {
        self.file_pages
    }

    fn folio(&self, page: u64) -> Option<Folio> {
        let (_, folio) = self.folios.range(..=page).next_back()?;
        (page < folio.first + folio.pages()).then_some(*folio)
    }
}

impl Filling for Plain {
    fn add(&mut self, folio: Folio) -> bool {
        let pages = folio.first..folio.first + folio.pages();
        assert!(pages.end <= self.file_pages && folio.first.is_multiple_of(folio.pages()));
        assert!(pages.into_iter().all(|page| self.folio(page).is_none()));
        if let Some(last) = self.request.last() {
            assert_eq!(last.first + last.pages(), folio.first, "a request is one run of pages");
        }
        self.folios.insert(folio.first, folio);
        self.request.push(folio);
        true
    }

    fn submit(&mut self) {
        let request = std::mem::take(&mut self.request);
        if let Some(first) = request.first() {
            self.requests.push((first.first, request.iter().map(Folio::pages).sum()));
        }
    }

    fn unmark(&mut self, folio: Folio) {
        self.folios.get_mut(&folio.first).unwrap().marked = false;
    }
}

impl PageTable for BTreeSet<u64> {
    fn mapped(&self, page: u64) -> bool {
        self.contains(&page)
    }

    fn map(&mut self, page: u64) {
        assert!(self.insert(page), "page {page} is mapped already");
    }
}

/// A fault, all of what it reads having arrived when it begins again.
fn fault(
    readahead: &mut Readahead,
    cache: &mut Plain,
    table: &mut BTreeSet<u64>,
    vma: &Vma,
    page: u64,
    (store, around): (bool, u64),
) {
    if !store && readahead.map_around(cache, table, vma, page, around) {
        return;
    }
    readahead.look_up(cache, page, vma.pattern, false);
    if !store && !readahead.map_around(cache, table, vma, page, around) {
        let folio = cache.folio(page).expect("it was looked up");
        around::map_folio(cache, table, vma, page, folio);
    }
}

fn limits(window: u64, largest_order: u32) -> Limits {
    Limits { window, io: 32, largest_order, chunk: 512 }
}

/// Requests for reads of one page each, in a row from the start.
fn sequential(limits: Limits, pages: u64) -> Vec<(u64, u64)> {
    let (mut readahead, mut cache) = (Readahead::new(limits), Plain::new(1 << 20));
    for page in 0..pages {
        readahead.read(&mut cache, page, page + 1);
        readahead.end_of_read((page + 1) * 4096, 4096);
    }
    cache.requests
}

#[test]
fn windows_of_a_sequential_read_ramp_up_to_the_largest() {
    let ramp = [(0, 4), (4, 8), (12, 16), (28, 32), (60, 32)];
    assert_eq!(sequential(limits(32, 0), 40), ramp);
}

#[test]
fn windows_of_large_folios_end_where_a_folio_does() {
    let ramp = [(0, 4), (4, 8), (12, 4), (16, 8), (24, 8), (32, 32)];
    assert_eq!(sequential(limits(32, 9), 32)[..2], ramp[..2]);
    let all = sequential(limits(32, 9), 2000);
    assert!(all.iter().skip(8).all(|(first, pages)| first % 32 == 0 && *pages == 32), "{all:?}");
}

#[test]
fn windows_may_be_of_megabytes() {
    let all = sequential(limits(1024, 9), 20_000);
    assert_eq!(all.iter().map(|(_, pages)| *pages).max(), Some(1024));
}

#[test]
fn a_random_fault_reads_around_itself_until_too_many_missed() {
    let (mut readahead, mut cache) = (Readahead::new(limits(32, 0)), Plain::new(1 << 20));
    let vma = Vma { first: 0, pages: 1 << 20, address: 0, pattern: Pattern::Normal };
    for n in 1..=120 {
        fault(&mut readahead, &mut cache, &mut BTreeSet::new(), &vma, 5000 * n, (false, 1));
    }
    assert_eq!(cache.requests[0], (5000 - 16, 32));
    let around = cache.requests.iter().filter(|(_, pages)| *pages == 32).count();
    assert_eq!(around as u32, LOTS_OF_MISSES);
    assert_eq!(cache.requests[119], (5000 * 120, 1));
}

proptest! {
    /// Whatever is asked for in whatever order: pages are read once, within the file, what was asked
    /// for is there, and a request is no longer than the window or what a call may have.
    #[test]
    fn what_is_asked_for_is_there_and_nothing_is_read_twice(
        window in 0u64..300,
        order in 0u32..10,
        file_pages in 1u64..3000,
        around in 0u32..7,
        shift in 0u64..512,
        steps in proptest::collection::vec((0u8..8, 0u64..3000, 1u64..400), 1..60),
    ) {
        let mut readahead = Readahead::new(limits(window, order));
        let (mut cache, mut table) = (Plain::new(file_pages), BTreeSet::new());
        let mut vma =
            Vma { first: 0, pages: file_pages, address: shift, pattern: Pattern::Normal };
        for (what, at, length) in steps {
            let page = at % file_pages;
            match what {
                0 => readahead.advise(Pattern::Random),
                1 => readahead.advise(Pattern::Sequential),
                2 => readahead.need(&mut cache, page, length),
                3 => vma.pattern = if at % 2 == 0 { Pattern::Sequential } else { Pattern::Normal },
                4 => {
                    fault(&mut readahead, &mut cache, &mut table, &vma, page, (true, 1 << around));
                    prop_assert!(cache.folio(page).is_some());
                }
                5 | 6 if !table.contains(&page) => {
                    fault(&mut readahead, &mut cache, &mut table, &vma, page, (false, 1 << around));
                    prop_assert!(table.contains(&page));
                }
                _ => {
                    for near in page..(page + length).min(file_pages) {
                        readahead.read(&mut cache, near, page + length);
                        prop_assert!(cache.folio(near).is_some());
                    }
                    readahead.end_of_read((page + length) * 4096, 4096);
                }
            }
            prop_assert!(cache.request.is_empty(), "added, never submitted");
        }
        prop_assert!(table.iter().all(|page| cache.folio(*page).is_some()));
        let read: u64 = cache.requests.iter().map(|(_, pages)| pages).sum();
        prop_assert_eq!(read, cache.folios.values().map(Folio::pages).sum::<u64>());
        let most = (2 * window).max(400);
        prop_assert!(cache.requests.iter().all(|(_, pages)| *pages <= most));
    }
}
