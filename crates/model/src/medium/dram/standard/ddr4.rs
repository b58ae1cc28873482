//! DDR4 (JEDEC JESD79-4C): four bank groups of four banks, bursts of eight.

use super::super::interface::InterfacePowers;
use super::rules::{BANK, GROUPS, POWER_DOWN, RANK, SHARED_BUS};
use super::{BankRefresh, Currents, Part, Standard, Timings};

/// The standard.
pub const DDR4: Standard = Standard {
    name: "DDR4",
    source: "JEDEC JESD79-4C",
    transfers_per_clock: 2,
    burst_length: 8,
    two_command_buses: false,
    activate_clocks: 1,
    column_clocks: 1,
    rank_is_pseudo_channel: false,
    bank_refresh: BankRefresh::None,
    most_postponed: 8, // JESD79-4C 4.26, in the 1x refresh mode
    interface: INTERFACE,
    rules: &[BANK, RANK, GROUPS, SHARED_BUS, POWER_DOWN],
    parts: &[DDR4_2133_8GB_X8, DDR4_2133_4GB_X4, DDR4_2400_8GB_X8],
};

/// DRAMPower (TU Delft, 2012 to 2014; MemorySpecification.h, `getIoPower`, `getWrOdtPower`,
/// `getTermRdPower`, `getTermWrPower`), which calls them conservative estimates by
/// Micron's power calculator for DDR3, with the terminations of its DDR4 data sheets.
const INTERFACE: InterfacePowers = InterfacePowers {
    read_uw: 3_700,
    write_uw: 17_000,
    other_read_uw: 12_400,
    other_write_uw: 12_300,
};

/// Two clocks between read and write data: RL + BL/2 + 2 − WL (JESD79-4C 4.24, preamble of one).
const DDR4_2133: Timings = Timings {
    burst: 4,
    cl: 16,
    cwl: 11,
    rcd: 16,
    rcd_wr: 16,
    rp: 16,
    rp_all: 16,
    ras: 36,
    rc: 52,
    wr: 16,
    rtp: 8,
    ccd_s: 4,
    ccd_l: 6,
    ccd_l_wr: 6,
    rrd_s: 4,
    rrd_l: 6,
    faw: 23,
    wtr_s: 3,
    wtr_l: 8,
    rtw_gap: 2,
    rtrs: 1,
    xp: 7,
    cke: 6,
    rfc_ps: 350_000,
    refi_ps: 7_800_000,
    ..Timings::NONE
};

const DDR4_2133_8GB_X8: Part = Part {
    name: "ddr4-2133-8gb-x8",
    source: "umd-memsys/DRAMsim3@2981759:configs/DDR4_8Gb_x8_2133.ini; CMU-SAFARI/ramulator2@c5b1c3a:python/ramulator/dram/ddr4.py, DDR4_2133R, agrees (tRFC of 360 ns there)",
    three_transfers_per_second: 6_400_000_000,
    chip_bits: 8,
    bus_bits: 64,
    groups: 4,
    banks: 4,
    row_bytes: 1024,
    timings: DDR4_2133,
    currents: Currents {
        vdd_mv: 1_200,
        vpp_mv: 2_500,
        idd0_ua: 45_000,
        idd2p_ua: 25_000,
        idd2n_ua: 33_000,
        idd3p_ua: 35_000,
        idd3n_ua: 40_000,
        idd4r_ua: 125_000,
        idd4w_ua: 115_000,
        idd5b_ua: 250_000,
        ipp_ua: 3_000,
        shared_standby: 0.0,
    },
};

/// Sixteen of them make the single-rank 8 GB module of \[HAMS21\].
const DDR4_2133_4GB_X4: Part = Part {
    name: "ddr4-2133-4gb-x4",
    source: "umd-memsys/DRAMsim3@2981759:configs/DDR4_4Gb_x4_2133.ini; CMU-SAFARI/ramulator2@c5b1c3a:python/ramulator/dram/ddr4.py, DDR4_2133R, agrees",
    three_transfers_per_second: 6_400_000_000,
    chip_bits: 4,
    bus_bits: 64,
    groups: 4,
    banks: 4,
    row_bytes: 512,
    timings: Timings { faw: 16, rfc_ps: 260_000, ..DDR4_2133 },
    currents: Currents {
        vdd_mv: 1_200,
        vpp_mv: 2_500,
        idd0_ua: 55_000,
        idd2p_ua: 27_000,
        idd2n_ua: 42_000,
        idd3p_ua: 40_000,
        idd3n_ua: 55_000,
        idd4r_ua: 135_000,
        idd4w_ua: 155_000,
        idd5b_ua: 170_000,
        ipp_ua: 3_000,
        shared_standby: 0.0,
    },
};

const DDR4_2400_8GB_X8: Part = Part {
    name: "ddr4-2400-8gb-x8",
    source: "umd-memsys/DRAMsim3@2981759:configs/DDR4_8Gb_x8_2400.ini; gem5/gem5@1db206b:src/mem/DRAMInterface.py DDR4_2400_8x8 and CMU-SAFARI/ramulator2@c5b1c3a, DDR4_2400U, agree",
    three_transfers_per_second: 7_200_000_000,
    chip_bits: 8,
    bus_bits: 64,
    groups: 4,
    banks: 4,
    row_bytes: 1024,
    timings: Timings {
        burst: 4,
        cl: 17,
        cwl: 12,
        rcd: 17,
        rcd_wr: 17,
        rp: 17,
        rp_all: 17,
        ras: 39,
        rc: 56,
        wr: 18,
        rtp: 9,
        ccd_s: 4,
        ccd_l: 6,
        ccd_l_wr: 6,
        rrd_s: 4,
        rrd_l: 6,
        faw: 26,
        wtr_s: 3,
        wtr_l: 9,
        rtw_gap: 2,
        rtrs: 1,
        xp: 8,
        cke: 6,
        rfc_ps: 350_000,
        refi_ps: 7_800_000,
        ..Timings::NONE
    },
    currents: Currents {
        vdd_mv: 1_200,
        vpp_mv: 2_500,
        idd0_ua: 48_000,
        idd2p_ua: 25_000,
        idd2n_ua: 34_000,
        idd3p_ua: 37_000,
        idd3n_ua: 43_000,
        idd4r_ua: 135_000,
        idd4w_ua: 123_000,
        idd5b_ua: 250_000,
        ipp_ua: 3_000,
        shared_standby: 0.0,
    },
};
