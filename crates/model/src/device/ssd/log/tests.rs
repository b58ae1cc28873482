//! Merges: which writes make which, what they cost, and that nothing is lost.

use super::super::tests::{US, checked, drain, nand, page_access, run, spec};
use super::super::{InitialFlash, LogSpec, Ssd, SsdSpec};
use super::LogCounts;
use crate::device::PageControl;
use crate::device::linked::Pages;
use crate::medium::NandSpec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tierscope_kernel::Random;

/// 4 KiB at 400 MB/s, and seven cycles of 25 ns before it.
const LOAD_PS: u64 = 175_000 + 10_240_000;
const READ_PS: u64 = 175_000 + 25 * US + LOAD_PS;
const PROGRAM_PS: u64 = LOAD_PS + 200 * US;
const ERASE_PS: u64 = 5 * 25_000 + 1500 * US;
const PAGES: u64 = 256;

/// A written drive of four lanes of four logical blocks of 16 pages, with two logs each.
fn logged() -> SsdSpec {
    let (initial, log) = (InitialFlash::Written, Some(LogSpec { blocks: 2 }));
    let mut it = SsdSpec { initial, log, ..spec() };
    it.collection.copies = 1;
    checked(it)
}

/// Writes these pages, one each millisecond and a half, and lets the drive come to rest.
fn write(drive: &mut Ssd, pages: impl Iterator<Item = u64>) {
    let accesses: Vec<_> = (0..)
        .zip(pages)
        .map(|(n, page)| (u64::from(n) * 1500 * US, page_access(n, page, true)))
        .collect();
    assert_eq!(run(drive, &accesses).len(), accesses.len());
    drive.layer.check(PAGES);
}

/// The page of a drive that is the n-th of the first lane.
fn nth(drive: &Ssd, n: u64) -> u64 {
    drive.stripe.dealt(0, n)
}

#[test]
fn writes_in_order_make_switch_merges_alone() {
    let mut drive = Ssd::new(&logged());
    write(&mut drive, (0..2 * PAGES).map(|n| n % PAGES));
    let report = drive.report();
    let expected = LogCounts { switch_merges: 32, sequential_pages: 512, ..LogCounts::default() };
    assert_eq!(report.log, expected);
    assert_eq!((report.nand.programs, report.nand.reads, report.nand.erases), (512, 0, 32));
    assert_eq!(report.write_amplification(), Some(1.0));
}

#[test]
fn writes_at_random_make_full_merges() {
    let mut drive = Ssd::new(&logged());
    let mut random = Random::stream(8, "writes");
    write(&mut drive, (0..2000).map(|_| random.below(PAGES)));
    let report = drive.report();
    let LogCounts { switch_merges, partial_merges, full_merges, .. } = report.log;
    assert!(full_merges > 100 && switch_merges < 3, "{report:?}");
    assert!(partial_merges > 20, "one of sixteen writes begins a logical block: {report:?}");
    // Two logs of 16 pages have some of each of four logical blocks of 16: 64 pages move for 32.
    let amplification = report.write_amplification().unwrap();
    assert!((3.0..5.0).contains(&amplification), "{amplification}");
}

#[test]
fn a_log_of_writes_at_random_moves_as_many_blocks_as_it_has_pages_of() {
    // Four lanes of 16 logical blocks of four pages, and one random log of four pages.
    let nand = NandSpec { pages: 4, ..nand() };
    let mut drive =
        Ssd::new(&checked(SsdSpec { nand, log: Some(LogSpec { blocks: 1 }), ..logged() }));
    let mut random = Random::stream(9, "writes");
    let inside = (0..).map(|_| random.below(PAGES)).filter(|page| page / 4 % 4 > 0);
    let pages: Vec<_> = inside.take(6000).collect();
    write(&mut drive, pages.into_iter());
    let report = drive.report();
    // A log of four writes has pages of so many of 16 blocks, each of which is copied whole.
    let touched = 16.0 * (1.0 - (15.0f64 / 16.0).powi(4));
    let amplification = report.write_amplification().unwrap();
    assert!((amplification / (1.0 + touched) - 1.0).abs() < 0.02, "{amplification}, {touched}");
    let LogCounts { full_merges, switch_merges, partial_merges, .. } = report.log;
    assert_eq!((switch_merges, partial_merges), (0, 0), "no write begins a logical block");
    assert!((full_merges as f64 / 1500.0 / touched - 1.0).abs() < 0.02, "{full_merges}");
}

#[test]
fn a_sequential_log_that_gives_way_is_filled_up() {
    let mut drive = Ssd::new(&logged());
    let half: Vec<_> = (0..8).chain([16]).map(|n| nth(&drive, n)).collect();
    write(&mut drive, half.into_iter());
    let report = drive.report();
    let expected = LogCounts { partial_merges: 1, sequential_pages: 9, ..LogCounts::default() };
    assert_eq!(report.log, expected);
    assert_eq!((report.nand.reads, report.nand.programs, report.nand.erases), (8, 17, 1));
}

#[test]
fn a_partial_merge_takes_its_copies_and_an_erase() {
    let spec = logged();
    let mut drive = Ssd::new(&spec);
    let first: Vec<_> = (0..12).map(|n| nth(&drive, n)).collect();
    write(&mut drive, first.into_iter());
    let start_ps = 1_000_000 * US;
    drive.submit(start_ps, page_access(0, nth(&drive, 16), true));
    let (mut out, mut last_ps) = (Vec::new(), 0);
    while let Some(next_ps) = drive.next_event_ps() {
        drive.advance(next_ps, &mut out);
        last_ps = next_ps;
    }
    // Firmware and the buffer; then four pages, the old block, and the page that was written.
    let expected = 5 * US + 100_000 + 4 * (READ_PS + PROGRAM_PS) + ERASE_PS + PROGRAM_PS;
    assert_eq!(last_ps - start_ps, expected);
}

#[test]
fn a_full_merge_puts_each_logical_block_of_the_log_together() {
    let mut drive = Ssd::new(&logged());
    // Two logs of pages of two logical blocks, out of order; the 33rd has no room.
    let pages = (0..33).map(|n| (n % 2) * 16 + 15 - n / 2 % 15);
    let pages: Vec<_> = pages.map(|n| nth(&drive, n)).collect();
    write(&mut drive, pages.into_iter());
    let report = drive.report();
    assert_eq!(report.log, LogCounts { full_merges: 2, ..LogCounts::default() });
    // Both blocks whole; then each of them, and the log.
    assert_eq!((report.nand.reads, report.nand.programs), (32, 33 + 32));
    assert_eq!(report.nand.erases, 3);
}

#[test]
fn more_logs_merge_less() {
    let moved = |blocks| {
        let log = Some(LogSpec { blocks });
        let mut drive = Ssd::new(&checked(SsdSpec { log, ..logged() }));
        let mut random = Random::stream(8, "writes");
        write(&mut drive, (0..2000).map(|_| random.below(PAGES)));
        drive.report().translation.moved_units
    };
    assert!(moved(8) * 10 < moved(2) * 9, "{} {}", moved(8), moved(2));
}

/// What is asked of a drive: by kind, page, how many pages, and after how long.
type Script = Vec<(u32, u64, u64, u64)>;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn pages_lie_in_the_block_of_their_logical_block_or_in_logs(
        script in prop::collection::vec((0..10u32, any::<u64>(), 1..60u64, 0..500u64), 1..300),
        blocks in 1..4u32,
        planes in 1..3u32,
        written in any::<bool>(),
    ) {
        let script: Script = script;
        let nand = NandSpec { planes, pages: 8, ..nand() };
        let initial = if written { InitialFlash::Written } else { InitialFlash::Erased };
        let log = Some(LogSpec { blocks });
        let mut drive = Ssd::new(&checked(SsdSpec { nand, initial, log, ..spec() }));
        let mut held: BTreeMap<u64, bool> = (0..PAGES).map(|page| (page, written)).collect();
        let (mut out, mut now_ps) = (Vec::new(), 0);
        for (token, &(kind, page, count, gap)) in (0..).zip(&script) {
            let page = page % PAGES;
            // Whatever was asked for has ended where a trim comes, or follows one.
            if kind == 9 || token > 0 && script[token as usize - 1].0 == 9 {
                drain(&mut drive, &mut out);
                now_ps = out.iter().map(|done| done.at_ps).max().unwrap_or(0).max(now_ps);
            }
            now_ps += gap * US;
            drive.advance(now_ps, &mut out);
            let count = count.min(PAGES - page);
            match kind {
                9 => {
                    drive.submit_control(now_ps, token, PageControl::Trim { first: page, count });
                    held.extend((page..page + count).map(|page| (page, false)));
                }
                0..=6 => {
                    drive.submit(now_ps, page_access(token, page, true));
                    held.insert(page, true);
                }
                _ => drive.submit(now_ps, page_access(token, page, false)),
            }
        }
        drain(&mut drive, &mut out);
        prop_assert_eq!(out.len(), script.len());
        prop_assert!(drive.jobs.is_empty() && drive.accesses.is_empty());
        drive.layer.check(PAGES);
        let it = drive.report();
        let units = it.translation.host_units + it.translation.moved_units;
        prop_assert_eq!(it.nand.programs, units);
        prop_assert_eq!(it.nand.erases, it.translation.erases);
        let geometry = *drive.layer.geometry();
        let log = drive.log.as_ref().unwrap();
        for (&unit, &is_held) in &held {
            let place = drive.layer.place(unit);
            // What is less than a command programs may wait in the buffer.
            prop_assert_eq!(place.is_some() || drive.buffer.holds(unit), is_held, "{}", unit);
            let Some(place) = place else { continue };
            let (lane, logical, offset) = drive.logical(unit);
            let (page, of_lane) = (geometry.page_of(place), &log.lanes[lane as usize]);
            prop_assert_eq!(page.lane, lane);
            let in_order = page.page == offset;
            let sequential = of_lane.sequential.is_some_and(|it| it.block == page.block);
            let is_its_own = of_lane.blocks[logical as usize] == page.block;
            let is_log = of_lane.random.contains(&page.block);
            prop_assert!(is_log || (is_its_own || sequential) && in_order, "{unit} at {page:?}");
            prop_assert!(of_lane.random.len() <= blocks as usize && of_lane.merge.is_none());
        }
    }
}
