//! Reclaim by generations, as Linux does it with CONFIG_LRU_GEN (mm/vmscan.c, mm/workingset.c, mm/swap.c
//! and include/linux/mm_inline.h, as of 6.18, with all that lru_gen/enabled = 7 switches on): files and
//! anonymous memory have up to four generations each. The youngest is the same for both; what page tables say
//! was used moves there when they are walked, and a walk begins the next. Reclaim takes from the oldest. In it,
//! folios that file calls have used so often are a tier; a tier stays for one generation more where it comes
//! back more often than the first one does.

use super::lists::{Flags, ListId, Lists};
use super::{Evicted, Kind, Memory, ReclaimCounters, Reclaimer, Shadow, Walked};
use std::collections::BTreeSet;

/// Generations of a kind, at most and at least (`MAX_NR_GENS`, `MIN_NR_GENS`, include/linux/mmzone.h). The
/// youngest two are what is active.
const MOST: u64 = 4;
/// See [`MOST`].
const LEAST: u64 = 2;
/// Tiers of a generation (`MAX_NR_TIERS`).
const TIERS: usize = 4;
/// Folios isolated in one go, and looked at for that at most (`MIN_LRU_BATCH`, `MAX_LRU_BATCH`).
const BATCH: u64 = 64;
/// See [`BATCH`].
const MOST_SORTED: u64 = 64 * BATCH;
/// The first pass looks at a 4096th of memory, and one that wants a lot at a 64th at most (`DEF_PRIORITY`,
/// `set_initial_priority`).
const FIRST_PRIORITY: u32 = 12;
/// See [`FIRST_PRIORITY`].
const LEAST_FIRST_PRIORITY: u32 = FIRST_PRIORITY / 2;
/// `swappiness` at which anonymous memory goes first (`MAX_SWAPPINESS`).
const MOST_SWAPPINESS: u64 = 200;
const KINDS: [Kind; 2] = [Kind::Anonymous, Kind::File];

/// Used once (`PG_referenced`).
const REFERENCED: Flags = 1;
/// Used so often that it belongs to the working set (`PG_workingset`).
const WORKINGSET: Flags = 2;
/// Uses by file calls after the first (`LRU_REFS_MASK`), and one of them.
const USES: Flags = 3 << 2;
/// See [`USES`].
const ONE_USE: Flags = 1 << 2;
/// `LRU_REFS_FLAGS`.
const ALL_USES: Flags = USES | REFERENCED;
/// The generation's number, modulo [`MOST`]. A folio that a walk has promoted is in the list of an older one
/// until reclaim comes past it.
const GENERATION: u32 = 4;

fn generation(flags: Flags) -> u64 {
    u64::from(flags >> GENERATION)
}

fn with_generation(flags: Flags, sequence: u64) -> Flags {
    flags & ((1 << GENERATION) - 1) | ((sequence % MOST) as Flags) << GENERATION
}

/// Uses by file calls (`folio_lru_refs`).
fn uses(flags: Flags) -> u64 {
    if flags & REFERENCED == 0 { 0 } else { u64::from((flags & USES) / ONE_USE) + 1 }
}

/// `lru_tier_from_refs`.
fn tier(uses: u64, workingset: bool) -> usize {
    if workingset { TIERS - 1 } else { uses.max(1).next_power_of_two().trailing_zeros() as usize }
}

fn is_workingset(flags: Flags) -> bool {
    flags & WORKINGSET != 0
}

fn tier_of(flags: Flags) -> usize {
    tier(uses(flags), is_workingset(flags))
}

/// All that can be noted of uses has been: it moves on by itself, whatever becomes of its tier.
fn is_saturated(flags: Flags) -> bool {
    flags & (ALL_USES | WORKINGSET) == ALL_USES | WORKINGSET
}

/// A use by page tables; whether the folio is to become the youngest. The first use that is seen is noted only
/// (`lru_gen_set_refs`, `folio_update_gen`).
fn note_mapped_use(flags: &mut Flags) -> bool {
    if *flags & (REFERENCED | WORKINGSET) == 0 {
        *flags = *flags & !USES | REFERENCED;
        return false;
    }
    *flags = *flags & !ALL_USES | WORKINGSET;
    true
}

fn list(kind: Kind, sequence: u64) -> ListId {
    (kind as u64 * MOST + sequence % MOST) as ListId
}

fn kind_of(list: ListId) -> Kind {
    KINDS[usize::from(list) / MOST as usize]
}

/// How a folio comes to the lists.
#[derive(Clone, Copy)]
enum Entry {
    /// Used by page tables, or refused by reclaim: it is active.
    Active,
    /// To be reclaimed next.
    Next,
    /// Not to be looked at until it has been written; or anonymous memory that is nowhere else.
    Later,
    /// Read by a file call, or ahead of need.
    Unused,
}

/// What became of a tier's pages since the oldest generation is the oldest, and before that in the mean, with
/// half the weight for each generation (`struct lru_gen_folio`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tier {
    refaulted: u64,
    evicted: u64,
    protected: u64,
    mean_refaulted: u64,
    mean_total: u64,
}

/// How often pages came back, and of how many (`struct ctrl_pos`).
#[derive(Clone, Copy, Debug)]
struct Position {
    refaulted: u128,
    total: u128,
    gain: u128,
}

impl Position {
    /// `read_ctrl_pos`.
    fn of(tiers: &[Tier], gain: u64) -> Position {
        let sum = |value: fn(&Tier) -> u64| tiers.iter().map(|tier| u128::from(value(tier))).sum();
        Position {
            refaulted: sum(|tier| tier.mean_refaulted + tier.refaulted),
            total: sum(|tier| tier.mean_total + tier.protected + tier.evicted),
            gain: gain.into(),
        }
    }

    /// Whether another's pages came back hardly ever, or less often than these (`positive_ctrl_err`).
    fn is_above(&self, other: &Position) -> bool {
        let batch = u128::from(BATCH);
        other.refaulted < batch
            || other.refaulted * (self.total + batch) * self.gain
                <= (self.refaulted + 1) * other.total * other.gain
    }
}

/// A folio out of its list.
#[derive(Clone, Copy)]
struct Folio {
    number: u64,
    order: u8,
    flags: Flags,
}

impl Folio {
    fn pages(&self) -> u64 {
        1 << self.order
    }
}

/// What a reclaim has found so far (`struct scan_control`).
#[derive(Clone, Debug)]
struct Scan {
    who: Reclaimer,
    wanted: u64,
    reclaimed: u64,
    scanned: u64,
    priority: u32,
    /// Neighbours of a used page are noted as by a walk, which leaves them in their lists (`mm_walk`).
    walks: bool,
}

/// The generations of both kinds.
#[derive(Clone, Debug)]
pub struct Generations {
    lists: Lists<8>,
    /// Pages by generation's number modulo [`MOST`] and kind (`nr_pages`).
    pages: [[u64; 2]; MOST as usize],
    /// Number of the youngest generation, and of the oldest of each kind (`max_seq`, `min_seq`).
    youngest: u64,
    oldest: [u64; 2],
    tiers: [[Tier; TIERS]; 2],
    /// Tables of page-table entries that the next walk is to look at; all without (`struct lru_gen_mm_state`).
    tables: Option<BTreeSet<u64>>,
    swappiness: u64,
    /// What the kernel's thread has found, while it is awake.
    balancing: Option<Scan>,
    /// What has been done.
    pub counters: ReclaimCounters,
}

impl Generations {
    /// Empty generations for so many frames; `swappiness` is between 0 and 200.
    pub fn new(swappiness: u64, frames: u64) -> Self {
        Generations {
            lists: Lists::new(frames),
            pages: Default::default(),
            youngest: LEAST + 1,
            oldest: [0; 2],
            tiers: Default::default(),
            tables: None,
            swappiness,
            balancing: None,
            counters: ReclaimCounters::default(),
        }
    }

    /// Pages of a kind.
    pub fn pages_of(&self, kind: Kind) -> u64 {
        self.pages.iter().map(|pages| pages[kind as usize]).sum()
    }

    /// Numbers of a kind's generations, the oldest first.
    pub fn sequences(&self, kind: Kind) -> std::ops::RangeInclusive<u64> {
        self.oldest[kind as usize]..=self.youngest
    }

    /// The number of the generation that a folio belongs to.
    pub fn sequence_of(&self, folio: u64) -> Option<u64> {
        let kind = kind_of(self.lists.list_of(folio)?);
        let number = generation(self.lists.flags(folio));
        self.sequences(kind).find(|sequence| sequence % MOST == number)
    }

    /// Kinds that reclaim takes from (`for_each_evictable_type`).
    fn evictable(&self) -> &'static [Kind] {
        if self.swappiness == 0 { &KINDS[1..] } else { &KINDS }
    }

    /// The oldest generation that reclaim takes from (`evictable_min_seq`).
    fn oldest_evictable(&self) -> u64 {
        self.evictable().iter().map(|kind| self.oldest[*kind as usize]).min().unwrap_or(0)
    }

    fn is_active(&self, flags: Flags) -> bool {
        let number = generation(flags);
        number == self.youngest % MOST || number == (self.youngest - 1) % MOST
    }

    /// The generation that a folio comes to (`lru_gen_folio_seq`).
    fn sequence_for(&self, kind: Kind, flags: Flags, entry: Entry) -> u64 {
        let workingset = u64::from(is_workingset(flags));
        let place = match entry {
            Entry::Active => LEAST - workingset,
            Entry::Next => MOST,
            Entry::Later => LEAST,
            Entry::Unused => MOST - workingset,
        };
        (self.youngest + 1 - place).max(self.oldest[kind as usize])
    }

    fn put(&mut self, kind: Kind, sequence: u64, at_head: bool, folio: Folio) {
        self.pages[(sequence % MOST) as usize][kind as usize] += folio.pages();
        let flags = with_generation(folio.flags, sequence);
        self.lists.put(list(kind, sequence), at_head, folio.number, folio.order, flags);
    }

    fn take(&mut self, number: u64) -> Option<(Kind, Folio)> {
        let kind = kind_of(self.lists.list_of(number)?);
        let (order, flags) = self.lists.remove(number)?;
        self.pages[generation(flags) as usize][kind as usize] -= 1 << order;
        Some((kind, Folio { number, order, flags }))
    }

    /// A folio comes into memory (`folio_add_lru`), in a fault or not; with the shadow of its last stay, that
    /// is a refault (`lru_gen_refault`). Anonymous memory comes without a fault from swap alone.
    pub fn add(&mut self, number: u64, order: u8, kind: Kind, shadow: Shadow, in_fault: bool) {
        let mut folio = Folio { number, order, flags: 0 };
        if shadow != Shadow::default() {
            self.counters.refaults += folio.pages();
            let (oldest, uses, workingset) = unpack(shadow);
            if self.youngest.abs_diff(oldest) < MOST {
                let tier = &mut self.tiers[kind as usize][tier(uses, workingset)];
                tier.refaulted += folio.pages();
                if in_fault {
                    self.counters.refaults_activated += folio.pages();
                }
                folio.flags = if workingset { WORKINGSET } else { (uses - 1) as Flags * ONE_USE };
            }
        }
        let entry = if in_fault { Entry::Active } else { Entry::Unused };
        self.put(kind, self.sequence_for(kind, folio.flags, entry), true, folio);
    }

    /// A folio leaves memory by itself.
    pub fn remove(&mut self, folio: u64) {
        self.take(folio);
    }

    /// A folio becomes single pages, which stay where it was.
    pub fn split(&mut self, folio: u64, others: &[u64]) {
        let Some(list) = self.lists.list_of(folio) else { return };
        let number = generation(self.lists.flags(folio));
        let pages = &mut self.pages[number as usize][kind_of(list) as usize];
        *pages = *pages + 1 + others.len() as u64 - self.lists.pages_of(folio);
        self.lists.split(folio, others);
    }

    /// A file call has used a folio (`lru_gen_inc_refs`).
    pub fn mark_accessed(&mut self, folio: u64) {
        if self.lists.list_of(folio).is_none() {
            return;
        }
        let flags = self.lists.flags(folio);
        let flags = match (flags & REFERENCED, flags & USES) {
            (0, _) => flags & !USES | REFERENCED,
            (_, USES) => flags | WORKINGSET,
            _ => flags + ONE_USE,
        };
        self.lists.set_flags(folio, flags);
    }

    /// A folio has been written that was to leave: it is the next to go.
    pub fn rotate(&mut self, folio: u64) {
        if let Some((kind, folio)) = self.take(folio) {
            self.put(kind, self.sequence_for(kind, folio.flags, Entry::Next), false, folio);
        }
    }

    /// The shadow of a folio that is evicted now (`lru_gen_eviction`).
    fn shadow(&self, kind: Kind, flags: Flags) -> Shadow {
        let token = self.oldest[kind as usize] << 2 | uses(flags).saturating_sub(1);
        Shadow((token << 1 | u64::from(is_workingset(flags))) + 1)
    }

    fn note_eviction(&mut self, kind: Kind, folio: Folio) {
        self.tiers[kind as usize][tier_of(folio.flags)].evicted += folio.pages();
    }

    /// A folio is as old as one that has come without a fault, and counts as unused (`lru_deactivate`); it is of another kind,
    /// where one is given.
    pub fn make_inactive(&mut self, folio: u64, kind: Option<Kind>) {
        if let Some((own, Folio { order, .. })) = self.take(folio) {
            self.add(folio, order, kind.unwrap_or(own), Shadow::default(), false);
        }
    }

    /// What would be left of a folio that left now.
    pub fn shadow_of(&self, folio: u64) -> Option<Shadow> {
        let kind = kind_of(self.lists.list_of(folio)?);
        Some(self.shadow(kind, self.lists.flags(folio)))
    }

    /// A folio has been written that was to leave, and leaves: as one that [`Memory::evict`] evicts.
    pub fn leave(&mut self, folio: u64) -> Shadow {
        let Some((kind, folio)) = self.take(folio) else { return Shadow::default() };
        self.note_eviction(kind, folio);
        self.shadow(kind, folio.flags)
    }

    /// Reclaims so many pages, if it can; how many, those included that are being written
    /// (`do_try_to_free_pages`).
    pub fn shrink(&mut self, who: Reclaimer, pages: u64, memory: &mut dyn Memory) -> u64 {
        let mut scan = Scan::new(who, pages);
        if let Reclaimer::Background { high_pages } = who {
            while self.balance_once(&mut scan, high_pages, memory) {}
            return scan.reclaimed;
        }
        loop {
            if who != Reclaimer::Group {
                self.set_first_priority(&mut scan);
            }
            self.pass(&mut scan, memory);
            if scan.reclaimed >= scan.wanted || scan.priority == 0 {
                return scan.reclaimed;
            }
            scan.priority -= 1;
        }
    }

    /// One pass of the kernel's thread (`balance_pgdat`), which wants so many free frames; whether
    /// another follows.
    pub fn balance(&mut self, high_pages: u64, memory: &mut dyn Memory) -> bool {
        let who = Reclaimer::Background { high_pages };
        let mut scan = self.balancing.take().unwrap_or_else(|| Scan::new(who, 0));
        scan.who = who;
        let goes_on = self.balance_once(&mut scan, high_pages, memory);
        self.balancing = Some(scan).filter(|_| goes_on);
        goes_on
    }

    fn balance_once(&mut self, scan: &mut Scan, high_pages: u64, memory: &mut dyn Memory) -> bool {
        if memory.free_pages() >= high_pages {
            return false;
        }
        let (reclaimed, scanned) = (scan.reclaimed, scan.scanned);
        scan.reclaimed = 0;
        self.set_first_priority(scan);
        self.pass(scan, memory);
        if scan.reclaimed == 0 || scan.scanned - scanned < scan.wanted {
            scan.priority -= 1;
        }
        scan.reclaimed += reclaimed;
        memory.free_pages() < high_pages && scan.priority >= 1
    }

    /// A reclaim that wants a lot begins with more than a 4096th of memory (`set_initial_priority`).
    fn set_first_priority(&self, scan: &mut Scan) {
        if scan.priority != FIRST_PRIORITY || scan.wanted < BATCH {
            return;
        }
        let active = [self.youngest, self.youngest - 1].map(|sequence| sequence % MOST);
        let inactive = (0..MOST).filter(|number| !active.contains(number));
        let inactive: u64 =
            inactive.map(|number| self.pages[number as usize].iter().sum::<u64>()).sum();
        let bits = |number: u64| u64::BITS - number.leading_zeros();
        let priority = bits(inactive).saturating_sub(1 + bits(scan.wanted - 1));
        scan.priority = priority.clamp(LEAST_FIRST_PRIORITY, FIRST_PRIORITY);
    }

    /// One pass (`try_to_shrink_lruvec`).
    fn pass(&mut self, scan: &mut Scan, memory: &mut dyn Memory) {
        let mut looked_at = 0;
        loop {
            let target = self.target(scan, memory);
            if target == 0 {
                break;
            }
            let more = self.evict(scan, target, memory);
            looked_at += more;
            if more == 0 || looked_at >= target || scan.may_stop(memory) {
                break;
            }
        }
    }

    /// Pages that this pass looks at; none where a generation had to be begun first (`get_nr_to_scan`,
    /// `should_run_aging`).
    fn target(&mut self, scan: &mut Scan, memory: &mut dyn Memory) -> u64 {
        let generations = self.youngest + 1 - self.oldest_evictable();
        let mut pages = 0;
        if generations > LEAST {
            pages = self.evictable().iter().map(|kind| self.pages_of(*kind)).sum();
        }
        if generations > LEAST + 1 || scan.priority == FIRST_PRIORITY {
            return pages >> scan.priority;
        }
        self.age(memory);
        scan.walks = true;
        0
    }

    /// Page tables are walked, what they say was used becomes the youngest, and a new generation begins
    /// (`try_to_inc_max_seq`). The next walk looks at tables in which this one has found much that was used.
    fn age(&mut self, memory: &mut dyn Memory) {
        let tables = self.tables.replace(BTreeSet::new());
        memory.walk(tables.as_ref(), self.swappiness > 0, &mut |walked| {
            walked.young.iter().for_each(|folio| self.promote(*folio, true));
            self.note_table(&walked);
        });
        for kind in KINDS {
            if self.sequences(kind).count() as u64 == MOST {
                self.merge_oldest(kind);
            }
        }
        let inactive = self.pages[((self.youngest - 1) % MOST) as usize];
        self.counters.deactivations += inactive.iter().sum::<u64>();
        self.youngest += 1;
    }

    fn note_table(&mut self, walked: &Walked) {
        if walked.is_dense()
            && let Some(tables) = &mut self.tables
        {
            tables.insert(walked.table);
        }
    }

    /// Page tables say that a folio was used. It stays in its list if a walk has found that
    /// (`folio_update_gen`); else it moves at once (`folio_activate`).
    fn promote(&mut self, number: u64, by_walk: bool) {
        let Some(list) = self.lists.list_of(number) else { return };
        let mut flags = self.lists.flags(number);
        let (was, was_active) = (generation(flags), self.is_active(flags));
        if !note_mapped_use(&mut flags) || was == self.youngest % MOST {
            self.lists.set_flags(number, flags);
            return;
        }
        let (kind, pages) = (kind_of(list), self.lists.pages_of(number));
        if !was_active {
            self.counters.activations += pages;
        }
        if by_walk {
            self.pages[was as usize][kind as usize] -= pages;
            self.pages[(self.youngest % MOST) as usize][kind as usize] += pages;
            self.lists.set_flags(number, with_generation(flags, self.youngest));
        } else if let Some((_, folio)) = self.take(number) {
            self.put(kind, self.youngest, true, Folio { flags, ..folio });
        }
    }

    /// The oldest generation joins the next (`inc_min_seq`).
    fn merge_oldest(&mut self, kind: Kind) {
        let oldest = self.oldest[kind as usize];
        if self.evictable().contains(&kind) {
            while let Some(number) = self.lists.tail(list(kind, oldest)) {
                let Some((_, folio)) = self.take(number) else { break };
                if !is_saturated(folio.flags) {
                    self.tiers[kind as usize][tier_of(folio.flags)].protected += folio.pages();
                }
                self.move_on(kind, false, folio);
            }
        }
        self.settle(kind);
        self.oldest[kind as usize] += 1;
    }

    /// A folio of the oldest list moves to that of its generation, which is the next unless a walk has promoted
    /// it (`folio_inc_gen`).
    fn move_on(&mut self, kind: Kind, at_head: bool, mut folio: Folio) {
        let oldest = self.oldest[kind as usize];
        let mut sequence = generation(folio.flags);
        if sequence == oldest % MOST {
            sequence = oldest + 1;
            folio.flags &= !ALL_USES;
        }
        self.put(kind, sequence, at_head, folio);
    }

    /// A kind's oldest generation is done with (`reset_ctrl_pos`).
    fn settle(&mut self, kind: Kind) {
        for tier in &mut self.tiers[kind as usize] {
            *tier = Tier {
                mean_refaulted: (tier.mean_refaulted + tier.refaulted) / 2,
                mean_total: (tier.mean_total + tier.protected + tier.evicted) / 2,
                ..Tier::default()
            };
        }
    }

    /// Goes on from generations of which nothing is left, but with neither kind far ahead of the other; whether
    /// there were any (`try_to_inc_min_seq`).
    fn drop_empty(&mut self) -> bool {
        let mut oldest = self.oldest;
        for kind in self.evictable() {
            let of_kind = &mut oldest[*kind as usize];
            while *of_kind + LEAST <= self.youngest
                && self.lists.tail(list(*kind, *of_kind)).is_none()
            {
                *of_kind += 1;
            }
        }
        if self.swappiness > 0 {
            let limit = self.youngest - LEAST;
            if oldest[0].max(oldest[1]) > limit && oldest[0].min(oldest[1]) < limit {
                oldest = oldest.map(|sequence| sequence.min(limit));
            }
        }
        let mut dropped = false;
        for kind in self.evictable() {
            let of_kind = oldest[*kind as usize];
            if of_kind > self.oldest[*kind as usize] {
                self.settle(*kind);
                self.oldest[*kind as usize] = of_kind;
                dropped = true;
            }
        }
        dropped
    }

    /// Evicts from the oldest generation; pages looked at, 0 where there is nothing to look at
    /// (`evict_folios`).
    fn evict(&mut self, scan: &mut Scan, target: u64, memory: &mut dyn Memory) -> u64 {
        let (kind, mut looked_at, isolated) = self.isolate(target, memory);
        looked_at += u64::from(self.drop_empty());
        if self.oldest_evictable() + LEAST > self.youngest {
            looked_at = 0;
        }
        let mut stay = Vec::new();
        for mut folio in isolated {
            scan.scanned += folio.pages();
            self.counters.scanned_pages += folio.pages();
            if let Some(entry) = self.try_to_evict(scan, kind, &mut folio, memory) {
                stay.push((entry, folio));
            }
        }
        for (entry, mut folio) in stay {
            let mut sequence = self.sequence_for(kind, folio.flags, entry);
            let is_refused = sequence == self.oldest[kind as usize];
            if is_refused {
                // It does not come to the oldest generation again.
                folio.flags &= !ALL_USES;
                sequence = self.sequence_for(kind, folio.flags, Entry::Active);
            }
            if is_refused || matches!(entry, Entry::Active) {
                self.counters.activations += folio.pages();
            }
            self.put(kind, sequence, true, folio);
        }
        looked_at
    }

    /// What becomes of an isolated folio: where it goes if it stays (`shrink_folio_list`).
    fn try_to_evict(
        &mut self,
        scan: &mut Scan,
        kind: Kind,
        folio: &mut Folio,
        memory: &mut dyn Memory,
    ) -> Option<Entry> {
        if memory.take_references(folio.number) > 0 {
            self.look_around(scan, folio.number, memory);
            if note_mapped_use(&mut folio.flags) {
                return Some(Entry::Active);
            }
            return Some(self.entry_of_kept(kind, folio.number, memory));
        }
        match memory.evict(folio.number, self.shadow(kind, folio.flags), false) {
            Evicted::Freed => {
                self.note_eviction(kind, *folio);
                scan.reclaimed += folio.pages();
                None
            }
            Evicted::Writing => {
                scan.reclaimed += folio.pages();
                Some(Entry::Later)
            }
            Evicted::Dirty => Some(Entry::Active),
            Evicted::Busy | Evicted::Awaited => {
                Some(self.entry_of_kept(kind, folio.number, memory))
            }
        }
    }

    fn entry_of_kept(&self, kind: Kind, folio: u64, memory: &dyn Memory) -> Entry {
        match kind {
            Kind::Anonymous if !memory.is_in_swap_cache(folio) => Entry::Later,
            _ => Entry::Unused,
        }
    }

    /// Folios near one that was used are as likely to have been (`lru_gen_look_around`).
    fn look_around(&mut self, scan: &Scan, folio: u64, memory: &mut dyn Memory) {
        let lists = &self.lists;
        let listed = |folio| lists.list_of(folio).is_some();
        let Some(mut walked) = memory.look_around(folio, BATCH, &listed) else { return };
        walked.young.iter().for_each(|folio| self.promote(*folio, scan.walks));
        walked.young.push(folio);
        self.note_table(&walked);
    }

    /// Takes folios off the oldest generation of the kind whose turn it is, or of the other where that has no
    /// more than two (`isolate_folios`): the kind, pages looked at, and the folios.
    fn isolate(&mut self, target: u64, memory: &mut dyn Memory) -> (Kind, u64, Vec<Folio>) {
        let mut kind = self.kind_to_take();
        for _ in self.evictable() {
            let (looked_at, isolated) = self.isolate_of(kind, target, memory);
            if looked_at > 0 {
                return (kind, looked_at, isolated);
            }
            kind = KINDS[1 - kind as usize];
        }
        (kind, 0, Vec::new())
    }

    /// The kind that comes back less often, weighted by `swappiness` (`get_type_to_scan`).
    fn kind_to_take(&self) -> Kind {
        let files = MOST_SWAPPINESS.saturating_sub(self.swappiness);
        if self.swappiness <= 1 || files == 0 {
            return KINDS[usize::from(files > 0)];
        }
        let anonymous = Position::of(&self.tiers[Kind::Anonymous as usize], self.swappiness);
        let file = Position::of(&self.tiers[Kind::File as usize], files);
        KINDS[usize::from(anonymous.is_above(&file))]
    }

    /// The last tier of a kind that is not protected: each up to it comes back no more often than the first
    /// does, by half as much again (`get_tier_idx`).
    fn last_unprotected(&self, kind: Kind) -> usize {
        let tiers = &self.tiers[kind as usize];
        let first = Position::of(&tiers[..1], 2);
        let is_protected = |tier: &usize| !first.is_above(&Position::of(&tiers[*tier..=*tier], 3));
        (1..TIERS).find(is_protected).unwrap_or(TIERS) - 1
    }

    /// `scan_folios`.
    fn isolate_of(
        &mut self,
        kind: Kind,
        target: u64,
        memory: &mut dyn Memory,
    ) -> (u64, Vec<Folio>) {
        let (mut looked_at, mut isolated, mut pages) = (0, Vec::new(), 0);
        let last_tier = self.last_unprotected(kind);
        let mut left = target.min(MOST_SORTED);
        if self.sequences(kind).count() as u64 == LEAST {
            return (0, isolated);
        }
        let from = list(kind, self.oldest[kind as usize]);
        while left > 0
            && pages < BATCH
            && let Some(number) = self.lists.tail(from)
            && let Some((_, mut folio)) = self.take(number)
        {
            looked_at += folio.pages();
            left -= 1;
            if self.stays(kind, &folio, last_tier, memory) {
                self.move_on(kind, true, folio);
                continue;
            }
            if folio.flags & REFERENCED == 0 {
                folio.flags &= !USES;
            }
            pages += folio.pages();
            isolated.push(folio);
        }
        if isolated.is_empty() && left > 0 {
            looked_at = 0;
        }
        (looked_at, isolated)
    }

    /// Whether a folio of the oldest list is none to evict: promoted, protected, or one that has to be written
    /// first (`sort_folio`).
    fn stays(
        &mut self,
        kind: Kind,
        folio: &Folio,
        last_tier: usize,
        memory: &mut dyn Memory,
    ) -> bool {
        if generation(folio.flags) != self.oldest[kind as usize] % MOST || is_saturated(folio.flags)
        {
            return true;
        }
        let tier = tier_of(folio.flags);
        if tier > last_tier {
            self.tiers[kind as usize][tier].protected += folio.pages();
            return true;
        }
        memory.waits_for_write(folio.number)
    }

    /// A second one; the nodes are shared until written.
    pub fn fork(&mut self) -> Self {
        Generations {
            lists: self.lists.fork(),
            tables: self.tables.clone(),
            balancing: self.balancing.clone(),
            ..*self
        }
    }
}

impl Scan {
    fn new(who: Reclaimer, pages: u64) -> Self {
        Scan {
            who,
            wanted: who.wanted_pages(pages),
            reclaimed: 0,
            scanned: 0,
            priority: FIRST_PRIORITY,
            walks: matches!(who, Reclaimer::Background { .. }),
        }
    }

    /// `should_abort_scan`.
    fn may_stop(&self, memory: &dyn Memory) -> bool {
        match self.who {
            Reclaimer::Group => false,
            Reclaimer::Direct { .. } => self.reclaimed >= self.wanted,
            Reclaimer::Background { high_pages } => {
                self.reclaimed >= self.wanted || memory.free_pages() > high_pages + BATCH
            }
        }
    }
}

/// The oldest generation of its kind when a page was evicted, how often file calls had used it (1 at least), and
/// whether it belonged to the working set.
fn unpack(shadow: Shadow) -> (u64, u64, bool) {
    let token = shadow.0 - 1;
    (token >> 3, (token >> 1 & 3) + 1, token & 1 != 0)
}

#[cfg(test)]
mod tests;
