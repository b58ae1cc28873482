//! The lists as queues in which all is searched, as mm/vmscan.c, mm/workingset.c and mm/swap.c of each release have them:
//! no links between frames, no flags in bits, and sizes counted when they are asked for.

use super::super::super::{Evicted, Kind, Memory, ReclaimCounters, Reclaimer, Shadow};
use crate::os::release::Release;
use std::collections::VecDeque;

const SWAP_CLUSTER_MAX: u64 = 32;
const DEF_PRIORITY: u32 = 12;

const ANONYMOUS: usize = 0;
const FILE: usize = 1;
const INACTIVE: usize = 0;
const ACTIVE: usize = 1;

/// A number for each list: by kind, of inactive pages and of active ones.
type ByList = [[u64; 2]; 2];

#[derive(Clone, Copy, Debug)]
struct Folio {
    number: u64,
    pages: u64,
    /// `PG_referenced` and `PG_workingset`.
    referenced: bool,
    workingset: bool,
}

/// `struct scan_control`.
struct Control {
    who: Reclaimer,
    priority: u32,
    to_reclaim: u64,
    reclaimed: u64,
    scanned: u64,
    may_deactivate: [bool; 2],
    force_deactivate: bool,
    skipped_deactivate: bool,
    cache_trim_mode: bool,
    cache_trim_mode_failed: bool,
    no_cache_trim_mode: bool,
    file_is_tiny: bool,
    /// Pages reclaimed since `loop_again` of `balance_pgdat` (2.6.32).
    reclaimed_in_loop: u64,
    /// It met what the group waits for.
    waits: bool,
}

impl Control {
    fn new(who: Reclaimer, pages: u64) -> Control {
        let to_reclaim = match who {
            Reclaimer::Background { high_pages } => high_pages,
            _ => pages,
        };
        Control {
            who,
            priority: DEF_PRIORITY,
            to_reclaim: to_reclaim.max(SWAP_CLUSTER_MAX),
            reclaimed: 0,
            scanned: 0,
            may_deactivate: [false; 2],
            force_deactivate: false,
            skipped_deactivate: false,
            cache_trim_mode: false,
            cache_trim_mode_failed: false,
            no_cache_trim_mode: false,
            file_is_tiny: false,
            reclaimed_in_loop: 0,
            waits: false,
        }
    }

    fn is_kswapd(&self) -> bool {
        matches!(self.who, Reclaimer::Background { .. })
    }

    fn is_group(&self) -> bool {
        self.who == Reclaimer::Group
    }
}

pub struct Naive {
    release: Release,
    swappiness: u64,
    swap: bool,
    page_bytes: u64,
    memory_bytes: u64,
    /// By kind, inactive pages and active ones; the next to go first.
    lists: [[VecDeque<Folio>; 2]; 2],
    nonresident_age: u64,
    /// `anon_cost` and `file_cost`.
    pub cost: [u64; 2],
    /// `recent_scanned` and `recent_rotated`, by kind.
    pub recent_scanned: [u64; 2],
    pub recent_rotated: [u64; 2],
    saved_scan: ByList,
    /// `PGDAT_DIRTY`.
    pgdat_dirty: bool,
    /// `WORKINGSET_ACTIVATE` of both kinds, and what `snapshot_refaults` saw of it.
    workingset_activate: [u64; 2],
    refaults: [u64; 2],
    kswapd: Option<Control>,
    pub counters: ReclaimCounters,
}

impl Naive {
    pub fn new(
        release: Release,
        swappiness: u64,
        swap: bool,
        frames: u64,
        page_bytes: u64,
    ) -> Naive {
        Naive {
            release,
            swappiness,
            swap,
            page_bytes,
            memory_bytes: frames * page_bytes,
            lists: Default::default(),
            nonresident_age: 0,
            cost: [0; 2],
            recent_scanned: [0; 2],
            recent_rotated: [0; 2],
            saved_scan: [[0; 2]; 2],
            pgdat_dirty: false,
            workingset_activate: [0; 2],
            refaults: [0; 2],
            kswapd: None,
            counters: ReclaimCounters::default(),
        }
    }

    /// The folios of a list, the next to go first: number, pages, and both flags.
    pub fn list(&self, kind: Kind, active: bool) -> Vec<(u64, u64, bool, bool)> {
        let all = self.lists[kind as usize][usize::from(active)].iter();
        all.map(|folio| (folio.number, folio.pages, folio.referenced, folio.workingset)).collect()
    }

    fn size(&self, kind: usize, activity: usize) -> u64 {
        self.lists[kind][activity].iter().map(|folio| folio.pages).sum()
    }

    fn size_of_kind(&self, kind: usize) -> u64 {
        self.size(kind, INACTIVE) + self.size(kind, ACTIVE)
    }

    /// Kind, list and place of a folio.
    fn find(&self, number: u64) -> Option<(usize, usize, usize)> {
        for kind in [ANONYMOUS, FILE] {
            for activity in [INACTIVE, ACTIVE] {
                let mut all = self.lists[kind][activity].iter();
                if let Some(place) = all.position(|folio| folio.number == number) {
                    return Some((kind, activity, place));
                }
            }
        }
        None
    }

    fn take(&mut self, number: u64) -> Option<(usize, usize, Folio)> {
        let (kind, activity, place) = self.find(number)?;
        let folio = self.lists[kind][activity].remove(place)?;
        Some((kind, activity, folio))
    }

    // What happens to pages between reclaims (mm/swap.c, mm/workingset.c).

    pub fn add(&mut self, number: u64, order: u8, kind: Kind, shadow: Shadow) {
        let kind = kind as usize;
        let mut folio = Folio { number, pages: 1 << order, referenced: false, workingset: false };
        let mut activity = INACTIVE;
        if shadow != Shadow(0) {
            self.counters.refaults += folio.pages;
            if self.was_away_shortly(shadow, kind) {
                activity = ACTIVE;
                self.nonresident_age += folio.pages;
                self.workingset_activate[kind] += folio.pages;
                self.counters.refaults_activated += folio.pages;
                folio.workingset = shadow.0 % 2 == 1;
                if folio.workingset {
                    self.note_cost(kind, folio.pages, 0);
                }
            }
        }
        self.update_reclaim_stat(kind, activity == ACTIVE);
        self.lists[kind][activity].push_back(folio);
    }

    /// `workingset_refault`: whether the page would have stayed in a memory that had as many pages more as were its
    /// to win.
    fn was_away_shortly(&self, shadow: Shadow, kind: usize) -> bool {
        let age_at_eviction = shadow.0 / 2 - 1;
        let distance = self.nonresident_age - age_at_eviction;
        let [[inactive_anonymous, active_anonymous], [inactive_file, active_file]] =
            [0, 1].map(|kind| [0, 1].map(|activity| self.size(kind, activity)));
        match self.release {
            Release::V2_6_32 => false,
            // Of files alone; the page had counted itself when the shadow was made.
            Release::V4_9 => kind == FILE && distance - 1 <= active_file,
            Release::V6_18 => {
                let others = match (kind, self.swap) {
                    (ANONYMOUS, true) => active_file + inactive_file + active_anonymous,
                    (ANONYMOUS, false) => active_file + inactive_file,
                    (_, true) => active_file + active_anonymous + inactive_anonymous,
                    (_, false) => active_file,
                };
                distance <= others
            }
        }
    }

    /// `update_page_reclaim_stat`, for each page that an entry of a page vector is, large or small.
    fn update_reclaim_stat(&mut self, kind: usize, rotated: bool) {
        self.recent_scanned[kind] += 1;
        self.recent_rotated[kind] += u64::from(rotated);
    }

    /// `lru_note_cost`.
    fn note_cost(&mut self, kind: usize, transfers: u64, rotated: u64) {
        let cost = transfers * SWAP_CLUSTER_MAX + rotated;
        if cost > 0 {
            self.cost[kind] += cost;
            let pages = self.size_of_kind(ANONYMOUS) + self.size_of_kind(FILE);
            if self.cost[ANONYMOUS] + self.cost[FILE] > pages / 4 {
                self.cost = [self.cost[ANONYMOUS] / 2, self.cost[FILE] / 2];
            }
        }
    }

    /// New anonymous memory begins on the active list until 5.8, so that it is told of the statistics once, as active.
    pub fn is_new(&mut self, number: u64) {
        if self.release != Release::V6_18 && self.activate_anonymous(number) {
            self.recent_rotated[ANONYMOUS] += 1;
        }
    }

    pub fn is_new_of_memory(&mut self, number: u64) {
        if self.release == Release::V2_6_32 {
            self.is_new(number);
        }
    }

    /// `do_swap_page` of 4.9 calls `activate_page`, of what was told of the statistics as inactive.
    pub fn comes_from_swap(&mut self, number: u64) {
        if self.release == Release::V4_9 && self.activate_anonymous(number) {
            self.update_reclaim_stat(ANONYMOUS, true);
        }
    }

    fn activate_anonymous(&mut self, number: u64) -> bool {
        if !matches!(self.find(number), Some((ANONYMOUS, INACTIVE, _))) {
            return false;
        }
        let (_, _, folio) = self.take(number).unwrap();
        self.lists[ANONYMOUS][ACTIVE].push_back(folio);
        true
    }

    pub fn remove(&mut self, number: u64) {
        self.take(number);
    }

    /// `folio_mark_accessed`.
    pub fn mark_accessed(&mut self, number: u64) {
        let Some((kind, activity, place)) = self.find(number) else { return };
        let folio = &mut self.lists[kind][activity][place];
        if !folio.referenced {
            folio.referenced = true;
        } else if activity == INACTIVE {
            let (_, _, mut folio) = self.take(number).unwrap();
            folio.referenced = false;
            self.lists[kind][ACTIVE].push_back(folio);
            self.update_reclaim_stat(kind, true);
            self.counters.activations += folio.pages;
            if self.counts_age(kind) {
                self.nonresident_age += folio.pages;
            }
        }
    }

    /// `workingset_activation` and `workingset_eviction` see files alone until 5.8.
    fn counts_age(&self, kind: usize) -> bool {
        self.release == Release::V6_18 || kind == FILE
    }

    pub fn make_inactive(&mut self, number: u64, other: Option<Kind>) {
        if let Some((kind, _, mut folio)) = self.take(number) {
            let kind = other.map_or(kind, |kind| kind as usize);
            folio.referenced = false;
            self.lists[kind][INACTIVE].push_back(folio);
        }
    }

    /// The first page stands where the folio stood, the others before it, so that they go sooner, the last first.
    pub fn split(&mut self, number: u64) {
        let Some((kind, activity, place)) = self.find(number) else { return };
        let folio = self.lists[kind][activity].remove(place).unwrap();
        for page in 0..folio.pages {
            let single = Folio { number: number + page, pages: 1, ..folio };
            self.lists[kind][activity].insert(place, single);
        }
    }

    pub fn lets_go(&self, number: u64) -> bool {
        let is_active = matches!(self.find(number), Some((_, ACTIVE, _)));
        self.release == Release::V6_18 || !is_active
    }

    /// `folio_rotate_reclaimable`.
    pub fn rotate(&mut self, number: u64) {
        if self.lets_go(number)
            && let Some((kind, _, folio)) = self.take(number)
        {
            self.lists[kind][INACTIVE].push_front(folio);
        }
    }

    /// `reclaim_pages`.
    pub fn page_out(&mut self, number: u64, memory: &mut dyn Memory) {
        let Some((kind, activity, place)) = self.find(number) else { return };
        let folio = self.lists[kind][activity][place];
        if memory.evict(number, self.shadow(&folio), true) == Evicted::Freed {
            self.leave(number);
        }
    }

    pub fn leave(&mut self, number: u64) -> Shadow {
        let Some((kind, _, folio)) = self.take(number) else { return Shadow(0) };
        let shadow = self.shadow(&folio);
        self.count_eviction(kind, &folio);
        shadow
    }

    fn count_eviction(&mut self, kind: usize, folio: &Folio) {
        if self.counts_age(kind) {
            self.nonresident_age += folio.pages;
        }
    }

    fn shadow(&self, folio: &Folio) -> Shadow {
        Shadow(2 * (self.nonresident_age + 1) + u64::from(folio.workingset))
    }

    // Reclaim (mm/vmscan.c).

    /// `try_to_free_pages`, `try_to_free_mem_cgroup_pages`, and `balance_pgdat` as a whole.
    pub fn shrink(&mut self, who: Reclaimer, pages: u64, memory: &mut dyn Memory) -> u64 {
        let mut control = Control::new(who, pages);
        match who {
            Reclaimer::Background { high_pages } => {
                while self.balance_once(&mut control, high_pages, memory) {}
            }
            _ => self.do_try_to_free_pages(&mut control, memory),
        }
        self.refaults = self.workingset_activate;
        control.reclaimed
    }

    /// One turn of `balance_pgdat`.
    pub fn balance(&mut self, high: u64, memory: &mut dyn Memory) -> bool {
        let new = || Control::new(Reclaimer::Background { high_pages: high }, 0);
        let mut control = self.kswapd.take().unwrap_or_else(new);
        if self.balance_once(&mut control, high, memory) {
            self.kswapd = Some(control);
            return true;
        }
        self.refaults = self.workingset_activate;
        false
    }

    fn do_try_to_free_pages(&mut self, control: &mut Control, memory: &mut dyn Memory) {
        loop {
            for priority in (0..=DEF_PRIORITY).rev() {
                control.priority = priority;
                self.shrink_node(control, memory);
                if control.reclaimed >= control.to_reclaim || control.waits {
                    return;
                }
            }
            if control.reclaimed > 0 || !control.skipped_deactivate {
                return;
            }
            control.force_deactivate = true;
            control.skipped_deactivate = false;
        }
    }

    fn balance_once(&mut self, control: &mut Control, high: u64, memory: &mut dyn Memory) -> bool {
        if self.release == Release::V2_6_32 {
            return self.balance_once_in_2_6_32(control, high, memory);
        }
        if memory.free_pages() >= high {
            self.pgdat_dirty = false;
            return false;
        }
        if self.release == Release::V4_9 {
            self.age_active_anon(control, memory);
        }
        let (reclaimed, scanned) = (control.reclaimed, control.scanned);
        self.shrink_node(control, memory);
        let looked_at_enough = control.scanned - scanned >= control.to_reclaim;
        if !looked_at_enough || control.reclaimed == reclaimed {
            control.priority -= 1;
        }
        if control.priority == 0
            && control.reclaimed == 0
            && control.cache_trim_mode_failed
            && !control.no_cache_trim_mode
        {
            control.no_cache_trim_mode = true;
            control.priority = DEF_PRIORITY;
        }
        if memory.free_pages() >= high {
            self.pgdat_dirty = false;
            return false;
        }
        control.priority > 0
    }

    /// It ages before it looks how much is free, so that it does so once more in the end.
    fn balance_once_in_2_6_32(
        &mut self,
        control: &mut Control,
        high: u64,
        memory: &mut dyn Memory,
    ) -> bool {
        self.age_active_anon(control, memory);
        if memory.free_pages() >= high {
            return false;
        }
        let reclaimed = control.reclaimed;
        self.shrink_node(control, memory);
        control.reclaimed_in_loop += control.reclaimed - reclaimed;
        if control.reclaimed_in_loop >= SWAP_CLUSTER_MAX {
            (control.priority, control.reclaimed_in_loop) = (DEF_PRIORITY, 0);
        } else if control.priority > 0 {
            control.priority -= 1;
        } else if control.reclaimed_in_loop > 0 {
            (control.priority, control.reclaimed_in_loop) = (DEF_PRIORITY, 0);
        } else {
            return false;
        }
        if memory.free_pages() >= high {
            self.age_active_anon(control, memory);
            return false;
        }
        true
    }

    fn shrink_node(&mut self, control: &mut Control, memory: &mut dyn Memory) {
        let reclaimed = control.reclaimed;
        match self.release {
            Release::V2_6_32 => self.shrink_zone(control, memory),
            Release::V4_9 => {
                let targets = self.get_scan_count_of_4_9(control, memory);
                self.shrink_lruvec(control, targets, memory);
            }
            Release::V6_18 => {
                self.prepare_scan_control(control, memory);
                let targets = self.get_scan_count(control);
                self.shrink_lruvec(control, targets, memory);
            }
        }
        self.age_active_anon(control, memory);
        if control.reclaimed == reclaimed && control.cache_trim_mode {
            control.cache_trim_mode_failed = true;
        }
    }

    fn age_active_anon(&mut self, control: &mut Control, memory: &mut dyn Memory) {
        if self.swap && self.inactive_is_low(control, ANONYMOUS) {
            self.shrink_active_list(SWAP_CLUSTER_MAX, ANONYMOUS, memory);
        }
    }

    fn inactive_is_low(&self, control: &Control, kind: usize) -> bool {
        let (inactive, active) = (self.size(kind, INACTIVE), self.size(kind, ACTIVE));
        let bytes = match (self.release, kind) {
            // `inactive_file_is_low`, and `inactive_anon_is_low_global`.
            (Release::V2_6_32, FILE) => 0,
            (Release::V2_6_32, _) if !control.is_group() => self.memory_bytes,
            _ => (inactive + active) * self.page_bytes,
        };
        let gb = bytes >> 30;
        let ratio = if gb == 0 { 1 } else { ((10 * gb) as f64).sqrt() as u64 };
        active > inactive * ratio
    }

    fn prepare_scan_control(&self, control: &mut Control, memory: &dyn Memory) {
        for kind in [ANONYMOUS, FILE] {
            control.may_deactivate[kind] = control.force_deactivate
                || self.workingset_activate[kind] != self.refaults[kind]
                || self.inactive_is_low(control, kind);
        }
        control.cache_trim_mode = self.size(FILE, INACTIVE) >> control.priority > 0
            && !control.may_deactivate[FILE]
            && !control.no_cache_trim_mode;
        control.file_is_tiny = self.files_are_below_watermark(control, memory)
            && !control.may_deactivate[ANONYMOUS]
            && self.size(ANONYMOUS, INACTIVE) >> control.priority > 0;
    }

    fn files_are_below_watermark(&self, control: &Control, memory: &dyn Memory) -> bool {
        match control.who {
            Reclaimer::Group => false,
            Reclaimer::Direct { high_pages } | Reclaimer::Background { high_pages } => {
                self.size_of_kind(FILE) + memory.free_pages() <= high_pages
            }
        }
    }

    /// Of each list as many pages as the priority says.
    fn scan_all(&self, priority: u32) -> ByList {
        [0, 1].map(|kind| [0, 1].map(|activity| self.size(kind, activity) >> priority))
    }

    /// `get_scan_count` of 6.18.
    fn get_scan_count(&self, control: &Control) -> ByList {
        let all = self.scan_all(control.priority);
        let only_files = [[0, 0], all[FILE]];
        if !self.swap || control.is_group() && self.swappiness == 0 {
            return only_files;
        }
        if control.priority == 0 && self.swappiness > 0 {
            return all;
        }
        if control.file_is_tiny {
            return [all[ANONYMOUS], [0, 0]];
        }
        if control.cache_trim_mode {
            return only_files;
        }
        // `calculate_pressure_balance`
        let total = self.cost[ANONYMOUS] + self.cost[FILE];
        let costs = [total + self.cost[ANONYMOUS], total + self.cost[FILE]];
        let total = costs[ANONYMOUS] + costs[FILE];
        let weights = [self.swappiness, 200 - self.swappiness];
        let parts = [0, 1].map(|kind| weights[kind] * (total + 1) / (costs[kind] + 1));
        let denominator = parts[ANONYMOUS] + parts[FILE];
        [0, 1].map(|kind| all[kind].map(|pages| pages * parts[kind] / denominator))
    }

    /// `get_scan_count` of 4.9.
    fn get_scan_count_of_4_9(&mut self, control: &Control, memory: &dyn Memory) -> ByList {
        let enough_cache = !self.inactive_is_low(control, FILE)
            && self.size(FILE, INACTIVE) >> control.priority > 0;
        let (parts, denominator) = if !self.swap || control.is_group() && self.swappiness == 0 {
            ([0, 1], 1)
        } else if control.priority == 0 && self.swappiness > 0 {
            ([1, 1], 1)
        } else if self.files_are_below_watermark(control, memory) {
            ([1, 0], 1)
        } else if enough_cache {
            ([0, 1], 1)
        } else {
            self.pressure_by_rotation([self.swappiness, 200 - self.swappiness])
        };
        let weigh =
            |of: ByList| [0, 1].map(|kind| of[kind].map(|pages| pages * parts[kind] / denominator));
        let targets = weigh(self.scan_all(control.priority));
        if control.is_group() && targets == [[0; 2]; 2] {
            // The second pass, with `force_scan`.
            let forced = |size: u64| match size >> control.priority {
                0 => size.min(SWAP_CLUSTER_MAX),
                scan => scan,
            };
            return weigh(self.scan_all(0).map(|kind| kind.map(forced)));
        }
        targets
    }

    /// What each kind gives, in so many parts: the more, the less of what was looked at had been used.
    fn pressure_by_rotation(&mut self, weights: [u64; 2]) -> ([u64; 2], u64) {
        for kind in [ANONYMOUS, FILE] {
            if self.recent_scanned[kind] > self.size_of_kind(kind) / 4 {
                self.recent_scanned[kind] /= 2;
                self.recent_rotated[kind] /= 2;
            }
        }
        let part = |kind: usize| {
            weights[kind] * (self.recent_scanned[kind] + 1) / (self.recent_rotated[kind] + 1)
        };
        let parts = [part(ANONYMOUS), part(FILE)];
        (parts, parts[ANONYMOUS] + parts[FILE] + 1)
    }

    /// `shrink_lruvec` of 4.9 and 6.18.
    fn shrink_lruvec(&mut self, control: &mut Control, targets: ByList, memory: &mut dyn Memory) {
        let is_direct = !control.is_group() && !control.is_kswapd();
        let mut to_the_end = is_direct && control.priority == DEF_PRIORITY;
        let mut left = targets;
        let mut reclaimed = 0;
        while anything_left(&left) {
            reclaimed += self.take_turns(control, &mut left, memory);
            if reclaimed < control.to_reclaim || to_the_end {
                continue;
            }
            let of = |lists: &ByList, kind: usize| lists[kind][INACTIVE] + lists[kind][ACTIVE];
            let (anonymous, file) = (of(&left, ANONYMOUS), of(&left, FILE));
            if anonymous == 0 || file == 0 {
                break;
            }
            let smaller = if file > anonymous { ANONYMOUS } else { FILE };
            let larger = 1 - smaller;
            let percentage = of(&left, smaller) * 100 / (of(&targets, smaller) + 1);
            left[smaller] = [0, 0];
            for activity in [INACTIVE, ACTIVE] {
                let target = targets[larger][activity];
                let scanned = target - left[larger][activity];
                let wanted = target * (100 - percentage) / 100;
                left[larger][activity] = wanted - wanted.min(scanned);
            }
            // `scan_adjusted`, until 6.0.
            to_the_end = self.release == Release::V4_9;
        }
        control.reclaimed += reclaimed;
    }

    /// `shrink_zone` of 2.6.32, with `get_scan_ratio` and `nr_scan_try_batch`.
    fn shrink_zone(&mut self, control: &mut Control, memory: &mut dyn Memory) {
        let anonymous_percent = if !self.swap {
            0
        } else if self.files_are_below_watermark(control, memory) {
            100
        } else {
            let weights = [self.swappiness + 1, 200 - self.swappiness + 1];
            let (parts, denominator) = self.pressure_by_rotation(weights);
            100 * parts[ANONYMOUS] / denominator
        };
        let percent = [anonymous_percent, 100 - anonymous_percent];
        let mut left = [[0; 2]; 2];
        for kind in [ANONYMOUS, FILE] {
            for activity in [INACTIVE, ACTIVE] {
                let mut scan = self.size(kind, activity);
                if control.priority > 0 || !self.swap {
                    scan = (scan >> control.priority) * percent[kind] / 100;
                }
                let saved = &mut self.saved_scan[kind][activity];
                *saved += scan;
                if *saved >= SWAP_CLUSTER_MAX {
                    left[kind][activity] = std::mem::take(saved);
                }
            }
        }
        while anything_left(&left) {
            control.reclaimed += self.take_turns(control, &mut left, memory);
            let enough = control.reclaimed > SWAP_CLUSTER_MAX;
            if enough && control.priority < DEF_PRIORITY && !control.is_kswapd() {
                break;
            }
        }
    }

    /// A batch of each list, in the order of `for_each_evictable_lru`.
    fn take_turns(
        &mut self,
        control: &mut Control,
        left: &mut ByList,
        memory: &mut dyn Memory,
    ) -> u64 {
        let mut reclaimed = 0;
        for kind in [ANONYMOUS, FILE] {
            for activity in [INACTIVE, ACTIVE] {
                if control.waits {
                    *left = [[0; 2]; 2];
                }
                let pages = left[kind][activity].min(SWAP_CLUSTER_MAX);
                if pages > 0 {
                    left[kind][activity] -= pages;
                    reclaimed += self.shrink_list(control, pages, kind, activity, memory);
                }
            }
        }
        reclaimed
    }

    fn shrink_list(
        &mut self,
        control: &mut Control,
        pages: u64,
        kind: usize,
        activity: usize,
        memory: &mut dyn Memory,
    ) -> u64 {
        if activity == ACTIVE {
            let deactivates = match self.release {
                Release::V6_18 => control.may_deactivate[kind],
                _ => self.inactive_is_low(control, kind),
            };
            if deactivates {
                self.shrink_active_list(pages, kind, memory);
                return 0;
            }
            control.skipped_deactivate |= self.release == Release::V6_18;
            if self.release != Release::V2_6_32 {
                return 0;
            }
        }
        if self.release != Release::V2_6_32 {
            return self.shrink_inactive_list(control, pages, kind, memory);
        }
        // Its `shrink_inactive_list` is a loop over batches.
        let (mut scanned, mut reclaimed) = (0, 0);
        while scanned < pages {
            let before = control.scanned;
            reclaimed += self.shrink_inactive_list(control, SWAP_CLUSTER_MAX, kind, memory);
            if control.scanned == before {
                break;
            }
            scanned += control.scanned - before;
        }
        reclaimed
    }

    /// `isolate_lru_folios`: the next to go, until they are so many pages.
    fn isolate(&mut self, pages: u64, kind: usize, activity: usize) -> Vec<Folio> {
        let (mut isolated, mut taken) = (Vec::new(), 0);
        while taken < pages
            && let Some(folio) = self.lists[kind][activity].pop_front()
        {
            taken += folio.pages;
            isolated.push(folio);
        }
        isolated
    }

    fn shrink_active_list(&mut self, pages: u64, kind: usize, memory: &mut dyn Memory) {
        for mut folio in self.isolate(pages, kind, ACTIVE) {
            let mut is_used = memory.take_references(folio.number) > 0;
            // `page_referenced` of 2.6.32 is asked of what is in use, and takes `PG_referenced` with the accessed bits.
            if self.release == Release::V2_6_32 && memory.is_in_use(folio.number) {
                is_used |= folio.referenced;
                folio.referenced = false;
            }
            self.recent_scanned[kind] += folio.pages;
            if is_used {
                self.recent_rotated[kind] += folio.pages;
            }
            self.counters.deactivations += folio.pages;
            folio.workingset = true;
            self.lists[kind][INACTIVE].push_back(folio);
        }
    }

    fn shrink_inactive_list(
        &mut self,
        control: &mut Control,
        pages: u64,
        kind: usize,
        memory: &mut dyn Memory,
    ) -> u64 {
        let isolated = self.isolate(pages, kind, INACTIVE);
        let taken: u64 = isolated.iter().map(|folio| folio.pages).sum();
        let is_dirty = |folio: &&Folio| kind == FILE && memory.is_dirty_file(folio.number);
        let dirty: u64 = isolated.iter().filter(is_dirty).map(|folio| folio.pages).sum();
        let (mut freed, mut written, mut counted) = (0, 0, 0);
        let mut back = Vec::new();
        for mut folio in isolated {
            match self.shrink_folio(control, kind, &mut folio, memory) {
                Came::Freed => {
                    self.count_eviction(kind, &folio);
                    freed += folio.pages;
                    continue;
                }
                Came::Written => {
                    written += folio.pages;
                    // A group does not count huge pages before they have been written.
                    if folio.pages == 1 || !control.is_group() {
                        counted += folio.pages;
                    }
                    back.push((INACTIVE, folio));
                }
                Came::Kept => back.push((INACTIVE, folio)),
                Came::Activated => back.push((ACTIVE, folio)),
            }
        }
        for (activity, folio) in back {
            self.lists[kind][activity].push_back(folio);
            if activity == ACTIVE {
                self.counters.activations += folio.pages;
                self.recent_rotated[kind] += folio.pages;
                if self.release == Release::V6_18 {
                    self.nonresident_age += folio.pages;
                }
            }
        }
        // Of groups only those of version 2 do that (`sane_reclaim`).
        if self.release == Release::V4_9 && taken > 0 && dirty == taken && !control.is_group() {
            self.pgdat_dirty = true;
        }
        self.recent_scanned[kind] += taken;
        self.counters.scanned_pages += taken;
        control.scanned += taken;
        self.note_cost(kind, written, taken - freed);
        freed + counted
    }

    /// `shrink_folio_list`, of one folio.
    fn shrink_folio(
        &self,
        control: &mut Control,
        kind: usize,
        folio: &mut Folio,
        memory: &mut dyn Memory,
    ) -> Came {
        let entries = memory.take_references(folio.number);
        let was_referenced = std::mem::take(&mut folio.referenced);
        let mut writes = false;
        match self.release {
            Release::V2_6_32 => {
                // `page_referenced` has both in one; what has an entry is in use (`page_mapping_inuse`).
                let is_used = entries > 0 || was_referenced;
                if is_used && (entries > 0 || memory.is_in_use(folio.number)) {
                    return Came::Activated;
                }
                // Anonymous memory that is not in use, nor in swap, is a dirty page of tmpfs.
                if is_used && (kind == ANONYMOUS || memory.is_dirty_file(folio.number)) {
                    return Came::Kept;
                }
                writes = true;
            }
            Release::V4_9 => {
                if entries > 0 && kind == ANONYMOUS {
                    return Came::Activated;
                }
                if entries > 0 {
                    folio.referenced = true;
                    let is_used_again = was_referenced || entries > 1;
                    return if is_used_again { Came::Activated } else { Came::Kept };
                }
                let only_clean = was_referenced;
                writes = control.is_kswapd() && self.pgdat_dirty && !only_clean;
            }
            Release::V6_18 => {
                if entries > 0 {
                    folio.referenced = true;
                    let is_used_again = was_referenced || entries > 1;
                    return if is_used_again { Came::Activated } else { Came::Kept };
                }
            }
        }
        match memory.evict(folio.number, self.shadow(folio), writes) {
            Evicted::Freed => Came::Freed,
            Evicted::Writing => Came::Written,
            Evicted::Dirty if self.release == Release::V6_18 => Came::Activated,
            Evicted::Awaited => {
                control.waits = true;
                Came::Kept
            }
            Evicted::Dirty | Evicted::Busy => Came::Kept,
        }
    }
}

/// What became of a folio.
enum Came {
    Freed,
    Written,
    Kept,
    Activated,
}

/// Active anonymous memory alone is no reason to go on.
fn anything_left(left: &ByList) -> bool {
    left[ANONYMOUS][INACTIVE] > 0 || left[FILE][INACTIVE] > 0 || left[FILE][ACTIVE] > 0
}
