//! What a drive does when the host wants nothing: it collects blocks ahead of need.
//!
//! Once nothing has been asked for a while, each lane collects until it has as many erased blocks as it is
//! to have in reserve, or until no block is worth it. When the host asks for something, what flash does is
//! ended, and nothing more is begun: what remains of a block that is being collected waits for the next
//! pause, or until erased blocks are needed.

use super::{CollectionSpec, Event, Ssd};
use tierscope_kernel::Timeline;

counters! {
    /// What collection did while the host wanted nothing.
    pub struct IdleCounts {
        /// Blocks that were begun to be collected.
        pub collections,
        /// Erases that were begun.
        pub erases,
    }
}

/// Whether the host wants nothing, and since when.
#[derive(Clone, Debug)]
pub(super) struct Idle {
    after_ps: u64,
    /// Erased blocks that a lane is to have.
    reserve: u32,
    /// When the last of the host's wishes ended.
    since_ps: u64,
    /// How long a page has taken, in the mean of the latest in detail: for as long no pause begins where it takes no time.
    page_ps: u64,
    /// An event is to come that looks.
    announced: bool,
    /// It is a pause, and the drive makes use of it.
    works: bool,
    counts: IdleCounts,
}

impl Idle {
    /// For a drive that is to collect in pauses, if it is.
    pub(super) fn new(spec: &CollectionSpec) -> Option<Self> {
        let idle = spec.idle.as_ref()?;
        Some(Idle {
            after_ps: idle.after.picoseconds(),
            reserve: idle.free_blocks,
            since_ps: 0,
            page_ps: 0,
            announced: false,
            works: false,
            counts: IdleCounts::default(),
        })
    }
}

impl Ssd {
    /// What collection did in pauses.
    pub(super) fn idle_counts(&self) -> IdleCounts {
        self.idle.as_ref().map(|idle| idle.counts).unwrap_or_default()
    }

    /// The host wants something.
    #[inline]
    pub(super) fn end_pause(&mut self) {
        if let Some(idle) = &mut self.idle {
            idle.works = false;
        }
    }

    /// Something that the host wanted has ended: a pause may have begun.
    #[inline]
    pub(super) fn begin_pause(&mut self, now_ps: u64) {
        let Some(idle) = &mut self.idle else { return };
        if self.accesses.is_empty() && self.commands.is_empty() {
            idle.since_ps = now_ps + if self.is_warming { idle.page_ps } else { 0 };
            if !idle.announced {
                idle.announced = true;
                self.events.push(idle.since_ps + idle.after_ps, 0, Event::Pause);
            }
        }
    }

    /// A page has been moved for the host, after these stages.
    #[inline]
    pub(super) fn note_page(&mut self, stages: &Timeline) {
        const LATEST: u64 = 64;
        let Some(idle) = self.idle.as_mut().filter(|_| !self.is_warming) else { return };
        let took_ps = stages.total_ps();
        idle.page_ps = match idle.page_ps {
            0 => took_ps,
            mean_ps => mean_ps - mean_ps / LATEST + took_ps / LATEST,
        };
    }

    /// Time to look whether it is a pause still.
    pub(super) fn pause(&mut self, now_ps: u64) {
        let Some(idle) = &mut self.idle else { return };
        idle.announced = false;
        if !self.accesses.is_empty() || !self.commands.is_empty() {
            return;
        }
        let begins_ps = idle.since_ps + idle.after_ps;
        if begins_ps > now_ps {
            idle.announced = true;
            self.events.push(begins_ps, 0, Event::Pause);
            return;
        }
        idle.works = true;
        for lane in 0..self.work.len() as u32 {
            // Nothing of what the host wrote is on its way any more.
            self.layer.offer_early(lane);
            self.go_on_collecting(lane);
            self.collect(lane);
        }
    }

    /// Power fails: no pause is under way, and none announced.
    pub(super) fn forget_pause(&mut self) {
        if let Some(idle) = &mut self.idle {
            (idle.announced, idle.works) = (false, false);
        }
    }

    /// Erased blocks that a lane is to have now.
    #[inline]
    pub(super) fn wanted_blocks(&self) -> u32 {
        match &self.idle {
            Some(idle) if idle.works => self.free_blocks.max(idle.reserve),
            _ => self.free_blocks,
        }
    }

    /// Whether what a lane collects may go on: a pause, or need.
    #[inline]
    pub(super) fn may_collect(&self, lane: u32) -> bool {
        self.idle.as_ref().is_none_or(|idle| idle.works)
            || self.layer.free_blocks(lane) < self.free_blocks
    }

    /// A lane begins to collect a block, or to erase one: those ahead of need are counted.
    pub(super) fn note_idle_work(&mut self, lane: u32, erases: bool) {
        let ahead = self.layer.free_blocks(lane) >= self.free_blocks;
        if let Some(idle) = self.idle.as_mut().filter(|_| ahead) {
            let counts = &mut idle.counts;
            *(if erases { &mut counts.erases } else { &mut counts.collections }) += 1;
        }
    }
}

#[cfg(test)]
mod tests;
