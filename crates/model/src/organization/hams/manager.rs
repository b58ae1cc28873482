//! The address manager: a state machine without devices, clock or event queue.

use super::action::{Action, Use};
use super::command::Command;
use super::counts::HamsReport;
use super::layout::Layout;
use super::miss::Miss;
use super::queues::Queues;
use super::spec::{Coupling, Mode, Shape};
use super::versions::Versions;
use crate::cache::{Place, TagStore, WayRef, flag};
use crate::organization::hybrid::append_tail;
use crate::organization::versions::RequestVersions;
use crate::organization::{InitialContent, OrganizationReport};
use crate::power::{Weakness, Weaknesses};
use crate::replacement::Fifo;
use crate::request::{Fetching, Full, LineRequest, LineResponse, Tell, Traffic};
use std::collections::VecDeque;
use tierscope_kernel::{BoundedQueue, Slab, Stage, Timeline};

/// The busy bit B: commands for the entry are under way.
pub(super) const BUSY: u8 = flag::PINNED;
/// The valid bit V is not set: the page is not in its frame yet.
pub(super) const FILLING: u8 = flag::OWNER[0];

/// A request between submission and response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub id: u32,
    pub write: bool,
    /// The stages up to `from_ps` stand in the manager's `prefixes`; else they are the manager's own time
    /// alone.
    prefixed: bool,
    /// It has been looked up, and was counted.
    counted: bool,
    /// It goes on once an older request of its page has come to its line.
    behind: bool,
    pub address: u64,
    submitted_ps: u64,
    /// Up to when its stages are known.
    pub from_ps: u64,
}

/// A request in the wait queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub slot: u32,
    /// The entry whose busy bit it waits for.
    pub set: u32,
    /// Its number since the start: its place in the ring.
    pub number: u64,
}

/// The address manager and NVMe engine of HAMS (\[HAMS21\] §V): the NVDIMM as an inclusive,
/// direct-mapped cache of the drive's pages.
///
/// It takes requests ([`Manager::submit`]), time ([`Manager::advance`]) and completions, and appends what
/// is to be done ([`Action`]) to a list. The simulator drives it with simulated time; any other driver
/// can, with any clock that does not go back.
///
/// - A request holds one of `queue_depth` places from submission to response.
/// - Tag and data come in one access: a request that finds its page takes no other. One that does not has
///   read its line for the tag.
/// - A miss sets B. It copies a dirty victim into a slot of the PRP pool, has that written and its own page
///   read, in this order of the submission queue, and clears B once both completions are consumed.
/// - Whoever finds B set waits in order of coming, and looks up anew when it is cleared; so does the
///   request that began the miss. A page lies in one frame only, so that nothing that concerns it can begin
///   while B is set.
/// - Requests of one page come to their lines in the order in which they were submitted.
/// - Where the wait queue, the submission queue or the PRP pool has no room, a request stands still, and
///   no more are taken until it goes on. What it waits for depends on devices only, never on a request.
#[derive(Debug)]
pub struct Manager {
    pub(super) shape: Shape,
    pub(super) layout: Layout,
    pub(super) tags: TagStore<Fifo>,
    pub(super) held: Slab<Held>,
    /// Stages of requests that did not go straight to their line.
    prefixes: Vec<Timeline>,
    /// Requests on the way through the manager, with the time when they are looked up.
    pub(super) pipeline: BoundedQueue<(u64, u32)>,
    pub(super) uses: Slab<Use>,
    pub(super) misses: Slab<Miss>,
    pub(super) commands: Slab<Command>,
    /// Persist mode: commands that wait for the one that is under way.
    pub(super) turn: VecDeque<u32>,
    /// Persist mode: whether a command is under way.
    pub(super) busy: bool,
    pub(super) wait_queue: VecDeque<Waiting>,
    /// Requests that ever entered it.
    pub(super) waited: u64,
    /// Requests that stand still, the oldest first.
    pub(super) stalled: VecDeque<u32>,
    /// Requests that have been looked up and have not come to their line, the oldest first.
    pub(super) delayed: Vec<u32>,
    pub(super) queues: Queues,
    /// Evictions of a flush that are under way.
    pub(super) flushing: u32,
    /// Where a flush goes on.
    pub(super) flush_from: u64,
    pub(super) traffic: Traffic,
    pub(super) report: HamsReport,
    pub(super) lookups: u64,
    pub(super) misses_counted: u64,
    /// Where data are checked.
    pub(super) versions: Option<Box<Versions>>,
    /// What the drive fetches by itself.
    pub(super) fetching: Fetching,
    /// What is left out on purpose.
    pub(super) weaknesses: Weaknesses,
    /// Entries whose busy bit was set when power failed.
    pub(super) interrupted: Vec<WayRef>,
}

impl Manager {
    /// A manager of an empty cache, or of one that is prefilled with unrelated clean pages.
    pub(super) fn new(shape: Shape, layout: Layout, check_data: bool) -> Self {
        let depth = shape.queue_depth;
        let prefilled = shape.initial == InitialContent::Prefilled;
        Manager {
            tags: TagStore::new(layout.frames, 1, prefilled, 0),
            held: Slab::new(),
            prefixes: vec![Timeline::new(); depth],
            pipeline: BoundedQueue::with_capacity(depth),
            uses: Slab::new(),
            misses: Slab::new(),
            commands: Slab::new(),
            turn: VecDeque::new(),
            busy: false,
            wait_queue: VecDeque::new(),
            waited: 0,
            stalled: VecDeque::new(),
            delayed: Vec::new(),
            queues: Queues::new(shape.queue_entries, shape.slots),
            flushing: 0,
            flush_from: 0,
            traffic: Traffic::default(),
            report: HamsReport::default(),
            lookups: 0,
            misses_counted: 0,
            versions: check_data.then(|| Box::new(Versions::new(shape.line_bytes))),
            fetching: Fetching::Nothing,
            weaknesses: Weaknesses::default(),
            interrupted: Vec::new(),
            shape,
            layout,
        }
    }

    // ---- Driver ---------------------------------------------------------------------------------

    /// Takes a request at `now_ps`.
    ///
    /// # Errors
    /// [`Full`] while it holds as many as it may, or while one stands still.
    pub fn submit(&mut self, now_ps: u64, request: LineRequest) -> Result<(), Full> {
        if self.held.len() >= self.shape.queue_depth || !self.stalled.is_empty() {
            return Err(Full);
        }
        let LineRequest { id, address, write, .. } = request;
        let slot = self.held.insert(Held {
            id,
            write,
            prefixed: false,
            counted: false,
            behind: false,
            address,
            submitted_ps: now_ps,
            from_ps: now_ps,
        });
        if let Some(versions) = &mut self.versions {
            versions.requests.submit(slot, &request);
        }
        let entered = self.pipeline.push((now_ps + self.shape.latency_ps, slot));
        debug_assert!(entered.is_ok(), "the pipeline has a place for each request held");
        Ok(())
    }

    /// When it wants to be advanced next, if it does not wait for completions only.
    #[inline]
    pub fn next_event_ps(&self) -> Option<u64> {
        self.pipeline.front().map(|(at_ps, _)| *at_ps)
    }

    /// Does what is due until `now_ps`, which never goes back between calls of any kind.
    #[inline]
    pub fn advance(&mut self, now_ps: u64, actions: &mut Vec<Action>) {
        while let Some(&(_, slot)) = self.pipeline.front().filter(|(at_ps, _)| *at_ps <= now_ps) {
            self.pipeline.pop();
            self.held[slot].from_ps = now_ps;
            self.look_up(slot, actions);
        }
    }

    /// An access to the NVDIMM is complete. `stages` are those of the time since it was given out.
    #[inline]
    pub fn memory_done(
        &mut self,
        now_ps: u64,
        token: u32,
        stages: &Timeline,
        actions: &mut Vec<Action>,
    ) {
        match self.uses.remove(token) {
            Use::Line(slot) => self.respond(now_ps, slot, stages, actions),
            Use::Probe(slot) => {
                self.pass(now_ps, slot, stages);
                self.decide(now_ps, slot, actions);
            }
            Use::CloneRead { miss, part } => self.clone_read(miss, part, actions),
            Use::CloneWrite { miss, part } => self.cloned(now_ps, miss, part, actions),
            Use::Step(command) => self.stepped(now_ps, command, stages, actions),
            Use::Fill { command, part } => self.filled(now_ps, command, part, actions),
            Use::Pull { command } => self.pulled(now_ps, command, actions),
            Use::Posted => {}
        }
    }

    /// Tells how much its queues hold.
    pub fn depths(&self, tell: &mut Tell<'_>) {
        tell("controller.lines", self.held.len());
        tell("controller.fills", self.misses.len());
    }

    /// Requests held, misses and accesses under way.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.held.len() + self.misses.len() + self.uses.len()
    }

    /// Tokens of accesses to the NVDIMM are below this.
    pub(super) fn tokens(&self) -> usize {
        let commands = 2 * self.shape.queue_depth + super::miss::FLUSHES as usize;
        commands * (self.shape.parts() as usize + 16) + 16 * self.shape.queue_depth
    }

    // ---- Requests -------------------------------------------------------------------------------

    /// Looks a request up: its line is read or written where it finds its page, and else read for its tag.
    #[inline]
    fn look_up(&mut self, slot: u32, actions: &mut Vec<Action>) {
        let Held { address, write, counted, .. } = self.held[slot];
        let page = address >> self.shape.page_shift;
        let found = self.tags.lookup(page).filter(|way| !self.is_busy(*way));
        let tag_first = write && self.shape.tag_before_write;
        if !counted {
            self.held[slot].counted = true;
            self.lookups += 1;
            self.misses_counted += u64::from(found.is_none());
            self.report.counts.hits += u64::from(found.is_some());
            if let Some(way) = found.filter(|_| self.delayed.is_empty() && !tag_first) {
                return self.access(slot, way, actions);
            }
            self.delayed.push(slot);
        }
        match found {
            Some(way) if counted || !tag_first => self.access_in_turn(slot, way, actions),
            _ => self.probe(slot, actions),
        }
    }

    /// Whether commands for an entry are under way, as requests see it.
    #[inline]
    fn is_busy(&self, way: WayRef) -> bool {
        self.tags.flags(way) & BUSY != 0 && !self.weaknesses.has(Weakness::NoBusyBits)
    }

    /// A delayed request whose page is there comes to its line once no older one of its page has to.
    fn access_in_turn(&mut self, slot: u32, way: WayRef, actions: &mut Vec<Action>) {
        let page = |slot: &u32| self.held[*slot].address >> self.shape.page_shift;
        let own = page(&slot);
        let place = self.delayed.iter().position(|other| page(other) == own);
        let Some(place) = place.filter(|place| self.delayed[*place] == slot) else {
            self.held[slot].behind = true;
            return;
        };
        self.delayed.remove(place);
        self.access(slot, way, actions);
        let page = |slot: &u32| self.held[*slot].address >> self.shape.page_shift;
        let next = self.delayed.iter().copied().find(|other| page(other) == own);
        if let Some(next) = next.filter(|next| self.held[*next].behind) {
            self.held[next].behind = false;
            self.access_in_turn(next, way, actions);
        }
    }

    /// The line of a request whose page is there.
    #[inline]
    fn access(&mut self, slot: u32, way: WayRef, actions: &mut Vec<Action>) {
        let Held { address, write, .. } = self.held[slot];
        if write {
            self.tags.set_dirty(way);
        }
        let place = self.line_in(way.set(), address);
        if let Some(versions) = &mut self.versions {
            versions.access(slot, place);
        }
        let bytes = self.shape.line_bytes;
        self.report.counts.hit_bytes += u64::from(bytes);
        self.memory(Use::Line(slot), (place, bytes), write, false, actions);
    }

    /// Reads the line of a request for its tag.
    fn probe(&mut self, slot: u32, actions: &mut Vec<Action>) {
        let address = self.held[slot].address;
        let frame = self.tags.set_of(address >> self.shape.page_shift);
        let place = self.line_in(frame, address);
        self.report.counts.tag_bytes += u64::from(self.shape.line_bytes);
        self.memory(Use::Probe(slot), (place, self.shape.line_bytes), false, false, actions);
    }

    /// The tag of a request has been read: what it finds now counts.
    fn decide(&mut self, now_ps: u64, slot: u32, actions: &mut Vec<Action>) {
        let page = self.held[slot].address >> self.shape.page_shift;
        if let Some(way) = self.tags.lookup(page) {
            if !self.is_busy(way) {
                return self.access_in_turn(slot, way, actions);
            }
            return self.wait(slot, way.set(), actions);
        }
        match self.tags.place(page) {
            Place::Pinned => self.wait(slot, self.tags.set_of(page), actions),
            Place::Free(way) => self.begin(now_ps, slot, way, None, actions),
            Place::Taken(way, victim) => {
                let dirty = victim.line.filter(|_| victim.dirty());
                self.begin(now_ps, slot, way, dirty, actions);
            }
        }
    }

    /// A request enters the wait queue, or stands still where that is full.
    fn wait(&mut self, slot: u32, set: u32, actions: &mut Vec<Action>) {
        if self.wait_queue.len() >= self.shape.wait_entries {
            return self.stall(slot);
        }
        self.enter_wait_queue(slot, set, actions);
    }

    pub(super) fn enter_wait_queue(&mut self, slot: u32, set: u32, actions: &mut Vec<Action>) {
        let number = self.waited;
        self.waited += 1;
        self.wait_queue.push_back(Waiting { slot, set, number });
        self.report.counts.waits += 1;
        self.report.most_waiting = self.report.most_waiting.max(self.wait_queue.len() as u64);
        self.wait_entry(number, true, actions);
    }

    fn wait_entry(&mut self, number: u64, write: bool, actions: &mut Vec<Action>) {
        let place = self.layout.waiting(number);
        self.report.counts.wait_bytes += self.lines_bytes(place);
        self.memory(Use::Posted, place, write, false, actions);
    }

    pub(super) fn stall(&mut self, slot: u32) {
        self.report.counts.pushed_back += 1;
        self.stalled.push_back(slot);
    }

    /// B of an entry was cleared: those who waited for it look up anew, in order. `stages` are those of
    /// what they have waited for.
    pub(super) fn wake(
        &mut self,
        now_ps: u64,
        set: u32,
        stages: &Timeline,
        actions: &mut Vec<Action>,
    ) {
        let mut index = 0;
        let mut woken = Vec::new();
        while index < self.wait_queue.len() {
            if self.wait_queue[index].set == set {
                woken.extend(self.wait_queue.remove(index));
            } else {
                index += 1;
            }
        }
        for Waiting { slot, number, .. } in woken {
            self.report.counts.waited_ps += now_ps - self.held[slot].from_ps;
            self.wait_entry(number, false, actions);
            self.pass(now_ps, slot, stages);
            self.look_up(slot, actions);
        }
        self.go_on(now_ps, actions);
    }

    /// Those that stand still look up anew while there is room for a miss.
    pub(super) fn go_on(&mut self, now_ps: u64, actions: &mut Vec<Action>) {
        while self.has_room(true)
            && let Some(slot) = self.stalled.pop_front()
        {
            self.pass(now_ps, slot, &Timeline::new());
            self.look_up(slot, actions);
        }
    }

    /// Whether there is room for a miss, with a dirty victim or without, and for the request that begins it.
    pub(super) fn has_room(&self, dirty: bool) -> bool {
        self.wait_queue.len() < self.shape.wait_entries
            && self.queues.has_room(1 + u64::from(dirty), usize::from(dirty))
    }

    /// Time has passed for a request that has not come to its line: `stages` tell of its end.
    fn pass(&mut self, now_ps: u64, slot: u32, stages: &Timeline) {
        let mut prefix = self.stages_of(slot);
        append_tail(&mut prefix, stages, now_ps - self.held[slot].from_ps);
        self.prefixes[slot as usize] = prefix;
        let held = &mut self.held[slot];
        (held.prefixed, held.from_ps) = (true, now_ps);
    }

    #[inline]
    fn stages_of(&self, slot: u32) -> Timeline {
        let held = &self.held[slot];
        if held.prefixed {
            return self.prefixes[slot as usize];
        }
        let mut own = Timeline::new();
        own.push(Stage::Controller, held.from_ps - held.submitted_ps);
        own
    }

    #[inline]
    fn respond(&mut self, now_ps: u64, slot: u32, done: &Timeline, actions: &mut Vec<Action>) {
        let mut stages = self.stages_of(slot);
        append_tail(&mut stages, done, now_ps - self.held[slot].from_ps);
        let id = self.held.remove(slot).id;
        let response = LineResponse { id, at_ps: now_ps, stages, version: 0 };
        actions.push(Action::Respond { request: slot, response });
    }

    // ---- NVDIMM ---------------------------------------------------------------------------------

    /// The line of an address in a frame.
    #[inline]
    fn line_in(&self, frame: u32, address: u64) -> u64 {
        let line = u64::from(self.shape.line_bytes);
        let offset = address & (self.layout.page_bytes - 1);
        self.layout.frame(frame) + offset / line * line
    }

    /// Bytes of the lines that an access touches.
    pub(super) fn lines_bytes(&self, (address, bytes): (u64, u32)) -> u64 {
        let line = u64::from(self.shape.line_bytes);
        (address + u64::from(bytes)).next_multiple_of(line) - address / line * line
    }

    /// Reads or writes the NVDIMM: all lines that it touches are moved.
    #[inline]
    pub(super) fn memory(
        &mut self,
        what: Use,
        place: (u64, u32),
        write: bool,
        background: bool,
        actions: &mut Vec<Action>,
    ) {
        let moved_bytes = self.lines_bytes(place);
        self.traffic.move_dram(moved_bytes, write);
        let token = self.uses.insert(what);
        let (address, bytes) = place;
        actions.push(Action::Memory { token, address, bytes, write, background });
    }

    /// The entry of a frame is written, because its bits change.
    pub(super) fn write_tag(&mut self, frame: u32, actions: &mut Vec<Action>) {
        let place = (self.layout.frame(frame), self.shape.line_bytes);
        self.report.counts.tag_bytes += u64::from(self.shape.line_bytes);
        self.memory(Use::Posted, place, true, false, actions);
    }

    // ---- Counts ---------------------------------------------------------------------------------

    /// What was counted so far.
    pub(super) fn report(&self) -> OrganizationReport {
        let counts = &self.report.counts;
        OrganizationReport {
            lookups: self.lookups,
            misses: self.misses_counted,
            fetched_pages: counts.fills,
            displaced_pages: counts.evictions,
            write_backs: counts.evictions,
            traffic: self.traffic,
            stale_reads: self.versions.as_ref().map_or(0, |versions| versions.requests.stale_reads),
            hams: Some(self.report),
            ..OrganizationReport::default()
        }
    }

    /// What HAMS counted of itself.
    pub fn hams_report(&self) -> HamsReport {
        self.report
    }

    /// The queue pair and the PRP pool.
    pub fn queues(&self) -> &Queues {
        &self.queues
    }

    /// Versions of what was submitted and answered, where data are checked.
    ///
    /// # Panics
    /// If they are not.
    pub(super) fn followed(&self) -> &RequestVersions {
        match &self.versions {
            Some(versions) => &versions.requests,
            None => unreachable!("whoever follows contents checks data"),
        }
    }

    /// Whether one command is under way at most.
    pub(super) fn is_persistent(&self) -> bool {
        self.shape.mode == Mode::Persist
    }

    /// Whether the drive shares the NVDIMM's channel.
    pub(super) fn is_tight(&self) -> bool {
        self.shape.coupling == Coupling::Tight
    }

    /// A second one that stands where this one stands.
    pub(super) fn fork(&mut self) -> Self {
        Manager {
            shape: self.shape,
            layout: self.layout.clone(),
            tags: self.tags.fork(),
            held: self.held.clone(),
            prefixes: self.prefixes.clone(),
            pipeline: self.pipeline.clone(),
            uses: self.uses.clone(),
            misses: self.misses.clone(),
            commands: self.commands.clone(),
            turn: self.turn.clone(),
            wait_queue: self.wait_queue.clone(),
            stalled: self.stalled.clone(),
            delayed: self.delayed.clone(),
            queues: self.queues.clone(),
            versions: self.versions.as_mut().map(|versions| Box::new(versions.fork())),
            interrupted: self.interrupted.clone(),
            ..*self
        }
    }
}
