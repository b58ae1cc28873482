//! The ladder of trust for disks: formulas, edges, conservation, and naive references.

mod formulas;
mod reference;
mod service;

use super::*;
use crate::conformance::{SPACE_BYTES, device_laws};
use crate::link::packet::tests::spec as link_spec;
use crate::request::{Completion, Device, Request};
use tierscope_units::{Duration, Size};

pub const MS: u64 = 1_000_000_000;
/// A revolution of the small disk: 6000 a minute.
pub const TURN: u64 = 10 * MS;

pub fn us(time: u64) -> Duration {
    Duration::from_picoseconds(time * 1_000_000)
}

/// A small disk of two heads and 60 cylinders in three zones of 64, 48 and 32 sectors: 2.9 MB.
pub fn spec() -> DiskSpec {
    DiskSpec {
        capacity: Size::from_bytes(2_900_000 / 4096 * 4096),
        page: Size::from_bytes(4096),
        queue_depth: 32,
        controller_latency: us(100),
        window: 32,
        age_limit: us(500_000),
        platters: PlattersSpec {
            rpm: 6000,
            heads: 2,
            cylinders: 60,
            zones: 3,
            outer_sectors: 64,
            inner_sectors: 32,
            sector: Size::from_bytes(512),
            track_skew: us(1000),
            cylinder_skew: us(2000),
        },
        arm: ArmSpec {
            single_seek: us(1000),
            average_seek: us(4000),
            full_seek: us(7000),
            write_settle: us(500),
            head_switch: us(800),
        },
        buffer: DiskBufferSpec {
            capacity: Size::from_bytes(128 << 10),
            segments: 4,
            read_ahead: Size::from_bytes(16 << 10),
            write_cache: true,
            dirty: Size::from_bytes(64 << 10),
        },
        power: None,
        raid: None,
    }
}

/// A disk that neither reads ahead nor keeps what is written.
pub fn plain() -> DiskSpec {
    let mut spec = spec();
    spec.buffer.read_ahead = Size::from_bytes(0);
    spec.buffer.write_cache = false;
    spec
}

pub fn access(token: u32, page: u64, write: bool) -> PageAccess {
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

/// Does what there is to do until `count` pages have been reported.
pub fn wait(disk: &mut Disk, count: usize) -> Vec<DonePage> {
    let mut out = Vec::new();
    while out.len() < count {
        let at_ps = disk.next_event_ps().expect("something is under way");
        disk.advance(at_ps, &mut out);
    }
    out
}

/// Does all there is to do; when the last of it ended.
pub fn settle(disk: &mut Disk) -> u64 {
    let (mut out, mut last_ps) = (Vec::new(), 0);
    while let Some(at_ps) = disk.next_event_ps() {
        disk.advance(at_ps, &mut out);
        last_ps = at_ps;
    }
    last_ps
}

/// Reads or writes a page at `now_ps`; when it is done.
pub fn one(disk: &mut Disk, now_ps: u64, page: u64, write: bool) -> u64 {
    disk.submit(now_ps, access(0, page, write));
    wait(disk, 1)[0].at_ps
}

#[test]
fn the_devices_laws_hold() {
    assert!(spec().capacity.bytes() >= SPACE_BYTES);
    device_laws(|| DiskDevice::new(&spec(), &link_spec()));
    device_laws(|| DiskDevice::new(&plain(), &link_spec()));
    let mut narrow = spec();
    (narrow.queue_depth, narrow.window, narrow.buffer.segments) = (3, 1, 1);
    narrow.buffer.dirty = narrow.page;
    narrow.age_limit = us(0);
    device_laws(|| DiskDevice::new(&narrow, &link_spec()));
}

#[test]
fn commands_are_bounded_however_many_pages_they_have() {
    let mut disk = DiskDevice::new(&spec(), &link_spec());
    let request = |id| Request {
        id,
        address: u64::from(id) * 65_536 % 2_000_000 / 4096 * 4096,
        bytes: 65_536,
        write: false,
        background: false,
    };
    let taken = (0..40).take_while(|&id| disk.submit(0, request(id)).is_ok()).count();
    assert_eq!(taken, 32, "native command queueing of 32");
    let mut out: Vec<Completion> = Vec::new();
    while let Some(at_ps) = disk.next_event_ps() {
        disk.advance(at_ps, &mut out);
    }
    assert_eq!((out.len(), disk.in_flight()), (32, 0));
}
