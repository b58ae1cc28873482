//! Hardware prefetchers: lines that nobody has asked for yet go from main memory into the shared caches, or into a core's
//! own from wherever they are. Those are misses like others, for which nobody waits yet.

use super::causes::Cause;
use super::core::Flow;
use super::memory::Miss;
use super::thread::{Access, Begun, Place};
use super::{Core, Doing, Event, Machine};
use tierscope_kernel::{Stage, Timeline};
use tierscope_model::os::paging::Area;
use tierscope_model::request::{LineRequest, LineResponse};

/// Whether a miss is of a prefetcher, and who has come for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ahead {
    /// An access's own.
    No,
    /// Nobody has come yet.
    Alone,
    /// Accesses wait for it.
    Joined,
    /// Its page was given to a device since: what comes is of the page before.
    Stale,
}

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

impl Core {
    /// The miss of a line that is on its way for the core's prefetcher, and has not come by another meanwhile.
    #[inline]
    pub(super) fn coming(&self, line: u64) -> Option<u32> {
        let (_, id) = self.ahead.iter().find(|(coming, _)| *coming == line)?;
        (!self.caches.contains(line)).then_some(*id)
    }

    /// The first level has not had a line: the prefetcher into the core's own caches names lines, or none.
    #[inline]
    pub(super) fn looks_ahead(&mut self, line: u64, ahead: &mut Vec<u64>) -> bool {
        match &mut self.prefetcher {
            Some(prefetcher) if prefetcher.is_private() => {
                prefetcher.observe(line, ahead);
                !ahead.is_empty()
            }
            _ => false,
        }
    }
}

impl Machine {
    /// A core's private caches ask the shared ones for a line, who know by `at_ps` whether they have it:
    /// its prefetcher learns of it.
    pub(super) fn watch_for_prefetch(&mut self, core: usize, line: u64, at_ps: u64) {
        let prefetcher = self.cores[core].prefetcher.as_mut();
        let Some(prefetcher) = prefetcher.filter(|it| !it.is_private()) else { return };
        prefetcher.observe(line, &mut self.ahead);
        self.send_ahead(core, at_ps);
    }

    /// The first level of a core has not had a line, as is known by `at_ps`: its prefetcher learns of it.
    #[inline]
    pub(super) fn look_ahead(&mut self, core: usize, line: u64, at_ps: u64) {
        if self.cores[core].looks_ahead(line, &mut self.ahead) {
            self.send_ahead(core, at_ps);
        }
    }

    /// What a core's prefetcher has named leaves the core, as late as an access does.
    pub(super) fn post_ahead(&mut self, index: usize, now_ps: u64) {
        self.send_ahead(self.contexts[index].core, now_ps + self.fixed.lookahead_ps);
    }

    fn send_ahead(&mut self, core: usize, at_ps: u64) {
        let source = self.memory_source();
        for line in self.ahead.drain(..) {
            self.queue.push(at_ps, source, Event::Prefetch(core as u32, line));
        }
    }

    /// A walk and its access, or an access whose address another gave, were served by the core's own caches.
    pub(super) fn served_by_own(
        &mut self,
        index: usize,
        level: Option<usize>,
        (line, at_ps): (u64, u64),
    ) {
        if level > Some(0) {
            self.look_ahead(self.contexts[index].core, line, at_ps);
        }
    }

    /// A prefetcher asks main memory for a line, unless it is there or on its way, or memory has no room:
    /// demand goes first.
    pub(super) fn ask_ahead(&mut self, core: usize, line: u64, now_ps: u64) {
        let state = &mut self.cores[core];
        let Some(prefetcher) = &state.prefetcher else { return };
        if prefetcher.is_private() {
            return self.ask_into_own(core, line, now_ps);
        }
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

    /// A prefetcher asks for a line into its core's own caches, unless it is there, or somebody waits for it.
    fn ask_into_own(&mut self, core: usize, line: u64, now_ps: u64) {
        let state = &self.cores[core];
        let Some(prefetcher) = &state.prefetcher else { return };
        let own = self.contexts.iter().filter(|context| context.core == core);
        let mut pending = own.flat_map(|context| &context.pending);
        // Not by what has yet to learn its address.
        let mut is_asked =
            || pending.any(|(pending, id)| *pending == line && self.misses[*id].behind.is_none());
        if state.caches.contains(line)
            || state.coming(line).is_some()
            || self.coherence.is_wanted(line, false)
            || is_asked()
        {
            return;
        }
        if state.ahead.len() >= prefetcher.outstanding() as usize {
            if !self.shared.contains(line) {
                self.refused_ahead.saw(1);
            }
            return;
        }
        let first = core * self.fixed.threads_per_core;
        let place = Place::Physical(line << self.fixed.line_shift);
        let by = (first, self.contexts[first].thread);
        let begun = Begun { start_ps: now_ps, timeline: Timeline::new(), fault: None };
        let cause = Cause { area: Area::REST, site: 0 };
        let mut miss = Miss::new(by, line, (Access::kernel(place, false), cause), begun);
        (miss.ahead, miss.clock_ps) = (Ahead::Alone, now_ps);
        let id = self.misses.insert(miss);
        self.cores[core].ahead.push((line, id));
        self.arrive_at_shared(id, now_ps);
    }

    /// A prefetch into a core's own caches has come as far as main memory: whether it goes there as any miss does, as
    /// somebody waits for it. If not, it goes only where there is room, as demand goes first.
    pub(super) fn goes_ahead(&mut self, id: u32, now_ps: u64) -> bool {
        let Miss { context, wanted: line, ahead, .. } = self.misses[id];
        if ahead == Ahead::Joined {
            self.account.prefetches += 1;
            self.account.late_prefetches += 1;
            self.refused_ahead.saw(0);
            return true;
        }
        let core = self.contexts[context].core as u16;
        let address = line << self.fixed.line_shift;
        let request = LineRequest { id, core, address, write: false, version: 0 };
        let goes = ahead == Ahead::Alone
            && self.outgoing.is_empty()
            && self.organization.submit(now_ps, request).is_ok();
        if ahead == Ahead::Alone {
            self.refused_ahead.saw(u64::from(!goes));
        }
        if goes {
            self.line_misses.insert(line, id);
            self.account.prefetches += 1;
        } else {
            let miss = self.misses.remove(id);
            self.leave_ahead(id, &miss);
            self.leave_transit(id, line, &miss.timeline, now_ps);
        }
        false
    }

    /// The first level has not had a line that is on its way for its core's prefetcher: the access waits for the rest.
    pub(super) fn join_ahead(
        &mut self,
        index: usize,
        access: Access,
        id: u32,
        tlb_ps: u64,
    ) -> Flow {
        if self.misses[id].ahead == Ahead::Alone {
            let context = &mut self.contexts[index];
            let area = context.area_of(&self.paging, &self.fixed, &access);
            let site = self.threads[context.thread].site;
            let miss = &mut self.misses[id];
            (miss.ahead, miss.cause) = (Ahead::Joined, Cause { area, site });
            let (core, line) = (context.core, miss.line);
            // Where memory has not been asked yet it is counted as it is.
            let is_asked = self.line_misses.get(&line) == Some(&id);
            self.account.late_prefetches += u64::from(is_asked);
            self.account.beyond_first += 1;
            if self.cores[core].looks_ahead(line, &mut self.ahead) {
                let now_ps = self.contexts[index].now_ps;
                self.post_ahead(index, now_ps);
            }
        }
        self.merge(index, access, id, tlb_ps)
    }

    /// A miss has come for a line that main memory has been asked for by a prefetch.
    pub(super) fn follows_ahead(&mut self, id: u32, first: u32) {
        let core = |miss: u32| self.contexts[self.misses[miss].context].core;
        if self.misses[first].ahead == Ahead::Alone && core(id) == core(first) {
            let cause = self.misses[id].cause;
            let miss = &mut self.misses[first];
            (miss.ahead, miss.cause) = (Ahead::Joined, cause);
            self.account.late_prefetches += 1;
        }
    }

    fn leave_ahead(&mut self, id: u32, miss: &Miss) {
        let core = self.contexts[miss.context].core;
        self.cores[core].ahead.retain(|(_, coming)| *coming != id);
    }

    /// A prefetch into a core's own caches has ended: whoever waits for it goes on.
    pub(super) fn end_ahead(&mut self, id: u32, miss: &Miss, now_ps: u64) {
        self.leave_ahead(id, miss);
        if miss.ahead != Ahead::Joined {
            return;
        }
        let core = self.contexts[miss.context].core;
        for index in 0..self.contexts.len() {
            let context = &mut self.contexts[index];
            // A thread that was switched away from may have come back elsewhere.
            if context.core != core && !self.fixed.tells {
                continue;
            }
            context.window.finish(id, now_ps);
            if context.doing == Doing::Stalled(id) {
                self.end_stall(index, miss, now_ps);
            }
        }
        let away = self.threads.iter_mut().filter_map(|thread| thread.away.as_mut());
        away.for_each(|away| away.window.finish(id, now_ps));
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
    pub(super) fn forget_prefetches(&mut self, first: u64, last: u64, now_ps: u64) {
        for core in 0..self.cores.len() {
            for at in (0..self.cores[core].ahead.len()).rev() {
                let (line, id) = self.cores[core].ahead[at];
                if (first..=last).contains(&line) && self.misses[id].ahead == Ahead::Alone {
                    self.cores[core].ahead.remove(at);
                    self.forget_ahead(id, line, now_ps);
                }
            }
        }
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

    fn forget_ahead(&mut self, id: u32, line: u64, now_ps: u64) {
        let miss = &mut self.misses[id];
        miss.ahead = Ahead::Stale;
        let stages = miss.timeline;
        if self.line_misses.get(&line) == Some(&id) {
            self.line_misses.remove(&line);
        }
        self.leave_transit(id, line, &stages, now_ps);
    }

    /// In functional warming the lines are in the core's own caches at once, as far as in detail there was room.
    pub(super) fn warm_into_own(&mut self, core: usize, line: u64, now_ps: u64) {
        if !self.cores[core].looks_ahead(line, &mut self.ahead) {
            return;
        }
        let mut ahead = std::mem::take(&mut self.ahead);
        for line in ahead.drain(..) {
            if self.cores[core].caches.contains(line) {
                continue;
            }
            let mut alone = self.is_off_chip(line);
            if !alone && self.shared.access(line, &mut self.dropped).is_none() {
                alone = !self.another_holds(core, line);
                self.account.cache_transfers += u64::from(!alone);
            }
            if alone && !self.warm_from_memory(core, line, now_ps) {
                continue;
            }
            let caches = &mut self.cores[core].caches;
            caches.fill_ahead(line, 0, &mut self.evicted);
            caches.set_shared(line, false);
            self.note_on_chip(line);
            self.claim(core, line, (false, false), now_ps);
            self.warm_evicted(now_ps);
        }
        self.ahead = ahead;
    }

    /// In functional warming main memory gives a line to the shared caches, if in detail there was room; whether it did.
    fn warm_from_memory(&mut self, core: usize, line: u64, now_ps: u64) -> bool {
        let has_room = self.refused_ahead.next(&mut self.refused_left) == 0;
        if has_room {
            self.account.prefetches += 1;
            self.account.late_prefetches += self.late_ahead.next(&mut self.late_left);
            self.warm_in_memory(core, line, false, now_ps);
            self.shared.fill(line, false, 0, &mut self.dropped);
        }
        has_room
    }

    /// In functional warming the lines are in the shared caches at once, as far as in detail there was room.
    pub(super) fn warm_ahead(&mut self, core: usize, line: u64, now_ps: u64) {
        let prefetcher = self.cores[core].prefetcher.as_mut();
        let Some(prefetcher) = prefetcher.filter(|it| !it.is_private()) else { return };
        prefetcher.observe(line, &mut self.ahead);
        let mut ahead = std::mem::take(&mut self.ahead);
        for line in ahead.drain(..) {
            if !self.shared.contains(line) && self.warm_from_memory(core, line, now_ps) {
                self.note_on_chip(line);
            }
        }
        self.ahead = ahead;
    }
}
