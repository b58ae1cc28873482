//! Caches that not every miss fills: equality with lists, order, and data.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A cache of lines, or of pages whose sectors are lines, that is filled so.
fn filled_by(fill: FillPolicy, frames: u64, ways: u32, sectors: bool) -> HybridSpec {
    let mut shape = spec(frames, ways);
    shape.cache.fill = fill;
    if sectors {
        shape.cache.sector = Some(Size::from_bytes(LINE_BYTES));
    } else {
        shape.cache.page = Size::from_bytes(LINE_BYTES);
        shape.cache.capacity = Size::from_bytes(frames * LINE_BYTES);
    }
    (shape.fills, shape.write_back_buffer_pages) = (8, 8);
    shape
}

fn policies() -> impl Strategy<Value = FillPolicy> {
    use FillPolicy::{Misses, Reads, Victims, Writes};
    prop_oneof![Just(Misses), Just(Reads), Just(Writes), Just(Victims)]
}

/// A line is read, written, or given up clean by the on-chip cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Read,
    Write,
    Clean,
}

fn whats() -> impl Strategy<Value = What> {
    prop_oneof![Just(What::Read), Just(What::Write), Just(What::Clean)]
}

/// For each set the lines that are there, the most recently used first, each with whether it is dirty; and bytes of the
/// store, read and written.
struct Naive {
    sets: Vec<Vec<(u64, bool)>>,
    ways: usize,
    fill: FillPolicy,
    read: u64,
    written: u64,
}

impl Naive {
    fn access(&mut self, line: u64, what: What) {
        let fill = self.fill;
        let count = self.sets.len() as u64;
        let set = &mut self.sets[(line % count) as usize];
        if let Some(at) = set.iter().position(|(known, _)| *known == line) {
            if what != What::Clean {
                let (_, dirty) = set.remove(at);
                set.insert(0, (line, dirty | (what == What::Write)));
            }
            return;
        }
        let fills = match what {
            What::Read => matches!(fill, FillPolicy::Misses | FillPolicy::Reads),
            What::Write => fill != FillPolicy::Reads,
            What::Clean => fill == FillPolicy::Victims,
        };
        self.read +=
            u64::from(what == What::Read || what == What::Write && fill == FillPolicy::Misses);
        if !fills {
            self.written += u64::from(what == What::Write);
            return;
        }
        if set.len() == self.ways && set.pop().is_some_and(|(_, dirty)| dirty) {
            self.written += 1;
        }
        set.insert(0, (line, what == What::Write));
    }
}

impl<D: Device + Send + 'static, S: Device + Send + 'static> Run<D, S> {
    fn give_up(&mut self, address: u64, version: u64) {
        self.hybrid.put_clean(self.now_ps, address, version);
    }
}

proptest! {
    /// One by one, in detail and in functional warming, what is where and the bytes of the store are those of lists.
    #[test]
    fn one_request_at_a_time_fills_as_a_list_does(
        fill in policies(), ways in 1u32..=4, sets in 1u64..=4, with_data in any::<bool>(),
        script in prop::collection::vec((0u64..24, whats()), 1..200),
    ) {
        let ways = if with_data { 1 } else { ways };
        let mut shape = filled_by(fill, sets * u64::from(ways), ways, false);
        if with_data {
            shape.cache.tags = TagStore::WithData;
        }
        let mut run = Run::new(erratic(&shape, 8, 8, 3));
        let mut warmed = steady(&shape);
        warmed.versions = None;
        let mut naive = Naive {
            sets: vec![Vec::new(); sets as usize], ways: ways as usize, fill, read: 0, written: 0,
        };
        for (id, (line, what)) in (0..).zip(script) {
            let address = line * LINE_BYTES;
            naive.access(line, what);
            match what {
                What::Clean => {
                    run.give_up(address, run.version);
                    warmed.warm_clean(0, address);
                }
                _ => {
                    run.submit(id, address, what == What::Write);
                    warmed.warm(0, 0, address, what == What::Write);
                }
            }
            run.drain();
            for hybrid in [&run.hybrid, &warmed] {
                let traffic = hybrid.report().traffic;
                prop_assert_eq!(traffic.store_read_bytes, naive.read * LINE_BYTES);
                prop_assert_eq!(traffic.store_written_bytes, naive.written * LINE_BYTES);
                for line in 0..24 {
                    let set = &naive.sets[(line % sets) as usize];
                    let there = set.iter().any(|(known, _)| *known == line);
                    prop_assert_eq!(hybrid.controller().tags.lookup(line).is_some(), there);
                }
            }
            let counted = |hybrid: &ErraticHybrid| {
                let report = hybrid.report();
                (report.lookups, report.misses, report.fetched_pages, report.write_backs, report.fill)
            };
            prop_assert_eq!(counted(&run.hybrid), counted(&warmed));
        }
        for write in [false, true] {
            prop_assert_eq!(asked(&warmed, write), asked(&run.hybrid, write), "written: {}", write);
        }
    }

    /// Many at a time, with lines given up that were read and not written since: no read is stale, and after a
    /// flush the store has everything.
    #[test]
    fn no_read_is_stale_whatever_fills(
        fill in policies(), sectors in any::<bool>(), ways in 1u32..=2, with_data in any::<bool>(),
        seed in any::<u64>(), tight in any::<bool>(),
        script in prop::collection::vec((0u64..20, whats(), 0u64..400_000), 1..250),
    ) {
        let with_data = with_data && !sectors;
        let mut shape = filled_by(fill, 4, if with_data { 1 } else { ways }, sectors);
        if with_data {
            shape.cache.tags = TagStore::WithData;
        }
        if tight {
            (shape.fills, shape.write_back_buffer_pages, shape.prefetch_pages) = (2, 1, 1);
        }
        let mut run = Run::new(erratic(&shape, 3, 2, seed));
        // What the on-chip cache has: the version that was read last, until the line is written.
        let mut on_chip: BTreeMap<u64, u64> = BTreeMap::new();
        let mut asked: BTreeMap<u32, u64> = BTreeMap::new();
        let mut seen = 0;
        for (id, (line, what, gap_ps)) in (0..).zip(script) {
            run.wait(gap_ps);
            for answer in &run.out[seen..] {
                if let Response::Line(answer) = answer
                    && let Some(line) = asked.remove(&answer.id)
                {
                    on_chip.insert(line, answer.version);
                }
            }
            seen = run.out.len();
            let address = line * if sectors { PAGE_BYTES / 2 } else { LINE_BYTES };
            match what {
                What::Clean => {
                    if let Some(version) = on_chip.remove(&line) {
                        run.give_up(address, version);
                    }
                }
                What::Read => {
                    asked.insert(id, line);
                    run.submit(id, address, false);
                }
                What::Write => {
                    // A read that is under way may bring what was there before.
                    asked.retain(|_, other| *other != line);
                    on_chip.remove(&line);
                    run.submit(id, address, true);
                }
            }
        }
        run.drain();
        run.flush();
        let report = run.hybrid.report();
        prop_assert_eq!(report.stale_reads, 0);
        prop_assert_eq!(run.hybrid.controller().dirty_pages(), 0);
        let filled = report.fill.unwrap_or_default();
        prop_assert!(filled.clean_victims_kept <= filled.clean_victims);
        let versions = run.hybrid.versions.as_ref().unwrap();
        let submitted = versions.requests.history.submitted();
        for line in 0..20 {
            let address = line * if sectors { PAGE_BYTES / 2 } else { LINE_BYTES };
            prop_assert_eq!(versions.stored(address), submitted.get(address / LINE_BYTES));
        }
    }
}

#[test]
fn lines_around_the_cache_are_answered_at_once_and_go_together() {
    let mut run = Run::new(steady(&filled_by(FillPolicy::Reads, 4, 2, true)));
    for id in 0..8 {
        run.submit(id, u64::from(id) * LINE_BYTES, true);
    }
    run.drain();
    assert!(
        (0..8).all(|id| stages(run.answer(id)) == [(Stage::Controller, CONTROLLER_PS + TAGS_PS)])
    );
    // The first by itself, and the others once that was done.
    let bytes: Vec<_> = run.hybrid.store().log.iter().map(|request| request.bytes).collect();
    assert_eq!(bytes, [64, 7 * 64]);
    assert_eq!(run.hybrid.report().fill.unwrap().writes_around_cache, 8);
    assert_eq!(run.hybrid.controller().dirty_pages(), 0);
}

#[test]
fn a_line_that_went_around_is_not_dirty_for_who_reads_it_next() {
    let mut shape = filled_by(FillPolicy::Reads, 4, 2, false);
    shape.write_back_buffer_pages = 1;
    let mut run = Run::new(steady(&shape));
    run.submit(0, 0, true);
    // No room: it waits, and a read of it with it.
    run.submit(1, LINE_BYTES, true);
    run.submit(2, LINE_BYTES, false);
    run.drain();
    assert_eq!((run.answer(1).at_ps, run.answer(2).version), (1_003_000, 2));
    assert!(run.hybrid.controller().tags.lookup(1).is_some());
    assert_eq!(run.hybrid.controller().dirty_pages(), 0);
}

#[test]
fn a_line_that_is_written_while_it_is_read_past_the_cache_fills_it_afterwards() {
    let mut run = Run::new(steady(&filled_by(FillPolicy::Writes, 4, 2, false)));
    run.submit(0, 0, false);
    run.wait(500_000);
    run.submit(1, 0, true);
    run.submit(2, 0, false);
    run.drain();
    let ends_ps: Vec<_> = (0..3).map(|id| run.answer(id).at_ps).collect();
    assert_eq!(ends_ps, [1_003_000; 3], "the write, and the read of it, once the line has come");
    assert_eq!((run.answer(0).version, run.answer(2).version), (0, 2));
    assert_eq!(run.hybrid.store().log.len(), 1, "what is written as a whole is not read");
    assert!(run.hybrid.controller().tags.lookup(0).is_some());
}

#[test]
fn a_clean_victim_that_finds_no_room_is_dropped_and_nobody_waits() {
    let mut shape = filled_by(FillPolicy::Victims, 4, 4, false);
    shape.fills = 2;
    let mut run = Run::new(steady(&shape));
    for line in 0..4 {
        run.give_up(line * LINE_BYTES, 0);
    }
    run.drain();
    let filled = run.hybrid.report().fill.unwrap();
    // One of the two fill buffers is left to demand.
    assert_eq!((filled.clean_victims, filled.clean_victims_kept), (4, 1));
    assert_eq!(run.hybrid.store().log, []);
    assert_eq!(run.hybrid.dram().log.len(), 1);
}
