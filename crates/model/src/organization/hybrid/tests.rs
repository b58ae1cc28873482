//! Laws of the hybrid, with devices of any temper.

use super::*;
use crate::conformance::{PAGE_BYTES, SPACE_BYTES, organization_laws};
use crate::device::StoreSpec;
use crate::device::store::StoreDevice;
use crate::link::{LinkDescription, LinkSpec};
use crate::medium::{DramSpec, dram::Dram};
use crate::organization::{DramCacheSpec, FillPolicy, InitialContent, TagCacheSpec, TagStore};
use crate::replacement::PolicyKind;
use tierscope_kernel::Timeline;
use tierscope_units::{Bandwidth, Duration, Size};

mod data;
mod fills;
mod literate;
mod parameters;
mod prefetches;
mod pressure;
mod reference;
mod sectors;
mod tads;
mod tag_cache;
mod timing;

pub(in crate::organization) use literate::controller_of;

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
    /// When each of these came.
    came_ps: Vec<u64>,
}

impl Erratic {
    fn new(least_ps: u64, span_ps: u64, stage: Stage, depth: usize, seed: u64) -> Self {
        let (flights, log, came_ps) = (Vec::new(), Vec::new(), Vec::new());
        Erratic { least_ps, span_ps, stage, depth, lots: seed, flights, log, came_ps }
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
        self.flights.insert(place, Completion::new(id, at_ps, stages));
    }
}

impl Device for Erratic {
    fn submit(&mut self, now_ps: u64, request: Request) -> Result<(), Full> {
        if self.flights.len() >= self.depth {
            return Err(Full);
        }
        self.log.push(request);
        self.came_ps.push(now_ps);
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

    fn warm(&mut self, now_ps: u64, request: Request, _manner: Manner) {
        self.log.push(request);
        self.came_ps.push(now_ps);
    }
}

/// The lines that a store was asked to read, or to write, in order.
fn asked(hybrid: &ErraticHybrid, write: bool) -> Vec<u64> {
    let asked = hybrid.store().log.iter().filter(|request| request.write == write);
    let lines = |request: &Request| {
        (request.address..request.address + u64::from(request.bytes)).step_by(LINE_BYTES as usize)
    };
    let mut asked: Vec<_> = asked.flat_map(lines).collect();
    asked.sort_unstable();
    asked
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
            miss_predictor: MissPredictorKind::None,
            fill: FillPolicy::Misses,
            tag_latency: Duration::from_picoseconds(TAGS_PS),
            tag_cache: None,
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
        flush_at_sync: true,
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
                if tags == TagStore::WithData && buffer != 2 {
                    shape.cache.miss_predictor = MissPredictorKind::Region;
                }
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
    let policies = [FillPolicy::Reads, FillPolicy::Writes, FillPolicy::Victims];
    for (n, fill) in [3, 8, 9, 14, 20, 23].into_iter().zip(policies.into_iter().cycle()) {
        let mut shape = shapes[n].clone();
        shape.cache.tags = TagStore::Sram;
        shape.cache.miss_predictor = MissPredictorKind::None;
        shape.cache.sector = Some(Size::from_bytes(64));
        shape.cache.fill = fill;
        shapes.push(shape);
    }
    for (n, lines) in [4, 9, 14, 20].into_iter().zip([1, 2, 2, 4]) {
        let mut shape = shapes[n].clone();
        shape.cache.tags = TagStore::Dram;
        shape.cache.miss_predictor = MissPredictorKind::None;
        // Sets enough for several lines of tags.
        shape.cache.page = Size::from_bytes(64);
        shape.cache.capacity = Size::from_bytes(256 * u64::from(shape.cache.ways) * 64);
        let capacity = Size::from_bytes(lines * LINE_BYTES);
        shape.cache.tag_cache = Some(TagCacheSpec { capacity, ways: 1 });
        shapes.push(shape);
    }
    for (shape, policy) in shapes.iter_mut().rev().zip(PolicyKind::ALL) {
        shape.cache.replacement = *policy;
    }
    let kinds = [MissPredictorKind::None, MissPredictorKind::Global, MissPredictorKind::Perfect];
    for (n, kind) in [4, 14, 20].into_iter().zip(kinds) {
        shapes.push(tads::in_front(&shapes[n], 100, kind));
    }
    for fill in policies {
        let last = shapes[shapes.len() - 3].clone();
        shapes.push(HybridSpec { cache: DramCacheSpec { fill, ..last.cache }, ..last });
    }
    shapes
}

type ErraticHybrid = Hybrid<Erratic, Erratic>;

fn erratic(spec: &HybridSpec, dram_depth: usize, store_depth: usize, seed: u64) -> ErraticHybrid {
    let dram = Erratic::new(0, 60_000, Stage::Dram, dram_depth, seed);
    let store = Erratic::new(100, 3_000_000, Stage::Medium, store_depth, !seed);
    let tads = TadLayout::new(&spec.cache, 2048, LINE_BYTES);
    Hybrid::new(spec, SPACE_BYTES, LINE_BYTES as u32, dram, store, true).with_tads(tads)
}

/// A controller among several, tight everywhere, with devices of any temper.
pub(in crate::organization) fn parts_of_memory(
    seed: u64,
    check_data: bool,
) -> Box<dyn Organization> {
    let spec = HybridSpec { prefetch_pages: 3, ..spec(8, 2) };
    let dram = Erratic::new(0, 60_000, Stage::Dram, 4, seed);
    let store = Erratic::new(100, 3_000_000, Stage::Medium, 2, !seed);
    Box::new(Hybrid::new(&spec, SPACE_BYTES, LINE_BYTES as u32, dram, store, check_data))
}

/// A hybrid whose devices always take the same time.
fn steady(spec: &HybridSpec) -> ErraticHybrid {
    steady_before(spec, SPACE_BYTES)
}

/// The same, before a store of so many bytes.
fn steady_before(spec: &HybridSpec, store_bytes: u64) -> ErraticHybrid {
    let dram = Erratic::new(50_000, 0, Stage::Dram, 64, 0);
    let store = Erratic::new(1_000_000, 0, Stage::Medium, 64, 0);
    let tads = TadLayout::new(&spec.cache, 2048, LINE_BYTES);
    Hybrid::new(spec, store_bytes, LINE_BYTES as u32, dram, store, true).with_tads(tads)
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
    let lowest = if spec.cache.tags == TagStore::Tad { "ch-co" } else { "co-ch" };
    let dram = DramSpec {
        row: Some(Size::from_bytes(1024)),
        read_queue_depth: 32,
        write_queue_depth: 32,
        write_high: 24,
        write_low: 8,
        controller_latency: Duration::from_picoseconds(5_000),
        mapping: format!("ro-ra-ba-bg-{lowest}"),
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
        power: None,
    };
    let tags = super::tag_cache::TagLayout::new(spec, SPACE_BYTES, LINE_BYTES as u32);
    let tads = TadLayout::of(&spec.cache, &dram);
    let data_bytes = spec.cache.capacity.bytes();
    let dram_bytes = tads.map_or(data_bytes, |tads| tads.dram_bytes(data_bytes));
    let dram = Dram::new(&dram, dram_bytes + tags.map_or(0, |tags| tags.bytes), LINE_BYTES);
    let store = StoreDevice::new(&store, link);
    Hybrid::new(spec, SPACE_BYTES, LINE_BYTES as u32, dram, store, true).with_tads(tads)
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
        let request = LineRequest { id, core: 0, address, write, version };
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

/// A number below `bound` from a sequence.
fn draw(lots: &mut u64, bound: u64) -> u64 {
    *lots = lots.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e);
    (*lots >> 33) % bound
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
