//! HBM2 (JEDEC JESD235): channels of 128 bits in two pseudo-channels of 64, which share row and
//! column command buses and have data buses of their own; bursts of four.

use super::super::interface::InterfacePowers;
use super::rules::{BANK, BANK_REFRESH, GROUPS, POWER_DOWN, RANK};
use super::{BankRefresh, Currents, Part, Standard, Timings};

/// The standard. A rank is a pseudo-channel: two of them are a channel.
pub const HBM2: Standard = Standard {
    name: "HBM2",
    source: "JEDEC JESD235",
    transfers_per_clock: 2,
    burst_length: 4,
    two_command_buses: true,
    activate_clocks: 2,
    column_clocks: 1,
    rank_is_pseudo_channel: true,
    bank_refresh: BankRefresh::Single,
    most_postponed: 8, // JESD235 6.7 (remembered, not confirmed)
    interface: InterfacePowers::IN_CURRENTS,
    rules: &[BANK, RANK, GROUPS, BANK_REFRESH, POWER_DOWN],
    parts: &[HBM2_2000_8GB],
};

const HBM2_2000_8GB: Part = Part {
    name: "hbm2-2000-8gb",
    source: "CMU-SAFARI/ramulator2@c5b1c3a:python/ramulator/dram/hbm2.py, HBM2_2000Mbps; tXP and tCKE: umd-memsys/DRAMsim3@2981759:configs/HBM2_8Gb_x128.ini, which agrees in tCL, tRP, tRAS, tWR and tWTR; currents of a pseudo-channel: CMU-SAFARI/HBM-Power@318d3d1:config/HBM2_1200MTs, the means of 36 stacks measured at 1200 MT/s, taken to 2000 by the trends measured there, with random data by its energy a bit; power-down by DRAMsim3's ratios to standby",
    three_transfers_per_second: 6_000_000_000,
    chip_bits: 64,
    bus_bits: 64,
    groups: 4,
    banks: 4,
    row_bytes: 1024,
    timings: Timings {
        burst: 2,
        cl: 14,
        cwl: 5,
        rcd: 14,
        rcd_wr: 12,
        rp: 14,
        rp_all: 14,
        ras: 34,
        rc: 48,
        wr: 16,
        rtp: 5,
        ccd_s: 2,
        ccd_l: 4,
        ccd_l_wr: 4,
        rrd_s: 4,
        rrd_l: 4,
        faw: 15,
        wtr_s: 6,
        wtr_l: 8,
        rtw_gap: 2,
        xp: 8,
        cke: 8,
        rfc_ps: 350_000,
        rfc_bank_ps: 160_000,
        rrefd_ps: 8_000,
        rfc_to_rfc_bank_ps: 8_000,
        refi_ps: 3_900_000,
        ..Timings::NONE
    },
    // Measured at 1200 MT/s, in milliamperes: IDD0 28.544, IDD2N 11.756, IDD3N 12.394 with one bank open and
    // 14.281 with 16, IDD4R 202.769 and IDD4W 137.406 with still data, IDD5B 66.331. Standby and bursts grow
    // as the rate, open banks' share not at all, activates and refreshes by 0.017 % and 0.010 % an MT/s
    // (docs/explanation/idd-derivation.md there); random data take 5.1486 / 3.1798 of a burst's energy.
    currents: Currents {
        vdd_mv: 1_200,
        vpp_mv: 0,
        idd0_ua: 38_670,
        idd2p_ua: 13_715,
        idd2n_ua: 19_593,
        idd3p_ua: 16_086,
        idd3n_ua: 22_118,
        idd4r_ua: 534_402,
        idd4w_ua: 358_014,
        idd5b_ua: 78_658,
        ipp_ua: 0,
        shared_standby: 0.2,
    },
};
