//! Naive references: sectors laid out one by one, and positions in floating point.

use super::super::geometry::{Geometry, Place, REVOLUTION};
use super::*;
use tierscope_kernel::Random;

/// Every sector of the small disk, in the order of their numbers, with the angle at which it begins.
fn laid_out(spec: &PlattersSpec) -> Vec<(Place, f64)> {
    let mut all = Vec::new();
    let turn_ps = 60e12 / f64::from(spec.rpm);
    let mut skew_ps = 0.0;
    for cylinder in 0..spec.cylinders {
        let sectors = [64, 48, 32][(cylinder / 20) as usize];
        for head in 0..spec.heads {
            for sector in 0..sectors {
                let turns = f64::from(sector) / f64::from(sectors) + skew_ps / turn_ps;
                all.push((Place { cylinder, head, sector, sectors }, turns.fract()));
            }
            let skew = if head + 1 < spec.heads { spec.track_skew } else { spec.cylinder_skew };
            skew_ps += skew.picoseconds() as f64;
        }
    }
    all
}

#[test]
fn sectors_lie_as_if_laid_out_one_by_one() {
    let spec = spec().platters;
    let (geometry, all) = (Geometry::new(&spec), laid_out(&spec));
    assert_eq!(geometry.sectors(), all.len() as u64);
    for (number, (place, turns)) in all.into_iter().enumerate() {
        assert_eq!(geometry.place(number as u64), place);
        let angle = geometry.angle(place) as f64 / REVOLUTION as f64;
        let off = (angle - turns).abs();
        assert!(off.min(1.0 - off) < 1e-9, "sector {number}: {angle} and {turns}");
    }
}

#[test]
fn single_accesses_take_what_a_disk_in_floating_point_takes() {
    let (mut spec, mut random) = (plain(), Random::stream(7, "reference"));
    // The buffer has no more than the last page, that was read, which is not asked for again.
    (spec.buffer.capacity, spec.buffer.segments) = (spec.page, 1);
    let all = laid_out(&spec.platters);
    let seek_ms = |distance: f64| {
        let (single, average, full, stroke) = (1.0, 4.0, 7.0, 58.0);
        let root = (15.0 * average - 10.0 * single - 5.0 * full) / 3.0;
        let linear = (7.0 * single - 15.0 * average + 8.0 * full) / 3.0;
        let share: f64 = (distance - 1.0) / stroke;
        single + root * share.sqrt() + linear * share
    };
    let mut disk = Disk::new(&spec);
    let (mut heads, mut now_ps, mut last) = ((0, 0), 0u64, u64::MAX);
    for _ in 0..2000 {
        let (page, write) = (random.below(spec.capacity.bytes() / 4096), random.below(3) == 0);
        if !write && std::mem::replace(&mut last, page) == page {
            continue;
        }
        now_ps += random.below(20 * MS);
        let mut at_ms = now_ps as f64 / MS as f64 + 0.1;
        // Each sector by itself.
        for number in page * 8..page * 8 + 8 {
            let (place, turns) = all[number as usize];
            let way_ms = match place.cylinder.abs_diff(heads.0) {
                0 if place.head == heads.1 => 0.0,
                0 => 0.8,
                distance => {
                    let settle = if write && distance > 1 { 0.5 } else { 0.0 };
                    seek_ms(f64::from(distance)) + settle
                }
            };
            heads = (place.cylinder, place.head);
            at_ms += way_ms;
            let late = (turns - at_ms / 10.0).rem_euclid(1.0);
            // The next sector begins where the last has ended.
            let late = if late > 1.0 - 1e-7 { 0.0 } else { late };
            at_ms += 10.0 * late + 10.0 / f64::from(place.sectors);
        }
        let at_ps = one(&mut disk, now_ps, page, write);
        let off_ms = (at_ps as f64 / MS as f64 - at_ms).abs();
        assert!(off_ms < 1e-3, "page {page}: {off_ms} ms from {at_ms}");
        now_ps = at_ps;
    }
}

#[test]
fn segments_hold_what_a_list_of_pages_holds() {
    let mut random = Random::stream(3, "segments");
    let (mut segments, most) = (Segments::new(3, 8), 8);
    // By segment: pages, newest last, and when it was used.
    let mut lists: Vec<(Vec<u64>, u64)> = vec![(Vec::new(), 0); 3];
    for use_ in 1..20_000u64 {
        let page = random.below(40);
        match random.below(4) {
            0 => {
                segments.forget(page);
                for (list, _) in &mut lists {
                    if let Some(at) = list.iter().position(|&it| it == page) {
                        list.drain(..=at);
                    }
                }
            }
            1 => {
                let found = lists.iter_mut().find(|(list, _)| list.contains(&page));
                assert_eq!(segments.read(page), found.is_some());
                if let Some((_, used)) = found {
                    *used = use_;
                }
            }
            _ => {
                let slot = segments.begin(page);
                let before = page.wrapping_sub(1);
                let follows = lists.iter().find(|(list, _)| list.last() == Some(&before));
                let oldest = lists.iter().map(|(_, used)| *used).min();
                match follows {
                    Some(_) => assert_eq!(lists[slot].0.last(), Some(&before)),
                    None => assert_eq!(Some(lists[slot].1), oldest),
                }
                let (list, used) = &mut lists[slot];
                if list.last().is_none_or(|last| last + 1 != page) {
                    list.clear();
                }
                list.push(page);
                if list.len() > most {
                    list.remove(0);
                }
                *used = use_;
                segments.add(slot, page, true);
            }
        }
        for page in 0..40 {
            let held = lists.iter().any(|(list, _)| list.contains(&page));
            assert_eq!(segments.holds(page), held, "page {page}");
        }
    }
}
