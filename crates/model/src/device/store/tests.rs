//! The ladder of trust for stores: formulas, timing edges, conservation, sensitivity.

mod links;
mod nvme;

use super::*;
use crate::conformance::device_laws;
use crate::link::LinkSpec;
use crate::link::packet::tests::spec as link_spec;
use crate::request::{Ahead, Completion, Device, Request};
use proptest::prelude::*;
use tierscope_kernel::{Counter, StageTimes};
use tierscope_units::{Bandwidth, Duration, Size};

const PAGE: u32 = 4096;
const US: u64 = 1_000_000;

/// SLC NAND as \[HYB15\] §4.1 has it, 25 us and 10 times that, and as its authors' simulator does
/// (NVDIMMSim), 400 MB/s for each of 16 packages.
fn spec() -> StoreSpec {
    StoreSpec {
        capacity: Size::from_bytes(1 << 40),
        page: Size::from_bytes(u64::from(PAGE)),
        read_latency: Duration::from_picoseconds(25 * US),
        write_latency: Duration::from_picoseconds(250 * US),
        units: 16,
        unit_bandwidth: Bandwidth::from_bytes_per_second(400_000_000),
        controller_latency: Duration::from_picoseconds(US),
        queue_depth: 256,
        power: None,
    }
}

/// 4 KiB on a bus of 400 MB/s.
const BUS_PS: u64 = 10_240_000;
/// A packet without payload, and a page in 16 packets, with the link's latency.
const COMMAND_PS: u64 = 1_500 + 100_000;
const PAGE_PS: u64 = 280_000 + 100_000;

fn read(id: u32, page: u64) -> Request {
    let address = page * u64::from(PAGE);
    Request { id, address, bytes: PAGE, write: false, background: false }
}

fn write(id: u32, page: u64) -> Request {
    Request { write: true, ..read(id, page) }
}

fn background(request: Request) -> Request {
    Request { background: true, ..request }
}

/// Submits each at its time and returns all completions, by id.
fn run(spec: &StoreSpec, link: &LinkSpec, requests: &[(u64, Request)]) -> Vec<Completion> {
    let mut device = StoreDevice::new(spec, link);
    let mut out = Vec::new();
    for &(at_ps, request) in requests {
        device.advance(at_ps, &mut out);
        while device.submit(at_ps, request).is_err() {
            let next_ps = device.next_event_ps().expect("a full device has something to do");
            device.advance(next_ps, &mut out);
        }
    }
    device.advance(u64::MAX, &mut out);
    assert_eq!(device.in_flight(), 0);
    out.sort_by_key(|completion| completion.id);
    out
}

fn stages(completion: &Completion) -> Vec<(Stage, u64)> {
    completion.stages.iter().collect()
}

#[test]
fn an_unloaded_read_takes_what_the_formula_says() {
    let all = run(&spec(), &link_spec(), &[(7, read(0, 5))]);
    let expected = [
        (Stage::Link, COMMAND_PS),
        (Stage::Device, US),
        (Stage::Medium, 25 * US),
        (Stage::Device, BUS_PS),
        (Stage::Link, PAGE_PS),
    ];
    assert_eq!(stages(&all[0]), expected);
    assert_eq!(all[0].at_ps, 7 + expected.iter().map(|(_, ps)| ps).sum::<u64>());
}

#[test]
fn an_unloaded_write_takes_what_the_formula_says() {
    let all = run(&spec(), &link_spec(), &[(0, write(0, 5))]);
    let expected =
        [(Stage::Link, PAGE_PS), (Stage::Device, US + BUS_PS), (Stage::Medium, 250 * US)];
    assert_eq!(stages(&all[0]), expected);
}

/// Three pages read and two written: each for its time in the medium, and all units at all times.
#[test]
fn energy_is_that_of_the_times_of_the_media_and_of_all_units_standing_by() {
    let watts = |text: &str| text.parse().unwrap();
    let power =
        StorePowerSpec { read: watts("50mW"), write: watts("115mW"), standby: watts("1mW") };
    let spec = StoreSpec { power: Some(power), ..spec() };
    let mut device = StoreDevice::new(&spec, &link_spec());
    for request in [read(0, 0), read(1, 1), read(2, 16), write(3, 40), write(4, 41)] {
        device.submit(0, request).expect("room");
    }
    let mut out = Vec::new();
    device.advance(u64::MAX, &mut out);
    assert_eq!(out.len(), 5);
    let energy = device.activity(10_000 * US).energy;
    let expected = [
        ("read", 50e-3 * 3.0 * 25e-6),
        ("write", 115e-3 * 2.0 * 250e-6),
        ("standby", 16e-3 * 10e-3),
    ];
    for (part, (name, joules)) in energy.parts.iter().zip(expected) {
        assert_eq!((part.component, part.part), ("store", name));
        assert!(
            (part.energy_j - joules).abs() < 1e-15,
            "{name}: {} J, not {joules}",
            part.energy_j
        );
    }
    let not_counted: Vec<_> = energy.not_counted.iter().map(|it| it.component).collect();
    assert_eq!((energy.parts.len(), not_counted), (3, vec!["link"]));
}

#[test]
fn a_part_of_a_page_takes_a_page_in_the_store_and_its_bytes_on_the_link() {
    let line = Request { bytes: 64, address: 4096 * 5 + 64, ..read(0, 0) };
    let all = run(&spec(), &link_spec(), &[(0, line)]);
    let link_ps = 1_500 + 100_000 + 64 * 125 / 2 + 1_500 + 100_000;
    assert_eq!(all[0].at_ps, link_ps + US + 25 * US + BUS_PS);
}

#[test]
fn a_request_of_several_pages_is_read_by_units_at_once_and_comes_up_page_by_page() {
    let all = run(&spec(), &link_spec(), &[(0, Request { bytes: 4 * PAGE, ..read(0, 0) })]);
    assert_eq!(all[0].at_ps, COMMAND_PS + US + 25 * US + BUS_PS + 3 * 280_000 + PAGE_PS);
}

#[test]
fn a_write_of_several_pages_starts_with_the_first_that_has_come() {
    let all = run(&spec(), &link_spec(), &[(0, Request { bytes: 4 * PAGE, ..write(0, 0) })]);
    assert_eq!(all[0].at_ps, 3 * 280_000 + PAGE_PS + US + BUS_PS + 250 * US);
}

#[test]
fn a_line_wanted_first_crosses_bus_and_link_ahead_of_its_page() {
    let mut device = StoreDevice::new(&spec(), &link_spec());
    let ahead = Ahead { id: 9, offset: 4032, bytes: 64 };
    device.submit_ahead(0, read(0, 5), ahead).expect("room");
    let mut out = Vec::new();
    device.advance(u64::MAX, &mut out);
    let until_bus_ps = COMMAND_PS + US + 25 * US;
    let line_ps = until_bus_ps + BUS_PS / 64 + 64 * 125 / 2 + 1_500 + 100_000;
    // The rest of the page: 4032 B in 16 packets.
    let rest_ps = until_bus_ps + BUS_PS + (4032 + 16 * 24) * 125 / 2 + 100_000;
    let ends: Vec<_> = out.iter().map(|done| (done.id, done.at_ps)).collect();
    assert_eq!(ends, [(9, line_ps), (0, rest_ps)]);
    assert_eq!(device.in_flight(), 0);
}

/// Waits of the second of two requests, submitted `gap_ps` after the first.
fn wait_of_second(spec: &StoreSpec, first: Request, second: Request, gap_ps: u64) -> u64 {
    let all = run(spec, &link_spec(), &[(0, first), (gap_ps, second)]);
    let mut times = StageTimes::default();
    all[1].stages.add_to(&mut times);
    times[Stage::StoreQueue as usize]
}

/// 1 ps too early, a request waits for 1 ps; from `t_ps` on for nothing.
fn assert_edge(spec: &StoreSpec, first: Request, second: Request, t_ps: u64) {
    let wait = |gap_ps| wait_of_second(spec, first, second, gap_ps);
    assert_eq!([wait(t_ps - 1), wait(t_ps), wait(t_ps + 1)], [1, 0, 0], "not at {t_ps} ps");
}

#[test]
fn the_medium_of_a_unit_does_one_thing_at_a_time() {
    assert_edge(&spec(), read(0, 0), read(1, 16), 25 * US);
    assert_eq!(wait_of_second(&spec(), read(0, 0), read(1, 1), 0), 0, "another unit");
    // The second comes as soon as its data have followed the first's over bus and into the medium.
    let slow_bus = StoreSpec { write_latency: Duration::from_picoseconds(US), ..spec() };
    assert_edge(&slow_bus, write(0, 0), write(1, 16), BUS_PS);
}

#[test]
fn the_bus_of_a_unit_does_one_thing_at_a_time() {
    let fast = StoreSpec { read_latency: Duration::from_picoseconds(US), ..spec() };
    assert_edge(&fast, read(0, 0), read(1, 16), BUS_PS);
    assert_edge(&spec(), write(0, 0), write(1, 16), 250 * US);
}

#[test]
fn a_unit_changes_direction_when_both_steps_are_done() {
    // The write's data come later than the read's command, and by so much it may be submitted
    // earlier.
    let later_ps = PAGE_PS - COMMAND_PS;
    assert_edge(&spec(), read(0, 0), write(1, 16), 25 * US + BUS_PS - later_ps);
    assert_edge(&spec(), write(0, 0), read(1, 16), 250 * US + BUS_PS + later_ps);
}

#[test]
fn demand_goes_before_background_and_waits_for_what_is_in_service_only() {
    let mut requests: Vec<_> =
        (0..20).map(|i| (0, background(read(i, u64::from(i) * 16)))).collect();
    requests.push((3 * US, read(20, 320)));
    let all = run(&spec(), &link_spec(), &requests);
    let mut times = StageTimes::default();
    all[20].stages.add_to(&mut times);
    assert_eq!(
        times[Stage::StoreQueue as usize],
        22 * US,
        "the first in the background, to its end"
    );
}

#[test]
fn what_is_ready_first_goes_up_the_link_first() {
    // A slow link: four pages of background occupy it when a page of demand is ready.
    let slow = LinkSpec { bandwidth: Bandwidth::from_bytes_per_second(100_000_000), ..link_spec() };
    let quick = StoreSpec { read_latency: Duration::from_picoseconds(US), ..spec() };
    let mut requests: Vec<_> = (0..8).map(|i| (0, background(read(i, u64::from(i))))).collect();
    requests.push((5 * US, read(8, 8)));
    let all = run(&quick, &slow, &requests);
    let order: Vec<_> = {
        let mut ids: Vec<_> = all.iter().map(|c| (c.at_ps, c.id)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
    };
    assert_eq!(order, [0, 8, 1, 2, 3, 4, 5, 6, 7], "demand passes what waits, not what is sent");
}

#[test]
fn a_request_that_is_done_earlier_is_not_held_up_by_one_that_came_earlier() {
    let all = run(&spec(), &link_spec(), &[(0, write(0, 0)), (1, read(1, 16)), (2, read(2, 1))]);
    assert!(all[2].at_ps < all[0].at_ps && all[0].at_ps < all[1].at_ps);
}

#[test]
fn the_queue_is_bounded_and_larger_requests_are_taken_when_idle() {
    let mut device = StoreDevice::new(&StoreSpec { queue_depth: 2, ..spec() }, &link_spec());
    assert!(device.submit(0, Request { bytes: 4 * PAGE, ..read(0, 0) }).is_ok());
    assert_eq!(device.submit(0, read(1, 0)), Err(crate::request::Full));
    let mut out = Vec::new();
    device.advance(u64::MAX / 2, &mut out);
    let now_ps = u64::MAX / 2;
    assert!(device.submit(now_ps, read(1, 0)).is_ok() && device.submit(now_ps, read(2, 1)).is_ok());
    assert_eq!(device.submit(now_ps, read(3, 2)), Err(crate::request::Full));
}

/// Bytes per second of `count` pages, submitted as fast as they are taken.
fn bandwidth(spec: &StoreSpec, link: &LinkSpec, count: u64, write: bool) -> f64 {
    let requests: Vec<_> =
        (0..count).map(|i| (0, Request { write, ..read(i as u32, i) })).collect();
    let all = run(spec, link, &requests);
    let end_ps = all.iter().map(|completion| completion.at_ps).max().expect("some");
    (count * u64::from(PAGE)) as f64 / end_ps as f64 * 1e12
}

#[test]
fn bandwidth_is_the_least_of_units_buses_and_link() {
    let page = f64::from(PAGE);
    let slow =
        LinkSpec { bandwidth: Bandwidth::from_bytes_per_second(1_000_000_000), ..link_spec() };
    let slow_bus =
        StoreSpec { unit_bandwidth: Bandwidth::from_bytes_per_second(50_000_000), ..spec() };
    let cases = [
        ("units reading", spec(), link_spec(), false, 16.0 * page / 25e-6),
        ("units writing", spec(), link_spec(), true, 16.0 * page / 250e-6),
        ("buses", slow_bus.clone(), link_spec(), false, 16.0 * 50e6),
        ("link up", spec(), slow.clone(), false, 1e9 * 256.0 / 280.0),
        ("link down", StoreSpec { units: 128, ..spec() }, slow, true, 1e9 * 256.0 / 280.0),
    ];
    for (name, spec, link, write, expected) in cases {
        let count = 20_000;
        let value = bandwidth(&spec, &link, count, write);
        let off = (value / expected - 1.0).abs();
        assert!(off < 0.005, "{name}: {value:.4e} against {expected:.4e}");
    }
}

/// The plain sum of what a store does, for demand of whole pages in order of their units' queues:
/// the times at which requests are done, sorted. Written down from the documentation alone.
fn reference(spec: &StoreSpec, requests: &[(u64, Request)]) -> Vec<u64> {
    let (mut down_ps, mut done, mut going_up) = (0, Vec::new(), Vec::new());
    let mut units = vec![(0u64, 0u64, false); spec.units as usize];
    let medium_ps =
        |write| if write { spec.write_latency } else { spec.read_latency }.picoseconds();
    for (at_ps, request) in requests {
        let wire_ps = if request.write { 280_000 } else { 1_500 };
        down_ps = down_ps.max(*at_ps) + wire_ps;
        let queued_ps = down_ps + 100_000 + spec.controller_latency.picoseconds();
        let page = request.address / u64::from(PAGE);
        let (second_ps, end_ps, write) = &mut units[(page % u64::from(spec.units)) as usize];
        // A first step needs the register free; in the other direction, the whole unit.
        let free_ps = if *write == request.write { *second_ps } else { *end_ps };
        let [first, second] = match request.write {
            true => [BUS_PS, medium_ps(true)],
            false => [medium_ps(false), BUS_PS],
        };
        *second_ps = (queued_ps.max(free_ps) + first).max(*end_ps);
        *end_ps = *second_ps + second;
        *write = request.write;
        if request.write { done.push(*end_ps) } else { going_up.push(*end_ps) }
    }
    going_up.sort_unstable();
    let mut up_ps = 0;
    for ready_ps in going_up {
        up_ps = ready_ps.max(up_ps) + 280_000;
        done.push(up_ps + 100_000);
    }
    done.sort_unstable();
    done
}

proptest! {
    #[test]
    fn the_event_driven_store_equals_the_plain_sum(
        units in 1..6u32,
        read_ns in 0..30_000u64,
        write_ns in 0..60_000u64,
        requests in proptest::collection::vec((0..20_000_000u64, 0..30u64, any::<bool>()), 1..120),
    ) {
        let spec = StoreSpec {
            units,
            read_latency: Duration::from_picoseconds(read_ns * 1_000),
            write_latency: Duration::from_picoseconds(write_ns * 1_000),
            ..spec()
        };
        let mut at_ps = 0;
        let requests: Vec<_> = (0..)
            .zip(requests)
            .map(|(id, (gap_ps, page, is_write))| {
                at_ps += gap_ps;
                (at_ps, Request { write: is_write, ..read(id, page) })
            })
            .collect();
        let mut ends: Vec<_> =
            run(&spec, &link_spec(), &requests).iter().map(|done| done.at_ps).collect();
        ends.sort_unstable();
        prop_assert_eq!(ends, reference(&spec, &requests));
    }
}

#[test]
fn the_devices_laws_hold() {
    let small = StoreSpec { capacity: Size::from_bytes(1 << 20), ..spec() };
    device_laws(|| StoreDevice::new(&small, &link_spec()));
    let odd = StoreSpec {
        units: 3,
        queue_depth: 5,
        power: None,
        unit_bandwidth: Bandwidth::from_bytes_per_second(333_333_333),
        read_latency: Duration::from_picoseconds(125_000),
        write_latency: Duration::from_picoseconds(1_250_000),
        ..small.clone()
    };
    let slow = LinkSpec { bandwidth: Bandwidth::from_bytes_per_second(700_000_001), ..link_spec() };
    device_laws(|| StoreDevice::new(&odd, &slow));
    let instant = Duration::from_picoseconds(0);
    let timeless = StoreSpec {
        read_latency: instant,
        write_latency: instant,
        controller_latency: instant,
        page: Size::from_bytes(512),
        ..small.clone()
    };
    let direct = LinkSpec { packet_overhead: Size::from_bytes(0), latency: instant, ..link_spec() };
    device_laws(|| StoreDevice::new(&timeless, &direct));
}

/// Random pages, one every 4 us, of which a quarter are written.
fn random_pages() -> impl Iterator<Item = (u64, Request)> {
    let random = Counter::stream(3, "store");
    (0..5_000u32).map(move |i| {
        let value = random.at(u64::from(i));
        let page = (value >> 8) % (1 << 28);
        (u64::from(i) * 4 * US, Request { write: value.is_multiple_of(4), ..read(i, page) })
    })
}

#[test]
fn occupancy_equals_rate_times_latency() {
    let mut device = StoreDevice::new(&StoreSpec { units: 64, ..spec() }, &link_spec());
    let mut out = Vec::new();
    let (mut area, mut last_ps) = (0u128, 0);
    let mut advance = |device: &mut StoreDevice, to_ps: u64| {
        while let Some(next_ps) = device.next_event_ps().filter(|&next_ps| next_ps <= to_ps) {
            area += u128::from(next_ps - last_ps) * device.in_flight() as u128;
            device.advance(next_ps, &mut out);
            last_ps = next_ps;
        }
        area += u128::from(to_ps - last_ps) * device.in_flight() as u128;
        last_ps = to_ps;
    };
    for (at_ps, request) in random_pages() {
        advance(&mut device, at_ps);
        device.submit(at_ps, request).expect("the queue is deep enough for the rate");
    }
    advance(&mut device, 1 << 50);
    let latency_ps: u128 = out.iter().map(|c| u128::from(c.stages.total_ps())).sum();
    assert_eq!(area, latency_ps, "Little's law over the whole run");
}

#[test]
fn a_fixed_run_takes_the_time_that_it_always_took() {
    let requests: Vec<_> = random_pages().collect();
    let all = run(&StoreSpec { units: 64, ..spec() }, &link_spec(), &requests);
    let mut times = StageTimes::default();
    all.iter().for_each(|completion| completion.stages.add_to(&mut times));
    let of = |stage: Stage| times[stage as usize];
    let found = [Stage::Link, Stage::Device, Stage::StoreQueue, Stage::Medium].map(of);
    assert_eq!(found, [2_287_255_000, 56_200_000_000, 243_713_560_000, 406_925_000_000]);
}

#[test]
fn an_slc_read_is_near_the_hardware_time_that_the_paper_measured() {
    // [HYB15] table 3: 38.9 us on average, 6.7 us of standard deviation, of which
    // queueing is a part. Unloaded, so ours must lie below and within that deviation.
    let ours_ps = run(&spec(), &link_spec(), &[(0, read(0, 0))])[0].at_ps;
    assert!((32_200_000..38_900_000).contains(&ours_ps), "{ours_ps} ps");
}

#[test]
fn every_parameter_changes_an_output_in_its_direction() {
    let mean_ps = |change: &dyn Fn(&mut StoreSpec, &mut LinkSpec)| {
        let (mut spec, mut link) = (StoreSpec { units: 64, ..spec() }, link_spec());
        change(&mut spec, &mut link);
        let requests: Vec<_> = random_pages().collect();
        let all = run(&spec, &link, &requests);
        all.iter().map(|c| c.stages.total_ps() as f64).sum::<f64>() / all.len() as f64
    };
    let was_ps = mean_ps(&|_, _| ());
    let longer = Duration::from_picoseconds(300 * US);
    let slower = |name: &str, change: &dyn Fn(&mut StoreSpec, &mut LinkSpec)| {
        assert!(mean_ps(change) > was_ps, "{name} makes requests slower");
    };
    slower("read_latency", &|s, _| s.read_latency = longer);
    slower("write_latency", &|s, _| s.write_latency = longer);
    slower("units", &|s, _| s.units = 32);
    slower("unit_bandwidth", &|s, _| s.unit_bandwidth = Bandwidth::from_bytes_per_second(1 << 28));
    slower("controller_latency", &|s, _| s.controller_latency = longer);
    slower("page", &|s, _| s.page = Size::from_bytes(8192));
    slower("bandwidth", &|_, l| l.bandwidth = Bandwidth::from_bytes_per_second(1 << 30));
    slower("payload", &|_, l| l.payload = Size::from_bytes(64));
    slower("packet_overhead", &|_, l| l.packet_overhead = Size::from_bytes(64));
    slower("latency", &|_, l| l.latency = longer);
    let mut shallow = StoreDevice::new(&StoreSpec { queue_depth: 1, ..spec() }, &link_spec());
    shallow.submit(0, read(0, 0)).expect("room");
    assert!(shallow.submit(0, read(1, 1)).is_err(), "queue_depth");
    let halved = StoreSpec { capacity: Size::from_bytes(1 << 39), ..spec() };
    let beyond = || StoreDevice::new(&halved, &link_spec()).submit(0, read(0, 1 << 27));
    assert!(std::panic::catch_unwind(beyond).is_err(), "capacity");
}
