//! Rung 2: each command comes exactly when the last rule allows it, no clock later; the checker
//! (`protocol.rs`) shows that it comes no clock sooner.

use super::*;
use crate::medium::RefreshPolicy;
use standard::Command::{self, *};

/// The clocks of a command in the log of a run, in order.
fn log_of(spec: &DramSpec, requests: &[(u64, Request)]) -> Vec<Logged> {
    let mut dram = Dram::new(spec, CAPACITY, 64);
    dram.start_log();
    play(&mut dram, requests, &mut Vec::new());
    dram.take_log(0, true)
}

/// From the first of one command to the first of another behind it.
fn distance(spec: &DramSpec, requests: &[(u64, Request)], from: Command, to: Command) -> u64 {
    let log = log_of(spec, requests);
    let start = log.iter().position(|l| l.command == from).expect("the first is given");
    let rest = &log[start + 1..];
    let end = rest.iter().find(|l| l.command == to).expect("the second is given");
    end.clock - log[start].clock
}

fn two(first: Request, second: Request) -> [(u64, Request); 2] {
    [(0, first), (0, second)]
}

/// Two lines to write: they are not answered before they are written, and pass nothing.
fn pair(id: u32, address: u64) -> Request {
    Request { bytes: 2 * LINE, ..write(id, address) }
}

type Change = fn(&mut DramSpec, u32);

/// Name, what is changed, two requests, two commands, and clocks that come on top.
type Case = (&'static str, Change, [(u64, Request); 2], Command, Command, u64);

#[test]
fn each_command_comes_as_soon_as_its_timing_allows() {
    let part = "ddr4-2400-8gb-x8";
    let way = ways(&calm_part(part));
    let (row, bank, group) = (way.next_row, way.next_bank, way.next_group);
    let reads = |address: u64| two(read(0, 0), read(1, address));
    let cases: [Case; 14] = [
        ("tRCD", |s, t| s.t_rcd = Some(t), reads(0), Activate, Read, 0),
        ("tCCD_L", |s, t| s.t_ccd_l = Some(t), reads(64), Read, Read, 0),
        ("tRTP", |s, t| (s.t_rtp, s.t_ras) = (Some(t), Some(20)), reads(row), Read, Precharge, 0),
        ("tRAS", |s, t| s.t_ras = Some(t), reads(row), Activate, Precharge, 0),
        ("tRP", |s, t| s.t_rp = Some(t), reads(row), Precharge, Activate, 0),
        ("tRC", |s, t| s.t_rc = Some(t), reads(row), Activate, Activate, 40),
        ("tRRD_L", |s, t| s.t_rrd_l = Some(t), reads(bank), Activate, Activate, 0),
        ("tRRD_S", |s, t| s.t_rrd_s = Some(t), reads(group), Activate, Activate, 0),
        ("tCCD_S", |s, t| s.t_ccd_s = Some(t), reads(group), Read, Read, 0),
        ("tWR", |s, t| s.t_wr = Some(t), two(pair(0, 0), read(1, row)), Write, Precharge, 22),
        ("tWTR_L", |s, t| s.t_wtr_l = Some(t), two(pair(0, 0), read(1, bank)), Write, Read, 22),
        ("tWTR_S", |s, t| s.t_wtr_s = Some(t), two(pair(0, 0), read(1, group)), Write, Read, 22),
        ("tRTW", |s, t| s.t_rtw = Some(t), two(read(0, 0), pair(1, 64)), Read, Write, 0),
        ("tCL", |s, t| s.t_cl = Some(t), two(read(0, 0), pair(1, 64)), Read, Write, 0),
    ];
    for (name, change, requests, from, to, more) in cases {
        for clocks in [60, 61, 80] {
            let mut spec = calm_part(part);
            // Nothing else is as slow.
            (spec.t_wtr_s, spec.t_rrd_s, spec.t_faw) = (Some(1), Some(1), Some(4));
            (spec.t_wtr_l, spec.t_rrd_l) = (Some(1), Some(1));
            if name == "tCCD_S" {
                spec.t_ccd_l = Some(80);
            }
            change(&mut spec, clocks);
            // The first request is at work before the other comes.
            let mut requests = requests;
            requests[1].0 = 20_000;
            let clocks = u64::from(clocks);
            let expected = match name {
                // Two bursts, tCCD_L apart; then tCWL and a burst of data.
                "tWR" | "tWTR_L" | "tWTR_S" => clocks + more,
                "tRC" => clocks.max(more),
                "tCL" => clocks + 4 + 2 - 12,
                _ => clocks,
            };
            assert_eq!(distance(&spec, &requests, from, to), expected, "{name} = {clocks}");
        }
    }
}

#[test]
fn a_fifth_activate_waits_for_t_faw() {
    for faw in [20, 21, 50] {
        let spec = DramSpec { t_faw: Some(faw), ..calm() };
        let bank = ways(&spec).next_bank;
        let requests: Vec<_> = (0..5).map(|i| (0, read(i, u64::from(i) * bank))).collect();
        let log = log_of(&spec, &requests);
        let activates: Vec<_> =
            log.iter().filter(|l| l.command == Activate).map(|l| l.clock).collect();
        assert_eq!(activates[4] - activates[0], u64::from(faw));
    }
}

#[test]
fn ranks_leave_t_rtrs_between_their_data() {
    for rtrs in [1, 5] {
        let spec = DramSpec { ranks: 2, t_rtrs: Some(rtrs), ..calm() };
        let rank = ways(&spec).next_rank;
        let at = |first, second| [(0, first), (20_000, second)];
        let reads = at(read(0, 0), read(1, rank));
        // The second was opened meanwhile.
        let all = run(Dram::new(&spec, CAPACITY, 64), &reads);
        assert!(all[1].at_ps > all[0].at_ps);
        let burst: Vec<_> = (0..20).map(|i| (0, read(i, u64::from(i % 2) * rank))).collect();
        let log = log_of(&spec, &burst);
        let reads: Vec<_> = log.iter().filter(|l| l.command == Read).collect();
        for pair in reads.windows(2).filter(|pair| pair[0].rank != pair[1].rank).skip(1) {
            assert_eq!(pair[1].clock - pair[0].clock, 4 + u64::from(rtrs));
        }
        assert!(reads.windows(2).any(|pair| pair[0].rank != pair[1].rank));
    }
}

#[test]
fn a_refresh_closes_the_rank_for_t_rfc_and_no_clock_longer() {
    let spec = spec();
    // The refresh falls due at clock 5200; an open row is closed before, in tRP; it takes 107. The
    // controller needs 2 clocks of its own.
    let wait = |arrival: u64| {
        let at_ps = (arrival - 2) * 1_500;
        let all = run(Dram::new(&spec, CAPACITY, 64), &[(0, read(0, 0)), (at_ps, read(1, 0))]);
        let mut times = tierscope_kernel::StageTimes::default();
        all[1].stages.add_to(&mut times);
        let row = times[Stage::Dram as usize] / 1_500 - 14;
        (times[Stage::DramQueue as usize] / 1_500, row)
    };
    assert_eq!(wait(5_199), (0, 0), "one clock before: the row is open and nothing is waited for");
    assert_eq!(wait(5_201), (10 - 1 + 107, 10), "at the refresh: all of it, and the row is closed");
    assert_eq!(wait(5_316), (1, 10), "one clock before its end");
    assert_eq!(wait(5_317), (0, 10), "at its end");
    assert_eq!(wait(10_380), (0, 10), "rows stay closed");
}

#[test]
fn refreshes_wait_for_requests_as_long_as_they_may() {
    for (postponed_refreshes, first) in [(0, 5_200), (1, 10_400), (8, 46_800)] {
        let spec = DramSpec { postponed_refreshes, ..spec() };
        // As many lines as can be, for longer than nine intervals.
        let requests: Vec<_> =
            (0..14_000u32).map(|i| (0, read(i, u64::from(i % 4) * 64))).collect();
        let log = log_of(&spec, &requests);
        let refreshes: Vec<_> =
            log.iter().filter(|l| l.command == Refresh).map(|l| l.clock).collect();
        let late = 40;
        assert!((first..first + late).contains(&refreshes[0]), "{refreshes:?}");
    }
}

#[test]
fn a_refresh_of_one_bank_lets_the_others_work() {
    let part = "lpddr5-6400-16gb-x16";
    let mean_ps = |refresh| {
        let spec = DramSpec { refresh, ..DramSpec::of_part(part, 1) };
        let requests: Vec<_> = random_lines(0).collect();
        let all = run(Dram::new(&spec, CAPACITY, 64), &requests);
        all.iter().map(|c| c.stages.total_ps()).max()
    };
    assert!(mean_ps(RefreshPolicy::PerBank) < mean_ps(RefreshPolicy::AllBank));
}

#[test]
fn power_down_begins_when_it_is_said_and_costs_t_xp() {
    let spec = DramSpec { power_down_after: Some(ps(150_000)), ..calm() };
    let way = ways(&spec);
    // The read is given at clock 12; data end at 26, power-down may begin at 27.
    let last = 2 + 10;
    let begin = last + 100;
    let latency = |arrival: u64| {
        let requests = [(0, read(0, 0)), ((arrival - 2) * 1_500, read(1, 64))];
        (clocks(&spec, &requests), log_of(&spec, &requests))
    };
    let (awake, log) = latency(begin);
    assert_eq!(awake, 14, "it has not begun");
    assert!(log.iter().all(|l| l.command != PowerDown));
    let (asleep, log) = latency(begin + 50);
    assert_eq!(asleep, 14 + 4, "tXP");
    let at = |command| log.iter().find(|l| l.command == command).map(|l| l.clock);
    assert_eq!((at(PowerDown), at(PowerUp)), (Some(begin), Some(begin + 50)));
    // So soon after its begin that tCKE has not passed.
    let (asleep, _) = latency(begin + 1);
    assert_eq!(asleep, 14 + 4 + 3, "tCKE, then tXP");
    let other = [(0, read(0, 0)), (1_000_000, read(1, way.next_row))];
    assert_eq!(clocks(&spec, &other), 34 + 4);
}
