//! Processes that are not this one's children, or not yet waited for.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A process, by a descriptor that stands for it (pidfd_open(2)), and for no other that may have its
/// number later.
pub struct Pidfd(OwnedFd);

impl Pidfd {
    /// The process that the kernel calls `pid`. An error where it has ended and was waited for, or no
    /// more descriptors are to be had.
    pub fn open(pid: libc::pid_t) -> io::Result<Pidfd> {
        // SAFETY: touches no memory; a descriptor that it returns is new and nobody else's.
        unsafe {
            let descriptor = libc::syscall(libc::SYS_pidfd_open, pid, 0) as libc::c_int;
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Pidfd(OwnedFd::from_raw_fd(descriptor)))
        }
    }

    /// Waits for `time` at most. Whether it has ended.
    pub fn is_over(&self, time: Duration) -> bool {
        self.poll(i32::try_from(time.as_millis()).unwrap_or(i32::MAX))
    }

    /// Waits until it has ended.
    pub fn wait(&self) {
        while !self.poll(-1) {}
    }

    fn poll(&self, milliseconds: libc::c_int) -> bool {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which lives through the call.
        unsafe { libc::poll(&mut poll, 1, milliseconds) == 1 }
    }

    /// Kills it. It may have ended already.
    pub fn kill(&self) {
        self.signal(libc::SIGKILL);
    }

    /// Sends it a signal. It may have ended already.
    pub fn signal(&self, number: libc::c_int) {
        let (process, nothing) = (self.0.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
        // SAFETY: no information is read.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process, number, nothing, 0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_over_once_it_has_ended_or_was_killed() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let process = Pidfd::open(child.id() as libc::pid_t).unwrap();
        assert!(!process.is_over(Duration::from_millis(1)));
        process.kill();
        process.wait();
        assert!(process.is_over(Duration::ZERO), "also before anybody has waited for it");
        child.wait().unwrap();
        process.kill();
        assert!(process.is_over(Duration::ZERO));
        assert!(Pidfd::open(-1).is_err());
    }
}
