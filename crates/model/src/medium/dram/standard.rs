//! DRAM standards: what a standard says of commands, timings and organization, as data.
//!
//! Each standard is a file below, made of tables: its constraints (which command follows which, how
//! closely, where) and its parts (organization, timings and currents of a chip, each with its
//! source). The controller and the protocol checker read the tables and share nothing else.

mod ddr2;
mod ddr3;
mod ddr4;
mod ddr5;
mod hbm2;
mod hbm3;
mod lpddr5;
mod rules;

use super::interface::InterfacePowers;
use Command::*;

/// Every standard.
pub const STANDARDS: &[&Standard] = &[
    &ddr2::DDR2,
    &ddr3::DDR3,
    &ddr4::DDR4,
    &ddr5::DDR5,
    &lpddr5::LPDDR5,
    &hbm2::HBM2,
    &hbm3::HBM3,
];

/// What a controller tells a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Command {
    /// Opens a row of a bank.
    Activate,
    /// Closes the row of a bank.
    Precharge,
    /// Closes the rows of all banks of a rank.
    PrechargeAll,
    /// Reads a burst of the open row.
    Read,
    /// Writes a burst to the open row.
    Write,
    /// Reads a burst and closes the row by itself.
    ReadPrecharge,
    /// Writes a burst and closes the row by itself.
    WritePrecharge,
    /// Refreshes all banks of a rank.
    Refresh,
    /// Refreshes one bank, or one of every bank group, while the others work.
    RefreshBank,
    /// Begins power-down: the clock is disabled.
    PowerDown,
    /// Ends power-down.
    PowerUp,
}

impl Command {
    /// All commands, in order of their numbers.
    pub const ALL: [Command; 11] = [
        Activate,
        Precharge,
        PrechargeAll,
        Read,
        Write,
        ReadPrecharge,
        WritePrecharge,
        Refresh,
        RefreshBank,
        PowerDown,
        PowerUp,
    ];

    /// The name in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Activate => "ACT",
            Precharge => "PRE",
            PrechargeAll => "PREA",
            Read => "RD",
            Write => "WR",
            ReadPrecharge => "RDA",
            WritePrecharge => "WRA",
            Refresh => "REF",
            RefreshBank => "REFB",
            PowerDown => "PDE",
            PowerUp => "PDX",
        }
    }

    /// Whether it goes over the column command bus, where there are two.
    pub const fn is_column(self) -> bool {
        matches!(self, Read | Write | ReadPrecharge | WritePrecharge)
    }

    /// Whether it goes over a command bus at all: power-down is a pin of its own.
    pub const fn takes_a_slot(self) -> bool {
        !matches!(self, PowerDown | PowerUp)
    }
}

/// What the next command is, as far as timing goes: with or without precharge is the same to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Next {
    /// [`Command::Activate`].
    Activate,
    /// [`Command::Precharge`] and [`Command::PrechargeAll`].
    Precharge,
    /// [`Command::Read`] and [`Command::ReadPrecharge`].
    Read,
    /// [`Command::Write`] and [`Command::WritePrecharge`].
    Write,
    /// [`Command::Refresh`].
    Refresh,
    /// [`Command::RefreshBank`].
    RefreshBank,
    /// [`Command::PowerDown`].
    PowerDown,
    /// [`Command::PowerUp`].
    PowerUp,
}

impl Next {
    /// How many there are.
    pub const COUNT: usize = 8;
}

impl From<Command> for Next {
    #[inline]
    fn from(command: Command) -> Next {
        match command {
            Activate => Next::Activate,
            Precharge | PrechargeAll => Next::Precharge,
            Read | ReadPrecharge => Next::Read,
            Write | WritePrecharge => Next::Write,
            Refresh => Next::Refresh,
            RefreshBank => Next::RefreshBank,
            PowerDown => Next::PowerDown,
            PowerUp => Next::PowerUp,
        }
    }
}

/// Where a constraint holds between two commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Scope {
    /// Both go to the same bank.
    Bank,
    /// Both go to the same bank group.
    Group,
    /// Both go to the same rank.
    Rank,
    /// They go to different ranks of a channel.
    OtherRank,
}

/// A rule: after a command of `after`, none of `next` comes within `scope` before `clocks`.
#[derive(Clone, Copy, Debug)]
pub struct Constraint {
    /// Where it holds.
    pub scope: Scope,
    /// The earlier command.
    pub after: &'static [Command],
    /// The later one.
    pub next: &'static [Next],
    /// Clocks from one to the other.
    pub clocks: fn(&Timings) -> u64,
}

/// Timings of a part, in clocks but where the name ends in `_ps`. 0 where the standard has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// The data of a column command are on the bus for so long: BL over transfers a clock.
    pub burst: u64,
    /// Column read to first data.
    pub cl: u64,
    /// Column write to first data.
    pub cwl: u64,
    /// Activate to read.
    pub rcd: u64,
    /// Activate to write.
    pub rcd_wr: u64,
    /// Precharge to activate.
    pub rp: u64,
    /// Precharge of all banks to activate.
    pub rp_all: u64,
    /// Activate to precharge.
    pub ras: u64,
    /// Activate to activate of one bank.
    pub rc: u64,
    /// End of write data to precharge.
    pub wr: u64,
    /// Read to precharge.
    pub rtp: u64,
    /// Column command to column command, other bank groups.
    pub ccd_s: u64,
    /// Read to read in a bank group.
    pub ccd_l: u64,
    /// Write to write in a bank group.
    pub ccd_l_wr: u64,
    /// Activate to activate, other bank groups.
    pub rrd_s: u64,
    /// Activate to activate in a bank group.
    pub rrd_l: u64,
    /// No five activates of a rank within so long.
    pub faw: u64,
    /// End of write data to read, other bank groups.
    pub wtr_s: u64,
    /// End of write data to read in a bank group.
    pub wtr_l: u64,
    /// Read to write of a rank: tCL + burst + [`Timings::rtw_gap`] − tCWL.
    pub rtw: u64,
    /// Between the data of a read and those of a write behind it.
    pub rtw_gap: u64,
    /// Between the data of different ranks.
    pub rtrs: u64,
    /// Precharge to precharge of a rank.
    pub ppd: u64,
    /// End of power-down to any command.
    pub xp: u64,
    /// Least time in power-down, and out of it.
    pub cke: u64,
    /// Refresh of all banks to the next command, in clocks, from [`Timings::rfc_ps`].
    pub rfc: u64,
    /// Refresh of a bank to the next command to it, in clocks, from [`Timings::rfc_bank_ps`].
    pub rfc_bank: u64,
    /// Refresh of a bank to an activate of another, in clocks, from [`Timings::rrefd_ps`].
    pub rrefd: u64,
    /// Refresh of a bank to that of another, in clocks, from [`Timings::rfc_to_rfc_bank_ps`].
    pub rfc_to_rfc_bank: u64,
    /// Refresh of all banks to the next command.
    pub rfc_ps: u64,
    /// Refresh of one bank to the next command to it.
    pub rfc_bank_ps: u64,
    /// Refresh of one bank to an activate of another.
    pub rrefd_ps: u64,
    /// Refresh of one bank to that of another.
    pub rfc_to_rfc_bank_ps: u64,
    /// Mean time between refreshes of all banks.
    pub refi_ps: u64,
}

impl Timings {
    /// Nothing yet: parts name what they have.
    pub const NONE: Timings = Timings {
        burst: 0,
        cl: 0,
        cwl: 0,
        rcd: 0,
        rcd_wr: 0,
        rp: 0,
        rp_all: 0,
        ras: 0,
        rc: 0,
        wr: 0,
        rtp: 0,
        ccd_s: 0,
        ccd_l: 0,
        ccd_l_wr: 0,
        rrd_s: 0,
        rrd_l: 0,
        faw: 0,
        wtr_s: 0,
        wtr_l: 0,
        rtw: 0,
        rtw_gap: 0,
        rtrs: 0,
        ppd: 0,
        xp: 0,
        cke: 0,
        rfc: 0,
        rfc_bank: 0,
        rrefd: 0,
        rfc_to_rfc_bank: 0,
        rfc_ps: 0,
        rfc_bank_ps: 0,
        rrefd_ps: 0,
        rfc_to_rfc_bank_ps: 0,
        refi_ps: 0,
    };
}

/// Currents of one chip, in microamperes, and its voltages, in millivolts; named as in data
/// sheets. `None` where no source was found: then energy is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Currents {
    /// Core voltage.
    pub vdd_mv: u64,
    /// Voltage of the word-line pump; 0 where a standard has none.
    pub vpp_mv: u64,
    /// One bank: activate to precharge, over and over.
    pub idd0_ua: u64,
    /// Precharge power-down.
    pub idd2p_ua: u64,
    /// Precharge standby.
    pub idd2n_ua: u64,
    /// Active power-down.
    pub idd3p_ua: u64,
    /// Active standby.
    pub idd3n_ua: u64,
    /// Reading without a pause.
    pub idd4r_ua: u64,
    /// Writing without a pause.
    pub idd4w_ua: u64,
    /// Refreshing without a pause.
    pub idd5b_ua: u64,
    /// From the pump: standby, and reading and writing.
    pub ipp_ua: u64,
    /// Of what active standby takes beyond precharge standby, the share of the first open bank; 0 where
    /// no source says it.
    pub shared_standby: f64,
}

/// Refreshes that a standard has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BankRefresh {
    /// All banks only.
    None,
    /// Also of a single bank.
    Single,
    /// Also of the same bank of every bank group.
    SameInEveryGroup,
}

/// A standard.
#[derive(Debug)]
pub struct Standard {
    /// Its name: `DDR4`.
    pub name: &'static str,
    /// Where it is written.
    pub source: &'static str,
    /// Transfers of a data line in one clock of the commands.
    pub transfers_per_clock: u64,
    /// Transfers of a burst.
    pub burst_length: u32,
    /// Whether row and column commands have a bus each.
    pub two_command_buses: bool,
    /// Clocks that an activate takes on the command bus. The timing counts from the last.
    pub activate_clocks: u64,
    /// Clocks that a column command takes on the command bus.
    pub column_clocks: u64,
    /// What a rank is called there: a pseudo-channel has a data bus of its own.
    pub rank_is_pseudo_channel: bool,
    /// Refreshes of a bank alone.
    pub bank_refresh: BankRefresh,
    /// Refreshes of all banks that may be owed at most.
    pub most_postponed: u32,
    /// What drivers and termination of its data bus take.
    pub interface: InterfacePowers,
    /// Its rules.
    pub rules: &'static [&'static [Constraint]],
    /// Its parts.
    pub parts: &'static [Part],
}

/// A chip, or a stack of them, of one speed.
#[derive(Debug)]
pub struct Part {
    /// How a description calls it: `ddr4-2400-8gb-x8`.
    pub name: &'static str,
    /// Where its figures were found.
    pub source: &'static str,
    /// Transfers a second: numerator, over 3. Rates are multiples of 33⅓ MT/s.
    pub three_transfers_per_second: u64,
    /// Data lines of a chip.
    pub chip_bits: u32,
    /// Data lines of a channel of it (of a pseudo-channel).
    pub bus_bits: u32,
    /// Bank groups.
    pub groups: u32,
    /// Banks of a bank group.
    pub banks: u32,
    /// Bytes of a row of one chip.
    pub row_bytes: u64,
    /// Its timings.
    pub timings: Timings,
    /// Its currents.
    pub currents: Currents,
}

/// The part of this name and its standard.
pub fn find(name: &str) -> Option<(&'static Standard, &'static Part)> {
    parts().find(|(_, part)| part.name == name)
}

/// Every part of every standard.
pub fn parts() -> impl Iterator<Item = (&'static Standard, &'static Part)> {
    STANDARDS.iter().flat_map(|standard| standard.parts.iter().map(move |part| (*standard, part)))
}

impl Standard {
    /// Every rule.
    pub fn constraints(&self) -> impl Iterator<Item = &'static Constraint> + use<> {
        self.rules.iter().flat_map(|rules| rules.iter())
    }

    /// Clocks that a command takes on its bus.
    pub fn command_clocks(&self, command: Command) -> u64 {
        match command {
            Activate => self.activate_clocks,
            command if command.is_column() => self.column_clocks,
            _ => 1,
        }
    }
}
