//! What a file system has freed, or swap, is told to the drive: what that changes for the drive.

use super::support::*;
use tierscope_system::result::DriveResult;
use tierscope_workload::Op;
use tierscope_workload::op::{Call, fallocate};

/// A file that comes and goes, and one that stays.
const COMES: u32 = 1;
const STAYS: u32 = 2;
const PAGES: u64 = 2048;

/// A small drive that is full from the start, so that what is written makes it collect.
const SMALL: &[(&str, &str)] = &[
    ("ssd.capacity", "32MiB"),
    ("ssd.nand.channels", "2"),
    ("ssd.nand.ways", "1"),
    ("ssd.nand.blocks", "90"),
    ("ssd.nand.pages", "8"),
    ("storage.dram_capacity", "32MiB"),
    ("storage.file_system.journal_capacity", "1MiB"),
];

fn write(file: u32, first: u64, pages: u64) -> Call {
    Call::Write { file, offset: first * PAGE, length: pages * PAGE, address: ANONYMOUS }
}

fn run_with(more: &[(&str, &str)], calls: &[Call]) -> DriveResult {
    let ops: Vec<Op> = calls.iter().flat_map(|it| call(*it)).collect();
    let sums = run(&system("storage/ext4", &[SMALL, more]), &[ops]);
    sums.result.drive.expect("its store is a drive")
}

/// The file comes, these calls are made, and then the other is written again and again, with a sync each time.
fn after(goes: &[Call]) -> Vec<Call> {
    let open = |file| Call::Open { file, size: 0 };
    let mut calls = vec![open(COMES), write(COMES, 0, PAGES), Call::Sync { file: COMES }];
    calls.extend(goes);
    calls.push(open(STAYS));
    for _ in 0..12 {
        calls.extend([write(STAYS, 0, 512), Call::Sync { file: STAYS }]);
    }
    calls
}

const DISCARD: (&str, &str) = ("storage.file_system.discard", "true");
const GONE: [Call; 2] =
    [Call::Truncate { file: COMES, length: 0 }, Call::Unlink { file: COMES, size: 0 }];

#[test]
fn a_deleted_file_leaves_the_drive_where_that_is_discarded_and_it_moves_less() {
    for kind in ["ext4", "ext3", "xfs"] {
        let kind = ("storage.file_system.kind", kind);
        let keeps = run_with(&[kind], &after(&GONE));
        let discards = run_with(&[kind, DISCARD], &after(&GONE));
        assert_eq!(keeps.trimmed_pages, 0, "{kind:?}");
        assert_eq!(discards.trimmed_pages, PAGES, "{kind:?}");
        let moved = [&keeps, &discards].map(|drive| drive.moved_pages);
        assert!(moved[1] * 10 < moved[0] * 9, "{kind:?}: {moved:?}");
        let amplified = [&keeps, &discards].map(|drive| drive.write_amplification.unwrap());
        assert!(amplified[1] < amplified[0], "{kind:?}: {amplified:?}");
    }
}

#[test]
fn what_is_cut_off_or_made_a_hole_is_discarded_and_what_stays_is_not() {
    let cut = [Call::Truncate { file: COMES, length: 100 * PAGE }];
    assert_eq!(run_with(&[DISCARD], &after(&cut)).trimmed_pages, PAGES - 100);
    let mode = fallocate::PUNCH_HOLE | fallocate::KEEP_SIZE;
    let hole = Call::Allocate { file: COMES, mode, offset: 8 * PAGE, length: 40 * PAGE };
    assert_eq!(run_with(&[DISCARD], &after(&[hole])).trimmed_pages, 40);
    // Nothing is told of a file that is there again before the commit.
    let again = [GONE[0], write(COMES, 0, PAGES), Call::Sync { file: COMES }];
    assert_eq!(run_with(&[DISCARD], &after(&again)).trimmed_pages, 0);
}

/// Through the block layer a discard is a request of its own, whatever lies beside it.
#[test]
fn a_discard_passes_the_block_layer() {
    for scheduler in ["none", "mq-deadline", "cfq"] {
        let layer = format!("{{ scheduler = \"{scheduler}\" }}");
        let layer = ("storage.block_layer", &*layer);
        assert_eq!(run_with(&[layer, DISCARD], &after(&GONE)).trimmed_pages, PAGES, "{scheduler}");
    }
}

/// Memory comes and goes of which a part is in swap, while a file is written again and again.
#[test]
fn free_swap_leaves_the_drive_where_that_is_discarded_and_it_moves_less() {
    let pages = 3072;
    let mut ops: Vec<Op> =
        (0..pages).map(|page| Op::store(ANONYMOUS + page * PAGE, 8, 10)).collect();
    ops.extend(call(Call::Unmap { address: ANONYMOUS, length: pages * PAGE }));
    ops.extend(call(Call::Open { file: STAYS, size: 0 }));
    for _ in 0..12 {
        ops.extend([write(STAYS, 0, 512), Call::Sync { file: STAYS }].into_iter().flat_map(call));
    }
    let memory = ("storage.dram_capacity", "4MiB");
    let run_with = |sets: &[(&str, &str)]| {
        let sums = run(&system("storage/ext4", &[SMALL, &[memory], sets]), &[ops.clone()]);
        sums.result.drive.expect("its store is a drive")
    };
    let [keeps, discards] = [run_with(&[]), run_with(&[("storage.swap_discard", "true")])];
    assert_eq!(keeps.trimmed_pages, 0);
    // Whole clusters of 512, of what does not fit into memory.
    assert!(discards.trimmed_pages >= 4 * 512, "{}", discards.trimmed_pages);
    let moved = [&keeps, &discards].map(|drive| drive.moved_pages);
    assert!(moved[1] * 10 < moved[0] * 9, "{moved:?}");
}
