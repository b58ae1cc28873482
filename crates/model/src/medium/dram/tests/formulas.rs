//! Rung 1: latencies and bandwidths by closed formulas.

use super::standard::Command;
use super::*;
use crate::medium::RefreshPolicy;

#[test]
fn an_unloaded_request_takes_what_the_formula_says() {
    let spec = calm();
    let way = ways(&spec);
    let burst = 4;
    assert_eq!(clocks(&spec, &[(0, read(0, 0))]), 10 + 10 + burst, "closed: tRCD + tCL");
    let two = Request { bytes: 2 * LINE, ..write(0, 0) };
    assert_eq!(clocks(&spec, &[(0, two)]), 10 + 7 + 2 * burst, "closed: tRCD + tCWL");
    assert_eq!(clocks(&spec, &[(0, write(0, 0))]), 0, "a line to write is taken for good");
    let hit = [(0, read(0, 0)), (LATER_PS, read(1, 64))];
    assert_eq!(clocks(&spec, &hit), 10 + burst, "hit: tCL");
    let conflict = [(0, read(0, 0)), (LATER_PS, read(1, way.next_row))];
    assert_eq!(clocks(&spec, &conflict), 10 + 10 + 10 + burst, "conflict: tRP + tRCD + tCL");
    let page = Request { bytes: PAGE, ..read(0, 0) };
    assert_eq!(clocks(&spec, &[(0, page)]), 10 + 10 + 64 * burst, "a page: 64 bursts");
}

#[test]
fn every_part_answers_an_unloaded_line_as_its_formula_says() {
    for part in parts() {
        let spec = calm_part(part);
        let d = description::Description::new(&spec);
        let (t, standard) = (d.timings, d.standard);
        let activate = standard.activate_clocks - 1;
        let column = standard.column_clocks - 1;
        let bursts = 64 / d.burst_bytes;
        let apart = |same_group: u64| if d.groups == 1 { t.ccd_s } else { same_group }.max(t.burst);
        let reading = t.cl + (bursts - 1) * apart(t.ccd_l) + t.burst;
        let writing = t.cwl + (2 * bursts - 1) * apart(t.ccd_l_wr) + t.burst;
        let closed = clocks(&spec, &[(0, read(0, 0))]);
        assert_eq!(closed, activate + t.rcd + reading, "{part}: closed");
        let closed = clocks(&spec, &[(0, Request { bytes: 2 * LINE, ..write(0, 0) })]);
        assert_eq!(closed, activate + t.rcd_wr + writing, "{part}: two lines written");
        let hit = [(0, read(0, 0)), (LATER_PS, read(1, 64))];
        assert_eq!(clocks(&spec, &hit), column + reading, "{part}: hit");
        let conflict = [(0, read(0, 0)), (LATER_PS, read(1, ways(&spec).next_row))];
        assert_eq!(clocks(&spec, &conflict), t.rp + t.rcd + reading, "{part}: conflict");
    }
}

#[test]
fn stages_name_the_controller_the_commands_and_the_wait() {
    let spec = calm();
    let requests = [(1, read(0, 0)), (1, read(1, ways(&spec).next_row))];
    let all = run(Dram::new(&spec, CAPACITY, 64), &requests);
    let stages: Vec<Vec<_>> = all.iter().map(|c| c.stages.iter().collect()).collect();
    // Submitted 1 ps behind a clock edge: the wait for the next edge is the queue's.
    let first = [(Stage::Controller, 3_000), (Stage::DramQueue, 1_499), (Stage::Dram, 36_000)];
    assert_eq!(stages[0], first);
    // Behind the first activate: tRAS, tRP, tRCD, tCL and a burst, of which 34 clocks are its own.
    let wait_ps = 1_499 + (24 + 10 + 10 + 10 + 4 - 34) * 1_500;
    let second = [(Stage::Controller, 3_000), (Stage::DramQueue, wait_ps), (Stage::Dram, 51_000)];
    assert_eq!(stages[1], second);
}

/// Successive lines to successive channels and bank groups: the order in which groups need not wait.
const INTERLEAVED: &str = "ro-ra-ba-co-bg-ch";

#[test]
fn every_part_reaches_the_peak_of_its_bus() {
    for part in parts() {
        for channels in [1, 3] {
            let mapping = INTERLEAVED.to_owned();
            let mut spec = DramSpec { channels, mapping, ..calm_part(part) };
            let d = description::Description::new(&spec);
            let mut buses = channels;
            if d.standard.rank_is_pseudo_channel {
                spec.mapping = "ro-ba-co-bg-ra-ch".into();
                buses *= 2;
            }
            let (period_ps, of) = d.clock.period();
            // Two bursts of a line go to one bank group, and others fill the gap between.
            let burst_s = (d.timings.burst * period_ps) as f64 / of as f64 * 1e-12;
            let peak = f64::from(buses) * d.burst_bytes as f64 / burst_s;
            assert_eq!(d.peak_bytes_per_s(), peak, "{part}");
            for (what, bytes, write) in
                [("lines", LINE, false), ("written pages", PAGE, true), ("pages", PAGE, false)]
            {
                let one = |i| Request { bytes, write, ..read(i as u32, i * u64::from(bytes)) };
                let count = 4_000_000 / u64::from(bytes);
                let reached = bandwidth(&spec, count, one);
                let name = format!("{part}, {channels} channels, {what}");
                // DDR5 writes to a bank group wait for tCCD_L_WR: eight groups hide 64 of its 48
                // clocks.
                assert_close(&name, reached, peak, 0.01);
            }
        }
    }
}

#[test]
fn lines_of_one_bank_group_come_every_t_ccd_l() {
    let spec = calm_part("ddr4-2400-8gb-x8");
    let rate = |mapping: &str| {
        let spec = DramSpec { mapping: mapping.into(), ..spec.clone() };
        bandwidth(&spec, 100_000, |i| read(i as u32, i % 128 * 64))
    };
    let clock_s = 1e-9 / 1.2;
    assert_close("one row", rate("ro-ra-ba-bg-co-ch"), 64.0 / (6.0 * clock_s), 0.01);
    assert_close("over groups", rate(INTERLEAVED), 64.0 / (4.0 * clock_s), 0.01);
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
        let spec = DramSpec { t_rfc: Some(ps(t_rfc_ps)), t_refi: Some(ps(t_refi_ps)), ..spec() };
        // Each refresh also closes all rows: tRTP and tRP before it, and tRCD + tCL after it until
        // the bus has data again; the read before it had tCL and a burst to go.
        let lost_ps = t_rfc_ps + (5 + 10 + 10) * 1_500;
        let left = 1.0 - lost_ps as f64 / t_refi_ps as f64;
        assert_close("refresh", bandwidth(&spec, 200_000, line), peak * left, 0.005);
    }
}

#[test]
fn every_part_loses_to_refreshes_the_time_that_they_close_its_rank() {
    for part in parts() {
        let mapping = INTERLEAVED.to_owned();
        let calm = DramSpec { ranks: 1, mapping, ..calm_part(part) };
        let spec = DramSpec { t_refi: None, refresh: RefreshPolicy::AllBank, ..calm.clone() };
        let d = description::Description::new(&spec);
        let (t, (period_ps, of)) = (d.timings, d.clock.period());
        // All rows are closed and opened again: tRTP, tRP, tRFC, tRCD between two lines.
        let activate = d.standard.activate_clocks - 1;
        let lost = t.rtp + t.rp_all + t.rfc + activate + t.rcd;
        let lost_ps = (lost * period_ps) as f64 / of as f64;
        let line = |i| read(i as u32, i * 64);
        let (with, without) = (bandwidth(&spec, 100_000, line), bandwidth(&calm, 100_000, line));
        let left = 1.0 - lost_ps / t.refi_ps as f64;
        // 0.7 % off with LPDDR5, at most 0.2 % with others: banks are opened one after the other.
        assert_close(part, with, without * left, 0.008);
    }
}

#[test]
fn every_part_gives_as_many_commands_as_its_requests_need() {
    for part in parts() {
        let spec = DramSpec { postponed_refreshes: 0, ..calm_part(part) };
        let (next_row, lines) = (ways(&spec).next_row, 7);
        // Rows of one bank, seven lines of each, one after the other.
        let one = |i: u64| read(i as u32, i / lines * next_row + i % lines * 64);
        let requests: Vec<_> = (0..10 * lines).map(|i| (i * LATER_PS, one(i))).collect();
        let mut dram = Dram::new(&spec, CAPACITY, 64);
        dram.start_log();
        play(&mut dram, &requests, &mut Vec::new());
        let counts = dram.counts();
        let rows = (counts.row_closed, counts.row_conflicts, counts.row_hits);
        assert_eq!(rows, (1, 9, 60), "{part}: rows");
        let log = dram.take_log(0, true);
        let given = |command| log.iter().filter(|logged| logged.command == command).count() as u64;
        let bursts = 64 / dram.description().burst_bytes;
        assert_eq!(given(Command::Activate), 10, "{part}: activates");
        assert_eq!(given(Command::Precharge), 9, "{part}: precharges");
        assert_eq!(given(Command::Read), 10 * lines * bursts, "{part}: reads");
        assert_eq!(log.len() as u64, 19 + 10 * lines * bursts, "{part}: others");

        // Each rank of an idle part is refreshed every tREFI, or a share of it so much more often.
        let spec = DramSpec { t_refi: None, ..spec };
        let d = description::Description::new(&spec);
        let idle = Dram::new(&spec, CAPACITY, 64);
        let (counts, _) = idle.counts_and_energy(100 * d.timings.refi_ps);
        let (ranks, units) = (u64::from(d.ranks), u64::from(d.refresh_units));
        let fallen_due = counts.refreshes as f64 / (ranks * units) as f64;
        assert!((99.0..=101.0).contains(&fallen_due), "{part}: {} refreshes", counts.refreshes);
    }
}

#[test]
fn conflicts_in_one_bank_come_every_t_rc() {
    let spec = calm();
    let next_row = ways(&spec).next_row;
    let one = |i| read(i as u32, i * next_row);
    assert_close("tRC", bandwidth(&spec, 2_000, one), 64.0 / ((24 + 10) as f64 * 1.5e-9), 0.002);
    let one = |i| Request { bytes: 2 * LINE, ..write(i as u32, i * next_row) };
    let between = (10 + 7 + 2 * 4 + 10 + 10) as f64;
    assert_close(
        "tRCD + tCWL + two bursts + tWR + tRP",
        bandwidth(&spec, 2_000, one),
        128.0 / (between * 1.5e-9),
        0.002,
    );
}

#[test]
fn activates_come_no_faster_than_t_faw_allows() {
    // A line of each of eight banks, row after row: four activates in 40 clocks.
    let spec = DramSpec { t_faw: Some(40), t_rtp: Some(5), ..calm() };
    let way = ways(&spec);
    let one = |i| read(i as u32, i * way.next_bank);
    assert_close("tFAW", bandwidth(&spec, 8_000, one), 4.0 * 64.0 / (40.0 * 1.5e-9), 0.005);
}

#[test]
fn a_clock_of_a_third_of_a_picosecond_does_not_drift() {
    let spec = DramSpec { mapping: INTERLEAVED.into(), ..calm_part("ddr4-2400-8gb-x8") };
    let mut dram = Dram::new(&spec, CAPACITY, 64);
    let clock = dram.description().clock;
    assert_eq!(clock.period(), (2_500, 3));
    let mut out = Vec::new();
    let lines = 3_000_000;
    for i in 0..lines {
        while dram.submit(0, read(0, i % 64 * 64)).is_err() {
            let next_ps = dram.next_event_ps().expect("a full device has something to do");
            dram.advance(next_ps, &mut out);
        }
    }
    dram.advance(u64::MAX, &mut out);
    let end = clock.ps_to_cycles_ceil(3_000) + 17 + 17 + 4 * lines;
    assert_eq!(out.last().map(|last| last.at_ps), Some(end * 2_500 / 3));
}

#[test]
fn rates_are_meant_as_the_standards_call_them() {
    let period = |rate: u64| {
        let data_rate = Some(tierscope_units::TransferRate::from_transfers_per_second(rate));
        let spec = DramSpec { data_rate, ..spec() };
        description::Description::new(&spec).clock.period()
    };
    assert_eq!(period(1_333_000_000), (1_500, 1));
    assert_eq!(period(1_334_000_000), (1_500, 1));
    assert_eq!(period(2_133_000_000), (1_875, 2));
    assert_eq!(period(2_400_000_000), (2_500, 3));
    assert_eq!(period(500_000_000), (4_000, 1));
    assert_eq!(period(1_000_000_000), (2_000, 1));
    assert_eq!(period(1_333_333_000), (2_000_000_000, 1_333_333));
}
