//! However a program ends, its status is its own and what was recorded is told truthfully.

mod common;

use common::{count, guest, job, library, record, scratch, scratch_file, start};
use std::path::Path;
use std::time::Duration;
use tierscope_record::job::SinkJob;
use tierscope_record::launch::{LaunchError, launch};
use tierscope_record::sink::tst::TstJob;
use tierscope_workload::trace::{TstMetadata, TstReader};

#[test]
fn the_exit_status_is_the_programs() {
    needs_qemu!();
    let program = guest("ends");
    for (arguments, status) in
        [(&["exit", "0"][..], 0), (&["exit", "42"], 42), (&["handled"], 0), (&["threads-run"], 7)]
    {
        let report = count(&program, arguments);
        assert_eq!(report.exit_status, status, "{arguments:?}");
        assert!(report.is_complete(), "{arguments:?}: {report:?}");
        let recorded = &report.result.unwrap()["recorded"];
        assert!(recorded["accesses"].as_u64().unwrap() > 400_000, "{arguments:?}: {recorded}");
    }
}

#[test]
fn a_program_that_dies_by_a_signal_is_told_by_its_status_and_is_not_complete() {
    needs_qemu!();
    let program = guest("ends");
    for (how, status) in [("crash", 128 + 11), ("abort", 128 + 6), ("kill", 128 + 9)] {
        let report = count(&program, &[how]);
        assert_eq!(report.exit_status, status, "{how}");
        // QEMU 7.2 tells its plugins nothing of such an end; later ones do, save for the last.
        assert!(!report.is_complete() || how != "kill", "{how}: {report:?}");
    }
}

#[test]
fn a_program_that_closes_every_descriptor_is_recorded_to_its_end() {
    needs_qemu!();
    let recording = record(&guest("ends"), &["closes"]);
    assert_eq!(recording.report.exit_status, 5);
    assert!(recording.totals.accesses() > 8_000_000);
}

#[test]
fn a_forked_child_leaves_the_recording_alone() {
    needs_qemu!();
    let recording = record(&guest("forks"), &[]);
    assert_eq!(recording.report.exit_status, 3 + 2, "the child's status and the parent's memory");
    assert_eq!(recording.threads.len(), 1);
    let accesses = recording.totals.accesses();
    assert!((180_000..400_000).contains(&accesses), "{accesses}: the parent's alone");
    assert!(recording.report.notices[0].contains("another process"), "and a notice says so");
}

#[test]
fn a_program_that_runs_another_in_its_place_is_recorded_until_then() {
    needs_qemu!();
    let recording = record(&guest("ends"), &["exec"]);
    assert_eq!(recording.report.exit_status, 9, "that of the other program");
    assert!(!recording.report.is_complete());
    let ended = &recording.report.result.as_ref().unwrap()["ended"];
    assert_eq!((ended["how"].as_str(), ended["program"].as_str()), (Some("exec"), Some("/bin/sh")));
    assert!(recording.totals.accesses() > 400_000);
}

#[test]
fn a_run_can_be_brought_to_an_early_end() {
    needs_qemu!();
    let path = scratch_file("stopped.tst");
    let sink = SinkJob::Tst(TstJob { path: path.clone(), metadata: TstMetadata::default() });
    let mut run = start(&guest("ends"), &["forever"], sink).unwrap();
    assert_eq!(run.wait_for(Duration::from_millis(300)).unwrap(), None);
    run.stop().unwrap();
    let mut result = None;
    while result.is_none() {
        std::thread::sleep(Duration::from_millis(20));
        result = run.poll().into_iter().find(|record| record["type"] == "result");
    }
    assert_eq!(result.unwrap()["ended"]["how"], "stopped");
    run.kill().unwrap();
    let report = run.finish().unwrap();
    assert_eq!(report.exit_status, 128 + 9);
    assert!(!report.is_complete());
    assert!(TstReader::open(&path, false).unwrap().operations() > 0);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_killed_recording_leaves_what_can_be_replayed_up_to_there() {
    needs_qemu!();
    let path = scratch_file("killed.tst");
    let sink = SinkJob::Tst(TstJob { path: path.clone(), metadata: TstMetadata::default() });
    let partial = path.with_extension("tst.partial");
    let mut run = start(&guest("ends"), &["forever"], sink).unwrap();
    while std::fs::metadata(&partial).map_or(0, |status| status.len()) < 1 << 14 {
        assert_eq!(run.wait_for(Duration::from_millis(20)).unwrap(), None);
    }
    run.kill().unwrap();
    assert!(run.finish().unwrap().result.is_none());
    assert!(!path.exists(), "only a complete recording has the name");
    assert!(TstReader::open(&partial, false).is_err());
    let reader = TstReader::open(&partial, true).unwrap();
    assert!(reader.damage().is_some() && reader.operations() > 0);
    std::fs::remove_file(partial).unwrap();
}

#[test]
fn a_recording_that_cannot_be_written_is_an_error_before_the_program_runs() {
    needs_qemu!();
    let path = Path::new("/nonexistent/directory/app.tst").to_owned();
    let sink = SinkJob::Tst(TstJob { path, metadata: TstMetadata::default() });
    let error = start(&guest("ends"), &["exit"], sink).unwrap().finish().unwrap_err();
    let LaunchError::NotStarted { message } = error else { panic!("{error}") };
    assert!(message.contains("/nonexistent/directory/app.tst"), "{message}");
    assert!(message.contains("No such file"), "{message}");
}

#[test]
fn what_is_missing_is_said_before_anything_runs() {
    needs_qemu!();
    let mut without = job(Path::new("/bin/true"), &[], SinkJob::Discard {});
    without.library = scratch().join("none.so");
    assert!(matches!(launch(&without), Err(LaunchError::LibraryMissing { .. })));
    without.library = library();
    without.program = "/nonexistent/program".into();
    assert!(matches!(launch(&without), Err(LaunchError::ProgramMissing { .. })));
}

#[test]
fn a_script_is_recorded_as_its_interpreter() {
    needs_qemu!();
    let path = scratch_file("script.sh");
    std::fs::write(&path, "#!/bin/sh\nexit 6\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).unwrap();
    let report = count(&path, &[]);
    assert_eq!(report.exit_status, 6);
    assert!(report.is_complete());
    std::fs::remove_file(path).unwrap();
}
