//! The ladder of trust for drives: formulas, edges, conservation, what is stored against a plain map,
//! write amplification against the analysis.

mod amplification;
mod control;
mod data;
mod formulas;
mod laws;
mod power;
mod progress;

use super::translation::Translation;
use super::*;
use crate::link::packet::tests::spec as link_spec;
use crate::medium::{MultiPlaneReads, NandSpec, PageTimesSpec};
use tierscope_units::{Bandwidth, Duration, Size, TransferRate};

pub const US: u64 = 1_000_000;

pub fn us(time: u64) -> Duration {
    Duration::from_picoseconds(time * US)
}

/// A small array of SLC flash: 25, 200, 1500 us (HybridSim), 400 MB/s a channel.
pub fn nand() -> NandSpec {
    NandSpec {
        channels: 2,
        ways: 2,
        dies: 1,
        planes: 1,
        blocks: 24,
        pages: 16,
        page: Size::from_bytes(4096),
        lower: PageTimesSpec { read_latency: us(25), program_latency: us(200) },
        middle: None,
        upper: None,
        erase_latency: us(1500),
        bus_rate: TransferRate::from_transfers_per_second(400_000_000),
        bus_bits: 8,
        command_cycle: Duration::from_picoseconds(25_000),
        multi_plane_reads: MultiPlaneReads::None,
        multi_plane_programs: false,
        cache_read: false,
        cache_program: false,
        suspends: 0,
        suspend_latency: us(0),
        reads_ahead: 8,
        power: None,
    }
}

/// A small drive: 1 MiB of 6 MiB of flash.
pub fn spec() -> SsdSpec {
    SsdSpec {
        capacity: Size::from_bytes(1 << 20),
        page: Size::from_bytes(4096),
        queue_depth: 64,
        split: 1,
        striping: "c-w-d-p".into(),
        initial: InitialFlash::Erased,
        nand: nand(),
        buffer: SsdBufferSpec {
            capacity: Size::from_bytes(16 * 4096),
            dirty: Size::from_bytes(8 * 4096),
            flush_above: Size::from_bytes(0),
            write_back: true,
            capacitors: false,
            capacitor_energy: None,
            hold_up_time: None,
            read_cache: false,
            replacement: None,
            latency: Duration::from_picoseconds(100_000),
            bandwidth: Bandwidth::from_bytes_per_second(4_096_000_000),
        },
        firmware: SsdFirmwareSpec {
            cores: 2,
            page_time: us(1),
            read_latency: us(2),
            write_latency: us(3),
            decode_latency: us(4),
        },
        collection: CollectionSpec {
            policy: VictimPolicy::Greedy,
            window: 0,
            free_blocks: 2,
            copies: 2,
            idle: None,
        },
        wear: WearSpec { endurance: 100_000, difference: 0, factory_bad: 0.0 },
        map: None,
        log: None,
        controller_power: None,
        dram_power: None,
        raid: None,
    }
}

/// A map of eight entries a page, and so many of its pages in memory.
pub fn small_map(pages: u64) -> MapSpec {
    MapSpec { cache: Size::from_bytes(pages * 4096), entry: Size::from_bytes(512) }
}

/// The description has no mistake.
pub fn checked(spec: SsdSpec) -> SsdSpec {
    let mut problems = tierscope_units::Problems::new();
    crate::device::DeviceDescription::check(&spec, "ssd", &mut problems);
    assert!(problems.is_empty(), "{problems}");
    spec
}

pub fn page_access(token: u32, page: u64, write: bool) -> PageAccess {
    PageAccess {
        token,
        page,
        write,
        background: false,
        whole: true,
        bytes: 4096,
        ahead_bytes: 0,
        force_unit_access: false,
        content: 0,
    }
}

/// Submits each at its time; all that was done, by token.
pub fn run(drive: &mut Ssd, accesses: &[(u64, PageAccess)]) -> Vec<DonePage> {
    let mut out = Vec::new();
    for &(at_ps, access) in accesses {
        drive.advance(at_ps, &mut out);
        drive.submit(at_ps, access);
    }
    drain(drive, &mut out);
    out.sort_by_key(|done| done.token);
    out
}

/// Goes on until nothing more happens.
pub fn drain(drive: &mut Ssd, out: &mut Vec<DonePage>) {
    while let Some(next_ps) = drive.next_event_ps() {
        drive.advance(next_ps, out);
    }
}
