//! Collection ends, whatever the shape of blocks: each one wins a page, and what wins nothing is not
//! begun. What cannot go on is refused.

use super::*;
use crate::device::DeviceDescription;
use tierscope_kernel::Random;
use tierscope_units::Problems;

fn is_right(spec: &SsdSpec) -> bool {
    let mut problems = Problems::new();
    spec.check("ssd", &mut problems);
    problems.is_empty()
}

/// The largest capacity that the check allows, if it allows any.
fn fullest(spec: &SsdSpec) -> Option<SsdSpec> {
    let with = |pages: u64| SsdSpec { capacity: Size::from_bytes(pages * 4096), ..spec.clone() };
    (1..=spec.nand.bytes() as u64 / 4096).map(with).rev().find(is_right)
}

/// Overwrites the drive three times at random, 16 at a time, and lets it come to rest: steps that it
/// took after the last answer.
fn overwrite(spec: &SsdSpec) -> u64 {
    let pages = spec.capacity.bytes() / 4096;
    let count = 3 * pages as u32 + 64;
    let mut drive = Ssd::new(spec);
    let mut random = Random::stream(7, "overwrite");
    let (mut sent, mut now_ps) = (0, 0);
    let (mut out, mut steps) = (Vec::new(), 0);
    while out.len() < count as usize {
        steps += 1;
        assert!(steps < 2000 * count, "it hardly goes on: {spec:?}");
        while sent < count && sent < out.len() as u32 + 16 {
            drive.submit(now_ps, page_access(sent, random.below(pages), true));
            sent += 1;
        }
        now_ps = drive.next_event_ps().unwrap_or_else(|| panic!("nothing will happen: {spec:?}"));
        drive.advance(now_ps, &mut out);
    }
    let mut steps = 0;
    while let Some(next_ps) = drive.next_event_ps() {
        drive.advance(next_ps, &mut out);
        steps += 1;
        assert!(steps < 200_000, "it collects for ever: {spec:?}");
    }
    drive.layer.check(pages + spec.map_pages());
    steps
}

#[test]
fn a_drive_of_tiny_blocks_comes_to_rest() {
    let mut checked = 0;
    for pages in 1..=8 {
        for (page, planes, split) in
            [(4096, 1, 1), (16_384, 1, 1), (32_768, 1, 1), (8192, 2, 1), (2048, 3, 2)]
        {
            for initial in [InitialFlash::Erased, InitialFlash::Steady] {
                for (policy, window, difference) in [
                    (VictimPolicy::Greedy, 0, 0),
                    (VictimPolicy::Greedy, 3, 2),
                    (VictimPolicy::CostBenefit, 0, 0),
                ] {
                    let nand = NandSpec {
                        blocks: 24,
                        pages,
                        planes,
                        page: Size::from_bytes(page),
                        multi_plane_programs: planes > 1,
                        ..nand()
                    };
                    let collection = CollectionSpec { policy, window, ..spec().collection };
                    let wear = WearSpec { difference, ..spec().wear };
                    let shape = SsdSpec { split, nand, initial, collection, wear, ..spec() };
                    // The least of the map that may be in memory, and all of it; collection in pauses for ever
                    // more erased blocks.
                    let idle = Some(IdleSpec { after: us(50), free_blocks: 1000 });
                    let least = Some(page.max(4096) / 4096);
                    let maps = [(None, None), (least, idle), (Some(1 << 12), None)];
                    let several = if [1, 3, 8].contains(&pages) { 3 } else { 1 };
                    for (map, idle) in maps.into_iter().take(several) {
                        let (map, collection) = (map.map(small_map), shape.collection.clone());
                        let collection = CollectionSpec { idle, ..collection };
                        let shape = SsdSpec { map, collection, ..shape.clone() };
                        if let Some(spec) = fullest(&shape) {
                            overwrite(&spec);
                            checked += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(checked > 400, "{checked} shapes");
}

#[test]
fn a_collection_that_would_win_no_page_is_not_begun() {
    // Blocks of one page of eight units: with one valid unit, moved it fills a page again.
    let nand = NandSpec { blocks: 64, pages: 1, page: Size::from_bytes(32_768), ..nand() };
    let spec = SsdSpec { capacity: Size::from_bytes(40 * 4096), nand, ..spec() };
    let mut problems = Problems::new();
    spec.check("ssd", &mut problems);
    assert!(problems.is_empty(), "{problems}");
    overwrite(&spec);
    let most = fullest(&spec).map(|full| full.capacity.bytes() / 4096);
    // A block each, and those that are erased, filled, collected, or of a last round.
    assert!(most.is_some_and(|most| (150..=4 * 64).contains(&most)), "{most:?} pages");
}
