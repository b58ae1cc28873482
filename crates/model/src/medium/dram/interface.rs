//! Energy of a data bus: drivers and termination, which the currents of a data sheet leave out.
//!
//! Micron's method (TN-41-01, "DQ power"; TN-47-04 before it): a power for each data line and strobe that
//! a chip drives, for each that it terminates while it is written, the masks included, and for each that
//! another rank of the channel terminates meanwhile; each for as long as data move.

use super::description::Description;
use super::rank::Rank;
use serde::{Deserialize, Serialize};
use tierscope_units::Power;

/// What drivers and termination take, for each line of the data bus, while data move on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InterfaceSpec {
    /// A data line or strobe that a chip drives, to be read.
    pub read_power: Power,
    /// A data line, strobe or mask that the written chip terminates.
    pub write_power: Power,
    /// A data line or strobe that another rank terminates while one is read, where a channel has several.
    pub other_read_power: Power,
    /// A data line, strobe or mask that another rank terminates while one is written.
    pub other_write_power: Power,
}

/// The same for a standard, in microwatts, with its source; see [`InterfaceSpec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfacePowers {
    /// A line that is read.
    pub read_uw: u64,
    /// A line that is written.
    pub write_uw: u64,
    /// A line that another rank terminates while one is read.
    pub other_read_uw: u64,
    /// A line that another rank terminates while one is written.
    pub other_write_uw: u64,
}

impl InterfacePowers {
    /// Nothing besides the currents, in which what the data bus takes was measured with the rest; nobody
    /// terminates it.
    pub const IN_CURRENTS: InterfacePowers =
        InterfacePowers { read_uw: 0, write_uw: 0, other_read_uw: 0, other_write_uw: 0 };
}

/// What drivers and termination of a DRAM took, in joules.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InterfaceEnergy {
    /// While it was read.
    pub read_j: f64,
    /// While it was written.
    pub write_j: f64,
}

impl InterfaceSpec {
    /// Of a standard.
    pub(super) fn of_standard(powers: &InterfacePowers) -> Self {
        let of = |microwatts: u64| Power::from_nanowatts(microwatts * 1_000);
        InterfaceSpec {
            read_power: of(powers.read_uw),
            write_power: of(powers.write_uw),
            other_read_power: of(powers.other_read_uw),
            other_write_power: of(powers.other_write_uw),
        }
    }
}

impl InterfaceEnergy {
    pub(super) fn plus(self, other: &InterfaceEnergy) -> Self {
        InterfaceEnergy {
            read_j: self.read_j + other.read_j,
            write_j: self.write_j + other.write_j,
        }
    }
}

/// What the data bus of a channel took for the bursts of its ranks. In HBM a rank has one of its own.
pub(super) fn of_channel(d: &Description, ranks: &[Rank]) -> InterfaceEnergy {
    let powers = &d.interface;
    let (period_ps, of) = d.clock.period();
    let burst_s = (d.timings.burst * period_ps) as f64 / of as f64 * 1e-12;
    let others = f64::from(u8::from(d.ranks > 1 && !d.standard.rank_is_pseudo_channel));
    let joules = |own: Power, other: Power, lines: u64, bursts: u64| {
        let watts = (own.nanowatts() as f64 + others * other.nanowatts() as f64) * 1e-9;
        watts * lines as f64 * bursts as f64 * burst_s
    };
    let [reads, writes] = ranks.iter().fold([0, 0], |[reads, writes], rank| {
        [reads + rank.residency.reads, writes + rank.residency.writes]
    });
    let read_lines = d.data_lines + d.strobes;
    InterfaceEnergy {
        read_j: joules(powers.read_power, powers.other_read_power, read_lines, reads),
        write_j: joules(powers.write_power, powers.other_write_power, read_lines + d.masks, writes),
    }
}
