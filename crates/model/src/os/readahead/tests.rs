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
    sane_pages: u64,
    congested: bool,
}

impl Plain {
    pub(super) fn new(file_pages: u64) -> Self {
        Plain {
            file_pages,
            folios: BTreeMap::new(),
            request: Vec::new(),
            requests: Vec::new(),
            sane_pages: u64::MAX,
            congested: false,
        }
    }

    /// Single pages are there, whoever has read them.
    fn has(&mut self, pages: std::ops::Range<u64>, marked: bool) {
        self.folios.extend(pages.map(|page| (page, Folio { first: page, order: 0, marked })));
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

    fn sane_pages(&self) -> u64 {
        self.sane_pages
    }

    fn is_congested(&self) -> bool {
        self.congested
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

const RELEASES: [Release; 3] = [Release::V2_6_32, Release::V4_9, Release::V6_18];

/// A file of another release, with a window of 32 pages and a device that takes 128 at once; and its cache.
fn of(release: Release) -> (Readahead, Plain) {
    let limits = Limits { release, io: 128, ..limits(32, 0) };
    (Readahead::new(limits), Plain::new(1 << 20))
}

/// Faults on a mapping of a whole file, with nothing mapped around them.
fn faults(readahead: &mut Readahead, cache: &mut Plain, pattern: Pattern, pages: &[u64]) {
    let vma = Vma { first: 0, pages: 1 << 20, address: 0, pattern };
    for page in pages {
        fault(readahead, cache, &mut BTreeSet::new(), &vma, *page, (false, 1));
    }
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
        cache.has(history, false);
        readahead.read(&mut cache, 1000, 1001);
        cache.requests[0]
    };
    let of = |history: std::ops::Range<u64>| RELEASES.map(|release| read(release, history.clone()));
    assert_eq!(of(0..0), [(1000, 1); 3]);
    // First windows of 2 and of 6 pages are 4 and 16, whose marks are met at once: with the next 8 and 32.
    assert_eq!(of(999..1000), [(1000, 12), (1000, 1), (1000, 1)]);
    assert_eq!(of(995..1000), [(1000, 48), (1000, 6), (1000, 6)]);
}

/// Faults in a row on a mapping: until 2.6.39 they are as calls that ask for a whole window, whose mark is where
/// the next begins (`do_sync_mmap_readahead`); then each miss reads around itself.
#[test]
fn faults_in_a_row_were_read_ahead_of_as_calls_are() {
    let requests = |release| {
        let (mut readahead, mut cache) = of(release);
        let pages: Vec<u64> = (0..33).chain(1000..1002).collect();
        faults(&mut readahead, &mut cache, Pattern::Normal, &pages);
        cache.requests
    };
    assert_eq!(requests(Release::V2_6_32), [(0, 64), (64, 32), (984, 32)]);
    // What is read around page 0 has its mark at 24, the window behind it at 32.
    let by_marks = [(0, 32), (32, 32), (64, 32), (984, 32)];
    assert_eq!(requests(Release::V4_9), by_marks);
    assert_eq!(requests(Release::V6_18), by_marks);
}

/// A fault under any advice is the last place of the file in 2.6.32 (`filemap_fault`): the next one goes on from it.
#[test]
fn a_fault_at_random_was_the_last_place_of_a_file() {
    let second = |release| {
        let (mut readahead, mut cache) = of(release);
        faults(&mut readahead, &mut cache, Pattern::Random, &[1000]);
        faults(&mut readahead, &mut cache, Pattern::Normal, &[1001]);
        cache.requests[1]
    };
    // Around it there is page 1000 already.
    assert_eq!(RELEASES.map(second), [(1001, 64), (985, 15), (985, 15)]);
}

/// `MADV_WILLNEED` of 4,000 pages (`force_page_cache_readahead`): half of free and inactive memory (`max_sane_readahead`),
/// in parts of 2 MiB; the device's window, whatever the file's; what the device takes at once.
#[test]
fn what_will_be_needed_was_read_as_far_as_memory_was_free() {
    let requests = |release, sane_pages| {
        let (mut readahead, mut cache) = of(release);
        cache.sane_pages = sane_pages;
        readahead.advise(Pattern::Sequential);
        readahead.need(&mut cache, 100, 4000);
        cache.requests
    };
    assert_eq!(requests(Release::V2_6_32, 1100), [(100, 512), (612, 512), (1124, 76)]);
    assert_eq!(requests(Release::V4_9, 1100), [(100, 32)]);
    assert_eq!(requests(Release::V6_18, 1100), [(100, 128)]);
    let pages: u64 = requests(Release::V2_6_32, u64::MAX).iter().map(|(_, pages)| pages).sum();
    assert_eq!(pages, 4000);
}

/// Where the queue is full of reads, a mark is taken off and nothing is read ahead; what is missed then is read with a window
/// (`page_cache_async_readahead` up to 4.20).
#[test]
fn nothing_was_read_ahead_of_need_where_the_queue_was_full() {
    let requests = |release, pages| {
        let (mut readahead, mut cache) = of(release);
        for page in 0..pages {
            cache.congested = page >= 4;
            readahead.read(&mut cache, page, page + 1);
            readahead.end_of_read((page + 1) * 4096, 4096);
        }
        cache.requests
    };
    // The mark is at page 4, which begins the third window in 6.18.
    let ahead = vec![(0, 4), (4, 8), (12, 16)];
    assert_eq!(RELEASES.map(|it| requests(it, 12)), [&ahead[..2], &ahead[..2], &ahead]);
    // A miss of page 12 begins it in any case, and has the next with it (`readit` of `ondemand_readahead`).
    let missed = vec![(0, 4), (4, 8), (12, 16 + 32)];
    assert_eq!(RELEASES.map(|it| requests(it, 13))[..2], [missed.clone(), missed]);
}

/// Windows of calls and around faults, too, were no larger than memory had room for in 2.6.32.
#[test]
fn windows_shrank_where_memory_was_short() {
    let requests = |release| {
        let (mut readahead, mut cache) = of(release);
        cache.sane_pages = 10;
        readahead.read(&mut cache, 5000, 5032);
        faults(&mut readahead, &mut cache, Pattern::Normal, &[1000]);
        cache.requests
    };
    assert_eq!(requests(Release::V2_6_32), [(5000, 20), (995, 10)]);
    assert_eq!(requests(Release::V4_9), [(5000, 32), (984, 32)]);
}

/// `POSIX_FADV_RANDOM` took the window away in 2.6.32 (mm/fadvise.c), so that calls were served page by page;
/// since 2.6.34 what a call asks for is read at once, as far as that is done by force.
#[test]
fn files_at_random_were_read_page_by_page() {
    let requests = |release| {
        let (mut readahead, mut cache) = of(release);
        readahead.advise(Pattern::Random);
        for page in 1000..1003 {
            readahead.read(&mut cache, page, 1003);
        }
        let by_calls = std::mem::take(&mut cache.requests);
        faults(&mut readahead, &mut cache, Pattern::Normal, &[7000]);
        readahead.advise(Pattern::Normal);
        faults(&mut readahead, &mut cache, Pattern::Normal, &[9000]);
        (by_calls, cache.requests)
    };
    let page_by_page = vec![(1000, 1), (1001, 1), (1002, 1)];
    assert_eq!(requests(Release::V2_6_32), (page_by_page, vec![(7000, 1), (8984, 32)]));
    for release in [Release::V4_9, Release::V6_18] {
        assert_eq!(requests(release), (vec![(1000, 3)], vec![(6984, 32), (8984, 32)]));
    }
}

/// 2,000 faults at random, and 950 that find their page: since 3.0 no more than 1,000 misses are counted.
#[test]
fn misses_were_counted_without_end() {
    let last = |release| {
        let (mut readahead, mut cache) = of(release);
        let misses: Vec<u64> = (1..=2000).map(|n| 500 * n).collect();
        faults(&mut readahead, &mut cache, Pattern::Normal, &misses);
        faults(&mut readahead, &mut cache, Pattern::Normal, &misses[2000 - 950..]);
        faults(&mut readahead, &mut cache, Pattern::Normal, &[100]);
        *cache.requests.last().unwrap()
    };
    assert_eq!(RELEASES.map(last), [(100, 1), (84, 32), (84, 32)]);
}

/// A page that is still being read counts as found, before 6.18 (`do_async_mmap_readahead`).
#[test]
fn a_page_on_its_way_was_as_good_as_there() {
    let last = |release| {
        let (mut readahead, mut cache) = of(release);
        let misses: Vec<u64> = (1..=100).map(|n| 500 * n).collect();
        faults(&mut readahead, &mut cache, Pattern::Normal, &misses);
        readahead.look_up(&mut cache, 500, Pattern::Normal, true);
        faults(&mut readahead, &mut cache, Pattern::Normal, &[100]);
        *cache.requests.last().unwrap()
    };
    assert_eq!(RELEASES.map(last), [(84, 32), (84, 32), (100, 1)]);
}

/// A mark of another stream where the last window ends is as good as the window's own, until 4.9
/// (`ondemand_readahead`): else the window goes by what is cached.
#[test]
fn a_mark_where_the_last_window_ended_went_on_with_it() {
    let second = |release| {
        let (mut readahead, mut cache) = of(release);
        cache.has(1016..1017, true);
        faults(&mut readahead, &mut cache, Pattern::Normal, &[1000]);
        readahead.read(&mut cache, 1016, 1017);
        cache.requests[1]
    };
    assert_eq!(second(Release::V2_6_32), (1017, 63));
    assert_eq!(second(Release::V4_9), (1017, 63));
    assert_eq!(second(Release::V6_18), (1017, 3));
}

/// The last window of a file of 40 pages is of 32, of which 12 are there: until 4.9 its mark is where it would be
/// without the end (`__do_page_cache_readahead`).
#[test]
fn the_mark_of_a_window_that_the_file_cut_stayed_where_it_was() {
    let marked = |release| {
        let (mut readahead, mut cache) = of(release);
        cache.file_pages = 40;
        for page in 0..20 {
            readahead.read(&mut cache, page, page + 1);
            readahead.end_of_read((page + 1) * 4096, 4096);
        }
        assert_eq!(cache.requests.last(), Some(&(28, 12)));
        cache.folio(28).unwrap().marked
    };
    assert_eq!(RELEASES.map(marked), [true, true, false]);
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
        release in prop::sample::select(RELEASES.to_vec()),
        sane_pages in prop_oneof![0u64..100, Just(u64::MAX)],
        file_pages in 1u64..3000,
        around in 0u32..7,
        shift in 0u64..512,
        steps in proptest::collection::vec((0u8..8, 0u64..3000, 1u64..400), 1..60),
    ) {
        // Large folios are younger than 4.9.
        let order = if release == Release::V6_18 { order } else { 0 };
        let mut readahead = Readahead::new(Limits { release, ..limits(window, order) });
        let (mut cache, mut table) = (Plain::new(file_pages), BTreeSet::new());
        cache.sane_pages = sane_pages;
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
