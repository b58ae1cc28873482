use super::*;

const PAGE: u64 = 4096;
const STORE_BYTES: u64 = 1 << 30;
const SECOND_PS: u64 = 1_000_000_000_000;

fn system(barrier: Barrier) -> FileSystem {
    let spec = FileSystemSpec {
        kind: FileSystemKind::Xfs,
        journal: JournalMode::Ordered,
        commit_interval: Duration::from_picoseconds(30 * SECOND_PS),
        journal_capacity: Size::from_bytes(512 * PAGE),
        barrier,
        timestamp_interval: Duration::from_picoseconds(4_000_000_000),
        discard: false,
    };
    FileSystem::new(&spec, PAGE, STORE_BYTES, true, 0)
}

/// All that the log does until it may sleep, in words, blocks of the log with their number.
fn force(system: &mut FileSystem) -> Vec<String> {
    if let Some(number) = system.journal.newest() {
        system.journal.ask_for(number);
    }
    let mut done = Vec::new();
    while let Some(request) = system.next_request(0).unwrap() {
        done.push(match request {
            Request::Log { blocks, forced } => {
                format!("{} {}", if forced { "forced" } else { "log" }, blocks.len())
            }
            Request::AwaitLog => "wait".into(),
            Request::Flush => "flush".into(),
            Request::Finish => {
                system.finish();
                continue;
            }
            Request::Metadata(places) => format!("metadata {}", places.len()),
            Request::AwaitMetadata => continue,
            other => panic!("XFS does not ask for {other:?}"),
        });
    }
    done
}

#[test]
fn a_checkpoint_of_few_changes_is_one_write_behind_a_flush() {
    for (barrier, does) in [
        (Barrier::ForceUnitAccess, &["flush", "forced 1", "wait"][..]),
        (Barrier::Flush, &["flush", "log 1", "wait", "flush"]),
        (Barrier::None, &["log 1", "wait"]),
    ] {
        let mut system = system(barrier);
        system.create(1, (1, names::TOP), 0);
        assert_eq!(force(&mut system), does, "{barrier:?}");
    }
}

#[test]
fn buffers_of_the_log_are_full_but_for_the_last() {
    // Of 32 KiB 512 bytes are a record's head; 52 bytes are the checkpoint's own.
    let room = (32 << 10) - 512;
    for (bytes, blocks) in [
        (0, vec![1]),
        (4096 - 512 - 52, vec![1]),
        (4096 - 512 - 51, vec![2]),
        (room - 52, vec![8]),
        (room - 51, vec![8, 1]),
        (3 * room - 52 + 1, vec![8, 8, 8, 1]),
    ] {
        assert_eq!(buffers(PAGE, bytes), blocks, "{bytes} bytes");
    }
}

#[test]
fn the_last_buffer_waits_for_all_others_and_the_first_goes_behind_a_flush() {
    let mut system = system(Barrier::Flush);
    (0..400).for_each(|file| system.create(file, (file, names::TOP), 0));
    let asked = force(&mut system);
    assert_eq!(asked[..3], ["log 8", "log 8", "flush"], "{asked:?}");
    assert_eq!(asked[3..6], ["log 8", "wait", "flush"], "{asked:?}");
    assert_eq!(asked[7..], ["wait", "flush"], "{asked:?}");
}

#[test]
fn what_changes_again_before_it_is_in_its_place_is_logged_with_what_had_changed() {
    let bytes = |system: &FileSystem| system.journal.running_bytes();
    let mut system = system(Barrier::Flush);
    system.create(1, (1, names::TOP), 0);
    let first = bytes(&system);
    force(&mut system);
    (2..40).for_each(|name| system.create(name, (name, names::TOP), 0));
    force(&mut system);
    system.create(40, (40, names::TOP), 0);
    assert!(bytes(&system) > first + 500, "the directory's block has changed in many places");
    force(&mut system);
    // All goes to its place, and then only what is new is logged: as much as of the first, and hashes that move.
    system.look(31 * SECOND_PS);
    let asked = force(&mut system);
    assert!(asked.iter().any(|it| it.starts_with("metadata")), "{asked:?}");
    system.create(41, (41, names::TOP), 0);
    assert!((first..first + 500).contains(&bytes(&system)));
}

#[test]
fn an_inode_is_written_with_its_cluster_of_32() {
    let mut system = system(Barrier::Flush);
    system.create(1, (1, names::TOP), 0);
    force(&mut system);
    let (_, dirty) = (system.look(SECOND_PS), force(&mut system));
    // Inodes of the file and of the directory share a cluster, of 4 blocks; a directory's block, and three of the group.
    assert_eq!(dirty, ["metadata 8"]);
}

#[test]
fn changes_that_fill_an_eighth_of_the_log_are_written_unasked() {
    let mut system = system(Barrier::Flush);
    let mut files = 0;
    while !system.journal.is_wanted() {
        system.create(files, (files, names::TOP), 0);
        files += 1;
    }
    // An eighth of 2 MiB, at 256 bytes and an entry each.
    assert!((600..1024).contains(&files), "{files} files");
}

#[test]
fn a_file_of_64_kib_gets_twice_its_last_extent_ahead() {
    let mut system = system(Barrier::Flush);
    system.create(1, (1, names::TOP), 0);
    let free = 1 << 30;
    assert_eq!(system.pages_ahead(1, 15, free), 0, "a small file");
    assert_eq!(system.pages_ahead(1, 16, free), 16, "nothing is known of what is before");
    system.reserved(1, (0, 100 * PAGE), 20, 0);
    // Twice 20, rounded down to a power of two; fewer where few are free.
    assert_eq!(system.pages_ahead(1, 20, free), 32);
    assert_eq!(system.pages_ahead(1, 20, 30), 16);
    assert_eq!(system.pages_ahead(1, 21, free), 16, "a hole is before it");
    system.reserved(1, (20, 120 * PAGE), 300, 0);
    assert_eq!(system.pages_ahead(1, 320, free), 512, "what lies behind it is one extent with it");
}

#[test]
fn the_log_begins_with_the_oldest_change_that_is_not_in_its_place() {
    let mut system = system(Barrier::Flush);
    // Inodes in blocks of their own.
    for file in [0, 100, 200] {
        system.create(file, (file, names::TOP), 0);
        force(&mut system);
    }
    let (all, free) = system.journal.room();
    assert!(all - free >= 3);
    system.look(31 * SECOND_PS);
    force(&mut system);
    system.create(7, (7, names::TOP), 0);
    force(&mut system);
    let (all, free) = system.journal.room();
    assert_eq!(all - free, 1, "the last checkpoint alone");
}
