//! Windows of refreshes: closed formulas, picosecond by picosecond, and those of a DRAM's controller.

use super::*;
use crate::conformance::link_laws;
use crate::device::StoreSpec;
use crate::device::store::StoreDevice;
use crate::medium::DramSpec;
use crate::medium::dram::{Dram, standard::Command};
use crate::organization::bus;
use crate::request::{Completion, Device, Request};
use proptest::prelude::*;
use tierscope_units::Size;

fn ns(time: u64) -> Duration {
    Duration::from_picoseconds(time * 1_000)
}

/// 760 MB/s.
fn spec() -> RefreshWindowSpec {
    RefreshWindowSpec {
        channel: 0,
        chips: ns(260),
        bandwidth: "760MB/s".parse().unwrap(),
        latency: ns(0),
    }
}

/// Refreshes of which each came as it fell due, up to a time: 1,160 ns after each 7,800, 900 of them a window.
fn due(now_ps: u64) -> Refreshes {
    let done = now_ps / 7_800_000;
    Refreshes {
        told_ps: now_ps,
        done,
        last_ps: done * 7_800_000,
        first_ps: 7_800_000,
        interval_ps: 7_800_000,
        busy_ps: 1_160_000,
    }
}

fn told(now_ps: u64) -> RefreshWindowLink {
    let mut link = RefreshWindowLink::new(&spec());
    link.tell_refreshes(due(now_ps));
    link
}

/// Before it has been told of refreshes it is a link like others.
#[test]
fn the_links_laws_hold_where_it_is_always_open() {
    for latency in [0, 50] {
        let spec = RefreshWindowSpec { latency: ns(latency), ..spec() };
        link_laws(760_000_000, || RefreshWindowLink::new(&spec));
    }
}

#[test]
fn a_page_takes_as_many_windows_as_its_bytes_need() {
    let mut link = told(0);
    let page = Message::new(Kind::Answer, 4096);
    // Five whole windows hold 3,420 bytes; the other 676 take 889.474 ns of that after the sixth refresh.
    let (start_ps, end_ps) = link.transfer(0, page, Direction::Up);
    assert_eq!((start_ps, end_ps), (0, 6 * 7_800_000 + 260_000 + 889_474));
    // What comes next has what is left of that window, and then five more.
    link.tell_refreshes(due(end_ps));
    let (_, next_ps) = link.transfer(end_ps, page, Direction::Down);
    assert!(next_ps > end_ps + 5 * 7_800_000 && next_ps < end_ps + 6 * 7_800_000);
    // A command, or its end, is a line of the module's DRAM, which the device sees in a window.
    for kind in [Kind::Request, Kind::Done] {
        let (_, end_ps) = told(0).transfer(0, Message::new(kind, 4096), Direction::Down);
        assert_eq!(end_ps, 7_800_000 + 260_000 + 84_211);
    }
}

#[test]
fn a_refresh_that_comes_late_makes_its_window_late_and_no_other() {
    let mut link = told(0);
    let (_, promised_ps) = link.transfer(0, Message::new(Kind::Data, 700), Direction::Down);
    let after_ps = promised_ps - 2 * 7_800_000;
    let mark = link.mark();
    // The second refresh is not there when it is due.
    let late = Refreshes { done: 1, last_ps: 7_800_000, ..due(16_000_000) };
    link.tell_refreshes(late);
    assert_eq!(link.left_ps(mark), 16_000_000 + after_ps);
    link.tell_refreshes(Refreshes { told_ps: 17_000_000, done: 2, last_ps: 16_900_000, ..late });
    assert_eq!(link.left_ps(mark), 16_900_000 + after_ps);
    // The third comes when it falls due.
    let (_, next_ps) = link.transfer(17_000_000, Message::new(Kind::Data, 700), Direction::Down);
    assert!((3 * 7_800_000..3 * 7_800_000 + 1_160_000).contains(&next_ps), "{next_ps}");
}

proptest! {
    /// Picosecond by picosecond: a byte a picosecond, in windows alone, whenever refreshes come.
    #[test]
    fn bytes_move_in_windows_alone(
        window in 1..20u64, chips in 0..5u64,
        lates in proptest::collection::vec(0..60u64, 1..400),
        script in proptest::collection::vec((0..120u64, 0..60u64), 1..30),
    ) {
        let busy_ps = window + chips;
        let interval_ps = busy_ps + 5;
        // Refreshes: each when it is due or later, and not before the one before it is over; more than there are bytes
        // and gaps.
        let mut given: Vec<u64> = Vec::new();
        for (number, late) in (1..=6_000).zip(lates.into_iter().cycle()) {
            let free = given.last().map_or(0, |last| last + busy_ps);
            given.push((number * interval_ps + late).max(free));
        }
        let open = |time_ps: u64| {
            let last = given[..given.partition_point(|at| *at <= time_ps)].last();
            last.is_some_and(|last| (chips..busy_ps).contains(&(time_ps - last)))
        };
        let tell = |link: &mut RefreshWindowLink, told_ps: u64| {
            let done = given.partition_point(|at| *at <= told_ps);
            let last_ps = given[..done].last().copied().unwrap_or(0);
            link.tell_refreshes(Refreshes {
                told_ps, done: done as u64, last_ps, first_ps: interval_ps, interval_ps, busy_ps,
            });
        };
        let mut link = RefreshWindowLink {
            lane: Lane::new(1_000_000_000_000), chips_ps: chips, ..RefreshWindowLink::new(&spec())
        };
        let (mut now_ps, mut free_ps) = (0u64, 0u64);
        for (gap_ps, bytes) in script {
            now_ps += gap_ps;
            tell(&mut link, now_ps);
            let (_, promised_ps) = link.transfer(now_ps, Message::new(Kind::Data, bytes), Direction::Down);
            let (mut time_ps, mut left) = (now_ps.max(free_ps), bytes);
            while left > 0 {
                prop_assert!(Some(&time_ps) < given.last(), "there is a refresh to come");
                left -= u64::from(open(time_ps));
                time_ps += 1;
            }
            // Asked whenever it could be there, as whoever waits for it does.
            let (mut at_ps, mark) = (promised_ps, link.mark());
            loop {
                tell(&mut link, at_ps.max(now_ps));
                let later_ps = link.left_ps(mark);
                prop_assert!(Some(&later_ps) < given.last(), "there is a refresh to come");
                if later_ps <= at_ps {
                    break;
                }
                at_ps = later_ps;
            }
            if bytes > 0 {
                prop_assert_eq!(at_ps, time_ps);
                free_ps = time_ps;
                now_ps = now_ps.max(time_ps);
            }
        }
    }
}

fn dram_spec(postponed_refreshes: u32) -> DramSpec {
    DramSpec {
        t_rfc: Some(ns(1_160)),
        mapping: "ro-ra-ba-co-bg-ch".into(),
        postponed_refreshes,
        ..DramSpec::of_part("ddr4-2133-4gb-x4", 1)
    }
}

/// A store behind windows of a DRAM that is busy: whatever ends, ends in a window after a refresh that is in the log of
/// the DRAM's commands, and the DRAM gives no command to the rank in it.
#[test]
fn data_move_after_the_refreshes_that_the_controller_gives() {
    for (postponed, gap_ps) in [(0, 3_000), (0, 40_000), (8, 3_000), (8, 600_000)] {
        let mut dram = Dram::new(&dram_spec(postponed), 1 << 30, 64);
        let store = StoreSpec {
            capacity: Size::from_bytes(1 << 20),
            page: Size::from_bytes(4096),
            read_latency: ns(3_000),
            write_latency: ns(3_000),
            units: 4,
            unit_bandwidth: "4GB/s".parse().unwrap(),
            controller_latency: ns(0),
            queue_depth: 64,
            power: None,
        };
        let mut store = StoreDevice::new(&store, &spec());
        dram.start_log();
        let tie = store.tie();
        assert_eq!(tie, Some(Tie::Refreshes(0)));
        let (mut out, mut ends) = (Vec::<Completion>::new(), Vec::new());
        let (mut now_ps, mut lots, mut asked) = (0u64, 1u64, 0u32);
        while now_ps < 400_000_000 {
            let next_ps = [dram.next_event_ps(), store.next_event_ps()].into_iter().flatten().min();
            now_ps = next_ps.unwrap_or(u64::MAX).min(now_ps + gap_ps).max(now_ps + 1);
            dram.advance(now_ps, &mut Vec::new());
            bus::pass_to_store(now_ps, tie, &mut dram, &mut store);
            store.advance(now_ps, &mut out);
            ends.extend(out.drain(..).map(|done| done.at_ps));
            if store.in_flight() < 3 {
                bus::pass_to_store(now_ps, tie, &mut dram, &mut store);
                let address = u64::from(asked % 200) * 4096;
                let request = Request {
                    id: asked,
                    address,
                    bytes: 4096,
                    write: asked % 3 == 0,
                    background: false,
                };
                store.submit(now_ps, request).unwrap();
                asked += 1;
            }
            lots = lots.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e);
            let line = (lots >> 33) % (1 << 20);
            let _ = dram.submit(
                now_ps,
                Request { id: 0, address: line * 64, bytes: 64, write: false, background: false },
            );
        }
        let (clock, log) = (dram.description().clock, dram.take_log(0, true));
        let given = log.iter().filter(|logged| logged.command == Command::Refresh);
        let given: Vec<u64> = given.map(|logged| clock.cycles_to_ps(logged.clock)).collect();
        // A page, its command, and what says that it is done, of the bytes of all windows; three are under way at a time.
        let (moved, bytes) = (ends.len() * 4224, given.len() * 684);
        assert!(
            moved <= bytes && bytes <= moved + 4 * 4224,
            "{postponed} {gap_ps}: {moved} of {bytes}"
        );
        for end_ps in &ends {
            let last = given[..given.partition_point(|at| at <= end_ps)].last().unwrap();
            let after_ps = end_ps - last;
            assert!(
                (260_000..=1_160_600).contains(&after_ps),
                "{postponed} {end_ps}: {after_ps} after a refresh"
            );
        }
        let column = |logged: &&crate::medium::dram::log::Logged| logged.command.is_column();
        for logged in log.iter().filter(column) {
            let at_ps = clock.cycles_to_ps(logged.clock);
            let last = given[..given.partition_point(|at| *at <= at_ps)].last();
            assert!(last.is_none_or(|last| at_ps - last >= 1_160_000 - 1_000), "{at_ps}");
        }
    }
}

#[test]
fn every_parameter_changes_an_output_in_its_direction() {
    let end_ps = |change: &dyn Fn(&mut RefreshWindowSpec), busy_ps: u64| {
        let mut spec = spec();
        change(&mut spec);
        let mut link = RefreshWindowLink::new(&spec);
        link.tell_refreshes(Refreshes { busy_ps, ..due(0) });
        link.transfer(0, Message::new(Kind::Data, 4096), Direction::Down).1
    };
    let was_ps = end_ps(&|_| (), 1_160_000);
    assert!(end_ps(&|_| (), 2_000_000) < was_ps);
    assert!(end_ps(&|s| s.chips = ns(600), 1_160_000) > was_ps);
    assert!(end_ps(&|s| s.bandwidth = "100MB/s".parse().unwrap(), 1_160_000) > was_ps);
    assert!(end_ps(&|s| s.latency = ns(50), 1_160_000) == was_ps + 50_000);
    assert_eq!(RefreshWindowSpec { channel: 1, ..spec() }.build().tie(), Some(Tie::Refreshes(1)));
}
