//! Transparent huge pages of anonymous memory (`do_huge_pmd_anonymous_page`, mm/huge_memory.c of Linux 6.18): 512 pages
//! in frames beside each other, with one entry in the page table, which come and leave as one.
//!
//! A huge page has an entry for each of its pages here as well, and each of its frames what is known of the frame's page;
//! [`Frame::huge`] says that they belong together. Its table of entries is there from the start, as Linux puts one by for
//! when it is split. So all that works on pages works on one that has been split.

use super::*;
use crate::os::TransparentHugePages;
use crate::os::reclaim::Reclaimer;
use crate::os::release::Release;

/// Pages of a huge page.
const PAGES: u64 = Frame::HUGE;

/// How often whoever may reclaim for one tries before pages do (`MAX_RECLAIM_RETRIES`).
const MOST_TRIES: u32 = 16;

/// The huge pages of all processes.
#[derive(Clone, Debug)]
pub(super) struct Huge {
    /// Also where nobody has asked for them.
    always: bool,
    /// Since 4.14 swap takes them as a whole where it has room (`CONFIG_THP_SWAP`), and since 6.14 advice that pages may be
    /// dropped frees their tables of entries as well (`CONFIG_PT_RECLAIM`).
    is_new: bool,
    /// What no call has mapped is the program's image and stack, which get none: of recorded programs.
    all_is_mapped: bool,
    /// The first virtual page of each.
    all: BTreeSet<u64>,
    /// How often a fault has waited for room for one, by its first page.
    waited: BTreeMap<u64, u32>,
}

impl Huge {
    pub(super) fn of(os: &OsSpec, policy: ReclaimPolicy) -> Option<Box<Huge>> {
        (!os.transparent_huge_pages.is_never()).then(|| {
            Box::new(Huge {
                always: os.transparent_huge_pages == TransparentHugePages::Always,
                is_new: policy.release().is_none_or(|release| release == Release::V6_18),
                all_is_mapped: false,
                all: BTreeSet::new(),
                waited: BTreeMap::new(),
            })
        })
    }
}

/// Whether a fault gets a huge page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    There,
    /// Pages it is then.
    None,
    /// Once what leaves memory is gone.
    Soon,
}

fn first_of(page: u64) -> u64 {
    page & !(PAGES - 1)
}

/// Whether all of a huge page, or of the table of entries in its place, lies within a range.
fn is_within(first: u64, pages: &Range<u64>) -> bool {
    pages.start <= first && first + PAGES <= pages.end
}

/// The least that is to be free where huge pages are made, so that memory does not become a mixture of what can be moved
/// and what cannot (`set_recommended_min_free_kbytes`, mm/khugepaged.c), of x86-64: two blocks of pages in each zone, and
/// nine more, but a twentieth of memory at most.
pub(super) fn least_free_pages(managed_pages: u64, page_bytes: u64) -> u64 {
    const ZONE_ENDS: [u64; 2] = [16 << 20, 4 << 30];
    const KINDS: u64 = 3;
    let bytes = managed_pages * page_bytes;
    let zones = 1 + ZONE_ENDS.iter().filter(|end| bytes > **end).count() as u64;
    (PAGES * zones * (2 + KINDS * KINDS)).min(managed_pages / 20)
}

impl Paging {
    /// Whether the frame is a part of a huge page, whose entry a walk finds a level earlier.
    #[inline]
    pub fn is_huge(&self, frame: u64) -> bool {
        self.huge.is_some() && self.frames.get(frame).huge
    }

    /// Calls tell of all memory of the program but its image and its stack.
    pub fn all_is_mapped(&mut self) {
        self.huge.iter_mut().for_each(|huge| huge.all_is_mapped = true);
    }

    /// Whether there may be huge pages.
    pub fn makes_huge_pages(&self) -> bool {
        self.huge.is_some()
    }

    /// The virtual pages of the huge page that a fault of a page may make: all of one mapping that is to have huge pages,
    /// or where nothing is mapped, and without a table of entries or an entry yet. Whether the program has asked for it.
    fn huge_range(&self, page: u64) -> Option<(Range<u64>, bool)> {
        let huge = self.huge.as_ref()?;
        if self.space.table_frame(0, page).is_some() {
            return None;
        }
        let pages = first_of(page)..first_of(page) + PAGES;
        let (is_covered, advice) = match self.space.find(page) {
            Some((_, Mapping { file: Some(_), .. })) => return None,
            Some((_, mapping)) => (self.space.is_of_alike(pages.clone(), &mapping), mapping.huge),
            None if huge.all_is_mapped => return None,
            None => (is_within(pages.start, &self.space.gap(page)), None),
        };
        let may = is_covered && advice.unwrap_or(huge.always);
        // What has moved there, or is a fork's, may have found no frame for its table.
        let may = may && self.space.touched(pages.start, PAGES).is_empty();
        may.then_some((pages, advice == Some(true)))
    }

    /// Whether a fault of a page gets a huge page. Whoever has asked for one reclaims for it; others take what is there
    /// (`vma_thp_gfp_mask` with "madvise" in /sys/kernel/mm/transparent_hugepage/defrag).
    pub(super) fn room_for_huge(
        &mut self,
        page: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Room, OsError> {
        let Some((_, reclaims)) = self.huge_range(page) else { return Ok(Room::None) };
        let Some(limits) = &self.limits else { return Ok(Room::There) };
        let most = limits.memory;
        let waited = self.huge.as_mut().and_then(|huge| huge.waited.remove(&first_of(page)));
        let waited = waited.unwrap_or(0);
        let may_reclaim = reclaims && PAGES <= most;
        let mut tries = if may_reclaim { MOST_TRIES.saturating_sub(waited) } else { 0 };
        while self.charged_pages() + PAGES > most {
            if tries == 0 {
                return Ok(self.no_room_for_huge());
            }
            let reclaimed = self.counters.reclaimed_pages;
            self.reclaim_pages(Reclaimer::Group, PAGES, work, held)?;
            if self.charged_pages() + PAGES > most && self.is_swapping_out() {
                if let Some(huge) = &mut self.huge {
                    huge.waited.insert(first_of(page), waited + 1);
                }
                return Ok(Room::Soon);
            }
            tries = if self.counters.reclaimed_pages > reclaimed { tries - 1 } else { 0 };
        }
        let Watermarks { min, high, .. } = self.watermarks;
        if self.frames.free() < min + PAGES && reclaims {
            self.reclaim(Reclaimer::Direct { high_pages: high }, work, held)?;
        }
        Ok(if self.frames.free() < min + PAGES { self.no_room_for_huge() } else { Room::There })
    }

    fn is_swapping_out(&self) -> bool {
        let is_written = |it: &Transfer| it.write && it.swap && it.moves == Moves::Pages;
        self.transfers.iter().any(|(_, transfer)| is_written(transfer))
    }

    fn no_room_for_huge(&mut self) -> Room {
        self.counters.huge_page_fallbacks += 1;
        Room::None
    }

    /// Anonymous memory is touched for the first time, and gets a huge page of zeros; the page's frame. `None` where no
    /// frames beside each other are free.
    pub(super) fn touch_huge(&mut self, page: u64, work: &mut Vec<Work>) -> Option<u64> {
        let pages = first_of(page)..first_of(page) + PAGES;
        // What nobody has had yet holds unrelated pages where memory is full from the start.
        let Some(head) = self.frames.allocate_huge(pages.start, !self.prefilled) else {
            self.no_room_for_huge();
            return None;
        };
        self.counters.minor_faults += 1;
        self.counters.huge_page_faults += 1;
        for (virtual_page, frame) in pages.clone().zip(head..) {
            self.frames.get_mut(frame).dirty = true;
            self.space.set(virtual_page, Pte::Present { frame, writable: true });
        }
        self.frames.get_mut(head).young = true;
        if self.limits.is_some() {
            let order = PAGES.trailing_zeros() as u8;
            self.reclaim.add(head, order, Kind::Anonymous, Shadow::default(), self.in_fault);
            self.reclaim.is_new(head);
        }
        if let Some(huge) = &mut self.huge {
            huge.all.insert(pages.start);
        }
        for nth in clearing_order(page - pages.start) {
            self.clear(head + nth, work);
        }
        Some(head + page - pages.start)
    }

    /// The first pages of the huge pages that have a page of a range.
    fn huge_in(&self, pages: &Range<u64>) -> Vec<u64> {
        let within = first_of(pages.start)..pages.end;
        self.huge.iter().flat_map(|huge| huge.all.range(within.clone()).copied()).collect()
    }

    /// The huge pages that have a page of a range become pages, which stay where they are (`__split_huge_pmd`).
    pub(super) fn split_within(&mut self, pages: Range<u64>) {
        self.huge_in(&pages).into_iter().for_each(|first| self.split_huge(first));
    }

    /// Pages of a range are unmapped: of a huge page that is not within it the others stay, as pages. Those that are.
    pub(super) fn split_for_unmapping(&mut self, pages: Range<u64>) -> Vec<u64> {
        let mut all = self.huge_in(&pages);
        all.retain(|first| {
            let goes = is_within(*first, &pages);
            if goes {
                self.part_huge(*first)
            } else {
                self.split_huge(*first)
            }
            goes
        });
        all
    }

    /// Pages of a range move by so many: huge pages that stay aligned move as a whole, with their tables
    /// (`move_huge_pmd`), and others are split. Where those begin that do, and their tables.
    pub(super) fn lift_huge(&mut self, pages: Range<u64>, by: u64) -> Vec<(u64, u64)> {
        let mut lifted = Vec::new();
        for first in self.huge_in(&pages) {
            if !is_within(first, &pages) || !by.is_multiple_of(PAGES) {
                self.split_huge(first);
            } else if let Some(table) = self.space.take_table(first) {
                self.huge.iter_mut().for_each(|huge| _ = huge.all.remove(&first));
                lifted.push((first, table));
            }
        }
        lifted
    }

    /// Huge pages that were lifted are somewhere else from now on.
    pub(super) fn put_huge(&mut self, lifted: Vec<(u64, u64)>, by: u64) {
        let Some(huge) = &mut self.huge else { return };
        for (first, table) in lifted {
            let to = first.wrapping_add(by);
            huge.all.insert(to);
            self.space.set_table_frame(0, to, table);
        }
    }

    /// The program needs pages of a range no longer: tables of entries that serve these alone go, where they do.
    pub(super) fn drop_tables_of_advice(&mut self, pages: Range<u64>) {
        if self.huge.as_ref().is_none_or(|huge| !huge.is_new) {
            return;
        }
        let mut served = self.space.tables_in(pages.clone());
        served.retain(|first| is_within(*first, &pages));
        served.into_iter().for_each(|first| self.drop_table(first));
    }

    /// A mapping ends at a page from now on: the huge page across it is split (`vma_adjust_trans_huge`).
    pub(super) fn split_at(&mut self, page: u64) {
        if !page.is_multiple_of(PAGES) {
            self.split_within(page..page + 1);
        }
    }

    fn split_huge(&mut self, first: u64) {
        self.counters.huge_page_splits += 1;
        self.part_huge(first);
    }

    fn part_huge(&mut self, first: u64) {
        let Some(head) = self.dissolve(first) else { return };
        let Frame { young, locked, .. } = self.frames.get(head);
        for frame in head + 1..head + PAGES {
            let info = self.frames.get_mut(frame);
            (info.young, info.locked) = (young, locked);
        }
        if self.ages_pages() {
            self.reclaim.split(head, &others_of(head));
        }
        self.effects.push(Effect::Shootdown(first));
    }

    /// The frames of a huge page belong together no longer. Its first.
    pub(super) fn dissolve(&mut self, first: u64) -> Option<u64> {
        let is_there = self.huge.as_mut().is_some_and(|huge| huge.all.remove(&first));
        let Pte::Present { frame: head, .. } = self.space.get(first) else { return None };
        if is_there {
            (head..head + PAGES).for_each(|frame| self.frames.get_mut(frame).huge = false);
        }
        is_there.then_some(head)
    }

    /// What was unmapped leaves tables of entries behind that serve nothing any more (`free_pgtables`): where huge pages
    /// may come, the next fault is to find none.
    pub(super) fn drop_tables(&mut self, unmapped: Range<u64>) {
        if self.huge.is_none() {
            return;
        }
        for first in self.space.tables_in(unmapped) {
            if is_within(first, &self.space.gap(first))
                && self.space.touched(first, PAGES).is_empty()
            {
                self.drop_table(first);
            }
        }
    }

    /// The table of a huge page that is gone goes with it (`zap_deposited_table`).
    pub(super) fn drop_table(&mut self, first: u64) {
        if let Some(frame) = self.space.take_table(first) {
            self.release(frame);
        }
    }

    /// Tables of entries that a walk looks at in any case: those of huge pages, of which it need not look at all entries.
    pub(super) fn huge_tables(&self) -> impl Iterator<Item = u64> + '_ {
        self.huge.iter().flat_map(|huge| huge.all.iter().map(|first| first / PAGES))
    }

    /// Whether any frame of a huge page is held, or takes part in a transfer.
    pub(super) fn is_huge_busy(&self, head: u64) -> bool {
        (head..head + PAGES).any(|frame| {
            let info = self.frames.get(frame);
            info.transfer != 0 || info.users > 0
        })
    }

    /// Swap slots for the pages of a huge page, beside each other where swap takes it as a whole and has room for it;
    /// as many as there are.
    pub(super) fn slots_for_huge(&mut self, head: u64) -> Result<Vec<u64>, OsError> {
        let Owner::Anonymous(first) = self.frames.get(head).owner else { return Ok(Vec::new()) };
        let takes_whole = self.huge.as_ref().is_some_and(|huge| huge.is_new);
        if takes_whole && let Some(from) = self.take_cluster() {
            // From the first page on, as places in the store are.
            let slots: Vec<u64> = (from..from + PAGES).rev().collect();
            for (page, slot) in (first..).zip(&slots) {
                self.slot_pages.set(*slot, page + 1);
            }
            self.counters.huge_page_swap_outs += 1;
            return Ok(slots);
        }
        let mut slots = Vec::with_capacity(PAGES as usize);
        for page in first..first + PAGES {
            match self.take_slot(Owner::Anonymous(page)) {
                Ok(Some(slot)) => slots.push(slot),
                // The others stay.
                Ok(None) => break,
                Err(_) if !slots.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        self.counters.huge_page_splits += u64::from(!slots.is_empty());
        Ok(slots)
    }

    /// The first of so many slots of swap beside each other. Without a size of its own swap takes more of the store for
    /// them as long as no more than half of what it has is free.
    fn take_cluster(&mut self) -> Option<u64> {
        if let Some(area) = &mut self.swap_area {
            return area.take_cluster();
        }
        let (first, free) = (self.slots_handed_out(), self.free_slots.len() as u64);
        (free <= first / 2 && self.grow_swap(PAGES)).then(|| {
            for slot in first..first + PAGES {
                self.swap_clusters.iter_mut().for_each(|it| it.use_slot(slot));
            }
            first
        })
    }
}

/// The frames of a huge page behind its first.
pub(super) fn others_of(head: u64) -> Vec<u64> {
    (head + 1..head + PAGES).collect()
}

/// The order in which the pages of a huge page are cleared, of which one is wanted: that comes last, and those around it
/// before it, so that their lines are on the chip (`process_huge_page`, mm/memory.c).
fn clearing_order(wanted: u64) -> impl Iterator<Item = u64> {
    let from_start = 2 * wanted <= PAGES;
    let pairs = if from_start { wanted } else { PAGES - wanted };
    let around = if from_start { 0..2 * pairs } else { PAGES - 2 * pairs..PAGES };
    let far: Vec<u64> =
        if from_start { (around.end..PAGES).rev().collect() } else { (0..around.start).collect() };
    let near = (0..pairs).flat_map(move |nth| [around.start + nth, around.end - 1 - nth]);
    far.into_iter().chain(near)
}

#[cfg(test)]
mod tests;
