//! Policies that keep all pages in one order: LRU, CLOCK and FIFO.

use super::active_inactive::CLUSTER;
use super::lists::Lists;
use super::{Evicted, Kind, Memory, ReclaimCounters, ReclaimPolicy, Reclaimer, Shadow};

/// Folios that a policy passes over because the hardware holds a translation of them, at most in one
/// go: a TLB may hold all that is in memory.
const MOST_HELD: u64 = 64;

/// One list of folios.
#[derive(Clone, Debug)]
pub struct OneList {
    policy: ReclaimPolicy,
    lists: Lists<1>,
    /// What has been done.
    pub counters: ReclaimCounters,
}

impl OneList {
    /// An empty list for so many frames.
    pub fn new(policy: ReclaimPolicy, frames: u64) -> Self {
        OneList { policy, lists: Lists::new(frames), counters: ReclaimCounters::default() }
    }

    /// The order that is kept.
    #[inline]
    pub fn policy(&self) -> ReclaimPolicy {
        self.policy
    }

    /// Pages in the list.
    pub fn pages(&self) -> u64 {
        self.lists.pages(0)
    }

    pub(super) fn lists_mut(&mut self) -> &mut Lists<1> {
        &mut self.lists
    }

    /// A folio comes into memory.
    pub fn add(&mut self, folio: u64, order: u8, _: Kind, shadow: Shadow) {
        if shadow != Shadow::default() {
            self.counters.refaults += 1 << order;
        }
        self.lists.put(0, true, folio, order, 0);
    }

    /// A folio leaves memory by itself.
    pub fn remove(&mut self, folio: u64) {
        self.lists.remove(folio);
    }

    /// A file call has used a folio.
    pub fn mark_accessed(&mut self, folio: u64) {
        match self.policy {
            ReclaimPolicy::Lru => self.used(folio),
            ReclaimPolicy::Clock => self.lists.set_flags(folio, 1),
            _ => {}
        }
    }

    /// A folio was used.
    pub fn used(&mut self, folio: u64) {
        self.put_again(folio, true, self.policy == ReclaimPolicy::Lru);
    }

    fn put_again(&mut self, folio: u64, at_head: bool, wanted: bool) {
        if wanted && let Some((order, flags)) = self.lists.remove(folio) {
            self.lists.put(0, at_head, folio, order, flags);
        }
    }

    /// A folio is the next to go.
    pub fn rotate(&mut self, folio: u64) {
        self.put_again(folio, false, true);
    }

    /// Reclaims so many pages, if it can. Each folio is looked at twice at most.
    pub fn shrink(&mut self, who: Reclaimer, pages: u64, memory: &mut dyn Memory) -> u64 {
        let (mut taken, mut scanned, mut held) = (0, 0, 0);
        let most = 2 * self.pages();
        let done = |taken: u64, memory: &dyn Memory| match who {
            Reclaimer::Background { high_pages } => memory.free_pages() >= high_pages,
            _ => taken >= pages,
        };
        while scanned < most && !done(taken, memory) {
            let Some(folio) = self.lists.tail(0) else { break };
            let Some((order, flags)) = self.lists.remove(folio) else { break };
            scanned += 1 << order;
            let spared = match self.policy {
                ReclaimPolicy::Lru => held < MOST_HELD && memory.held(folio),
                ReclaimPolicy::Clock => memory.take_references(folio) > 0 || flags != 0,
                _ => false,
            };
            held += u64::from(spared);
            // That it was evicted is all that is kept of it.
            let evicted = if spared { Evicted::Busy } else { memory.evict(folio, Shadow(1), true) };
            if matches!(evicted, Evicted::Freed | Evicted::Writing) {
                taken += 1 << order;
            }
            if evicted != Evicted::Freed {
                self.lists.put(0, true, folio, order, 0);
            }
        }
        self.counters.scanned_pages += scanned;
        taken
    }

    /// One go of the kernel's thread, which wants so many free frames; whether another follows.
    pub fn balance(&mut self, high_pages: u64, memory: &mut dyn Memory) -> bool {
        memory.free_pages() < high_pages
            && self.shrink(Reclaimer::Group, CLUSTER, memory) > 0
            && memory.free_pages() < high_pages
    }

    /// A folio has been written that was to leave, and leaves. That it was evicted is all that is kept.
    pub fn leave(&mut self, folio: u64) -> Shadow {
        self.lists.remove(folio);
        Shadow(1)
    }

    /// What would be left of a folio that left now.
    pub fn shadow_of(&self, folio: u64) -> Option<Shadow> {
        self.lists.list_of(folio).map(|_| Shadow(1))
    }

    /// A second one.
    pub fn fork(&mut self) -> Self {
        OneList { policy: self.policy, lists: self.lists.fork(), counters: self.counters }
    }
}
