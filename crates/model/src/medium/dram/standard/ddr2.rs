//! DDR2 (JEDEC JESD79-2F): eight banks, bursts of eight here (four exist), additive latency 0.

use super::super::interface::InterfacePowers;
use super::Command::{Read, ReadPrecharge};
use super::Scope::{Bank, Rank};
use super::rules::{BANK, POWER_DOWN, RANK, SHARED_BUS, rule};
use super::{BankRefresh, Constraint, Currents, Next, Part, Standard, Timings};

/// The standard.
pub const DDR2: Standard = Standard {
    name: "DDR2",
    source: "JEDEC JESD79-2F",
    transfers_per_clock: 2,
    burst_length: 8,
    two_command_buses: false,
    activate_clocks: 1,
    column_clocks: 1,
    rank_is_pseudo_channel: false,
    bank_refresh: BankRefresh::None,
    most_postponed: 8, // JESD79-2F 3.9
    interface: INTERFACE,
    rules: &[BANK, RANK, SHARED_BUS, POWER_DOWN, READ_TO_PRECHARGE],
    parts: &[DDR2_667_1GB_X8, DDR2_667_1GB_X8_AT_500],
};

/// DRAMPower (TU Delft, 2012 to 2014; MemorySpecification.h, `getIoPower`, `getWrOdtPower`,
/// `getTermRdPower`, `getTermWrPower`), which calls them conservative estimates by
/// Micron's power calculator for DDR2.
const INTERFACE: InterfacePowers = InterfacePowers {
    read_uw: 1_500,
    write_uw: 8_200,
    other_read_uw: 13_100,
    other_write_uw: 14_600,
};

/// A precharge may cut no burst: AL + BL/2 + max(tRTP, 2) − 2 clocks behind a read (JESD79-2F).
const READ_TO_PRECHARGE: &[Constraint] = &[
    rule(Bank, &[Read], &[Next::Precharge], read_to_precharge),
    rule(Bank, &[ReadPrecharge], &[Next::Activate], |t| read_to_precharge(t) + t.rp),
    rule(Rank, &[ReadPrecharge], &[Next::Refresh], |t| read_to_precharge(t) + t.rp),
];

fn read_to_precharge(t: &Timings) -> u64 {
    t.burst + t.rtp.max(2) - 2
}

const CURRENTS: Currents = Currents {
    vdd_mv: 1_800,
    vpp_mv: 0,
    idd0_ua: 85_000,
    idd2p_ua: 7_000,
    idd2n_ua: 40_000,
    idd3p_ua: 30_000,
    idd3n_ua: 55_000,
    idd4r_ua: 135_000,
    idd4w_ua: 135_000,
    idd5b_ua: 215_000,
    ipp_ua: 0,
    shared_standby: 0.0,
};

const DDR2_667_1GB_X8: Part = Part {
    name: "ddr2-667-1gb-x8",
    source: "umd-memsys/DRAMSim2@753819a:ini/DDR2_micron_16M_8b_x8_sg3E.ini; read to write: JEDEC JESD79-2F, BL/2 + 2",
    three_transfers_per_second: 2_000_000_000,
    chip_bits: 8,
    bus_bits: 64,
    groups: 1,
    banks: 8,
    row_bytes: 1024,
    timings: Timings {
        burst: 4,
        cl: 4,
        cwl: 3,
        rcd: 4,
        rcd_wr: 4,
        rp: 4,
        rp_all: 4,
        ras: 14,
        rc: 18,
        wr: 5,
        rtp: 3,
        ccd_s: 2,
        ccd_l: 2,
        ccd_l_wr: 2,
        rrd_s: 3,
        rrd_l: 3,
        faw: 13,
        wtr_s: 3,
        wtr_l: 3,
        rtw_gap: 1,
        rtrs: 1,
        xp: 2,
        cke: 3,
        rfc_ps: 129_000,
        refi_ps: 7_800_000,
        ..Timings::NONE
    },
    currents: CURRENTS,
};

/// The same chip in \[NVM10\]'s HASTE, whose controllers run it at 250 MHz: its times, in whole
/// clocks of 4 ns. Currents stay those of full speed, an upper bound.
const DDR2_667_1GB_X8_AT_500: Part = Part {
    name: "ddr2-667-1gb-x8-at-500",
    source: "ddr2-667-1gb-x8 in clocks of 4 ns: tCL, tRCD and tRP 12 ns, tRAS 42 ns, tWR 15 ns, tFAW 39 ns, tRTP, tWTR and tRRD 9 ns, rounded up; 500 MT/s: [NVM10]",
    three_transfers_per_second: 1_500_000_000,
    timings: Timings {
        cl: 3,
        cwl: 2,
        rcd: 3,
        rcd_wr: 3,
        rp: 3,
        rp_all: 3,
        ras: 11,
        rc: 14,
        wr: 4,
        rtp: 3,
        rrd_s: 3,
        rrd_l: 3,
        faw: 10,
        wtr_s: 3,
        wtr_l: 3,
        ..DDR2_667_1GB_X8.timings
    },
    ..DDR2_667_1GB_X8
};
