//! Prefetch: which pages, or sectors, are to be brought next.

mod best_offset;
mod streams;
mod stride;

use best_offset::BestOffset;
use serde::{Deserialize, Serialize};
use streams::Streams;
use stride::Strides;
use tierscope_kernel::BoundedQueue;

/// What a DRAM cache prefetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PrefetcherKind {
    /// The pages behind each demand miss (\[HYB15\] §2.4).
    Sequential,
    /// Pages behind the misses of several streams, and one more with each that is used (Jouppi, ISCA
    /// 1990).
    Streams,
    /// Pages at the distance that was seen twice, of several streams (minimum delta: Palacharla &
    /// Kessler, ISCA 1994).
    Stride,
    /// The page at the offset that would have been in time most often (Michaud, HPCA 2016).
    BestOffset,
}

/// Pages to be brought, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub next: u64,
    /// From one to the next.
    pub stride: i64,
    pub left: u64,
}

impl Run {
    /// So many pages, by `stride`, of which the first is `nth` strides behind `page`.
    pub(super) fn behind(page: u64, stride: i64, nth: u64, left: u64) -> Option<Self> {
        let next = i64::try_from(nth).ok().and_then(|nth| stride.checked_mul(nth));
        let next = next.and_then(|distance| page.checked_add_signed(distance))?;
        Some(Run { next, stride, left })
    }
}

/// What decides.
#[derive(Clone, Debug)]
enum Way {
    Sequential,
    Streams(Streams),
    Strides(Strides),
    BestOffset(Box<BestOffset>),
}

/// The runs of pages that are to come. When there are too many, the oldest is dropped, since its pages
/// are the least likely to come in time.
#[derive(Clone, Debug)]
pub(super) struct Prefetcher {
    way: Way,
    runs: BoundedQueue<Run>,
    pages: u64,
    store_pages: u64,
    /// What is to come waits.
    held: bool,
}

impl Prefetcher {
    /// Goes `pages` pages ahead, in a store of `store_pages`; remembers up to `runs` runs, and where it
    /// follows streams so many `streams`.
    pub(super) fn new(
        kind: PrefetcherKind,
        pages: u64,
        streams: usize,
        store_pages: u64,
        runs: usize,
    ) -> Self {
        let way = match kind {
            PrefetcherKind::Sequential => Way::Sequential,
            PrefetcherKind::Streams => Way::Streams(Streams::new(streams)),
            PrefetcherKind::Stride => Way::Strides(Strides::new(streams)),
            PrefetcherKind::BestOffset => Way::BestOffset(Box::new(BestOffset::new())),
        };
        Prefetcher { way, runs: BoundedQueue::with_capacity(runs), pages, store_pages, held: false }
    }

    /// Whether it ever asks for pages.
    pub(super) fn is_on(&self) -> bool {
        self.pages > 0 && self.runs.capacity() > 0
    }

    /// Whether it goes on when a page that it brought is used.
    #[inline]
    pub(super) fn follows_uses(&self) -> bool {
        !matches!(self.way, Way::Sequential)
    }

    /// A demand miss on `page`.
    pub(super) fn missed(&mut self, page: u64) {
        let pages = self.pages;
        let run = match &mut self.way {
            Way::Sequential => Run::behind(page, 1, 1, pages),
            Way::Streams(streams) => streams.missed(page, pages),
            Way::Strides(strides) => strides.seen(page, pages, false),
            Way::BestOffset(best) => best.seen(page),
        };
        self.ask(run);
    }

    /// A page that was prefetched is used for the first time.
    pub(super) fn used(&mut self, page: u64) {
        let pages = self.pages;
        let run = match &mut self.way {
            Way::Sequential => None,
            Way::Streams(streams) => streams.used(page, pages),
            Way::Strides(strides) => strides.seen(page, pages, true),
            Way::BestOffset(best) => best.seen(page),
        };
        self.ask(run);
    }

    /// A page is in DRAM, brought by demand or by a prefetch.
    pub(super) fn filled(&mut self, page: u64, prefetch: bool) {
        if let Way::BestOffset(best) = &mut self.way {
            best.filled(page, prefetch);
        }
    }

    /// `pages` pages from `first` on are asked for; false if so many runs wait that this one is
    /// forgotten.
    pub(super) fn will_need(&mut self, first: u64, pages: u64) -> bool {
        let left = pages.min(self.store_pages.saturating_sub(first));
        left == 0 || self.runs.push(Run { next: first, stride: 1, left }).is_ok()
    }

    fn ask(&mut self, run: Option<Run>) {
        let Some(run) = run.filter(|run| self.is_on() && run.next < self.store_pages) else {
            return;
        };
        if self.runs.is_full() {
            self.runs.pop();
        }
        let kept = self.runs.push(run);
        debug_assert!(kept.is_ok());
    }

    /// From now on what is to come waits, or does no longer.
    pub(super) fn hold(&mut self, holds: bool) {
        self.held = holds;
    }

    /// The page that comes next, unless it is to wait.
    pub(super) fn next(&self) -> Option<u64> {
        self.runs.front().filter(|_| !self.held).map(|run| run.next)
    }

    /// Goes on to the page after the next.
    pub(super) fn skip(&mut self) {
        let Some(run) = self.runs.front_mut() else { return };
        run.left -= 1;
        match run.next.checked_add_signed(run.stride).filter(|next| *next < self.store_pages) {
            Some(next) if run.left > 0 => run.next = next,
            _ => {
                self.runs.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(kind: PrefetcherKind, pages: u64, store_pages: u64, runs: usize) -> Prefetcher {
        Prefetcher::new(kind, pages, 2, store_pages, runs)
    }

    fn drain(prefetcher: &mut Prefetcher) -> Vec<u64> {
        let mut pages = Vec::new();
        while let Some(page) = prefetcher.next() {
            pages.push(page);
            prefetcher.skip();
        }
        pages
    }

    #[test]
    fn pages_follow_the_miss_and_stop_at_the_end_of_the_store() {
        let mut prefetcher = new(PrefetcherKind::Sequential, 4, 10, 8);
        prefetcher.missed(2);
        prefetcher.missed(7);
        prefetcher.missed(9);
        prefetcher.used(3);
        assert_eq!(drain(&mut prefetcher), [3, 4, 5, 6, 8, 9]);
    }

    #[test]
    fn the_oldest_run_is_dropped_when_there_are_too_many() {
        let mut prefetcher = new(PrefetcherKind::Sequential, 2, 100, 2);
        for page in [10, 20, 30] {
            prefetcher.missed(page);
        }
        assert_eq!(drain(&mut prefetcher), [21, 22, 31, 32]);
    }

    #[test]
    fn none_are_prefetched_where_none_are_asked_for() {
        let kinds =
            [PrefetcherKind::Sequential, PrefetcherKind::Streams, PrefetcherKind::BestOffset];
        for kind in kinds {
            let mut prefetcher = new(kind, 0, 100, 2);
            prefetcher.missed(10);
            assert!(drain(&mut prefetcher).is_empty(), "{kind:?}");
        }
    }

    #[test]
    fn what_is_said_to_be_needed_comes_whatever_else_is_prefetched() {
        let mut prefetcher = new(PrefetcherKind::Sequential, 0, 10, 2);
        assert!(prefetcher.will_need(7, 9) && prefetcher.will_need(2, 1));
        assert!(!prefetcher.will_need(4, 1), "two runs are remembered");
        assert_eq!(drain(&mut prefetcher), [7, 8, 9, 2]);
    }

    #[test]
    fn streams_stay_ahead_of_what_is_used() {
        let mut prefetcher = new(PrefetcherKind::Streams, 3, 100, 8);
        prefetcher.missed(10);
        prefetcher.missed(50);
        assert_eq!(drain(&mut prefetcher), [11, 12, 13, 51, 52, 53]);
        prefetcher.used(11);
        prefetcher.used(51);
        prefetcher.used(12);
        assert_eq!(drain(&mut prefetcher), [14, 54, 15]);
        prefetcher.used(40);
        assert!(drain(&mut prefetcher).is_empty(), "it is of no stream");
        // A third stream takes the place of the one that was longest without a use.
        prefetcher.missed(80);
        prefetcher.used(52);
        assert_eq!(drain(&mut prefetcher), [81, 82, 83]);
        prefetcher.used(13);
        assert_eq!(drain(&mut prefetcher), [16]);
    }

    #[test]
    fn a_stride_that_was_seen_twice_goes_on_in_either_direction() {
        let mut prefetcher = new(PrefetcherKind::Stride, 2, 100, 8);
        prefetcher.missed(10);
        prefetcher.missed(13);
        assert!(drain(&mut prefetcher).is_empty(), "seen once");
        prefetcher.missed(16);
        assert_eq!(drain(&mut prefetcher), [19, 22]);
        prefetcher.used(19);
        assert_eq!(drain(&mut prefetcher), [25], "one more");
        for page in [99, 95, 91] {
            prefetcher.missed(page);
        }
        assert_eq!(drain(&mut prefetcher), [87, 83]);
        for page in [9, 5, 1] {
            prefetcher.missed(page);
        }
        assert!(drain(&mut prefetcher).is_empty(), "the store begins at 0");
    }

    #[test]
    fn the_best_offset_is_found_and_none_where_there_is_none() {
        let mut prefetcher = new(PrefetcherKind::BestOffset, 1, 1 << 40, 8);
        prefetcher.missed(0);
        assert_eq!(drain(&mut prefetcher), [1], "it begins with the next");
        let mut asked = Vec::new();
        for step in 1..40_000 {
            prefetcher.missed(12 * step);
            asked = drain(&mut prefetcher);
            prefetcher.filled(12 * step, false);
            for page in &asked {
                prefetcher.filled(*page, true);
            }
        }
        let last = 12 * 39_999;
        assert!(asked.len() == 1 && (asked[0] - last) % 12 == 0, "{asked:?} behind {last}");
        let mut lots = 1u64;
        for _ in 0..40_000 {
            lots = lots.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e);
            prefetcher.missed(lots >> 30);
            asked = drain(&mut prefetcher);
            prefetcher.filled(lots >> 30, false);
        }
        assert!(asked.is_empty(), "no offset is of use");
    }
}
