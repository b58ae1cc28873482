//! Locks of inodes: a call has a file to itself, or with others that do as it does, as
//! [`tierscope_model::os::inode_locks`] says. Who finds the lock taken sleeps, and has it when it wakes, in the order in which
//! they came: nobody passes one that waits. Mappings take none.

use super::Machine;
use super::kernel::path_steps;
use super::thread::{Action, State, Step};
use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use tierscope_kernel::Stage;
use tierscope_model::os::InodeId;
use tierscope_model::os::inode_locks::Hold;
use tierscope_model::os::paging::DirectCall;

/// Those that are taken.
pub(super) type LockedInodes = BTreeMap<InodeId, InodeLock>;

/// A lock that is taken, by software threads.
#[derive(Clone, Debug)]
pub(super) struct InodeLock {
    holders: Vec<usize>,
    hold: Hold,
    waiting: VecDeque<(usize, Hold)>,
}

impl InodeLock {
    /// Another holder, where the lock can be had so; or its only one once more, who gives it up as often.
    fn add(&mut self, thread: usize, hold: Hold) -> bool {
        let can = match self.hold {
            Hold::Exclusive => self.holders.contains(&thread),
            Hold::Shared => hold == Hold::Shared && self.waiting.is_empty(),
        };
        if can {
            self.holders.push(thread);
        }
        can
    }

    /// The lock is nobody's: the first who waits has it, and with him those behind him who share it.
    fn pass_on(&mut self) {
        while let Some((thread, hold)) = self.waiting.front().copied()
            && (self.holders.is_empty() || (hold, self.hold) == (Hold::Shared, Hold::Shared))
        {
            self.waiting.pop_front();
            self.holders.push(thread);
            self.hold = hold;
        }
    }
}

impl Machine {
    /// A thread is about to write a file through the page cache: it takes its lock, or has to wait for it first.
    pub(super) fn lock_to_write(&mut self, thread: usize, inode: InodeId) -> Option<Step> {
        self.lock(thread, inode, self.fixed.inode_locks.to_write())
    }

    /// It is about to read it so.
    pub(super) fn lock_to_read(&mut self, thread: usize, inode: InodeId) -> Option<Step> {
        self.lock(thread, inode, self.fixed.inode_locks.to_read())
    }

    /// A call past the page cache is about to begin.
    pub(super) fn lock_directly(&mut self, thread: usize, call: &DirectCall) -> Option<Step> {
        let locks = self.fixed.inode_locks;
        let hold = match call.write {
            true => locks.to_write_directly(|| self.paging.has_all(call)),
            false => locks.to_read_directly(),
        };
        self.lock(thread, call.inode, hold)
    }

    /// A thread takes the lock of a file when it has come so far in its steps.
    pub(super) fn lock_in_turn(&self, inode: InodeId, hold: Option<Hold>) -> Option<Step> {
        hold.map(|hold| Step::Act(Action::LockInode(inode, hold)))
    }

    /// It takes it to commit the file, before its data are written or behind that: data in the log are committed themselves.
    pub(super) fn lock_to_commit(&self, inode: InodeId, before_data: bool) -> Option<Step> {
        let hold = self.fixed.inode_locks.to_commit();
        self.lock_in_turn(inode, hold.filter(|_| self.paging.journals_data() == before_data))
    }

    /// In what comes before the region calls take no time, and no lock; what a sampled run passes over takes its time.
    fn calls_take_no_time(&self) -> bool {
        self.functional && !self.passes_over()
    }

    /// A thread takes the lock of a file, or what it has to wait with for it.
    fn lock(&mut self, thread: usize, inode: InodeId, hold: Option<Hold>) -> Option<Step> {
        let hold = hold?;
        if self.calls_take_no_time() || self.take_lock(thread, inode, hold) {
            return None;
        }
        Some(Step::Act(Action::LockInode(inode, hold)))
    }

    /// Whether the lock of a file was there to be taken.
    fn take_lock(&mut self, thread: usize, inode: InodeId, hold: Hold) -> bool {
        match self.inode_locks.entry(inode) {
            Entry::Occupied(mut lock) => lock.get_mut().add(thread, hold),
            Entry::Vacant(lock) => {
                lock.insert(InodeLock { holders: vec![thread], hold, waiting: VecDeque::new() });
                true
            }
        }
    }

    /// Whether a call of some thread has the lock of a file.
    pub(super) fn is_locked(&self, inode: InodeId) -> bool {
        self.inode_locks.contains_key(&inode)
    }

    /// The thread of a hardware thread sleeps until it has the lock of a file, unless that can be had by now.
    pub(super) fn await_lock(&mut self, index: usize, inode: InodeId, hold: Hold, now_ps: u64) {
        let thread = self.contexts[index].thread;
        if self.calls_take_no_time() || self.take_lock(thread, inode, hold) {
            return;
        }
        if let Some(lock) = self.inode_locks.get_mut(&inode) {
            lock.waiting.push_back((thread, hold));
            self.account.file_lock_waits += 1;
            self.leave(index, State::OnInode);
            self.dispatch(index, now_ps);
        }
    }

    /// The thread of a hardware thread gives up the lock of a file, where it has it, and wakes who has it next.
    pub(super) fn unlock_inode(&mut self, index: usize, inode: InodeId, now_ps: u64) {
        let holder = self.contexts[index].thread;
        let Entry::Occupied(mut entry) = self.inode_locks.entry(inode) else { return };
        let lock = entry.get_mut();
        let Some(place) = lock.holders.iter().position(|thread| *thread == holder) else { return };
        lock.holders.swap_remove(place);
        if !lock.holders.is_empty() {
            return;
        }
        lock.pass_on();
        let woken = lock.holders.clone();
        if woken.is_empty() {
            entry.remove();
        }
        let path = self.os.paths.wake_up;
        let mut woken_ps = now_ps;
        for next in &woken {
            woken_ps += self.kernel_path_ps(path);
            let thread = &mut self.threads[*next];
            let waited_ps = now_ps - thread.clock_ps;
            self.account.causes.wait_in_call(thread.call_cause(), waited_ps, false);
            thread.charge_until(Stage::FileLock as usize, now_ps);
            thread.charge_until(Stage::WakeUp as usize, woken_ps);
            self.wake_at(*next, woken_ps);
        }
        let holder = &mut self.threads[holder];
        holder.by_thread |= !woken.is_empty();
        holder.do_first(&path_steps(Stage::WakeUp, path, woken.len() as u32));
    }
}
