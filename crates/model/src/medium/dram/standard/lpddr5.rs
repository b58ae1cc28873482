//! LPDDR5 (JEDEC JESD209-5B): channels of 16 bits, four bank groups of four banks, bursts of sixteen;
//! four data clocks to one of the commands. The data clock is taken as running; ACT-1 and ACT-2 as
//! one command of two clocks.

use super::super::interface::InterfacePowers;
use super::Command::Write;
use super::Command::WritePrecharge;
use super::Scope::Group;
use super::rules::{BANK, BANK_REFRESH, GROUPS, POWER_DOWN, RANK, SHARED_BUS, rule};
use super::{BankRefresh, Constraint, Currents, Next, Part, Standard, Timings};

/// The standard.
pub const LPDDR5: Standard = Standard {
    name: "LPDDR5",
    source: "JEDEC JESD209-5B",
    transfers_per_clock: 8,
    burst_length: 16,
    two_command_buses: false,
    activate_clocks: 2,
    column_clocks: 1,
    rank_is_pseudo_channel: false,
    bank_refresh: BankRefresh::Single,
    most_postponed: 8, // JESD209-5B 7.5.1
    interface: INTERFACE,
    rules: &[BANK, RANK, GROUPS, SHARED_BUS, BANK_REFRESH, POWER_DOWN, WRITE_TO_READ],
    parts: &[LPDDR5_6400_16GB_X16],
};

/// In a bank group the array is busy for BL/n_max = 2 × BL/n_min clocks (JESD209-5B tables 330 to
/// 332).
const WRITE_TO_READ: &[Constraint] =
    &[rule(Group, &[Write, WritePrecharge], &[Next::Read], |t| t.cwl + 2 * t.burst + t.wtr_l)];

/// Reads: VDDQ's 111.9 mA at 0.5 V (IDD4RQ of table 18, typical) over 16 data lines and two strobes. A line
/// that is written is driven by the other end alike: our reading. Who is not written does not terminate.
const INTERFACE: InterfacePowers =
    InterfacePowers { read_uw: 3_100, write_uw: 3_100, other_read_uw: 0, other_write_uw: 0 };

const LPDDR5_6400_16GB_X16: Part = Part {
    name: "lpddr5-6400-16gb-x16",
    source: "CMU-SAFARI/ramulator2@c5b1c3a:python/ramulator/dram/lpddr5.py, LPDDR5_6400; gem5/gem5@1db206b:src/mem/DRAMInterface.py LPDDR5_6400_1x16_BG_BL16 agrees in tCL, tCCD_L, tRRD, tFAW and tXP and has tRCD and tRP of 18 ns, tRAS of 42 ns (15 clocks are 18.75 ns, 34 are 42.5); tCKE as tXP; currents: Micron Y52P LPDDR5X (MT62F1G32D2 family, Rev. H, 03/2025), table 18, dies of 16 Gb, x16 at 7500 Mb/s, the most over process, temperature and voltage, as a public simulator quotes it, the sheet itself was not at hand: VDD1 (1.8 V) counted at the voltage of VDD2H (1.05 V), bursts at 6400 Mb/s with as much energy a bit; of VDD1 in refresh and power-down, and of active power-down, our reading",
    three_transfers_per_second: 19_200_000_000,
    chip_bits: 16,
    bus_bits: 16,
    groups: 4,
    banks: 4,
    row_bytes: 2048,
    timings: Timings {
        burst: 2,
        cl: 17,
        cwl: 9,
        rcd: 15,
        rcd_wr: 15,
        rp: 15,
        rp_all: 17,
        ras: 34,
        rc: 49,
        wr: 28,
        rtp: 8,
        ccd_s: 2,
        ccd_l: 4,
        ccd_l_wr: 4,
        rrd_s: 4,
        rrd_l: 4,
        faw: 16,
        wtr_s: 5,
        wtr_l: 10,
        rtw_gap: 2,
        rtrs: 2,
        ppd: 2,
        xp: 6,
        cke: 6,
        rfc_ps: 280_000,
        rfc_bank_ps: 140_000,
        rrefd_ps: 7_500,
        rfc_to_rfc_bank_ps: 90_000,
        refi_ps: 3_906_000,
        ..Timings::NONE
    },
    // In milliamperes of VDD2H and VDD1: IDD0 53 and 3.8, IDD2N 32.5 and 1.5, IDD3N 40 and 2.8, IDD4R 390
    // and 18, IDD4W 265 and 16.5, IDD5 205, IDD2P 3.9. Of VDD1 not quoted: IDD5, taken as IDD3N, and IDD2P,
    // as IDD2N. IDD3P is not either: power-down takes off as much as with all rows closed.
    currents: Currents {
        vdd_mv: 1_050,
        vpp_mv: 0,
        idd0_ua: 59_514,
        idd2p_ua: 6_471,
        idd2n_ua: 35_071,
        idd3p_ua: 16_200,
        idd3n_ua: 44_800,
        idd4r_ua: 365_702,
        idd4w_ua: 256_841,
        idd5b_ua: 209_800,
        ipp_ua: 0,
        shared_standby: 0.0,
    },
};
