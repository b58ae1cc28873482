//! Pages, each with one time to read and one to write: what is said of a flash package or of a
//! byte-addressable memory where no more is known (\[HYB15\] §4.1, \[NVM10\] §IV).

use super::{Medium, Operation};

/// A medium of pages that are all alike.
#[derive(Clone, Debug)]
pub struct Paged {
    /// Pages of the unit.
    pub pages: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Time to read a page.
    pub read_ps: u64,
    /// Time to write a page.
    pub write_ps: u64,
}

impl Medium for Paged {
    #[inline]
    fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    #[inline]
    fn pages(&self) -> u64 {
        self.pages
    }

    #[inline]
    fn start(&mut self, now_ps: u64, operation: Operation, page: u64) -> u64 {
        debug_assert!(page < self.pages, "page {page} of {}", self.pages);
        match operation {
            Operation::Read => now_ps + self.read_ps,
            Operation::Write => now_ps + self.write_ps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::medium_laws;

    #[test]
    fn the_mediums_laws_hold() {
        medium_laws(|| Paged { pages: 1000, page_bytes: 4096, read_ps: 25, write_ps: 250 });
        medium_laws(|| Paged { pages: 1, page_bytes: 64, read_ps: 0, write_ps: 0 });
    }

    #[test]
    fn reads_and_writes_take_their_own_times() {
        let mut medium = Paged { pages: 2, page_bytes: 4096, read_ps: 25, write_ps: 250 };
        assert_eq!(medium.start(7, Operation::Read, 0), 32);
        assert_eq!(medium.start(32, Operation::Write, 1), 282);
    }
}
