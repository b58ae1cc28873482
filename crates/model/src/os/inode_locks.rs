//! Locks of inodes: which of them a call on a file takes, by its file system and the release of Linux.

use crate::organization::StorageSpec;
use crate::os::driver::CompletionKind;
use crate::os::file_system::FileSystemKind;
use crate::os::release::Release;

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// With others that hold it so.
    Shared,
    /// Alone.
    Exclusive,
}

/// By whose rules calls on a machine's files take locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InodeLocks {
    /// A file that is the device itself has none (`blkdev_write_iter`, block/fops.c).
    None,
    /// Files that lie in memory (`shmem_file_write_iter`, mm/shmem.c; `generic_file_write_iter`, mm/filemap.c).
    Memory,
    /// ext3 and ext4 (fs/ext4/file.c; `__blockdev_direct_IO`, fs/direct-io.c).
    Ext(Release),
    /// XFS (fs/xfs/xfs_file.c; fs/xfs/linux-2.6/xfs_lrw.c of 2.6.32).
    Xfs,
}

use Hold::{Exclusive, Shared};

impl InodeLocks {
    /// Those of a machine that pages to a store, or of one that does not.
    pub fn of(storage: Option<&StorageSpec>) -> InodeLocks {
        let Some(storage) = storage.filter(|storage| storage.tmpfs.is_none()) else {
            return InodeLocks::Memory;
        };
        match storage.file_system.as_ref().map(|system| system.kind) {
            None => InodeLocks::None,
            Some(FileSystemKind::Xfs) => InodeLocks::Xfs,
            Some(FileSystemKind::Ext3 | FileSystemKind::Ext4) => {
                InodeLocks::Ext(storage.readahead_release.unwrap_or(Release::V6_18))
            }
        }
    }

    /// For a call that writes through the page cache, or changes how long a file is, or which blocks it has.
    pub fn to_write(self) -> Option<Hold> {
        (self != InodeLocks::None).then_some(Exclusive)
    }

    /// For a sync of a file whose pages are written, until its commit has ended: 2.6.32 has one at a time, and no write
    /// beside it (`vfs_fsync_range`, fs/sync.c).
    pub fn to_commit(self) -> Option<Hold> {
        (self == InodeLocks::Ext(Release::V2_6_32)).then_some(Exclusive)
    }

    /// For a call that reads through the page cache: on XFS it sees a write as a whole or not at all.
    pub fn to_read(self) -> Option<Hold> {
        (self == InodeLocks::Xfs).then_some(Shared)
    }

    /// For a call that writes past the page cache, `in_place` where the file has all that it writes. Since 5.6 ext4 has
    /// such calls beside each other (`ext4_dio_write_checks`); XFS has all of them so, once nothing is in the page cache, and
    /// what lies between the file's end and where they begin is zero (`xfs_file_write_checks`).
    pub fn to_write_directly(self, in_place: impl FnOnce() -> bool) -> Option<Hold> {
        match self {
            InodeLocks::Xfs => Some(Shared),
            InodeLocks::Ext(Release::V6_18) if in_place() => Some(Shared),
            _ => self.to_write(),
        }
    }

    /// For a call that reads past the page cache. Until 4.8 ext3 and ext4 have one of them at a time
    /// (`DIO_LOCKING`), until it is handed over ([`InodeLocks::lets_go_early`]).
    pub fn to_read_directly(self) -> Option<Hold> {
        match self {
            InodeLocks::Xfs | InodeLocks::Ext(Release::V4_9 | Release::V6_18) => Some(Shared),
            InodeLocks::Ext(Release::V2_6_32) => Some(Exclusive),
            InodeLocks::None | InodeLocks::Memory => None,
        }
    }

    /// Whether a call that reads past the page cache gives its lock up as soon as its requests are with the driver
    /// (`direct_io_worker`, fs/direct-io.c, 2.6.32): a driver that spins until they are done returns no sooner.
    pub fn lets_go_early(self, completion: CompletionKind) -> bool {
        self == InodeLocks::Ext(Release::V2_6_32) && completion != CompletionKind::Polling
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_past_the_page_cache_are_beside_each_other_where_the_file_system_lets_them() {
        let ext = |release| {
            let locks = InodeLocks::Ext(release);
            let writes = [false, true].map(|in_place| locks.to_write_directly(|| in_place));
            (locks.to_read_directly(), writes)
        };
        let alone = [Some(Exclusive); 2];
        assert_eq!(ext(Release::V2_6_32), (Some(Exclusive), alone));
        assert_eq!(ext(Release::V4_9), (Some(Shared), alone));
        assert_eq!(ext(Release::V6_18), (Some(Shared), [Some(Exclusive), Some(Shared)]));
        assert_eq!(InodeLocks::Xfs.to_write_directly(|| false), Some(Shared));
        assert_eq!(InodeLocks::Xfs.to_write(), Some(Exclusive));
        assert_eq!(InodeLocks::None.to_write_directly(|| true), None);
    }

    #[test]
    fn a_commit_of_2_6_32_has_the_file_to_itself() {
        let of = |release| InodeLocks::Ext(release).to_commit();
        assert_eq!(of(Release::V2_6_32), Some(Exclusive));
        assert_eq!([of(Release::V4_9), of(Release::V6_18)], [None; 2]);
        assert_eq!([InodeLocks::Xfs.to_commit(), InodeLocks::Memory.to_commit()], [None; 2]);
    }

    #[test]
    fn a_read_keeps_its_lock_until_the_driver_returns() {
        let old = InodeLocks::Ext(Release::V2_6_32);
        assert!(old.lets_go_early(CompletionKind::Interrupt));
        assert!(!old.lets_go_early(CompletionKind::Polling));
        assert!(!InodeLocks::Xfs.lets_go_early(CompletionKind::Interrupt));
    }
}
