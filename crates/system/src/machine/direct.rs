//! Calls past the page cache (`O_DIRECT`): what a thread does for one.

use super::thread::{Action, Step};
use super::transfers::place_in;
use super::{Machine, MachineError};
use tierscope_model::os::paging::{DirectCall, DirectNext, Next};
use tierscope_workload::Call;

/// What the kernel's direct calls are made of: sectors of a drive whose logical blocks are the usual ones (open(2),
/// `O_DIRECT`).
const SECTOR_BYTES: u64 = 512;

/// How a call reads or writes a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Through the page cache.
    Cached,
    /// Through it, and what it writes goes on to the store at once.
    Through,
    /// Past it.
    Past,
}

impl Machine {
    /// How a thread's call goes, of this offset, length and address of its buffer: a direct one past the page cache,
    /// where there is one and it moves whole pages. Otherwise it goes through it, as file systems do it where they
    /// cannot do otherwise (`direct_write_fallback`, fs/libfs.c).
    ///
    /// # Errors
    /// Where offset or length of a direct call is not a whole number of sectors: the kernel refuses that (`EINVAL`).
    /// Of the address drives ask for less (`bdev_dma_alignment`, include/linux/blkdev.h, since Linux 6.0).
    pub(super) fn way_of(
        &mut self,
        thread: usize,
        call: &Call,
        numbers: [u64; 3],
    ) -> Result<Way, MachineError> {
        if !matches!(call, Call::ReadDirect { .. } | Call::WriteDirect { .. }) {
            return Ok(Way::Cached);
        }
        let odd = |(_, number): &(_, u64)| !number.is_multiple_of(SECTOR_BYTES);
        if let Some((name, number)) =
            ["its offset", "its length"].into_iter().zip(numbers).find(odd)
        {
            return Err(MachineError::BadOperation {
                thread: thread as u32,
                reason: format!(
                    "a direct read or write fails (EINVAL), as {name}, {number}, is not a whole number of \
                     sectors of {SECTOR_BYTES} B"
                ),
            });
        }
        let page_bytes = 1 << self.fixed.page_shift;
        if self.paging.caches_direct_calls() {
            return Ok(Way::Cached);
        }
        let is_whole = |number: &u64| number.is_multiple_of(page_bytes);
        let buffers = &self.threads[thread].buffers;
        let pieces = buffers.iter().flat_map(|it| [&it.address, &it.length]);
        let whole = numbers.iter().all(is_whole) && pieces.into_iter().all(is_whole);
        Ok(match (self.fixed.paging, whole) {
            (true, true) => Way::Past,
            (true, false) => Way::Through,
            (false, _) => {
                self.account.direct_in_vain += 1;
                Way::Cached
            }
        })
    }

    pub(super) fn act_directly(
        &mut self,
        index: usize,
        call: DirectCall,
        now_ps: u64,
    ) -> Result<(), MachineError> {
        let thread = self.contexts[index].thread;
        let mut pinned = std::mem::take(&mut self.threads[thread].pinned);
        let (shift, buffers) = (self.fixed.page_shift, self.threads[thread].buffers.clone());
        let page_of = |nth: u64| place_in(&buffers, call.address + (nth << shift)) >> shift;
        let (next, work) = self.decide(|paging, work, held| {
            paging.direct(&call, &page_of, &mut pinned, now_ps, work, held)
        })?;
        self.threads[thread].pinned = pinned;
        match next {
            DirectNext::Ask(next) => {
                self.proceed(index, next, work, Action::Direct(call), |_| Vec::new());
            }
            DirectNext::Started(id) => {
                let mut steps = self.work_steps(&work);
                if !call.write && self.fixed.reads_let_go {
                    steps.push(Step::Act(Action::UnlockInode(call.inode)));
                }
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
            self.account.direct_written_bytes += call.bytes;
        } else {
            self.account.direct_read_bytes += call.bytes;
        }
        self.paging.let_go_of_inode(call.inode);
    }
}
