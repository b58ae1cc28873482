//! DDR3 (JEDEC JESD79-3F): eight banks, no bank groups, bursts of eight.

use super::super::interface::InterfacePowers;
use super::rules::{BANK, POWER_DOWN, RANK, SHARED_BUS};
use super::{BankRefresh, Currents, Part, Standard, Timings};

/// The standard.
pub const DDR3: Standard = Standard {
    name: "DDR3",
    source: "JEDEC JESD79-3F",
    transfers_per_clock: 2,
    burst_length: 8,
    two_command_buses: false,
    activate_clocks: 1,
    column_clocks: 1,
    rank_is_pseudo_channel: false,
    bank_refresh: BankRefresh::None,
    most_postponed: 8, // JESD79-3F 4.15
    interface: INTERFACE,
    rules: &[BANK, RANK, SHARED_BUS, POWER_DOWN],
    parts: &[DDR3_1333_2GB_X8, DDR3_1600_4GB_X8],
};

/// DRAMPower (TU Delft, 2012 to 2014; MemorySpecification.h, `getIoPower`, `getWrOdtPower`,
/// `getTermRdPower`, `getTermWrPower`), which calls them conservative estimates by
/// Micron's power calculator for DDR3.
const INTERFACE: InterfacePowers = InterfacePowers {
    read_uw: 4_600,
    write_uw: 21_200,
    other_read_uw: 15_500,
    other_write_uw: 15_400,
};

/// The part of \[HYB15\] table 2 (10-10-10-24). tCWL, which DRAMSim2 takes as CL − 1, is that of
/// the standard at this speed.
const DDR3_1333_2GB_X8: Part = Part {
    name: "ddr3-1333-2gb-x8",
    source: "umd-memsys/DRAMSim2@753819a:ini/DDR3_micron_32M_8B_x8_sg15.ini; tCWL and the turn from read to write: CMU-SAFARI/ramulator2@c5b1c3a:python/ramulator/dram/ddr3.py",
    three_transfers_per_second: 4_000_000_000,
    chip_bits: 8,
    bus_bits: 64,
    groups: 1,
    banks: 8,
    row_bytes: 1024,
    timings: Timings {
        burst: 4,
        cl: 10,
        cwl: 7,
        rcd: 10,
        rcd_wr: 10,
        rp: 10,
        rp_all: 10,
        ras: 24,
        rc: 34,
        wr: 10,
        rtp: 5,
        ccd_s: 4,
        ccd_l: 4,
        ccd_l_wr: 4,
        rrd_s: 4,
        rrd_l: 4,
        faw: 20,
        wtr_s: 5,
        wtr_l: 5,
        rtw_gap: 2,
        rtrs: 1,
        xp: 4,
        cke: 4,
        rfc_ps: 160_500,
        refi_ps: 7_800_000,
        ..Timings::NONE
    },
    currents: Currents {
        vdd_mv: 1_500,
        vpp_mv: 0,
        idd0_ua: 130_000,
        idd2p_ua: 10_000,
        idd2n_ua: 70_000,
        idd3p_ua: 60_000,
        idd3n_ua: 90_000,
        idd4r_ua: 255_000,
        idd4w_ua: 300_000,
        idd5b_ua: 305_000,
        ipp_ua: 0,
        shared_standby: 0.0,
    },
};

const DDR3_1600_4GB_X8: Part = Part {
    name: "ddr3-1600-4gb-x8",
    source: "umd-memsys/DRAMsim3@2981759:configs/DDR3_4Gb_x8_1600.ini; gem5/gem5@1db206b:src/mem/DRAMInterface.py DDR3_1600_8x8 agrees (VDD 1.5 V there)",
    three_transfers_per_second: 4_800_000_000,
    chip_bits: 8,
    bus_bits: 64,
    groups: 1,
    banks: 8,
    row_bytes: 1024,
    timings: Timings {
        burst: 4,
        cl: 11,
        cwl: 8,
        rcd: 11,
        rcd_wr: 11,
        rp: 11,
        rp_all: 11,
        ras: 28,
        rc: 39,
        wr: 12,
        rtp: 6,
        ccd_s: 4,
        ccd_l: 4,
        ccd_l_wr: 4,
        rrd_s: 5,
        rrd_l: 5,
        faw: 24,
        wtr_s: 6,
        wtr_l: 6,
        rtw_gap: 2,
        rtrs: 1,
        xp: 5,
        cke: 4,
        rfc_ps: 260_000,
        refi_ps: 7_800_000,
        ..Timings::NONE
    },
    currents: Currents {
        vdd_mv: 1_350,
        vpp_mv: 0,
        idd0_ua: 55_000,
        idd2p_ua: 18_000,
        idd2n_ua: 32_000,
        idd3p_ua: 38_000,
        idd3n_ua: 38_000,
        idd4r_ua: 157_000,
        idd4w_ua: 125_000,
        idd5b_ua: 235_000,
        ipp_ua: 0,
        shared_standby: 0.0,
    },
};
