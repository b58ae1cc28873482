//! The launcher: starts a program under a back end that observes it, and follows what is
//! published.
//!
//! This is the only part that the command line and Python see. It does not know what the back end
//! is, beyond [`Backend`].

mod loader;
mod parts;
mod program;
mod qemu;
mod scratch;

pub(crate) use loader::loader_of;
pub use program::Program;
pub use qemu::QemuBackend;

use crate::job::{Job, SinkJob, VERSION};
use crate::kin::{Kin, ProcessId};
use crate::pidfd::Pidfd;
use crate::publish::{self, LogReader};
use crate::symbols::{self, Place, Region};
use scratch::Scratch;
use serde::Deserialize;
use serde_json::Value;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Name of the recorder's library.
pub const LIBRARY: &str = "libtierscope_record.so";

/// A way to observe a program while it runs.
pub trait Backend {
    /// Its name and version, for results and recordings.
    fn describe(&self) -> String;

    /// What runs a program observed, with the recorder doing the job in the file `job`: see
    /// [`Job::emulator`].
    fn emulator(&self, library: &Path, job: &Path) -> Vec<OsString>;

    /// The command that runs `program`, observed, with the recorder doing the job in the file
    /// `job`.
    fn command(&self, program: &Program, library: &Path, job: &Path) -> Command;

    /// The command that runs `program` in the same surroundings, but unobserved.
    fn unobserved(&self, program: &Program) -> Command;
}

/// Where the program's standard output goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Where the launcher's goes.
    #[default]
    Inherit,
    /// To standard error, so that the launcher has standard output for itself.
    StandardError,
    /// Nowhere.
    Null,
}

/// A program to be run and recorded.
#[derive(Clone, Debug)]
pub struct LaunchJob {
    /// The program: a path, or a name to be looked up in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// What becomes of its operations.
    pub sink: SinkJob,
    /// The recorder's library, [`LIBRARY`].
    pub library: PathBuf,
    /// Where a directory for the job and the log is made; it goes when the run ends.
    pub scratch_dir: PathBuf,
    /// Where the program's standard output goes.
    pub output: Output,
    /// Run the program alone before, to measure its time. It then runs twice, with all that it
    /// does; the first time without input, and its output goes nowhere.
    pub native: bool,
    /// Where in its code the region of interest begins and ends.
    pub region: Region,
}

/// Why a program cannot be run and recorded.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// There is no emulator.
    #[error(
        "qemu-x86_64 was not found in PATH: it runs the program and observes it. Install Debian's \
         or Ubuntu's package qemu-user (apt-get install qemu-user), or set TIERSCOPE_QEMU to its \
         path"
    )]
    QemuMissing,
    /// What was named is none.
    #[error(
        "{} --version {answer}, and a qemu-x86_64 answers \"qemu-x86_64 version ...\": name one by \
         TIERSCOPE_QEMU, or a script that ends with exec qemu-x86_64 \"$@\"", path.display()
    )]
    NotQemu {
        /// What was named.
        path: PathBuf,
        /// What became of asking it for its version.
        answer: String,
    },
    /// There is one that cannot load plugins.
    #[error(
        "{} cannot load plugins{}. Install Debian's or Ubuntu's package qemu-user, or set \
         TIERSCOPE_QEMU to the path of a qemu-x86_64 that can", path.display(), reason
    )]
    QemuWithoutPlugins {
        /// The emulator.
        path: PathBuf,
        /// Why, as far as that is known.
        reason: &'static str,
    },
    /// There is one of an unsupported version.
    #[error(
        "{} is QEMU {version}; at least {} is needed", path.display(), qemu::OLDEST_NAME
    )]
    QemuTooOld {
        /// The emulator.
        path: PathBuf,
        /// Its version.
        version: String,
    },
    /// The name is empty.
    #[error("the program's name is empty: give the path of a program, or a name in PATH")]
    ProgramUnnamed,
    /// There is no such program.
    #[error("{name}: no such program{hint}")]
    ProgramMissing {
        /// The name given.
        name: String,
        /// Where it was looked for.
        hint: &'static str,
    },
    /// It cannot be run.
    #[error("{}: {reason}", path.display())]
    ProgramUnfit {
        /// The program.
        path: PathBuf,
        /// Why not, and what to do.
        reason: String,
    },
    /// A place in its code cannot be told.
    #[error("{0}")]
    NoPlace(String),
    /// The recorder's library is not where it should be.
    #[error("the recorder's library {} is missing: build or install tierscope again", path.display())]
    LibraryMissing {
        /// Where it should be.
        path: PathBuf,
    },
    /// The name of a file that a run needs is not UTF-8.
    #[error("{}: the recorder takes paths in UTF-8 only", path.display())]
    Unfit {
        /// The file, or an argument with its name.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{what}: {}", tierscope_units::reason(source))]
    Io {
        /// What was being done.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The recorder did not start.
    #[error("the recorder did not start: {message}")]
    NotStarted {
        /// What it said.
        message: String,
    },
}

/// A program that runs and is recorded.
pub struct Launched {
    child: Child,
    /// The process that has the machines, once it has begun.
    host: Option<Pidfd>,
    /// The program's processes, once that is known.
    kin: Option<Kin>,
    log: LogReader,
    /// Records that were taken from the log and that nobody has asked for yet.
    unread: Vec<Value>,
    /// It is known that the host ends without a result.
    abandoned: bool,
    /// The program's status, once it was waited for.
    exit_status: Option<i32>,
    scratch: Scratch,
    begun: Instant,
    native_s: Option<f64>,
    records: Outline,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The program's exit status as a shell gives it: 128+n for a signal.
    pub exit_status: i32,
    /// Wall-clock time until the process ended, in seconds.
    pub wall_s: f64,
    /// Wall-clock time of the program alone, if it was measured.
    pub native_s: Option<f64>,
    /// The recorder's last word, of type `result`; `None` where it was killed before.
    pub result: Option<Value>,
    /// The latest state of affairs, of type `progress` or `ended`: what is known without a result.
    pub progress: Option<Value>,
    /// What went wrong.
    pub errors: Vec<String>,
    /// What of the program was not recorded: whole processes, whole programs.
    pub unseen: Vec<String>,
    /// What is worth knowing.
    pub notices: Vec<String>,
}

impl Report {
    /// Whether the whole program was recorded.
    pub fn is_complete(&self) -> bool {
        let ended = self.result.as_ref().map(|result| &result["ended"]["how"]);
        ended.is_some_and(|how| how == "exit") && self.errors.is_empty() && self.unseen.is_empty()
    }
}

/// What matters of the records so far.
#[derive(Default)]
struct Outline {
    started: bool,
    result: Option<Value>,
    progress: Option<Value>,
    errors: Vec<String>,
    unseen: Vec<String>,
    notices: Vec<String>,
}

impl Outline {
    fn note(&mut self, record: &Value) {
        let message = || record["message"].as_str().unwrap_or_default().to_owned();
        match record["type"].as_str() {
            Some("started") => self.started = true,
            Some("result") => self.result = Some(record.clone()),
            Some("progress" | "ended") => self.progress = Some(record.clone()),
            Some("error") => self.errors.push(message()),
            Some("unseen") => self.unseen.push(message()),
            Some("notice") => self.notices.push(message()),
            _ => {}
        }
    }
}

/// Starts a program under the back end that this computer has. See [`launch_under`].
pub fn launch(job: &LaunchJob) -> Result<Launched, LaunchError> {
    launch_under(&QemuBackend::find()?, job)
}

/// Starts a program under a given back end.
///
/// The program is killed when the calling thread ends, as it does where this process is killed:
/// nobody would follow it any more. So are all processes that it has started, as far as they are known
/// (see [`Launched::signal_all`]).
pub fn launch_under(backend: &dyn Backend, job: &LaunchJob) -> Result<Launched, LaunchError> {
    let Checked { program, library, places } = check(backend, job)?;
    let scratch = Scratch::new(&job.scratch_dir)?;
    let log_path = scratch.path.join("log");
    publish::create(&log_path, publish::DEFAULT_CAPACITY_BYTES)
        .map_err(io_error(&format!("the log {}", log_path.display())))?;
    let log = LogReader::open(&log_path).map_err(io_error("the log"))?;
    let job_path = scratch.path.join("job.json");
    let text = |part: OsString| {
        let unfit = |part: OsString| LaunchError::Unfit { path: PathBuf::from(part) };
        part.into_string().map_err(unfit)
    };
    let emulator = backend.emulator(&library, &job_path).into_iter().map(text);
    let recorder_job = Job {
        version: VERSION,
        log: log_path,
        sink: job.sink.clone(),
        places,
        launcher: std::process::id(),
        emulator: emulator.collect::<Result<_, _>>()?,
    };
    let text = serde_json::to_vec(&recorder_job)
        .map_err(|error| io_error("the recorder's job")(error.into()))?;
    std::fs::write(&job_path, text).map_err(io_error("the recorder's job"))?;
    let native_s = if job.native { Some(time_native(&program)?) } else { None };
    let mut command = backend.command(&program, &library, &job_path);
    direct(&mut command, job.output)?;
    die_with_launcher(&mut command);
    let begun = Instant::now();
    let child = command.spawn().map_err(io_error(&format!("cannot run {command:?}")))?;
    Ok(Launched {
        child,
        host: None,
        kin: None,
        log,
        unread: Vec::new(),
        abandoned: false,
        exit_status: None,
        scratch,
        begun,
        native_s,
        records: Outline::default(),
    })
}

/// What a job comes to, before anything runs.
struct Checked {
    program: Program,
    library: PathBuf,
    places: Vec<Place>,
}

fn check(backend: &dyn Backend, job: &LaunchJob) -> Result<Checked, LaunchError> {
    let program = Program::resolve(&job.program, &job.arguments)?;
    check_rights(&program)?;
    let library = std::path::absolute(&job.library).map_err(io_error("the library's path"))?;
    if !library.is_file() {
        return Err(LaunchError::LibraryMissing { path: library });
    }
    let places = places(backend, &program, &job.region)?;
    Ok(Checked { program, library, places })
}

/// Checks whether a program can be started under a given back end, as far as that shows before it is:
/// whether it is there, can be recorded, and has the functions that bound its region.
pub fn check_under(backend: &dyn Backend, job: &LaunchJob) -> Result<(), LaunchError> {
    check(backend, job).map(drop)
}

/// Refuses a program that would run with other rights than the caller's: under an emulator it would not
/// get them, and do something else than it does.
fn check_rights(program: &Program) -> Result<(), LaunchError> {
    crate::exec::check_rights(&program.path).map_err(|why| LaunchError::ProgramUnfit {
        path: program.path.clone(),
        reason: format!(
            "{why}, and cannot be given those rights where it is recorded: run tierscope with them, or \
             a copy of the program that runs as its caller"
        ),
    })
}

/// Looks up where the region of interest begins and ends.
fn places(
    backend: &dyn Backend,
    program: &Program,
    region: &Region,
) -> Result<Vec<Place>, LaunchError> {
    if *region == Region::default() {
        return Ok(Vec::new());
    }
    let parts = parts::parts(backend, program)?;
    symbols::resolve(region, &parts).map_err(LaunchError::NoPlace)
}

fn io_error(what: &str) -> impl FnOnce(io::Error) -> LaunchError + use<> {
    let what = what.to_owned();
    move |source| LaunchError::Io { what, source }
}

fn direct(command: &mut Command, output: Output) -> Result<(), LaunchError> {
    match output {
        Output::Inherit => {}
        Output::Null => {
            command.stdout(Stdio::null());
        }
        Output::StandardError => {
            let standard_error = io::stderr().as_fd().try_clone_to_owned();
            command.stdout(standard_error.map_err(io_error("standard error"))?);
        }
    }
    Ok(())
}

/// Has the kernel kill the program when the calling thread ends.
fn die_with_launcher(command: &mut Command) {
    let launcher = std::process::id();
    // SAFETY: system calls alone between fork and exec, which allocate nothing.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // It may have ended before.
            if libc::getppid() as u32 != launcher {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}

/// Runs the program alone and returns its wall-clock time in seconds.
fn time_native(program: &Program) -> Result<f64, LaunchError> {
    let begun = Instant::now();
    let mut command = Command::new(&program.path);
    die_with_launcher(&mut command);
    command
        .arg0(&program.name)
        .args(&program.arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(io_error(&format!("cannot run {}", program.path.display())))?;
    Ok(begun.elapsed().as_secs_f64())
}

impl Launched {
    /// The records published since the last poll, as JSON objects with a `type`: `started`,
    /// `progress`, `system_progress`, `interval`, `notice`, `unseen`, `error`, `ended` (the program has, its
    /// machines may still run) and `result`.
    pub fn poll(&mut self) -> Vec<Value> {
        self.take_records();
        std::mem::take(&mut self.unread)
    }

    /// Takes what is in the log.
    fn take_records(&mut self) {
        for record in self.log.poll() {
            self.records.note(&record);
            self.abandoned |= record["type"] == "abandoned";
            if let Some(pid) = record["host"].as_i64() {
                self.host = Pidfd::open(pid as libc::pid_t).ok();
                let memory = record["memory"].as_u64().filter(|inode| *inode > 0);
                self.kin = memory.map(|inode| Kin::new(inode, pid as libc::pid_t));
            }
            if let Some(kin) = &mut self.kin
                && let Ok(alive) = Vec::<ProcessId>::deserialize(&record["alive"])
            {
                kin.know(alive);
            }
            self.unread.push(record);
        }
    }

    /// Process number of the program.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, once the program has ended and its machines have: 128+n for a signal.
    pub fn try_wait(&mut self) -> Result<Option<i32>, LaunchError> {
        let status = self.program_status()?;
        let is_over = self.host.as_ref().is_some_and(|host| host.is_over(Duration::ZERO));
        // What the host says first comes before the program begins, and what it says last, before it
        // ends.
        self.take_records();
        if is_over && self.records.started && self.records.result.is_none() && !self.abandoned {
            self.abandoned = true;
            self.miss_host(status)?;
        }
        if !(is_over || self.host.is_none()) {
            return Ok(None);
        }
        // Only now: the host may look at how the program ended until somebody has waited for it.
        let status = self.child.try_wait().map_err(io_error("waiting for the program"))?;
        self.exit_status = status.map(shell_status);
        Ok(self.exit_status)
    }

    /// The host has ended without a result and without saying why. `status` is the program's, once it
    /// has ended.
    fn miss_host(&mut self, status: Option<i32>) -> Result<(), LaunchError> {
        let why = "the process that records and has the machines was killed, by the kernel perhaps for \
                   want of memory";
        if status.is_some() {
            self.records.errors.push(format!("{why}, after the program's end"));
            return Ok(());
        }
        self.records.errors.push(format!("{why}; the program was killed with it"));
        self.child.kill().map_err(io_error("killing the program"))
    }

    /// The program's exit status, once it has ended. It is not waited for.
    fn program_status(&self) -> Result<Option<i32>, LaunchError> {
        if self.exit_status.is_some() {
            return Ok(self.exit_status);
        }
        let mut status = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
        let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: `status` has room for what the call writes, and all zero is a valid value.
        let (failed, status) = unsafe {
            let failed = libc::waitid(libc::P_PID, self.child.id(), status.as_mut_ptr(), how) != 0;
            (failed, status.assume_init())
        };
        if failed {
            return Err(io_error("waiting for the program")(io::Error::last_os_error()));
        }
        // SAFETY: fields that a call which has found a child has filled, and that are zero else.
        let (pid, number) = unsafe { (status.si_pid(), status.si_status()) };
        let signalled = status.si_code != libc::CLD_EXITED;
        Ok((pid != 0).then_some(if signalled { 128 + number } else { number }))
    }

    /// Asks the recorder for an early end. The program itself goes on.
    pub fn stop(&self) -> Result<(), LaunchError> {
        publish::request_stop(&self.scratch.path.join("log")).map_err(io_error("the log"))
    }

    /// Sends the program a signal. One that has ended by now gets none.
    pub fn signal(&mut self, number: i32) -> Result<(), LaunchError> {
        if self.program_status()?.is_some() {
            return Ok(());
        }
        // SAFETY: the process is our child and has not been waited for: the number is its own.
        if unsafe { libc::kill(self.child.id() as libc::pid_t, number) } != 0 {
            return Err(io_error("sending the program a signal")(io::Error::last_os_error()));
        }
        Ok(())
    }

    /// Sends all processes of the program a signal, whatever session they are in: those that were forked
    /// under the recorder, and what descends from them. Not known is what an unrecorded program has
    /// started and then left to init.
    pub fn signal_all(&mut self, number: i32) -> Result<(), LaunchError> {
        match &self.kin {
            Some(kin) => {
                kin.signal(number);
                Ok(())
            }
            None => self.signal(number),
        }
    }

    /// Processes of the program that live. Before it has begun, or where it has only ever had one, none
    /// but the first is looked for.
    pub fn alive(&mut self) -> Result<usize, LaunchError> {
        match &self.kin {
            Some(kin) if self.has_others() => Ok(kin.count()),
            _ => Ok(usize::from(self.program_status()?.is_none())),
        }
    }

    /// Whether the program may have processes beside its first.
    fn has_others(&self) -> bool {
        let last = self.records.result.as_ref().or(self.records.progress.as_ref());
        let processes = last.and_then(|record| record["recorded"]["processes"].as_u64());
        processes.is_none_or(|count| count > 1) || !self.records.unseen.is_empty()
    }

    /// Kills the program, with all its processes, and the recorder. What was published remains.
    pub fn kill(&mut self) -> Result<(), LaunchError> {
        self.take_records();
        self.abandoned = true;
        self.host.iter().for_each(Pidfd::kill);
        self.child.kill().map_err(io_error("killing the program"))?;
        self.kin.iter().for_each(Kin::kill);
        Ok(())
    }

    /// Adds what is worth knowing to the report.
    pub fn add_notice(&mut self, notice: String) {
        self.records.notices.push(notice);
    }

    /// Waits for the program and its machines to end, and says what the run came to. Polls that were
    /// not made are made up for.
    pub fn finish(mut self) -> Result<Report, LaunchError> {
        const TAKE_EVERY: Duration = Duration::from_millis(100);
        let exit_status = loop {
            if let Some(exit_status) = self.wait_for(TAKE_EVERY)? {
                break exit_status;
            }
            self.unread.clear();
        };
        let wall_s = self.begun.elapsed().as_secs_f64();
        if !self.has_others() {
            self.kin = None;
        }
        let records = std::mem::take(&mut self.records);
        if !records.started {
            let said = records.errors.join("; ");
            let message = if said.is_empty() { "see what it printed above".into() } else { said };
            return Err(LaunchError::NotStarted { message });
        }
        Ok(Report {
            exit_status,
            wall_s,
            native_s: self.native_s,
            result: records.result,
            progress: records.progress,
            errors: records.errors,
            unseen: records.unseen,
            notices: records.notices,
        })
    }

    /// Waits for `time` or until program and machines have ended, whichever is first.
    pub fn wait_for(&mut self, time: Duration) -> Result<Option<i32>, LaunchError> {
        let begun = Instant::now();
        loop {
            let status = self.try_wait()?;
            if status.is_some() || begun.elapsed() >= time {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        // A program that nobody follows any more has no log to publish to either.
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        self.take_records();
        if let Some(kin) = &self.kin
            && self.has_others()
        {
            kin.kill();
        }
        if let Some(host) = &self.host {
            // It uses files that go with the run.
            host.kill();
            host.is_over(Duration::from_secs(1));
        }
    }
}

fn shell_status(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(255)
}
