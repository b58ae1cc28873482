//! Drives of the presets against published figures: what docs/models/ssd.md has in its table.

use tierscope_kernel::Random;
use tierscope_model::device::ssd::InitialFlash;
use tierscope_model::device::{AnyDevice, DeviceDescription};
use tierscope_model::link::LinkDescription;
use tierscope_model::request::{Completion, Device, Request};
use tierscope_system::spec::{SystemSpec, load, load_text};

/// What a drive is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ask {
    /// 4 KiB anywhere.
    RandomRead,
    RandomWrite,
    /// 128 KiB one after the other.
    Read,
    Write,
}

/// The drive of a description, and its capacity in bytes.
fn built(spec: &SystemSpec) -> (AnyDevice, u64) {
    let store = spec.haste.as_ref().map(|haste| haste as &dyn DeviceDescription);
    let ssd = spec.ssd.as_ref().map(|ssd| ssd as &dyn DeviceDescription);
    let ssd = ssd.or(store).expect("it has a drive");
    let pcie = spec.pcie.as_ref().map(|link| link as &dyn LinkDescription);
    let link = pcie.or(spec.sata.as_ref().map(|link| link as &dyn LinkDescription));
    let link = link.or(spec.link.as_ref().map(|link| link as &dyn LinkDescription));
    (ssd.build(link.expect("the drive is behind a link")), ssd.capacity().bytes())
}

/// The drive of a preset, with what flash holds at the start where that is not as in the preset.
fn drive(preset: &str, initial: Option<&str>) -> (AnyDevice, u64) {
    // What holds no flash is the same at all times.
    let initial = initial.filter(|_| preset != "device/haste");
    let sets: Vec<_> =
        initial.map(|initial| ("ssd.initial".to_owned(), initial.to_owned())).into_iter().collect();
    built(&load(preset, &sets).expect("the preset is right").spec)
}

/// Requests a second, and their mean latency in microseconds, of the second half of `count` requests
/// with `depth` of them at a time. What is read in order was written in order, and what is written in
/// order is written to a drive that was empty. A drive in its steady state that rested has erased blocks for what comes
/// first: rates of writes are those of the second half of as many as fill several blocks of each die.
fn measure(preset: &str, ask: Ask, depth: usize, count: u64) -> (f64, f64) {
    let initial = match ask {
        Ask::Read => Some("written"),
        Ask::Write => Some("erased"),
        Ask::RandomRead | Ask::RandomWrite => None,
    };
    let (mut drive, capacity) = drive(preset, initial);
    run(&mut drive, capacity, ask, depth, count)
}

/// The same of a drive.
fn run(drive: &mut AnyDevice, capacity: u64, ask: Ask, depth: usize, count: u64) -> (f64, f64) {
    let bytes = if matches!(ask, Ask::Read | Ask::Write) { 128 << 10 } else { 4096 };
    let places = capacity / bytes;
    let mut random = Random::stream(1, "drives");
    let (mut now_ps, mut sent, mut done, mut half_ps) = (0, 0, 0, 0);
    let mut latency_ps = 0;
    let mut out: Vec<Completion> = Vec::new();
    while done < count {
        while sent < count && drive.in_flight() < depth {
            let place = match ask {
                Ask::RandomRead | Ask::RandomWrite => random.below(places),
                Ask::Read | Ask::Write => sent % places,
            };
            let write = matches!(ask, Ask::RandomWrite | Ask::Write);
            let (id, address, bytes) = (sent as u32, place * bytes, bytes as u32);
            let request = Request { id, address, bytes, write, background: false };
            if drive.submit(now_ps, request).is_err() {
                break;
            }
            sent += 1;
        }
        now_ps = drive.next_event_ps().expect("something is under way");
        drive.advance(now_ps, &mut out);
        for one in out.drain(..) {
            done += 1;
            if done > count / 2 {
                latency_ps += one.stages.total_ps();
            }
        }
        if done <= count / 2 {
            half_ps = now_ps;
        }
    }
    let measured = (count - count / 2) as f64;
    (measured / (now_ps - half_ps) as f64 * 1e12, latency_ps as f64 / measured / 1e6)
}

/// A published figure, and within which share of it the model lies, below and above.
fn against(what: &str, found: f64, published: f64, from: f64, to: f64) {
    let off = found / published - 1.0;
    println!("{what}: {found:.1}, published {published}: {:+.1} %", off * 100.0);
    assert!((from..=to).contains(&off), "{what}: {found}, published {published}");
}

#[test]
fn the_z_ssd_against_published_figures() {
    let preset = "storage/z-ssd";
    let (_, read_us) = measure(preset, Ask::RandomRead, 1, 400);
    against("Z-SSD, 4 KiB read, us", read_us, 8.0, 0.2, 0.28);
    let (_, write_us) = measure(preset, Ask::RandomWrite, 1, 400);
    against("Z-SSD, 4 KiB written, us", write_us, 10.0, -0.14, -0.06);
    let (reads, _) = measure(preset, Ask::RandomRead, 128, 20_000);
    against("Z-SSD, 4 KiB reads/s", reads, 750e3, 0.09, 0.16);
    let (writes, _) = measure(preset, Ask::RandomWrite, 128, 2_000_000);
    against("Z-SSD, 4 KiB writes/s", writes, 170e3, 2.2, 2.7);
    let (reads, _) = measure(preset, Ask::Read, 32, 4_000);
    against("Z-SSD, read, GB/s", reads * 131_072e-9, 3.2, 0.07, 0.13);
    let (writes, _) = measure(preset, Ask::Write, 32, 10_000);
    against("Z-SSD, written, GB/s", writes * 131_072e-9, 3.2, 0.08, 0.15);
}

#[test]
fn the_970_pro_against_published_figures() {
    let preset = "storage/970-pro";
    let (reads, _) = measure(preset, Ask::RandomRead, 1, 400);
    against("970 PRO, 4 KiB reads/s, one at a time", reads, 15e3, 0.0, 0.06);
    let (writes, _) = measure(preset, Ask::RandomWrite, 1, 400);
    against("970 PRO, 4 KiB writes/s, one at a time", writes, 55e3, 1.2, 1.7);
    let (reads, _) = measure(preset, Ask::RandomRead, 128, 20_000);
    against("970 PRO, 4 KiB reads/s", reads, 370e3, 0.04, 0.1);
    let (reads, _) = measure(preset, Ask::Read, 32, 4_000);
    against("970 PRO, read, GB/s", reads * 131_072e-9, 3.5, -0.03, 0.04);
    let (writes, _) = measure(preset, Ask::Write, 32, 10_000);
    against("970 PRO, written, GB/s", writes * 131_072e-9, 2.3, 0.15, 0.25);
}

#[test]
fn the_intel_750_against_published_figures() {
    let preset = "device/intel-750";
    let (reads, _) = measure(preset, Ask::RandomRead, 128, 20_000);
    against("Intel 750, 4 KiB reads/s", reads, 430e3, -0.05, 0.03);
    let (writes, _) = measure(preset, Ask::RandomWrite, 128, 2_000_000);
    against("Intel 750, 4 KiB writes/s", writes, 230e3, -0.78, -0.69);
    let (_, write_us) = measure(preset, Ask::RandomWrite, 1, 400);
    against("Intel 750, 4 KiB written, us", write_us, 20.0, -0.45, -0.1);
    let (reads, _) = measure(preset, Ask::Read, 32, 4_000);
    against("Intel 750, read, GB/s", reads * 131_072e-9, 2.2, -0.14, -0.07);
    let (writes, _) = measure(preset, Ask::Write, 32, 10_000);
    against("Intel 750, written, GB/s", writes * 131_072e-9, 0.9, 0.11, 0.2);
}

#[test]
fn the_x25_e_against_published_figures() {
    let preset = "device/x25-e";
    let (_, read_us) = measure(preset, Ask::RandomRead, 1, 400);
    against("X25-E, 4 KiB read, us", read_us, 75.0, 0.26, 0.35);
    let (reads, _) = measure(preset, Ask::RandomRead, 32, 20_000);
    against("X25-E, 4 KiB reads/s", reads, 35e3, 0.8, 0.95);
    let (writes, _) = measure(preset, Ask::RandomWrite, 32, 200_000);
    against("X25-E, 4 KiB writes/s", writes, 3.3e3, 7.0, 8.6);
    let (reads, _) = measure(preset, Ask::Read, 32, 4_000);
    against("X25-E, read, MB/s", reads * 131_072e-6, 250.0, -0.07, 0.0);
    let (writes, _) = measure(preset, Ask::Write, 32, 4_000);
    against("X25-E, written, MB/s", writes * 131_072e-6, 170.0, 0.43, 0.53);
}

#[test]
fn the_intel_535_against_published_figures() {
    let preset = "device/intel-535";
    let (reads, _) = measure(preset, Ask::RandomRead, 32, 20_000);
    against("Intel 535, 4 KiB reads/s", reads, 45e3, 1.6, 1.85);
    let (reads, _) = measure(preset, Ask::Read, 32, 4_000);
    against("Intel 535, read, MB/s", reads * 131_072e-6, 540.0, 0.0, 0.05);
    let (writes, _) = measure(preset, Ask::Write, 32, 4_000);
    against("Intel 535, written, MB/s", writes * 131_072e-6, 490.0, 0.1, 0.16);
}

#[test]
fn the_iodrive_against_published_figures() {
    let preset = "device/iodrive";
    let (_, read_us) = measure(preset, Ask::RandomRead, 1, 400);
    against("ioDrive, 4 KiB read, us", read_us, 26.0, 2.0, 2.3);
    let (reads, _) = measure(preset, Ask::RandomRead, 128, 20_000);
    against("ioDrive, 4 KiB reads/s", reads, 100e3, 1.1, 1.3);
    let (reads, _) = measure(preset, Ask::Read, 32, 4_000);
    against("ioDrive, read, MB/s", reads * 131_072e-6, 750.0, 0.28, 0.37);
    let (writes, _) = measure(preset, Ask::Write, 32, 4_000);
    against("ioDrive, written, MB/s", writes * 131_072e-6, 500.0, 0.95, 1.04);
}

#[test]
fn haste_against_published_figures() {
    let preset = "device/haste";
    let (_, read_us) = measure(preset, Ask::RandomRead, 1, 400);
    against("HASTE, 4 KiB read, us", read_us, 6.4, -0.32, -0.24);
    let (_, write_us) = measure(preset, Ask::RandomWrite, 1, 400);
    against("HASTE, 4 KiB written, us", write_us, 6.4, -0.2, -0.12);
    let (reads, _) = measure(preset, Ask::RandomRead, 16, 20_000);
    against("HASTE, 4 KiB, read, GB/s", reads * 4096e-9, 1.33, 0.16, 0.25);
    let (writes, _) = measure(preset, Ask::RandomWrite, 16, 400_000);
    against("HASTE, 4 KiB, written, GB/s", writes * 4096e-9, 1.37, 0.03, 0.1);
    let (reads, _) = measure(preset, Ask::Read, 16, 4_000);
    against("HASTE, read, GB/s", reads * 131_072e-9, 1.5, 0.05, 0.12);
    let (writes, _) = measure(preset, Ask::Write, 16, 4_000);
    against("HASTE, written, GB/s", writes * 131_072e-9, 1.7, -0.17, -0.1);
}

#[test]
fn the_examples_map_of_blocks_copies_nothing_in_order_and_blocks_at_random() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/log-drive.toml");
    let text = std::fs::read_to_string(path).expect("the example is there");
    let spec = load_text("log-drive", &text, &[]).expect("the example is right").spec;
    let mapped_by_page = |ask, count| {
        let mut spec = spec.clone();
        if let Some(ssd) = &mut spec.ssd {
            (ssd.log, ssd.initial) = (None, InitialFlash::Steady);
        }
        let (mut drive, capacity) = built(&spec);
        run(&mut drive, capacity, ask, 32, count).0
    };
    let amplified = |ask, count| {
        let (mut drive, capacity) = built(&spec);
        let (a_second, _) = run(&mut drive, capacity, ask, 32, count);
        let report = drive.activity(u64::MAX >> 8).drive.expect("it is a drive");
        (a_second, report.write_amplification().expect("it wrote"), report.log)
    };
    let (_, in_order, merges) = amplified(Ask::Write, 16_000);
    println!("in order: {in_order:.4}, {merges:?}");
    assert!(in_order == 1.0 && merges.partial_merges + merges.full_merges == 0, "{merges:?}");
    assert!(merges.switch_merges > 3_000, "{merges:?}");
    let (a_second, at_random, merges) = amplified(Ask::RandomWrite, 60_000);
    let by_page = mapped_by_page(Ask::RandomWrite, 60_000);
    println!("random: {at_random:.1}, {merges:?}, {a_second:.0}/s, by page {by_page:.0}/s");
    assert!(
        (5.0..6.5).contains(&at_random) && merges.full_merges > 1_500,
        "{at_random}: {merges:?}"
    );
    assert!(a_second * 6.0 < by_page, "{a_second} and {by_page}");
}

/// The drive that MQSim was given (CMU-SAFARI/MQSim at 7ec40e3), as we describe it: `docs/models/ssd.md` says how.
const MQSIM: &str = r#"
base = "device/z-ssd"
name = "mqsim"

[ssd]
capacity = "3244MiB"
split = 1
striping = "c-w-d-p"
initial = "steady"

[ssd.nand]
channels = 4
ways = 2
dies = 1
planes = 1
blocks = 512
pages = 256
page = "4KiB"
erase_latency = "3.8ms"
bus_rate = "333MT/s"
multi_plane_reads = "none"
multi_plane_programs = false
cache_read = false
cache_program = false
suspends = 0

[ssd.nand.lower]
read_latency = "75us"
program_latency = "750us"

[ssd.buffer]
write_back = false
capacitors = false
read_cache = false
capacity = "1MiB"
dirty = "1MiB"

[ssd.firmware]
page_time = "0s"
write_latency = "0s"
read_latency = "0s"
decode_latency = "0s"

[ssd.collection]
free_blocks = 25

[ssd.wear]
factory_bad = 0.0
difference = 0
"#;

/// Rung 6: a drive against reference runs of MQSim, whose figures are committed here. Every figure has a bound on
/// both sides, so that no difference closes or grows unnoticed.
#[test]
fn a_drive_against_runs_of_mqsim() {
    let spec = load_text("mqsim", MQSIM, &[]).expect("the description is right").spec;
    // Mean latencies of reads anywhere, in microseconds, which it tells in whole ones.
    for (depth, published, from, to) in [
        (1, 88.0, 0.01, 0.02),
        (2, 95.0, 0.01, 0.02),
        (8, 148.0, -0.01, 0.015),
        (32, 422.0, -0.01, 0.01),
        (128, 1620.0, -0.02, 0.01),
    ] {
        let (mut drive, capacity) = built(&spec);
        let (_, latency_us) = run(&mut drive, capacity, Ask::RandomRead, depth, 40_000);
        against(&format!("reads, {depth} at a time"), latency_us, published, from, to);
    }
    // Writes anywhere, of the second half.
    let (mut drive, capacity) = built(&spec);
    let (rate, _) = run(&mut drive, capacity, Ask::RandomWrite, 32, 300_000);
    against("writes", rate, 540.4, 4.0, 5.0);
    let flash = drive.activity(u64::MAX / 2).drive.expect("it is a drive");
    let did = flash.translation;
    let amplification = (did.host_units + did.moved_units) as f64 / did.host_units as f64;
    against("amplification", amplification, 2.379, 0.25, 0.4);
}

/// What SimpleSSD was given (SimpleSSD/SimpleSSD-Standalone at 8255367 with SimpleSSD 2.0.13, 73ad8ad), as we describe
/// it: the drive of MQSim, but for a channel whose megabytes are those of 2^20, commands of a byte each of its time, and
/// no link.
fn simplessd(sets: &[(&str, &str)]) -> SystemSpec {
    let link = r#"
[link]
bandwidth = "1TB/s"
payload = "4KiB"
packet_overhead = "0B"
latency = "0s"
"#;
    let all = [
        ("ssd.nand.bus_rate", "349.175MT/s"),
        ("ssd.nand.command_cycle", "2.864ns"),
        ("ssd.initial", "written"),
    ];
    let all = all.iter().chain(sets);
    let sets: Vec<_> = all.map(|(path, value)| (path.to_string(), value.to_string())).collect();
    load_text("simplessd", &format!("{MQSIM}{link}"), &sets)
        .unwrap_or_else(|it| panic!("{it}"))
        .spec
}

/// Rung 6: the same against reference runs of SimpleSSD.
#[test]
fn a_drive_against_runs_of_simplessd() {
    let of = |ask, depth, count| {
        let (mut drive, capacity) = built(&simplessd(&[]));
        run(&mut drive, capacity, ask, depth, count)
    };
    // Mean latencies of reads anywhere, in microseconds.
    for (depth, published, from, to) in [
        (1, 88.172, -0.02, -0.01),
        (2, 94.735, -0.02, -0.005),
        (8, 142.927, 0.015, 0.04),
        (32, 388.969, 0.05, 0.08),
        (128, 1420.434, 0.11, 0.14),
    ] {
        let (_, latency_us) = of(Ask::RandomRead, depth, 40_000);
        against(&format!("reads, {depth} at a time"), latency_us, published, from, to);
    }
    let (rate, _) = of(Ask::Read, 32, 4_000);
    against("read in order, MB/s", rate * 0.131_072, 377.636, -0.13, -0.11);
    let (_, latency_us) = of(Ask::RandomWrite, 1, 2_000);
    against("written, one at a time, us", latency_us, 763.875, -0.006, 0.0);
}
