//! What a program asks for when it calls for another one.

use crate::syscalls::Process;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of a program's arguments and variables that are looked at, at most: more than the kernel
/// takes (`execve(2)`, "Limits on size of arguments and environment").
const MOST_BYTES: usize = 8 << 20;

/// A call of execve(2) or execveat(2), read from the program's memory.
#[derive(Clone, Debug)]
pub struct Request {
    directory: i32,
    path: CString,
    flags: i32,
    arguments: Vec<OsString>,
    environment: Vec<OsString>,
}

impl Request {
    /// Reads a call's arguments. `None` where the program's memory cannot be read, as the kernel will
    /// find too.
    pub fn read(process: &Process, number: i64, a: [u64; 6]) -> Option<Request> {
        let of_current = (libc::AT_FDCWD, 0, a[0], a[1], a[2]);
        let of_any = (a[0] as i32, a[4] as i32, a[1], a[2], a[3]);
        let (directory, flags, path, arguments, environment) =
            if number == libc::SYS_execve { of_current } else { of_any };
        let mut left = MOST_BYTES;
        Some(Request {
            directory,
            path: CString::new(process.read_string(path, libc::PATH_MAX as usize)?).ok()?,
            flags,
            arguments: strings(process, arguments, &mut left)?,
            environment: strings(process, environment, &mut left)?,
        })
    }

    /// Whether the kernel lets this user run the file.
    pub fn may_run(&self) -> bool {
        let flags = libc::AT_EACCESS | self.flags & libc::AT_EMPTY_PATH;
        // SAFETY: the path ends in a zero byte.
        unsafe { libc::faccessat(self.directory, self.path.as_ptr(), libc::X_OK, flags) == 0 }
    }

    /// The program as the call names it.
    pub fn program(&self) -> PathBuf {
        if self.path.is_empty() {
            return link_of(self.directory).unwrap_or_default();
        }
        path_of(&self.path).to_owned()
    }

    /// What the program is told that it is called.
    pub fn name(&self) -> OsString {
        self.arguments.first().cloned().unwrap_or_default()
    }

    /// Its other arguments.
    pub fn arguments(&self) -> Vec<OsString> {
        self.arguments.get(1..).unwrap_or_default().to_vec()
    }

    /// Its variables.
    pub fn environment(&self) -> &[OsString] {
        &self.environment
    }

    /// The program's path, by which it can be opened once the call has been made. `own` is that of the
    /// program that this process runs now. An error says why there is none.
    pub fn path(&self, own: Option<&Path>) -> Result<PathBuf, String> {
        if self.path.is_empty() && self.flags & libc::AT_EMPTY_PATH != 0 {
            return path_of_descriptor(self.directory);
        }
        let path = path_of(&self.path);
        if is_own_program(path) {
            // The kernel's own answer is the emulator.
            return own.map(Path::to_owned).ok_or_else(|| "its own name is not known".into());
        }
        if let Some(descriptor) = descriptor_in(path) {
            return path_of_descriptor(descriptor);
        }
        if path.is_absolute() || self.directory == libc::AT_FDCWD {
            return Ok(path.to_owned());
        }
        let directory = link_of(self.directory).filter(|directory| directory.is_dir());
        Ok(directory.ok_or("its directory has no name")?.join(path))
    }
}

/// The strings of a table that ends with a null; none where there is no table.
fn strings(process: &Process, table: u64, left: &mut usize) -> Option<Vec<OsString>> {
    let mut strings = Vec::new();
    for index in 0.. {
        if table == 0 {
            break;
        }
        let [address] = process.read_words::<1>(table.wrapping_add(8 * index))?;
        if address == 0 {
            break;
        }
        let string = process.read_string(address, *left)?;
        *left = left.checked_sub(string.len() + size_of::<u64>())?;
        strings.push(OsString::from_vec(string));
    }
    Some(strings)
}

fn path_of(path: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(path.to_bytes()))
}

fn link_of(descriptor: i32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()
}

/// Whether a path stands for the program that this process runs (proc(5)).
fn is_own_program(path: &Path) -> bool {
    let own = format!("/proc/{}/exe", std::process::id());
    ["/proc/self/exe", "/proc/thread-self/exe", &own].iter().any(|name| path == Path::new(name))
}

/// The descriptor that a path stands for, as fexecve(3) and scripts use it.
fn descriptor_in(path: &Path) -> Option<i32> {
    let parent = path.parent()?;
    let stands = ["/dev/fd", "/proc/self/fd"].iter().any(|name| parent == Path::new(name));
    stands.then(|| path.file_name()?.to_str()?.parse().ok()).flatten()
}

/// A path by which a descriptor's file can be opened once descriptors that close at exec are closed.
fn path_of_descriptor(descriptor: i32) -> Result<PathBuf, String> {
    let here = PathBuf::from(format!("/proc/self/fd/{descriptor}"));
    let key = |path: &Path| path.metadata().ok().map(|status| (status.dev(), status.ino()));
    let named =
        link_of(descriptor).filter(|named| key(named).is_some_and(|k| Some(k) == key(&here)));
    if let Some(named) = named {
        return Ok(named);
    }
    // SAFETY: asks for the descriptor's flags only.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
    if flags >= 0 && flags & libc::FD_CLOEXEC == 0 {
        return Ok(here);
    }
    Err("its file has no name".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;

    fn request(directory: i32, path: &str, flags: i32) -> Request {
        let path = CString::new(path).unwrap();
        Request { directory, path, flags, arguments: Vec::new(), environment: Vec::new() }
    }

    #[test]
    fn a_program_is_found_by_whatever_names_it() {
        let own = Path::new("/own/program");
        let directory = File::open("/bin").unwrap();
        let real = Path::new("/bin/sh").canonicalize().unwrap();
        let shell = File::open("/bin/sh").unwrap();
        let descriptor = shell.as_raw_fd();
        let by_descriptor = format!("/proc/self/fd/{descriptor}");
        for (request, expected) in [
            (request(libc::AT_FDCWD, "/bin/sh", 0), Path::new("/bin/sh")),
            (request(libc::AT_FDCWD, "a/b", 0), Path::new("a/b")),
            (request(libc::AT_FDCWD, "/proc/self/exe", 0), own),
            (request(descriptor, "", libc::AT_EMPTY_PATH), &real),
            (request(libc::AT_FDCWD, &by_descriptor, 0), &real),
            (request(descriptor, "/bin/sh", 0), Path::new("/bin/sh")),
        ] {
            assert_eq!(request.path(Some(own)).unwrap(), expected, "{request:?}");
        }
        let within = request(directory.as_raw_fd(), "sh", 0);
        assert_eq!(within.path(None).unwrap().canonicalize().unwrap(), real);
        assert!(within.may_run());
        assert!(request(libc::AT_FDCWD, "/proc/self/exe", 0).path(None).is_err());
        assert!(!request(libc::AT_FDCWD, "/nonexistent", 0).may_run());
    }

    #[test]
    fn a_file_without_a_name_is_found_as_long_as_its_descriptor_stays_open() {
        // SAFETY: the name ends in a zero byte; the descriptors are this test's own.
        unsafe {
            let open = libc::memfd_create(c"x".as_ptr(), 0);
            let closes = libc::memfd_create(c"x".as_ptr(), libc::MFD_CLOEXEC);
            assert_eq!(
                path_of_descriptor(open).unwrap(),
                PathBuf::from(format!("/proc/self/fd/{open}"))
            );
            assert_eq!(path_of_descriptor(closes).unwrap_err(), "its file has no name");
            libc::close(open);
            libc::close(closes);
        }
    }
}
