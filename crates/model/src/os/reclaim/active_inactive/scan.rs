//! One reclaim: how many pages of each list are looked at, and what becomes of them (mm/vmscan.c).

use super::super::Evicted;
use super::{
    ACTIVE_ANONYMOUS, ACTIVE_FILE, ActiveInactive, CLUSTER, INACTIVE_ANONYMOUS, INACTIVE_FILE,
    Kind, ListId, Memory, REFERENCED, Reclaimer, Release, WORKINGSET, active, inactive, is_active,
    kind_of,
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
    /// A pass over them alone found nothing.
    cache_trim_failed: bool,
    no_cache_trim: bool,
    /// There are hardly any pages of files left.
    file_is_tiny: bool,
    /// Pages reclaimed since the first of these passes (2.6.32).
    reclaimed_before: u64,
    /// What is being written has to be waited for: nothing more is looked at.
    waits: bool,
}

/// Which kind gives pages.
enum Balance {
    Equal,
    /// Shares of anonymous memory and of files, in so many parts.
    Shares {
        shares: [u64; 2],
        parts: u64,
    },
    Only(Kind),
}

impl Balance {
    /// What each kind gives, of what is to be looked at of each list.
    fn weigh(&self, targets: &mut [u64; 4]) {
        for list in [INACTIVE_ANONYMOUS, ACTIVE_ANONYMOUS, INACTIVE_FILE, ACTIVE_FILE] {
            let target = &mut targets[list as usize];
            match *self {
                Balance::Equal => {}
                Balance::Shares { shares, parts } => {
                    *target = *target * shares[kind_of(list) as usize] / parts;
                }
                Balance::Only(kind) if kind != kind_of(list) => *target = 0,
                Balance::Only(_) => {}
            }
        }
    }
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
            cache_trim_failed: false,
            no_cache_trim: false,
            file_is_tiny: false,
            reclaimed_before: 0,
            waits: false,
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
                if self.reclaimed >= self.wanted || self.waits {
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
        if lists.release == Release::V2_6_32 {
            return self.balance_by_batches(lists, memory, high_pages);
        }
        if memory.free_pages() >= high_pages {
            lists.all_dirty = false;
            return false;
        }
        if lists.release == Release::V4_9 {
            self.age_anonymous(lists, memory);
        }
        let (reclaimed, scanned) = (self.reclaimed, self.scanned);
        self.pass(lists, memory);
        if self.reclaimed == reclaimed || self.scanned - scanned < self.wanted {
            self.priority -= 1;
        }
        self.cache_trim_failed |= self.cache_trim && self.reclaimed == reclaimed;
        let goes_on = lists.release == Release::V6_18 && !self.no_cache_trim;
        if goes_on && self.priority == 0 && self.reclaimed == 0 && self.cache_trim_failed {
            // Again, and anonymous memory is looked at as well.
            (self.no_cache_trim, self.priority) = (true, FIRST_PRIORITY);
        }
        let is_short = memory.free_pages() < high_pages;
        lists.all_dirty &= is_short;
        is_short && self.priority >= 1
    }

    /// One pass of `balance_pgdat` of 2.6.32: a batch that was found begins again with the first of
    /// the passes, and so does having looked at all without enough. Anonymous memory ages before it is asked how many
    /// frames are free, and so once more in the end.
    fn balance_by_batches(
        &mut self,
        lists: &mut ActiveInactive,
        memory: &mut dyn Memory,
        high_pages: u64,
    ) -> bool {
        self.age_anonymous(lists, memory);
        if memory.free_pages() >= high_pages {
            return false;
        }
        self.wanted = CLUSTER;
        self.pass(lists, memory);
        let found = self.reclaimed - self.reclaimed_before;
        if found >= CLUSTER || (self.priority == 0 && found > 0) {
            (self.priority, self.reclaimed_before) = (FIRST_PRIORITY, self.reclaimed);
        } else if self.priority == 0 {
            return false;
        } else {
            self.priority -= 1;
        }
        let is_short = memory.free_pages() < high_pages;
        if !is_short {
            self.age_anonymous(lists, memory);
        }
        is_short
    }

    /// One pass over all lists (`shrink_node`).
    fn pass(&mut self, lists: &mut ActiveInactive, memory: &mut dyn Memory) {
        self.prepare(lists, memory);
        let targets = self.targets(lists);
        if lists.release == Release::V2_6_32 {
            self.shrink_lists_evenly(lists, memory, targets);
        } else {
            self.shrink_lists(lists, memory, targets);
        }
        self.age_anonymous(lists, memory);
    }

    /// Some active anonymous memory becomes inactive where little is, whatever is reclaimed (`shrink_lruvec`; before a
    /// pass of the kernel's thread, too: `age_active_anon`, 2.6.32 and 4.9).
    fn age_anonymous(&mut self, lists: &mut ActiveInactive, memory: &mut dyn Memory) {
        if lists.swap && lists.inactive_is_low(Kind::Anonymous, self.who) {
            self.deactivate(lists, memory, CLUSTER, ACTIVE_ANONYMOUS);
        }
    }

    /// `prepare_scan_control`.
    fn prepare(&mut self, lists: &ActiveInactive, memory: &dyn Memory) {
        for kind in KINDS {
            let number = kind as usize;
            // What has come back makes it so since 4.12.
            let came_back = lists.release == Release::V6_18
                && lists.activated[number] != lists.activated_seen[number];
            self.may_deactivate[number] =
                self.force_deactivate || came_back || lists.inactive_is_low(kind, self.who);
        }
        let [inactive_anonymous, _, inactive_file, active_file] = lists.sizes();
        self.cache_trim = lists.release > Release::V2_6_32
            && inactive_file >> self.priority > 0
            && !self.may_deactivate[Kind::File as usize]
            && !self.no_cache_trim;
        // Only where the whole of memory is short of frames.
        self.file_is_tiny = match self.who {
            Reclaimer::Group => false,
            Reclaimer::Background { high_pages } | Reclaimer::Direct { high_pages } => {
                inactive_file + active_file + memory.free_pages() <= high_pages
                    && (lists.release < Release::V6_18
                        || !self.may_deactivate[Kind::Anonymous as usize]
                            && inactive_anonymous >> self.priority > 0)
            }
        };
    }

    fn balance_of_kinds(&self, lists: &mut ActiveInactive) -> Balance {
        let by_group = self.who == Reclaimer::Group && lists.release > Release::V2_6_32;
        if !lists.swap || by_group && lists.swappiness == 0 {
            return Balance::Only(Kind::File);
        }
        let is_last = self.priority == 0;
        if is_last && lists.release == Release::V2_6_32 && !self.file_is_tiny {
            // The shares are not asked for, but what they come of fades.
            lists.shares_by_use();
        }
        if is_last && (lists.swappiness > 0 || lists.release == Release::V2_6_32) {
            return Balance::Equal;
        }
        if self.file_is_tiny {
            return Balance::Only(Kind::Anonymous);
        }
        if self.cache_trim {
            return Balance::Only(Kind::File);
        }
        if lists.release < Release::V6_18 {
            return lists.shares_by_use();
        }
        // Each kind counts for a third at least, whatever it has cost.
        let [anonymous, file] = lists.cost;
        let (anonymous, file) = (anonymous + anonymous + file, file + anonymous + file);
        let total = anonymous + file;
        let shares = [
            lists.swappiness * (total + 1) / (anonymous + 1),
            (MOST_SWAPPINESS - lists.swappiness) * (total + 1) / (file + 1),
        ];
        Balance::Shares { shares, parts: shares.iter().sum::<u64>().max(1) }
    }

    /// Pages of each list that this pass looks at (`get_scan_count`).
    fn targets(&self, lists: &mut ActiveInactive) -> [u64; 4] {
        let balance = self.balance_of_kinds(lists);
        let mut targets = lists.sizes().map(|pages| pages >> self.priority);
        balance.weigh(&mut targets);
        if lists.release == Release::V4_9
            && self.who == Reclaimer::Group
            && targets.iter().all(|pages| *pages == 0)
        {
            // Of a small group a batch of each list, rather than nothing (`force_scan`).
            targets = lists.sizes().map(|pages| match pages >> self.priority {
                0 => pages.min(CLUSTER),
                pages => pages,
            });
            balance.weigh(&mut targets);
        }
        targets
    }

    /// `shrink_zone` of 2.6.32: each list is looked at in whole batches, what is less waits for the next
    /// pass (`nr_scan_try_batch`); none is preferred once enough was found.
    fn shrink_lists_evenly(
        &mut self,
        lists: &mut ActiveInactive,
        memory: &mut dyn Memory,
        targets: [u64; 4],
    ) {
        let mut left = [0; 4];
        for (list, target) in targets.into_iter().enumerate() {
            let saved = lists.saved[list] + target;
            (left[list], lists.saved[list]) =
                if saved >= CLUSTER { (saved, 0) } else { (0, saved) };
        }
        let in_background = matches!(self.who, Reclaimer::Background { .. });
        while is_left(&left) {
            self.reclaimed += self.take_turns(lists, memory, &mut left);
            if self.reclaimed > CLUSTER && self.priority < FIRST_PRIORITY && !in_background {
                break;
            }
        }
    }

    /// `shrink_lruvec`.
    fn shrink_lists(
        &mut self,
        lists: &mut ActiveInactive,
        memory: &mut dyn Memory,
        targets: [u64; 4],
    ) {
        let mut left = targets;
        let mut to_the_end =
            matches!(self.who, Reclaimer::Direct { .. }) && self.priority == FIRST_PRIORITY;
        let mut reclaimed = 0;
        while is_left(&left) {
            reclaimed += self.take_turns(lists, memory, &mut left);
            if reclaimed < self.wanted || to_the_end {
                continue;
            }
            if !nudge(&mut left, &targets) {
                break;
            }
            // Until 6.0 what is left after that is looked at, whatever was found (`scan_adjusted`).
            to_the_end = lists.release < Release::V6_18;
        }
        self.reclaimed += reclaimed;
    }

    /// A batch of each list of which something is left to look at; how many pages were reclaimed.
    fn take_turns(
        &mut self,
        lists: &mut ActiveInactive,
        memory: &mut dyn Memory,
        left: &mut [u64; 4],
    ) -> u64 {
        let mut reclaimed = 0;
        for list in [INACTIVE_ANONYMOUS, ACTIVE_ANONYMOUS, INACTIVE_FILE, ACTIVE_FILE] {
            let pages = left[list as usize].min(CLUSTER);
            if self.waits {
                *left = [0; 4];
            } else if pages > 0 {
                left[list as usize] -= pages;
                reclaimed += self.shrink_list(lists, memory, pages, list);
            }
        }
        reclaimed
    }

    fn shrink_list(
        &mut self,
        lists: &mut ActiveInactive,
        memory: &mut dyn Memory,
        pages: u64,
        list: ListId,
    ) -> u64 {
        let kind = kind_of(list);
        let may = is_active(list)
            && match lists.release {
                Release::V6_18 => self.may_deactivate[kind as usize],
                _ => lists.inactive_is_low(kind, self.who),
            };
        if may {
            self.deactivate(lists, memory, pages, list);
            return 0;
        }
        match lists.release {
            Release::V2_6_32 => self.evict_batches(lists, memory, pages, inactive(kind)),
            _ if !is_active(list) => self.evict(lists, memory, pages, list),
            release => {
                self.skipped_deactivate = release == Release::V6_18;
                0
            }
        }
    }

    /// `shrink_inactive_list` of 2.6.32: whole batches, until so many pages have been looked at. Also in the turn of an
    /// active list that is to stay as it is (`shrink_list`).
    fn evict_batches(
        &mut self,
        lists: &mut ActiveInactive,
        memory: &mut dyn Memory,
        pages: u64,
        list: ListId,
    ) -> u64 {
        let enough = self.scanned + pages;
        let mut reclaimed = 0;
        while self.scanned < enough {
            let scanned = self.scanned;
            reclaimed += self.evict(lists, memory, CLUSTER, list);
            if self.scanned == scanned {
                break;
            }
        }
        reclaimed
    }

    /// Active pages become inactive, used or not (`shrink_active_list`). What is in use loses in 2.6.32 that a
    /// call has used it, which counts as a use here (`page_referenced`).
    fn deactivate(
        &mut self,
        lists: &mut ActiveInactive,
        memory: &mut dyn Memory,
        pages: u64,
        list: ListId,
    ) {
        let isolated = isolate(lists, pages, list);
        let references = take_references(&isolated, memory);
        for ((folio, order, flags), references) in isolated.into_iter().zip(references) {
            let mut used = references > 0;
            let mut flags = flags | WORKINGSET;
            let asks = lists.release == Release::V2_6_32 && flags & REFERENCED != 0;
            if asks && memory.is_in_use(folio) {
                (used, flags) = (true, flags & !REFERENCED);
            }
            let recent = &mut lists.recent[kind_of(list) as usize];
            recent.scanned += 1 << order;
            recent.rotated += u64::from(used) << order;
            lists.counters.deactivations += 1 << order;
            lists.lists.put(list - 1, true, folio, order, flags);
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
        let (mut scanned, mut reclaimed, mut written, mut dirty) = (0, 0, 0, 0);
        let mut not_counted = 0;
        // Whoever reclaims for a control group of version 1 does not (`sane_reclaim`).
        let notes_dirty =
            lists.release == Release::V4_9 && kind == Kind::File && self.who != Reclaimer::Group;
        let mut stay = Vec::new();
        let references = take_references(&isolated, memory);
        for ((folio, order, mut flags), references) in isolated.into_iter().zip(references) {
            let pages = 1 << order;
            scanned += pages;
            if notes_dirty && memory.is_dirty_file(folio) {
                dirty += pages;
            }
            match self.fate(lists, memory, (folio, kind, references), &mut flags) {
                Fate::Gone => {
                    lists.grow_older(kind, pages);
                    reclaimed += pages;
                }
                Fate::Writing => {
                    written += pages;
                    // What is written is reclaimed once it has been, and the passes go on meanwhile. Of pages it
                    // counts here, which the kernel has done with sooner; of huge pages it is much at once.
                    if order > 0 && self.who == Reclaimer::Group {
                        not_counted += pages;
                    }
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
                lists.recent[kind as usize].rotated += 1 << order;
                if lists.release == Release::V6_18 {
                    lists.age += 1 << order;
                }
            }
        }
        lists.all_dirty |= dirty > 0 && dirty == scanned;
        lists.recent[kind as usize].scanned += scanned;
        lists.counters.scanned_pages += scanned;
        self.scanned += scanned;
        lists.note_cost(kind, written, scanned - reclaimed);
        reclaimed + written - not_counted
    }

    /// `folio_check_references` and the rest of `shrink_folio_list`, of a folio of a kind that was used so often.
    fn fate(
        &mut self,
        lists: &ActiveInactive,
        memory: &mut dyn Memory,
        (folio, kind, references): (u64, Kind, u64),
        flags: &mut u8,
    ) -> Fate {
        let referenced = *flags & REFERENCED != 0;
        *flags &= !REFERENCED;
        if lists.release == Release::V2_6_32 {
            // `page_referenced` tells uses by page tables and by calls in one.
            let used = references > 0 || referenced;
            if used && (references > 0 || memory.is_in_use(folio)) {
                return Fate::Activated;
            }
            // Without a copy in swap anonymous memory, which is tmpfs's then, is dirty.
            if used && (kind == Kind::Anonymous || memory.is_dirty_file(folio)) {
                return Fate::Kept;
            }
        } else if references > 0 {
            // Until 5.8 anonymous memory needs no second use.
            if lists.release == Release::V4_9 && kind == Kind::Anonymous {
                return Fate::Activated;
            }
            *flags |= REFERENCED;
            let again = referenced || references > 1;
            return if again { Fate::Activated } else { Fate::Kept };
        }
        let writes = match lists.release {
            Release::V2_6_32 => true,
            // The kernel's thread, where it finds nothing else, and not what a call has used (`PAGEREF_RECLAIM_CLEAN`).
            Release::V4_9 => {
                let in_background = matches!(self.who, Reclaimer::Background { .. });
                in_background && lists.all_dirty && !referenced
            }
            Release::V6_18 => false,
        };
        match memory.evict(folio, lists.shadow(*flags), writes) {
            Evicted::Freed => Fate::Gone,
            Evicted::Writing => Fate::Writing,
            // Out of the way, on the active list, since 4.11.
            Evicted::Dirty if lists.release == Release::V6_18 => Fate::Activated,
            Evicted::Awaited => {
                self.waits = true;
                Fate::Kept
            }
            Evicted::Busy | Evicted::Dirty => Fate::Kept,
        }
    }
}

impl ActiveInactive {
    /// What both kinds give by what of them was used again (`get_scan_count` until 5.7, `get_scan_ratio`).
    fn shares_by_use(&mut self) -> Balance {
        let [inactive_anonymous, active_anonymous, inactive_file, active_file] = self.sizes();
        let pages = [inactive_anonymous + active_anonymous, inactive_file + active_file];
        let plus = u64::from(self.release == Release::V2_6_32);
        let weights = [self.swappiness, MOST_SWAPPINESS - self.swappiness];
        let mut shares = [0; 2];
        for kind in KINDS {
            let kind = kind as usize;
            let recent = &mut self.recent[kind];
            if recent.scanned > pages[kind] / 4 {
                (recent.scanned, recent.rotated) = (recent.scanned / 2, recent.rotated / 2);
            }
            shares[kind] = (weights[kind] + plus) * (recent.scanned + 1) / (recent.rotated + 1);
        }
        let parts = shares[0] + shares[1] + 1;
        if self.release == Release::V2_6_32 {
            let percent = 100 * shares[0] / parts;
            return Balance::Shares { shares: [percent, 100 - percent], parts: 100 };
        }
        Balance::Shares { shares, parts }
    }
}

/// Whether something is left to look at: active pages of anonymous memory alone are none.
fn is_left(left: &[u64; 4]) -> bool {
    [INACTIVE_ANONYMOUS, INACTIVE_FILE, ACTIVE_FILE].iter().any(|list| left[*list as usize] > 0)
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

/// How often each of some folios was used. All of them first: the computer that simulates waits for what it knows of
/// several at once.
fn take_references(isolated: &[(u64, u8, u8)], memory: &mut dyn Memory) -> Vec<u64> {
    isolated.iter().map(|(folio, ..)| memory.take_references(*folio)).collect()
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
