//! Laws, formulas and a naive reference of drives side by side.

use super::*;
use crate::conformance::device_laws;
use crate::device::{DeviceDescription, DiskSpec, disk};
use crate::link::packet::tests::spec as link_spec;

fn spec(drives: u32, stripe: u64, bandwidth: Option<u64>) -> RaidSpec {
    RaidSpec {
        drives,
        stripe: Size::from_bytes(stripe),
        queue_depth: 64,
        latency: Duration::from_picoseconds(2_000_000),
        bandwidth: bandwidth.map(Bandwidth::from_bytes_per_second),
    }
}

fn disks(raid: &RaidSpec) -> AnyDevice {
    DiskSpec { raid: Some(raid.clone()), ..disk::tests::spec() }.build(&link_spec())
}

/// Requests of so many bytes from `first` on, all at once; when the last one is done.
fn read(device: &mut AnyDevice, first: u64, bytes: u32, count: u64) -> u64 {
    for at in 0..count {
        let address = first + at * u64::from(bytes);
        let request = Request { id: at as u32, address, bytes, write: false, background: false };
        assert!(device.submit(0, request).is_ok());
    }
    let mut out = Vec::new();
    while out.len() < count as usize {
        device.advance(device.next_event_ps().expect("something is under way"), &mut out);
    }
    assert!(out.iter().all(|done| done.stages.total_ps() == done.at_ps));
    out[out.len() - 1].at_ps
}

#[test]
fn the_devices_laws_hold() {
    for raid in [spec(2, 4096, None), spec(3, 16_384, Some(100_000_000))] {
        device_laws(|| disks(&raid));
    }
    device_laws(|| disks(&RaidSpec { queue_depth: 2, ..spec(2, 65_536, None) }));
}

#[test]
fn every_byte_lies_where_dealing_puts_it() {
    let (drives, stripe) = (3usize, 4096u64);
    let raid = Raid::new(&spec(3, stripe, None), || disks(&spec(1, stripe, None)));
    let mut lies = vec![0u64; drives];
    for address in 0..20 * stripe {
        for (drive, before) in lies.iter().enumerate() {
            assert_eq!(raid.before(drive, address), *before, "{address} of drive {drive}");
        }
        // The stripes are dealt in turn.
        lies[(address / stripe) as usize % drives] += 1;
    }
}

#[test]
fn one_drive_is_a_drive_but_for_the_time_of_dividing() {
    let alone_ps = read(&mut disk::tests::spec().build(&link_spec()), 65_536, 4096, 1);
    let of = |latency| {
        let raid = RaidSpec { latency: Duration::from_picoseconds(latency), ..spec(1, 4096, None) };
        read(&mut disks(&raid), 65_536, 4096, 1)
    };
    assert_eq!(of(0), alone_ps);
    assert_eq!(of(2_000_000), alone_ps, "the disk has not turned to the page yet");
}

#[test]
fn a_request_is_done_with_its_last_piece_and_drives_work_at_the_same_time() {
    // 64 KiB in order: two drives have half of it each, and read it at the same time.
    let two_ps = read(&mut disks(&spec(2, 4096, None)), 0, 65_536, 1);
    let half_ps = read(&mut disks(&spec(1, 4096, None)), 0, 32_768, 1);
    assert_eq!(two_ps, half_ps);
    // Behind an adapter, the data cross its link then.
    let slow_ps = read(&mut disks(&spec(2, 4096, Some(1_000_000))), 0, 65_536, 1);
    assert_eq!(slow_ps - two_ps, 65_536_000_000);
}

#[test]
fn what_drives_did_is_added_up_and_they_hold_as_much_together() {
    let raid = spec(4, 4096, None);
    let description = DiskSpec { raid: Some(raid.clone()), ..disk::tests::spec() };
    let each = disk::tests::spec().capacity().bytes();
    assert_eq!(description.capacity().bytes(), 4 * each);
    let mut device = disks(&raid);
    let at_ps = read(&mut device, 0, 16_384, 20);
    let counts = device.activity(at_ps).disk.expect("they are disks");
    assert_eq!(counts.read_pages, 80);
}

#[test]
fn a_flush_goes_to_all_drives() {
    let mut device = disks(&spec(3, 4096, None));
    assert!(device.takes_control());
    for page in 0..3u32 {
        let address = u64::from(page) * 4096;
        let request = Request { id: page, address, bytes: 4096, write: true, background: false };
        assert!(device.submit(0, request).is_ok());
    }
    let mut out = Vec::new();
    while out.len() < 3 {
        device.advance(device.next_event_ps().expect("writes end"), &mut out);
    }
    let now_ps = out[2].at_ps;
    assert!(device.submit_control(now_ps, 9, Control::Flush).is_ok());
    while out.len() < 4 {
        device.advance(device.next_event_ps().expect("the flush ends"), &mut out);
    }
    let counts = device.activity(out[3].at_ps).disk.expect("they are disks");
    assert_eq!((out[3].id, counts.flushes, counts.platter_writes), (9, 3, 3));
}
