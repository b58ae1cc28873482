//! Doubly linked lists of folios, which hang together through one node for each frame.

use tierscope_kernel::cow::CowVec;

/// A list's number.
pub type ListId = u8;

/// No frame, and no list.
const NONE: u32 = u32::MAX;
const NO_LIST: ListId = ListId::MAX;

/// Set in [`Lists::flags`] by whoever keeps the lists.
pub type Flags = u8;

#[derive(Clone, Copy, Debug)]
struct Node {
    /// Towards the head.
    newer: u32,
    /// Towards the tail.
    older: u32,
    order: u8,
    list: ListId,
    flags: Flags,
}

impl Node {
    const OUT: Node = Node { newer: NONE, older: NONE, order: 0, list: NO_LIST, flags: 0 };
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u32,
    tail: u32,
    pages: u64,
}

/// Some lists of folios, each known by the frame of its first page. A folio is in one list at most.
#[derive(Clone, Debug)]
pub struct Lists<const N: usize> {
    nodes: CowVec<Node>,
    ends: [Ends; N],
}

impl<const N: usize> Lists<N> {
    /// Frames that the lists can tell apart.
    pub const MOST_FRAMES: u64 = NONE as u64;

    /// Empty lists for so many frames.
    pub fn new(frames: u64) -> Self {
        assert!(frames <= Self::MOST_FRAMES, "frames have numbers of 32 bits");
        Lists {
            nodes: CowVec::new(frames, Node::OUT),
            ends: [Ends { head: NONE, tail: NONE, pages: 0 }; N],
        }
    }

    /// Pages in a list.
    #[inline]
    pub fn pages(&self, list: ListId) -> u64 {
        self.ends[list as usize].pages
    }

    /// The list that a folio is in.
    #[inline]
    pub fn list_of(&self, folio: u64) -> Option<ListId> {
        let list = self.nodes.get(folio).list;
        (list != NO_LIST).then_some(list)
    }

    /// Pages of a folio in a list.
    pub fn pages_of(&self, folio: u64) -> u64 {
        1 << self.nodes.get(folio).order
    }

    /// What was noted of a folio in a list.
    #[inline]
    pub fn flags(&self, folio: u64) -> Flags {
        self.nodes.get(folio).flags
    }

    /// Notes something of a folio in a list.
    #[inline]
    pub fn set_flags(&mut self, folio: u64, flags: Flags) {
        self.nodes.get_mut(folio).flags = flags;
    }

    /// The folio at the end from which reclaim takes.
    pub fn tail(&self, list: ListId) -> Option<u64> {
        let tail = self.ends[list as usize].tail;
        (tail != NONE).then_some(u64::from(tail))
    }

    /// Puts a folio that is in no list in front of all others, or behind them.
    pub fn put(&mut self, list: ListId, at_head: bool, folio: u64, order: u8, flags: Flags) {
        debug_assert!(self.list_of(folio).is_none(), "it is in a list");
        let number = folio as u32;
        let ends = &mut self.ends[list as usize];
        let (newer, older) = if at_head {
            (NONE, std::mem::replace(&mut ends.head, number))
        } else {
            (std::mem::replace(&mut ends.tail, number), NONE)
        };
        if older == NONE {
            ends.tail = number;
        }
        if newer == NONE {
            ends.head = number;
        }
        ends.pages += 1 << order;
        *self.nodes.get_mut(folio) = Node { newer, older, order, list, flags };
        self.join(newer, number);
        self.join(number, older);
    }

    fn join(&mut self, newer: u32, older: u32) {
        if newer != NONE {
            self.nodes.get_mut(u64::from(newer)).older = older;
        }
        if older != NONE {
            self.nodes.get_mut(u64::from(older)).newer = newer;
        }
    }

    /// Takes a folio out of its list; its order and flags, if it was in one.
    pub fn remove(&mut self, folio: u64) -> Option<(u8, Flags)> {
        let Node { newer, older, order, list, flags } = self.nodes.get(folio);
        if list == NO_LIST {
            return None;
        }
        let ends = &mut self.ends[list as usize];
        ends.pages -= 1 << order;
        if newer == NONE {
            ends.head = older;
        }
        if older == NONE {
            ends.tail = newer;
        }
        self.join(newer, older);
        *self.nodes.get_mut(folio) = Node::OUT;
        Some((order, flags))
    }

    /// A folio becomes single pages, which stand where it stood: its first page's frame, and those
    /// of the others, which are in no list.
    pub fn split(&mut self, folio: u64, others: &[u64]) {
        debug_assert!(others.iter().all(|frame| self.list_of(*frame).is_none()), "in a list");
        let Node { list, order, flags, mut older, .. } = self.nodes.get(folio);
        if list == NO_LIST {
            return;
        }
        self.nodes.get_mut(folio).order = 0;
        let ends = &mut self.ends[list as usize];
        ends.pages -= 1 << order;
        ends.pages += 1 + others.len() as u64;
        let mut newer = folio as u32;
        if older == NONE
            && let Some(last) = others.last()
        {
            ends.tail = *last as u32;
        }
        for frame in others {
            let number = *frame as u32;
            *self.nodes.get_mut(*frame) = Node { newer, older, order: 0, list, flags };
            self.join(newer, number);
            self.join(number, older);
            newer = number;
            older = self.nodes.get(*frame).older;
        }
    }

    /// Folios of a list, those first that reclaim takes first.
    pub fn tail_first(&self, list: ListId) -> impl Iterator<Item = u64> + '_ {
        std::iter::successors(self.tail(list), |folio| {
            let newer = self.nodes.get(*folio).newer;
            (newer != NONE).then_some(u64::from(newer))
        })
    }

    /// Second lists; the nodes are shared until written.
    pub fn fork(&mut self) -> Self {
        Lists { nodes: self.nodes.fork(), ends: self.ends }
    }
}
