//! Coherence of the cores' private caches: MESI, with a directory beside the shared caches that knows who
//! holds what.
//!
//! Only events change what several cores hold: a miss that arrives at the shared caches asks the others, who
//! give up the line (a store) or keep it clean and shared (a load). From then until the line is at its core it
//! is in transit, and who wants it otherwise waits in line. Whether a store may go on in its own core's caches
//! is known there, so that batches need not look elsewhere.

use super::memory::Miss;
use super::prefetch::Ahead;
use super::thread::Way;
use super::{Event, Machine};
use tierscope_kernel::{Stage, Timeline};
use tierscope_model::processor::ProcessorSpec;
use tierscope_model::processor::on_chip::DirtyLine;

/// Lines between the shared caches and cores, and what a line costs beyond its way to the shared caches.
#[derive(Clone, Debug)]
pub(super) struct Coherence {
    /// Time of a line from another core, and until others have given one up, after the request has
    /// arrived at the shared caches.
    transfer_ps: u64,
    pub invalidation_ps: u64,
    /// Cores that have had a thread; the caches of the others are empty.
    pub active_cores: u32,
    pub transit: Vec<Transit>,
    /// Lines that a lone core has written as a whole, and that inclusive shared caches have yet to learn of.
    included: Vec<u64>,
    /// Misses that wait for a line in transit, in order.
    waiting: Vec<(u64, u32)>,
}

/// A line on its way to a core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transit {
    pub line: u64,
    pub miss: u32,
    pub core: usize,
    pub write: bool,
    /// A level of the shared caches that has dropped it since, and is inclusive: the line serves what it was
    /// asked for, and goes.
    pub recalled: Option<usize>,
}

/// In functional warming, a core has taken a line, to write it or not: from the shared caches, where no other core had
/// written it, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    core: u32,
    write: bool,
    from_shared: bool,
}

/// What other cores had of a line.
#[derive(Clone, Copy, Debug, Default)]
struct Others {
    held: bool,
    /// The version of a line that one of them has written.
    written: Option<u64>,
    /// The version of a copy.
    copy: Option<u64>,
}

/// Where a miss gets its line, if not from shared caches or main memory: after this time, with this version.
#[derive(Clone, Copy, Debug)]
struct Served {
    after_ps: u64,
    version: u64,
}

impl Coherence {
    /// Of a processor whose last private level answers after `private_ps`.
    pub fn new(processor: &ProcessorSpec, private_ps: u64, ps: impl Fn(u32) -> u64) -> Self {
        let beyond_ps = |cycles| ps(cycles).saturating_sub(private_ps);
        let costs = processor.coherence.as_ref();
        Coherence {
            transfer_ps: costs.map_or(0, |costs| beyond_ps(costs.transfer_cycles)),
            invalidation_ps: costs.map_or(0, |costs| beyond_ps(costs.invalidation_cycles)),
            active_cores: 0,
            transit: Vec::new(),
            included: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Whether who asks for a line would have to wait, behind those who wait already or as [`Coherence::conflicts`] has it.
    pub fn is_wanted(&self, line: u64, write: bool) -> bool {
        let behind = self.waiting.iter().any(|(other, _)| *other == line);
        behind || self.conflicts(line, write)
    }

    /// Whether a core's request for a line has to wait for one under way: not for loads among themselves.
    fn conflicts(&self, line: u64, write: bool) -> bool {
        self.transit.iter().any(|other| other.line == line && (write || other.write))
    }
}

impl Machine {
    /// A miss arrives at the shared caches. It waits while its line is on its way to a core that excludes it,
    /// and behind those that wait already.
    pub(super) fn arrive_at_shared(&mut self, id: u32, now_ps: u64) {
        let (line, write) = self.misses[id].wants();
        let Miss { context, walk_left, ahead, way, whole_line, .. } = self.misses[id];
        if walk_left == 0 && ahead == Ahead::No && way == Way::Caches && !whole_line {
            self.look_ahead(self.contexts[context].core, line, now_ps);
        }
        if self.coherence.is_wanted(line, write) {
            self.coherence.waiting.push((line, id));
        } else {
            self.admit(id, now_ps);
        }
    }

    /// A miss has its turn: other cores are asked, then the shared caches.
    fn admit(&mut self, id: u32, now_ps: u64) {
        if self.misses[id].way != Way::Caches {
            return self.leave_caches(id, now_ps);
        }
        let (line, write) = self.misses[id].wants();
        let core = self.contexts[self.misses[id].context].core;
        let alone = self.coherence.active_cores <= 1;
        self.misses[id].shares = false;
        for other in self.coherence.transit.iter().filter(|other| other.line == line) {
            // Loads of one line: neither core has it for itself.
            self.misses[other.miss].shares |= other.core != core;
            self.misses[id].shares |= other.core != core;
        }
        self.coherence.transit.push(Transit { line, miss: id, core, write, recalled: None });
        if alone && !self.cores[core].caches.contains(line) {
            self.take_posted(line, now_ps);
            return self.look_in_shared(id, 0, now_ps);
        }
        let others = self.ask_others(core, line, write, now_ps);
        self.misses[id].shares |= others.held && !write;
        let least_ps = if write && others.held { self.coherence.invalidation_ps } else { 0 };
        match self.served_by_cores(id, (core, line, write), others, (least_ps, now_ps)) {
            Some(served) => {
                let at_ps = now_ps + served.after_ps;
                self.misses[id].version = served.version;
                self.misses[id].pass(Stage::Cache, at_ps);
                self.queue.push(at_ps, self.memory_source(), Event::Arrive(id));
            }
            None => self.look_in_shared(id, least_ps, now_ps),
        }
    }

    /// The others give up a line, or keep it clean and shared; what one has written goes to the shared caches
    /// where it is read, and with the line where it is written.
    fn ask_others(&mut self, core: usize, line: u64, write: bool, now_ps: u64) -> Others {
        let mut others = Others::default();
        if self.is_off_chip(line) {
            return others;
        }
        self.take_posted(line, now_ps);
        for (index, other) in self.cores.iter_mut().enumerate() {
            if index == core || !other.active {
                continue;
            }
            let caches = &mut other.caches;
            let had = if write { caches.give_up(line) } else { caches.yield_line(line) };
            let Some((dirty, version)) = had else { continue };
            others.held = true;
            others.copy = Some(version);
            if dirty {
                others.written = Some(version);
            }
            self.account.invalidations += u64::from(write);
        }
        if let (Some(version), false) = (others.written, write) {
            self.put_dirty(DirtyLine { line, version }, now_ps);
        }
        others
    }

    /// What inclusive shared caches have dropped, cores give up as well: back-invalidation. A line that is on
    /// its way to a core serves first what it was asked for.
    pub(super) fn recall(&mut self) {
        while let Some((level, line)) = self.shared.recalled() {
            let mut transit = self.coherence.transit.iter_mut();
            match transit.find(|transit| transit.line == line) {
                Some(transit) => transit.recalled = Some(level),
                None => self.give_up(level, line),
            }
        }
    }

    /// Cores learn that a level of the shared caches has dropped a line, unless it has it again.
    pub(super) fn recalled(&mut self, level: usize, line: u64, now_ps: u64) {
        if !self.shared.level_contains(level, line) {
            self.give_up(level, line);
            self.send_dropped(now_ps);
        }
    }

    /// All cores give up a line that a level of the shared caches has dropped; what one has written goes where
    /// that level's lines go.
    fn give_up(&mut self, level: usize, line: u64) {
        for core in self.cores.iter_mut().filter(|core| core.active) {
            let Some((dirty, version)) = core.caches.give_up(line) else { continue };
            self.account.back_invalidations += 1;
            if dirty {
                let dirty = DirtyLine { line, version };
                self.shared.put_recalled(level, dirty, &mut self.dropped);
            }
        }
    }

    /// A lone core has written a line as a whole, and asks nobody: inclusive shared caches learn of it as late as an
    /// access leaves its core.
    pub(super) fn include_soon(&mut self, index: usize, line: u64) {
        if self.shared.inclusive_level().is_some() {
            let at_ps = self.contexts[index].now_ps + self.fixed.lookahead_ps;
            self.coherence.included.push(line);
            self.queue.push(at_ps, index as u16, Event::Include(line));
        }
    }

    /// Shared caches learn of a line that a core has written as a whole, if it has it still.
    pub(super) fn include(&mut self, line: u64, now_ps: u64) {
        if let Some(at) = self.coherence.included.iter().position(|other| *other == line) {
            self.coherence.included.swap_remove(at);
        }
        if self.cores.iter().any(|core| core.caches.contains(line)) {
            self.shared.fill(line, false, self.account.newest(line), &mut self.dropped);
            self.send_dropped(now_ps);
        }
    }

    /// In functional warming, a core of several learns as late of what the shared caches have dropped as an
    /// access leaves its core.
    pub(super) fn warm_recall(&mut self, now_ps: u64) {
        if self.coherence.active_cores <= 1 {
            return self.recall();
        }
        let (at_ps, source) = (now_ps + self.fixed.lookahead_ps, self.memory_source());
        while let Some((level, line)) = self.shared.recalled() {
            self.queue.push(at_ps, source, Event::Recall(level as u32, line));
        }
    }

    /// What a core has dropped of a line, and what is on its way to the shared caches, is there.
    pub(super) fn take_posted(&mut self, line: u64, now_ps: u64) {
        if let Some(at) = self.posted.iter().position(|(_, posted)| posted.line == line) {
            let (_, posted) = self.posted.swap_remove(at);
            self.put_dirty(posted, now_ps);
        }
    }

    /// Where a miss needs neither shared caches nor main memory.
    fn served_by_cores(
        &mut self,
        id: u32,
        (core, line, write): (usize, u64, bool),
        others: Others,
        (least_ps, now_ps): (u64, u64),
    ) -> Option<Served> {
        let own = &self.cores[core].caches;
        if own.contains(line) {
            // Its data are there: by a request of the same core, for itself already. Memory may not have them yet.
            let version = own.version(line);
            if !write || !own.is_shared(line) {
                return Some(Served { after_ps: 0, version });
            }
            self.account.upgrades += 1;
            return Some(Served { after_ps: least_ps.max(self.directory_ps()), version });
        }
        if write && self.misses[id].whole_line {
            let after_ps = least_ps.max(self.directory_ps());
            let version = self.account.newest(line);
            if self.shared.inclusive_level().is_some() {
                self.shared.fill(line, false, version, &mut self.dropped);
                self.send_dropped(now_ps);
            }
            return Some(Served { after_ps, version });
        }
        let copy = others.copy.filter(|_| !self.shared.contains(line));
        let version = others.written.or(copy)?;
        self.account.cache_transfers += 1;
        Some(Served { after_ps: self.coherence.transfer_ps, version })
    }

    /// Time in which it is known that no other core has a line: that of the first shared level.
    pub(super) fn directory_ps(&self) -> u64 {
        if self.shared.depth() == 0 {
            return self.coherence.invalidation_ps;
        }
        self.shared.latency_ps(0) - self.fixed.lookahead_ps
    }

    /// A miss has its line, after these stages, and has done with it what it came for: those who wait for it
    /// have their turn. They have waited for what it waited for.
    pub(super) fn leave_transit(&mut self, id: u32, line: u64, stages: &Timeline, now_ps: u64) {
        let transit = &mut self.coherence.transit;
        let own = transit.iter().position(|transit| transit.miss == id);
        let recalled = own.and_then(|own| transit.remove(own).recalled);
        if let Some(level) = recalled {
            match transit.iter_mut().find(|transit| transit.line == line) {
                // The last of several loads lets it go.
                Some(other) => other.recalled = Some(level),
                None => self.recalled(level, line, now_ps),
            }
        }
        while let Some(at) = self.coherence.waiting.iter().position(|(other, _)| *other == line) {
            let next = self.coherence.waiting[at].1;
            let (_, write) = self.misses[next].wants();
            if self.coherence.conflicts(line, write) {
                return;
            }
            self.coherence.waiting.remove(at);
            self.misses[next].pass_as(stages, Stage::Cache, now_ps);
            self.admit(next, now_ps);
        }
    }

    /// A core gets its first thread: from now on its caches are asked.
    pub(super) fn activate(&mut self, core: usize) {
        let core = &mut self.cores[core];
        self.coherence.active_cores += u32::from(!core.active);
        core.active = true;
    }

    /// In functional warming, a core has taken or written a line at once; the others learn of it as late as an
    /// access leaves its core, as they do in detail. Only then is known where a line came from that the shared caches
    /// have: from another core, if that had written it.
    pub(super) fn claim(
        &mut self,
        core: usize,
        line: u64,
        (write, from_shared): (bool, bool),
        now_ps: u64,
    ) {
        if self.coherence.active_cores > 1 {
            let at_ps = now_ps + self.fixed.lookahead_ps;
            let claim = Claim { core: core as u32, write, from_shared };
            self.queue.push(at_ps, self.memory_source(), Event::Claim(line, claim));
        }
    }

    /// Whether another core than this has a line.
    pub(super) fn another_holds(&self, core: usize, line: u64) -> bool {
        let mut others = self.cores.iter().enumerate().filter(|(other, _)| *other != core);
        self.coherence.active_cores > 1
            && others.any(|(_, other)| other.active && other.caches.contains(line))
    }

    /// The others learn that a core has a line.
    pub(super) fn claimed(&mut self, line: u64, claim: Claim, now_ps: u64) {
        let Claim { core, write, from_shared } = claim;
        let core = core as usize;
        let caches = &self.cores[core].caches;
        if !caches.contains(line) {
            if from_shared {
                self.came_from_shared(core, line, now_ps);
            }
            return;
        }
        // A store that has come behind its load asks with it.
        let write = write || caches.is_dirty(line);
        let others = self.ask_others(core, line, write, now_ps);
        self.cores[core].caches.set_shared(line, others.held && !write);
        if from_shared && others.written.is_some() {
            self.account.cache_transfers += 1;
        } else if from_shared {
            self.came_from_shared(core, line, now_ps);
        }
    }

    /// Whether the shared caches have a line that a core asks for, which none can have but this one. Its prefetcher learns
    /// of it then.
    pub(super) fn warm_shared_hit(&mut self, core: usize, line: u64, now_ps: u64) -> bool {
        let hit = self.shared.access(line, &mut self.dropped).is_some();
        if hit {
            self.account.shared_hits += 1;
            self.warm_ahead(core, line, now_ps);
        }
        hit
    }

    /// The shared caches had a line that a core asked for, and no other core had written it. They may have dropped it
    /// since; and where a unit has begun since, its prefetches are those of detail.
    fn came_from_shared(&mut self, core: usize, line: u64, now_ps: u64) {
        self.account.shared_hits += 1;
        self.shared.access(line, &mut self.dropped);
        if self.functional {
            self.warm_ahead(core, line, now_ps);
        }
        self.send_dropped(now_ps);
    }

    /// Where data are checked, and so nothing was warmed at once: that a line which a core may write is in no
    /// other core's caches, and that inclusive caches have all that those before them have.
    pub(super) fn check_coherence(&self) -> Result<(), String> {
        if !self.fixed.check_data {
            return Ok(());
        }
        let on_its_way = |line| {
            let mut transit = self.coherence.transit.iter();
            transit.any(|it| it.line == line) || self.coherence.included.contains(&line)
        };
        if let Some(line) = self.shared.astray() {
            return Err(format!("an inclusive shared cache lacks line {line}"));
        }
        for (index, core) in self.cores.iter().enumerate() {
            if let Some(line) = core.caches.astray() {
                return Err(format!("core {index} has an inclusive cache that lacks line {line}"));
            }
            for (line, dirty) in core.caches.lines() {
                let inclusive = self.shared.inclusive_level();
                let kept = |level| self.shared.level_contains(level, line);
                if !inclusive.is_none_or(kept) && !on_its_way(line) {
                    return Err(format!("core {index} has line {line}, the inclusive cache not"));
                }
                if !dirty && core.caches.is_shared(line) {
                    continue;
                }
                let mut others = self.cores.iter().enumerate().filter(|(other, _)| *other != index);
                if let Some((other, _)) = others.find(|(_, core)| core.caches.contains(line)) {
                    return Err(format!(
                        "cores {index} and {other} hold line {line}, the first alone"
                    ));
                }
            }
        }
        Ok(())
    }
}
