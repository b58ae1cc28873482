//! Tags in DRAM, and the cache of them on chip.

use super::*;
use crate::organization::TagCacheReport;
use proptest::prelude::*;

const SMALL_PAGE: u64 = 64;

/// Sets of pages of a line, so that few of them have several lines of tags; and a cache of so many of these.
pub(super) fn in_dram(sets: u64, ways: u32, (lines, tag_ways): (u64, u32)) -> HybridSpec {
    let mut shape = spec(1, ways);
    shape.cache.page = Size::from_bytes(SMALL_PAGE);
    shape.cache.capacity = Size::from_bytes(sets * u64::from(ways) * SMALL_PAGE);
    shape.cache.tags = TagStore::Dram;
    let capacity = Size::from_bytes(lines * LINE_BYTES);
    shape.cache.tag_cache = Some(TagCacheSpec { capacity, ways: tag_ways });
    shape
}

fn counts(run: &Run<Erratic, Erratic>) -> TagCacheReport {
    run.hybrid.report().tag_cache.unwrap()
}

/// Sets whose tags lie in one line.
fn sets_of_a_line(shape: &HybridSpec) -> u64 {
    let layout = super::super::tag_cache::TagLayout::new(shape, SPACE_BYTES, LINE_BYTES as u32);
    1 << layout.unwrap().set_shift
}

#[test]
fn tags_on_chip_cost_nothing_more_and_others_an_access_to_dram() {
    let shape = in_dram(256, 1, (1, 1));
    let other = sets_of_a_line(&shape) * SMALL_PAGE;
    let mut run = Run::new(steady(&shape));
    let looked = (Stage::Controller, CONTROLLER_PS + TAGS_PS);
    let (dram, store) = ((Stage::Dram, 50_000), (Stage::Medium, 1_000_000));
    let accesses: [(u64, &[(Stage, u64)]); 6] = [
        (0, &[looked, dram, store]),
        (SMALL_PAGE, &[looked, store]),
        (0, &[looked, dram]),
        (other, &[looked, dram, store]),
        (other, &[looked, dram]),
        // The tags take as long as the line.
        (0, &[looked, (Stage::Dram, 100_000)]),
    ];
    for (id, (address, expected)) in accesses.into_iter().enumerate() {
        run.submit(id as u32, address, false);
        run.drain();
        assert_eq!(stages(run.answer(id as u32)), expected, "access {id}");
    }
    let expected = TagCacheReport { lookups: 6, misses: 3, reads: 3, writes: 2 };
    assert_eq!(counts(&run), expected, "each line of tags had changed when it went");
    assert_eq!(run.hybrid.report().tag_store_bytes, 64, "what is on chip");
}

#[test]
fn requests_that_want_the_same_tags_share_one_read_of_them() {
    let mut run = Run::new(steady(&in_dram(256, 1, (4, 1))));
    for id in 0..4 {
        run.submit(id, u64::from(id % 2) * SMALL_PAGE, id == 0);
        run.wait(10_000);
    }
    run.drain();
    assert_eq!(counts(&run), TagCacheReport { lookups: 4, misses: 4, reads: 1, writes: 0 });
    let (looked, left) = ((Stage::Controller, CONTROLLER_PS + TAGS_PS), (Stage::Dram, 40_000));
    assert_eq!(stages(run.answer(1)), [looked, left, (Stage::Medium, 1_000_000)]);
    assert_eq!(run.answer(2).version, 1, "in order");
}

#[test]
fn tags_that_nothing_has_changed_are_not_written() {
    let shape = in_dram(256, 1, (1, 1));
    let other = sets_of_a_line(&shape) * SMALL_PAGE;
    let mut run = Run::new(steady(&shape));
    let read = |run: &mut Run<Erratic, Erratic>, id, address, write| {
        run.submit(id, address, write);
        run.drain();
        counts(run).writes
    };
    read(&mut run, 0, 0, false);
    assert_eq!(read(&mut run, 1, other, false), 1, "a page had come");
    assert_eq!(read(&mut run, 2, 0, false), 2, "and there");
    assert_eq!(read(&mut run, 3, other, false), 2, "direct-mapped, a read changes nothing");
    assert_eq!(read(&mut run, 4, 0, true), 2);
    assert_eq!(read(&mut run, 5, other, false), 3, "a page had become dirty");
    assert_eq!(read(&mut run, 6, 0, true), 3);
    assert_eq!(read(&mut run, 7, other, false), 3, "and was dirty already");
}

#[test]
fn a_hit_changes_the_order_of_a_set_where_the_policy_notes_it() {
    for (policy, writes) in [(PolicyKind::Lru, 3), (PolicyKind::Fifo, 2)] {
        let mut shape = in_dram(128, 2, (1, 1));
        shape.cache.replacement = policy;
        let other = sets_of_a_line(&shape) * SMALL_PAGE;
        let mut run = Run::new(steady(&shape));
        for (id, address) in [0, other, 0, other].into_iter().enumerate() {
            run.submit(id as u32, address, false);
            run.drain();
        }
        assert_eq!(counts(&run).writes, writes, "{policy:?}");
    }
}

#[test]
fn a_miss_whose_tags_left_while_it_waited_writes_them() {
    let mut shape = in_dram(256, 1, (1, 1));
    shape.fills = 1;
    let other = sets_of_a_line(&shape) * SMALL_PAGE;
    let mut run = Run::new(steady(&shape));
    run.submit(0, 0, false);
    run.submit(1, SMALL_PAGE, false);
    run.submit(2, other, false);
    run.wait(200_000);
    let expected = TagCacheReport { lookups: 3, misses: 3, reads: 2, writes: 1 };
    assert_eq!(counts(&run), expected, "the tags of two lines, the first of which had changed");
    run.drain();
    assert_eq!(counts(&run).writes, 2, "the second miss has its own still");
}

#[test]
fn a_prefetch_reads_its_tags_in_the_background() {
    let mut shape = in_dram(256, 1, (4, 4));
    let last = (sets_of_a_line(&shape) - 1) * SMALL_PAGE;
    (shape.prefetch_pages, shape.fills) = (2, 16);
    let mut run = Run::new(steady(&shape));
    run.submit(0, last, false);
    run.drain();
    let report = run.hybrid.report();
    assert_eq!((report.misses, report.prefetched_pages), (1, 2));
    assert_eq!(counts(&run), TagCacheReport { lookups: 1, misses: 1, reads: 2, writes: 0 });
    let reads: Vec<_> =
        run.hybrid.dram().log.iter().filter(|r| !r.write).map(|r| r.background).collect();
    assert_eq!(reads, [false, true]);
}

#[test]
fn a_tag_cache_that_has_all_tags_is_as_good_as_sram() {
    let shape = in_dram(64, 4, (8, 8));
    let mut sram = shape.clone();
    (sram.cache.tags, sram.cache.tag_cache) = (TagStore::Sram, None);
    let answers = [&shape, &sram].map(|shape| {
        let mut run = Run::new(real(shape));
        // All tags are seen once.
        for set in 0..64 {
            run.submit(set, u64::from(set) * SMALL_PAGE, false);
            run.drain();
        }
        run.wait(10_000_000_000 - run.now_ps);
        run.out.clear();
        let mut lots = 5;
        for id in 0..600 {
            run.submit(id, draw(&mut lots, 400) * SMALL_PAGE, id % 3 == 0);
            let gap_ps = draw(&mut lots, 30_000);
            run.wait(gap_ps);
        }
        run.drain();
        run.out
    });
    assert_eq!(answers[0], answers[1]);
}

/// Lines of tags, the most recently used first, each with whether it has changed.
#[derive(Default)]
struct NaiveTags {
    lines: Vec<(u64, bool)>,
    most: usize,
    counts: TagCacheReport,
}

impl NaiveTags {
    fn look(&mut self, line: u64, changes: bool) {
        self.counts.lookups += 1;
        let found = self.lines.iter().position(|(other, _)| *other == line);
        let before = found.map(|at| self.lines.remove(at).1);
        if before.is_none() {
            self.counts.misses += 1;
            self.counts.reads += 1;
            if self.lines.len() == self.most && self.lines.pop().is_some_and(|(_, changed)| changed)
            {
                self.counts.writes += 1;
            }
        }
        self.lines.insert(0, (line, before.unwrap_or(false) || changes));
    }
}

proptest! {
    #[test]
    fn tags_come_and_go_as_a_list_says(
        ways in 1u32..=4,
        lines in 1u64..=4,
        warm in any::<bool>(),
        script in prop::collection::vec((0u64..1500, any::<bool>()), 1..300),
    ) {
        let shape = in_dram(256, ways, (lines, lines as u32));
        let line_sets = sets_of_a_line(&shape);
        let mut run = Run::new(erratic(&shape, 8, 8, 3));
        if warm {
            run.hybrid.versions = None;
        }
        let mut sets: Vec<Vec<(u64, bool)>> = vec![Vec::new(); 256];
        let mut naive = NaiveTags { most: lines as usize, ..NaiveTags::default() };
        for (id, (number, write)) in script.into_iter().enumerate() {
            // Three quarters go to few sets, so that there are hits.
            let number = if number % 4 == 0 { number } else { number % 4 * 256 + number / 4 % 9 * 31 };
            if warm {
                run.hybrid.warm(0, 0, number * SMALL_PAGE, write);
            } else {
                run.submit(id as u32, number * SMALL_PAGE, write);
                run.drain();
            }
            let set = &mut sets[(number % 256) as usize];
            let at = set.iter().position(|(other, _)| *other == number);
            let before = at.map(|at| set.remove(at).1);
            // With several ways each hit moves its page to the front.
            naive.look(number % 256 / line_sets, before.is_none_or(|dirty| ways > 1 || write && !dirty));
            set.insert(0, (number, before.unwrap_or(false) || write));
            set.truncate(ways as usize);
        }
        prop_assert_eq!(counts(&run), naive.counts);
        if !warm {
            let log = &run.hybrid.dram().log;
            let behind = |write| {
                let base = shape.cache.capacity.bytes();
                log.iter().filter(|r| r.address >= base && r.write == write).count() as u64
            };
            let moved = (naive.counts.reads, naive.counts.writes);
            prop_assert_eq!((behind(false), behind(true)), moved);
        }
    }
}
