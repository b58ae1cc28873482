//! However a program ends, its status is its own and what was recorded is told truthfully.

mod common;

use common::{Event, count, guest, job, library, read, record, scratch, scratch_file, start};
use serde_json::json;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tierscope_record::job::SinkJob;
use tierscope_record::launch::{Backend, LaunchError, Program, QemuBackend, launch, launch_under};
use tierscope_record::sink::tst::TstJob;
use tierscope_workload::OpKind;
use tierscope_workload::trace::{TstMetadata, TstReader, partial_path};

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
fn a_program_that_a_signal_kills_is_recorded_to_its_death() {
    needs_qemu!();
    let program = guest("ends");
    for (how, number) in [("crash", 11), ("abort", 6), ("kill", 9)] {
        let recording = record(&program, &[how]);
        assert_eq!(recording.report.exit_status, 128 + number, "{how}");
        assert!(!recording.report.is_complete(), "{how}: {:?}", recording.report);
        let result = recording.report.result.as_ref().unwrap();
        assert_eq!(result["ended"], json!({"how": "signal", "number": number}));
        assert!(recording.totals.ended.starts_with(&format!("signal {number} (SIG")));
        assert!(recording.totals.cut);
        assert!(recording.totals.accesses() > 400_000, "{how}: all of its work is there");
        assert_eq!(recording.report.notices, Vec::<String>::new(), "nothing is missing");
    }
}

#[test]
fn a_signal_from_outside_ends_the_recording_and_a_job_control_signal_does_not() {
    needs_qemu!();
    lead_a_process_group();
    let path = scratch_file("terminated.tst");
    let sink = SinkJob::Tst(TstJob {
        path: path.clone(),
        metadata: TstMetadata::default(),
        max_bytes: None,
    });
    let mut run = start(&guest("ends"), &["forever"], sink).unwrap();
    assert_eq!(run.wait_for(Duration::from_millis(300)).unwrap(), None);
    run.signal(libc::SIGTSTP).unwrap();
    wait_until("it is stopped", || state(run.pid()) == 'T');
    run.signal(libc::SIGCONT).unwrap();
    wait_until("it goes on", || state(run.pid()) != 'T');
    run.signal(libc::SIGTERM).unwrap();
    let report = run.finish().unwrap();
    assert_eq!(report.exit_status, 128 + 15);
    assert_eq!(report.result.unwrap()["ended"], json!({"how": "signal", "number": 15}));
    let mut reader = TstReader::open(&path, false).unwrap();
    let totals = reader.totals().unwrap().clone();
    assert_eq!(totals.ended, "signal 15 (SIGTERM)");
    let is_access =
        |event: &Event| matches!(event, Event::Op(op) if op.kind() != Some(OpKind::Compute));
    let accesses = read(&mut reader, 0).iter().filter(|event| is_access(event)).count();
    assert_eq!(accesses as u64, totals.accesses(), "all of it can be replayed");
    std::fs::remove_file(path).unwrap();
}

/// A process group whose members have no parent outside it in their session is orphaned, and the
/// kernel lets nobody stop it. What runs the tests may be such a group; one of their own is not.
fn lead_a_process_group() {
    // SAFETY: a system call that touches no memory. Where it is refused, the tests lead one already.
    #[allow(unsafe_code)]
    unsafe {
        libc::setpgid(0, 0)
    };
}

#[test]
fn what_a_signal_takes_from_other_threads_is_said() {
    needs_qemu!();
    let mut run =
        start(&guest("ends"), &["threads-forever"], SinkJob::Discard { sites: None }).unwrap();
    assert_eq!(run.wait_for(Duration::from_millis(500)).unwrap(), None);
    // Not SIGINT, which a shell has those ignore that it runs in the background.
    run.signal(libc::SIGTERM).unwrap();
    let report = run.finish().unwrap();
    assert_eq!(report.exit_status, 128 + 15);
    assert_eq!(report.result.unwrap()["ended"]["number"], 15);
    assert_eq!(report.notices.len(), 1, "{:?}", report.notices);
    assert!(report.notices[0].contains("of each of 3 other threads"), "{:?}", report.notices);
}

#[test]
fn what_kills_a_forked_child_leaves_the_recording_alone() {
    needs_qemu!();
    let recording = record(&guest("ends"), &["child-aborts"]);
    assert_eq!(recording.report.exit_status, 6, "the parent saw its child abort");
    assert!(recording.report.is_complete(), "{:?}", recording.report);
    assert!(recording.totals.accesses() > 8_000_000);
}

#[test]
fn a_program_dies_with_whoever_started_it() {
    needs_qemu!();
    let program = guest("ends");
    let launcher = std::thread::spawn(move || {
        let mut run = start(&program, &["forever"], SinkJob::Discard { sites: None }).unwrap();
        assert_eq!(run.wait_for(Duration::from_millis(200)).unwrap(), None);
        let pid = run.pid();
        // As where the launcher is killed: nothing of it is dropped.
        std::mem::forget(run);
        pid
    });
    let pid = launcher.join().unwrap();
    // Nobody has waited for it.
    wait_until("it is dead", || state(pid) == 'Z');
}

/// A process's state: the letter behind its name in brackets (proc(5)).
fn state(pid: u32) -> char {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    line.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
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
fn a_forked_child_is_recorded_beside_its_parent() {
    needs_qemu!();
    let recording = record(&guest("forks"), &[]);
    assert_eq!(recording.report.exit_status, 3 + 2, "the child's status and the parent's memory");
    assert_eq!(recording.threads.len(), 2);
    let accesses = recording.totals.accesses();
    assert!((2_800_000..3_100_000).contains(&accesses), "{accesses}: mostly the child's");
    assert_eq!(recording.report.notices, Vec::<String>::new());
}

#[test]
fn a_run_can_be_brought_to_an_early_end() {
    needs_qemu!();
    let path = scratch_file("stopped.tst");
    let sink = SinkJob::Tst(TstJob {
        path: path.clone(),
        metadata: TstMetadata::default(),
        max_bytes: None,
    });
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
fn a_program_that_is_killed_from_outside_is_recorded_to_its_death() {
    needs_qemu!();
    let path = scratch_file("outside.tst");
    let sink = SinkJob::Tst(TstJob {
        path: path.clone(),
        metadata: TstMetadata::default(),
        max_bytes: None,
    });
    let mut run = start(&guest("ends"), &["waits"], sink).unwrap();
    wait_until("it has done its work", || {
        run.poll().iter().any(|record| record["recorded"]["accesses"].as_u64() > Some(400_000))
    });
    run.signal(libc::SIGKILL).unwrap();
    let report = run.finish().unwrap();
    assert_eq!(report.exit_status, 128 + 9);
    let ended = &report.result.as_ref().unwrap()["ended"];
    assert_eq!(*ended, json!({"how": "signal", "number": 9}));
    let reader = TstReader::open(&path, false).unwrap();
    assert!(reader.totals().unwrap().accesses() > 400_000);
    std::fs::remove_file(path).unwrap();
}

/// QEMU, with its standard input closed.
struct WithoutInput(QemuBackend);

impl Backend for WithoutInput {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn emulator(&self, library: &Path, job: &Path) -> Vec<OsString> {
        self.0.emulator(library, job)
    }

    fn command(&self, program: &Program, library: &Path, job: &Path) -> Command {
        let command = self.0.command(program, library, job);
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$0\" \"$@\" <&-"]).arg(command.get_program());
        shell.args(command.get_args());
        shell
    }

    fn unobserved(&self, program: &Program) -> Command {
        self.0.unobserved(program)
    }
}

#[test]
fn a_program_without_standard_input_can_run_others() {
    needs_qemu!();
    let job = job(
        Path::new("sh"),
        &["-c", "/bin/true; exec /bin/true"],
        SinkJob::Discard { sites: None },
    );
    let report = launch_under(&WithoutInput(QemuBackend::find().unwrap()), &job).unwrap().finish();
    let report = report.unwrap();
    assert_eq!(report.exit_status, 0);
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(report.result.unwrap()["recorded"]["processes"], 2);
}

#[test]
fn a_program_whose_machines_are_killed_ends_with_them() {
    needs_qemu!();
    let mut run = start(&guest("ends"), &["forever"], SinkJob::Discard { sites: None }).unwrap();
    let mut host = None;
    wait_until("it has begun", || {
        host = run.poll().iter().find_map(|record| record["host"].as_i64());
        host.is_some()
    });
    // SAFETY: the process is this run's.
    #[allow(unsafe_code)]
    unsafe {
        libc::kill(host.unwrap() as libc::pid_t, libc::SIGKILL)
    };
    let report = run.finish().unwrap();
    assert_eq!(report.exit_status, 128 + 9);
    assert!(report.result.is_none());
    assert!(report.errors[0].contains("want of memory"), "{:?}", report.errors);
}

#[test]
fn a_killed_recording_leaves_what_can_be_replayed_up_to_there() {
    needs_qemu!();
    let path = scratch_file("killed.tst");
    let sink = SinkJob::Tst(TstJob {
        path: path.clone(),
        metadata: TstMetadata::default(),
        max_bytes: None,
    });
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
fn a_killed_recording_of_a_program_that_does_little_holds_what_it_did() {
    needs_qemu!();
    let path = scratch_file("waiting.tst");
    let sink = SinkJob::Tst(TstJob {
        path: path.clone(),
        metadata: TstMetadata::default(),
        max_bytes: None,
    });
    let mut run = start(&guest("ends"), &["waits"], sink).unwrap();
    let operations =
        || TstReader::open(&partial_path(&path), true).map_or(0, |reader| reader.operations());
    wait_until("its operations are in the file", || operations() > 400_000);
    run.kill().unwrap();
    assert_eq!(run.finish().unwrap().exit_status, 128 + 9);
    std::fs::remove_file(partial_path(&path)).unwrap();
}

#[test]
fn a_recording_that_cannot_be_written_is_an_error_before_the_program_runs() {
    needs_qemu!();
    let path = Path::new("/nonexistent/directory/app.tst").to_owned();
    let sink = SinkJob::Tst(TstJob { path, metadata: TstMetadata::default(), max_bytes: None });
    let error = start(&guest("ends"), &["exit"], sink).unwrap().finish().unwrap_err();
    let LaunchError::NotStarted { message } = error else { panic!("{error}") };
    assert!(message.contains("/nonexistent/directory/app.tst"), "{message}");
    assert!(message.contains("no such file"), "{message}");
}

#[test]
fn what_is_missing_is_said_before_anything_runs() {
    needs_qemu!();
    let mut without = job(Path::new("/bin/true"), &[], SinkJob::Discard { sites: None });
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
