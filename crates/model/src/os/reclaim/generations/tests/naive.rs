//! Generations as vectors in which all is searched: no flags in bits, no numbers modulo four, nothing counted
//! ahead of need.

use super::super::super::{Evicted, Kind, Memory, ReclaimCounters, Reclaimer, Shadow, Walked};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

#[derive(Clone, Copy, Debug)]
struct Folio {
    kind: usize,
    /// The generation that it belongs to, and the one in whose list it is.
    sequence: u64,
    place: u64,
    referenced: bool,
    more_uses: u64,
    workingset: bool,
}

impl Folio {
    fn uses(&self) -> u64 {
        if self.referenced { 1 + self.more_uses } else { 0 }
    }

    fn tier(&self) -> usize {
        tier(self.uses(), self.workingset)
    }

    fn is_saturated(&self) -> bool {
        self.referenced && self.more_uses == 3 && self.workingset
    }

    /// Whether a second use by page tables is seen.
    fn note_mapped_use(&mut self) -> bool {
        if self.referenced || self.workingset {
            (self.referenced, self.more_uses, self.workingset) = (false, 0, true);
            return true;
        }
        (self.referenced, self.more_uses) = (true, 0);
        false
    }

    fn forget_uses(&mut self) {
        (self.referenced, self.more_uses) = (false, 0);
    }
}

fn tier(uses: u64, workingset: bool) -> usize {
    match (uses, workingset) {
        (_, true) => 3,
        (0 | 1, _) => 0,
        (2, _) => 1,
        _ => 2,
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Tier {
    refaulted: u64,
    total: u64,
    mean_refaulted: u64,
    mean_total: u64,
}

struct Scan {
    wanted: u64,
    reclaimed: u64,
    scanned: u64,
    priority: u32,
    by_walk: bool,
}

pub struct Naive {
    folios: BTreeMap<u64, Folio>,
    /// By kind and generation, the next to go first.
    lists: BTreeMap<(usize, u64), Vec<u64>>,
    youngest: u64,
    oldest: [u64; 2],
    tiers: [[Tier; 4]; 2],
    tables: Option<BTreeSet<u64>>,
    swappiness: u64,
    awake: Option<Scan>,
    pub counters: ReclaimCounters,
}

impl Naive {
    pub fn new(swappiness: u64) -> Naive {
        Naive {
            folios: BTreeMap::new(),
            lists: BTreeMap::new(),
            youngest: 3,
            oldest: [0, 0],
            tiers: Default::default(),
            tables: None,
            swappiness,
            awake: None,
            counters: ReclaimCounters::default(),
        }
    }

    pub fn sequences(&self, kind: Kind) -> RangeInclusive<u64> {
        self.oldest[kind as usize]..=self.youngest
    }

    pub fn list(&self, kind: Kind, sequence: u64) -> Vec<u64> {
        self.lists.get(&(kind as usize, sequence)).cloned().unwrap_or_default()
    }

    pub fn sequence_of(&self, folio: u64) -> Option<u64> {
        self.folios.get(&folio).map(|folio| folio.sequence)
    }

    pub fn pages(&self, kind: Kind, sequence: u64) -> u64 {
        let of = |folio: &&Folio| folio.kind == kind as usize && folio.sequence == sequence;
        self.folios.values().filter(of).count() as u64
    }

    fn all_pages(&self) -> u64 {
        let counts = |folio: &&Folio| self.swappiness > 0 || folio.kind == 1;
        self.folios.values().filter(counts).count() as u64
    }

    fn kinds(&self) -> Vec<usize> {
        if self.swappiness == 0 { vec![1] } else { vec![0, 1] }
    }

    fn oldest_of_kinds(&self) -> u64 {
        self.kinds().into_iter().map(|kind| self.oldest[kind]).min().unwrap()
    }

    fn back(&self, kind: usize, generations: u64) -> u64 {
        (self.youngest - generations).max(self.oldest[kind])
    }

    fn put(&mut self, number: u64, sequence: u64, last: bool, mut folio: Folio) {
        (folio.sequence, folio.place) = (sequence, sequence);
        let list = self.lists.entry((folio.kind, sequence)).or_default();
        list.insert(if last { list.len() } else { 0 }, number);
        self.folios.insert(number, folio);
    }

    fn take(&mut self, number: u64) -> Option<Folio> {
        let folio = self.folios.remove(&number)?;
        let list = self.lists.get_mut(&(folio.kind, folio.place)).unwrap();
        list.retain(|other| *other != number);
        Some(folio)
    }

    pub fn add(&mut self, number: u64, kind: Kind, shadow: Shadow, in_fault: bool) {
        let mut folio = Folio {
            kind: kind as usize,
            sequence: 0,
            place: 0,
            referenced: false,
            more_uses: 0,
            workingset: false,
        };
        if shadow != Shadow(0) {
            self.counters.refaults += 1;
            let word = shadow.0 - 1;
            let (oldest, more_uses, workingset) = (word / 8, word / 2 % 4, word % 2 == 1);
            if self.youngest.abs_diff(oldest) <= 3 {
                let tier = tier(more_uses + 1, workingset);
                self.tiers[folio.kind][tier].refaulted += 1;
                self.counters.refaults_activated += u64::from(in_fault);
                folio.workingset = workingset;
                folio.more_uses = if workingset { 0 } else { more_uses };
            }
        }
        let place = match (in_fault, folio.workingset) {
            (true, true) => 0,
            (true, false) => 1,
            (false, true) => 2,
            (false, false) => 3,
        };
        self.put(number, self.back(folio.kind, place), true, folio);
    }

    pub fn remove(&mut self, number: u64) {
        self.take(number);
    }

    pub fn mark_accessed(&mut self, number: u64) {
        let Some(folio) = self.folios.get_mut(&number) else { return };
        if !folio.referenced {
            (folio.referenced, folio.more_uses) = (true, 0);
        } else if folio.more_uses < 3 {
            folio.more_uses += 1;
        } else {
            folio.workingset = true;
        }
    }

    pub fn rotate(&mut self, number: u64) {
        if let Some(folio) = self.take(number) {
            self.put(number, self.back(folio.kind, 3), false, folio);
        }
    }

    fn shadow(&self, folio: &Folio) -> Shadow {
        let more = folio.uses().max(1) - 1;
        Shadow(1 + self.oldest[folio.kind] * 8 + more * 2 + u64::from(folio.workingset))
    }

    pub fn leave(&mut self, number: u64) -> Shadow {
        let Some(folio) = self.take(number) else { return Shadow(0) };
        self.tiers[folio.kind][folio.tier()].total += 1;
        self.shadow(&folio)
    }

    fn age(&mut self, memory: &mut dyn Memory) {
        let mut found = Vec::new();
        memory.walk(self.tables.as_ref(), self.swappiness > 0, &mut |walked| found.push(walked));
        self.tables = Some(BTreeSet::new());
        for Walked { table, entries, young } in found {
            young.iter().for_each(|number| self.use_mapped(*number, true));
            if 8 * young.len() as u64 >= entries {
                self.tables.as_mut().unwrap().insert(table);
            }
        }
        for kind in [0, 1] {
            let oldest = self.oldest[kind];
            if self.youngest - oldest < 3 {
                continue;
            }
            let list = self.lists.remove(&(kind, oldest)).unwrap_or_default();
            if !self.kinds().contains(&kind) {
                // The oldest generation becomes the youngest: both have the same number modulo four.
                for number in &list {
                    let folio = self.folios.get_mut(number).unwrap();
                    folio.place += 4;
                }
                let all = self.folios.values_mut().filter(|folio| folio.kind == kind);
                all.filter(|folio| folio.sequence == oldest).for_each(|folio| folio.sequence += 4);
                self.lists.insert((kind, oldest + 4), list);
            } else {
                for number in list {
                    let mut folio = self.folios.remove(&number).unwrap();
                    if !folio.is_saturated() {
                        self.tiers[kind][folio.tier()].total += 1;
                    }
                    let mut sequence = folio.sequence;
                    if sequence == oldest {
                        sequence += 1;
                        folio.forget_uses();
                    }
                    self.put(number, sequence, false, folio);
                }
            }
            self.end_generation(kind);
            self.oldest[kind] += 1;
        }
        for kind in [Kind::Anonymous, Kind::File] {
            self.counters.deactivations += self.pages(kind, self.youngest - 1);
        }
        self.youngest += 1;
    }

    fn end_generation(&mut self, kind: usize) {
        for tier in &mut self.tiers[kind] {
            let mean_refaulted = (tier.mean_refaulted + tier.refaulted) / 2;
            let mean_total = (tier.mean_total + tier.total) / 2;
            *tier = Tier { mean_refaulted, mean_total, refaulted: 0, total: 0 };
        }
    }

    fn use_mapped(&mut self, number: u64, by_walk: bool) {
        let Some(folio) = self.folios.get_mut(&number) else { return };
        let was = folio.sequence;
        if !folio.note_mapped_use() || was == self.youngest {
            return;
        }
        self.counters.activations += u64::from(was + 1 < self.youngest);
        if by_walk {
            folio.sequence = self.youngest;
        } else {
            let folio = self.take(number).unwrap();
            self.put(number, self.youngest, true, folio);
        }
    }

    fn new_scan(who: Reclaimer, pages: u64) -> Scan {
        Scan {
            wanted: pages.max(32),
            reclaimed: 0,
            scanned: 0,
            priority: 12,
            by_walk: matches!(who, Reclaimer::Background { .. }),
        }
    }

    pub fn shrink(&mut self, who: Reclaimer, pages: u64, memory: &mut dyn Memory) -> u64 {
        let mut scan = Naive::new_scan(who, pages);
        loop {
            if who != Reclaimer::Group {
                self.first_priority(&mut scan);
            }
            self.pass(who, &mut scan, memory);
            if scan.reclaimed >= scan.wanted || scan.priority == 0 {
                return scan.reclaimed;
            }
            scan.priority -= 1;
        }
    }

    pub fn balance(&mut self, high: u64, memory: &mut dyn Memory) -> bool {
        let who = Reclaimer::Background { high_pages: high };
        let mut scan = self.awake.take().unwrap_or_else(|| Naive::new_scan(who, high));
        if memory.free_pages() >= high {
            return false;
        }
        let (reclaimed, scanned) = (scan.reclaimed, scan.scanned);
        scan.reclaimed = 0;
        self.first_priority(&mut scan);
        self.pass(who, &mut scan, memory);
        if scan.reclaimed == 0 || scan.scanned - scanned < scan.wanted {
            scan.priority -= 1;
        }
        scan.reclaimed += reclaimed;
        let goes_on = memory.free_pages() < high && scan.priority > 0;
        if goes_on {
            self.awake = Some(scan);
        }
        goes_on
    }

    fn first_priority(&self, scan: &mut Scan) {
        if scan.priority == 12 && scan.wanted >= 64 {
            let old = |folio: &&Folio| folio.sequence + 1 < self.youngest;
            let inactive = self.folios.values().filter(old).count() as f64;
            let of_inactive = if inactive < 1.0 { -1 } else { inactive.log2().floor() as i32 };
            let of_wanted = (scan.wanted as f64).log2().ceil() as i32;
            scan.priority = (of_inactive - of_wanted).clamp(6, 12) as u32;
        }
    }

    fn pass(&mut self, who: Reclaimer, scan: &mut Scan, memory: &mut dyn Memory) {
        let mut looked_at = 0;
        loop {
            let apart = self.youngest - self.oldest_of_kinds();
            let pages = if apart < 2 { 0 } else { self.all_pages() };
            if apart <= 2 && scan.priority < 12 {
                self.age(memory);
                scan.by_walk = true;
                return;
            }
            let target = pages >> scan.priority;
            if target == 0 {
                return;
            }
            let more = self.evict(scan, target, memory);
            looked_at += more;
            let enough = match who {
                Reclaimer::Group => false,
                Reclaimer::Direct { .. } => scan.reclaimed >= scan.wanted,
                Reclaimer::Background { high_pages } => {
                    scan.reclaimed >= scan.wanted || memory.free_pages() > high_pages + 64
                }
            };
            if more == 0 || looked_at >= target || enough {
                return;
            }
        }
    }

    /// How often pages of some tiers came back, and of how many.
    fn rate(&self, kind: usize, tiers: RangeInclusive<usize>) -> (u128, u128) {
        let tiers = &self.tiers[kind][tiers];
        let refaulted = tiers.iter().map(|tier| u128::from(tier.mean_refaulted + tier.refaulted));
        let total = tiers.iter().map(|tier| u128::from(tier.mean_total + tier.total));
        (refaulted.sum(), total.sum())
    }

    fn next_kind(&self) -> usize {
        if self.swappiness < 2 || self.swappiness == 200 {
            return usize::from(self.swappiness < 2);
        }
        let (anonymous, file) = (self.rate(0, 0..=3), self.rate(1, 0..=3));
        let weights = (u128::from(self.swappiness), u128::from(200 - self.swappiness));
        usize::from(
            file.0 < 64
                || file.0 * (anonymous.1 + 64) * weights.0
                    <= (anonymous.0 + 1) * file.1 * weights.1,
        )
    }

    fn goes(&self, kind: usize, tier: usize) -> bool {
        let first = self.rate(kind, 0..=0);
        (1..=tier).all(|tier| {
            let other = self.rate(kind, tier..=tier);
            other.0 < 64 || other.0 * (first.1 + 64) * 2 <= (first.0 + 1) * other.1 * 3
        })
    }

    fn isolate(
        &mut self,
        kind: usize,
        target: u64,
        memory: &mut dyn Memory,
    ) -> (u64, Vec<(u64, Folio)>) {
        let oldest = self.oldest[kind];
        if self.youngest - oldest < 2 {
            return (0, Vec::new());
        }
        let goes = [0, 1, 2, 3].map(|tier| self.goes(kind, tier));
        let (mut looked_at, mut isolated) = (0, Vec::new());
        let most = target.min(4096);
        while looked_at < most && isolated.len() < 64 {
            let list = self.lists.entry((kind, oldest)).or_default();
            let Some(number) = list.first().copied() else { break };
            looked_at += 1;
            let mut folio = self.take(number).unwrap();
            if folio.sequence != oldest {
                self.put(number, folio.sequence, true, folio);
            } else if folio.is_saturated() || !goes[folio.tier()] || memory.waits_for_write(number)
            {
                if !folio.is_saturated() && !goes[folio.tier()] {
                    self.tiers[kind][folio.tier()].total += 1;
                }
                folio.forget_uses();
                self.put(number, oldest + 1, true, folio);
            } else {
                if !folio.referenced {
                    folio.more_uses = 0;
                }
                isolated.push((number, folio));
            }
        }
        if isolated.is_empty() && looked_at < most { (0, isolated) } else { (looked_at, isolated) }
    }

    fn evict(&mut self, scan: &mut Scan, target: u64, memory: &mut dyn Memory) -> u64 {
        let mut kind = self.next_kind();
        let (mut looked_at, mut isolated) = self.isolate(kind, target, memory);
        if looked_at == 0 && self.swappiness > 0 {
            kind = 1 - kind;
            (looked_at, isolated) = self.isolate(kind, target, memory);
        }
        if self.leave_empty() {
            looked_at += 1;
        }
        if self.youngest - self.oldest_of_kinds() < 2 {
            looked_at = 0;
        }
        let mut back = Vec::new();
        for (number, mut folio) in isolated {
            scan.scanned += 1;
            self.counters.scanned_pages += 1;
            let kept = if kind == 0 && !memory.is_in_swap_cache(number) { 1 } else { 3 };
            let mut active = false;
            let mut place = if folio.workingset && kept == 3 { 2 } else { kept };
            if memory.take_references(number) > 0 {
                let listed: BTreeSet<u64> = self.folios.keys().copied().collect();
                if let Some(walked) =
                    memory.look_around(number, 64, &|folio| listed.contains(&folio))
                {
                    walked.young.iter().for_each(|other| self.use_mapped(*other, scan.by_walk));
                    let dense = 8 * (1 + walked.young.len() as u64) >= walked.entries;
                    if let Some(tables) = self.tables.as_mut().filter(|_| dense) {
                        tables.insert(walked.table);
                    }
                }
                active = folio.note_mapped_use();
            } else {
                match memory.evict(number, self.shadow(&folio), false) {
                    Evicted::Freed => {
                        scan.reclaimed += 1;
                        self.tiers[kind][folio.tier()].total += 1;
                        continue;
                    }
                    Evicted::Writing => {
                        scan.reclaimed += 1;
                        place = 1;
                    }
                    Evicted::Busy | Evicted::Awaited => {}
                    Evicted::Dirty => active = true,
                }
            }
            back.push((number, folio, place, active));
        }
        for (number, mut folio, place, mut active) in back {
            if !active && self.back(kind, place) == self.oldest[kind] {
                active = true;
                folio.forget_uses();
            }
            self.counters.activations += u64::from(active);
            let place = if active { u64::from(!folio.workingset) } else { place };
            self.put(number, self.back(kind, place), true, folio);
        }
        looked_at
    }

    fn leave_empty(&mut self) -> bool {
        let mut oldest = self.oldest;
        for kind in self.kinds() {
            let is_empty =
                |sequence: &u64| self.lists.get(&(kind, *sequence)).is_none_or(Vec::is_empty);
            let empty = (oldest[kind]..self.youngest - 1).take_while(is_empty).count();
            oldest[kind] += empty as u64;
        }
        if self.swappiness > 0 {
            let limit = self.youngest - 2;
            for kind in [0, 1] {
                if oldest[kind] > limit && oldest[1 - kind] < limit {
                    oldest[kind] = limit;
                }
            }
        }
        let mut any = false;
        for kind in self.kinds() {
            if oldest[kind] > self.oldest[kind] {
                self.end_generation(kind);
                self.oldest[kind] = oldest[kind];
                any = true;
            }
        }
        any
    }
}
