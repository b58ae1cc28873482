//! Programs that a program runs, in its own place or in a child's, are recorded with it.

mod common;

use common::{Event, Recording, guest, record, run_through, scratch_file, start};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tierscope_record::job::{MachinesJob, SinkJob};
use tierscope_system::run::RunOptions;
use tierscope_system::spec::load;
use tierscope_workload::{Call, OpKind};

/// Words that the guest stores to in a round.
const WORDS: u64 = 1 << 12;

/// Rounds of the guest's work in a recording: its stores to 4096 words in order.
fn rounds(recording: &Recording) -> u64 {
    let mut in_order = BTreeMap::<(u32, u64), u64>::new();
    for (thread, events) in &recording.threads {
        for event in events {
            if let Event::Op(op) = event
                && op.kind() == Some(OpKind::Store)
                && op.size() == 8
            {
                *in_order.entry((*thread, op.word)).or_default() += 1;
            }
        }
    }
    // A word of the work is stored to as often as the one before it: count such long runs.
    let words: Vec<((u32, u64), u64)> = in_order.into_iter().collect();
    let joined = words.chunk_by(|a, b| a.0.0 == b.0.0 && a.0.1 + 8 == b.0.1);
    joined.filter(|run| run.len() as u64 >= WORDS).map(|run| run[run.len() / 2].1).sum()
}

fn programs_unmapped(recording: &Recording) -> usize {
    let exec = |event: &&Event| matches!(event, Event::Call(Call::Exec { .. }));
    recording.threads.values().flatten().filter(exec).count()
}

fn recorded(arguments: &[&str]) -> Recording {
    record(&guest("execs"), arguments)
}

fn script(name: &str, text: &str) -> PathBuf {
    let path = scratch_file(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

fn is_whole(recording: &Recording) {
    assert!(recording.report.is_complete(), "{:?}", recording.report);
    assert_eq!(recording.report.notices, Vec::<String>::new());
    run_through(recording);
}

#[test]
fn every_function_of_the_exec_family_is_followed() {
    needs_qemu!();
    let program = guest("execs");
    let path = program.to_str().unwrap();
    for how in ["execve", "execv", "execvp", "execl", "execle", "fexecve", "raw", "self"] {
        let recording = record(&program, &["replace", how, path]);
        assert_eq!(recording.report.exit_status, 7, "{how}");
        assert_eq!(rounds(&recording), 3, "{how}");
        assert_eq!(programs_unmapped(&recording), 1, "{how}");
        assert_eq!(recording.threads.len(), 1, "{how}: it goes on as the same thread");
        is_whole(&recording);
    }
    let bare = record(&program, &["replace", "bare", path]);
    assert_eq!(bare.report.exit_status, 33, "as on Linux from 5.18 on: one empty argument");
    is_whole(&bare);
}

#[test]
fn every_way_to_run_a_program_in_a_child_is_followed() {
    needs_qemu!();
    let program = guest("execs");
    let path = program.to_str().unwrap();
    for how in ["vfork", "spawn", "spawnp"] {
        let recording = record(&program, &["spawn", how, path]);
        assert_eq!(recording.report.exit_status, 7, "{how}");
        assert_eq!(rounds(&recording), 3, "{how}");
        assert!(run_through(&recording) >= 1, "{how}: the parent waits");
        is_whole(&recording);
    }
    for how in ["system", "popen"] {
        let recording = record(&program, &["shell", how, path]);
        assert_eq!(recording.report.exit_status, 5, "{how}");
        assert_eq!(rounds(&recording), 3, "{how}");
        is_whole(&recording);
    }
}

#[test]
fn a_shell_and_what_it_runs_are_one_recording() {
    needs_qemu!();
    let program = guest("execs");
    let path = program.to_str().unwrap();
    for (command, expected, status) in [
        (format!("{path} work 2; {path} work 3"), 5, 7),
        (format!("exec {path} work 4"), 4, 7),
        (format!("{path} work 2 & {path} work 3 & wait; exit 4"), 5, 4),
        (format!("({path} work 1; ({path} work 2); exit 3)"), 3, 3),
        (format!("env X=1 nice {path} work 2"), 2, 7),
        (format!("{path} work 2 | cat; exit 6"), 2, 6),
    ] {
        let recording = record(Path::new("sh"), &["-c", &command]);
        assert_eq!(recording.report.exit_status, status, "{command}");
        assert_eq!(rounds(&recording), expected, "{command}");
        is_whole(&recording);
    }
    let wrapped = record(Path::new("env"), &["X=1", path, "work", "2"]);
    assert_eq!((wrapped.report.exit_status, rounds(&wrapped)), (7, 2));
    is_whole(&wrapped);
}

#[test]
fn a_make_is_recorded_with_two_recipes_under_way() {
    needs_qemu!();
    let program = guest("execs");
    let path = program.display();
    let makefile = scratch_file("makefile");
    let text = format!("all: a b\na:\n\t-{path} work 2\nb:\n\t-@{path} work 3; exit 0\n");
    std::fs::write(&makefile, text).unwrap();
    let recording = record(Path::new("make"), &["-j2", "-f", makefile.to_str().unwrap()]);
    assert_eq!(recording.report.exit_status, 0);
    assert_eq!(rounds(&recording), 5);
    is_whole(&recording);
    std::fs::remove_file(makefile).unwrap();
}

#[test]
fn a_thread_that_runs_a_program_goes_on_as_the_processs_first() {
    needs_qemu!();
    let program = guest("execs");
    let path = program.to_str().unwrap();
    // Where the first has ended before, another one goes on, unless its end comes too late.
    for (how, threads) in [("thread", 2..=2), ("orphaned-thread", 2..=3)] {
        let recording = record(&program, &[how, path]);
        assert_eq!(recording.report.exit_status, 7, "{how}");
        assert_eq!(rounds(&recording), 4, "{how}");
        assert!(threads.contains(&recording.threads.len()), "{how}: {}", recording.threads.len());
        assert!(recording.report.is_complete(), "{how}: {:?}", recording.report);
        run_through(&recording);
    }
}

#[test]
fn a_program_finds_what_it_would_find_without_the_recorder() {
    needs_qemu!();
    let recording = recorded(&["inspected"]);
    // Descriptors that stay and that close, the mask of signals, those ignored and those reset, no
    // further descriptor, its one variable, its name.
    assert_eq!(recording.report.exit_status, 0b111_1111);
    is_whole(&recording);
}

#[test]
fn a_chain_of_programs_is_one_process() {
    needs_qemu!();
    let recording = recorded(&["chain", "40"]);
    assert_eq!(recording.report.exit_status, 11);
    assert_eq!(programs_unmapped(&recording), 40);
    assert_eq!(recording.threads.len(), 1);
    assert_eq!(rounds(&recording), 40);
    is_whole(&recording);
}

#[test]
fn a_script_is_run_by_the_interpreter_that_it_names() {
    needs_qemu!();
    let program = guest("execs");
    let inner = script("inner", &format!("#!{} work\n", program.display()));
    let outer = script("outer", &format!("#!{}\n", inner.display()));
    // The interpreter is given `work` and the script's name, which is no number.
    let bad = script("bad", "#!/nonexistent/interpreter\n");
    let unmarked = script("unmarked", &format!("exec {} work 3\n", program.display()));
    for (path, status) in [(&inner, 7), (&outer, 7), (&bad, libc::ENOENT)] {
        let recording = record(&program, &["replace", "execl", path.to_str().unwrap()]);
        assert_eq!(recording.report.exit_status, status, "{}", path.display());
        is_whole(&recording);
    }
    // The C library runs a file without a first line by the shell, once the kernel has refused it.
    for (how, status, done) in [("execvp", 7, 3), ("execv", libc::ENOEXEC, 2)] {
        let recording = record(&program, &["replace", how, unmarked.to_str().unwrap()]);
        assert_eq!((recording.report.exit_status, rounds(&recording)), (status, done), "{how}");
        is_whole(&recording);
    }
    for path in [inner, outer, bad, unmarked] {
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_program_that_cannot_be_run_leaves_its_caller_with_the_kernels_error() {
    needs_qemu!();
    let plain = scratch_file("plain");
    std::fs::write(&plain, "text").unwrap();
    let damaged = script("damaged", "\x7fELF\x02\x01\x01");
    for (path, error) in [
        (Path::new("/nonexistent/program"), libc::ENOENT),
        (Path::new("/etc/passwd/x"), libc::ENOTDIR),
        (Path::new("/"), libc::EACCES),
        (&plain, libc::EACCES),
        (&damaged, libc::ENOEXEC),
    ] {
        let recording = recorded(&["replace", "execv", path.to_str().unwrap()]);
        assert_eq!(recording.report.exit_status, error, "{}", path.display());
        assert_eq!(rounds(&recording), 2, "{}: it goes on", path.display());
        assert_eq!(programs_unmapped(&recording), 0, "{}", path.display());
        is_whole(&recording);
    }
    std::fs::remove_file(plain).unwrap();
    std::fs::remove_file(damaged).unwrap();
}

#[test]
fn a_program_in_a_file_without_a_name_is_followed_while_its_descriptor_stays() {
    needs_qemu!();
    let stays = recorded(&["unnamed", "stays"]);
    assert_eq!((stays.report.exit_status, rounds(&stays)), (7, 3));
    is_whole(&stays);
    let closes = recorded(&["unnamed", "closes"]);
    assert_eq!(closes.report.exit_status, 7, "it runs all the same");
    let unseen = closes.report.unseen.join("; ");
    assert!(unseen.contains("are not recorded: "), "{unseen}");
    assert!(unseen.contains("(its file has no name)"), "{unseen}");
    assert_eq!(closes.report.result.unwrap()["ended"]["how"], "exec");
}

/// A statically linked program.
fn static_guest() -> PathBuf {
    common::guest_with("execs", &["-static", "-pthread"])
}

#[test]
fn a_static_program_and_what_it_runs_are_followed() {
    needs_qemu!();
    let program = static_guest();
    let path = program.to_str().unwrap();
    let recording = record(Path::new("sh"), &["-c", &format!("{path} replace execv {path}; :")]);
    assert_eq!(rounds(&recording), 3);
    is_whole(&recording);
}

#[test]
fn more_processes_at_once_than_can_be_followed_leave_a_recording_that_is_not_whole() {
    needs_qemu!();
    // 128 at once, the first included: docs/explanation/recorder.md.
    let most = 127;
    let recording = recorded(&["crowd", &most.to_string()]);
    assert_eq!(rounds(&recording), most as u64);
    is_whole(&recording);
    let recording = recorded(&["crowd", &(most + 8).to_string()]);
    assert_eq!(rounds(&recording), most as u64, "those that are followed");
    assert_eq!(recording.report.exit_status, 0);
    assert!(!recording.report.is_complete());
    let [unseen] = &recording.report.unseen[..] else { panic!("{:?}", recording.report) };
    assert!(unseen.contains("more than 128 processes at once"), "{unseen}");
}

#[test]
fn a_program_that_runs_as_another_user_is_named_and_runs_as_it_would() {
    needs_qemu!();
    let copy = scratch_file("other-user");
    std::fs::copy(guest("execs"), &copy).unwrap();
    if !give_away(&copy) {
        return eprintln!("NOT TESTED: only root can give files to another user");
    }
    let path = copy.to_str().unwrap();
    let command = format!("{path} work 2; {path} work 3; {} work 4", guest("execs").display());
    let recording = record(Path::new("sh"), &["-c", &command]);
    assert_eq!(recording.report.exit_status, 7);
    assert_eq!(rounds(&recording), 4, "what comes after is recorded");
    assert!(!recording.report.is_complete());
    assert_eq!(
        recording.report.unseen,
        [format!(
            "programs that its processes ran are not recorded: {path} (it runs as another user; 2 \
             times)"
        )]
    );
    run_through(&recording);
    let alone = record(Path::new("sh"), &["-c", &format!("exec {path} work 2")]);
    assert_eq!(alone.report.exit_status, 7, "that of the other program");
    let ended = &alone.report.result.as_ref().unwrap()["ended"];
    assert_eq!((ended["how"].as_str(), ended["program"].as_str()), (Some("exec"), Some(path)));
    std::fs::remove_file(copy).unwrap();
}

/// Makes a program another user's, and set-user-ID. False where this user may not.
#[allow(unsafe_code)]
fn give_away(path: &Path) -> bool {
    const OTHER: libc::uid_t = 65_534;
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the name ends in a zero byte.
    let given = unsafe { libc::chown(name.as_ptr(), OTHER, OTHER) == 0 };
    given && std::fs::set_permissions(path, PermissionsExt::from_mode(0o4755)).is_ok()
}

#[test]
fn a_program_without_memory_or_room_on_a_disk_ends_as_it_would_alone() {
    needs_qemu!();
    let recording = recorded(&["no-memory"]);
    assert_eq!(recording.report.exit_status, 1);
    is_whole(&recording);
    let program = guest("execs");
    let file = scratch_file("fills");
    // A limit in the program is not the recorder's.
    let command = format!("ulimit -f 64; {} fills {}", program.display(), file.display());
    let recording = record(Path::new("sh"), &["-c", &command]);
    assert_eq!(recording.report.exit_status, libc::EFBIG);
    assert!(file.metadata().unwrap().len() <= 64 << 10);
    is_whole(&recording);
    std::fs::remove_file(file).unwrap();
}

#[test]
fn machines_take_every_instruction_of_every_program() {
    needs_qemu!();
    let program = guest("execs");
    let path = program.to_str().unwrap();
    let command = format!("{path} work 2; {path} spawn vfork {path}; exec {path} thread {path}");
    let systems = ["oracle/quick", "hybrid/quick", "storage/quick"];
    let sink = SinkJob::Machines(MachinesJob {
        systems: systems.iter().map(|name| load(name, &[]).unwrap().spec).collect(),
        options: RunOptions::default(),
        memory_bound_bytes: 64 << 20,
        spill_dir: common::scratch(),
    });
    let report = start(Path::new("sh"), &["-c", &command], sink).unwrap().finish().unwrap();
    assert_eq!(report.exit_status, 7);
    assert!(report.is_complete(), "{report:?}");
    let result = report.result.unwrap();
    for outcome in result["sink"]["outcomes"].as_array().unwrap() {
        assert!(outcome["partial_reason"].is_null(), "{outcome}");
        assert_eq!(outcome["result"]["instructions"], result["recorded"]["instructions"]);
    }
}
