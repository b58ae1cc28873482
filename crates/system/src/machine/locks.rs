//! Locks of inodes, where all files lie in memory: a call that writes a file, or cuts it off, has the file to itself
//! among those that do (`inode_lock`: `generic_file_write_iter`, mm/filemap.c; `shmem_file_write_iter`, mm/shmem.c;
//! `do_truncate`, fs/open.c). Calls that read, and mappings, take none (`shmem_file_read_iter`). Who finds it taken sleeps,
//! and has it when it wakes, in the order in which they came.
//!
//! A file that is the device itself has none (`blkdev_write_iter`, block/fops.c); those of file systems on a store are
//! not modelled.

use super::Machine;
use super::kernel::path_steps;
use super::thread::{Action, BLOCKED, State, Step};
use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use tierscope_kernel::Stage;
use tierscope_model::os::InodeId;

/// Those that are taken.
pub(super) type InodeLocks = BTreeMap<InodeId, InodeLock>;

/// A lock that is taken, by software threads.
#[derive(Clone, Debug)]
pub(super) struct InodeLock {
    holder: usize,
    waiting: VecDeque<usize>,
}

impl Machine {
    /// A thread is about to write a file: it takes its lock, or has to wait for it first. In functional warming a call
    /// takes no time, and no lock.
    pub(super) fn lock_to_write(&mut self, thread: usize, inode: InodeId) -> Option<Step> {
        if !self.fixed.locks_inodes || self.functional || self.take_lock(thread, inode) {
            return None;
        }
        Some(Step::Act(Action::LockInode(inode)))
    }

    /// Whether the lock of a file was there to be taken.
    fn take_lock(&mut self, thread: usize, inode: InodeId) -> bool {
        let Entry::Vacant(lock) = self.inode_locks.entry(inode) else { return false };
        lock.insert(InodeLock { holder: thread, waiting: VecDeque::new() });
        true
    }

    /// Whether a call of some thread has the lock of a file.
    pub(super) fn is_locked(&self, inode: InodeId) -> bool {
        self.inode_locks.contains_key(&inode)
    }

    /// The thread of a hardware thread sleeps until it has the lock of a file, unless that is free by now.
    pub(super) fn await_lock(&mut self, index: usize, inode: InodeId, now_ps: u64) {
        let thread = self.contexts[index].thread;
        if self.functional || self.take_lock(thread, inode) {
            return;
        }
        if let Some(lock) = self.inode_locks.get_mut(&inode) {
            lock.waiting.push_back(thread);
            self.leave(index, State::OnInode);
            self.dispatch(index, now_ps);
        }
    }

    /// The thread of a hardware thread gives up the lock of a file, where it has it, and wakes the next.
    pub(super) fn unlock_inode(&mut self, index: usize, inode: InodeId, now_ps: u64) {
        let holder = self.contexts[index].thread;
        let Entry::Occupied(mut lock) = self.inode_locks.entry(inode) else { return };
        if lock.get().holder != holder {
            return;
        }
        let Some(next) = lock.get_mut().waiting.pop_front() else {
            lock.remove();
            return;
        };
        lock.get_mut().holder = next;
        let path = self.os.paths.wake_up;
        let woken_ps = now_ps + self.kernel_path_ps(path);
        let thread = &mut self.threads[next];
        let waited_ps = now_ps - thread.clock_ps;
        self.account.causes.wait_in_call(thread.call_cause(), waited_ps, false);
        thread.charge_until(BLOCKED, now_ps);
        thread.charge_until(Stage::WakeUp as usize, woken_ps);
        self.wake_at(next, woken_ps);
        self.threads[holder].do_first(&path_steps(Stage::WakeUp, path, 1));
    }
}
