//! What a request takes, stage by stage, and what it finds on its way.

use super::*;

#[test]
fn a_hit_takes_the_controller_the_tags_and_dram() {
    let mut run = Run::new(steady(&spec(8, 2)));
    run.submit(0, page(3), false);
    run.drain();
    let start_ps = run.now_ps;
    run.submit(1, page(3) + 128, false);
    run.drain();
    let answer = run.answer(1);
    assert_eq!(answer.at_ps - start_ps, CONTROLLER_PS + TAGS_PS + 50_000);
    let expected = [(Stage::Controller, CONTROLLER_PS + TAGS_PS), (Stage::Dram, 50_000)];
    assert_eq!(stages(answer), expected);
}

#[test]
fn a_miss_is_answered_before_the_page_is_written_to_dram() {
    let mut run = Run::new(steady(&spec(8, 2)));
    run.submit(0, page(3) + 192, false);
    run.drain();
    let answer = run.answer(0);
    let expected = [(Stage::Controller, CONTROLLER_PS + TAGS_PS), (Stage::Medium, 1_000_000)];
    assert_eq!(stages(answer), expected);
    assert_eq!(run.now_ps, answer.at_ps + 50_000, "the fill follows");
    let log = &run.hybrid.dram().log;
    assert_eq!((log.len(), log[0].bytes, log[0].write), (1, PAGE_BYTES as u32, true));
}

#[test]
fn requests_to_a_page_in_flight_share_one_fill_and_its_stages() {
    let mut run = Run::new(steady(&spec(8, 2)));
    run.submit(0, page(5), false);
    run.wait(400_000);
    run.submit(1, page(5) + 64, true);
    run.submit(2, page(5) + 64, false);
    run.drain();
    let store = &run.hybrid.store().log;
    assert_eq!((store.len(), store[0].address), (1, page(5)));
    let expected = [(Stage::Controller, CONTROLLER_PS + TAGS_PS), (Stage::Medium, 600_000)];
    assert_eq!(stages(run.answer(1)), expected, "the tail of the fill's own");
    assert_eq!(run.answer(2).version, 2, "what was written before it");
    let report = run.hybrid.report();
    assert_eq!((report.lookups, report.misses), (3, 3), "a page in flight counts as a miss");
    assert_eq!(run.hybrid.controller().dirty_pages(), 1);
}

#[test]
fn a_page_that_is_being_filled_is_read_from_the_fill_buffer_and_written_behind_the_fill() {
    let mut run = Run::new(steady(&spec(8, 2)));
    run.submit(0, page(5), false);
    run.wait(CONTROLLER_PS + TAGS_PS + 1_000_000 + 10_000);
    run.submit(1, page(5) + 64, true);
    run.submit(2, page(5) + 64, false);
    run.drain();
    let read = run.answer(2);
    assert_eq!(stages(read), [(Stage::Controller, CONTROLLER_PS + TAGS_PS)]);
    assert_eq!(read.version, 2);
    // 40 ns − 3 ns of the fill are left, then its own access.
    let expected = [(Stage::Controller, CONTROLLER_PS + TAGS_PS), (Stage::Dram, 37_000 + 50_000)];
    assert_eq!(stages(run.answer(1)), expected);
    run.submit(3, page(5) + 64, false);
    run.drain();
    assert_eq!(run.answer(3).version, 2);
}

#[test]
fn hits_pass_misses_that_wait_for_the_write_back_buffer() {
    let mut shape = spec(2, 1);
    shape.write_back_buffer_pages = 1;
    let mut run = Run::new(steady(&shape));
    run.submit(0, page(0), true);
    run.submit(1, page(1), true);
    run.drain();
    let start_ps = run.now_ps;
    // Two dirty victims, one place for them.
    run.submit(2, page(2), false);
    run.submit(3, page(3), false);
    run.submit(4, page(1), false);
    run.drain();
    let latency_ps = |id| run.answer(id).at_ps - start_ps;
    let lookup_ps = CONTROLLER_PS + TAGS_PS;
    assert_eq!(latency_ps(2), lookup_ps + 1_000_000);
    assert_eq!(latency_ps(4), lookup_ps + 50_000, "a hit");
    // Page 0 is read from DRAM and written to the store before page 3 can be sent for.
    assert_eq!(latency_ps(3), lookup_ps + 50_000 + 1_000_000 + 1_000_000);
    // Its waiting is charged to what it waited for: the write-back of page 0.
    let waited = [(Stage::Dram, 50_000), (Stage::Medium, 1_000_000 + 1_000_000)];
    assert_eq!(stages(run.answer(3))[1..], waited);
    assert_eq!(run.hybrid.report().write_backs, 2);
}

/// Two frames of one set, one place for write-backs, which page 0 has on its way to the store; page 1, which is dirty,
/// would have to go for page 3 that is wanted now. When that was looked up.
fn waits_for_the_write_back_buffer() -> (Run<Erratic, Erratic>, u64) {
    let mut shape = spec(3, 3);
    shape.write_back_buffer_pages = 1;
    let mut run = Run::new(steady(&shape));
    for (id, write) in [(0, true), (1, true), (5, false)] {
        run.submit(id, page(u64::from(id)), write);
        run.drain();
    }
    run.submit(2, page(2), false);
    run.wait(100_000);
    run.submit(3, page(3), false);
    let looked_up_ps = run.now_ps + CONTROLLER_PS + TAGS_PS;
    run.wait(100_000);
    assert_eq!(run.hybrid.store().log.len(), 5, "page 3 waits");
    (run, looked_up_ps)
}

#[test]
fn a_miss_begins_once_a_hit_has_made_another_page_its_victim() {
    let (mut run, looked_up_ps) = waits_for_the_write_back_buffer();
    // Page 5 goes instead, which is clean.
    run.submit(6, page(1), false);
    let hit_ps = run.now_ps + CONTROLLER_PS + TAGS_PS;
    run.drain();
    let wait_ps = hit_ps - looked_up_ps;
    let expected = [(Stage::ControllerQueue, wait_ps), (Stage::Medium, 1_000_000)];
    assert_eq!(stages(run.answer(3))[1..], expected);
    assert_eq!(run.hybrid.controller().dirty_pages(), 1, "page 1 stays");
}

#[test]
fn a_miss_begins_once_a_flush_has_thrown_a_page_of_its_set_away() {
    let (mut run, _) = waits_for_the_write_back_buffer();
    run.hybrid.flush_range(run.now_ps, page(5), PAGE_BYTES, true);
    let begun_ps = run.now_ps;
    run.drain();
    assert_eq!(run.answer(3).at_ps, begun_ps + 1_000_000);
}

#[test]
fn a_page_in_the_write_back_buffer_comes_from_there() {
    let mut run = Run::new(steady(&spec(1, 1)));
    run.submit(0, page(0) + 64, true);
    run.drain();
    run.submit(1, page(1), false);
    run.wait(100_000);
    run.submit(2, page(0) + 64, false);
    run.drain();
    assert_eq!(run.answer(2).version, 1);
    let reads = run.hybrid.store().log.iter().filter(|request| !request.write).count();
    assert_eq!(reads, 2, "page 0 is read from the store only the first time");
    assert_eq!(run.hybrid.report().stale_reads, 0);
}

#[test]
fn tags_with_the_data_cost_a_miss_one_access_and_a_hit_none() {
    let mut shape = spec(4, 1);
    shape.cache.tags = TagStore::WithData;
    let mut run = Run::new(steady(&shape));
    run.submit(0, page(1), false);
    run.drain();
    let miss =
        [(Stage::Controller, CONTROLLER_PS), (Stage::Dram, 50_000), (Stage::Medium, 1_000_000)];
    assert_eq!(stages(run.answer(0)), miss);
    run.submit(1, page(1), false);
    run.drain();
    let hit = [(Stage::Controller, CONTROLLER_PS), (Stage::Dram, 50_000)];
    assert_eq!(stages(run.answer(1)), hit);
    run.submit(2, page(1), true);
    run.drain();
    let write = [(Stage::Controller, CONTROLLER_PS), (Stage::Dram, 100_000)];
    assert_eq!(stages(run.answer(2)), write, "the tag is read before the line is written");
    let report = run.hybrid.report();
    assert_eq!((report.lookups, report.misses, report.tag_store_bytes), (3, 1, 0));
}

#[test]
fn a_flush_writes_every_dirty_page_and_keeps_it() {
    let mut run = Run::new(steady(&spec(64, 4)));
    for number in 0..20 {
        run.submit(number, page(u64::from(number) * 3), number % 2 == 0);
    }
    run.drain();
    assert_eq!(run.hybrid.controller().dirty_pages(), 10);
    run.flush();
    assert_eq!(run.hybrid.controller().dirty_pages(), 0);
    let written: Vec<_> = run.hybrid.store().log.iter().filter(|r| r.write).collect();
    assert_eq!(written.len(), 10);
    assert_eq!(run.hybrid.in_flight(), 0, "the store has completed the last write");
    let misses = run.hybrid.report().misses;
    run.submit(50, page(0), false);
    run.drain();
    assert_eq!(run.hybrid.report().misses, misses, "pages stay");
    assert!(run.hybrid.flush(run.now_ps), "nothing is left");
}

#[test]
fn a_range_that_is_flushed_and_invalidated_comes_from_the_store_again() {
    let mut run = Run::new(steady(&spec(64, 4)));
    for number in 0..8 {
        run.submit(number, page(u64::from(number)), number % 2 == 0);
    }
    run.drain();
    while !run.hybrid.flush_range(run.now_ps, page(2), 4 * PAGE_BYTES, true) {
        run.step();
    }
    assert_eq!(run.hybrid.controller().dirty_pages(), 2, "pages 0 and 6");
    for number in 0..8 {
        run.submit(100 + number, page(u64::from(number)), false);
    }
    run.drain();
    assert_eq!(run.hybrid.report().misses, 8 + 4);
    assert_eq!(run.answer(104).version, 5, "page 4 as it was written");
    assert_eq!(run.hybrid.report().stale_reads, 0);
}

#[test]
fn the_critical_line_goes_ahead_of_its_page() {
    let mut shape = spec(8, 2);
    shape.critical_line_first = true;
    let mut run = Run::new(steady(&shape));
    let lookup = (Stage::Controller, CONTROLLER_PS + TAGS_PS);
    run.submit(0, page(1) + 64, false);
    run.submit(1, page(1) + 65, false);
    run.submit(2, page(1), false);
    run.submit(3, page(1) + 64, false);
    run.drain();
    assert_eq!(stages(run.answer(0)), [lookup, (Stage::Medium, 500_000)]);
    assert_eq!(stages(run.answer(1)), [lookup, (Stage::Medium, 500_000)], "the same line");
    assert_eq!(stages(run.answer(2)), [lookup, (Stage::Medium, 1_000_000)], "another line");
    assert_eq!(stages(run.answer(3)), [lookup, (Stage::Medium, 1_000_000)], "in order");
    run.submit(4, page(2), true);
    run.drain();
    assert_eq!(stages(run.answer(4)), [lookup, (Stage::Medium, 1_000_000)], "a write");
}

/// A store that takes a microsecond for anything but writes of page 7.
#[derive(Clone, Debug)]
struct SlowPage(Erratic);

const SLOW_PS: u64 = 1_000_000_000;

impl Device for SlowPage {
    fn submit(&mut self, now_ps: u64, request: Request) -> Result<(), Full> {
        let slow = request.write && request.address == page(7);
        self.0.log.push(request);
        self.0.take_off(now_ps, request.id, if slow { SLOW_PS } else { 1_000_000 });
        Ok(())
    }

    fn next_event_ps(&self) -> Option<u64> {
        self.0.next_event_ps()
    }

    fn advance(&mut self, now_ps: u64, out: &mut Vec<Completion>) {
        self.0.advance(now_ps, out);
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }
}

/// While a flush waits for room, a page that it has not come to makes room for another.
#[test]
fn a_flush_waits_for_a_page_that_leaves_before_it_has_come_to_it() {
    // More than one place, lest the page that leaves keeps the flush from going on.
    let spec = HybridSpec { write_back_buffer_pages: 4, ..spec(8, 8) };
    let dram = Erratic::new(50_000, 0, Stage::Dram, 64, 0);
    let store = SlowPage(Erratic::new(0, 0, Stage::Medium, 64, 0));
    let mut run = Run::new(Hybrid::new(&spec, SPACE_BYTES, LINE_BYTES as u32, dram, store, true));
    // All are dirty; page 7 was used least recently, and the flush comes to it last.
    for (id, number) in (0..8).chain(0..7).enumerate() {
        run.submit(id as u32, page(number), true);
        run.drain();
    }
    let begun_ps = run.now_ps;
    assert!(!run.hybrid.flush(begun_ps));
    run.submit(20, page(8), true);
    run.flush();
    let left = |request: &Request| request.write && request.address == page(7);
    assert!(run.hybrid.store().0.log.iter().any(left), "page 8 has its frame");
    assert!(run.now_ps >= begun_ps + SLOW_PS, "{} ps", run.now_ps - begun_ps);
}
