//! Hardware prefetchers: lines that nobody has asked for yet go from main memory into the shared caches.

use super::{Event, Machine};
use tierscope_kernel::Stage;
use tierscope_model::request::{LineRequest, LineResponse};

/// Requests with this bit, and what waits for a line with it, are prefetches.
pub(super) const PREFETCH: u32 = 1 << 31;

/// A prefetch under way.
#[derive(Clone, Debug)]
pub(super) struct Prefetch {
    core: usize,
    line: u64,
    /// Misses that came for the line meanwhile.
    pub followers: Vec<u32>,
    /// Its page was given to a device since: what comes is of the page before.
    stale: bool,
}

impl Machine {
    /// A core's private caches ask the shared ones for a line, who know by `at_ps` whether they have it:
    /// its prefetcher learns of it.
    pub(super) fn watch_for_prefetch(&mut self, core: usize, line: u64, at_ps: u64) {
        let Some(prefetcher) = &mut self.cores[core].prefetcher else { return };
        prefetcher.observe(line, &mut self.ahead);
        let source = self.memory_source();
        for line in self.ahead.drain(..) {
            self.queue.push(at_ps, source, Event::Prefetch(core as u32, line));
        }
    }

    /// A prefetcher asks main memory for a line, unless it is there or on its way, or memory has no room:
    /// demand goes first.
    pub(super) fn ask_ahead(&mut self, core: usize, line: u64, now_ps: u64) {
        let state = &mut self.cores[core];
        let Some(prefetcher) = &state.prefetcher else { return };
        if self.line_misses.contains_key(&line) || self.shared.contains(line) {
            return;
        }
        let room = state.prefetching < prefetcher.outstanding() && self.outgoing.is_empty();
        self.refused_ahead.saw(u64::from(!room));
        if !room {
            return;
        }
        let prefetch = Prefetch { core, line, followers: Vec::new(), stale: false };
        let id = PREFETCH | self.prefetches.insert(prefetch);
        let address = line << self.fixed.line_shift;
        let request = LineRequest { id, core: core as u16, address, write: false, version: 0 };
        if self.organization.submit(now_ps, request).is_err() {
            self.prefetches.remove(id & !PREFETCH);
            return;
        }
        self.cores[core].prefetching += 1;
        self.line_misses.insert(line, id);
        self.account.prefetches += 1;
    }

    /// The line of a prefetch arrives: the shared caches have it, and so have those who came for it.
    pub(super) fn prefetch_arrived(&mut self, response: &LineResponse) {
        let prefetch = self.prefetches.remove(response.id & !PREFETCH);
        let (line, at_ps) = (prefetch.line, response.at_ps);
        self.cores[prefetch.core].prefetching -= 1;
        self.late_ahead.saw(prefetch.followers.len() as u64);
        // Those at the door have waited for this answer, which makes room.
        self.room_made(response);
        let mut version = response.version;
        if !prefetch.stale {
            self.line_misses.remove(&line);
            self.shared.fill(line, false, response.version, &mut self.dropped);
            self.note_on_chip(line);
            self.send_dropped(at_ps);
            version = self.shared.version(line);
        }
        for miss in prefetch.followers {
            let entry = &mut self.misses[miss];
            entry.pass_as(&response.stages, Stage::ControllerQueue, at_ps);
            entry.version = version;
            self.arrive(miss, at_ps);
        }
    }

    /// A device reads or writes lines `first` to `last`: what is on its way for a prefetch is not kept.
    pub(super) fn forget_prefetches(&mut self, first: u64, last: u64) {
        if self.prefetches.is_empty() {
            return;
        }
        let ids: Vec<u32> = self
            .line_misses
            .range(first..=last)
            .map(|(_, id)| *id)
            .filter(|id| id & PREFETCH != 0)
            .collect();
        for id in ids {
            let prefetch = &mut self.prefetches[id & !PREFETCH];
            prefetch.stale = true;
            self.line_misses.remove(&prefetch.line);
        }
    }

    /// In functional warming the lines are in the shared caches at once, as far as in detail there was room.
    pub(super) fn warm_ahead(&mut self, core: usize, line: u64, now_ps: u64) {
        let Some(prefetcher) = &mut self.cores[core].prefetcher else { return };
        prefetcher.observe(line, &mut self.ahead);
        let mut ahead = std::mem::take(&mut self.ahead);
        for line in ahead.drain(..) {
            if !self.shared.contains(line) && self.refused_ahead.next(&mut self.refused_left) == 0 {
                self.account.prefetches += 1;
                self.account.late_prefetches += self.late_ahead.next(&mut self.late_left);
                self.warm_in_memory(core, line, false, now_ps);
                self.shared.fill(line, false, 0, &mut self.dropped);
                self.note_on_chip(line);
            }
        }
        self.ahead = ahead;
    }
}
