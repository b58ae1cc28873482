//! DDR5 (JEDEC JESD79-5): a channel is half a module's width, 32 bits; bursts of sixteen; eight bank
//! groups; activates and column commands take two clocks of the command bus.

use super::super::interface::InterfacePowers;
use super::rules::{BANK, BANK_REFRESH, GROUPS, POWER_DOWN, RANK, SHARED_BUS};
use super::{BankRefresh, Currents, Part, Standard, Timings};

/// The standard.
pub const DDR5: Standard = Standard {
    name: "DDR5",
    source: "JEDEC JESD79-5",
    transfers_per_clock: 2,
    burst_length: 16,
    two_command_buses: false,
    activate_clocks: 2,
    column_clocks: 2,
    rank_is_pseudo_channel: false,
    bank_refresh: BankRefresh::SameInEveryGroup,
    most_postponed: 4, // JESD79-5 4.13, in the normal refresh mode
    interface: INTERFACE,
    rules: &[BANK, RANK, GROUPS, SHARED_BUS, BANK_REFRESH, POWER_DOWN],
    parts: &[DDR5_4800_16GB_X8],
};

/// Micron's nominal I/O termination powers of DDR5, as a public model quotes them (`DDR5InterfacePowerModel`,
/// "Table 26"); the note itself was not at hand. A driver of 34 ohms that holds a line of 1.1 V down half of the
/// time against 60 ohms leaves 4.1 mW in these.
const INTERFACE: InterfacePowers = InterfacePowers {
    read_uw: 11_730,
    write_uw: 4_150,
    other_read_uw: 4_000,
    other_write_uw: 6_440,
};

const DDR5_4800_16GB_X8: Part = Part {
    name: "ddr5-4800-16gb-x8",
    source: "CMU-SAFARI/ramulator2@c5b1c3a:python/ramulator/dram/ddr5.py, DDR5_4800C; tRFC, tXP and currents (Micron 16 Gb die A): gem5/gem5@1db206b:src/mem/DRAMInterface.py DDR5_4400_4x8; tRFCsb 130 ns, tREFSBRD 30 ns, tCKE as tPD 7.5 ns: JEDEC JESD79-5 (remembered, not confirmed)",
    three_transfers_per_second: 14_400_000_000,
    chip_bits: 8,
    bus_bits: 32,
    groups: 8,
    banks: 4,
    row_bytes: 1024,
    timings: Timings {
        burst: 8,
        cl: 38,
        cwl: 36,
        rcd: 38,
        rcd_wr: 38,
        rp: 38,
        rp_all: 38,
        ras: 77,
        rc: 115,
        wr: 72,
        rtp: 18,
        ccd_s: 8,
        ccd_l: 12,
        ccd_l_wr: 48,
        rrd_s: 8,
        rrd_l: 12,
        faw: 48,
        wtr_s: 6,
        wtr_l: 24,
        rtw_gap: 4,
        rtrs: 2,
        ppd: 2,
        xp: 18,
        cke: 18,
        rfc_ps: 295_000,
        rfc_bank_ps: 130_000,
        rrefd_ps: 30_000,
        rfc_to_rfc_bank_ps: 130_000,
        refi_ps: 3_900_000,
        ..Timings::NONE
    },
    currents: Currents {
        vdd_mv: 1_100,
        vpp_mv: 0,
        idd0_ua: 122_000,
        idd2p_ua: 88_000,
        idd2n_ua: 92_000,
        idd3p_ua: 140_000,
        idd3n_ua: 142_000,
        idd4r_ua: 530_000,
        idd4w_ua: 479_000,
        idd5b_ua: 277_000,
        ipp_ua: 0,
        shared_standby: 0.0,
    },
};
