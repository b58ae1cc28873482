//! Commands: the NVMe engine.

use super::action::{Action, Use};
use super::manager::Manager;
use super::queues::Submission;
use super::versions::{Mover, Spot, Versions};
use crate::organization::hybrid::append_tail;
use crate::power::{Content, Weakness};
use crate::request::{Fetching, Manner};
use tierscope_kernel::{Stage, Timeline};

/// Parts of a page that the drive pulls from the NVDIMM at a time.
const PULLS: u32 = 4;

/// What a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Writes the clone of a victim.
    Evict,
    /// Reads a page into its frame.
    Fill,
}

/// What is under way of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It waits for another one (persist mode).
    Turn,
    /// The engine writes its entry and its PRP list.
    Compose,
    /// The drive fetches them, or the entry alone.
    Fetch,
    /// It fetches the list by itself.
    FetchList,
    /// The drive has been rung, and carries it out.
    Drive,
    /// The drive writes the completion and the interrupt.
    Complete,
    /// The engine reads the completion, and clears the journal tag.
    Consume,
}

/// A command under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    miss: u32,
    kind: Kind,
    /// The page, in pages of the cache.
    page: u64,
    /// Where it lies in the NVDIMM: a frame or a clone.
    memory_address: u64,
    step: Step,
    /// Its number in the submission queue, and that of its completion.
    number: u64,
    completion: u64,
    /// Accesses to the NVDIMM that its step waits for.
    outstanding: u32,
    /// Parts of its page that are on the way between NVDIMM and drive, or have come; and those that have.
    moving: u32,
    moved: u32,
    /// Whether the drive has done its part.
    drive_done: bool,
    stages: Timeline,
    /// Stages of those before it, for which it waited. Apart from its own: of these others take the last,
    /// and so they must be in the order of time, which a timeline keeps only while it has room.
    waited: Timeline,
    /// Up to when its stages are known.
    charged_ps: u64,
}

impl Command {
    fn charge(&mut self, now_ps: u64, stages: &Timeline) {
        append_tail(&mut self.stages, stages, now_ps - self.charged_ps);
        self.charged_ps = now_ps;
    }

    fn pass(&mut self, now_ps: u64, stage: Stage) {
        self.stages.push(stage, now_ps - self.charged_ps);
        self.charged_ps = now_ps;
    }
}

impl Manager {
    /// A command of a miss begins, or waits for its turn.
    pub(super) fn give_command(
        &mut self,
        now_ps: u64,
        miss: u32,
        kind: Kind,
        actions: &mut Vec<Action>,
    ) {
        let it = &self.misses[miss];
        let (page, memory_address) = match (kind, it.victim) {
            (Kind::Evict, Some((victim, _))) if self.weaknesses.has(Weakness::NoClones) => {
                (victim, self.layout.frame(it.way.set()))
            }
            (Kind::Evict, Some((victim, slot))) => (victim, self.layout.slot(slot)),
            _ => (it.page, self.layout.frame(it.way.set())),
        };
        let index = self.commands.insert(Command {
            miss,
            kind,
            page,
            memory_address,
            step: Step::Turn,
            number: 0,
            completion: 0,
            outstanding: 0,
            moving: 0,
            moved: 0,
            drive_done: false,
            stages: Timeline::new(),
            waited: Timeline::new(),
            charged_ps: now_ps,
        });
        if self.is_persistent() && self.busy {
            self.turn.push_back(index);
        } else {
            self.compose(index, actions);
        }
    }

    /// An access to the NVDIMM that a command's step waits for.
    fn step_access(
        &mut self,
        index: u32,
        place: (u64, u32),
        write: bool,
        actions: &mut Vec<Action>,
    ) {
        self.commands[index].outstanding += 1;
        self.memory(Use::Step(index), place, write, false, actions);
    }

    fn queue_access(
        &mut self,
        index: u32,
        place: (u64, u32),
        write: bool,
        actions: &mut Vec<Action>,
    ) {
        self.report.counts.command_bytes += self.lines_bytes(place);
        self.step_access(index, place, write, actions);
    }

    /// The engine writes the entry of a command, with its journal tag in extend mode, and its PRP list. A
    /// drive on the channel gets no list: it is told the first byte and the length.
    fn compose(&mut self, index: u32, actions: &mut Vec<Action>) {
        self.busy = true;
        let Command { miss, kind, page, memory_address, .. } = self.commands[index];
        let write = kind == Kind::Evict;
        let journal = !self.is_persistent() && !self.weaknesses.has(Weakness::NoJournalTags);
        let it = &self.misses[miss];
        let number = self.queues.submit(Submission {
            number: 0,
            write,
            page,
            memory_address,
            slot: it.victim.filter(|_| write).map(|(_, slot)| slot),
            frame: (!write).then(|| it.way.set()),
            force_unit_access: self.is_persistent(),
            journal,
            consumed: false,
        });
        self.report.counts.journal_tags += u64::from(journal);
        let command = &mut self.commands[index];
        (command.number, command.step) = (number, Step::Compose);
        command.waited = std::mem::take(&mut command.stages);
        if write {
            self.victim_is_safe(miss);
        }
        self.queue_access(index, self.layout.submission(number), true, actions);
        if self.is_tight() {
            let place = self.layout.mapping(page);
            self.report.counts.mapping_bytes += self.lines_bytes(place);
            self.step_access(index, place, false, actions);
        } else if let Some(list) = self.layout.list(number) {
            self.queue_access(index, list, true, actions);
        }
    }

    /// An access of a step has ended; with the last, the step has.
    pub(super) fn stepped(
        &mut self,
        now_ps: u64,
        index: u32,
        stages: &Timeline,
        actions: &mut Vec<Action>,
    ) {
        let command = &mut self.commands[index];
        command.outstanding -= 1;
        if command.outstanding > 0 {
            return;
        }
        // A drive reads its medium while it fetches where that is to go.
        if command.step != Step::FetchList || command.kind == Kind::Evict {
            command.charge(now_ps, stages);
        }
        let step = command.step;
        match step {
            Step::Compose if !self.is_tight() && self.fetching == Fetching::Nothing => {
                self.fetch(index, Step::Fetch, actions);
            }
            Step::Fetch if self.fetching != Fetching::Nothing => {
                self.fetched(index, false, actions);
            }
            Step::FetchList => self.fetched(index, true, actions),
            Step::Compose | Step::Fetch => self.ring(index, actions),
            Step::Complete => self.consume(index, actions),
            Step::Consume => self.end(now_ps, index, actions),
            Step::Turn | Step::Drive => {
                unreachable!("no access is waited for in step {step:?}")
            }
        }
    }

    /// The entry and the list are read for the drive, or what it fetches of them in this step.
    fn fetch(&mut self, index: u32, step: Step, actions: &mut Vec<Action>) {
        let command = &mut self.commands[index];
        command.step = step;
        let number = command.number;
        if step == Step::Fetch {
            self.queue_access(index, self.layout.submission(number), false, actions);
        }
        let by_itself = self.fetching == Fetching::CommandsAndLists;
        if let Some(list) =
            self.layout.list(number).filter(|_| by_itself == (step == Step::FetchList))
        {
            self.queue_access(index, list, false, actions);
        }
    }

    /// The drive fetches a command, or its list. `stages` are those since it took it, or had what it fetched before;
    /// none of what it reads meanwhile.
    pub fn drive_fetches(
        &mut self,
        now_ps: u64,
        index: u32,
        list: bool,
        stages: &Timeline,
        actions: &mut Vec<Action>,
    ) {
        let command = &mut self.commands[index];
        if !list || command.kind == Kind::Evict {
            command.charge(now_ps, stages);
        }
        self.fetch(index, if list { Step::FetchList } else { Step::Fetch }, actions);
        if self.commands[index].outstanding == 0 {
            self.fetched(index, list, actions);
        }
    }

    /// What the drive fetches has been read; once it knows the command, it pulls what it is to write.
    fn fetched(&mut self, index: u32, list: bool, actions: &mut Vec<Action>) {
        let command = &mut self.commands[index];
        command.step = Step::Drive;
        if !list && command.kind == Kind::Evict {
            self.pull_more(index, actions);
        }
        actions.push(Action::Fetched { command: index, list });
    }

    /// The drive is rung; one that fetches nothing gets the command, and pulls what it is to write as it goes.
    fn ring(&mut self, index: u32, actions: &mut Vec<Action>) {
        self.commands[index].step = Step::Drive;
        let Command { kind, page, .. } = self.commands[index];
        let write = kind == Kind::Evict;
        let parts = self.shape.parts();
        let name = |versions: &mut Box<Versions>| if write { versions.name(parts) } else { 0 };
        let content = self.versions.as_mut().map_or(0, name);
        for part in 0..parts {
            self.begin_move(index, part, content);
        }
        if write && self.weaknesses.has(Weakness::EarlyCompletion) {
            self.complete_early(index);
        }
        if write && !self.is_tight() && self.fetching == Fetching::Nothing {
            self.pull_more(index, actions);
        }
        let pages = (!write).then_some(index * parts);
        actions.push(Action::Command {
            command: index,
            address: page << self.shape.page_shift,
            bytes: self.layout.page_bytes as u32,
            write,
            manner: Manner {
                force_unit_access: self.is_persistent(),
                pages,
                content,
                ..Manner::default()
            },
        });
    }

    /// The completion of a write is taken for granted once the drive has been rung: its entry and its clone
    /// are given up (a weakness).
    fn complete_early(&mut self, index: u32) {
        let Command { miss, number, .. } = self.commands[index];
        self.queues.consume(number);
        if let Some((_, slot)) = self.misses[miss].victim {
            self.queues.free_slot(slot);
        }
    }

    /// Whether the completion of a command has been taken for granted.
    fn is_early(&self, kind: Kind) -> bool {
        kind == Kind::Evict && self.weaknesses.has(Weakness::EarlyCompletion)
    }

    /// `content` is what the drive calls the first page of what is written.
    fn begin_move(&mut self, index: u32, part: u32, content: Content) {
        let Command { kind, page, memory_address, .. } = self.commands[index];
        let bytes = u64::from(self.shape.part_bytes);
        let offset = u64::from(part) * bytes;
        let memory = Spot::Memory(memory_address + offset);
        let drive = Spot::Drive((page << self.shape.page_shift) + offset);
        if let Some(versions) = &mut self.versions {
            let (way, content) = match kind {
                Kind::Evict => ((memory, drive), content + u64::from(part)),
                Kind::Fill => ((drive, memory), 0),
            };
            versions.begin(Mover::Command(index, part), way, bytes, content);
        }
    }

    fn end_move(&mut self, index: u32, part: u32) {
        if let Some(versions) = &mut self.versions {
            versions.end(Mover::Command(index, part));
        }
    }

    /// Where a part of a command's page lies in the NVDIMM.
    fn part_place(&self, index: u32, part: u32) -> (u64, u32) {
        let bytes = self.shape.part_bytes;
        (self.commands[index].memory_address + u64::from(part) * u64::from(bytes), bytes)
    }

    fn pull_more(&mut self, index: u32, actions: &mut Vec<Action>) {
        while let Command { moving, moved, .. } = self.commands[index]
            && moving < self.shape.parts().min(moved + PULLS)
        {
            self.commands[index].moving += 1;
            let place = self.part_place(index, moving);
            self.report.counts.dma_bytes += u64::from(place.1);
            self.memory(Use::Pull { command: index }, place, false, true, actions);
        }
    }

    pub(super) fn pulled(&mut self, now_ps: u64, index: u32, actions: &mut Vec<Action>) {
        self.commands[index].moved += 1;
        self.pull_more(index, actions);
        self.end_drive(now_ps, index, actions);
    }

    /// The command and the part of it that a number of a page stands for.
    pub(super) fn page_of(&self, number: u32) -> (u32, u32) {
        (number / self.shape.parts(), number % self.shape.parts())
    }

    // ---- Drive ----------------------------------------------------------------------------------

    /// The drive has taken a command, which may have waited for room in it.
    pub fn command_taken(&mut self, now_ps: u64, command: u32) {
        self.commands[command].pass(now_ps, Stage::StoreQueue);
    }

    /// A page of the drive that a command reads has come.
    pub fn page_came(&mut self, index: u32, part: u32, actions: &mut Vec<Action>) {
        self.commands[index].moving += 1;
        if self.is_tight() {
            return;
        }
        let place = self.part_place(index, part);
        self.report.counts.dma_bytes += u64::from(place.1);
        self.memory(Use::Fill { command: index, part }, place, true, true, actions);
    }

    pub(super) fn filled(&mut self, now_ps: u64, index: u32, part: u32, actions: &mut Vec<Action>) {
        self.end_move(index, part);
        self.commands[index].moved += 1;
        self.end_drive(now_ps, index, actions);
    }

    /// The drive says that a command is done. `stages` are those since it took it.
    pub fn command_done(
        &mut self,
        now_ps: u64,
        index: u32,
        stages: &Timeline,
        actions: &mut Vec<Action>,
    ) {
        let command = &mut self.commands[index];
        command.charge(now_ps, stages);
        command.drive_done = true;
        // A drive that brings its pages together has not told of any.
        if command.kind == Kind::Fill && command.moving == 0 {
            for part in 0..self.shape.parts() {
                self.page_came(index, part, actions);
            }
        }
        self.end_drive(now_ps, index, actions);
    }

    /// The completion is written once the drive is done and the last byte has moved. On the channel, data go
    /// straight between flash and NVDIMM: the link has moved them, and nothing moves them again.
    fn end_drive(&mut self, now_ps: u64, index: u32, actions: &mut Vec<Action>) {
        let (parts, tight) = (self.shape.parts(), self.is_tight());
        let command = &mut self.commands[index];
        if !command.drive_done || !tight && command.moved < parts {
            return;
        }
        command.pass(now_ps, Stage::Dma);
        let write = command.kind == Kind::Evict;
        if tight {
            self.traffic.move_dram(self.layout.page_bytes, !write);
            self.report.counts.dma_bytes += self.layout.page_bytes;
        }
        self.traffic.move_store(self.layout.page_bytes, write);
        for part in 0..parts {
            self.end_move(index, part);
        }
        self.complete(index, actions);
    }

    fn complete(&mut self, index: u32, actions: &mut Vec<Action>) {
        let command = &mut self.commands[index];
        command.step = Step::Complete;
        let (number, kind) = (command.number, command.kind);
        let completion = self.queues.post(number);
        if self.is_early(kind) {
            self.queues.take(number);
        }
        self.commands[index].completion = completion;
        self.queue_access(index, self.layout.completion(completion), true, actions);
        if !self.is_tight() {
            self.queue_access(index, self.layout.interrupt(), true, actions);
        }
    }

    fn consume(&mut self, index: u32, actions: &mut Vec<Action>) {
        let command = &mut self.commands[index];
        command.step = Step::Consume;
        let Command { number, kind, page, completion, .. } = *command;
        self.queue_access(index, self.layout.completion(completion), false, actions);
        if !self.is_persistent() {
            self.queue_access(index, self.layout.submission(number), true, actions);
        }
        if self.is_tight() && kind == Kind::Evict {
            let place = self.layout.mapping(page);
            self.report.counts.mapping_bytes += self.lines_bytes(place);
            self.memory(Use::Posted, place, true, false, actions);
        }
    }

    /// A completion has been consumed; in persist mode it is the next one's turn.
    fn end(&mut self, now_ps: u64, index: u32, actions: &mut Vec<Action>) {
        let Command { miss, kind, number, stages, mut waited, .. } = self.commands.remove(index);
        if !self.is_early(kind) {
            self.queues.consume(number);
        }
        self.busy = false;
        for waiting in &self.turn {
            self.commands[*waiting].charge(now_ps, &stages);
        }
        // What ended may clear the way for another miss: whoever had to wait goes before.
        if let Some(next) = self.turn.pop_front() {
            self.compose(next, actions);
        }
        waited.append(&stages);
        self.command_ended(now_ps, miss, kind, &waited, actions);
    }
}
