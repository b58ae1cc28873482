//! HBM3 (JEDEC JESD238): channels of 64 bits in two pseudo-channels of 32, which share row and column
//! command buses and have data buses of their own; bursts of eight, four transfers to a clock.
//! Activates of 1.5 clocks are taken as two, other row commands of half a clock as one; one stack
//! level (SID).

use super::super::interface::InterfacePowers;
use super::rules::{BANK, BANK_REFRESH, GROUPS, POWER_DOWN, RANK};
use super::{BankRefresh, Currents, Part, Standard, Timings};

/// The standard. A rank is a pseudo-channel: two of them are a channel.
pub const HBM3: Standard = Standard {
    name: "HBM3",
    source: "JEDEC JESD238",
    transfers_per_clock: 4,
    burst_length: 8,
    two_command_buses: true,
    activate_clocks: 2,
    column_clocks: 1,
    rank_is_pseudo_channel: true,
    bank_refresh: BankRefresh::Single,
    most_postponed: 8, // JESD238 (remembered, not confirmed)
    interface: InterfacePowers::IN_CURRENTS,
    rules: &[BANK, RANK, GROUPS, BANK_REFRESH, POWER_DOWN],
    parts: &[HBM3_6400_4GB],
};

const HBM3_6400_4GB: Part = Part {
    name: "hbm3-6400-4gb",
    source: "CMU-SAFARI/ramulator2@c5b1c3a:python/ramulator/dram/hbm3.py, HBM3_6400Mbps and HBM3_4Gb; tRFCsb of 320 clocks there; tXP and tCKE: 7.5 ns as HBM2 (assumption); currents of a pseudo-channel: CMU-SAFARI/HBM-Power@318d3d1:config/HBM3E_6400MTs, extrapolated there from measured HBM2 and held against an H200, with random data by its energy a bit; power-down by the ratios to standby of DRAMsim3's HBM2 (assumption)",
    three_transfers_per_second: 19_200_000_000,
    chip_bits: 32,
    bus_bits: 32,
    groups: 4,
    banks: 4,
    row_bytes: 1024,
    timings: Timings {
        burst: 2,
        cl: 20,
        cwl: 10,
        rcd: 31,
        rcd_wr: 15,
        rp: 26,
        rp_all: 26,
        ras: 45,
        rc: 72,
        wr: 33,
        rtp: 9,
        ccd_s: 2,
        ccd_l: 4,
        ccd_l_wr: 4,
        rrd_s: 4,
        rrd_l: 5,
        faw: 24,
        wtr_s: 7,
        wtr_l: 10,
        rtw_gap: 8,
        ppd: 2,
        xp: 12,
        cke: 12,
        rfc_ps: 260_000,
        rfc_bank_ps: 200_000,
        rrefd_ps: 8_000,
        rfc_to_rfc_bank_ps: 8_000,
        refi_ps: 3_900_000,
        ..Timings::NONE
    },
    // Read and write of 560.7 and 389.5 mA with still data, what is beyond one open bank (71.2 mA) times
    // 5.1486 / 3.1798 for random data (docs/explanation/data-pattern-model.md there).
    currents: Currents {
        vdd_mv: 1_100,
        vpp_mv: 0,
        idd0_ua: 106_100,
        idd2p_ua: 49_350,
        idd2n_ua: 70_500,
        idd3p_ua: 53_309,
        idd3n_ua: 73_300,
        idd4r_ua: 863_778,
        idd4w_ua: 586_578,
        idd5b_ua: 164_700,
        ipp_ua: 0,
        shared_standby: 0.2,
    },
};
