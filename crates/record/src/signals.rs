//! Signals: their names, and which of them end a process.

/// The signals of Linux on x86-64 that have a name (signal(7)), by number.
const NAMES: [&str; 32] = [
    "",
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];
/// The largest number of a signal.
const LAST: i32 = 64;

/// A signal's number and name: `signal 11 (SIGSEGV)`.
pub fn describe(number: i32) -> String {
    let name = usize::try_from(number).ok().and_then(|number| NAMES.get(number));
    match name {
        Some(name) if !name.is_empty() => format!("signal {number} ({name})"),
        _ => format!("signal {number}"),
    }
}

/// Whether a signal ends a process that has no handler for it (signal(7), *Standard signals*): not
/// those that are ignored, stop it, or let it go on.
pub fn ends_by_default(number: i32) -> bool {
    let harmless = matches!(
        number,
        libc::SIGCHLD
            | libc::SIGCONT
            | libc::SIGURG
            | libc::SIGWINCH
            | libc::SIGSTOP
            | libc::SIGTSTP
            | libc::SIGTTIN
            | libc::SIGTTOU
    );
    (1..=LAST).contains(&number) && !harmless
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_told_by_number_and_name() {
        let all = [(libc::SIGSEGV, "signal 11 (SIGSEGV)"), (libc::SIGSYS, "signal 31 (SIGSYS)")];
        for (number, told) in all {
            assert_eq!(describe(number), told);
        }
        assert_eq!(describe(34), "signal 34", "real-time signals have no name");
        assert_eq!(describe(-1), "signal -1");
    }

    #[test]
    fn what_stops_or_does_nothing_does_not_end() {
        for number in [0, libc::SIGSTOP, libc::SIGCHLD, libc::SIGTSTP, 65] {
            assert!(!ends_by_default(number), "{number}");
        }
        for number in [libc::SIGINT, libc::SIGKILL, libc::SIGUSR1, libc::SIGABRT, 40] {
            assert!(ends_by_default(number), "{number}");
        }
    }
}
