//! The processes of a program that still live, for whoever has to end them.
//!
//! A process belongs to the program if it maps the memory that the program's processes share, as all do
//! that were forked under the recorder, recorded or not; if the host has served it; or if it descends
//! from one of these. So it does not matter whether it has left its session or process group. What
//! cannot be known is a process that an unrecorded program has started and then left to init.

use crate::pidfd::Pidfd;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// A process, by the kernel's number and when it began: numbers are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessId {
    /// The kernel's number.
    pub pid: libc::pid_t,
    /// When it began, in clock ticks since the computer did (proc(5), `stat`, field 22).
    pub begun: u64,
}

impl ProcessId {
    /// The process that the kernel calls `pid` now; `None` where there is none.
    pub fn of(pid: libc::pid_t) -> Option<ProcessId> {
        Some(Listed::of(pid)?.id)
    }

    /// What stands for it; `None` where it has ended.
    fn alive(self) -> Option<Pidfd> {
        let process = Pidfd::open(self.pid).ok()?;
        // Its number may have become another's before it was opened, and not after.
        let same = ProcessId::of(self.pid) == Some(self);
        (same && !process.is_over(Duration::ZERO)).then_some(process)
    }
}

/// A process as the kernel lists it.
#[derive(Clone, Copy)]
struct Listed {
    id: ProcessId,
    parent: libc::pid_t,
}

impl Listed {
    fn of(pid: libc::pid_t) -> Option<Listed> {
        let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Behind the name, which is in brackets and may hold anything, the third field comes.
        let mut fields = line.rsplit(") ").next()?.split_ascii_whitespace();
        let parent = fields.nth(1)?.parse().ok()?;
        let begun = fields.nth(17)?.parse().ok()?;
        Some(Listed { id: ProcessId { pid, begun }, parent })
    }

    fn all() -> Vec<Listed> {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        let pid = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.ok()?.file_name().to_str()?.parse::<libc::pid_t>().ok()
        };
        entries.filter_map(pid).filter_map(Listed::of).collect()
    }
}

/// Which processes a program's are.
#[derive(Clone, Debug)]
pub struct Kin {
    /// The inode of the memory that they share ([`crate::family::channel::Shared`]).
    memory: u64,
    /// The host, which shares it too.
    host: libc::pid_t,
    known: Vec<ProcessId>,
}

impl Kin {
    /// Those that share the memory with this inode, but for the host.
    pub fn new(memory: u64, host: libc::pid_t) -> Kin {
        Kin { memory, host, known: Vec::new() }
    }

    /// Processes that belong to it as well.
    pub fn know(&mut self, more: impl IntoIterator<Item = ProcessId>) {
        self.known.extend(more);
    }

    /// Those that live now.
    fn alive(&self) -> Vec<Pidfd> {
        let all = Listed::all();
        let known: BTreeSet<ProcessId> = self.known.iter().copied().collect();
        let belongs = |one: &&Listed| known.contains(&one.id) || maps(one.id.pid, self.memory);
        let mut members: BTreeSet<ProcessId> =
            all.iter().filter(belongs).map(|one| one.id).collect();
        loop {
            let pids: BTreeSet<libc::pid_t> = members.iter().map(|one| one.pid).collect();
            let before = members.len();
            let children = all.iter().filter(|one| one.parent > 1 && pids.contains(&one.parent));
            members.extend(children.map(|one| one.id));
            if members.len() == before {
                break;
            }
        }
        let this = std::process::id() as libc::pid_t;
        let theirs = |one: &&ProcessId| one.pid != self.host && one.pid != this;
        members.iter().filter(theirs).filter_map(|one| one.alive()).collect()
    }

    /// How many live now.
    pub fn count(&self) -> usize {
        self.alive().len()
    }

    /// Sends all that live a signal. How many they are.
    pub fn signal(&self, number: libc::c_int) -> usize {
        let alive = self.alive();
        alive.iter().for_each(|process| process.signal(number));
        alive.len()
    }

    /// Kills all, those included that are being forked meanwhile.
    pub fn kill(&self) {
        const ROUNDS: usize = 100;
        for _ in 0..ROUNDS {
            let alive = self.alive();
            if alive.is_empty() {
                return;
            }
            alive.iter().for_each(Pidfd::kill);
            alive.iter().for_each(|process| {
                process.is_over(Duration::from_millis(20));
            });
        }
    }
}

/// Whether a process maps the shared memory with this inode.
fn maps(pid: libc::pid_t, inode: u64) -> bool {
    let whole = Path::new("/proc").join(pid.to_string());
    if let Ok(maps) = std::fs::read_to_string(whole.join("maps"))
        && !maps.is_empty()
    {
        return names(&maps, inode);
    }
    // The kernel tells it of other threads where the first has ended.
    let Ok(threads) = std::fs::read_dir(whole.join("task")) else { return false };
    let told =
        threads.flatten().filter_map(|one| std::fs::read_to_string(one.path().join("maps")).ok());
    told.into_iter().any(|maps| names(&maps, inode))
}

/// Whether a process's mappings (proc(5), `maps`) have the shared memory with this inode among them.
fn names(maps: &str, inode: u64) -> bool {
    let inode = inode.to_string();
    maps.lines()
        .filter(|line| line.contains("/memfd:tierscope"))
        .any(|line| line.split_ascii_whitespace().nth(4) == Some(&inode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::channel::Shared;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn a_line_of_maps_names_the_shared_memory_by_its_inode() {
        let line = "7f00-7f01 rw-s 00000000 00:01 4242        /memfd:tierscope (deleted)\n";
        assert!(names(line, 4242));
        assert!(!names(line, 424));
        assert!(!names(&line.replace("tierscope", "other"), 4242));
    }

    #[test]
    fn what_descends_from_a_known_process_is_found_and_killed_in_whatever_session_it_is() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' TERM; setsid sleep 100 & sleep 100 & wait"]);
        let mut shell = shell.stdout(Stdio::null()).process_group(0).spawn().unwrap();
        let mut kin = Kin::new(0, 0);
        assert_eq!(kin.count(), 0);
        kin.know(ProcessId::of(shell.id() as libc::pid_t));
        let begun = std::time::Instant::now();
        while kin.count() < 3 && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(kin.signal(libc::SIGTERM), 3);
        assert!(kin.count() > 0, "they ignore that");
        kin.kill();
        assert_eq!(kin.count(), 0);
        shell.wait().unwrap();
    }

    #[test]
    fn a_process_that_maps_the_memory_is_found_although_nobody_knows_it() {
        let (_shared, file) = Shared::new().unwrap();
        let inode = std::fs::File::from(file).metadata().unwrap().ino();
        // SAFETY: the child makes system calls alone.
        let child = unsafe {
            match libc::fork() {
                0 => {
                    libc::pause();
                    libc::_exit(0)
                }
                child => child,
            }
        };
        let host = Kin::new(inode, child);
        // What other tests have forked meanwhile maps it, too, until it ends.
        let is_alone = || host.count() == 0;
        let waits = std::iter::repeat_with(is_alone).take(500);
        let pause = std::time::Duration::from_millis(20);
        let mut waits = waits.inspect(|alone| std::thread::sleep(pause * u32::from(!alone)));
        assert!(waits.any(|alone| alone), "neither this process nor the host");
        let kin = Kin::new(inode, 0);
        assert_eq!(kin.count(), 1);
        kin.kill();
        assert_eq!(kin.count(), 0);
        // SAFETY: the child is this process's, and nothing is written.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    }

    #[test]
    fn a_number_that_is_anothers_now_means_nobody() {
        let this = ProcessId::of(std::process::id() as libc::pid_t).unwrap();
        let mut kin = Kin::new(0, 0);
        kin.know([
            ProcessId { begun: this.begun + 1, ..this },
            ProcessId { pid: 1, begun: u64::MAX },
        ]);
        assert_eq!(kin.count(), 0);
    }
}
