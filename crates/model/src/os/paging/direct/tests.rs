//! Direct calls beside buffered ones, faults and each other.

use super::*;
use crate::os::paging::small::{done, fault, finish, small, touch, write};
use tierscope_workload::op::{MAP_SHARED, MAP_WRITABLE};

const FILE: FileId = 1;
const PAGE: u64 = 4096;
/// Where buffers are.
const BUFFER: u64 = 5000;

fn with_file() -> Paging {
    let mut paging = small(|_| {});
    paging.open(FILE, 16 * PAGE).unwrap();
    paging
}

fn of(first: u64, pages: u64, write: bool) -> DirectCall {
    let (offset, bytes) = (first * PAGE, pages * PAGE);
    DirectCall { inode: FILE, offset, bytes, address: BUFFER * PAGE, write }
}

/// Asks until it has to wait, or has started.
fn ask(paging: &mut Paging, call: &DirectCall) -> DirectNext {
    let (mut pinned, mut work) = (Vec::new(), Vec::new());
    let page_of = |nth| call.address / PAGE + nth;
    let next = paging.direct(call, &page_of, &mut pinned, 0, &mut work, &|_| false).unwrap();
    done(paging, &work);
    pinned.into_iter().for_each(|frame| paging.let_go(frame));
    next
}

/// It starts; its transfer.
fn start(paging: &mut Paging, call: &DirectCall) -> TransferId {
    match ask(paging, call) {
        DirectNext::Started(Some(id)) => id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_sees_the_file_waits_for_a_direct_write_and_what_changes_it_for_a_read_too() {
    for writes in [true, false] {
        let mut paging = with_file();
        let id = start(&mut paging, &of(3, 2, writes));
        let read = paging.read_page(FILE, 9, 9, &mut Vec::new(), &|_| false).unwrap();
        assert_eq!(read == Next::Wait(id), writes);
        assert_eq!(write(&mut paging, FILE, 9, 0), Next::Wait(id));
        assert_eq!(ask(&mut paging, &of(4, 1, false)), DirectNext::Ask(Next::Wait(id)));
        let beside = start(&mut paging, &of(5, 1, true));
        [id, beside].into_iter().for_each(|id| finish(&mut paging, id));
        assert_eq!(paging.direct_calls, 0);
        start(&mut paging, &of(4, 1, true));
    }
}

#[test]
fn faults_of_a_mapping_wait_likewise() {
    let mut paging = with_file();
    paging.map(0, 16 * PAGE, MAP_SHARED | MAP_WRITABLE, FILE, 0);
    touch(&mut paging, 9, false);
    let id = start(&mut paging, &of(3, 1, false));
    assert_eq!(fault(&mut paging, 9, true), Next::Wait(id), "it would be dirty");
    finish(&mut paging, id);
    let id = start(&mut paging, &of(3, 1, true));
    assert_eq!(fault(&mut paging, 10, false), Next::Wait(id));
    finish(&mut paging, id);
    touch(&mut paging, 3, true);
    assert!(paging.frames.get(paging.cached(FILE, 3).unwrap()).dirty);
    let DirectNext::Ask(Next::Wait(id)) = ask(&mut paging, &of(3, 1, true)) else {
        panic!("it is dirty")
    };
    assert!(paging.transfer(id).writes_files());
    finish(&mut paging, id);
    start(&mut paging, &of(3, 1, true));
    assert_eq!(paging.entry(3), Pte::None, "it is mapped no more");
    assert_eq!(paging.cached(FILE, 3), None);
}

#[test]
fn a_buffer_stays_in_its_frames_until_it_has_been_moved() {
    let mut paging = with_file();
    let id = start(&mut paging, &of(0, 4, true));
    let frames: Vec<u64> = paging.transfer(id).pages.iter().map(|page| page.frame).collect();
    assert!(frames.iter().all(|frame| paging.frames.get(*frame).users == 1));
    paging.unmap(BUFFER * PAGE, 4 * PAGE);
    let taken = |paging: &mut Paging| touch(paging, 9000, true);
    assert!(!frames.contains(&taken(&mut paging)));
    finish(&mut paging, id);
    assert!(frames.iter().all(|frame| paging.frames.get(*frame).users == 0));
}

#[test]
fn a_page_without_a_place_has_one_once_it_is_written() {
    let mut paging = with_file();
    let id = start(&mut paging, &of(20, 1, true));
    assert_eq!(paging.store_address(FILE, 20), None, "nothing is there yet");
    let place = paging.transfer(id).pages[0].store_address;
    finish(&mut paging, id);
    assert_eq!(paging.store_address(FILE, 20), Some(place));
    assert_eq!(ask(&mut paging, &of(21, 1, false)), DirectNext::Started(None), "a hole");
}

#[test]
fn the_largest_request_splits_a_call() {
    let mut paging = with_file();
    let (mut pinned, mut work) = (Vec::new(), Vec::new());
    let call = DirectCall { bytes: 100 * PAGE, ..of(0, 1, true) };
    let page_of = |nth| call.address / PAGE + nth;
    paging.direct(&call, &page_of, &mut pinned, 0, &mut work, &|_| false).unwrap();
    // Of 128 KiB each.
    assert!(work.contains(&Work::Path(Stage::BlockLayer, 4)));
    assert!(!work.iter().any(|item| matches!(item, Work::Path(Stage::FileSystem, _))), "raw");
}
