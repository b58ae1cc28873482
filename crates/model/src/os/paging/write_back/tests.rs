//! When dirty pages are written, and by whom.

use super::*;
use crate::os::paging::small::{FRAMES, fault, finish, os, settle, small, storage, write};
use tierscope_workload::op::MAP_WRITABLE;

const FILE: FileId = 1;
const PAGE: u64 = 4096;
const SECOND_PS: u64 = 1_000_000_000_000;

/// Files without a page of their own.
fn with_files(files: Range<FileId>) -> Paging {
    let mut paging = small(|_| {});
    for file in files {
        paging.open(file, 0).expect("the store is empty");
    }
    paging
}

/// What the flusher writes before it sleeps.
fn flushed(paging: &mut Paging) -> u64 {
    let before = paging.counters.file_write_backs;
    while let Some(id) = paging.flush(&mut Vec::new()).expect("there is room") {
        finish(paging, id);
    }
    paging.counters.file_write_backs - before
}

#[test]
fn the_flusher_wakes_above_the_background_ratio_and_not_at_it() {
    let mut paging = with_files(0..2);
    let mut wakes = |index| {
        assert!(matches!(write(&mut paging, FILE, index, 0), Next::Ready(_)));
        let soft = paging.dirty_limits(paging.limits.as_ref().expect("it has a store"), 0).1;
        assert_eq!(paging.take_wakes().flush, index + 1 > soft, "{index} of {soft}");
        index + 1 > soft
    };
    assert_eq!((0..FRAMES).map(&mut wakes).filter(|wakes| *wakes).take(3).count(), 3);
    assert!(flushed(&mut paging) > 3);
    assert_eq!(flushed(&mut paging), 0, "it writes until no more than that is dirty");
}

/// Of a memory of 64 MiB in which few pages are too many, and far more may be dirty before writers wait.
fn large(release: Release) -> Paging {
    const PAGES: u64 = 16384;
    let mut spec = storage();
    spec.dram_capacity = Size::from_bytes(PAGES * PAGE);
    (spec.dirty_background_ratio, spec.dirty_ratio) = (0.01, 0.9);
    spec.readahead_release = Some(release);
    Paging::new(&os(), 1, PAGES * PAGE, Some((&spec, 1 << 30)), 1)
}

/// The pages that the flusher writes next, until it would sleep or has written so many.
fn next_written(paging: &mut Paging, most: usize) -> Vec<FilePage> {
    let mut pages = Vec::new();
    while pages.len() < most
        && let Some(id) = paging.flush(&mut Vec::new()).expect("there is room")
    {
        let frames = paging.transfer(id).pages.iter().map(|page| page.frame);
        let mut of_it: Vec<FilePage> = frames
            .map(|frame| match paging.frames.get(frame).owner {
                Owner::File(file, index) => (file, index),
                owner => panic!("{owner:?}"),
            })
            .collect();
        of_it.sort_unstable();
        pages.extend(of_it);
        finish(paging, id);
    }
    pages
}

#[test]
fn the_flusher_writes_a_turn_of_each_file_from_where_it_left_off() {
    let mut paging = large(Release::V6_18);
    for (file, pages) in [(0, 3000), (1, 3000), (2, 200)] {
        paging.open(file, 0).expect("the store is empty");
        for index in 0..pages {
            let at_ps = u64::from(file) + 1;
            assert!(matches!(write(&mut paging, file, index, at_ps), Next::Ready(_)));
        }
    }
    let pages = |file, range: Range<u64>| range.map(move |index| (file, index));
    // An eighth of what may be dirty is one more part.
    let hard = 2 * paging.dirty_limits(paging.limits.as_ref().unwrap(), 0).0;
    assert!((1024..2048).contains(&(hard / 8)), "{hard}");
    let expected = pages(0, 0..2048).chain(pages(1, 0..2048)).chain(pages(2, 0..200));
    assert_eq!(next_written(&mut paging, 4296), expected.collect::<Vec<_>>());
    // What is behind comes first then, and what was made dirty again in front of it once the end has come.
    (0..10).for_each(|index| _ = write(&mut paging, 0, index, 9));
    let expected: Vec<FilePage> = pages(0, 2048..3000).chain(pages(0, 0..10)).collect();
    assert_eq!(next_written(&mut paging, 962), expected);
    assert_eq!(next_written(&mut paging, 952), pages(1, 2048..3000).collect::<Vec<_>>());
    assert_eq!(flushed(&mut paging), 0);
    // All of a turn is written, though less is dirty than is too much as soon as one is.
    for release in [Release::V6_18, Release::V2_6_32] {
        let mut paging = large(release);
        paging.open(FILE, 0).expect("the store is empty");
        let soft = paging.dirty_limits(paging.limits.as_ref().unwrap(), 0).1;
        (0..=soft).for_each(|index| _ = write(&mut paging, FILE, index, 1));
        assert_eq!(flushed(&mut paging), soft + 1);
        (0..1100).for_each(|index| _ = write(&mut paging, FILE, index, 2));
        assert_eq!(flushed(&mut paging), if release == Release::V6_18 { 1100 } else { 1024 });
    }
}

#[test]
fn a_writer_waits_above_the_middle_of_both_ratios() {
    let mut paging = with_files(0..2);
    let middle = paging.dirty_limits(paging.limits.as_ref().expect("it has a store"), 0).0;
    let ready =
        (0..).take_while(|index| matches!(write(&mut paging, FILE, *index, 0), Next::Ready(_)));
    let ready = ready.count() as u64;
    assert!((middle - 2..=middle).contains(&ready), "{ready} of {middle}");
    assert_eq!(paging.counters.throttled_writes, 1);
    let Next::Wait(id) = write(&mut paging, FILE, ready, 0) else { panic!("it is above it still") };
    assert!(paging.transfer(id).write);
    settle(&mut paging);
    assert!(matches!(write(&mut paging, FILE, ready, 0), Next::Ready(_)));
}

#[test]
fn more_writers_than_pages_may_be_dirty_all_get_on() {
    let mut paging = with_files(0..2);
    let middle = paging.dirty_limits(paging.limits.as_ref().expect("it has a store"), 0).0;
    let mut left: Vec<u64> = (0..2 * middle).collect();
    for round in 0..=2 * middle {
        // Each tries again when the first transfer is done, as whoever waits for it does.
        left.retain(|index| !matches!(write(&mut paging, FILE, *index, 0), Next::Ready(_)));
        if left.is_empty() {
            return;
        }
        assert!(round < 2 * middle, "{left:?} never get on");
        let first = paging.transfers.iter().map(|(id, _)| id).next().expect("one is under way");
        finish(&mut paging, first);
    }
}

#[test]
fn who_was_held_back_once_for_an_access_gets_on() {
    let mut paging = small(|_| {});
    paging.open(FILE, FRAMES * PAGE).expect("the store is empty");
    paging.map(0, FRAMES * PAGE, MAP_SHARED | MAP_WRITABLE, FILE, 0);
    let mut is_held_back = |page: &u64| loop {
        match fault(&mut paging, *page, true) {
            Next::Ready(_) => return false,
            Next::Arrives(id, _) => finish(&mut paging, id),
            Next::Wait(_) | Next::Pause(_) => return true,
            Next::WaitForFrame => panic!("memory is larger than what may be dirty"),
        }
    };
    let page = (0..FRAMES).find(&mut is_held_back).expect("not all may be dirty");
    assert!(is_held_back(&page), "nothing has been written yet");
    let again = paging.not_held_back(|paging| fault(paging, page, true));
    assert!(matches!(again, Next::Ready(_)), "{again:?}");
    assert!(matches!(fault(&mut paging, page + 1, true), Next::Arrives(..) | Next::Wait(_)));
}

#[test]
fn a_page_written_to_the_store_while_a_call_copies_to_it_is_dirty_again() {
    let mut paging = with_files(0..2);
    let Next::Ready(frame) = write(&mut paging, FILE, 0, 0) else { panic!("there is room") };
    let id = paging
        .sync(FILE, Paging::ALL_PAGES, &mut Vec::new())
        .expect("it has a place")
        .expect("a dirty page");
    finish(&mut paging, id);
    assert!(!paging.frames.get(frame).dirty);
    paging.copied_to(frame, 0).unwrap();
    assert!(paging.sync(FILE, Paging::ALL_PAGES, &mut Vec::new()).is_ok_and(|id| id.is_some()));
}

#[test]
fn a_file_is_written_once_it_has_been_dirty_for_long_and_not_before() {
    let mut paging = with_files(0..3);
    write(&mut paging, 1, 0, SECOND_PS);
    assert_eq!(paging.take_wakes().flush_at_ps, Some(6 * SECOND_PS));
    write(&mut paging, 2, 0, 4 * SECOND_PS);
    write(&mut paging, 1, 1, 5 * SECOND_PS);
    assert_eq!(paging.take_wakes(), Wakes::default());
    for (now, written) in [(6, 0), (30, 0), (31, 2), (33, 0), (34, 1)] {
        paging.flush_old(now * SECOND_PS);
        let at_ps = paging.take_wakes().flush_at_ps;
        assert_eq!(at_ps, (now + 5 <= 39).then_some((now + 5) * SECOND_PS));
        assert_eq!(flushed(&mut paging), written, "after {now} s");
    }
    paging.flush_old(39 * SECOND_PS);
    assert_eq!(paging.take_wakes(), Wakes::default(), "nothing is dirty");
    write(&mut paging, 1, 0, 50 * SECOND_PS);
    assert_eq!(paging.take_wakes().flush_at_ps, Some(55 * SECOND_PS), "dirty anew");
}

#[test]
fn a_page_being_written_is_made_read_only_and_the_hardware_is_told() {
    let mut paging = small(|_| {});
    paging.open(FILE, 16 * PAGE).expect("the store is empty");
    paging.map(0, 16 * PAGE, MAP_SHARED | MAP_WRITABLE, FILE, 0);
    let Next::Arrives(id, _) = fault(&mut paging, 3, true) else { panic!("the store has it") };
    finish(&mut paging, id);
    assert!(matches!(fault(&mut paging, 3, true), Next::Ready(_)));
    paging.take_effects();
    let id = paging
        .sync(FILE, Paging::ALL_PAGES, &mut Vec::new())
        .expect("it has a place")
        .expect("a dirty page");
    assert!(matches!(paging.entry(3), Pte::Present { writable: false, .. }));
    assert_eq!(paging.take_effects(), [Effect::Shootdown(3)]);
    finish(&mut paging, id);
    fault(&mut paging, 3, true);
    assert!(
        paging.sync(FILE, Paging::ALL_PAGES, &mut Vec::new()).is_ok_and(|id| id.is_some()),
        "dirty once more"
    );
}
