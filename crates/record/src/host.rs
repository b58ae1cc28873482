//! The host: a process beside the program's own, which has the machines, or writes the recording.
//!
//! It is forked from the emulator before the program begins, and runs nothing of the program. So no
//! program can disturb it, by its limits, its memory or its end, and a program may be replaced by
//! another (execve(2)) without anything being lost. The program's processes stream what they do to it
//! ([`crate::family`]).

use crate::capture::{self, BROKEN, Ended, Recorder, guarded};
use crate::family::channel::{Shared, host, wait};
use crate::job::Job;
use crate::kin::Kin;
use crate::pidfd::Pidfd;
use crate::publish::{LogWriter, Urgency};
use crate::sink::{Sink, discard::DiscardSink, machines::MachinesSink, tst::TstSink};
use crate::syscalls::{GuestMemory, Process};
use crate::{family, isolate, job::SinkJob};
use serde_json::{Value, json};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
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
            let mut error = 0;
            // SAFETY: as above; the process in between does nothing else.
            unsafe {
                match libc::fork() {
                    -1 => error = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN),
                    0 => body(),
                    pid => tell(pid),
                }
                libc::_exit(error)
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
            match libc::WEXITSTATUS(status) {
                0 => Ok(()),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
    }
}

/// Body of the host's process.
fn run(job: Job, log: LogWriter, started: Value, shared: &'static Shared, file: &OwnedFd) {
    let path = job.log.clone();
    let done = catch_unwind(AssertUnwindSafe(|| {
        leave_the_program(file);
        keep_freed_memory();
        shared.set_host_descriptor(file);
        let memory = file.try_clone().and_then(|file| File::from(file).metadata());
        let memory = memory.map_or(0, |status| status.ino());
        serve(job, log, started, shared, memory);
    }));
    if done.is_err() {
        // Nothing may keep this process from its end, nor the program's from going on.
        let _ = catch_unwind(|| match capture::parent() {
            Some(recorder) => recorder.abandon(),
            None => tell_failure(&path),
        });
        shared.give_up();
    }
}

/// Says in the log at `path` that the host could not begin.
fn tell_failure(path: &Path) {
    // Where that cannot be said either, the launcher says that it did not start.
    if let Ok(mut log) = LogWriter::open(path) {
        log.append(Urgency::Needed, &json!({"type": "error", "message": BROKEN}));
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

fn serve(job: Job, mut log: LogWriter, mut started: Value, shared: &'static Shared, memory: u64) {
    let mut fail = |message: String| {
        log.append(Urgency::Needed, &json!({"type": "error", "message": message}));
        shared.set_state(host::FAILED);
    };
    let launcher = match Pidfd::open(job.launcher as libc::pid_t) {
        Ok(launcher) => launcher,
        Err(error) => return fail(format!("the launcher is not there: {error}")),
    };
    let sink = match start_sink(job.sink) {
        Ok(sink) => sink,
        Err(message) => return fail(message),
    };
    shared.counts_only.store(sink.counts_only(), Ordering::Relaxed);
    started["host"] = json!(std::process::id());
    started["memory"] = json!(memory);
    log.append(Urgency::Needed, &started);
    let recorder = Recorder::install_host(sink, log, Process::new(Arc::new(NoMemory)));
    let watch = || guarded(|recorder| recorder.watch(PROGRESS_EVERY));
    let threads = [
        recorder.family().serve(),
        isolate::spawn("watch", watch).map(drop),
        // It has a descriptor of its own, and signals are blocked already.
        std::thread::Builder::new().spawn(move || end_with(&launcher, memory)).map(drop),
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

/// Ends the program's processes and this one when the launcher ends: nobody would take the result. Body
/// of a thread.
fn end_with(launcher: &Pidfd, memory: u64) {
    launcher.wait();
    let mut kin = Kin::new(memory, 0);
    if let Some(recorder) = capture::parent() {
        kin.know(recorder.family().alive());
    }
    kin.kill();
    // SAFETY: the process ends.
    unsafe { libc::_exit(1) };
}

/// The host runs no program.
struct NoMemory;

impl GuestMemory for NoMemory {
    fn read(&self, _address: u64, _bytes: &mut [u8]) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::ChildSink;
    use crate::publish::{self, LogReader};
    use std::path::PathBuf;
    use tierscope_workload::{FileInfo, Op, Site, SiteId, ThreadId};

    /// A sink with a fault.
    struct Faulty;

    impl Sink for Faulty {
        fn accept(&self, _: ThreadId, _: &[Op]) {
            panic!("this panic is the test's");
        }

        fn add_file(&self, _: &FileInfo) {}
        fn add_site(&self, _: SiteId, _: &Site) {}
        fn end_thread(&self, _: ThreadId) {}

        fn finish(&self, _: &Ended) -> Value {
            json!({"kind": "faulty"})
        }

        fn cut(&self, _: &str) {}
        fn stop(&self) {}

        fn is_done(&self) -> bool {
            false
        }
    }

    fn log() -> (PathBuf, LogWriter) {
        let path = std::env::temp_dir().join(format!("tierscope-faulty-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        publish::create(&path, publish::DEFAULT_CAPACITY_BYTES).unwrap();
        let log = LogWriter::open(&path).unwrap();
        (path, log)
    }

    #[test]
    fn a_fault_in_the_hosts_threads_ends_the_recording_with_an_error_and_holds_nobody() {
        let (shared, _file) = Shared::new().unwrap();
        assert!(family::join(shared));
        let this = std::process::id() as libc::pid_t;
        shared.set_host_pid(this);
        shared.begin_first(this);
        let (path, log) = log();
        let recorder =
            Recorder::install_host(Box::new(Faulty), log, Process::new(Arc::new(NoMemory)));
        recorder.family().serve().unwrap();
        let program = ChildSink::new(shared, 0);
        let ops = vec![Op::load(64, 8, 1); 4096];
        program.accept(0, &ops);
        let ended = recorder.family().wait_for_first(|| false).unwrap();
        assert_eq!(ended, Ended::Broken);
        // Many times what the ring holds.
        (0..100).for_each(|_| program.accept(0, &ops));
        assert!(program.is_done(), "nobody reads any more");
        assert_eq!(shared.claim(), None, "nor is any other process taken");
        recorder.finish_run(ended);
        let records = LogReader::open(&path).unwrap().poll();
        std::fs::remove_file(path).unwrap();
        let error = records.iter().find(|record| record["type"] == "error").unwrap();
        assert_eq!(error["message"], BROKEN);
        let result = records.iter().find(|record| record["type"] == "result").unwrap();
        assert_eq!(result["ended"], json!({"how": "broken"}));
        assert_eq!(result["sink"], json!({"kind": "faulty"}));
    }
}
