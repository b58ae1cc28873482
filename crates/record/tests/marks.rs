//! Marks are given at exact places: by the program's own marks, and where the user names code.

mod common;

use common::{Event, Recording, guest, guest_library, job, record, record_region, scratch_file};
use std::path::Path;
use tierscope_record::job::{MachinesJob, SinkJob};
use tierscope_record::launch::{LaunchError, launch};
use tierscope_record::symbols::Region;
use tierscope_system::run::{Bound, RunOptions, mark};
use tierscope_system::spec::load;
use tierscope_workload::{Call, OpKind};

fn region(start: &str, stop: &str) -> Region {
    let named = |name: &str| (!name.is_empty()).then(|| name.to_owned());
    Region { start: named(start), stop: named(stop) }
}

/// Marks in the first thread, each with the addresses of the stores next before and after it.
fn marks(recording: &Recording) -> Vec<(u64, u64, u64)> {
    let events = &recording.threads[&0];
    let store = |event: &Event| match event {
        Event::Op(op) if op.kind() == Some(OpKind::Store) => Some(op.word),
        _ => None,
    };
    let mark = |(at, event): (usize, &Event)| match event {
        Event::Call(Call::Marker { mark }) => {
            let before = events[..at].iter().rev().find_map(store).unwrap_or(0);
            let after = events[at..].iter().find_map(store).unwrap_or(0);
            Some((*mark, before, after))
        }
        _ => None,
    };
    events.iter().enumerate().filter_map(mark).collect()
}

fn numbers(recording: &Recording) -> Vec<u64> {
    marks(recording).into_iter().map(|(mark, ..)| mark).collect()
}

#[test]
fn a_programs_own_marks_stand_between_its_stores_as_written() {
    needs_qemu!();
    let recording = record(&guest("marked"), &[]);
    let marks = marks(&recording);
    let word = marks[0].1;
    assert_eq!(
        marks,
        vec![
            (mark::START, word, word + 8),
            (mark::STOP, word + 16, word + 24),
            (700, word + 24, marks[2].2)
        ]
    );
    let alone = std::process::Command::new(guest("marked")).status().unwrap();
    assert!(alone.success(), "without a recorder they do nothing");
}

#[test]
fn machines_count_what_is_between_a_programs_marks() {
    needs_qemu!();
    let options = RunOptions {
        start: Some(Bound::Mark(mark::START)),
        stops: vec![Bound::Mark(mark::STOP)],
        ..RunOptions::default()
    };
    let sink = SinkJob::Machines(MachinesJob {
        systems: vec![
            load("oracle/quick", &[]).unwrap().spec,
            load("storage/quick", &[]).unwrap().spec,
        ],
        options,
        memory_bound_bytes: 64 << 20,
        spill_dir: common::scratch(),
    });
    let report = common::start(&guest("marked"), &[], sink).unwrap().finish().unwrap();
    let result = report.result.expect("the run is complete");
    for outcome in result["sink"]["outcomes"].as_array().unwrap() {
        assert_eq!(outcome["result"]["accesses"], 2, "{outcome}");
        // Two stores and the mark at the end.
        assert_eq!(outcome["result"]["instructions"], 3, "{outcome}");
        assert!(outcome["partial_reason"].is_null(), "{outcome}");
    }
}

#[test]
fn a_function_is_marked_before_its_first_instruction_by_any_of_its_names() {
    needs_qemu!();
    let program = guest("places");
    let plain = record_region(&program, &[], region("plain_step", ""));
    let [(mark::START, _, words)] = marks(&plain)[..] else { panic!("{:?}", marks(&plain)) };
    for (start, stop, index) in [
        ("_ZN8geometry4areaEd", "_RNvCs1234_7mycrate3foo", 1),
        ("geometry::area", "mycrate::foo", 1),
        ("geometry::area(double)", "places:dup::f(int)", 1),
        ("dup::f(double)", "plain_step", 4),
    ] {
        // The guest's file has a name of its own.
        let own = format!("{}:", program.file_name().unwrap().to_string_lossy());
        let recording = record_region(&program, &[], region(start, &stop.replace("places:", &own)));
        let marks = marks(&recording);
        assert_eq!(marks.len(), 2, "{start} {stop}: {marks:?}");
        let started = marks.iter().find(|(mark, ..)| *mark == mark::START).unwrap();
        assert_eq!(started.2, words + 8 * index, "{start}: the store that follows");
    }
    let without = record(&program, &[]);
    assert_eq!(numbers(&without), Vec::<u64>::new());
    assert_eq!(without.totals.instructions, plain.totals.instructions, "marks are no instructions");
}

#[test]
fn a_function_of_a_library_is_marked_each_time_it_runs() {
    needs_qemu!();
    let program = guest("places");
    let both = [mark::STOP, mark::START];
    let recording = record_region(&program, &[], region("qsort", "qsort"));
    assert_eq!(numbers(&recording), both.repeat(3), "a region ends before the next begins");
    let recording = record_region(&program, &[], region("libm.so:frexp", "libc.so.6:frexp"));
    assert_eq!(numbers(&recording).len(), 1, "one of the two is the program's");
}

#[test]
fn a_function_of_a_library_that_is_loaded_later_is_marked() {
    needs_qemu!();
    let library = guest_library("late");
    let arguments = [library.to_str().unwrap()];
    let name = library.file_name().unwrap().to_str().unwrap();
    let program = guest("places");
    let late = region(&format!("{name}:late_step"), "");
    let recording = record_region(&program, &arguments, late);
    let marks = marks(&recording);
    let [(mark::START, _, first), (mark::START, _, second)] = marks[..] else {
        panic!("{marks:?}");
    };
    assert_eq!(second, first + 8);
    let unknown = region(&format!("{name}:late_stop"), "");
    let mut job = job(&program, &arguments, SinkJob::Discard { sites: None });
    job.region = unknown;
    let report = launch(&job).unwrap().finish().unwrap();
    assert_eq!(
        report.errors,
        [format!(
            "{name}:late_stop, looked for in {}: it has no such function; did you mean late_step?",
            library.canonicalize().unwrap().display()
        )]
    );
    assert_eq!(report.exit_status, 0, "the program goes on");
}

/// Why a region is refused.
fn refusal(program: &Path, region: Region) -> String {
    let mut job = job(program, &[], SinkJob::Discard { sites: None });
    job.region = region;
    match launch(&job) {
        Err(LaunchError::NoPlace(why)) => why,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was started"),
    }
}

#[test]
fn a_name_that_is_no_place_is_refused_before_anything_runs() {
    needs_qemu!();
    let program = guest("places").canonicalize().unwrap();
    let shown = program.display();
    let begins = "where the region of interest begins";
    assert_eq!(
        refusal(&program, region("plain_stop", "")),
        format!(
            "`plain_stop`, {begins}: neither {shown} nor any of the 2 libraries that it is linked with \
             has such a function; did you mean plain_step?"
        )
    );
    let ambiguous = refusal(&program, region("dup::f", ""));
    assert!(
        ambiguous.starts_with(&format!(
            "`dup::f`, {begins}: in {shown}, dup::f is the name of 2 functions (0x"
        )) && ambiguous.ends_with("); name one by its address")
            && ambiguous.contains(" dup::f(int), 0x"),
        "{ambiguous}"
    );
    let in_two = refusal(&program, region("", "frexp"));
    assert!(
        in_two.starts_with(
            "`frexp`, where the region of interest ends: several libraries have one (/"
        ) && in_two.ends_with("; name one of them, as in libm.so.6:frexp"),
        "{in_two}"
    );
    let indirect = refusal(&program, region("sin", ""));
    assert!(indirect.contains("sin is chosen from several by the processor"), "{indirect}");
    let nowhere = refusal(&program, region("zzz_quite_unlike_anything_there", ""));
    assert!(nowhere.contains("A program that was stripped"), "{nowhere}");
    let elsewhere = refusal(&program, region("nofile:f", ""));
    assert!(elsewhere.contains("nofile is neither the program nor a library"), "{elsewhere}");
    let unreadable = refusal(&program, region("/nonexistent/libx.so:f", ""));
    assert!(unreadable.contains("/nonexistent/libx.so: No such file"), "{unreadable}");
    let fifo = common::scratch_file("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let pipe = refusal(&program, region(&format!("{}:f", fifo.display()), ""));
    assert!(pipe.contains("no regular file"), "{pipe}");
    std::fs::remove_file(fifo).unwrap();
    for (name, why) in [
        ("wo\nrk\x1b[31m", "`wo\\nrk\\u{1b}[31m` holds control characters"),
        (&"a".repeat(100_000), "has 100000 bytes, and a name at most 4096"),
    ] {
        let refused = refusal(&program, region(name, ""));
        assert!(refused.contains(why) && refused.len() < 300, "{refused}");
    }
    let nameless = refusal(&program, region("libm.so:", ""));
    assert!(nameless.contains("there is no name"), "{nameless}");
}

#[test]
fn an_address_names_a_place_too() {
    needs_qemu!();
    let program = guest("places");
    // The message tells addresses; nm would as well.
    let told = refusal(&program, region("dup::f", ""));
    let address = told.split("(").nth(1).unwrap().split(' ').next().unwrap();
    let recording = record_region(&program, &[], region(address, ""));
    assert_eq!(numbers(&recording), [mark::START]);
    let unfit = refusal(&program, region("0x10", ""));
    assert!(unfit.ends_with("0x10 is no address of code in it"), "{unfit}");
}

#[test]
fn a_mark_of_a_recording_is_replayed() {
    needs_qemu!();
    use std::sync::atomic::AtomicBool;
    use tierscope_record::sink::tst::TstJob;
    use tierscope_system::run::run_machines;
    use tierscope_workload::trace::{TstMetadata, TstReader};
    let path = scratch_file("marked.tst");
    let sink = SinkJob::Tst(TstJob {
        path: path.clone(),
        metadata: TstMetadata::default(),
        max_bytes: None,
    });
    common::start(&guest("marked"), &[], sink).unwrap().finish().unwrap();
    let options = RunOptions {
        start: Some(Bound::Mark(mark::START)),
        stops: vec![Bound::Mark(mark::STOP)],
        ..RunOptions::default()
    };
    let systems = [load("hybrid/quick", &[]).unwrap().spec];
    let stream = Box::new(TstReader::open(&path, false).unwrap());
    let stop = AtomicBool::new(false);
    let outcomes = run_machines(&systems, vec![stream], &options, &(), &stop);
    let result = &outcomes[0].result;
    assert_eq!((result.accesses, result.instructions), (2, 3));
    std::fs::remove_file(path).unwrap();
}
