use super::*;

const PAGE: u64 = 4096;
const SECOND_PS: u64 = 1_000_000_000_000;

fn spec() -> FileSystemSpec {
    FileSystemSpec {
        kind: FileSystemKind::Ext4,
        journal: JournalMode::Ordered,
        commit_interval: Duration::from_picoseconds(5 * SECOND_PS),
        journal_capacity: Size::from_bytes(64 * PAGE),
        barrier: Barrier::Flush,
        timestamp_interval: Duration::from_picoseconds(4_000_000_000),
        discard: false,
    }
}

fn system(change: impl FnOnce(&mut FileSystemSpec), buffers: bool) -> FileSystem {
    let mut spec = spec();
    change(&mut spec);
    FileSystem::new(&spec, PAGE, 1 << 30, buffers, 0)
}

/// All that the journal's thread does until it may sleep.
fn commit(system: &mut FileSystem) -> Vec<Request> {
    let mut done = Vec::new();
    while let Some(request) = system.next_request(0).unwrap() {
        if request == Request::Finish {
            system.journal.finish();
        }
        done.push(request);
    }
    done
}

fn sync(system: &mut FileSystem, file: FileId) -> Vec<Request> {
    let number = system.needs(file, false).expect("it has changed");
    assert!(system.journal.ask_for(number).is_some());
    commit(system)
}

fn logged(requests: &[Request]) -> Vec<u64> {
    let blocks = requests.iter().filter_map(|request| match request {
        Request::Log { blocks, .. } => Some(blocks.clone()),
        _ => None,
    });
    blocks.flatten().collect()
}

#[test]
fn a_transaction_takes_descriptors_its_blocks_and_a_record() {
    // A descriptor of 4 KiB names 254 blocks with checksums of version 3.
    for (blocks, log) in [(1, 3), (254, 256), (255, 258), (508, 511)] {
        assert_eq!(log_blocks(PAGE, blocks), log);
    }
}

fn log_blocks(block_bytes: u64, blocks: u64) -> u64 {
    journal::log_blocks(block_bytes, blocks)
}

#[test]
fn data_come_before_the_log_and_that_before_the_record() {
    let orders: [(JournalMode, Barrier, bool, &[&str]); 5] = [
        (
            JournalMode::Ordered,
            Barrier::Flush,
            true,
            &["log", "data", "wait", "flush", "log", "wait", "flush"],
        ),
        (
            JournalMode::Ordered,
            Barrier::ForceUnitAccess,
            true,
            &["log", "data", "wait", "flush", "forced", "wait"],
        ),
        (JournalMode::Ordered, Barrier::None, true, &["log", "data", "wait", "log", "wait"]),
        (JournalMode::Ordered, Barrier::Flush, false, &["log", "data", "wait", "log", "wait"]),
        (
            JournalMode::Writeback,
            Barrier::Flush,
            true,
            &["log", "wait", "flush", "log", "wait", "flush"],
        ),
    ];
    for (mode, barrier, buffers, order) in orders {
        let mut system = system(|spec| (spec.journal, spec.barrier) = (mode, barrier), buffers);
        system.allocated(3, (0, 500 << 20), false, 0);
        let done = sync(&mut system, 3);
        let names = done.iter().map(|request| match request {
            Request::AwaitData(3, _) => "data",
            Request::AwaitLog => "wait",
            Request::Flush => "flush",
            Request::Log { forced: true, .. } => "forced",
            Request::Log { .. } => "log",
            Request::Finish => "finish",
            other => panic!("{other:?}"),
        });
        let names: Vec<&str> = names.collect();
        assert_eq!(names, [order, &["finish"]].concat(), "{mode:?}, {barrier:?}, {buffers}");
    }
}

/// Pages between those that are new of a file go with them; until 5.3 all that is dirty of it.
#[test]
fn a_commit_waits_for_what_is_new_of_a_file() {
    for (release, pages) in [(Release::V4_9, 0..u64::MAX), (Release::V6_18, 4..10)] {
        let mut system = system(|spec| spec.kind = FileSystemKind::Ext3, true);
        system.of_release(release);
        [9, 4, 5].into_iter().for_each(|index| system.allocated(3, (index, 500 << 20), false, 0));
        let done = sync(&mut system, 3);
        let [first, ..] = &done[..] else { panic!("it commits nothing") };
        assert_eq!(*first, Request::WriteData(3, pages.clone()), "{release:?}");
        assert!(done.contains(&Request::AwaitData(3, pages)), "{release:?}");
    }
}

#[test]
fn the_log_is_a_ring_and_its_oldest_transactions_make_room() {
    let mut system = system(|_| (), false);
    let (mut next, mut checkpoints) = (0, 0);
    for file in 0..100 {
        system.create(file, (file, names::TOP), 0);
        let done = sync(&mut system, file);
        let mut blocks = logged(&done);
        if blocks.last() == Some(&Journal::SUPERBLOCK) {
            blocks.pop();
            checkpoints += 1;
        }
        if let Some(at) = done.iter().position(|it| matches!(it, Request::Metadata(_))) {
            // All that the log frees has its place before its superblock says so.
            assert_eq!(done[at + 1], Request::AwaitMetadata);
            assert!(matches!(done[at + 2], Request::Log { .. }));
        }
        for block in blocks {
            assert_eq!(block, 1 + next % 63);
            next += 1;
        }
    }
    // At least five blocks, a descriptor and a record; a checkpoint whenever a quarter is not free.
    assert!(next >= 690 && checkpoints > 10, "{next} blocks, {checkpoints} checkpoints");
    assert_eq!(system.counters.journal_checkpoints, checkpoints);
}

#[test]
fn a_transaction_is_committed_once_it_is_old() {
    let mut system = system(|_| (), true);
    system.create(1, (1, names::TOP), SECOND_PS);
    assert_eq!(system.order_look(), Some(6 * SECOND_PS));
    assert_eq!(system.order_look(), None, "it has been ordered");
    system.journal.look(5 * SECOND_PS);
    assert!(commit(&mut system).is_empty() && system.needs(1, true).is_some());
    assert_eq!(system.order_look(), Some(6 * SECOND_PS));
    system.journal.look(6 * SECOND_PS);
    assert_eq!(system.order_look(), None, "it is asked for");
    assert_eq!(commit(&mut system).last(), Some(&Request::Finish));
    assert_eq!((system.needs(1, true), system.order_look()), (None, None));
}

#[test]
fn a_file_that_is_written_again_has_another_time_stamp_and_its_data_do_not_need_it() {
    let mut system = system(|_| (), true);
    system.held(1, (1, names::TOP), (1 << 20, 4), 4 * PAGE);
    system.wrote(1, false, 0);
    assert_eq!((system.needs(1, false), system.needs(1, true)), (Some(1), None));
    sync(&mut system, 1);
    system.wrote(1, false, 3_999_999_999);
    assert_eq!(system.needs(1, false), None, "its time stamp is the same");
    system.wrote(1, false, 4_000_000_000);
    assert_eq!((system.needs(1, false), system.needs(1, true)), (Some(2), None));
    system.wrote(1, true, 4_000_000_000);
    assert_eq!(system.needs(1, true), Some(2), "its size is needed to find the data");
}

#[test]
fn maps_of_files_take_blocks_where_inodes_hold_no_more() {
    for (kind, pages, gap, blocks) in [
        // Extents in a row are one; five do not fit in an inode.
        (FileSystemKind::Ext4, 1000, 1, 3),
        (FileSystemKind::Ext4, 4, 2, 3),
        (FileSystemKind::Ext4, 5, 2, 4),
        // Twelve blocks are known to an inode, whatever their places; 1024 to a block of the map.
        (FileSystemKind::Ext3, 12, 1, 3),
        (FileSystemKind::Ext3, 13, 1, 4),
        (FileSystemKind::Ext3, 12 + 1025, 1, 5),
    ] {
        let mut system = system(|spec| spec.kind = kind, true);
        for page in 0..pages {
            system.allocated(1, (page, (200 << 20) + gap * page * PAGE), false, 0);
        }
        let done = sync(&mut system, 1);
        let log = logged(&done).len() as u64;
        assert_eq!(log, journal::log_blocks(PAGE, blocks), "{kind:?}, {pages} pages");
    }
}

#[test]
fn what_is_deleted_stays_among_the_orphans_until_it_is_removed() {
    let mut system = system(|_| (), true);
    system.create(20, (20, names::TOP), 0);
    let first = logged(&sync(&mut system, 20)).len();
    system.unlink(20, 1, 0);
    let blocks = |system: &mut FileSystem, number| {
        let asked = system.journal.ask_for(number).map(|asked| asked.blocks.len());
        commit(system);
        asked
    };
    assert_eq!(blocks(&mut system, 2), Some(4), "entry, two inodes, orphans");
    system.remove(20, 0);
    assert_eq!(blocks(&mut system, 3), Some(4), "inode, bitmap, descriptor, orphans");
    system.create(21, (20, names::TOP), 0);
    assert_eq!(logged(&sync(&mut system, 20)).len(), first);
    // At once it is what both are.
    system.unlink(20, 0, 0);
    system.remove(20, 0);
    assert_eq!(blocks(&mut system, 5), Some(6));
}

#[test]
fn data_in_the_log_stay_away_from_their_places_until_they_are_committed() {
    let place = 500 << 20;
    let mut system = system(|spec| spec.journal = JournalMode::Data, true);
    assert!(!system.delays_allocation());
    system.changed_data((3, 0), place, 0);
    assert_eq!((system.needs(3, true), system.uncommitted(place)), (Some(1), Some(1)));
    // A descriptor, the page and a record.
    assert_eq!(logged(&sync(&mut system, 3)).len(), 3);
    assert_eq!((system.needs(3, true), system.uncommitted(place)), (None, None));
    assert!(system.take_old(SECOND_PS, 9).is_empty(), "the page cache writes it");
    // What is written while another transaction has it does not free the log of that.
    system.begin_data(place);
    system.changed_data((3, 0), place, 0);
    sync(&mut system, 3);
    system.end_data(place);
    assert!(system.dirty.contains_key(&place));
    system.begin_data(place);
    system.end_data(place);
    assert!(system.dirty.is_empty());
    // What is cut off leaves the running transaction; one that nothing is left of is a record alone.
    system.changed_data((3, 0), place, 0);
    system.cut_off_data(place);
    assert_eq!(logged(&sync(&mut system, 3)).len(), 1);
}
