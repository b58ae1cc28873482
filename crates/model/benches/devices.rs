//! Requests per second of wall time through the devices, on one core.
//!
//! `cargo bench -p tierscope-model --bench devices` prints a line for each case: name, requests,
//! seconds, requests per second. With `--test`, as `cargo test --benches` passes, each case runs
//! small, so that it cannot rot.

use std::time::Instant;
use tierscope_kernel::Counter;
use tierscope_model::device::ssd::{
    CollectionSpec, InitialFlash, SsdBufferSpec, SsdDevice, SsdFirmwareSpec, SsdSpec, VictimPolicy,
    WearSpec,
};
use tierscope_model::device::{StoreDevice, StoreSpec};
use tierscope_model::link::LinkSpec;
use tierscope_model::medium::{DramSpec, MultiPlaneReads, NandSpec, PageTimesSpec, dram::Dram};
use tierscope_model::request::{Completion, Device, Request};
use tierscope_units::{Bandwidth, Duration, Size, TransferRate};

fn ddr3_1333(channels: u32) -> DramSpec {
    DramSpec {
        row: Some(Size::from_bytes(1024)),
        read_queue_depth: 512,
        write_queue_depth: 512,
        ..DramSpec::of_part("ddr3-1333-2gb-x8", channels)
    }
}

/// Bank groups next to the line, so that a stream waits for none.
fn ddr4_2400() -> DramSpec {
    let mapping = "ro-ra-ba-co-bg-ch".into();
    DramSpec { mapping, ..DramSpec::of_part("ddr4-2400-8gb-x8", 1) }
}

/// SLC behind PCIe 3.0 x16 (\[HYB15\] table 2), with so many units.
fn slc(units: u32) -> StoreDevice {
    let spec = StoreSpec {
        capacity: Size::from_bytes(1 << 40),
        page: Size::from_bytes(4096),
        read_latency: Duration::from_picoseconds(25_000_000),
        write_latency: Duration::from_picoseconds(250_000_000),
        units,
        unit_bandwidth: Bandwidth::from_bytes_per_second(400_000_000),
        controller_latency: Duration::from_picoseconds(1_000_000),
        queue_depth: 256,
        power: None,
    };
    StoreDevice::new(&spec, &pcie())
}

/// PCIe 3.0 x16.
fn pcie() -> LinkSpec {
    LinkSpec {
        bandwidth: Bandwidth::from_bytes_per_second(16_000_000_000),
        payload: Size::from_bytes(256),
        packet_overhead: Size::from_bytes(24),
        latency: Duration::from_picoseconds(100_000),
        energy: None,
    }
}

/// A full drive of 64 GiB of Z-NAND, in the steady state of collection: 8 channels of 4 dies.
fn ssd() -> SsdDevice {
    let us = |time: u64| Duration::from_picoseconds(time * 1_000_000);
    let mib = |mib: u64| Size::from_bytes(mib << 20);
    let spec = SsdSpec {
        capacity: mib(64 << 10),
        page: Size::from_bytes(4096),
        queue_depth: 256,
        split: 2,
        striping: "c-w-d-p".into(),
        initial: InitialFlash::Steady,
        nand: NandSpec {
            channels: 8,
            ways: 4,
            dies: 1,
            planes: 8,
            blocks: 650,
            pages: 256,
            page: Size::from_bytes(2048),
            lower: PageTimesSpec { read_latency: us(3), program_latency: us(100) },
            middle: None,
            upper: None,
            erase_latency: us(1000),
            bus_rate: TransferRate::from_transfers_per_second(800_000_000),
            bus_bits: 8,
            command_cycle: Duration::from_picoseconds(25_000),
            multi_plane_reads: MultiPlaneReads::AnyPage,
            multi_plane_programs: true,
            cache_read: true,
            cache_program: true,
            suspends: 4,
            suspend_latency: us(1),
            reads_ahead: 16,
            power: None,
        },
        buffer: SsdBufferSpec {
            capacity: mib(64),
            dirty: mib(16),
            flush_above: mib(0),
            write_back: true,
            capacitors: false,
            capacitor_energy: None,
            hold_up_time: None,
            read_cache: false,
            replacement: None,
            latency: Duration::from_picoseconds(100_000),
            bandwidth: Bandwidth::from_bytes_per_second(12_800_000_000),
        },
        firmware: SsdFirmwareSpec {
            cores: 8,
            page_time: us(1),
            read_latency: us(1),
            write_latency: us(1),
            decode_latency: us(1),
        },
        collection: CollectionSpec {
            policy: VictimPolicy::Greedy,
            window: 0,
            free_blocks: 4,
            copies: 16,
            idle: None,
        },
        wear: WearSpec { endurance: 50_000, difference: 100, factory_bad: 0.005 },
        map: None,
        log: None,
        controller_power: None,
        dram_power: None,
        raid: None,
    };
    SsdDevice::new(&spec, &pcie())
}

/// Keeps `outstanding` requests in flight until all are done.
fn closed_loop<D: Device>(mut device: D, outstanding: usize, requests: &[Request]) -> u64 {
    let mut out: Vec<Completion> = Vec::with_capacity(outstanding);
    let (mut now_ps, mut rest) = (0, requests);
    while let [next, behind @ ..] = rest {
        if device.in_flight() < outstanding && device.submit(now_ps, *next).is_ok() {
            rest = behind;
            continue;
        }
        now_ps = device.next_event_ps().unwrap_or(now_ps);
        device.advance(now_ps, &mut out);
        out.clear();
    }
    now_ps
}

/// Requests are made beforehand: the time is that of the device, and of giving it requests.
fn case(
    name: &str,
    count: u64,
    request: impl Fn(u64) -> Request,
    run: impl FnOnce(&[Request]) -> u64,
) {
    let small = std::env::args().any(|argument| argument == "--test");
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    if only.is_some_and(|only| !name.contains(&only)) {
        return;
    }
    let count = if small { 100_000 } else { count };
    let requests: Vec<Request> = (0..count).map(request).collect();
    let start = Instant::now();
    let simulated_ps = run(&requests);
    let seconds = start.elapsed().as_secs_f64();
    let rate = count as f64 / seconds / 1e6;
    println!("{name:42} {count:>10} {seconds:8.3} s {rate:8.2} M/s, {simulated_ps} ps simulated");
}

fn main() {
    let random = Counter::stream(1, "bench");
    let line = |i: u64, address: u64| Request {
        id: i as u32,
        address,
        bytes: 64,
        write: false,
        background: false,
    };
    let anywhere = |i: u64| line(i, random.at(i) % (1 << 30) * 64);
    let in_order = |i: u64| line(i, i % (1 << 30) * 64);
    let page = |i: u64| Request { bytes: 4096, ..line(i, random.at(i) % (1 << 24) * 4096) };
    let dram = |channels| Dram::new(&ddr3_1333(channels), 64 << 30, 64);
    // Popular lines are scattered over a GiB: the k-th is asked for with a share of about 1/k.
    let zipf = |i: u64| {
        let share = random.at(i) as f64 / u64::MAX as f64;
        let rank = f64::powf(16.0 * 1024.0 * 1024.0, share) as u64;
        line(i, rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 24) * 64)
    };
    let third = |i: u64, request: Request| Request { write: random.at(!i) % 10 < 3, ..request };
    let ddr4 = || Dram::new(&ddr4_2400(), 64 << 30, 64);
    for outstanding in [1, 16, 48] {
        let run = |requests: &[Request]| closed_loop(ddr4(), outstanding, requests);
        let name = |what| format!("dram ddr4-2400 {what}, {outstanding} in flight");
        case(&name("random"), 5_000_000, anywhere, run);
        case(&name("in order"), 5_000_000, in_order, run);
        case(&name("random, 30 % written"), 5_000_000, |i| third(i, anywhere(i)), run);
        case(&name("in order, 30 % written"), 5_000_000, |i| third(i, in_order(i)), run);
        case(&name("zipf, 30 % written"), 5_000_000, |i| third(i, zipf(i)), run);
    }
    for channels in [1, 4, 16] {
        let name = |what| format!("dram {what}, {channels} channels");
        let run = |outstanding| {
            move |requests: &[Request]| closed_loop(dram(channels), outstanding, requests)
        };
        let written = |i| Request { write: true, ..page(i) };
        let background = |i| Request { background: true, ..page(i) };
        case(&name("lines in order, 16 in flight"), 5_000_000, in_order, run(16));
        case(&name("random lines, 16 in flight"), 5_000_000, anywhere, run(16));
        case(&name("random lines, 1 in flight"), 5_000_000, anywhere, run(1));
        case(&name("pages written, 4 in flight"), 500_000, written, run(4));
        case(&name("background pages, 4 in flight"), 500_000, background, run(4));
    }
    for (units, outstanding) in [(16, 1), (16, 32), (128, 256)] {
        let name = |what| format!("store {what}, {units} units, {outstanding} in flight");
        let run = |requests: &[Request]| closed_loop(slc(units), outstanding, requests);
        case(&name("random pages"), 2_000_000, page, run);
        let half = |i: u64| Request { write: i.is_multiple_of(2), ..page(i) };
        case(&name("half written"), 2_000_000, half, run);
    }
    let on_ssd = |i: u64| Request { address: page(i).address % (64 << 30), ..page(i) };
    let run = |requests: &[Request]| closed_loop(ssd(), 32, requests);
    case("ssd random pages read, 32 in flight", 2_000_000, on_ssd, run);
    let mixed = |i| third(i, on_ssd(i));
    case("ssd random pages, 30 % written, 32 in flight", 2_000_000, mixed, run);
}
