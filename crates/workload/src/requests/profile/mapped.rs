//! Which pages of files loads and stores reach, through mappings.

use crate::op::{Advice, Call, FileId, MAP_SHARED, NO_FILE};
use std::collections::{BTreeMap, BTreeSet};

const PAGE_SHIFT: u32 = 12;
/// The number of a process stands above so many bits of its pages' numbers.
const PROCESS_SHIFT: u32 = 48 - PAGE_SHIFT;
/// Pages of which is known at once what they are.
const RECENT: usize = 1 << 10;

/// A mapping of a file.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    pages: u64,
    file: FileId,
    /// The file's page that comes first.
    first: u64,
    shared: bool,
}

/// What a page is.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Its number plus 1.
    page: u64,
    of: Option<PageOfFile>,
}

/// A page of a file that an access reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageOfFile {
    pub file: FileId,
    pub index: u64,
    /// What is stored goes to the file.
    pub shared: bool,
}

/// The mappings of files of all processes, by their first pages.
pub(super) struct Mappings {
    all: BTreeMap<u64, Mapping>,
    /// Pages of private mappings that have been stored to, and are no longer the file's.
    copied: BTreeSet<u64>,
    recent: Box<[Known; RECENT]>,
}

impl Default for Mappings {
    fn default() -> Self {
        let recent = Box::new([Known::default(); RECENT]);
        Mappings { all: BTreeMap::new(), copied: BTreeSet::new(), recent }
    }
}

impl Mappings {
    /// A call, which may change what is mapped. All ranges are of whole pages.
    pub fn take(&mut self, call: &Call) {
        let pages = |length: u64| length.div_ceil(1 << PAGE_SHIFT);
        match *call {
            Call::Map { address, length, flags, file, offset } => {
                let (at, pages) = (address >> PAGE_SHIFT, pages(length));
                self.unmap(at, pages);
                if file != NO_FILE {
                    let shared = flags & MAP_SHARED != 0;
                    let first = offset >> PAGE_SHIFT;
                    self.all.insert(at, Mapping { pages, file, first, shared });
                }
            }
            Call::Unmap { address, length } => self.unmap(address >> PAGE_SHIFT, pages(length)),
            Call::Advise { address, length, advice } if advice == Advice::DontNeed as u64 => {
                self.forget_copies(address >> PAGE_SHIFT, pages(length));
            }
            Call::Remap { old_address, old_length, new_address, new_length } => {
                let (from, to) = (old_address >> PAGE_SHIFT, new_address >> PAGE_SHIFT);
                let there = self.find(from).map(|(at, it)| Mapping {
                    first: it.first + (from - at),
                    pages: pages(new_length),
                    ..it
                });
                let copied: Vec<u64> = self
                    .copied
                    .range(from..from.saturating_add(pages(old_length)))
                    .copied()
                    .collect();
                self.unmap(from, pages(old_length));
                self.unmap(to, pages(new_length));
                self.all.extend(there.map(|it| (to, it)));
                self.copied.extend(copied.into_iter().map(|page| page - from + to));
            }
            Call::Fork { parent, process, .. } => {
                let (from, to) = (parent << PROCESS_SHIFT, process << PROCESS_SHIFT);
                let range = from..from.saturating_add(1 << PROCESS_SHIFT);
                let moved = |at: u64| at - from + to;
                let all: Vec<_> =
                    self.all.range(range.clone()).map(|(at, it)| (moved(*at), *it)).collect();
                let copied: Vec<_> = self.copied.range(range).map(|at| moved(*at)).collect();
                self.all.extend(all);
                self.copied.extend(copied);
            }
            Call::Exec { process } | Call::Exit { process } => {
                self.unmap(process << PROCESS_SHIFT, 1 << PROCESS_SHIFT);
            }
            _ => return,
        }
        self.recent.fill(Known::default());
    }

    /// The page of a file that an access to a page of memory reaches. A store to a private mapping copies the page,
    /// once.
    #[inline]
    pub fn reached(&mut self, page: u64, store: bool) -> Option<PageOfFile> {
        if self.all.is_empty() {
            return None;
        }
        let known = self.recent[page as usize % RECENT];
        let of = if known.page == page + 1 { known.of } else { self.look_up(page) }?;
        if store && !of.shared {
            self.copied.insert(page);
            self.recent[page as usize % RECENT].of = None;
        }
        Some(of)
    }

    #[cold]
    fn look_up(&mut self, page: u64) -> Option<PageOfFile> {
        let found = self.find(page).filter(|_| !self.copied.contains(&page));
        let of = found.map(|(at, it)| PageOfFile {
            file: it.file,
            index: it.first + (page - at),
            shared: it.shared,
        });
        self.recent[page as usize % RECENT] = Known { page: page + 1, of };
        of
    }

    fn find(&self, page: u64) -> Option<(u64, Mapping)> {
        let (at, it) = self.all.range(..=page).next_back()?;
        (page - at < it.pages).then_some((*at, *it))
    }

    fn unmap(&mut self, start: u64, pages: u64) {
        let end = start.saturating_add(pages);
        self.forget_copies(start, pages);
        let mut cut: Vec<u64> = self.all.range(start..end).map(|(at, _)| *at).collect();
        cut.extend(self.all.range(..start).next_back().map(|(at, _)| *at));
        for at in cut {
            let Some(it) = self.all.get(&at).copied() else { continue };
            let its_end = at.saturating_add(it.pages);
            if its_end <= start {
                continue;
            }
            self.all.remove(&at);
            if at < start {
                self.all.insert(at, Mapping { pages: start - at, ..it });
            }
            if its_end > end {
                let first = it.first + (end - at);
                self.all.insert(end, Mapping { pages: its_end - end, first, ..it });
            }
        }
    }

    fn forget_copies(&mut self, start: u64, pages: u64) {
        let gone: Vec<u64> =
            self.copied.range(start..start.saturating_add(pages)).copied().collect();
        gone.iter().for_each(|page| {
            self.copied.remove(page);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    fn map(at: u64, pages: u64, shared: bool, file: FileId, first: u64) -> Call {
        let flags = if shared { MAP_SHARED } else { 0 };
        Call::Map { address: at * PAGE, length: pages * PAGE, flags, file, offset: first * PAGE }
    }

    /// File and page that a load finds at each of some pages.
    fn found(
        mappings: &mut Mappings,
        pages: impl IntoIterator<Item = u64>,
    ) -> Vec<Option<(u32, u64)>> {
        let of = |page| mappings.reached(page, false).map(|it| (it.file, it.index));
        pages.into_iter().map(of).collect()
    }

    #[test]
    fn accesses_reach_the_page_that_is_mapped_there_now() {
        let mut mappings = Mappings::default();
        mappings.take(&map(100, 10, true, 3, 50));
        assert_eq!(
            found(&mut mappings, [99, 100, 109, 110]),
            [None, Some((3, 50)), Some((3, 59)), None]
        );
        mappings.take(&Call::Unmap { address: 103 * PAGE, length: 2 * PAGE });
        assert_eq!(
            found(&mut mappings, [102, 103, 104, 105]),
            [Some((3, 52)), None, None, Some((3, 55))]
        );
        mappings.take(&map(101, 1, true, NO_FILE, 0));
        mappings.take(&map(108, 5, true, 4, 0));
        assert_eq!(
            found(&mut mappings, [101, 107, 108, 112]),
            [None, Some((3, 57)), Some((4, 0)), Some((4, 4))]
        );
        mappings.take(&Call::Remap {
            old_address: 106 * PAGE,
            old_length: 2 * PAGE,
            new_address: 500 * PAGE,
            new_length: 3 * PAGE,
        });
        assert_eq!(found(&mut mappings, [106, 500, 502]), [None, Some((3, 56)), Some((3, 58))]);
    }

    #[test]
    fn a_private_mapping_is_the_files_until_it_is_stored_to() {
        let mut mappings = Mappings::default();
        mappings.take(&map(10, 4, false, 1, 0));
        assert!(mappings.reached(11, true).is_some(), "the store reads what it copies");
        assert_eq!(found(&mut mappings, [10, 11]), [Some((1, 0)), None]);
        mappings.take(&Call::Fork { parent: 0, process: 2, thread: 1 });
        let child = 2 << PROCESS_SHIFT;
        assert_eq!(found(&mut mappings, [child + 10, child + 11]), [Some((1, 0)), None]);
        let length = 4 * PAGE;
        mappings.take(&Call::Advise {
            address: 10 * PAGE,
            length,
            advice: Advice::DontNeed as u64,
        });
        assert_eq!(
            found(&mut mappings, [11, child + 11]),
            [Some((1, 1)), None],
            "read from the file again"
        );
        mappings.take(&Call::Exit { process: 2 });
        assert_eq!(found(&mut mappings, [child + 10, 10]), [None, Some((1, 0))]);
    }
}
