//! Timing edges, commands and laws of an array.

use super::*;
use crate::device::ssd::tests::{US, nand, us};
use proptest::prelude::*;

const CYCLES_PS: u64 = 7 * 25_000;
/// 4 KiB at 400 MB/s.
const DATA_PS: u64 = 10_240_000;

fn operation(token: u32, kind: Kind, die: u32) -> Operation {
    Operation { token, kind, die, plane: 0, block: 0, page: 0, bytes: 4096, demand: true }
}

fn read(token: u32, die: u32) -> Operation {
    operation(token, Kind::Read, die)
}

/// Of a page of its own.
fn read_page(token: u32, die: u32) -> Operation {
    Operation { page: token, ..read(token, die) }
}

fn program(token: u32, die: u32) -> Operation {
    operation(token, Kind::Program, die)
}

fn erase(token: u32, die: u32) -> Operation {
    Operation { bytes: 0, ..operation(token, Kind::Erase, die) }
}

/// Gives each at its time; all that was done, by token.
fn run(array: &mut Nand, given: &[(u64, Operation)]) -> Vec<Done> {
    let mut out = Vec::new();
    let mut times: Vec<u64> = given.iter().map(|(at_ps, _)| *at_ps).collect();
    times.dedup();
    for at_ps in times {
        array.advance(at_ps, &mut out);
        for (_, operation) in given.iter().filter(|(given_ps, _)| *given_ps == at_ps) {
            array.submit(*operation);
        }
        array.start_all(at_ps);
    }
    while let Some(next_ps) = array.next_event_ps() {
        array.advance(next_ps, &mut out);
    }
    assert_eq!(array.in_flight(), 0);
    assert!(out.is_sorted_by_key(|done| done.at_ps));
    out.sort_by_key(|done| done.token);
    out
}

fn ends(spec: &NandSpec, given: &[(u64, Operation)]) -> Vec<u64> {
    run(&mut Nand::new(spec, 1), given).iter().map(|done| done.at_ps).collect()
}

const READ_PS: u64 = CYCLES_PS + 25 * US + CYCLES_PS + DATA_PS;
const PROGRAM_PS: u64 = CYCLES_PS + DATA_PS + 200 * US;
const ERASE_PS: u64 = 5 * 25_000 + 1500 * US;

#[test]
fn each_operation_takes_its_command_its_array_and_its_data() {
    assert_eq!(ends(&nand(), &[(3, read(0, 0))]), [3 + READ_PS]);
    assert_eq!(ends(&nand(), &[(3, program(0, 1))]), [3 + PROGRAM_PS]);
    assert_eq!(ends(&nand(), &[(3, erase(0, 2))]), [3 + ERASE_PS]);
}

#[test]
fn a_die_does_one_thing_at_a_time_and_others_do_not_wait() {
    let spec = nand();
    // Dies 0 and 1 are on one channel, 2 and 3 on the other.
    assert_eq!(ends(&spec, &[(0, read(0, 0)), (0, read_page(1, 0))]), [READ_PS, 2 * READ_PS]);
    assert_eq!(ends(&spec, &[(0, read(0, 0)), (0, read(1, 2))]), [READ_PS, READ_PS]);
    // On one channel the second command follows the first, and the second page the first.
    let shared = ends(&spec, &[(0, read(0, 0)), (0, read(1, 1))]);
    assert_eq!(shared, [READ_PS, READ_PS + CYCLES_PS + DATA_PS]);
}

#[test]
fn a_read_waits_at_t_minus_1_and_not_at_t() {
    for (at_ps, wait_ps) in [(PROGRAM_PS - 1, 1), (PROGRAM_PS, 0), (PROGRAM_PS + 1, 0)] {
        let found = ends(&nand(), &[(0, program(0, 0)), (at_ps, read(1, 0))]);
        assert_eq!(found[1], at_ps + wait_ps + READ_PS);
    }
}

#[test]
fn a_cache_read_hides_the_shorter_of_array_and_data() {
    let spec = NandSpec { cache_read: true, ..nand() };
    let found = ends(&spec, &[(0, read(0, 0)), (0, read_page(1, 0)), (0, read_page(2, 0))]);
    // The next command goes when the array is free, before the data.
    let step_ps = CYCLES_PS + 25 * US;
    let first_ps = step_ps + CYCLES_PS + DATA_PS;
    assert!(found[0] >= first_ps && found[0] <= first_ps + CYCLES_PS, "{found:?}");
    assert!(found[2] - found[1] <= step_ps + CYCLES_PS, "{found:?}");
    let none = ends(&nand(), &[(0, read(0, 0)), (0, read_page(1, 0)), (0, read_page(2, 0))]);
    assert_eq!(none[2] - none[1], READ_PS);
}

#[test]
fn a_cache_program_hides_the_data_behind_the_program() {
    let spec = NandSpec { cache_program: true, ..nand() };
    let given = [(0, program(0, 0)), (0, program(1, 0)), (0, program(2, 0))];
    let first_ps = PROGRAM_PS;
    assert_eq!(ends(&spec, &given), [first_ps, first_ps + 200 * US, first_ps + 400 * US]);
    assert_eq!(ends(&nand(), &given), [PROGRAM_PS, 2 * PROGRAM_PS, 3 * PROGRAM_PS]);
}

#[test]
fn one_command_does_the_same_in_all_planes() {
    let spec = NandSpec {
        planes: 4,
        multi_plane_programs: true,
        multi_plane_reads: MultiPlaneReads::SamePage,
        ..nand()
    };
    for kind in [Kind::Read, Kind::Program] {
        let given: Vec<_> =
            (0..4).map(|plane| (0, Operation { plane, ..operation(plane, kind, 0) })).collect();
        let mut array = Nand::new(&spec, 1);
        let last_ps = run(&mut array, &given).iter().map(|done| done.at_ps).max().unwrap();
        let (array_us, cycles) = if kind == Kind::Read { (25, 8) } else { (200, 4) };
        assert_eq!(last_ps, cycles * CYCLES_PS + array_us * US + 4 * DATA_PS);
        let counts = array.counts();
        assert_eq!((counts.reads + counts.programs), 4);
        assert_eq!((counts.read_commands + counts.program_commands), 1);
    }
    let alone = NandSpec { multi_plane_programs: false, ..spec.clone() };
    assert_eq!(ends(&alone, &[(0, erase(0, 0))]), [4 * ERASE_PS]);
    assert_eq!(ends(&spec, &[(0, erase(0, 0))]), [4 * 125_000 + 1500 * US]);
}

#[test]
fn parts_of_a_page_that_are_wanted_together_are_read_once() {
    let given: Vec<_> =
        (0..4).map(|token| (0, Operation { bytes: 1024, ..read(token, 0) })).collect();
    let mut array = Nand::new(&nand(), 1);
    let last_ps = run(&mut array, &given).iter().map(|done| done.at_ps).max();
    assert_eq!(last_ps, Some(CYCLES_PS + 25 * US + 4 * CYCLES_PS + DATA_PS));
    assert_eq!((array.counts().reads, array.counts().read_commands), (1, 1));
}

#[test]
fn pages_of_other_numbers_are_read_together_only_where_the_flash_can() {
    let given = [(0, read(0, 0)), (0, Operation { plane: 1, page: 3, ..read(1, 0) })];
    let commands = |multi_plane_reads| {
        let mut array = Nand::new(&NandSpec { planes: 2, multi_plane_reads, ..nand() }, 1);
        run(&mut array, &given);
        array.counts().read_commands
    };
    assert_eq!(commands(MultiPlaneReads::None), 2);
    assert_eq!(commands(MultiPlaneReads::SamePage), 2);
    assert_eq!(commands(MultiPlaneReads::AnyPage), 1);
}

#[test]
fn what_is_done_at_once_takes_what_pages_took_in_detail() {
    let pair = |at: u32| {
        [0, 1].map(|plane| (0, Operation { plane, page: at, ..program(2 * at + plane, 0) }))
    };
    let spec = NandSpec { planes: 2, multi_plane_programs: true, ..nand() };
    let mut array = Nand::new(&spec, 1);
    let alone = program(0, 0);
    array.count(&alone);
    let own_ps = array.counts().program_ps;
    // A hundred pages, two to a command.
    let given: Vec<_> = (0..50).flat_map(pair).collect();
    run(&mut array, &given);
    let detail = array.counts();
    assert_eq!((detail.programs, detail.program_commands), (101, 51));
    array.count(&alone);
    let counts = array.counts();
    assert_eq!(counts.program_ps - detail.program_ps, own_ps / 2);
    assert_eq!((counts.programs, counts.bus_ps > detail.bus_ps), (102, true));
    assert_eq!(array.dies_busy_ps().sum::<u64>(), counts.program_ps);
}

#[test]
fn reads_suspend_programs_and_erases_as_often_as_they_may() {
    let spec = NandSpec { suspends: 2, suspend_latency: us(5), ..nand() };
    let start_ps = 300 * US;
    let found = ends(&spec, &[(0, erase(0, 0)), (start_ps, read(1, 0))]);
    assert_eq!(found[1], start_ps + 5 * US + READ_PS);
    assert_eq!(found[0], ERASE_PS + 5 * US + READ_PS + 5 * US);
    let reads: Vec<_> =
        (0..4).map(|n| (start_ps + u64::from(n) * 100 * US, read_page(n + 1, 0))).collect();
    let given = [&[(0, erase(0, 0))][..], &reads].concat();
    let mut array = Nand::new(&spec, 1);
    let found = run(&mut array, &given);
    assert_eq!(array.counts().suspends, 2);
    assert!(found[2].at_ps < found[0].at_ps && found[0].at_ps < found[3].at_ps, "{found:?}");
}

#[test]
fn no_more_reads_pass_than_may() {
    for (reads_ahead, before) in [(0, 1), (2, 3), (8, 6)] {
        let spec = NandSpec { reads_ahead, ..nand() };
        // A read works, a program waits, and five reads come behind it.
        let mut given = vec![(0, read(0, 0)), (0, program(1, 0))];
        given.extend((2..7).map(|token| (0, read_page(token, 0))));
        let found = ends(&spec, &given);
        let earlier = found.iter().filter(|&&end_ps| end_ps < found[1]).count();
        assert_eq!(earlier, before, "{reads_ahead} may pass: {found:?}");
    }
}

fn operations(planes: u32) -> impl Strategy<Value = Vec<(u64, Operation)>> {
    let kind = prop_oneof![
        5 => Just(Kind::Read),
        3 => Just(Kind::Program),
        1 => Just(Kind::Erase)
    ];
    let one = (0..100u64, kind, 0..4u32, 0..planes, 0..3u32, any::<bool>());
    prop::collection::vec(one, 1..80).prop_map(|all| {
        let mut now_ps = 0;
        (0..)
            .zip(all)
            .map(|(token, (gap, kind, die, plane, page, demand))| {
                now_ps += gap * US;
                let bytes = if kind == Kind::Erase { 0 } else { 4096 };
                (now_ps, Operation { token, kind, die, plane, block: 0, page, bytes, demand })
            })
            .collect()
    })
}

fn arrays() -> impl Strategy<Value = NandSpec> {
    let reads = prop_oneof![
        Just(MultiPlaneReads::None),
        Just(MultiPlaneReads::SamePage),
        Just(MultiPlaneReads::AnyPage)
    ];
    let switches = (any::<bool>(), any::<bool>(), any::<bool>());
    (1..4u32, reads, switches, 0..4u32, 0..4u32).prop_map(
        |(planes, multi_plane_reads, (multi, cache_read, cache_program), suspends, reads_ahead)| {
            NandSpec {
                planes,
                multi_plane_reads,
                multi_plane_programs: multi,
                cache_read,
                cache_program,
                suspends,
                reads_ahead,
                suspend_latency: us(4),
                ..nand()
            }
        },
    )
}

proptest! {
    #[test]
    fn every_operation_is_done_once_in_steps_that_follow_each_other(
        (spec, given) in arrays().prop_flat_map(|spec| {
            let given = operations(spec.planes);
            (Just(spec), given)
        }),
    ) {
        let mut array = Nand::new(&spec, 1);
        let done = run(&mut array, &given);
        prop_assert_eq!(done.len(), given.len());
        for (done, (at_ps, operation)) in done.iter().zip(&given) {
            prop_assert_eq!(done.token, operation.token);
            let Done { command_ps, first_ps, first_end_ps, second_ps, .. } = *done;
            let times = [*at_ps, command_ps, first_ps, first_end_ps, second_ps, done.at_ps];
            prop_assert!(times.is_sorted(), "{times:?} of {operation:?}");
            let data_ps = array.data_ps(operation.bytes);
            match operation.kind {
                Kind::Read => {
                    prop_assert!(done.first_ps - done.command_ps >= CYCLES_PS);
                    prop_assert_eq!(done.first_end_ps - done.first_ps, 25 * US);
                    prop_assert_eq!(done.at_ps - done.second_ps, data_ps + CYCLES_PS);
                }
                Kind::Program => {
                    prop_assert!(done.first_end_ps - done.first_ps >= data_ps + CYCLES_PS);
                    prop_assert!(done.at_ps - done.second_ps >= 200 * US);
                }
                Kind::Erase => prop_assert!(done.at_ps - done.first_ps >= 1500 * US),
            }
        }
        // Neither an array nor a channel does two things at once.
        let end_ps = done.iter().map(|done| done.at_ps).max().unwrap_or(0);
        prop_assert!(array.dies_busy_ps().all(|busy_ps| busy_ps <= end_ps));
        prop_assert!(array.channels_busy_ps().all(|busy_ps| busy_ps <= end_ps));
        let kinds = |kind| given.iter().filter(|(_, it)| it.kind == kind).count() as u64;
        let counts = array.counts();
        prop_assert_eq!(
            [counts.programs, counts.erases],
            [Kind::Program, Kind::Erase].map(kinds)
        );
        prop_assert!(counts.reads <= kinds(Kind::Read), "parts of a page are read once");
        prop_assert!(counts.read_commands <= counts.reads);
    }

    #[test]
    fn a_die_that_stands_for_its_twin_does_what_both_would(
        (spec, given) in arrays().prop_flat_map(|spec| {
            let given = operations(spec.planes);
            (Just(spec), given)
        }),
    ) {
        let dies = spec.all_dies() as u32 / 2;
        let of_die = |it: &Operation| it.die % dies;
        let once: Vec<_> = given.iter()
            .map(|(at_ps, it)| (*at_ps, Operation { die: of_die(it), ..*it })).collect();
        let both: Vec<_> = given.iter().flat_map(|(at_ps, it)| [0, 1].map(|twin| {
            (*at_ps, Operation { token: 2 * it.token + twin, die: of_die(it) + twin * dies, ..*it })
        })).collect();
        let (mut one, mut two) = (Nand::new(&spec, 2), Nand::new(&spec, 1));
        let (done, done_by_both) = (run(&mut one, &once), run(&mut two, &both));
        prop_assert_eq!(done.len() * 2, done_by_both.len());
        for (n, by_one) in done_by_both.iter().enumerate() {
            prop_assert_eq!(*by_one, Done { token: by_one.token, ..done[n / 2] });
        }
        prop_assert_eq!(one.counts(), two.counts());
        prop_assert!(one.channels_busy_ps().eq(two.channels_busy_ps()));
        prop_assert!(one.dies_busy_ps().eq(two.dies_busy_ps()));
        prop_assert_eq!(one.bytes_per_second(), two.bytes_per_second());
    }

    #[test]
    fn programs_and_erases_of_a_die_are_done_in_the_order_in_which_they_came(
        (spec, given) in arrays().prop_flat_map(|spec| {
            let given = operations(spec.planes);
            (Just(spec), given)
        }),
    ) {
        let done = run(&mut Nand::new(&spec, 1), &given);
        for die in 0..4 {
            let writes = done.iter().zip(&given)
                .filter(|(_, (_, it))| it.die == die && it.kind != Kind::Read);
            let ends: Vec<_> = writes.map(|(done, _)| done.at_ps).collect();
            prop_assert!(ends.is_sorted(), "die {die}: {ends:?}");
        }
    }
}
