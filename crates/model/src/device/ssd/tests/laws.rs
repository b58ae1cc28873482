//! The laws of devices, over the corners of what drives may be.

use super::*;
use crate::conformance::device_laws;

fn laws(spec: SsdSpec) {
    let spec = checked(spec);
    device_laws(|| SsdDevice::new(&spec, &link_spec()));
}

#[test]
fn the_devices_laws_hold() {
    laws(spec());
}

#[test]
fn the_devices_laws_hold_on_a_full_drive_that_collects() {
    let tight = NandSpec { blocks: 14, pages: 8, ..nand() };
    laws(SsdSpec { nand: tight, initial: InitialFlash::Steady, ..spec() });
}

#[test]
fn the_devices_laws_hold_with_a_map_in_flash_or_of_blocks() {
    let idle = Some(IdleSpec { after: us(100), free_blocks: 5 });
    let collection = CollectionSpec { idle, ..spec().collection };
    let (map, initial) = (Some(small_map(3)), InitialFlash::Steady);
    laws(SsdSpec { map, collection, initial, ..spec() });
    let (log, initial) = (Some(LogSpec { blocks: 2 }), InitialFlash::Written);
    laws(SsdSpec { log, initial, ..spec() });
}

#[test]
fn the_devices_laws_hold_with_every_command_of_flash() {
    let nand = NandSpec {
        planes: 2,
        blocks: 10,
        pages: 12,
        page: Size::from_bytes(16_384),
        middle: Some(PageTimesSpec { read_latency: us(50), program_latency: us(500) }),
        upper: Some(PageTimesSpec { read_latency: us(80), program_latency: us(900) }),
        multi_plane_reads: MultiPlaneReads::AnyPage,
        multi_plane_programs: true,
        cache_read: true,
        cache_program: true,
        suspends: 3,
        suspend_latency: us(5),
        reads_ahead: 2,
        ..nand()
    };
    let buffer = SsdBufferSpec { read_cache: true, ..spec().buffer };
    let collection = CollectionSpec { policy: VictimPolicy::CostBenefit, ..spec().collection };
    laws(SsdSpec {
        capacity: Size::from_bytes(2 << 20),
        nand,
        buffer,
        collection,
        striping: "p-w-c-d".into(),
        initial: InitialFlash::Written,
        ..spec()
    });
}

#[test]
fn the_devices_laws_hold_without_a_write_back_buffer_and_with_split_pages() {
    let nand = NandSpec { page: Size::from_bytes(2048), pages: 8, ..nand() };
    let buffer = SsdBufferSpec { write_back: false, ..spec().buffer };
    laws(SsdSpec { nand, buffer, split: 2, initial: InitialFlash::Steady, ..spec() });
}
