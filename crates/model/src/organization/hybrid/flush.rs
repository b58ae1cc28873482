//! Flushing dirty pages to the store, on the order of a memory-mapped register (\[HYB15\] §3.2).

use super::action::Action;
use super::controller::{Controller, FILLING, READING, append_tail};
use super::write_back::WriteBack;
use crate::cache::{Place, WayRef, flag};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tierscope_kernel::Timeline;

/// A flush under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flush {
    pages: Pages,
    /// Write-backs that it waits for.
    outstanding: usize,
    /// It has seen all its pages.
    seen_all: bool,
    /// When the last of them had reached the store, or it began.
    since_ps: u64,
}

impl Flush {
    /// One of its write-backs has reached the store; the time since the one before it.
    fn written(&mut self, now_ps: u64) -> u64 {
        self.outstanding -= 1;
        now_ps - std::mem::replace(&mut self.since_ps, now_ps)
    }
}

/// What is left to be looked at.
#[derive(Clone, Copy, Debug)]
enum Pages {
    /// All frames from this one on.
    Frames(u64),
    /// A range of pages, which also leave DRAM if `invalidate`.
    Range { next: u64, end: u64, invalidate: bool },
}

impl Controller {
    /// Writes every dirty page back, without removing it from DRAM; true once the store has
    /// completed the last. The first call begins the flush; it is to be repeated, at any later
    /// time, until it says true.
    ///
    /// A flush is for what was written before it began: pages that are written to while it is under
    /// way may stay dirty. The walk over the tags takes no time.
    pub fn flush(&mut self, now_ps: u64, actions: &mut Vec<Action>) -> bool {
        let idle = self.write_backs.len() == 0 && self.tags.dirty_lines() == 0;
        if self.flush.is_none() && idle {
            self.flush_stages = Timeline::new();
            return true;
        }
        self.flush_pages(now_ps, Pages::Frames(0), actions)
    }

    /// A write-back that a flush waits for has reached the store: since the one before it, the flush has waited for
    /// what this one went through at last.
    pub(super) fn flush_goes_on(&mut self, now_ps: u64, stages: &Timeline) {
        if let Some(flush) = &mut self.flush {
            let wait_ps = flush.written(now_ps);
            append_tail(&mut self.flush_stages, stages, wait_ps);
        }
    }

    /// Where the time of the last flush went, up to the last write-back that has reached the store.
    pub(super) fn flush_stages(&self) -> Timeline {
        self.flush_stages
    }

    /// How long a flush would take of a store of so many units, in writes of a page: as many are under way at a time as
    /// the buffer holds, each behind those before it of its unit.
    pub(super) fn flush_writes(&self, units: u64) -> u64 {
        let room = self.write_backs.capacity() - self.places_kept(true);
        let (mut units, mut under_way) = (vec![0; units as usize], BinaryHeap::new());
        let (mut now, mut from) = (0, 0);
        while let Some((way, page)) = self.tags.next_dirty(from) {
            from = self.tags.frame(way) + 1;
            let first = page << (self.page_shift - self.sector_shift);
            let dirty = self.dirty_sectors(way);
            for sector in (0..64).filter(|sector| dirty >> sector & 1 == 1) {
                if under_way.len() >= room {
                    now = under_way.pop().map_or(now, |Reverse(end)| end);
                }
                let unit = (first + sector) as usize % units.len();
                units[unit] = now.max(units[unit]) + 1;
                under_way.push(Reverse(units[unit]));
            }
        }
        units.into_iter().max().unwrap_or(0)
    }

    /// As [`Controller::flush`], for the pages that hold `bytes` bytes from `address` on; with
    /// `invalidate` they leave DRAM, too, unless they are in use.
    pub fn flush_range(
        &mut self,
        now_ps: u64,
        address: u64,
        bytes: u64,
        invalidate: bool,
        actions: &mut Vec<Action>,
    ) -> bool {
        let page_bytes = u64::from(self.page_bytes());
        let end = address.saturating_add(bytes).div_ceil(page_bytes);
        let pages = Pages::Range { next: address / page_bytes, end, invalidate };
        self.flush_pages(now_ps, pages, actions)
    }

    fn flush_pages(&mut self, now_ps: u64, pages: Pages, actions: &mut Vec<Action>) -> bool {
        if self.flush.is_none() {
            let outstanding = self.write_backs.mark_for_flush();
            self.flush = Some(Flush { pages, outstanding, seen_all: false, since_ps: now_ps });
            self.flush_stages = Timeline::new();
            self.go_on_flushing(now_ps, actions);
        }
        let done = self.flush.is_some_and(|flush| flush.seen_all && flush.outstanding == 0);
        if done {
            self.flush = None;
            // Lines around the cache go together again.
            self.unblock(now_ps);
        }
        done
    }

    /// Writes back as many pages as find room, leaving some to demand.
    pub(super) fn go_on_flushing(&mut self, now_ps: u64, actions: &mut Vec<Action>) {
        self.flush_on(now_ps, actions);
        // Pages that are thrown away have left their ways.
        self.unblock(now_ps);
    }

    fn flush_on(&mut self, now_ps: u64, actions: &mut Vec<Action>) {
        while let Some(flush) = self.flush.filter(|flush| !flush.seen_all) {
            let next = match flush.pages {
                Pages::Frames(from) => self.next_frame(now_ps, from, actions),
                Pages::Range { next, end, .. } if next >= end => None,
                Pages::Range { next, end, invalidate } => {
                    self.next_of_range(now_ps, (next, end), invalidate, actions)
                }
            };
            let Some(flush) = self.flush.as_mut() else { return };
            match next {
                Some(Step::Wait) => return,
                Some(Step::On(pages)) => flush.pages = pages,
                None => flush.seen_all = true,
            }
        }
    }

    fn next_frame(&mut self, now_ps: u64, from: u64, actions: &mut Vec<Action>) -> Option<Step> {
        let (way, page) = self.tags.next_dirty(from)?;
        if !self.write_back_in_place(now_ps, (page, way), false, actions) {
            return Some(Step::Wait);
        }
        Some(Step::On(Pages::Frames(self.tags.frame(way) + 1)))
    }

    fn next_of_range(
        &mut self,
        now_ps: u64,
        (next, end): (u64, u64),
        invalidate: bool,
        actions: &mut Vec<Action>,
    ) -> Option<Step> {
        if let Some(way) = self.tags.lookup(next) {
            let flags = self.tags.flags(way);
            if flags & flag::DIRTY != 0 {
                if !self.write_back_in_place(now_ps, (next, way), invalidate, actions) {
                    return Some(Step::Wait);
                }
            } else if invalidate {
                if flags & flag::PINNED != 0 {
                    return Some(Step::Wait);
                }
                self.tags.invalidate(next);
            }
        }
        Some(Step::On(Pages::Range { next: next + 1, end, invalidate }))
    }

    /// Writes a dirty page back that stays in its frame, pinned until it has been read; false if
    /// it has to wait.
    fn write_back_in_place(
        &mut self,
        now_ps: u64,
        (page, way): (u64, WayRef),
        invalidate: bool,
        actions: &mut Vec<Action>,
    ) -> bool {
        let in_use = self.tags.flags(way) & (flag::PINNED | FILLING) != 0;
        if in_use || !self.write_backs.has_room(self.places_kept(true)) {
            return false;
        }
        let sectors = self.take_dirty(way);
        self.tags.set_flags(way, flag::PINNED | READING);
        let index = self.evict(now_ps, (page, sectors), way, &Timeline::new(), actions);
        self.write_backs[index].invalidate = invalidate;
        true
    }

    /// Writes the page back that would go next for `sector`, which has just come, if it is dirty and
    /// the write-back buffer has room to spare: who takes its way then need not wait.
    pub(super) fn write_back_ahead(&mut self, now_ps: u64, sector: u64, actions: &mut Vec<Action>) {
        let room = self.write_backs.capacity().div_ceil(2);
        if !self.eager_write_back || !self.write_backs.has_room(room) {
            return;
        }
        if let Some((way, page)) = self.next_to_go(sector) {
            self.write_back_in_place(now_ps, (page, way), false, actions);
        }
    }

    /// The dirty page that would go next from the set of `sector`, which is there.
    pub(super) fn next_to_go(&self, sector: u64) -> Option<(WayRef, u64)> {
        match self.tags.place(self.page_of(sector)) {
            Place::Taken(way, victim) if victim.dirty() => victim.line.map(|page| (way, page)),
            _ => None,
        }
    }

    /// Whether a write-back that begins now is one that a flush waits for: until it has seen all its pages, one that
    /// makes room for another page may be of a page that it has not come to.
    pub(super) fn concerns_flush(&mut self) -> bool {
        let flush = self.flush.as_mut().filter(|flush| !flush.seen_all);
        flush.map(|flush| flush.outstanding += 1).is_some()
    }

    /// A page that stays in its frame has been read.
    pub(super) fn release_flushed(&mut self, item: &WriteBack) {
        let Some(way) = item.way else { return };
        self.tags.clear_flags(way, READING);
        if self.any_comes(way) {
            return;
        }
        self.tags.clear_flags(way, flag::PINNED);
        if item.invalidate && self.tags.flags(way) & flag::DIRTY == 0 {
            self.tags.invalidate(item.page);
        }
    }
}

/// What a flush does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Goes on when something has become free.
    Wait,
    /// Goes on with these.
    On(Pages),
}
