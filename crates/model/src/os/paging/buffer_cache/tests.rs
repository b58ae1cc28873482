use super::super::small::{Memory, small};
use super::*;
use crate::os::buffer_cache::{self, BufferCacheSpec, HeldPages, OnHit};
use std::collections::HashMap;
use tierscope_units::Size;

const FILE: FileId = 1;
const PAGE: u64 = 4096;
const PAGES: u64 = 256;
/// Frames that are free at first.
const FREE: u64 = 96;

fn memory(window_pages: u64, change: impl FnOnce(&mut BufferCacheSpec)) -> Memory {
    let mut paging = small(|spec| spec.readahead = Size::from_bytes(window_pages * PAGE));
    let mut spec = BufferCacheSpec {
        capacity: Size::from_bytes(PAGES * PAGE),
        ways: 64,
        ..buffer_cache::tests::spec()
    };
    change(&mut spec);
    paging.add_buffer_cache(BufferCache::new(&spec, PAGE, 1e9, 1).unwrap());
    paging.open(FILE, PAGES * PAGE).unwrap();
    let store: HashMap<u64, u64> = (0..PAGES).map(|page| (page * PAGE, page + 1)).collect();
    Memory::new(paging, FREE, store)
}

/// Reads a page by a call of its own; how many pages came from the store.
fn read(memory: &mut Memory, page: u64) -> u64 {
    let before = memory.paging.counters.major_faults;
    let frame = memory.ask(|paging, work| paging.read_page(FILE, page, page, work, &|_| false));
    assert_eq!(memory.frames[&frame], memory.store[&(page * PAGE)], "page {page}");
    memory.paging.end_of_read(FILE, page * PAGE + 1);
    memory.paging.counters.major_faults - before
}

fn write(memory: &mut Memory, page: u64) {
    let frame = memory.ask(|paging, work| paging.write_page(FILE, page, true, work, &|_| false));
    memory.frames.insert(frame, 1000 + page);
    memory.paging.copied_to(frame, 0).unwrap();
}

fn counters(memory: &Memory) -> BufferCacheCounters {
    memory.paging.buffer_cache_counters().unwrap()
}

fn holds(memory: &Memory, page: u64) -> bool {
    memory.paging.buffer_cache.as_ref().unwrap().holds(page)
}

/// Reads other pages of the file, in an order that is none, until page 0 has been evicted.
fn crowd_out_the_first(memory: &mut Memory) {
    let others = (0..4 * PAGES).map(|turn| 1 + turn * 37 % (PAGES - 1));
    for page in others {
        if memory.paging.cached(FILE, 0).is_none() {
            return;
        }
        read(memory, page);
    }
    panic!("page 0 stays in memory");
}

/// Does what a line begins with to page 0, and says what happened as the page says it.
fn told(memory: &mut Memory, line: &str) -> String {
    let deed = line.split(':').next().unwrap_or_default();
    let before = counters(memory);
    let from = match deed {
        "read" => match (read(memory, 0), counters(memory).hits - before.hits) {
            (1, 0) => "from the disk",
            (0, 1) => "from flash",
            (0, 0) => "from memory",
            more => panic!("{more:?}"),
        },
        "write" => {
            write(memory, 0);
            "dirty"
        }
        "sync" => {
            while let Some(id) =
                memory.paging.sync(FILE, Paging::ALL_PAGES, &mut Vec::new()).unwrap()
            {
                memory.end_transfer(id);
            }
            "clean"
        }
        "reads of others" => {
            let held = holds(memory, 0);
            crowd_out_the_first(memory);
            if held { "evicted, not programmed" } else { "evicted, programmed" }
        }
        "cut off" => {
            memory.paging.truncate(FILE, 0);
            "gone"
        }
        _ => panic!("{deed:?} is nothing that a page of a file meets"),
    };
    let places = [("memory", memory.paging.cached(FILE, 0).is_some()), ("flash", holds(memory, 0))];
    let places: Vec<&str> =
        places.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect();
    let places = if places.is_empty() { "nowhere".to_owned() } else { places.join(" and ") };
    format!("{deed}: {from}; held in {places}")
}

#[test]
fn the_sequences_of_the_documentation_are_what_happens() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/models/buffer-cache.md");
    let page = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut blocks = 0;
    for block in page.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        let (first, lines) = block.split_once('\n').expect("a block begins with its machine");
        let on_hit = match first {
            "on_hit = \"move\"" => OnHit::Move,
            "on_hit = \"copy\"" => OnHit::Copy,
            _ => panic!("no machine has {first:?}"),
        };
        let mut memory = memory(0, |spec| spec.on_hit = on_hit);
        for line in lines.lines() {
            assert_eq!(told(&mut memory, line), line);
        }
        blocks += 1;
    }
    assert_eq!(blocks, 2);
}

#[test]
fn a_page_that_was_evicted_comes_back_without_the_store_and_has_left_the_flash() {
    let mut memory = memory(0, |_| {});
    assert_eq!(read(&mut memory, 0), 1);
    crowd_out_the_first(&mut memory);
    assert!(holds(&memory, 0));
    assert_eq!(read(&mut memory, 0), 0);
    assert!(!holds(&memory, 0));
    assert_eq!(counters(&memory).hits, 1);
}

#[test]
fn a_copied_page_stays_and_is_not_programmed_again() {
    let mut memory = memory(0, |spec| spec.on_hit = OnHit::Copy);
    read(&mut memory, 0);
    crowd_out_the_first(&mut memory);
    read(&mut memory, 0);
    assert!(holds(&memory, 0));
    let before = counters(&memory);
    memory.flash.remove(&0);
    for page in 0..PAGES / 2 {
        read(&mut memory, 2 * page + 1);
    }
    assert!(memory.paging.cached(FILE, 0).is_none() && holds(&memory, 0));
    assert!(counters(&memory).kept > before.kept && !memory.flash.contains_key(&0));
}

#[test]
fn what_is_written_is_invalid_and_enters_again_once_it_is_clean() {
    let mut memory = memory(0, |spec| spec.on_hit = OnHit::Copy);
    read(&mut memory, 0);
    crowd_out_the_first(&mut memory);
    write(&mut memory, 0);
    assert!(!holds(&memory, 0));
    assert_eq!(counters(&memory).invalidations, 1);
    while let Some(id) = memory.paging.sync(FILE, Paging::ALL_PAGES, &mut Vec::new()).unwrap() {
        memory.end_transfer(id);
    }
    crowd_out_the_first(&mut memory);
    assert!(holds(&memory, 0));
    assert_eq!((read(&mut memory, 0), memory.flash[&0]), (0, 1000), "and it is the new one");
}

#[test]
fn what_is_cut_off_is_invalid() {
    let mut memory = memory(0, |_| {});
    read(&mut memory, 0);
    crowd_out_the_first(&mut memory);
    memory.paging.truncate(FILE, 0);
    assert!((0..PAGES).all(|page| !holds(&memory, page)));
}

#[test]
fn readahead_reads_from_the_store_what_is_held_unless_it_asks() {
    for (readahead, bypassed) in [(HeldPages::Ignore, 2), (HeldPages::Consult, 0)] {
        let mut memory = memory(4, |spec| spec.readahead = readahead);
        let cache = memory.paging.buffer_cache.as_mut().unwrap();
        cache.enter(1, 0);
        cache.enter(2, 0);
        memory.flash.extend([(PAGE, 2), (2 * PAGE, 3)]);
        // A call for four pages reads four.
        memory.ask(|paging, work| paging.read_page(FILE, 0, 3, work, &|_| false));
        assert_eq!(counters(&memory).bypassed, bypassed);
        assert_eq!(memory.paging.cached(FILE, 1).is_some(), bypassed > 0);
        assert!(memory.paging.cached(FILE, 3).is_some());
        for page in 1..4 {
            assert_eq!(read(&mut memory, page), 0, "page {page}");
        }
    }
}

#[test]
fn a_mapped_page_comes_from_the_flash_by_a_fault() {
    let mut memory = memory(0, |_| {});
    memory.paging.map(0x100 * PAGE, PAGES * PAGE, MAP_SHARED, FILE, 0);
    read(&mut memory, 0);
    crowd_out_the_first(&mut memory);
    let faults = memory.paging.counters.major_faults;
    let frame = memory.access(0x100, false, 0);
    assert_eq!(memory.frames[&frame], 1);
    assert_eq!((memory.paging.counters.major_faults, counters(&memory).hits), (faults, 1));
}

#[test]
fn memory_and_flash_that_hold_the_file_together_ask_the_store_once() {
    for on_hit in [OnHit::Move, OnHit::Copy] {
        let mut memory = memory(0, |spec| spec.on_hit = on_hit);
        let pages = (0..PAGES).map(|i| i * 97 % PAGES);
        let first: u64 = pages.clone().map(|page| read(&mut memory, page)).sum();
        assert_eq!(first, PAGES);
        let again: u64 =
            (0..4).flat_map(|_| pages.clone()).map(|page| read(&mut memory, page)).sum();
        assert_eq!(again, 0);
        let BufferCacheCounters { lookups, hits, evictions, .. } = counters(&memory);
        assert_eq!((lookups - hits, evictions), (PAGES, 0));
    }
}
