//! Page faults: how long they take, by what they need, and where that time goes.

use super::support::*;
use tierscope_system::result::FaultResult;
use tierscope_workload::Op;
use tierscope_workload::op::{Call, FileId, MAP_SHARED, MAP_WRITABLE, NO_FILE};

const PAGES: u64 = 32;

fn map(address: u64, flags: u64, file: FileId) -> Vec<Op> {
    call(Call::Map { address, length: PAGES * PAGE, flags, file, offset: 0 })
}

fn touches(address: u64, write: bool) -> impl Iterator<Item = Op> {
    (0..PAGES).map(move |page| match write {
        true => Op::store(address + page * PAGE, 8, 4),
        false => Op::load(address + page * PAGE, 8, 4),
    })
}

/// A file is read through a mapping, then copied by stores to a private one; memory is touched for the first time.
fn program() -> Vec<Op> {
    let (shared, private) = (MAPPED, MAPPED + (1 << 30));
    let mut ops = call(Call::Open { file: 0, size: PAGES * PAGE });
    ops.extend(map(shared, MAP_SHARED, 0));
    ops.extend(touches(shared, false));
    ops.extend(map(private, MAP_WRITABLE, 0));
    ops.extend(touches(private, true));
    ops.extend(map(ANONYMOUS, MAP_WRITABLE, NO_FILE));
    ops.extend(touches(ANONYMOUS, true));
    ops
}

const ALONE: Sets<'static> = &[("storage.readahead", "0B"), ("storage.fault_around", "4KiB")];

fn of<'a>(sums: &'a Sums, kind: &str) -> &'a FaultResult {
    sums.result.faults.get(kind).unwrap_or_else(|| panic!("no fault was {kind}"))
}

#[test]
fn faults_are_told_by_what_they_need() {
    let sums = run(&system("storage/quick", &[ALONE]), &[program()]);
    let kinds: Vec<&str> = sums.result.faults.keys().map(String::as_str).collect();
    assert_eq!(kinds, ["copy", "major", "minor"]);
    for kind in ["copy", "major", "minor"] {
        assert_eq!(of(&sums, kind).count, PAGES, "{kind}");
    }
    assert_eq!(sums.counter("faults"), 3 * PAGES);
    for (kind, one) in &sums.result.faults {
        let stages_ns: f64 = one.stages_ns.values().sum();
        let mean_ns = one.latency_ns.mean;
        assert!((stages_ns / mean_ns - 1.0).abs() < 1e-9, "{kind}: {stages_ns} of {mean_ns}");
        assert!((one.time_ns / one.count as f64 / mean_ns - 1.0).abs() < 1e-9, "{kind}");
        assert_eq!(one.stages_ns.contains_key("medium"), kind == "major", "{kind}");
    }
    // A page of zeros, and a copy of a page, which takes its loads as well.
    assert!(of(&sums, "copy").latency_ns.mean > of(&sums, "minor").latency_ns.mean);
    assert!(of(&sums, "major").latency_ns.p50 > 5.0 * of(&sums, "copy").latency_ns.p50);
}

/// What a fault takes is what the access behind it has waited for, stage by stage.
#[test]
fn what_faults_take_is_a_part_of_what_accesses_take() {
    let sums = run(&system("storage/quick", &[ALONE]), &[program()]);
    let faults_ns: f64 = sums.result.faults.values().map(|one| one.time_ns).sum();
    let accesses_ns = sums.latency_ps as f64 / 1e3;
    assert!(faults_ns < accesses_ns && faults_ns > 0.9 * accesses_ns, "{faults_ns}, {accesses_ns}");
    let medium_ns: f64 = of(&sums, "major").stages_ns["medium"] * PAGES as f64;
    assert!((medium_ns * 1e3 / sums.stage_ps("medium") as f64 - 1.0).abs() < 1e-6);
}

#[test]
fn memory_that_has_left_comes_back_from_swap_and_huge_pages_are_a_kind_of_their_own() {
    let more: Sets<'_> = &[("storage.dram_capacity", "2MiB"), ("storage.swap_cluster_pages", "1")];
    let far =
        |round: u64| (0..1024).map(move |page| Op::store(ANONYMOUS + (page + round) * PAGE, 8, 4));
    let mut ops = call(Call::Map {
        address: ANONYMOUS,
        length: 2048 * PAGE,
        flags: MAP_WRITABLE,
        file: NO_FILE,
        offset: 0,
    });
    ops.extend(far(0).chain(far(1)));
    let sums = run(&system("storage/quick", &[more]), &[ops.clone()]);
    assert_eq!(of(&sums, "swap").count, sums.counter("major_faults"));
    assert!(of(&sums, "swap").count > 500 && of(&sums, "minor").count > 1000);
    assert!(of(&sums, "swap").stages_ns["medium"] > 1000.0);
    let huge = run(&system("oracle/quick", &[&[("os.transparent_huge_pages", "always")]]), &[ops]);
    assert_eq!(of(&huge, "huge").count, huge.counter("huge_page_faults"));
}
