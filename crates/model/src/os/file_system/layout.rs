//! Where metadata lies, and which of it an operation changes (fs/ext4: `mballoc.c`, `ialloc.c`, `namei.c`, `extents.c`,
//! documentation of the format, Documentation/filesystems/ext4; fs/xfs: libxfs/xfs_format.h, libxfs/xfs_alloc.c,
//! libxfs/xfs_ialloc.c, libxfs/xfs_dir2_block.c).
//!
//! At the start of the store lie superblock, orphans, the journal, group descriptors, bitmaps and inodes,
//! and then the blocks of directories and of the maps of files, as far as they are reserved. Of XFS the groups
//! are allocation groups, whose headers and roots of trees stand for bitmaps.

use super::FileSystemKind;
use super::names::{NameId, TOP};
use crate::os::InodeId;
use crate::os::release::Release;
use std::collections::BTreeSet;

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
/// Blocks of an extent at most (`EXT_INIT_MAX_LEN`, fs/ext4/ext4_extents.h).
const EXTENT_BLOCKS: u64 = 1 << 15;
/// Blocks of inodes that ext4 reads at once (`inode_readahead_blks`, Documentation/admin-guide/ext4.rst).
const INODE_READAHEAD_BLOCKS: u64 = 32;
/// Stands for the number of the block of a map of ext3 that tells of others.
const UPPER: u64 = 1 << 32;
/// Blocks that an inode of ext3 knows itself, and bytes of the number of another.
const DIRECT_BLOCKS: u64 = 12;
const POINTER_BYTES: u64 = 4;

/// Of XFS: bytes of an inode (mkfs.xfs, with checksums), and of the store for each here: XFS makes inodes as they are
/// needed, and this gives them the share of the store that ext4's have.
const XFS_INODE_BYTES: u64 = 512;
const XFS_BYTES_PER_INODE: u64 = 32768;
/// Allocation groups (mkfs.xfs, `calc_default_ag_geometry`, of a single device below 4 TiB).
const XFS_GROUPS: u64 = 4;
/// Inodes that are allocated at once, and bytes of a cluster of them that is written as a whole
/// (`XFS_INODES_PER_CHUNK`; `XFS_INODE_BIG_CLUSTER_SIZE`, which grows with the inode).
const XFS_CHUNK_INODES: u64 = 64;
const XFS_CLUSTER_BYTES: u64 = 16384;
/// Bytes of an inode behind its core, which names or extents may have, and those that they have where an inode is made with
/// room for attributes, as since 5.13 with any security module (`xfs_create_need_xattr`, fs/xfs/xfs_iops.c;
/// `xfs_default_attroffset`, fs/xfs/libxfs/xfs_attr_leaf.c, by eights). Bytes of an extent (`xfs_bmbt_rec`).
const XFS_FORK_BYTES: u64 = XFS_INODE_BYTES - 176;
const XFS_SHARED_FORK_BYTES: u64 = 192;
pub(super) const XFS_EXTENT_BYTES: u64 = 16;
/// Bytes of a directory block's head and tail, and of an entry's hash (`xfs_dir3_data_hdr`, `xfs_dir2_block_tail`,
/// `xfs_dir2_leaf_entry`).
const XFS_DIRECTORY_HEAD_BYTES: u64 = 64;
const XFS_DIRECTORY_TAIL_BYTES: u64 = 8;
const XFS_HASH_BYTES: u64 = 8;
/// Bytes of a tree's block before its records, of a record of inodes (`XFS_BTREE_SBLOCK_CRC_LEN`, `xfs_inobt_rec`), and
/// before those of a map (`XFS_BTREE_LBLOCK_CRC_LEN`).
const XFS_TREE_HEAD_BYTES: u64 = 56;
const XFS_INODE_RECORD_BYTES: u64 = 16;
const XFS_MAP_HEAD_BYTES: u64 = 72;
/// Where the lists of inodes without a name begin in the header of a group, and bytes of one of the 64
/// (`agi_unlinked`, `XFS_AGI_UNLINKED_BUCKETS`).
const XFS_UNLINKED_AT: u64 = 40;
const XFS_UNLINKED_BYTES: u64 = 4;

/// Bytes of a name in an inode, and of what is before all: each takes 8 beside the name, of 12 (`xfs_dir2_sf_entry`, with a
/// type and an inode's number of 4 bytes).
const SHORT_FORM_NAME_BYTES: u64 = 20;
const SHORT_FORM_HEAD_BYTES: u64 = 6;

/// Parts of a block, a bit each, that XFS logs apart: of 128 bytes, of a block of 4 KiB (`XFS_BLF_CHUNK`).
pub(super) const PARTS: u64 = 32;

/// Metadata that an operation changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Parts of a block with this place, where they matter.
    Block {
        /// Its place.
        place: u64,
        /// A bit for each part.
        parts: u32,
    },
    /// An inode whose first byte lies here.
    Inode {
        /// Its place.
        place: u64,
        /// Its map, too.
        map: bool,
    },
}

impl Piece {
    /// Its place.
    pub fn place(&self) -> u64 {
        match self {
            Piece::Block { place, .. } | Piece::Inode { place, .. } => *place,
        }
    }
}

/// An entry of a directory: in its block at this place, as the nth there.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The directory.
    pub directory: InodeId,
    /// The place of the block.
    pub place: u64,
    /// Entries before it there, where that matters: of XFS.
    pub nth: u64,
    /// Whose it is.
    pub name: NameId,
}

/// Places of metadata, in bytes from the start of the store.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    kind: FileSystemKind,
    block_bytes: u64,
    inode_bytes: u64,
    group_bytes: u64,
    groups: u64,
    /// First blocks: the journal is the first behind superblock and orphans.
    journal: u64,
    descriptors: u64,
    block_bitmaps: u64,
    inode_bitmaps: u64,
    /// Of XFS the blocks that each group sets aside for its trees (`xfs_agfl`).
    free_lists: u64,
    inodes: u64,
    /// Blocks of the directory, and of maps of files.
    others: u64,
    end: u64,
    inodes_per_group: u64,
    /// Of XFS, of each inode, for names or extents.
    fork_bytes: u64,
    /// Inodes are read with those around them, and bitmaps of blocks by mounting.
    reads_inodes_ahead: bool,
    reads_bitmaps: bool,
}

impl Layout {
    /// Of a store of so many bytes.
    pub fn new(
        kind: FileSystemKind,
        block_bytes: u64,
        store_bytes: u64,
        journal_blocks: u64,
    ) -> Self {
        let is_xfs = kind == FileSystemKind::Xfs;
        let (inode_bytes, bytes_per_inode) = match is_xfs {
            true => (XFS_INODE_BYTES, XFS_BYTES_PER_INODE),
            false => (INODE_BYTES, BYTES_PER_INODE),
        };
        let group_bytes = match is_xfs {
            true => store_bytes.div_ceil(XFS_GROUPS).next_multiple_of(block_bytes),
            false => 8 * block_bytes * block_bytes,
        };
        // Of XFS three blocks each: a header and the roots of two trees.
        let bitmaps_per_group = if is_xfs { 3 } else { 1 };
        let groups = store_bytes.div_ceil(group_bytes).max(1);
        let inodes_per_group = (group_bytes / bytes_per_inode).max(1);
        let inode_count = (store_bytes / bytes_per_inode).max(FIRST_FILE + 1);
        let journal = 2;
        let descriptors = journal + journal_blocks;
        let block_bitmaps = match is_xfs {
            true => descriptors,
            false => descriptors + (groups * DESCRIPTOR_BYTES).div_ceil(block_bytes),
        };
        let inode_bitmaps = block_bitmaps + bitmaps_per_group * groups;
        let free_lists = inode_bitmaps + bitmaps_per_group * groups;
        let inodes = free_lists + if is_xfs { groups } else { 0 };
        let others = inodes + (inode_count * inode_bytes).div_ceil(block_bytes);
        let end = others + (inode_count * ENTRY_BYTES).div_ceil(block_bytes).max(2);
        Layout {
            kind,
            block_bytes,
            inode_bytes,
            group_bytes,
            groups,
            journal,
            descriptors,
            block_bitmaps,
            inode_bitmaps,
            free_lists,
            inodes,
            others,
            end,
            inodes_per_group,
            fork_bytes: XFS_SHARED_FORK_BYTES,
            reads_inodes_ahead: !is_xfs,
            reads_bitmaps: !is_xfs,
        }
    }

    /// As a release has it, of those of today where nothing is said. Since 4.3 ext4 stands in for ext3 (fs/ext4/super.c,
    /// `ext3_fs_type`), and reads ahead what that has by itself.
    pub fn of_release(&mut self, release: Release) {
        self.reads_inodes_ahead = match self.kind {
            FileSystemKind::Ext4 => true,
            FileSystemKind::Ext3 => release >= Release::V4_9,
            FileSystemKind::Xfs => false,
        };
        self.reads_bitmaps = !self.is_xfs() && release >= Release::V6_18;
        let shares = release >= Release::V6_18;
        self.fork_bytes = if shares { XFS_SHARED_FORK_BYTES } else { XFS_FORK_BYTES };
    }

    /// Names that fit an inode, of XFS.
    pub fn short_form_names(&self) -> u64 {
        (self.fork_bytes - SHORT_FORM_HEAD_BYTES) / SHORT_FORM_NAME_BYTES
    }

    /// Extents that fit an inode, of XFS.
    pub fn inline_extents(&self) -> u64 {
        self.fork_bytes / XFS_EXTENT_BYTES
    }

    /// Bytes at the start of the store that files do not get.
    pub fn reserved_bytes(&self) -> u64 {
        self.end * self.block_bytes
    }

    /// Bytes of the store that one bitmap, or one allocation group, tells of.
    pub fn group_bytes(&self) -> u64 {
        self.group_bytes
    }

    fn at(&self, block: u64) -> u64 {
        block * self.block_bytes
    }

    /// The place of a block of the journal, by its number.
    pub fn log(&self, block: u64) -> u64 {
        self.at(self.journal + block)
    }

    fn is_xfs(&self) -> bool {
        self.kind == FileSystemKind::Xfs
    }

    /// The number of a file's inode: those beyond the last share the places of others.
    fn inode_number(&self, file: InodeId) -> u64 {
        if file == TOP {
            return ROOT;
        }
        let count = (self.others - self.inodes) * self.block_bytes / self.inode_bytes;
        FIRST_FILE + u64::from(file) % (count - FIRST_FILE)
    }

    fn inode_piece(&self, number: u64, map: bool) -> Piece {
        Piece::Inode { place: self.at(self.inodes) + number * self.inode_bytes, map }
    }

    /// A file's inode.
    pub fn inode(&self, file: InodeId, map: bool) -> Piece {
        self.inode_piece(self.inode_number(file), map)
    }

    /// Places of the blocks that are written with this one: an inode's cluster, of XFS.
    pub fn written_with(&self, place: u64) -> Vec<u64> {
        let inodes = self.at(self.inodes)..self.at(self.others);
        if !self.is_xfs() || !inodes.contains(&place) {
            return vec![place];
        }
        let first = inodes.start + (place - inodes.start) / XFS_CLUSTER_BYTES * XFS_CLUSTER_BYTES;
        let past = (first + XFS_CLUSTER_BYTES.max(self.block_bytes)).min(inodes.end);
        (first..past).step_by(self.block_bytes as usize).collect()
    }

    /// A block of which these bytes change.
    fn block(&self, place: u64, bytes: std::ops::Range<u64>) -> Piece {
        let part = |byte: u64| byte * PARTS / self.block_bytes;
        let (first, last) = (part(bytes.start), part(bytes.end - 1).min(PARTS - 1));
        Piece::Block { place, parts: u32::MAX >> (31 - last) & u32::MAX << first }
    }

    fn descriptor(&self, group: u64) -> Piece {
        let at = group * DESCRIPTOR_BYTES;
        let place = self.at(self.descriptors + at / self.block_bytes);
        let within = at % self.block_bytes;
        self.block(place, within..within + DESCRIPTOR_BYTES)
    }

    /// Names that a block of a directory has room for.
    pub fn names_in_block(&self) -> u64 {
        let around = XFS_DIRECTORY_HEAD_BYTES + XFS_DIRECTORY_TAIL_BYTES;
        match self.is_xfs() {
            true => (self.block_bytes - around) / (ENTRY_BYTES + XFS_HASH_BYTES),
            false => self.block_bytes / ENTRY_BYTES,
        }
    }

    /// What changes with an entry in a directory: the entry and the directory's inode.
    pub fn entry(&self, entry: Entry) -> Vec<Piece> {
        let Entry { directory, place, nth, name } = entry;
        let inode = self.inode(directory, false);
        if !self.is_xfs() {
            return vec![self.block(place, nth * ENTRY_BYTES..(nth + 1) * ENTRY_BYTES), inode];
        }
        // Behind the head lie entries as they came, before the tail their hashes in order, from the end downwards:
        // of those before a new one each moves (`xfs_dir2_block_addname`).
        let at = XFS_DIRECTORY_HEAD_BYTES + nth * ENTRY_BYTES;
        let end = self.block_bytes - XFS_DIRECTORY_TAIL_BYTES;
        let lowest = end - (nth + 1) * XFS_HASH_BYTES;
        let before = u64::from((name as u32).wrapping_mul(0x9e37_79b9)) % (nth + 1);
        let ranges = [
            0..XFS_DIRECTORY_HEAD_BYTES,
            at..at + ENTRY_BYTES,
            lowest..lowest + (before + 1) * XFS_HASH_BYTES,
            end..self.block_bytes,
        ];
        let mut pieces: Vec<Piece> =
            ranges.into_iter().map(|range| self.block(place, range)).collect();
        pieces.push(inode);
        pieces
    }

    /// A block that changes as a whole.
    pub fn whole_block(&self, place: u64) -> Piece {
        self.block(place, 0..self.block_bytes)
    }

    /// A block whose first entries change.
    pub fn first_part(&self, place: u64) -> Piece {
        self.block(place, 0..2 * ENTRY_BYTES)
    }

    /// The place of a block of a directory, by its number among those of all.
    pub fn directory(&self, number: u64) -> u64 {
        self.other(number)
    }

    /// An inode without a name goes.
    pub fn removed(&self, file: InodeId) -> Vec<Piece> {
        let mut pieces = self.use_of(file);
        pieces.push(self.orphans(file));
        pieces
    }

    /// Files that are deleted while they may still be open (`orphan_file`; the superblock, before it; of XFS lists in
    /// the header of the group).
    pub fn orphans(&self, file: InodeId) -> Piece {
        if !self.is_xfs() {
            return self.block(self.at(1), 0..self.block_bytes);
        }
        let number = self.inode_number(file);
        let [header, ..] = self.inode_group(number);
        let at = XFS_UNLINKED_AT + number % XFS_CHUNK_INODES * XFS_UNLINKED_BYTES;
        self.block(header, at..at + XFS_UNLINKED_BYTES)
    }

    /// The blocks that tell of the inodes of a group; the last two of XFS alone.
    fn inode_group(&self, number: u64) -> [u64; 3] {
        let group = (number / self.inodes_per_group).min(self.groups - 1);
        let first = self.inode_bitmaps + if self.is_xfs() { 3 * group } else { group };
        [0, 1, 2].map(|nth| self.at(first + nth))
    }

    /// What changes when an inode comes into use, or is no longer: the inode, and which are in use.
    pub fn use_of(&self, file: InodeId) -> Vec<Piece> {
        let number = self.inode_number(file);
        let group = (number / self.inodes_per_group).min(self.groups - 1);
        let [first, all, free] = self.inode_group(number);
        let inode = self.inode_piece(number, false);
        if !self.is_xfs() {
            return vec![inode, self.block(first, 0..self.block_bytes), self.descriptor(group)];
        }
        let records = (self.block_bytes - XFS_TREE_HEAD_BYTES) / XFS_INODE_RECORD_BYTES;
        let record = number / XFS_CHUNK_INODES % records;
        let at = XFS_TREE_HEAD_BYTES + record * XFS_INODE_RECORD_BYTES;
        let mut pieces = vec![
            inode,
            self.block(first, 0..XFS_UNLINKED_AT),
            self.block(all, at..at + XFS_INODE_RECORD_BYTES),
            self.block(free, XFS_TREE_HEAD_BYTES..XFS_TREE_HEAD_BYTES + XFS_INODE_RECORD_BYTES),
        ];
        if number.is_multiple_of(XFS_CHUNK_INODES) {
            pieces.extend(self.space(inode.place()));
        }
        pieces
    }

    /// What changes when a block of a file gets its place, or loses it: which blocks are in use.
    pub fn space(&self, place: u64) -> Vec<Piece> {
        let group = (place / self.group_bytes).min(self.groups - 1);
        if !self.is_xfs() {
            let bitmap = self.block(self.at(self.block_bitmaps + group), 0..self.block_bytes);
            return vec![bitmap, self.descriptor(group)];
        }
        // Header, and the trees of free extents by place and by size: one record of few.
        let first = self.block_bitmaps + 3 * group;
        let blocks = (first..first + 3).map(|block| self.at(block));
        blocks.map(|place| self.block(place, 0..self.block_bytes / PARTS)).collect()
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

    /// The block of a file's map that tells of a page, where its inode does not: in an extent with this number, from 1
    /// on, or with this index.
    pub fn map_block(&self, file: InodeId, extents: u64, index: u64) -> Option<Piece> {
        match self.kind {
            FileSystemKind::Ext4 => self.extent_leaf(file, extents),
            FileSystemKind::Ext3 => self.indirect(file, index),
            FileSystemKind::Xfs => {
                let nth = extents.checked_sub(self.inline_extents() + 1)?;
                let per_block = (self.block_bytes - XFS_MAP_HEAD_BYTES) / XFS_EXTENT_BYTES;
                let at = XFS_MAP_HEAD_BYTES + nth % per_block * XFS_EXTENT_BYTES;
                let place = self.map(file, nth / per_block);
                Some(self.block(place, at..at + XFS_EXTENT_BYTES))
            }
        }
    }

    /// The block that holds an extent, where the inode does not.
    fn extent_leaf(&self, file: InodeId, extents: u64) -> Option<Piece> {
        let per_block = self.block_bytes / EXTENT_BYTES;
        let place = (extents > INLINE_EXTENTS).then(|| self.map(file, extents / per_block));
        place.map(|place| self.block(place, 0..self.block_bytes))
    }

    /// The block that holds the place of a file's block, where the inode does not.
    fn indirect(&self, file: InodeId, index: u64) -> Option<Piece> {
        let per_block = self.block_bytes / POINTER_BYTES;
        let beyond = index.checked_sub(DIRECT_BLOCKS)?;
        Some(self.block(self.map(file, beyond / per_block), 0..self.block_bytes))
    }

    /// What of a file's map changes with one extent or block: its inode, and a block where that does not hold it.
    pub fn mapped(&self, file: InodeId, extents: u64, index: u64) -> Vec<Piece> {
        let inode = [self.inode(file, true)];
        inode.into_iter().chain(self.map_block(file, extents, index)).collect()
    }

    /// Which blocks are in use changes within the groups of these places.
    pub fn spaces(&self, places: &BTreeSet<u64>) -> Vec<Piece> {
        places.iter().flat_map(|place| self.space(*place)).collect()
    }

    /// Blocks that mounting reads, at once or in the background: of ext3 and ext4 descriptors of groups, and bitmaps of
    /// blocks (`ext4_fill_super`, `ext4_mb_prefetch`, Linux 5.8 and later), of XFS headers of groups
    /// (`xfs_fs_reserve_ag_blocks`); and the topmost inode with what is read with it, which XFS forgets with all that it has
    /// read until its log is recovered (`xfs_log_mount_finish`).
    pub fn read_by_mounting(&self) -> Vec<u64> {
        if self.is_xfs() {
            let groups = 0..self.groups;
            let headers = groups
                .flat_map(|nth| [self.block_bitmaps, self.inode_bitmaps].map(|at| at + 3 * nth));
            return headers.map(|block| self.at(block)).collect();
        }
        let top = self.inode(TOP, false).place() / self.block_bytes * self.block_bytes;
        let past = if self.reads_bitmaps { self.inode_bitmaps } else { self.block_bitmaps };
        let first = (self.descriptors..past).map(|block| self.at(block));
        first.chain([top]).chain(self.ahead_of(top)).collect()
    }

    /// The blocks that are there before this one changes: itself, and of XFS with the header of a group's space those that the
    /// group has set aside (`xfs_alloc_fix_freelist`, fs/xfs/libxfs/xfs_alloc.c).
    pub fn needed_for(&self, place: u64) -> impl Iterator<Item = u64> + use<> {
        let nth = (place / self.block_bytes).checked_sub(self.block_bitmaps);
        let group = nth.filter(|nth| self.is_xfs() && nth.is_multiple_of(3)).map(|nth| nth / 3);
        let list =
            group.filter(|group| *group < self.groups).map(|it| self.at(self.free_lists + it));
        [place].into_iter().chain(list)
    }

    /// The blocks of inodes that are read ahead beside this one: from a multiple of so many blocks of the store on, or from
    /// where the table of its group begins, as many and one more (`__ext4_get_inode_loc`, fs/ext4/inode.c).
    pub fn ahead_of(&self, place: u64) -> Vec<u64> {
        let block = place / self.block_bytes;
        if !self.reads_inodes_ahead || !(self.inodes..self.others).contains(&block) {
            return Vec::new();
        }
        let of_group = (self.inodes_per_group * self.inode_bytes / self.block_bytes).max(1);
        let table = self.inodes + (block - self.inodes) / of_group * of_group;
        let first = (block & !(INODE_READAHEAD_BLOCKS - 1)).max(table);
        let last = (first + INODE_READAHEAD_BLOCKS).min((table + of_group).min(self.others) - 1);
        (first..=last).filter(|it| *it != block).map(|it| self.at(it)).collect()
    }

    /// The blocks of the map of a file of so many pages in a row that tell of this one, from the inode on. An inode of
    /// XFS holds the extents of 80 GiB, 2^21 blocks each.
    pub fn map_of(&self, file: InodeId, pages: u64, index: u64) -> Vec<u64> {
        let per_block = self.blocks_of_map();
        match self.kind {
            FileSystemKind::Ext3 => {
                let Some(beyond) = index.checked_sub(DIRECT_BLOCKS) else { return Vec::new() };
                let nth = beyond / per_block;
                let upper = (nth > 0).then(|| self.map(file, UPPER));
                upper.into_iter().chain([self.map(file, nth)]).collect()
            }
            FileSystemKind::Ext4 if pages > INLINE_EXTENTS * EXTENT_BLOCKS => {
                vec![self.map(file, index / per_block)]
            }
            FileSystemKind::Ext4 | FileSystemKind::Xfs => Vec::new(),
        }
    }

    /// All blocks of the map of a file of so many pages in a row.
    pub fn maps_of(&self, file: InodeId, pages: u64) -> BTreeSet<u64> {
        let all = (0..pages).step_by(self.blocks_of_map() as usize).chain(pages.checked_sub(1));
        all.flat_map(|index| self.map_of(file, pages, index)).collect()
    }

    /// Blocks of a file in a row that a block of its map tells of.
    fn blocks_of_map(&self) -> u64 {
        match self.kind {
            FileSystemKind::Ext3 => self.block_bytes / POINTER_BYTES,
            _ => self.block_bytes / EXTENT_BYTES * EXTENT_BLOCKS,
        }
    }
}
