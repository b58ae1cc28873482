//! The address space of the program: its mappings and its page table.

use super::readahead::Pattern;
use crate::os::InodeId;
use std::collections::BTreeMap;
use std::ops::Range;
use tierscope_kernel::cow::{CowMap, LEAF};

/// What a program may do with a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rights {
    /// Nothing (`PROT_NONE`).
    None,
    /// Anything but store to it.
    Read,
    /// Store to it as well (`VM_WRITE`).
    Write,
}

/// Whether the pages of a mapping stay in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Like any.
    No,
    /// They are brought there, and stay (`VM_LOCKED`).
    All,
    /// They stay once they were touched (`VM_LOCKONFAULT`).
    OnFault,
}

/// A mapping: pages of a file, or anonymous memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Number of pages.
    pub pages: u64,
    /// The file and the page of it that the mapping starts with; anonymous without.
    pub file: Option<(InodeId, u64)>,
    /// Stores reach the file.
    pub shared: bool,
    /// It is the program's heap.
    pub heap: bool,
    /// Advice.
    pub pattern: Pattern,
    /// Whether huge pages are wanted, where there is advice on it.
    pub huge: Option<bool>,
    /// What may be done with it.
    pub rights: Rights,
    /// Whether its pages stay in memory.
    pub lock: Lock,
    /// The opening of the file by which it was made.
    pub opening: u32,
}

impl Mapping {
    /// Anonymous memory like any.
    pub fn anonymous(pages: u64) -> Mapping {
        Mapping {
            pages,
            file: None,
            shared: false,
            heap: false,
            pattern: Pattern::Normal,
            huge: None,
            rights: Rights::Write,
            lock: Lock::No,
            opening: 0,
        }
    }

    /// Whether what follows it is one with it (`can_vma_merge_after`, mm/vma.c).
    fn goes_on_in(&self, next: &Mapping) -> bool {
        let file = self.file.map(|(file, first)| (file, first + self.pages));
        Mapping { pages: next.pages, file, ..*self } == *next
    }
}

/// A page-table entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pte {
    /// Never touched.
    None,
    /// In memory.
    Present {
        /// Frame number.
        frame: u64,
        /// Stores do not fault.
        writable: bool,
    },
    /// In the swap slot of this number.
    Swapped(u64),
}

const PRESENT: u64 = 1;
const WRITABLE: u64 = 2;
const SWAPPED: u64 = 4;

fn pack(pte: Pte) -> u64 {
    match pte {
        Pte::None => 0,
        Pte::Present { frame, writable } => {
            frame << 3 | PRESENT | if writable { WRITABLE } else { 0 }
        }
        Pte::Swapped(slot) => slot << 3 | SWAPPED,
    }
}

fn unpack(word: u64) -> Pte {
    if word & PRESENT != 0 {
        Pte::Present { frame: word >> 3, writable: word & WRITABLE != 0 }
    } else if word & SWAPPED != 0 {
        Pte::Swapped(word >> 3)
    } else {
        Pte::None
    }
}

/// Entries of one page-table page.
#[derive(Clone, Copy, Debug)]
pub struct TableEntries<'a>(&'a [u64; LEAF]);

impl TableEntries<'_> {
    /// The entry of a page, which is one of those that the page-table page is about.
    #[inline]
    pub fn get(&self, page: u64) -> Pte {
        unpack(self.0[page as usize % LEAF])
    }
}

/// Mappings and page table. All addresses are virtual page numbers.
#[derive(Clone, Debug)]
pub struct AddressSpace {
    mappings: BTreeMap<u64, Mapping>,
    entries: CowMap<u64>,
    tables: CowMap<u64>,
}

impl Default for AddressSpace {
    fn default() -> Self {
        AddressSpace { mappings: BTreeMap::new(), entries: CowMap::new(0), tables: CowMap::new(0) }
    }
}

impl AddressSpace {
    /// Adds a mapping, which replaces what it covers. Pages that were there before have to be
    /// released with [`AddressSpace::take`] first.
    pub fn map(&mut self, start: u64, mapping: Mapping) {
        self.unmap(start, mapping.pages);
        self.mappings.insert(start, mapping);
    }

    /// Removes mappings from a range, splitting those that reach beyond it.
    pub fn unmap(&mut self, start: u64, pages: u64) {
        let end = start.saturating_add(pages);
        let touching: Vec<(u64, Mapping)> = self
            .mappings
            .range(..end)
            .rev()
            .take_while(|(at, mapping)| **at + mapping.pages > start)
            .map(|(at, mapping)| (*at, *mapping))
            .collect();
        for (at, mapping) in touching {
            self.mappings.remove(&at);
            if at < start {
                self.mappings.insert(at, Mapping { pages: start - at, ..mapping });
            }
            let mapping_end = at + mapping.pages;
            if mapping_end > end {
                let skipped = end - at;
                let file = mapping.file.map(|(file, page)| (file, page + skipped));
                self.mappings.insert(end, Mapping { pages: mapping_end - end, file, ..mapping });
            }
        }
    }

    /// The mapping that covers a page, and its first page. Mappings never overlap.
    pub fn find(&self, page: u64) -> Option<(u64, Mapping)> {
        let (at, mapping) = self.mappings.range(..=page).next_back()?;
        (page < at + mapping.pages).then_some((*at, *mapping))
    }

    /// The pages around one that no mapping covers, up to the next mappings.
    pub fn gap(&self, page: u64) -> Range<u64> {
        let before = self.mappings.range(..=page).next_back();
        let start = before.map_or(0, |(at, mapping)| at + mapping.pages);
        start..self.mappings.range(page..).next().map_or(u64::MAX, |(at, _)| *at)
    }

    /// Whether all of a range is mapped as a mapping of anonymous memory is, so that what lies side by side of it counts as
    /// one (`vma_merge_new_range`, mm/vma.c).
    pub fn is_of_alike(&self, pages: Range<u64>, mapping: &Mapping) -> bool {
        let mut page = pages.start;
        while page < pages.end {
            match self.find(page) {
                Some((at, other)) if (Mapping { pages: mapping.pages, ..other }) == *mapping => {
                    page = at + other.pages;
                }
                _ => return false,
            }
        }
        true
    }

    /// Changes what is said of a range: of each mapping there, as far as it is within. Mappings that are alike then and
    /// follow each other are one.
    pub fn advise(&mut self, start: u64, pages: u64, set: impl Fn(&mut Mapping)) {
        let end = start.saturating_add(pages);
        self.change(start, end, set);
        let first = self.mappings.range(..start).next_back().map_or(start, |(at, _)| *at);
        let mut firsts: Vec<u64> = self.mappings.range(first..=end).map(|(at, _)| *at).collect();
        firsts.reverse();
        for pair in firsts.windows(2) {
            let (at, mapping, next) = (pair[1], self.mappings[&pair[1]], self.mappings[&pair[0]]);
            if at + mapping.pages == pair[0] && mapping.goes_on_in(&next) {
                self.mappings.remove(&pair[0]);
                self.mappings.insert(at, Mapping { pages: mapping.pages + next.pages, ..mapping });
            }
        }
    }

    fn change(&mut self, start: u64, end: u64, set: impl Fn(&mut Mapping)) {
        let mut page = start;
        while page < end {
            let Some((at, mapping)) = self.find(page) else {
                match self.mappings.range(page..end).next() {
                    Some((next, _)) => page = *next,
                    None => return,
                }
                continue;
            };
            let until = end.min(at + mapping.pages);
            let file = mapping.file.map(|(file, first)| (file, first + page - at));
            let mut advised = Mapping { pages: until - page, file, ..mapping };
            set(&mut advised);
            self.map(page, advised);
            page = until;
        }
    }

    /// The pages of files that a range maps, mapping by mapping.
    pub fn files_in(&self, start: u64, pages: u64) -> Vec<(InodeId, Range<u64>)> {
        self.pages_of_files(start, pages, |_| true)
    }

    /// Those of them that stores reach (`VM_SHARED`).
    pub fn shared_in(&self, start: u64, pages: u64) -> Vec<(InodeId, Range<u64>)> {
        self.pages_of_files(start, pages, |mapping| mapping.shared)
    }

    fn pages_of_files(
        &self,
        start: u64,
        pages: u64,
        which: impl Fn(&Mapping) -> bool,
    ) -> Vec<(InodeId, Range<u64>)> {
        let end = start.saturating_add(pages);
        let of_file = |(at, mapping): (&u64, &Mapping)| {
            let (file, first) = mapping.file.filter(|_| which(mapping))?;
            let (from, to) = (start.max(*at), end.min(at + mapping.pages));
            (from < to).then(|| (file, first + from - at..first + to - at))
        };
        self.mappings.range(..end).filter_map(of_file).collect()
    }

    /// The mappings that begin in a range of pages, by where they begin.
    pub fn mappings_in(&self, pages: Range<u64>) -> Vec<(u64, Mapping)> {
        self.mappings.range(pages).map(|(at, mapping)| (*at, *mapping)).collect()
    }

    /// Whether any mapping is of a file by an opening of it.
    pub fn maps_by(&self, file: InodeId, opening: u32) -> bool {
        let is_of_it = |mapping: &Mapping| {
            mapping.opening == opening && mapping.file.is_some_and(|(of, _)| of == file)
        };
        self.mappings.values().any(is_of_it)
    }

    /// Whether any mapping is of a file.
    pub fn maps(&self, file: InodeId) -> bool {
        self.mappings.values().any(|mapping| mapping.file.is_some_and(|(of, _)| of == file))
    }

    /// The first pages of the tables of entries that have a page of a range.
    pub fn tables_in(&self, pages: Range<u64>) -> Vec<u64> {
        const FEW: u64 = 1 << 12;
        let numbers = pages.start >> 9..pages.end.div_ceil(1 << 9);
        if numbers.end.saturating_sub(numbers.start) <= FEW {
            let is_there = |number: &u64| self.tables.get(*number) != 0;
            return numbers.filter(is_there).map(|number| number << 9).collect();
        }
        let of_entries = self.tables.iter().map(|(number, _)| number);
        of_entries.filter(|number| numbers.contains(number)).map(|number| number << 9).collect()
    }

    /// Takes out the table of entries that begins with a page's; its frame.
    pub fn take_table(&mut self, first: u64) -> Option<u64> {
        let key = Self::table_key(0, first);
        let frame = self.tables.get(key).checked_sub(1)?;
        self.tables.set(key, 0);
        Some(frame)
    }

    /// Takes out the page-table pages that serve a range of pages alone; their frames.
    pub fn take_tables(&mut self, pages: Range<u64>) -> Vec<u64> {
        const LEVEL_SHIFT: u32 = 52;
        let serves = |key: u64| {
            let bits = 9 * ((key >> LEVEL_SHIFT) as u32 + 1);
            let first = (key & ((1 << LEVEL_SHIFT) - 1)) << bits;
            bits < 64 && pages.contains(&first) && pages.end - first >= 1 << bits
        };
        let keys = self.tables.iter().map(|(key, _)| key).filter(|key| serves(*key));
        let keys: Vec<u64> = keys.collect();
        keys.iter()
            .filter_map(|key| {
                let frame = self.tables.get(*key).checked_sub(1);
                self.tables.set(*key, 0);
                frame
            })
            .collect()
    }

    /// The entry of a page.
    #[inline]
    pub fn get(&self, page: u64) -> Pte {
        unpack(self.entries.get(page))
    }

    /// The entries of the page-table page that has that of a page, to be looked at one after the other.
    #[inline]
    pub fn table_of(&self, page: u64) -> TableEntries<'_> {
        TableEntries(self.entries.leaf_of(page))
    }

    /// Sets the entry of a page.
    pub fn set(&mut self, page: u64, pte: Pte) {
        self.entries.set(page, pack(pte));
    }

    /// Clears the entry of a page and returns what it was.
    pub fn take(&mut self, page: u64) -> Pte {
        let pte = self.get(page);
        if pte != Pte::None {
            self.set(page, Pte::None);
        }
        pte
    }

    /// Pages of a range that have an entry, in order.
    pub fn touched(&self, start: u64, pages: u64) -> Vec<u64> {
        let end = start.saturating_add(pages);
        if pages <= 1 << 16 {
            return (start..end).filter(|page| self.entries.get(*page) != 0).collect();
        }
        self.entries.iter().map(|(page, _)| page).filter(|p| (start..end).contains(p)).collect()
    }

    /// Pages that have an entry, and their entries, in order from `page` on.
    pub fn entries_from(&self, page: u64) -> impl Iterator<Item = (u64, Pte)> + '_ {
        self.entries.iter_from(page).map(|(at, word)| (at, unpack(word)))
    }

    /// Virtual pages that map page `index` of a file, by the mappings.
    pub fn pages_of(&self, file: InodeId, index: u64) -> Vec<u64> {
        let of_file = |(at, mapping): (&u64, &Mapping)| {
            let (mapped, first) = mapping.file?;
            let skipped = index.checked_sub(first)?;
            (mapped == file && skipped < mapping.pages).then_some(at + skipped)
        };
        self.mappings.iter().filter_map(of_file).collect()
    }

    /// The frame of the page-table page at `level` (0: the one that holds the entry itself) for a
    /// virtual page, if it exists.
    pub fn table_frame(&self, level: u32, page: u64) -> Option<u64> {
        self.tables.get(Self::table_key(level, page)).checked_sub(1)
    }

    /// Enters the frame of a page-table page.
    pub fn set_table_frame(&mut self, level: u32, page: u64, frame: u64) {
        self.tables.set(Self::table_key(level, page), frame + 1);
    }

    /// Each level resolves nine bits of the page number; levels share one map, apart by high bits.
    fn table_key(level: u32, page: u64) -> u64 {
        u64::from(level) << 52 | page >> (9 * (level + 1))
    }

    /// A second one; the tables are shared until written.
    pub fn fork(&mut self) -> Self {
        AddressSpace {
            mappings: self.mappings.clone(),
            entries: self.entries.fork(),
            tables: self.tables.fork(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(pages: u64, first: u64) -> Mapping {
        Mapping { file: Some((1, first)), shared: true, ..Mapping::anonymous(pages) }
    }

    #[test]
    fn a_hole_splits_a_mapping_and_keeps_its_file_offsets() {
        let mut space = AddressSpace::default();
        space.map(100, file(50, 7));
        space.unmap(110, 5);
        assert_eq!(space.find(109), Some((100, file(10, 7))));
        assert_eq!(space.find(112), None);
        assert_eq!(space.find(120), Some((115, file(35, 22))));
    }

    #[test]
    fn advice_holds_for_its_range_only() {
        let mut space = AddressSpace::default();
        space.map(100, file(50, 0));
        space.advise(110, 10, |mapping| mapping.pattern = Pattern::Random);
        let pattern = |page| space.find(page).unwrap().1.pattern;
        assert_eq!(pattern(109), Pattern::Normal);
        assert_eq!(pattern(110), Pattern::Random);
        assert_eq!(pattern(119), Pattern::Random);
        assert_eq!(pattern(120), Pattern::Normal);
        assert_eq!(
            space.find(115),
            Some((110, Mapping { pattern: Pattern::Random, ..file(10, 10) }))
        );
        // Other advice on a part of it, and the same on all again.
        space.advise(105, 10, |mapping| mapping.pattern = Pattern::Sequential);
        assert_eq!(space.mappings_in(0..200).len(), 4);
        space.advise(90, 100, |mapping| mapping.pattern = Pattern::Normal);
        assert_eq!(space.mappings_in(0..200), [(100, file(50, 0))]);
        // What follows on it in memory, but not in the file, is another mapping.
        space.map(150, file(10, 51));
        space.advise(90, 100, |mapping| mapping.huge = None);
        assert_eq!(space.mappings_in(0..200).len(), 2);
    }

    proptest! {
        #[test]
        fn mappings_are_as_a_plain_array_says(
            steps in proptest::collection::vec((any::<bool>(), 0u64..200, 1u64..60), 1..60)
        ) {
            let mut space = AddressSpace::default();
            let mut plain = vec![None; 300];
            for (n, (map, start, pages)) in steps.into_iter().enumerate() {
                let first = 1000 * n as u64;
                if map {
                    space.map(start, file(pages, first));
                } else {
                    space.unmap(start, pages);
                }
                for i in 0..pages {
                    plain[(start + i) as usize] = map.then_some(first + i);
                }
                for page in 0..300u64 {
                    let found = space.find(page).map(|(at, m)| m.file.unwrap().1 + page - at);
                    prop_assert_eq!(found, plain[page as usize]);
                }
            }
        }

        #[test]
        fn entries_come_back_as_they_were_set(page in 0u64..1 << 36, number in 0u64..1 << 40) {
            let mut space = AddressSpace::default();
            for pte in [
                Pte::Present { frame: number, writable: true },
                Pte::Present { frame: number, writable: false },
                Pte::Swapped(number),
            ] {
                space.set(page, pte);
                prop_assert_eq!(space.get(page), pte);
            }
            space.take(page);
            prop_assert_eq!(space.get(page), Pte::None);
        }
    }
}
