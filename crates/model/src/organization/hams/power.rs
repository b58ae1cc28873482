//! Failures of power and recovery (\[HAMS21\] §V-C).
//!
//! What survives lies in the NVDIMM: frames with their tags, clones, and the queue pair. Recovery looks for
//! commands of which nobody knows whether they were carried out: in extend mode those whose journal tag is
//! set, in persist mode those without a completion. Their entries go into a fresh queue pair, and they are
//! carried out again, evictions from their clones. A frame of an unfinished fill that is not carried out
//! again holds nothing; every busy bit is cleared in the end.

use super::manager::{BUSY, FILLING, Manager};
use super::miss::Miss;
use super::queues::{Queues, Submission};
use super::versions::{GONE, Spot};
use super::{Action, Hams, Layout};
use crate::cache::{TagStore, WayRef};
use crate::medium::BackupSpec;
use crate::organization::hybrid::Port;
use crate::power::{
    Guarantees, Origin, Outage, PowerFailure, Recovery, Saving, Step, UnderWay, Weakness,
    Weaknesses,
};
use crate::request::{Completion, Device, Request};
use std::collections::BTreeMap;
use std::ops::Range;
use tierscope_kernel::{BoundedQueue, Slab, Stage};

/// What is to be done again for a frame.
#[derive(Clone, Copy, Debug, Default)]
struct Interrupted {
    /// The page that was on its way to the drive, and the slot of its clone.
    evict: Option<(u64, u32)>,
    /// The page that was on its way into the frame.
    fill: Option<u64>,
    /// A fill had ended.
    filled: bool,
}

impl Manager {
    /// What could be harmed.
    fn under_way(&self) -> UnderWay {
        let clones = |miss: &&Miss| miss.is_cloning(self.shape.parts());
        let misses = || self.misses.iter().map(|(_, miss)| miss);
        UnderWay {
            commands: self.queues.submissions().filter(|entry| !entry.consumed).count() as u64,
            clones: misses().filter(clones).count() as u64,
            fills: misses().filter(|miss| miss.fills).count() as u64,
            barriers: u64::from(self.is_persistent() && self.busy),
            ..UnderWay::default()
        }
    }

    /// The same, one by one: commands between issue and consumption, and clones.
    fn steps(&self) -> Vec<Step> {
        let open = self.queues.submissions().filter(|entry| !entry.consumed);
        let commands = open.map(|entry| Step {
            what: if entry.write { "evict" } else { "fill" },
            number: entry.number,
            address: entry.page << self.shape.page_shift,
        });
        let clones = self.misses.iter().filter(|(_, miss)| miss.is_cloning(self.shape.parts()));
        let clones = clones.map(|(index, miss)| Step {
            what: "clone",
            number: u64::from(index),
            address: miss.victim.map_or(miss.page, |(page, _)| page) << self.shape.page_shift,
        });
        commands.chain(clones).collect()
    }

    /// What was under way is gone: requests, misses, and what the engine did for them. Of tags and queues
    /// nothing changes.
    fn drop_work(&mut self) {
        self.interrupted.extend(self.misses.iter().map(|(_, miss)| miss.way));
        (self.misses, self.commands) = (Slab::new(), Slab::new());
        (self.held, self.uses) = (Slab::new(), Slab::new());
        self.pipeline = BoundedQueue::with_capacity(self.shape.queue_depth);
        self.turn.clear();
        self.wait_queue.clear();
        self.stalled.clear();
        self.delayed.clear();
        (self.busy, self.flushing) = (false, 0);
    }

    /// Where the lines of a page are found may have changed.
    pub(super) fn touch_page(&mut self, page: u64) {
        if let Some(versions) = &mut self.versions {
            let lines = self.layout.page_bytes / u64::from(self.shape.line_bytes);
            versions.requests.history.touch(page * lines, lines);
        }
    }

    /// Where the lines of the page in a frame are found changes.
    pub(super) fn touch_frame(&mut self, way: WayRef) {
        if let Some(page) = self.tags.line(way) {
            self.touch_page(page);
        }
    }

    /// A frame is another page's, which is on its way.
    pub(super) fn begin_filling(&mut self, way: WayRef, page: u64) {
        self.touch_frame(way);
        self.tags.insert_at(way, page, BUSY | FILLING);
        self.touch_page(page);
    }

    fn fresh_queues(&self) -> Queues {
        Queues::new(self.shape.queue_entries, self.shape.slots)
    }

    /// Nothing of the NVDIMM survives.
    fn forget_memory(&mut self) {
        self.tags = TagStore::new(self.layout.frames, 1, false, 0);
        self.queues = self.fresh_queues();
        self.interrupted.clear();
        if let Some(versions) = &mut self.versions {
            versions.forget_memory();
        }
    }

    /// Whether nobody knows that a command was carried out.
    fn is_open(&self, entry: &Submission) -> bool {
        let posted = || self.queues.completions().any(|posted| posted.command == entry.number);
        match self.is_persistent() {
            true => !entry.consumed && !posted(),
            false => entry.journal,
        }
    }

    /// What the submission queue says of each frame.
    fn interrupted_frames(&self) -> BTreeMap<u32, Interrupted> {
        let mut frames: BTreeMap<u32, Interrupted> = BTreeMap::new();
        for entry in self.queues.submissions() {
            let it = frames.entry(self.tags.set_of(entry.page)).or_default();
            match (self.is_open(entry), entry.write) {
                (true, true) => it.evict = entry.slot.map(|slot| (entry.page, slot)),
                (true, false) => it.fill = Some(entry.page),
                (false, true) => {}
                // Without its tag, nothing says that an entry was not carried out.
                (false, false) => it.filled = entry.consumed || self.is_persistent(),
            }
        }
        frames
    }

    /// Carries out again what was interrupted; how many commands.
    fn recover(&mut self, now_ps: u64, actions: &mut Vec<Action>) -> u64 {
        let frames = self.interrupted_frames();
        self.queues = self.fresh_queues();
        let mut again = Vec::new();
        for way in std::mem::take(&mut self.interrupted) {
            let it = frames.get(&way.set()).copied().unwrap_or_default();
            if let Some((_, slot)) = it.evict {
                self.queues.keep_slot(slot);
            }
            again.extend(self.settle_frame(now_ps, way, it));
        }
        let mut commands = 0;
        for miss in again {
            let count = u64::from(miss.fills) + u64::from(miss.victim.is_some());
            commands += count;
            self.queues.promise(count);
            self.flushing += u32::from(!miss.fills);
            let index = self.misses.insert(miss);
            self.give_commands(now_ps, index, actions);
        }
        commands
    }

    /// Puts the entry of a frame in order; what is to be done again for it.
    fn settle_frame(&mut self, now_ps: u64, way: WayRef, it: Interrupted) -> Option<Miss> {
        let filling = self.tags.flags(way) & FILLING != 0;
        let holds = self.tags.line(way);
        self.touch_frame(way);
        self.tags.clear_flags(way, BUSY);
        if filling && it.fill.is_none() {
            match holds {
                Some(_) if it.filled => self.tags.clear_flags(way, FILLING),
                Some(page) => drop(self.tags.invalidate(page)),
                None => {}
            }
        }
        if let Some(page) = it.fill {
            self.touch_page(page);
            self.tags.invalidate(page);
            if it.evict.is_none() {
                self.begin_filling(way, page);
            }
            return Some(Miss::new(now_ps, (page, way), true, it.evict));
        }
        let (page, _) = it.evict?;
        self.tags.set_flags(way, BUSY);
        Some(Miss::new(now_ps, (page, way), false, it.evict))
    }

    /// Lines of the clones of open evictions that are newer than what the drive has.
    fn open_lines(&self) -> u64 {
        let Some(versions) = &self.versions else { return 0 };
        let line_bytes = u64::from(self.shape.line_bytes);
        let open = self.queues.submissions().filter(|entry| entry.write && self.is_open(entry));
        let newer = |entry: &Submission| {
            let drive = entry.page << self.shape.page_shift;
            let of = |at: u64| {
                let saved = versions.at(Spot::Memory(entry.memory_address + at));
                saved > versions.at(Spot::Drive(drive + at))
            };
            let lines = (0..self.layout.page_bytes).step_by(line_bytes as usize);
            lines.filter(|at| of(*at)).count() as u64
        };
        open.map(newer).sum()
    }

    /// The version of a line, and where it is.
    fn found(&self, address: u64) -> Option<(u64, Origin)> {
        let versions = self.versions.as_ref()?;
        let page = address >> self.shape.page_shift;
        let offset = address & (self.layout.page_bytes - 1);
        let way = self.tags.lookup(page).filter(|way| self.tags.flags(*way) & FILLING == 0);
        let (spot, origin) = match way {
            Some(way) => (Spot::Memory(self.layout.frame(way.set()) + offset), Origin::Memory),
            None => (Spot::Drive(address), Origin::Store),
        };
        let version = versions.at(spot);
        (version != GONE).then_some((version, origin))
    }
}

/// What the NVDIMM does when power fails, and what recovery has to read of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Nvdimm {
    saving: Saving,
    /// Picoseconds to read the queue pair, and the tags of all frames.
    scan_ps: u64,
    /// When the controller had written what it had taken.
    drained_ps: u64,
}

/// Picoseconds in which a memory reads so many bytes from this address on, measured on a copy of it with the
/// first 64 KiB.
fn read_ps<D: Device>(memory: &D, (address, bytes): (u64, u64)) -> u64 {
    const CHUNK: u64 = 4096;
    let part = bytes.clamp(1, 16 * CHUNK);
    let (mut copy, mut done, mut now_ps) = (memory.clone(), Vec::<Completion>::new(), 0);
    let mut chunks = (0..part.div_ceil(CHUNK)).peekable();
    while let Some(&chunk) = chunks.peek() {
        let (from, left) = (chunk * CHUNK, part - chunk * CHUNK);
        let request = Request {
            id: chunk as u32,
            address: address + from,
            bytes: left.min(CHUNK) as u32,
            write: false,
            background: false,
        };
        if copy.submit(now_ps, request).is_ok() {
            chunks.next();
            continue;
        }
        let Some(next_ps) = copy.next_event_ps() else { break };
        now_ps = next_ps;
        copy.advance(now_ps, &mut done);
    }
    while let Some(next_ps) = copy.next_event_ps().filter(|_| copy.in_flight() > 0) {
        copy.advance(next_ps, &mut done);
    }
    let end_ps = done.iter().map(|one| one.at_ps).max().unwrap_or(0);
    (u128::from(end_ps) * u128::from(bytes) / u128::from(part)) as u64
}

impl<D: Device, S: Device> Hams<D, S> {
    /// The same, with an NVDIMM of `capacity_bytes` that saves itself as `backup` says; else nothing of it
    /// survives.
    #[must_use]
    pub fn with_backup(self, backup: Option<&BackupSpec>, capacity_bytes: u64) -> Self {
        let saving = Saving::new(backup, capacity_bytes);
        Hams { nvdimm: Box::new(Nvdimm { saving, ..Nvdimm::default() }), ..self }
    }

    /// Whether the NVDIMM saves itself.
    pub(super) fn saves(&self) -> bool {
        self.nvdimm.saving.holds(Weaknesses::default())
    }

    fn scan_ps(&self) -> u64 {
        let layout: &Layout = &self.manager.layout;
        let tags = layout.frames * u64::from(self.manager.shape.line_bytes);
        read_ps(self.memory.device(), layout.queue_pair())
            + read_ps(self.memory.device(), (0, tags))
    }
}

impl<D: Device, S: Device> PowerFailure for Hams<D, S> {
    fn prepare(&mut self, weaknesses: &[Weakness]) -> Result<(), Option<Weakness>> {
        let means_nothing = |one: &&Weakness| match one {
            Weakness::NoJournalTags => self.manager.is_persistent(),
            Weakness::NoBackup => !self.nvdimm.saving.is_backed(),
            Weakness::NoClones | Weakness::NoBusyBits | Weakness::EarlyCompletion => false,
            of_drive => !self.drive.can_lack(**of_drive),
        };
        if let Some(&one) = weaknesses.iter().find(means_nothing) {
            return Err(Some(one));
        }
        let all: Weaknesses = weaknesses.iter().copied().collect();
        // An early completion is the engine's: the drive keeps its word.
        let of_drive = weaknesses.iter().copied().filter(|one| *one != Weakness::EarlyCompletion);
        if !self.drive.follow_contents(of_drive.collect()) {
            return Err(None);
        }
        self.manager.weaknesses = all;
        let part_bytes = u64::from(self.manager.shape.part_bytes);
        match &mut self.manager.versions {
            Some(versions) => versions.follow(part_bytes),
            None => return Err(None),
        }
        self.nvdimm.scan_ps = self.scan_ps();
        Ok(())
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: "nothing while its line is in on-chip caches",
            flush: "survives, in the NVDIMM, once its line is written back",
            fua: match self.manager.is_persistent() {
                true => "in flash once its command is complete",
                false => "not used: a command is complete in the drive's buffer, behind capacitors",
            },
        }
    }

    fn under_way(&self) -> UnderWay {
        self.manager.under_way().together(&self.drive.under_way())
    }

    fn steps(&self) -> Vec<Step> {
        self.manager.steps()
    }

    /// What the NVDIMM's controller has taken is written before the NVDIMM is saved.
    fn cut(&mut self, now_ps: u64) -> Outage {
        let mut dropped = Vec::new();
        while let Some(at_ps) = self.memory.next_event_ps()
            && self.memory.device().in_flight() > 0
        {
            self.nvdimm.drained_ps = at_ps.max(now_ps);
            self.memory.device_mut().advance(at_ps, &mut dropped);
        }
        let memory = self.memory.device_mut().fork();
        self.memory = Port::new(memory, self.manager.tokens(), Stage::DramQueue);
        self.commands.clear();
        let of_drive = self.drive.cut_power(now_ps);
        if let Some(versions) = &mut self.manager.versions {
            let drive = &self.drive;
            versions.cut(&of_drive.touched, |address| drive.content(address));
        }
        self.manager.drop_work();
        match self.nvdimm.saving.save(self.manager.weaknesses) {
            Some(of_memory) => of_memory.with(of_drive),
            None => {
                self.manager.forget_memory();
                of_drive
            }
        }
    }

    fn recover(&mut self, now_ps: u64) -> Recovery {
        let now_ps = now_ps.max(self.nvdimm.drained_ps);
        let reissued_lines = self.manager.open_lines();
        let reissued = self.manager.recover(now_ps, &mut self.actions);
        self.execute(now_ps, &mut Vec::new());
        Recovery { scan_ps: self.nvdimm.scan_ps, reissued, reissued_lines, transactions: 0 }
    }

    fn found(&self, address: u64) -> Option<(u64, Origin)> {
        self.manager.found(address)
    }

    fn promised(&self, line: u64) -> u64 {
        self.manager.followed().history.answered().get(line)
    }

    fn promise(&mut self, line: u64, version: u64) {
        if let Some(versions) = &mut self.manager.versions {
            versions.requests.history.promise(line, version);
        }
    }

    fn synced(&self, line: u64) -> u64 {
        self.manager.followed().history.synced(line)
    }

    fn written(&self, line: u64) -> u64 {
        self.manager.followed().history.submitted().get(line)
    }

    fn each_written(&self, tell: &mut dyn FnMut(u64, u64)) {
        self.manager
            .followed()
            .history
            .submitted()
            .iter()
            .for_each(|(line, newest)| tell(line, newest));
    }

    fn touched(&mut self) -> Vec<Range<u64>> {
        let versions = self.manager.versions.as_mut();
        versions.map(|it| it.requests.history.take_touched()).unwrap_or_default()
    }

    fn line_of(&self, version: u64) -> Option<u64> {
        self.manager.followed().history.line_of(version)
    }
}
