//! Which pages are promoted: FlatFlash's adaptive threshold.

use crate::cache::{Place, TagStore, WayRef};
use crate::organization::PromotionSpec;
use crate::replacement::Lru;
use tierscope_kernel::CowVec;

/// Ways of the table of counts, where it has as many entries.
const COUNT_WAYS: u64 = 64;

/// FlatFlash's adaptive promotion (A. Abulila et al., "FlatFlash", ASPLOS 2019, algorithm 1; as SkyByte's
/// authors carry it out, HieronZhang/SkyByte-Artifact).
///
/// Accesses to each page of the far memory are counted. A page whose count has come to the threshold is
/// promoted. Of all accesses of an epoch, those that the promoted pages had had are a ratio: where it is
/// low, promotion brings little, and the threshold rises, up to its greatest; where it is high, each
/// promotion lowers it, down to 1. At the end of an epoch the threshold is the greatest again, and accesses
/// are counted from those of the pages that are still there. Counts are those of the pages that the
/// device's own cache holds: of so many, the least recently used are forgotten.
#[derive(Debug)]
pub(super) struct Promoter {
    pages: TagStore<Lru>,
    /// By frame of `pages`.
    counts: CowVec<u32>,
    most_threshold: u32,
    threshold: u32,
    least_threshold: u32,
    low_ratio: f64,
    high_ratio: f64,
    epoch: u64,
    /// Accesses of this epoch.
    accesses: u64,
    /// Those of the pages that have a count.
    counted: u64,
    /// Those that the pages promoted in this epoch had had.
    promoted: u64,
}

impl Promoter {
    pub(super) fn new(spec: &PromotionSpec) -> Self {
        let ways = COUNT_WAYS.min(spec.counted_pages);
        let sets = spec.counted_pages / ways;
        Promoter {
            pages: TagStore::new(sets, ways as usize, false, 0),
            counts: CowVec::new(sets * ways, 0),
            most_threshold: spec.most_threshold,
            threshold: spec.most_threshold,
            least_threshold: spec.most_threshold,
            low_ratio: spec.low_ratio,
            high_ratio: spec.high_ratio,
            epoch: u64::from(spec.epoch),
            accesses: 0,
            counted: 0,
            promoted: 0,
        }
    }

    /// Counts an access to a page of the far memory; whether the page is to be promoted, which it is not
    /// while there is no `room` for another.
    pub(super) fn access(&mut self, page: u64, room: bool) -> bool {
        let way = self.entry(page);
        let count = self.counts.get_mut(self.pages.frame(way));
        *count += 1;
        let count = *count;
        self.counted += 1;
        self.accesses += 1;
        let promotes = room && count >= self.threshold;
        if promotes {
            self.promoted += u64::from(count);
            self.forget(page, way);
        }
        self.adapt(promotes);
        promotes
    }

    /// The entry of a page, which takes the place of another if it has none.
    fn entry(&mut self, page: u64) -> WayRef {
        if let Some(hit) = self.pages.access(page, false) {
            return hit.way;
        }
        let (Place::Free(way) | Place::Taken(way, _)) = self.pages.place(page) else {
            unreachable!("no entry of the counts is ever pinned")
        };
        if let Some(other) = self.pages.line(way) {
            self.forget(other, way);
        }
        self.pages.insert_at(way, page, 0);
        way
    }

    fn forget(&mut self, page: u64, way: WayRef) {
        let count = self.counts.get_mut(self.pages.frame(way));
        self.counted -= u64::from(*count);
        *count = 0;
        self.pages.invalidate(page);
    }

    fn adapt(&mut self, promotes: bool) {
        let (promoted, accesses) = (self.promoted as f64, self.accesses as f64);
        if promoted <= self.low_ratio * accesses {
            self.threshold = (self.threshold + 1).min(self.most_threshold);
        } else if promoted >= self.high_ratio * accesses && promotes {
            self.threshold = (self.threshold - 1).max(1);
            self.least_threshold = self.least_threshold.min(self.threshold);
        }
        if self.accesses >= self.epoch {
            self.accesses = self.counted;
            self.promoted = 0;
            self.threshold = self.most_threshold;
        }
    }

    /// Accesses after which a page is promoted now, and the fewest after which one ever was.
    pub(super) fn thresholds(&self) -> (u32, u32) {
        (self.threshold, self.least_threshold)
    }

    /// A second one that stands where this one stands.
    pub(super) fn fork(&mut self) -> Self {
        Promoter { pages: self.pages.fork(), counts: self.counts.fork(), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use tierscope_units::{Duration, Size};

    fn spec(counted_pages: u64, most_threshold: u32, epoch: u32) -> PromotionSpec {
        PromotionSpec {
            capacity: Size::from_bytes(1 << 20),
            ways: 4,
            page: Size::from_bytes(4096),
            most_threshold,
            low_ratio: 0.25,
            high_ratio: 0.75,
            epoch,
            counted_pages,
            lookaside_entries: 4,
            mapping_latency: Duration::from_picoseconds(0),
        }
    }

    /// The algorithm word by word, with a list of pages, the least recently used first.
    struct Naive {
        pages: VecDeque<(u64, u64)>,
        most: usize,
        max_threshold: u64,
        curr_threshold: u64,
        access_cnt: u64,
        agg_promoted_cnt: u64,
        reset_epoch: u64,
    }

    impl Naive {
        fn access(&mut self, page: u64, room: bool) -> bool {
            let known = self.pages.iter().position(|(known, _)| *known == page);
            let (_, count) = known.and_then(|at| self.pages.remove(at)).unwrap_or((page, 0));
            if known.is_none() && self.pages.len() == self.most {
                self.pages.pop_front();
            }
            self.pages.push_back((page, count + 1));
            self.access_cnt += 1;
            let promotes = room && count + 1 >= self.curr_threshold;
            if promotes {
                self.agg_promoted_cnt += count + 1;
                self.pages.pop_back();
            }
            let ratio = self.agg_promoted_cnt as f64 / self.access_cnt as f64;
            if ratio <= 0.25 {
                if self.curr_threshold < self.max_threshold {
                    self.curr_threshold += 1;
                }
            } else if ratio >= 0.75 && promotes && self.curr_threshold > 1 {
                self.curr_threshold -= 1;
            }
            if self.access_cnt >= self.reset_epoch {
                self.access_cnt = self.pages.iter().map(|(_, count)| count).sum();
                self.agg_promoted_cnt = 0;
                self.curr_threshold = self.max_threshold;
            }
            promotes
        }
    }

    proptest! {
        #[test]
        fn it_promotes_what_the_algorithm_word_by_word_promotes(
            script in proptest::collection::vec((0..24u64, 0..8u32), 1..600),
            most in 1..17u64,
            threshold in 1..8u32,
            epoch in 1..200u32,
        ) {
            let mut promoter = Promoter::new(&spec(most, threshold, epoch));
            let mut naive = Naive {
                pages: VecDeque::new(),
                most: most as usize,
                max_threshold: u64::from(threshold),
                curr_threshold: u64::from(threshold),
                access_cnt: 0,
                agg_promoted_cnt: 0,
                reset_epoch: u64::from(epoch),
            };
            for (page, room) in script {
                prop_assert_eq!(promoter.access(page, room > 0), naive.access(page, room > 0));
                prop_assert_eq!(u64::from(promoter.threshold), naive.curr_threshold);
            }
        }
    }

    #[test]
    fn a_page_is_promoted_with_its_seventh_access_and_then_others_sooner() {
        let mut promoter = Promoter::new(&spec(64, 7, 10_000));
        for access in 1..=7 {
            assert_eq!(promoter.access(0, true), access == 7);
        }
        // All accesses were to a page that was promoted: the next needs six, and then five.
        for access in 1..=6 {
            assert_eq!(promoter.access(1, true), access == 6);
        }
        for access in 1..=5 {
            assert_eq!(promoter.access(2, true), access == 5);
        }
    }

    #[test]
    fn what_is_read_once_raises_the_threshold_again() {
        let mut promoter = Promoter::new(&spec(64, 7, 10_000));
        (0..7).for_each(|_| assert!(promoter.access(0, true) || promoter.threshold == 7));
        assert_eq!(promoter.threshold, 6);
        for page in 100..300 {
            assert!(!promoter.access(page, true));
        }
        assert_eq!(promoter.threshold, 7);
    }
}
