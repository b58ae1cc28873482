//! Laws, formulas and a naive reference of drives side by side.

use super::*;
use crate::conformance::device_laws;
use crate::device::{DeviceDescription, DiskSpec, NvmSpec, disk, nvm};
use crate::link::packet::tests::spec as link_spec;

fn spec(drives: u32, stripe: u64, bandwidth: Option<u64>) -> RaidSpec {
    RaidSpec {
        drives,
        stripe: Size::from_bytes(stripe),
        queue_depth: 64,
        latency: Duration::from_picoseconds(2_000_000),
        bandwidth: bandwidth.map(Bandwidth::from_bytes_per_second),
        cache: None,
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

/// Modules of memory side by side, as interleaving deals lines and pages to them.
fn modules(raid: &RaidSpec) -> AnyDevice {
    NvmSpec { raid: Some(raid.clone()), ..nvm::tests::spec() }.build(&link_spec())
}

#[test]
fn the_devices_laws_hold_of_interleaved_modules() {
    device_laws(|| modules(&spec(3, 4096, None)));
}

#[test]
fn what_modules_did_is_added_up() {
    let mut device = modules(&spec(4, 4096, None));
    let at_ps = read(&mut device, 0, 16_384, 20);
    let found = device.activity(at_ps).nvm.expect("they are modules");
    let line_bytes = nvm::tests::spec().array.line.bytes();
    assert_eq!(found.array.read_lines, 20 * 16_384 / line_bytes);
    assert_eq!(found.lines, 4 * nvm::tests::spec().capacity.bytes() / line_bytes);
}

#[test]
fn every_byte_lies_where_dealing_puts_it() {
    let (drives, stripe) = (3usize, 4096u64);
    let raid =
        Raid::new(&spec(3, stripe, None), Size::from_bytes(4096), || disks(&spec(1, stripe, None)));
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

/// Two disks behind an adapter of 100 MB/s with so many pages of cache.
fn cached(pages: u64, write_back: bool) -> RaidSpec {
    let capacity = Size::from_bytes(pages * 4096);
    let cache = RaidCacheSpec { capacity, write_back, write_backs: 2 };
    RaidSpec { cache: Some(cache), ..spec(2, 16_384, Some(100_000_000)) }
}

fn ask(at_ps: u64, id: u32, page: u64, pages: u32, write: bool) -> (u64, Request) {
    let (address, bytes) = (page * 4096, pages * 4096);
    (at_ps, Request { id, address, bytes, write, background: false })
}

/// Requests at their times; how long each took, by id.
fn times(device: &mut AnyDevice, all: &[(u64, Request)]) -> Vec<u64> {
    let mut out = Vec::new();
    for (at_ps, request) in all {
        device.advance(*at_ps, &mut out);
        device.submit(*at_ps, *request).expect("there is room");
    }
    while let Some(at_ps) = device.next_event_ps() {
        device.advance(at_ps, &mut out);
    }
    assert_eq!((out.len(), device.in_flight()), (all.len(), 0));
    out.sort_by_key(|done| done.id);
    out.iter().map(|done| done.stages.total_ps()).collect()
}

/// What an adapter of 100 MB/s takes for so many pages.
fn adapter_ps(pages: u64) -> u64 {
    2_000_000 + pages * 40_960_000
}

const SECOND: u64 = 1_000_000_000_000;

#[test]
fn a_write_is_done_in_the_cache_and_read_from_there() {
    let all = [
        ask(0, 0, 3, 2, true),
        ask(SECOND, 1, 3, 2, false),
        ask(2 * SECOND, 2, 40, 1, false),
        ask(3 * SECOND, 3, 40, 1, false),
    ];
    let found = times(&mut disks(&cached(64, true)), &all);
    assert_eq!([found[0], found[1], found[3]], [adapter_ps(2), adapter_ps(2), adapter_ps(1)]);
    assert!(found[2] > adapter_ps(1));
    // Without write-back the drives have to have it; what is read is kept all the same.
    let through = times(&mut disks(&cached(64, false)), &all);
    assert!(through[0] > found[0]);
    assert_eq!([through[1], through[3]], [found[1], found[3]]);
}

#[test]
fn a_flush_is_done_at_once_where_a_battery_keeps_the_cache() {
    for write_back in [true, false] {
        let mut device = disks(&cached(64, write_back));
        let mut out = Vec::new();
        let (_, write) = ask(0, 0, 0, 8, true);
        device.submit(0, write).expect("there is room");
        while out.is_empty() {
            device.advance(device.next_event_ps().expect("it goes on"), &mut out);
        }
        let now_ps = out[0].at_ps;
        device.submit_control(now_ps, 1, Control::Flush).expect("there is room");
        while out.len() < 2 {
            device.advance(device.next_event_ps().expect("it goes on"), &mut out);
        }
        assert_eq!(out[1].at_ps == now_ps + 2_000_000, write_back);
    }
}

#[test]
fn what_does_not_fit_waits_until_runs_have_been_written() {
    // Six writes of four pages at a cache of eight before drives without one: the third has to wait for them.
    let disks = |raid: &RaidSpec| {
        DiskSpec { raid: Some(raid.clone()), ..disk::tests::plain() }.build(&link_spec())
    };
    let all: Vec<_> = (0..6).map(|n| ask(0, n, u64::from(n) * 100, 4, true)).collect();
    let small = times(&mut disks(&cached(8, true)), &all);
    let large = times(&mut disks(&cached(64, true)), &all);
    assert_eq!(small[..2], large[..2]);
    assert!(small[2] > large[2] && small[5] > large[5]);
    for (n, found) in (1..).zip(&large) {
        assert_eq!(*found, 2_000_000 + n * 4 * 40_960_000);
    }
}

#[test]
fn all_that_is_written_reaches_the_drives_once() {
    // 64 pages, one by one, then again: runs of a stripe, and what is rewritten in the cache once.
    let mut device = disks(&cached(64, true));
    let all: Vec<_> = (0..64).map(|n| ask(0, n, u64::from(n), 1, true)).collect();
    times(&mut device, &all);
    let disk = device.activity(SECOND).disk.expect("they are disks");
    assert_eq!((disk.written_pages, disk.platter_writes), (64, 64));
}

#[test]
fn the_devices_laws_hold_with_a_cache() {
    for raid in [cached(4, true), cached(64, true), cached(64, false)] {
        device_laws(|| disks(&raid));
    }
}

/// Requests of many pages, over several stripes of each drive: what each page holds, and which drives may have lost
/// it, is told as of all drives together.
#[test]
fn what_pages_hold_is_told_by_their_addresses_of_all_drives() {
    let (page, pages) = (4096u64, 24u64);
    let mut raid = disks(&spec(3, 2 * page, None));
    assert!(raid.follow_contents(Weaknesses::default()));
    let request = Request {
        id: 7,
        address: page,
        bytes: (pages * page) as u32,
        write: true,
        background: false,
    };
    let manner = Manner { content: 100, force_unit_access: true, ..Manner::default() };
    raid.submit_as(0, request, manner).unwrap();
    let mut out = Vec::new();
    while out.is_empty() {
        raid.advance(raid.next_event_ps().expect("it is under way"), &mut out);
    }
    let now_ps = out[0].at_ps;
    for at in 0..pages + 2 {
        let written = (1..=pages).contains(&at);
        let expected = if written { 100 + at - 1 } else { 0 };
        assert_eq!(raid.content(at * page), expected, "page {at}");
    }
    // Written again, past no buffer: what is lost is told.
    raid.submit_as(now_ps, request, Manner { content: 200, ..Manner::default() }).unwrap();
    out.clear();
    while out.is_empty() {
        raid.advance(raid.next_event_ps().expect("it is under way"), &mut out);
    }
    let mut fork = raid.fork();
    let outage = fork.cut_power(out[0].at_ps);
    assert!(outage.lost_pages > 0 && !outage.touched.is_empty());
    for at in 1..=pages {
        let found = fork.content(at * page);
        let is_new = found == 200 + at - 1;
        assert!(is_new || found == 100 + at - 1, "page {at}: {found}");
        assert!(is_new || outage.touched.contains(&(at * page)), "page {at} is lost untold");
    }
    assert_eq!(fork.in_flight(), 0);
}

#[test]
fn a_trim_brings_back_nothing_older_than_what_was_answered() {
    let disk = DiskSpec { raid: Some(cached(64, true)), ..disk::tests::plain() };
    let mut raid = disk.build(&link_spec());
    assert!(raid.follow_contents(Weaknesses::default()));
    let mut out = Vec::new();
    let mut write = |raid: &mut AnyDevice, now_ps: u64, id: u32, content: u64| {
        let (_, request) = ask(now_ps, id, 5, 1, true);
        raid.submit_as(now_ps, request, Manner { content, ..Manner::default() }).unwrap();
        out.clear();
        while out.is_empty() {
            raid.advance(raid.next_event_ps().expect("it is under way"), &mut out);
        }
        out[0].at_ps
    };
    let mut now_ps = write(&mut raid, 0, 0, 100);
    // The older one reaches its disk, and the newer one stays in the cache.
    while let Some(next_ps) = raid.next_event_ps() {
        now_ps = next_ps;
        raid.advance(now_ps, &mut Vec::new());
    }
    now_ps = write(&mut raid, now_ps, 1, 200);
    raid.submit_control(now_ps, 2, Control::Trim { address: 4 * 4096, bytes: 3 * 4096 }).unwrap();
    let mut done = Vec::new();
    while done.is_empty() {
        let mut fork = raid.fork();
        fork.cut_power(now_ps);
        assert!(
            [0, 200].contains(&fork.content(5 * 4096)),
            "{} at {now_ps}",
            fork.content(5 * 4096)
        );
        now_ps = raid.next_event_ps().expect("the trim is under way");
        raid.advance(now_ps, &mut done);
    }
    assert_eq!(raid.content(5 * 4096), 200, "a disk holds what was written to it");
}
