//! Threads of the recorder that live inside a recorded program's process without disturbing it.
//!
//! The program's descriptors are the process's own, and it may close or reuse any of them; its
//! signals may be delivered to any thread of the process. So our threads have a table of
//! descriptors of their own and block every signal.

use std::io;
use std::thread::JoinHandle;

/// Starts a thread with a descriptor table of its own, which has only `/dev/null` as standard
/// input, output and error, and with all signals blocked. Threads that it starts share both.
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let name = name.to_owned();
    with_signals_blocked(move || {
        std::thread::Builder::new().name(name).spawn(move || {
            take_own_descriptors();
            body()
        })
    })
}

/// Runs `body` with every signal blocked: a thread begins with its creator's mask.
fn with_signals_blocked<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: a signal set is plain data, and both calls get pointers to sets that live here.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before);
        let value = body();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        value
    }
}

/// Gives the calling thread an empty descriptor table of its own, so that it neither keeps the
/// program's pipes open nor loses its files to the program.
fn take_own_descriptors() {
    // SAFETY: only this thread's own table is concerned, in which it has opened nothing yet.
    unsafe {
        let unshare_and_close = libc::CLOSE_RANGE_UNSHARE;
        if libc::syscall(libc::SYS_close_range, 0u32, u32::MAX, unshare_and_close) != 0 {
            // Kernels before 5.9 lack close_range.
            if libc::unshare(libc::CLONE_FILES) != 0 {
                return;
            }
            let mut limit = libc::rlimit { rlim_cur: 1024, rlim_max: 1024 };
            libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
            for descriptor in 0..limit.rlim_cur.min(1 << 20) as i32 {
                libc::close(descriptor);
            }
        }
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for descriptor in (0..=2).filter(|descriptor| *descriptor != null) {
            libc::dup2(null, descriptor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsRawFd;

    #[test]
    fn an_isolated_thread_neither_sees_nor_keeps_the_programs_descriptors() {
        let (mut reader, writer) = io::pipe().unwrap();
        let descriptor = writer.as_raw_fd();
        let (go, may_go) = std::sync::mpsc::channel::<()>();
        let (told, heard) = std::sync::mpsc::channel();
        let thread = spawn("isolated", move || {
            // SAFETY: asks for the descriptor's flags only.
            told.send(unsafe { libc::fcntl(descriptor, libc::F_GETFD) }).unwrap();
            may_go.recv().unwrap();
        })
        .unwrap();
        assert_eq!(heard.recv().unwrap(), -1, "the descriptor is not there");
        drop(writer);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        go.send(()).unwrap();
        thread.join().unwrap();
    }

    #[test]
    fn an_isolated_thread_blocks_every_signal() {
        let blocked = spawn("isolated", || {
            // SAFETY: the set is plain data that lives here.
            unsafe {
                let mut mask: libc::sigset_t = std::mem::zeroed();
                libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask);
                [libc::SIGINT, libc::SIGUSR1, libc::SIGTERM, libc::SIGPROF]
                    .iter()
                    .all(|signal| libc::sigismember(&mask, *signal) == 1)
            }
        });
        assert!(blocked.unwrap().join().unwrap());
    }
}
