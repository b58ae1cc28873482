//! One read of 4 KiB that nothing in memory has, stage by stage, on each preset of an operating system over a store, against
//! what was published. `TIERSCOPE_BLESS=1` writes what is found into docs/models/cold-read.md.

use super::support::*;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tierscope_workload::Op;
use tierscope_workload::op::Call;

/// How a page is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A call past the page cache.
    Direct,
    /// A call through it.
    Call,
    /// A load from a mapping.
    Fault,
}

/// Presets, and how their pages are asked for.
const PRESETS: [(&str, [Way; 2]); 27] = [
    ("storage", [Way::Call, Way::Fault]),
    ("storage/z-ssd", [Way::Call, Way::Fault]),
    ("storage/970-pro", [Way::Call, Way::Fault]),
    ("storage/ext4", [Way::Direct, Way::Fault]),
    ("storage/ext3", [Way::Call, Way::Fault]),
    ("storage/disk-7200", [Way::Call, Way::Fault]),
    ("mmap", [Way::Call, Way::Fault]),
    ("mmap/intel-750", [Way::Call, Way::Fault]),
    ("mmap/intel-535", [Way::Call, Way::Fault]),
    ("nvdimm-f", [Way::Call, Way::Fault]),
    ("buffer-cache", [Way::Call, Way::Fault]),
    ("haste", [Way::Direct, Way::Call]),
    ("haste/queued", [Way::Direct, Way::Call]),
    ("haste/xfs", [Way::Direct, Way::Call]),
    ("haste/ext3", [Way::Direct, Way::Call]),
    ("fusion-io", [Way::Direct, Way::Call]),
    ("fusion-io/xfs", [Way::Direct, Way::Call]),
    ("fusion-io/ext3", [Way::Direct, Way::Call]),
    ("ssd-raid", [Way::Direct, Way::Call]),
    ("ssd-raid/xfs", [Way::Direct, Way::Call]),
    ("ssd-raid/ext3", [Way::Direct, Way::Call]),
    ("disk-raid", [Way::Direct, Way::Call]),
    ("disk-raid/xfs", [Way::Direct, Way::Call]),
    ("disk-raid/ext3", [Way::Direct, Way::Call]),
    ("ddr-block", [Way::Direct, Way::Call]),
    ("ddr-block/xfs", [Way::Direct, Way::Call]),
    ("ddr-block/ext3", [Way::Direct, Way::Call]),
];

/// Stages of what hardware takes beside the host's processor and memory, as [HYB15] Table 3 counts it.
const HARDWARE: [&str; 6] = ["link", "store_queue", "device", "medium", "dma", "controller_queue"];

/// Of a file of 64 MiB, a page in the middle; nothing has been read of it but its metadata.
const FILE_PAGES: u64 = 1 << 14;
const PAGE_ASKED: u64 = 1 << 13;

/// What a read takes in each stage, in picoseconds; the kernel reads nothing beside the page.
fn cold(preset: &str, way: Way) -> BTreeMap<String, u64> {
    let (offset, length, address) = (PAGE_ASKED * PAGE, PAGE, ANONYMOUS);
    let size = FILE_PAGES * PAGE;
    let mut ops = call(Call::Open { file: 0, size });
    // The buffer is there.
    ops.extend((0..2).map(|at| Op::store(ANONYMOUS + at * 8, 8, 4)));
    let before = ops.clone();
    match way {
        Way::Direct => ops.extend(call(Call::ReadDirect { file: 0, offset, length, address })),
        Way::Call => ops.extend(call(Call::Read { file: 0, offset, length, address })),
        Way::Fault => {
            ops.extend(call(Call::Map {
                address: MAPPED,
                length: size,
                flags: 0,
                file: 0,
                offset: 0,
            }));
            ops.push(Op::load(MAPPED + offset, 8, 4));
        }
    }
    let spec =
        system(preset, &[&[("storage.readahead", "4KiB"), ("storage.fault_around", "4KiB")]]);
    let found = run(&spec, &[ops]);
    if way == Way::Fault {
        return found.minus(&run(&spec, &[before])).stages_ps;
    }
    let read = &found.result.calls["read"];
    assert_eq!(read.count, 1);
    read.stages_ns.iter().map(|(name, ns)| (name.clone(), (ns * 1e3).round() as u64)).collect()
}

fn total_us(stages_ps: &BTreeMap<String, u64>) -> f64 {
    stages_ps.values().sum::<u64>() as f64 / 1e6
}

fn hardware_us(stages_ps: &BTreeMap<String, u64>) -> f64 {
    HARDWARE.iter().filter_map(|stage| stages_ps.get(*stage)).sum::<u64>() as f64 / 1e6
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/models/cold-read.md")
}

/// A line for each read: the longest stages first.
fn table() -> String {
    let mut lines = String::new();
    for (preset, ways) in PRESETS {
        for way in ways {
            let stages_ps = cold(preset, way);
            let mut told: Vec<(&String, f64)> =
                stages_ps.iter().map(|(name, ps)| (name, *ps as f64 / 1e6)).collect();
            told.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
            let parts: Vec<String> = told
                .iter()
                .filter(|(_, us)| *us >= 0.005)
                .map(|(name, us)| format!("{name} {us:.2}"))
                .collect();
            let name = match way {
                Way::Direct => "direct",
                Way::Call => "read",
                Way::Fault => "fault",
            };
            writeln!(
                lines,
                "{preset:<17} {name:<6} {:>9.2} = {}",
                total_us(&stages_ps),
                parts.join(" + ")
            )
            .expect("strings take all");
        }
    }
    lines
}

#[test]
fn a_cold_read_takes_what_the_page_says_stage_by_stage() {
    let path = page();
    let text = std::fs::read_to_string(&path).unwrap();
    let mut parts: Vec<&str> = text.splitn(3, "```").collect();
    let found = format!("text\n{}", table());
    if std::env::var_os("TIERSCOPE_BLESS").is_some() {
        parts[1] = &found;
        return std::fs::write(&path, parts.join("```")).unwrap();
    }
    assert_eq!(parts[1], found, "cold-read.md does not say what happens");
}

/// [NVM10] §III-A, §V-A and Fig. 5: 15 to 16 us on HASTE, 3 us on the memory of the host, 6 us more with a file system; 75 us
/// is what Intel says of an X25-E (§III-D). [HYB15] Table 3: 38.9 us of hardware. [HAMS21] §III-B: 15 to 20 us of software a
/// fault.
#[test]
fn published_times_of_a_cold_read_are_met_or_missed_as_the_page_says() {
    let haste = total_us(&cold("haste", Way::Direct));
    assert!((15.0..=16.5).contains(&haste), "{haste}");
    let ramdisk = total_us(&cold("ddr-block", Way::Direct));
    assert!((2.7..=3.3).contains(&ramdisk), "{ramdisk}");
    for (raw, with) in [("haste", "haste/xfs"), ("ddr-block", "ddr-block/xfs")] {
        let more = total_us(&cold(with, Way::Direct)) - total_us(&cold(raw, Way::Direct));
        assert!((5.4..=6.6).contains(&more), "{more} us of XFS on {raw}");
    }
    let storage = cold("storage", Way::Fault);
    let hardware = hardware_us(&storage);
    assert!((0.85..=1.0).contains(&(hardware / 38.9)), "{hardware} us of hardware");
    let software = total_us(&storage) - hardware;
    // The paper has 46.5; why it takes so long there is not known.
    assert!((20.0..=35.0).contains(&software), "{software} us of software");
    let mmap = cold("mmap", Way::Fault);
    let software = total_us(&mmap) - hardware_us(&mmap);
    // A little longer than what is cited there: 6.8 us are what an older kernel's file system takes.
    assert!((20.0..=24.0).contains(&software), "{software} us of software a fault");
}

/// Disks take most for their mechanism, quick flash for its cells or its controller, memory for the software before it.
#[test]
fn the_part_that_rules_a_cold_read_is_that_of_its_technology() {
    for (preset, way, most) in [
        ("disk-raid", Way::Direct, "medium"),
        ("buffer-cache", Way::Fault, "medium"),
        ("fusion-io", Way::Direct, "device"),
        ("haste", Way::Direct, "driver"),
        ("ddr-block", Way::Direct, "driver"),
        ("storage", Way::Fault, "medium"),
    ] {
        let stages_ps = cold(preset, way);
        let longest = stages_ps.iter().max_by_key(|(_, time_ps)| **time_ps).expect("it took time");
        assert_eq!(longest.0, most, "{preset}: {stages_ps:?}");
    }
}
