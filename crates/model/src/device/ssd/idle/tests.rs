//! Collection in pauses: when it begins, when it ends, and that it gives way.

use super::super::tests::{US, checked, drain, nand, page_access, spec, us};
use super::super::{CollectionSpec, IdleSpec, InitialFlash, Ssd, SsdSpec};
use super::IdleCounts;
use crate::device::linked::Pages;
use crate::medium::NandSpec;
use tierscope_kernel::Random;

const AFTER_PS: u64 = 1000 * US;
const PAGES: u64 = 256;

/// A full drive of four lanes that collects to so many erased blocks after a millisecond, and two else.
fn pausing(reserve: u32) -> SsdSpec {
    let idle = Some(IdleSpec { after: us(1000), free_blocks: reserve });
    let nand = NandSpec { pages: 8, ..nand() };
    let collection = CollectionSpec { idle, ..spec().collection };
    checked(SsdSpec { nand, collection, initial: InitialFlash::Steady, ..spec() })
}

/// Reads a page and waits until it has come; when.
fn read_ps(drive: &mut Ssd, at_ps: u64, page: u64) -> u64 {
    let mut out = Vec::new();
    drive.advance(at_ps, &mut out);
    drive.submit(at_ps, page_access(0, page, false));
    while out.is_empty() {
        let next_ps = drive.next_event_ps().expect("the read is under way");
        drive.advance(next_ps, &mut out);
    }
    out[0].at_ps
}

fn fewest_free(drive: &Ssd) -> u32 {
    (0..4).map(|lane| drive.layer.free_blocks(lane)).min().unwrap_or(0)
}

#[test]
fn it_begins_when_the_host_has_wanted_nothing_for_the_time_described() {
    let mut drive = Ssd::new(&pausing(5));
    assert_eq!(drive.next_event_ps(), None, "a drive that nobody asked for anything does nothing");
    let done_ps = read_ps(&mut drive, 0, 7);
    assert_eq!(drive.next_event_ps(), Some(done_ps + AFTER_PS));
    // A second read puts it off.
    let again_ps = read_ps(&mut drive, done_ps + AFTER_PS / 2, 8);
    let mut out = Vec::new();
    drive.advance(again_ps + AFTER_PS - 1, &mut out);
    assert_eq!((drive.report().nand.reads, drive.report().idle.collections), (2, 0));
    drive.advance(again_ps + AFTER_PS, &mut out);
    assert_eq!(drive.report().idle.collections, 4, "one on each lane");
}

/// A page that takes no time is answered at once, and the next comes when it would after the time of this one.
#[test]
fn without_time_it_begins_when_a_page_would_have_come_and_the_time_described_has_passed() {
    let mut drive = Ssd::new(&pausing(5));
    let page_ps = read_ps(&mut drive, 0, 7);
    let mut warm_ps = 0;
    for page in 8..20 {
        warm_ps += page_ps + AFTER_PS - 1;
        drive.warm(warm_ps, page_access(0, page, false));
    }
    assert_eq!(drive.report().idle.collections, 0);
    drive.warm(warm_ps + page_ps + AFTER_PS, page_access(0, 20, false));
    assert_eq!(drive.report().idle.collections, 12, "three on each lane, at once");
}

#[test]
fn it_ends_with_the_reserve_described_or_when_no_block_is_worth_it() {
    for reserve in [3, 5, 8] {
        let mut drive = Ssd::new(&pausing(reserve));
        read_ps(&mut drive, 0, 7);
        drain(&mut drive, &mut Vec::new());
        assert_eq!(fewest_free(&drive), reserve);
        let report = drive.report();
        assert_eq!(report.idle.collections, report.translation.collections);
        assert_eq!(report.idle.erases, report.translation.erases);
        drive.layer.check(PAGES);
    }
    let mut drive = Ssd::new(&pausing(1000));
    read_ps(&mut drive, 0, 7);
    drain(&mut drive, &mut Vec::new());
    // 64 pages a lane fill eight blocks of 24, and one that is being filled.
    assert!(fewest_free(&drive) >= 24 - 9, "{}", fewest_free(&drive));
}

#[test]
fn a_command_of_the_host_ends_it_at_the_end_of_what_flash_does() {
    let mut plain = Ssd::new(&SsdSpec { collection: spec().collection, ..pausing(5) });
    let plain_ps = read_ps(&mut plain, 0, 9);
    let mut drive = Ssd::new(&pausing(10));
    let done_ps = read_ps(&mut drive, 0, 7);
    let mut interrupted = 0;
    let mut at_ps = done_ps + AFTER_PS;
    for n in 0..20 {
        // At other moments of the collection each time.
        at_ps += (100 + 130 * n) * US;
        let took_ps = read_ps(&mut drive, at_ps, 9 + n) - at_ps;
        // An erase is the longest command; both copies of its die may be on their way, too.
        let most_ps = plain_ps + 1500 * US + 2 * 250 * US;
        assert!(took_ps <= most_ps, "{took_ps} after {most_ps}");
        interrupted += u32::from(took_ps > plain_ps);
        // Soon nothing but reads of the host is done, as long as they come.
        let busy_ps = at_ps + took_ps + 2500 * US;
        let mut now_ps = at_ps + took_ps;
        while now_ps < busy_ps {
            now_ps = read_ps(&mut drive, now_ps + 400 * US, 100);
        }
        let before = drive.report().nand;
        for _ in 0..4 {
            now_ps = read_ps(&mut drive, now_ps + 400 * US, 100);
        }
        let after = drive.report().nand.since(&before);
        assert_eq!((after.reads, after.programs, after.erases), (4, 0, 0));
        at_ps = now_ps + AFTER_PS;
    }
    assert!(interrupted > 3, "{interrupted}");
    drain(&mut drive, &mut Vec::new());
    assert_eq!(fewest_free(&drive), 10);
    drive.layer.check(PAGES);
}

/// Bursts of 24 writes with 100 ms between them: the longest of a burst, and the report.
fn bursts(spec: &SsdSpec) -> (u64, super::super::SsdReport) {
    let mut drive = Ssd::new(spec);
    let mut random = Random::stream(4, "bursts");
    let (mut out, mut longest_ps) = (Vec::new(), 0);
    for burst in 1..=40u64 {
        let at_ps = burst * 100_000 * US;
        drive.advance(at_ps, &mut out);
        out.clear();
        for n in 0..24 {
            drive.submit(at_ps, page_access(n, random.below(PAGES), true));
        }
        while out.len() < 24 {
            let next_ps = drive.next_event_ps().expect("writes are under way");
            drive.advance(next_ps, &mut out);
        }
        longest_ps = longest_ps.max(out.iter().map(|done| done.at_ps).max().unwrap_or(0) - at_ps);
    }
    (longest_ps, drive.report())
}

#[test]
fn bursts_that_fit_the_reserve_wait_for_no_collection() {
    let ahead = pausing(6);
    let (with_ps, with) = bursts(&ahead);
    let (without_ps, without) = bursts(&SsdSpec { collection: spec().collection, ..ahead });
    let IdleCounts { collections, erases } = with.idle;
    assert_eq!(without.idle, IdleCounts::default());
    assert!(collections >= with.translation.collections - 4, "{with:?}");
    assert!(erases > 20 && with.translation.erases - erases <= 4, "{with:?}");
    assert!(10 * with_ps < 9 * without_ps, "{with_ps}, {without_ps} without");
    // Ahead of need, blocks are collected that would have lost more by themselves.
    assert!(with.translation.moved_units >= without.translation.moved_units);
}
