//! Laws of HAMS, with devices of any temper.

mod equivalence;
mod formulas;
mod literate;
mod power;
mod reference;
mod rules;

use super::*;
use crate::conformance::{SPACE_BYTES, organization_laws};
use crate::device::ssd::tests::spec as ssd_spec;
use crate::device::{AnyDevice, DeviceDescription, SsdSpec};
use crate::link::pcie::PcieProtocol;
use crate::link::{DdrChannelSpec, LinkDescription, PcieSpec};
use crate::medium::{DramSpec, dram::Dram};
use crate::organization::InitialContent;
use crate::request::Manner;
use tierscope_kernel::Timeline;
use tierscope_units::{Duration, Problems, Size, TransferRate};

const LINE_BYTES: u64 = 64;
const KIB: u64 = 1024;
/// Page of the drive.
const DRIVE_PAGE: u64 = 4 * KIB;

/// A device whose latency is anything between two bounds, from a seed. It reports pages of a read in a
/// scrambled order.
#[derive(Clone, Debug)]
pub(super) struct Erratic {
    least_ps: u64,
    span_ps: u64,
    stage: Stage,
    depth: usize,
    /// Whether pages are reported by themselves.
    pages: bool,
    lots: u64,
    held: usize,
    /// In order of completion; whether it ends a request.
    flights: Vec<(Completion, bool)>,
    pub log: Vec<(u64, Request, Manner)>,
    /// What writes take beyond reads.
    slower_ps: u64,
}

impl Erratic {
    pub fn new(least_ps: u64, span_ps: u64, stage: Stage, depth: usize, seed: u64) -> Self {
        let (flights, log, pages) = (Vec::new(), Vec::new(), seed.is_multiple_of(2));
        let (lots, held, slower_ps) = (seed, 0, 0);
        Erratic { least_ps, span_ps, stage, depth, pages, lots, held, flights, log, slower_ps }
    }

    /// Anything from 0 to `most`.
    fn draw(&mut self, most: u64) -> u64 {
        self.lots = self.lots.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e);
        (self.lots >> 33) % (most + 1)
    }

    fn take_off(&mut self, now_ps: u64, id: u32, latency_ps: u64, last: bool) {
        let mut stages = Timeline::new();
        stages.push(self.stage, latency_ps);
        let at_ps = now_ps + latency_ps;
        let place = self.flights.partition_point(|(flight, _)| flight.at_ps <= at_ps);
        self.flights.insert(place, (Completion::new(id, at_ps, stages), last));
    }
}

impl Device for Erratic {
    fn submit(&mut self, now_ps: u64, request: Request) -> Result<(), Full> {
        self.submit_as(now_ps, request, Manner::default())
    }

    fn submit_as(&mut self, now_ps: u64, request: Request, manner: Manner) -> Result<(), Full> {
        if self.held >= self.depth {
            return Err(Full);
        }
        self.held += 1;
        self.log.push((now_ps, request, manner));
        let slower_ps = if request.write { self.slower_ps } else { 0 };
        let latency_ps = self.least_ps + self.draw(self.span_ps) + slower_ps;
        if let Some(first) = manner.pages.filter(|_| self.pages) {
            for page in 0..(u64::from(request.bytes) / DRIVE_PAGE) as u32 {
                let page_ps = self.draw(latency_ps);
                self.take_off(now_ps, first + page, page_ps, false);
            }
        }
        self.take_off(now_ps, request.id, latency_ps, true);
        Ok(())
    }

    fn next_event_ps(&self) -> Option<u64> {
        self.flights.first().map(|(flight, _)| flight.at_ps)
    }

    fn advance(&mut self, now_ps: u64, out: &mut Vec<Completion>) {
        let due = self.flights.partition_point(|(flight, _)| flight.at_ps <= now_ps);
        self.held -= self.flights[..due].iter().filter(|(_, last)| *last).count();
        out.extend(self.flights.drain(..due).map(|(flight, _)| flight));
    }

    fn in_flight(&self) -> usize {
        self.held
    }

    fn warm(&mut self, now_ps: u64, request: Request, manner: Manner) {
        self.log.push((now_ps, request, manner));
    }
}

/// A cache of four frames with pages of 8 KiB: two of the drive.
pub(super) fn spec(coupling: Coupling, mode: Mode) -> HamsSpec {
    let (page, pinned, frames) = (8 * KIB, 64 * KIB, 4);
    let mapping = if coupling == Coupling::Tight { page } else { 0 };
    HamsSpec {
        coupling,
        mode,
        capacity: Size::from_bytes(frames * page + pinned + mapping),
        page: Size::from_bytes(page),
        pinned: Size::from_bytes(pinned),
        queue_entries: 8,
        prp_slots: 3,
        wait_entries: 4,
        controller_latency: Duration::from_picoseconds(1_000),
        queue_depth: 8,
        tag_before_write: false,
        initial: InitialContent::Empty,
    }
}

/// Shapes that are all tight somewhere.
fn shapes() -> Vec<HamsSpec> {
    let mut shapes = Vec::new();
    for coupling in [Coupling::Loose, Coupling::Tight] {
        for mode in [Mode::Persist, Mode::Extend] {
            for (queue, slots, wait) in [(3, 1, 1), (8, 3, 4), (4, 2, 8)] {
                shapes.push(HamsSpec {
                    queue_entries: queue,
                    prp_slots: slots,
                    wait_entries: wait,
                    ..spec(coupling, mode)
                });
            }
        }
    }
    shapes[1].tag_before_write = true;
    shapes[2].initial = InitialContent::Prefilled;
    shapes[4].controller_latency = Duration::from_picoseconds(0);
    shapes[5].queue_depth = 1;
    shapes[7].queue_depth = 64;
    shapes[9].page = Size::from_bytes(4 * KIB);
    shapes[10].tag_before_write = true;
    shapes
}

const SIZES: (u64, u64, u64) = (SPACE_BYTES, DRIVE_PAGE, LINE_BYTES);

fn erratic(
    spec: &HamsSpec,
    (memory_depth, drive_depth): (usize, usize),
    seed: u64,
    check_data: bool,
) -> Hams<Erratic, Erratic> {
    let memory = Erratic::new(0, 60_000, Stage::Dram, memory_depth, 2 * seed + 1);
    let drive = Erratic::new(100, 3_000_000, Stage::Medium, drive_depth, seed);
    Hams::new(spec, SIZES, memory, drive, check_data)
}

/// HAMS whose devices always take the same time.
pub(super) fn steady(spec: &HamsSpec) -> Hams<Erratic, Erratic> {
    let memory = Erratic::new(MEMORY_PS, 0, Stage::Dram, 64, 1);
    let drive = Erratic::new(DRIVE_PS, 0, Stage::Medium, 64, 1);
    Hams::new(spec, SIZES, memory, drive, true)
}

/// What devices that are [`steady`] take.
pub(super) const MEMORY_PS: u64 = 50_000;
pub(super) const DRIVE_PS: u64 = 10_000_000;

pub(super) fn pcie() -> PcieSpec {
    PcieSpec {
        generation: 3,
        lanes: 4,
        max_payload: Size::from_bytes(256),
        max_read_request: Size::from_bytes(512),
        read_completion: Size::from_bytes(256),
        protocol: PcieProtocol::Nvme,
        latency: Duration::from_picoseconds(115_000),
        root_complex_latency: Duration::from_picoseconds(300_000),
        nvme: None,
        energy: None,
    }
}

pub(super) fn ddr_channel() -> DdrChannelSpec {
    DdrChannelSpec {
        channel: 0,
        data_rate: TransferRate::from_transfers_per_second(2_133_333_333),
        bus_bits: 64,
        hand_over: Duration::from_picoseconds(1_875),
        lock_latency: Duration::from_picoseconds(5_000),
        energy: None,
    }
}

/// A part without refreshes, so that times are those of formulas.
pub(super) fn dram_spec() -> DramSpec {
    DramSpec {
        t_refi: Some(Duration::from_picoseconds(1 << 55)),
        controller_latency: Duration::from_picoseconds(5_000),
        ..DramSpec::of_part("ddr4-2133-8gb-x8", 1)
    }
}

/// The devices of a machine: an NVDIMM at command level, and a drive with flash, translation and buffer.
pub(super) fn real(spec: &HamsSpec, ssd: &SsdSpec, check_data: bool) -> Hams<Dram, AnyDevice> {
    let drive_bytes = ssd.capacity.bytes();
    let memory = Dram::new(&dram_spec(), spec.capacity.bytes(), LINE_BYTES);
    let drive = match spec.coupling {
        Coupling::Loose => ssd.build(&pcie()),
        Coupling::Tight => ssd.build(&ddr_channel()),
    };
    Hams::new(spec, (drive_bytes, ssd.page.bytes(), LINE_BYTES), memory, drive, check_data)
}

/// A small drive; on the channel it has no buffer that keeps anything.
pub(super) fn drive(coupling: Coupling) -> SsdSpec {
    let mut ssd = ssd_spec();
    ssd.queue_depth = 16;
    if coupling == Coupling::Tight {
        (ssd.buffer.write_back, ssd.buffer.read_cache) = (false, false);
    }
    crate::device::ssd::tests::checked(ssd)
}

#[test]
fn the_shapes_have_no_mistake() {
    for shape in shapes() {
        let mut problems = Problems::new();
        let link: &dyn LinkDescription = match shape.coupling {
            Coupling::Loose => &pcie(),
            Coupling::Tight => &ddr_channel(),
        };
        let ssd = drive(shape.coupling);
        let dram = dram_spec();
        crate::organization::OrganizationDescription::check(&shape, "hams", &mut problems);
        let machine = crate::organization::Surroundings {
            os: None,
            dram: Some(&dram),
            store: Some(("ssd", &ssd)),
            link: Some(link),
            line: Some(Size::from_bytes(LINE_BYTES)),
            check_data: true,
        };
        crate::organization::OrganizationDescription::check_with(
            &shape,
            "hams",
            &machine,
            &mut problems,
        );
        // The NVDIMMs are far smaller than any DRAM.
        let others: Vec<_> = problems.iter().filter(|one| one.path != "hams.capacity").collect();
        assert!(others.is_empty(), "{others:?}");
    }
}

#[test]
fn the_laws_hold_with_erratic_devices_and_tight_queues() {
    for (seed, shape) in (0..).zip(shapes()) {
        organization_laws(|check_data| Box::new(erratic(&shape, (3, 2), seed, check_data)));
    }
}

#[test]
fn the_laws_hold_with_devices_that_take_one_request_at_a_time() {
    for (seed, shape) in (0..).zip(shapes()).step_by(5) {
        organization_laws(|check_data| Box::new(erratic(&shape, (1, 1), seed, check_data)));
    }
}

#[test]
fn the_laws_hold_with_the_devices_of_the_machine() {
    for shape in shapes().into_iter().step_by(2) {
        let ssd = drive(shape.coupling);
        organization_laws(|check_data| Box::new(real(&shape, &ssd, check_data)));
    }
}

/// Submits requests, and collects what is answered.
pub(super) struct Run<D, S> {
    pub hams: Hams<D, S>,
    pub now_ps: u64,
    pub out: Vec<LineResponse>,
    version: u64,
}

impl<D: Device + Send + 'static, S: Device + Send + 'static> Run<D, S> {
    pub fn new(hams: Hams<D, S>) -> Self {
        Run { hams, now_ps: 0, out: Vec::new(), version: 0 }
    }

    /// Submits a request once it is taken.
    pub fn submit(&mut self, id: u32, address: u64, write: bool) {
        self.version += 1;
        let version = if write { self.version } else { 0 };
        let request = LineRequest { id, core: 0, address, write, version };
        while self.hams.submit(self.now_ps, request).is_err() {
            self.step();
        }
    }

    pub fn advance(&mut self, now_ps: u64) {
        self.now_ps = now_ps.max(self.now_ps);
        let mut out = Vec::new();
        self.hams.advance(self.now_ps, &mut out);
        self.out.extend(out.into_iter().map(|response| match response {
            Response::Line(line) => line,
            Response::Page(page) => panic!("{page:?}"),
        }));
    }

    pub fn step(&mut self) {
        let next_ps = self.hams.next_event_ps();
        assert!(next_ps.is_some(), "{} in flight, no event", self.hams.in_flight());
        self.advance(next_ps.unwrap_or(0));
    }

    pub fn drain(&mut self) {
        while self.hams.in_flight() > 0 {
            self.step();
        }
    }

    /// A request alone: its answer, once nothing is under way.
    pub fn ask(&mut self, address: u64, write: bool) -> LineResponse {
        let id = 1_000_000 + self.out.len() as u32;
        self.submit(id, address, write);
        self.drain();
        self.answer(id)
    }

    pub fn answer(&self, id: u32) -> LineResponse {
        let found = self.out.iter().find(|line| line.id == id);
        *found.unwrap_or_else(|| panic!("request {id} is not answered"))
    }
}
