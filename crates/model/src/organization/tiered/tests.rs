//! Laws, formulas and equivalences of a memory behind a link.

use super::*;
use crate::conformance::organization_laws;
use crate::device::ssd::tests::{spec as ssd, us};
use crate::device::ssd::{InitialFlash, SsdSpec};
use crate::device::{AnyDevice, DeviceDescription, StoreSpec};
use crate::link::pcie::PcieProtocol;
use crate::link::pcie::tests::spec as pcie;
use crate::link::{LinkDescription, LinkSpec, PcieSpec};
use crate::medium::dram::Dram;
use crate::medium::dram::tests::spec as dram_spec;
use crate::organization::{Surroundings, TieredSpec};
use proptest::prelude::*;
use tierscope_units::{Duration, Problems, Size};

pub const PAGE: u64 = 4096;
pub const LINE: u64 = 64;
const US: u64 = 1_000_000;

/// Pages go to `ways` frames of `frames` after so many accesses.
fn spec(frames: u64, ways: u32, threshold: u32) -> TieredSpec {
    TieredSpec {
        host_queue_depth: 16,
        read_latency: Duration::from_picoseconds(300_000),
        write_latency: Duration::from_picoseconds(100_000),
        long_reads: None,
        promotion: Some(PromotionSpec {
            capacity: Size::from_bytes(frames * PAGE),
            ways,
            page: Size::from_bytes(PAGE),
            most_threshold: threshold,
            low_ratio: 0.25,
            high_ratio: 0.75,
            epoch: 50,
            counted_pages: 64,
            lookaside_entries: 3,
            mapping_latency: Duration::from_picoseconds(1_400_000),
        }),
    }
}

fn without_dram() -> TieredSpec {
    TieredSpec { promotion: None, ..spec(1, 1, 1) }
}

pub fn memory_link() -> PcieSpec {
    PcieSpec { protocol: PcieProtocol::Memory, ..pcie() }
}

/// A store of lines, of which the first is as fast as the last.
pub fn store() -> StoreSpec {
    StoreSpec {
        capacity: Size::from_bytes(1 << 20),
        page: Size::from_bytes(LINE),
        read_latency: us(2),
        write_latency: us(3),
        units: 4,
        unit_bandwidth: "1GB/s".parse().unwrap(),
        controller_latency: us(0),
        queue_depth: 256,
        power: None,
    }
}

pub fn link() -> LinkSpec {
    LinkSpec {
        bandwidth: "16GB/s".parse().unwrap(),
        payload: Size::from_bytes(256),
        packet_overhead: Size::from_bytes(24),
        latency: Duration::from_picoseconds(100_000),
        energy: None,
    }
}

fn behind(
    spec: &TieredSpec,
    store: &dyn DeviceDescription,
    link: &dyn LinkDescription,
    check_data: bool,
) -> Tiered<Dram, AnyDevice> {
    let dram = spec.promotion.as_ref().map(|_| Dram::new(&dram_spec(), 1 << 20, LINE));
    Tiered::new(spec, store.capacity().bytes(), LINE as u32, dram, store.build(link), check_data)
}

fn make(spec: &TieredSpec) -> Tiered<Dram, AnyDevice> {
    behind(spec, &store(), &link(), true)
}

fn line(id: u32, address: u64, write: bool) -> LineRequest {
    LineRequest { id, core: 0, address, write, version: if write { u64::from(id) + 1 } else { 0 } }
}

/// Asks for a line once all else has ended; the answer, when nothing is under way any more.
fn ask(memory: &mut Tiered<Dram, AnyDevice>, id: u32, address: u64, write: bool) -> LineResponse {
    let start_ps = u64::from(id) * 10_000 * US;
    let mut out = Vec::new();
    memory.advance(start_ps, &mut out);
    memory.submit(start_ps, line(id, address, write)).unwrap();
    memory.advance(start_ps + 5_000 * US, &mut out);
    match out.as_slice() {
        [Response::Line(one)] => *one,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_organizations_laws_hold() {
    let drive = ssd();
    let narrow = TieredSpec { host_queue_depth: 2, ..spec(2, 1, 1) };
    for spec in [without_dram(), telling(us(0)), spec(4, 2, 2), spec(2, 2, 3), narrow] {
        organization_laws(|check_data| Box::new(behind(&spec, &store(), &link(), check_data)));
        organization_laws(|check_data| Box::new(behind(&spec, &drive, &memory_link(), check_data)));
    }
}

#[test]
fn a_line_takes_the_hosts_time_the_link_and_the_device() {
    let drive = ssd();
    let mut device = drive.build(&memory_link());
    let mut done = Vec::new();
    let read = Request { id: 0, address: 0, bytes: 64, write: false, background: false };
    device.submit(0, read).unwrap();
    device.advance(u64::MAX / 4, &mut done);
    let mut memory = behind(&without_dram(), &drive, &memory_link(), false);
    let found = ask(&mut memory, 0, 0, false);
    assert_eq!(found.stages.total_ps(), 300_000 + done[0].stages.total_ps());
    assert_eq!(found.stages.iter().next(), Some((Stage::Controller, 300_000)));
}

/// A drive in which something was written everywhere, and that keeps what it has read.
fn full() -> SsdSpec {
    let mut drive = SsdSpec { initial: InitialFlash::Steady, ..ssd() };
    drive.buffer.read_cache = true;
    drive
}

fn telling(above: Duration) -> TieredSpec {
    TieredSpec { long_reads: Some(LongReadsSpec { above, latency: us(1) }), ..without_dram() }
}

/// Reads a line for somebody who would be told that it takes long: what was answered, and what told, and when.
fn ask_telling(memory: &mut Tiered<Dram, AnyDevice>, id: u32, address: u64) -> [Option<u64>; 2] {
    let start_ps = u64::from(id) * 10_000 * US;
    let (mut out, mut told) = (Vec::new(), Vec::new());
    memory.advance(start_ps, &mut out);
    memory.submit_telling(start_ps, line(id, address, false)).unwrap();
    memory.advance(start_ps + 5_000 * US, &mut out);
    memory.take_told(&mut told);
    assert_eq!(memory.in_flight(), 0);
    let answered = out.iter().map(|response| match response {
        Response::Line(one) => one,
        Response::Page(page) => panic!("{page:?}"),
    });
    let after = |one: &LineResponse| {
        assert_eq!((one.id, one.stages.total_ps()), (id, one.at_ps - start_ps));
        one.at_ps - start_ps
    };
    [answered.map(after).next_back(), told.iter().map(after).next_back()]
}

#[test]
fn a_read_of_flash_is_told_to_take_long_and_found_in_the_buffer_when_it_is_asked_for_again() {
    let drive = full();
    let flash_ps = drive.nand.lower.read_latency.picoseconds();
    let behind = |spec: &TieredSpec| behind(spec, &drive, &memory_link(), false);
    let mut memory = behind(&telling(Duration::from_picoseconds(flash_ps - 1)));
    // The host has its time of 300 ns, and knows a microsecond later.
    assert_eq!(ask_telling(&mut memory, 0, 0), [None, Some(300_000 + US)]);
    let [again, told] = ask_telling(&mut memory, 1, 64);
    assert!(told.is_none() && again.is_some_and(|ps| ps < flash_ps), "{again:?} {told:?}");
    // Who did not say so is answered, and where the wait is no longer than the threshold everybody is.
    let whole = ask(&mut memory, 2, PAGE, false);
    assert!(whole.stages.iter().any(|(stage, ps)| stage == Stage::Medium && ps >= flash_ps));
    let mut patient = behind(&telling(Duration::from_picoseconds(flash_ps)));
    let [answered, told] = ask_telling(&mut patient, 0, 0);
    assert!(told.is_none() && answered.is_some_and(|ps| ps > flash_ps));
}

#[test]
fn each_read_is_either_answered_or_told_of_and_others_of_its_line_go_on() {
    let mut memory = behind(&telling(us(0)), &full(), &memory_link(), true);
    let (mut out, mut told) = (Vec::new(), Vec::new());
    memory.submit(0, line(0, 64, true)).unwrap();
    for id in 1..10 {
        let address = u64::from(id % 3) * 2 * PAGE + 64;
        memory.submit_telling(0, line(id, address, false)).unwrap();
    }
    memory.submit(0, line(10, 2 * PAGE + 64, false)).unwrap();
    let mut whole = memory.fork_itself();
    whole.advance(5_000 * US, &mut out);
    whole.take_told(&mut told);
    let id = |response: &Response| match response {
        Response::Line(one) => one.id,
        Response::Page(page) => panic!("{page:?}"),
    };
    let mut ids: Vec<u32> = out.iter().map(id).chain(told.iter().map(|one| one.id)).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..=10).collect::<Vec<_>>());
    assert!(told.len() >= 6, "{told:?}");
    assert_eq!((whole.in_flight(), whole.report().stale_reads), (0, 0));
    let (mut steps, mut told_so) = (Vec::new(), Vec::new());
    for us in 1..=5_000 {
        memory.advance(us * US, &mut steps);
        memory.take_told(&mut told_so);
    }
    assert_eq!((steps, told_so), (out, told), "in steps, and forked, the same");
}

#[test]
fn a_page_that_is_on_its_way_is_not_asked_for_once_more() {
    let mut memory = behind(&telling(us(2)), &full(), &memory_link(), false);
    let (mut out, mut told) = (Vec::new(), Vec::new());
    // The read of flash takes 25 us.
    for id in 0..5 {
        let now_ps = u64::from(id) * 4 * US;
        memory.advance(now_ps, &mut out);
        memory.submit_telling(now_ps, line(id, u64::from(id) * LINE, false)).unwrap();
    }
    memory.advance(5_000 * US, &mut out);
    memory.take_told(&mut told);
    assert_eq!((out.len(), told.len(), memory.in_flight()), (0, 5, 0));
    assert!(memory.report().traffic.store_read_bytes <= 2 * LINE, "{:?}", memory.report());
}

#[test]
fn a_page_is_promoted_with_its_nth_access_and_then_read_from_dram() {
    let mut memory = make(&spec(4, 2, 3));
    for id in 0..3 {
        let found = ask(&mut memory, id, 640, false);
        assert!(found.stages.iter().any(|(stage, _)| stage == Stage::Medium), "{id}: {found:?}");
    }
    assert_eq!(memory.report().fetched_pages, 1);
    let traffic = memory.report().traffic;
    assert_eq!((traffic.store_read_bytes, traffic.dram_written_bytes), (PAGE + 3 * LINE, PAGE));
    let found = ask(&mut memory, 3, 640, false);
    let of_dram = |stage| matches!(stage, Stage::Controller | Stage::DramQueue | Stage::Dram);
    assert!(found.stages.iter().all(|(stage, _)| of_dram(stage)), "{found:?}");
    let report = memory.report();
    assert_eq!((report.lookups, report.misses, report.write_backs), (4, 3, 0));
}

#[test]
fn what_was_written_goes_back_and_what_was_not_leaves_no_trace() {
    for write in [false, true] {
        let mut memory = make(&spec(1, 1, 1));
        ask(&mut memory, 0, 0, false);
        ask(&mut memory, 1, 0, write);
        ask(&mut memory, 2, PAGE, false);
        let report = memory.report();
        assert_eq!((report.fetched_pages, report.write_backs), (2, u64::from(write)));
        let written = report.traffic.store_written_bytes;
        assert_eq!(written, if write { PAGE } else { 0 });
        // The first page is in the far memory again, with what was written.
        assert_eq!(ask(&mut memory, 3, 0, false).version, if write { 2 } else { 0 });
        assert_eq!(memory.report().stale_reads, 0);
    }
}

#[test]
fn while_a_page_is_mapped_its_lines_wait_and_others_do_not() {
    let mut memory = make(&spec(4, 2, 1));
    let mut out = Vec::new();
    memory.submit(0, line(0, 0, false)).unwrap();
    // Until the page has been read, and written to DRAM.
    while memory
        .near
        .as_ref()
        .unwrap()
        .moves
        .iter()
        .all(|(_, it)| it.progress != near::Progress::Mapping)
    {
        let next_ps = memory.next_event_ps().unwrap();
        memory.advance(next_ps, &mut out);
    }
    let now_ps = memory.next_event_ps().unwrap() - 1_400_000;
    assert_eq!(out.len(), 1);
    memory.submit(now_ps + 1, line(1, 64, false)).unwrap();
    memory.submit(now_ps + 1, line(2, 8 * PAGE, false)).unwrap();
    memory.advance(u64::MAX / 4, &mut out);
    let stages = |id: u32| {
        let found = out.iter().find_map(|one| match one {
            Response::Line(one) if one.id == id => Some(one.stages),
            _ => None,
        });
        found.unwrap().iter().collect::<Vec<_>>()
    };
    assert_eq!(stages(1)[0], (Stage::Tlb, 1_399_999));
    assert!(stages(2).iter().all(|(stage, _)| *stage != Stage::Tlb));
}

#[test]
fn accesses_to_a_line_of_the_far_memory_keep_their_order_and_others_pass() {
    let mut memory = make(&without_dram());
    let mut out = Vec::new();
    for (id, address, write) in [(0, 0, true), (1, 0, false), (2, 64, false), (3, 0, false)] {
        memory.submit(0, line(id, address, write)).unwrap();
    }
    memory.advance(u64::MAX / 4, &mut out);
    let of = |wanted: u32| {
        let found = out.iter().find_map(|one| match one {
            Response::Line(one) if one.id == wanted => Some((one.at_ps, one.version)),
            _ => None,
        });
        found.unwrap()
    };
    assert!(of(1).0 > of(0).0 && of(3).0 > of(0).0, "reads behind the write");
    assert!(of(2).0 < of(0).0, "another line");
    assert_eq!((of(1).1, of(3).1), (1, 1));
}

/// Frames as lists, the least recently used first, and the algorithm of promotion by itself.
struct Naive {
    sets: Vec<Vec<(u64, bool)>>,
    ways: usize,
    promoter: promotion::Promoter,
    misses: u64,
    promoted: u64,
    written_back: u64,
}

impl Naive {
    fn access(&mut self, page: u64, write: bool) {
        let set = page as usize % self.sets.len();
        let set = &mut self.sets[set];
        if let Some(at) = set.iter().position(|(known, _)| *known == page) {
            let (_, dirty) = set.remove(at);
            return set.push((page, dirty || write));
        }
        self.misses += 1;
        if self.promoter.access(page, true) {
            if set.len() == self.ways {
                self.written_back += u64::from(set.remove(0).1);
            }
            set.push((page, false));
            self.promoted += 1;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn one_at_a_time_it_does_what_lists_do(
        script in proptest::collection::vec((0..12u64, 0..64u64, any::<bool>()), 1..120),
        ways in 1..4u32,
        threshold in 1..5u32,
    ) {
        let spec = spec(2 * u64::from(ways), ways, threshold);
        let mut memory = make(&spec);
        let mut warmed = make(&spec);
        warmed.data = None;
        let mut naive = Naive {
            sets: vec![Vec::new(); 2],
            ways: ways as usize,
            promoter: promotion::Promoter::new(spec.promotion.as_ref().unwrap()),
            misses: 0,
            promoted: 0,
            written_back: 0,
        };
        let mut latest = std::collections::BTreeMap::new();
        for (id, (page, bit, write)) in (0..).zip(script) {
            let address = page * PAGE + bit * LINE;
            let found = ask(&mut memory, id, address, write);
            warmed.warm(0, 0, address, write);
            naive.access(page, write);
            if write {
                latest.insert(address, u64::from(id) + 1);
            } else {
                prop_assert_eq!(found.version, latest.get(&address).copied().unwrap_or(0));
            }
            for report in [memory.report(), warmed.report()] {
                prop_assert_eq!(report.misses, naive.misses);
                prop_assert_eq!(report.fetched_pages, naive.promoted);
                prop_assert_eq!(report.write_backs, naive.written_back);
                prop_assert_eq!(report.displaced_pages, naive.written_back);
            }
            prop_assert_eq!(memory.report().traffic, warmed.report().traffic);
        }
    }
}

#[test]
fn without_promotion_and_time_of_the_host_it_is_the_store_by_itself() {
    let free = TieredSpec {
        host_queue_depth: 64,
        read_latency: us(0),
        write_latency: us(0),
        long_reads: None,
        promotion: None,
    };
    let mut memory = behind(&free, &store(), &link(), false);
    let spec = crate::organization::DirectSpec { host_queue_depth: 64 };
    let (store, link) = (store(), link());
    let machine = Surroundings {
        os: None,
        dram: None,
        store: Some(("store", &store as &dyn DeviceDescription)),
        link: Some(&link),
        line: Some(Size::from_bytes(LINE)),
        check_data: false,
    };
    let mut direct = crate::organization::OrganizationDescription::build(&spec, &machine).unwrap();
    let (mut mine, mut others) = (Vec::new(), Vec::new());
    for id in 0..400u32 {
        let now_ps = u64::from(id) * 700_000;
        let address = u64::from(id).wrapping_mul(0x9e37_79b9) % (1 << 14) * LINE;
        let one = line(id, address, id % 3 == 0);
        memory.advance(now_ps, &mut mine);
        direct.advance(now_ps, &mut others);
        memory.submit(now_ps, one).unwrap();
        direct.submit(now_ps, one).unwrap();
    }
    memory.advance(u64::MAX / 4, &mut mine);
    direct.advance(u64::MAX / 4, &mut others);
    let times = |all: &[Response]| {
        let mut times: Vec<_> = all
            .iter()
            .map(|one| match one {
                Response::Line(one) => (one.id, one.at_ps),
                Response::Page(page) => panic!("{page:?}"),
            })
            .collect();
        times.sort_unstable();
        times
    };
    assert_eq!(times(&mine), times(&others));
}

#[test]
fn wrong_descriptions_are_refused_each_with_its_path() {
    let (store, link, dram) = (store(), link(), dram_spec());
    let paths = |spec: &TieredSpec| {
        let machine = Surroundings {
            os: None,
            dram: Some(&dram),
            store: Some(("store", &store as &dyn DeviceDescription)),
            link: Some(&link),
            line: Some(Size::from_bytes(LINE)),
            check_data: false,
        };
        let mut problems = Problems::new();
        crate::organization::OrganizationDescription::check(spec, "tiered", &mut problems);
        crate::organization::OrganizationDescription::check_with(
            spec,
            "tiered",
            &machine,
            &mut problems,
        );
        problems.iter().map(|problem| problem.path.clone()).collect::<Vec<_>>()
    };
    let with = |change: fn(&mut PromotionSpec)| {
        let mut spec = spec(256, 4, 7);
        change(spec.promotion.as_mut().unwrap());
        paths(&spec)
    };
    assert!(with(|_| {}).is_empty(), "{:?}", with(|_| {}));
    assert_eq!(with(|it| it.counted_pages = 65), ["tiered.promotion.counted_pages"]);
    assert_eq!(with(|it| it.low_ratio = 0.8), ["tiered.promotion.low_ratio"]);
    assert_eq!(with(|it| it.high_ratio = f64::NAN), ["tiered.promotion.high_ratio"]);
    assert_eq!(with(|it| it.ways = 3), ["tiered.promotion.capacity"]);
    assert_eq!(with(|it| it.page = Size::from_bytes(8192)), ["tiered.promotion.page"]);
    assert_eq!(with(|it| it.capacity = Size::from_bytes(1 << 21)), ["store.capacity"]);
    assert_eq!(
        paths(&TieredSpec { host_queue_depth: 0, ..spec(256, 4, 7) }),
        ["tiered.host_queue_depth"]
    );
}

/// A machine of some pages in DRAM, which have been written there; when the last of that was.
fn written(pages: u64) -> (Tiered<Dram, AnyDevice>, u32) {
    let mut memory = make(&spec(8, 4, 1));
    let mut id = 0;
    for page in 0..pages {
        // The first access promotes, and the next finds the page in DRAM.
        for write in [false, true] {
            ask(&mut memory, id, page * PAGE, write);
            id += 1;
        }
    }
    assert_eq!(memory.report().promotion.unwrap().promotions, pages);
    (memory, id)
}

#[test]
fn a_flush_ends_with_what_was_dirty_when_it_began_whatever_is_written_meanwhile() {
    let (mut memory, mut id) = written(4);
    let begin_ps = u64::from(id) * 10_000 * US;
    let mut now_ps = begin_ps;
    let written_before = memory.report().write_backs;
    let mut out = Vec::new();
    while !memory.flush(now_ps) {
        // Somebody writes to all of the pages, again and again.
        let request = line(id, u64::from(id) % 4 * PAGE, true);
        id += u32::from(memory.submit(now_ps, request).is_ok());
        now_ps = memory.next_event_ps().expect("the flush is under way");
        memory.advance(now_ps, &mut out);
        assert!(now_ps < begin_ps + 1_000 * US, "the flush does not end");
    }
    assert_eq!(memory.report().write_backs - written_before, 4);
    assert_eq!(memory.flush_stages().total_ps(), now_ps - begin_ps, "all of its time is told");
    // What was written meanwhile is another's.
    memory.advance(now_ps + 1_000 * US, &mut out);
    assert!(!memory.flush(now_ps + 1_000 * US));
}

#[test]
fn a_flush_in_warming_leaves_what_one_in_detail_does() {
    let (mut memory, id) = written(5);
    let mut warmed = memory.fork_itself();
    let mut now_ps = u64::from(id) * 10_000 * US;
    while !memory.flush(now_ps) {
        now_ps = memory.next_event_ps().unwrap();
        memory.advance(now_ps, &mut Vec::new());
    }
    assert_eq!(warmed.warm_flush(now_ps), PagesMoved { read: 0, written: 5 });
    assert_eq!(warmed.report(), memory.report());
    assert_eq!(warmed.warm_flush(now_ps), PagesMoved::default(), "all is clean");
    assert!(memory.flush(now_ps));
}
