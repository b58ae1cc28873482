//! Failures of power on whole machines: every promise holds, and the check can fail.

use crate::thorough::of_many;
use std::collections::BTreeSet;
use tierscope_kernel::Random;
use tierscope_model::power::{Judge, Weakness, cut_and_recover, judge as full_judge};
use tierscope_system::alone::Requests;
use tierscope_system::crash::{
    CrashError, CrashOptions, CrashReport, Points, Watch, crash, crash_alone,
};
use tierscope_system::machine::Machine;
use tierscope_system::run::RunOptions;
use tierscope_system::spec::{SystemSpec, load};
use tierscope_workload::Stream;
use tierscope_workload::generator::find;
use tierscope_workload::requests::find_pattern;

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

/// Behind a name: with three memory controllers, which lose their power together.
const SEVERAL: &str = "+three";
const CONTROLLERS: [(&str, &str); 2] =
    [("controllers.count", "3"), ("controllers.interleave", "1KiB")];

fn system(name: &str) -> SystemSpec {
    let (tight, several) = (name.contains("-t"), name.ends_with(SEVERAL));
    let name = name.strip_suffix(SEVERAL).unwrap_or(name);
    let sets = SMALL.iter().filter(|(path, _)| !tight || !path.starts_with("ssd."));
    let sets = sets.chain(CONTROLLERS.iter().filter(|_| several));
    let sets: Vec<_> = sets.map(|(path, value)| (path.to_string(), value.to_string())).collect();
    load(name, &sets).unwrap_or_else(|problems| panic!("{problems}")).spec
}

fn gups(seed: u64) -> Box<dyn Stream> {
    sized_gups("8MiB", 2_000, seed)
}

fn sized_gups(table: &str, updates: u64, seed: u64) -> Box<dyn Stream> {
    let given = [("table", table.into()), ("updates", updates.into())]
        .map(|(name, value): (&str, serde_json::Value)| (name.to_owned(), value));
    find("gups").unwrap().make(&given, seed).unwrap().0
}

fn run(name: &str, options: &CrashOptions) -> Result<CrashReport, CrashError> {
    crash(&system(name), gups(1), options, &Watch::default())
}

/// Points that are chosen where most is under way.
pub fn adversarial(points: u64, weaken: &[Weakness]) -> CrashOptions {
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
        assert!(report.promised_lines > 0 && report.recovery_s.unwrap().least > 0.0);
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
        ("hams-le/quick+three", Weakness::NoClones),
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
        let tracks = &replayed.requests;
        assert!(tracks.iter().any(|track| track.what == "write" && track.outcome.is_some()));
        assert!(tracks.iter().any(|track| track.what != "write"), "{tracks:?}");
        assert!(tracks.iter().all(|track| track.issued_ps <= cut.time_ps));
        // A write is told as what its fault is.
        for fault in &first.faults {
            let told = tracks.iter().filter(|it| it.what == "write" && it.address == fault.address);
            for track in told {
                assert_eq!(track.outcome, Some(fault.harm), "{name} {weakness:?}: {track:?}");
            }
        }
    }
}

/// At random events: what the judge finds who looks at what changed, and one who looks at everything.
fn judge_twice(spec: &SystemSpec, seed: u64, weaken: &[Weakness]) -> (u64, u64) {
    let spec = SystemSpec { check_data: true, ..spec.clone() };
    // More than all frames together.
    let table = if spec.controllers.is_some() { "12MiB" } else { "4MiB" };
    let stream = sized_gups(table, of_many(200, 500), seed);
    let mut machine = Machine::new(&spec, stream, &RunOptions::default()).unwrap();
    let line_bytes = machine.line_bytes();
    machine.organization_mut().power_mut().unwrap().prepare(weaken).unwrap();
    let mut judge = Judge::new(line_bytes);
    let mut draws = Random::stream(seed, "crash.judges");
    let (mut left, mut points, mut broken) = (0, 0, 0);
    let mut flushing = false;
    while let Some(at_ps) = machine.go_on().unwrap() {
        flushing |= draws.below(500) == 0;
        flushing = flushing && !machine.organization_mut().flush(at_ps);
        if left > 0 {
            left -= 1;
            continue;
        }
        // Points side by side, and far apart.
        let most = 1 << draws.below(14);
        left = draws.below(most);
        judge.follow(machine.organization_mut().power_mut().unwrap());
        let since = judge.since();
        let mut fork = machine.organization_mut().fork();
        let second = (draws.below(3) == 0).then(|| 1 + draws.below(500));
        cut_and_recover(fork.as_mut(), at_ps, second).unwrap();
        let verdict = judge.judge(&since, fork.power_mut().unwrap());
        assert_eq!(
            verdict,
            full_judge(fork.power_mut().unwrap(), line_bytes),
            "{} at {at_ps}",
            spec.name
        );
        points += 1;
        broken += verdict.broken();
    }
    (points, broken)
}

#[test]
fn who_looks_at_what_changed_finds_what_one_finds_who_looks_at_everything() {
    for (name, weakness) in [
        ("hams-lp/quick", None),
        ("hams-le/quick", None),
        ("hams-tp/quick", None),
        ("hams-te/quick", None),
        ("hams-le/quick", Some(Weakness::NoJournalTags)),
        ("hams-le/quick", Some(Weakness::NoCapacitors)),
        ("hams-le/quick", Some(Weakness::NoClones)),
        ("hams-le/quick", Some(Weakness::NoBusyBits)),
        ("hams-te/quick", Some(Weakness::EarlyCompletion)),
        ("hams-lp/quick", Some(Weakness::NoBackup)),
        ("hams-le/quick+three", None),
        ("hams-te/quick+three", Some(Weakness::EarlyCompletion)),
        ("nvdimm/quick", None),
        ("nvdimm/quick", Some(Weakness::NoBackup)),
        ("oracle/quick", None),
        ("optane-p/quick", None),
        ("flatflash-p/quick", None),
        ("hybrid/quick", None),
        ("hybrid/quick", Some(Weakness::EarlyCompletion)),
        ("hybrid/quick+saved", None),
        ("hybrid/quick+saved", Some(Weakness::NoBackup)),
        ("hybrid/alloy/quick+saved", None),
        ("flatflash-m/quick", None),
        ("flatflash-m/quick", Some(Weakness::EarlyCompletion)),
        ("cxl-ssd/quick", None),
        ("hybrid/quick+three", None),
        ("hybrid/quick+three", Some(Weakness::EarlyCompletion)),
        ("flatflash-p/quick+three", None),
    ] {
        let spec = if name.starts_with("hams") { system(name) } else { shrunk(name) };
        let weaken: Vec<_> = weakness.into_iter().collect();
        let (mut points, mut broken) = judge_twice(&spec, 3, &weaken);
        // What is missing does harm at few points.
        for seed in 4..8 {
            if weakness.is_some() && broken == 0 {
                let (more, of_them) = judge_twice(&spec, seed, &weaken);
                (points, broken) = (points + more, broken + of_them);
            }
        }
        assert!(points > 20, "{name}: {points}");
        assert_eq!(broken > 0, weakness.is_some(), "{name} {weakness:?}");
    }
}

/// Modules of DRAM that save themselves.
const BACKUP: &str = "{ module = \"1MiB\", flash = \"2MiB\", save_bandwidth = \"100MB/s\", \
     restore_bandwidth = \"100MB/s\", save_power = \"6W\", restore_power = \"6W\", energy = \"1J\", \
     charge_power = \"5W\" }";

/// A machine of which little is kept from what lies below the caches.
fn shrunk(name: &str) -> SystemSpec {
    let several = name.strip_suffix(SEVERAL);
    let name = several.unwrap_or(name);
    let saved = name.strip_suffix("+saved");
    let name = saved.unwrap_or(name);
    let mut sets: Vec<(&str, &str)> = match name {
        "hybrid/quick" => vec![("hybrid.cache.capacity", "2MiB")],
        "flatflash-m/quick" => vec![
            ("tiered.promotion.capacity", "1MiB"),
            ("tiered.promotion.most_threshold", "2"),
            ("tiered.promotion.counted_pages", "64"),
        ],
        _ => Vec::new(),
    };
    sets.extend(saved.map(|_| ("dram.backup", BACKUP)));
    sets.extend(CONTROLLERS.iter().filter(|_| several.is_some()));
    let sets: Vec<_> = sets.iter().map(|(path, to)| (path.to_string(), to.to_string())).collect();
    let mut spec = load(name, &sets).unwrap_or_else(|problems| panic!("{problems}")).spec;
    spec.processor.as_mut().unwrap().caches.truncate(1);
    spec
}

#[test]
fn nvdimm_and_stores_keep_what_they_answered_and_dram_promises_what_was_flushed_at_most() {
    for (name, promises) in [
        ("nvdimm/quick", true),
        ("optane-p/quick", true),
        ("flatflash-p/quick", true),
        ("hybrid/quick", true),
        ("hybrid/quick+saved", true),
        ("hybrid/alloy/quick", true),
        ("nvdimm-c/quick", true),
        ("optane-m/quick", true),
        ("ull/quick", true),
        ("ull-buff/quick", true),
        ("cxl-ssd/quick", true),
        ("flatflash-m/quick", true),
        ("hybrid/quick+three", true),
        ("nvdimm/quick+three", true),
        ("optane-p/quick+three", true),
        ("oracle/quick", false),
        ("oracle/quick+three", false),
    ] {
        let options =
            CrashOptions { points: Some(of_many(15, 40)), seed: 5, ..CrashOptions::default() };
        let work = sized_gups("8MiB", of_many(500, 2_000), 1);
        let report = crash(&shrunk(name), work, &options, &Watch::default()).unwrap();
        assert!(report.holds(), "{name}: {:?}", report.failing);
        assert_eq!(
            (report.points, report.promised_lines > 0),
            (of_many(15, 40), promises),
            "{name}"
        );
        assert!(report.lines > 0, "{name}");
        // What nobody has described is no zero.
        let store = shrunk(name).ssd;
        let told =
            name.starts_with("nvdimm/quick") || store.is_some_and(|ssd| ssd.nand.power.is_some());
        assert_eq!((report.recovery_s.is_some(), report.untold.is_none()), (told, told), "{name}");
    }
    let early = adversarial(200, &[Weakness::EarlyCompletion]);
    let report = crash(&shrunk("hybrid/quick"), gups(1), &early, &Watch::default()).unwrap();
    assert!(!report.holds(), "a flush that is told early loses nothing");
}

#[test]
fn pages_in_dram_of_the_host_promise_nothing_until_they_are_written_back() {
    let run = |weaken: &[Weakness]| {
        let options = adversarial(200, weaken);
        crash(&shrunk("flatflash-m/quick"), gups(1), &options, &Watch::default()).unwrap()
    };
    let report = run(&[]);
    assert!(report.holds() && report.promised_lines > 0, "{:?}", report.failing);
    assert!(report.under_way["fill"] > 0, "pages are promoted: {report:?}");
    // What is answered from DRAM is no promise: whoever took it for one would lose it.
    assert!(!run(&[Weakness::EarlyCompletion]).holds());
}

#[test]
fn a_cache_in_nvdimm_keeps_what_it_answered_and_one_whose_energy_is_short_does_not() {
    let run = |energy: &str, weaken: &[Weakness]| {
        let mut spec = shrunk("hybrid/quick+saved");
        let dram = spec.dram.as_mut().unwrap();
        dram.backup.as_mut().unwrap().energy = energy.parse().unwrap();
        crash(&spec, gups(1), &adversarial(150, weaken), &Watch::default())
    };
    let report = run("1J", &[]).unwrap();
    assert!(report.holds() && report.saved["nvdimm"] > 0, "{:?}", report.failing);
    assert!(report.reissued > 0 && report.promised_lines > 0, "{report:?}");
    for (energy, weaken) in [("1J", &[Weakness::NoBackup][..]), ("1mJ", &[])] {
        let report = run(energy, weaken).unwrap();
        assert!(report.faults["lost"] > 0, "{energy} {weaken:?}: {report:?}");
    }
    let refused = run("1J", &[Weakness::EarlyCompletion]);
    assert!(matches!(refused, Err(CrashError::MeansNothing(..))), "{refused:?}");
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
    let replay = Some("100+99999999999".parse().unwrap());
    let beyond = wrong(HAMS[0], CrashOptions { replay, ..CrashOptions::default() });
    assert!(matches!(beyond, CrashError::NoSecond(..)), "{beyond:?}");
    let late = CrashOptions { window_ps: Some((1 << 60, 1 << 61)), ..adversarial(1, &[]) };
    assert!(matches!(wrong(HAMS[0], late), CrashError::EmptyWindow(_)));
    let volatile = [("ssd.buffer.capacitors".to_owned(), "false".to_owned())];
    let forgetful = load("flatflash-p/quick", &volatile).unwrap().spec;
    let unknown = crash(&forgetful, gups(1), &adversarial(1, &[]), &Watch::default());
    assert!(matches!(unknown, Err(CrashError::NotModelled(_))), "{unknown:?}");
    let nodes = load("cxl-tiering/quick", &[]).unwrap().spec;
    let unknown = crash(&nodes, gups(1), &adversarial(1, &[]), &Watch::default());
    assert!(matches!(unknown, Err(CrashError::NothingPromised(..))), "{unknown:?}");
    let tmpfs = [("storage.tmpfs".to_owned(), "{ capacity = \"64MiB\" }".to_owned())];
    let in_memory = load("storage/quick", &tmpfs).unwrap().spec;
    let unknown = crash(&in_memory, gups(1), &adversarial(1, &[]), &Watch::default());
    assert!(matches!(unknown, Err(CrashError::NothingPromised(..))), "{unknown:?}");
}

/// A drive alone whose little buffer is rewritten all the time.
fn drive(name: &str, more: &[(&str, &str)]) -> SystemSpec {
    let small = [("ssd.buffer.flush_above", "256KiB"), ("ssd.buffer.dirty", "1MiB")];
    let sets = small.iter().chain(more);
    let sets: Vec<_> = sets.map(|(path, value)| (path.to_string(), value.to_string())).collect();
    load(name, &sets).unwrap_or_else(|problems| panic!("{problems}")).spec
}

fn fail_drive(spec: &SystemSpec, options: &CrashOptions) -> Result<CrashReport, CrashError> {
    let requests = || {
        let given =
            [("requests", 3000.into()), ("footprint", "2MiB".into()), ("reads", 0.2.into())]
                .map(|(name, value): (&str, serde_json::Value)| (name.to_owned(), value));
        let (source, _) = find_pattern("random").unwrap().make(&given, 1).unwrap();
        Requests { source: Box::new(source), clock: None, outstanding: Some(16) }
    };
    crash_alone(spec, [requests(), requests()], options, &Watch::default())
}

const VOLATILE: (&str, &str) = ("ssd.buffer.capacitors", "false");
const THROUGH: (&str, &str) = ("ssd.buffer.write_back", "false");

#[test]
fn a_drive_alone_keeps_what_its_buffer_its_flushes_and_forced_writes_promise() {
    for (name, more) in [
        ("device/z-ssd/quick", &[][..]),
        ("device/z-ssd/quick", &[VOLATILE]),
        ("device/z-ssd/quick", &[VOLATILE, THROUGH]),
        ("device/970-pro/quick", &[]),
    ] {
        let spec = drive(name, more);
        let report = fail_drive(&spec, &adversarial(300, &[])).unwrap();
        assert!(report.holds(), "{name} {more:?}: {:?}", report.failing);
        assert!(report.promised_lines > 0 && report.promised_lines < report.lines, "{report:?}");
        assert!(report.recovery_s.unwrap().least > 0.0);
        let keeps = report.saved["capacitor_pages"] > 0;
        assert_eq!(keeps, name.contains("z-ssd") && more.is_empty(), "{name} {more:?}");
        // Of a drive that writes through, pages that nobody was told of.
        assert_eq!(report.lost_pages > 0, !keeps, "{name} {more:?}");
    }
}

#[test]
fn a_drive_alone_without_its_capacitors_or_that_answers_early_loses_what_it_promised() {
    for (more, weakness) in [
        (&[][..], Weakness::NoCapacitors),
        (&[VOLATILE], Weakness::EarlyCompletion),
        (&[VOLATILE, THROUGH], Weakness::EarlyCompletion),
    ] {
        let spec = drive("device/z-ssd/quick", more);
        let report = fail_drive(&spec, &adversarial(100, &[weakness])).unwrap();
        assert!(!report.holds(), "{more:?} {weakness:?} loses nothing");
        let first = &report.failing[0];
        let alone = CrashOptions { replay: Some(first.point), ..adversarial(1, &[weakness]) };
        let replayed = fail_drive(&spec, &alone).unwrap();
        assert_eq!(replayed.failing, std::slice::from_ref(first), "{more:?} {weakness:?}");
        assert!(replayed.requests.iter().any(|track| track.outcome == Some("lost")));
    }
    for (more, weakness) in [
        (&[][..], Weakness::EarlyCompletion),
        (&[VOLATILE], Weakness::NoCapacitors),
        (&[], Weakness::NoClones),
    ] {
        let refused = fail_drive(&drive("device/z-ssd/quick", more), &adversarial(1, &[weakness]));
        assert!(matches!(refused, Err(CrashError::MeansNothing(..))), "{more:?} {weakness:?}");
    }
    for more in [
        &[VOLATILE, ("ssd.buffer.hold_up_time", "1ms")][..],
        &[VOLATILE, ("ssd.buffer.capacitor_energy", "1mJ")],
    ] {
        let sets: Vec<_> =
            more.iter().map(|(path, to)| (path.to_string(), to.to_string())).collect();
        let refused = load("device/z-ssd/quick", &sets).unwrap_err().to_string();
        assert!(refused.contains("the drive has no capacitors"), "{refused}");
    }
    let flat = load("device/haste", &[]).unwrap().spec;
    let refused = fail_drive(&flat, &adversarial(1, &[]));
    assert!(matches!(refused, Err(CrashError::NotModelled(_))), "{refused:?}");
}

/// Capacitors that do not last lose what was written last, and the report says at how many points.
#[test]
fn capacitors_that_are_empty_too_soon_lose_what_they_were_to_keep() {
    let of = |path: &str, bound: &str| {
        let spec = drive("device/z-ssd/quick", &[(path, bound)]);
        fail_drive(&spec, &adversarial(100, &[])).unwrap()
    };
    let (time, energy) = ("ssd.buffer.hold_up_time", "ssd.buffer.capacitor_energy");
    let enough = [of(time, "100ms"), of(energy, "100J")];
    for report in &enough {
        assert!(report.holds() && report.short_points == 0, "{:?}", report.failing);
    }
    let nothing = [of(time, "1us"), of(energy, "1nJ")];
    for report in &nothing {
        assert!(report.faults["lost"] > 0 && report.saved["capacitor_pages"] == 0, "{report:?}");
        assert!(report.short_points >= report.failing_points, "{report:?}");
    }
    // What the start takes is in both, and so is the time of a round of programs.
    let start_j = nothing[1].energy_j.unwrap().mean;
    let all_j = enough[1].energy_j.unwrap();
    let half_j = (all_j.least + all_j.most) / 2.0 - start_j;
    let half = of(energy, &format!("{}nJ", (half_j * 1e9) as u64));
    assert!(half.faults["lost"] > 0 && half.lost_pages > 0, "{half:?}");
    let kept = half.saved["capacitor_pages"];
    assert!(kept > 0 && kept < enough[1].saved["capacitor_pages"], "{half:?}");
    assert!((1..100).contains(&half.short_points), "{half:?}");
    assert!(half.failing_points <= half.short_points, "every fault is at such a point: {half:?}");
}

const RAID: &str = "{ drives = 3, stripe = \"8KiB\", queue_depth = 64, latency = \"2us\" }";

#[test]
fn disks_and_drives_side_by_side_keep_what_flushes_and_forced_writes_promise() {
    let named = |name: &str, more: &[(&str, &str)]| {
        let sets: Vec<_> =
            more.iter().map(|(path, to)| (path.to_string(), to.to_string())).collect();
        load(name, &sets).unwrap_or_else(|problems| panic!("{problems}")).spec
    };
    let through = ("disk.buffer.write_cache", "false");
    let small = ("disk.raid.cache.capacity", "256KiB");
    let behind = ("disk.raid.cache.write_back", "false");
    for (name, more) in [
        ("device/disk-7200", &[][..]),
        ("device/disk-7200", &[through]),
        ("device/disk-7200", &[("disk.raid", RAID)]),
        ("device/970-pro/quick", &[("ssd.raid", RAID)]),
        ("device/z-ssd/quick", &[("ssd.raid", RAID)]),
        ("device/disk-raid", &[]),
        ("device/disk-raid", &[small]),
        ("device/disk-raid", &[behind]),
    ] {
        let report = fail_drive(&named(name, more), &adversarial(150, &[])).unwrap();
        assert!(report.holds(), "{name} {more:?}: {:?}", report.failing);
        assert!(report.promised_lines > 100 && report.lines > report.promised_lines, "{report:?}");
        assert!(report.under_way["program"] > 0 && report.under_way["barrier"] > 0, "{report:?}");
        // Behind a battery drives lose copies of what it keeps.
        let battery = name == "device/disk-raid" && !more.contains(&behind);
        let keeps = more.contains(&through) || name.contains("z-ssd");
        assert!(battery || keeps != (report.lost_pages > 0), "{name} {more:?}");
        let saves = battery || name.contains("z-ssd");
        assert_eq!(report.saved["capacitor_pages"] > 0, saves, "{name} {more:?}");
        // Nobody has described how long a disk spins up.
        assert_eq!(report.untold.is_some(), name.contains("disk"), "{name}");
    }
    for (name, more, weakness) in [
        ("device/disk-7200", &[][..], Weakness::EarlyCompletion),
        ("device/disk-7200", &[("disk.raid", RAID)], Weakness::EarlyCompletion),
        ("device/z-ssd/quick", &[("ssd.raid", RAID)], Weakness::NoCapacitors),
        ("device/disk-raid", &[], Weakness::NoBattery),
        ("device/disk-raid", &[small], Weakness::EarlyCompletion),
    ] {
        let report = fail_drive(&named(name, more), &adversarial(100, &[weakness])).unwrap();
        assert!(report.faults["lost"] > 0, "{name} {more:?} {weakness:?} loses nothing");
    }
    let refused = fail_drive(
        &named("device/disk-7200", &[through]),
        &adversarial(1, &[Weakness::EarlyCompletion]),
    );
    assert!(matches!(refused, Err(CrashError::MeansNothing(..))), "{refused:?}");
}
