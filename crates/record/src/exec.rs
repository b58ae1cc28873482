//! Programs that a process of the program runs in its place (execve(2)).
//!
//! Left alone, the kernel would run the other program on the computer itself, unseen: QEMU passes the
//! call on as it is. But the recorder is in the process, and is called before the call runs: it makes
//! a call of its own in its stead, of the emulator, with the recorder and the other program. Of a
//! program's process nothing can be lost by that, for machines are in the host.
//!
//! Whatever the kernel would refuse is left to it, so that its answer is the program's own; what
//! cannot be recorded runs as it would without the recorder, and the result names it.

mod fitness;
mod request;

pub(crate) use fitness::check_rights;
pub use request::Request;

use crate::capture::{Recorder, Slot};
use crate::family::{ChildSink, Replacing};
use crate::launch::Program;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::OnceLock;
use tierscope_workload::Call;

/// What recorded programs are run by.
pub struct Emulator {
    /// The emulator and its arguments: [`crate::job::Job::emulator`].
    pub command: Vec<String>,
    /// Files that it needs.
    pub files: Vec<PathBuf>,
    /// The program that this process runs.
    pub program: Option<PathBuf>,
}

static EMULATOR: OnceLock<Emulator> = OnceLock::new();

/// From now on programs are followed, by this emulator.
pub fn follow(emulator: Emulator) {
    // There is one a process.
    let _ = EMULATOR.set(emulator);
}

/// A thread calls for another program. Returns where the kernel is to decide; whether it may run that
/// program unseen.
pub fn enter(recorder: &Recorder, slot: &mut Slot, request: Option<Request>) -> bool {
    let (Some(child), Some(request)) = (recorder.as_child(), request) else { return false };
    if is_about_to_handle_a_signal() || !request.may_run() {
        return false;
    }
    let unseen = match command(child, &request) {
        Ok((command, file)) => {
            let told = told(recorder, child, slot, &request, None);
            let mut failure = None;
            child.replace(&told, slot.signals(), |channel| {
                failure = Some(command.run(&file, channel));
            });
            failure.map_or_else(
                || "the recorder cannot be reached".to_owned(),
                |error| format!("QEMU cannot be run: {error}"),
            )
        }
        Err(reason) => reason,
    };
    let told = told(recorder, child, slot, &request, Some(unseen));
    child.leave(&told);
    true
}

/// Where QEMU has taken a signal that the program handles, it has every signal blocked, those of the C
/// library's own included, which no program's mask ever has. It then lets the program handle that
/// first, and make its call again.
fn is_about_to_handle_a_signal() -> bool {
    const OF_THE_C_LIBRARY: u64 = 1 << (32 - 1);
    let mut mask = 0_u64;
    // SAFETY: the kernel writes the eight bytes of `mask`.
    let asked = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_BLOCK,
            std::ptr::null::<u64>(),
            &mut mask,
            size_of::<u64>(),
        )
    };
    asked == 0 && mask & OF_THE_C_LIBRARY != 0
}

/// Hands over all that the thread has noted, and says what the host is told.
fn told(
    recorder: &Recorder,
    child: &ChildSink,
    slot: &mut Slot,
    request: &Request,
    unseen: Option<String>,
) -> Replacing {
    let thread = slot.thread(recorder);
    let mut sequence = slot.signals();
    // Who goes on after this thread waits for that: the process's first thread, or another process.
    if thread != 0 || unseen.is_some() {
        sequence = slot.next_signal(recorder).sequence;
        slot.call(&Call::Signal { sequence });
    }
    slot.flush_rest();
    if thread == 0 && unseen.is_some() {
        child.has_ended(sequence);
    }
    let program = request.program().to_string_lossy().into_owned();
    let others = recorder.threads_in_use().saturating_sub(1);
    Replacing { program, unseen, thread, sequence, others }
}

/// What runs the program recorded, and the file that it needs. An error says why that cannot be.
fn command(child: &ChildSink, request: &Request) -> Result<(Command, File), String> {
    let emulator = EMULATOR.get().ok_or("the recorder has not begun")?;
    fitness::check_files(&emulator.files)?;
    let file = child.file();
    let file = file.map_err(|error| format!("the recorder cannot be reached: {error}"))?;
    let path = request.path(emulator.program.as_deref())?;
    let program = Program::at(path, request.name(), request.arguments())
        .map_err(|error| fitness::reason(&error))?;
    fitness::check(&program.path)?;
    Ok((Command::new(emulator, program, request)?, file))
}

/// A command, ready to run.
struct Command {
    /// The arguments up to the plugin's, which lacks its end.
    head: Vec<CString>,
    plugin: String,
    tail: Vec<CString>,
    environment: Vec<CString>,
}

impl Command {
    fn new(emulator: &Emulator, program: Program, request: &Request) -> Result<Command, String> {
        let (plugin, head) = emulator.command.split_last().ok_or("there is no emulator")?;
        let (for_program, environment) = divided(request.environment());
        let mut tail: Vec<OsString> = Vec::new();
        for variable in for_program {
            tail.extend([OsString::from("-E"), variable]);
        }
        tail.extend([OsString::from("-0"), program.name, not_an_option(program.path)]);
        tail.extend(program.arguments);
        let strings = |all: Vec<OsString>| -> Result<Vec<CString>, String> {
            let string = |one: OsString| CString::new(one.into_vec()).map_err(|e| e.to_string());
            all.into_iter().map(string).collect()
        };
        Ok(Command {
            head: strings(head.iter().map(OsString::from).collect())?,
            plugin: plugin.clone(),
            tail: strings(tail)?,
            environment: strings(environment)?,
        })
    }

    /// Runs it in the place of this process, which gives it `file`. Returns why that has failed.
    fn run(&self, file: &File, channel: usize) -> io::Error {
        let descriptor = file.as_raw_fd();
        let plugin = format!("{},attach={descriptor},channel={channel}", self.plugin);
        let Ok(plugin) = CString::new(plugin) else {
            return io::Error::from_raw_os_error(libc::EINVAL);
        };
        let all = self.head.iter().chain([&plugin]).chain(&self.tail);
        let arguments = ending_in_null(all);
        let environment = ending_in_null(self.environment.iter());
        // SAFETY: strings and tables live through the calls, and the tables end with a null.
        unsafe {
            libc::fcntl(descriptor, libc::F_SETFD, 0);
            libc::execve(arguments[0], arguments.as_ptr(), environment.as_ptr());
        }
        io::Error::last_os_error()
    }
}

fn ending_in_null<'a>(all: impl Iterator<Item = &'a CString>) -> Vec<*const libc::c_char> {
    all.map(|one| one.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Divides variables into those that the emulator sets for the program alone, and those that are the
/// emulator's as well. What tells the loader of programs what to do (ld.so(8)) is not meant for the
/// emulator; but QEMU takes no value with a comma.
fn divided(environment: &[OsString]) -> (Vec<OsString>, Vec<OsString>) {
    let is_loaders = |variable: &OsString| {
        let bytes = variable.as_bytes();
        bytes.starts_with(b"LD_") && bytes.contains(&b'=') && !bytes.contains(&b',')
    };
    environment.iter().cloned().partition(is_loaders)
}

/// A path that cannot be taken for one of QEMU's options.
fn not_an_option(path: PathBuf) -> OsString {
    if path.as_os_str().as_bytes().starts_with(b"-") {
        return PathBuf::from(".").join(path).into_os_string();
    }
    path.into_os_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_the_loader_of_programs_is_not_for_the_emulators() {
        let all = ["A=1", "LD_PRELOAD=x.so", "LD_LIBRARY_PATH=a,b", "LD_X", "B=LD_"];
        let (program, both) = divided(&all.map(OsString::from));
        assert_eq!(program, ["LD_PRELOAD=x.so"]);
        assert_eq!(both, ["A=1", "LD_LIBRARY_PATH=a,b", "LD_X", "B=LD_"]);
    }

    #[test]
    fn a_path_is_no_option() {
        assert_eq!(not_an_option("-E".into()), "./-E");
        assert_eq!(not_an_option("/bin/ls".into()), "/bin/ls");
    }

    #[test]
    fn a_mask_that_a_program_can_set_is_told_from_that_of_a_signal_under_way() {
        // SAFETY: plain data that lives here.
        let told = |raw: Option<u64>| unsafe {
            let mut before: libc::sigset_t = std::mem::zeroed();
            let mut all: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            if let Some(raw) = raw {
                let none = std::ptr::null_mut::<u64>();
                libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw, none, 8);
            }
            let told = is_about_to_handle_a_signal();
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
            told
        };
        assert!(!told(None));
        assert!(told(Some(u64::MAX)));
    }
}
