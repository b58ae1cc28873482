//! What happens beyond the cores: shared caches, main memory, and pages between memory and store.

use super::causes::Cause;
use super::dependence::Behind;
use super::kernel::path_steps;
use super::polling::Polled;
use super::prefetch::{Ahead, PREFETCH};
use super::thread::{Access, Begun, State, Thread, Way, tail};
use super::transfer_times::Class;
use super::{Context, Doing, Event, Machine};
use std::collections::VecDeque;
use std::ops::Range;
use tierscope_kernel::{Stage, StageTimes, Timeline};
use tierscope_model::os::PathSpec;
use tierscope_model::os::address_space::Pte;
use tierscope_model::os::block_layer::BlockLayer;
use tierscope_model::os::paging::{Moves, PageTransfer, TransferId};
use tierscope_model::processor::on_chip::{DirtyLine, Stack};
use tierscope_model::request::{Control, LineRequest, LineResponse, PageResponse};
use tierscope_workload::SiteId;

/// An access that merged with a miss under way.
#[derive(Clone, Debug)]
pub(super) struct Merged {
    /// Where it comes from; what it concerns is the miss's.
    pub site: SiteId,
    /// Where it goes, and whether to write there.
    pub address: u64,
    pub write: bool,
    /// When it joined.
    pub since_ps: u64,
    /// Its stages until `since_ps`, as in [`Begun`].
    pub timeline: Timeline,
    pub fault: Option<Box<StageTimes>>,
}

/// An access that its core could not serve.
#[derive(Clone, Debug)]
pub(super) struct Miss {
    pub context: usize,
    /// The software thread that it is for.
    pub thread: usize,
    /// It takes long, as main memory has told: it waits to be asked for again.
    pub told: bool,
    /// The line of the access itself.
    pub line: u64,
    /// The line wanted now: of a page-table entry, or `line`.
    pub wanted: u64,
    pub write: bool,
    /// Whether what asked for it first, before others joined, was a store.
    pub began_as_store: bool,
    /// All of the line is written: its data are not needed.
    pub whole_line: bool,
    /// Which way it takes. Where it is past the caches, and waits to be filled in its buffer, what has been stored.
    pub way: Way,
    pub open: Option<u64>,
    /// When all caches have been asked for a line that leaves them.
    pub asked_ps: u64,
    /// Other cores will have the wanted line as well.
    pub shares: bool,
    pub measured: bool,
    /// Where it goes, if it is the program's.
    pub address: u64,
    /// What it is counted for.
    pub cause: Cause,
    /// Level of the private caches that served it, where one did.
    pub level: Option<usize>,
    /// When the access was first offered.
    pub start_ps: u64,
    /// Time up to which `timeline` reaches.
    pub clock_ps: u64,
    pub timeline: Timeline,
    /// Time by stage of the fault that came before `timeline`, where one did.
    pub fault: Option<Box<StageTimes>>,
    /// Lines of the page table that the walk reads, the last first.
    pub walk: [u64; 5],
    pub walk_left: u8,
    /// What it waits for before it begins, where its address is made of what another loads.
    pub behind: Option<Behind>,
    /// Whether a prefetcher has asked for it, and who has come for it since.
    pub ahead: Ahead,
    /// Its core's own caches have served it, and it is told later: its data have been checked, and nobody joins it.
    pub is_served: bool,
    /// Misses of its thread whose addresses are made of what it loads.
    pub dependents: Vec<u32>,
    /// Version of the line that arrived.
    pub version: u64,
    merged: Vec<Merged>,
    /// Misses of others that wait for the same line at main memory.
    pub(super) followers: Vec<u32>,
}

impl Outgoing {
    /// Whether memory is to take it in.
    pub fn is_write(&self) -> bool {
        !matches!(self, Outgoing::Read(_))
    }

    /// The miss that waits for it, if one does.
    fn miss(self) -> Option<u32> {
        match self {
            Outgoing::Read(id) | Outgoing::Past(id) => Some(id),
            Outgoing::Write(_) => None,
        }
    }
}

impl Miss {
    /// Of a thread on a hardware thread.
    pub fn new(
        (context, thread): (usize, usize),
        line: u64,
        (access, cause): (Access, Cause),
        begun: Begun,
    ) -> Self {
        Miss {
            context,
            thread,
            told: false,
            line,
            wanted: line,
            write: access.write,
            began_as_store: access.write,
            whole_line: access.whole_line,
            way: access.way,
            open: None,
            asked_ps: 0,
            shares: false,
            measured: access.measured,
            address: access.place.address(),
            cause,
            level: None,
            start_ps: begun.start_ps,
            clock_ps: 0,
            timeline: begun.timeline,
            fault: begun.fault,
            walk: [0; 5],
            walk_left: 0,
            behind: None,
            ahead: Ahead::No,
            is_served: false,
            dependents: Vec::new(),
            version: 0,
            merged: Vec::new(),
            followers: Vec::new(),
        }
    }

    /// Whether who waits for it is told of what it is for.
    fn is_told(&self) -> bool {
        self.measured || self.way != Way::Caches || self.ahead != Ahead::No
    }

    /// The line wanted now, and whether for itself alone.
    pub fn wants(&self) -> (u64, bool) {
        (self.wanted, self.write && self.walk_left == 0)
    }

    /// A further access of the same hardware thread to the same line; `spare` has room for such, which is used again.
    pub fn merge(&mut self, access: Access, merged: Merged, spare: &mut Vec<Vec<Merged>>) {
        self.write |= access.write;
        if self.ahead == Ahead::Alone {
            self.ahead = Ahead::Joined;
        }
        if access.measured {
            if self.merged.capacity() == 0 {
                self.merged = spare.pop().unwrap_or_default();
            }
            self.merged.push(merged);
        }
    }

    /// For each merged access what it is counted for and where it goes, its stages, completed up to
    /// `at_ps`, and the time of its fault.
    pub fn finished_merged(
        &self,
        at_ps: u64,
    ) -> impl Iterator<Item = ((Cause, u64), Timeline, Option<&StageTimes>)> + '_ {
        self.merged.iter().map(move |merged| {
            let mut timeline = merged.timeline;
            // The line may come while the TLB is still being asked.
            let waited_ps = at_ps.saturating_sub(merged.since_ps);
            timeline.append_tail(&self.timeline, Stage::Core, waited_ps);
            let cause = Cause { site: merged.site, ..self.cause };
            ((cause, merged.address), timeline, merged.fault.as_deref())
        })
    }

    /// Goes as far as the core's own caches can take it: true when it has its data.
    pub fn advance(&mut self, caches: &mut Stack, evicted: &mut Vec<DirtyLine>) -> bool {
        loop {
            let walking = self.walk_left > 0;
            let (line, stage, write) = if walking {
                (self.walk[usize::from(self.walk_left) - 1], Stage::Tlb, false)
            } else {
                (self.line, Stage::Cache, self.write)
            };
            self.wanted = line;
            let level = if caches.hit_first(line, write) {
                Some(0)
            } else {
                caches.hit_beyond(line, write, evicted)
            };
            let latency_ps = caches.latency_ps(level.unwrap_or(caches.depth() - 1));
            self.timeline.push(stage, latency_ps);
            self.clock_ps += latency_ps;
            if level.is_none() {
                return false;
            }
            if !walking {
                self.level = level;
                return true;
            }
            self.walk_left -= 1;
        }
    }

    /// Accesses that joined it: where they go, and whether to write there.
    pub(super) fn joined(&self) -> impl Iterator<Item = (u64, bool)> + '_ {
        self.merged.iter().map(|merged| (merged.address, merged.write))
    }

    /// Adds time until `at_ps`. What a walk spends in caches is the TLB's time; what it spends
    /// beyond them belongs to whom it waits for.
    pub(super) fn pass(&mut self, stage: Stage, at_ps: u64) {
        let walking = self.walk_left > 0 && stage == Stage::Cache;
        let stage = if walking { Stage::Tlb } else { stage };
        self.timeline.push(stage, at_ps - self.clock_ps);
        self.clock_ps = at_ps;
    }

    /// Adds the last stages of a request that ended at `at_ps`.
    pub(super) fn pass_as(&mut self, request: &Timeline, before: Stage, at_ps: u64) {
        self.timeline.append_tail(request, before, at_ps - self.clock_ps);
        self.clock_ps = at_ps;
    }
}

/// A line on its way to the organization.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outgoing {
    /// The read of a miss.
    Read(u32),
    /// A dirty line.
    Write(DirtyLine),
    /// A line that passes the caches by, or is flushed from them, for which somebody may wait.
    Past(u32),
}

/// Lines on their way to the organization, which push back while it is full.
#[derive(Clone, Debug, Default)]
pub(super) struct Door {
    lines: VecDeque<Outgoing>,
    /// The misses among them, in the same order: dirty lines may be many thousands.
    misses: VecDeque<u32>,
}

impl Door {
    /// A line waits behind all others.
    pub fn push(&mut self, line: Outgoing) {
        self.misses.extend(line.miss());
        self.lines.push_back(line);
    }

    fn front(&self) -> Option<Outgoing> {
        self.lines.front().copied()
    }

    fn pop(&mut self) {
        if self.lines.pop_front().and_then(Outgoing::miss).is_some() {
            self.misses.pop_front();
        }
    }

    /// Lines that wait.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Lines that wait to be written.
    pub fn writes(&self) -> usize {
        self.lines.iter().filter(|line| line.is_write()).count()
    }
}

/// A page on its way between memory and store.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageIo {
    pub transfer: TransferId,
    pub frame: u64,
    pub store_address: u64,
    pub write: bool,
    queued_ps: u64,
    pub submitted_ps: u64,
    pub background: bool,
    /// With force unit access.
    pub forced: bool,
    /// No page: the device writes what it has buffered, or forgets something.
    pub control: Option<Control>,
    /// What it brings to the store, where that is followed.
    pub content: u64,
    /// The request of the block layer that it is of, once that is at the device.
    pub request: Option<u32>,
}

/// A transfer under way, as the machine sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct TransferIo {
    /// Software threads that wait for it.
    pub waiters: Vec<usize>,
    /// Hardware thread that has handed it to the device.
    pub context: usize,
    /// Software thread that has handed it to the device.
    pub submitter: Option<usize>,
    /// When it was handed over, how many pages it has, and what it is one of.
    submitted_ps: u64,
    pub pages: u64,
    class: Class,
    /// What is known of its request where who polls sleeps before.
    pub polled: Option<Polled>,
    /// Stages of the page that came last.
    pub timeline: Timeline,
    /// Pages that each drive has still to move, where the host deals them over drives.
    left_of_drives: Vec<u32>,
}

impl TransferIo {
    /// A drive has moved a page; whether that was its last.
    fn moved_by(&mut self, drive: usize) -> bool {
        let Some(left) = self.left_of_drives.get_mut(drive) else { return false };
        *left -= 1;
        *left == 0
    }
}

/// Threads that have become ready.
pub(super) struct Woken {
    pub count: u32,
    pub first: Option<usize>,
    /// When the last of them is.
    pub end_ps: u64,
}

/// Requests with this id, or the one below it, are write-backs, for which nobody waits but by their kind
/// ([`super::durable::Syncing`]).
const WRITE_BACK: u32 = u32::MAX;

impl Machine {
    /// A miss looks in the shared caches. What they have it gets after `least_ps` at the earliest.
    pub(super) fn look_in_shared(&mut self, id: u32, least_ps: u64, now_ps: u64) {
        let wanted = self.misses[id].wanted;
        let level = self.shared.access(wanted, &mut self.dropped);
        self.send_dropped(now_ps);
        let private_ps = self.fixed.lookahead_ps;
        let depth = self.shared.depth();
        let beyond_ps = match (level, depth) {
            (Some(level), _) => least_ps.max(self.shared.latency_ps(level) - private_ps),
            (None, 0) => 0,
            (None, depth) => self.shared.latency_ps(depth - 1) - private_ps,
        };
        let at_ps = now_ps + beyond_ps;
        self.misses[id].pass(Stage::Cache, at_ps);
        if level.is_some() {
            self.account.shared_hits += u64::from(self.misses[id].ahead == Ahead::No);
            self.misses[id].version = self.shared.version(wanted);
            self.queue.push(at_ps, self.memory_source(), Event::Arrive(id));
        } else {
            self.queue.push(at_ps, self.memory_source(), Event::Memory(id));
        }
        let Miss { context, walk_left, ahead, .. } = self.misses[id];
        if walk_left == 0 && ahead == Ahead::No {
            // Behind the miss itself: demand goes first.
            self.watch_for_prefetch(self.contexts[context].core, wanted, at_ps);
        }
    }

    /// A miss arrives at main memory: it asks, or joins a miss that asked for the same line.
    pub(super) fn ask_memory(&mut self, id: u32, now_ps: u64) {
        let wanted = self.misses[id].wanted;
        if let Some(&first) = self.line_misses.get(&wanted) {
            if first & PREFETCH != 0 {
                self.account.late_prefetches += 1;
                self.prefetches[first & !PREFETCH].followers.push(id);
            } else {
                self.follows_ahead(id, first);
                self.misses[first].followers.push(id);
            }
            return;
        }
        if self.misses[id].ahead == Ahead::No {
            self.account.memory_reads += 1;
        } else if !self.goes_ahead(id, now_ps) {
            return;
        }
        self.line_misses.insert(wanted, id);
        let Miss { measured, cause, .. } = self.misses[id];
        if measured {
            self.account.causes.memory_read(cause);
        }
        self.outgoing.push(Outgoing::Read(id));
        self.pump(now_ps);
    }

    /// A dirty line arrives at the shared caches.
    pub(super) fn put_posted(&mut self, number: u32, now_ps: u64) {
        // A snoop may have taken it meanwhile, and its core have dropped the line anew.
        if let Some(at) = self.posted.iter().position(|(posted, _)| *posted == number) {
            let (_, line) = self.posted.swap_remove(at);
            self.put_dirty(line, now_ps);
        }
    }

    pub(super) fn put_dirty(&mut self, line: DirtyLine, now_ps: u64) {
        self.shared.put_dirty(line, &mut self.dropped);
        self.send_dropped(now_ps);
    }

    /// What the shared caches dropped goes to main memory.
    pub(super) fn send_dropped(&mut self, now_ps: u64) {
        self.recall();
        self.offer_clean(now_ps);
        if self.dropped.is_empty() {
            return;
        }
        if self.functional {
            return self.warm_dropped(now_ps);
        }
        self.dropped.drain(..).for_each(|line| self.outgoing.push(Outgoing::Write(line)));
        self.pump(now_ps);
    }

    /// Clean lines that the shared caches dropped are offered to main memory, where it wants them.
    #[inline]
    pub(super) fn offer_clean(&mut self, now_ps: u64) {
        while let Some(DirtyLine { line, version }) = self.shared.take_clean() {
            let address = line << self.fixed.line_shift;
            if self.functional {
                self.organization.warm_clean(now_ps, address);
                self.beside.iter_mut().for_each(|beside| beside.warm_clean(now_ps, address));
            } else {
                self.organization.put_clean(now_ps, address, version);
            }
        }
    }

    /// What a core's caches dropped arrives at the shared ones without delay.
    pub(super) fn put_evicted(&mut self, now_ps: u64) {
        let mut evicted = std::mem::take(&mut self.evicted);
        for dirty in evicted.drain(..) {
            self.put_dirty(dirty, now_ps);
        }
        self.evicted = evicted;
    }

    /// Offers the organization what waits for it, in order, until it is full. Pages go once no
    /// line waits, so that lines written before a page is copied to the store are in memory.
    pub(super) fn pump(&mut self, now_ps: u64) {
        while let Some(next) = self.outgoing.front() {
            let write_back = WRITE_BACK - self.syncing.kind() as u32;
            let request = match next {
                Outgoing::Read(id) => LineRequest {
                    id,
                    core: self.contexts[self.misses[id].context].core as u16,
                    address: self.misses[id].wanted << self.fixed.line_shift,
                    write: false,
                    version: 0,
                },
                Outgoing::Write(dirty) => LineRequest {
                    id: write_back,
                    core: 0,
                    address: dirty.line << self.fixed.line_shift,
                    write: true,
                    version: dirty.version,
                },
                Outgoing::Past(id) => LineRequest {
                    id: write_back,
                    core: self.contexts[self.misses[id].context].core as u16,
                    address: self.misses[id].wanted << self.fixed.line_shift,
                    write: true,
                    version: self.misses[id].version,
                },
            };
            let taken = match next {
                Outgoing::Read(id) if self.would_be_told(id) => {
                    self.organization.submit_telling(now_ps, request)
                }
                _ => self.organization.submit(now_ps, request),
            };
            if taken.is_err() {
                return;
            }
            if let Some(id) = next.miss() {
                // It has waited for the request whose answer made room.
                self.misses[id].pass_as(&self.made_room, Stage::ControllerQueue, now_ps);
            }
            self.outgoing.pop();
            if next.is_write() {
                self.syncing.took();
            }
            if let Outgoing::Past(id) = next {
                // Memory has it: it is done, once all caches have been asked.
                let miss = &mut self.misses[id];
                miss.pass(Stage::Cache, miss.asked_ps.max(now_ps));
                let at_ps = miss.clock_ps;
                self.queue.push(at_ps, self.memory_source(), Event::Passed(id));
            }
        }
        self.pump_pages(now_ps);
    }

    /// What a program says that it will need is brought by memory that can (\[HYB15\] §2.4), in detail:
    /// the pages that have frames, those beside each other at once.
    pub(super) fn will_need(&mut self, address: u64, length: u64, now_ps: u64) {
        if self.functional {
            return;
        }
        let shift = self.fixed.page_shift;
        let end = address.saturating_add(length).div_ceil(1 << shift);
        let mut frames = 0..0;
        for page in address >> shift..end {
            let Pte::Present { frame, .. } = self.paging.entry(page) else { continue };
            if frame == frames.end {
                frames.end += 1;
            } else if self.organization_will_need(&frames, now_ps) {
                frames = frame..frame + 1;
            } else {
                return;
            }
        }
        self.organization_will_need(&frames, now_ps);
    }

    /// Whether more would be remembered.
    fn organization_will_need(&mut self, frames: &Range<u64>, now_ps: u64) -> bool {
        let shift = self.fixed.page_shift;
        let bytes = (frames.end - frames.start) << shift;
        self.organization.will_need(now_ps, frames.start << shift, bytes)
    }

    fn pump_pages(&mut self, now_ps: u64) {
        if self.block_layer.is_some() {
            return self.pump_requests(now_ps);
        }
        while self.pages_at_device < self.fixed.host_queue_depth {
            let Some(id) = self.page_queue.front().copied() else { return };
            let taken = match self.pages[id].control {
                Some(control) => self.organization.submit_control(now_ps, id, control),
                None => self.organization.submit_page(now_ps, self.page_request(id)),
            };
            if taken.is_err() {
                return;
            }
            self.pages[id].submitted_ps = now_ps;
            self.page_queue.pop_front();
            self.pages_at_device += 1;
        }
    }

    /// Main memory has answered.
    pub(super) fn line_arrived(&mut self, response: &LineResponse) {
        if response.id >= WRITE_BACK - 1 {
            self.syncing.answered((WRITE_BACK - response.id) as usize, &response.stages);
            self.room_made(response);
            return;
        }
        if response.id & PREFETCH != 0 {
            self.prefetch_arrived(response);
            return;
        }
        let (id, at_ps) = (response.id, response.at_ps);
        let full = !self.outgoing.is_empty();
        let line = self.misses[id].wanted;
        let mut version = response.version;
        let ahead = self.misses[id].ahead;
        if matches!(ahead, Ahead::Alone | Ahead::Joined) {
            self.late_ahead.saw(u64::from(ahead == Ahead::Joined));
        }
        if ahead != Ahead::Stale {
            self.line_misses.remove(&line);
            self.shared.fill(line, false, response.version, &mut self.dropped);
            self.send_dropped(at_ps);
            if self.shared.depth() > 0 {
                version = self.shared.version(line);
            }
        }
        let followers = std::mem::take(&mut self.misses[id].followers);
        for miss in std::iter::once(id).chain(followers) {
            let entry = &mut self.misses[miss];
            entry.pass_as(&response.stages, Stage::ControllerQueue, at_ps);
            entry.version = version;
            if full && miss == id {
                self.made_room = entry.timeline;
            }
            self.arrive(miss, at_ps);
        }
    }

    /// Notes what those at the door have waited for when what nobody waits for makes room: what it went through
    /// and, for those who have waited for longer, whatever made room before.
    pub(super) fn room_made(&mut self, response: &LineResponse) {
        let waiting = self.outgoing.misses.iter().map(|id| self.misses[*id].clock_ps);
        let Some(since_ps) = waiting.min() else { return };
        let mut whole = self.made_room;
        whole.append(&response.stages);
        self.made_room = tail(&whole, Stage::ControllerQueue, response.at_ps - since_ps);
    }

    /// The hardware thread that runs the thread of a miss: not always the one that has asked.
    pub(super) fn context_of(&self, context: usize, thread: usize) -> usize {
        if self.contexts[context].thread == thread {
            return context;
        }
        match self.threads[thread].state {
            State::Running(index) => index,
            _ => context,
        }
    }

    /// The wanted line arrives at the core.
    pub(super) fn arrive(&mut self, id: u32, now_ps: u64) {
        let Machine { misses, cores, contexts, evicted, .. } = self;
        let miss = &mut misses[id];
        let (index, line, walking) = (miss.context, miss.wanted, miss.walk_left > 0);
        let caches = &mut cores[contexts[index].core].caches;
        let write = miss.write && !walking;
        // A store that joined once its line had been asked for: the line comes, and has to be asked for again.
        let again = write && miss.shares;
        match miss.ahead {
            Ahead::Stale => {}
            Ahead::Alone => caches.fill_ahead(line, miss.version, evicted),
            Ahead::No | Ahead::Joined => {
                caches.fill(line, write && !again, miss.version, evicted);
            }
        }
        let keeps = miss.ahead != Ahead::Stale;
        if keeps {
            caches.set_shared(line, miss.shares);
        }
        let stages = miss.timeline;
        let next = if walking {
            miss.walk_left -= 1;
            let done = miss.advance(caches, evicted);
            // What has been stored is in the line from now on, wherever it goes until the access is told.
            miss.is_served = done;
            Some(if done { Event::Finish(id) } else { Event::Shared(id) })
        } else if again {
            miss.pass(Stage::Cache, now_ps + self.fixed.lookahead_ps);
            Some(Event::Shared(id))
        } else {
            None
        };
        let (at_ps, level, of_access) = (miss.clock_ps, miss.level, miss.line);
        let (is_served, stores) = (miss.is_served, miss.write);
        if keeps {
            self.note_on_chip(line);
        }
        self.put_evicted(now_ps);
        if is_served && self.fixed.check_data {
            self.check(index, of_access, stores);
        }
        self.served_by_own(index, level, (of_access, at_ps));
        match next {
            Some(event) => self.queue.push(at_ps, index as u16, event),
            None => self.finish_miss(id, now_ps),
        }
        self.leave_transit(id, line, &stages, now_ps);
    }

    pub(super) fn finish_miss(&mut self, id: u32, now_ps: u64) {
        let mut miss = self.misses.remove(id);
        let accessed = matches!(miss.ahead, Ahead::No | Ahead::Joined);
        if self.fixed.check_data && miss.way == Way::Caches && !miss.is_served && accessed {
            self.check(miss.context, miss.line, miss.write);
        }
        if miss.ahead == Ahead::No {
            self.account.finish(&miss, now_ps);
            self.log_miss(&miss, now_ps);
        }
        for (cause, timeline, fault) in miss.finished_merged(now_ps) {
            self.account.finish_merged(cause, &timeline, fault, now_ps);
        }
        let away = self.threads[miss.thread].away.as_mut();
        if miss.ahead != Ahead::No {
            self.end_ahead(id, &miss, now_ps);
        } else if let Some(away) = away.filter(|away| away.has(id)) {
            away.pending.retain(|(_, pending)| *pending != id);
            away.window.finish(id, now_ps);
        } else {
            let index = self.context_of(miss.context, miss.thread);
            let context = &mut self.contexts[index];
            context.pending.retain(|(_, pending)| *pending != id);
            context.window.finish(id, now_ps);
            if context.doing == Doing::Stalled(id) {
                self.end_stall(index, &miss, now_ps);
            }
        }
        for dependent in std::mem::take(&mut miss.dependents) {
            self.begin_dependent(dependent, &miss, now_ps);
        }
        if !miss.merged.is_empty() {
            miss.merged.clear();
            self.spare.push(miss.merged);
        }
    }

    /// A hardware thread has waited for a miss, up to now.
    pub(super) fn end_stall(&mut self, index: usize, miss: &Miss, now_ps: u64) {
        let context = &mut self.contexts[index];
        context.doing = Doing::Running;
        context.now_ps = now_ps;
        let thread = &mut self.threads[context.thread];
        let stall_ps = now_ps - thread.clock_ps;
        let causes = &mut self.account.causes;
        match (&thread.fault, miss.is_told()) {
            // While a fault is under way all waiting is its own, and told with it.
            (Some(_), _) => {}
            (None, true) => causes.stall(miss.cause, stall_ps),
            (None, false) => {
                let from_store = miss.timeline.iter().any(|(stage, _)| stage == Stage::Medium);
                causes.wait_in_call(thread.call_cause(), stall_ps, from_store);
            }
        }
        thread.charge_tail(&miss.timeline, Stage::Core, now_ps);
    }

    /// Checks, and versions, the data of an access that is served now: it has what was last written.
    pub(super) fn check(&mut self, index: usize, line: u64, write: bool) {
        let core = self.contexts[index].core;
        let found = self.cores[core].caches.version(line);
        let version = self.account.check(line, found, write);
        if let Some(version) = version {
            self.follow_store(line);
            self.cores[core].caches.set_version(line, version);
        }
    }

    /// A transfer goes to the device, from a software thread or one of the kernel's own: on-chip caches give up the
    /// lines of its frames.
    pub(super) fn submit_transfer(
        &mut self,
        index: usize,
        by: Option<usize>,
        id: TransferId,
        now_ps: u64,
    ) {
        self.paging.submitted(id);
        let transfer = self.paging.transfer(id).clone();
        let class = self.class_of(&transfer);
        let io = self.transfers.entry(id).or_default();
        (io.context, io.submitter, io.submitted_ps) = (index, by, now_ps);
        (io.pages, io.class) = (transfer.pages.len() as u64, class);
        if let (Some(dealt), None) = (self.fixed.dealt, &self.block_layer) {
            io.left_of_drives = dealt.pages_of_drives(&transfer.pages);
        }
        let is_waited_for = !io.waiters.is_empty();
        if self.service_times.is_some() {
            let bytes = (transfer.pages.len() as u64) << self.fixed.page_shift;
            io.polled = Some(Polled::new(transfer.write, bytes, now_ps));
        }
        if self.skips_store() {
            return self.begin_warm_transfer((id, class), &transfer, now_ps);
        }
        // Somebody waits for a direct write.
        let direct = matches!(transfer.moves, Moves::Direct { .. });
        let background = transfer.write && !direct || !is_waited_for && transfer.pages.len() > 1;
        let forced = transfer.moves == Moves::Metadata { forced: true };
        let control = transfer.control();
        let no_page = control.is_some();
        let store_address = match control {
            Some(Control::Trim { address, .. }) => address,
            _ => 0,
        };
        let nothing = [PageTransfer { frame: 0, store_address }];
        let metadata = matches!(transfer.moves, Moves::Metadata { .. });
        let sync = !background || metadata || by.is_some_and(|thread| self.is_syncing(thread));
        let mut queued = Vec::new();
        for page in if no_page { nothing.as_slice() } else { &transfer.pages } {
            if !no_page {
                self.snoop(page.frame, transfer.write, now_ps);
                self.snoop_place(page.store_address, now_ps);
            }
            if transfer.write && !no_page {
                self.account.page_out(page.frame, page.store_address, &self.fixed);
            }
            if transfer.moves == Moves::Demotion {
                self.snoop(self.paging.far_frame(page), false, now_ps);
            }
            let io = PageIo {
                transfer: id,
                frame: page.frame,
                store_address: page.store_address,
                write: transfer.write,
                queued_ps: now_ps,
                submitted_ps: now_ps,
                background: background && transfer.write,
                forced,
                control,
                content: 0,
                request: None,
            };
            let content = self.content_of(id, &transfer, page);
            let page = self.pages.insert(PageIo { content, ..io });
            match self.block_layer {
                None => self.page_queue.push_back(page),
                Some(_) => queued.push(page),
            }
        }
        self.queue_pages(index, by, &queued, sync, !transfer.swap, now_ps);
        self.pump(now_ps);
    }

    /// A line comes into on-chip caches: DMA to or from its frame will have to snoop it.
    #[inline]
    pub(super) fn note_on_chip(&mut self, line: u64) {
        if self.fixed.snoops {
            *self.on_chip.get_mut(line >> 6) |= 1 << (line & 63);
        }
    }

    /// Whether it is known without looking that a line is in no cache.
    #[inline]
    pub(super) fn is_off_chip(&self, line: u64) -> bool {
        self.fixed.snoops && self.on_chip.get(line >> 6) >> (line & 63) & 1 == 0
    }

    /// DMA snoops the on-chip caches: dirty lines of the frame go to memory before it is read, and
    /// all its lines go before it is written.
    pub(super) fn snoop(&mut self, frame: u64, to_store: bool, now_ps: u64) {
        let shift = self.fixed.page_shift - self.fixed.line_shift;
        let first = frame << shift;
        self.forget_prefetches(first, first + (1 << shift) - 1, now_ps);
        for group in first >> 6..(first + (1 << shift)).div_ceil(64) {
            let mut lines = self.on_chip.get(group);
            if lines != 0 {
                self.on_chip.set(group, 0);
            }
            while lines != 0 {
                let line = group << 6 | u64::from(lines.trailing_zeros());
                lines &= lines - 1;
                self.snoop_line(line, to_store, now_ps);
            }
        }
        self.pump(now_ps);
    }

    fn snoop_line(&mut self, line: u64, to_store: bool, now_ps: u64) {
        let mut newest = None;
        let (dirty, version) = self.shared.take(line);
        if dirty {
            newest = Some(version);
        }
        for core in self.cores.iter_mut().filter(|core| core.active) {
            let (dirty, version) = core.caches.take(line);
            if dirty {
                newest = Some(version);
            }
        }
        while let Some(at) = self.posted.iter().position(|(_, posted)| posted.line == line) {
            let (_, posted) = self.posted.swap_remove(at);
            newest = newest.or(Some(posted.version));
        }
        if let (Some(version), true) = (newest, to_store) {
            match self.functional {
                true => self.warm_in_memory(0, line, true, now_ps),
                false => self.outgoing.push(Outgoing::Write(DirtyLine { line, version })),
            }
        }
    }

    /// The device has moved a page.
    pub(super) fn page_moved(&mut self, response: PageResponse, now_ps: u64) {
        let page = self.pages.remove(response.id);
        self.pages_at_device -= 1;
        if !page.write {
            // A line may have come on chip since the transfer began, by a copy of a page whose frame was
            // given away meanwhile.
            self.snoop(page.frame, false, now_ps);
            self.account.page_in(page.frame, page.store_address, &self.fixed);
        }
        self.arrives_on_far_node(&page, now_ps);
        let mut timeline = Timeline::new();
        timeline.push(Stage::HostQueue, page.submitted_ps - page.queued_ps);
        timeline.append(&response.stages);
        self.log_page(&page, &timeline, now_ps);
        let drive = self.fixed.dealt.map_or(0, |dealt| dealt.drive_of(page.store_address));
        let io = self.transfers.entry(page.transfer).or_default();
        io.timeline = timeline;
        let drive_is_done = io.moved_by(drive);
        let (class, duration_ps) = (io.class, now_ps - io.submitted_ps);
        let ended = self.paging.page_moved(page.transfer);
        if ended {
            self.note_transfer(class, duration_ps);
            self.end_transfer(page.transfer, response.interrupt, now_ps);
        } else if drive_is_done {
            self.interrupt_in_between(page.transfer, now_ps);
        }
        if let Some(request) = page.request {
            self.moved_of_request(request, (page.transfer, ended), now_ps);
        }
    }

    /// All pages have moved: the threads that waited become ready, by the device's interrupt with this number, 0 where it
    /// tells of one transfer, or because one of them polls.
    pub(super) fn end_transfer(&mut self, id: TransferId, number: u32, now_ps: u64) {
        if self.fixed.in_dram.is_some() {
            self.end_copies(id, now_ps);
            return;
        }
        if self.paging.transfer(id).moves == Moves::Demotion {
            return self.end_demotion(id, now_ps);
        }
        let io = self.conclude_transfer(id, now_ps);
        if self.ended_asleep(&io, now_ps) {
            return;
        }
        let polls = |context: &Context| {
            context.doing == Doing::Polling && io.submitter == Some(context.thread)
        };
        match self.contexts.iter().position(polls) {
            Some(context) => self.end_polling(context, &io, now_ps),
            None => self.end_by_interrupt(&io, number, now_ps),
        }
    }

    /// The operating system and its own threads learn that all pages of a transfer have moved.
    pub(super) fn conclude_transfer(&mut self, id: TransferId, now_ps: u64) -> TransferIo {
        self.paging.tell_time(now_ps);
        self.paging.finish_transfer(id);
        self.direct_ended(id);
        self.apply_effects();
        let io = self.transfers.remove(&id).unwrap_or_default();
        self.wake_for_transfer(id, &io.timeline, now_ps);
        io
    }

    /// The thread that a hardware thread polls for finds its transfer done: no interrupt, and it goes on at once.
    /// Those who wait for the same, or for any frame, it wakes.
    fn end_polling(&mut self, context: usize, io: &TransferIo, now_ps: u64) {
        let id = self.contexts[context].thread;
        let thread = &mut self.threads[id];
        if thread.fault.is_none() {
            let waited_ps = now_ps - thread.clock_ps;
            self.account.causes.wait_in_call(thread.call_cause(), waited_ps, true);
        }
        thread.charge_slept(io, now_ps);
        thread.charge_tail(&io.timeline, Stage::HostQueue, now_ps);
        thread.state = State::Running(context);
        self.contexts[context].doing = Doing::Running;
        self.contexts[context].now_ps = now_ps;
        self.found(context, io, now_ps);
    }

    /// The thread of a hardware thread has found its transfer done.
    pub(super) fn found(&mut self, context: usize, io: &TransferIo, now_ps: u64) {
        let id = self.contexts[context].thread;
        let poll = self.fixed.driver.as_ref().map_or(PathSpec::NONE, |driver| driver.poll);
        let found_ps = now_ps + self.kernel_path_ps(poll);
        let woken = self.wake_waiters(&io.waiters, true, now_ps, found_ps, |thread| {
            thread.charge_tail(&io.timeline, Stage::HostQueue, now_ps);
        });
        let mut steps = path_steps(Stage::Driver, poll, 1);
        steps.extend(path_steps(Stage::WakeUp, self.os.paths.wake_up, woken.count));
        self.threads[id].do_first(&steps);
    }

    /// Threads that wait for a transfer, or for any frame, become ready one after the other from `from_ps` on;
    /// `charge` says what they have waited for, `at_device` whether that was the store.
    pub(super) fn wake_waiters(
        &mut self,
        waiters: &[usize],
        at_device: bool,
        now_ps: u64,
        from_ps: u64,
        charge: impl Fn(&mut Thread),
    ) -> Woken {
        let frames = std::mem::take(&mut self.waiting_for_frame);
        let (source, path_ps) = (self.memory_source(), self.kernel_path_ps(self.os.paths.wake_up));
        let mut woken = Woken { count: 0, first: None, end_ps: from_ps };
        for index in waiters.iter().copied().chain(frames) {
            let thread = &mut self.threads[index];
            if !matches!(thread.state, State::OnTransfer(_) | State::OnFrame | State::OnMemory) {
                continue;
            }
            if thread.fault.is_none() {
                let waited_ps = now_ps - thread.clock_ps;
                self.account.causes.wait_in_call(thread.call_cause(), waited_ps, at_device);
            }
            charge(thread);
            woken.end_ps += path_ps;
            thread.charge_until(Stage::WakeUp as usize, woken.end_ps);
            thread.state = State::Waking;
            self.queue.push(woken.end_ps, source, Event::Wake(index as u32));
            woken.count += 1;
            woken.first = woken.first.or(Some(index));
        }
        woken
    }

    /// A page has come that a thread has carried itself: no interrupt, but those that waited for it, or for
    /// any frame, become ready.
    pub(super) fn end_own_transfer(&mut self, index: usize, id: TransferId, now_ps: u64) {
        let stage = match self.paging.transfer(id).moves {
            Moves::Promotion => Stage::Migration,
            _ => Stage::BufferCache,
        };
        let wake_ups = self.end_without_device(id, stage, now_ps);
        let steps = path_steps(Stage::WakeUp, self.os.paths.wake_up, wake_ups);
        self.threads[self.contexts[index].thread].do_first(&steps);
    }

    /// A transfer ends that is at no device; how many are woken, who have waited in this stage at last.
    pub(super) fn end_without_device(&mut self, id: TransferId, stage: Stage, now_ps: u64) -> u32 {
        self.paging.page_moved(id);
        self.paging.finish_transfer(id);
        let waiters = self.transfers.remove(&id).unwrap_or_default().waiters;
        let charge = |thread: &mut Thread| thread.charge_until(stage as usize, now_ps);
        self.wake_waiters(&waiters, false, now_ps, now_ps, charge).count
    }

    /// Those who wait for the commit that the journal's thread makes, or for the next, have waited in these
    /// stages, or in the file system, up to now.
    pub(super) fn charge_commit(&mut self, timeline: Option<&Timeline>, now_ps: u64) {
        let waited_for = self.paging.waited_for_commits().into_iter().flatten();
        let waiters = waited_for.filter_map(|id| self.transfers.get(&id));
        let waiters: Vec<usize> = waiters.flat_map(|io| io.waiters.iter().copied()).collect();
        for index in waiters {
            let thread = &mut self.threads[index];
            if !matches!(thread.state, State::OnTransfer(_)) {
                continue;
            }
            let waited_ps = now_ps.saturating_sub(thread.clock_ps);
            self.account.causes.wait_in_call(thread.call_cause(), waited_ps, timeline.is_some());
            match timeline {
                Some(timeline) => {
                    thread.charge_tail(timeline, Stage::HostQueue, now_ps.max(thread.clock_ps))
                }
                None => thread.charge_until(Stage::FileSystem as usize, now_ps),
            }
        }
    }

    /// Lines and pages that wait to be taken by the organization.
    pub(super) fn waiting_outside(&self) -> (usize, u64) {
        let in_requests = self.block_layer.as_ref().map_or(0, BlockLayer::waiting_bios);
        (self.outgoing.len(), self.page_queue.len() as u64 + in_requests)
    }
}
