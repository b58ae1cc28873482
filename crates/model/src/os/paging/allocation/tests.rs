//! Laws of what `fallocate` does to a file's blocks.

use super::*;
use crate::os::paging::small::{settle, small, write};

const FILE: FileId = 1;
const PAGE: u64 = 4096;

fn with_file(pages: u64) -> Paging {
    let mut paging = small(|_| {});
    assert_eq!(paging.open(FILE, pages * PAGE), Ok(FILE));
    paging
}

/// Reads a page; whether the store was asked for it.
fn reads_store(paging: &mut Paging, index: u64) -> bool {
    let mut work = Vec::new();
    let next = paging.read_page(FILE, index, index, &mut work, &|_| false).unwrap();
    small::done(paging, &work);
    settle(paging);
    matches!(next, Next::Arrives(..) | Next::Wait(_))
}

fn places(paging: &Paging, pages: Range<u64>) -> Vec<Option<u64>> {
    pages.map(|index| paging.store_address(FILE, index)).collect()
}

#[test]
fn what_is_allocated_has_places_in_a_row_and_reads_as_zeros_until_it_is_written() {
    let mut paging = with_file(0);
    assert_eq!(paging.fallocate(FILE, 0, 0, 8 * PAGE), Ok(0..0));
    assert_eq!(paging.file_size(FILE), 8 * PAGE);
    assert_eq!(places(&paging, 0..8), [None; 8]);
    assert!(!reads_store(&mut paging, 3));
    // Another file comes between; the places stay.
    paging.open(2, 4 * PAGE).unwrap();
    for index in [5, 2] {
        assert!(matches!(write(&mut paging, FILE, index, 0), Next::Ready(_)));
    }
    paging.sync(FILE, Paging::ALL_PAGES, &mut Vec::new()).unwrap().expect("two are dirty");
    settle(&mut paging);
    let found = places(&paging, 0..8);
    let first = found[2].unwrap() - 2 * PAGE;
    assert_eq!(found[5], Some(first + 5 * PAGE));
    assert_eq!(found.iter().flatten().count(), 2);
    let end = paging.store_end;
    paging.fallocate(FILE, 0, 0, 8 * PAGE).unwrap();
    assert_eq!((paging.store_end, places(&paging, 0..8)), (end, found), "all has its place");
}

#[test]
fn a_file_grows_only_where_it_is_to() {
    let mut paging = with_file(2);
    paging.fallocate(FILE, fallocate::KEEP_SIZE, 0, 6 * PAGE).unwrap();
    assert_eq!(paging.file_size(FILE), 2 * PAGE);
    paging.fallocate(FILE, fallocate::ZERO_RANGE | fallocate::KEEP_SIZE, PAGE, 9 * PAGE).unwrap();
    assert_eq!(paging.file_size(FILE), 2 * PAGE);
    paging.fallocate(FILE, fallocate::ZERO_RANGE, PAGE, 9 * PAGE + 1).unwrap();
    assert_eq!(paging.file_size(FILE), 10 * PAGE + 1);
    // What was allocated goes with the rest.
    paging.truncate(FILE, 0);
    assert!((0..12).all(|index| paging.block_of(FILE, index).is_none()));
}

#[test]
fn a_hole_has_no_places_and_all_else_keeps_its_own() {
    let mut paging = with_file(10);
    let before = places(&paging, 0..10);
    let mode = fallocate::PUNCH_HOLE | fallocate::KEEP_SIZE;
    assert!(reads_store(&mut paging, 4));
    let gone = paging.fallocate(FILE, mode, 3 * PAGE - 100, 3 * PAGE + 200).unwrap();
    assert_eq!(gone, 3..6, "whole pages");
    let after = places(&paging, 0..10);
    for index in 0..10 {
        let kept = before[index].filter(|_| !gone.contains(&(index as u64)));
        assert_eq!(after[index], kept, "{index}");
    }
    assert_eq!(paging.cached(FILE, 4), None);
    assert!(!reads_store(&mut paging, 4) && reads_store(&mut paging, 7));
    assert_eq!(paging.file_size(FILE), 10 * PAGE);
    // Written again, a page comes back to its place.
    assert!(matches!(write(&mut paging, FILE, 5, 0), Next::Ready(_)));
    paging.sync(FILE, Paging::ALL_PAGES, &mut Vec::new()).unwrap();
    settle(&mut paging);
    assert_eq!(places(&paging, 5..6), before[5..6]);
}

#[test]
fn a_dirty_page_of_a_hole_is_not_written() {
    let mut paging = with_file(0);
    write(&mut paging, FILE, 0, 0);
    write(&mut paging, FILE, 1, 0);
    paging.extend_file(FILE, 2 * PAGE);
    paging.fallocate(FILE, fallocate::PUNCH_HOLE | fallocate::KEEP_SIZE, 0, PAGE).unwrap();
    paging.sync(FILE, Paging::ALL_PAGES, &mut Vec::new()).unwrap().expect("one is dirty");
    settle(&mut paging);
    assert_eq!(paging.counters.file_write_backs, 1);
}

#[test]
fn taking_a_range_out_and_putting_one_in_moves_what_is_behind() {
    let mut paging = with_file(8);
    let before = places(&paging, 0..8);
    paging.fallocate(FILE, fallocate::COLLAPSE_RANGE, 2 * PAGE, 3 * PAGE).unwrap();
    assert_eq!(paging.file_size(FILE), 5 * PAGE);
    let expected: Vec<_> = before[..2].iter().chain(&before[5..]).copied().collect();
    assert_eq!(places(&paging, 0..5), expected);
    paging.fallocate(FILE, fallocate::INSERT_RANGE, PAGE, 2 * PAGE).unwrap();
    assert_eq!(paging.file_size(FILE), 7 * PAGE);
    let put = [&expected[..1], &[None, None], &expected[1..]].concat();
    assert_eq!(places(&paging, 0..7), put);
    assert_eq!(places(&paging, 7..8), [None]);
}

#[test]
fn files_made_and_deleted_under_ever_new_names_need_room_for_one() {
    let mut paging = with_file(0);
    let mut ends = Vec::new();
    for name in 10..2000 {
        let inode = paging.open(name, 0).unwrap();
        for index in 0..4 {
            assert!(matches!(write(&mut paging, inode, index, 0), Next::Ready(_)));
        }
        paging.extend_file(inode, 4 * PAGE);
        paging.sync(inode, Paging::ALL_PAGES, &mut Vec::new()).unwrap();
        settle(&mut paging);
        assert_eq!(paging.unlink(name, 0), Ok(Some(inode)));
        ends.push(paging.store_end);
    }
    assert_eq!(ends.first(), ends.last());
}

#[test]
fn a_file_that_is_first_told_of_as_it_is_deleted_has_been_there() {
    let mut paging = with_file(0);
    assert_eq!(paging.unlink(9, 0), Ok(None), "nothing is known of it");
    let end = paging.store_end;
    assert_eq!(paging.unlink(9, 0), Ok(None));
    assert_eq!(paging.unlink(8, 3 * PAGE), Ok(Some(8)));
    assert_eq!(paging.store_end, end + 3 * PAGE);
    assert_eq!(paging.find_or_last(8), None);
}
