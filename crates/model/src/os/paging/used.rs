//! Accessed bits of page-table entries, taken table by table or around an entry, as reclaim by generations
//! asks for them (`walk_pte_range` and `lru_gen_look_around`, mm/vmscan.c of Linux 6.18).

use super::*;
use crate::os::reclaim::Walked;

/// Entries of a table, and so pages of an entry of the level above.
const TABLE: u64 = 512;

/// A mapping, or what no call has mapped between two.
struct Covering {
    pages: Range<u64>,
    mapping: Option<Mapping>,
}

impl Paging {
    fn covering(&self, page: u64) -> Covering {
        match self.space.find(page) {
            Some((at, mapping)) => {
                Covering { pages: at..at + mapping.pages, mapping: Some(mapping) }
            }
            None => Covering { pages: self.space.gap(page), mapping: None },
        }
    }

    /// Walks the tables of page-table entries of all processes, those given or all, and takes the accessed bits
    /// where uses count (`should_skip_vma`); with mappings of anonymous memory or without.
    pub(super) fn walk_tables(
        &mut self,
        tables: Option<&BTreeSet<u64>>,
        anonymous: bool,
        visit: &mut dyn FnMut(Walked),
    ) {
        let all: BTreeSet<u64>;
        let tables = match tables {
            Some(tables) if self.huge.is_some() => {
                all = tables.iter().copied().chain(self.huge_tables()).collect();
                &all
            }
            Some(tables) => tables,
            None => {
                all = self.space.entries_from(0).map(|(page, _)| page / TABLE).collect();
                &all
            }
        };
        for table in tables {
            visit(self.walk_table(*table, anonymous));
        }
    }

    fn walk_table(&mut self, table: u64, anonymous: bool) -> Walked {
        let mut walked = Walked { table, entries: 0, young: Vec::new() };
        let (mut page, end) = (table * TABLE, (table + 1) * TABLE);
        while page < end {
            let covering = self.covering(page);
            let until = covering.pages.end.min(end);
            if self.is_walked(&covering, anonymous) {
                self.take_young(page..until, &covering, &|_| true, &mut walked);
            }
            page = until;
        }
        walked
    }

    /// Whether a walk looks at a mapping.
    fn is_walked(&self, covering: &Covering, anonymous: bool) -> bool {
        let Some(mapping) = &covering.mapping else { return anonymous };
        let is_of_file = mapping.file.is_some_and(|(file, _)| !self.is_in_swap(file));
        let is_left_out = !self.has_recency(mapping) || mapping.lock != Lock::No;
        !is_left_out && (is_of_file || anonymous)
    }

    /// Takes the accessed bits of some pages of a mapping, but those of folios that are in no list.
    fn take_young(
        &mut self,
        pages: Range<u64>,
        covering: &Covering,
        listed: &dyn Fn(u64) -> bool,
        walked: &mut Walked,
    ) {
        if covering.mapping.is_some() {
            walked.entries += pages.end - pages.start;
        }
        for page in pages {
            let Pte::Present { frame, .. } = self.space.get(page) else { continue };
            let frame = self.frames.get(frame).head(frame);
            walked.entries += u64::from(covering.mapping.is_none());
            if self.frames.get(frame).young && listed(frame) {
                self.frames.get_mut(frame).young = false;
                walked.young.push(frame);
            }
        }
    }

    /// Takes the accessed bits of so many entries around that of a folio, of one mapping and one table.
    pub(super) fn look_around(
        &mut self,
        folio: u64,
        entries: u64,
        listed: &dyn Fn(u64) -> bool,
    ) -> Option<Walked> {
        let page = self.frames.get(folio).mapped_at;
        if page == Frame::UNMAPPED || self.is_huge(folio) {
            return None;
        }
        let covering = self.covering(page);
        let table = page / TABLE;
        let first = covering.pages.start.max(table * TABLE);
        let past = covering.pages.end.min((table + 1) * TABLE);
        if past - first <= 1 {
            return None;
        }
        let mut walked = Walked { table, entries: 0, young: Vec::new() };
        self.take_young(around(page, first..past, entries), &covering, listed, &mut walked);
        Some(walked)
    }
}

/// So many pages with one in their middle, or as near to it as the bounds allow.
fn around(page: u64, bounds: Range<u64>, most: u64) -> Range<u64> {
    let pages = bounds.end - bounds.start;
    let first = page.saturating_sub(most / 2).clamp(bounds.start, bounds.end - most.min(pages));
    first..first + most.min(pages)
}

#[cfg(test)]
mod tests;
