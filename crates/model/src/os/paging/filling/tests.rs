//! What readahead decides, as the page cache carries it out.

use super::*;
use crate::os::paging::small::{FRAMES, finish, settle, small};
use crate::os::release::Release;
use tierscope_units::Size;
use tierscope_workload::op::MAP_WRITABLE;

const FILE: FileId = 1;
const PAGE: u64 = 4096;
/// Virtual page to which the file is mapped.
const MAPPED: u64 = 512;

/// A file of so many pages, mapped, with windows of 32 pages and 16 entries mapped at once.
fn with_file(pages: u64, largest_folio: u64) -> Paging {
    let mut paging = small(|spec| {
        spec.readahead = Size::from_bytes(32 * PAGE);
        spec.fault_around = Size::from_bytes(16 * PAGE);
        spec.largest_folio = Size::from_bytes(largest_folio * PAGE);
    });
    paging.open(FILE, pages * PAGE).expect("the store has room");
    paging.map(MAPPED * PAGE, pages * PAGE, MAP_SHARED | MAP_WRITABLE, FILE, 0);
    paging
}

fn read(paging: &mut Paging, page: u64) -> Next {
    let next = paging.read_page(FILE, page, page, &mut Vec::new(), &|_| false);
    let next = next.expect("there is room");
    if let Next::Ready(_) = next {
        paging.end_of_read(FILE, (page + 1) * PAGE);
    }
    next
}

fn load(paging: &mut Paging, page: u64) -> Next {
    paging.fault(MAPPED + page, false, page, &mut Vec::new(), &|_| false).expect("there is room")
}

/// First page and pages of a transfer: the file lies at the store's start.
fn run(paging: &Paging, id: TransferId) -> (u64, u64) {
    let pages = &paging.transfer(id).pages;
    (pages[0].store_address / PAGE, pages.len() as u64)
}

#[test]
fn the_next_window_is_under_way_while_the_last_is_read() {
    let mut paging = with_file(512, 1);
    let Next::Arrives(first, _) = read(&mut paging, 0) else { panic!("nothing is cached") };
    assert_eq!(run(&paging, first), (0, 4));
    finish(&mut paging, first);
    assert!(matches!(read(&mut paging, 0), Next::Ready(_)));
    assert!(!paging.transfers_under_way());
    assert!(matches!(read(&mut paging, 1), Next::Ready(_)), "it has the mark, and is there");
    let windows: Vec<_> = paging.transfers.iter().map(|(id, _)| run(&paging, id)).collect();
    assert_eq!(windows, [(4, 8)]);
    assert!(matches!(read(&mut paging, 4), Next::Arrives(..)), "it is being read");
    let counters = &paging.counters;
    assert_eq!((counters.readahead_requests, counters.readahead_pages), (3, 3 + 8 + 16));
    assert_eq!((counters.readahead_hits, counters.page_cache_misses), (1, 1));
}

#[test]
fn a_fault_maps_what_is_cached_around_it() {
    let mut paging = with_file(512, 1);
    let Next::Arrives(around, _) = load(&mut paging, 100) else { panic!("nothing is cached") };
    assert_eq!(run(&paging, around), (84, 32));
    finish(&mut paging, around);
    assert!(matches!(load(&mut paging, 100), Next::Ready(_)));
    let mapped = |page: &u64| matches!(paging.entry(MAPPED + page), Pte::Present { .. });
    // Entries 96 to 111; the mark is on page 84 + 24.
    let expected: Vec<u64> = (96..112).filter(|page| *page != 108).collect();
    assert_eq!((0..512).filter(mapped).collect::<Vec<_>>(), expected);
    assert_eq!(paging.counters.minor_faults, 1);
    assert_eq!(paging.counters.major_faults, 1);
}

#[test]
fn large_folios_are_read_and_marked_as_a_whole() {
    let mut paging = with_file(512, 512);
    for page in 0..20 {
        while let Next::Arrives(id, _) = read(&mut paging, page) {
            finish(&mut paging, id);
        }
        settle(&mut paging);
    }
    let folio = paging.folio(FILE, 20).expect("it was read ahead");
    assert_eq!((folio.first, folio.order), (16, 3));
    let next = paging.folio(FILE, 24).expect("the mark was met");
    assert_eq!((next.first, next.order, next.marked), (24, 3, true));
}

#[test]
fn pages_are_read_when_advised_and_each_once() {
    let mut paging = with_file(512, 1);
    let advice = Advice::WillNeed as u64;
    let mut advise = |first: u64, pages: u64| {
        let (address, length) = ((MAPPED + first) * PAGE, pages * PAGE);
        let done = paging.advise(address, length, advice, &mut Vec::new(), &|_| false);
        done.expect("there is room");
        let found: Vec<_> = paging.transfers.iter().map(|(id, _)| run(&paging, id)).collect();
        settle(&mut paging);
        found
    };
    assert_eq!(advise(10, 8), [(10, 8)]);
    assert_eq!(advise(8, 12), [(8, 2), (18, 2)]);
    assert_eq!(advise(100, 300), [(100, 32)], "no more than a window");
}

/// A file larger than memory: pages that were read ahead and pushed out before they were used are
/// told.
#[test]
fn what_was_read_ahead_in_vain_is_counted() {
    let mut paging = with_file(4 * FRAMES, 1);
    for page in (0..4 * FRAMES).step_by(40) {
        while let Next::Arrives(id, _) = load(&mut paging, page) {
            finish(&mut paging, id);
        }
        settle(&mut paging);
    }
    let OsCounters { readahead_pages, readahead_hits, readahead_wasted, .. } = paging.counters;
    assert_eq!(readahead_hits, 0);
    assert!(readahead_wasted > readahead_pages / 2, "{readahead_wasted} of {readahead_pages}");
    assert!(readahead_pages - readahead_wasted <= FRAMES);
}

/// A mapping larger than memory that will be needed: Linux 2.6.32 reads half of what is free or inactive of files
/// (`max_sane_readahead`), so that of what is there already half is displaced.
#[test]
fn what_will_be_needed_takes_half_of_memory_in_2_6_32() {
    let mut paging = small(|spec| {
        spec.readahead = Size::from_bytes(32 * PAGE);
        spec.readahead_release = Some(Release::V2_6_32);
        spec.reclaim = ReclaimPolicy::ActiveInactive2632;
    });
    paging.open(FILE, 8 * FRAMES * PAGE).expect("the store has room");
    paging.map(MAPPED * PAGE, 8 * FRAMES * PAGE, MAP_SHARED, FILE, 0);
    let free = paging.frames.free();
    let mut need = |first: u64| {
        let (address, length) = ((MAPPED + first) * PAGE, 4 * FRAMES * PAGE);
        let advice = Advice::WillNeed as u64;
        let before = paging.counters.readahead_pages;
        paging.advise(address, length, advice, &mut Vec::new(), &|_| false).expect("there is room");
        settle(&mut paging);
        paging.counters.readahead_pages - before
    };
    assert_eq!(need(0), free / 2);
    assert_eq!(need(4 * FRAMES), free / 2, "all of files is inactive");
}

/// A fault of a page that reclaim has taken out of a folio, the rest of which is mapped around it, reads it.
#[test]
fn a_page_that_has_left_its_folio_is_read_by_itself() {
    let mut paging = with_file(512, 16);
    read_all(&mut paging, 64);
    let folio = (0..64).filter_map(|page| paging.folio(FILE, page)).find(|folio| folio.order >= 2);
    let page = folio.expect("windows have grown").first + 2;
    let frame = paging.cached(FILE, page).expect("it is of the folio");
    paging.cache.remove(file_key(FILE, page));
    paging.release(frame);
    let Next::Arrives(id, _) = load(&mut paging, page) else { panic!("the store has it") };
    finish(&mut paging, id);
    assert!(matches!(load(&mut paging, page), Next::Ready(_)));
}

/// Reads so many pages from the start by calls.
fn read_all(paging: &mut Paging, pages: u64) {
    for page in 0..pages {
        while !matches!(read(paging, page), Next::Ready(_)) {
            settle(paging);
        }
    }
    settle(paging);
}

#[test]
fn an_opening_has_its_readahead_until_it_is_closed_and_not_mapped() {
    let mut paging = with_file(256, 1);
    let by = |paging: &mut Paging, opening| {
        paging.reads_by(opening);
        paging.readahead_of(FILE).clone()
    };
    let [first, second] = [paging.new_opening(), paging.new_opening()];
    let fresh = by(&mut paging, first);
    for page in [0, 1] {
        if let Next::Arrives(id, _) = read(&mut paging, page) {
            finish(&mut paging, id);
            assert!(matches!(read(&mut paging, page), Next::Ready(_)));
        }
    }
    assert_ne!(by(&mut paging, first), fresh);
    assert_eq!(by(&mut paging, second), fresh, "the other has read nothing");
    // A mapping by it keeps what is known of it, and faults go by it.
    let mapped_by_it = 2048;
    paging.reads_by(first);
    paging.map(mapped_by_it * PAGE, 256 * PAGE, MAP_SHARED, FILE, 0);
    let before = by(&mut paging, first);
    paging.close_opening(FILE, first);
    assert_eq!(by(&mut paging, first), before);
    paging.reads_by(second);
    let far = paging.fault(mapped_by_it + 200, false, 0, &mut Vec::new(), &|_| false);
    let Ok(Next::Arrives(id, _)) = far else { panic!("{far:?}") };
    finish(&mut paging, id);
    assert_ne!(by(&mut paging, first), before);
    assert_eq!(by(&mut paging, second), fresh);
    paging.unmap(mapped_by_it * PAGE, 256 * PAGE);
    assert!(paging.files[&FILE].openings.iter().any(|it| it.number == first));
    for _ in 0..20 {
        let opening = paging.new_opening();
        assert_eq!(by(&mut paging, opening), fresh);
    }
    assert!(!paging.files[&FILE].openings.iter().any(|it| it.number == first), "it is gone");
    paging.close_opening(FILE, second);
    assert!(!paging.files[&FILE].openings.iter().any(|it| it.number == second));
}

/// Two threads store to a file at random, each of its pages once. A fault that begins again when its page has come is
/// none of readahead's business (`FAULT_FLAG_TRIED`), whoever has faulted meanwhile: a hundred misses more than hits end
/// read-around, whether threads wait at once or one after the other.
#[test]
fn a_fault_that_begins_again_is_not_counted_again_whoever_faults_meanwhile() {
    const PAIRS: u64 = 100;
    let store = |paging: &mut Paging, thread: u32, page: u64| {
        paging.asked_by(thread, false);
        let fault = paging.fault(MAPPED + page, true, page, &mut Vec::new(), &|_| false);
        fault.expect("there is room")
    };
    let pages_read = |at_once: bool| {
        let mut paging = with_file(200 * PAIRS, 1);
        for nth in 0..PAIRS {
            let pages = [(1, 200 * nth), (2, 200 * nth + 100)];
            for (thread, page) in pages {
                while let Next::WaitForFrame = store(&mut paging, thread, page) {
                    settle(&mut paging);
                }
                if !at_once {
                    settle(&mut paging);
                    assert!(matches!(store(&mut paging, thread, page), Next::Ready(_)));
                }
            }
            settle(&mut paging);
            for (thread, page) in pages {
                assert!(matches!(store(&mut paging, thread, page), Next::Ready(_)));
            }
        }
        paging.counters.readahead_pages
    };
    let [in_turn, at_once] = [false, true].map(pages_read);
    assert!((99 * 31..102 * 31).contains(&in_turn), "{in_turn}");
    assert_eq!(at_once, in_turn);
}
