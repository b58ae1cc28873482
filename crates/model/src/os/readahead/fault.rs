//! Readahead for page faults on a mapping.

use super::around::{self, PageTable, Vma};
use super::{Filling, LOTS_OF_MISSES, NOT_YET, PageCache, Pattern, Readahead, add_alone};
use crate::os::release::Release;

impl Readahead {
    /// The look-up of a faulting page in the page cache, with what is read for it. `arriving` says
    /// that the page is being read already: with 6.18 it is no sign for readahead. Afterwards the page is in the
    /// cache, unless there is no room; the fault begins again once it has been read, and looks up no
    /// more (`filemap_fault`, `do_async_mmap_readahead`).
    pub fn look_up(
        &mut self,
        cache: &mut impl Filling,
        page: u64,
        pattern: Pattern,
        arriving: bool,
    ) {
        match cache.folio(page) {
            Some(_) if self.ignores_faults(pattern) => {}
            Some(folio) => {
                if !(arriving && self.limits.release == Release::V6_18) {
                    self.misses = self.misses.saturating_sub(1);
                }
                if folio.marked {
                    self.hit_mark(cache, folio, page, self.window);
                }
            }
            None => {
                self.fault_miss(cache, page, pattern);
                add_alone(cache, page);
            }
        }
        if self.limits.release == Release::V2_6_32 {
            self.previous = page;
        }
    }

    /// Whether faults under this advice are none of readahead's business. 2.6.32 counts misses of a file
    /// without a window, too.
    fn ignores_faults(&self, pattern: Pattern) -> bool {
        let without_window = self.window == 0 && self.limits.release > Release::V2_6_32;
        pattern == Pattern::Random || without_window
    }

    /// What is read for a page that is not there (`do_sync_mmap_readahead`).
    fn fault_miss(&mut self, cache: &mut impl Filling, page: u64, pattern: Pattern) {
        if self.ignores_faults(pattern) {
            return;
        }
        // Until 2.6.39 faults in a row are read ahead of as calls of a whole window are.
        let is_old = self.limits.release == Release::V2_6_32;
        let first = page == 0 && self.previous == NOT_YET;
        let in_a_row = first || page == self.previous.wrapping_add(1);
        if pattern == Pattern::Sequential || is_old && in_a_row {
            return self.miss(cache, page, self.window);
        }
        // Since 3.0 so many more misses do not take as many more hits to be forgotten.
        let most_misses = if is_old { i32::MAX as u32 } else { 10 * LOTS_OF_MISSES };
        self.misses = (self.misses + 1).min(most_misses);
        if self.misses > LOTS_OF_MISSES {
            return;
        }
        let window = self.sane(cache, self.window);
        if window == 0 {
            return;
        }
        self.start = page.saturating_sub(window / 2);
        self.size = window;
        self.async_size = if is_old { 0 } else { window / 4 };
        self.order = 0;
        self.add_window(cache, self.start);
    }

    /// Maps the pages around a fault that are in the cache; whether the page itself is among them
    /// (`do_fault_around`). Each page that is found speaks for readahead.
    pub fn map_around(
        &mut self,
        cache: &impl PageCache,
        table: &mut impl PageTable,
        vma: &Vma,
        page: u64,
        around: u64,
    ) -> bool {
        if around <= 1 {
            return false;
        }
        let (found, mapped) = around::map(cache, table, vma, page, around);
        self.misses = self.misses.saturating_sub(found);
        mapped
    }
}
