//! Sectors come, are written back and are counted by themselves.

use super::*;
use proptest::prelude::*;

const SECTOR_BYTES: u64 = 512;

fn sectored(frames: u64, ways: u32) -> HybridSpec {
    let mut shape = spec(frames, ways);
    shape.cache.sector = Some(Size::from_bytes(SECTOR_BYTES));
    shape
}

fn sector(page_number: u64, sector: u64) -> u64 {
    page(page_number) + sector * SECTOR_BYTES
}

/// Requests to a device: first byte, bytes.
fn moved(log: &[Request], write: bool) -> Vec<(u64, u32)> {
    let chosen = log.iter().filter(|request| request.write == write);
    chosen.map(|request| (request.address, request.bytes)).collect()
}

#[test]
fn a_miss_brings_its_sector_alone_and_the_next_one_of_the_page_misses_again() {
    let mut run = Run::new(steady(&sectored(8, 2)));
    run.submit(0, sector(3, 2) + 64, false);
    run.drain();
    run.submit(1, sector(3, 2) + 128, false);
    run.drain();
    run.submit(2, sector(3, 5), false);
    run.drain();
    let expected = [(sector(3, 2), 512), (sector(3, 5), 512)];
    assert_eq!(moved(&run.hybrid.store().log, false), expected);
    let report = run.hybrid.report();
    assert_eq!((report.lookups, report.misses, report.fetched_pages), (3, 2, 2));
    // Page 3 is in way 0 of set 3 of 4: sectors lie in its frame where they lie in the page.
    assert_eq!(moved(&run.hybrid.dram().log, true), expected);
}

#[test]
fn sectors_of_a_page_come_side_by_side_and_one_that_is_there_is_hit_meanwhile() {
    let mut run = Run::new(steady(&sectored(8, 2)));
    run.submit(0, sector(3, 0), false);
    run.drain();
    let start_ps = run.now_ps;
    run.submit(1, sector(3, 1), false);
    run.submit(2, sector(3, 2), true);
    run.submit(3, sector(3, 0), false);
    run.drain();
    let latency_ps = |id| run.answer(id).at_ps - start_ps;
    let lookup_ps = CONTROLLER_PS + TAGS_PS;
    assert_eq!(latency_ps(1), lookup_ps + 1_000_000);
    assert_eq!(latency_ps(2), lookup_ps + 1_000_000);
    assert_eq!(latency_ps(3), lookup_ps + 50_000, "a hit");
}

#[test]
fn dirty_sectors_alone_are_written_back_neighbours_at_once() {
    let mut run = Run::new(steady(&sectored(1, 1)));
    for (id, number) in [0, 1, 2, 5, 7].into_iter().enumerate() {
        run.submit(id as u32, sector(0, number), number != 1 && number != 7);
    }
    run.drain();
    run.submit(10, sector(1, 0), false);
    run.drain();
    let runs = [(sector(0, 0), 512), (sector(0, 2), 512), (sector(0, 5), 512)];
    assert_eq!(moved(&run.hybrid.store().log, true), runs);
    assert_eq!(moved(&run.hybrid.dram().log, false), runs, "the frame is at 0");
    assert_eq!(run.hybrid.report().write_backs, 1, "one page");

    let mut run = Run::new(steady(&sectored(1, 1)));
    for number in 1..4 {
        run.submit(number, sector(0, u64::from(number)), true);
    }
    run.drain();
    run.flush();
    assert_eq!(moved(&run.hybrid.store().log, true), [(sector(0, 1), 3 * 512)]);
    run.submit(10, sector(0, 2), false);
    run.drain();
    assert_eq!(run.hybrid.report().misses, 3, "what is flushed stays");
}

#[test]
fn a_sector_in_the_write_back_buffer_comes_from_there_and_its_neighbour_from_the_store() {
    let mut run = Run::new(steady(&sectored(2, 2)));
    run.submit(0, sector(0, 4), true);
    run.drain();
    run.submit(1, sector(1, 0), false);
    run.drain();
    run.submit(2, sector(2, 0), false);
    run.wait(100_000);
    let reads = moved(&run.hybrid.store().log, false).len();
    run.submit(3, sector(0, 4), false);
    run.submit(4, sector(0, 5), false);
    run.drain();
    assert_eq!(run.answer(3).version, 1);
    assert_eq!(moved(&run.hybrid.store().log, false)[reads..], [(sector(0, 5), 512)]);
    assert_eq!(run.hybrid.report().stale_reads, 0);
}

#[test]
fn the_next_sectors_are_prefetched_and_each_is_of_use_once() {
    let mut shape = sectored(8, 2);
    (shape.prefetch_pages, shape.fills) = (3, 8);
    let mut run = Run::new(steady(&shape));
    run.submit(0, sector(2, 6), false);
    run.drain();
    let expected =
        [(sector(2, 6), 512), (sector(2, 7), 512), (sector(3, 0), 512), (sector(3, 1), 512)];
    assert_eq!(moved(&run.hybrid.store().log, false), expected);
    for id in 1..4 {
        run.submit(id, sector(2, 7), false);
        run.submit(10 + id, sector(3, 1), false);
    }
    run.drain();
    let report = run.hybrid.report();
    assert_eq!((report.prefetched_pages, report.prefetch_hits, report.misses), (3, 2, 1));
}

#[test]
fn each_sector_has_two_bits_of_the_tag_store() {
    let bytes = |shape: &HybridSpec| {
        Controller::new(shape, SPACE_BYTES, LINE_BYTES as u32).report().tag_store_bytes
    };
    let sectors = PAGE_BYTES / SECTOR_BYTES;
    let more_bits = 64 * (2 * sectors - 2);
    assert_eq!(bytes(&sectored(64, 4)) - bytes(&spec(64, 4)), more_bits / 8);
}

/// A page, the sectors of it that are there, and those that are dirty.
type NaivePage = (u64, [bool; 8], [bool; 8]);

/// The obvious cache of sectors: for each set its pages, the most recently used first.
struct NaiveSectors {
    sets: Vec<Vec<NaivePage>>,
    ways: usize,
    read: u64,
    written: u64,
}

impl NaiveSectors {
    /// Whether the sector was there.
    fn access(&mut self, page: u64, sector: usize, write: bool) -> bool {
        let count = self.sets.len() as u64;
        let set = &mut self.sets[(page % count) as usize];
        let mut entry = match set.iter().position(|(p, ..)| *p == page) {
            Some(at) => set.remove(at),
            None => {
                if set.len() == self.ways
                    && let Some((_, _, dirty)) = set.pop()
                {
                    self.written += dirty.iter().filter(|dirty| **dirty).count() as u64;
                }
                (page, [false; 8], [false; 8])
            }
        };
        let found = std::mem::replace(&mut entry.1[sector], true);
        entry.2[sector] |= write;
        self.read += u64::from(!found);
        set.insert(0, entry);
        found
    }
}

proptest! {
    #[test]
    fn one_request_at_a_time_and_warming_move_the_sectors_that_a_list_does(
        ways in 1u32..=5, sets in 1u64..=5,
        script in prop::collection::vec((0u64..40, 0u64..8, any::<bool>()), 1..200),
    ) {
        let shape = sectored(sets * u64::from(ways), ways);
        let mut run = Run::new(erratic(&shape, 8, 8, 3));
        let mut warmed = steady(&shape);
        warmed.versions = None;
        let empty = vec![Vec::new(); sets as usize];
        let mut naive = NaiveSectors { sets: empty, ways: ways as usize, read: 0, written: 0 };
        for (id, (number, part, write)) in script.into_iter().enumerate() {
            let misses = run.hybrid.report().misses;
            run.submit(id as u32, sector(number, part), write);
            run.drain();
            warmed.warm(0, 0, sector(number, part), write);
            let missed = run.hybrid.report().misses > misses;
            prop_assert_eq!(missed, !naive.access(number, part as usize, write));
        }
        for hybrid in [&run.hybrid, &warmed] {
            let report = hybrid.report();
            prop_assert_eq!(report.traffic.store_read_bytes, naive.read * SECTOR_BYTES);
            prop_assert_eq!(report.traffic.store_written_bytes, naive.written * SECTOR_BYTES);
        }
        for write in [false, true] {
            prop_assert_eq!(asked(&warmed, write), asked(&run.hybrid, write), "written: {}", write);
        }
        let [found, expected] = [&warmed, &run.hybrid].map(|hybrid| hybrid.report());
        prop_assert_eq!(found.write_backs, expected.write_backs);
        prop_assert_eq!(found.fetched_pages, expected.fetched_pages);
    }
}
