//! Sectors: the parts of a page that come, and go back, by themselves.

use super::controller::Controller;
use crate::cache::{WayRef, flag};
use tierscope_kernel::CowVec;

/// Words of each frame.
const WORDS: u64 = 4;
/// Which sectors lie in DRAM.
const VALID: usize = 0;
/// Which were written since they came.
const DIRTY: usize = 1;
/// Which are on their way.
const COMING: usize = 2;
/// Which a prefetch brought, and nobody has asked for.
const PREFETCHED: usize = 3;

/// What is known of the sectors of each page in DRAM (sub-block placement: Hill & Smith, ISCA 1984), a
/// bit a sector, up to 64 of them. A page's own flags are those of all its sectors together.
#[derive(Debug)]
pub(super) struct Sectors {
    /// [`WORDS`] a frame.
    words: CowVec<u64>,
}

impl Sectors {
    /// For so many frames, none of which has anything.
    pub(super) fn new(frames: u64) -> Self {
        Sectors { words: CowVec::with_group(frames * WORDS, 0, WORDS) }
    }

    pub(super) fn fork(&mut self) -> Self {
        Sectors { words: self.words.fork() }
    }

    fn of(&self, frame: u64) -> &[u64] {
        self.words.slice(frame * WORDS, WORDS)
    }

    fn of_mut(&mut self, frame: u64) -> &mut [u64] {
        self.words.slice_mut(frame * WORDS, WORDS)
    }
}

/// The bits of `count` sectors from the first on.
const fn all(count: u32) -> u64 {
    u64::MAX >> (u64::BITS - count)
}

/// Runs of sectors that lie beside each other: the first of each, and how many.
pub(super) fn runs(mut sectors: u64) -> impl Iterator<Item = (u32, u32)> {
    std::iter::from_fn(move || {
        let first = (sectors != 0).then(|| sectors.trailing_zeros())?;
        let count = (sectors >> first).trailing_ones();
        sectors &= !(all(count) << first);
        Some((first, count))
    })
}

impl Controller {
    /// The page of a sector; a page without sectors is one.
    #[inline]
    pub(super) fn page_of(&self, sector: u64) -> u64 {
        sector >> self.sector_bits
    }

    /// A sector's bit among those of its page.
    #[inline]
    pub(super) fn bit(&self, sector: u64) -> u64 {
        1 << (sector & ((1 << self.sector_bits) - 1))
    }

    /// First byte of a sector in its page.
    #[inline]
    pub(super) fn sector_offset(&self, sector: u64) -> u32 {
        (sector << self.sector_shift) as u32 & (self.page_bytes - 1)
    }

    /// Whether the data of a sector whose page is at `way`, with these flags, lie in DRAM.
    #[inline]
    pub(super) fn is_there(&self, way: WayRef, flags: u8, sector: u64) -> bool {
        match &self.sectors {
            None => flags & super::controller::FILLING == 0,
            Some(sectors) => sectors.of(self.tags.frame(way))[VALID] & self.bit(sector) != 0,
        }
    }

    /// Whether a sector is in DRAM or on its way there.
    #[inline]
    pub(super) fn is_known(&self, sector: u64) -> bool {
        self.tags.lookup(self.page_of(sector)).is_some_and(|way| {
            self.sectors.as_ref().is_none_or(|sectors| {
                let words = sectors.of(self.tags.frame(way));
                (words[VALID] | words[COMING]) & self.bit(sector) != 0
            })
        })
    }

    /// A sector is written.
    pub(super) fn set_dirty(&mut self, way: WayRef, sector: u64) {
        self.tags.set_dirty(way);
        let bit = self.bit(sector);
        if let Some(sectors) = &mut self.sectors {
            sectors.of_mut(self.tags.frame(way))[DIRTY] |= bit;
        }
    }

    /// The page at `way` is clean from now on; the sectors that were not. A page without sectors is
    /// one.
    pub(super) fn take_dirty(&mut self, way: WayRef) -> u64 {
        self.tags.clear_dirty(way);
        match &mut self.sectors {
            None => 1,
            Some(sectors) => std::mem::take(&mut sectors.of_mut(self.tags.frame(way))[DIRTY]),
        }
    }

    /// The sectors of a dirty page that are.
    pub(super) fn dirty_sectors(&self, way: WayRef) -> u64 {
        self.sectors.as_ref().map_or(1, |sectors| sectors.of(self.tags.frame(way))[DIRTY])
    }

    /// A page has come to `way`: none of its sectors is there.
    pub(super) fn forget_sectors(&mut self, way: WayRef) {
        if let Some(sectors) = &mut self.sectors {
            sectors.of_mut(self.tags.frame(way)).fill(0);
        }
    }

    /// A sector has been sent for.
    pub(super) fn comes(&mut self, way: WayRef, sector: u64, prefetch: bool) {
        let bit = self.bit(sector);
        if let Some(sectors) = &mut self.sectors {
            let words = sectors.of_mut(self.tags.frame(way));
            words[COMING] |= bit;
            words[PREFETCHED] |= bit * u64::from(prefetch);
        }
    }

    /// A sector is in DRAM; whether no other of its page is on its way.
    pub(super) fn has_come(&mut self, way: WayRef, sector: u64) -> bool {
        let bit = self.bit(sector);
        let Some(sectors) = &mut self.sectors else { return true };
        let words = sectors.of_mut(self.tags.frame(way));
        words[COMING] &= !bit;
        words[VALID] |= bit;
        words[COMING] == 0
    }

    /// Whether a sector of the page at `way` is on its way.
    pub(super) fn any_comes(&self, way: WayRef) -> bool {
        let sectors = self.sectors.as_ref();
        sectors.is_some_and(|sectors| sectors.of(self.tags.frame(way))[COMING] != 0)
    }

    /// A demand request has found its sector, present or in flight: if a prefetch brought it, that
    /// was of use, and is told. `flags` are those of its page.
    #[inline]
    pub(super) fn mark_used(&mut self, way: WayRef, flags: u8, sector: u64) -> bool {
        if flags & flag::PREFETCHED == 0 {
            return false;
        }
        let bit = self.bit(sector);
        if let Some(sectors) = &mut self.sectors {
            let prefetched = &mut sectors.of_mut(self.tags.frame(way))[PREFETCHED];
            if *prefetched & bit == 0 {
                return false;
            }
            *prefetched &= !bit;
            if *prefetched == 0 {
                self.tags.clear_flags(way, flag::PREFETCHED);
            }
        } else {
            self.tags.clear_flags(way, flag::PREFETCHED);
        }
        self.report.prefetch_hits += 1;
        self.prefetcher.used(sector);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_sectors_that_lie_beside_each_other() {
        let found = |sectors| runs(sectors).collect::<Vec<_>>();
        assert_eq!(found(0), []);
        assert_eq!(found(1), [(0, 1)]);
        assert_eq!(found(0b1011_1001), [(0, 1), (3, 3), (7, 1)]);
        assert_eq!(found(u64::MAX), [(0, 64)]);
        assert_eq!(found(1 << 63), [(63, 1)]);
    }
}
