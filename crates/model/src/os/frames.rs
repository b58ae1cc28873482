//! Physical frames: who has them.

use super::Allocation;
use crate::os::InodeId;
use tierscope_kernel::cow::CowVec;
use tierscope_kernel::random::Permutation;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Owner {
    /// Nothing.
    #[default]
    Free,
    /// Anonymous memory of this virtual page.
    Anonymous(u64),
    /// A page of a file.
    File(InodeId, u64),
    /// The kernel's own data, page tables included: never reclaimed.
    Kernel,
}

/// What the page cache knows of a page beside its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cached {
    /// Order of the folio that it was read in.
    pub order: u8,
    /// First page of a folio, an access to which starts the next window of readahead.
    pub marked: bool,
    /// Read ahead of need, and not used since.
    pub ahead: bool,
}

/// A frame's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it holds.
    pub owner: Owner,
    /// Virtual page that maps it, or [`Frame::UNMAPPED`]; a second mapping of a file page sets
    /// [`Frame::mapped_twice`].
    pub mapped_at: u64,
    /// A page-table entry that maps it was used since reclaim last asked (the accessed bit).
    pub young: bool,
    /// Its content is newer than the store's.
    pub dirty: bool,
    /// More than one virtual page maps it.
    pub mapped_twice: bool,
    /// Of anonymous memory, virtual pages that map it beside `mapped_at`: other processes'.
    pub sharers: u32,
    /// The transfer in which it takes part, plus 1; 0 for none.
    pub transfer: u32,
    /// The transfer reads from the store: the content is not there yet.
    pub reading: bool,
    /// Swap slot that holds a copy of it, plus 1; 0 for none.
    pub slot: u64,
    /// Reclaim waits until it has been written (`PG_reclaim`).
    pub leaves: bool,
    /// How many hold on to it, because they wait for its content or copy it: until they let go, nobody
    /// else is given the frame (`folio_get`, include/linux/mm.h).
    pub users: u32,
    /// What readahead knows of it.
    pub cached: Cached,
}

impl Frame {
    /// No virtual page maps the frame.
    pub const UNMAPPED: u64 = u64::MAX;

    const FREE: Frame = Frame {
        owner: Owner::Free,
        mapped_at: Frame::UNMAPPED,
        young: false,
        dirty: false,
        mapped_twice: false,
        sharers: 0,
        transfer: 0,
        reading: false,
        slot: 0,
        leaves: false,
        users: 0,
        cached: Cached { order: 0, marked: false, ahead: false },
    };
}

/// All frames of a machine.
#[derive(Clone, Debug)]
pub struct Frames {
    info: CowVec<Frame>,
    total: u64,
    /// The first of them are the kernel's from the start.
    reserved: u64,
    fresh: u64,
    order: Option<Permutation>,
    recycled: Vec<u64>,
    most_used: u64,
    /// Files lie in memory from the start: a page of one is in no frame that had another owner, whose
    /// lines may still be in a cache.
    files_lie_there: bool,
}

impl Frames {
    /// `total` free frames; those of files are new ones as long as there are any, if they lie there.
    pub fn new(total: u64, allocation: Allocation, files_lie_there: bool, seed: u64) -> Self {
        let order = match allocation {
            Allocation::Contiguous => None,
            Allocation::Fragmented => Some(Permutation::new(seed, "frames", total)),
        };
        Frames {
            info: CowVec::new(total, Frame::FREE),
            total,
            reserved: 0,
            fresh: 0,
            order,
            recycled: Vec::new(),
            most_used: 0,
            files_lie_there,
        }
    }

    /// Frames in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Frames that are free now.
    pub fn free(&self) -> u64 {
        self.total - self.fresh + self.recycled.len() as u64
    }

    /// The most that had an owner at once.
    pub fn most_used(&self) -> u64 {
        self.most_used
    }

    /// Whether the frame that is given out next has had no owner yet.
    pub fn next_is_fresh(&self) -> bool {
        self.recycled.is_empty()
    }

    /// A frame's state.
    #[inline]
    pub fn get(&self, frame: u64) -> Frame {
        self.info.get(frame)
    }

    /// A frame's state, to change.
    #[inline]
    pub fn get_mut(&mut self, frame: u64) -> &mut Frame {
        self.info.get_mut(frame)
    }

    /// Gives the kernel frames beside each other, before any other is given out, as it takes them before
    /// its allocator of pages has any (`memblock_alloc`, mm/memblock.c); the first of them. `None` where
    /// there are not so many.
    pub fn reserve(&mut self, frames: u64) -> Option<u64> {
        debug_assert_eq!(self.fresh, self.reserved, "others have been given out");
        let first = self.reserved;
        self.reserved = Some(first + frames).filter(|end| *end <= self.total)?;
        self.fresh = self.reserved;
        self.most_used = self.reserved;
        for frame in first..self.reserved {
            *self.info.get_mut(frame) = Frame { owner: Owner::Kernel, ..Frame::FREE };
        }
        Some(first)
    }

    /// Gives a free frame to an owner.
    pub fn allocate(&mut self, owner: Owner) -> Option<u64> {
        let new_first = self.files_lie_there && matches!(owner, Owner::File(..));
        let frame = if new_first {
            self.take_fresh().or_else(|| self.recycled.pop())
        } else {
            self.recycled.pop().or_else(|| self.take_fresh())
        }?;
        self.most_used = self.most_used.max(self.total - self.free());
        *self.info.get_mut(frame) = Frame { owner, ..Frame::FREE };
        Some(frame)
    }

    fn take_fresh(&mut self) -> Option<u64> {
        if self.fresh == self.total {
            return None;
        }
        self.fresh += 1;
        let next = self.fresh - 1;
        let Some(order) = &self.order else { return Some(next) };
        // What the order says, without the kernel's frames: these are passed over on its cycle.
        let mut frame = order.at(next);
        while frame < self.reserved {
            frame = order.at(frame);
        }
        Some(frame)
    }

    /// Takes a frame back, as soon as nobody holds on to it.
    pub fn release(&mut self, frame: u64) {
        #[cfg(test)]
        assert!(!self.recycled.contains(&frame), "frame {frame} is free already");
        let info = self.info.get_mut(frame);
        *info = Frame { users: info.users, ..Frame::FREE };
        if info.users == 0 {
            self.recycled.push(frame);
        }
    }

    /// Somebody holds on to a frame.
    pub fn keep(&mut self, frame: u64) {
        self.info.get_mut(frame).users += 1;
    }

    /// Somebody lets go of a frame.
    pub fn let_go(&mut self, frame: u64) {
        let info = self.info.get_mut(frame);
        info.users -= 1;
        if *info == Frame::FREE {
            self.recycled.push(frame);
        }
    }

    /// A second one; the states are shared until written.
    pub fn fork(&mut self) -> Self {
        Frames {
            info: self.info.fork(),
            total: self.total,
            reserved: self.reserved,
            fresh: self.fresh,
            order: self.order,
            recycled: self.recycled.clone(),
            most_used: self.most_used,
            files_lie_there: self.files_lie_there,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_lies_in_memory_is_in_no_frame_that_had_another_owner() {
        let mut frames = Frames::new(3, Allocation::Contiguous, true, 1);
        let first = frames.allocate(Owner::Anonymous(0)).unwrap();
        frames.release(first);
        assert_eq!(frames.allocate(Owner::File(1, 0)), Some(1));
        assert_eq!(frames.allocate(Owner::Anonymous(1)), Some(first), "others do not care");
        frames.release(first);
        assert_eq!(frames.allocate(Owner::File(1, 1)), Some(2));
        assert_eq!(frames.allocate(Owner::File(1, 2)), Some(first), "there is no other left");
    }

    #[test]
    fn a_frame_that_somebody_holds_on_to_is_given_to_nobody() {
        let mut frames = Frames::new(1, Allocation::Contiguous, false, 1);
        let frame = frames.allocate(Owner::Anonymous(0)).unwrap();
        frames.keep(frame);
        frames.keep(frame);
        frames.release(frame);
        frames.let_go(frame);
        assert_eq!(frames.allocate(Owner::Anonymous(1)), None);
        frames.let_go(frame);
        assert_eq!(frames.allocate(Owner::Anonymous(1)), Some(frame));
        frames.keep(frame);
        frames.let_go(frame);
        assert_eq!(frames.free(), 0, "it has an owner still");
    }

    #[test]
    fn frames_come_in_ascending_order_when_contiguous() {
        let mut frames = Frames::new(4, Allocation::Contiguous, false, 1);
        let all: Vec<_> = (0..5).map(|i| frames.allocate(Owner::Anonymous(i))).collect();
        assert_eq!(all, [Some(0), Some(1), Some(2), Some(3), None]);
    }

    #[test]
    fn fragmented_frames_are_a_permutation() {
        let mut frames = Frames::new(1000, Allocation::Fragmented, false, 1);
        let mut all: Vec<_> =
            (0..1000).map(|i| frames.allocate(Owner::Anonymous(i)).unwrap()).collect();
        assert_ne!(all, (0..1000).collect::<Vec<u64>>());
        all.sort_unstable();
        assert_eq!(all, (0..1000).collect::<Vec<u64>>());
    }

    #[test]
    fn the_kernels_frames_lie_beside_each_other_however_others_are_given_out() {
        for allocation in [Allocation::Contiguous, Allocation::Fragmented] {
            let mut frames = Frames::new(1000, allocation, false, 1);
            assert_eq!(frames.reserve(600), Some(0));
            assert_eq!((frames.free(), frames.most_used()), (400, 600));
            assert!((0..600).all(|frame| frames.get(frame).owner == Owner::Kernel));
            let mut others: Vec<u64> =
                (0..400).map(|i| frames.allocate(Owner::Anonymous(i)).unwrap()).collect();
            assert_eq!(others.is_sorted(), allocation == Allocation::Contiguous);
            assert_eq!(frames.allocate(Owner::Anonymous(400)), None);
            others.sort_unstable();
            assert_eq!(others, (600..1000).collect::<Vec<u64>>());
        }
        assert_eq!(Frames::new(3, Allocation::Fragmented, false, 1).reserve(4), None);
    }
}
