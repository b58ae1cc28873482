//! The process that has the machines, as the launcher sees it.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// That process: a descriptor that stands for it (pidfd_open(2)), and for no other that may have its
/// number later.
pub struct Host(OwnedFd);

impl Host {
    /// The process that the kernel calls `pid`; `None` where it has ended.
    pub fn of(pid: libc::pid_t) -> Option<Host> {
        // SAFETY: touches no memory; a descriptor that it returns is new and nobody else's.
        unsafe {
            let descriptor = libc::syscall(libc::SYS_pidfd_open, pid, 0) as libc::c_int;
            (descriptor >= 0).then(|| Host(OwnedFd::from_raw_fd(descriptor)))
        }
    }

    /// Waits for `time` at most. Whether it has ended.
    pub fn is_over(&self, time: Duration) -> bool {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let milliseconds = i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: one entry, which lives through the call.
        unsafe { libc::poll(&mut poll, 1, milliseconds) == 1 }
    }

    /// Kills it.
    pub fn kill(&self) {
        let (descriptor, no_information) =
            (self.0.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
        // SAFETY: no information is read. It may have ended already.
        unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                descriptor,
                libc::SIGKILL,
                no_information,
                0,
            );
        }
    }
}
