//! Failures of power on whole machines: every promise holds, and the check can fail.

use std::collections::BTreeSet;
use tierscope_model::power::Weakness;
use tierscope_system::crash::{CrashError, CrashOptions, CrashReport, Points, Watch, crash};
use tierscope_system::spec::{SystemSpec, load};
use tierscope_workload::Stream;
use tierscope_workload::generator::find;

/// So small that a table of a few MiB makes every machine evict: 128 frames of 16 KiB.
const SMALL: [(&str, &str); 8] = [
    ("hams.capacity", "4MiB"),
    ("hams.pinned", "1MiB"),
    ("hams.page", "16KiB"),
    ("hams.queue_entries", "64"),
    ("hams.wait_entries", "64"),
    ("dram.backup.module", "4MiB"),
    ("processor.caches.L2.capacity", "64KiB"),
    ("ssd.buffer.flush_above", "128KiB"),
];

fn system(name: &str) -> SystemSpec {
    let tight = name.contains("-t");
    let sets = SMALL.iter().filter(|(path, _)| !tight || !path.starts_with("ssd."));
    let sets: Vec<_> = sets.map(|(path, value)| (path.to_string(), value.to_string())).collect();
    load(name, &sets).unwrap_or_else(|problems| panic!("{problems}")).spec
}

fn gups(seed: u64) -> Box<dyn Stream> {
    let given = [("table", "8MiB".into()), ("updates", 2_000.into())]
        .map(|(name, value): (&str, serde_json::Value)| (name.to_owned(), value));
    find("gups").unwrap().make(&given, seed).unwrap().0
}

fn run(name: &str, options: &CrashOptions) -> Result<CrashReport, CrashError> {
    crash(&system(name), gups(1), options, &Watch::default())
}

fn adversarial(points: u64, weaken: &[Weakness]) -> CrashOptions {
    CrashOptions {
        points: Some(points),
        adversarial: true,
        seed: 7,
        weaken: weaken.to_vec(),
        ..CrashOptions::default()
    }
}

const HAMS: [&str; 4] = ["hams-lp/quick", "hams-le/quick", "hams-tp/quick", "hams-te/quick"];

#[test]
fn a_thousand_failures_break_no_promise_of_hams_and_hit_all_that_is_under_way() {
    let mut kinds = BTreeSet::new();
    for name in HAMS {
        let report = run(name, &adversarial(250, &[])).unwrap();
        assert!(report.holds(), "{name}: {:?}", report.failing);
        assert_eq!((report.points, report.chosen), (250, Points::Adversarial));
        assert!(report.second_cuts > 20 && report.reissued > 0, "{report:?}");
        assert!(report.promised_lines > 0 && report.recovery_s.least > 0.0);
        assert!(report.saved["nvdimm"] > 0 && report.saved["commands_again"] > 0, "{report:?}");
        kinds.extend(report.under_way.iter().filter(|(_, n)| **n > 0).map(|(kind, _)| *kind));
    }
    for kind in ["command", "clone", "fill", "barrier", "program", "buffered"] {
        assert!(kinds.contains(kind), "{kind} of {kinds:?}");
    }
}

#[test]
fn whatever_safeguard_is_missing_is_found_and_one_point_replays_it() {
    for (name, weakness) in [
        ("hams-le/quick", Weakness::NoJournalTags),
        ("hams-te/quick", Weakness::NoJournalTags),
        ("hams-le/quick", Weakness::NoCapacitors),
        ("hams-le/quick", Weakness::NoClones),
        ("hams-le/quick", Weakness::NoBusyBits),
        ("hams-te/quick", Weakness::EarlyCompletion),
        ("hams-lp/quick", Weakness::NoBackup),
    ] {
        let report = run(name, &adversarial(60, &[weakness])).unwrap();
        assert!(!report.holds(), "{name} without {weakness:?} loses nothing");
        assert!(report.faults.values().sum::<u64>() >= report.failing_points);
        let first = &report.failing[0];
        let alone = CrashOptions { replay: Some(first.point), ..adversarial(1, &[weakness]) };
        let replayed = run(name, &alone).unwrap();
        assert_eq!(replayed.failing, std::slice::from_ref(first), "{name} {weakness:?}");
        let cut = replayed.timeline.iter().find(|moment| moment.what == "cut").unwrap();
        assert_eq!(cut.time_ps, first.time_ps);
        assert!(replayed.timeline.windows(2).all(|two| two[0].time_ps <= two[1].time_ps));
    }
}

#[test]
fn nvdimm_and_stores_keep_what_they_answered_and_dram_promises_what_was_flushed_at_most() {
    let shrink = |name: &str| -> SystemSpec {
        let sets: &[(&str, &str)] = match name {
            "hybrid/quick" => &[("hybrid.cache.capacity", "2MiB")],
            _ => &[],
        };
        let sets: Vec<_> =
            sets.iter().map(|(path, to)| (path.to_string(), to.to_string())).collect();
        let mut spec = load(name, &sets).unwrap_or_else(|problems| panic!("{problems}")).spec;
        let caches = &mut spec.processor.as_mut().unwrap().caches;
        caches.truncate(1);
        spec
    };
    for (name, promises) in [
        ("nvdimm/quick", true),
        ("optane-p/quick", true),
        ("hybrid/quick", true),
        ("oracle/quick", false),
    ] {
        let options = CrashOptions { points: Some(100), seed: 5, ..CrashOptions::default() };
        let report = crash(&shrink(name), gups(1), &options, &Watch::default()).unwrap();
        assert!(report.holds(), "{name}: {:?}", report.failing);
        assert_eq!((report.points, report.promised_lines > 0), (100, promises), "{name}");
        assert!(report.lines > 0, "{name}");
    }
    let early = adversarial(200, &[Weakness::EarlyCompletion]);
    let report = crash(&shrink("hybrid/quick"), gups(1), &early, &Watch::default()).unwrap();
    assert!(!report.holds(), "a flush that is told early loses nothing");
}

#[test]
fn points_follow_from_the_seed_and_a_window_bounds_them() {
    let options = CrashOptions { points: Some(20), seed: 1, ..CrashOptions::default() };
    let timeless =
        |report: CrashReport| CrashReport { wall_s: 0.0, points_per_wall_s: 0.0, ..report };
    let once = timeless(run(HAMS[1], &options).unwrap());
    assert_eq!(once, timeless(run(HAMS[1], &options).unwrap()));
    let within = CrashOptions { window_ps: Some((0, 3_000_000)), ..CrashOptions::default() };
    let every = run(HAMS[1], &within).unwrap();
    assert_eq!((every.chosen, every.points == 0), (Points::Every, false));
    assert!(every.events < once.events, "{} {}", every.events, once.events);
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let wrong = |name, options| run(name, &options).unwrap_err();
    let none = wrong(HAMS[0], adversarial(1, &[Weakness::NoJournalTags]));
    assert!(matches!(none, CrashError::MeansNothing(_, "no-journal-tags")), "{none:?}");
    let replay = Some("999999999".parse().unwrap());
    let beyond = wrong(HAMS[0], CrashOptions { replay, ..CrashOptions::default() });
    assert!(matches!(beyond, CrashError::NoPoint(..)), "{beyond:?}");
    let late = CrashOptions { window_ps: Some((1 << 60, 1 << 61)), ..adversarial(1, &[]) };
    assert!(matches!(wrong(HAMS[0], late), CrashError::EmptyWindow(_)));
    let paged = load("storage/quick", &[]).unwrap().spec;
    let unknown = crash(&paged, gups(1), &adversarial(1, &[]), &Watch::default());
    assert!(matches!(unknown, Err(CrashError::NotModelled(_))));
}
