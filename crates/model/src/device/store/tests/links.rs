//! Stores behind links of every kind: what their protocols add, message by message.

use super::*;
use crate::link::cxl_mem::tests::spec as cxl;
use crate::link::ddr_channel::tests::spec as ddr_channel;
use crate::link::pcie::PcieProtocol;
use crate::link::pcie::tests::spec as pcie;
use crate::link::sata::tests::spec as sata;
use crate::link::{
    CxlMemSpec, DdrChannelSpec, LinkDescription, LinkEnergySpec, PcieSpec, SataSpec,
};
use tierscope_units::{Energy, Power};

pub(super) fn ended(
    spec: &StoreSpec,
    link: &dyn LinkDescription,
    requests: &[Request],
) -> Vec<Completion> {
    let mut device = StoreDevice::new(spec, link);
    let mut out = Vec::new();
    for request in requests {
        while device.submit(0, *request).is_err() {
            let next_ps = device.next_event_ps().expect("a full device has something to do");
            device.advance(next_ps, &mut out);
        }
    }
    device.advance(u64::MAX, &mut out);
    assert_eq!(device.in_flight(), 0);
    out
}

/// Time of one request on an idle device, and what of it is the link's.
pub(super) fn alone(link: &dyn LinkDescription, request: Request) -> (u64, u64) {
    let one = ended(&spec(), link, &[request])[0];
    let mut times = StageTimes::default();
    one.stages.add_to(&mut times);
    assert_eq!(one.stages.total_ps(), one.at_ps);
    (one.at_ps, times[Stage::Link as usize])
}

/// Time of so many bytes, and the next whole picosecond.
pub(super) fn wire_ps(bytes: u64, bytes_per_second: u64) -> u64 {
    (bytes * 1_000_000_000_000).div_ceil(bytes_per_second)
}

#[test]
fn the_devices_laws_hold_behind_every_link() {
    let small = StoreSpec {
        capacity: Size::from_bytes(1 << 20),
        units: 3,
        queue_depth: 5,
        read_latency: Duration::from_picoseconds(125_000),
        write_latency: Duration::from_picoseconds(1_250_000),
        ..super::spec()
    };
    let memory = PcieSpec { protocol: PcieProtocol::Memory, lanes: 1, generation: 1, ..pcie() };
    let instant = SataSpec { handshake: Duration::from_picoseconds(0), ..sata() };
    let links: [&dyn LinkDescription; 6] =
        [&pcie(), &memory, &sata(), &instant, &cxl(), &ddr_channel()];
    for link in links {
        device_laws(|| StoreDevice::new(&small, link));
    }
}

#[test]
fn an_nvme_command_costs_its_messages() {
    let spec = pcie();
    let (rate, latency_ps) = (spec.packet_bytes_per_second(), spec.latency.picoseconds());
    let root_ps = spec.root_complex_latency.picoseconds();
    let wire = |bytes| wire_ps(bytes, rate);
    // Doorbell, fetch of the command, its answer.
    let command_ps = wire(28) + wire(24) + root_ps + wire(84) + 3 * latency_ps;
    // Data, completion entry and interrupt go up behind each other.
    let read_ps = command_ps + wire(4096 + 16 * 24 + 40 + 28) + latency_ps;
    let (at_ps, link_ps) = alone(&spec, read(0, 5));
    assert_eq!(link_ps, read_ps);
    assert_eq!(at_ps, read_ps + US + 25 * US + BUS_PS);
    // Eight requests for the data, and 16 completions.
    let data_ps = wire(8 * 24) + root_ps + wire(4096 + 16 * 20) + 2 * latency_ps;
    let (at_ps, link_ps) = alone(&spec, write(0, 5));
    assert_eq!(link_ps, command_ps + data_ps + wire(40 + 28) + latency_ps);
    assert_eq!(at_ps, link_ps + US + BUS_PS + 250 * US);
}

/// Pages that are read at once go up one after the other, and each is done behind its own data: on a
/// link of two directions at once, on SATA with the next frame at the latest.
#[test]
fn of_pages_read_at_once_each_is_done_when_its_own_data_have_gone() {
    let reads: Vec<Request> = (0..8).map(|id| read(id, u64::from(id))).collect();
    let done = |link| ended(&spec(), link, &reads).into_iter().map(|one| one.at_ps);
    let nvme = pcie();
    let page_ps = wire_ps(4096 + 16 * 24 + 40 + 28, nvme.packet_bytes_per_second());
    let nvme: Vec<u64> = done(&nvme).collect();
    for pair in nvme.windows(2) {
        assert!((pair[1] - pair[0]).abs_diff(page_ps) <= 4, "{page_ps} ps a page: {nvme:?}");
    }
    let (first_ps, link_ps) = alone(&sata(), reads[0]);
    for (at_ps, before) in done(&sata()).zip(0..) {
        assert!(at_ps <= first_ps + (before + 2) * link_ps, "{before} before it: {at_ps}");
    }
}

#[test]
fn a_line_wanted_first_is_there_when_it_has_come_though_its_page_is_posted() {
    let spec = pcie();
    let latency_ps = spec.latency.picoseconds();
    let wire = |bytes| wire_ps(bytes, spec.packet_bytes_per_second());
    let mut device = StoreDevice::new(&super::spec(), &spec);
    let ahead = Ahead { id: 9, offset: 4032, bytes: 64 };
    device.submit_ahead(0, read(0, 5), ahead).expect("room");
    let mut out = Vec::new();
    device.advance(u64::MAX, &mut out);
    let command_ps = wire(28) + wire(24) + wire(84) + 3 * latency_ps;
    let read_ps = command_ps + spec.root_complex_latency.picoseconds() + US + 25 * US;
    assert_eq!(out[0].id, 9);
    assert_eq!(out[0].at_ps, read_ps + BUS_PS / 64 + wire(64 + 24) + latency_ps);
}

#[test]
fn reads_and_writes_of_a_devices_memory_are_requests_and_posted_writes() {
    let spec = PcieSpec { protocol: PcieProtocol::Memory, ..pcie() };
    let (rate, latency_ps) = (spec.packet_bytes_per_second(), spec.latency.picoseconds());
    let root_ps = spec.root_complex_latency.picoseconds();
    let wire = |bytes| wire_ps(bytes, rate);
    let read_ps = root_ps + wire(8 * 24) + wire(4096 + 16 * 20) + 2 * latency_ps;
    assert_eq!(alone(&spec, read(0, 5)).1, read_ps);
    assert_eq!(alone(&spec, write(0, 5)).1, root_ps + wire(4096 + 16 * 24) + latency_ps);
}

#[test]
fn a_queued_command_of_sata_costs_five_frames() {
    let spec = sata();
    let (rate, latency_ps) = (spec.frame_bytes_per_second(), spec.latency.picoseconds());
    let around = 12 + (spec.handshake.picoseconds() * rate).div_ceil(1_000_000_000_000);
    let wire = |bytes| wire_ps(bytes + around, rate);
    let command_ps = spec.adapter_latency.picoseconds() + 2 * wire(20) + 2 * latency_ps;
    let link_ps = command_ps + wire(28) + wire(4 + 4096) + wire(8) + 3 * latency_ps;
    assert_eq!(alone(&spec, read(0, 5)).1, link_ps);
    assert_eq!(alone(&spec, write(0, 5)).1, link_ps);
}

#[test]
fn a_page_of_cxl_mem_is_64_lines() {
    let spec = cxl();
    let (rate, latency_ps) = (spec.flit_bytes_per_second(), spec.latency.picoseconds());
    let slots = |count: u64| wire_ps(count * 17, rate);
    assert_eq!(alone(&spec, read(0, 5)).1, slots(64) + slots(5 * 64) + 2 * latency_ps);
    assert_eq!(alone(&spec, write(0, 5)).1, slots(5 * 64) + slots(32) + 2 * latency_ps);
}

/// Payload in bytes a second of `count` requests, each of which `write` says whether it is written,
/// on a store that is faster than any link.
fn throughput(link: &dyn LinkDescription, count: u32, write: impl Fn(u32) -> bool) -> f64 {
    let fast = StoreSpec {
        units: 1024,
        queue_depth: 4096,
        read_latency: Duration::from_picoseconds(US),
        write_latency: Duration::from_picoseconds(US),
        unit_bandwidth: Bandwidth::from_bytes_per_second(10_000_000_000),
        ..spec()
    };
    let requests: Vec<_> =
        (0..count).map(|i| Request { write: write(i), ..read(i, u64::from(i)) }).collect();
    let end_ps = ended(&fast, link, &requests).iter().map(|done| done.at_ps).max().expect("some");
    f64::from(count) * f64::from(PAGE) / end_ps as f64 * 1e12
}

fn assert_near(name: &str, found: f64, expected: f64) {
    let off = found / expected - 1.0;
    assert!(off.abs() < 0.01, "{name}: {found:.4e} B/s, and {expected:.4e} by the formula");
}

#[test]
fn a_link_that_is_the_narrowest_gives_what_its_messages_leave() {
    let rate = pcie().packet_bytes_per_second() as f64;
    let (reads, writes) = (|_| false, |_| true);
    // Of each page go up the fetch, data, completion entry and interrupt; or go down two doorbells,
    // the command and the data.
    assert_near("NVMe, reads", throughput(&pcie(), 20_000, reads), rate * 4096.0 / 4572.0);
    assert_near("NVMe, writes", throughput(&pcie(), 20_000, writes), rate * 4096.0 / 4556.0);
    // Both directions at once: each has the other's commands too.
    let both = throughput(&pcie(), 40_000, |i| i % 2 == 0);
    let pair = (4480 + 24 + 68) + (24 + 192 + 68);
    assert_near("NVMe, both", both, rate * 2.0 * 4096.0 / f64::from(pair));
    // One frame at a time, whichever way it goes.
    let instant = SataSpec { handshake: Duration::from_picoseconds(0), ..sata() };
    let frames = 20 + 20 + 28 + 4100 + 8 + 5 * 12;
    let expected = instant.frame_bytes_per_second() as f64 * 4096.0 / f64::from(frames);
    for (name, write) in [("SATA, reads", 1), ("SATA, writes", 0), ("SATA, both", 2)] {
        let found = throughput(&instant, 10_000, |i| write != 1 && (write == 0 || i % 2 == 0));
        assert_near(name, found, expected);
    }
    let rate = cxl().flit_bytes_per_second() as f64;
    assert_near("CXL.mem, reads", throughput(&cxl(), 40_000, reads), rate * 64.0 / 85.0);
    assert_near("CXL.mem, writes", throughput(&cxl(), 40_000, writes), rate * 64.0 / 85.0);
}

#[test]
fn a_request_of_several_pages_is_told_of_once() {
    let spec = pcie();
    let wire = |bytes| wire_ps(bytes, spec.packet_bytes_per_second());
    let several = Request { bytes: 4 * PAGE, ..read(0, 0) };
    let more_ps = alone(&spec, several).1 - alone(&spec, read(0, 0)).1;
    let pages_ps = wire(3 * (4096 + 16 * 24));
    assert!(more_ps.abs_diff(pages_ps) <= 2, "{more_ps} and {pages_ps}");
}

#[test]
fn every_parameter_of_a_link_changes_an_output_in_its_direction() {
    let total_ps = |link: &dyn LinkDescription| {
        // Each to a unit of its own.
        let requests: Vec<_> = (0..8)
            .map(|i| if i % 2 == 0 { read(i, u64::from(i)) } else { write(i, u64::from(i)) })
            .collect();
        ended(&spec(), link, &requests).iter().map(|done| done.stages.total_ps()).sum::<u64>()
    };
    let longer = Duration::from_picoseconds(2_000_000);
    let was_ps = total_ps(&pcie());
    for (name, slower) in [
        ("generation", PcieSpec { generation: 1, ..pcie() }),
        ("lanes", PcieSpec { lanes: 1, ..pcie() }),
        (
            "max_payload",
            PcieSpec {
                max_payload: Size::from_bytes(128),
                read_completion: Size::from_bytes(128),
                ..pcie()
            },
        ),
        ("max_read_request", PcieSpec { max_read_request: Size::from_bytes(128), ..pcie() }),
        ("read_completion", PcieSpec { read_completion: Size::from_bytes(64), ..pcie() }),
        ("latency", PcieSpec { latency: longer, ..pcie() }),
        ("root_complex_latency", PcieSpec { root_complex_latency: longer, ..pcie() }),
    ] {
        assert!(total_ps(&slower) > was_ps, "{name} makes requests slower");
    }
    let memory = PcieSpec { protocol: PcieProtocol::Memory, ..pcie() };
    assert!(total_ps(&memory) < was_ps, "protocol: fewer messages");
    let was_ps = total_ps(&sata());
    for (name, slower) in [
        ("generation", SataSpec { generation: 2, ..sata() }),
        ("adapter_latency", SataSpec { adapter_latency: longer, ..sata() }),
        ("handshake", SataSpec { handshake: longer, ..sata() }),
        ("latency", SataSpec { latency: longer, ..sata() }),
    ] {
        assert!(total_ps(&slower) > was_ps, "{name} makes requests slower");
    }
    let was_ps = total_ps(&cxl());
    for (name, slower) in [
        ("generation", CxlMemSpec { generation: 3, ..cxl() }),
        ("lanes", CxlMemSpec { lanes: 2, ..cxl() }),
        ("latency", CxlMemSpec { latency: longer, ..cxl() }),
    ] {
        assert!(total_ps(&slower) > was_ps, "{name} makes requests slower");
    }
}

#[test]
fn a_page_over_a_channel_of_dram_costs_a_command_and_its_data_under_the_lock() {
    // 16 GB/s: 64 B are 4 ns, 4 KiB 256 ns; 4 ns of hand-overs a message, 10 ns of lock with data.
    let (command_ps, data_ps, done_ps) = (8_000, 270_000, 8_000);
    let (_, link_ps) = alone(&ddr_channel(), read(0, 0));
    assert_eq!(link_ps, command_ps + data_ps);
    let (_, link_ps) = alone(&ddr_channel(), write(0, 0));
    assert_eq!(link_ps, command_ps + data_ps + done_ps);
}

/// A link's energy is that of the bytes of its messages and of the time, for every kind of link.
#[test]
fn a_link_takes_what_its_bits_and_its_time_take_and_is_counted_whole_or_not_at_all() {
    let energy = Some(LinkEnergySpec {
        per_bit: Energy::from_femtojoules(1_930),
        idle_power: Power::from_nanowatts(320_000_000),
    });
    let packet = LinkSpec { energy: energy.clone(), ..link_spec() };
    let pcie = PcieSpec { energy: energy.clone(), ..pcie() };
    let sata = SataSpec { energy: energy.clone(), ..sata() };
    let cxl = CxlMemSpec { energy: energy.clone(), ..cxl() };
    let ddr = DdrChannelSpec { energy, ..ddr_channel() };
    // Bytes of a page that is read: its data and what is around them.
    let cases: [(&dyn LinkDescription, u64); 5] = [
        (&packet, 24 + 4096 + 16 * 24),
        (&pcie, 28 + 24 + 84 + 4096 + 16 * 24 + 40 + 28 + 28),
        (&sata, 32 + 32 + 40 + 4096 + 16 + 20),
        (&cxl, 64 * 17 + 64 * 5 * 17),
        (&ddr, 64 + 4096),
    ];
    for (link, bytes) in cases {
        let mut device = StoreDevice::new(&spec(), link);
        let mut out = Vec::new();
        device.submit(0, read(0, 0)).expect("room");
        device.advance(1_000 * US, &mut out);
        let taken = device.activity(1_000 * US).energy;
        let of = |part| taken.parts.iter().find(|it| it.part == part).expect("it is told").energy_j;
        let moved_j = bytes as f64 * 8.0 * 1.93e-12;
        assert!(
            (of("moved") / moved_j - 1.0).abs() < 1e-9,
            "{bytes} bytes: {} and {moved_j}",
            of("moved")
        );
        assert!((of("idle") / 0.32e-3 - 1.0).abs() < 1e-9, "{}", of("idle"));
        let sum_j: f64 = taken.parts.iter().map(|it| it.energy_j).sum();
        assert_eq!(taken.total_j(), Some(sum_j));
        assert!(taken.not_counted.iter().all(|it| it.component != "link"));
    }
}
