//! Edges of paging: when it begins, and what it must not forget.

use super::*;
use crate::os::paging::small::{FRAMES, SOFT, small};
use tierscope_workload::op::MAP_WRITABLE;

const FILE: FileId = 1;
/// The low watermark is a 256th of the frames.
const LOW_WATERMARK: u64 = FRAMES / 256;

fn paging() -> Paging {
    small(|_| {})
}

fn fault(paging: &mut Paging, page: u64, write: bool) -> Next {
    paging.fault(page, write, 0, &mut Vec::new(), &|_| false).expect("there is room")
}

/// Touches page after page until so many frames are free; the next page.
fn fill(paging: &mut Paging, free: u64) -> u64 {
    let mut page = 0;
    while paging.frames.free() > free {
        assert!(matches!(fault(paging, page, true), Next::Ready(_)));
        page += 1;
    }
    page
}

fn finish(paging: &mut Paging, id: TransferId) {
    paging.submitted(id);
    while !paging.page_moved(id) {}
    paging.finish_transfer(id, 0);
}

#[test]
fn reclaim_begins_at_the_low_watermark_and_not_a_page_before() {
    let mut paging = paging();
    let page = fill(&mut paging, LOW_WATERMARK);
    assert_eq!(paging.counters.reclaimed_pages, 0, "a page was left above it each time");
    fault(&mut paging, page, true);
    assert_eq!(paging.counters.reclaimed_pages, RECLAIM_BATCH);
}

/// While the store writes what reclaim has chosen, pages that are wanted take what is free, and then
/// wait: they do not send off all of memory.
#[test]
fn what_is_on_its_way_out_counts_as_free() {
    let mut paging = paging();
    let first = fill(&mut paging, LOW_WATERMARK);
    let mut waits = |page| paging.fault(page, true, 0, &mut Vec::new(), &|_| false).is_ok();
    assert!((first..first + LOW_WATERMARK + 8).all(&mut waits));
    assert_eq!(paging.frames.free(), 0);
    assert_eq!(paging.counters.reclaimed_pages, RECLAIM_BATCH, "one batch, and no other behind it");
    let id = paging.transfers.iter().map(|(id, _)| id).next().expect("it is on its way");
    finish(&mut paging, id);
    assert_eq!((paging.frames.free(), paging.leaving), (RECLAIM_BATCH, 0));
}

#[test]
fn a_page_that_only_memory_has_goes_to_swap_and_comes_back_from_there() {
    let mut paging = paging();
    let page = fill(&mut paging, LOW_WATERMARK);
    paging.take_effects();
    fault(&mut paging, page, true);
    assert_eq!(paging.counters.swap_outs, RECLAIM_BATCH);
    assert!(matches!(paging.entry(0), Pte::Swapped(_)), "the page used longest ago");
    assert!(paging.take_effects().contains(&Effect::Shootdown(0)));
    let id = paging.transfers.iter().map(|(id, _)| id).next().expect("they are on their way");
    let transfer = paging.transfer(id);
    assert_eq!((transfer.pages.len() as u64, transfer.write), (RECLAIM_BATCH, true));
    finish(&mut paging, id);
    let Next::Wait(id) = fault(&mut paging, 0, false) else { panic!("it is in the store alone") };
    assert!(!paging.transfer(id).write);
    finish(&mut paging, id);
    assert!(matches!(fault(&mut paging, 0, false), Next::Ready(_)));
    assert_eq!(paging.counters.swap_ins, 1);
}

#[test]
fn dirty_file_pages_are_written_above_the_background_ratio_and_not_at_it() {
    let mut paging = paging();
    paging.open(FILE, 0).expect("the store is empty");
    let mut write = |index| {
        let next = paging.write_page(FILE, index, true, 0, &mut Vec::new(), &|_| false);
        assert!(matches!(next, Ok(Next::Ready(_))));
        paging.counters.file_write_backs
    };
    assert_eq!((0..SOFT).map(&mut write).max(), Some(0));
    assert_eq!(write(SOFT), SOFT + 1);
}

#[test]
fn a_page_being_written_is_made_read_only_and_the_hardware_is_told() {
    let mut paging = paging();
    paging.open(FILE, 16 * 4096).expect("the store is empty");
    paging.map(0, 16 * 4096, MAP_SHARED | MAP_WRITABLE, FILE, 0);
    let Next::Wait(id) = fault(&mut paging, 3, true) else { panic!("it is in the store alone") };
    finish(&mut paging, id);
    assert!(matches!(fault(&mut paging, 3, true), Next::Ready(_)));
    paging.take_effects();
    let id = paging.sync(FILE, &mut Vec::new()).expect("it has a place").expect("a dirty page");
    assert!(matches!(paging.entry(3), Pte::Present { writable: false, .. }));
    assert_eq!(paging.take_effects(), [Effect::Shootdown(3)]);
    finish(&mut paging, id);
    fault(&mut paging, 3, true);
    assert!(paging.sync(FILE, &mut Vec::new()).is_ok_and(|id| id.is_some()), "dirty once more");
}
