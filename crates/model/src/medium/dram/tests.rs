//! The ladder of trust for DRAM: formulas, timing edges, conservation, sensitivity.

use super::*;
use crate::conformance::device_laws;
use proptest::prelude::*;
use tierscope_kernel::{Counter, StageTimes};
use tierscope_units::{Duration, Size};

const LINE: u32 = 64;
const PAGE: u32 = 4096;
pub const CAPACITY: u64 = 64 << 30;

/// DDR3-1333 as in \[HYB15\] table 2: HYB-006 to HYB-009; refresh of the 2 Gb part.
pub fn spec() -> DramSpec {
    DramSpec {
        channels: 1,
        ranks: 1,
        banks: 8,
        row: Size::from_bytes(1024),
        bus_bits: 64,
        clock_period: Duration::from_picoseconds(1500),
        t_cl: 10,
        t_rcd: 10,
        t_rp: 10,
        t_ras: 24,
        t_cwl: 7,
        t_wr: 10,
        burst_length: 8,
        t_refi: Duration::from_picoseconds(7_800_000),
        t_rfc: Duration::from_picoseconds(160_500),
        queue_depth: 512,
        controller_latency: Duration::from_picoseconds(3_000),
    }
}

/// The same without a refresh for as long as a test runs.
fn calm() -> DramSpec {
    DramSpec { t_refi: Duration::from_picoseconds(1 << 62), ..spec() }
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
    for &(at_ps, request) in requests {
        dram.advance(at_ps, &mut out);
        while dram.submit(at_ps, request).is_err() {
            let next_ps = dram.next_event_ps().expect("a full device has something to do");
            dram.advance(next_ps, &mut out);
        }
    }
    dram.advance(u64::MAX, &mut out);
    assert_eq!(dram.in_flight(), 0);
    out.sort_by_key(|completion| completion.id);
    out
}

/// Latency in clocks, of the last request, without the controller's time.
fn clocks(spec: &DramSpec, requests: &[(u64, Request)]) -> u64 {
    let completions = run(Dram::new(spec, CAPACITY, 64), requests);
    let last = completions.last().expect("there is a request");
    let latency_ps = last.at_ps - requests[requests.len() - 1].0;
    let left_ps = latency_ps - spec.controller_latency.picoseconds();
    assert_eq!(left_ps % spec.clock_period.picoseconds(), 0);
    left_ps / spec.clock_period.picoseconds()
}

/// Far enough behind a request that its bank has all times behind it.
const LATER_PS: u64 = 1_500_000;
/// A row of 1 KiB in each of 8 banks: the same bank, the next row.
const NEXT_ROW: u64 = 8 * 1024;
const NEXT_BANK: u64 = 1024;

#[test]
fn an_unloaded_request_takes_what_the_formula_says() {
    let spec = calm();
    let burst = 4;
    assert_eq!(clocks(&spec, &[(0, read(0, 0))]), 10 + 10 + burst, "closed: tRCD + tCL");
    assert_eq!(clocks(&spec, &[(0, write(0, 0))]), 10 + 7 + burst, "closed: tRCD + tCWL");
    let hit = [(0, read(0, 0)), (LATER_PS, read(1, 64))];
    assert_eq!(clocks(&spec, &hit), 10 + burst, "hit: tCL");
    let conflict = [(0, read(0, 0)), (LATER_PS, read(1, NEXT_ROW))];
    assert_eq!(clocks(&spec, &conflict), 10 + 10 + 10 + burst, "conflict: tRP + tRCD + tCL");
    let page = Request { bytes: PAGE, ..read(0, 0) };
    assert_eq!(clocks(&spec, &[(0, page)]), 10 + 10 + 64 * burst, "a page: 64 bursts");
}

#[test]
fn stages_name_the_controller_the_commands_and_the_wait() {
    let spec = calm();
    let all = run(Dram::new(&spec, CAPACITY, 64), &[(1, read(0, 0)), (1, read(1, NEXT_ROW))]);
    let stages: Vec<Vec<_>> = all.iter().map(|c| c.stages.iter().collect()).collect();
    // Submitted 1 ps behind a clock edge: the wait for the next edge is the queue's.
    let first = [(Stage::Controller, 3_000), (Stage::DramQueue, 1_499), (Stage::Dram, 36_000)];
    assert_eq!(stages[0], first);
    // Behind the first activate: tRAS, tRP, tRCD, tCL and a burst, of which 34 clocks are its own.
    let wait_ps = 1_499 + (24 + 10 + 10 + 10 + 4 - 34) * 1_500;
    let second = [(Stage::Controller, 3_000), (Stage::DramQueue, wait_ps), (Stage::Dram, 51_000)];
    assert_eq!(stages[1], second);
}

/// The times of the completions of two requests, the second submitted `gap` clocks after the
/// first: its wait in clocks.
fn wait_of_second(spec: &DramSpec, first: Request, second: Request, gap: u64) -> u64 {
    let at_ps = gap * spec.clock_period.picoseconds();
    let all = run(Dram::new(spec, CAPACITY, 64), &[(0, first), (at_ps, second)]);
    let mut times = StageTimes::default();
    all[1].stages.add_to(&mut times);
    times[Stage::DramQueue as usize] / spec.clock_period.picoseconds()
}

/// At t − 1 the second request waits one clock; at t and later it waits for nothing.
fn assert_edge(spec: &DramSpec, first: Request, second: Request, t: u64) {
    let wait = |gap| wait_of_second(spec, first, second, gap);
    assert_eq!([wait(t - 1), wait(t), wait(t + 1)], [1, 0, 0], "the edge is not at {t}");
}

#[test]
fn a_precharge_is_refused_one_clock_before_t_ras_and_accepted_at_it() {
    assert_edge(&calm(), read(0, 0), read(1, NEXT_ROW), 24);
    let spec = DramSpec { t_ras: 40, ..calm() };
    assert_edge(&spec, read(0, 0), read(1, NEXT_ROW), 40);
}

#[test]
fn a_precharge_waits_for_the_last_read_burst_where_t_ras_is_short() {
    let spec = DramSpec { t_ras: 10, ..calm() };
    assert_edge(&spec, read(0, 0), read(1, NEXT_ROW), 10 + 4);
}

#[test]
fn a_precharge_is_refused_until_t_wr_after_write_data() {
    let end_of_data = 10 + 7 + 4;
    assert_edge(&calm(), write(0, 0), read(1, NEXT_ROW), end_of_data + 10);
    let spec = DramSpec { t_wr: 15, ..calm() };
    assert_edge(&spec, write(0, 0), write(1, NEXT_ROW), end_of_data + 15);
}

#[test]
fn a_column_command_is_refused_until_t_rcd_after_activate() {
    // The second finds its row activated; its column command follows the first one's.
    assert_edge(&calm(), read(0, 0), read(1, 64), 10 + 4);
    let spec = DramSpec { t_rcd: 13, t_ras: 24, ..calm() };
    assert_edge(&spec, read(0, 0), read(1, 64), 13 + 4);
}

#[test]
fn the_data_bus_is_refused_while_it_is_taken() {
    // Another bank, whose data would come at the same clock: one burst later.
    assert_edge(&calm(), read(0, 0), read(1, NEXT_BANK), 4);
    let spec = DramSpec { burst_length: 16, bus_bits: 32, ..calm() };
    assert_edge(&spec, read(0, 0), read(1, NEXT_BANK), 8);
}

#[test]
fn read_data_follow_write_data_of_the_rank_by_a_column_latency() {
    // Write data end 21 clocks after the write came; read data may start tCL later and would come
    // tRCD + tCL after the read came.
    assert_edge(&calm(), write(0, 0), read(1, NEXT_BANK), 21 - 10);
}

#[test]
fn write_data_follow_read_data_by_two_clocks() {
    assert_edge(&calm(), read(0, 0), write(1, NEXT_BANK), 24 + 2 - 17);
}

#[test]
fn another_rank_need_not_wait_for_write_data_to_settle() {
    let spec = DramSpec { ranks: 2, ..calm() };
    // The bus alone: the read's data would come 20 clocks after the read came.
    assert_edge(&spec, write(0, 0), read(1, 8 * NEXT_BANK), 21 - 20);
}

#[test]
fn a_refresh_closes_the_rank_for_t_rfc_and_no_clock_longer() {
    let spec = spec();
    // The refresh falls due at clock 5200 and takes 107; the controller needs 2 of its own.
    let wait = |arrival: u64| {
        let at_ps = (arrival - 2) * 1_500;
        let all = run(Dram::new(&spec, CAPACITY, 64), &[(0, read(0, 0)), (at_ps, read(1, 0))]);
        let mut times = StageTimes::default();
        all[1].stages.add_to(&mut times);
        let row = times[Stage::Dram as usize] / 1_500 - 14;
        (times[Stage::DramQueue as usize] / 1_500, row)
    };
    assert_eq!(wait(5_199), (0, 0), "one clock before: the row is open and nothing is waited for");
    assert_eq!(wait(5_200), (107, 10), "at the refresh: all of it, and the row is closed");
    assert_eq!(wait(5_306), (1, 10), "one clock before its end");
    assert_eq!(wait(5_307), (0, 10), "at its end");
    assert_eq!(wait(10_399), (0, 10), "rows stay closed");
}

#[test]
fn a_refresh_waits_for_a_row_that_is_in_use() {
    let spec = spec();
    // The first command is given one clock before the refresh; its row must stay open for tRAS
    // and be precharged: 5199 + 24 + 10 + 107.
    let at_ps = (5_199 - 2) * 1_500;
    let all =
        run(Dram::new(&spec, CAPACITY, 64), &[(at_ps, read(0, 0)), (at_ps, read(1, NEXT_ROW))]);
    assert_eq!(all[0].at_ps, (5_199 + 24) * 1_500);
    assert_eq!(all[1].at_ps, (5_199 + 24 + 10 + 107 + 24) * 1_500);
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

#[test]
fn sequential_reads_and_writes_reach_the_peak_of_the_bus() {
    for channels in [1, 2, 3, 4] {
        let spec = DramSpec { channels, ..calm() };
        let peak = f64::from(channels) * 64.0 / 6e-9;
        for (what, bytes, write) in
            [("lines", LINE, false), ("written lines", LINE, true), ("pages", PAGE, false)]
        {
            let one = |i| {
                let address = i * u64::from(bytes);
                Request { bytes, write, ..read(i as u32, address) }
            };
            let count = 8_000_000 / u64::from(bytes);
            assert_close(what, bandwidth(&spec, count, one), peak, 0.002);
        }
    }
}

#[test]
fn background_alone_reaches_the_peak_of_the_bus() {
    let page = |i| Request { bytes: PAGE, background: true, ..read(i as u32, i * 4096) };
    for channels in [1, 4] {
        let spec = DramSpec { channels, ..calm() };
        let peak = f64::from(channels) * 64.0 / 6e-9;
        assert_close("background pages", bandwidth(&spec, 2_000, page), peak, 0.002);
    }
}

#[test]
fn refresh_takes_its_share_of_the_bandwidth() {
    let line = |i| read(i as u32, i * 64);
    let peak = 64.0 / 6e-9;
    for (t_rfc_ps, t_refi_ps) in [(160_500, 7_800_000), (350_000, 3_900_000)] {
        let spec = DramSpec {
            t_rfc: Duration::from_picoseconds(t_rfc_ps),
            t_refi: Duration::from_picoseconds(t_refi_ps),
            ..spec()
        };
        // Each refresh also closes eight rows: tRP before it, and tRCD + tCL after it until the
        // bus has data again.
        let lost_ps = t_rfc_ps + 30 * 1_500;
        let left = 1.0 - lost_ps as f64 / t_refi_ps as f64;
        assert_close("refresh", bandwidth(&spec, 200_000, line), peak * left, 0.005);
    }
}

#[test]
fn conflicts_in_one_bank_come_every_t_rc() {
    let spec = calm();
    let one = |i| read(i as u32, i * NEXT_ROW);
    assert_close("tRC", bandwidth(&spec, 2_000, one), 64.0 / ((24 + 10) as f64 * 1.5e-9), 0.002);
    let one = |i| write(i as u32, i * NEXT_ROW);
    let between = (10 + 7 + 4 + 10 + 10) as f64;
    assert_close(
        "tRCD + tCWL + burst + tWR + tRP",
        bandwidth(&spec, 2_000, one),
        64.0 / (between * 1.5e-9),
        0.002,
    );
}

#[test]
fn a_clock_of_a_third_of_a_picosecond_does_not_drift() {
    let clock = Clock::from_hertz(1_200_000_000);
    let mut dram = Dram::with_clock(&calm(), clock, CAPACITY, 64);
    let mut out = Vec::new();
    let lines = 3_000_000;
    for i in 0..lines {
        while dram.submit(0, read(0, i * 64)).is_err() {
            let next_ps = dram.next_event_ps().expect("a full device has something to do");
            dram.advance(next_ps, &mut out);
        }
    }
    dram.advance(u64::MAX, &mut out);
    let end = clock.ps_to_cycles_ceil(3_000) + 10 + 10 + 4 * lines;
    assert_eq!(out.last().map(|last| last.at_ps), Some(end * 2_500 / 3));
}

#[test]
fn a_full_channel_refuses_and_an_idle_one_takes_more_than_its_queue() {
    let mut dram = Dram::new(&DramSpec { queue_depth: 4, ..calm() }, CAPACITY, 64);
    assert!(dram.submit(0, Request { bytes: PAGE, ..read(0, 0) }).is_ok(), "idle: a page of 64");
    assert_eq!(dram.submit(0, read(1, 0)), Err(Full));
    let mut out = Vec::new();
    dram.advance(u64::MAX, &mut out);
    for id in 0..4 {
        assert!(dram.submit(out[0].at_ps, read(id, 0)).is_ok());
    }
    assert_eq!(dram.submit(out[0].at_ps, read(4, 0)), Err(Full));
    assert_eq!(dram.submit(out[0].at_ps, Request { bytes: PAGE, ..read(4, 0) }), Err(Full));
}

#[test]
fn one_full_channel_does_not_close_the_other() {
    let mut dram = Dram::new(&DramSpec { channels: 2, queue_depth: 1, ..calm() }, CAPACITY, 64);
    assert!(dram.submit(0, read(0, 0)).is_ok());
    assert_eq!(dram.submit(0, read(1, 128)), Err(Full), "channel 0");
    assert!(dram.submit(0, read(2, 64)).is_ok(), "channel 1");
}

#[test]
fn demand_waits_for_one_piece_of_background_at_most() {
    let spec = calm();
    let requests: Vec<_> = (0..8)
        .map(|i| (0, Request { bytes: PAGE, background: true, ..write(i, u64::from(i) * 4096) }))
        .chain([(100_500, read(8, 1 << 30))])
        .collect();
    let all = run(Dram::new(&spec, CAPACITY, 64), &requests);
    let latency = (all[8].at_ps - 100_500 - 3_000) / 1_500;
    // What is booked of the background at most: one piece more than the look-ahead. Then the write
    // in progress must be recovered from: its row is another.
    let booked = 30 + 16 * 4;
    assert!(latency <= booked + 10 + 34, "{latency} clocks");
    let alone = clocks(&spec, &[(0, read(0, 1 << 30))]);
    assert!(latency > alone, "it has met background: {latency} clocks");
}

#[test]
fn background_is_not_starved() {
    let spec = DramSpec { queue_depth: 32, ..calm() };
    let mut dram = Dram::new(&spec, CAPACITY, 64);
    let mut out = Vec::new();
    let mut id = 1;
    let mut now_ps = 0;
    dram.submit(0, read(u32::MAX, 0)).expect("room");
    dram.submit(0, Request { background: true, ..read(0, 1 << 20) }).expect("room");
    // Demand that keeps the queue full, for as long as it takes.
    while !out.iter().any(|completion: &Completion| completion.id == 0) {
        while dram.submit(now_ps, read(id, u64::from(id) * 64)).is_ok() {
            id += 1;
        }
        now_ps = dram.next_event_ps().expect("the queue is full");
        dram.advance(now_ps, &mut out);
        assert!(id < 200, "{id} requests have passed a single one in the background");
    }
}

#[test]
fn the_devices_laws_hold() {
    let small = |spec: DramSpec| Dram::new(&spec, 1 << 20, 64);
    device_laws(|| small(spec()));
    device_laws(|| small(DramSpec { channels: 4, queue_depth: 5, ranks: 2, ..spec() }));
    device_laws(|| small(DramSpec { channels: 3, banks: 3, burst_length: 4, ..spec() }));
    device_laws(|| {
        let clock = Clock::from_hertz(1_200_000_000);
        Dram::with_clock(&DramSpec { channels: 2, ..spec() }, clock, 1 << 20, 64)
    });
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

/// Mean latency of random lines.
fn random_ps(spec: &DramSpec, writes: u64) -> f64 {
    let requests: Vec<_> = random_lines(writes).collect();
    let all = run(Dram::new(spec, CAPACITY, 64), &requests);
    all.iter().map(|completion| completion.stages.total_ps() as f64).sum::<f64>() / all.len() as f64
}

#[test]
fn occupancy_equals_rate_times_latency() {
    let mut dram = Dram::new(&DramSpec { channels: 2, ..spec() }, CAPACITY, 64);
    let mut out = Vec::new();
    let (mut area, mut last_ps) = (0u128, 0);
    let mut advance = |dram: &mut Dram, to_ps: u64| {
        while let Some(next_ps) = dram.next_event_ps().filter(|&next_ps| next_ps <= to_ps) {
            area += u128::from(next_ps - last_ps) * dram.in_flight() as u128;
            dram.advance(next_ps, &mut out);
            last_ps = next_ps;
        }
        if dram.in_flight() > 0 {
            area += u128::from(to_ps - last_ps) * dram.in_flight() as u128;
        }
        last_ps = to_ps;
    };
    for (at_ps, request) in random_lines(30) {
        advance(&mut dram, at_ps);
        dram.submit(at_ps, request).expect("the queue is deep enough for the rate");
    }
    advance(&mut dram, 1 << 50);
    let latency_ps: u128 = out.iter().map(|c| u128::from(c.stages.total_ps())).sum();
    assert_eq!(area, latency_ps, "Little's law over the whole run");
}

#[test]
fn a_fixed_run_counts_what_it_always_counted() {
    let mut dram = Dram::new(&DramSpec { channels: 2, ranks: 2, ..spec() }, CAPACITY, 64);
    let mut out = Vec::new();
    for (at_ps, request) in random_lines(30) {
        // Close together, so that there are hits; every tenth is a page, of which every third is
        // background.
        let request = Request { address: request.address % (256 << 10), ..request };
        let page = request.id.is_multiple_of(10);
        let (address, bytes) =
            if page { (request.address / 4096 * 4096, PAGE) } else { (request.address, LINE) };
        let background = request.id.is_multiple_of(30);
        let at_ps = at_ps * 8;
        dram.advance(at_ps, &mut out);
        dram.submit(at_ps, Request { address, bytes, background, ..request }).expect("room");
    }
    dram.advance(u64::MAX, &mut out);
    let latency_ps: u64 = out.iter().map(|completion| completion.stages.total_ps()).sum();
    let counts = dram.counts();
    let expected = DramCounts {
        row_hits: 2_639,
        row_closed: 5_235,
        row_conflicts: 18_126,
        refreshes: 656,
        read_lines: 102_396,
        written_lines: 43_604,
    };
    assert_eq!((counts, latency_ps), (expected, 1_763_181_500));
}

/// What the parameters are seen by.
struct Outcome {
    random_ps: f64,
    write_ps: f64,
    conflict_ps: u64,
    sequential: f64,
    row_hits: u64,
}

fn outcome(spec: &DramSpec) -> Outcome {
    let pair = run(Dram::new(spec, CAPACITY, 64), &[(0, read(0, 0)), (0, read(1, NEXT_ROW * 4))]);
    let mut dram = Dram::new(spec, CAPACITY, 64);
    for i in 0..64 {
        dram.submit(0, read(i, u64::from(i) * 64)).expect("room");
    }
    Outcome {
        random_ps: random_ps(spec, 0),
        write_ps: random_ps(spec, 100),
        conflict_ps: pair[1].stages.total_ps(),
        sequential: bandwidth(spec, 20_000, |i| read(i as u32, i * 64)),
        row_hits: dram.counts().row_hits,
    }
}

#[test]
fn every_parameter_changes_an_output_in_its_direction() {
    let base = DramSpec { channels: 2, ranks: 2, ..spec() };
    let was = outcome(&base);
    let with = |change: &dyn Fn(&mut DramSpec)| {
        let mut spec = base.clone();
        change(&mut spec);
        outcome(&spec)
    };
    let slower = |name: &str, is: Outcome| {
        assert!(is.random_ps > was.random_ps, "{name}: random reads are slower");
    };
    slower("channels", with(&|s| s.channels = 1));
    slower("ranks", with(&|s| s.ranks = 1));
    slower("banks", with(&|s| s.banks = 4));
    slower("clock_period", with(&|s| s.clock_period = Duration::from_picoseconds(1_600)));
    slower("t_cl", with(&|s| s.t_cl = 11));
    slower("t_rcd", with(&|s| s.t_rcd = 11));
    slower("t_rp", with(&|s| s.t_rp = 11));
    slower("t_rfc", with(&|s| s.t_rfc = Duration::from_picoseconds(350_000)));
    slower("t_refi", with(&|s| s.t_refi = Duration::from_picoseconds(3_900_000)));
    slower(
        "controller_latency",
        with(&|s| s.controller_latency = Duration::from_picoseconds(9_000)),
    );
    assert!(with(&|s| s.t_ras = 30).conflict_ps > was.conflict_ps, "t_ras");
    assert!(with(&|s| s.t_cwl = 9).write_ps > was.write_ps, "t_cwl");
    assert!(with(&|s| s.t_wr = 20).write_ps > was.write_ps, "t_wr");
    assert!(with(&|s| s.row = Size::from_bytes(2048)).row_hits > was.row_hits, "row");
    assert!(with(&|s| s.bus_bits = 32).sequential < 0.6 * was.sequential, "bus_bits");
    // Half the burst: two bursts for a line, in the same time; twice: half of it is not used.
    assert!(with(&|s| s.burst_length = 16).sequential < 0.6 * was.sequential, "burst_length");
    let mut dram = Dram::new(&DramSpec { queue_depth: 1, ..base.clone() }, CAPACITY, 64);
    dram.submit(0, read(0, 0)).expect("room");
    assert!(dram.submit(0, read(1, 0)).is_err(), "queue_depth");
}

proptest! {
    #[test]
    fn a_request_never_beats_its_own_commands(
        requests in proptest::collection::vec((0..100_000u64, 0..1u64 << 14, any::<bool>()), 1..80),
    ) {
        let spec = spec();
        let mut at_ps = 0;
        let requests: Vec<_> = (0..)
            .zip(requests)
            .map(|(id, (gap_ps, line, write))| {
                at_ps += gap_ps;
                (at_ps, Request { write, ..read(id, line * 64) })
            })
            .collect();
        let all = run(Dram::new(&spec, CAPACITY, 64), &requests);
        let mut ends: Vec<_> = all.iter().map(|completion| completion.at_ps).collect();
        for (completion, (_, request)) in all.iter().zip(&requests) {
            let least = 3_000 + (if request.write { 7 } else { 10 } + 4) * 1_500;
            prop_assert!(completion.stages.total_ps() >= least);
        }
        ends.sort_unstable();
        prop_assert!(ends.windows(2).all(|pair| pair[1] - pair[0] >= 6_000), "a burst each");
    }
}

#[test]
fn a_description_at_the_edge_of_what_is_allowed_still_goes_on() {
    let ps = Duration::from_picoseconds;
    // Refreshes that leave nothing after rounding to clocks; bursts wider than a line; a line of
    // several rows; a queue of one.
    let spec = DramSpec {
        t_refi: ps(1_001),
        t_rfc: ps(1_000),
        row: Size::from_bytes(64),
        bus_bits: 512,
        queue_depth: 1,
        ..spec()
    };
    let mut problems = tierscope_units::Problems::new();
    spec.check("dram", &mut problems);
    assert!(problems.is_empty(), "{problems}");
    device_laws(|| Dram::new(&spec, 1 << 20, 128));
}
