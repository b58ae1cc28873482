//! Reclaim as Linux does it without generations (mm/vmscan.c, mm/swap.c and mm/workingset.c, as of
//! 6.18): files and anonymous memory have an active and an inactive list each; what is used twice
//! becomes active; what comes back soon after it was evicted is active at once; and the cost of what
//! came back says which of the two gives more.

mod scan;

use super::lists::{Flags, ListId, Lists};
use super::{Kind, Memory, ReclaimCounters, Reclaimer, Shadow};

/// Pages looked at in one go (`SWAP_CLUSTER_MAX`, include/linux/swap.h).
pub const CLUSTER: u64 = 32;

/// The lists, in the order in which Linux visits them (`enum lru_list`, include/linux/mmzone.h).
pub const INACTIVE_ANONYMOUS: ListId = 0;
/// See [`INACTIVE_ANONYMOUS`].
pub const ACTIVE_ANONYMOUS: ListId = 1;
/// See [`INACTIVE_ANONYMOUS`].
pub const INACTIVE_FILE: ListId = 2;
/// See [`INACTIVE_ANONYMOUS`].
pub const ACTIVE_FILE: ListId = 3;

/// Used once since it became inactive (`PG_referenced`).
const REFERENCED: Flags = 1;
/// Was active before (`PG_workingset`).
const WORKINGSET: Flags = 2;

fn is_active(list: ListId) -> bool {
    list & 1 != 0
}

fn kind_of(list: ListId) -> Kind {
    if list < INACTIVE_FILE { Kind::Anonymous } else { Kind::File }
}

fn inactive(kind: Kind) -> ListId {
    match kind {
        Kind::Anonymous => INACTIVE_ANONYMOUS,
        Kind::File => INACTIVE_FILE,
    }
}

fn active(kind: Kind) -> ListId {
    inactive(kind) + 1
}

/// The four lists and what balances them.
#[derive(Clone, Debug)]
pub struct ActiveInactive {
    lists: Lists<4>,
    /// Pages evicted and activated so far (`nonresident_age`).
    age: u64,
    /// What reclaim has cost of late, by kind (`anon_cost`, `file_cost`).
    cost: [u64; 2],
    /// Refaults that were activated, by kind, and as many as the last reclaim had seen.
    activated: [u64; 2],
    activated_seen: [u64; 2],
    swappiness: u64,
    /// There is somewhere to swap to.
    swap: bool,
    pages_per_gib: u64,
    /// What the kernel's thread has found, while it is awake.
    balancing: Option<scan::Scan>,
    /// What has been done.
    pub counters: ReclaimCounters,
}

impl ActiveInactive {
    /// Empty lists for so many frames; `swappiness` is between 0 and 200. Without swap, anonymous
    /// memory stays.
    pub fn new(swappiness: u64, swap: bool, frames: u64, page_bytes: u64) -> Self {
        ActiveInactive {
            lists: Lists::new(frames),
            age: 0,
            cost: [0; 2],
            activated: [0; 2],
            activated_seen: [0; 2],
            swappiness,
            swap,
            pages_per_gib: ((1 << 30) / page_bytes).max(1),
            balancing: None,
            counters: ReclaimCounters::default(),
        }
    }

    /// Pages of each list, in the order of their numbers.
    pub fn sizes(&self) -> [u64; 4] {
        [0, 1, 2, 3].map(|list| self.lists.pages(list))
    }

    /// Pages of files.
    pub fn file_pages(&self) -> u64 {
        self.lists.pages(INACTIVE_FILE) + self.lists.pages(ACTIVE_FILE)
    }

    pub(super) fn lists_mut(&mut self) -> &mut Lists<4> {
        &mut self.lists
    }

    /// Folios of a list, those first that reclaim takes first.
    pub fn tail_first(&self, list: ListId) -> impl Iterator<Item = u64> + '_ {
        self.lists.tail_first(list)
    }

    /// A folio comes into memory (`folio_add_lru`); with the shadow of its last stay, that is a refault
    /// (`workingset_refault`).
    pub fn add(&mut self, folio: u64, order: u8, kind: Kind, shadow: Shadow) {
        let (mut list, mut flags) = (inactive(kind), 0);
        let pages = 1 << order;
        if shadow != Shadow::default() {
            self.counters.refaults += pages;
            if self.is_recent(shadow, kind) {
                list = active(kind);
                self.age += pages;
                self.activated[kind as usize] += pages;
                self.counters.refaults_activated += pages;
                if was_active(shadow) {
                    flags = WORKINGSET;
                    self.note_cost(kind, pages, 0);
                }
            }
        }
        self.lists.put(list, true, folio, order, flags);
    }

    /// Whether a page was away for no longer than it could have stayed, had it had all of memory
    /// (`workingset_test_recent`).
    fn is_recent(&self, shadow: Shadow, kind: Kind) -> bool {
        let [inactive_anonymous, active_anonymous, inactive_file, active_file] = self.sizes();
        let mut workingset = active_file;
        if kind == Kind::Anonymous {
            workingset += inactive_file;
        }
        if self.swap {
            workingset += active_anonymous;
            if kind == Kind::File {
                workingset += inactive_anonymous;
            }
        }
        self.age - evicted_at(shadow) <= workingset
    }

    /// A folio leaves memory by itself.
    pub fn remove(&mut self, folio: u64) {
        self.lists.remove(folio);
    }

    /// A file call has used a folio: the second time it becomes active (`folio_mark_accessed`).
    pub fn mark_accessed(&mut self, folio: u64) {
        let Some(list) = self.lists.list_of(folio) else { return };
        let flags = self.lists.flags(folio);
        if flags & REFERENCED == 0 {
            self.lists.set_flags(folio, flags | REFERENCED);
        } else if !is_active(list)
            && let Some((order, flags)) = self.lists.remove(folio)
        {
            let pages = 1 << order;
            self.lists.put(list + 1, true, folio, order, flags & !REFERENCED);
            self.counters.activations += pages;
            self.age += pages;
        }
    }

    /// A folio has been written that was to leave: it is the next to go.
    pub fn rotate(&mut self, folio: u64) {
        let Some(list) = self.lists.list_of(folio) else { return };
        if let Some((order, flags)) = self.lists.remove(folio) {
            self.lists.put(inactive(kind_of(list)), false, folio, order, flags);
        }
    }

    /// What reclaim of a kind has cost: reads and writes, and pages looked at in vain
    /// (`lru_note_cost`).
    fn note_cost(&mut self, kind: Kind, transfers: u64, in_vain: u64) {
        let cost = transfers * CLUSTER + in_vain;
        if cost == 0 {
            return;
        }
        self.cost[kind as usize] += cost;
        let pages: u64 = self.sizes().iter().sum();
        if self.cost.iter().sum::<u64>() > pages / 4 {
            self.cost = self.cost.map(|cost| cost / 2);
        }
    }

    /// The shadow of a folio that is evicted now (`workingset_eviction`); its pages count as age once
    /// it has gone.
    fn shadow(&self, flags: Flags) -> Shadow {
        Shadow((self.age + 1) << 1 | u64::from(flags & WORKINGSET != 0))
    }

    /// Whether a kind has so few inactive pages that active ones have to follow (`inactive_is_low`).
    fn inactive_is_low(&self, kind: Kind) -> bool {
        let sizes = self.sizes();
        let (inactive, active) = (sizes[inactive(kind) as usize], sizes[active(kind) as usize]);
        let gib = (inactive + active) / self.pages_per_gib;
        let ratio = if gib > 0 { (10 * gib).isqrt() } else { 1 };
        inactive * ratio < active
    }

    /// Reclaims so many pages, if it can; how many, those included that are being written.
    pub fn shrink(&mut self, who: Reclaimer, pages: u64, memory: &mut dyn Memory) -> u64 {
        let mut scan = scan::Scan::new(who, pages);
        scan.run(self, memory);
        self.activated_seen = self.activated;
        scan.reclaimed()
    }

    /// One pass of the kernel's thread (`balance_pgdat`), which wants so many free frames; whether
    /// another follows.
    pub fn balance(&mut self, high_pages: u64, memory: &mut dyn Memory) -> bool {
        let who = Reclaimer::Background { high_pages };
        let mut scan = self.balancing.take().unwrap_or_else(|| scan::Scan::new(who, 0));
        let goes_on = scan.balance(self, memory, high_pages);
        if goes_on {
            self.balancing = Some(scan);
        } else {
            self.activated_seen = self.activated;
        }
        goes_on
    }

    /// A folio has been written that was to leave, and leaves: as one that [`Memory::evict`] evicts.
    pub fn leave(&mut self, folio: u64) -> Shadow {
        let Some((order, flags)) = self.lists.remove(folio) else { return Shadow::default() };
        let shadow = self.shadow(flags);
        self.age += 1 << order;
        shadow
    }

    /// A second one; the nodes are shared until written.
    pub fn fork(&mut self) -> Self {
        ActiveInactive { lists: self.lists.fork(), balancing: self.balancing.clone(), ..*self }
    }
}

/// Shadows begin at 1: 0 is none.
fn evicted_at(shadow: Shadow) -> u64 {
    (shadow.0 >> 1) - 1
}

fn was_active(shadow: Shadow) -> bool {
    shadow.0 & 1 != 0
}
