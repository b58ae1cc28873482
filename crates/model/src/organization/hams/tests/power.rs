//! Failures of power at every event, and in the middle of recovery.

use super::*;
use crate::medium::BackupSpec;
use crate::power::{Failure, Harm, PowerFailure, Weakness, fail};
use tierscope_kernel::Counter;
use tierscope_units::{Bandwidth, Energy, Power};

fn backup() -> BackupSpec {
    BackupSpec {
        module: Size::from_bytes(1 << 20),
        flash: Size::from_bytes(1 << 20),
        save_bandwidth: Bandwidth::from_bytes_per_second(100_000_000),
        restore_bandwidth: Bandwidth::from_bytes_per_second(100_000_000),
        save_power: Power::from_nanowatts(6_000_000_000),
        restore_power: Power::from_nanowatts(6_000_000_000),
        energy: Energy::from_femtojoules(1_000_000_000_000_000),
        charge_power: Power::from_nanowatts(5_000_000_000),
    }
}

/// A drive whose buffer is written when it must be, so that capacitors have something to keep.
fn kept_drive(coupling: Coupling) -> SsdSpec {
    let mut it = drive(coupling);
    if coupling == Coupling::Loose {
        it.buffer.capacitors = true;
        it.buffer.flush_above = it.buffer.dirty;
    }
    it
}

/// HAMS of a machine whose power may fail.
fn failing(spec: &HamsSpec, weaknesses: &[Weakness]) -> Hams<Dram, AnyDevice> {
    let bytes = spec.capacity.bytes().next_multiple_of(1 << 20);
    let hams = real(spec, &kept_drive(spec.coupling), true);
    let mut hams = hams.with_backup(Some(&backup()), bytes);
    hams.prepare(weaknesses).unwrap();
    hams
}

/// Random writes and reads of a few lines of a few pages; power fails at each event from one on, one in so
/// many. What is not as promised, and all failures.
fn fail_everywhere(
    hams: Hams<Dram, AnyDevice>,
    seed: u64,
    (requests, every): (u64, u64),
) -> (Vec<Harm>, Vec<Failure>) {
    let draw = Counter::stream(seed, "power");
    let mut run = Run::new(hams);
    let (mut harms, mut failures) = (Vec::new(), Vec::new());
    let (mut events, mut asked, mut turns) = (0, 0, 0);
    while asked < requests || run.hams.in_flight() > 0 {
        turns += 1;
        let of = |what: u64, n: u64| draw.below_at(8 * turns + what, n);
        if asked < requests && (of(0, 64) == 0 || run.hams.in_flight() == 0) {
            let address = of(1, 12) * 8 * KIB + of(2, 2) * 4 * KIB + of(3, 4) * LINE_BYTES;
            let request = LineRequest {
                id: asked as u32,
                core: 0,
                address,
                write: of(4, 3) > 0,
                version: if of(4, 3) > 0 { asked + 1 } else { 0 },
            };
            asked += u64::from(run.hams.submit(run.now_ps, request).is_ok());
        }
        let Some(next_ps) = run.hams.next_event_ps() else { continue };
        run.advance(next_ps);
        events += 1;
        if events % every != 0 {
            continue;
        }
        let second = (draw.below_at(events, 2) == 0).then(|| 1 + draw.below_at(events, 200));
        let failure = fail(run.hams.fork().as_mut(), run.now_ps, second, LINE_BYTES).unwrap();
        harms.extend(failure.verdict.faults.iter().map(|fault| fault.harm));
        failures.push(failure);
    }
    (harms, failures)
}

fn all_shapes() -> impl Iterator<Item = (u64, HamsSpec)> {
    let shapes = [Coupling::Loose, Coupling::Tight]
        .into_iter()
        .flat_map(|coupling| [Mode::Persist, Mode::Extend].map(|mode| spec(coupling, mode)));
    (0..).zip(shapes)
}

#[test]
fn what_was_answered_survives_a_failure_at_any_event_and_one_in_the_middle_of_recovery() {
    let (mut reissued, mut twice, mut saved) = (0, 0, 0);
    for (seed, shape) in all_shapes() {
        let (harms, failures) = fail_everywhere(failing(&shape, &[]), seed, (150, 23));
        assert_eq!(harms, [], "{shape:?}");
        assert!(failures.len() > 100, "{}", failures.len());
        reissued += failures.iter().map(|one| one.recovery.reissued_lines).sum::<u64>();
        saved += failures.iter().map(|one| one.outage.saved_pages).sum::<u64>();
        twice += failures.iter().filter(|one| one.cuts == 2).count();
        assert!(failures.iter().all(|one| one.recovery_ps() > 0));
    }
    assert!(reissued > 0 && twice > 20 && saved > 0, "{reissued} {twice} {saved}");
}

#[test]
fn each_safeguard_that_is_missing_shows() {
    let loose = spec(Coupling::Loose, Mode::Extend);
    let tight = spec(Coupling::Tight, Mode::Extend);
    for (weakness, shape) in [
        (Weakness::NoJournalTags, &loose),
        (Weakness::NoJournalTags, &tight),
        (Weakness::NoCapacitors, &loose),
        (Weakness::NoClones, &loose),
        (Weakness::NoBusyBits, &loose),
        (Weakness::EarlyCompletion, &loose),
        (Weakness::EarlyCompletion, &tight),
        (Weakness::NoBackup, &loose),
    ] {
        let (harms, failures) = fail_everywhere(failing(shape, &[weakness]), 7, (150, 31));
        assert!(!harms.is_empty(), "{weakness:?}: none in {} failures", failures.len());
    }
}
