//! Fault-around: what is mapped beside a page that faults, because it is in the page cache anyway.

use super::{Folio, PageCache, Pattern};

/// Entries of a page-table page.
const TABLE_ENTRIES: u64 = 512;

/// The page table, by pages of the file.
pub trait PageTable {
    /// Whether a page has an entry.
    fn mapped(&self, page: u64) -> bool;

    /// Makes an entry for a page that is in the cache.
    fn map(&mut self, page: u64);
}

/// A mapping of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vma {
    /// First page of the file that it maps.
    pub first: u64,
    /// Number of pages.
    pub pages: u64,
    /// Virtual page number of the first.
    pub address: u64,
    /// Advice.
    pub pattern: Pattern,
}

impl Vma {
    /// Entry of a page of the file within its page-table page.
    fn entry(&self, page: u64) -> u64 {
        (self.address + page - self.first) % TABLE_ENTRIES
    }

    /// Pages of the file that are looked at for a fault: those that share its `around` entries of
    /// the page table, within the mapping (`do_fault_around`, mm/memory.c).
    pub fn around(&self, page: u64, around: u64) -> (u64, u64) {
        let (entry, offset) = (self.entry(page), page - self.first);
        let from = (entry & !(around - 1)).max(entry - entry.min(offset));
        let to = (from + around).min(TABLE_ENTRIES).min(entry + self.pages - offset) - 1;
        (page - (entry - from), page + to - entry)
    }

    /// Whether a folio lies in the mapping, in one page-table page, and in front of the file's last
    /// page: only then it is mapped as a whole.
    fn holds(&self, folio: Folio, file_pages: u64) -> bool {
        let end = folio.first + folio.pages();
        folio.first >= self.first
            && end <= self.first + self.pages
            && self.entry(folio.first) + folio.pages() <= TABLE_ENTRIES
            && file_pages > end
    }
}

/// Maps what is cached around `page`, but for folios with a mark, which have to fault; how many
/// pages were found, and whether `page` was newly mapped (`filemap_map_pages`).
pub fn map(
    cache: &impl PageCache,
    table: &mut impl PageTable,
    vma: &Vma,
    page: u64,
    around: u64,
) -> (u32, bool) {
    let (first, last) = vma.around(page, around);
    let last = last.min(cache.file_pages().saturating_sub(1));
    let (mut found, mut mapped) = (0, false);
    let mut at = first;
    while at <= last {
        let Some(folio) = cache.folio(at) else {
            at += 1;
            continue;
        };
        let end = folio.first + folio.pages();
        let (from, to) = if folio.order > 0 && vma.holds(folio, cache.file_pages()) {
            (folio.first, end)
        } else {
            (at, end.min(last + 1))
        };
        if !folio.marked {
            found += (to - from) as u32;
            for near in from..to {
                if !table.mapped(near) {
                    table.map(near);
                    mapped |= near == page;
                }
            }
        }
        at = end;
    }
    (found, mapped)
}

/// Maps the folio of a page that faulted: as a whole where none of it is mapped yet, else the page
/// alone (`finish_fault`).
pub fn map_folio(
    cache: &impl PageCache,
    table: &mut impl PageTable,
    vma: &Vma,
    page: u64,
    folio: Folio,
) {
    let pages = folio.first..folio.first + folio.pages();
    if vma.holds(folio, cache.file_pages()) && pages.clone().all(|near| !table.mapped(near)) {
        pages.for_each(|near| table.map(near));
    } else {
        table.map(page);
    }
}
