//! The host: a process beside the program's own, which has the machines, or writes the recording.
//!
//! It is forked from the emulator before the program begins, and runs nothing of the program. So no
//! program can disturb it, by its limits, its memory or its end, and a program may be replaced by
//! another (execve(2)) without anything being lost. The program's processes stream what they do to it
//! ([`crate::family`]).

use crate::capture::{Ended, Recorder, guarded};
use crate::family::channel::{Shared, host, wait};
use crate::job::Job;
use crate::publish::{LogWriter, Urgency};
use crate::sink::{Sink, discard::DiscardSink, machines::MachinesSink, tst::TstSink};
use crate::syscalls::{GuestMemory, Process};
use crate::{family, isolate, job::SinkJob};
use serde_json::{Value, json};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often the state of affairs is published.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// Forks the host, which does `job`, and waits until it is ready. `started` is what it then publishes,
/// with its own number added. The memory that both share; `None` where it cannot begin, and the log
/// says why. An error says why there is no host, for people.
pub fn start(job: Job, log: LogWriter, started: Value) -> Result<Option<&'static Shared>, String> {
    let told = |what: &str, error: io::Error| format!("{what}: {error}");
    let (shared, file) =
        Shared::new().map_err(|error| told("memory to share with the recorder", error))?;
    if !family::join(shared) {
        return Err("the plugin is loaded twice".into());
    }
    // SAFETY: always succeeds and touches no memory.
    shared.begin_first(unsafe { libc::getpid() });
    let host = move || run(job, log, started, shared, &file);
    fork_twice(host, |pid| shared.set_host_pid(pid))
        .map_err(|error| told("cannot start the recorder's process", error))?;
    Ok((wait_until_begun(shared) == host::READY).then_some(shared))
}

fn wait_until_begun(shared: &Shared) -> u32 {
    loop {
        let state = shared.host.load(Ordering::Acquire);
        if state != host::BEGINNING {
            return state;
        }
        wait(&shared.host, state);
        if !shared.host_lives() && shared.host.load(Ordering::Acquire) == state {
            return host::FAILED;
        }
    }
}

/// Runs `body` in a process that is no child of this one, so that no program waits for it by chance.
/// `tell` takes that process's number, in another process, before this returns.
fn fork_twice(body: impl FnOnce(), tell: impl FnOnce(libc::pid_t)) -> io::Result<()> {
    // SAFETY: the program has not begun, and what other threads of the emulator hold is not used here.
    let between = unsafe { libc::fork() };
    match between {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: as above; the process in between does nothing else.
            unsafe {
                match libc::fork() {
                    0 => body(),
                    pid => tell(pid),
                }
                libc::_exit(0)
            }
        }
        child => {
            let mut status = 0;
            // SAFETY: `status` lives through the call.
            while unsafe { libc::waitpid(child, &mut status, 0) } < 0 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            Ok(())
        }
    }
}

/// Body of the host's process.
fn run(job: Job, log: LogWriter, started: Value, shared: &'static Shared, file: &OwnedFd) {
    let done = catch_unwind(AssertUnwindSafe(|| {
        leave_the_program(file);
        keep_freed_memory();
        shared.set_host_descriptor(file);
        serve(job, log, started, shared);
    }));
    if done.is_err() {
        shared.set_state(host::FAILED);
    }
}

/// Leaves what the program's processes may do with and to each other: no signal but SIGKILL reaches
/// the host, and it holds no file of theirs.
fn leave_the_program(file: &OwnedFd) {
    let keep = file.as_raw_fd() as u32;
    // SAFETY: plain data that lives here, and descriptors that nothing in this process uses.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
        libc::prctl(libc::PR_SET_NAME, c"tierscope-host".as_ptr());
        libc::prctl(libc::PR_SET_PDEATHSIG, 0);
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        for descriptor in 0..=2 {
            libc::dup2(null, descriptor);
        }
        if keep > 3 {
            libc::syscall(libc::SYS_close_range, 3u32, keep - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, keep.max(2) + 1, u32::MAX, 0);
    }
}

/// Buffers come and go all the time, from one thread to another: what is freed is not given back to the
/// kernel to be had again at once (mallopt(3)).
fn keep_freed_memory() {
    const LARGE_BYTES: libc::c_int = 4 << 20;
    const KEPT_BYTES: libc::c_int = 64 << 20;
    #[cfg(target_env = "gnu")]
    // SAFETY: settings of the allocator, made before there are other threads.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
    }
}

fn serve(job: Job, mut log: LogWriter, mut started: Value, shared: &'static Shared) {
    let mut fail = |message: String| {
        log.append(Urgency::Needed, &json!({"type": "error", "message": message}));
        shared.set_state(host::FAILED);
    };
    let launcher = match Launcher::of(job.launcher) {
        Ok(launcher) => launcher,
        Err(error) => return fail(format!("the launcher is not there: {error}")),
    };
    let sink = match start_sink(job.sink) {
        Ok(sink) => sink,
        Err(message) => return fail(message),
    };
    shared.counts_only.store(sink.counts_only(), Ordering::Relaxed);
    started["host"] = json!(std::process::id());
    log.append(Urgency::Needed, &started);
    let recorder = Recorder::install_host(sink, log, Process::new(Arc::new(NoMemory)));
    let watch = || guarded(|recorder| recorder.watch(PROGRESS_EVERY));
    let threads = [
        recorder.family().serve(),
        isolate::spawn("watch", watch).map(drop),
        // It has a descriptor of its own, and signals are blocked already.
        std::thread::Builder::new().spawn(move || launcher.end_with_it()).map(drop),
    ];
    if let Some(error) = threads.into_iter().find_map(Result::err) {
        recorder.publish_error(&format!("cannot start the recorder's thread: {error}"));
        return shared.set_state(host::FAILED);
    }
    shared.set_state(host::READY);
    let ended = recorder.family().wait_for_first(|| recorder.has_finished());
    recorder.finish_run(ended.unwrap_or(Ended::Stopped));
}

fn start_sink(job: SinkJob) -> Result<Box<dyn Sink>, String> {
    Ok(match job {
        SinkJob::Discard { .. } => Box::new(DiscardSink::default()),
        SinkJob::Tst(job) => Box::new(TstSink::start(job)?),
        SinkJob::Machines(job) => Box::new(MachinesSink::start(job)?),
    })
}

/// The process that started the program.
struct Launcher(OwnedFd);

impl Launcher {
    fn of(pid: u32) -> io::Result<Launcher> {
        use std::os::fd::FromRawFd;
        // SAFETY: touches no memory; a descriptor that it returns is new and nobody else's.
        unsafe {
            let descriptor = libc::syscall(libc::SYS_pidfd_open, pid, 0) as libc::c_int;
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Launcher(OwnedFd::from_raw_fd(descriptor)))
        }
    }

    /// Ends this process when the launcher ends: nobody would take the result. Body of a thread.
    fn end_with_it(&self) {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which lives through the call; then the process ends.
        unsafe {
            while libc::poll(&mut poll, 1, -1) != 1 {}
            libc::_exit(1);
        }
    }
}

/// The host runs no program.
struct NoMemory;

impl GuestMemory for NoMemory {
    fn read(&self, _address: u64, _bytes: &mut [u8]) -> bool {
        false
    }
}
