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

/// A frame's state, in one line of the cache of the computer that simulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
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
    /// Any access to it faults (`PROT_NONE`): the kernel waits for the next one, or moves it to another node.
    pub protected: bool,
    /// Swap slot that holds a copy of it, plus 1; 0 for none.
    pub slot: u64,
    /// Reclaim waits until it has been written (`PG_reclaim`).
    pub leaves: bool,
    /// How many hold on to it, because they wait for its content or copy it: until they let go, nobody
    /// else is given the frame (`folio_get`, include/linux/mm.h).
    pub users: u32,
    /// It is a part of a huge page ([`Frame::head`]).
    pub huge: bool,
    /// It stays in memory (`PG_mlocked`): of a huge page, what its first frame says holds for all.
    pub locked: bool,
    /// Of anonymous memory, the program has given it back, and has not written it since: reclaim drops it (`MADV_FREE`).
    pub lazy: bool,
    /// What readahead knows of it.
    pub cached: Cached,
}

const _: () = assert!(size_of::<Frame>() == 64);

impl Frame {
    /// No virtual page maps the frame.
    pub const UNMAPPED: u64 = u64::MAX;

    /// Frames of a huge page, which begin at a multiple of so many (`HPAGE_PMD_NR`).
    pub const HUGE: u64 = 512;

    /// The frame that stands for what a frame holds: the first of its huge page, if it is a part of one.
    #[inline]
    pub fn head(&self, frame: u64) -> u64 {
        if self.huge { frame & !(Frame::HUGE - 1) } else { frame }
    }

    const FREE: Frame = Frame {
        owner: Owner::Free,
        mapped_at: Frame::UNMAPPED,
        young: false,
        dirty: false,
        mapped_twice: false,
        sharers: 0,
        transfer: 0,
        reading: false,
        protected: false,
        slot: 0,
        leaves: false,
        users: 0,
        huge: false,
        locked: false,
        lazy: false,
        cached: Cached { order: 0, marked: false, ahead: false },
    };
}

/// A node: frames beside each other of one memory.
#[derive(Clone, Debug)]
struct Node {
    first: u64,
    total: u64,
    /// The first of them are the kernel's from the start.
    reserved: u64,
    fresh: u64,
    order: Option<Permutation>,
    recycled: Vec<u64>,
    /// Where huge pages may be wanted: which frames are free beside each other.
    blocks: Option<Box<Blocks>>,
}

/// Free frames of a node by blocks of as many as a huge page has. As the buddy allocator does (mm/page_alloc.c), what
/// is free as a whole is given out to pages last.
#[derive(Clone, Debug)]
struct Blocks {
    /// Frames of each block that were given back and are free.
    free: Vec<u16>,
    /// Blocks that are free as a whole; none of their frames counts as recycled.
    whole: Vec<u64>,
    is_whole: Vec<bool>,
    /// Entries of recycled frames that are none: they belong to a block that was whole, or are there again.
    stale: u64,
}

impl Blocks {
    fn of(first: u64, total: u64) -> Blocks {
        let past = (first + total).div_ceil(Frame::HUGE) as usize;
        Blocks { free: vec![0; past], whole: Vec::new(), is_whole: vec![false; past], stale: 0 }
    }
}

/// All frames of a machine, on one node or on two.
#[derive(Clone, Debug)]
pub struct Frames {
    info: CowVec<Frame>,
    total: u64,
    nodes: Vec<Node>,
    most_used: u64,
    /// Files lie in memory from the start: a page of one is in no frame that had another owner, whose
    /// lines may still be in a cache.
    files_lie_there: bool,
}

impl Node {
    fn new(first: u64, total: u64, allocation: Allocation, seed: u64) -> Self {
        let order = match allocation {
            Allocation::Contiguous => None,
            Allocation::Fragmented => Some(Permutation::new(seed, "frames", total)),
        };
        Node { first, total, reserved: 0, fresh: 0, order, recycled: Vec::new(), blocks: None }
    }

    fn free(&self) -> u64 {
        let recycled = self.recycled.len() as u64;
        let recycled = self.blocks.as_ref().map_or(recycled, |blocks| {
            recycled - blocks.stale + blocks.whole.len() as u64 * Frame::HUGE
        });
        self.total - self.fresh + recycled
    }

    /// A frame that was given back, of blocks that are not free as a whole if there is any.
    fn take_recycled(&mut self, is_free: impl Fn(u64) -> bool) -> Option<u64> {
        let Some(blocks) = &mut self.blocks else { return self.recycled.pop() };
        loop {
            let Some(frame) = self.recycled.pop() else {
                let block = blocks.whole.pop()?;
                blocks.is_whole[block as usize] = false;
                let first = block * Frame::HUGE;
                self.recycled.extend((first..first + Frame::HUGE).rev());
                continue;
            };
            let block = (frame / Frame::HUGE) as usize;
            if is_free(frame) && !blocks.is_whole[block] {
                blocks.free[block] -= 1;
                return Some(frame);
            }
            blocks.stale -= 1;
        }
    }

    /// A frame is free again.
    fn recycle(&mut self, frame: u64) {
        self.recycled.push(frame);
        let Some(blocks) = &mut self.blocks else { return };
        let block = (frame / Frame::HUGE) as usize;
        blocks.free[block] += 1;
        if u64::from(blocks.free[block]) == Frame::HUGE {
            blocks.is_whole[block] = true;
            blocks.whole.push(block as u64);
            blocks.stale += Frame::HUGE;
        }
    }

    /// The first frame of a block that is free as a whole; one that nobody has had yet if such `are_free`.
    fn take_block(&mut self, fresh_are_free: bool) -> Option<u64> {
        let blocks = self.blocks.as_mut()?;
        if let Some(block) = blocks.whole.pop() {
            blocks.is_whole[block as usize] = false;
            blocks.free[block as usize] = 0;
            return Some(block * Frame::HUGE);
        }
        let start = (self.first + self.fresh).next_multiple_of(Frame::HUGE);
        let is_there = start + Frame::HUGE <= self.first + self.total;
        if self.order.is_some() || !fresh_are_free || !is_there {
            return None;
        }
        for frame in (self.first + self.fresh..start).rev() {
            self.recycle(frame);
        }
        self.fresh = start + Frame::HUGE - self.first;
        Some(start)
    }

    /// Drops entries that are none, once they are many.
    fn drop_stale(&mut self, is_free: impl Fn(u64) -> bool) {
        let Some(blocks) = self.blocks.as_mut().filter(|blocks| blocks.stale > self.total) else {
            return;
        };
        let mut seen = std::collections::BTreeSet::new();
        let is_one = |frame: &u64| {
            is_free(*frame)
                && !blocks.is_whole[(*frame / Frame::HUGE) as usize]
                && seen.insert(*frame)
        };
        let mut kept: Vec<u64> = self.recycled.iter().rev().copied().filter(is_one).collect();
        kept.reverse();
        self.recycled = kept;
        blocks.stale = 0;
    }

    fn take_fresh(&mut self) -> Option<u64> {
        if self.fresh == self.total {
            return None;
        }
        self.fresh += 1;
        let next = self.fresh - 1;
        let Some(order) = &self.order else { return Some(self.first + next) };
        // What the order says, without the kernel's frames: these are passed over on its cycle.
        let mut frame = order.at(next);
        while frame < self.reserved {
            frame = order.at(frame);
        }
        Some(self.first + frame)
    }
}

impl Frames {
    /// `total` free frames; those of files are new ones as long as there are any, if they lie there.
    pub fn new(total: u64, allocation: Allocation, files_lie_there: bool, seed: u64) -> Self {
        Frames {
            info: CowVec::new(total, Frame::FREE),
            total,
            nodes: vec![Node::new(0, total, allocation, seed)],
            most_used: 0,
            files_lie_there,
        }
    }

    /// The same frames on two nodes, of which the first has `near`; none has been given out.
    pub fn split(&mut self, near: u64, allocation: Allocation, seed: u64) {
        debug_assert_eq!(self.most_used, 0, "frames have been given out");
        let far = Node::new(near, self.total - near, allocation, seed);
        self.nodes = vec![Node::new(0, near, allocation, seed), far];
    }

    /// Frames are told apart by blocks from now on, so that huge pages can be had; none has been given out.
    pub fn keep_blocks(&mut self) {
        debug_assert_eq!(self.most_used, 0, "frames have been given out");
        for node in &mut self.nodes {
            node.blocks = Some(Box::new(Blocks::of(node.first, node.total)));
        }
    }

    /// Gives the frames of a huge page to anonymous memory from a virtual page on, which lie beside each other; the
    /// first. `None` where no such frames are free, of which those that nobody has had yet are if `fresh_are_free`.
    pub fn allocate_huge(&mut self, page: u64, fresh_are_free: bool) -> Option<u64> {
        let (node, info) = (&mut self.nodes[0], &self.info);
        node.drop_stale(|frame| info.get(frame) == Frame::FREE);
        let first = node.take_block(fresh_are_free)?;
        self.most_used = self.most_used.max(self.total - self.free());
        for nth in 0..Frame::HUGE {
            let owner = Owner::Anonymous(page + nth);
            *self.info.get_mut(first + nth) =
                Frame { owner, mapped_at: page + nth, huge: true, ..Frame::FREE };
        }
        Some(first)
    }

    /// Frames in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Frames that are free now.
    pub fn free(&self) -> u64 {
        self.nodes.iter().map(Node::free).sum()
    }

    /// Frames of a node that are free now.
    pub fn free_on(&self, node: usize) -> u64 {
        self.nodes[node].free()
    }

    /// Frames of a node that were not the kernel's from the start.
    pub fn managed_on(&self, node: usize) -> u64 {
        self.nodes[node].total - self.nodes[node].reserved
    }

    /// The node that a frame is on.
    #[inline]
    pub fn node_of(&self, frame: u64) -> usize {
        usize::from(self.nodes.len() > 1 && frame >= self.nodes[1].first)
    }

    /// The most that had an owner at once.
    pub fn most_used(&self) -> u64 {
        self.most_used
    }

    /// Whether the frame that is given out next has had no owner yet.
    pub fn next_is_fresh(&self) -> bool {
        let node = &self.nodes[0];
        match &node.blocks {
            None => node.recycled.is_empty(),
            Some(_) => node.free() == node.total - node.fresh,
        }
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

    /// Gives the kernel frames beside each other, of the first node, before any other is given out, as it
    /// takes them before its allocator of pages has any (`memblock_alloc`, mm/memblock.c); the first of
    /// them. `None` where there are not so many.
    pub fn reserve(&mut self, frames: u64) -> Option<u64> {
        let node = &mut self.nodes[0];
        debug_assert_eq!(node.fresh, node.reserved, "others have been given out");
        let first = node.reserved;
        node.reserved = Some(first + frames).filter(|end| *end <= node.total)?;
        node.fresh = node.reserved;
        self.most_used = node.reserved;
        for frame in first..first + frames {
            *self.info.get_mut(frame) = Frame { owner: Owner::Kernel, ..Frame::FREE };
        }
        Some(first)
    }

    /// Gives a free frame to an owner, of the first node.
    pub fn allocate(&mut self, owner: Owner) -> Option<u64> {
        self.allocate_on(0, owner)
    }

    /// Gives a free frame of a node to an owner.
    pub fn allocate_on(&mut self, node: usize, owner: Owner) -> Option<u64> {
        let new_first = self.files_lie_there && matches!(owner, Owner::File(..));
        let node = &mut self.nodes[node];
        let info = &self.info;
        let is_free = |frame| info.get(frame) == Frame::FREE;
        let frame = if new_first {
            node.take_fresh().or_else(|| node.take_recycled(is_free))
        } else {
            node.take_recycled(is_free).or_else(|| node.take_fresh())
        }?;
        self.most_used = self.most_used.max(self.total - self.free());
        *self.info.get_mut(frame) = Frame { owner, ..Frame::FREE };
        Some(frame)
    }

    /// Takes a frame back, as soon as nobody holds on to it.
    pub fn release(&mut self, frame: u64) {
        #[cfg(test)]
        assert!(
            self.get(frame) != Frame::FREE
                || self.nodes.iter().all(|node| !node.recycled.contains(&frame)),
            "frame {frame} is free already"
        );
        let info = self.info.get_mut(frame);
        *info = Frame { users: info.users, ..Frame::FREE };
        if info.users == 0 {
            self.recycle(frame);
        }
    }

    fn recycle(&mut self, frame: u64) {
        let node = self.node_of(frame);
        self.nodes[node].recycle(frame);
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
            self.recycle(frame);
        }
    }

    /// A second one; the states are shared until written.
    pub fn fork(&mut self) -> Self {
        Frames { info: self.info.fork(), nodes: self.nodes.clone(), ..*self }
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
    fn a_huge_page_has_frames_beside_each_other_and_single_pages_leave_them_whole() {
        const HUGE: u64 = Frame::HUGE;
        let mut frames = Frames::new(4 * HUGE, Allocation::Contiguous, false, 1);
        frames.keep_blocks();
        let one = |frames: &mut Frames| frames.allocate(Owner::Kernel);
        assert_eq!(one(&mut frames), Some(0));
        assert_eq!(frames.allocate_huge(7 * HUGE, true), Some(HUGE));
        let info = frames.get(HUGE + 5);
        assert_eq!((info.owner, info.mapped_at), (Owner::Anonymous(7 * HUGE + 5), 7 * HUGE + 5));
        assert_eq!((info.head(HUGE + 5), frames.get(0).head(0)), (HUGE, 0));
        assert_eq!(frames.free(), 3 * HUGE - 1);
        assert_eq!(one(&mut frames), Some(1), "what was passed over comes first");
        assert_eq!(frames.allocate_huge(0, false), None, "nobody has given one back");
        assert_eq!(frames.allocate_huge(0, true), Some(2 * HUGE));
        (HUGE..2 * HUGE).for_each(|frame| frames.release(frame));
        frames.release(1);
        assert_eq!(frames.free(), 3 * HUGE - 1);
        assert_eq!(one(&mut frames), Some(1), "not of what is free as a whole");
        assert_eq!(frames.allocate_huge(0, false), Some(HUGE));
        (HUGE..2 * HUGE).for_each(|frame| frames.release(frame));
        let all: Vec<u64> = std::iter::from_fn(|| one(&mut frames)).collect();
        let expected = (2..2 * HUGE).chain(3 * HUGE..4 * HUGE);
        assert_eq!(all, expected.collect::<Vec<_>>(), "all are had, once");
        assert_eq!((frames.free(), frames.allocate_huge(0, true)), (0, None));
    }

    proptest::proptest! {
        /// Nobody has what another has, and what is free can be had.
        #[test]
        fn frames_of_blocks_are_had_once(
            steps in proptest::collection::vec((0u8..4, 0usize..10_000), 1..400)
        ) {
            const HUGE: u64 = Frame::HUGE;
            let total = 5 * HUGE + 7;
            let mut frames = Frames::new(total, Allocation::Contiguous, false, 1);
            frames.keep_blocks();
            let mut had = Vec::new();
            for (what, number) in steps {
                match what {
                    0 => had.extend((0..number % 700).filter_map(|_| frames.allocate(Owner::Kernel))),
                    1 => had.extend(frames.allocate_huge(0, true).map_or(0..0, |at| at..at + HUGE)),
                    2 if !had.is_empty() => {
                        (0..number % 700).for_each(|_| {
                            if !had.is_empty() {
                                frames.release(had.swap_remove(number % had.len()));
                            }
                        });
                    }
                    _ => {
                        had.sort_unstable();
                        let from = had.len().saturating_sub(number % 1200);
                        had.drain(from..).for_each(|frame| frames.release(frame));
                    }
                }
                let each: std::collections::BTreeSet<u64> = had.iter().copied().collect();
                proptest::prop_assert_eq!(each.len(), had.len());
                proptest::prop_assert_eq!(frames.free(), total - had.len() as u64);
            }
            let left = std::iter::from_fn(|| frames.allocate(Owner::Kernel)).count();
            proptest::prop_assert_eq!(left + had.len(), total as usize);
        }
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
    fn each_of_two_nodes_gives_out_its_own_frames_and_takes_them_back() {
        for allocation in [Allocation::Contiguous, Allocation::Fragmented] {
            let mut frames = Frames::new(100, allocation, false, 1);
            frames.split(40, allocation, 1);
            assert_eq!(frames.reserve(10), Some(0));
            assert_eq!((frames.free_on(0), frames.free_on(1), frames.free()), (30, 60, 90));
            let owner = Owner::Anonymous(7);
            let near: Vec<u64> = (0..30).filter_map(|_| frames.allocate(owner)).collect();
            assert_eq!(frames.allocate(owner), None, "the other node is asked by itself");
            let far: Vec<u64> = (0..60).filter_map(|_| frames.allocate_on(1, owner)).collect();
            assert!(
                near.iter().all(|frame| (10..40).contains(frame) && frames.node_of(*frame) == 0)
            );
            assert!(
                far.iter().all(|frame| (40..100).contains(frame) && frames.node_of(*frame) == 1)
            );
            frames.release(far[5]);
            assert_eq!((frames.free_on(0), frames.free_on(1)), (0, 1));
            assert_eq!(frames.allocate_on(1, owner), Some(far[5]));
        }
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
