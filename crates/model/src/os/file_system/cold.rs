//! Metadata that the store has had from the start, and that is read when it is first needed.
//!
//! Names are looked up from the topmost directory down: each directory's inode, the block that has the name (of an indexed
//! directory the index before it), and the inode (`link_path_walk`, fs/namei.c; `ext4_lookup`, fs/ext4/namei.c;
//! `xfs_dir_lookup`, fs/xfs/libxfs/xfs_dir2.c). What is changed is read before: bitmaps, headers of groups, maps. What
//! mounting reads is there ([`Layout::read_by_mounting`]). What has been read stays.
//!
//! [`Layout::read_by_mounting`]: super::layout::Layout::read_by_mounting

use super::FileSystem;
use super::layout::Piece;
use super::names::TOP;
use crate::os::InodeId;
use std::collections::BTreeSet;

/// A directory may lie so many deep (`PATH_MAX` of one letter each, halved).
const MOST_DEPTH: usize = 2048;

/// Blocks in a row that are read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRun {
    /// The place of the first.
    pub place: u64,
    /// How many.
    pub blocks: u32,
    /// Who needs them waits for them; others are read ahead.
    pub awaited: bool,
}

/// Which blocks of metadata are in memory, by place.
#[derive(Clone, Debug)]
pub(super) struct Cold {
    in_memory: BTreeSet<u64>,
    on_store: BTreeSet<u64>,
    wanted: Vec<BlockRun>,
}

impl FileSystem {
    /// What the store has from the start is not in memory.
    pub fn begin_cold(&mut self) {
        let in_memory = self.layout.read_by_mounting().into_iter().collect();
        let (on_store, wanted) = (BTreeSet::new(), Vec::new());
        self.cold = Some(Cold { in_memory, on_store, wanted });
    }

    /// The store has had a file from the start: with what changes when it gets its name, its inode and its pages.
    pub(super) fn hold(&mut self, file: InodeId, named: &[Piece], (place, pages): (u64, u64)) {
        if self.cold.is_none() {
            return;
        }
        let group_bytes = self.group_bytes();
        let groups = place / group_bytes..(place + pages * self.page_bytes).div_ceil(group_bytes);
        let groups =
            if pages > 0 { groups.map(|nth| nth * group_bytes).collect() } else { BTreeSet::new() };
        let pieces =
            [named.to_vec(), self.layout.use_of(file), self.layout.spaces(&groups)].concat();
        let changed = pieces.iter().map(|piece| self.block_of(piece));
        let mut blocks: Vec<u64> = changed.flat_map(|it| self.layout.needed_for(it)).collect();
        blocks.extend(self.layout.maps_of(file, pages));
        let Some(cold) = &mut self.cold else { return };
        let new = blocks.into_iter().filter(|block| !cold.in_memory.contains(block));
        cold.on_store.extend(new);
    }

    /// A block is needed: it is read if it is not in memory, and is from now on.
    pub(super) fn need_block(&mut self, place: u64) {
        let Some(cold) = &mut self.cold else { return };
        if !cold.on_store.contains(&place) {
            cold.in_memory.insert(place);
            return;
        }
        let mut ahead = self.layout.ahead_of(place);
        ahead.retain(|block| !cold.in_memory.contains(block));
        let runs = ahead.chunk_by(|one, next| one + self.page_bytes == *next);
        cold.wanted.extend(runs.map(|run| BlockRun {
            place: run[0],
            blocks: run.len() as u32,
            awaited: false,
        }));
        let blocks = self.layout.written_with(place);
        let (first, count) = (blocks.first().copied().unwrap_or(place), blocks.len() as u32);
        cold.wanted.push(BlockRun { place: first, blocks: count, awaited: true });
        for block in ahead.into_iter().chain(blocks) {
            cold.on_store.remove(&block);
            cold.in_memory.insert(block);
        }
    }

    /// Blocks are about to change.
    pub(super) fn need_to_change(&mut self, blocks: &[u64]) {
        if self.cold.is_some() {
            let layout = self.layout;
            let needed = blocks.iter().flat_map(|place| layout.needed_for(*place));
            needed.for_each(|place| self.need_block(place));
        }
    }

    /// A name of a file is looked up.
    pub fn look_up(&mut self, file: InodeId) {
        if self.cold.is_none() {
            return;
        }
        let mut path = vec![file];
        while let Some(last) =
            path.last().copied().filter(|last| *last != TOP && path.len() < MOST_DEPTH)
        {
            path.push(self.name(last).0);
        }
        for inode in path.into_iter().rev().filter(|inode| *inode != TOP) {
            let (parent, name) = self.name(inode);
            let blocks = self.lookup_blocks(parent, name);
            blocks.into_iter().for_each(|place| self.need_block(place));
            self.need_block(self.inode_block(inode));
        }
    }

    /// So many blocks of a directory are read, from the first on.
    pub fn look_through(&mut self, directory: InodeId, blocks: u64) {
        if self.cold.is_some() {
            let places = self.first_blocks(directory, blocks as usize);
            places.into_iter().for_each(|place| self.need_block(place));
        }
    }

    /// The place of a page of a file is looked for.
    pub fn look_for(&mut self, file: InodeId, index: u64) {
        if self.cold.is_none() {
            return;
        }
        let held = self.files.get(&file).map_or(0, |metadata| metadata.held_pages);
        if index < held {
            let blocks = self.layout.map_of(file, held, index);
            blocks.into_iter().for_each(|place| self.need_block(place));
        }
    }

    /// Whether something is to be read.
    #[inline]
    pub fn wants_blocks(&self) -> bool {
        self.cold.as_ref().is_some_and(|cold| !cold.wanted.is_empty())
    }

    /// What is to be read, in order.
    pub fn take_wanted(&mut self) -> Vec<BlockRun> {
        self.cold.as_mut().map(|cold| std::mem::take(&mut cold.wanted)).unwrap_or_default()
    }

    /// So many blocks of metadata are being read.
    pub fn reads(&mut self, blocks: u32) {
        self.counters.metadata_read_bytes += u64::from(blocks) * self.page_bytes;
    }
}
