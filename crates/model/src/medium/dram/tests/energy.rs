//! Energy, by hand for every part whose currents are known.

use super::*;
use standard::{BankRefresh, Currents};
use tierscope_units::Power;

const MS: u64 = 1_000_000_000;

/// Energy of a hand-made run by the data sheet's formulas: so many rows opened, lines read and
/// written, refreshes; `active` and `down` clocks; out of `all`.
struct ByHand<'a> {
    c: &'a Currents,
    chips: f64,
    period_s: f64,
}

impl ByHand<'_> {
    /// Charge over clocks, from the core's voltage.
    fn joules(&self, microamperes: f64, clocks: f64) -> f64 {
        self.c.vdd_mv as f64 / 1e3 * microamperes / 1e6 * clocks * self.period_s * self.chips
    }
}

#[test]
fn every_part_takes_what_its_data_sheet_says() {
    for (_, part) in standard::parts() {
        for shared in [None, Some(0.25), Some(1.0)] {
            takes_what_its_data_sheet_says(part, shared);
        }
    }
}

/// Three rows of a bank, one after the other, with the standby of open rows by bank (`shared` of 0),
/// or by rank as Micron's calculators have it (1).
fn takes_what_its_data_sheet_says(part: &standard::Part, shared: Option<f64>) {
    let c = &part.currents;
    let spec = DramSpec { shared_standby: shared, ..calm_part(part.name) };
    let d = description::Description::new(&spec);
    let (t, bursts) = (d.timings, 64 / d.burst_bytes);
    let mut dram = Dram::new(&spec, CAPACITY, 64);
    let mut out = Vec::new();
    let row = ways(&spec).next_row;
    // Three rows of a bank: the first is read twice, the second written, the third read.
    let two = Request { bytes: 2 * LINE, ..write(2, row) };
    for (i, request) in [read(0, 0), read(1, 64), two, read(3, 2 * row)].into_iter().enumerate() {
        let at_ps = i as u64 * 10_000_000;
        dram.advance(at_ps, &mut out);
        dram.submit(at_ps, request).expect("room");
    }
    dram.advance(MS, &mut out);
    let energy = dram.counts_and_energy(MS).1;
    let (num, den) = d.clock.period();
    let period_s = num as f64 / den as f64 * 1e-12;
    let hand = ByHand { c, chips: d.chips as f64, period_s };
    let all = MS as f64 * 1e-12 / period_s;
    let [i0, i2n, i3n, i4r, i4w] =
        [c.idd0_ua, c.idd2n_ua, c.idd3n_ua, c.idd4r_ua, c.idd4w_ua].map(|i| i as f64);
    let (rc, ras, burst) = (t.rc as f64, t.ras as f64, t.burst as f64);
    // One bank is open at a time.
    let shared_standby = shared.unwrap_or(c.shared_standby);
    let rest = (1.0 - shared_standby) / f64::from(part.groups * part.banks);
    let one_open = i2n + (shared_standby + rest) * (i3n - i2n);
    let activate = hand.joules(i0 * rc - one_open * ras - i2n * (rc - ras), 1.0);
    assert!(shared == Some(1.0) || activate > 0.0, "{}: {activate} J", part.name);
    assert_close("activate", energy.activate_j, 3.0 * activate, 1e-9);
    let bursts = bursts as f64;
    assert_close("read", energy.read_j, hand.joules(i4r - i3n, 3.0 * bursts * burst), 1e-9);
    assert_close("write", energy.write_j, hand.joules(i4w - i3n, 2.0 * bursts * burst), 1e-9);
    assert_eq!(energy.refresh_j, 0.0, "none is due");
    // Open from the first activate but for two times tRP.
    let first = (d.clock.ps_to_cycles_ceil(3_000) + d.standard.activate_clocks - 1) as f64;
    let open = all.floor() - first - 2.0 * t.rp as f64;
    assert_close("open", energy.active_standby_j, hand.joules(one_open, open), 1e-6);
    // A bank of the other pseudo-channel is never opened.
    let idle = all.floor() * f64::from(d.ranks) - open;
    assert_close("closed", energy.precharge_standby_j, hand.joules(i2n, idle), 1e-4);
    let pump = c.vpp_mv as f64 / 1e3 * c.ipp_ua as f64 / 1e6 * d.chips as f64;
    let pump_j = pump * MS as f64 * 1e-12 * f64::from(d.ranks);
    assert!((energy.pump_j - pump_j).abs() <= pump_j * 1e-6, "{}", part.name);
    let sum: f64 = energy.parts().iter().map(|(_, j)| j).sum();
    assert_eq!(energy.total_j(), sum);
    assert_eq!((energy.active_power_down_j, energy.precharge_power_down_j), (0.0, 0.0));
}

#[test]
fn standby_grows_from_idd2n_with_no_bank_open_to_idd3n_with_all() {
    for (_, part) in standard::parts() {
        let c = &part.currents;
        let spec = DramSpec { ranks: 1, ..calm_part(part.name) };
        let banks = u64::from(part.groups * part.banks);
        let d = description::Description::new(&spec);
        let watts =
            |microamperes: f64| c.vdd_mv as f64 * 1e-3 * microamperes * 1e-6 * d.chips as f64;
        for open in [0, 1, banks / 2, banks] {
            let mut dram = Dram::new(&spec, CAPACITY, 64);
            let mut out = Vec::new();
            for bank in 0..open {
                let address = bank * ways(&spec).next_group;
                dram.submit(bank * 1_000_000, read(bank as u32, address)).expect("room");
                dram.advance((bank + 1) * 1_000_000, &mut out);
            }
            // From when on all of them stay open.
            let from = dram.counts_and_energy(100_000_000).1;
            dram.advance(MS, &mut out);
            let all = dram.counts_and_energy(MS).1;
            let standby_j = |e: &DramEnergy| e.active_standby_j + e.precharge_standby_j;
            let power_w = (standby_j(&all) - standby_j(&from)) / (900_000_000.0 * 1e-12);
            let first = if open > 0 { c.shared_standby } else { 0.0 };
            let share = first + (1.0 - c.shared_standby) * open as f64 / banks as f64;
            let (none, every) = (c.idd2n_ua as f64, c.idd3n_ua as f64);
            assert_close(part.name, power_w, watts(none + share * (every - none)), 1e-4);
        }
    }
}

/// What was measured with one bank open, which the part does not hold, follows from what it holds: 71.2 mA
/// of HBM3 at 6400 MT/s, and of HBM2 0.638 mA beyond precharge standby (CMU-SAFARI/HBM-Power@318d3d1).
#[test]
fn one_open_bank_of_hbm_takes_what_was_measured() {
    for (name, measured_ma) in [("hbm3-6400-4gb", 71.2), ("hbm2-2000-8gb", 19.593 + 0.638)] {
        let (_, part) = standard::find(name).expect("a part");
        let c = part.currents;
        let share = c.shared_standby + (1.0 - c.shared_standby) / 16.0;
        let one_ma = (c.idd2n_ua as f64 + share * (c.idd3n_ua - c.idd2n_ua) as f64) * 1e-3;
        assert!((one_ma / measured_ma - 1.0).abs() < 5e-4, "{name}: {one_ma} mA");
    }
}

#[test]
fn refreshes_take_idd5_over_t_rfc_whether_of_all_banks_or_of_each() {
    for (standard, part) in standard::parts() {
        let c = &part.currents;
        let refresh = match standard.bank_refresh {
            BankRefresh::None => crate::medium::RefreshPolicy::AllBank,
            BankRefresh::Single => crate::medium::RefreshPolicy::PerBank,
            BankRefresh::SameInEveryGroup => crate::medium::RefreshPolicy::SameBank,
        };
        for refresh in [crate::medium::RefreshPolicy::AllBank, refresh] {
            let spec = DramSpec { refresh, ranks: 1, ..DramSpec::of_part(part.name, 1) };
            let dram = Dram::new(&spec, CAPACITY, 64);
            let d = dram.description();
            let count = (MS / d.timings.refi_ps) as f64;
            let (num, den) = d.clock.period();
            let hand =
                ByHand { c, chips: d.chips as f64, period_s: num as f64 / den as f64 * 1e-12 };
            let one = hand.joules((c.idd5b_ua - c.idd3n_ua) as f64, d.timings.rfc as f64);
            let energy = dram.counts_and_energy(MS).1;
            assert_close(part.name, energy.refresh_j, count * one, 0.005);
        }
    }
}

#[test]
fn power_down_takes_less_by_its_share_of_the_time() {
    let asleep = DramSpec { power_down_after: Some(ps(100_000)), ..calm() };
    let c = standard::find(&asleep.part).expect("a part").1.currents;
    let energy = |spec: &DramSpec, open: bool| {
        let mut dram = Dram::new(spec, CAPACITY, 64);
        let mut out = Vec::new();
        if open {
            dram.submit(0, read(0, 0)).expect("room");
        }
        dram.advance(MS, &mut out);
        dram.counts_and_energy(MS).1
    };
    let watts = |microamperes: u64| 1.5 * microamperes as f64 * 1e-6 * 8.0;
    assert_close("awake", energy(&calm(), false).total_j(), watts(c.idd2n_ua) * 1e-3, 1e-3);
    let closed = energy(&asleep, false);
    assert_close("asleep", closed.precharge_power_down_j, watts(c.idd2p_ua) * 1e-3, 1e-3);
    let open = energy(&asleep, true);
    let one_of_eight = watts(c.idd2p_ua) + (watts(c.idd3p_ua) - watts(c.idd2p_ua)) / 8.0;
    assert_close("asleep, a row open", open.active_power_down_j, one_of_eight * 1e-3, 1e-3);
    let micron = DramSpec { shared_standby: Some(1.0), ..asleep };
    let open = energy(&micron, true);
    assert_close("as Micron has it", open.active_power_down_j, watts(c.idd3p_ua) * 1e-3, 1e-3);
}

/// Lines that are read and written: data lines, a strobe a byte (one a chip of four bits), and masks.
#[test]
fn drivers_and_termination_take_their_powers_while_data_move() {
    let milliwatts = |[read, write, other_read, other_write]: [u64; 4]| InterfaceSpec {
        read_power: Power::from_nanowatts(read * 1_000_000),
        write_power: Power::from_nanowatts(write * 1_000_000),
        other_read_power: Power::from_nanowatts(other_read * 1_000_000),
        other_write_power: Power::from_nanowatts(other_write * 1_000_000),
    };
    let own = milliwatts([5, 20, 15, 16]);
    // Milliwatts of all lines of the bus, to be read and to be written.
    for (part, interface, ranks, expected_mw) in [
        ("ddr3-1333-2gb-x8", None, 1, [72.0 * 4.6, 80.0 * 21.2]),
        ("ddr3-1333-2gb-x8", None, 2, [72.0 * (4.6 + 15.5), 80.0 * (21.2 + 15.4)]),
        ("ddr2-667-1gb-x8", None, 2, [72.0 * (1.5 + 13.1), 80.0 * (8.2 + 14.6)]),
        ("ddr4-2400-8gb-x8", None, 1, [72.0 * 3.7, 80.0 * 17.0]),
        ("ddr4-2133-4gb-x4", None, 2, [80.0 * (3.7 + 12.4), 80.0 * (17.0 + 12.3)]),
        ("ddr4-2133-4gb-x4", Some(own.clone()), 1, [80.0 * 5.0, 80.0 * 20.0]),
        ("ddr5-4800-16gb-x8", None, 2, [36.0 * (11.73 + 4.0), 40.0 * (4.15 + 6.44)]),
        ("ddr5-4800-16gb-x8", Some(own.clone()), 2, [36.0 * 20.0, 40.0 * 36.0]),
    ] {
        let spec = DramSpec { interface, ranks, ..calm_part(part) };
        let mut dram = Dram::new(&spec, CAPACITY, 64);
        let requests: Vec<_> = (0..30u32)
            .map(|i| (0, Request { write: i < 10, ..read(i, u64::from(i) * 64) }))
            .collect();
        play(&mut dram, &requests, &mut Vec::new());
        let found = dram.interface_energy(MS);
        let d = dram.description();
        let (period_ps, of) = d.clock.period();
        let bursts = 64 / d.burst_bytes;
        let line_s = (bursts * d.timings.burst * period_ps) as f64 / of as f64 * 1e-12;
        assert_close(part, found.read_j, 20.0 * line_s * expected_mw[0] * 1e-3, 1e-9);
        assert_close(part, found.write_j, 10.0 * line_s * expected_mw[1] * 1e-3, 1e-9);
    }
    // A pseudo-channel has a bus of its own: nobody else terminates it.
    let hbm = |other| {
        let interface = Some(milliwatts([5, 20, other, other]));
        let spec = DramSpec { interface, ..calm_part("hbm2-2000-8gb") };
        let mut dram = Dram::new(&spec, CAPACITY, 64);
        play(&mut dram, &[(0, read(0, 0)), (0, write(1, 4096))], &mut Vec::new());
        dram.interface_energy(MS)
    };
    assert_eq!(hbm(0), hbm(40));
}
