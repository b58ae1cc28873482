//! One reclaim: how many pages of each list are looked at, and what becomes of them (mm/vmscan.c).

use super::super::Evicted;
use super::{
    ACTIVE_ANONYMOUS, ACTIVE_FILE, ActiveInactive, CLUSTER, INACTIVE_ANONYMOUS, INACTIVE_FILE,
    Kind, ListId, Memory, REFERENCED, Reclaimer, WORKINGSET, active, inactive, is_active, kind_of,
};

/// The first of the passes over the lists looks at a 4096th of each (`DEF_PRIORITY`).
const FIRST_PRIORITY: u32 = 12;
/// Weight of a page of a file is what `swappiness` leaves of it (`MAX_SWAPPINESS`).
const MOST_SWAPPINESS: u64 = 200;
const KINDS: [Kind; 2] = [Kind::Anonymous, Kind::File];

/// What a reclaim has found so far (`struct scan_control`).
#[derive(Clone, Debug)]
pub(super) struct Scan {
    who: Reclaimer,
    wanted: u64,
    reclaimed: u64,
    scanned: u64,
    priority: u32,
    /// Whether active pages of a kind may become inactive.
    may_deactivate: [bool; 2],
    force_deactivate: bool,
    skipped_deactivate: bool,
    /// There are many inactive pages of files.
    cache_trim: bool,
    no_cache_trim: bool,
    /// There are hardly any pages of files left.
    file_is_tiny: bool,
}

/// Which kind gives pages.
enum Balance {
    Equal,
    /// Shares of anonymous memory and of files.
    Shares([u64; 2]),
    Only(Kind),
}

/// What became of a folio that was looked at.
enum Fate {
    Gone,
    Writing,
    Kept,
    Activated,
}

impl Scan {
    pub(super) fn new(who: Reclaimer, pages: u64) -> Self {
        Scan {
            who,
            wanted: who.wanted_pages(pages),
            reclaimed: 0,
            scanned: 0,
            priority: FIRST_PRIORITY,
            may_deactivate: [false; 2],
            force_deactivate: false,
            skipped_deactivate: false,
            cache_trim: false,
            no_cache_trim: false,
            file_is_tiny: false,
        }
    }

    pub(super) fn reclaimed(&self) -> u64 {
        self.reclaimed
    }

    pub(super) fn run(&mut self, lists: &mut ActiveInactive, memory: &mut dyn Memory) {
        match self.who {
            Reclaimer::Background { high_pages } => {
                while self.balance(lists, memory, high_pages) {}
            }
            Reclaimer::Direct { .. } | Reclaimer::Group => self.free_some(lists, memory),
        }
    }

    /// `do_try_to_free_pages`.
    fn free_some(&mut self, lists: &mut ActiveInactive, memory: &mut dyn Memory) {
        loop {
            for priority in (0..=FIRST_PRIORITY).rev() {
                self.priority = priority;
                self.pass(lists, memory);
                if self.reclaimed >= self.wanted {
                    return;
                }
            }
            if self.reclaimed > 0 || !self.skipped_deactivate {
                return;
            }
            (self.force_deactivate, self.skipped_deactivate) = (true, false);
        }
    }

    /// One pass of `balance_pgdat`; whether another follows: they look at more only as long as they
    /// find little.
    pub(super) fn balance(
        &mut self,
        lists: &mut ActiveInactive,
        memory: &mut dyn Memory,
        high_pages: u64,
    ) -> bool {
        if memory.free_pages() >= high_pages {
            return false;
        }
        let (reclaimed, scanned) = (self.reclaimed, self.scanned);
        self.pass(lists, memory);
        if self.reclaimed == reclaimed || self.scanned - scanned < self.wanted {
            self.priority -= 1;
        }
        if self.priority == 0 && self.reclaimed == 0 && self.cache_trim {
            // Again, and anonymous memory is looked at as well.
            (self.no_cache_trim, self.priority) = (true, FIRST_PRIORITY);
        }
        memory.free_pages() < high_pages && self.priority >= 1
    }

    /// One pass over all lists (`shrink_node`).
    fn pass(&mut self, lists: &mut ActiveInactive, memory: &mut dyn Memory) {
        self.prepare(lists, memory);
        let targets = self.targets(lists);
        self.shrink_lists(lists, memory, targets);
        if lists.swap && lists.inactive_is_low(Kind::Anonymous) {
            self.deactivate(lists, memory, CLUSTER, ACTIVE_ANONYMOUS);
        }
    }

    /// `prepare_scan_control`.
    fn prepare(&mut self, lists: &ActiveInactive, memory: &dyn Memory) {
        for kind in KINDS {
            let number = kind as usize;
            self.may_deactivate[number] = self.force_deactivate
                || lists.activated[number] != lists.activated_seen[number]
                || lists.inactive_is_low(kind);
        }
        let [inactive_anonymous, _, inactive_file, active_file] = lists.sizes();
        self.cache_trim = inactive_file >> self.priority > 0
            && !self.may_deactivate[Kind::File as usize]
            && !self.no_cache_trim;
        // Only where the whole of memory is short of frames.
        self.file_is_tiny = match self.who {
            Reclaimer::Group => false,
            Reclaimer::Background { high_pages } | Reclaimer::Direct { high_pages } => {
                inactive_file + active_file + memory.free_pages() <= high_pages
                    && !self.may_deactivate[Kind::Anonymous as usize]
                    && inactive_anonymous >> self.priority > 0
            }
        };
    }

    fn balance_of_kinds(&self, lists: &ActiveInactive) -> Balance {
        if !lists.swap || self.who == Reclaimer::Group && lists.swappiness == 0 {
            return Balance::Only(Kind::File);
        }
        if self.priority == 0 && lists.swappiness > 0 {
            return Balance::Equal;
        }
        if self.file_is_tiny {
            return Balance::Only(Kind::Anonymous);
        }
        if self.cache_trim {
            return Balance::Only(Kind::File);
        }
        // Each kind counts for a third at least, whatever it has cost.
        let [anonymous, file] = lists.cost;
        let (anonymous, file) = (anonymous + anonymous + file, file + anonymous + file);
        let total = anonymous + file;
        Balance::Shares([
            lists.swappiness * (total + 1) / (anonymous + 1),
            (MOST_SWAPPINESS - lists.swappiness) * (total + 1) / (file + 1),
        ])
    }

    /// Pages of each list that this pass looks at (`get_scan_count`).
    fn targets(&self, lists: &ActiveInactive) -> [u64; 4] {
        let balance = self.balance_of_kinds(lists);
        let mut targets = lists.sizes().map(|pages| pages >> self.priority);
        for list in [INACTIVE_ANONYMOUS, ACTIVE_ANONYMOUS, INACTIVE_FILE, ACTIVE_FILE] {
            let target = &mut targets[list as usize];
            match balance {
                Balance::Equal => {}
                Balance::Shares(shares) => {
                    let all = shares[0] + shares[1];
                    *target = *target * shares[kind_of(list) as usize] / all.max(1);
                }
                Balance::Only(kind) if kind != kind_of(list) => *target = 0,
                Balance::Only(_) => {}
            }
        }
        targets
    }

    /// `shrink_lruvec`.
    fn shrink_lists(
        &mut self,
        lists: &mut ActiveInactive,
        memory: &mut dyn Memory,
        targets: [u64; 4],
    ) {
        let mut left = targets;
        let to_the_end =
            matches!(self.who, Reclaimer::Direct { .. }) && self.priority == FIRST_PRIORITY;
        let mut reclaimed = 0;
        while left[INACTIVE_ANONYMOUS as usize] > 0
            || left[ACTIVE_FILE as usize] > 0
            || left[INACTIVE_FILE as usize] > 0
        {
            for list in [INACTIVE_ANONYMOUS, ACTIVE_ANONYMOUS, INACTIVE_FILE, ACTIVE_FILE] {
                let pages = left[list as usize].min(CLUSTER);
                if pages > 0 {
                    left[list as usize] -= pages;
                    reclaimed += self.shrink_list(lists, memory, pages, list);
                }
            }
            if reclaimed < self.wanted || to_the_end {
                continue;
            }
            if !nudge(&mut left, &targets) {
                break;
            }
        }
        self.reclaimed += reclaimed;
    }

    fn shrink_list(
        &mut self,
        lists: &mut ActiveInactive,
        memory: &mut dyn Memory,
        pages: u64,
        list: ListId,
    ) -> u64 {
        if !is_active(list) {
            return self.evict(lists, memory, pages, list);
        }
        if self.may_deactivate[kind_of(list) as usize] {
            self.deactivate(lists, memory, pages, list);
        } else {
            self.skipped_deactivate = true;
        }
        0
    }

    /// Active pages become inactive, used or not (`shrink_active_list`).
    fn deactivate(
        &mut self,
        lists: &mut ActiveInactive,
        memory: &mut dyn Memory,
        pages: u64,
        list: ListId,
    ) {
        for (folio, order, flags) in isolate(lists, pages, list) {
            memory.take_references(folio);
            lists.counters.deactivations += 1 << order;
            lists.lists.put(list - 1, true, folio, order, flags | WORKINGSET);
        }
    }

    /// Inactive pages leave, stay, or become active (`shrink_inactive_list`).
    fn evict(
        &mut self,
        lists: &mut ActiveInactive,
        memory: &mut dyn Memory,
        pages: u64,
        list: ListId,
    ) -> u64 {
        let kind = kind_of(list);
        let isolated = isolate(lists, pages, list);
        let (mut scanned, mut reclaimed, mut written) = (0, 0, 0);
        let mut stay = Vec::new();
        // All of them first: the computer that simulates waits for what it knows of several at once.
        let references: Vec<u64> =
            isolated.iter().map(|(folio, ..)| memory.take_references(*folio)).collect();
        for ((folio, order, mut flags), references) in isolated.into_iter().zip(references) {
            let pages = 1 << order;
            scanned += pages;
            match self.fate(lists, memory, (folio, references), &mut flags) {
                Fate::Gone => {
                    lists.age += pages;
                    reclaimed += pages;
                }
                Fate::Writing => {
                    written += pages;
                    stay.push((inactive(kind), folio, order, flags));
                }
                Fate::Kept => stay.push((inactive(kind), folio, order, flags)),
                Fate::Activated => stay.push((active(kind), folio, order, flags)),
            }
        }
        for (list, folio, order, flags) in stay {
            lists.lists.put(list, true, folio, order, flags);
            if is_active(list) {
                lists.counters.activations += 1 << order;
                lists.age += 1 << order;
            }
        }
        lists.counters.scanned_pages += scanned;
        self.scanned += scanned;
        lists.note_cost(kind, written, scanned - reclaimed);
        reclaimed + written
    }

    /// `folio_check_references` and the rest of `shrink_folio_list`, of a folio that was used so often.
    fn fate(
        &self,
        lists: &ActiveInactive,
        memory: &mut dyn Memory,
        (folio, references): (u64, u64),
        flags: &mut u8,
    ) -> Fate {
        let referenced = *flags & REFERENCED != 0;
        *flags &= !REFERENCED;
        if references > 0 {
            *flags |= REFERENCED;
            return if referenced || references > 1 { Fate::Activated } else { Fate::Kept };
        }
        match memory.evict(folio, lists.shadow(*flags)) {
            Evicted::Freed => Fate::Gone,
            Evicted::Writing => Fate::Writing,
            Evicted::Busy => Fate::Kept,
            Evicted::Dirty => Fate::Activated,
        }
    }
}

/// Takes pages off a list's end (`isolate_lru_folios`): each folio with its order and flags.
fn isolate(lists: &mut ActiveInactive, pages: u64, list: ListId) -> Vec<(u64, u8, u8)> {
    let mut isolated = Vec::with_capacity(CLUSTER as usize);
    let mut taken = 0;
    while taken < pages {
        let Some(folio) = lists.lists.tail(list) else { break };
        let Some((order, flags)) = lists.lists.remove(folio) else { break };
        taken += 1 << order;
        isolated.push((folio, order, flags));
    }
    isolated
}

/// Enough has been reclaimed: the kind of which less is left is left alone, and of the other so much
/// is still looked at that both have had the same share. False where nothing is to follow.
fn nudge(left: &mut [u64; 4], targets: &[u64; 4]) -> bool {
    let both = |of: &[u64; 4], kind: usize| of[2 * kind] + of[2 * kind + 1];
    let (anonymous, file) = (both(left, 0), both(left, 1));
    if anonymous == 0 || file == 0 {
        return false;
    }
    let (smaller, larger) = if file > anonymous { (0, 1) } else { (1, 0) };
    let percent = both(left, smaller) * 100 / (both(targets, smaller) + 1);
    for active in 0..2 {
        left[2 * smaller + active] = 0;
        let (target, left) = (targets[2 * larger + active], &mut left[2 * larger + active]);
        let done = target - *left;
        *left = (target * (100 - percent) / 100).saturating_sub(done);
    }
    true
}
