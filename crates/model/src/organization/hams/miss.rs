//! Misses: the clone of a dirty victim, and the commands that follow it.

use super::action::{Action, Use};
use super::command::Kind;
use super::manager::{BUSY, FILLING, Manager};
use super::versions::{Mover, Spot};
use crate::cache::WayRef;
use crate::organization::hybrid::append_tail;
use crate::power::Weakness;
use tierscope_kernel::{Stage, Timeline};

/// Evictions of a flush under way at most.
pub(super) const FLUSHES: u32 = 4;
/// Parts of a page that the engine copies at a time.
const COPIES: u32 = 4;

/// A page on its way into the NVDIMM, or one that a flush writes to the drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Miss {
    /// The page that comes; of a flush, the one that goes.
    pub page: u64,
    pub way: WayRef,
    /// Whether a page comes.
    pub fills: bool,
    /// The dirty page that goes, and the slot of its clone.
    pub victim: Option<(u64, u32)>,
    /// Parts of the victim that are being copied, or have been.
    copying: u32,
    copied: u32,
    commands_left: u32,
    /// Stages up to its commands, which were given at `charged_ps`.
    stages: Timeline,
    charged_ps: u64,
}

impl Miss {
    /// Of which nothing has been done.
    pub(super) fn new(
        now_ps: u64,
        (page, way): (u64, WayRef),
        fills: bool,
        victim: Option<(u64, u32)>,
    ) -> Self {
        Miss {
            page,
            way,
            fills,
            victim,
            copying: 0,
            copied: 0,
            commands_left: u32::from(fills) + u32::from(victim.is_some()),
            stages: Timeline::new(),
            charged_ps: now_ps,
        }
    }

    /// Whether parts of the page that goes are still to be copied.
    pub(super) fn is_cloning(&self, parts: u32) -> bool {
        self.victim.is_some() && self.copied < parts
    }
}

impl Manager {
    /// A request begins a miss into a frame from which a dirty page may have to go, or stands still.
    pub(super) fn begin(
        &mut self,
        now_ps: u64,
        slot: u32,
        way: WayRef,
        dirty: Option<u64>,
        actions: &mut Vec<Action>,
    ) {
        if !self.has_room(dirty.is_some()) {
            return self.stall(slot);
        }
        self.report.counts.fills += 1;
        let page = self.held[slot].address >> self.shape.page_shift;
        if dirty.is_none() {
            self.begin_filling(way, page);
        }
        self.enter_wait_queue(slot, way.set(), actions);
        self.start(now_ps, (page, way), true, dirty, actions);
    }

    /// Sets B, and clones the page that goes, if one does.
    fn start(
        &mut self,
        now_ps: u64,
        (page, way): (u64, WayRef),
        fills: bool,
        dirty: Option<u64>,
        actions: &mut Vec<Action>,
    ) {
        self.tags.set_flags(way, BUSY);
        self.write_tag(way.set(), actions);
        let commands_left = u32::from(fills) + u32::from(dirty.is_some());
        self.queues.promise(u64::from(commands_left));
        let victim = dirty.map(|victim| {
            self.report.counts.evictions += 1;
            self.report.counts.clones += 1;
            let Some(slot) = self.queues.take_slot() else {
                unreachable!("a miss begins only where there is a slot for its victim")
            };
            (victim, slot)
        });
        let index = self.misses.insert(Miss::new(now_ps, (page, way), fills, victim));
        if victim.is_some() && !self.weaknesses.has(Weakness::NoClones) {
            self.copy_more(index, actions);
        } else {
            self.give_commands(now_ps, index, actions);
        }
    }

    // ---- Clone ----------------------------------------------------------------------------------

    /// Where a part of a victim lies, where it is copied to, and its bytes.
    fn clone_part(&self, index: u32, part: u32) -> (u64, u64, u32) {
        let miss = &self.misses[index];
        let slot = miss.victim.map_or(0, |(_, slot)| slot);
        let bytes = self.shape.part_bytes;
        let offset = u64::from(part) * u64::from(bytes);
        (self.layout.frame(miss.way.set()) + offset, self.layout.slot(slot) + offset, bytes)
    }

    fn copy_more(&mut self, index: u32, actions: &mut Vec<Action>) {
        let parts = self.shape.parts();
        while let Miss { copying, copied, .. } = self.misses[index]
            && copying < parts.min(copied + COPIES)
        {
            self.misses[index].copying += 1;
            let (from, into, bytes) = self.clone_part(index, copying);
            if let Some(versions) = &mut self.versions {
                let mover = Mover::Clone(index, copying);
                let way = (Spot::Memory(from), Spot::Memory(into));
                versions.begin(mover, way, u64::from(bytes), 0);
            }
            self.report.counts.clone_bytes += 2 * u64::from(bytes);
            let what = Use::CloneRead { miss: index, part: copying };
            self.memory(what, (from, bytes), false, true, actions);
        }
    }

    pub(super) fn clone_read(&mut self, miss: u32, part: u32, actions: &mut Vec<Action>) {
        let (_, into, bytes) = self.clone_part(miss, part);
        self.memory(Use::CloneWrite { miss, part }, (into, bytes), true, true, actions);
    }

    pub(super) fn cloned(&mut self, now_ps: u64, index: u32, part: u32, actions: &mut Vec<Action>) {
        if let Some(versions) = &mut self.versions {
            versions.end(Mover::Clone(index, part));
        }
        let miss = &mut self.misses[index];
        miss.copied += 1;
        if miss.copied < self.shape.parts() {
            return self.copy_more(index, actions);
        }
        miss.stages.push(Stage::Dram, now_ps - miss.charged_ps);
        miss.charged_ps = now_ps;
        self.give_commands(now_ps, index, actions);
    }

    // ---- Commands -------------------------------------------------------------------------------

    /// The write of the victim goes first.
    pub(super) fn give_commands(&mut self, now_ps: u64, index: u32, actions: &mut Vec<Action>) {
        let Miss { victim, fills, .. } = self.misses[index];
        if victim.is_some() {
            self.give_command(now_ps, index, Kind::Evict, actions);
        }
        if fills {
            self.give_command(now_ps, index, Kind::Fill, actions);
        }
    }

    /// The write of a victim stands in the submission queue, and so survives a failure of power: the entry
    /// of its frame is the other page's, or clean, from now on.
    pub(super) fn victim_is_safe(&mut self, index: u32) {
        let Miss { page, way, fills, .. } = self.misses[index];
        if fills {
            self.tags.clear_flags(way, BUSY);
            self.begin_filling(way, page);
        } else {
            self.tags.clear_dirty(way);
        }
    }

    /// A command's completion has been consumed. `stages` are its own; those of the one that ends last are
    /// the miss's.
    pub(super) fn command_ended(
        &mut self,
        now_ps: u64,
        index: u32,
        kind: Kind,
        stages: &Timeline,
        actions: &mut Vec<Action>,
    ) {
        let miss = &mut self.misses[index];
        miss.commands_left -= 1;
        if kind == Kind::Evict
            && !self.weaknesses.has(Weakness::EarlyCompletion)
            && let Some((_, slot)) = miss.victim
        {
            self.queues.free_slot(slot);
        }
        if self.misses[index].commands_left > 0 {
            return self.go_on(now_ps, actions);
        }
        let Miss { way, fills, charged_ps, stages: mut all, .. } = self.misses.remove(index);
        append_tail(&mut all, stages, now_ps - charged_ps);
        self.flushing -= u32::from(!fills);
        self.touch_frame(way);
        self.tags.clear_flags(way, BUSY | FILLING);
        self.write_tag(way.set(), actions);
        self.wake(now_ps, way.set(), &all, actions);
    }

    // ---- Flush ----------------------------------------------------------------------------------

    /// Writes every dirty page to the drive from now on; true once none is left.
    pub fn flush(&mut self, now_ps: u64, actions: &mut Vec<Action>) -> bool {
        while self.flushing < FLUSHES && self.queues.has_room(1, 1) {
            let Some((way, page)) = self.next_dirty() else { break };
            self.flush_from = self.tags.frame(way) + 1;
            self.flushing += 1;
            self.start(now_ps, (page, way), false, Some(page), actions);
        }
        // A victim of a miss is dirty until its write stands in the submission queue, and not in the
        // drive before the miss is over.
        self.tags.dirty_lines() == 0 && self.misses.iter().all(|(_, miss)| miss.victim.is_none())
    }

    /// The next dirty page that no command concerns, from where the last one was on, around.
    fn next_dirty(&mut self) -> Option<(WayRef, u64)> {
        for _ in 0..2 {
            while let Some((way, page)) = self.tags.next_dirty(self.flush_from) {
                if self.tags.flags(way) & BUSY == 0 {
                    return Some((way, page));
                }
                self.flush_from = self.tags.frame(way) + 1;
            }
            self.flush_from = 0;
        }
        None
    }
}
