//! Files as threads name them, and their inodes: what a thread has open it means from then on, whatever becomes of the
//! name.

use super::Machine;
use super::thread::Thread;
use std::collections::BTreeMap;
use tierscope_model::os::InodeId;
use tierscope_model::os::paging::OsError;
use tierscope_workload::{Call, FileId};

/// A file that a thread has open, and how often.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFile {
    inode: InodeId,
    times: u64,
    /// The number of its first opening, by which all of them read.
    opening: u32,
}

/// Files that a thread has open, by their names.
pub(super) type OpenFiles = BTreeMap<FileId, OpenFile>;

impl Machine {
    /// A thread opens a file, which is so large where it is first seen.
    pub(super) fn open_file(
        &mut self,
        thread: usize,
        file: FileId,
        size_bytes: u64,
    ) -> Result<(), OsError> {
        let inode = self.paging.open(file, size_bytes)?;
        let open_files = &mut self.threads[thread].open_files;
        if let Some(open) = open_files.get_mut(&file).filter(|open| open.inode == inode) {
            open.times += 1;
            return Ok(());
        }
        let opening = self.paging.new_opening();
        let before = open_files.insert(file, OpenFile { inode, times: 1, opening });
        self.paging.keep_inode(inode);
        before.into_iter().for_each(|open| self.closed(open));
        Ok(())
    }

    /// A thread closes a file, if it, or another of its process, has opened it.
    pub(super) fn close_file(&mut self, thread: usize, file: FileId) {
        // Threads of a process share what is open.
        let process = self.threads[thread].process;
        let has_it = |number: &usize| {
            let of = &self.threads[*number];
            of.process == process && of.open_files.contains_key(&file)
        };
        let by = Some(thread).filter(has_it).or_else(|| (0..self.threads.len()).find(has_it));
        let Some(by) = by else { return };
        let open_files = &mut self.threads[by].open_files;
        let Some(open) = open_files.get_mut(&file) else { return };
        open.times -= 1;
        let open = *open;
        if open.times == 0 {
            open_files.remove(&file);
            self.closed(open);
        }
    }

    fn closed(&mut self, open: OpenFile) {
        self.paging.close_opening(open.inode, open.opening);
        self.paging.let_go_of_inode(open.inode);
    }

    /// A call of a thread reads, advises or maps a file by the thread's own opening of it, or by that of another that has
    /// it open, which may have handed its descriptor on.
    pub(super) fn note_opening(&mut self, thread: usize, call: &Call) {
        let opening = match *call {
            Call::Read { file, .. }
            | Call::ReadDirect { file, .. }
            | Call::SpliceRead { file, .. }
            | Call::CopyRange { source: file, .. }
            | Call::AdviseFile { file, .. }
            | Call::Map { file, .. } => self.opening_of(thread, file),
            _ => 0,
        };
        self.threads[thread].opening = opening;
        self.paging.reads_by(opening);
    }

    fn opening_of(&self, thread: usize, file: FileId) -> u32 {
        let own = self.threads[thread].open_files.get(&file).map(|open| open.opening);
        if let Some(own) = own {
            return own;
        }
        let inode = self.find_inode(thread, file);
        let process = self.threads[thread].process;
        let of = |other: &Thread| {
            let open = other.open_files.get(&file).filter(|open| Some(open.inode) == inode)?;
            Some((other.process != process, open.opening))
        };
        // A thread of the same process first; what another has may be a fork's.
        let others = self.threads.iter().filter_map(of);
        others.min().map_or(0, |(_, opening)| opening)
    }

    /// A thread has ended: it has nothing open any more.
    pub(super) fn close_all_files(&mut self, thread: usize) {
        for open in std::mem::take(&mut self.threads[thread].open_files).into_values() {
            self.closed(open);
        }
    }

    /// The inode that a thread means by a file: of what it has open, or else of the name, also of one that was deleted and
    /// that something has still; one is made under it where there is none.
    pub(super) fn inode_of(&mut self, thread: usize, file: FileId) -> Result<InodeId, OsError> {
        match self.opened(thread, file) {
            Some(inode) => Ok(inode),
            None => match self.paging.find_or_last(file) {
                Some(inode) => Ok(inode),
                None => self.paging.open(file, 0),
            },
        }
    }

    /// The same, where there is one.
    pub(super) fn find_inode(&self, thread: usize, file: FileId) -> Option<InodeId> {
        self.opened(thread, file).or_else(|| self.paging.find_or_last(file))
    }

    fn opened(&self, thread: usize, file: FileId) -> Option<InodeId> {
        Some(self.threads[thread].open_files.get(&file)?.inode)
    }
}
