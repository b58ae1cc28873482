//! Energy by the method of Micron's power calculators (TN-40-07 for DDR4, TN-41-01 for DDR3):
//! currents of a data sheet over the times that a rank spent in each state, and what each command
//! takes beyond. The interface (termination, drivers) is not part of it.
//!
//! JEDEC measures IDD3N and IDD3P with the rows of all banks open, and IDD0 with one bank open at a
//! time (JESD79-4, IDD measurement conditions). So standby is charged by open bank, after DRAMPower
//! (tukl-msd/DRAMPower@d8b980a: core_calculation_DDR4.cpp): of IDD3N − IDD2N the share ρ falls due
//! with the first open bank, the rest bank by bank. Micron's calculators have ρ = 1.

use super::channel::Channel;
use super::rules::Rules;
use super::standard::Currents;

/// Where a DRAM's energy went, in joules.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct DramEnergy {
    /// Opening rows and closing them.
    pub activate_j: f64,
    /// Reading bursts.
    pub read_j: f64,
    /// Writing bursts.
    pub write_j: f64,
    /// Refreshing.
    pub refresh_j: f64,
    /// Standby with some row of a rank open: more, the more banks have one.
    pub active_standby_j: f64,
    /// Standby with all rows of a rank closed.
    pub precharge_standby_j: f64,
    /// Power-down with some row of a rank open.
    pub active_power_down_j: f64,
    /// Power-down with all rows of a rank closed.
    pub precharge_power_down_j: f64,
    /// The pump of the word lines, where a standard feeds it by itself.
    pub pump_j: f64,
}

impl DramEnergy {
    /// The parts, by name.
    pub fn parts(&self) -> [(&'static str, f64); 9] {
        [
            ("activate", self.activate_j),
            ("read", self.read_j),
            ("write", self.write_j),
            ("refresh", self.refresh_j),
            ("active_standby", self.active_standby_j),
            ("precharge_standby", self.precharge_standby_j),
            ("active_power_down", self.active_power_down_j),
            ("precharge_power_down", self.precharge_power_down_j),
            ("pump", self.pump_j),
        ]
    }

    /// All of it.
    pub fn total_j(&self) -> f64 {
        self.parts().iter().map(|(_, joules)| joules).sum()
    }

    pub(super) fn plus(self, other: &DramEnergy) -> Self {
        DramEnergy {
            activate_j: self.activate_j + other.activate_j,
            read_j: self.read_j + other.read_j,
            write_j: self.write_j + other.write_j,
            refresh_j: self.refresh_j + other.refresh_j,
            active_standby_j: self.active_standby_j + other.active_standby_j,
            precharge_standby_j: self.precharge_standby_j + other.precharge_standby_j,
            active_power_down_j: self.active_power_down_j + other.active_power_down_j,
            precharge_power_down_j: self.precharge_power_down_j + other.precharge_power_down_j,
            pump_j: self.pump_j + other.pump_j,
        }
    }
}

/// What a channel took up to clock `now`, until which it has run.
pub(super) fn of_channel(rules: &Rules, channel: &mut Channel, now: u64) -> DramEnergy {
    let currents = rules.description.currents;
    let clocks = Clocks { rules, currents: &currents };
    for rank in 0..channel.ranks.len() as u32 {
        channel.wake(rules, rank, now);
    }
    let ranks = channel.ranks.iter();
    ranks.fold(DramEnergy::default(), |sum, rank| {
        let residency = rank.residency.until(now);
        let closed = now.saturating_sub(residency.active + residency.precharged_down);
        sum.plus(&DramEnergy {
            activate_j: residency.activates as f64 * clocks.activate_j(),
            read_j: residency.reads as f64 * clocks.burst_j(currents.idd4r_ua),
            write_j: residency.writes as f64 * clocks.burst_j(currents.idd4w_ua),
            refresh_j: rank.refresh.done as f64 * clocks.refresh_j(),
            active_standby_j: clocks.open_j(
                [currents.idd2n_ua, currents.idd3n_ua],
                residency.active - residency.active_down,
                residency.bank_clocks - residency.bank_clocks_down,
            ),
            precharge_standby_j: clocks.standby_j(currents.idd2n_ua, closed),
            active_power_down_j: clocks.open_j(
                [currents.idd2p_ua, currents.idd3p_ua],
                residency.active_down,
                residency.bank_clocks_down,
            ),
            precharge_power_down_j: clocks.standby_j(currents.idd2p_ua, residency.precharged_down),
            pump_j: clocks.joules(currents.vpp_mv, currents.ipp_ua as f64, now as f64),
        })
    })
}

struct Clocks<'a> {
    rules: &'a Rules,
    currents: &'a Currents,
}

impl Clocks<'_> {
    /// A current into all chips of a rank for so many clocks.
    fn joules(&self, millivolts: u64, microamperes: f64, clocks: f64) -> f64 {
        let (period_ps, of) = self.rules.clock.period();
        let seconds = clocks * period_ps as f64 / of as f64 * 1e-12;
        let watts = millivolts as f64 * 1e-3 * microamperes * 1e-6;
        watts * seconds * self.rules.description.chips as f64
    }

    fn core_j(&self, microamperes: f64, clocks: f64) -> f64 {
        self.joules(self.currents.vdd_mv, microamperes, clocks)
    }

    fn standby_j(&self, microamperes: u64, clocks: u64) -> f64 {
        self.core_j(microamperes as f64, clocks as f64)
    }

    /// Time with some row open, given the currents with all banks closed and with all open: the
    /// shared part for the time, the rest for that of each bank.
    fn open_j(&self, [closed, open]: [u64; 2], clocks: u64, bank_clocks: u64) -> f64 {
        let (of_first, of_each) = self.shares();
        let more = open as f64 - closed as f64;
        self.core_j(closed as f64 + of_first * more, clocks as f64)
            + self.core_j(of_each * more, bank_clocks as f64)
    }

    /// What the first open bank of a rank takes of the difference that all make, beside its own, and
    /// what each takes.
    fn shares(&self) -> (f64, f64) {
        let d = &self.rules.description;
        let banks = f64::from(d.banks_of_rank());
        (d.shared_standby, (1.0 - d.shared_standby) / banks)
    }

    /// IDD0 over tRC, without the standby that is counted anyway: that of one open bank over tRAS,
    /// then IDD2N.
    fn activate_j(&self) -> f64 {
        let (t, c) = (&self.rules.timings, self.currents);
        self.core_j(c.idd0_ua as f64, t.rc as f64)
            - self.open_j([c.idd2n_ua, c.idd3n_ua], t.ras, t.ras)
            - self.core_j(c.idd2n_ua as f64, (t.rc - t.ras) as f64)
    }

    fn burst_j(&self, microamperes: u64) -> f64 {
        let more = microamperes as f64 - self.currents.idd3n_ua as f64;
        self.core_j(more, self.rules.timings.burst as f64)
    }

    /// A refresh of one bank takes its share of one of all.
    fn refresh_j(&self) -> f64 {
        let more = self.currents.idd5b_ua as f64 - self.currents.idd3n_ua as f64;
        let share = f64::from(self.rules.description.refresh_units);
        self.core_j(more, self.rules.timings.rfc as f64) / share
    }
}
