//! What is brought before it is asked for.

use super::*;

#[test]
fn a_miss_prefetches_the_next_pages_and_a_prefetched_page_does_not() {
    let mut shape = spec(64, 4);
    shape.prefetch_pages = 3;
    shape.fills = 8;
    let mut run = Run::new(steady(&shape));
    let last = SPACE_BYTES / PAGE_BYTES - 1;
    run.submit(0, page(12), false);
    run.drain();
    run.submit(1, page(10), false);
    run.submit(2, page(last - 1), false);
    run.drain();
    let sent = |run: &Run<Erratic, Erratic>| -> Vec<(u64, bool)> {
        let log = run.hybrid.store().log.iter();
        log.map(|request| (request.address / PAGE_BYTES, request.background)).collect()
    };
    let expected = [
        (12, false),
        (13, true),
        (14, true),
        (15, true),
        (10, false),
        (11, true),
        (last - 1, false),
        (last, true),
    ];
    assert_eq!(sent(&run), expected);
    run.submit(3, page(13), false);
    run.submit(4, page(13), false);
    run.drain();
    assert_eq!(sent(&run).len(), expected.len());
    let report = run.hybrid.report();
    assert_eq!((report.prefetched_pages, report.prefetch_hits), (5, 1));
}

#[test]
fn what_software_says_it_needs_is_brought_ahead_of_it() {
    let mut run = Run::new(steady(&spec(64, 4)));
    assert!(run.hybrid.will_need(0, page(3) + 100, 2 * PAGE_BYTES), "pages 3, 4 and 5");
    run.drain();
    for number in 3..7 {
        run.submit(number, page(u64::from(number)), false);
    }
    run.drain();
    let report = run.hybrid.report();
    assert_eq!((report.prefetched_pages, report.prefetch_hits, report.misses), (3, 3, 1));
}

#[test]
fn prefetches_leave_fills_to_demand() {
    let mut shape = spec(64, 4);
    shape.prefetch_pages = 16;
    shape.fills = 8;
    let mut run = Run::new(steady(&shape));
    run.submit(0, page(0), false);
    run.wait(10_000);
    assert_eq!(run.hybrid.store().in_flight(), 6, "2 of 8 are kept");
    run.submit(1, page(100), false);
    run.submit(2, page(101), false);
    run.wait(CONTROLLER_PS + TAGS_PS);
    assert_eq!(run.hybrid.store().in_flight(), 8);
    run.drain();
}

#[test]
fn what_waits_to_be_prefetched_is_kept_while_it_is_held() {
    let mut shape = spec(64, 4);
    (shape.prefetch_pages, shape.fills) = (16, 8);
    let mut run = Run::new(steady(&shape));
    run.submit(0, page(0), false);
    run.wait(10_000);
    let under_way = run.hybrid.store().in_flight();
    run.hybrid.hold_ahead(true);
    run.drain();
    assert_eq!(run.hybrid.report().prefetched_pages as usize, under_way - 1, "one is demand's");
    run.hybrid.hold_ahead(false);
    run.submit(1, page(200), false);
    run.drain();
    assert_eq!(run.hybrid.report().prefetched_pages, 2 * 16);
}

#[test]
fn a_page_that_is_used_on_its_way_has_one_more_asked_for_at_once() {
    for tags in [TagStore::Sram, TagStore::WithData] {
        let mut shape = spec(64, 1);
        shape.cache.tags = tags;
        (shape.prefetcher, shape.prefetch_pages, shape.fills) = (PrefetcherKind::Streams, 2, 8);
        let mut run = Run::new(steady(&shape));
        run.submit(0, page(10), false);
        run.wait(500_000);
        run.submit(1, page(11), false);
        // Long before the first has come.
        run.wait(100_000);
        let asked: Vec<_> =
            run.hybrid.store().log.iter().map(|it| it.address / PAGE_BYTES).collect();
        assert_eq!(asked, [10, 11, 12, 13], "{tags:?}");
        run.drain();
    }
}
