//! Calls past the page cache (`O_DIRECT`): what a thread does for one.

use super::thread::{Action, Step};
use super::{Machine, MachineError};
use tierscope_model::os::paging::{DirectCall, DirectNext, Next};

/// What the kernel's direct calls are made of: sectors of a drive whose logical blocks are the usual ones (open(2),
/// `O_DIRECT`).
const SECTOR_BYTES: u64 = 512;

impl Machine {
    /// Whether a direct call goes past the page cache: where there is one, and it moves whole pages. Otherwise it goes
    /// through the page cache, as file systems do it where they cannot do otherwise (`direct_write_fallback`,
    /// fs/libfs.c).
    pub(super) fn goes_past_cache(&self, numbers: [u64; 3]) -> bool {
        let page_bytes = 1 << self.fixed.page_shift;
        self.fixed.paging && numbers.iter().all(|number| number.is_multiple_of(page_bytes))
    }

    /// A direct call of a thread with this offset, length and address.
    ///
    /// # Errors
    /// Where one of them is not a whole number of sectors: the kernel refuses that (`EINVAL`).
    pub(super) fn check_sectors(
        &self,
        thread: usize,
        numbers: [u64; 3],
    ) -> Result<(), MachineError> {
        let names = ["its offset", "its length", "the address of its buffer"];
        let odd = |(_, number): &(_, u64)| !number.is_multiple_of(SECTOR_BYTES);
        match names.into_iter().zip(numbers).find(odd) {
            None => Ok(()),
            Some((name, number)) => Err(MachineError::BadOperation {
                thread: thread as u32,
                reason: format!(
                    "a direct read or write fails (EINVAL), as {name}, {number}, is not a whole number of \
                     sectors of {SECTOR_BYTES} B"
                ),
            }),
        }
    }

    pub(super) fn act_directly(
        &mut self,
        index: usize,
        call: DirectCall,
        now_ps: u64,
    ) -> Result<(), MachineError> {
        let thread = self.contexts[index].thread;
        let mut pinned = std::mem::take(&mut self.threads[thread].pinned);
        let (next, work) = self
            .decide(|paging, work, held| paging.direct(&call, &mut pinned, now_ps, work, held))?;
        self.threads[thread].pinned = pinned;
        match next {
            DirectNext::Ask(next) => {
                self.proceed(index, next, work, Action::Direct(call), |_| Vec::new());
            }
            DirectNext::Started(id) => {
                let mut steps = self.work_steps(&work);
                steps.extend(id.map(|id| Step::Act(Action::Wait(id))));
                steps.push(Step::Act(Action::DirectDone(call)));
                self.threads[thread].do_first(&steps);
            }
        }
        Ok(())
    }

    pub(super) fn act_settling(
        &mut self,
        index: usize,
        call: DirectCall,
    ) -> Result<(), MachineError> {
        let (wait, work) = self.decide(|paging, work, _| paging.settle(&call, work))?;
        match wait {
            Some(id) => {
                self.proceed(index, Next::Wait(id), work, Action::Settle(call), |_| Vec::new());
            }
            None => self.paging.let_go_of_inode(call.inode),
        }
        Ok(())
    }

    pub(super) fn end_direct(&mut self, call: DirectCall) {
        if call.write {
            self.paging.extend_file(call.inode, call.offset + call.bytes);
        }
        self.paging.let_go_of_inode(call.inode);
    }
}
