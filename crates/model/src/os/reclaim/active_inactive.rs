//! Reclaim as Linux does it without generations (mm/vmscan.c, mm/swap.c and mm/workingset.c): files and
//! anonymous memory have an active and an inactive list each. As of 6.18 what is used twice becomes
//! active; what comes back soon after it was evicted is active at once; and the cost of what came back
//! says which of the two gives more. What was otherwise in older releases is told where it is.

mod scan;

use super::lists::{Flags, ListId, Lists};
use super::{Kind, Memory, ReclaimCounters, Reclaimer, Shadow};
use crate::os::release::Release;

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

/// How many pages of a kind were looked at of late, and how many of them had been used
/// (`struct zone_reclaim_stat`, include/linux/mmzone.h, until 5.7).
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    scanned: u64,
    rotated: u64,
}

/// The four lists and what balances them.
#[derive(Clone, Debug)]
pub struct ActiveInactive {
    release: Release,
    lists: Lists<4>,
    /// Pages evicted and activated so far (`nonresident_age`).
    age: u64,
    /// What reclaim has cost of late, by kind (`anon_cost`, `file_cost`).
    cost: [u64; 2],
    /// What decides that until 5.7, by kind.
    recent: [Recent; 2],
    /// Pages of each list that are too few to be looked at yet (`nr_saved_scan`, until 2.6.34).
    saved: [u64; 4],
    /// All of a batch were dirty pages of files that nobody writes, and memory is short since (`PGDAT_DIRTY`; 4.9).
    all_dirty: bool,
    /// Refaults that were activated, by kind, and as many as the last reclaim had seen.
    activated: [u64; 2],
    activated_seen: [u64; 2],
    swappiness: u64,
    /// There is somewhere to swap to.
    swap: bool,
    pages_per_gib: u64,
    memory_gib: u64,
    /// What the kernel's thread has found, while it is awake.
    balancing: Option<scan::Scan>,
    /// What has been done.
    pub counters: ReclaimCounters,
}

impl ActiveInactive {
    /// Empty lists for so many frames; `swappiness` is between 0 and 200. Without swap, anonymous
    /// memory stays.
    pub fn new(
        release: Release,
        swappiness: u64,
        swap: bool,
        frames: u64,
        page_bytes: u64,
    ) -> Self {
        let pages_per_gib = ((1 << 30) / page_bytes).max(1);
        ActiveInactive {
            release,
            lists: Lists::new(frames),
            age: 0,
            cost: [0; 2],
            recent: [Recent::default(); 2],
            saved: [0; 4],
            all_dirty: false,
            activated: [0; 2],
            activated_seen: [0; 2],
            swappiness,
            swap,
            pages_per_gib,
            memory_gib: frames / pages_per_gib,
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
                self.recent[kind as usize].rotated += 1;
                if was_active(shadow) {
                    flags = WORKINGSET;
                    self.note_cost(kind, pages, 0);
                }
            }
        }
        self.recent[kind as usize].scanned += 1;
        self.lists.put(list, true, folio, order, flags);
    }

    /// A folio of anonymous memory has never been in swap: until 5.8 it is active.
    pub fn is_new(&mut self, folio: u64) {
        if self.release < Release::V6_18 && self.activate(folio) {
            self.recent[Kind::Anonymous as usize].rotated += 1;
        }
    }

    /// A folio of a file of memory is new: active in 2.6.32 (`add_to_page_cache_lru`, mm/filemap.c),
    /// inactive in 4.9 (`shmem_getpage_gfp`, mm/shmem.c).
    pub fn is_new_of_memory(&mut self, folio: u64) {
        if self.release == Release::V2_6_32 {
            self.is_new(folio);
        }
    }

    /// A fault maps what has come from swap: active from 4.8 to 5.8.
    pub fn comes_from_swap(&mut self, folio: u64) {
        if self.release == Release::V4_9 && self.activate(folio) {
            self.recent[Kind::Anonymous as usize].scanned += 1;
            self.recent[Kind::Anonymous as usize].rotated += 1;
        }
    }

    /// A folio of anonymous memory goes from its inactive list to the active one, if it is there.
    fn activate(&mut self, folio: u64) -> bool {
        let is_inactive = self.lists.list_of(folio) == Some(INACTIVE_ANONYMOUS);
        let removed = is_inactive.then(|| self.lists.remove(folio)).flatten();
        if let Some((order, flags)) = removed {
            self.lists.put(ACTIVE_ANONYMOUS, true, folio, order, flags);
        }
        removed.is_some()
    }

    /// Whether a page was away for no longer than it could have stayed, had it had all of memory
    /// (`workingset_test_recent`). Until 5.8 that is known of files, and it is the active files that
    /// it could have had (`workingset_refault`); until 3.14 it is not known.
    fn is_recent(&self, shadow: Shadow, kind: Kind) -> bool {
        let [inactive_anonymous, active_anonymous, inactive_file, active_file] = self.sizes();
        let away = self.age - evicted_at(shadow);
        match self.release {
            Release::V2_6_32 => return false,
            // Its shadow says when it had gone, not when it went (`workingset_eviction`).
            Release::V4_9 => return kind == Kind::File && away <= active_file + 1,
            Release::V6_18 => {}
        }
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
        away <= workingset
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
            let kind = kind_of(list);
            self.grow_older(kind, pages);
            // One folio, large or small (`update_page_reclaim_stat`).
            let recent = &mut self.recent[kind as usize];
            (recent.scanned, recent.rotated) = (recent.scanned + 1, recent.rotated + 1);
        }
    }

    /// Whether a folio that was to leave, and has been written, leaves: until 6.17 not if it has become active.
    pub fn lets_go(&self, folio: u64) -> bool {
        self.release == Release::V6_18 || !self.lists.list_of(folio).is_some_and(is_active)
    }

    /// A folio has been written that was to leave: it is the next to go.
    pub fn rotate(&mut self, folio: u64) {
        if !self.lets_go(folio) {
            return;
        }
        let Some(list) = self.lists.list_of(folio) else { return };
        if let Some((order, flags)) = self.lists.remove(folio) {
            self.lists.put(inactive(kind_of(list)), false, folio, order, flags);
        }
    }

    /// A folio is inactive, and counts as unused, though not as one that was never active; it is of another kind, where
    /// one is given.
    pub fn make_inactive(&mut self, folio: u64, kind: Option<Kind>) {
        if let Some(list) = self.lists.list_of(folio)
            && let Some((order, flags)) = self.lists.remove(folio)
        {
            let kind = kind.unwrap_or(kind_of(list));
            self.lists.put(inactive(kind), true, folio, order, flags & WORKINGSET);
        }
    }

    /// What would be left of a folio that left now.
    pub fn shadow_of(&self, folio: u64) -> Option<Shadow> {
        self.lists.list_of(folio).map(|_| self.shadow(self.lists.flags(folio)))
    }

    /// So many pages were evicted or activated: until 5.8 those of files count.
    fn grow_older(&mut self, kind: Kind, pages: u64) {
        if self.release == Release::V6_18 || kind == Kind::File {
            self.age += pages;
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

    /// Whether a kind has so few inactive pages that active ones have to follow (`inactive_is_low`). Until
    /// 4.6 files have as many (`inactive_file_is_low`), and of all memory it depends how many others
    /// have (`zone->inactive_ratio`), of a control group of what they are (`calc_inactive_ratio`, mm/memcontrol.c).
    fn inactive_is_low(&self, kind: Kind, who: Reclaimer) -> bool {
        let sizes = self.sizes();
        let (inactive, active) = (sizes[inactive(kind) as usize], sizes[active(kind) as usize]);
        let gib = match (self.release, kind) {
            (Release::V2_6_32, Kind::File) => 0,
            (Release::V2_6_32, Kind::Anonymous) if who != Reclaimer::Group => self.memory_gib,
            _ => (inactive + active) / self.pages_per_gib,
        };
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
        let Some(list) = self.lists.list_of(folio) else { return Shadow::default() };
        let Some((order, flags)) = self.lists.remove(folio) else { return Shadow::default() };
        let shadow = self.shadow(flags);
        self.grow_older(kind_of(list), 1 << order);
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

#[cfg(test)]
mod tests;
