//! Which file is behind a descriptor.
//!
//! The program's descriptors are the process's own, so that the kernel knows them best; this table
//! adds which of them share an open file, and gives files their numbers.

use crate::file_key::{FileKey, Target, file_system, generation_of, is_made_up, name_of};
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::sync::Arc;
use tierscope_workload::{Call, FileId, FileInfo};

/// What a descriptor stands for: shared by those that were duplicated from each other.
#[derive(Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// The file, if its content is in a file system on a store: no pipe, terminal or socket, no
    /// file that the kernel makes up, no shared memory.
    pub file: Option<FileId>,
}

/// The descriptors seen so far, and all files.
#[derive(Clone, Default)]
pub struct Descriptors {
    open: HashMap<i32, Arc<OpenFile>>,
    files: HashMap<FileKey, (FileId, FileInfo)>,
    /// How many files of a device and an inode the program has deleted, where nothing else tells them from each other.
    deleted: HashMap<(u64, u64), u64>,
}

/// A file, as it is announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct New {
    /// Its number.
    pub number: FileId,
    /// Which it is.
    pub key: FileKey,
    /// What recordings say of it.
    pub info: FileInfo,
}

/// A file seen for the first time, which is to be announced.
pub type NewFile = Option<New>;

impl Descriptors {
    /// What `descriptor` stands for; looked up where it is not known yet. Also the file's
    /// announcement, if it is new.
    pub fn look_up(&mut self, descriptor: i32) -> (Arc<OpenFile>, NewFile) {
        self.look_up_of(descriptor, None)
    }

    /// The same of a descriptor whose file had this size before it was emptied.
    pub fn look_up_of(&mut self, descriptor: i32, size: Option<u64>) -> (Arc<OpenFile>, NewFile) {
        if let Some(open) = self.open.get(&descriptor) {
            return (open.clone(), None);
        }
        let (file, new) = match file_status(descriptor) {
            Some(status) if has_store(descriptor, &status) => {
                self.number(descriptor, &status, size)
            }
            _ => (None, None),
        };
        let open = Arc::new(OpenFile { file });
        self.open.insert(descriptor, open.clone());
        (open, new)
    }

    /// A call has made `descriptor` anew: what was known of it no longer holds.
    pub fn forget(&mut self, descriptor: i32) {
        self.open.remove(&descriptor);
    }

    /// `new` now stands for the same open file as `old`.
    pub fn duplicate(&mut self, old: i32, new: i32) -> NewFile {
        let (open, file) = self.look_up(old);
        self.open.insert(new, open);
        file
    }

    /// `descriptor` is being closed. Returns its file if no other descriptor stands for it.
    pub fn close(&mut self, descriptor: i32) -> Option<FileId> {
        let open = self.open.remove(&descriptor)?;
        Arc::into_inner(open)?.file
    }

    /// All known descriptors from `first` to `last`.
    pub fn in_range(&self, first: u32, last: u32) -> Vec<i32> {
        let mut found: Vec<i32> =
            self.open.keys().copied().filter(|d| (first..=last).contains(&(*d as u32))).collect();
        found.sort_unstable();
        found
    }

    /// The number of a file that a call names.
    pub fn number_of(&mut self, target: &Target) -> (FileId, NewFile) {
        let key = self.key(&target.status, target.generation);
        self.number_at(key, || FileInfo { name: target.name(), size_bytes: target.size_bytes() })
    }

    /// The program has deleted the last name of a file of this device and inode.
    pub fn delete(&mut self, inode: (u64, u64)) {
        *self.deleted.entry(inode).or_default() += 1;
    }

    fn key(&self, status: &libc::stat, generation: Option<u64>) -> FileKey {
        let (device, inode) = (status.st_dev, status.st_ino);
        // One without a name is the last that was deleted.
        let deleted = || {
            let count = self.deleted.get(&(device, inode)).copied().unwrap_or(0);
            count.saturating_sub(u64::from(status.st_nlink == 0))
        };
        FileKey { device, inode, generation: generation.unwrap_or_else(deleted) }
    }

    fn number(
        &mut self,
        descriptor: i32,
        status: &libc::stat,
        size: Option<u64>,
    ) -> (Option<FileId>, NewFile) {
        let generation =
            file_system(descriptor).and_then(|system| generation_of(system, descriptor));
        let key = self.key(status, generation);
        let size_bytes = size.unwrap_or(status.st_size.max(0) as u64);
        let name = || {
            let name = name_of(&path_of(descriptor));
            let gone = name.strip_suffix(" (deleted)").filter(|_| status.st_nlink == 0);
            gone.map(str::to_owned).unwrap_or(name)
        };
        let (file, new) = self.number_at(key, || FileInfo { name: name(), size_bytes });
        (Some(file), new)
    }

    /// The number of the file of a key; a new one if need be.
    pub fn number_at(
        &mut self,
        key: FileKey,
        info: impl FnOnce() -> FileInfo,
    ) -> (FileId, NewFile) {
        if let Some((file, _)) = self.files.get(&key) {
            return (*file, None);
        }
        let number = self.files.len() as FileId;
        let info = info();
        self.files.insert(key, (number, info.clone()));
        (number, Some(New { number, key, info }))
    }

    /// All files, in the order of their numbers.
    pub fn files(&self) -> Vec<New> {
        let all = self.files.iter();
        let mut all: Vec<New> = all
            .map(|(key, (number, info))| New { number: *number, key: *key, info: info.clone() })
            .collect();
        all.sort_unstable_by_key(|file| file.number);
        all
    }
}

/// The directory that a descriptor stands for.
pub fn directory(descriptor: i32) -> Option<Target> {
    let status = file_status(descriptor)?;
    let is_one = status.st_mode & libc::S_IFMT == libc::S_IFDIR;
    if is_one { Target::find_directory(&path_of(descriptor)) } else { None }
}

/// The directory that has the name of a descriptor's file.
pub fn directory_above(descriptor: i32) -> Option<Target> {
    Target::find_directory(path_of(descriptor).parent()?)
}

/// The file's size in bytes now.
pub fn size_bytes(descriptor: i32) -> u64 {
    file_status(descriptor).map_or(0, |status| status.st_size.max(0) as u64)
}

/// Of one call on a file that is appended to: it is written where the call says (linux/fs.h, from Linux 6.9).
const RWF_NOAPPEND: i32 = 0x20;

/// How reads and writes of an open file go.
#[derive(Clone, Copy, Debug)]
pub struct Mode(i32);

impl Mode {
    /// That of a descriptor now.
    pub fn of(descriptor: i32) -> Self {
        // SAFETY: changes nothing and touches no memory.
        Mode(unsafe { libc::fcntl(descriptor, libc::F_GETFL) }.max(0))
    }

    /// That of one call with such flags of its own (pwritev2(2)).
    pub fn with(self, call_flags: i32) -> Self {
        let of = |flag, mode| if call_flags & flag != 0 { mode } else { 0 };
        let syncs = of(libc::RWF_SYNC, libc::O_SYNC) | of(libc::RWF_DSYNC, libc::O_DSYNC);
        let added = syncs | of(libc::RWF_APPEND, libc::O_APPEND);
        Mode((self.0 & !of(RWF_NOAPPEND, libc::O_APPEND)) | added)
    }

    /// Writes go to the file's end (`O_APPEND`).
    pub fn appends(self) -> bool {
        self.0 & libc::O_APPEND != 0
    }

    /// Past the page cache (`O_DIRECT`).
    pub fn is_direct(self) -> bool {
        self.0 & libc::O_DIRECT != 0
    }

    /// What follows each write before it returns: as fsync (`O_SYNC`), or as fdatasync (`O_DSYNC`, which is a part of
    /// `O_SYNC`; open(2)).
    pub fn sync(self, file: FileId) -> Option<Call> {
        if self.0 & libc::O_SYNC == libc::O_SYNC {
            Some(Call::Sync { file })
        } else if self.0 & libc::O_DSYNC != 0 {
            Some(Call::SyncData { file })
        } else {
            None
        }
    }
}

/// Where the next read or write of an open file happens.
pub fn position(descriptor: i32) -> Option<u64> {
    // SAFETY: moves nothing and touches no memory.
    let position = unsafe { libc::lseek(descriptor, 0, libc::SEEK_CUR) };
    u64::try_from(position).ok()
}

fn file_status(descriptor: i32) -> Option<libc::stat> {
    let mut status = MaybeUninit::uninit();
    // SAFETY: `status` has room for what the call writes, and is read only if it succeeded.
    unsafe { (libc::fstat(descriptor, status.as_mut_ptr()) == 0).then(|| status.assume_init()) }
}

fn path_of(descriptor: i32) -> PathBuf {
    std::fs::read_link(format!("/proc/self/fd/{descriptor}")).unwrap_or_default()
}

/// Whether the content of an open file is in a file system on a store.
fn has_store(descriptor: i32, status: &libc::stat) -> bool {
    if !matches!(status.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFBLK) {
        return false;
    }
    is_in_store(descriptor)
}

/// Whether what a descriptor stands for, a directory or a device too, lies in a file system on a store.
pub fn is_in_store(descriptor: i32) -> bool {
    let path = path_of(descriptor);
    if path.starts_with("/dev/shm") || path.to_string_lossy().starts_with("/memfd:") {
        return false;
    }
    !file_system(descriptor).is_some_and(is_made_up)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_file_has_one_number_however_often_it_is_opened() {
        let path = std::env::temp_dir().join(format!("tierscope-fd-{}", std::process::id()));
        std::fs::write(&path, [0; 100]).unwrap();
        let (first, second) = (File::open(&path).unwrap(), File::open(&path).unwrap());
        let mut table = Descriptors::default();
        let (open, new) = table.look_up(first.as_raw_fd());
        assert_eq!(open.file, Some(0));
        assert_eq!(new.unwrap().info.size_bytes, 100);
        let (again, new) = table.look_up(second.as_raw_fd());
        assert_eq!((again.file, new), (Some(0), None));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_is_closed_with_the_last_descriptor_that_shares_it() {
        let path = std::env::temp_dir().join(format!("tierscope-dup-{}", std::process::id()));
        std::fs::write(&path, "x").unwrap();
        let file = File::open(&path).unwrap();
        let mut table = Descriptors::default();
        table.look_up(file.as_raw_fd());
        table.duplicate(file.as_raw_fd(), 900);
        assert_eq!(table.in_range(900, 1000), vec![900]);
        assert_eq!(table.close(file.as_raw_fd()), None);
        assert_eq!(table.close(900), Some(0));
        assert_eq!(table.close(900), None);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn flags_of_a_call_add_to_those_of_its_file() {
        let mode = |open: i32, call: i32| Mode(open).with(call);
        let sync = |open, call| mode(open, call).sync(7);
        assert_eq!(sync(libc::O_RDWR, 0), None);
        assert_eq!(sync(libc::O_RDWR, libc::RWF_DSYNC), Some(Call::SyncData { file: 7 }));
        assert_eq!(sync(libc::O_RDWR, libc::RWF_SYNC), Some(Call::Sync { file: 7 }));
        assert_eq!(sync(libc::O_SYNC, libc::RWF_DSYNC), Some(Call::Sync { file: 7 }));
        assert_eq!(sync(libc::O_DSYNC, libc::RWF_HIPRI), Some(Call::SyncData { file: 7 }));
        assert!(mode(libc::O_RDWR, libc::RWF_APPEND).appends());
        assert!(mode(libc::O_APPEND, 0).appends());
        assert!(!mode(libc::O_APPEND, RWF_NOAPPEND).appends());
        assert!(!mode(libc::O_RDWR, RWF_NOAPPEND).appends());
        assert!(mode(libc::O_DIRECT, libc::RWF_SYNC).is_direct());
    }

    #[test]
    fn pipes_and_made_up_files_are_no_files_of_a_store() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let made_up = File::open("/proc/self/maps").unwrap();
        let mut table = Descriptors::default();
        assert_eq!(table.look_up(reader.as_raw_fd()).0.file, None);
        assert_eq!(table.look_up(made_up.as_raw_fd()).0.file, None);
        assert_eq!(table.look_up(-1).0.file, None);
    }
}
