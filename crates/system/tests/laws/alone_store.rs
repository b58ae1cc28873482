//! Laws of stores alone: requests of any size, flushes and trims, behind a link and a host's queue.

use super::script;
use proptest::prelude::*;
use std::slice::from_ref;
use std::sync::atomic::AtomicBool;
use tierscope_kernel::Clock;
use tierscope_model::device::{AnyDevice, DeviceDescription};
use tierscope_model::request::{Completion, Device, Request};
use tierscope_system::alone::Requests;
use tierscope_system::result::{DeviceResult, SystemResult};
use tierscope_system::run::{Outcome, RunOptions, run_alone};
use tierscope_system::spec::{self, SystemSpec};
use tierscope_workload::requests::{RequestKind, Times, TraceRequest, find_pattern};

const SLC: &str = "device/slc";

fn given(requests: &[TraceRequest]) -> Requests {
    script::requests(requests.to_vec(), Times::Ps(1000), None)
}

fn request(kind: RequestKind, address: u64, bytes: u32, ns: u64) -> TraceRequest {
    TraceRequest { address, bytes, kind, ticks: Some(ns) }
}

fn system(name: &str, sets: &[(&str, &str)]) -> SystemSpec {
    let sets: Vec<_> = sets.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
    spec::load(name, &sets).unwrap_or_else(|problems| panic!("{problems}")).spec
}

fn outcome(spec: &SystemSpec, requests: Requests, options: &RunOptions) -> Outcome {
    let never = AtomicBool::new(false);
    run_alone(from_ref(spec), vec![requests], options, &(), &never).remove(0)
}

fn result(spec: &SystemSpec, requests: Requests) -> SystemResult {
    let outcome = outcome(spec, requests, &RunOptions::default());
    assert_eq!(outcome.partial_reason, None);
    outcome.result
}

fn device(result: &SystemResult) -> &DeviceResult {
    result.device.as_ref().expect("a device alone has figures of its own")
}

fn built(spec: &SystemSpec) -> AnyDevice {
    let (store, link) = (spec.store.as_ref().unwrap(), spec.link.as_ref().unwrap());
    store.build(link)
}

/// What one request takes at the device itself.
fn alone_ps(spec: &SystemSpec, write: bool, bytes: u32) -> u64 {
    let mut device = built(spec);
    let one = Request { id: 0, address: 0, bytes, write, background: false };
    device.submit(0, one).unwrap();
    let mut done: Vec<Completion> = Vec::new();
    device.advance(u64::MAX - 1, &mut done);
    done[0].at_ps
}

#[test]
fn the_store_alone_is_that_of_the_storage_machine() {
    let (alone, machine) = (system(SLC, &[]), system("storage", &[]));
    assert_eq!((alone.store, alone.link), (machine.store, machine.link));
}

#[test]
fn one_request_takes_what_the_device_takes() {
    let spec = system(SLC, &[]);
    for (write, kind) in [(false, RequestKind::Read), (true, RequestKind::Write)] {
        for bytes in [4096, 65_536] {
            let found = result(&spec, given(&[request(kind, 0, bytes, 0)]));
            assert_eq!(found.time_ps, alone_ps(&spec, write, bytes), "{kind:?} of {bytes}");
            assert_eq!(device(&found).requested_bytes.read > 0, !write);
        }
    }
}

/// A mechanism does one thing at a time, and so do several in the mean.
#[test]
fn shares_of_disks_side_by_side_are_those_of_one() {
    for preset in ["device/disk-7200", "device/disk-raid"] {
        let anywhere = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 100_000_000 * 4096;
        let reads: Vec<_> =
            (0..400).map(|n| request(RequestKind::Read, anywhere(n), 4096, n)).collect();
        let requests = Requests { outstanding: Some(16), ..given(&reads) };
        let disk = result(&system(preset, &[]), requests).disk.expect("a disk");
        let shares = [disk.positioning_share, disk.rotation_share, disk.transfer_share];
        let sum: f64 = shares.iter().sum();
        assert!(shares.iter().all(|share| *share > 0.005) && sum < 1.001, "{preset}: {shares:?}");
    }
}

#[test]
fn a_part_of_a_page_is_read_before_it_is_written() {
    let spec = system(SLC, &[]);
    let found = result(&spec, given(&[request(RequestKind::Write, 512, 512, 0)]));
    let expected = alone_ps(&spec, false, 4096) + alone_ps(&spec, true, 4096);
    assert_eq!(found.time_ps, expected);
    assert_eq!((found.store_bytes.read, found.store_bytes.written), (4096, 4096));
    assert_eq!(device(&found).requested_bytes.written, 512);
    let read = result(&spec, given(&[request(RequestKind::Read, 512, 512, 0)]));
    assert_eq!((read.store_bytes.read, read.store_bytes.written), (512, 0), "a read its own bytes");
}

#[test]
fn a_request_without_a_size_is_for_its_page() {
    let spec = system(SLC, &[]);
    let found = result(&spec, given(&[TraceRequest::line(5000, false, Some(0))]));
    assert_eq!(found.store_bytes.read, 4096);
    assert_eq!(found.time_ps, alone_ps(&spec, false, 4096));
}

#[test]
fn a_flush_ends_with_the_last_write_before_it() {
    let spec = system(SLC, &[]);
    let script = [
        request(RequestKind::Flush, 0, 0, 0),
        request(RequestKind::Write, 0, 4096, 10),
        request(RequestKind::Write, 4096, 65_536, 20),
        request(RequestKind::Flush, 0, 0, 30),
        request(RequestKind::Write, 1 << 30, 1 << 20, 40),
    ];
    let found = result(&spec, given(&script));
    let figures = device(&found);
    assert_eq!((figures.flushes, figures.writes, figures.reads), (2, 3, 0));
    let flushes = figures.flush_latency_ns.as_ref().unwrap();
    let two = result(&spec, given(&script[..3]));
    let end_ns = two.time_ps as f64 / 1e3 - 30.0;
    assert_eq!(flushes.max, end_ns, "the first has nothing to wait for");
    assert!((flushes.mean - end_ns / 2.0).abs() < 1e-9);
}

#[test]
fn trims_are_left_out_and_told() {
    let spec = system(SLC, &[]);
    let script = [request(RequestKind::Trim, 0, 4096, 0), request(RequestKind::Read, 0, 4096, 1)];
    let found = result(&spec, given(&script));
    assert_eq!((found.accesses, found.counters["trims_left_out"]), (1, 1));
    assert_eq!(found.notes, ["1 trims were left out: the device has none"]);
    let memory = system("device/ddr4-2400", &[]);
    let script = [request(RequestKind::Flush, 0, 0, 0), request(RequestKind::Read, 0, 640, 1)];
    let found = result(&memory, given(&script));
    assert_eq!((found.accesses, found.counters["flushes_left_out"]), (1, 1));
    assert_eq!(found.dram_bytes.read, 640, "ten lines");
}

#[test]
fn a_memory_is_asked_for_every_line_that_a_request_touches() {
    let memory = system("device/ddr4-2400", &[]);
    for (address, bytes, lines) in
        [(0, 64, 1), (60, 8, 2), (0, 4096, 64), (1, 4096, 65), (63, 1, 1)]
    {
        let found = result(&memory, given(&[request(RequestKind::Read, address, bytes, 0)]));
        assert_eq!(found.dram_bytes.read, lines * 64, "{bytes} at {address}");
        assert_eq!(found.accesses, 1, "it is one request, however many lines");
    }
    let one = result(&memory, given(&[request(RequestKind::Read, 0, 64, 0)]))
        .latency_ns
        .as_ref()
        .unwrap()
        .max;
    let page = result(&memory, given(&[request(RequestKind::Read, 0, 4096, 0)]))
        .latency_ns
        .as_ref()
        .unwrap()
        .max;
    assert!(page > one && page < 64.0 * one, "{page} and {one}: answered with its last line");
}

#[test]
fn the_hosts_queue_and_a_closed_loop_bound_what_is_under_way() {
    let reads: Vec<_> =
        (0..2000).map(|page| request(RequestKind::Read, page * 4096, 4096, 0)).collect();
    for (depth, closed, most) in [("32", None, 32), ("4", None, 4), ("32", Some(2), 2)] {
        let spec = system(SLC, &[("block_device.host_queue_depth", depth)]);
        let found = result(&spec, Requests { outstanding: closed, ..given(&reads) });
        let figures = device(&found);
        assert_eq!(figures.in_flight_max, most);
        let (mean, bound) = (figures.in_flight_mean, most as f64);
        assert!(mean <= bound && mean > 0.95 * bound, "{mean} of {most}");
        let sum_ns: f64 = found.stages_ns.values().sum();
        assert!((sum_ns - found.latency_ns.as_ref().unwrap().mean).abs() < 1e-6 * sum_ns);
    }
}

#[test]
fn a_closed_loop_of_more_than_the_device_holds_waits_at_its_door() {
    let reads: Vec<_> =
        (0..2000).map(|page| request(RequestKind::Read, page * 4096, 4096, 0)).collect();
    let spec = system(SLC, &[("block_device.host_queue_depth", "4")]);
    let with = |most| {
        let found = result(&spec, Requests { outstanding: Some(most), ..given(&reads) });
        let mean_ns = found.latency_ns.as_ref().unwrap().mean;
        let figures = device(&found).clone();
        // Little: requests under way are the rate of them times how long each is.
        let little = figures.requests_per_s * mean_ns * 1e-9;
        assert!((figures.under_way_mean - little).abs() < 1e-6 * little);
        assert!(figures.under_way_mean <= f64::from(most) + 1e-9);
        (found.time_ps, mean_ns, figures)
    };
    let (time_ps, mean_ns, four) = with(4);
    assert_eq!(four.waited_at_door, 0);
    assert!((four.under_way_mean - four.in_flight_mean).abs() < 1e-9);
    for most in [8, 64] {
        let (longer_ps, waited_ns, more) = with(most);
        assert!(longer_ps <= time_ps, "the device is no slower for a queue at its door");
        assert!(more.under_way_mean > 0.95 * f64::from(most), "{more:?}");
        assert!(more.in_flight_mean <= 4.0 && more.in_flight_max == 4, "{more:?}");
        let times = waited_ns / mean_ns / (f64::from(most) / 4.0);
        assert!((0.9..1.05).contains(&times), "{waited_ns} against {mean_ns}");
    }
}

#[test]
fn deeper_queues_reach_the_bandwidth_of_all_units() {
    let spec = system(SLC, &[("block_device.host_queue_depth", "240")]);
    let made = |outstanding| {
        let given = [("reads".to_owned(), 1.into()), ("requests".to_owned(), 20_000.into())];
        let (source, _) = find_pattern("random").unwrap().make(&given, 1).unwrap();
        result(&spec, Requests { source: Box::new(source), clock: None, outstanding })
    };
    let (one, many) = (made(Some(1)), made(Some(240)));
    // A unit reads a page in 25 us, its bus beside it; sixteen of them.
    let peak = 16.0 / 25e-6;
    let (one, many) = (device(&one).requests_per_s, device(&many).requests_per_s);
    assert!(many > 0.9 * peak && many <= peak, "{many} of {peak}");
    let latency_s = alone_ps(&spec, false, 4096) as f64 / 1e12;
    assert!((one * latency_s - 1.0).abs() < 1e-3, "{one} a second");
}

#[test]
fn cycles_need_a_clock_that_a_store_does_not_have() {
    let spec = system(SLC, &[]);
    let two = [request(RequestKind::Read, 0, 4096, 0), request(RequestKind::Read, 0, 4096, 2_000)];
    let cycles = || script::requests(two.to_vec(), Times::Cycles, None);
    let told = outcome(&spec, cycles(), &RunOptions::default()).partial_reason.unwrap();
    assert!(told.contains("--set workload.clock") && told.contains(SLC), "{told}");
    let clock = Some(Clock::from_hertz(1_000_000));
    let found = result(&spec, Requests { clock, ..cycles() });
    assert_eq!(found.time_ps, 2_000_000_000 + alone_ps(&spec, false, 4096));
    let closed = result(&spec, Requests { outstanding: Some(1), ..cycles() });
    assert_eq!(closed.time_ps, 2 * alone_ps(&spec, false, 4096));
}

#[test]
fn what_lies_beyond_the_store_is_told_with_the_mend() {
    let spec = system(SLC, &[("store.capacity", "1GiB")]);
    let last = request(RequestKind::Read, (1 << 30) - 512, 512, 0);
    assert_eq!(result(&spec, given(&[last])).accesses, 1);
    let told =
        outcome(&spec, given(&[TraceRequest { bytes: 1024, ..last }]), &RunOptions::default());
    assert_eq!(
        told.partial_reason.unwrap(),
        "request 1: it lies beyond the 1GiB of device/slc; give it store.capacity = \"2GiB\" or more"
    );
    let late = request(RequestKind::Read, 0, 512, u64::MAX);
    let told = outcome(&spec, given(&[late]), &RunOptions::default()).partial_reason.unwrap();
    assert!(told.contains("its time lies beyond 6.6 days"), "{told}");
}

/// Bursts and pauses of requests of every kind, size and place.
fn scripts() -> impl Strategy<Value = Vec<TraceRequest>> {
    let kind = prop_oneof![
        4 => Just(RequestKind::Read),
        4 => Just(RequestKind::Write),
        1 => Just(RequestKind::Flush),
        1 => Just(RequestKind::Trim),
    ];
    let address = prop_oneof![0u64..1 << 15, 0u64..1 << 24];
    let bytes = prop_oneof![3 => 1u32..9000, 1 => Just(4096u32), 1 => Just(0u32)];
    let after = prop_oneof![4 => Just(0u64), 2 => 0u64..5_000, 1 => 0u64..2_000_000];
    proptest::collection::vec((address, bytes, kind, after), 1..120).prop_map(|all| {
        let mut ns = 0;
        let each = all.into_iter().map(|(address, bytes, kind, after)| {
            ns += after;
            request(kind, address, bytes, ns)
        });
        each.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_request_is_answered_once_and_its_stages_sum_to_its_latency(
        script in scripts(),
        depth in 1u32..40,
        on_memory in any::<bool>(),
        number in any::<u64>(),
    ) {
        let depth = depth.to_string();
        let spec = if on_memory {
            system("device/ddr4-2400", &[("dram.read_queue_depth", &depth), ("dram.write_queue_depth", &depth), ("dram.write_high", "1"), ("dram.write_low", "0")])
        } else {
            system(SLC, &[("block_device.host_queue_depth", &depth)])
        };
        let file = std::env::temp_dir().join(format!("tierscope-store-{}-{number}.csv", std::process::id()));
        let options = RunOptions { latencies: vec![file.clone()], ..RunOptions::default() };
        let found = outcome(&spec, given(&script), &options);
        let table = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).ok();
        prop_assert_eq!(found.partial_reason, None);
        let wanted: Vec<_> = script
            .iter()
            .filter(|one| one.moves() || one.kind == RequestKind::Flush && !on_memory)
            .collect();
        let mut rows = 0;
        let mut sum_ps = 0u64;
        for row in table.lines().skip(1) {
            let cells: Vec<&str> = row.split(',').collect();
            let one = wanted[cells[0].parse::<usize>().unwrap()];
            prop_assert_eq!(cells[3], one.kind.name());
            prop_assert_eq!(cells[4].parse::<u64>().unwrap(), 1000 * one.ticks.unwrap());
            let latency_ps: u64 = cells[5].parse().unwrap();
            let stages_ps: u64 = cells[6..].iter().map(|cell| cell.parse::<u64>().unwrap()).sum();
            prop_assert_eq!(stages_ps, latency_ps);
            sum_ps += latency_ps;
            rows += 1;
        }
        prop_assert_eq!(rows, wanted.len());
        prop_assert_eq!(found.result.accesses, rows as u64);
        let mean_ps = sum_ps as f64 / rows.max(1) as f64;
        prop_assert!((found.result.latency_ns.as_ref().map_or(0.0, |all| all.mean) * 1e3 - mean_ps).abs() <= 1e-6 * mean_ps);
        let figures = device(&found.result);
        prop_assert_eq!(figures.reads + figures.writes + figures.flushes, rows as u64);
        let bound: u64 = depth.parse().unwrap();
        let flushes = wanted.iter().filter(|one| one.kind == RequestKind::Flush).count() as u64;
        prop_assert!(on_memory || figures.in_flight_max <= bound + flushes);
        let again = outcome(&spec, given(&script), &RunOptions::default());
        prop_assert_eq!(again.result.time_ps, found.result.time_ps, "equal runs are equal");
    }
}
