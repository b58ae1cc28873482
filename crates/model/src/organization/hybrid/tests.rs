//! Laws of the hybrid, with devices of any temper.

use super::*;
use crate::cache::{AnyTagStore, WayRef};
use crate::conformance::{PAGE_BYTES, SPACE_BYTES, organization_laws};
use crate::device::StoreSpec;
use crate::device::store::StoreDevice;
use crate::link::{LinkDescription, LinkSpec};
use crate::medium::{DramSpec, dram::Dram};
use crate::organization::{DramCacheSpec, InitialContent, TagStore};
use crate::replacement::PolicyKind;
use proptest::prelude::*;
use tierscope_kernel::Timeline;
use tierscope_units::{Bandwidth, Duration, Size};

mod literate;
mod pressure;
mod sectors;

const LINE_BYTES: u64 = 64;
const CONTROLLER_PS: u64 = 1_000;
const TAGS_PS: u64 = 2_000;

/// A device whose latency is anything between two bounds, from a seed.
#[derive(Clone, Debug)]
struct Erratic {
    least_ps: u64,
    span_ps: u64,
    stage: Stage,
    depth: usize,
    lots: u64,
    /// In order of completion.
    flights: Vec<Completion>,
    log: Vec<Request>,
}

impl Erratic {
    fn new(least_ps: u64, span_ps: u64, stage: Stage, depth: usize, seed: u64) -> Self {
        let (flights, log) = (Vec::new(), Vec::new());
        Erratic { least_ps, span_ps, stage, depth, lots: seed, flights, log }
    }

    /// Anything from 0 to `most`.
    fn draw(&mut self, most: u64) -> u64 {
        self.lots = self.lots.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e);
        (self.lots >> 33) % (most + 1)
    }

    fn take_off(&mut self, now_ps: u64, id: u32, latency_ps: u64) {
        let mut stages = Timeline::new();
        stages.push(self.stage, latency_ps);
        let at_ps = now_ps + latency_ps;
        let place = self.flights.partition_point(|flight| flight.at_ps <= at_ps);
        self.flights.insert(place, Completion { id, at_ps, stages });
    }
}

impl Device for Erratic {
    fn submit(&mut self, now_ps: u64, request: Request) -> Result<(), Full> {
        if self.flights.len() >= self.depth {
            return Err(Full);
        }
        self.log.push(request);
        let latency_ps = self.least_ps + self.draw(self.span_ps);
        self.take_off(now_ps, request.id, latency_ps);
        Ok(())
    }

    /// Brings the part in half the least time of the whole.
    fn submit_ahead(&mut self, now_ps: u64, request: Request, ahead: Ahead) -> Result<(), Full> {
        self.submit(now_ps, request)?;
        self.take_off(now_ps, ahead.id, self.least_ps / 2);
        Ok(())
    }

    fn next_event_ps(&self) -> Option<u64> {
        self.flights.first().map(|flight| flight.at_ps)
    }

    fn advance(&mut self, now_ps: u64, out: &mut Vec<Completion>) {
        let due = self.flights.partition_point(|flight| flight.at_ps <= now_ps);
        out.extend(self.flights.drain(..due));
    }

    fn in_flight(&self) -> usize {
        self.flights.len()
    }
}

fn spec(frames: u64, ways: u32) -> HybridSpec {
    HybridSpec {
        cache: DramCacheSpec {
            capacity: Size::from_bytes(frames * PAGE_BYTES),
            ways,
            page: Size::from_bytes(PAGE_BYTES),
            sector: None,
            replacement: PolicyKind::Lru,
            tags: TagStore::Sram,
            miss_predictor: false,
            tag_latency: Duration::from_picoseconds(TAGS_PS),
            initial: InitialContent::Empty,
        },
        controller_latency: Duration::from_picoseconds(CONTROLLER_PS),
        queue_depth: 16,
        fills: 4,
        write_back_buffer_pages: 2,
        prefetcher: PrefetcherKind::Sequential,
        prefetch_pages: 0,
        prefetch_streams: 4,
        eager_write_back: false,
        critical_line_first: false,
    }
}

/// Shapes of a hybrid that are all tight somewhere.
fn shapes() -> Vec<HybridSpec> {
    let mut shapes = Vec::new();
    for ways in [1, 2, 4] {
        for (tags, ways) in [(TagStore::Sram, ways), (TagStore::WithData, 1)] {
            for (fills, buffer, prefetch) in [(1, 1, 0), (4, 1, 3), (3, 2, 1), (8, 4, 0)] {
                let mut shape = spec(4, ways);
                shape.cache.tags = tags;
                shape.cache.miss_predictor = tags == TagStore::WithData && buffer != 2;
                shape.fills = fills;
                shape.write_back_buffer_pages = buffer;
                shape.prefetch_pages = prefetch;
                shape.critical_line_first = buffer == 2;
                shapes.push(shape);
            }
        }
    }
    let kinds = [PrefetcherKind::Streams, PrefetcherKind::Stride, PrefetcherKind::BestOffset];
    let ahead = shapes.iter_mut().filter(|shape| shape.prefetch_pages > 0);
    for (shape, kind) in ahead.skip(1).step_by(2).zip(kinds) {
        shape.prefetcher = kind;
    }
    shapes.iter_mut().step_by(3).for_each(|shape| shape.eager_write_back = true);
    shapes[1].queue_depth = 1;
    shapes[2].controller_latency = Duration::from_picoseconds(0);
    shapes[2].cache.tag_latency = Duration::from_picoseconds(0);
    shapes[3].cache.initial = InitialContent::Prefilled;
    for (frames, bytes) in [(2, 512), (4, 1024), (4, 64)] {
        for mut shape in [shapes[4].clone(), shapes[9].clone(), shapes[14].clone()] {
            shape.cache.tags = TagStore::Sram;
            shape.cache.capacity =
                Size::from_bytes(frames * u64::from(shape.cache.ways) * PAGE_BYTES);
            shape.cache.sector = Some(Size::from_bytes(bytes));
            shapes.push(shape);
        }
    }
    for (shape, policy) in shapes.iter_mut().rev().zip(PolicyKind::ALL) {
        shape.cache.replacement = *policy;
    }
    shapes
}

type ErraticHybrid = Hybrid<Erratic, Erratic>;

fn erratic(spec: &HybridSpec, dram_depth: usize, store_depth: usize, seed: u64) -> ErraticHybrid {
    let dram = Erratic::new(0, 60_000, Stage::Dram, dram_depth, seed);
    let store = Erratic::new(100, 3_000_000, Stage::Medium, store_depth, !seed);
    Hybrid::new(spec, SPACE_BYTES, LINE_BYTES as u32, dram, store, true)
}

/// A hybrid whose devices always take the same time.
fn steady(spec: &HybridSpec) -> ErraticHybrid {
    let dram = Erratic::new(50_000, 0, Stage::Dram, 64, 0);
    let store = Erratic::new(1_000_000, 0, Stage::Medium, 64, 0);
    Hybrid::new(spec, SPACE_BYTES, LINE_BYTES as u32, dram, store, true)
}

fn real(spec: &HybridSpec) -> Hybrid<Dram, StoreDevice> {
    let link = LinkSpec {
        bandwidth: Bandwidth::from_bytes_per_second(15_754_000_000),
        payload: Size::from_bytes(256),
        packet_overhead: Size::from_bytes(24),
        latency: Duration::from_picoseconds(100_000),
        energy: None,
    };
    real_behind(spec, &link)
}

/// A hybrid with the machine's devices, behind any link.
pub fn behind(link: &dyn LinkDescription, check_data: bool) -> Box<dyn Organization> {
    checking(check_data, real_behind(&shapes().remove(0), link))
}

/// A hybrid whose power may fail.
pub fn failing() -> Hybrid<Dram, StoreDevice> {
    real_behind(&shapes().remove(0), &crate::link::packet::tests::spec())
}

fn real_behind(spec: &HybridSpec, link: &dyn LinkDescription) -> Hybrid<Dram, StoreDevice> {
    let dram = DramSpec {
        row: Some(Size::from_bytes(1024)),
        read_queue_depth: 32,
        write_queue_depth: 32,
        write_high: 24,
        write_low: 8,
        controller_latency: Duration::from_picoseconds(5_000),
        ..DramSpec::of_part("ddr3-1333-2gb-x8", 2)
    };
    let store = StoreSpec {
        capacity: Size::from_bytes(SPACE_BYTES),
        page: Size::from_bytes(PAGE_BYTES),
        read_latency: Duration::from_picoseconds(25_000_000),
        write_latency: Duration::from_picoseconds(250_000_000),
        units: 4,
        unit_bandwidth: Bandwidth::from_bytes_per_second(4_000_000_000),
        controller_latency: Duration::from_picoseconds(100_000),
        queue_depth: 6,
    };
    let dram = Dram::new(&dram, spec.cache.capacity.bytes(), LINE_BYTES);
    let store = StoreDevice::new(&store, link);
    Hybrid::new(spec, SPACE_BYTES, LINE_BYTES as u32, dram, store, true)
}

/// A fresh hybrid that checks data or does not.
fn checking<D, S>(check_data: bool, mut hybrid: Hybrid<D, S>) -> Box<dyn Organization>
where
    D: Device + Send + 'static,
    S: Device + Send + 'static,
{
    hybrid.versions.take_if(|_| !check_data);
    Box::new(hybrid)
}

#[test]
fn the_laws_hold_with_erratic_devices_and_tight_buffers() {
    for (seed, shape) in shapes().into_iter().enumerate() {
        organization_laws(|check_data| checking(check_data, erratic(&shape, 3, 2, seed as u64)));
    }
}

#[test]
fn the_laws_hold_with_devices_that_take_one_request_at_a_time() {
    for (seed, shape) in shapes().into_iter().enumerate().step_by(5) {
        organization_laws(|check_data| checking(check_data, erratic(&shape, 1, 1, seed as u64)));
    }
}

#[test]
fn the_laws_hold_with_the_devices_of_the_machine() {
    for shape in shapes().into_iter().step_by(3) {
        organization_laws(|check_data| checking(check_data, real(&shape)));
    }
}

/// Submits requests as a script says, and collects what is answered.
struct Run<D, S> {
    hybrid: Hybrid<D, S>,
    now_ps: u64,
    out: Vec<Response>,
    version: u64,
}

impl<D: Device + Send + 'static, S: Device + Send + 'static> Run<D, S> {
    fn new(hybrid: Hybrid<D, S>) -> Self {
        Run { hybrid, now_ps: 0, out: Vec::new(), version: 0 }
    }

    fn submit(&mut self, id: u32, address: u64, write: bool) {
        self.version += 1;
        let version = if write { self.version } else { 0 };
        let request = LineRequest { id, address, write, version };
        while self.hybrid.submit(self.now_ps, request).is_err() {
            self.step();
        }
    }

    fn step(&mut self) {
        let next_ps = self.hybrid.next_event_ps();
        assert!(next_ps.is_some(), "{} in flight, no event", self.hybrid.in_flight());
        self.now_ps = next_ps.unwrap_or(self.now_ps).max(self.now_ps);
        self.hybrid.advance(self.now_ps, &mut self.out);
    }

    fn wait(&mut self, ps: u64) {
        self.now_ps += ps;
        self.hybrid.advance(self.now_ps, &mut self.out);
    }

    fn drain(&mut self) {
        while self.hybrid.in_flight() > 0 {
            self.step();
        }
    }

    fn answer(&self, id: u32) -> &LineResponse {
        let found = self.out.iter().find_map(|response| match response {
            Response::Line(line) if line.id == id => Some(line),
            _ => None,
        });
        match found {
            Some(line) => line,
            None => panic!("request {id} is not answered"),
        }
    }

    fn flush(&mut self) {
        while !self.hybrid.flush(self.now_ps) {
            self.step();
        }
    }
}

fn page(number: u64) -> u64 {
    number * PAGE_BYTES
}

fn stages(line: &LineResponse) -> Vec<(Stage, u64)> {
    line.stages.iter().collect()
}

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
fn a_controller_that_forgets_its_write_back_buffer_is_caught() {
    let mut hybrid = steady(&spec(1, 1));
    hybrid.controller.forget_write_backs();
    let mut run = Run::new(hybrid);
    run.submit(0, page(0) + 64, true);
    run.drain();
    run.submit(1, page(1), false);
    run.wait(100_000);
    run.submit(2, page(0) + 64, false);
    run.drain();
    assert_eq!(run.answer(2).version, 0, "stale");
    assert_eq!(run.hybrid.report().stale_reads, 1);
}

#[test]
fn the_laws_catch_a_controller_that_forgets_its_write_back_buffer() {
    let shape = spec(2, 1);
    let caught = std::panic::catch_unwind(|| {
        organization_laws(|check_data| {
            let mut hybrid = erratic(&shape, 3, 2, 1);
            hybrid.controller.forget_write_backs();
            checking(check_data, hybrid)
        });
    });
    assert!(caught.is_err());
}

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

#[test]
fn the_tag_store_has_its_size_from_the_formula() {
    let mut shape = spec(1, 1);
    shape.cache.capacity = Size::from_bytes(64 << 30);
    let bits = |ways: u32, store_bytes: u64| {
        let mut shape = shape.clone();
        shape.cache.ways = ways;
        let bytes = Controller::new(&shape, store_bytes, 64).report().tag_store_bytes;
        bytes as f64 * 8.0 / (64u64 << 18) as f64
    };
    // b − c = 4; a and the order of replacement take as many bits each; valid and dirty one each.
    assert_eq!(bits(16, 1 << 40), 4.0 + 4.0 + 2.0 + 4.0);
    assert_eq!(bits(1, 1 << 40), 4.0 + 2.0);
    assert_eq!(bits(64, 1 << 40), 4.0 + 6.0 + 2.0 + 6.0);
    assert_eq!(bits(16, 1 << 41), 5.0 + 4.0 + 2.0 + 4.0);
    let of_a_set = |policy: PolicyKind| policy.hardware_bits(16);
    // A way's place in the order; nothing; the last; a tree; a mark each and a hand; two bits each.
    assert_eq!(
        PolicyKind::ALL.iter().map(|policy| of_a_set(*policy)).collect::<Vec<_>>(),
        [64, 64, 0, 4, 15, 20, 32, 32, 32]
    );
}

/// Dirty pages with their places, in order of the frames.
fn dirty(tags: &AnyTagStore) -> impl Iterator<Item = (WayRef, u64)> + '_ {
    let mut from = 0;
    std::iter::from_fn(move || {
        let found = tags.next_dirty(from)?;
        from = tags.frame(found.0) + 1;
        Some(found)
    })
}

/// A number below `bound` from a sequence.
fn draw(lots: &mut u64, bound: u64) -> u64 {
    *lots = lots.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e);
    (*lots >> 33) % bound
}

#[test]
fn no_read_is_stale_in_long_histories() {
    for (seed, shape) in shapes().into_iter().enumerate() {
        for (dram_ps, store_ps) in [(60_000, 3_000_000), (3_000_000, 60_000)] {
            let mut hybrid = erratic(&shape, 3, 2, seed as u64);
            hybrid.dram = Port::new(
                Erratic::new(0, dram_ps, Stage::Dram, 3, seed as u64),
                hybrid.controller.tokens(),
                Stage::DramQueue,
            );
            hybrid.store = Port::new(
                Erratic::new(100, store_ps, Stage::Medium, 2, !seed as u64),
                hybrid.controller.tokens(),
                Stage::StoreQueue,
            );
            long_history(&shape, Run::new(hybrid), seed as u64);
        }
    }
}

/// Random requests to few pages, while flushes of all, of a range, with and without invalidation
/// come and go.
fn long_history(shape: &HybridSpec, mut run: Run<Erratic, Erratic>, mut lots: u64) {
    let requests = 4_000;
    let step_bytes = LINE_BYTES.max(shape.cache.sector.map_or(0, |sector| sector.bytes() - 64));
    for id in 0..requests {
        let number = draw(&mut lots, if id % 1_000 < 500 { 7 } else { 40 });
        let line = draw(&mut lots, 3) * step_bytes / LINE_BYTES * LINE_BYTES;
        run.submit(id, page(number) + line, draw(&mut lots, 2) == 0);
        let gap_ps = [0, 20_000, 1_000_000][draw(&mut lots, 3) as usize];
        run.wait(draw(&mut lots, gap_ps + 1));
        match draw(&mut lots, 8) {
            0 => {
                run.hybrid.flush(run.now_ps);
            }
            1 => {
                let invalidate = draw(&mut lots, 2) == 0;
                run.hybrid.flush_range(run.now_ps, page(2), 5 * PAGE_BYTES, invalidate);
            }
            _ => {}
        }
    }
    run.drain();
    assert_eq!(run.out.len(), requests as usize);
    assert_eq!(run.hybrid.report().stale_reads, 0, "{shape:?}");
}

/// Offers requests as fast as they are taken: to random pages of `pages`, every other one a write.
fn offer<D: Device + Send + 'static, S: Device + Send + 'static>(
    hybrid: Hybrid<D, S>,
    requests: u32,
    pages: u64,
) -> Run<D, S> {
    let mut run = Run::new(hybrid);
    let mut lots = 11;
    for id in 0..requests {
        let line = draw(&mut lots, 64) * LINE_BYTES;
        run.submit(id, page(draw(&mut lots, pages)) + line, id % 2 == 0);
    }
    run.drain();
    run
}

#[test]
fn every_parameter_changes_an_output_in_its_direction() {
    let base = || {
        let mut base = spec(32, 4);
        base.write_back_buffer_pages = 1;
        base
    };
    let change = |change: &dyn Fn(&mut HybridSpec)| {
        let mut shape = base();
        change(&mut shape);
        shape
    };
    let busy_ps = |shape: &HybridSpec| offer(real(shape), 600, 64).now_ps;
    let misses = |shape: &HybridSpec| offer(real(shape), 600, 64).hybrid.report().misses;
    assert!(busy_ps(&change(&|s| s.queue_depth = 2)) > busy_ps(&base()));
    assert!(busy_ps(&change(&|s| s.fills = 1)) > busy_ps(&base()));
    assert!(busy_ps(&change(&|s| s.write_back_buffer_pages = 4)) < busy_ps(&base()));
    let twice = Size::from_bytes(64 * PAGE_BYTES);
    assert!(misses(&change(&|s| s.cache.capacity = twice)) < misses(&base()));

    // Pages that lie 8 apart share a set of 32 frames in 4 ways, and of no more than 4 others.
    let conflicts = |shape: &HybridSpec| {
        let mut run = Run::new(real(shape));
        for id in 0..60 {
            run.submit(id, page(u64::from(id % 6) * 8), false);
            run.drain();
        }
        run.hybrid.report().misses
    };
    assert!(conflicts(&change(&|s| s.cache.ways = 8)) < conflicts(&base()));

    let first_ps = |shape: &HybridSpec, again: bool| {
        let mut run = Run::new(real(shape));
        run.submit(0, page(1), false);
        run.drain();
        run.submit(1, page(1), false);
        run.drain();
        run.answer(u32::from(again)).stages.total_ps()
    };
    let later = Duration::from_picoseconds;
    let slow = change(&|s| s.controller_latency = later(CONTROLLER_PS + 3_000));
    assert_eq!(first_ps(&slow, true), first_ps(&base(), true) + 3_000);
    let slow = change(&|s| s.cache.tag_latency = later(TAGS_PS + 3_000));
    assert_eq!(first_ps(&slow, true), first_ps(&base(), true) + 3_000);
    let first = change(&|s| s.critical_line_first = true);
    // 63 of 64 lines at 4 GB/s on the bus of the unit, and on the link.
    let saved_ps = first_ps(&base(), false) - first_ps(&first, false);
    assert!((63 * 16_000..64 * 16_000 + 300_000).contains(&saved_ps), "{saved_ps}");

    let walk_ps = |shape: &HybridSpec| {
        let mut run = Run::new(real(shape));
        for id in 0..24 {
            run.submit(id, page(u64::from(id)), false);
            run.drain();
        }
        run.now_ps
    };
    assert!(walk_ps(&change(&|s| s.prefetch_pages = 4)) < walk_ps(&base()));
    let with_data = |tags| {
        change(&|s| {
            s.cache.ways = 1;
            s.cache.tags = tags;
            s.cache.tag_latency = later(3_000);
        })
    };
    let (sram, data) = (with_data(TagStore::Sram), with_data(TagStore::WithData));
    // But for where they fall between two clocks of the DRAM.
    let saved_ps = first_ps(&sram, true) - first_ps(&data, true);
    assert!((1_500..=4_500).contains(&saved_ps), "no tags to wait for: {saved_ps}");
    assert!(first_ps(&data, false) > first_ps(&sram, false), "a miss pays an access for its tag");
    let ahead = change(&|s| {
        s.eager_write_back = true;
        s.write_back_buffer_pages = 4;
    });
    let written = |shape: &HybridSpec| offer(real(shape), 600, 64).hybrid.report().write_backs;
    assert!(written(&ahead) > written(&change(&|s| s.write_back_buffer_pages = 4)));
    let read = |shape: &HybridSpec| offer(real(shape), 600, 64).hybrid.report().traffic;
    let mut guesses = data.clone();
    guesses.cache.miss_predictor = true;
    assert!(read(&guesses).store_read_bytes > read(&data).store_read_bytes, "some are wrong");
    let large = change(&|s| s.cache.page = Size::from_bytes(2 * PAGE_BYTES));
    let read_bytes =
        |shape: &HybridSpec| offer(real(shape), 1, 64).hybrid.report().traffic.store_read_bytes;
    assert_eq!((read_bytes(&base()), read_bytes(&large)), (PAGE_BYTES, 2 * PAGE_BYTES));
}

#[test]
fn what_dram_holds_at_the_start_changes_nothing_but_what_it_says() {
    // Unrelated clean pages are older than anything: they go first, as empty frames do.
    let mut prefilled = spec(32, 4);
    prefilled.cache.initial = InitialContent::Prefilled;
    let (empty, full) = (offer(real(&spec(32, 4)), 600, 64), offer(real(&prefilled), 600, 64));
    assert_eq!(empty.out, full.out);
}

#[test]
fn counts_stay_as_they_are() {
    let mut shape = spec(32, 4);
    shape.prefetch_pages = 2;
    shape.fills = 32;
    shape.write_back_buffer_pages = 8;
    let run = offer(steady(&shape), 5_000, 48);
    let report = run.hybrid.report();
    let counts = [
        report.lookups,
        report.misses,
        report.prefetched_pages,
        report.prefetch_hits,
        report.write_backs,
        run.now_ps,
    ];
    assert_eq!(counts, [5_000, 2_523, 106, 57, 1_128, 150_283_000]);
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
        ways in 1u32..=5, sets in 1u64..=5, with_data in any::<bool>(),
        script in prop::collection::vec((0u64..40, any::<bool>()), 1..200),
    ) {
        let ways = if with_data { 1 } else { ways };
        let mut shape = spec(sets * u64::from(ways), ways);
        shape.cache.tags = if with_data { TagStore::WithData } else { TagStore::Sram };
        let mut run = Run::new(erratic(&shape, 8, 8, 3));
        let ways = ways as usize;
        let empty = vec![Vec::new(); sets as usize];
        let mut naive = Naive { sets: empty, ways, store_reads: 0, store_writes: 0 };
        for (id, (number, write)) in script.into_iter().enumerate() {
            let misses = run.hybrid.report().misses;
            run.submit(id as u32, page(number), write);
            run.drain();
            let missed = run.hybrid.report().misses > misses;
            prop_assert_eq!(missed, !naive.access(number, write));
        }
        let report = run.hybrid.report();
        prop_assert_eq!(report.write_backs, naive.store_writes);
        prop_assert_eq!(report.traffic.store_written_bytes, naive.store_writes * PAGE_BYTES);
        // A page that is written back is still in the buffer only while it is on its way.
        prop_assert_eq!(report.traffic.store_read_bytes, naive.store_reads * PAGE_BYTES);
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
        with_data in any::<bool>(),
        prefilled in any::<bool>(),
    ) {
        let mut shape = spec(16, if with_data { 1 } else { ways });
        shape.cache.tags = if with_data { TagStore::WithData } else { TagStore::Sram };
        shape.cache.initial =
            if prefilled { InitialContent::Prefilled } else { InitialContent::Empty };
        (shape.fills, shape.write_back_buffer_pages) = (8, 8);
        let mut run = Run::new(steady(&shape));
        let mut warmed = steady(&shape);
        warmed.versions = None;
        let requests = accesses.len() as u64;
        for (id, (number, write)) in accesses.into_iter().enumerate() {
            run.submit(id as u32, page(number), write);
            run.drain();
            warmed.warm(0, page(number), write);
        }
        let [tags, expected] = [&warmed, &run.hybrid].map(|hybrid| &hybrid.controller().tags);
        prop_assert!(dirty(tags).eq(dirty(expected)));
        for number in 0..SPACE_BYTES / PAGE_BYTES {
            let [found, there] = [tags, expected].map(|tags| tags.lookup(number));
            prop_assert_eq!(found, there, "page {}", number);
            if found.is_none() {
                prop_assert_eq!(tags.place(number), expected.place(number), "for {}", number);
            }
        }
        // What is counted does not depend on time either, where requests come one by one.
        let [mut counts, expected] = [&warmed, &run.hybrid].map(|hybrid| hybrid.report());
        prop_assert_eq!(counts.lookups, requests);
        // Lines that are answered from a fill buffer need no DRAM.
        counts.traffic.dram_read_bytes = expected.traffic.dram_read_bytes;
        counts.traffic.dram_written_bytes = expected.traffic.dram_written_bytes;
        prop_assert_eq!(counts, expected);
    }
}
