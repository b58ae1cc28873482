//! Tags in front of their lines (TAD): what DRAM is asked for, and what does not depend on it.

use super::*;
use proptest::prelude::*;

const TAD_BYTES: u64 = 72;

/// `shape` with so many frames of a line, each behind its tag.
pub(super) fn in_front(shape: &HybridSpec, frames: u64, guesses: MissPredictorKind) -> HybridSpec {
    let mut shape = shape.clone();
    (shape.cache.tags, shape.cache.ways) = (TagStore::Tad, 1);
    shape.cache.page = Size::from_bytes(LINE_BYTES);
    shape.cache.capacity = Size::from_bytes(frames * LINE_BYTES);
    shape.cache.miss_predictor = guesses;
    shape
}

fn shape(frames: u64, guesses: MissPredictorKind) -> HybridSpec {
    in_front(&spec(1, 1), frames, guesses)
}

#[test]
fn a_row_of_2_kib_has_28_lines_and_each_takes_as_many_bursts_as_any_other() {
    let cache = shape(1, MissPredictorKind::None).cache;
    for (burst_bytes, bytes) in [(64, 128), (32, 96), (16, 80)] {
        let layout = TadLayout::new(&cache, 2048, burst_bytes).unwrap();
        assert_eq!(layout.dram_bytes(28 * 64), 2048);
        assert_eq!(layout.dram_bytes(29 * 64), 4096);
        assert_eq!(layout.dram_bytes(56 << 30), 64 << 30, "28 of 32 bytes hold data");
        for frame in 0..1000 {
            let (first, taken) = layout.bursts(frame * 64);
            assert_eq!((u64::from(taken), first % burst_bytes), (bytes, 0));
            let begin = frame / 28 * 2048 + frame % 28 * TAD_BYTES;
            assert!(first <= begin && begin + TAD_BYTES <= first + bytes, "frame {frame}");
            assert_eq!(first / 2048, (first + bytes - 1) / 2048, "in one row");
        }
    }
    assert_eq!(TadLayout::new(&cache, 64, 64), None, "a row without room");
    assert_eq!(TadLayout::new(&spec(1, 1).cache, 2048, 64), None, "tags in SRAM");
}

#[test]
fn a_line_with_its_tag_takes_one_burst_more_of_an_open_row() {
    let latency_ps = |tags| {
        let mut shape = shape(28, MissPredictorKind::None);
        shape.cache.tags = tags;
        let mut run = Run::new(real(&shape));
        for id in 0..2 {
            run.submit(id, 64, false);
            run.drain();
            // The fill is over, the row stays open.
            run.wait(1_000_000);
        }
        (run.answer(1).stages.total_ps(), run.hybrid.dram().counts())
    };
    let [(tad_ps, tads), (line_ps, lines)] = [TagStore::Tad, TagStore::WithData].map(latency_ps);
    // Eight transfers of DDR3-1333, but for where they fall between two of its clocks.
    let more_ps = tad_ps - line_ps;
    assert!((4_500..=7_500).contains(&more_ps), "{more_ps} ps");
    assert_eq!((tads.read_lines, tads.written_lines), (4, 2));
    assert_eq!((lines.read_lines, lines.written_lines), (2, 1));
    assert_eq!(tads.activates, lines.activates, "the second is in the row of the first");
}

#[test]
fn each_core_has_a_counter_of_its_own() {
    let mut run = Run::new(steady(&shape(30, MissPredictorKind::Global)));
    // One core finds its line, but for the first time; the other's never are there.
    for id in 0..20 {
        let (core, line) = if id % 2 == 0 { (0, 0) } else { (1, u64::from(id)) };
        let address = line * LINE_BYTES;
        let request = LineRequest { id, core, address, write: false, version: 0 };
        run.hybrid.submit(run.now_ps, request).unwrap();
        run.drain();
    }
    let expected = MissPredictorReport {
        predicted_reads: 20,
        // Of the one the first; of the other until its counter has its highest bit.
        predicted_hits_that_missed: 1 + 4,
        ..Default::default()
    };
    assert_eq!(run.hybrid.report().miss_predictor, Some(expected));
}

/// Reads and writes of lines, one by one if they are to be.
fn offered(shape: &HybridSpec, script: &[(u64, bool)], apart: bool) -> Run<Erratic, Erratic> {
    let mut run = Run::new(steady(shape));
    for (id, (line, write)) in script.iter().enumerate() {
        run.submit(id as u32, line * LINE_BYTES, *write);
        if apart {
            run.drain();
        }
    }
    run.drain();
    run
}

proptest! {
    #[test]
    fn what_is_guessed_changes_no_hit_and_no_miss(
        script in prop::collection::vec((0u64..90, any::<bool>()), 1..200),
    ) {
        let kinds = [MissPredictorKind::None, MissPredictorKind::Global, MissPredictorKind::Region,
            MissPredictorKind::Perfect];
        let runs = kinds.map(|kind| offered(&shape(30, kind), &script, true));
        let [plain, .., perfect] = &runs;
        for run in &runs {
            let (report, expected) = (run.hybrid.report(), plain.hybrid.report());
            prop_assert_eq!((report.lookups, report.misses), (expected.lookups, expected.misses));
            prop_assert_eq!(report.write_backs, expected.write_backs);
            let guesses = report.miss_predictor.unwrap_or_default();
            let wasted = report.traffic.store_read_bytes - expected.traffic.store_read_bytes;
            prop_assert_eq!(wasted, guesses.wasted_store_reads * LINE_BYTES);
            prop_assert_eq!(guesses.wasted_store_reads, guesses.predicted_misses_that_hit);
        }
        // One that is always right never takes longer than none, and asks for nothing in vain.
        let reads = script.iter().filter(|(_, write)| !write).count() as u64;
        let expected = MissPredictorReport { predicted_reads: reads, ..Default::default() };
        prop_assert_eq!(perfect.hybrid.report().miss_predictor, Some(expected));
        for id in 0..script.len() as u32 {
            let [quick, slow] = [perfect, plain].map(|run| run.answer(id).stages.total_ps());
            prop_assert!(quick <= slow);
        }
    }

    /// Tags that come with the line at no burst, unguessed, miss as tags on chip do that take no time.
    #[test]
    fn tags_with_the_data_miss_as_tags_on_chip(
        script in prop::collection::vec((0u64..90, any::<bool>()), 1..200),
    ) {
        let mut on_chip = shape(30, MissPredictorKind::None);
        on_chip.cache.tags = TagStore::Sram;
        on_chip.cache.tag_latency = Duration::from_picoseconds(0);
        let mut with_data = on_chip.clone();
        with_data.cache.tags = TagStore::WithData;
        let runs = [on_chip, with_data, shape(30, MissPredictorKind::None)]
            .map(|shape| offered(&shape, &script, true));
        let [on_chip, with_data, tads] = runs.map(|run| run.hybrid.report());
        prop_assert_eq!(with_data.misses, on_chip.misses);
        prop_assert_eq!(with_data.write_backs, on_chip.write_backs);
        prop_assert_eq!(with_data.traffic.store_read_bytes, on_chip.traffic.store_read_bytes);
        // In front of the lines they cost bytes of DRAM, and nothing else.
        let twice = |report: &OrganizationReport| Traffic {
            dram_read_bytes: 2 * report.traffic.dram_read_bytes,
            dram_written_bytes: 2 * report.traffic.dram_written_bytes,
            ..report.traffic
        };
        prop_assert_eq!(tads.misses, with_data.misses);
        prop_assert_eq!(tads.traffic, twice(&with_data));
    }

    /// Each access to DRAM has the bytes of one line and its tag, of the row that the line's set is in.
    #[test]
    fn dram_is_asked_for_the_bursts_of_lines_and_tags(
        script in prop::collection::vec((0u64..200, any::<bool>()), 1..100),
        guesses in any::<bool>(),
    ) {
        let kind = if guesses { MissPredictorKind::Global } else { MissPredictorKind::None };
        let run = offered(&shape(70, kind), &script, false);
        let possible: Vec<_> = (0..70)
            .map(|set| {
                let begin = set / 28 * 2048 + set % 28 * TAD_BYTES;
                let bursts: Vec<_> = (begin..begin + TAD_BYTES).map(|byte| byte / 64 * 64).collect();
                (bursts[0], bursts[71] + 64 - bursts[0])
            })
            .collect();
        for request in &run.hybrid.dram().log {
            let asked = (request.address, u64::from(request.bytes));
            prop_assert!(possible.contains(&asked), "{:?}", request);
        }
        let (log, traffic) = (&run.hybrid.dram().log, run.hybrid.report().traffic);
        let moved = |write| -> u64 {
            log.iter().filter(|r| r.write == write).map(|r| u64::from(r.bytes)).sum()
        };
        prop_assert_eq!(moved(false), traffic.dram_read_bytes);
        prop_assert_eq!(moved(true), traffic.dram_written_bytes);
    }
}
