//! Directories, and names in them: which blocks of a directory have a name, and what changes with one.
//!
//! Of ext3 and ext4 a directory has one block of names until that is full, and then is an index over leaves by hashes of
//! names, of which a full one is split (fs/ext4/namei.c, `make_indexed_dir`, `do_split`). Of XFS names lie in the order in
//! which they came, in the lowest place that is free; a new directory's in its inode as long as that has room
//! (fs/xfs/libxfs/xfs_dir2_sf.c, `xfs_dir2_sf_addname`).

use super::layout::{Entry, Piece};
use super::*;

/// The inode of the topmost directory.
pub const TOP: InodeId = InodeId::MAX;
/// The first block of an indexed directory has the index (`dx_root`).
const INDEX: usize = 0;

/// A name, by the order in which names were given.
pub type NameId = u64;

/// Which names a directory has, and where.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    /// Its blocks, as numbers of the layout; none of one that has all in its inode.
    blocks: Vec<u64>,
    /// Of ext3 and ext4, by the least hash.
    leaves: BTreeMap<u64, Leaf>,
    /// Of XFS: places of names, those between that are free, and the first that was never taken.
    places: BTreeMap<NameId, u64>,
    free: BTreeSet<u64>,
    next: u64,
}

/// The block of a leaf, as a number of those of its directory, and its names by hash.
type Leaf = (usize, BTreeSet<(u64, NameId)>);

impl Directory {
    fn is_empty(&self) -> bool {
        self.places.is_empty() && self.leaves.values().all(|(_, names)| names.is_empty())
    }
}

/// Directories, and the blocks that they share out.
#[derive(Clone, Debug, Default)]
pub(super) struct Directories {
    all: BTreeMap<InodeId, Directory>,
    names: NameId,
    free_blocks: BTreeSet<u64>,
    blocks: u64,
}

/// A file that loses a name to another.
#[derive(Clone, Copy, Debug)]
pub struct Replaced {
    /// Which.
    pub file: InodeId,
    /// Pages that it has.
    pub pages: u64,
    /// That was its only name.
    pub goes: bool,
}

/// What a hash of a name is like (`ext4fs_dirhash`): any number, the same each time.
fn hash(name: NameId) -> u64 {
    let mixed = (name + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
}

impl Directories {
    fn block(&mut self) -> u64 {
        self.free_blocks.pop_first().unwrap_or_else(|| {
            self.blocks += 1;
            self.blocks - 1
        })
    }
}

impl FileSystem {
    /// A directory that nothing has changed so far: one with a block, if `in_block`.
    pub(super) fn add_directory(&mut self, directory: InodeId, in_block: bool) {
        if self.directories.all.contains_key(&directory) {
            return;
        }
        let mut new = Directory::default();
        if in_block {
            new.blocks.push(self.directories.block());
        }
        new.leaves.insert(0, (0, BTreeSet::new()));
        self.directories.all.insert(directory, new);
    }

    /// Whether a directory has no names, or is none.
    pub fn is_empty_directory(&self, directory: InodeId) -> bool {
        self.directories.all.get(&directory).is_none_or(Directory::is_empty)
    }

    /// Blocks of a directory; its inode alone may have its names.
    pub fn directory_blocks(&self, directory: InodeId) -> u64 {
        self.directories.all.get(&directory).map_or(0, |it| it.blocks.len() as u64)
    }

    /// The place of a directory's nth block.
    fn directory_block(&self, directory: &Directory, nth: usize) -> u64 {
        self.layout.directory(directory.blocks.get(nth).copied().unwrap_or(0))
    }

    /// The places of a directory's first blocks, so many at most.
    pub(super) fn first_blocks(&self, directory: InodeId, blocks: usize) -> Vec<u64> {
        let all = self.directories.all.get(&directory).map(|it| &it.blocks);
        let first = all.into_iter().flatten().take(blocks);
        first.map(|block| self.layout.directory(*block)).collect()
    }

    /// The places of the blocks in which a directory's name is found: of one with an index that, and the leaf.
    pub(super) fn lookup_blocks(&self, directory: InodeId, name: NameId) -> Vec<u64> {
        let is_indexed = !self.is_xfs() && self.directory_blocks(directory) > 1;
        let index = self.first_blocks(directory, usize::from(is_indexed));
        let found = self.name_pieces(directory, name).into_iter().filter_map(|piece| match piece {
            Piece::Block { place, .. } => Some(place),
            Piece::Inode { .. } => None,
        });
        index.into_iter().chain(found).collect()
    }

    /// A directory gets a block: its number in it, and what changes.
    fn grow_directory(&mut self, directory: InodeId, pieces: &mut Vec<Piece>) -> usize {
        let block = self.directories.block();
        let place = self.layout.directory(block);
        pieces.extend([self.layout.whole_block(place), self.layout.inode(directory, true)]);
        pieces.extend(self.layout.space(place));
        let blocks = self.directories.all.get_mut(&directory).map(|it| &mut it.blocks);
        blocks.map_or(0, |blocks| {
            blocks.push(block);
            blocks.len() - 1
        })
    }

    /// A directory gets a name: which, and what changes.
    pub(super) fn add_name(&mut self, directory: InodeId) -> (NameId, Vec<Piece>) {
        self.add_directory(directory, true);
        let name = self.directories.names;
        self.directories.names += 1;
        let mut pieces = Vec::new();
        match self.is_xfs() {
            true => self.add_to_places(directory, name, &mut pieces),
            false => self.add_to_leaf(directory, name, &mut pieces),
        }
        pieces.extend(self.name_pieces(directory, name));
        (name, pieces)
    }

    fn add_to_leaf(&mut self, directory: InodeId, name: NameId, pieces: &mut Vec<Piece>) {
        let most = self.layout.names_in_block() as usize;
        let hash = hash(name);
        let Some((least, leaf)) = self.leaf(directory, hash) else { return };
        let is_full = leaf.1.len() >= most;
        if is_full {
            let is_indexed = self.directory_blocks(directory) > 1;
            if !is_indexed {
                // What the first block had moves to another, and it has the index.
                let moved = self.grow_directory(directory, pieces);
                if let Some((_, leaf)) = self.leaf(directory, hash) {
                    leaf.0 = moved;
                }
            }
            let new = self.grow_directory(directory, pieces);
            self.split(directory, least, new);
            let all = &self.directories.all[&directory];
            let index = self.directory_block(all, INDEX);
            let old = all.leaves.get(&least).map_or(0, |leaf| leaf.0);
            let old = self.directory_block(all, old);
            pieces.extend([index, old].map(|place| self.layout.whole_block(place)));
        }
        if let Some((_, leaf)) = self.leaf(directory, hash) {
            leaf.1.insert((hash, name));
        }
    }

    /// The leaf of a hash, and its least.
    fn leaf(&mut self, directory: InodeId, hash: u64) -> Option<(u64, &mut Leaf)> {
        let leaves = &mut self.directories.all.get_mut(&directory)?.leaves;
        leaves.range_mut(..=hash).next_back().map(|(least, leaf)| (*least, leaf))
    }

    /// The upper half of a leaf's names moves to a new one.
    fn split(&mut self, directory: InodeId, least: u64, new: usize) {
        let Some(all) = self.directories.all.get_mut(&directory) else { return };
        let Some((_, names)) = all.leaves.get_mut(&least) else { return };
        let Some(middle) = names.iter().nth(names.len() / 2).copied() else { return };
        let upper = names.split_off(&(middle.0, 0));
        all.leaves.insert(middle.0, (new, upper));
    }

    fn add_to_places(&mut self, directory: InodeId, name: NameId, pieces: &mut Vec<Piece>) {
        let short_form_names = self.layout.short_form_names();
        let Some(all) = self.directories.all.get_mut(&directory) else { return };
        let place = all.free.pop_first().unwrap_or_else(|| {
            all.next += 1;
            all.next - 1
        });
        all.places.insert(name, place);
        let needed = match all.blocks.is_empty() && place < short_form_names {
            true => 0,
            false => place / self.layout.names_in_block() + 1,
        };
        while self.directory_blocks(directory) < needed {
            self.grow_directory(directory, pieces);
        }
    }

    /// What changes with a name that a directory has: where it is, and the directory's inode.
    fn name_pieces(&self, directory: InodeId, name: NameId) -> Vec<Piece> {
        let Some(all) = self.directories.all.get(&directory) else { return Vec::new() };
        if !self.is_xfs() {
            let leaf = all.leaves.range(..=hash(name)).next_back();
            let place = self.directory_block(all, leaf.map_or(0, |(_, leaf)| leaf.0));
            return self.layout.entry(Entry { directory, place, nth: 0, name });
        }
        let at = all.places.get(&name).copied().unwrap_or(0);
        if all.blocks.is_empty() {
            return vec![self.layout.inode(directory, true)];
        }
        let per_block = self.layout.names_in_block();
        let place = self.directory_block(all, (at / per_block) as usize);
        self.layout.entry(Entry { directory, place, nth: at % per_block, name })
    }

    /// A directory loses a name: what changes.
    pub(super) fn remove_name(&mut self, directory: InodeId, name: NameId) -> Vec<Piece> {
        let pieces = self.name_pieces(directory, name);
        let hash = hash(name);
        if let Some((_, leaf)) = self.leaf(directory, hash) {
            leaf.1.remove(&(hash, name));
        }
        if let Some(all) = self.directories.all.get_mut(&directory) {
            let place = all.places.remove(&name);
            all.free.extend(place);
        }
        pieces
    }

    /// A directory is made: a name and an inode for it, and of ext3 and ext4 its first block, which has the names of itself
    /// and of the one above (`ext4_mkdir`, fs/ext4/namei.c; `xfs_create`, fs/xfs/xfs_inode.c).
    pub fn make_directory(
        &mut self,
        name: FileId,
        (directory, parent): (InodeId, InodeId),
        now_ps: u64,
    ) {
        self.add_directory(directory, false);
        let mut pieces = Vec::new();
        if !self.is_xfs() {
            self.grow_directory(directory, &mut pieces);
        }
        self.add_file(name, (directory, parent), pieces, now_ps);
    }

    /// An empty directory loses its name (`ext4_rmdir`; `xfs_remove`).
    pub fn remove_directory(&mut self, directory: InodeId, now_ps: u64) {
        self.unlink(directory, 0, now_ps);
    }

    /// The blocks of a directory that goes: what changes. Of ext3 and ext4 the log says that what it has of them is not to be
    /// carried out again (`ext4_forget`, fs/ext4/ext4_jbd2.c), but where it has data, too.
    pub(super) fn free_directory(&mut self, directory: InodeId) -> Vec<Piece> {
        let Some(gone) = self.directories.all.remove(&directory) else { return Vec::new() };
        let places: Vec<u64> =
            gone.blocks.iter().map(|block| self.layout.directory(*block)).collect();
        self.directories.free_blocks.extend(gone.blocks);
        if !self.is_xfs() && !self.journals_data() {
            self.journal.revoke(&places);
        }
        let groups = places.iter().map(|place| place / self.group_bytes() * self.group_bytes());
        self.layout.spaces(&groups.collect())
    }

    /// A file, or a directory, gets the name that another has in a directory, or a new one there, in one transaction
    /// (`ext4_rename`, fs/ext4/namei.c; `xfs_rename`, fs/xfs/xfs_inode.c). The other loses it, and its inode is one of the
    /// orphans where it has no more.
    pub fn rename(
        &mut self,
        file: InodeId,
        parent: InodeId,
        replaced: Option<Replaced>,
        now_ps: u64,
    ) {
        let (from, old) = self.name(file);
        let mut pieces = self.remove_name(from, old);
        let taken = replaced.and_then(|it| self.name_in(it.file, parent));
        let new = match taken {
            Some(name) => {
                pieces.extend(self.name_pieces(parent, name));
                name
            }
            None => {
                let (name, more) = self.add_name(parent);
                pieces.extend(more);
                name
            }
        };
        pieces.push(self.layout.inode(file, false));
        let is_directory = self.directories.all.contains_key(&file);
        if is_directory && from != parent {
            // The name of the one above is in its first block, or in its inode.
            let all = &self.directories.all[&file];
            let above = self.directory_block(all, INDEX);
            let in_inode = all.blocks.is_empty();
            pieces.push(if in_inode {
                self.layout.inode(file, true)
            } else {
                self.layout.first_part(above)
            });
        }
        if let Some(replaced) = replaced {
            self.lose_name(replaced, parent, Vec::new(), now_ps);
        }
        let metadata = self.files.entry(file).or_default();
        match metadata.names.first_mut() {
            Some(first) => *first = (parent, new),
            None => metadata.names.push((parent, new)),
        }
        self.change(file, &pieces, true, now_ps);
        self.changes_directories(file, &[from, parent]);
        if let Some(Replaced { file: replaced, goes: true, .. }) = replaced {
            self.note(|| Note::Renamed { file, replaced });
        }
    }

    /// A file gets one more name (`ext4_link`; `xfs_link`).
    pub fn link(&mut self, file: InodeId, parent: InodeId, now_ps: u64) {
        let (name, mut pieces) = self.add_name(parent);
        pieces.push(self.layout.inode(file, false));
        self.files.entry(file).or_default().names.push((parent, name));
        self.change(file, &pieces, true, now_ps);
        self.changes_directories(file, &[parent]);
    }

    /// A file loses one of several names (`ext4_unlink`; `xfs_remove`).
    pub fn unname(&mut self, file: InodeId, parent: InodeId, now_ps: u64) {
        let name = self.name_in(file, parent).unwrap_or_else(|| self.name(file).1);
        let mut pieces = self.remove_name(parent, name);
        pieces.push(self.layout.inode(file, false));
        let names = self.files.get_mut(&file).map(|it| &mut it.names);
        if let Some(names) = names.filter(|names| names.len() > 1) {
            names.retain(|it| *it != (parent, name));
        }
        self.change(file, &pieces, true, now_ps);
        self.changes_directories(file, &[parent]);
    }

    /// A file loses a name that it has in a directory; where it goes with that, it is an orphan.
    pub(super) fn lose_name(
        &mut self,
        Replaced { file, pages, goes }: Replaced,
        parent: InodeId,
        mut pieces: Vec<Piece>,
        now_ps: u64,
    ) {
        pieces.push(self.layout.inode(file, false));
        let name = self.name_in(file, parent);
        let metadata = self.files.entry(file).or_default();
        if metadata.names.len() > 1 {
            metadata.names.retain(|it| Some(it.1) != name);
        }
        metadata.exists &= !goes;
        if goes {
            pieces.push(self.layout.orphans(file));
        }
        self.change(file, &pieces, true, now_ps);
        if goes {
            let transaction = self.files.get(&file).map_or(0, |metadata| metadata.changed_by);
            self.note(|| Note::Cut { file, pages: 0..pages, transaction });
        }
    }

    /// The name that stands first of those of a file, and its directory.
    pub(super) fn name(&self, file: InodeId) -> (InodeId, NameId) {
        let names = self.files.get(&file).map(|it| &it.names);
        names.and_then(|names| names.first().copied()).unwrap_or((TOP, 0))
    }

    /// The last that a file got in a directory.
    fn name_in(&self, file: InodeId, parent: InodeId) -> Option<NameId> {
        let names = &self.files.get(&file)?.names;
        names.iter().rev().find(|it| it.0 == parent).map(|it| it.1)
    }

    /// These directories have been changed with a file, and a sync of them waits for the same transaction.
    pub(super) fn changes_directories(&mut self, file: InodeId, directories: &[InodeId]) {
        let number = self.files.get(&file).map_or(0, |it| it.changed_by);
        for directory in directories.iter().filter(|it| **it != TOP) {
            let metadata = self.files.entry(*directory).or_default();
            (metadata.changed_by, metadata.data_changed_by) = (number, number);
        }
    }
}

#[cfg(test)]
mod tests;
