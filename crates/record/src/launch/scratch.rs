//! A directory for a run's files, which goes with the run, however the run ends.
//!
//! It is locked (flock) for as long as its launcher lives. One that nobody has locked was left by
//! a launcher that was killed, and the next one removes it.

use super::{LaunchError, io_error};
use std::fs::{DirEntry, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const PREFIX: &str = "tierscope-";
const LOCK: &str = "lock";

/// The directory; it goes with its value.
pub struct Scratch {
    pub path: PathBuf,
    /// Holds the lock for as long as it is open.
    _lock: File,
}

impl Scratch {
    /// Makes one in `parent`, and removes those there that launchers left that were killed.
    pub fn new(parent: &Path) -> Result<Scratch, LaunchError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let parent = std::path::absolute(parent).map_err(io_error("the scratch directory"))?;
        remove_abandoned(&parent);
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            let made = std::fs::create_dir(&path).and_then(|()| lock(&path));
            match made {
                Ok(Some(lock)) => return Ok(Scratch { path, _lock: lock }),
                // Another launcher took it for an abandoned one before it was locked.
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let what = format!("cannot make a directory in {}", parent.display());
                    return Err(io_error(&what)(error));
                }
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing depends on it any more.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Locks a directory of one's own; `None` where it has been removed meanwhile.
fn lock(directory: &Path) -> io::Result<Option<File>> {
    let file = match File::create_new(directory.join(LOCK)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // Where there are no locks, nobody can take the directory for an abandoned one either.
    if matches!(flock(&file), Ok(false)) {
        return Ok(None);
    }
    Ok((file.metadata()?.nlink() > 0).then_some(file))
}

/// Takes a file's lock if nobody holds it; whether it was taken.
fn flock(file: &File) -> io::Result<bool> {
    // SAFETY: the descriptor is open; the call touches no memory.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::WouldBlock { Ok(false) } else { Err(error) }
}

/// Removes the directories of launchers that live no more. What cannot be removed is left: it is
/// in nobody's way.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten().filter(is_ours) {
        let path = entry.path();
        let lock = File::open(path.join(LOCK));
        if lock.is_ok_and(|lock| matches!(flock(&lock), Ok(true))) {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// Whether it is a directory that this user's launchers made: `tierscope-PID-NUMBER`.
fn is_ours(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let numbers = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    let numbered = numbers
        .and_then(|numbers| numbers.split_once('-'))
        .is_some_and(|(pid, number)| [pid, number].iter().all(|part| part.parse::<u64>().is_ok()));
    // SAFETY: it always succeeds and touches no memory.
    let user = unsafe { libc::geteuid() };
    // The entry's own metadata: a symbolic link is no directory.
    numbered && entry.metadata().is_ok_and(|status| status.is_dir() && status.uid() == user)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("scratch-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn an_abandoned_directory_is_removed_and_no_other() {
        let parent = parent("abandoned");
        let held = Scratch::new(&parent).unwrap();
        for (name, has_lock) in
            [("tierscope-1-0", true), ("tierscope-2-0", false), ("tierscope-x-0", true)]
        {
            std::fs::create_dir(parent.join(name)).unwrap();
            if has_lock {
                std::fs::write(parent.join(name).join(LOCK), "").unwrap();
            }
        }
        std::os::unix::fs::symlink(parent.join("tierscope-x-0"), parent.join("tierscope-3-0"))
            .unwrap();
        let second = Scratch::new(&parent).unwrap();
        let there = |name: &str| parent.join(name).exists();
        assert!(!there("tierscope-1-0"), "nobody has it locked");
        assert!(there("tierscope-2-0"), "it may be about to be locked");
        assert!(there("tierscope-x-0") && there("tierscope-3-0"), "they are none of ours");
        assert!(held.path.exists() && second.path.exists() && held.path != second.path);
        let path = held.path.clone();
        drop(held);
        assert!(!path.exists());
        drop(second);
        std::fs::remove_dir_all(&parent).unwrap();
    }
}
