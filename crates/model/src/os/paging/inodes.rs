//! Names of files, and the inodes that they are links to.
//!
//! A name is the number by which a workload knows a file; an inode is a file itself: its pages, its blocks and its
//! size. Opening finds the inode of a name, or makes one; deleting takes the name away. An inode without a name
//! stays as long as something has it: who has opened it, a call under way, or a mapping. Then its pages go and its
//! blocks are free (`iput`, fs/inode.c; `ext4_evict_inode`, fs/ext4/inode.c). Memory that processes share is an inode
//! that never had a name.

use super::*;
use crate::os::file_system::Replaced;
use crate::os::file_system::names::TOP;

/// The first number of inodes that may not have the number of their name, as an inode without one has it still.
pub(super) const FIRST_SPARE: InodeId = 3 << 26;

/// Names, and what they are links to.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// The inode of each name that was ever known; none of one that was deleted.
    inodes: BTreeMap<FileId, Option<InodeId>>,
    /// Inodes that no name is a link to.
    nameless: BTreeSet<InodeId>,
    /// Of these, the last that each name was a link to.
    last: BTreeMap<FileId, InodeId>,
    /// Inodes that have gone, for files that are made anew under names that were not known.
    free: BTreeSet<InodeId>,
    /// In which directory a name is, where that is not the topmost.
    parents: BTreeMap<FileId, FileId>,
    /// Inodes that are directories.
    directories: BTreeSet<InodeId>,
    /// Files that were only asked of so far: what they hold has no place until they are opened.
    asked: BTreeSet<FileId>,
}

impl Names {
    /// An inode that never had a name.
    pub fn add_nameless(&mut self, inode: InodeId) {
        self.nameless.insert(inode);
    }
}

impl Paging {
    /// A file is opened, with the size it has now where it is first seen; it is made, and empty, where its name is known and it
    /// was deleted. Its inode.
    pub fn open(&mut self, name: FileId, size_bytes: u64) -> Result<InodeId, OsError> {
        let was_asked = self.names.asked.remove(&name);
        let known = self.names.inodes.get(&name).copied();
        let is_new = known.flatten().is_none();
        let inode = match known {
            Some(Some(inode)) => inode,
            Some(None) => self.add_inode(name, 0, false)?,
            None => self.add_inode(name, size_bytes, size_bytes > 0)?,
        };
        if was_asked && !is_new {
            let pages = self.place(inode, size_bytes)?;
            self.change_metadata(|system, _| system.holds(inode, pages, size_bytes));
        }
        self.look_up(inode);
        Ok(inode)
    }

    /// Whether a file is made where it is opened now, as it would have this size if it were there.
    pub fn is_made(&self, name: FileId, size_bytes: u64) -> bool {
        match self.names.inodes.get(&name) {
            Some(inode) => inode.is_none(),
            None => size_bytes == 0,
        }
    }

    /// A name that is a link to none gets an inode: of a file that is made, or, if `held`, that the store has had
    /// from the start.
    fn add_inode(&mut self, name: FileId, size_bytes: u64, held: bool) -> Result<InodeId, OsError> {
        self.add(name, size_bytes, held, false)
    }

    fn add(
        &mut self,
        name: FileId,
        size_bytes: u64,
        held: bool,
        directory: bool,
    ) -> Result<InodeId, OsError> {
        // As file systems do, so that what is made and deleted again and again, each time under another name,
        // needs no more room than it has at once.
        let is_new = !held && !self.names.inodes.contains_key(&name);
        let free = if is_new { self.names.free.pop_first() } else { None };
        let mut inode = free.unwrap_or(name);
        if self.files.contains_key(&inode) {
            let mut spare = FIRST_SPARE..;
            inode = spare.find(|spare| !self.files.contains_key(spare)).unwrap_or(inode);
        }
        self.names.free.remove(&inode);
        self.names.inodes.insert(name, Some(inode));
        if directory {
            self.names.directories.insert(inode);
        }
        let parent = self.parent_of(name)?;
        let pages = self.place(inode, size_bytes)?;
        let is_directory = self.names.directories.contains(&inode);
        let both = (inode, parent);
        self.change_metadata(|system, now_ps| match (held, is_directory) {
            (false, false) => system.create(name, both, now_ps),
            (true, false) => system.held(name, both, pages, size_bytes),
            (false, true) => system.make_directory(name, both, now_ps),
            (true, true) => system.held_directory(name, both),
        });
        self.file(inode).name = name;
        Ok(inode)
    }

    /// What a file has from the start gets its place: where that is, and how many pages.
    fn place(&mut self, inode: InodeId, size_bytes: u64) -> Result<(u64, u64), OsError> {
        let pages = size_bytes.div_ceil(self.page_bytes);
        let (base_address, in_memory) = (self.store_end, self.tmpfs.is_some());
        if in_memory {
            self.fill_shmem(inode, pages)?;
        } else {
            self.grow_store(pages)?;
        }
        let state = self.file(inode);
        state.size_bytes = size_bytes;
        if !in_memory {
            (state.stored_pages, state.base_address) = (pages, base_address);
        }
        Ok((base_address, pages))
    }

    /// A name is in this directory, as the call that told of it before anything else says: there from the start with so many
    /// bytes, or to be made; of one that is known nothing changes.
    pub fn tell_parent(
        &mut self,
        name: FileId,
        parent: FileId,
        size_bytes: u64,
    ) -> Result<(), OsError> {
        match size_bytes {
            _ if !self.is_told_first(name, parent) => Ok(()),
            0 => Ok(()),
            _ => self.add_inode(name, size_bytes, true).map(drop),
        }
    }

    /// Whether nothing was known of a name, of which it is known now in which directory it is.
    fn is_told_first(&mut self, name: FileId, parent: FileId) -> bool {
        let is_new = !self.names.inodes.contains_key(&name) && name != NO_FILE;
        if is_new {
            self.set_parent(name, parent);
        }
        is_new
    }

    /// A file or a directory has been there from the start, with so many bytes, which have their place once it is opened; of
    /// one that is known nothing changes.
    pub fn tell_there(
        &mut self,
        (name, is_directory): (FileId, bool),
        parent: FileId,
        size_bytes: u64,
    ) -> Result<(), OsError> {
        if !self.is_told_first(name, parent) {
            return Ok(());
        }
        if size_bytes > 0 && !is_directory {
            self.names.asked.insert(name);
        }
        self.add(name, 0, true, is_directory).map(drop)
    }

    /// A call asks by a name what it stands for (`vfs_statx`, fs/stat.c): what the way to it and its inode take is read.
    pub fn stat(&mut self, name: FileId) {
        if let Some(inode) = self.find(name) {
            self.look_up(inode);
        }
    }

    fn set_parent(&mut self, name: FileId, parent: FileId) {
        match parent {
            NO_FILE => self.names.parents.remove(&name),
            parent => self.names.parents.insert(name, parent),
        };
    }

    /// The inode of the directory that has a name.
    fn parent_of(&mut self, name: FileId) -> Result<InodeId, OsError> {
        let parent = self.names.parents.get(&name).copied().unwrap_or(NO_FILE);
        self.directory(parent)
    }

    /// The inode of a directory; one that is not known has been there from the start.
    fn directory(&mut self, name: FileId) -> Result<InodeId, OsError> {
        match self.names.inodes.get(&name) {
            _ if name == NO_FILE => Ok(TOP),
            Some(Some(inode)) => Ok(*inode),
            _ => self.add(name, 0, true, true),
        }
    }

    /// A directory is made in another (mkdir).
    pub fn make_directory(&mut self, name: FileId, parent: FileId) -> Result<(), OsError> {
        if self.find(name).is_none() && name != NO_FILE {
            self.set_parent(name, parent);
            self.add(name, 0, false, true)?;
        }
        Ok(())
    }

    /// An empty directory is removed (rmdir); one that is not stays.
    pub fn remove_directory(&mut self, name: FileId) -> Result<(), OsError> {
        if name == NO_FILE {
            return Ok(());
        }
        let inode = self.directory(name)?;
        let is_empty =
            self.file_system.as_ref().is_none_or(|system| system.is_empty_directory(inode));
        if is_empty && self.names.directories.contains(&inode) {
            self.names.inodes.insert(name, None);
            self.names.nameless.insert(inode);
            self.names.last.insert(name, inode);
            self.change_metadata(|system, now_ps| system.remove_directory(inode, now_ps));
            self.drop_unused(inode);
        }
        Ok(())
    }

    /// Blocks of a directory that a call reads which gets so many bytes of its names, one at least where it has any.
    pub fn list_directory(&mut self, name: FileId, bytes: u64) -> Result<u64, OsError> {
        let inode = self.directory(name)?;
        let blocks = self.file_system.as_ref().map_or(0, |it| it.directory_blocks(inode));
        let blocks = bytes.div_ceil(self.page_bytes).min(blocks);
        self.look_up(inode);
        self.file_system.iter_mut().for_each(|it| it.look_through(inode, blocks));
        Ok(blocks)
    }

    /// A file or a directory gets a name in a directory, that of `replaced` where there is one, which has so many bytes where
    /// it is told of here first, and so many other names (rename). The inode that has lost its last name, if any has.
    pub fn rename(
        &mut self,
        name: FileId,
        parent: FileId,
        (replaced, size_bytes, names): (FileId, u64, u64),
        work: &mut Vec<Work>,
    ) -> Result<Option<InodeId>, OsError> {
        let inode = match self.find(name) {
            Some(inode) => inode,
            // What nothing was known of has been there from the start.
            None => self.add(name, 0, true, false)?,
        };
        let to = self.directory(parent)?;
        let other = self.replaced(replaced, size_bytes, parent)?.filter(|other| *other != inode);
        if other.is_some() {
            // Its data are on their way before the old ones are gone (`ext4_alloc_da_blocks`, fs/ext4/inode.c).
            let begins = self.file_system.as_ref().is_some_and(FileSystem::writes_replacing);
            while begins && self.write_file(inode, work)?.is_some() {}
        }
        let goes = names == 0;
        let lost = other.map(|file| Replaced { file, pages: self.file_pages(file), goes });
        self.change_metadata(|system, now_ps| system.rename(inode, to, lost, now_ps));
        self.set_parent(name, parent);
        let Some(other) = other.filter(|_| goes) else { return Ok(None) };
        self.names.inodes.insert(replaced, None);
        self.names.nameless.insert(other);
        self.names.last.insert(replaced, other);
        self.drop_unused(other);
        Ok(Some(other))
    }

    /// The inode whose name a rename takes.
    fn replaced(
        &mut self,
        name: FileId,
        size_bytes: u64,
        parent: FileId,
    ) -> Result<Option<InodeId>, OsError> {
        match self.names.inodes.get(&name) {
            _ if name == NO_FILE => Ok(None),
            Some(inode) => Ok(*inode),
            None => {
                self.set_parent(name, parent);
                self.add(name, size_bytes, true, false).map(Some)
            }
        }
    }

    /// A file gets one more name (link), or loses one of several, in a directory.
    pub fn link(&mut self, name: FileId, parent: FileId, gets: bool) -> Result<(), OsError> {
        let directory = self.directory(parent)?;
        if let Some(inode) = self.find(name) {
            self.change_metadata(|system, now_ps| match gets {
                true => system.link(inode, directory, now_ps),
                false => system.unname(inode, directory, now_ps),
            });
        }
        Ok(())
    }

    /// The inode of a name, where there is such a file.
    pub fn find(&self, name: FileId) -> Option<InodeId> {
        self.names.inodes.get(&name).copied().flatten()
    }

    /// The same, or the inode that the name was a link to last, where something has it still.
    pub fn find_or_last(&self, name: FileId) -> Option<InodeId> {
        self.find(name).or_else(|| self.names.last.get(&name).copied())
    }

    /// All inodes that have a name, in order.
    pub fn named(&self) -> Vec<InodeId> {
        let mut named: Vec<InodeId> = self.names.inodes.values().copied().flatten().collect();
        named.sort_unstable();
        named
    }

    /// The name that an inode has, or had.
    pub fn name_of(&self, inode: InodeId) -> FileId {
        self.files.get(&inode).map_or(inode, |state| state.name)
    }

    /// Whether no name is a link to an inode.
    pub fn is_nameless(&self, inode: InodeId) -> bool {
        self.names.nameless.contains(&inode)
    }

    /// A file is deleted: its name goes, and its inode once nothing has it. Which that was. A file that is told of here
    /// first has been there from the start, and has this size.
    pub fn unlink(&mut self, name: FileId, size_bytes: u64) -> Result<Option<InodeId>, OsError> {
        if size_bytes > 0 && !self.names.inodes.contains_key(&name) {
            self.add_inode(name, size_bytes, true)?;
        }
        if self.find(name).is_some_and(|inode| self.names.directories.contains(&inode)) {
            return Ok(None);
        }
        let Some(inode) = self.names.inodes.get_mut(&name).and_then(Option::take) else {
            return Ok(None);
        };
        self.names.nameless.insert(inode);
        self.names.last.insert(name, inode);
        let pages = self.file_pages(inode);
        self.change_metadata(|system, now_ps| system.unlink(inode, pages, now_ps));
        self.drop_unused(inode);
        Ok(Some(inode))
    }

    /// A call on an inode begins, or somebody has it open (`ihold`).
    pub fn keep_inode(&mut self, inode: InodeId) {
        self.file(inode).users += 1;
    }

    /// A file is closed: what has been written to it since it was cut off is on its way (`ext4_release_file`, fs/ext4/file.c;
    /// `xfs_file_release`, fs/xfs/xfs_file.c).
    pub fn close(&mut self, inode: InodeId, work: &mut Vec<Work>) -> Result<(), OsError> {
        let Some(state) = self.files.get_mut(&inode) else { return Ok(()) };
        if std::mem::take(&mut state.cut_off) {
            while self.write_file(inode, work)?.is_some() {}
        }
        Ok(())
    }

    /// Who kept an inode lets go of it (`iput`).
    pub fn let_go_of_inode(&mut self, inode: InodeId) {
        self.file(inode).users -= 1;
        if self.file(inode).users == 0 {
            self.give_back_ahead(inode);
        }
        self.drop_unused(inode);
    }

    /// An inode goes, unless it has a name, or something has it.
    fn drop_unused(&mut self, inode: InodeId) {
        let is_kept = self.files.get(&inode).is_some_and(|state| state.users > 0);
        if is_kept || !self.is_nameless(inode) || self.space.maps(inode) {
            return;
        }
        self.truncate(inode, 0);
        if !processes::is_object(inode) {
            self.change_metadata(|system, now_ps| system.remove(inode, now_ps));
            self.names.free.insert(inode);
        }
        self.names.directories.remove(&inode);
        let name = self.files.remove(&inode).map(|state| state.name);
        self.names.nameless.remove(&inode);
        if let Some(name) = name.filter(|name| self.names.last.get(name) == Some(&inode)) {
            self.names.last.remove(&name);
        }
    }

    /// Inodes without a name that a range maps, whose last mapping may go.
    pub(super) fn nameless_in(&self, start: u64, pages: u64) -> BTreeSet<InodeId> {
        if self.names.nameless.is_empty() {
            return BTreeSet::new();
        }
        let files = self.space.files_in(start, pages).into_iter().map(|(file, _)| file);
        files.filter(|file| self.is_nameless(*file)).collect()
    }

    /// Those go that nothing maps any more, nor has otherwise.
    pub(super) fn drop_unmapped(&mut self, inodes: BTreeSet<InodeId>) {
        inodes.into_iter().for_each(|inode| self.drop_unused(inode));
    }
}

#[cfg(test)]
mod tests;
