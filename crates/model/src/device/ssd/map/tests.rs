//! Misses of the map against closed formulas, and what they count.

use super::super::tests::{US, checked, page_access, run, small_map, spec};
use super::super::{InitialFlash, Ssd, SsdSpec};
use super::MapCounts;
use crate::device::PageControl;
use crate::device::linked::{DonePage, Pages};
use tierscope_kernel::Random;

/// 4 KiB at 400 MB/s, and seven cycles of 25 ns before it.
const LOAD_PS: u64 = 175_000 + 10_240_000;
const READ_PS: u64 = 175_000 + 25 * US + LOAD_PS;
/// Firmware and decoding.
const PLAIN_PS: u64 = 3 * US + READ_PS + 4 * US;

/// A written drive of 256 pages with 32 of the map, of which so many are in memory.
fn mapped(cache: u64) -> SsdSpec {
    let (initial, map) = (InitialFlash::Written, Some(small_map(cache)));
    checked(SsdSpec { initial, map, ..spec() })
}

fn took_ps(done: &DonePage, asked_ps: u64) -> u64 {
    assert_eq!(done.stages.total_ps(), done.at_ps - asked_ps, "its stages sum to its time");
    done.at_ps - asked_ps
}

#[test]
fn a_miss_takes_a_read_of_flash_more_than_a_hit() {
    let mut drive = Ssd::new(&mapped(4));
    let reads = [(0, page_access(0, 7, false)), (US * 1000, page_access(1, 6, false))];
    let done = run(&mut drive, &reads);
    assert_eq!(took_ps(&done[0], 0), PLAIN_PS + READ_PS);
    assert_eq!(took_ps(&done[1], US * 1000), PLAIN_PS);
    let report = drive.report();
    assert_eq!(report.map, MapCounts { hits: 1, misses: 1, reads: 1, writes: 0 });
    assert_eq!(report.nand.reads, 3);
}

#[test]
fn a_miss_for_which_a_changed_page_gives_way_programs_that_first() {
    let mut drive = Ssd::new(&mapped(1));
    let (write, read) = (page_access(0, 0, true), page_access(1, 100, false));
    let done = run(&mut drive, &[(0, write), (US * 1000, read)]);
    assert_eq!(took_ps(&done[1], US * 1000), PLAIN_PS + READ_PS + LOAD_PS + 200 * US);
    let report = drive.report();
    assert_eq!(report.map, MapCounts { hits: 0, misses: 2, reads: 2, writes: 1 });
    assert_eq!((report.nand.programs, report.translation.map_units), (2, 1));
    assert_eq!(report.write_amplification(), Some(2.0));
}

#[test]
fn reads_that_want_the_same_page_of_the_map_wait_for_one_read_of_it() {
    let mut drive = Ssd::new(&mapped(4));
    let reads: Vec<_> = (0..4).map(|n| (0, page_access(n, u64::from(n), false))).collect();
    run(&mut drive, &reads);
    assert_eq!(drive.report().map, MapCounts { hits: 0, misses: 4, reads: 1, writes: 0 });
}

#[test]
fn a_map_that_was_never_written_is_read_from_nowhere() {
    let mut drive = Ssd::new(&SsdSpec { initial: InitialFlash::Erased, ..mapped(1) });
    let reads = [(0, page_access(0, 7, false)), (US, page_access(1, 100, false))];
    let done = run(&mut drive, &reads);
    assert_eq!(took_ps(&done[0], 0), 3 * US);
    assert_eq!((drive.report().map.reads, drive.report().nand.reads), (0, 0));
}

#[test]
fn reads_at_random_hit_as_often_as_the_memory_has_of_the_map() {
    for cache in [4, 16, 28] {
        let mut drive = Ssd::new(&mapped(cache));
        let mut random = Random::stream(5, "reads");
        let reads: Vec<_> = (0..8000)
            .map(|n| (u64::from(n) * 200 * US, page_access(n, random.below(256), false)))
            .collect();
        run(&mut drive, &reads);
        let MapCounts { hits, misses, reads, writes } = drive.report().map;
        assert_eq!((misses, writes), (reads, 0));
        let (share, expected) = (hits as f64 / 8000.0, cache as f64 / 32.0);
        assert!((share - expected).abs() < 0.02, "{share} of {expected}");
    }
}

#[test]
fn a_map_in_memory_whole_costs_each_of_its_pages_one_read() {
    let mut drive = Ssd::new(&mapped(32));
    let mut random = Random::stream(6, "all");
    let all: Vec<_> = (0..4000)
        .map(|n| (u64::from(n) * 300 * US, page_access(n, random.below(256), n % 2 == 0)))
        .collect();
    run(&mut drive, &all);
    let MapCounts { hits, misses, reads, writes } = drive.report().map;
    assert_eq!((reads, writes), (32, 0));
    assert!(misses < 64 && hits > 3900, "{hits} {misses}");
}

#[test]
fn changed_pages_of_the_map_are_programmed_once_for_all_their_changes() {
    // In order each page of the map changes eight times before it gives way; at random once, mostly.
    let writes_of = |in_order: bool| {
        let mut drive = Ssd::new(&mapped(4));
        let mut random = Random::stream(9, "writes");
        let writes: Vec<_> = (0..2048)
            .map(|n| {
                let page = if in_order { u64::from(n) % 256 } else { random.below(256) };
                (u64::from(n) * 1000 * US, page_access(n, page, true))
            })
            .collect();
        run(&mut drive, &writes);
        drive.layer.check(256 + 32);
        drive.report().map.writes
    };
    assert!((2048 / 8 - 8..=2048 / 8).contains(&writes_of(true)), "{}", writes_of(true));
    assert!(writes_of(false) > 1500, "{}", writes_of(false));
}

#[test]
fn a_trim_of_the_drive_reads_nothing_of_the_map() {
    let mut drive = Ssd::new(&mapped(4));
    drive.submit_control(0, 0, PageControl::Trim { first: 0, count: 256 });
    let done = run(&mut drive, &[(US * 1000, page_access(1, 9, false))]);
    assert_eq!(done.len(), 2);
    assert_eq!(took_ps(&done[1], US * 1000), 3 * US);
    assert_eq!((drive.report().map.reads, drive.report().nand.reads), (0, 0));
    // Of a page of the map that tells of others, too, it is changed.
    let mut drive = Ssd::new(&mapped(4));
    drive.submit_control(0, 0, PageControl::Trim { first: 3, count: 8 });
    run(&mut drive, &[]);
    assert_eq!(drive.report().map.reads, 2);
    drive.layer.check(256 + 32);
}
