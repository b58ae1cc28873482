//! Failures of power on machines with a file system: what a sync has promised is there, files show nothing but what
//! was theirs, and the check can fail.

use crate::common::random::{Do, doing, script};
use crate::common::{ANONYMOUS, MAPPED, PAGE, Script, call};
use crate::crash::adversarial;
use crate::thorough::of_many;
use proptest::prelude::*;
use tierscope_kernel::{Counter, Random};
use tierscope_model::power::{Judge, Weakness, cut_and_recover, judge as full_judge};
use tierscope_system::crash::{CrashError, CrashOptions, CrashReport, Watch, crash};
use tierscope_system::machine::Machine;
use tierscope_system::run::RunOptions;
use tierscope_system::spec::{SystemSpec, load};
use tierscope_workload::generator;
use tierscope_workload::op::{Call, MAP_SHARED, NO_FILE, fallocate};
use tierscope_workload::{FileId, Op, Stream};

/// A journal of 64 blocks, so that it is checkpointed all the time, and metadata that is written early.
const SMALL: [(&str, &str); 7] = [
    ("storage.dram_capacity", "16MiB"),
    ("storage.file_system.journal_capacity", "256KiB"),
    ("storage.file_system.commit_interval", "2ms"),
    ("storage.file_system.timestamp_interval", "1us"),
    ("storage.dirty_writeback", "1ms"),
    ("storage.dirty_expire", "3ms"),
    ("processor.caches.L2.capacity", "64KiB"),
];

fn machine(more: &[(&str, &str)]) -> SystemSpec {
    let on_store = more.iter().any(|(path, _)| path.starts_with("store."));
    let name = if on_store { "storage/quick" } else { "storage/ext4" };
    let table = [("storage.file_system", TABLE)];
    let table = table.iter().filter(|_| on_store);
    let sets = table.chain(&SMALL).chain(more).map(|(path, to)| (path.to_string(), to.to_string()));
    let sets: Vec<_> = sets.collect();
    load(name, &sets).unwrap_or_else(|problems| panic!("{problems}")).spec
}

const TABLE: &str = "{ kind = \"ext4\", journal = \"ordered\", commit_interval = \"5s\", \
     journal_capacity = \"256KiB\", barrier = \"flush\", timestamp_interval = \"1us\" }";
/// A store that keeps what it has answered, and takes some requests long after others.
const STORE: (&str, &str) = ("store.units", "4");
const UNSAFE: (&str, &str) = ("storage.file_system.barrier", "none");
const FLUSH: (&str, &str) = ("storage.file_system.barrier", "flush");
const SAVED: (&str, &str) = ("ssd.buffer.capacitors", "true");
const WRITEBACK: (&str, &str) = ("storage.file_system.journal", "writeback");
const EXT3: (&str, &str) = ("storage.file_system.kind", "ext3");
const XFS: (&str, &str) = ("storage.file_system.kind", "xfs");
const DISCARD: (&str, &str) = ("storage.file_system.discard", "true");
const DATA: (&str, &str) = ("storage.file_system.journal", "data");
/// A drive whose pages are half as large as blocks.
const HALVES: (&str, &str) = ("ssd.page", "2KiB");

/// Pages of the file that is mapped.
const PAGES: u64 = 16;
/// Files that come and go, of each thread.
const FILES: u64 = 6;

/// A thread's files are written, appended to, cut off, deleted and synced at random, and all share a mapped one.
fn work(thread: u32, turns: u64, seed: u64) -> Vec<Op> {
    let draw = Counter::stream(seed + u64::from(thread), "crash.files");
    let map =
        Call::Map { address: MAPPED, length: PAGES * PAGE, flags: MAP_SHARED, file: 0, offset: 0 };
    let mut ops = Vec::new();
    if thread == 0 {
        ops.extend([call(Call::Open { file: 0, size: PAGES * PAGE }), call(map)].concat());
        ops.extend((1..3).flat_map(|thread| call(Call::Spawn { thread })));
    }
    let mut sizes = [0; FILES as usize];
    for turn in 0..turns {
        let below = |n: u64, most: u64| draw.below_at(8 * turn + n, most);
        let which = below(0, FILES);
        let file = (1 + u64::from(thread) * FILES + which) as FileId;
        let size: &mut u64 = &mut sizes[which as usize];
        ops.extend(call(Call::Open { file, size: 0 }));
        let mut write = |offset: u64, length: u64, size: &mut u64| {
            let address = ANONYMOUS + u64::from(thread) * (1 << 20);
            let direct = [offset, length].iter().all(|it| it % PAGE == 0) && below(7, 2) == 0;
            ops.extend(call(match direct {
                true => Call::WriteDirect { file, offset, length, address },
                false => Call::Write { file, offset, length, address },
            }));
            *size = (offset + length).max(*size);
        };
        match below(1, 12) {
            0 => write(*size, 1 + below(2, 48 * PAGE), size),
            1..4 => write(*size, 1 + below(2, 2 * PAGE), size),
            4..8 => write(below(2, size.max(&mut PAGE.clone()).div_ceil(PAGE)) * PAGE, PAGE, size),
            8 => {
                *size = below(2, *size + 1);
                ops.extend(call(Call::Truncate { file, length: *size }));
            }
            9 if below(2, 2) == 0 => {
                *size = 0;
                ops.extend(call(Call::Truncate { file, length: 0 }));
                ops.extend(call(Call::Unlink { file, size: 0 }));
                continue;
            }
            10 => {
                let mode =
                    [0, fallocate::KEEP_SIZE, fallocate::ZERO_RANGE, 3][below(2, 4) as usize];
                let (offset, length) = (below(3, 8 * PAGE), 1 + below(6, 8 * PAGE));
                if mode & (fallocate::KEEP_SIZE | fallocate::PUNCH_HOLE) == 0 {
                    *size = (offset + length).max(*size);
                }
                ops.extend(call(Call::Allocate { file, mode, offset, length }));
            }
            11 if below(2, 2) == 0 && *size > 0 => {
                let source = 1 + thread * FILES as FileId + below(3, FILES) as FileId;
                let (source_offset, offset) = (0, size.next_multiple_of(PAGE));
                let length = 1 + below(6, 8 * PAGE);
                *size = offset + length;
                ops.extend(call(Call::CopyRange { source, source_offset, file, offset, length }));
            }
            _ => ops.push(Op::store(MAPPED + below(2, PAGES) * PAGE + below(3, 64) * 64, 8, 10)),
        }
        let file = 1 + thread * FILES as FileId + below(6, FILES) as FileId;
        match below(4, 8) {
            0..2 => ops.extend(call(Call::Sync { file })),
            2..4 => ops.extend(call(Call::SyncData { file })),
            4 => {
                let (first, all) = (turn % 3 * 4, PAGES * PAGE);
                let (address, length) = (MAPPED + first * PAGE, all - first * PAGE);
                ops.extend(call(Call::SyncRange { address, length }));
            }
            5 => ops.extend(call(Call::Sleep { duration_ps: below(5, 1_000_000_000) })),
            6 if turn % 4 == 0 => ops.extend(call(Call::SyncAll {})),
            7 => {
                ops.extend(call(Call::SyncFileRange {
                    file,
                    offset: 0,
                    length: 0,
                    flags: turn % 8,
                }));
            }
            _ => {}
        }
    }
    ops
}

pub fn stream(turns: u64, seed: u64) -> Box<dyn Stream> {
    let threads: Vec<Vec<Op>> = (0..3).map(|thread| work(thread, turns, seed)).collect();
    Script::stream(&threads)
}

/// Many threads write new files, and sync each: while one transaction is committed, the next gets large.
fn crowd(threads: u32, turns: u64) -> Box<dyn Stream> {
    let work = |thread: u32| {
        let spawns = if thread == 0 { 1..threads } else { 0..0 };
        let mut ops: Vec<Op> = spawns.flat_map(|thread| call(Call::Spawn { thread })).collect();
        for turn in 0..turns {
            // Inodes and directories of their own.
            let file = ((1 + u64::from(thread)) * 4096 + turn * 256) as FileId;
            let (address, length) = (ANONYMOUS + u64::from(thread) * (1 << 20), 2 * PAGE);
            ops.extend(call(Call::Open { file, size: 0 }));
            ops.extend(call(Call::Write { file, offset: 0, length, address }));
            ops.extend(call(Call::Sync { file }));
        }
        ops
    };
    Script::stream(&(0..threads).map(work).collect::<Vec<_>>())
}

fn fail(more: &[(&str, &str)], options: &CrashOptions) -> Result<CrashReport, CrashError> {
    crash(&machine(more), stream(40, 1), options, &Watch::default())
}

#[test]
fn what_a_sync_has_promised_is_there_and_files_show_only_what_was_theirs() {
    let mut checkpoints = 0;
    for more in [
        &[][..],
        &[FLUSH],
        &[WRITEBACK],
        &[EXT3],
        &[EXT3, WRITEBACK],
        &[UNSAFE, SAVED],
        &[EXT3, UNSAFE, SAVED],
        &[WRITEBACK, UNSAFE, SAVED],
        &[STORE],
        &[STORE, EXT3, UNSAFE],
        &[DATA],
        &[DATA, FLUSH],
        &[DATA, EXT3],
        &[DATA, UNSAFE, SAVED],
        &[DATA, STORE],
        &[XFS],
        &[XFS, FLUSH],
        &[XFS, UNSAFE, SAVED],
        &[XFS, STORE],
        &[DISCARD],
        &[DISCARD, DATA, FLUSH],
        &[DISCARD, XFS],
        &[HALVES],
        &[HALVES, FLUSH, EXT3],
        &[HALVES, UNSAFE, SAVED],
        &[HALVES, DATA],
        &[HALVES, XFS],
    ] {
        let report = fail(more, &adversarial(40, &[])).unwrap();
        assert!(report.holds(), "{more:?}: {:#?}", report.failing);
        assert!(report.promised_lines > 1000 && report.second_cuts > 5, "{more:?}: {report:?}");
        assert!(report.replayed_transactions > 80, "{more:?}: {report:?}");
        assert!(report.under_way["command"] > 0 && report.under_way["commit"] > 0, "{report:?}");
        checkpoints += report.under_way["checkpoint"];
        let flushes = !more.contains(&UNSAFE) && !more.contains(&STORE);
        assert_eq!(report.under_way["barrier"] > 0, flushes, "{more:?}");
        // Blocks that are allocated when they are written are not shown before; they are where a call does it.
        let shows = more.contains(&EXT3) && more.contains(&WRITEBACK);
        assert_eq!(report.stale_permitted > 0, shows, "{more:?}: {report:?}");
        // The journal is read and carried out by the drive, which takes its time.
        assert_eq!(report.reissue_s.is_some(), !more.contains(&STORE), "{more:?}");
        assert!(report.reissue_s.is_none_or(|taken| taken.least > 0.0), "{more:?}");
    }
    assert!(checkpoints > 10, "{checkpoints}");
}

#[test]
fn a_transaction_for_which_the_log_is_short_waits_for_room() {
    for more in [&[][..], &[FLUSH], &[EXT3], &[DATA], &[XFS]] {
        let fail = |stream| crash(&machine(more), stream, &adversarial(60, &[]), &Watch::default());
        let report = fail(crowd(16, 6)).unwrap();
        assert!(report.holds(), "{more:?}: {:#?}", report.failing);
        assert!(report.under_way["checkpoint"] > 0 && report.promised_lines > 100, "{report:?}");
    }
}

/// A mail server with so many threads and files in so much memory, on a machine that is changed so.
fn mail(
    (threads, files, loops): (i64, i64, i64),
    sets: &[(&str, &str)],
    points: u64,
    seed: u64,
) -> CrashReport {
    let given = [("threads", threads.into()), ("files", files.into()), ("loops", loops.into())];
    let given = [&given[..], &[("memory", "1MiB".into())]].concat();
    let given: Vec<_> = given.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let mail = generator::find("filebench/varmail").unwrap();
    let sets: Vec<_> = sets.iter().map(|(path, to)| (path.to_string(), to.to_string())).collect();
    let spec = load("storage/ext4", &sets).unwrap_or_else(|problems| panic!("{problems}")).spec;
    let stream = mail.make(&given, seed).unwrap().0;
    let options = CrashOptions { seed, ..adversarial(points, &[]) };
    crash(&spec, stream, &options, &Watch::default()).unwrap()
}

/// Files come and go while others sync them and their pages are on their way.
#[test]
fn a_mail_server_keeps_what_its_syncs_have_promised() {
    for (journal, initial, seed) in
        [("256KiB", "erased", 0), ("256KiB", "steady", 0), ("1MiB", "steady", 1)]
    {
        let sets = [
            ("storage.dram_capacity", "64MiB"),
            ("storage.file_system.journal_capacity", journal),
            ("ssd.initial", initial),
        ];
        let report = mail((16, 50, 6), &sets, 50, seed);
        assert!(report.holds() && report.promised_lines > 1000, "{journal}: {:#?}", report.failing);
    }
}

/// What a deletion that is not committed has freed is not trimmed, and what is being trimmed is nobody's.
#[test]
fn a_drive_that_is_told_what_is_free_keeps_what_syncs_have_promised() {
    let points = 60;
    for more in [&[][..], &[FLUSH], &[EXT3], &[XFS], &[DATA], &[WRITEBACK], &[UNSAFE, SAVED]] {
        let report = fail(&[more, &[DISCARD]].concat(), &adversarial(points, &[])).unwrap();
        assert!(report.holds() && report.promised_lines > 1000, "{more:?}: {:#?}", report.failing);
    }
    for (kind, swap, seed) in [("ext4", "64MiB", 0), ("xfs", "64MiB", 1), ("ext4", "4MiB", 2)] {
        let sets = [
            DISCARD,
            ("storage.swap_discard", "true"),
            ("storage.file_system.kind", kind),
            ("storage.dram_capacity", swap),
            ("storage.file_system.journal_capacity", "1MiB"),
        ];
        let report = mail((16, 50, 6), &sets, points, seed);
        assert!(report.holds() && report.promised_lines > 1000, "{kind}: {:#?}", report.failing);
    }
}

/// In memory of a few MiB calls take so long that their files are deleted and made anew meanwhile: each goes on on the
/// file that it has begun with.
#[test]
fn a_call_under_way_on_a_deleted_file_does_not_reach_the_one_made_anew() {
    for (threads, files, memory, seed) in [(16, 30, "2MiB", 7), (32, 50, "3MiB", 0)] {
        let report = mail((threads, files, 3), &[("storage.dram_capacity", memory)], 100, seed);
        assert!(report.holds() && report.promised_lines > 4000, "{memory}: {:#?}", report.failing);
    }
}

/// As many threads as files come to a file that none can take; the points before are judged all the same.
#[test]
fn a_workload_that_stops_early_for_want_of_files_is_told() {
    let memory = [("storage.dram_capacity", "64MiB")];
    let report = mail((32, 30, 20), &memory, 5, 0);
    let why = report.ended_early.expect("it is told");
    assert!(why.contains("stopped early") && why.ends_with("or fewer workload.threads"), "{why}");
    assert_eq!(mail((4, 50, 2), &memory, 5, 0).ended_early, None);
}

/// Threads save documents as editors do: what is new goes to another file, which then gets the name of the old, and every
/// third of them to another directory; directories come and go, and have names of their own.
fn editors(threads: u32, turns: u64) -> Box<dyn Stream> {
    const DOCUMENTS: u64 = 4;
    let work = |thread: u32| {
        let spawns = if thread == 0 { 1..threads } else { 0..0 };
        let mut ops: Vec<Op> = spawns.flat_map(|thread| call(Call::Spawn { thread })).collect();
        let first = 1 + thread * 100;
        let [home, away, other] = [50, 51, 52].map(|at| first + at);
        for file in [home, away] {
            ops.extend(call(Call::MakeDirectory { file, parent: NO_FILE }));
        }
        // Of each document the file that has its name, and the one that gets it next.
        let mut pairs: Vec<[FileId; 2]> =
            (0..DOCUMENTS as FileId).map(|at| [first + 2 * at, first + 2 * at + 1]).collect();
        for turn in 0..turns {
            let pair = &mut pairs[(turn * 7 % DOCUMENTS) as usize];
            let [old, new] = *pair;
            let parent = if turn % 3 == 0 { away } else { home };
            let (address, length) =
                (ANONYMOUS + u64::from(thread) * (1 << 20), (1 + turn % 3) * PAGE);
            let replaced = if turn < DOCUMENTS { NO_FILE } else { old };
            ops.extend(call(Call::Within { file: new, parent: home, size: 0 }));
            ops.extend(call(Call::Open { file: new, size: 0 }));
            ops.extend(call(Call::Write { file: new, offset: 0, length, address }));
            if turn % 4 > 0 {
                ops.extend(call(Call::Sync { file: new }));
            }
            ops.extend(call(Call::Close { file: new }));
            ops.extend(call(Call::Rename { file: new, parent, replaced, size: 0, names: 0 }));
            if turn % 4 == 2 {
                ops.extend(call(Call::Sync { file: parent }));
            }
            match turn % 6 {
                0 => ops.extend(call(Call::MakeDirectory { file: other, parent: home })),
                2 => {
                    let (replaced, size, names) = (NO_FILE, 0, 0);
                    ops.extend(call(Call::Rename {
                        file: other,
                        parent: away,
                        replaced,
                        size,
                        names,
                    }));
                    ops.extend(call(Call::ReadDirectory { file: away, length: 200 }));
                }
                3 => ops.extend(call(Call::Link { file: new, parent: other })),
                4 => ops.extend(call(Call::Unname { file: new, parent: other })),
                5 => ops.extend(call(Call::RemoveDirectory { file: other })),
                _ => {}
            }
            *pair = [new, old];
        }
        ops
    };
    Script::stream(&(0..threads).map(work).collect::<Vec<_>>())
}

/// rename(2): whenever power fails, a name is that of the old file or of the new one.
#[test]
fn a_document_that_is_saved_by_renaming_is_there_the_old_or_the_new() {
    for more in [
        &[][..],
        &[FLUSH],
        &[EXT3],
        &[EXT3, WRITEBACK],
        &[DATA],
        &[XFS],
        &[UNSAFE, SAVED],
        &[DISCARD],
        &[STORE],
    ] {
        let options = adversarial(60, &[]);
        let report = crash(&machine(more), editors(4, 30), &options, &Watch::default()).unwrap();
        assert!(report.holds(), "{more:?}: {:#?}", report.failing);
        assert!(report.promised_lines > 1000, "{more:?}: {report:?}");
        assert!(report.replayed_transactions > 50, "{more:?}: {report:?}");
    }
}

#[test]
fn without_barriers_what_a_drive_buffers_is_lost() {
    for more in [&[UNSAFE][..], &[WRITEBACK, UNSAFE], &[EXT3, UNSAFE], &[XFS, UNSAFE]] {
        let report = fail(more, &adversarial(40, &[])).unwrap();
        assert!(report.failing_points > 20 && report.faults["lost"] > 100, "{more:?}: {report:?}");
        assert!(report.lost_pages > 0, "{more:?}");
    }
}

/// Pages of eight files are written, and forced to the store by this call now and then.
fn forced(turns: u64, force: impl Fn(FileId) -> Call) -> Box<dyn Stream> {
    let mut ops: Vec<Op> = (1..=8).flat_map(|file| call(Call::Open { file, size: 0 })).collect();
    for turn in 0..turns {
        let (file, offset) = (1 + (turn % 8) as FileId, turn % 5 * 4 * PAGE);
        ops.extend(call(Call::Write { file, offset, length: 4 * PAGE, address: ANONYMOUS }));
        if turn % 4 == 3 {
            ops.extend(call(force(file)));
        }
    }
    Script::stream(&[ops])
}

#[test]
fn a_sync_of_everything_promises_all_files_and_a_range_that_is_written_nothing() {
    let fail = |more: &[(&str, &str)], force: &dyn Fn(FileId) -> Call| {
        crash(&machine(more), forced(60, force), &adversarial(40, &[]), &Watch::default()).unwrap()
    };
    let [all, one] =
        [fail(&[FLUSH], &|_| Call::SyncAll {}), fail(&[FLUSH], &|file| Call::Sync { file })];
    assert!(all.holds() && one.holds(), "{:#?}", all.failing);
    // All but the last, with which the run ends.
    assert_eq!((all.syncs, one.syncs), (Some(14), Some(14)), "each call is one");
    assert!(all.promised_lines > 2 * one.promised_lines, "{all:?} {one:?}");
    let range = |file| Call::SyncFileRange { file, offset: 0, length: 0, flags: 7 };
    let nothing = fail(&[FLUSH], &range);
    assert_eq!((nothing.promised_lines, nothing.syncs), (0, Some(0)));
    let lost = fail(&[UNSAFE], &|_| Call::SyncAll {});
    assert!(lost.faults["lost"] > 100, "{lost:?}");
}

/// A page of one file is written, another file is synced, and then everything is.
fn behind_another(turns: u64) -> Box<dyn Stream> {
    let mut ops: Vec<Op> =
        (0..2).flat_map(|file| call(Call::Open { file, size: 8 * PAGE })).collect();
    for turn in 0..turns {
        for file in 0..2 {
            let (offset, address) = (turn % 8 * PAGE, ANONYMOUS + u64::from(file) * PAGE);
            ops.extend(call(Call::Write { file, offset, length: PAGE, address }));
        }
        ops.extend([call(Call::Sync { file: 1 }), call(Call::SyncAll {})].concat());
    }
    Script::stream(&[ops])
}

/// `xfs_fs_sync_fs`, fs/xfs/xfs_super.c; observed, tests/kernel/journal-xfs-6.18.json.
#[test]
fn a_sync_of_everything_on_xfs_flushes_nothing_where_its_log_has_nothing() {
    for (more, holds) in [
        (&[][..], true),
        (&[EXT3], true),
        (&[XFS], false),
        (&[XFS, FLUSH], false),
        (&[XFS, UNSAFE, SAVED], true),
        (&[XFS, STORE], true),
    ] {
        let never =
            [("storage.dirty_writeback", "10s"), ("storage.file_system.commit_interval", "5s")];
        let spec = machine(&[more, &never].concat());
        let stream = behind_another(40);
        let report = crash(&spec, stream, &adversarial(60, &[]), &Watch::default()).unwrap();
        assert_eq!(report.holds(), holds, "{more:?}: {:#?}", report.failing);
        assert!(report.promised_lines > 100, "{more:?}: {report:?}");
        assert_eq!(report.faults.get("lost").is_some_and(|lost| *lost > 0), !holds, "{more:?}");
    }
}

#[test]
fn whatever_is_left_out_is_found_and_one_point_replays_it() {
    for (more, weakness, harm) in [
        (&[][..], Weakness::EarlyCommit, "lost"),
        (&[SAVED], Weakness::EarlyCommit, "lost"),
        (&[EXT3], Weakness::EarlyCommit, "lost"),
        (&[DATA], Weakness::EarlyCommit, "lost"),
        (&[DATA], Weakness::EarlyCompletion, "lost"),
        (&[EXT3], Weakness::UnorderedData, "stale"),
        (&[XFS], Weakness::EarlyCommit, "lost"),
        (&[XFS], Weakness::EarlyCompletion, "lost"),
        (&[], Weakness::EarlyCompletion, "lost"),
        (&[UNSAFE, SAVED], Weakness::NoCapacitors, "lost"),
    ] {
        let report = fail(more, &adversarial(120, &[weakness])).unwrap();
        assert!(!report.holds(), "{more:?} without {weakness:?} breaks nothing");
        assert!(report.faults[harm] > 0, "{more:?} {weakness:?}: {:?}", report.faults);
        let first = &report.failing[0];
        let alone = CrashOptions { replay: Some(first.point), ..adversarial(1, &[weakness]) };
        let replayed = fail(more, &alone).unwrap();
        assert_eq!(replayed.failing, std::slice::from_ref(first), "{more:?} {weakness:?}");
        assert!(first.faults.iter().all(|fault| fault.what.is_some()), "{first:?}");
        assert_eq!(first.lines.min(64), first.faults.len() as u64, "all are told");
        for track in replayed.requests.iter().filter(|track| track.what == "write") {
            let told = first.faults.iter().find(|fault| fault.address == track.address);
            match told {
                Some(fault) => assert_eq!(track.outcome, Some(fault.harm), "{track:?}: {first:?}"),
                None if first.lines > 64 => {}
                None => assert!(["kept", "gone"].map(Some).contains(&track.outcome), "{track:?}"),
            }
        }
        assert!(replayed.requests.iter().any(|track| track.what == "write"), "{replayed:?}");
    }
}

/// Pages of a file that lie on one unit of a store of 16 are written all the time, so that new pages on it are late,
/// and others have a transaction committed meanwhile that does not touch the unit.
fn late_pages(turns: u64) -> Box<dyn Stream> {
    let write = |file: FileId, page: u64, pages: u64| {
        let (address, length) = (ANONYMOUS + u64::from(file) * (1 << 20), pages * PAGE);
        call(Call::Write { file, offset: page * PAGE, length, address })
    };
    let sleep = |ps: u64| call(Call::Sleep { duration_ps: ps });
    let (mut busy, mut new, mut other) = (Vec::new(), Vec::new(), Vec::new());
    busy.extend(call(Call::Open { file: 0, size: 512 * PAGE }));
    busy.extend((1..3).flat_map(|thread| call(Call::Spawn { thread })));
    new.extend(call(Call::Open { file: 1, size: 0 }));
    for turn in 0..turns {
        busy.extend((0..32).flat_map(|n| write(0, 16 * n, 1)));
        busy.extend([call(Call::SyncData { file: 0 }), sleep(1_000_000_000)].concat());
        new.extend(write(1, 16 * turn, 16));
        new.extend([call(Call::SyncData { file: 1 }), sleep(300_000_000)].concat());
        let file = 2 + turn as FileId;
        other.extend([call(Call::Open { file, size: 0 }), call(Call::Sync { file })].concat());
        other.extend(sleep(200_000_000));
    }
    Script::stream(&[busy, new, other])
}

#[test]
fn a_transaction_that_does_not_wait_for_data_shows_blocks_before_them() {
    let fail = |more: &[(&str, &str)], weaken: &[Weakness]| {
        let spec = machine(&[more, &[("store.units", "16")]].concat());
        crash(&spec, late_pages(120), &adversarial(600, weaken), &Watch::default()).unwrap()
    };
    assert!(fail(&[], &[]).holds());
    assert!(fail(&[XFS], &[]).holds());
    for more in [&[][..], &[XFS]] {
        let unordered = fail(more, &[Weakness::UnorderedData]);
        assert!(unordered.faults["stale"] > 0, "{more:?}: {unordered:?}");
    }
    let writeback = fail(&[WRITEBACK], &[]);
    assert!(writeback.holds() && writeback.stale_permitted > 0, "{writeback:?}");
}

#[test]
fn every_event_of_a_window_can_be_tried() {
    let window_ps = Some((2_000_000_000, 2_100_000_000));
    let every = CrashOptions { window_ps, ..CrashOptions::default() };
    let report = fail(&[], &every).unwrap();
    assert!(report.holds(), "{:#?}", report.failing);
    assert!(report.points > 10 && report.points < report.events, "{report:?}");
}

#[test]
fn what_means_nothing_or_is_not_modelled_is_refused() {
    for (more, weakness) in [
        (&[WRITEBACK][..], Weakness::UnorderedData),
        (&[], Weakness::NoCapacitors),
        (&[], Weakness::NoClones),
        (&[STORE], Weakness::EarlyCompletion),
    ] {
        let refused = fail(more, &adversarial(1, &[weakness]));
        assert!(matches!(refused, Err(CrashError::MeansNothing(..))), "{more:?}: {refused:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn whatever_programs_do_to_a_file_a_sync_keeps_its_promise(
        threads in prop::collection::vec(prop::collection::vec(doing(), 1..200), 1..5),
        seed: u64,
    ) {
        // What moves within a file is refused.
        let moves = |it: &Do| matches!(it, Do::Kernel { what: 7, .. });
        let kept = |it: &Vec<Do>| it.iter().filter(|it| !moves(it)).cloned().collect();
        let threads: Vec<Vec<Do>> = threads.iter().map(kept).collect();
        let script = script(&threads, false);
        for more in [&[][..], &[EXT3, WRITEBACK], &[STORE], &[XFS]] {
            let options = CrashOptions { seed, ..adversarial(12, &[]) };
            let stream = Script::stream(&script);
            let report = crash(&machine(more), stream, &options, &Watch::default());
            let report = match report {
                // Nothing of it ever left the caches.
                Err(CrashError::EmptyWindow(_)) => continue,
                other => other.unwrap(),
            };
            prop_assert!(report.holds(), "{:?}: {:#?}", more, report.failing);
        }
    }
}

/// At random events: what the judge finds who looks at what changed, and one who looks at everything.
fn judge_twice(spec: &SystemSpec, seed: u64, weaken: &[Weakness]) -> (u64, u64) {
    let spec = SystemSpec { check_data: true, ..spec.clone() };
    let mut machine = Machine::new(&spec, stream(25, seed), &RunOptions::default()).unwrap();
    machine.organization_mut().power_mut().unwrap().prepare(weaken).unwrap();
    machine.follow_files(weaken);
    let unit_bytes = machine.organization_mut().power_mut().unwrap().unit_bytes().unwrap();
    let mut judge = Judge::new(unit_bytes);
    let mut draws = Random::stream(seed, "crash.judges");
    let (mut left, mut points, mut broken) = (0, 0, 0);
    while let Some(at_ps) = machine.go_on().unwrap() {
        if left > 0 {
            left -= 1;
            continue;
        }
        // Points side by side, and far apart.
        let most = 1 << draws.below(10);
        left = draws.below(most);
        judge.follow(machine.organization_mut().power_mut().unwrap());
        let since = judge.since();
        let mut fork = machine.organization_mut().fork();
        let second = (draws.below(3) == 0).then(|| 1 + draws.below(50));
        cut_and_recover(fork.as_mut(), at_ps, second).unwrap();
        let verdict = judge.judge(&since, fork.power_mut().unwrap());
        let full = full_judge(fork.power_mut().unwrap(), unit_bytes);
        assert_eq!(verdict, full, "{} {weaken:?} at {at_ps}", spec.name);
        points += 1;
        broken += verdict.broken();
    }
    (points, broken)
}

#[test]
fn who_looks_at_files_that_changed_finds_what_one_finds_who_looks_at_everything() {
    for (spec, weakness, breaks) in [
        (machine(&[]), None, false),
        (machine(&[EXT3, FLUSH]), None, false),
        (machine(&[EXT3, WRITEBACK]), None, false),
        (machine(&[STORE]), None, false),
        (machine(&[DATA]), None, false),
        (machine(&[DATA, EXT3, FLUSH]), None, false),
        (machine(&[XFS]), None, false),
        (machine(&[XFS, STORE]), None, false),
        (machine(&[XFS, UNSAFE]), None, true),
        (machine(&[XFS, SAVED]), Some(Weakness::EarlyCommit), true),
        (machine(&[DATA, UNSAFE]), None, true),
        (machine(&[UNSAFE]), None, true),
        (machine(&[HALVES]), None, false),
        (machine(&[HALVES, EXT3, UNSAFE]), None, true),
        (raw("fusion-io/ext3", &[]), None, false),
        (raw("ddr-block/xfs", &[]), None, true),
        (machine(&[EXT3, WRITEBACK, UNSAFE]), None, true),
        (machine(&[UNSAFE, SAVED]), Some(Weakness::NoCapacitors), true),
        (machine(&[SAVED]), Some(Weakness::EarlyCommit), true),
        (machine(&[EXT3]), Some(Weakness::UnorderedData), true),
        (machine(&[]), Some(Weakness::EarlyCompletion), true),
        (raw("storage/quick", &[STORE]), None, false),
        (raw("storage/970-pro", &[]), None, true),
    ] {
        let weaken: Vec<_> = weakness.into_iter().collect();
        let (mut points, mut broken) = (0, 0);
        for seed in 0..of_many(1, 3) {
            let (some, of_them) = judge_twice(&spec, seed, &weaken);
            (points, broken) = (points + some, broken + of_them);
        }
        assert!(points > of_many(20, 60), "{}: {points}", spec.name);
        assert_eq!(broken > 0, breaks, "{} {weakness:?}", spec.name);
    }
}

/// A machine without a file system.
fn raw(name: &str, more: &[(&str, &str)]) -> SystemSpec {
    let of_storage = |(path, _): &&(&str, &str)| !path.contains("file_system");
    let sets = SMALL.iter().filter(of_storage).chain(more);
    let sets: Vec<_> = sets.map(|(path, to)| (path.to_string(), to.to_string())).collect();
    load(name, &sets).unwrap_or_else(|problems| panic!("{problems}")).spec
}

const RAID: &str = "{ drives = 2, stripe = \"8KiB\", queue_depth = 64, latency = \"2us\" }";

#[test]
fn without_a_file_system_a_sync_of_a_file_flushes_the_drive_and_one_of_all_does_not() {
    for name in ["storage/970-pro", "storage/disk-7200"] {
        let fail = |force: &dyn Fn(FileId) -> Call| {
            let stream = forced(60, force);
            crash(&raw(name, &[]), stream, &adversarial(40, &[]), &Watch::default()).unwrap()
        };
        for force in [|file| Call::Sync { file }, |file| Call::SyncData { file }] {
            let kept = fail(&force);
            assert!(kept.holds() && kept.promised_lines > 100, "{name}: {:?}", kept.failing);
        }
        let lost = fail(&|_| Call::SyncAll {});
        assert!(lost.faults["lost"] > 100, "{name}: {lost:?}");
    }
}

/// Of all kinds of sync, that of everything among them.
#[test]
fn without_a_file_system_syncs_promise_pages_where_the_store_keeps_what_it_answered() {
    for (name, more, weaken, holds) in [
        ("storage/quick", &[STORE][..], &[][..], true),
        ("storage/970-pro", &[SAVED], &[], true),
        ("storage/970-pro", &[SAVED, ("ssd.raid", RAID)], &[], true),
        ("storage/970-pro", &[SAVED], &[Weakness::NoCapacitors], false),
        ("storage/970-pro", &[], &[], false),
        ("storage/disk-7200", &[("disk.buffer.write_cache", "false")], &[], true),
        ("storage/disk-7200", &[], &[], false),
    ] {
        let spec = raw(name, more);
        let report =
            crash(&spec, stream(40, 1), &adversarial(60, weaken), &Watch::default()).unwrap();
        assert_eq!(report.holds(), holds, "{name} {more:?} {weaken:?}: {:?}", report.failing);
        assert!(report.promised_lines > 100 && report.syncs > Some(5), "{name}: {report:?}");
        assert_eq!(report.replayed_transactions, 0, "{name}");
    }
}

/// Drives whose pages are smaller than blocks, with capacitors, and file systems without barriers.
#[test]
fn a_drive_with_pages_smaller_than_blocks_keeps_what_syncs_promised_by_its_capacitors_alone() {
    for name in ["fusion-io", "fusion-io/ext3", "fusion-io/xfs"] {
        let fail = |weaken: &[Weakness]| {
            let spec = raw(name, if name == "fusion-io" { &[] } else { &SMALL[1..3] });
            crash(&spec, stream(40, 1), &adversarial(40, weaken), &Watch::default()).unwrap()
        };
        let report = fail(&[]);
        assert!(report.holds() && report.promised_lines > 100, "{name}: {:#?}", report.failing);
        let replays = report.replayed_transactions > 10;
        assert_eq!(replays, name != "fusion-io", "{name}: {report:?}");
        let without = fail(&[Weakness::NoCapacitors]);
        assert!(without.faults["lost"] > 0, "{name} loses nothing without its capacitors");
    }
}

/// Power fails at the end of a workload that writes a file and syncs it, and then uses other memory, or none. What was
/// promised, and what of it is broken.
fn fail_after_a_sync(name: &str, other_pages: u64) -> (u64, u64) {
    let mut ops = Vec::new();
    ops.extend(call(Call::Open { file: 0, size: 0 }));
    ops.extend(call(Call::Write { file: 0, offset: 0, length: 16 * PAGE, address: ANONYMOUS }));
    ops.extend(call(Call::Sync { file: 0 }));
    let lines = other_pages * PAGE / 64;
    ops.extend((0..lines).map(|line| Op::store(ANONYMOUS + 64 * PAGE + 64 * line, 8, 10)));
    let sets = [("processor.caches.L3.capacity", "256KiB"), ("storage.dram_capacity", "64MiB")];
    let spec = SystemSpec { check_data: true, ..raw(name, &sets) };
    let stream = Script::stream(&[ops]);
    let mut machine = Machine::new(&spec, stream, &RunOptions::default()).unwrap();
    machine.organization_mut().power_mut().unwrap().prepare(&[]).unwrap();
    machine.follow_files(&[]);
    let unit_bytes = machine.organization_mut().power_mut().unwrap().unit_bytes().unwrap();
    let mut end_ps = 0;
    while let Some(at_ps) = machine.go_on().unwrap() {
        end_ps = at_ps;
    }
    cut_and_recover(machine.organization_mut(), end_ps, None).unwrap();
    let verdict = full_judge(machine.organization_mut().power_mut().unwrap(), unit_bytes);
    (verdict.promised, verdict.broken())
}

/// The processor copies to a disk in memory by plain stores, and writes no line back: a sync is worth as much as the
/// on-chip caches have given up since.
#[test]
fn of_memory_as_a_disk_what_on_chip_caches_have_is_lost_and_what_they_gave_up_is_there() {
    for name in ["ddr-block", "ddr-block/ext3", "ddr-block/xfs"] {
        let (promised, broken) = fail_after_a_sync(name, 0);
        assert!(promised >= 16 && broken > 0, "{name}: {broken} of {promised}");
        let (promised, broken) = fail_after_a_sync(name, 1024);
        assert!(promised >= 16 && broken == 0, "{name}: {broken} of {promised}");
    }
}

#[test]
fn swap_is_worth_nothing_after_a_cut() {
    let pages: Vec<Op> = (0..4096).map(|n| Op::store(ANONYMOUS + n % 2048 * PAGE, 8, 10)).collect();
    let spec = raw("storage/quick", &[("storage.dram_capacity", "4MiB")]);
    let stream = Script::stream(&[pages]);
    let report = crash(&spec, stream, &adversarial(50, &[]), &Watch::default()).unwrap();
    assert!(report.holds() && report.under_way["command"] > 0, "{report:?}");
    assert_eq!((report.lines, report.promised_lines, report.syncs), (0, 0, Some(0)));
}

/// Disks with a write cache, two side by side, an extended buffer cache: a file system is worth as much there.
/// Requests of several pages, in another order than pages were asked for, and flushes past them: on drives that
/// lose what they buffer, and on an array.
#[test]
fn below_any_scheduler_file_systems_keep_what_syncs_promised() {
    let waiting = ("storage.host_queue_depth", "2");
    for (scheduler, more) in [
        ("none", &[][..]),
        ("mq-deadline", &[("storage.file_system.kind", "xfs")]),
        ("cfq", &[("storage.file_system.kind", "ext3")]),
        ("noop", &[("storage.file_system.journal", "data"), ("ssd.raid", RAID)]),
    ] {
        let layer = format!("{{ scheduler = \"{scheduler}\" }}");
        let layer = [("storage.block_layer", &*layer), waiting];
        let all: Vec<_> = layer.iter().chain(more).copied().collect();
        let report = fail(&all, &adversarial(60, &[])).unwrap();
        assert!(report.holds(), "{scheduler}: {:#?}", report.failing);
        assert!(report.promised_lines > 100 && report.replayed_transactions > 10, "{report:?}");
        let early = fail(&all, &adversarial(60, &[Weakness::EarlyCompletion])).unwrap();
        assert!(early.faults["lost"] > 0, "{scheduler} answers early and loses nothing");
        let unsafely: Vec<_> = all.iter().copied().chain([UNSAFE]).collect();
        let without = fail(&unsafely, &adversarial(60, &[])).unwrap();
        assert!(!without.holds(), "{scheduler}: nothing was flushed, and nothing lost");
    }
}

#[test]
fn file_systems_on_disks_arrays_and_below_a_buffer_cache_keep_what_syncs_promised() {
    const CACHE: &str = "{ capacity = \"1MiB\", ways = 64, replacement = \"lru\", read_slowdown = 400.0, \
         program_slowdown = 1000.0, on_hit = \"move\", insertion = \"asynchronous\", queue_pages = 64, \
         readahead = \"ignore\" }";
    let (table, forced) = (("storage.file_system", TABLE), "force-unit-access");
    for (name, more, holds) in [
        ("storage/disk-7200", &[table][..], true),
        ("storage/disk-7200", &[table, ("storage.file_system.barrier", forced)], true),
        ("storage/disk-7200", &[table, ("disk.raid", RAID)], true),
        ("storage/disk-7200", &[table, ("storage.buffer_cache", CACHE)], true),
        ("storage/970-pro", &[table, ("ssd.raid", RAID)], true),
        ("storage/disk-7200", &[table, UNSAFE], false),
        ("storage/970-pro", &[table, ("ssd.raid", RAID), UNSAFE], false),
    ] {
        let fail = |weaken: &[Weakness]| {
            let spec = raw(name, more);
            crash(&spec, stream(25, 1), &adversarial(40, weaken), &Watch::default()).unwrap()
        };
        let report = fail(&[]);
        assert_eq!(report.holds(), holds, "{name} {more:?}: {:#?}", report.failing);
        assert!(report.promised_lines > 100, "{report:?}");
        if holds {
            assert!(report.replayed_transactions > 10, "{report:?}");
            let early = fail(&[Weakness::EarlyCompletion]);
            assert!(early.faults["lost"] > 0, "{name} {more:?} answers early and loses nothing");
        }
    }
}
