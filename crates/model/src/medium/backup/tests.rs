//! What is saved by when, and what an energy source lasts for, by hand.

use super::BackupAction::*;
use super::PowerEvent::*;
use super::*;
use proptest::prelude::*;

const S: u64 = 1_000_000_000_000;

/// A module of 1000 MB in 1 MB/s steps: saved in 10 s, restored in 5 s, with energy for 12 s.
pub(crate) fn spec() -> BackupSpec {
    BackupSpec {
        module: Size::from_bytes(1_000_000_000),
        flash: Size::from_bytes(2_000_000_000),
        save_bandwidth: Bandwidth::from_bytes_per_second(100_000_000),
        restore_bandwidth: Bandwidth::from_bytes_per_second(200_000_000),
        save_power: "6W".parse().unwrap(),
        restore_power: "4W".parse().unwrap(),
        energy: "72J".parse().unwrap(),
        charge_power: "3W".parse().unwrap(),
    }
}

/// Energy for only half of a save.
fn weak() -> BackupSpec {
    BackupSpec { energy: "30J".parse().unwrap(), ..spec() }
}

fn play(
    backup: &mut Backup,
    events: &[(u64, PowerEvent)],
    until_ps: u64,
) -> Vec<(u64, BackupAction)> {
    let mut out = Vec::new();
    for (at_ps, event) in events {
        backup.power(*at_ps, *event, &mut out);
    }
    backup.advance(until_ps, &mut out);
    out
}

#[test]
fn what_saving_and_restoring_take_is_bytes_over_bandwidth_times_power() {
    let costs = spec().costs();
    assert_eq!((costs.save_ps, costs.restore_ps, costs.charge_ps), (10 * S, 5 * S, 24 * S));
    assert_eq!((costs.save_j, costs.restore_j, costs.energy_j), (60.0, 20.0, 72.0));
    assert_eq!(costs.saved_bytes, 1_000_000_000);
    assert_eq!(weak().costs().saved_bytes, 500_000_000);
}

#[test]
fn what_was_held_is_saved_and_restored_and_then_the_source_is_charged() {
    let mut backup = Backup::new(&spec());
    let out = play(&mut backup, &[(S, Fails)], 5 * S);
    assert_eq!(out, [(S, Isolated)]);
    assert_eq!(backup.saved_bytes(6 * S), 500_000_000, "in flash by then");
    assert!((backup.energy_j(6 * S) - 42.0).abs() < 1e-9, "6 W for 5 s of 72 J");
    let out = play(&mut backup, &[(20 * S, Returns)], 100 * S);
    // Charging begins with power: 12 J at the end of the save, 60 J at 3 W take 20 s, of which the
    // restore covers 5.
    assert_eq!(out, [(11 * S, Saved), (25 * S, Restored), (40 * S, Armed)]);
    assert_eq!((backup.saved_bytes(100 * S), backup.next_event_ps()), (0, None), "erased");
}

#[test]
fn energy_that_is_used_up_loses_all_but_the_first_bytes() {
    let mut backup = Backup::new(&weak());
    let out = play(&mut backup, &[(0, Fails), (60 * S, Returns)], 100 * S);
    let lost = Lost { saved_bytes: 500_000_000 };
    assert_eq!(out, [(0, Isolated), (5 * S, lost), (60 * S, Empty), (70 * S, Armed)]);
}

#[test]
fn energy_for_a_save_to_the_picosecond_suffices_and_a_femtojoule_less_does_not() {
    for (femtojoules, whole) in [(60_000_000_000_000_000, true), (59_999_999_999_999_999, false)] {
        let energy = Energy::from_femtojoules(femtojoules);
        let spec = BackupSpec { energy, ..spec() };
        let out = play(&mut Backup::new(&spec), &[(0, Fails)], 100 * S);
        assert_eq!(out[1].1 == Saved, whole, "{out:?}");
        assert_eq!(spec.costs().saved_bytes == spec.module.bytes(), whole);
    }
}

#[test]
fn power_that_returns_during_a_save_carries_it_to_its_end() {
    // It would have lost half of it.
    let mut backup = Backup::new(&weak());
    let out = play(&mut backup, &[(0, Fails), (4 * S, Returns)], 100 * S);
    // 24 J are gone by then, and at 3 W come back within 8 s: before the restore ends.
    assert_eq!(out, [(0, Isolated), (10 * S, Saved), (15 * S, Restored), (15 * S, Armed)]);
    // Failing again meanwhile, it needs what is left to save: 6 J and 3 W for 1 s last for 1.5 s.
    let out =
        play(&mut Backup::new(&weak()), &[(0, Fails), (4 * S, Returns), (5 * S, Fails)], 9 * S);
    assert_eq!(out, [(0, Isolated), (13 * S / 2, Lost { saved_bytes: 650_000_000 })]);
}

#[test]
fn an_image_outlives_failures_until_the_memory_is_armed_again() {
    let mut backup = Backup::new(&spec());
    let events =
        [(0, Fails), (20 * S, Returns), (22 * S, Fails), (30 * S, Returns), (36 * S, Fails)];
    let out = play(&mut backup, &events, 40 * S);
    assert_eq!(out, [(0, Isolated), (10 * S, Saved), (35 * S, Restored), (36 * S, Isolated)]);
    assert_eq!(backup.saved_bytes(40 * S), 1_000_000_000);
    let out = play(&mut backup, &[(50 * S, Returns)], 100 * S);
    assert_eq!(out[0], (55 * S, Restored));
    assert_eq!(out[1].1, Armed);
}

#[test]
fn events_that_change_nothing_are_passed_over() {
    let mut backup = Backup::new(&spec());
    assert_eq!(play(&mut backup, &[(1, Returns), (2, Fails), (3, Fails)], 4), [(2, Isolated)]);
}

#[test]
fn each_field_changes_what_it_says() {
    let was = spec().costs();
    let with = |change: fn(&mut BackupSpec)| {
        let mut spec = spec();
        change(&mut spec);
        spec.costs()
    };
    assert!(with(|s| s.module = Size::from_bytes(1 << 31)).save_ps > was.save_ps);
    assert!(with(|s| s.save_bandwidth = "50MB/s".parse().unwrap()).save_j > was.save_j);
    assert!(with(|s| s.restore_bandwidth = "50MB/s".parse().unwrap()).restore_ps > was.restore_ps);
    assert!(with(|s| s.save_power = "8W".parse().unwrap()).saved_bytes < was.saved_bytes);
    assert!(with(|s| s.restore_power = "8W".parse().unwrap()).restore_j > was.restore_j);
    assert!(with(|s| s.energy = "9J".parse().unwrap()).energy_j < was.energy_j);
    assert!(with(|s| s.charge_power = "1W".parse().unwrap()).charge_ps > was.charge_ps);
}

proptest! {
    /// Whatever happens: it is isolated before it is saved or lost, saved before it is restored, and
    /// restored or empty before it is armed; the energy is never more than the source holds.
    #[test]
    fn what_it_says_is_in_order(gaps in proptest::collection::vec(1..30 * S, 1..40), weak_source in any::<bool>()) {
        let mut backup = Backup::new(&if weak_source { weak() } else { spec() });
        let (mut now_ps, mut out, mut fails) = (0, Vec::new(), true);
        for gap_ps in gaps {
            now_ps += gap_ps;
            backup.power(now_ps, if fails { Fails } else { Returns }, &mut out);
            fails = !fails;
            prop_assert!(backup.energy_j(now_ps) <= backup.spec.full_zj as f64 * 1e-21);
        }
        prop_assert!(out.is_sorted_by_key(|(at_ps, _)| *at_ps));
        let mut image = false;
        let mut reached = true;
        for (_, action) in out {
            match action {
                Isolated => { prop_assert!(reached); reached = false; }
                Saved => { prop_assert!(!reached && !image); image = true; }
                Lost { saved_bytes } => prop_assert!(!reached && !image && saved_bytes < 1_000_000_000),
                Restored => { prop_assert!(image && !reached); reached = true; }
                Empty => { prop_assert!(!image); reached = true; }
                Armed => { prop_assert!(reached); image = false; }
            }
        }
    }
}
