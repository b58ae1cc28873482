//! The journal's thread beside calls and the flusher.

use super::super::small::{finish, settle, small};
use super::*;
use crate::os::file_system::{Barrier, FileSystemKind, JournalMode};
use tierscope_units::{Duration, Size};

const FILE: FileId = 20;
const PAGE: u64 = 4096;
const SECOND_PS: u64 = 1_000_000_000_000;

fn host(kind: FileSystemKind) -> Paging {
    host_of(kind, false)
}

fn host_of(kind: FileSystemKind, discard: bool) -> Paging {
    let mut paging = small(|_| ());
    let spec = FileSystemSpec {
        kind,
        journal: JournalMode::Ordered,
        commit_interval: Duration::from_picoseconds(5 * SECOND_PS),
        journal_capacity: Size::from_bytes(1 << 20),
        barrier: Barrier::Flush,
        timestamp_interval: Duration::from_picoseconds(4_000_000_000),
        discard,
    };
    paging.add_file_system(&spec, true).unwrap();
    paging
}

fn write(paging: &mut Paging, page: u64) {
    let now_ps = paging.now_ps;
    assert!(matches!(small::write(paging, FILE, page, now_ps), Next::Ready(_)));
    paging.extend_file(FILE, (page + 1) * PAGE);
}

/// The journal's thread does all that it can, and waits for what is under way.
fn commit(paging: &mut Paging) -> u64 {
    let before = paging.file_system_counters().unwrap().journal_commits;
    loop {
        let (waits, done) = paging.commit(&mut Vec::new()).unwrap();
        waits.into_iter().chain(done).for_each(|id| finish(paging, id));
        if waits.is_none() && done.is_none() {
            return paging.file_system_counters().unwrap().journal_commits - before;
        }
    }
}

#[test]
fn a_sync_waits_for_its_data_and_then_for_one_commit() {
    let mut paging = host(FileSystemKind::Ext4);
    paging.open(FILE, 0).unwrap();
    write(&mut paging, 0);
    let data =
        paging.sync(FILE, Paging::ALL_PAGES, &mut Vec::new()).unwrap().expect("a dirty page");
    finish(&mut paging, data);
    assert_eq!(paging.sync(FILE, Paging::ALL_PAGES, &mut Vec::new()), Ok(None));
    let commits = [false, true].map(|data| paging.sync_metadata(FILE, data, &mut Vec::new()));
    assert!(commits[0].is_some() && commits[0] == commits[1], "both wait for the same");
    assert!(paging.take_wakes().commit);
    let begun = commits[0].map(|(id, _)| id);
    assert_eq!(paging.waited_for_commits(), [None, begun], "it has not begun");
    assert_eq!(commit(&mut paging), 1);
    assert!(!paging.transfers_under_way());
    let (flush, _) =
        paging.sync_metadata(FILE, false, &mut Vec::new()).expect("nothing but a flush");
    assert_eq!(paging.transfer(flush).moves, Moves::Nothing);
}

#[test]
fn a_commit_waits_for_new_data_that_others_write() {
    let mut paging = host(FileSystemKind::Ext4);
    paging.open(FILE, 0).unwrap();
    write(&mut paging, 0);
    let data =
        paging.sync(FILE, Paging::ALL_PAGES, &mut Vec::new()).unwrap().expect("a dirty page");
    paging.sync_metadata(FILE, false, &mut Vec::new());
    let mut log = Vec::new();
    let (waits, _) = paging.commit(&mut log).unwrap();
    assert_eq!(waits, Some(data), "the log is on its way, and the data have not come");
    assert!(log.iter().any(|work| matches!(work, Work::Submit(_))));
}

#[test]
fn ext3_allocates_at_once_and_its_commit_writes_the_data() {
    for (kind, dirty) in [(FileSystemKind::Ext4, 1), (FileSystemKind::Ext3, 0)] {
        let mut paging = host(kind);
        paging.open(FILE, 0).unwrap();
        write(&mut paging, 0);
        paging.commit_old(6 * SECOND_PS);
        assert!(paging.take_wakes().commit);
        assert_eq!(commit(&mut paging), 1);
        settle(&mut paging);
        assert_eq!(paging.dirty.pages_of(FILE).count(), dirty, "{kind:?}");
    }
}

#[test]
fn the_flusher_writes_metadata_that_is_old_and_no_other() {
    let mut paging = host(FileSystemKind::Ext4);
    paging.open(FILE, 0).unwrap();
    paging.commit_old(6 * SECOND_PS);
    commit(&mut paging);
    assert!(paging.take_wakes().flush_at_ps.is_some());
    for (at_ps, blocks) in [(29 * SECOND_PS, 0), (31 * SECOND_PS, 5), (70 * SECOND_PS, 0)] {
        paging.tell_time(at_ps);
        paging.flush_old(at_ps);
        let written = paging.flush(&mut Vec::new()).unwrap();
        let pages = written.map_or(0, |id| paging.transfer(id).pages.len());
        assert_eq!((pages, paging.take_wakes().flush), (blocks, blocks > 0));
        settle(&mut paging);
    }
}

#[test]
fn files_that_are_cut_off_leave_their_bitmaps_dirty() {
    let mut paging = host(FileSystemKind::Ext4);
    paging.open(FILE, 300 * PAGE).unwrap();
    paging.truncate(FILE, PAGE);
    paging.sync_metadata(FILE, true, &mut Vec::new());
    commit(&mut paging);
    // Inode, orphans, bitmap and descriptor of the group, behind a descriptor and before a record.
    assert_eq!(paging.file_system_counters().unwrap().journal_written_bytes, 6 * PAGE);
}

#[test]
fn a_sync_whose_commit_has_flushed_the_drive_already_flushes_it_again() {
    let mut paging = host(FileSystemKind::Ext4);
    paging.open(FILE, 0).unwrap();
    let (_, again) = paging.sync_metadata(FILE, false, &mut Vec::new()).expect("it is new");
    assert!(!again, "the commit has not begun");
    loop {
        let (waits, _) = paging.commit(&mut Vec::new()).unwrap();
        let waits = waits.expect("the log, and then a flush");
        let flush = paging.transfer(waits).moves == Moves::Nothing;
        if flush {
            break;
        }
        finish(&mut paging, waits);
    }
    // What is written now the flush does not concern.
    let (_, again) = paging.sync_metadata(FILE, false, &mut Vec::new()).expect("not committed");
    assert!(again);
}

/// A host whose file has three pages that are in their places.
fn host_with_pages(kind: FileSystemKind) -> Paging {
    let mut paging = host_of(kind, true);
    paging.open(FILE, 0).unwrap();
    (0..3).for_each(|page| write(&mut paging, page));
    let data = paging.sync(FILE, Paging::ALL_PAGES, &mut Vec::new()).unwrap().unwrap();
    finish(&mut paging, data);
    paging
}

/// What is being discarded.
fn discards(paging: &Paging) -> Vec<(TransferId, u64, u64)> {
    let of = |(id, transfer): (TransferId, &Transfer)| match transfer.moves {
        Moves::Discard { address, bytes } => Some((id, address, bytes)),
        _ => None,
    };
    paging.transfers.iter().filter_map(of).collect()
}

#[test]
fn what_is_freed_while_a_transaction_is_committed_is_discarded_with_the_next() {
    for kind in [FileSystemKind::Ext4, FileSystemKind::Ext3, FileSystemKind::Xfs] {
        let mut paging = host_with_pages(kind);
        paging.sync_metadata(FILE, false, &mut Vec::new());
        let (waits, done) = paging.commit(&mut Vec::new()).unwrap();
        assert!(waits.is_some() && done.is_none(), "{kind:?}: it is being committed");
        paging.truncate(FILE, PAGE);
        waits.into_iter().for_each(|id| finish(&mut paging, id));
        assert!(commit(&mut paging) == 1 && discards(&paging).is_empty(), "{kind:?}");
        paging.sync_metadata(FILE, false, &mut Vec::new());
        commit(&mut paging);
        let [(_, _, bytes)] = discards(&paging)[..] else { panic!("{kind:?}: one run") };
        assert_eq!(bytes, 2 * PAGE, "{kind:?}");
    }
}

#[test]
fn what_a_commit_has_freed_is_discarded_and_nobody_gets_its_place_meanwhile() {
    for kind in [FileSystemKind::Ext4, FileSystemKind::Ext3, FileSystemKind::Xfs] {
        let mut paging = host_with_pages(kind);
        let place = paging.block_of(FILE, 0).expect("it is written");
        paging.sync_metadata(FILE, false, &mut Vec::new());
        commit(&mut paging);
        paging.truncate(FILE, PAGE);
        assert_eq!(discards(&paging), [], "nothing before the commit");
        paging.sync_metadata(FILE, false, &mut Vec::new());
        commit(&mut paging);
        let [(id, address, bytes)] = discards(&paging)[..] else { panic!("{kind:?}: one run") };
        assert_eq!((address, bytes), (place + PAGE, 2 * PAGE), "{kind:?}");
        // Written again while it is being discarded, it gets another place; and what was not, its own.
        let elsewhere = paging.place_for(FILE, 1).unwrap();
        assert!(!(address..address + bytes).contains(&elsewhere), "{kind:?}");
        finish(&mut paging, id);
        assert_eq!(paging.place_for(FILE, 2).unwrap(), place + 2 * PAGE, "{kind:?}");
    }
}
