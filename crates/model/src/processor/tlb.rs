//! Translation look-aside buffers of one core: two levels, and a cache of upper page-table levels.

use super::TlbSpec;
use std::ops::Range;
use tierscope_units::Size;

/// A translation as the hardware keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// Physical frame number.
    pub frame: u64,
    /// Stores are allowed without a further look at the page table.
    pub writable: bool,
}

/// What a look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlbHit {
    /// In the first level.
    First(Translation),
    /// In the second level; it is now in the first, too.
    Second(Translation),
    /// Nowhere: the page table has to be walked.
    None,
}

const FREE: u64 = u64::MAX;

/// A small set-associative table with least-recently-used replacement.
#[derive(Clone, Debug)]
struct Table {
    sets: u64,
    ways: usize,
    pages: Vec<u64>,
    payloads: Vec<u64>,
    stamps: Vec<u64>,
    clock: u64,
}

impl Table {
    fn new(entries: u32, ways: u32) -> Self {
        let ways = ways.max(1) as usize;
        let size = entries as usize / ways * ways;
        Table {
            sets: (size / ways) as u64,
            ways,
            pages: vec![FREE; size],
            payloads: vec![0; size],
            stamps: vec![0; size],
            clock: 0,
        }
    }

    #[inline]
    fn start(&self, page: u64) -> usize {
        let set =
            if self.sets.is_power_of_two() { page & (self.sets - 1) } else { page % self.sets };
        set as usize * self.ways
    }

    #[inline]
    fn find(&mut self, page: u64) -> Option<usize> {
        if self.sets == 0 {
            return None;
        }
        let start = self.start(page);
        let way = self.pages[start..start + self.ways].iter().position(|p| *p == page)?;
        self.clock += 1;
        self.stamps[start + way] = self.clock;
        Some(start + way)
    }

    fn payload(&mut self, page: u64) -> Option<u64> {
        let place = self.find(page)?;
        Some(self.payloads[place])
    }

    fn contains(&self, page: u64) -> bool {
        let set = || self.start(page)..self.start(page) + self.ways;
        self.sets > 0 && self.pages[set()].contains(&page)
    }

    fn insert(&mut self, page: u64, payload: u64) {
        if self.sets == 0 {
            return;
        }
        let place = self.find(page).unwrap_or_else(|| {
            let start = self.start(page);
            let set = start..start + self.ways;
            set.min_by_key(|i| if self.pages[*i] == FREE { 0 } else { self.stamps[*i] })
                .unwrap_or(start)
        });
        self.clock += 1;
        self.pages[place] = page;
        self.payloads[place] = payload;
        self.stamps[place] = self.clock;
    }

    fn remove(&mut self, page: u64) {
        if let Some(place) = self.find(page) {
            self.pages[place] = FREE;
        }
    }

    fn clear(&mut self) {
        self.pages.fill(FREE);
    }

    fn forget(&mut self, pages: &Range<u64>) {
        self.pages.iter_mut().filter(|page| pages.contains(page)).for_each(|page| *page = FREE);
    }
}

/// Pages of a huge page: what an entry of the next level covers.
const HUGE: u64 = 512;

/// Set in the number of a huge page, so that it is none of a page's where both have entries in one table.
const OF_HUGE: u64 = 1 << 62;

/// The number under which a table has the huge page that a page is in.
fn huge_of(page: u64) -> u64 {
    (page / HUGE) | OF_HUGE
}

/// Where the entries of huge pages are. A level without a table has them in that of pages.
#[derive(Clone, Debug)]
struct HugeTables {
    first: Option<Table>,
    second: Option<Table>,
}

fn pack(translation: Translation) -> u64 {
    translation.frame << 1 | u64::from(translation.writable)
}

fn unpack(payload: u64) -> Translation {
    Translation { frame: payload >> 1, writable: payload & 1 == 1 }
}

/// The TLB of a core.
#[derive(Clone, Debug)]
pub struct Tlb {
    first: Table,
    second: Table,
    upper: Table,
    huge: Option<Box<HugeTables>>,
    last_page: u64,
    last: Translation,
    /// The processes whose translations it may hold, the one that ran last behind.
    processes: Vec<u64>,
    /// Most of them.
    address_spaces: usize,
}

impl Tlb {
    /// An empty TLB.
    pub fn new(spec: &TlbSpec) -> Self {
        Tlb {
            first: Table::new(spec.entries, spec.ways),
            second: Table::new(spec.second_level_entries, spec.second_level_ways),
            upper: Table::new(spec.walk_cache_entries, spec.walk_cache_entries),
            huge: None,
            last_page: FREE,
            last: Translation { frame: 0, writable: false },
            processes: Vec::new(),
            address_spaces: spec.address_spaces as usize,
        }
    }

    /// The same with entries for huge pages beside those of pages of this size, as the processor has them.
    pub fn with_huge_pages(spec: &TlbSpec, page: Size) -> Self {
        let small = spec.of_pages(page);
        let large = spec.large.iter().find(|large| large.page.bytes() == page.bytes() * HUGE);
        let tables = HugeTables {
            first: large.map(|large| Table::new(large.entries, large.ways)),
            second: large
                .filter(|large| !large.shares_second_level)
                .map(|large| Table::new(large.second_level_entries, large.second_level_ways)),
        };
        Tlb { huge: Some(Box::new(tables)), ..Tlb::new(&small) }
    }

    /// A thread of a process runs on the core from now on. Translations of so many processes are told
    /// apart; of the one that ran longest ago all are forgotten where there is no room for a further one
    /// (`choose_new_asid`, arch/x86/mm/tlb.c). Pages of a process of this number have it above `48 -
    /// page_shift` bits.
    pub fn enter(&mut self, process: u64, page_shift: u32) {
        if self.processes.last() == Some(&process) {
            return;
        }
        if let Some(place) = self.processes.iter().position(|other| *other == process) {
            self.processes.remove(place);
        } else if self.processes.len() >= self.address_spaces.max(1) {
            let gone = self.processes.remove(0);
            let shift = 48 - page_shift;
            self.forget(&(gone << shift..(gone + 1) << shift));
        }
        self.processes.push(process);
    }

    /// Forgets all of a range of pages, and of upper levels what covers a part of it.
    pub fn forget(&mut self, pages: &Range<u64>) {
        self.first.forget(pages);
        self.second.forget(pages);
        let above = pages.start / HUGE..pages.end.div_ceil(HUGE);
        self.upper.forget(&above);
        if self.huge.is_some() {
            let of_huge = |from: &Range<u64>| from.start | OF_HUGE..from.end | OF_HUGE;
            self.huge_first().forget(&of_huge(&above));
            self.huge_second().forget(&of_huge(&above));
            self.upper.forget(&of_huge(&(above.start / HUGE..above.end.div_ceil(HUGE))));
        }
        self.last_page = FREE;
    }

    /// Looks a virtual page number up. A page used again at once is found without a search; it is
    /// the most recently used of its set already, so that nothing changes by that.
    #[inline]
    pub fn lookup(&mut self, page: u64) -> TlbHit {
        if let Some(translation) = self.lookup_first(page) {
            return TlbHit::First(translation);
        }
        let Some(place) = self.second.find(page) else { return self.lookup_second_huge(page) };
        let payload = self.second.payloads[place];
        self.first.insert(page, payload);
        self.last_page = page;
        self.last = unpack(payload);
        TlbHit::Second(self.last)
    }

    fn lookup_second_huge(&mut self, page: u64) -> TlbHit {
        if self.huge.is_none() {
            return TlbHit::None;
        }
        let Some(payload) = self.huge_second().payload(huge_of(page)) else { return TlbHit::None };
        self.huge_first().insert(huge_of(page), payload);
        TlbHit::Second(self.note_huge(page, payload))
    }

    /// The translation of a page of a huge page, which is the last that was used.
    fn note_huge(&mut self, page: u64, payload: u64) -> Translation {
        let huge = unpack(payload);
        self.last_page = page;
        self.last = Translation { frame: huge.frame + page % HUGE, ..huge };
        self.last
    }

    fn huge_first(&mut self) -> &mut Table {
        let own = self.huge.as_mut().and_then(|tables| tables.first.as_mut());
        own.unwrap_or(&mut self.first)
    }

    fn huge_second(&mut self) -> &mut Table {
        let own = self.huge.as_mut().and_then(|tables| tables.second.as_mut());
        own.unwrap_or(&mut self.second)
    }

    /// Looks a virtual page number up in the first level alone.
    #[inline]
    pub fn lookup_first(&mut self, page: u64) -> Option<Translation> {
        if page == self.last_page {
            return Some(self.last);
        }
        let Some(place) = self.first.find(page) else {
            self.huge.as_ref()?;
            let payload = self.huge_first().payload(huge_of(page))?;
            return Some(self.note_huge(page, payload));
        };
        self.last_page = page;
        self.last = unpack(self.first.payloads[place]);
        Some(self.last)
    }

    /// Enters a translation of a page in both levels, which is that of all of its huge page if it is a part of one.
    pub fn insert_of(&mut self, page: u64, translation: Translation, is_huge: bool) {
        if !is_huge {
            return self.insert(page, translation);
        }
        let first = Translation { frame: translation.frame - page % HUGE, ..translation };
        self.huge_first().insert(huge_of(page), pack(first));
        self.huge_second().insert(huge_of(page), pack(first));
        self.last_page = page;
        self.last = translation;
    }

    /// Enters a translation in both levels.
    pub fn insert(&mut self, page: u64, translation: Translation) {
        self.first.insert(page, pack(translation));
        self.second.insert(page, pack(translation));
        self.last_page = page;
        self.last = translation;
    }

    /// Whether a walk for this page, or for the huge page that it is in, finds all but the last level in the cache of
    /// upper levels; afterwards it will.
    pub fn upper_levels_cached(&mut self, page: u64, is_huge: bool) -> bool {
        let region = if is_huge { huge_of(page / HUGE) } else { page / HUGE };
        let hit = self.upper.find(region).is_some();
        if !hit {
            self.upper.insert(region, 0);
        }
        hit
    }

    /// Whether a level holds a page. Asking has no effect.
    pub fn holds(&self, page: u64) -> bool {
        let holds_huge = |tables: &HugeTables| {
            let levels = [(&tables.first, &self.first), (&tables.second, &self.second)];
            levels
                .iter()
                .any(|(own, shared)| own.as_ref().unwrap_or(shared).contains(huge_of(page)))
        };
        self.first.contains(page)
            || self.second.contains(page)
            || self.huge.as_deref().is_some_and(holds_huge)
    }

    /// Forgets a page, and the huge page that it is in.
    pub fn invalidate(&mut self, page: u64) {
        self.first.remove(page);
        self.second.remove(page);
        if self.huge.is_some() {
            self.huge_first().remove(huge_of(page));
            self.huge_second().remove(huge_of(page));
        }
        self.last_page = FREE;
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.first.clear();
        self.second.clear();
        self.upper.clear();
        if self.huge.is_some() {
            self.huge_first().clear();
            self.huge_second().clear();
        }
        self.last_page = FREE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processor::LargePageTlbSpec;
    use proptest::prelude::*;

    fn spec(entries: u32, ways: u32, second: u32) -> TlbSpec {
        TlbSpec {
            entries,
            ways,
            second_level_entries: second,
            second_level_ways: 4,
            second_level_latency_cycles: 7,
            walk_cache_entries: 4,
            levels: 4,
            address_spaces: 2,
            large: Vec::new(),
        }
    }

    fn at(page: u64) -> Translation {
        Translation { frame: page + 1000, writable: page.is_multiple_of(2) }
    }

    #[test]
    fn a_page_512_times_as_large_ends_a_walk_a_level_earlier_and_has_entries_of_its_own() {
        let large = LargePageTlbSpec {
            page: Size::from_bytes(1 << 30),
            entries: 3,
            ways: 3,
            second_level_entries: 0,
            second_level_ways: 1,
            shares_second_level: false,
        };
        let all = TlbSpec { large: vec![large], ..spec(64, 4, 512) };
        let of = |bytes| {
            let own = all.of_pages(Size::from_bytes(bytes));
            (own.entries, own.second_level_entries, own.levels)
        };
        assert_eq!([12, 16, 20].map(|shift| of(1 << shift)), [(64, 512, 4); 3]);
        assert_eq!([of(2 << 20), of(1 << 30)], [(64, 512, 3), (3, 0, 2)]);
        assert_eq!(
            TlbSpec { levels: 1, ..all.clone() }.of_pages(Size::from_bytes(1 << 30)).levels,
            1
        );
    }

    #[test]
    fn reach_is_the_number_of_entries() {
        let mut tlb = Tlb::new(&spec(64, 64, 0));
        for page in 0..64 {
            tlb.insert(page, at(page));
        }
        assert!((0..64).all(|page| tlb.lookup(page) == TlbHit::First(at(page))));
        tlb.insert(64, at(64));
        assert_eq!(tlb.lookup(0), TlbHit::None, "the least recently used entry makes room");
    }

    #[test]
    fn a_page_dropped_by_the_first_level_is_found_in_the_second() {
        let mut tlb = Tlb::new(&spec(4, 4, 64));
        for page in 0..5 {
            tlb.insert(page, at(page));
        }
        assert_eq!(tlb.lookup(0), TlbHit::Second(at(0)));
        assert_eq!(tlb.lookup(0), TlbHit::First(at(0)));
    }

    #[test]
    fn so_many_processes_keep_their_translations_over_a_switch() {
        const SHIFT: u32 = 36;
        let mut tlb = Tlb::new(&spec(64, 64, 0));
        let page = |process: u64| process << SHIFT | 7;
        for process in 0..2 {
            tlb.enter(process, 12);
            tlb.insert(page(process), at(page(process)));
            assert!(!tlb.upper_levels_cached(page(process), false));
        }
        tlb.enter(0, 12);
        assert!(tlb.holds(page(0)) && tlb.holds(page(1)), "two are told apart");
        tlb.enter(2, 12);
        assert!(tlb.holds(page(0)), "the one that ran last");
        assert_eq!(tlb.lookup(page(1)), TlbHit::None, "the one that ran longest ago");
        assert!(
            tlb.upper_levels_cached(page(0), false) && !tlb.upper_levels_cached(page(1), false)
        );
        tlb.enter(1, 12);
        assert!(!tlb.holds(page(0)));
    }

    /// Six entries of the first level for huge pages, and of the second those of pages or none.
    fn with_huge(shares_second_level: bool) -> Tlb {
        let large = LargePageTlbSpec {
            page: Size::from_bytes(2 << 20),
            entries: 6,
            ways: 6,
            second_level_entries: 0,
            second_level_ways: 1,
            shares_second_level,
        };
        let spec = TlbSpec { large: vec![large], ..spec(4, 4, 16) };
        Tlb::with_huge_pages(&spec, Size::from_bytes(4096))
    }

    #[test]
    fn a_huge_page_has_one_entry_for_all_of_its_pages() {
        for shares in [false, true] {
            let mut tlb = with_huge(shares);
            let of_huge = |page| Translation { frame: 5 * HUGE + page % HUGE, writable: true };
            tlb.insert_of(3 * HUGE + 7, of_huge(7), true);
            tlb.insert(9, at(9));
            let pages = 3 * HUGE..4 * HUGE;
            assert!(pages.clone().all(|page| tlb.lookup(page) == TlbHit::First(of_huge(page))));
            assert!(pages.clone().all(|page| tlb.holds(page)) && !tlb.holds(4 * HUGE));
            assert_eq!(tlb.lookup(9), TlbHit::First(at(9)), "its own table keeps it");
            assert_eq!([4 * HUGE, 3, 3 * HUGE - 1].map(|page| tlb.lookup(page)), [TlbHit::None; 3]);
            (10..16).for_each(|nth| tlb.insert_of(nth * HUGE, of_huge(0), true));
            let found = if shares { TlbHit::Second(of_huge(1)) } else { TlbHit::None };
            assert_eq!(tlb.lookup(3 * HUGE + 1), found, "out of the first level");
            tlb.insert_of(3 * HUGE, of_huge(0), true);
            tlb.invalidate(3 * HUGE + 500);
            assert_eq!(tlb.lookup(3 * HUGE), TlbHit::None, "any of its pages stands for it");
        }
    }

    #[test]
    fn huge_pages_are_forgotten_with_their_process_and_walked_a_level_less() {
        const SHIFT: u32 = 36;
        let mut tlb = with_huge(true);
        let page = |process: u64| (process << SHIFT) | (3 * HUGE);
        let frame = Translation { frame: 0, writable: true };
        for process in 0..2 {
            tlb.enter(process, 12);
            tlb.insert_of(page(process), frame, true);
            assert!(!tlb.upper_levels_cached(page(process), true));
            assert!(tlb.upper_levels_cached(page(process) + 9 * HUGE, true), "of 512 huge pages");
            assert!(!tlb.upper_levels_cached(page(process), false), "a table of pages is another");
        }
        tlb.enter(2, 12);
        assert!(!tlb.holds(page(0)) && tlb.holds(page(1)));
        assert!(!tlb.upper_levels_cached(page(0), true));
        tlb.clear();
        assert!(!tlb.holds(page(1)));
    }

    proptest! {
        #[test]
        fn a_look_up_never_gives_what_was_invalidated(
            steps in proptest::collection::vec((0u8..3, 0u64..40), 1..400)
        ) {
            let mut tlb = Tlb::new(&spec(8, 2, 16));
            let mut valid = std::collections::BTreeSet::new();
            for (what, page) in steps {
                match what {
                    0 => { tlb.insert(page, at(page)); valid.insert(page); }
                    1 => { tlb.invalidate(page); valid.remove(&page); }
                    _ => match tlb.lookup(page) {
                        TlbHit::None => {}
                        TlbHit::First(t) | TlbHit::Second(t) => {
                            prop_assert!(valid.contains(&page));
                            prop_assert_eq!(t, at(page));
                        }
                    }
                }
            }
        }
    }
}
