//! A program's processes are recorded together, wherever they come from and however they end.

mod common;

use common::{Event, Recording, guest, record, run_through, start};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;
use tierscope_record::job::{MachinesJob, SinkJob};
use tierscope_system::run::RunOptions;
use tierscope_system::spec::load;
use tierscope_workload::{Call, OpKind};

/// Words that the guest stores to in a round.
const WORDS: u64 = 1 << 12;

/// Stores by process, as the high bits of their addresses say.
fn stores(recording: &Recording) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    for event in recording.threads.values().flatten() {
        if let Event::Op(op) = event
            && op.kind() == Some(OpKind::Store)
        {
            *counts.entry(op.word >> 48).or_default() += 1;
        }
    }
    counts
}

/// Rounds of each process but the first, whose start stores much too.
fn rounds(recording: &Recording) -> BTreeMap<u64, u64> {
    let forked = stores(recording).into_iter().filter(|(process, _)| *process > 0);
    forked.map(|(process, stores)| (process, stores / WORDS)).collect()
}

fn processes(recording: &Recording) -> u64 {
    recording.report.result.as_ref().unwrap()["recorded"]["processes"].as_u64().unwrap()
}

#[test]
fn each_process_that_is_forked_is_recorded_to_its_end_and_waited_for() {
    needs_qemu!();
    let recording = record(&guest("family"), &["two"]);
    assert_eq!(recording.report.exit_status, 14);
    assert!(recording.report.is_complete(), "{:?}", recording.report);
    assert_eq!(recording.report.notices, Vec::<String>::new());
    assert_eq!(rounds(&recording), BTreeMap::from([(1, 10), (2, 10)]));
    assert_eq!(processes(&recording), 3);
    assert_eq!(run_through(&recording), 2, "the parent waits for each");
}

#[test]
fn a_forked_process_has_threads_and_children_of_its_own() {
    needs_qemu!();
    let recording = record(&guest("family"), &["nested"]);
    assert_eq!(recording.report.exit_status, 8);
    // The child's thread works in its memory.
    assert_eq!(rounds(&recording), BTreeMap::from([(1, 2), (2, 3)]));
    assert!(run_through(&recording) >= 2);
    let spawned: Vec<_> = recording
        .threads
        .values()
        .flatten()
        .filter_map(|event| match event {
            Event::Call(Call::Spawn { thread }) => Some(*thread),
            _ => None,
        })
        .collect();
    assert_eq!(spawned.len(), 3);
    assert_eq!(BTreeSet::from_iter(spawned), BTreeSet::from([1, 2, 3]));
}

#[test]
fn a_process_that_outlives_the_first_is_recorded_to_its_end() {
    needs_qemu!();
    let begun = Instant::now();
    let recording = record(&guest("family"), &["orphan"]);
    assert!(begun.elapsed().as_secs() < 30, "the pipe ends with the first process");
    assert_eq!(recording.report.exit_status, 4, "the status is the first one's");
    assert_eq!(rounds(&recording), BTreeMap::from([(1, 5)]));
    assert!(recording.report.is_complete(), "{:?}", recording.report);
}

#[test]
fn a_process_that_is_killed_leaves_what_it_did() {
    needs_qemu!();
    for number in [libc::SIGSEGV, libc::SIGTERM, libc::SIGKILL] {
        let recording = record(&guest("family"), &["killed", &number.to_string()]);
        assert_eq!(recording.report.exit_status, 128 + number);
        assert_eq!(rounds(&recording), BTreeMap::from([(1, 2)]), "signal {number}");
        assert!(recording.report.is_complete(), "{:?}", recording.report);
        run_through(&recording);
    }
}

#[test]
fn more_processes_than_channels_follow_each_other() {
    needs_qemu!();
    let recording = record(&guest("family"), &["many", "150"]);
    assert_eq!(recording.report.exit_status, 0);
    assert_eq!(processes(&recording), 151);
    assert_eq!(stores(&recording).len(), 151);
    assert_eq!(run_through(&recording), 150);
    assert_eq!(recording.report.notices, Vec::<String>::new());
}

#[test]
fn machines_take_every_instruction_of_every_process() {
    needs_qemu!();
    for arguments in [&["two"][..], &["nested"], &["killed", "9"], &["many", "20"]] {
        let systems = ["oracle/quick", "hybrid/quick", "storage/quick"];
        let sink = SinkJob::Machines(MachinesJob {
            systems: systems.iter().map(|name| load(name, &[]).unwrap().spec).collect(),
            options: RunOptions::default(),
            memory_bound_bytes: 64 << 20,
            spill_dir: common::scratch(),
        });
        let report = start(&guest("family"), arguments, sink).unwrap().finish().unwrap();
        assert!(report.is_complete(), "{arguments:?}: {report:?}");
        let result = report.result.unwrap();
        for outcome in result["sink"]["outcomes"].as_array().unwrap() {
            assert!(outcome["partial_reason"].is_null(), "{arguments:?}: {outcome}");
            assert_eq!(
                outcome["result"]["instructions"], result["recorded"]["instructions"],
                "{arguments:?}"
            );
        }
    }
}

/// What is told of processes in a thread: forks, execs and ends.
fn told(recording: &Recording, thread: u32) -> Vec<Call> {
    let of_processes = |event: &Event| match event {
        Event::Call(call @ (Call::Fork { .. } | Call::Exec { .. } | Call::Exit { .. })) => {
            Some(*call)
        }
        _ => None,
    };
    recording.threads[&thread].iter().filter_map(of_processes).collect()
}

#[test]
fn forks_and_ends_are_told_where_they_happen() {
    needs_qemu!();
    let recording = record(&guest("family"), &["two"]);
    // Each process gets its thread when it is first heard of: which is first depends on the host.
    let forks = told(&recording, 0);
    let born = |call: &Call| match *call {
        Call::Fork { parent: 0, process, thread } => (process, thread),
        ref other => panic!("{other:?}"),
    };
    let [(1, one), (2, two)] = forks.iter().map(born).collect::<Vec<_>>()[..] else {
        panic!("{forks:?}")
    };
    assert_eq!(one + two, 3, "two threads behind the first: {forks:?}");
    assert_eq!(told(&recording, one), [Call::Exit { process: 1 }]);
    assert_eq!(told(&recording, two), [Call::Exit { process: 2 }]);
    let nested = record(&guest("family"), &["nested"]);
    assert_eq!(told(&nested, 0), [Call::Fork { parent: 0, process: 1, thread: 1 }]);
    let child = told(&nested, 1);
    assert!(matches!(child[0], Call::Fork { parent: 1, process: 2, .. }), "{child:?}");
    assert_eq!(child[1..], [Call::Exit { process: 1 }]);
}

/// A program on a machine; its counters.
fn counted(program: &Path, arguments: &[&str], system: &str) -> serde_json::Value {
    let sink = SinkJob::Machines(MachinesJob {
        systems: vec![load(system, &[]).unwrap().spec],
        options: RunOptions::default(),
        memory_bound_bytes: 64 << 20,
        spill_dir: common::scratch(),
    });
    let report = start(program, arguments, sink).unwrap().finish().unwrap();
    assert!(report.is_complete(), "{arguments:?}: {report:?}");
    report.result.unwrap()["sink"]["outcomes"][0]["result"]["counters"].clone()
}

#[test]
fn what_a_fork_shares_is_copied_only_where_it_is_written() {
    needs_qemu!();
    for system in ["oracle/quick", "storage/quick"] {
        let alone = counted(Path::new("sh"), &["-c", ":"], system);
        let forked = counted(Path::new("sh"), &["-c", "(:); (:)"], system);
        let count = |counters: &serde_json::Value, name: &str| counters[name].as_u64().unwrap_or(0);
        assert_eq!((count(&alone, "forks"), count(&alone, "fork_copies")), (0, 0));
        assert_eq!(count(&forked, "forks"), 2, "{system}");
        let copies = count(&forked, "fork_copies");
        assert!((4..200).contains(&copies), "{system}: {copies} pages copied for two subshells");
        let faults = count(&forked, "minor_faults") - count(&alone, "minor_faults");
        assert!(faults < copies + 100, "{system}: {faults} faults, {copies} of them copies");
        let more = count(&forked, "footprint_bytes") - count(&alone, "footprint_bytes");
        assert!(more / 4096 < copies + 40, "{system}: {more} B more for {copies} copies");
    }
}
