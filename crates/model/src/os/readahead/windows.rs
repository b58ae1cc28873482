//! How large a window is, and what is added to the page cache for it.

use super::{Filling, Folio, Readahead, walk};
use crate::os::release::Release;

impl Readahead {
    /// So many pages, or in 2.6.32 as many as memory has room for (`max_sane_readahead`).
    pub(super) fn sane(&self, cache: &impl Filling, pages: u64) -> u64 {
        match self.limits.release {
            Release::V2_6_32 => pages.min(cache.sane_pages()),
            _ => pages,
        }
    }

    /// Largest window for a call that asks for this many pages (`ractl_max_pages`): until 4.9 none gets
    /// more than others.
    fn most(&self, cache: &impl Filling, wanted: u64) -> u64 {
        if self.limits.release < Release::V6_18 {
            self.sane(cache, self.window)
        } else if wanted > self.window && self.limits.io > self.window {
            wanted.min(self.limits.io)
        } else {
            self.window
        }
    }

    /// A page is not there, and `wanted` pages from it on are asked for (`page_cache_sync_ra`).
    pub(super) fn miss(&mut self, cache: &mut impl Filling, page: u64, wanted: u64) {
        if self.window == 0 {
            return self.force(cache, page, 1);
        }
        if self.random {
            return self.force(cache, page, wanted.min(self.most_forced(cache)));
        }
        if self.limits.release < Release::V6_18 {
            return self.miss_on_demand(cache, page, wanted);
        }
        let most = self.most(cache, wanted);
        let in_a_row = page.wrapping_sub(self.previous) <= 1;
        if page == 0 || wanted > most || in_a_row {
            self.size = first_size(wanted, most);
            self.async_size = if self.size > wanted { self.size - wanted } else { self.size >> 1 };
        } else {
            let (history, from_start) = walk::history(cache, page, most);
            if history <= wanted {
                // By itself, as a random read: it leaves the window as it is.
                return self.add_pages(cache, page, wanted, 0);
            }
            let history = if from_start { 2 * history } else { history };
            self.size = (history + wanted).min(most);
            self.async_size = 1;
        }
        self.start = page;
        self.order = 0;
        self.add_window(cache, page);
    }

    /// The same until 4.9 (`ondemand_readahead`, mm/readahead.c).
    fn miss_on_demand(&mut self, cache: &mut impl Filling, page: u64, wanted: u64) {
        let most = self.most(cache, wanted);
        let in_a_row = page.wrapping_sub(self.previous) <= 1;
        if page > 0 && self.expects(page) {
            self.start += self.size;
            self.size = next_size(self.size, most);
            self.async_size = self.size;
        } else if page == 0 || wanted > most || in_a_row {
            self.start = page;
            self.size = first_size(wanted, most);
            self.async_size = if self.size > wanted { self.size - wanted } else { self.size };
        } else {
            // One page in front is enough in 2.6.32 (`try_context_readahead`).
            let (history, from_start) = walk::history(cache, page, most);
            let is_old = self.limits.release == Release::V2_6_32;
            if history == 0 || (!is_old && history <= wanted) {
                return self.add_pages(cache, page, wanted, 0);
            }
            let history = if from_start { 2 * history } else { history };
            self.start = page;
            if is_old {
                self.size = first_size(history + wanted, most);
                self.async_size = self.size;
            } else {
                self.size = (history + wanted).min(most);
                self.async_size = 1;
            }
        }
        self.add_window_on_demand(cache, page, most);
    }

    /// Whether an access there goes on with the last window, until 4.9: at its mark, or where it ends.
    fn expects(&self, page: u64) -> bool {
        let end = self.start + self.size;
        page == end.saturating_sub(self.async_size) || page == end
    }

    /// Adds the window: where the access would meet the mark itself, the next one with it.
    fn add_window_on_demand(&mut self, cache: &mut impl Filling, page: u64, most: u64) {
        if page == self.start && self.size == self.async_size {
            self.async_size = next_size(self.size, most);
            self.size += self.async_size;
        }
        self.order = 0;
        self.add_window(cache, self.start);
    }

    /// An access at `page` met a folio with a mark (`page_cache_async_ra`).
    pub(super) fn hit_mark(
        &mut self,
        cache: &mut impl Filling,
        folio: Folio,
        page: u64,
        wanted: u64,
    ) {
        if self.window == 0 {
            return;
        }
        cache.unmark(folio);
        let is_old = self.limits.release < Release::V6_18;
        if is_old && cache.is_congested() {
            return;
        }
        let most = self.most(cache, wanted);
        let mark = (self.start + self.size).saturating_sub(self.async_size);
        let expected =
            if is_old { self.expects(page) } else { page == mark & !(folio.pages() - 1) };
        if expected {
            self.start += self.size;
            let next = next_size(self.size, most);
            // A window that had the next one with it is none to go by.
            self.size = if is_old { next } else { self.size.max(next) };
        } else {
            // Of another stream: what is cached from here on was its window.
            let start = walk::next_miss(cache, page + 1, most);
            if start - page > most {
                return;
            }
            self.start = start;
            self.size = next_size(start - page + wanted, most);
        }
        if is_old {
            self.async_size = self.size;
            return self.add_window_on_demand(cache, page, most);
        }
        self.order += 2;
        self.end_at_a_boundary(most);
        self.async_size = self.size;
        self.add_window(cache, self.start);
    }

    /// Cuts a window where a folio of its order would end.
    fn end_at_a_boundary(&mut self, most: u64) {
        let align = 1u64 << self.order.min(most.trailing_zeros());
        let end = self.start + self.size;
        let cut = end & !(align - 1);
        if cut > self.start {
            self.size -= end - cut;
        }
    }

    /// Adds the window, from `first` on, in folios as large as they may be
    /// (`page_cache_ra_order`).
    pub(super) fn add_window(&mut self, cache: &mut impl Filling, first: u64) {
        if self.limits.largest_order == 0 || self.size == 0 {
            self.order = 0;
            return self.add_pages(cache, first, self.size, self.async_size);
        }
        let end = first + self.size;
        let until = end.min(cache.file_pages());
        let mark = end.saturating_sub(self.async_size);
        self.order = self.order.min(self.limits.largest_order).min(self.size.ilog2());
        let mut at = first;
        while at < until {
            let order = fitting_order(at, until, self.order);
            let pages = 1u64 << order;
            let marked = mark & !(pages - 1) == at;
            let free = (at..at + pages).all(|page| cache.folio(page).is_none());
            if !free || !cache.add(Folio { first: at, order, marked }) {
                cache.submit();
                return self.add_pages(cache, at, end.saturating_sub(at), self.async_size);
            }
            at += pages;
        }
        cache.submit();
    }

    /// As many pages as are read by force (`force_page_cache_ra`): in 2.6.32 as memory has room for, in 4.9 the
    /// device's own window, whatever the file's.
    pub(super) fn most_forced(&self, cache: &impl Filling) -> u64 {
        match self.limits.release {
            Release::V2_6_32 => cache.sane_pages(),
            Release::V4_9 => self.limits.window,
            Release::V6_18 => self.limits.io.max(self.window),
        }
    }

    /// Reads pages whatever the pattern.
    pub(super) fn force(&mut self, cache: &mut impl Filling, first: u64, pages: u64) {
        let end = first + pages;
        let mut at = first;
        while at < end {
            let part = (end - at).min(self.limits.chunk);
            self.add_pages(cache, at, part, 0);
            at += part;
        }
    }

    /// Adds single pages, those that are there left out, each gap of which ends a request; the mark goes
    /// in front of the last `lookahead` (`do_page_cache_ra`, `page_cache_ra_unbounded`): of those in the file,
    /// and until 4.9 of all that are asked for (`__do_page_cache_readahead`).
    fn add_pages(&self, cache: &mut impl Filling, first: u64, pages: u64, lookahead: u64) {
        let in_file = pages.min(cache.file_pages().saturating_sub(first));
        let counted = if self.limits.release < Release::V6_18 { pages } else { in_file };
        let mark = (lookahead > 0 && lookahead <= counted).then(|| first + counted - lookahead);
        for page in first..first + in_file {
            if cache.folio(page).is_some() {
                cache.submit();
            } else if !cache.add(Folio { first: page, order: 0, marked: mark == Some(page) }) {
                break;
            }
        }
        cache.submit();
    }
}

/// The largest folio that may begin at a page: aligned, and not beyond the end.
fn fitting_order(at: u64, end: u64, largest: u32) -> u32 {
    let mut order = largest.min(at.trailing_zeros());
    while at + (1 << order) > end {
        order -= 1;
    }
    order
}

/// The first window of a stream (`get_init_ra_size`).
fn first_size(wanted: u64, most: u64) -> u64 {
    let size = wanted.next_power_of_two();
    if size <= most / 32 {
        4 * size
    } else if size <= most / 4 {
        2 * size
    } else {
        most
    }
}

/// The window after one of `size` (`get_next_ra_size`).
fn next_size(size: u64, most: u64) -> u64 {
    if size < most / 16 {
        4 * size
    } else if size <= most / 2 {
        2 * size
    } else {
        most
    }
}
