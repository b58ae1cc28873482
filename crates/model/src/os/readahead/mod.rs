//! Readahead of files, on demand: which pages the kernel reads when a page is missed, and ahead of
//! which page it begins the next window.
//!
//! The rules are those of Linux 6.18, written anew from its behaviour: mm/readahead.c
//! (`page_cache_sync_ra`, `page_cache_async_ra`, `get_init_ra_size`, `get_next_ra_size`,
//! `page_cache_ra_order`, `page_cache_ra_unbounded`, `force_page_cache_ra`), mm/filemap.c
//! (`filemap_get_pages`, `do_sync_mmap_readahead`, `do_async_mmap_readahead`, `filemap_map_pages`)
//! and mm/memory.c (`do_fault_around`, `finish_fault`). They are pure: the page cache is behind
//! [`PageCache`] and [`Filling`], the page table behind [`around::PageTable`]. What a real kernel did with the same
//! accesses is compared in `crates/system/tests/validation/readahead.rs`.
//!
//! All places and lengths are pages of the file, unless a name says bytes.

pub mod around;
mod fault;
mod walk;
mod windows;

pub use around::Vma;

use crate::os::release::Release;
use serde::{Deserialize, Serialize};

/// Naturally aligned pages of a file that are cached as one: 2^order of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folio {
    /// First page.
    pub first: u64,
    /// Two's logarithm of its pages; 0 for a single page.
    pub order: u32,
    /// An access to it starts the next window (`PG_readahead`).
    pub marked: bool,
}

impl Folio {
    /// Number of pages.
    pub fn pages(&self) -> u64 {
        1 << self.order
    }
}

/// The page cache of one file, as readahead sees it.
pub trait PageCache {
    /// Pages of the file, the last of which may be incomplete.
    fn file_pages(&self) -> u64;

    /// The folio that holds a page, whether it has been read or is being read.
    fn folio(&self, page: u64) -> Option<Folio>;
}

/// A page cache that readahead adds to.
pub trait Filling: PageCache {
    /// Adds a folio, none of whose pages is there, to be read; false where there is no room for it.
    fn add(&mut self, folio: Folio) -> bool;

    /// What has been added since the last call is one request to the file system. There may be
    /// nothing.
    fn submit(&mut self);

    /// Takes the mark off a folio.
    fn unmark(&mut self, folio: Folio);

    /// The most pages that Linux 2.6.32 reads for one reason (`max_sane_readahead`, mm/readahead.c): half of those
    /// that are free or inactive and of files.
    fn sane_pages(&self) -> u64 {
        u64::MAX
    }

    /// Whether the device's queue is so full of reads that, until 4.9, no window is read ahead of need
    /// (`bdi_read_congested`, include/linux/backing-dev.h).
    fn is_congested(&self) -> bool {
        false
    }
}

/// What the file system and its device allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest window (`ra_pages`, read_ahead_kb); 0 for no readahead.
    pub window: u64,
    /// Largest request of the device (`io_pages`): a call that asks for more than the window gets
    /// up to this.
    pub io: u64,
    /// Largest order of a folio: 0 where the page cache has single pages only.
    pub largest_order: u32,
    /// Pages in 2 MiB: what is read by force is added in parts of this
    /// (`force_page_cache_ra`).
    pub chunk: u64,
    /// Whose rules hold.
    pub release: Release,
}

impl Limits {
    /// No readahead at all.
    pub const NONE: Limits =
        Limits { window: 0, io: 0, largest_order: 0, chunk: 1, release: Release::V6_18 };
}

/// Advice on a file or on a mapping that matters to readahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// None.
    #[default]
    Normal,
    /// Random: no readahead.
    Random,
    /// Sequential: of a file, twice the window; of a mapping, read ahead of the fault, not around
    /// it.
    Sequential,
}

/// Misses on a mapping in excess of hits above which reading around a fault stops
/// (`MMAP_LOTSAMISS`, mm/filemap.c).
pub const LOTS_OF_MISSES: u32 = 100;

/// The page of the last read before there was any: far beyond all.
const NOT_YET: u64 = u64::MAX >> 12;

/// Readahead of one open file (`struct file_ra_state`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readahead {
    limits: Limits,
    /// Largest window under the advice that holds.
    window: u64,
    /// Advised to be read at random (`FMODE_RANDOM`, since 2.6.34).
    random: bool,
    /// Window read last.
    start: u64,
    size: u64,
    /// Pages at its end that were not asked for: an access to the first of them starts the next.
    async_size: u64,
    /// Order of the folios of the last window.
    order: u32,
    /// Misses on mappings in excess of hits (`mmap_miss`).
    misses: u32,
    /// Page in which the last read call ended, with 2.6.32 also the last that faulted;
    /// [`NOT_YET`] before the first.
    previous: u64,
}

impl Readahead {
    /// Of a file just opened.
    pub fn new(limits: Limits) -> Self {
        Readahead {
            limits,
            window: limits.window,
            random: false,
            start: 0,
            size: 0,
            async_size: 0,
            order: 0,
            misses: 0,
            previous: NOT_YET,
        }
    }

    /// Takes advice on the file (`generic_fadvise`, mm/fadvise.c). For a file that is read at random 2.6.32
    /// has no window, so that calls read it page by page.
    pub fn advise(&mut self, pattern: Pattern) {
        match pattern {
            Pattern::Random if self.limits.release == Release::V2_6_32 => self.window = 0,
            Pattern::Random => self.random = true,
            Pattern::Normal => (self.random, self.window) = (false, self.limits.window),
            Pattern::Sequential => (self.random, self.window) = (false, 2 * self.limits.window),
        }
    }

    /// Takes the advice that pages will be needed: as many of them as may be are read.
    pub fn need(&mut self, cache: &mut impl Filling, first: u64, pages: u64) {
        self.force(cache, first, pages.min(self.most_forced(cache)));
    }

    /// A read call gets to a page. `end` is the page after the last that the call asks for, which
    /// may lie beyond the file's end. Afterwards the page is in the cache, unless there is no room
    /// (`filemap_get_pages`).
    pub fn read(&mut self, cache: &mut impl Filling, page: u64, end: u64) {
        if cache.folio(page).is_none() {
            self.miss(cache, page, end - page);
            add_alone(cache, page);
        }
        if let Some(folio) = cache.folio(page).filter(|folio| folio.marked) {
            self.hit_mark(cache, folio, folio.first, end - folio.first);
        }
    }

    /// A read call has ended in front of this byte; `page_bytes` is a power of two. Until 4.9 it is the page of
    /// the last byte that counts.
    pub fn end_of_read(&mut self, end_bytes: u64, page_bytes: u64) {
        let is_old = self.limits.release < Release::V6_18;
        self.previous = end_bytes.saturating_sub(u64::from(is_old)) / page_bytes;
    }
}

/// Reads a page by itself where readahead did not (`filemap_create_folio`).
fn add_alone(cache: &mut impl Filling, page: u64) {
    if cache.folio(page).is_none() {
        cache.add(Folio { first: page, order: 0, marked: false });
        cache.submit();
    }
}

#[cfg(test)]
mod tests;
