//! Two nodes of memory, DRAM and a slower one: where frames come from, scans that take entries away, pages that
//! move to DRAM when they are hot, and those that move out of it to make room (mm/migrate.c, mm/vmscan.c and
//! kernel/sched/fair.c of Linux 6.18). How hot a page has to be is [`crate::os::tiering`]'s to say.
//!
//! Anonymous pages that one virtual page maps move; all others stay where they are.

use super::*;
use crate::os::reclaim::{Evicted, Kind, Memory, Shadow};
use crate::os::tiering::{Balancer, BalancingSpec};

/// DRAM.
const NEAR: usize = 0;
/// The slower memory.
const FAR: usize = 1;

/// How often `scan_size` a scan may look at entries without finding one to take away (`task_numa_work`).
const SCAN_IN_VAIN: u64 = 8;
/// The kernel ages anonymous memory alone, so that any value serves.
const SWAPPINESS: u32 = 60;

/// What the kernel keeps for two nodes.
#[derive(Clone, Debug)]
pub(super) struct Tiers {
    spec: BalancingSpec,
    balancer: Balancer,
    /// Frames of DRAM; those of the slower memory follow.
    near: u64,
    /// Of DRAM, and of the slower memory.
    marks: [Marks; 2],
    /// By frame: when its entry was taken away.
    protected_ps: CowMap<u64>,
    /// The virtual page with which the next scan begins, and when it does.
    scan_from: u64,
    scan_period_ps: Option<u64>,
    is_scheduled: bool,
    /// Frames of DRAM whose pages are being moved out of it.
    leaving: u64,
}

/// Free frames of a node at which something begins or ends (`__setup_per_zone_wmarks`, mm/page_alloc.c).
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    min: u64,
    low: u64,
    high: u64,
    /// So many are to be free for pages that come from the slower memory (`WMARK_PROMO`).
    promotion: u64,
}

impl Marks {
    /// Of a node's share of all memory.
    fn new(all: Watermarks, node: u64, total: u64, scale: f64) -> Self {
        let min = (u128::from(all.min) * u128::from(node) / u128::from(total.max(1))) as u64;
        let step = (min / 4).max((node as f64 * scale) as u64);
        Marks { min, low: min + step, high: min + 2 * step, promotion: min + 3 * step }
    }
}

impl Tiers {
    pub(super) fn fork(&mut self) -> Self {
        Tiers { protected_ps: self.protected_ps.fork(), spec: self.spec.clone(), ..*self }
    }
}

/// A scan of entries for hot pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// When the next is due.
    pub next_ps: u64,
    /// Translations were taken away.
    pub shot_down: bool,
}

/// Pages that the kernel's thread has begun to move out of DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demoted {
    /// It has more to do.
    pub goes_on: bool,
    /// What it waits for first.
    pub transfer: Option<TransferId>,
}

/// Moves pages out of DRAM that reclaim has chosen.
struct Demoter<'a> {
    paging: &'a mut Paging,
    held: &'a dyn Fn(u64) -> bool,
    /// Whether a line of a frame is on its way to a core.
    in_use: &'a dyn Fn(u64) -> bool,
    moves: Vec<PageTransfer>,
}

impl Memory for Demoter<'_> {
    fn take_references(&mut self, folio: u64) -> u64 {
        let info = self.paging.frames.get_mut(folio);
        u64::from(std::mem::take(&mut info.young))
    }

    fn held(&self, folio: u64) -> bool {
        let page = self.paging.frames.get(folio).mapped_at;
        page != Frame::UNMAPPED && (self.held)(page)
    }

    fn evict(&mut self, folio: u64, _: Shadow, _: bool) -> Evicted {
        if (self.in_use)(folio) {
            return Evicted::Busy;
        }
        match self.paging.demote_page(folio) {
            Some(page) => {
                self.moves.push(page);
                Evicted::Freed
            }
            None => Evicted::Busy,
        }
    }

    fn free_pages(&self) -> u64 {
        let tiers = self.paging.tiers.as_ref().map_or(0, |tiers| tiers.leaving);
        self.paging.frames.free_on(NEAR) + tiers + self.moves.len() as u64
    }
}

impl Paging {
    /// Memory is two nodes, of which DRAM has the first `near_bytes`; pages move between them where `spec` says how.
    /// To be called before any frame is given out.
    pub fn add_nodes(
        &mut self,
        spec: Option<&BalancingSpec>,
        near_bytes: u64,
        allocation: crate::os::Allocation,
        seed: u64,
    ) {
        let near = near_bytes / self.page_bytes;
        self.frames.split(near, allocation, seed);
        self.nodes = 2;
        let Some(spec) = spec else { return };
        self.reclaim = Reclaim::new(
            ReclaimPolicy::ActiveInactive,
            SWAPPINESS,
            self.frames.total(),
            self.page_bytes,
        );
        self.tiers = Some(Box::new(Tiers {
            spec: spec.clone(),
            balancer: Balancer::new(spec, self.page_bytes),
            near,
            marks: [Marks::default(); 2],
            protected_ps: CowMap::new(0),
            scan_from: 0,
            scan_period_ps: None,
            is_scheduled: false,
            leaving: 0,
        }));
        self.set_marks();
    }

    /// The watermarks of both nodes, of what is not the kernel's from the start.
    pub(super) fn set_marks(&mut self) {
        let managed = [NEAR, FAR].map(|node| match node < self.nodes {
            true => self.frames.managed_on(node),
            false => 0,
        });
        let total = managed[NEAR] + managed[FAR];
        let all = Watermarks::new(total, self.page_bytes, (0.0, false));
        if let Some(tiers) = &mut self.tiers {
            let scale = tiers.spec.watermark_scale;
            tiers.marks = managed.map(|node| Marks::new(all, node, total, scale));
        }
    }

    /// Whether two nodes have pages moved between them.
    #[inline]
    pub fn moves_between_nodes(&self) -> bool {
        self.tiers.is_some()
    }

    /// What telling cores to forget translations costs the one that tells, and each other.
    pub fn shootdown_paths(&self) -> Option<(crate::os::PathSpec, crate::os::PathSpec)> {
        let spec = &self.tiers.as_ref()?.spec;
        Some((spec.shootdown, spec.shootdown_interrupt))
    }

    /// A frame of either node, DRAM as long as it has enough (`get_page_from_freelist`, mm/page_alloc.c): then the
    /// slower memory, and when both are short of frames, what is left of either.
    pub(super) fn allocate_of_nodes(&mut self, owner: Owner) -> Option<u64> {
        let marks = self.tiers.as_ref().map_or([Marks::default(); 2], |tiers| tiers.marks);
        let has = |paging: &Paging, node: usize, mark: u64| paging.frames.free_on(node) > mark;
        let node = if has(self, NEAR, marks[NEAR].low) {
            NEAR
        } else if has(self, FAR, marks[FAR].low) {
            FAR
        } else {
            self.wakes.reclaim |= self.tiers.as_ref().is_some_and(|tiers| tiers.spec.demotion);
            let left = [(NEAR, marks[NEAR].min), (FAR, marks[FAR].min), (NEAR, 0), (FAR, 0)];
            left.into_iter().find(|(node, mark)| has(self, *node, *mark))?.0
        };
        let frame = self.frames.allocate_on(node, owner)?;
        self.add_to_lists(frame, owner);
        Some(frame)
    }

    /// Reclaim looks at anonymous pages of DRAM, which can move.
    pub(super) fn add_to_lists(&mut self, frame: u64, owner: Owner) {
        let is_near = self.frames.node_of(frame) == NEAR;
        let is_left_out = !is_near || self.frames.get(frame).locked;
        if self.tiers.is_some() && !is_left_out && matches!(owner, Owner::Anonymous(_)) {
            self.reclaim.add(frame, 0, Kind::Anonymous, Shadow::default(), self.in_fault);
        }
    }

    /// Whether a page may move: it is anonymous memory of one virtual page that nobody is busy with.
    fn can_move(&self, frame: u64) -> bool {
        let info = self.frames.get(frame);
        let is_alone = info.sharers == 0 && info.mapped_at != Frame::UNMAPPED;
        matches!(info.owner, Owner::Anonymous(_))
            && is_alone
            && info.transfer == 0
            && info.users == 0
    }

    /// The first scan is to be made some time after the workload has begun.
    pub fn schedule_scans(&mut self) {
        if let Some(tiers) = self.tiers.as_mut().filter(|tiers| !tiers.is_scheduled) {
            tiers.is_scheduled = true;
            let delay_ps = tiers.spec.scan_delay.picoseconds();
            self.wakes.scan_at_ps = Some(self.now_ps.saturating_add(delay_ps));
        }
    }

    /// Takes entries of pages of the slower memory away, from where the scan before ended (`task_numa_work`,
    /// `change_pte_range`).
    pub fn scan(&mut self, now_ps: u64, work: &mut Vec<Work>) -> Scanned {
        let Some(mut tiers) = self.tiers.take() else {
            return Scanned { next_ps: u64::MAX, shot_down: false };
        };
        let chunk = (tiers.spec.scan_size.bytes() / self.page_bytes).max(1);
        let period_ps = *tiers.scan_period_ps.get_or_insert_with(|| {
            // `task_scan_min`: a scan in so much time that all of memory has its turn within the period.
            let used = self.frames.total() - self.frames.free();
            let windows = used.div_ceil(chunk).max(1);
            let bytes = u128::from(tiers.spec.scan_size.bytes());
            let rate = u128::from(tiers.spec.scan_limit.bytes_per_second());
            let least_ps = (bytes * 1_000_000_000_000 / rate) as u64;
            (tiers.spec.scan_period.picoseconds() / windows).max(least_ps).max(1)
        });
        let (mut looked, mut taken) = (0u64, Vec::new());
        let mut next = 0;
        for (page, entry) in self.space.entries_from(tiers.scan_from) {
            let is_over = !taken.is_empty() || looked >= SCAN_IN_VAIN * chunk;
            if looked > 0 && looked.is_multiple_of(chunk) && is_over {
                next = page;
                break;
            }
            looked += 1;
            if let Pte::Present { frame, .. } = entry
                && self.frames.node_of(frame) == FAR
                && !self.frames.get(frame).protected
                && self.can_move(frame)
            {
                taken.push((page, frame));
            }
        }
        tiers.scan_from = next;
        self.counters.scanned_entries += looked;
        self.counters.protected_pages += taken.len() as u64;
        work.push(Work::Own(tiers.spec.scan_entry, looked as u32));
        for (_, frame) in &taken {
            self.frames.get_mut(*frame).protected = true;
            tiers.protected_ps.set(*frame, now_ps);
        }
        if let (Some((first, _)), Some((last, _))) = (taken.first(), taken.last()) {
            self.effects.push(Effect::Flush(*first..last + 1));
            work.push(Work::Own(tiers.spec.shootdown, 1));
        }
        self.tiers = Some(tiers);
        Scanned { next_ps: now_ps.saturating_add(period_ps), shot_down: !taken.is_empty() }
    }

    /// An access to a page whose entry was taken away (`do_numa_page`): what it waits for, if the page moves.
    pub(super) fn hint_fault(
        &mut self,
        page: u64,
        frame: u64,
        now_ps: u64,
        work: &mut Vec<Work>,
    ) -> Option<TransferId> {
        if let Some(id) = self.frames.get(frame).transfer.checked_sub(1) {
            return Some(id);
        }
        self.counters.hint_faults += 1;
        self.frames.get_mut(frame).protected = false;
        let tiers = self.tiers.as_mut()?;
        let (marks, free) = (tiers.marks[NEAR], self.frames.free_on(NEAR));
        let enough = (tiers.spec.free_enough.bytes() / self.page_bytes)
            .max(self.frames.managed_on(NEAR) / 16);
        let latency_ps = now_ps.saturating_sub(tiers.protected_ps.get(frame));
        let much_is_free = free > marks.promotion + enough;
        let (candidates, demotes) = (tiers.balancer.candidates(), tiers.spec.demotion);
        let promotes = tiers.balancer.promotes(now_ps, latency_ps, much_is_free);
        self.counters.promotion_candidates += tiers.balancer.candidates() - candidates;
        if !promotes || !self.can_move(frame) {
            return None;
        }
        if free <= marks.high + 1 {
            // `migrate_misplaced_folio_prepare`: it may come when there is room.
            self.wakes.reclaim |= demotes;
            return None;
        }
        self.promote(page, frame, work)
    }

    /// A page moves to DRAM; whoever has accessed it copies it.
    fn promote(&mut self, page: u64, from: u64, work: &mut Vec<Work>) -> Option<TransferId> {
        let migrate = self.tiers.as_ref()?.spec.migrate;
        let to = self.frames.allocate_on(NEAR, Owner::Anonymous(page))?;
        let pages = vec![PageTransfer { frame: to, store_address: 0 }];
        let id = self.start_move(pages, Moves::Promotion);
        self.move_page(page, from, to, id);
        self.add_to_lists(to, Owner::Anonymous(page));
        self.keep(to);
        self.counters.promoted_pages += 1;
        work.push(Work::Own(migrate, 1));
        work.push(Work::MovePage { transfer: id, from, to });
        Some(id)
    }

    /// A page that is to leave DRAM, if it may and there is room: where it goes.
    fn demote_page(&mut self, from: u64) -> Option<PageTransfer> {
        let tiers = self.tiers.as_ref()?;
        let (near, min) = (tiers.near, tiers.marks[FAR].min);
        let page = self.frames.get(from).mapped_at;
        if !self.can_move(from) || self.frames.free_on(FAR) <= min {
            return None;
        }
        let to = self.frames.allocate_on(FAR, Owner::Anonymous(page))?;
        // Its transfer is numbered when all are known.
        self.move_page(page, from, to, u32::MAX - 1);
        self.effects.push(Effect::Shootdown(page));
        Some(PageTransfer { frame: from, store_address: (to - near) * self.page_bytes })
    }

    /// Frame of the slower memory that a page of DRAM moves to.
    pub fn far_frame(&self, page: &PageTransfer) -> u64 {
        let near = self.tiers.as_ref().map_or(0, |tiers| tiers.near);
        near + page.store_address / self.page_bytes
    }

    /// A virtual page is at another frame, whose content is on its way; the one before is given to nobody until then.
    fn move_page(&mut self, page: u64, from: u64, to: u64, id: TransferId) {
        let Pte::Present { writable, .. } = self.space.get(page) else { return };
        let info = self.frames.get(from);
        *self.frames.get_mut(to) = Frame {
            owner: Owner::Anonymous(page),
            transfer: id + 1,
            protected: true,
            users: 0,
            ..info
        };
        self.forget_strays(from);
        self.space.set(page, Pte::Present { frame: to, writable });
        self.frames.keep(from);
        self.frames.release(from);
    }

    fn start_move(&mut self, pages: Vec<PageTransfer>, moves: Moves) -> TransferId {
        self.transfers.insert(Transfer {
            left: pages.len() as u32,
            pages,
            write: moves == Moves::Demotion,
            submitted: false,
            swap: true,
            moves,
            leaving: 0,
            cut_files: Vec::new(),
        })
    }

    /// The kernel's thread makes room in DRAM, a pass at a time (`demote_folio_list`). `in_use` says whether a line of
    /// a frame is on its way to a core, which keeps the page where it is.
    pub fn demote(
        &mut self,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
        in_use: &dyn Fn(u64) -> bool,
    ) -> Demoted {
        let Some(tiers) = &self.tiers else { return Demoted { goes_on: false, transfer: None } };
        let (wanted, migrate, shootdown) =
            (tiers.marks[NEAR].promotion, tiers.spec.migrate, tiers.spec.shootdown);
        let mut lists = std::mem::replace(&mut self.reclaim, Reclaim::nothing());
        let mut demoter = Demoter { paging: self, held, in_use, moves: Vec::new() };
        // One more than is wanted: a page that comes needs more than the mark.
        let goes_on = lists.balance(wanted + 2, &mut demoter);
        let moves = demoter.moves;
        self.reclaim = lists;
        if moves.is_empty() {
            return Demoted { goes_on, transfer: None };
        }
        let count = moves.len() as u64;
        let id = self.start_move(moves.clone(), Moves::Demotion);
        for page in &moves {
            let to = self.far_frame(page);
            self.frames.get_mut(to).transfer = id + 1;
        }
        if let Some(tiers) = &mut self.tiers {
            tiers.leaving += count;
        }
        self.counters.demoted_pages += count;
        work.push(Work::Own(migrate, count as u32));
        work.push(Work::Own(shootdown, 1));
        work.push(Work::Submit(id));
        Demoted { goes_on: false, transfer: Some(id) }
    }

    /// Pages have moved to another node: they can be used there.
    pub(super) fn finish_move(&mut self, transfer: &Transfer) {
        for page in &transfer.pages {
            let mut to = page.frame;
            if transfer.moves == Moves::Demotion {
                to = self.far_frame(page);
                self.frames.let_go(page.frame);
                if let Some(tiers) = &mut self.tiers {
                    tiers.leaving -= 1;
                }
            }
            let info = self.frames.get_mut(to);
            (info.transfer, info.protected) = (0, false);
            if info.owner == Owner::Free {
                self.release(to);
            }
        }
    }
}

#[cfg(test)]
mod tests;
