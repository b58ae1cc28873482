//! Which file a name or a descriptor stands for, and what it is called.

use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString, OsStr};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What tells a file from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileKey {
    /// Its file system's device.
    pub device: u64,
    /// Its inode's number, which a later file may have again.
    pub inode: u64,
    /// What such files differ in.
    pub generation: u64,
}

/// A file that a call names.
pub struct Target {
    /// Its status.
    pub status: libc::stat,
    /// What its handle says of its generation, where that can be relied on.
    pub generation: Option<u64>,
    /// Its path, by the call's words.
    pub path: PathBuf,
}

impl Target {
    /// What a path of a call stands for, beside an open directory; of a symbolic link, with `follow`, what that stands
    /// for. Nothing where there is no such file, or where its content is in no file system on a store.
    pub fn find(directory: i32, path: &CStr, follow: bool) -> Option<Target> {
        Target::of_kind(directory, path, follow, &[libc::S_IFREG])
    }

    /// The same of a file or a directory, but for links.
    pub fn find_any(directory: i32, path: &CStr) -> Option<Target> {
        Target::find_either(directory, path, false)
    }

    /// The same of a file or a directory.
    pub fn find_either(directory: i32, path: &CStr, follow: bool) -> Option<Target> {
        Target::of_kind(directory, path, follow, &[libc::S_IFREG, libc::S_IFDIR])
    }

    /// The directory that a path stands for.
    pub fn find_directory(path: &Path) -> Option<Target> {
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        Target::of_kind(libc::AT_FDCWD, &path, true, &[libc::S_IFDIR])
    }

    /// The directory that has the name which a call gives or takes.
    pub fn parent(directory: i32, path: &CStr) -> Option<Target> {
        Target::find_directory(whole_path(directory, path)?.parent()?)
    }

    /// Its path becomes one without links and dots: of a link itself, with `follow` unset, its own.
    pub fn resolve(&mut self, follow: bool) {
        let own = match (follow, self.path.parent(), self.path.file_name()) {
            (false, Some(parent), Some(name)) => {
                std::fs::canonicalize(parent).map(|parent| parent.join(name))
            }
            _ => std::fs::canonicalize(&self.path),
        };
        self.path = own.unwrap_or(std::mem::take(&mut self.path));
    }

    /// The directory that has its name, once its path is [resolved](Target::resolve); the topmost has none.
    pub fn above(&self) -> Option<Target> {
        Target::find_directory(self.path.parent()?)
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.status.st_mode & libc::S_IFMT == libc::S_IFDIR
    }

    /// What recordings call it: a directory ends with a slash.
    pub fn name(&self) -> String {
        let name = name_of(&self.path);
        if self.is_directory() && !name.ends_with('/') { name + "/" } else { name }
    }

    fn of_kind(
        directory: i32,
        path: &CStr,
        follow: bool,
        kinds: &[libc::mode_t],
    ) -> Option<Target> {
        let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
        let status = status_at(directory, path, flags)?;
        let whole = whole_path(directory, path)?;
        let is_wanted = kinds.contains(&(status.st_mode & libc::S_IFMT));
        // The file itself may not be read, and be a link.
        let system = file_system_of(whole.parent().unwrap_or(&whole))?;
        if !is_wanted || whole.starts_with("/dev/shm") || is_made_up(system) {
            return None;
        }
        let flags = if follow { libc::AT_SYMLINK_FOLLOW } else { 0 };
        let generation = generation(system, directory, path, flags);
        Some(Target { status, generation, path: whole })
    }

    /// Its size; a directory's is not told.
    pub fn size_bytes(&self) -> u64 {
        if self.is_directory() { 0 } else { self.status.st_size.max(0) as u64 }
    }

    /// Names that it has besides; a directory's own are none.
    pub fn other_names(&self) -> u64 {
        if self.is_directory() { 0 } else { self.status.st_nlink.saturating_sub(1) }
    }
}

/// The path that a call means, from the root on; links in it are not followed.
fn whole_path(directory: i32, path: &CStr) -> Option<PathBuf> {
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    if path.is_absolute() {
        return Some(path.into());
    }
    let from = match directory {
        libc::AT_FDCWD => std::fs::read_link("/proc/self/cwd"),
        directory => std::fs::read_link(format!("/proc/self/fd/{directory}")),
    };
    Some(from.ok()?.join(path))
}

fn status_at(directory: i32, path: &CStr, flags: i32) -> Option<libc::stat> {
    let mut status = MaybeUninit::uninit();
    // SAFETY: the path ends in a zero byte; `status` has room, and is read only if the call filled it.
    unsafe {
        let filled = libc::fstatat(directory, path.as_ptr(), status.as_mut_ptr(), flags) == 0;
        filled.then(|| status.assume_init())
    }
}

fn file_system_of(path: &Path) -> Option<i64> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut system = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: as above.
    unsafe {
        let filled = libc::statfs(path.as_ptr(), system.as_mut_ptr()) == 0;
        filled.then(|| system.assume_init().f_type)
    }
}

/// The kind of the file system that has a descriptor's file.
pub fn file_system(descriptor: i32) -> Option<i64> {
    let mut system = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: as above.
    unsafe {
        let filled = libc::fstatfs(descriptor, system.as_mut_ptr()) == 0;
        filled.then(|| system.assume_init().f_type)
    }
}

/// Whether the kernel makes up what files of such a file system hold (proc, sysfs and the like).
pub fn is_made_up(system: i64) -> bool {
    const MADE_UP: [i64; 6] = [
        libc::PROC_SUPER_MAGIC,
        libc::SYSFS_MAGIC,
        libc::CGROUP_SUPER_MAGIC,
        libc::CGROUP2_SUPER_MAGIC,
        libc::DEBUGFS_MAGIC,
        libc::TRACEFS_MAGIC,
    ];
    MADE_UP.contains(&system)
}

/// The generation of a descriptor's file, in a file system of this kind.
pub fn generation_of(system: i64, descriptor: i32) -> Option<u64> {
    generation(system, descriptor, c"", libc::AT_EMPTY_PATH)
}

/// What a file's handle says (name_to_handle_at(2)), which has its inode's generation in it. Not of file systems whose
/// handles may change, as where files lie behind others or behind a network.
fn generation(system: i64, directory: i32, path: &CStr, flags: i32) -> Option<u64> {
    const RELIABLE: [i64; 5] = [
        libc::EXT4_SUPER_MAGIC,
        libc::XFS_SUPER_MAGIC,
        libc::BTRFS_SUPER_MAGIC,
        libc::TMPFS_MAGIC,
        libc::F2FS_SUPER_MAGIC,
    ];
    /// `MAX_HANDLE_SZ`, include/linux/exportfs.h.
    const MOST_BYTES: usize = 128;
    #[repr(C)]
    struct Handle {
        bytes: u32,
        kind: i32,
        handle: [u8; MOST_BYTES],
    }
    if !RELIABLE.contains(&system) {
        return None;
    }
    let mut handle = Handle { bytes: MOST_BYTES as u32, kind: 0, handle: [0; MOST_BYTES] };
    let mut mount = 0i32;
    // SAFETY: the path ends in a zero byte; handle and mount have room for what the call writes.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            directory,
            path.as_ptr(),
            &raw mut handle,
            &raw mut mount,
            flags,
        ) != 0
    };
    let told = handle.handle.get(..handle.bytes as usize)?;
    // FNV-1a.
    let mixed = told
        .iter()
        .chain(&handle.kind.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
    (!failed).then_some(mixed)
}

/// What a recording calls a file: its path, in which a backslash is doubled, and a byte that belongs to no character of
/// UTF-8 is `\x` and its two hexadecimal digits.
pub fn name_of(path: &Path) -> String {
    let mut name = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        name.push_str(&chunk.valid().replace('\\', "\\\\"));
        chunk.invalid().iter().for_each(|byte| name.push_str(&format!("\\x{byte:02x}")));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn names_tell_every_byte_of_a_path() {
        let name = |bytes: &[u8]| name_of(Path::new(OsStr::from_bytes(bytes)));
        assert_eq!(name("/ä/b".as_bytes()), "/ä/b");
        assert_eq!(name(b"/a\xff\xfeb\xc3"), r"/a\xff\xfeb\xc3");
        assert_eq!(name(br"/a\xff"), r"/a\\xff");
    }

    #[test]
    fn a_name_and_a_descriptor_tell_one_file_and_the_next_with_its_number_is_another() {
        let path = std::env::temp_dir().join(format!("tierscope-key-{}", std::process::id()));
        let named = CString::new(path.as_os_str().as_bytes()).unwrap();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..3 {
            let file = std::fs::File::create(&path).unwrap();
            let target = Target::find(libc::AT_FDCWD, &named, false).unwrap();
            let system = file_system(file.as_raw_fd()).unwrap();
            assert_eq!(generation_of(system, file.as_raw_fd()), target.generation);
            assert!(target.other_names() == 0 && target.path == path);
            if target.generation.is_some() {
                let key = (target.status.st_dev, target.status.st_ino, target.generation);
                assert!(seen.insert(key), "its inode may be the same, and its generation not");
            }
            drop(file);
            std::fs::remove_file(&path).unwrap();
        }
        assert!(Target::find(libc::AT_FDCWD, &named, false).is_none());
        assert!(Target::find(libc::AT_FDCWD, c"/proc/self/maps", true).is_none());
        assert!(Target::find(libc::AT_FDCWD, c"/tmp", true).is_none());
        let directory = Target::find_any(libc::AT_FDCWD, c"/tmp").unwrap();
        assert!(directory.is_directory() && directory.name() == "/tmp/");
        let parent = Target::parent(libc::AT_FDCWD, c"/tmp/nothing").unwrap();
        assert_eq!(parent.status.st_ino, directory.status.st_ino);
    }
}
