//! The device's laws, and what the buffer combines.

mod buffer;
mod warm;

use super::*;
use crate::conformance::{SPACE_BYTES, device_laws};
use crate::link::packet::tests::spec as link;
use crate::medium::nvm::tests::{array, no_levelling};
use crate::medium::{NvmArraySpec, NvmWearSpec, Preemption};
use crate::request::{Completion, Device, Request};
use tierscope_units::{Duration, Size};

/// A module of 1 MiB whose controller takes 20 ns.
pub(crate) fn spec() -> NvmSpec {
    NvmSpec {
        capacity: Size::from_bytes(SPACE_BYTES),
        controller_latency: Duration::from_picoseconds(20_000),
        queue_depth: 64,
        array: array(),
        buffer: None,
        wear: no_levelling(),
        energy: None,
        raid: None,
    }
}

/// Eight lines of 256 bytes, asked for 64.
pub(crate) fn buffered() -> NvmSpec {
    NvmSpec {
        array: NvmArraySpec {
            line: Size::from_bytes(256),
            channel_interleave: Size::from_bytes(256),
            ..array()
        },
        buffer: Some(NvmBufferSpec {
            capacity: Size::from_bytes(2048),
            access: Size::from_bytes(64),
            latency: Duration::from_picoseconds(30_000),
        }),
        ..spec()
    }
}

#[test]
fn the_devices_laws_hold() {
    let pause = NvmArraySpec {
        preemption: Preemption::Pause,
        write_iterations: Some(4),
        read_queue_depth: 1,
        write_queue_depth: 2,
        write_high: 2,
        write_low: 1,
        ..array()
    };
    let cancel = NvmArraySpec {
        preemption: Preemption::Cancel,
        cancel_below: Some(0.5),
        channels: 2,
        row_buffers: 2,
        ..array()
    };
    let wear = NvmWearSpec { gap_interval: 2, randomized: true, ..no_levelling() };
    let none = Duration::from_picoseconds(0);
    let mut small = buffered();
    if let Some(buffer) = &mut small.buffer {
        buffer.capacity = Size::from_bytes(256);
    }
    for spec in [
        spec(),
        NvmSpec { array: pause, wear: wear.clone(), ..spec() },
        NvmSpec { array: cancel, wear, controller_latency: none, ..spec() },
        buffered(),
        small,
    ] {
        device_laws(|| NvmDevice::new(&spec, &link()));
    }
}

/// All answers to reads and writes of `bytes` that come at given times, by id.
fn play(device: &mut NvmDevice, script: &[(u64, u64, u32, bool)]) -> Vec<Completion> {
    let mut out = Vec::new();
    for (id, &(at_ps, address, bytes, write)) in (0..).zip(script) {
        let mut now_ps = at_ps;
        device.advance(now_ps, &mut out);
        let request = Request { id, address, bytes, write, background: false };
        while device.submit(now_ps, request).is_err() {
            now_ps = device.next_event_ps().expect("something is in flight").max(now_ps);
            device.advance(now_ps, &mut out);
        }
    }
    device.advance(u64::MAX, &mut out);
    assert_eq!(device.in_flight(), 0);
    out.sort_by_key(|done| done.id);
    out
}

#[test]
fn a_read_takes_its_way_the_controller_the_row_and_the_bus() {
    let mut device = NvmDevice::new(&spec(), &link());
    let done = play(&mut device, &[(0, 0, 64, false), (1_000_000, 64, 64, false)]);
    let stage = |done: &Completion, stage| {
        done.stages.iter().filter(|(it, _)| *it == stage).map(|(_, ps)| ps).sum::<u64>()
    };
    assert_eq!(stage(&done[0], Stage::Medium), 60_000);
    assert_eq!(stage(&done[0], Stage::Device), 25_000);
    assert_eq!(stage(&done[0], Stage::StoreQueue), 0);
    // The row is open, and its next line needs the column only.
    assert_eq!(stage(&done[1], Stage::Medium), 10_000);
}

#[test]
fn what_wears_says_how_long_it_lasts() {
    let mut device = NvmDevice::new(&spec(), &link());
    let script: Vec<_> = (0..100).map(|i| (i * 1_000_000, 0, 64, true)).collect();
    play(&mut device, &script);
    let report = device.device().report(100_000_000);
    assert_eq!((report.wear.most, report.wear.total), (100, 100));
    // 100 writes in 100 us, and 10^8 in 100 s.
    let years = 100.0 / (365.0 * 86_400.0);
    let close = |found: Option<f64>, right: f64| (found.unwrap() / right - 1.0).abs() < 1e-9;
    assert!(close(report.worst_line_years(), years));
    assert!(close(report.levelled_years(100_000_000), years * (1 << 14) as f64));
    let mut device = NvmDevice::new(&spec(), &link());
    play(&mut device, &script[..99]);
    let report = device.device().report(100_000_000);
    assert_eq!((report.wear.most, report.worst_line_years()), (99, None), "so few are chance");
    assert!(report.levelled_years(100_000_000).is_some());
}
