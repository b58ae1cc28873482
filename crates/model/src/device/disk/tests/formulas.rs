//! Closed formulas and edges of timing.

use super::super::arm::SeekCurve;
use super::super::geometry::REVOLUTION;
use super::*;
use crate::device::DeviceDescription;

#[test]
fn the_curve_goes_through_the_three_times_of_the_data_sheet() {
    let arm = ArmSpec {
        single_seek: us(1000),
        average_seek: us(8500),
        full_seek: us(14_700),
        write_settle: us(0),
        head_switch: us(0),
    };
    let cylinders = 20_000;
    let curve = SeekCurve::new(&arm, cylinders);
    assert_eq!((curve.time_ps(1), curve.time_ps(cylinders - 1)), (MS, 14_700_000_000));
    // The mean over all pairs of cylinders that differ: those of a distance are its complement.
    let (mut sum, mut pairs) = (0.0, 0.0);
    for distance in 1..cylinders {
        let weight = f64::from(cylinders - distance);
        sum += weight * curve.time_ps(distance) as f64;
        pairs += weight;
    }
    let mean_ms = sum / pairs / MS as f64;
    assert!((mean_ms - 8.5).abs() < 0.01, "{mean_ms}");
    let times: Vec<_> = (1..cylinders).map(|distance| curve.time_ps(distance)).collect();
    assert!(times.is_sorted(), "a longer way takes longer");
}

#[test]
fn curves_that_would_fall_are_refused_and_the_mend_holds() {
    let arm = |average| ArmSpec {
        single_seek: us(1000),
        average_seek: us(average),
        full_seek: us(10_000),
        write_settle: us(0),
        head_switch: us(0),
    };
    // From (10 + 50) / 15 = 4 ms to (4 + 110) / 15 = 7.6 ms.
    for (average, is_right) in [(3999, false), (4000, true), (7600, true), (7601, false)] {
        assert_eq!(SeekCurve::new(&arm(average), 100).is_monotone(), is_right, "{average}");
    }
}

/// A disk whose arm takes the same time for any way, and one page.
fn one_page(page: u64, at_ps: u64) -> u64 {
    let mut disk = Disk::new(&plain());
    one(&mut disk, at_ps, page, false)
}

#[test]
fn a_page_waits_until_it_is_below_the_head_and_passes_once() {
    // Page 0 begins at angle 0; the controller takes 0.1 ms, so that it comes by a revolution later.
    // It passes in 8 of 64 sectors: 1.25 ms.
    assert_eq!(one_page(0, 0), TURN + TURN / 8);
    // A picosecond before it comes by is early enough, and one after too late.
    let controller_ps = 100_000_000;
    assert_eq!(one_page(0, TURN - controller_ps), TURN + TURN / 8);
    assert_eq!(one_page(0, TURN - controller_ps + 1), 2 * TURN + TURN / 8);
    // Page 3 begins three eighths of a turn later.
    assert_eq!(one_page(3, 0), TURN * 3 / 8 + TURN / 8);
}

#[test]
fn a_page_in_another_cylinder_is_reached_by_the_arm_first() {
    // Cylinder 1 begins with page 16, a track skew and a cylinder skew behind page 0: 3 ms. The arm
    // is there at 1.1 ms.
    assert_eq!(one_page(16, 0), 3 * MS + TURN / 8);
    // The other head of cylinder 0: page 8 at 1 ms, and the head is switched at 0.9 ms.
    assert_eq!(one_page(8, 0), MS + TURN / 8);
}

#[test]
fn neighbours_in_order_lose_no_time_over_millions_of_turns() {
    // 7200 revolutions a minute are no whole number of picoseconds.
    let mut spec = plain();
    spec.platters.rpm = 7200;
    let mut disk = Disk::new(&spec);
    let (mut now_ps, pages) = (0, 8 * 20);
    for page in 0..pages {
        disk.submit(0, access(page as u32, page, false));
    }
    for done in wait(&mut disk, pages as usize) {
        now_ps = done.at_ps;
    }
    // 20 tracks of cylinders 0 to 9: 20 turns, 10 switches of heads and 9 of cylinders lie between the
    // first and the last; and the first is reached after a turn.
    let turns = 21 * u128::from(REVOLUTION) / 7200;
    let skews = 10 * u128::from(MS) + 9 * 2 * u128::from(MS);
    assert_eq!(u128::from(now_ps), turns + skews);
}

#[test]
fn too_little_skew_costs_a_turn_for_each_track() {
    let read = |track_skew| {
        let mut spec = plain();
        spec.platters.track_skew = track_skew;
        let mut disk = Disk::new(&spec);
        for page in 0..16 {
            disk.submit(0, access(page as u32, page, false));
        }
        wait(&mut disk, 16)[15].at_ps
    };
    assert_eq!(read(us(800)), TURN + 2 * TURN + 800_000_000, "the head is switched in time");
    assert_eq!(read(us(799)), TURN + 3 * TURN + 799_000_000, "it comes a moment too late");
}

#[test]
fn zones_give_their_rates() {
    for (zone, sectors) in [(0u64, 64u64), (1, 48), (2, 32)] {
        let mut disk = Disk::new(&plain());
        let first_sector: u64 = [64, 48][..zone as usize].iter().map(|it| it * 40).sum();
        let first = first_sector / 8;
        // A track, from its first page on.
        for page in 0..sectors / 8 {
            disk.submit(0, access(page as u32, first + page, false));
        }
        let done = wait(&mut disk, sectors as usize / 8);
        let (begin, end) = (done[0].at_ps, done[done.len() - 1].at_ps);
        let turn_ps = (end - begin) * sectors / (sectors - 8);
        assert!(turn_ps.abs_diff(TURN) < 10, "zone {zone}: {turn_ps}");
    }
}

#[test]
fn random_reads_take_a_mean_seek_half_a_turn_and_the_transfer() {
    let spec = plain();
    let mut disk = Disk::new(&spec);
    let (mut random, mut now_ps, count) = (tierscope_kernel::Random::stream(1, "disk"), 0, 4000u64);
    let pages = spec.capacity.bytes() / 4096;
    for _ in 0..count {
        now_ps = one(&mut disk, now_ps, random.below(pages), false);
    }
    let counts = disk.counts;
    let mean_ms = |sum_ps: u64| sum_ps as f64 / count as f64 / MS as f64;
    // Requests fall on places, of which outer cylinders have more, so that ways are shorter than between
    // cylinders: 4 ms less a few per cent.
    let seek_ms = mean_ms(counts.positioning_ps);
    assert!((3.7..4.1).contains(&seek_ms), "{seek_ms}");
    let rotation_ms = mean_ms(counts.rotation_ps);
    assert!((rotation_ms - 5.0).abs() < 0.15, "{rotation_ms}");
    let transfer_ms = mean_ms(counts.transfer_ps);
    // 8 of 64, 48 or 32 sectors, by how many there are of each.
    let mean = 10.0 * 8.0 * 3.0 / (64.0 + 48.0 + 32.0);
    assert!((transfer_ms - mean).abs() < 0.05, "{transfer_ms}, {mean}");
    let all_ms = mean_ms(now_ps);
    assert!((all_ms - (0.1 + seek_ms + rotation_ms + transfer_ms)).abs() < 1e-6);
}

#[test]
fn writes_to_far_tracks_settle() {
    let at = |page, write| one(&mut Disk::new(&plain()), 0, page, write);
    let far =
        (0..60).map(|track| 160 + track * 6 + 2).find(|&page| at(page, true) != at(page, false));
    let page = far.expect("one of them comes by within the half millisecond of settling");
    assert_eq!(at(page, true) - at(page, false), TURN, "it misses its sector");
    assert_eq!(at(16, true), at(16, false), "but not on the next cylinder");
}

/// What a disk takes beyond idle is for the time in which it positions, waits for a sector, or passes it.
#[test]
fn energy_is_that_of_idle_and_of_what_the_mechanism_does_beyond() {
    let watts = |text: &str| text.parse().unwrap();
    let power = DiskPowerSpec { idle: watts("9W"), seek: watts("12W"), transfer: watts("10W") };
    let mut disk = Disk::new(&DiskSpec { power: Some(power), ..plain() });
    let read_ps = one(&mut disk, 0, 700, false);
    let written_ps = one(&mut disk, read_ps, 3, true) - read_ps;
    let now_ps = 1_000_000_000_000;
    let energy = disk.activity(now_ps).energy;
    let counts = disk.counts;
    // All the time of both but that of the controller, 100 us each.
    let busy_ps = counts.positioning_ps + counts.rotation_ps + counts.transfer_ps;
    assert_eq!(busy_ps, read_ps + written_ps - 2 * 100_000_000);
    assert!(counts.positioning_ps > 0 && counts.rotation_ps > 0);
    let accessed_ps = counts.rotation_ps + counts.transfer_ps;
    let expected = [
        ("idle", 9.0),
        ("seek", 3.0 * counts.positioning_ps as f64 * 1e-12),
        ("transfer", 1.0 * accessed_ps as f64 * 1e-12),
    ];
    for (part, (name, joules)) in energy.parts.iter().zip(expected) {
        assert_eq!((part.component, part.part), ("disk", name));
        assert!(
            (part.energy_j - joules).abs() < 1e-12,
            "{name}: {} J, not {joules}",
            part.energy_j
        );
    }
    assert_eq!((energy.parts.len(), energy.not_counted.len()), (3, 0));
    // Of what is under way, as much as has been done.
    disk.submit(now_ps, access(7, 60, false));
    let (mut at_ps, mut before_j) = (now_ps, energy.total_j().unwrap());
    while at_ps < now_ps + 60_000_000_000 {
        at_ps += 100_000_000;
        disk.advance(at_ps, &mut Vec::new());
        let now_j = disk.activity(at_ps).energy.total_j().unwrap();
        let power_w = (now_j - before_j) / 100e-6;
        assert!((9.0..12.0 + 1e-6).contains(&(power_w + 1e-7)), "{power_w} W at {at_ps}");
        before_j = now_j;
    }
    let unknown = Disk::new(&plain()).activity(now_ps).energy;
    assert_eq!((unknown.total_j(), unknown.not_counted[0].component), (None, "disk"));
}

#[test]
fn a_disk_that_works_takes_no_less_than_one_that_is_idle() {
    let watts = |text: &str| text.parse().unwrap();
    let power = DiskPowerSpec { idle: watts("9W"), seek: watts("8W"), transfer: watts("20000W") };
    let mut problems = tierscope_units::Problems::new();
    let spec = DiskSpec { power: Some(power), ..plain() };
    DeviceDescription::check(&spec, "disk", &mut problems);
    let found: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(found, ["disk.power.transfer", "disk.power.seek"]);
}
