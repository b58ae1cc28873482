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
    Limits { window, io: 32, largest_order, chunk: 512, release: Release::V6_18 }
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

/// Requests for calls of so many pages, in a row from the start.
fn calls(release: Release, pages: u64, number: u64) -> Vec<(u64, u64)> {
    let limits = Limits { release, ..limits(32, 0) };
    let (mut readahead, mut cache) = (Readahead::new(limits), Plain::new(1 << 20));
    for first in (0..number).map(|call| call * pages) {
        for page in first..first + pages {
            readahead.read(&mut cache, page, first + pages);
        }
        readahead.end_of_read((first + pages) * 4096, 4096);
    }
    cache.requests
}

/// `ondemand_readahead` of mm/readahead.c, by hand. The first window of a call as large as the largest window is all
/// asked for: until 4.9 its mark is at the call's own first page, so that the next window comes with it.
#[test]
fn large_calls_had_the_next_window_read_at_once() {
    for release in [Release::V2_6_32, Release::V4_9] {
        assert_eq!(calls(release, 32, 3), [(0, 64), (64, 32), (96, 32)], "{release:?}");
        assert_eq!(calls(release, 1, 12), [(0, 4), (4, 8), (12, 16)], "{release:?}");
    }
    assert_eq!(calls(Release::V6_18, 32, 2), [(0, 32), (32, 32), (64, 32)]);
}

/// A call of more than the window: 6.18 gives it as much as the device takes at once, others no more than
/// the window.
#[test]
fn no_call_was_given_more_than_the_window() {
    let first = |release| {
        let limits = Limits { release, io: 128, ..limits(32, 0) };
        let (mut readahead, mut cache) = (Readahead::new(limits), Plain::new(1 << 20));
        readahead.read(&mut cache, 1000, 1128);
        cache.requests[0]
    };
    assert_eq!(first(Release::V6_18), (1000, 128));
    assert_eq!(first(Release::V4_9), (1000, 64), "the window, and the next that its mark asks for");
}

/// Pages in front of a miss that have been read: one was enough in 2.6.32 (`try_context_readahead`).
#[test]
fn how_many_pages_of_history_make_a_stream() {
    let read = |release, history: std::ops::Range<u64>| {
        let limits = Limits { release, ..limits(32, 0) };
        let (mut readahead, mut cache) = (Readahead::new(limits), Plain::new(1 << 20));
        history.for_each(|page| {
            cache.folios.insert(page, Folio { first: page, order: 0, marked: false });
        });
        readahead.read(&mut cache, 1000, 1001);
        cache.requests[0]
    };
    let of = |history: std::ops::Range<u64>| {
        [Release::V2_6_32, Release::V4_9, Release::V6_18]
            .map(|release| read(release, history.clone()))
    };
    assert_eq!(of(0..0), [(1000, 1); 3]);
    // First windows of 2 and of 6 pages are 4 and 16, whose marks are met at once: with the next 8 and 32.
    assert_eq!(of(999..1000), [(1000, 12), (1000, 1), (1000, 1)]);
    assert_eq!(of(995..1000), [(1000, 48), (1000, 6), (1000, 6)]);
}

/// Faults in a row on a mapping: until 2.6.39 they ramp up as calls do; then each miss reads around itself.
#[test]
fn faults_in_a_row_were_read_ahead_of_as_calls_are() {
    let requests = |release| {
        let limits = Limits { release, ..limits(32, 0) };
        let (mut readahead, mut cache) = (Readahead::new(limits), Plain::new(1 << 20));
        let vma = Vma { first: 0, pages: 1 << 20, address: 0, pattern: Pattern::Normal };
        for page in (0..12).chain(1000..1002) {
            fault(&mut readahead, &mut cache, &mut BTreeSet::new(), &vma, page, (false, 1));
        }
        cache.requests
    };
    assert_eq!(requests(Release::V2_6_32), [(0, 4), (4, 8), (12, 16), (984, 32)]);
    assert_eq!(requests(Release::V4_9), [(0, 32), (984, 32)]);
    assert_eq!(requests(Release::V6_18), [(0, 32), (984, 32)]);
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
        release in prop::sample::select(vec![Release::V2_6_32, Release::V4_9, Release::V6_18]),
        file_pages in 1u64..3000,
        around in 0u32..7,
        shift in 0u64..512,
        steps in proptest::collection::vec((0u8..8, 0u64..3000, 1u64..400), 1..60),
    ) {
        // Large folios are younger than 4.9.
        let order = if release == Release::V6_18 { order } else { 0 };
        let mut readahead = Readahead::new(Limits { release, ..limits(window, order) });
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
        // With an advised window of twice the size, and the next that a mark at its start asks for.
        let most = (4 * window).max(400);
        prop_assert!(cache.requests.iter().all(|(_, pages)| *pages <= most));
    }
}
