//! When blocks of XFS are a file's, and how many are allocated ahead.

use super::super::small::{finish, small};
use super::*;
use crate::os::file_system::{Barrier, FileSystemKind, FileSystemSpec, JournalMode};
use crate::power::{Note, Weaknesses};
use tierscope_units::Duration;
use tierscope_workload::op::fallocate;

const PAGE: u64 = 4096;
const ONE: FileId = 20;
const OTHER: FileId = 21;

fn host() -> Paging {
    let mut paging = small(|_| ());
    let spec = FileSystemSpec {
        kind: FileSystemKind::Xfs,
        journal: JournalMode::Ordered,
        commit_interval: Duration::default(),
        journal_capacity: Size::from_bytes(1 << 20),
        barrier: Barrier::Flush,
        timestamp_interval: Duration::from_picoseconds(4_000_000_000),
        discard: false,
    };
    paging.add_file_system(&spec, true).unwrap();
    for file in [ONE, OTHER] {
        paging.open(file, 0).unwrap();
        paging.keep_inode(file);
    }
    paging
}

fn append(paging: &mut Paging, file: FileId, pages: u64) {
    let first = paging.file_size(file) / PAGE;
    for page in first..first + pages {
        assert!(matches!(small::write(paging, file, page, 0), Next::Ready(_)));
    }
    paging.extend_file(file, (first + pages) * PAGE);
}

/// Writes what is dirty of a file.
fn write_back(paging: &mut Paging, file: FileId) {
    while let Some(id) = paging.sync(file, Paging::ALL_PAGES, &mut Vec::new()).unwrap() {
        finish(paging, id);
    }
}

/// Runs of places in a row that a file's pages have.
fn runs(paging: &Paging, file: FileId) -> usize {
    let pages = 0..paging.file_size(file) / PAGE;
    let places: Vec<u64> =
        pages.map(|page| paging.place_in_store(file, page).expect("it is written")).collect();
    1 + places.windows(2).filter(|pair| pair[1] != pair[0] + PAGE).count()
}

#[test]
fn a_block_is_the_files_once_it_has_been_written() {
    let mut paging = host();
    paging.follow_file_system(Weaknesses::default());
    append(&mut paging, ONE, 4);
    let id = paging.sync(ONE, Paging::ALL_PAGES, &mut Vec::new()).unwrap().expect("it is dirty");
    let told = |paging: &mut Paging| {
        let notes = paging.take_notes();
        let mapped = notes.iter().filter(|it| matches!(it, Note::Mapped { written: true, .. }));
        let sizes = notes.iter().filter_map(|it| match it {
            Note::Changed { size_bytes, .. } => Some(*size_bytes),
            _ => None,
        });
        (mapped.count(), sizes.max())
    };
    assert_eq!(told(&mut paging), (0, Some(0)), "its size is not known either");
    assert!((0..4).all(|page| paging.place_in_store(ONE, page).is_none()));
    finish(&mut paging, id);
    assert_eq!(told(&mut paging), (4, Some(4 * PAGE)));
    assert!((0..4).all(|page| paging.place_in_store(ONE, page).is_some()));
}

#[test]
fn what_is_cut_off_on_its_way_is_not_the_files() {
    let mut paging = host();
    append(&mut paging, ONE, 4);
    let id = paging.sync(ONE, Paging::ALL_PAGES, &mut Vec::new()).unwrap().expect("it is dirty");
    paging.truncate(ONE, PAGE);
    append(&mut paging, ONE, 1);
    finish(&mut paging, id);
    let there = [0, 1, 2].map(|page| paging.place_in_store(ONE, page).is_some());
    assert_eq!(there, [true, false, false]);
    write_back(&mut paging, ONE);
    assert!(paging.place_in_store(ONE, 1).is_some());
}

#[test]
fn files_that_grow_side_by_side_lie_in_runs_that_double() {
    let mut paging = host();
    for _ in 0..128 {
        for file in [ONE, OTHER] {
            append(&mut paging, file, 1);
            write_back(&mut paging, file);
        }
    }
    // One by one up to 64 KiB, of which the first may lie in a row; then in runs of 16 and more pages.
    for file in [ONE, OTHER] {
        let runs = runs(&paging, file);
        assert!((17..24).contains(&runs), "{runs} runs of 128 pages");
    }
}

#[test]
fn what_was_allocated_ahead_is_given_back_when_nobody_has_the_file_open() {
    let mut paging = host();
    append(&mut paging, ONE, 32);
    write_back(&mut paging, ONE);
    append(&mut paging, ONE, 1);
    write_back(&mut paging, ONE);
    assert!(paging.block_of(ONE, 33).is_some(), "it is the next page's");
    assert!(paging.place_in_store(ONE, 33).is_none());
    let before = paging.file_system.as_ref().unwrap().journal.newest();
    assert!(before.is_some());
    paging.let_go_of_inode(ONE);
    assert!(paging.block_of(ONE, 33).is_none() && paging.place_in_store(ONE, 32).is_some());
    // Nothing is left to be given back.
    paging.keep_inode(ONE);
    paging.let_go_of_inode(ONE);
}

#[test]
fn what_a_program_allocates_behind_the_end_stays() {
    let mut paging = host();
    append(&mut paging, ONE, 33);
    write_back(&mut paging, ONE);
    paging.fallocate(ONE, fallocate::KEEP_SIZE, 33 * PAGE, 2 * PAGE).unwrap();
    paging.let_go_of_inode(ONE);
    assert!(paging.block_of(ONE, 33).is_some() && paging.block_of(ONE, 34).is_some());
}

#[test]
fn a_file_that_nobody_has_open_gets_no_more_than_it_has() {
    let mut paging = host();
    append(&mut paging, ONE, 33);
    paging.let_go_of_inode(ONE);
    write_back(&mut paging, ONE);
    assert!(paging.block_of(ONE, 33).is_none());
    assert_eq!(runs(&paging, ONE), 1);
}
