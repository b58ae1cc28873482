//! The ladder of trust for DRAM: formulas, timing edges, conservation, sensitivity, the protocol.

mod edges;
mod energy;
mod formulas;
mod laws;
mod mapping;
mod policies;
mod protocol;

use super::*;
use crate::medium::PagePolicy;
use tierscope_kernel::Counter;
use tierscope_units::{Duration, Size};

const LINE: u32 = 64;
const PAGE: u32 = 4096;
pub const CAPACITY: u64 = 64 << 30;

pub fn ps(picoseconds: u64) -> Duration {
    Duration::from_picoseconds(picoseconds)
}

/// DDR3-1333 as in \[HYB15\] table 2: bus, rate and timings.
pub fn spec() -> DramSpec {
    DramSpec {
        row: Some(Size::from_bytes(1024)),
        read_queue_depth: 512,
        write_queue_depth: 512,
        controller_latency: ps(3_000),
        ..DramSpec::of_part("ddr3-1333-2gb-x8", 1)
    }
}

/// The same without a refresh for as long as a test runs.
fn calm() -> DramSpec {
    DramSpec { t_refi: Some(ps(1 << 55)), ..spec() }
}

/// A part without refreshes, and a controller of 3 ns that takes much.
fn calm_part(part: &str) -> DramSpec {
    DramSpec {
        t_refi: Some(ps(1 << 55)),
        read_queue_depth: 512,
        write_queue_depth: 512,
        controller_latency: ps(3_000),
        ..DramSpec::of_part(part, 1)
    }
}

fn read(id: u32, address: u64) -> Request {
    Request { id, address, bytes: LINE, write: false, background: false }
}

fn write(id: u32, address: u64) -> Request {
    Request { write: true, ..read(id, address) }
}

/// Submits each at its time and returns all completions, by id.
fn run(mut dram: Dram, requests: &[(u64, Request)]) -> Vec<Completion> {
    let mut out = Vec::new();
    play(&mut dram, requests, &mut out);
    out.sort_by_key(|completion| completion.id);
    out
}

/// Submits each at its time, in order of time, and runs until nothing is in flight.
fn play(dram: &mut Dram, requests: &[(u64, Request)], out: &mut Vec<Completion>) {
    let mut now_ps = 0;
    for &(at_ps, request) in requests {
        now_ps = at_ps.max(now_ps);
        dram.advance(now_ps, out);
        while dram.submit(now_ps, request).is_err() {
            now_ps = dram.next_event_ps().expect("a full device has something to do");
            dram.advance(now_ps, out);
        }
    }
    dram.advance(u64::MAX, out);
    assert_eq!(dram.in_flight(), 0);
}

/// Latency in clocks, of the last request, without the controller's time. Rounded to whole clocks:
/// they may be fractions of picoseconds.
fn clocks(spec: &DramSpec, requests: &[(u64, Request)]) -> u64 {
    let dram = Dram::new(spec, CAPACITY, 64);
    let clock = dram.description().clock;
    let completions = run(dram, requests);
    let last = completions.last().expect("there is a request");
    let submitted_ps = requests[requests.len() - 1].0;
    let arrival = clock.ps_to_cycles_ceil(submitted_ps + spec.controller_latency.picoseconds());
    clock.ps_to_cycles_ceil(last.at_ps) - arrival
}

/// Far enough behind a request that its bank has all times behind it.
const LATER_PS: u64 = 1_500_000;

/// Every part.
fn parts() -> Vec<&'static str> {
    standard::parts().map(|(_, part)| part.name).collect()
}

/// Where to go: addresses of the same channel.
struct Way {
    next_row: u64,
    next_bank: u64,
    next_group: u64,
    next_rank: u64,
}

/// The ways of the usual mapping.
fn ways(spec: &DramSpec) -> Way {
    let d = description::Description::new(spec);
    let next_group = d.row_bytes.max(64) * u64::from(d.channels);
    let next_bank = next_group * u64::from(d.groups);
    let next_rank = next_bank * u64::from(d.banks);
    Way { next_row: next_rank * u64::from(d.ranks), next_bank, next_group, next_rank }
}

/// Submits `count` requests as fast as they are taken; bytes per second.
fn bandwidth(spec: &DramSpec, count: u64, request: impl Fn(u64) -> Request) -> f64 {
    let requests: Vec<_> = (0..count).map(|i| (0, request(i))).collect();
    let bytes: u64 = requests.iter().map(|(_, request)| u64::from(request.bytes)).sum();
    let all = run(Dram::new(spec, CAPACITY, 64), &requests);
    let end_ps = all.iter().map(|completion| completion.at_ps).max().expect("some");
    bytes as f64 / end_ps as f64 * 1e12
}

fn assert_close(what: &str, value: f64, expected: f64, tolerance: f64) {
    let off = (value / expected - 1.0).abs();
    assert!(off < tolerance, "{what}: {value:.4e} against {expected:.4e}, off by {off:.5}");
}

/// Lines at random addresses, one every 8 ns, of which so many in a hundred are written.
fn random_lines(writes: u64) -> impl Iterator<Item = (u64, Request)> {
    let random = Counter::stream(7, "dram");
    (0..20_000u32).map(move |i| {
        let value = random.at(u64::from(i));
        let address = (value >> 8) % (CAPACITY / 64) * 64;
        let request = Request { write: value % 100 < writes, ..read(i, address) };
        (u64::from(i) * 8_000, request)
    })
}
