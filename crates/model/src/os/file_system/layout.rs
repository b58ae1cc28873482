//! Where metadata lies, and which blocks of it an operation changes (fs/ext4: `mballoc.c`, `ialloc.c`,
//! `namei.c`, `extents.c`; documentation of the format, Documentation/filesystems/ext4).
//!
//! At the start of the store lie superblock, orphans, the journal, group descriptors, bitmaps and inodes,
//! and then the blocks of the one directory and of the maps of files, as far as they are reserved.

use crate::os::InodeId;
use tierscope_workload::op::FileId;

/// Bytes of an inode, of a group's descriptor and of a directory's entry (a name of 8 to 16 bytes).
const INODE_BYTES: u64 = 256;
const DESCRIPTOR_BYTES: u64 = 64;
const ENTRY_BYTES: u64 = 24;
/// Bytes of the store for each inode (`inode_ratio`, mke2fs.conf).
const BYTES_PER_INODE: u64 = 16384;
/// The root directory's inode, and the first that files get (`EXT4_ROOT_INO`, `EXT4_GOOD_OLD_FIRST_INO`),
/// counted from 0.
const ROOT: u64 = 1;
const FIRST_FILE: u64 = 11;
/// Extents that an inode holds itself, and those of a block of 4 KiB.
const INLINE_EXTENTS: u64 = 4;
const EXTENT_BYTES: u64 = 12;
/// Blocks that an inode of ext3 knows itself, and bytes of the number of another.
const DIRECT_BLOCKS: u64 = 12;
const POINTER_BYTES: u64 = 4;

/// Places of metadata, in bytes from the start of the store.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    block_bytes: u64,
    groups: u64,
    /// First blocks: the journal is the first behind superblock and orphans.
    journal: u64,
    descriptors: u64,
    block_bitmaps: u64,
    inode_bitmaps: u64,
    inodes: u64,
    /// Blocks of the directory, and of maps of files.
    others: u64,
    end: u64,
    inodes_per_group: u64,
}

impl Layout {
    /// Of a store of so many bytes.
    pub fn new(block_bytes: u64, store_bytes: u64, journal_blocks: u64) -> Self {
        let group_bytes = 8 * block_bytes * block_bytes;
        let groups = store_bytes.div_ceil(group_bytes).max(1);
        let inodes_per_group = (group_bytes / BYTES_PER_INODE).max(1);
        let inode_count = (store_bytes / BYTES_PER_INODE).max(FIRST_FILE + 1);
        let journal = 2;
        let descriptors = journal + journal_blocks;
        let block_bitmaps = descriptors + (groups * DESCRIPTOR_BYTES).div_ceil(block_bytes);
        let inode_bitmaps = block_bitmaps + groups;
        let inodes = inode_bitmaps + groups;
        let others = inodes + (inode_count * INODE_BYTES).div_ceil(block_bytes);
        let end = others + (inode_count * ENTRY_BYTES).div_ceil(block_bytes).max(2);
        Layout {
            block_bytes,
            groups,
            journal,
            descriptors,
            block_bitmaps,
            inode_bitmaps,
            inodes,
            others,
            end,
            inodes_per_group,
        }
    }

    /// Bytes at the start of the store that files do not get.
    pub fn reserved_bytes(&self) -> u64 {
        self.end * self.block_bytes
    }

    /// Bytes of the store that one bitmap tells of.
    pub fn group_bytes(&self) -> u64 {
        8 * self.block_bytes * self.block_bytes
    }

    fn at(&self, block: u64) -> u64 {
        block * self.block_bytes
    }

    /// The place of a block of the journal, by its number.
    pub fn log(&self, block: u64) -> u64 {
        self.at(self.journal + block)
    }

    /// Files that are deleted while they may still be open (`orphan_file`; the superblock, before it).
    pub fn orphans(&self) -> u64 {
        self.at(1)
    }

    /// The number of a file's inode: those beyond the last share the places of others.
    fn inode_number(&self, file: InodeId) -> u64 {
        let count = (self.others - self.inodes) * self.block_bytes / INODE_BYTES;
        FIRST_FILE + u64::from(file) % (count - FIRST_FILE)
    }

    fn inode_block(&self, number: u64) -> u64 {
        self.at(self.inodes + number * INODE_BYTES / self.block_bytes)
    }

    /// The block of a file's inode.
    pub fn inode(&self, file: InodeId) -> u64 {
        self.inode_block(self.inode_number(file))
    }

    fn descriptor(&self, group: u64) -> u64 {
        self.at(self.descriptors + group * DESCRIPTOR_BYTES / self.block_bytes)
    }

    /// What changes with an entry in the directory: the entry and the directory's inode.
    pub fn entry(&self, name: FileId) -> [u64; 2] {
        let entries = u64::from(name) / (self.block_bytes / ENTRY_BYTES);
        [self.other(entries), self.inode_block(ROOT)]
    }

    /// What changes when an inode comes into use, or is no longer: the inode, and which are in use.
    pub fn use_of(&self, inode: InodeId) -> [u64; 3] {
        let number = self.inode_number(inode);
        let group = (number / self.inodes_per_group).min(self.groups - 1);
        let bitmap = self.at(self.inode_bitmaps + group);
        [self.inode_block(number), bitmap, self.descriptor(group)]
    }

    /// What changes when a block of a file gets its place, or loses it: which blocks are in use.
    pub fn bitmap(&self, place: u64) -> [u64; 2] {
        let group = (place / self.group_bytes()).min(self.groups - 1);
        [self.at(self.block_bitmaps + group), self.descriptor(group)]
    }

    /// One of the blocks of the directory and of maps, which share places once there are many.
    fn other(&self, number: u64) -> u64 {
        self.at(self.others + number % (self.end - self.others))
    }

    /// A block of a map of a file.
    fn map(&self, file: InodeId, number: u64) -> u64 {
        // From the end, where the directory comes last.
        self.at(self.end - 1 - (u64::from(file) * 7 + number) % (self.end - self.others))
    }

    /// The block that holds an extent, where the inode does not.
    pub fn extent_leaf(&self, file: InodeId, extents: u64) -> Option<u64> {
        let per_block = self.block_bytes / EXTENT_BYTES;
        (extents > INLINE_EXTENTS).then(|| self.map(file, extents / per_block))
    }

    /// The block that holds the place of a file's block, where the inode does not.
    pub fn indirect(&self, file: InodeId, index: u64) -> Option<u64> {
        let per_block = self.block_bytes / POINTER_BYTES;
        let beyond = index.checked_sub(DIRECT_BLOCKS)?;
        Some(self.map(file, beyond / per_block))
    }
}
