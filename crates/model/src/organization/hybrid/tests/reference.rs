//! Equality with the obvious cache, conservation, and functional warming.

use super::*;
use crate::cache::{AnyTagStore, WayRef};
use proptest::prelude::*;

/// Dirty pages with their places, in order of the frames.
fn dirty(tags: &AnyTagStore) -> impl Iterator<Item = (WayRef, u64)> + '_ {
    let mut from = 0;
    std::iter::from_fn(move || {
        let found = tags.next_dirty(from)?;
        from = tags.frame(found.0) + 1;
        Some(found)
    })
}

/// Where tags are known at once, and where they come with the data.
fn direct_mapped_tags() -> impl Strategy<Value = TagStore> {
    prop_oneof![Just(TagStore::Sram), Just(TagStore::WithData), Just(TagStore::Tad)]
}

fn predictors() -> impl Strategy<Value = MissPredictorKind> {
    use MissPredictorKind::{Global, None, Perfect, Region};
    prop_oneof![Just(None), Just(Global), Just(Region), Just(Perfect)]
}

/// A shape with such tags, and such guesses where there are any.
fn tagged(shape: &HybridSpec, tags: TagStore, guesses: MissPredictorKind) -> HybridSpec {
    let frames = shape.cache.capacity.bytes() / PAGE_BYTES;
    if tags == TagStore::Tad {
        return tads::in_front(shape, frames, guesses);
    }
    let mut shape = shape.clone();
    shape.cache.tags = tags;
    if tags.come_with_data() {
        shape.cache.miss_predictor = guesses;
    }
    shape
}

/// The obvious cache: for each set a list of pages, the most recently used first, each with
/// whether it is dirty.
struct Naive {
    sets: Vec<Vec<(u64, bool)>>,
    ways: usize,
    store_reads: u64,
    store_writes: u64,
}

impl Naive {
    /// Whether the page was present.
    fn access(&mut self, page: u64, write: bool) -> bool {
        let count = self.sets.len() as u64;
        let set = &mut self.sets[(page % count) as usize];
        if let Some(at) = set.iter().position(|(p, _)| *p == page) {
            let (_, dirty) = set.remove(at);
            set.insert(0, (page, dirty | write));
            return true;
        }
        self.store_reads += 1;
        if set.len() == self.ways && set.pop().is_some_and(|(_, dirty)| dirty) {
            self.store_writes += 1;
        }
        set.insert(0, (page, write));
        false
    }
}

proptest! {
    #[test]
    fn one_request_at_a_time_hits_and_misses_as_a_list_does(
        ways in 1u32..=5, sets in 1u64..=5, tags in direct_mapped_tags(), guesses in predictors(),
        script in prop::collection::vec((0u64..40, any::<bool>()), 1..200),
    ) {
        let ways = if tags.come_with_data() { 1 } else { ways };
        let shape = tagged(&spec(sets * u64::from(ways), ways), tags, guesses);
        let mut run = Run::new(erratic(&shape, 8, 8, 3));
        let (ways, page_bytes) = (ways as usize, shape.cache.page.bytes());
        let empty = vec![Vec::new(); sets as usize];
        let mut naive = Naive { sets: empty, ways, store_reads: 0, store_writes: 0 };
        for (id, (number, write)) in script.into_iter().enumerate() {
            let misses = run.hybrid.report().misses;
            run.submit(id as u32, number * page_bytes, write);
            run.drain();
            let missed = run.hybrid.report().misses > misses;
            prop_assert_eq!(missed, !naive.access(number, write));
        }
        let report = run.hybrid.report();
        prop_assert_eq!(report.write_backs, naive.store_writes);
        prop_assert_eq!(report.traffic.store_written_bytes, naive.store_writes * page_bytes);
        // A page that is written back is still in the buffer only while it is on its way.
        let wasted = report.miss_predictor.map_or(0, |it| it.wasted_store_reads);
        prop_assert_eq!(report.traffic.store_read_bytes, (naive.store_reads + wasted) * page_bytes);
    }

    #[test]
    fn bytes_are_conserved(
        script in prop::collection::vec((0u64..60, any::<bool>(), 0u64..300_000), 1..150),
    ) {
        let mut shape = spec(8, 2);
        shape.prefetch_pages = 2;
        let mut run = Run::new(erratic(&shape, 4, 4, 9));
        let mut requests = 0;
        for (number, write, gap_ps) in script {
            run.wait(gap_ps);
            run.submit(requests, page(number) + 64 * (number % 7), write);
            requests += 1;
        }
        run.drain();
        run.flush();
        let report = run.hybrid.report();
        prop_assert_eq!(report.lookups, u64::from(requests));
        prop_assert_eq!(run.out.len(), requests as usize);
        let moved = |log: &[Request], write, pages: bool| -> u64 {
            let all = log.iter().filter(|r| r.write == write);
            all.filter(|r| (r.bytes == PAGE_BYTES as u32) == pages).map(|r| u64::from(r.bytes)).sum()
        };
        let (dram, store) = (&run.hybrid.dram().log, &run.hybrid.store().log);
        let evicted = moved(dram, false, true);
        let filled = moved(dram, true, true);
        let lines = [moved(dram, false, false), moved(dram, true, false)];
        prop_assert_eq!(report.traffic, Traffic {
            store_read_bytes: moved(store, false, true),
            store_written_bytes: moved(store, true, true),
            dram_read_bytes: evicted + lines[0],
            dram_written_bytes: filled + lines[1],
        });
        prop_assert_eq!(evicted, report.write_backs * PAGE_BYTES);
        prop_assert_eq!(report.traffic.store_written_bytes, evicted, "what leaves DRAM arrives");
        // What did not come from the store came from the write-back buffer.
        let read = report.traffic.store_read_bytes;
        prop_assert!((read..=read + evicted).contains(&filled));
        // Each hit is one access to DRAM, and so is each write that comes too late for its fill.
        let accesses = (lines[0] + lines[1]) / LINE_BYTES;
        prop_assert!((report.lookups - report.misses..=report.lookups).contains(&accesses));
    }
}

proptest! {
    /// Functional warming leaves what requests one by one leave: pages, who is dirty, who goes next.
    #[test]
    fn warming_leaves_the_tags_of_requests_one_by_one(
        accesses in proptest::collection::vec((0u64..64, any::<bool>()), 1..200),
        ways in prop_oneof![Just(1u32), Just(2), Just(4)],
        tags in direct_mapped_tags(),
        guesses in predictors(),
        prefilled in any::<bool>(),
    ) {
        let ways = if tags.come_with_data() { 1 } else { ways };
        let mut shape = tagged(&spec(16, ways), tags, guesses);
        let page_bytes = shape.cache.page.bytes();
        shape.cache.initial =
            if prefilled { InitialContent::Prefilled } else { InitialContent::Empty };
        (shape.fills, shape.write_back_buffer_pages) = (8, 8);
        let mut run = Run::new(steady(&shape));
        let mut warmed = steady(&shape);
        warmed.versions = None;
        let requests = accesses.len() as u64;
        for (id, (number, write)) in accesses.into_iter().enumerate() {
            run.submit(id as u32, number * page_bytes, write);
            run.drain();
            warmed.warm(0, 0, number * page_bytes, write);
        }
        let [tags, expected] = [&warmed, &run.hybrid].map(|hybrid| &hybrid.controller().tags);
        prop_assert!(dirty(tags).eq(dirty(expected)));
        for number in 0..SPACE_BYTES / page_bytes {
            let [found, there] = [tags, expected].map(|tags| tags.lookup(number));
            prop_assert_eq!(found, there, "page {}", number);
            if found.is_none() {
                prop_assert_eq!(tags.place(number), expected.place(number), "for {}", number);
            }
        }
        prop_assert_eq!(asked(&warmed, true), asked(&run.hybrid, true), "what the store is given");
        if matches!(guesses, MissPredictorKind::None | MissPredictorKind::Perfect) {
            prop_assert_eq!(asked(&warmed, false), asked(&run.hybrid, false), "what it is asked for");
        }
        // What is counted does not depend on time either, where requests come one by one.
        let [counts, expected] = [&warmed, &run.hybrid].map(|hybrid| hybrid.report());
        prop_assert_eq!(counts.lookups, requests);
        prop_assert_eq!(counts, expected);
    }
}
