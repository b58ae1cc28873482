//! Flushes and trims.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use tierscope_kernel::Random;

const FIRMWARE_PS: u64 = 4 * US;

/// Writes pages at once, one after the other, waits until they are answered, and then asks for a
/// flush: how long that takes.
fn flush_ps(spec: &SsdSpec, pages: u32) -> u64 {
    let mut drive = Ssd::new(&checked(spec.clone()));
    let mut out = Vec::new();
    for page in 0..pages {
        drive.submit(0, page_access(page, u64::from(page), true));
    }
    while out.len() < pages as usize {
        let next_ps = drive.next_event_ps().expect("writes are under way");
        drive.advance(next_ps, &mut out);
    }
    let asked_ps = out.iter().map(|done| done.at_ps).max().unwrap_or(0);
    drive.submit_control(asked_ps, u32::MAX, PageControl::Flush);
    drain(&mut drive, &mut out);
    let done = out.iter().find(|done| done.token == u32::MAX).expect("a flush is answered");
    assert_eq!(done.stages.total_ps(), done.at_ps - asked_ps, "its stages sum to its time");
    done.at_ps - asked_ps
}

/// A drive that keeps what is written until it has eight pages.
fn lazy() -> SsdSpec {
    let flush_above = Size::from_bytes(8 * 4096);
    SsdSpec { buffer: SsdBufferSpec { flush_above, ..spec().buffer }, ..spec() }
}

#[test]
fn a_flush_of_nothing_takes_firmware_alone() {
    assert_eq!(flush_ps(&lazy(), 0), FIRMWARE_PS);
}

#[test]
fn a_flush_takes_until_all_that_was_written_is_in_flash() {
    let program_ps = 7 * 25_000 + 10_240_000 + 200 * US;
    assert_eq!(flush_ps(&lazy(), 1), FIRMWARE_PS + program_ps);
    // Four dies program at the same time, two on each channel.
    let four_ps = flush_ps(&lazy(), 4);
    assert_eq!(four_ps, FIRMWARE_PS + program_ps + 7 * 25_000 + 10_240_000);
    assert!(flush_ps(&lazy(), 8) > four_ps + 180 * US);
}

#[test]
fn capacitors_make_a_flush_of_anything_one_of_nothing() {
    let buffer = SsdBufferSpec { capacitors: true, ..lazy().buffer };
    assert_eq!(flush_ps(&SsdSpec { buffer, ..lazy() }, 8), FIRMWARE_PS);
}

#[test]
fn what_was_given_back_is_neither_read_from_flash_nor_moved() {
    let tight = NandSpec { blocks: 14, pages: 8, ..nand() };
    let spec = checked(SsdSpec { nand: tight, initial: InitialFlash::Written, ..spec() });
    let pages = spec.capacity.bytes() / 4096;
    let amplification = |trims: bool| {
        let mut drive = Ssd::new(&spec);
        let mut out = Vec::new();
        if trims {
            let half = PageControl::Trim { first: pages / 2, count: pages / 2 };
            drive.submit_control(0, 0, half);
            drain(&mut drive, &mut out);
            drive.submit(1000 * US, page_access(1, pages - 1, false));
            drain(&mut drive, &mut out);
            assert_eq!(drive.report().nand.reads, 0, "zeros are known");
            assert_eq!(drive.report().translation.trimmed_units, pages / 2);
        }
        let mut random = Random::stream(3, "writes");
        let start_ps = 10_000 * US;
        let writes: Vec<_> = (0..6 * pages)
            .map(|n| {
                (start_ps + n * 200 * US, page_access(n as u32, random.below(pages / 2), true))
            })
            .collect();
        run(&mut drive, &writes);
        drive.layer.check(pages);
        drive.report().write_amplification().unwrap()
    };
    let (without, with) = (amplification(false), amplification(true));
    assert!(with < 1.1 && without > 1.15 * with, "{without} without trims, {with} with them");
}

/// What is asked of a drive: by kind, page, how many pages, and after how long.
type Script = Vec<(u32, u64, u64, u64)>;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn everything_is_answered_and_a_flush_after_what_was_written_before_it(
        script in prop::collection::vec((0..10u32, any::<u64>(), 1..40u64, 0..300u64), 1..200) ,
        write_back in any::<bool>(),
        read_cache in any::<bool>(),
        flush_above in 0..8u64,
        map in prop::option::of(1..40u64),
    ) {
        let script: Script = script;
        let flush_above = Size::from_bytes(flush_above * 4096);
        let buffer = SsdBufferSpec { write_back, read_cache, flush_above, ..spec().buffer };
        let map = map.map(small_map);
        let spec = checked(SsdSpec { buffer, map, initial: InitialFlash::Written, ..spec() });
        let pages = spec.capacity.bytes() / 4096;
        let mut drive = Ssd::new(&spec);
        let mut out = Vec::new();
        let mut held: HashMap<u64, bool> = HashMap::new();
        let mut now_ps = 0;
        for (token, &(kind, page, count, gap)) in (0..).zip(&script) {
            let page = page % pages;
            // Whatever was asked for has ended where a trim comes, or follows one.
            let settles = kind == 9 || token > 0 && script[token as usize - 1].0 == 9;
            if settles {
                while out.len() < token as usize {
                    now_ps = drive.next_event_ps().expect("something is under way");
                    drive.advance(now_ps, &mut out);
                }
            }
            now_ps += gap * US;
            drive.advance(now_ps, &mut out);
            match kind {
                8 => {
                    let answered_missing = drive.buffer.end_epoch();
                    drive.submit_control(now_ps, token, PageControl::Flush);
                    // What was answered by now is in flash when the flush is.
                    while !out.iter().any(|done| done.token == token) {
                        let next_ps = drive.next_event_ps().expect("the flush is under way");
                        drive.advance(next_ps, &mut out);
                        now_ps = next_ps;
                    }
                    prop_assert!(answered_missing.is_none_or(|it| drive.buffer.is_kept(it)));
                }
                9 => {
                    let count = count.min(pages - page);
                    let trim = PageControl::Trim { first: page, count };
                    drive.submit_control(now_ps, token, trim);
                    held.extend((page..page + count).map(|page| (page, false)));
                }
                0..=4 => {
                    drive.submit(now_ps, page_access(token, page, true));
                    held.insert(page, true);
                }
                _ => drive.submit(now_ps, page_access(token, page, false)),
            }
        }
        drain(&mut drive, &mut out);
        prop_assert_eq!(out.len(), script.len());
        prop_assert!(drive.jobs.is_empty() && drive.accesses.is_empty());
        prop_assert!(drive.commands.is_empty() && drive.flushes.is_empty());
        drive.layer.check(pages + spec.map_pages());
        for (page, is_held) in held {
            let found = drive.layer.place(page).is_some() || drive.buffer.holds(page);
            prop_assert_eq!(found, is_held, "page {}", page);
        }
    }
}
