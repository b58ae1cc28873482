//! The sequences of `docs/models/hybrid.md`: what happens to each access, stage by stage, the bytes
//! that it moves to and from the store, and what is asked of the store, when.

use super::*;
use crate::organization::hybrid::miss::Progress;
use crate::organization::literate::{Scene, all_or_none, asked, page_says_what_happens};
use std::collections::VecDeque;

/// The machine that the first line of a block names: two frames, of one set or, with tags beside the
/// data, direct-mapped; and pages of its store.
fn machine(line: &str) -> (HybridSpec, u64) {
    let mut shape = spec(2, 2);
    let mut store_pages = SPACE_BYTES / PAGE_BYTES;
    for word in line.split(", ") {
        let (count, of) = match word.split_once(' ') {
            Some((number, of)) => (number.parse::<u32>().unwrap_or(0), of),
            None => (0, ""),
        };
        match (word, of) {
            ("tags in SRAM", _) => {}
            ("tags with the data", _) => {
                (shape.cache.ways, shape.cache.tags) = (1, TagStore::WithData);
            }
            ("tags in DRAM", _) => shape = tag_cache::in_dram(256, 1, (1, 1)),
            ("tags in front of lines", _) => {
                shape = tads::in_front(&shape, 28, MissPredictorKind::None);
            }
            ("misses are guessed by one counter", _) => {
                shape.cache.miss_predictor = MissPredictorKind::Global;
            }
            ("misses are guessed", _) => shape.cache.miss_predictor = MissPredictorKind::Region,
            ("sectors of 512 B", _) => shape.cache.sector = Some(Size::from_bytes(512)),
            ("sectors of 64 B", _) => shape.cache.sector = Some(Size::from_bytes(64)),
            ("filled by reads", _) => shape.cache.fill = FillPolicy::Reads,
            ("filled by writes", _) => shape.cache.fill = FillPolicy::Writes,
            ("filled by victims", _) => shape.cache.fill = FillPolicy::Victims,
            ("lines first", _) => shape.critical_line_first = true,
            ("sequential", _) => shape.prefetcher = PrefetcherKind::Sequential,
            ("streams", _) => shape.prefetcher = PrefetcherKind::Streams,
            ("stride", _) => shape.prefetcher = PrefetcherKind::Stride,
            ("best-offset", _) => shape.prefetcher = PrefetcherKind::BestOffset,
            ("eager write-back", _) => shape.eager_write_back = true,
            (_, "frames") => {
                shape.cache.capacity = Size::from_bytes(u64::from(count) * PAGE_BYTES);
                shape.cache.ways = if shape.cache.tags == TagStore::WithData { 1 } else { count };
            }
            (_, "page ahead" | "pages ahead") => shape.prefetch_pages = count,
            (_, "fill buffers") => shape.fills = count,
            (_, "place for write-backs" | "places for write-backs") => {
                shape.write_back_buffer_pages = count;
            }
            (_, "places for requests") => shape.queue_depth = count,
            (_, "pages of the store") => store_pages = u64::from(count),
            _ => panic!("no machine has {word:?}"),
        }
    }
    (shape, store_pages)
}

/// A controller among several: what the first line of a block says of each.
pub(in crate::organization) fn controller_of(line: &str) -> Box<dyn Organization> {
    let (shape, store_pages) = machine(line);
    Box::new(steady_before(&shape, store_pages * PAGE_BYTES))
}

/// A hybrid, and what was seen of it.
struct Watched {
    hybrid: ErraticHybrid,
    seen: OrganizationReport,
    /// Requests that have not been looked up, and their sectors.
    coming: VecDeque<(u32, u64)>,
    /// Whether the sector of the next one was under way when something happened last.
    in_flight: bool,
}

impl Watched {
    fn sector(&self, address: u64) -> u64 {
        address / self.hybrid.controller.sector_bytes()
    }

    /// Whether a sector has a miss that is sure.
    fn misses(&self, sector: u64) -> Option<Progress> {
        let controller = &self.hybrid.controller;
        let progress =
            controller.missing.get(sector).map(|index| controller.misses[index].progress);
        progress.filter(|progress| *progress != Progress::Probing)
    }
}

impl Scene for Watched {
    fn memory(&mut self) -> &mut dyn Organization {
        &mut self.hybrid
    }

    fn page_bytes(&self) -> u64 {
        PAGE_BYTES
    }

    fn asks(&mut self, id: u32, address: u64) {
        let sector = self.sector(address);
        self.coming.push_back((id, sector));
    }

    fn before(&mut self) {
        let next = self.coming.front();
        self.in_flight = next.is_some_and(|(_, sector)| self.misses(*sector).is_some());
    }

    fn after(&mut self) -> Vec<(u32, String)> {
        let now = self.hybrid.report();
        let since = now.since(&self.seen);
        let count = since.lookups as usize;
        if count == 0 {
            // Where tags lie with the data, use is noted before the look-up has ended.
            return Vec::new();
        }
        self.seen = now;
        let missed = all_or_none(since.misses, count);
        let prefetched = all_or_none(since.prefetch_hits, count);
        let looked_up: Vec<_> = self.coming.drain(..count).collect();
        let said = looked_up.into_iter().enumerate().map(|(place, (id, sector))| {
            let joins = self.in_flight && place == 0;
            let mut what = if missed { "miss" } else { "hit" }.to_owned();
            if missed && joins {
                what += ", joins";
            } else if missed && self.misses(sector) == Some(Progress::Stalled) {
                what += ", waits for room";
            }
            if prefetched {
                what += ", prefetched";
            }
            (id, what)
        });
        said.collect()
    }

    fn tells_traffic(&self) -> Option<bool> {
        Some(self.hybrid.tads.is_some())
    }

    fn log(&self, name: &str) -> Option<Vec<(u64, String)>> {
        let store = (name == "store").then(|| self.hybrid.store())?;
        let said = |request: &Request| {
            let ahead = if request.background && !request.write { " ahead" } else { "" };
            asked(request, PAGE_BYTES, ahead)
        };
        Some(store.came_ps.iter().copied().zip(store.log.iter().map(said)).collect())
    }
}

#[test]
fn the_sequences_of_the_documentation_are_what_happens() {
    let kinds = [
        "tags in SRAM",
        "tags with the data",
        "tags in front of lines",
        "tags in DRAM",
        "tags in SRAM, 16 frames, sequential",
        "tags with the data, 16 frames, sequential",
        ", streams",
        ", stride",
        ", best-offset",
        "will need",
        "eager write-back",
        "place for write-backs",
        "fill buffers",
        "waits for room",
        "joins",
        "prefetched",
    ];
    page_says_what_happens("hybrid", &kinds, |first| {
        let (shape, store_pages) = machine(first);
        let bytes = store_pages * PAGE_BYTES;
        Some(Box::new(Watched {
            hybrid: steady_before(&shape, bytes),
            seen: OrganizationReport::default(),
            coming: VecDeque::new(),
            in_flight: false,
        }))
    });
}
