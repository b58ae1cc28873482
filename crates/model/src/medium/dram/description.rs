//! A description resolved: the part's figures, overridden by the user's, in clocks.
//!
//! This is all that controller and checker have in common.

use super::super::{DramSpec, RefreshPolicy};
use super::interface::InterfaceSpec;
use super::standard::{Currents, Standard, Timings, find};
use tierscope_kernel::Clock;
use tierscope_units::{Problems, TransferRate};

/// The standards' rates are multiples of this over three, called by the whole number next to them.
const RATE_STEP: u64 = 400_000_000;

/// DRAM as it is built.
#[derive(Clone, Debug)]
pub struct Description {
    /// Its standard.
    pub standard: &'static Standard,
    /// The command clock.
    pub clock: Clock,
    /// Its timings.
    pub timings: Timings,
    /// Currents of a chip.
    pub currents: Currents,
    /// Share of what standby with all banks open takes beyond that with none, that the first open
    /// bank takes.
    pub shared_standby: f64,
    /// What drivers and termination take, where known.
    pub interface: InterfaceSpec,
    /// Data lines of a channel.
    pub data_lines: u64,
    /// Strobes of these: one a byte, at least one a chip.
    pub strobes: u64,
    /// Masks of these: one a byte of a chip.
    pub masks: u64,
    /// Chips of a rank.
    pub chips: u64,
    /// Channels.
    pub channels: u32,
    /// Ranks of a channel.
    pub ranks: u32,
    /// Bank groups of a rank.
    pub groups: u32,
    /// Banks of a bank group.
    pub banks: u32,
    /// Bytes of a row, over all chips of a rank.
    pub row_bytes: u64,
    /// Bytes that a column command moves.
    pub burst_bytes: u64,
    /// Refreshes of a rank that make one of all banks: 1 where all are refreshed at once.
    pub refresh_units: u32,
    /// Of these, how many may be owed.
    pub most_owed: u32,
}

impl Description {
    /// Resolves a description.
    ///
    /// # Panics
    /// If its part is not known: it has been checked ([`DramSpec::check`]).
    pub fn new(spec: &DramSpec) -> Self {
        let Some((standard, part)) = find(&spec.part) else {
            panic!("the part {} is not known, though it was checked", spec.part);
        };
        let rate = spec.data_rate.map(three_transfers_per_second);
        let rate = rate.unwrap_or(part.three_transfers_per_second);
        let clock = clock(rate, standard.transfers_per_clock);
        let bus_bits = spec.bus_bits.unwrap_or(part.bus_bits);
        let chip_bits = u64::from(part.chip_bits);
        let chips = u64::from(bus_bits).div_ceil(chip_bits);
        let (groups, banks) =
            (spec.bank_groups.unwrap_or(part.groups), spec.banks.unwrap_or(part.banks));
        let refresh_units = match spec.refresh {
            RefreshPolicy::AllBank => 1,
            RefreshPolicy::PerBank => groups.saturating_mul(banks),
            RefreshPolicy::SameBank => banks,
        };
        Description {
            standard,
            clock,
            timings: timings(spec, &part.timings, clock),
            currents: part.currents,
            shared_standby: spec.shared_standby.unwrap_or(part.currents.shared_standby),
            interface: spec
                .interface
                .clone()
                .unwrap_or_else(|| InterfaceSpec::of_standard(&standard.interface)),
            data_lines: u64::from(bus_bits),
            strobes: chips * chip_bits.div_ceil(8),
            masks: chips * (chip_bits / 8),
            chips,
            channels: spec.channels,
            ranks: spec.ranks,
            groups,
            banks,
            row_bytes: spec.row.map_or(part.row_bytes * chips, |row| row.bytes()),
            burst_bytes: u64::from(bus_bits / 8) * u64::from(standard.burst_length),
            refresh_units,
            most_owed: spec.postponed_refreshes.saturating_mul(refresh_units),
        }
    }

    /// What all data buses together can move at most, in bytes a second.
    pub fn peak_bytes_per_s(&self) -> f64 {
        let per_channel = if self.standard.rank_is_pseudo_channel { self.ranks } else { 1 };
        let (period_ps, of) = self.clock.period();
        let burst_s = (self.timings.burst * period_ps) as f64 / of as f64 * 1e-12;
        f64::from(self.channels * per_channel) * self.burst_bytes as f64 / burst_s
    }

    /// Banks of a rank.
    pub fn banks_of_rank(&self) -> u32 {
        self.groups * self.banks
    }

    /// When refresh `k` (from 0) of a rank falls due, in clocks: ranks are spread evenly, and nothing
    /// accumulates when one is late.
    pub fn refresh_due(&self, rank: u32, k: u64) -> u64 {
        let units = u128::from(self.refresh_units);
        let refi_ps = u128::from(self.timings.refi_ps);
        let share = u128::from(rank + 1) * refi_ps / (u128::from(self.ranks) * units);
        let due_ps = share + u128::from(k) * refi_ps / units;
        self.clock.ps_to_cycles_ceil(u64::try_from(due_ps).unwrap_or(u64::MAX))
    }
}

/// Three times the rate that is meant: 1333 and 1334 MT/s are 1333⅓, 1600 are 1600.
pub fn three_transfers_per_second(rate: TransferRate) -> u64 {
    let transfers_per_second = rate.transfers_per_second();
    let exact = transfers_per_second.saturating_mul(3);
    let nearest = (exact + RATE_STEP / 2) / RATE_STEP * RATE_STEP;
    let whole_mega = transfers_per_second.is_multiple_of(1_000_000);
    if whole_mega && exact.abs_diff(nearest) < 3_000_000 { nearest } else { exact }
}

fn clock(three_transfers_per_second: u64, transfers_per_clock: u64) -> Clock {
    // Hertz times three, then a period three times as long: never rounded.
    Clock::from_hertz(three_transfers_per_second.max(1)).scaled(3 * transfers_per_clock, 1)
}

fn timings(spec: &DramSpec, part: &Timings, clock: Clock) -> Timings {
    let or = |own: Option<u32>, parts: u64| own.map_or(parts, u64::from);
    let of = |ps: u64| clock.ps_to_cycles_ceil(ps);
    let (ras, rp) = (or(spec.t_ras, part.ras), or(spec.t_rp, part.rp));
    let sum = if (ras, rp) == (part.ras, part.rp) { part.rc } else { ras + rp };
    let (cl, cwl) = (or(spec.t_cl, part.cl), or(spec.t_cwl, part.cwl));
    let turn = (cl + part.burst + part.rtw_gap).saturating_sub(cwl).max(1);
    let (rfc_ps, rfc_bank_ps) = (
        spec.t_rfc.map_or(part.rfc_ps, |t| t.picoseconds()),
        spec.t_rfc_bank.map_or(part.rfc_bank_ps, |t| t.picoseconds()),
    );
    let ccd_l = or(spec.t_ccd_l, part.ccd_l);
    Timings {
        burst: part.burst,
        cl,
        cwl,
        rcd: or(spec.t_rcd, part.rcd),
        rcd_wr: or(spec.t_rcd, part.rcd_wr),
        rp,
        rp_all: rp + part.rp_all - part.rp,
        ras,
        rc: or(spec.t_rc, sum),
        wr: or(spec.t_wr, part.wr),
        rtp: or(spec.t_rtp, part.rtp),
        ccd_s: or(spec.t_ccd_s, part.ccd_s),
        ccd_l,
        ccd_l_wr: or(spec.t_ccd_l, part.ccd_l_wr),
        rrd_s: or(spec.t_rrd_s, part.rrd_s),
        rrd_l: or(spec.t_rrd_l, part.rrd_l),
        faw: or(spec.t_faw, part.faw),
        wtr_s: or(spec.t_wtr_s, part.wtr_s),
        wtr_l: or(spec.t_wtr_l, part.wtr_l),
        rtw: or(spec.t_rtw, turn),
        rtw_gap: part.rtw_gap,
        rtrs: or(spec.t_rtrs, part.rtrs),
        ppd: part.ppd,
        xp: or(spec.t_xp, part.xp),
        cke: or(spec.t_cke, part.cke),
        rfc: of(rfc_ps).max(1),
        rfc_bank: of(rfc_bank_ps),
        rrefd: of(part.rrefd_ps),
        rfc_to_rfc_bank: of(part.rfc_to_rfc_bank_ps),
        rfc_ps,
        rfc_bank_ps,
        rrefd_ps: part.rrefd_ps,
        rfc_to_rfc_bank_ps: part.rfc_to_rfc_bank_ps,
        refi_ps: spec.t_refi.map_or(part.refi_ps, |t| t.picoseconds()),
    }
}

/// Collects contradictions between the timings of a description whose numbers are right.
pub fn check(spec: &DramSpec, path: &str, problems: &mut Problems) {
    let description = Description::new(spec);
    let timings = description.timings;
    let mut contradiction = |name: &str, value: String, reason: String, mend: String| {
        problems.add("contradiction", format!("{path}.{name}"), value, reason, mend);
    };
    if timings.ras < timings.rcd {
        contradiction(
            "t_ras",
            timings.ras.to_string(),
            format!("a row stays open at least for t_rcd = {}", timings.rcd),
            format!("write {} or more", timings.rcd),
        );
    }
    if timings.rc < timings.ras + timings.rp {
        contradiction(
            "t_rc",
            timings.rc.to_string(),
            format!("t_ras + t_rp are {}", timings.ras + timings.rp),
            format!("write {} or more, or leave it out", timings.ras + timings.rp),
        );
    }
    if timings.ccd_l < timings.ccd_s {
        contradiction(
            "t_ccd_l",
            timings.ccd_l.to_string(),
            format!("between bank groups t_ccd_s = {} must pass", timings.ccd_s),
            format!("write {} or more", timings.ccd_s),
        );
    }
    let spaced = |ps: u64| tierscope_units::Duration::from_picoseconds(ps).to_string();
    let units = u64::from(description.refresh_units);
    let (name, refresh, refresh_ps) = if units == 1 {
        ("t_rfc", timings.rfc, timings.rfc_ps)
    } else {
        ("t_rfc_bank", timings.rfc_bank, timings.rfc_bank_ps)
    };
    // A row cycle of a write must fit between two refreshes of a bank, and a refresh of the next
    // bank must be allowed when it is due.
    let access =
        timings.rc.max(timings.rcd + timings.cwl + timings.burst + timings.wr + timings.rp);
    let needed = description.clock.cycles_to_ps(refresh + 2 * access);
    let apart = description.clock.cycles_to_ps(timings.rfc_to_rfc_bank + 1);
    if timings.refi_ps <= needed || units > 1 && timings.refi_ps / units <= apart {
        contradiction(
            name,
            spaced(refresh_ps),
            format!("refreshes come every {}: too little would be left", spaced(timings.refi_ps)),
            "write less, or a longer t_refi".into(),
        );
    }
}
