//! Drives side by side, of the presets: what they win, every value of theirs, and published figures.

use super::support::*;
use tierscope_kernel::Random;
use tierscope_model::device::DeviceDescription;
use tierscope_model::link::LinkDescription;
use tierscope_model::request::{Completion, Device, Request};
use tierscope_system::spec::load;
use tierscope_workload::Op;
use tierscope_workload::op::Call;

/// Seconds of so many reads, `depth` at a time: in order, or anywhere.
fn time_s(
    preset: &str,
    sets: &[(&str, &str)],
    depth: usize,
    bytes: u32,
    count: u64,
    random: bool,
) -> f64 {
    run_s(preset, sets, depth, bytes, count, (random, false))
}

/// The same of reads or writes.
fn run_s(
    preset: &str,
    sets: &[(&str, &str)],
    depth: usize,
    bytes: u32,
    count: u64,
    (random, write): (bool, bool),
) -> f64 {
    let sets: Vec<_> =
        sets.iter().map(|(path, value)| (path.to_string(), value.to_string())).collect();
    let spec = load(preset, &sets).expect("the preset is right").spec;
    let disk = spec.disk.as_ref().map(|disk| disk as &dyn DeviceDescription);
    let drive = disk.or(spec.ssd.as_ref().map(|ssd| ssd as _));
    let drive = drive.or(spec.nvm.as_ref().map(|nvm| nvm as _)).expect("drives");
    let sata = spec.sata.as_ref().map(|sata| sata as &dyn LinkDescription);
    let link = sata.or(spec.link.as_ref().map(|link| link as _)).expect("a link");
    let (mut device, places) = (drive.build(link), drive.capacity().bytes() / u64::from(bytes));
    let mut draws = Random::stream(1, "raid");
    let (mut sent, mut done, mut now_ps) = (0, 0, 0);
    let mut out: Vec<Completion> = Vec::new();
    while done < count {
        while sent < count && sent - done < depth as u64 {
            let place = if random { draws.below(places) } else { sent };
            let address = place * u64::from(bytes);
            let request = Request { id: sent as u32, address, bytes, write, background: false };
            if device.submit(now_ps, request).is_err() {
                break;
            }
            sent += 1;
        }
        now_ps = device.next_event_ps().expect("something is under way");
        device.advance(now_ps, &mut out);
        done += out.drain(..).count() as u64;
    }
    now_ps as f64 / 1e12
}

#[test]
fn four_disks_are_four_times_as_fast() {
    let one = time_s("device/disk-7200", &[], 4, 1 << 20, 400, false);
    let four = time_s("device/disk-raid", &[], 4, 1 << 20, 400, false);
    println!("in order: {:.1} and {:.1} MB/s", 419.4 / one, 419.4 / four);
    assert!((3.4..4.2).contains(&(one / four)), "in order: {one} and {four}");
    let one = time_s("device/disk-7200", &[], 16, 4096, 2000, true);
    let four = time_s("device/disk-raid", &[], 64, 4096, 8000, true);
    println!("random: {:.1} and {:.1} reads/s", 2000.0 / one, 8000.0 / four);
    assert!((3.4..4.4).contains(&(8000.0 / four / (2000.0 / one))), "{one} and {four}");
}

#[test]
fn four_ssds_against_published_figures() {
    let one = time_s("device/x25-e", &[("ssd.initial", "written")], 16, 1 << 20, 400, false);
    let four = time_s("device/ssd-raid", &[("ssd.initial", "written")], 16, 1 << 20, 1600, false);
    println!("in order: {:.1} and {:.1} MB/s", 419.4 / one, 1677.7 / four);
    let four_mb_s = 1677.7 / four;
    // 250 MB/s each ([NVM10] §III-D).
    assert!((four_mb_s / 1000.0 - 1.0).abs() < 0.08, "{four_mb_s}");
}

/// Six modules of Optane, interleaved by 4 KiB as in a socket (Yang et al., FAST 2020, §2.1), lines of all of which
/// are read at once: six times the bandwidth of one.
#[test]
fn six_interleaved_modules_are_six_times_as_fast() {
    let six = [
        ("nvm.raid.drives", "6"),
        ("nvm.raid.stripe", "4KiB"),
        ("nvm.raid.queue_depth", "384"),
        ("nvm.raid.latency", "0s"),
    ];
    let one = time_s("device/optane-dimm", &[], 64, 64, 4_000, true);
    let many = time_s("device/optane-dimm", &six, 384, 64, 24_000, true);
    println!("random lines: {:.2} and {:.2} GB/s", 256e3 / one / 1e9, 1536e3 / many / 1e9);
    assert!((5.0..6.5).contains(&(6.0 * one / many)), "{one} and {many}");
}

#[test]
fn every_value_of_a_raid_is_felt() {
    let modules: &[(&str, &str)] = &[
        ("nvm.raid.drives", "6"),
        ("nvm.raid.stripe", "4KiB"),
        ("nvm.raid.queue_depth", "384"),
        ("nvm.raid.latency", "0s"),
    ];
    for (kind, preset, with) in [
        ("disk", "device/disk-raid", &[][..]),
        ("ssd", "device/ssd-raid", &[]),
        ("nvm", "device/optane-dimm", modules),
    ] {
        let run = |field: &str, value: &str| {
            let path = format!("{kind}.raid.{field}");
            let set = Some((path.as_str(), value)).filter(|_| !value.is_empty());
            let sets: Vec<_> = with.iter().copied().chain(set).collect();
            time_s(preset, &sets, 16, 262_144, 200, true)
        };
        let plain = run("", "");
        for (field, value) in [
            ("drives", "2"),
            ("stripe", "512KiB"),
            ("queue_depth", "1"),
            ("latency", "10ms"),
            ("bandwidth", "10MB/s"),
        ] {
            let changed = run(field, value);
            let slower = changed > plain;
            // Which stripe is best depends on the requests.
            let felt = if field == "stripe" { changed != plain } else { slower };
            assert!(felt, "{kind}.raid.{field} = {value}: {plain} and {changed}");
        }
    }
}

#[test]
fn every_value_of_an_adapters_cache_is_felt() {
    for (kind, preset) in [("disk", "device/disk-raid"), ("ssd", "device/ssd-raid")] {
        let run = |field: &str, value: &str| {
            let mut sets = vec![
                (format!("{kind}.raid.bandwidth"), "2GB/s"),
                (format!("{kind}.raid.cache.capacity"), "16MiB"),
                (format!("{kind}.raid.cache.write_back"), "true"),
                (format!("{kind}.raid.cache.write_backs"), "4"),
            ];
            sets.push((format!("{kind}.raid.cache.{field}"), value));
            let sets: Vec<_> = sets.iter().map(|(path, value)| (path.as_str(), *value)).collect();
            run_s(preset, &sets, 16, 65_536, 1000, (true, true))
        };
        for (field, value) in [("capacity", "1MiB"), ("write_back", "false"), ("write_backs", "1")]
        {
            let (plain, changed) = (run("write_backs", "4"), run(field, value));
            // More runs at once let a drive put them in order, and its other requests wait for more. What is
            // written back is forced: drives of flash program pages for it that are not full.
            let either = field == "write_backs" || (kind, field) == ("ssd", "write_back");
            let felt = if either { changed != plain } else { changed > plain };
            assert!(felt, "{kind}.raid.cache.{field} = {value}: {plain} and {changed}");
        }
    }
}

#[test]
fn small_writes_in_order_end_in_the_adapters_cache() {
    let written_s = |sets: &[(&str, &str)]| {
        run_s("device/disk-raid", sets, 1, 4096, 2000, (false, true)) / 2000.0 * 1e6
    };
    let (with, without) = (written_s(&[]), written_s(&[("disk.raid.cache.write_back", "false")]));
    println!("4 KiB written in order: {with:.0} us, {without:.0} us without write-back");
    // What the adapter takes: its time, and 4 KiB at 2 GB/s.
    assert!((with - 102.05).abs() < 0.1 && without > with, "{with} and {without}");
}

/// A direct read of so many pages from the array of SSDs, which the host deals, and what else is said of the machine: the
/// time of its paths in driver and block layer, and interrupts.
fn asks(pages: u64, more: Sets<'_>) -> (f64, u64) {
    let (offset, length, address) = (0, pages * PAGE, ANONYMOUS);
    let mut ops = call(Call::Open { file: 0, size: 1 << 24 });
    ops.extend((0..pages).map(|page| Op::store(ANONYMOUS + page * PAGE, 8, 4)));
    ops.extend(call(Call::ReadDirect { file: 0, offset, length, address }));
    let changes: Sets<'_> = &[
        ("os.paths.driver", "{ instructions = 1000, lines = 0 }"),
        ("os.paths.block_layer", "{ instructions = 3000, lines = 0 }"),
        ("ssd.raid.latency", "0ns"),
    ];
    let found = run(&system("ssd-raid", &[FREE_KERNEL, changes, more]), &[ops]);
    let stages_ns = &found.result.calls["read"].stages_ns;
    (stages_ns["driver"] + stages_ns["block_layer"], found.result.counters["interrupts"])
}

#[test]
fn each_drive_that_the_host_asks_costs_it_the_paths_of_a_request_and_an_interrupt() {
    let (one, told) = asks(1, &[]);
    assert_eq!(told, 1);
    // Stripes of 64 KiB, requests of 512 KiB. A drive's pieces are one request of a transfer.
    for (pages, asked, told) in
        [(16, 1.0, 1), (32, 2.0, 2), (64, 4.0, 4), (128, 4.0, 4), (160, 6.0, 4)]
    {
        let (paths, interrupts) = asks(pages, &[]);
        let times = paths / one;
        assert!((times / asked - 1.0).abs() < 0.02, "{pages} pages: {times} for {asked}");
        assert_eq!(interrupts, told, "{pages} pages");
    }
}

#[test]
fn behind_a_block_layer_the_host_pays_for_each_drive_too() {
    let layer: Sets<'_> = &[("storage.block_layer", "{ scheduler = \"none\" }")];
    let (one, _) = asks(1, layer);
    for (pages, asked) in [(16, 1.0), (64, 4.0), (128, 4.0)] {
        let (paths, interrupts) = asks(pages, layer);
        let times = paths / one;
        assert!((times / asked - 1.0).abs() < 0.02, "{pages} pages: {times} for {asked}");
        assert_eq!(interrupts, 1, "{pages} pages are one request");
    }
}
