//! What calls move between files, memory, pipes and sockets, page by page, and what they allocate: what a thread does
//! for one.

use super::kernel::path_steps;
use super::thread::{Action, Place, Step};
use super::{Machine, MachineError};
use tierscope_kernel::Stage;
use tierscope_model::os::InodeId;
use tierscope_model::os::paging::Next;
use tierscope_workload::op::{Buffer, fallocate};
use tierscope_workload::{Call, Op};

/// Pages that a copy in the kernel has in its pipe at once (`PIPE_DEF_BUFFERS`, include/linux/pipe_fs_i.h;
/// `splice_direct_to_actor`, fs/splice.c).
const PIPE_PAGES: u64 = 16;

/// The buffers of a call of a thread, where it has several.
pub(super) fn buffers_of(
    call: &Call,
    header: Op,
    arguments: &[Op],
    thread: usize,
) -> Result<Vec<Buffer>, MachineError> {
    let further = call.further_buffers(header, arguments);
    let (Call::Read { length, address, .. }
    | Call::Write { length, address, .. }
    | Call::ReadDirect { length, address, .. }
    | Call::WriteDirect { length, address, .. }) = *call
    else {
        return Ok(Vec::new());
    };
    if further.len() == 0 {
        return Ok(Vec::new());
    }
    let others = further.clone().try_fold(0u64, |sum, it| sum.checked_add(it.length));
    let first = others.and_then(|others| length.checked_sub(others));
    let Some(first) = first else {
        let reason = format!("the buffers of a call are more than the {length} B that it moves");
        return Err(MachineError::BadOperation { thread: thread as u32, reason });
    };
    Ok([Buffer { address, length: first }].into_iter().chain(further).collect())
}

/// A file has no byte behind the largest signed number (`loff_t`).
pub(super) fn check_range(offset: u64, length: u64, thread: usize) -> Result<(), MachineError> {
    if offset.checked_add(length).is_some_and(|end| i64::try_from(end).is_ok()) {
        return Ok(());
    }
    let reason = format!("{length} B from {offset} on lie beyond what a file can have");
    Err(MachineError::BadOperation { thread: thread as u32, reason })
}

/// A call with several buffers, whose address is that of their first byte among all.
pub(super) fn of_buffers(mut call: Call) -> Call {
    if let Call::Read { address, .. }
    | Call::Write { address, .. }
    | Call::ReadDirect { address, .. }
    | Call::WriteDirect { address, .. } = &mut call
    {
        *address = 0;
    }
    call
}

/// The address of a byte of buffers one behind the other; `at` itself where there are none.
pub(super) fn place_in(buffers: &[Buffer], at: u64) -> u64 {
    let mut rest = at;
    for buffer in buffers {
        if rest < buffer.length {
            return buffer.address.wrapping_add(rest);
        }
        rest -= buffer.length;
    }
    at
}

/// The parts of so many bytes from a byte of buffers on, each in one of them.
fn parts_in(buffers: &[Buffer], at: u64, bytes: u64) -> Vec<(u64, u64)> {
    if buffers.is_empty() {
        return vec![(at, bytes)];
    }
    let (mut begin, end) = (0u64, at + bytes);
    let mut parts = Vec::new();
    for buffer in buffers {
        let (from, to) = (at.max(begin), end.min(begin + buffer.length));
        if from < to {
            parts.push((buffer.address.wrapping_add(from - begin), to - from));
        }
        begin += buffer.length;
    }
    parts
}

impl Machine {
    fn part_of_page(&self, offset: u64, left: u64) -> u64 {
        let page_bytes = 1u64 << self.fixed.page_shift;
        left.min(page_bytes - (offset & (page_bytes - 1)))
    }

    /// How many of so many bytes from an offset on a file has.
    pub(super) fn within_file(&self, inode: InodeId, offset: u64, length: u64) -> u64 {
        self.paging.file_size(inode).saturating_sub(offset).min(length)
    }

    /// A call that reads a file goes on with its next page.
    pub(super) fn read_on(
        &mut self,
        index: usize,
        action: Action,
        now_ps: u64,
    ) -> Result<(), MachineError> {
        let (inode, offset, left, last, address) = match action {
            Action::Read { inode, offset, left, address, last } => {
                (inode, offset, left, last, Some(address))
            }
            Action::SpliceRead { inode, offset, left, last } => (inode, offset, left, last, None),
            _ => return Ok(()),
        };
        if left == 0 {
            self.paging.end_of_read(inode, offset);
            self.unlock_inode(index, inode, now_ps);
            self.paging.let_go_of_inode(inode);
            return Ok(());
        }
        let page = offset >> self.fixed.page_shift;
        let (next, work) =
            self.decide(|paging, work, held| paging.read_page(inode, page, last, work, held))?;
        let part = self.part_of_page(offset, left);
        let (offset_after, left) = (offset + part, left - part);
        let rest = match address {
            Some(address) => {
                Action::Read { inode, offset: offset_after, left, address: address + part, last }
            }
            None => Action::SpliceRead { inode, offset: offset_after, left, last },
        };
        let shift = self.fixed.page_shift;
        let path = self.os.paths.page_cache;
        let buffers = &self.threads[self.contexts[index].thread].buffers;
        let to = address.map(|address| parts_in(buffers, address, part)).unwrap_or_default();
        self.proceed(index, next, work, action, move |frame| {
            let mut from = Place::Physical((frame << shift) + (offset & ((1 << shift) - 1)));
            let mut steps = path_steps(Stage::PageCache, path, 1);
            for (address, bytes) in to {
                let to = Place::Virtual(address);
                steps.push(Step::Copy { stage: Stage::PageCache, from, to, bytes });
                from = from.after(bytes);
            }
            steps.push(Step::Act(rest));
            steps
        });
        Ok(())
    }

    /// A call that writes a file goes on with its next page.
    pub(super) fn write_on(
        &mut self,
        index: usize,
        action: Action,
        now_ps: u64,
    ) -> Result<(), MachineError> {
        let (Action::Write { inode, offset, left, .. }
        | Action::SpliceWrite { inode, offset, left }
        | Action::CopyWrite { inode, offset, left, .. }) = action
        else {
            return Ok(());
        };
        if left == 0 {
            self.paging.extend_file(inode, offset);
            self.unlock_inode(index, inode, now_ps);
            self.paging.let_go_of_inode(inode);
            return Ok(());
        }
        let page = offset >> self.fixed.page_shift;
        let part = self.part_of_page(offset, left);
        let whole = part == 1 << self.fixed.page_shift;
        let (next, work) =
            self.decide(|paging, work, held| paging.write_page(inode, page, whole, work, held))?;
        let (offset_after, left) = (offset + part, left - part);
        let (rest, from) = match action {
            Action::Write { address, .. } => {
                let buffers = &self.threads[self.contexts[index].thread].buffers;
                let from = parts_in(buffers, address, part).into_iter();
                let from = from.map(|(address, bytes)| (Place::Virtual(address), bytes)).collect();
                let address = address + part;
                (Action::Write { inode, offset: offset_after, left, address }, from)
            }
            Action::CopyWrite { source, source_offset, .. } => {
                let from = self.places_of_file(source, source_offset, part);
                let source_offset = source_offset + part;
                let offset = offset_after;
                (Action::CopyWrite { inode, offset, left, source, source_offset }, from)
            }
            _ => {
                let from = vec![(Place::Nowhere, part)];
                (Action::SpliceWrite { inode, offset: offset_after, left }, from)
            }
        };
        let shift = self.fixed.page_shift;
        let path = self.os.paths.page_cache;
        self.proceed(index, next, work, action, move |frame| {
            let mut to = Place::Physical((frame << shift) + (offset & ((1 << shift) - 1)));
            let mut steps = path_steps(Stage::PageCache, path, 1);
            for (from, bytes) in from {
                steps.push(Step::Copy { stage: Stage::PageCache, from, to, bytes });
                to = to.after(bytes);
            }
            steps.push(Step::Act(rest));
            steps
        });
        Ok(())
    }

    /// Where the page cache has so many bytes of a file, page by page; nowhere what it has lost again, which the pipe
    /// has still.
    fn places_of_file(&self, inode: InodeId, offset: u64, bytes: u64) -> Vec<(Place, u64)> {
        let shift = self.fixed.page_shift;
        let mut parts = Vec::new();
        let mut at = offset;
        while at < offset + bytes {
            let part = self.part_of_page(at, offset + bytes - at);
            let frame = self.paging.frame_of_page(inode, at >> shift);
            let place = frame.map(|frame| (frame << shift) + (at & ((1 << shift) - 1)));
            parts.push((place.map_or(Place::Nowhere, Place::Physical), part));
            at += part;
        }
        parts
    }

    /// Brings pages of a file to the page cache.
    pub(super) fn splice_read(&mut self, inode: InodeId, offset: u64, left: u64) -> Vec<Step> {
        let end = offset.checked_add(left).filter(|_| left > 0);
        let Some(last) = end.map(|end| (end - 1) >> self.fixed.page_shift) else {
            return Vec::new();
        };
        self.paging.keep_inode(inode);
        let lock = self.lock_in_turn(inode, self.fixed.inode_locks.to_read());
        let read = Step::Act(Action::SpliceRead { inode, offset, left, last });
        lock.into_iter().chain([read]).collect()
    }

    /// A copy goes on with as much as its pipe holds (`do_splice_direct`, fs/splice.c).
    pub(super) fn copy_on(&mut self, index: usize, action: Action) {
        let Action::CopyRange { source, source_offset, inode, offset, left } = action else {
            return;
        };
        if left == 0 {
            [source, inode].into_iter().for_each(|inode| self.paging.let_go_of_inode(inode));
            return;
        }
        let part = left.min(PIPE_PAGES << self.fixed.page_shift);
        let there = self.within_file(source, source_offset, part);
        // A file at a time: that which is read, and then that which is written.
        let mut steps = self.splice_read(source, source_offset, there);
        self.paging.keep_inode(inode);
        steps.extend(self.lock_in_turn(inode, self.fixed.inode_locks.to_write()));
        steps.push(Step::Act(Action::CopyWrite {
            inode,
            offset,
            left: part,
            source,
            source_offset,
        }));
        steps.push(Step::Act(Action::CopyRange {
            source,
            source_offset: source_offset.saturating_add(part),
            inode,
            offset: offset.saturating_add(part),
            left: left - part,
        }));
        self.threads[self.contexts[index].thread].do_first(&steps);
    }

    /// What a thread does to change which blocks a file has: it has the file to itself first.
    pub(super) fn allocation_steps(
        &mut self,
        inode: InodeId,
        mode: u64,
        offset: u64,
        length: u64,
    ) -> Vec<Step> {
        let mut steps = path_steps(Stage::FileSystem, self.os.paths.file_system, 1);
        self.paging.keep_inode(inode);
        steps.extend(self.lock_in_turn(inode, self.fixed.inode_locks.to_write()));
        let cleared = false;
        steps.push(Step::Act(Action::Allocate { inode, mode, offset, length, cleared }));
        steps
    }

    /// Of a range that is zeroed the parts of pages at its ends are cleared in the page cache
    /// (`ext4_zero_partial_blocks`), where the file has these pages.
    fn clear_ends(&mut self, inode: InodeId, mode: u64, offset: u64, length: u64) -> Vec<Step> {
        let mut steps = Vec::new();
        let page_bytes = 1u64 << self.fixed.page_shift;
        let end = offset.saturating_add(length);
        let clears = mode & (fallocate::PUNCH_HOLE | fallocate::ZERO_RANGE) != 0;
        let first_end = offset.checked_next_multiple_of(page_bytes).unwrap_or(end).min(end);
        let last_begin = (end / page_bytes * page_bytes).max(first_end);
        for (begin, end) in [(offset, first_end), (last_begin, end)] {
            let left = self.within_file(inode, begin, end.saturating_sub(begin));
            let there = self.paging.has_page(inode, begin >> self.fixed.page_shift);
            if clears && left > 0 && there {
                self.paging.keep_inode(inode);
                // It gives the lock up once more as it ends.
                steps.extend(self.lock_in_turn(inode, self.fixed.inode_locks.to_write()));
                steps.push(Step::Act(Action::SpliceWrite { inode, offset: begin, left }));
            }
        }
        steps
    }

    pub(super) fn act_allocating(
        &mut self,
        index: usize,
        action: Action,
        now_ps: u64,
    ) -> Result<(), MachineError> {
        let Action::Allocate { inode, mode, offset, length, cleared } = action else {
            return Ok(());
        };
        let rest = Action::Allocate { inode, mode, offset, length, cleared: true };
        if !cleared {
            let mut steps = self.clear_ends(inode, mode, offset, length);
            if !steps.is_empty() {
                steps.push(Step::Act(rest));
                self.threads[self.contexts[index].thread].do_first(&steps);
                return Ok(());
            }
        }
        let page_bytes = 1u64 << self.fixed.page_shift;
        let moves = mode & (fallocate::COLLAPSE_RANGE | fallocate::INSERT_RANGE) != 0;
        if moves && self.followed.is_some() {
            return Err(MachineError::BadOperation {
                thread: self.contexts[index].thread as u32,
                reason: "it moves the content of a file (fallocate with FALLOC_FL_COLLAPSE_RANGE or \
                         FALLOC_FL_INSERT_RANGE), of which is not judged what a failure of power leaves"
                    .into(),
            });
        }
        let past = offset.saturating_add(length).div_ceil(page_bytes);
        let pages = offset / page_bytes..if moves { u64::MAX } else { past };
        let mut work = Vec::new();
        let mut wait = self.paging.busy_within(inode, pages.clone());
        if wait.is_none() && moves {
            wait = self.paging.sync(inode, pages, &mut work)?;
            self.apply_effects();
        }
        if let Some(id) = wait {
            self.proceed(index, Next::Wait(id), work, rest, |_| Vec::new());
            return Ok(());
        }
        let gone = self.paging.fallocate(inode, mode, offset, length)?;
        self.apply_effects();
        self.forget_unsynced_pages(inode, &gone);
        self.unlock_inode(index, inode, now_ps);
        self.paging.let_go_of_inode(inode);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_buffers_are_those_of_their_bytes_one_behind_the_other() {
        let buffers: Vec<Buffer> = [(1000, 3), (5000, 0), (2000, 10), (9000, 4)]
            .map(|(address, length)| Buffer { address, length })
            .to_vec();
        let bytes: Vec<u64> = (1000..1003).chain(2000..2010).chain(9000..9004).collect();
        for at in 0..17u64 {
            assert_eq!(place_in(&buffers, at), bytes[at as usize]);
            for length in 0..=17 - at {
                let parts = parts_in(&buffers, at, length);
                let found: Vec<u64> =
                    parts.iter().flat_map(|(address, bytes)| *address..address + bytes).collect();
                assert_eq!(found, bytes[at as usize..(at + length) as usize]);
            }
        }
        assert_eq!(parts_in(&[], 7, 9), [(7, 9)]);
    }
}
