//! Drives alone: what they are told to have done, until when, and what comes after that.

use super::script;
use std::slice::from_ref;
use std::sync::atomic::AtomicBool;
use tierscope_system::result::{DeviceResult, DriveResult, SystemResult};
use tierscope_system::run::{RunOptions, run_alone};
use tierscope_system::spec::{self, SystemSpec};
use tierscope_workload::requests::{RequestKind, Times, TraceRequest};

const PRO: &str = "device/970-pro/quick";

fn system(name: &str, sets: &[(&str, &str)]) -> SystemSpec {
    let sets: Vec<_> = sets.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
    spec::load(name, &sets).unwrap_or_else(|problems| panic!("{problems}")).spec
}

/// Pages all over a drive, without a pattern that its stripes would feel.
fn pages(count: u64, of: u64, kind: RequestKind) -> Vec<TraceRequest> {
    let page = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % of;
    (0..count)
        .map(|n| TraceRequest { address: page(n) * 4096, bytes: 4096, kind, ticks: None })
        .collect()
}

fn run(spec: &SystemSpec, requests: Vec<TraceRequest>, depth: u32) -> SystemResult {
    let requests = script::requests(requests, Times::Absent, Some(depth));
    let options = RunOptions::default();
    let stop = AtomicBool::new(false);
    let outcome = run_alone(from_ref(spec), vec![requests], &options, &(), &stop).remove(0);
    assert_eq!(outcome.partial_reason, None);
    outcome.result
}

fn parts(result: &SystemResult) -> (&DeviceResult, &DriveResult) {
    (result.device.as_ref().unwrap(), result.drive.as_ref().unwrap())
}

fn capacity_pages(spec: &SystemSpec) -> u64 {
    spec.ssd.as_ref().unwrap().capacity.bytes() / 4096
}

#[test]
fn time_ends_with_the_last_answer_and_what_comes_after_is_told_apart() {
    let spec = system(PRO, &[]);
    let result = run(&spec, pages(200, capacity_pages(&spec), RequestKind::Write), 1);
    let (device, drive) = parts(&result);
    let latency_s = device.write_latency_ns.as_ref().unwrap().mean * 1e-9;
    // One at a time, without a pause: the rate is that of the latencies.
    assert!((device.requests_per_s * latency_s - 1.0).abs() < 1e-6, "{device:?}");
    assert!((device.in_flight_mean - 1.0).abs() < 1e-6, "{device:?}");
    let settling = device.settling.expect("the drive programs what its buffer has");
    assert!(settling.time_s > 0.0 && settling.flash_programs > 0, "{settling:?}");
    assert!(drive.dies_busy.iter().chain(&drive.channels_busy).all(|busy| *busy <= 1.0));
}

#[test]
fn a_drive_tells_what_it_did() {
    let spec = system(PRO, &[]);
    let count = 2 * capacity_pages(&spec) / 10;
    let mut requests = pages(count, capacity_pages(&spec), RequestKind::Write);
    requests.extend(pages(1000, capacity_pages(&spec), RequestKind::Read));
    let result = run(&spec, requests, 32);
    let (device, drive) = parts(&result);
    assert_eq!((drive.host_written_pages, drive.host_read_pages), (count, 1000));
    assert_eq!((device.writes, device.reads), (count, 1000));
    // A page of flash has eight of the drive.
    let programmed = drive.flushed_pages + drive.moved_pages + drive.padded_pages;
    // Those of the last pages may wait for their dies still: some for each.
    let missing = programmed / 8 - drive.flash_programs;
    assert!(programmed.is_multiple_of(8) && missing <= 16 * 3, "{missing} programs are missing");
    let amplification = drive.write_amplification.unwrap();
    assert!((amplification - programmed as f64 / drive.flushed_pages as f64).abs() < 1e-12);
    assert!(amplification > 3.0, "7 % of spare flash: {amplification}");
    let each = drive.flash_bytes_per_host_byte.unwrap();
    assert!((each - programmed as f64 / count as f64).abs() < 1e-12, "whole pages are written");
    assert!(drive.collections >= drive.flash_erases && drive.flash_erases > 1000, "{drive:?}");
    assert!(drive.erases_min as f64 <= drive.erases_mean);
    assert!(drive.erases_mean <= drive.erases_max as f64);
    // As many erases as there were, over all blocks, against what they stand; those under way count
    // among those of flash already.
    let blocks = 16.0 * 128.0;
    let years = result.time_s / (365.0 * 86_400.0) * 3000.0 * blocks / drive.flash_erases as f64;
    let lifetime = drive.lifetime_years.unwrap();
    assert!((lifetime / years - 1.0).abs() < 0.01, "{lifetime} years, not {years}");
    let energy: f64 = result.energy.parts_j.values().sum();
    assert!((energy - result.energy.total_j.unwrap()).abs() < 1e-9);
    assert!(result.energy.parts_j["flash.program"] > result.energy.parts_j["flash.read"]);
    assert!(result.energy.not_counted.contains_key("drive_controller"));
}

#[test]
fn flushes_and_trims_go_to_the_drive() {
    let spec = system(PRO, &[]);
    let mut requests = pages(10, capacity_pages(&spec), RequestKind::Write);
    requests.push(TraceRequest { kind: RequestKind::Flush, ..TraceRequest::default() });
    requests.push(TraceRequest {
        kind: RequestKind::Trim,
        address: 1 << 20,
        bytes: 65_536,
        ticks: None,
    });
    let result = run(&spec, requests.clone(), 1);
    let (device, drive) = parts(&result);
    assert_eq!((device.flushes, device.trims, device.writes), (1, 1, 10));
    assert_eq!((drive.flushes, drive.trimmed_pages), (1, 16));
    assert_eq!((device.requested_bytes.written, device.requested_bytes.read), (40_960, 0));
    // What was written is programmed first: 185 us, and less where nothing can be lost.
    let flush_ns = device.flush_latency_ns.as_ref().unwrap().mean;
    assert!(flush_ns > 185e3, "{flush_ns} ns");
    let safe = run(&system(PRO, &[("ssd.buffer.capacitors", "true")]), requests, 1);
    let safe_ns = parts(&safe).0.flush_latency_ns.as_ref().unwrap().mean;
    assert!(safe_ns < 20e3, "{safe_ns} ns");
}

#[test]
fn a_forced_write_is_answered_when_flash_has_it() {
    let spec = system(PRO, &[]);
    let mut requests = pages(10, capacity_pages(&spec), RequestKind::Write);
    requests[4].kind = RequestKind::ForcedWrite;
    let result = run(&spec, requests.clone(), 1);
    let device = parts(&result).0;
    assert_eq!((device.writes, device.forced_writes), (10, 1));
    // A program of 185 us, which the others do not wait for.
    let forced_ns = device.forced_write_latency_ns.as_ref().unwrap().mean;
    let all_ns = device.write_latency_ns.as_ref().unwrap().mean;
    assert!(forced_ns > 185e3 && all_ns < 0.2 * forced_ns, "{forced_ns} and {all_ns} ns");
    // Though capacitors would keep it.
    let safe = run(&system(PRO, &[("ssd.buffer.capacitors", "true")]), requests, 1);
    let safe_ns = parts(&safe).0.forced_write_latency_ns.as_ref().unwrap().mean;
    assert!(safe_ns > 185e3, "{safe_ns} ns");
}

#[test]
fn reading_wears_nothing() {
    let spec = system(PRO, &[]);
    let result = run(&spec, pages(500, capacity_pages(&spec), RequestKind::Read), 8);
    let (device, drive) = parts(&result);
    assert_eq!((drive.flash_programs, drive.flash_erases), (0, 0));
    assert_eq!((drive.write_amplification, drive.lifetime_years), (None, None));
    // The host still tells the drive that it has read the completion.
    let settling = device.settling.unwrap();
    assert!(settling.time_s < 1e-6 && settling.flash_programs == 0, "{settling:?}");
    assert_eq!(drive.flash_reads + drive.buffer_hits, 500);
}
