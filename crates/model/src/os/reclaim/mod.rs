//! Reclaim: which pages leave memory when it gets full. It decides; whoever keeps the pages carries
//! it out ([`Memory`]).
//!
//! Pages come and go in folios, each known by the frame of its first page. [`active_inactive`] is
//! what Linux does without generations, [`generations`] what it does with them; [`one_list`] has the
//! replacement policies of text books.

pub mod active_inactive;
pub mod generations;
pub mod lists;
pub mod one_list;

use crate::os::readahead::Pattern;
use crate::os::release::Release;
use active_inactive::ActiveInactive;
use generations::Generations;
use one_list::OneList;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How the kernel chooses the pages that it reclaims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReclaimPolicy {
    /// As Linux without generations: active and inactive lists of files and of anonymous memory,
    /// refault distances, and `swappiness` (mm/vmscan.c, mm/workingset.c, as of Linux 6.18).
    ActiveInactive,
    /// The same as of Linux 4.9, of 2016: anonymous memory is active when it comes, and again as soon as it was
    /// used; of files alone it is known when they left; what of a kind was used again says how much the
    /// kind gives; dirty pages of files wait for the flusher where they are, unless nothing else is found.
    #[serde(rename = "active-inactive-4.9")]
    ActiveInactive49,
    /// The same as of Linux 2.6.32, of 2009: nobody knows what left; whatever was used becomes active, where its file
    /// is mapped; what comes back from swap is inactive; reclaim writes dirty pages of files itself.
    #[serde(rename = "active-inactive-2.6.32")]
    ActiveInactive2632,
    /// As Linux with generations, the multi-generational LRU (CONFIG_LRU_GEN, mm/vmscan.c and
    /// mm/workingset.c, as of Linux 6.18): up to four of files and of anonymous memory, walks of page
    /// tables that find what was used, tiers by uses of file calls, refaults of each, and `swappiness`.
    Generations,
    /// The page used longest ago, whatever it is.
    Lru,
    /// The page that came longest ago, but one that was used since is passed over once.
    Clock,
    /// The page that came longest ago.
    Fifo,
}

impl ReclaimPolicy {
    /// Which Linux without generations it is, if it is one.
    pub(super) fn release(self) -> Option<Release> {
        match self {
            ReclaimPolicy::ActiveInactive2632 => Some(Release::V2_6_32),
            ReclaimPolicy::ActiveInactive49 => Some(Release::V4_9),
            ReclaimPolicy::ActiveInactive => Some(Release::V6_18),
            _ => None,
        }
    }

    /// Whether the kernel's thread wakes the flusher where it finds nothing but dirty pages of files
    /// (`shrink_inactive_list`, since 4.11): before, it writes them itself.
    pub fn thread_wakes_flusher(self) -> bool {
        self.release().is_none_or(|release| release == Release::V6_18)
    }

    /// Whether a use through a mapping counts where the mapping is advised so (`page_referenced_one`, mm/rmap.c):
    /// until 6.2 uses at random do.
    pub fn counts_uses(self, pattern: Pattern) -> bool {
        let is_old = self.release().is_some_and(|release| release < Release::V6_18);
        pattern == Pattern::Normal || is_old && pattern == Pattern::Random
    }

    /// Whether write calls count as uses (`generic_perform_write`, mm/filemap.c, until 4.6).
    pub fn counts_writes(self) -> bool {
        self.release() == Some(Release::V2_6_32)
    }
}

/// What a folio holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Anonymous memory, which goes to swap.
    Anonymous,
    /// A part of a file.
    File,
}

/// What is kept of a page that was evicted: the eviction's age, and whether the page had been active
/// (Linux `pack_shadow`, mm/workingset.c). 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Shadow(pub u64);

/// What came of an attempt to evict a folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// Its frames are free.
    Freed,
    /// It is being written, and its frames are as good as free.
    Writing,
    /// It cannot go now: it is being read or written.
    Busy,
    /// It is being written to leave, for which whoever reclaims for a control group waits (`folio_wait_writeback` in
    /// `shrink_folio_list`, of groups of version 1).
    Awaited,
    /// It must be written first, by others: it is active meanwhile.
    Dirty,
}

/// What is found where accessed bits are taken: in a table of page-table entries, or in a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walked {
    /// The table's number: that of its first page, by the entries of a table.
    pub table: u64,
    /// Pages of mappings that were looked at, with an entry or without.
    pub entries: u64,
    /// Folios whose accessed bits were set, in the order of their pages.
    pub young: Vec<u64>,
}

impl Walked {
    /// Whether each cache line of 8 entries has a page in the mean that was used (`suitable_to_scan`,
    /// mm/vmscan.c).
    pub fn is_dense(&self) -> bool {
        self.young.len() as u64 * 8 >= self.entries
    }
}

/// The memory that reclaim works on. Generations and older releases alone ask for what has a default: of memory
/// without page tables and without writes.
pub trait Memory {
    /// Page-table entries of a folio that have been used since they were last asked for; they are as
    /// unused from now on (Linux `folio_referenced`, mm/rmap.c).
    fn take_references(&mut self, folio: u64) -> u64;
    /// Whether anybody has mapped what the folio is a part of, or swap has a copy of it (Linux 2.6.32
    /// `page_mapping_inuse`, mm/vmscan.c).
    fn is_in_use(&self, _folio: u64) -> bool {
        false
    }
    /// Whether a folio is a file's and dirty.
    fn is_dirty_file(&self, _folio: u64) -> bool {
        false
    }
    /// Whether the hardware holds a translation of the folio.
    fn held(&self, folio: u64) -> bool;
    /// Evicts a folio, which is in no list; of its pages only the shadow is left. A dirty one of a file is
    /// written if reclaim `writes` such, else others have to.
    fn evict(&mut self, folio: u64, shadow: Shadow, writes: bool) -> Evicted;
    /// Free frames, and those on their way to be.
    fn free_pages(&self) -> u64;
    /// Walks page tables, those given or all, and takes the accessed bits; with mappings of anonymous memory
    /// or without (`walk_mm`, mm/vmscan.c).
    fn walk(
        &mut self,
        _tables: Option<&BTreeSet<u64>>,
        _anonymous: bool,
        _visit: &mut dyn FnMut(Walked),
    ) {
    }
    /// Takes the accessed bits around the entry of a folio, of so many entries of one mapping and one table,
    /// but those of folios that are not in any list (`lru_gen_look_around`).
    fn look_around(
        &mut self,
        _folio: u64,
        _entries: u64,
        _listed: &dyn Fn(u64) -> bool,
    ) -> Option<Walked> {
        None
    }
    /// Whether a folio is dirty and a file's, or is being written: then it is the next to go once it has been.
    fn waits_for_write(&mut self, _folio: u64) -> bool {
        false
    }
    /// Whether swap has a copy of a folio, or a place for it.
    fn is_in_swap_cache(&self, _folio: u64) -> bool {
        false
    }
}

/// Who reclaims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaimer {
    /// The kernel's thread, until so many frames are free (`balance_pgdat`).
    Background {
        /// Frames that are to be free afterwards: the high watermark.
        high_pages: u64,
    },
    /// Whoever needs a frame (`try_to_free_pages`).
    Direct {
        /// The high watermark.
        high_pages: u64,
    },
    /// Whoever meets the limit of a control group (`try_to_free_mem_cgroup_pages`).
    Group,
}

impl Reclaimer {
    /// What it wants, of so many pages that are asked for: a batch at least (`SWAP_CLUSTER_MAX`).
    fn wanted_pages(self, asked: u64) -> u64 {
        let wanted = match self {
            Reclaimer::Background { high_pages } => high_pages,
            Reclaimer::Direct { .. } | Reclaimer::Group => asked,
        };
        wanted.max(active_inactive::CLUSTER)
    }
}

counters! {
    /// What reclaim has done, in pages.
    pub struct ReclaimCounters {
        /// Pages looked at on the lists that reclaim takes from.
        pub scanned_pages,
        /// Pages that were read again after they had been reclaimed.
        pub refaults,
        /// Of these, pages that are active at once, because they were away for a short time.
        pub refaults_activated,
        /// Pages that became active.
        pub activations,
        /// Pages that became inactive.
        pub deactivations,
    }
}

/// A policy and what it knows.
#[derive(Clone, Debug)]
pub enum Reclaim {
    /// See [`ReclaimPolicy::ActiveInactive`].
    ActiveInactive(Box<ActiveInactive>),
    /// See [`ReclaimPolicy::Generations`].
    Generations(Box<Generations>),
    /// The others.
    OneList(OneList),
}

macro_rules! either {
    ($self:expr, $policy:ident => $value:expr) => {
        match $self {
            Reclaim::ActiveInactive($policy) => $value,
            Reclaim::Generations($policy) => $value,
            Reclaim::OneList($policy) => $value,
        }
    };
}

impl Reclaim {
    /// An empty memory of so many frames of a size. `swappiness` is between 0 and 200.
    pub fn new(policy: ReclaimPolicy, swappiness: u32, frames: u64, page_bytes: u64) -> Self {
        let swappiness = u64::from(swappiness);
        if let Some(release) = policy.release() {
            let lists = ActiveInactive::new(release, swappiness, true, frames, page_bytes);
            return Reclaim::ActiveInactive(Box::new(lists));
        }
        if policy == ReclaimPolicy::Generations {
            return Reclaim::Generations(Box::new(Generations::new(swappiness, frames)));
        }
        Reclaim::OneList(OneList::new(policy, frames))
    }

    /// One that does nothing, to stand in while another is in use.
    pub fn nothing() -> Self {
        Reclaim::OneList(OneList::new(ReclaimPolicy::Fifo, 0))
    }

    /// A folio comes into memory; with the shadow that its last stay has left. `in_fault` says whether that
    /// is in a fault of a mapping whose uses count (`lru_gen_in_fault`, include/linux/mm_inline.h).
    pub fn add(&mut self, folio: u64, order: u8, kind: Kind, shadow: Shadow, in_fault: bool) {
        match self {
            Reclaim::ActiveInactive(policy) => policy.add(folio, order, kind, shadow),
            Reclaim::Generations(policy) => policy.add(folio, order, kind, shadow, in_fault),
            Reclaim::OneList(policy) => policy.add(folio, order, kind, shadow),
        }
    }

    /// A folio of anonymous memory, added just now, is new: it has never been in swap.
    pub fn is_new(&mut self, folio: u64) {
        if let Reclaim::ActiveInactive(policy) = self {
            policy.is_new(folio);
        }
    }

    /// A folio of a file of memory, added just now, is new.
    pub fn is_new_of_memory(&mut self, folio: u64) {
        if let Reclaim::ActiveInactive(policy) = self {
            policy.is_new_of_memory(folio);
        }
    }

    /// A fault maps a folio of anonymous memory that has come from swap (`do_swap_page`, mm/memory.c).
    pub fn comes_from_swap(&mut self, folio: u64) {
        if let Reclaim::ActiveInactive(policy) = self {
            policy.comes_from_swap(folio);
        }
    }

    /// A folio leaves memory by itself.
    pub fn remove(&mut self, folio: u64) {
        either!(self, policy => policy.remove(folio));
    }

    /// A folio is inactive, as if it had just come, and had not been used (`lru_deactivate_fn`, `lru_deactivate_file_fn`,
    /// mm/swap.c). It is of another kind, where one is given: what is given back of anonymous memory is among files, which go
    /// without being written (`lru_lazyfree`), until it is written again.
    pub fn make_inactive(&mut self, folio: u64, kind: Option<Kind>) {
        match self {
            Reclaim::ActiveInactive(policy) => policy.make_inactive(folio, kind),
            Reclaim::Generations(policy) => policy.make_inactive(folio, kind),
            Reclaim::OneList(_) => {}
        }
    }

    /// A folio is to go at once, whether it was used or not (`reclaim_pages`, mm/vmscan.c).
    pub fn page_out(&mut self, folio: u64, memory: &mut dyn Memory) {
        let shadow = either!(self, policy => policy.shadow_of(folio));
        let Some(shadow) = shadow else { return };
        if memory.evict(folio, shadow, true) == Evicted::Freed {
            self.leave(folio);
        }
    }

    /// A folio becomes single pages: its first, and the others.
    pub fn split(&mut self, folio: u64, others: &[u64]) {
        match self {
            Reclaim::ActiveInactive(policy) => policy.lists_mut().split(folio, others),
            Reclaim::Generations(policy) => policy.split(folio, others),
            Reclaim::OneList(policy) => policy.lists_mut().split(folio, others),
        }
    }

    /// A file call has used a folio (`folio_mark_accessed`, mm/swap.c).
    pub fn mark_accessed(&mut self, folio: u64) {
        either!(self, policy => policy.mark_accessed(folio));
    }

    /// Whether the policy wants to be told of each use, as [`Reclaim::used`].
    #[inline]
    pub fn is_told_of_uses(&self) -> bool {
        matches!(self, Reclaim::OneList(list) if list.policy() == ReclaimPolicy::Lru)
    }

    /// A folio was used, in whatever way.
    pub fn used(&mut self, folio: u64) {
        if let Reclaim::OneList(list) = self {
            list.used(folio);
        }
    }

    /// Whether what was to leave, and has been written, leaves: until 6.17 not what has become active meanwhile
    /// (`rotate_reclaimable_page`, mm/swap.c).
    pub fn lets_go(&self, folio: u64) -> bool {
        match self {
            Reclaim::ActiveInactive(policy) => policy.lets_go(folio),
            _ => true,
        }
    }

    /// What was to leave has been written: it is the next to go (`folio_rotate_reclaimable`,
    /// mm/swap.c).
    pub fn rotate(&mut self, folio: u64) {
        either!(self, policy => policy.rotate(folio));
    }

    /// Reclaims so many pages, if it can; how many, those included that are being written.
    pub fn shrink(&mut self, who: Reclaimer, pages: u64, memory: &mut dyn Memory) -> u64 {
        either!(self, policy => policy.shrink(who, pages, memory))
    }

    /// One pass of the kernel's thread, which wants so many free frames; whether another follows.
    pub fn balance(&mut self, high_pages: u64, memory: &mut dyn Memory) -> bool {
        either!(self, policy => policy.balance(high_pages, memory))
    }

    /// What was to leave has been written, and leaves; what is left of it.
    pub fn leave(&mut self, folio: u64) -> Shadow {
        either!(self, policy => policy.leave(folio))
    }

    /// What has been done.
    pub fn counters(&self) -> ReclaimCounters {
        either!(self, policy => policy.counters)
    }

    /// Pages of files, where the policy tells them from anonymous memory.
    pub fn file_pages(&self) -> Option<u64> {
        match self {
            Reclaim::ActiveInactive(policy) => Some(policy.file_pages()),
            Reclaim::Generations(policy) => Some(policy.pages_of(Kind::File)),
            Reclaim::OneList(_) => None,
        }
    }

    /// Pages of files that are inactive; where the policy does not tell, all that may be.
    pub fn inactive_file_pages(&self) -> u64 {
        match self {
            Reclaim::ActiveInactive(policy) => {
                policy.sizes()[active_inactive::INACTIVE_FILE as usize]
            }
            _ => self.file_pages().unwrap_or_else(|| self.pages()),
        }
    }

    /// Pages in all lists.
    pub fn pages(&self) -> u64 {
        match self {
            Reclaim::ActiveInactive(policy) => policy.sizes().iter().sum(),
            Reclaim::Generations(policy) => {
                policy.pages_of(Kind::Anonymous) + policy.pages_of(Kind::File)
            }
            Reclaim::OneList(policy) => policy.pages(),
        }
    }

    /// A second one.
    pub fn fork(&mut self) -> Self {
        match self {
            Reclaim::ActiveInactive(policy) => Reclaim::ActiveInactive(Box::new(policy.fork())),
            Reclaim::Generations(policy) => Reclaim::Generations(Box::new(policy.fork())),
            Reclaim::OneList(policy) => Reclaim::OneList(policy.fork()),
        }
    }
}

#[cfg(test)]
mod tests;
