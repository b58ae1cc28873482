//! Sequential prefetch: which pages are to be brought next.

use tierscope_kernel::BoundedQueue;

/// The pages behind demand misses, in physical order (\[HYB15\] §2.4). Each miss adds a run; when
/// the queue is full the oldest run is dropped, since its pages are the least likely to come in
/// time.
#[derive(Clone, Debug)]
pub(super) struct Prefetcher {
    /// First page and end of each run.
    runs: BoundedQueue<(u64, u64)>,
    pages: u64,
    store_pages: u64,
}

impl Prefetcher {
    /// Prefetches `pages` pages behind each miss, up to the end of a store of `store_pages`;
    /// remembers up to `runs` runs.
    pub(super) fn new(pages: u64, store_pages: u64, runs: usize) -> Self {
        Prefetcher { runs: BoundedQueue::with_capacity(runs), pages, store_pages }
    }

    /// Whether misses ask for further pages.
    pub(super) fn is_on(&self) -> bool {
        self.pages > 0 && self.runs.capacity() > 0
    }

    /// A demand miss on `page`.
    pub(super) fn missed(&mut self, page: u64) {
        let end = (page + 1).saturating_add(self.pages).min(self.store_pages);
        if page + 1 >= end || self.runs.capacity() == 0 {
            return;
        }
        if self.runs.is_full() {
            self.runs.pop();
        }
        let kept = self.runs.push((page + 1, end));
        debug_assert!(kept.is_ok());
    }

    /// The page that comes next.
    pub(super) fn next(&self) -> Option<u64> {
        self.runs.front().map(|run| run.0)
    }

    /// Goes on to the page after the next.
    pub(super) fn skip(&mut self) {
        if let Some(run) = self.runs.front_mut() {
            run.0 += 1;
            if run.0 == run.1 {
                self.runs.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut prefetcher = Prefetcher::new(4, 10, 8);
        prefetcher.missed(2);
        prefetcher.missed(7);
        prefetcher.missed(9);
        assert_eq!(drain(&mut prefetcher), [3, 4, 5, 6, 8, 9]);
    }

    #[test]
    fn the_oldest_run_is_dropped_when_there_are_too_many() {
        let mut prefetcher = Prefetcher::new(2, 100, 2);
        for page in [10, 20, 30] {
            prefetcher.missed(page);
        }
        assert_eq!(drain(&mut prefetcher), [21, 22, 31, 32]);
    }

    #[test]
    fn none_are_prefetched_where_none_are_asked_for() {
        let mut prefetcher = Prefetcher::new(0, 100, 2);
        prefetcher.missed(10);
        assert!(drain(&mut prefetcher).is_empty());
    }
}
